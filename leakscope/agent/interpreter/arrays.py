"""Arrays that C code reads and fills. Runs in the job.

The type of ``(c_uint64 * 7)()`` is a class that ctypes makes, and forgets with its last array: a cycle of seven
objects, which only a collection frees. A job may have switched that off, or count what one finds. So these classes are
kept, and arrays whose length varies have room for a power of two. Large ones lie in memory of their own, which Python
did not hand out: where the job has tracemalloc on, they would be among what it compares.
"""

from __future__ import annotations

import ctypes
import mmap

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence
    from typing import Any

LARGE_BYTES = 32 * 1024

_classes: dict[tuple[int, int], Any] = {}


def of(kind: Any, length: int) -> Any:
    """The class of arrays of so many, of ``kind``: a class of ctypes, or of the agent's own that stays."""
    key = id(kind), length
    found = _classes.get(key)
    if found is None:
        found = _classes[key] = kind * length
    return found


def empty(kind: Any, count: int) -> Any:
    """Zeros: ``count`` of them or more. **Errors** OSError where there is no room for large ones."""
    found = of(kind, 1 << max(0, count - 1).bit_length())
    size = ctypes.sizeof(found)
    if size < LARGE_BYTES:
        return found()
    return found.from_buffer(mapped(size))


class Mapping(mmap.mmap):
    """By its type a snapshot knows that it is none of the program's."""


def mapped(size: int) -> Mapping:
    """Pages of our own, zeros. **Errors** OSError where there is no room."""
    return Mapping(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)


def filled(kind: Any, members: Sequence[Any]) -> Any:
    """These, and perhaps zeros behind them."""
    return of(kind, 1 << max(0, len(members) - 1).bit_length())(*members)
