"""How sure a finding is: computed from the grounds it rests on, which are told with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

LIKELY = 0.5  # less is never critical, and fails no gate: something else is likelier
# How sure one ground alone makes. Between two of them nothing that was measured tells findings apart.
PROVEN = 0.95  # it was written down, or counted where it happens: only a reading of ours could be wrong
SURE = 0.9  # it was counted; what it means is a judgement
STRONG = 0.8  # it was counted, and something innocent that is rare looks the same
FAIR = 0.7  # one thing that was seen, as others might be
WEAK = 0.6  # a sign, or what is left over
NEUTRAL = 0.5  # says nothing by itself; what comes with it decides
AGAINST = 0.35  # speaks for something else
STRONGLY_AGAINST = 1 - STRONG  # was counted, and is what something innocent has
LEVELS = (PROVEN, SURE, STRONG, FAIR, WEAK, AGAINST, STRONGLY_AGAINST)
_LEAST, _MOST = 0.05, 0.99  # nothing that was recorded proves that it cannot be otherwise


@dataclass(frozen=True)
class Ground:
    """One thing that was seen, and that speaks for a finding or against it.

    ``alone``: how sure it would make somebody who knew nothing else, 0 to 1; below 0.5 it speaks against. How often
    findings were right of which we were so sure is in docs/development/leakbench.md.
    """

    says: str
    alone: float

    @property
    def is_for(self) -> bool:
        return self.alone >= 0.5


def graded(share: float, least: float, most: float) -> float:
    """How sure a ground makes that a share, 0 to 1, was measured for."""
    return least + (most - least) * min(1.0, max(0.0, share))


def how_sure(grounds: Iterable[Ground]) -> float:
    """0 to 1, of grounds that do not depend on each other: their odds multiply. Without any it is as likely as not."""
    odds = prod(ground.alone / (1.0 - ground.alone) for ground in grounds)
    return round(min(max(odds / (1.0 + odds), _LEAST), _MOST), 2)
