"""Readings from inside the process that cost next to nothing, once a second on the agent's thread.

Only what may be read from any thread at any time: reference counts, the collector's counters, the allocator's figures.
"""

from __future__ import annotations

import gc
import sys

from ..interpreter import doors, names
from ..interpreter.frozen import FrozenCount
from ..native.allocators import SERVED_BY, Allocators, malloc_figures
from ..native.memory import rss_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_IMMORTAL_NONE = sys.version_info >= (3, 12)
_interned_count = getattr(sys, "getunicodeinternedsize", None)  # as it was when this was loaded; from 3.12 on
_allocators = Allocators()
_frozen = FrozenCount()


def pause_at_most(seconds: float) -> None:
    """No single reading takes longer."""
    _allocators.longest_s = _frozen.longest_s = seconds


def row() -> dict[str, Any]:
    """One row of the table ``sentinels``. **Cost** 60 us with torch loaded."""
    in_use, free, mapped, system = malloc_figures()
    stats = gc.get_stats()
    row = {
        "tensor_count": _instance_count("Tensor"),
        "parameter_count": _instance_count("nn", "Parameter"),
        "refcount_none": None if _IMMORTAL_NONE else sys.getrefcount(None),
        "interned_count": _interned_count() if _interned_count is not None else None,
        "allocated_blocks": doors.allocated_blocks(),
        "malloc_in_use_bytes": in_use,
        "malloc_free_bytes": free,
        "malloc_mmap_bytes": mapped,
        "malloc_system_bytes": system,
        "malloc_library": SERVED_BY,
        "rss_bytes": rss_bytes(),
        "gc_enabled": gc.isenabled(),
        "gc_threshold": gc.get_threshold()[0],
        "gc_pending_count": gc.get_count()[0],
        "gc_collections": sum(generation["collections"] for generation in stats),
        "gc_full_collections": stats[-1]["collections"],
        "gc_collected_count": sum(generation["collected"] for generation in stats),
        "gc_uncollectable_count": sum(generation["uncollectable"] for generation in stats),
        "gc_frozen_count": _frozen.read_if_due(),
        "python_thread_count": _thread_count(),
    }
    row.update(_allocators.figures())
    return row


def rows_of_arenas() -> list[dict[str, Any]]:
    """Rows of the table ``malloc_arenas``, where the last row above came with a reading of them."""
    return _allocators.rows_of_arenas()


def _instance_count(*path: str) -> int | None:
    """Every instance of a Python class refers to its class: the count of references follows the instances exactly.

    In a function of its own: our reference is gone before the main thread could count it.
    """
    cls = sys.modules.get("torch")
    for name in path:
        cls = names.getattr_plain(cls, name)
    return None if cls is None else sys.getrefcount(cls)


def _thread_count() -> int:
    """Threads the threading module knows (the agent's own is not among them); 1 where nobody imported it."""
    active = names.getattr_plain(sys.modules.get("threading"), "_active")
    return 1 if active is None else len(active)
