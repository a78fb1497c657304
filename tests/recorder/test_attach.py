"""Processes that run already: recorded from outside until they end, found among others, or the whole host."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leakscope import analyze
from leakscope.errors import LeakscopeError
from leakscope.facts.heap.comparable import whole_heap
from leakscope.recorder import attach, proc, ps
from leakscope.recorder.staging import Staged
from leakscope.recorder.tree import Tree
from leakscope.storage import open_recording

from ..agent.staging import rows as agent_rows
from ..agent.staging import stage
from .runs import PYTHON, TIMEOUT_S, environment, is_running, record, record_command, rows, until

pytestmark = pytest.mark.live

# Says that it is ready, starts a child, holds what it is told to hold, and ends when its stdin does.
JOB = """
import subprocess, sys
child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"])
block = bytearray(60_000_000)
print(child.pid, flush=True)
sys.stdin.read()
child.wait()
sys.exit(3)
"""


@contextmanager
def job(source: str = JOB) -> Iterator[tuple[subprocess.Popen[str], str]]:
    """A process that runs already, and the first line that it said; it is ended at the end."""
    pipe = subprocess.PIPE
    with subprocess.Popen([PYTHON, "-c", source], env=environment(), stdin=pipe, stdout=pipe, text=True) as process:
        assert process.stdin is not None and process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            if process.poll() is None:
                process.stdin.close()
                process.wait(TIMEOUT_S)


@contextmanager
def attached(folder: Path, *words: str, finalize: bool = False) -> Iterator[subprocess.Popen[str]]:
    """``record -p`` that has begun to sample."""
    command = record_command("-i", "50ms", "--flush", "100ms", *words, finalize=finalize)
    recorder = subprocess.Popen(command, cwd=folder, env=environment(), stderr=subprocess.PIPE, text=True)
    try:
        until(lambda: rows(folder / "run.parquet.journal", "process_samples"))
        yield recorder
    finally:
        recorder.kill()
        recorder.communicate()


def ended(recorder: subprocess.Popen[str]) -> tuple[int, str]:
    _, said = recorder.communicate(timeout=TIMEOUT_S)
    return recorder.returncode, said


def test_a_running_process_is_recorded_with_its_children_until_it_ends(tmp_path: Path) -> None:
    with job() as (process, child), attached(tmp_path, "-p", str(process.pid), finalize=True) as recorder:
        assert process.stdin is not None
        process.stdin.close()
        status, said = ended(recorder)
    assert status == 0
    assert "the process has ended, after " in said
    assert process.wait(TIMEOUT_S) == 3
    recording = open_recording(tmp_path / "run.parquet")
    processes = recording.tables["processes"].set_index("pid")
    assert set(processes.index) == {process.pid, int(child)}
    assert list(processes[processes["is_root"]].index) == [process.pid]
    samples = recording.tables["process_samples"]
    assert samples[samples["pid"] == process.pid]["rss_bytes"].max() > 60_000_000
    assert (recording.complete, recording.ended) == (True, ("exit", 3, None))
    report = analyze(recording)
    view = "seen from inside only since then" if attach.can_enter() else "seen from outside only"
    assert report.recording.notes == [f"attached: {view}"]
    assert f"Attached: {view}." in report.verdict.headline
    assert report.recording.command[:2] == [PYTHON, "-c"]


GROWS = """
import time
class Trainer:
    def __init__(self):
        self.history = []
trainer = Trainer()
print("ready", flush=True)
while True:
    trainer.history.append(bytearray(1_000_000))
    time.sleep(0.1)
"""


@pytest.mark.skipif(not attach.can_enter(), reason="sys.remote_exec is of Python 3.14")
def test_a_running_python_of_our_version_is_seen_from_inside(tmp_path: Path) -> None:
    with job(GROWS) as (process, _):
        done = record(tmp_path, "-p", str(process.pid), "-d", "8s", finalize=True)
        assert is_running(process.pid)
        process.kill()
    assert done.returncode == 0
    seen = whole_heap(open_recording(tmp_path / "run.parquet"), process.pid)
    assert max(p.deep_bytes.max() for p in seen.places if p.path.endswith("trainer.history")) > 5_000_000


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_the_recording_and_not_the_process(tmp_path: Path, number: int) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("ignored here, as it is in the background of a shell: then it stays so")
    with job() as (process, _), attached(tmp_path, "-p", str(process.pid)) as recorder:
        recorder.send_signal(number)
        status, said = ended(recorder)
        assert is_running(process.pid)
    assert status == 0
    assert "; the process goes on" in said


def test_a_signal_that_is_ignored_stays_so(tmp_path: Path) -> None:
    """``nohup leakscope record -p PID &`` goes on when its terminal closes."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)  # inherited, as from nohup
    try:
        with job() as (process, _), attached(tmp_path, "-p", str(process.pid)) as recorder:
            recorder.send_signal(signal.SIGHUP)
            seen = len(rows(tmp_path / "run.parquet.journal", "process_samples"))
            until(lambda: len(rows(tmp_path / "run.parquet.journal", "process_samples")) > seen + 5)
            assert recorder.poll() is None
    finally:
        signal.signal(signal.SIGHUP, before)


def test_a_duration_ends_it_too(tmp_path: Path) -> None:
    with job() as (process, _):
        done = record(tmp_path, "-p", str(process.pid), "-d", "300ms")
        assert is_running(process.pid)
    assert (done.returncode, done.stdout) == (0, "")


def test_several_processes_until_the_last_one_ends(tmp_path: Path) -> None:
    with job() as (first, _), job() as (second, _), attached(tmp_path, f"-p{first.pid}", f"-p{second.pid}") as recorder:
        assert first.stdin is not None and second.stdin is not None
        first.stdin.close()
        first.wait(TIMEOUT_S)
        until(
            lambda: first.pid in {p["pid"] for p in rows(tmp_path / "run.parquet.journal", "processes") if is_dead(p)}
        )
        assert recorder.poll() is None
        second.stdin.close()
        assert ended(recorder)[0] == 0
    found = {p["pid"] for p in rows(tmp_path / "run.parquet.journal", "processes") if p["is_root"]}
    assert found == {first.pid, second.pid}


def is_dead(row: dict[str, object]) -> bool:
    return row["died_mono_ns"] is not None


def test_a_process_that_is_not_there(tmp_path: Path) -> None:
    gone = subprocess.Popen(["true"])
    gone.wait()
    done = record(tmp_path, "-p", str(gone.pid))
    assert done.returncode == 125
    assert done.stderr == f"leakscope: cannot record process {gone.pid}: there is no such process\n"
    assert not list(tmp_path.iterdir())


def test_a_process_of_somebody_else(monkeypatch: pytest.MonkeyPatch) -> None:
    read = proc.read
    monkeypatch.setattr(proc, "read", lambda path: None if path.endswith("smaps_rollup") else read(path))
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(LeakscopeError, match=r"it belongs to \w+; run leakscope as that user or as root$"):
        attach.check(os.getpid())


def test_the_shell_that_recorder_was_started_from_may_be_recorded() -> None:
    """The recorder is its child: it must not find itself in the tree."""
    tree = Tree(os.getppid(), os.getpid(), None, [os.getppid()])
    tree.update(0.0, time.monotonic_ns())
    assert os.getppid() in tree.living
    assert os.getpid() not in tree.living


def test_the_whole_host(tmp_path: Path) -> None:
    with job() as (process, _):
        done = record(tmp_path, "--system", "-d", "500ms", "-i", "100ms")
    assert done.returncode == 0
    assert "of the whole host" in done.stderr
    found = {p["pid"]: p for p in rows(tmp_path / "run.parquet.journal", "processes")}
    assert process.pid in found
    assert not any(p["is_root"] for p in found.values())


def test_of_a_large_host_the_largest_and_those_that_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    size = {pid: (1000 - pid) << 20 for pid in range(2, 400)}
    monkeypatch.setattr(proc, "pids", lambda: list(size))
    monkeypatch.setattr(attach, "resident_bytes", lambda pid: size[pid])
    monkeypatch.setattr(proc, "stat", lambda pid: proc.Stat("x", "S", 1, 0.0, 1, pid))
    tree = attach.HostTree(1)
    tree.update(0.0, 0)
    assert set(tree.living) == set(range(2, 2 + tree.MOST))
    size[399] += 5 << 20
    tree.update(20.0, 0)
    assert 399 in tree.living
    assert len(tree.living) == tree.MOST
    assert 1 + tree.MOST not in tree.living  # the smallest made room


def test_what_a_running_interpreter_is_asked_to_run_starts_the_agent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of ``sys.remote_exec`` of Python 3.14, another process runs the script as part of its ``__main__``."""
    journal = stage(tmp_path)
    staged = Staged(str(journal), os.open(journal, os.O_RDONLY))
    asked: list[tuple[int, str]] = []
    monkeypatch.setattr(sys, "remote_exec", lambda pid, script: asked.append((pid, script)), raising=False)
    assert attach.enter(os.getpid(), staged, str(journal)) is None
    ((pid, script),) = asked
    assert pid == os.getpid()
    program = f"before = set(globals()); exec({Path(script).read_text()!r}); print(*set(globals()) - before)"
    done = subprocess.run([PYTHON, "-c", program], env=environment(), capture_output=True, text=True, check=True)
    assert (done.stdout.strip(), done.stderr) == ("before", "")
    assert agent_rows(journal)["agent_notes"][0]["note"] == "loaded"


def test_a_script_that_vanishes_while_it_is_read_says_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = stage(tmp_path)
    staged = Staged(str(journal), os.open(journal, os.O_RDONLY))
    asked: list[str] = []
    monkeypatch.setattr(sys, "remote_exec", lambda pid, script: asked.append(script), raising=False)
    attach.enter(os.getpid(), staged, str(tmp_path / "over.journal"))
    text = Path(asked[0]).read_text()
    os.unlink(asked[0])
    done = subprocess.run([PYTHON, "-c", text], env=environment(), capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_an_interpreter_that_refuses_is_recorded_from_outside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(pid: int, script: str) -> None:
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(sys, "remote_exec", refuse, raising=False)
    staged = Staged(str(tmp_path), os.open(tmp_path, os.O_RDONLY))
    said = attach.enter(os.getpid(), staged, str(tmp_path))
    staged.remove()
    assert said == f"no view inside process {os.getpid()}: Operation not permitted"


TRAINING = """
import mmap, subprocess, sys
with open({library!r}, "rb") as stream:
    library = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ)
block = bytearray(80_000_000)
child = subprocess.Popen([sys.executable, "-c", {child!r}], stdout=subprocess.PIPE)
child.stdout.readline()
print("ready", flush=True)
sys.stdin.read()
child.wait()
"""
WORKER = 'import sys; block = bytearray(120_000_000); print("ready", flush=True); sys.stdin.read()'


def above(pid: int) -> Iterator[int]:
    """The ancestors of a process."""
    stat = proc.stat(pid)
    while stat is not None and stat.ppid > 1:
        yield stat.ppid
        stat = proc.stat(stat.ppid)


def test_training_is_found_among_other_processes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    everybody, runners = proc.pids, set(above(os.getpid()))  # who runs this may be large, and what it starts is its own
    monkeypatch.setattr(proc, "pids", lambda: [pid for pid in everybody() if pid not in runners])
    library = tmp_path / "libtorch_cpu.so"
    library.write_bytes(b"x" * 4096)
    with job(TRAINING.format(library=str(library), child=WORKER)) as (process, _), job() as (other, _):
        found = {candidate.pid: candidate for candidate in ps.find(look_s=0.05)}
    assert [pid for pid in found if pid in (process.pid, other.pid)] == [process.pid, other.pid]  # it trains: first
    assert found[other.pid].child_count == 1  # a bare interpreter, too small for a row
    candidate = found[process.pid]
    assert candidate.libraries == ("torch",)
    assert candidate.child_count == 1  # the worker is large enough by itself, but is recorded with its parent
    assert candidate.child_bytes > 120_000_000
    assert all(c.libraries or c.rss_bytes >= ps.LEAST_BYTES for c in found.values())
    pid, _, _, children, loaded, command = candidate.cells
    assert (pid, loaded) == (str(process.pid), "torch")
    assert children.startswith("1 of 1")
    assert "\n" not in command


def test_what_is_found_is_listed_and_nothing_is_an_answer_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    one = ps.Candidate(42, 13 << 30, 206 << 20, ("torch", "CUDA"), 20, 8 << 30, ("model-garden", "serve"), 0)
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    monkeypatch.setattr(ps, "find", lambda: [one])
    assert ps.main() == 0
    titles, row, _, then = capsys.readouterr().out.splitlines()
    assert titles.split() == ["PID", "MEMORY", "IN", "2", "S", "CHILDREN", "LOADED", "COMMAND"]
    assert row.split("  ") == [" 42", "13.0 GiB", "+206 MiB", "20 of 8.0 GiB", "torch, CUDA", "model-garden serve"]
    assert then.endswith("leakscope attach PID")
    monkeypatch.setattr(ps, "find", list)
    assert ps.main() == 1
    assert "no process with Python" in capsys.readouterr().err
