"""``%%leakscope``: what a cell leaves behind, by the names of the notebook that hold it.

Before the cell and after it garbage is collected and all objects are read, half a second for a million. No object of
the notebook is kept in between: only numbers and names.
"""

from __future__ import annotations

import ast
import gc
import os
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import TemporaryDirectory
from types import ModuleType
from typing import Any, NamedTuple

from ..agent.interpreter import census, names
from ..agent.native.allocators import malloc_in_use_bytes
from ..agent.native.memory import rss_bytes
from ..agent.torch import tensors
from ..errors import BadInput
from ..own_heap import OwnHeap
from ..units import format_bytes, format_count
from ._html import growth_html

_LEAST_BYTES = 64 * 1024  # a name that gained less is left out
_CARRIES = 0.8  # of a name's growth: the longest path that still carries it is the one to show
_MOST_ROWS = 10
_LEAST_OBJECTS = 10
_NAMES = "leakscope_names"  # a module that is there during a snapshot: what the notebook's names refer to
_KEPT = ("Out", "In")  # by IPython
_RESULTS = re.compile(r"^_(_|__|\d+)?(?![\w])")  # names for what is in Out
_WARM_UP = "A first run also pays for imports, caches and threads: run the cell again to see what each run leaves."


class Holder(NamedTuple):
    """All objects at one path: bytes that they retain and did not before, members before and after."""

    parent: str | None
    gained_bytes: int
    length: tuple[int, int] | None


@dataclass(frozen=True)
class Objects:
    """How many objects there are at one moment."""

    by_type: Counter[str]
    tensor_count: int


class Memory(NamedTuple):
    """What the kernel and malloc say; None where they do not."""

    rss_bytes: int | None
    malloc_bytes: int | None


@dataclass(frozen=True)
class Growth:
    """What lies between two moments; shows itself."""

    memory: tuple[Memory, Memory]
    objects: tuple[Objects, Objects]
    holders: Mapping[str, Holder]
    freed_count: int
    refusal: str | None = None  # why there are no holders

    def __repr__(self) -> str:
        rows = ["  ".join(row) for row in self.rows()]
        return "\n".join([self.heading(), *rows, *self.lines()])

    def _repr_html_(self) -> str:
        return growth_html(self.heading(), ("held by", "growth", "members"), self.rows(), self.lines())

    def heading(self) -> str:
        """The figures of the whole process."""
        parts = []
        for name, before, after in zip(("resident memory", "malloc in use"), *self.memory):
            if before is not None and after is not None:
                parts.append(f"{name} {format_bytes(after - before, signed=True)}")
        parts.append(f"live tensors {self.objects[1].tensor_count - self.objects[0].tensor_count:+,}")
        return "Left behind: " + ", ".join(parts)

    def rows(self) -> list[tuple[str, str, str]]:
        """(path, growth, members) of the names that gained most, largest first."""
        found = sorted(((self._gain(path), path) for path in self._accumulating()), key=lambda row: (-row[0], row[1]))
        return [
            (path, format_bytes(gain, signed=True), _change(self.holders[path])) for gain, path in found[:_MOST_ROWS]
        ]

    def lines(self) -> list[str]:
        """What else there is to say."""
        said = []
        own = __name__.split(".")[0] + "."
        gained = (self.objects[1].by_type - self.objects[0].by_type).most_common()
        types = [f"{name} {n:+,}" for name, n in gained if n >= _LEAST_OBJECTS and not name.startswith(own)]
        if types:
            said.append("New objects: " + ", ".join(types[:6]))
        if self.freed_count >= _LEAST_OBJECTS:
            said.append(f"A collection after the cell freed {format_count(self.freed_count)} objects in cycles")
        if self.refusal is not None:
            said.append(f"Which names hold it is not known: {self.refusal}")
        return [*said, _WARM_UP]

    def _gain(self, path: str) -> int:
        return self.holders[path].gained_bytes

    def _accumulating(self) -> Iterator[str]:
        """From each name that gained, down the path as long as one member carries nearly all of it."""
        members: dict[str | None, list[str]] = {}
        for path, holder in self.holders.items():
            members.setdefault(holder.parent, []).append(path)
        for path in members.get(None, ()):
            gain = self._gain(path)
            if gain < _LEAST_BYTES:
                continue
            while True:
                inner = max(members.get(path, ()), key=self._gain, default=None)
                if inner is None or inner.endswith("[*]") or self._gain(inner) < _CARRIES * gain:
                    break
                path = inner
            yield path


class Watch:
    """Two looks at the objects of the notebook's process. ``namespace`` is the user's, without its ``hidden`` names."""

    def __init__(self, namespace: Mapping[str, object], hidden: frozenset[str] = frozenset()) -> None:
        self._namespace, self._hidden = namespace, hidden
        self._folder = TemporaryDirectory(prefix="leakscope-")
        self._objects: list[Objects] = []
        self._memory: list[Memory] = []
        self._heap: OwnHeap | None = None
        self._refusal: str | None = None
        gc.collect()  # what garbage held beside a name would be told as that name's growth once it is freed
        try:
            self._heap = OwnHeap(Path(self._folder.name))
            self._take()
        except BadInput as error:
            self._refusal = str(error)
        self._objects.append(_objects())
        self._memory.append(_memory())  # after the look, whose own memory is not the cell's

    def growth(self) -> Growth:
        """What came since."""
        freed_count = gc.collect()
        self._memory.append(_memory())
        self._objects.append(_objects())
        holders: dict[str, Holder] = {}
        try:
            if self._heap is not None and self._refusal is None:
                self._take()
                holders = dict(_holders(self._heap))
        except BadInput as error:
            self._refusal = str(error)
        self._folder.cleanup()
        memory, objects = (self._memory[0], self._memory[1]), (self._objects[0], self._objects[1])
        return Growth(memory, objects, holders, freed_count, self._refusal)

    def _take(self) -> None:
        assert self._heap is not None
        with self._names_are_there():
            self._heap.take()

    @contextmanager
    def _names_are_there(self) -> Iterator[None]:
        """The notebook's names first, then what IPython keeps."""
        own = [name for name in self._namespace if name not in self._hidden and not name.startswith("_")]
        kept = [name for name in _KEPT if name in self._namespace]
        module = ModuleType(_NAMES)
        module.__dict__.update((name, self._namespace[name]) for name in dict.fromkeys(own + kept))
        sys.modules[_NAMES] = module
        try:
            yield
        finally:
            del sys.modules[_NAMES]


def _memory() -> Memory:
    return Memory(rss_bytes(), malloc_in_use_bytes())


def _objects() -> Objects:
    counts, tensors_there = census.sweep(tensors.types_of("Tensor"))
    by_type: Counter[str] = Counter()
    for cls, count in counts.items():
        by_type[names.type_name(cls)] += count
    return Objects(by_type, len(tensors_there))


def _holders(heap: OwnHeap) -> Iterator[tuple[str, Holder]]:
    """By path, as the notebook has it."""
    from ..facts.heap.comparable import heap_of
    from ._arrived import new_bytes

    sources = [(module, file or "", "") for module, _, file in names.user_namespaces() if not _is_ours(module)]
    recording = heap.recording([*sources, (_NAMES, "", "")])
    found = heap_of(recording, os.getpid(), 0.0, float("inf"))
    places = () if found is None else found.places
    new = {} if found is None else new_bytes(recording, found.pid, *found.takes)
    users = [place for place in places if place.reference.is_user and not place.type_name.startswith("leakscope.")]
    own = {place.path for place in users if _path(place.path)}
    for place in places:
        path = _path(place.path)
        if path is None or place.path not in own:
            continue
        parent = None if place.parent is None or place.parent.path not in own else _path(place.parent.path)
        gained = place.growth_bytes
        if place.numbers:  # what another held as well, and let go of, is nothing that the cell left behind
            gained = min(gained, sum(new.get(number, 0.0) for number in place.numbers))
        length = (int(place.length[0]), int(place.length[-1])) if place.has_length else None
        yield path, Holder(parent, int(gained), length)


def _path(path: str) -> str | None:
    """None for a module itself: its names are what one looks for."""
    module, dot, rest = path.partition(".")
    if module not in ("__main__", _NAMES):
        return path if dot else None
    return _RESULTS.sub("Out", rest) or None


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == __name__.split(".")[0]


def _change(holder: Holder) -> str:
    return "" if holder.length is None else f"{holder.length[0]:,} → {holder.length[1]:,}"


def register(ipython: Any, open_recording: Callable[[str], Any]) -> None:
    """Add the magics to a running IPython; ``open_recording`` makes what ``%leakscope stop`` shows."""

    recorder: list[Any] = []  # at most one

    def leakscope(line: str, cell: str | None = None) -> Any:
        """``%leakscope start [FILE]`` and ``%leakscope stop``; before a cell ``%%leakscope``: what it leaves behind."""
        if cell is None:
            return _start_or_stop(line.split(None, 1), recorder, open_recording)
        __tracebackhide__ = "__ipython_bottom__"
        watch = Watch(ipython.user_ns, frozenset(ipython.user_ns_hidden))
        try:
            return _run(ipython, line + "\n" + cell if line else cell)
        finally:
            # After an error, too: what a failed cell holds is what one wants to know.
            display = import_module("IPython.display").display  # it is there when this runs, and has no types
            display(watch.growth())

    ipython.register_magic_function(leakscope, "line_cell", "leakscope")


def _start_or_stop(words: list[str], recorder: list[Any], open_recording: Callable[[str], Any]) -> Any:
    """``recorder``: the one that is at work, if there is one."""
    from ..beside import record

    if words[:1] == ["start"]:
        if recorder:
            raise BadInput(f"{recorder[0].path} is being recorded: %leakscope stop ends it")
        recorder.append(record(*words[1:]))
        try:
            recorder[0].start()
        except BaseException:
            recorder.clear()
            raise
        print(f"recording this kernel into {recorder[0].path}: %leakscope stop ends it")
        return None
    if words == ["stop"]:
        if not recorder:
            raise BadInput("nothing is being recorded: %leakscope start begins")
        return open_recording(recorder.pop().stop())
    raise BadInput("%leakscope start [FILE], %leakscope stop, or %%leakscope at the head of a cell")


def _run(ipython: Any, cell: str) -> Any:
    """Run a cell in the notebook's names and return the value of its last expression, as the notebook would show it."""
    __tracebackhide__ = "__ipython_bottom__"
    source = ipython.transform_cell(cell)
    name = ipython.compile.cache(source, ipython.execution_count)  # so that a traceback shows its lines
    tree = ast.parse(source, name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    exec(compile(tree, name, "exec"), ipython.user_ns)
    if isinstance(last, ast.Expr) and not source.rstrip().endswith(";"):
        return eval(compile(ast.Expression(last.value), name, "eval"), ipython.user_ns)
    if isinstance(last, ast.Expr):
        exec(compile(ast.Module([last], []), name, "exec"), ipython.user_ns)
    return None
