"""Whether a fix worked is said from two recordings, and never out of noise, speed or a shorter run."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from leakscope import analyzers
from leakscope.checking import Rules, check_case
from leakscope.checking._rules import parse_growth
from leakscope.cli import main
from leakscope.comparing import EXIT_STATUS, FORMATS, Comparison, compare, compare_cases, render
from leakscope.comparing._comparison import FindingChange
from leakscope.comparing._holders import Told, bill_changes, finding_changes, fingerprint
from leakscope.comparing._pace import Pace, PacePair
from leakscope.comparing._verdict import decide
from leakscope.comparing._words import rows
from leakscope.facts.case import Case
from leakscope.findings import LEVEL, NOBODY, Bill, BillRow, Finding, HeapHolder, HeapTake, HeapView, Subject
from leakscope.reporting import report_of
from leakscope.storage import open_recording
from leakscope.units import format_rate
from tests.builders import RecordingBuilder
from tests.comparing.runs import PID, TRAIN, MiB, run
from tests.renderers.reports import FULL
from tests.sentences import says

KiB = 1024


@pytest.fixture(scope="module")
def compared(tmp_path_factory) -> Callable[[dict, dict], Comparison]:
    """Two runs compared; each is recorded and analysed once, however many tests ask for it."""
    folder = tmp_path_factory.mktemp("runs")
    runs: dict[str, Case] = {}

    def opened(columns: dict) -> Case:
        key = repr(columns)
        if key not in runs:
            runs[key] = Case(run(folder / str(len(runs)), **columns).open())
        return runs[key]

    return lambda before, after: compare_cases(opened(before), opened(after))


LEAK = {"leak_per_step": 0.5 * MiB}


def test_a_fix_that_works_is_better_and_names_the_holder_that_is_gone(compared):
    result = compared(LEAK, {})
    assert result.verdict == "better"
    assert [(c.change, c.what) for c in result.findings] == [("gone", "Trainer.history (list)")]
    assert result.before.growth_bytes_per_step == pytest.approx(0.5 * MiB, rel=0.05)
    assert result.before.growth_bytes_per_step_low <= 0.5 * MiB <= result.before.growth_bytes_per_step_high * 1.01
    assert result.after.growth_bytes_per_step == pytest.approx(0, abs=0.01 * MiB)


def test_a_new_leak_is_worse(compared):
    result = compared({}, LEAK)
    assert result.verdict == "worse"
    assert [c.change for c in result.findings] == ["new"]


def test_a_placebo_that_only_slows_the_run_is_the_same_by_step(compared):
    result = compared(LEAK, {**LEAK, "steps_per_s": 4.0})
    assert (result.verdict, result.aligned_by) == ("same", "step")
    assert result.before.growth_bytes_per_hour > 2 * result.after.growth_bytes_per_hour


@pytest.mark.further
def test_without_steps_a_slower_run_is_no_smaller_leak(compared):
    slower = {**LEAK, "steps_per_s": 4.0, "counts_steps": False}
    result = compared({**LEAK, "counts_steps": False}, slower)
    assert result.aligned_by == "second"
    assert result.verdict == "cannot-tell"
    assert "mark(step=...)" in " ".join(result.doubts) and "slower" in result.reason


def test_half_the_leak_is_better_by_step(compared):
    result = compared(LEAK, {"leak_per_step": 0.2 * MiB})
    assert result.verdict == "better"
    assert "still leaks" in result.reason


def test_two_flat_runs_that_shake_are_the_same(compared):
    result = compared({"noise": 8 * MiB}, {"noise": 8 * MiB, "duration_s": 24.0, "seed": 1})
    assert result.verdict == "same"
    assert result.smallest_leak_bytes_per_step > 0


@pytest.mark.further
def test_a_shorter_run_is_compared_over_the_range_of_both(compared):
    result = compared({**LEAK, "duration_s": 60.0}, {"duration_s": 20.0})
    assert result.verdict == "better"
    assert result.range_end <= 200


@pytest.mark.further
@pytest.mark.parametrize("short", [{"duration_s": 2.0}, {"duration_s": 6.0, "counts_steps": False}])
def test_a_run_of_a_moment_tells_nothing(compared, short):
    result = compared(LEAK, short)
    assert result.verdict == "cannot-tell"
    assert "too short" in result.reason
    assert "compare" in result.reason


@pytest.mark.further
def test_a_run_too_short_for_a_verdict_shows_what_it_did_in_the_same_steps(compared):
    fixed, broken = compared(LEAK, {"duration_s": 6.0}), compared({"duration_s": 6.0}, LEAK)
    assert (fixed.verdict, broken.verdict) == ("better", "worse")
    assert "too short: 6 s recorded" in " ".join(fixed.doubts)


def test_a_run_without_a_verdict_that_grew_is_told_from_one_that_did_not(compared):
    """It grew by far more than the other in the same steps, which does not hang on what it would have come to."""
    grew = {**LEAK, "duration_s": 6.0}
    less, more = compared(grew, {}), compared({}, grew)
    assert (less.verdict, more.verdict, less.before.grows) == ("better", "worse", None)
    assert less.before.growth_bytes_per_step > less.smallest_leak_bytes_per_step > less.after.growth_bytes_per_step
    assert "too short: 6 s recorded" in " ".join(less.doubts) and "leak" not in less.reason
    assert compared(grew, {**grew, "noise": KiB}).verdict == "cannot-tell"


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ({}, {"leak_per_step": 0.42 * MiB}, "same"),
        ({}, {"leak_per_step": 0.3 * MiB}, "better"),
        ({"counts_steps": False}, {"counts_steps": False, "leak_per_step": 0.42 * MiB}, "same"),
        ({"counts_steps": False}, {"counts_steps": False, "leak_per_step": 0.2 * MiB}, "cannot-tell"),
        ({"counts_steps": False}, {"counts_steps": False, "leak_per_step": 0.05 * MiB}, "better"),
    ],
    ids=["alike", "less", "alike-by-time", "slower-or-less-by-time", "far-less-by-time"],
)
def test_what_would_not_have_been_seen_is_what_decides(compared, before, after, verdict):
    result = compared({**LEAK, **before}, {**LEAK, **after})
    assert result.verdict == verdict
    rates = [(side.growth_bytes_per_hour, side.growth_bytes_per_step) for side in (result.before, result.after)]
    for one, two, least in zip(*rates, (result.smallest_leak_bytes_per_hour, result.smallest_leak_bytes_per_step)):
        assert least is None or (abs(one - two) > least) == (verdict == "better")
    assert "too little" not in result.reason


def test_a_run_that_did_far_less_is_told_first_where_that_is_why(compared):
    """By time alone it may be slower, or leak less; by step what both did is compared."""
    timed = {**LEAK, "counts_steps": False}
    slower = compared({**timed, "cpu_share": 1.0}, {**timed, "leak_per_step": 0.2 * MiB, "cpu_share": 0.4})
    assert slower.verdict == "cannot-tell"
    assert says(slower.reason.partition(";")[0], "before computed for", "after for") and "slower" in slower.reason
    few = compared({**LEAK, "duration_s": 60.0}, {"duration_s": 2.0})
    assert few.verdict == "cannot-tell"
    assert few.reason.startswith("the run before did 590 steps, the run after 10; ")
    short = compared({**LEAK, "duration_s": 60.0}, {"duration_s": 20.0})
    assert short.verdict == "better" and any(says(doubt, "590 steps", "190") for doubt in short.doubts)
    assert not compared(LEAK, {}).doubts


@pytest.mark.further
def test_a_longer_start_up_is_no_leak_that_the_other_did_not_have(compared):
    """Both load for twelve seconds, and the short run ends soon after: by itself it looks as if it leaked."""
    loads = {"loads_s": 12.0, "counts_steps": False}
    short, long = {**loads, "duration_s": 13.0}, {**loads, "duration_s": 60.0}
    for before, after in ((short, long), (long, short)):
        assert compared(before, after).verdict in ("same", "cannot-tell")


@pytest.mark.further
@pytest.mark.parametrize("counts_steps", [True, False])
def test_what_a_run_does_last_is_not_compared_with_the_middle_of_another(compared, counts_steps):
    """It evaluates at its end, in 300 MiB more."""
    runs = [{"at_end": 300 * MiB, "counts_steps": counts_steps, "duration_s": lasted} for lasted in (20.0, 60.0)]
    for before, after in (runs, runs[::-1]):
        result = compared(before, after)
        assert result.verdict in ("same", "cannot-tell"), result.reason
        assert "alike: 200 MiB before, 500" not in result.reason


@pytest.mark.further
def test_a_level_that_is_lower_throughout_is_better_whatever_both_did_last(compared):
    last = {"at_end": 300 * MiB, "counts_steps": False}
    before, after = {"level": 500 * MiB, "duration_s": 120.0}, {"level": 420 * MiB, "duration_s": 140.0}
    assert compared({**last, **before}, {**last, **after}).verdict == "better"
    assert compared({**last, **after}, {**last, **before}).verdict == "worse"


@pytest.mark.further
def test_an_end_that_the_other_did_not_come_to_is_no_change(compared):
    crashed = {"duration_s": 60.0, "signal": 11}
    leaks = compared({**LEAK, "duration_s": 20.0}, {**LEAK, **crashed})
    assert (leaks.verdict, "memory still leaks" in leaks.reason) == ("cannot-tell", True)
    result = compared({"duration_s": 20.0}, crashed)
    assert (result.verdict, "the run before was over after" in result.reason) == ("cannot-tell", True)
    assert compared({"duration_s": 60.0}, crashed).verdict == "worse"


@pytest.mark.further
def test_a_run_that_goes_on_from_a_checkpoint_is_aligned_by_its_own_first_step(compared):
    assert compared(LEAK, {**LEAK, "first_step": 10_000}).verdict == "same"


def test_a_holder_is_known_in_a_renamed_checkout_with_shifted_lines(compared):
    result = compared(LEAK, {**LEAK, "file": "/elsewhere/fixed.py", "line": 60})
    assert [c.change for c in result.findings] == ["still"]
    assert (result.findings[0].file, result.findings[0].line) == ("/elsewhere/fixed.py", 62)


@pytest.mark.parametrize(
    ("before", "after", "alike"),
    [
        ("34 processes of python -c", "1,201 processes of python -c", True),
        ("before.CACHE (dict)", "after.CACHE (dict)", True),
        ("Trainer.history (list)", "Trainer.losses (list)", False),
        ("Trainer.history (list)", "Evaluator.history (list)", False),
    ],
)
def test_what_makes_two_findings_the_same_one(before, after, alike):
    known = [
        fingerprint(Finding("any", "", "warning", 1.0, 1, Subject(process=process, holder=holder, module="__main__")))
        for process, holder in (("before.py", before), ("after.py", after))
    ]
    assert (known[0] == known[1]) is alike


def test_what_several_processes_hold_adds_up_and_what_two_findings_say_of_one_does_not():
    def kept(kind: str, pid: int, size: int) -> Finding:
        return Finding(kind, "", "critical", 1.0, size, Subject(pid=pid, holder="Trainer.history (list)"))

    ranks = [kept("retained-objects", 1, 100), kept("retained-objects", 2, 90), kept("eval-accumulation", 1, 80)]
    change = finding_changes(Told(replace(FULL, findings=ranks)), Told(replace(FULL, findings=[])))
    assert [(c.change, c.kind, c.before_bytes) for c in change] == [("gone", "retained-objects", 190)]


def test_a_kill_that_names_a_holder_has_the_bytes_of_the_holder():
    """Those of the kill are all that the process had."""
    docs = Subject(pid=1, holder="Index.docs (dict)")
    kill = Finding("oom-kill", "", "critical", 1.0, 220, docs, means=analyzers.kinds()["oom-kill"])
    grew = Finding("retained-objects", "", "critical", 1.0, 163, docs, bytes_per_hour=9.0)
    (change,) = finding_changes(*[Told(replace(FULL, findings=[kill, grew]))] * 2)
    assert (change.change, change.before_bytes, change.after_bytes) == ("still", 163, 163)


def held_in(path: str, sizes: list[int], leaking: bool | None, findings: Sequence[Finding] = (), step_s: float = 10.0):
    """A run of which each snapshot saw so much at that path."""
    takes = [HeapTake(n, step_s * n, None, "", False) for n in range(len(sizes))]
    holder = HeapHolder(path, None, "dict", sizes, sizes, None)
    view = HeapView("train.py", takes, [holder], exact=True)
    verdict = replace(FULL.verdict, leaking=leaking)
    return Told(replace(FULL, findings=findings, skipped=[], heap=[view], verdict=verdict))


@pytest.mark.parametrize(
    ("path", "sizes", "leaking", "change"),
    [
        ("main() cache.entries", [0, 30 * MiB, 60 * MiB], None, "only before"),
        ("main() cache.entries", [0, 0, 2 * MiB], None, "gone"),
        ("main() other.rows", [0, 30 * MiB, 60 * MiB], True, "gone"),
        ("main() cache.entries", [0], None, "only before"),
        ("main() store.entries", [0, 30 * MiB, 60 * MiB], True, "only before"),
        ("main() cache.entries", [0, 30 * MiB, 60 * MiB], False, "gone"),
    ],
    ids=["as-large", "hardly-any", "missing", "too-early", "a-renamed-local", "no-longer-grows"],
)
def test_a_holder_that_grew_is_gone_only_where_a_snapshot_looked_or_nothing_grows(path, sizes, leaking, change):
    about = Subject(holder="Cache.entries (dict)", path="main() cache.entries", variable="entries", type="dict")
    grew = Finding("retained-objects", "", "critical", 1.0, 60 * MiB, about, bytes_per_hour=1e10)
    before = held_in("main() cache.entries", [0, 30 * MiB, 60 * MiB], True, [grew])
    after = held_in(path, sizes, leaking)
    assert [one.change for one in finding_changes(before, after)] == [change]
    turned = {"gone": "new", "only before": "only after"}[change]
    assert [one.change for one in finding_changes(after, before)] == [turned]


def test_what_grows_where_nobody_can_look_is_gone_only_if_nothing_grows_that_would_show():
    grew = Finding("native-growth", "", "critical", 1.0, 60 * MiB, Subject(library="geo"), bytes_per_hour=1e9)
    before = held_in("main() x", [0, 0], True, [grew])
    for leaking, least, change in ((True, 0.0, "only before"), (False, 0.0, "gone"), (False, 2e9, "only before")):
        own = replace(before, shows_bytes_per_hour=least)
        assert [one.change for one in finding_changes(own, held_in("main() x", [0, 0], leaking))] == [change]


def test_what_no_object_holds_is_told_by_its_type():
    leaked = Finding("refcount-drift", "", "critical", 1.0, 60 * MiB, Subject(holder=NOBODY, type="numpy.ndarray"))
    (change,) = finding_changes(*[Told(replace(FULL, findings=[leaked]))] * 2)
    assert change.what == "numpy.ndarray objects that no Python object holds"


def test_a_cache_that_fills_is_no_fault_that_is_gone():
    about = Subject(holder="Cache.entries (dict)", path="main() cache.entries", variable="entries", type="dict")
    fills = Finding("filling", "", "note", 1.0, 60 * MiB, about, means=analyzers.kinds()["filling"])
    before = held_in("main() cache.entries", [0, 60 * MiB], False, [fills])
    assert not finding_changes(before, held_in("main() cache.entries", [0, 2 * MiB], False))


@pytest.mark.parametrize(("size", "changes"), [(20 * MiB, []), (2 * MiB, ["gone"])])
def test_what_was_only_held_is_gone_where_it_was_let_go_of_and_not_where_it_is_smaller(size, changes):
    about = Subject(holder="Cache.entries (dict)", path="main() cache.entries", variable="entries", type="dict")
    kept = Finding("held-memory", "", "note", 1.0, 60 * MiB, about, means=analyzers.kinds()["held-memory"])
    before = held_in("main() cache.entries", [0, 60 * MiB, 60 * MiB], False, [kept])
    after = held_in("main() cache.entries", [0, size, size], False)
    assert [one.change for one in finding_changes(before, after)] == changes


def of_freed(folder, kept_bytes, until):
    """In use are 12 KiB more with each step, in memory of which malloc keeps ``kept_bytes`` free by that step."""
    folder.mkdir()
    builder = RecordingBuilder(folder).process(PID, cmdline="python3 train.py").source(PID, "/home/me/train.py", TRAIN)
    at_s = [s / 2 for s in range(120)]
    free = [round(4 * MiB + kept_bytes * min(1.0, 20 * s / until) - 12 * KiB * max(0.0, 20 * s - until)) for s in at_s]
    used = [round(120 * MiB + 12 * KiB * 20 * s) for s in at_s]
    builder.samples(PID, [a + b for a, b in zip(used, free)], every_s=0.5)
    steps = [round(20 * s) for s in at_s]
    builder.sentinels(PID, every_s=0.5, malloc_in_use_bytes=used, malloc_free_bytes=free, step=steps)
    return builder.ends(at_s=60.0).open()


def test_two_runs_of_one_leak_are_the_same_whatever_malloc_keeps_free(tmp_path):
    first, second = of_freed(tmp_path / "a", 20 * MiB, 250), of_freed(tmp_path / "b", 80 * MiB, 600)
    result = compare(first, second)
    assert result.verdict != "worse"
    assert result.before.growth_bytes_per_step == pytest.approx(12 * KiB, rel=0.1)
    assert result.after.growth_bytes_per_step == pytest.approx(12 * KiB, rel=0.1)


def test_a_leak_that_would_not_show_in_the_run_after_is_not_called_gone():
    """Something beside it grew before, so that the whole job did by more than what would show."""
    grew = Finding("retained-objects", "", "critical", 1.0, 10 * MiB, Subject(), bytes_per_hour=10 * KiB * 3600)
    before = replace(FULL, findings=[grew])
    one = Pace(True, "", 25 * KiB, 24 * KiB, 26 * KiB, 12 * KiB, 1000.0, seconds_per_step=1.0, usual_slope=25 * KiB)
    pair = PacePair("step", 0.0, 1000.0, one, Pace(False, "", KiB, KiB, KiB, 12 * KiB, 1000.0, seconds_per_step=1.0))
    gone = FindingChange("gone", "retained-objects", "Log.rows (dict)", "critical", False, 10 * MiB, None, None, None)
    unseen = decide(pair, [replace(gone, change="only before")], before, FULL)
    assert unseen.verdict == "cannot-tell"
    assert says(unseen.reason, "10.0 KiB per step", "25.0 KiB per step before", "1,800 steps of both")
    assert decide(pair, [gone], before, FULL).verdict == "better"  # a snapshot looked for it


def test_what_no_snapshot_looked_into_is_not_measured_and_no_zero(compared):
    code, data = BillRow("code", "code", 10 * MiB, "train.py"), BillRow("data", "your variables", 20 * MiB, "train.py")
    level = Bill(LEVEL, 1.0, 30 * MiB, 1.0, [code, data])
    blind = replace(level, rows=[code, replace(data, account="not-measured")], snapshot_s=None)
    changes = bill_changes([level], [blind])
    found = {change.account: (change.before_bytes, change.after_bytes) for change in changes}
    assert found == {"code": (10 * MiB, 10 * MiB), "data": (20 * MiB, None), "not-measured": (0, 20 * MiB)}
    told = {name: (before, after) for name, before, after in rows(replace(compared(LEAK, LEAK), bill=changes))}
    assert told["· what your variables hold"] == ("20.0 MiB", "not measured")


def test_bills_of_runs_that_grow_are_of_moments_at_which_both_had_come_as_far(compared):
    """The last snapshot of the longer run, at 59 s, has twice as much of a leak as the other can have."""
    result = compared(LEAK, {**LEAK, "duration_s": 60.0})
    level = [one for one in result.bill if one.moment == LEVEL]
    assert {(one.before_s, one.after_s) for one in level} == {(29.0, 30.0)}
    told = [(name, before, after) for name, before, after in rows(result)]
    assert ("memory at its peak", "at 29.8 s", "at 59.8 s") in told, "of the peaks each is told"


def test_recordings_without_samples_tell_nothing(tmp_path):
    empty, another = (RecordingBuilder(tmp_path, f"{n}.parquet").process(1).ends(1.0).open() for n in (1, 2))
    result = compare(empty, another)
    assert result.verdict == "cannot-tell"
    for name in FORMATS:
        assert render(result, name)


@pytest.mark.further
def test_a_lower_peak_without_a_leak_is_better(compared):
    result = compared({"level": 900 * MiB}, {"level": 400 * MiB})
    assert result.verdict == "better"
    assert "peak" in result.reason


@pytest.mark.further
@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ({"signal": 11}, {}, "better"),
        ({}, {"signal": 11}, "worse"),
        ({"signal": 11, "duration_s": 40.0}, {}, "cannot-tell"),  # who knows whether it would have crashed
        ({"signal": 11}, {"signal": 11, "noise": KiB}, "same"),
    ],
)
def test_how_runs_ended_decides_where_memory_does_not(compared, before, after, verdict):
    result = compared(before, after)
    assert result.verdict == verdict
    assert "crash" in result.reason or verdict == "same"
    assert any("both runs" in doubt for doubt in result.doubts) == (verdict == "same")


def test_workers_are_told_side_by_side(compared):
    result = compared({"workers": 4}, {"workers": 1})
    row = next(w for w in result.workers if w.role == "dataloader-worker")
    assert (row.before_count, row.after_count) == (4, 1)
    assert row.before_bytes_each == 50 * MiB


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    ("before", "after", "status", "name"),
    [(LEAK, {}, 0, "json"), ({}, LEAK, 1, "markdown"), (LEAK, {"duration_s": 2.0}, 4, "terminal")],
)
def test_the_exit_status_says_it(tmp_path, capsys, before, after, status, name):
    one, two = run(tmp_path / "a", **before).write(), run(tmp_path / "b", **after).write()
    assert main(["compare", str(one), str(two), "-f", name]) == status
    out = capsys.readouterr().out
    assert json.loads(out)["schema"] == "leakscope.compare/1" if name == "json" else "peak" in out


def test_what_is_shown_names_rates_holder_and_the_smallest_leak(compared):
    text = render(compared(LEAK, {}), "terminal")
    assert text.startswith("Better: memory no longer leaks: 508 KiB per step before, at most ")
    assert "gone  Trainer.history (list)" in text
    assert "/home/me/train.py:12" in text
    assert "would not have been seen" in text


def test_markdown_escapes_names(compared):
    text = render(compared({**LEAK, "file": "/home/me/<b>_x_.py"}, {}), "markdown")
    assert "<b>" not in text.replace("\\<b", "")
    assert "| peak |" in text


def test_an_unreadable_recording_is_one_line_and_status_3(tmp_path, capsys):
    good = run(tmp_path / "a").write()
    assert main(["compare", str(good), str(tmp_path / "none.parquet")]) == 3
    assert len(capsys.readouterr().err.splitlines()) == 1


OTHER = "class Model:\n    def forward(self, x):\n        return self.layers(x)\n\nmodel = Model()\nserve(model)\n"


def ran(folder, command, source=TRAIN, exit_code=0, signal=None, **about):
    """A run of a command, with the text of its program where that is known."""
    builder = run(folder, file=command[1], command=command, source=source, exit_code=exit_code, signal=signal, **about)
    return open_recording(builder.write())


@pytest.mark.parametrize(
    ("command", "source"),
    [(["python", "etl.py"], OTHER), (["python", "etl.py"], None), (["python", "train.py"], OTHER)],
    ids=["another-file", "nothing-known-of-it", "a-namesake"],
)
def test_another_program_is_no_mended_one(tmp_path, command, source):
    before = ran(tmp_path / "a", ["python", "train.py"], **LEAK)
    after = ran(tmp_path / "b", command, source)
    result = compare(before, after)
    assert (result.verdict, EXIT_STATUS[result.verdict]) == ("cannot-tell", 4)
    assert command[1] in result.reason and "another program" in result.reason
    assert {one.change for one in result.findings} <= {"only before", "only after"}, "nothing of it is gone or new"


@pytest.mark.parametrize(
    ("command", "said"),
    [
        (["/usr/bin/python3.12", "train.py"], None),
        (["python", "train.py", "--lr", "1"], "--lr 1"),
        (["python", "fixed.py"], "fixed.py"),
    ],
    ids=["another-python", "other-options", "a-copy"],
)  # fmt: skip
def test_the_same_program_is_compared_and_other_options_are_said(tmp_path, command, said):
    before = ran(tmp_path / "a", ["python", "train.py"], **LEAK)
    result = compare(before, ran(tmp_path / "b", command, TRAIN.replace("append", "discard")))
    assert result.verdict == "better"
    doubts = [doubt for doubt in result.doubts if "command differs" in doubt]
    assert [said in doubt for doubt in doubts] == ([] if said is None else [True])


@pytest.mark.parametrize(("ended", "said"), [({"exit_code": 1}, "exit status 1"), ({"signal": 9}, "SIGKILL")])
def test_a_run_that_failed_is_not_better(tmp_path, ended, said):
    before = ran(tmp_path / "a", ["python", "train.py"], **LEAK)
    result = compare(before, ran(tmp_path / "b", ["python", "train.py"], **ended))
    assert result.verdict == "cannot-tell"
    assert said in result.reason and "no longer leaks" in result.reason
    stopped = ran(tmp_path / "c", ["python", "train.py"], signal=15)
    assert compare(before, stopped).verdict == "better"  # as a service is ended


def test_both_tables_say_what_ran_how_it_ended_and_one_bound(tmp_path):
    before = ran(tmp_path / "a", ["python", "train.py"], **LEAK)
    after = ran(tmp_path / "b", ["python", "train.py", "--fast"])
    result = compare(before, after)
    table = {name: (one, two) for name, one, two in rows(result)}
    assert table["command"] == ("python train.py", "python train.py --fast")
    assert table["ended"] == ("exit status 0", "exit status 0")
    bound = table["growth per step"][1]
    assert bound.startswith("at most ") and f"{bound} per step after" in result.reason


@pytest.mark.parametrize("columns", [LEAK, {}, {"duration_s": 3.0}])
def test_a_recording_beside_itself_is_the_same(tmp_path, columns):
    """Also a copy under another name, and one that is too short to be judged."""
    path = run(tmp_path / "a", **columns).write()
    copy = path.with_name("copy.parquet")
    copy.write_bytes(path.read_bytes())
    result = compare(open_recording(path), open_recording(copy))
    assert result.verdict == "same" and "one recording" in result.reason


@pytest.mark.parametrize("columns", [LEAK, {**LEAK, "counts_steps": False}])
def test_report_check_and_comparison_tell_one_rate(tmp_path, columns):
    leaky, clean = (Case(run(tmp_path / name, **each).open()) for name, each in (("a", columns), ("b", {})))
    verdicts = [report_of(case).verdict for case in (leaky, clean)]
    result = compare_cases(leaky, clean)
    for side, verdict in zip((result.before, result.after), verdicts):
        assert side.growth_bytes_per_hour_high == pytest.approx(verdict.growth_bytes_per_hour_high, rel=1e-3)
    assert result.before.growth_bytes_per_hour == pytest.approx(verdicts[0].growth_bytes_per_hour, rel=1e-3)
    per_minute = format_rate(verdicts[0].growth_bytes_per_hour, 30.0)
    most = format_rate(verdicts[1].growth_bytes_per_hour_high, 30.0)
    rules = Rules(max_growth=parse_growth("1B/minute"))
    assert per_minute in verdicts[0].headline and per_minute in check_case(leaky, rules).outcomes[0].text
    assert most in check_case(clean, rules).outcomes[0].text
    if result.aligned_by == "second":
        assert f"{per_minute} before, at most {most} after" in result.reason


def test_a_table_fits_80_columns_a_row_a_line(tmp_path, monkeypatch):
    """Long paths are told by their ends, and what is still too wide goes on in the next line."""
    monkeypatch.setenv("COLUMNS", "80")
    one, two = (
        run(tmp_path / f"{name}-with-a-long-name", **columns).open() for name, columns in (("a", LEAK), ("b", {}))
    )
    lines = render(compare(one, two), "terminal").splitlines()
    assert max(map(len, lines)) <= 80 and len(lines) < 40
    table = "\n".join(lines)
    assert "a-with-a-long-name" in table and str(tmp_path) not in table
    assert re.search(r"^  peak +\d+ MiB +\d+ MiB$", table, re.MULTILINE)
