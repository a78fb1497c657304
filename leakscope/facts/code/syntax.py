"""What one node of a syntax tree says by itself: names, targets of assignments, what a call is given."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from typing import Optional, Union

LOOPS = (ast.For, ast.AsyncFor, ast.While)
DEFINED = (ast.FunctionDef, ast.AsyncFunctionDef)
FUNCTIONS = (*DEFINED, ast.Lambda)
COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
Defined = Union[ast.FunctionDef, ast.AsyncFunctionDef]
Function = Union[Defined, ast.Lambda]
Pair = tuple[ast.expr, Optional[ast.expr]]


def last_name(node: ast.AST | None) -> str:
    """``append`` of ``self.rows.append``."""
    if isinstance(node, ast.Name):
        return node.id
    return node.attr if isinstance(node, ast.Attribute) else ""


def called(node: ast.AST | None) -> str:
    """``append`` of ``self.rows.append(row)``."""
    return last_name(node.func) if isinstance(node, ast.Call) else ""


def root_of(node: ast.expr) -> ast.expr:
    """``self`` of ``self.rows.append``."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return node


def is_load(node: ast.AST | None) -> bool:
    """A name, attribute or member is looked up there, and neither bound nor removed."""
    return isinstance(getattr(node, "ctx", None), ast.Load)


def receiver(node: ast.AST | None) -> str:
    func = node.func if isinstance(node, ast.Call) else None
    return last_name(func.value) if isinstance(func, ast.Attribute) else ""


def part_of(node: ast.expr | None) -> ast.expr | None:
    """What a part, or a copy of one, is of: ``rows`` of ``rows[5:].copy()``."""
    while True:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not node.args:
            node = node.func.value
        elif isinstance(node, ast.Subscript):
            node = node.value
        else:
            return node


def pairs(node: ast.AST) -> Iterator[Pair]:
    """Targets of an assignment, each with the expression it gets; a tuple that is unpacked goes to all its names."""
    if isinstance(node, ast.Assign):
        for target in node.targets:
            yield from _unpack(target, node.value)
    elif isinstance(node, (ast.AnnAssign, ast.NamedExpr)):
        yield node.target, node.value
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield from _unpack(node.optional_vars, node.context_expr)


def _unpack(target: ast.expr, value: ast.expr) -> Iterator[Pair]:
    if not isinstance(target, (ast.Tuple, ast.List)):
        yield target, value
        return
    alike = isinstance(value, (ast.Tuple, ast.List)) and len(value.elts) == len(target.elts)
    for i, element in enumerate(target.elts):
        part = value.elts[i] if alike and isinstance(value, (ast.Tuple, ast.List)) else value
        yield from _unpack(element.value if isinstance(element, ast.Starred) else element, part)


def arguments_of(call: ast.Call) -> list[ast.expr]:
    """All that a call is given."""
    return [*call.args, *(keyword.value for keyword in call.keywords)]


def defaults_of(node: ast.AST | None) -> list[tuple[ast.arg, ast.expr]]:
    """The parameters of a function that have default values, and these."""
    if not isinstance(node, FUNCTIONS):
        return []
    positional = [*node.args.posonlyargs, *node.args.args]
    given = zip(positional[len(positional) - len(node.args.defaults) :], node.args.defaults)
    return [*given, *((arg, value) for arg, value in zip(node.args.kwonlyargs, node.args.kw_defaults) if value)]
