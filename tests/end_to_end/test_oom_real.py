"""Real OOM kills in a small memory cgroup, recorded from inside it: who died, by which limit, what had filled it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leakscope.storage import read_footer

from .cgroups import Cgroup, NoCgroup
from .programs import LONGEST_S, record_command, report

pytestmark = [pytest.mark.live, pytest.mark.oom_real]

MiB = 1 << 20
LEAK = """
import time

class Preprocessor:
    def __init__(self):
        self.features = []

    def add(self):
        self.features.append(b"x" * 400_000)

def main():
    preprocessor = Preprocessor()
    while True:
        preprocessor.add()
        time.sleep(0.03)

main()
"""
SUDDEN = "rows = []\nwhile True: rows.append(b'x' * 1_000_000)\n"
WORKER = """
import os, time
if os.fork() == 0:
    time.sleep(1)
    held = []
    while True:
        held.append(b"x" * 1_000_000)
os.wait()
time.sleep(0.5)
"""
KILLED_BY_HAND = "import os, signal, time\ntime.sleep(0.5)\nos.kill(os.getpid(), signal.SIGKILL)\n"


@pytest.fixture
def cgroup() -> Iterator[Cgroup]:
    if sys.platform != "linux":
        pytest.skip("not Linux")
    try:
        made = Cgroup.made(f"leakscope-test-{os.getpid()}")
    except NoCgroup as error:
        pytest.skip(str(error))
    try:
        meminfo = dict(line.split(":") for line in Path("/proc/meminfo").read_text().splitlines())
        if int(meminfo["MemAvailable"].split()[0]) < 1_000_000:
            pytest.skip("less than 1 GB of memory is available")
        if Path("/proc/sys/vm/panic_on_oom").read_text().strip() != "0":
            pytest.skip("the kernel is set to panic when memory runs out")
        yield made
    finally:
        made.remove()


def record(cgroup: Cgroup, folder: Path, program: str, limit_bytes: int) -> tuple[int, dict[str, Any]]:
    """(exit status, report) of a program that was recorded inside the cgroup, recorder and all."""
    (folder / "train.py").write_text(program)
    cgroup.limit(limit_bytes)
    output = folder / "run.parquet"
    done = cgroup.run(*record_command(output, sys.executable, folder / "train.py"))
    assert not done.stderr, "the recorder had to say something"
    return done.returncode, report(output)


@pytest.mark.slow
def test_a_leak_is_named_as_what_filled_the_process_that_was_killed(cgroup: Cgroup, tmp_path: Path) -> None:
    status, result = record(cgroup, tmp_path, LEAK, 250 * MiB)
    assert status == -signal.SIGKILL
    assert result["recording"]["ended"] == "oom-killed"
    assert result["verdict"]["killed"] is True
    first = result["findings"][0]
    assert first["kind"] == "oom-kill"
    assert "train.py[" in first["title"]
    assert "250 MiB" in first["title"]
    assert "Preprocessor.features grew" in first["title"]
    assert result["verdict"]["headline"].startswith(first["title"])
    assert first["subject"]["variable"] == "features"
    assert "self.features.append" in LEAK.splitlines()[first["subject"]["line"] - 1]
    assert "retained-objects" in [finding["kind"] for finding in result["findings"]]


@pytest.mark.slow
def test_a_sudden_death_is_told_too(cgroup: Cgroup, tmp_path: Path) -> None:
    status, result = record(cgroup, tmp_path, SUDDEN, 150 * MiB)
    assert status == -signal.SIGKILL
    first = result["findings"][0]
    assert (first["kind"], first["severity"]) == ("oom-kill", "critical")
    assert "at the cgroup limit 150 MiB" in first["title"]
    assert first["confidence"] > 0.8


def test_a_worker_that_was_killed_though_its_parent_exited_in_order(cgroup: Cgroup, tmp_path: Path) -> None:
    status, result = record(cgroup, tmp_path, WORKER, 120 * MiB)
    assert status == 0
    assert (result["recording"]["ended"], result["recording"]["exit_code"]) == ("exit", 0)
    assert result["verdict"]["killed"] is True
    first = result["findings"][0]
    assert first["kind"] == "oom-kill"
    assert first["subject"]["role"] == "python-fork"
    assert "at the cgroup limit 120 MiB" in first["title"]


@pytest.mark.parametrize(
    ("between", "status", "said"),
    [
        ([], -signal.SIGKILL, "the command was killed by the kernel after "),
        (["sh", "-c", '"$0" "$@"; exit 3'], 3, "the kernel killed a process of it"),
    ],
    ids=["itself", "below-a-shell"],
)
def test_the_last_words_tell_the_kernels_kill_whoever_stands_between(
    between: list[str], status: int, said: str, cgroup: Cgroup, tmp_path: Path
) -> None:
    (tmp_path / "train.py").write_text(SUDDEN)
    cgroup.limit(150 * MiB)
    words = [*between, sys.executable, str(tmp_path / "train.py")]
    output = tmp_path / "run.parquet"
    done = cgroup.run(sys.executable, "-m", "leakscope", "record", "-o", str(output), "--", *words)
    assert done.returncode == status
    (line,) = [line for line in done.stderr.splitlines() if said in line]
    assert "out of memory, cgroup limit 150 MiB" in line
    assert read_footer(output)["kill_count"] == 1


@pytest.mark.slow
def test_sigkill_by_hand_is_no_lack_of_memory(cgroup: Cgroup, tmp_path: Path) -> None:
    status, result = record(cgroup, tmp_path, KILLED_BY_HAND, 200 * MiB)
    assert status == -signal.SIGKILL
    assert result["recording"]["ended"] == "signal"
    assert result["verdict"]["killed"] is False
    assert "oom-kill" not in [finding["kind"] for finding in result["findings"]]
    (reason,) = [ruled["reason"] for ruled in result["ruled_out"] if ruled["kind"] == "oom-kill"]
    assert "ended by SIGKILL, but not by the kernel" in reason


def test_a_group_that_is_killed_whole_takes_the_recorder_and_the_report_says_so(cgroup: Cgroup, tmp_path: Path) -> None:
    if not cgroup.is_v2:
        pytest.skip("memory.oom.group is of cgroup version 2")
    (cgroup.folder / "memory.oom.group").write_text("1")
    status, result = record(cgroup, tmp_path, LEAK, 100 * MiB)
    assert status == -signal.SIGKILL
    assert result["recording"]["ended"] == "lost"
    (reason,) = [skip["reason"] for skip in result["skipped"] if skip["kind"] == "oom-kill"]
    assert "a kill of the whole group takes the recorder too" in reason


def test_the_recorder_is_no_better_protected_than_it_was_started(tmp_path: Path) -> None:
    program = "print(open(f'/proc/{__import__(\"os\").getppid()}/oom_score_adj').read().strip())"
    command = record_command(tmp_path / "run.parquet", sys.executable, "-c", program)
    seen = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_S).stdout.strip()
    assert seen == Path("/proc/self/oom_score_adj").read_text().strip()
