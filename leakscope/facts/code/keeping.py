"""What the result of a call is kept as: the attribute it becomes, or the container that it is put into.

Pure functions: text in, names out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from .adding import ADDS, CREATES, Line, line_at
from .index import Index, Scope, Source, index_of
from .points_to import INTO, Field, Flow, Node, Things, added_to, points_to


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
