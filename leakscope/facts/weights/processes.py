"""The same weights in several processes of one job: workers that each hold a model of their own.

Only processes that take snapshots are seen, which forked workers do not: they share the parent's pages anyway.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from ..growth.processes import ProcessGrowth, rows_of
from ..tables import int_of
from .pairs import History, Thresholds, is_same
from .sets import Key, WeightSet, likeness

if TYPE_CHECKING:
    from ...storage import Recording


@dataclass(frozen=True, eq=False)
class Held:
    """A set of weights in one process."""

    process: ProcessGrowth
    weights: WeightSet
    bytes: int


@dataclass(frozen=True, eq=False)
class Spread:
    """A model and the other processes that hold it too. ``purpose``: None where the copies could go."""

    original: Held
    copies: list[Held] = field(default_factory=list)
    purpose: str | None = None

    @property
    def bytes(self) -> int:
        return sum(copy.bytes for copy in self.copies)


def spreads(
    recording: Recording, histories: Sequence[tuple[ProcessGrowth, History]], thresholds: Thresholds
) -> Iterator[Spread]:
    """Every model that other processes hold too, each copy told once; the oldest process has the original."""
    in_order = sorted(histories, key=lambda item: (item[0].start_ticks, item[0].pid))
    claimed: set[tuple[int, str]] = set()
    for number, (process, history) in enumerate(in_order):
        for path, original in history.rounds[-1].sets.items():
            if (process.pid, path) in claimed or not original.is_model or len(original) < thresholds.min_tensors:
                continue
            by_purpose: dict[str | None, Spread] = {}
            for other, its_history in in_order[number + 1 :]:
                for its_path, copy in its_history.rounds[-1].sets.items():
                    keys = _equal_keys(path, history, copy, thresholds)
                    if (other.pid, its_path) in claimed or copy.is_master or not keys:
                        continue
                    claimed.add((other.pid, its_path))
                    bytes = copy.bytes_of(keys)
                    purpose = _purpose(recording, (process, history, path), (other, its_history, its_path), bytes)
                    held = Held(process, original, original.bytes_of(set(original.keys)))
                    by_purpose.setdefault(purpose, Spread(held, [], purpose)).copies.append(Held(other, copy, bytes))
            yield from by_purpose.values()


def _equal_keys(path: str, history: History, copy: WeightSet, thresholds: Thresholds) -> set[Key]:
    """The tensors of a copy that equal those of the model now, or at its first look."""
    if len(copy) < thresholds.min_tensors:
        return set()
    looks = [r.sets[path] for r in history.rounds if path in r.sets]
    for weights in (looks[-1], looks[0]):
        like = likeness(weights, copy, near_distance=thresholds.near_distance)
        if is_same(like, thresholds) and like.repeats <= 1:
            return like.keys[1]
    return set()


def _purpose(
    recording: Recording,
    original: tuple[ProcessGrowth, History, str],
    copy: tuple[ProcessGrowth, History, str],
    bytes: int,
) -> str | None:
    """Why the copy has to be there; None where nothing says so."""
    process, history, path = copy
    if _rank(recording, original[0]) is not None and _rank(recording, process) is not None:
        return "each rank of a distributed job holds the model"
    if history.is_moving(path) or history.is_stepping():
        return "each of them trains it"
    if _most_shared_bytes(recording, process) >= bytes:
        return "it is in shared memory, once for all of them"
    if original[1].is_moving(original[2]) and process.role != "dataloader-worker":
        return "one trains it, the other works with the weights it was given"
    return None


def _rank(recording: Recording, process: ProcessGrowth) -> int | None:
    rows = rows_of(recording.tables["processes"], process)
    return int_of(rows.iloc[-1], "rank") if len(rows) else None


def _most_shared_bytes(recording: Recording, process: ProcessGrowth) -> int:
    shared = rows_of(recording.tables["process_samples"], process)["shmem_bytes"].dropna()
    return int(shared.max()) if len(shared) else 0
