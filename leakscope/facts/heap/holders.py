"""Holders of snapshots that read the graph of the heap and nothing else, as rows like those of other snapshots."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ...storage import derived
from ..tables import cells, narrow, only, records
from .graph import graph_places
from .place import Place

if TYPE_CHECKING:
    from ...storage import Recording

_OF_SETS = ("parameter", "buffer", "gradient", "optimizer-state", "master-weight")
_CLOCKS = ("pid", "start_ticks", "take", "time_s", "time_unix_ns", "time_mono_ns", "time_boot_ns")


def exact_takes(takes: pd.DataFrame, graphs: pd.DataFrame) -> pd.DataFrame:
    """Of the rows of ``takes`` those of snapshots whose graph says all there is: none looked along names."""
    if not len(graphs):
        return takes.iloc[:0]
    read = set(cells(graphs, "pid", "take"))
    asked = cells(takes, "pid", "take", "visited_count")
    return only(takes, np.array([visited is None and tuple(key) in read for *key, visited in asked], dtype=bool))


def with_exact_holders(recording: Recording) -> Recording:
    """The same recording, whose tables tell of such snapshots what their graphs say: the paths of holders,
    and of what rows of other tables have a number in the graph for.
    """
    takes = exact_takes(recording.tables["takes"], recording.tables["heap_graphs"])
    if not len(takes):
        return recording
    exact = _Exact(recording, takes)
    with_holders = derived(
        recording,
        {"holders": exact.holders, "data_forms": exact.data_forms, "tensors": exact.tensors}
        | {name: partial(exact.with_weight_sets, name) for name in ("weights", "gradients")},
    )
    exact.reads_graphs_of(with_holders)
    return with_holders


class _Exact:
    """Tables of the snapshots ``takes``, each made when it is first asked for."""

    def __init__(self, recording: Recording, takes: pd.DataFrame) -> None:
        self._recording = recording
        self._takes = takes
        self._places: dict[int, list[Place]] = {}
        self._holders: pd.DataFrame | None = None
        self._graphs: Callable[[], Recording | None] = lambda: None

    def reads_graphs_of(self, derived: Recording) -> None:
        """Who asks the derived recording for windows has read them already. Not held: it has these tables."""
        self._graphs = weakref.ref(derived)

    def places(self, pid: int) -> list[Place]:
        known = self._places.get(pid)
        if known is None:
            numbers = [int(take) for take in self._takes.loc[self._takes["pid"] == pid, "take"]]
            known = self._places[pid] = graph_places(self._graphs() or self._recording, pid, numbers, by_holder=True)
        return known

    def holders(self) -> pd.DataFrame:
        if self._holders is None:
            written = self._recording.tables["holders"]
            found = list(self._rows())
            columns = {str(name): dtype for name, dtype in written.dtypes.items()}
            rows = pd.DataFrame(
                {name: pd.array([row.get(name) for row in found], dtype) for name, dtype in columns.items()}
            )
            self._holders = pd.concat([written, rows], ignore_index=True) if len(written) else rows
        return self._holders

    def _rows(self) -> Iterator[dict[str, Any]]:
        for pid in self._takes["pid"].unique():
            own = self._takes[self._takes["pid"] == pid]
            moments = records(own[[column for column in _CLOCKS if column in own]])
            for place in self.places(int(pid)):
                for at, moment in enumerate(moments):
                    if place.count[at] > 0:
                        yield {**place.row, **moment, **_figures(place, at)}

    def data_forms(self) -> pd.DataFrame:
        """With the path of the object that was looked into."""
        rows = self._with_paths("data_forms", "path")
        return only(rows, rows["path"].notna())

    def tensors(self) -> pd.DataFrame:
        """With the path of the container; one row for all that it holds of one owner, device and type."""
        rows = self._with_paths("tensors", "path", _container)
        is_place = rows["node"].notna()
        if not is_place.any():
            return rows
        places = only(rows, is_place & rows["path"].notna()).sort_values("storage_bytes", ascending=False)
        keys = ["pid", "take", "moment", "tensor_owner", "device", "dtype", "path"]
        sums = places.groupby(keys, sort=False)[["storage_count", "storage_bytes"]].sum()
        places = places.drop_duplicates(keys).set_index(keys)
        places[["storage_count", "storage_bytes"]] = sums
        return pd.concat([rows[~is_place], places.reset_index()[rows.columns]], ignore_index=True)

    def with_weight_sets(self, table: str) -> pd.DataFrame:
        """With the path of the model, optimizer or container; models of one path are numbered."""
        rows = self._with_paths(table, "weight_set")
        has_set = rows["node"].notna() & rows["weight_set"].notna()
        if "tensor_owner" in rows:
            is_loose = has_set & ~rows["tensor_owner"].isin(_OF_SETS)
            rows.loc[is_loose, "weight_set"] = rows.loc[is_loose, "weight_set"].map(_container)
            has_set &= ~is_loose
        numbers: dict[tuple[int, int, str], dict[int, int]] = {}
        told = []
        own = narrow(rows, "pid", "take", "weight_set", "node")[has_set]
        for *key, node in cells(own, *own.columns):
            of_path = numbers.setdefault(tuple(key), {})
            number = of_path.setdefault(node, len(of_path) + 1)
            told.append(f"{key[-1]} #{number}" if number > 1 else key[-1])
        if told:
            rows.loc[has_set, "weight_set"] = told
        return rows

    def _with_paths(self, table: str, column: str, told: Callable[[str], str] = str) -> pd.DataFrame:
        """Its rows that have a number in the graph get the path of that object in ``column``."""
        rows = self._recording.tables[table].copy()
        for pid in rows.loc[rows["node"].notna(), "pid"].unique():
            paths = {number: told(place.path) for place in self.places(int(pid)) for number in place.numbers}
            is_own = (rows["pid"] == pid) & rows["node"].notna()
            rows.loc[is_own, column] = rows.loc[is_own, "node"].map(paths)
        return rows


def _container(path: str) -> str:
    """Tensors are told by the container, not by each of its keys: ``cache`` for ``cache['a'][0]``."""
    end = len(path)
    while True:
        close = end - 1
        while close >= 0 and path[close] == "'":  # tells two apart that had one name
            close -= 1
        if close < 0 or path[close] != "]":
            return path[:end]
        begin = path.find("[", path.rfind("]", 0, close) + 1, close)
        if begin < 0:
            return path[:end]
        end = begin


def exact_holders(recording: Recording, takes: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Rows as in the table ``holders`` of snapshots whose graph says all there is."""
    yield from _Exact(recording, takes)._rows()


def _figures(place: Place, at: int) -> dict[str, Any]:
    return {
        "type_name": place.type_name,
        "object_count": int(place.count[at]),
        "length": int(place.length[at]) if place.has_length else None,
        "deep_bytes": int(place.deep_bytes[at]),
        "array_deep_bytes": int(place.array_bytes[at]),
        "tensor_deep_bytes": int(place.tensor_bytes[at]),
    }
