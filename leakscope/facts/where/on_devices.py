"""Who holds the tensors on a process's GPUs, and who of them got ever more, by the graph of the heap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...units import FEWEST, MiB
from ..code.adding import Line, Source
from ..code.imports import STANDARD_LIBRARY
from ..heap.accumulation import accumulations
from ..heap.comparable import Heap, device_heap_of, heap_of
from ..heap.handles import in_step
from ..heap.owners import graph_below, heaviest_leaf, user_place
from ..heap.place import GRAPH_TYPE, Floats, Place
from .holders import holder_name, named_in

if TYPE_CHECKING:
    from ...storage import Recording

_LEAST_BYTES = MiB


@dataclass(frozen=True, eq=False)
class DeviceHolder:
    """``place`` gained ``growth_bytes`` from the first to the last snapshot of ``heap``; ``named``: the user's name for
    it; ``kept``: what it is made of. **Units** bytes on devices.
    """

    heap: Heap
    place: Place
    named: Place
    kept: Place
    lines: Sequence[Line]
    growth_bytes: float

    @property
    def name(self) -> str:
        return holder_name(self.named)

    @property
    def is_graph(self) -> bool:
        """It keeps the autograd graphs of tensors, and what these saved for a backward pass."""
        return self.kept.type_name == GRAPH_TYPE

    @property
    def held_bytes(self) -> float:
        """At the last snapshot."""
        return float(self.place.deep_bytes[-1])


def device_holders(
    recording: Recording, sources: Sequence[Source], pid: int, start_s: float, end_s: float
) -> list[DeviceHolder] | None:
    """Those that gained in a window, the most first; None where no two snapshots know who holds what."""
    heap = device_heap_of(recording, pid, start_s, end_s)
    if heap is None:
        return None
    found = []
    for one in accumulations(heap.roots, _LEAST_BYTES):
        if one.place is None or one.growth_bytes < _LEAST_BYTES:
            continue
        named, lines = named_in(sources, one.place)
        kept = graph_below(one.place) or heaviest_leaf(one.place)
        found.append(DeviceHolder(heap, one.place, named, kept, lines, one.growth_bytes))
    return sorted(found, key=lambda holder: -holder.growth_bytes)


@dataclass(frozen=True, eq=False)
class CountedHolder:
    """A container that got ever more members while the driver counted ever more memory of its process.

    Nobody has weighed what its members are. ``bytes_each``: of GPU memory that came for each; ``is_in_step``: alike
    between several snapshots.
    """

    heap: Heap
    place: Place
    named: Place
    member: Place
    lines: Sequence[Line]
    bytes_each: float
    is_in_step: bool

    @property
    def name(self) -> str:
        return holder_name(self.named)


def counted_holder(
    recording: Recording,
    sources: Sequence[Source],
    pid: int,
    used: tuple[Floats, Floats],
    window_s: tuple[float, float],
) -> CountedHolder | None:
    """Of those that the user's names lead to, the one that gained most objects of a library.

    ``used``: times, and bytes of the process on a device by then.
    """
    heap = heap_of(recording, pid, *window_s)
    if heap is None:
        return None
    is_inside = heap.time_s >= window_s[0]
    used_bytes = np.interp(heap.time_s, *used)[is_inside]
    found: list[tuple[float, Place, Place, float, bool]] = []
    for place in heap.places:
        member = next((child for child in place.children if _is_of_library(child.type_name)), None)
        if member is None or not place.has_length or not user_place(place).is_user:
            continue
        members = place.length[is_inside]
        if members.size < 2 or not (np.diff(members) > 0).all():
            continue
        gained = float(members[-1] - members[0])
        each = in_step(members, used_bytes)
        by_all = float(used_bytes[-1] - used_bytes[0]) / gained
        if gained > FEWEST and by_all > 0 and (each is not None or members.size == 2):
            found.append((gained, place, member, by_all, each is not None))
    if not found:
        return None
    _, place, member, each_bytes, is_in_step = max(found, key=lambda one: (one[4], one[0]))
    named, lines = named_in(sources, place)
    return CountedHolder(heap, place, named, member, lines, each_bytes, is_in_step)


def _is_of_library(type_name: str) -> bool:
    """No object of Python itself, which has its own memory alone."""
    module = type_name.split(".", 1)[0] if "." in type_name else "builtins"
    return module not in STANDARD_LIBRARY and module not in ("builtins", "numpy", "torch", "__main__")
