"""Memory that goes up and down by more than it gains, while one holder in it gains from inventory to inventory.

What is copied whole again and again, or lies among large things that come and go, hides in the ups and downs. Too
little to be believed as a leak, too much to be called none.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...units import format_bytes
from ..heap.paths import Accumulation, Floats, Heap, accumulations, heap, user_place
from ..series.trend import DRIFT_BYTES
from .question import Question

if TYPE_CHECKING:
    from ...storage import Recording

_SETTLED = 0.1  # of the run: what is filled before is start-up


def rising(
    recording: Recording,
    question: Question,
    *,
    min_inventories: int = 4,  # of fewer that vary by chance one in six, or two, would rise all the time
    min_span: float = 0.4,  # of the run: between the first and the last of them
    min_growth_bytes: int = 4 * DRIFT_BYTES,  # twice what a trend of resident memory needs: it is not seen in that
    min_share: float = 0.5,  # of the holder's growth: resident memory rose by, too, from the first to the last
    min_late_pace: float = 0.5,  # of the usual one, kept up in the last interval: a cache that fills becomes slower
) -> str | None:
    """Why it is not certain that the worker's memory stands; None where no holder rises all the time."""
    begin_s, end_s = float(question.time_s[0]), float(question.time_s[-1])
    inventory = heap(recording, question.worker.pid, begin_s + _SETTLED * (end_s - begin_s), end_s)
    if inventory is None or len(inventory.takes) < min_inventories:
        return None
    if inventory.time_s[-1] - inventory.time_s[0] < min_span * (end_s - begin_s):
        return None
    first, last = np.interp(inventory.time_s[[0, -1]], question.worker.time_s, question.worker.held_bytes)
    found = [
        one
        for one in accumulations(inventory.roots, min_growth_bytes)
        if one.place is not None
        and one.growth_bytes >= min_growth_bytes
        and last - first >= min_share * one.growth_bytes
        and not one.place.first_seen  # a straight line of ours is no evidence
        and _rises_steadily(inventory.time_s, user_place(one.place).deep_bytes, min_late_pace)
    ]
    return _words(max(found, key=lambda one: one.growth_bytes), inventory) if found else None


def _rises_steadily(time_s: Floats, held_bytes: Floats, min_late_pace: float) -> bool:
    rises, lasted_s = np.diff(held_bytes), np.diff(time_s)
    usual = float(held_bytes[-1] - held_bytes[0]) / max(float(time_s[-1] - time_s[0]), 1e-9)
    return bool((rises > 0).all() and rises[-1] >= min_late_pace * usual * lasted_s[-1])


def _words(found: Accumulation, inventory: Heap) -> str:
    assert found.place is not None
    place = user_place(found.place)
    first, last = (format_bytes(float(place.deep_bytes[i])) for i in (0, -1))
    return (
        f"memory goes up and down by more than it gains, but {place.path} was larger in each of "
        f"{len(inventory.takes)} inventories, {first} in the first and {last} in the last: a longer run would tell"
    )
