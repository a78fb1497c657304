"""The agent's thread ticks on time, however often the job makes it end and come back."""

from __future__ import annotations

from time import monotonic, sleep

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
    thread.begin()
    began = monotonic()
    while not ticks and monotonic() - began < GIVE_UP_S:
        sleep(FIRST_TICK_S / 10)
        thread.end(is_busy=bool)
        thread.begin(is_new=False)
    thread.end(is_busy=bool)
    assert len(ticks) == 1
    assert ticks[0] - began >= 0.9 * FIRST_TICK_S
