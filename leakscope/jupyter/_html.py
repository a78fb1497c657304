"""Fragments of HTML that look like the notebook round them: no script, no colour but for the verdict, all escaped."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from markupsafe import Markup

from ..findings import Finding, LedgerRow, Report
from ..units import format_bytes, format_count
from ..words import amount, printable

_VERDICTS = {True: ("LEAKING", "#b3261e"), False: ("NOT LEAKING", "#1b6e35"), None: ("CANNOT TELL", "#7a5b00")}
_LEDGER_ROWS = 8


def recording_html(
    name: str,
    meta: Mapping[str, Any],
    ended: tuple[str, int | None, int | None],
    row_counts: Mapping[str, int],
    notes: Iterable[str],
) -> str:
    """What was recorded, and how many rows of what there are."""
    how, code, signal = ended
    end = {"exit": f"exit status {code}" if code is not None else "end not recorded", "signal": f"signal {signal}"}
    command = " ".join(map(str, meta.get("command") or ())) or "attached to a running process"
    facts = [command, str(meta.get("started_at") or ""), end.get(how, "end not recorded")]
    parts = [
        Markup("<b>{}</b> · <code>{}</code> · {} · {}").format(name, *map(_shown, facts)),
        _list(map(_shown, notes)),
        _table(("table", "rows"), [(table, format_count(count)) for table, count in row_counts.items()], right={1}),
        Markup("<small>.tables.NAME is a DataFrame; .describe() explains the columns, .report() the run</small>"),
    ]
    return str(Markup("<div>{}</div>").format(Markup("").join(parts)))


def report_html(report: Report) -> str:
    """Verdict, findings, ledger, what was ruled out and what could not be looked at."""
    word, colour = _VERDICTS[report.verdict.leaking]
    killed = Markup(" <b>KILLED</b>") if report.verdict.killed else ""
    parts = [
        Markup('<p><b style="background:{};color:white;padding:1px 6px">{}</b>{} <b>{}</b></p>').format(
            colour, word, killed, _shown(report.verdict.headline)
        )
    ]
    parts += [_finding(finding, number) for number, finding in enumerate(report.findings, 1)]
    if report.ledger:
        parts.append(_folded("Where the growth went", _ledger(report.ledger), is_open=True))
    if report.ruled_out:
        reasons = [f"{one.kind}: {one.reason}" for one in report.ruled_out]
        parts.append(_folded(f"Ruled out: {len(reasons)}", _list(map(_shown, reasons))))
    blind = [f"{one.kind}: {one.reason}" for one in report.skipped] + list(report.recording.notes)
    if blind:
        parts.append(_folded(f"Not checked: {len(blind)}", _list(map(_shown, blind))))
    return str(Markup("<div>{}</div>").format(Markup("").join(parts)))


def growth_html(heading: str, columns: Sequence[str], rows: Sequence[Sequence[str]], lines: Sequence[str]) -> str:
    """What ``%%leakscope`` shows: a heading, a table whose figures stand at the right, and sentences."""
    table = _table(columns, rows, right=set(range(1, len(columns)))) if rows else Markup("")
    said = Markup("").join(Markup("<div>{}</div>").format(_shown(line)) for line in lines)
    return str(Markup("<div><b>{}</b>{}{}</div>").format(_shown(heading), table, said))


def _finding(finding: Finding, number: int) -> Markup:
    subject = finding.subject
    place = f"{subject.file}:{subject.line}" if subject.file and subject.line else subject.file
    facts = [
        ("where", place),
        ("held by", subject.holder or subject.variable),
        ("path", subject.path),
        ("process", subject.process),
        ("amount", amount(finding)),
    ]
    rows = [(name, _shown(value)) for name, value in facts if value]
    texts = (
        ("Evidence", [e.text for e in finding.evidence]),
        ("Doubts", finding.doubts),
        ("What to do", finding.remedy),
    )
    body = [_table((), rows)]
    body += [Markup("<b>{}</b>{}").format(name, _list(map(_shown, said))) for name, said in texts if said]
    title = f"{number}. {finding.severity}, {finding.kind}: {finding.title}"
    return _folded(title, Markup("").join(body), is_open=number == 1)


def _ledger(rows: Sequence[LedgerRow]) -> Markup:
    """The largest movements; the rest is added up, so that the column still sums to the growth."""
    largest = sorted(rows, key=lambda row: -abs(row.growth_bytes))
    shown = [
        (row.account, _shown(row.process), ("~" if row.estimated else "") + format_bytes(row.growth_bytes, signed=True))
        for row in largest[:_LEDGER_ROWS]
    ]
    if rest := largest[_LEDGER_ROWS:]:
        shown.append((f"{len(rest)} more", "", format_bytes(sum(row.growth_bytes for row in rest), signed=True)))
    total = format_bytes(sum(row.growth_bytes for row in rows), signed=True)
    return _table(("account", "process", "growth"), [*shown, ("all", "", total)], right={2})


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], right: Iterable[int] = ()) -> Markup:
    def line(cells: Sequence[str], tag: str) -> Markup:
        places = [f"text-align:{'right' if at in right else 'left'}" for at in range(len(cells))]
        filled = [Markup("<{0} style='{1}'>{2}</{0}>").format(tag, *pair) for pair in zip(places, cells)]
        return Markup("<tr>{}</tr>").format(Markup("").join(filled))

    lines = [line(heads, "th")] if heads else []
    return Markup("<table>{}</table>").format(Markup("").join([*lines, *(line(row, "td") for row in rows)]))


def _list(texts: Iterable[str]) -> Markup:
    return Markup("<ul>{}</ul>").format(Markup("").join(Markup("<li>{}</li>").format(text) for text in texts))


def _folded(title: str, body: Markup, is_open: bool = False) -> Markup:
    opening = Markup(" open") if is_open else ""
    return Markup("<details{}><summary>{}</summary>{}</details>").format(opening, _shown(title), body)


def _shown(text: object) -> str:
    """A string of the job's as it may be shown: what is invisible, or turns a line round, is written out."""
    return printable(str(text))
