"""What accumulates: the last place on the way down that is itself stable while its contents multiply.

A *growing* place is one whose bytes kept rising; the holder of a leak is where they pile up: ``trainer.history``, not
its ten thousand members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...units import FEWEST, HARDLY, MOST
from .comparable import Heap
from .place import OUTSIDE, RUNNING, Floats, Place, downwards

THREADS_ALIVE = "threading._active"
_MEMBER_EDGES = frozenset(("item", "key", "reference", "base", "attribute", "local"))


_LEAST_LATELY = 0.15  # of what was gained, in the second half of the time: where it was filled early 0, of a steady
# rise 0.5, and where it rises at a few evaluations still something


def keeps_growing(time_s: Floats, values: Floats, *, min_persistence: float = 0.6) -> bool:
    """Rose more than it fell, and also lately: by time, since snapshots come seldom once they have become dear.

    ``min_persistence``: net growth over the sum of all changes; a saw-tooth is near 0, a steady rise is 1.
    """
    changes = np.diff(values)
    total = float(np.abs(changes).sum())
    net = float(values[-1] - values[0])
    if total <= 0 or net <= 0 or net / total < min_persistence:
        return False
    half_s = (time_s[0] + time_s[-1]) / 2
    return float(values[-1] - np.interp(half_s, time_s, values)) >= _LEAST_LATELY * net


def multiplies(place: Place, *, min_ratio: float = 1.25) -> bool:
    """More objects at this path rather than larger ones: it is what accumulates, its parent is what holds it."""
    seen = np.flatnonzero(place.count > 0)
    if not len(seen):
        return False
    first, last = seen[0], seen[-1]
    if first == last or place.count[-1] <= 0:
        return bool(place.count[-1] > 1)
    count_ratio = place.count[-1] / place.count[first]
    size_ratio = (place.deep_bytes[-1] / place.count[-1]) / max(place.deep_bytes[first] / place.count[first], 1.0)
    if place.count[-1] - place.count[first] < 2 or count_ratio < min_ratio:
        return False
    return bool(size_ratio <= count_ratio)


@dataclass(frozen=True, eq=False)
class Accumulation:
    """A place whose contents multiply; ``members`` are the paths below it that carry the growth.

    ``is_guess``: its growth was not weighed, but put down to it for want of another. ``handle``: what its members are
    or hold that stands for memory outside Python, ``bytes_each`` of it for each member, where it grew in step;
    ``tensors_each``: live tensors that came with each, where nobody read the members.
    ``largest``: of several places below it over which its growth spreads, the one that gained most. ``alike``: all
    places that one name of the user's stands for, where there are several.
    """

    place: Place | None
    growth_bytes: float
    members: tuple[Place, ...]
    is_guess: bool = False
    handle: Place | None = None
    bytes_each: float | None = None
    tensors_each: float | None = None
    largest: Place | None = None
    alike: tuple[Place, ...] = ()


def accumulations(heap: Heap, threshold_bytes: float) -> Iterator[Accumulation]:
    """Every accumulation point with at least ``threshold_bytes`` of lasting growth, in no order.

    Not where Python itself lists the threads that run: what piles up there are threads. Nor what a library's module has
    got as it was imported, or as more of it was read.
    """
    for found in _accumulations(heap.roots, heap.time_s, threshold_bytes):
        place = found.place
        if place is None or (
            place.path != THREADS_ALIVE and place.is_certain_to_grow and not _is_of_a_librarys_module(place)
        ):
            yield found


def _is_of_a_librarys_module(place: Place) -> bool:
    space = place if place.node is not None or place.parent is None else place.parent
    is_users = space.is_user or any(variable.is_user for variable in space.children)
    return space.reference.edge_kind == "namespace" and not is_users


def _accumulations(roots: Sequence[Place], time_s: Floats, threshold_bytes: float) -> Iterator[Accumulation]:
    for root in roots:
        if _is_on_its_way(root) or root.path == RUNNING:
            continue  # ever more threads, each with its locals: that is thread-pileup's finding
        is_growing = _grows(root, time_s, threshold_bytes)
        if is_growing and multiplies(root):
            if root.root_kind == "thread":
                continue
            if root.root_kind in ("frame", OUTSIDE):
                yield Accumulation(root, root.growth_bytes, (root,))
                continue
        # A function that runs is nobody who could hold less: a variable of its is, if that has most of what it gained.
        is_call = is_growing and root.root_kind == "frame"
        least = min(threshold_bytes, MOST * root.growth_bytes) if is_call else threshold_bytes
        yield from _below(root, time_s, least, is_growing=is_growing)


def _below(root: Place, time_s: Floats, threshold_bytes: float, *, is_growing: bool) -> Iterator[Accumulation]:
    """Also in places that do not grow: what comes and goes in one may be more than what one thing in it gains.

    Without recursion: a chain of objects may be of any length.
    """
    order = [(root, is_growing)]
    parts: list[tuple[list[Place], list[Place], list[Place]]] = []  # of each: what grows in it, its members, the others
    for place, grows in order:  # which becomes longer
        growing = [c for c in place.children if _grows(c, time_s, threshold_bytes)]
        growing = [c for c in growing if grows or _in_many_steps(c.deep_bytes) or _is_filled(c, time_s)]
        is_longer = place.has_length and keeps_growing(time_s, place.length)
        # What is in a container that has a limit is told at that, and it knows how many more there will be.
        is_bounded = is_longer and place.length_limit is not None
        arrived = _arrived(place, growing, least=1 if is_bounded else FEWEST) if is_longer else []
        members = [
            c
            for c in growing
            if c in arrived or (_may_be_member(c) and (multiplies(c) or (is_longer and _are_together(c))))
        ]
        others = [c for c in place.children if c not in members]
        parts.append((growing, members, others))
        order += [(c, c in growing) for c in others]
    told: dict[int, float] = {}  # bytes of all that was found in a place
    for (place, grows), (growing, members, others) in zip(reversed(order), reversed(parts)):
        hidden = sum(told[id(c)] for c in others if c not in growing)
        rest = place.growth_bytes - hidden - sum(c.growth_bytes for c in growing if c not in members)
        if not grows:
            is_told, rest = bool(members), sum(c.growth_bytes for c in members)
        else:
            is_lowest = not growing and not hidden
            least = threshold_bytes if is_lowest else max(threshold_bytes, MOST * place.growth_bytes)
            is_told = bool(members) or rest >= least
        if is_told:
            yield Accumulation(place, rest, tuple(members))
        told[id(place)] = sum(told[id(c)] for c in others) + (rest if is_told else 0.0)


def _grows(place: Place, time_s: Floats, threshold_bytes: float) -> bool:
    if place.growth_bytes < threshold_bytes:
        return False
    return keeps_growing(time_s, place.deep_bytes) or _is_filled(place, time_s)


def _is_on_its_way(root: Place) -> bool:
    """A local of a library's that had hardly anything before the last of several snapshots: of a call that then ran."""
    before = root.deep_bytes[:-1]
    if len(root.deep_bytes) < FEWEST or before.max() >= HARDLY * root.deep_bytes[-1] or root.root_kind != "frame":
        return False
    return not any(part.is_user for part in (downwards([root]) if before.any() else [root]))


def _is_filled(place: Place, time_s: Floats) -> bool:
    """It has ever more members, whatever they hold alone: what others hold with them counts there now, and now here."""
    has_more = place.has_length and keeps_growing(time_s, place.length, min_persistence=0.9)
    return has_more and _in_many_steps(place.length)


def _in_many_steps(values: Floats, *, least: float = 2.5) -> bool:
    """It rose as in ``least`` equal steps or more: what only moved there from beside did so in one."""
    rises = np.maximum(np.diff(values), 0.0)
    return bool(rises.sum() ** 2 >= least * np.square(rises).sum() > 0)


def _arrived(place: Place, growing: Sequence[Place], *, least: int) -> list[Place]:
    """Members so large that each is told alone: none of them grew, but there are ever more in the container.

    Those too small to be told count as well: of trials of every size the largest are no holders.
    """
    kinds = ("global",) if place.reference.edge_kind == "namespace" else ("item", "reference")
    new = [one for one in place.children if one.reference.edge_kind in kinds and one.deep_bytes[0] == 0]
    are_more = least <= len(new) <= place.length[-1] - place.length[0]
    return [one for one in new if one in growing] if are_more else []


def _are_together(members: Place) -> bool:
    """Told so, while in an earlier snapshot most had rows of their own: the container has the count."""
    return members.node is None and members.reference.edge_kind == "item"


def _may_be_member(place: Place) -> bool:
    """The dicts in which a torch module keeps its parts are no members of it, though each part has such dicts, too."""
    return place.reference.edge_kind in _MEMBER_EDGES and not place.has_parts
