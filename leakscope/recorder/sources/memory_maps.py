"""Mappings of each process by kind and file, added up: what its address space is made of. Runs in the recorder.

From /proc/PID/smaps, which walks the page tables as smaps_rollup does and writes 700 bytes for each mapping: with torch
loaded 1,500 of them and about 15 ms. So it is read seldom, and the dearer it is the more seldom.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from time import process_time

from .. import proc
from ..tree import Process, Row, Tree
from ._turns import in_turn

TABLE = "memory_maps"
EARLY_S = 60.0
EARLY_PERIOD_S = 5.0  # a run of 20 seconds needs a first and a last reading, and one between
PERIOD_S = 1.0  # how often the source is asked; each process has its own period
LATER_PERIOD_S = 60.0
COST_FACTOR = 400  # of the last reading of the whole tree: 0.25 % of a core
SHOWN_BYTES = 1 << 20  # a file with less resident is added to the others of its kind
ROUND_S = 0.03  # and no more than this at once
# What is read of each mapping, in the order of the kernel's lines.
_FIELDS = (
    (b"\nSize:", "map_size_bytes"),
    (b"\nRss:", "map_rss_bytes"),
    (b"\nPss:", "map_pss_bytes"),
    # Of a file: copies made on write. Its Private_Dirty counts page cache too that is only not written back yet.
    (b"\nAnonymous:", "map_private_dirty_bytes"),
    (b"\nSwap:", "map_swap_bytes"),
)
_NAMES = ("map_count", *(name for _, name in _FIELDS))
_read_s: dict[tuple[int, int], float] = {}  # when each process was last read
_cost_s: dict[tuple[int, int], float] = {}


def rows(tree: Tree) -> Iterator[Row]:
    """Rows of the processes whose reading is due, some 20 a process."""
    living = {_key(process): process for process in tree}
    for known in (_read_s, _cost_s):
        for gone in known.keys() - living.keys():
            del known[gone]
    tree_cost_s = sum(_cost_s.values())
    waiting = [process for key, process in living.items() if _is_due(key, process, tree.now_s, tree_cost_s)]
    for process in in_turn(waiting, lambda process: _read_s.get(_key(process), float("-inf")), ROUND_S):
        key = _key(process)
        _read_s[key] = tree.now_s
        before = process_time()
        kinds = _by_kind(process.pid)
        _cost_s[key] = process_time() - before
        for (kind, path), figures in kinds.items():
            yield {"pid": key[0], "start_ticks": key[1], "map_kind": kind, "map_path": path, **figures}


def _key(process: Process) -> tuple[int, int]:
    return process.pid, process.stat.start_ticks


def _is_due(key: tuple[int, int], process: Process, now_s: float, tree_cost_s: float) -> bool:
    if now_s - process.born_s < 1.0:
        return False  # most processes that live shorter than this come in numbers, and hold nothing
    period_s = EARLY_PERIOD_S if now_s - process.born_s < EARLY_S else LATER_PERIOD_S
    return now_s - _read_s.get(key, float("-inf")) >= max(period_s, COST_FACTOR * tree_cost_s)


def _by_kind(pid: int) -> dict[tuple[str, str | None], Row]:
    """{(kind, path): figures}; files with little resident memory go without a path. Empty where it is not readable."""
    found: dict[tuple[str, str | None], Row] = {}
    data = proc.read(f"/proc/{pid}/smaps") or b""
    start = 0
    while start < len(data):  # 7f00-7f10 r-xp 00000000 08:01 123  /path, its figures, and VmFlags at the end
        last = data.find(b"\nVmFlags:", start)
        end = data.find(b"\n", last + 1) if last >= 0 else len(data)
        head = data[start : data.find(b"\n", start, end)].partition(b" ")[2]
        figures = found.setdefault(_kind_and_path(head), dict.fromkeys(_NAMES, 0))
        figures["map_count"] += 1
        at = start
        for field, name in _FIELDS:
            place = data.find(field, at, end)
            if place >= 0:  # a kernel without swap has no Swap
                at = place + len(field)
                figures[name] += int(data[at : data.find(b" kB", at)]) * 1024
        start = end + 1
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
