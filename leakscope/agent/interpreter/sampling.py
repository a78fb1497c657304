"""Which members of a container are looked at. Runs in the job."""

from __future__ import annotations

from itertools import islice

from . import reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Any

LONGEST_PASS = 100000  # members gone through for a sample: 3 ms where they lie far apart
GOLDEN = 0.6180339887498949


def positions_of(length: int, wanted: int, phase: float = 0.0) -> list[int]:
    """``wanted`` positions of ``length``, one in each of as many equal parts, the last among them.

    Within its part a member is picked by the golden ratio: at even distances a container whose members alternate
    between kinds would show one kind only. ``phase`` (0 to 1) differs between containers: those that hold the same
    members must not show the same ones.
    """
    step = length / wanted
    positions = [int((i + (i * GOLDEN + phase) % 1.0) * step) for i in range(wanted - 1)]
    positions.append(length - 1)
    return positions


def spread(own: Sequence[Any], wanted: int, phase: float = 0.0) -> list[Any]:
    """Members of a list of ours at these positions."""
    return [own[position] for position in positions_of(len(own), wanted, phase)]


def picked(base: Any, obj: Any, length: int, wanted: int, phase: float = 0.0) -> list[Any]:
    """Members of a list, tuple, set, frozenset, deque or dict (``base``) at these positions.

    What can only be gone through costs 10 to 30 ns a member, in which no other thread runs: of what is longer than
    ``LONGEST_PASS`` both ends are looked at.
    """
    if base is list or base is tuple:
        return reading.items_at(base, obj, positions_of(length, wanted, phase))
    forwards, backwards = reading.iterator(base, obj), reading.backwards(base, obj)
    if length <= LONGEST_PASS:
        return _passed(forwards, positions_of(length, wanted, phase))
    if backwards is None:  # a set, whose order means nothing
        return _passed(forwards, positions_of(LONGEST_PASS, wanted, phase))
    end = LONGEST_PASS // 2
    newest = _passed(backwards, [0] + positions_of(end, wanted // 2, phase)[:-1])
    return _passed(forwards, positions_of(end, wanted - len(newest), phase)) + newest[::-1]


def _passed(iterator: Iterator[Any], positions: Iterable[int]) -> list[Any]:
    sample: list[Any] = []
    at = 0
    try:
        for position in positions:
            if position >= at:
                sample += islice(iterator, position - at, position - at + 1)
                at = position + 1
    except RuntimeError:
        pass  # another thread changed it between two of them: those before are members all the same
    return sample
