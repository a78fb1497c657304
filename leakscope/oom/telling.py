"""A reading in sentences, for a tired person: who was killed, by which limit, who held the memory, what is missing."""

from __future__ import annotations

from collections import Counter

from ..units import format_bytes
from .events import OomEvent, Reading, Task

_KILLERS = {
    "earlyoom": "earlyoom",
    "systemd-oomd": "systemd-oomd",
    "talos": "Talos",
    "ray": "Ray",
    "kubelet-eviction": "The kubelet",
    "lmkd": "lmkd (Android)",
}


def describe(
    event: OomEvent, *, hog_factor: float = 2.0, unexplained_fraction: float = 0.25, shown: int = 3
) -> list[str]:
    """Plain sentences about one kill, the most important first.

    ``hog_factor``: others are named as holding the memory from twice the victim's on, since a sum of alike workers
    says little below that. ``unexplained_fraction``: what the table leaves out is worth a sentence from a quarter on,
    as rss counters lag and page tables and stacks are always missing.
    """
    if not event.is_kernel:
        return _told_by_a_program(event)
    said = [_who(event), *_held(event)]
    if event.pod:
        said += [f"That is {_in_pod(event)}.", *_restarts(event)]
    if event.group_kill:
        said.append("All processes of its cgroup are killed together (memory.oom.group, which Kubernetes sets).")
    if event.order == -1:
        said.append("This kill was requested by hand (SysRq-f): memory need not have been short.")
    said += _hog(event, hog_factor, shown)
    said += _unexplained(event, unexplained_fraction)
    return said + _missing(event)


def as_text(reading: Reading) -> str:
    """All of a reading for a terminal; processes killed as a group follow their first in one line."""
    blocks: list[str] = []
    events = reading.events
    index = 0
    while index < len(events):
        event = events[index]
        followers = []
        while index + 1 < len(events) and _follows(event, events[index + 1]):
            index += 1
            followers.append(events[index])
        head = f"line {event.line_number}" + _when(event)
        lines = describe(event)
        if followers:
            lines.insert(2, f"Killed with it: {', '.join(f'{e.comm} ({e.pid})' for e in followers)}.")
        blocks.append("\n".join([head, *(f"  {line}" for line in lines)]))
        index += 1
    notes = reading.notes
    head = f"{len(events)} OOM kill{'s' if len(events) > 1 else ''}."
    if not events:
        head, notes = notes[-1], notes[:-1]
    if notes:
        blocks.append(
            "\n".join(["Also in this text:" if events else "In this text:", *(f"  {note}" for note in notes)])
        )
    return "\n\n".join([head, *blocks]) + "\n"


def _when(event: OomEvent) -> str:
    readable = event.time_kind in ("syslog", "iso", "dmesg_T")
    if event.kernel_time_s is not None and not readable:
        return f", {event.kernel_time_s:.3f} s after boot"
    return f", {event.time}" if event.time and readable else ""


def _follows(first: OomEvent, event: OomEvent) -> bool:
    return bool(first.group_kill and event.group_kill and not event.has_report)


def _size(kb: int) -> str:
    return format_bytes(kb * 1024)


def _named(event: OomEvent) -> str:
    pid = f" (pid {event.pid})" if event.pid is not None else ""
    return f"{event.comm or 'a process'}{pid}"


def _who(event: OomEvent) -> str:
    verb = "announced that it kills" if event.pid_is_intended_only else "killed"
    return f"The kernel {verb} {_named(event)}{_why(event)}."


def _why(event: OomEvent) -> str:
    where = f" {event.oom_cgroup}" if event.oom_cgroup else ""
    if event.constraint == "memcg":
        limit = f" of {_size(event.limit_kb)}" if event.limit_kb else ""
        whose = ""
        if event.cgroup and event.oom_cgroup and event.cgroup != event.oom_cgroup:
            whose = ", not its own but one above"
        return f": cgroup{where} reached its memory limit{limit}{whose}"
    if event.constraint == "cpuset":
        return f": the memory nodes its cpuset {event.cpuset or ''} allows ({event.mems_allowed or 'unknown'}) ran dry"
    if event.constraint == "mempolicy":
        return ": the memory nodes that its NUMA policy allows (numactl, mbind) ran dry; others may have been free"
    if event.constraint == "global":
        sure = (
            ""
            if event.constraint_basis == "oom-kill line"
            else " (or a cpuset or NUMA policy did: the log is too short to say)"
        )
        return f": the machine ran out of memory{sure}"
    return "; which limit was hit, the log does not say"


def _held(event: OomEvent) -> list[str]:
    parts = [
        (event.anon_rss_kb, "of its own (anonymous)"),
        (event.file_rss_kb, "of mapped files"),
        (event.shmem_rss_kb, "of shared memory"),
    ]
    known = [(kb, what) for kb, what in parts if kb is not None]
    said = []
    if known:
        total = sum(kb for kb, _ in known)
        detail = ", ".join(f"{_size(kb)} {what}" for kb, what in known if kb)
        said.append(f"It held {_size(total)} in RAM{f': {detail}' if detail else ''}.")
    swapped = (event.victim_row or {}).get("swapents")
    if swapped and event.page_kb:
        said.append(f"{_size(swapped * event.page_kb)} more of it was in swap.")
    if event.chosen_pid is not None:
        said.append(f"The kernel had chosen pid {event.chosen_pid}; a child of it died in its place (kernels to 5.0).")
    return said


def _hog(event: OomEvent, hog_factor: float, shown: int) -> list[str]:
    """Who held most by the table, as sums per name: workers of a job have one name."""
    if not event.tasks or not event.page_kb:
        return []
    pages: Counter[str] = Counter()
    count: Counter[str] = Counter()
    for task in event.tasks:
        pages[task.name or "?"] += _own_pages(task)
        count[task.name or "?"] += 1
    top = pages.most_common(shown)
    listed = ", ".join(
        f"{name} {_size(n * event.page_kb)}" + (f" in {count[name]} processes" if count[name] > 1 else "")
        for name, n in top
        if n
    )
    said = [f"Most memory was held by: {listed} (processes in the table: {len(event.tasks)})."] if listed else []
    name, most = top[0]
    own = pages[event.comm or ""]
    if event.comm and name != event.comm and most > hog_factor * own:
        said.append(f"The victim is not the one that filled the memory: {name} held more. Look there.")
    return said


def _own_pages(task: Task) -> int:
    """Anonymous pages where the table has them: rss counts a shared page once for each process."""
    return task.rss_anon if task.rss_anon is not None else task.rss


def _unexplained(event: OomEvent, unexplained_fraction: float) -> list[str]:
    """What no process of the table has: it stays when processes die, as files in /dev/shm do."""
    if event.usage_kb is None or event.dump_rss_pages is None or not event.page_kb:
        return []
    rest_kb = event.usage_kb - event.dump_rss_pages * event.page_kb
    if rest_kb < unexplained_fraction * event.usage_kb:
        return []
    words = {
        "shmem": "shared memory (/dev/shm, tmpfs)",
        "cache": "page cache",
        "file": "page cache",
        "slab": "kernel slab",
    }
    held = event.accounts_kb
    named = sorted(((held[key], words[key]) for key in words if held.get(key, 0) > rest_kb // 4), reverse=True)
    listed = f" The report counts {', '.join(f'{_size(kb)} of {what}' for kb, what in named)}." if named else ""
    return [f"{_size(rest_kb)} of the {_size(event.usage_kb)} in use belong to no process of the table.{listed}"]


def _missing(event: OomEvent) -> list[str]:
    if event.pid_is_intended_only:
        return ["The line that confirms the kill is not in this text: look for it with `sudo dmesg -T`."]
    if not event.has_report:
        return [
            "Only the kill line is here, not the report before it (rate limit, cut or filtered): get it with "
            "`sudo dmesg -T`, or after a reboot `sudo journalctl -k -b -1`."
        ]
    said = []
    if (event.total_vm_kb, event.anon_rss_kb, event.file_rss_kb) == (None, None, None):
        said.append(
            'What it held is not in this text: the line "Killed process" says it. Get all lines with `sudo dmesg -T`.'
        )
    if event.tasks_in_dump is None:
        said.append(
            "The report has no table of processes: it was cut or filtered, or `sysctl vm.oom_dump_tasks` is 0 "
            "(set it to 1)."
        )
    return said


def _told_by_a_program(event: OomEvent) -> list[str]:
    if event.killer != "kernel":
        target = _named(event) if event.pid is not None else f"cgroup {event.cgroup}" if event.cgroup else None
        if target is None:
            target = f"{event.processes} processes" if event.processes else "a container or process"
        verb = "tried to kill" if event.outcome and not event.outcome.startswith("exited") else "killed"
        said = [f"{_KILLERS.get(event.killer, event.killer)} {verb} {target}, to keep memory free: not the kernel."]
        if event.vm_rss_mib is not None:
            said.append(f"It held {format_bytes(event.vm_rss_mib << 20)} in RAM.")
        said += [f"Reason: {event.reason}."] if event.reason else []
        return said + ([f"Signal {event.signal or 'unknown'}; {event.outcome}."] if event.outcome else [])
    if event.unit:
        return [f"systemd says that the OOM killer killed a process of {event.unit}.", *_ask_kernel()]
    if event.slurm_step:
        return [f"Slurm says that its memory limit killed processes of step {event.slurm_step}.", *_ask_kernel()]
    if event.pid is not None:
        return [f"The kubelet says that the kernel killed {_named(event)}{_why(event)}.", *_ask_kernel()]
    if event.pod:
        limit = f", whose memory limit is {_size(event.limit_kb)}," if event.limit_kb else ""
        return [f"Kubernetes says that {_in_pod(event)}{limit} was OOM-killed.", *_restarts(event), *_ask_kernel(event)]
    container = f"container {event.container_id[:12]}" if event.container_id else "a container"
    return [f"The container runtime says that {container} was OOM-killed.", *_ask_kernel()]


def _in_pod(event: OomEvent) -> str:
    container = f"container {event.container} of pod" if event.container else "pod"
    return f"{container} {event.pod}{f' on node {event.node}' if event.node else ''}"


def _restarts(event: OomEvent) -> list[str]:
    count = event.restart_count
    return [f"It was restarted {count} time{'s' if count > 1 else ''} so far."] if count else []


def _ask_kernel(event: OomEvent | None = None) -> list[str]:
    machine = f"node {event.node}" if event is not None and event.node else "that machine"
    return [f"Which process, and what it held, only the kernel log of {machine} says: `sudo journalctl -k` there."]
