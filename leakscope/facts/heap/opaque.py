"""Objects of the user's whose inside Python cannot see: databases, picklers, parsers, caches of C extensions."""

from __future__ import annotations

from ...agent.libraries import is_harmless
from .comparable import Heap
from .place import Place


def opaque_holders(seen: Heap, most: int = 3) -> list[Place]:
    """Opaque objects of the user's own code in any snapshot, the shortest way first."""
    found = {place.path: place for place in seen.places if place.opaque and place.is_user}
    told = [place for place in found.values() if not is_harmless(place.type_name)]
    return sorted(told, key=lambda place: (len(place.path), place.path))[:most]
