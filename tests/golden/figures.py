"""What no report may say, of whatever recording: figures that contradict each other, or what can be."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from leakscope import checking, comparing, render
from leakscope.comparing._pace import paces
from leakscope.confidence import Ground, how_sure
from leakscope.facts.case import Case
from leakscope.findings import PEAK, Report
from leakscope.fleet.rows import row_of
from leakscope.reporting.footer import footer
from leakscope.units import format_about, format_bytes, format_duration, format_per_step, format_rate
from leakscope.words import amount, ending

_PERCENT = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?) ?%")
_RATE = re.compile(r"[\d.,]+ (?:bytes|[KMGT]?i?B) (?:per|a|an) \w+\b(?!\.\w)")  # no size beside a variable a
_UNSEEN = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
_MARKUP = re.compile(r"<[^>]+>|\x1b\[[0-9;]*m")
_OUTPUTS = (
    ("terminal", {"verbose": True}),
    ("markdown", {}),
    ("html", {}),
    ("junit", {}),
    ("github", {}),
    ("sarif", {}),
)
_ASKED_GROWTH = checking.read_rules({"max-growth": "1MB/hour"}, Path("/"))
_NEGATIVE = re.compile(r"(?<![\w.+/-])-\d[\d.,]* (?:bytes|[KMGT]iB)")
_ELSEWHERE = ("shared-memory", "mapped-files")  # in no process's own memory
_OF_THE_WINDOW = ("retained-objects", "retained-graph", "native-growth", "fragmentation", "process-pileup")
_MOST_WORDS = 200  # letters of a headline: Markdown cuts what is longer
_SCREEN = 25  # lines of a report, unless all is asked for
_FILES = ("code", "mapped-files")  # accounts of the bill that a peak leaves out
_SIZE = r"([\d.,]+ (?:bytes|[KMGT]?i?B))"
_PEAK = re.compile(rf"\b[Pp]eak (?:between samples )?{_SIZE}")
_PAGE_FIGURE = re.compile(r"<dt>(.*?)</dt>\s*<dd>(.*?)</dd>", re.DOTALL)
_MOST_APART = 1.5  # times: the slope of levels, and what was gained from start to end
_ROUNDED = 1e-4  # of a rate: it was rounded by step, and then by the hour
_ESTIMATED = 1.1  # times: samples of allocations, and resident memory that was sampled a little earlier


def contradictions(report: dict[str, Any]) -> list[str]:
    """One line each, beginning with where it stands."""
    found = [*_of_findings(report), *_of_rates(report), *_of_the_ledger(report), *_told_twice(report)]
    return [*found, *_ruled_out_and_found(report)]


def _of_findings(report: dict[str, Any]) -> Iterator[str]:
    most = report["recording"]["peak"]["bytes"] if report["recording"].get("peak") else None
    for at, finding in enumerate(report["findings"]):
        where = f"findings[{at}] {finding['kind']}"
        evidence = [one["text"] for one in finding["evidence"]]
        for text in (finding["title"], *evidence, *finding["doubts"], *finding["remedy"]):
            if any(float(share) > 100 for share in _PERCENT.findall(text)):
                yield f"{where}: more than all: {text}"
            if _NEGATIVE.search(text):
                yield f"{where}: less than nothing: {text}"
        grounds = [Ground(**ground) for ground in finding["grounds"]]
        if not grounds or finding["confidence"] != how_sure(grounds):
            yield f"{where}: {finding['confidence']} sure, for no reason that is told"
        if finding["bytes"] < 0:
            yield f"{where}: {finding['bytes']} bytes"
        in_processes = finding["subject"]["device"] in (None, "cpu") and finding["kind"] not in _ELSEWHERE
        if most is not None and in_processes and finding["bytes"] > _ESTIMATED * most:
            yield f"{where}: {finding['bytes']} bytes, and the job never had more than {most}"


def _of_rates(report: dict[str, Any]) -> Iterator[str]:
    """What processes hold is told of one window: bytes over its length are the rate, and no part is above the whole."""
    verdict = report["verdict"]
    if verdict["start_s"] is None or not verdict["leaking"]:
        return
    hours = (verdict["end_s"] - verdict["start_s"]) / 3600
    rates = [(f"findings[{i}] {f['kind']}", f) for i, f in enumerate(report["findings"]) if f["kind"] in _OF_THE_WINDOW]
    for where, told in [("verdict", {**verdict, "bytes": verdict["growth_bytes"]}), *rates]:
        per_hour = told["growth_bytes_per_hour"] if where == "verdict" else told["bytes_per_hour"]
        if per_hour is not None and abs(per_hour * hours - told["bytes"]) > 0.01 * abs(told["bytes"]) + 1000:
            yield f"{where}: {per_hour} bytes per hour are not {told['bytes']} bytes in {hours:.4f} hours"
        per_step = told.get("bytes_per_step")
        if per_step and abs(per_step * verdict["growth_bytes"] - told["bytes"] * verdict["growth_bytes_per_step"]) > (
            0.01 * abs(per_step * verdict["growth_bytes"])
        ):
            yield f"{where}: {per_step} bytes a step, and the job {verdict['growth_bytes_per_step']}, in other steps"


def _of_the_ledger(report: dict[str, Any]) -> Iterator[str]:
    growth = 0
    for row in report["ledger"]:
        growth += row["growth_bytes"] if row["in_total"] else 0
        if min(row["start_bytes"], row["end_bytes"]) < 0:
            yield f"ledger {row['account']}: less than nothing"
        if abs(row["end_bytes"] - row["start_bytes"] - row["growth_bytes"]) > 2:
            yield f"ledger {row['account']}: its growth is not its end less its start"
    if growth != report["verdict"]["growth_bytes"]:
        yield f"ledger: accounts gained {growth}, the verdict says {report['verdict']['growth_bytes']}"


def _told_twice(report: dict[str, Any]) -> Iterator[str]:
    endings = ("oom-kill", "crash")  # an event, and then what led to it
    held = (f for f in report["findings"] if f["kind"] not in endings and not f["wasted"])
    subjects = (finding["subject"] for finding in held)
    told = Counter((subject["pid"], subject["path"]) for subject in subjects if subject["path"])
    for (pid, path), times in told.items():
        if times > 1:
            yield f"findings: {path} of process {pid} is told {times} times"


def _ruled_out_and_found(report: dict[str, Any]) -> Iterator[str]:
    """A container that a finding names kept growing, whichever kind says so."""
    named = [f for f in report["findings"] if f["severity"] != "note" and not f["wasted"] and f["subject"]["variable"]]
    for one in report["ruled_out"]:
        if named and one["kind"] == "retained-objects" and "no named" in one["reason"]:
            yield f"ruled out: {one['reason']}, and {named[0]['subject']['holder']} is found as {named[0]['kind']}"


def several_figures_of_one_rate(report: Report, as_json: dict[str, Any]) -> list[str]:
    """Rates that one output has and the report itself has not; and outputs that leave out what the headline says."""
    known = set(_RATE.findall(json.dumps(as_json, ensure_ascii=False)))
    known |= {rate for finding in report.findings for rate in _RATE.findall(amount(finding))}
    headline = set(_RATE.findall(report.verdict.headline))
    found = []
    for name, options in _OUTPUTS:
        told = set(_RATE.findall(_as_read(render(report, name, **options))))
        found += [f"{name} has a rate of its own: {rate}" for rate in sorted(told - known)]
        found += [f"{name} leaves out {rate} of the headline" for rate in sorted(headline - told)]
    return found


def _as_read(text: str) -> str:
    return " ".join(html.unescape(_MARKUP.sub(" ", _UNSEEN.sub(" ", text))).split())


def figures_that_differ(case: Case, report: Report, as_json: Mapping[str, Any]) -> list[str]:
    """Figures with a name of which some output says another value than the report has."""
    return [
        *_in_texts(report),
        *_on_the_page(report),
        *_in_the_index(case, report),
        *_in_a_comparison(case, report),
        *_in_a_check(case, report),
        *_in_the_bill(as_json),
    ]


def _differs(output: str, name: str, told: object, known: object) -> Iterator[str]:
    if told != known:
        yield f"{output}: {name} is {told}, and {known} in the report"


def _in_texts(report: Report) -> Iterator[str]:
    """Duration, processes, ending and peak, the headline and the amounts of findings, wherever they are told."""
    facts, verdict = report.recording, report.verdict
    most = format_bytes(facts.peak.bytes) if facts.peak is not None else None
    screen, brief = _as_read(render(report, "terminal")), _as_read(render(report, "brief"))
    whole = {name: _as_read(render(report, name, **options)) for name, options in _OUTPUTS if name != "junit"}
    whole["junit"] = html.unescape(render(report, "junit"))  # its texts are attributes
    whole["github"] = whole["github"].replace("%25", "%")
    for name, text in {"screen": screen, "brief": brief, **whole}.items():
        yield from (line for told in _PEAK.findall(text) for line in _differs(name, "peak", told, most))
        if name != "brief" and _words_of(verdict.headline)[:_MOST_WORDS] not in _words_of(text):
            yield f"{name} has another headline than {verdict.headline}"
    lines = render(report, "terminal", width=100, color=False).splitlines()
    if len(lines) > _SCREEN:
        yield f"the report has {len(lines)} lines"
    how = ending(facts.ended, facts.exit_code, facts.signal, goes_on=facts.goes_on)
    count = f"{facts.process_count} process{'' if facts.process_count == 1 else 'es'}"
    for name, text in {"screen": screen, **{name: whole[name] for name in ("terminal", "markdown", "html")}}.items():
        for fact in (format_duration(facts.duration_s), count, how):
            if fact not in text:
                yield f"{name} does not say {fact}"
    for number, finding in enumerate(report.findings, 1):
        for name in ("terminal", "markdown", "html"):
            parts = amount(finding).split(", ")
            if any(part not in whole[name] for part in parts):
                yield f"{name} has another amount of finding {number} than {amount(finding)}"


def _words_of(text: str) -> str:
    """Without what Markdown escapes, and where it must not make a link."""
    return "".join(character for character in text if character.isalnum())


def _on_the_page(report: Report) -> Iterator[str]:
    """What its head counts."""
    head, verdict = render(report, "html").partition("<main")[0], report.verdict
    told = {_as_read(name): _as_read(value) for name, value in _PAGE_FIGURE.findall(head)}
    known = {"Growth of the job": format_bytes(verdict.growth_bytes, signed=True)}
    if verdict.growth_bytes_per_hour:
        rate, unit = format_rate(verdict.growth_bytes_per_hour, verdict.watched_s, signed=True).split(" per ")
        known[f"Per {unit}"] = rate
    if verdict.growth_bytes_per_step:
        rate, unit = format_per_step(verdict.growth_bytes_per_step, verdict.step_unit, signed=True).split(" per ")
        known[f"Per {unit}"] = rate
    if verdict.seconds_to_limit is not None:
        known[f"{verdict.limit or 'limit'} full in"] = format_about(verdict.seconds_to_limit)
    known["Wasted"] = format_bytes(verdict.wasted_bytes)
    for name in known.keys() & told.keys():
        yield from _differs("head of the page", name, told[name], known[name])


def _in_the_index(case: Case, report: Report) -> Iterator[str]:
    """A row of a fleet, made of the footer that is written with the verdict."""
    facts, verdict = report.recording, report.verdict
    row = row_of(footer(case, verdict, report.findings))
    known = {
        "leaking": verdict.leaking,
        "headline": verdict.headline,
        "growth_bytes": verdict.growth_bytes,
        "growth_bytes_per_hour": verdict.growth_bytes_per_hour,
        "growth_bytes_per_step": verdict.growth_bytes_per_step,
        "seconds_to_limit": verdict.seconds_to_limit,
        "duration_s": facts.duration_s,
        "exit_code": facts.exit_code,
        "peak_bytes": facts.peak.bytes if facts.peak is not None else None,
        "process_count": facts.process_count,
    }
    for name, value in known.items():
        yield from _differs("row of a fleet", name, row[name], value)
    for number, (told, finding) in enumerate(zip(row["findings"], report.findings), 1):
        for name in ("bytes", "bytes_per_hour", "confidence"):
            yield from _differs(f"row of a fleet, finding {number}", name, told[name], getattr(finding, name))


def _in_a_comparison(case: Case, report: Report) -> Iterator[str]:
    """Of a run with itself: both sides are it."""
    found = comparing.compare_cases(case, case)
    facts = report.recording
    for side in (found.before, found.after):
        yield from _differs("compare", "duration", side.duration_s, facts.duration_s)
        yield from _differs("compare", "peak", side.peak_bytes, facts.peak.bytes if facts.peak is not None else 0)
        yield from _differs("compare", "wasted", side.wasted_bytes, report.verdict.wasted_bytes)
        yield from _differs("compare", "headline", side.headline, report.verdict.headline)
    pace = paces(case, case).before
    if pace.told is not None:  # it is of the same part of the run
        yield from _growth_of_a_side(found.before, case, report)
    if report.verdict.leaking and found.before.growth_bytes_per_hour and pace.is_measured:
        weighed, told = pace.per_hour(pace.slope) or 0.0, found.before.growth_bytes_per_hour
        if not told / _MOST_APART < weighed < told * _MOST_APART:
            yield f"compare: it weighs {weighed} bytes an hour, and tells {told}"
    shown = re.search(rf" peak (?:before )?{_SIZE} (?:after )?{_SIZE}", _as_read(comparing.render(found, "terminal")))
    most = format_bytes(found.before.peak_bytes)
    yield from _differs("compare", "peak as shown", shown.groups() if shown is not None else None, (most, most))
    if found.verdict != comparing.SAME:
        yield f"compare: a run is {found.verdict} than itself: {found.reason}"


def _growth_of_a_side(side: comparing.Side, case: Case, report: Report) -> Iterator[str]:
    """As the report has it, with its bounds; of what does not grow the most that it may have grown by."""
    names = ["growth_bytes_per_hour_high"]
    if case.growth.leaking:
        names += ["growth_bytes_per_hour", "growth_bytes_per_hour_low", "growth_bytes_per_step"]
    for name in names:
        told, known = getattr(side, name), getattr(report.verdict, name)
        if told is None or known is None:  # by time, or too short
            continue
        if abs(told - known) > _ROUNDED * abs(known):
            yield f"compare: {name} is {told}, and {known} in the report"


def _in_a_check(case: Case, report: Report) -> Iterator[str]:
    if report.recording.peak is None:
        return
    most = format_bytes(report.recording.peak.bytes)
    outcome = checking.check_case(case, checking.Rules(max_rss_bytes=1)).outcomes[0]
    yield from _differs("check", "peak", re.findall(_SIZE, outcome.text)[:1], [most])
    yield from _in_a_check_of_growth(case, report)
    plain = checking.check_case(case, checking.Rules()).outcomes[0]
    if report.verdict.headline.rstrip(".") not in plain.text:
        yield f"check: {plain.text}, and not {report.verdict.headline}"


def _in_a_check_of_growth(case: Case, report: Report) -> Iterator[str]:
    """The rate is the report's; of what does not grow no more is told than what the report says would have shown."""
    verdict = report.verdict
    outcome = checking.check_case(case, _ASKED_GROWTH).outcomes[0]
    if told := re.search(rf"grows by {_SIZE} per hour \({_SIZE} to {_SIZE}\)", outcome.text):
        rates = verdict.growth_bytes_per_hour, verdict.growth_bytes_per_hour_low, verdict.growth_bytes_per_hour_high
    elif told := re.search(rf"(?:at most|may have grown by) {_SIZE} per hour", outcome.text):
        rates = (verdict.growth_bytes_per_hour_high,)
    else:
        return
    known = tuple(None if rate is None else format_bytes(rate) for rate in rates)
    yield from _differs("check", "growth per hour", told.groups(), known)


def _in_the_bill(report: Mapping[str, Any]) -> Iterator[str]:
    """At the peak it is the peak, and beside that mapped files; and no level is higher."""
    own = {
        bill["moment"]: sum(row["bytes"] for row in bill["rows"] if row["account"] not in _FILES)
        for bill in report["bill"]
    }
    if PEAK not in own or report["recording"]["peak"] is None:
        return
    peak, rows = report["recording"]["peak"]["bytes"], sum(len(bill["rows"]) for bill in report["bill"])
    if max(own.values()) > own[PEAK] + rows:
        yield "bill: less at the peak than at the level"
    if abs(own[PEAK] - peak) > rows:  # each is rounded
        yield f"bill: {own[PEAK]} bytes at the peak without files, and the peak is {peak}"
