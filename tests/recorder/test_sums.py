"""Sums that are true: what the processes of a tree are said to hold, beside what the kernel charges to their cgroup."""

from __future__ import annotations

import os
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from leakscope.facts.case import Case
from leakscope.facts.growth.tree import tree_growth
from leakscope.facts.processes.table import process_rows
from leakscope.facts.series.arithmetic import level_at
from leakscope.recorder import proc
from leakscope.recorder.sources import cgroup_memory, process_memory
from leakscope.recorder.tree import Tree
from leakscope.storage import open_recording

from .runs import PYTHON, TIMEOUT_S, rows, start, until

pytestmark = pytest.mark.live

MB = 1_000_000
PARENT, SHARED, OWN, REWRITTEN, WORKERS = 160 * MB, 60 * MB, 40 * MB, 50 * MB, 3
# A parent and workers that share its memory, add some of their own and rewrite a part of what they inherited.
PROGRAM = f"""
import mmap, os, sys
inherited = bytearray(b"x") * {PARENT}
shared = mmap.mmap(-1, {SHARED})
shared.write(b"s" * {SHARED})
listen, tell = os.pipe()
for _ in range({WORKERS}):
    if os.fork() == 0:
        own = bytearray(b"o") * {OWN}
        for at in range(0, {REWRITTEN}, 4096):
            inherited[at] = 1
        sum(shared[at] for at in range(0, {SHARED}, 4096))
        os.write(tell, b"1")
        sys.stdin.read()
        os._exit(0)
for _ in range({WORKERS}):
    os.read(listen, 1)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def cgroup() -> Iterator[Path]:
    """A cgroup of its own that counts memory, removed afterwards."""
    mount = cgroup_memory.find_mount()
    if mount is None:
        pytest.skip("no cgroup counts memory here")
    folder = Path(mount.folder) / f"leakscope-sums-{os.getpid()}"
    try:
        folder.mkdir()
    except OSError as error:
        pytest.skip(f"no cgroup can be made here: {error.strerror}")
    try:
        if not (folder / "memory.stat").exists():
            pytest.skip("memory is not delegated to new cgroups here")
        yield folder
    finally:
        until(lambda: _is_removed(folder))


def _is_removed(folder: Path) -> bool:
    with suppress(OSError):  # busy until the pages of its last process are gone
        folder.rmdir()
    return not folder.exists()


def charged_bytes(folder: Path) -> int:
    """Anonymous and shared memory of a cgroup; the kernel's figures lag behind by some pages, and up to 2 s."""
    stat = proc.read(str(folder / "memory.stat"))
    names = (b"anon", b"shmem") if proc.count_of(stat, b"anon") is not None else (b"rss", b"shmem")
    return sum(proc.count_of(stat, name) or 0 for name in names)


def _rounds(samples: list[dict[str, Any]], since_ns: int) -> int:
    """How often each process was measured, at least, since a moment."""
    counts = Counter(s["pid"] for s in samples if s["time_mono_ns"] > since_ns and s["pss_bytes"] is not None)
    return min(counts.values()) if len(counts) == WORKERS + 1 else 0


@pytest.mark.slow
def test_the_sum_over_roles_is_what_the_kernel_charges(cgroup: Path, tmp_path: Path) -> None:
    enter = f'echo 0 > {cgroup}/cgroup.procs && exec "$@"'
    words = ("-q", "-i", "100ms", "--pss-interval", "100ms", "--flush", "200ms", "--agent", "off")
    command = ("sh", "-c", enter, "sh", PYTHON, "-c", PROGRAM)
    recorder = start(tmp_path, *words, *command, stdin=subprocess.PIPE)
    expected = PARENT + SHARED + WORKERS * (OWN + REWRITTEN)
    until(lambda: abs(charged_bytes(cgroup) - expected) < 0.1 * expected)
    settled_ns = time.monotonic_ns()
    until(lambda: _rounds(rows(tmp_path / "run.parquet.journal", "process_samples"), settled_ns) >= 20)
    charged, charged_ns = charged_bytes(cgroup), time.monotonic_ns()
    recorder.communicate(timeout=TIMEOUT_S)

    recording = open_recording(tmp_path / "run.parquet")
    roles = {row.role: row for row in process_rows(Case(recording).processes, Case(recording).growth)}
    assert roles["python-fork"].count == WORKERS
    assert sum(row.pss_bytes for row in roles.values()) == pytest.approx(charged, rel=0.03)
    samples, tree = recording.tables["process_samples"], tree_growth(recording)
    settled_s = float(samples["time_s"][samples["time_mono_ns"].between(settled_ns, charged_ns)].median())
    assert level_at(tree.time_s, tree.held_bytes, settled_s) == pytest.approx(charged, rel=0.03)
    summed_rss = sum(row.rss_bytes for row in roles.values())
    assert summed_rss > 1.5 * charged, "what other tools add up says far too much"


def test_a_fork_makes_the_parents_share_be_read_again() -> None:
    """Its RSS stays as it was, and what it shares now would be counted twice."""
    program = "import os, sys; print(flush=True); sys.stdin.readline(); os.fork(); sys.stdin.read()"
    with subprocess.Popen([PYTHON, "-c", program], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdin is not None and parent.stdout is not None
        parent.stdout.readline()  # it runs, and does not grow any more
        tree = Tree(parent.pid, os.getpid())
        until(lambda: _memory_at(tree, 10.0).keys() == {parent.pid})
        assert _memory_at(tree, 10.5)[parent.pid] is None, "nothing has changed: too early for the next reading"
        parent.stdin.write(b"fork\n")
        parent.stdin.flush()
        tree.living[parent.pid].pss_cost_s = 0.0  # however slow this machine is
        until(lambda: tree.update(11.0, 11_000_000_000) is not None and len(tree.living) == 2)
        assert all(_memory_at(tree, 11.0).values())
        parent.stdin.close()


def _memory_at(tree: Tree, now_s: float) -> dict[int, int | None]:
    tree.update(now_s, round(now_s * 1e9))
    return {row["pid"]: row["pss_bytes"] for row in process_memory.rows(tree)}
