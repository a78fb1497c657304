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
    """``owner``: the class of the object whose attribute it is; None for a variable, or where that is not known.

    ``library``: of a container that is an object of one, which ``method`` gave it to.
    """

    variable: str
    owner: str | None
    is_container: bool
    line: Line
    library: str | None = None
    method: str | None = None

    @property
    def name(self) -> str:
        return f"{self.owner}.{self.variable}" if self.owner else self.variable


def kept_as(sources: Sequence[Source], made: Line) -> Kept | None:
    """Where what is made, or started, on a line is put: a container first. None: nowhere that outlives the function.

    What its own function does with it counts first; what others do that it is given to, where only one keeps it.
    """
    index = index_of(sources, "", made.file)
    for scope, things in _made(index, made.file, made.line):
        kept = [(one, flow) for flow in things.flows if (one := _kept(index, flow)) is not None]
        here = [one for one in kept if one[1].scope is scope]
        if not here and len({one.variable for one, _ in kept}) != 1:
            return None
        best, flow = min(here or kept, key=lambda one: not one[0].is_container)
        func = getattr(flow.site, "func", None)
        if not isinstance(flow.site, ast.Call) or not isinstance(func, ast.Attribute):
            return best
        return best._replace(library=_library_called(index, flow.site, flow.scope), method=func.attr)
    return None


class Taker(NamedTuple):
    """A library that the program hands something, and the line."""

    library: str
    line: Line


def given_to(sources: Sequence[Source], file: str, number: int, maker: str) -> Taker | None:
    """The one library beside ``maker``, no part of Python, to which the program hands what is made on a line."""
    index = index_of(sources, "", file)
    for _, things in _made(index, file, number):
        takers = [
            Taker(library, line_at(index, other, call, CALLS, 1.0))
            for other, _, call in index.calls()
            if any(things.kind(one, other) == THING for one in call.args)
            for library in [_library_called(index, call, other)]
            if library not in (None, maker)
        ]
        return takers[0] if len({one.library for one in takers}) == 1 else None
    return None


def _library_called(index: Index, call: ast.Call, scope: Scope) -> str | None:
    """The library, no part of Python, that is called: a function of it, or a method of an object that one made."""
    own = {package_of(of.source.module) for of in index.scopes}
    made_by = dict.fromkeys([imported(call.func, scope)])
    if isinstance(call.func, ast.Attribute):
        graph = points_to(index)
        whole = [term.node for term in graph.terms(call.func.value, scope) if not term.path]
        origins = {origin for node in whole for origin in graph.origins(node)}
        made_by |= dict.fromkeys(imported(one.func, of) for of, _, one in index.calls() if one in origins)
    libraries = {package_of(names[0]) for names in made_by if names} - {*STANDARD_LIBRARY, *own}
    return libraries.pop() if len(libraries) == 1 else None


def _made(index: Index, file: str, line: int) -> Iterator[tuple[Scope, Things]]:
    """What calls on a line make, by scope."""
    there = [(scope, call) for scope, _, call in index.calls() if call.lineno == line and scope.source.file == file]
    for scope in dict.fromkeys(scope for scope, _ in there):
        yield scope, Things(points_to(index), _nodes(index, scope, [call for of, call in there if of is scope]))


def _nodes(index: Index, scope: Scope, calls: Sequence[ast.Call]) -> Iterator[Node]:
    for call in calls:
        yield call
        if isinstance(call.func, ast.Attribute) and call.func.attr == "start":
            for term in points_to(index).terms(call.func.value, scope):
                yield from points_to(index).origins(term.node) if not term.path else ()


def _kept(index: Index, flow: Flow) -> Kept | None:
    is_container = flow.term.path[-1:] == (INTO,) and any(added_to(flow.site))  # not what makes one of a few at once
    if not is_container and not isinstance(flow.target, Field):
        return None
    line = line_at(index, flow.scope, flow.site, ADDS if is_container else CREATES, 1.0)
    owner = flow.target.owner if isinstance(flow.target, Field) else None
    return Kept(getattr(flow.target, "name", ""), owner, is_container, line)
