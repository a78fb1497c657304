"""Logs with a known reading: our own, and any folder of more that LEAKSCOPE_OOM_LOGS names."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from leakscope import oom

FIXTURES = Path(__file__).parents[2] / "fixtures" / "oom-logs"


def logs() -> list[tuple[Path, Path]]:
    ours = [(e.with_name(e.name.removesuffix(".expected.json")), e) for e in sorted(FIXTURES.glob("*.expected.json"))]
    more = os.environ.get("LEAKSCOPE_OOM_LOGS")
    found = sorted(Path(more).glob("*.expected.json")) if more else []
    return ours + [(e.with_name(e.name.replace(".expected.json", ".log")), e) for e in found]


@pytest.mark.parametrize(("log", "expected"), logs(), ids=lambda path: path.name)
def test_the_reading_says_what_the_log_says(log: Path, expected: Path):
    wanted = json.loads(expected.read_text())
    got = oom.as_json(oom.read(log.read_bytes()))
    for kind in ("events", "invocations_without_kill"):
        assert [{key: event[key] for key in want} for event, want in zip(got[kind], wanted[kind])] == wanted[kind]
        assert len(got[kind]) == len(wanted[kind])


def text_of(name: str) -> str:
    return oom.as_text(oom.read((FIXTURES / name).read_bytes()))


def test_a_victim_that_held_little_is_not_blamed():
    text = text_of("cpuset-64k-not-the-hog.log")
    assert "killed sshd (pid 801)" in text and "cpuset gpu0" in text
    assert "trainer 18.9 GiB in 2 processes" in text and "trainer held more" in text


def test_a_group_kill_is_told_as_one():
    text = text_of("group-kill-wrapped.log")
    assert "Killed with it: make (3001)." in text and "memory.oom.group" in text


def test_what_looks_like_a_kill_is_named_for_what_it_is():
    reading = oom.read((FIXTURES / "no-kill.log").read_bytes())
    said = "\n".join(reading.notes)
    for words in (
        "tcp_mem",
        "page allocation",
        "at its start",
        "GPU memory",
        "/dev/shm",
        "not counted",
        "no kill follows",
    ):
        assert words in said
    assert not reading.events


def test_an_empty_text_says_how_to_be_sure():
    reading = oom.read(b"")
    assert not reading.events and "journalctl -k -b -1" in reading.notes[-1]


def test_memory_that_no_process_holds_is_named():
    (event,) = oom.read(SHARED_MEMORY).events
    said = " ".join(oom.describe(event))
    assert "belong to no process" in said and "shared memory (/dev/shm, tmpfs)" in said


SHARED_MEMORY = """\
[ 10.000001] python invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=0
[ 10.000002] memory: usage 102400kB, limit 102400kB, failcnt 9
[ 10.000003] Memory cgroup stats for /job:
[ 10.000004] anon 4096000
[ 10.000005] shmem 98304000
[ 10.000006] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[ 10.000007] [    700]     0   700     3000     1000    61440        0             0 python
[ 10.000008] oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),oom_memcg=/job,\
task_memcg=/job,task=python,pid=700,uid=0
[ 10.000009] Memory cgroup out of memory: Killed process 700 (python) total-vm:12000kB, anon-rss:3000kB, \
file-rss:1000kB, shmem-rss:0kB, UID:0 pgtables:60kB oom_score_adj:0
"""
