"""Clocks of several machines: brought in line by what their ranks pass together, or else by wall clocks."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope.jobs._clocks import Started, clocks, events_of
from tests.builders import RecordingBuilder

S = 1_000_000_000


def started(machine: str, *, mono_s: float, unix_s: float, events: dict[object, float]) -> Started:
    known = {key: (at_s, 0.5) for key, at_s in events.items()}
    return Started(machine, round(mono_s * S), round(unix_s * S), known)


def steps(first_s: float, each_s: float, count: int = 40, first: int = 0) -> dict[object, float]:
    return {("step", first + n): first_s + n * each_s for n in range(count)}


def test_steps_set_the_axis_and_wall_clocks_do_not():
    """The second machine was recorded from 7 s later on, and its wall clock is 4 s ahead."""
    here = started("a", mono_s=5_000, unix_s=1_000, events=steps(10.0, 1.5))
    there = started("b", mono_s=90, unix_s=1_011, events=steps(3.0, 1.5))
    first, second = clocks([here, there])
    assert first.offset_s == 0
    assert second.offset_s == pytest.approx(7.0)
    assert (second.aligned_by, second.shared_count) == ("steps", 40)
    assert second.wall_off_s == pytest.approx(4.0)


def test_recordings_of_one_machine_share_its_clock_to_the_nanosecond():
    one = started("a", mono_s=5_000, unix_s=1_000, events={})
    two = started("a", mono_s=5_002.25, unix_s=1_009, events={})
    assert [clock.offset_s for clock in clocks([one, two])] == [0, 2.25]


def test_all_recordings_of_the_other_machine_move_with_the_one_that_has_steps():
    here = started("a", mono_s=5_000, unix_s=1_000, events=steps(10.0, 1.5))
    there = [
        started("b", mono_s=90, unix_s=1_007, events={}),
        started("b", mono_s=95, unix_s=1_012, events=steps(5.0, 1.5)),
    ]
    assert [clock.offset_s for clock in clocks([here, *there])] == pytest.approx([0, 0, 5])


@pytest.mark.parametrize(
    "theirs",
    [steps(3.0, 2.5), {}, steps(3.0, 1.5, first=1000)],
    ids=["a rank that works at its own pace", "no steps", "other steps"],
)
def test_what_is_not_passed_together_leaves_wall_clocks(theirs: dict[object, float]):
    here = started("a", mono_s=5_000, unix_s=1_000, events=steps(10.0, 1.5))
    second = clocks([here, started("b", mono_s=90, unix_s=1_011, events=theirs)])[1]
    assert (second.offset_s, second.aligned_by, second.wall_off_s) == (11.0, "wall-clock", None)


def test_a_few_wild_readings_do_not_move_the_axis():
    events = steps(3.0, 1.5) | {("step", n): 500.0 for n in range(5)}
    here = started("a", mono_s=0, unix_s=0, events=steps(10.0, 1.5))
    assert clocks([here, started("b", mono_s=0, unix_s=0, events=events)])[1].offset_s == pytest.approx(7.0, abs=0.1)


@pytest.mark.judging
def test_two_recorders_see_the_same_steps_within_their_readings(tmp_path: Path):
    """One reads the counter each second, the other each 1.7 s and from 12.3 s later on; 3 steps a second are passed."""
    events = []
    for name, every_s, later_s in (("a", 1.0, 0.0), ("b", 1.7, 12.3)):
        builder = RecordingBuilder(tmp_path, f"{name}.parquet").process(7)
        count = [int((n * every_s + later_s) * 3) for n in range(100)]
        events.append(events_of(builder.sentinels(7, every_s=every_s, step=count).open()))
    offset = clocks([Started("a", 0, 0, events[0]), Started("b", 0, 0, events[1])])[1]
    assert offset.aligned_by == "steps"
    assert offset.offset_s == pytest.approx(12.3, abs=0.2)


@pytest.mark.judging
def test_marks_of_the_program_are_shared_too(tmp_path: Path):
    events = []
    for name, later_s in (("a", 0.0), ("b", 4.0)):
        builder = RecordingBuilder(tmp_path, f"{name}.parquet").process(7)
        for n in range(6):
            builder.row("marks", 10.0 + 5 * n - later_s, 7, text="epoch")
        events.append(events_of(builder.open()))
    offset = clocks([Started("a", 0, 0, events[0]), Started("b", 0, 0, events[1])])[1]
    assert (offset.aligned_by, offset.shared_count) == ("steps", 6)
    assert offset.offset_s == pytest.approx(4.0)
