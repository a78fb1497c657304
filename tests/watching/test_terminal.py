"""``leakscope watch`` as a person has it: in a terminal beside a real recording, in a pipe, with wrong input."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from leakscope.cli import main
from leakscope.units import MiB
from tests.builders import RecordingBuilder
from tests.recorder.runs import PYTHON, TIMEOUT_S, environment, until

pytestmark = pytest.mark.live

# Grows until it is told to end by a file.
PROGRAM = """
import os, sys, time
history = []
print("ready", flush=True)
while not os.path.exists("enough"):
    history.append(bytearray(20_000))
    time.sleep(0.02)
"""


class Terminal:
    """``leakscope watch`` in a terminal of 80 x 24; ``seen`` is all it wrote, without what moves the cursor.

    ``left`` is what it wrote after it had given the screen back; None: it has not.
    """

    def __init__(self, folder: Path, *words: str, **env: str) -> None:
        self.pid, self._fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            os.execve(PYTHON, [PYTHON, "-m", "leakscope", "watch", *words], environment(TERM="xterm", **env))
        fcntl.ioctl(self._fd, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
        self.raw = ""
        self._status: int | None = None

    @property
    def seen(self) -> str:
        return _plain(self.raw)

    @property
    def left(self) -> str | None:
        _, gave_back, rest = self.raw.rpartition("\x1b[?1049l")
        return _plain(rest) if gave_back and "\x1b[?1049h" not in rest else None

    @property
    def modes(self) -> list:
        return termios.tcgetattr(self._fd)

    def press(self, keys: str) -> None:
        os.write(self._fd, keys.encode())

    def wait_for(self, text: str) -> None:
        try:
            until(lambda: self.look() is not None and text in self.seen)
        except AssertionError:
            raise AssertionError(f"{text!r} was not shown: {self.raw[-3000:]!r}") from None

    def wait(self) -> int:
        """Its exit status."""
        until(lambda: not self.look())
        return self._reap()

    def close(self) -> None:
        if self._status is None:
            os.kill(self.pid, 9)
            self._reap()
        os.close(self._fd)

    def _reap(self) -> int:
        if self._status is None:
            self._status = os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])
        return self._status

    def look(self) -> bool:
        """Take in what is there; False at its end."""
        if not select.select([self._fd], [], [], 0.1)[0]:
            return True
        try:
            data = os.read(self._fd, 65536)
        except OSError:  # it closed the terminal
            return False
        self.raw += data.decode("utf-8", "replace")
        return bool(data)


def _plain(raw: str) -> str:
    return re.sub(r"\x1b\[[<>=0-9;?]*[a-zA-Z]", "", raw)


@pytest.fixture
def terminal(tmp_path) -> Iterator:
    opened = []

    def open_terminal(*words: str, **env: str) -> Terminal:
        opened.append(Terminal(tmp_path, *words, **env))
        return opened[-1]

    yield open_terminal
    for each in opened:
        each.close()


@contextmanager
def recorded(folder: Path) -> Iterator[subprocess.Popen]:
    (folder / "prog.py").write_text(PROGRAM)
    words = ["record", "-q", "-o", "run.parquet", "--flush", "200ms", "--", PYTHON, "prog.py"]
    recorder = subprocess.Popen(
        [PYTHON, "-m", "leakscope", *words], cwd=folder, env=environment(), stdout=subprocess.PIPE, text=True
    )
    assert recorder.stdout is not None and recorder.stdout.readline() == "ready\n"
    yield recorder
    (folder / "enough").touch()
    assert recorder.wait(TIMEOUT_S) == 0
    recorder.stdout.close()


@pytest.fixture
def running(tmp_path) -> Iterator[subprocess.Popen]:
    """A recording that goes on, run.parquet in ``tmp_path``."""
    with recorded(tmp_path) as recorder:
        yield recorder


@pytest.fixture(scope="module")
def lasting(tmp_path_factory) -> Iterator[str]:
    """Path of a recording that goes on, for all who only look at it; it is recorded still when they have."""
    folder = tmp_path_factory.mktemp("lasting")
    with recorded(folder) as recorder:
        yield str(folder / "run.parquet")
        assert recorder.poll() is None


in_one_worker = pytest.mark.xdist_group("lasting")


def watch(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [PYTHON, "-m", "leakscope", "watch", *words],
        cwd=folder,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


def ended_run(folder: Path) -> Path:
    builder = RecordingBuilder(folder).process(100).samples(100, [(100 + i) * MiB for i in range(30)])
    return builder.ends(exit_code=3).write()


def test_a_run_is_watched_to_its_end(terminal, running, tmp_path):
    seen = terminal("run.parquet")
    seen.wait_for("prog.py")
    seen.wait_for("recording")
    (tmp_path / "enough").touch()
    assert seen.wait() == 0
    left = seen.left
    assert "prog.py" in left  # the last frame stays on the user's own screen
    assert "the command exited with status 0" in left
    assert "leakscope report run.parquet" in left


@in_one_worker
def test_q_quits_and_the_terminal_is_as_it_was(terminal, lasting):
    seen = terminal(lasting)
    before = seen.modes
    seen.wait_for("q quits")
    seen.press("q")
    assert seen.wait() == 0
    assert seen.left is not None and not seen.left.strip()
    assert seen.modes == before


@pytest.mark.slow
@in_one_worker
def test_interrupt_is_quiet(terminal, lasting):
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        pytest.skip("ignored here, as it is in the background of a shell: then it stays so")
    seen = terminal(lasting)
    before = seen.modes
    seen.wait_for("q quits")
    seen.press("\x03")
    assert seen.wait() == 130
    assert "Traceback" not in seen.seen and seen.left is not None and not seen.left.strip()
    assert seen.modes == before


@pytest.mark.slow
@in_one_worker
def test_a_watch_that_is_ended_leaves_the_terminal_as_it_was(terminal, lasting):
    seen = terminal(lasting)
    before = seen.modes
    seen.wait_for("q quits")
    os.kill(seen.pid, signal.SIGTERM)
    assert seen.wait() == 128 + signal.SIGTERM
    assert seen.left is not None and not seen.left.strip() and seen.modes == before


@pytest.mark.slow
@in_one_worker
def test_a_watch_that_is_stopped_and_goes_on(terminal, lasting):
    seen = terminal(lasting)
    before = seen.modes
    seen.wait_for("q quits")
    seen.press("\x1a")
    until(lambda: seen.look() and Path(f"/proc/{seen.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T")
    assert seen.modes == before  # the shell's own
    os.kill(seen.pid, signal.SIGCONT)
    until(lambda: seen.look() and seen.raw.count("\x1b[?1049h") == 2)
    seen.press("q")
    assert seen.wait() == 0


@pytest.mark.slow
def test_a_process_without_a_recording(terminal, tmp_path):
    (tmp_path / "prog.py").write_text(PROGRAM)
    with subprocess.Popen([PYTHON, "prog.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True) as program:
        assert program.stdout is not None and program.stdout.readline()
        seen = terminal("-p", str(program.pid))
        seen.wait_for(f"prog.py [{program.pid}]")
        (tmp_path / "enough").touch()
        assert program.wait(TIMEOUT_S) == 0
        assert seen.wait() == 0
    assert "the process has ended" in seen.seen


@pytest.mark.slow
def test_no_colour(terminal, tmp_path):
    ended_run(tmp_path)
    plain, coloured = terminal("run.parquet", NO_COLOR="1"), terminal("run.parquet")
    assert plain.wait() == coloured.wait() == 0
    assert "\x1b[1m" in coloured.raw and "\x1b[" not in plain.raw


@pytest.mark.slow
def test_a_replay_goes_by_and_ends(terminal, tmp_path):
    ended_run(tmp_path)
    began_s = time.monotonic()
    seen = terminal("run.parquet", "--speed", "10")
    assert seen.wait() == 0
    assert time.monotonic() - began_s > 2.9  # 29 s at ten times the speed
    assert "replay" in seen.seen and "the command ended: 3" in seen.seen


@pytest.mark.slow
def test_plain_lines_in_a_terminal(terminal, tmp_path):
    ended_run(tmp_path)
    seen = terminal("run.parquet", "--speed", "1000", "--plain")
    assert seen.wait() == 0
    assert "\x1b[?1049h" not in seen.raw and "peak 129 MiB" in seen.seen


@in_one_worker
def test_in_a_pipe_one_look_is_taken(lasting, tmp_path):
    done = watch(tmp_path, lasting)
    assert (done.returncode, done.stderr) == (0, "")
    assert "recording" in done.stdout and "\x1b" not in done.stdout


@pytest.mark.slow
def test_in_a_pipe_a_line_at_each_interval(running, tmp_path):
    words = [PYTHON, "-m", "leakscope", "watch", "run.parquet", "-i", "200ms"]
    with subprocess.Popen(words, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, text=True) as watching:
        assert watching.stdout is not None
        until(lambda: "1 process" in watching.stdout.readline())
        (tmp_path / "enough").touch()
        rest = watching.stdout.read()
        assert watching.wait(TIMEOUT_S) == 0
    assert "the command exited with status 0" in rest


def test_of_an_ended_run_the_end_is_shown(tmp_path, capsys):
    assert main(["watch", str(ended_run(tmp_path))]) == 0
    told = capsys.readouterr().out
    assert "peak 129 MiB" in told and "the command ended: 3" in told


def test_a_recorder_that_was_killed(tmp_path, capsys):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, [MiB] * 5)
    builder.write_journal()
    assert main(["watch", str(tmp_path / "run.parquet")]) == 0
    assert "how the command ended was not recorded" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "status", "said"),
    [
        ([], 3, "there is no file run.parquet"),
        (["run.parquet", "-p", "1"], 2, "either a recording or -p PID"),
        (["none.parquet"], 3, "there is no file none.parquet"),
        (["-p", "999999999"], 2, "there is no process 999999999"),
        (["-p", "-1"], 2, "there is no process -1"),
        (["-p", "1", "--replay"], 2, "not for -p PID"),
        (["run.parquet", "-i", "soon"], 2, "'soon' is not a duration"),
        (["run.parquet", "-i", "0"], 2, "too short"),
        (["run.parquet", "--speed", "0"], 2, "--speed"),
    ],
)
def test_what_cannot_be_watched_gets_one_line(tmp_path, monkeypatch, capsys, words, status, said):
    monkeypatch.chdir(tmp_path)
    assert main(["watch", *words]) == status
    told = capsys.readouterr()
    assert said in told.err and told.err.count("\n") == 1 and told.out == ""


@pytest.mark.slow
@in_one_worker
def test_a_running_recording_is_not_replayed(lasting, capsys):
    assert main(["watch", lasting, "--replay"]) == 2
    told = capsys.readouterr().err
    assert told.count("\n") == 1 and "still being recorded" in told


@pytest.mark.slow
def test_a_reader_that_had_enough(tmp_path):
    path = ended_run(tmp_path)
    line = f"{PYTHON} -m leakscope watch {path} --speed 100 -i 100ms | head -1"
    done = subprocess.run(["bash", "-c", line], env=environment(), capture_output=True, text=True, timeout=TIMEOUT_S)
    assert done.stderr == "" and done.stdout.startswith("leakscope ")
