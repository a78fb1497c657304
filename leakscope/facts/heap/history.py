"""The graphs of one process over all its snapshots: their rows, read once. What is asked about a window is a slice.

A dozen diagnoses ask for windows of their own, which have most of their snapshots in common. What the tables say is
turned into numbers and names for all of them at once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...storage import Recording, Rows
from ..remembered import remembered
from ..tables import cells, narrow, only
from .place import GROUPS, Floats, Place

FIGURES = (
    "retained_bytes", "retained_storage_bytes", "retained_native_bytes", "child_count", "length", "error_bytes",
    "retained_unshown_bytes",
)  # fmt: skip
_CHILDREN = ("node", "take", "type_name", "object_count", "retained_bytes")
_SHARED = ("dominator_node", "node", "type_name", "retained_bytes", "object_count", "direct_count")
_NOTHING_OF_THE_PROCESS = (
    "retained_storage_bytes", "retained_native_bytes", "retained_unshown_bytes", "error_bytes", "shallow_bytes",
)  # fmt: skip


@remembered
def history_of(recording: Recording, pid: int, *, on_devices: bool = False) -> History:
    return History(recording.rows, pid, on_devices=on_devices)


class Description(NamedTuple):
    """An object as the row of one snapshot has it. ``edge_name``: as it was written, a key in brackets.

    ``path_node``: by way of which it was found; ``dominator_node``: without which it could be freed. A snapshot that
    was made without the C library knows the first alone, which then stands for both.
    """

    path_node: int
    dominator_node: int
    root_kind: str | None
    type_name: str | None
    edge_kind: str | None
    edge_name: str | None
    owner: str | None
    owner_file: str | None
    owner_line: int | None
    opaque: bool | None
    shallow_bytes: int | None
    length_limit: int | None
    hit_count: int | None
    miss_count: int | None
    limits: str | None


class History:
    """What the tables say of one process's heap. ``on_devices``: bytes are those of tensors on GPUs."""

    def __init__(self, tables: Mapping[str, Rows], pid: int, *, on_devices: bool = False) -> None:
        rows = _of_process(tables, "heap_nodes", pid)
        self._rows = _on_devices(rows) if on_devices else rows
        self._take = _whole(self._rows, "take")
        self._node = _whole(self._rows, "node")
        self._dominator = _whole(self._rows, "dominator_node", "path_node")
        self._is_named = self._rows["is_named"].to_numpy(dtype=bool, na_value=False)
        self._figures = [self._rows[name].to_numpy(dtype=np.float64) for name in FIGURES]
        self._told: dict[int, Description] = {}  # by the position of a row
        self.successors_names = _names_of_successors(self._rows)
        self._children = _cells_by_take(tables, "heap_children", pid, _CHILDREN, on_devices)
        self._shared = _cells_by_take(tables, "heap_shared", pid, _SHARED, on_devices)
        self.places: dict[tuple[tuple[int, ...], bool], list[Place]] = {}  # by whom they were asked for, and how
        texts = tables["sources"].dropna(subset=["file"])
        self.user_files = dict(zip(texts["file"], texts["source_text"]))
        self.user_modules = _user_modules(tables, pid)

    def seen(self, position: Mapping[int, int]) -> Iterator[tuple[int, Description, Floats, NDArray[np.bool_]]]:
        """Each object that is in one of the snapshots ``position`` has, in the order in which they first saw it: its
        number, description, a row of values for each of FIGURES, and whether its length is known, which may be 0.

        It is described as it was newest, or as it was newest with a name, which is good as long as the object; what
        retains it is told by the newest in any case.
        """
        at_row = np.flatnonzero(np.isin(self._take, list(position)))
        numbers = self._node[at_row]
        index = {number: i for i, number in enumerate(dict.fromkeys(numbers.tolist()))}
        of_row = np.array([index[number] for number in numbers.tolist()], dtype=np.int64)
        at = np.array([position[take] for take in self._take[at_row].tolist()], dtype=np.int64)
        figures = np.zeros((len(index), len(FIGURES), len(position)))
        for i, column in enumerate(self._figures):
            figures[of_row, i, at] = np.nan_to_num(column[at_row])
        is_measured = np.zeros((len(index), len(position)), dtype=np.bool_)
        is_measured[of_row, at] = ~np.isnan(self._figures[FIGURES.index("length")][at_row])
        last = np.zeros(len(index), dtype=np.int64)
        last[of_row] = at_row
        is_named = self._is_named[at_row]
        told = last.copy()
        told[of_row[is_named]] = at_row[is_named]
        descriptions, dominators = self._descriptions(told.tolist()), self._dominator[last].tolist()
        for number, one, dominator, own, measured in zip(index, descriptions, dominators, figures, is_measured):
            yield number, one._replace(dominator_node=dominator), own, measured

    def dominators(self, take: int) -> Iterator[tuple[int, int]]:
        """(node, what dominates it) in one snapshot."""
        rows = np.flatnonzero(self._take == take)
        return zip(self._node[rows].tolist(), self._dominator[rows].tolist())

    def named_elsewhere(self, position: Mapping[int, int], numbers: Sequence[int]) -> Iterator[tuple[Any, ...]]:
        """(node, path_node, edge_kind, edge_name) of these objects in other snapshots."""
        rows = only(self._rows, np.isin(self._node, numbers) & ~np.isin(self._take, list(position)))
        yield from cells(rows, "node", "path_node", "edge_kind", "edge_name")

    def children(self, position: Mapping[int, int]) -> Iterator[tuple[Any, ...]]:
        """(node, take, type_name, object_count, retained_bytes) of what each dominates immediately, type by type."""
        return (row for take in position for row in self._children.get(take, ()))

    def shared(self, takes: Iterable[int]) -> Iterator[tuple[Any, ...]]:
        """(dominator_node, node, type_name, retained_bytes, object_count, direct_count) of what several hold."""
        return (row for take in takes for row in self._shared.get(take, ()))

    def _descriptions(self, positions: Sequence[int]) -> Iterator[Description]:
        unknown = [at for at in positions if at not in self._told]
        told = cells(narrow(self._rows, *Description._fields).iloc[unknown], *Description._fields)
        self._told.update((at, Description(above or 0, *others)) for at, (above, *others) in zip(unknown, told))
        return (self._told[at] for at in positions)


def _of_process(tables: Mapping[str, Rows], table: str, pid: int) -> Rows:
    rows = tables[table]
    return only(rows, rows["pid"] == pid)


def _whole(rows: Rows, column: str, otherwise: str | None = None) -> NDArray[np.int64]:
    """``otherwise``: the column that says it where this one does not; else that is 0."""
    found = rows[column] if otherwise is None else rows[column].fillna(rows[otherwise])
    return found.to_numpy(dtype=np.int64, na_value=0)


def _cells_by_take(
    tables: Mapping[str, Rows], table: str, pid: int, columns: Sequence[str], on_devices: bool
) -> dict[int, list[tuple[Any, ...]]]:
    rows = _of_process(tables, table, pid)
    rows = rows.assign(retained_bytes=rows["retained_device_bytes"].fillna(0)) if on_devices else rows
    found: dict[int, list[tuple[Any, ...]]] = {}
    for take, row in zip(_whole(rows, "take").tolist(), cells(rows, *columns)):
        found.setdefault(take, []).append(row)
    return found


def _on_devices(rows: Rows) -> Rows:
    """What they hold of GPUs, in the place of what they hold of the process; only what holds some, and ways to it."""
    held = rows["retained_device_bytes"].fillna(0)
    rows = rows.assign(retained_bytes=held, **dict.fromkeys(_NOTHING_OF_THE_PROCESS, 0))
    above = {number: ways for number, *ways in cells(rows, "node", "path_node", "dominator_node")}
    holding = set(rows["node"][held > 0])
    waiting = list(holding)
    while waiting:
        further = set(above.get(waiting.pop(), ())) - holding
        holding |= further
        waiting += further
    return only(rows, rows["node"].isin(list(holding)))


def _user_modules(tables: Mapping[str, Rows], pid: int) -> dict[Any, Any]:
    """{name: file}: those of any process, but ``__main__`` is the program of this one, or of whom it forked.

    Of a notebook that is its cells, of which none has a file.
    """
    sources, notes = tables["sources"], tables["agent_notes"]
    own = only(sources, sources["pid"] == pid)
    forked = only(notes, (notes["pid"] == pid) & (notes["note"] == "forked"))
    others = dict(zip(sources["module"], sources["file"]))
    if not len(forked):
        others.pop("__main__", None)
    files = others | dict(zip(own["module"], own["file"]))
    of_cells = next((file for name, file in files.items() if is_cell(name, file)), None)
    return files if of_cells is None else {"__main__": of_cells, **files}


def is_cell(module: str, file: str) -> bool:
    """Text that linecache alone had: the agent calls it by what stands for its file."""
    return file.rpartition("/")[2] == module and module.endswith(".py")


def _names_of_successors(rows: Rows) -> list[tuple[int, str, str]]:
    """(node, edge_kind, edge_name) of what an attribute or a local got as its new value before that name was looked up.

    Where one object never had two of a type at a time, what it has now of that type has the name that others had.
    """
    held: dict[tuple[int, str], dict[int, list[tuple[int, Any]]]] = {}  # by holder and type, then by snapshot
    columns = ("take", "node", "path_node", "type_name", "edge_kind", "edge_name")
    for take, number, above, type_name, kind, name in cells(rows, *columns):
        if above is not None and above >= GROUPS and isinstance(type_name, str):
            of_snapshot = held.setdefault((above, type_name), {}).setdefault(take, [])
            of_snapshot.append((number, (kind, name) if isinstance(name, str) else None))
    found = []
    for of_holder in held.values():
        if any(len(of_snapshot) > 1 for of_snapshot in of_holder.values()):
            continue
        seen = {name for ((_, name),) in of_holder.values() if name is not None}
        if len(seen) != 1:
            continue
        ((kind, name),) = seen
        if kind in ("attribute", "local"):
            found += [(number, kind, name) for ((number, own),) in of_holder.values() if own is None]
    return found
