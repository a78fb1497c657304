"""A machine that was asleep: its boot clock, in which the kernel gives start times, is ahead of the monotonic one."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import pytest

from leakscope import analyze
from leakscope.storage import open_recording
from tests.recorder.runs import PYTHON, environment, record_command

pytestmark = pytest.mark.live

ASLEEP_S = 86_400
SLEPT = ["unshare", "--time", "--boottime", str(ASLEEP_S), "--fork"]
WORK = "import os, time; os.fork() or os._exit(0); time.sleep(1.5); os._exit(7)"


def test_a_day_asleep_is_not_a_day_recorded(tmp_path: Path) -> None:
    if not shutil.which("unshare") or subprocess.run([*SLEPT, "true"], capture_output=True).returncode:
        pytest.skip("needs root and a kernel with time namespaces")
    command = [*SLEPT, *record_command("-q", "-i", "50ms", PYTHON, "-c", WORK, finalize=True)]
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=120)
    assert (done.returncode, done.stderr) == (7, "")
    recording = open_recording(tmp_path / "run.parquet")
    clocks = recording.tables["host_samples"].dropna(subset=["time_boot_ns"]).iloc[0]
    assert clocks["time_boot_ns"] - clocks["time_mono_ns"] >= ASLEEP_S * 1e9
    assert analyze(recording).recording.duration_s < 60
    processes = recording.tables["processes"]
    inside = recording.tables["sentinels"]  # written by the process itself, by its own idea of when it began
    assert not inside.empty
    assert set(inside["start_ticks"]) <= set(processes["start_ticks"])
