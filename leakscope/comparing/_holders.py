"""Findings of one report found again in the other, and worker processes side by side.

A finding is known by what it is about, the variable and the class or function it belongs to, and never by its line or
folder: an edit moves lines, and a second checkout has another path.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from ..facts.accounts.bill import bill, levels_s
from ..facts.case import Case
from ..findings import LEVEL, NOBODY, PEAK, Bill, Finding, HeapView, ProcessRow, Report
from ..kinds import FILLS, KILL
from ..units import LITTLE, MOST, SOME, unnumbered
from ._comparison import GONE, NEW, ONLY_AFTER, ONLY_BEFORE, STILL, BillChange, FindingChange, WorkerChange
from ._pace import PacePair

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


@dataclass(frozen=True)
class Told:
    """What one run's report says, and how far the run had come at a moment of it, in the unit of the comparison.

    ``shows_bytes_per_hour``: a leak of this run that is smaller would not show in the other.
    """

    report: Report
    came_to: Callable[[float], float] = float
    shows_bytes_per_hour: float = 0.0


def finding_changes(before: Told, after: Told) -> list[FindingChange]:
    """Gone first, then those still there, then new ones; each in the order of its report."""
    first, second = (_by_fingerprint(told.report) for told in (before, after))
    changes = [
        *_alone(before, [one for key, one in first.items() if key not in second], after, (GONE, ONLY_BEFORE)),
        *(_change(STILL, second[key], finding, second[key]) for key, finding in first.items() if key in second),
        *_alone(after, [one for key, one in second.items() if key not in first], before, (NEW, ONLY_AFTER)),
    ]
    order = GONE, ONLY_BEFORE, STILL, NEW, ONLY_AFTER
    return sorted(changes, key=lambda one: order.index(one.change))


def _alone(own: Told, findings: list[Finding], other: Told, called: tuple[str, str]) -> list[FindingChange]:
    """What one report finds. That no finding of the other speaks of it does not say that it is not there."""
    changes = []
    for finding in findings:
        share = _share_held(finding, own, other)
        grows_by = finding.bytes_per_hour or 0.0
        least = MOST if grows_by or finding.wasted else SOME  # what is only held was let go of, or is there
        is_held = share is not None and share >= least
        if finding.tells(FILLS) or (is_held and not grows_by and not finding.wasted):
            continue  # no fault, or as it was: it is seen to be read by now, or what grows is known
        if share is not None and not is_held:
            is_missing = True
        elif grows_by and not finding.wasted:
            is_missing = other.report.verdict.leaking is False and grows_by >= own.shows_bytes_per_hour
        else:
            is_missing = _is_told_otherwise(finding, own.report, other.report)
        sides = (finding, None) if called[0] == GONE else (None, finding)
        changes.append(_change(called[0] if is_missing else called[1], finding, *sides))
    return changes


def _is_told_otherwise(finding: Finding, own: Report, other: Report) -> bool:
    """No snapshot decides it, and the other report asked, and found no other of the kind: under another name it may be
    the same one.
    """
    in_heap = any(_held(view, finding) is not None for view in own.heap)
    asked = all(one.kind != finding.kind for one in (*other.skipped, *other.findings))
    return asked and (finding.wasted or not in_heap)


def _share_held(finding: Finding, own: Told, other: Told) -> float | None:
    """What the other run's last snapshot has under that path, of what this run had when it had come as far.

    None where that was not looked into, or this run had next to nothing by then.
    """
    view = next((one for one in own.report.heap if _held(one, finding) is not None), None)
    others = [one for one in other.report.heap if one.takes and (view is None or one.on_devices == view.on_devices)]
    if view is None or not others:
        return None
    held = _held(view, finding)
    levels = [(_held(one, finding) or [0])[-1] for one in others]
    at = max(other.came_to(one.takes[-1].time_s) for one in others)
    had = float(np.interp(at, [0.0, *(own.came_to(take.time_s) for take in view.takes)], [0, *(held or [])]))
    return max(levels) / had if had >= LITTLE else None


def _held(view: HeapView, finding: Finding) -> list[int] | None:
    """Bytes at each snapshot; None for a path that is not among the largest. A local may have been renamed."""
    about = finding.subject
    if about.path is None:
        return None
    name, kind = about.variable, (about.type or "").partition(" ")[0]
    same = [one for one in view.holders if unnumbered(one.path) == about.path] or [
        one for one in view.holders if name and one.type == kind and one.path.endswith(f".{name}")
    ]
    return list(max(same, key=lambda one: one.bytes[-1]).bytes) if same else None


def _by_fingerprint(report: Report) -> dict[Hashable, Finding]:
    """Of several findings about one thing the first: it is the report's answer. Over processes they add up.

    The bytes of a kill are all that the process had: what its holder has is said by the finding that follows.
    """
    found: dict[Hashable, Finding] = {}
    seen: set[Hashable] = set()
    for finding in report.findings:
        key = fingerprint(finding)
        known = found.setdefault(key, finding)
        place = (key, finding.subject.pid)
        if known.tells(KILL) and not finding.tells(KILL):
            found[key] = finding
        elif known is not finding and place not in seen and finding.kind == known.kind:
            found[key] = replace(known, bytes=known.bytes + finding.bytes)
        seen.add(place)
    return found


def _change(change: str, shown: Finding, before: Finding | None, after: Finding | None) -> FindingChange:
    about = shown.subject
    holder = f"{about.type} objects that {NOBODY} holds" if about.holder == NOBODY else about.holder
    return FindingChange(
        change=change,
        kind=shown.kind,
        what=holder or shown.title,
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


def bill_changes(before: Sequence[Bill], after: Sequence[Bill]) -> list[BillChange]:
    """The accounts of two bills of one moment each: at the level and at the peak; those with most first."""
    found: list[BillChange] = []
    for moment in (LEVEL, PEAK):
        one, two = (next((one for one in bills if one.moment == moment), None) for bills in (before, after))
        both = [each for each in (one, two) if each is not None]
        one_s, two_s = (None if each is None else each.time_s for each in (one, two))
        changes = [
            BillChange(name, _bytes_of(one, name), _bytes_of(two, name), moment, one_s, two_s)
            for name in dict.fromkeys(row.account for each in both for row in each.rows)
        ]
        found += sorted(changes, key=lambda one: (-max(one.before_bytes or 0, one.after_bytes or 0), one.account))
    return found


def as_far(before: Case, after: Case, pair: PacePair) -> tuple[Sequence[Bill], Sequence[Bill]]:
    """The bills of both runs. Of runs that may grow, levels are of the last snapshots at which both had come as far:
    what one held later says nothing of the other.
    """
    if pair.before.grows is False and pair.after.grows is False:
        return before.bills, after.bills
    one, two = (
        [(run.came_to(at_s), at_s) for at_s in levels_s(case.growth)]
        for run, case in ((pair.before, before), (pair.after, after))
    )
    apart = [(abs(x - y) / max(x, y, 1.0) // SOME, -min(x, y), at_s, then_s) for x, at_s in one for y, then_s in two]
    if not apart:
        return before.bills, after.bills
    *_, at_s, then_s = min(apart)
    levels = [
        bill(case.recording, case.growth, case.roles, LEVEL, moment_s)
        for case, moment_s in ((before, at_s), (after, then_s))
    ]
    return [levels[0], *before.bills[1:]], [levels[1], *after.bills[1:]]


def _bytes_of(bill: Bill | None, account: str) -> int | None:
    """Without a snapshot nobody knows what objects hold, and what malloc handed out is theirs, too."""
    if bill is None or (bill.snapshot_s is None and account not in _FROM_OUTSIDE):
        return None
    return sum(row.bytes for row in bill.rows if row.account == account)
