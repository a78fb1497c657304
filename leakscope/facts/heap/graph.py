"""The exact graph of the heap as places: each object that matters is one place, followed by its number.

A place hangs below the object without which it could be freed (its dominator), and has the name of the reference by
which it is held. What an object dominates beside those that matter themselves is one place for each type.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ...findings import AGENT
from ...units import MOST
from ..tables import narrow
from .history import History, Seen, history_of
from .place import GRAPH_TYPE, GROUPS, MODULE_DICTS, OF_MODULES, OF_OUTSIDE, OUTSIDE, Floats, Place, copied
from .takes import weigh_alike

if TYPE_CHECKING:
    import pandas as pd

    from ...storage import Recording

MODULES = "sys.modules"  # the path of the dict that has all modules
_OUR_FILE = re.compile(r"(?:\.journal|/leakscope-run-\w+)/agent/")
_LEFT_OUT = ("recorder", "unreached")  # what is ours, and garbage: other diagnoses tell of it
_LEAST_CHILDREN = 8
_LINKS = 16  # of one type, each of which has nearly nothing but the next: a chain, and one place
_PASSES_ON = 15 / 16
_HEAVY_LINKS = 4  # of a chain in which each has the next and much more, as it became longer
_PASSES_ON_SOME = 0.4  # as the last but one does of those
_REPEATS = 4  # of one step in a path: more of it are dots
_ARRAYS = ("numpy.ndarray", "numpy.memmap", "array.array", "bytearray", "mmap.mmap")
_NAMESPACES = ("_thread._local", "types.SimpleNamespace", "argparse.Namespace")
_STEPS_OF_LOCALS = 3
_RESULTS = "functools._lru_cache_wrapper"
_CONTAINERS = ("dict", "list", "set", "tuple", "frozenset", "collections.deque", "collections.OrderedDict")


@dataclass(eq=False)
class _Node:
    """One object over all snapshots; ``row`` is its newest description, with 0 for a ``path_node`` that it has not.

    ``numbers``: its own, and those of objects that had its name one after the other.
    """

    number: int
    row: dict[str, Any]
    retained: Floats
    storage: Floats
    native: Floats
    children: Floats
    length: Floats
    error: Floats
    is_measured: NDArray[np.bool_] = field(init=False)  # a length: of what is empty, it is 0
    numbers: set[int] = field(init=False)
    by_type: dict[str, tuple[Floats, Floats]] = field(default_factory=dict)  # counts, bytes

    def __post_init__(self) -> None:
        self.numbers = {self.number}


def graph_places(
    recording: Recording,
    pid: int,
    takes: Sequence[int],
    *,
    by_holder: bool = False,
    on_devices: bool = False,
    weighs_alike: bool = False,
) -> list[Place]:
    """The places of a process in those of its snapshots that have a graph, for the caller to change as he likes.

    ``by_holder``: what several hold is told at the one that holds most of it, instead of at what dominates them all.
    ``on_devices``: all bytes are those that tensors have on GPUs, instead of memory of the process.
    ``weighs_alike``: tensors have none where not all of these snapshots weighed them.
    """
    history = history_of(recording, pid, on_devices=on_devices)
    is_mixed = weighs_alike and not on_devices and not weigh_alike(recording, pid, takes)
    key = (tuple(takes), by_holder, is_mixed)
    if key not in history.places:
        history.places[key] = _laid_over(history, *key)
    return copied(history.places[key])


def _laid_over(history: History, takes: Sequence[int], by_holder: bool, without_tensors: bool) -> list[Place]:
    position = {take: i for i, take in enumerate(takes)}
    nodes = {one.number: _node(one) for one in history.seen(position)}
    for node in nodes.values() if without_tensors else ():
        node.retained, node.storage = np.maximum(node.retained - node.storage, 0.0), np.zeros(len(takes))
    nameless = [number for number, node in nodes.items() if not isinstance(node.row["edge_name"], str)]
    _name_by_others(nodes, history.named_elsewhere(position, nameless))
    for number, kind, name in history.successors_names:
        if number in nodes and _edge_name(nodes[number]) is None:
            nodes[number].row |= {"edge_kind": kind, "edge_name": name}
    of_number = _join_successors(nodes)
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
    sharers = _sharers(history.shared(position), of_number) if by_holder else {}
    return list(_places(nodes, history.user_files, history.user_modules, sharers, len(takes), by_holder))


@dataclass(frozen=True)
class _Sharer:
    """One that refers to objects that others hold as well, or to what refers to them and to which they refer."""

    bytes: float  # the most of these objects in any snapshot
    is_direct: bool


def _sharers(
    rows: Iterable[tuple[Any, ...]], of_number: Mapping[int, int]
) -> dict[tuple[int, str], dict[int, _Sharer]]:
    """{(number of a node, type): {number of one that refers to such objects below it: how}}."""
    found: dict[tuple[int, str], dict[int, _Sharer]] = {}
    for above, number, type_name, bytes, count, direct in rows:
        of_type = found.setdefault((of_number.get(above, above), str(type_name)), {})
        number = of_number.get(number, number)
        known = of_type.get(number, _Sharer(0.0, False))
        is_direct = direct is None or direct != direct or direct >= MOST * count
        of_type[number] = _Sharer(max(known.bytes, float(bytes)), known.is_direct or is_direct)
    return found


def _node(seen: Seen) -> _Node:
    node = _Node(seen.number, seen.row, *seen.figures)
    node.is_measured = seen.is_measured
    return node


def _name_by_others(nodes: Mapping[int, _Node], rows: Iterable[tuple[Any, ...]]) -> None:
    """A name that was gone before it could be looked up, from other snapshots that saw the same object held there.

    An object may have got a ``__dict__`` since.
    """
    of_owner: dict[int, int] = {}
    for number, path_node, edge_kind, edge_name in rows:
        above = path_node or 0
        if edge_kind == "namespace":
            of_owner[number] = above
        node = nodes.get(number)
        if node is None or isinstance(node.row["edge_name"], str) or not isinstance(edge_name, str):
            continue
        if above == node.row["path_node"]:
            node.row |= {"edge_kind": edge_kind, "edge_name": edge_name}
        elif of_owner.get(above) == node.row["path_node"]:
            node.row |= {"edge_kind": "attribute", "edge_name": edge_name}


def _join_successors(nodes: dict[int, _Node]) -> dict[int, int]:
    """What a variable, an attribute or a key had one after the other is one node, as for who reads the program.

    A list that is made anew each time, with one member more, grows as one does that is appended to. So do the calls of
    one function. Returns {number of one that is a part of another now: that other's}.
    """
    joined: dict[int, int] = {}
    known: dict[tuple[Any, ...], list[_Node]] = {}
    for number in _from_roots(nodes):
        node = nodes[number]
        for column in ("path_node", "dominator_node"):
            node.row[column] = joined.get(node.row[column], node.row[column])
        key = _place_of(node)
        if key is None:
            continue
        others = known.setdefault(key, [])
        other = next((one for one in others if not _are_together(one, node)), None)
        if other is None:
            others.append(node)
            continue
        joined[number] = other.number
        if _newest(node) > _newest(other):
            other.row = node.row
        _continue(other, node)
        other.numbers |= node.numbers
    for number in joined:
        del nodes[number]
    for node in nodes.values():  # some have their dominator farther from the roots than they are themselves
        for column in ("path_node", "dominator_node"):
            node.row[column] = joined.get(node.row[column], node.row[column])
    return joined


def _are_together(one: _Node, other: _Node) -> bool:
    """In any snapshot."""
    return bool(one.retained @ other.retained)


def _are_held_alike(one: _Node, other: _Node) -> bool:
    """By one that has no name for either: what tasks have in a context variable, each its own."""
    return bool(one.row["path_node"] == other.row["path_node"]) and _edge_name(one) is None is _edge_name(other)


def _newest(node: _Node) -> int:
    """The last snapshot that has it."""
    return int(np.flatnonzero(node.retained).max(initial=-1))


def _from_roots(nodes: Mapping[int, _Node]) -> list[int]:
    """Numbers, each after that on the way to it."""
    order: list[int] = []
    done: set[int] = set()
    for number in nodes:
        way = []
        while number not in done and number in nodes:
            done.add(number)
            way.append(number)
            number = nodes[number].row["path_node"]
        order += reversed(way)
    return order


def _place_of(node: _Node) -> tuple[Any, ...] | None:
    """By what name it is held, and what it is; None for what has no name that the next one would have, too."""
    row = node.row
    if node.number < GROUPS:
        return None
    own = row["path_node"], row["type_name"], row["edge_kind"], _edge_name(node)
    if row["type_name"] == "frame":
        return (*own, row["owner"], row["owner_file"], _line(node))
    return own if own[3] is not None or row["edge_kind"] in ("namespace", "contents") else None


def _places(
    nodes: Mapping[int, _Node],
    user_files: frozenset[Any],
    user_modules: Mapping[Any, Any],
    sharers: Mapping[tuple[int, str], Mapping[int, _Sharer]],
    count: int,
    by_holder: bool,
) -> Iterator[Place]:
    names = _Names(nodes, user_files, user_modules)
    first_of_chain = _chains(nodes)
    ours = _ours(nodes)
    places: dict[int, Place] = {}
    taken: set[str] = set()
    for node in nodes.values():
        if node.number < GROUPS or node.row["root_kind"] in _LEFT_OUT or node.number in first_of_chain:
            continue
        if node.number in ours:
            continue
        row = names.row(node)
        while row["path"] in taken:  # two objects by one name, one after the other
            row["path"] += "'"
        taken.add(row["path"])
        places[node.number] = Place(
            row["path"], row["type_name"], row, node.retained, np.zeros(count), np.zeros(count),
            (node.retained > 0).astype(np.float64), _lengths(node),
            has_length=bool(row["length"]), numbers=frozenset(node.numbers), error_bytes=node.error,
        )  # fmt: skip
    new_globals = _new_globals(nodes, places)
    for number, place in places.items():
        place.named_by = places.get(place.row["path_node"])
        dominator = nodes[number].row["dominator_node"]
        above = new_globals.get(number) or places.get(first_of_chain.get(dominator, dominator))
        if above is not None and above is not place:
            place.parent = above
            above.children.append(place)
            place.row["parent_path"] = above.path
    roots = [place for place in places.values() if place.parent is None]
    found: list[Place] = []
    links: dict[int, _Node] = {}
    links_of: dict[int, list[_Node]] = {}
    for number, first in first_of_chain.items():
        links_of.setdefault(first, [nodes[first]]).append(nodes[number])
        if first not in links or _is_named_by_its_like(nodes[number], nodes):
            links[first] = nodes[number]
    for number, place in list(places.items()):
        own = [place, *_others(place, nodes[number], list(place.children), count)]
        place.row["member_type"] = _type_of_members(place, nodes[number]) or place.row["member_type"]
        found += [*own, *_autograd(own, nodes[number], count)]
        if number in links:
            found.append(_chain(place, nodes[number], names.row(links[number]), _alive(links_of[number])))
    if OF_OUTSIDE in nodes:
        found += _outside(nodes, names, places, count)
    if by_holder:
        for place in places.values():
            _give_members(place)
    for place in found:
        above = place.parent
        if place.row["node"] is None and above is not None and above.row["node"] is not None:
            _give_to_holder(place, sharers.get((above.row["node"], place.type_name), {}), places)
    for place in roots:
        _weigh_arrays(place, nodes)
    yield from found


def _new_globals(nodes: Mapping[int, _Node], places: Mapping[int, Place]) -> dict[int, Place]:
    """Of names that a module gets ever more of, {number of what is behind each: the place of the module's variables}.

    It is held by others, too, or it would hang there: results of cells are in ``Out`` and in ``_1``, ``_2``, ``_3``.
    """
    of_module: dict[int, list[_Node]] = {}
    for node in nodes.values():
        above, holds = nodes.get(node.row["path_node"]), nodes.get(node.row["dominator_node"])
        if (
            holds is not None
            and holds.row["path_node"] == OF_MODULES  # the dict of all modules
            and above is not None
            and node.number in places
            and above.number in places
            and above.row["edge_kind"] == "namespace"
            and not node.retained[0]
            and node.retained[-1]
        ):
            of_module.setdefault(above.number, []).append(node)
    found: dict[int, Place] = {}
    for number, new in of_module.items():
        if len(new) < _LEAST_CHILDREN:
            continue
        found |= dict.fromkeys((node.number for node in new), places[number])
        modules, gained = new[0].row["dominator_node"], sum(node.retained for node in new)
        at = number
        while at in places and at != modules:  # the module itself may lie between
            places[at].deep_bytes = places[at].deep_bytes + gained
            at = nodes[at].row["dominator_node"]
    return found


def _ours(nodes: Mapping[int, _Node]) -> set[int]:
    """Our agent's objects: its types, and what is found by way of them or of its functions' globals.

    A hook of ours stands in the program's own modules and leads there; what it was put in front of is not ours.
    """
    ours: set[int] = set()
    for number in _from_roots(nodes):
        row = nodes[number].row
        above = nodes.get(row["path_node"])
        has_no_name = _edge_name(nodes[number]) is None and row["edge_kind"] != "namespace"
        of_hook = above is not None and above.row["type_name"] == "function" and _is_agents(above.row["owner_file"])
        if (
            str(row["type_name"]).startswith(f"{AGENT}.")
            or (row["type_name"] == "module" and _edge_name(nodes[number]) == AGENT)
            or (above is not None and above.number in ours)
            or (of_hook and has_no_name and row["type_name"] == "dict")
        ):
            ours.add(number)
    return ours


def _is_agents(file: Any) -> bool:
    return isinstance(file, str) and _OUR_FILE.search(file) is not None


def _lengths(node: _Node) -> Floats:
    """How many members it had, or else objects that it alone holds: of one node no mixture of both.

    A length is written down of what was still there when names were looked up. Where it was not, it is that of the
    nearest snapshot that has one, as much longer as it holds more objects alone.
    """
    if not node.length.any():
        return node.children.copy()
    is_there = node.retained > 0
    if node.is_measured[is_there].all():
        return np.where(is_there, node.length, 0.0)
    known = np.flatnonzero(node.length > 0)
    nearest = known[np.abs(known[:, None] - np.arange(len(node.length))).argmin(axis=0)]
    before = node.children[nearest]
    more = np.ones(len(before))
    np.divide(node.children, before, out=more, where=(node.children > 0) & (before > 0))
    estimated = np.where(is_there, np.round(node.length[nearest] * more), 0.0)
    return np.where(node.is_measured & is_there, node.length, estimated)


def _autograd(holders: Sequence[Place], node: _Node, count: int) -> Iterator[Place]:
    """The graphs that hang on what a place holds, or on itself: ``holders`` are itself and then its members."""
    if GRAPH_TYPE not in node.by_type:
        return
    operations, bytes = node.by_type[GRAPH_TYPE]
    members = [member for member in holders[1:] if member.deep_bytes.max() >= MOST * bytes.max()]
    holder = max(members, key=lambda member: member.deep_bytes.max(), default=holders[0])
    row = dict(
        holder.row, path=f"{holder.path}.grad_fn", parent_path=holder.path, edge_kind="reference", type_name=GRAPH_TYPE,
        variable=None, owner=None, member_type=None, length=None, node=None,
    )  # fmt: skip
    zeros = np.zeros(count)
    graph = Place(
        row["path"], GRAPH_TYPE, row, np.minimum(bytes, holder.deep_bytes), zeros, zeros.copy(), operations,
        zeros.copy(), most_nodes=float(operations.max()), parent=holder,
    )  # fmt: skip
    holder.children.append(graph)
    yield graph


def _outside(nodes: Mapping[int, _Node], names: _Names, places: Mapping[int, Place], count: int) -> Iterator[Place]:
    """What only C code refers to, a place for each type: named by the user's class that it is made of."""
    members = Place("", "", {"node": None, "member_type": None}, *np.zeros((5, count)))
    for place in list(_others(members, nodes[OF_OUTSIDE], (), count)):
        known = [p for n, p in places.items() if p.type_name == place.type_name and _is_directly(nodes[n])]
        made_of = place.type_name
        for example in known:
            level = [example]
            for below in level:
                level += below.children
            made_of = next((p.type_name for p in level if names.is_users(p.type_name)), made_of)
        module, _, name = made_of.rpartition(".")
        path = f"{name} objects outside Python"
        place.path, place.parent = path, None
        place.row = names.row(nodes[OF_OUTSIDE]) | {
            "path": path, "parent_path": None, "root_kind": OUTSIDE, "edge_kind": "global", "variable": name,
            "owner_module": module, "type_name": place.type_name, "node": None, "is_user": names.is_users(made_of),
        }  # fmt: skip
        for example in known:
            example.row["root_kind"] = "recorder"  # told here
        yield place


def _is_directly(node: _Node) -> bool:
    return bool(node.row["dominator_node"] == OF_OUTSIDE)


def _is_named_by_its_like(link: _Node, nodes: Mapping[int, _Node]) -> bool:
    """Whether the object that it hangs on is of the same type, so that its name is that of each link."""
    above = nodes.get(link.row["path_node"])
    return above is not None and above.row["type_name"] == link.row["type_name"] and _edge_name(link) is not None


def _chain(first: Place, node: _Node, link: dict[str, Any], told: Floats) -> Place:
    """All links below the first as one place. ``link``: the row of one of them, for the name by which each has it.

    ``told``: how many have a row of their own, which are all where they are few and heavy.
    """
    name = link["variable"] if link["edge_kind"] == "attribute" else None
    own = np.where(node.retained > 0, float(node.row["shallow_bytes"] or 0), 0.0)
    count = np.maximum(np.where(node.length > 0, node.length, told), first.count)
    row = link | {
        "path": f"{first.path}.{name}…" if name else f"{first.path}…", "parent_path": first.path, "chained": True,
        "type_name": first.type_name, "node": None, "length": None,
    }  # fmt: skip
    links = Place(
        row["path"], first.type_name, row, np.maximum(first.deep_bytes - own, 0.0), np.zeros(len(own)),
        np.zeros(len(own)), count, count.copy(), has_length=True, parent=first,
    )  # fmt: skip
    first.length, first.has_length = np.zeros(len(own)), False
    for child in first.children:
        child.parent = links
        links.children.append(child)
    first.children = [links]
    return links


def _give_to_holder(members: Place, sharers: Mapping[int, _Sharer], places: Mapping[int, Place]) -> None:
    """What several hold at once is told at one of them, the others are named there.

    It is the one that holds most of it; of those that hold as good as all of it rather one to which the user's own
    names lead, than a cache of a library that was asked about the same objects; and rather one that refers to the
    objects than one that does by way of others.
    """
    above = members.parent
    holding = [
        (sharer, places[number]) for number, sharer in sorted(sharers.items(), key=lambda one: -one[1].bytes)
        if number in places and sharer.bytes >= MOST * members.deep_bytes.max() and _is_below(places[number], above)
    ]  # fmt: skip
    if above is None or not holding:
        return
    holding.sort(key=lambda one: (not _is_by_users_names(one[1]), not one[0].is_direct))
    holders = [place for _, place in holding]
    above.children.remove(members)
    holder, *members.also_held_by = holders
    members.path = members.row["path"] = f"{holder.path}[*]"
    members.parent, members.row["parent_path"] = holder, holder.path
    holder.children.append(members)
    holder.length = np.where(holder.length > 0, holder.length, members.count)  # where it was too small to be told of
    holder.row["member_type"] = holder.row["member_type"] or members.type_name
    _hold(holder, [members], above)
    # Some were large enough to be told of by themselves, if only in some snapshots.
    _move([child for child in above.children if child.named_by is holder and _is_like(child, members)], holder, above)


def _give_members(above: Place) -> None:
    """To a container of the user's: several objects of one type that are named by it, and that others hold as well."""
    groups: dict[tuple[int, str], list[Place]] = {}
    for child in above.children:
        holder = child.named_by
        if holder is not None and holder is not above and child.row["edge_kind"] == "item":
            groups.setdefault((id(holder), child.type_name), []).append(child)
    for members in groups.values():
        holder = members[0].named_by
        if len(members) > 1 and holder is not None and _is_below(holder, above) and _is_by_users_names(holder):
            _move(members, holder, above)


def _move(members: Sequence[Place], holder: Place, above: Place) -> None:
    for one in members:
        above.children.remove(one)
        one.parent, one.row["parent_path"] = holder, holder.path
        holder.children.append(one)
    _hold(holder, members, above)


def _hold(holder: Place, members: Sequence[Place], above: Place) -> None:
    """It and what it hangs on hold these, too, up to ``above``, which did before."""
    gained = sum((one.deep_bytes for one in members), np.zeros_like(holder.deep_bytes))
    at = holder
    while at is not above:
        at.deep_bytes = at.deep_bytes + gained
        assert at.parent is not None
        at = at.parent


def _is_like(one: Place, other: Place) -> bool:
    return one.type_name == other.type_name and one is not other


def _is_by_users_names(place: Place) -> bool:
    at: Place | None = place
    while at is not None and not at.is_user:
        at = at.named_by
    return at is not None


def _is_below(place: Place, above: Place | None) -> bool:
    at: Place | None = place.parent
    while at is not None and at is not above:
        at = at.parent
    return at is above is not None


def _weigh_arrays(root: Place, nodes: Mapping[int, _Node]) -> None:
    """How much of what each place retains are arrays, storages of tensors and native memory, as far as places go."""
    below = [root]
    for place in below:
        below += place.children
    for place in reversed(below):
        if place.type_name in _ARRAYS:
            is_one = place.row["node"] is not None
            place.array_bytes += np.minimum(_own_bytes(place, nodes), place.deep_bytes) if is_one else place.deep_bytes
        if place.parent is not None:
            place.parent.array_bytes += place.array_bytes
    for place in below:
        if place.row["node"] is not None:
            node = nodes[place.row["node"]]
            place.tensor_bytes = np.minimum(node.storage, place.deep_bytes)
            place.native_bytes = np.minimum(node.native, place.deep_bytes)
        _share_out(place, nodes)


def _share_out(place: Place, nodes: Mapping[int, _Node]) -> None:
    """To members without a node of their own, the largest first: what those with one do not account for."""
    others = [child for child in place.children if child.row["node"] is None]
    if not others:
        return
    of_nodes = [nodes[child.row["node"]] for child in place.children if child.row["node"] is not None]
    tensors = place.tensor_bytes - sum((node.storage for node in of_nodes), np.zeros_like(place.tensor_bytes))
    native = place.native_bytes - sum((node.native for node in of_nodes), np.zeros_like(place.native_bytes))
    for child in sorted(others, key=lambda child: -child.deep_bytes.max()):
        child.tensor_bytes = np.clip(tensors, 0.0, child.deep_bytes)
        child.native_bytes = np.clip(native, 0.0, child.deep_bytes - child.tensor_bytes)
        tensors, native = tensors - child.tensor_bytes, native - child.native_bytes


def _own_bytes(place: Place, nodes: Mapping[int, _Node]) -> Floats:
    """Of one object; where it is gone, nothing."""
    return np.where(place.deep_bytes > 0, float(nodes[place.row["node"]].row["shallow_bytes"] or 0), 0.0)


def _chains(nodes: Mapping[int, _Node]) -> dict[int, int]:
    """For the links of long chains, but for the first: the number of the first.

    Each link retains nearly what the one before does, so that they all look like holders.
    """
    firsts: dict[int, int] = {}
    before = {number: above for number, node in nodes.items() if (above := _link_before(node, nodes)) is not None}
    chains: dict[int, list[int]] = {}
    for number in nodes:
        first, way = number, {number}
        while first in before and before[first] not in way:
            first = before[first]
            way.add(first)
        chains.setdefault(first, []).append(len(way))
        firsts[number] = first
    links_of: dict[int, list[_Node]] = {}
    for number, first in firsts.items():
        links_of.setdefault(first, []).append(nodes[number])
    is_long = {
        first: max(chains[first]) > _LINKS or _became_longer(links) for first, links in links_of.items()
    }  # fmt: skip
    long = {number: first for number, first in firsts.items() if is_long[first]}
    for number, first in long.items():  # what is a link now was the first one before those that came in front of it
        head, link = nodes[first], nodes[number]
        head.retained = np.maximum(head.retained, link.retained)
        head.storage = np.maximum(head.storage, link.storage)
        head.native = np.maximum(head.native, link.native)
    newest: dict[tuple[int, str], _Node] = {}
    for first in sorted(set(long.values()), key=lambda one: (-_newest(nodes[one]), one)):
        node = nodes[first]
        known = newest.setdefault((node.row["dominator_node"], str(node.row["type_name"])), node)
        if known is not node and (not _are_together(known, node) or _are_held_alike(known, node)):
            _continue(known, node)
            long = {number: known.number if of == first else of for number, of in long.items()}
    return {number: first for number, first in long.items() if number != first}


def _became_longer(links: Sequence[_Node]) -> bool:
    if len(links) <= _HEAVY_LINKS:  # as nearly all, which are no chain
        return False
    count = _alive(links)
    return bool(count[-1] > _HEAVY_LINKS and count[-1] >= 2 * count[0])


def _alive(links: Iterable[_Node]) -> Floats:
    """How many there are at each snapshot."""
    alive: Floats = np.sum([link.retained > 0 for link in links], axis=0).astype(np.float64)
    return alive


def _continue(newest: _Node, before: _Node) -> None:
    """A chain that grows at its beginning has another first link each time."""
    newest.retained += before.retained
    newest.storage += before.storage
    newest.native += before.native
    newest.error += before.error
    newest.children += before.children
    newest.length += before.length
    newest.is_measured |= before.is_measured
    if not isinstance(newest.row["edge_name"], str):  # it was another's by the time it was asked for
        newest.row |= {column: before.row[column] for column in ("path_node", "edge_kind", "edge_name")}


def _link_before(node: _Node, nodes: Mapping[int, _Node]) -> int | None:
    """The object of the same type on which it hangs, if that has nearly nothing else, or no other of its
    type. A dict may lie between, or of a function the tuple and the cell by which it has a variable of another.
    """
    above = node
    for _ in range(3):
        found = nodes.get(above.row["dominator_node"])
        if found is None or found.number < GROUPS:
            return None
        holder, above = above if above is not node else found, found
        if above.row["type_name"] == node.row["type_name"]:
            at = max(0, _newest(node))
            counts, _ = holder.by_type.get(node.row["type_name"], (None, None))
            is_only_one = counts is not None and counts[at] == 1
            share = _PASSES_ON_SOME if is_only_one else _PASSES_ON
            return above.number if node.retained[at] >= share * above.retained[at] else None
    return None


def _others(place: Place, node: _Node, known: Sequence[Place], count: int) -> Iterator[Place]:
    """What it dominates beside the places below it."""
    for type_name, (counts, bytes) in node.by_type.items():
        if type_name == GRAPH_TYPE:
            continue
        alike = [child for child in known if child.type_name == type_name]
        counts = counts - sum((child.count for child in alike), np.zeros(count))
        bytes = bytes - sum((child.deep_bytes for child in alike), np.zeros(count))
        if counts.max() < _LEAST_CHILDREN:
            continue
        row = dict(
            place.row, path=f"{place.path}[*]", parent_path=place.path, edge_kind="item", type_name=type_name,
            variable=None, owner=None, member_type=None, length=None, node=None,
        )  # fmt: skip
        members = Place(
            row["path"], type_name, row, np.maximum(bytes, 0.0), np.zeros(count), np.zeros(count),
            np.maximum(counts, 0.0), np.zeros(count), parent=place,
        )  # fmt: skip
        place.row["member_type"] = place.row["member_type"] or type_name
        place.children.append(members)
        yield members


def _type_of_members(container: Place, node: _Node) -> str | None:
    """Of what it refers to itself, by an example: most bytes may be of what the members refer to, and share."""
    examples = {
        child.type_name
        for child in container.children
        if child.named_by is container and child.row["node"] is not None and child.row["edge_kind"] != "attribute"
    }
    kinds = [
        kind for kind in examples & node.by_type.keys()
        if container.is_counted and node.by_type[kind][0][-1] >= MOST * container.length[-1] > 0
    ]  # fmt: skip
    return kinds[0] if len(kinds) == 1 else None


class _Names:
    """What a person calls each node, out of the references that lead to it."""

    def __init__(self, nodes: Mapping[int, _Node], user_files: frozenset[Any], user_modules: Mapping[Any, Any]) -> None:
        self._nodes = nodes
        self._user_files = user_files
        self._user_modules = user_modules
        self._paths: dict[int, str] = {}

    def row(self, node: _Node) -> dict[str, Any]:
        """As a row of the table ``holders``."""
        edge, variable, owner, module, file, line = self._edge(node)
        type_name = node.row["type_name"] if isinstance(node.row["type_name"], str) else "object"
        is_container = type_name in _CONTAINERS or node.children.max() >= _LEAST_CHILDREN
        root = node.row["root_kind"]
        suffix = ".__dict__" if node.row["edge_kind"] == "namespace" else " (cell)" if _is_cell(node) else ""
        return {
            "node": node.number,
            "path_node": node.row["path_node"],
            "path": self.path(node.number) + suffix,
            "parent_path": None,
            "root_kind": root,
            "edge_kind": "namespace" if node.row["edge_kind"] == "namespace" else edge,
            "variable": variable,
            "owner": owner,
            "owner_module": module,
            "owner_file": file,
            "owner_line": line,
            "is_user": file in self._user_files,
            "type_name": type_name,
            "member_type": None,
            "length": 1.0 if is_container else None,
            "is_counted": bool(type_name in _CONTAINERS or node.length.any()),
            "length_limit": self._limit(node),
            "limits": self._limits(node),
            "opaque": node.row["opaque"] is True,
            "chained": False,
            "code": self._code(node),
        }

    def is_users(self, type_name: str) -> bool:
        return type_name.rpartition(".")[0] in self._user_modules

    def path(self, number: int) -> str:
        """``services.CACHE.entries``, ``main() history``: from a module or a frame down to the object."""
        way: list[int] = []  # up to what is named already, or to a root
        while number not in self._paths:
            way.append(number)
            self._paths[number] = "…"  # should they lead round in a circle
            node = self._nodes.get(number)
            number = 0 if node is None or number < GROUPS else node.row["path_node"]
        for one in reversed(way):
            node = self._nodes.get(one)
            self._paths[one] = "" if node is None or one < GROUPS else self._path(node)
        return self._paths[way[0] if way else number]

    def _path(self, node: _Node) -> str:
        above = self._paths[node.row["path_node"]]
        name = _edge_name(node)
        kind = node.row["edge_kind"]
        before = self._above(node)
        if before is None:  # a root
            if isinstance(node.row["owner"], str):
                return f"{node.row['owner']}()"
            return MODULES if node.row["root_kind"] == "module" else f"{_short(node)} of C code"
        if kind == "namespace" or _is_cell(before):
            return above
        if node.row["type_name"] == "frame" and isinstance(node.row["owner"], str) and above.startswith("sys.last_"):
            return f"{node.row['owner']}()"  # after an unhandled exception
        if kind in ("cell", "default"):
            return f"{above.removesuffix('.<tuple>')} {'closure' if kind == 'cell' else kind} {name}"
        if self._is_modules(before) and name is not None:
            return self._module_name(name)
        if kind == "local":
            return f"{above} {name}"
        if kind == "attribute" or (kind == "key" and before.row["edge_kind"] == "namespace" and name is not None):
            return _longer(above, f".{name}")
        if kind == "key" and name is not None and (local := self._local(before)) is not None:
            return f"{self._paths[local.number]}.{name}"
        if kind == "key" and name is not None and _is_of_module(before):
            return _longer(above[: -len(_edge_name(before) or "") - 1], f".{name}")
        if kind == "key":
            return _longer(above, f"['{name}']" if name is not None else "[*]")
        if kind == "index":
            return _longer(above, f"[{name}]")
        return _longer(above, "[*]" if kind == "member" else f".<{_short(node)}>")

    def _edge(self, node: _Node) -> tuple[str, str | None, str | None, str | None, str | None, int | None]:
        """(edge_kind, variable, owner, owner_module, owner_file, owner_line) of the reference that holds it."""
        name = _edge_name(node)
        kind = node.row["edge_kind"]
        before = self._above(node)
        if before is not None and _is_cell(before) and kind not in ("cell", "default"):
            return self._edge(before)
        if node.row["type_name"] == _RESULTS and isinstance(node.row["owner_file"], str):
            own_name, qualified, module, file, line = self._function(node)
            return "cache", own_name, qualified, module, file, line
        if before is not None and kind in ("cell", "default"):  # in a tuple of a function's
            _, qualified, module, file, line = self._function(self._above(before) or before)
            return kind, name, qualified, module, file, line
        if before is None and node.row["root_kind"] == OUTSIDE and isinstance(node.row["owner_file"], str):
            return "reference", *self._function(node)  # what has code of its own, given to C code
        if before is None or name is None or self._is_modules(before):
            return "reference" if kind not in ("key", "index", "member") else "item", None, None, None, None, None
        if kind == "local":
            file = before.row["owner_file"]
            return "local", name, before.row["owner"], self._module_of(file), file, _line(before)
        if kind == "key" and _is_of_module(before):  # ``model.part``, for who wrote it
            before = self._above(before) or before
        holder = before
        if before.row["edge_kind"] == "namespace" and kind == "key":
            holder = self._above(before) or before
        elif kind != "attribute":
            local = self._local(before) if kind == "key" else None
            if local is None:
                return "item", None, None, None, None, None
            holder = local
        type_name = holder.row["type_name"] or ""
        if type_name == "module":
            module = _edge_name(holder) or ""
            return "global", name, self._module_name(module), module, self._user_modules.get(module), None
        if isinstance(holder.row["owner"], str) and not isinstance(holder.row["owner_file"], str):  # a class
            module, _, owner = holder.row["owner"].rpartition(".")
            return "class-attribute", name, owner, module, self._user_modules.get(module), None
        if type_name in _NAMESPACES:  # whoever names the object names what is in it
            _, variable, _, module, file, line = self._edge(holder)
            return "attribute", name, variable, module, file, line
        module, _, owner = type_name.rpartition(".")
        return "attribute", name, owner, module, self._user_modules.get(module), None

    def _local(self, node: _Node) -> _Node | None:
        """The ``threading.local`` whose dict of one thread this is."""
        above: _Node | None = node
        for _ in range(_STEPS_OF_LOCALS):
            above = None if above is None else self._above(above)
            if above is not None and above.row["type_name"] == _NAMESPACES[0]:
                return above
        return None

    def _function(self, node: _Node) -> tuple[str, str | None, str | None, str | None, int | None]:
        """(name, qualified name, module, file, line) of a function, or of what was made of one."""
        owner, file = node.row["owner"], node.row["owner_file"]
        qualified = owner if isinstance(owner, str) else None
        name = (qualified or "function").rpartition(".")[2]
        return name, qualified, self._module_of(file), file if isinstance(file, str) else None, _line(node)

    def _code(self, node: _Node) -> tuple[str, str, int] | None:
        """(qualified name, file, first line) of what has code of its own: a frame, a coroutine, a function."""
        if not isinstance(node.row["owner"], str) or not isinstance(node.row["owner_file"], str):
            return None
        return node.row["owner"], node.row["owner_file"], _line(node) or 1

    def _limit(self, node: _Node) -> int | None:
        """How many members it may have; the dict of an lru_cache as many as that."""
        limit, above = node.row["length_limit"], self._above(node)
        if limit is None or limit != limit:
            limit = above.row["length_limit"] if above is not None and above.row["type_name"] == _RESULTS else None
        return None if limit is None or limit != limit else int(limit)

    def _limits(self, node: _Node) -> str | None:
        """Numbers among the attributes of the object that has it as an attribute: one may be its limit."""
        above = self._above(node)
        for _ in range(2):  # a ``__dict__``, and whose it is
            limits = above.row.get("limits") if above is not None else None
            if isinstance(limits, str):
                return limits
            above = self._above(above) if above is not None and above.row["edge_kind"] == "namespace" else None
        return None

    def _module_of(self, file: Any) -> str | None:
        return next((module for module, known in self._user_modules.items() if known == file), None)

    def _module_name(self, name: str) -> str:
        """That of its file, for the program's own."""
        file = self._user_modules.get(name) if name == "__main__" else None
        return PurePath(file).stem if isinstance(file, str) and file else name  # a notebook has none

    def _above(self, node: _Node) -> _Node | None:
        number = node.row["path_node"]
        return None if number < GROUPS else self._nodes.get(number)

    def _is_modules(self, node: _Node) -> bool:
        return bool(node.row["path_node"] == OF_MODULES)


def names_in_keys(nodes: pd.DataFrame) -> set[str]:
    """What rows of ``heap_nodes`` have as keys and is a name: of a module, of a global variable, of an attribute."""
    rows = narrow(nodes, "pid", "node", "path_node", "edge_kind", "edge_name").astype(object)
    rows = rows.where(rows.notna(), None)
    told = list(rows.itertuples(index=False, name=None))
    spaces = {(pid, node) for pid, node, above, kind, _ in told if above == OF_MODULES or kind == "namespace"}
    keys = [(pid, above, str(name)) for pid, _, above, _, name in told if name is not None]
    return {name[2:-2] for pid, above, name in keys if name.startswith("['") and (pid, above) in spaces}


def _is_of_module(node: _Node) -> bool:
    """Whether it is a dict in which a torch module keeps its parts."""
    return _edge_name(node) in MODULE_DICTS and node.row["type_name"] in _CONTAINERS


def _edge_name(node: _Node) -> str | None:
    """Without what says that it is a key."""
    name = node.row["edge_name"]
    return name[2:-2] if isinstance(name, str) and name.startswith("['") else name if isinstance(name, str) else None


def _longer(path: str, step: str) -> str:
    """``head.next…`` for any number of links."""
    if path.endswith(f"{step}…"):
        return path
    return f"{path[: -len(step) * (_REPEATS - 1)]}…" if path.endswith(step * _REPEATS) else path + step


def _is_cell(node: _Node) -> bool:
    """Between a variable that inner functions use and what it is."""
    return bool(node.row["type_name"] == "cell")


def _short(node: _Node) -> str:
    type_name = node.row["type_name"]
    return type_name.rpartition(".")[2] if isinstance(type_name, str) else "object"


def _line(node: _Node) -> int | None:
    line = node.row["owner_line"]
    return int(line) if line == line and line is not None else None
