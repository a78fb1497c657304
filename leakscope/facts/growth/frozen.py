"""Objects that gc.freeze() hides from the collector: how many more there are, where it is called again and again.

To freeze once before forking is good practice, and innocent: what is frozen then stays as much. To freeze again and
again moves also what is in use at the moment, and of that the cycles are never freed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...storage import joined
from ...units import FEWEST
from ..heap.accumulation import keeps_growing
from ..tables import narrow, only
from .processes import ProcessGrowth
from .tree import TreeGrowth


class Frozen(NamedTuple):
    """Objects that were frozen at the start and the end of the judged window."""

    first_count: int
    last_count: int

    @property
    def gained_count(self) -> int:
        return self.last_count - self.first_count


def frozen_in(process: ProcessGrowth, growth: TreeGrowth) -> Frozen | None:
    """None unless ever more objects are frozen: a start-up freezes once, or twice."""
    tables = [narrow(process.rows(name), "time_s", "gc_frozen_count") for name in ("sentinels", "takes")]
    rows = joined([table.dropna() for table in tables])
    rows = only(rows, (rows["time_s"] >= growth.start_s - 1) & (rows["time_s"] <= growth.end_s + 1))
    time_s, counts = rows.sort_values("time_s").to_numpy(dtype=np.float64).T
    if (np.diff(counts) > 0).sum() < FEWEST or not keeps_growing(time_s, counts):
        return None
    return Frozen(int(counts[0]), int(counts[-1]))
