"""At how many members the program itself stops a container from growing, read from its sources.

A cap is a length that is compared where members are put in or taken out: ``while len(self.rows) > self.most:
self.rows.popleft()``, ``if len(rows) < 100: rows.append(row)``; also the length of what is filled beside it. Or it is a
slice that leaves so many: ``rows = rows[-100:]``.
Whether a container keeps to it is for those to say who have seen its length.
"""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ...units import FULL
from .adding import Line, line_at, removed_from
from .index import Index, Scope, Source, index_of
from .names import Holder, Names
from .points_to import Field, Node, Variable, added_to, points_to
from .syntax import FUNCTIONS, last_name, pairs

CAPS = "caps"
_SURE = FULL  # that an expression is the object itself
_LENGTHS = frozenset(("qsize", "__len__"))
_LEAVES = (ast.Return, ast.Raise, ast.Continue, ast.Break)
_FLIPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {ast.Lt: ast.Gt, ast.LtE: ast.GtE, ast.Gt: ast.Lt, ast.GtE: ast.LtE}
_ABOVE, _BELOW = (ast.Gt, ast.GtE, ast.Eq), (ast.Lt, ast.LtE, ast.NotEq)
_WORKED_OUT: dict[type[ast.operator], Callable[[int, int], int]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.FloorDiv: operator.floordiv,
    ast.Pow: operator.pow, ast.LShift: operator.lshift,
}  # fmt: skip
_POWERS = (operator.pow, operator.lshift)
_MOST_BITS = 64  # of a length
_CALLS = 2  # functions within each other that may take out


class Cap(NamedTuple):
    """``line`` compares or cuts. ``members``: the numbers it may be, least first; empty: the sources do not tell.

    ``attribute``: of the same object, where the number is kept.
    """

    members: tuple[int, ...]
    line: Line
    attribute: str | None = None


def caps(sources: Sequence[Source], holder: Holder) -> list[Cap]:
    """In the order of the sources."""
    index = index_of(sources, holder.variable, holder.owner_file)
    names = Names(index, holder)
    return [cap for scope in index.scopes for cap in _Caps(index, names, scope).found()]


class _Caps:
    """The caps of one object in one scope."""

    def __init__(self, index: Index, names: Names, scope: Scope) -> None:
        self._index, self._names, self._scope = index, names, scope

    def found(self) -> Iterator[Cap]:
        if self._scope.kind == "class":
            return
        nodes = list(_own(self._scope.node))
        for node in nodes:
            if isinstance(node, (ast.If, ast.While)):
                for test in ast.walk(node.test):
                    if isinstance(test, ast.Compare) and len(test.ops) == 1:
                        yield from self._compared(node, test, nodes)
            else:
                yield from self._cut(node)

    def _compared(self, node: ast.If | ast.While, test: ast.Compare, nodes: Sequence[ast.AST]) -> Iterator[Cap]:
        left, op, right = test.left, type(test.ops[0]), test.comparators[0]
        for is_it in (self._is_it, self._is_beside):
            if not self._is_length(left, is_it):
                left, op, right = right, _FLIPPED.get(op, op), left
            if self._is_length(left, is_it):
                break
        else:
            return
        if is_it == self._is_beside:
            holds = issubclass(op, _ABOVE) and self._takes_out(node.body, self._scope) and self._adds(nodes)
        elif issubclass(op, _ABOVE):
            holds = (
                self._takes_out(node.body, self._scope)
                or self._adds(node.orelse)
                or (isinstance(node, ast.If) and isinstance(node.body[-1], _LEAVES) and self._adds(_after(node, nodes)))
            )
        else:
            holds = issubclass(op, _BELOW) and (self._adds(node.body) or self._takes_out(node.orelse, self._scope))
        if holds:
            yield self._cap(right, test)

    def _cut(self, node: ast.AST) -> Iterator[Cap]:
        """``rows = rows[-100:]``, ``rows[:] = rows[-100:]``, ``del rows[:-100]``."""
        if isinstance(node, ast.Delete):
            for target in node.targets:
                whole, lower, upper = _sliced(target)
                kept = lower or upper
                if whole is not target and self._is_it(whole) and kept is not None and None in (lower, upper):
                    yield self._cap(kept, node)
            return
        for target, value in pairs(node):
            whole, *_ = _sliced(target)
            cut, lower, upper = _sliced(value)
            if cut is value or not (self._is_it(whole) and self._is_it(cut)):
                continue
            if isinstance(lower, ast.UnaryOp) and upper is None:
                yield self._cap(lower, node)
            elif lower is None and upper is not None and not isinstance(upper, ast.UnaryOp):
                yield self._cap(upper, node)

    def _cap(self, members: ast.expr, node: ast.AST) -> Cap:
        members = members.operand if isinstance(members, ast.UnaryOp) else members  # rows[-100:]
        line = line_at(self._index, self._scope, node, CAPS, 1.0)
        own = isinstance(members, ast.Attribute) and self._scope.params[:1] == (last_name(members.value),)
        attribute = members.attr if isinstance(members, ast.Attribute) and own else None
        return Cap(tuple(sorted(_numbers(self._index, members, self._scope))), line, attribute)

    def _is_it(self, node: ast.expr | None, scope: Scope | None = None) -> bool:
        return self._names.strength(node, scope or self._scope, inside=False) >= _SURE

    def _is_beside(self, node: ast.expr | None) -> bool:
        """Another attribute of the same object: where that is too long, one is taken out of both."""
        return isinstance(node, ast.Attribute) and self._scope.params[:1] == (last_name(node.value),)

    def _is_length(self, node: ast.expr, is_it: Callable[[ast.expr], bool]) -> bool:
        """``len(rows)``, ``rows.qsize()``; or a name that was given this."""
        if isinstance(node, ast.Name):
            assigned = [pair for site in self._scope.sites for pair in pairs(site.node)]
            given = [value for target, value in assigned if isinstance(target, ast.Name) and target.id == node.id]
            return len(given) == 1 and isinstance(given[0], ast.Call) and self._is_length(given[0], is_it)
        if not isinstance(node, ast.Call):
            return False
        if isinstance(node.func, ast.Name) and node.func.id == "len" and len(node.args) == 1:
            return is_it(node.args[0])
        return isinstance(node.func, ast.Attribute) and node.func.attr in _LENGTHS and is_it(node.func.value)

    def _takes_out(self, nodes: Sequence[ast.AST], scope: Scope, calls: int = _CALLS) -> bool:
        """Something there takes members out, or puts another container in its place."""
        for node in (inner for one in nodes for inner in ast.walk(one)):
            if any(self._is_it(one, scope) for one in removed_from(node)):
                return True
            if isinstance(node, ast.Call):
                for function in self._index.callees(node.func, scope) if calls else ():
                    if function.kind == "function" and self._takes_out(_body(function.node), function, calls - 1):
                        return True
            elif isinstance(node, (ast.Assign, ast.AnnAssign)):
                targets = [target for target, _ in pairs(node) if not isinstance(target, ast.Subscript)]
                if any(self._is_it(target, scope) or self._names.is_seed(target, scope) for target in targets):
                    return True
        return False

    def _adds(self, nodes: Sequence[ast.AST]) -> bool:
        every = (inner for one in nodes for inner in ast.walk(one))
        return any(self._is_it(value) for node in every for value in added_to(node))


def _numbers(index: Index, node: ast.expr, scope: Scope) -> set[int]:
    """Which whole numbers an expression may be; none where one of the ways leads to what is no number there."""
    graph, found, seen = points_to(index), set[int](), set[Node]()
    waiting = list(graph.terms(node, scope))
    while waiting:
        at, path = waiting.pop()
        is_attribute = bool(path) and path[-1].startswith(".")  # which is a node as well
        if at in seen or is_attribute:
            continue
        seen.add(at)
        value = _value(at)
        of_class = index.classes.get(at.owner or "", ()) if isinstance(at, Field) else ()
        places = [at, *(Variable(one, at.name) for one in of_class if isinstance(at, Field))]
        ways = [flow.term for place in places for flow in graph.given(place)]
        if path or (value is None and not ways):
            return set()
        found |= {value} if value is not None else set()
        waiting += ways
    return found


def _value(node: Node) -> int | None:
    """Of a number, or of what is worked out of numbers alone, as ``1 << 20``."""
    if isinstance(node, ast.Constant):
        return int(node.value)  # type: ignore[arg-type]
    how = _WORKED_OUT.get(type(node.op)) if isinstance(node, ast.BinOp) else None
    if how is None or not isinstance(node, ast.BinOp):
        return None
    left, right = _value(node.left), _value(node.right)
    is_small = right is not None and right > 0 and (right < _MOST_BITS or how not in _POWERS)
    return how(left, right) if left is not None and is_small and right is not None else None


def _after(node: ast.stmt, nodes: Sequence[ast.AST]) -> list[ast.AST]:
    return [one for one in nodes if isinstance(one, ast.stmt) and one.lineno > (node.end_lineno or 0)]


def _sliced(node: ast.expr | None) -> tuple[ast.expr | None, ast.expr | None, ast.expr | None]:
    """``rows``, and where the part begins and ends, of ``rows[-100:]``; of anything else that itself."""
    if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Slice):
        return node.value, node.slice.lower, node.slice.upper
    return node, None, None


def _body(node: ast.AST | None) -> list[ast.AST]:
    body = getattr(node, "body", [])
    return list(body) if isinstance(body, list) else [body]


def _own(node: ast.AST | None) -> Iterator[ast.AST]:
    """All nodes of a module or function, without those of functions and classes in it."""
    waiting: list[ast.AST] = list(reversed(_body(node)))
    while waiting:
        at = waiting.pop()
        if isinstance(at, (*FUNCTIONS, ast.ClassDef)):
            continue
        yield at
        waiting += reversed(list(ast.iter_child_nodes(at)))
