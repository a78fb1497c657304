"""Every hand-set number of the code that judges: constants of modules, defaults of keywords, and where they are used.

Found in the sources, so that a move of code to another folder needs no word here.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

PACKAGE = Path(__file__).parents[2] / "leakscope"
JUDGING = ("facts", "evidence", "analyzers", "reporting")  # folders of the package, those of them that there are
# Whole numbers move by one at least: 0.8 of 2 would still be 2.
_SCALED = (
    "(lambda value: (__import__('math').floor if {factor} < 1 else __import__('math').ceil)(value * {factor})"
    " if isinstance(value, int) else value * {factor})({text})"
)
_COMPOUND = (ast.If, ast.For, ast.While, ast.With, ast.Try, ast.FunctionDef, ast.ClassDef)


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

    @property
    def word(self) -> str:
        """What the code calls it."""
        return self.name.partition("(")[2].rstrip(")") or self.name.partition("[")[0]

    @property
    def function(self) -> str | None:
        """Whose keyword it is; None for a constant of the module."""
        return self.name.partition("(")[0] if "(" in self.name else None


def judging_files() -> list[Path]:
    return sorted(path for folder in JUDGING for path in (PACKAGE / folder).rglob("*.py"))


def thresholds() -> list[Threshold]:
    return [found for path in judging_files() for found in _of_file(path)]


def changed(source: str, threshold: Threshold, factor: float) -> str:
    """The source of the threshold's file with that number multiplied."""
    lines = source.splitlines(keepends=True)
    # ast counts bytes
    head = lines[threshold.line - 1].encode()[: threshold.column].decode()
    tail = lines[threshold.end_line - 1].encode()[threshold.end_column :].decode()
    new = head + _SCALED.format(factor=factor, text=threshold.text.replace("\n", " ")) + tail
    return "".join([*lines[: threshold.line - 1], new, *lines[threshold.end_line :]])


def uses(threshold: Threshold) -> dict[Path, list[range]] | None:
    """Lines of statements that use it, by file; None: whole modules are made with it.

    Names are compared, not what they mean: another constant of the same name only adds uses.
    """
    found: dict[Path, list[range]] = {}
    for path in judging_files():
        if threshold.function and path != PACKAGE / threshold.file:
            continue
        lines = _used_in(ast.parse(path.read_text(encoding="utf-8")), threshold)
        if lines is None:
            return None
        found[path] = lines
    return {path: lines for path, lines in found.items() if lines}


def _used_in(tree: ast.Module, threshold: Threshold) -> list[range] | None:
    found: list[range] = []
    functions = [node for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
    if threshold.function:
        functions = [node for node in functions if node.name == threshold.function.rpartition(".")[2]]
    for function in functions:
        if not threshold.function and any(_names(part, threshold.word) for part in _outside(function)):
            return None  # a default, made as the module is loaded
        found += [_lines(node) for node in _statements(function) if _names_itself(node, threshold.word)]
    inside = {id(node) for function in functions for node in ast.walk(function)}
    loose = (node for node in ast.walk(tree) if id(node) not in inside)
    if not threshold.function and any(_is_load(node, threshold.word) for node in loose):
        return None
    return found


def _statements(function: ast.AST) -> Iterator[ast.stmt]:
    yield from (node for node in ast.walk(function) if isinstance(node, ast.stmt) and node is not function)


def _outside(function: ast.FunctionDef | ast.AsyncFunctionDef) -> list[ast.AST]:
    return [*function.decorator_list, function.args]


def _names_itself(statement: ast.stmt, word: str) -> bool:
    """Whether a statement uses the name beside the statements in it."""
    parts: list[ast.AST] = [statement]
    while parts:
        node = parts.pop()
        if _is_load(node, word):
            return True
        parts += [child for child in ast.iter_child_nodes(node) if not isinstance(child, ast.stmt)]
    return False


def _names(node: ast.AST, word: str) -> bool:
    return any(_is_load(part, word) for part in ast.walk(node))


def _is_load(node: ast.AST, word: str) -> bool:
    if isinstance(node, ast.Name):
        return node.id == word and isinstance(node.ctx, ast.Load)
    return isinstance(node, ast.Attribute) and node.attr == word


def _lines(statement: ast.stmt) -> range:
    body = getattr(statement, "body", None)
    last = body[0].lineno - 1 if isinstance(statement, _COMPOUND) and body else statement.end_lineno or 0
    return range(statement.lineno, max(last, statement.lineno) + 1)


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
