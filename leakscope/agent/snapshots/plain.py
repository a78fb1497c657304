"""One snapshot where the graph of all objects cannot be read: by Python code alone. Runs in the job, at a safe point.

It counts objects by type, asks torch what it always asks, and writes down the containers that variables of the user's
lead to in a few steps: how long they are, and what some of their members weigh. They are nodes as those of the graph,
of which this is a sample: on the way to them, by the reference that leads to each. What would be freed with one, nobody
knows here, so that no dominator is told. Nothing is followed further. It says less than the graph and never something
else.

What is followed is held by a variable of ours for a moment. While other threads run, one of them may drop it just then:
it would be finalized here, and later than without us. So names are followed only where no other thread but ours runs.
"""

from __future__ import annotations

import gc
import sys
import types
from time import perf_counter, thread_time

from ..interpreter import census, doors, names, reading, sampling
from .torch_look import is_loaded

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any, Dict, Tuple

    from .pause import Pauses
    from .torch_look import Look

    Numbers = Dict[Tuple[Any, ...], int]

MOST_TYPES, LEAST_OF_TYPE = 60, 500
MOST_ROWS = 500
MOST_NAMES = 20000  # in all snapshots: what has another name each time is no longer looked at then
LEAST_LENGTH = 16
STEPS = 4  # from a variable, along attributes and the keys of small dicts
RECORD = 32  # a dict of at most so many keys is a record: its keys are names
SAMPLE, DEPTH = 16, 3  # members that are weighed, and how deep
_NO_HOLDERS = names.ids_of(types.ModuleType, types.BuiltinFunctionType, types.MethodType, type, property, str, bytes)
_KEYS_OF_TYPES = "__"  # how names of the interpreter's begin
_MODULES, _RUNNING = 1, 2  # what stands for the roots of the graph: the table of modules, running functions
_FIRST_NUMBER = 6


class PlainSnapshot:
    """``run`` gives (table, row) pairs; the row of ``takes`` is ``summary``."""

    def __init__(
        self, number: int, pauses: Pauses, look: Look | None, pause_s: float, is_alone: bool, numbers: Numbers
    ) -> None:
        """``is_alone``: no other thread of the job's runs. ``numbers``: of what earlier snapshots met, by its name."""
        self.number = number
        self._numbers = numbers
        self._pauses = pauses
        self._look = look
        self._pause_s = pause_s
        self._is_alone = is_alone
        self.summary: dict[str, Any] = {}
        self.is_swept = True  # False: there were too many objects to count them

    def run(self, *, holds_still: bool, is_after_step: bool) -> list[tuple[str, dict[str, Any]]]:
        """Take it, the collector held back. Returns [(table, row), …]. No object of the job's is held then."""
        began, began_cpu = perf_counter(), thread_time()
        look = self._look
        passes = 1 if look is None else 2  # types that are met for the first time cost another
        self.is_swept = self._pauses.allows_sweep(passes)
        rows: list[tuple[str, dict[str, Any]]] = []
        counted: list[tuple[type, int]] = []
        if self.is_swept:
            swept_s = thread_time()
            found, picked = census.sweep(() if look is None else look.wanted)
            counted = found.items()
            self._pauses.swept(sum(count for _, count in counted), thread_time() - swept_s, passes)
            if look is not None:
                look.read((counted, picked), None, holds_still=holds_still, is_after_step=is_after_step)
            del picked
        containers = _Containers(self._pauses.following_ends(self._pause_s), self._numbers)
        if self._is_alone:
            containers.look()
        rows += containers.told()
        rows += [("object_types", row) for row in _types(counted)]
        if look is not None:
            rows += look.rows([(None, False)] * len(look.marks))
        self.summary = {
            "gc_object_count": sum(count for _, count in counted) if self.is_swept else None,
            "gc_frozen_count": gc.get_freeze_count() if self._pauses.allows_frozen_count() else None,
            "truncated": True,
            "python_bytes": int(containers.bytes - containers.array_bytes),
            "array_bytes": int(containers.array_bytes),
            "tensor_bytes": self._tensor_bytes(host=True),
            "tensor_device_bytes": self._tensor_bytes(host=False),
            "allocated_blocks": doors.allocated_blocks(),
            "take_cpu_s": thread_time() - began_cpu,
            "duration_s": perf_counter() - began,
        }
        return [(table, dict(row, take=self.number)) for table, row in rows]

    def _tensor_bytes(self, host: bool) -> int | None:
        """None: there may be some, and nobody looked."""
        if self._look is None or not self.is_swept:
            return None if is_loaded() else 0
        return self._look.bytes_on(host)


def _types(counted: list[tuple[type, int]]) -> Iterator[dict[str, Any]]:
    ranked = sorted(counted, key=lambda item: item[1], reverse=True)[:MOST_TYPES]
    for cls, count in ranked:
        if count >= LEAST_OF_TYPE:
            size = count * (names.basicsize_of(cls) + 16)
            yield {"type_name": names.type_name(cls), "object_count": count, "shallow_bytes": size}


class _Step:
    """One object on the way to a container, with the reference by which the one before has it."""

    __slots__ = ("above", "kind", "name", "own_bytes", "owner", "row", "type_name")

    def __init__(
        self,
        above: _Step | int,
        kind: str | None,
        name: str | None,
        type_name: str,
        owner: tuple[str | None, str | None, int | None] = (None, None, None),
    ) -> None:
        """``above``: the one before, or what stands for the roots. ``owner``: name, file and line of what has code."""
        self.above, self.kind, self.name, self.type_name, self.owner = above, kind, name, type_name, owner
        self.row: dict[str, Any] | None = None  # once there is a container below
        self.own_bytes = 0.0

    @property
    def root(self) -> str:
        above = self.above
        while type(above) is _Step:
            above = above.above
        return "module" if above == _MODULES else "frame"


class _Containers:
    """Rows of ``heap_nodes`` and ``heap_children``: containers a few steps from a variable, and the way to them."""

    def __init__(self, ends_s: float, numbers: Numbers) -> None:
        self._ends_s = ends_s
        self._numbers = numbers
        self._seen: set[int] = set()
        self._steps: list[_Step] = []  # those with a row, each after the one before
        self._children: list[dict[str, Any]] = []
        self.bytes = self.array_bytes = 0.0

    def told(self) -> Iterator[tuple[str, dict[str, Any]]]:
        if not self._steps:
            return
        for step in reversed(self._steps):
            row = self._row_of(step)
            row["retained_bytes"] = int(max(step.own_bytes, row["retained_bytes"]))
            if type(step.above) is _Step:
                self._row_of(step.above)["retained_bytes"] += row["retained_bytes"]
            else:
                self.bytes += row["retained_bytes"]
        for step in self._steps:
            yield "heap_nodes", self._row_of(step)
        for row in self._children:
            yield "heap_children", row
        count = len(self._steps)
        figures = {"retained_bytes": int(self.bytes), "array_bytes": int(self.array_bytes), "weighs_tensors": False}
        yield "heap_graphs", dict(figures, node_count=count, edge_count=count, is_sampled=True)

    def look(self) -> None:
        modules = names.user_namespaces()
        self._seen.update(id(namespace) for _, namespace, _ in modules)
        table = _Step(_MODULES, None, None, "dict")
        for module, namespace, _ in modules:
            of_module = _Step(table, "key", module, "module")
            for name, value in reading.pairs(namespace):
                if type(name) is not str or name.startswith(_KEYS_OF_TYPES):
                    continue
                if names.is_a(type(value), type):
                    if names.module_of(value) == module:
                        self._attributes_of_class(value, of_module, name, module)
                else:
                    self._follow(of_module, "attribute", name, value, STEPS)
        self._follow_frames(sys._getframe())

    def _attributes_of_class(self, cls: type, of_module: _Step, name: str, module: str) -> None:
        owner = f"{module}.{names.qualname_of(cls)}", None, None
        of_class = _Step(of_module, "attribute", name, names.type_name(type(cls)), owner)
        for key, value in list(names.namespace_of(cls).items()):
            if not key.startswith(_KEYS_OF_TYPES):
                self._follow(of_class, "attribute", key, value, STEPS)

    def _follow_frames(self, frame: FrameType | None) -> None:
        """The outermost first: its names last longest, and an object keeps the name that it got first."""
        frames: list[FrameType] = []
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        while frames:
            self._follow_frame(frames.pop(), _RUNNING, None, "frame", STEPS)

    def _follow_frame(self, frame: FrameType, above: _Step | int, name: str | None, of: str, steps: int) -> None:
        code = frame.f_code
        file = names.file_of(code)
        if not names.is_user_file(file) or names.name_of(code) == "<module>":
            return
        owner = names.qualified_name_of(code), file, code.co_firstlineno
        step = _Step(above, None if name is None else "attribute", name, of, owner)
        for variable, value in reading.frame_locals(frame):
            self._follow(step, "local", variable, value, steps)

    def _follow_function(self, function: Any, step: _Step, steps: int) -> None:
        """What a function of the user's keeps: variables of those it was made in, and defaults."""
        code = function.__code__
        name, _, file, line = names.names_of(function)
        if not names.is_user_file(file):
            return
        step.owner = name, file, line
        inner_step = _Step(step, "item", None, "tuple")
        # Either may be of a class derived from tuple, with code of its own.
        closure, defaults = (
            value if type(value) is tuple else () for value in (function.__closure__, function.__defaults__)
        )
        arguments = code.co_varnames[: code.co_argcount][-len(defaults) :] if defaults else ()
        for kind, variables, values in (("cell", code.co_freevars, closure), ("default", arguments, defaults)):
            for variable, value in zip(variables, values):
                inner = gc.get_referents(value)[:1] if kind == "cell" else [value]
                while inner:
                    self._follow(inner_step, kind, variable, inner.pop(), steps - 1)

    def _follow(self, above: _Step, kind: str, name: str, value: Any, steps: int) -> None:
        cls = type(value)
        is_done = id(value) in self._seen or id(cls) in _NO_HOLDERS or len(self._steps) >= MOST_ROWS
        is_done = is_done or len(self._numbers) >= MOST_NAMES
        if is_done or not steps or thread_time() > self._ends_s or names.is_a(cls, type):
            return
        self._seen.add(id(value))
        step = _Step(above, kind, name, names.type_name(cls))
        if cls is types.FunctionType:
            self._follow_function(value, step, steps)
            return
        if cls is types.GeneratorType and value.gi_frame is not None:
            self._follow_frame(value.gi_frame, above, name, step.type_name, steps - 1)
            return
        base = bytearray if cls is bytearray else reading.base_of(cls)
        length = None if base is None else base.__len__(value)
        if length is not None and length >= LEAST_LENGTH:
            self._weigh(step, value, base, length)
        if base is dict and length is not None and length <= RECORD:
            for key, inner in reading.pairs(value):
                if type(key) is str:
                    self._follow(step, "key", key, inner, steps - 1)
        elif base is None:
            for key, inner in reading.pairs(reading.attributes_of(value) or {}):
                if type(key) is str:
                    self._follow(step, "attribute", key, inner, steps - 1)

    def _row_of(self, step: _Step) -> dict[str, Any]:
        """Its row, after that of the one before."""
        if step.row is not None:
            return step.row
        above = self._row_of(step.above)["node"] if type(step.above) is _Step else step.above
        owner, file, line = step.owner
        key = (above, step.kind, step.name, step.type_name, step.owner)
        step.row = {
            "node": self._numbers.setdefault(key, len(self._numbers) + _FIRST_NUMBER),
            "path_node": above,
            "root_kind": step.root,
            "type_name": step.type_name,
            "edge_kind": step.kind,
            "edge_name": _edge_name(step),
            "owner": owner,
            "owner_file": file,
            "owner_line": line,
            "is_named": True,
            "retained_bytes": 0,
        }
        self._steps.append(step)
        return step.row

    def _weigh(self, step: _Step, value: Any, base: Any, length: int) -> None:
        """The row of a container, by what some of its members weigh."""
        row = self._row_of(step)
        members = [] if base is bytearray else sampling.picked(base, value, length, min(length, SAMPLE))
        of_type: dict[str, list[float]] = {}  # count, bytes
        for member in members:
            bytes, arrays = _weigh(member, DEPTH)
            self.array_bytes += arrays * length / len(members)
            each = of_type.setdefault(names.type_name(type(member)), [0.0, 0.0])
            each[0] += length / len(members)
            each[1] += bytes * length / len(members)
        own = names.safe_size(value)
        step.own_bytes = own + sum(bytes for _, bytes in of_type.values())
        row.update(length=length, shallow_bytes=own)
        for type_name, (count, bytes) in of_type.items():
            told = {"node": row["node"], "type_name": type_name}
            self._children.append(dict(told, object_count=int(count), retained_bytes=int(bytes)))


def _edge_name(step: _Step) -> str | None:
    """As the graph has it: of keys those that look like names, since others may be anybody's data."""
    if step.kind != "key" or step.name is None:
        return step.name
    return f"['{step.name}']" if all(map(names.is_like_a_name, step.name.split("."))) else None


def _weigh(obj: Any, depth: int) -> tuple[float, float]:
    """(bytes, of these of arrays) of an object and what is in it, as deep as that; of containers by some members."""
    size: float = names.safe_size(obj)
    arrays = 0.0
    cls = type(obj)
    array = names.getattr_plain(sys.modules.get("numpy"), "ndarray")
    if array is not None and cls is array:
        base = array.base.__get__(obj)  # a view keeps all that it looks at
        shown = base if type(base) is array else obj
        arrays += array.nbytes.__get__(shown) if base is None or shown is base else 0
        return size + arrays, arrays
    base = reading.base_of(cls)
    attributes = None if base is not None or id(cls) in _NO_HOLDERS else reading.attributes_of(obj)
    if attributes is not None:
        size += names.safe_size(attributes)
        obj, base = attributes, dict
    length = 0 if base is None else base.__len__(obj)
    if not length or not depth:
        return size, arrays
    members = sampling.picked(base, obj, length, min(length, SAMPLE))
    for one, of_arrays in (_weigh(member, depth - 1) for member in members):
        size += one * length / len(members)
        arrays += of_arrays * length / len(members)
    return size, arrays
