"""Ways into the agent's code: what they ask is asked while nothing changes."""

from __future__ import annotations

import gc
import os
import time
from _thread import LockType, allocate_lock, get_native_id, start_new_thread

import pytest

from leakscope.agent.interpreter import doors

MOST_OBJECTS = 25  # that it takes to ask


@pytest.fixture(autouse=True)
def as_it_was() -> None:
    if not doors.is_unwatched():
        pytest.skip("somebody traces this")


class EndsAThread:
    """Garbage, whose finalizer lets a thread go, and waits until it is no more."""

    def __init__(self) -> None:
        self.itself = self
        self.may_end, began = allocate_lock(), allocate_lock()
        self.may_end.acquire()
        began.acquire()
        self.native_ids: list[int] = []
        start_new_thread(_wait, (self.native_ids, began, self.may_end))
        began.acquire()

    def __del__(self) -> None:
        self.may_end.release()
        until = time.monotonic() + 10
        while os.path.exists(f"/proc/self/task/{self.native_ids[0]}") and time.monotonic() < until:
            time.sleep(0.001)


def _wait(native_ids: list[int], began: LockType, may_end: LockType) -> None:
    native_ids.append(get_native_id())
    began.release()
    may_end.acquire()


def test_no_thread_ends_while_all_are_asked_for_tracers() -> None:
    """Up to Python 3.11 a collection began meanwhile; and threads ended, and were still read."""
    thresholds, was_enabled = gc.get_threshold(), gc.isenabled()
    answers = []
    try:
        for _ in range(3):
            for left in range(MOST_OBJECTS):
                gc.disable()
                gc.collect()
                EndsAThread()
                gc.set_threshold(gc.get_count()[0] + left, *thresholds[1:])
                gc.enable()
                answers.append(doors.is_unwatched())
    finally:
        gc.set_threshold(*thresholds)
        (gc.enable if was_enabled else gc.disable)()
    assert all(answers)
