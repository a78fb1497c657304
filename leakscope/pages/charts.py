"""A chart as shapes, for a page that needs no JavaScript, and the colours of accounts and phases."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from ..findings import Band
from . import axes

_IN_ORDER = (0, 1, 2, 3, 5, 7, 8, 9, 10, 4, 6, 11)  # of bands without a colour of their own: greys last
CULPRIT, SEEN_BEFORE = 12, 13  # the numbers of its colour, and of what was seen of it before; nothing else has them
_ACCOUNT_SLOTS = {  # an account has the same colour in every report, in its timeline and its ledger
    "tensors": 0, "arrays": 1, "python-objects": 5, "native": 2, "native-held": 6, "allocator-free": 3,
    "shared-memory": 7, "mapped-files": 4, "inherited": 8, "other": 11, "unexplained": 11,
}  # fmt: skip
_PHASE_SLOTS = {"start-up": 4, "train": 6, "eval": 9, "save": 8}
_FREE_SLOTS = (10, 1, 7, 3, 2, 5, 0)  # of phases that the program named itself


@dataclass(frozen=True)
class Shape:
    """A path of a chart; ``slot`` is the number of its colour, ``dash`` of its dashes, 0 for a line without."""

    name: str
    slot: int
    path: str
    dash: int = 0


@dataclass(frozen=True)
class Mark:
    """Something that happened at ``x``; ``end``, ``name`` and ``slot`` of what lasted until another place."""

    x: float
    label: str
    end: float | None = None
    name: str | None = None
    slot: int | None = None


@dataclass(frozen=True)
class Lane:
    """What happened of one kind, in a row of its own."""

    kind: str
    name: str
    marks: Sequence[Mark]

    @property
    def spans(self) -> dict[str, int]:
        """Names of what lasted, with the number of their colours."""
        return {m.name: m.slot for m in self.marks if m.name is not None and m.slot is not None}


@dataclass(frozen=True)
class Chart:
    """What the template draws. ``sentence`` says for those who cannot see it what there is to see.

    ``at`` is where a place along it lies, in percent from the left.
    """

    sentence: str
    shapes: Sequence[Shape]
    x_ticks: Sequence[axes.Tick]
    y_ticks: Sequence[axes.Tick]
    at: Callable[[float], float] = float
    is_stacked: bool = False
    lanes: Sequence[Lane] = ()
    window: tuple[float, float] | None = None
    onset: axes.Tick | None = None
    trend: str | None = None
    limit: float | None = None
    limit_label: str = ""
    marks: Sequence[axes.Tick] = ()


def slots(bands: Sequence[Band]) -> list[int]:
    """The number of each band's colour."""
    return [_ACCOUNT_SLOTS.get(band.name, _IN_ORDER[number % len(_IN_ORDER)]) for number, band in enumerate(bands)]


def account_slot(account: str) -> int | None:
    """The number of an account's colour; None for one that no timeline shows."""
    return _ACCOUNT_SLOTS.get(account)


def phase_slots(phases: Iterable[str]) -> Mapping[str, int]:
    """The number of each phase's colour."""
    named = list(dict.fromkeys(phase for phase in phases if phase not in _PHASE_SLOTS))
    return {**_PHASE_SLOTS, **{name: _FREE_SLOTS[n % len(_FREE_SLOTS)] for n, name in enumerate(named)}}
