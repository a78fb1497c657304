"""Who holds the tensors on a process's GPUs, and who of them got ever more, by the graph of the heap."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ...storage import Recording
from ...units import MiB
from ..code.adding import Line, Source
from ..code.imports import STANDARD_LIBRARY
from ..heap.accumulation import Accumulation, accumulations
from ..heap.comparable import Heap, device_heap_of, heap_of
from ..heap.handles import handles
from ..heap.owners import graph_below, heaviest_leaf
from ..heap.place import GRAPH_TYPE, Floats, Place
from .holders import holder_name, named_in

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


def device_holders(
    recording: Recording, sources: Sequence[Source], pid: int, start_s: float, end_s: float
) -> list[DeviceHolder] | None:
    """Those that gained in a window, the most first; None where no two snapshots know who holds what."""
    heap = device_heap_of(recording, pid, start_s, end_s)
    if heap is None:
        return None
    found = []
    for one in accumulations(heap, _LEAST_BYTES):
        if one.place is None or one.growth_bytes < _LEAST_BYTES:
            continue
        named, lines = named_in(sources, one.place)
        kept = graph_below(one.place) or heaviest_leaf(one.place)
        found.append(DeviceHolder(heap, one.place, named, kept, lines, one.growth_bytes))
    return sorted(found, key=lambda holder: -holder.growth_bytes)


def counted_holder(
    recording: Recording, pid: int, used: tuple[Floats, Floats], window_s: tuple[float, float]
) -> Accumulation | None:
    """The container that got ever more objects of a library in step with what the driver counted; None without one.

    ``used``: times, and bytes of the process on a device by then. Nobody has weighed what the members are.
    """
    heap = heap_of(recording, pid, *window_s)
    if heap is None:
        return None
    on_device = replace(heap, rss_bytes=np.interp(heap.time_s, *used), free_bytes=np.zeros(len(heap.takes)))
    found = handles(on_device, (), 0.0, _is_of_library)
    return found[0] if found and found[0].bytes_each is not None else None


def _is_of_library(type_name: str) -> bool:
    """No object of Python itself, which has its own memory alone."""
    package = type_name.split(".", 1)[0] if "." in type_name else "builtins"
    return package not in STANDARD_LIBRARY and package not in ("builtins", "numpy", "torch", "__main__")
