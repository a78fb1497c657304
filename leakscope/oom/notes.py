"""What looks like an OOM kill and is none, and what the log leaves out: one sentence each."""

from __future__ import annotations

import re
from collections.abc import Sequence

from .events import Invocation, OomEvent
from .records import Record
from .unread import killer_of


def _compiled(kinds: Sequence[tuple[str, str, str]]) -> list[tuple[str, re.Pattern[str], str]]:
    return [(word, re.compile(pattern), what) for word, pattern, what in kinds]


# (a word that must be in the line, its pattern, what it is). None of these says that a process was killed.
_FRIENDS = _compiled((
    ("emory", r"(?i)\b(?:CUDA|HIP)(?: error: | )out of memory|error=2 : out of memory|OutOfMemoryError: CUDA",
     "GPU memory ran out: an error in the program, no kill"),
    ("OOM", r"OOM when allocating tensor", "GPU memory ran out: an error in the program, no kill"),
    ("NVRM", r"NVRM: .{0,300}out of memory", "the GPU driver ran out of memory"),
    ("MemoryError", r"\bMemoryError\b", "a Python MemoryError: an allocation was refused, no kill"),
    ("OutOfMemoryError", r"java\.lang\.OutOfMemoryError", "the Java heap is full: an error in the program, no kill"),
    ("bad_alloc", r"std::bad_alloc", "a C++ allocation was refused (std::bad_alloc), no kill"),
    ("annot allocate", r"Cannot allocate memory", "an allocation was refused (ENOMEM): a limit such as ulimit -v or "
     "overcommit, no kill"),
    ("Bus error", r"killed by signal: Bus error", "a bus error in a worker: /dev/shm was full, which is no OOM kill"),
    ("page allocation", r"page allocation failure|\d-order allocation failed",
     "a page allocation failed: a kernel warning, no kill"),
    ("allocation failure", r"vmalloc: allocation failure", "a vmalloc failed: a warning, no kill"),
    ("SLUB", r"SLUB: Unable to allocate", "the slab allocator was refused memory: a warning, no kill"),
    ("TCP", r"TCP: out of memory", "TCP buffers reached net.ipv4.tcp_mem: no kill"),
    ("MCE", r"MCE: Killing .{0,100} due to hardware memory corruption", "a process was killed for broken memory "
     "hardware, not for lack of memory"),
    ("Under memory pressure", r"Under memory pressure, flushing caches", "journald gave its caches back: no kill"),
    ("SIGTERM when mem", r"sending SIGTERM when mem <=", "earlyoom says at its start when it would kill: no kill"),
    ("Considered", r"Considered \d+ cgroups for killing", "systemd-oomd lists candidates: no kill by itself"),
    ("VM: killing", r"VM: killing process", "Linux 2.4 ended a process; its message says no more"),
    ("tasks/oom", r"topic=\"?/tasks/oom", "containerd saw an OOM in one of its containers; the kernel log says whose"),
    ("OUT_OF_ME", r"\bOUT_OF_ME(?:MORY|\+)", "Slurm gives the state OUT_OF_MEMORY"),
    ("callbacks suppressed", r"oom_kill_process: \d+ callbacks suppressed", "the kernel left out reports (rate limit): "
     "kill lines without a table are normal here"),
    ("already exiting", r"OOM victim \d+ .{0,100} is already exiting", "a victim was ending already: no kill"),
    ("audit", r"\bsig=31\b", "SIGSYS from seccomp is no OOM kill"),
))  # fmt: skip
# These show a SIGKILL, and not who sent it: the answer is then neither yes nor no.
_SIGKILLS = _compiled((
    ("killed by signal", r"is killed by signal: Killed", "a worker got SIGKILL; by whom, this line does not say"),
    ("9/KILL", r"code=killed, status=9/KILL", "a unit's process got SIGKILL; by whom, this line does not say"),
    ("Killed", r"^(?:\S+: line \d+: +\d+ |\[\d+\]\+? +\d* *)?Killed\b(?! process| /)", "a shell says that "
     "something got SIGKILL; by whom, it does not say"),
    ("137", r"(?i)\"?exit[ _]?code\"?: ?137\b", "exit status 137 is SIGKILL: whether for memory is unknown"),
))  # fmt: skip
_KERNELS_WORDS = re.compile(
    r"(?:Memory cgroup out|Out) of memory: Kill(?:ed)? process \d|Killed process \d+ \(|oom-kill:\s*constraint="
)
_LONGEST_QUOTE = 160  # characters
_REAPED = re.compile(r"oom_reaper: reaped process (\d+) \((.{1,32}?)\), now anon-rss")


def notes(
    records: Sequence[Record], events: list[OomEvent], invocations: list[Invocation], unread: Sequence[Record]
) -> list[str]:
    """Sentences, each with the line it is about; the same kind is said once. Without a kill the last is the answer.

    ``unread``: records that speak of a kill in words nobody here knows.
    """
    found = [*_seen(records, _FRIENDS), *_written_by_others(records), *_about_kills(events, invocations)]
    found += [*_reaped(records, events), *_not_read(unread)]
    if not events:
        sigkills = _seen(records, _SIGKILLS)
        found += [*sigkills, _answer(records, invocations, bool(sigkills), len(unread))]
    return found


def knows(record: Record) -> bool:
    """Whether a note tells what such a line is."""
    text = record.text[:2000]
    if record.is_kernel is False and _KERNELS_WORDS.search(text):
        return True
    return any(word in text and pattern.search(text) for word, pattern, _ in (*_FRIENDS, *_SIGKILLS))


def _not_read(unread: Sequence[Record]) -> list[str]:
    """By killer, where its name is known: how many lines, and the first of them as it stands."""
    by_killer: dict[str | None, list[Record]] = {}
    for record in unread:
        by_killer.setdefault(killer_of(record), []).append(record)
    found = []
    for killer, lines in by_killer.items():
        what = f"by {killer}, whose lines are not read yet" if killer else "of a kill, in words that are not read yet"
        more = f" and {len(lines) - 1} more" if len(lines) > 1 else ""
        found.append(f"line {lines[0].line_number}{more}: {what}: {_quoted(lines[0].text)}")
    return found


def _quoted(text: str) -> str:
    return f'"{text[:_LONGEST_QUOTE]}{"..." if len(text) > _LONGEST_QUOTE else ""}"'


def _seen(records: Sequence[Record], kinds: Sequence[tuple[str, re.Pattern[str], str]]) -> list[str]:
    first: dict[str, tuple[int, int]] = {}
    for record in records:
        text = record.text
        for word, pattern, what in kinds:
            if word in text and pattern.search(text[:2000]):
                line_number, count = first.get(what, (record.line_number, 0))
                first[what] = line_number, count + 1
    return [
        f"line {line}{f' and {count - 1} more' if count > 1 else ''}: {what}" for what, (line, count) in first.items()
    ]


def _written_by_others(records: Sequence[Record]) -> list[str]:
    """The kernel's words from another writer: user space cannot write as the kernel, so these are no evidence."""
    lines = [
        record.line_number
        for record in records
        if record.is_kernel is False and _KERNELS_WORDS.search(record.text[:2000])
    ]
    if not lines:
        return []
    return [
        f"line {lines[0]}: a program, not the kernel, wrote words of an OOM kill ({len(lines)} in all): not counted"
    ]


def _reaped(records: Sequence[Record], events: list[OomEvent]) -> list[str]:
    """The kernel frees a victim's memory seconds later, so the end of a kill can stand where its beginning is cut."""
    known = {event.pid for event in events}
    found: dict[int, str] = {}
    for record in records:
        match = _REAPED.match(record.text) if record.is_kernel is not False else None
        if match and int(match[1]) not in known:
            found.setdefault(int(match[1]), f"{match[2]} (pid {match[1]})")
    if not found:
        return []
    return [f"also killed, by kill lines that are not in this text: {', '.join(found.values())}"]


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


def _answer(records: Sequence[Record], invocations: list[Invocation], is_sigkill: bool, unread_count: int) -> str:
    times = [record.kernel_time_s for record in records if record.is_kernel is not False and record.kernel_time_s]
    if invocations:
        answer = "The kernel's OOM killer was invoked; whom it killed is not in this text."
    elif unread_count:
        lines = f"{unread_count:,} lines speak" if unread_count > 1 else "a line speaks"
        answer = f"Unknown: {lines} of kills in words that are not read yet, and no other line names one."
    elif is_sigkill:
        answer = "Unknown: something was ended by SIGKILL, and this text does not say by whom."
    else:
        answer = "No OOM kill in this text."
    if times and times[0] > 60:
        answer += f" It begins {times[0]:.0f} s after boot: older messages are gone."
    return (
        f"{answer} Look where the kernel writes: `sudo dmesg -T`, or after a reboot `sudo journalctl -k -b -1`; "
        "every user may read how many it killed since boot: `grep oom_kill /proc/vmstat`."
    )
