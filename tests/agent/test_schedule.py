"""When a snapshot is due, by a clock of the test's."""

from __future__ import annotations

import importlib
import sys
import types
from pathlib import Path

import pytest

from leakscope.agent import config
from leakscope.agent.snapshots import schedule
from leakscope.facts.processes.inside import not_looked_at

from ..builders import RecordingBuilder
from ..sentences import says


class Job:
    """A process with a schedule, a second at a time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s = 0.0
        self.core = 1.0  # its share of one
        self.notes: list[tuple[str, str]] = []
        monkeypatch.setattr(schedule, "monotonic", lambda: self.now_s)
        monkeypatch.setattr(schedule, "process_time", lambda: self.core * self.now_s)
        monkeypatch.setattr(sys, "modules", dict(sys.modules))
        self.imports = False
        monkeypatch.setattr(schedule, "is_importing", lambda: self.imports)
        self._schedule = schedule.Schedule(str(folder), dict(config.DEFAULTS), stress_s=None)

    def runs(self, seconds: int, *, imports: bool, makes_modules: bool = False) -> list[float]:
        """When snapshots were due meanwhile."""
        due = []
        self.imports = imports
        for _ in range(seconds):
            self.now_s += 1.0
            if imports or makes_modules:
                sys.modules[f"made.at{self.now_s}"] = types.ModuleType("made")
            if self._schedule.reason(lambda *note: self.notes.append(note)) is not None:
                self._schedule.taken(0.01)
                due.append(self.now_s)
        return due

    def stands(self, seconds: int, at: str) -> list[float]:
        """The same, of a job whose memory stands, and that runs a line of the user's."""
        due = []
        for _ in range(seconds):
            for _ in range(2):  # looks a second
                self._schedule.saw([at])
                self._schedule.look_at_level(is_stepping=False)
            due += self.runs(1, imports=False)
        return due

    def spends(self, cost_s: float) -> None:
        self._schedule.taken(cost_s)

    def allows(self) -> bool:
        return self._schedule.allows()

    def allows_last(self) -> bool:
        return self._schedule.allows_last()


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, monkeypatch)


def test_a_job_that_imports_on_and_on_is_looked_into_after_a_while_and_it_is_said(job: Job) -> None:
    assert job.runs(19, imports=True) == []
    assert job.runs(3, imports=True)
    (note,) = job.notes
    assert note[0] == "take-skipped" and says(note[1], "imported", "10 s", "20 s of CPU time")


def test_a_job_that_makes_modules_and_imports_none_is_looked_into_as_any_other(job: Job) -> None:
    """Rules or plugins that it compiles itself, and leaves in sys.modules."""
    assert len(job.runs(15, imports=False, makes_modules=True)) > 3
    assert job.notes == []


def test_an_import_that_goes_on_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "looked_into_meanwhile.py").write_text(
        "from leakscope.agent.snapshots.schedule import is_importing\nseen = is_importing()\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, "looked_into_meanwhile", raising=False)
    assert importlib.import_module("looked_into_meanwhile").seen
    assert not schedule.is_importing()


def test_on_a_busy_machine_a_start_takes_longer(job: Job) -> None:
    job.core = 0.4
    assert job.runs(45, imports=True) == []
    job.core = 0.1
    assert job.runs(20, imports=True)  # but not for ever


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
    assert sentence == f"a snapshot is missing: {text}"


def test_the_last_one_may_be_paid_for_in_advance(job: Job) -> None:
    """Nothing can follow it, and without it nobody knows what there was at the end."""
    for _ in range(5):
        job.spends(0.35)
    job.now_s = 60.0
    assert not job.allows()
    assert job.allows_last()
    job.spends(1.5)
    assert not job.allows_last()


def test_a_job_whose_memory_stands_is_looked_into_again_in_its_next_stage(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In it other things may be held, and other lines read them, though there is no more."""
    monkeypatch.setattr(schedule, "rss_bytes", lambda: 200 << 20)
    monkeypatch.setattr(schedule.level, "rss_bytes", lambda: 200 << 20)
    monkeypatch.setattr(schedule.level, "malloc_in_use_bytes", lambda: 100 << 20)
    assert len(job.stands(20, "train.py:7 prepare")) >= 3
    assert job.stands(15, "train.py:7 prepare") == []
    assert len(job.stands(10, "train.py:12 train")) == 1
    assert job.stands(15, "train.py:12 train") == []


def test_memory_that_was_given_back_is_reason_enough(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the last snapshot met was a peak: nobody would know what there is after it."""
    held = 900 << 20
    monkeypatch.setattr(schedule, "rss_bytes", lambda: held)
    (first,) = job.runs(2, imports=False)
    held = 300 << 20
    assert job.runs(2, imports=False) == [first + 2]


@pytest.mark.parametrize("gained_mib, is_looked_into", [(-170, True), (170, True), (-20, False)])
def test_the_stage_after_a_dear_start_is_looked_into_where_it_holds_something_else(
    job: Job, monkeypatch: pytest.MonkeyPatch, gained_mib: int, is_looked_into: bool
) -> None:
    """On a busy machine the start takes what may be spent; what is held from then on nobody would see."""
    held_mib = 900
    monkeypatch.setattr(schedule, "rss_bytes", lambda: held_mib << 20)
    monkeypatch.setattr(schedule.level, "rss_bytes", lambda: held_mib << 20)
    monkeypatch.setattr(schedule.level, "malloc_in_use_bytes", lambda: held_mib << 20)
    job.stands(10, "serve.py:7 load")
    for _ in range(4):
        job.spends(0.35)
    assert job.stands(10, "serve.py:7 load") == [] and not job.allows()
    held_mib += gained_mib
    assert bool(job.stands(10, "serve.py:12 serve")) is is_looked_into
