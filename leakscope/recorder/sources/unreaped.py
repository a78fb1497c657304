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


_counts: WeakKeyDictionary[Tree, dict[int, int]] = WeakKeyDictionary()  # by parent, in the look before


def rows(tree: Tree) -> Iterator[Row]:
    """One row a parent whose number of zombies changed. **Cost** a listing of /proc, 20 us a zombie."""
    counts = _counts.setdefault(tree, {})
    zombies: dict[int, list[str]] = defaultdict(list)
    for pid in set(proc.pids()) - tree.strangers - tree.living.keys():
        stat = proc.stat(pid)
        if stat is not None and stat.is_dead and stat.ppid in tree.living:
            zombies[stat.ppid].append(stat.comm)
    for ppid in zombies.keys() | counts.keys():
        parent = tree.living.get(ppid)
        names = zombies.get(ppid, [])
        if parent is None:
            counts.pop(ppid, None)
        elif len(names) != counts.get(ppid, 0):
            counts[ppid] = len(names)
            yield {
                "pid": ppid,
                "start_ticks": parent.stat.start_ticks,
                "zombie_count": len(names),
                "zombie_comm": Counter(names).most_common(1)[0][0] if names else None,
            }
