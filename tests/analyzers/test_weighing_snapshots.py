"""A busy program whose sampled snapshots weigh no tensors: the last, made as it ends, is compared with the first."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope.facts.accounts.ledger import growth_of
from leakscope.facts.case import Case
from leakscope.facts.growth.tree import tree_growth
from leakscope.facts.heap.comparable import heaps
from leakscope.storage import Recording
from leakscope.units import MiB
from tests.builders import RecordingBuilder

PID = 7


def _snapshot(builder: RecordingBuilder, take: int, at_s: float, count: int, reason: str, *, weighs: bool) -> None:
    """``store.KEPT`` has ``count`` tensors of a MiB each, which are seen where they are weighed."""
    tensors = count * MiB if weighs else 0
    builder.take(
        PID, take, at_s, reason=reason, rss_bytes=(60 + count) * MiB, python_bytes=20 * MiB,
        tensor_bytes=tensors if weighs else None,
    )  # fmt: skip
    builder.heap(
        PID, take, at_s, tensors, count, storage_bytes=tensors, retained_bytes=20 * MiB + tensors,
        weighs_tensors=weighs, is_sampled=not weighs,
    )  # fmt: skip


@pytest.fixture
def busy(tmp_path: Path) -> Recording:
    builder = RecordingBuilder(tmp_path).process(PID).samples(PID, [(60 + 3 * s) * MiB for s in range(41)])
    for take, at_s in enumerate((6.0, 15.0, 25.0), start=1):
        _snapshot(builder, take, at_s, int(3 * at_s), "schedule", weighs=take == 1)
    _snapshot(builder, 4, 40.0, 120, "exit", weighs=True)
    return builder.ends(at_s=40.0, exit_code=0).open()


def test_the_holder_of_the_tensors_is_found(busy: Recording) -> None:
    first = next(heaps(busy, PID, 5.0, 40.0))
    kept = next(place for place in first.places if place.path.endswith("KEPT"))
    assert kept.deep_bytes[-1] - kept.deep_bytes[0] == (120 - 18) * MiB


def test_the_ledger_has_them(busy: Recording) -> None:
    growth = tree_growth(busy)
    assert growth.leaking is True
    assert growth_of(Case(busy).ledger, "tensors") == pytest.approx(growth.growth_bytes, rel=0.15)
