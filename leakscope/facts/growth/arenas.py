"""What the allocators have: Python's of small objects is read seldom by a clock, and by each snapshot."""

from __future__ import annotations

import numpy as np

from ...storage import Rows, joined
from ..series.arithmetic import Floats
from ..tables import narrow, only, without_last

_OF_GRAPHS = {"pymalloc_bytes": "arena_bytes", "pymalloc_in_use_bytes": "block_bytes"}  # of a graph of the heap
_JUST_BEFORE_S = 0.05  # the agent's last reading is made as the interpreter ends, a moment before the last snapshot
_WHEN = ("time_s", "time_unix_ns", "time_mono_ns", "time_boot_ns", "pid", "start_ticks")


def with_snapshots(sentinels: Rows, graphs: Rows, takes: Rows) -> Rows:
    """The sentinels of a process with a row for each snapshot that read its arenas, by time.

    What was read as it ended, when the locals of main() were gone, is left out where there are two other readings.
    """
    at_work = without_last(graphs, takes)
    ended_s = graphs["time_s"][~graphs["take"].isin(at_work["take"])].min()
    at_work = only(at_work, at_work["arena_bytes"].notna() & at_work["block_bytes"].notna())
    if not len(at_work):
        return sentinels
    read = narrow(at_work, *_WHEN).assign(**{ours: at_work[theirs] for ours, theirs in _OF_GRAPHS.items()})
    is_late = sentinels["time_s"].to_numpy(dtype=np.float64) >= ended_s - _JUST_BEFORE_S
    known = sentinels["pymalloc_bytes"].notna().to_numpy()
    if is_late.any() and int((known & ~is_late).sum()) + len(read) >= 2:
        sentinels = sentinels.assign(**{name: sentinels[name].mask(is_late) for name in _OF_GRAPHS})
    return joined([sentinels, read]).sort_values("time_s")


def in_use_of(rows: Rows, window_s: tuple[float, float] = (-np.inf, np.inf)) -> tuple[Floats, Floats, Floats]:
    """Times, and bytes that malloc and Python's allocator had handed out and that they kept free, by ``sentinels``.

    Of Python's small objects blocks are counted at each look; how large they are, and what there is for them in all, is
    known more rarely. Where they were not counted they are in neither sum.
    """
    malloc = ["malloc_in_use_bytes", "malloc_free_bytes"]
    small = ["allocated_blocks", "pymalloc_bytes", "pymalloc_in_use_bytes"]
    rows = narrow(rows, "time_s", *malloc, *small)
    rows = only(rows, rows["time_s"].between(*window_s)).dropna(subset=["time_s", *malloc])
    at_s, used, free = rows[["time_s", *malloc]].to_numpy(dtype=np.float64).T
    weighed = rows.dropna(subset=small[1:])
    if len(weighed) >= 2:
        weighed_s, there, in_use = weighed[["time_s", *small[1:]]].to_numpy(dtype=np.float64).T
        handed_out = np.interp(at_s, weighed_s, in_use)
        counted = rows.dropna(subset=small[:1])
        each = weighed.dropna(subset=small[:1])
        if len(counted) == len(rows) and len(each) >= 2:
            blocks, per_block = (part[small[0]].to_numpy(dtype=np.float64) for part in (rows, each))
            sizes = each[small[2]].to_numpy(dtype=np.float64) / np.maximum(per_block, 1.0)
            handed_out = blocks * np.interp(at_s, each["time_s"].to_numpy(dtype=np.float64), sizes)
        used, free = used + handed_out, free + np.interp(at_s, weighed_s, there) - handed_out
    return at_s, used, free
