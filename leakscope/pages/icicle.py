"""The heap of a process as nested boxes: each as wide as what it retains. Together they are all of the process.

The boxes of one snapshot are cut so that no box is narrower than those inside it: where the accounts of the process
are less than what its holders retain (both are read at slightly different instants), the account *other* gives way.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..findings import HeapView

_OBJECTS = ("tensors", "arrays", "python-objects")
_NAMES = {
    "native": "native: allocated by libraries",
    "allocator-free": "allocator-free: freed, kept by malloc",
    "shared-memory": "shared memory",
    "mapped-files": "mapped files: interpreter and libraries",
    "other": "other: interpreter and libraries",
}
_ROWS = 7  # drawn where nobody can go down
_LEAST = 0.25  # percent of the width: less cannot be seen
_LEVEL, _MUCH = 0.02, 0.35  # of the largest growth: less is level, more is much


@dataclass(frozen=True)
class Node:
    """One box: ``parent`` is an index among the nodes, ``holder`` that of a holder of the view."""

    name: str
    type: str
    parent: int | None
    bytes: Sequence[int]
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
    objects = [sum(b.value_bytes[i] for b in view.accounts if b.name in _OBJECTS) for i in count]
    objects = [max(of, named) for of, named in zip(objects, held)]
    others = [(b.name, b.value_bytes) for b in view.accounts if b.name not in _OBJECTS]
    total = [max(sum(b.value_bytes[i] for b in view.accounts), objects[i]) for i in count]
    room = [of - some for of, some in zip(total, objects)]
    asked = [sum(values[i] for _, values in others) for i in count]
    found = [Node(view.process, "process", None, total), Node("objects", "tensors, arrays, Python objects", 0, objects)]
    for name, values in others:
        fitting = [value * r // a if a > r else value for value, r, a in zip(values, room, asked)]
        found.append(Node(_NAMES.get(name, name), "account", 0, fitting))
    offset = len(found)
    for number, holder in enumerate(view.holders):
        above = 1 if holder.parent is None else offset + holder.parent
        name = holder.path
        if holder.parent is not None and name.startswith(view.holders[holder.parent].path):
            name = name[len(view.holders[holder.parent].path) :].lstrip() or name
        fitting = [min(own, whole) for own, whole in zip(holder.bytes, found[above].bytes)]
        found.append(Node(name, holder.type, above, fitting, number))
    found.append(Node("not listed: smaller, or without a name", "", 1, [o - h for o, h in zip(objects, held)]))
    return found


def boxes(nodes: Sequence[Node], shown: int = -1, base: int = 0) -> list[Box]:
    """The largest first, from the left, at one snapshot; the colour tells the growth since another."""
    most = max((abs(n.bytes[shown] - n.bytes[base]) for n in nodes), default=0) or 1
    members: dict[int | None, list[int]] = {}
    for number, node in enumerate(nodes):
        members.setdefault(node.parent, []).append(number)
    found: list[Box] = []
    whole = nodes[0].bytes[shown] or 1
    ahead = [(0, 0.0, 0)]
    while ahead:
        number, left, row = ahead.pop()
        node = nodes[number]
        width = 100 * node.bytes[shown] / whole
        found.append(Box(node, left, width, row, _shade(node.bytes[shown] - node.bytes[base], most)))
        if row + 1 == _ROWS:
            continue
        inner = sorted(members.get(number, []), key=lambda n: -nodes[n].bytes[shown])
        for member in inner:
            part = 100 * nodes[member].bytes[shown] / whole
            if part >= _LEAST:
                ahead.append((member, left, row + 1))
            left += part
    return sorted(found, key=lambda box: (box.row, box.left))


def _shade(growth: int, most: int) -> str:
    share = growth / most
    return "shrank" if share < -_LEVEL else "level" if share <= _LEVEL else "grew" if share < _MUCH else "grew-much"
