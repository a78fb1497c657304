"""The parts of one kernel report, collected while they pass, and the event they make with a kill line."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Any

from .events import OomEvent
from .kill_lines import KillLine, OomKillLine
from .records import Record
from .tables import Row

_STATS_ONE_LINE = re.compile(r"\b(\w+):(\d+)KB")
_STAT = re.compile(r"(\w+) (\d+)$")
_MEM_INFO = re.compile(r"\b(slab_unreclaimable|shmem|dirty):(\d+)\b(?!kB)")
_BUDDY = re.compile(r"Node \d+ .*?: \d+\*(\d+)kB ")
_USAGE = re.compile(r"memory: usage (\d+)kB, limit (\d+)kB")
_ENDS = {
    "Out of memory and no killable processes": "there was no process it could kill",
    "Kernel panic - not syncing: System is deadlocked on memory": "kernel panic: no process could be killed",
    "Kernel panic - not syncing: Out of memory": "kernel panic (vm.panic_on_oom)",
}
_CONSTRAINTS = {"NONE": "global", "MEMCG": "memcg", "CPUSET": "cpuset", "MEMORY_POLICY": "mempolicy"}
_NO_LIMIT_KB = 1 << 50  # the kernel prints "no limit" as a number near 2**53 kB


@dataclass
class Report:
    start: Record
    invoked_by: str | None = None
    order: int | None = None
    columns: tuple[str, ...] | None = None
    rows: list[Row] = field(default_factory=list)
    _threads: set[int] = field(default_factory=set)
    oom_kill: OomKillLine | None = None
    oom_kill_record: Record | None = None
    is_doubted: bool = False  # another than the one that line names may have died
    task_in: tuple[str, str] | None = None
    usage_kb: int | None = None
    limit_kb: int | None = None
    accounts: dict[str, int] = field(default_factory=dict)
    accounts_in: str = "pages"
    page_kb: int | None = None
    end: str | None = None

    def add(self, row: Row) -> None:
        if row.task.pid not in self._threads:  # else the line was printed twice
            self._threads.add(row.task.pid)
            self.rows.append(row)

    def has_parts(self) -> bool:
        """Whether more than its first line was seen."""
        return bool(self.columns is not None or self.rows or self.oom_kill or self.task_in or self.usage_kb)

    def is_of(self, line: OomKillLine, record: Record, is_near: bool) -> bool:
        """Whether an oom-kill line is the one that was seen already, printed again."""
        return self.oom_kill is not None and self.oom_kill.pid == line.pid and is_near

    def says_victim(self, line: OomKillLine, record: Record) -> None:
        self.oom_kill, self.oom_kill_record = line, record

    def tasks_in_dump(self) -> int | None:
        return None if self.columns is None and not self.rows else len(self.rows)

    def read_usage(self, text: str) -> bool:
        match = _USAGE.match(text)
        if match is None:
            return False
        self.usage_kb = int(match[1])
        self.limit_kb = int(match[2]) if int(match[2]) < _NO_LIMIT_KB else None
        return True

    def read_detail(self, text: str) -> None:
        """What else held memory, the size of a page, and how a report without a kill ended."""
        if text.startswith("Memory cgroup stats"):
            self.accounts = {name: int(kb) for name, kb in _STATS_ONE_LINE.findall(text)}
            self.accounts_in = "kB" if self.accounts else "bytes"
        elif self.accounts_in == "bytes" and self.columns is None and (match := _STAT.match(text)):
            self.accounts.setdefault(match[1], int(match[2]))
        elif self.accounts_in == "pages" and not self.columns and ":" in text and "kB" not in text:
            for name, pages in _MEM_INFO.findall(text):
                self.accounts.setdefault(name, int(pages))
        elif self.page_kb is None and text.startswith("Node ") and (match := _BUDDY.match(text)):
            self.page_kb = int(match[1])
        else:
            self.end = next((said for start, said in _ENDS.items() if text.startswith(start)), self.end)

    def accounts_kb(self, page_kb: int | None) -> dict[str, int]:
        if self.accounts_in == "pages":
            return {name: pages * page_kb for name, pages in self.accounts.items()} if page_kb else {}
        divisor = 1024 if self.accounts_in == "bytes" else 1
        return {name: amount // divisor for name, amount in self.accounts.items()}


def event_of(record: Record, found: KillLine, chosen: KillLine | None, report: Report | None) -> OomEvent:
    """Each field from the kill line, else from the report's oom-kill line, else from the victim's row."""
    line = report.oom_kill if report else None
    rows = report.rows if report else []
    row = _row_of(rows, found.pid)
    comm = found.comm
    if comm is None:
        same = chosen is not None and chosen.pid == found.pid
        comm = (
            (line.task if line else None)
            or (row.task.name if row else None)
            or (chosen.comm if same and chosen else None)
        )
    elif line and line.task and comm.replace(" ", "") == line.task.replace(" ", ""):
        comm = line.task  # wrapping put a blank into it
    prefix = found.prefix or (chosen.prefix if chosen else None)
    constraint = None if prefix is None else "memcg" if prefix.startswith("Memory cgroup") else "global"
    basis = None if prefix is None else "message prefix"
    if prefix is None and report and report.task_in:
        constraint, basis = "memcg", "message prefix"
    if line and line.constraint_word in _CONSTRAINTS:
        constraint, basis = _CONSTRAINTS[line.constraint_word], "oom-kill line"
    whole = bool(rows) and all(r.is_whole for r in rows)
    task = row.task if row and row.is_whole else None
    adj = found.oom_score_adj if found.oom_score_adj is not None else task.oom_score_adj if task else None
    uids = (found.uid, line.uid if line else None, task.uid if task else None)
    cgroup, oom_cgroup = (line.cgroup, line.oom_cgroup) if line else (None, None)
    if line is None and report and report.task_in:
        cgroup, oom_cgroup = report.task_in
    page_kb = _page_kb(found, task) or (report.page_kb if report else None)
    return OomEvent(
        record.line_number,
        record.text,
        time=record.time,
        time_kind=record.time_kind,
        kernel_time_s=record.kernel_time_s,
        boot=record.boot,
        pid=found.pid,
        comm=comm,
        chosen_pid=chosen.pid if chosen and chosen.pid != found.pid else None,
        uid=next((uid for uid in uids if uid is not None), None),
        oom_score_adj=adj,
        constraint=constraint,
        constraint_basis=basis,
        constraint_word=line.word if line else None,
        cgroup=cgroup,
        oom_cgroup=oom_cgroup,
        cpuset=line.cpuset if line else None,
        mems_allowed=line.mems_allowed if line else None,
        total_vm_kb=found.sizes.get("total-vm"),
        anon_rss_kb=found.sizes.get("anon-rss"),
        file_rss_kb=found.sizes.get("file-rss"),
        shmem_rss_kb=found.sizes.get("shmem-rss"),
        pgtables_kb=found.sizes.get("pgtables"),
        invoked_by=report.invoked_by if report else None,
        order=report.order if report else None,
        tasks_in_dump=report.tasks_in_dump() if report else None,
        dump_rss_pages=sum(r.task.rss for r in rows) if whole else None,
        table_columns=(report.columns or None) if report and (whole or not rows) else None,
        victim_row=task.values if task and report and report.columns else None,
        tasks=tuple(r.task for r in rows) if whole else (),
        page_kb=page_kb,
        limit_kb=report.limit_kb if report else None,
        usage_kb=report.usage_kb if report else None,
        accounts_kb=report.accounts_kb(page_kb) if report else {},
        has_report=bool(report and (report.invoked_by or report.has_parts())),
    )


def _row_of(rows: list[Row], pid: int) -> Row | None:
    """A row's first number is a thread; the process is its third."""
    return next((r for r in rows if r.task.tgid == pid), None) or next((r for r in rows if r.task.pid == pid), None)


def _page_kb(found: KillLine, task: Any) -> int | None:
    """The same memory once in kB and once in pages; a size no machine has means the two do not belong together."""
    total_kb = found.sizes.get("total-vm")
    if not task or not total_kb or not task.total_vm or total_kb % task.total_vm:
        return None
    return total_kb // task.total_vm if total_kb // task.total_vm in (4, 8, 16, 64) else None
