"""Growth with an end in sight: a container with a limit (maxlen of a deque, maxsize of an lru_cache) that fills up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pandas as pd

from ..units import format_count
from ._growth_processes import ProcessGrowth
from ._holders import Place, accumulations, heap, user_place

if TYPE_CHECKING:
    from ..storage import Recording


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
        if place is not None and found.growth_bytes >= least and _is_filling(place, min_filled):
            name = user_place(place).row["variable"] or place.path
            lengths = f"{format_count(place.length[-1])} of the {format_count(place.row['length_limit'])} members"
            return f"{name} fills up and has {lengths} it may have: a longer run would tell whether growth ends there"
    return None


def _is_filling(place: Place, min_filled: float) -> bool:
    limit = place.row["length_limit"]
    if limit is None or pd.isna(limit) or place.count[-1] != 1:
        return False
    return bool(place.length[-1] > place.length[0] and place.length[-1] >= min_filled * limit)
