"""Growth of what allocators keep free, while what is in use stays: it ends when the largest need has been seen."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...units import format_bytes
from .processes import ProcessGrowth

if TYPE_CHECKING:
    from ...storage import Recording

_COLUMNS = ["malloc_in_use_bytes", "malloc_free_bytes"]


def settling(
    recording: Recording,
    process: ProcessGrowth,
    window_s: tuple[float, float],
    *,
    min_free_share: float = 0.3,  # of the growth: the reason why it is there at all
    max_in_use_share: float = 0.25,  # of the growth: above, something is held
    max_share: float = 0.2,  # of what the process holds: by as much a heap varies with what is asked of it
) -> str | None:
    """Why growth in a window may be malloc's high-water mark only; None where it is more, or malloc's figures lack.

    Batches of ever other size do this for a while: the largest so far sets the mark.
    """
    growth_bytes = process.growth_bytes
    rows = process.rows("sentinels").dropna(subset=_COLUMNS)
    rows = rows[rows["time_s"].between(*window_s)]
    if len(rows) < 6 or growth_bytes > max_share * float(process.held_bytes[-1]):
        return None
    first, last = (np.median(part[_COLUMNS].to_numpy(dtype=np.float64), axis=0) for part in (rows[:3], rows[-3:]))
    in_use, free = last - first
    if in_use > max_in_use_share * growth_bytes or free < min_free_share * growth_bytes:
        return None
    return (
        f"what is in use hardly grew; malloc keeps {format_bytes(free)} more free, as for batches of other sizes: "
        "a longer run would tell whether that ends"
    )
