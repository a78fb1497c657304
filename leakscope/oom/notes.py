"""What looks like an OOM kill and is none, and what the log leaves out: one sentence each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .events import Invocation, OomEvent
from .records import Record

# (a word that must be in the line, its pattern, what it is). None of these says that a process was killed.
_FRIENDS = (
    ("emory", r"(?i)\b(?:CUDA|HIP)(?: error: | )out of memory|error=2 : out of memory|OutOfMemoryError: CUDA",
     "GPU memory ran out: an error in the program, no kill of a process"),
    ("OOM", r"OOM when allocating tensor", "GPU memory ran out: an error in the program, no kill of a process"),
    ("NVRM", r"NVRM: .*out of memory", "the GPU driver ran out of memory"),
    ("MemoryError", r"\bMemoryError\b", "a Python MemoryError: an allocation was refused, no kill"),
    ("OutOfMemoryError", r"java\.lang\.OutOfMemoryError", "the Java heap is full: an error in the program, no kill"),
    ("bad_alloc", r"std::bad_alloc", "a C++ allocation was refused (std::bad_alloc), no kill"),
    ("annot allocate", r"Cannot allocate memory", "an allocation was refused (ENOMEM): a limit such as ulimit -v or "
     "overcommit, no kill"),
    ("Bus error", r"killed by signal: Bus error", "a bus error in a worker: /dev/shm was full, which is no OOM kill"),
    ("killed by signal", r"is killed by signal: Killed", "a worker got SIGKILL; by whom, this line does not say"),
    ("page allocation", r"page allocation failure|\d-order allocation failed", "a page allocation failed: a warning of "
     "the kernel, nobody is killed by it"),
    ("allocation failure", r"vmalloc: allocation failure", "a vmalloc failed: a warning, nobody is killed by it"),
    ("SLUB", r"SLUB: Unable to allocate", "the slab allocator was refused memory: a warning, nobody is killed by it"),
    ("TCP", r"TCP: out of memory", "TCP buffers reached net.ipv4.tcp_mem: no kill"),
    ("MCE", r"MCE: Killing .* due to hardware memory corruption", "a process was killed for broken memory hardware, "
     "not for want of memory"),
    ("Under memory pressure", r"Under memory pressure, flushing caches", "journald gave its caches back: no kill"),
    ("SIGTERM when mem", r"sending SIGTERM when mem <=", "earlyoom says at its start when it would kill: no kill"),
    ("Considered", r"Considered \d+ cgroups for killing", "systemd-oomd lists candidates: no kill by itself"),
    ("VM: killing", r"VM: killing process", "Linux 2.4 ended a process; its words say no more"),
    ("tasks/oom", r"topic=\"?/tasks/oom", "containerd saw an OOM in one of its containers; the kernel log says whose"),
    ("OUT_OF_ME", r"\bOUT_OF_ME(?:MORY|\+)", "Slurm gives the state OUT_OF_MEMORY"),
    ("137", r"(?i)\"?exit[ _]?code\"?: ?137\b", "exit status 137 is SIGKILL: whether for memory is unknown"),
    ("callbacks suppressed", r"oom_kill_process: \d+ callbacks suppressed", "the kernel left out reports (rate limit): "
     "kill lines without a table are normal here"),
    ("already exiting", r"OOM victim \d+ .* is already exiting", "a victim was ending already: no kill"),
    ("audit", r"\bsig=31\b", "SIGSYS from seccomp is no OOM kill"),
)  # fmt: skip
_COMPILED = tuple((word, re.compile(pattern), what) for word, pattern, what in _FRIENDS)


def notes(records: Sequence[Record], events: list[OomEvent], invocations: list[Invocation]) -> list[str]:
    """Sentences, each with the line it is about; the same kind is said once, with a count."""
    found = [*_friends(records), *_written_by_others(records), *_about_kills(events, invocations)]
    if not events and not invocations:
        found.append(_nothing_found(records))
    return found


def _friends(records: Sequence[Record]) -> list[str]:
    first: dict[str, tuple[int, int]] = {}
    for record in records:
        text = record.text
        for word, pattern, what in _COMPILED:
            if word in text and pattern.search(text[:2000]):
                line_number, count = first.get(what, (record.line_number, 0))
                first[what] = line_number, count + 1
    return [
        f"line {line}{f' and {count - 1} more' if count > 1 else ''}: {what}" for what, (line, count) in first.items()
    ]


def _written_by_others(records: Sequence[Record]) -> list[str]:
    """The kernel's words from another writer: user space cannot write as the kernel, so these are no evidence."""
    words = re.compile(r"(?:Memory cgroup out|Out) of memory: Kill(?:ed)? process \d|Killed process \d+ \(")
    lines = [record.line_number for record in records if record.is_kernel is False and words.search(record.text[:2000])]
    if not lines:
        return []
    return [
        f"line {lines[0]}: a program, not the kernel, wrote words of an OOM kill ({len(lines)} in all): not counted"
    ]


def _about_kills(events: list[OomEvent], invocations: list[Invocation]) -> list[str]:
    found = []
    for invocation in invocations:
        how = invocation.end or "the log ends or was cut before the kill line"
        found.append(
            f"line {invocation.line_number}: {invocation.invoked_by} invoked the OOM killer, no kill follows: {how}"
        )
    words = {
        event.constraint_word for event in events if event.constraint_word and event.constraint_basis != "oom-kill line"
    }
    found += [f"the kernel names a constraint this version does not know: {word}" for word in sorted(words)]
    if any(event.time_kind == "syslog" for event in events):
        found.append("the times are without year and zone")
    return found


def _nothing_found(records: Sequence[Record]) -> str:
    times = [record.kernel_time_s for record in records if record.is_kernel is not False and record.kernel_time_s]
    begins = f" It begins {times[0]:.0f} s after boot: older messages are gone." if times and times[0] > 60 else ""
    return (
        f"no OOM kill in this text.{begins} To be sure, look where the kernel writes: sudo dmesg -T, or, after a "
        "reboot, sudo journalctl -k -b -1; `grep oom_kill /proc/vmstat` counts kills since boot, for every user"
    )
