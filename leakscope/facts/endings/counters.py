"""What the kernel counted: OOM kills of the machine and of single cgroups, and how near memory was to their limits.

The counters need no rights and are there in a container. One that stood still is the cheapest proof that the OOM
killer did nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...storage import Recording, Rows
from ...units import ENDS_S
from ..growth.limits import MACHINE, Limit, limits
from ..tables import only, series


@dataclass(frozen=True, eq=False)
class Counter:
    """OOM kills counted for ``name`` between the first and the last look.

    ``hit_count``: how often its own limit was found to be hit (cgroup v2 only, else None). ``limit``: None where nobody
    read it.
    """

    name: str
    first: int | None
    last: int | None
    hit_count: int | None
    limit: Limit | None

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
    def limit_bytes(self) -> int | None:
        return int(self.limit.limit_bytes[-1]) if self.limit is not None else None

    @property
    def used_bytes(self) -> int | None:
        """The most of the last looks: what a process that was killed held is free again at the very end."""
        one = self.limit
        return int(one.used_bytes[one.time_s >= one.time_s[-1] - ENDS_S].max()) if one is not None else None

    @property
    def used_fraction(self) -> float | None:
        return self.used_bytes / self.limit_bytes if self.used_bytes is not None and self.limit_bytes else None


def of_host(recording: Recording) -> Counter:
    return _counter(recording, MACHINE, recording.rows["host_samples"])


def of_cgroup(recording: Recording, cgroup: str) -> Counter:
    rows = recording.rows["cgroup_samples"]
    return _counter(recording, f"cgroup {cgroup}", only(rows, rows["cgroup"] == cgroup), "oom_count")


def above(recording: Recording, cgroup: str | None) -> list[Counter]:
    """The cgroup and those above it that were looked at, the innermost first."""
    if cgroup is None:
        return []
    known = recording.rows["cgroup_samples"]["cgroup"].dropna().unique()
    chain = [str(c) for c in known if c == cgroup or c == "/" or cgroup.startswith(f"{c}/")]
    return [of_cgroup(recording, c) for c in sorted(chain, key=len, reverse=True)]


def nearest(recording: Recording, cgroup: str | None) -> Counter | None:
    """Of the limits that hold for a cgroup, the one that memory came nearest to."""
    known = [one for one in (*above(recording, cgroup), of_host(recording)) if one.limit is not None]
    return max(known, key=lambda one: one.used_fraction or 0.0, default=None)


def _counter(recording: Recording, name: str, rows: Rows, hits: str | None = None) -> Counter:
    """``hits``: a column of the rows."""
    kills, hit = (series(rows, column)[1] if column else np.empty(0) for column in ("oom_kill_count", hits))
    return Counter(
        name=name,
        first=int(kills[0]) if len(kills) else None,
        last=int(kills[-1]) if len(kills) else None,
        hit_count=max(0, int(hit[-1]) - int(hit[0])) if len(hit) else None,
        limit=next((one for one in limits(recording) if one.name == name), None),
    )
