"""What a case fills in for a diagnosis: whose memory it is, how bad that is, and how fast it grows."""

from __future__ import annotations

import pytest

from leakscope.confidence import Ground
from leakscope.facts.case import Case
from leakscope.facts.code.adding import Line
from leakscope.findings import Subject

from .leaks import LEAK_BYTES_PER_S, PID, MiB, trainer

LINE = Line("/home/me/train.py", 31, "main", "history.append(loss)", "adds", 1.0)


@pytest.fixture
def case(tmp_path):
    return Case(trainer(tmp_path).open())


def test_a_finding_is_about_the_process_and_the_line_it_is_given(case):
    finding = case.finding(
        "a-kind", "t", bytes=1, grounds=[Ground("seen", 0.9)], process=case.growth.main, line=LINE, holder="history"
    )
    subject = finding.subject
    assert (subject.pid, subject.process, subject.holder) == (PID, "train.py", "history")
    assert (subject.file, subject.line, subject.function) == ("/home/me/train.py", 31, "main")


def test_growth_has_a_rate_and_is_critical_from_half_of_the_growth_on(case):
    all_of_it, little = (
        case.finding("a-kind", "t", bytes=size, grounds=[Ground("seen", 0.9)])
        for size in (case.growth.growth_bytes, 1 * MiB)
    )
    assert (all_of_it.severity, little.severity) == ("critical", "warning")
    assert all_of_it.bytes_per_hour == pytest.approx(LEAK_BYTES_PER_S * 3600, rel=0.05)


def test_what_has_a_severity_of_its_own_is_no_growth_and_has_no_rate(case):
    finding = case.finding("a-kind", "t", bytes=500 * MiB, grounds=[Ground("seen", 0.9)], severity="note", wasted=True)
    assert (finding.severity, finding.bytes_per_hour) == ("note", None)


def test_a_rate_that_was_measured_is_kept(case):
    assert case.finding("a-kind", "t", bytes=1, grounds=[Ground("seen", 0.9)], bytes_per_hour=7.0).bytes_per_hour == 7.0


def test_a_subject_that_is_known_is_taken_as_it_is(case):
    known = Subject(pid=7, variable="cache")
    assert (
        case.finding(
            "a-kind", "t", bytes=1, grounds=[Ground("seen", 0.9)], process=case.growth.main, subject=known
        ).subject
        == known
    )


def test_carriers_are_the_processes_that_gained_enough(tmp_path):
    builder = trainer(tmp_path).process(77, cmdline="/usr/bin/python3 /home/me/idle.py")
    case = Case(builder.samples(77, [50 * MiB] * 80, every_s=0.25).open())
    assert [process.pid for process in case.growth.processes] == [PID, 77]
    assert [process.pid for process in case.carriers()] == [PID]
    assert not case.carriers(min_bytes=10_000 * MiB)
