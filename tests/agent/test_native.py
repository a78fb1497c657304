"""What the allocators say of themselves."""

from __future__ import annotations

import pytest

from leakscope.agent.native import allocators

pytestmark = pytest.mark.skipif(allocators.malloc_in_use_bytes() is None, reason="no mallinfo2 here")


def test_arenas_of_python_and_of_malloc_are_counted():
    figures = allocators.Allocators().figures()
    assert 0 < figures["pymalloc_in_use_bytes"] <= figures["pymalloc_bytes"]
    assert figures["malloc_arena_count"] >= 1
    kept = [[number] for number in range(100_000)]  # 72 bytes each
    grown = allocators.Allocators().figures()["pymalloc_in_use_bytes"] - figures["pymalloc_in_use_bytes"]
    assert grown > 0.8 * 72 * len(kept)


def test_costly_figures_are_read_seldom():
    now = [100.0]
    reader = allocators.Allocators(clock=lambda: now[0])
    assert reader.figures()["pymalloc_bytes"] is not None
    assert reader.figures()["pymalloc_bytes"] is None
    now[0] += 60.0
    assert reader.figures()["pymalloc_bytes"] is not None


def test_arrow_says_what_its_pool_holds():
    pyarrow = pytest.importorskip("pyarrow")
    before = allocators.Allocators().figures()["native_cache_bytes"]
    kept = pyarrow.array(range(100_000))
    assert allocators.Allocators().figures()["native_cache_bytes"] - before >= kept.nbytes
