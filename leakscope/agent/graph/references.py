"""References to None that no object has: how many Python keeps for itself. Runs in the job.

Up to Python 3.11 None has a count like other objects, and an extension that drops a reference too often brings it down.
So does a container that is emptied, but the graph has all references of containers. What is left over hardly moves,
unless a reference is lost or kept. Of Python's own there is one lot that does: an entry of its cache of attributes of
types refers to None until it is used.
"""

from __future__ import annotations

import ctypes
import sys

from ..interpreter import arrays
from . import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_VERSION_OF_TYPE = 384  # in a type: the number of what was looked up on it before it changed last
_ENTRIES = 4096
_MOST_BYTES = 1 << 20  # of an interpreter's state
_KNOWN_NAMES = ["leakscope_" + letter for letter in "abcdefgh"]  # looked up to find the cache
_IS_IMMORTAL = sys.version_info >= (3, 12)


class _Lookup(ctypes.Structure):
    """``struct known_lookup`` of reader/reader.h."""

    _fields_ = [(name, ctypes.c_uint64) for name in ("version", "name", "value", "place")]


class NoneCount:
    """Of one process. ``is_known``: what Python keeps for itself can be told, and None has a count at all.

    ``held``, ``free``: the library, called with the GIL and without.
    """

    def __init__(self, held: Any, free: Any) -> None:
        self._count_cached, self._count = held.graph_count_lookups, free.graph_count_references
        word = ctypes.c_uint64
        self._count_cached.restype, self._count_cached.argtypes = word, (ctypes.c_void_p, word)
        self._count.argtypes = (ctypes.c_void_p, word, ctypes.POINTER(word))
        self.is_known = not _IS_IMMORTAL and _find_cache(held.graph_find_lookups)
        self._cached = 0

    def read(self, graph: Any) -> None:
        """Right after the graph, where objects hold still; names that are cached become known to it. **Cost** 50 us."""
        self._cached = self._count_cached(graph, id(None)) if self.is_known else 0

    def columns(self, graph: Any) -> dict[str, int]:
        """Of the table ``heap_graphs``. Before the graph is worked out."""
        counted = arrays.of(ctypes.c_uint64, 2)()
        if not self.is_known or not self._count(graph, id(None), counted):
            return {}
        return {"none_reference_count": counted[0], "none_known_count": counted[1] + self._cached}


_kept: list[type] = []


def _find_cache(find: Any) -> bool:
    """It is a part of the interpreter, before 3.10 one of Python's variables."""
    known = type("Known", (), dict.fromkeys(_KNOWN_NAMES, _find_cache))
    _kept.append(known)  # a class that is forgotten is garbage for the job's collector
    getattr(known, _KNOWN_NAMES[0])  # it has a version from now on
    version = ctypes.c_uint32.from_address(id(known) + _VERSION_OF_TYPE).value
    names = [sys.intern(name) for name in _KNOWN_NAMES]
    places = [(id(name) >> 3 if sys.version_info >= (3, 10) else str.__hash__(name)) ^ version for name in names]
    told = [_Lookup(version, id(name), id(_find_cache), place % _ENTRIES) for name, place in zip(names, places)]
    begin, end = layout.variables()
    if sys.version_info >= (3, 10):
        main = ctypes.pythonapi["PyInterpreterState_Main"]
        main.restype = ctypes.c_void_p
        begin = main()
        end = begin + _MOST_BYTES
    word = ctypes.c_uint64
    find.argtypes = (word, word, ctypes.c_void_p, word)
    for first in range(len(told)):  # whose entry another lookup may have had since
        lookups = arrays.filled(_Lookup, told[first:] + told[:first])
        all(map(getattr, [known] * len(names), names))
        if find(begin, end, lookups, len(told)):
            return True
    return False
