"""The answer in a few lines, for who has just seen a job end: the verdict, the first finding with its line, a remedy.

Made by a helper of the recorder, which is never waited for longer than half a second: so the parts of a report that
nobody reads in a terminal are not made.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from ..findings import BY_THE_END
from ..ignoring import headline, read_ignores, split
from ..reporting import Answer, answer_of
from ..words import in_a_line, printable

if TYPE_CHECKING:
    from ..findings import Excerpt, Finding
    from ..storage import Recording

__all__ = ["Told", "told"]
_LONGEST = 96  # of a line of source


class Told(NamedTuple):
    """At most three lines: what is the matter, where, and what to do. ``as_of_s``: of a run that went on after it.

    ``footer``: what the file keeps of it.
    """

    lines: list[str]
    as_of_s: float | None
    footer: dict[str, Any]


def told(recording: Recording) -> Told:
    """How it stands."""
    answer = answer_of(recording)
    findings, ignored = split(answer.findings, read_ignores(Path.cwd()))
    lines = [headline(in_a_line(answer.verdict), ignored)]
    if findings:
        lines += _about(findings[0], answer)
    return Told([printable(line) for line in lines], answer.as_of_s, answer.footer)


def _about(finding: Finding, answer: Answer) -> list[str]:
    subject = finding.subject
    place = f"{subject.file}:{subject.line}" if subject.file and subject.line else subject.file or ""
    source = _source(answer.excerpts, subject.file, subject.line)
    remedy = finding.remedy[0] if finding.remedy else ""
    if answer.as_of_s is not None:  # the run went on, and what it would free grew
        remedy = remedy.replace(BY_THE_END, "by then")
    return [line for line in (f"{place}  {source}".strip(), f"do: {remedy}" if remedy else "") if line]


def _source(excerpts: list[Excerpt], file: str | None, line: int | None) -> str:
    for excerpt in excerpts:
        if (excerpt.file, excerpt.line) == (file, line) and line is not None:
            text = excerpt.lines[line - excerpt.first_line].strip()
            return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return ""
