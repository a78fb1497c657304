"""Does the tree of processes grow without end: the question every growth finding starts from.

Every witness is asked: the first that shows growth is believed, and without one what all processes hold over time. Then
what speaks against that: what fills up to a limit of its own is no leak, and nobody can tell where growth may end by
itself, or where a holder rises in memory that stands.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from ...findings import RuledOut, Skipped
from ...rising import LEAST_BLOCKS
from ...storage import Recording
from ...units import LISTED, MOST, format_about, format_bytes, format_count, format_duration, format_rate, over
from ..series.arithmetic import Floats, per_second
from ..series.trend import (
    CANNOT_TELL,
    FLAT,
    GROWING,
    SATURATION,
    Trend,
    hidden_share,
    judge,
    least_shown,
    most_risen,
)
from .arenas import in_use_of
from .filling import Fills, fills
from .job import Job, job_of
from .limits import Limit, gpu_series, limits, nearest
from .passing import ENOUGH, Grown, newborn, passing, starved
from .processes import ProcessGrowth, process_growths
from .witnesses import Witness, riser_of, witnesses

_LEAKING = {GROWING: True, FLAT: False, CANNOT_TELL: None}
_LONGER = "record longer"  # as reasons say where a window was too short
DAY_S = 86400.0
TOLD_SHARE = 0.08  # of a growth: less is told by no finding of its own; two leaks at once differ by less than ten times
_MATTERS = 0.01  # of the nearest limit
_NO_SAMPLES = Trend(CANNOT_TELL, "no memory samples in this recording")


@dataclass(frozen=True, eq=False)
class TreeGrowth:
    """The tree as a whole. ``leaking`` is True, False, or None with the ``reason`` why unclear.

    ``processes`` are ordered by what they gained between ``start_s`` and ``end_s``, the most first; where one alone was
    seen to grow, that one. ``fills``: what in the first of them fills up to a limit of its own.
    ``least_bytes_per_hour``: of what was not seen to grow, the slowest steady growth that would have shown; None where
    nobody can tell that.
    ``enough_s``: how long a run shows one that matters within a day, where this one was too short for that.
    ``is_harmless``: it grows without end, too slowly to matter within the horizon. ``judged``: what the witness who was
    believed says; ``trend`` is of all processes.
    """

    leaking: bool | None
    reason: str
    trend: Trend
    start_s: float
    end_s: float
    growth_bytes: int
    time_s: Floats
    held_bytes: Floats
    processes: tuple[ProcessGrowth, ...] = field(default=())
    fills: Fills | None = None
    least_bytes_per_hour: float | None = None
    enough_s: float | None = None
    is_harmless: bool = False
    judged: Trend = _NO_SAMPLES

    @property
    def main(self) -> ProcessGrowth | None:
        """The process that was seen to grow, or else gained most."""
        return self.processes[0] if self.processes else None

    @property
    def largest(self) -> ProcessGrowth | None:
        """The process that held most at its peak."""
        return max(self.processes, key=lambda p: float(p.held_bytes.max()), default=None)

    @property
    def growth_bytes_per_hour(self) -> float:
        return per_second(self.growth_bytes, self.end_s - self.start_s) * 3600

    @property
    def most_bytes_per_hour(self) -> float:
        """The fastest steady growth that is left room for by what all held, and by what is in use in the first."""
        series = [(self.time_s, self.held_bytes)]
        at_s, used, _ = in_use_of(self.main.rows("sentinels")) if self.main is not None else (np.empty(0),) * 3
        series += [(at_s, used)] if at_s.size >= LEAST_BLOCKS else []
        risen = (most_risen(self.judged, *one) for one in series)  # in the window there may be too few readings
        return max((one for one in risen if np.isfinite(one)), default=float("inf")) * 3600

    def bounds(self, per_hour: float) -> tuple[float | None, float | None]:
        """Between what the growth lies at 95 %, where ``per_hour`` is told for it. **Units** bytes an hour.

        Of what was not seen to grow the most that it may have grown by, and no least; None, too, where nobody knows.
        """
        trend = self.judged
        if trend.verdict == GROWING:
            low, high = (over(per_hour * slope, trend.slope_per_s) for slope in (trend.slope_low, trend.slope_high))
            return low, high
        shown = self.least_bytes_per_hour
        return None, None if shown is None else min(shown, self.most_bytes_per_hour)

    def process(self, pid: int | None) -> ProcessGrowth | None:
        """The process with this pid that gained most."""
        return next((p for p in self.processes if p.pid == pid), None)


def tree_growth(recording: Recording, horizon_s: float | None = None) -> TreeGrowth:
    """Trends of every process and of their sum, and the verdict on them.

    Growth is a leak if it matters within ``horizon_s``. Where that was asked for, a leak that matters has to be one
    that would have shown; None: a day, for which the length of hardly any recording is enough, so that it is only told.
    """
    processes = process_growths(recording)
    if not processes:
        nothing = np.empty(0)
        return TreeGrowth(None, _without_processes(recording), _NO_SAMPLES, 0.0, 0.0, 0, nothing, nothing)
    job = job_of(recording, processes)
    asked = witnesses(job)
    plain = next(asked)
    view = plain if plain.trend.verdict == GROWING else next((w for w in asked if w.trend.verdict == GROWING), plain)
    riser = riser_of(recording, job.worker, (float(job.time_s[0]), float(job.time_s[-1])))
    if riser is not None and riser.is_steady and (view.trend.verdict != GROWING or riser.is_known_alone):
        view = riser.witness
    window_s = (view.trend.start_s, view.trend.end_s)
    measured = _measured(job, view)
    growth = sum(p.growth_bytes for p in measured)
    leaking, reason = _LEAKING[view.trend.verdict], view.trend.reason
    filling = None
    if view.trend.verdict == FLAT:
        doubt = riser.doubt if riser is not None else starved(job.worker, view.trend) or _foreseen(job, view.trend)
    else:
        filling = fills(recording, measured[0].pid, measured[0].growth_bytes, window_s)
        # That of many processes does not end with that of the main one, unless it alone was seen to grow.
        if view.only is not None or measured[0].growth_bytes >= MOST * growth:
            leaking, reason = _doubted(recording, view, measured[0], filling)
        doubt = newborn(measured, growth, window_s) if leaking else None
    leaking, reason = (None, doubt) if doubt is not None else (leaking, reason)
    if leaking is None:  # as long again as what was judged: by then it has gone on, or stood
        reason = reason.replace(_LONGER, f"record {format_about(2 * window_s[1] - window_s[0])}")
    hidden = hidden_share(view.trend, job.time_s, job.held_bytes) if leaking is False and filling is None else 0.0
    measures = window_s[0], window_s[1], growth, job.time_s, job.held_bytes
    shown = least_shown(view.trend, job.time_s, job.held_bytes) * 3600 if leaking is False else float("inf")
    least = shown if np.isfinite(shown) else None
    if hidden > 1.0:
        watched_s = window_s[1] - window_s[0]
        needed, leak = format_duration(max(2.0, hidden) * watched_s), format_rate(shown, watched_s)
        reason = f"moves by so much that a leak of {leak} would not have shown; record for about {needed}"
        leaking, least = None, None
    found = TreeGrowth(leaking, reason, plain.trend, *measures, tuple(measured), filling, least, judged=view.trend)
    return _weighed(found, nearest(limits(recording)), horizon_s)


def _foreseen(job: Job, trend: Trend) -> str | None:
    """Why unclear: that growth comes to its end was not seen, and as much as half of it could go on without showing."""
    unseen_bytes = least_shown(trend, job.time_s, job.held_bytes) * (trend.end_s - trend.start_s)
    is_seen = trend.model != SATURATION or unseen_bytes < MOST * trend.growth_bytes
    return None if is_seen else f"{trend.reason}, and half as much could go on without showing; {_LONGER} to be sure"


def _weighed(growth: TreeGrowth, limit: Limit | None, horizon_s: float | None) -> TreeGrowth:
    """Whether growth matters within the horizon, and whether a leak that does would have shown."""
    ahead_s = horizon_s if horizon_s is not None else DAY_S
    if limit is None or growth.main is None:
        return growth
    room = limit.least_room_bytes
    least_per_hour = min(room, _MATTERS * float(limit.limit_bytes[-1])) / ahead_s * 3600
    within = f"within {format_duration(ahead_s)}"
    gained = growth.main.growth_bytes if growth.main.is_hidden else growth.growth_bytes
    per_hour = per_second(gained, growth.end_s - growth.start_s) * 3600
    if growth.leaking and 0 < per_hour < least_per_hour:
        rate = f"{format_bytes(24 * per_hour)} per day"
        reason = f"it grows by {rate}, less than {_MATTERS:.0%} of {limit.label} {within}"
        return replace(growth, leaking=False, reason=reason, is_harmless=True)
    least = growth.least_bytes_per_hour
    span_s = growth.end_s - growth.start_s
    unseen_bytes = (least or 0.0) * span_s / 3600
    if growth.leaking is False and least is not None and unseen_bytes > room:
        reason = f"a leak of {format_rate(least, span_s)} would not have shown, and would have filled {limit.label}"
        return replace(growth, leaking=None, reason=reason)
    if growth.leaking is False and least is not None and least > least_per_hour > 0:
        needed_s = span_s * least / least_per_hour
        if horizon_s is None:  # what does not show in a day is not worth a figure
            return replace(growth, enough_s=needed_s if needed_s <= ahead_s else None)
        reason = f"a leak of {format_rate(least, span_s)} would not have shown, and matters {within}"
        return replace(growth, leaking=None, reason=f"{reason}; record for about {format_duration(needed_s)}")
    return growth


def _without_processes(recording: Recording) -> str:
    """Why unclear, and what the memory that is known did: of the machine, a cgroup, a GPU."""
    known = [(one.name, one.time_s, one.used_bytes) for one in limits(recording) if one.is_of_memory]
    known += gpu_series(recording)
    if not known:
        return _NO_SAMPLES.reason
    told = (f"that of {name} {judge(time_s, used).reason}" for name, time_s, used in known[:LISTED])
    return f"memory of processes is not in this recording; {'; '.join(told)}"


def _measured(job: Job, view: Witness) -> list[ProcessGrowth]:
    """The processes with what each gained in the window of the view, the most first; before all the one it judged."""
    window_s = (view.trend.start_s, view.trend.end_s)
    hidden_bytes = view.trend.growth_bytes
    measured = [
        replace(p, growth_bytes=hidden_bytes, hides=view.hides)
        if p is view.hidden_in
        else p.within(*window_s, job.time_s)
        for p in job.processes
    ]
    judged = (view.only.pid, view.only.start_ticks) if view.only is not None else None
    return sorted(measured, key=lambda p: ((p.pid, p.start_ticks) != judged, -p.growth_bytes, p.pid))


def _doubted(
    recording: Recording, view: Witness, main: ProcessGrowth, filling: Fills | None
) -> tuple[bool | None, str]:
    """Growth that was seen, or may be there, and what speaks against its going on."""
    limited = _limited(filling, main) if filling is not None else None
    if limited is not None:
        return limited
    if view.trend.verdict == CANNOT_TELL:
        return None, view.trend.reason
    window_s = (view.trend.start_s, view.trend.end_s)
    doubt = passing(Grown(recording, main, window_s, filling, view.may_settle))
    return (None, doubt) if doubt is not None else (True, view.trend.reason)


def _limited(filling: Fills, main: ProcessGrowth) -> tuple[bool | None, str] | None:
    """What fills up is bounded by that, where it explains the growth."""
    if filling.share < MOST or filling.other_share > 1 - ENOUGH:
        return None
    first = filling.found[0]
    if first.limit is None or not filling.are_known:
        line = next(one.line for one in filling.found if one.limit is None)
        where = f" ({line.place})" if line is not None else ""
        limited = f"{first.name} is kept below a number of members that is not known{where}"
        return None, f"{limited}: it may stop growing there"
    if filling.room is not None:
        return None
    limit = f"its limit of {format_count(first.limit)} members"
    if first.is_far and first.level_bytes > float(main.held_bytes[-1]):  # a guess that means a multiple of it
        in_s = first.full_in_s
        pace = f", in {format_duration(in_s)} at this pace" if in_s is not None else ""
        full = f"about {format_bytes(first.level_bytes)} once it is full{pace}"
        return None, f"{first.name} is at {first.full_share:.1%} of {limit}, and may take {full}"
    reason = f"{first.name} fills up to {limit}"
    if filling.share >= ENOUGH and filling.other_share < TOLD_SHARE:
        return False, reason
    return None, f"{reason}, which explains {filling.share:.0%} of the growth; record longer to see the rest"


def no_growth(kind: str, growth: TreeGrowth) -> RuledOut | Skipped:
    """What a growth analyzer answers when the tree does not grow, or unclear."""
    if growth.leaking is None:
        return Skipped(kind, growth.reason)
    figures = {"growth_bytes": growth.growth_bytes, "window_s": round(growth.end_s - growth.start_s, 1)}
    return RuledOut(kind, f"memory does not keep growing: {growth.reason}", figures)


def severity_of(growth: TreeGrowth, bytes: int) -> str:
    """``critical`` for what explains half of a growing tree or more, ``warning`` for less."""
    return "critical" if growth.leaking and bytes >= MOST * growth.growth_bytes else "warning"
