"""A report of a fleet as text, JSON or one page. Decides nothing."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Sequence

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from ..units import format_bytes, format_count
from ..words import printable
from . import page
from .report import FleetReport, as_json

_MOST_LINES = 12
_COUNTED = (
    ("leaking", "leaking"), ("not_leaking", "not leaking"), ("cannot_tell", "cannot tell"),
    ("not_judged", "not judged"), ("provisional", "provisional"), ("killed", "killed"),
    ("unfinished", "unfinished"), ("unreadable", "unreadable"),
)  # fmt: skip


def render(report: FleetReport, format_name: str) -> str:
    """``format_name``: html, json or terminal. The same report gives the same bytes each time."""
    if format_name == "json":
        return json.dumps(as_json(report), indent=1, allow_nan=False) + "\n"
    return page.html(report) if format_name == "html" else _text(report)


def _text(report: FleetReport) -> str:
    stream = io.StringIO()
    console = Console(file=stream, width=max(80, min(Console().width, 110)), color_system=None, highlight=False)

    def say(line: str = "") -> None:
        console.print(Text(printable(line)), soft_wrap=True)  # a terminal folds it below its own beginning

    say(f"{report.headline}.")
    say(counted(report))
    for number, claim in enumerate(report.claims, 1):
        say()
        say(f"{number}. {claim.severity}{', new' if claim.is_new else ''}: {claim.says}")
        for line in details(claim.facts, claim.finding):
            say(f"   {line}")
    for title, table in _tables(report):
        say()
        say(title)
        console.print(table)
    if report.news["since"] is not None:
        say()
        say(news(report))
    for line in report.caveats:
        say()
        say(f"Not known: {line}.")
    return "\n".join(line.rstrip() for line in stream.getvalue().splitlines()) + "\n"


def counted(report: FleetReport) -> str:
    """``1,050 recordings of 5 jobs on 24 nodes: 354 leaking, 651 not leaking, ...``."""
    counts = report.counts
    parts = [f"{counts[key]:,} {word}" for key, word in _COUNTED if counts[key]]
    recordings, jobs, nodes = (_counted(counts[f"{noun}s"], noun) for noun in ("recording", "job", "node"))
    return f"{recordings} of {jobs} on {nodes}: {', '.join(parts)}"


def _counted(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def details(facts: object, finding: object) -> Iterator[str]:
    """What stands below a claim: the line to edit, and where it was seen."""
    known, told = dict(facts), dict(finding)  # type: ignore[call-overload]
    if told.get("file"):
        line = f":{told['line']}" if told.get("line") else ""
        mark = f" · fingerprint {str(told['fingerprint'])[:12]}" if told.get("fingerprint") else ""
        yield f"{told['file']}{line} · {told['kind']}{mark}"
    seen = [f"{name.replace('_', ' ')} {value}" for name, value in known.items() if name != "odd"]
    if seen:
        yield "seen: " + "; ".join(seen)


def news(report: FleetReport) -> str:
    told = report.news
    new = f"{told['recordings']:,} recordings, {told['leaking']:,} of them leak, {told['killed']:,} were killed"
    return f"New since {told['since']}: {new}; {told['gone']:,} are gone."


def _tables(report: FleetReport) -> Iterator[tuple[str, Table]]:
    keys = ("recordings", "ranks", "attempts", "leaking", "killed")
    rows = [
        (row["job"], *(row[key] or "" for key in keys), _size(row["peak_bytes_median"]), _size(row["peak_bytes_most"]))
        for row in report.jobs
    ]
    heads = ("job", "recordings", "ranks", "attempts", "leaking", "killed", "peak, median", "most")
    yield f"Jobs{_rest(rows)}", _table(heads, rows)
    if report.kills:
        killed = [(r["node"], _size(r["limit_bytes"]), r["killed"], r["recordings"]) for r in report.kills]
        yield f"Kills by node and limit{_rest(killed)}", _table(("node", "limit", "killed", "recordings"), killed)


def _rest(rows: Sequence[tuple[object, ...]]) -> str:
    return f", the first {_MOST_LINES} of {len(rows)}" if len(rows) > _MOST_LINES else ""


def _table(heads: tuple[str, ...], rows: Sequence[tuple[object, ...]]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for number, head in enumerate(heads):
        table.add_column(head, justify="right" if number else "left")
    for row in rows[:_MOST_LINES]:
        table.add_row(*(Text(format_count(cell) if isinstance(cell, int) else printable(str(cell))) for cell in row))
    return table


def _size(value: float | None) -> str:
    return "" if value is None else format_bytes(value)
