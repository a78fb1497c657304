"""Calls of C functions that a program itself makes, through ctypes or cffi: found in its source, not seen at work."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from functools import lru_cache

from .adding import Line
from .index import Source, last_name, lines_of, parse

_OPENERS = ("CDLL", "PyDLL", "LoadLibrary", "dlopen")
GIVES_BACK = re.compile(r"(^|_)(free|close|destroy|delete|release|unmap|munmap|detach|unref|fini|clear|drop)", re.I)
_HANDS_OUT = re.compile(r"alloc|dup|map|new|create|make|open|load|parse|init|copy|clone|encode|decode|build", re.I)
_LOOPS = (ast.For, ast.AsyncFor, ast.While, ast.comprehension, ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def handing_out(sources: Sequence[Source]) -> Line | None:
    """The call that hands out memory: the only one, or the only one by its name. None where there are several."""
    calls = [call for source in sources for call in _calls(source)]
    by_name = [call for call in calls if _HANDS_OUT.search(call.kind)]
    for some in (calls, by_name):
        if len({(call.file, call.line) for call in some}) == 1:
            return some[0]
    return None


@lru_cache(maxsize=64)
def _calls(source: Source) -> tuple[Line, ...]:
    """Lines that call a function of a library opened by hand, over and over; ``kind`` is the function's name."""
    if not any(opener in source.text for opener in _OPENERS):
        return ()
    tree = parse(source.text)
    if tree is None:
        return ()
    libraries, aliases = _libraries(tree)
    texts = lines_of(source.text)
    found = []
    for call, function in _repeated(tree):
        name = last_name(call.func)
        if isinstance(call.func, ast.Attribute):
            is_foreign = last_name(call.func.value) in libraries
        else:
            is_foreign, name = name in aliases, aliases.get(name, name)
        if is_foreign and not GIVES_BACK.search(name):
            text = texts[call.lineno - 1].strip()
            found.append(Line(source.file, call.lineno, function, text, name, 1.0))
    return tuple(found)


def _libraries(tree: ast.Module) -> tuple[set[str], dict[str, str]]:
    """Names that stand for an opened library, and names of single functions of one."""
    assigned = [node for node in ast.walk(tree) if isinstance(node, ast.Assign)]
    libraries = {
        last_name(target)
        for node in assigned
        if isinstance(node.value, ast.Call) and last_name(node.value.func) in _OPENERS
        for target in node.targets
    }
    aliases = {
        last_name(target): node.value.attr
        for node in assigned
        if isinstance(node.value, ast.Attribute) and last_name(node.value.value) in libraries
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    return libraries, aliases


def _repeated(tree: ast.Module) -> Iterator[tuple[ast.Call, str | None]]:
    """Calls in loops and functions, with the function's name: what a module does once at import is no leak."""
    waiting: list[tuple[ast.AST, str | None, bool]] = [(tree, None, False)]
    while waiting:
        node, function, is_repeated = waiting.pop()
        if isinstance(node, ast.Call) and is_repeated:
            yield node, function
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            function = f"{function}.{node.name}" if function else node.name
        is_repeated = is_repeated or isinstance(node, _LOOPS)
        waiting += [(child, function, is_repeated) for child in ast.iter_child_nodes(node)]
