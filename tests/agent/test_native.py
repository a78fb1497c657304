"""What the allocators say of themselves."""

from __future__ import annotations

import threading

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


def test_arenas_of_malloc_add_up_to_what_it_says_in_all():
    """Threads that free most of what they took leave it in arenas of their own."""

    def work():
        buffers = [bytearray(20_000) for _ in range(500)]
        kept.append(buffers[::10])

    kept: list[list[bytearray]] = []
    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    reader = allocators.Allocators()
    count = reader.figures()["malloc_arena_count"]
    rows = reader.rows_of_arenas()
    _, free, mapped, system = allocators.malloc_figures()
    assert sum(row["arena_count"] for row in rows) == count >= 2
    assert sum(row["free_bytes"] for row in rows) == pytest.approx(free, abs=200_000)
    assert sum(row["system_bytes"] for row in rows) == pytest.approx(system - mapped, abs=200_000)
    assert all(row["top_bytes"] <= row["free_bytes"] <= row["system_bytes"] for row in rows)
    assert reader.rows_of_arenas() == [] and kept  # each reading is given once


def test_of_hundreds_of_arenas_those_with_least_are_one_row():
    arena = '<heap nr="%d"><sizes><size from="33" to="33" total="66" count="2"/></sizes><total type="fast" count="0" '
    arena += 'size="0"/><total type="rest" count="3" size="%d"/><system type="current" size="9999"/></heap>'
    rows = allocators.arenas_of("".join(arena % (i, 1000 + i) for i in range(300)).encode())
    assert len(rows) == allocators.MOST_ARENAS + 1
    assert sum(row["arena_count"] for row in rows) == 300 and rows[-1]["arena"] is None
    assert sum(row["free_bytes"] for row in rows) == sum(1000 + i for i in range(300))
    assert rows[0] == {"arena": 299, "arena_count": 1, "system_bytes": 9999, "free_bytes": 1299, "top_bytes": 1233,
                       "free_chunk_count": 3}  # fmt: skip


def test_arrow_says_what_its_pool_holds():
    pyarrow = pytest.importorskip("pyarrow")
    before = allocators.Allocators().figures()["native_cache_bytes"]
    kept = pyarrow.array(range(100_000))
    assert allocators.Allocators().figures()["native_cache_bytes"] - before >= kept.nbytes
