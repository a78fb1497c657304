"""The report for a person at a terminal: the verdict, the answer, what speaks for and against it, then the accounts.

It is one screen: what is the matter, the line with its source, what to do, what that rests on, and tables, as many and
of as many rows as still fit: of 25 lines, or of a taller terminal. ``verbose`` has all there is.

Colour is in the text whenever ``color`` is not False; who prints it to something that is no terminal takes it out.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from io import StringIO
from textwrap import dedent
from typing import NamedTuple

from rich import box
from rich.console import Console, ConsoleOptions, ConsoleRenderable, Group, RenderableType
from rich.measure import Measurement
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..findings import (
    ROLES,
    BudgetRow,
    Excerpt,
    Finding,
    GpuLine,
    LedgerRow,
    ProcessRow,
    RecordingFacts,
    Report,
    Subject,
    Verdict,
    file_of,
)
from ..units import format_about, format_bytes, format_duration
from ..words import (
    VERDICTS,
    accepted,
    amount,
    beside,
    by_reason,
    caveats,
    cost,
    how_to_edit,
    judged,
    printable,
    rests_on,
    ruled_out_kinds,
    run_facts,
)
from . import _bill
from ._gpu import LINE_COLUMNS, SNAPSHOT_MOMENTS, largest_lines, line_cells
from ._holders import COLUMNS, Held, largest_holders
from ._places import cwd, run_argument

SUFFIX = ".txt"
_WIDEST = 110  # longer lines are hard to read
_SHORT_COMMAND, _LONGEST_COMMAND = 36, 3 * _WIDEST  # beside the facts of the run on a line of 80; some lines of its own
_LEAST_COMMAND = 12
_SEVERITY_STYLES = {"critical": "bold red", "warning": "bold yellow", "note": "bold cyan"}
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_AROUND = 1  # lines before and after the one that is meant
_MOST_DOUBTS = 2  # of the screen
_NOBODY = "no "  # a holder that is none: no Python object
_SCREEN_LINES, _PROMPT_LINES = 25, 2
_LEAST_LINE, _LONGEST_HEADING = 20, 40
_CLAUSE_END = re.compile(r"(?:;|, (?=from|which|of which|so that|because)|: (?=to ))")
_MEMBERS = re.compile(r"(?= of |, mostly )")  # behind the type of a container
_LEAST_TENSOR_SHARE = 0.01  # of what a process holds
_MOST_NAMED = 2  # of the kinds that were ruled out
_SHOWN_FINGERPRINT = 12
_MOST_BUDGETS = 6  # columns of the table of tensors
_UNSEEN = 0.001  # of the sum: less is not in its figures
_MISLEADING = 1.2  # summed RSS over PSS: less is a shared library or two
_SMALL_BYTES = 1024 * 1024  # accounts that moved by less are no news


class _Size(NamedTuple):
    """How much the screen has of what could be long. ``lines``: of a sentence of evidence and of a note, and one doubt;
    0: whole sentences.
    """

    rows: int  # of each table, beside its sum
    evidence: int
    findings: int
    remedies: int
    lines: int = 0
    tables: int = 2
    has_cost: bool = True


_SIZES = (  # whole sentences, rather than more; one table with its largest rows, rather than halves of two, or none
    _Size(4, 3, 4, 2), _Size(3, 3, 3, 2), _Size(3, 2, 2, 2), _Size(3, 1, 2, 2), _Size(2, 1, 2, 2), _Size(2, 1, 2, 1),
    _Size(4, 1, 2, 2, tables=1), _Size(3, 1, 2, 1, tables=1), _Size(2, 1, 2, 1, tables=1),
    _Size(2, 1, 2, 1, tables=1, has_cost=False), _Size(2, 1, 2, 1, 2, 1, False), _Size(2, 1, 1, 1, 2, 1, False),
    _Size(0, 1, 2, 1, tables=0), _Size(0, 1, 2, 1, tables=0, has_cost=False), _Size(0, 1, 1, 1, 0, 0, False),
    _Size(0, 1, 1, 1, 2, 0, False), _Size(0, 1, 1, 1, 1, 0, False),
)  # fmt: skip
_TALL = (_Size(10, 9, 9, 4, tables=5), _Size(8, 6, 6, 3, tables=4), _Size(6, 4, 5, 3, tables=3))  # of a taller terminal


def render(
    report: Report,
    *,
    width: int | None = None,
    height: int | None = None,
    color: bool | None = None,
    verbose: bool = False,
) -> str:
    """Text of at most ``width`` columns (the terminal's by default), without trailing blanks.

    ``height``: lines of the terminal, of which a prompt takes some; None: of 25. ``verbose``: all there is.
    """
    if color is None:
        color = not os.environ.get("NO_COLOR")
    columns = max(40, min(width or shutil.get_terminal_size((100, 24)).columns, _WIDEST))
    if verbose:
        return _printed(_all(report), columns, color)
    most = max(_SCREEN_LINES, (height or 0) - _PROMPT_LINES)
    for size in (*_TALL, *_SIZES) if most > _SCREEN_LINES else _SIZES:
        text = _printed(_screen(report, size, columns), columns, color)
        if text.count("\n") <= most:
            break
    return text


def _printed(parts: Iterable[RenderableType], columns: int, color: bool) -> str:
    stream = StringIO()
    console = Console(
        file=stream,
        width=columns,
        force_terminal=color,
        color_system="standard" if color else None,
        no_color=not color,
        highlight=False,
        emoji=False,
        markup=False,
        legacy_windows=False,
        force_jupyter=False,  # it would print beside the text it makes
        _environ={},  # the caller has decided; the environment must not decide again
    )
    for part in parts:
        console.print(part)
    return "\n".join(map(_without_blanks, stream.getvalue().split("\n"))).strip("\n") + "\n"


def _without_blanks(line: str) -> str:
    """None at its end; the colours that begin and end among them stay."""
    if "\x1b" not in line:
        return line.rstrip(" ")
    parts = _COLOUR.split(line)  # text, colour, text, ...
    for at in range(len(parts) - 1, -1, -2):
        parts[at] = parts[at].rstrip(" ")
        if parts[at]:
            break
    return "".join(parts)


def _all(report: Report) -> Iterator[RenderableType]:
    yield _verdict(report.verdict)
    yield _run_line(report.recording, None)
    for number, finding in enumerate(report.findings, 1):
        yield ""
        yield from _finding(report, finding, number)
    yield from _ignored(report)
    for _, heading, table, notes in _tables(report, None):
        yield _heading(heading)
        yield Padding(Group(table, *(Text(note, style="dim") for note in notes)), (0, 0, 0, 2))
    if report.ruled_out:
        yield _heading("Ruled out")
        yield _list([_joined(kinds, reason) for kinds, reason in by_reason(report.ruled_out)])
    if blind := [*(_joined(*one) for one in by_reason(report.skipped)), *map(_clean, caveats(report))]:
        yield _heading("Not checked")
        yield _list(blind, style="dim")
    yield ""
    yield Text(cost(report.recording), style="dim")


def _screen(report: Report, size: _Size, columns: int) -> Iterator[RenderableType]:
    yield _verdict(report.verdict)
    yield _run_line(report.recording, columns)
    for number, finding in enumerate(report.findings[: size.findings], 1):
        if number == 1:
            yield ""
            yield from _answer(report, finding, size)
        else:
            yield from _further_finding(report, finding, number)
    if (more := len(report.findings) - size.findings) > 0:
        yield Text(f"   and {more} more {'finding' if more == 1 else 'findings'} (--verbose)", style="dim")
    yield from _ignored(report)
    yield from _most_telling(report, size)
    if size.has_cost or not size.tables:  # else each line counts
        yield ""
    for note in caveats(report):
        line = _styled(Text.assemble("! ", _clean(note)), "dim")
        yield _hanging(line, 2) if not size.lines else _Clipped(line, 1)
    not_checked = list(dict.fromkeys(one.kind for one in report.skipped if one.applies))
    told = [_named("Not checked", not_checked), _named("Ruled out", ruled_out_kinds(report)), _left_out(report, size)]
    if text := " · ".join(filter(None, told)):
        yield Text(f"{text} (--verbose)", style="dim")
    if size.has_cost:
        yield Text(cost(report.recording, briefly=True), style="dim")


def _left_out(report: Report, size: _Size) -> str:
    """What the screen has no room for, beside findings, of which it says so where they stand."""
    parts = []
    if report.findings:
        first = report.findings[0]
        shown = (size.evidence, len(first.evidence), "evidence"), (_most_doubts(size), len(first.doubts), "doubts")
        parts = [what for most, count, what in shown if count > most]
    tables = sum(1 for _ in _tables(report, 1)) - size.tables
    parts += [f"{tables} table{'' if tables == 1 else 's'}"] if tables > 0 else []
    return f"Left out: {', '.join(parts)}" if parts else ""


def _most_doubts(size: _Size) -> int:
    return 1 if size.lines else _MOST_DOUBTS


def _ignored(report: Report) -> Iterator[RenderableType]:
    if report.ignored:
        yield _heading("Ignored by pyproject.toml")
        yield _list([_clean(accepted(one)) for one in report.ignored], style="dim")


def _source_of(report: Report, finding: Finding) -> Excerpt | None:
    meant = (finding.subject.file or "", finding.subject.line or 0)
    return next((one for one in report.excerpts if (one.file, one.line) == meant), None)


def _is_said(report: Report, finding: Finding) -> bool:
    """The headline has its title already."""
    return _lower(finding.title) in _lower(report.verdict.headline)


def _most_telling(report: Report, size: _Size) -> Iterator[RenderableType]:
    """Two tables, those first that the first finding is about, each with its heading over its first column."""
    about = report.findings[0].subject if report.findings else Subject()
    if about.device not in (None, "cpu"):
        order = ["lines", "tensors", "on-gpus"]
    elif report.verdict.leaking and not report.verdict.killed:
        order = ["growth", "holders", "processes"]
    else:
        order = ["bill", "processes", "holders", "growth"]
    tables = sorted(_tables(report, size.rows), key=lambda one: order.index(one[0]) if one[0] in order else len(order))
    for number, (name, heading, table, notes) in enumerate(tables[: size.tables]):
        if number == 0:
            yield ""
        table.box, table.columns[0].header = None, heading
        table.columns[0].min_width = min(len(heading), _LONGEST_HEADING)
        yield table
        for note in notes if name == "bill" else ():
            yield _Clipped(Text(printable(note), style="dim"), 1)


def _tables(report: Report, most: int | None) -> Iterator[tuple[str, str, Table, list[str]]]:
    """(name, heading, table, notes below it), in the order in which all are shown. ``most``: rows; None: all."""
    verbose = most is None
    if report.ledger and (verbose or any(map(_has_moved, report.ledger))):
        when = judged(report.verdict, briefly=not verbose)
        yield "growth", "Where the growth went" + when, _ledger(report.ledger, most), _below_ledger(report.ledger)
    bill = _bill.told(report)
    if bill is not None:
        notes = [note for note in (bill.note, bill.files if verbose else "") if note]
        yield "bill", printable(bill.heading), _bill_table(bill, most), notes
    for name, (heading, held) in zip(("holders", "on-gpus"), largest_holders(report)):
        yield name, printable(heading), _holders(held[:most], verbose), []
    if sum(row.count for row in report.processes) > 1:
        yield "processes", "Processes, when the job had most memory", _processes(report.processes, most), []
    budget = [row for row in report.tensor_budget if verbose or bill is None or not _is_in_bill(row)]
    if budget and (verbose or _are_tensors_some(budget)):
        whose = {row.process for row in budget}
        several = len(whose) == 1 < sum(row.count for row in report.processes)
        heading = "What the tensors are" + (f" in {whose.pop()}" if several else "")
        yield "tensors", printable(heading), _budget(budget, most), []
    for number, (heading, lines) in enumerate(largest_lines(report.gpu_lines)):
        name = "lines" if number == 0 else f"lines-{number}"
        yield name, printable(heading), _gpu_lines(lines[:most]), []


def _named(what: str, kinds: Sequence[str]) -> str:
    shown = ", ".join(kinds) if len(kinds) <= _MOST_NAMED else f"{len(kinds)} kinds"
    return printable(f"{what}: {shown}") if kinds else ""


def _verdict(verdict: Verdict) -> ConsoleRenderable:
    style = {True: "bold white on red", False: "bold black on green", None: "bold black on yellow"}[verdict.leaking]
    badges = Text().append(f" {VERDICTS[verdict.leaking]} ", style=style)  # of which what follows has no colour
    if verdict.killed:
        badges.append(" ").append(" KILLED ", style="bold white on red")
    if verdict.seconds_to_limit is not None:
        badges.append(f"  {verdict.limit or 'limit'} full in {format_about(verdict.seconds_to_limit)}", style="red")
    return Group(badges, _styled(_clean(verdict.headline), "bold"))


def _run_line(recording: RecordingFacts, columns: int | None) -> Text:
    """What ran, and how it went; in so many ``columns``, as much of a long command as stands beside it."""
    words, facts = [*recording.command], run_facts(recording, briefly=columns is not None)
    if words and columns is not None:
        words[0] = words[0].rpartition("/")[2]
    command, gap = _clean(" ".join(words)) if words else Text("(attached)"), "  ·  "
    if columns is not None:
        command.truncate(max(_LEAST_COMMAND, columns - len(gap + facts)), overflow="ellipsis")
    elif len(command) > _SHORT_COMMAND:
        command.truncate(_LONGEST_COMMAND, overflow="ellipsis")
        gap = "\n"
    return _styled(Text.assemble(command, gap, facts), "dim")


def _answer(report: Report, finding: Finding, size: _Size) -> Iterator[RenderableType]:
    """The first finding: its line, what to do, and what speaks for and against it."""
    title = _title(finding, 1, _is_said(report, finding))
    title.append_text(_styled(_clean(f" · {amount(finding, briefly=True)}"), "dim"))
    yield _hanging(title, 3)
    subject = replace(finding.subject, file=file_of(finding, cwd(report)))
    if (where := _where(subject)) is not None:
        yield Padding(where, (0, 0, 0, 3))
    if (source := _source_of(report, finding)) is not None:
        yield Padding(_source(source, 0), (0, 0, 0, 3))
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, texts, style, is_cut in (
        ("What to do", _short_advice(finding, run_argument(report.recording), size.remedies), "green", False),
        ("Evidence", [one.text for one in finding.evidence[: size.evidence]], "", True),
        ("Doubts", finding.doubts[: _most_doubts(size)], "yellow", False),
    ):
        for at, text in enumerate(texts):
            line = _styled(_clean(text), style)
            table.add_row(name if at == 0 else "", _Clipped(line, size.lines) if is_cut and size.lines else line)
    yield Padding(table, (0, 0, 0, 3))


class _Clipped:
    """A sentence in so many lines: the clauses that fit, or as many words as do."""

    def __init__(self, text: Text, lines: int) -> None:
        self._text, self._lines = text, lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Text]:
        text, width = self._text, options.max_width
        wrapped = text.wrap(console, width)
        if len(wrapped) > self._lines:
            room = sum(len(line) for line in wrapped[: self._lines])
            ends = [match.start() for match in _CLAUSE_END.finditer(text.plain, 0, room + 1)]
            if ends and ends[-1] > room / 2:
                text = text[: ends[-1]]
            else:
                end = text.plain.rfind(" ", 0, room - 1)
                text = text[: end if end > room / 2 else room - 1] + Text(" …" if end > room / 2 else "…")
        yield text

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(_LEAST_LINE, max(_LEAST_LINE, len(self._text)))


def _short_advice(finding: Finding, run: str, most: int) -> list[str]:
    edit = how_to_edit(finding, run)
    return [*finding.remedy[: max(1, most - len(edit))], *edit]


def _further_finding(report: Report, finding: Finding, number: int) -> Iterator[RenderableType]:
    """In two lines: what it is, and where."""
    yield _hanging(_title(finding, number, False), 3)
    subject = replace(finding.subject, file=file_of(finding, cwd(report)))
    place = f"{subject.file}:{subject.line}" if subject.file and subject.line else subject.file
    facts = [place, amount(finding, briefly=True), *([] if place else [subject.process_text]), finding.kind]
    yield Padding(_styled(_clean(" · ".join(filter(None, facts))), "dim"), (0, 0, 0, 3))


def _title(finding: Finding, number: int, is_said: bool) -> Text:
    style = _SEVERITY_STYLES.get(finding.severity, "bold")
    text = finding.kind if is_said and number == 1 else finding.title
    return Text.assemble((f"{number}. ", "bold"), (f"{finding.severity}: ", style), _styled(_clean(text), "bold"))


def _finding(report: Report, finding: Finding, number: int) -> Iterator[RenderableType]:
    """What a person would do next stands before what speaks for it."""
    yield _hanging(_title(finding, number, _is_said(report, finding)), 3)
    where = _where(finding.subject)
    if where is not None:
        yield Padding(where, (0, 0, 0, 3))
    source, run = _source_of(report, finding), run_argument(report.recording)
    if source is not None:
        yield Padding(_source(source, _AROUND), (0, 0, 0, 3))
    for name, lines, line_style in (
        ("What to do", [_clean(r) for r in (*finding.remedy, *how_to_edit(finding, run))], "green"),
        ("Evidence", [_clean(e.text) for e in finding.evidence], ""),
        ("Doubts", [_clean(d) for d in finding.doubts], "yellow"),
        (f"{finding.confidence:.0%} sure", [_clean(line) for line in rests_on(finding)], "dim"),
    ):
        if lines:
            yield Padding(Text(name, style="bold"), (0, 0, 0, 3))
            yield Padding(_list(lines, style=line_style), (0, 0, 0, 3))
    mark = [f"fingerprint {finding.fingerprint[:_SHOWN_FINGERPRINT]}"] if finding.fingerprint else []
    yield Padding(_styled(_clean(" · ".join([amount(finding), *_further(finding), *mark])), "dim"), (0, 0, 0, 3))


def _where(subject: Subject) -> Text | None:
    """What a person would edit, and what is held there."""
    parts = []
    if subject.file:
        place = _styled(_clean(subject.file + (f":{subject.line}" if subject.line else "")), "bold cyan")
        if subject.function:
            place.append_text(Text.assemble(" in ", _clean(subject.function)))
        parts.append(place)
    holder, type_text = _once(subject.holder or subject.variable or "", subject.type or "")
    if holder.startswith(_NOBODY) and type_text:
        parts.append(_clean(f"{type_text} objects held by {holder}"))
        type_text = ""
    elif holder:
        parts.append(Text.assemble("held by ", _clean(holder)))
    if type_text:
        parts.append(_clean(type_text))
    return Text(", ").join(parts) if parts else None


def _once(holder: str, type_text: str) -> tuple[str, str]:
    """``Store.rows (list)`` and ``list of Row`` are ``Store.rows (list of Row)``: what both say is said once, as is
    ``threading.Thread`` beside ``127 threads of follow``.
    """
    words = re.findall(r"\w+", holder.lower())
    if {type_text.rsplit(".", 1)[-1].lower() + plural for plural in ("", "s", "es")} & {*words}:
        return holder, ""
    name, _, kind = holder.removesuffix(")").rpartition(" (")
    whole, *members = _MEMBERS.split(type_text, maxsplit=1)
    if not (name and holder.endswith(")") and kind == whole.rsplit(".", 1)[-1]):
        return holder, type_text
    return f"{name} ({kind}{''.join(members)})", ""


def _further(finding: Finding) -> Iterator[str]:
    """The rest of what is known of the subject, in a line."""
    subject = finding.subject
    yield finding.kind
    if subject.path and subject.path != subject.holder:
        yield f"path {subject.path}"
    if subject.library:
        yield subject.library
    if subject.process_text:
        yield subject.process_text


def _source(excerpt: Excerpt, around: int) -> Group:
    """The line, with a few round it; of long ones the beginning."""
    shown = [
        (at, line) for at, line in enumerate(excerpt.lines, excerpt.first_line) if abs(at - excerpt.line) <= around
    ]
    texts = dedent("\n".join(line.expandtabs(4).replace("\n", " ").rstrip() for _, line in shown)).split("\n")
    digits = len(str(shown[-1][0]))
    lines = []
    for (at, _), line in zip(shown, texts):
        is_meant = at == excerpt.line
        number = (f"{'> ' if is_meant else ''}{at:>{digits}} ".rjust(digits + 3), "dim")
        text = _styled(_clean(line), "bold" if is_meant else "dim")
        lines.append(Text.assemble(number, text, no_wrap=True, overflow="ellipsis"))
    return Group(*lines)


def _is_in_bill(row: BudgetRow) -> bool:
    """What tensors in memory are, as the last snapshot saw them."""
    return row.device == "cpu" and row.moment == "end"


def _table(texts: Sequence[str] = (), figures: Sequence[str] = (), *, summed: bool = False) -> Table:
    """An empty one. ``summed``: with a line of sums below."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_footer=summed, footer_style="bold")
    for name in texts:
        table.add_column(name, overflow="fold")
    for name in figures:
        table.add_column(name, justify="right", no_wrap=True)
    return table


def _bill_table(bill: _bill.Told, most: int | None) -> Table:
    """Briefly, what each line is made of stands behind it, as far as there is room."""
    is_brief = most is not None  # the heading has the total
    table = _table(summed=not is_brief)
    totals = ("total", bill.total[0], "", bill.total[1])
    for number, (column, total) in enumerate(zip(bill.columns, totals)):
        table.add_column(column, total, justify="right" if number else "left", no_wrap=number > 0, overflow="fold")
    for line in bill.lines if most is None else bill.briefly(max(2, most - bool(bill.note))):
        told = _clean(line.name)
        if details := line.largest if is_brief else line.details:
            told = Text.assemble(told, ": " if is_brief else "\n", _styled(_clean(details), "dim"))
        if is_brief:
            told.no_wrap, told.overflow = True, "ellipsis"
        cells = [told, Text(line.level), Text(line.share), Text(line.peak)]
        table.add_row(*cells[: len(bill.columns)])
    return table


def _holders(held: Sequence[Held], verbose: bool) -> Table:
    """Briefly, who it is and what it is share a column."""
    table = _table(COLUMNS[: 2 if verbose else 1], COLUMNS[2:])
    for one in held:
        path, what, *figures = map(_clean, one.cells)
        table.add_row(*([path, what] if verbose else [Text.assemble(path, (f" ({what})", "dim"))]), *figures)
    return table


def _ledger(rows: Sequence[LedgerRow], most: int | None) -> Table:
    """Processes named once; the sum below, so that a reader sees the accounts close.

    Briefly: what moved most, and of which process behind it, and all others in one row: what is shown adds up.
    """
    rows = [row for row in rows if row.in_total]
    table = _table(summed=True)
    several = len({row.process for row in rows}) > 1
    total = sum(row.growth_bytes for row in rows)
    table.add_column("account", "total")
    has_column = several and most is None
    if has_column:
        table.add_column("process", overflow="fold")
    for name, figure in (("start", sum(r.start_bytes for r in rows)), ("end", sum(r.end_bytes for r in rows))):
        table.add_column(name, format_bytes(figure), justify="right", no_wrap=True)
    table.add_column("growth", format_bytes(total, signed=True), justify="right", no_wrap=True)
    rest: list[LedgerRow] = []
    if most is not None:
        least = _UNSEEN * max(sum(row.start_bytes for row in rows), sum(row.end_bytes for row in rows))
        rows = [row for row in rows if max(row.start_bytes, row.end_bytes) >= least]
    if most is not None and len(rows) > most:
        shown = sorted(rows, key=lambda row: -abs(row.growth_bytes))[: max(1, most - 1)]
        rows, rest = [row for row in rows if row in shown], [row for row in rows if row not in shown]
    largest = max((row.growth_bytes for row in rows), default=0)
    before = None
    for row in rows:
        account = row.account + (" ~" if row.estimated else "")
        cells = [_clean(f"{account} in {row.process}" if several and not has_column else account)]
        if has_column:
            cells.append(_clean(row.process if row.process != before else ""))
        before = row.process
        cells += [Text(format_bytes(row.start_bytes)), Text(format_bytes(row.end_bytes))]
        style = "bold red" if row.growth_bytes == largest > 0 else ""
        table.add_row(*cells, Text(format_bytes(row.growth_bytes, signed=True), style=style))
    if rest:
        start, end = sum(row.start_bytes for row in rest), sum(row.end_bytes for row in rest)
        table.add_row(f"and {len(rest)} more", *map(format_bytes, (start, end)), format_bytes(end - start, signed=True))
    return table


def _has_moved(row: LedgerRow) -> bool:
    return row.in_total and abs(row.growth_bytes) >= _SMALL_BYTES


def _below_ledger(rows: Sequence[LedgerRow]) -> list[str]:
    estimated = any(row.estimated for row in rows if row.in_total)
    notes = ["~ estimated from snapshots of the heap"] if estimated else []
    return [*notes, *beside([row for row in rows if not row.in_total])]


def _budget(rows: Sequence[BudgetRow], most: int | None) -> Table:
    """An account a row; a column for each process, device and moment, as many as there are."""
    table = _table(summed=True)
    columns = list(dict.fromkeys((row.process, row.device, row.moment) for row in rows))[:_MOST_BUDGETS]
    accounts = list(dict.fromkeys(row.account for row in sorted(rows, key=lambda row: row.account == "not-tensors")))
    table.add_column("account", "total")
    several = len({process for process, _, _ in columns}) > 1
    figures: dict[tuple[str, str, str], dict[str, int]] = {column: {} for column in columns}
    for row in rows:
        figures.get((row.process, row.device, row.moment), {})[row.account] = row.bytes
    for process, device, moment in columns:
        own = [row.time_s for row in rows if (row.process, row.device, row.moment) == (process, device, moment)]
        at_s = own[0] if own else None
        when = {"end": "in the last snapshot", "peak": "peak of a step", **SNAPSHOT_MOMENTS}.get(moment, moment)
        when += f", {format_duration(at_s)}" if at_s is not None else ""
        title = f"{when} {process} {device}" if several else f"{when} ({device})"
        total = sum(figures[process, device, moment].values())
        table.add_column(_clean(title), format_bytes(total), justify="right")
    if most is not None:
        sizes = {account: max(own.get(account, 0) for own in figures.values()) for account in accounts}
        least = _LEAST_TENSOR_SHARE * sum(sizes.values())
        accounts = sorted((one for one in accounts if sizes[one] >= least), key=lambda one: -sizes[one])
    for account in accounts[:most]:
        cells = [figures[column].get(account) for column in columns]
        table.add_row(_clean(account), *(Text("" if c is None else format_bytes(c)) for c in cells))
    return table


def _are_tensors_some(rows: Sequence[BudgetRow]) -> bool:
    """Whether they are any part of what a process holds that a reader would look for."""
    whole: dict[tuple[str, str, str], list[int]] = {}
    for row in rows:
        whole.setdefault((row.process, row.device, row.moment), [0, 0])[row.account == "not-tensors"] += row.bytes
    return any(tensors >= _LEAST_TENSOR_SHARE * (tensors + others) for tensors, others in whole.values())


def _gpu_lines(lines: Sequence[GpuLine]) -> Table:
    table = _table(LINE_COLUMNS[:2], LINE_COLUMNS[2:])
    for line in lines:
        table.add_row(*map(_clean, line_cells(line)))
    return table


def _processes(rows: Sequence[ProcessRow], most: int | None) -> Table:
    """A role a row. Summed RSS is there because other tools show it, with the factor by which it says too much."""
    if most is not None:
        table = _table(("process",), ("count", "lived", "memory", "private"))
        for row in sorted(rows, key=lambda row: -row.held_bytes)[:most]:
            sizes = format_bytes(row.held_bytes), format_bytes(row.private_bytes)
            process = _clean(f"{row.process} ({ROLES.get(row.role, row.role)})")
            table.add_row(process, f"{row.count}", format_duration(row.lifetime_s), *sizes)
        return table
    table = _table(("process",), ("count", "lived", "core", "memory", "private", "summed RSS"))
    for row in rows:
        count = f"{row.count}" if row.count == row.most_at_once else f"{row.count} ({row.most_at_once} at once)"
        factor = row.rss_bytes / row.pss_bytes if row.pss_bytes else 1.0
        summed = format_bytes(row.rss_bytes) + (f" ({factor:.1f}x)" if factor >= _MISLEADING else "")
        figures = (count, format_duration(row.lifetime_s), f"{row.busy_share:.0%}", format_bytes(row.held_bytes))
        process = _clean(f"{row.process} ({ROLES.get(row.role, row.role)})")
        table.add_row(process, *map(Text, figures), Text(format_bytes(row.private_bytes)), Text(summed, style="dim"))
    return table


def _heading(text: str) -> Group:
    return Group("", Text(text, style="bold"))


def _joined(kind: str, reason: str) -> Text:
    return Text.assemble((f"{_clean(kind)}: ", "bold"), _clean(reason))


def _list(lines: Sequence[Text], style: str = "") -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=3, justify="right")
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(Text("·", style=style or "dim"), _styled(line, style))
    return table


def _lower(text: str) -> str:
    return text.lower().rstrip(".")


def _hanging(text: Text, indent: int) -> Table:
    """A paragraph whose further lines start below its own text."""
    table = Table.grid()
    table.add_column(width=indent, no_wrap=True)
    table.add_column(overflow="fold")
    table.add_row(text[:indent], text[indent:])
    return table


def _styled(text: Text, style: str) -> Text:
    text.stylize(style)
    return text


def _clean(text: str) -> Text:
    """A string of the job's as harmless text."""
    return Text(printable(text))
