"""The report for a person at a terminal: the verdict, the answer, what speaks for and against it, then the accounts.

The first screen is enough to act: what is the matter, the line with its source, what to do, and what that rests on.
What was ruled out stands in one line, and further evidence is left out, unless everything is asked for.

Colour is in the text whenever ``color`` is not False; who prints it to something that is no terminal takes it out.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Iterator, Sequence
from io import StringIO
from textwrap import dedent

from rich import box
from rich.console import Console, ConsoleRenderable, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from ..findings import (
    ROLES,
    BudgetRow,
    Evidence,
    Excerpt,
    Finding,
    GpuLine,
    LedgerRow,
    ProcessRow,
    RecordingFacts,
    Report,
    Skipped,
    Subject,
    Verdict,
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
    judged,
    printable,
    rests_on,
    ruled_out_kinds,
    run_facts,
)
from . import _bill
from ._gpu import LINE_COLUMNS, SNAPSHOT_MOMENTS, largest_lines, line_cells
from ._holders import COLUMNS, Held, largest_holders

SUFFIX = ".txt"
_WIDEST = 110  # longer lines are hard to read
_SHORT_COMMAND, _LONGEST_COMMAND = 36, 3 * _WIDEST  # beside the facts of the run on a line of 80; some lines of its own
_SEVERITY_STYLES = {"critical": "bold red", "warning": "bold yellow", "note": "bold cyan"}
_COLOUR = re.compile(r"(\x1b\[[0-9;]*m)")
_AROUND = 1  # lines before and after the one that is meant
_MOST_EVIDENCE = 4  # of the first finding; of the others the first sentence
_LEAST_TENSOR_SHARE = 0.01  # of what a process holds
_MOST_NAMED = 4  # of the kinds that were ruled out
_MOST_REASONS = 2  # why one kind was not checked
_SHOWN_FINGERPRINT = 12
_MOST_BUDGETS = 6  # columns of the table of tensors
_MISLEADING = 1.2  # summed RSS over PSS: less is a shared library or two
_SMALL_BYTES = 1024 * 1024  # accounts that moved by less are added up in one row


def render(report: Report, *, width: int | None = None, color: bool | None = None, verbose: bool = False) -> str:
    """Text of at most ``width`` columns (the terminal's by default), without trailing blanks.

    ``verbose``: with all evidence and what was ruled out.
    """
    if color is None:
        color = not os.environ.get("NO_COLOR")
    columns = min(width or shutil.get_terminal_size((100, 24)).columns, _WIDEST)
    stream = StringIO()
    console = Console(
        file=stream,
        width=max(40, columns),
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
    for part in _parts(report, verbose):
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


def _parts(report: Report, verbose: bool) -> Iterator[RenderableType]:
    yield _verdict(report.verdict)
    yield _run_line(report.recording)
    sources = {(excerpt.file, excerpt.line): excerpt for excerpt in report.excerpts}
    for number, finding in enumerate(report.findings, 1):
        yield ""
        source = sources.get((finding.subject.file or "", finding.subject.line or 0))
        is_said = _lower(finding.title) in _lower(report.verdict.headline)
        yield from _finding(finding, number, source, None if verbose else _MOST_EVIDENCE if number == 1 else 1, is_said)
    if report.ignored:
        yield _heading("Ignored by pyproject.toml")
        yield _list([_clean(accepted(one)) for one in report.ignored], style="dim")
    if report.ledger:
        yield _heading("Where the growth went" + judged(report.verdict))
        yield Padding(_ledger(report.ledger), (0, 0, 0, 2))
    bill = _bill.told(report)
    if bill is not None:
        yield _heading(printable(bill.heading))
        yield Padding(_bill_table(bill), (0, 0, 0, 2))
    for heading, held in largest_holders(report):
        yield _heading(printable(heading))
        yield Padding(_holders(held), (0, 0, 0, 2))
    if sum(row.count for row in report.processes) > 1:
        yield _heading("Processes, when the job had most memory (with mapped files)")
        yield Padding(_processes(report.processes), (0, 0, 0, 2))
    budget = [row for row in report.tensor_budget if verbose or bill is None or not _is_in_bill(row)]
    if budget and (verbose or _are_tensors_some(budget)):
        whose = {row.process for row in budget}
        several = len(whose) == 1 < sum(row.count for row in report.processes)
        yield _heading(printable("What the tensors are" + (f" in {whose.pop()}" if several else "")))
        yield Padding(_budget(budget), (0, 0, 0, 2))
    for heading, lines in largest_lines(report.gpu_lines):
        yield _heading(printable(heading))
        yield Padding(_gpu_lines(lines), (0, 0, 0, 2))
    if report.ruled_out:
        yield from _ruled_out(report, verbose)
    applying = [one for one in report.skipped if one.applies or verbose]
    blind = [_joined(kinds, reason) for kinds, reason in _not_checked(applying, verbose)]
    blind += map(_clean, caveats(report))
    if blind:
        yield _heading("Not checked")
        yield _list(blind, style="dim")
    if others := {one.kind for one in report.skipped} - {one.kind for one in applying}:
        yield ""
        yield Text(f"Not of this job: {', '.join(sorted(others))} (--verbose says why)", style="dim")
    yield ""
    yield Text(cost(report.recording), style="dim")


def _not_checked(entries: Sequence[Skipped], verbose: bool) -> Iterator[tuple[str, str]]:
    """Of kinds with a reason for each of many processes, the first."""
    reasons: dict[str, list[str]] = {}
    for kinds, reason in by_reason(entries):
        reasons.setdefault(kinds, []).append(reason)
    for kinds, own in reasons.items():
        if verbose or len(own) <= _MOST_REASONS:
            yield from ((kinds, reason) for reason in own)
        else:
            yield kinds, f"{own[0]}, and {len(own) - 1} more (--verbose)"


def _ruled_out(report: Report, verbose: bool) -> Iterator[RenderableType]:
    if verbose:
        yield _heading("Ruled out")
        yield _list([_joined(kinds, reason) for kinds, reason in by_reason(report.ruled_out)])
    elif kinds := ruled_out_kinds(report):
        yield ""
        told = _clean(", ".join(kinds)) if len(kinds) <= _MOST_NAMED else f"{len(kinds)} other kinds"
        yield Text.assemble(("Ruled out", "bold"), f" (--verbose says why): {told}")


def _verdict(verdict: Verdict) -> ConsoleRenderable:
    style = {True: "bold white on red", False: "bold black on green", None: "bold black on yellow"}[verdict.leaking]
    badges = Text().append(f" {VERDICTS[verdict.leaking]} ", style=style)  # of which what follows has no colour
    if verdict.killed:
        badges.append(" ").append(" KILLED ", style="bold white on red")
    if verdict.seconds_to_limit is not None:
        badges.append(f"  {verdict.limit or 'limit'} full in {format_about(verdict.seconds_to_limit)}", style="red")
    return Group(badges, _styled(_clean(verdict.headline), "bold"))


def _run_line(recording: RecordingFacts) -> Text:
    command = _clean(" ".join(recording.command)) if recording.command else Text("(attached)")
    gap = "  ·  " if len(command) <= _SHORT_COMMAND else "\n"
    command.truncate(_LONGEST_COMMAND, overflow="ellipsis")
    return _styled(Text.assemble(command, gap, run_facts(recording)), "dim")


def _finding(
    finding: Finding, number: int, source: Excerpt | None, most: int | None, is_said: bool
) -> Iterator[RenderableType]:
    """What a person would do next stands before what speaks for it.

    ``most``: of the evidence; None: all. ``is_said``: the headline has its title already.
    """
    whole = most is None or most > 1
    style = _SEVERITY_STYLES.get(finding.severity, "bold")
    text = finding.kind if is_said and number == 1 else finding.title
    title = Text.assemble((f"{number}. ", "bold"), (f"{finding.severity}: ", style), _styled(_clean(text), "bold"))
    yield _hanging(title, 3)
    where = _where(finding.subject)
    if where is not None:
        yield Padding(where, (0, 0, 0, 3))
    if source is not None:
        yield Padding(_source(source, _AROUND if whole else 0), (0, 0, 0, 3))
    shown = [_evidence(e) for e in finding.evidence[:most]]
    if whole and len(shown) < len(finding.evidence):
        shown.append(Text(f"and {len(finding.evidence) - len(shown)} more (--verbose)", style="dim"))
    parts = [
        ("What to do", [_clean(r) for r in finding.remedy], "green"),
        ("Evidence", shown, ""),
        ("Doubts", [_clean(d) for d in finding.doubts], "yellow"),
    ]
    if most is None:
        parts.append((f"{finding.confidence:.0%} sure", [_clean(line) for line in rests_on(finding)], "dim"))
    for name, lines, line_style in parts:
        if lines and whole:
            yield Padding(Text(name, style="bold"), (0, 0, 0, 3))
        if lines:
            yield Padding(_list(lines, style=line_style), (0, 0, 0, 3))
    mark = [f"fingerprint {finding.fingerprint[:_SHOWN_FINGERPRINT]}"] if whole and finding.fingerprint else []
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
    if holder:
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
    whole, of, members = type_text.partition(" of ")
    if not (name and holder.endswith(")") and kind == whole.rsplit(".", 1)[-1]):
        return holder, type_text
    return f"{name} ({kind}{of}{members})", ""


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


def _source(excerpt: Excerpt, around: int) -> Table:
    """The line, with a few round it; long ones are cut."""
    shown = [
        (at, line) for at, line in enumerate(excerpt.lines, excerpt.first_line) if abs(at - excerpt.line) <= around
    ]
    texts = dedent("\n".join(line.expandtabs(4).replace("\n", " ").rstrip() for _, line in shown)).split("\n")
    table = Table.grid(padding=(0, 1, 0, 0))  # on one side: rich 13.0 adds both to min_width, though it shows one
    table.add_column(justify="right", style="dim", no_wrap=True, min_width=len(str(shown[-1][0])) + 2)
    table.add_column(no_wrap=True, overflow="ellipsis")
    for (at, _), line in zip(shown, texts):
        is_meant = at == excerpt.line
        text = _clean(line)
        table.add_row(f"{'>' if is_meant else ' '} {at}", _styled(text, "bold" if is_meant else "dim"))
    return table


def _is_in_bill(row: BudgetRow) -> bool:
    """What tensors in memory are, as the last snapshot saw them."""
    return row.device == "cpu" and row.moment == "end"


def _bill_table(bill: _bill.Told) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_footer=True, footer_style="bold")
    totals = ("total", bill.total[0], "", bill.total[1])
    for number, (name, total) in enumerate(zip(bill.columns, totals)):
        table.add_column(name, total, justify="right" if number else "left", no_wrap=number > 0, overflow="fold")
    for line in bill.lines:
        name = _clean(line.name)
        if line.details:
            name = Text.assemble(name, "\n", _styled(_clean(line.details), "dim"))
        cells = [name, Text(line.level), Text(line.share), Text(line.peak)]
        table.add_row(*cells[: len(bill.columns)])
    return table


def _holders(held: Sequence[Held]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in COLUMNS[:2]:
        table.add_column(name, overflow="fold")
    for name in COLUMNS[2:]:
        table.add_column(name, justify="right", no_wrap=True)
    for one in held:
        table.add_row(*map(_clean, one.cells))
    return table


def _ledger(rows: Sequence[LedgerRow]) -> Group:
    """Rows that moved; processes named once; the sum below, so that a reader sees the accounts close."""
    rows, others = [row for row in rows if row.in_total], [row for row in rows if not row.in_total]
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_footer=True, footer_style="bold")
    several = len({row.process for row in rows}) > 1
    total = sum(row.growth_bytes for row in rows)
    table.add_column("account", "total")
    if several:
        table.add_column("process", overflow="fold")
    for name, figure in (("start", sum(r.start_bytes for r in rows)), ("end", sum(r.end_bytes for r in rows))):
        table.add_column(name, format_bytes(figure), justify="right", no_wrap=True)
    table.add_column("growth", format_bytes(total, signed=True), justify="right", no_wrap=True)
    moved = [row for row in rows if abs(row.growth_bytes) >= _SMALL_BYTES]
    small = [row for row in rows if abs(row.growth_bytes) < _SMALL_BYTES]
    largest = max((row.growth_bytes for row in moved), default=0)
    before = None
    for row in moved:
        cells = [_clean(row.account + (" ~" if row.estimated else ""))]
        if several:
            cells.append(_clean(row.process if row.process != before else ""))
        before = row.process
        cells += [Text(format_bytes(row.start_bytes)), Text(format_bytes(row.end_bytes))]
        style = "bold red" if row.growth_bytes == largest > 0 else ""
        table.add_row(*cells, Text(format_bytes(row.growth_bytes, signed=True), style=style))
    if small:
        figures = (sum(r.start_bytes for r in small), sum(r.end_bytes for r in small))
        grown = format_bytes(sum(r.growth_bytes for r in small), signed=True)
        cells = [
            Text("others (changed by < 1 MiB)"),
            *([Text("")] if several else []),
            *(Text(format_bytes(f)) for f in figures),
        ]
        table.add_row(*cells, Text(grown), style="dim")
    notes = ["~ estimated from snapshots of the heap"] if any(row.estimated for row in moved) else []
    notes += beside(others)
    return Group(table, *(Text(note, style="dim") for note in notes))


def _budget(rows: Sequence[BudgetRow]) -> Table:
    """An account a row; a column for each process, device and moment, as many as there are."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, show_footer=True, footer_style="bold")
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
    for account in accounts:
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
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    for name in LINE_COLUMNS[:2]:
        table.add_column(name, overflow="fold")
    for name in LINE_COLUMNS[2:]:
        table.add_column(name, justify="right", no_wrap=True)
    for line in lines:
        table.add_row(*map(_clean, line_cells(line)))
    return table


def _processes(rows: Sequence[ProcessRow]) -> Table:
    """A role a row. Summed RSS is there because other tools show it, with the factor by which it says too much."""
    table = Table(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False)
    table.add_column("process", overflow="fold")
    for name in ("count", "lived", "core", "real (PSS)", "private", "summed RSS"):
        table.add_column(name, justify="right", no_wrap=True)
    for row in rows:
        count = f"{row.count}" if row.count == row.most_at_once else f"{row.count} ({row.most_at_once} at once)"
        factor = row.rss_bytes / row.pss_bytes if row.pss_bytes else 1.0
        summed = format_bytes(row.rss_bytes) + (f" ({factor:.1f}x)" if factor >= _MISLEADING else "")
        figures = (count, format_duration(row.lifetime_s), f"{row.busy_share:.0%}", format_bytes(row.pss_bytes))
        process = _clean(f"{row.process} ({ROLES.get(row.role, row.role)})")
        table.add_row(process, *map(Text, figures), Text(format_bytes(row.private_bytes)), Text(summed, style="dim"))
    return table


def _heading(text: str) -> Group:
    return Group("", Text(text, style="bold"))


def _evidence(evidence: Evidence) -> Text:
    return _clean(evidence.text)


def _joined(kind: str, reason: str) -> Text:
    return Text.assemble((f"{_clean(kind)}: ", "bold"), _clean(reason))


def _list(lines: Sequence[Text], style: str = "") -> Table:
    table = Table.grid(padding=(0, 1, 0, 0))
    table.add_column(width=3, justify="right")
    table.add_column(overflow="fold")
    for line in lines:
        table.add_row(Text("·", style=style or "dim"), _styled(line, style))
    return table


def _pairs(rows: Sequence[tuple[str, Text]]) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(style="dim", no_wrap=True)
    table.add_column(overflow="fold")
    for name, value in rows:
        table.add_row(name, value)
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
