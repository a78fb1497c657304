"""One recording as one row: what a table of thousands has of each. Runs wherever an engine has it run."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NamedTuple

from ..errors import LeakscopeError
from ..findings import Finding, Report

if TYPE_CHECKING:
    import pandas as pd

    from ..storage import Recording

LEAKING, STEADY, CANNOT_TELL, UNREADABLE, FAILED = "leaking", "not-leaking", "cannot-tell", "unreadable", "failed"
_VERDICTS = {True: LEAKING, False: STEADY, None: CANNOT_TELL}


class Column(NamedTuple):
    """``type``: a dtype of pandas that knows nulls; every column but path and verdict may be null."""

    name: str
    type: str
    unit: str
    meaning: str


COLUMNS: tuple[Column, ...] = (
    Column("path", "string", "", "the recording: its absolute path, or its address"),
    Column("job", "string", "", "the job it belongs to, where its environment said"),
    Column("rank", "Int64", "", "its rank; null where it has none, or several"),
    Column("rank_count", "Int64", "", "ranks whose processes are in it; 0 where nothing says"),
    Column("node", "string", "", "the machine"),
    Column("attempt", "Int64", "", "how often the job was started before"),
    Column("commit", "string", "", "commit of the program's sources, where its environment said"),
    Column("command", "string", "", "the command, quoted for a shell"),
    Column("started_at", "string", "", "when it began, ISO 8601"),
    Column("duration_s", "Float64", "s", "how long it was recorded"),
    Column("ended", "string", "", "exit, signal, oom-killed or lost"),
    Column("exit_code", "Int64", "", "exit status"),
    Column("signal", "Int64", "", "the signal that ended it"),
    Column("verdict", "string", "", "leaking, not-leaking, cannot-tell; unreadable or failed: error says why"),
    Column("killed", "boolean", "", "it was killed for memory"),
    Column("headline", "string", "", "the report in a sentence"),
    Column("growth_bytes", "Int64", "bytes", "gained in the judged window"),
    Column("growth_bytes_per_hour", "Float64", "bytes/h", "the same, per hour"),
    Column("growth_bytes_per_step", "Float64", "bytes", "the same, per training step"),
    Column("peak_bytes", "Int64", "bytes", "most of all processes together"),
    Column("wasted_bytes", "Int64", "bytes", "wasted once"),
    Column("limit", "string", "", "the nearest limit"),
    Column("seconds_to_limit", "Float64", "s", "until growth fills it"),
    Column("process_count", "Int64", "", "processes recorded"),
    Column("finding_count", "Int64", "", "findings"),
    Column("first_kind", "string", "", "kind of the first finding"),
    Column("first_title", "string", "", "its sentence"),
    Column("first_severity", "string", "", "critical, warning or note"),
    Column("first_confidence", "Float64", "", "0 to 1"),
    Column("first_fingerprint", "string", "", "the same from run to run"),
    Column("first_holder", "string", "", "what holds the memory"),
    Column("first_file", "string", "", "the file to edit"),
    Column("first_line", "Int64", "", "its line"),
    Column("first_bytes", "Int64", "bytes", "what a fix frees by the end of the recording"),
    Column("fingerprints", "string", "", "those of all findings, in order, with blanks between"),
    Column("error", "string", "", "why there is no report"),
    Column("report_json", "string", "", "the whole report, `leakscope.report/1`"),
)
"""The contract ``leakscope.rows/1``: columns are added, never renamed."""


def row_of(address: str) -> dict[str, Any]:
    """The row of one recording, whatever it is: a file of this computer, or what fsspec opens. Raises nothing.

    **Shape** keys as in COLUMNS, None for null; plain numbers and texts.
    """
    row: dict[str, Any] = dict.fromkeys((column.name for column in COLUMNS), None)
    row |= {"path": address, "verdict": UNREADABLE}
    try:
        row |= _told(address)
    except LeakscopeError as error:
        row["error"] = str(error)
    except Exception as error:  # of thousands one: the others have to be told of all the same
        row |= {"verdict": FAILED, "error": f"{type(error).__name__}: {error}"}
    return {column.name: _fitting(row[column.name], column.type) for column in COLUMNS}


def _fitting(value: Any, type: str) -> Any:
    """What a footer says may be anything: of another type, or a text that is none, it is null or made one."""
    if type == "string":
        return value.encode("utf-8", "replace").decode("utf-8") if isinstance(value, str) else None
    if type == "boolean":
        return value if isinstance(value, bool) else None
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        return None
    if type == "Int64":
        return int(value) if abs(value) < 1 << 63 else None
    return float(value)


def table_of(rows: list[Mapping[str, Any]]) -> pd.DataFrame:
    """Rows as a table, each column of the type that COLUMNS says."""
    import pandas as pd

    frame = pd.DataFrame(rows, columns=[column.name for column in COLUMNS], dtype=object)
    return frame.astype({column.name: column.type for column in COLUMNS})


def _told(address: str) -> dict[str, Any]:
    from ..jobs import ranks_of
    from ..renderers import render
    from ..reporting import analyze
    from ..storage import open_recording

    recording = open_recording(address.removeprefix("file://"))
    ranks = ranks_of(recording)
    report = analyze(recording)
    report = replace(report, recording=replace(report.recording, path=address))
    return {
        **_of_footer(recording),
        "rank": ranks[0] if len(ranks) == 1 else None,
        "rank_count": len(ranks),
        **_of_report(report),
        **(_of_first(report.findings[0]) if report.findings else {}),
        "report_json": render(report, "json"),
    }


def _of_footer(recording: Recording) -> dict[str, Any]:
    import shlex

    meta = recording.meta
    belongs = found if isinstance(found := meta.get("belongs"), dict) else {}
    attempt = belongs.get("attempt", belongs.get("restart_count"))
    return {
        "job": belongs.get("job"),
        "node": belongs.get("node") or meta.get("host"),
        "attempt": attempt,
        "commit": belongs.get("commit"),
        "command": shlex.join(map(str, meta.get("command") or ())),
        "started_at": meta.get("started_at"),
    }


def _of_report(report: Report) -> dict[str, Any]:
    verdict, recording = report.verdict, report.recording
    return {
        "duration_s": recording.duration_s,
        "ended": recording.ended,
        "exit_code": recording.exit_code,
        "signal": recording.signal,
        "verdict": _VERDICTS[verdict.leaking],
        "killed": verdict.killed,
        "headline": verdict.headline,
        "growth_bytes": verdict.growth_bytes,
        "growth_bytes_per_hour": verdict.growth_bytes_per_hour,
        "growth_bytes_per_step": verdict.growth_bytes_per_step,
        "peak_bytes": recording.peak.bytes if recording.peak is not None else None,
        "wasted_bytes": verdict.wasted_bytes,
        "limit": verdict.limit,
        "seconds_to_limit": verdict.seconds_to_limit,
        "process_count": recording.process_count,
        "finding_count": len(report.findings),
        "fingerprints": " ".join(finding.fingerprint for finding in report.findings),
    }


def _of_first(finding: Finding) -> dict[str, Any]:
    return {
        "first_kind": finding.kind,
        "first_title": finding.title,
        "first_severity": finding.severity,
        "first_confidence": finding.confidence,
        "first_fingerprint": finding.fingerprint,
        "first_holder": finding.subject.holder,
        "first_file": finding.subject.file,
        "first_line": finding.subject.line,
        "first_bytes": finding.bytes,
    }
