"""One report held against the truth of its program, and the figures of many."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tests.end_to_end.programs import Place, Program
from tests.end_to_end.truth import is_accused

CONFIDENCE_BINS = (0.0, 0.5, 0.7, 0.8, 0.9, 0.95, 1.0)


class Score(NamedTuple):
    """What one report was right about; None: the program's truth asks nothing there, or nothing was recorded.

    ``said`` is the first finding in short, or how the verdict reads if there is none; ``confidence`` is that finding's.
    ``kind``, ``name``, ``line`` and ``advice`` (the mechanism that it mends) are of leaky programs; ``alarm`` is of
    clean ones: more than a note was found in it.
    """

    program: str
    leaky: bool
    torch: bool
    expected: str
    said: str
    verdict: bool | None = None
    kind: bool | None = None
    name: bool | None = None
    line: bool | None = None
    advice: bool | None = None
    alarm: bool | None = None
    confidence: float | None = None
    duration_s: float | None = None
    not_run: str | None = None

    @property
    def right(self) -> bool:
        return not self.not_run and not self.alarm and False not in (self.verdict, self.kind, self.name, self.line)

    @property
    def first_is_right(self) -> bool:
        """The first finding may be believed: it is of the right kind and names the right thing."""
        return self.leaky and False not in (self.kind, self.name)


def score(program: Program, report: dict[str, Any] | None, not_run: str = "") -> Score:
    """Judge ``report``; without one, ``not_run`` says why."""
    leaky = bool(program.places)
    expected = "; ".join(sorted(map(_in_short, program.places))) or "nothing"
    blank = Score(
        f"{program.path.parent.name}/{program.path.name}", leaky, uses_torch(program), expected, said=not_run,
        not_run=not_run or None,
    )  # fmt: skip
    if report is None:
        return blank
    findings, leaking = report["findings"], report["verdict"]["leaking"]
    scored = blank._replace(
        said=_said(findings[0], program) if findings else _VERDICTS[leaking],
        verdict=None if program.grows is None else leaking is program.grows,
        confidence=findings[0]["confidence"] if findings else None,
        duration_s=report["recording"]["duration_s"],
    )
    if not leaky:
        return scored._replace(alarm=is_accused(report) or leaking is True)
    kinds = {place.kind for place in program.places} | set(program.kinds)
    names = {place.variable for place in program.places if place.variable} | set(program.names)
    lines = {place.line_text for place in program.places if place.line_text}
    first = findings[0] if findings else None
    return scored._replace(
        kind=first is not None and first["kind"] in kinds,
        name=(first is not None and first["subject"]["variable"] in names) if program.places[0].variable else None,
        line=(first is not None and _line_text(first, program) in lines) if lines else None,
        advice=_advises(first, program) if program.mechanisms else None,
    )


def _advises(finding: dict[str, Any] | None, program: Program) -> bool:
    return finding is not None and bool(finding["remedy"]) and finding["mechanism"] in program.mechanisms


_VERDICTS = {True: "leaking, without a finding", False: "not leaking", None: "cannot tell"}


def uses_torch(program: Program) -> bool:
    return re.search(r"^\s*(import|from) torch\b", program.path.read_text(), re.MULTILINE) is not None


def _in_short(place: Place) -> str:
    return _words(place.kind, place.variable, place.line_text)


def _words(kind: str, variable: str | None, line_text: str | None) -> str:
    return kind + (f" of {variable}" if variable else "") + (f" at {line_text}" if line_text else "")


def _said(finding: dict[str, Any], program: Program) -> str:
    return _words(finding["kind"], finding["subject"]["variable"], _line_text(finding, program))


def _line_text(finding: dict[str, Any], program: Program) -> str | None:
    """The line a finding names, if it is the program's own; the recording may come from another checkout."""
    subject = finding["subject"]
    if not subject["file"] or not subject["line"]:
        return None
    folder, file = ("", *Path(subject["file"]).parts)[-2:]
    if folder != program.path.parent.name or not program.path.with_name(file).is_file():
        return None
    lines = program.path.with_name(file).read_text().splitlines()
    return lines[subject["line"] - 1].strip() if subject["line"] <= len(lines) else None


class Share(NamedTuple):
    """So many of so many."""

    count: int
    of: int

    def __str__(self) -> str:
        return f"{self.count} of {self.of}" + (f" ({self.count / self.of:.0%})" if self.of else "")


def share(scores: Iterable[Score], field: Callable[[Score], bool | None]) -> Share:
    """How many have it true, of those where it is asked for."""
    values = [value for value in map(field, scores) if value is not None]
    return Share(sum(values), len(values))


def calibration(scores: Sequence[Score]) -> list[tuple[str, float, Share]]:
    """(bin of confidence, its mean, share that was right) over all first findings, false alarms among them."""
    rows = []
    for low, high in zip(CONFIDENCE_BINS, CONFIDENCE_BINS[1:]):
        inside = [
            s for s in scores if s.confidence is not None and (low < s.confidence <= high or s.confidence == low == 0)
        ]
        if inside:
            mean = sum(s.confidence or 0.0 for s in inside) / len(inside)
            rows.append((f"{low:.0%} to {high:.0%}", mean, share(inside, lambda s: s.first_is_right)))
    return rows
