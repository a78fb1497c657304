"""Memory of the cgroups of the job and of those above them, since the nearest limit kills. Runs in the recorder.

Version 1 and version 2, also where a container sees only its own part of the hierarchy.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from .. import proc
from ..tree import Row, Tree

TABLE = "cgroup_samples"
_V1_LIMITS = (
    ("memory.limit_in_bytes", "memory.usage_in_bytes"),
    ("memory.memsw.limit_in_bytes", "memory.memsw.usage_in_bytes"),
)
# Above memory.high the kernel slows all of the cgroup down.
_V2_LIMITS = (("memory.max", "memory.current"), ("memory.high", "memory.current"))
_V1_UNUSED, _V2_UNUSED = b"total_inactive_file", b"inactive_file"
NO_LIMIT_BYTES = 1 << 60  # v1 writes "no limit" as the largest multiple of a page


class Mount(NamedTuple):
    """Where the cgroup file system that counts memory is mounted, and which cgroup its top is."""

    folder: str
    top: str
    is_v2: bool


def rows(tree: Tree) -> Iterator[Row]:
    """One row a cgroup that counts memory. **Cost** 100 us each: memory.stat makes the kernel add up its counters."""
    mount = find_mount()
    if mount is None:
        return
    paths = dict.fromkeys(path for cgroup in tree.cgroups for path in chain(cgroup, mount.top))  # in order, each once
    for path in paths:
        row = _row_v2(folder_of(path, mount)) if mount.is_v2 else _row_v1(folder_of(path, mount))
        if row is not None:
            yield {"cgroup": path, **row}


def chain(path: str, top: str) -> list[str]:
    """``/a/b`` and every cgroup above it down to ``top``; what lies outside ``top`` cannot be seen, ``top`` can."""
    found = []
    while path != top and is_below(path, top):
        found.append(path)
        path = path.rpartition("/")[0] or "/"
    return [*found, top]


def is_below(path: str, top: str) -> bool:
    return top == "/" or path == top or path.startswith(top + "/")


def folder_of(path: str, mount: Mount) -> str:
    below = path[len(mount.top) :] if mount.top != "/" else path
    return mount.folder + below.rstrip("/")


def room(own: str | None) -> Iterator[tuple[str, int]]:
    """Of a process in cgroup ``own``: each cgroup that limits it, and how many bytes are left there.

    Page cache that nobody used lately is left: what is in use would be taken from the job, which then reads it again.
    """
    mount = find_mount()
    if mount is None or own is None:
        return
    for path in chain(own, mount.top):
        folder = folder_of(path, mount)
        cached = proc.count_of(proc.read(f"{folder}/memory.stat"), _V2_UNUSED if mount.is_v2 else _V1_UNUSED)
        for limit_name, usage_name in _V2_LIMITS if mount.is_v2 else _V1_LIMITS:
            limit, usage = _figure(f"{folder}/{limit_name}"), _figure(f"{folder}/{usage_name}")
            if limit is not None and usage is not None:
                yield path, limit - usage + (cached or 0)


def counts(path: str, own: str | None) -> bool:
    """Whether the cgroup ``path`` counts a kill in ``own``: version 1 counts it there alone, version 2 also above."""
    mount = find_mount()
    if mount is None or own is None:
        return False
    return path in chain(own, mount.top) if mount.is_v2 else path == own


@lru_cache(maxsize=1)
def find_mount() -> Mount | None:
    """The memory controller of v1 where it is mounted, else v2; None without either."""
    unified = None
    for line in (proc.read_text("/proc/self/mountinfo") or "").splitlines():
        before, _, after = line.partition(" - ")
        fields, kind = before.split(), after.split()
        if not kind or kind[0] not in ("cgroup", "cgroup2"):
            continue
        mount = Mount(folder=fields[4].rstrip("/"), top=fields[3], is_v2=kind[0] == "cgroup2")
        if not mount.is_v2 and "memory" in kind[-1].split(","):
            return mount
        if mount.is_v2:
            unified = mount
    return unified


def _row_v2(folder: str) -> Row | None:
    current = _figure(f"{folder}/memory.current")
    if current is None:
        return None
    stat = proc.read(f"{folder}/memory.stat")
    events = proc.read(f"{folder}/memory.events")
    some, full = proc.pressure(f"{folder}/memory.pressure")
    return {
        "current_bytes": current,
        "limit_bytes": _figure(f"{folder}/memory.max"),
        "high_bytes": _figure(f"{folder}/memory.high"),
        "cgroup_peak_bytes": _figure(f"{folder}/memory.peak"),
        "cgroup_anon_bytes": proc.count_of(stat, b"anon"),
        "cgroup_file_bytes": proc.count_of(stat, b"file"),
        "cgroup_shmem_bytes": proc.count_of(stat, b"shmem"),
        "oom_kill_count": proc.count_of(events, b"oom_kill"),
        "oom_count": proc.count_of(events, b"oom"),
        "psi_some_avg10": some,
        "psi_full_avg10": full,
    }


def _row_v1(folder: str) -> Row | None:
    current = _figure(f"{folder}/memory.usage_in_bytes")
    if current is None:
        return None
    stat = proc.read(f"{folder}/memory.stat")
    return {
        "current_bytes": current,
        "limit_bytes": _figure(f"{folder}/memory.limit_in_bytes"),
        "high_bytes": None,
        "cgroup_peak_bytes": _figure(f"{folder}/memory.max_usage_in_bytes"),
        "cgroup_anon_bytes": proc.count_of(stat, b"total_rss"),
        "cgroup_file_bytes": proc.count_of(stat, b"total_cache"),
        "cgroup_shmem_bytes": proc.count_of(stat, b"total_shmem"),
        "oom_kill_count": proc.count_of(proc.read(f"{folder}/memory.oom_control"), b"oom_kill"),
        "oom_count": None,
        "psi_some_avg10": None,
        "psi_full_avg10": None,
    }


def _figure(path: str) -> int | None:
    """A file of one number; None for ``max``, for "no limit" and where there is none."""
    text = proc.read_text(path)
    if not text or not text.isdigit() or int(text) >= NO_LIMIT_BYTES:
        return None
    return int(text)
