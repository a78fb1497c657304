"""One snapshot where the graph of all objects cannot be read: by Python code alone. Runs in the job, at a safe point.

It counts objects by type, asks torch what it always asks, and names the containers that variables of the user's lead to
in a few steps: how long they are, and what some of their members weigh. Nothing is followed further, and what lies
deeper has no name. It says less than the graph and never something else.

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
    from typing import Any

    from ..interpreter.names import Named
    from .pause import Pauses
    from .torch_look import Look

MOST_TYPES, LEAST_OF_TYPE = 60, 500
MOST_ROWS = 500
LEAST_LENGTH = 16
STEPS = 4  # from a variable, along attributes and the keys of small dicts
RECORD = 32  # a dict of at most so many keys is a record: its keys are names
SAMPLE, DEPTH = 16, 3  # members that are weighed, and how deep
_NO_HOLDERS = names.ids_of(types.ModuleType, types.BuiltinFunctionType, types.MethodType, type, property, str, bytes)
_KEYS_OF_TYPES = "__"  # how names of the interpreter's begin


class PlainSnapshot:
    """``run`` gives (table, row) pairs; the row of ``takes`` is ``summary``."""

    def __init__(self, number: int, pauses: Pauses, look: Look | None, pause_s: float, is_alone: bool) -> None:
        """``is_alone``: no other thread of the job's runs."""
        self.number = number
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
        containers = _Containers(self._pauses.following_ends(self._pause_s))
        if self._is_alone:
            containers.look()
        rows += [("holders", row) for row in containers.rows]
        rows += [("object_types", row) for row in _types(counted)]
        if look is not None:
            rows += look.rows([(None, False)] * len(look.marks))
        deep = sum(row["deep_bytes"] for row in containers.rows if row["parent_path"] is None)
        arrays = sum(row["array_deep_bytes"] for row in containers.rows if row["parent_path"] is None)
        self.summary = {
            "gc_object_count": sum(count for _, count in counted) if self.is_swept else None,
            "gc_frozen_count": gc.get_freeze_count() if self._pauses.allows_frozen_count() else None,
            "visited_count": containers.visited,
            "reached_count": len(containers.rows),
            "truncated": True,
            "python_bytes": int(deep - arrays),
            "array_bytes": int(arrays),
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


class _Containers:
    """Rows of the table ``holders``: containers at the end of a few steps from a variable, and at their beginning."""

    def __init__(self, ends_s: float) -> None:
        self._ends_s = ends_s
        self._seen: set[int] = set()
        self.rows: list[dict[str, Any]] = []
        self.visited = 0

    def look(self) -> None:
        modules = names.user_namespaces()
        self._seen.update(id(namespace) for _, namespace, _ in modules)
        for module, namespace, file in modules:
            shown = _label(module, file)
            for name, value in reading.pairs(namespace):
                if type(name) is not str or name.startswith(_KEYS_OF_TYPES):
                    continue
                named = (name, shown, module, file, None, True)
                if names.is_a(type(value), type):
                    if names.module_of(value) == module:
                        self._attributes_of_class(value, f"{shown}.{name}", module, file)
                else:
                    self._follow(f"{shown}.{name}", value, "module", "global", named, STEPS)
        self._follow_frames(sys._getframe())

    def _attributes_of_class(self, cls: type, path: str, module: str, file: str | None) -> None:
        for name, value in list(names.namespace_of(cls).items()):
            if not name.startswith(_KEYS_OF_TYPES):
                named = (name, names.qualname_of(cls), module, file, None, True)
                self._follow(f"{path}.{name}", value, "module", "class-attribute", named, STEPS)

    def _follow_frames(self, frame: FrameType | None) -> None:
        """The outermost first: its names last longest, and an object keeps the name that it got first."""
        frames: list[FrameType] = []
        while frame is not None:
            frames.append(frame)
            frame = frame.f_back
        while frames:
            self._follow_frame(frames.pop(), "frame", STEPS)

    def _follow_frame(self, frame: FrameType, root: str, steps: int) -> None:
        code = frame.f_code
        if not names.is_user_file(names.file_of(code)) or names.name_of(code) == "<module>":
            return
        name = names.qualified_name_of(code)
        owner = (name, names.module_of_frame(frame), names.file_of(code), code.co_firstlineno)
        short = name.rsplit("<locals>.", 1)[-1]
        for variable, value in reading.frame_locals(frame):
            self._follow(f"{short}() {variable}", value, root, "local", names.named_by(variable, owner), steps)

    def _follow_function(self, function: Any, path: str, root: str, steps: int) -> None:
        """What a function of the user's keeps: variables of those it was made in, and defaults."""
        code, owner = function.__code__, names.names_of(function)
        if not names.is_user_file(names.file_of(code)):
            return
        # Either may be of a class derived from tuple, with code of its own.
        closure, defaults = (
            value if type(value) is tuple else () for value in (function.__closure__, function.__defaults__)
        )
        arguments = code.co_varnames[: code.co_argcount][-len(defaults) :] if defaults else ()
        for edge, variables, values in (("cell", code.co_freevars, closure), ("default", arguments, defaults)):
            for variable, value in zip(variables, values):
                inner = gc.get_referents(value)[:1] if edge == "cell" else [value]
                while inner:
                    named = names.named_by(variable, owner)
                    self._follow(f"{path} {variable}", inner.pop(), root, edge, named, steps - 1)

    def _follow(
        self, path: str, value: Any, root: str, edge: str, named: Named, steps: int, parent: str | None = None
    ) -> None:
        cls = type(value)
        is_done = id(value) in self._seen or id(cls) in _NO_HOLDERS or len(self.rows) >= MOST_ROWS
        if is_done or not steps or thread_time() > self._ends_s or names.is_a(cls, type):
            return
        self._seen.add(id(value))
        self.visited += 1
        if cls is types.FunctionType:
            self._follow_function(value, path, root, steps)
            return
        if cls is types.GeneratorType and value.gi_frame is not None:
            self._follow_frame(value.gi_frame, root, steps - 1)
            return
        base = bytearray if cls is bytearray else reading.base_of(cls)
        length = None if base is None else base.__len__(value)
        if length is not None and length >= LEAST_LENGTH:
            self.rows.append(self._row(path, value, root, edge, named, base, length, parent))
            parent = path
        if base is dict and length is not None and length <= RECORD:
            for key, inner in reading.pairs(value):
                if type(key) is str:
                    self._follow(f"{path}['{key}']", inner, root, "item", named, steps - 1, parent)
        elif base is None:
            module = names.module_of(cls)
            file = names.module_file(module)
            owner = names.qualname_of(cls)
            for key, inner in reading.pairs(reading.attributes_of(value) or {}):
                if type(key) is str:
                    its = (key, owner, module, file, None, names.is_user_module(module, file))
                    self._follow(f"{path}.{key}", inner, root, "attribute", its, steps - 1, parent)

    def _row(
        self, path: str, value: Any, root: str, edge: str, named: Named, base: Any, length: int, parent: str | None
    ) -> dict[str, Any]:
        variable, owner, module, file, line, is_user = named
        members = [] if base is bytearray else sampling.picked(base, value, length, min(length, SAMPLE))
        member_type = type(members[0]) if members else None
        weighed = [_weigh(member, DEPTH) for member in members]
        own = names.safe_size(value)
        size, arrays = (
            sum(one[at] for one in weighed) * length / max(1, len(weighed)) for at in (0, 1)
        )  # fmt: skip
        return {
            "path": path,
            "parent_path": parent,
            "root_kind": root,
            "edge_kind": edge,
            "variable": variable,
            "owner": owner,
            "owner_module": module,
            "owner_file": file,
            "owner_line": line,
            "is_user": is_user,
            "type_name": names.type_name(type(value)),
            "member_type": None if member_type is None else names.type_name(member_type),
            "object_count": 1,
            "length": length,
            "shallow_bytes": own,
            "deep_bytes": int(own + size),
            "array_deep_bytes": int(arrays),
            "tensor_deep_bytes": 0,
        }


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


def _label(module: str, file: str | None) -> str:
    """The name a person knows a module by: the script's own instead of ``__main__``."""
    if module in ("__main__", "__mp_main__") and type(file) is str:
        base = file.replace("\\", "/").rsplit("/", 1)[-1]
        return base[:-3] if base.endswith(".py") else base
    return module
