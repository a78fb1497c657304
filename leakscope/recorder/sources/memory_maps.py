"""Mappings of each process by kind and file, added up: what its address space is made of. Runs in the recorder.

From /proc/PID/smaps, which walks the page tables as smaps_rollup does and writes 700 bytes for each mapping: with torch
loaded 1,500 of them and about 15 ms. So it is read seldom, and the dearer it is the more seldom.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import perf_counter

from .. import proc
from ..tree import Process, Row, Tree

TABLE = "memory_maps"
EARLY_S = 60.0
EARLY_PERIOD_S = 5.0  # a run of 20 seconds needs a first and a last reading, and one between
PERIOD_S = 1.0  # how often the source is asked; each process has its own period
LATER_PERIOD_S = 60.0
COST_FACTOR = 400  # of the last reading of the whole tree: 0.25 % of a core
SHOWN_BYTES = 1 << 20  # a file with less resident is added to the others of its kind
_FIELDS = {
    b"Size:": "map_size_bytes",
    b"Rss:": "map_rss_bytes",
    b"Pss:": "map_pss_bytes",
    # Of a file: copies made on write. Its Private_Dirty counts page cache too that is only not written back yet.
    b"Anonymous:": "map_private_dirty_bytes",
    b"Swap:": "map_swap_bytes",
}
_read_s: dict[tuple[int, int], float] = {}  # when each process was last read
_cost_s: dict[tuple[int, int], float] = {}


def rows(tree: Tree) -> Iterator[Row]:
    """Rows of the processes whose reading is due, some 20 a process."""
    living = {(process.pid, process.stat.start_ticks): process for process in tree}
    for known in (_read_s, _cost_s):
        for gone in known.keys() - living.keys():
            del known[gone]
    tree_cost_s = sum(_cost_s.values())
    for key, process in living.items():
        if _is_due(key, process, tree.now_s, tree_cost_s):
            _read_s[key] = tree.now_s
            before = perf_counter()
            kinds = _by_kind(process.pid)
            _cost_s[key] = perf_counter() - before
            for (kind, path), figures in kinds.items():
                yield {"pid": key[0], "start_ticks": key[1], "map_kind": kind, "map_path": path, **figures}


def _is_due(key: tuple[int, int], process: Process, now_s: float, tree_cost_s: float) -> bool:
    if now_s - process.born_s < 1.0:
        return False  # most processes that live shorter than this come in numbers, and hold nothing
    period_s = EARLY_PERIOD_S if now_s - process.born_s < EARLY_S else LATER_PERIOD_S
    return now_s - _read_s.get(key, float("-inf")) >= max(period_s, COST_FACTOR * tree_cost_s)


def _by_kind(pid: int) -> dict[tuple[str, str | None], Row]:
    """{(kind, path): figures}; files with little resident memory go without a path. Empty where it is not readable."""
    found: dict[tuple[str, str | None], Row] = {}
    figures: Row = {}
    for line in (proc.read(f"/proc/{pid}/smaps") or b"").splitlines():
        name, _, rest = line.partition(b" ")
        if not name.endswith(b":"):  # 7f00-7f10 r-xp 00000000 08:01 123  /path
            figures = found.setdefault(_kind_and_path(rest), dict.fromkeys(_FIELDS.values(), 0) | {"map_count": 0})
            figures["map_count"] += 1
        elif name in _FIELDS:
            figures[_FIELDS[name]] += int(rest.split()[0]) * 1024
    return _small_together(found)


def _kind_and_path(line: bytes) -> tuple[str, str | None]:
    """Of the rest of a mapping's first line: permissions, offset, device, inode, path (proc_pid_maps(5))."""
    words = line.split(None, 4)
    path = os.fsdecode(words[4]).strip() if len(words) > 4 else ""
    shared = words[0].endswith(b"s")
    if path.startswith(("/dev/shm/", "/SYSV", "/memfd:")) or (shared and path.startswith("/dev/zero")):
        return "shared-memory", path
    if path.startswith("/dev/"):
        return "device", path
    if path.startswith("/"):
        return ("deleted-file", path[:-10]) if path.endswith(" (deleted)") else ("file", path)
    if path == "[heap]":
        return "heap", None
    if path.startswith("[stack"):
        return "stack", None
    if path.startswith("[") and not path.startswith("[anon"):
        return "kernel", None
    return "anonymous", None


def _small_together(found: dict[tuple[str, str | None], Row]) -> dict[tuple[str, str | None], Row]:
    merged: dict[tuple[str, str | None], Row] = {}
    for (kind, path), figures in found.items():
        shown = path if figures["map_rss_bytes"] + figures["map_swap_bytes"] >= SHOWN_BYTES else None
        into = merged.setdefault((kind, shown), dict.fromkeys(figures, 0))
        for name, figure in figures.items():
            into[name] += figure
    return merged
