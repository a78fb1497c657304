"""Who holds how much, as tables: ``leakscope heap`` for a notebook."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

import pandas as pd

from ..browsing.whole import WholeHeap, whole_heap_of
from ..errors import BadInput
from ..facts.code.adding import adding_lines
from ..facts.code.index import Source
from ..facts.code.recorded import sources_of
from ..facts.heap.place import Place
from ..facts.heap.tree import HeapTree, heap_tree
from ..facts.tables import records
from ..storage import Recording

_PASSES_ON = 0.9  # of its bytes, to one child: who only leads to another holder is not listed beside it

_COLUMNS = {
    "node": "Int64", "name": "string", "type": "string", "retained_bytes": "int64", "growth_bytes": "int64",
    "own_bytes": "Int64", "length": "Int64", "child_count": "Int64", "object_count": "int64", "file": "string",
    "line": "Int64",
}  # fmt: skip


class Heap:
    """The exact graph of the objects of one process, at any of its snapshots.

    Every table has a row a holder, and these columns:

    - ``node``: number of the object, the same in all snapshots, as in the table ``heap_nodes``; <NA> where a row is all
      members of one type that are too small to be told apart (``[*]``)
    - ``name``: what ``leakscope heap`` calls it; ``type``
    - ``retained_bytes``: what could be freed with it, exactly; ``growth_bytes``: what that gained
    - ``own_bytes``: without what it refers to; of an object with a ``__dict__`` without that
    - ``length``: members of a container; ``child_count``: objects that it alone keeps alive, directly
    - ``object_count``: 1, or the number of such members
    - ``file``, ``line``: of the user's sources, where one adds to it; else of the function it belongs to, where known

    Moments are seconds since the recording began; the snapshot nearest to one is taken. Unless given it is the last one
    that saw the process at work; ``at_s=math.inf`` is the one made as it ended, when the variables of its functions
    were gone, or the last there is. **Source**: the tables
    heap_graphs, heap_nodes and heap_children.
    """

    def __init__(self, recording: Recording) -> None:
        self._recording = recording
        self._trees: dict[tuple[int | None, float | None], HeapTree] = {}

    def __repr__(self) -> str:
        return f"<heap of {self._recording.path}: top, children, path, diff, full>"

    def top(self, n: int = 20, at_s: float | None = None, pid: int | None = None) -> pd.DataFrame:
        """The ``n`` holders that retain most at a moment (the last snapshot at work), the largest first.

        Who only leads to another holder, and retains little besides, is left out. Growth is since the first snapshot.
        ``pid``: of the process with the largest heap unless given.

        **Shape** at most n rows. **Errors** BadInput: no snapshot has a graph, or none of that process; n below 1.
        """
        tree = self._tree(pid, at_s)
        return self._frame(tree, _largest(tree, n, lambda place: float(place.deep_bytes[-1])), 0)

    def children(self, node: int, at_s: float | None = None, pid: int | None = None) -> pd.DataFrame:
        """What one node keeps alive directly, the largest first: nodes, and the rest by type.

        **Shape** a row a child or a type of children; none where it has none. **Errors** BadInput: no such node.
        """
        tree = self._tree(pid, at_s)
        found = [place for place in self._place(tree, node).children if place.deep_bytes[-1] > 0]
        return self._frame(tree, sorted(found, key=lambda place: -place.deep_bytes[-1]), 0)

    def path(self, node: int, at_s: float | None = None, pid: int | None = None) -> pd.DataFrame:
        """What keeps one node alive: from the module or function at the top down to the node itself.

        Each row could be freed only with the one above it.

        **Shape** a row a holder on the way. **Errors** BadInput: no such node.
        """
        tree = self._tree(pid, at_s)
        way = [self._place(tree, node)]
        while (above := way[-1].parent) is not None:
            way.append(above)
        return self._frame(tree, way[::-1], 0)

    def diff(
        self, since_s: float | None = None, at_s: float | None = None, n: int = 20, pid: int | None = None
    ) -> pd.DataFrame:
        """The ``n`` holders that gained most between two moments (the first snapshot and the last at work), most first.

        **Shape** at most n rows. **Errors** BadInput: no snapshot has a graph; ``since_s`` comes after ``at_s``.
        """
        if since_s is not None and at_s is not None and since_s > at_s:
            raise BadInput(f"since_s={since_s}, at_s={at_s}: the first comes after the last")
        tree = self._tree(pid, at_s)
        since = tree.nearest(since_s)
        return self._frame(tree, _largest(tree, n, lambda p: float(p.deep_bytes[-1] - p.deep_bytes[since])), since)

    def full(self, at_s: float | None = None, pid: int | None = None) -> WholeHeap:
        """Every object and every reference at a snapshot of which a file was kept (``record --full-heap``).

        It has the DataFrames ``nodes``, ``edges`` and ``types``; ``way_to(address)`` and ``referrers(address)``, for
        which a type will do as well. Of the snapshots that have a file it is the one nearest to ``at_s``, or the last
        at work.

        **Errors** BadInput: no such file lies beside the recording.
        """
        return whole_heap_of(self._recording, pid, at_s)

    def _tree(self, pid: int | None, at_s: float | None) -> HeapTree:
        if (pid, at_s) not in self._trees:
            self._trees[pid, at_s] = heap_tree(self._recording, pid, at_s)
        return self._trees[pid, at_s]

    def _place(self, tree: HeapTree, node: int) -> Place:
        nodes = self._recording.rows["heap_nodes"]
        nodes = nodes[(nodes["pid"] == tree.pid) & (nodes["node"] == node)]
        # Of a __dict__, which is no holder apart from its owner.
        owners = set(nodes["path_node"][nodes["edge_kind"].fillna("") == "namespace"].dropna())
        for place in tree.places:
            if place.node == node or place.node in owners:
                return place
        raise BadInput(f"node {node}: not among those of process {tree.pid}; rec.heap.top() lists the largest")

    def _frame(self, tree: HeapTree, places: list[Place], since: int) -> pd.DataFrame:
        nodes = self._recording.rows["heap_nodes"]
        nodes = nodes[(nodes["pid"] == tree.pid) & (nodes["take"] == tree.takes[-1])]
        known = {int(row["node"]): row for row in records(nodes)}
        rows = []
        for place in places:
            row = known.get(place.node or 0)
            file, line = self._where(place)
            rows.append(
                (
                    place.node, place.path, place.type_name, round(place.deep_bytes[-1]),
                    round(place.deep_bytes[-1] - place.deep_bytes[since]), _known(row, "shallow_bytes"),
                    _known(row, "length"), _known(row, "child_count"), round(place.count[-1]), file, line,
                )
            )  # fmt: skip
        return pd.DataFrame(rows, columns=list(_COLUMNS)).astype(_COLUMNS)

    def _where(self, place: Place) -> tuple[str | None, int | None]:
        """The line of the user's that adds to it; else the file, and the first line, of what its name belongs to."""
        one = place.reference
        if not one.is_user or one.variable is None:
            return None, None
        adding = next(iter(adding_lines(self._sources, place.as_holder())), None)
        return (adding.file, adding.line) if adding is not None else (one.owner_file, one.owner_line)

    @cached_property
    def _sources(self) -> list[Source]:
        return sources_of(self._recording)


def _largest(tree: HeapTree, n: int, size: Callable[[Place], float]) -> list[Place]:
    """Of those on one way to the same bytes the last."""
    if n < 1:
        raise BadInput(f"n={n}: at least 1")

    def leads_to_another(place: Place) -> bool:
        return any(size(child) >= _PASSES_ON * size(place) for child in place.children if child.node is not None)

    found = [place for place in tree.places if size(place) > 0 and place.node is not None]
    return sorted((place for place in found if not leads_to_another(place)), key=lambda place: -size(place))[:n]


def _known(row: Mapping[str, Any] | None, column: str) -> int | None:
    value = None if row is None else row[column]
    return None if value is None or pd.isna(value) else int(value)
