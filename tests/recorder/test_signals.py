"""Signals reach the command once, stops are mirrored, and nobody is left behind."""

from __future__ import annotations

import os
import pty
import select
import shlex
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from .runs import PYTHON, TIMEOUT_S, environment, is_running, record, record_command, rows, start

pytestmark = pytest.mark.live

COUNTS_SIGNALS = """
import os, signal, sys, time
seen = []
def handler(number, frame):
    seen.append(int(number))
for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGUSR1, signal.SIGUSR2, signal.SIGCONT):
    signal.signal(number, handler)
print('ready', os.getpid(), sys.stdin.isatty(), sys.stdout.isatty(), sys.stderr.isatty(), flush=True)
deadline = time.monotonic() + 30
while not seen and time.monotonic() < deadline:
    time.sleep(0.01)
time.sleep(0.3)  # a second copy of the signal would come now
print('seen', seen, flush=True)
sys.exit(9)
"""


@pytest.mark.cases(2)
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGUSR1])
def test_a_signal_to_the_recorder_reaches_the_command_once(tmp_path: Path, number: signal.Signals) -> None:
    recorder = start(tmp_path, "-q", PYTHON, "-c", COUNTS_SIGNALS)
    recorder.send_signal(number)
    output, _ = recorder.communicate(timeout=TIMEOUT_S)
    assert f"seen [{number.value}]" in output
    assert recorder.returncode == 9
    events = [row for row in rows(tmp_path / "run.parquet.journal", "events") if row["event"] == "signal"]
    assert [row["value"] for row in events] == [float(number)]


def test_terminating_the_recorder_leaves_no_orphan(tmp_path: Path) -> None:
    program = "import os, time; print(os.getpid(), flush=True); time.sleep(60)"
    recorder = subprocess.Popen(
        record_command("-q", PYTHON, "-c", program),
        cwd=tmp_path,
        env=environment(),
        stdout=subprocess.PIPE,
        text=True,
    )
    assert recorder.stdout is not None
    pid = int(recorder.stdout.readline())
    recorder.terminate()
    recorder.communicate(timeout=TIMEOUT_S)
    assert recorder.returncode == -signal.SIGTERM
    assert not is_running(pid)


def test_signal_mask_and_ignored_signals_are_those_of_a_bare_start(tmp_path: Path) -> None:
    def masks(text: str) -> list[int]:
        # glibc keeps 32 and 33 for itself, and its posix_spawn leaves them ignored.
        return [int(line.split()[1], 16) & ~(3 << 31) for line in text.splitlines()]

    command = ["grep", "-E", "SigBlk|SigIgn", "/proc/self/status"]
    bare = subprocess.run(command, capture_output=True, text=True).stdout
    recorded = record(tmp_path, "-q", *command).stdout
    assert masks(recorded) == masks(bare)
    assert len(masks(bare)) == 2


class Terminal:
    """A command in the foreground of a pseudo terminal."""

    def __init__(self, folder: Path, *command: str) -> None:
        self.output = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.chdir(folder)
            for number in (signal.SIGINT, signal.SIGQUIT):  # which a shell ignores for what it runs in the background
                signal.signal(number, signal.SIG_DFL)
            os.execvpe(command[0], command, environment())

    def expect(self, text: str) -> None:
        """Read until ``text`` appears after what was expected before."""
        deadline_s = time.monotonic() + TIMEOUT_S
        while text not in self.output:
            ready = select.select([self.fd], [], [], max(0.0, deadline_s - time.monotonic()))[0]
            part = self._read() if ready else b""
            assert part, f"{text!r} did not appear: {self.output!r}"
            self.output += part.decode(errors="replace")
        self.output = self.output.partition(text)[2]

    def type(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def wait(self) -> int:
        """Exit status of the command, negative for a signal."""
        while self._read():  # a terminal must be drained for its writers to end
            pass
        return self._reap()

    def close(self) -> None:
        """Hang up, as closing the window does, and take everybody along who is left."""
        os.close(self.fd)
        if self.pid:
            os.kill(self.pid, signal.SIGCONT)
            os.kill(self.pid, signal.SIGKILL)
            self._reap()

    def _read(self) -> bytes:
        try:
            return os.read(self.fd, 4096)
        except OSError:  # nobody has the other end open any more
            return b""

    def _reap(self) -> int:
        status = os.waitpid(self.pid, 0)[1]
        self.pid = 0
        return os.waitstatus_to_exitcode(status)


@pytest.fixture
def terminal(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    """Opens a terminal that runs a command in the test's folder."""
    opened: list[Terminal] = []

    def run(*command: str) -> Terminal:
        opened.append(Terminal(tmp_path, *command))
        return opened[-1]

    yield run
    for each in opened:
        each.close()


def test_the_command_has_the_terminal_and_gets_one_interrupt(terminal: Callable[..., Terminal]) -> None:
    window = terminal(*record_command("-q", PYTHON, "-c", COUNTS_SIGNALS))
    window.expect("True True True")
    window.type("\x03")
    window.expect("seen [2]")
    assert window.wait() == 9


def test_quit_key_ends_both(terminal: Callable[..., Terminal]) -> None:
    window = terminal(*record_command("-q", "sh", "-c", "echo ready; sleep 30"))
    window.expect("ready")
    window.type("\x1c")
    assert window.wait() == -signal.SIGQUIT


def test_stop_key_and_fg(terminal: Callable[..., Terminal], tmp_path: Path) -> None:
    """The shell sees its job stop, and ``fg`` continues the command with one SIGCONT."""
    program, launcher = tmp_path / "count.py", tmp_path / "launch.sh"
    program.write_text(COUNTS_SIGNALS)
    launcher.write_text("exec " + shlex.join(record_command("-q", PYTHON, str(program))) + "\n")
    window = terminal("bash", "--norc", "--noprofile", "-i")
    window.type(f"sh {launcher}\n")
    window.expect("True True True")
    window.type("\x1a")
    window.expect("Stopped")
    window.type("fg; echo status=$?\n")
    window.expect("seen [18]")
    window.expect("status=9")
    window.type("exit\n")
    window.wait()
    events = [row["event"] for row in rows(tmp_path / "run.parquet.journal", "events")]
    assert [event for event in events if event in ("stopped", "continued")] == ["stopped", "continued"]
