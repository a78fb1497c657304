"""Figures of the machine and of cgroups, from files as kernels write them, and the alarms they give."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from leakscope.recorder import proc
from leakscope.recorder.limits import Limits
from leakscope.recorder.sources import cgroup_memory, load
from leakscope.recorder.tree import Tree
from leakscope.schema import TABLES

GIB = 1 << 30


def tree_in(*cgroups: str) -> Tree:
    """A tree whose processes live, or lived, in these cgroups."""
    tree = Tree(1, 1)
    tree.cgroups.update(dict.fromkeys(cgroups))
    return tree


@pytest.fixture
def mounted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """Makes a folder pass for the cgroup file system of a version, whose top is the cgroup ``top``."""

    def mount(is_v2: bool, top: str = "/") -> Path:
        monkeypatch.setattr(cgroup_memory, "find_mount", lambda: cgroup_memory.Mount(str(tmp_path), top, is_v2))
        return tmp_path

    return mount


def write(folder: Path, **files: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / name.replace("__", ".")).write_text(text)


def test_every_source_is_a_table_of_the_schema() -> None:
    assert {source.TABLE for source in load()} >= {"process_samples", "host_samples", "cgroup_samples"}
    assert all(source.TABLE in TABLES and callable(source.rows) for source in load())


def test_cgroup_v2(mounted: Callable[..., Path]) -> None:
    top = mounted(is_v2=True)
    write(top / "pod", memory__current="700\n", memory__max="1000\n", memory__high="max\n")
    write(
        top / "pod" / "train",
        memory__current="600\n",
        memory__peak="650\n",
        memory__max="max\n",
        memory__high="900\n",
        memory__stat="anon 100\nfile 400\nkernel 7\nshmem 50\n",
        memory__events="low 0\nhigh 0\nmax 3\noom 2\noom_kill 1\noom_group_kill 0\n",
        memory__pressure="some avg10=1.50 avg60=0.00 avg300=0.00 total=1\nfull avg10=0.25 avg60=0 avg300=0 total=1\n",
    )
    inner, outer = list(cgroup_memory.rows(tree_in("/pod/train", "/pod/train")))
    assert inner == {
        "cgroup": "/pod/train",
        "current_bytes": 600,
        "cgroup_peak_bytes": 650,
        "limit_bytes": None,
        "high_bytes": 900,
        "cgroup_anon_bytes": 100,
        "cgroup_file_bytes": 400,
        "cgroup_shmem_bytes": 50,
        "oom_kill_count": 1,
        "oom_count": 2,
        "psi_some_avg10": 1.5,
        "psi_full_avg10": 0.25,
    }
    assert (outer["cgroup"], outer["limit_bytes"], outer["high_bytes"]) == ("/pod", 1000, None)


def test_cgroup_v1_in_a_container_that_sees_its_own_part_only(mounted: Callable[..., Path]) -> None:
    top = mounted(is_v2=False, top="/docker/abc")
    write(
        top,
        memory__usage_in_bytes="600\n",
        memory__limit_in_bytes="9223372036854771712\n",
        memory__stat="cache 1\nrss 2\nshmem 3\ntotal_cache 40\ntotal_rss 50\ntotal_shmem 6\n",
        memory__oom_control="oom_kill_disable 0\nunder_oom 0\noom_kill 4\n",
    )
    for path in ("/docker/abc", "/", "/elsewhere"):
        (row,) = cgroup_memory.rows(tree_in(path))
        assert (row["cgroup"], row["current_bytes"], row["limit_bytes"]) == ("/docker/abc", 600, None)
        assert (row["cgroup_file_bytes"], row["cgroup_anon_bytes"], row["cgroup_shmem_bytes"]) == (40, 50, 6)
        assert (row["oom_kill_count"], row["oom_count"]) == (4, None)


def test_proc_stat_of_a_process_with_a_wicked_name(monkeypatch: pytest.MonkeyPatch) -> None:
    fields = b"S 7 1 1 0 -1 0 0 0 0 0 150 50 0 0 20 0 3 0 4711 1000 10"
    monkeypatch.setattr(proc, "read", lambda path: b"42 (a) (b c) " + fields)
    stat = proc.stat(42)
    assert stat is not None
    assert (stat.comm, stat.state, stat.ppid, stat.thread_count, stat.start_ticks) == ("a) (b c", "S", 7, 3, 4711)
    assert stat.cpu_s == pytest.approx(200 / proc.TICKS_PER_S)


def host(used_gib: float, kills: int = 0) -> dict[str, Any]:
    available = int((100 - used_gib) * GIB)
    return {"mem_total_bytes": 100 * GIB, "mem_available_bytes": available, "oom_kill_count": kills}


def cgroup(used_gib: float, limit_gib: float | None, cache_gib: float = 0.0, shmem_gib: float = 0.0) -> dict[str, Any]:
    return {
        "cgroup": "/job",
        "current_bytes": int((used_gib + cache_gib) * GIB),
        "limit_bytes": None if limit_gib is None else int(limit_gib * GIB),
        "cgroup_file_bytes": int((cache_gib + shmem_gib) * GIB),
        "cgroup_shmem_bytes": int(shmem_gib * GIB),
        "oom_kill_count": 0,
    }


def test_each_level_is_announced_once_and_again_only_after_relief() -> None:
    limits = Limits()
    used = (50, 84, 86, 90, 83, 86, 96, 99, 94, 96, 70, 86)
    alarms = [limits.look_at([host(gib)], []) for gib in used]
    assert [gib for gib, alarm in zip(used, alarms) if alarm] == [84, 86, 96, 86]
    assert alarms[2][0].event == "pressure"
    assert alarms[2][0].text == "memory under pressure: 86% of the limit is used, host"


def test_page_cache_is_no_pressure_but_shared_memory_is() -> None:
    assert Limits().look_at([], [cgroup(1, 10, cache_gib=9)]) == []
    assert len(Limits().look_at([], [cgroup(9, 10, shmem_gib=9)])) == 1
    assert Limits().look_at([], [cgroup(9, None)]) == []


def test_the_limit_with_the_least_room_is_the_nearest() -> None:
    limits = Limits()
    limits.look_at([host(50)], [cgroup(10, 30)])
    assert limits.nearest is not None
    assert (limits.nearest.name, limits.nearest.room_bytes) == ("cgroup /job", 20 * GIB)


def test_only_new_kills_count() -> None:
    limits = Limits()
    assert limits.look_at([host(1, kills=5)], []) == []
    (alarm,) = limits.look_at([host(1, kills=7)], [])
    assert (alarm.event, alarm.value) == ("oom-kill-counter", 2.0)
    assert limits.look_at([host(1, kills=7)], []) == []
