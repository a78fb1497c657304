"""The heap of a process as nested boxes: each as wide as what it retains. Together they are all of the process.

A figure is never changed to fit. What holders retain beyond the accounts of objects is native memory that they hold, or
a part of *other*: it moves from there. Where boxes still hold more than the one they lie in, they are drawn narrower:
one held another at that snapshot, or what they hold was not in RAM.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..findings import DEVICE_CACHE, DEVICE_OTHER, HeapView

_GIVE_WAY = ("native", "other")  # accounts that are what no other explains: objects may turn out to hold it
_OBJECTS = ("tensors", "arrays", "python-objects")
_NAMES = {
    "native": "native: allocated by libraries",
    "allocator-free": "allocator-free: freed, kept by malloc",
    "shared-memory": "shared memory",
    "inherited": "inherited: pages of its parent's that it wrote to",
    "mapped-files": "mapped files: interpreter and libraries",
    "other": "other: interpreter and libraries",
    DEVICE_OTHER: "allocated, and held by no Python object: workspaces, graphs that were not followed",
    DEVICE_CACHE: "cached by torch's allocator",
}
_ROWS = 7  # drawn where nobody can go down
_LEAST = 0.25  # percent of the width: less cannot be seen
_LEVEL, _MUCH = 0.02, 0.35  # of the largest growth: less is level, more is much


@dataclass(frozen=True)
class Node:
    """One box: ``parent`` is an index among the nodes, ``holder`` that of a holder of the view.

    ``drawn_bytes``: its width, at most ``bytes``, what it retains.
    """

    name: str
    type: str
    parent: int | None
    bytes: Sequence[int]
    drawn_bytes: Sequence[int]
    holder: int | None = None


@dataclass(frozen=True)
class Box:
    """A node as it is drawn: percent from the left, and the row from the top. ``shade`` is the class of its growth."""

    node: Node
    left: float
    width: float
    row: int
    shade: str


def nodes(view: HeapView) -> list[Node]:
    """The process, what it holds in objects and otherwise, and below the objects its holders; parents first."""
    count = range(len(view.takes))
    tops = [h for h in view.holders if h.parent is None]
    held = [sum(h.bytes[i] for h in tops) for i in count]
    levels = {band.name: list(band.value_bytes) for band in view.accounts}
    objects = [sum(levels[name][i] for name in _OBJECTS if name in levels) for i in count] if levels else held
    total = [sum(values[i] for values in levels.values()) for i in count] if levels else held
    objects = [own + _taken(levels, i, retained - own) for i, (own, retained) in enumerate(zip(objects, held))]
    others = [(_NAMES.get(name, name), values) for name, values in levels.items() if name not in _OBJECTS]
    told: list[tuple[str, str, int | None, Sequence[int], int | None]] = [
        (view.process, "process", None, total, None),
        ("objects", "tensors, arrays, Python objects, and what they hold", 0, [*map(max, objects, held)], None),
        *((name, "account", 0, values, None) for name, values in others),
    ]
    offset = len(told)
    for number, holder in enumerate(view.holders):
        above = 1 if holder.parent is None else offset + holder.parent
        name = holder.path
        if holder.parent is not None and name.startswith(view.holders[holder.parent].path):
            name = name[len(view.holders[holder.parent].path) :].lstrip() or name
        told.append((name, holder.type, above, list(holder.bytes), number))
    told.append(("not listed: smaller, or without a name", "", 1, [o - min(o, h) for o, h in zip(objects, held)], None))
    widths = _widths([(parent, values) for _, _, parent, values, _ in told], objects)
    return [Node(name, kind, above, values, width, at) for (name, kind, above, values, at), width in zip(told, widths)]


def _taken(levels: dict[str, list[int]], take: int, wanted: int) -> int:
    """What the accounts that give way had of it; they have it no longer."""
    taken = 0
    for name in _GIVE_WAY:
        part = min(max(0, wanted - taken), levels[name][take]) if name in levels else 0
        if part:
            levels[name][take] -= part
            taken += part
    return taken


def _widths(told: Sequence[tuple[int | None, Sequence[int]]], objects: Sequence[int]) -> list[list[int]]:
    """Bytes that each is drawn as: those within one box never more together than it is, each its share of them.

    ``objects``: the width of the second, which is what the accounts leave room for.
    """
    hoped = [objects if number == 1 else values for number, (_, values) in enumerate(told)]
    asked = [[0] * len(objects) for _ in told]
    for (parent, _), values in zip(told, hoped):
        if parent is not None:
            asked[parent] = [one + value for one, value in zip(asked[parent], values)]
    widths: list[list[int]] = []
    for (parent, _), values in zip(told, hoped):
        if parent is None:
            widths.append(list(values))
        else:
            room = zip(values, widths[parent], asked[parent])
            widths.append([value * whole // want if want > whole else value for value, whole, want in room])
    return widths


def boxes(nodes: Sequence[Node], shown: int = -1, base: int = 0) -> list[Box]:
    """The largest first, from the left, at one snapshot; the colour tells the growth since another."""
    most = max((abs(n.bytes[shown] - n.bytes[base]) for n in nodes), default=0) or 1
    members: dict[int | None, list[int]] = {}
    for number, node in enumerate(nodes):
        members.setdefault(node.parent, []).append(number)
    found: list[Box] = []
    whole = nodes[0].drawn_bytes[shown] or 1
    ahead = [(0, 0.0, 0)]
    while ahead:
        number, left, row = ahead.pop()
        node = nodes[number]
        width = 100 * node.drawn_bytes[shown] / whole
        found.append(Box(node, left, width, row, _shade(node.bytes[shown] - node.bytes[base], most)))
        if row + 1 == _ROWS:
            continue
        inner = sorted(members.get(number, []), key=lambda n: -nodes[n].drawn_bytes[shown])
        for member in inner:
            part = 100 * nodes[member].drawn_bytes[shown] / whole
            if part >= _LEAST:
                ahead.append((member, left, row + 1))
            left += part
    return sorted(found, key=lambda box: (box.row, box.left))


def _shade(growth: int, most: int) -> str:
    share = growth / most
    return "shrank" if share < -_LEVEL else "level" if share <= _LEVEL else "grew" if share < _MUCH else "grew-much"
