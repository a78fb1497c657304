"""How processes ended that others reap: workers of the job, seen from outside."""

from __future__ import annotations

import os
import platform
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope.recorder import exits
from leakscope.recorder.exits import Exits

from .runs import PYTHON, record, rows, until

pytestmark = pytest.mark.live

WORKERS = """
import os, signal, time
for ending in (signal.SIGKILL, signal.SIGTERM, 0, 7):
    pid = os.fork()
    if pid == 0:
        time.sleep(0.5)
        if ending in (signal.SIGKILL, signal.SIGTERM):
            os.kill(os.getpid(), ending)
        os._exit(ending)
while True:
    try:
        os.wait()
    except ChildProcessError:
        break
time.sleep(0.3)
"""
tells_of_the_reaped = tuple(map(int, re.findall(r"\d+", platform.release())[:2])) >= (6, 15)


@pytest.fixture
def child() -> Iterator[subprocess.Popen[bytes]]:
    """A process that ends with status 7 at the end of its input."""
    program = "import sys; sys.stdin.read(); sys.exit(7)"
    with subprocess.Popen([sys.executable, "-c", program], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def end(child: subprocess.Popen[bytes]) -> None:
    """Let it become a zombie."""
    assert child.stdin is not None
    child.stdin.close()
    until(lambda: Path(f"/proc/{child.pid}/stat").read_text().rpartition(") ")[2].startswith("Z"))


def pidfds() -> int:
    links = (f"/proc/self/fd/{number}" for number in os.listdir("/proc/self/fd"))
    return sum(os.path.islink(link) and "pidfd" in os.readlink(link) for link in links)


@pytest.mark.skipif(not tells_of_the_reaped, reason="before Linux 6.15 nobody tells of a process that was reaped")
def test_workers_whose_parent_reaped_them_and_exited_in_order(tmp_path: Path) -> None:
    result = record(tmp_path, "-q", "-i", "50ms", "--agent", "off", PYTHON, "-c", WORKERS)
    assert result.returncode == 0
    last = {row["pid"]: row for row in rows(tmp_path / "run.parquet.journal", "processes")}
    ends = {(row["exit_code"], row["exit_signal"]) for row in last.values() if not row["is_root"]}
    assert ends == {(None, signal.SIGKILL), (None, signal.SIGTERM), (0, None), (7, None)}


def test_a_zombie_tells_on_any_kernel(child: subprocess.Popen[bytes]) -> None:
    watched = Exits()
    watched.watch(child.pid)
    end(child)
    assert watched.status(child.pid) == (7, None)


def test_one_that_was_never_watched_and_is_gone_is_unknown(child: subprocess.Popen[bytes]) -> None:
    end(child)
    child.wait()
    assert Exits().status(child.pid) == (None, None)


@pytest.mark.skipif(not tells_of_the_reaped, reason="before Linux 6.15 nobody tells of a process that was reaped")
def test_a_python_without_pidfd_open(child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delattr(os, "pidfd_open", raising=False)
    watched = Exits()
    watched.watch(child.pid)
    end(child)
    child.wait()
    assert watched.status(child.pid) == (7, None)


def test_a_bounded_number_is_watched_and_let_go(
    child: subprocess.Popen[bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(exits, "MOST", 2)
    before = pidfds()
    watched = Exits()
    for pid in (child.pid, os.getpid(), os.getppid()):
        watched.watch(pid)
    assert pidfds() - before == 2
    watched.keep([child.pid])
    assert pidfds() - before == 1
    del watched
    assert pidfds() == before
