"""Looks at stacks while memory grows: the line that asks for it is seen, one that waits or gives back is not."""

from __future__ import annotations

import _thread
import ctypes
import sys
import threading
from collections import Counter

import pytest

from leakscope.agent.graph.heap_graph import HeapGraph
from leakscope.agent.native import allocators, growth_stacks

KiB = 1024
GRAPH = HeapGraph()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, (ctypes.c_size_t,)
libc.free.argtypes = (ctypes.c_void_p,)
libc.memset.restype, libc.memset.argtypes = ctypes.c_void_p, (ctypes.c_char_p, ctypes.c_int, ctypes.c_size_t)
scratch = bytes(1024 * KiB)  # zeros, and overwritten with zeros

pytestmark = pytest.mark.skipif(
    allocators.malloc_in_use_bytes() is None or GRAPH.refusal is not None, reason="no mallinfo2 here, or no heap graph"
)


MOST_TICKS = 400  # of 50 ms, for a machine on which the watching thread hardly gets a turn


def keep(stop, addresses):
    while not stop.is_set():
        for _ in range(20):
            addresses.append(libc.memset(scratch, 0, len(scratch)) and libc.malloc(64 * KiB))  # works, and grows
        stop.wait(0.002)


def give_back(stop, addresses):
    while not stop.is_set():
        for _ in range(20):
            libc.free(libc.malloc(64 * KiB))
        stop.wait(0.002)


@pytest.fixture(autouse=True)
def look_at_every_tick(monkeypatch):
    monkeypatch.setattr(growth_stacks, "COST_FACTOR", 0)
    monkeypatch.setattr(growth_stacks, "STRETCH", 0)


def watched(function, is_enough):
    """{(function, line): bytes} of what ``function`` was seen to do on the main thread, as in a job."""
    stop, addresses = threading.Event(), []
    stacks = growth_stacks.GrowthStacks(GRAPH.running)
    seen = Counter()

    def watch():
        wake = _thread.allocate_lock()
        wake.acquire()
        try:
            for tick in range(MOST_TICKS):
                stacks.tick(wake)
                seen.clear()
                for row in stacks.rows():
                    seen[row["function"], row["owner_line"]] += row["grown_bytes"]
                if is_enough(tick, seen):
                    break
                stop.wait(0.05)
        finally:
            stop.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    function(stop, addresses)
    watcher.join()
    for address in addresses:
        libc.free(address)
    return seen


def test_the_line_that_asks_for_memory_is_seen():
    line = ("keep", keep.__code__.co_firstlineno + 3)
    seen = watched(keep, lambda tick, seen: seen[line] > 1024 * KiB)
    assert seen[line] > 1024 * KiB, seen
    assert {function for function, _ in seen} == {"keep"}


def test_what_the_agent_runs_on_the_main_thread_is_no_part_of_a_stack(monkeypatch):
    monkeypatch.setattr(growth_stacks, "HAND_OVER_S", 60)
    stacks, seen = growth_stacks.GrowthStacks(GRAPH.running), []

    def look():
        stacks._working.acquire()  # the main thread is in the agent's code, and waits
        seen.extend(place[0] for place in stacks._places().values())
        stacks._nobody.release()

    watcher = threading.Thread(target=look)
    watcher.start()
    stacks._main_goes_on()
    watcher.join()
    assert any(stack.endswith(" test_what_the_agent_runs_on_the_main_thread_is_no_part_of_a_stack") for stack in seen)


def test_what_is_given_back_cancels_out():
    assert sum(watched(give_back, lambda tick, seen: tick > 16).values()) < 256 * KiB


def test_the_switch_interval_is_as_it_was():
    before = sys.getswitchinterval()
    watched(keep, lambda tick, seen: tick > 3)
    assert sys.getswitchinterval() == before


def test_it_stops_at_once_when_the_agent_has_to_stop():
    stacks = growth_stacks.GrowthStacks(GRAPH.running)
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
