"""Arrays of the agent's: zeros, with room for a power of two, and nothing that a job's tracemalloc would count."""

from __future__ import annotations

import ctypes
import tracemalloc

from leakscope.agent.interpreter import arrays


def test_an_array_has_room_for_what_was_asked_and_holds_zeros() -> None:
    for count in (1, 100, 70_000):
        found = arrays.empty(ctypes.c_uint64, count)
        assert len(found) >= count and not any(found)
        found[count - 1] = 7
        assert found[count - 1] == 7


def test_large_ones_are_not_among_what_the_job_compares_by_tracemalloc() -> None:
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        kept = arrays.empty(ctypes.c_char, 1 << 20)
        counted = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    assert len(kept) == 1 << 20
    assert counted < 1 << 14
