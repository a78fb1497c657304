"""The dominator tree of one process: who holds how much, exactly, at each snapshot that read the whole graph."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from .graph import graph_places, takes_with_graph
from .place import Floats, Place

if TYPE_CHECKING:
    import pandas as pd

    from ...storage import Recording

_OUTSIDE = 4  # the group of roots that only C code refers to
_PASSES_ON = 0.98  # of its bytes: who has only one child of that share is a step on the way to it


@dataclass(frozen=True, eq=False)
class HeapTree:
    """``time_s``, ``total_bytes``, ``node_count``, ``outside_bytes``, ``unreached_bytes``: one value a snapshot."""

    pid: int
    takes: tuple[int, ...]
    time_s: Floats
    total_bytes: Floats
    node_count: Floats
    outside_bytes: Floats
    unreached_bytes: Floats
    places: tuple[Place, ...]

    @property
    def roots(self) -> list[Place]:
        return [place for place in self.places if place.parent is None]


def heap_trees(recording: Recording) -> Iterator[HeapTree]:
    """One for each process that has graphs, by its last size, the largest first."""
    graphs = recording.tables["heap_graphs"]
    graphs = graphs[graphs["take"].notna() & graphs["pid"].notna()].sort_values("take")
    last = graphs.groupby("pid")["retained_bytes"].last().sort_values(ascending=False)
    for pid in map(int, last.index):
        takes = takes_with_graph(recording, pid)
        own = graphs[(graphs["pid"] == pid) & graphs["take"].isin(takes)]

        def values(column: str, own: object = own) -> Floats:
            found: Floats = own[column].to_numpy(dtype="float64", na_value=0.0)  # type: ignore[index]
            return found

        yield HeapTree(
            pid, tuple(takes), values("time_s"), values("retained_bytes"), values("node_count"),
            values("outside_bytes"), values("unreached_bytes"), tuple(graph_places(recording, pid, takes)),
        )  # fmt: skip


@dataclass(frozen=True)
class Outside:
    """What C code alone came to hold between two snapshots, of one type."""

    type_name: str
    count: int
    bytes: int


def outside_growth(nodes: pd.DataFrame, children: pd.DataFrame, takes: pd.DataFrame) -> list[Outside]:
    """Objects that no name leads to and C code holds (a table of an extension, exit handlers), most bytes first.

    ``nodes`` and ``children``: rows of one process of the tables heap_nodes and heap_children. Between the first and
    the last of ``takes`` that have a graph; none where there are no two.
    """
    numbers = [take for take in takes["take"] if (nodes["take"] == take).any()]
    if len(numbers) < 2:
        return []
    of_group = children[children["node"] == _OUTSIDE].set_index(["take", "type_name"])
    found = []
    for type_name in dict.fromkeys(of_group.index.get_level_values("type_name")):
        counts, bytes = ([_at(of_group, (take, type_name), column) for take in (numbers[0], numbers[-1])]
                         for column in ("object_count", "retained_bytes"))  # fmt: skip
        if bytes[1] > bytes[0]:
            found.append(Outside(str(type_name), round(counts[1] - counts[0]), round(bytes[1] - bytes[0])))
    return sorted(found, key=lambda one: -one.bytes)


def _at(rows: pd.DataFrame, key: tuple[Any, Any], column: str) -> float:
    return float(rows[column].get(key, 0.0)) if key in rows.index else 0.0


def steps_of(place: Place, at: int) -> Place:
    """Down from a place as long as one child has nearly all that it retains: where it is that something is held."""
    while True:
        heavy = [c for c in place.children if c.deep_bytes[at] >= _PASSES_ON * place.deep_bytes[at] > 0]
        if len(heavy) != 1 or heavy[0].count[at] != 1:
            return place
        place = heavy[0]
