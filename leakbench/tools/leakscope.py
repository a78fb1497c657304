"""leakscope, as its README says: ``record``, then the report's first findings."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

from leakbench.answer import HOLDER, KIND, LINE, VERDICT, Answer
from leakscope.errors import BadInput
from leakscope.fixing import fix_of, prove, removed
from leakscope.storage import open_recording
from tests.end_to_end.programs import record_command, report
from tests.end_to_end.truth import is_accused

OFFERS = frozenset({VERDICT, KIND, HOLDER, LINE})
REQUIRES = ()
HOW = "`leakscope record`, default options (`import` of a snapshot); the findings of `leakscope report` in their order"


def command(program: Path, seconds: float, folder: Path) -> list[str]:
    return record_command(folder / "run.parquet", sys.executable, program, seconds)


def reading(snapshot: Path, folder: Path) -> list[str]:
    return [sys.executable, "-m", "leakscope", "import", "-q", "-o", str(folder / "run.parquet"), str(snapshot)]


def answer(folder: Path, program: Path) -> Answer:
    return answer_of(report(folder / "run.parquet"))


def answer_of(told: dict[str, Any]) -> Answer:
    """A report's JSON as an answer."""
    findings = told["findings"]
    places = [finding["subject"] for finding in findings]
    return Answer(
        told["verdict"]["leaking"],
        tuple(finding["kind"] for finding in findings),
        tuple(place["variable"] or "" for place in places),
        tuple((place["file"] or "", place["line"] or 0) for place in places),
        findings[0]["confidence"] if findings else None,
        is_accused(told),
        tuple(ground["alone"] for ground in findings[0]["grounds"]) if findings else (),
    )


def removed_by_edit(folder: Path) -> float | None:
    """How much of the growth or waste is gone once the first advice is followed, as ``leakscope fix --prove`` does."""
    before = open_recording(folder / "run.parquet")
    try:
        found = fix_of(before, 1)
    except BadInput:  # nothing to fix
        return 0.0
    if found.edited is None:
        return 0.0
    return removed(prove(found, before, folder / "edited.parquet"), found.finding)
