"""What accumulates: the last place on the way down that is itself stable while its contents multiply.

A *growing* place is one whose bytes kept rising; the holder of a leak is where they pile up: ``trainer.history``, not
its ten thousand members.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from ...units import FEWEST, MOST
from .owners import is_module_dict
from .place import OUTSIDE, RUNNING, Floats, Place

THREADS_ALIVE = "threading._active"
_MEMBER_EDGES = frozenset(("item", "key", "reference", "base", "attribute", "local"))


LEAST_LATELY = 0.15  # of what was gained, in the second half: where it was filled early 0, of a steady rise 0.5, and
# where it rises at a few evaluations still something


def keeps_growing(values: Floats, *, min_persistence: float = 0.6) -> bool:
    """Rose more than it fell, and also lately.

    ``min_persistence``: net growth over the sum of all changes; a saw-tooth is near 0, a steady rise is 1.
    """
    changes = np.diff(values)
    total = float(np.abs(changes).sum())
    net = float(values[-1] - values[0])
    if total <= 0 or net <= 0 or net / total < min_persistence:
        return False
    if len(values) <= FEWEST:
        return True
    middle = values[(len(values) - 1) // 2]
    return float(values[-1] - middle) >= LEAST_LATELY * net


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
    ``largest``: of several places below it over which its growth spreads, the one that gained most.
    """

    place: Place | None
    growth_bytes: float
    members: tuple[Place, ...]
    is_guess: bool = False
    handle: Place | None = None
    bytes_each: float | None = None
    tensors_each: float | None = None
    largest: Place | None = None


def accumulations(roots: tuple[Place, ...], threshold_bytes: float) -> Iterator[Accumulation]:
    """Every accumulation point with at least ``threshold_bytes`` of lasting growth, in no order.

    Not where Python itself lists the threads that run: what piles up there are threads.
    """
    for found in _accumulations(roots, threshold_bytes):
        place = found.place
        if place is None or (place.path != THREADS_ALIVE and place.is_certain_to_grow):
            yield found


def _accumulations(roots: tuple[Place, ...], threshold_bytes: float) -> Iterator[Accumulation]:
    for root in roots:
        if _is_on_its_way(root) or root.path == RUNNING:
            continue  # ever more threads, each with its locals: that is thread-pileup's finding
        if _grows(root, threshold_bytes) and multiplies(root):
            if root.root_kind == "thread":
                continue
            if root.root_kind in ("task", "generator", "frame", OUTSIDE):
                yield Accumulation(root, root.growth_bytes, (root,))
                continue
        yield from _below(root, threshold_bytes, is_growing=_grows(root, threshold_bytes))


def _below(root: Place, threshold_bytes: float, *, is_growing: bool) -> Iterator[Accumulation]:
    """Also in places that do not grow: what comes and goes in one may be more than what one thing in it gains.

    Without recursion: a chain of objects may be of any length.
    """
    order = [(root, is_growing)]
    parts: list[tuple[list[Place], list[Place], list[Place]]] = []  # of each: what grows in it, its members, the others
    for place, grows in order:  # which becomes longer
        growing = [c for c in place.children if _grows(c, threshold_bytes) and (grows or _by_itself(c))]
        arrived = _arrived(place, growing)
        members = [
            c for c in growing if c in arrived or (_may_be_member(c) and (multiplies(c) or _are_ever_more(c, place)))
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


def _grows(place: Place, threshold_bytes: float) -> bool:
    return place.growth_bytes >= threshold_bytes and (keeps_growing(place.deep_bytes) or _is_filled(place))


def _is_on_its_way(root: Place) -> bool:
    """A local of a library's that was nowhere before the last of several snapshots: of a call that ran just then."""
    if len(root.deep_bytes) < FEWEST or root.deep_bytes[-1] <= 0 or root.deep_bytes[:-1].any():
        return False
    return root.root_kind == "frame" and not root.is_user


def _by_itself(place: Place) -> bool:
    return _in_many_steps(place.deep_bytes) or _is_filled(place)


def _is_filled(place: Place) -> bool:
    """It has ever more members, whatever they hold alone: what others hold with them counts there now, and now here."""
    return place.has_length and keeps_growing(place.length, min_persistence=0.9) and _in_many_steps(place.length)


def _in_many_steps(values: Floats, *, least: float = 2.5) -> bool:
    """It rose as in ``least`` equal steps or more: what only moved there from beside did so in one."""
    rises = np.maximum(np.diff(values), 0.0)
    return bool(rises.sum() ** 2 >= least * np.square(rises).sum() > 0)


def _arrived(place: Place, growing: Sequence[Place], *, least: int = FEWEST) -> list[Place]:
    """Members so large that each is told alone: none of them grew, but there are ever more in the container."""
    kinds = ("global",) if place.reference.edge_kind == "namespace" else ("item", "reference")
    new = [child for child in growing if child.reference.edge_kind in kinds and child.deep_bytes[0] == 0]
    more = float(place.length[-1] - place.length[0]) if place.has_length else 0.0
    return new if len(new) >= least and more >= len(new) and keeps_growing(place.length) else []


def _are_ever_more(members: Place, container: Place) -> bool:
    """Told together, while in an earlier snapshot most had rows of their own: the container has the count."""
    are_together = members.node is None and members.reference.edge_kind == "item"
    return are_together and container.has_length and keeps_growing(container.length)


def _may_be_member(place: Place) -> bool:
    """The dicts in which a torch module keeps its parts are no members of it, though each part has such dicts, too."""
    return place.reference.edge_kind in _MEMBER_EDGES and not is_module_dict(place)
