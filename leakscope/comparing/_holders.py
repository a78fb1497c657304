"""Findings of one report found again in the other, and worker processes side by side.

A finding is known by what it is about, the variable and the class or function it belongs to, and never by its line or
folder: an edit moves lines, and a second checkout has another path.
"""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import replace

from ..findings import LEVEL, Bill, Finding, ProcessRow, Report
from ..kinds import HELD
from ..units import MOST, unnumbered
from ._comparison import GONE, NEW, STILL, BillChange, FindingChange, WorkerChange

_COUNT = re.compile(r"^[0-9][0-9,]* ")
_FROM_OUTSIDE = ("code", "mapped-files", "shared-memory", "workers", "workers-shared", "not-measured")
_MAIN_ROLES = ("trainer", "launcher", "shell", "other")


def fingerprint(finding: Finding) -> Hashable:
    """What makes two findings the same one.

    A holder counts without its kind: whether objects or graphs are what it keeps may change with a run; and without
    a number in front (``34 processes``). A global of the program itself is named after the program's file, which may
    have been renamed.
    """
    subject = finding.subject
    if subject.holder:
        holder = _COUNT.sub("", subject.holder)
        stem = (subject.process or "").rsplit("/", 1)[-1].partition(".")[0]
        if subject.module in ("__main__", "__mp_main__") and stem and holder.startswith(f"{stem}."):
            holder = holder[len(stem) + 1 :]
        return ("holder", holder)
    return (finding.kind, subject.role, subject.device, subject.variable, subject.function, subject.library)


def finding_changes(before: Report, after: Report) -> list[FindingChange]:
    """Gone first, then those still there, then new ones; each in the order of its report."""
    first, second = _by_fingerprint(before), _by_fingerprint(after)
    gone = (finding for key, finding in first.items() if key not in second)
    changes = [_change(GONE, finding, finding, None) for finding in gone if not _is_still_held(finding, after)]
    changes += [_change(STILL, second[key], finding, second[key]) for key, finding in first.items() if key in second]
    return changes + [_change(NEW, finding, None, finding) for key, finding in second.items() if key not in first]


def _is_still_held(finding: Finding, after: Report) -> bool:
    """What was merely held need not be told again to be there: it is seen to be read by now, or what grows is known."""
    if not finding.tells(HELD) or finding.wasted:
        return False
    holders = (one for view in after.heap for one in view.holders if unnumbered(one.path) == finding.subject.path)
    return any(one.bytes[-1] >= MOST * finding.bytes for one in holders)


def _by_fingerprint(report: Report) -> dict[Hashable, Finding]:
    """Of several findings about one thing the first: it is the report's answer. Over processes they add up."""
    found: dict[Hashable, Finding] = {}
    seen: set[Hashable] = set()
    for finding in report.findings:
        key = fingerprint(finding)
        known = found.setdefault(key, finding)
        place = (key, finding.subject.pid)
        if known is not finding and place not in seen and finding.kind == known.kind:
            found[key] = replace(known, bytes=known.bytes + finding.bytes)
        seen.add(place)
    return found


def _change(change: str, shown: Finding, before: Finding | None, after: Finding | None) -> FindingChange:
    return FindingChange(
        change=change,
        kind=shown.kind,
        what=shown.subject.holder or shown.title,
        severity=shown.severity,
        wasted=shown.wasted,
        before_bytes=before.bytes if before is not None else None,
        after_bytes=after.bytes if after is not None else None,
        file=shown.subject.file,
        line=shown.subject.line,
    )


def worker_changes(before: Report, after: Report) -> list[WorkerChange]:
    """One for each role that is not the program itself, by name."""
    roles = sorted({row.role for row in (*before.processes, *after.processes)} - set(_MAIN_ROLES))
    return [
        WorkerChange(
            role,
            workers_at_once(before, role),
            workers_at_once(after, role),
            _bytes_each(_rows(before, role)),
            _bytes_each(_rows(after, role)),
        )
        for role in roles
    ]


def workers_at_once(report: Report, role: str) -> int:
    """The most processes of a role that lived at once; of several programs with that role the sum."""
    return sum(row.most_at_once for row in _rows(report, role))


def _rows(report: Report, role: str) -> list[ProcessRow]:
    return [row for row in report.processes if row.role == role]


def _bytes_each(rows: list[ProcessRow]) -> int:
    count = sum(row.most_at_once for row in rows)
    return round(sum(row.private_bytes for row in rows) / count) if count else 0


def bill_changes(before: Report, after: Report) -> list[BillChange]:
    """The accounts of both bills at their levels, those with most first."""
    levels = [next((bill for bill in report.bill if bill.moment == LEVEL), None) for report in (before, after)]
    accounts = dict.fromkeys(row.account for level in levels if level is not None for row in level.rows)
    changes = [BillChange(account, *(_bytes_of(level, account) for level in levels)) for account in accounts]
    return sorted(changes, key=lambda one: (-max(one.before_bytes or 0, one.after_bytes or 0), one.account))


def _bytes_of(level: Bill | None, account: str) -> int | None:
    """Without a snapshot nobody knows what objects hold, and what malloc handed out is theirs, too."""
    if level is None or (level.snapshot_s is None and account not in _FROM_OUTSIDE):
        return None
    return sum(row.bytes for row in level.rows if row.account == account)
