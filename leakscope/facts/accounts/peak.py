"""The most memory that the job held: as the samples show it, or more, where the kernel remembers more."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...findings import LEVEL, PEAK, Bill, Peak
from ...storage import Recording
from ...units import FEWEST, FULL, MUCH, SOON_S
from ..growth.processes import BETWEEN, recorded_peak
from ..growth.tree import TreeGrowth
from ..series.arithmetic import Floats
from ..tables import only, series

_NO_SAMPLE = re.compile(rf"\((?:by (?P<process>.*), )?{BETWEEN}(?:, after (?P<since_s>[\d.]+) s)?\)$")


def peak(recording: Recording, growth: TreeGrowth) -> Peak | None:
    """None for a recording without samples. **Units** bytes.

    Of the samples it is the largest sum of one moment. The recorder told a sum as it ran, with each process's share of
    pages as it had last read it: that counts where there are no samples, and for what came and went between two.
    """
    held = growth.held_bytes
    sampled = int(held.max()) if held.size else 0
    size_bytes, text = recorded_peak(recording)
    cgroup_bytes = _of_cgroup(recording)
    told = _NO_SAMPLE.search(text)
    if told is not None and size_bytes > sampled:
        since_s = float(told["since_s"]) if told["since_s"] is not None else None
        return Peak(size_bytes, told["process"], True, cgroup_bytes, since_s)
    size_bytes = sampled or size_bytes
    return Peak(size_bytes, cgroup_bytes=cgroup_bytes) if size_bytes else None


class Passing(NamedTuple):
    """A peak that came and went. **Units** bytes without mapped files, seconds since the recording began.

    ``time_s``, ``level_s``: when it was, and the level. Before ``since_s`` and after ``until_s`` the job held no more
    than at that. ``beside_bytes``: the most that it held before and after; ``above_s``: for how long it held more than
    halfway between level and peak. ``as_high_s``: when else it came as high, the latest first.
    """

    bytes: int
    level_bytes: int
    beside_bytes: int
    time_s: float
    level_s: float
    since_s: float
    until_s: float
    above_s: float
    as_high_s: tuple[float, ...] = ()


def passing_peak(growth: TreeGrowth, most: Floats, highest: Peak | None, bills: Sequence[Bill]) -> Passing | None:
    """``most``: as ``at_most``. None where the job was not seen at its level before the peak and after it."""
    moments = {bill.moment: bill.time_s for bill in bills}
    if highest is None or len(moments) < 2:
        return None
    time_s, held = growth.time_s, growth.held_bytes
    peak_s, level_s = moments[PEAK], moments[LEVEL]
    floor_s = _floor_s(growth)
    level_s = level_s if floor_s is None else floor_s
    level = float(np.interp(level_s, time_s, held))
    usual = time_s[FULL * held <= level]
    before, after = usual[usual <= peak_s], usual[usual > peak_s]
    if not before.size or not after.size:
        return None
    since_s, until_s = float(before[-1]), float(after[0])
    beside = most[(time_s <= since_s) | (time_s > until_s + SOON_S)]  # the reading that saw it may have come later
    above = held[:-1] > (level + highest.bytes) / 2
    above_s = float(np.diff(time_s)[above].sum())
    as_high_s = tuple(
        float(time_s[first + int(np.argmax(held[first:end]))]) for first, end in _runs(FULL * held.max() <= held)
    )
    return Passing(
        highest.bytes, round(level), round(float(beside.max())), peak_s, level_s, since_s, until_s, above_s,
        as_high_s[::-1],
    )  # fmt: skip


def _floor_s(growth: TreeGrowth) -> float | None:
    """When the job last held the least, where it comes back to that again and again, and stays: between peaks that last
    for long the snapshots see no level.
    """
    at = np.flatnonzero((growth.time_s >= growth.start_s) & (growth.time_s <= growth.end_s))
    if not at.size:
        return None
    held = growth.held_bytes[at]
    is_low = FULL * held <= held.min()
    runs = _runs(is_low)
    return float(growth.time_s[at[runs[-1][0]]]) if len(runs) >= FEWEST and is_low.mean() >= MUCH else None


def _runs(is_so: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """(first, behind the last) of what follows one another."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], is_so.astype(np.int8), [0]))))
    return list(zip(edges[::2].tolist(), edges[1::2].tolist()))


def at_most(growth: TreeGrowth, highest: Peak | None) -> Floats:
    """What the job held at most round each moment: as sampled, or with what came and went meanwhile in the largest
    process, by samples of allocations. Never more than the kernel knows of: not all that is asked for is written to.
    """
    most = growth.held_bytes.copy()
    if growth.largest is None or highest is None:
        return most
    at_s, burst = series(growth.largest.rows("sentinels"), "burst_bytes")
    at = np.clip(np.searchsorted(growth.time_s, at_s), 0, most.size - 1)
    np.maximum.at(most, at, np.interp(at_s, growth.time_s, growth.held_bytes) + burst)
    return np.maximum(growth.held_bytes, np.minimum(most, highest.bytes))


def _of_cgroup(recording: Recording) -> int | None:
    """Of the nearest cgroup with a limit, if the peak was reached during the recording."""
    rows = recording.rows["cgroup_samples"]
    rows = only(rows, rows["limit_bytes"].notna() & rows["cgroup_peak_bytes"].notna())
    if not len(rows):
        return None
    own = only(rows, rows["cgroup"] == rows["cgroup"].iloc[0])["cgroup_peak_bytes"]
    return int(own.iloc[-1]) if own.iloc[-1] > own.iloc[0] else None
