"""What speaks against a verdict: growth that may end by itself, and memory that stands while one holder in it rises.

Each doubt answers with a reason why nobody can tell yet, or with None.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...units import format_bytes
from ..heap.paths import accumulations, heap_of, user_place
from ..series.arithmetic import Floats
from ..series.trend import DRIFT_BYTES
from .processes import ProcessGrowth

if TYPE_CHECKING:
    from ...storage import Recording

_MALLOC = ["malloc_in_use_bytes", "malloc_free_bytes"]
_SETTLED = 0.1  # of the run: what is filled before is start-up


def settling(
    recording: Recording,
    process: ProcessGrowth,
    window_s: tuple[float, float],
    *,
    min_free_share: float = 0.3,  # of the growth: the reason why it is there at all
    max_in_use_share: float = 0.25,  # of the growth: above, something is held
    max_share: float = 0.2,  # of what the process holds: by as much a heap varies with what is asked of it
) -> str | None:
    """Only malloc's high-water mark rises: batches of ever other size do this until the largest has been seen."""
    growth_bytes = process.growth_bytes
    rows = process.rows("sentinels").dropna(subset=_MALLOC)
    rows = rows[rows["time_s"].between(*window_s)]
    if len(rows) < 6 or growth_bytes > max_share * float(process.held_bytes[-1]):
        return None
    first, last = (np.median(part[_MALLOC].to_numpy(dtype=np.float64), axis=0) for part in (rows[:3], rows[-3:]))
    in_use, free = last - first
    if in_use > max_in_use_share * growth_bytes or free < min_free_share * growth_bytes:
        return None
    return (
        f"what is in use hardly grew; malloc keeps {format_bytes(free)} more free, as for batches of other sizes: "
        "a longer run would tell whether that ends"
    )


def rising(
    recording: Recording,
    process: ProcessGrowth,
    run_s: tuple[float, float],
    *,
    min_snapshots: int = 4,  # of fewer that vary by chance one in six, or two, would rise all the time
    min_span: float = 0.4,  # of the run: between the first and the last of them
    min_growth_bytes: int = 4 * DRIFT_BYTES,  # twice what a trend of resident memory needs: it is not seen in that
    min_share: float = 0.5,  # of the holder's growth: resident memory rose by, too, from the first to the last
    min_late_pace: float = 0.5,  # of the usual one, kept up in the last interval: a cache that fills becomes slower
) -> str | None:
    """Memory goes up and down by more than it gains, while one holder in it gains from snapshot to snapshot.

    What is copied whole again and again, or lies among large things that come and go, hides in the ups and downs. Too
    little to be believed as a leak, too much to be called none.
    """
    lasted_s = run_s[1] - run_s[0]
    heap = heap_of(recording, process.pid, run_s[0] + _SETTLED * lasted_s, run_s[1])
    if heap is None or len(heap.takes) < min_snapshots:
        return None
    if heap.time_s[-1] - heap.time_s[0] < min_span * lasted_s:
        return None
    held = np.interp(heap.time_s[[0, -1]], process.time_s, process.held_bytes)
    if heap.is_exact:  # nothing of it is an estimate, so that it needs no second witness
        min_growth_bytes, min_share = min_growth_bytes // 2, 0.0
    found = [
        (one.growth_bytes, user_place(one.place))
        for one in accumulations(heap.roots, min_growth_bytes)
        if one.place is not None
        and one.growth_bytes >= min_growth_bytes
        and (not min_share or held[1] - held[0] >= min_share * one.growth_bytes)
        and not one.place.first_seen  # a straight line of ours is no evidence
        and _rises_steadily(heap.time_s, user_place(one.place).deep_bytes, min_late_pace)
    ]
    if not found:
        return None
    place = max(found, key=lambda one: one[0])[1]
    first, last = (format_bytes(float(place.deep_bytes[i])) for i in (0, -1))
    return (
        f"memory goes up and down by more than it gains, but {place.path} was larger in each of "
        f"{len(heap.takes)} snapshots, {first} in the first and {last} in the last: a longer run would tell"
    )


def _rises_steadily(time_s: Floats, held_bytes: Floats, min_late_pace: float) -> bool:
    rises, lasted_s = np.diff(held_bytes), np.diff(time_s)
    usual = float(held_bytes[-1] - held_bytes[0]) / max(float(time_s[-1] - time_s[0]), 1e-9)
    return bool((rises > 0).all() and rises[-1] >= min_late_pace * usual * lasted_s[-1])
