"""All that the snapshots of one process found, by number: for who asks about one object, or one moment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

from ...units import LITTLE
from ..code.index import tail
from ..remembered import remembered
from .graph import graph_places
from .place import Floats, Place
from .takes import takes_of

if TYPE_CHECKING:
    from ...storage import Recording

_ARRAYS = ("numpy.ndarray", "torch.Tensor")


@dataclass(frozen=True, eq=False)
class HeapSnapshots:
    """``time_s``: one value a snapshot; ``takes``: their numbers. Not all may be compared: ``comparable.heaps``."""

    takes: tuple[int, ...]
    time_s: Floats
    places: tuple[Place, ...]

    @cached_property
    def by_number(self) -> dict[int, Place]:
        """{number of an object: the place that it is, or is a part of}."""
        return {number: place for place in self.places for number in place.numbers}

    @cached_property
    def own_arrays(self) -> frozenset[tuple[str, str]]:
        """(function, class or module, name) of arrays that have memory: who shows another's has next to none."""
        arrays = (one for one in self.places if one.type_name in _ARRAYS and one.deep_bytes.max() >= LITTLE)
        return frozenset((tail(one.reference.owner), one.reference.variable or "") for one in arrays)

    def at(self, take: int) -> int | None:
        """Position of a snapshot; None: it has no graph."""
        return self.takes.index(take) if take in self.takes else None

    def of_user(self) -> Iterator[Place]:
        """Places that have a name of the user's."""
        return (place for place in self.places if place.is_user and place.reference.names_it)


@remembered
def heap_snapshots(recording: Recording, pid: int) -> HeapSnapshots:
    """Empty where no snapshot read a heap."""
    takes = takes_of(recording, pid)
    takes = takes.at(takes.has_graph)
    places = graph_places(recording, pid, takes.numbers) if len(takes) else ()
    return HeapSnapshots(takes.numbers, takes.time_s, tuple(places))
