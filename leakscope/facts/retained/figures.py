"""What is known of one holder of growing memory: who it is, how much it explains, and how sure that is."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...confidence import AGAINST, FAIR, NEUTRAL, STRONG, STRONGLY_AGAINST, WEAK, Ground, graded
from ...rising import PART
from ...units import FEWEST, LARGEST_SMALL, MOST, MUCH, NEARLY_ALL, SOME, over
from ..calls import MODULE, calls_of
from ..code.adding import CALLS, CREATES, GIVES, Line, Source
from ..code.imports import package_of
from ..code.index import tail
from ..code.starts import calls
from ..code.statements import statement_at
from ..growth.paces import paced
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from ..heap.accumulation import Accumulation, keeps_growing
from ..heap.comparable import Heap, tensor_count_at
from ..heap.naming import OF_C
from ..heap.owners import graph_below, heaviest_leaf
from ..heap.place import GRAPH_TYPE, Place, Reference
from ..series.arithmetic import Floats, level_at
from ..tables import only
from ..where.allocations import NATIVE, OBJECTS
from ..where.holders import are_results_of_cells, holder_name, named_in, removed_at
from ..where.progress import seen_in_all
from ..where.stacks import GrowthLine, lines_of
from .look import Look

_CALLED = re.compile(r"(?<!\w)(\w+)\(")
_SOME = MUCH  # of what stays: below, a line's function took no part in it
_RESIDENT = 1.1  # times what there is: estimates of what is held are no better than that


@dataclass(frozen=True, eq=False)
class Retained:
    """One holder. ``place`` is what accumulates, ``named`` the user's name for it, ``kept`` what it is made of.

    **Units** bytes. ``total_bytes`` is what mending it would free, with what it pins; ``held_bytes`` that without it;
    ``weighed_bytes`` what the snapshots saw it gain, ``explained_bytes`` that with others of its name, ``share`` this
    of what came into use; ``untouched``: nobody has written to it yet. ``made``: lines that allocated what stays in the
    process, the most first, by samples.
    """

    holder: Accumulation
    look: Look
    place: Place
    named: Place
    kept: Place
    lines: Sequence[Line]
    removing: Sequence[Line]  # lines that remove members of it
    weighed_bytes: float
    explained_bytes: float
    share: float
    total_bytes: int
    held_bytes: int
    untouched: bool
    made: Sequence[GrowthLine] = ()

    @property
    def made_at(self) -> GrowthLine | None:
        """The line that allocated what it holds: of what stayed in the process most was, and most of it is here."""
        first = self.made[0] if self.made else None
        if first is None or first.share < MOST or not first.is_sure:
            return None
        is_as_much = first.alive[0].allocator in NATIVE and MOST * first.bytes <= self.total_bytes <= first.bytes / MOST
        return first if self.share >= MOST or (is_as_much and not self._is_anothers) else None

    @property
    def _is_anothers(self) -> bool:
        """Another holder of what that allocator hands out gained most: what most was allocated for is in that."""
        large, most = _is_large(self.place), MOST * self.look.in_use_bytes
        others = ((one.place, one.growth_bytes) for one in self.look.holders if one.place is not self.place)
        return any(place is not None and size >= most and _is_large(place) == large for place, size in others)

    @property
    def name(self) -> str:
        return holder_name(self.named)

    @property
    def line(self) -> Line | None:
        """Where it is added; of results of cells, or where what made it or added to it ran once: what allocated it."""
        made = self.made_at or self._asked_through_owner
        is_told = bool(self.lines) or are_results_of_cells(self.place)
        if made is not None and is_told and all(line.is_once and line.kind in (CALLS, CREATES) for line in self.lines):
            return made.as_line
        return self.lines[0] if self.lines else None

    @property
    def _asked_through_owner(self) -> GrowthLine | None:
        """The line that calls the library whose holder it is, of those that allocated a good part of what stays."""
        library = package_of(self.named.reference.owner_module or "")
        return next((one for one in self.made if one.library == library and one.share >= _SOME), None)

    @property
    def limit(self) -> int | None:
        """How many members it may have."""
        return self.place.length_limit

    @property
    def may_be_filling(self) -> bool:
        """Too few snapshots saw it to tell it from a cache that fills, unless it rises lately as it did at first."""
        heap, place = self.look.heap, self.place
        if not place.has_length or self.is_graph or len(heap.takes) > FEWEST:
            return False
        late = place.length[-1] - np.interp(heap.time_s[[0, -1]].mean(), heap.time_s, place.length)
        return bool(len(heap.takes) < FEWEST or late < (1 - PART) * MOST * (place.length[-1] - place.length[0]))

    @property
    def constructor(self) -> str | None:
        """``Dataset.__init__``, where that runs still and nothing else holds what it fills."""
        place = self.place
        while place.named_by is not None and place.named_by.type_name != "frame":
            place = place.named_by
        function = place.reference.owner if place.named_by is not None else None
        return function if function is not None and function.endswith(".__init__") else None

    @property
    def is_graph(self) -> bool:
        return self.kept.type_name == GRAPH_TYPE

    @property
    def is_unseen_graph(self) -> bool:
        """A graph longer than snapshots follow: what it gained is a guess."""
        return self.holder.is_guess and self.place.type_name == GRAPH_TYPE

    @property
    def tensor_growth_bytes(self) -> float:
        return float(self.place.tensor_bytes[-1] - self.place.tensor_bytes[0])

    @property
    def grounds(self) -> list[Ground]:
        """What it rests on. Each is something that a person would ask for."""
        heap, place = self.look.heap, self.place
        found = [Ground(f"it is {self.share:.0%} of what came into use", graded(self.share, NEUTRAL, STRONG))]
        if len(heap.takes) > FEWEST:
            found.append(Ground(f"{len(heap.takes)} snapshots weighed it", WEAK))
        elif self.may_be_filling:
            found.append(Ground("few snapshots weighed it, and what fills up would look the same", AGAINST))
        if place.has_length and keeps_growing(heap.time_s, place.length, min_persistence=0.9):
            found.append(Ground("it has more and more members", FAIR))
        if self.line is not None and self.line.kind == "adds":
            found.append(Ground("a line adds to it", WEAK))
        if self.made_at is not None:
            found.append(Ground("what stays was seen to be allocated for it", WEAK))
        if heap.truncated:
            found.append(Ground("snapshots were cut short: figures are estimates", AGAINST))
        if self.constructor is not None:
            found.append(Ground("the constructor that fills it has not returned", AGAINST))
        if self.limit is not None:
            found.append(Ground("it has a limit of its own", STRONGLY_AGAINST))
        if self.holder.handle is not None:
            found.append(Ground("what its items refer to has not been measured", AGAINST))
        return found


def retained(
    holder: Accumulation, look: Look, process: ProcessGrowth, growth: TreeGrowth, sources: Sequence[Source]
) -> Retained:
    place = holder.place
    assert place is not None
    named, lines = _collected(place, look, process, sources) or named_in(sources, place)
    made = lines_of(growth, process, sources, NATIVE if _is_large(place) or holder.is_guess else OBJECTS)
    weighed = min(holder.growth_bytes, max(place.growth_bytes, 0.0))
    explained = weighed if holder.is_guess and holder.bytes_each is None else holder.growth_bytes
    # Of what lies between all that is held, its part: where nothing else came into use, that is all of it.
    pinning_ratio = 1.0 + look.pinned_bytes / max(look.in_use_bytes, holder.growth_bytes, 1.0)
    held = holder.growth_bytes * _times(holder, look, process, growth)
    untouched = is_untouched(place, look.heap, process)
    most = process.growth_bytes if untouched else max(process.growth_bytes, holder.growth_bytes)
    is_once = not place.is_user and bool(lines) and lines[0].is_once and lines[0].kind != CREATES
    if lines and (is_once or all(line.kind == CALLS for line in lines)):
        adding = _by_what_they_make(lines, place, process, made)
        if not any(one.file == line.file and one.line == line.line for line in adding for one in made):
            adding = [*_given_back(lines, place, made), *_making_as_many(look, process, sources, place), *adding]
    else:
        adding = _by_what_made(lines, made)
    return Retained(
        holder=holder,
        look=look,
        place=place,
        named=named,
        kept=holder.handle or graph_below(place) or heaviest_leaf(_largest(holder, place)),
        lines=adding,
        removing=removed_at(sources, named, place) if adding else (),
        weighed_bytes=weighed,
        share=min(max(explained / max(look.in_use_bytes, 1.0), 0.0), 1.0),
        explained_bytes=explained,
        total_bytes=int(min(held * pinning_ratio, most)),
        held_bytes=int(min(held, most)),
        untouched=untouched,
        made=made,
    )


_COLLECT = {"list": ("list", "sorted"), "tuple": ("tuple",), "set": ("set",), "dict": ("dict",)}


def _collected(
    place: Place, look: Look, process: ProcessGrowth, sources: Sequence[Source]
) -> tuple[Place, list[Line]] | None:
    """What a call as ``list(results)`` has gathered so far has no name yet: that call, by the lines that run."""
    if place.parent is not None or not place.said.endswith(OF_C):
        return None
    for call in seen_in_all(process, look.heap.takes):
        statement = statement_at(sources, call.file, call.line)
        for node in [] if statement is None else ast.walk(statement.node):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in _COLLECT.get(place.type_name, ()) and node.args:
                named = Reference("local", ast.unparse(node), call.function, None, call.file, call.line, is_user=True)
                return place.known_as(named), [Line(call.file, call.line, call.function, "", "adds", 1.0)]
    return None


def _times(holder: Accumulation, look: Look, process: ProcessGrowth, growth: TreeGrowth) -> float:
    """As many times what it gained between the snapshots it gained in the judged window, beside whose job it is told.

    What fills up slows down: of tensors that came one by one with those alive, the count of these goes on to the end.
    Before the first snapshot no more than it had in that.
    """
    assert holder.place is not None
    ends_s, place = np.array([growth.start_s, growth.end_s]), holder.place
    weighed = place.deep_bytes if holder.bytes_each is None else place.length  # each member stands for memory elsewhere
    at, within = paced(process, look.heap.time_s, weighed, ends_s)
    live, by_the_end = look.heap.tensor_count, tensor_count_at(process.tables["sentinels"], process.pid, ends_s)
    if live is not None and by_the_end is not None and _come_with(place, live):
        at, within = live, by_the_end
    if growth.end_s <= growth.start_s or not np.ptp(at):
        return 1.0
    before, after = (at[0] - within[0]) / np.ptp(at), (within[1] - at[-1]) / np.ptp(at)
    is_weighed = not holder.is_guess or holder.bytes_each is not None
    had = over(float(weighed[0]), float(np.ptp(weighed))) if is_weighed else before
    return 1.0 + float(min(before, had) + after)


def _come_with(place: Place, live: Floats) -> bool:
    """Whether nearly all tensors that came between any two of several snapshots are its members, and as many."""
    came, added = np.diff(live), np.diff(place.length)
    is_of_tensors = place.tensor_bytes[-1] - place.tensor_bytes[0] >= MOST * place.growth_bytes > 0
    are_alike = np.minimum(came, added) >= NEARLY_ALL * np.maximum(came, added)
    return is_of_tensors and len(came) >= 2 and bool(are_alike.all() and added.sum() > 0)


def _largest(holder: Accumulation, place: Place) -> Place:
    """Of variables that a module gets ever more of, each is a place of its own."""
    if place.reference.edge_kind == "namespace" and place.children:
        return max(place.children, key=lambda child: child.growth_bytes)
    return holder.largest or place


def _is_large(place: Place) -> bool:
    """Whether malloc handed out most of what it gained: buffers, and objects that are too large for Python's arenas."""
    parts = (place.array_bytes, place.tensor_bytes, place.native_bytes)
    buffers = sum(float(part[-1] - part[0]) for part in parts)
    if buffers >= MOST * place.growth_bytes:
        return True
    added = place.length[-1] - place.length[0] if place.has_length else 0.0
    return bool(added > 0 and place.growth_bytes > LARGEST_SMALL * added)


def _by_what_made(lines: Sequence[Line], made: Sequence[GrowthLine]) -> Sequence[Line]:
    """Where several lines add to it, those in functions under which most of what stays was allocated come first.

    One that ran once added little of what came again and again, though all was allocated under its function, main().
    A line that makes it stands first where none was found that fills it: the others are about something else.
    """
    adding = [line for line in lines if line.kind != CREATES]
    if len(adding) < 2 or not made or lines[0].kind == CREATES:
        return lines

    adding.sort(key=lambda line: (line.is_once, _share_under(line, made) < _SOME))  # else as they stand
    return [*adding, *(line for line in lines if line.kind == CREATES)]


def _share_under(line: Line, made: Sequence[GrowthLine]) -> float:
    """Of what stays: the part that was allocated under the function of a line."""
    own = line.file, line.function or MODULE
    stays = [one for one in made if one.bytes > 0]
    under = (one for one in stays if any((call.file, call.function) == own for call in calls_of(one.stack)))
    return over(sum(one.bytes for one in under), sum(one.bytes for one in stays))


def _by_what_they_make(
    lines: Sequence[Line], place: Place, process: ProcessGrowth, made: Sequence[GrowthLine]
) -> Sequence[Line]:
    """Calls of the library that holds it. What such a call adds is allocated within it, so at its own line, and by the
    allocator of its members: what imports ask of malloc is more than many small objects. One that makes an object of
    another class of the library's than the members are adds nothing, and one that ran once no thousands of members.
    """
    bytes_at = {(one.file, one.line): one.bytes for one in made}
    members = {tail(child.type_name) for child in place.children}
    types = map(str, process.rows("object_types")["type_name"].unique())
    library = (place.reference.owner_module or "").split(".")[0]
    others = {tail(name) for name in types if name.startswith(f"{library}.")} - members

    def order(line: Line) -> tuple[bool, bool, float]:
        makes_other = not others.isdisjoint(_CALLED.findall(line.text))
        return makes_other, line.is_once, -bytes_at.get((line.file, line.line), 0.0)

    return sorted(lines, key=order)


def _making_as_many(look: Look, process: ProcessGrowth, sources: Sequence[Source], place: Place) -> Sequence[Line]:
    """The line that makes objects of a library's, of which as many came as members: to call the holder's own library
    is no more than a guess, where nothing of what stays was allocated there.
    """
    if place.is_user or not place.has_length:
        return ()
    types, first, last = process.rows("object_types"), look.heap.takes[0], look.heap.takes[-1]
    own = {source.module for source in sources}
    counts = [only(types, types["take"] == take).sums("type_name", "object_count") for take in (first, last)]
    members = max(float(place.length[-1] - place.length[0]), 1.0)
    for name, count in counts[1].items():
        if abs((count - counts[0].get(name, 0)) / members - 1) >= SOME:
            continue
        made = {(one.line.file, one.line.line): one.line for one in calls(sources, tail(name))}
        if len(made) == 1 and "." in name and name.rpartition(".")[0] not in own:
            return list(made.values())
    return ()


def _given_back(lines: Sequence[Line], place: Place, made: Sequence[GrowthLine]) -> Sequence[Line]:
    """The line that made most of what stays, in a function that the holder's own library had called: it was given what
    that returned. Not where one of the calls of the library stands in that function, or in one that it called.
    """
    first = made[0] if made else None
    if place.is_user or first is None or first.share < MOST or not first.is_sure:
        return ()
    way = calls_of(first.stack)
    last = max((at for at, call in enumerate(way) if call[:2] == (first.file, first.line)), default=0)
    begin = next((at + 1 for at in range(last - 1, -1, -1) if not way[at].is_user), 0)
    if begin == 0 or way[begin - 1].library != package_of(place.reference.owner_module or ""):
        return ()
    ran = {(call.file, call.function) for call in way[begin : last + 1]}
    is_given = not any((line.file, line.function) in ran for line in lines)
    return [first.as_line._replace(kind=GIVES)] if is_given else ()


def is_untouched(place: Place, heap: Heap, process: ProcessGrowth) -> bool:
    """It holds more than there was in memory and swap: zeros and empty tensors that nobody has written to yet."""
    there = level_at(process.time_s, process.held_bytes, float(heap.time_s[-1]))
    return bool(place.deep_bytes[-1] > _RESIDENT * max(there, float(heap.rss_bytes[-1])))
