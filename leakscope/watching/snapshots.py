"""The largest holders in the newest snapshot of each process, as the agent wrote them down."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from .cursor import Row

Process = tuple[int, int]  # (pid, start_ticks)
_NAMED = frozenset(("local", "global", "attribute", "class-attribute", "cell", "default", "cache"))
_MEMBER = "[*]"
_AT_THE_END = "exit"  # the locals of main() are gone by then
_PASSED_THROUGH = 0.5  # of its bytes lie in what it names: then these are the holders


class Holder(NamedTuple):
    """A variable or attribute of the user's. ``growth_bytes``: since the first snapshot, None if not known."""

    process: Process
    path: str
    type_name: str
    length: int | None
    bytes: int
    growth_bytes: int | None


class _Snapshot:
    """One snapshot: the user's named places in it, and what each of them hangs below."""

    def __init__(self, process: Process, number: int) -> None:
        self.process = process
        self.number = number
        self.time_s = 0.0
        self.truncated = False
        self.bytes: dict[str, int] = {}
        self._places: dict[str, Row] = {}
        self._parents: dict[str, str | None] = {}

    def add(self, row: Row) -> None:
        path, parent = row.get("path"), row.get("parent_path")
        if not isinstance(path, str):
            return
        self._parents[path] = parent
        self.bytes[path] = self.bytes.get(path, 0) + int(row.get("deep_bytes") or 0)
        # What is named inside a member belongs to the container: trainer.history, not trainer.history[*].loss.
        if row.get("is_user") and row.get("edge_kind") in _NAMED and _MEMBER not in path:
            known = self._places.get(path)
            if known is None or (row.get("deep_bytes") or 0) > (known.get("deep_bytes") or 0):
                self._places[path] = row

    def holders(self) -> Iterator[Row]:
        """Places whose bytes are not mostly those of places below them, nor part of one that is given."""
        below: dict[str, int] = {}
        above = {path: self._named_above(path) for path in self._places}
        for path, parent in above.items():
            if parent is not None:
                below[parent] = below.get(parent, 0) + self.bytes[path]
        passed = {path for path, part in below.items() if part > _PASSED_THROUGH * self.bytes[path]}
        for path, row in self._places.items():
            parent = above[path]
            while parent is not None and parent in passed:
                parent = above[parent]
            if path not in passed and parent is None:
                yield row

    def below(self, path: str) -> list[tuple[str, int]]:
        """What hangs directly below a place, and its bytes."""
        return [(each, self.bytes[each]) for each, parent in self._parents.items() if parent == path]

    def _named_above(self, path: str) -> str | None:
        parent, seen = self._parents.get(path), {path}
        while parent is not None and parent not in self._places:
            if parent in seen:
                return None
            seen.add(parent)
            parent = self._parents.get(parent)
        return parent if parent not in seen else None


class Snapshots:
    """The first and the last snapshots of each process."""

    def __init__(self) -> None:
        self._takes: dict[Process, dict[int, _Snapshot]] = {}
        self._at_the_end: set[tuple[Process, int]] = set()

    def add_take(self, process: Process, row: Row, time_s: float) -> None:
        if row.get("reason") == _AT_THE_END:
            self._at_the_end.add((process, int(row["take"])))
        take = self._take(process, int(row["take"]))
        take.time_s, take.truncated = time_s, bool(row.get("truncated"))

    def add_holder(self, process: Process, row: Row) -> None:
        self._take(process, int(row["take"])).add(row)

    def forget(self, process: Process) -> None:
        self._takes.pop(process, None)
        self._at_the_end = {each for each in self._at_the_end if each[0] != process}

    def newest_s(self) -> float | None:
        """When the newest of them was taken."""
        return max((take.time_s for _, take in self._pairs()), default=None)

    def largest(self) -> list[Holder]:
        """Holders of all processes, the largest first."""
        found = [
            Holder(
                process=last.process,
                path=row["path"],
                type_name=str(row.get("type_name") or ""),
                length=None if row.get("length") is None else round(row["length"]),
                bytes=last.bytes[row["path"]],
                growth_bytes=_growth(row["path"], first, last),
            )
            for first, last in self._pairs()
            for row in last.holders()
        ]
        return sorted((holder for holder in found if holder.bytes), key=lambda holder: -holder.bytes)

    def below(self, process: Process, path: str) -> list[tuple[str, int, int | None]]:
        """(path, bytes, growth) of what a holder holds directly, in the newest snapshot; the largest first."""
        found = [
            (each, bytes, _growth(each, first, last))
            for first, last in self._pairs()
            if last.process == process
            for each, bytes in last.below(path)
        ]
        return sorted(found, key=lambda each: -each[1])

    def _pairs(self) -> Iterator[tuple[_Snapshot, _Snapshot]]:
        for process, takes in self._takes.items():
            numbers = sorted(n for n in takes if (process, n) not in self._at_the_end)
            if numbers:
                yield takes[numbers[0]], takes[numbers[-1]]

    def _take(self, process: Process, number: int) -> _Snapshot:
        takes = self._takes.setdefault(process, {})
        if number not in takes:
            takes[number] = _Snapshot(process, number)
            for middle in sorted(takes)[1:-2]:  # of the last two one may be that of the end
                del takes[middle]
        return takes.get(number) or _Snapshot(process, number)


def _growth(path: str, first: _Snapshot, last: _Snapshot) -> int | None:
    if first is last or (path not in first.bytes and first.truncated):
        return None
    return last.bytes[path] - first.bytes.get(path, 0)
