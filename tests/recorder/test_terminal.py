"""What a person sees in a terminal while a job is recorded: the job's own lines, as it wrote them, and ours below."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
from pathlib import Path

import pyte
import pytest

from .runs import PYTHON, environment, record_command

pytestmark = pytest.mark.live
COLUMNS, ROWS = 80, 24
# Each goes on for longer than the status waits between two figures.
PRINTS = """
import time
for n in range(4):
    print("step", n)
    time.sleep(0.4)
"""
REWRITES = """
import sys, time
for n in range(5):
    sys.stdout.write(f"\\repoch {n}/4 ####")
    sys.stdout.flush()
    time.sleep(0.4)
"""
RETURNS = """
import sys, time
for n in range(5):
    sys.stderr.write(f"bar {n}\\r")
    sys.stderr.flush()
    time.sleep(0.4)
sys.stderr.write("end\\n")
"""
DRAWS = """
import time
from rich.progress import Progress
with Progress("{task.description} {task.completed}") as progress:
    task = progress.add_task("files", total=4)
    for n in range(4):
        progress.advance(task)
        time.sleep(0.4)
"""


class Window(pyte.Screen):
    """A terminal that remembers its titles."""

    def __init__(self) -> None:
        super().__init__(COLUMNS, ROWS)
        self.titles: list[str] = []

    def set_title(self, param: str) -> None:
        self.titles.append(param)
        super().set_title(param)

    @property
    def shown(self) -> list[str]:
        return "\n".join(line.rstrip() for line in self.display).rstrip().split("\n")


def shown(folder: Path, *command: str, term: str = "xterm-256color") -> Window:
    """The terminal when the command has ended with status 0."""
    window = Window()
    stream = pyte.ByteStream(window)
    pid, terminal = pty.fork()
    if pid == 0:
        fcntl.ioctl(1, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        os.chdir(folder)
        os.execvpe(command[0], command, environment(TERM=term))
    try:
        while part := os.read(terminal, 4096):
            stream.feed(part)
    except OSError:  # nobody has the other end open any more
        pass
    os.close(terminal)
    assert os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) == 0
    return window


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("program", "lines"),
    [
        (PRINTS, ["step 0", "step 1", "step 2", "step 3"]),
        (REWRITES, ["epoch 4/4 ####"]),
        (RETURNS, ["end 4"]),
        (DRAWS, ["files 4"]),
    ],
    ids=["prints", "rewrites", "returns", "draws"],
)
def test_the_jobs_lines_stay_as_it_wrote_them(program: str, lines: list[str], tmp_path: Path) -> None:
    window = shown(tmp_path, *record_command(PYTHON, "-c", program))
    first = window.shown.index(lines[0])
    begun = " ".join(window.shown[:first])
    assert begun.startswith("leakscope: recording ") and begun.endswith("leakscope watch")
    assert "run.parquet" in begun
    job, after = window.shown[first : first + len(lines)], window.shown[first + len(lines)]
    assert job == lines
    assert after.startswith("leakscope: the command exited with status 0")
    assert any("1 process" in title and title.endswith("(leakscope)") for title in window.titles)


def test_further_lines_of_the_end_go_on_below_their_own_beginning(tmp_path: Path) -> None:
    window = shown(
        tmp_path, *record_command("-o", "a-rather-long-name-of-a-recording.parquet", PYTHON, "-c", "", finalize=True)
    )
    end = next(n for n, line in enumerate(window.shown) if line.startswith("leakscope: the command exited"))
    under = window.shown[end + 1 :]
    assert len(under) > 2
    assert [line for line in under if not line.startswith("  ")] == []


@pytest.mark.parametrize(("term", "option"), [("dumb", "--no-summary"), ("xterm", "-q")])
def test_a_terminal_without_titles_and_a_quiet_recorder_show_nothing(term: str, option: str, tmp_path: Path) -> None:
    window = shown(tmp_path, *record_command(option, PYTHON, "-c", PRINTS), term=term)
    assert not window.titles
    assert window.shown[:4] == ["step 0", "step 1", "step 2", "step 3"]
