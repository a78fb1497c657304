"""Holders in snapshots that read the graph of the heap and nothing else: as rows like those of other snapshots."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

from .. import schema
from .cursor import Row

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

    def holders(self, process: _Process, take: Row) -> Iterator[Row]:
        """Rows of the table ``holders`` for this snapshot, with the first for comparison; none where the agent wrote
        them.
        """
        number = int(take["take"])
        if take.get("visited_count") is None and number in self._rows.get(process, {}):
            yield from (row for row in self.exact_holders(process) if row["take"] == number)

    def exact_holders(self, process: _Process) -> Iterator[Row]:
        """The same of all that is kept of a process: of its first snapshot and the newest."""
        from ..facts.heap.holders import exact_holders  # pandas takes a moment, and many jobs need it not

        rows = self._rows.get(process, {})
        parts = [part for of_take in rows.values() for part in of_take]
        recording: Any = SimpleNamespace(
            tables={
                **{name: _frame(name, [row for table, row in parts if table == name]) for name in TABLES},
                "sources": _frame("sources", self._sources),
                "agent_notes": _frame("agent_notes", []),  # whether it is a fork is not asked here
            }
        )
        takes = _frame("takes", [{"pid": process[0], "start_ticks": process[1], "take": each} for each in rows])
        yield from exact_holders(recording, takes)


def _frame(name: str, rows: list[Row]) -> Any:
    import pandas as pd

    columns = [column.name for column in (*schema.KEYS, *schema.TABLES[name].columns) if column.name != "table"]
    return pd.DataFrame(rows).reindex(columns=list(dict.fromkeys(["time_s", *columns])))
