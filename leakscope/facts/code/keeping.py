"""What the result of a call is kept as: the attribute it becomes, or the container that it is put into.

Pure functions: text in, names out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .adding import ADDS, CALLS, CREATES, Line, imported, line_at
from .imports import STANDARD_LIBRARY, package_of
from .index import Index, Scope, Source, index_of
from .points_to import INTO, THING, Field, Flow, Node, Things, added_to, points_to


class Kept(NamedTuple):
    """``owner``: the class of the object whose attribute it is; None for a variable, or where that is not known."""

    variable: str
    owner: str | None
    is_container: bool
    line: Line

    @property
    def name(self) -> str:
        return f"{self.owner}.{self.variable}" if self.owner else self.variable


def kept_as(sources: Sequence[Source], made: Line) -> Kept | None:
    """Where what is made, or started, on a line is put: a container first. None: nowhere that outlives the function.

    What its own function does with it counts first; what others do that it is given to, where only one keeps it.
    """
    index = index_of(sources, "", made.file)
    for scope in index.scopes:
        if scope.source.file != made.file:
            continue
        calls = [s.node for s in scope.sites if isinstance(s.node, ast.Call) and s.node.lineno == made.line]
        if calls:
            flows = Things(points_to(index), _made(index, scope, calls)).flows
            here = [_kept(index, flow) for flow in flows if flow.scope is scope]
            elsewhere = [_kept(index, flow) for flow in flows if flow.scope is not scope]
            return _best(here) or (_best(elsewhere) if len({k.variable for k in elsewhere if k}) == 1 else None)
    return None


class Taker(NamedTuple):
    """A library that the program hands something, and the line."""

    library: str
    line: Line


def given_to(sources: Sequence[Source], file: str, number: int, maker: str) -> Taker | None:
    """The one library beside ``maker``, no part of Python, to which the program hands what is made on a line."""
    index, own = index_of(sources, "", file), {package_of(source.module) for source in sources}
    not_takers = {*STANDARD_LIBRARY, *own, maker}
    for scope in index.scopes:
        calls = [s.node for s in scope.sites if isinstance(s.node, ast.Call) and s.node.lineno == number]
        if calls and scope.source.file == file:
            things = Things(points_to(index), _made(index, scope, calls))
            takers = [
                Taker(library, line_at(index, other, site.node, CALLS, 1.0))
                for other in index.scopes for site in other.sites if isinstance(site.node, ast.Call)
                for library in map(package_of, imported(site.node.func, other)[:1])
                if library not in not_takers and any(things.kind(one, other) == THING for one in site.node.args)
            ]  # fmt: skip
            return takers[0] if len({one.library for one in takers}) == 1 else None
    return None


def _made(index: Index, scope: Scope, calls: Sequence[ast.Call]) -> Iterator[Node]:
    for call in calls:
        yield call
        if isinstance(call.func, ast.Attribute) and call.func.attr == "start":
            for term in points_to(index).terms(call.func.value, scope):
                yield from points_to(index).origins(term.node) if not term.path else ()


def _best(kept: Sequence[Kept | None]) -> Kept | None:
    """The first container; where there is none, the first attribute."""
    return min((k for k in kept if k is not None), key=lambda k: not k.is_container, default=None)


def _kept(index: Index, flow: Flow) -> Kept | None:
    is_container = flow.term.path[-1:] == (INTO,) and any(added_to(flow.site))  # not what makes one of a few at once
    if not is_container and not isinstance(flow.target, Field):
        return None
    line = line_at(index, flow.scope, flow.site, ADDS if is_container else CREATES, 1.0)
    if isinstance(flow.target, Field):
        return Kept(flow.target.name, flow.target.owner, is_container, line)
    return Kept(getattr(flow.target, "name", ""), None, is_container, line)
