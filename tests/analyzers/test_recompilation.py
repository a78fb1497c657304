"""Recompilation: found while it goes on, with function and reason; told from warm-up, late phases and shape sets."""

from __future__ import annotations

import dataclasses

import pytest

from leakscope.agent import libraries
from leakscope.analyzers import kinds
from leakscope.facts.case import Case
from leakscope.findings import Finding, Subject
from leakscope.reporting.merging import folded

from .asking import asked
from .leaks import LEAK_BYTES_PER_S, PID, RUN_S, MiB, sentinels, trainer

EVERY_S = 1.0
SIZES = "0/7: tensor 'tokens' size mismatch at index 1. expected 64, actual 91"


def compiled(folder, again, *, reason=SIZES, graphs=None, leak=LEAK_BYTES_PER_S, every_s=EVERY_S, **columns):
    """A trainer of 20 seconds that compiled functions again so many times, at each look."""
    builder = trainer(folder, leak=leak).take(PID, 1, 2.0)
    for i, count in enumerate(again):
        row = {"unique_graph_count": (count or 0) + 3, "compiled_frame_count": 500, "recompile_count": count}
        place = {"function": "forward", "owner_file": "/home/me/train.py", "owner_line": 14}
        if graphs is not None:
            row["unique_graph_count"] = graphs[i]
        builder.row("compile_counters", i * every_s, PID, **{**row, **place, "recompile_reason": reason, **columns})
    return builder.ends()


def looked(recording):
    report = asked(recording, only=["recompilation"])
    return report.findings, report.ruled_out, report.skipped


RISING = [2 * i for i in range(20)]


def test_compiling_on_and_on_is_found_with_function_and_reason(tmp_path):
    (finding,), _, _ = looked(compiled(tmp_path, RISING).open())
    assert (finding.subject.file, finding.subject.line, finding.subject.function) == (
        "/home/me/train.py",
        14,
        "forward",
    )
    assert any("size mismatch" in evidence.text for evidence in finding.evidence)
    assert "dynamic=True" in finding.remedy[0]
    assert finding.severity == "critical"
    assert finding.bytes > 100 * MiB
    assert finding.doubts


def test_it_is_reported_before_it_costs_memory(tmp_path):
    (finding,), _, _ = looked(compiled(tmp_path, RISING, leak=0).open())
    assert (finding.bytes, finding.severity) == (0, "warning")


def test_growth_that_others_hold_is_not_its(tmp_path):
    from leakscope.analyzers import recompilation

    recording = compiled(tmp_path, RISING).open()
    other = Finding("retained-objects", "history grows", "critical", 0.9, 10**9, Subject(pid=PID))
    (finding,) = recompilation.findings(Case(recording), so_far=[other])
    assert (finding.bytes, finding.severity) == (0, "warning")


@pytest.mark.parametrize(
    "reason, word",
    [
        ("0/3: L['self'].step == 3", "tensor"),
        ("0/1: GLOBAL_STATE changed: grad_mode", "evaluation"),
        (None, "TORCH_LOGS"),
    ],
)
def test_the_remedy_follows_the_reason(tmp_path, reason, word):
    (finding,), _, _ = looked(compiled(tmp_path, RISING, reason=reason).open())
    assert word in finding.remedy[0]


def test_torch_2_0_counts_graphs_only(tmp_path):
    nothing = {"function": None, "owner_file": None, "owner_line": None, "recompile_reason": None}
    recording = compiled(tmp_path, [None] * 20, graphs=[5 + 3 * i for i in range(20)], **nothing).open()
    (finding,), _, _ = looked(recording)
    assert "functions" in finding.title


def test_a_reset_of_dynamo_hides_nothing(tmp_path):
    (finding,), _, _ = looked(compiled(tmp_path, [(2 * i) % 7 for i in range(20)]).open())
    assert finding


@pytest.mark.parametrize("steps", [1, 3])
def test_few_compilations_are_many_where_each_slow_step_is_one(tmp_path, steps):
    """Seven after the warm-up: as many as training steps, or a third of them, which settle."""
    again = [i // 2 for i in range(20)]
    builder = compiled(tmp_path, again, leak=0)
    sentinels(builder, in_use=0, step=[steps * count for count in again])
    findings, ruled_out, _ = looked(builder.open())
    assert (len(findings), len(ruled_out)) == ((1, 0) if steps == 1 else (0, 1))


def test_code_and_caches_within_torch_grow_since_it_compiles(tmp_path):
    from leakscope.analyzers import recompilation

    recording = compiled(tmp_path, RISING).open()
    grows = {"severity": "critical", "confidence": 0.9, "bytes": 60 * MiB, "means": kinds()["retained-objects"]}
    code = Finding("retained-objects", "globals grow", subject=Subject(pid=PID, type="dict of code"), **grows)
    cache = Subject(pid=PID, path="torch._subclasses.cache", module="torch._subclasses", type="dict of Key")
    history = Finding("retained-objects", "history grows", subject=Subject(pid=PID, type="list of float"), **grows)
    others = [code, Finding("retained-objects", "a cache grows", subject=cache, **grows), history]
    (why,) = recompilation.findings(Case(recording), so_far=others)
    why = dataclasses.replace(why, means=kinds()["recompilation"])
    (alone,) = recompilation.findings(Case(recording), so_far=[history])
    assert why.bytes == alone.bytes
    assert [finding.kind for finding in folded([*others, why])] == ["recompilation", "retained-objects"]


INNOCENT = {
    "warm-up": [min(30, 10 * i) for i in range(20)],
    "never": [0] * 20,
    "first-evaluation": [4 if i < 10 else 24 for i in range(20)],
    "first-evaluation-late": [4 if i < 17 else 24 for i in range(20)],
    "a-set-of-shapes": [round(60 * (1 - 0.7**i)) for i in range(20)],
    "now-and-then": [i // 5 for i in range(20)],
}


@pytest.mark.cases(2)
@pytest.mark.parametrize("again", INNOCENT.values(), ids=INNOCENT.keys())
def test_a_job_that_settled_is_ruled_out_with_its_graphs(tmp_path, again):
    findings, (ruled_out,), _ = looked(compiled(tmp_path, again).open())
    assert not findings
    assert ruled_out.figures["unique_graph_count"] == again[-1] + 3


@pytest.mark.parametrize("again, every_s", [([2, 40], 15.0), (RISING[:6], 1.0)], ids=["two-looks", "early-looks-only"])
def test_too_few_looks_are_no_answer(tmp_path, again, every_s):
    findings, ruled_out, (skipped,) = looked(compiled(tmp_path, again, every_s=every_s).open())
    assert not findings and not ruled_out
    assert "too few snapshots" in skipped.reason


def test_a_job_without_compile_is_skipped(tmp_path):
    _, _, (skipped,) = looked(trainer(tmp_path).take(PID, 1, 2.0).ends(at_s=RUN_S).open())
    assert skipped.reason == "torch.compile was not used"


def test_native_and_freed_memory_is_its_own_before_anybody_else_claims_it(tmp_path):
    builder = sentinels(compiled(tmp_path, RISING))
    for number, at_s in enumerate((4, 9, 17), 2):
        builder.take(PID, number, at_s, python_bytes=8 * MiB, array_bytes=0, tensor_bytes=0)
    report = asked(builder.open(), only=["recompilation", "native-growth", "fragmentation"])
    assert [finding.kind for finding in report.findings] == ["recompilation"]


def test_memory_seen_to_grow_under_another_library_is_not_its(tmp_path):
    builder = compiled(tmp_path, RISING).source(PID, "/home/me/train.py", "import codec\ncodec.pack()\n")
    for at_s in (5, 10, 15, 20):
        builder.allocated(PID, at_s, MiB * at_s, "/home/me/train.py:2 <module>")
    (finding,), _, _ = looked(builder.open())
    assert finding.bytes == 0


def test_a_module_of_torch_is_shown_where_the_user_compiles_it(tmp_path):
    text = "import torch\nnet = torch.nn.Linear(2, 2)\nstep = torch.compile(net, dynamic=False)\n"
    builder = compiled(tmp_path, RISING, owner_file="/site-packages/torch/_dynamo/external_utils.py")
    (finding,), _, _ = looked(builder.source(PID, "/home/me/train.py", text).open())
    assert (finding.subject.file, finding.subject.line) == ("/home/me/train.py", 3)


def test_a_short_run_whose_last_looks_come_with_its_end(tmp_path):
    """Looks are five seconds apart: without a straight line between them nothing was left for the last third."""
    builder = trainer(tmp_path, leak=0).take(PID, 1, 2.0)
    for at_s, count in ((1, 0), (6, 8), (11, 12), (16, 20), (19, 26), (19.5, 26)):
        row = {"unique_graph_count": count + 1, "compiled_frame_count": 9, "recompile_count": count}
        builder.row("compile_counters", at_s, PID, **row)
    (finding,), _, _ = looked(builder.ends().open())
    assert finding.kind == "recompilation"


@pytest.mark.parametrize("calls, line", [(1, 2), (2, 14)])
def test_a_function_of_the_users_is_named_by_the_one_call_that_compiles(calls, line, tmp_path):
    text = "import torch\n" + "step = torch.compile(model, dynamic=False)\n" * calls
    (finding,), _, _ = looked(compiled(tmp_path, RISING).source(PID, "/home/me/train.py", text).open())
    assert finding.subject.line == line


def traced(folder, again, reason):
    """As ``compiled``, by tf.function, of which no frames are counted; and samples below a call of it."""
    builder = compiled(folder, again, reason=reason, compiled_frame_count=None, function="update")
    builder.source(PID, "/home/me/train.py", "import trainer\n\n\ndef fit(rate):\n    trainer.update(batch, rate)\n")
    stack = "/home/me/train.py:5 fit\n/tensorflow/python/framework/func_graph.py:1 trace"
    for at_s in (5, 10, 15, 20):
        place = {"owner_file": "/home/me/train.py", "owner_line": 5, "function": "fit"}
        builder.allocated(PID, at_s, MiB * at_s, stack, **place)
    return builder


@pytest.mark.parametrize(
    "reason, word", [("rate: value 0.2, then value 0.1", "tensor"), ("x: shape (3), then shape (4)", "input_signature")]
)
def test_tf_function_that_traces_on_and_on_is_told_with_the_argument(tmp_path, reason, word):
    (finding,), _, _ = looked(traced(tmp_path, RISING, reason).open())
    assert (finding.subject.file, finding.subject.line, finding.subject.library) == (
        "/home/me/train.py",
        5,
        "tensorflow",
    )
    assert "update" in finding.title and "tf.function" in finding.title
    assert word in finding.remedy[0] and reason.partition(":")[0] in finding.remedy[0]


def test_the_cache_of_a_function_that_is_traced_on_and_on_is_its_own(tmp_path):
    """Who looked into the heap saw the function hold ever more, and who counted why: that is one finding."""
    from leakscope.analyzers import recompilation

    (let_go,) = {
        thing.let_go for thing in libraries.all_of(libraries.COMPILER) if thing.library == "tensorflow" and thing.let_go
    }
    grows = {"severity": "critical", "confidence": 0.6, "bytes": 50 * MiB, "means": kinds()["retained-objects"]}
    cache = Finding("retained-objects", "step grows", subject=Subject(pid=PID), remedy=[f"{let_go}; more"], **grows)
    recording = traced(tmp_path, RISING, "rate: value 0.2, then value 0.1").open()
    (finding,) = recompilation.findings(Case(recording), so_far=[cache])
    assert finding.bytes > 100 * MiB
    (told,) = folded([cache, dataclasses.replace(finding, means=kinds()["recompilation"])])
    assert told.kind == "recompilation" and "retained-objects" in told.also


def test_tf_function_that_settled_is_ruled_out_with_its_graphs(tmp_path):
    findings, (ruled_out,), _ = looked(traced(tmp_path, [5] * 20, None).open())
    assert not findings
    assert ruled_out.figures["unique_graph_count"] == 8
