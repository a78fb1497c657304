"""The growth of one process that hides in the sum behind others that shrink, or come and go."""

from __future__ import annotations

from ..series.arithmetic import Floats
from ..series.trend import GROWING
from .processes import ProcessGrowth
from .question import Opinion, Question


def by_process(
    question: Question,
    *,
    min_life: float = 0.6,  # of the run: growth of a short-lived worker ends with the worker
    max_missing: float = 0.1,  # of the run, at its end: later, and it did not live to see it
) -> Opinion | None:
    """The process that gained most of those that grow and last."""
    growing = [p for p in question.processes if p.trend.verdict == GROWING]
    lasting = [p for p in growing if _lasts(p, question.time_s, min_life, max_missing)]
    if not lasting:
        return None
    grower = max(lasting, key=lambda p: p.trend.growth_bytes)
    return Opinion(f"{grower.label} {grower.trend.reason}", grower.trend.start_s, grower.trend.end_s)


def _lasts(process: ProcessGrowth, tree_time_s: Floats, min_life: float, max_missing: float) -> bool:
    """Alive at the end of the run and for most of it."""
    duration_s = tree_time_s[-1] - tree_time_s[0]
    lived_s = process.time_s[-1] - process.time_s[0]
    return bool(process.time_s[-1] >= tree_time_s[-1] - max_missing * duration_s and lived_s >= min_life * duration_s)
