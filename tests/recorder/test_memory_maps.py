"""Mappings of a process, by kind and file."""

from __future__ import annotations

import mmap
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from leakscope.recorder.sources import memory_maps
from leakscope.recorder.tree import Tree

from .runs import until

MiB = 1 << 20


def maps_of_this_process() -> dict[tuple[str, str | None], dict[str, int]]:
    return memory_maps._by_kind(os.getpid())


def test_a_changed_private_mapping_is_told_from_one_that_was_only_read(tmp_path: Path) -> None:
    file = tmp_path / "data.bin"
    file.write_bytes(b"x" * 4 * MiB)
    with file.open("r+b") as stream:
        mapped = mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_COPY)
    assert mapped[:].count(b"x") == 4 * MiB
    figures = maps_of_this_process()["file", str(file)]
    assert figures["map_rss_bytes"] >= 4 * MiB and figures["map_private_dirty_bytes"] < MiB
    for at in range(0, 4 * MiB, 4096):
        mapped[at] = 0
    assert maps_of_this_process()["file", str(file)]["map_private_dirty_bytes"] >= 4 * MiB
    file.unlink()
    assert ("deleted-file", str(file)) in maps_of_this_process()
    mapped.close()


def test_anonymous_memory_has_no_path_and_small_files_are_put_together() -> None:
    block = mmap.mmap(-1, 8 * MiB, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    block.write(b"x" * 8 * MiB)
    found = maps_of_this_process()
    assert found["anonymous", None]["map_rss_bytes"] >= 8 * MiB
    assert found["file", None]["map_count"] > 1
    block.close()


@pytest.mark.live
def test_a_young_process_and_one_just_read_are_left_alone() -> None:
    child = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    try:
        tree = Tree(child.pid, os.getpid())
        list(tree.update(10.0, 10_000_000_000))
        assert not list(memory_maps.rows(tree))
        list(tree.update(12.0, 12_000_000_000))
        rows = list(memory_maps.rows(tree))
        assert {row["map_kind"] for row in rows} >= {"anonymous", "file"}
        assert {row["pid"] for row in rows} == {child.pid}
        list(tree.update(12.5, 12_500_000_000))
        assert not list(memory_maps.rows(tree))
    finally:
        child.communicate()


def _are_found(tree: Tree, count: int) -> bool:
    tree.update(10.0, 10_000_000_000)
    return len(tree.living) == count


@pytest.mark.live
def test_many_new_processes_get_their_turns_in_several_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory_maps, "ROUND_S", 0.0)  # one a round, however fast this machine is
    script = "import os, sys\nfor _ in range(4): os.fork() or os.execlp('sleep', 'sleep', '60')\nsys.stdin.read()"
    child = subprocess.Popen([sys.executable, "-c", script], stdin=subprocess.PIPE, start_new_session=True)
    try:
        tree = Tree(child.pid, os.getpid())
        until(lambda: _are_found(tree, 5))
        seen = []
        for second in range(12, 17):
            tree.now_s = float(second)
            (pid,) = {row["pid"] for row in memory_maps.rows(tree)}
            seen.append(pid)
        assert sorted(seen) == sorted(tree.living), "each got its turn before anyone a second one"
    finally:
        os.killpg(child.pid, signal.SIGKILL)
        child.communicate()
