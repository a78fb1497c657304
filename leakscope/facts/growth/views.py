"""Views of a job's memory: held or in use, over time, training steps or work, of all processes or of one.

All are judged alike. The first is the plain one: what all hold, over time. Each of the others is there for one kind of
growth that the plain one cannot show, has to prove that it looks at that kind, and overrules only by seeing growth.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..series.arithmetic import Floats
from ..series.trend import CANNOT_TELL, DRIFT_BYTES, FLAT, GROWING, LEAST_STEPS, Trend, judge
from ..tables import narrow, only
from .job import Job
from .processes import ProcessGrowth

_LIKE_BEFORE = 0.35  # of what a step leaked before: levels of three stretches are no better known than that

_LEAST_CPU_S = 5.0  # of a process that has a core for half of the time at best
_LEAST_OWN_S = 10.0  # of a process that is starved: the judge wants as much of anybody


@dataclass(frozen=True, eq=False)
class View:
    """One way to look at a job's memory. Of its ``trend`` the window is in seconds, and the reason names the view.

    ``only`` is the process that alone was judged. ``hidden_in`` is one of which not all that it holds was judged, and
    ``hides`` says why what grows is not seen in that. Growth that ``may_settle`` ends once the largest of all batches
    was seen.
    """

    trend: Trend
    may_settle: bool = True
    only: ProcessGrowth | None = None
    hidden_in: ProcessGrowth | None = None
    hides: str = ""


def views(job: Job) -> Iterator[View]:
    """In the order in which they are believed: what needs least explaining first. Each is made when it is asked for."""
    plain = _of_all(job)
    yield plain
    yield from _of_each(job)
    yield from _by_step(job, plain)
    yield from _by_own_time(job, plain)
    yield from _by_cpu_time(job, plain)
    yield from _by_work(job.worker)
    yield from _in_use(job.worker)


def _of_all(job: Job) -> View:
    """What all processes hold, over time."""
    lasting = sum(_lived(p, job) >= 0.5 for p in job.processes)
    least = DRIFT_BYTES * (1 + max(1, lasting))  # each process drifts a little, and the drifts add up
    begun_s, started_s = job.begun_s, job.worker.first_step_s
    return View(judge(job.time_s, job.held_bytes, begun_s=begun_s, started_s=started_s, min_growth_bytes=least))


def _of_each(
    job: Job,
    *,
    min_life: float = 0.6,  # of the run: growth of a short-lived worker ends with the worker
    max_missing: float = 0.1,  # of the run, at its end: later, and it did not live to see it
) -> Iterator[View]:
    """What one process holds: its growth hides in the sum behind others that shrink, or come and go."""
    last_s = job.time_s[-1] - max_missing * (job.time_s[-1] - job.time_s[0])
    lasting = [p for p in job.processes if p.time_s[-1] >= last_s and _lived(p, job) >= min_life]
    for p in sorted(lasting, key=lambda p: -p.trend.growth_bytes):
        yield View(replace(p.trend, reason=f"{p.label} {p.trend.reason}"), only=p)


def _lived(process: ProcessGrowth, job: Job) -> float:
    """For which share of the run."""
    return float((process.time_s[-1] - process.time_s[0]) / max(job.time_s[-1] - job.time_s[0], 1e-9))


def _by_step(job: Job, plain: View) -> Iterator[View]:
    """What all hold, over the worker's training steps: steps have to go on to the end."""
    rows = narrow(job.worker.rows("sentinels"), "time_s", "step").dropna()
    at_s, step = rows["time_s"].to_numpy(dtype=np.float64), rows["step"].to_numpy(dtype=np.float64)
    yield from _by_pace(job, plain, at_s, step, "counted in steps: the job slowed down", least=LEAST_STEPS)


def _by_own_time(job: Job, plain: View) -> Iterator[View]:
    """What all hold, over the time in which the worker had a core or wanted none.

    Measured: a loop that works for 1 ms and sleeps for 12 is at 60 % of its pace beside six busy processes on two
    cores, and within 2 % of it by this clock.
    """
    rows = narrow(job.worker.rows("process_samples"), "time_s", "run_delay_s").dropna()
    at_s, delay_s = rows["time_s"].to_numpy(dtype=np.float64), rows["run_delay_s"].to_numpy(dtype=np.float64)
    own_s = np.maximum.accumulate(at_s - delay_s)  # the two are not read at one instant
    yield from _by_pace(job, plain, at_s, own_s, "counted in time that it did not wait for a core", least=_LEAST_OWN_S)


def _by_cpu_time(
    job: Job,
    plain: View,
    *,
    min_waited: float = 0.3,  # of the last third of the time: it was the machine that was slow, not the program
    min_work: float = 0.15,  # of the first third's: with less, nobody knows what it would have gone on to do
) -> Iterator[View]:
    """What all hold, over the worker's CPU time, where it waits for a core and unclear by the clock.

    Measured: a server beside twenty busy processes did a quarter as much at the end as at first, of which not even half
    was the time that it waited itself: its client waits as well.
    """
    if plain.trend.verdict != CANNOT_TELL:
        return
    rows = job.worker.rows("process_samples")
    rows = only(rows, rows["run_delay_s"].notna() & rows["cpu_s"].notna())
    if len(rows) < 8:
        return
    at_s, delay_s, cpu_s = (rows[name].to_numpy(dtype=np.float64) for name in ("time_s", "run_delay_s", "cpu_s"))
    thirds_s = np.quantile(job.time_s, [0.0, 1 / 3, 2 / 3, 1.0])
    waited, done = (np.diff(np.interp(thirds_s, at_s, values)) for values in (delay_s, cpu_s))
    if waited[-1] < min_waited * (thirds_s[-1] - thirds_s[-2]) or done[-1] < min_work * done[0]:
        return
    yield from _by_pace(job, plain, at_s, cpu_s, "counted in CPU time: it waited for a core", least=_LEAST_CPU_S)


def _by_pace(
    job: Job,
    plain: View,
    at_s: Floats,
    work: Floats,
    words: str,
    *,
    least: float,  # work: less is too coarse a clock
    # Work in the last third of the time over that of the first; above it time is as good a clock.
    max_pace: float = 0.6,
    max_pace_undecided: float = 0.9,  # enough where time alone cannot tell
) -> Iterator[View]:
    """What all hold, over work done: a leak of so much for each piece of it flattens in time on a busy machine.

    The work has to leak as before to the end: a job that stopped working is judged by time alone.
    """
    if at_s.size < 8:
        return
    inside = (job.time_s >= at_s[0]) & (job.time_s <= at_s[-1])
    if inside.sum() < 2:
        return
    time_s, held = job.time_s[inside], job.held_bytes[inside]
    done = np.interp(time_s, at_s, work)
    slow = max_pace if plain.trend.verdict == FLAT else max_pace_undecided
    if done[-1] - done[0] < least or not _slowed_down(time_s, at_s, work, slow):
        return
    if not _goes_on(held, done):
        return
    clock_s = (done - done[0]) * (time_s[-1] - time_s[0]) / (done[-1] - done[0])  # had all of it taken equally long
    trend = judge(clock_s, held)
    start_s, end_s = np.interp([trend.start_s, trend.end_s], clock_s, time_s)
    yield View(replace(trend, reason=f"{trend.reason}, {words}", start_s=float(start_s), end_s=float(end_s)))


def _slowed_down(time_s: Floats, at_s: Floats, work: Floats, max_pace: float) -> bool:
    first, last = (np.interp(np.quantile(time_s, [a, b]), at_s, work) for a, b in ((0.0, 1 / 3), (2 / 3, 1.0)))
    return bool(0 < last[1] - last[0] < max_pace * (first[1] - first[0]))


def _goes_on(held: Floats, done: Floats) -> bool:
    """The slow work of the last third of the time leak like those before; with a curriculum steps only take longer.

    Levels are those of thirds: wide enough that one tooth is not the level.
    """
    levels, moments = ([float(np.median(third)) for third in np.array_split(values, 3)] for values in (held, done))
    before, after = np.diff(levels) / np.maximum(np.diff(moments), 1e-9)
    return bool(after >= _LIKE_BEFORE * before)


def _by_work(
    worker: ProcessGrowth,
    *,
    min_idle_share: float = 0.3,  # of the run: with less, time is as good a clock
    min_idle_s: float = 8.0,  # between two bursts: shorter pauses belong to the work
    busy: float = 0.2,  # of the CPU time that it takes when it is at work
    min_burst_share: float = 0.1,  # of the growth, and of the CPU time: less, and a burst says nothing
) -> Iterator[View]:
    """What the worker holds, over its CPU time: a service that leaks a little for each request stands still at night.

    Idle time says nothing. There have to be two bursts of work with rest between them, and the last has to gain as the
    one before did: what grows in the only burst there was may be start-up, or a cache that is full now.
    """
    rows = narrow(worker.rows("process_samples"), "time_s", "cpu_s")
    rows = only(rows, rows["cpu_s"].notna() & (rows["time_s"] <= worker.time_s[-1]))
    if len(rows) < 16:
        return
    at_s, cpu_s = rows["time_s"].to_numpy(dtype=np.float64), rows["cpu_s"].to_numpy(dtype=np.float64)
    lasted_s = np.maximum(np.diff(at_s), 1e-9)
    pace = np.diff(cpu_s) / lasted_s
    at_work = pace >= busy * float(np.quantile(pace, 0.95))
    if lasted_s[~at_work].sum() < min_idle_share * (at_s[-1] - at_s[0]):
        return
    held = np.interp(at_s, worker.time_s, worker.held_bytes)
    bursts = _bursts(at_s, at_work, min_idle_s)
    gains = [(held[last] - held[first], cpu_s[last] - cpu_s[first], first, last) for first, last in bursts]
    gained, spent_s = sum(g for g, *_ in gains), sum(spent for _, spent, *_ in gains)
    gains = [b for b in gains if b[0] >= min_burst_share * gained > 0 and b[1] >= min_burst_share * spent_s]
    if len(gains) < 2 or gains[-1][0] / gains[-1][1] < _LIKE_BEFORE * gains[-2][0] / gains[-2][1]:
        return
    clock_s = np.concatenate(([0.0], np.cumsum(np.where(at_work, lasted_s, 0.0))))
    moved = np.concatenate(([True], at_work))
    trend = judge(clock_s[moved], held[moved])
    start_s, end_s = np.interp([trend.start_s, trend.end_s], clock_s[moved], at_s[moved])
    reason = f"{trend.reason}, counted in CPU time: it was idle for most of the rest"
    yield View(replace(trend, reason=reason, start_s=float(start_s), end_s=float(end_s)))


def _bursts(at_s: Floats, at_work: NDArray[np.bool_], min_idle_s: float) -> list[tuple[int, int]]:
    """First and last sample of each stretch of work; what is parted by a short pause is one."""
    found: list[tuple[int, int]] = []
    for at in np.flatnonzero(at_work):
        if found and at_s[at] - at_s[found[-1][1]] < min_idle_s:
            found[-1] = found[-1][0], int(at) + 1
        else:
            found.append((int(at), int(at) + 1))
    return found


def _in_use(
    worker: ProcessGrowth,
    *,
    min_samples: int = 10,  # the allocators are asked once a second
    min_refilled: float = 0.7,  # of the growth: had to be free before; the rest would be pages that nobody ever touched
) -> Iterator[View]:
    """What malloc and Python's allocator have handed out: a program that freed much after its start-up, and then leaks,
    holds as much as before until the free part is used up.

    What malloc keeps free is no reason for its growth to end, since it shrinks meanwhile.
    """
    at_s, in_use, free = in_use_of(worker.rows("sentinels"))
    if at_s.size < 2:
        return
    trend = judge(at_s, in_use, min_samples=min_samples)
    if trend.verdict != GROWING:
        return
    held, used, unused = (
        np.interp([trend.start_s, trend.end_s], *series)
        for series in ((worker.time_s, worker.held_bytes), (at_s, in_use), (at_s, free))
    )
    if min(unused[0] - unused[1], held[0] - used[0]) < min_refilled * (used[1] - used[0]):
        return
    reason = f"what is in use {trend.reason}, in memory that had been freed before"
    hides = "It fills memory that had been freed before: the job will grow when that is used up."
    yield View(replace(trend, reason=reason), may_settle=False, hidden_in=worker, hides=hides)


def in_use_of(rows: pd.DataFrame) -> tuple[Floats, Floats, Floats]:
    """Times, and bytes that the allocators had handed out and that they kept free, by rows of ``sentinels``."""
    parts = ("malloc_in_use_bytes", "malloc_free_bytes", "pymalloc_bytes", "pymalloc_in_use_bytes")
    rows = narrow(rows, "time_s", *parts)
    rows = only(rows, rows["malloc_in_use_bytes"].notna() & rows["malloc_free_bytes"].notna())
    at_s, in_use, free = (
        rows[name].to_numpy(dtype=np.float64) for name in ("time_s", "malloc_in_use_bytes", "malloc_free_bytes")
    )
    small = only(rows, rows["pymalloc_bytes"].notna() & rows["pymalloc_in_use_bytes"].notna())
    if not len(small):  # they were not counted: then they are in neither sum
        return at_s, in_use, free
    arenas, handed_out = (  # read more seldom: a straight line between two readings
        np.interp(at_s, small["time_s"].to_numpy(dtype=np.float64), small[name].to_numpy(dtype=np.float64))
        for name in ("pymalloc_bytes", "pymalloc_in_use_bytes")
    )
    return at_s, in_use + handed_out, free + arenas - handed_out
