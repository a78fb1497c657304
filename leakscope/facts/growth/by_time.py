"""The plain judge: the memory of all processes together, over time."""

from __future__ import annotations

from ..series.trend import GROWING
from .question import Case, Opinion


def by_time(case: Case) -> Opinion | None:
    """The tree's own trend."""
    trend = case.trend
    return Opinion(trend.reason, trend.start_s, trend.end_s) if trend.verdict == GROWING else None
