"""Containers and chains whose members are handles: Python objects that stand for memory which nobody can weigh.

A model of a library, a database row, a decoded image: the object is small, and what it holds is not Python's. Named
only where the holders that can be weighed explain less than half of the growth.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from typing import NamedTuple

import numpy as np

from ...units import FEWEST, FULL, MOST
from .accumulation import Accumulation, keeps_growing
from .comparable import Heap
from .owners import user_place
from .place import Floats, Place, upwards

_TENSOR, _ADDRESS = "torch.Tensor", "ctypes.c_void_p"
ALIKE = 2.0  # in proportion: no interval has more than twice, or less than half, of what all have for each member
_IN_PROPORTION, _BY_COUNT = FULL, 0.5  # of what is missing, put down to it: where memory grew in step, and else


class _Candidate(NamedTuple):
    place: Place
    handle: Place
    bytes_each: float | None
    tensors_each: float | None = None

    @property
    def gained(self) -> float:
        return float(self.place.length[-1] - self.place.length[0])


def handles(
    heap: Heap, known: Sequence[Accumulation], missing_bytes: float, is_theirs: Callable[[str], bool]
) -> list[Accumulation]:
    """The container that gained most such members; those in step with memory come first.

    Members are handles if they are, or hold, objects that Python cannot see into; or objects of a type that
    ``is_theirs``, whose memory it may be that grew, as long as that was in step with their number; or tensors that a
    graph which was read in part did not reach, as long as live tensors and memory both came in step with their number.
    """
    told = {id(h.place) for h in known}
    candidates = [c for p in heap.places if not _is_below(p, told) and (c := _candidate(heap, p, is_theirs))]
    if not candidates:
        return []
    best = max(candidates, key=lambda c: (c.bytes_each is not None, c.gained, c.place.growth_bytes))
    share = _BY_COUNT if best.bytes_each is None else _IN_PROPORTION
    weighed_bytes = 0.0 if id(best.place) in told else max(best.place.growth_bytes, 0.0)  # that is not missing
    gained_bytes = weighed_bytes + share * max(missing_bytes - weighed_bytes, 0.0)
    return [Accumulation(best.place, gained_bytes, (), True, *best[1:])]


def _is_below(place: Place, above: Container[int]) -> bool:
    """``above``: places, by their identity."""
    return any(id(at) in above for at in upwards(place.parent))


def _candidate(heap: Heap, place: Place, is_theirs: Callable[[str], bool]) -> _Candidate | None:
    if not place.has_length or not keeps_growing(heap.time_s, place.length, min_persistence=0.9):
        return None
    gained = np.diff(place.length)
    if len(gained) > 1 and (gained[-1] <= 0 or not gained[:-1].any()):
        return None  # it is as long as before, or jumped as the last snapshot was made
    if place.reference.edge_kind == "namespace" and (place.parent is None or place.parent.type_name != "module"):
        return None  # the attributes of one object are no members, and no more of them come with time
    if place.length[-1] - place.length[0] <= FEWEST or not user_place(place).is_user:
        return None  # the lengths of what libraries hold are estimates from a few of them
    bytes_each = in_step(place.length, heap.rss_bytes - heap.free_bytes)
    handle = _owner(place, _below(place, lambda p: bool(p.opaque)))
    if handle is None and bytes_each is not None:
        handle = _below(place, lambda p: is_theirs(p.type_name))
    if handle is not None:
        return _Candidate(place, handle, bytes_each)
    tensors_each = _unread_tensors(heap, place) if bytes_each is not None else None
    member = next((p for p in place.children if p.reference.edge_kind == "item" and not p.children), None)
    if tensors_each is None or member is None:
        return None
    return _Candidate(place, member.known_as(member.reference, type_name=_TENSOR), bytes_each, tensors_each)


def _owner(place: Place, handle: Place | None) -> Place | None:
    """Whoever has an address of C's stands for what lies there."""
    while handle is not None and handle.type_name == _ADDRESS and handle.parent not in (None, place):
        handle = handle.parent
    return handle


def _unread_tensors(heap: Heap, place: Place) -> float | None:
    """Tensors that came to live for each member that was added, where nobody read what the members hold."""
    if heap.tensor_count is None or not heap.truncated or place.tensor_bytes.any():
        return None
    each = in_step(place.length, heap.tensor_count)
    return each if each is not None and each >= MOST else None


def in_step(count: Floats, in_use_bytes: Floats) -> float | None:
    """Bytes that came into use for each that was added; None unless that is alike in all intervals, two or more.

    Of those before there was any nothing is asked.
    """
    begin = max(int(np.argmax(count > 0)) - 1, 0)
    members, in_use = np.diff(count[begin:]), np.diff(in_use_bytes[begin:])
    if members.size < 2 or not (members > 0).all():
        return None
    each = float(in_use.sum() / members.sum())
    alike = (in_use / members >= each / ALIKE) & (in_use / members <= each * ALIKE)
    return each if each > 0 and alike.all() else None


def in_step_by_sample(count: Floats, in_use_bytes: Floats, *, min_fit: float = FULL) -> float | None:
    """The same of a count that is an estimate: None unless a straight line explains ``min_fit`` of four or more."""
    if count.size <= FEWEST or not np.ptp(count) or not np.ptp(in_use_bytes):
        return None
    each = float(np.polyfit(count, in_use_bytes, 1)[0])
    fit = float(np.corrcoef(count, in_use_bytes)[0, 1]) ** 2
    return each if each > 0 and fit >= min_fit else None


def _below(place: Place, is_handle: Callable[[Place], bool]) -> Place | None:
    """The nearest one; the links of a chain are its members."""
    level = [place] if place.chained else list(place.children)
    while level:
        found = next((p for p in level if is_handle(p)), None)
        if found is not None:
            return found
        level = [child for p in level for child in p.children]
    return None
