"""The figures are those of torch's own ``torch.cuda._memory_viz``, on the same snapshots."""

from __future__ import annotations

import re

import pytest

from leakscope import open_recording
from leakscope.facts.case import Case
from leakscope.importing import import_files

from .allocator import GENERATIONS, Device, dump, snapshot, train

pytestmark = pytest.mark.torch


@pytest.fixture
def viz():
    """Imported by who runs these tests, and not by each worker that collects them."""
    return pytest.importorskip("torch.cuda._memory_viz")


@pytest.fixture(params=GENERATIONS)
def pair(request, tmp_path):
    """The snapshot as torch's tools get it, and as we read it."""
    device = Device()
    train(device, 3, leak=True)
    whole = snapshot(device, generation=request.param)
    file = dump(tmp_path / "s.pickle", whole)
    (budget,) = Case(open_recording(import_files([file], tmp_path / "run.parquet").path)).gpu_budgets
    return whole, budget


def test_stats(pair, viz):
    whole, budget = pair
    told = viz.segsum(whole)
    device = budget.device
    free = device.reserved_bytes - device.requested_bytes
    internal = device.allocated_bytes - device.requested_bytes
    assert f"segments: {len(device.segments)}\n" in told
    assert f"total_reserved: {viz.Bytes(device.reserved_bytes)}\n" in told
    assert f"total_allocated: {viz.Bytes(device.requested_bytes)}\n" in told
    assert f"total_free: {viz.Bytes(free)} ({100 * internal / free:.1f}% internal)" in told


def test_trace(pair, viz):
    whole, budget = pair
    told = viz.trace(whole)
    device = budget.device
    assert f"{device.event_count} entries" in told
    assert told.count("cudaMalloc(") == device.actions.count("segment-alloc")
    assert len(re.findall(r"^\w+ = (?!cudaMalloc)", told, re.MULTILINE)) == device.actions.count("alloc")
    assert told.count("# free completed") == device.actions.count("free-completed")


def test_memory_by_stack(pair, viz):
    """The flame graph of ``memory``: bytes by stack, those without one told apart."""
    whole, budget = pair
    lines = viz.memory(whole, format_flamegraph=lambda text: text).splitlines()
    theirs = {}
    for line in lines:
        path, size = line.rsplit(" ", 1)
        if ";active_allocated;" in path and not path.endswith("<gaps>"):
            stack = path.split(";", 2)[2]
            innermost = stack.rsplit(";", 1)[-1]
            theirs[innermost] = theirs.get(innermost, 0) + int(size)
    ours = {}
    for block in budget.device.blocks:
        if block.state == "allocated":
            frames = budget.device.stack(block.stack).frames
            name = (
                ":".join((frames[-1].file.rsplit("/", 1)[-1], str(frames[-1].line), frames[-1].function))
                if frames
                else "<non-python>"
            )
            ours[name] = ours.get(name, 0) + block.requested
    assert ours == theirs


def test_the_curve_ends_at_what_is_alive(pair, viz):
    _, budget = pair
    assert budget.device.levels[-1] == budget.device.requested_bytes
    assert budget.device.reserved_levels[0] == 0
