"""Kills, full disks, lost folders, storms of signals, exhausted limits, at seeded instants.

The job ends as it would alone, the file opens, what was flushed is in it, and what is missing is said.
``make torture`` runs many seeds of each kind, the ordinary tests two.
"""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from .scene import STATUS, Scene

SEEDS = range(int(os.environ.get("LEAKSCOPE_TORTURE", "2")))
STRANGER = 54_321  # a user with no processes of its own
is_root = os.geteuid() == 0

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("seed", SEEDS)]
AS_STRANGER = f"exec setpriv --reuid {STRANGER} --clear-groups"


@pytest.fixture(scope="module")
def python_of_all() -> str:
    """An interpreter that other users may start as well."""
    if not is_root or not shutil.which("setpriv"):
        pytest.skip("needs root and setpriv")
    for python in (sys.executable, "/usr/bin/python3"):
        if not subprocess.run(["sh", "-c", f"{AS_STRANGER} sh -c '{python} -c 1'"], capture_output=True).returncode:
            return python
    pytest.skip("no interpreter that another user may start")


def wait_until_nobody_is_left_of(user: int) -> None:
    """What an earlier test started may still be on its way out, and counts."""
    deadline_s = time.monotonic() + 60
    while any(process.info["uids"].real == user for process in psutil.process_iter(["uids"]) if process.info["uids"]):
        assert time.monotonic() < deadline_s, f"processes of user {user} go on"
        time.sleep(0.05)


@pytest.fixture
def folder() -> Iterator[Path]:
    """One that any user may enter, which those of pytest are not."""
    with tempfile.TemporaryDirectory() as name:
        os.chmod(name, 0o777)
        yield Path(name)


@pytest.fixture
def scene(folder: Path) -> Iterator[Callable[..., Scene]]:
    made: list[Scene] = []

    def make(**options: object) -> Scene:
        made.append(Scene(folder, **options))  # type: ignore[arg-type]
        return made[-1]

    yield make
    for each in made:
        each.end()


def instant(seed: int, most_s: float = 2.0) -> None:
    time.sleep(random.Random(seed).random() * most_s)


@pytest.mark.parametrize("victims", ["job", "recorder", "both"])
def test_killed(scene: Callable[..., Scene], seed: int, victims: str) -> None:
    run = scene()
    instant(seed)
    was_over = run.recorder.poll() is not None
    killed_ns = time.monotonic_ns()
    if victims != "job":
        run.send(run.recorder.pid, signal.SIGKILL)
    if victims != "recorder":
        run.send(run.job_pid, signal.SIGKILL)
    status = run.wait()
    assert status in ((STATUS, -signal.SIGKILL) if victims == "job" or was_over else (-signal.SIGKILL,))
    if victims == "recorder":
        run.assert_job_unharmed()
    recording = run.read()
    if victims != "job" and recording.ended[0] == "lost":
        assert not recording.complete
        assert recording.notes
    run.assert_flushed_is_there(recording, killed_ns)


def test_finishing_is_killed(scene: Callable[..., Scene], seed: int) -> None:
    run = scene()
    helper = run.until(lambda: _helper_of(run.recorder.pid) or run.recorder.poll() is not None)
    instant(seed, 0.3)
    if helper is not True:
        run.send(helper, signal.SIGKILL)
    assert run.wait() == STATUS
    run.assert_job_unharmed()
    recording = run.read()
    assert recording.complete
    assert recording.ended == ("exit", STATUS, None)


def _helper_of(recorder: int) -> int | None:
    children = Path(f"/proc/{recorder}/task/{recorder}/children")
    with_code = (int(pid) for pid in (children.read_text() if children.exists() else "").split())
    return next((pid for pid in with_code if b"leakscope.storage.__main__" in _cmdline(pid)), None)


def _cmdline(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def test_the_disk_is_full(scene: Callable[..., Scene], folder: Path, seed: int) -> None:
    disk = folder / "disk"
    disk.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=4m", "tmpfs", str(disk)]  # the compiled agent alone takes 1 MB
    if not is_root or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("mounting a file system needs root")
    try:
        run = scene(output=disk / "run.parquet")
        instant(seed, 1.0)
        _fill(disk / "ballast")
        if seed % 2:
            instant(seed + 1, 1.0)
            (disk / "ballast").unlink()
        assert run.wait() == STATUS
        run.assert_job_unharmed()
        (disk / "ballast").unlink(missing_ok=True)
        recording = run.read()
        lost = "were not recorded" in run.complaints
        assert not (lost and recording.complete), "rows are missing, and nobody says so"
        assert recording.complete or recording.notes
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)


def _fill(path: Path) -> None:
    with open(path, "wb", 0) as ballast:
        try:
            while True:
                ballast.write(bytes(4096))
        except OSError:
            return


@pytest.mark.xdist_group("stranger")
def test_the_folder_becomes_read_only(scene: Callable[..., Scene], folder: Path, python_of_all: str, seed: int) -> None:
    place = folder / "place"
    place.mkdir(0o777)
    place.chmod(0o777)
    run = scene(output=place / "run.parquet", before=AS_STRANGER, python=python_of_all)
    instant(seed, 1.0)
    run.journal.chmod(0o555)
    place.chmod(0o555)
    assert run.wait() == STATUS
    run.assert_job_unharmed()
    place.chmod(0o777)
    run.journal.chmod(0o777)
    recording = run.read()
    if "were not recorded" in run.complaints:  # it came before the first flush, which makes the file
        assert not recording.complete
    else:
        assert recording.ended == ("exit", STATUS, None)


def test_the_journal_is_removed(scene: Callable[..., Scene], seed: int) -> None:
    run = scene()
    instant(seed, 1.0)
    while run.journal.exists():  # one that is being filled is not removed at the first attempt
        shutil.rmtree(run.journal, ignore_errors=True)
    assert run.wait() == STATUS
    run.assert_job_unharmed()
    recording = run.read()
    assert not recording.complete, "rows are missing, and nobody says so"
    assert recording.notes


def test_a_storm_of_signals(scene: Callable[..., Scene], seed: int) -> None:
    run, chance = scene(), random.Random(seed)
    storm = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGSTOP, signal.SIGCONT)
    deadline_s = time.monotonic() + 1.0
    while time.monotonic() < deadline_s:
        run.send(chance.choice((run.recorder.pid, run.job_pid)), chance.choice(storm))
        time.sleep(chance.random() * 0.01)
    for pid in (run.job_pid, run.recorder.pid):
        run.send(pid, signal.SIGCONT)
    run.until(lambda: _continued(run))
    assert run.wait() == STATUS
    run.assert_job_unharmed()
    assert run.read().ended == ("exit", STATUS, None)


def _continued(run: Scene) -> bool:
    """A stop that came late is taken back, until both have ended."""
    for pid in (run.job_pid, run.recorder.pid):
        run.send(pid, signal.SIGCONT)
    return run.recorder.poll() is not None


def test_processes_of_no_length(scene: Callable[..., Scene], seed: int) -> None:
    work = "for _ in range(500): os.waitpid(os.posix_spawn('/bin/true', ['true'], {}), 0)"
    run = scene(work=work)
    assert run.wait() == STATUS
    run.assert_job_unharmed()
    assert run.read().complete


FILES = """
files = []
try:
    while True: files.append(open(os.devnull))
except OSError: pass
time.sleep(0.5)
files.clear()
"""


def test_no_descriptor_is_left(scene: Callable[..., Scene], seed: int) -> None:
    run = scene(work=FILES, before=f"ulimit -n {256 + seed % 30}; exec")  # fewer, and the agent stays away
    assert run.wait() == STATUS
    run.assert_job_unharmed()
    assert run.read().ended == ("exit", STATUS, None)


FORKS = """
pids = []
try:
    while True:
        pid = os.fork()
        if not pid:
            time.sleep(0.5); os._exit(0)
        pids.append(pid)
except OSError: pass
for pid in pids: os.waitpid(pid, 0)
"""


@pytest.mark.xdist_group("stranger")  # whose processes are counted
def test_no_process_is_left(scene: Callable[..., Scene], python_of_all: str, seed: int) -> None:
    wait_until_nobody_is_left_of(STRANGER)
    run = scene(work=FORKS, before=f"{AS_STRANGER} prlimit --nproc={8 + seed % 8}", python=python_of_all)
    assert run.wait() == STATUS
    run.assert_job_unharmed()
    assert run.read().ended == ("exit", STATUS, None)
