"""The sampler's clock and what it does when memory runs short, with time injected."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leakscope.agent.journal import Journal
from leakscope.recorder import console, proc
from leakscope.recorder.figures import Figures
from leakscope.recorder.limits import Alarm, Kills, Limit
from leakscope.recorder.output import Output
from leakscope.recorder.peaks import Peak, Peaks
from leakscope.recorder.sampler import Sampler
from leakscope.recorder.sources import process_memory
from leakscope.recorder.tree import Memory, Process, Tree

from .runs import rows

pytestmark = pytest.mark.live

MIB = 1 << 20


class Clock:
    """A clock that the test moves."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def job() -> Iterator[subprocess.Popen[bytes]]:
    """A process to look at, which waits for the end of its input."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.communicate(b"\n")


@pytest.fixture
def output(tmp_path: Path) -> Output:
    return Output.claim(str(tmp_path / "run.parquet"), force=False, meta={"command": ["x"]}, agent_config=None)


def make_sampler(output: Output, job: subprocess.Popen[bytes], clock: Clock, **options: Any) -> Sampler:
    settings: dict[str, Any] = {"interval_s": None, "flush_s": 5.0, "fsync_s": None, "asks_agents": True}
    settings["max_cpu_fraction"] = 0.5  # a slow machine must not make the intervals longer
    tree = Tree(job.pid, os.getpid())
    return Sampler(output, tree, status=console.Status(False), clock=clock, **{**settings, **options})


@pytest.mark.parametrize(("interval_s", "expected"), [(None, 4 * 60 + 60), (0.5, 240), (10.0, 12)])
def test_samples_of_two_minutes(
    output: Output, job: subprocess.Popen[bytes], clock: Clock, interval_s: float | None, expected: int
) -> None:
    sampler = make_sampler(output, job, clock, interval_s=interval_s)
    count = 0
    while sampler.elapsed_s < 120:
        sampler.sample()
        count += 1
        clock.now_s += sampler.seconds_to_next()
    assert abs(count - expected) <= 2
    sampler.finish(None)
    own = [row for row in rows(Path(output.journal_path), "process_samples") if row["pid"] == job.pid]
    assert len(own) == count + 1  # and one at the end; children that other tests left are a recorder's, too


def test_dear_rounds_come_less_often_and_it_is_said(output: Output, job: subprocess.Popen[bytes], clock: Clock) -> None:
    sampler = make_sampler(output, job, clock, max_cpu_fraction=1e-4)
    count = 0
    while sampler.elapsed_s < 60:
        sampler.sample()
        count += 1
        clock.now_s += sampler.seconds_to_next()
    assert count < 60  # of the usual 240
    sampler.finish(None)
    said = [row for row in rows(Path(output.journal_path), "events") if row["event"] == "throttled"]
    assert said
    assert "instead of 0.25 s" in said[0]["text"]


def test_a_late_round_is_not_made_up_for(output: Output, job: subprocess.Popen[bytes], clock: Clock) -> None:
    sampler = make_sampler(output, job, clock, interval_s=1.0)
    sampler.sample()
    clock.now_s += 60
    sampler.sample()
    assert sampler.seconds_to_next() > 0
    sampler.finish(None)


def test_a_source_that_fails_is_noted_and_the_others_go_on(
    output: Output, job: subprocess.Popen[bytes], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(tree: Tree) -> Iterator[dict[str, Any]]:
        raise ValueError("odd file")

    sampler = make_sampler(output, job, clock)
    monkeypatch.setattr("leakscope.recorder.sources.host_memory.rows", fails)
    for _ in range(3):
        sampler.sample()
        clock.now_s += 2
    sampler.finish(None)
    journal = Path(output.journal_path)
    failed = [row["text"] for row in rows(journal, "events") if row["event"] == "source-failed"]
    assert failed == ["no more host_samples: ValueError: odd file"]
    assert len(rows(journal, "process_samples")) == 4


def test_pressure_asks_the_agents_for_an_inventory(output: Output, job: subprocess.Popen[bytes], clock: Clock) -> None:
    alarm = Alarm("pressure", "memory under pressure: 96% of the limit is used, cgroup /job", 0.96)
    for asks in (False, True):
        sampler = make_sampler(output, job, clock, asks_agents=asks)
        sampler._raise(alarm)
        request = Path(output.journal_path, "request-take")
        assert request.exists() == asks
    assert request.read_text() == alarm.text
    sampler._raise(alarm._replace(is_near_the_end=True))
    assert request.read_text() == f"full-heap: {alarm.text}"


def test_pss_is_read_less_often_where_it_is_dear(output: Output, job: subprocess.Popen[bytes], clock: Clock) -> None:
    tree = Tree(job.pid, os.getpid())
    tree.update(0.0, 0)
    (process,) = tree
    process.rss_bytes = process.pss_rss_bytes = 100 * MIB

    def is_due(after_s: float, cost_s: float = 0.001, age_s: float = 100.0) -> bool:
        tree.now_s = process.born_s + age_s
        process.pss_read_s = tree.now_s - after_s
        return process_memory._pss_is_due(process, tree, cost_s, family_size)

    family_size = process.pss_family_size = 1
    assert [is_due(9), is_due(11)] == [False, True]
    assert [is_due(11, cost_s=0.12), is_due(13, cost_s=0.12)] == [False, True]
    assert [is_due(4, age_s=30), is_due(6, age_s=30)] == [False, True]
    family_size = process.pss_family_size = 2
    assert [is_due(1, age_s=30), is_due(3, age_s=30)] == [False, True]
    process.rss_bytes = 111 * MIB
    assert [is_due(1), is_due(1, cost_s=0.12), is_due(3, cost_s=0.12)] == [True, False, True]
    family_size = process.pss_family_size = 1
    assert [is_due(1), is_due(1, cost_s=0.012), is_due(3, cost_s=0.012)] == [True, False, True]
    process.rss_bytes = 100 * MIB
    family_size = 2  # it forked: what both hold counts half for each
    assert is_due(1)
    family_size = 1
    tree.pss_period_s = 5.0
    assert [is_due(4), is_due(6)] == [False, True]


def figures_of(*mib: float, every_s: float = 1.0) -> Figures:
    figures = Figures()
    for number, size in enumerate(mib):
        tree = Tree(1, 1)
        tree.now_s = number * every_s
        tree.living[1] = type("Process", (Memory,), {"rss_bytes": int(size * MIB)})()
        figures.look_at(tree)
    return figures


def test_a_fork_does_not_count_its_parents_pages_again() -> None:
    """As long as the parent's share is one from before the fork, in which it had all pages alone."""
    tree = Tree(1, 1)
    figures = Figures()

    def reads(process: Memory, pss_mib: int, uss_mib: int) -> None:
        process.pss_bytes, process.uss_bytes, process.pss_read_s = pss_mib * MIB, uss_mib * MIB, tree.now_s
        process.pss_rss_bytes = process.rss_bytes

    for pid in (1, 2, 3):
        one = type("Process", (Memory,), {"rss_bytes": 900 * MIB, "arguments": ["python", "train.py"]})()
        tree.living[pid] = one
        if pid == 1:
            reads(one, 900, 900)
            figures.look_at(tree)
            tree.now_s = 10.0
        else:
            one.born_s = 10.0
            reads(one, 310, 15)
    figures.look_at(tree)
    assert figures.peak.size_bytes == (900 + 15 + 15) * MIB
    reads(tree.living[1], 310, 15)
    figures.look_at(tree)
    assert figures.last_bytes == (310 + 310 + 310) * MIB


def test_figures_leave_out_loading_and_the_end() -> None:
    figures = figures_of(1, 50, 100, 110, 90, 0)
    assert (figures.first_bytes, figures.last_bytes, figures.peak.size_bytes) == (50 * MIB, 90 * MIB, 110 * MIB)


def test_status_line() -> None:
    figures = figures_of(*range(100, 160))
    limit = Limit("host", 0, 600 * MIB, seconds_left=600.0)
    assert console.status_text(75, figures, limit) == (
        "159 MiB, +60.0 MiB/min, 1 process, limit in 10 min 00 s, 75.0 s"
    )
    assert "limit" not in console.status_text(75, figures, limit._replace(seconds_left=None))


def test_what_is_loaded_at_the_start_is_no_growth() -> None:
    figures = figures_of(*range(10, 210, 20), *[210] * 50)
    assert console.status_text(60, figures, None) == "210 MiB, 1 process, 60.0 s"
    assert console.memory_text(figures) == "peak 210 MiB"


def seen(peaks: Peaks, at_s: float, *readings: tuple[str, float, float], files_mib: float = 0.0) -> Figures:
    """Processes of one sample: name, RSS now, ``files_mib`` of it mapped files, and VmHWM in MiB."""
    tree, figures = Tree(1, 1), Figures()
    tree.now_s = at_s
    for number, (name, rss_mib, most_mib) in enumerate(readings):
        stat = proc.Stat(name, "S", 1, 0.0, 1, 7)
        process = Process(100 + number, stat, at_s, 0, is_root=number == 0)
        process.rss_bytes, process.file_bytes = int(rss_mib * MIB), int(files_mib * MIB)
        process.note_most(int(most_mib * MIB))
        tree.living[process.pid] = process
    figures.look_at(tree)
    peaks.look_at(tree)
    return figures


@pytest.mark.parametrize(
    ("readings", "most_mib", "text"),
    [
        ([("train", 50, 50)], 50, "peak 50.0 MiB"),
        ([("train", 50, 50.2)], 0, "peak 50.0 MiB"),  # a page or two
        ([("train", 50, 400)], 400, "peak 400 MiB (by train, between samples, after 0.0 s)"),
        ([("train", 50, 400), ("worker", 100, 100)], 400, "peak 500 MiB (by train, between samples, after 0.0 s)"),
        ([("sh", 3, 3), ("tail", 80, 80)], 104, "peak 104 MiB (by tail, between samples, after 0.0 s)"),
        ([("sh", 3, 3)], 104, "peak 104 MiB (between samples, after 0.0 s)"),  # one that no sample saw
    ],
)
def test_a_peak_between_two_samples_is_told(
    readings: list[tuple[str, float, float]], most_mib: float, text: str, tmp_path: Path
) -> None:
    peaks = Peaks()
    figures = seen(peaks, 0.0, *readings)
    peaks.note_death(int(most_mib * MIB), 1.0)
    assert peaks.highest(figures.highest, str(tmp_path)).text == text


def test_the_moment_of_a_peak_is_one_of_the_recording(
    output: Output, job: subprocess.Popen[bytes], clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    sampler = make_sampler(output, job, clock)
    told = []
    monkeypatch.setattr(sampler, "event", lambda event, text, *_: told.append((event, text)))
    monkeypatch.setattr(sampler.peaks, "highest", lambda *_: Peak(9 * MIB, "train", True, clock.now_s + 3))
    sampler.finish(0)
    assert ("peak", "peak 9.0 MiB (by train, between samples, after 3.0 s)") in told


@pytest.mark.parametrize(
    ("taken_s", "text"), [(51.9, "peak 50.0 MiB"), (20.0, "peak 90.0 MiB (by train, between samples, after 51.0 s)")]
)
def test_what_a_snapshot_takes_is_no_peak_of_the_job(taken_s: float, text: str, tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), "agent-100-7")
    journal.add("takes", {"pid": 100, "start_ticks": 7, "take": 1, "time_mono_ns": int(taken_s * 1e9)})
    journal.flush()
    peaks = Peaks()
    seen(peaks, 51.0, ("train", 50, 50))
    figures = seen(peaks, 52.0, ("train", 50, 90))
    assert peaks.highest(figures.highest, str(tmp_path)).text == text


@pytest.mark.parametrize(
    ("held_s", "reading_mib", "text"),
    [
        (3.0, None, "peak 60.0 MiB"),
        (0.2, None, "peak 200 MiB"),
        (3.0, 30, "peak 170 MiB"),  # what made the peak was the job's, but for the graph
        (3.0, 150, "peak 60.0 MiB"),
    ],
)
def test_nor_is_it_where_a_sample_meets_it(held_s: float, reading_mib: int | None, text: str, tmp_path: Path) -> None:
    journal = Journal(str(tmp_path), "agent-100-7")
    row = {"pid": 100, "start_ticks": 7, "take": 1, "time_mono_ns": 52_000_000_000, "held_s": held_s}
    if reading_mib is not None:
        row["reading_bytes"] = reading_mib * MIB
    journal.add("heap_graphs", row)
    journal.flush()
    figures, peaks = Figures(), Peaks()
    for at_s, rss_mib in ((51.0, 55), (54.0, 200), (57.0, 60)):
        figures.highest += seen(Peaks(), at_s, ("train", rss_mib, rss_mib)).highest
    figures.highest.sort(reverse=True)
    assert peaks.highest(figures.highest, str(tmp_path)).text == text


def test_a_mapping_that_was_closed_is_no_peak(tmp_path: Path) -> None:
    """Its pages count to the most that the kernel remembers: of 300 MiB 200 were a file's."""
    peaks = Peaks()
    seen(peaks, 1.0, ("train", 250, 250), files_mib=200)
    figures = seen(peaks, 2.0, ("train", 50, 300))
    said = peaks.highest(figures.highest, str(tmp_path)).text
    assert said == "peak 100 MiB (by train, between samples, after 1.0 s)"


def test_nor_is_a_snapshot_of_another_process_as_one_rises(tmp_path: Path) -> None:
    """The others are counted as at the sample after it, which met the graph of a heap in one of them."""
    journal = Journal(str(tmp_path), "agent-100-7")
    row = {"pid": 100, "start_ticks": 7, "take": 1, "time_mono_ns": 51_500_000_000, "held_s": 1.0}
    journal.add("heap_graphs", {**row, "reading_bytes": 45 * MIB})
    journal.flush()
    peaks = Peaks()
    seen(peaks, 51.0, ("train", 50, 50), ("worker", 20, 20))
    figures = seen(peaks, 52.0, ("train", 95, 95), ("worker", 20, 40))
    said = peaks.highest(figures.highest, str(tmp_path)).text
    assert said == "peak 90.0 MiB (by worker, between samples, after 51.0 s)"


@pytest.mark.parametrize(("last_s", "text"), [(57.0, "peak 80.0 MiB"), (54.5, "peak 60.0 MiB")])
def test_what_stayed_after_a_snapshot_is_the_jobs(last_s: float, text: str, tmp_path: Path) -> None:
    """Of samples that meet a snapshot more is left out than was in memory at each of them."""
    journal = Journal(str(tmp_path), "agent-100-7")
    row = {"pid": 100, "start_ticks": 7, "take": 1, "time_mono_ns": 52_000_000_000, "held_s": 4.0}
    journal.add("heap_graphs", {**row, "reading_bytes": 60 * MIB})
    journal.flush()
    figures = seen(Peaks(), 54.0, ("train", 120, 120))
    assert Peaks().highest(figures.highest, str(tmp_path), (80 * MIB, last_s)).text == text


@pytest.mark.parametrize(
    ("code", "kills", "text"),
    [
        (0, 0, "the command exited with status 0 after 12.0 s"),
        (137, 1, "the command exited with status 137 after 12.0 s; the kernel killed a process of it: LIMIT"),
        (1, 3, "the command exited with status 1 after 12.0 s; the kernel killed 3 processes of it: LIMIT"),
        (-15, 0, "the command was ended by SIGTERM (15) after 12.0 s"),
        (-9, 0, "the command was ended by SIGKILL (9) after 12.0 s"),
        (-9, 1, "the command was killed by the kernel after 12.0 s: LIMIT"),
        (-40, 0, "the command was ended by signal 40 after 12.0 s"),
        (None, 0, "recorded 12.0 s; the command goes on"),
    ],
)
def test_how_it_ended(code: int | None, kills: int, text: str) -> None:
    limit = "out of memory, cgroup limit 600 MiB"
    assert console.ending_text(code, 12.0, Kills(kills, 600 << 20)) == text.replace("LIMIT", limit)
