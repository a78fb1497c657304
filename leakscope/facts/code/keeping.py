"""What the result of a call is kept as: the attribute it becomes, or the container that the same function puts it into.

Pure functions: text in, names out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .adding import ADDS, CREATES, Line
from .index import Index, Scope, Source, index_of, last_name, pairs
from .points_to import adds

_ROUNDS = 3  # how many names it may go through


class Kept(NamedTuple):
    """``owner``: the class of the object whose attribute it is; None for a variable, or where that is not known."""

    variable: str
    owner: str | None
    is_container: bool
    line: Line


def kept_as(sources: Sequence[Source], made: Line) -> Kept | None:
    """Where what is made, or started, on a line is put: a container first. None: nowhere that outlives the function."""
    index = index_of(sources, "", made.file)
    for scope in index.scopes:
        if scope.source.file != made.file:
            continue
        calls = [s.node for s in scope.sites if isinstance(s.node, ast.Call) and s.node.lineno == made.line]
        if calls:
            return _kept(index, scope, calls)
    return None


def _kept(index: Index, scope: Scope, calls: Sequence[ast.Call]) -> Kept | None:
    exprs: list[ast.expr] = list(calls)
    exprs += [call.func.value for call in calls if isinstance(call.func, ast.Attribute) and call.func.attr == "start"]
    known = {ast.dump(expr) for expr in exprs}
    attributes = [expr for expr in exprs if isinstance(expr, ast.Attribute)]
    containers: list[tuple[ast.expr, ast.AST]] = []
    for _ in range(_ROUNDS):
        size = len(known)
        for site in scope.sites:
            containers += ((into, site.node) for into in _put_into(site.node, known))
            for target, value in pairs(site.node):
                if value is None or ast.dump(value) not in known:
                    continue
                if isinstance(target, ast.Subscript):
                    containers.append((target.value, site.node))
                elif isinstance(target, (ast.Name, ast.Attribute)):
                    known.add(_as_read(target))
                    attributes += [target] if isinstance(target, ast.Attribute) else []
        if len(known) == size:
            break
    if containers:
        into, node = containers[0]
        return _built(index, scope, into, node, is_container=True)
    return _built(index, scope, attributes[0], attributes[0], is_container=False) if attributes else None


def _put_into(node: ast.AST, known: set[str]) -> Iterator[ast.expr]:
    """``rows`` of ``rows.append(x)``."""
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute) or not adds(node.func.attr):
        return
    if any(ast.dump(argument) in known for argument in node.args) and last_name(node.func.value):
        yield node.func.value


def _as_read(target: ast.Name | ast.Attribute) -> str:
    """A target as it looks where it is used."""
    if isinstance(target, ast.Name):
        return ast.dump(ast.Name(id=target.id, ctx=ast.Load()))
    return ast.dump(ast.Attribute(value=target.value, attr=target.attr, ctx=ast.Load()))


def _built(index: Index, scope: Scope, kept: ast.expr, node: ast.AST, *, is_container: bool) -> Kept | None:
    variable = last_name(kept)
    if not variable:
        return None
    owner = index.class_of(kept.value, scope) if isinstance(kept, ast.Attribute) else None
    number = getattr(node, "lineno", 1)
    text = index.lines[scope.source.file][number - 1].strip()
    function = None if scope.kind == "module" else scope.qualname
    line = Line(scope.source.file, number, function, text, ADDS if is_container else CREATES, 1.0)
    return Kept(variable, owner, is_container, line)
