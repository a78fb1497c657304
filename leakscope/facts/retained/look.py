"""The holders that explain what a process gained between two of its snapshots."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...units import LISTED, MOST, over
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from ..heap.accumulation import Accumulation, accumulations
from ..heap.comparable import Heap
from ..heap.handles import handles
from ..heap.owners import user_place
from ..heap.place import GRAPH_TYPE, Place

# What is held keeps its freed neighbours from being used again: seven times its own size was measured (gradients of
# 64 KiB kept between activations of 256 KiB). Below this share of the growth it is not what pins so much.
_MIN_PINNING_SHARE = 0.03


@dataclass(frozen=True)
class Look:
    """What a process gained between the first and the last snapshot of a set, and the holders that explain it.

    ``in_use_bytes``: of ``gained_bytes``, what malloc did not get back.
    """

    heap: Heap
    holders: list[Accumulation]
    gained_bytes: float
    in_use_bytes: float

    @property
    def steps(self) -> float:
        """Training steps between the snapshots; 0 where they are not known."""
        steps = self.heap.step[np.isfinite(self.heap.step)]
        return float(steps[-1] - steps[0]) if len(steps) >= 2 and steps[-1] > steps[0] else 0.0

    @property
    def explained_bytes(self) -> float:
        return sum(h.growth_bytes for h in self.holders)

    @property
    def explained_share(self) -> float:
        return min(self.explained_bytes / max(self.in_use_bytes, 1.0), 1.0)

    @property
    def pinned_bytes(self) -> float:
        """What malloc got back and cannot use again, since what the holders hold lies in between.

        0 where most of what is in use is nobody's: then it is not known what the rest lies between.
        """
        return self.gained_bytes - self.in_use_bytes if self.explained_share >= MOST else 0.0


def look_at(heap: Heap, process: ProcessGrowth, growth: TreeGrowth, min_share: float, min_bytes: int) -> Look:
    """**Units** ``min_share`` of what is in use and ``min_bytes``: less, and a holder is not what ate the memory."""
    gained = float(heap.rss_bytes[-1] - heap.rss_bytes[0])
    if process.is_hidden or not gained > 0:
        gained = over(process.growth_bytes * float(np.ptp(heap.time_s)), growth.end_s - growth.start_s)
    freed = 0.0 if process.is_hidden else float(heap.free_bytes[-1] - heap.free_bytes[0])
    free = min(max(freed, 0.0), gained)
    threshold = max(float(min_bytes), min_share * (gained - free), _MIN_PINNING_SHARE * gained)
    return Look(heap, list(accumulations(heap, threshold)), gained, gained - free)


def holders_of(look: Look, package: str | None = None, *, max_count: int = LISTED) -> list[Accumulation]:
    """Those to be told, the most first; with a guess where those that were seen explain less than half.

    ``package``: under whose calls memory was seen to grow. ``max_count``: nobody mends more at a time.
    """
    holders = list(look.holders)
    if look.explained_share < MOST:
        missing = look.in_use_bytes - look.explained_bytes
        endless = _endless_graph(look.heap, holders, missing)
        holders += endless or handles(look.heap, holders, missing, lambda kind: kind.split(".", 1)[0] == package)
    return sorted(_by_user_place(holders), key=lambda h: -h.growth_bytes)[:max_count]


def _by_user_place(holders: Sequence[Accumulation]) -> list[Accumulation]:
    """One per name in the user's code: ``optimizer.state`` and ``optimizer.param_groups`` are both ``optimizer``,
    and the ``values`` of every ``Meter`` are one thing to mend.

    Its figures are those of the one that gained most; where no single one gained half, and one object has that name,
    they are those of the whole: a dict of lists that all grow.
    """
    groups: dict[Any, list[Accumulation]] = {}
    for holder in holders:
        assert holder.place is not None
        named = user_place(holder.place)
        one = named.reference
        key = one.variable, one.owner, one.owner_module, one.edge_kind
        groups.setdefault(key if named.is_user else id(named), []).append(holder)
    merged = []
    for group in groups.values():
        group.sort(key=lambda h: -h.growth_bytes)
        members = tuple(m for h in group for m in h.members)
        total = sum(h.growth_bytes for h in group)
        alike = tuple(h.place for h in group if h.place is not None)
        first = replace(group[0], growth_bytes=total, members=members, alike=alike)
        whole = {id(named): named for named in (user_place(h.place) for h in group if h.place is not None)}
        if len(whole) == 1 and group[0].growth_bytes < MOST * total and not any(h.is_guess or h.handle for h in group):
            (named,) = whole.values()
            gained = max(total, named.growth_bytes)  # of the others each gained too little to be told
            if named.growth_bytes >= MOST * total:  # a ContextVar's value is another object, and none of its own
                first = Accumulation(named, gained, (named,), largest=group[0].place)
        merged.append(first)
    return merged


def _endless_graph(heap: Heap, known: Sequence[Accumulation], missing_bytes: float) -> list[Accumulation]:
    """The graph that was longer than a snapshot follows: how much is added to it cannot be seen any more.

    Named only when the visible holders do not explain the growth; half of what is missing is put down to it, since
    there is no other place where that much could hide.
    """
    taken = {id(h.place) for h in known}
    endless = [p for p in heap.places if _is_endless(p, heap) and id(p) not in taken]
    if not endless:
        return []
    longest = max(endless, key=lambda p: p.count.max())
    return [Accumulation(longest, MOST * missing_bytes, (longest,), is_guess=True)]


def _is_endless(place: Place, heap: Heap, *, min_nodes: int = 4000) -> bool:
    """``min_nodes``: five times what a 12-layer transformer needs for a step; the agent follows a little more at first.

    Later it follows less, since it may not leave traces in too many nodes of one graph.
    """
    return place.type_name == GRAPH_TYPE and heap.truncated and bool(place.count.max() >= min_nodes)
