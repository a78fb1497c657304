"""Every hand-set number of the code that judges: constants of modules, and defaults of keywords.

Found in the sources, so that a move of code to another folder needs no word here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2] / "leakscope"
JUDGING = ("facts", "evidence", "analyzers", "reporting")  # folders of the package, those of them that there are


class Threshold(NamedTuple):
    """One number: ``name`` is ``CONSTANT``, ``CONSTANT[2]`` or ``function(keyword)``; ``text`` is how it is written."""

    file: str  # below the package
    name: str
    text: str
    line: int
    column: int
    end_line: int
    end_column: int

    @property
    def key(self) -> str:
        return f"{self.file} {self.name}"


def judging_files() -> list[Path]:
    return sorted(path for folder in JUDGING for path in (PACKAGE / folder).rglob("*.py"))


def thresholds() -> list[Threshold]:
    return [found for path in judging_files() for found in _of_file(path)]


def _of_file(path: Path) -> Iterator[Threshold]:
    source = path.read_text(encoding="utf-8")
    file = str(path.relative_to(PACKAGE))
    tree = ast.parse(source)
    for name, node in [*_constants(tree), *_keywords(tree)]:
        text = ast.get_source_segment(source, node) or ""
        yield Threshold(file, name, text, node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)


def _constants(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for statement in tree.body:
        if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
            yield from _numbers(statement.targets[0].id, statement.value)
        elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
            if isinstance(statement.value, ast.Tuple):
                for target, value in zip(statement.targets[0].elts, statement.value.elts):
                    yield from _numbers(ast.unparse(target), value)
        elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
            yield from _numbers(statement.target.id, statement.value)


def _numbers(name: str, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if _is_number(value):
        yield name, value
    elif isinstance(value, ast.Tuple):
        for index, member in enumerate(value.elts):
            yield from _numbers(f"{name}[{index}]", member)
    elif isinstance(value, ast.Dict):
        for key, member in zip(value.keys, value.values):
            yield from _numbers(f"{name}[{ast.unparse(key) if key else '**'}]", member)


def _keywords(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = function.args
            positional = [*arguments.posonlyargs, *arguments.args]
            given = [*zip(reversed(positional), reversed(arguments.defaults))]
            for argument, default in [*given, *zip(arguments.kwonlyargs, arguments.kw_defaults)]:
                if default is not None and _is_number(default):
                    yield f"{function.name}({argument.arg})", default


def _is_number(node: ast.expr) -> bool:
    """A number other than 0, or a reckoning with at least one: ``64 * MiB``."""
    if isinstance(node, ast.Constant):
        return type(node.value) in (int, float) and node.value != 0
    if isinstance(node, ast.UnaryOp):
        return _is_number(node.operand)
    if isinstance(node, ast.BinOp):
        sides = (node.left, node.right)
        return any(_is_number(side) for side in sides) and all(_is_number(s) or isinstance(s, ast.Name) for s in sides)
    return False
