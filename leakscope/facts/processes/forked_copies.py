"""What forked workers have copied of the memory they began with: pages that were shared and are now each one's own.

A fork shares its parent's pages until somebody writes to them, and whoever looks at a Python object writes its
reference count. Anonymous memory counts shared pages in full from the start, so that copying one does not raise it:
that tells it from what a worker adds itself.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..growth.processes import ProcessGrowth
from ..growth.sharing import Copied
from ..series.arithmetic import Floats, level_at
from ..tables import series
from .table import Process, alive_counts


class Copies(NamedTuple):
    """The moment at which workers that lived at once had copied most. ``bytes_each`` belongs to ``workers``."""

    at_s: float = 0.0
    workers: tuple[ProcessGrowth, ...] = ()
    bytes_each: tuple[float, ...] = ()

    @property
    def bytes(self) -> float:
        return sum(self.bytes_each)


class _Reading(NamedTuple):
    at_s: float
    worker: Process
    copied_bytes: float


def most_copied(parent: Process | None, workers: Sequence[Process], by_us: Sequence[Copied]) -> Copies:
    """``by_us``: what snapshots of the parent copied."""
    lonely = len(workers) < 2 or float(alive_counts(workers, np.array([w.born_s for w in workers])).max()) < 2
    readings = [r for worker in workers for r in _readings(parent, worker, workers, by_us, lonely)]
    most = Copies()
    latest: dict[int, _Reading] = {}
    for reading in sorted(readings, key=lambda r: r.at_s):
        latest = {pid: r for pid, r in latest.items() if r.worker.died_s >= reading.at_s}
        latest[reading.worker.pid] = reading
        if sum(r.copied_bytes for r in latest.values()) > most.bytes:
            grown = [(r.worker.growth, r.copied_bytes) for r in latest.values() if r.worker.growth is not None]
            most = Copies(reading.at_s, tuple(w for w, _ in grown), tuple(copied for _, copied in grown))
    return most


def _readings(
    parent: Process | None, worker: Process, workers: Sequence[Process], by_us: Sequence[Copied], lonely: bool
) -> Iterator[_Reading]:
    """Its private memory at each reading, less the pages it added itself since it was born.

    A fork begins with its parent's pages and none of its own; on a busy machine the first reading comes late, and what
    had been copied by then counts too. Where the parent is not known, all counts from the first reading.
    What only two processes share is private to either once the other has written to it, or has ended: then nobody can
    tell whose copy it is, and such readings count only where there was never a third process. Of those the snapshots
    of ours are left out, and what the parent gave back.
    """
    rows = worker.samples[worker.samples["uss_bytes"].notna() & worker.samples["anon_bytes"].notna()]
    time_s, private, pages = (rows[name].to_numpy(dtype=np.float64) for name in ("time_s", "uss_bytes", "anon_bytes"))
    siblings = alive_counts(workers, time_s)
    parent_s, parent_pages = series(parent.samples, "anon_bytes") if parent is not None else (np.empty(0), np.empty(0))
    if not time_s.size:
        return
    own_at_first, born_pages = float(private[0]), float(pages[0])
    if parent_s.size:
        own_at_first, born_pages = 0.0, min(born_pages, level_at(parent_s, parent_pages, worker.born_s))
    for i in range(time_s.size):
        copied = float(private[i]) - own_at_first - max(0.0, float(pages[i]) - born_pages)
        if lonely:
            copied -= sum(c.bytes for c in by_us if worker.born_s <= c.from_s <= time_s[i])
            copied -= _given_back(parent_s, parent_pages, worker.born_s, float(time_s[i]))
        elif siblings[i] < 2:
            continue
        yield _Reading(float(time_s[i]), worker, max(0.0, copied))


def _given_back(time_s: Floats, pages: Floats, start_s: float, end_s: float) -> float:
    if not time_s.size:
        return 0.0
    return max(0.0, level_at(time_s, pages, start_s) - level_at(time_s, pages, end_s))
