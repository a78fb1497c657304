"""A variable, attribute, cache, closure, frame or queue that holds ever more objects, arrays or tensors.

Looks for:     paths from a root whose contents kept growing from snapshot to snapshot.
Why:           what is still referred to is never freed; the place to fix is where it is added, not where it was made.
Decides by:    the accumulation point: the last stable path whose members multiply, with min_share of the growth.
Mistaken when: a cache that is bounded had not yet reached its bound when the recording ended.
Do:            bound the container, drop what is no longer needed, or keep numbers instead of objects.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..confidence import AGAINST, WEAK, Ground
from ..evidence import retained
from ..evidence.suspects import kept_in
from ..evidence.teams import growing
from ..findings import Finding, RuledOut, Skipped
from ..kinds import GROWTH
from ..units import MiB

if TYPE_CHECKING:
    from ..facts.case import Case

NEEDS = retained.NEEDS
TELLS = (GROWTH,)
AFTER = ()
_ALONE = (Ground("the only container that forks add to", WEAK),)
_AMONG = (Ground("the likeliest of several containers that forks add to", AGAINST),)


def findings(
    case: Case,
    *,
    min_share: float = 0.08,  # of its process's growth: two leaks at once differ by less than ten times
    min_bytes: int = 1 * MiB,  # what estimates from samples are sure of
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per holder, over all processes that carry a part of the growth."""
    in_forks = list(_in_forks(case, case.worth_a_look(min_bytes)))
    yield from in_forks
    for result in retained.findings(case, retained.OBJECTS, min_share=min_share, min_bytes=min_bytes):
        if isinstance(result, Finding) or not in_forks:
            yield result


def _in_forks(case: Case, min_bytes: float) -> Iterator[Finding]:
    """Of forks that took no snapshots, which would copy the pages they share: what the code they run adds to."""
    for team in case.teams if case.growth.leaking else ():
        forks = team.without_takes()
        if team.is_loader or not forks.alive or forks.is_copying or forks.gained < min_bytes:
            continue
        suspect = kept_in(case, forks)
        if suspect.how == "adds":
            yield growing(case, retained.OBJECTS, forks, suspect, _AMONG if suspect.others else _ALONE)
