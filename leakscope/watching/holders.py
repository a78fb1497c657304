"""The largest holders in the newest snapshot of each process: variables and attributes of the user's, and their growth.

What a snapshot says of the heap is laid over the first one as a report does it. numpy takes time for that and
memory, so it is done when somebody asks, or elsewhere (``works_out`` False), from where it is ``put`` here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from .cursor import Row

if TYPE_CHECKING:
    from ..facts.code.adding import Line
    from ..facts.code.index import Source
    from ..facts.heap.place import Place

Process = tuple[int, int]  # (pid, start_ticks)
HOLDERS = "holders"  # what a scene is told besides rows of tables, of a run that has ended
TABLES = ("heap_graphs", "heap_nodes", "heap_children", "heap_shared")
_MEMBER = "[*]"
_AT_THE_END = "exit"  # the locals of main() are gone by then
_PASSED_THROUGH = 0.5  # of its bytes lie in what it names: then these are the holders


class Holder(NamedTuple):
    """A variable or attribute. ``growth_bytes``: since the first snapshot, None if not known.

    ``below``: (path, bytes, growth) of what hangs directly below it, the largest first. ``filled_at``: looks for the
    line that adds to it, None where none is found.
    """

    process: Process
    path: str
    type_name: str
    length: int | None
    bytes: int
    growth_bytes: int | None
    below: Sequence[tuple[str, int, int | None]] = ()
    filled_at: Callable[[], Line | None] = lambda: None


def holders_of(
    process: Process,
    places: Iterable[Place],
    at: int,
    first: int,
    *,
    is_whole: bool,
    sources: Callable[[], Sequence[Source]] = tuple,
) -> list[Holder]:
    """Those of the snapshot at position ``at``: what names pass on to other names is told of these.

    ``first``: position of the snapshot since which they grew; ``is_whole``: nothing was left out of that one.
    """
    here = [place for place in places if place.count[at] > 0]
    members: dict[Place | None, list[Place]] = {}
    for place in here:
        members.setdefault(place.parent, []).append(place)
    # What is named inside a member belongs to the container: trainer.history, not trainer.history[*].loss.
    named = {one for one in here if one.has_users_name and _MEMBER not in one.path}
    above = {place: _named_above(place, named) for place in named}
    inside: dict[Place, float] = {}
    for place, parent in above.items():
        if parent is not None:
            inside[parent] = inside.get(parent, 0.0) + place.deep_bytes[at]
    passed = {place for place, part in inside.items() if part > _PASSED_THROUGH * place.deep_bytes[at]}

    def grown(place: Place) -> int | None:
        unknown = first == at or not (place.count[first] > 0 or is_whole)
        return None if unknown else int(place.deep_bytes[at]) - int(place.deep_bytes[first])

    found = []
    for place in here:
        parent = above.get(place)
        while parent is not None and parent in passed:
            parent = above[parent]
        if place in named and place not in passed and parent is None and place.deep_bytes[at] >= 1:
            below = [(one.path, int(one.deep_bytes[at]), grown(one)) for one in members.get(place, ())]
            found.append(
                Holder(
                    process, place.path, place.type_name, int(place.length[at]) if place.has_length else None,
                    int(place.deep_bytes[at]), grown(place), sorted(below, key=lambda one: -one[1]),
                    partial(_filled_at, place, sources),
                )
            )  # fmt: skip
    return found


def _filled_at(place: Place, sources: Callable[[], Sequence[Source]]) -> Line | None:
    from ..facts.where.holders import named_in  # who only watches need not have it

    lines = named_in(sources(), place)[1]
    return lines[0] if lines else None


def _named_above(place: Place, named: set[Place]) -> Place | None:
    above, seen = place.parent, {place}
    while above is not None and above not in named and above not in seen:
        seen.add(above)
        above = above.parent
    return above if above in named and above is not place else None


class _Known:
    """Of one process: its snapshots, and what came of the graphs of the first and the last two.

    Of the last two one may be that of the end.
    """

    def __init__(self) -> None:
        self.takes: dict[int, tuple[float, bool]] = {}  # when, and whether it was cut short
        self.graphs: dict[int, list[tuple[str, Row]]] = {}
        self.told: dict[int, Callable[[], list[Holder]]] = {}

    def thin(self, kept: dict[int, Any]) -> None:
        for middle in sorted(kept)[1:-2]:
            del kept[middle]


class Holders:
    """Of all processes of a run, as its snapshots come."""

    def __init__(self, *, works_out: bool = True) -> None:
        self._works_out = works_out
        self._known: dict[Process, _Known] = {}
        self._sources: list[Row] = []
        self._found: dict[Process, tuple[int, list[Holder]]] = {}  # of the newest snapshot that is known

    def add_source(self, row: Row) -> None:
        self._sources.append(row)

    def add_take(self, process: Process, row: Row, time_s: float) -> None:
        if row.get("reason") != _AT_THE_END:
            known, take = self._known.setdefault(process, _Known()), int(row["take"])
            known.takes = {one: said for one, said in known.takes.items() if one in known.graphs or one in known.told}
            known.takes[take] = time_s, bool(row.get("truncated"))

    def add_graph(self, process: Process, table: str, row: Row) -> None:
        """A row of one of ``TABLES``."""
        known = self._known.setdefault(process, _Known())
        known.graphs.setdefault(int(row["take"]), []).append((table, row))
        known.thin(known.graphs)

    def tell(self, process: Process, take: int, holders: Callable[[], list[Holder]]) -> None:
        """What is known of a snapshot already."""
        known = self._known.setdefault(process, _Known())
        known.told[take] = holders
        known.thin(known.told)

    def put(self, process: Process, take: int, holders: list[Holder]) -> None:
        self._found[process] = take, holders

    def forget(self, process: Process) -> None:
        self._known.pop(process, None)
        self._found.pop(process, None)

    def due(self) -> dict[Process, int]:
        """The newest snapshot of each process of which holders can be told and are not yet."""
        newest = {}
        for process, known in self._known.items():
            take = max((take for take in known.takes if take in known.told or take in known.graphs), default=None)
            if take is not None and (process not in self._found or self._found[process][0] != take):
                newest[process] = take
        return newest

    def worked_out(self, process: Process, take: int) -> list[Holder]:
        """Those of one snapshot."""
        known = self._known[process]
        if take in known.told:
            return known.told[take]()
        from ..facts.heap.graph import laid_over  # numpy takes a moment, and many jobs need it not
        from ..facts.heap.history import History

        first = min(one for one in known.takes if one in known.graphs)
        takes = [first] if first == take else [first, take]
        parts = [part for one in takes for part in known.graphs[one]]
        tables = {name: _frame(name, [row for table, row in parts if table == name]) for name in TABLES}
        tables |= {"sources": _frame("sources", self._sources), "agent_notes": _frame("agent_notes", [])}
        places = laid_over(History(tables, process[0]), takes)
        is_whole = not known.takes[first][1]
        return holders_of(process, places, len(takes) - 1, 0, is_whole=is_whole, sources=self._read)

    def _read(self) -> list[Source]:
        from ..facts.code.recorded import sources_in

        return sources_in(_frame("sources", self._sources))

    def newest_s(self) -> float | None:
        """When the newest of the snapshots was taken whose holders are told."""
        self._work_out()
        return max((self._known[one].takes[take][0] for one, take in self._shown()), default=None)

    def largest(self) -> list[Holder]:
        """Holders of all processes, the largest first."""
        self._work_out()
        found = (holder for process, _ in self._shown() for holder in self._found[process][1])
        return sorted(found, key=lambda holder: -holder.bytes)

    def _shown(self) -> Iterator[tuple[Process, int]]:
        for process, (take, _) in self._found.items():
            if process in self._known and take in self._known[process].takes:
                yield process, take

    def _work_out(self) -> None:
        if self._works_out:
            for process, take in self.due().items():
                self.put(process, take, self.worked_out(process, take))


def _frame(name: str, rows: list[Row]) -> Any:
    from ..storage import rows_of_table

    return rows_of_table(name, rows)
