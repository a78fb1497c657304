"""What ``gc.freeze()`` hides: how many objects, read seldom enough. Runs in the job.

Frozen objects are in no list that Python shows, and no collection frees their cycles. Nobody here unfreezes them, not
even at the end: the job's next collection would copy the pages that its forks share, and run finalizers that never run
without us.
"""

from __future__ import annotations

import gc
from time import monotonic

from . import doors

COST_FACTOR = 1000  # the next reading is not before 1000 times what the last has cost: 0.1 %
FROZEN_S = 10e-9  # an object at most: a pause in which nobody else runs, and each is a block at least


class FrozenCount:
    """``gc.get_freeze_count()`` follows a list from object to object: 8 ms a million, for which the job waits."""

    def __init__(self) -> None:
        self._due_at = 0.0
        self.longest_s = 0.2  # of one reading

    def read_if_due(self) -> int | None:
        """None: not read this time. **Cost** 1 us where nothing is frozen."""
        began = monotonic()
        blocks = doors.allocated_blocks()
        if began < self._due_at or blocks is None or blocks * FROZEN_S > self.longest_s:
            return None
        count = gc.get_freeze_count()
        now = monotonic()
        self._due_at = now + COST_FACTOR * (now - began)
        return count
