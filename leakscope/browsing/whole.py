"""The whole heap as of one snapshot: every object and every reference, from the file beside the recording."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..errors import BadInput
from ..facts.heap.place import GROUPS
from ..facts.heap.tree import heap_tree
from ..facts.tables import only
from ..storage import Recording

_NONE = (
    "has no file with the whole heap: record with --full-heap, or `leakscope snapshot --full-heap`. "
    "The files are next to the recording (run.heap-PID-SNAPSHOT.parquet) and have to be moved with it"
)
_NODES = ["object", "address", "type_name", "own_bytes", "retained_bytes", "dominator", "reference_count", "node"]


class WholeHeap:
    """Of one process at one snapshot. Objects have numbers, from 0 on; the first six stand for groups of roots.

    ``names``: of those that retain much, what ``leakscope heap`` calls them, by their number in ``heap_nodes``.
    """

    def __init__(self, file: Any, time_s: float, names: Mapping[int, str]) -> None:
        self._file = file
        self.path = file.path
        self.pid, _, self.take = file.identity
        self.time_s = time_s
        self._names = names

    def __repr__(self) -> str:
        return f"<whole heap of process {self.pid} at {self.time_s:.1f} s: nodes, edges, types, way_to, referrers>"

    @cached_property
    def nodes(self) -> pd.DataFrame:
        """Every object: its number, address, type, bytes, dominator (by number), and count of references.

        ``node`` is its number in the table ``heap_nodes``, where it has a row there.

        **Shape** a row an object, in the order of their numbers.
        """
        frame: pd.DataFrame = self._file.frame(_NODES)
        return frame

    @cached_property
    def _edges(self) -> tuple[NDArray[np.int64], NDArray[np.uint32]]:
        """Where the references of each object begin, and what they lead to."""
        references: tuple[NDArray[np.int64], NDArray[np.uint32]] = self._file.references()
        return references

    @cached_property
    def edges(self) -> pd.DataFrame:
        """Every reference.

        **Shape** a row a reference: ``from_object``, ``to_object``.
        """
        begin, targets = self._edges
        from_object = np.repeat(np.arange(len(begin) - 1, dtype=np.uint32), np.diff(begin))
        return pd.DataFrame({"from_object": from_object, "to_object": targets})

    @cached_property
    def types(self) -> pd.DataFrame:
        """How many objects of each type there are.

        **Shape** a row a type, the one with most bytes first: ``type_name``, ``object_count``, ``own_bytes``.
        """
        by_type = self.nodes[GROUPS:].groupby("type_name", observed=True)["own_bytes"]
        found = by_type.agg(["size", "sum"]).sort_values("sum", ascending=False)
        return found.rename(columns={"size": "object_count", "sum": "own_bytes"}).reset_index()

    def find(self, wanted: str | int) -> NDArray[np.int64]:
        """Numbers of the object at an address, or of those with a text in the name of their type, the largest first."""
        nodes = self.nodes
        address = _address(wanted)
        if address is not None:
            return np.flatnonzero(nodes["address"].to_numpy() == address)
        names = nodes["type_name"].cat
        codes = [at for at, name in enumerate(names.categories) if str(wanted) in name]
        found = np.flatnonzero(np.isin(names.codes.to_numpy(), codes))
        found = found[found >= GROUPS]
        return found[np.argsort(-nodes["retained_bytes"].to_numpy()[found], kind="stable")]

    def way_to(self, wanted: str | int) -> pd.DataFrame:
        """A short way from a root to an object: at an address, or the largest with a text in the name of its type.

        ``name`` is what ``leakscope heap`` calls an object, where it retains enough to have a name.

        **Shape** a row an object, the nearest to the root first, the wanted one last. **Errors** BadInput: none.
        """
        found = self.find(wanted)
        if not len(found):
            raise BadInput(f"{wanted}: no object {'is at this address' if _address(wanted) else 'is of such a type'}")
        return self.way_of(int(found[0]))

    def way_of(self, number: int) -> pd.DataFrame:
        """The same for an object by its number in this file."""
        above, way = self._paths, [number]
        while way[-1] >= GROUPS:
            way.append(int(above[way[-1]]))
        return self._rows(np.array(way[::-1]))

    def referrers(self, wanted: str | int) -> pd.DataFrame:
        """All objects that refer to one, which is told as for ``way_to``.

        **Shape** a row an object; a running function is one, of type ``frame``.
        """
        found = self.find(wanted)
        begin, targets = self._edges
        at = np.flatnonzero(targets == found[0]) if len(found) else np.empty(0, np.int64)
        return self._rows(np.unique(np.searchsorted(begin, at, side="right") - 1))

    @cached_property
    def _paths(self) -> NDArray[np.uint32]:
        paths: NDArray[np.uint32] = self._file.frame(["path_object"])["path_object"].to_numpy()
        return paths

    def _rows(self, numbers: NDArray[np.int64]) -> pd.DataFrame:
        rows = self.nodes.iloc[numbers][["object", "address", "type_name", "own_bytes", "retained_bytes", "node"]]
        known = [None if node is pd.NA else self._names.get(int(node)) for node in rows["node"]]
        return rows.drop(columns="node").assign(name=pd.array(known, dtype="string")).reset_index(drop=True)


def whole_heap_of(
    recording: Recording, pid: int | None = None, at_s: float | None = None, *, at_end: bool = False
) -> WholeHeap:
    """Of one process, the one with the largest heap unless given, at the snapshot nearest to ``at_s`` that has one.

    Unless given it is the last at work that has one, else the last. **Errors** BadInput: there is none.
    """
    files = recording.whole_heaps()
    if not files:
        raise BadInput(f"{recording.path}: {_NONE}")
    tree = heap_tree(recording, pid if pid is not None else _largest(recording, files), at_s, at_end=at_end)
    own = {file.identity.take: file for file in files if file.identity.pid == tree.pid}
    if not own:
        others = ", ".join(sorted({str(file.identity.pid) for file in files}))
        raise BadInput(f"process {tree.pid}: no file with its whole heap; there are some of {others}")
    graphs = recording.rows["heap_graphs"]
    graphs = only(graphs, (graphs["pid"] == tree.pid) & graphs["take"].isin(own)).drop_duplicates("take", keep="last")
    at_work = only(graphs, graphs["take"].isin(tree.takes))
    shown = at_work if len(at_work) and at_s is None else graphs
    row = shown.iloc[int(np.abs(shown["time_s"].values - tree.time_s[-1]).argmin())]
    take, time_s = int(row["take"]), float(row["time_s"])
    named = heap_tree(recording, tree.pid, time_s).places
    names = {int(place.node): place.path for place in named if place.node is not None}
    return WholeHeap(own[take], time_s, names)


def _largest(recording: Recording, files: Sequence[Any]) -> int:
    graphs = recording.rows["heap_graphs"]
    graphs = only(graphs, graphs["pid"].isin({file.identity.pid for file in files})).sort_values("take")
    last = graphs.drop_duplicates("pid", keep="last").sort_values("retained_bytes")
    return int(last["pid"].iloc[-1])


def _address(wanted: str | int) -> int | None:
    if isinstance(wanted, int):
        return wanted
    try:
        return int(wanted, 0)
    except ValueError:
        return None
