"""How a process ended although another one is its parent and reaps it: a worker that was killed, a job looked at.

Runs in the recorder. A pidfd outlives the process: from Linux 6.15 on it tells the exit status also of one that was
reaped. Before that only a zombie tells, by /proc/PID/stat, and most are reaped between two looks: then nobody knows.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Collection
from contextlib import suppress

from . import proc

MOST = 256  # descriptors; of a larger tree the oldest processes are watched, which are those that matter
_SHARE_OF_LIMIT = 4  # of the open files that are allowed, so many times more stay for the recorder's own
_SYS_PIDFD_OPEN = 434  # on every architecture
# linux/pidfd.h; where the ioctl has another number (POWER, MIPS, SPARC) it fails, and the status is not known.
_PIDFD_GET_INFO = 0xC040FF0B  # _IOWR(0xFF, 11, 64 bytes)
_PIDFD_INFO_EXIT = 1 << 3
_INFO = struct.Struct("=QQ11Ii")  # mask, cgroup id, three pids, eight user and group ids, wait status
_STAT_EXIT_CODE = 52 - 3  # field 52 of proc_pid_stat(5), counted from the state


class Exits:
    """Processes of others that are watched: ``watch`` while they live, ``status`` when they are gone."""

    def __init__(self) -> None:
        self._descriptors: dict[int, int] = {}
        self._most = _allowed()

    def __del__(self) -> None:
        self.keep(())

    def watch(self, pid: int) -> None:
        """Remember a living process, if there is room. **Cost** 3 us, one descriptor."""
        if len(self._descriptors) < self._most and (descriptor := _pidfd_open(pid)) is not None:
            self._descriptors[pid] = descriptor

    def status(self, pid: int) -> tuple[int | None, int | None]:
        """(exit code, signal) of a process that has ended; forgets it. Both None: unclear."""
        descriptor = self._descriptors.pop(pid, None)
        wait_status = None
        if descriptor is not None:
            wait_status = _reaped_status(descriptor)
            os.close(descriptor)
        if wait_status is None:
            wait_status = zombie_status(pid)
        if wait_status is None:
            return None, None
        code = os.waitstatus_to_exitcode(wait_status)
        return (code, None) if code >= 0 else (None, -code)

    def keep(self, pids: Collection[int]) -> None:
        """Forget all processes but these."""
        for pid in [pid for pid in self._descriptors if pid not in pids]:
            os.close(self._descriptors.pop(pid))


def _allowed() -> int:
    import resource

    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else min(MOST, soft // _SHARE_OF_LIMIT)


def _pidfd_open(pid: int) -> int | None:
    """pidfd_open(2), which Pythons that were built against old headers (conda's) do not know."""
    if hasattr(os, "pidfd_open"):
        with suppress(OSError):
            return os.pidfd_open(pid)
        return None
    with suppress(ImportError, OSError, AttributeError):
        import ctypes

        descriptor = int(ctypes.CDLL(None).syscall(_SYS_PIDFD_OPEN, pid, 0))
        return descriptor if descriptor >= 0 else None
    return None


def _reaped_status(descriptor: int) -> int | None:
    """The wait status of a process that was reaped; None while it is not, and before Linux 6.15."""
    import fcntl

    buffer = bytearray(_INFO.size)
    struct.pack_into("=Q", buffer, 0, _PIDFD_INFO_EXIT)
    try:
        fcntl.ioctl(descriptor, _PIDFD_GET_INFO, buffer)
    except OSError:
        return None
    mask, *_, wait_status = _INFO.unpack(buffer)
    return int(wait_status) if mask & _PIDFD_INFO_EXIT else None


def zombie_status(pid: int) -> int | None:
    """The wait status of one that nobody has reaped yet. Of strangers the kernel says 0, which then means nothing."""
    fields = (proc.read(f"/proc/{pid}/stat") or b"").rpartition(b") ")[2].split()
    if len(fields) <= _STAT_EXIT_CODE or fields[0] != b"Z":
        return None
    status = int(fields[_STAT_EXIT_CODE])
    return status if status or _is_ours(pid) else None


def _is_ours(pid: int) -> bool:
    with suppress(OSError):
        return os.geteuid() in (0, os.stat(f"/proc/{pid}").st_uid)
    return False
