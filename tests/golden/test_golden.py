"""Every golden recording is judged as expected and in line with the truth; nothing is recorded here."""

from __future__ import annotations

import re

import pyarrow as pa
import pytest

from leakscope import render
from leakscope.facts.case import Case
from leakscope.reporting import report_of
from leakscope.storage import Recording, open_recording
from tests.end_to_end.programs import Program

from . import (
    EXPECTED,
    MOST_BYTES,
    RECORDINGS,
    as_json,
    expected,
    golden_programs,
    known_misses,
    recording_of,
    told_wrong,
)
from .compare import differences
from .figures import contradictions, figures_that_differ, several_figures_of_one_rate

pytestmark = pytest.mark.golden

# What a path in a recording may begin with: the job and the installation by their neutral names, and the system's.
NEUTRAL = ("/tmp/job/", "/tmp/", "/opt/", "/group-a", "/dev/", "/proc/", "/usr/", "/sys/", "/etc/", "/lib", "/bin/")
PATH = re.compile(r"(?<![\w./*\])-])/\w[\w.-]*/[\w./-]*")
PROGRAMS = [pytest.param(program, id=program.name) for program in golden_programs()]


@pytest.mark.parametrize("program", PROGRAMS)
def test_the_report_is_as_expected_and_true(program: Program):
    case = Case(open_recording(recording_of(program)))
    whole = case.once(report_of)
    report, brief = as_json(whole), render(whole, "brief")
    assert len(brief.encode("utf-8")) < 2000 and "/tmp/job/" not in brief
    told = expected.read(program)
    assert told is not None, "python -m tests.golden --judge writes down what is expected"
    assert not contradictions(report)
    assert not several_figures_of_one_rate(whole, report)
    assert not figures_that_differ(case, whole, report)
    different = expected.differences(told, expected.expectation(report))
    assert not different, f"{report['verdict']['headline']} Not as expected: {'; '.join(different)}"
    wrong, known = told_wrong(program, report), known_misses().get(program.name)
    if known is None:
        assert not wrong, wrong
        return
    assert wrong, f"it is told right by now: take {program.name} out of misses.json"
    pytest.xfail(known)


@pytest.mark.parametrize("program", PROGRAMS)
def test_it_is_of_the_program_as_it_is_now_and_of_no_machine(program: Program):
    recording = open_recording(recording_of(program))
    texts = texts_of(recording)
    sources = texts.pop("source_text", None)  # these say what they like
    if sources is None:
        assert program.options, "only who looks from outside alone records no source"
    else:
        assert program.path.read_text() in sources, f"the program was changed: python -m tests.golden {program.name}"
    others = [*map(str, recording.meta.values()), *(text for column in texts.values() for text in column)]
    strange = {path for text in others for path in PATH.findall(text) if not path.startswith(NEUTRAL)}
    assert not strange, f"paths of the machine it was recorded on: {sorted(strange)[:5]}"


def texts_of(recording: Recording) -> dict[str, list[str]]:
    """All texts in a recording, by column, each once. Numbers, which are most of it, are not read."""
    file = recording._file
    columns = [one.name for one in file.schema_arrow if pa.types.is_string(one.type) and one.name != "fingerprint"]
    rows = file.read(columns=columns)
    return {name: rows[name].unique().drop_null().to_pylist() for name in columns}


def test_they_are_small_and_none_is_too_many():
    recordings = {path.stem: path.stat().st_size for path in RECORDINGS.glob("*.parquet")}
    assert sum(recordings.values()) <= MOST_BYTES
    names = {program.name for program in golden_programs()}
    assert recordings.keys() <= names, "of a program that is no more"
    assert {path.stem for path in EXPECTED.glob("*.json")} == recordings.keys()
    assert known_misses().keys() <= recordings.keys()


def test_differences_of_two_reports_are_named_by_their_place():
    then = {"findings": [{"line": 12, "bytes": 100 << 20}], "otherwise": {"crash": "not checked"}}
    now = {"findings": [{"line": 13, "bytes": 105 << 20}], "otherwise": {"crash": "not checked"}, "new": 1}
    assert expected.differences(then, now) == ["findings[0].line: 12, now 13", "new: null, now 1"]
    assert list(differences(then, now))[:2] == [
        "findings[0].line: 12, now 13",
        f"findings[0].bytes: {100 << 20}, now {105 << 20}",
    ]
    assert expected.differences(then, {**now, "findings": []})[0] == "findings: [unknown], now []"
