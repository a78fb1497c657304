"""What grep, an alert, a mail or a person leaves of a log: the kill is told by what is left, and nothing is made up."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from leakscope import oom

OOM_KILL = (
    "oom-kill:constraint=CONSTRAINT_{word},nodemask=(null),cpuset=/,mems_allowed=0,{limit},task_memcg=/job/a,"
    "task={task},pid={pid},uid=1000"
)
KILLED = (
    "Memory cgroup out of memory: Killed process 3000 (python) total-vm:56000kB, anon-rss:50000kB, file-rss:1200kB, "
    "shmem-rss:0kB, UID:0 pgtables:140kB oom_score_adj:0"
)


def oom_kill(pid: int = 4242, task: str = "python", word: str = "MEMCG", limit: str = "oom_memcg=/job") -> str:
    return OOM_KILL.format(pid=pid, task=task, word=word, limit=limit)


def said(text: str) -> str:
    return oom.as_text(oom.read(text))


@pytest.mark.parametrize(
    "prefix", ["", "[812345.123456] ", "Nov 28 03:12:44 gpu7 kernel: [812345.123456] ", "Nov 28 03:12:44 gpu7 "]
)
def test_the_oom_kill_line_alone_is_a_kill(prefix: str):
    (event,) = oom.read(prefix + oom_kill()).events
    assert (event.pid, event.comm, event.uid) == (4242, "python", 1000)
    assert (event.constraint, event.oom_cgroup, event.cgroup) == ("memcg", "/job", "/job/a")
    assert (event.anon_rss_kb, event.total_vm_kb) == (None, None)


def test_it_is_one_where_its_middle_was_left_out():
    (event,) = oom.read("oom-kill:constraint=CONSTRAINT_MEMCG,...,task=python,pid=4242,uid=0\n").events
    assert (event.pid, event.comm, event.uid, event.constraint, event.oom_cgroup) == (4242, "python", 0, "memcg", None)


def test_each_of_several_is_one():
    text = "\n".join(f"[{100 * n}.500000] {oom_kill(pid=4000 + n, task=f'rank{n}')}" for n in range(1, 4))
    assert [(event.pid, event.comm) for event in oom.read(text).events] == [
        (4001, "rank1"),
        (4002, "rank2"),
        (4003, "rank3"),
    ]


def test_beside_its_kill_line_it_is_the_same_kill():
    both = f"[ 100.000008] {oom_kill(pid=3000)}\n[ 100.000010] {KILLED}\n"
    (event,) = oom.read(both).events
    assert (event.pid, event.anon_rss_kb, event.oom_cgroup) == (3000, 50000, "/job")
    (event,) = oom.read(both + f"[ 100.000008] {oom_kill(pid=3000)}\n").events  # grep printed it again
    assert event.pid == 3000


def test_whom_it_names_is_no_second_victim_where_a_child_died_in_its_place():
    child = "Killed process 9155 (pt_data) total-vm:9kB, anon-rss:8kB, file-rss:0kB"
    text = f"[ 9.000001] {oom_kill(pid=9101)}\n[ 9.000002] {child}\n"
    (event,) = oom.read(text).events
    assert event.pid == 9155


SHORTENED = {
    "Killed process 3864781 (python) anon-rss:..": None,
    "Killed process 3864781 (python) anon-rss:63812345kB": 63812345,
    "Out of memory: Killed process 3864781 (python) anon-rss:63812345kB, file-rss:0kB": 63812345,
    "Out of memory: Killed process 3864781 (python) ... anon-rss:63812345kB, ...": 63812345,
    "Out of memory: Killed process 3864781 (python) total-vm:.., anon-rss:61GB": None,
    "Out of memory: Killed process 3864781 (python), UID 1000, total-vm..., anon-rss:63812345kB": 63812345,
    "Killed process 3864781 (python), anon-rss: 61GiB": None,
}


@pytest.mark.parametrize(("line", "anon_rss_kb"), SHORTENED.items())
def test_a_shortened_kill_line_tells_its_victim(line: str, anon_rss_kb: int | None):
    (event,) = oom.read(line).events
    assert (event.pid, event.comm, event.anon_rss_kb) == (3864781, "python", anon_rss_kb)
    assert event.total_vm_kb is None


def test_a_bystander_is_not_the_victim_of_a_shortened_line():
    text = (
        "[Tue Mar 11 09:12:01 2025] Runner.Listener invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER), order=0\n"
        "[Tue Mar 11 09:12:01 2025] Out of memory: Killed process 3864781 (python) anon-rss:63812345kB\n"
    )
    reading = oom.read(text)
    assert [event.comm for event in reading.events] == ["python"]
    assert not reading.invocations_without_kill


def test_the_limit_of_a_cgroup_stays_where_the_kernel_names_no_constraint():
    """4.19 to 5.0 print CONSTRAINT_NONE for all."""
    text = f"""\
[ 100.000001] a.out invoked oom-killer: gfp_mask=0x6000c0(GFP_KERNEL), nodemask=(null), order=0, oom_score_adj=0
[ 100.000002] memory: usage 51200kB, limit 51200kB, failcnt 32
[ 100.000003] [  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[ 100.000004] [   3000]     0  3000    14000    12800   155648        0             0 a.out
[ 100.000005] {oom_kill(3000, "a.out", "NONE", "oom_memcg=/test1").replace("/job/a", "/test1")}
[ 100.000006] Memory cgroup out of memory: Kill process 3000 (a.out) score 995 or sacrifice child
[ 100.000007] Killed process 3000 (a.out) total-vm:56000kB, anon-rss:50000kB, file-rss:1200kB, shmem-rss:0kB
"""
    reading = oom.read(text)
    (event,) = reading.events
    assert (event.constraint, event.oom_cgroup, event.limit_kb) == ("memcg", "/test1", 51200)
    assert "/test1" in said(text) and "50.0 MiB" in said(text)
    assert not reading.invocations_without_kill
    global_one = oom.read(oom_kill(word="NONE", limit="global_oom")).events[0]
    assert (global_one.constraint, global_one.oom_cgroup) == ("global", None)


def test_a_part_of_the_report_is_not_told_as_none():
    usage = "memory: usage 51200kB, limit 51200kB, failcnt 32"
    text = f"[ 1.000001] {usage}\n[ 1.000002] {oom_kill(3000)}\n[ 1.000003] {KILLED}\n"
    assert "Only the kill line" not in said(text) and "no table" in said(text)
    assert "Only the kill line" in said(KILLED)


MAIL = """\
Subject: [BUG] training is killed
Content-Transfer-Encoding: quoted-printable

It is my caf=C3=A9's machine.
[  100.000001] python invoked oom-killer: gfp_mask=3D0xcc0(GFP_KERNEL), order=
=3D0, oom_score_adj=3D0
[  100.000002] memory: usage 51200kB, limit 51200kB, failcnt 32
[  100.000008] oom-kill:constraint=3DCONSTRAINT_MEMCG,nodemask=3D(null),cpuset=
=3D/,mems_allowed=3D0,oom_memcg=3D/test1,task_memcg=3D/test1,task=3Dpython,pid=
=3D3000,uid=3D0
[  100.000010] Memory cgroup out of memory: Killed process 3000 (python) total-=
vm:56000kB, anon-rss:50000kB, file-rss:1200kB, shmem-rss:0kB, UID:0 pgtables:14=
0kB oom_score_adj:0
--=_boundary--
"""


@pytest.mark.parametrize("end", ["\n", "\r\n"])
def test_a_mail_in_quoted_printable_is_read(end: str):
    (event,) = oom.read(MAIL.replace("\n", end)).events
    assert (event.pid, event.line_number, event.uid, event.pgtables_kb) == (3000, 11, 0, 140)
    assert (event.oom_cgroup, event.limit_kb, event.invoked_by) == ("/test1", 51200, "python")


def test_what_is_no_quoted_printable_stays():
    (event,) = oom.read(f"[ 1.000001] {oom_kill(task='a=20b=')}\n").events
    assert event.comm == "a=20b="


EARLYOOM = """\
Jun 12 06:39:16: mem avail:  1535 of 15887 MiB ( 9.66%), swap free:    0 of 2047 MiB ( 0.00%)
Jun 12 06:39:16: low memory! at or below SIGTERM limits: mem 10.00%, swap 10.00%
Jun 12 06:39:16: sending SIGTERM to process 23445 uid 1000 "python": badness 1345, VmRSS 9123 MiB
Jun 12 06:39:18: process exited after 1.8 seconds
"""


def test_earlyoom_is_read_from_a_file_of_its_own():
    (event,) = oom.read(EARLYOOM).events
    assert (event.killer, event.pid, event.comm, event.uid) == ("earlyoom", 23445, "python", 1000)
    assert (event.vm_rss_mib, event.signal, event.outcome) == (9123, "SIGTERM", "exited after 1.8 seconds")
    assert event.time == "Jun 12 06:39:16"
    (event,) = oom.read('Jun 12 06:39:16: sending SIGTERM to process 23445 uid 1000 "python"\n').events
    assert (event.pid, event.vm_rss_mib) == (23445, None)


LMKD = (
    "06-12 09:41:22.123   512   512 I lowmemorykiller: Kill 'com.example.app' (12345), uid 10123, oom_score_adj 905 to "
    "free 84512kB rss, 12000kB swap; reason: low watermark is breached\n"
)


def test_androids_killer_is_read():
    (event,) = oom.read(LMKD).events
    assert (event.killer, event.pid, event.comm, event.oom_score_adj) == ("lmkd", 12345, "com.example.app", 905)
    assert event.vm_rss_mib == 82 and "Android" in said(LMKD)
    assert not oom.read("Kill 'com.example.app' (12345), uid 10123, oom_score_adj 905\n").events  # whoever wrote that


UNREAD = {
    "nohang": "2025-03-11 10:11:12,300: Sending SIGTERM to the victim\n",
    "FreeBSD": "Nov 28 03:12:44 nas kernel: pid 4242 (python), jid 0, uid 1001, was killed: failed to reclaim memory\n",
    "Slurm": "slurmstepd: error: Job 881 exceeded memory limit (8392704 > 8388608), being killed\n",
    "Android": "06-12 09:41:22.123   512   512 I lowmemorykiller: lmkd data connection established; killed 3 so far\n",
    "": "node7 guardd: memory above 95 %, pid 4242 was killed\n",
}


@pytest.mark.parametrize(("killer", "line"), UNREAD.items())
def test_what_is_not_understood_is_never_no_kill(killer: str, line: str):
    reading = oom.read(f"a line\n{line}and one more\n")
    assert not reading.events and reading.unread_lines == [2]
    text = oom.as_text(reading)
    assert "No OOM kill" not in text and line.split(": ", 1)[1].strip()[:40] in text
    assert killer in text and "line 2" in text


def test_lines_that_are_not_understood_are_counted_beside_kills():
    reading = oom.read(f"{KILLED}\n{UNREAD['']}{UNREAD['']}{UNREAD['nohang']}")
    assert len(reading.events) == 1 and reading.unread_lines == [2, 3, 4]
    assert "line 2 and 1 more" in oom.as_text(reading) and "nohang" in oom.as_text(reading)


CALM = """\
[ 1000.000001] Call Trace:
[ 1000.000002]  oom_kill_process+0xe9/0x160
[ 1000.000003] oom_kill_process: 12 callbacks suppressed
oom_kill 0
vm.oom_kill_allocating_task = 0
TCP: out of memory -- consider tuning tcp_mem
"""


def test_what_is_known_to_be_no_kill_is_understood():
    reading = oom.read(CALM)
    assert not reading.unread_lines and "No OOM kill in this text" in reading.notes[-1]


@pytest.mark.live
def test_the_document_counts_what_was_not_understood():
    done = subprocess.run(
        [sys.executable, "-m", "leakscope", "oom", "-", "--format", "json"], input=UNREAD["nohang"].encode(),
        capture_output=True, check=True,
    )  # fmt: skip
    assert json.loads(done.stdout)["unread_lines"] == [1]
