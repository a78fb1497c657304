"""The report in a few figures, for the footer of its recording: what is asked of ten thousand at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..facts.case import Case
from ..facts.tables import only
from ..findings import Finding, Verdict
from ..storage import Column
from ..version import __version__
from . import head

_MOST_FINDINGS = 10


def footer(case: Case, verdict: Verdict, findings: Sequence[Finding], as_of_s: float | None = None) -> dict[str, Any]:
    """Keys ``verdict`` and ``figures`` of the footer.

    ``as_of_s``: it was still being recorded. The verdict is provisional then, and what the run came to is left to the
    recorder.
    """
    told: dict[str, Any] = {
        "leaking": verdict.leaking,
        "killed": verdict.killed,
        "headline": verdict.headline,
        "growth_bytes": verdict.growth_bytes,
        "growth_bytes_per_hour": verdict.growth_bytes_per_hour,
        "growth_bytes_per_step": verdict.growth_bytes_per_step,
        "limit": verdict.limit,
        "seconds_to_limit": verdict.seconds_to_limit,
        "findings": [_finding(finding) for finding in findings[:_MOST_FINDINGS]],
        "leakscope_version": __version__,
    }
    if as_of_s is not None:
        return {"verdict": {**told, "as_of_s": round(as_of_s, 1)}}
    return {"verdict": told, "figures": figures(case)}


def figures(case: Case) -> dict[str, Any]:
    """**Units** as their names say; None where nobody read it."""
    facts, gpus, growth = head.facts(case), case.rows("gpu_samples"), case.growth
    held = growth.held_bytes
    peak = case.peak
    limit, steps = case.nearest_limit, case.rows("sentinels")["step"].dropna()
    devices = only(gpus, gpus["pid"].isna())
    return {
        "duration_s": facts.duration_s,
        "ended": facts.ended,
        "exit_code": facts.exit_code,
        "signal": facts.signal,
        "kill_count": max(len(case.kills.sure), case.recording.meta.get("kill_count") or 0),
        "peak_bytes": peak.bytes if peak is not None else None,
        "end_bytes": int(held[-1]) if held.size else None,
        "limit_bytes": int(limit.limit_bytes[-1]) if limit is not None else None,
        "steps": int(steps.max()) if len(steps) else None,
        "process_count": facts.process_count,
        "gpu_count": int(devices["gpu_uuid"].nunique()),
        "gpu_name": _first(devices["gpu_name"]),
        "gpu_driver": case.recording.meta.get("gpu_driver"),
        "gpu_peak_bytes": _largest(devices["gpu_used_bytes"]),
    }


def _finding(finding: Finding) -> dict[str, Any]:
    subject = finding.subject
    return {
        "kind": finding.kind,
        "severity": finding.severity,
        "confidence": finding.confidence,
        "fingerprint": finding.fingerprint,
        "title": finding.title,
        "holder": subject.holder,
        "file": subject.file,
        "line": subject.line,
        "bytes": finding.bytes,
        "bytes_per_hour": finding.bytes_per_hour,
    }


def _first(column: Column) -> str | None:
    known = column.dropna()
    return str(known.iloc[0]) if len(known) else None


def _largest(column: Column) -> int | None:
    known = column.dropna()
    return int(known.max()) if len(known) else None
