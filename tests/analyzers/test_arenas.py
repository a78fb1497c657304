"""What Python's allocator of small objects keeps is read seldom: snapshots, which read it too, count as readings."""

from __future__ import annotations

import numpy as np
import pytest

from leakscope.facts.growth.processes import process_growths
from leakscope.units import MiB

from ..builders import RecordingBuilder

PID = 7


@pytest.mark.parametrize("late_s", [19.38, 19.5])  # the agent's own reading comes a moment before the last snapshot
@pytest.mark.parametrize("last", ["exit", "exception", "schedule"])
def test_arenas_that_grow_are_seen_though_they_were_read_once_before_the_end(tmp_path, last, late_s):
    """At its end the program lets go of all: that reading tells nothing of the time before."""
    builder = RecordingBuilder(tmp_path).process(PID)
    builder.samples(PID, [(30 + 5 * second) * MiB for second in range(20)])
    for at_s, arenas in ((0.1, 8 * MiB), (late_s, 24 * MiB)):
        builder.row("sentinels", at_s, PID, pymalloc_bytes=arenas, pymalloc_in_use_bytes=7 * MiB)
    builder.row("sentinels", 10.0, PID, malloc_in_use_bytes=4 * MiB)
    for take, at_s, reason in ((1, 5.0, "schedule"), (2, 15.0, "schedule"), (3, 19.4, last)):
        arenas = (24 if take == 3 else round(6 * at_s)) * MiB
        builder.row("takes", at_s, PID, take=take, reason=reason)
        builder.row("heap_graphs", at_s, PID, take=take, arena_bytes=arenas, block_bytes=7 * MiB)
    (process,) = process_growths(builder.open())
    rows = process.rows("sentinels").dropna(subset=["pymalloc_bytes"])
    seen = [(0.1, 8), (5.0, 30), (15.0, 90)] + (sorted([(19.4, 24), (late_s, 24)]) if last == "schedule" else [])
    assert rows["time_s"].tolist() == pytest.approx([at_s for at_s, _ in seen])
    assert np.array_equal(rows["pymalloc_bytes"].to_numpy() // MiB, [size for _, size in seen])
    assert rows["time_s"].tolist() == sorted(rows["time_s"])


def test_a_snapshot_that_was_cut_short_is_not_the_end(tmp_path):
    """What is read after it counts: else a heap that grew too large to be read whole would seem to stand still."""
    builder = RecordingBuilder(tmp_path).process(PID)
    builder.samples(PID, [(30 + 5 * second) * MiB for second in range(20)])
    for at_s in (1.0, 9.0, 17.0):
        builder.row("sentinels", at_s, PID, pymalloc_bytes=round(6 * at_s) * MiB, pymalloc_in_use_bytes=7 * MiB)
    for take, at_s, arenas in (
        (1, 3.0, {"arena_bytes": 18 * MiB, "block_bytes": 7 * MiB}),
        (2, 8.0, {}),
        (3, 19.4, {}),
    ):
        builder.row("takes", at_s, PID, take=take, reason="exit" if take == 3 else "schedule")
        builder.row("heap_graphs", at_s, PID, take=take, is_sampled=not arenas, **arenas)
    (process,) = process_growths(builder.open())
    rows = process.rows("sentinels").dropna(subset=["pymalloc_bytes"])
    assert rows["time_s"].tolist() == pytest.approx([1.0, 3.0, 9.0, 17.0])
