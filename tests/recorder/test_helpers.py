"""Processes of our own: what the kernel's counters owe to them, and whether there is room for one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from leakscope import open_recording
from leakscope.recorder import helpers, proc
from leakscope.recorder.helpers import Helpers, too_full
from leakscope.recorder.sources import cgroup_memory

from .runs import TIMEOUT_S, environment

pytestmark = pytest.mark.live

MiB = 1 << 20
OWN = proc.cgroup("self") or "/"


@pytest.fixture
def helper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def look(known: Helpers, machine: int, *cgroups: tuple[str, int]) -> list[int]:
    """What is left of the counts that the kernel gives: the machine's, then those of cgroups."""
    rows: list[dict[str, Any]] = [{"oom_kill_count": machine}]
    rows += [{"cgroup": path, "oom_kill_count": count} for path, count in cgroups]
    known.leave_out(rows)
    return [row["oom_kill_count"] for row in rows]


def kill(helper: subprocess.Popen[bytes]) -> None:
    os.kill(helper.pid, signal.SIGKILL)


def test_a_kill_of_ours_is_in_no_count(helper: subprocess.Popen[bytes]) -> None:
    known = Helpers()
    known.add(helper.pid, "tests")
    assert look(known, 7, (OWN, 2), ("/elsewhere", 5)) == [7, 2, 5]
    kill(helper)
    assert look(known, 8, (OWN, 3), ("/elsewhere", 5)) == [7, 2, 5]
    known.ended(helper.pid, signal.SIGKILL)
    assert look(known, 8, (OWN, 3), ("/elsewhere", 5)) == [7, 2, 5]
    assert [killed.pid for killed in known.news()] == [helper.pid]
    assert known.news() == []


def test_a_kill_of_the_jobs_at_the_same_time_stays(helper: subprocess.Popen[bytes]) -> None:
    known = Helpers()
    known.add(helper.pid, "tests")
    look(known, 7, (OWN, 2), ("/elsewhere", 5))
    kill(helper)
    assert look(known, 9, (OWN, 4), ("/elsewhere", 6)) == [8, 3, 6]
    known.ended(helper.pid, signal.SIGKILL)
    assert look(known, 10, (OWN, 4), ("/elsewhere", 6)) == [9, 3, 6]


def test_a_helper_that_lives_explains_nothing(helper: subprocess.Popen[bytes]) -> None:
    known = Helpers()
    known.add(helper.pid, "tests")
    look(known, 7, (OWN, 2))
    assert look(known, 8, (OWN, 3)) == [8, 3]
    assert known.news() == []


def test_a_kill_by_hand_hides_no_later_one(helper: subprocess.Popen[bytes]) -> None:
    known = Helpers()
    known.add(helper.pid, "tests")
    look(known, 7, (OWN, 2))
    kill(helper)
    helper.wait()
    known.ended(helper.pid, signal.SIGKILL)
    assert look(known, 7, (OWN, 2)) == [7, 2]
    assert look(known, 7, (OWN, 2)) == [7, 2]
    assert look(known, 8, (OWN, 3)) == [8, 3]


def test_a_kill_that_is_known_before_it_is_counted(helper: subprocess.Popen[bytes]) -> None:
    """The counter was read, then the kernel killed, then we looked."""
    known = Helpers()
    known.add(helper.pid, "tests")
    look(known, 7)
    kill(helper)
    helper.wait()
    known.ended(helper.pid, signal.SIGKILL)
    assert look(known, 7) == [7]
    assert look(known, 8) == [7]
    assert look(known, 9) == [8]


def test_what_we_stop_ourselves_was_not_killed(helper: subprocess.Popen[bytes]) -> None:
    known = Helpers()
    known.add(helper.pid, "tests")
    look(known, 7)
    known.before_stopping()
    known.stopped(helper.pid)
    kill(helper)
    helper.wait()
    known.ended(helper.pid, signal.SIGKILL)
    assert look(known, 8) == [8]
    assert known.news() == []


def cgroups_of(folder: Path, monkeypatch: pytest.MonkeyPatch, is_v2: bool, **files: dict[str, int]) -> None:
    """A tree /, /job, /job/step in ``folder``; the recorder is in /job/step."""
    for path, values in {"": files["root"], "job": files["job"], "job/step": files["step"]}.items():
        (folder / path).mkdir(exist_ok=True)
        for name, value in values.items():
            (folder / path / name).write_text(f"{value}\n")
        (folder / path / "memory.stat").write_text(
            f"inactive_file {values.get('cached', 0)}\ntotal_inactive_file {values.get('cached', 0)}\n"
        )
    monkeypatch.setattr(cgroup_memory, "find_mount", lambda: cgroup_memory.Mount(str(folder), "/", is_v2))
    monkeypatch.setattr(proc, "cgroup", lambda pid: "/job/step")
    monkeypatch.setattr(helpers.host_memory, "available_bytes", lambda: 50_000 * MiB)


V1 = {"memory.limit_in_bytes": 1 << 62, "memory.usage_in_bytes": 900 * MiB}
V2 = {"memory.current": 900 * MiB}


@pytest.mark.parametrize("is_v2", [False, True], ids=["v1", "v2"])
@pytest.mark.parametrize("full", ["root", "job", "step"])
def test_the_nearest_limit_counts_wherever_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_v2: bool, full: str
) -> None:
    limits = {level: dict(V2 if is_v2 else V1) for level in ("root", "job", "step")}
    limits[full]["memory.max" if is_v2 else "memory.limit_in_bytes"] = 1000 * MiB
    cgroups_of(tmp_path, monkeypatch, is_v2, **limits)
    assert too_full(100 * MiB) is None
    path = {"root": "/", "job": "/job", "step": "/job/step"}[full]
    assert too_full(101 * MiB) == (f"cgroup {path}", 100 * MiB)


@pytest.mark.parametrize("is_v2", [False, True], ids=["v1", "v2"])
def test_page_cache_that_nobody_uses_is_room(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_v2: bool) -> None:
    limits = {level: dict(V2 if is_v2 else V1) for level in ("root", "job", "step")}
    limits["job"] |= {"memory.max" if is_v2 else "memory.limit_in_bytes": 1000 * MiB, "cached": 300 * MiB}
    cgroups_of(tmp_path, monkeypatch, is_v2, **limits)
    assert too_full(400 * MiB) is None
    assert too_full(401 * MiB) is not None


def test_where_the_kernel_would_slow_the_job_down_is_a_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    limits = {level: dict(V2) for level in ("root", "job", "step")}
    limits["job"] |= {"memory.max": 5000 * MiB, "memory.high": 950 * MiB}
    cgroups_of(tmp_path, monkeypatch, True, **limits)
    assert too_full(51 * MiB) == ("cgroup /job", 50 * MiB)


def test_the_machine_may_have_to_leave_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cgroups_of(tmp_path, monkeypatch, True, root=dict(V2), job=dict(V2), step=dict(V2))
    assert too_full(100 * MiB, 60_000 * MiB) == (helpers.HOST, 50_000 * MiB)
    assert too_full(100 * MiB) is None


NO_ROOM_AT_THE_END = """
import sys
from leakscope.recorder import finalizing
from leakscope.recorder.helpers import Room
finalizing.too_full = lambda bytes: Room("cgroup /job", 5 << 20)
from leakscope.__main__ import main
sys.exit(main())
"""


def test_a_file_is_not_finished_where_that_might_end_somebody(tmp_path: Path) -> None:
    words = ["record", "--no-summary", "--", sys.executable, "-c", "raise SystemExit(3)"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", NO_ROOM_AT_THE_END, *words],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 3
    assert done.stderr == (
        "leakscope: the file is not finished while so little memory is left (5.0 MiB, cgroup /job); "
        "what was recorded is in run.parquet.journal: leakscope finalize run.parquet\n"
    )
    assert open_recording(tmp_path / "run.parquet").ended == ("exit", 3, None)
