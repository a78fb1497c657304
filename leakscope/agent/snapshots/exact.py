"""One snapshot of a process by the graph of its objects alone. Runs in the job, on the agent's thread.

All that looks at objects is one call of C, which keeps the GIL: no thread of the job goes on meanwhile, nothing of the
job's is called, no reference count moves, and the heap is as consistent as for the collector, which any thread may
begin. So there is no safe point to wait for, and nothing of ours runs on a thread of the job's. What follows is done on
our own thread, most of it without the GIL. Of no object a reference is held meanwhile: the job's finalizers would run
on our thread, were it the last.
"""

from __future__ import annotations

from time import thread_time

from .. import probes
from ..interpreter import doors, names
from ..native import room
from ..walking import sketch

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..graph.heap_graph import Found, HeapGraph
    from .pause import Pauses

_PROBES = probes.without_walk(probes.found())
MOST_TYPES, LEAST_OF_TYPE = 60, 500
MOST_STACKS = 50


class ExactSnapshot:
    """``run`` gives (table, row) pairs; the row of ``takes`` is ``summary``."""

    def __init__(self, number: int, graph: HeapGraph, pauses: Pauses) -> None:
        self.number = number
        self._graph = graph
        self._pauses = pauses
        self.walk = None
        self.pause_s = 0.0
        self.summary: dict[str, Any] = {}

    def read(self) -> bool:
        """Whether the graph was read: it fits into the pause and into memory. Nothing of the job's runs meanwhile."""
        began = thread_time()
        most = self._pauses.most_objects(self._graph.object_s)
        is_read = self._graph.read(self.number, most, room.left_bytes()) is not None
        self.pause_s = thread_time() - began
        if is_read:
            self._pauses.counted(self._graph.counted)
        elif self._graph.counted > most > 0:
            self._pauses.too_many()
        return is_read

    def run(self) -> list[tuple[str, dict[str, Any]]]:
        """What was read says."""
        began = thread_time()
        found = self._graph.work_out(_sketch, sketch.LEAST_BYTES)
        if found is None:
            return []
        self.summary = {
            "gc_object_count": found.listed_count,
            "gc_frozen_count": found.frozen_count,
            "truncated": False,
            "python_bytes": found.python_bytes,
            "array_bytes": found.array_bytes,
            "tensor_bytes": 0,
            "tensor_device_bytes": 0,
            "allocated_blocks": doors.allocated_blocks(),
            "take_cpu_s": self.pause_s + thread_time() - began,
            "duration_s": self.pause_s,
        }
        rows = found.rows
        rows += [("object_types", dict(row, take=self.number)) for row in _types(found)]
        rows += [("threads", dict(row, take=self.number)) for row in _threads(found)]
        rows += probes.rows_of(_PROBES, self)
        return rows


def _sketch(copy: bytes) -> dict[str, Any] | None:
    found = sketch.sketch_of_copy(copy)
    return None if found is None else dict(zip(("row_count", "data_form", "content_sketch"), found))


def _types(found: Found) -> list[dict[str, Any]]:
    ranked = sorted(found.types, key=lambda kind: -kind[1])[:MOST_TYPES]
    columns = ("type_name", "object_count", "reached_count", "shallow_bytes")
    return [dict(zip(columns, kind)) for kind in ranked if kind[1] >= LEAST_OF_TYPE]


def _threads(found: Found) -> list[dict[str, Any]]:
    """Python threads by the outermost user function that they run, or wait to run (``text``: in what)."""
    counts: dict[tuple[Any, ...], int] = {}
    for stack in found.stacks:
        key = _runs(stack)
        counts[key] = counts.get(key, 0) + 1
    columns = ("function", "owner_file", "owner_line", "text", "object_count")
    return [dict(zip(columns, (*key, n))) for key, n in sorted(counts.items(), key=lambda one: -one[1])[:MOST_STACKS]]


def _runs(stack: list[Any]) -> tuple[Any, ...]:
    outermost = [frame for frame in reversed(stack) if frame[0] is not None]
    for frame in outermost:
        if names.is_user_file(frame[1]):
            return (*frame, None)
    for _, type_name, waits in (frame for frame in reversed(stack) if frame[0] is None):
        if names.is_user_file(waits[1]):
            return (*waits, type_name)
    return (*outermost[0], None) if outermost else ("?", None, None, None)
