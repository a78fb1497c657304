"""Limits that are no cgroup's and not the machine's: RLIMIT_AS, RLIMIT_DATA, /dev/shm. Runs in the recorder.

An allocation over an rlimit fails inside the process; a full /dev/shm ends a loader worker with a bus error. The
kernel kills nobody and logs nothing.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import NamedTuple
from weakref import WeakKeyDictionary

from .. import proc
from ..tree import Process, Row, Tree

TABLE = "limit_samples"
PERIOD_S = 1.0
RECHECK_S = 60.0  # a program may set its own, and does so early
SETTLED_S = 10.0
SHARED_MEMORY = "/dev/shm"
# (name, line of /proc/PID/limits, the line of /proc/PID/status it limits)
_RLIMITS = (("rlimit-as", b"Max address space", b"VmSize"), ("rlimit-data", b"Max data size", b"VmData"))


class _Known(NamedTuple):
    """Soft limits of a process that has any, and until when they are believed."""

    limits: dict[str, int]
    until_s: float


_known: WeakKeyDictionary[Process, _Known] = WeakKeyDictionary()


def rows(tree: Tree) -> Iterator[Row]:
    """One row a limit. **Cost** 10 us a process, once a minute where it has no limit."""
    for process in tree:
        known = _known.get(process)
        if known is None or tree.now_s >= known.until_s:
            young = tree.now_s < process.born_s + SETTLED_S
            known = _known[process] = _Known(_soft_limits(process.pid), tree.now_s + (PERIOD_S if young else RECHECK_S))
        if not known.limits:
            continue
        status = proc.read(f"/proc/{process.pid}/status") or b""
        for name, _, line in _RLIMITS:
            used_bytes = proc.bytes_of(status, line)
            if name in known.limits and used_bytes is not None:
                who = {"pid": process.pid, "start_ticks": process.stat.start_ticks}
                yield {**who, "limit_name": name, "used_bytes": used_bytes, "limit_bytes": known.limits[name]}
    yield from _shared_memory()


def _soft_limits(pid: int) -> dict[str, int]:
    found = {}
    for line in (proc.read(f"/proc/{pid}/limits") or b"").splitlines():
        for name, title, _ in _RLIMITS:
            soft = line[len(title) :].split()[:1] if line.startswith(title) else []
            if soft and soft[0].isdigit():  # else "unlimited"
                found[name] = int(soft[0])
    return found


def _shared_memory() -> Iterator[Row]:
    """Where it is a file system of its own with a size: in a folder of the root, its figures are the disk's."""
    try:
        if not os.path.ismount(SHARED_MEMORY):
            return
        status = os.statvfs(SHARED_MEMORY)
    except OSError:
        return
    if status.f_blocks:  # 0: mounted without a size
        used_bytes = (status.f_blocks - status.f_bfree) * status.f_frsize
        yield {"limit_name": "dev-shm", "used_bytes": used_bytes, "limit_bytes": status.f_blocks * status.f_frsize}
