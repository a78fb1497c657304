"""The collector, held back while an inventory is made."""

from __future__ import annotations

import gc
import sys

import pytest

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


@pytest.mark.parametrize(("version", "behind"), [((3, 13), (80, 84)), ((3, 14), (72, 72))])
def test_the_frozen_are_found_behind_generations_at_any_multiple_of_four(
    version: tuple[int, int], behind: tuple[int, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Debian's 3.13.5 was not read: the pointer between them lies at a multiple of eight, and they do not."""
    monkeypatch.setattr(sys, "version_info", (*version, 0))
    assert (collector._frozen(0xA3ECE0) - 0xA3ECE0, collector._frozen(0xA3ECE4) - 0xA3ECE4) == behind


def test_what_the_collector_says_of_itself_is_found() -> None:
    assert collector.generations() is not None and collector.going_on() is not None
    assert collector.frozen() in (72, 80, 84)
