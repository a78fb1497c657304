"""One finding in full, as text for who has to decide whether to believe it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence

from ..findings import Finding, Report, file_of
from ..words import amount, printable, rests_on, why_no_edit

_MOST = 600  # characters of a sentence
_MOST_SENTENCES = 20


def explained(report: Report, number: int) -> str:
    """The finding of that number, from 1; it has to be there."""
    finding = report.findings[number - 1]
    lines = [
        f"Finding {number} of {len(report.findings)}: {finding.kind} ({finding.severity}, {amount(finding)})",
        finding.title,
        *_subject(report, finding),
        *_source(report, finding),
        *_part("Evidence", [f"{one.text}{_figures(one.figures)}" for one in finding.evidence]),
        *_part("Doubts", finding.doubts),
        *_part("What its confidence rests on", rests_on(finding)),
        *_part("What to do", finding.remedy),
        *_part("When findings of this kind are mistaken", [finding.means.mistaken_when] if finding.means else []),
        *_part("Other kinds that saw the same object", finding.also),
        f"fingerprint {finding.fingerprint or 'none: nothing is named that could be recognised again'}",
    ]
    return "\n".join(printable(line)[:_MOST] for line in lines) + "\n"


def with_edit(report: Report) -> int:
    """The number of the first finding that has one, or 1."""
    able = (at for at, one in enumerate(report.findings, 1) if one.edit is not None and one.edit.diff is not None)
    return next(able, 1)


def edit_told(report: Report, number: int) -> str:
    """The diff of the finding of that number, and what to look at; or why there is none."""
    finding = report.findings[number - 1]
    edit = finding.edit
    lines = [f"Finding {number}: {finding.title}", *(f"do: {advice}" for advice in finding.remedy[:1])]
    if edit is None or edit.diff is None:
        lines.append(f"No edit is certain enough: {why_no_edit(finding)}")
        return "\n".join(printable(line)[:_MOST] for line in lines) + "\n"
    lines += [f"look at this: {edit.note}"] if edit.note else []
    told = "\n".join(printable(line)[:_MOST] for line in lines)
    return f"{told}\n\n" + "\n".join(printable(line)[:_MOST] for line in edit.diff.split("\n"))


def _subject(report: Report, finding: Finding) -> Iterator[str]:
    subject = finding.subject
    if subject.file:
        place = f"{file_of(finding, report.recording.cwd)}{f':{subject.line}' if subject.line else ''}"
        yield f"edit: {place}" + (f" in {subject.function}" if subject.function else "")
    named = (
        ("held by", subject.holder or subject.variable), ("path", subject.path), ("type", subject.type),
        ("library", subject.library), ("device", subject.device),
    )  # fmt: skip
    yield from (f"{word}: {name}" for word, name in named if name)
    if subject.process:
        pid = f"[{subject.pid}]" if subject.pid is not None else ""
        yield f"process: {subject.process}{pid}" + (f" ({subject.role})" if subject.role else "")


def _source(report: Report, finding: Finding) -> Iterator[str]:
    place = (finding.subject.file, finding.subject.line)
    for excerpt in report.excerpts:
        if (excerpt.file, excerpt.line) == place:
            yield "Source, as it was loaded"
            for number, line in enumerate(excerpt.lines, excerpt.first_line):
                yield f"{'>' if number == excerpt.line else ' '} {number:>5}  {line.expandtabs(4)}"


def _figures(figures: object) -> str:
    text = json.dumps(figures, ensure_ascii=False, default=str)
    return f" {text}" if figures and len(text) <= 200 else ""


def _part(title: str, sentences: Sequence[str]) -> Iterator[str]:
    if sentences:
        yield title
        yield from (f"- {sentence}" for sentence in sentences[:_MOST_SENTENCES])
        if len(sentences) > _MOST_SENTENCES:
            yield f"- and {len(sentences) - _MOST_SENTENCES} more"
