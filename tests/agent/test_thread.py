"""The agent's thread ticks on time, however often the job makes it end and come back."""

from __future__ import annotations

import os
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
