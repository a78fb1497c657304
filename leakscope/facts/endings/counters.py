"""What the kernel counted: OOM kills of the machine and of single cgroups, and how near memory was to their limits.

The counters need no rights and are there in a container. One that stood still is the cheapest proof that the OOM
killer did nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...units import ENDS_S
from ..series.arithmetic import Floats
from ..tables import figures, only, series

if TYPE_CHECKING:
    import pandas as pd

    from ...storage import Recording

HOST = "the machine"


@dataclass(frozen=True)
class Counter:
    """OOM kills counted for ``name`` between the first and the last look.

    ``hit_count``: how often its own limit was found to be hit (cgroup v2 only, else None). ``limit_bytes`` and
    ``used_bytes`` (without page cache, the most of the last seconds) are None where nobody read them.
    """

    name: str
    first: int | None
    last: int | None
    hit_count: int | None
    limit_bytes: int | None
    used_bytes: int | None

    @property
    def is_known(self) -> bool:
        return self.first is not None and self.last is not None

    @property
    def new_count(self) -> int:
        return max(0, self.last - self.first) if self.first is not None and self.last is not None else 0

    @property
    def stood_still(self) -> bool:
        return self.is_known and self.new_count == 0

    @property
    def used_fraction(self) -> float | None:
        return self.used_bytes / self.limit_bytes if self.used_bytes is not None and self.limit_bytes else None


def of_host(recording: Recording) -> Counter:
    rows = recording.tables["host_samples"]
    used = figures(rows, "mem_total_bytes") - figures(rows, "mem_available_bytes")
    return _counter(HOST, rows, "mem_total_bytes", used, None)


def of_cgroup(recording: Recording, cgroup: str) -> Counter:
    rows = recording.tables["cgroup_samples"]
    rows = only(rows, rows["cgroup"] == cgroup)
    file, shmem = (np.nan_to_num(figures(rows, name)) for name in ("cgroup_file_bytes", "cgroup_shmem_bytes"))
    used = np.maximum(figures(rows, "current_bytes") - np.maximum(file - shmem, 0.0), 0.0)
    return _counter(f"cgroup {cgroup}", rows, "limit_bytes", used, "oom_count")


def above(recording: Recording, cgroup: str | None) -> list[Counter]:
    """The cgroup and those above it that were looked at, the innermost first."""
    if cgroup is None:
        return []
    known = recording.tables["cgroup_samples"]["cgroup"].dropna().unique()
    chain = [str(c) for c in known if c == cgroup or c == "/" or cgroup.startswith(f"{c}/")]
    return [of_cgroup(recording, c) for c in sorted(chain, key=len, reverse=True)]


def nearest(recording: Recording, cgroup: str | None) -> Counter | None:
    """Of the limits that hold for a cgroup, the one that memory came nearest to."""
    limits = [*above(recording, cgroup), of_host(recording)]
    known = [counter for counter in limits if counter.used_fraction is not None]
    return max(known, key=lambda counter: counter.used_fraction or 0.0) if known else None


def _counter(name: str, rows: pd.DataFrame, limit: str, used: Floats, hits: str | None) -> Counter:
    """``limit`` and ``hits`` are columns of the rows, ``used`` has one value a row."""
    kills, limits = (series(rows, column)[1] for column in ("oom_kill_count", limit))
    hit = series(rows, hits)[1] if hits else np.empty(0)
    late = used[rows["time_s"] >= _before_the_end_s(rows)]
    late = late[~np.isnan(late)]
    return Counter(
        name=name,
        first=int(kills[0]) if len(kills) else None,
        last=int(kills[-1]) if len(kills) else None,
        hit_count=max(0, int(hit[-1]) - int(hit[0])) if len(hit) else None,
        limit_bytes=int(limits[-1]) if len(limits) else None,
        used_bytes=int(late.max()) if len(late) else None,
    )


def _before_the_end_s(rows: pd.DataFrame, *, last_s: float = ENDS_S) -> float:
    """The last looks: what a process that was killed held is free again at the very end."""
    return float(rows["time_s"].max()) - last_s if len(rows) else 0.0
