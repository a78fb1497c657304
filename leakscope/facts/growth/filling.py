"""Containers that rise to a limit of the program's own: a cache, a ring, a queue that is not full yet.

The limit is the container's (``maxlen`` of a deque, ``maxsize`` of an lru_cache), one that the program compares its
length with, or of a library's container an attribute beside it (``maxsize``). One that was exceeded is none.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...storage import Recording
from ...units import GOOD_PART, HARDLY, MOST, SOME
from ..code.adding import Line
from ..code.caps import Cap, caps
from ..code.index import Source
from ..code.recorded import sources_of
from ..heap.accumulation import accumulations
from ..heap.comparable import heap_of
from ..heap.owners import user_place
from ..heap.place import Place, downwards
from ..heap.standing import standing
from ..series.arithmetic import Floats, level_at, per_second
from .limits import Limit, limits, nearest
from .processes import ProcessGrowth

_LIMIT = re.compile(r"max_?(size|len|entries|items|count|length)|capacity|^_*limit$", re.IGNORECASE)
_LEAST_SHARE = HARDLY  # of what its process gained: below, it matters to nobody
_OVER = 1.02  # times the limit: a program that compares before it adds has one more, or a batch
_DEARER = 1.5  # times what a member takes on average: new ones that take more are not all that grows
_FAR = SOME  # of the limit: what it takes when it is full is no more than a guess
_AFTER = GOOD_PART  # of the window: growth that goes on so long after it was full is not its own


@dataclass(frozen=True, eq=False)
class Filling:
    """``limit`` members are the most it will have; None where it has one that nobody knows.

    ``line`` keeps it there; None where the container does so itself. **Units** bytes: what it gained between the
    snapshots, what it holds, and what it will hold when it is full.
    """

    place: Place
    limit: int | None
    line: Line | None
    growth_bytes: float
    time_s: Floats

    @property
    def named(self) -> Place:
        return user_place(self.place)

    @property
    def name(self) -> str:
        return str(self.named.reference.variable or self.place.path)

    @property
    def length(self) -> int:
        return int(self.place.length[-1])

    @property
    def held_bytes(self) -> float:
        return float(self.place.deep_bytes[-1])

    @property
    def full_share(self) -> float:
        return min(self.length / self.limit, 1.0) if self.limit else 0.0

    @property
    def is_far(self) -> bool:
        return self.full_share < _FAR

    @property
    def level_bytes(self) -> float:
        return self.held_bytes / self.full_share if self.limit and self.length else self.held_bytes

    @property
    def needed_bytes(self) -> float:
        return self.level_bytes - self.held_bytes

    @property
    def full_in_s(self) -> float | None:
        """At the pace at which it gained members between the snapshots; None where that, or its limit, is not known."""
        added = float(self.place.length[-1] - self.place.length[0])
        if not self.limit or added <= 0:
            return None
        return (self.limit - self.length) / added * float(self.time_s[-1] - self.time_s[0])


@dataclass(frozen=True, eq=False)
class Fills:
    """What fills up in the process that gained most, the most first, as shares of what it gained.

    ``other_share``: of what keeps growing and has no limit. ``room``: the limit of memory in which there is too little
    room for all of it, and None if there is enough.
    """

    found: Sequence[Filling]
    share: float
    other_share: float
    room: Limit | None

    @property
    def are_known(self) -> bool:
        return all(one.limit is not None for one in self.found)


def fills(recording: Recording, pid: int, growth_bytes: int, window_s: tuple[float, float]) -> Fills | None:
    """What in a process is behind its growth. None where nothing fills up, or there are no snapshots to compare."""
    heap = heap_of(recording, pid, *window_s)
    if heap is None:
        return None
    seconds = float(heap.time_s[-1] - heap.time_s[0])
    gained = max(per_second(growth_bytes, window_s[1] - window_s[0]) * seconds, 1.0)
    found: list[Filling] = []
    others = 0.0
    sources = sources_of(recording)
    for one in accumulations(heap, _LEAST_SHARE * gained):
        filling = limited(sources, one.place, heap.time_s) if one.place is not None else None
        if filling is not None and _explains(filling, heap.time_s, window_s):
            found.append(filling)
        else:
            others += one.growth_bytes
    if not found:
        return None
    found.sort(key=lambda filling: -filling.growth_bytes)
    share = sum(filling.growth_bytes for filling in found) / gained
    limit, needed = nearest(limits(recording)), sum(filling.needed_bytes for filling in found)
    has_room = limit is None or needed <= float(limit.limit_bytes[-1] - limit.used_bytes[-1])
    return Fills(found, share, others / gained, None if has_room else limit)


def filled(recording: Recording, process: ProcessGrowth, end_s: float) -> Filling | None:
    """What explains a rise that ended, with its limit if it has one. None: no holder that stands gained most of it."""
    heap, least = heap_of(recording, process.pid, 0.0, float("inf")), MOST * process.growth_bytes
    if heap is None:
        return None
    then, last = (level_at(process.time_s, process.held_bytes, at_s) for at_s in (float(heap.time_s[-1]), end_s))
    held = next(iter(standing(heap, least, last - then)), None)
    if held is None:
        return None
    inside = (one for one in downwards(held.children) if one.growth_bytes >= least)  # what it keeps that in
    place = max((held, *inside), key=lambda one: one.has_length)
    filling = limited(sources_of(recording), place, heap.time_s)
    return filling or Filling(place, None, None, place.growth_bytes, heap.time_s)


def limited(sources: Sequence[Source], place: Place, time_s: Floats) -> Filling | None:
    """A container that became longer, with the limit that it is kept to; None: none is known to be there."""
    if not (place.has_length and place.count[-1] == 1 and place.length[-1] > place.length[0]):
        return None
    limit, line = place.length_limit, None
    if limit is None:
        cap = _cap(sources, place)
        limit, line = (max(cap.members, default=None), cap.line) if cap is not None else (_beside(place), None)
        if cap is None and limit is None:
            return None
    return Filling(place, limit, line, place.growth_bytes, time_s)


def _cap(sources: Sequence[Source], place: Place) -> Cap | None:
    """The lowest limit not yet exceeded; one of unknown height if none is left."""
    for held in _held_as(place):
        found, seen, length = caps(sources, held.as_holder()), _numbers_beside(place), float(place.length[-1])
        # What a snapshot saw in the attribute that the length is compared with is the number, whatever the sources say.
        known = [(cap, (seen[cap.attribute],) if cap.attribute in seen else cap.members) for cap in found]
        found = [cap._replace(members=members) for cap, members in known]
        kept = [cap._replace(members=tuple(n for n in cap.members if n * _OVER >= length)) for cap in found]
        if any(cap.members for cap in kept):  # without the numbers that were exceeded
            return min((cap for cap in kept if cap.members), key=lambda cap: cap.members[-1])
        if found and not all(cap.members for cap in found):
            return next(cap for cap in found if not cap.members)
    return None


def _numbers_beside(place: Place) -> dict[str, int]:
    """Attributes of the object that has the container, as far as they are numbers."""
    pairs = (pair.rpartition("=") for pair in (place.limits or "").split())
    return {name: int(number) for name, _, number in pairs if number.isdigit()}


def _beside(place: Place) -> int | None:
    """An attribute of the object that has it. Of a library's class nobody reads the sources; in one of the program's
    own the length may be compared with it by way of another container, so that it has to be full.
    """
    length = float(place.length[-1])
    numbers = (number for name, number in _numbers_beside(place).items() if _LIMIT.search(name))
    kept = (number for number in numbers if number * _OVER >= length)
    return min((number for number in kept if not place.is_user or number <= length * _OVER), default=None)


def _held_as(place: Place) -> Iterator[Place]:
    """The container itself; and the object of a class that has it as an attribute, as a queue has its deque."""
    if place.reference.variable is not None:
        yield place
    above = place.parent
    if above is not None and place.reference.edge_kind == "attribute" and not above.has_length:
        yield above


def _explains(filling: Filling, time_s: Floats, window_s: tuple[float, float]) -> bool:
    """Whether it grew by having more members, and was not full long before the end of what grew."""
    place, limit = filling.place, filling.limit
    each = place.growth_bytes / max(float(place.length[-1] - place.length[0]), 1.0)
    if each > _DEARER * filling.held_bytes / max(filling.length, 1):
        return False
    full = np.flatnonzero(place.length >= limit) if limit is not None else np.empty(0, dtype=int)
    if not full.size:
        return True
    return bool(window_s[1] - time_s[full[0]] <= _AFTER * (window_s[1] - window_s[0]))
