"""What the code that loader workers run keeps: read from the sources, since a forked worker takes no inventory.

Workers run a data set's ``__getitem__`` or ``__iter__`` and what these call. Functions are followed by name only, as
far as the user's own sources go. Text in, holders out, those nearest to the data set first.
"""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import NamedTuple, Union

from ._kept_code import added_to
from ._source_index import Source, last_name, parse, tail
from ._source_names import Holder

_ENTRIES = ("__getitem__", "__getitems__", "__iter__", "__next__")
_HOOKS = ("collate_fn", "worker_init_fn")  # arguments of DataLoader that run in workers too
_CACHES = ("cache", "lru_cache")
_OF_FIXED_SIZE = frozenset(("array", "arange", "empty", "full", "memmap", "ones", "zeros"))
_MOST_FUNCTIONS = 300

_Def = Union[ast.FunctionDef, ast.AsyncFunctionDef]


class _Function(NamedTuple):
    node: _Def
    owner: str | None  # class
    source: Source


class Code:
    """Functions and classes of the user's sources, by name."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.functions: dict[str, list[_Function]] = defaultdict(list)
        self.bases: dict[str, list[str]] = {}
        self._globals: dict[str, frozenset[str]] = {}
        self._fixed: set[str] = set()
        self._hooks: list[str] = []
        for source in sources:
            tree = parse(source.text)
            if tree is not None:
                self._add(tree, source)

    def _add(self, tree: ast.Module, source: Source) -> None:
        self._globals[source.file] = frozenset(
            name for node in tree.body if not _is_def(node) for name in _assigned(node)
        )
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                self.bases[node.name] = [last_name(base) for base in node.bases]
                for member in node.body:
                    if isinstance(member, (ast.FunctionDef, ast.AsyncFunctionDef)):
                        self.functions[member.name].append(_Function(member, node.name, source))
            elif isinstance(node, ast.Assign) and isinstance(node.value, ast.Call):
                if last_name(node.value.func) in _OF_FIXED_SIZE:
                    self._fixed.update(last_name(target) for target in node.targets)
            elif isinstance(node, ast.Call):
                self._hooks += [last_name(k.value) for k in node.keywords if k.arg in _HOOKS]
        members = {id(f.node) for functions in self.functions.values() for f in functions}
        for node in ast.walk(tree):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) and id(node) not in members:
                self.functions[node.name].append(_Function(node, None, source))

    def datasets(self) -> list[str]:
        """Classes that look like data sets: by a base of that name, and with a way to read them."""
        entered = {f.owner for name in _ENTRIES for f in self.functions[name]}
        return [
            name for name, bases in self.bases.items()
            if name in entered and any(base.endswith(("Dataset", "DataPipe")) for base in bases)
        ]  # fmt: skip

    def kept(self, dataset: str) -> list[Holder]:
        """What functions that workers run add to and that outlives them, each once."""
        found: dict[tuple[str, str | None], Holder] = {}
        for function in self._run_by_workers(dataset):
            for holder in self._kept_by(function):
                found.setdefault((holder.variable, holder.owner), holder)
        return list(found.values())

    def read(self, dataset: str) -> list[Holder]:
        """Attributes of the data set that its own methods index or go through: where its rows are."""
        found: dict[str, Holder] = {}
        for function in self._entries(dataset):
            for node in ast.walk(function.node):
                values: list[ast.expr] = []
                if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                    values = [node.value]
                elif isinstance(node, ast.For):
                    values = [node.iter]
                for value in values:
                    if _is_own_attribute(value):
                        found.setdefault(last_name(value), self._holder(value, function))
        return list(found.values())

    # ---- which functions

    def _entries(self, dataset: str) -> list[_Function]:
        family, queue = set(), [dataset]
        while queue:
            name = queue.pop()
            if name not in family:
                family.add(name)
                queue += self.bases.get(name, [])
        return [f for name in _ENTRIES for f in self.functions[name] if f.owner in family]

    def _run_by_workers(self, dataset: str) -> Iterator[_Function]:
        queue = self._entries(dataset)
        queue += [f for name in self._hooks for f in self.functions.get(name, [])]
        seen: set[int] = set()
        while queue and len(seen) < _MOST_FUNCTIONS:
            function = queue.pop(0)
            if id(function.node) in seen:
                continue
            seen.add(id(function.node))
            yield function
            for node in ast.walk(function.node):
                if isinstance(node, ast.Call):
                    name = last_name(node.func)
                    # self.transform(x): whichever class of the user's can be called may be behind it.
                    called = self.functions.get(name) or (
                        self.functions["__call__"] if _is_own_attribute(node.func) else []
                    )
                    queue += [f for f in called if f.node.name != "__init__"]

    # ---- what they keep

    def _kept_by(self, function: _Function) -> Iterator[Holder]:
        if any(last_name(getattr(d, "func", d)) in _CACHES for d in function.node.decorator_list):
            name = function.node.name
            owner = f"{function.owner}.{name}" if function.owner else name
            yield Holder(name, owner, function.source.module, function.source.file, "cache")
        locals_ = _assigned(function.node) | {a.arg for a in ast.walk(function.node) if isinstance(a, ast.arg)}
        for node in ast.walk(function.node):
            value = added_to(node)
            if value is None or last_name(value) in self._fixed:
                continue
            is_global = isinstance(value, ast.Name) and value.id in self._globals[function.source.file] - locals_
            if is_global or (isinstance(value, ast.Attribute) and isinstance(value.value, ast.Name)):
                yield self._holder(value, function)

    def _holder(self, value: ast.expr, function: _Function) -> Holder:
        source = function.source
        if isinstance(value, ast.Name):
            return Holder(value.id, source.module, source.module, source.file, "global")
        owner = function.owner if _is_own_attribute(value) else None
        return Holder(last_name(value), owner, source.module, source.file, "attribute")


def dataset_name(dataset_type: str | None) -> str | None:
    """The class's own name of a type with its module."""
    return tail(dataset_type) if dataset_type else None


def _is_own_attribute(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def _assigned(node: ast.AST) -> set[str]:
    """Names that anything in a statement is bound to."""
    return {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)}


def _is_def(node: ast.AST) -> bool:
    return isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))
