"""A place in the heap: what was found at one path, or one object, over the snapshots of a process."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

# The first objects of a graph are none of Python's: they stand for groups of roots. Among these are the table of
# modules, running functions, and what only C code refers to.
GROUPS = 6
OF_MODULES, OF_THREADS, OF_OUTSIDE = 1, 2, 4
OUTSIDE = "outside"  # a root kind: objects that only C code holds
GRAPH_TYPE = "torch autograd graph"  # as the agent names it, in walks and in graphs of the heap
# Where a torch module keeps what the user wrote as ``model.part``.
MODULE_DICTS = ("_modules", "_parameters", "_buffers")

_ANOTHER = re.compile(r"(?<=[\w)\]>…])'+$")


@dataclass(eq=False)
class Place:
    """One path and what was found there. **Shape** every array has one value a take, 0 where the path was absent."""

    path: str
    type_name: str
    row: dict[str, Any]
    deep_bytes: Floats
    array_bytes: Floats
    tensor_bytes: Floats
    count: Floats
    length: Floats
    has_length: bool = False
    first_seen: int = 0  # where earlier snapshots did not look (a library): what is before is an estimate
    most_nodes: float = 0.0  # of an autograd graph, in any take of the run: later ones follow less of it
    parent: Place | None = None
    named_by: Place | None = None  # at whose name its own begins, where that may be another than its parent
    children: list[Place] = field(default_factory=list)
    also_held_by: list[Place] = field(default_factory=list)  # what was put here hangs on each of these as well
    native_bytes: Floats = field(default_factory=lambda: np.zeros(1))  # sampled memory of malloc, of deep_bytes
    numbers: frozenset[int] = frozenset()  # of the objects of the exact graph that it stands for
    error_bytes: Floats = field(default_factory=lambda: np.zeros(1))  # of deep_bytes, one standard error: if estimated

    @property
    def growth_bytes(self) -> float:
        return float(self.deep_bytes[-1] - self.deep_bytes[0])

    @property
    def is_certain_to_grow(self) -> bool:
        """Beyond two standard errors of what it held, where that is estimated from some of its members."""
        return self.growth_bytes >= 2.0 * float(self.error_bytes.max())

    @property
    def is_counted(self) -> bool:
        """Its length is that of a container, and not how many objects it alone holds."""
        return self.has_length and self.row.get("is_counted", True) is not False

    @property
    def has_members(self) -> bool:
        """A container, also of a class of its own: it has some that can be removed, where others have attributes."""
        return self.has_length or any(child.row["edge_kind"] == "item" for child in self.children)

    @property
    def said(self) -> str:
        """The path as a report says it: without what tells two apart that had one name."""
        return _ANOTHER.sub("", self.path)

    @property
    def is_user(self) -> bool:
        return bool(self.row["is_user"])

    @property
    def root_kind(self) -> str:
        kind = self.row["root_kind"]
        return kind if isinstance(kind, str) else ""


def copied(places: Sequence[Place]) -> list[Place]:
    """The same, to be hung and named otherwise. The arrays are the same: give a place others, and change none."""
    twins: dict[int, Place] = {}
    for place in places:
        twin = twins[id(place)] = Place.__new__(Place)
        vars(twin).update(vars(place), row=dict(place.row))
    for twin in twins.values():
        twin.parent, twin.named_by = (twins.get(id(one)) for one in (twin.parent, twin.named_by))
        twin.children = [twins[id(child)] for child in twin.children]
        twin.also_held_by = [twins[id(one)] for one in twin.also_held_by]
    return list(twins.values())
