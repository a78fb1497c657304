"""The bill in a few lines: what all memory was, at its level and at its peak, each byte once. The peak is the report's:
pages of mapped files, which the kernel takes back when it needs them, stand beside it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple

from ..findings import LEVEL, PEAK, Bill, BillRow, Report
from ..units import format_bytes, format_duration
from ..words import BILL_NAMES

_LEAST_SHARE = 0.01  # of the whole: less is told with others
_LARGE_SHARE = 0.1  # of the level: what of the program has as much is told before what is not its own
_DIFFERS = 0.03  # of the level: a peak that is nearer to it is the same
_MOST_HOLDERS, _MOST_PARTS = 3, 6
_OF_THE_PROGRAM = ("data", "model", "optimizer", "gradients", "activations", "batch", "user-held")  # told first
_LAST = ("others", "not-measured")
_FILES = ("code", "mapped-files")
_UNDIVIDED = ("others", "not-measured", "libraries", "native")
_WHOLE = ("workers", "workers-shared", "since-snapshot")  # a row is no more than its name
_REST = "the rest of "


class Line(NamedTuple):
    """``share`` of all at the level, as text; ``details``: what it is made of, holder by holder; ``largest``: of these
    the names alone. ``peak_bytes`` is None where the peak was no other moment. ``rank``: where there is little room
    those of less are shown first.
    """

    name: str
    level_bytes: int
    peak_bytes: int | None
    share: str
    details: str = ""
    largest: str = ""
    rank: int = 1

    @property
    def level(self) -> str:
        return format_bytes(self.level_bytes)

    @property
    def peak(self) -> str:
        return format_bytes(self.peak_bytes) if self.peak_bytes is not None else ""

    @property
    def bytes(self) -> int:
        """At the level, or at the peak, where there was more."""
        return max(self.level_bytes, self.peak_bytes or 0)


class Told(NamedTuple):
    heading: str
    columns: tuple[str, ...]
    lines: list[Line]
    total: tuple[str, str]
    has_peak: bool
    note: str  # when the peak was, and who asked for it; empty where it is no more than the level
    files: str  # what of files was mapped, at the level
    level_bytes: int

    def briefly(self, most: int) -> list[Line]:
        """So many lines, the largest, what the program holds first. The last is the sum of all others: they add up."""
        if len(self.lines) <= most:
            return self.lines
        order = sorted(self.lines, key=lambda line: (line.rank, -line.level_bytes))
        shown, rest = order[: most - 1], order[most - 1 :]
        peak = sum(line.peak_bytes or 0 for line in rest) if self.has_peak else None
        line = _line(f"and {len(rest)} more", sum(line.level_bytes for line in rest), peak, self.level_bytes)
        rest.sort(key=lambda line: -line.level_bytes)
        largest = ", ".join(f"{one.name} {one.level}" for one in rest if one.level_bytes)
        return [*(one for one in self.lines if one in shown), line._replace(largest=largest)]


def told(report: Report) -> Told | None:
    """None without a bill."""
    by_moment = {bill.moment: bill for bill in report.bill}
    level, peak = by_moment.get(LEVEL), by_moment.get(PEAK)
    if level is None:
        return None
    files = [row for row in level.rows if row.account in _FILES]
    level, peak = _without_files(level), _without_files(peak) if peak is not None else None
    if not level.total_bytes:
        return None
    has_peak = peak is not None and peak.total_bytes - level.total_bytes > _DIFFERS * level.total_bytes
    at_level = _by_account(level.rows)
    at_peak = _by_account(peak.rows) if peak is not None and has_peak else {}
    sizes = {account: max(_sum(at_level, account), _sum(at_peak, account)) for account in [*at_level, *at_peak]}
    most = max(level.total_bytes, peak.total_bytes if peak is not None and has_peak else 0)
    shown = sorted((a for a in sizes if a not in _LAST and sizes[a] >= _LEAST_SHARE * most), key=lambda a: -sizes[a])
    shown.sort(key=lambda account: account not in _OF_THE_PROGRAM)
    others = [account for account in sizes if account not in (*shown, *_LAST)]
    for bill in (at_level, at_peak):
        bill["others"] = [row for account in others for row in bill.get(account, ())]
    lines = []
    for account in [*shown, *_LAST]:
        own, then = at_level.get(account, []), at_peak.get(account, [])
        if not sizes.get(account, 1) or not (own or then):
            continue
        line = _line(
            BILL_NAMES.get(account, account),
            sum(row.bytes for row in own),
            sum(row.bytes for row in then) if has_peak else None,
            level.total_bytes,
        )
        made_of = own if sum(row.bytes for row in own) >= sum(row.bytes for row in then) else then
        is_first = account in _OF_THE_PROGRAM and line.level_bytes >= _LARGE_SHARE * level.total_bytes
        rank = 0 if is_first else 2 if account == "others" else 1
        lines.append(line._replace(details=_details(account, made_of), largest=_largest(account, made_of), rank=rank))
    columns: tuple[str, ...] = ("", f"at {format_duration(level.time_s)}", "share")
    if has_peak:
        columns += ("at peak",)
    total = format_bytes(level.total_bytes), format_bytes(peak.total_bytes) if peak is not None and has_peak else ""
    note = _of_peak(peak, level) if peak is not None and has_peak else ""
    at_its_peak = f", peak {total[1]}" if has_peak else ""
    heading = f"What the memory is: {total[0]}{at_its_peak}"
    beside = f"not counted: {format_bytes(sum(row.bytes for row in files))} of mapped files"
    data = _details("mapped-files", [row for row in files if row.account == "mapped-files"])
    beside = "" if not files else f"{beside}, of which {data}" if data else beside
    return Told(heading, columns, lines, total, has_peak, note, beside, level.total_bytes)


def _without_files(bill: Bill) -> Bill:
    rows = [row for row in bill.rows if row.account not in _FILES]
    return replace(bill, rows=rows, total_bytes=sum(row.bytes for row in rows))


def _line(name: str, level_bytes: int, peak_bytes: int | None, whole_bytes: int) -> Line:
    return Line(name, level_bytes, peak_bytes, f"{level_bytes / whole_bytes:.0%}")


def _of_peak(peak: Bill, level: Bill) -> str:
    times, more = f"{peak.total_bytes / level.total_bytes:.1f} ×", format_bytes(peak.total_bytes - level.total_bytes)
    above = f"{more} more than" if times == "1.0 ×" else f"{times} what it was"
    when = f"at {format_duration(peak.time_s)}, {above} at {format_duration(level.time_s)}"
    if format_duration(peak.time_s) == format_duration(level.time_s):  # between two samples
        when = f"for a moment after {format_duration(peak.time_s)}, {above.replace('it was', 'was there then')}"
    if peak.snapshot_s is not None and (seen := format_duration(peak.snapshot_s)) != format_duration(peak.time_s):
        when += f"; divided as the snapshot at {seen} saw it"
    at = f" ({peak.file.rpartition('/')[2]}:{peak.line})" if peak.file and peak.line else ""
    return f"peak in {peak.asked_in}{at}, {when}" if peak.asked_in else f"peak {when}"


def _by_account(rows: Iterable[BillRow]) -> dict[str, list[BillRow]]:
    found: dict[str, list[BillRow]] = {}
    for row in rows:
        found.setdefault(row.account, []).append(row)
    return found


def _sum(by_account: dict[str, list[BillRow]], account: str) -> int:
    return sum(row.bytes for row in by_account.get(account, ()))


def _largest(account: str, rows: Sequence[BillRow]) -> str:
    if account in _UNDIVIDED:
        return ""
    return ", ".join(one.name for one in (rows if account in _WHOLE else _holders_of(rows))[:_MOST_HOLDERS])


def _holders_of(rows: Sequence[BillRow]) -> list[BillRow]:
    """Of several processes that each have it, once."""
    whole = sum(row.bytes for row in rows)
    alike: dict[tuple[str, str | None], list[BillRow]] = {}
    for part in (part for row in rows for part in row.parts if part.bytes >= _LEAST_SHARE * whole):
        alike.setdefault((part.name, part.type), []).append(part)
    parts = [
        replace(first, name=f"{len(more) + 1} × {first.name}", bytes=sum(p.bytes for p in (first, *more)), parts=())
        if more
        else first
        for first, *more in alike.values()
    ]
    return sorted(parts, key=lambda part: -part.bytes)


def _details(account: str, rows: Sequence[BillRow]) -> str:
    if account in _UNDIVIDED:
        return ""
    if account in _WHOLE:
        return "; ".join(f"{row.name} {format_bytes(row.bytes)}{_place(row)}" for row in rows[:_MOST_HOLDERS])
    holders = _holders_of(rows)
    texts = list(_holders(holders[:_MOST_HOLDERS]))
    if len(holders) > _MOST_HOLDERS and texts:
        rest = sum(part.bytes for part in holders[_MOST_HOLDERS:])
        texts += [f"{len(holders) - _MOST_HOLDERS} more {format_bytes(rest)}"] if rest else []
    return "; ".join(texts)


def _place(row: BillRow) -> str:
    return f" ({row.file.rpartition('/')[2]}:{row.line})" if row.file and row.line else ""


def _holders(holders: Sequence[BillRow]) -> Iterator[str]:
    for holder in holders:
        text = _one(holder, holder.name)
        parts = [part for part in holder.parts if not part.name.startswith(_REST)]
        if len(parts) == 1 and parts[0].name.endswith("[*]"):
            parts = []
        if parts:
            told = [_one(part, _short(part.name, holder.name)) for part in parts[:_MOST_PARTS]]
            more = len(parts) - _MOST_PARTS
            text += ": " + ", ".join(told) + (f" and {more} more" if more > 0 else "")
        yield text


def _one(row: BillRow, name: str) -> str:
    kind = (row.type or "").rpartition(".")[2]
    error = f" ± {format_bytes(row.error_bytes)}" if row.error_bytes and row.error_bytes > 0.02 * row.bytes else ""
    also = f", also {row.also}" if row.also is not None else ""
    return f"{name} {format_bytes(row.bytes)}{error}{f' {kind}' if kind else ''}{also}"


def _short(name: str, above: str) -> str:
    """What is added to the name above: ``.raw``, ``['raw']``."""
    return name[len(above) :] if name.startswith(above) and len(name) > len(above) else name
