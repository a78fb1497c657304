"""Growth that resident memory does not show: what is in use fills what had been freed before and was never given back.

A program that freed much after its start-up, and then leaks, stays as large as it is until the free part is used up.
What is in use is what malloc and Python's own allocator have handed out.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ..series.arithmetic import Floats
from ..series.trend import GROWING, judge
from .question import Opinion, Question

if TYPE_CHECKING:
    import pandas as pd


def hidden(
    question: Question,
    *,
    min_samples: int = 10,  # the allocators are asked once a second
    min_refilled: float = 0.7,  # of the growth: had to be free before; the rest would be pages that nobody ever touched
) -> Opinion | None:
    """The trend of what the worker has in use, where that grows into memory that was resident and free before."""
    at_s, in_use, free = in_use_of(question.sentinels)
    time_s, held_bytes = question.worker.time_s, question.worker.held_bytes
    if at_s.size < 2 or not time_s.size:
        return None
    trend = judge(at_s, in_use, min_samples=min_samples)
    if trend.verdict != GROWING:
        return None
    held, used, unused = (
        np.interp([trend.start_s, trend.end_s], *series)
        for series in ((time_s, held_bytes), (at_s, in_use), (at_s, free))
    )
    refilled = min(unused[0] - unused[1], held[0] - used[0])
    if refilled < min_refilled * (used[1] - used[0]):
        return None
    reason = f"what is in use {trend.reason}, in memory that had been freed before"
    return Opinion(reason, trend.start_s, trend.end_s, hidden_bytes=trend.growth_bytes)


def in_use_of(rows: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Times, and bytes that the allocators had handed out and that they kept free."""
    rows = rows[rows["malloc_in_use_bytes"].notna() & rows["malloc_free_bytes"].notna()]
    at_s, in_use, free = (
        rows[name].to_numpy(dtype=np.float64) for name in ("time_s", "malloc_in_use_bytes", "malloc_free_bytes")
    )
    small = rows[rows["pymalloc_bytes"].notna() & rows["pymalloc_in_use_bytes"].notna()]
    if not len(small):  # they were not counted: then they are in neither sum
        return at_s, in_use, free
    arenas, handed_out = (  # read more seldom: a straight line between two readings
        np.interp(at_s, small["time_s"].to_numpy(dtype=np.float64), small[name].to_numpy(dtype=np.float64))
        for name in ("pymalloc_bytes", "pymalloc_in_use_bytes")
    )
    return at_s, in_use + handed_out, free + arenas - handed_out
