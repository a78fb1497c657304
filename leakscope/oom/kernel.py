"""Kernel records -> kills: collects each report's parts until a kill line, which alone is already an event.

Any part can be missing: headers are rate-limited, logs are cut, other messages stand between. A part is given
to a kill only where nothing speaks against it; each report serves one kill.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from . import kill_lines, tables
from .events import Invocation, OomEvent, merged
from .kill_lines import KillLine, OomKillLine
from .records import Record
from .report import Report, event_of

# The name of a thread has 15 characters at most. Nothing but its fields may follow, or the line is prose.
_INVOKED = re.compile(
    r"((?!#|\*|//|- )[^\s\"'`][^\"'`]{0,14}) invoked\s+oom-killer:?\s*"
    r"(?:gfp_mask=\S+(?:,?\s+(?:nodemask|order|oom_score_adj|oom_adj)=\S*?)*)?,?(?:\s+\w*)?[>…]?$"
)
_ORDER = re.compile(r"\border=(-?\d+)")
_GROUP = re.compile(r"Tasks in (.+) are going to be killed due\b")
_GROUP_START = re.compile(r"Tasks in (\S+) are going to be killed")
_KEY = re.compile(
    r"(?:Memory cgroup out|Out) of [Mm]emory|Killed process|oom-kill:|oom_reaper:|\[\s*pid\s*\]|\[\s*\d+\]\s|"
    r"Task in |Tasks in |.{1,63} invoked oom-killer"
)
# A slow serial console needs minutes for a report. A part that is older than this belongs to another kill.
_LONGEST_REPORT_S = 300.0
_LONGEST_GROUP_KILL_S = 30.0  # its lines follow each other at the pace of the console
_SAME_KILL_S = 2.0  # a pid is not used again so soon: the same line printed again


class Reader:
    """Feeds on the records in order; then `events` and `invocations` hold the result."""

    def __init__(self, records: Sequence[Record]) -> None:
        self.events: list[OomEvent] = []
        self.invocations: list[Invocation] = []
        self._records = records
        self._report: Report | None = None
        self._intent: tuple[Record, KillLine] | None = None
        self._group: tuple[Record, str] | None = None
        self._by_pid: dict[int, list[int]] = {}  # pid -> its events
        self.lines: set[int] = set()  # that were understood, but for details of reports
        for index, record in enumerate(records):
            if record.is_kernel is not False and record.text and self._read(index, record):
                self.lines.add(record.line_number)
        self._close_intent()
        self._close_report()

    def _following(self, index: int) -> Iterator[str]:
        """The lines a record may have been wrapped into: bare ones that start nothing of their own."""
        for record in self._records[index + 1 : index + 8]:
            if record.stamped or not record.text or _KEY.match(record.text):
                return
            yield record.text

    def _read(self, index: int, record: Record) -> bool:
        """Whether it is a line of which the kernel's words are known."""
        text = record.text
        following = self._following
        if "invoked" in text and self._read_invocation(record, following(index)):
            return True
        if text[0] in "OMK":
            if found := kill_lines.intent(text, following(index)):
                if self._intent is None or self._intent[1].pid != found.pid:  # else printed twice
                    self._close_intent()
                self._intent = (record, found)
                return True
            trusted = record.stamped or self._intent is not None
            if found := kill_lines.kill_line(text, following(index), trusted):
                self._add(record, found)
                return True
        if text.startswith("Linux version "):  # a new boot
            self._close_intent()
            self._close_report()
            self._group = None
        elif text.startswith("Tasks in ") and _GROUP_START.match(text):
            self._start_group(record, " ".join([text, *following(index)]))
            return True
        elif (report := self._report) is not None or text.startswith(("[", "oom-kill:", "Task in", "memory: usage")):
            if text[0] == "[" and self._read_table(record, index):
                return True
            if found_line := kill_lines.oom_kill_line(text, following(index)):
                if report and report.oom_kill and not report.is_of(found_line, record, _near(report.start, record)):
                    self._close_report()
                self._open(record).says_victim(found_line, record)
                return True
            if text.startswith("Task in") and (cgroups := kill_lines.task_in(text, following(index))):
                self._open(record).task_in = cgroups
                return True
            if text.startswith("memory: usage"):
                self._open(record).read_usage(text)
            elif report:
                report.read_detail(text)
        return False

    def _open(self, record: Record) -> Report:
        if self._report is None:
            self._report = Report(record)
        return self._report

    def _read_invocation(self, record: Record, following: Iterator[str]) -> bool:
        text = record.text
        if text.endswith(" invoked"):
            text = f"{text} {next(following, '')}"
        match = _INVOKED.match(text)
        if match is None:
            return False
        self._close_intent()
        before = self._report
        if before and not before.has_parts() and (before.start.time, before.invoked_by) == (record.time, match[1]):
            return True  # the line was printed twice
        self._close_report()
        order = _ORDER.search(" ".join([text, *following]))
        self._report = Report(record, match[1], int(order[1]) if order else None)
        return True

    def _read_table(self, record: Record, index: int) -> bool:
        columns = tables.header(record.text, self._following(index))
        if columns is not None:
            report = self._open(record)
            if report.rows:  # the start of another report, whose first lines are missing
                self._close_report()
                report = self._open(record)
            report.columns = columns
            return True
        known = self._report.columns if self._report else None
        row = tables.row(record.text, self._following(index), known or ())
        if row is not None:
            self._open(record).add(row)
        return row is not None

    def _start_group(self, record: Record, text: str) -> None:
        match = _GROUP.match(text)
        if match and self.events:
            self._group = record, match[1]
            self.events[-1] = replace(self.events[-1], group_kill=True)

    def _close_report(self) -> None:
        report, self._report = self._report, None
        if report is None:
            return
        if self._add_by_oom_kill_line(report) or report.invoked_by is None:
            return
        start = report.start
        found = Invocation(start.line_number, start.time, report.invoked_by, report.tasks_in_dump(), report.end)
        same = (found.time, found.invoked_by)
        if (
            found.time is None
            or start.kernel_time_s is None
            or same not in ((other.time, other.invoked_by) for other in self.invocations[-20:])
        ):
            self.invocations.append(found)

    def _add_by_oom_kill_line(self, report: Report) -> bool:
        """The kernel prints that line for a kill only, so it is one, also where grep or an alert left out the rest."""
        line, record = report.oom_kill, report.oom_kill_record
        if line is None or record is None or line.pid is None or report.is_doubted:
            if record is not None and report.invoked_by is None:
                self.lines.discard(record.line_number)  # it says that somebody was killed, and here not who
            return False
        self._put(event_of(record, KillLine(None, line.pid, None, None, {}, None), None, report))
        return True

    def _close_intent(self) -> None:
        pending, self._intent = self._intent, None
        if pending is not None:
            self._add(*pending, is_intent=True)

    def _add(self, record: Record, found: KillLine, is_intent: bool = False) -> None:
        chosen = self._take_intent(record, found) if not is_intent else found
        report = self._take_report(record, found, chosen)
        event = event_of(record, found, chosen, report)
        if is_intent:
            event = replace(event, pid_is_intended_only=True)
        if self._group and found.prefix and not report and _near(self._group[0], record, _LONGEST_GROUP_KILL_S):
            event = replace(event, group_kill=True, oom_cgroup=self._group[1])
        else:
            self._group = None
        self._put(event)

    def _put(self, event: OomEvent) -> None:
        if event.pid is None:
            self.events.append(event)
            return
        before = self._by_pid.setdefault(event.pid, [])
        for index in reversed(before[-4:]):  # a few, as a log with many boots may hold a pid often
            if _is_same(self.events[index], event):
                self.events[index] = merged(self.events[index], event)
                return
        before.append(len(self.events))
        self.events.append(event)

    def _take_intent(self, record: Record, found: KillLine) -> KillLine | None:
        """The line that announced this kill. To 5.0 a child could die instead, so its pid may be another."""
        if self._intent is None:
            return None
        announced, chosen = self._intent
        if found.prefix is None and (chosen.pid == found.pid or _near(announced, record)):
            self._intent = None
            return chosen
        self._close_intent()
        return None

    def _take_report(self, record: Record, found: KillLine, chosen: KillLine | None) -> Report | None:
        report = self._report
        if report is None or not _near(report.start, record):
            self._close_report()
            return None
        pids = {found.pid, *([chosen.pid] if chosen else [])}
        if report.oom_kill and report.oom_kill.pid not in (None, *pids):
            # To 5.0 a child could die in place of the one that line names: without the line between, who knows.
            report.is_doubted = report.is_doubted or (found.prefix is None and chosen is None)
            return None
        if report.oom_kill and _contradicts(found.prefix or (chosen.prefix if chosen else None), report.oom_kill):
            return None
        self._report = None
        return report


def _contradicts(prefix: str | None, line: OomKillLine) -> bool:
    """Whether the line and the report are of two kills, as in two logs that were mixed."""
    if prefix is None or line.word not in ("NONE", "MEMCG"):
        return False
    return prefix.startswith("Memory cgroup") != (line.constraint_word == "MEMCG")


def _near(first: Record, second: Record, within_s: float = _LONGEST_REPORT_S) -> bool:
    if first.boot != second.boot:
        return False
    if first.kernel_time_s is None or second.kernel_time_s is None:
        return True
    return -1.0 <= second.kernel_time_s - first.kernel_time_s <= within_s


def _is_same(old: OomEvent, new: OomEvent) -> bool:
    """Whether two lines tell of one kill: printed on two channels, pasted twice, or first of a group kill."""
    if old.boot and new.boot and old.boot != new.boot:
        return False
    if old.comm is not None and new.comm is not None and old.comm != new.comm:
        return False
    if new.group_kill and old.group_kill and old.oom_cgroup in (None, new.oom_cgroup):
        return True
    if old.kernel_time_s is not None and new.kernel_time_s is not None:
        return abs(old.kernel_time_s - new.kernel_time_s) <= _SAME_KILL_S
    if old.time_kind == new.time_kind and old.time != new.time:
        return False
    if new.total_vm_kb is None or old.total_vm_kb is None:  # a line that says no sizes, of the same pid and name
        return old.comm is not None and old.comm == new.comm and _sizes_agree(old, new)
    return _sizes(old) == _sizes(new)


def _sizes_agree(old: OomEvent, new: OomEvent) -> bool:
    return all(None in pair or pair[0] == pair[1] for pair in zip(_sizes(old), _sizes(new)))


def _sizes(event: OomEvent) -> tuple[int | None, ...]:
    return event.total_vm_kb, event.anon_rss_kb, event.file_rss_kb
