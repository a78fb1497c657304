"""What came to hang on an object without being new: others held it as well, and let go of it.

What an object retains is what only it holds. So it gains whatever it had in common with another, as soon as that one
drops it, and nothing was allocated. Objects have the same number in each snapshot of a process, and the smaller ones
that they retain are counted by type: how many there were, and how many of those there are now were there before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from ..facts.tables import int_of, only, records, text_of
from ..storage import Recording, Rows

_Of = tuple[int, str]  # number of a node, type of what it retains


class _Node(NamedTuple):
    dominator: int
    type_name: str
    retained_bytes: float
    was_there: bool


class _Children(NamedTuple):
    number: float
    bytes: float
    new_number: float
    new_bytes: float


_NONE = _Children(0.0, 0.0, 0.0, 0.0)


def new_bytes(recording: Recording, pid: int, before: int, after: int) -> dict[int, float]:
    """{number of an object: bytes that it gained between two snapshots, without what others held as well before}."""
    nodes, nodes_now = (_nodes(recording.rows["heap_nodes"], pid, take) for take in (before, after))
    children, children_now = (_children(recording.rows["heap_children"], pid, take) for take in (before, after))
    arrived = _arrived(nodes, nodes_now, children, children_now)
    held, held_now = ({n: node.retained_bytes for n, node in found.items()} for found in (nodes, nodes_now))
    return {n: held_now.get(n, 0.0) - held.get(n, 0.0) - arrived.get(n, 0.0) for n in held.keys() | held_now.keys()}


def _arrived(
    nodes: Mapping[int, _Node],
    nodes_now: Mapping[int, _Node],
    children: Mapping[_Of, _Children],
    children_now: Mapping[_Of, _Children],
) -> dict[int, float]:
    """{number of an object: bytes that it retains now, and that were there before and not retained by it}."""
    found: defaultdict[int, float] = defaultdict(float)
    told: Counter[_Of] = Counter()  # of the children of one type: these are nodes, and looked at one by one
    told_bytes: Counter[_Of] = Counter()
    for number, node in nodes_now.items():
        of = node.dominator, node.type_name
        if node.was_there:
            told_bytes[of] += int(node.retained_bytes)
        known = nodes.get(number)
        if known is None or known.dominator == node.dominator:
            continue
        told[of] += 1
        above_before = set(_above(nodes, number))
        for above in _above(nodes_now, number):
            if above not in above_before:  # else it only moved within what that one retains
                found[above] += known.retained_bytes
    for (number, type_name), now in children_now.items():
        old_count, old_bytes = now.number - now.new_number, now.bytes - now.new_bytes
        was = children.get((number, type_name), _NONE)
        count = old_count - was.number - told[number, type_name]
        if count <= now.new_number:
            continue  # a new one in 70 passes for an old one
        way_up = [number, *_above(nodes_now, number)]
        # What another let go of may be freed, and new objects lie at the same addresses.
        count -= sum(_lost(children, children_now, of) for of in children if of[1] == type_name and of[0] not in way_up)
        each = max(0.0, old_bytes - told_bytes[number, type_name]) / old_count
        for above in way_up:
            count -= _lost(children, children_now, (above, type_name))  # it had them itself
            if count <= 0:
                break
            found[above] += count * each
    return dict(found)


def _lost(children: Mapping[_Of, _Children], children_now: Mapping[_Of, _Children], of: _Of) -> float:
    return max(0.0, children.get(of, _NONE).number - children_now.get(of, _NONE).number)


def _nodes(rows: Rows, pid: int, take: int) -> dict[int, _Node]:
    return {
        int(row["node"]): _Node(
            int_of(row, "dominator_node") or 0, text_of(row, "type_name") or "", float(row["retained_bytes"]),
            int_of(row, "was_there") == 1,
        )
        for row in _of_take(rows, pid, take)
    }  # fmt: skip


def _children(rows: Rows, pid: int, take: int) -> dict[_Of, _Children]:
    return {
        (int(row["node"]), str(row["type_name"])): _Children(
            float(row["object_count"]), float(row["retained_bytes"]), float(row["new_count"]), float(row["new_bytes"])
        )
        for row in _of_take(rows, pid, take)
        if int_of(row, "new_count") is not None  # else they are samples
    }


def _of_take(rows: Rows, pid: int, take: int) -> list[dict[str, Any]]:
    return records(only(rows, (rows["pid"] == pid) & (rows["take"] == take)))


def _above(nodes: Mapping[int, _Node], number: int) -> Iterator[int]:
    """What retains it, from the nearest on."""
    known = {number}
    while number in nodes and nodes[number].dominator not in known:
        number = nodes[number].dominator
        known.add(number)
        yield number
