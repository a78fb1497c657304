"""Every program of fixtures/, recorded and reported as a user would: leaks are named, clean programs pass."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from .programs import FIXTURES, SECONDS, Place, Program, named, programs, record_and_report
from .truth import told_wrong

pytestmark = pytest.mark.live

# Recorded by every `make test`: a leaky one and a clean one. The others are judged by their golden recordings, and
# recorded before a release.
ALWAYS = {"clean_saw_tooth-clean", "retained_objects_attribute_chain-leaky"}


@pytest.fixture(scope="module")
def at_once(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Program], dict[str, Any]]:
    """The reports of those, which are recorded side by side: of 12 s each of them computes for one or two."""
    folder = tmp_path_factory.mktemp("at-once")
    with ThreadPoolExecutor(len(ALWAYS)) as pool:
        reports = {
            program.name: pool.submit(record_and_report, program.path, folder, SECONDS)
            for program in programs()
            if program.name in ALWAYS
        }
    return lambda program: reports[program.name].result()


def as_parameters(*, always: bool) -> list[Any]:
    return [pytest.param(program, id=program.name) for program in programs() if (program.name in ALWAYS) is always]


@pytest.mark.xdist_group("programs-recorded-at-once")
@pytest.mark.parametrize("program", as_parameters(always=True))
def test_the_report_tells_the_truth(program: Program, at_once: Callable[[Program], dict[str, Any]]):
    wrong = told_wrong(program, at_once(program))
    assert not wrong, wrong


@pytest.mark.slow
@pytest.mark.parametrize("program", as_parameters(always=False))
def test_the_report_of_another_tells_the_truth(program: Program, tmp_path: Path):
    wrong = told_wrong(program, record_and_report(program.path, tmp_path, max(float(SECONDS), program.seconds)))
    assert not wrong, wrong


@pytest.mark.slow
@pytest.mark.torch
@pytest.mark.parametrize("name, leaking", [("train_leaky.py", True), ("train_clean.py", False)])
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
