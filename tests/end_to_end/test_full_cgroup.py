"""A job that fills its memory cgroup and stays flat: what leakscope starts beside it costs nobody his life."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope.agent.journal import read_blocks

from .programs import report
from .test_oom_real import Cgroup, MiB, cgroup

__all__ = ["cgroup"]
pytestmark = [pytest.mark.oom_real, pytest.mark.slow]

# A checkpoint is due each second, as in a recording of some hours.
EAGER = """
import sys
from leakscope.recorder import checkpoints
checkpoints.PERIOD_S, checkpoints.LEAST_BYTES, checkpoints.GROWTH = 1.0, 1, 1.01
{also}
from leakscope.__main__ import main
sys.exit(main())
"""
# One that starts whatever it costs, and takes more than is left.
HEEDLESS = """
from leakscope.recorder import finalizing
checkpoints.ROOM_BYTES = checkpoints.CGROUP_ROOM_BYTES = 0
finalizing._CODE = "taken = bytearray(48 << 20); " + finalizing._CODE
"""
# All but a few MiB of the limit, page cache not counted; then it waits for the recorder, whose memory counts too.
FLAT = """
import sys, time
limit, folder, held = int(sys.argv[1]), sys.argv[2], []
usage, cache = sys.argv[3].split(",")
def left():
    stat = dict(line.split() for line in open(folder + "/memory.stat"))
    return limit - int(open(folder + "/" + usage).read()) + int(stat[cache])
def fill():
    while left() > 12 << 20:
        held.append(b"x" * (1 << 20))
        time.sleep(0.005)
time.sleep(2)
fill()
"""
STAYS = "time.sleep(8)\n"
# Until the kernel has killed somebody here: it can only be a process of leakscope's own.
WAITS = """
counter, until = folder + "/" + sys.argv[4], time.time() + 60
while "oom_kill 0" in open(counter).read().splitlines() and time.time() < until:
    fill()  # what a process of leakscope's own held that had begun before
    time.sleep(0.1)
time.sleep(1)
"""
GROWS = "while True: held.append(b'x' * (1 << 20))\n"
LIMIT_BYTES = 220 * MiB


def command(cgroup: Cgroup, folder: Path, program: str) -> list[str]:
    (folder / "job.py").write_text(program)
    names = "memory.current,file" if cgroup.is_v2 else "memory.usage_in_bytes,total_cache"
    return [sys.executable, str(folder / "job.py"), str(LIMIT_BYTES), str(cgroup.folder), names, counter(cgroup)]


def counter(cgroup: Cgroup) -> str:
    return "memory.events" if cgroup.is_v2 else "memory.oom_control"


def record(cgroup: Cgroup, folder: Path, also: str, program: str, *options: str) -> subprocess.CompletedProcess[str]:
    cgroup.limit(LIMIT_BYTES)
    words = ["record", "--no-summary", "--keep-journal", "--flush", "500ms", "-o", str(folder / "run.parquet")]
    job = command(cgroup, folder, program)
    return cgroup.run(sys.executable, "-I", "-c", EAGER.format(also=also), *words, *options, "--", *job)


def events(folder: Path) -> Iterator[dict[str, object]]:
    for segment in sorted((folder / "run.parquet.journal").glob("recorder-*.jnl")):
        for table, rows in read_blocks(str(segment)):
            yield from rows if table == "events" else []


def kills_in(cgroup: Cgroup) -> int:
    lines = (cgroup.folder / counter(cgroup)).read_text().splitlines()
    return int(dict(line.split() for line in lines)["oom_kill"])


def test_without_room_no_process_of_ours_starts_and_that_is_said_once(cgroup: Cgroup, tmp_path: Path) -> None:
    done = record(cgroup, tmp_path, "", FLAT + STAYS)
    assert done.returncode == 0, done.stderr
    assert kills_in(cgroup) == 0
    left_out = [event for event in events(tmp_path) if event["event"] == "helper-left-out"]
    assert len(left_out) == 1
    assert "are left of cgroup" in str(left_out[0]["text"])


def test_a_process_of_ours_that_was_killed_is_not_told_as_the_jobs(cgroup: Cgroup, tmp_path: Path) -> None:
    alarm = tmp_path / "alarm"
    done = record(cgroup, tmp_path, HEEDLESS, FLAT + WAITS, "--alert", "oom", "--on-alert", f"touch {alarm}")
    assert done.returncode == 0, done.stderr
    assert kills_in(cgroup) >= 1, "nothing was killed: this test shows nothing"
    assert not alarm.exists()
    assert "alert:" not in done.stderr
    seen = list(events(tmp_path))
    assert [event["event"] for event in seen].count("helper-killed") == 1
    assert "oom-kill-counter" not in [event["event"] for event in seen]
    result = report(tmp_path / "run.parquet")
    assert result["verdict"]["killed"] is False
    (reason,) = [ruled["reason"] for ruled in result["ruled_out"] if ruled["kind"] == "oom-kill"]
    assert reason.startswith("the kernel killed no process on this machine") or "none of them the job's" in reason
    assert "oom-kill" not in [finding["kind"] for finding in result["findings"]]
    assert result["recording"]["ended"] == "exit"


def test_a_kill_of_the_jobs_beside_one_of_ours_is_told(cgroup: Cgroup, tmp_path: Path) -> None:
    """The helper goes first; then the job goes on growing and is killed itself."""
    status = record(cgroup, tmp_path, HEEDLESS, FLAT + WAITS + GROWS).returncode
    assert status == -signal.SIGKILL
    assert kills_in(cgroup) >= 2
    result = report(tmp_path / "run.parquet")
    assert result["verdict"]["killed"] is True
    first = result["findings"][0]
    assert first["kind"] == "oom-kill"
    assert first["title"].startswith("The kernel killed job.py[")
    assert "more process" not in first["title"]
