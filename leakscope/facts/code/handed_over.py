"""Calls of a package that are handed what one line of the user's makes."""

from __future__ import annotations

import ast
from collections.abc import Iterator

from .index import Index, Scope, Site, pairs
from .package_calls import package_calls
from .points_to import EACH, Term, Things, points_to

_STATEMENTS = (ast.Assign, ast.AnnAssign, ast.NamedExpr, ast.Return, ast.Yield)


def handed_over(index: Index, package: str, file: str, line: int) -> Iterator[tuple[Site, ast.Call, Scope]]:
    """``package``: its import name. What is made within a call is handed to nobody else, and not looked for."""
    made = Things(points_to(index), _made_at(index, file, line))
    for site, call, scope in package_calls(index, package):
        given = (*call.args, *(keyword.value for keyword in call.keywords))
        if any(made.kind(argument, scope) is not None for argument in given):
            yield site, call, scope


def _made_at(index: Index, file: str, line: int) -> Iterator[Term]:
    """Where a statement of the line puts what it makes: into a name, or to who calls the function."""
    for scope in index.scopes:
        for node in (site.node for site in scope.sites if scope.source.file == file):
            if not isinstance(node, _STATEMENTS) or not node.lineno <= line <= (node.end_lineno or node.lineno):
                continue
            for target, _ in pairs(node):
                place = points_to(index).target(target, scope)
                if place is not None:
                    yield Term(place[0], place[1])
            if scope.kind == "function" and isinstance(node, (ast.Return, ast.Yield)):
                yield Term(scope, (EACH,) if isinstance(node, ast.Yield) else ())
