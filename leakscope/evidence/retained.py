"""Holders whose contents keep growing, in every process that carries a part of the growth: found once, told by kind.

``retained_objects`` and ``retained_graph`` ask for their kind. What differs is what the memory is made of in the end:
objects, arrays and tensors, or the autograd graphs that hang on tensors in C++.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..facts.case import Case
from ..facts.code.adding import CREATES, Source
from ..facts.code.ways_out import Library
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import TreeGrowth, no_growth, severity_of
from ..facts.heap.accumulation import Accumulation
from ..facts.heap.comparable import heaps
from ..facts.heap.place import OUTSIDE, Place, upwards
from ..facts.processes.inside import foreign
from ..facts.retained.figures import Retained, retained
from ..facts.retained.look import holders_of, look_at
from ..facts.where.holders import about, defined_at, named_in
from ..facts.where.stacks import lines_of
from ..findings import HELD_BY, Evidence, Finding, RuledOut, Series, Skipped
from ..units import LISTED, MOST, MUCH, format_bytes, format_count
from .mechanisms import advice
from .retained_words import doubts, evidence, title
from .sentences import looked_too_early

__all__ = ["GRAPH", "NEEDS", "OBJECTS", "agreed", "findings"]

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
        none = RuledOut(kind, NONE_GREW[kind], {"growth_bytes": growth.growth_bytes})
        yield looked_too_early(kind, growth, found) or none


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
            look = max(looks, key=lambda look: look.explained_share)  # the first of equals
            seen = {} if seen is None else seen
            lines = lines_of(growth, process, sources) if look.explained_share < MOST else []
            package = lines[0].library if lines else None  # under whose calls memory was seen to grow
            told = holders_of(look, package)
            told = [one for one in told if not (_is_lost(one, sources) or _is_made_anew(one, sources))]
            for rank, holder in enumerate(one for one in told if not _levels_out(one, growth)):
                one = Seen(retained(holder, look, process, growth, sources), rank, process)
                seen.setdefault(one.key, []).append(one)
    return [finding_of(case, alike) for alike in seen.values()] if seen is not None else None


def _levels_out(holder: Accumulation, growth: TreeGrowth) -> bool:
    """It fills up to a limit of its own, for which there is room: see filling."""
    fills = growth.fills
    if fills is None or fills.room is not None or holder.place is None:
        return False
    limited = {one.place.path for one in fills.found if one.limit is not None}
    # Of a cache that fills, what it keeps its members in is no other holder.
    return any(inside.path in limited for inside in upwards(holder.place))


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


def agreed(one: RuledOut, findings: Sequence[Finding]) -> RuledOut:
    """That nothing named grew, where another kind's finding names what did: then it is said where that is reported."""
    if one.reason != NONE_GREW.get(one.kind):
        return one
    named = (f for f in findings if f.severity != "note" and not f.wasted and f.subject.variable and f.subject.holder)
    found = next((f for f in named if one.kind == OBJECTS or _GRAPHS in f.title), None)
    return one if found is None else replace(one, reason=f"{found.subject.holder} is reported as {found.kind}")


# ---- one holder as a finding, whether one process has it or each of several that do the same


OBJECTS, GRAPH = "retained-objects", "retained-graph"
NONE_GREW = {OBJECTS: "no named container's contents kept growing", GRAPH: "no named autograd graph kept growing"}
_GRAPHS = "autograd graphs"
_MAIN_SHARE = MUCH  # of what came into use: the holder of most, and of so much, is the answer
_MOST_DRAWN = 64
_MAIN_PROCESS = 0.75  # of what the process gained that gained most: in a lesser one it is part of the answer at best


class Seen(NamedTuple):
    """A holder as it was found in one process. ``rank``: 0 for the holder of its process that gained most."""

    found: Retained
    rank: int
    process: ProcessGrowth

    @property
    def key(self) -> tuple[object, ...]:
        """A key that workers share which run one program and fill the same thing at the same line, and two objects of a
        class: to mend the one is to mend the other.

        By which path it is met differs: by a local of the call that runs as a snapshot is made, or by the loader.
        """
        line = self.found.line
        place = (line.file, line.line) if line is not None else self.found.place.said
        return self.found.is_graph, self.found.name, place, self.process.name, self.process.role


def finding_of(case: Case, alike: Sequence[Seen]) -> Finding:
    """One finding. ``alike``: all with one key, that of the process which gained most first."""
    found, rank, process = alike[0]
    place = found.place
    most = max(p.growth_bytes for p in case.growth.processes)
    is_main = rank == 0 and found.share >= _MAIN_SHARE and process.growth_bytes >= _MAIN_PROCESS * most
    total, held = (sum(getattr(one.found, name) for one in alike) for name in ("total_bytes", "held_bytes"))
    types = process.rows("object_types").dropna(subset=["base"])
    bases = dict(zip(types["type_name"], types["base"]))
    told = advice(found, case.sources, total, held, bases, case.once(_library_code))
    return case.finding(
        GRAPH if found.is_graph else OBJECTS,
        title(found, total, held, len({one.process.key for one in alike}), process.role),
        severity="critical" if is_main else severity_of(case.growth, total),
        grounds=found.grounds,
        bytes=total,
        bytes_per_hour=case.bytes_per_hour(total),
        bytes_per_step=case.bytes_per_step(total),
        process=process,
        line=found.line or defined_at(found.named),
        device="cpu",
        library=None if found.named.is_user else _library(found.place),
        evidence=[*_in_each(alike), *evidence(found, case.step_unit), *_too_high(case, place)],
        doubts=doubts(found),
        remedy=told.sentences,
        mechanism=told.mechanism,
        series=list(_series(alike)),
        **(about(found.named, place) | {"type": _type_text(place, found.kept)}),
    )


def _library_code(case: Case) -> Library:
    return Library(case.library_sources)


def _series(alike: Sequence[Seen]) -> Iterator[Series]:
    """What it held in each process, and of one process how many members it had."""
    for found, _, process in alike[:_MOST_DRAWN]:
        time_s, name = _rounded(found.look.heap.time_s), f"{HELD_BY} {found.name}"
        held = _rounded(found.place.deep_bytes, 0)
        if len(alike) > 1:
            yield Series(f"{name}, {found.place.said} in {process.label}", time_s, held, process=process.label)
        else:
            yield Series(name, time_s, held)
            counted = found.named.longer_member or found.place
            if counted.has_length:
                yield Series("members", time_s, _rounded(counted.length, 0), y_unit="count")


def _in_each(alike: Sequence[Seen]) -> Iterator[Evidence]:
    """Of several, before the figures of the first."""
    if len(alike) == 1:
        return
    processes = len({one.process.key for one in alike})
    where = [one.process.label if processes == len(alike) else one.found.place.said for one in alike]
    gained = [f"{format_bytes(one.found.total_bytes, signed=True)} in {name}" for one, name in zip(alike, where)]
    more = f", and {len(gained) - LISTED} more" if len(gained) > LISTED else ""
    among = f"{processes} processes" if processes > 1 else f"{len(alike)} objects"
    yield Evidence(f"in {among}: {', '.join(gained[:LISTED])}{more}", {"processes": processes})


def _too_high(case: Case, place: Place) -> Iterator[Evidence]:
    """It has a limit, and there is no room for what it takes when it is full."""
    fills = case.growth.fills
    if fills is None or fills.room is None:
        return
    for one in fills.found:
        if one.place.path == place.path and one.limit is not None:
            needs = f"{format_count(one.limit)} members would take about {format_bytes(one.level_bytes)}"
            where = f" ({one.line.file}:{one.line.line})" if one.line is not None else ""
            text = f"it has a limit{where} that does not help: {needs}, more than is left of {fills.room.label}"
            yield Evidence(text, {"limit": one.limit, "level_bytes": int(one.level_bytes)})


def _library(place: Place) -> str | None:
    module = place.reference.owner_module
    return module.split(".", 1)[0] if module is not None else None


def _type_text(place: Place, kept: Place) -> str:
    member = place.member_type
    text = place.type_name
    if member is not None:
        text += f" of {member}"
    if kept is not place and kept.type_name not in text:
        text += f", mostly {kept.type_name}"
    return text


def _rounded(values: Any, digits: int = 3) -> list[float]:
    return [round(float(v), digits) for v in values]
