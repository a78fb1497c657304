"""Does the tree of processes grow without end: the question every growth finding starts from.

One judge goes through the views of its memory: the first that shows growth is believed, and without one the plain view.
Then it asks what speaks against that. What fills up to a limit of its own is no leak; and unclear where growth
may end by itself, or where a holder rises in memory that stands. A new view is one more in ``views``.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ...findings import RuledOut, Skipped
from ...units import MOST, format_bytes, format_count, format_duration
from ..series.arithmetic import Floats
from ..series.trend import CANNOT_TELL, FLAT, GROWING, Trend, judge, least_shown
from .beneath import beneath
from .doubts import (
    breathing,
    importing,
    newborn,
    observed,
    reused,
    settling,
    starting,
    starved,
    uncollected,
    unfinished,
)
from .filling import Fills, fills
from .job import Job, job_of
from .limits import gpu_series, limits
from .processes import ProcessGrowth, process_growths
from .views import View, views

if TYPE_CHECKING:
    from ...storage import Recording

_LEAKING = {GROWING: True, FLAT: False, CANNOT_TELL: None}
_MOST_TOLD = 4  # of what is no process's
_NO_SAMPLES = Trend(CANNOT_TELL, "no memory samples in this recording")


@dataclass(frozen=True, eq=False)
class TreeGrowth:
    """The tree as a whole. ``leaking`` is True, False, or None with the ``reason`` why unclear.

    ``processes`` are ordered by what they gained between ``start_s`` and ``end_s``, the most first; where one alone was
    seen to grow, that one. ``fills``: what in the first of them fills up to a limit of its own.
    ``least_bytes_per_hour``: where ``leaking`` is False, the slowest steady growth that would have shown.
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

    @property
    def main(self) -> ProcessGrowth | None:
        """The process that was seen to grow, or else gained most."""
        return self.processes[0] if self.processes else None

    @property
    def growth_bytes_per_hour(self) -> float:
        return self.growth_bytes / max(self.end_s - self.start_s, 1e-9) * 3600

    def process(self, pid: int) -> ProcessGrowth | None:
        """The process with this pid that gained most."""
        return next((p for p in self.processes if p.pid == pid), None)


def tree_growth(recording: Recording) -> TreeGrowth:
    """Trends of every process and of their sum, and the verdict on them."""
    processes = process_growths(recording)
    if not processes:
        nothing = np.empty(0)
        return TreeGrowth(None, _without_processes(recording), _NO_SAMPLES, 0.0, 0.0, 0, nothing, nothing)
    job = job_of(recording, processes)
    looks = views(job)
    plain = next(looks)
    view = plain if plain.trend.verdict == GROWING else next((v for v in looks if v.trend.verdict == GROWING), plain)
    riser = beneath(recording, job.worker, _span(job)) if view.trend.verdict != GROWING else None
    if riser is not None and riser.is_steady:
        view = riser.view
    window_s = (view.trend.start_s, view.trend.end_s)
    measured = _measured(job, view)
    growth = sum(p.growth_bytes for p in measured)
    leaking, reason = _LEAKING[view.trend.verdict], view.trend.reason
    filling = None
    if view.trend.verdict == GROWING:
        filling = fills(recording, measured[0].pid, measured[0].growth_bytes, window_s)
        # That of many processes does not end with that of the main one, unless it alone was seen to grow.
        if view.only is not None or measured[0].growth_bytes >= MOST * growth:
            leaking, reason = _doubted(recording, view, measured[0], filling)
        doubt = newborn(measured, growth, window_s) if leaking else None
        leaking, reason = (None, doubt) if doubt is not None else (leaking, reason)
    elif view.trend.verdict == FLAT:
        doubt = riser.doubt if riser is not None else starved(job.worker, view.trend)
        leaking, reason = (None, doubt) if doubt is not None else (leaking, reason)
    measures = window_s[0], window_s[1], growth, job.time_s, job.held_bytes
    shown = least_shown(view.trend, job.time_s, job.held_bytes) * 3600 if leaking is False else float("inf")
    least = shown if np.isfinite(shown) else None
    return TreeGrowth(leaking, reason, plain.trend, *measures, tuple(measured), filling, least)


def _without_processes(recording: Recording) -> str:
    """Why unclear, and what the memory that is known did: of the machine, a cgroup, a GPU."""
    known = [(one.name, one.time_s, one.used_bytes) for one in limits(recording) if one.is_of_memory]
    known += gpu_series(recording)
    if not known:
        return _NO_SAMPLES.reason
    told = (f"that of {name} {judge(time_s, used).reason}" for name, time_s, used in known[:_MOST_TOLD])
    return f"memory of processes is not in this recording; {'; '.join(told)}"


def _measured(job: Job, view: View) -> list[ProcessGrowth]:
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
    recording: Recording,
    view: View,
    main: ProcessGrowth,
    filling: Fills | None,
    *,
    min_share: float = 0.5,  # of the growth: less, and what fills up does not explain it
    sure_share: float = 0.75,  # of the growth: the rest is what lies between its members
    most_besides: float = 0.25,  # of the growth, kept by others that have no limit: they are the answer then
    certain_besides: float = 0.08,  # of the growth: what is told as a finding of its own
) -> tuple[bool | None, str]:
    """Growth that was seen, and what speaks against its going on."""
    if filling is not None and filling.share >= min_share and filling.other_share < most_besides:
        first = filling.found[0]
        if first.limit is None or not filling.are_known:
            line = next(one.line for one in filling.found if one.limit is None)
            where = f" ({line.place})" if line is not None else ""
            limited = f"{first.name} is kept below a number of members that is not known{where}"
            return None, f"{limited}: it may stop growing there"
        if filling.room is None:
            limit = f"its limit of {format_count(first.limit)} members"
            if first.is_far and first.level_bytes > float(main.held_bytes[-1]):  # a guess that means a multiple of it
                in_s = first.full_in_s
                pace = f", in {format_duration(in_s)} at this pace" if in_s is not None else ""
                full = f"about {format_bytes(first.level_bytes)} once it is full{pace}"
                return None, f"{first.name} is at {first.full_share:.1%} of {limit}, and may take {full}"
            reason = f"{first.name} fills up to {limit}"
            if filling.share >= sure_share and filling.other_share < certain_besides:
                return False, reason
            return (
                None,
                f"{reason}, which explains {filling.share:.0%} of the growth; a longer run would show the rest",
            )
    window_s = (view.trend.start_s, view.trend.end_s)
    doubt = settling(main, window_s) if view.may_settle else None
    asked = (recording, main, window_s)
    doubt = doubt or reused(main, window_s) or breathing(main, window_s) or observed(*asked)
    doubt = doubt or uncollected(main, window_s) or starting(*asked)
    doubt = doubt or importing(*asked, filling) or unfinished(*asked)
    if doubt is not None:
        return None, doubt
    return _LEAKING[view.trend.verdict], view.trend.reason


def _span(job: Job) -> tuple[float, float]:
    return float(job.time_s[0]), float(job.time_s[-1])


def no_growth(kind: str, growth: TreeGrowth) -> RuledOut | Skipped:
    """What a growth analyzer answers when the tree does not grow, or unclear."""
    if growth.leaking is None:
        return Skipped(kind, growth.reason)
    figures = {"growth_bytes": growth.growth_bytes, "window_s": round(growth.end_s - growth.start_s, 1)}
    return RuledOut(kind, f"memory does not keep growing: {growth.reason}", figures)


def severity_of(growth: TreeGrowth, bytes: int, *, critical_share: float = 0.5) -> str:
    """``critical`` for what explains half of a growing tree or more, ``warning`` for less."""
    return "critical" if growth.leaking and bytes >= critical_share * growth.growth_bytes else "warning"
