"""The heap of a process as places: each object that matters is one place, followed by its number.

A place hangs below the object without which it could be freed (its dominator), and has the name of the reference by
which it is held. What an object dominates beside those that matter themselves is one place for each type.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np

from ...findings import AGENT
from ...storage import Recording
from ...units import MOST, numbered
from ..calls import is_ours
from .chains import chain, chains, names_its_like
from .history import History, history_of
from .naming import LEAST_CHILDREN, RESULTS, Names
from .nodes import Node, from_roots, nodes_of
from .place import (
    FRAME,
    GRAPH_TYPE,
    OF_MODULES,
    OF_OUTSIDE,
    OF_THREADS,
    OUTSIDE,
    RUNNING,
    Floats,
    Place,
    Reference,
    copied,
)  # fmt: skip
from .sharing import Sharers, give_members, give_to_holder, sharers_of
from .takes import weigh_alike
from .weights import weigh_arrays

_OURS = "recorder"  # a root kind
_LEFT_OUT = (_OURS, "unreached")  # what is ours, and garbage: other diagnoses tell of it


def graph_places(
    recording: Recording, pid: int, takes: Sequence[int], *, on_devices: bool = False, weighs_alike: bool = False
) -> list[Place]:
    """The places of a process in those of its snapshots that have a graph, for the caller to change as he likes.

    What several hold is told at the one that holds most of it, not at what dominates them all. ``on_devices``: all
    bytes are those that tensors have on GPUs, instead of memory of the process.
    ``weighs_alike``: tensors have none where not all of these snapshots weighed them.
    """
    history = history_of(recording, pid, on_devices=on_devices)
    is_mixed = weighs_alike and not on_devices and not weigh_alike(recording, pid, takes)
    key = (tuple(takes), is_mixed)
    if key not in history.places:
        history.places[key] = laid_over(history, *key)
    return copied(history.places[key])


def laid_over(history: History, takes: Sequence[int], without_tensors: bool = False) -> list[Place]:
    """Like ``graph_places``, of what a history has."""
    nodes, of_number = nodes_of(history, takes, without_tensors=without_tensors)
    sharers = sharers_of(history.shared(takes), of_number)
    return list(_places(nodes, Names(nodes, history.user_files, history.user_modules), sharers))


def _places(nodes: Mapping[int, Node], names: Names, sharers: Sharers) -> Iterator[Place]:
    first_of_chain = chains(nodes)
    ours = _ours(nodes)
    places: dict[int, Place] = {}
    named_alike: Counter[str] = Counter()  # one after the other
    for node in nodes.values():
        left_out = node.is_group or node.told.root_kind in _LEFT_OUT or node.number in first_of_chain
        if left_out or node.number in ours:
            continue
        place = places[node.number] = names.place(node)
        place.error_bytes, place.unshown_bytes = node.error, node.unshown
        named_alike[place.path] += 1
        place.path = numbered(place.path, named_alike[place.path])
    new_globals = _new_globals(nodes, places)
    for number, place in places.items():
        place.named_by = places.get(nodes[number].told.path_node)
        dominator = nodes[number].told.dominator_node
        above = new_globals.get(number) or places.get(first_of_chain.get(dominator, dominator))
        if above is not None and above is not place:
            place.parent = above
            above.children.append(place)
    roots = [place for place in places.values() if place.parent is None]
    found: list[Place] = []
    named: dict[int, Node] = {}  # of each chain one link that has a name
    links_of: dict[int, list[Node]] = {}
    for number, first in first_of_chain.items():
        links_of.setdefault(first, [nodes[first]]).append(nodes[number])
        if first not in named or names_its_like(nodes[number], nodes):
            named[first] = nodes[number]
    for number, place in list(places.items()):
        own = [place, *_others(place, nodes[number], list(place.children))]
        place.member_type = _type_of_members(place, nodes[number]) or place.member_type
        found += [*own, *_autograd(own, nodes[number])]
        if number in named:
            found.append(chain(place, nodes[number], names.place(named[number]), links_of[number]))
    if OF_OUTSIDE in nodes:
        found += _outside(nodes, names, places)
    if OF_THREADS in nodes:
        found += _running(nodes, names, places)
    dissolved = {id(_dissolved(place)) for place in found if place.type_name == RESULTS}
    found = [place for place in found if id(place) not in dissolved]
    places = {number: place for number, place in places.items() if id(place) not in dissolved}
    for place in places.values():
        give_members(place)
    for place in found:
        above = place.parent
        if place.node is None and above is not None and above.node is not None:
            give_to_holder(place, sharers.get((above.node, place.type_name), {}), places)
    for place in roots:
        weigh_arrays(place, nodes)
    yield from found


def _dissolved(results: Place) -> Place | None:
    """The dict in which an lru_cache finds what it has; the cache refers to that itself, and is as long."""
    dicts = (one for one in results.children if one.type_name == "dict" and one.node is not None)
    found = next((one for one in dicts if one.reference.edge_kind != "namespace"), None)
    if found is not None:
        if not results.has_length:  # nobody read how many they are
            results.length, results.has_length = found.length, True
        for below in found.children:
            below.parent = results
            below.named_by = results if below.named_by is found else below.named_by
        results.children = [one for one in (*results.children, *found.children) if one is not found]
    return found


def _new_globals(nodes: Mapping[int, Node], places: Mapping[int, Place]) -> dict[int, Place]:
    """Of names that a module gets ever more of, {number of what is behind each: the place of the module's variables}.

    It is held by others, too, or it would hang there: results of cells are in ``Out`` and in ``_1``, ``_2``, ``_3``.
    """
    of_module: dict[int, list[Node]] = {}
    for node in nodes.values():
        above, holds = nodes.get(node.told.path_node), nodes.get(node.told.dominator_node)
        if (
            holds is not None
            and holds.told.path_node == OF_MODULES  # the dict of all modules
            and above is not None
            and node.number in places
            and above.number in places
            and above.told.edge_kind == "namespace"
            and not node.retained[0]
            and node.retained[-1]
        ):
            of_module.setdefault(above.number, []).append(node)
    found: dict[int, Place] = {}
    for number, new in of_module.items():
        if len(new) < LEAST_CHILDREN:
            continue
        found |= dict.fromkeys((node.number for node in new), places[number])
        modules, gained = new[0].told.dominator_node, sum(node.retained for node in new)
        at = number
        while at in places and at != modules:  # the module itself may lie between
            places[at].deep_bytes = places[at].deep_bytes + gained
            at = nodes[at].told.dominator_node
    return found


def _ours(nodes: Mapping[int, Node]) -> set[int]:
    """Our agent's objects: its types, and what is found by way of them or of its functions' globals.

    A hook of ours stands in the program's own modules and leads there; what it was put in front of is not ours.
    """
    ours: set[int] = set()
    for number in from_roots(nodes):
        node, told = nodes[number], nodes[number].told
        above = nodes.get(told.path_node)
        has_no_name = node.name is None and told.edge_kind != "namespace"
        of_hook = above is not None and above.told.type_name == "function" and is_ours(above.told.owner_file)
        if (
            node.type_name.startswith(f"{AGENT}.")
            or (told.type_name == "module" and node.name == AGENT)
            or (above is not None and above.number in ours)
            or (of_hook and has_no_name and told.type_name == "dict")
        ):
            ours.add(number)
    return ours


def _beside(place: Place, type_name: str, path: str, kind: str, bytes: Floats, count: Floats) -> Place:
    """What a place has that is told apart from it and has no number of its own."""
    reference = replace(place.reference, edge_kind=kind, variable=None, owner=None)
    return Place(
        path, type_name, reference, bytes, count, np.zeros(len(count)), root_kind=place.root_kind, parent=place
    )


def _autograd(holders: Sequence[Place], node: Node) -> Iterator[Place]:
    """The graphs that hang on what a place holds, or on itself: ``holders`` are itself and then its members."""
    if GRAPH_TYPE not in node.by_type:
        return
    operations, bytes = node.by_type[GRAPH_TYPE]
    members = [member for member in holders[1:] if member.deep_bytes.max() >= MOST * bytes.max()]
    holder = max(members, key=lambda member: member.deep_bytes.max(), default=holders[0])
    bytes = np.minimum(bytes, holder.deep_bytes)
    graph = _beside(holder, GRAPH_TYPE, f"{holder.path}.grad_fn", "reference", bytes, operations)
    holder.children.append(graph)
    yield graph


def _others(place: Place, node: Node, known: Sequence[Place]) -> Iterator[Place]:
    """What it dominates beside the places below it."""
    for type_name, (counts, bytes) in node.by_type.items():
        if type_name == GRAPH_TYPE or counts.max() < LEAST_CHILDREN:
            continue
        alike = [child for child in known if child.type_name == type_name]
        counts = counts - sum((child.count for child in alike), np.zeros(len(counts)))
        bytes = bytes - sum((child.deep_bytes for child in alike), np.zeros(len(counts)))
        if counts.max() < LEAST_CHILDREN:
            continue
        bytes, counts = np.maximum(bytes, 0.0), np.maximum(counts, 0.0)
        members = _beside(place, type_name, f"{place.path}[*]", "item", bytes, counts)
        place.member_type = place.member_type or type_name
        place.children.append(members)
        yield members


def _type_of_members(container: Place, node: Node) -> str | None:
    """Of what it refers to itself, by an example: most bytes may be of what the members refer to, and share."""
    examples = {
        child.type_name
        for child in container.children
        if child.named_by is container and child.node is not None and child.reference.edge_kind != "attribute"
    }
    kinds = [
        kind for kind in examples & node.by_type.keys()
        if container.has_length and node.by_type[kind][0][-1] >= MOST * container.length[-1] > 0
    ]  # fmt: skip
    return kinds[0] if len(kinds) == 1 else None


def _running(nodes: Mapping[int, Node], names: Names, places: Mapping[int, Place]) -> Iterator[Place]:
    """Variables of functions that have no line of their own: where hundreds of threads run one, each holds little."""
    group = nodes[OF_THREADS]
    told = [p for n, p in places.items() if p.type_name == FRAME and nodes[n].told.dominator_node == OF_THREADS]
    for place in _others(names.place(group), group, told):
        if place.type_name == FRAME:
            place.path, place.parent, place.root_kind = RUNNING, None, "thread"
            yield place


def _outside(nodes: Mapping[int, Node], names: Names, places: Mapping[int, Place]) -> Iterator[Place]:
    """What only C code refers to, a place for each type: named by the user's class that it is made of."""
    group = nodes[OF_OUTSIDE]
    for place in list(_others(names.place(group), group, ())):
        known = [
            p for n, p in places.items()
            if p.type_name == place.type_name and nodes[n].told.dominator_node == OF_OUTSIDE
        ]  # fmt: skip
        made_of = place.type_name
        for example in known:
            level = [example]
            for below in level:
                level += below.children
            made_of = next((p.type_name for p in level if names.is_users(p.type_name)), made_of)
        module, _, name = made_of.rpartition(".")
        place.path, place.parent, place.root_kind = f"{name} objects outside Python", None, OUTSIDE
        place.reference = Reference("global", name, None, module, is_user=names.is_users(made_of))
        for example in known:
            example.root_kind = _OURS  # told here
        yield place
