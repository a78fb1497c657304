"""Every program of fixtures/, recorded and reported as a user would: leaks are named, clean programs pass."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from .programs import FIXTURES, SECONDS, Place, Program, named, programs, record_and_report
from .truth import told_wrong

pytestmark = pytest.mark.live

# Recorded by every `make test`: one for each way in which memory is held, and a clean one. The others are judged by
# their golden recordings, and recorded before a release.
ALWAYS = {
    "clean_saw_tooth-clean",
    "dataloader_workers-leaky",
    "native_growth-leaky",
    "retained_objects_attribute_chain-leaky",
}


def as_parameters() -> Iterator[Any]:
    for program in programs():
        yield pytest.param(program, id=program.name, marks=[] if program.name in ALWAYS else [pytest.mark.slow])


@pytest.mark.parametrize("program", list(as_parameters()))
def test_the_report_tells_the_truth(program: Program, tmp_path: Path):
    wrong = told_wrong(program, record_and_report(program.path, tmp_path, SECONDS))
    assert not wrong, wrong


@pytest.mark.torch
@pytest.mark.parametrize(
    "name, leaking", [("train_leaky.py", True), pytest.param("train_clean.py", False, marks=pytest.mark.slow)]
)
def test_the_training_of_the_demo(name, leaking, tmp_path):
    pytest.importorskip("torch")
    path = FIXTURES / name
    report = record_and_report(path, tmp_path, "--seconds", 16)
    assert report["verdict"]["leaking"] is leaking, report["verdict"]["headline"]
    if not leaking:
        assert not report["findings"]
        return
    truth = Place("retained-objects", "predictions", "self.predictions.append(logits)")
    assert named(report["findings"][0], truth, path) == truth
    assert report["findings"][0]["bytes_per_step"] > 0
