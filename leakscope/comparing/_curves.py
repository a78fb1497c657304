"""Memory of a run along its own training steps, or along the time since its start-up: how two runs are laid over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..facts.case import Case
from ..facts.growth.arenas import in_use_of
from ..facts.growth.paces import counted_steps
from ..facts.growth.tree import TreeGrowth
from ..facts.series.arithmetic import Floats
from ..facts.series.trend import FIRST_WORK_S, FLAT, GROWING, LEAST_STEPS
from ..facts.tables import fell_silent
from ..reporting.timeline import thinned
from ..rising import WARM_UP
from ._comparison import Overlay, RunCurve

Flags = NDArray[np.bool_]
STEP, SECOND = "step", "second"
ALIKE = 1.1  # times as long is as long
_ROUNDED = 0.05  # of the run: so much later it may begin where samples are put together


@dataclass(frozen=True, eq=False)
class Curve:
    """Memory of one run. ``worked_s``: when the process that counted most was seen at its first and last step, or None.

    ``steps``: (when, how many since the first), or None where those are too few. ``counted``: how many in all.
    ``judged_bytes``: of ``held_bytes`` those whose growth is compared.
    """

    growth: TreeGrowth
    time_s: Floats
    held_bytes: Floats
    judged_bytes: Floats
    start_s: float  # of the judged window: start-up is over
    worked_s: tuple[float, float] | None
    steps: tuple[Floats, Floats] | None
    counted: float = 0.0

    @property
    def lasted_s(self) -> float:
        return float(self.time_s[-1] - self.time_s[0]) if self.time_s.size else 0.0

    def at_work(self, lasted_s: float | None = None) -> Flags:
        """After its start-up; of that of a longer run, what is a share of it is one of ``lasted_s``."""
        start_s = self.start_s
        if lasted_s is not None and self.lasted_s > ALIKE * lasted_s:
            begin_s = float(self.time_s[0])
            share_s = begin_s + WARM_UP * lasted_s
            if self.worked_s is not None:
                start_s = min(start_s, max(share_s, self.worked_s[0] + FIRST_WORK_S))
            elif start_s - begin_s < (WARM_UP + _ROUNDED) * self.lasted_s:
                start_s = min(start_s, share_s)
        if self.worked_s is not None:
            start_s = max(start_s, self.worked_s[0])
        use = self.time_s >= start_s
        return use if use.any() else np.ones_like(use)

    def before_shutdown(self) -> Flags:
        """Of a leak: as the program ends it gives back what leaked, which says nothing of how fast it did."""
        return self.time_s <= (self.growth.end_s if self.growth.leaking else np.inf)

    def by_time(self, origin_s: float) -> Floats:
        return self.time_s - origin_s

    def by_step(self) -> Floats | None:
        """The step at each sample, fractions between two readings; before the first one 0."""
        return None if self.steps is None or not self.time_s.size else np.interp(self.time_s, *self.steps)


def curve_of(case: Case) -> Curve:
    """The memory of one run that is judged, and the steps it counted."""
    growth = case.growth
    time_s, held = _series(growth)
    counted = counted_steps(case.rows("sentinels"))
    worked_s = None
    if counted is not None and counted[1][-1] > counted[1][0]:
        last = int(np.searchsorted(counted[1], counted[1][-1]))
        worked_s = float(counted[0][0]), float(counted[0][last])
    count = float(counted[1][-1] - counted[1][0]) if counted is not None else 0.0
    return Curve(growth, time_s, held, held, growth.trend.start_s, worked_s, _enough(counted), count)


def alike_judged(curves: Sequence[Curve]) -> Sequence[Curve]:
    """All by what is in use, where the growth of one was seen in that alone: what else a process holds, as what malloc
    keeps free, differs between two runs of one program by more than such a leak gains.
    """
    used = [_in_use(curve) for curve in curves]
    if not any(curve.growth.main and curve.growth.main.is_hidden for curve in curves) or any(
        one is None for one in used
    ):
        return curves
    return [replace(curve, judged_bytes=one) for curve, one in zip(curves, used) if one is not None]


def _in_use(curve: Curve) -> Floats | None:
    """What allocators had handed out in the process that grew, and all that the others hold; None: nobody read it."""
    main = curve.growth.main
    at_s, used, _ = in_use_of(main.rows("sentinels")) if main is not None else (np.empty(0),) * 3
    if main is None or at_s.size < 2 or fell_silent(at_s[-1], main.time_s[0], main.time_s[-1]):
        return None
    own, in_use = (np.interp(curve.time_s, *one) for one in ((main.time_s, main.held_bytes), (at_s, used)))
    return curve.held_bytes - own + in_use


def origins(curves: Sequence[Curve]) -> list[float]:
    """From when on each is laid over the others by time: from its first step, if all counted some, else its beginning.

    **Units** seconds of its recording.
    """
    first = [curve.worked_s[0] for curve in curves if curve.worked_s is not None]
    if len(first) == len(curves):
        return first
    return [float(curve.time_s[0]) if curve.time_s.size else 0.0 for curve in curves]


def _series(growth: TreeGrowth) -> tuple[Floats, Floats]:
    """The whole tree; where a growing process hides behind others that shrink or come and go, that process."""
    if growth.leaking and growth.trend.verdict == FLAT and growth.main is not None:
        # Not one that only inherits the pages of others that end: it gained more, at once.
        one = next((p for p in growth.processes if p.trend.verdict == GROWING), growth.main)
        return one.time_s, one.held_bytes
    return growth.time_s, growth.held_bytes


def _enough(counted: tuple[Floats, Floats] | None) -> tuple[Floats, Floats] | None:
    """A run that goes on from a checkpoint counts on from there: so the first step seen is 0."""
    if counted is None:
        return None
    time_s, count = counted
    if count[-1] - count[0] < LEAST_STEPS:
        return None
    return time_s, count - count[0]


def overlay(before: Case, after: Case, unit: str) -> Overlay | None:
    """Both runs over all that they did, not only over the range they have in common; None where one has no curve."""
    runs = _along([curve_of(case) for case in (before, after)], unit)
    if any(x.size < 2 for x, _ in runs):
        return None
    x = np.unique(np.concatenate([x for x, _ in runs]))
    one, two = (
        [None if np.isnan(value) else round(value) for value in np.interp(x, own, held, np.nan, np.nan).tolist()]
        for own, held in runs
    )
    return Overlay(x.tolist(), one, two)


def run_curves(cases: Sequence[Case], unit: str) -> list[RunCurve]:
    """Each run over all that it did; empty where one has no curve."""
    runs = _along([curve_of(case) for case in cases], unit)
    if any(x.size < 2 for x, _ in runs):
        return []
    return [RunCurve(x.tolist(), np.round(held).astype(np.int64).tolist()) for x, held in runs]


def _along(curves: Sequence[Curve], unit: str) -> list[tuple[Floats, Floats]]:
    return [
        _drawn(curve, curve.by_step() if unit == STEP else curve.by_time(origin_s), unit)
        for curve, origin_s in zip(curves, origins(curves))
    ]


def _drawn(curve: Curve, x: Floats | None, unit: str) -> tuple[Floats, Floats]:
    """What is drawn of one run, from its first step to its last: of what it held at one step the most."""
    if x is None or not x.size:
        return np.empty(0), np.empty(0)
    within = curve.at_work()
    if unit == STEP and curve.steps is not None:
        within = (curve.time_s >= curve.steps[0][0]) & (curve.time_s <= curve.steps[0][-1])
    x, firsts = np.unique(np.round(x[within], 2), return_index=True)
    if not x.size:
        return x, x
    held = np.maximum.reduceat(curve.held_bytes[within], firsts)
    shown = thinned(held, [])
    return x[shown], held[shown]
