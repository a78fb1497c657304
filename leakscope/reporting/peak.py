"""The most memory that the job held: as the samples show it, or more, where the kernel remembers more."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from ..findings import Peak, Timeline

if TYPE_CHECKING:
    from ..facts.case import Case

_EVENT = "peak"
_BY = re.compile(r"\(by (.*), between samples\)$")


def peak(case: Case, timeline: Timeline | None) -> Peak | None:
    """None for a recording without samples."""
    return peak_beside(case, max(timeline.total_bytes, default=0) if timeline is not None else 0)


def peak_beside(case: Case, sampled: int) -> Peak | None:
    """The same beside the most that samples show. **Units** bytes."""
    events = case.rows("events")
    told = events[(events["event"] == _EVENT) & events["value"].notna()]
    size_bytes = int(told["value"].max()) if len(told) else 0
    cgroup_bytes = _of_cgroup(case)
    if size_bytes > sampled:
        text = str(told.sort_values("value")["text"].iloc[-1])
        by = _BY.search(text)
        return Peak(size_bytes, by[1] if by is not None else None, True, cgroup_bytes)
    return Peak(int(sampled), cgroup_bytes=cgroup_bytes) if sampled else None


def _of_cgroup(case: Case) -> int | None:
    """Of the nearest cgroup with a limit, if the peak was reached during the recording."""
    rows = case.rows("cgroup_samples")
    rows = rows[rows["limit_bytes"].notna() & rows["cgroup_peak_bytes"].notna()]
    if not len(rows):
        return None
    own = rows[rows["cgroup"] == rows["cgroup"].iloc[0]]["cgroup_peak_bytes"]
    return int(own.iloc[-1]) if own.iloc[-1] > own.iloc[0] else None
