"""In which loops a call of the user's runs: those around it, and those around the calls that lead to it."""

from __future__ import annotations

import ast
from typing import NamedTuple

from .index import COMPREHENSIONS, FUNCTIONS, LOOPS, Index, Scope

_MOST = 8  # ways to one function that are told apart
_DEEPEST = 100  # calls below each other: generated sources call in long chains


class Loop(NamedTuple):
    file: str
    first: int
    last: int


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
_BEGINNINGS = frozenset(("main", "command"))  # ... but not a program's beginning: main(), or what @app.command() is on


class CallLoops:
    def __init__(self, index: Index) -> None:
        self._index = index
        self._around: dict[int, tuple[Loop, ...]] = {}
        self._ways: dict[Scope, tuple[Way, ...]] = {}
        for scope in index.scopes:
            if scope.kind == "module" and scope.node is not None:
                self._look(scope.node, scope.source.file)

    def ways(self, call: ast.Call, scope: Scope) -> tuple[Way, ...]:
        return self._ways_of(call, scope, frozenset())

    def _ways_of(self, call: ast.Call, scope: Scope, above: frozenset[Scope]) -> tuple[Way, ...]:
        own = self._around.get(id(call), ())
        found = []
        for way in self._ways_to(scope, above):
            loop = way.loop if way.depth else next(iter(own), None)
            found.append(Way(way.depth + len(own), (*way.path, (call.lineno, scope.source.file)), loop))
        return tuple(found)

    def _ways_to(self, scope: Scope, above: frozenset[Scope]) -> tuple[Way, ...]:
        """Ways to the body of a function; ``above``: the functions on whose behalf we ask, for those that recur."""
        while scope.kind == "class" and scope.parent is not None:
            scope = scope.parent
        if scope.kind == "module":
            return (_ONCE,)
        callers = self._index.callers.get(scope, ())
        if not callers and not _BEGINNINGS.isdisjoint((scope.name, *scope.decorators)):
            return (_ONCE,)
        if scope in above or len(above) > _DEEPEST:
            return ()
        if scope not in self._ways:
            found: dict[Way, None] = {}
            for caller, call in callers:
                found.update(dict.fromkeys(self._ways_of(call, caller, above | {scope})))
            self._ways[scope] = tuple(found)[:_MOST] or (_CALLED_BACK,)
        return self._ways[scope]

    def _look(self, tree: ast.AST, file: str) -> None:
        """Note the loops around each call, within its own function, the outermost first."""
        waiting: list[tuple[ast.AST, tuple[Loop, ...]]] = [(tree, ())]
        while waiting:
            node, loops = waiting.pop()
            if isinstance(node, ast.Call):
                self._around[id(node)] = loops
            if isinstance(node, FUNCTIONS):
                loops = ()
            within, once = loops, _run_once(node)
            if isinstance(node, (*LOOPS, *COMPREHENSIONS)):
                within = (*loops, Loop(file, node.lineno, node.end_lineno or node.lineno))
            waiting += [(child, within) for child in ast.iter_child_nodes(node) if child not in once]
            waiting += [(child, loops) for child in once]


def _run_once(node: ast.AST) -> list[ast.AST]:
    """Parts of a loop that it does not repeat."""
    if isinstance(node, (ast.For, ast.AsyncFor)):
        return [node.iter, *node.orelse]
    return list(node.orelse) if isinstance(node, ast.While) else []
