"""What is counted from outside and piles up: threads, children, descriptors.

Each is a number over time that should not keep rising, and inside the process an object that somebody keeps.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TypeVar

import numpy as np

from ..facts.case import Case
from ..facts.code.adding import Line
from ..facts.growth.processes import ProcessGrowth
from ..facts.series.arithmetic import Floats
from ..facts.series.trend import CANNOT_TELL, FLAT, GROWING, judge
from ..findings import Series
from ..units import GOOD_PART, SOME
from .keepers import NOBODY, Keeper, keeper
from .sentences import curve

_MORE = GOOD_PART  # of the usual number: 16 more beside 500 is no pile
_LAST_SHARE = SOME  # of the run: what is taken down then is taken down because the run is over


@dataclass(frozen=True, eq=False)
class Pile:
    """How many of one thing a process had at each moment; ``owner`` None: who has them is not known."""

    owner: ProcessGrowth | None
    time_s: Floats
    count: Floats

    @property
    def most(self) -> int:
        return int(self.count.max(initial=0))

    @property
    def risen(self) -> int:
        """How many more there are than at the start; a few looks are taken together, since each may miss some."""
        return int(self.count[-3:].max() - np.median(self.count[:3]))

    def verdict(self, min_count: int) -> str:
        """Whether their number keeps rising. Before the owner's first training step nothing is made again and again."""
        if not self.count.size or np.ptp(self.count) < min_count:
            return FLAT
        started_s = self.owner.first_step_s if self.owner is not None else None
        trend = judge(
            self.time_s, self.count, started_s=started_s, min_growth_bytes=min_count, min_growth_fraction=_MORE
        )
        return trend.verdict

    def keeper(self, case: Case, types: frozenset[str], made: Line | None, *, of_class: str | None = None) -> Keeper:
        """Who keeps the objects that stand for them: of ``types``, or of a class of the user's. ``made``: where."""
        if self.owner is None:
            return NOBODY
        return keeper(case, self.owner, types, (self.time_s, self.count), made, of_class=of_class)

    def curve(self, name: str) -> Series:
        return curve(name, self.time_s, self.count, name)


class OwnPile(Pile):
    """What a process has that was sampled itself."""

    owner: ProcessGrowth


_Pile = TypeVar("_Pile", bound=Pile)


def rising(piles: Iterable[_Pile], min_count: int) -> tuple[list[_Pile], bool]:
    """The piles that keep rising by ``min_count`` and a share of what there were; whether unclear of others."""
    verdicts = [(pile, pile.verdict(min_count)) for pile in piles]
    return [pile for pile, verdict in verdicts if verdict == GROWING], CANNOT_TELL in [v for _, v in verdicts]


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
