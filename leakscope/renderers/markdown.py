"""The report for an issue, a pull request or a job's summary: the answer first, details folded.

At most 65,536 characters, which is what GitHub takes, whatever the report holds: each part has its own room, and says
how much of it is left out. No string of the job is read as markup, pings a person or links to an issue. In a workflow
of GitHub: ``leakscope report run.parquet -f markdown >> "$GITHUB_STEP_SUMMARY"``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain

from ..findings import ROLES, BudgetRow, Excerpt, Finding, GpuLine, LedgerRow, ProcessRow, Report, Subject, Verdict
from ..units import format_about, format_bytes, format_duration, format_rate, per_step, steps_together
from ..version import __version__
from ..words import VERDICTS, accepted, amount, beside, by_reason, caveats, judged, run_facts
from . import _bill
from ._gpu import LINE_COLUMNS, SNAPSHOT_MOMENTS, largest_lines, line_cells
from ._holders import COLUMNS, largest_holders
from ._markdown import block, code, folded, head, row, text

SUFFIX = ".md"
# Characters for each part: 60,000. The rest is for the headings, the verdict and the last line, at most 4,000.
_FINDINGS, _LEDGER, _PROCESSES, _BUDGET, _RULED_OUT, _SKIPPED = 36_000, 5_000, 4_000, 4_000, 4_000, 4_000
_GPU_LINES = 3_000
# Of one finding, however hostile its strings: together less than _FINDINGS, so that the first is always there.
_IGNORED = 2_000
_MOST_HEADLINE = 600  # of a kill with what filled the memory
_EVIDENCE, _DOUBTS, _REMEDY = 8_000, 3_000, 4_000


def render(report: Report) -> str:
    """GitHub's markdown, ending with a newline. The same report gives the same text each time."""
    excerpts = {(e.file, e.line): e for e in report.excerpts}
    findings = (_finding(finding, number, excerpts) for number, finding in enumerate(report.findings, 1))
    parts = [*_head(report), _fitted(findings, len(report.findings), _FINDINGS, between="\n\n")]
    if report.ignored:
        known = [f"- {text(accepted(one))}" for one in report.ignored]
        parts += ["### Ignored by pyproject.toml", _fitted(known, len(known), _IGNORED)]
    if report.ledger:
        parts += ["### Where the growth went" + judged(report.verdict), _ledger(report.ledger)]
    bill = _bill.told(report)
    if bill is not None:
        parts.append(folded(bill.heading, _bill_table(bill)))
    for heading, held in largest_holders(report):
        cells = ((code(path, 120), code(what, 120), *figures) for path, what, *figures in (one.cells for one in held))
        table = "\n".join([head([*COLUMNS[:2], *(f" {name}" for name in COLUMNS[2:])]), *map(row, cells)])
        parts.append(folded(heading, table))
    if sum(process.count for process in report.processes) > 1:
        parts.append(
            folded("Processes, when the job had most memory (with mapped files)", _processes(report.processes))
        )
    if report.tensor_budget:
        parts.append(folded("What the tensors are", _budget(report.tensor_budget)))
    if report.gpu_lines:
        parts.append(folded("Memory of GPUs by line", _gpu_lines(report.gpu_lines)))
    ruled_out = by_reason(report.ruled_out)
    if ruled_out:
        parts.append(folded("Ruled out", _fitted(map(_reason, ruled_out), len(ruled_out), _RULED_OUT)))
    skipped, notes = by_reason(report.skipped), caveats(report)
    if skipped or notes:
        sentences = chain(map(_reason, skipped), (f"- {text(note)}" for note in notes))
        parts.append(folded("Not checked", _fitted(sentences, len(skipped) + len(notes), _SKIPPED)))
    started = f" · recorded {text(report.recording.started_at, 40)}" if report.recording.started_at else ""
    parts.append(f"leakscope {__version__}{started}")
    return "\n\n".join(part for part in parts if part) + "\n"


def _bill_table(bill: _bill.Told) -> str:
    rows = []
    for line in bill.lines:
        name = f"{text(line.name)}{f': {code(line.details, 400)}' if line.details else ''}"
        rows.append(row([name, line.level, line.share, line.peak][: len(bill.columns)]))
    total = row(["total", bill.total[0], "", bill.total[1]][: len(bill.columns)])
    table = "\n".join([head(["what", *(f" {name}" for name in bill.columns[1:])]), *rows, total])
    return f"{table}\n\n{text(bill.files)}" if bill.files else table


def _head(report: Report) -> Iterator[str]:
    verdict, recording = report.verdict, report.recording
    killed = ", KILLED" if verdict.killed else ""
    yield f"## {VERDICTS[verdict.leaking]}{killed}\n\n**{text(verdict.headline, _MOST_HEADLINE)}**"
    yield f"{code(' '.join(recording.command), 200) or '(attached)'} · {run_facts(recording)}"
    if figures := list(_figures(verdict)):
        yield head([f" {name}" for name, _ in figures]) + "\n" + row(figure for _, figure in figures)


def _figures(verdict: Verdict) -> Iterator[tuple[str, str]]:
    if verdict.growth_bytes:
        yield "growth", format_bytes(verdict.growth_bytes, signed=True)
    if verdict.growth_bytes_per_hour:
        figure, unit = format_rate(verdict.growth_bytes_per_hour, verdict.watched_s, signed=True).split(" per ")
        yield f"per {unit}", figure
    if verdict.growth_bytes_per_step:
        each = verdict.growth_bytes_per_step * steps_together(verdict.step_unit)
        yield per_step(verdict.step_unit), format_bytes(each, signed=True)
    if verdict.wasted_bytes:
        yield "wasted", format_bytes(verdict.wasted_bytes)
    if verdict.seconds_to_limit is not None:
        yield f"{text(verdict.limit or 'limit', 40)} full in", format_about(verdict.seconds_to_limit)


def _finding(finding: Finding, number: int, excerpts: dict[tuple[str, int], Excerpt]) -> str:
    facts = [*_where(finding.subject), ("amount", amount(finding)), ("kind", code(finding.kind, 60))]
    parts = [
        f"### {number}. {text(finding.severity, 20)}: {text(finding.title)}",
        "\n".join([head(["", ""]), *map(row, facts)]),
    ]
    if finding.remedy:
        parts += ["**What to do**", _items(finding.remedy, _REMEDY)]
    if finding.edit is not None and finding.edit.diff is not None:
        parts.append(block(finding.edit.diff.rstrip("\n").split("\n"), "diff"))
    excerpt = excerpts.get((finding.subject.file or "", finding.subject.line or 0))
    details = [block(_numbered(excerpt))] if excerpt else []
    details += [_items([e.text for e in finding.evidence], _EVIDENCE)] if finding.evidence else []
    details += ["**Doubts**", _items(finding.doubts, _DOUBTS)] if finding.doubts else []
    if details:
        parts.append(folded("Evidence" + (" and doubts" if finding.doubts else ""), "\n\n".join(details)))
    return "\n\n".join(parts)


def _where(subject: Subject) -> Iterator[tuple[str, str]]:
    """What a person would edit first, then the way to it."""
    if subject.file:
        function = f" in {code(subject.function, 100)}" if subject.function else ""
        yield "where", code(subject.file + (f":{subject.line}" if subject.line else "")) + function
    held_by = subject.holder or subject.variable
    if held_by:
        yield "held by", code(held_by)
    if subject.type:
        yield "type", code(subject.type, 100)
    if subject.path:
        yield "path", code(subject.path)
    if subject.library:
        yield "library", code(subject.library, 100)
    if subject.process and subject.process_text:
        yield "process", code(subject.process, 100) + text(subject.process_text[len(subject.process) :], 100)


def _numbered(excerpt: Excerpt) -> list[str]:
    numbered = list(enumerate(excerpt.lines, excerpt.first_line))[:15]
    return [f"{'>' if number == excerpt.line else ' '}{number:>5}  {line}" for number, line in numbered]


def _ledger(rows: Sequence[LedgerRow]) -> str:
    """Those that moved most first, and the sum, so that a reader sees the accounts close."""
    rows, others = [one for one in rows if one.in_total], [one for one in rows if not one.in_total]
    cells = (
        (
            code(one.account, 60) + (" ~" if one.estimated else ""),
            code(one.process, 100),
            format_bytes(one.start_bytes),
            format_bytes(one.end_bytes),
            format_bytes(one.growth_bytes, signed=True),
        )
        for one in sorted(rows, key=lambda one: -abs(one.growth_bytes))
    )
    start, end = (format_bytes(sum(figures)) for figures in zip(*((one.start_bytes, one.end_bytes) for one in rows)))
    growth = format_bytes(sum(one.growth_bytes for one in rows), signed=True)
    table = _table(("account", "process", " start", " end", " growth"), cells, len(rows), _LEDGER)
    notes = ["~ estimated from snapshots of the heap"] if any(one.estimated for one in rows) else []
    notes += beside(others)
    return table + "\n" + row(("**total**", "", start, end, f"**{growth}**")) + "".join(f"\n\n{note}" for note in notes)


def _processes(rows: Sequence[ProcessRow]) -> str:
    titles = ("process", " count", " lived", " core", " memory", " private", " summed RSS")
    cells = (
        (
            f"{code(one.process, 100)} ({text(ROLES.get(one.role, one.role), 40)})",
            f"{one.count}" if one.count == one.most_at_once else f"{one.count} ({one.most_at_once} at once)",
            format_duration(one.lifetime_s),
            f"{one.busy_share:.0%}",
            *map(format_bytes, (one.held_bytes, one.private_bytes, one.rss_bytes)),
        )
        for one in rows
    )
    return _table(titles, cells, len(rows), _PROCESSES)


def _budget(rows: Sequence[BudgetRow]) -> str:
    moments = {"end": "end of the run", "peak": "peak of a step", **SNAPSHOT_MOMENTS}
    cells = (
        (
            code(one.process, 100),
            code(one.device, 40),
            text(moments.get(one.moment, one.moment), 40),
            code(one.account, 60),
            format_bytes(one.bytes),
        )
        for one in rows
    )
    return _table(("process", "device", "moment", "account", " bytes"), cells, len(rows), _BUDGET)


def _gpu_lines(lines: Sequence[GpuLine]) -> str:
    shown = [line for _, own in largest_lines(lines) for line in own]
    cells = ((code(f"{one.device} of {one.process}", 100), *_line_cells(one)) for one in shown)
    titles = ("device", *LINE_COLUMNS[:2], *(f" {name}" for name in LINE_COLUMNS[2:]))
    return _table(titles, cells, len(shown), _GPU_LINES)


def _line_cells(line: GpuLine) -> tuple[str, ...]:
    where, account, *figures = line_cells(line)
    return (code(where, 160), code(account, 60), *figures)


def _reason(entry: tuple[str, str]) -> str:
    kinds, reason = entry
    return f"- **{text(kinds, 500)}**: {text(reason)}"


def _items(sentences: Sequence[str], room: int) -> str:
    return _fitted((f"- {text(sentence, 500)}" for sentence in sentences), len(sentences), room)


def _table(titles: Sequence[str], rows: Iterable[Iterable[str]], count: int, room: int) -> str:
    more = row(["and {} more", *[""] * (len(titles) - 1)])
    return head(titles) + "\n" + _fitted(map(row, rows), count, room, more=more)


def _fitted(entries: Iterable[str], count: int, room: int, between: str = "\n", more: str = "- and {} more") -> str:
    """As many of the ``count`` entries as have room, and how many have none. Those are never written."""
    taken: list[str] = []
    room -= len(more) + 20
    for entry in entries:
        room -= len(entry) + len(between)
        if room < 0:
            break
        taken.append(entry)
    left_out = count - len(taken)
    return between.join([*taken, *([more.format(f"{left_out:,}")] if left_out else [])])
