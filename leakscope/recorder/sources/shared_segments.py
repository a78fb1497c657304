"""Shared memory that may outlive its users: /dev/shm, deleted files that are still mapped, System V.

Runs in the recorder. A segment nobody maps is in no process's memory: only the machine and the cgroup run full. What
lay in /dev/shm before the recording and is mapped by no process of the tree is somebody else's and left out.
"""

from __future__ import annotations

import os
import re
from collections import defaultdict
from collections.abc import Iterator
from time import process_time
from weakref import WeakKeyDictionary

from .. import proc
from ..tree import Row, Tree

TABLE = "shared_segments"
PERIOD_S = 2.0
COST_FACTOR = 200  # half a percent of a core: the maps of a process with torch take 4 ms
FOLDER = "/dev/shm"
SYSTEM_V = "/proc/sysvipc/shm"
MOST_SEGMENTS = 20_000  # listed; more are as good as a pile
# The part of a name that does not change: up to the first digit, or up to a separator before a random rest.
_FIXED = re.compile(r"[A-Za-z]+(?:[._-][A-Za-z]+(?=[._-]))*[._-]?")
_TORCH = re.compile(r"torch_(\d+)_")  # its second part is the pid of the process that made it
_DELETED = b" (deleted)"
_REMOVED = 0o1000  # SHM_DEST: gone when the last process detaches
_SYSTEM_V_MAP = b" /SYSV"

Name = tuple[str, str]  # kind and pattern


class _Group:
    """Segments of one kind and pattern."""

    def __init__(self) -> None:
        self.count = 0
        self.bytes = 0
        self.unmapped_bytes = 0
        self.pids: set[int] = set()


class _Known:
    """What was seen in earlier looks at a tree."""

    def __init__(self) -> None:
        self.foreign: set[tuple[str, int]] | None = None  # (name, inode) that were there before the job
        self.pids: set[int] = set()  # of the tree, ever
        self.groups: dict[Name, tuple[object, ...]] = {}
        self.seen: object = None  # /dev/shm and shared memory of the tree as they were when maps were read
        self.mapped: dict[str, set[int]] = {}  # name to pids
        self.deleted: dict[str, tuple[int, set[int]]] = {}  # name to (bytes, pids)
        self.attached: dict[int, set[int]] = {}  # number of a System V segment to pids
        self.next_s = 0.0


_known: WeakKeyDictionary[Tree, _Known] = WeakKeyDictionary()


def rows(tree: Tree) -> Iterator[Row]:
    """One row a kind and pattern, where something changed. **Cost** 3 us a segment, and maps of the tree at times."""
    known = _known.setdefault(tree, _Known())
    if tree.now_s < known.next_s:
        return
    before = process_time()
    for process in tree:
        known.pids.update((process.pid, process.ns_pid or process.pid))
    groups = _look(tree, known)
    for name in known.groups.keys() - groups.keys():
        groups[name] = _Group()  # gone: that is a change too
    for (kind, pattern), group in groups.items():
        figures = group.count, group.bytes, group.unmapped_bytes, ",".join(map(str, sorted(group.pids)))
        if known.groups.get((kind, pattern)) != figures:
            known.groups[kind, pattern] = figures
            yield {
                "segment_kind": kind,
                "segment_name": pattern,
                "segment_count": group.count,
                "segment_bytes": group.bytes,
                "unmapped_bytes": group.unmapped_bytes,
                "mapped_by": figures[-1],
            }
    known.next_s = tree.now_s + COST_FACTOR * (process_time() - before)


def pattern_of(name: str) -> str:
    """``psm_*`` for psm_1a2b3c4d, ``torch_*`` for torch_4242_7_0, ``sem.mp-*`` for sem.mp-x7kq2."""
    fixed = _FIXED.match(name)
    if fixed is None:
        return "*"
    return name if fixed.end() == len(name) else fixed[0] + "*"


def _look(tree: Tree, known: _Known) -> dict[Name, _Group]:
    found = _listing()
    if known.foreign is None:
        known.foreign = {(name, inode) for name, inode, _ in found}
    seen = found, {process.pid: _shared_bytes(process.pid) for process in tree}
    if seen != known.seen:
        known.seen = seen
        _read_maps(tree, known)
    groups: dict[Name, _Group] = defaultdict(_Group)
    for name, inode, size in found:
        pids = known.mapped.get(name, set())
        if pids or ((name, inode) not in known.foreign and not _is_anothers(name, known.pids)):
            _add(groups["dev-shm", pattern_of(name)], size, pids)
    for name, (size, pids) in known.deleted.items():
        _add(groups["deleted", pattern_of(name)], size, pids)
    for kind, number, creator, size in _system_v():
        pids = known.attached.get(number, set())
        if pids or creator in known.pids:
            _add(groups[kind, f"made by {creator}"], size, pids)
    return dict(groups)


def _add(group: _Group, size: int, pids: set[int]) -> None:
    group.count += 1
    group.bytes += size
    group.unmapped_bytes += 0 if pids else size
    group.pids |= pids


def _is_anothers(name: str, pids: set[int]) -> bool:
    maker = _TORCH.match(name)
    return maker is not None and int(maker[1]) not in pids


def _listing() -> list[tuple[str, int, int]]:
    """(name, inode, bytes) of the user's own files in /dev/shm."""
    found: list[tuple[str, int, int]] = []
    try:
        with os.scandir(FOLDER) as entries:
            for entry in entries:
                try:
                    stat = entry.stat(follow_symlinks=False)
                except OSError:  # gone meanwhile
                    continue
                if stat.st_uid == os.geteuid() and len(found) < MOST_SEGMENTS:
                    found.append((entry.name, stat.st_ino, stat.st_blocks * 512))
    except OSError:  # a container without /dev/shm
        return []
    return sorted(found)


def _shared_bytes(pid: int) -> int | None:
    return proc.bytes_of(proc.read(f"/proc/{pid}/status") or b"", b"RssShmem")


def _read_maps(tree: Tree, known: _Known) -> None:
    known.mapped, known.deleted, known.attached = {}, {}, {}
    prefix = FOLDER.encode() + b"/"
    for process in tree:
        for line in (proc.read(f"/proc/{process.pid}/maps") or b"").splitlines():
            before, found, name = line.partition(prefix)
            if not found:
                if _SYSTEM_V_MAP in line:  # its number is where others have their inode
                    known.attached.setdefault(int(line.split(None, 5)[4]), set()).add(process.pid)
                continue
            if not name.endswith(_DELETED):
                known.mapped.setdefault(name.decode("utf-8", "replace"), set()).add(process.pid)
                continue
            text = name[: -len(_DELETED)].decode("utf-8", "replace")
            start, end = (int(part, 16) for part in before.split(b" ", 1)[0].split(b"-"))
            size, pids = known.deleted.get(text, (0, set()))
            known.deleted[text] = max(size, end - start), pids | {process.pid}


def _system_v() -> Iterator[tuple[str, int, int, int]]:
    """(kind, number, pid of its maker, resident bytes) of each System V segment."""
    lines = (proc.read_text(SYSTEM_V) or "").splitlines()
    names = lines[0].split() if lines else []
    for line in lines[1:]:
        values = dict(zip(names, line.split()))
        size = values.get("rss", values.get("size", 0))
        is_removed = int(values.get("perms", "0"), 8) & _REMOVED
        kind = "sysv-removed" if is_removed else "sysv"
        yield kind, int(values.get("shmid", -1)), int(values.get("cpid", 0)), int(size)
