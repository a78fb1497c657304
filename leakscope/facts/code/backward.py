"""Whether a backward pass goes through what an attribute has: by what that is computed of which the sources go back."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator, Sequence

from .index import Source, parse
from .points_to import adds
from .syntax import DEFINED, arguments_of, called, is_load, last_name, pairs, receiver

_CALLED = ("forward", "__call__", "training_step")  # methods that run where an object is called
_Within = ast.AST  # the function that an expression stands in, or the module


def goes_back_through(sources: Sequence[Source], attribute: str) -> bool:
    """True also where it only may: each name is followed to all that it is bound to. So it is where no line goes back,
    since then a library does, or where a source cannot be read.
    """
    trees = [parse(source.text) for source in sources]
    flows = _Flows([tree for tree in trees if tree is not None])
    if None in trees or not flows.backward:
        return True
    waiting, seen = list(flows.backward), set()
    for expression, within, is_called in waiting:  # which becomes longer
        for node in ast.walk(expression):
            if isinstance(node, ast.Attribute) and is_load(node) and node.attr == attribute:
                return True
            if (id(node), is_called) not in seen:
                seen.add((id(node), is_called))
                waiting += flows.into(node, within, is_called)
    return False


_Flow = tuple[ast.expr, _Within, bool]  # and whether it is in a function that is followed from a call of it


class _Flows:
    """What flows into each name, attribute and result of the sources."""

    def __init__(self, trees: Sequence[ast.Module]) -> None:
        self.backward: list[_Flow] = []
        self._outer: dict[_Within, _Within] = {}
        self._bound: dict[tuple[_Within | None, str], list[_Flow]] = defaultdict(list)  # None: an attribute
        self._given: dict[str, list[_Flow]] = defaultdict(list)
        self._returned: dict[str, list[_Flow]] = defaultdict(list)
        for tree in trees:
            self._read(tree, tree)

    def into(self, node: ast.AST, within: _Within, is_called: bool) -> Iterator[_Flow]:
        if isinstance(node, ast.Call):
            for name in [called(node)] if called(node) in self._returned else _CALLED:
                yield from self._returned[name]
        elif isinstance(node, ast.Attribute):
            yield from self._bound[None, node.attr]
        elif isinstance(node, ast.Name):
            at: _Within | None = within
            while at is not None:
                yield from ((one, where, is_called and where is within) for one, where, _ in self._bound[at, node.id])
                is_followed = is_called and at is within  # what it was given there is part of the call
                if isinstance(at, DEFINED) and not is_followed:
                    params = (one.arg for one in ast.walk(at.args) if isinstance(one, ast.arg))
                    yield from self._given[at.name] if node.id in params else ()
                at = self._outer.get(at)

    def _read(self, node: ast.AST, within: _Within) -> None:
        for target, value in self._pairs(node):
            is_name = isinstance(target, ast.Name)
            if value is not None:
                self._bound[within if is_name else None, last_name(target)].append((value, within, False))
        if isinstance(node, ast.Return) and node.value is not None and isinstance(within, DEFINED):
            self._returned[within.name].append((node.value, within, True))
        if isinstance(node, ast.Call):
            given = [(one, within, False) for one in arguments_of(node)]
            self._given[called(node)] += given
            if "backward" in called(node) or called(node) == "grad":
                self.backward += given
                self.backward += [(node.func.value, within, False)] if isinstance(node.func, ast.Attribute) else []
            elif isinstance(node.func, ast.Attribute) and adds(node.func.attr):
                at = within if isinstance(node.func.value, ast.Name) else None
                self._bound[at, receiver(node)] += given
        for child in ast.iter_child_nodes(node):
            if isinstance(child, DEFINED):
                self._outer[child] = within
            self._read(child, child if isinstance(child, DEFINED) else within)

    @staticmethod
    def _pairs(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None]]:
        if isinstance(node, ast.AugAssign):
            yield node.target, node.value
        elif isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            yield from pairs(ast.Assign([node.target], node.iter))
        else:
            for target, value in pairs(node):
                yield (target.value if isinstance(target, ast.Subscript) else target), value
