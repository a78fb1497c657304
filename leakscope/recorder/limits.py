"""How near memory is to the limits that kill: the cgroups of the job and the machine. Runs in the recorder.

Page cache does not count as used: the kernel takes it back before it kills.
"""

from __future__ import annotations

from typing import NamedTuple

from .tree import Row

LEVELS = (0.85, 0.95)
HYSTERESIS_FRACTION = 0.05  # a level is announced again only after use fell this much below it


class Limit(NamedTuple):
    """One limit at one instant."""

    name: str
    used_bytes: int
    limit_bytes: int

    @property
    def room_bytes(self) -> int:
        return self.limit_bytes - self.used_bytes

    @property
    def used_fraction(self) -> float:
        return self.used_bytes / self.limit_bytes


class Alarm(NamedTuple):
    """Something to record as an event: ``pressure`` or ``oom-kill-counter``."""

    event: str
    text: str
    value: float


class Limits:
    """Looks at rows of ``host_samples`` and ``cgroup_samples`` and says when a level is passed or the kernel killed."""

    def __init__(self) -> None:
        self.nearest: Limit | None = None
        self.host_available_bytes: int | None = None
        self.kill_count = 0
        self._reached: dict[str, float] = {}
        self._kills: dict[str, int] = {}

    def look_at(self, host: list[Row], cgroups: list[Row]) -> list[Alarm]:
        """Alarms that these rows of one instant give."""
        alarms = []
        for row in (*host, *cgroups):
            alarms += self._look_for_kills(_name(row), row.get("oom_kill_count"))
        if host:
            self.host_available_bytes = host[0]["mem_available_bytes"]
        limits = [limit for row in (*host, *cgroups) if (limit := _limit(row)) is not None]
        if limits:
            self.nearest = min(limits, key=lambda limit: limit.room_bytes)
        for limit in limits:
            alarms += self._look_for_pressure(limit)
        return alarms

    def _look_for_kills(self, name: str, count: int | None) -> list[Alarm]:
        if count is None:
            return []
        new = count - self._kills.setdefault(name, count)
        self._kills[name] = count
        if new <= 0:
            return []
        self.kill_count = max(self.kill_count, new)
        return [Alarm("oom-kill-counter", f"the kernel's OOM killer ended {new} process(es): {name}", float(new))]

    def _look_for_pressure(self, limit: Limit) -> list[Alarm]:
        known = self._reached.get(limit.name, 0.0)
        reached = max((level for level in LEVELS if limit.used_fraction >= level), default=0.0)
        if reached > known:
            self._reached[limit.name] = reached
            text = f"memory under pressure: {limit.used_fraction:.0%} of the limit is used, {limit.name}"
            return [Alarm("pressure", text, limit.used_fraction)]
        if limit.used_fraction < known - HYSTERESIS_FRACTION:
            self._reached[limit.name] = reached
        return []


def _name(row: Row) -> str:
    return f"cgroup {row['cgroup']}" if "cgroup" in row else "host"


def _limit(row: Row) -> Limit | None:
    if "cgroup" not in row:
        total, available = row["mem_total_bytes"], row["mem_available_bytes"]
        return Limit("host", total - available, total) if total and available is not None else None
    if not row["limit_bytes"]:
        return None
    cache_bytes = max(0, (row["cgroup_file_bytes"] or 0) - (row["cgroup_shmem_bytes"] or 0))
    return Limit(_name(row), max(0, row["current_bytes"] - cache_bytes), row["limit_bytes"])
