"""The names under which one object is known in the sources: as recorded, and where it is passed on under another.

A holder is followed from its own name through aliases, arguments, attributes and returned values, forth and back.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from typing import NamedTuple

from .index import Index, Pair, Scope, is_of, last_name, pairs, tail

# Methods that add to what they are called on, whatever its type. Other verbs are believed a little less.
ADDERS = frozenset(
    ("add", "append", "appendleft", "enqueue", "extend", "extendleft", "insert", "on", "push", "put", "put_nowait",
     "register", "setdefault", "subscribe", "update", "write", "writelines", "writerow", "writestr", "__setitem__")
)  # fmt: skip
_ADDING_VERB = re.compile(
    r"(add|append|push|put|register|insert|subscribe|enqueue|extend|store|remember|record)(_\w*[^_]|[A-Z]\w*|all)?$"
)
_INSIDE = frozenset(("setdefault", "get", "values", "items", "cursor", "__getitem__", "__getattr__"))
_WRAPPERS = frozenset(("writer", "DictWriter", "Pickler", "TextIOWrapper", "BufferedWriter", "GzipFile", "ZipFile"))
_ROUNDS = 4  # how many names the object may go through; each costs a little of what we are sure of
_PASSED_ON = 0.97
_MEMBER = 0.75  # adding to a member: the holder may be a dict of lists
_SAME = 0.85  # the object itself by another name, and not one that only may be it


class Holder(NamedTuple):
    """A name that holds memory, in the words of the table ``holders``."""

    variable: str
    owner: str | None = None
    owner_module: str | None = None
    owner_file: str | None = None
    edge_kind: str = "attribute"
    type_name: str = ""
    key: str | None = None  # of the member that grows, where the holder is a record: ``progress['samples']``


class Names:
    """The names under which one object is known.

    A strength of 1 is the object itself; less is one of its members, or a name that only may be it.
    """

    def __init__(self, index: Index, holder: Holder | None = None) -> None:
        self._index = index
        self._holder = holder
        self._names: dict[tuple[Scope, str], float] = {}
        self._attributes: dict[str, dict[str | None, float]] = {}  # attribute, then class it belongs to
        self._returns: dict[Scope, float] = {}
        self._adders: set[tuple[Scope, str]] = set()
        self._grew = True
        if holder is not None:
            self._seed_holder(holder)
        self._seeds = frozenset(self._names)

    def seed(self, target: ast.expr, scope: Scope) -> None:
        """The object is also what is assigned here."""
        if isinstance(target, ast.Name):
            self._learn_name(self._index.resolve(target.id, scope), 1.0)
        elif isinstance(target, ast.Attribute):
            self._learn_attribute(target.attr, self._index.class_of(target.value, scope), 1.0)
        elif isinstance(target, ast.Subscript):
            self.seed(target.value, scope)

    def follow(self) -> Names:
        """Learn the object's other names: aliases, parameters, attributes, functions that return it."""
        for _ in range(_ROUNDS):
            if not self._grew:
                break
            self._grew = False
            for scope in self._index.scopes:
                for site in scope.sites:
                    self._follow(site.node, scope)
        return self

    def strength(self, node: ast.expr | None, scope: Scope, *, inside: bool = True, depth: int = 8) -> float:
        """How surely an expression is the object, or with ``inside`` something in it; 0 where it is neither."""
        if depth == 0:
            return 0.0
        if isinstance(node, ast.Name):
            return self._names.get(self._index.resolve(node.id, scope), 0.0)

        def of(part: ast.expr) -> float:
            return self.strength(part, scope, inside=inside, depth=depth - 1)

        if isinstance(node, ast.Attribute):
            return self._attribute(node, scope) or (_MEMBER * of(node.value) if inside else 0.0)
        if isinstance(node, ast.BoolOp):
            return max(of(value) for value in node.values)
        if isinstance(node, ast.IfExp):
            return max(of(node.body), of(node.orelse))
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
            return of(node.value)
        if isinstance(node, ast.Subscript):
            copied = isinstance(node.slice, ast.Slice)
            return self.member_strength(node, scope) * of(node.value) if inside and not copied else 0.0
        if not isinstance(node, ast.Call):
            return 0.0
        returned = max((self._returns.get(f, 0.0) for f in self._index.callees(node.func, scope)), default=0.0)
        if returned:
            return returned
        if node.args and last_name(node.func) in _WRAPPERS:
            return _PASSED_ON * of(node.args[0])
        if inside and isinstance(node.func, ast.Attribute) and node.func.attr in _INSIDE:
            return (1.0 if node.func.attr == "cursor" else _MEMBER) * of(node.func.value)
        return 0.0

    def member_strength(self, node: ast.Subscript, scope: Scope) -> float:
        """How surely ``x[key]`` is the member that grows: known where the recording has its key."""
        key = None if self._holder is None else self._holder.key
        if key is None or not isinstance(node.slice, ast.Constant):
            return _MEMBER
        if self.strength(node.value, scope, inside=False) == 0:
            return _MEMBER  # a key further in
        return 1.0 if node.slice.value == key else 0.0

    def is_adder(self, node: ast.Name, scope: Scope) -> bool:
        """The name of a bound method that adds: ``append = rows.append``."""
        return self._index.resolve(node.id, scope) in self._adders

    def is_seed(self, target: ast.expr, scope: Scope) -> bool:
        """An assignment to ``target`` makes the object, under the name that the recording has for it."""
        if isinstance(target, ast.Name):
            return self._index.resolve(target.id, scope) in self._seeds
        if isinstance(target, ast.Attribute) and self._holder is not None and target.attr == self._holder.variable:
            return self._attribute(target, scope) >= 0.5
        return False

    def _seed_holder(self, holder: Holder) -> None:
        variable, owner = holder.variable, holder.owner
        edge = holder.edge_kind
        scopes = self._index.functions_named(owner, holder.owner_module, holder.owner_file)
        if edge in ("attribute", "class-attribute"):
            self._learn_attribute(variable, tail(owner) or None, 1.0)
            for scope in self._index.classes.get(tail(owner), []):
                self._learn_name((scope, variable), 1.0)
            return
        if edge in ("local", "cell", "default", "cache"):
            for scope in scopes:
                self._learn_name(self._index.resolve(variable, scope), 1.0)
        if not self._names and edge != "local":
            for scope in self._modules(holder):
                self._learn_name((scope, variable), 1.0)
        if not self._names:  # an edge we do not know, or an owner the sources do not have
            for scope in self._index.scopes:
                if variable in scope.bound and variable not in scope.elsewhere:
                    self._learn_name((scope, variable), 0.6)
            self._learn_attribute(variable, None, 0.6)

    def _modules(self, holder: Holder) -> list[Scope]:
        modules = [s for s in self._index.scopes if s.kind == "module" and holder.variable in s.bound]
        own = [s for s in modules if is_of(s, holder.owner_module, holder.owner_file)]
        named = [s for s in modules if tail(s.source.module) in (tail(holder.owner), tail(holder.owner_module))]
        return own or named or modules

    def _learn_name(self, key: tuple[Scope, str], strength: float) -> None:
        if strength >= 0.3 and strength > self._names.get(key, 0.0):
            self._names[key] = strength
            self._grew = True

    def _learn_attribute(self, attribute: str, owner: str | None, strength: float) -> None:
        owners = self._attributes.setdefault(attribute, {})
        if strength >= 0.3 and strength > owners.get(owner, 0.0):
            owners[owner] = strength
            self._grew = True

    def _attribute(self, node: ast.Attribute, scope: Scope) -> float:
        for module in self._index.module_named(node.value, scope):
            if (module, node.attr) in self._names:
                return self._names[module, node.attr]
        owners = self._attributes.get(node.attr)
        if not owners:
            return 0.0
        known = self._index.class_of(node.value, scope)
        return max(s * self._same_class(known, owner) for owner, s in owners.items())

    def _same_class(self, known: str | None, owner: str | None) -> float:
        """How likely an attribute of the wanted name is the wanted one, by what is known of the object it is on."""
        if known is None or owner is None:
            return 0.8
        if known == owner:
            return 1.0
        return 0.97 if self._index.related(known, owner) else 0.2

    def _follow(self, node: ast.AST, scope: Scope) -> None:
        for target, value in pairs(node):
            self._follow_pair((target, value), scope)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            found = max((self.strength(n, scope) for n in _iterated(node.iter)), default=0.0)
            for name in ast.walk(node.target):
                if found and isinstance(name, ast.Name):
                    self._learn_name(self._index.resolve(name.id, scope), 0.6 * found)
        elif isinstance(node, ast.Return):
            found = _PASSED_ON * self.strength(node.value, scope)
            if found < 0.3 or scope.kind != "function":
                return
            if {"property", "cached_property"} & set(scope.decorators) and scope.within is not None:
                self._learn_attribute(scope.name, scope.within.name, found)
            elif found > self._returns.get(scope, 0.0):
                self._returns[scope] = found
                self._grew = True
        elif isinstance(node, ast.Call):
            self._follow_call(node, scope)

    def _follow_pair(self, pair: Pair, scope: Scope) -> None:
        target, value = pair
        if isinstance(target, ast.Name):
            key = self._index.resolve(target.id, scope)
            self._learn_name(key, _PASSED_ON * self.strength(value, scope))
            if isinstance(value, ast.Attribute) and adds(value.attr) and self.strength(value.value, scope):
                self._adders.add(key)
        elif isinstance(target, ast.Attribute):
            found = _PASSED_ON * self.strength(value, scope, inside=False)
            if found and not self._attribute(target, scope):
                self._learn_attribute(target.attr, self._index.class_of(target.value, scope), found)
        self._follow_back(value, self.strength(target, scope, inside=False), scope)

    def _follow_back(self, given: ast.expr | None, strength: float, scope: Scope) -> None:
        """What is put under a name of the object is the object too: ``rows = self.rows``."""
        if strength < _SAME or not isinstance(given, (ast.Name, ast.Attribute)):
            return
        if isinstance(given, ast.Name):
            self._learn_name(self._index.resolve(given.id, scope), _PASSED_ON * strength)
        elif not self.strength(given, scope):
            self._learn_attribute(given.attr, self._index.class_of(given.value, scope), _PASSED_ON * strength)

    def _follow_call(self, call: ast.Call, scope: Scope) -> None:
        for function, seen in _started(call, self._index, scope):
            if function.is_method and function.params and isinstance(seen.func, ast.Attribute):
                # It is the self of its own methods.
                found = _PASSED_ON * self.strength(seen.func.value, scope)
                self._learn_name((function, function.params[0]), found)
            for name, argument in self._index.arguments(seen, function):
                self._follow_back(argument, self._names.get((function, name), 0.0), scope)
                found = _PASSED_ON * self.strength(argument, scope)
                if not found:
                    continue
                if function.kind == "class":
                    self._learn_attribute(name, function.name, found)
                else:
                    self._learn_name((function, name), found)


def adds(method: str) -> bool:
    """By its name, a method puts something into what it is called on."""
    return method in ADDERS or _ADDING_VERB.match(method) is not None


def _iterated(node: ast.expr) -> Iterator[ast.expr]:
    """What a loop goes through: also inside zip, enumerate and the like."""
    yield node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        for argument in node.args:
            yield from _iterated(argument)


def _started(call: ast.Call, index: Index, scope: Scope) -> Iterator[tuple[Scope, ast.Call]]:
    """The functions a call runs, each with the call as it sees it: ``Thread(target=f, args=(x,))`` runs ``f(x)``."""
    for function in index.callees(call.func, scope):
        yield function, call
    target = next((k.value for k in call.keywords if k.arg in ("target", "func", "function")), None)
    given = next((k.value for k in call.keywords if k.arg == "args"), None)
    if target is None:
        target, rest = (call.args[0], call.args[1:]) if call.args else (None, [])
    else:
        rest = []
    if isinstance(given, (ast.Tuple, ast.List)):
        rest = [*rest, *given.elts]
    if isinstance(target, (ast.Name, ast.Attribute)) and (rest or call.keywords):
        seen = ast.Call(func=target, args=rest, keywords=call.keywords)
        for function in index.callees(target, scope):
            yield function, seen
