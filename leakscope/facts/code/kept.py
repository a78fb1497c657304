"""What a process that takes no snapshot keeps, read from the sources: containers that the code it runs adds to.

Which code that is, stacks tell that were seen while its memory grew. What that code calls is followed as far as the
user's own sources go. Containers that some line empties again, or that were made with a limit, are left out.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Iterator, Mapping
from typing import NamedTuple

from .adding import JOINERS, removed_from
from .index import Index, Scope, last_name, pairs
from .names import Holder
from .points_to import ADDERS, PUSHES, Field, Node, Variable, points_to

_NOT_KEPT = frozenset(("on", "write", "writelines", "writerow", "writestr"))
_MEMBERS = frozenset(("get", "setdefault", "values", "__getitem__"))  # what they return is in the container
_LIMITS = frozenset(("maxlen", "maxsize", "max_size", "capacity"))
_OF_FIXED_SIZE = frozenset(("array", "arange", "empty", "full", "memmap", "ones", "zeros"))
_CACHES = frozenset(("cache", "lru_cache"))
_MOST_FUNCTIONS = 300
_CALLED = 0.8  # of what is seen at a caller, for the function it calls: nearer to the growth is more likely


class Kept(NamedTuple):
    """``holder`` and how likely it is, beside the others: the growth seen under functions that add to it."""

    holder: Holder
    weight: float


def kept_by(index: Index, seen: Mapping[Scope, float], *, with_locals: bool = True) -> list[Kept]:
    """Containers that functions add to and nothing empties, the likeliest first.

    ``seen``: functions that ran, each with the bytes that memory grew while it did. ``with_locals``: they run as long
    as their process, so that what a loop of theirs adds to a local is kept as well.
    """
    left_out = emptied(index)
    found: dict[tuple[str | None, str], Kept] = {}
    for scope, weight in _run(index, seen).items():
        for holder in _kept_in(index, scope, with_locals=with_locals and scope in seen):
            key = (holder.owner, holder.variable)
            if holder.variable not in left_out and (key not in found or found[key].weight < weight):
                found[key] = Kept(holder, weight)
    return sorted(found.values(), key=lambda kept: -kept.weight)


def function_at(index: Index, file: str, line: int) -> Scope | None:
    """The innermost function around a line."""
    around = [s for s in index.scopes if s.kind == "function" and s.source.file == file and _spans(s.node, line)]
    return max(around, key=lambda scope: getattr(scope.node, "lineno", 0), default=None)


def _spans(node: ast.AST | None, line: int) -> bool:
    first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", None) or 0
    return first <= line <= last


def _run(index: Index, seen: Mapping[Scope, float]) -> dict[Scope, float]:
    """The functions seen and those they call, each with its weight."""
    weights = dict(seen)
    waiting = sorted(seen, key=lambda scope: -seen[scope])
    while waiting and len(weights) < _MOST_FUNCTIONS:
        scope = waiting.pop(0)
        for called in _called(index, scope):
            if called not in weights:
                weights[called] = _CALLED * weights[scope]
                waiting.append(called)
    return weights


def _called(index: Index, scope: Scope) -> Iterator[Scope]:
    for site in scope.sites:
        if isinstance(site.node, ast.Call):
            for callee in index.run_by_calling(site.node.func, scope):
                yield callee
                yield from _wrapped_in(index, callee)


def _wrapped_in(index: Index, function: Scope) -> Iterator[Scope]:
    """What a decorator of the user's puts around a function."""
    for name in function.decorators:
        for decorator in index.functions.get(name, []):
            yield from (inner for inner in decorator.defs.values() if inner.kind == "function")


def _kept_in(index: Index, scope: Scope, *, with_locals: bool) -> Iterator[Holder]:
    source = scope.source
    if _CACHES & set(scope.decorators):
        yield Holder(scope.name, scope.qualname, source.module, source.file, "cache")
    for site in sorted(scope.sites, key=lambda site: getattr(site.node, "lineno", 0)):
        value = added_to(site.node)
        carried = [t for t, v in pairs(site.node) if _is_carried_over(t, v, scope)]
        value = carried[0] if carried else value
        for place in _origins(index, value, scope):
            if with_locals and site.loops and place == Variable(scope, last_name(value)):
                if _made_before_loops(scope, place.name):
                    yield Holder(place.name, scope.qualname, source.module, source.file, "local")
            else:
                yield from _outliving(place, scope)


def _origins(index: Index, value: ast.expr | None, scope: Scope) -> Iterator[Node]:
    """What an expression is called where it comes from: ``self.rows`` after ``rows = self.rows``; itself first."""
    place = points_to(index).target(value, scope) if value is not None else None
    return points_to(index).origins(place[0]) if place is not None else iter(())


def _outliving(place: Node, scope: Scope) -> Iterator[Holder]:
    """What lies there is there still when a call of the function has ended."""
    if isinstance(place, Field) and place.owner is not None:
        yield Holder(place.name, place.owner, scope.source.module, scope.source.file, "attribute")
    elif isinstance(place, Variable):
        binding, name = place
        module, file = binding.source.module, binding.source.file
        if binding.kind == "module" and name in binding.bound and name not in binding.imports:
            yield Holder(name, module, module, file, "global")
        elif binding in scope.around:
            yield Holder(name, binding.qualname, module, file, "closure")


def added_to(node: ast.AST) -> ast.expr | None:
    """``x`` of ``x[k] = v``, ``x.append(v)``, ``x[k].append(v)``, ``heappush(x, v)`` and ``x += [v]``.

    Not of ``x["name"] = v``: that is one member, however often it is set.
    """
    value: ast.expr | None = None
    if isinstance(node, ast.Assign):
        targets = [t for t in node.targets if isinstance(t, ast.Subscript) and not isinstance(t.slice, ast.Constant)]
        value = targets[0].value if targets else None
    elif isinstance(node, ast.AugAssign) and isinstance(node.value, (ast.List, ast.ListComp, ast.Tuple)):
        value = node.target
    elif isinstance(node, ast.Call) and last_name(node.func) in PUSHES and node.args:
        value = node.args[0]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ADDERS - _NOT_KEPT:
        value = node.func.value
    return _container(value)


def _is_carried_over(target: ast.expr, value: ast.expr | None, scope: Scope) -> bool:
    """``self.rest = joined[n:]`` after ``joined = cat([self.rest, new])``: what is left of it, and something more."""
    if not isinstance(target, ast.Attribute) or last_name(target.value) not in ("self", "cls"):
        return False
    made_of = {last_name(t): v for site in scope.sites for t, v in pairs(site.node) if isinstance(t, ast.Name)}
    joined = made_of.get(_first_name(value))
    if not isinstance(joined, (ast.Call, ast.BinOp)):
        return False
    parts = [part for part in ast.walk(joined) if isinstance(part, ast.Attribute) and part.attr == target.attr]
    adds_more = isinstance(joined, ast.BinOp) or last_name(joined.func) in JOINERS
    return adds_more and any(last_name(part.value) in ("self", "cls") for part in parts)


def _first_name(value: ast.expr | None) -> str:
    """``joined`` of ``joined[n:].clone()``."""
    while isinstance(value, (ast.Subscript, ast.Attribute, ast.Call)):
        value = value.func if isinstance(value, ast.Call) else value.value
    return last_name(value)


def _container(value: ast.expr | None) -> ast.expr | None:
    """``x`` of ``x[k]`` and ``x.setdefault(k, [])``."""
    while True:
        if isinstance(value, ast.Subscript):
            value = value.value
        elif isinstance(value, ast.Call) and isinstance(value.func, ast.Attribute) and value.func.attr in _MEMBERS:
            value = value.func.value
        else:
            return value


def _made_before_loops(scope: Scope, name: str) -> bool:
    """A local that lives as long as the loops of its function: those of a worker's main run until it ends."""
    if name in scope.params:
        return False
    makes = [
        bool(site.loops)
        for site in scope.sites
        for target, _ in pairs(site.node)
        if isinstance(target, ast.Name) and target.id == name
    ]
    return makes == [False]


def emptied(index: Index) -> frozenset[str]:
    """Names of containers that some line empties, replaces or was made to limit, also by another name."""
    names: set[str] = set()
    for scope in index.scopes:
        for site in scope.sites:
            names.update(_replaced_at(site.node, scope))
            for value in _emptied_at(site.node):
                container = _container(value)
                names.add(last_name(container))
                names.update(node.name for node in _origins(index, container, scope) if not isinstance(node, ast.Call))
        names.update(last_name(_container(target)) for target in _deleted(scope.node))
    return frozenset(names - {""})


def _emptied_at(node: ast.AST) -> Iterator[ast.expr]:
    yield from removed_from(node)
    yield from (
        t for t, _ in pairs(node) if isinstance(t, ast.Subscript) and isinstance(t.slice, ast.Slice)
    )  # x[:] = []


def _replaced_at(node: ast.AST, scope: Scope) -> Iterator[str]:
    for target, value in pairs(node):
        if _is_limited(value) or (_is_replaced(target, scope) and not _is_carried_over(target, value, scope)):
            yield last_name(target)


def _is_replaced(target: ast.expr, scope: Scope) -> bool:
    return isinstance(target, ast.Attribute) and scope.name not in ("__init__", "setUp")


def _is_limited(value: ast.expr | None) -> bool:
    if not isinstance(value, ast.Call):
        return False
    has_limit = any(keyword.arg in _LIMITS for keyword in value.keywords)
    is_empty = bool(value.args) and isinstance(value.args[0], ast.Constant) and value.args[0].value == 0
    return (
        has_limit
        or (last_name(value.func) in _OF_FIXED_SIZE and not is_empty)  # nothing is kept in that: it will be replaced
        or (last_name(value.func) == "deque" and len(value.args) > 1)
    )


def _deleted(node: ast.AST | None) -> Iterable[ast.expr]:
    """Members that ``del`` takes out, anywhere in a module."""
    if not isinstance(node, ast.Module):
        return ()
    return [target for part in ast.walk(node) if isinstance(part, ast.Delete) for target in part.targets]
