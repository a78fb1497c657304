"""What edits of a source are made of: the places of its syntax and their texts, and a reason where there is none."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeVar

from .index import Source, lines_of
from .syntax import root_of

UP_TO_YOU = "what to change depends on what the program needs"
Node = TypeVar("Node")


class Edited(NamedTuple):
    """``text``: the whole file ``file``, edited. ``note``: what was chosen, or what to look at; may be empty."""

    file: str
    before: str
    text: str
    note: str


class Unsure(Exception):
    """``why`` nothing is edited, as a clause."""

    @property
    def why(self) -> str:
        return str(self)


class Asked(NamedTuple):
    """``line`` of ``file`` adds to ``variable``, whose type and whose members' type are named; ``most``: a limit.

    ``container``: the type of ``variable``, without its module, where that is known; ``member``: that of a member,
    where these grew, and the line adds to one. ``base``: str, bytes, int or float, where the members are of a class
    derived from that.
    """

    sources: Sequence[Source]
    file: str
    line: int
    variable: str
    type_name: str
    most: int
    base: str | None = None
    container: str = ""
    member: str | None = None

    @property
    def kind(self) -> str:
        if self.member is not None:
            return self.member.rpartition(".")[2]
        return self.container or self.type_name.split(" of ")[0].rpartition(".")[2]


def need(is_so: object, why: str = UP_TO_YOU) -> None:
    if not is_so:
        raise Unsure(why)


def known(found: Node | None, why: str = UP_TO_YOU) -> Node:
    if found is None:
        raise Unsure(why)
    return found


def of_kind(kind: type[Node], node: object, why: str = UP_TO_YOU) -> Node:
    return known(node if isinstance(node, kind) else None, why)


def tree_of(text: str) -> ast.Module | None:
    """Of a whole source: what is cut off is edited by nobody."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def nodes(sources: Sequence[Source]) -> Iterator[tuple[Source, ast.AST]]:
    for source in sources:
        tree = tree_of(source.text)
        yield from ((source, node) for node in (ast.walk(tree) if tree is not None else ()))


def is_plain_name(node: ast.expr | None) -> bool:
    """A name, or an attribute of one: to evaluate it again changes nothing."""
    return node is not None and isinstance(root_of(node), ast.Name)


def segment(source: Source, node: ast.AST) -> str:
    return ast.get_source_segment(source.text, node) or ast.unparse(node)


def indent_of(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _around(source: Source, node: ast.expr | ast.stmt) -> tuple[str, str]:
    """What stands before and behind it, on its first line and its last."""
    lines = lines_of(source.text)
    before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    return before, lines[(node.end_lineno or node.lineno) - 1].encode()[node.end_col_offset or 0 :].decode()


def has_own_lines(source: Source, node: ast.stmt) -> bool:
    before, behind = _around(source, node)
    return not before.strip() and behind.strip()[:1] in ("", "#")


def with_lines(source: Source, first: int, end: int | None, new: Sequence[str], note: str = "") -> Edited:
    """The source with other lines from ``first`` to before ``end``, and with the line ends that it has."""
    lines = lines_of(source.text)
    lines[first:end] = new
    return Edited(source.file, source.text, ("\r\n" if "\r\n" in source.text else "\n").join(lines), note)


def replaced(source: Source, node: ast.expr | ast.stmt, new: str, note: str = "") -> Edited:
    """The source with another text in place of a node, which may go over several lines."""
    before, behind = _around(source, node)
    return with_lines(source, node.lineno - 1, node.end_lineno, f"{before}{new}{behind}".split("\n"), note)


def put_behind(source: Source, node: ast.stmt, new: Sequence[str], note: str) -> Edited:
    """The source with statements put behind one, as far in as it."""
    need(has_own_lines(source, node), "the statement shares its line with another")
    end, indent = node.end_lineno or node.lineno, indent_of(lines_of(source.text)[node.lineno - 1])
    return with_lines(source, end, end, [indent + one for one in new], note)
