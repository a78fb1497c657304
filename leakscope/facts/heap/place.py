"""A place in the heap: one object, or what is alike below one, over the snapshots of a process."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from ...units import MOST, unnumbered
from ..code.names import Holder

Floats = NDArray[np.float64]

# The first objects of a graph are none of Python's: they stand for groups of roots. Among these are the table of
# modules, running functions, and what only C code refers to.
OUTSIDE = "outside"  # a root kind: objects that only C code holds
FRAME, RUNNING = (
    "frame",
    "variables of running calls",
)  # the type of one that runs; all those without a line of their own
_GROUPS = ("", "module", "thread", "recorder", OUTSIDE, "unreached")  # as agent/graph/rows.py has them
GROUPS = len(_GROUPS)
OF_MODULES, OF_THREADS, OF_OUTSIDE = map(_GROUPS.index, ("module", "thread", OUTSIDE))
GRAPH_TYPE = "torch autograd graph"  # as the agent names it
TRACEBACK = "traceback"
# Where a torch module keeps what the user wrote as ``model.part``.
CONTAINERS = ("dict", "list", "set", "tuple", "frozenset", "collections.deque", "collections.OrderedDict")
MODULE_DICTS = ("_modules", "_parameters", "_buffers")
NAMING_EDGES = frozenset(("local", "global", "attribute", "class-attribute", "cell", "default", "cache"))


@dataclass(frozen=True)
class Reference:
    """What a person calls the reference by which something is held: ``history``, an attribute of the user's Trainer.

    ``variable``: the nearest name; ``owner``: the function, class or module whose name that is; ``is_user``: the owner
    is the user's code.
    """

    edge_kind: str = "reference"
    variable: str | None = None
    owner: str | None = None
    owner_module: str | None = None
    owner_file: str | None = None
    owner_line: int | None = None
    is_user: bool = False


NO_REFERENCE = Reference()


@dataclass(eq=False)
class Place:
    """What was found at one path. **Shape** every array has one value a snapshot, 0 where it was not there.

    ``node``: the number of the object, None where it stands for several that have none of their own. ``member_type``:
    of most members. ``length``: how many members it had, where ``has_length``. ``code``: qualified name, file and first
    line of what has code of its own.
    """

    path: str
    type_name: str
    reference: Reference
    deep_bytes: Floats
    count: Floats
    length: Floats
    has_length: bool = False
    node: int | None = None
    root_kind: str = ""
    member_type: str | None = None
    length_limit: int | None = None  # most members that it says it may have
    hits: int | None = None  # of an lru_cache, as its misses: calls whose result was there
    misses: int | None = None
    limits: str | None = None  # numbers beside it, one of which may be its limit
    opaque: bool = False  # Python cannot see what it has
    chained: bool = False  # all links of a chain of like objects
    has_parts: bool = False  # a dict in which a torch module keeps its own
    code: tuple[str, str, int] | None = None
    parent: Place | None = None
    named_by: Place | None = None  # at whose name its own begins, where that may be another than its parent
    children: list[Place] = field(default_factory=list)
    also_held_by: list[Place] = field(default_factory=list)  # what was put here hangs on each of these as well
    numbers: frozenset[int] = frozenset()  # of the objects that it stands for
    array_bytes: Floats = field(init=False)  # of deep_bytes, as the next two
    tensor_bytes: Floats = field(init=False)
    native_bytes: Floats = field(init=False)  # sampled memory of malloc
    error_bytes: Floats = field(init=False)  # of deep_bytes, one standard error: if estimated
    unshown_bytes: Floats = field(init=False)  # of deep_bytes: arrays and storages beside what views of them show

    def __post_init__(self) -> None:
        zeros = np.zeros(len(self.deep_bytes))
        self.array_bytes = self.tensor_bytes = self.native_bytes = self.error_bytes = self.unshown_bytes = zeros

    @property
    def growth_bytes(self) -> float:
        return float(self.deep_bytes[-1] - self.deep_bytes[0])

    @property
    def is_certain_to_grow(self) -> bool:
        """Beyond two standard errors of what it held, where that is estimated from some of its members."""
        return self.growth_bytes >= 2.0 * float(self.error_bytes.max())

    @property
    def has_members(self) -> bool:
        """A container, also of a class of its own: it has some that can be removed, where others have attributes."""
        return self.has_length or any(child.reference.edge_kind == "item" for child in self.children)

    @property
    def said(self) -> str:
        """The path as a report says it: without what tells two apart that had one name."""
        return unnumbered(self.path)

    @property
    def is_user(self) -> bool:
        return self.reference.is_user

    @property
    def has_users_name(self) -> bool:
        """One that the user gave it."""
        return self.is_user and self.reference.variable is not None and self.reference.edge_kind in NAMING_EDGES

    @property
    def copying(self) -> str:
        """What makes a part of what it is a view of one of its own. clone() of polars 2.1 copies nothing."""
        library = (self.member_type or self.type_name).partition(".")[0]
        if library == "polars":
            return ".select(pl.all().gather(pl.int_range(pl.len())))"
        if library == "pyarrow":
            return ".take(list(range(len(part))))"
        return ".clone()" if self.tensor_bytes[-1] >= MOST * self.deep_bytes[-1] else ".copy()"

    @property
    def object_bytes(self) -> Floats:
        """Of Python objects alone, without arrays and tensors."""
        return self.deep_bytes - self.array_bytes - self.tensor_bytes

    def known_as(self, reference: Reference, type_name: str | None = None) -> Place:
        """The same under another name."""
        twin = _twin(self)
        twin.reference, twin.type_name = reference, type_name or self.type_name
        return twin

    def as_holder(self, key: str | None = None) -> Holder:
        """The name to look for in the sources; ``key`` of the member that grows."""
        one = self.reference
        name = one.variable or self.path
        grew_inside = self.longer_member is not None
        return Holder(
            name, one.owner, one.owner_module, one.owner_file, one.edge_kind, self.type_name, key, grew_inside
        )

    @property
    def longer_member(self) -> Place | None:
        """The one that gained most, where most of what came is in members that have more each since they are there."""
        gained = {one: one._gained_since_there for one in self.children if self.has_length and one._may_be_longer}
        longer = [one for one in gained if gained[one] > 0]
        is_most = sum(gained[one] for one in longer) >= MOST * self.growth_bytes > 0
        return max(longer, key=gained.__getitem__) if is_most else None

    @property
    def _may_be_longer(self) -> bool:
        return self.has_length or self.type_name in CONTAINERS

    @property
    def _gained_since_there(self) -> float:
        """Bytes, of what became longer meanwhile; 0 of what did not. Of members told together: what each has more."""
        there = np.flatnonzero(self.count > 0)
        if not there.size:
            return 0.0
        if not self.has_length:
            return float(self.deep_bytes[-1] - self.deep_bytes[there[0]] * self.count[-1] / self.count[there[0]])
        first, last = (self.length[at] / max(self.count[at], 1.0) for at in (there[0], -1))
        return float(self.deep_bytes[-1] - self.deep_bytes[there[0]]) if last > first else 0.0


def upwards(place: Place | None, *, by_name: bool = False) -> Iterator[Place]:
    """It, and those above it: as one keeps the other, or ``by_name`` along its path."""
    known: set[int] = set()
    while place is not None and id(place) not in known:
        yield place
        known.add(id(place))
        place = (place.named_by if by_name else None) or place.parent


def downwards(places: Iterable[Place]) -> list[Place]:
    """They, and all below them, each behind what it lies below."""
    found = list(places)
    for one in found:  # which becomes longer
        found += one.children
    return found


def copied(places: Sequence[Place]) -> list[Place]:
    """The same, to be hung and named otherwise. The arrays are the same: give a place others, and change none."""
    twins: dict[int, Place] = {}
    for place in places:
        twins[id(place)] = _twin(place)
    for twin in twins.values():
        twin.parent, twin.named_by = (twins.get(id(one)) for one in (twin.parent, twin.named_by))
        twin.children = [twins[id(child)] for child in twin.children]
        twin.also_held_by = [twins[id(one)] for one in twin.also_held_by]
    return list(twins.values())


def _twin(place: Place) -> Place:
    """What ``copy`` makes, in a fifth of the time."""
    twin = object.__new__(type(place))
    twin.__dict__.update(place.__dict__)
    return twin
