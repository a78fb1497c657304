"""Loader workers by the process they work for: who lives, what each gained, and what they read.

Anonymous memory counts pages shared with the parent in full from the start, so that copying one does not raise it: what
was copied and what a worker added itself are told apart by that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..code.index import Source
from ..growth.processes import ProcessGrowth
from ..growth.sharing import copied_by_takes
from ..growth.tree import TreeGrowth
from ..series.arithmetic import Floats, level_at
from ..series.trend import GROWING
from ..tables import int_of, text_of
from ..where.inherited import Inherited, inherited
from .forked_copies import Copies, most_copied
from .table import DATALOADER_WORKER, Process
from .worker_code import Code, dataset_name

if TYPE_CHECKING:
    import pandas as pd

    from ...storage import Recording

_WARM_UP_S = 2.0  # a worker's imports and first batches
_WARM_UP_LIFE = 0.2  # of a worker that lived shorter
_LAST_S = 2.0  # before the end of the window: workers end a moment before their parent
_ALIKE = 0.5  # growth of the least over that of the most
_MOST = 0.5  # of the job's growth
_MOST_OF_IT = 0.5  # of what is inherited


@dataclass(frozen=True, eq=False)
class Group:
    """Workers of one parent. ``alive`` were there at the end of the judged window.

    **Units** bytes. ``own`` are pages the workers added in the window; ``copied`` pages of all that became private in
    it, in the parent too; ``copies_in_life`` what those that lived at once had copied since they were born; ``data``
    what the parent was seen to hold in Python objects below the data set's attributes, by (class, attribute);
    ``inherited`` the container that had most of them, whoever reads it: a data set may wrap another.
    """

    parent: ProcessGrowth | None
    ever: tuple[ProcessGrowth, ...]
    alive: tuple[ProcessGrowth, ...]
    own: tuple[float, ...]
    copied: tuple[float, ...]
    copies_in_life: Copies
    loader: pd.Series[Any] | None
    datasets: tuple[str, ...]
    data: dict[tuple[str, str], float]
    inherited: Inherited | None
    carries_growth: bool  # most of what the job gained

    @property
    def gained(self) -> int:
        return int(sum(self.own) + sum(self.copied))

    @property
    def by_worker(self) -> list[float]:
        return [own + copied for own, copied in zip(self.own, self.copied)]

    @property
    def copies(self) -> bool:
        """Most of the growth is pages of the parent's that became the worker's own."""
        return sum(self.copied) > sum(self.own)

    @property
    def are_alike(self) -> bool:
        return min(self.by_worker) >= _ALIKE * max(self.by_worker)

    @property
    def most_data_bytes(self) -> float:
        """What the parent holds in the largest of the data set's attributes, or of all that workers inherit."""
        return max(self.data.values(), default=0.0) if self.is_of_data_set else self.inherited_bytes

    @property
    def inherited_bytes(self) -> float:
        return self.inherited.bytes if self.inherited is not None else 0.0

    @property
    def is_of_data_set(self) -> bool:
        """Most of what workers inherit is in an attribute of the data set that they read."""
        return max(self.data.values(), default=0.0) >= _MOST_OF_IT * self.inherited_bytes

    @property
    def is_growing(self) -> bool:
        members = [*self.alive, *([self.parent] if self.parent is not None and self.copies else [])]
        return bool(self.alive) and (self.carries_growth or any(m.trend.verdict == GROWING for m in members))


def loader_groups(
    recording: Recording, growth: TreeGrowth, everyone: Sequence[Process], code: Code, sources: Sequence[Source]
) -> list[Group]:
    """Workers by the process they work for; each worker read with its parent and the data it was given."""
    parents: dict[int, list[Process]] = defaultdict(list)
    known = {process.pid: process for process in everyone}
    for process in known.values():
        if process.role == DATALOADER_WORKER and process.growth is not None:
            parents[process.ppid].append(process)
    return [
        _group(recording, growth, code, sources, known.get(ppid), workers) for ppid, workers in sorted(parents.items())
    ]


def _alive(workers: list[Process], end_s: float) -> list[Process]:
    """Those there at the end, or a moment before it; of several generations, one each epoch, the last."""
    late = [worker for worker in workers if worker.died_s >= end_s - _LAST_S]
    last_s = max((worker.born_s for worker in late), default=0.0)
    return [worker for worker in late if worker.died_s > last_s]  # one look sees the old end and the new begin


def _group(
    recording: Recording,
    growth: TreeGrowth,
    code: Code,
    sources: Sequence[Source],
    forker: Process | None,
    workers: list[Process],
) -> Group:
    ppid = workers[0].ppid
    ever = [worker.growth for worker in workers if worker.growth is not None]
    alive = [worker.growth for worker in _alive(workers, growth.end_s) if worker.growth is not None]
    loader = _loader_of(recording.tables["loaders"], {worker.pid for worker in workers})
    trainer = int_of(loader, "pid") or ppid  # workers of a fork server are its children, not the trainer's
    parent = growth.process(ppid)
    known = dataset_name(text_of(loader, "dataset_type"))
    datasets = (known,) if known and code.defines(known) else tuple(code.datasets())
    gains = [_gains(growth, worker, worker) for worker in alive]
    copied = [copied for _, copied in gains]
    if parent is not None and alive:
        copied.append(_gains(growth, parent, alive[0])[1])  # no longer shared with whoever has copied it
    takes = copied_by_takes(recording.tables["takes"], recording.tables["processes"]).get(ppid, ())
    first_s, last_s = min(worker.born_s for worker in workers), max(worker.died_s for worker in workers)
    return Group(
        parent=parent,
        ever=tuple(ever),
        alive=tuple(alive),
        own=tuple(own for own, _ in gains),
        copied=tuple(copied),
        copies_in_life=most_copied(forker, workers, takes),
        loader=loader,
        datasets=datasets,
        data=_data(recording, trainer, datasets),
        inherited=inherited(recording, sources, trainer, first_s, last_s),
        carries_growth=_carries(growth, alive),
    )


def _carries(growth: TreeGrowth, alive: list[ProcessGrowth]) -> bool:
    """The job grows, and most of it is theirs: each by itself may go up and down too much to tell."""
    gained = sum(worker.growth_bytes for worker in alive)
    return bool(growth.leaking) and gained >= _MOST * max(growth.growth_bytes, 1)


def _loader_of(loaders: pd.DataFrame, pids: set[int]) -> pd.Series[Any] | None:
    """The newest iterator that has one of these workers."""
    named = [any(pid in pids for pid in _pids(text)) for text in loaders["worker_pids"]]
    own = loaders[named]
    return own.iloc[-1] if len(own) else None


def _pids(text: Any) -> list[int]:
    return [int(pid) for pid in text.split(",") if pid] if isinstance(text, str) else []


def _gains(growth: TreeGrowth, process: ProcessGrowth, worker: ProcessGrowth) -> tuple[float, float]:
    """(own, copied) bytes a process gained in the judged window while a worker lived, the worker's start left out."""
    lived_s = float(worker.time_s[-1] - worker.time_s[0])
    settled_s = float(worker.time_s[0]) + min(_WARM_UP_S, _WARM_UP_LIFE * lived_s)
    window = max(growth.start_s, settled_s), min(growth.end_s, float(worker.time_s[-1]))
    start, end = (level_at(process.time_s, process.held_bytes, at_s) for at_s in window)
    time_s, pages = _pages(process)
    added = level_at(time_s, pages, window[1]) - level_at(time_s, pages, window[0])
    own = min(max(0.0, added), max(0.0, end - start))
    return own, max(0.0, end - start - own)


def _pages(process: ProcessGrowth) -> tuple[Floats, Floats]:
    rows = process.rows("process_samples")
    rows = rows[rows["anon_bytes"].notna()]
    pages = rows["anon_bytes"] + rows["shmem_bytes"].fillna(0)
    return rows["time_s"].to_numpy(dtype=np.float64), pages.to_numpy(dtype=np.float64)


def _data(recording: Recording, ppid: int, datasets: Sequence[str]) -> dict[tuple[str, str], float]:
    rows = recording.tables["holders"]
    rows = rows[(rows["pid"] == ppid) & rows["edge_kind"].eq("attribute").fillna(False) & rows["owner"].isin(datasets)]
    objects = rows["deep_bytes"] - rows["array_deep_bytes"].fillna(0) - rows["tensor_deep_bytes"].fillna(0)
    most: dict[tuple[str, str], float] = {}
    for owner, variable, size in zip(rows["owner"], rows["variable"], objects.astype("float64")):
        most[owner, variable] = max(most.get((owner, variable), 0.0), size)
    return most
