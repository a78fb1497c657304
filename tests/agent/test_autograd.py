"""Looking at autograd graphs: torch keeps a trace of each look, and frees what has one by recursion."""

from __future__ import annotations

import subprocess
import sys

import pytest

pytestmark = pytest.mark.torch

LETS_GO_OF_A_CHAIN = """
import gc, sys, threading, time
import torch
from leakscope.agent.torch import autograd
from leakscope.agent.interpreter import census

def known():
    gc.disable()
    nodes = frozenset(map(id, census.sweep((), autograd.is_node)[1]))
    gc.enable()
    return nodes

def train():
    x = torch.ones(1, requires_grad=True)
    for _ in range(12):
        for _ in range(20_000):
            x = x * 1.0
        graphs = autograd.Graphs(False, {}, torch._C._storage_id, torch.Tensor, time.thread_time() + 60, known())
        if not graphs.is_spent():
            graphs.below(x.grad_fn)
        del graphs
    print(len(known()), autograd.most_seen(), threading.stack_size(), flush=True)
    x = x.detach()
    print("goes on")

if len(sys.argv) > 1:
    threading.stack_size(int(sys.argv[1]))
thread = threading.Thread(target=train)
thread.start()
thread.join()
"""


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.parametrize(
    "stack_bytes",
    [pytest.param([], id="usual-stack", marks=pytest.mark.slow), pytest.param([str(512 * 1024)], id="small-stack")],
)
def test_a_long_graph_that_was_looked_at_often_can_be_let_go(stack_bytes: list[str]) -> None:
    command = [sys.executable, "-c", LETS_GO_OF_A_CHAIN, *stack_bytes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stdout} {done.stderr}"
    figures, last = done.stdout.splitlines()
    seen, most, left_as_it_was = map(int, figures.split())
    assert last == "goes on"
    assert left_as_it_was == int(stack_bytes[0] if stack_bytes else 0)
    assert 0.3 * most < seen <= most + 2  # looked at, and not too many; a node's neighbours come with it
