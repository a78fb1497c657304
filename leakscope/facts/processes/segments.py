"""Segments of shared memory that the job made: files in /dev/shm, deleted ones that are still mapped, System V's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...agent import libraries
from ...findings import LedgerRow
from ...storage import Recording, Rows
from ...units import MOST
from ..code.adding import Line, Source
from ..code.starts import calls, mentions
from ..growth.tree import TreeGrowth
from ..series.arithmetic import Floats
from ..tables import only
from .table import Process

DEV_SHM = "dev-shm"
_UNMAPPED = "unmapped-shared-memory"
_UNTRACKED = ("unregister(", "track=False")  # by which a program takes segments off the list of Python's tracker


class Segments(NamedTuple):
    """Those of one kind that have a name in common, and how many there were. **Shape** rows where that changed."""

    kind: str
    name: str
    rows: Rows

    def at(self, column: str, time_s: Floats) -> Floats:
        """A column at each moment: what was last seen, and 0 before."""
        rows = self.rows.sort_values("time_s")
        values = np.concatenate([[0.0], rows[column].to_numpy(dtype=np.float64)])
        seen = np.searchsorted(rows["time_s"].to_numpy(dtype=np.float64), time_s, side="right")
        return np.asarray(values[seen], dtype=np.float64)


def segments_of_job(recording: Recording, everyone: Sequence[Process], sources: Sequence[Source]) -> list[Segments]:
    """Without those of others on the machine."""
    tracked = recording.rows["tracked_segments"]
    groups = recording.rows["shared_segments"].groupby(["segment_kind", "segment_name"])
    found = [Segments(str(kind), str(name), rows) for (kind, name), rows in groups]
    return [one for one in found if _is_the_jobs(one, tracked, everyone, sources)]


def unmapped(segments: Sequence[Segments], growth: TreeGrowth) -> list[LedgerRow]:
    """What lies in segments that no process maps, at both ends of the judged window: no sum of processes has it."""
    window = np.array([growth.start_s, growth.end_s])
    start, end = (round(level) for level in sum((one.at("unmapped_bytes", window) for one in segments), np.zeros(2)))
    return [LedgerRow(_UNMAPPED, "no process", start, end, end - start, in_total=False)] if start or end else []


def making_line(sources: Sequence[Source], name: str) -> Line | None:
    """The call that makes such segments: of ``SharedMemory``, one that creates comes before one that opens."""
    names = made_as(name).made_by
    made = calls(sources, *names)
    creating = [call for call in made if any(keyword.arg == "create" for keyword in call.node.keywords)]
    own = [call for call in made if name.rstrip("*_-.") and any(name.rstrip("*_-.") in word for word in call.words)]
    chosen = creating or own or (made if name.startswith(("psm_", "torch_")) else [])
    return chosen[0].line if chosen else None


def made_as(name: str) -> libraries.Thing:
    """The library that names its segments so, and what makes them."""
    return next(thing for thing in libraries.all_of(libraries.SHARED) if name.startswith(thing.name))


def _is_the_jobs(segments: Segments, tracked: Rows, everyone: Sequence[Process], sources: Sequence[Source]) -> bool:
    """Python's tracker has them on its list; or a process of the tree was seen with one, or the sources make such."""
    share = _tracked_share(segments, tracked)
    if share is not None and not mentions(sources, *_UNTRACKED):
        return share >= MOST
    if segments.kind != DEV_SHM or any(segments.rows["mapped_by"]):
        return True
    makers = ("resource-tracker", "shm-manager")
    if segments.name.startswith("psm_") and any(process.role in makers for process in everyone):
        return True
    return making_line(sources, segments.name) is not None


def _tracked_share(segments: Segments, tracked: Rows) -> float | None:
    """Of what there was of a name when the trackers looked, what the job had made. None: no tracker looked."""
    if segments.kind != DEV_SHM:
        return None
    own = only(tracked, tracked["segment_name"] == segments.name)
    there = float(segments.at("segment_bytes", own["time_s"].to_numpy(dtype=np.float64)).sum())
    return float(own["segment_bytes"].sum()) / there if there else None
