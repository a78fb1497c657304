"""What no report may say, of whatever recording: figures that contradict each other, or what can be."""

from __future__ import annotations

import html
import json
import re
from collections import Counter
from collections.abc import Iterator
from typing import Any

from leakscope import render
from leakscope.confidence import Ground, how_sure
from leakscope.findings import Report
from leakscope.words import amount

_PERCENT = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?) ?%")
_RATE = re.compile(r"[\d.,]+ (?:bytes|[KMGT]?i?B) (?:per|a|an) \w+")
_UNSEEN = re.compile(r"<(script|style)\b.*?</\1>", re.DOTALL)
_MARKUP = re.compile(r"<[^>]+>|\x1b\[[0-9;]*m")
_OUTPUTS = (("terminal", {"verbose": True}), ("markdown", {}), ("html", {}), ("junit", {}), ("github", {}))
_NEGATIVE = re.compile(r"(?<![\w.+/-])-\d[\d.,]* (?:bytes|[KMGT]iB)")
_ELSEWHERE = ("shared-memory", "mapped-files")  # in no process's own memory
_OF_THE_WINDOW = ("retained-objects", "retained-graph", "native-growth", "fragmentation", "process-pileup")
_ESTIMATED = 1.1  # times: samples of allocations, and resident memory that was sampled a little earlier


def contradictions(report: dict[str, Any]) -> list[str]:
    """One line each, beginning with where it stands."""
    return [*_of_findings(report), *_of_rates(report), *_of_the_ledger(report), *_told_twice(report)]


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
