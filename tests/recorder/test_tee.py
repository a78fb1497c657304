"""The end of stderr is kept, from a file always, from a terminal or a pipe with --tee; the job sees no difference."""

from __future__ import annotations

import os
import pty
import re
import signal
import struct
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest

from .runs import PYTHON, TIMEOUT_S, environment, is_running, record, record_command, rows, until

pytestmark = pytest.mark.live

fcntl = pytest.importorskip("fcntl")
termios = pytest.importorskip("termios")
FAILS = "import sys; sys.stderr.write('the end'); sys.exit(3)"


def kept(folder: Path) -> list[str]:
    found = rows(folder / "run.parquet.journal", "crash_text")
    return [row["last_words"] for row in found if row["crash_source"] == "stderr"]


def of_job(text: str) -> str:
    """Without our line at the end, which begins at the left edge: that the file is not finished, since there is no
    pyarrow in these tests."""
    return re.sub(r" *\r\x1b\[K$", "", text.partition("leakscope: ")[0])


@contextmanager
def terminal(rows: int = 40, columns: int = 100) -> Iterator[tuple[int, int]]:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("4H", rows, columns, 0, 0))
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        with suppress(OSError):
            os.close(theirs)


def record_on(stderr: int, folder: Path, *words: str, **options: object) -> subprocess.Popen[str]:
    command = record_command("-q", "--agent", "off", *words)
    return subprocess.Popen(
        command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=stderr, text=True, **options
    )  # type: ignore[call-overload,no-any-return]


# ---- a file


def test_the_end_of_a_file_is_read_back(tmp_path: Path) -> None:
    log = tmp_path / "log"
    log.write_text("of an earlier run\n")
    with log.open("a") as stream:
        assert record_on(stream.fileno(), tmp_path, PYTHON, "-c", FAILS).wait(TIMEOUT_S) == 3
    assert kept(tmp_path) == ["the end"]
    assert of_job(log.read_text()) == "of an earlier run\nthe end"


def test_the_position_in_the_file_is_the_jobs(tmp_path: Path) -> None:
    """Who writes after us, to the same open file, goes on where the job ended."""
    with (tmp_path / "log").open("w") as stream:
        stream.write("before, ")
        stream.flush()
        record_on(stream.fileno(), tmp_path, PYTHON, "-c", FAILS).wait(TIMEOUT_S)
        os.write(stream.fileno(), b"after")
    text = (tmp_path / "log").read_text()
    assert text.startswith("before, the endleakscope: ")
    assert text.endswith("\nafter")
    assert kept(tmp_path) == ["the end"]


def test_only_the_last_64_kib_are_kept(tmp_path: Path) -> None:
    program = "import sys; sys.stderr.write('x' * 300_000 + 'the end'); sys.exit(1)"
    with (tmp_path / "log").open("w") as stream:
        record_on(stream.fileno(), tmp_path, PYTHON, "-c", program).wait(TIMEOUT_S)
    (text,) = kept(tmp_path)
    assert len(text) == 64 * 1024
    assert text.endswith("xthe end")


@pytest.mark.parametrize("tee", [[], ["--tee"]])
def test_nothing_is_kept_of_a_job_that_ended_well(tmp_path: Path, tee: list[str]) -> None:
    with (tmp_path / "log").open("w") as stream:
        record_on(stream.fileno(), tmp_path, *tee, PYTHON, "-c", "import sys; print('fine', file=sys.stderr)").wait()
    assert kept(tmp_path) == []


# ---- a pipe


def test_a_pipe_is_left_alone_unless_asked(tmp_path: Path) -> None:
    assert of_job(record(tmp_path, "-q", PYTHON, "-c", FAILS).stderr) == "the end"
    assert kept(tmp_path) == []


@pytest.mark.cases(2)
@pytest.mark.parametrize("length", [7, 65_536, 65_537, 1_000_003])
def test_a_pipe_passes_every_byte_and_the_last_are_kept(tmp_path: Path, length: int) -> None:
    program = f"import sys; sys.stderr.write(''.join(str(i % 10) for i in range({length}))); sys.exit(3)"
    done = record(tmp_path, "-q", "--tee", PYTHON, "-c", program)
    whole = "".join(str(i % 10) for i in range(length))
    assert done.returncode == 3
    assert of_job(done.stderr) == whole
    assert kept(tmp_path) == [whole[-64 * 1024 :]]


def test_our_own_words_come_after_the_jobs(tmp_path: Path) -> None:
    done = record(tmp_path, "--tee", PYTHON, "-c", FAILS)
    assert done.stderr.startswith("the endleakscope: ")


def test_a_reader_that_has_gone_ends_the_job_as_without_us(tmp_path: Path) -> None:
    script = "import os, sys\nwhile True: os.write(2, b'line' * 1000)"
    statuses = []
    for command in ([PYTHON, "-c", script], record_command("-q", "--tee", PYTHON, "-c", script)):
        job = subprocess.Popen(command, cwd=tmp_path, env=environment(), stderr=subprocess.PIPE)
        assert job.stderr is not None
        assert job.stderr.read(10)
        job.stderr.close()
        statuses.append(job.wait(TIMEOUT_S))
    assert statuses[0] == statuses[1] != 0


def test_a_process_that_is_left_behind_can_still_write(tmp_path: Path) -> None:
    script = "(read line < go; echo late >&2) & exit 1"
    os.mkfifo(tmp_path / "go")
    reader, writer = os.pipe()
    recorder = record_on(writer, tmp_path, "--tee", "sh", "-c", script)
    os.close(writer)
    assert recorder.wait(TIMEOUT_S) == 1
    (tmp_path / "go").write_text("now\n")
    with open(reader) as stream:
        assert stream.read().endswith("\nlate\n")


def test_a_recorder_that_is_killed_costs_a_job_that_outlives_it_nothing(tmp_path: Path) -> None:
    program = """
import os, sys, time
recorder = os.getppid()
print(os.getpid(), flush=True)
while os.getppid() == recorder: time.sleep(0.01)
sys.stderr.write("x" * 200_000)
open("done", "w").close()
"""
    reader, writer = os.pipe()
    recorder = record_on(writer, tmp_path, "--tee", "--outlive", PYTHON, "-c", program)
    os.close(writer)
    assert recorder.stdout is not None
    job = int(recorder.stdout.readline())
    recorder.kill()
    recorder.wait()
    with open(reader) as stream:
        assert len(stream.read()) == 200_000
    until(lambda: (tmp_path / "done").exists() and not is_running(job))


# ---- a terminal


def read_until_end(descriptor: int) -> bytes:
    data = b""
    with suppress(OSError):  # EIO: nobody has the other side open
        while part := os.read(descriptor, 65536):
            data += part
    return data


def test_a_terminal_looks_the_same_and_its_end_is_kept(tmp_path: Path) -> None:
    program = """
import os, sys, termios
print(sys.stderr.isatty(), os.get_terminal_size(2), file=sys.stderr)
sys.stderr.write("\\r 50%\\r100%\\n\\x1b[31mred\\x1b[0m\\n")
print(os.getpgrp() == os.getpgid(os.getppid()))
sys.exit(3)
"""
    seen = []
    for words in ([PYTHON, "-c", program], record_command("-q", "--tee", "--agent", "off", PYTHON, "-c", program)):
        with terminal() as (ours, theirs):
            job = subprocess.Popen(
                words, cwd=tmp_path, env=environment(), stdout=subprocess.DEVNULL, stderr=theirs, close_fds=True
            )
            os.close(theirs)
            seen.append(read_until_end(ours))
            assert job.wait(TIMEOUT_S) == 3
    assert of_job(seen[1].decode()) == seen[0].decode()
    assert b"True os.terminal_size(columns=100, lines=40)\r\n" in seen[0]
    (text,) = kept(tmp_path)
    assert text.endswith("100%\n\x1b[31mred\x1b[0m\n")


def test_a_new_size_of_the_terminal_reaches_the_job(tmp_path: Path) -> None:
    """The kernel tells the foreground group of the terminal that controls it: all of them, so also who passes on."""
    program = """
import os, sys, time
deadline = time.monotonic() + 30
print("ready", flush=True)
while os.get_terminal_size(2).columns != 77 and time.monotonic() < deadline:
    time.sleep(0.01)
sys.exit(os.get_terminal_size(2).columns)
"""
    pid, ours = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        words = record_command("-q", "--tee", "--agent", "off", PYTHON, "-c", program)
        os.execve(words[0], words, environment())
    try:
        assert b"ready" in os.read(ours, 1000)
        fcntl.ioctl(ours, termios.TIOCSWINSZ, struct.pack("4H", 30, 77, 0, 0))
        read_until_end(ours)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 77
    finally:
        os.close(ours)


def test_ctrl_c_reaches_the_job_once(tmp_path: Path) -> None:
    program = """
import signal, sys, time
seen = []
signal.signal(signal.SIGINT, lambda *_: seen.append(1))
print("ready", file=sys.stderr, flush=True)
deadline = time.monotonic() + 30
while not seen and time.monotonic() < deadline: time.sleep(0.01)
time.sleep(0.3)  # a second one would come now
print("seen", len(seen), file=sys.stderr)
sys.exit(9)
"""
    pid, ours = pty.fork()
    if pid == 0:
        os.chdir(tmp_path)
        words = record_command("-q", "--tee", "--agent", "off", PYTHON, "-c", program)
        os.execve(words[0], words, environment())
    try:
        assert b"ready" in os.read(ours, 1000)
        os.write(ours, b"\x03")
        assert b"seen 1" in read_until_end(ours)
        assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 9
    finally:
        os.close(ours)
    assert kept(tmp_path) == ["ready\nseen 1\n"]


# ---- what the agent's files say


def test_where_a_fatal_signal_came_is_in_the_recording(tmp_path: Path) -> None:
    done = record(tmp_path, "-q", PYTHON, "-c", "import faulthandler; faulthandler._sigsegv()")
    assert done.returncode == -signal.SIGSEGV
    assert of_job(done.stderr) == ""
    found = rows(tmp_path / "run.parquet.journal", "crash_text")
    assert [row["crash_source"] for row in found] == ["faulthandler"]
    root = rows(tmp_path / "run.parquet.journal", "processes")[-1]
    assert (found[0]["pid"], found[0]["start_ticks"]) == (root["pid"], root["start_ticks"])
    assert "Segmentation fault" in found[0]["last_words"]
