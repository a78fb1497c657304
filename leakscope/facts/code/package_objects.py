"""What in the user's sources comes from one package: its functions and classes, their objects, containers of these.

Follows assignments, arguments and returned values, whatever their order: a name that is such an object somewhere counts
as one everywhere. That finds too many rather than too few, which is the safe side: who looks for the only call of a
package then names none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Optional, TypeVar

from .index import Index, Scope, last_name, pairs
from .names import adds

OBJECT, CONTAINER = "object", "container"
_Kind = Optional[str]
_Key = TypeVar("_Key")
_ROUNDS = 4  # how many names an object may go through
_GIVES_ONE = frozenset(("get", "pop", "popleft", "setdefault", "popitem", "get_nowait"))
_GIVES_ALL = frozenset(("values", "items", "copy"))
_GO_THROUGH = frozenset(("enumerate", "iter", "list", "reversed", "set", "sorted", "tuple", "zip"))
_SINGLE = (ast.NamedExpr, ast.Await, ast.Starred)


class PackageObjects:
    """``package``: its import name, ``msgspec`` or ``google.protobuf``."""

    def __init__(self, index: Index, package: str) -> None:
        self._index = index
        self._package = package
        self._own = {scope.source.module.split(".")[0] for scope in index.scopes if scope.kind == "module"}
        self._names: dict[tuple[Scope, str], str] = {}
        self._attributes: dict[str, dict[str | None, str]] = {}  # attribute, then class it belongs to
        self._returns: dict[Scope, str] = {}
        self._grew = True
        for _ in range(_ROUNDS):
            if not self._grew:
                break
            self._grew = False
            for scope in index.scopes:
                for site in scope.sites:
                    self._follow(site.node, scope)

    def calls(self) -> Iterator[tuple[ast.Call, Scope]]:
        """Calls that run code of the package, not a function that the sources define."""
        for scope in self._index.scopes:
            for node, _ in scope.sites:
                if isinstance(node, ast.Call) and self._is_call(node.func, scope):
                    yield node, scope

    def _is_call(self, func: ast.expr, scope: Scope) -> bool:
        return self.kind(func, scope) == OBJECT and not self._is_own(func, scope)

    def kind(self, node: ast.expr | None, scope: Scope, depth: int = 12) -> _Kind:
        """Whether an expression is of the package, holds what is, or neither, as far as is known."""
        if node is None or depth == 0:
            return None

        def of(part: ast.expr | None) -> _Kind:
            return self.kind(part, scope, depth - 1)

        if isinstance(node, ast.Name):
            return self._name(node, scope)
        if isinstance(node, ast.Attribute):
            if of(node.value) == OBJECT or self._is_imported(_dotted(node, scope)):
                return OBJECT
            return self._attribute(node, scope)
        if isinstance(node, ast.Subscript):
            return OBJECT if of(node.value) is not None else None
        if isinstance(node, _SINGLE):
            return of(node.value)
        if isinstance(node, (ast.List, ast.Tuple, ast.Set)):
            return CONTAINER if any(of(part) for part in node.elts) else None
        if isinstance(node, ast.Dict):
            return CONTAINER if any(of(part) for part in node.values) else None
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp)):
            return CONTAINER if of(node.elt) else None
        if isinstance(node, ast.DictComp):
            return CONTAINER if of(node.value) else None
        if isinstance(node, ast.IfExp):
            return of(node.body) or of(node.orelse)
        if isinstance(node, ast.BoolOp):
            return next((kind for kind in map(of, node.values) if kind), None)
        return self._call(node, scope, depth) if isinstance(node, ast.Call) else None

    def _call(self, node: ast.Call, scope: Scope, depth: int) -> _Kind:
        func = node.func
        if self.kind(func, scope, depth - 1) == OBJECT:
            return OBJECT
        if isinstance(func, ast.Attribute) and self.kind(func.value, scope, depth - 1) == CONTAINER:
            return OBJECT if func.attr in _GIVES_ONE else CONTAINER if func.attr in _GIVES_ALL else None
        if isinstance(func, ast.Name) and func.id == "super":
            return OBJECT if self._is_derived(scope.within) else None
        if isinstance(func, ast.Name) and func.id in _GO_THROUGH:
            found = {self.kind(argument, scope, depth - 1) for argument in node.args}
            return CONTAINER if CONTAINER in found else None
        returned = {self._returns.get(function) for function in self._index.callees(func, scope)} - {None}
        return max(returned, key=lambda kind: kind == OBJECT, default=None)

    def _name(self, node: ast.Name, scope: Scope) -> _Kind:
        if self._is_imported(_dotted(node, scope)):
            return OBJECT
        binding, name = self._index.resolve(node.id, scope)
        if self._is_derived(binding.defs.get(name)):
            return OBJECT
        if binding.is_method and binding.params[:1] == (name,) and self._is_derived(binding.within):
            return OBJECT
        return self._names.get((binding, name)) or self._annotated(binding, name)

    def _annotated(self, binding: Scope, name: str) -> _Kind:
        annotation = binding.types.get(name) if name in binding.params else None
        named = isinstance(annotation, (ast.Name, ast.Attribute))
        return OBJECT if named and self._is_imported(_dotted(annotation, binding)) else None

    def _attribute(self, node: ast.Attribute, scope: Scope) -> _Kind:
        owners = self._attributes.get(node.attr)
        if not owners:
            return None
        known = self._index.class_of(node.value, scope)
        kinds = {
            kind
            for owner, kind in owners.items()
            if None in (known, owner) or self._index.related(str(known), str(owner))
        }
        return OBJECT if OBJECT in kinds else next(iter(kinds), None)

    def _is_imported(self, path: str) -> bool:
        if path.split(".")[0] in self._own:
            return False
        return path == self._package or path.startswith(self._package + ".")

    def _is_derived(self, scope: Scope | None, depth: int = 8) -> bool:
        """A class of the user's whose base is one of the package."""
        if scope is None or scope.kind != "class" or depth == 0:
            return False
        for base in getattr(scope.node, "bases", ()):
            if self._is_imported(_dotted(base, scope)):
                return True
            if any(self._is_derived(own, depth - 1) for own in self._index.classes.get(last_name(base), ())):
                return True
        return False

    def _is_own(self, func: ast.expr, scope: Scope) -> bool:
        """A function of the user's: what it calls of the package is a call of its own."""
        if isinstance(func, ast.Attribute) and self._index.class_of(func.value, scope) is None:
            return False
        return any(function.kind == "function" for function in self._index.callees(func, scope))

    def _learn(self, target: ast.expr, kind: _Kind, scope: Scope) -> None:
        if isinstance(target, ast.Subscript):
            self._learn(target.value, CONTAINER if kind else None, scope)
        elif isinstance(target, ast.Name):
            self._note(self._names, self._index.resolve(target.id, scope), kind)
        elif isinstance(target, ast.Attribute):
            owners = self._attributes.setdefault(target.attr, {})
            self._note(owners, self._index.class_of(target.value, scope), kind)

    def _note(self, known: dict[_Key, str], key: _Key, kind: _Kind) -> None:
        """An object stays one: what is put into it does not make it a plain container."""
        if kind is not None and known.get(key) not in (kind, OBJECT):
            known[key] = kind
            self._grew = True

    def _follow(self, node: ast.AST, scope: Scope) -> None:
        for target, value in pairs(node):
            kind = self.kind(value, scope)
            # One of several names that a tuple is unpacked to gets a member of it.
            is_part = isinstance(node, ast.Assign) and value is node.value and target not in node.targets
            self._learn(target, OBJECT if kind and is_part else kind, scope)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            if self.kind(node.iter, scope) == CONTAINER:
                for name in ast.walk(node.target):
                    if isinstance(name, ast.Name):
                        self._learn(name, OBJECT, scope)
        elif isinstance(node, ast.Return) and scope.kind == "function":
            self._note(self._returns, scope, self.kind(node.value, scope))
        elif isinstance(node, ast.Call):
            self._follow_call(node, scope)

    def _follow_call(self, call: ast.Call, scope: Scope) -> None:
        if isinstance(call.func, ast.Attribute) and adds(call.func.attr) and call.args:
            self._learn(call.func.value, CONTAINER if self.kind(call.args[-1], scope) else None, scope)
        for function in self._index.callees(call.func, scope):
            for name, argument in self._index.arguments(call, function):
                self._note(self._names, (function, name), self.kind(argument, scope))
            if any(isinstance(a, ast.Starred) and self.kind(a, scope) for a in call.args):
                for name in function.params[1 if function.is_method else 0 :]:
                    self._note(self._names, (function, name), OBJECT)


def _dotted(node: ast.AST | None, scope: Scope) -> str:
    """``google.protobuf.type_pb2.Type`` for what was imported so, by whatever name; empty where it was not."""
    names = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    if not isinstance(node, ast.Name):
        return ""
    module, original = scope.binding(node.id).imports.get(node.id, ("", ""))
    return ".".join([part for part in (module, original) if part] + names[::-1]) if module else ""
