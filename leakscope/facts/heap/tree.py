"""The dominator tree of one process: who holds how much, exactly, at each snapshot that read the whole graph.

It is shown as a person thinks of it: an object has its attributes, whatever dict they lie in; modules stand at the top.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...errors import BadInput
from ...findings import AGENT
from ...storage import Recording, Rows
from ..tables import AT_EXIT, cells, figures, only
from .graph import graph_places
from .naming import MODULES
from .place import OUTSIDE, Floats, Place
from .takes import takes_with_graph

_NO_GRAPH = (
    "no snapshot in it has the whole heap: it was recorded without snapshots, by an older leakscope, "
    "or where the heap graph cannot be read (`leakscope doctor`)"
)
_PASSES_ON = 0.98  # of its bytes: who has only one child of that share is a step on the way to it


@dataclass(frozen=True, eq=False)
class HeapTree:
    """``time_s``, ``total_bytes``, ``node_count``, ``outside_bytes``, ``unreached_bytes``: one value a snapshot.

    ``exit_s``: when the snapshot was made that is left out since the process was ending; None where none is.
    """

    pid: int
    takes: tuple[int, ...]
    time_s: Floats
    total_bytes: Floats
    node_count: Floats
    outside_bytes: Floats
    unreached_bytes: Floats
    places: tuple[Place, ...]
    exit_s: float | None
    sampled: tuple[bool, ...]  # of each snapshot: too many objects to read them all

    @property
    def roots(self) -> list[Place]:
        return [place for place in self.places if place.parent is None]

    def nearest(self, time_s: float | None) -> int:
        """Position of the snapshot nearest to a moment; the first unless given."""
        return 0 if time_s is None else _nearest(self.time_s, time_s)


def heap_tree(
    recording: Recording,
    pid: int | None = None,
    at_s: float | None = None,
    *,
    at_end: bool = False,
    on_devices: bool = False,
) -> HeapTree:
    """Of one process, the one with the largest heap unless given, up to the snapshot nearest to ``at_s``.

    Unless given, up to the last that saw the process at work: as it ends the locals of main() are gone. ``at_end``: up
    to the very last. Who held what is told as it was then. ``on_devices``: all bytes are those of tensors on GPUs.
    **Errors** BadInput: no process, or not this one, has a graph.
    """
    graphs = recording.rows["heap_graphs"]
    graphs = only(graphs, graphs["take"].notna() & graphs["pid"].notna()).sort_values("take")
    weight = "device_bytes" if on_devices else "retained_bytes"
    if on_devices and not graphs[weight].notna().any():
        raise BadInput(f"{recording.path}: no snapshot in it knows of tensors on a GPU")
    at_exit = _made_at_exit(recording, graphs)
    is_shown = np.full(len(graphs), True) if at_end or at_s is not None else ~at_exit
    # A process whose only snapshot is that of its end is shown as it ended.
    is_shown |= ~graphs["pid"].isin(graphs["pid"][is_shown]).values
    shown = only(graphs, is_shown)
    last = shown.drop_duplicates("pid", keep="last").sort_values(weight, ascending=False)
    pids = last["pid"].tolist()
    if not pids:
        raise BadInput(f"{recording.path}: {_NO_GRAPH}")
    pid = pids[0] if pid is None else pid
    if pid not in pids:
        raise BadInput(f"process {pid}: has no heap graph; those that have: {', '.join(map(str, pids))}")
    left_out = only(graphs, (graphs["pid"] == pid) & ~is_shown)
    takes = takes_with_graph(recording, pid, but=left_out["take"].tolist())
    own = only(shown, (shown["pid"] == pid) & shown["take"].isin(takes))
    if at_s is not None:
        own = own.iloc[: _nearest(figures(own, "time_s"), at_s) + 1]
    takes = takes[: len(own)]

    def values(column: str) -> Floats:
        found: Floats = own[column].to_numpy(dtype="float64", na_value=0.0)
        return found

    return HeapTree(
        pid, tuple(takes), values("time_s"), values(weight),
        values("node_count"), values("outside_bytes"), values("unreached_bytes"),
        tuple(as_people_see_it(graph_places(
        recording, pid, takes, on_devices=on_devices, weighs_alike=True
    ))),
        float(left_out["time_s"].iloc[-1]) if len(left_out) else None,
        tuple(own["is_sampled"].fillna(False)),
    )  # fmt: skip


def _made_at_exit(recording: Recording, graphs: Rows) -> NDArray[np.bool_]:
    """Of each graph, whether its snapshot was made as the process ended in order: after an exception frames stand."""
    takes = recording.rows["takes"]
    at_exit = {(pid, take) for pid, take, reason in cells(takes, "pid", "take", "reason") if reason == AT_EXIT}
    return np.array([key in at_exit for key in cells(graphs, "pid", "take")], dtype=bool)


def _nearest(times_s: Floats, time_s: float) -> int:
    """Position of the moment nearest to another, which may be infinite."""
    return int(abs(times_s - min(max(time_s, times_s[0]), times_s[-1])).argmin())


def as_people_see_it(places: Sequence[Place]) -> list[Place]:
    """The places without those that are only Python's way to keep others, and without leakscope's own.

    Changes what it is given.
    """
    for place in places:
        if place.node is not None and place.reference.edge_kind == "namespace" and place.named_by is not None:
            _give_to_owner(place, place.named_by)
    roots = [place for place in places if place.parent is None and place.type_name]
    for place in [root for root in roots if root.root_kind == OUTSIDE]:
        _rename(place, place.path, "held by C code alone")
    for place in [root for root in roots if root.path == MODULES]:
        roots.remove(place)
        roots += place.children
        for child in place.children:
            child.parent = None
            if child.node is None:
                child.path = "smaller modules" if child.type_name == "module" else "several modules together"
    return list(_seen(roots))


def _give_to_owner(names: Place, owner: Place) -> None:
    """What a ``__dict__`` has is its owner's: of an object that alone refers to it, or of a module."""
    if names.parent is not owner:
        if names.parent is not owner.parent:
            return
        owner.deep_bytes = owner.deep_bytes + names.deep_bytes
    if names.parent is not None:
        names.parent.children.remove(names)
    for child in names.children:
        child.parent = owner
        if child.node is not None:
            owner.children.append(child)
            continue
        child.path = f"{owner.path}[*]"
        alike = [other for other in owner.children if other.path == child.path and other.type_name == child.type_name]
        for other in alike:
            other.deep_bytes = other.deep_bytes + child.deep_bytes
            other.count = other.count + child.count
        if not alike:
            owner.children.append(child)
    names.parent, names.children, names.type_name = None, [], ""


def _rename(place: Place, before: str, name: str) -> None:
    if place.path.startswith(before):
        place.path = name + place.path[len(before) :]
    for child in place.children:
        _rename(child, before, name)


def _seen(places: Sequence[Place]) -> Iterator[Place]:
    for place in places:
        if place.type_name.startswith(f"{AGENT}."):
            if place.parent is not None:
                place.parent.children.remove(place)
        else:
            yield place
            yield from _seen(list(place.children))


def steps_of(place: Place, at: int) -> Place:
    """Down from a place as long as one child has nearly all that it retains: where it is that something is held."""
    while True:
        heavy = [c for c in place.children if c.deep_bytes[at] >= _PASSES_ON * place.deep_bytes[at] > 0]
        if len(heavy) != 1 or heavy[0].count[at] != 1:
            return place
        place = heavy[0]
