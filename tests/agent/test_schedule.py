"""When a snapshot is due, by a clock of the test's."""

from __future__ import annotations

import sys
from _thread import allocate_lock
from collections.abc import Callable
from pathlib import Path

import pytest

from leakscope.agent import config
from leakscope.agent.snapshots import schedule
from leakscope.agent.snapshots.maker import SnapshotMaker
from leakscope.facts.processes.inside import not_looked_at

from ..builders import RecordingBuilder
from ..sentences import says
from .staging import rows, run, stage

LIBRARY = "/usr/lib/python3/site-packages/torch/__init__.py"
WORKING = [(LIBRARY, 7, 1, "forward"), ("/home/me/train.py", 9, 1, "main")]
IMPORTING = [
    (LIBRARY, 2, 1, "<module>"),
    ("<frozen importlib._bootstrap>", 1176, 1165, "_find_and_load"),
    ("/home/me/train.py", 3, 1, "<module>"),
]


class Job:
    """A process with a schedule, a second at a time."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_s, self.cost_s = 0.0, 0.01
        self.notes: list[tuple[str, str]] = []
        monkeypatch.setattr(schedule, "monotonic", lambda: self.now_s)
        self._schedule = schedule.Schedule(str(folder), dict(config.DEFAULTS), stress_s=None)

    def runs(self, seconds: int, *, imports: bool = False, at: str = "") -> list[float]:
        """When snapshots were due meanwhile. ``at``: a line of the user's that runs."""
        due = []
        calls = [IMPORTING if imports else WORKING]
        for _ in range(seconds):
            self.now_s += 1.0
            for _ in range(2):  # looks a second
                self._schedule.saw([at] if at else [])
                self._schedule.look_at_level(is_stepping=False)
            is_due = self._schedule.reason(self._note) is not None
            if is_due and not self._schedule.waits_for_imports(calls, self._note):
                self._schedule.taken(self.cost_s)
                due.append(self.now_s)
        return due

    def sees(self, line: str) -> None:
        self._schedule.saw([line])

    def _note(self, *note: str) -> None:
        self.notes.append((note[0], note[1]))

    def spends(self, cost_s: float) -> None:
        self._schedule.taken(cost_s)

    def allows(self) -> bool:
        return self._schedule.allows()

    def allows_last(self) -> bool:
        return self._schedule.allows_last()

    def ends(self) -> list[str | None]:
        """Why snapshots are made as it ends."""
        made: list[str | None] = []
        maker = SnapshotMaker.__new__(SnapshotMaker)
        maker._schedule, maker._begun, maker._graph, maker._stress_s = self._schedule, [], None, None
        maker._turn, maker.makes = allocate_lock(), True
        maker.make = lambda safe_point: made.append(maker.wanted)  # type: ignore[method-assign]
        maker.make_last()
        return made


def holds(monkeypatch: pytest.MonkeyPatch, held: Callable[[], int]) -> None:
    """Let a process have so much memory."""
    monkeypatch.setattr(schedule, "rss_bytes", held)
    for name in ("rss_bytes", "malloc_in_use_bytes"):
        monkeypatch.setattr(schedule.level, name, held)


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    return Job(tmp_path, monkeypatch)


def test_a_job_that_imports_on_and_on_is_looked_into_after_a_while_and_it_is_said(job: Job) -> None:
    assert job.runs(59, imports=True) == []
    assert job.runs(3, imports=True)
    (note,) = job.notes
    assert note[0] == "take-skipped" and says(note[1], "imports", "10 s", "60 s")


def test_a_user_s_code_at_work_in_an_import_is_looked_into() -> None:
    """All of a program may run as a module of the user's is imported, or call into a library from there."""
    assert schedule.is_importing(IMPORTING)
    assert not schedule.is_importing(WORKING)
    app = ("/home/me/app.py", 12, 1, "<module>")
    assert not schedule.is_importing([WORKING[0], app, *IMPORTING[1:]])
    assert schedule.is_importing([*IMPORTING[:2], app, *IMPORTING[1:]])


@pytest.mark.live
def test_an_import_that_goes_on_is_seen_though_no_module_came(tmp_path: Path) -> None:
    """On a busy machine a large library of C is loaded for seconds, and sys.modules has no more meanwhile."""
    (library := tmp_path / "site-packages").mkdir()
    (library / "slow.py").write_text("import time\ntime.sleep(3)\n")
    program = "import slow, time; print(time.monotonic_ns(), flush=True); time.sleep(2)"
    done = run(journal := stage(tmp_path), "-c", program, PYTHONPATH=str(library))
    assert done.stderr == ""
    takes = rows(journal)["takes"]
    assert takes and min(take["time_mono_ns"] for take in takes) > int(done.stdout)


def test_imports_of_some_seconds_are_worth_no_word(job: Job) -> None:
    assert job.runs(8, imports=True) == []
    assert job.runs(2) == [9.0]
    job.runs(5, imports=True)
    job.runs(20)
    assert job.notes == []


def test_the_report_says_it(job: Job, tmp_path: Path) -> None:
    job.runs(15, imports=True)
    ((note, text),) = job.notes
    recording = RecordingBuilder(tmp_path).process(100).note(100, 12.0, note, text).open()
    (sentence,) = not_looked_at(recording)
    assert says(sentence, "no snapshot of", "[100]", text)


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
    holds(monkeypatch, lambda: 200 << 20)
    assert len(job.runs(20, at="train.py:7 prepare")) >= 3
    assert job.runs(15, at="train.py:7 prepare") == []
    assert len(job.runs(10, at="train.py:12 train")) == 1
    assert job.runs(15, at="train.py:12 train") == []


def test_memory_that_was_given_back_is_reason_enough(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """What the last snapshot met was a peak: nobody would know what there is after it."""
    held = 900 << 20
    holds(monkeypatch, lambda: held)
    (first,) = job.runs(2)
    held = 300 << 20
    assert job.runs(2) == [first + 1]


def test_what_a_program_gives_back_as_it_ends_asks_for_no_snapshot(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """main() has returned by then, and its variables are gone: it would show as a decline what is none."""
    held = 200 << 20
    holds(monkeypatch, lambda: held)
    assert len(job.runs(20, at="train.py:7 train")) >= 3
    held = 60 << 20
    assert job.runs(1) == []
    assert len(job.runs(2)) == 1


@pytest.mark.parametrize("gained_mib, is_looked_into", [(-170, True), (170, True), (-20, False)])
def test_the_stage_after_a_dear_start_is_looked_into_where_it_holds_something_else(
    job: Job, monkeypatch: pytest.MonkeyPatch, gained_mib: int, is_looked_into: bool
) -> None:
    """On a busy machine the start takes what may be spent; what is held from then on nobody would see."""
    held_mib = 900
    holds(monkeypatch, lambda: held_mib << 20)
    job.runs(10, at="serve.py:7 load")
    for _ in range(4):
        job.spends(0.35)
    assert job.runs(10, at="serve.py:7 load") == [] and not job.allows()
    held_mib += gained_mib
    assert bool(job.runs(10, at="serve.py:12 serve")) is is_looked_into


def dear(job: Job) -> None:
    """The first snapshots of a job on a busy machine have used up what all may use."""
    job.cost_s = 0.9
    for _ in range(4):
        job.now_s += 2.0
        job.spends(job.cost_s)
    assert not job.allows() and not job.allows_last()


def test_growth_that_nobody_saw_is_looked_into_whatever_was_spent(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """A training that keeps 20 MiB a second: at its end most of what it gained has been seen."""
    held_mib = 400
    holds(monkeypatch, lambda: held_mib << 20)
    dear(job)
    seen_mib = held_mib
    for _ in range(40):
        held_mib += 20
        if job.runs(1):
            seen_mib = held_mib
    assert held_mib - seen_mib <= seen_mib - 400
    assert not job.allows()


def test_what_growth_asks_for_beyond_the_budget_is_bounded(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """By how much there is: each time twice the growth; and by a tenth of the time."""
    held_mib = 400
    holds(monkeypatch, lambda: held_mib << 20)
    dear(job)
    due = []
    for _ in range(180):
        held_mib += 90  # 16 GiB at its end
        due += job.runs(1)
    assert 5 <= len(due) <= 8
    assert min(late - early for early, late in zip(due, due[1:])) >= job.cost_s / 0.1


def test_a_peak_that_a_snapshot_did_not_meet_asks_for_no_other(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """What a training step needs is gone as it ends, where the snapshot is made."""
    held_mib = 400
    holds(monkeypatch, lambda: held_mib << 20)
    dear(job)
    due = []
    for _ in range(10):
        held_mib = 900
        due += job.runs(12)
        held_mib = 400
        job.runs(12)
    assert len(due) == 1


def test_the_last_one_is_made_where_most_of_the_growth_came_after_the_one_before(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    held_mib = 400
    holds(monkeypatch, lambda: held_mib << 20)
    dear(job)
    job.now_s += 20.0
    assert not job.allows_last()
    held_mib = 800
    assert job.allows_last()


def test_the_last_one_is_left_out_where_memory_stands_as_it_was_seen(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would find the same, and the job waits for it; of a short run there is little else."""
    held_mib = 200
    holds(monkeypatch, lambda: held_mib << 20)
    assert len(job.runs(4, at="train.py:7 train")) == 2 and job.ends() == ["exit"]
    assert job.runs(16, at="train.py:7 train") and job.ends() == []
    held_mib += 8
    job.runs(2, at="train.py:7 train")
    assert job.ends() == ["exit"]


def test_the_last_one_is_made_where_the_program_ends_elsewhere_or_by_an_exception(
    job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    holds(monkeypatch, lambda: 200 << 20)
    job.runs(20, at="train.py:7 train")
    assert job.ends() == []
    monkeypatch.setattr(sys, "last_traceback", None, raising=False)
    assert job.ends() == ["exception"]
    monkeypatch.delattr(sys, "last_traceback")
    for _ in range(schedule.ELSEWHERE):
        job.sees("train.py:12 evaluate")
    assert job.ends() == ["exit"]
