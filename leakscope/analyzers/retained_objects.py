"""A variable, attribute, cache, closure, frame or queue that holds ever more objects, arrays or tensors.

Looks for:     paths from a root whose contents kept growing from snapshot to snapshot.
Why:           what is still referred to is never freed; the place to fix is where it is added, not where it was made.
Decides by:    the accumulation point: the last stable path whose members multiply, with min_share of the growth.
Mistaken when: a cache that is bounded had not yet reached its bound when the recording ended.
Do:            bound the container, drop what is no longer needed, or keep numbers instead of objects.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..evidence import retained
from ..facts.case import Case
from ..facts.growth.tree import TOLD_SHARE
from ..findings import Finding, RuledOut, Skipped
from ..kinds import GROWTH
from ..units import LITTLE

NEEDS = retained.NEEDS
TELLS = (GROWTH,)


def findings(
    case: Case,
    *,
    min_share: float = TOLD_SHARE,  # of its process's growth: two leaks at once differ by less than ten times
    min_bytes: int = LITTLE,  # what estimates from samples are sure of
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per holder, over all processes that carry a part of the growth."""
    return retained.findings(case, retained.OBJECTS, min_share=min_share, min_bytes=min_bytes)
