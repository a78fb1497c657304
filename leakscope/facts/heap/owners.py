"""Whose a place is: the user's name for it, up the way that leads there, and what it is made of, down."""

from __future__ import annotations

import numpy as np

from ...units import MOST, NEARLY_ALL
from .place import GRAPH_TYPE, NAMING_EDGES, Place, downwards, upwards

_CALL_AT_THE_END = frozenset(("atexit", "multiprocessing.util", "weakref"))
_NO_OPTIMIZERS = ("torch.optim.lr_scheduler", "torch.optim.swa_utils")


_MADE_OF_OTHERS = ("weakref", "_weakrefset", "collections", "queue")  # modules of containers that have one inside


def user_place(place: Place) -> Place:
    """The nearest place up the path that the user's own code names; the place itself if there is none.

    What several hold hangs below what they have in common, and its path still leads by one of them: that way is gone
    where the other has no such name. Then the nearest that a library names, where the place has no name itself.
    """
    ways = list(upwards(place)), list(upwards(place, by_name=True))
    for way in ways:
        for found in way:
            if found.is_user and _is_naming(found):
                return found
    if place.reference.variable is None and place.named_by is not None:
        named = (found for found in ways[1] if _is_naming(found) and found.reference.variable is not None)
        return next((found for found in named if not calls_at_the_end(found)), place)
    return whole(place)


def whole(place: Place) -> Place:
    """The container that a person knows, of one that it has inside: a WeakSet has a set, a Queue a deque."""
    above = place.parent
    is_inner = above is not None and above.reference.variable is not None and place.reference.edge_kind == "attribute"
    return above if above is not None and is_inner and place.reference.owner_module in _MADE_OF_OTHERS else place


def user_holder(place: Place) -> Place:
    """``user_place``, if that gained with it; the place itself where what it holds is told as somebody else's, too."""
    named = user_place(place)
    return named if named.growth_bytes >= MOST * place.growth_bytes else place


def calls_at_the_end(place: Place) -> bool:
    """A registry of what is to be called as something ends: it leads to everything, and says of nothing whose it is."""
    is_registry = place.reference.edge_kind in ("global", "class-attribute")
    return is_registry and place.reference.owner_module in _CALL_AT_THE_END


def _is_naming(place: Place) -> bool:
    return place.reference.edge_kind in NAMING_EDGES and not place.has_parts


def is_optimizer(type_name: str) -> bool:
    return type_name.startswith("torch.optim.") and not type_name.startswith(_NO_OPTIMIZERS)


def is_model(place: Place) -> bool:
    return any(child.has_parts for child in place.children)


def heaviest_leaf(place: Place) -> Place:
    """Down the path that carries most of the growth: what the memory is made of in the end."""
    while True:
        heavy = [c for c in place.children if c.growth_bytes >= MOST * place.growth_bytes > 0]
        if not heavy:
            return place
        place = max(heavy, key=lambda c: c.growth_bytes)


def weighs_in_members(place: Place) -> Place | None:
    """What most of each of its members is, by way of one that was looked into: an attribute's member with a key.

    None where the members differ in that, where it is spread over several, or where nothing below them has a key.
    """
    looked_at = [one for one in place.children if one.reference.edge_kind == "item" and one.children]
    found = [below for one in looked_at if (below := _by_key_below(one)) is not None]
    keys = {below.path.rpartition("[")[2] for below in found}
    return found[0] if len(found) * 2 > len(looked_at) and len(keys) == 1 else None


def weighs_in(kept: Place) -> str | None:
    """The type that nearly all of each of the members of a place is, or of itself where it stands for them, by those
    that were looked into; None where they differ in that, or are that themselves.
    """
    beside = kept.children if kept.node is not None or kept.parent is None else kept.parent.children
    kind = kept.member_type if kept.node is not None else kept.type_name
    found = set()
    for leaf in (one for one in beside if one.node is not None and one.type_name == kind and one.children):
        at = int(np.argmax(leaf.deep_bytes))
        least = NEARLY_ALL * leaf.deep_bytes[at]
        while heavy := [child for child in leaf.children if child.deep_bytes[at] >= least > 0]:
            leaf = heavy[0]
        found.add(leaf.type_name)
    return found.pop() if len(found) == 1 and kind not in found else None


def _by_key_below(member: Place) -> Place | None:
    at = int(np.argmax(member.deep_bytes))
    found, place = None, member
    while place.children:
        place = max(place.children, key=lambda child: float(child.deep_bytes[at]))
        if place.deep_bytes[at] < MOST * member.deep_bytes[at]:
            break
        if place.path.endswith("']"):
            found = place
    return found


def graph_below(place: Place) -> Place | None:
    """One of the autograd graphs that hang on it and its members, if these are most of what it gained."""
    graphs = [one for one in downwards([place]) if one.type_name == GRAPH_TYPE]
    if not graphs or sum(one.growth_bytes for one in graphs) < MOST * place.growth_bytes:
        return None
    return max(graphs, key=lambda one: one.growth_bytes)
