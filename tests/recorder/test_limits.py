"""The limits of a job, how near they are, and when they will be reached; time is simulated."""

from __future__ import annotations

import resource
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from leakscope.recorder import proc
from leakscope.recorder.figures import Course, Figures
from leakscope.recorder.limits import Limits
from leakscope.recorder.sources import limits as source
from leakscope.recorder.tree import Process, Tree

from .runs import until

MIB, GIB = 1 << 20, 1 << 30


def course_of(level_mib: Callable[[float], float], duration_s: float, every_s: float = 0.25) -> Course:
    course = Course()
    for look in range(int(duration_s / every_s)):
        course.add(look * every_s, int(level_mib(look * every_s) * MIB))
    return course


@pytest.mark.parametrize("every_s", [0.25, 1.0, 10.0, 60.0])
def test_steady_growth_has_its_rate(every_s: float) -> None:
    steady = course_of(lambda s: 100 + 2 * s, 30 * max(1.0, every_s), every_s).steady()
    assert steady is not None
    assert steady.rate == pytest.approx(2 * MIB, rel=0.05)


def test_batches_that_come_and_go_do_not_hide_a_leak() -> None:
    steady = course_of(lambda s: 100 + 2 * s + 50 * (s % 1.5 > 0.7), 60).steady()
    assert steady is not None
    assert steady.rate == pytest.approx(2 * MIB, rel=0.2)


@pytest.mark.parametrize(
    "level_mib",
    [
        lambda s: 100,
        lambda s: 100 + 30 * min(s, 18),  # a model that is loaded
        lambda s: 100 + 400 * (s > 12),  # one step
        lambda s: 100 + 400 * (1 - 2.7 ** (-s / 6)),  # a cache that fills
        lambda s: 100 + 40 * (s % 12),  # a buffer emptied at each epoch
        lambda s: 500 - s,
    ],
    ids=["flat", "loading", "step", "filling", "saw-tooth", "falling"],
)
@pytest.mark.parametrize("duration_s", [10, 20, 25, 30, 60, 200])
def test_what_does_not_grow_steadily_has_no_rate(level_mib: Callable[[float], float], duration_s: float) -> None:
    assert course_of(level_mib, duration_s).steady() is None


def test_memory_of_a_long_recording_stays_small() -> None:
    assert len(course_of(lambda s: 100, 3600)._floors) <= 122


def host(used_gib: float) -> dict[str, Any]:
    return {"mem_total_bytes": 100 * GIB, "mem_available_bytes": int((100 - used_gib) * GIB), "oom_kill_count": 0}


def cgroup(used_mib: float, path: str = "/job", limit_mib: float = 1000, kills: int = 0) -> dict[str, Any]:
    sizes = {"current_bytes": int(used_mib * MIB), "limit_bytes": int(limit_mib * MIB)}
    return {"cgroup": path, **sizes, "cgroup_file_bytes": 0, "cgroup_shmem_bytes": 0, "oom_kill_count": kills}


def test_the_limit_that_grows_towards_its_end_is_the_nearest() -> None:
    limits = Limits()
    for second in range(30):
        gpu = {"gpu_index": 1, "gpu_total_bytes": 80 * GIB, "gpu_used_bytes": (20 + second) * GIB}
        limits.look_at([host(50)], [cgroup(900)], [], [gpu], now_s=float(second))
    assert limits.nearest is not None
    assert limits.nearest.name == "gpu:1"
    assert limits.nearest.seconds_left == pytest.approx(31, abs=3)


def test_a_near_limit_is_forecast_sooner_than_a_far_one() -> None:
    def first_forecast_s(limit_mib: float) -> float:
        limits = Limits()
        for look in range(400):
            limits.look_at([], [cgroup(100 + look * 2.5, limit_mib=limit_mib)], now_s=look / 4)
            if limits.nearest is not None and limits.nearest.seconds_left is not None:
                return look / 4
        raise AssertionError("no forecast")

    assert first_forecast_s(400) < 15 < first_forecast_s(10_000) < 30


def test_on_a_restless_machine_the_growth_of_the_job_is_what_counts() -> None:
    limits = Limits()
    for second in range(60):
        others_gib = 5 * (second % 2) + 10 * (second % 7 == 0)
        job = course_of(lambda s: 1000 + 100 * s, second + 1, 1.0)
        limits.look_at([host(50 + others_gib)], [], now_s=float(second), job=job)
    assert limits.nearest is not None
    assert limits.nearest.seconds_left == pytest.approx(45 * 1024 / 100, rel=0.2)


def test_pages_of_mapped_files_are_no_growth() -> None:
    figures, tree = Figures(), Tree(1, 1)
    process = tree.living[1] = Process(1, proc.Stat("train", "S", 0, 0.0, 1, 7), 0.0, 0, is_root=True)
    for second in range(60):
        tree.now_s = float(second)
        process.file_bytes = 50 * second * MIB
        process.rss_bytes = 100 * MIB + process.file_bytes
        figures.look_at(tree)
    assert figures.course.steady() is None
    assert figures.first_bytes == figures.last_bytes == figures.peak.size_bytes == 100 * MIB


def test_a_full_gpu_or_an_empty_dev_shm_is_no_news() -> None:
    limits = Limits()
    gpu = {"gpu_index": 0, "gpu_total_bytes": 80 * GIB, "gpu_used_bytes": 79 * GIB}
    shm = {"limit_name": "dev-shm", "used_bytes": 0, "limit_bytes": 64 * MIB}
    assert limits.look_at([host(50)], [], [shm], [gpu]) == []
    assert limits.nearest is not None
    assert limits.nearest.name == "host"


def test_of_many_processes_the_one_nearest_to_its_rlimit_counts() -> None:
    rows = [
        {"pid": pid, "limit_name": "rlimit-as", "used_bytes": used, "limit_bytes": 100}
        for pid, used in ((1, 50), (2, 96))
    ]
    (alarm,) = Limits().look_at([], [], rows)
    assert alarm.text == "memory under pressure: 96% of the limit is used, rlimit-as of process 2"


@pytest.mark.parametrize(
    ("before", "after", "count"),
    [
        ([cgroup(1), cgroup(1, "/")], [cgroup(1, kills=1), cgroup(1, "/", kills=1)], 1),
        ([cgroup(1), cgroup(1, "/")], [cgroup(1), cgroup(1, "/", kills=1)], 0),  # somebody else's, below "/"
    ],
    ids=["ours", "not-ours"],
)
def test_kills_in_other_cgroups_are_not_the_jobs(before: Any, after: Any, count: int) -> None:
    limits = Limits()
    limits.look_at([host(1)], before, own_cgroups=["/job"])
    alarms = limits.look_at([{**host(1), "oom_kill_count": 1}], after, own_cgroups=["/job"])
    assert limits.new_kill_count == count
    assert len(alarms) == 2 + count  # all are written down
    limits.look_at([host(1)], after, own_cgroups=["/job"])
    assert limits.new_kill_count == 0


def test_kills_of_the_job_add_up_with_the_limit_that_was_full() -> None:
    """A cgroup of version 2 counts those below it; of one that has not been full, the limit is not to blame."""

    def look(above: int, job: int, peak_bytes: int) -> None:
        full = {"limit_bytes": 100 * MIB, "cgroup_peak_bytes": peak_bytes}
        rows = [cgroup(1, "/pod/job", kills=job), {**cgroup(1, "/pod", kills=above), **full}]
        limits.look_at([host(1)], rows, own_cgroups=["/pod", "/pod/job"])

    limits = Limits()
    look(5, 1, 50 * MIB)
    assert limits.own_kills(0) == (0, None)
    look(6, 2, 50 * MIB)
    assert limits.own_kills(0) == (1, None)
    look(8, 3, 99 * MIB)
    assert limits.own_kills(0) == (3, 100 * MIB)
    assert limits.own_kills(0).why == "out of memory, cgroup limit 100 MiB"


def test_a_counter_that_strangers_share_says_no_more_than_the_processes() -> None:
    limits = Limits()
    limits.look_at([host(1)], [])
    limits.look_at([{**host(1), "oom_kill_count": 5}], [])
    assert [limits.own_kills(killed).number for killed in (0, 2, 9)] == [0, 2, 5]


def test_without_a_counter_of_its_own_the_machines_is_taken() -> None:
    limits = Limits()
    limits.look_at([host(1)], [])
    limits.look_at([{**host(1), "oom_kill_count": 2}], [])
    assert limits.new_kill_count == 2


@pytest.fixture
def limited() -> Iterator[subprocess.Popen[bytes]]:
    """A process with an rlimit on its address space, that waits for the end of its input."""

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_AS, (4 * GIB, resource.RLIM_INFINITY))

    command = [sys.executable, "-S", "-c", "input()"]
    with subprocess.Popen(command, stdin=subprocess.PIPE, preexec_fn=limit) as process:
        yield process
        process.communicate(b"\n")


@pytest.mark.live
def test_rlimits_of_a_real_process(limited: subprocess.Popen[bytes]) -> None:
    tree = Tree(limited.pid, 0)

    def read() -> list[dict[str, Any]]:
        tree.update(tree.now_s + 2, 0)
        # Its address space is nearly empty until the kernel has set up the new program.
        return [row for row in source.rows(tree) if row.get("pid") == limited.pid and row["used_bytes"] > MIB]

    (row,) = until(read)
    assert (row["limit_name"], row["limit_bytes"]) == ("rlimit-as", 4 * GIB)
    assert row["used_bytes"] < 4 * GIB


@pytest.mark.live
def test_a_process_without_limits_has_no_rows() -> None:
    with subprocess.Popen([sys.executable, "-S", "-c", "input()"], stdin=subprocess.PIPE) as process:
        tree = Tree(process.pid, 0)
        tree.update(0.0, 0)
        assert [row for row in source.rows(tree) if row.get("pid") == process.pid] == []
        process.communicate(b"\n")


def test_dev_shm_counts_where_it_is_a_file_system_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    tree = Tree(None, 0)
    monkeypatch.setattr(source, "SHARED_MEMORY", "/nowhere")
    assert list(source.rows(tree)) == []
    monkeypatch.setattr(source, "SHARED_MEMORY", "/dev")  # any file system that is mounted
    for row in source.rows(tree):
        assert 0 <= row["used_bytes"] <= row["limit_bytes"]


def test_a_snapshot_is_asked_for_at_each_level_and_only_the_upper_ones_are_news() -> None:
    limits = Limits()
    seen = [limits.look_at([host(used)], []) for used in (50, 70, 76, 78, 86, 90, 96, 99)]  # GiB of 100
    assert [[alarm.event for alarm in alarms] for alarms in seen] == [
        [], [], ["nearing"], [], ["pressure"], [], ["pressure"], []
    ]  # fmt: skip


def test_a_snapshot_is_asked_for_when_all_tasks_wait_for_memory_far_from_any_limit() -> None:
    """As with swap, or where ``memory.high`` slows the job down; once, until they do not wait any more."""
    limits, sizes = Limits(), {"current_bytes": 100 * MIB, "limit_bytes": GIB, "cgroup_file_bytes": 0}
    texts = []
    for second, stalled in enumerate([None, 0.0, 4.0, 23.0, 40.0, 8.0, 30.0, 2.0, 12.0]):
        row = {"cgroup": "/job", **sizes, "cgroup_shmem_bytes": 0, "psi_full_avg10": stalled}
        texts += [(second, alarm.event, alarm.text) for alarm in limits.look_at([], [row], now_s=float(second))]
    said = "memory under pressure: all tasks waited for memory in {}% of 10 s, cgroup /job"
    assert texts == [(3, "nearing", said.format(23)), (8, "nearing", said.format(12))]
