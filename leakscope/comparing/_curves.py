"""Memory of a run along its own training steps, or along the time since its start-up: how two runs are laid over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..facts.growth.tree import TreeGrowth
from ..facts.series.arithmetic import Floats
from ..facts.series.trend import FLAT, GROWING, LEAST_STEPS
from ..reporting.laps import counted_steps
from ..reporting.timeline import thinned
from ._comparison import Overlay, RunCurve

if TYPE_CHECKING:
    from ..facts.case import Case

STEP, SECOND = "step", "second"


@dataclass(frozen=True, eq=False)
class Curve:
    """Memory of one run. ``steps``: (when, how many since the first) by the process that counted most, or None."""

    growth: TreeGrowth
    time_s: Floats
    held_bytes: Floats
    start_s: float  # of the judged window: start-up is over
    steps: tuple[Floats, Floats] | None

    @property
    def at_work(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        use: np.ndarray[tuple[int], np.dtype[np.bool_]] = self.time_s >= self.start_s
        return use if use.any() else np.ones_like(use)

    def by_time(self) -> Floats:
        return self.time_s - self.start_s

    def by_step(self) -> Floats | None:
        """The step at each sample, fractions between two readings; before the first one 0."""
        return None if self.steps is None or not self.time_s.size else np.interp(self.time_s, *self.steps)


def curve_of(case: Case) -> Curve:
    """The memory of one run that is judged, and the steps it counted."""
    growth = case.growth
    time_s, held = _series(growth)
    return Curve(growth, time_s, held, growth.trend.start_s, _steps(case))


def _series(growth: TreeGrowth) -> tuple[Floats, Floats]:
    """The whole tree; where a growing process hides behind others that shrink or come and go, that process."""
    if growth.leaking and growth.trend.verdict == FLAT and growth.main is not None:
        # Not one that only inherits the pages of others that end: it gained more, at once.
        one = next((p for p in growth.processes if p.trend.verdict == GROWING), growth.main)
        return one.time_s, one.held_bytes
    return growth.time_s, growth.held_bytes


def _steps(case: Case) -> tuple[Floats, Floats] | None:
    """A run that goes on from a checkpoint counts on from there: so the first step seen is 0."""
    counted = counted_steps(case)
    if counted is None:
        return None
    time_s, count = counted
    if count[-1] - count[0] < LEAST_STEPS:
        return None
    return time_s, count - count[0]


def overlay(before: Case, after: Case, unit: str) -> Overlay | None:
    """Both runs over all that they did, not only over the range they have in common; None where one has no curve."""
    runs = [_along(curve_of(case), unit) for case in (before, after)]
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
    runs = [_along(curve_of(case), unit) for case in cases]
    if any(x.size < 2 for x, _ in runs):
        return []
    return [RunCurve(x.tolist(), np.round(held).astype(np.int64).tolist()) for x, held in runs]


def _along(curve: Curve, unit: str) -> tuple[Floats, Floats]:
    """What is drawn of one run, from its first step to its last: of what it held at one step the most."""
    x = curve.by_step() if unit == STEP else curve.by_time()
    if x is None or not x.size:
        return np.empty(0), np.empty(0)
    within = curve.at_work
    if unit == STEP and curve.steps is not None:
        within = (curve.time_s >= curve.steps[0][0]) & (curve.time_s <= curve.steps[0][-1])
    x, firsts = np.unique(np.round(x[within], 2), return_index=True)
    if not x.size:
        return x, x
    held = np.maximum.reduceat(curve.held_bytes[within], firsts)
    shown = thinned(held, [])
    return x[shown], held[shown]
