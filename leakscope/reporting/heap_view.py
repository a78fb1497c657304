"""The heap by holder, to be clicked through: the largest paths of each process, at every snapshot."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from ..errors import BadInput
from ..facts.case import Case
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.split import ESTIMATES
from ..facts.heap.comparable import Heap, heap_of
from ..facts.heap.place import Place, upwards
from ..facts.heap.tree import HeapTree, heap_tree, steps_of
from ..facts.series.arithmetic import Floats, level_at
from ..facts.tables import int_of, only, records, text_of
from ..findings import DEVICE_CACHE, DEVICE_OTHER, Band, HeapHolder, HeapTake, HeapView
from ..storage import Row
from .timeline import accounts_of

_MOST_TAKES = 12  # enough to compare any part of a run with any other
MOST_PATHS = (200, 100, 60, 40)  # of each process that is shown: who gained most is looked into
_OF_DEVICES = MOST_PATHS[2:]  # the same of those with most on GPUs


def heap_views(case: Case) -> list[HeapView]:
    """The processes that gained most first; those with fewer than two snapshots are left out. Then what is on GPUs."""
    if not len(case.rows("heap_nodes")):
        return []
    views: list[HeapView] = []
    for process in case.growth.processes:
        if len(views) == len(MOST_PATHS):
            break
        view = _view(case, process, MOST_PATHS[len(views)])
        if view is not None:
            views.append(view)
    return [*views, *_on_devices(case)]


def _on_devices(case: Case) -> Iterator[HeapView]:
    """The processes that have most on GPUs."""
    graphs = case.rows("heap_graphs")
    most = {pid: own["device_bytes"].max() for pid, own in graphs.dropna(["device_bytes"]).groupby("pid")}
    for pid, paths in zip(sorted(most, key=lambda pid: -most[pid]), _OF_DEVICES):
        process = case.growth.process(pid)
        tree = _exact(case, pid, on_devices=True)
        rows = _takes_of(case, pid)
        if process is None or tree is None or not rows.keys() >= {*tree.takes}:
            continue
        chosen = _chosen(tree)
        holders, left_out = _holders([p for p in _without_steps(tree.places) if p.deep_bytes.any()], chosen, paths)
        takes = [_take(rows[tree.takes[i]], tree.takes[i]) for i in chosen]
        accounts = _of_allocator(case, pid, takes, tree.total_bytes[chosen])
        yield HeapView(f"{process.label} on GPUs", takes, holders, left_out, True, accounts, on_devices=True)


def _of_allocator(case: Case, pid: int, takes: Sequence[HeapTake], held_bytes: Floats) -> list[Band]:
    """All that torch's allocator had on the process's GPUs: by far most of what the process has there."""
    uses = [use for use in case.device_uses if use.pid == pid]
    allocated, reserved = (
        np.sum([[level_at(use.time_s, use.figures(name), take.time_s) for take in takes] for use in uses], axis=0)
        for name in ("allocated_bytes", "reserved_bytes")
    )
    levels = {"tensors": held_bytes, DEVICE_OTHER: allocated - held_bytes, DEVICE_CACHE: reserved - allocated}
    return [
        Band(name, [round(max(0.0, float(value))) for value in level], False)
        for name, level in levels.items()
        if uses and (level > 0).any()
    ]


def _takes_of(case: Case, pid: int) -> dict[int, Row]:
    """By number."""
    rows = case.rows("takes")
    return {row["take"]: row for row in records(only(rows, rows["pid"] == pid))}


def _chosen(seen: HeapTree | Heap) -> NDArray[np.int_]:
    """Positions of the snapshots that are shown."""
    return np.unique(np.linspace(0, len(seen.takes) - 1, _MOST_TAKES).round().astype(int))


def _holders(places: Sequence[Place], chosen: NDArray[np.int_], most: int) -> tuple[list[HeapHolder], int]:
    """The largest, parents before their members; and how many were smaller."""
    largest = sorted(places, key=lambda p: (-float(p.deep_bytes[chosen].max()), p.path, p.type_name))[:most]
    position: dict[int, int] = {}
    holders: list[HeapHolder] = []
    for place in sorted(largest, key=lambda p: (len([*upwards(p)]), -float(p.deep_bytes[-1]), p.path)):
        position[id(place)] = len(holders)
        holders.append(
            HeapHolder(
                path=place.path,
                parent=next((position[id(above)] for above in upwards(place.parent) if id(above) in position), None),
                type=place.type_name,
                bytes=[round(float(value)) for value in place.deep_bytes[chosen]],
                count=[round(float(value)) for value in place.count[chosen]],
                length=[round(float(value)) for value in place.length[chosen]] if place.has_length else None,
                member_type=place.member_type if place.has_length else None,
            )
        )
    return holders, len(places) - len(largest)


def _view(case: Case, process: ProcessGrowth, most: int) -> HeapView | None:
    pid = process.pid
    rows = _takes_of(case, pid)
    if len(rows) < 2:
        return None
    exact = _exact(case, pid)
    if exact is not None and not rows.keys() >= {*exact.takes}:
        exact = None  # rows were lost
    seen: HeapTree | Heap | None = exact or heap_of(case.recording, pid, 0.0, float("inf"))
    if seen is None or not seen.places:
        return None
    places = _without_steps(seen.places) if exact is not None else list(seen.places)
    chosen = _chosen(seen)
    holders, left_out = _holders(places, chosen, most)
    takes = [_take(rows[seen.takes[i]], seen.takes[i]) for i in chosen]
    accounts = _accounts(case, process, takes)
    return HeapView(process.label, takes, holders, left_out, exact is not None, accounts)


def _accounts(case: Case, process: ProcessGrowth, takes: Sequence[HeapTake]) -> list[Band]:
    """All memory of the process at these snapshots, so that its holders can be seen beside what is no Python object.

    A snapshot before the first sample of memory, or after the last, is given the nearest.
    """
    moments_s = np.clip([take.time_s for take in takes], process.time_s[0], process.time_s[-1])
    levels = accounts_of(case, process, moments_s)
    return [
        Band(name, [round(float(value)) for value in level], name in ESTIMATES)
        for name, level in levels.items()
        if level.any()
    ]


def _exact(case: Case, pid: int, *, on_devices: bool = False) -> HeapTree | None:
    """As it was while the process was at work, also as an exception ended it; None where no two can be compared."""
    try:
        tree = heap_tree(case.recording, pid, on_devices=on_devices)
    except BadInput:
        return None
    return tree if len(tree.takes) > 1 else None


def _without_steps(places: Sequence[Place]) -> list[Place]:
    """One that has nothing but one other, which retains as much, is a step on the way to it."""
    left = []
    for place in places:
        if len(place.children) == 1 and steps_of(place, -1) is not place:
            place.children[0].parent = place.parent
        else:
            left.append(place)
    return left


def _take(row: Row, number: int) -> HeapTake:
    truncated = bool(row["truncated"]) if row["truncated"] == row["truncated"] else False
    return HeapTake(
        number, round(float(row["time_s"]), 2), int_of(row, "step"), text_of(row, "reason") or "", truncated
    )
