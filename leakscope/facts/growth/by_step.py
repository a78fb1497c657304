"""The trend of a job with its training steps for a clock: a leak of so much a step flattens in time when a machine gets
busy. Steps have to go on to the end: a job that stopped stepping is judged by time alone.
"""

from __future__ import annotations

import numpy as np

from ..series.arithmetic import Floats
from ..series.trend import FLAT, GROWING, judge
from .question import Opinion, Question

_LEAST_STEPS = 20  # fewer are too coarse a clock
_LIKE_BEFORE = 0.35  # of what a step leaked before: levels of three stretches are no better known than that
_STRETCHES = ((0.0, 0.15), (0.55, 0.75), (0.85, 1.0))  # of the samples: wide enough that one tooth is not the level


def by_step(
    question: Question,
    *,
    # Steps of the last third of the time over those of the first; above it time is as good a clock.
    max_pace: float = 0.6,
    max_pace_undecided: float = 0.9,  # enough where time alone cannot tell
) -> Opinion | None:
    """The trend by the steps of the worker; its moments are told in seconds."""
    rows = question.sentinels[question.sentinels["step"].notna()]
    time_s, held = question.time_s, question.held_bytes
    if len(rows) < 8 or time_s.size < 2:
        return None
    at_s, step = rows["time_s"].to_numpy(dtype=np.float64), rows["step"].to_numpy(dtype=np.float64)
    inside = (time_s >= at_s[0]) & (time_s <= at_s[-1])
    if inside.sum() < 2:
        return None
    time_s, held = time_s[inside], held[inside]
    steps = np.interp(time_s, at_s, step)
    if steps[-1] - steps[0] < _LEAST_STEPS:
        return None
    slow = max_pace if question.trend.verdict == FLAT else max_pace_undecided
    if not _slowed_down(time_s, at_s, step, slow) or not _goes_on(time_s, held, steps):
        return None
    seconds_per_step = (time_s[-1] - time_s[0]) / (steps[-1] - steps[0])
    trend = judge((steps - steps[0]) * seconds_per_step, held)  # as if all steps had taken equally long
    if trend.verdict != GROWING:
        return None
    ends = np.interp(np.array([trend.start_s, trend.end_s]) / seconds_per_step + steps[0], steps, time_s)
    return Opinion(f"{trend.reason}, counted in steps: the job slowed down", float(ends[0]), float(ends[1]))


def _slowed_down(time_s: Floats, at_s: Floats, step: Floats, max_pace: float) -> bool:
    first, last = (np.interp(np.quantile(time_s, [a, b]), at_s, step) for a, b in ((0.0, 1 / 3), (2 / 3, 1.0)))
    return bool(0 < last[1] - last[0] < max_pace * (first[1] - first[0]))


def _goes_on(time_s: Floats, held: Floats, steps: Floats) -> bool:
    """The slow steps of the last third of the time leak like those before; with a curriculum they only take longer."""
    stretches = [slice(*(round(part * time_s.size) for part in ends)) for ends in _STRETCHES]
    levels, moments = ([float(np.median(values[s])) for s in stretches] for values in (held, steps))
    before, after = np.diff(levels) / np.maximum(np.diff(moments), 1.0)
    return bool(after >= _LIKE_BEFORE * before)
