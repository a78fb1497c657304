"""The most memory that the job held: as the samples show it, or more, where the kernel remembers more."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..facts.series.arithmetic import level_at
from ..facts.tables import only
from ..findings import Peak, Timeline

if TYPE_CHECKING:
    from ..facts.case import Case

_EVENT = "peak"
_BETWEEN = "between samples"
_BY, _BY_END = "(by ", ", between samples)"


def peak(case: Case, timeline: Timeline | None) -> Peak | None:
    """None for a recording without samples."""
    return peak_beside(case, max(timeline.total_bytes, default=0) if timeline is not None else 0)


def peak_beside(case: Case, sampled: int) -> Peak | None:
    """The same beside the most that samples show. **Units** bytes."""
    events = case.rows("events")
    told = only(events, (events["event"] == _EVENT) & events["value"].notna())
    size_bytes = int(told["value"].max()) if len(told) else 0
    text = str(told.sort_values("value")["text"].iloc[-1]) if size_bytes else ""
    cgroup_bytes = _of_cgroup(case)
    if _BETWEEN in text and size_bytes > sampled:
        _, by, process = text.partition(_BY)
        is_named = by and process.endswith(_BY_END)
        return Peak(size_bytes, process[: -len(_BY_END)] if is_named else None, True, cgroup_bytes)
    if size_bytes and _BETWEEN not in text:  # samples may have what our own snapshots took for a moment
        growth = case.growth
        at_end = level_at(growth.time_s, growth.held_bytes, growth.end_s) if growth.time_s.size else 0.0
        return Peak(max(size_bytes, round(at_end)), cgroup_bytes=cgroup_bytes)
    return Peak(int(sampled), cgroup_bytes=cgroup_bytes) if sampled else None


def _of_cgroup(case: Case) -> int | None:
    """Of the nearest cgroup with a limit, if the peak was reached during the recording."""
    rows = case.rows("cgroup_samples")
    rows = only(rows, rows["limit_bytes"].notna() & rows["cgroup_peak_bytes"].notna())
    if not len(rows):
        return None
    own = only(rows, rows["cgroup"] == rows["cgroup"].iloc[0])["cgroup_peak_bytes"]
    return int(own.iloc[-1]) if own.iloc[-1] > own.iloc[0] else None
