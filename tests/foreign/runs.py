"""One file of a foreign suite, run once: bare, or under ``leakscope record`` with a snapshot every 50 ms."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

import psutil

from leakscope import open_recording
from tests.foreign import outcomes
from tests.foreign.suites import Suite

ROOT = Path(__file__).parents[2]
STRESS_S = "0.05"
HUNG = "hung"
_PREFIX = f"lf-{os.getpid()}-"
_starting = threading.Lock()
_is_stopped = False


class Run(NamedTuple):
    status: str  # as the shell has it, by signal: its name; or ``HUNG``
    seconds: float
    outcomes: dict[str, str]  # by test; empty where the run ended before it could report
    messages: dict[str, str]  # of tests that failed
    tail: str
    snapshots: int = 0  # of a recorded run: how often the agent really looked


def run(suite: Suite, python: Path, file: str, *, recorded: bool, limit_s: float) -> Run:
    """Run ``file`` in a folder of its own, of which nothing is left, nor of any process it started."""
    # A short name: sockets below it have 107 characters for their whole path.
    folder = Path(tempfile.mkdtemp(prefix=_PREFIX))
    try:
        for name in ("tmp", "work"):
            (folder / name).mkdir()
        report = folder / "report.xml"
        command = suite.command(python, file, report)
        if recorded:
            output = folder / "run.parquet"
            command = [sys.executable, "-m", "leakscope", "record", "-q", "-o", str(output), "--", *command]
        began_s = time.monotonic()
        status = _run(command, folder, limit_s)
        seconds = time.monotonic() - began_s
        said = (folder / "said").read_text(encoding="utf-8", errors="replace")
        seen, messages = outcomes.read(report, said)
        return Run(
            status,
            round(seconds, 1),
            seen,
            messages,
            outcomes.last_words(said),
            _snapshots(output) if recorded else 0,
        )
    finally:
        end_all(folder)
        shutil.rmtree(folder, ignore_errors=True)


def _run(command: list[str], folder: Path, limit_s: float) -> str:
    # What a developer's shell adds would change suites; the stress is in both environments, so that they are alike.
    strangers = ("PYTHON", "PYTEST", "LEAKSCOPE", "VIRTUAL_ENV")
    environment = {name: value for name, value in os.environ.items() if not name.startswith(strangers)}
    environment.update(TMPDIR=str(folder / "tmp"), LEAKSCOPE_STRESS=STRESS_S)
    with (folder / "said").open("wb") as said:
        with _starting:
            if _is_stopped:
                raise InterruptedError("stopped")
            child = subprocess.Popen(
                command,
                cwd=folder / "work",
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            status = child.wait(limit_s)
        except subprocess.TimeoutExpired:
            end_all(folder)
            child.wait()
            return HUNG
    return outcomes.signal_name(-status) if status < 0 else str(status)


def stop() -> None:
    """End every run; none begins any more, though a file in hand would be run again."""
    global _is_stopped
    with _starting:
        _is_stopped = True
    end_all()


def end_all(folder: Path | None = None) -> None:
    """Kill what a run, or every run, left behind: the folder stands in the environment of all of it."""
    beginning = str(folder or Path(tempfile.gettempdir()) / _PREFIX)
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get("TMPDIR", "").startswith(beginning):
                process.kill()


def _snapshots(output: Path) -> int:
    try:
        return len(open_recording(output).tables["takes"])
    except Exception:  # a recording that cannot be read is another test's business
        return 0
