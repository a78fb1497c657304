"""What cells of IPython returned: it keeps each as ``_4`` and in ``Out``, also where no cell looks at it again."""

from __future__ import annotations

import ast
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from ..facts.case import Case
from ..facts.code.adding import Line
from ..facts.code.index import lines_of, parse, text_of
from ..facts.code.syntax import is_load
from ..facts.heap.comparable import Heap
from ..facts.heap.place import Place, upwards

_RESULT = re.compile(r"__main__\.(_(\d+)|_{1,3})(?!\w)")
_CELL = re.compile(r"<ipython-input-(\d+)-")
_NAMES = re.compile(r"_{1,3}|_\d+|_oh|Out")  # under which a cell looks at what another returned


class CellResults(NamedTuple):
    """``places``: none of them in another, the largest first. ``line``: the last of the cell that returned most."""

    places: list[Place]
    numbers: list[int]
    line: Line
    bytes: int


def is_cell_result(path: str) -> bool:
    return _RESULT.match(path) is not None


def unread_results(case: Case, heap: Heap) -> CellResults | None:
    """Those that nothing else keeps: what such a cell returned is new, or has been replaced under its name since."""
    cells = {int(number[1]): source for source in case.sources if (number := _CELL.match(source.file)) is not None}
    trees = {number: parse(source.text) for number, source in cells.items()}
    if any(_looks_back(tree) for tree in trees.values()):
        return None
    shown = sorted(number for number, tree in trees.items() if _returned(tree) is not None)
    kept: dict[int, list[Place]] = {}
    for place in heap.places:
        is_alone = all(is_cell_result(one.path) for one in (place, *place.also_held_by))
        is_inside = any(is_cell_result(above.path) for above in upwards(place.parent))
        cell = _number(place.path, shown) if is_alone and not is_inside else None
        if cell is not None and _is_left(cell, trees):
            kept.setdefault(cell, []).append(place)
    places = sorted((one for ones in kept.values() for one in ones), key=lambda one: -float(one.deep_bytes[-1]))
    if not places:
        return None
    numbers = sorted(kept, key=lambda number: -sum(float(one.deep_bytes[-1]) for one in kept[number]))
    source, tree = cells[numbers[0]], trees[numbers[0]]
    last = tree.body[-1].lineno if tree is not None else 1
    line = Line(source.file, last, None, text_of(lines_of(source.text), last), "returns", 1.0)
    return CellResults(places, sorted(numbers), line, round(sum(float(one.deep_bytes[-1]) for one in places)))


def _number(path: str, shown: Sequence[int]) -> int | None:
    """Of the cell that returned it: ``_`` is the latest of those that returned anything."""
    found = _RESULT.match(path)
    if found is None or found[2] is not None:
        return int(found[2]) if found is not None else None
    back = len(found[1])
    return shown[-back] if back <= len(shown) else None


def _returned(tree: ast.Module | None) -> ast.expr | None:
    last = tree.body[-1] if tree is not None and tree.body else None
    return last.value if isinstance(last, ast.Expr) else None


def _looks_back(tree: ast.Module | None) -> bool:
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)] if tree is not None else []
    own = {node.id for node in names if not is_load(node)}
    return tree is None or any(_NAMES.fullmatch(one.id) and is_load(one) and one.id not in own for one in names)


def _is_left(number: int, trees: Mapping[int, ast.Module | None]) -> bool:
    """Whether no variable has what a cell returned: a later cell gives its name to something else, or deletes it."""
    returned = _returned(trees.get(number))
    if not isinstance(returned, ast.Name):
        return isinstance(returned, ast.Call)
    later = (node for at, one in trees.items() if at > number and one is not None for node in ast.walk(one))
    return any(isinstance(node, ast.Name) and node.id == returned.id and not is_load(node) for node in later)
