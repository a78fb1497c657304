"""Readers of /proc, by hand: 5 us a file where psutil takes 100, and nothing to install. Runs in the recorder.

Every reader returns None for a process that is gone or that may not be read: both are normal at any instant.
"""

from __future__ import annotations

import os
from typing import NamedTuple

_HAS_PROC = hasattr(os, "sysconf")  # Windows, where recordings are read alone, has neither
TICKS_PER_S = os.sysconf("SC_CLK_TCK") if _HAS_PROC else 100
PAGE_BYTES = os.sysconf("SC_PAGE_SIZE") if _HAS_PROC else 4096
_READ_BYTES = 65536
_MOST_FIGURE = 32  # bytes of a line's figure, and the blanks before it


class Stat(NamedTuple):
    """The fields of /proc/PID/stat that are of use here (proc_pid_stat(5))."""

    comm: str
    state: str
    ppid: int
    cpu_s: float
    thread_count: int
    start_ticks: int

    @property
    def is_dead(self) -> bool:
        """Gone but for its exit status: a zombie holds no memory."""
        return self.state in "ZXx"


def read(path: str) -> bytes | None:
    """The whole of a small file."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        parts = []
        while part := os.read(descriptor, _READ_BYTES):  # the kernel hands out long files page by page
            parts.append(part)
        return b"".join(parts)
    except OSError:
        return None
    finally:
        os.close(descriptor)


def read_text(path: str) -> str | None:
    """The whole of a small file as text, without surrounding white space."""
    data = read(path)
    return None if data is None else data.decode("utf-8", "replace").strip()


def stat(pid: int) -> Stat | None:
    data = read(f"/proc/{pid}/stat")
    if not data:
        return None
    end = data.rfind(b")")  # the name may hold spaces and parentheses
    fields = data[end + 2 :].split()
    return Stat(
        comm=data[data.find(b"(") + 1 : end].decode("utf-8", "replace"),
        state=fields[0].decode(),
        ppid=int(fields[1]),
        cpu_s=(int(fields[11]) + int(fields[12])) / TICKS_PER_S,
        thread_count=int(fields[17]),
        start_ticks=int(fields[19]),
    )


def run_delay_s(pid: int) -> float | None:
    """How long the first thread was ready to run and waited for a core, so far; None where the kernel does not count.

    **Source** the second field of /proc/PID/schedstat (Documentation/scheduler/sched-stats.rst), of that thread alone.
    """
    fields = (read(f"/proc/{pid}/schedstat") or b"").split()
    return int(fields[1]) / 1e9 if len(fields) == 3 else None


def bytes_of(data: bytes, name: bytes) -> int | None:
    """The figure of a line such as ``RssAnon:  1234 kB``, in bytes."""
    start = _behind(data, name + b":")
    return None if start is None else int(data[start : start + _MOST_FIGURE].split(None, 1)[0]) * 1024


def text_of(data: bytes, name: bytes) -> str | None:
    """The rest of the line that begins with ``name`` and a colon."""
    start = _behind(data, name + b":")
    return None if start is None else data[start:].partition(b"\n")[0].decode("utf-8", "replace").strip()


def count_of(data: bytes | None, name: bytes) -> int | None:
    """The figure of a line such as ``oom_kill 3``."""
    start = _behind(data or b"", name + b" ")
    return None if start is None or data is None else int(data[start:].partition(b"\n")[0])


def _behind(data: bytes, head: bytes) -> int | None:
    """Where the rest of the line begins that begins with ``head``."""
    if data.startswith(head):
        return len(head)
    found = data.find(b"\n" + head)
    return None if found < 0 else found + 1 + len(head)


def pressure(path: str) -> tuple[float | None, float | None]:
    """``avg10`` of the lines ``some`` and ``full`` of a pressure-stall file, in percent; None where there is none."""
    data = read_text(path) or ""
    found: dict[str, float] = {}
    for line in data.splitlines():
        words = line.split()
        if len(words) > 1 and words[1].startswith("avg10="):
            found[words[0]] = float(words[1][6:])
    return found.get("some"), found.get("full")


def command_line(pid: int) -> list[str] | None:
    """The arguments; empty for a zombie."""
    data = read(f"/proc/{pid}/cmdline")
    if data is None:
        return None
    return [part.decode("utf-8", "replace") for part in data.rstrip(b"\0").split(b"\0")] if data else []


def executable(pid: int) -> str | None:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return None


def environment_value(pid: int, name: str) -> str | None:
    """A variable as the process was started with it."""
    prefix = name.encode() + b"="
    for entry in (read(f"/proc/{pid}/environ") or b"").split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode("utf-8", "replace")
    return None


def cgroup(pid: int | str) -> str | None:
    """The cgroup that counts the memory of a process: of the memory controller of v1 where there is one, else of v2."""
    unified = None
    for line in (read_text(f"/proc/{pid}/cgroup") or "").splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return path
        if not controllers:
            unified = path
    return unified


def pids() -> list[int]:
    """Every process that can be seen."""
    return [int(name) for name in os.listdir("/proc") if name.isdigit()]


def last_pid() -> int | None:
    """The pid given out last in this pid namespace: unchanged means no new process and no new thread. **Cost** 3 us."""
    data = read("/proc/loadavg")
    return int(data.rsplit(None, 1)[1]) if data else None
