"""A program's text without what it says: the same lines and calls, strings and comments gone, its variables numbered.

What a report finds in a source are calls, containers and loops by the names that snapshots have for them. So a name
stays where the recording has it anyway, or a library may have made it, or it is a function's or class's; the rest of a
program's variables get numbers.
"""

from __future__ import annotations

import ast
import builtins
import io
import keyword
import token
import tokenize
import warnings
from collections.abc import Callable, Iterable

Placeholder = Callable[[str, str], str]  # (kind, text) to what stands for it
_PARTS = ("FSTRING_MIDDLE", "TSTRING_MIDDLE")  # from Python 3.12 and 3.14
_STRINGS = {token.STRING, *(getattr(token, name) for name in _PARTS if hasattr(token, name))}
_KEPT_STRINGS = frozenset(("", "__main__"))


class Names:
    """Which names of the sources are of variables that nothing but the sources names."""

    def __init__(self, sources: Iterable[str], known: set[str]) -> None:
        """``known``: names that stand elsewhere in the recording."""
        bound: set[str] = set()
        used: set[str] = {"self", "cls", *known, *keyword.kwlist, *keyword.softkwlist, *dir(builtins)}
        for source in sources:
            for node in _nodes(source):
                _look_at(node, bound, used)
        self._own = {name for name in bound - used if not (name.startswith("__") and name.endswith("__"))}

    def __contains__(self, name: object) -> bool:
        return name in self._own


def _nodes(source: str) -> list[ast.AST]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the program's own escapes
        try:
            return list(ast.walk(ast.parse(source)))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return []


def _look_at(node: ast.AST, bound: set[str], used: set[str]) -> None:
    if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load):
        bound.add(node.id)
    elif isinstance(node, ast.arg):
        bound.add(node.arg)
    elif isinstance(node, ast.ExceptHandler) and node.name:
        bound.add(node.name)
    elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
        used.add(node.name)  # types and stacks may have it in other words: Round is RoundBackward to torch
    elif isinstance(node, ast.Attribute):
        used.add(node.attr)
    elif isinstance(node, ast.keyword) and node.arg:
        used.add(node.arg)
    elif isinstance(node, ast.alias):
        used.update(node.name.split("."))
    elif isinstance(node, ast.ImportFrom) and node.module:
        used.update(node.module.split("."))


def without_texts(source: str, names: Names, placeholder: Placeholder) -> str:
    """As many lines, without their texts; empty ones where Python cannot read the source."""
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(source).readline))
    except (tokenize.TokenError, SyntaxError, IndentationError):
        return "\n" * source.count("\n")
    lines = list(io.StringIO(source))  # as the tokenizer: not at a form feed
    parts: list[str] = []
    row, column = 1, 0
    for one in tokens:
        (start_row, start_column), (end_row, end_column) = one.start, one.end
        if one.type in (token.ENDMARKER, token.INDENT, token.DEDENT) or (start_row, start_column) < (row, column):
            continue
        parts.append(_between(lines, row, column, start_row, start_column))
        parts.append(_token(one, names, placeholder))
        row, column = end_row, end_column
    if row <= len(lines):
        parts.append(_between(lines, row, column, len(lines), len(lines[-1])))
    return "".join(parts)


def _between(lines: list[str], row: int, column: int, end_row: int, end_column: int) -> str:
    if row > len(lines):
        return ""
    if row == end_row:
        return lines[row - 1][column:end_column]
    last = lines[end_row - 1][:end_column] if end_row <= len(lines) else ""
    return "".join([lines[row - 1][column:], *lines[row : end_row - 1], last])


def _token(one: tokenize.TokenInfo, names: Names, placeholder: Placeholder) -> str:
    if one.type == token.COMMENT:
        return "#"
    if one.type in _STRINGS:
        return _string(one, placeholder)
    if one.type == token.NAME and one.string in names:
        return placeholder("name", one.string)
    return one.string


def _string(one: tokenize.TokenInfo, placeholder: Placeholder) -> str:
    """A string as long in lines, so that what comes after it keeps its line."""
    text = one.string
    lines = text.count("\n")
    if one.type != token.STRING:  # a part of an f-string, of which names and calls are tokens of their own
        return placeholder("text", text) + "\n" * lines if text.strip() else text
    try:
        value = ast.literal_eval(text)
    except (SyntaxError, ValueError):
        value = text  # an f-string before Python 3.12: what it formats is lost
    if value in _KEPT_STRINGS:
        return text
    prefix, quote = ("b" if isinstance(value, bytes) else ""), ('"""' if lines else '"')
    what = value if isinstance(value, str) else repr(value)
    return f"{prefix}{quote}{placeholder('text', what)}" + "\n" * lines + quote
