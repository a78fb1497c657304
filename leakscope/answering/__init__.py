"""The answer in a few lines, for who has just seen a job end: the verdict, the first finding with its line, a remedy.

Made by a helper of the recorder, which is never waited for longer than half a second: so the parts of a report that
nobody reads in a terminal are not made.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from ..ignoring import headline, read_ignores, split
from ..reporting import Answer, answer_of
from ..storage import keep_answer, open_recording
from ..words import in_a_line, printable

if TYPE_CHECKING:
    from ..findings import Excerpt, Finding

__all__ = ["told"]
_LONGEST = 96  # of a line of source
MOST_BYTES = 32 << 20  # of a file that is written anew for its verdict while somebody waits: 40 ms


def told(path: str) -> list[str]:
    """At most three lines: what is the matter, where, and what to do. The recording keeps what was found."""
    recording = open_recording(path)
    answer = answer_of(recording)
    keep_answer(recording, answer.footer, MOST_BYTES)
    findings, ignored = split(answer.findings, read_ignores(Path.cwd()))
    lines = [headline(in_a_line(answer.verdict), ignored)]
    if findings:
        lines += _about(findings[0], answer)
    return [printable(line) for line in lines]


def _about(finding: Finding, answer: Answer) -> list[str]:
    subject = finding.subject
    place = f"{subject.file}:{subject.line}" if subject.file and subject.line else subject.file or ""
    source = _source(answer.excerpts, subject.file, subject.line)
    remedy = finding.remedy[0] if finding.remedy else ""
    return [line for line in (f"{place}  {source}".strip(), f"do: {remedy}" if remedy else "") if line]


def _source(excerpts: list[Excerpt], file: str | None, line: int | None) -> str:
    for excerpt in excerpts:
        if (excerpt.file, excerpt.line) == (file, line) and line is not None:
            text = excerpt.lines[line - excerpt.first_line].strip()
            return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "..."
    return ""
