"""Every program of fixtures/, recorded and reported as a user would: leaks are named, clean programs pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .programs import FIXTURES, LONGER_SECONDS, SECONDS, Place, Program, named, programs, record_and_report

pytestmark = pytest.mark.slow


def as_parameters() -> Iterator[Any]:
    for program in programs():
        yield pytest.param(program, id=program.name)


@pytest.mark.parametrize("program", list(as_parameters()))
def test_the_report_tells_the_truth(program: Program, tmp_path: Path):
    wrong = told_wrong(program, record_and_report(program.path, tmp_path, SECONDS))
    if wrong:  # the runs are as short as can be judged: on a busy machine a longer one may be needed
        wrong = told_wrong(program, record_and_report(program.path, tmp_path / "again", LONGER_SECONDS))
    assert not wrong, wrong


def told_wrong(program: Program, report: dict[str, Any]) -> str:
    """What the report gets wrong; empty if nothing."""
    verdict, findings = report["verdict"], report["findings"]
    if not program.places:
        return verdict["headline"] if findings or verdict["leaking"] is not False else ""
    first = findings[: len(program.places)]
    # Of two leaks of like size either may come first.
    found = sorted(named(finding, place, program.path) for finding, place in zip(first, in_like_order(first, program)))
    if program.grows not in (None, verdict["leaking"] is True) or found != sorted(program.places):
        return f"{verdict['headline']} Found {found}, not {program.places}"
    if program.grows and sum(finding["bytes"] for finding in first) < 0.5 * verdict["growth_bytes"]:
        return f"{verdict['headline']} The findings explain less than half of it"
    return ""


def in_like_order(findings: list[dict[str, Any]], program: Program) -> list[Place]:
    """The program's places, those first that the findings name first."""
    order = [finding["subject"]["variable"] for finding in findings]
    return sorted(program.places, key=lambda p: order.index(p.variable) if p.variable in order else len(order))


@pytest.mark.torch
@pytest.mark.parametrize("name, leaking", [("train_leaky.py", True), ("train_clean.py", False)])
def test_the_training_of_the_demo(name, leaking, tmp_path):
    pytest.importorskip("torch")
    path = FIXTURES / name
    report = record_and_report(path, tmp_path, "--seconds", 16)
    if report["verdict"]["leaking"] is not leaking:  # as above: importing torch takes long on a busy machine
        report = record_and_report(path, tmp_path / "again", "--seconds", 30)
    assert report["verdict"]["leaking"] is leaking, report["verdict"]["headline"]
    if not leaking:
        assert not report["findings"]
        return
    truth = Place("retained-objects", "predictions", "self.predictions.append(logits)")
    assert named(report["findings"][0], truth, path) == truth
    assert report["findings"][0]["bytes_per_step"] > 0
