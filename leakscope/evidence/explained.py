"""How much of the growth the findings of other diagnoses explain already."""

from __future__ import annotations

from collections.abc import Iterable

from ..agent import libraries
from ..facts.growth.processes import ProcessGrowth
from ..facts.subject import Whose
from ..findings import Finding
from ..kinds import GROWTH, WHEN
from ..units import MOST

_CODE = ("code", "function")
_WITHIN_TORCH = "torch._"  # dynamo and what it stands on: no program calls these


def explained_bytes(so_far: Iterable[Finding], process: Whose | None = None) -> int:
    """Of one process, or of all. Waste did not grow; what tells only when memory grows leaves open what holds it."""
    holding = (f for f in so_far if not f.wasted and not f.tells(WHEN))
    return sum(f.bytes for f in holding if process is None or f.subject.pid in (process.pid, None))


def is_explained(so_far: Iterable[Finding], process: ProcessGrowth) -> bool:
    """Most of what it gained: named holders never cover all, since allocators round up, and keep some."""
    return explained_bytes(so_far, process) >= MOST * process.growth_bytes


def is_made_by_a_compiler(finding: Finding) -> bool:
    """Whether what grows is code, which no line of a program adds, or within torch: what compiling leaves behind; or
    what is mended as a compiler's own cache is."""
    of_what = (finding.subject.type or "").rpartition(" of ")[2]
    is_within_torch = (finding.subject.module or "").startswith(_WITHIN_TORCH)
    caches = (thing.let_go for thing in libraries.all_of(libraries.COMPILER) if thing.let_go is not None)
    is_its_cache = any(text.startswith(let_go) for let_go in caches for text in finding.remedy)
    return finding.tells(GROWTH) and (is_within_torch or of_what in _CODE or is_its_cache)


def growing_holder(so_far: Iterable[Finding]) -> str | None:
    """What another finding of growth names: what somebody can look at comes before what nobody knows."""
    named = (f for f in so_far if f.tells(GROWTH) and f.severity != "note" and f.subject.holder)
    return next((one.subject.holder for one in named), None)
