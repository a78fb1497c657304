"""One place under one path, however the walk came to it.

What a library's loop holds for the user (``asyncio.run``, a server) has the loop's name where the program waits, and
that of a function's ``self`` where the snapshot came upon a callback. Laid over each other by path, it would come and
go, and its growth be nobody's.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from .place import Place


def under_one_name(places: list[Place]) -> list[Place]:
    """The places, those among them joined that are one attribute met by several ways: it has the path of the last.

    Told by class, attribute and type, where no snapshot shows it twice: of two instances nobody could say which is
    which. It stands alone then, and what it holds no longer counts for whoever stands above it.
    """
    while alike := _met_by_several_ways(places):
        last = max(alike, key=lambda place: int(np.flatnonzero(place.count)[-1]))
        for place in alike:
            _stand_alone(place)
        gone = {id(joined) for place in alike if place is not last for joined in _join(last, place)}
        places = [place for place in places if id(place) not in gone]
    return places


def _met_by_several_ways(places: Iterable[Place]) -> list[Place]:
    """Those nearest to a root, since what hangs below them is met by the same ways."""
    groups = defaultdict(list)
    for place in places:
        row = place.row
        if row["edge_kind"] == "attribute" and place.is_user and place.count.max() == 1:
            groups[row["owner"], row["variable"], place.type_name].append(place)
    moving = [
        alike for (owner, *_), alike in groups.items()
        if isinstance(owner, str) and len(alike) > 1 and np.sum([place.count > 0 for place in alike], axis=0).max() == 1
    ]  # fmt: skip
    return min(moving, key=lambda alike: min(len(place.path) for place in alike), default=[])


def _stand_alone(place: Place) -> None:
    above, place.parent = place.parent, None
    if above is not None:
        above.children.remove(place)
    while above is not None:
        for own, part in zip(_figures(above)[:3], _figures(place)):
            np.maximum(own - part, 0.0, out=own)
        above = above.parent


def _join(place: Place, other: Place) -> list[Place]:
    """Add the figures of ``other`` and of what it holds; those whose figures are elsewhere now."""
    for own, more in zip(_figures(place), _figures(other)):
        own += more
    place.has_length |= other.has_length
    place.most_nodes = max(place.most_nodes, other.most_nodes)
    gone = [other]
    twins = {(child.path[len(place.path) :], child.type_name): child for child in place.children}
    for child in other.children:
        twin = twins.get((child.path[len(other.path) :], child.type_name))
        if twin is not None:
            gone += _join(twin, child)
        else:
            child.parent = place
            place.children.append(child)
            _rename(child, len(other.path), place.path)
    return gone


def _figures(place: Place) -> list[np.ndarray]:
    return [place.deep_bytes, place.array_bytes, place.tensor_bytes, place.count, place.length]


def _rename(place: Place, length: int, path: str) -> None:
    place.path = path + place.path[length:]
    for child in place.children:
        _rename(child, length, path)
