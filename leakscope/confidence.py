"""How sure a finding is: computed from the grounds it rests on, which are told with it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import prod

LIKELY = 0.5  # less is never critical, and fails no gate: something else is likelier
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


def how_sure(grounds: Iterable[Ground]) -> float:
    """0 to 1, of grounds that do not depend on each other: their odds multiply. Without any it is as likely as not."""
    odds = prod(ground.alone / (1.0 - ground.alone) for ground in grounds)
    return round(min(max(odds / (1.0 + odds), _LEAST), _MOST), 2)
