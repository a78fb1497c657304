"""When a snapshot is due, by a clock of the test's."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from leakscope.agent import config
from leakscope.agent.snapshots import schedule
from leakscope.facts.processes.inside import not_looked_at

from ..builders import RecordingBuilder


class Job:
    """A process with a schedule, a second at a time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.notes: list[tuple[str, str]] = []
        monkeypatch.setattr(schedule, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(sys, "modules", dict(sys.modules))
        self._schedule = schedule.Schedule(str(folder), dict(config.DEFAULTS), stress_s=None)

    def runs(self, seconds: int, *, imports: bool) -> list[float]:
        """When snapshots were due meanwhile."""
        due = []
        for _ in range(seconds):
            self.now_s += 1.0
            if imports:
                sys.modules[f"made.at{self.now_s}"] = types.ModuleType("made")
            if self._schedule.reason(lambda *note: self.notes.append(note)) is not None:
                self._schedule.taken(0.01)
                due.append(self.now_s)
        return due


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, monkeypatch)


def test_a_job_that_imports_on_and_on_is_looked_into_after_a_while_and_it_is_said(job: Job) -> None:
    assert job.runs(19, imports=True) == []
    assert job.runs(3, imports=True)
    (note,) = job.notes
    assert note == (
        "take-skipped", "none is made in the first 20 s while modules are imported, and that took more than 10 s"
    )  # fmt: skip


def test_imports_of_some_seconds_are_worth_no_word(job: Job) -> None:
    assert job.runs(8, imports=True) == []
    assert job.runs(2, imports=False) == [9.0]
    job.runs(5, imports=True)
    job.runs(20, imports=False)
    assert job.notes == []


def test_the_report_says_it(job: Job, tmp_path: Path) -> None:
    job.runs(19, imports=True)
    ((note, text),) = job.notes
    recording = RecordingBuilder(tmp_path).process(100).note(100, 12.0, note, text).open()
    (sentence,) = not_looked_at(recording)
    assert sentence.startswith("a snapshot is missing: none is made in the first 20 s while modules are imported")
