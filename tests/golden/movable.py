"""Judging code whose hand-set numbers can be changed while it is loaded, and which tells the ones it looked at."""

from __future__ import annotations

import ast
import importlib.abc
import importlib.machinery
import importlib.util
import math
import sys
from collections.abc import Callable, Collection, Sequence
from copy import deepcopy
from pathlib import Path
from types import CodeType
from typing import Any

from .thresholds import PACKAGE, Threshold

_VERY_LARGE = 10**9  # for infinity: whole numbers stay whole, and a billion GiB are still 64 bits
_VALUE, _DEFAULT, _NUMBER = "_movable_value", "_movable_default", "_movable_number"


class Numbers:
    """Which numbers are changed now and by what factor, and what was looked at since ``read`` was last emptied."""

    def __init__(self) -> None:
        self.factor = 1.0
        self.changed: frozenset[str] = frozenset()
        self.read: set[str] = set()
        self.used: set[str] = set()  # the same, of constants only
        self.made: dict[str, Callable[[], Any]] = {}  # by module and name: how a constant is made
        self._known: dict[str, tuple[Any, frozenset[str]]] = {}

    def change(self, keys: Collection[str], factor: float) -> None:
        self.changed, self.factor = frozenset(keys), factor
        self._known.clear()

    def number(self, key: str, value: Any) -> Any:
        """A number as it is now. Whole ones move by one at least: 0.8 of 2 would still be 2."""
        self.read.add(key)
        if key not in self.changed:
            return value
        new = value * (_VERY_LARGE if self.factor == math.inf else self.factor)
        return (math.floor if self.factor < 1 else math.ceil)(new) if isinstance(value, int) else new

    def value(self, name: str) -> Any:
        """A constant as it is now, made once for each change."""
        if name not in self._known:
            outer, self.read = self.read, set()
            self._known[name] = (self.made[name](), frozenset(self.read))
            self.read = outer
        value, read = self._known[name]
        self.read |= read
        self.used |= read
        return value


class Default:
    """What a keyword is if nobody gives it."""

    def __init__(self, numbers: Numbers, key: str, make: Callable[[], Any]) -> None:
        self.numbers, self.key, self.make = numbers, key, make

    def now(self) -> Any:
        return self.numbers.number(self.key, self.make())


class Movable(importlib.abc.MetaPathFinder):
    """Loads the files that have numbers, or import them, with each use of a number asking ``numbers``."""

    def __init__(self, numbers: Numbers, of: Sequence[Threshold], files: Sequence[Path]) -> None:
        self.numbers = numbers
        self.at = {(_module(Path(one.file)), one.line, one.column, one.end_line, one.end_column): one.key for one in of}
        self.paths = {_module(path.relative_to(PACKAGE)): path for path in files}
        trees = {name: ast.parse(path.read_text(encoding="utf-8")) for name, path in self.paths.items()}
        self.constants = {name: self._constants(name, tree) for name, tree in trees.items()}
        self.code = {name: self._compiled(name, tree) for name, tree in trees.items()}

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> importlib.machinery.ModuleSpec | None:
        if name not in self.code:
            return None
        file = self.paths[name]
        folders = [str(file.parent)] if file.name == "__init__.py" else None
        loader = _Loader(name, str(file), self.code[name], self.numbers)
        return importlib.util.spec_from_file_location(name, file, loader=loader, submodule_search_locations=folders)

    def load(self) -> Callable[..., Any]:
        """``leakscope.reporting.analyze``, with all that it stands on loaded anew."""
        for name in self.code:
            sys.modules.pop(name, None)
        if self not in sys.meta_path:
            sys.meta_path.insert(0, self)
        for name in self.code:
            importlib.import_module(name)
        analyze: Callable[..., Any] = sys.modules["leakscope.reporting"].analyze
        return analyze

    def _constants(self, module: str, tree: ast.Module) -> set[str]:
        """Constants of a module that have at least one of the numbers in them."""
        found = set()
        for statement in tree.body:
            target = statement.targets[0] if isinstance(statement, ast.Assign) else getattr(statement, "target", None)
            has = any((module, *_place(node)) in self.at for node in ast.walk(statement) if isinstance(node, ast.expr))
            if has and isinstance(statement, (ast.Assign, ast.AnnAssign)):
                targets = target.elts if isinstance(target, ast.Tuple) else [target]
                found |= {one.id for one in targets if isinstance(one, ast.Name)}
        return found

    def _compiled(self, module: str, tree: ast.Module) -> CodeType:
        known = {name: f"{module}:{name}" for name in self.constants[module]}
        for statement in ast.walk(tree):
            if isinstance(statement, ast.ImportFrom):
                source = self._source(module, statement)
                for alias in statement.names:
                    name = alias.asname or alias.name
                    if alias.name in self.constants.get(source, ()):
                        known[name] = f"{source}:{alias.name}"
                    inner = f"{source}.{alias.name}"
                    known |= {f"{name}.{one}": f"{inner}:{one}" for one in self.constants.get(inner, ())}
        new = ast.fix_missing_locations(_Asking(module, known, self.at).visit(tree))
        return compile(new, str(self.paths[module]), "exec", dont_inherit=True)

    def _source(self, module: str, statement: ast.ImportFrom) -> str:
        is_package = self.paths[module].name == "__init__.py"
        package = module if is_package else module.rpartition(".")[0]
        return importlib.util.resolve_name("." * statement.level + (statement.module or ""), package)


class _Loader(importlib.machinery.SourceFileLoader):
    def __init__(self, name: str, path: str, code: CodeType, numbers: Numbers) -> None:
        super().__init__(name, path)
        self.compiled, self.numbers = code, numbers

    def get_code(self, fullname: str) -> CodeType:
        return self.compiled

    def exec_module(self, module: Any) -> None:
        numbers = self.numbers

        def default(key: str, make: Callable[[], Any]) -> Default:
            return Default(numbers, key, make)

        known = {_NUMBER: numbers.number, _VALUE: numbers.value, _DEFAULT: default, "_Default": Default}
        vars(module).update(known, _movable_made=numbers.made)
        super().exec_module(module)


class _Asking(ast.NodeTransformer):
    """Puts a question in the place of each number and of each use of a constant that has some."""

    def __init__(self, module: str, known: dict[str, str], at: dict[tuple[Any, ...], str]) -> None:
        self.module, self.known, self.at = module, known, at

    def _at(self, node: ast.AST) -> tuple[Any, ...]:
        return (self.module, *_place(node))

    def visit(self, node: ast.AST) -> Any:
        key = self.at.get(self._at(node)) if isinstance(node, ast.expr) else None
        if key is None:
            return super().visit(node)
        inner = self.generic_visit(node)  # a number may be so many times another constant
        return _call(_NUMBER, ast.Constant(key), inner)

    def visit_Module(self, node: ast.Module) -> ast.Module:
        body: list[ast.stmt] = []
        for statement in node.body:
            body += self._made(statement)
            body.append(self.visit(statement))
        node.body = body
        return node

    def _made(self, statement: ast.stmt) -> list[ast.stmt]:
        """How the constants of a statement are made, noted before it is run: ``made["module:NAME"] = lambda: ...``."""
        if not isinstance(statement, (ast.Assign, ast.AnnAssign)) or statement.value is None:
            return []
        target = statement.targets[0] if isinstance(statement, ast.Assign) else statement.target
        pairs = [(target, statement.value)]
        if isinstance(target, ast.Tuple) and isinstance(statement.value, ast.Tuple):
            pairs = [*zip(target.elts, statement.value.elts)]
        lines = [
            f"_movable_made[{f'{self.module}:{name.id}'!r}] = lambda: {ast.unparse(self.visit(deepcopy(value)))}"
            for name, value in pairs
            if isinstance(name, ast.Name) and self.known.get(name.id) == f"{self.module}:{name.id}"
        ]
        return [made for line in lines for made in ast.parse(line).body]

    def visit_Name(self, node: ast.Name) -> ast.expr:
        if isinstance(node.ctx, ast.Load) and node.id in self.known:
            return _call(_VALUE, ast.Constant(self.known[node.id]))
        return node

    def visit_Attribute(self, node: ast.Attribute) -> ast.expr:
        whole = f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""
        if whole in self.known:
            return _call(_VALUE, ast.Constant(self.known[whole]))
        self.generic_visit(node)
        return node

    def visit_FunctionDef(self, node: ast.FunctionDef) -> ast.FunctionDef:
        arguments = node.args
        given = [*zip(reversed([*arguments.posonlyargs, *arguments.args]), reversed(arguments.defaults))]
        names = {
            self.at[self._at(default)]: argument.arg
            for argument, default in [*given, *zip(arguments.kwonlyargs, arguments.kw_defaults)]
            if default is not None and self._at(default) in self.at
        }
        self.generic_visit(node)
        for call in ast.walk(arguments):
            if isinstance(call, ast.Call) and isinstance(call.func, ast.Name) and call.func.id == _NUMBER:
                call.func.id = _DEFAULT
                call.args[1] = ast.parse(f"lambda: {ast.unparse(call.args[1])}", mode="eval").body
        lines = "\n".join(f"if type({name}) is _Default: {name} = {name}.now()" for name in names.values())
        node.body[_after_docstring(node) : _after_docstring(node)] = ast.parse(lines).body
        return node


def _after_docstring(node: ast.FunctionDef) -> int:
    return int(ast.get_docstring(node, clean=False) is not None)


def _place(node: ast.AST) -> tuple[int | None, ...]:
    return tuple(getattr(node, name, None) for name in ("lineno", "col_offset", "end_lineno", "end_col_offset"))


def _call(name: str, *arguments: ast.expr) -> ast.Call:
    return ast.Call(ast.Name(name, ast.Load()), list(arguments), [])


def _module(file: Path) -> str:
    return ".".join(("leakscope", *file.with_suffix("").parts)).removesuffix(".__init__")
