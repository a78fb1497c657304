"""The trend of a number of things that a job has open or alive: threads, children, descriptors."""

from __future__ import annotations

import numpy as np

from ...units import GOOD_PART, SOME
from ..series.arithmetic import Floats
from ..series.trend import Trend, judge
from .processes import ProcessGrowth

_LAST_SHARE = SOME  # of the run: what is taken down then is taken down because the run is over


def up_to_the_end(time_s: Floats, count: Floats, owner: ProcessGrowth | None) -> tuple[Floats, Floats]:
    """The series without the owner's shutdown, and without a last fall that is deeper than any before.

    A pile that is taken down with the job was there all the same, also if the last look saw only some of it go. A
    saw-tooth, ended at a peak, stays one.
    """
    if owner is not None:
        at_work = time_s <= owner.exit_s
        time_s, count = time_s[at_work], count[at_work]
    if not count.size:
        return time_s, count
    peak = count.size - 1 - int(np.argmax(count[::-1]))
    fall, before = count[peak] - count[-1], count[: peak + 1]
    fell_before = float((np.maximum.accumulate(before) - before).max())
    is_late = time_s[-1] - time_s[peak] <= _LAST_SHARE * (time_s[-1] - time_s[0])
    end = peak + 1 if is_late and fall > fell_before else count.size
    return time_s[:end], count[:end]


def judge_count(
    time_s: Floats,
    count: Floats,
    owner: ProcessGrowth | None,
    *,
    min_count: int,
    min_fraction: float = GOOD_PART,  # of the usual number: 16 more beside 500 is no pile
) -> Trend:
    """Does it keep rising? Before the owner's first training step nothing is made again and again."""
    started_s = owner.first_step_s if owner is not None else None
    return judge(time_s, count, started_s=started_s, min_growth_bytes=min_count, min_growth_fraction=min_fraction)
