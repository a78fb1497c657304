"""A leak of so much a step is one also when the machine gets busy and the steps get rare."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from leakscope.facts.growth.tree import tree_growth
from tests.builders import RecordingBuilder

MB = 1_000_000


def slowing(folder: Path, bytes_of_step, *, stops: bool = False):
    """40 s that begin with 20 steps a second and end with one (or none)."""
    time_s = np.arange(0, 40, 0.25)
    pace = np.where(time_s < 15, 20.0, 0.0 if stops else 1.5)
    steps = np.cumsum(pace * 0.25)
    rss = [int(100 * MB + bytes_of_step(step)) for step in steps]
    builder = RecordingBuilder(folder).process(7).samples(7, rss, every_s=0.25)
    builder.sentinels(7, every_s=1.0, step=[int(s) for s in steps[::4]])
    return tree_growth(builder.ends(40.0).open())


def test_a_leak_per_step_is_found_though_it_flattens_in_time(tmp_path: Path) -> None:
    growth = slowing(tmp_path, lambda step: 0.5 * MB * step)
    assert growth.leaking is True
    assert "steps" in growth.reason


@pytest.mark.parametrize("stops", [False, True])
def test_a_cache_that_filled_is_none(tmp_path: Path, stops: bool) -> None:
    growth = slowing(tmp_path, lambda step: 0.5 * MB * min(step, 120), stops=stops)
    assert growth.leaking is False


def test_a_job_that_stopped_stepping_is_judged_by_time(tmp_path: Path) -> None:
    assert slowing(tmp_path, lambda step: 0.5 * MB * step, stops=True).leaking is False


def test_steps_that_get_larger_and_then_stay_so_are_none(tmp_path: Path) -> None:
    """Sequence lengths that grow for the first half of the run: slower steps, more memory, then a plateau."""
    growth = slowing(tmp_path, lambda step: 0.25 * MB * min(step, 302))
    assert growth.leaking is not True
