"""The whole report: verdicts that never look alike, analyzers that are skipped or fail, and what recording cost."""

from __future__ import annotations

import sys
import types

import pytest

import leakscope.analyzers as analyzers
from leakscope import analyze
from leakscope.errors import BadInput
from leakscope.findings import Finding, Subject
from tests.builders import RecordingBuilder

from .leaks import PID, MiB, sentinels, trainer


def add_analyzer(monkeypatch, name, findings, needs=(), **constants):
    """Put a module beside the real analyzers, as a file in the folder would."""
    module = types.ModuleType(f"leakscope.analyzers.{name}")
    module.NEEDS, module.TELLS, module.AFTER, module.findings = needs, (), (), findings
    vars(module).update(constants)
    monkeypatch.setitem(sys.modules, module.__name__, module)
    listed = [types.SimpleNamespace(name=name)]
    monkeypatch.setattr(analyzers.pkgutil, "iter_modules", lambda path: listed)


def test_a_leak(tmp_path):
    report = analyze(sentinels(trainer(tmp_path), step=[s * 50 for s in range(20)]).ends(20.0).open())
    verdict = report.verdict
    assert verdict.leaking is True
    assert verdict.headline.startswith("Memory leaks: ")
    assert verdict.growth_bytes_per_hour == pytest.approx(36000 * MiB, rel=0.05)
    assert verdict.growth_bytes_per_step == pytest.approx(10 * MiB / 50, rel=0.1)
    assert report.findings
    assert report.recording.process_count == report.recording.agent_count == 1


def test_no_leak(tmp_path):
    report = analyze(sentinels(trainer(tmp_path, leak=0), in_use=0).ends(20.0).open())
    assert report.verdict.leaking is False
    assert report.verdict.headline.startswith("No leak: ")
    assert not report.findings
    assert {r.kind for r in report.ruled_out} >= {"cyclic-garbage", "thread-pileup", "unexplained-growth"}


def test_cannot_tell(tmp_path):
    report = analyze(RecordingBuilder(tmp_path).process(1).samples(1, [MiB, 90 * MiB]).open())
    assert report.verdict.leaking is None
    assert report.verdict.headline.startswith("Cannot tell whether memory leaks: too short")
    assert not report.findings


def test_an_empty_recording_is_reported_not_refused(tmp_path):
    report = analyze(RecordingBuilder(tmp_path).process(1).open())
    assert report.verdict.leaking is None
    assert report.ledger == []
    assert report.recording.duration_s >= 0


def test_the_end_of_the_job_is_told(tmp_path):
    report = analyze(trainer(tmp_path).ends(20.0, signal=9).open())
    assert (report.recording.ended, report.recording.signal) == ("signal", 9)
    assert "ended by SIGKILL" in report.verdict.headline


def test_a_failing_analyzer_costs_only_itself(tmp_path, monkeypatch):
    def findings(case):
        raise ZeroDivisionError("no\nsuch luck")

    add_analyzer(monkeypatch, "crash", findings)
    report = analyze(trainer(tmp_path).open())
    assert ("crash", "failed: ZeroDivisionError: no such luck") in [(s.kind, s.reason) for s in report.skipped]
    assert report.verdict.leaking is True


def test_an_analyzer_without_its_tables_is_skipped(tmp_path, monkeypatch):
    add_analyzer(monkeypatch, "crash", lambda case: [], needs=("events", "processes"))
    (skipped, *_) = analyze(RecordingBuilder(tmp_path).process(1).open()).skipped
    assert (skipped.kind, skipped.reason) == ("crash", "the recording has no events")


def test_waste_is_added_up_and_is_no_leak(tmp_path, monkeypatch):
    waste = Finding("duplicate-model", "Weights live twice", "warning", 0.9, 300 * MiB, Subject(), wasted=True)
    add_analyzer(monkeypatch, "duplicate_model", lambda case: [waste])
    verdict = analyze(trainer(tmp_path, leak=0).open()).verdict
    assert (verdict.leaking, verdict.wasted_bytes) == (False, 300 * MiB)
    assert "But 300 MiB is wasted: weights live twice" in verdict.headline


def test_thresholds_reach_the_analyzer_that_knows_them(tmp_path, monkeypatch):
    seen = []

    def findings(case, *, min_things=3):
        seen.append(min_things)
        return []

    add_analyzer(monkeypatch, "crash", findings)
    analyze(trainer(tmp_path).open(), thresholds={"min_things": 7})
    assert seen == [7]


def test_only_limits_the_look(tmp_path):
    report = analyze(sentinels(trainer(tmp_path)).open(), only=["thread-pileup"])
    assert {r.kind for r in report.ruled_out} == {"thread-pileup"}
    assert not report.findings and not report.skipped


def test_unknown_names_are_refused_in_one_line(tmp_path):
    recording = trainer(tmp_path).open()
    with pytest.raises(BadInput, match="there is no kind 'leaks'"):
        analyze(recording, only=["leaks"])
    with pytest.raises(BadInput, match="there is no threshold 'speed'"):
        analyze(recording, thresholds={"speed": 3})


def test_what_recording_cost(tmp_path):
    builder = trainer(tmp_path).series(
        "recorder_samples", cpu_s=[0.05 * i for i in range(20)], rss_bytes=[MiB * 12] * 20
    )
    overhead = analyze(builder.take(PID, 1, 5.0, duration_s=0.2).open()).recording.overhead
    assert overhead["recorder_cpu_fraction"] == pytest.approx(0.95 / 19.75, rel=0.02)
    assert overhead["take_fraction"] == pytest.approx(0.2 / 19.75, rel=0.02)
    assert overhead["recorder_rss_bytes"] == 12 * MiB


def test_two_looks_give_the_same_report(tmp_path):
    path = sentinels(trainer(tmp_path)).write()
    from leakscope.storage import open_recording

    assert analyze(open_recording(path)) == analyze(open_recording(path))
