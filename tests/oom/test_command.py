"""`leakscope oom` as a person runs it, and a real kill read from the kernel."""

from __future__ import annotations

import contextlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope import oom

pytestmark = pytest.mark.live

FIXTURES = Path(__file__).parents[2] / "fixtures" / "oom-logs"
CONTROLLER = Path("/sys/fs/cgroup/memory")  # cgroup v1: there a test can make its own without touching others


def run(*arguments: str, stdin: bytes = b"") -> subprocess.CompletedProcess[bytes]:
    return subprocess.run([sys.executable, "-m", "leakscope", "oom", *arguments], input=stdin, capture_output=True)


def test_a_file_and_standard_input_read_the_same():
    log = FIXTURES / "memcg-kill.kmsg"
    from_file, from_stdin = run(str(log), "--format", "json"), run("-", "--format", "json", stdin=log.read_bytes())
    assert from_file.returncode == from_stdin.returncode == 0
    assert from_file.stdout == from_stdin.stdout
    document = json.loads(from_file.stdout)
    assert document["schema"] == "leakscope.oom/1"
    assert [event["pid"] for event in document["events"]] == [28285]


def test_a_log_without_a_kill_is_no_failure():
    result = run("-", stdin=b"nothing here\n")
    assert result.returncode == 0 and result.stdout.startswith(b"No OOM kill in this text.")


def test_a_log_cannot_command_the_terminal():
    name = "py\x1b]0;evil\x07\u202e\x9b2J"
    line = f"Out of memory: Killed process 77 ({name}) total-vm:100kB, anon-rss:10kB, file-rss:0kB, shmem-rss:0kB\n"
    for form in ("text", "json"):
        result = run("-", "--format", form, stdin=line.encode())
        shown = result.stdout.decode()
        assert result.returncode == 0 and "evil" in shown
        assert all(c.isprintable() or c == "\n" for c in shown)
    assert json.loads(shown)["events"][0]["comm"] == name


@pytest.mark.parametrize("name", ["missing.log", "."])
def test_a_file_that_cannot_be_read_is_one_line(name: str, tmp_path: Path):
    result = run(str(tmp_path / name))
    assert result.returncode == 2 and result.stdout == b""
    assert result.stderr.count(b"\n") == 1 and result.stderr.startswith(b"leakscope: ")


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A memory cgroup of 100 MiB, so that only this test's process can be killed."""
    if os.geteuid() != 0 or not (CONTROLLER / "memory.limit_in_bytes").exists() or not os.access("/dev/kmsg", os.R_OK):
        pytest.skip("needs root, a memory controller of cgroup v1 and /dev/kmsg")
    path = CONTROLLER / f"leakscope-test-{os.getpid()}"
    try:
        path.mkdir()
        (path / "memory.limit_in_bytes").write_text(str(100 << 20))
    except OSError as error:
        pytest.skip(f"no cgroup of our own: {error}")
    swap = path / "memory.memsw.limit_in_bytes"
    if swap.exists():
        swap.write_text(str(100 << 20))
    yield path
    deadline = time.monotonic() + 30
    while path.exists() and time.monotonic() < deadline:
        with contextlib.suppress(OSError):  # busy until the kernel has uncharged its pages
            path.rmdir()
        time.sleep(0.1)


def test_a_real_kill(cgroup: Path):
    kmsg = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK)
    try:
        os.lseek(kmsg, 0, os.SEEK_END)
        join = f"open('{cgroup}/cgroup.procs', 'w').write('0')"
        hog = subprocess.Popen([sys.executable, "-c", f"{join}\na = []\nwhile True: a.append(bytearray(4 << 20))"])
        assert hog.wait(60) == -9
        event = kill_in(cgroup.name, kmsg)
    finally:
        os.close(kmsg)
    if event is None:
        pytest.skip("the kernel left its report out: it prints ten in five seconds, for all jobs of the host")
    assert event.constraint == "memcg" and event.limit_kb == 100 << 10 and event.page_kb is not None


def kill_in(cgroup: str, kmsg: int) -> oom.OomEvent | None:
    """The kill in a cgroup: other jobs of the host may be killed meanwhile, and pids differ in a container."""
    records = b""
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline:
        if select.select([kmsg], [], [], 0.2)[0]:
            with contextlib.suppress(BrokenPipeError, BlockingIOError):
                records += os.read(kmsg, 8192)
            continue
        for event in oom.read(records).events:
            if (event.oom_cgroup or "").endswith(cgroup):
                return event
    return None
