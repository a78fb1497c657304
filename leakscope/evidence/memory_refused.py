"""Why an allocation was refused to a process that nobody killed: its own limit, the machine's, or a full /dev/shm."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, NamedTuple

from ..facts.code.adding import find_calls
from ..facts.endings.counters import of_host
from ..facts.tables import int_of, only
from ..findings import Evidence
from ..units import SIZES, format_bytes

if TYPE_CHECKING:
    import pandas as pd

    from ..facts.case import Case

_REQUEST = re.compile(
    r"Unable to allocate ([\d.]+) ([KMGTP]iB|bytes|B)\b|tried to allocate (\d+) bytes|malloc of size (\d+) failed"
    r"|unable to mmap (\d+) bytes"
)
_LIMITS = {
    "rlimit-as": ("address space", "ulimit -v", "raise the limit: ulimit -v unlimited, or in the job's own script"),
    "rlimit-data": ("data segment", "ulimit -d", "raise the limit: ulimit -d unlimited, or in the job's own script"),
}


class Use(NamedTuple):
    """How far a limit was used at most, as far as it was looked at. **Units** bytes."""

    name: str
    used_bytes: int
    limit_bytes: int

    @property
    def room_bytes(self) -> int:
        return self.limit_bytes - self.used_bytes

    @property
    def text(self) -> str:
        return f"{format_bytes(self.used_bytes)} of {format_bytes(self.limit_bytes)}"


class Refusal(NamedTuple):
    """What refused the memory; ``by`` None: the recording does not tell, and ``doubts`` say what would."""

    by: str | None
    evidence: list[Evidence]
    doubts: list[str]
    remedy: list[str]


def requested_bytes(text: str) -> int | None:
    """How much was asked for, where the message says."""
    found = _REQUEST.search(text)
    if found is None:
        return None
    if found.group(1):
        return round(float(found.group(1)) * SIZES[found.group(2)])
    return int(next(part for part in found.groups()[2:] if part))


def refusal(case: Case, pid: int, start_ticks: int, requested: int | None, near_fraction: float) -> Refusal:
    """Of a process that got an error instead of memory."""
    evidence = [] if requested is None else [Evidence(f"it asked for {format_bytes(requested)} at once")]
    uses = [use for name in _LIMITS if (use := _most(case, name, pid, start_ticks)) is not None]
    for use in uses:
        what, command, remedy = _LIMITS[use.name]
        figures = {"used_bytes": use.used_bytes, "limit_bytes": use.limit_bytes}
        evidence.append(Evidence(f"its {what} is limited ({command}): {use.text} at most", figures))
        too_much = requested is not None and requested > use.room_bytes
        if too_much or use.used_bytes >= near_fraction * use.limit_bytes:
            by = f"its {what} is limited to {format_bytes(use.limit_bytes)} ({command})"
            return Refusal(by, evidence, [], [_set_by_program(case) or remedy])
    total, used = (host := of_host(case.recording)).limit_bytes, host.used_bytes
    if total is not None and used is not None:
        figures = {"available_bytes": total - used, "total_bytes": total}
        evidence.append(Evidence(f"the machine had {format_bytes(total - used)} available at the end", figures))
    if total is not None and requested is not None and requested > total:
        return Refusal(f"the machine has {format_bytes(total)}", evidence, [], [])
    if uses:
        return Refusal(None, evidence, ["between two readings it may have asked for more than its limit allows"], [])
    doubt = "no limit of this process was seen: ulimit -v, and /proc/sys/vm/overcommit_memory, show what refused it"
    return Refusal(None, evidence, [doubt], [])


def _set_by_program(case: Case) -> str | None:
    for line in find_calls(case.sources, "resource.setrlimit"):
        return f"the program sets such a limit itself, at {line.place}: raise it there, if what grew is meant to"
    return None


def shared_memory_use(case: Case) -> Use | None:
    """The fullest that /dev/shm was seen: a process that dies of it gives its part back."""
    rows = case.rows("limit_samples")
    rows = only(rows, (rows["limit_name"] == "dev-shm") & rows["used_bytes"].notna())
    return _use("dev-shm", rows.sort_values("used_bytes").iloc[-1]) if len(rows) else None


def _most(case: Case, name: str, pid: int, start_ticks: int) -> Use | None:
    """At its fullest: what it was refused for an exception lets go of on its way out, before the last reading."""
    rows = case.rows("limit_samples")
    rows = only(rows, (rows["limit_name"] == name) & (rows["pid"] == pid) & (rows["start_ticks"] == start_ticks))
    rows = only(rows, rows["used_bytes"].notna())
    return _use(name, rows.sort_values("used_bytes", kind="stable").iloc[-1]) if len(rows) else None


def _use(name: str, row: pd.Series[Any]) -> Use | None:
    used, limit = int_of(row, "used_bytes"), int_of(row, "limit_bytes")
    return None if used is None or not limit else Use(name, used, limit)
