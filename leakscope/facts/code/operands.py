"""Names that a program only computes with: nobody gives their objects anything to keep."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence

from .index import Source, index_of

# Others put things into what stands to their left, or may: ``stream << value``, ``pipeline | stage``.
_ARITHMETIC = (ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.MatMult)


def is_only_operand(sources: Sequence[Source], name: str) -> bool:
    """Whether every use of a name, or of an attribute so called, is in arithmetic or a comparison. False where there is
    no use: then it has another name."""
    modules = {scope.source.file: scope.node for scope in index_of(sources, name).scopes if scope.kind == "module"}
    if any(name in source.text and modules.get(source.file) is None for source in sources):
        return False  # not all was read
    uses = 0
    for tree in modules.values():
        nodes = list(ast.walk(tree)) if tree is not None else []
        if any(_is_named_anew(node, name) for node in nodes):
            return False
        computed = {id(operand) for node in nodes for operand in _operands(node)}
        for node in nodes:
            if _name_of(node) == name and isinstance(getattr(node, "ctx", None), ast.Load):
                if id(node) not in computed:
                    return False
                uses += 1
    return uses > 0


def _name_of(node: ast.AST) -> str | None:
    if isinstance(node, ast.Attribute):
        return node.attr
    return node.id if isinstance(node, ast.Name) else None


def _is_named_anew(node: ast.AST, name: str) -> bool:
    """Imported under another name, or changed in place."""
    if isinstance(node, ast.alias):
        return node.name.rpartition(".")[2] == name and node.asname not in (None, name)
    return isinstance(node, ast.AugAssign) and _name_of(node.target) == name


def _operands(node: ast.AST) -> Iterator[ast.expr]:
    if isinstance(node, ast.BinOp) and isinstance(node.op, _ARITHMETIC):
        yield from (node.left, node.right)
    elif isinstance(node, ast.AugAssign) and isinstance(node.op, _ARITHMETIC):
        yield node.value
    elif isinstance(node, ast.UnaryOp):
        yield node.operand
    elif isinstance(node, ast.Compare):
        yield from (node.left, *node.comparators)
