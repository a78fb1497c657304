"""In which loops a call of the user's runs: those around it, and those around the calls that lead to it."""

from __future__ import annotations

from typing import NamedTuple

from .index import Index, Loop, Scope, Site

_MOST = 8  # ways to one function that are told apart
_DEEPEST = 100  # calls below each other: generated sources call in long chains


class Way(NamedTuple):
    """One way to a call. ``loop``: the outermost one around it; None where it is in none or nobody is seen to call it.

    ``depth``: loops around it, those of its callers too. ``path``: line and file of the calls that lead to it, its own
    last: of two ways the one that begins earlier in the program has the lesser path.
    """

    depth: int
    path: tuple[tuple[int, str], ...]
    loop: Loop | None

    @property
    def is_unknown(self) -> bool:
        return self.depth > 0 and self.loop is None


_ONCE = Way(0, (), None)
_CALLED_BACK = Way(1, (), None)  # nobody we see calls it, so a library does, and again and again for all we know


class CallLoops:
    """Ways to calls, worked out once for each function."""

    def __init__(self, index: Index) -> None:
        self._index = index
        self._ways: dict[Scope, tuple[Way, ...]] = {}

    def ways(self, site: Site, scope: Scope, above: frozenset[Scope] = frozenset()) -> tuple[Way, ...]:
        """``above``: the functions on whose behalf we ask, for those that recur."""
        found = []
        for way in self._ways_to(scope, above):
            loop = way.loop if way.depth else next(iter(site.loops), None)
            line = getattr(site.node, "lineno", 0)
            found.append(Way(way.depth + len(site.loops), (*way.path, (line, scope.source.file)), loop))
        return tuple(found)

    def _ways_to(self, scope: Scope, above: frozenset[Scope]) -> tuple[Way, ...]:
        """Ways to the body of a function."""
        while scope.kind == "class" and scope.parent is not None:
            scope = scope.parent
        if scope.kind == "module":
            return (_ONCE,)
        callers = self._index.callers.get(scope, ())
        if not callers and scope.is_beginning:
            return (_ONCE,)
        if scope in above or len(above) > _DEEPEST:
            return ()
        if scope not in self._ways:
            found: dict[Way, None] = {}
            for caller, call in callers:
                found.update(dict.fromkeys(self.ways(call, caller, above | {scope})))
            self._ways[scope] = tuple(found)[:_MOST] or (_CALLED_BACK,)
        return self._ways[scope]
