"""Children that ended and that their parent never waited for: zombies. Runs in the recorder.

A zombie holds no memory but keeps its place in the table of processes; a job that leaves them behind cannot start
another process in the end.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from weakref import WeakKeyDictionary

from .. import proc
from ..tree import Row, Tree

TABLE = "unreaped"
PERIOD_S = 2.0


class _Known:
    """What was seen in earlier looks at a tree."""

    def __init__(self) -> None:
        self.strangers: set[int] = set()  # alive and not ours: they are not asked again
        self.counts: dict[int, int] = {}


_known: WeakKeyDictionary[Tree, _Known] = WeakKeyDictionary()


def rows(tree: Tree) -> Iterator[Row]:
    """One row a parent whose number of zombies changed. **Cost** a listing of /proc, 20 us a pid that is new."""
    known = _known.setdefault(tree, _Known())
    present = set(proc.pids())
    known.strangers &= present
    zombies: dict[int, list[str]] = defaultdict(list)
    for pid in present - known.strangers - tree.living.keys():
        stat = proc.stat(pid)
        if stat is None:
            continue
        if stat.is_dead and stat.ppid in tree.living:
            zombies[stat.ppid].append(stat.comm)
        elif not stat.is_dead:
            known.strangers.add(pid)
    for ppid in zombies.keys() | known.counts.keys():
        parent = tree.living.get(ppid)
        names = zombies.get(ppid, [])
        if parent is None:
            known.counts.pop(ppid, None)
        elif len(names) != known.counts.get(ppid, 0):
            known.counts[ppid] = len(names)
            yield {
                "pid": ppid,
                "start_ticks": parent.stat.start_ticks,
                "zombie_count": len(names),
                "zombie_comm": Counter(names).most_common(1)[0][0] if names else None,
            }
