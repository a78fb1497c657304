"""The agent's thread ticks on time, however often the job makes it end and come back."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from time import monotonic, sleep

import pytest

from leakscope.agent.interpreter import thread as thread_room
from leakscope.agent.interpreter.thread import FIRST_TICK_S, Thread

GIVE_UP_S = 10.0


def test_a_job_that_forks_all_the_time_keeps_no_tick_from_coming() -> None:
    """Since Python 3.12 the thread ends before each fork. It would never tick if each time it waited from anew."""
    ticks = []

    def tick(asked_to_end: list[str]) -> bool:
        if not asked_to_end:
            thread.ticked()
            ticks.append(monotonic())
        return bool(asked_to_end)

    thread = Thread(tick, 10.0, [], lambda: None)
    began = monotonic()
    thread.begin()
    while not ticks and monotonic() - began < GIVE_UP_S:
        sleep(FIRST_TICK_S / 10)
        thread.end()
        thread.begin(is_new=False)
    thread.end()
    assert len(ticks) == 1
    assert ticks[0] - began >= 0.9 * FIRST_TICK_S


def test_a_fork_waits_until_what_is_begun_is_done() -> None:
    """A child would find the locks held that it takes, and Python 3.12 a second thread to warn of."""
    begun, done = [], []

    def tick(asked_to_end: list[str]) -> bool:
        if not asked_to_end:
            begun.append(monotonic())
            sleep(0.3)  # writes to a busy disk, works out who holds what
            done.append(monotonic())
        return bool(asked_to_end)

    thread = Thread(tick, 0.01, [], lambda: None)
    thread.begin()
    before = monotonic()
    while not begun and monotonic() - before < GIVE_UP_S:
        sleep(0.001)
    thread.end()
    assert begun and len(done) == len(begun)


@pytest.mark.parametrize("starves", [True, False])
def test_a_fork_waits_longer_where_there_is_no_processor_for_it(monkeypatch: pytest.MonkeyPatch, starves: bool) -> None:
    """Python 3.12 warns of the second thread on stderr: as a busy machine had it, and no quiet one."""
    monkeypatch.setattr(thread_room, "END_S", 0.05)
    monkeypatch.setattr(thread_room, "STARVES_S", 0.01)
    monkeypatch.setattr(thread_room, "_waited_s", lambda tasks: monotonic() if starves else 0.0)
    begun, may_end = threading.Event(), threading.Event()

    def tick(asked_to_end: list[str]) -> bool:
        begun.set()
        may_end.wait(GIVE_UP_S)
        return bool(asked_to_end)

    thread = Thread(tick, 0.01, [], lambda: None)
    thread.begin()
    assert begun.wait(GIVE_UP_S)
    release = threading.Timer(0.5, may_end.set)
    if starves:
        release.start()
    thread.end()
    assert may_end.is_set() == starves
    may_end.set()


def test_one_that_has_not_begun_is_waited_for_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_room, "BEGINS_S", 0.0)  # a machine too busy to begin one
    thread = Thread(bool, 0.001, [], lambda: None)
    before = os.listdir("/proc/self/task")
    for _ in range(50):
        thread.begin()
        thread.end()
        assert set(os.listdir("/proc/self/task")) <= set(before)  # one of others may have ended


def test_a_tool_that_asks_which_thread_ours_is_leaves_none_more_to_be_seen() -> None:
    """One of sys.monitoring that is set meanwhile is told of it; bdb then asks, and the answer is a new thread."""
    seen = []

    def tick(asked_to_end: list[str]) -> bool:
        if not asked_to_end:
            thread.ticked()
            seen.append(set(threading._dangling))  # type: ignore[attr-defined]  # what regrtest looks at
            threading.current_thread()
        return bool(asked_to_end)

    thread = Thread(tick, 0.001, [], lambda: None)
    before = set(threading._dangling)  # type: ignore[attr-defined]
    thread.begin()
    began = monotonic()
    while len(seen) < 3 and monotonic() - began < GIVE_UP_S:
        sleep(0.001)
    thread.end()
    assert seen[1:3] == [before, before]


FILLED_AND_EMPTIED = """
import ctypes
from time import monotonic, sleep
from leakscope.agent.interpreter import waiting
from leakscope.agent.interpreter.thread import Thread

libc = ctypes.CDLL(None)
libc.malloc.argtypes, libc.malloc.restype = (ctypes.c_size_t,), ctypes.c_void_p
libc.free.argtypes, libc.free.restype = (ctypes.c_void_p,), None
libc.sbrk.argtypes, libc.sbrk.restype = (ctypes.c_ssize_t,), ctypes.c_size_t

# All that is at the end of the heap is what is allocated here by number: these lists do not grow.
blocks, small, waits, is_due, waits_since = [0] * 1600, [0] * 300, [0], [False], [0]

def tick(asked_to_end):
    waits[0] += 1
    if is_due[0]:
        while small:
            libc.free(small.pop())
        is_due[0], waits_since[0] = False, waits[0]
    thread.ticked()
    return bool(asked_to_end)

waiting.load()
thread = Thread(tick, 0.01, [], lambda: None)
thread.begin()
before, until = libc.sbrk(0), monotonic() + 30
for number in range(1600):
    blocks[number] = libc.malloc(65536)
for number in range(300):
    small[number] = libc.malloc(200 if number < 100 else 700 if number < 200 else 1000)
filled, is_due[0] = libc.sbrk(0), True
while not waits_since[0] or waits[0] < waits_since[0] + 2:  # it has waited since
    assert monotonic() < until
    sleep(0.01)
for number in range(1600):
    libc.free(blocks[number])
print((filled - before) >> 20, (libc.sbrk(0) - before) >> 20)
thread.end()
"""


@pytest.mark.live
def test_what_the_thread_frees_is_free_for_the_heap_it_came_from() -> None:
    """glibc keeps for a thread what it freed last: at the end of a heap that pins all below it."""
    done = subprocess.run([sys.executable, "-c", FILLED_AND_EMPTIED], capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    filled_mib, emptied_mib = map(int, done.stdout.split())
    assert (filled_mib >= 100, emptied_mib < 20) == (True, True), done.stdout
