"""What forks inherit in Python objects: the container of their parent's that holds most of them.

Reading an object writes its reference count, and a collection writes to every container; arrays and tensors keep their
numbers apart from the object, and stay shared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...storage import Recording
from ...units import MOST
from ..code.adding import Holder, Line, adding_lines
from ..code.index import Source
from ..heap.comparable import whole_heap
from ..heap.place import Place
from .holders import holder_name


@dataclass(frozen=True, eq=False)
class Inherited:
    """A container as a person calls it. ``bytes`` of Python objects in it, without arrays and tensors."""

    name: str
    bytes: float
    path: str
    holder: Holder
    line: Line | None


def inherited(
    recording: Recording, sources: Sequence[Source], pid: int, start_s: float, end_s: float
) -> Inherited | None:
    """Of a parent whose forks lived between these moments, by the snapshot that saw most of it then, or before."""
    seen = whole_heap(recording, pid)
    before = np.flatnonzero(seen.time_s <= end_s)
    during = before[seen.time_s[before] >= start_s]
    moments = during if len(during) else before[-1:]
    named = [one for one in seen.places if len(moments) and one.has_users_name and _is_one(one)]
    found = [(place, int(moments[place.object_bytes[moments].argmax()])) for place in named]
    heaviest = max(found, key=lambda one: float(one[0].object_bytes[one[1]]), default=None)
    if heaviest is None:
        return None
    place = _deepest(*heaviest)
    holder = place.as_holder()
    line = next(iter(adding_lines(sources, holder)), None)
    return Inherited(holder_name(place), float(place.object_bytes[heaviest[1]]), place.path, holder, line)


def _is_one(place: Place) -> bool:
    """Attributes of each of many rows are no place of their own."""
    return bool(place.count.max() <= 1)


def _deepest(place: Place, at: int) -> Place:
    """The last name on the way down that still has most of it."""
    least, best, level = MOST * place.object_bytes[at], place, [place]
    while level:
        level = [child for above in level for child in above.children if child.object_bytes[at] >= least]
        named = [one for one in level if one.has_users_name and _is_one(one)]
        best = max(named, key=lambda one: float(one.object_bytes[at]), default=best)
    return best
