"""Lines of the kernel's log that belong to an OOM report, from the device and from the journal."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope.recorder.sources import kernel_log
from leakscope.recorder.sources.kernel_log import Line, Reports, lines_of
from leakscope.recorder.tree import Tree

from .runs import PYTHON, record, rows

KILL = "Memory cgroup out of memory: Killed process 4242 (python) total-vm:1kB, anon-rss:1kB, file-rss:0kB"
BEGIN = "python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0"
NO_ROOT = 2**22 + 1  # a pid above any pid there is


def kept(*texts: str, every_s: float = 0.001) -> list[str]:
    reports = Reports()
    return [text for i, text in enumerate(texts) if reports.keeps(Line(100 + i * every_s, text))]


def ended_tree() -> Tree:
    """The tree of a job that was seen and is over."""
    tree = Tree(NO_ROOT, os.getpid())
    tree.living[NO_ROOT] = None  # type: ignore[assignment]
    list(kernel_log.rows(tree))
    tree.living.clear()
    return tree


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int | None]]:
    """What the kernel's counter says: at the start of the recording and ever after."""
    readings: list[int | None] = [5, 5]
    monkeypatch.setattr(kernel_log, "_kills_of_host", lambda: readings.pop(0) if len(readings) > 1 else readings[0])
    yield readings


def test_a_record_of_the_kernel() -> None:
    assert list(lines_of(b"3,503,1348045010,-;Out of memory\n SUBSYSTEM=x\n")) == [Line(1348.04501, "Out of memory")]
    assert list(lines_of(b"6,504,2000000,-,caller=T9;anon 1\\x0afile 2\n")) == [
        Line(2.0, "anon 1"),
        Line(2.0, "file 2"),
    ]
    assert list(lines_of(b"6,5,2000000,-;na\\xc3\\xafve")) == [Line(2.0, "naïve")]


@pytest.mark.live
@pytest.mark.parametrize("record", [b"11,503,1348045010,-;" + KILL.encode(), b"", b"text", b"a,b,c;text", b"3,5;x"])
def test_what_a_program_wrote_or_what_is_no_record_is_not_the_kernels(record: bytes) -> None:
    assert list(lines_of(record)) == []


def test_a_report_is_kept_whole_and_nothing_around_it() -> None:
    report = [BEGIN, "Call Trace:", "[ pid ] uid tgid", KILL]
    reaper = "oom_reaper: reaped process 4242 (python), now anon-rss:0kB"
    assert kept("usb 1-1: new device", *report, "eth0: link up", reaper, "more") == [*report, reaper]


def test_a_kill_without_its_report_is_kept() -> None:
    assert kept("eth0: link up", KILL, "eth0: link down") == [KILL]


def test_a_report_that_never_ends_does_not_keep_the_rest_of_the_log() -> None:
    assert len(kept(BEGIN, *["noise"] * 100, every_s=0.1)) < 40
    assert len(kept(BEGIN, *["noise"] * 3000, every_s=0.0)) < 2000


def test_a_storm_is_bounded_and_keeps_its_kills() -> None:
    texts = [BEGIN, *["a row of the table"] * 1000, KILL] * 8
    found = kept(*texts, every_s=0.0)
    assert len(found) < 6000
    assert found.count(KILL) == 8


@pytest.mark.live
@pytest.mark.skipif(not os.access("/dev/kmsg", os.W_OK), reason="writing to the kernel's log needs root")
def test_the_same_words_written_by_a_program_are_not_recorded(tmp_path: Path) -> None:
    program = f"open('/dev/kmsg', 'w').write('<3>{BEGIN}\\n'); open('/dev/kmsg', 'w').write('<3>{KILL} by a test\\n')"
    record(tmp_path, "-q", "--agent", "off", PYTHON, "-c", program)
    assert not [r for r in rows(tmp_path / "run.parquet.journal", "kernel_log") if "by a test" in r["text"]]


def test_a_job_ended_by_sigkill_is_not_held_up_where_the_kernel_killed_nobody(kills: list[int | None]) -> None:
    tree = ended_tree()
    tree.sigkill_count = 1
    began_s = time.monotonic()
    list(kernel_log.rows(tree))
    assert time.monotonic() - began_s < 0.5


@pytest.mark.live
def test_where_neither_device_nor_journal_can_be_read_the_recording_says_so(
    kills: list[int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_log, "_DEVICE", str(tmp_path / "kmsg"))
    monkeypatch.setenv("PATH", str(tmp_path))
    kills[:] = [5, 6]
    (row,) = list(kernel_log.rows(ended_tree()))
    assert row["kernel_time_s"] is None
    assert "No such file" in row["text"]
    assert "no journalctl" in row["text"]


def test_without_a_kill_the_journal_is_not_asked(
    kills: list[int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_log, "_DEVICE", str(tmp_path / "kmsg"))
    journalctl(tmp_path, monkeypatch, [])
    assert list(kernel_log.rows(ended_tree())) == []
    assert not (tmp_path / "asked").exists()


@pytest.mark.live
def test_the_journal_stands_in(kills: list[int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_log, "_DEVICE", str(tmp_path / "kmsg"))
    entries = [
        {"MESSAGE": "eth0: link up", "_SOURCE_MONOTONIC_TIMESTAMP": "99000000"},
        {"MESSAGE": None, "_SOURCE_MONOTONIC_TIMESTAMP": "99000001"},
        {"MESSAGE": BEGIN, "_SOURCE_MONOTONIC_TIMESTAMP": "100000000", "_BOOT_ID": "b0"},
        {"MESSAGE": list(b"stats:\nanon 1"), "_SOURCE_MONOTONIC_TIMESTAMP": "100000001", "_BOOT_ID": "b0"},
        {"MESSAGE": KILL, "_SOURCE_MONOTONIC_TIMESTAMP": "100500000", "_BOOT_ID": "b0"},
    ]
    journalctl(tmp_path, monkeypatch, entries)
    kills[:] = [5, 6]
    found = list(kernel_log.rows(ended_tree()))
    assert [row["text"] for row in found] == [BEGIN, "stats:", "anon 1", KILL]
    assert {(row["log_source"], row["log_boot_id"]) for row in found} == {("journal", "b0")}
    assert found[-1]["kernel_time_s"] == 100.5


@pytest.mark.live
def test_earlier_kills_are_asked_for_after_a_kill_and_keep_their_own_time(
    kills: list[int | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(kernel_log, "_DEVICE", str(tmp_path / "kmsg"))
    entry = {"MESSAGE": KILL, "_SOURCE_MONOTONIC_TIMESTAMP": "7000000", "_BOOT_ID": "b1"}
    journalctl(tmp_path, monkeypatch, [entry], refuses="--since=@*--lines=5")
    kills[:] = [5, 6]
    earlier = [row for row in kernel_log.rows(ended_tree()) if row["kernel_time_s"] is not None]
    assert [(row["text"], row["log_boot_id"]) for row in earlier] == [(KILL, "b1")]
    assert earlier[0]["time_unix_ns"] == 1795255200 * 10**9


def journalctl(
    folder: Path, monkeypatch: pytest.MonkeyPatch, entries: list[dict[str, object]], refuses: str = "--grep"
) -> None:
    """Put a command of that name first, which prints these; without a word for arguments that it ``refuses``."""
    stamped = [{"__REALTIME_TIMESTAMP": "1795255200000000", **entry} for entry in entries]
    (folder / "entries").write_text("".join(json.dumps(entry) + "\n" for entry in stamped))
    command = folder / "journalctl"
    refusal = f'case "$*" in *{refuses}*) exit 1;; esac'
    command.write_text(f"#!/bin/sh\n: > {folder}/asked\n{refusal}\ncat {folder}/entries\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:{os.environ['PATH']}")
