"""A comparison as text for a terminal, as Markdown for a pull request, or as JSON (``leakscope.compare/1``)."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterator

from ..errors import BadInput
from ..units import format_bytes, format_count, format_duration
from ._comparison import BETTER, CANNOT_TELL, GONE, SAME, STILL, WORSE, Comparison, FindingChange, Side
from ._pace import STEP

FORMATS = ("terminal", "markdown", "json")
SCHEMA = "leakscope.compare/1"
_WORDS = {BETTER: "Better", SAME: "Same", WORSE: "Worse", CANNOT_TELL: "Cannot tell"}
_SHOWN = 8  # findings; all are in the JSON


def render(comparison: Comparison, format_name: str) -> str:
    """**Errors** BadInput for a format that is not one of FORMATS."""
    if format_name not in FORMATS:
        raise BadInput(f"there is no format {format_name!r}: there are {', '.join(FORMATS)}")
    return {"terminal": _terminal, "markdown": _markdown, "json": _json}[format_name](comparison)


def _json(comparison: Comparison) -> str:
    values = {"schema": SCHEMA, **dataclasses.asdict(comparison)}
    text = json.dumps(values, indent=2, ensure_ascii=False, allow_nan=False)
    return text.encode("utf-8", "replace").decode("utf-8") + "\n"  # a file name that is no text has lone surrogates


def _terminal(comparison: Comparison) -> str:
    rows = [("", "before", "after"), *_rows(comparison)]
    widths = [max(len(row[i]) for row in rows) for i in range(3)]
    lines = [f"{_WORDS[comparison.verdict]}: {comparison.reason}.", ""]
    lines += [("  " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths))).rstrip() for row in rows]
    findings = list(_findings(comparison))
    lines += ["", *(f"  {line}" for line in findings)] if findings else []
    closing = list(_closing(comparison))
    lines += ["", *(f"  {line}" for line in closing)] if closing else []
    return "\n".join(lines) + "\n"


def _markdown(comparison: Comparison) -> str:
    lines = [f"**{_WORDS[comparison.verdict]}**: {_escaped(comparison.reason)}.", "", "| | before | after |"]
    lines += ["|---|---|---|", *(f"| {' | '.join(map(_escaped, row))} |" for row in _rows(comparison)), ""]
    findings = [f"- {_escaped(line)}" for line in _findings(comparison)]
    lines += [*findings, ""] if findings else []
    return "\n".join([*lines, *(_escaped(line) for line in _closing(comparison))]) + "\n"


def _escaped(text: str) -> str:
    """Names of variables and files are not markup."""
    for mark in "\\`*_<>|[]":
        text = text.replace(mark, f"\\{mark}")
    return text


def _rows(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    one, two = comparison.before, comparison.after
    yield "recording", one.path, two.path
    yield "recorded", format_duration(one.duration_s), format_duration(two.duration_s)
    yield "keeps growing", _yes_no(one), _yes_no(two)
    if comparison.aligned_by == STEP:
        yield "growth per step", _per_step(one), _per_step(two)
    yield "growth per hour", _per_hour(one), _per_hour(two)
    yield "peak", format_bytes(one.peak_bytes), format_bytes(two.peak_bytes)
    if one.wasted_bytes or two.wasted_bytes:
        yield "wasted", format_bytes(one.wasted_bytes), format_bytes(two.wasted_bytes)
    for row in comparison.workers:
        yield (
            f"{row.role}s at once",
            _workers(row.before_count, row.before_bytes_each),
            _workers(row.after_count, row.after_bytes_each),
        )


def _yes_no(side: Side) -> str:
    return {True: "yes", False: "no", None: "cannot tell"}[side.grows]


def _per_step(side: Side) -> str:
    return _rate(side.growth_bytes_per_step, side.growth_bytes_per_step_low, side.growth_bytes_per_step_high)


def _per_hour(side: Side) -> str:
    return _rate(side.growth_bytes_per_hour, side.growth_bytes_per_hour_low, side.growth_bytes_per_hour_high)


def _rate(value: float | None, low: float | None, high: float | None) -> str:
    if value is None or low is None or high is None:
        return "not known"
    return f"{format_bytes(value, signed=True)} ({format_bytes(low)} to {format_bytes(high)})"


def _workers(count: int, bytes_each: int) -> str:
    return f"{count} x {format_bytes(bytes_each)}" if count else "none"


def _findings(comparison: Comparison) -> Iterator[str]:
    shown = [c for c in comparison.findings if c.severity != "note" or c.change == GONE]
    for change in shown[:_SHOWN]:
        yield f"{change.change:<5} {change.what}{_amount(change)}{_place(change)}"
    if len(shown) > _SHOWN:
        yield f"and {len(shown) - _SHOWN} more (-f json has all)"


def _amount(change: FindingChange) -> str:
    if change.change == STILL:
        return f", {format_bytes(change.before_bytes or 0)} before, {format_bytes(change.after_bytes or 0)} after"
    amount = change.before_bytes if change.change == GONE else change.after_bytes
    return f", {format_bytes(amount)}" if amount else ""


def _place(change: FindingChange) -> str:
    if change.file is None:
        return ""
    return f" ({change.file}:{change.line})" if change.line is not None else f" ({change.file})"


def _closing(comparison: Comparison) -> Iterator[str]:
    start, end = comparison.range_start, comparison.range_end
    if comparison.aligned_by == STEP:
        over = f"steps {format_count(start)} to {format_count(end)}, counted from each run's first"
        smallest = comparison.smallest_leak_bytes_per_step
        unit = "a step"
    else:
        over = f"{format_duration(end - start)} after start-up, by time"
        smallest = comparison.smallest_leak_bytes_per_hour
        unit = "an hour"
    if end > start:
        yield f"Compared over {over}."
    if smallest is not None:
        yield f"A difference below {format_bytes(smallest)} {unit} would not have been seen."
    yield from (f"But: {doubt}." for doubt in comparison.doubts)
