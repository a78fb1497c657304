"""Where growth leads: the judged window, since when it grows, and the straight line up to the limit."""

from __future__ import annotations

import numpy as np

from ..facts.case import Case
from ..findings import Outlook, Timeline, Verdict
from ..units import HARDLY

_LEFT = HARDLY  # of the growth: memory that never comes back below this has left its level


def outlook(case: Case, verdict: Verdict, drawn: Timeline) -> Outlook | None:
    """None where nothing was judged; without a line where the job does not leak, without a limit where none is near."""
    start_s, end_s = case.growth.start_s, case.growth.end_s
    if not end_s > start_s:
        return None
    window = Outlook(round(start_s, 2), round(end_s, 2))
    time_s, total = np.asarray(drawn.time_s), np.asarray(drawn.total_bytes, dtype=np.float64)
    inside = (time_s >= window.start_s) & (time_s <= window.end_s)
    if not case.growth.leaking or inside.sum() < 2 or case.growth.growth_bytes <= 0:
        return window
    time_s, total = time_s[inside], total[inside]
    ahead = case.forecast if verdict.seconds_to_limit is not None else None
    if ahead is not None and not ahead.limit.is_of_memory:  # a GPU, /dev/shm: not of what is drawn
        ahead = None
    slope = ahead.bytes_per_s if ahead is not None else case.growth.growth_bytes / (end_s - start_s)
    offset = float(np.median(total - slope * time_s))
    end_bytes = offset + slope * end_s
    kept = np.minimum.accumulate(total[::-1])[::-1]  # what was never given back
    left = kept <= kept[0] + _LEFT * (kept[-1] - kept[0])
    return Outlook(
        window.start_s,
        window.end_s,
        began_s=float(time_s[left][-1]),
        start_bytes=round(offset + slope * start_s),
        end_bytes=round(end_bytes),
        limit=ahead.limit.kind if ahead is not None else None,
        limit_bytes=round(end_bytes + slope * ahead.seconds) if ahead is not None else None,
        full_s=round(end_s + ahead.seconds, 1) if ahead is not None else None,
    )
