"""``%%leakscope``: what a cell leaves behind, by the names of the notebook that hold it. Uses the agent's own walk.

Before the cell and after it garbage is collected and the heap walked, a second or two for a million objects. No object
of the notebook is kept in between: only numbers and names.
"""

from __future__ import annotations

import ast
import gc
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Any, NamedTuple

from ..agent.interpreter import names
from ..agent.native.allocators import malloc_in_use_bytes
from ..agent.native.memory import rss_bytes
from ..agent.torch.tensor_openers import Tensors
from ..agent.walking import openers, roots
from ..agent.walking.walk import Walk
from ..units import format_bytes, format_count
from ._html import growth_html

_WALK_S = 5.0  # of CPU time for one walk; more would be a nuisance after every cell
_LEAST_BYTES = 64 * 1024  # a name that gained less is left out
_NOISE = 0.1  # of what a name held: large containers are weighed by a sample of their members
_CARRIES = 0.8  # of a name's growth: the longest path that still carries it is the one to show
_MOST_ROWS = 10
_LEAST_OBJECTS = 10
_WARM_UP = "A first run also pays for imports, caches and threads: run the cell again to see what each run leaves."


class Holder(NamedTuple):
    """All objects at one path: bytes with what was first reached through them."""

    parent: str | None
    deep_bytes: int
    length: int | None


@dataclass(frozen=True)
class Heap:
    """The objects of the notebook's process at one moment, as numbers and names."""

    counts: Counter[str]
    tensor_count: int
    holders: Mapping[str, Holder]
    truncated: bool


class Memory(NamedTuple):
    """What the kernel and malloc say; None where they do not."""

    rss_bytes: int | None
    malloc_bytes: int | None


@dataclass(frozen=True)
class Growth:
    """What lies between two moments; shows itself."""

    memory: tuple[Memory, Memory]
    before: Heap
    after: Heap
    freed_count: int

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
        parts.append(f"live tensors {self.after.tensor_count - self.before.tensor_count:+,}")
        return "Left behind: " + ", ".join(parts)

    def rows(self) -> list[tuple[str, str, str]]:
        """(path, growth, members) of the names that gained most, largest first."""
        found = sorted(((self._gain(path), path) for path in self._accumulating()), key=lambda row: (-row[0], row[1]))
        return [
            (path, format_bytes(gain, signed=True), _change(self.before.holders.get(path), self.after.holders[path]))
            for gain, path in found[:_MOST_ROWS]
        ]

    def lines(self) -> list[str]:
        """What else there is to say."""
        said = []
        own = __name__.split(".")[0] + "."
        gained = (self.after.counts - self.before.counts).most_common()
        types = [f"{name} {n:+,}" for name, n in gained if n >= _LEAST_OBJECTS and not name.startswith(own)]
        if types:
            said.append("New objects: " + ", ".join(types[:6]))
        if self.freed_count >= _LEAST_OBJECTS:
            said.append(f"A collection after the cell freed {format_count(self.freed_count)} objects in cycles")
        if self.before.truncated or self.after.truncated:
            said.append(f"The heap is too large to be walked in {_WALK_S:.0f} s: figures of names are lower bounds")
        return [*said, _WARM_UP]

    def _gain(self, path: str) -> int:
        known = self.before.holders.get(path)
        return self.after.holders[path].deep_bytes - (known.deep_bytes if known else 0)

    def _noise(self, path: str) -> float:
        """By how much two estimates of a name differ that has as many members as before."""
        known = self.before.holders.get(path)
        return _NOISE * known.deep_bytes if known and known.length == self.after.holders[path].length else 0.0

    def _accumulating(self) -> Iterator[str]:
        """From each name that gained, down the path as long as one member carries nearly all of it."""
        members: dict[str | None, list[str]] = {}
        for path, holder in self.after.holders.items():
            members.setdefault(holder.parent, []).append(path)
        for path in members.get(None, ()):
            gain = self._gain(path)
            if gain < max(_LEAST_BYTES, self._noise(path)):
                continue
            while True:
                inner = max(members.get(path, ()), key=self._gain, default=None)
                if inner is None or inner.endswith("[*]") or self._gain(inner) < _CARRIES * gain:
                    break
                path = inner
            yield path


def heap(namespace: Mapping[str, object], hidden: frozenset[str] = frozenset()) -> Heap:
    """What is there now. ``namespace`` is the user's; of its names, ``hidden`` ones are not walked."""
    types = {id(cls): cls for cls in map(type, gc.get_objects())}
    by_address = Counter(map(id, map(type, gc.get_objects())))
    census = names.ByClass()
    counts: Counter[str] = Counter()
    for key, count in by_address.items():
        if key in types:
            census.set(types[key], count)
            counts[names.type_name(types[key])] += count
    tensor = names.getattr_plain(sys.modules.get("torch"), "Tensor")
    tensor_count = sum(count for cls, count in census.items() if tensor is not None and names.is_a(cls, tensor))
    walk = Walk(time.thread_time() + _WALK_S, Tensors())
    _feed(walk, namespace, hidden)
    walk.finish(census)
    holders: dict[str, Holder] = {}
    for node in walk.nodes:
        path = node.path()
        parent = node.parent.path() if node.parent is not None else None
        length = None if node.length is None else int(node.length)
        known = holders.get(path)  # of another type
        if known is not None:
            holders[path] = known._replace(deep_bytes=known.deep_bytes + int(node.deep), length=length or known.length)
        else:
            holders[path] = Holder(parent, int(node.deep), length)
    return Heap(counts, tensor_count, holders, walk.is_cut_short())


def _feed(walk: Walk, namespace: Mapping[str, object], hidden: frozenset[str]) -> None:
    """The notebook's names first, then modules of the user's, then what IPython keeps: In, Out and the last results."""
    walk.seen.add(id(sys.modules))
    for module in list(sys.modules.values()):
        walk.seen.add(id(module))
        walk.seen.add(id(getattr(module, "__dict__", None)))
    own = [name for name in namespace if name not in hidden and not name.startswith("_")]
    kept = [name for name in ("Out", "In", "_", "__", "___") if name in namespace]
    for name in own:
        _root(walk, name, namespace[name], "__main__", None)
    for module_name, module in list(sys.modules.items()):
        file, globals_of = names.module_file(module_name), getattr(module, "__dict__", None)
        if module_name == "__main__" or type(globals_of) is not dict or _is_ours(module_name):
            continue
        if names.is_user_module(module_name, file):
            for name, value in list(globals_of.items()):
                if type(name) is str and not name.startswith("__"):
                    _root(walk, f"{roots.module_label(module_name, file)}.{name}", value, module_name, file)
    for name in kept:
        _root(walk, name, namespace[name], "__main__", None)


def _root(walk: Walk, label: str, value: object, module: str, file: str | None) -> None:
    walk.root("module", label, openers.GLOBAL, value, (label, module, module, file, None, True))
    walk.run()


def _is_ours(module: str) -> bool:
    return module.split(".")[0] == __name__.split(".")[0]


def _change(before: Holder | None, after: Holder) -> str:
    if after.length is None:
        return ""
    was = before.length if before and before.length is not None else 0
    return f"{was:,} → {after.length:,}"


def register(ipython: Any) -> None:
    """Add the magic to a running IPython."""

    def leakscope(line: str, cell: str) -> Any:
        """What this cell leaves behind: memory, objects by type, and the names that hold them."""
        gc.collect()
        before = heap(ipython.user_ns, frozenset(ipython.user_ns_hidden))
        memory = Memory(rss_bytes(), malloc_in_use_bytes())  # after the walk, whose own memory is not the cell's
        try:
            return _run(ipython, line + "\n" + cell if line else cell)
        finally:
            # After an error, too: what a failed cell holds is what one wants to know.
            _show(ipython, memory, before)

    ipython.register_magic_function(leakscope, "cell", "leakscope")


def _show(ipython: Any, memory: Memory, before: Heap) -> None:
    display = import_module("IPython.display").display  # it is there when this runs, and has no types
    freed_count = gc.collect()
    now = Memory(rss_bytes(), malloc_in_use_bytes())
    after = heap(ipython.user_ns, frozenset(ipython.user_ns_hidden))
    display(Growth((memory, now), before, after, freed_count))


def _run(ipython: Any, cell: str) -> Any:
    """Run a cell in the notebook's names and return the value of its last expression, as the notebook would show it."""
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
