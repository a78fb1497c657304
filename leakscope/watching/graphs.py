"""Holders as the graphs of a job's snapshots have them: of each process in its first snapshot and in the newest."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from .. import schema
from .cursor import Row

if TYPE_CHECKING:
    from ..facts.heap.place import Place

HOLDERS = "holders"  # what a scene is told besides rows of tables, of a run that has ended
TABLES = ("heap_graphs", "heap_nodes", "heap_children", "heap_shared")
_Process = tuple[int, int]  # (pid, start_ticks)


class Graphs:
    """What came of the graphs of each process: of its first snapshot and of the newest."""

    def __init__(self) -> None:
        self._sources: list[Row] = []
        self._first: dict[_Process, int] = {}
        self._rows: dict[_Process, dict[int, list[tuple[str, Row]]]] = {}

    def add_source(self, row: Row) -> None:
        self._sources.append(row)

    def add(self, process: _Process, table: str, row: Row) -> None:
        number, rows = int(row["take"]), self._rows.setdefault(process, {})
        first = self._first.setdefault(process, number)
        if number not in rows:
            for old in [other for other in rows if other != first]:
                del rows[old]
        rows.setdefault(number, []).append((table, row))

    def forget(self, process: _Process) -> None:
        self._first.pop(process, None)
        self._rows.pop(process, None)

    def newest(self) -> dict[_Process, int]:
        """The number of the newest snapshot of each process that has a graph."""
        return {process: max(rows) for process, rows in self._rows.items() if rows}

    def holders_in(self, process: _Process, number: int) -> Iterator[Row]:
        """Those of one snapshot, with the first for comparison."""
        if number in self._rows.get(process, {}):
            yield from (row for row in self.holders(process) if row["take"] == number)

    def holders(self, process: _Process) -> Iterator[Row]:
        """Those of all that is kept of a process."""
        from ..facts.heap.graph import laid_over  # pandas takes a moment, and many jobs need it not
        from ..facts.heap.history import History

        kept = self._rows.get(process, {})
        parts = [part for of_take in kept.values() for part in of_take]
        tables = {name: _frame(name, [row for table, row in parts if table == name]) for name in TABLES}
        tables |= {"sources": _frame("sources", self._sources), "agent_notes": _frame("agent_notes", [])}
        takes = list(kept)
        yield from holder_rows(laid_over(History(tables, process[0]), takes), takes)


def holder_rows(places: Iterable[Place], takes: Sequence[int]) -> Iterator[Row]:
    """What ``Snapshots`` is told of each place in each snapshot that has it."""
    for place in places:
        for at, take in enumerate(takes):
            if place.count[at] > 0:
                yield {
                    "take": take,
                    "path": place.path,
                    "parent_path": place.parent.path if place.parent is not None else None,
                    "edge_kind": place.reference.edge_kind,
                    "is_user": place.is_user,
                    "type_name": place.type_name,
                    "length": int(place.length[at]) if place.has_length else None,
                    "deep_bytes": int(place.deep_bytes[at]),
                }


def _frame(name: str, rows: list[Row]) -> Any:
    import pandas as pd

    types: dict[str, Any] = {"int": "Int64", "float": "float64", "bool": "boolean", "str": "object"}
    columns = [column for column in (*schema.KEYS, *schema.TABLES[name].columns) if column.name != "table"]
    return pd.DataFrame(
        {one.name: pd.array([row.get(one.name) for row in rows], dtype=types[one.type]) for one in columns}
    )
