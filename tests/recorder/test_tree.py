"""Processes of the job: births, deaths, orphans, roles; and what a look at them costs."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from .runs import PYTHON, TIMEOUT_S, environment, record, record_command, rows, start, until

pytestmark = pytest.mark.live

FORKS = """
import os, sys, time
children = []
for code in (3, 4):
    pid = os.fork()
    if pid == 0:
        time.sleep(0.4)
        os._exit(code)
    children.append(pid)
for pid in children:
    os.waitpid(pid, 0)
block = bytearray(60_000_000)
time.sleep(0.3)
"""
DAEMON = """
import os, time
if os.fork() == 0:
    if os.fork() == 0:
        time.sleep(0.5)
        os._exit(5)
    os._exit(0)
os.wait()
time.sleep(0.8)
"""


def processes(folder: Path) -> dict[int, dict]:  # type: ignore[type-arg]
    """The last row of each process."""
    return {row["pid"]: row for row in rows(folder / "run.parquet.journal", "processes")}


def test_births_and_deaths(tmp_path: Path) -> None:
    record(tmp_path, "-q", "-i", "50ms", PYTHON, "-c", FORKS)
    found = processes(tmp_path)
    (root,) = [p for p in found.values() if p["is_root"]]
    children = [p for p in found.values() if not p["is_root"]]
    assert root["role"] == "trainer"
    assert [child["role"] for child in children] == ["python-fork", "python-fork"]
    assert all(child["ppid"] == root["pid"] for child in children)
    assert all(root["born_mono_ns"] <= child["born_mono_ns"] < child["died_mono_ns"] for child in children)
    samples = rows(tmp_path / "run.parquet.journal", "process_samples")
    root_rss = [s["rss_bytes"] for s in samples if s["pid"] == root["pid"]]
    assert max(root_rss) > 60_000_000
    assert min(root_rss) > 0
    lives = {s["pid"] for s in samples}
    assert lives == set(found)


def test_an_orphan_stays_in_the_tree_and_its_end_is_known(tmp_path: Path) -> None:
    record(tmp_path, "-q", "-i", "50ms", PYTHON, "-c", DAEMON)
    assert 5 in [process["exit_code"] for process in processes(tmp_path).values()]


WHOSE_ORPHAN = """
import os, time
if os.fork() == 0:
    parent = os.getpid()
    if os.fork() == 0:
        while os.getppid() == parent:
            time.sleep(0.01)
        with open("new", "w") as stream:
            stream.write(str(os.getppid()))
        os.rename("new", "parent")
    os._exit(0)
os.wait()
while not os.path.exists("parent"):
    time.sleep(0.01)
"""


@pytest.mark.slow
def test_with_no_adopt_an_orphan_has_the_parent_it_would_have_without_a_recorder(tmp_path: Path) -> None:
    def parent_seen(*before: str) -> int:
        subprocess.run([*before, PYTHON, "-c", WHOSE_ORPHAN], cwd=tmp_path, env=environment(), timeout=TIMEOUT_S)
        seen = int((tmp_path / "parent").read_text())
        (tmp_path / "parent").unlink()
        return seen

    bare = parent_seen()
    assert parent_seen(*record_command("-q", "--no-adopt", "--")) == bare
    assert parent_seen(*record_command("-q", "--")) != bare


def test_a_command_too_short_to_sample_is_still_a_process(tmp_path: Path) -> None:
    record(tmp_path, "-q", "-i", "10s", "true")
    (root,) = processes(tmp_path).values()
    assert root["exit_code"] == 0
    assert root["comm"] == "true"


def test_exec_is_seen(tmp_path: Path) -> None:
    record(tmp_path, "-q", "-i", "50ms", "sh", "-c", "sleep 0.3; exec sleep 0.3")
    roles = [row["role"] for row in rows(tmp_path / "run.parquet.journal", "processes") if row["is_root"]]
    assert roles[0] == "shell"
    assert roles[-1] == "other"


def test_figures_of_a_sample(tmp_path: Path) -> None:
    record(tmp_path, "-q", "-i", "100ms", PYTHON, "-c", "import time; b = bytearray(80_000_000); time.sleep(1)")
    journal = tmp_path / "run.parquet.journal"
    measured = [s for s in rows(journal, "process_samples") if s["pss_bytes"] is not None]
    full = max(measured, key=lambda s: s["uss_bytes"])  # the last one may see the program shut down
    assert 80_000_000 < full["uss_bytes"] <= full["pss_bytes"] <= full["rss_bytes"] < 200_000_000
    assert full["rss_bytes"] == full["anon_bytes"] + full["file_bytes"] + full["shmem_bytes"]
    assert full["virtual_bytes"] > full["rss_bytes"]
    first_with_fds = next(s for s in rows(journal, "process_samples") if s["fd_count"] is not None)
    assert first_with_fds["fd_count"] >= 3
    host = rows(journal, "host_samples")[0]
    assert 0 < host["mem_available_bytes"] <= host["mem_total_bytes"]


def test_an_interval_is_obeyed_and_duration_ends_the_recording_only(tmp_path: Path) -> None:
    program = "import time; time.sleep(1.2); open('done', 'w').close()"
    result = record(tmp_path, "-q", "--agent", "off", "-i", "100ms", "-d", "500ms", PYTHON, "-c", program)
    assert result.returncode == 0
    assert (tmp_path / "done").exists()
    journal = tmp_path / "run.parquet.journal"
    times_s = [row["time_mono_ns"] / 1e9 for row in rows(journal, "process_samples")]
    assert 4 <= len(times_s) <= 7
    assert times_s[-1] - times_s[0] < 0.7
    end = rows(journal, "events")[-1]
    assert (end["event"], end["value"]) == ("end", None)


@pytest.mark.slow
def test_twenty_processes_in_a_small_recorder(tmp_path: Path) -> None:
    program = (
        "import os, sys, time\n"
        "for _ in range(19):\n"
        "    if os.fork() == 0:\n"
        "        sys.stdin.read(); os._exit(0)\n"
        "print('ready', flush=True); sys.stdin.read()\n"
        "for _ in range(19): os.wait()\n"
    )
    words = ("-q", "-i", "50ms", "--flush", "200ms", "--agent", "off", PYTHON, "-c", program)
    recorder = start(tmp_path, *words, stdin=subprocess.PIPE)
    journal = tmp_path / "run.parquet.journal"
    until(lambda: len({s["pid"] for s in rows(journal, "process_samples")}) == 20)
    until(lambda: rows(journal, "recorder_samples"))
    mapped = Path(f"/proc/{recorder.pid}/maps").read_text()
    recorder.communicate(timeout=TIMEOUT_S)
    assert rows(journal, "recorder_samples")[-1]["rss_bytes"] < 20e6
    assert "site-packages" not in mapped


def test_the_recorder_imports_no_library() -> None:
    program = (
        "import sys; sys.argv = ['leakscope', 'record', '-q', '-f', '-o', '/dev/null', 'true']\n"
        "import leakscope.__main__, leakscope.recorder, leakscope.recorder.sources as sources\n"
        "sources.load()\n"
        "print(*sys.modules)\n"
    )
    result = subprocess.run([PYTHON, "-c", program], env=environment(), capture_output=True, text=True, check=True)
    roots = {name.partition(".")[0] for name in result.stdout.split()}
    assert not roots & {
        "click",
        "psutil",
        "numpy",
        "pandas",
        "pyarrow",
        "matplotlib",
        "rich",
        "dataclasses",
        "argparse",
    }
    assert "leakscope.cli" not in result.stdout.split()
