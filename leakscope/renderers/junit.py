"""The report as test results, for what shows JUnit's XML: a case for each kind of finding, and one for the verdict.

A finding fails its case, as with ``--exit-code`` unless it is a mere note; what was ruled out passes; what could not
be looked at is skipped, also where a part of it was ruled out. The verdict fails when memory leaks and is skipped when
unclear. For GitLab, Jenkins and others that collect test results:
``leakscope report run.parquet -o leakscope.xml``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from xml.etree import ElementTree as xml

from ..findings import Finding, Report
from ..words import VERDICTS, amount, caveats, printable
from ._places import place

SUFFIX = ".xml"


def render(report: Report) -> str:
    """One ``testsuite`` in ``testsuites``; the same report gives the same text each time."""
    cases = [_verdict(report), *_findings(report), *_looked_at(report)]
    counts = {
        "tests": str(len(cases)),
        "failures": str(sum(case.find("failure") is not None for case in cases)),
        "errors": "0",
        "skipped": str(sum(case.find("skipped") is not None for case in cases)),
        "time": f"{report.recording.duration_s:.3f}",
    }
    root = xml.Element("testsuites", {"name": "leakscope", **counts})
    suite = xml.SubElement(root, "testsuite", {"name": "leakscope", **counts})
    if report.recording.started_at:
        suite.set("timestamp", printable(report.recording.started_at))
    suite.extend(cases)
    if notes := caveats(report):
        xml.SubElement(suite, "system-out").text = _lines(notes)
    xml.indent(root)
    return '<?xml version="1.0" encoding="utf-8"?>\n' + xml.tostring(root, encoding="unicode") + "\n"


def _verdict(report: Report) -> xml.Element:
    case = _case("verdict")
    headline = printable(report.verdict.headline)
    if report.verdict.leaking is None:
        xml.SubElement(case, "skipped", message=headline)
    elif report.verdict.leaking:
        xml.SubElement(case, "failure", message=headline, type=VERDICTS[True]).text = headline
    else:
        xml.SubElement(case, "system-out").text = headline
    return case


def _findings(report: Report) -> Iterable[xml.Element]:
    """A case each: the first of a kind has the kind's name, so that it is the same case from run to run."""
    seen: dict[str, int] = {}
    for finding in report.findings:
        number = seen[finding.kind] = seen.get(finding.kind, 0) + 1
        case = _case(finding.kind if number == 1 else f"{finding.kind} {number}")
        where = place(report, finding)
        if where is not None:
            case.set("file", printable(where.file))
            case.set("line", str(where.line))
        if finding.severity == "note":
            xml.SubElement(case, "system-out").text = _lines([finding.title, *_details(finding)])
        else:
            failure = xml.SubElement(
                case, "failure", message=printable(finding.title), type=printable(finding.severity)
            )
            failure.text = _lines(_details(finding))
        yield case


def _details(finding: Finding) -> list[str]:
    subject = finding.subject
    named = {"held by": subject.holder, "path": subject.path, "process": subject.process, "amount": amount(finding)}
    lines = [f"{name}: {value}" for name, value in named.items() if value]
    for heading, sentences in (
        ("Evidence", [one.text for one in finding.evidence]),
        ("Doubts", finding.doubts),
        ("What to do", finding.remedy),
    ):
        lines += [f"{heading}:", *(f"  - {sentence}" for sentence in sentences)] if sentences else []
    return lines


def _looked_at(report: Report) -> Iterable[xml.Element]:
    """What found nothing. A kind that has a finding is told by it."""
    reasons: dict[str, tuple[list[str], list[str]]] = {}
    for ruled_out in report.ruled_out:
        reasons.setdefault(ruled_out.kind, ([], []))[0].append(ruled_out.reason)
    for skipped in report.skipped:
        reasons.setdefault(skipped.kind, ([], []))[1].append(skipped.reason)
    found = {finding.kind for finding in report.findings}
    for kind in sorted(reasons.keys() - found):
        passed, blind = reasons[kind]
        case = _case(kind)
        if blind:
            xml.SubElement(case, "skipped", message="; ".join(map(printable, blind)))
        if passed:
            xml.SubElement(case, "system-out").text = _lines(passed)
        yield case


def _case(name: str) -> xml.Element:
    return xml.Element("testcase", classname="leakscope", name=printable(name), time="0")


def _lines(sentences: Sequence[str]) -> str:
    """Characters that XML cannot hold, not even escaped, are written out."""
    return "\n".join(map(printable, sentences))
