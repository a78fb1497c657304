"""Descriptors, zombies and shared segments, read from processes that have them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from leakscope.recorder.sources import descriptors, shared_segments, unreaped
from leakscope.recorder.tree import Tree

pytestmark = pytest.mark.live

HOLDER = """
import os, subprocess, sys
files = [open(sys.argv[1]) for _ in range(30)]
children = [subprocess.Popen(["true"]) for _ in range(5)]
for child in children:
    os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOWAIT)
print("ready", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def tree(tmp_path: Path) -> Iterator[Tree]:
    """The tree of a process that has opened one file 30 times and has not waited for 5 children."""
    file = tmp_path / "part-7.csv"
    file.write_text("x")
    command = [sys.executable, "-c", HOLDER, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        tree = Tree(process.pid, os.getpid())
        tree.update(time.monotonic(), time.monotonic_ns())
        tree.living = {process.pid: tree.living[process.pid]}  # not the other children of the tests
        yield tree
        process.communicate()


def test_descriptors_by_path_and_only_when_their_number_changed(tree: Tree, tmp_path: Path) -> None:
    found = {row["fd_path"]: row["open_count"] for row in descriptors.rows(tree) if row["fd_kind"] == "file"}
    assert found[re.sub(r"\d+", "N", str(tmp_path / "part-7.csv"))] == 30
    tree.now_s += 60
    assert not list(descriptors.rows(tree))


def test_what_a_descriptor_is() -> None:
    assert descriptors.kind_of("socket:[4711]") == ("socket", None)
    assert descriptors.kind_of("anon_inode:[eventpoll]") == ("eventpoll", None)
    assert descriptors.kind_of("/tmp/a12 (deleted)") == ("deleted-file", "/tmp/aN")
    assert descriptors.kind_of("/dev/shm/torch_1_2_3") == ("shared-memory", "/dev/shm/torch_N_N_N")
    assert descriptors.kind_of("/dev/nvidia0")[0] == "device"


def test_zombies_belong_to_their_parent(tree: Tree) -> None:
    (row,) = unreaped.rows(tree)
    assert (row["pid"], row["zombie_count"], row["zombie_comm"]) == (tree.root_pid, 5, "true")
    assert not list(unreaped.rows(tree))


def test_a_new_segment_nobody_of_the_tree_maps(tree: Tree) -> None:
    before = {row["segment_name"]: row["segment_count"] for row in shared_segments.rows(tree)}
    segment = Path("/dev/shm/leakscopetest_x17")
    try:
        segment.write_bytes(bytes(3_000_000))
        tree.now_s += 60
        found = {row["segment_name"]: row for row in shared_segments.rows(tree)}
    finally:
        segment.unlink()
    assert "leakscopetest_*" not in before
    assert found["leakscopetest_*"]["unmapped_bytes"] >= 3_000_000
    tree.now_s += 60
    gone = {row["segment_name"]: row for row in shared_segments.rows(tree)}
    assert gone["leakscopetest_*"]["segment_bytes"] == 0


SYSTEM_V = """
import ctypes, sys
libc = ctypes.CDLL(None)
libc.shmat.restype, libc.shmdt.argtypes = ctypes.c_void_p, [ctypes.c_void_p]
size = 3_000_000
numbers = [libc.shmget(0, ctypes.c_size_t(size), 0o1600) for _ in range(3)]
print("made" if min(numbers) >= 0 else "refused", flush=True)
places = []
for number in numbers:
    places.append(libc.shmat(number, None, 0))
    ctypes.memset(places[-1], 1, size)
libc.shmdt(places[0])
libc.shmctl(numbers[2], 0, None)  # IPC_RMID: this one is gone when it is detached
print("attached", flush=True)
sys.stdin.read()
for number in numbers[:2]:
    libc.shmctl(number, 0, None)
"""


def test_system_v_segments_belong_to_who_made_them() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", SYSTEM_V], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        made = process.stdout.readline().strip()
        process.stdout.readline()
        tree = Tree(process.pid, os.getpid())
        tree.update(time.monotonic(), time.monotonic_ns())
        found = {row["segment_kind"]: row for row in shared_segments.rows(tree)}
        process.communicate()
    if made == "refused":
        pytest.skip("no System V segments can be made here")
    assert found["sysv"]["segment_name"] == f"made by {process.pid}"
    assert found["sysv"]["segment_count"] == 2
    assert found["sysv"]["segment_bytes"] >= 6_000_000
    assert 3_000_000 <= found["sysv"]["unmapped_bytes"] < 6_000_000, "one of the two is attached"
    assert found["sysv-removed"]["segment_count"] == 1
    assert found["sysv"]["mapped_by"] == str(process.pid)


@pytest.mark.parametrize(
    ("name", "pattern"),
    [
        ("psm_1a2b3c4d", "psm_*"),
        ("psm_ab12cd34", "psm_*"),
        ("torch_4242_77_0", "torch_*"),
        ("sem.mp-x7kq2", "sem.mp-*"),
        ("frames", "frames"),
        ("0abc", "*"),
    ],
)
def test_names_by_how_they_begin(name: str, pattern: str) -> None:
    assert shared_segments.pattern_of(name) == pattern
