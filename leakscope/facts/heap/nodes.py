"""The objects of one process in some of its snapshots: laid over each other, named, and told apart."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .history import Description, History
from .place import CONTAINERS, GROUPS, Floats


@dataclass(eq=False)
class Node:
    """One object over all snapshots. ``told``: its newest description; the figures as ``history.FIGURES`` has them.

    ``is_measured``: where its length is known, which may be 0. ``numbers``: its own, and those of objects that had its
    name one after the other. ``by_type``: counts and bytes of what it dominates immediately.
    """

    number: int
    told: Description
    retained: Floats
    storage: Floats
    native: Floats
    children: Floats
    length: Floats
    error: Floats
    unshown: Floats
    is_measured: NDArray[np.bool_]
    numbers: set[int] = field(init=False)
    by_type: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.numbers = {self.number}

    @property
    def name(self) -> str | None:
        """Of the reference that leads to it, without what says that it is a key."""
        name = self.told.edge_name
        return name[2:-2] if name is not None and name.startswith("['") else name

    @property
    def type_name(self) -> str:
        return self.told.type_name or "object"

    @property
    def is_cell(self) -> bool:
        """Between a variable that inner functions use and what it is."""
        return self.told.type_name == "cell"

    @property
    def is_group(self) -> bool:
        """No object of Python's."""
        return self.number < GROUPS

    @property
    def own_bytes(self) -> float:
        return float(self.told.shallow_bytes or 0)

    @property
    def newest(self) -> int:
        """The last snapshot that has it; -1: none has."""
        return int(np.flatnonzero(self.retained).max(initial=-1))

    def is_together_with(self, other: Node) -> bool:
        """In any snapshot."""
        return bool(self.retained @ other.retained)

    def weights(self, at: int) -> Floats:
        """What it retained in one snapshot: in all, of tensors' storage, of native memory."""
        return np.array([self.retained[at], self.storage[at], self.native[at]])

    def add(self, at: int, weights: Floats) -> None:
        for figures, more in zip((self.retained, self.storage, self.native), weights):
            figures[at] = max(0.0, figures[at] + more)

    def tell(self, **changed: Any) -> None:
        """Describe it otherwise."""
        self.told = self.told._replace(**changed)

    def go_on_from(self, before: Node) -> None:
        """It is what the other was in earlier snapshots."""
        self.retained += before.retained
        self.storage += before.storage
        self.native += before.native
        self.error += before.error
        self.unshown += before.unshown
        self.children += before.children
        self.length += before.length
        self.is_measured |= before.is_measured
        if self.told.edge_name is None:  # it was another's by the time it was asked for
            was = before.told
            self.tell(path_node=was.path_node, edge_kind=was.edge_kind, edge_name=was.edge_name)


def nodes_of(
    history: History, takes: Sequence[int], *, without_tensors: bool
) -> tuple[dict[int, Node], dict[int, int]]:
    """({number: node}, {number of one that is a part of another now: that other's})."""
    position = {take: i for i, take in enumerate(takes)}
    nodes = {}
    for number, told, figures, known in history.seen(position):
        retained, storage, native, children, length, error, unshown = figures
        nodes[number] = Node(number, told, retained, storage, native, children, length, error, unshown, known)
    for node in nodes.values() if without_tensors else ():
        node.retained, node.storage = np.maximum(node.retained - node.storage, 0.0), np.zeros(len(takes))
    _held_by_defaults(nodes)
    _name_hooks_of_tensors(nodes)
    nameless = [number for number, node in nodes.items() if node.told.edge_name is None]
    _name_by_others(nodes, history.named_elsewhere(position, nameless))
    for number, kind, name in history.successors_names:
        if number in nodes and nodes[number].told.edge_name is None:
            nodes[number].tell(edge_kind=kind, edge_name=name)
    of_number = _join_successors(nodes)
    _cut_circles(nodes)
    for take, at in position.items():
        then = ((of_number.get(n, n), of_number.get(above, above)) for n, above in history.dominators(take))
        _hang_as_told(nodes, dict(then), at)
    for number, take, type_name, *held in history.children(position):
        above = nodes.get(of_number.get(number, number))
        if above is not None and isinstance(type_name, str):
            if type_name not in above.by_type:
                above.by_type[type_name] = (np.zeros(len(takes)), np.zeros(len(takes)))
            for figures, figure in zip(above.by_type[type_name], held):
                figures[position[take]] = figure
    for node in nodes.values() if without_tensors else ():
        for _, bytes in node.by_type.values():  # of those it is not told what is tensors': no more than it has itself
            np.minimum(bytes, node.retained, out=bytes)
    return nodes, of_number


def from_roots(nodes: Mapping[int, Node]) -> list[int]:
    """Numbers, each after that on the way to it."""
    order: list[int] = []
    done: set[int] = set()
    for number in nodes:
        way = []
        while number not in done and number in nodes:
            done.add(number)
            way.append(number)
            number = nodes[number].told.path_node
        order += reversed(way)
    return order


def _name_by_others(nodes: Mapping[int, Node], rows: Iterable[tuple[Any, ...]]) -> None:
    """A name that was gone before it could be looked up, from other snapshots that saw the same object held there."""
    for number, path_node, edge_kind, edge_name in rows:
        node = nodes.get(number)
        if node is None or node.told.edge_name is not None or edge_name is None:
            continue
        if (path_node or 0) == node.told.path_node:
            node.tell(edge_kind=edge_kind, edge_name=edge_name)


def _name_hooks_of_tensors(nodes: Mapping[int, Node]) -> None:
    """A tensor has them in C, where no name leads to them, and refers to no other OrderedDict."""
    for node in nodes.values():
        above = nodes.get(node.told.path_node)
        is_tensors = above is not None and above.type_name in ("torch.Tensor", "torch.nn.parameter.Parameter")
        if is_tensors and node.told.edge_name is None and node.type_name == "collections.OrderedDict":
            node.tell(edge_kind="attribute", edge_name="_backward_hooks")


def _held_by_defaults(nodes: Mapping[int, Node]) -> None:
    """What a function keeps as the default of a parameter is that, also while a call or an object has it by a name."""
    for node in nodes.values():
        told, held = node.told, nodes.get(node.told.dominator_node)
        function = nodes.get(held.told.path_node) if held is not None and held.type_name == "tuple" else None
        if function is None or held is None or function.type_name != "function" or told.path_node == held.number:
            continue
        if not node.is_cell and told.edge_kind in (None, "local", "attribute", "reference"):
            kind = "default" if told.edge_name is not None else told.edge_kind
            node.tell(path_node=held.number, edge_kind=kind, root_kind=held.told.root_kind)


def _join_successors(nodes: dict[int, Node]) -> dict[int, int]:
    """What a variable, an attribute or a key had one after the other is one node, as for who reads the program.

    A list that is made anew each time, with one member more, grows as one does that is appended to. So do the calls of
    one function. Returns {number of one that is a part of another now: that other's}.
    """
    joined: dict[int, int] = {}
    known: dict[tuple[Any, ...], list[Node]] = {}
    for number in from_roots(nodes):
        node = nodes[number]
        _follow(node, joined)
        key = _place_of(node)
        if key is None:
            continue
        others = known.setdefault(key, [])
        other = next((one for one in others if not one.is_together_with(node)), None)
        if other is None:
            others.append(node)
            continue
        joined[number] = other.number
        if node.newest > other.newest:
            other.told = node.told
        other.go_on_from(node)
        other.numbers |= node.numbers
    for number in joined:
        del nodes[number]
    for node in nodes.values():  # some have their dominator farther from the roots than they are themselves
        _follow(node, joined)
    return joined


def _cut_circles(nodes: Mapping[int, Node]) -> None:
    """Whoever goes from a node to what holds it, or dominates it, arrives, also in a file that was tampered with."""
    for link in ("path_node", "dominator_node"):
        done: set[int] = set()
        for number in nodes:
            way: set[int] = set()
            at = number
            while at in nodes and at not in done:
                done.add(at)
                way.add(at)
                above = getattr(nodes[at].told, link)
                if above in way:
                    nodes[at].tell(**{link: 0})
                    break
                at = above


def _hang_as_told(nodes: Mapping[int, Node], then: Mapping[int, int], at: int) -> None:
    """Objects hang as the newest snapshot has them: what one hung below in an earlier one is without it there as well.

    Where a local has an object of a list as the last snapshot is made, the function holds it, and before that the list.
    ``then``: {number: what dominated it in the snapshot ``at``}.
    """
    now = {number: node.told.dominator_node for number, node in nodes.items()}
    moved = {n: nodes[n].weights(at) for n, above in then.items() if n in nodes and now[n] != above}
    ways = {number: _way_up(then[number], then) for number in moved}
    own = {number: weights.copy() for number, weights in moved.items()}  # without what else moved
    for number, way in ways.items():
        above = next((one for one in way if one in own), None)
        if above is not None:
            own[above] -= moved[number]
    for number, way in ways.items():
        to = _way_up(now[number], now)
        for above, change in [*((one, -own[number]) for one in way), *((one, own[number]) for one in to)]:
            if above in nodes and nodes[above].retained[at]:
                nodes[above].add(at, change)


def _way_up(number: int, dominators: Mapping[int, int]) -> list[int]:
    """It, and what dominates it, up to a root. In a file that was tampered with it may go round."""
    way: dict[int, None] = {}
    while number and number not in way:
        way[number] = None
        number = dominators.get(number, 0)
    return list(way)


def _follow(node: Node, joined: Mapping[int, int]) -> None:
    """It hangs on what its holders are parts of by now."""
    above, dominator = (joined.get(number, number) for number in (node.told.path_node, node.told.dominator_node))
    if (above, dominator) != (node.told.path_node, node.told.dominator_node):
        node.tell(path_node=above, dominator_node=dominator)


def _place_of(node: Node) -> tuple[Any, ...] | None:
    """By what name it is held, and what it is; None for what has no name that the next one would have, too."""
    told = node.told
    if node.is_group:
        return None
    own = told.path_node, told.type_name, told.edge_kind, node.name
    if told.type_name == "frame":
        return (*own, told.owner, told.owner_file, told.owner_line)
    return own if node.name is not None or told.edge_kind in ("namespace", "contents") else None


def lengths_of(node: Node) -> Floats:
    """How many members a container had; zeros of what is none.

    A length is written down of what was still there when names were looked up. Where it was not, it is that of the
    nearest snapshot that has one, as much longer as it holds more objects alone; where none has one, it is estimated
    as that number of objects.
    """
    is_there = node.retained > 0
    if not node.length.any():
        return np.where(is_there & (node.told.type_name in CONTAINERS), node.children, 0.0)
    if node.is_measured[is_there].all():
        return np.where(is_there, node.length, 0.0)
    known = np.flatnonzero(node.length > 0)
    nearest = known[np.abs(known[:, None] - np.arange(len(node.length))).argmin(axis=0)]
    before = node.children[nearest]
    more = np.ones(len(before))
    np.divide(node.children, before, out=more, where=(node.children > 0) & (before > 0))
    estimated = np.where(is_there, np.round(node.length[nearest] * more), 0.0)
    return np.where(node.is_measured & is_there, node.length, estimated)


def alive(nodes: Collection[Node]) -> Floats:
    """How many there are at each snapshot."""
    found: Floats = np.sum([node.retained > 0 for node in nodes], axis=0).astype(np.float64)
    return found
