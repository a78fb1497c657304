"""What metrics say of a run, and that a run of weeks has no more series than one of an hour."""

from __future__ import annotations

import random

import pytest

from leakscope.metering import families, readings
from leakscope.metering.families import FAMILIES
from leakscope.metering.labels import Names, shortened
from leakscope.metering.totals import Floors
from leakscope.units import MiB
from tests.metering.scenes import Run, born, died, growing, memory, snapshot

WEEK_S = 7 * 24 * 3600
MOST_SERIES_AT_ONCE, MOST_SERIES_OF_A_WEEK = 200, 650  # as docs/reference/metrics.md says


def test_memory_of_all_processes_by_role_and_what_it_gained() -> None:
    run = growing()
    assert run.value("leakscope_processes") == 2
    assert run.value("leakscope_memory_rss_bytes") == 209 * MiB
    assert run.value("leakscope_memory_private_bytes") == 199 * MiB  # anonymous pages of the one without a reading
    assert run.value("leakscope_memory_swap_bytes") == MiB
    assert run.value("leakscope_memory_peak_bytes") == 210 * MiB  # with what is in swap
    assert run.value("leakscope_role_memory_bytes", role="trainer") == 159 * MiB
    assert run.value("leakscope_role_processes", role="dataloader-worker") == 1
    steady, over_all = (
        run.value(f"leakscope_memory_{name}_bytes_per_hour") or 0 for name in ("steady_growth", "growth")
    )
    assert steady / (3600 * MiB) == pytest.approx(1, rel=0.05)
    assert over_all / (3600 * MiB) == pytest.approx(1, rel=0.05)


def test_the_limit_and_when_it_is_reached() -> None:
    run = growing()
    assert run.value("leakscope_limit_bytes", limit="host") == 1000 * MiB
    assert run.value("leakscope_limit_used_bytes", limit="host") == 259 * MiB
    assert run.value("leakscope_limit_time_left_seconds", limit="host") == pytest.approx(741, rel=0.05)


def test_gpus_steps_and_costs() -> None:
    run = growing()
    gpu = {"gpu": "0", "uuid": "GPU-1"}
    assert run.value("leakscope_gpu_memory_bytes", **gpu) == 80 * MiB
    assert run.value("leakscope_gpu_memory_used_bytes", **gpu) == 30 * MiB
    assert run.value("leakscope_gpu_memory_job_bytes", **gpu) == 20 * MiB
    assert run.value("leakscope_step") == 118
    assert run.value("leakscope_steps_per_second") == 2
    assert run.value("leakscope_snapshots_total") == 2
    assert run.value("leakscope_snapshot_pause_seconds_total") == pytest.approx(0.04)
    assert run.value("leakscope_recorder_memory_bytes") == 17 * MiB


def test_the_largest_holders_with_what_they_gained() -> None:
    run = growing()
    name = {"holder": "Trainer.predictions", "type": "list", "role": "trainer"}
    assert run.value("leakscope_holder_bytes", **name) == 60 * MiB
    assert run.value("leakscope_holder_growth_bytes", **name) == 50 * MiB


def test_ranks_that_are_alike_share_a_series_which_tells_of_the_largest() -> None:
    run = Run()
    run.rows(born(1), born(2), memory(1, 9 * MiB), memory(2, 9 * MiB))
    run.rows(*snapshot(1, 1, {"cache": MiB}), *snapshot(2, 1, {"cache": 3 * MiB}))
    assert run.value("leakscope_holder_bytes", holder="cache", type="list", role="trainer") == 3 * MiB


def test_what_is_not_known_has_no_sample() -> None:
    names = {reading.family.sample_name for reading in Run({}).told()}
    assert not names & {"leakscope_memory_pss_bytes", "leakscope_memory_growth_bytes_per_hour", "leakscope_step",
                        "leakscope_recording_start_seconds", "leakscope_holder_bytes"}  # fmt: skip


def test_the_users_labels_are_told_by_names_that_prometheus_takes() -> None:
    about = growing().readings.about
    assert about["label_team"] == "vision" and about["program"] == "train.py"
    assert "label_cost_center" in about


def test_where_a_recording_belongs_is_told() -> None:
    about = Run({"belongs": {"job": "4711", "rank": 3, "pod": "train-0", "commit": "0" * 40}}).readings.about
    assert (about["job_id"], about["rank"], about["pod"]) == ("4711", "3", "train-0")
    assert "commit" not in about and "job" not in about


@pytest.mark.parametrize("shape", ["flat", "given back", "cache that filled"])
def test_what_was_given_back_or_has_ended_is_no_growth(shape: str) -> None:
    floors = Floors()
    for second in range(4000):
        value = {"flat": 100, "given back": 100 + second % 90, "cache that filled": 100 + min(second, 300)}[shape]
        floors.add(float(second), value * MiB)
    gain = floors.gain()
    assert gain is not None and gain.bytes < 0.2 * 500 * MiB


def test_growth_is_the_same_however_long_the_run_was() -> None:
    floors = Floors()
    for second in range(0, WEEK_S, 30):
        floors.add(float(second), 1000 * MiB + second * 1024)
    gain = floors.gain()
    assert gain is not None and gain.per_hour == pytest.approx(3600 * 1024, rel=0.01)


def test_a_week_of_workers_and_holders_that_come_and_go_has_few_series() -> None:
    """Each half hour new workers, new cgroups, and 30 holders whose names nobody has seen before."""
    chance, run = random.Random(3), Run()
    run.rows(born(1))
    seen: set[tuple[str, tuple[tuple[str, str], ...]]] = set()
    most, workers = 0, [2]
    for take, now_s in enumerate(range(0, WEEK_S, 1800)):
        run.now_s = float(now_s)
        run.rows(*(died(pid, "dataloader-worker") for pid in workers))
        workers = [now_s + 10 + number for number in range(20)]
        run.rows(
            *(born(pid, chance.choice(["dataloader-worker", "python-fork", f"odd{pid}"])) for pid in workers),
            *(memory(pid, chance.randrange(50, 90) * MiB) for pid in (1, *workers)),
            *(("cgroup_samples", {"cgroup": f"/job/{pid}", "current_bytes": MiB, "limit_bytes": 99 * MiB,
                                  "cgroup_file_bytes": 0, "cgroup_shmem_bytes": 0}) for pid in workers[:3]),
            *(("limit_samples", {"limit_name": "rlimit-as", "pid": pid, "start_ticks": pid, "used_bytes": pid,
                                 "limit_bytes": 2**40}) for pid in workers[:3]),
            ("gpu_samples", {"gpu_uuid": f"GPU-{now_s % 8}", "gpu_index": now_s % 8, "gpu_total_bytes": MiB,
                             "gpu_used_bytes": MiB}),
        )  # fmt: skip
        come_and_go = {f"cache['{now_s}'].{i}": (i + 1) * MiB for i in range(30)}
        run.rows(*snapshot(1, take, {**come_and_go, "leak": now_s * 200}))
        told = run.told()
        most = max(most, len(told))
        seen |= {(r.family.name, tuple(r.labels.items())) for r in told}
    assert most <= MOST_SERIES_AT_ONCE
    assert len(seen) <= MOST_SERIES_OF_A_WEEK
    assert any(("holder", "leak") in labels for _, labels in seen), "a leak that is found late has its series too"
    assert len(run.scene.members) < 100 and len(run.totals._private) < 100  # nor does memory grow


def test_names_are_let_through_at_a_rate() -> None:
    names: Names[str] = Names(at_once=2, per_hour=1.0)
    assert list(names.admitted(["a", "b", "c"], 0.0)) == ["a", "b"]
    assert list(names.admitted(["c", "a"], 600.0)) == ["a"]
    assert list(names.admitted(["c", "a", "d"], 4000.0)) == ["c", "a"]


def test_long_labels_are_cut_and_broken_characters_replaced() -> None:
    assert len(shortened("x" * 10_000)) == 200
    assert shortened("a\udcff").encode("utf-8") == b"a?"


def test_every_family_is_told_of_somewhere() -> None:
    told = {reading.family.name for reading in growing().told()}
    assert {family.name for family in FAMILIES} <= told
    assert readings.MOST_HOLDERS == 10  # as the help of the families says
    assert "ten largest" in families.HOLDER.help
