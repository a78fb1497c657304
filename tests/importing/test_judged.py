"""Whole reports on files of other tools and on memory snapshots: as expected, and their figures agree."""

from __future__ import annotations

import gzip
import pickle
from pathlib import Path

import pytest

from tests.golden import expected, judge
from tests.golden.figures import contradictions

from .devices import MADE, SNAPSHOTS
from .files import imported
from .judging import cases, told

pytestmark = pytest.mark.golden

CASES = [pytest.param(name, files, id=name) for name, files in cases().items()]


@pytest.mark.parametrize(("name", "files"), CASES)
def test_the_report_on_it_is_as_expected(name: str, files: list[Path], tmp_path: Path) -> None:
    report = judge(imported(tmp_path, *files).path)
    assert not contradictions(report)
    wanted = told().get(name)
    assert wanted is not None, "python -m tests.importing.judging writes down what is expected"
    different = expected.differences(wanted, expected.expectation(report))
    assert not different, f"{report['verdict']['headline']} Not as expected: {'; '.join(different)}"


def test_what_is_expected_is_of_files_that_are_there() -> None:
    assert told().keys() == cases().keys()


@pytest.mark.parametrize("name", MADE)
def test_a_snapshot_is_what_its_program_makes(name: str) -> None:
    """``python -m tests.importing.devices`` makes them anew."""
    files = sorted((SNAPSHOTS / name).iterdir()) if (SNAPSHOTS / name).is_dir() else [SNAPSHOTS / f"{name}.pickle.gz"]
    kept = [pickle.loads(gzip.decompress(file.read_bytes())) for file in files]
    assert kept == MADE[name]()
