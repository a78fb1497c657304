"""Arrays that C code reads and fills. Runs in the job.

The type of ``(c_uint64 * 7)()`` is a class that ctypes makes, and forgets with its last array: a cycle of seven
objects, which only a collection frees. A job may have switched that off, or count what one finds. So these classes are
kept, and arrays whose length varies have room for a power of two.
"""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

_classes: dict[tuple[int, int], Any] = {}


def of(kind: Any, length: int) -> Any:
    """The class of arrays of so many, of ``kind``: a class of ctypes, or of the agent's own that stays."""
    key = id(kind), length
    found = _classes.get(key)
    if found is None:
        found = _classes[key] = kind * length
    return found


def empty(kind: Any, count: int) -> Any:
    """Zeros: ``count`` of them or more."""
    return of(kind, 1 << max(0, count - 1).bit_length())()


def filled(kind: Any, members: Sequence[Any]) -> Any:
    """These, and perhaps zeros behind them."""
    return of(kind, 1 << max(0, len(members) - 1).bit_length())(*members)
