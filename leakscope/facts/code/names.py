"""The names under which one object is known in the sources: as recorded, and where it is passed on under another.

First up the flows, to where the object comes from: what is put under one of its names is the object too. Then down,
to everyone who is given it. Not up again from there: a function that is given two lists does not make them one.
"""

from __future__ import annotations

import ast
from collections.abc import Callable
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from ...units import MOST
from .index import Index, Scope, is_of, tail
from .points_to import CALLED, EACH, PART, WRAPPED, Field, Node, Term, Variable, adds, key_of, points_to

_INSIDE = frozenset((".setdefault", ".get", ".values", ".items", ".cursor", ".__getitem__", ".__getattr__"))
_PASSED_ON = 0.97  # each name the object goes through costs a little of what we are sure of
_MEMBER = 0.75  # adding to a member: the holder may be a dict of lists
_EACH = 0.6
_SAME = 0.85  # the object itself by another name, and not one that only may be it
_LEAST = 0.3
# Libraries of arrays and tables, of which a part may show the memory of the whole; that of a list is a copy.
_OF_ARRAYS = frozenset(("cupy", "jax", "numpy", "pandas", "polars", "pyarrow", "tensorflow", "torch"))
# Attributes and methods of arrays and tables that may show a part of them, or all in another shape.
_SHOWING = frozenset((
    "T", "chunk", "data", "detach", "expand", "flat", "iloc", "imag", "loc", "mT", "narrow", "permute", "ravel", "real",
    "reshape", "split", "squeeze", "swapaxes", "transpose", "unbind", "unfold", "unsqueeze", "values", "view",
))  # fmt: skip


class Holder(NamedTuple):
    """A name that holds memory, and whose it is."""

    variable: str
    owner: str | None = None
    owner_module: str | None = None
    owner_file: str | None = None
    edge_kind: str = "attribute"
    type_name: str = ""
    key: str | None = None  # of the member that grows, where the holder is a record: ``progress['samples']``
    grew_inside: bool = False  # it has as many members as before: what grew is in these
    is_shared: bool = False  # something else shows its memory: what it was made of, or what was made of it
    not_by: frozenset[tuple[str, str]] = frozenset()  # (function, class or module, name) of what has memory of its own


class Names:
    """The names under which one object is known.

    A strength of 1 is the object itself; less is one of its members, or a name that only may be it.
    """

    def __init__(self, index: Index, holder: Holder) -> None:
        self._index = index
        self._graph = points_to(index)
        self._holder = holder
        self._is_array = holder.type_name.partition(".")[0] in _OF_ARRAYS
        self._names: dict[Node, float] = {}
        self._attributes: dict[str, dict[str | None, float]] = {}  # attribute, then class it belongs to
        self._waiting: list[tuple[float, int, Node]] = []  # a heap, the surest first
        self._order = count()
        self._seed()
        self._seeds = frozenset(self._names)
        self._walk(self._up)
        for node, strength in self._names.items():
            heappush(self._waiting, (-strength, next(self._order), node))
        self._walk(self._down)

    def strength(self, node: ast.expr | None, scope: Scope, *, inside: bool = True) -> float:
        """How surely an expression is the object, or with ``inside`` something in it; 0 where it is neither."""
        return max((self._along(term, inside=inside) for term in self._graph.terms(node, scope)), default=0.0)

    def member_strength(self, node: ast.Subscript, scope: Scope) -> float:
        """How surely ``x[key]`` is the member that grows: known where the recording has its key."""
        if not isinstance(node.slice, ast.Constant) or self.strength(node.value, scope, inside=False) == 0:
            return _MEMBER  # a key further in
        return self._member(f"[{node.slice.value!r}]")

    def is_adder(self, node: ast.Name, scope: Scope) -> bool:
        """The name of a bound method that adds: ``append = rows.append``."""
        paths = [flow.term for flow in self._graph.into.get(Variable(*self._index.variable(node, scope)), ())]
        return any(
            term.path and adds(term.path[-1].lstrip(".")) and self._along(Term(term.node, term.path[:-1])) > 0
            for term in paths
        )

    def is_own(self, call: ast.Call, scope: Scope) -> bool:
        """A function or class of the sources is called."""
        return bool(self._index.callees(call.func, scope))

    def is_function(self, node: ast.expr, scope: Scope) -> bool:
        """A function of the program's, or a method, that is not called here."""
        if isinstance(node, ast.Lambda):
            return True
        found = self._index.callees(node, scope) if isinstance(node, (ast.Name, ast.Attribute)) else []
        return bool(found) and all(one.kind == "function" and one.name != "__init__" for one in found)

    def is_seed(self, target: ast.expr, scope: Scope) -> bool:
        """An assignment to ``target`` makes the object, under the name that the recording has for it."""
        if isinstance(target, ast.Name):
            return Variable(*self._index.variable(target, scope)) in self._seeds
        if isinstance(target, ast.Attribute) and target.attr == self._holder.variable:
            place = self._graph.target(target, scope)
            return place is not None and self._at(place[0]) >= MOST
        return False

    def _seed(self) -> None:
        variable, owner, edge = self._holder.variable, self._holder.owner, self._holder.edge_kind
        scopes = self._index.functions_named(owner, self._holder.owner_module, self._holder.owner_file)
        if edge in ("attribute", "class-attribute"):
            self._learn(Field(self._class_of(owner), variable), 1.0)
            for scope in self._index.classes.get(tail(owner), []):
                self._learn(Variable(scope, variable), 1.0)
            return
        if edge in ("local", "cell", "default", "cache"):
            for scope in scopes:
                self._learn(Variable(*self._index.resolve(variable, scope)), 1.0)
        if not self._names and edge != "local":
            for scope in self._modules():
                self._learn(Variable(scope, variable), 1.0)
        if not self._names:  # an edge we do not know, or an owner the sources do not have
            for scope in self._index.scopes:
                if variable in scope.bound and variable not in scope.elsewhere:
                    self._learn(Variable(scope, variable), 0.6)
            self._learn(Field(None, variable), 0.6)

    def _class_of(self, owner: str | None) -> str | None:
        """None: it may be any. A class that a module of the program has without defining it was made as it ran."""
        name = tail(owner)
        holder = self._holder
        modules = [scope for scope in self._index.scopes if scope.kind == "module"]
        if name in self._index.classes or not any(is_of(s, holder.owner_module, holder.owner_file) for s in modules):
            return name or None
        return None

    def _modules(self) -> list[Scope]:
        holder = self._holder
        modules = [s for s in self._index.scopes if s.kind == "module" and holder.variable in s.bound]
        own = [s for s in modules if is_of(s, holder.owner_module, holder.owner_file)]
        named = [s for s in modules if tail(s.source.module) in (tail(holder.owner), tail(holder.owner_module))]
        return own or named or modules

    def _walk(self, step: Callable[[Node, float], None]) -> None:
        """Each node once, the surest first; ``step`` learns those beside it."""
        while self._waiting:
            strength, _, node = heappop(self._waiting)
            if self._known(node) == -strength:
                step(node, -strength)

    def _up(self, node: Node, strength: float) -> None:
        for flow in self._graph.into.get(key_of(node), ()):
            is_shown = self._holder.is_shared and node in self._seeds
            if flow.is_self or (flow.term.path and not is_shown) or isinstance(flow.term.node, ast.expr):
                continue
            same = strength * self._same(flow.target, node)
            if same < _SAME:
                continue
            source = flow.term.node
            if isinstance(source, Scope) and not self._returns_kept(source):
                continue  # made anew at each call, and filled no further than it is there
            if not isinstance(source, Field) or not self._at(source):
                self._learn(source, _PASSED_ON * same)

    def _returns_kept(self, function: Scope) -> bool:
        """A function returns what lies somewhere else, as ``return self.rows`` does."""
        sources = [flow.term.node for flow in self._graph.into.get(function, ()) if not flow.term.path]
        return any(isinstance(s, Field) or (isinstance(s, Variable) and s.scope is not function) for s in sources)

    def _down(self, node: Node, _strength: float) -> None:
        for flow in self._graph.out.get(key_of(node), ()):
            is_attribute = isinstance(flow.target, Field)  # a member that is kept there is kept for itself
            found = (_EACH if EACH in flow.term.path else _PASSED_ON) * self._along(flow.term, inside=not is_attribute)
            if (
                found
                and not (is_attribute and self._at(flow.target))
                and not (flow.term.path and self._is_apart(flow.target))
            ):
                self._learn(flow.target, found)

    def _is_apart(self, node: Node) -> bool:
        """What a path leads to shows no memory of it where the heap says that it has its own."""
        owner = node.scope.name if isinstance(node, Variable) else node.owner if isinstance(node, Field) else None
        return isinstance(node, (Variable, Field)) and (owner or "", node.name) in self._holder.not_by

    def _learn(self, node: Node, strength: float) -> None:
        if strength < _LEAST or strength <= self._known(node):
            return
        self._names[node] = strength
        if isinstance(node, Field):
            self._attributes.setdefault(node.name, {})[node.owner] = strength
        heappush(self._waiting, (-strength, next(self._order), node))

    def _known(self, node: Node) -> float:
        return self._names.get(node, 0.0)

    def _at(self, node: Node) -> float:
        """How surely the object is found at a node; an attribute of this name may be the wanted one."""
        if not isinstance(node, Field):
            return self._known(node)
        owners = self._attributes.get(node.name, {})
        return max((s * self._same_class(node.owner, owner) for owner, s in owners.items()), default=0.0)

    def _along(self, term: Term, *, inside: bool = True) -> float:
        """How surely it is found by a path from there."""
        found = self._at(term.node)
        path = term.path
        if path and self._holder.is_shared and term.node in self._seeds:
            return _PASSED_ON * found
        at = 0
        while found and at < len(path):
            step = path[at]
            at += 1
            if step == WRAPPED:
                found *= _PASSED_ON
            elif step in (PART, EACH):
                continue
            elif self._is_array and (step == "[:]" or step[1:] in _SHOWING):
                found *= _PASSED_ON
                at += path[at : at + 1] == (CALLED,)
            elif not inside or step[0] not in ".[":
                return 0.0
            elif step[0] == "[":
                found *= self._member(step) if at == 1 else 0.0 if step == "[:]" else _MEMBER
            elif path[at : at + 1] != (CALLED,):
                found *= _MEMBER
            elif step in _INSIDE:
                found *= 1.0 if step == ".cursor" else _MEMBER
                at += 1
            else:
                return 0.0
        return found

    def _member(self, step: str) -> float:
        """How surely a member of the object is the one that grows."""
        if step == "[:]":
            return 0.0
        if self._holder.key is None or step == "[]":
            return _MEMBER
        return 1.0 if step == f"[{self._holder.key!r}]" else 0.0

    def _same(self, one: Node, other: Node) -> float:
        if isinstance(one, Field) and isinstance(other, Field):
            return self._same_class(one.owner, other.owner)
        return 1.0

    def _same_class(self, known: str | None, owner: str | None) -> float:
        """How likely an attribute of the wanted name is the wanted one, by what is known of the object it is on."""
        if known is None or owner is None:
            return 0.8
        if known == owner:
            return 1.0
        return 0.97 if self._index.related(known, owner) else 0.2
