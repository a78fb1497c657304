"""What a job does again and again is laid over each other, and GPUs are drawn with what made them fail."""

from __future__ import annotations

import pytest

from leakscope.facts.case import Case
from leakscope.reporting.devices import devices
from leakscope.reporting.laps import laps

from ..builders import RecordingBuilder
from . import gpus

MiB = 1024**2
SECONDS = 120


def saw_tooth(tmp_path, period_s: int = 10, left_each: int = 5 * MiB) -> RecordingBuilder:
    """A process that needs 50 MiB more within each period, and keeps some of it."""
    held = [100 * MiB + (s // period_s) * left_each + (s % period_s) * 5 * MiB for s in range(SECONDS)]
    return RecordingBuilder(tmp_path).process(100, cmdline="python train.py").samples(100, held)


def test_epochs_are_told_by_the_phase_that_begins_again(tmp_path):
    builder = saw_tooth(tmp_path).sentinels(100, step=[10 * s for s in range(SECONDS)])
    for start in range(0, SECONDS, 10):
        builder.mark(100, float(start), phase="train").mark(100, start + 8.0, phase="eval")
    found = laps(Case(builder.open()))
    assert (found.by, found.unit, len(found.laps)) == ("train and eval", "s", 12)
    assert found.laps[1].name == "train 2, from step 100"
    floors = [lap.floor_bytes for lap in found.laps]
    assert {after - before for before, after in zip(floors, floors[1:])} == {5 * MiB}
    assert found.laps[0].peak_bytes - floors[0] == 45 * MiB
    assert found.laps[0].at == [float(s) for s in range(10)]


def test_fast_steps_are_put_together_and_slow_ones_stand_alone(tmp_path):
    fast, slow = tmp_path / "fast", tmp_path / "slow"
    fast.mkdir()
    slow.mkdir()
    found = laps(Case(saw_tooth(fast).sentinels(100, step=[7 * s for s in range(SECONDS)]).open()))
    assert (found.by, found.unit) == ("100 steps", "step")
    assert found.laps[1].name == "from step 100"
    found = laps(Case(saw_tooth(slow).sentinels(100, step=[s // 10 for s in range(SECONDS)]).open()))
    assert (found.by, found.unit) == ("step", "s")
    assert [lap.peak_bytes - lap.floor_bytes for lap in found.laps] == [45 * MiB] * len(found.laps)


def test_many_laps_are_all_told_of_evenly(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [100 * MiB + s for s in range(4000)], every_s=0.5)
    for number in range(250):
        builder.mark(100, 8.0 * number, phase="train").mark(100, 8.0 * number + 6, phase="eval")
    found = laps(Case(builder.open()))
    assert (len(found.laps), found.left_out_count) == (200, 50)
    assert sum(bool(lap.at) for lap in found.laps) == 24
    assert found.laps[-1].at and found.laps[-1].name == "train 250"


def test_nothing_is_laid_over_each_other_where_nothing_was_counted(tmp_path):
    assert laps(Case(saw_tooth(tmp_path).open())) is None


def test_a_gpu_is_drawn_up_to_the_allocation_that_failed(tmp_path):
    builder = gpus.trainer(tmp_path, gpus.growing(10 * gpus.GiB, gpus.GiB))
    gpus.runs_out(builder, 41.0, 4 * gpus.GiB, 78 * gpus.GiB, 60 * gpus.GiB)
    gpus.gpu(builder, [60 * gpus.GiB] * 20, [6 * gpus.GiB] * 20)
    own, whole = devices(Case(builder.open()))
    assert own.device == "cuda:0 in train.py[4242]"
    assert (own.time_s[-1], own.reserved_bytes[-1], own.allocated_bytes[-1]) == (41.0, 78 * gpus.GiB, 60 * gpus.GiB)
    assert own.limit_bytes == whole.limit_bytes == gpus.TOTAL
    assert [moment.text for moment in own.failures] == ["cuda:0 had no room for 4.0 GiB at /home/me/train.py:31"]
    assert whole.device == "GPU 3 (NVIDIA X100), all processes"
    assert set(whole.used_bytes) == {66 * gpus.GiB + gpus.GiB // 2}


def test_a_recording_without_a_gpu_has_no_devices(tmp_path):
    assert devices(Case(saw_tooth(tmp_path).open())) == []


@pytest.mark.parametrize("count", [2, 5000])
def test_a_long_run_on_a_gpu_is_thinned_and_keeps_its_peak(tmp_path, count):
    allocated = [10 * gpus.GiB] * count
    allocated[count // 2] = 20 * gpus.GiB
    (own,) = devices(Case(gpus.trainer(tmp_path, allocated).open()))
    assert len(own.time_s) <= 402
    assert max(own.allocated_bytes) == 20 * gpus.GiB
