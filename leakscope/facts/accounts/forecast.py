"""When the next limit of a recorded job will be reached.

A forecast needs a trend that was judged to go on; from a start-up, a step or an accident of the last minute there is
none.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ...units import MOST, format_about, format_count, format_duration, format_rate
from ..growth.limits import Limit
from ..growth.tree import TreeGrowth
from ..series.arithmetic import Floats, level_at
from ..series.trend import GROWING, LEAST_STEPS, Trend, judge
from ..tables import only


@dataclass(frozen=True, eq=False)
class Forecast:
    """When ``limit`` will be reached, in seconds after the judged window; ``low_s`` to ``high_s`` bound it at 95 %.

    ``watched_s``: how long that window was.
    """

    limit: Limit
    seconds: float
    low_s: float
    high_s: float
    bytes_per_s: float
    watched_s: float
    step: int | None

    @property
    def text(self) -> str:
        rate = format_rate(self.bytes_per_s * 3600, self.watched_s)
        between = f"{format_duration(self.low_s)} to {format_duration(self.high_s)}"
        steps = f", at about step {format_count(self.step)}" if self.step is not None else ""
        return f"at this rate ({rate}) {self.limit.label} is full in {format_about(self.seconds)} ({between}){steps}"

    @property
    def figures(self) -> dict[str, object]:
        low_s, high_s = round(self.low_s, 1), round(self.high_s, 1)
        seconds = {"seconds_to_limit": round(self.seconds, 1), "seconds_low": low_s, "seconds_high": high_s}
        return {**seconds, "bytes_per_s": round(self.bytes_per_s, 1), "step_at_limit": self.step}


class Own(Protocol):
    """What of a limit's use is the job's own, at moments; None where nobody knows whose it is."""

    def __call__(self, limit: Limit, time_s: Floats) -> Floats | None: ...


def forecast(limits: Sequence[Limit], growth: TreeGrowth, own: Own) -> Forecast | None:
    """The limit that will be reached first; None where nothing of the job's grows towards one."""
    found = [forecast_of(limit, growth, own) for limit in limits]
    return min((f for f in found if f is not None), key=lambda f: f.seconds, default=None)


def forecast_of(limit: Limit, growth: TreeGrowth, own: Own) -> Forecast | None:
    """When this one will be reached; None where nothing grows towards it, or others do."""
    if limit.is_of_memory:
        trend = _tree_trend(growth)
    else:
        process = growth.process(limit.pid) if limit.pid is not None else growth.main
        trend = judge(limit.time_s, limit.used_bytes, started_s=process.first_step_s if process else None)
    if trend is None or trend.verdict != GROWING or trend.slope_low <= 0:
        return None
    if not limit.is_of_memory and not _is_filled_by_job(limit, trend, own):
        return None
    at_end_s = min(trend.end_s, float(limit.time_s[-1]))
    room = max(0.0, float(limit.limit_bytes[-1]) - level_at(limit.time_s, limit.used_bytes, at_end_s))
    is_of_the_job = limit.is_of_memory and trend is growth.trend
    # The rate that the report has for the job is the one to go by: of one thing there is one figure.
    per_s = growth.growth_bytes_per_hour / 3600 if is_of_the_job and growth.growth_bytes > 0 else trend.slope_per_s
    low_s, seconds, high_s = (room / slope for slope in (trend.slope_high, per_s, trend.slope_low))
    step = _step_in(growth, seconds)
    bounds = min(low_s, seconds), max(high_s, seconds)
    return Forecast(limit, seconds, *bounds, per_s, trend.end_s - trend.start_s, step)


def _tree_trend(growth: TreeGrowth) -> Trend | None:
    """Of the tree, or of the process that made it count as growing; None where that was told by steps, not by time."""
    if not growth.leaking:
        return None
    trends = [growth.trend, *(process.trend for process in growth.processes)]
    window = growth.start_s, growth.end_s
    return next((t for t in trends if t.verdict == GROWING and (t.start_s, t.end_s) == window), None)


def _is_filled_by_job(limit: Limit, trend: Trend, own: Own) -> bool:
    """Whether most of what came into use in that time is its own: /dev/shm and a GPU are everybody's."""
    window = np.array([trend.start_s, trend.end_s])
    ours = own(limit, window)
    if ours is None:
        return True
    used = np.interp(window, limit.time_s, limit.used_bytes)
    return bool(ours[1] - ours[0] >= MOST * (used[1] - used[0]))


def _step_in(growth: TreeGrowth, seconds: float) -> int | None:
    """The training step of then, if steps go on as in the judged window."""
    if growth.main is None:
        return None
    rows = growth.main.rows("sentinels")
    rows = only(rows, rows["step"].notna() & rows["time_s"].between(growth.start_s, growth.end_s))
    if len(rows) < 2:
        return None
    first, last = rows.iloc[0], rows.iloc[-1]
    steps, passed_s = int(last["step"] - first["step"]), float(last["time_s"] - first["time_s"])
    if steps < LEAST_STEPS or passed_s <= 0:
        return None
    return round(float(last["step"]) + seconds * steps / passed_s)
