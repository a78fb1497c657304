"""Calls of C functions that a program itself makes, through ctypes or cffi: found in its source, not seen at work."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence

from .adding import Line, line_at
from .index import Index, Scope, Source, index_of, last_name
from .points_to import THING, Term, Things, points_to

_OPENERS = ("CDLL", "PyDLL", "LoadLibrary", "dlopen")
GIVES_BACK = re.compile(r"(^|_)(free|close|destroy|delete|release|unmap|munmap|detach|unref|fini|clear|drop)", re.I)
_HANDS_OUT = re.compile(r"alloc|dup|map|new|create|make|open|load|parse|init|copy|clone|encode|decode|build", re.I)


def handing_out(sources: Sequence[Source]) -> Line | None:
    """The call that hands out memory: the only one, or the only one by its name. None where there are several."""
    opener = next((name for name in _OPENERS if any(name in source.text for source in sources)), None)
    calls = list(_calls(index_of(sources, opener))) if opener is not None else []
    by_name = [call for call in calls if _HANDS_OUT.search(call.kind)]
    for some in (calls, by_name):
        if len({(call.file, call.line) for call in some}) == 1:
            return some[0]
    return None


def _calls(index: Index) -> Iterator[Line]:
    """Lines that call a function of a library opened by hand, over and over; ``kind`` is the function's name."""
    calls = [(site, site.node, s) for s in index.scopes for site in s.sites if isinstance(site.node, ast.Call)]
    libraries = Things(points_to(index), [Term(call) for _, call, _ in calls if last_name(call.func) in _OPENERS])
    for site, call, scope in calls:
        # What a module does once at import is no leak.
        name = _foreign_name(index, libraries, call, scope) if index.is_repeated(site, scope) else None
        if name is not None and not GIVES_BACK.search(name):
            yield line_at(index, scope, call, name, 1.0)


def _foreign_name(index: Index, libraries: Things, call: ast.Call, scope: Scope) -> str | None:
    """``strdup`` of ``libc.strdup``, also by another name that was given to it."""
    terms = points_to(index).terms(call.func, scope)
    given = [flow.term for term in terms if not term.path for flow in points_to(index).into.get(term.node, ())]
    for node, path in (*terms, *given):
        if path and path[-1][0] == "." and libraries.kind_of(Term(node, path[:-1])) == THING:
            return path[-1][1:]
    return None
