"""Open descriptors of each process by kind and path, written down when their number changed. Runs in the recorder.

Counting them is one listing of a folder; what each stands for takes a readlink, so that is asked only of processes
whose count is not what it was.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Iterator
from time import process_time
from weakref import WeakKeyDictionary

from ..tree import Process, Row, Tree
from ._turns import in_turn

TABLE = "descriptors"
PERIOD_S = 2.0
LATER_PERIOD_S, EARLY_S = 5.0, 60.0  # a short run has its trend in its first minute
COST_FACTOR = 200  # of the last looks at the whole tree: half a percent of a core, however many descriptors there are
ROUND_S = 0.02  # and no more than this at once
MOST_LINKS = 1000  # read of one process; of more, every second, third, ... and their count is multiplied
MOST_NAMES = 3  # files of one folder told apart by name; of more, the folder is the name
_DIGITS = re.compile(r"\d+")
_DELETED = " (deleted)"

Kind = tuple[str, "str | None"]


class _Known:
    """What was seen in the last look at a process, and what it took."""

    def __init__(self) -> None:
        self.count = -1
        self.looked_s = float("-inf")
        self.cost_s = 0.0


_known: WeakKeyDictionary[Process, _Known] = WeakKeyDictionary()


def rows(tree: Tree) -> Iterator[Row]:
    """One row a process, kind and path, where the number of descriptors changed. **Cost** 2 us a descriptor."""
    known = {process: _known.setdefault(process, _Known()) for process in tree}
    tree_cost_s = sum(seen.cost_s for seen in known.values())
    waiting = [process for process, seen in known.items() if _is_due(process, seen, tree.now_s, tree_cost_s)]
    for process in in_turn(waiting, lambda process: known[process].looked_s, ROUND_S):
        seen = known[process]
        seen.looked_s = tree.now_s
        before = process_time()
        counts = _look(process.pid, seen)
        seen.cost_s = process_time() - before
        for (kind, path), count in counts.items():
            yield {
                "pid": process.pid,
                "start_ticks": process.stat.start_ticks,
                "fd_kind": kind,
                "fd_path": path,
                "open_count": count,
            }


def _is_due(process: Process, seen: _Known, now_s: float, tree_cost_s: float) -> bool:
    period_s = PERIOD_S if now_s - process.born_s < EARLY_S else LATER_PERIOD_S
    return now_s - seen.looked_s >= max(period_s, COST_FACTOR * tree_cost_s)


def _look(pid: int, known: _Known) -> Counter[Kind]:
    """Descriptors by kind and path; empty where there are as many as before, and where they may not be read."""
    folder = f"/proc/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:
        return Counter()
    if len(numbers) == known.count:
        return Counter()
    known.count = len(numbers)
    stride = -(-len(numbers) // MOST_LINKS) or 1
    counts: Counter[Kind] = Counter()
    for number in numbers[::stride]:
        link = _link(f"{folder}/{number}")
        if link is not None:
            counts[kind_of(link)] += stride
    return _folded(counts)


def _link(path: str) -> str | None:
    try:
        return os.readlink(path)
    except OSError:  # closed meanwhile
        return None


def kind_of(link: str) -> Kind:
    """Kind and path of a descriptor by what its link says (proc_pid_fd(5))."""
    if not link.startswith("/"):
        kind = link.partition(":")[0]
        if kind == "anon_inode":
            return link.partition(":")[2].strip("[]"), None
        return (kind if kind in ("socket", "pipe") else "other"), None
    path = _DIGITS.sub("N", link.removesuffix(_DELETED))
    if link.startswith(("/dev/shm/", "/memfd:")):
        return "shared-memory", path
    if link.startswith("/dev/"):
        return "device", path
    return ("deleted-file" if link.endswith(_DELETED) else "file"), path


def _folded(counts: Counter[Kind]) -> Counter[Kind]:
    """Many names in one folder become one: ``/data/cache/*.bin``."""
    names = Counter(_folder(kind) for kind in counts)
    folded: Counter[Kind] = Counter()
    for kind, count in counts.items():
        folded[_folder(kind) if names[_folder(kind)] > MOST_NAMES else kind] += count
    return folded


def _folder(kind: Kind) -> Kind:
    if kind[1] is None:
        return kind
    folder, name = os.path.split(kind[1])
    return kind[0], f"{folder}/*{os.path.splitext(name)[1]}"
