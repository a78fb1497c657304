"""Processes of our own beside the job: whether memory has room for one, and how each ended. Runs in the recorder.

A process too many in a full cgroup is killed by the kernel, and with it, where the group is killed whole (Kubernetes),
the job. So none starts without room under every limit that holds for it, and if the kernel ends one all the same,
that is told as what it is: not a kill of the job's.
"""

from __future__ import annotations

import signal
import time
from collections.abc import Iterable, Iterator
from contextlib import suppress
from typing import NamedTuple

from . import proc
from .exits import zombie_status
from .sources import cgroup_memory, host_memory
from .tree import Row

HOST = "the machine"
# The kernel counts a kill some microseconds before the process has the signal.
_DYING_S, _LOOK_S = 0.05, 0.002


class Room(NamedTuple):
    """What one limit leaves. **Units** bytes; what the kernel would take back without a loss is left."""

    name: str
    left_bytes: int


def too_full(needed_bytes: int, of_machine_bytes: int | None = None) -> Room | None:
    """The limit that leaves less than a process needs which starts now: of a cgroup of the recorder's, or above it.

    ``of_machine_bytes``: what the machine has to have left, if that is more. None: there is room, or unclear.
    **Cost** 0.1 ms for each level of cgroups.
    """
    least = {HOST: of_machine_bytes or needed_bytes}
    short = [room for room in _rooms() if room.left_bytes < least.get(room.name, needed_bytes)]
    return min(short, key=lambda room: room.left_bytes, default=None)


def _rooms() -> Iterator[Room]:
    available_bytes = host_memory.available_bytes()
    if available_bytes is not None:
        yield Room(HOST, available_bytes)
    for path, left_bytes in cgroup_memory.room(proc.cgroup("self")):
        yield Room(f"cgroup {path}", left_bytes)


def goes_first(pid: int) -> None:
    """If memory runs out, the kernel is to take this process and not the job."""
    with suppress(OSError), open(f"/proc/{pid}/oom_score_adj", "w") as stream:
        stream.write("1000")


class Killed(NamedTuple):
    """A helper that somebody ended by SIGKILL, and it was not us."""

    pid: int
    what: str


class Helpers:
    """The helpers of one recording that live, by what each is for, and what the kernel's counters owe to them."""

    def __init__(self) -> None:
        self._living: dict[int, str] = {}
        self._dying: set[int] = set()  # not reaped yet
        self._killed: list[Killed] = []
        self._untold = 0
        self._killed_at_last_look = 0
        self._raw: dict[str, int] = {}
        self._of_helpers: dict[str, int] = {}  # kills of helpers in what that counter shows
        self._settled: dict[str, int] = {}
        self._shown: dict[str, int] = {}

    def __contains__(self, pid: int) -> bool:
        return pid in self._living or pid in self._dying

    def add(self, pid: int, what: str) -> None:
        """``what`` goes on from "leakscope's own process that"."""
        self._living[pid] = what

    def ended(self, pid: int, exit_signal: int | None) -> None:
        """The recorder reaped it."""
        what = self._living.pop(pid, None)
        self._dying.discard(pid)
        if what is not None and exit_signal == signal.SIGKILL:
            self._killed.append(Killed(pid, what))

    def before_stopping(self) -> None:
        """We are about to end some ourselves: those that the kernel has killed by now are not among them."""
        self._find_dying()

    def stopped(self, pid: int) -> None:
        """We ended it ourselves."""
        self._living.pop(pid, None)

    def news(self) -> list[Killed]:
        """Those killed since the last call."""
        told, self._untold = self._untold, len(self._killed)
        return self._killed[told:]

    def leave_out(self, rows: Iterable[Row]) -> None:
        """Take kills of helpers out of the kernel's counts in these rows, which are those of one look."""
        own = proc.cgroup("self")
        counts = [
            row
            for row in rows
            if row.get("oom_kill_count") is not None
            and ("cgroup" not in row or cgroup_memory.counts(row["cgroup"], own))
        ]
        if any(row["oom_kill_count"] > self._raw.get(_name(row), row["oom_kill_count"]) for row in counts):
            self._wait_for_the_dying()
        for row in counts:
            row["oom_kill_count"] = self._without(_name(row), row["oom_kill_count"])
        self._killed_at_last_look = len(self._killed)

    def _without(self, name: str, raw: int) -> int:
        rise = raw - self._raw.get(name, raw)
        owed = len(self._killed) - self._settled.get(name, self._killed_at_last_look)
        of_helpers = min(max(0, rise), owed)
        self._raw[name] = raw
        self._of_helpers[name] = self._of_helpers.get(name, 0) + of_helpers
        # A kill that no counter shows by the second look was not the kernel's: it must not hide another.
        settled = self._settled.get(name, self._killed_at_last_look) + of_helpers
        self._settled[name] = max(settled, self._killed_at_last_look)
        shown = max(self._shown.get(name, 0), raw - self._of_helpers[name])
        self._shown[name] = shown
        return shown

    def _wait_for_the_dying(self) -> None:
        until_s = time.monotonic() + _DYING_S
        while not self._find_dying() and self._living and time.monotonic() < until_s:
            time.sleep(_LOOK_S)

    def _find_dying(self) -> bool:
        """Whether one is dead or dying of SIGKILL and was not known to be."""
        found = [Killed(pid, what) for pid, what in self._living.items() if _is_killed(pid)]
        for killed in found:
            del self._living[killed.pid]
            self._dying.add(killed.pid)
        self._killed += found
        return bool(found)


def _is_killed(pid: int) -> bool:
    """Whether SIGKILL is on its way to a child of ours, or ended it."""
    status = zombie_status(pid)
    if status is not None:
        return status & 0x7F == signal.SIGKILL
    pending = proc.text_of(proc.read(f"/proc/{pid}/status") or b"", b"ShdPnd")
    with suppress(ValueError):
        return bool(int(pending or "0", 16) & 1 << (signal.SIGKILL - 1))
    return False


def _name(row: Row) -> str:
    return f"cgroup {row['cgroup']}" if "cgroup" in row else HOST
