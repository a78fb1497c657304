"""Growth with an end in sight: a container with a limit (maxlen of a deque, maxsize of an lru_cache) that fills up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from ...units import format_count
from ..heap.paths import Place, accumulations, heap, user_place
from ..series.arithmetic import Floats
from .processes import ProcessGrowth

if TYPE_CHECKING:
    from ...storage import Recording


def bounded(recording: Recording, process: ProcessGrowth, window_s: tuple[float, float]) -> str | None:
    """Why the growth of a process in a window may end by itself; None where no bounded container explains it."""
    return filling_up(recording, process.pid, window_s, process.growth_bytes)


def filling_up(
    recording: Recording,
    pid: int,
    window_s: tuple[float, float],
    growth_bytes: int,
    *,
    min_filled: float = 0.5,  # of its limit: it at most doubles; a limit that is far away bounds nothing
    min_share: float = 0.5,  # of the growth of its process
) -> str | None:
    """Which container explains so much of a process's growth in a window, and how full it is; None without one."""
    inventory = heap(recording, pid, *window_s)
    if inventory is None:
        return None
    seconds = float(inventory.time_s[-1] - inventory.time_s[0])
    gained = growth_bytes * seconds / max(window_s[1] - window_s[0], 1e-9)
    least = min_share * gained
    for found in accumulations(inventory.roots, least):
        place = found.place
        if place is None or found.growth_bytes < least:
            continue
        if _is_filling(place, inventory.time_s, window_s, min_filled):
            name = user_place(place).row["variable"] or place.path
            lengths = f"{format_count(place.length[-1])} of the {format_count(place.row['length_limit'])} members"
            return f"{name} fills up and has {lengths} it may have: a longer run would tell whether growth ends there"
    return None


def _is_filling(
    place: Place,
    time_s: Floats,
    window_s: tuple[float, float],
    min_filled: float,
    most_when_full: float = 0.25,  # of its growth: what its members hold on to has no such limit
    most_after_s: float = 0.3,  # of the window: growth that goes on so long after it was full is not its own
) -> bool:
    limit = place.row["length_limit"]
    if limit is None or pd.isna(limit) or place.count[-1] != 1:
        return False
    full = np.flatnonzero(place.length >= limit)
    if full.size:
        since = place.deep_bytes[-1] - place.deep_bytes[full[0]]
        after_s = window_s[1] - time_s[full[0]]
        if since > most_when_full * place.growth_bytes or after_s > most_after_s * (window_s[1] - window_s[0]):
            return False
    return bool(place.length[-1] > place.length[0] and place.length[-1] >= min_filled * limit)
