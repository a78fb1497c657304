"""One snapshot of the Python heap. Runs at a safe point, on the thread that owns it.

A snapshot pauses its thread and holds the collector back in between (its own allocations must not decide when the job's
garbage is collected). When it returns it holds no object of the job: only rows of numbers and strings remain.
"""

from __future__ import annotations

import gc
import types
from time import perf_counter, thread_time

from .. import probes
from ..interpreter import collector, doors, names
from ..native.memory import rss_bytes
from ..probes import weights as weight_rows
from ..torch import autograd, frameworks, gradients, loaders, tensor_openers, tensors
from ..walking import beyond, heap, roots, walk
from . import pause

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any

    from ..torch.tensors import Inventory
    from ..walking.remembered import Remembered

_PROBES = probes.found()
_SUSPENDED = names.ids_of(types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
MOST_FACTORS = 200
_TORCH = ("Tensor", "Module", "Optimizer", "Iterator")


class Snapshot:
    """``run`` gives (table, row) pairs; ``memory`` is what snapshots leave to each other."""

    def __init__(
        self,
        number: int,
        pause_s: float,
        memory: Remembered,
        main_thread: int,
        agent_thread: int | None,
        safe_point: str,
        batch_storages: Iterable[int] = (),
        with_torch: bool = True,
        pauses: pause.Pauses | None = None,
    ) -> None:
        self.number = number
        self.memory = memory
        self.main_thread = main_thread
        self.agent_thread = agent_thread
        self.safe_point = safe_point
        self.pause_s = pause_s
        self.pauses = pause.unlimited() if pauses is None else pauses
        self.is_swept = True  # False: what the walk sees is all
        self.batch_storages = batch_storages
        # Off the training thread nothing of torch is looked at.
        self.looks_into_torch = with_torch and safe_point != "agent-thread"
        self.inventory: Inventory | None = None
        self.labels: dict[int, str] = {}  # id of a model or optimizer -> the path that holds it
        self.other_rows: list[tuple[str, dict[str, Any]]] = []
        self.walk: Any = None
        self.census: Any = None
        self.reached: Any = None  # objects by class that the walk stands for
        self.frozen_count: int | None = 0
        self.threads: Any = None
        self.summary: dict[str, Any] = {}

    def run(self) -> list[tuple[str, dict[str, Any]]]:
        """Take it. Returns [(table, row), …]; the row of ``takes`` is ``self.summary``."""
        try:
            with collector.HeldBack():
                return self._run()
        finally:
            self.walk = self.census = self.reached = self.threads = self.inventory = None

    def _run(self) -> list[tuple[str, dict[str, Any]]]:
        begin, begin_cpu = perf_counter(), thread_time()
        rss = rss_bytes()
        further = beyond.Beyond(self.memory)
        looks = self.looks_into_torch
        kinds_of = {name: tensors.types_of(name) if looks else frozenset() for name in _TORCH}
        states = frameworks.types()
        wanted = _SUSPENDED.union(further.types, states, *kinds_of.values())
        # As dear as to count the others, which they are missing from.
        self.frozen_count = gc.get_freeze_count() if self.pauses.allows_frozen_count() else None
        is_wanted = autograd.is_node if kinds_of["Tensor"] else None
        picked, large = self._sweep(wanted, is_wanted, further)
        if self.is_swept:
            self._look_into_torch(picked, kinds_of)
        if states:
            texts = frameworks.look([obj for obj in picked if id(type(obj)) in states], states)
            self.other_rows += [("marks", {"text": text}) for text in texts[:4]]
        suspended = [obj for obj in picked if id(type(obj)) in _SUSPENDED]
        further.keep(picked, large)
        graph_nodes = frozenset(id(obj) for obj in picked if id(type(obj)) not in wanted)
        del picked, large
        self.deadline = self.pauses.walk_ends(self.pause_s)
        inventory = self.inventory
        self.walk = walk.Walk(
            self.deadline,
            tensors=tensor_openers.Tensors(
                no_backward_runs(self.safe_point, self.main_thread, self.agent_thread), graph_nodes
            )
            if looks
            else None,
            landmarks=() if inventory is None else inventory.roots,
        )
        self.walk.held = further.held()
        if not self.is_swept:
            self.walk.factors = self.memory.factors
        self.threads = roots.feed(
            self.walk, self.main_thread, self.agent_thread, suspended, self.memory.registry_lengths
        )
        del suspended
        further.feed(self.walk, min(self.deadline + self.pause_s, self.pauses.ends()))
        self.walk.finish(self.census)
        self.reached = self.walk.reached()
        if self.is_swept:
            self.memory.factors = self._factors()
        if inventory is not None:
            tensors.settle(inventory, self.walk)
        rows = [(table, dict(row, take=self.number)) for table, row in self._named(self.other_rows)]
        rows += probes.rows_of(_PROBES, self)
        nodes = self.walk.nodes
        explained = sum(n.deep for n in nodes if n.parent is None)
        beyond.note_growth(self.memory, rss, explained)
        array_bytes = sum(n.deep_array for n in nodes if n.parent is None)
        held_tensor_bytes = sum(n.deep_tensor for n in nodes if n.parent is None)
        self.summary = {
            "gc_object_count": sum(self.census.values()) if self.is_swept else None,
            "gc_frozen_count": self.frozen_count,
            "visited_count": self.walk.visited,
            "reached_count": int(sum(n.count for n in nodes)),
            "truncated": self.walk.is_cut_short(),
            "python_bytes": int(explained - array_bytes - held_tensor_bytes),
            "array_bytes": int(array_bytes),
            "tensor_bytes": self._tensor_bytes(kinds_of, host=True),
            "tensor_device_bytes": self._tensor_bytes(kinds_of, host=False),
            "allocated_blocks": doors.allocated_blocks(),
            "take_cpu_s": thread_time() - begin_cpu,
            "duration_s": perf_counter() - begin,
        }
        return rows

    def _sweep(
        self, wanted: frozenset[int], is_wanted: Callable[[type], bool] | None, further: beyond.Beyond
    ) -> tuple[list[Any], list[Any]]:
        """(the objects of the types wanted, the long containers), and the census; nothing where it takes too long."""
        passes: float = 1 if is_wanted is None else 2  # types that are met for the first time cost another
        if further.least_length is not None and not self.pauses.allows_sweep(passes + heap.PASSES_FOR_LENGTHS):
            further.least_length = None
        self.is_swept = self.pauses.allows_sweep(passes)
        if not self.is_swept:
            self.census = names.ByClass()
            return [], []
        if further.least_length is not None:
            passes += heap.PASSES_FOR_LENGTHS
        began = thread_time()
        self.census, picked, large = heap.sweep(wanted, is_wanted, further.least_length)
        self.pauses.swept(sum(self.census.values()), thread_time() - began, passes)
        self.memory.pass_s = max(self.memory.pass_s, self.pauses.referrers_s())
        return picked, large

    def _factors(self) -> dict[tuple[str, str], float]:
        """What the census said of places whose objects others hold too, for a snapshot that is made without one."""
        shared = [n for n in self.walk.nodes if n.factor < 1.0]
        return {(n.path(), names.type_name(n.cls)): n.factor for n in shared[:MOST_FACTORS]}

    def _tensor_bytes(self, kinds_of: dict[str, frozenset[int]], host: bool) -> int | None:
        """None: there may be some, and nobody looked."""
        if self.inventory is not None:
            return self.inventory.bytes_on(host)
        return None if kinds_of["Tensor"] and not self.is_swept else 0

    def _look_into_torch(self, picked: list[Any], kinds_of: dict[str, frozenset[int]]) -> None:
        """What is read of live tensors, models, optimizers and loaders before the walk, and none of it kept."""
        if not kinds_of["Tensor"]:
            return
        alike = {name: [obj for obj in picked if id(type(obj)) in kinds] for name, kinds in kinds_of.items()}
        if len(alike["Module"]) > tensors.MOST_MODULES:
            alike["Module"] = []
        try:
            self.inventory = tensors.look(
                kinds_of["Tensor"], alike["Tensor"], alike["Module"], alike["Optimizer"], self.batch_storages,
                self.memory, with_values=True,
            )  # fmt: skip
            self.other_rows += [("loaders", row) for row in loaders.look(alike["Iterator"])]
            if self.inventory is not None and self.safe_point == "optimizer-step":
                self.other_rows += [("gradients", row) for row in gradients.look(self.inventory.parameters)]
        except Exception as error:
            if names.is_foreign(error):
                raise
        finally:
            if self.inventory is not None:
                self.inventory.parameters = []

    def _named(self, rows: Iterable[tuple[str, dict[str, Any]]]) -> Iterator[tuple[str, dict[str, Any]]]:
        """Rows in which ids of models have become the paths that the walk found."""
        for table, row in rows:
            root = row.get("weight_set")
            if type(root) is int:
                row["weight_set"] = weight_rows.label_of(self, root)
            yield table, row


def no_backward_runs(safe_point: str, main_thread: int, agent_thread: int | None) -> bool:
    """Nobody can be inside autograd's backward now: it is this thread's turn, and no other could have called it."""
    if safe_point == "optimizer-step":
        return True
    others = [ident for ident in doors.current_frames() if ident not in (main_thread, agent_thread)]
    return safe_point in ("pending-call", "exit") and not others
