"""Calls in the user's sources that run code of one package: its functions and classes, and methods of their objects.

Finds too many rather than too few, which is the safe side: who looks for the only call of a package then names none.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .index import Index, Scope, Site, last_name
from .points_to import THING, Term, Things, Variable, points_to


def package_calls(index: Index, package: str) -> Iterator[tuple[Site, ast.Call, Scope]]:
    """``package``: its import name, ``msgspec`` or ``google.protobuf``. Not calls of what the sources define."""
    of_package = Things(points_to(index), _Imports(index, package).terms(), with_own=True)
    for scope in index.scopes:
        for site in scope.sites:
            node = site.node
            if not isinstance(node, ast.Call) or of_package.kind(node.func, scope) != THING:
                continue
            if not index.own_functions(node.func, scope):
                yield site, node, scope


class _Imports:
    """Where the package comes into the sources: imports, classes derived from its own, annotations."""

    def __init__(self, index: Index, package: str) -> None:
        self._index = index
        self._package = package
        self._own = {scope.source.module.split(".")[0] for scope in index.scopes if scope.kind == "module"}

    def terms(self) -> Iterator[Term]:
        """What it is known as: ``google`` and ``.protobuf`` where that is how to reach it."""
        for scope in self._index.scopes:
            for name, (module, original) in scope.imports.items():
                path = ".".join(filter(None, (module, original)))
                if self._is_within(path):
                    yield Term(Variable(scope, name))
                elif self._package.startswith(path + "."):
                    yield Term(Variable(scope, name), tuple(f".{n}" for n in self._package[len(path) + 1 :].split(".")))
            if scope.kind == "class" and scope.parent is not None and self._is_derived(scope):
                yield Term(Variable(scope.parent, scope.name))
            for name in scope.params:
                if self._is_given(scope, name):
                    yield Term(Variable(scope, name))

    def _is_given(self, function: Scope, parameter: str) -> bool:
        if function.is_method and parameter == function.params[0]:
            return self._is_derived(function.within)
        return self._is_within(_dotted(function.types.get(parameter), function))

    def _is_within(self, path: str) -> bool:
        is_own = path.split(".")[0] in self._own
        return not is_own and (path == self._package or path.startswith(self._package + "."))

    def _is_derived(self, scope: Scope | None, depth: int = 8) -> bool:
        """A class of the user's whose base is one of the package."""
        if scope is None or depth == 0:
            return False
        bases = getattr(scope.node, "bases", ())
        return any(
            self._is_within(_dotted(base, scope))
            or any(self._is_derived(own, depth - 1) for own in self._index.classes.get(last_name(base), ()))
            for base in bases
        )


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
