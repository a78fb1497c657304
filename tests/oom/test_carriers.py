"""One report in every form a person may have it in: the same kill comes out, and never one that a program wrote."""

from __future__ import annotations

import json
import textwrap
import time

import pytest

from leakscope import oom

REPORT = """\
tmux: server invoked oom-killer: gfp_mask=0x140dca(GFP_HIGHUSER_MOVABLE|__GFP_ZERO), order=0, oom_score_adj=0
CPU: 1 UID: 1000 PID: 880 Comm: tmux: server Not tainted 6.12.1 #1
memory: usage 1048576kB, limit 1048576kB, failcnt 12
[  pid  ]   uid  tgid total_vm      rss pgtables_bytes swapents oom_score_adj name
[    880]  1000   880     2000      500    65536        0             0 tmux: server
[    901]  1000   901   300000   260000  2166784        0             0 (train), x
oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/job,task_memcg=/job/a,task=(train), x,pid=901,uid=1000
Memory cgroup out of memory: Killed process 901 ((train), x) total-vm:1200000kB, anon-rss:1000000kB, file-rss:40000kB, shmem-rss:0kB, UID:1000 pgtables:2116kB oom_score_adj:0
""".splitlines()  # noqa: E501


def seconds(index: int) -> float:
    return 1000 + index / 10_000


def prefixed(prefix: str) -> str:
    return "\n".join(f"{prefix.format(s=seconds(i), us=int(seconds(i) * 1e6))}{line}" for i, line in enumerate(REPORT))


def journal(**fields: str) -> list[str]:
    return [json.dumps({**fields, "MESSAGE": line}) for line in REPORT]


def wrapped(width: int) -> str:
    lines = prefixed("[{s:12.6f}] ").splitlines()
    return "\n".join(line[k : k + width] for line in lines for k in range(0, len(line), width))


KERNEL = {"_TRANSPORT": "kernel", "SYSLOG_FACILITY": "0"}
PREFIXES = {
    "bare": "",
    "dmesg": "[{s:12.6f}] ",
    "with the caller": "[{s:12.6f}][ T6736] ",
    "with the caller apart": "[{s:12.6f}] [    C3] ",
    "dmesg -T": "[Sat Nov 21 04:36:13 2026] ",
    "dmesg -T in French": "[ven. nov. 21 04:36:13 2026] ",
    "dmesg -T in Chinese": "[四 3月 21 04:36:13 2026] ",
    "dmesg -x": "kern  :err   : [{s:12.6f}] ",
    "dmesg -r": "<3>[{s:12.6f}] ",
    "dmesg iso": "2026-11-21T04:36:13,794710+00:00 ",
    "dmesg reltime": "[  +0.000826] ",
    "syslog": "Nov 21 04:36:13 node7 kernel: [{s:12.6f}] ",
    "syslog without seconds": "Nov  1 04:36:13 node7 kernel: ",
    "syslog without a blank": "Nov 21 04:36:13 169 kernel:",
    "syslog in Russian": "ноя 21 04:36:13 node7 kernel: ",
    "rfc 5424": "<3>1 2026-11-21T04:36:13.794710+00:00 node7 kernel - - - [{s:12.6f}] ",
    "journal iso": "2026-11-21T04:36:13+0100 node7 kernel: ",
    "journal monotonic": "[{s:12.6f}] node7 kernel: ",
    "journal full": "Sat 2026-11-21 04:36:13 UTC node7 kernel: ",
    "/dev/kmsg": "3,500,{us},-,caller=T12;",
    "kubectl": "2026-11-21T04:36:13.794710123Z [{s:12.6f}] ",
    "quoted in a mail": "> > [{s:12.6f}] ",
    "grep": "/var/log/kern.log:Nov 21 04:36:13 node7 kernel: [{s:12.6f}] ",
    "busybox": "Sat Nov 21 04:36:13 2026 kern.err kernel: [{s:12.6f}] ",
    "colours": "\x1b[32m[{s:12.6f}] \x1b[0m\x1b[31m",
}
CARRIERS = {name: prefixed(prefix) for name, prefix in PREFIXES.items()} | {
    "dmesg -J": json.dumps({"dmesg": [{"pri": 3, "time": 1.5, "msg": line} for line in REPORT]}, indent=1),
    "journal json": "\n".join(journal(**KERNEL)),
    "journal sse": "\n\n".join(f"data: {line}" for line in journal(**KERNEL)),
    "journal numbers": json.dumps({**KERNEL, "MESSAGE": list("\n".join(REPORT).encode())}),
    "journal export": b"__CURSOR=s\n_TRANSPORT=kernel\nSYSLOG_FACILITY=0\nMESSAGE\n"
    + len("\n".join(REPORT)).to_bytes(8, "little") + "\n".join(REPORT).encode() + b"\n\n",
    "docker": "\n".join(json.dumps({"log": f"[ 12.345678] {line}\n", "stream": "stdout"}) for line in REPORT),
    "serial port of a cloud": json.dumps([{"textPayload": f"[ 12.345678] {line}\\r\\n"} for line in REPORT]),
    "rsyslog": "Nov 21 04:36:13 node7 kernel: " + "#012".join(REPORT),
    "crlf": "\r\n".join(REPORT),
    "utf-16": "\n".join(REPORT).encode("utf-16"),
    "other lines between": "\n".join(f"[ 12.345678] {line}\n[ 12.345679] veth3: renamed" for line in REPORT),
    "printed twice": prefixed("[{s:12.6f}] ") + "\n" + prefixed("[{s:12.6f}] "),
}  # fmt: skip


@pytest.mark.parametrize("name", CARRIERS)
def test_the_kill_is_the_same_in_every_carrier(name: str):
    reading = oom.read(CARRIERS[name])
    (event,) = reading.events
    assert (event.pid, event.comm, event.uid, event.oom_score_adj) == (901, "(train), x", 1000, 0)
    assert (event.constraint, event.cgroup, event.oom_cgroup) == ("memcg", "/job/a", "/job")
    assert (event.total_vm_kb, event.anon_rss_kb, event.file_rss_kb, event.pgtables_kb) == (
        1200000,
        1000000,
        40000,
        2116,
    )
    assert (event.invoked_by, event.tasks_in_dump, event.dump_rss_pages) == ("tmux: server", 2, 260500)
    assert (event.page_kb, event.limit_kb) == (4, 1048576)
    assert event.printed_times == (2 if name == "printed twice" else 1)
    assert not reading.invocations_without_kill


@pytest.mark.parametrize("width", [60, 80, 100, 150])
def test_wrapped_lines_give_the_same_numbers_or_none(width: int):
    (event,) = oom.read(wrapped(width)).events
    assert (event.pid, event.uid, event.anon_rss_kb, event.pgtables_kb) == (901, 1000, 1000000, 2116)
    assert (event.constraint, event.tasks_in_dump) == ("memcg", 2)
    assert event.oom_cgroup in (None, "/job") and event.dump_rss_pages in (None, 260500)


def test_words_wrapped_by_a_mail_program():
    lines = [textwrap.wrap(line, 72, break_long_words=False) for line in prefixed("[{s:12.6f}] ").splitlines()]
    (event,) = oom.read("\n".join(line for wrapped in lines for line in wrapped)).events
    assert (event.pid, event.comm, event.anon_rss_kb) == (901, "(train), x", 1000000)


OTHERS = {
    "a program in syslog": "Nov 21 04:36:13 node7 watcher[12]: ",
    "a program without pid": "Nov 21 04:36:13 node7 root: ",
    "a program in the kernel log": "[ 12.345678] watcher[12]: ",
    "dmesg -x, user": "user  :notice: [ 12.345678] ",
    "/dev/kmsg, facility 1": "12,500,12345678,-;",
    "a comment": "# ",
    "a comment with a stamp": "// [ 12.345678] ",
    "a string": 'line = "[ 12.345678] ',
    "a program's own log": "2026-11-21 04:36:13,123 INFO watcher: ",
    "a list of a document": "* `[ 12.345678] ",
    "prose": "It said: ",
}


@pytest.mark.parametrize("name", OTHERS)
def test_the_words_of_others_are_no_kill(name: str):
    reading = oom.read(prefixed(OTHERS[name]))
    assert not reading.events and not reading.invocations_without_kill


@pytest.mark.parametrize(
    "fields", [{**KERNEL, "SYSLOG_FACILITY": "1"}, {"_TRANSPORT": "stdout", "SYSLOG_FACILITY": "3"}]
)
def test_the_journal_knows_who_wrote(fields: dict[str, str]):
    assert not oom.read("\n".join(journal(**fields))).events


@pytest.mark.further
def test_a_long_log_is_read_in_linear_time():
    noise = ["[ 12.345678] veth3: renamed from eth0 " + "x" * 100] * 24_000 + [" " * 300 + "a" * 3000, "(" * 3000] * 500
    start = time.process_time()  # whatever else runs
    reading = oom.read("\n".join([*noise, *REPORT, *noise]))
    assert len(reading.events) == 1
    assert time.process_time() - start < 5
