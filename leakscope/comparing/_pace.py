"""How fast each of two runs grew over the range that both passed through: by training step, or else by time.

A leak of so much a step looks smaller per hour in a run that is merely slower, so time is only the second choice.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import NamedTuple

import numpy as np

from ..facts.case import Case
from ..facts.series.arithmetic import Floats, bucket_medians, retained, slope_interval
from ..facts.series.trend import LEAST_S, LEAST_STEPS
from ..facts.tables import narrow
from ..reporting import report_of
from ..units import NEARLY_ALL, MiB, over
from ._curves import ALIKE, SECOND, STEP, Curve, Flags, alike_judged, curve_of, origins

MIN_CHANGE = 0.25  # of a leak: two runs of one program differ by some percent
MAX_SLOWDOWN = 4.0  # without steps, a run up to so much slower or faster is no other leak
_BUCKETS = 24
_TAIL = 0.1  # of a run: nobody knows whether what came last will be given back
_LEAST_SAMPLES = 8
_PEAK_QUANTILE = 0.98  # the very highest reading may be a fork that was seen half done


class Rate(NamedTuple):
    """How fast a run grew, and between what that lies at 95 %; None: not known. **Units** as the slopes of its pace, of
    which one is ``hourly`` bytes an hour.
    """

    slope: float
    low: float | None
    high: float | None
    hourly: float


@dataclass(frozen=True)
class Pace:
    """Growth of one run in the common range. **Units** slopes are bytes per step or per second, as the pair's unit is.

    ``grows`` and its ``reason`` are the verdict on the whole run: a cache that is full by the end still fills in a
    shorter range.
    ``low`` and ``high`` bound ``slope`` at 95 %; ``floor`` is the slope that clean programs reach by drifting;
    ``range`` is how many steps or seconds were looked at; ``peak_spread_bytes`` is how much its parts' peaks vary.
    ``usual_slope`` and ``lasted`` (steps or seconds) are of all that it did, ``later_peak_bytes`` of all since the
    range began, and ``most_bytes`` is the very highest reading there. ``counted``: all its steps, 0 where nobody
    counted; ``cpu_s``: what all its processes computed in the range; ``came_to``: how far it was at a moment.
    ``told``: its own report's figures, where those are of the same part of it; what is weighed are the others.
    ``watched_s``: how long it was recorded.
    """

    grows: bool | None
    reason: str
    slope: float = 0.0
    low: float = 0.0
    high: float = 0.0
    floor: float = 0.0
    range: float = 0.0
    level_bytes: int = 0
    peak_bytes: int = 0
    peak_spread_bytes: int = 0
    seconds_per_step: float | None = None
    usual_slope: float = 0.0
    later_peak_bytes: int = 0
    most_bytes: int = 0
    lasted: float = 0.0
    counted: float = 0.0
    cpu_s: float = 0.0
    came_to: Callable[[float], float] = float
    told: Rate | None = None
    watched_s: float = 0.0

    @property
    def is_measured(self) -> bool:
        return self.floor > 0

    @property
    def least_slope(self) -> float:
        """What it grew by here and as a whole: what only its beginning did is no leak's pace."""
        return min(self.slope, self.usual_slope)

    @property
    def most_slope(self) -> float:
        """A leak may begin after what both passed through. What shrinks is no better than what stands."""
        return max(self.slope, self.usual_slope if self.grows else 0.0, 0.0)

    @property
    def rate(self) -> Rate:
        """What is told of its growth: of one run every command says the same, where it speaks of the same part."""
        return self.told or Rate(self.slope, self.low, self.high, self._hourly)

    @property
    def _hourly(self) -> float:
        return 3600 / (self.seconds_per_step or 1.0)

    def per_step(self, slope: float | None) -> float | None:
        is_known = self.is_measured and self.seconds_per_step is not None
        return round(slope, 1) if slope is not None and is_known else None

    def per_hour(self, slope: float | None, hourly: float | None = None) -> float | None:
        if slope is None or not self.is_measured:
            return None
        return round(slope * (self._hourly if hourly is None else hourly), 1)


@dataclass(frozen=True)
class PacePair:
    """Both runs over the range from ``start`` to ``end``, in ``unit``, as ``origins`` has it.

    ``step_unit``: what a step is, as in a report's verdict; ``is_since_step``: both began at a step that was counted.
    """

    unit: str
    start: float
    end: float
    before: Pace
    after: Pace
    step_unit: str = STEP
    is_since_step: bool = False

    @property
    def is_measured(self) -> bool:
        return self.before.is_measured and self.after.is_measured

    @property
    def is_judged(self) -> bool:
        """Each run has a verdict of its own, and what they have in common is enough for it to hold there, too: for a
        leak to be told from a start that took longer.
        """
        is_enough = self.unit == STEP or self.is_since_step or self.end - self.start >= LEAST_S
        return self.is_measured and is_enough and None not in (self.before.grows, self.after.grows)

    @property
    def resolution(self) -> float:
        """Differences of slope below this are drift and noise."""
        noise = math.hypot(self.before.high - self.before.low, self.after.high - self.after.low) / 2
        return max(noise, self.before.floor, self.after.floor)

    @property
    def smallest(self) -> float:
        """The least difference that is told: more than drift and noise, than two runs of one program differ by, and,
        of two leaks without counted steps, than another speed makes.
        """
        slower = min(self.before.most_slope, self.after.most_slope)
        both_leak = bool(self.before.grows and self.after.grows)
        by_speed = slower * (MAX_SLOWDOWN - 1) if self.unit != STEP and both_leak else 0.0
        return max(self.resolution + by_speed, slower * MIN_CHANGE / (1 - MIN_CHANGE))

    @property
    def watched_s(self) -> float:
        """How long the longer one was recorded: both are told by one clock."""
        return max(self.before.watched_s, self.after.watched_s)

    @property
    def is_as_long(self) -> bool:
        """Whether neither went on for long after the other."""
        return max(self.before.lasted, self.after.lasted) <= ALIKE * min(self.before.lasted, self.after.lasted)

    @property
    def least_bytes(self) -> float:
        """What has to come in before it is more than drift."""
        return max(pace.floor * pace.range for pace in (self.before, self.after))

    def per_step(self, slope: float) -> float | None:
        return round(slope, 1) if self.unit == STEP and self.is_measured else None

    def per_hour(self, slope: float) -> float | None:
        return self.after.per_hour(slope) if self.is_measured else None


def paces(before: Case, after: Case) -> PacePair:
    """Both runs by step, if both counted enough of them in common; else by time."""
    cases = before, after
    curves = alike_judged([curve_of(case) for case in cases])
    shorter_s = min(curve.lasted_s for curve in curves)
    begin_s = origins(curves)
    for unit in (STEP, SECOND):
        by_step = unit == STEP
        axes = [curve.by_step() if by_step else curve.by_time(at_s) for curve, at_s in zip(curves, begin_s)]
        known = [x for x in axes if x is not None and x.size]
        if len(known) < 2:
            continue
        at_work = [curve.at_work(shorter_s) & curve.before_shutdown() for curve in curves]
        start = max(float(x[use].min()) for x, use in zip(known, at_work))
        ends = [float(x.max()) for x in known]
        if not by_step and max(ends) > ALIKE * min(ends):
            # What comes after the last step of the one that ended is no work that the other did as well.
            ends = [_work_ended(curve, at_s, end) for curve, at_s, end in zip(curves, begin_s, ends)]
        end = min(ends)
        if by_step and end - start < LEAST_STEPS:
            continue
        went_on = max(ends) > ALIKE * end
        sides = []
        for case, curve, x, use in zip(cases, curves, known, at_work):
            use &= (x >= start) & ((x < end) if by_step and went_on else (x <= end))
            pace = _with_whole(_pace(curve, x, use, by_step), curve, x, start)
            came_to, at_s = partial(_came_to, curve.time_s, x), curve.time_s[use]
            told = _told(case, pace, at_s) if at_s.size else None
            watched_s = case.once(report_of).recording.duration_s
            sides.append(replace(pace, cpu_s=_cpu_s(case, at_s), came_to=came_to, told=told, watched_s=watched_s))
        since_step = all(curve.worked_s is not None for curve in curves)
        return PacePair(unit, start, max(start, end), sides[0], sides[1], after.step_unit, since_step)
    nothing = Pace(None, "a recording has no memory samples")
    return PacePair(SECOND, 0.0, 0.0, nothing, nothing)


def _work_ended(curve: Curve, origin_s: float, end: float) -> float:
    return end if curve.worked_s is None else min(end, curve.worked_s[1] - origin_s)


def _with_whole(pace: Pace, curve: Curve, x: Floats, start: float) -> Pace:
    """With what the whole run did."""
    judged, later = curve.at_work() & (curve.time_s <= curve.growth.end_s), curve.held_bytes[x >= start]
    usual = _slope(x[judged], curve.judged_bytes[judged], bool(curve.growth.leaking))[0] if judged.any() else 0.0
    return replace(
        pace,
        usual_slope=usual,
        later_peak_bytes=int(np.quantile(later, _PEAK_QUANTILE)) if later.size else 0,
        most_bytes=int(later.max(initial=0.0)),
        lasted=float(x.max()),
        counted=curve.counted,
    )


def _told(case: Case, pace: Pace, at_s: Floats) -> Rate | None:
    """The figures of the run's own report; None where they are of another part of it than what is compared."""
    verdict, each_s = case.once(report_of).verdict, pace.seconds_per_step or 1.0
    if verdict.start_s is None or verdict.end_s is None or verdict.growth_bytes_per_hour is None:
        return None
    common = min(verdict.end_s, at_s[-1]) - max(verdict.start_s, at_s[0])
    whole = max(verdict.end_s, at_s[-1]) - min(verdict.start_s, at_s[0])
    low, high = (
        None if bound is None else bound / 3600 * each_s
        for bound in (verdict.growth_bytes_per_hour_low, verdict.growth_bytes_per_hour_high)
    )
    hourly = 3600 / each_s
    if not pace.grows:  # more than that would have shown in the whole of it
        return Rate(pace.slope, None, high, hourly) if low is None and high is not None else None
    if common < NEARLY_ALL * whole:
        return None
    per_step = verdict.growth_bytes_per_step if pace.seconds_per_step is not None else None
    slope = verdict.growth_bytes_per_hour / hourly
    share = over(per_step, slope) if per_step is not None else 1.0
    low, high = (None if bound is None else share * bound for bound in (low, high))
    return Rate(share * slope, low, high, over(hourly, share))


def _came_to(time_s: Floats, x: Floats, at_s: float) -> float:
    return max(0.0, float(np.interp(at_s, time_s, x)))


def _cpu_s(case: Case, within_s: Floats) -> float:
    """What all processes computed meanwhile; 0 where that was not read."""
    rows = narrow(case.rows("process_samples"), "pid", "time_s", "cpu_s").dropna()
    if not within_s.size or not len(rows):
        return 0.0
    ends = within_s[[0, -1]]
    each = (own.sort_values("time_s").to_numpy(dtype=np.float64).T for _, own in rows.groupby("pid"))
    return sum(float(np.diff(np.interp(ends, at_s, cpu_s))[0]) for _, at_s, cpu_s in each)


def _pace(
    curve: Curve,
    x: Floats,
    use: Flags,
    by_step: bool,
    *,
    min_growth_bytes: int = 10 * MiB,  # as for a single run: clean programs drift by up to 5 MiB
    min_growth_fraction: float = 0.02,
) -> Pace:
    x, y, time_s = x[use], curve.held_bytes[use], curve.time_s[use]
    if x.size < _LEAST_SAMPLES or x[-1] <= x[0] or _inside(x).sum() < _LEAST_SAMPLES:
        return Pace(curve.growth.leaking, curve.growth.reason)
    seconds_each = float(time_s[-1] - time_s[0]) / float(x[-1] - x[0])
    slope, low, high = _slope(x, curve.judged_bytes[use], bool(curve.growth.leaking))
    least = max(float(min_growth_bytes), min_growth_fraction * float(np.median(y)))
    return Pace(
        curve.growth.leaking,
        curve.growth.reason,
        slope,
        low,
        high,
        floor=least / float(x[-1] - x[0]),
        range=float(x[-1] - x[0]),
        level_bytes=int(np.median(y)),
        peak_bytes=int(np.quantile(y, _PEAK_QUANTILE)),
        peak_spread_bytes=_spread([float(part.max()) for part in np.array_split(y, _LEAST_SAMPLES)]),
        seconds_per_step=seconds_each if by_step else None,
    )


def _slope(x: Floats, y: Floats, grows: bool) -> tuple[float, float, float]:
    """Slope and its bounds of what is not given back: a buffer emptied at each epoch has floors, and they count.

    The floors of mere noise rise, too, towards the end of what was recorded: so for a run that does not grow the usual
    level counts, where it rises less.
    """
    inside = _inside(x)
    slopes = []
    for values in (retained(y), y)[: 1 if grows else 2]:
        at, level = bucket_medians(x[inside], values[inside], _BUCKETS)
        slopes.append(slope_interval(at, level)[:3] if at.size >= _LEAST_SAMPLES else (0.0, 0.0, 0.0))
    return min(slopes)


def _inside(x: Floats) -> Flags:
    inside: Flags = x <= x[-1] - _TAIL * (x[-1] - x[0])
    return inside


def _spread(peaks: list[float]) -> int:
    """Between quartiles: the one evaluation that is higher than all else is no variation."""
    low, high = np.quantile(peaks, [0.25, 0.75])
    return int(high - low)
