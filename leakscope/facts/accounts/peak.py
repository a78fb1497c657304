"""The most memory that the job held: as the samples show it, or more, where the kernel remembers more."""

from __future__ import annotations

import re

from ...findings import Peak
from ...storage import Recording
from ..growth.processes import BETWEEN, recorded_peak
from ..growth.tree import TreeGrowth
from ..tables import only

_NO_SAMPLE = re.compile(rf"\((?:by (?P<process>.*), )?{BETWEEN}(?:, after (?P<since_s>[\d.]+) s)?\)$")


def peak(recording: Recording, growth: TreeGrowth) -> Peak | None:
    """None for a recording without samples. **Units** bytes.

    Of the samples it is the largest sum of one moment. The recorder told a sum as it ran, with each process's share of
    pages as it had last read it: that counts where there are no samples, and for what came and went between two.
    """
    held = growth.held_bytes
    sampled = int(held.max()) if held.size else 0
    size_bytes, text = recorded_peak(recording)
    cgroup_bytes = _of_cgroup(recording)
    told = _NO_SAMPLE.search(text)
    if told is not None and size_bytes > sampled:
        since_s = float(told["since_s"]) if told["since_s"] is not None else None
        return Peak(size_bytes, told["process"], True, cgroup_bytes, since_s)
    size_bytes = sampled or size_bytes
    return Peak(size_bytes, cgroup_bytes=cgroup_bytes) if size_bytes else None


def _of_cgroup(recording: Recording) -> int | None:
    """Of the nearest cgroup with a limit, if the peak was reached during the recording."""
    rows = recording.tables["cgroup_samples"]
    rows = only(rows, rows["limit_bytes"].notna() & rows["cgroup_peak_bytes"].notna())
    if not len(rows):
        return None
    own = only(rows, rows["cgroup"] == rows["cgroup"].iloc[0])["cgroup_peak_bytes"]
    return int(own.iloc[-1]) if own.iloc[-1] > own.iloc[0] else None
