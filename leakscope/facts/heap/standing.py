"""What came in during the run and stands since: a full cache, a queue nobody empties, results of a past phase."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...units import FEWEST, HARDLY, NEARLY_ALL
from .comparable import Heap
from .owners import is_model, is_optimizer, user_place
from .place import Place, upwards

_STANDS = HARDLY  # of what it gained: so much it may still gain between the last two snapshots
_THERE = NEARLY_ALL  # of the most it held: with less it was emptied, or is just being; estimates vary by a tenth
_TRAINS = ("torch.optim.", "torch.nn.")  # weights and the state of their optimizer: needed as long as it trains


def risen(heap: Heap, least_bytes: float) -> list[Place]:
    """Holders with a name of the user's that gained so much, and have it at last. Three snapshots are needed."""
    if len(heap.takes) < FEWEST:
        return []
    found = [place for root in heap.roots for place in _named(root, least_bytes)]
    there = [one for one in found if one.deep_bytes[-1] >= _THERE * one.deep_bytes.max()]
    return sorted(there, key=lambda one: -one.growth_bytes)


def standing(heap: Heap, least_bytes: float, after_bytes: float) -> list[Place]:
    """Of these those that stopped: they hardly gained since the snapshot before, or the process stood from then on.

    ``after_bytes``: what it gained, or gave back, between the last snapshot and its end.
    """
    hardly = ((one, _STANDS * one.growth_bytes) for one in risen(heap, least_bytes))
    return [
        one for one, bytes in hardly if one.deep_bytes[-1] - one.deep_bytes[-2] <= bytes or abs(after_bytes) <= bytes
    ]


def held_by_users(place: Place, least_bytes: float) -> Iterator[Place]:
    """Places in it that hold so much in the last snapshot: the nearest to the memory with a name of the user's, models
    and optimizers as a whole; and what is known by a name that does not keep it alone, as a block of two tables is.
    """
    if place.deep_bytes[-1] < least_bytes:
        return
    is_named = place.has_users_name or has_key(place)
    if is_optimizer(place.type_name):
        yield from [place] if is_named else ()
        return
    namespaces = (child for child in place.children if child.reference.edge_kind == "namespace")
    if is_named and any(map(is_model, (place, *namespaces))):
        yield place
        return
    inner = [found for child in place.children for found in held_by_users(child, least_bytes)]
    yield from inner
    if inner or _trains(place) or _has_model(place):
        return
    if is_named or shared_table(place) is not None:
        yield place


def shared_table(place: Place) -> Place | None:
    """By whose name of the user's it is known, where nothing with a name keeps it alone."""
    named = user_place(place)
    return named if named.has_users_name and not any(above.has_users_name for above in upwards(place)) else None


def _has_model(place: Place) -> bool:
    return any(_trains(child) or _has_model(child) for child in place.children)


_FIELD = re.compile(r"\['([^'\]]+)'\]|\.(\w+)")


def has_key(place: Place) -> bool:
    """It is in a container of the user's by a key that is a name: ``artifacts['similarity']``."""
    above = place.parent
    if above is None or not above.has_users_name:
        return False
    label = place.said[len(above.said) :]
    return place.said.startswith(above.said) and label.startswith("['") and label.endswith("']")


def field_of(place: Place) -> str | None:
    """The key or the attribute under which the object that it hangs on has it."""
    found = _FIELD.fullmatch(place.said[len(place.parent.said) :]) if place.parent is not None else None
    return found and (found.group(1) or found.group(2))


def _named(place: Place, least_bytes: float) -> Iterator[Place]:
    """The nearest to the memory that a user's name leads to."""
    if place.growth_bytes < least_bytes or _trains(place):
        return
    below = [child for child in place.children if child.growth_bytes >= least_bytes]
    inner = [found for child in below for found in _named(child, least_bytes)]
    yield from inner
    if place.has_users_name and not inner and not any(map(_trains, below)):
        yield place


def _trains(place: Place) -> bool:
    return place.type_name.startswith(_TRAINS) or is_model(place)
