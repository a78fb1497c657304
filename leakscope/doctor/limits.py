"""The limits memory can run into here, those that kill and those that only refuse."""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

from ..recorder import proc
from ..recorder.sources import cgroup_memory
from ..units import MiB, format_bytes
from ._check import Check, limited, missing, ok

TITLE = "Limits"
_FIGURES = {True: ("memory.current", "memory.max"), False: ("memory.usage_in_bytes", "memory.limit_in_bytes")}


def checks(root: str) -> Iterator[Check]:
    yield from _cgroup()
    yield _swap(root)
    yield _overcommit(root)
    yield _address_space()
    yield _shared_memory()


def _cgroup() -> Iterator[Check]:
    mount, path = cgroup_memory.find_mount(), proc.cgroup("self")
    if mount is None or path is None:
        yield missing("memory cgroup", "no cgroup file system with a memory controller: its limits cannot be seen")
        return
    version = 2 if mount.is_v2 else 1
    usage, limit = _FIGURES[mount.is_v2]
    folders = {cgroup: cgroup_memory.folder_of(cgroup, mount) for cgroup in cgroup_memory.chain(path, mount.top)}
    counted = [cgroup for cgroup, folder in folders.items() if proc.read_text(f"{folder}/{usage}") is not None]
    if not counted:
        text = f"version {version}, but nothing counts the memory of {path}"
        remedy = "run it in one of its own: systemd-run --user --scope leakscope record ..." if mount.is_v2 else None
        yield limited("memory cgroup", text, remedy)
        return
    yield ok("memory cgroup", f"version {version}, {counted[0]} and {len(counted) - 1} above it count memory")
    figures = {cgroup: proc.read_text(f"{folders[cgroup]}/{limit}") or "" for cgroup in counted}
    limits = {c: int(t) for c, t in figures.items() if t.isdigit() and int(t) < cgroup_memory.NO_LIMIT_BYTES}
    beyond = "" if mount.top == "/" else f"; what lies above {mount.top} cannot be seen from here"
    if not limits:
        yield ok("its limit", f"none: memory ends where the machine's does{beyond}")
    else:
        nearest = min(limits, key=lambda cgroup: limits[cgroup])
        yield ok("its limit", f"{format_bytes(limits[nearest])} of {nearest}{beyond}")


def _swap(root: str) -> Check:
    total = proc.bytes_of(proc.read(f"{root}/proc/meminfo") or b"", b"SwapTotal")
    if total:
        return ok("swap", f"{format_bytes(total)}: a leak may sit there, and is counted; the machine gets slow first")
    return ok("swap", "none: the kernel kills as soon as memory is full")


def _overcommit(root: str) -> Check:
    if proc.read_text(f"{root}/proc/sys/vm/overcommit_memory") != "2":
        return ok("overcommit", "allocations are granted, and memory that is used up ends in a kill")
    meminfo = proc.read(f"{root}/proc/meminfo") or b""
    promised, limit = (proc.bytes_of(meminfo, name) or 0 for name in (b"Committed_AS", b"CommitLimit"))
    text = (
        "vm.overcommit_memory is 2: memory ends in a MemoryError, without a kill, when "
        f"{format_bytes(limit)} are promised ({format_bytes(promised)} are)"
    )
    return limited("overcommit", text, "sudo sysctl vm.overcommit_memory=0")


def _address_space() -> Check:
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft == resource.RLIM_INFINITY:
        return ok("address space", "not limited (ulimit -v)")
    text = f"limited to {format_bytes(soft)} a process (ulimit -v): memory ends in a MemoryError, without a kill"
    return limited("address space", text, "ulimit -v unlimited")


def _shared_memory(folder: str = "/dev/shm", least_bytes: int = 1024 * MiB) -> Check:
    """``least_bytes``: containers get 64 MiB by default, and every batch of every loader worker lies there."""
    try:
        figures = os.statvfs(folder)
    except OSError:
        return missing(folder, "there is none: DataLoader workers cannot hand over batches", "docker run --ipc=host")
    size, free = figures.f_blocks * figures.f_frsize, figures.f_bavail * figures.f_frsize
    text = f"{format_bytes(size)}, {format_bytes(free)} free"
    if free >= least_bytes:
        return ok(folder, text)
    what = "a batch that does not fit ends a DataLoader worker by SIGBUS"
    remedy = (
        f"remove what is left in {folder}" if size >= 2 * least_bytes else "docker run --shm-size=8g, or --ipc=host"
    )
    return limited(folder, f"{text}: {what}", remedy)
