"""Reference counts: None that runs out is foretold in steps and seconds, objects without a holder are named."""

from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest

from leakscope.agent.life import sentinels as agent_sentinels
from tests.builders import RecordingBuilder

from .asking import asked
from .leaks import LEAK_BYTES_PER_S, PID, MiB, trainer

SECONDS = 40
STEPS_PER_S = 20
START = 110_000


TAKES_S = (2, 5, 10, 20, 30)


def counted(folder, counts, *, blocks=None, steps=True, leak=0, ends=None, rest=None):
    """A trainer of 40 seconds whose sentinels saw these references to None, one a second.

    ``rest``: how many of these no object accounts for, by second; None: all that came and went.
    """
    builder = RecordingBuilder(folder).process(PID, cmdline="python train.py")
    builder.samples(PID, [round(100 * MiB + leak * 0.5 * i) for i in range(2 * SECONDS)], every_s=0.5)
    columns = {
        "refcount_none": list(counts),
        "allocated_blocks": [1_000_000] * len(counts) if blocks is None else blocks,
        "step": [STEPS_PER_S * s if s else None for s in range(len(counts))] if steps else [None] * len(counts),
    }
    builder.sentinels(PID, **columns)
    for number, at_s in enumerate(TAKES_S, 1):
        if at_s < len(counts) and counts[0] is not None:
            step = STEPS_PER_S * at_s if steps else None
            builder.take(PID, number, at_s, step=step, allocated_blocks=columns["allocated_blocks"][at_s])
            known = counts[0] - 1000 if rest is None else counts[at_s] - rest(at_s)
            nones = {"none_reference_count": counts[at_s], "none_known_count": known}
            builder.row("heap_graphs", at_s, PID, take=number, **({} if rest is NOT_TOLD else nones))
    return builder.ends(**(ends or {}))


def NOT_TOLD(_):
    """Of a recording without a graph of the heap, or by an older leakscope."""
    return 0


def released(_):
    """All that goes was objects'."""
    return 1000


def falling(per_s, seconds=SECONDS):
    random = np.random.default_rng(1)
    return [int(START - per_s * s + random.integers(-15, 15)) for s in range(seconds)]


def looked(recording):
    report = asked(recording, only=["refcount-drift"])
    return report.findings, report.ruled_out, report.skipped


@pytest.mark.parametrize("per_step", [1, 5, 100])
def test_a_fall_is_foretold_in_steps_and_seconds(tmp_path, per_step):
    (finding,), _, _ = looked(counted(tmp_path, falling(per_step * STEPS_PER_S)).open())
    assert finding.severity == "critical"
    assert finding.bytes == 0
    figures = finding.evidence[0].figures
    assert figures["lost_per_step"] == pytest.approx(per_step, rel=0.05)
    left = START - per_step * STEPS_PER_S * (SECONDS - 1)
    assert figures["seconds_to_abort"] == pytest.approx(left / (per_step * STEPS_PER_S), rel=0.1)
    assert "steps" in finding.title
    assert any("3.12" in advice for advice in finding.remedy)


def test_without_steps_it_is_foretold_in_seconds(tmp_path):
    (finding,), _, _ = looked(counted(tmp_path, falling(500), steps=False).open())
    assert finding.evidence[0].figures["lost_per_step"] is None
    assert finding.evidence[0].figures["lost_per_s"] == pytest.approx(500, rel=0.01)


def test_a_program_that_died_of_it_says_so(tmp_path):
    counts = falling(START / (SECONDS - 0.5))
    (finding,), _, _ = looked(counted(tmp_path, counts, ends={"signal": 6}).open())
    assert finding.title.endswith("Python aborted")
    assert any("SIGABRT" in evidence.text for evidence in finding.evidence)


def test_the_line_where_the_last_reference_went_is_named(tmp_path):
    builder = counted(tmp_path, falling(START / (SECONDS - 0.5)), ends={"signal": 6})
    calls = 'Current thread 0x1 (most recent call first):\n  File "/home/me/train.py", line 66 in main\n'
    builder.row("crash_text", 39.0, PID, crash_source="faulthandler", last_words=calls)
    words = "Fatal Python error: none_dealloc: deallocating None\n"
    builder.row("crash_text", 39.0, PID, crash_source="stderr", last_words=words)
    report = asked(builder.open(), only=["refcount-drift", "crash"])
    (finding,) = [f for f in report.findings if f.kind == "refcount-drift"]
    assert finding.title.endswith("Python aborted")
    assert (finding.subject.file, finding.subject.line) == ("/home/me/train.py", 66)
    assert any("train.py:66" in evidence.text for evidence in finding.evidence)


def test_an_abort_with_most_references_left_has_another_reason(tmp_path):
    (finding,), _, _ = looked(counted(tmp_path, falling(20), ends={"signal": 6}).open())
    assert "Python aborted" not in finding.title


def test_a_quick_death_is_recognised(tmp_path):
    builder = RecordingBuilder(tmp_path).process(PID).samples(PID, [100 * MiB] * 7)
    builder.sentinels(PID, refcount_none=[4000, 50_000, 40_000, 28_000, 15_000, 3000], allocated_blocks=[10**6] * 6)
    (finding,), _, _ = looked(builder.take(PID, 1, 2.0).ends(at_s=6.0, signal=6).open())
    assert "Python aborted" in finding.title


INNOCENT = {
    "constant": [START] * SECONDS,
    "jitter": [START + (s * 37) % 40 for s in range(SECONDS)],
    "rising-data": [START + 5000 * s for s in range(SECONDS)],
    "one-release": [START - 60_000 * (s > 20) for s in range(SECONDS)],
    "buffer-per-epoch": [START + 3000 * (8 - s % 8) for s in range(SECONDS)],
    "start-up": [START - 500 * min(s, 4) for s in range(SECONDS)],
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("counts", INNOCENT.values(), ids=INNOCENT.keys())
@pytest.mark.parametrize("rest", [NOT_TOLD, released])
def test_counts_that_do_not_run_out_are_ruled_out_with_figures(tmp_path, counts, rest):
    findings, (ruled_out,), _ = looked(counted(tmp_path, counts, rest=rest).open())
    assert not findings
    assert ruled_out.figures["last_count"] == counts[-1]


@pytest.mark.parametrize("per_s", [20, 85, 1500])
def test_data_with_none_in_it_that_is_worked_off_is_innocent(tmp_path, per_s):
    """However much else is made meanwhile: the graphs know what objects had."""
    findings, (ruled_out,), _ = looked(counted(tmp_path, falling(per_s), rest=released).open())
    assert not findings
    assert ruled_out.figures["first_rest"] == ruled_out.figures["last_rest"] == 1000


def test_what_new_data_hides_is_seen(tmp_path):
    """As references are lost, more come with what is kept: the count rises, until that is freed."""
    counts = [START + 3000 * s for s in range(SECONDS)]
    (finding,), _, _ = looked(counted(tmp_path, counts, steps=False, rest=lambda s: 1000 - 200 * s).open())
    figures = finding.evidence[0].figures
    assert (figures["lost_per_s"], figures["seconds_to_abort"]) == (200, None)
    assert "once the data that holds None is freed" in finding.title
    assert finding.evidence[1].figures["last_rest"] == -5000


def watched(builder, losing):
    row = {"call_count": 40, "file": "/job/train.py"}
    for line, (function, count) in enumerate(losing.items(), 7):
        builder.row("lost_references", 12.0, PID, function=function, line=line, losing_count=count, **row)
    return builder


def test_the_function_that_was_seen_to_lose_them_is_named(tmp_path):
    """One of Python's own lets go of what it is given, and one that does so seldom is none."""
    builder = counted(tmp_path, falling(100))
    losing = {"list.clear": 40, "fast.parse": 39, "fast.close": 5}
    (finding,), _, _ = looked(watched(builder, losing).open())
    assert finding.title.startswith("fast.parse()") and finding.subject.library == "fast"
    assert (finding.subject.file, finding.subject.line) == ("/job/train.py", 8)
    assert "train.py:8" in finding.remedy[0] and "--probe" not in " ".join(finding.remedy)


def test_where_nobody_was_seen_the_report_says_how_to_look(tmp_path):
    (finding,), _, _ = looked(watched(counted(tmp_path, falling(100)), {"list.clear": 40}).open())
    assert finding.subject.line is None and "--probe" in " ".join(finding.remedy)


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    "rest",
    [
        lambda s: 1000 + (s * 37) % 40,
        lambda s: 4000 - 600 * (s > 15),
        lambda s: 4000 - 600 * (s > 25),
        lambda s: 1000 + 2000 * (s > 3),
        lambda s: 4000 - 2 * s,
        lambda s: 3000 + 900 * (s % 20 == 0) - s,
    ],
    ids=["jitter", "one-release", "a-late-one", "imports", "few", "to-and-fro"],
)
def test_what_c_code_has_may_move(tmp_path, rest):
    findings, (ruled_out,), _ = looked(counted(tmp_path, falling(500), rest=rest).open())
    assert not findings
    assert ruled_out.figures["last_rest"] == rest(TAKES_S[-1])


def test_a_loss_is_seen_behind_imports(tmp_path):
    rest = [0, 0, 300, 2000, *[2000 - 12 * s for s in range(4, 40)]]
    found, _, _ = looked(counted(tmp_path, falling(30), rest=rest.__getitem__).open())
    assert len(found) == 1


def test_without_the_graph_nobody_can_tell(tmp_path):
    findings, ruled_out, (skipped,) = looked(counted(tmp_path, falling(300), rest=NOT_TOLD).open())
    assert not findings and not ruled_out
    assert "300 a second" in skipped.reason


def test_an_immortal_none_is_ruled_out(tmp_path):
    findings, (ruled_out,), _ = looked(counted(tmp_path, [None] * SECONDS).open())
    assert not findings
    assert "immortal" in ruled_out.reason


def test_a_short_run_is_not_judged(tmp_path):
    findings, ruled_out, (skipped,) = looked(counted(tmp_path, falling(100, seconds=5)).open())
    assert not findings and not ruled_out
    assert "too short" in skipped.reason


@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal")
def test_references_that_are_really_dropped_show_in_the_sentinels():
    drop = ctypes.pythonapi.Py_DecRef
    drop.argtypes, drop.restype = [ctypes.py_object], ctypes.c_void_p
    first = agent_sentinels.row()["refcount_none"]
    for _ in range(1000):
        drop(None)
    last = agent_sentinels.row()["refcount_none"]
    ctypes.pythonapi.Py_IncRef.argtypes = [ctypes.py_object]
    for _ in range(1000):
        ctypes.pythonapi.Py_IncRef(None)
    assert last - first == pytest.approx(-1000, abs=20)


# ---- references to other objects that nobody has


def with_extra(builder, extra, blocks=lambda s: 10_000, **row):
    for number, at_s in enumerate((2, 5, 10, 15, 19), 1):
        builder.take(PID, number, at_s, allocated_blocks=blocks(at_s))
        builder.row("heap_graphs", at_s, PID, take=number)
        told = {"type_name": "shop.Session", "extra_reference_count": extra(at_s), **row}
        if told["extra_reference_count"] is not None:
            builder.row("heap_strays", at_s, PID, take=number, **told)
    return builder.sentinels(PID, refcount_none=[5000] * 20)


@pytest.mark.parametrize("extra", [lambda s: 500 * s, lambda s: 500 * s if s > 2 else None], ids=["all", "later"])
def test_references_that_c_code_keeps_are_told_by_type(tmp_path, extra):
    (finding,), _, _ = looked(with_extra(trainer(tmp_path, leak=0), extra).open())
    assert (finding.subject.type, finding.severity, finding.bytes) == ("shop.Session", "note", 0)
    figures = finding.evidence[0].figures
    assert (figures["kept_per_s"], figures["last_count"]) == (500, 9500)


def test_references_to_strings_are_told_where_keys_of_dicts_are_known(tmp_path):
    (finding,), _, _ = looked(with_extra(trainer(tmp_path, leak=0), lambda s: 500 * s, type_name="str").open())
    assert finding.subject.type == "str"


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("extra", "more"),
    [
        (lambda s: 500 * s, {"blocks": lambda s: 400 * s}),
        (lambda s: 9500 * (s > 7), {}),
        (lambda s: 9500 * (s > 16), {}),
        (lambda s: 9500 if s > 12 else None, {}),
        (lambda s: 5000 * (s % 2), {}),
        (lambda s: 50 * s, {}),
        (lambda s: 500 * s, {"type_name": "torch.Tensor"}),
        (lambda s: 500 * s, {"type_name": "NoneType"}),
        (lambda s: 500 * s, {"type_name": "type"}),
    ],
    ids=["who-has-them-is-made", "at-once", "late", "told-late", "to-and-fro", "few", "torch", "none", "of-instances"],
)
def test_references_that_somebody_may_have_are_not_blamed(tmp_path, extra, more):
    findings, _, _ = looked(with_extra(trainer(tmp_path, leak=0), extra, **more).open())
    assert not findings


# ---- objects that nobody refers to


def alone(builder, how="outside", own_per_s=LEAK_BYTES_PER_S // 3):
    """Lists that only C code refers to; ``how`` they are counted, otherwise."""
    for number, at_s in enumerate((3, 8, 14), 1):
        builder.take(PID, number, at_s)
        builder.row("heap_graphs", at_s, PID, take=number, node_count=10**5, retained_bytes=0, arena_bytes=50 * MiB)
        counts = {f"{how}_count": 1000 * at_s, f"{how}_bytes": own_per_s * at_s}
        builder.row("heap_strays", at_s, PID, take=number, type_name="list", **counts)
    return builder.sentinels(PID, refcount_none=[5000] * 20, allocated_blocks=[10_000 * s for s in range(20)])


def test_objects_that_nobody_refers_to_explain_growth_without_a_holder(tmp_path):
    (finding,), _, _ = looked(alone(trainer(tmp_path)).open())
    assert finding.subject.type == "list"
    assert finding.bytes > 100 * MiB
    assert finding.severity == "critical"


@pytest.mark.parametrize(
    "change",
    [{"how": "unreached"}, {"own_per_s": LEAK_BYTES_PER_S // 100}],
    ids=["garbage", "few"],
)
def test_other_objects_without_a_name_are_not_blamed(tmp_path, change):
    findings, _, _ = looked(alone(trainer(tmp_path), **change).open())
    assert not findings


def test_a_flat_job_has_no_leaked_references(tmp_path):
    findings, _, _ = looked(alone(trainer(tmp_path, leak=0)).open())
    assert not findings


def test_a_table_in_c_may_be_their_holder(tmp_path):
    builder = alone(trainer(tmp_path))
    row = {"path": "main() db", "type_name": "sqlite3.Connection", "opaque": True, "is_user": True, "deep_bytes": 100}
    row |= {"edge_kind": "local", "variable": "db", "owner": "main"}
    (finding,), _, _ = looked(builder.holds(PID, 1, 3.0, [row]).open())
    assert any("sqlite3.Connection" in doubt for doubt in finding.doubts) and finding.confidence < 0.7
