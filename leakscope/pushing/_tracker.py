"""What a tracker is told, and what it has to be able to do."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Protocol, Union

from ..words import printable

if TYPE_CHECKING:
    from ..findings import Report

PREFIX = "leakscope/"
Figure = Union[float, int, bool, str]


class About(NamedTuple):
    """Which run it is. ``name``: the recording's file without its ending."""

    name: str
    command: str
    host: str
    recording: str
    start_unix_s: float
    labels: Mapping[str, str]


class Point(NamedTuple):
    """Figures of one moment, by names with ``leakscope/``; ``time_s`` since the recording began."""

    time_s: float
    unix_s: float
    figures: Mapping[str, float]


class Outcome(NamedTuple):
    """How the run stands at its end. ``summary``: by names with ``leakscope/``; ``text``: the report as Markdown.

    ``alarm``: one sentence for who has to know of it; None where nothing is the matter.
    """

    summary: Mapping[str, Figure]
    headline: str
    alarm: str | None
    text: str
    page: Path


class Tracker(Protocol):
    """A run in a tracker that takes figures. **Errors** whatever its SDK raises."""

    def log(self, point: Point) -> None: ...

    def alert(self, title: str, text: str) -> None:
        """Something that somebody has to know of now."""

    def finish(self, outcome: Outcome) -> str:
        """The summary, an alert if there is reason for one, and the page; returns where the run is to be seen."""


def outcome_of(report: Report, text: str, page: Path) -> Outcome:
    """The verdict and the first finding as figures; texts that name the job's things are on one line and harmless."""
    verdict = report.verdict
    headline = printable(verdict.headline)
    told: dict[str, Figure | None] = {
        "leaking": verdict.leaking if verdict.leaking is not None else "cannot tell",
        "killed": verdict.killed,
        "headline": headline,
        "growth_bytes": verdict.growth_bytes,
        "growth_bytes_per_hour": verdict.growth_bytes_per_hour,
        f"growth_bytes_per_{verdict.step_unit}": verdict.growth_bytes_per_step,
        "wasted_bytes": verdict.wasted_bytes,
        "seconds_to_limit": verdict.seconds_to_limit,
        "peak_bytes": report.recording.peak.bytes if report.recording.peak is not None else None,
        "ended": report.recording.ended,
    }
    for finding in report.findings[:1]:
        line = f":{finding.subject.line}" if finding.subject.line is not None else ""
        told |= {
            "finding": printable(finding.title),
            "finding_kind": finding.kind,
            "finding_place": printable(f"{finding.subject.file}{line}") if finding.subject.file is not None else None,
            "finding_bytes": finding.bytes,
            "finding_fingerprint": finding.fingerprint,
        }
    summary = {PREFIX + name: value for name, value in told.items() if value is not None}
    alarm = headline if verdict.leaking or verdict.killed else None
    return Outcome(summary, headline, alarm, text, page)
