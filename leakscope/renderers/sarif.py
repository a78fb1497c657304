"""The report as SARIF 2.1.0, for tools that show results at lines of the sources: code scanning, editors.

Only findings with a line are results, since these tools show or take no others; the rest are notifications of the run.
Files below the folder the job was started in are named relative to it (``SRCROOT``). For GitHub's upload-sarif action:
``leakscope report run.parquet -o leakscope.sarif``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from typing import Any
from urllib.parse import quote

from ..findings import Finding, Ignored, Report, fingerprint_of
from ..kinds import Kind
from ..version import __version__
from ..words import amount, printable
from ._places import Place, cwd, place

SUFFIX = ".sarif"
_LEVELS = {"critical": "error", "warning": "warning", "note": "note"}
_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def render(report: Report) -> str:
    """One JSON object with one run, indented, ending with a newline."""
    placed = [(finding, where) for finding in report.findings if (where := place(report, finding)) is not None]
    others = [finding for finding in report.findings if place(report, finding) is None]
    known = [(one, where) for one in report.ignored if (where := place(report, one.finding)) is not None]
    means = {finding.kind: finding.means for finding in (*(f for f, _ in placed), *(one.finding for one, _ in known))}
    names = sorted(means)
    rules = [_rule(name, means[name]) for name in names]
    run: dict[str, Any] = {
        "tool": {"driver": {"name": "leakscope", "version": __version__, "rules": rules}},
        "invocations": [_invocation(report, others)],
        "columnKind": "unicodeCodePoints",
        "results": [
            *(_result(finding, where, names, cwd(report)) for finding, where in placed),
            *({**_result(one.finding, where, names, cwd(report)), **_suppressed(one)} for one, where in known),
        ],
    }
    folder = cwd(report)
    if folder is not None:
        run["originalUriBaseIds"] = {"SRCROOT": {"uri": f"file://{_quoted(folder.rstrip('/'))}/"}}
    log = {"$schema": _SCHEMA, "version": "2.1.0", "runs": [run]}
    return json.dumps(log, indent=2, ensure_ascii=False) + "\n"


def _rule(name: str, kind: Kind | None) -> dict[str, Any]:
    """What the kind means, in the words of its diagnosis; a finding that was made by hand has its name only."""
    if kind is None:
        return {"id": printable(name)}
    return {
        "id": name,
        "shortDescription": {"text": kind.summary},
        "fullDescription": {"text": f"Looks for {kind.looks_for} {_sentence(kind.why)}".strip()},
        "help": {"text": _help(kind)},
    }


def _help(kind: Kind) -> str:
    parts = {"Decided by": kind.decides_by, "Mistaken when": kind.mistaken_when, "What to do": kind.do}
    return "\n\n".join(f"{name}: {said}" for name, said in parts.items() if said)


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:]


def _result(finding: Finding, where: Place, rules: Sequence[str], folder: str | None) -> dict[str, Any]:
    location: dict[str, Any] = {
        "physicalLocation": {"artifactLocation": _artifact(where), "region": {"startLine": where.line}}
    }
    if finding.subject.function:
        location["logicalLocations"] = [{"fullyQualifiedName": printable(finding.subject.function), "kind": "function"}]
    mark = finding.fingerprint or fingerprint_of(finding, folder)
    return {
        "ruleId": printable(finding.kind),
        "ruleIndex": rules.index(finding.kind),
        "level": _LEVELS.get(finding.severity, "warning"),
        "message": {"text": _message(finding)},
        "locations": [location],
        "rank": round(100 * float(finding.confidence), 1),
        **({"partialFingerprints": {"leakscope/v1": mark}} if mark is not None else {}),
        "properties": {"bytes": int(finding.bytes)},
    }


def _suppressed(one: Ignored) -> dict[str, Any]:
    """What the project accepts is shown by no tool as open, and by all as known."""
    return {"suppressions": [{"kind": "external", "status": "accepted", "justification": printable(one.reason)}]}


def _artifact(where: Place) -> dict[str, str]:
    if os.path.isabs(where.file):
        return {"uri": f"file://{_quoted(where.file)}"}
    return {"uri": _quoted(where.file), "uriBaseId": "SRCROOT"}


def _quoted(path: str) -> str:
    return quote(path, errors="replace")  # lone surrogates: a name that was no text


def _message(finding: Finding) -> str:
    held = [f"path: {finding.subject.path}"] if finding.subject.path else []
    lines = map(printable, [finding.title, amount(finding), *held, *finding.remedy])
    return "\n".join(lines).replace("](", "]\u200b(")  # what SARIF would take for a link


def _invocation(report: Report, others: Sequence[Finding]) -> dict[str, Any]:
    said = [{"level": "note", "message": {"text": printable(report.verdict.headline)}}]
    said += [{"level": _LEVELS.get(f.severity, "warning"), "message": {"text": _message(f)}} for f in others]
    return {"executionSuccessful": True, "toolExecutionNotifications": said}
