"""Sets of weights by name: where in the heap the model, optimizer or container is that a tensor belongs to."""

from __future__ import annotations

from ...storage import Rows
from ..heap.comparable import Heap
from ..heap.place import Place
from ..tables import cells

_OF_SETS = ("parameter", "buffer", "gradient", "optimizer-state", "master-weight")


def named_sets(seen: Heap, rows: Rows) -> tuple[Rows, dict[str, Place]]:
    """Rows of one process of a table with ``weight_set``, which is a path where they have the number of an object.

    Several that one path leads to are numbered: ``main() model``, ``main() model #2``. A loose tensor is told by the
    container that it is in. Also returns {name: what has it}.
    """
    owners = [owner for (owner,) in cells(rows, "tensor_owner")] if "tensor_owner" in rows else [None] * len(rows)
    numbers: dict[tuple[int, str], dict[int, int]] = {}
    places: dict[str, Place] = {}
    names = []
    for (take, number, name), owner in zip(cells(rows, "take", "node", "weight_set"), owners):
        place = seen.by_number.get(number) if number is not None else None
        if place is not None:
            is_loose = owner is not None and owner not in _OF_SETS
            place = _container(place) if is_loose else place
            alike = numbers.setdefault((take, place.path), {})
            count = 1 if is_loose else alike.setdefault(number, len(alike) + 1)
            name = f"{place.path} #{count}" if count > 1 else place.path
            places[name] = place
        names.append(name)
    return rows.assign(weight_set=names), places


def _container(place: Place) -> Place:
    """``cache`` for ``cache['a'][0]``."""
    while place.reference.edge_kind == "item" and place.named_by is not None:
        place = place.named_by
    return place
