"""SIGKILL of the job, of the recorder, of both, at any instant: the file opens, and what was flushed still tells."""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time

import pandas as pd
import psutil
import pytest

from leakscope import open_recording, schema

from .programs import FIXTURES, Place, named, record_command, report

PROGRAM = FIXTURES / "retained_objects_module_dict" / "leaky.py"
TRUTH = Place("retained-objects", "SESSIONS", "SESSIONS[key] = Session(user)")
VICTIMS = {"job": ["job"], "recorder": ["recorder"], "both": ["recorder", "job"]}
PATIENCE_S = 20

pytestmark = pytest.mark.live


@pytest.fixture
def recorded(tmp_path):
    """Starts a recording; gives its path and its processes by name. None of them outlives the test."""
    output = tmp_path / "run.parquet"
    recorder = subprocess.Popen(
        record_command(output, sys.executable, PROGRAM, 60, outlives=True), stdout=subprocess.DEVNULL
    )
    processes = {"recorder": psutil.Process(recorder.pid), "job": job_of(recorder.pid)}
    yield output, processes
    for process in processes.values():
        if process.is_running():
            process.kill()
    recorder.wait(PATIENCE_S)
    wait_until(lambda: not runs(processes["job"]))


def job_of(recorder_pid: int) -> psutil.Process:
    """The recorder's child that runs the program (not a helper, nor the moment between fork and exec)."""
    found: list[psutil.Process] = []

    def appeared() -> bool:
        children = psutil.Process(recorder_pid).children()
        found[:] = [child for child in children if child.cmdline()[1:2] == [str(PROGRAM)]]
        return bool(found)

    wait_until(appeared)
    return found[0]


def runs(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:  # it went between the two questions
        return False


def wait_until(condition) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.01)


def kill_at(instant_s: float, recorded, victims: str):
    """Kill after ``instant_s`` and wait until the file is as it will stay."""
    output, processes = recorded
    time.sleep(instant_s)
    for name in VICTIMS[victims]:
        os.kill(processes[name].pid, signal.SIGKILL)
    wait_until(lambda: not any(runs(processes[name]) for name in VICTIMS[victims]))
    if victims == "job":
        wait_until(lambda: not runs(processes["recorder"]))
    return output


@pytest.mark.cases(1)
@pytest.mark.parametrize("victims", VICTIMS)
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 3))])
def test_the_file_opens_at_any_instant(recorded, victims, seed):
    output = kill_at(random.Random(seed).random() * 3, recorded, victims)
    assert set(pd.read_parquet(output).columns) == set(schema.columns())
    assert open_recording(output).tables is not None
    assert report(output)["verdict"]["leaking"] is None, "unclear after so few seconds"


@pytest.mark.slow
@pytest.mark.parametrize("victims", VICTIMS)
def test_the_culprit_is_named_after_two_inventories(recorded, victims):
    output = kill_at(17 + random.Random(victims).random() * 2, recorded, victims)
    assert len(pd.read_parquet(output).columns)
    assert len(open_recording(output).tables["takes"]) >= 2
    result = report(output)
    assert result["recording"]["ended"] == ("signal" if victims == "job" else "lost")
    assert result["verdict"]["leaking"] is True, result["verdict"]["headline"]
    assert named(result["findings"][0], TRUTH, PROGRAM) == TRUTH


@pytest.mark.slow
def test_a_job_that_outlives_its_recorder_goes_on(recorded):
    _, processes = recorded
    kill_at(1.0, recorded, "recorder")
    cpu_s = processes["job"].cpu_times().user
    wait_until(lambda: processes["job"].cpu_times().user > cpu_s + 0.2)
