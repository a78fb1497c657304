"""Memory that came and went between two samples, as the kernel remembers it. Runs in the recorder.

VmHWM of a process that lives, ``ru_maxrss`` of one that was reaped. A snapshot takes memory in the job for a moment, as
much as the objects that it looks at: what rose while one was made is leakscope's own and no peak of the job's.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple

from ..agent.journal import read_blocks
from ..units import MiB, format_bytes
from .tree import Tree, held_together

_LEAST_RISE, _LEAST_RISE_BYTES = 0.02, MiB  # above the peak of the samples: a page more is no news
_LEAST_KNOWN = 0.5  # of what the kernel says: a process that had less when it was seen may not be the one
_MOST_KEPT = 16
_WORK_S = 10.0  # after a snapshot the agent works out who holds what
_LATE_S = 1.0
_MOST_READ_BYTES = 32 * MiB  # of agents' journals: half a second


class Peak(NamedTuple):
    """The most memory that was held. ``of``: the process that held it between two samples, None if nobody knows."""

    size_bytes: int = 0
    of: str | None = None
    is_between: bool = False

    @property
    def text(self) -> str:
        """``peak 104 MiB (by tail, between samples)``."""
        between = f" ({f'by {self.of}, ' if self.of is not None else ''}between samples)" if self.is_between else ""
        return f"peak {format_bytes(self.size_bytes)}{between}"


def own_peak(samples: Sequence[tuple[int, float]], held_s: Sequence[tuple[float, float]]) -> Peak:
    """The most of samples (bytes, when; the most first) that were not taken while a graph of a heap was held."""
    own = (size for size, at_s in samples if not any(begin <= at_s <= end + _LATE_S for begin, end in held_s))
    return Peak(max(own, default=samples[-1][0])) if samples else Peak()


class _Rise(NamedTuple):
    """Of the whole tree, the others taken to have been as at the sample after it; seen between two moments."""

    size_bytes: int
    since_s: float
    until_s: float
    pid: int | None
    of: str | None

    def is_own(self, taken_s: Mapping[int, list[float]]) -> bool:
        times = taken_s.get(self.pid, []) if self.pid is not None else []
        return any(self.since_s - _WORK_S <= at_s <= self.until_s + _LATE_S for at_s in times)


class Peaks:
    """What the kernel said of each process so far."""

    def __init__(self) -> None:
        self._rises: list[_Rise] = []
        # Most RSS, what of it is shared or mapped files, pid, name.
        self._largest: tuple[int, int, int, str] = (0, 0, 0, "")
        self._looked_s = 0.0

    def look_at(self, tree: Tree) -> None:
        """After the samples were taken."""
        processes = list(tree)
        memory_bytes = held_together(processes)
        for process in processes:
            name, shared_bytes = process.stat.comm, max(0, process.rss_bytes - process.held_bytes)
            self._largest = max(self._largest, (process.most_bytes, shared_bytes, process.pid, name))
            if process.new_most_bytes > process.rss_bytes:
                size_bytes = memory_bytes + process.new_most_bytes - process.rss_bytes
                self._keep(_Rise(size_bytes, self._looked_s, tree.now_s, process.pid, name))
        self._looked_s = tree.now_s

    def note_death(self, most_bytes: int, now_s: float) -> None:
        """The most RSS that a process which is gone, or one that it waited for, ever had."""
        known_bytes, shared_bytes, pid, name = self._largest
        if most_bytes <= known_bytes:
            return
        if known_bytes >= _LEAST_KNOWN * most_bytes:
            self._keep(_Rise(most_bytes - shared_bytes, self._looked_s, now_s, pid, name))
        else:
            self._keep(_Rise(most_bytes, self._looked_s, now_s, None, None))

    def highest(self, samples: Sequence[tuple[int, float]], journal_path: str) -> Peak:
        """The peak of the run: of the samples (bytes, when; the most first), or a higher one between them.

        Of both only what is the job's own: not while a snapshot took memory.
        """
        if not samples:
            return Peak()
        looked = _snapshots(journal_path)  # None: too many to read
        held = looked.held_s if looked is not None else []
        sampled = own_peak(samples, held)
        least = sampled.size_bytes + max(_LEAST_RISE_BYTES, int(_LEAST_RISE * sampled.size_bytes))
        taken_s = looked.taken_s if looked is not None else {}
        higher = self._rises if looked is not None else []
        rise = max((r for r in higher if r.size_bytes > least and not r.is_own(taken_s)), default=None)
        return Peak(rise.size_bytes, rise.of, is_between=True) if rise is not None else sampled

    def _keep(self, rise: _Rise) -> None:
        self._rises = sorted([*self._rises, rise], key=lambda r: -r.size_bytes)[:_MOST_KEPT]


class _Looked(NamedTuple):
    """When each process was looked into, and from when to when a graph of a heap was held; monotonic seconds."""

    taken_s: dict[int, list[float]]
    held_s: list[tuple[float, float]]


def _snapshots(journal_path: str) -> _Looked | None:
    """Of all processes, as their agents wrote it down; None: nobody reads so much."""
    looked = _Looked({}, [])
    paths = [os.path.join(journal_path, name) for name in _names(journal_path) if name.startswith("agent-")]
    with suppress(OSError):
        if sum(map(os.path.getsize, paths)) > _MOST_READ_BYTES:
            return None
        for path in paths:
            for table, rows in read_blocks(path):
                for row in rows if table in ("takes", "heap_graphs") else ():
                    at_s = row["time_mono_ns"] / 1e9
                    if table == "takes":
                        looked.taken_s.setdefault(row["pid"], []).append(at_s)
                    else:
                        looked.held_s.append((at_s, at_s + (row.get("held_s") or 0.0)))
    return looked


def _names(folder: str) -> Iterator[str]:
    with suppress(OSError):
        yield from os.listdir(folder)
