"""Who can say whether memory grows: series of the same judge, the plain one first.

The first is what all processes hold, over time. Each of the others is there for growth that the plain one cannot show:
of one process behind others; over work done, where that slows down or rests; of what is in use, in memory that had been
freed before; of a holder that gains as much with each step, or in each second, beneath what comes and goes beside it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...rising import LEAST_BLOCKS, PART
from ...storage import Recording
from ...units import FEWEST, HARDLY, MOST, MUCH, SOME, format_bytes
from ..heap.accumulation import accumulations
from ..heap.comparable import Heap, heap_of, heap_to_the_end
from ..heap.owners import user_holder
from ..heap.place import Place
from ..series.arithmetic import Floats, level_at, per_second, retained
from ..series.trend import (
    CANNOT_TELL,
    DRIFT_BYTES,
    FLAT,
    GROWING,
    GROWTH,
    LEAST_BYTES,
    LEAST_S,
    LEAST_STEPS,
    UPS_AND_DOWNS,
    Trend,
    judge,
)
from ..tables import fell_silent, narrow, only
from .arenas import in_use_of
from .job import Job
from .passing import ENOUGH
from .processes import ProcessGrowth

_LIKE_BEFORE = 0.35  # of what a step leaked before: levels of three stretches are no better known than that
_SLOWER = 0.6, 0.9  # of the pace at first: above, time is as good a clock; and where time alone cannot tell
_IDLE_S = 8.0  # between two bursts: shorter pauses belong to the work
_AT_WORK = MUCH  # of the CPU time that it takes when it is at work
_LITTLE = SOME  # of a run, or of what was gained in it
_FEW, _STEADY = 4, 6  # snapshots: of fewer some rise by chance, unless in step with the work; to be believed
_APART = HARDLY  # of its members, from a straight line by steps
_TWICE = 2.0  # the usual pace, or half of it: no steady rise is further from it in any interval


@dataclass(frozen=True, eq=False)
class Witness:
    """One way to look at a job's memory. Of its ``trend`` the window is in seconds, and the reason names the way.

    ``only`` is the process that alone was judged. ``hidden_in`` is one of which not all that it holds was judged, and
    ``hides`` says why what grows is not seen in that. Growth that ``may_settle`` ends once the largest of all batches
    was seen.
    """

    trend: Trend
    may_settle: bool = True
    only: ProcessGrowth | None = None
    hidden_in: ProcessGrowth | None = None
    hides: str = ""


def witnesses(job: Job) -> Iterator[Witness]:
    """In the order in which they are believed: what needs least explaining first. Each is made when it is asked for."""
    plain = _of_all(job)
    yield plain
    yield from _of_each(job)
    yield from _by_work_done(job, plain)
    yield from _by_bursts(job.worker)
    yield from _in_use(job.worker)


def _of_all(job: Job) -> Witness:
    """What all processes hold, over time."""
    lasting = sum(_lived(p, job) >= MOST for p in job.processes)
    least = DRIFT_BYTES * (1 + max(1, lasting))  # each process drifts a little, and the drifts add up
    begun_s, started_s = job.begun_s, job.worker.first_step_s
    trend = judge(
        job.time_s, job.held_bytes, begun_s=begun_s, started_s=started_s, min_growth_bytes=least, is_over=job.is_over
    )
    return Witness(_but_of_each(job, trend, least) if trend.verdict == GROWING and len(job.processes) > 1 else trend)


def _but_of_each(job: Job, trend: Trend, least_bytes: int) -> Trend:
    """Growth of the sum, if that is more than what single processes gained that were seen to come to rest, or to jump:
    ramps that end one after the other, and a jump after them, look like a straight line.
    """
    ended = [p for p in job.processes if p.trend.verdict == FLAT and p.trend.model != UPS_AND_DOWNS]
    gained = [p.within(trend.start_s, trend.end_s, job.time_s).growth_bytes for p in ended]
    if trend.growth_bytes - sum(bytes for bytes in gained if bytes >= LEAST_BYTES) >= least_bytes:
        return trend
    reason = f"{trend.reason}, but of no process by itself; record longer to be sure"
    return replace(trend, verdict=CANNOT_TELL, reason=reason)


def _of_each(job: Job) -> Iterator[Witness]:
    """What one process holds: its growth hides in the sum behind others that shrink, or come and go.

    Not of a short-lived worker, whose growth ends with it.
    """
    last_s = job.time_s[-1] - _LITTLE * (job.time_s[-1] - job.time_s[0])
    lasting = [p for p in job.processes if p.time_s[-1] >= last_s and _lived(p, job) >= MOST]
    for p in sorted(lasting, key=lambda p: -p.trend.growth_bytes):
        yield Witness(replace(p.trend, reason=f"{p.label} {p.trend.reason}"), only=p)


def _lived(process: ProcessGrowth, job: Job) -> float:
    """For which share of the run."""
    return per_second(float(process.time_s[-1] - process.time_s[0]), float(job.time_s[-1] - job.time_s[0]))


def _by_work_done(job: Job, plain: Witness) -> Iterator[Witness]:
    """What all hold, over the worker's work: a leak of so much for each piece of it flattens in time on a busy machine.

    By training steps; by the time in which it had a core or wanted none; and where time cannot tell, and it waited, by
    CPU time. Measured: a loop that works for 1 ms and sleeps for 12 is at 60 % of its pace beside six busy processes on
    two cores, and within 2 % of it by its own time. A server beside twenty did a quarter as much at the end as at
    first, of which not even half was the time that it waited itself: its client waits as well.
    """
    at_s, step = narrow(job.worker.rows("sentinels"), "time_s", "step").dropna().to_numpy(dtype=np.float64).T
    yield from _by_pace(job, plain, at_s, step, "counted in steps: the job slowed down", LEAST_STEPS)
    rows = narrow(job.worker.rows("process_samples"), "time_s", "run_delay_s", "cpu_s")
    at_s, delay_s = rows[["time_s", "run_delay_s"]].dropna().to_numpy(dtype=np.float64).T
    own_s = np.maximum.accumulate(at_s - delay_s)  # the two are not read at one instant
    yield from _by_pace(job, plain, at_s, own_s, "counted in time that it did not wait for a core", LEAST_S)
    at_s, delay_s, cpu_s = rows.dropna().to_numpy(dtype=np.float64).T
    if plain.trend.verdict != CANNOT_TELL or at_s.size < LEAST_BLOCKS:
        return
    thirds_s = np.quantile(job.time_s, [0.0, 1 / 3, 2 / 3, 1.0])
    waited, done = (np.diff(np.interp(thirds_s, at_s, values)) for values in (delay_s, cpu_s))
    if waited[-1] >= (1 - ENOUGH) * (thirds_s[-1] - thirds_s[-2]) and done[-1] >= _LITTLE * done[0]:
        yield from _by_pace(job, plain, at_s, cpu_s, "counted in CPU time: it waited for a core", LEAST_S / 2)


def _by_pace(job: Job, plain: Witness, at_s: Floats, work: Floats, words: str, least: float) -> Iterator[Witness]:
    """Over work of which there is ``least`` or more, since less is too coarse a clock.

    The work has to leak as before to the end: a job that stopped working is judged by time alone.
    """
    if at_s.size < LEAST_BLOCKS:
        return
    inside = (job.time_s >= at_s[0]) & (job.time_s <= at_s[-1])
    if inside.sum() < 2:
        return
    time_s, held = job.time_s[inside], job.held_bytes[inside]
    done = np.interp(time_s, at_s, work)
    slow = _SLOWER[0] if plain.trend.verdict == FLAT else _SLOWER[1]
    if done[-1] - done[0] < least or not _slowed_down(time_s, at_s, work, slow) or not _goes_on(held, done):
        return
    clock_s = (done - done[0]) * (time_s[-1] - time_s[0]) / (done[-1] - done[0])  # had all of it taken equally long
    yield _judged(clock_s, held, time_s, words, job.worker.first_step_s, is_over=job.is_over)


def _judged(
    clock_s: Floats, held: Floats, time_s: Floats, words: str, started_s: float | None, *, is_over: bool = True
) -> Witness:
    started_s = None if started_s is None else float(np.interp(started_s, time_s, clock_s))
    trend = judge(clock_s, held, started_s=started_s, is_over=is_over)
    start_s, end_s = np.interp([trend.start_s, trend.end_s], clock_s, time_s)
    of_work = f"{GROWTH} in proportion to work" if trend.model == GROWTH else trend.model
    told = replace(trend, reason=f"{trend.reason}, {words}", start_s=float(start_s), end_s=float(end_s), model=of_work)
    return Witness(told)


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


def _by_bursts(worker: ProcessGrowth) -> Iterator[Witness]:
    """What the worker holds, over its CPU time: a service that leaks a little for each request stands still at night.

    Idle time says nothing. There have to be two bursts of work with rest between them, and the last has to gain as the
    one before did: what grows in the only burst there was may be start-up, or a cache that is full now.
    """
    rows = narrow(worker.rows("process_samples"), "time_s", "cpu_s").dropna()
    rows = only(rows, rows["time_s"] <= worker.time_s[-1])
    if len(rows) < 2 * LEAST_BLOCKS:
        return
    at_s, cpu_s = rows.to_numpy(dtype=np.float64).T
    lasted_s = np.maximum(np.diff(at_s), 1e-9)
    pace = np.diff(cpu_s) / lasted_s
    at_work = pace >= _AT_WORK * float(np.quantile(pace, 0.95))
    if lasted_s[~at_work].sum() < (1 - ENOUGH) * (at_s[-1] - at_s[0]):  # with less rest, time is as good a clock
        return
    held = np.interp(at_s, worker.time_s, worker.held_bytes)
    bursts = _bursts(at_s, at_work)
    gains = [(held[last] - held[first], cpu_s[last] - cpu_s[first]) for first, last in bursts]
    gained, spent_s = (sum(values) for values in zip(*gains))
    gains = [(gain, spent) for gain, spent in gains if gain >= _LITTLE * gained > 0 and spent >= _LITTLE * spent_s]
    if len(gains) < 2 or gains[-1][0] / gains[-1][1] < _LIKE_BEFORE * gains[-2][0] / gains[-2][1]:
        return
    clock_s = np.concatenate(([0.0], np.cumsum(np.where(at_work, lasted_s, 0.0))))
    moved = np.concatenate(([True], at_work))
    words = "counted in CPU time: it was idle for most of the rest"
    yield _judged(clock_s[moved], held[moved], at_s[moved], words, worker.first_step_s)


def _bursts(at_s: Floats, at_work: NDArray[np.bool_]) -> list[tuple[int, int]]:
    """First and last sample of each stretch of work; what is parted by a short pause is one."""
    found: list[tuple[int, int]] = []
    for at in np.flatnonzero(at_work):
        if found and at_s[at] - at_s[found[-1][1]] < _IDLE_S:
            found[-1] = found[-1][0], int(at) + 1
        else:
            found.append((int(at), int(at) + 1))
    return found


def _in_use(worker: ProcessGrowth) -> Iterator[Witness]:
    """What malloc and Python's allocator have handed out: a program that freed much after its start-up, and then leaks,
    holds as much as before until the free part is used up. Or the process goes up and down by more than that.

    Most of the growth had to be free before, or the least that the process held rose by it: the rest would be pages
    that nobody ever touched. What malloc keeps free is no reason for it to end, since it shrinks meanwhile.
    """
    at_s, in_use, free = in_use_of(worker.rows("sentinels"))
    if at_s.size < 2 or fell_silent(at_s[-1], worker.time_s[0], worker.time_s[-1]):
        return  # of the end it says nothing
    trend = worker.judged(at_s, in_use)
    if trend.verdict != GROWING:
        return
    trend = replace(trend, end_s=min(trend.end_s, float(worker.time_s[-1])))  # accounts are of moments when it was seen
    ends_s = [trend.start_s, trend.end_s]
    held, used, unused = (
        np.interp(ends_s, *series) for series in ((worker.time_s, worker.held_bytes), (at_s, in_use), (at_s, free))
    )
    floor = np.diff(np.interp(ends_s, worker.time_s, retained(worker.held_bytes)))[0]
    refilled = min(unused[0] - unused[1], held[0] - used[0])
    if max(refilled, floor) < ENOUGH * (used[1] - used[0]):
        return
    where = "memory that had been freed before" if refilled >= floor else "memory that goes up and down by more"
    reason = f"what is in use {trend.reason}, in {where}"
    hides = "It fills memory that had been freed before: the job will grow when that is used up."
    yield Witness(replace(trend, reason=reason), False, None, worker, hides if refilled >= floor else _HIDES)


_HIDES = "It is hidden by what comes and goes meanwhile, which is more than it gained."


@dataclass(frozen=True, eq=False)
class Riser:
    """A holder that was larger in each snapshot of ``heap``. ``is_steady``: by as much each time, and by what is known
    exactly: it would be called growth if it stood alone. ``is_in_step``: as many members with each step.
    """

    process: ProcessGrowth
    heap: Heap
    place: Place
    is_steady: bool
    is_in_step: bool

    @property
    def growth_bytes(self) -> float:
        return float(self.place.deep_bytes[-1] - self.place.deep_bytes[0])

    @property
    def is_known_alone(self) -> bool:
        """In step with the work, where all that holders gained is little of what the process did: nobody knows of the
        rest whether it goes on.
        """
        held = sum(one.growth_bytes for one in accumulations(self.heap, DRIFT_BYTES))
        levels = (level_at(self.process.time_s, self.process.held_bytes, at_s) for at_s in self.heap.time_s[[0, -1]])
        return self.is_in_step and held < _LITTLE * -(next(levels) - next(levels))

    @property
    def doubt(self) -> str:
        """Why nobody can tell, where it is not steady enough to be believed and too much to be called none."""
        return f"{self._seen}; record longer to be sure"

    @property
    def witness(self) -> Witness:
        start_s, end_s = float(self.heap.time_s[0]), float(self.heap.time_s[-1])
        pace = self.growth_bytes / (end_s - start_s)
        how = "step" if self.is_in_step else "second"
        reason = f"{self._seen}, by as much in each {how}"
        model = f"{GROWTH} in proportion to work" if self.is_in_step else GROWTH
        trend = Trend(GROWING, reason, start_s, end_s, round(self.growth_bytes), pace, pace, pace, model, 1.0)
        return Witness(trend, False, None, self.process, _HIDES)

    @property
    def _seen(self) -> str:
        first, last = (format_bytes(float(self.place.deep_bytes[i])) for i in (0, -1))
        return (
            f"memory goes up and down by more than it gains, but {self.place.path} was larger in each of "
            f"{len(self.heap.takes)} snapshots, {first} in the first and {last} in the last"
        )


def riser_of(recording: Recording, process: ProcessGrowth, run_s: tuple[float, float]) -> Riser | None:
    """The largest holder that gained from snapshot to snapshot; None where there is none.

    What is copied whole again and again, or lies among large things that come and go, hides in the ups and downs of the
    process. Snapshots weigh the holder itself.
    """
    lasted_s = run_s[1] - run_s[0]
    window_s = run_s[0] + _LITTLE * lasted_s, run_s[1]  # what is filled before is start-up
    return _riser_in(recording, process, window_s) or _late_riser(recording, process, window_s)


def _late_riser(recording: Recording, process: ProcessGrowth, run_s: tuple[float, float]) -> Riser | None:
    """One that began to gain members after a while of training, and never had fewer than before.

    Of a program that does not train, or no longer, the last part may be one that collects its results.
    """
    whole = heap_of(recording, process.pid, *run_s)
    if whole is None:
        return None
    since = ((_in_step_since(whole, place), place.deep_bytes) for place in whole.places)
    for at in sorted({at for at, bytes in since if at and bytes[-1] - bytes[at] >= DRIFT_BYTES}):
        heap = heap_of(recording, process.pid, float(whole.time_s[at]), run_s[1])
        found = _riser(heap, process) if heap is not None and heap.step[-1] - heap.step[0] >= LEAST_STEPS else None
        if heap is not None and found is not None and _is_in_step_at_all(heap, found.place):
            return found
    return None


def _in_step_since(heap: Heap, place: Place) -> int:
    """The first snapshot from which on it is in step; 0: it is all the time, or was not in the last few."""
    lengths, fewest = place.length, _FEW - 1
    if not place.has_length or lengths.size <= fewest or not (np.diff(lengths[-fewest:]) > 0).all():
        return 0
    for at in range(lengths.size - fewest + 1):
        is_new = (lengths[:at] <= lengths[at]).all()
        if is_new and any(_rises_with(clock[at:], lengths[at:]) for clock in (heap.step, heap.time_s)):
            return at
    return 0


def _riser_in(recording: Recording, process: ProcessGrowth, window_s: tuple[float, float]) -> Riser | None:
    for look in (heap_of, heap_to_the_end):  # the last, too: they are dear in a large process, and soon come seldom
        heap = look(recording, process.pid, *window_s)
        if heap is None or heap.time_s[-1] - heap.time_s[0] < (1 - MOST) * (window_s[1] - window_s[0]):
            continue
        found = _riser(heap, process) if len(heap.takes) >= _FEW - 1 else None
        if found is not None or len(heap.takes) >= _FEW:
            return found
    return None


def _riser(heap: Heap, process: ProcessGrowth) -> Riser | None:
    """One snapshot less than others need suffices for what gains members in step with the training."""
    held = np.interp(heap.time_s[[0, -1]], process.time_s, process.held_bytes)
    found = [
        Riser(process, heap, place, _is_steady(heap, place), _is_in_step(heap.step, place))
        for one in accumulations(heap, DRIFT_BYTES)
        if one.place is not None
        for place in (user_holder(one.place),)
        if float(place.deep_bytes[-1]) <= held[1]  # more: buffers that nobody has written to
        and _is_believed(heap, one.growth_bytes, place, held[1] - held[0])
    ]
    found = [r for r in found if len(heap.takes) >= _FEW or _is_in_step_at_all(heap, r.place)]
    riser = max(found, key=lambda r: r.growth_bytes, default=None)
    if riser is None or _was_seen_to_stop(process, heap.time_s, riser.growth_bytes):
        return None
    gave_back = _fell_after(process, heap.time_s) >= MOST * float(riser.place.deep_bytes[-1])
    return None if gave_back else riser  # else it may be gone, as it should


def _is_believed(heap: Heap, growth_bytes: float, place: Place, rose_bytes: float) -> bool:
    """What was estimated needs a second witness: resident memory rose, too, and it is twice what that would show."""
    rises = np.diff(place.deep_bytes)
    if not (rises > 0).all() or _paces(heap.time_s, place.deep_bytes)[-1] < MOST:  # a cache that fills becomes slower
        return _is_in_step(heap.step, place)
    return (
        heap.is_exact or _is_in_step_at_all(heap, place) or min(PART * growth_bytes, MOST * rose_bytes) >= DRIFT_BYTES
    )


def _is_in_step(clock: Floats, place: Place) -> bool:
    """Whether it has as many members more with each step, or second, all the time: no chance, and no cache, does that.

    Lengths are exact also where the graph was read in part.
    """
    return place.has_length and _rises_with(clock, place.length)


def _is_in_step_at_all(heap: Heap, place: Place) -> bool:
    return _is_in_step(heap.step, place) or _is_in_step(heap.time_s, place)


def _rises_with(clock: Floats, lengths: Floats) -> bool:
    passed = clock - clock[0]
    if clock.size < _FEW - 1 or not passed[-1] >= LEAST_STEPS:
        return False
    added = lengths - lengths[0]
    apart = np.abs(added - added[-1] * passed / passed[-1])
    return bool(added[-1] >= LEAST_STEPS and apart.max() <= _APART * added[-1] and added[-1] > added[-2])


def _is_steady(heap: Heap, place: Place) -> bool:
    """By as much in each interval, of bytes and of members: what only became larger may be full of something else."""
    time_s = heap.time_s
    gained = place.deep_bytes[-1] - place.deep_bytes[0]
    if gained < LEAST_BYTES or time_s[-1] - time_s[0] < 1.5 * LEAST_S:
        return False
    if _is_in_step(heap.step, place):
        return len(time_s) >= _FEW
    if not heap.is_exact or len(time_s) < _STEADY:
        return False
    paces = [_paces(time_s, place.deep_bytes)]
    paces += [_paces(time_s, place.length)] if place.has_length else []
    return all(bool((pace >= 1 / _TWICE).all() and (pace <= _TWICE).all()) for pace in paces)


def _paces(time_s: Floats, values: Floats) -> Floats:
    """Of each interval, as a share of the whole one's; zeros where nothing was gained."""
    usual = per_second(float(values[-1] - values[0]), float(time_s[-1] - time_s[0]))
    found: Floats = np.diff(values) / np.diff(time_s) / usual if usual > 0 else np.zeros(len(values) - 1)
    return found


def _fell_after(process: ProcessGrowth, takes_s: Floats) -> float:
    """How much less the process held after the last snapshot than between the last two."""
    before = process.held_bytes[(process.time_s > takes_s[-2]) & (process.time_s <= takes_s[-1])]
    after = process.held_bytes[process.time_s > takes_s[-1]]
    return float(np.median(before) - np.median(after)) if min(before.size, after.size) >= FEWEST else 0.0


def _was_seen_to_stop(process: ProcessGrowth, takes_s: Floats, gained_bytes: float) -> bool:
    """Whether the process grew with the holder while snapshots were taken, and hardly since the last of them."""
    end_s = float(process.time_s[-1])
    levels = [level_at(process.time_s, process.held_bytes, at_s) for at_s in (takes_s[0], takes_s[-1], end_s)]
    seen, since = np.diff(levels)
    expected = per_second(gained_bytes, float(takes_s[-1] - takes_s[0])) * (end_s - takes_s[-1])
    held = process.held_bytes[process.time_s >= takes_s[0]]
    if not held.size or float((held - retained(held)).max()) > MOST * gained_bytes:  # it may hide anything
        return False
    return bool(seen >= MOST * gained_bytes and since < _LIKE_BEFORE * expected and expected >= DRIFT_BYTES)
