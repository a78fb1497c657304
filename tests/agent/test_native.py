"""Looks at stacks while memory grows: the line that asks for it is seen, one that waits or gives back is not."""

from __future__ import annotations

import _thread
import ctypes
import sys
import threading

import pytest

from leakscope.agent import allocators, native

KiB = 1024
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
libc.free.argtypes = (ctypes.c_void_p,)

pytestmark = pytest.mark.skipif(allocators.malloc_in_use_bytes() is None, reason="no mallinfo2 here")


def keep(stop, addresses):
    while not stop.is_set():
        for _ in range(20):
            addresses.append(libc.malloc(64 * KiB))  # grows
        stop.wait(0.002)


def give_back(stop, addresses):
    while not stop.is_set():
        for _ in range(20):
            libc.free(libc.malloc(64 * KiB))
        stop.wait(0.002)


@pytest.fixture(autouse=True)
def look_at_every_tick(monkeypatch):
    monkeypatch.setattr(native, "COST_FACTOR", 0)
    monkeypatch.setattr(native, "STRETCH", 0)


def watched(function, ticks=16):
    """Bytes by line of what a thread that runs ``function`` was seen to do."""
    stop, addresses = threading.Event(), []
    worker = threading.Thread(target=function, args=(stop, addresses))
    worker.start()
    wake = _thread.allocate_lock()
    wake.acquire()
    stacks = native.GrowthStacks()
    try:
        for _ in range(ticks):
            stacks.tick(wake)
            stop.wait(0.05)
    finally:
        stop.set()
        worker.join()
        for address in addresses:
            libc.free(address)
    return {(row["function"], row["owner_line"]): row["grown_bytes"] for row in stacks.rows()}


def test_the_line_that_asks_for_memory_is_seen():
    grown = watched(keep)
    line = keep.__code__.co_firstlineno + 3
    assert sum(b for (function, at), b in grown.items() if (function, at) == ("keep", line)) > 64 * KiB


def test_what_is_given_back_cancels_out():
    assert sum(watched(give_back).values()) < 256 * KiB


def test_the_switch_interval_is_as_it_was():
    before = sys.getswitchinterval()
    watched(keep, ticks=3)
    assert sys.getswitchinterval() == before


def test_it_stops_at_once_when_the_agent_has_to_stop():
    stacks = native.GrowthStacks()
    wake = _thread.allocate_lock()  # not acquired: as if the agent had been told to stop
    stacks._in_use, stacks._was_rising = 0, True
    stacks.tick(wake)
    assert not wake.locked() and not stacks.rows()


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
