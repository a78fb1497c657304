"""Holders whose contents keep growing, in every process that carries a part of the growth: found once, told by kind.

``retained_objects`` and ``retained_graph`` ask for their kind. What differs is what the memory is made of in the end:
objects, arrays and tensors, or the autograd graphs that hang on tensors in C++.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..facts.code.adding import CREATES, Source
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import TreeGrowth, no_growth
from ..facts.heap.accumulation import Accumulation
from ..facts.heap.comparable import heaps
from ..facts.heap.place import OUTSIDE, Place
from ..facts.processes.inside import foreign
from ..facts.retained.figures import retained
from ..facts.retained.look import Look, holders_of, look_at
from ..facts.where.holders import named_in
from ..facts.where.stacks import growth_lines
from ..findings import Finding, RuledOut, Skipped
from ..units import MOST
from .retained_finding import GRAPH, OBJECTS, Seen, finding_of

if TYPE_CHECKING:
    from ..facts.case import Case

__all__ = ["GRAPH", "NEEDS", "OBJECTS", "findings"]

_IMMUTABLE = ("bytes", "str")

NEEDS = ("process_samples", "takes", "heap_nodes")


def findings(case: Case, kind: str, *, min_share: float, min_bytes: int) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield the findings of one kind, or why there are none.

    ``min_share`` of its process's growth and ``min_bytes``: below, a holder is not what ate the memory.
    """
    growth = case.growth
    if growth.leaking is not True:
        yield no_growth(kind, growth)
        return
    found = case.once(_all, min_share, min_bytes)
    if found is None:
        main = growth.main
        is_foreign = main is not None and foreign(case.recording, main.pid, main.start_ticks) is not None
        few = "not enough snapshots of the growing process: two are needed"
        yield Skipped(kind, f"{main.label}, which grows, is no Python" if main is not None and is_foreign else few)
        return
    own = [finding for finding in found if finding.kind == kind]
    yield from own
    if not own:
        what = "autograd graph" if kind == GRAPH else "container's contents"
        yield RuledOut(kind, f"no named {what} kept growing", {"growth_bytes": growth.growth_bytes})


def _all(case: Case, min_share: float, min_bytes: int) -> list[Finding] | None:
    """Findings of both kinds; None where no growing process has two snapshots."""
    growth, sources = case.growth, case.sources
    seen: dict[tuple[object, ...], list[Seen]] | None = None
    for process in case.carriers(min_bytes):
        looks = [
            look_at(heap, process, growth, min_share, min_bytes)
            for heap in heaps(case.recording, process.pid, growth.start_s, growth.end_s)
        ]
        if looks:
            look = _believed(looks)
            seen = {} if seen is None else seen
            package = _package(growth, process, sources) if look.explained_share < MOST else None
            holders = [
                holder
                for holder in holders_of(look, package)
                if not (_is_lost(holder, sources) or _is_made_anew(holder, sources) or _levels_out(holder, growth))
            ]
            for rank, holder in enumerate(holders):
                one = Seen(retained(holder, look, process, growth, sources), rank, process)
                key = one.key
                if any(other.process is process for other in seen.get(key, ())):
                    key = (*key, one.found.place.said)  # two of one class
                seen.setdefault(key, []).append(one)
    return [finding_of(case, alike) for alike in seen.values()] if seen is not None else None


def _believed(looks: Sequence[Look]) -> Look:
    """What explains most, the first of equals."""
    return max(looks, key=lambda look: look.explained_share)


def _levels_out(holder: Accumulation, growth: TreeGrowth) -> bool:
    """It fills up to a limit of its own, for which there is room: see filling."""
    fills = growth.fills
    if fills is None or fills.room is not None or holder.place is None:
        return False
    limited = {one.place.path for one in fills.found if one.limit is not None}
    inside: Place | None = holder.place  # of a cache that fills, what it keeps its members in is no other holder
    while inside is not None and inside.path not in limited:
        inside = inside.parent
    return inside is not None


def _is_lost(holder: Accumulation, sources: Sequence[Source]) -> bool:
    """Nothing in Python holds it, and the program gave it to nobody: see refcount-drift."""
    place = holder.place
    return place is not None and place.root_kind == OUTSIDE and not named_in(sources, place)[1]


def _is_made_anew(holder: Accumulation, sources: Sequence[Source]) -> bool:
    """A variable with one string, of which the program makes another each time: it is as large as what that is made of.

    Where a line adds to it, it is longer by what was added.
    """
    place = holder.place
    if place is None or place.type_name not in _IMMUTABLE or place.children or not place.is_user:
        return False
    lines = named_in(sources, place)[1]
    return bool(lines) and all(line.kind == CREATES for line in lines)


def _package(growth: TreeGrowth, process: ProcessGrowth, sources: Sequence[Source]) -> str | None:
    """Whose calls memory was seen to grow under."""
    lines = growth_lines(growth, process, sources)
    return lines[0].library if lines else None
