"""Chains of like objects, as a linked list has them: each holds the next, and they are told as one place."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from .nodes import Node, alive
from .place import Floats, Place

_LINKS = 16  # of one type, each of which has nearly nothing but the next: a chain, and one place
_DICT = "dict"
_BETWEEN = (_DICT, "tuple", "list")  # one dict of a chain and the next
_PASSES_ON = 15 / 16
_HEAVY_LINKS = 4  # of a chain in which each has the next and much more, as it became longer
_PASSES_ON_SOME = 0.4  # as the last but one does of those


def chains(nodes: Mapping[int, Node]) -> dict[int, int]:
    """For the links of long chains, but for the first: the number of the first.

    Each link retains nearly what the one before does, so that they all look like holders.
    """
    firsts: dict[int, int] = {}
    before = {number: above for number, node in nodes.items() if (above := _link_before(node, nodes)) is not None}
    lengths: dict[int, list[int]] = {}
    for number in nodes:
        first, way = number, {number}
        while first in before and before[first] not in way:
            first = before[first]
            way.add(first)
        lengths.setdefault(first, []).append(len(way))
        firsts[number] = first
    links_of: dict[int, list[Node]] = {}
    for number, first in firsts.items():
        links_of.setdefault(first, []).append(nodes[number])
    is_long = {first: max(lengths[first]) > _LINKS or _became_longer(links) for first, links in links_of.items()}
    long = {number: first for number, first in firsts.items() if is_long[first]}
    for number, first in long.items():  # what is a link now was the first one before those that came in front of it
        head, link = nodes[first], nodes[number]
        head.retained = np.maximum(head.retained, link.retained)
        head.storage = np.maximum(head.storage, link.storage)
        head.native = np.maximum(head.native, link.native)
    newest: dict[tuple[int, str | None], Node] = {}
    for first in sorted(set(long.values()), key=lambda one: (-nodes[one].newest, one)):
        node = nodes[first]
        known = newest.setdefault((node.told.dominator_node, node.told.type_name), node)
        if known is not node and (not known.is_together_with(node) or _are_held_alike(known, node)):
            known.go_on_from(node)  # a chain that grows at its beginning has another first link each time
            long = {number: known.number if of == first else of for number, of in long.items()}
    return {number: first for number, first in long.items() if number != first}


def names_its_like(link: Node, nodes: Mapping[int, Node]) -> bool:
    """Whether the object that it hangs on is of the same type, so that its name is that of each link."""
    above = nodes.get(link.told.path_node)
    return above is not None and above.told.type_name == link.told.type_name and link.name is not None


def chain(first: Place, node: Node, link: Place, links: Sequence[Node]) -> Place:
    """All links below the first as one place. ``link``: one of them, for the name by which each has it.

    ``links``: those with a row of their own, which are all where they are few and heavy.
    """
    name = link.reference.variable if link.reference.edge_kind == "attribute" else None
    own = np.where(node.retained > 0, node.own_bytes, 0.0)
    count = np.maximum(np.where(node.length > 0, node.length, alive(links)), first.count)
    made = replace(
        link, path=f"{first.path}.{name}…" if name else f"{first.path}…", type_name=first.type_name,
        deep_bytes=np.maximum(first.deep_bytes - own, 0.0), count=count, length=count.copy(), has_length=True,
        node=None, chained=True, parent=first, children=first.children, numbers=frozenset(),
    )  # fmt: skip
    first.length, first.has_length = np.zeros(len(own)), False
    for child in made.children:
        child.parent = made
    first.children = [made]
    return made


def _are_held_alike(one: Node, other: Node) -> bool:
    """By one that has no name for either: what tasks have in a context variable, each its own."""
    return one.told.path_node == other.told.path_node and one.name is None is other.name


def _became_longer(links: Sequence[Node]) -> bool:
    if len(links) <= _HEAVY_LINKS:  # as nearly all, which are no chain
        return False
    count: Floats = alive(links)
    return bool(count[-1] > _HEAVY_LINKS and count[-1] >= 2 * count[0])


def _link_before(node: Node, nodes: Mapping[int, Node]) -> int | None:
    """The object of the same type on which it hangs, if that has nearly nothing else, or no other of its
    type. A dict may lie between, or of a function the tuple and the cell by which it has a variable of another.
    """
    above, type_name = node, node.told.type_name
    for _ in range(3):
        found = nodes.get(above.told.dominator_node)
        # Dicts of instances, each of which has another: that is how far they are nested, as modules of a model are.
        if found is None or found.is_group or (type_name == _DICT and found.told.type_name not in _BETWEEN):
            return None
        holder, above = above if above is not node else found, found
        if above.told.type_name == type_name:
            at = max(0, node.newest)
            counts, _ = holder.by_type.get(type_name or "", (None, None))
            is_only_one = counts is not None and counts[at] == 1
            share = _PASSES_ON_SOME if is_only_one else _PASSES_ON
            return above.number if node.retained[at] >= share * above.retained[at] else None
    return None
