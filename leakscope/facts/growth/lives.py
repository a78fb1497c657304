"""How long sampled pieces of malloc's memory were in use, who asked for them and who freed them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...storage import Rows
from ...units import GiB, MiB
from ..series.arithmetic import Floats, Integers
from ..tables import only

MOST_PIECE_BYTES = 16 * GiB
_MAPPED_ALONE = 32 * MiB  # malloc puts what is larger into no arena, whatever it learned (DEFAULT_MMAP_THRESHOLD_MAX)


@dataclass(frozen=True, eq=False)
class Lives:
    """Sampled pieces of one process, by their beginning; ``end_order`` is infinite for what was there at the end.

    ``thread``: from 0, the main one. ``order_at_s``: the last order at each moment of ``at_s``, in seconds.
    """

    begin_order: Floats
    end_order: Floats
    thread: Integers
    end_thread: Integers
    bytes: Floats
    weight: Floats
    at_s: Floats
    order_at_s: Floats

    def __len__(self) -> int:
        return len(self.begin_order)

    def orders(self, moments_s: Floats) -> Floats:
        """How far it had come at these moments, as far as is known: events come in batches."""
        at = np.searchsorted(self.at_s, moments_s, "right")
        return np.concatenate([[0.0], self.order_at_s])[at]

    def needs(self, moments_s: Floats, arenas: int) -> tuple[Floats, int]:
        """The most that each thread had in use at one moment until each of these, of what it asked for of its arena:
        the sum of as many threads as there are arenas, those that needed most; and how many these are.
        """
        small = self.bytes <= _MAPPED_ALONE
        until = self.orders(moments_s)
        found = []
        for thread in np.unique(self.thread[small]):
            own = small & (self.thread == thread)
            order = np.concatenate([self.begin_order[own], self.end_order[own]])
            by_time = np.argsort(order, kind="stable")
            peak = np.maximum.accumulate(np.cumsum(np.concatenate([self.weight[own], -self.weight[own]])[by_time]))
            found.append(np.concatenate([[0.0], peak])[np.searchsorted(order[by_time], until, "right")])
        most: Floats = np.sort(np.array(found).reshape(-1, moments_s.size), axis=0)[-arenas:]
        return most.sum(axis=0), len(most)


def lives_of(rows: Rows, rng: np.random.Generator) -> Lives:
    """Of rows of the table ``allocation_lives`` of one process, with ``time_s``."""
    begun = only(rows, rows["size_bytes"].notna()).sort_values("life").drop_duplicates("life")
    ended = only(rows, rows["end_order"].notna()).drop_duplicates("life")
    life = begun["life"].to_numpy(dtype=np.float64)
    ends = {life: place for place, life in enumerate(ended["life"])}
    place = np.array([ends.get(one, -1) for one in begun["life"]], dtype=np.intp)
    end = np.append(ended["end_order"].to_numpy(dtype=np.float64), np.inf)[place]
    thread = begun["thread_number"].to_numpy(dtype=np.int64) - 1
    end_thread = np.append(ended["end_thread_number"].to_numpy(dtype=np.int64, na_value=0), 0)[place] - 1
    size = np.minimum(begun["size_bytes"].to_numpy(dtype=np.float64), MOST_PIECE_BYTES)
    lost = np.isfinite(end) & (end_thread < 0)
    end = _ends_of_lost(np.asarray(end, dtype=np.float64), np.log2(np.maximum(size, 1)).astype(np.int64), lost, rng)
    at_s, order = (
        np.concatenate([begun[one].to_numpy(dtype=np.float64), ended[other].to_numpy(dtype=np.float64)])
        for one, other in (("time_s", "time_s"), ("life", "end_order"))
    )
    moments_s, place = np.unique(at_s, return_inverse=True)
    orders = np.zeros(moments_s.size)
    np.maximum.at(orders, place, order)
    return Lives(
        life, end, thread, np.where(end_thread < 0, thread, end_thread), size,
        begun["weight_bytes"].to_numpy(dtype=np.float64), moments_s,
        np.maximum.accumulate(orders),
    )  # fmt: skip


def _ends_of_lost(end: Floats, kind: Integers, lost: NDArray[np.bool_], rng: np.random.Generator) -> Floats:
    """What was lost from sight ends as another of its size that was there then, and was followed."""
    for at in np.flatnonzero(lost):
        others = end[(kind == kind[at]) & ~lost & (end > end[at])]
        end[at] = rng.choice(others) if others.size else np.inf
    return end
