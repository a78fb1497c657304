"""Memory that came and went between two samples, as the kernel remembers it. Runs in the recorder.

VmHWM of a process that lives, ``ru_maxrss`` of one that was reaped. A snapshot takes memory in the job for a moment, as
much as the objects that it looks at: so much of what rose while one was made is leakscope's own and none of the job's.
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
    """The most memory that was held. ``of``: the process that held it between two samples, None if nobody knows.

    ``since_s``: when the first of these two was taken.
    """

    size_bytes: int = 0
    of: str | None = None
    is_between: bool = False
    since_s: float = 0.0

    @property
    def text(self) -> str:
        """``peak 104 MiB (by tail, between samples, after 1.3 s)``."""
        of = f"by {self.of}, " if self.of is not None else ""
        between = f" ({of}between samples, after {self.since_s:.1f} s)" if self.is_between else ""
        return f"peak {format_bytes(self.size_bytes)}{between}"


class Held(NamedTuple):
    """A graph of a heap that was in a process's memory. ``size_bytes``: at most; None: nobody said how much."""

    since_s: float
    until_s: float
    size_bytes: int | None

    def is_within(self, begin_s: float, end_s: float) -> bool:
        return self.since_s <= end_s and begin_s <= self.until_s + _LATE_S


def own_peak(samples: Sequence[tuple[int, float]], held: Sequence[Held], last: tuple[int, float] = (0, 0.0)) -> Peak:
    """The most of samples (bytes, when; the most first), without the graphs of heaps that were held then.

    At least that of the ``last`` sample, if no graph was held then: what stayed is none of ours.
    """
    if not samples:
        return Peak()
    own = [_without(size, [one for one in held if one.is_within(at_s, at_s)]) for size, at_s in samples]
    own += [last[0]] if not any(one.since_s <= last[1] <= one.until_s for one in held) else []
    return Peak(max(own) or samples[-1][0])


def _without(size_bytes: int, held: Sequence[Held]) -> int:
    """0 where it is not known how much of it is leakscope's."""
    ours = [one.size_bytes for one in held]
    return 0 if None in ours else max(0, size_bytes - sum(filter(None, ours)))


class _Rise(NamedTuple):
    """Of the whole tree, the others taken to have been as at the sample after it; seen between two moments."""

    size_bytes: int
    since_s: float
    until_s: float
    pid: int | None
    of: str | None

    def without(self, looked: Mapping[int, Sequence[Held]]) -> _Rise:
        """Without the most that a snapshot, which the agent works on for a while, may have taken of it; and what those
        of others took at the sample by which they are counted.
        """
        near = [
            one
            for pid, held in looked.items()
            for one in held
            if one.is_within(
                *((self.since_s - _WORK_S, self.until_s + _LATE_S) if pid == self.pid else 2 * (self.until_s,))
            )
        ]
        return self._replace(size_bytes=_without(self.size_bytes, near))


class Peaks:
    """What the kernel said of each process so far."""

    def __init__(self) -> None:
        self._rises: list[_Rise] = []
        # Most RSS, what of it is shared or mapped files, pid, name.
        self._largest: tuple[int, int, int, str] = (0, 0, 0, "")
        self._looked_s = 0.0
        self._files: dict[int, int] = {}  # of each process at the last sample: what it had mapped or shared

    def look_at(self, tree: Tree) -> None:
        """After the samples were taken."""
        processes = list(tree)
        memory_bytes = held_together(processes)
        files: dict[int, int] = {}
        for process in processes:
            name, shared_bytes = process.stat.comm, max(0, process.rss_bytes - process.held_bytes)
            self._largest = max(self._largest, (process.most_bytes, shared_bytes, process.pid, name))
            files[process.pid] = shared_bytes
            # Files that are mapped no longer were part of it, and no memory that anybody held.
            let_go = max(0, self._files.get(process.pid, 0) - shared_bytes)
            if (more := process.new_most_bytes - process.rss_bytes - let_go) > 0:
                self._keep(_Rise(memory_bytes + more, self._looked_s, tree.now_s, process.pid, name))
        self._files, self._looked_s = files, tree.now_s

    def note_death(self, most_bytes: int, now_s: float) -> None:
        """The most RSS that a process which is gone, or one that it waited for, ever had."""
        known_bytes, shared_bytes, pid, name = self._largest
        if most_bytes <= known_bytes:
            return
        if known_bytes >= _LEAST_KNOWN * most_bytes:
            self._keep(_Rise(most_bytes - shared_bytes, self._looked_s, now_s, pid, name))
        else:
            self._keep(_Rise(most_bytes, self._looked_s, now_s, None, None))

    def highest(
        self, samples: Sequence[tuple[int, float]], journal_path: str, last: tuple[int, float] = (0, 0.0)
    ) -> Peak:
        """The peak of the run: of the samples (bytes, when; the most first), or a higher one between them.

        Of both only what is the job's own: not while a snapshot took memory.
        """
        if not samples:
            return Peak()
        looked = _snapshots(journal_path)  # None: too many to read
        sampled = own_peak(samples, [one for held in (looked or {}).values() for one in held], last)
        least = sampled.size_bytes + max(_LEAST_RISE_BYTES, int(_LEAST_RISE * sampled.size_bytes))
        own = [rise.without(looked) for rise in self._rises] if looked is not None else []
        rise = max((one for one in own if one.size_bytes > least), default=None)
        return Peak(rise.size_bytes, rise.of, is_between=True, since_s=rise.since_s) if rise is not None else sampled

    def _keep(self, rise: _Rise) -> None:
        self._rises = sorted([*self._rises, rise], key=lambda r: -r.size_bytes)[:_MOST_KEPT]


def _snapshots(journal_path: str) -> dict[int, list[Held]] | None:
    """Of each process, as its agent wrote it down; None: nobody reads so much."""
    found: dict[tuple[int, int], Held] = {}
    paths = [os.path.join(journal_path, name) for name in _names(journal_path) if name.startswith("agent-")]
    with suppress(OSError):
        if sum(map(os.path.getsize, paths)) > _MOST_READ_BYTES:
            return None
        for path in paths:
            for table, rows in read_blocks(path, ("takes", "heap_graphs")):
                for row in rows:
                    at_s, key = row["time_mono_ns"] / 1e9, (row["pid"], row["take"])
                    if table == "heap_graphs":
                        found[key] = Held(at_s, at_s + (row.get("held_s") or 0.0), row.get("reading_bytes"))
                    else:
                        found.setdefault(key, Held(at_s, at_s, None))
    looked: dict[int, list[Held]] = {}
    for (pid, _), held in found.items():
        looked.setdefault(pid, []).append(held)
    return looked


def _names(folder: str) -> Iterator[str]:
    with suppress(OSError):
        yield from os.listdir(folder)
