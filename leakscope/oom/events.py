"""What a log said about OOM kills, as values: one event for each process, or group of processes, that was ended."""

from __future__ import annotations

from dataclasses import dataclass, field, fields, replace
from typing import Any, NamedTuple

SCHEMA = "leakscope.oom/1"


class Task(NamedTuple):
    """One row of the kernel's table. Sizes are in PAGES, except pgtables_bytes; None: the log has no such column."""

    pid: int
    uid: int
    tgid: int
    total_vm: int
    rss: int
    rss_anon: int | None
    swapents: int | None
    oom_score_adj: int | None
    name: str | None
    values: dict[str, Any]


@dataclass(frozen=True)
class OomEvent:
    """One kill, or one announced (``pid_is_intended_only``); None stands for all that the log does not say."""

    line_number: int
    text: str
    killer: str = "kernel"
    is_kernel: bool = True  # written by the kernel itself, not by a program that reports or does kills
    time: str | None = None
    time_kind: str = "none"
    kernel_time_s: float | None = None
    boot: str | None = None
    pid: int | None = None
    comm: str | None = None
    chosen_pid: int | None = None
    pid_is_intended_only: bool = False
    uid: int | None = None
    oom_score_adj: int | None = None
    constraint: str | None = None
    constraint_basis: str | None = None
    constraint_word: str | None = None  # as the kernel printed it
    cgroup: str | None = None
    oom_cgroup: str | None = None
    cpuset: str | None = None
    mems_allowed: str | None = None
    total_vm_kb: int | None = None
    anon_rss_kb: int | None = None
    file_rss_kb: int | None = None
    shmem_rss_kb: int | None = None
    pgtables_kb: int | None = None
    invoked_by: str | None = None
    order: int | None = None
    tasks_in_dump: int | None = None
    dump_rss_pages: int | None = None
    table_columns: tuple[str, ...] | None = None
    victim_row: dict[str, Any] | None = None
    tasks: tuple[Task, ...] = ()
    page_kb: int | None = None
    limit_kb: int | None = None  # None also for "no limit"
    usage_kb: int | None = None
    accounts_kb: dict[str, int] = field(default_factory=dict)  # what else held memory: shmem, file, slab, swap, dirty
    has_report: bool = False  # the invocation or the table that belongs to the kill line is in the log too
    group_kill: bool | None = None
    printed_times: int = 1
    signal: str | None = None
    outcome: str | None = None
    vm_rss_mib: int | None = None
    processes: int | None = None
    pids: tuple[int, ...] | None = None
    reason: str | None = None
    unit: str | None = None
    container_id: str | None = None
    container: str | None = None  # its name in the pod
    pod: str | None = None  # namespace/name
    node: str | None = None
    restart_count: int | None = None
    slurm_step: str | None = None


def merged(old: OomEvent, new: OomEvent) -> OomEvent:
    """The first printing, and what only the second says (a cut line and a whole one; one without its report)."""
    if old.pid_is_intended_only and not new.pid_is_intended_only:
        old, new = new, old  # done counts more than announced
    added = {name: value for name, value in vars(new).items() if vars(old)[name] in (None, (), {})}
    if new.constraint_basis == "oom-kill line" and old.constraint_basis == "message prefix":
        added.update(constraint=new.constraint, constraint_basis=new.constraint_basis)
    return replace(old, **added, printed_times=old.printed_times + 1)


@dataclass(frozen=True)
class Invocation:
    """An OOM report that ends without a kill: cut off, or a panic, or nothing that could be killed."""

    line_number: int
    time: str | None
    invoked_by: str
    tasks_in_dump: int | None
    end: str | None = None  # how it ended, where the log says


@dataclass(frozen=True)
class Reading:
    """All a log said, in the order of the log; notes name what looks like a kill and is none, and what is missing.

    ``unread_lines``: numbers of lines that speak of a kill for want of memory in words that are not known here.
    """

    events: list[OomEvent]
    invocations_without_kill: list[Invocation]
    notes: list[str]
    unread_lines: list[int] = field(default_factory=list)


_NOT_IN_JSON = {"tasks", "has_report"}  # the table is long, and its sums are there


def as_json(reading: Reading) -> dict[str, Any]:
    """The reading as the document that `leakscope oom --format json` prints (the contract leakscope.oom/1)."""
    names = [f.name for f in fields(OomEvent) if f.name not in _NOT_IN_JSON]
    return {
        "schema": SCHEMA,
        "events": [{name: _plain(getattr(event, name)) for name in names} for event in reading.events],
        "invocations_without_kill": [vars(invocation).copy() for invocation in reading.invocations_without_kill],
        "notes": list(reading.notes),
        "unread_lines": list(reading.unread_lines),
    }


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
