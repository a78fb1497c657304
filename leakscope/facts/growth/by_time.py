"""The plain judge: the memory of all processes together, over time."""

from __future__ import annotations

from ..series.trend import GROWING
from .question import Opinion, Question


def by_time(question: Question) -> Opinion | None:
    """The tree's own trend."""
    trend = question.trend
    return Opinion(trend.reason, trend.start_s, trend.end_s) if trend.verdict == GROWING else None
