"""`leakscope snapshot`: one snapshot of real processes: recorded ones, strangers, and those that let nobody in."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leakscope import requesting
from leakscope.browsing.whole import whole_heap_of
from leakscope.cli import main
from leakscope.recorder import attach
from leakscope.storage import open_recording

from .agent.staging import rows as agent_rows
from .heap_graphs import needs_heap_graph
from .recorder.runs import PYTHON, TIMEOUT_S, environment, is_running, record_command, until

pytestmark = pytest.mark.live

# Says its pid when its store is full, works on, and ends with its standard input.
PROGRAM = """
import os, select, sys

entries = {number: bytes(1000) for number in range(3000)}

def work():
    kept = [bytes(200) for _ in range(2000)]
    print(os.getpid(), flush=True)
    while not select.select([0], [], [], 0.01)[0]:
        sum(range(1000))
    print(len(entries), len(kept))

work()
"""


@contextmanager
def started(folder: Path, *command: str) -> Iterator[tuple[subprocess.Popen[str], int]]:
    """A command, and the number that it prints first; it is ended at the end."""
    pipe = subprocess.PIPE
    with subprocess.Popen(
        command, cwd=folder, env=environment(), stdin=pipe, stdout=pipe, stderr=pipe, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process, int(process.stdout.readline())
        finally:
            if process.poll() is None:
                process.stdin.close()
                process.wait(TIMEOUT_S)


def recorded(folder: Path, program: str, *options: str) -> tuple[str, ...]:
    (folder / "shop.py").write_text(program)
    words = ("-q", "--keep-journal", "-o", "run.parquet", *options)
    return (*record_command(*words, "--", PYTHON, "shop.py", finalize=True),)


@pytest.mark.cases(1)
@needs_heap_graph
@pytest.mark.parametrize("options", [(), ("--max-overhead", "0.01%")], ids=["usual", "nothing left to spend"])
def test_a_process_that_is_recorded_is_asked_and_goes_on(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], options: tuple[str, ...]
) -> None:
    file = tmp_path / "heap.parquet"
    with started(tmp_path, *recorded(tmp_path, PROGRAM, *options)) as (recorder, pid):
        assert main(["snapshot", "-p", str(pid), "-o", str(file)]) == 0
        assert f"process {pid}" in capsys.readouterr().err
        assert is_running(pid)
        assert not list((tmp_path / "run.parquet.journal").glob("request-take*"))
        out, err = recorder.communicate("", timeout=TIMEOUT_S)
    assert (recorder.returncode, out, err) == (0, "3000 2000\n", "")
    assert [take["reason"] for take in agent_rows(tmp_path / "run.parquet.journal")["takes"]].count("user") == 1
    assert main(["heap", str(file)]) == 0
    text = capsys.readouterr().out
    assert text.startswith(f"shop.py[{pid}] at ")
    assert "shop.entries  (dict holding 3,000)" in text
    assert "work() kept  (list holding 2,000)" in text, "its frames stand"
    tables = open_recording(file).tables
    assert list(tables["takes"]["reason"]) == ["user"]
    assert tables["object_types"]["object_count"].max() > 0
    assert pid in list(tables["processes"]["pid"])


@pytest.mark.slow
@needs_heap_graph
def test_an_earlier_snapshot_of_that_name_is_kept(tmp_path: Path) -> None:
    with started(tmp_path, *recorded(tmp_path, PROGRAM)) as (_, pid):
        for _ in range(2):
            assert main(["snapshot", "-q", "-p", str(pid), "-o", str(tmp_path / "heap.parquet")]) == 0
    assert len(list(tmp_path.glob("heap*.parquet"))) == 2


@needs_heap_graph
def test_every_object_is_kept_if_asked_for(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "heap.parquet"
    with started(tmp_path, *recorded(tmp_path, PROGRAM)) as (recorder, pid):
        assert main(["snapshot", "--full-heap", "-p", str(pid), "-o", str(file)]) == 0
        assert f"heap.heap-{pid}-" in capsys.readouterr().err
        recorder.communicate("", timeout=TIMEOUT_S)
    for recording in (file, tmp_path / "run.parquet"):  # of which it is a part as well
        whole = whole_heap_of(open_recording(recording))
        assert (whole.pid, len(whole.nodes)) == (pid, open_recording(file).tables["heap_graphs"]["node_count"][0])
        assert whole.way_to("bytes")["name"].iloc[-2] in ("shop.entries", "work() kept")


@pytest.mark.slow
def test_a_request_that_somebody_else_takes_away_is_made_again(tmp_path: Path) -> None:
    """Who asks at the same moment removes the file once they have their answer."""
    none_by_itself = "--max-overhead", "0.01%"
    with started(tmp_path, *recorded(tmp_path, PROGRAM, *none_by_itself)) as (_, pid):
        journal = tmp_path / "run.parquet.journal"

        def take_away() -> None:
            (file,) = until(lambda: list(journal.glob(f"request-take-{pid}-*")))
            file.unlink()

        other = threading.Thread(target=take_away)
        other.start()
        taken = requesting.take_one(pid, str(tmp_path / "heap.parquet"), wait_s=10)
        other.join()
    assert len(open_recording(taken.path).tables["takes"]) == 1


FORKS = """
import os, select, sys
child = os.fork()
if not child:
    while True:
        select.select([], [], [], 0.01)
print(child, flush=True)
sys.stdin.read()
os.kill(child, 9)
"""


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("program", "options", "why"),
    [(FORKS, (), "forked"), (PROGRAM, ("--no-snapshots",), "switched off")],
    ids=["a forked child", "no snapshots"],
)
def test_one_that_takes_no_snapshots_says_so_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], program: str, options: tuple[str, ...], why: str
) -> None:
    with started(tmp_path, *recorded(tmp_path, program, *options)) as (_, pid):
        journal = tmp_path / "run.parquet.journal"
        until(lambda: list(journal.glob(f"agent-{pid}-*.jnl")))
        assert main(["snapshot", "-p", str(pid), "-o", str(tmp_path / "heap.parquet")]) == 5
    said = capsys.readouterr().err
    assert re.fullmatch(rf"leakscope: no snapshot of process {pid}: .*{why}.*\n", said)
    assert not list(tmp_path.glob("heap*"))


@pytest.mark.skipif(attach.can_enter(), reason="sys.remote_exec lets us in")
def test_a_stranger_is_left_alone_and_one_line_says_what_to_do(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, PYTHON, "-c", PROGRAM) as (process, pid):
        assert main(["snapshot", "-p", str(pid), "-o", str(tmp_path / "heap.parquet")]) == 5
        out, err = process.communicate("", timeout=TIMEOUT_S)
    assert (process.returncode, out, err) == (0, "3000 2000\n", "")
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    for word in (f"process {pid}", "3.14", "leakscope record"):
        assert word in said
    assert not list(tmp_path.iterdir())


def test_what_is_no_python_and_what_is_not_there(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with subprocess.Popen(["sleep", "100"]) as process:
        try:
            assert main(["snapshot", "-p", str(process.pid), "-o", str(tmp_path / "heap.parquet")]) == 5
            assert "no Python" in capsys.readouterr().err
        finally:
            process.kill()
    assert main(["snapshot", "-p", str(process.pid)]) == 2
    assert f"no process {process.pid}" in capsys.readouterr().err


# Runs the script whose name it reads, as ``sys.remote_exec`` of Python 3.14 makes an interpreter do.
LETS_IN = """
import os, select, sys
entries = [bytes(1000) for _ in range(3000)]
print(os.getpid(), flush=True)
while True:
    if select.select([0], [], [], 0.01)[0]:
        name = sys.stdin.readline().strip()
        if not name:
            break
        exec(open(name).read())
print(len(entries))
"""


@needs_heap_graph
def test_a_stranger_whose_interpreter_lets_us_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with started(tmp_path, PYTHON, "-c", LETS_IN) as (process, pid):
        assert process.stdin is not None

        def remote_exec(_pid: int, script: str) -> None:
            print(script, file=process.stdin, flush=True)

        monkeypatch.setattr(sys, "remote_exec", remote_exec, raising=False)
        assert main(["snapshot", "-p", str(pid), "-o", str(tmp_path / "heap.parquet")]) == 0
        out, err = process.communicate("\n", timeout=TIMEOUT_S)
    assert (process.returncode, out, err) == (0, "3000\n", "")
    assert os.listdir(tmp_path) == ["heap.parquet"]
    capsys.readouterr()
    assert main(["heap", str(tmp_path / "heap.parquet")]) == 0
    assert "list holding 3,000" in capsys.readouterr().out


ASKS = """
import time
import leakscope
leakscope.snapshot()
print("ready", flush=True)
time.sleep(3)
"""


def test_a_program_asks_for_one_itself(tmp_path: Path) -> None:
    command = recorded(tmp_path, ASKS)
    done = subprocess.run(command, cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S)
    assert (done.returncode, done.stdout, done.stderr) == (0, "ready\n", "")
    takes = agent_rows(tmp_path / "run.parquet.journal")["takes"]
    assert takes[0]["reason"] == "user"


def test_outside_of_a_recording_nothing_is_asked() -> None:
    done = subprocess.run([PYTHON, "-c", "import leakscope; leakscope.snapshot()"], env=environment(), check=True)
    assert done.returncode == 0
