"""Whose each tensor is, once each, and that the sum is what malloc handed out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from .forks import Forks

pytestmark = [pytest.mark.live, pytest.mark.torch, pytest.mark.xdist_group("torch-forks")]

MiB = 1024 * 1024

SETUP = """
import json, torch
from torch import nn
from leakscope.agent.life import sentinels
from leakscope.agent.graph.heap_graph import HeapGraph
from leakscope.agent.snapshots import pause, peak
from leakscope.agent.snapshots.exact import ExactSnapshot
from leakscope.agent.snapshots.torch_look import Look
from leakscope.agent.torch.remembered import Remembered

def in_use():
    return sentinels.malloc_figures()[0]

def taken(batch=()):
    one = ExactSnapshot(1, HeapGraph(), pause.unlimited(), Look(Remembered(), batch, pause.unlimited(), 5.0))
    assert one.read(holds_still=True, is_after_step=True)
    return one.run(), one.summary

def owners(rows):
    found = {}
    for row in rows:
        if row.get("node") is None:
            found[row["tensor_owner"]] = found.get(row["tensor_owner"], 0) + row["storage_bytes"]
    return found

def of(rows, table):
    return [row for name, row in rows if name == table]
"""


def result_of(forks: Forks, script: str) -> Any:
    """What a program prints as JSON; it has a process of its own, so that malloc's figures are its own."""
    return json.loads(forks.run(SETUP + script))


@pytest.mark.slow
def test_the_budget_of_a_step_is_what_malloc_handed_out(forks: Forks):
    """A transformer forward, before backward: parameters, optimizer state and what the graph saved, within 2 %."""
    found = result_of(
        forks,
        """
torch.set_num_threads(1)
def block():
    return nn.TransformerEncoderLayer(256, 4, 1024, batch_first=True, dropout=0.0)
data = torch.randn(16, 128, 256)  # the first pass of this size leaves 17 MB in the caches of the matrix libraries
warm = block(); optimizer = torch.optim.AdamW(warm.parameters())
warm(data).sum().backward(); optimizer.step(); del warm, optimizer, data
import gc; gc.collect(); peak.rows()
before = in_use()
model = nn.Sequential(*[block() for _ in range(6)])
optimizer = torch.optim.AdamW(model.parameters())
data = torch.randn(16, 128, 256)
model(data).mean().backward(); optimizer.step(); optimizer.zero_grad()
loss = model(data).mean()
rows = peak.rows()
print(json.dumps([owners(rows), in_use() - before]))
""",
    )
    accounts, truth = found
    assert accounts["optimizer-state"] == pytest.approx(2 * accounts["parameter"], rel=0.01)
    assert accounts["saved-for-backward"] > accounts["parameter"]
    assert sum(accounts.values()) == pytest.approx(truth, rel=0.02)


def test_rows_of_which_a_batch_is_a_slice_are_no_activation(forks: Forks):
    found = result_of(
        forks,
        """
data, model = torch.randn(1000, 2000), nn.Linear(2000, 10)
for batch in (data[:32], torch.randn(32, 2000)):
    loss = model(batch).square().mean()
    first = owners(peak.rows()) if batch._base is data else first
print(json.dumps([first, owners(peak.rows())]))
""",
    )
    sliced, own = found
    assert sliced["user-held"] == 8_000_000 and sliced["saved-for-backward"] < 10_000
    assert own["saved-for-backward"] >= 32 * 8_000


def test_each_owner_gets_its_own(forks: Forks):
    found = result_of(
        forks,
        """
model = nn.Sequential(nn.Linear(1000, 500), nn.BatchNorm1d(500))
tied = nn.Linear(1000, 500); tied.weight = model[0].weight
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
batch = torch.randn(64, 1000)
kept = [torch.zeros(250_000) for _ in range(3)]
base = torch.zeros(1_000_000); views = [base[i] for i in range(5)]; del base
output = model(batch); output.sum().backward(); optimizer.step()
rows, summary = taken(batch=(torch._C._storage_id(batch),))
print(json.dumps([owners(of(rows, "tensors")), [r for r in of(rows, "tensors") if r.get("node")], summary]))
""",
    )
    accounts, places, summary = found
    weight = 4 * 1000 * 500
    assert accounts["parameter"] == weight + 3 * 4 * 500 + 4 * 500  # the tied weight once, the second bias
    assert accounts["gradient"] == weight + 3 * 4 * 500
    assert accounts["optimizer-state"] == weight + 3 * 4 * 500
    assert accounts["buffer"] == 2 * 4 * 500 + 8
    assert accounts["batch"] == 4 * 64 * 1000
    assert accounts["activation"] == 4 * 64 * 500
    assert accounts["user-held"] == 3_000_000 + 4_000_000  # five small views keep all of what they look at
    assert sorted(place["storage_bytes"] for place in places) == [3_000_000, 4_000_000]
    assert summary["tensor_bytes"] == sum(accounts.values())


@pytest.mark.slow
def test_lazy_copies_count_once_and_stay_lazy(forks: Forks):
    found = result_of(
        forks,
        """
first = torch.zeros(1_000_000)
copies = [torch._lazy_clone(first) for _ in range(4)]
before = in_use()
rows, summary = taken()
still = [torch._C._is_cow_tensor(copy) for copy in copies]
print(json.dumps([summary["tensor_bytes"], still, in_use() - before]))
""",
    )
    size, still_lazy, allocated = found
    assert size == 4_000_000
    assert all(still_lazy)
    assert allocated < 2_000_000


@pytest.mark.slow
def test_tensors_without_memory_are_no_memory(forks: Forks):
    found = result_of(
        forks,
        """
from torch._subclasses.fake_tensor import FakeTensorMode
meta = nn.Linear(5000, 5000, device="meta")
with FakeTensorMode():
    fake = torch.zeros(3000, 3000)
sparse = torch.eye(100).to_sparse()
empty = torch.zeros(1_000_000); empty.untyped_storage().resize_(0)
rows, summary = taken()
print(json.dumps(summary["tensor_bytes"]))
""",
    )
    assert found < 1 * MiB


def test_a_take_keeps_no_tensor_alive_and_makes_no_objects(forks: Forks):
    found = result_of(
        forks,
        """
import weakref, gc
class Noted(nn.Module): pass
module = Noted(); module.layer = nn.Linear(100, 100)
dead = []
weakref.finalize(module, dead.append, True)
taken(); taken()
del module
print(json.dumps(dead))
""",
    )
    assert found == [True]
