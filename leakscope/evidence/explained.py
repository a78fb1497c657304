"""How much of the growth the findings of other diagnoses explain already."""

from __future__ import annotations

from collections.abc import Iterable

from ..facts.growth.processes import ProcessGrowth
from ..facts.subject import Whose
from ..findings import Finding
from ..kinds import GROWTH, WHEN
from ..units import MOST


def explained_bytes(so_far: Iterable[Finding], process: Whose | None = None) -> int:
    """Of one process, or of all. Waste did not grow; what tells only when memory grows leaves open what holds it."""
    holding = (f for f in so_far if not f.wasted and not f.tells(WHEN))
    return sum(f.bytes for f in holding if process is None or f.subject.pid in (process.pid, None))


def is_explained(so_far: Iterable[Finding], process: ProcessGrowth) -> bool:
    """Most of what it gained: named holders never cover all, since allocators round up, and keep some."""
    return explained_bytes(so_far, process) >= MOST * process.growth_bytes


def growing_holder(so_far: Iterable[Finding]) -> str | None:
    """What another finding of growth names: what somebody can look at comes before what nobody knows."""
    named = (f for f in so_far if f.tells(GROWTH) and f.severity != "note" and f.subject.holder)
    return next((one.subject.holder for one in named), None)
