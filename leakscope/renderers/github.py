"""Annotations for a workflow of GitHub: errors and warnings at the lines of the sources, the answer as a notice.

A finding whose line is not known is a notice too: GitHub would pin it to the workflow's file, where an error misleads.
GitHub shows the first ten of each level; findings come in order, so these are the ten that matter. As a step of a job:
``leakscope report run.parquet -f github``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from ..findings import Finding, Report
from ..words import VERDICTS, amount, printable
from ._places import place

SUFFIX = ".annotations"
_LEVELS = {"critical": "error", "warning": "warning"}


def render(report: Report) -> str:
    """One workflow command a line: print it in a step of a job."""
    return "".join(f"{line}\n" for line in _commands(report))


def _commands(report: Report) -> Iterator[str]:
    verdict = VERDICTS[report.verdict.leaking] + (", KILLED" if report.verdict.killed else "")
    yield _command("notice", {"title": f"leakscope: {verdict}"}, [report.verdict.headline])
    for finding in report.findings:
        lines = [f"{finding.severity}: {finding.title}", amount(finding), *finding.remedy]
        title = {"title": f"leakscope: {finding.kind}"}
        where = place(report, finding)
        if where is None:
            yield _command("notice", title, [*lines, *_held(finding)])
        else:
            level = _LEVELS.get(finding.severity, "notice")
            yield _command(level, {"file": where.file, "line": str(where.line), **title}, [*lines, *_held(finding)])


def _held(finding: Finding) -> list[str]:
    return [f"path: {finding.subject.path}"] if finding.subject.path else []


def _command(level: str, properties: Mapping[str, str], lines: list[str]) -> str:
    pairs = ",".join(f"{name}={_property(value)}" for name, value in properties.items())
    return f"::{level} {pairs}::{'%0A'.join(_data(line) for line in lines)}"


def _data(text: str) -> str:
    """On one line, so that no string of the job begins a command of its own."""
    return printable(text).replace("%", "%25")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")
