"""The answer that is there when a job ends: from a helper that has loaded what it takes."""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from leakscope import analyze
from leakscope.recorder import answering, finalizing, helpers
from leakscope.recorder.answering import Answering
from leakscope.recorder.companion import Look
from leakscope.storage import read_footer
from leakscope.units import format_bytes
from tests.comparing.runs import MiB, run
from tests.golden import RECORDINGS

from .runs import TIMEOUT_S, environment, record, record_command

LEAKY = RECORDINGS / "retained_objects_local_list-leaky.parquet"


def wait_for(what: Callable[[], bool]) -> None:
    until_s = time.monotonic() + 4 * TIMEOUT_S
    while not what():
        assert time.monotonic() < until_s
        time.sleep(0.01)


def niceness(pid: int) -> list[int]:
    """Of each thread."""
    return [os.getpriority(os.PRIO_PROCESS, int(thread)) for thread in os.listdir(f"/proc/{pid}/task")]


@pytest.fixture
def answers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Answering]:
    """A helper that is given time, on a machine that has room; it writes its verdict into the recording."""
    monkeypatch.setattr(answering, "too_full", lambda *_: None)
    monkeypatch.setattr(answering, "MOST_PATIENCE_S", 4 * TIMEOUT_S)
    asked = Answering(shutil.copy(LEAKY, tmp_path))
    yield asked
    asked.give_way()


def go_on(asked: Answering, elapsed_s: float) -> object:
    """What leaves no room for a helper; None: nothing."""
    return next(iter(asked.go_on(Look(elapsed_s))), None)


@pytest.mark.slow
@pytest.mark.live
def test_verdict_line_and_remedy_come_from_the_helper(answers: Answering) -> None:
    go_on(answers, answering.FIRST_S)
    pid = answers.pid
    assert pid is not None
    wait_for(lambda: max(niceness(pid)) > os.getpriority(os.PRIO_PROCESS, 0))  # it loads behind the job
    wait_for(lambda: answers._listen() or answers._is_ready)
    assert os.getpriority(os.PRIO_PROCESS, pid) == os.getpriority(os.PRIO_PROCESS, 0)
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
    go_on(answers, answering.FIRST_S)
    wait_for(lambda: go_on(answers, answering.WAITING_S) or answers._answer is not None)
    footer = json.loads((Path(f"{answers._output}.journal") / "verdict.json").read_text())
    assert footer["verdict"]["as_of_s"] == 30.0 and "figures" not in footer  # what the run came to is the recorder's
    wait_for(lambda: go_on(answers, answering.WAITING_S) or answers.pid is None)  # it has looked
    monkeypatch.setattr(answering, "MOST_PATIENCE_S", 0.0)
    answers.begin(40.0, 0)
    answer = answers.answer(40.0)
    assert answer is not None and answer.told()[0].endswith("(Provisional, as of 30.0 s.)")
    assert "would save about" in answer.lines[2] and answer.lines[2].endswith("by then")
    assert "were not enough" in answers.why_not


@pytest.mark.slow
@pytest.mark.live
def test_a_helper_that_is_not_ready_gives_way_to_one_that_hurries(answers: Answering) -> None:
    """On a busy machine it may have had nothing so far; nor may it hurry, unless it is root's."""
    go_on(answers, answering.FIRST_S)
    behind = answers.pid
    answers.begin(30.0, 0)
    assert behind is not None and answers.pid not in (None, behind)
    answer = answers.answer(30.0)
    assert answer is not None and answer.told() == answer.lines and not answers.why_not
    assert not os.path.exists(f"/proc/{behind}")


@pytest.fixture
def has_ended(answers: Answering, tmp_path: Path) -> Path:
    """Its recording is a journal, and its helper loads: the file."""
    answers._output = str(run(tmp_path / "over", leak_per_step=0.5 * MiB).write_journal())
    answers.begin(30.0, 0)
    return Path(answers._output)


@pytest.mark.live
@pytest.mark.parametrize("keeps_journal", [False, True])
def test_who_answers_has_made_the_file(answers: Answering, has_ended: Path, keeps_journal: bool) -> None:
    assert answers.makes_file(keeps_journal) and answers.file_is_made()
    assert read_footer(has_ended)["state"] == "final"
    assert Path(f"{has_ended}.journal").exists() is keeps_journal
    answer = answers.answer(30.0)
    assert answer is not None and answer.lines[0].startswith("LEAKING")


@pytest.mark.live
def test_a_helper_that_is_killed_leaves_the_journal_to_another(answers: Answering, has_ended: Path) -> None:
    assert answers.makes_file(False) and answers.pid is not None
    os.kill(answers.pid, signal.SIGKILL)
    assert answers.file_is_made() is False and answers.pid is None
    assert Path(f"{has_ended}.journal").exists()


@pytest.mark.live
def test_a_signal_ends_the_wait_for_the_file(answers: Answering, has_ended: Path) -> None:
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGTERM])
    try:
        signal.pthread_kill(threading.get_ident(), signal.SIGTERM)  # no other thread is to take it
        assert answers.makes_file(False) and answers.file_is_made() is None
    finally:
        signal.sigwait([signal.SIGTERM])
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    assert answers.pid is None and Path(f"{has_ended}.journal").exists()


HELPER_FAILS = """
import sys
from leakscope.recorder import answering, finalizing
answering.FIRST_S, answering.HELPER, finalizing.at_once = 0.0, "exit(1)", lambda *_: False
from leakscope.__main__ import main
sys.exit(main())
"""


@pytest.mark.live
def test_where_no_helper_comes_to_make_the_file_another_process_does(tmp_path: Path) -> None:
    words = ["record", "--", sys.executable, "-c", "import time; time.sleep(1); raise SystemExit(3)"]
    done = subprocess.run(
        [sys.executable, "-I", "-c", HELPER_FAILS, *words],
        cwd=tmp_path, env=environment(), capture_output=True, text=True, timeout=4 * TIMEOUT_S,
    )  # fmt: skip
    assert done.returncode == 3 and "recorded in run.parquet" in done.stderr
    assert read_footer(tmp_path / "run.parquet")["ended"] == ["exit", 3, None]
    assert not (tmp_path / "run.parquet.journal").exists()


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.usefixtures("being_recorded")
def test_a_job_that_filled_the_memory_is_judged_when_it_is_gone(answers: Answering) -> None:
    go_on(answers, answering.FIRST_S)
    answers.give_way()  # as a limit came near
    assert go_on(answers, answering.FIRST_S + 1) is None and answers.pid is None
    answers.begin(2.0, 0, is_telling=True)  # however short it was
    assert answers.answer(2.0) is not None


def test_what_stands_against_a_verdict_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Answering(str(LEAKY))
    monkeypatch.setattr(answering, "too_full", lambda *_: helpers.Room("cgroup /small", 5 * MiB))
    monkeypatch.setattr(finalizing, "can_answer", lambda: True)
    for elapsed_s, journal_bytes, said in (
        (2.0, 0, "less than 6 s"), (60.0, 2 * answering.MOST_JOURNAL_BYTES, "1.0 GiB to read"),
        (60.0, 0, "5.0 MiB of memory are left, cgroup /small"),
    ):  # fmt: skip
        asked.begin(elapsed_s, journal_bytes)
        assert said in asked.why_not and asked.answer(elapsed_s) is None
    monkeypatch.setattr(finalizing, "can_answer", lambda: False)
    asked.begin(60.0, 0)
    assert "not installed" in asked.why_not and asked.pid is None


@pytest.mark.live
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
    assert go_on(asked, answering.FIRST_S - 1) is None and asked.pid is None
    monkeypatch.setattr(answering, "too_full", lambda *_: helpers.Room("the machine", 5))
    assert go_on(asked, answering.FIRST_S) == ("the machine", 5) and asked.pid is None
    monkeypatch.setattr(answering, "too_full", lambda *_: None)
    monkeypatch.setattr(finalizing, "is_possible", lambda: True)
    assert go_on(asked, 100.0) is None and asked.pid is None  # it does not try again
    assert asked.answer(20.0) is None


@pytest.mark.live
def test_the_end_says_what_to_type(tmp_path: Path) -> None:
    done = record(tmp_path, "-o", "a b.parquet", "--", "sleep", "0.1", finalize=True)
    first, why, last = done.stderr.splitlines()
    assert first.startswith("leakscope: the command exited with status 0 after ")
    assert "no verdict: it ran for less than 6 s" in why
    assert "leakscope report 'a b.parquet' -o report.html" in last
    assert not record(tmp_path, "-q", "--", "sleep", "0.1", finalize=True).stderr


@pytest.mark.live
def test_of_a_failed_start_nothing_is_said_to_have_grown(tmp_path: Path) -> None:
    done = record(tmp_path, "--", "python3", "no_such_file.py", finalize=True)
    *_, first, why, last = done.stderr.splitlines()
    assert "status 2" in first and "no verdict: it failed as it began" in why
    assert "grew" not in why + last


@pytest.mark.live
def test_who_gets_leakscopes_own_python_for_their_own_is_told(tmp_path: Path) -> None:
    """Its environment is active, so that ``python`` is its, without the program's packages."""
    done = record(tmp_path, "--", sys.executable, "-c", "import no_such_module", finalize=True)
    *_, why, _ = done.stderr.splitlines()
    assert f"it ran {sys.executable}, which is leakscope's own" in why


LEAKS = "kept = []\nfor n in range(70):\n    kept.append(bytearray(1 << 20))\n    time.sleep(0.1)\n"


@pytest.mark.slow
@pytest.mark.live
def test_a_quiet_recording_has_its_verdict_in_the_file(tmp_path: Path) -> None:
    done = record(tmp_path, "-q", "--", "python3", "-c", f"import time\n{LEAKS}", finalize=True)
    assert done.stderr == ""
    said = read_footer(tmp_path / "run.parquet")
    assert said["verdict"]["headline"] and "as_of_s" not in said["verdict"]
    assert (said["figures"]["ended"], said["kill_count"]) == ("exit", 0)
    assert said["peak_bytes"] > 70 << 20


@pytest.mark.slow
@pytest.mark.live
def test_the_peak_that_is_told_at_the_end_is_the_report_s(tmp_path: Path) -> None:
    """Of a fork and its parent, say: what they share is told apart by a report alone, and the peak is said once."""
    fork = "import os, time\nif not os.fork():\n    time.sleep(4)\n    os._exit(0)\n"
    done = record(tmp_path, "--", "python3", "-c", f"{fork}{LEAKS}", finalize=True)
    told = re.findall(r"peak (?:about )?([\d.]+ [KMG]iB)", done.stderr)
    assert told == [format_bytes(analyze(tmp_path / "run.parquet").recording.peak.bytes)]


@pytest.mark.live
@pytest.mark.parametrize(("flag", "is_said"), [("-I", True), ("-u", False)])
def test_who_starts_it_so_that_nobody_can_look_in_is_told_at_once(flag: str, is_said: bool, tmp_path: Path) -> None:
    done = record(tmp_path, "--", record_command()[0], flag, "-c", "print()")
    said = [line for line in done.stderr.splitlines() if "seen from outside only" in line]
    assert bool(said) is is_said
    assert all("record it without -I" in line for line in said)
