"""What keeps the things that pile up: the container, or the attribute, of the objects that stand for them.

Descriptors, threads and children are counted from outside. Inside, each is an object that some variable holds: a file,
a mapping, a Thread, a Popen. Snapshots show them where they weigh enough; else the sources tell where they are put.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..agent import libraries
from ..facts.case import Case
from ..facts.code.adding import ADDS, Line, Source
from ..facts.code.index import tail
from ..facts.code.keeping import Kept, kept_as
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.accumulation import keeps_growing
from ..facts.heap.comparable import Heap, heaps
from ..facts.heap.owners import user_place
from ..facts.heap.place import Place, upwards
from ..facts.series.arithmetic import Floats
from ..facts.where.holders import holder_name, named_in
from ..findings import Evidence
from ..units import FEWEST, MOST, NEARLY_ALL
from .sentences import at_line

MAPPINGS = libraries.names_of(libraries.MAPPING)
DESCRIPTORS = libraries.names_of(libraries.DESCRIPTOR)
THREADS = libraries.names_of(libraries.THREAD)
PROCESSES = libraries.names_of(libraries.PROCESS)
_POOLS = libraries.names_of(libraries.POOL)
_MOST_SHARE = 1.5  # of what was counted from outside: other numbers are not of the same things


class Keeper(NamedTuple):
    """``variable`` keeps them, or one of them for each of its objects. ``line``: what adds to it, where known."""

    name: str
    variable: str | None
    is_each: bool
    line: Line | None
    evidence: Sequence[Evidence]
    doubts: Sequence[str]

    @property
    def words(self) -> str:
        """To be put after what piles up: ``, in Store.readers (dict)``; nothing where nobody is known to keep them."""
        if not self.name:
            return ""
        return f", each {self.name}" if self.is_each else f", in {self.name}"


NOBODY = Keeper("", None, False, None, (), ())


def keeper(
    case: Case,
    process: ProcessGrowth,
    types: frozenset[str],
    counted: tuple[Floats, Floats],
    opening: Line | None,
    *,
    of_class: str | None = None,
) -> Keeper:
    """Who keeps the objects of these types, of which more and more are ``counted`` (times, numbers) from outside.

    ``of_class``: a class of the user's whose objects are such, too. ``opening``: the line that makes or starts them;
    what it puts them into is the answer where no snapshot shows one, or what keeps the objects it puts one each into.
    """
    sources = case.sources
    known = list(heaps(case.recording, process.pid, float(counted[0][0]), float(counted[0][-1])))
    for heap in known:
        seen = _seen(heap, types | _POOLS | _types_of(of_class, heap), counted, sources)
        if seen is not None:
            return seen
    kept = kept_as(sources, opening) if opening is not None else None
    if kept is None:
        return NOBODY
    for heap in known if not kept.is_container else ():
        seen = _seen(heap, _types_of(kept.owner, heap), counted, sources)
        if seen is not None and not seen.is_each:
            return seen
    there = _length_of(kept, known) if kept.is_container else None
    gained = float(counted[1][-1] - counted[1][0])
    if there is not None and there < MOST * gained:
        return NOBODY  # each new one takes the place of another, which goes on
    return _by_source(kept)


def _length_of(kept: Kept, heaps: Sequence[Heap]) -> float | None:
    """How many members a snapshot saw in it at last."""
    own = kept.variable, kept.owner
    found = (place for heap in heaps for place in heap.places if place.has_length)
    named = (place for place in found if (place.reference.variable, tail(str(place.reference.owner))) == own)
    return next((float(place.length[-1]) for place in named), None)


def _types_of(class_name: str | None, heap: Heap) -> frozenset[str]:
    return frozenset(place.type_name for place in heap.places if tail(place.type_name) == class_name)


def opening_line(made: Sequence[Line], kept: Keeper) -> Line | None:
    """Which of the lines that open such to mend, or the one that keeps them; the likeliest of ``made`` comes first.

    What nobody keeps is closed by itself. So where one function opens and keeps them, it is the place to close them;
    where a wrapper opens them for others, it is where they are kept.
    """
    adding = kept.line
    if adding is None:
        return made[0] if made else None
    together = [line for line in made if (line.file, line.function) == (adding.file, adding.function)]
    return together[0] if together else adding


def mapping_name(case: Case, process: ProcessGrowth, bytes: float, sources: Sequence[Source]) -> tuple[str, str] | None:
    """Name and variable of the one mapping, or container of such, large enough for ``bytes`` of changed pages."""
    for heap in heaps(case.recording, process.pid, float(process.time_s[0]), float(process.time_s[-1])):
        named = {
            holder_name(place): place.reference.variable
            for large in _outermost(heap.places, MAPPINGS)
            if large.deep_bytes[-1] >= bytes
            for place in (named_in(sources, _container(large) or large)[0],)
            if place.is_user
        }
        for name, variable in named.items() if len(named) == 1 else ():
            if variable is not None:
                return name, variable
    return None


def _seen(
    heap: Heap, types: frozenset[str], counted: tuple[Floats, Floats], sources: Sequence[Source]
) -> Keeper | None:
    groups: dict[int, tuple[Place | None, list[Place]]] = {}
    for place in _outermost(heap.places, types):
        container = _container(place)
        groups.setdefault(id(container), (container, []))[1].append(place)
    for container, objects in sorted(groups.values(), key=lambda group: -_gained(group[1])):
        counts = _counts(objects)
        there = np.flatnonzero(counts)  # a few objects weigh too little to be told
        if len(there) < 2 or not _rise_together(counts[there], heap.time_s[there], counted, objects):
            continue
        most = max(objects, key=lambda place: _gained([place]))
        named, lines = named_in(sources, container or user_place(most))
        variable = named.reference.variable
        if not named.is_user or variable is None:
            continue
        adding = lines[0] if container is not None and lines and lines[0].kind == ADDS else None
        figures = {"first_count": round(float(counts[there[0]])), "last_count": round(float(counts[there[-1]]))}
        text = (
            f"{most.path}: {figures['first_count']} objects of type {most.type_name} in the first and "
            f"{figures['last_count']} in the last of {len(there)} snapshots that show them"
        )
        evidence = [Evidence(text, figures)]
        if adding is not None:
            evidence.append(at_line(adding, "adds"))
        return Keeper(holder_name(named), variable, container is None, adding, evidence, [])
    return None


def _rise_together(counts: Floats, time_s: Floats, counted: tuple[Floats, Floats], objects: Sequence[Place]) -> bool:
    """As many more objects, about, as things counted from outside; of pools fewer do."""
    at_first, at_last = np.interp(time_s[[0, -1]], *counted)
    risen, gained = float(at_last - at_first), float(counts[-1] - counts[0])
    least = 0.0 if all(place.type_name in _POOLS for place in objects) else MOST * risen
    is_fitting = max(least, FEWEST) <= gained <= _MOST_SHARE * risen
    return is_fitting and keeps_growing(time_s, counts, min_persistence=NEARLY_ALL)


def _outermost(places: Iterable[Place], types: frozenset[str]) -> list[Place]:
    """Without what such an object is made of: a text file has a buffer, which has a raw file."""
    return [
        place for place in places
        if place.type_name in types and not any(above.type_name in types for above in upwards(place.parent))
    ]  # fmt: skip


def _container(place: Place) -> Place | None:
    """The nearest place up the path that does not multiply with these objects; None: all do, up to the root."""
    return next((above for above in upwards(place.parent) if _gained([above]) < MOST * _gained([place])), None)


def _counts(objects: Sequence[Place]) -> Floats:
    return np.asarray(np.sum([place.count for place in objects], axis=0), dtype=np.float64)


def _gained(objects: Sequence[Place]) -> float:
    counts = _counts(objects)
    return float(counts[-1] - counts[0])


def _by_source(kept: Kept) -> Keeper:
    name = kept.name
    what = "each is put into" if kept.is_container else "each is kept as"
    evidence = [Evidence(f"by the source, {what} {name}: {kept.line.text}", {"line": kept.line.line})]
    adding = kept.line if kept.is_container else None
    doubts = ["what keeps them was found in the source, not observed"]
    return Keeper(name, kept.variable, not kept.is_container, adding, evidence, doubts)
