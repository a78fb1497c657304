"""The collector, held back while an inventory is made."""

from __future__ import annotations

import gc

from leakscope.agent.interpreter import collector

MADE = 20 * max(gc.get_threshold()[0], 100)


def test_what_came_and_went_meanwhile_begins_no_collection() -> None:
    """All that an inventory makes is gone when it is done: the job collects when it would have without it."""
    before = gc.get_count()[0]
    with collector.HeldBack():
        for _ in range(MADE):
            {1}  # noqa: B018  of a kind that Python keeps no free ones of
        assert gc.get_count()[0] < 0, "it is not held back here: this shows nothing"
    assert abs(gc.get_count()[0] - before) < 100
    assert gc.get_threshold()[0] > 100


def test_it_is_found_though_a_collection_begins_meanwhile() -> None:
    """One process in thirty was about to collect as the agent began, and was not held back ever after."""
    threshold = gc.get_threshold()[0]
    for left in range(1, threshold // 4):
        gc.collect(0)
        held = []
        while gc.get_count()[0] < threshold - left:
            held.append({left})
        assert None not in collector.locate(), left
