"""JUnit's XML: well formed whatever the job is called, and each case in the state that fits."""

from __future__ import annotations

import dataclasses
from xml.etree import ElementTree as xml

import pytest

from leakscope.findings import RuledOut, Skipped, Verdict
from leakscope.renderers import render

from .hostile import STRINGS, full_of
from .reports import DUPLICATE, EMPTY, FULL, RETAINED


def suite(report):
    return xml.fromstring(render(report, "junit").encode("utf-8")).find("testsuite")


def states(report):
    """Name -> state of each case."""
    found = {}
    for case in suite(report).iter("testcase"):
        assert case.get("classname") == "leakscope"
        assert case.get("name") not in found
        states = [name for name in ("failure", "skipped") if case.find(name) is not None]
        found[case.get("name")] = states[0] if states else "passed"
    return found


def test_findings_fail_notes_and_the_ruled_out_pass_and_the_rest_is_skipped():
    assert states(FULL) == {
        "verdict": "failure",
        "retained-objects": "failure",
        "duplicate-model": "passed",
        "cyclic-garbage": "passed",
        "gpu-fragmentation": "skipped",
    }


def test_the_counts_are_those_of_the_cases():
    counts = {name: suite(FULL).get(name) for name in ("tests", "failures", "skipped", "errors", "time")}
    assert counts == {"tests": "5", "failures": "2", "skipped": "1", "errors": "0", "time": "21.400"}


@pytest.mark.parametrize(("leaking", "state"), [(True, "failure"), (False, "passed"), (None, "skipped")])
def test_the_verdict_is_a_case_and_cannot_tell_is_no_pass(leaking, state):
    report = dataclasses.replace(EMPTY, verdict=Verdict(leaking, False, "so it is", 0))
    assert states(report) == {"verdict": state}


def test_a_failure_says_where_and_what_to_do():
    case = next(c for c in suite(FULL).iter("testcase") if c.get("name") == "retained-objects")
    assert (case.get("file"), case.get("line")) == ("train.py", "88")
    failure = case.find("failure")
    assert failure.get("message") == RETAINED.title
    assert "path: main() trainer.history[*]" in failure.text
    assert "  - store loss.item(): frees about 600 MiB" in failure.text


def test_a_kind_that_was_found_is_told_once_and_two_of_a_kind_are_two_cases():
    report = dataclasses.replace(
        FULL,
        findings=[RETAINED, dataclasses.replace(RETAINED, title="another"), DUPLICATE],
        ruled_out=[RuledOut("retained-objects", "not in the worker")],
        skipped=[],
    )
    assert list(states(report)) == ["verdict", "retained-objects", "retained-objects 2", "duplicate-model"]


def test_what_was_seen_in_part_is_skipped():
    report = dataclasses.replace(
        EMPTY, ruled_out=[RuledOut("crash", "no process failed")], skipped=[Skipped("crash", "stderr was a terminal")]
    )
    assert states(report)["crash"] == "skipped"


def test_a_hostile_report_is_well_formed():
    report = full_of(STRINGS)
    failure = suite(report).find("testcase[@file]/failure")
    assert "<script>alert(1)</script>" in failure.get("message")
    assert "\\x00\\ud800\\ufffe" in failure.get("message"), "what XML cannot hold is written out"
