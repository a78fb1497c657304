"""One recording that something is done to, and what must hold whatever was done."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pandas as pd

from leakscope import open_recording, schema
from leakscope.storage import Recording

ROOT = Path(__file__).parents[2]
PYTHON = sys.executable
PATIENCE_S = 90.0
FLUSH_S = 0.3
SLACK_S = 3.0  # a sample may be late by this much on a machine that is busy with other things
STATUS = 7
LINES = 120
# Prints the same lines in the same order and ends with the same status, whatever signal but SIGKILL it gets.
JOB = f"""
import os, signal, sys, time
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda *_: None)
with open("job.pid.tmp", "w") as file:
    file.write(str(os.getpid()))
os.rename("job.pid.tmp", "job.pid")
{{work}}
for line in range({LINES}):
    print("line", line, flush=True)
    time.sleep(0.01)
sys.exit({STATUS})
"""
SAID = "".join(f"line {line}\n" for line in range(LINES))


class Scene:
    """A recorder and its job in a folder, started when made."""

    def __init__(
        self,
        folder: Path,
        *,
        work: str = "",
        output: Path | None = None,
        before: str = "exec",
        python: str = sys.executable,
    ) -> None:
        """``work`` is done by the job before it speaks; ``before`` stands in front of the command in a shell."""
        self.folder = folder
        self.output = output or folder / "run.parquet"
        self.journal = Path(f"{self.output}.journal")
        (folder / "job.py").write_text(JOB.format(work=work))
        record = [python, "-m", "leakscope", "record", "-q", "--outlive", "--flush", f"{FLUSH_S}s", "-i", "50ms"]
        command = [*record, "-o", str(self.output), "--", python, str(folder / "job.py")]
        with (folder / "said").open("wb") as said, (folder / "complaints").open("wb") as complaints:
            self.recorder = subprocess.Popen(
                ["sh", "-c", f"{before} {shlex.join(command)}"],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": str(ROOT)},
                stdout=said,
                stderr=complaints,
            )
        self.job_pid = int(self.until(lambda: _text(folder / "job.pid") or (self.recorder.poll() is not None and "0")))
        assert self.job_pid, f"the job did not start: {self.complaints}"
        self.began_s = time.monotonic()

    @property
    def complaints(self) -> str:
        return _text(self.folder / "complaints")

    def until(self, condition: Callable[[], Any]) -> Any:
        deadline_s = time.monotonic() + PATIENCE_S
        while not (value := condition()):
            assert time.monotonic() < deadline_s, "it did not happen"
            time.sleep(0.01)
        return value

    def send(self, pid: int, number: signal.Signals) -> None:
        if is_alive(pid):
            os.kill(pid, number)

    def wait(self) -> int:
        """Until nobody is left; the status of the recorder."""
        status = self.recorder.wait(PATIENCE_S)
        self.until(lambda: not self.left_behind())
        return status

    def left_behind(self) -> list[str]:
        """Command lines of processes that belong to this recording."""
        found = []
        for process in Path("/proc").glob("[0-9]*"):
            words = _text(process / "cmdline").replace("\0", " ")
            if str(self.folder) in words and int(process.name) != os.getpid() and is_alive(int(process.name)):
                found.append(words)
        return found

    def end(self) -> None:
        """Nobody outlives a test that failed."""
        for pid in (self.recorder.pid, self.job_pid):
            self.send(pid, signal.SIGCONT)
            self.send(pid, signal.SIGKILL)
        self.recorder.wait(PATIENCE_S)

    def assert_job_unharmed(self) -> None:
        assert _text(self.folder / "said") == SAID

    def read(self) -> Recording:
        """The recording, which every reader of parquet opens before and after ours has finished it."""
        for _ in range(2):
            assert set(pd.read_parquet(self.output).columns) == set(schema.columns())
            recording = open_recording(self.output)
        strays = [p.name for p in self.output.parent.iterdir() if self.output.name in p.name and p != self.output]
        assert not strays, strays
        return recording

    def assert_flushed_is_there(self, recording: Recording, ended_mono_ns: int) -> None:
        if ended_mono_ns / 1e9 - self.began_s < 1.0 + SLACK_S:
            return  # before the first flush
        last_ns = max(int(t["time_mono_ns"].max()) for n, t in recording.tables.items() if len(t) and n in _SAMPLED)
        assert last_ns >= ended_mono_ns - (FLUSH_S + SLACK_S) * 1e9


_SAMPLED = ("process_samples", "host_samples")


def is_alive(pid: int) -> bool:
    """Neither gone nor a zombie."""
    fields = _text(Path(f"/proc/{pid}/stat")).rpartition(")")[2].split()
    return bool(fields) and fields[0] not in "ZX"


def _text(path: Path) -> str:
    try:
        return path.read_text(errors="replace")
    except OSError:
        return ""
