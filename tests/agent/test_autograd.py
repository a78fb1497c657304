"""Looking at autograd graphs: torch keeps a trace of each look, and frees what has one by recursion."""

from __future__ import annotations

import gc
import subprocess
import sys
import time
import types
from typing import Any

import pytest

from leakscope.agent.interpreter import names
from leakscope.agent.probes import orphans
from leakscope.agent.snapshots import pause
from leakscope.agent.torch import autograd
from leakscope.agent.walking import heap
from leakscope.agent.walking.remembered import Remembered

from ..late import torch

pytestmark = pytest.mark.torch

LETS_GO_OF_A_CHAIN = """
import gc, sys, threading, time
import torch
from leakscope.agent.torch import autograd
from leakscope.agent.walking import heap
from leakscope.agent.walking.remembered import Remembered

def known():
    gc.disable()
    nodes = frozenset(map(id, heap.sweep((), autograd.is_node)[1]))
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


@pytest.mark.live
@pytest.mark.parametrize("stack_bytes", [[], [str(512 * 1024)]], ids=["usual-stack", "small-stack"])
def test_a_long_graph_that_was_looked_at_often_can_be_let_go(stack_bytes: list[str]) -> None:
    command = [sys.executable, "-c", LETS_GO_OF_A_CHAIN, *stack_bytes]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, f"ended with {done.returncode}: {done.stdout} {done.stderr}"
    figures, last = done.stdout.splitlines()
    seen, most, left_as_it_was = map(int, figures.split())
    assert last == "goes on"
    assert left_as_it_was == int(stack_bytes[0] if stack_bytes else 0)
    assert 0.3 * most < seen <= most + 2  # looked at, and not too many; a node's neighbours come with it


class _Look:
    """As much of a take as the search for orphans needs."""

    def __init__(self) -> None:
        self.memory = Remembered()


@pytest.mark.parametrize("keeps_losses", [False, True])
def test_contexts_that_keep_their_own_output_are_seen_to_be_garbage(keeps_losses: bool) -> None:
    """In a net of several layers the newest only: a node further down is held by the graph above it, in C++."""

    class Round(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.rounded = x.round()
            return ctx.rounded

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient

    weight = torch.zeros(4, requires_grad=True)
    losses = []
    gc.collect()
    gc.disable()
    try:
        for _ in range(200):
            x = weight
            for _layer in range(4):
                x = Round.apply(x * 2)  # type: ignore[no-untyped-call]
            loss = x.sum()
            if keeps_losses:
                losses.append(loss)
        del x, loss
        nodes = {cls for cls in map(type, gc.get_objects()) if autograd.is_node(cls)}
        (cls,) = [cls for cls in nodes if autograd.written_half(cls) is Round]
        verdict, chain = orphans._why(_Look(), orphans._pick(set(), [cls]), 0, cls, 0.0)
    finally:
        gc.enable()
        losses.clear()
        gc.collect()
    assert (verdict == "garbage-cycle") is not keeps_losses
    if not keeps_losses:
        assert chain == f"{names.type_name(cls)}.rounded -> torch.Tensor -> {names.type_name(cls)}"


def test_a_cycle_that_comes_once_a_step_answers_for_the_nodes_that_pile_up_with_it() -> None:
    """What comes often here closes no cycle itself: it is held by the graph, which one cycle a step keeps."""

    class Often(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.half = x / 2
            return x.round()

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient

    class Once(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.gate = x.sigmoid()
            return ctx.gate

        @staticmethod
        def backward(ctx: Any, gradient: Any) -> Any:
            return gradient

    take = types.SimpleNamespace(
        memory=Remembered(), reached={}, walk=types.SimpleNamespace(seen=set(), truncated=False)
    )
    take.deadline = time.thread_time() + 30.0
    take.is_swept, take.graph_read, take.pauses = True, False, pause.unlimited()
    rows: list[dict[str, Any]] = []
    weight = torch.zeros(4, requires_grad=True)
    gc.collect()
    gc.disable()
    try:
        for _ in range(3):
            for _ in range(40):
                x = weight
                for _layer in range(12):
                    x = Often.apply(x * 2)  # type: ignore[no-untyped-call]
                x = Once.apply(x).sum()  # type: ignore[no-untyped-call]
            del x
            take.census, _, _ = heap.sweep()
            rows = list(orphans.rows(take))
    finally:
        gc.enable()
        gc.collect()
    found = {row["type_name"].rsplit(".", 1)[-1]: row for row in rows}
    assert found["OftenBackward"]["orphan_verdict"] != "garbage-cycle"
    assert found["OnceBackward"]["orphan_verdict"] == "garbage-cycle"
    assert "gate -> torch.Tensor" in found["OnceBackward"]["chain"]
