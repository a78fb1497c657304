"""The answer that is there when a job ends: from a helper that has loaded what it takes."""

from __future__ import annotations

import fcntl
import os
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leakscope.findings import BY_THE_END
from leakscope.recorder import answering, finalizing, helpers
from leakscope.recorder.answering import Answering
from tests.comparing.runs import MiB, run
from tests.golden import RECORDINGS

from .runs import TIMEOUT_S, record, record_command

LEAKY = RECORDINGS / "retained_objects_local_list-leaky.parquet"


def wait_for(what: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 4 * TIMEOUT_S
    while not what():
        assert time.monotonic() < until_s
        time.sleep(0.01)


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    """A helper that is given time, on a machine that has room; it writes its verdict into the recording."""
    monkeypatch.setattr(answering, "too_full", lambda *_: None)
    monkeypatch.setattr(answering, "PATIENCE_S", 4 * TIMEOUT_S)
    asked = Answering(shutil.copy(LEAKY, tmp_path))
    yield asked
    asked.stop()


@pytest.mark.slow
@pytest.mark.live
def test_verdict_line_and_remedy_come_from_the_helper(answers: Answering) -> None:
    answers.go_on(answering.FIRST_S, 0)
    pid = answers.pid
    assert pid is not None and os.getpriority(os.PRIO_PROCESS, pid) > 0
    wait_for(lambda: answers._listen() or answers._is_ready)
    answer = answers.answer(20.0)
    assert answer is not None and answer.told() == answer.lines
    verdict, place, remedy = answer.lines
    assert verdict.startswith("LEAKING: ")
    assert ".py:" in place and remedy.startswith("do: ")
    assert answers.pid is None and not os.path.exists(f"/proc/{pid}")


@pytest.fixture
def being_recorded(answers: Answering, tmp_path: Path) -> Iterator[None]:
    """Its recording is a journal that somebody still writes, 30 s old."""
    builder = run(tmp_path / "live", leak_per_step=0.5 * MiB)
    answers._output = str(builder.write_journal())
    with open(builder.journal / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.usefixtures("being_recorded")
def test_an_earlier_look_is_told_with_what_it_saw(answers: Answering, monkeypatch: pytest.MonkeyPatch) -> None:
    """How far the recording went, on a busy machine further than when it was asked; and no word of the run's end."""
    answers.go_on(answering.FIRST_S, 0)
    wait_for(lambda: answers.go_on(answering.FIRST_LOOK_S, 0) or answers._answer is not None)
    monkeypatch.setattr(answering, "PATIENCE_S", 0.0)
    monkeypatch.setattr(answering, "PATIENCE_SHARE", 0.0)
    answer = answers.answer(40.0)
    assert answer is not None and answer.told()[0].endswith("(As of 30.0 s.)")
    assert "would save about" in answer.lines[2] and answer.lines[2].endswith("by then")


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.usefixtures("being_recorded")
def test_what_it_says_at_the_end_is_worked_out_while_the_file_is_made(answers: Answering) -> None:
    answers.go_on(answering.FIRST_S, 0)
    answers.begin(30.0, 0)
    answer = answers.answer(30.0)
    assert answer is not None and answer.told() == answer.lines
    assert answer.lines[2].endswith(BY_THE_END)


@pytest.mark.live
@pytest.mark.usefixtures("being_recorded")
def test_after_a_long_run_its_end_is_told_by_a_helper_that_starts_then(answers: Answering) -> None:
    """Of a look at half of it nothing would be said."""
    assert answers.pid is None
    answers.begin(10 * answering.WAITING_S, 0)
    answer = answers.answer(10 * answering.WAITING_S)
    assert answer is not None and answer.told() == answer.lines
    assert answer.lines[0].startswith("LEAKING: ")


def test_half_of_a_run_says_nothing_of_its_end_but_for_a_leak_with_its_line() -> None:
    well, unknown = (
        ["NOT LEAKING: memory does not keep growing"],
        ["LEAKING: train.py gained 352 MiB, its holder is unknown"],
    )
    named = ["LEAKING: CACHE (dict) keeps growing", "serve.py:12  CACHE[key] = row", "do: bound CACHE"]
    assert [answering.Answer(lines, 16.0).is_told(30.0) for lines in (well, unknown, named)] == [False, False, True]
    assert answering.Answer(well, 26.0).is_told(30.0)
    assert answering.Answer(well).is_told(30.0)  # of the end


def test_no_helper_where_memory_is_short_or_the_run_is(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Answering(str(LEAKY))
    monkeypatch.setattr(answering, "too_full", lambda *_: None)
    assert asked.go_on(answering.FIRST_S - 1, 0) is None and asked.pid is None
    monkeypatch.setattr(answering, "too_full", lambda *_: helpers.Room("the machine", 5))
    assert asked.go_on(answering.FIRST_S, 0) == ("the machine", 5) and asked.pid is None
    monkeypatch.setattr(answering, "too_full", lambda *_: None)
    monkeypatch.setattr(finalizing, "is_possible", lambda: True)
    assert asked.go_on(100.0, 0) is None and asked.pid is None  # it does not try again
    assert asked.answer(20.0) is None


@pytest.mark.live
def test_the_end_says_what_to_type(tmp_path: Path) -> None:
    done = record(tmp_path, "-o", "a b.parquet", "--", "sleep", "0.1", finalize=True)
    first, last = done.stderr.splitlines()
    assert first.startswith("leakscope: the command exited with status 0 after ")
    assert "leakscope report 'a b.parquet' -o report.html" in last
    assert not record(tmp_path, "-q", "--", "sleep", "0.1", finalize=True).stderr


@pytest.mark.live
@pytest.mark.parametrize(("flag", "is_said"), [("-I", True), ("-u", False)])
def test_who_starts_it_so_that_nobody_can_look_in_is_told_at_once(flag: str, is_said: bool, tmp_path: Path) -> None:
    done = record(tmp_path, "--", record_command()[0], flag, "-c", "print()")
    said = [line for line in done.stderr.splitlines() if "seen from outside only" in line]
    assert bool(said) is is_said
    assert all("record it without -I" in line for line in said)
