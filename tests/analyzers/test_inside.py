"""What a report admits it could not look into."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope import analyze
from leakscope.agent import refusal
from leakscope.agent.native import address_space
from leakscope.facts.processes import inside as _inside
from tests.builders import RecordingBuilder
from tests.sentences import says


def notes(folder: Path, cmdline: str, *, agent: bool = False, seconds: int = 12) -> list[str]:
    builder = RecordingBuilder(folder).process(5, cmdline=cmdline, exe="/usr/bin/python3.11")
    builder.samples(5, [50_000_000] * seconds)
    if agent:
        builder.note(5, 0.1, "loaded", "Python 3.11")
    return list(analyze(builder.ends(float(seconds)).open()).recording.notes)


@pytest.mark.parametrize(
    ("cmdline", "reason"),
    [
        ("python -I train.py", "started with -I"),
        ("python -uE train.py", "started with -E"),
        ("python train.py -I", "PYTHONPATH"),
    ],
)
def test_a_python_process_without_an_agent_is_admitted(tmp_path: Path, cmdline: str, reason: str) -> None:
    said = notes(tmp_path, cmdline)
    assert any("no inside view of train.py[5]" in note and reason in note for note in said), said


def test_a_process_with_an_agent_needs_no_excuse(tmp_path: Path) -> None:
    assert notes(tmp_path, "python train.py", agent=True) == []


def test_an_agent_that_did_not_begin_is_believed_and_so_for_forks_of_its_program(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path)
    for pid, exe in ((5, "/opt/pypy3"), (6, "/opt/pypy3"), (7, "/usr/bin/python3.11")):
        builder.process(pid, exe=exe).samples(pid, [50_000_000] * 12)
    builder.note(5, 0.1, refusal.NOTE, "it runs in pypy")
    said = analyze(builder.ends(12.0).open()).recording.notes
    alike, other = sorted(said)  # a reason is told once
    assert says(alike, "[5] and 1 more", "it runs in pypy")
    assert says(other, "[7]", "did not start there")


def test_a_job_without_an_agent_is_not_said_to_have_ended_without_an_exception(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(5, exe="/opt/pypy3").samples(5, [50_000_000] * 12)
    report = analyze(builder.note(5, 0.1, refusal.NOTE, "it runs in pypy").ends(12.0, exit_code=3).open())
    (skipped,) = [one for one in report.skipped if one.kind == "crash"]
    assert says(skipped.reason, "error output was not recorded")


def test_a_short_lived_process_is_not_worth_a_word(tmp_path: Path) -> None:
    assert notes(tmp_path, "python -I train.py", seconds=2) == []


def test_inventories_that_were_not_taken_are_admitted_once(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(5).samples(5, [50_000_000] * 12).note(5, 0.1, "loaded")
    for at_s in (2.0, 5.0):
        builder.note(5, at_s, "take-skipped", "300 MiB are shared with forked children")
    said = analyze(builder.ends(12.0).open()).recording.notes
    (note,) = said
    assert says(note, "no snapshot of", "[5]", "300 MiB are shared with forked children")


@pytest.mark.parametrize(
    ("taken_s", "told"), [((3.0,), ""), ((10.0,), "before 10.0 s"), ((2.0, 10.0), "before 10.0 s")]
)
def test_a_snapshot_that_came_late_is_told_by_what_it_left_unseen(
    tmp_path: Path, taken_s: tuple[float, ...], told: str
) -> None:
    """A second that nobody saw of ten that are judged is no loss; eight are."""
    builder = RecordingBuilder(tmp_path).process(5).samples(5, [50_000_000] * 12).note(5, 0.1, "loaded")
    for number, at_s in enumerate(taken_s, 1):
        builder.take(5, number, at_s)
    said = analyze(builder.note(5, 2.5, "take-skipped", "modules are imported").ends(12.0).open()).recording.notes
    assert all(told in note for note in said) and len(said) == bool(told)


def test_why_a_heap_was_not_read_is_said_unless_it_was_read_later(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path)
    for pid, reason in ((5, "no compiler"), (6, "cannot open shared object file")):
        builder.process(pid).samples(pid, [50_000_000] * 12).note(pid, 0.1, "loaded")
        builder.note(pid, 2.0, "no-heap-graph", reason)
    builder.row("heap_graphs", 5.0, pid=6, take=2)
    (note,) = analyze(builder.ends(12.0).open()).recording.notes
    assert says(note, "holders", "estimates", "no compiler")


def test_why_allocations_were_not_sampled_is_said(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(5).samples(5, [50_000_000] * 12).note(5, 0.1, "loaded")
    builder.note(5, 1.0, "no-allocation-samples", "malloc is another than glibc's")
    (note,) = analyze(builder.ends(12.0).open()).recording.notes
    assert says(note, "not sampled", "another than glibc's")


def test_a_process_with_little_address_space_was_left_alone(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(5, cmdline="python train.py", exe="/usr/bin/python3.11")
    builder.samples(5, [50_000_000] * 12)
    builder.row("limit_samples", 1.0, pid=5, limit_name="rlimit-as", used_bytes=80 << 20, limit_bytes=100 << 20)
    said = list(analyze(builder.ends(12.0).open()).recording.notes)
    assert any(says(note, "[5]", "100 MiB", "ulimit -v") for note in said), said


def test_the_agent_and_the_report_mean_the_same_limits() -> None:
    of_agent = {"rlimit-as": b"Max address space", "rlimit-data": b"Max data size"}
    assert {name: least for name, (least, _) in _inside._SCARCE.items()} == {
        name: address_space.LEAST_BYTES[title] for name, title in of_agent.items()
    }


@pytest.mark.parametrize("cmdline", ["python train.py", "python -I train.py"])
def test_what_ran_already_was_kept_from_nothing(tmp_path: Path, cmdline: str) -> None:
    builder = RecordingBuilder(tmp_path, attached=True).process(5, cmdline=cmdline, exe="/usr/bin/python3.11")
    builder.samples(5, [(50 + 2 * second) * 2**20 for second in range(60)])
    report = analyze(builder.ends(60.0).open())
    (remedy,) = report.findings[0].remedy
    assert says(remedy, "leakscope record", "leakscope.record()", "Python 3.14")
    assert "PYTHONPATH" not in remedy and "doctor" not in remedy and "without -I" not in remedy


def test_what_went_wrong_inside_the_agent_is_told_first(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(5).samples(5, [50_000_000] * 12).note(5, 0.1, "loaded")
    builder.note(5, 2.0, "take-skipped", "300 MiB are shared with forked children")
    builder.note(5, 3.0, "agent-failed", "NameError: name 'T' is not defined")
    failed, missing = analyze(builder.ends(12.0).open()).recording.notes
    assert says(failed, "went wrong inside leakscope", "NameError: name 'T' is not defined")
    assert says(missing, "300 MiB")


@pytest.mark.parametrize(("told_s", "exit_s", "is_said"), [(28, None, True), (97, None, False), (28, 28.5, False)])
def test_an_agent_that_fell_silent_is_admitted(
    tmp_path: Path, told_s: int, exit_s: float | None, is_said: bool
) -> None:
    """What is taken down, or was written down a moment ago, is nobody's silence."""
    builder = RecordingBuilder(tmp_path).process(5).samples(5, [50_000_000] * 102).note(5, 0.1, "loaded")
    for at_s in range(told_s + 1):
        builder.row("sentinels", float(at_s), 5, malloc_in_use_bytes=10_000_000)
    if exit_s is not None:
        builder.note(5, exit_s, "exit")
    said = analyze(builder.ends(102.0).open()).recording.notes
    assert any(says(note, "train.py[5]", "inside", f"{told_s}.0 s") for note in said) is is_said, said


def test_snapshots_that_fell_short_later_are_told_from_when_on(tmp_path: Path) -> None:
    """All before it were whole: what they say was not read too little."""
    builder = RecordingBuilder(tmp_path).process(5, cmdline="python train.py").samples(5, [50_000_000] * 60)
    builder.note(5, 0.1, "loaded", "Python 3.11").row("heap_graphs", 10.0, 5, take=1, is_sampled=False)
    builder.note(5, 50.0, "reduced-take", "there was too little memory to work out who holds what")
    said = analyze(builder.ends(60.0).open()).recording.notes
    assert any(says(note, "train.py[5], from 50.0 s on: there was too little memory") for note in said), said
