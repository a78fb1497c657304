"""Which snapshots of a process may be compared. Columns of numpy: a dozen diagnoses ask, each of its window."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ...storage import Column, Recording, Rows
from ...units import FEWEST
from ..remembered import remembered
from ..tables import AT_EXIT, cells, figures, narrow, only
from .place import Floats

Mask = NDArray[np.bool_]

_ASKED = (
    "pid", "take", "time_s", "step", "rss_bytes", "reason", "truncated", "python_bytes", "array_bytes", "tensor_bytes",
)  # fmt: skip
# At the end of a run the locals of main() are gone: what such a snapshot shows is no decline.
_LAST_REASONS = (AT_EXIT, "exception")


@dataclass(frozen=True, eq=False)
class Takes:
    """Snapshots of one process, by number: one value of each column a snapshot. NaN where nobody read a figure."""

    number: NDArray[np.int64]
    time_s: Floats
    step: Floats
    rss_bytes: Floats
    reason: NDArray[np.object_]
    is_truncated: Mask
    has_graph: Mask

    def __len__(self) -> int:
        return len(self.number)

    @property
    def numbers(self) -> tuple[int, ...]:
        return tuple(self.number.tolist())

    @property
    def is_last(self) -> Mask:
        """Made as the process ended."""
        return np.isin(self.reason, _LAST_REASONS)

    def at(self, chosen: Any) -> Takes:
        """Some of them, by a mask or by positions."""
        return Takes(*(getattr(self, column.name)[chosen] for column in fields(self)))

    def of(self, numbers: Collection[int]) -> Takes:
        """Those that have one of these numbers."""
        return self.at(np.isin(self.number, list(numbers)))

    def as_if_at_work(self) -> Takes:
        """The same, of which none counts as made at the end."""
        return replace(self, reason=np.full(len(self), "schedule", dtype=object))

    def since_training_began(self, end_s: float) -> Takes:
        """Without those before the first optimizer step, where two remain: it makes the optimizer's state, once."""
        trained = self.at(~np.isnan(self.step))
        return trained if np.sum(~trained.is_last & (trained.time_s <= end_s + 1)) >= 2 else self

    def within(self, start_s: float, end_s: float) -> Takes:
        """Those in the window, with one before it as their base where they are few.

        A process that ended by an exception is also judged on the snapshot made then, since its frames still stood.
        """
        regular = np.flatnonzero(~self.is_last)
        time_s = self.time_s[regular]
        inside = regular[(time_s >= start_s) & (time_s <= end_s + 1)]
        before = regular[time_s < start_s][-1:]
        if len(inside) >= FEWEST:
            return self.at(inside)
        if len(inside) + len(before) >= 2:
            return self.at(np.concatenate([before, inside]))
        if len(regular) >= 2:
            return self.at(regular[-3:])
        return self.at(np.concatenate([regular, np.flatnonzero(self.reason == "exception")[-1:]]))


@dataclass(frozen=True, eq=False)
class _Graphs:
    """The graphs of one process by the number of their snapshot: whether tensors were weighed, and members sampled."""

    number: NDArray[np.int64]
    weighs_tensors: Mask
    is_sampled: Mask


@remembered
def takes_of(recording: Recording, pid: int) -> Takes:
    """All snapshots of a process."""
    rows = _of_process(narrow(recording.rows["takes"], *_ASKED), pid)
    number = _whole(rows["take"])
    return Takes(
        number=number,
        time_s=figures(rows, "time_s"),
        step=figures(rows, "step"),
        rss_bytes=figures(rows, "rss_bytes"),
        reason=np.array([reason or "" for (reason,) in cells(rows, "reason")], dtype=object),
        is_truncated=_flags(rows["truncated"]),
        has_graph=np.isin(number, _graphs_of(recording, pid).number),
    )


def takes_with_graph(recording: Recording, pid: int, but: Collection[int] = ()) -> list[int]:
    """Numbers of the snapshots of a process that have one, and weighed tensors if the last did. ``but``: not these.

    Where the last read too many objects to weigh tensors, those that did are compared with it by all other memory.
    """
    graphs = _graphs_of(recording, pid)
    is_asked_for = ~np.isin(graphs.number, list(but))
    number, weighed = graphs.number[is_asked_for], graphs.weighs_tensors[is_asked_for]
    is_alike = weighed == weighed[-1:]
    is_alike |= (graphs.is_sampled[is_asked_for] & ~weighed)[-1:].any()
    of_a_kind: list[int] = number[is_alike].tolist()
    return of_a_kind


def weigh_alike(recording: Recording, pid: int, takes: Collection[int]) -> bool:
    """Whether all of these snapshots that have a graph weighed tensors, or none did."""
    graphs = _graphs_of(recording, pid)
    weighed = graphs.weighs_tensors[np.isin(graphs.number, list(takes))]
    return bool(weighed.all() or not weighed.any())


def sampled_takes(recording: Recording, pid: int) -> set[int]:
    """Numbers of the snapshots of a process in which members of long containers stood for others."""
    graphs = _graphs_of(recording, pid)
    return set(graphs.number[graphs.is_sampled].tolist())


@remembered
def _graphs_of(recording: Recording, pid: int) -> _Graphs:
    rows = _of_process(recording.rows["heap_graphs"], pid)
    return _Graphs(_whole(rows["take"]), _flags(rows["weighs_tensors"]), _flags(rows["is_sampled"]))


def _of_process(rows: Rows, pid: int) -> Rows:
    """Its rows that have the number of their snapshot, by that."""
    take = figures(rows, "take")
    is_own = (figures(rows, "pid") == pid) & ~np.isnan(take)
    is_in_order = (np.diff(take[is_own]) >= 0).all()
    return only(rows, is_own) if is_in_order else only(rows, is_own).sort_values("take")


def _whole(column: Column) -> NDArray[np.int64]:
    return column.to_numpy().astype(np.int64)


def _flags(column: Column) -> Mask:
    return column.fillna(False).to_numpy(dtype=bool)
