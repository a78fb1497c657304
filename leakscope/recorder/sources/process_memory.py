"""Memory of each process of the tree. Runs in the recorder.

RSS and its parts come from /proc/PID/status in 5 us whatever the size. PSS and USS come from smaps_rollup, which walks
the page tables under the lock that mmap and page faults need (a process of 6 GB: 120 ms), so each process has its own
period for them.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from time import process_time

from .. import proc
from ..tree import Process, Row, Tree

TABLE = "process_samples"
FDS_PERIOD_S = 10.0
PSS_PERIOD_S = 10.0
PSS_COST_FACTOR = 100  # the readings of the whole tree cost at most 1 % of a core, on a busy machine as on an idle one
EARLY_S = 60.0  # a short run has its trend in its first minute
EARLY_PSS_PERIOD_S = 2.0  # of one that shares pages with its parent or its children
EARLY_PSS_PERIOD_ALONE_S = 5.0  # its share of its pages stays what it is, whatever it holds
CHANGE_FRACTION = 0.1  # a change of RSS that makes the last PSS stale
# Even then not without pause: at most 5 % while memory really moves, of one that is alone as often as else.
CHANGE_COST_FACTOR = 20
FAMILY_FACTOR = 1.5  # more or fewer that share its pages: at 64 forks one after the other, each is read 10 times


def rows(tree: Tree) -> Iterator[Row]:
    """One row a living process. **Cost** 30 us a process, and PSS as the periods above allow."""
    cost_s = sum(process.pss_cost_s for process in tree)
    families = Counter(process.family for process in tree)
    for process in tree:
        status = proc.read(f"/proc/{process.pid}/status") or b""
        rss_bytes = proc.bytes_of(status, b"VmRSS")
        if rss_bytes is None:  # exiting: its memory is gone, and a zero would look like a drop of the job's memory
            continue
        process.rss_bytes = rss_bytes
        process.file_bytes = proc.bytes_of(status, b"RssFile") or 0
        process.swap_bytes = proc.bytes_of(status, b"VmSwap") or 0
        process.note_most(proc.bytes_of(status, b"VmHWM") or 0)
        yield {
            "pid": process.pid,
            "start_ticks": process.stat.start_ticks,
            "rss_bytes": rss_bytes,
            "anon_bytes": proc.bytes_of(status, b"RssAnon"),
            "file_bytes": proc.bytes_of(status, b"RssFile"),
            "shmem_bytes": proc.bytes_of(status, b"RssShmem"),
            **_shares(process, tree, cost_s, families[process.family]),
            "swap_bytes": proc.bytes_of(status, b"VmSwap"),
            "virtual_bytes": proc.bytes_of(status, b"VmSize"),
            "thread_count": process.stat.thread_count,
            "fd_count": _fd_count(process, tree.now_s),
            "cpu_s": process.stat.cpu_s,
            "run_delay_s": proc.run_delay_s(process.pid),
            "state": process.stat.state,
        }


def _shares(process: Process, tree: Tree, tree_cost_s: float, family_size: int) -> Row:
    """PSS and USS where a reading is due and allowed, else nulls."""
    shares: Row = dict.fromkeys(("pss_bytes", "pss_anon_bytes", "pss_shmem_bytes", "uss_bytes"))
    if not _pss_is_due(process, tree, tree_cost_s, family_size):
        return shares
    process.pss_family_size = family_size
    process.pss_read_s = tree.now_s
    before = process_time()
    data = proc.read(f"/proc/{process.pid}/smaps_rollup")
    process.pss_cost_s = process_time() - before
    pss_bytes = proc.bytes_of(data, b"Pss") if data else None
    if data and pss_bytes is not None:
        process.pss_bytes, process.pss_rss_bytes = pss_bytes, process.rss_bytes
        process.pss_file_bytes, process.pss_file_rss_bytes = proc.bytes_of(data, b"Pss_File") or 0, process.file_bytes
        private = [proc.bytes_of(data, name) or 0 for name in (b"Private_Clean", b"Private_Dirty", b"Private_Hugetlb")]
        process.uss_bytes = sum(private)
        shares = {
            "pss_bytes": pss_bytes,
            "pss_anon_bytes": proc.bytes_of(data, b"Pss_Anon"),
            "pss_shmem_bytes": proc.bytes_of(data, b"Pss_Shmem"),
            "uss_bytes": process.uss_bytes,
        }
    return shares


def _pss_is_due(process: Process, tree: Tree, tree_cost_s: float, family_size: int) -> bool:
    waited_s = tree.now_s - process.pss_read_s
    if tree.pss_period_s is not None:
        return waited_s >= tree.pss_period_s
    # After a fork the parent's own part is smaller, with its RSS as it was: the old reading would count pages twice.
    sizes = sorted((family_size, process.pss_family_size))
    if sizes[1] >= FAMILY_FACTOR * sizes[0] and waited_s >= CHANGE_COST_FACTOR * process.pss_cost_s:
        return True
    change_bytes = abs(process.rss_bytes - process.pss_rss_bytes)
    factor = CHANGE_COST_FACTOR if family_size > 1 else PSS_COST_FACTOR
    if change_bytes > CHANGE_FRACTION * process.pss_rss_bytes and waited_s >= factor * tree_cost_s:
        return True
    period_s = PSS_PERIOD_S
    if tree.now_s - process.born_s < EARLY_S:
        period_s = EARLY_PSS_PERIOD_S if family_size > 1 else EARLY_PSS_PERIOD_ALONE_S
    return waited_s >= max(period_s, PSS_COST_FACTOR * tree_cost_s)


def _fd_count(process: Process, now_s: float) -> int | None:
    if now_s - process.fds_read_s < FDS_PERIOD_S:
        return None
    process.fds_read_s = now_s
    try:
        return len(os.listdir(f"/proc/{process.pid}/fd"))
    except OSError:
        return None
