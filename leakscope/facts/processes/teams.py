"""Teams: what one parent made to work for it, the workers of its DataLoader or its other forks.

Anonymous memory counts pages shared with the parent in full from the start, so that copying one does not raise it: what
was copied and what a worker added itself are told apart by that.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ...storage import Recording, Row, Rows
from ...units import MOST, SOON_S
from ..code.adding import Holder, Line, adding_lines
from ..code.index import Source
from ..growth.processes import ProcessGrowth
from ..growth.sharing import copied_by_takes
from ..growth.tree import TreeGrowth
from ..heap.comparable import whole_heap
from ..heap.place import Place
from ..series.arithmetic import Floats
from ..series.trend import GROWING
from ..tables import cells, int_of, text_of
from ..where.holders import holder_name
from .forked_copies import Copies, most_copied
from .table import COMPILE_WORKER, DATALOADER_WORKER, Process, gains

_WARM_UP_S = SOON_S  # a worker's imports and first batches: one that lived no longer gained nothing that tells
_LAST_S = SOON_S  # before the end of the window: workers end a moment before their parent
_ITERATORS = "torch.utils.data.dataloader._"
_ALIKE = MOST  # growth of the least over that of the most


@dataclass(frozen=True, eq=False)
class Team:
    """Workers of one parent. ``alive`` were there at the end of the judged window; of each ``own`` and ``copied``.

    **Units** bytes. ``own`` are pages they added in the window, ``copied`` pages of their parent's that became their
    own in it, ``parent_copied`` those that became the parent's alone; ``copies`` what those that lived at once had
    copied since they were born. ``inherited``: of the process whose data they read, since a fork server's children are
    not the trainer's. ``dataset_type``: what loader workers read.
    """

    is_loader: bool
    parent: Process | None
    members: tuple[Process, ...]
    alive: tuple[ProcessGrowth, ...]
    own: tuple[float, ...]
    copied: tuple[float, ...]
    parent_copied: float
    copies: Copies
    inherited: Inherited | None
    dataset_type: str | None

    @property
    def gained(self) -> int:
        return int(sum(self.own) + self.all_copied)

    @property
    def all_copied(self) -> float:
        return sum(self.copied) + self.parent_copied

    @property
    def by_worker(self) -> list[float]:
        return [own + copied for own, copied in zip(self.own, self.copied)]

    @property
    def is_copying(self) -> bool:
        """Most of the growth is pages of the parent's that became the worker's own."""
        return self.all_copied > sum(self.own)

    @property
    def are_alike(self) -> bool:
        return len(self.alive) > 1 and min(self.by_worker) >= _ALIKE * max(self.by_worker)

    def is_growing(self, growth: TreeGrowth) -> bool:
        """One grows, or they are most of the job's growth: each by itself may go up and down too much to tell."""
        if growth.main is not None and growth.main.is_hidden:  # what grows is known, and it is none of theirs
            return any(member.trend.verdict == GROWING for member in self.alive)
        parent = self.parent.growth if self.parent is not None and self.is_copying else None
        gained = sum(worker.growth_bytes for worker in self.alive)
        carries = bool(growth.leaking) and gained >= MOST * max(growth.growth_bytes, 1)
        members = [*self.alive, *([parent] if parent is not None else [])]
        return bool(self.alive) and (carries or any(member.trend.verdict == GROWING for member in members))


def teams(
    recording: Recording, growth: TreeGrowth, everyone: Sequence[Process], sources: Sequence[Source]
) -> list[Team]:
    """Teams by their parent, loader workers first; compile workers are told of by themselves."""
    known = {process.pid: process for process in everyone}
    forked = {pid for pid, note in cells(recording.rows["agent_notes"], "pid", "note") if note == "forked"}
    found: dict[tuple[bool, int], list[Process]] = defaultdict(list)
    for process in known.values():
        if process.growth is None or process.role == COMPILE_WORKER:
            continue
        is_loader = process.role == DATALOADER_WORKER
        if is_loader or (process.ppid in known and (process.is_fork or process.pid in forked)):
            found[not is_loader, process.ppid].append(process)
    return [
        _team(recording, growth, sources, known.get(ppid), workers)
        for (_, ppid), workers in sorted(found.items(), key=lambda item: item[0])
    ]


def _team(
    recording: Recording, growth: TreeGrowth, sources: Sequence[Source], parent: Process | None, workers: list[Process]
) -> Team:
    ppid = workers[0].ppid
    alive = _alive(workers, growth.end_s)
    gained = [gains(worker, *_window(growth, worker)) for worker in alive]
    loader = _loader_of(recording.rows["loaders"], {worker.pid for worker in workers})
    trainer_pid = int_of(loader, "pid") or ppid
    takes = copied_by_takes(recording.rows["takes"], recording.rows["processes"]).get(ppid, ())
    first_s, last_s = min(worker.born_s for worker in workers), max(worker.died_s for worker in workers)
    return Team(
        is_loader=workers[0].role == DATALOADER_WORKER,
        parent=parent,
        members=tuple(workers),
        alive=tuple(worker.growth for worker in alive if worker.growth is not None),
        own=tuple(own for own, _ in gained),
        copied=tuple(copied for _, copied in gained),
        parent_copied=_parent_copied(growth, parent, alive, gained) if parent is not None and alive else 0.0,
        copies=most_copied(parent, workers, takes),
        inherited=inherited(recording, sources, trainer_pid, first_s, last_s),
        dataset_type=text_of(loader, "dataset_type"),
    )


def _parent_copied(
    growth: TreeGrowth, parent: Process, alive: Sequence[Process], gained: Sequence[tuple[float, float]]
) -> float:
    """A page is the parent's alone once each worker has copied it: of more the parent has written to it itself."""
    return min(gains(parent, *_window(growth, alive[0]))[1], sum(copied for _, copied in gained) / len(gained))


def _alive(workers: list[Process], end_s: float) -> list[Process]:
    """Those there at the end, or a moment before it; of several generations, one each epoch, the last."""
    late = [worker for worker in workers if worker.died_s >= end_s - _LAST_S]
    last_s = max((worker.born_s for worker in late), default=0.0)
    return [worker for worker in late if worker.died_s > last_s]  # one look sees the old end and the new begin


def _window(growth: TreeGrowth, worker: Process) -> tuple[float, float]:
    """The part of the judged window in which a worker lived, its start left out."""
    lived_s = worker.growth.time_s if worker.growth is not None else growth.time_s
    first_s, last_s = float(lived_s[0]), float(lived_s[-1])
    return max(growth.start_s, min(first_s + _WARM_UP_S, last_s)), min(growth.end_s, last_s)


def _loader_of(loaders: Rows, pids: set[int]) -> Row | None:
    """The newest iterator that has one of these workers."""
    own = loaders[loaders["worker_pids"].map(lambda text: any(pid in pids for pid in _pids(text)))]
    return own.iloc[-1] if len(own) else None


def _pids(text: Any) -> list[int]:
    return [int(pid) for pid in text.split(",") if pid] if isinstance(text, str) else []


# ---- what forks inherit in Python objects: the container of their parent's that holds most of them. Reading an object
# writes its reference count, and a collection writes to every container; arrays and tensors keep their numbers apart.


@dataclass(frozen=True, eq=False)
class Inherited:
    """A container as a person calls it. ``bytes`` of Python objects in it, without arrays and tensors."""

    name: str
    bytes: float
    path: str
    holder: Holder
    line: Line | None


def inherited(
    recording: Recording, sources: Sequence[Source], pid: int, start_s: float, end_s: float
) -> Inherited | None:
    """Of a parent whose forks lived between these moments, by the snapshot that saw most of it then, or before."""
    seen = whole_heap(recording, pid)
    before = np.flatnonzero(seen.time_s <= end_s)
    during = before[seen.time_s[before] >= start_s]
    moments = during if len(during) else before[-1:]
    named = [one for one in seen.places if len(moments) and one.has_users_name and _is_one(one)]
    found = [(place, int(moments[_inherited_bytes(place)[moments].argmax()])) for place in named]
    heaviest = max(found, key=lambda one: float(_inherited_bytes(one[0])[one[1]]), default=None)
    if heaviest is None:
        return None
    place = _deepest(*heaviest)
    holder = place.as_holder()
    line = next(iter(adding_lines(sources, holder)), None)
    return Inherited(holder_name(place), float(_inherited_bytes(place)[heaviest[1]]), place.path, holder, line)


def _inherited_bytes(place: Place) -> Floats:
    """Of Python objects, without a loader's iterator: the order of the rows comes when its workers are there."""
    later = (one.object_bytes for one in (place, *place.children) if one.type_name.startswith(_ITERATORS))
    return np.maximum(place.object_bytes - sum(later, np.zeros(len(place.deep_bytes))), 0.0)


def _is_one(place: Place) -> bool:
    """Attributes of each of many rows are no place of their own."""
    return bool(place.count.max() <= 1)


def _deepest(place: Place, at: int) -> Place:
    """The last name on the way down that still has most of it."""
    least, best, level = MOST * _inherited_bytes(place)[at], place, [place]
    while level:
        level = [child for above in level for child in above.children if _inherited_bytes(child)[at] >= least]
        named = [one for one in level if one.has_users_name and _is_one(one)]
        best = max(named, key=lambda one: float(_inherited_bytes(one)[at]), default=best)
    return best
