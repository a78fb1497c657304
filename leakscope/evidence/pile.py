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
from ..facts.growth.counts import judge_count
from ..facts.growth.processes import ProcessGrowth
from ..facts.series.arithmetic import Floats
from ..facts.series.trend import CANNOT_TELL, FLAT, GROWING
from ..findings import Series
from .keepers import NOBODY, Keeper, keeper
from .sentences import curve


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
        """Whether their number keeps rising."""
        if not self.count.size or np.ptp(self.count) < min_count:
            return FLAT
        return judge_count(self.time_s, self.count, self.owner, min_count=min_count).verdict

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
