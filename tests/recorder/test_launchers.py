"""What becomes of a command when its recorder, or who started that, is killed: what would have become of it bare."""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path

import pytest

from leakscope.recorder import proc

from .runs import PYTHON, TIMEOUT_S, environment, is_running, record, record_command, start, until

pytestmark = pytest.mark.live

# Says its process id and which signal it gets when its parent dies, and runs until somebody ends it.
JOB = """
import ctypes, os, time
number = ctypes.c_int()
ctypes.CDLL(None).prctl(2, ctypes.byref(number))
print(os.getpid(), number.value, flush=True)
while True: time.sleep(0.01)
"""
# A launcher whose child gets a signal when it dies, as those of torch and of many schedulers do.
LAUNCHER = """
import ctypes, subprocess, sys, time
number = int(sys.argv[1])
child = subprocess.Popen(sys.argv[2:], preexec_fn=lambda: ctypes.CDLL(None).prctl(1, number))
time.sleep(600)
"""
DIES_BY = [signal.SIGKILL, signal.SIGTERM, signal.SIGUSR1]


def words(is_recorded: bool, *options: str) -> list[str]:
    job = [PYTHON, "-c", JOB]
    return record_command("-q", *options, "--", *job) if is_recorded else job


@pytest.mark.cases(1)
@pytest.mark.parametrize("number", DIES_BY)
def test_a_command_whose_launcher_dies_gets_the_signal_that_was_asked_for(tmp_path: Path, number: int) -> None:
    told = []
    for is_recorded in (False, True):
        launcher = subprocess.Popen(
            [PYTHON, "-c", LAUNCHER, str(int(number)), *words(is_recorded)],
            cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert launcher.stdout is not None
        pid, asked = map(int, launcher.stdout.readline().split())
        told.append(asked)
        launcher.kill()
        launcher.communicate(timeout=TIMEOUT_S)  # until nobody holds its stdout any more
        until(lambda pid=pid: not is_running(pid))
    assert told == [number, number]


def test_a_command_that_cannot_be_started_under_such_a_launcher_is_told_as_ever(tmp_path: Path) -> None:
    program = "import ctypes, os, sys; ctypes.CDLL(None).prctl(1, 9); os.execv(sys.argv[1], sys.argv[1:])"
    (tmp_path / "directory").mkdir()
    (tmp_path / "not-of-this-machine").write_bytes(b"\x7fELF rubbish")
    (tmp_path / "not-of-this-machine").chmod(0o755)
    (tmp_path / "script").write_text("exit 5\n")  # no #! line: a shell runs it
    (tmp_path / "script").chmod(0o755)
    for command, status in [("./none", 127), ("./directory", 126), ("./script", 5)]:
        result = subprocess.run(
            [PYTHON, "-c", program, *record_command("-q", "--", command)],
            cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S,
        )  # fmt: skip
        assert result.returncode == status, result.stderr


def test_a_command_whose_time_is_over_ends_with_its_recorder(tmp_path: Path) -> None:
    """As ``subprocess.run(timeout=...)`` ends it: it kills what it has started."""
    recorder = start(tmp_path, "-q", PYTHON, "-c", JOB.replace("print(", "print(flush=True) or print("))
    assert recorder.stdout is not None
    pid = int(recorder.stdout.readline().split()[0])
    recorder.kill()
    recorder.communicate(timeout=TIMEOUT_S)
    until(lambda: not is_running(pid))
    assert (tmp_path / "run.parquet").read_bytes()[:4] == b"PAR1"


@pytest.mark.parametrize(("options", "number"), [(["--outlive"], signal.SIGKILL), ([], signal.SIGSEGV)])
def test_a_command_that_is_to_outlive_its_recorder_or_whose_recorder_crashes_goes_on(
    tmp_path: Path, options: list[str], number: signal.Signals
) -> None:
    program = """
import os, time
recorder = os.getppid()
print('ready', flush=True)
while os.getppid() == recorder: time.sleep(0.01)
time.sleep(0.5)
open('done', 'w').close()
"""
    recorder = start(tmp_path, "-q", *options, PYTHON, "-c", program)
    recorder.send_signal(number)
    until((tmp_path / "done").exists)
    recorder.communicate(timeout=TIMEOUT_S)
    assert recorder.returncode == -number
    assert (tmp_path / "run.parquet").read_bytes()[:4] == b"PAR1"


GUARDED = """
import os, subprocess, sys
from leakscope.recorder.guard import Guard
job = subprocess.Popen(["sleep", "600"], stdout=subprocess.DEVNULL)
guard = Guard(job.pid)
guard.remember(int(sys.argv[1]))
print(job.pid, guard.pid, flush=True)
os.kill(os.getpid(), 9)
"""


@pytest.mark.parametrize("kills_since", [0, 1])
def test_a_recorder_that_the_kernel_took_for_want_of_memory_takes_nobody_with_it(kills_since: int) -> None:
    kills = proc.count_of(proc.read("/proc/vmstat") or b"", b"oom_kill")
    if kills is None:
        pytest.skip("the kernel does not count its kills")
    run = subprocess.run(
        [PYTHON, "-c", GUARDED, str(kills - kills_since)], env=environment(), stdout=subprocess.PIPE, text=True
    )
    job, guard = map(int, run.stdout.split())
    until(lambda: not is_running(guard))
    try:
        if kills_since:
            assert is_running(job)
        else:
            until(lambda: not is_running(job))
    finally:
        if is_running(job):
            os.kill(job, signal.SIGKILL)


def test_nobody_waits_any_longer_for_a_command_that_is_over(tmp_path: Path) -> None:
    program = (
        "import os; print(*open(f'/proc/{os.getppid()}/task/{os.getppid()}/children').read().split(), os.getpid())"
    )
    result = record(tmp_path, "-q", PYTHON, "-c", "import time; time.sleep(0.3); " + program)
    *children, own = map(int, result.stdout.split())
    assert result.returncode == 0 and set(children) > {own}
    for pid in children:
        until(lambda pid=pid: not is_running(pid))
