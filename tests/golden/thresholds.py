"""Every hand-set number of the code that judges, found in its sources.

- constants of modules and classes, with the members of tuples, lists and dicts, and what a constant's call is given
- defaults of keywords
- literals with which a function compares, also by ``min`` and ``max``; 0, 1 and 2 are none, which mostly count: none,
  one, a pair
- how sure a ``Ground`` makes
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from typing_extensions import TypeGuard

PACKAGE = Path(__file__).parents[2] / "leakscope"
_SIGNS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
JUDGING = ("facts", "evidence", "analyzers", "reporting")  # folders of the package, those of them that there are
JUDGING_ALONE = ("rising.py",)  # and files beside them


class Threshold(NamedTuple):
    """One number: ``name`` is ``CONSTANT``, ``CONSTANT[2]``, ``function(keyword)``, ``function: < 3`` or
    ``function: Ground(words)``; ``text`` is how it is written.
    """

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
    def is_of_class(self) -> bool:
        """A constant of a class, which is made as that is."""
        return "." in self.name.partition("(")[0].partition("[")[0] and ": " not in self.name


def judging_files() -> list[Path]:
    files = (path for folder in JUDGING for path in (PACKAGE / folder).rglob("*.py"))
    return sorted([*files, *(PACKAGE / name for name in JUDGING_ALONE if (PACKAGE / name).exists())])


def thresholds() -> list[Threshold]:
    return [found for path in judging_files() for found in _of_file(path)]


def _of_file(path: Path) -> Iterator[Threshold]:
    source = path.read_text(encoding="utf-8")
    file = str(path.relative_to(PACKAGE))
    tree = ast.parse(source)
    named: Counter[str] = Counter()
    for name, node in [*_constants(tree), *_keywords(tree), *_in_bodies(tree)]:
        named[name] += 1
        name = name if named[name] == 1 else f"{name} ({named[name]})"
        text = ast.get_source_segment(source, node) or ""
        yield Threshold(file, name, text, node.lineno, node.col_offset, node.end_lineno or 0, node.end_col_offset or 0)


def _constants(tree: ast.Module | ast.ClassDef, above: str = "") -> Iterator[tuple[str, ast.expr]]:
    for statement in tree.body:
        if isinstance(statement, ast.ClassDef):
            yield from _constants(statement, f"{above}{statement.name}.")
        for name, value in _assigned(statement):
            yield from _numbers(above + name, value)


def _assigned(statement: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Name):
        yield statement.targets[0].id, statement.value
    elif isinstance(statement, ast.Assign) and isinstance(statement.targets[0], ast.Tuple):
        if isinstance(statement.value, ast.Tuple):
            for target, value in zip(statement.targets[0].elts, statement.value.elts):
                yield ast.unparse(target), value
    elif isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name) and statement.value:
        yield statement.target.id, statement.value


def _numbers(name: str, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    if _is_number(value):
        yield name, value
    elif isinstance(value, (ast.Tuple, ast.List)):
        for index, member in enumerate(value.elts):
            yield from _numbers(f"{name}[{index}]", member)
    elif isinstance(value, ast.Dict):
        for key, member in zip(value.keys, value.values):
            yield from _numbers(f"{name}[{ast.unparse(key) if key else '**'}]", member)
    elif isinstance(value, ast.Call) and not _is_of_grounds(value):
        for index, given in enumerate(value.args):
            yield from _numbers(f"{name}({index})", given)
        for keyword in value.keywords:
            yield from _numbers(f"{name}({keyword.arg})", keyword.value)


def _keywords(tree: ast.Module) -> Iterator[tuple[str, ast.expr]]:
    for function in ast.walk(tree):
        if isinstance(function, (ast.FunctionDef, ast.AsyncFunctionDef)):
            arguments = function.args
            positional = [*arguments.posonlyargs, *arguments.args]
            given = [*zip(reversed(positional), reversed(arguments.defaults))]
            for argument, default in [*given, *zip(arguments.kwonlyargs, arguments.kw_defaults)]:
                if default is not None and _is_number(default):
                    yield f"{function.name}({argument.arg})", default


def _in_bodies(tree: ast.AST, within: str = "") -> Iterator[tuple[str, ast.expr]]:
    """Literals that functions compare with, and how sure grounds make, wherever they stand."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield from _in_bodies(node, f"{within}.{node.name}".lstrip("."))
            continue
        if _is_of_grounds(node):
            yield from _sureness(node, within)
            continue
        if within and isinstance(node, ast.Compare):
            sides = [node.left, *node.comparators]
            for side, sign in zip(sides, [node.ops[0], *node.ops]):
                for literal in _literals(side):
                    yield f"{within}: {_SIGNS.get(type(sign), 'in')} {literal.value}", literal
        elif within and _is_call_of(node, "min", "max"):
            for argument in node.args:
                for literal in _literals(argument):
                    yield f"{within}: {ast.unparse(node.func)} {literal.value}", literal
        yield from _in_bodies(node, within)


def _is_of_grounds(node: ast.AST) -> TypeGuard[ast.Call]:
    return _is_call_of(node, "Ground")


def _is_call_of(node: ast.AST, *names: str) -> TypeGuard[ast.Call]:
    return isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in names


def _sureness(ground: ast.Call, within: str) -> Iterator[tuple[str, ast.expr]]:
    says = ground.args[0]
    words = says.value if isinstance(says, ast.Constant) else ast.unparse(says)
    for literal in [one for given in ground.args[1:] for one in _all_literals(given)]:
        yield f"{within}: Ground({words})".removeprefix(": "), literal


def _all_literals(node: ast.AST) -> Iterator[ast.Constant]:
    return (one for one in ast.walk(node) if isinstance(one, ast.Constant) and type(one.value) in (int, float))


def _literals(side: ast.expr) -> Iterator[ast.Constant]:
    """In one side of a comparison; what stands in brackets, calls and comparisons of their own is not compared."""
    if isinstance(side, ast.Constant):
        if type(side.value) in (int, float) and abs(side.value) not in (0, 1, 2):
            yield side
    elif isinstance(side, (ast.BinOp, ast.UnaryOp, ast.Tuple)):
        for inner in ast.iter_child_nodes(side):
            if isinstance(inner, ast.expr):
                yield from _literals(inner)


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
