"""One snapshot of a process by the graph of its objects. Runs in the job: mostly on the agent's thread.

All that looks at objects is one call of C, which keeps the GIL: no thread of the job goes on meanwhile, nothing of the
job's is called, no reference count moves, and the heap is as consistent as for the collector, which any thread may
begin. So there is no safe point to wait for, and nothing of ours runs on a thread of the job's. What follows is done on
our own thread, most of it without the GIL. Of no object a reference is held meanwhile: the job's finalizers would run
on our thread, were it the last.

Only where torch is to be asked (torch_look.py) what looks at objects runs at a safe point of the job's, on its thread.

Where there are too many objects to read them all within the pause, the graph is sampled: of long containers it has some
members, which stand for the others. Torch is not asked then: it would have to be asked of each tensor. It has told
once, of a few, where their memory is, and so what was reached is weighed.
"""

from __future__ import annotations

from time import thread_time

from .. import probes
from ..graph import sketch
from ..interpreter import collector, doors, names
from ..native import room
from .torch_look import is_loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    from ..graph.heap_graph import Found, HeapGraph, Swept
    from ..graph.whole import File
    from .pause import Pauses
    from .torch_look import Look

_PROBES = probes.found()
MOST_TYPES, LEAST_OF_TYPE = 60, 500
MOST_CLASSES, LEAST_OF_CLASS = 40, 20  # of which each may have a thread, a socket or a page of its own
MOST_STACKS = 50
LEARNS_FROM_NODES = 20000  # 3 ms


class ExactSnapshot:
    """``run`` gives (table, row) pairs; the row of ``takes`` is ``summary``."""

    def __init__(
        self,
        number: int,
        graph: HeapGraph,
        pauses: Pauses,
        look: Look | None = None,
        left_bytes: Callable[[], int] = room.left_bytes,
    ) -> None:
        """``left_bytes()``: memory that the process may still have, of which the graph takes a part."""
        self.number = number
        self._left_bytes = left_bytes
        self._graph = graph
        self._pauses = pauses
        self._look = look
        self.is_sampled = False
        self.saw_code_run = True
        self.pause_s = 0.0
        self._room_s = 0.0
        self.summary: dict[str, Any] = {}

    @property
    def left_out(self) -> int:
        """Tensors that torch was not asked of."""
        return 0 if self._look is None else self._look.left_out

    def make_room(self, most_s: float) -> None:
        """Have the kernel prepare memory for what is read next, in ``most_s`` at most: the job goes on meanwhile."""
        began = thread_time()
        self._graph.make_room(self._left_bytes(), most_s)
        self._room_s = thread_time() - began

    def read(self, *, holds_still: bool = False, is_after_step: bool = False) -> bool:
        """Whether the graph was read: it fits into the pause and into memory. Nothing of the job's runs meanwhile.

        The others are for the look at torch's objects: what it may ask.
        """
        began = thread_time()
        if self._look is None:
            is_read = self._read_graph(None) is not None
        else:
            with collector.HeldBack():
                is_read = self._read_with(self._look, holds_still, is_after_step)
        self.pause_s = thread_time() - began
        return is_read

    def _read_graph(self, wanted: set[int] | None) -> Swept | None:
        graph, pauses = self._graph, self._pauses
        most = pauses.most_objects(graph.object_s, graph.node_s)
        swept = graph.read(self.number, most, self._left_bytes(), wanted, pauses.most_nodes(graph.node_s))
        self.is_sampled = graph.is_sampled
        if graph.counted > most > 0:
            pauses.too_many()
        elif swept is not None and not self.is_sampled:
            pauses.counted(graph.counted)
            pauses.read(graph.node_count)
        return swept

    def _read_with(self, look: Look, holds_still: bool, is_after_step: bool) -> bool:
        if look.learns_only:
            self._look = None
            self._learn(look)
            return self._read_graph(None) is not None
        swept = self._read_graph(look.wanted)
        if swept is None:
            return False
        if self.is_sampled:
            self._look = None
            return self._read_part(look, swept, holds_still)
        try:
            look.read(swept, self._graph, holds_still=holds_still, is_after_step=is_after_step)
        except BaseException:
            self._graph.drop()
            raise
        self._graph.add(look.ties, look.marks, look.row_count, weighs_tensors=look.weighs_tensors)
        return True

    def _learn(self, look: Look) -> None:
        """Where tensors have their memory, from some of a small part of the graph: to ask one costs a fork a page."""
        graph = self._graph
        swept = graph.read(self.number, 1, self._left_bytes(), look.wanted, LEARNS_FROM_NODES)
        layout = look.learn(swept) if swept is not None else None
        graph.drop()
        if layout is not None:
            graph.weigh_tensors(*layout)

    def _read_part(self, look: Look, swept: Swept, holds_still: bool) -> bool:
        """A part of the graph may have just told where tensors have their memory: it is read again, so that they are
        weighed, if the pause is long enough for both; the next is in any case. Returns whether something is read.
        """
        graph = self._graph
        layout = look.learn(swept)
        if layout is not None and self._pauses.most_nodes(graph.node_s) >= graph.node_count:
            graph.drop()
            graph.weigh_tensors(*layout)
            if self._read_graph(None) is None:
                return False
        if holds_still:
            look.follow_part(swept, graph)
        return True

    def run(self, file: File | None = None) -> list[tuple[str, dict[str, Any]]]:
        """What was read says. ``file``: for the whole graph."""
        began = thread_time()
        found = self._graph.work_out(self._sketch, sketch.LEAST_BYTES, file)
        if found is None:
            return []
        self.saw_code_run = found.runs
        self.summary = {
            "gc_object_count": found.listed_count,
            "gc_frozen_count": found.frozen_count,
            "truncated": self.is_sampled or (self._look is not None and self._look.is_cut_short),
            "python_bytes": found.python_bytes,
            "array_bytes": found.array_bytes,
            "tensor_bytes": self._tensor_bytes(host=True),
            "tensor_device_bytes": self._tensor_bytes(host=False),
            "allocated_blocks": doors.allocated_blocks(),
            "take_cpu_s": self._room_s + self.pause_s + thread_time() - began,
            "duration_s": self.pause_s,
        }
        rows = found.rows
        rows += [("object_types", dict(row, take=self.number)) for row in _types(found)]
        rows += [("threads", dict(row, take=self.number)) for row in _threads(found)]
        rows += probes.rows_of(_PROBES, self)
        if self._look is not None:
            rows += [(table, dict(row, take=self.number)) for table, row in self._look.rows(found.marks)]
        return rows

    def _sketch(self, copy: bytes) -> list[tuple[str, dict[str, Any]]]:
        return sketch.rows_of_copy(copy, {} if self._look is None else self._look.integers)

    def _tensor_bytes(self, host: bool) -> int | None:
        """None: there may be some, and nobody looked."""
        if self._look is None:
            return None if is_loaded() else 0
        return self._look.bytes_on(host)


def _types(found: Found) -> list[dict[str, Any]]:
    """Those with most objects, and of classes that some module has those of which there are some."""
    ranked = sorted(found.types, key=lambda kind: -kind[1])
    told = [kind for kind in ranked[:MOST_TYPES] if kind[1] >= LEAST_OF_TYPE]
    others = (kind for kind in ranked[len(told) :] if "." in kind[0] and kind[1] >= LEAST_OF_CLASS)
    told += [kind for kind, _ in zip(others, range(MOST_CLASSES))]
    columns = ("type_name", "object_count", "reached_count", "shallow_bytes")
    return [dict(zip(columns, kind), base=names.value_base(kind[0])) for kind in told]


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
    # Of a library's thread: what it runs, and not how every thread begins.
    inner = [frame for frame in outermost if not str(frame[1]).endswith("/threading.py")]
    return (*(inner or outermost)[0], None) if outermost else ("?", None, None, None)
