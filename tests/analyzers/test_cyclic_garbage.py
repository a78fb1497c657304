"""Cyclic garbage: named with the call that stopped the collector; silent where the collector does its work."""

from __future__ import annotations

import pytest

from .asking import asked
from .leaks import PID, RUN_S, sentinels, trainer

SOURCE = "import gc\n\n# gc.disable() was here\ngc.{}\n\nclass Leg:\n    pass\n"
LEG = {
    "type_name": "__main__.Leg",
    "orphan_verdict": "garbage-cycle",
    "sampled_count": 3,
    "chain": "Leg -> list -> Leg",
    "owner_file": "/home/me/train.py",
    "owner_line": 6,
    "deep_bytes": 1000,
}
STOPPED = {"gc_collections": 3, "gc_full_collections": 1, "gc_collected_count": 90}


def with_legs(builder, call="disable()", **rows):
    for number, at_s in enumerate((4, 9, 17), 1):
        legs = [{**LEG, "object_count": 2000.0 * number, "reached_count": 4, **rows}] if number > 1 else []
        builder.take(PID, number, at_s, python_bytes=1, array_bytes=1, tensor_bytes=1, orphans=legs)
    return builder.source(PID, "/home/me/train.py", SOURCE.format(call))


def looked(recording):
    report = asked(recording, only=["cyclic-garbage"])
    return report.findings, report.ruled_out, report.skipped


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("collector", "call", "words"),
    [
        ({"gc_enabled": False, **STOPPED}, "disable()", "the garbage collector is off"),
        ({"gc_threshold": 150_000, **STOPPED}, "set_threshold(150_000, 40, 40)", "the garbage collector has not run"),
        ({"gc_threshold": 0, **STOPPED}, "set_threshold(0)", "the garbage collector is off"),
        ({"gc_frozen_count": [5000 * s for s in range(int(RUN_S))]}, "freeze()", "gc.freeze() hides them"),
    ],
)
def test_the_call_that_stopped_the_collector_is_named(tmp_path, collector, call, words):
    builder = with_legs(sentinels(trainer(tmp_path), **collector), call)
    (finding,), _, _ = looked(builder.open())
    assert words in finding.title and "Leg" in finding.title
    assert (finding.subject.file, finding.subject.line) == ("/home/me/train.py", 4)
    assert finding.subject.type == "Leg"
    assert finding.severity == "critical" and finding.confidence >= 0.9
    assert finding.bytes > 100 * 2**20
    assert any("4" in remedy for remedy in finding.remedy)


@pytest.mark.parametrize(("pending", "is_garbage"), [(90_000, True), (330, False)])
def test_a_collector_that_has_nothing_to_do_leaves_no_garbage(tmp_path, pending, is_garbage):
    """It need not run where few objects are new, and no more of those can be garbage than wait for it."""
    builder = sentinels(trainer(tmp_path), gc_threshold=100_000, gc_pending_count=pending, **STOPPED)
    for number, at_s in enumerate((4, 9, 17), 1):
        types = [{"type_name": "tuple", "object_count": 700.0 * number, "reached_count": 0}]
        builder.take(PID, number, at_s, types=types, python_bytes=1, array_bytes=1, tensor_bytes=1)
    assert bool(looked(builder.open())[0]) is is_garbage


def test_without_the_source_the_class_is_the_place(tmp_path):
    builder = sentinels(trainer(tmp_path), gc_enabled=False, **STOPPED)
    for number, at_s in enumerate((9, 17), 1):
        legs = [{**LEG, "object_count": 2000.0 * number, "reached_count": 4}]
        builder.take(PID, number, at_s, orphans=legs)
    (finding,), _, _ = looked(builder.open())
    assert (finding.subject.file, finding.subject.line) == ("/home/me/train.py", 6)


def test_a_working_collector_is_ruled_out_with_what_it_freed(tmp_path):
    findings, (ruled_out,), _ = looked(sentinels(trainer(tmp_path)).open())
    assert not findings
    assert "calling gc.collect() will not help" in ruled_out.reason
    assert ruled_out.figures["gc_collections"] > 100


def test_a_stopped_collector_alone_is_no_finding(tmp_path):
    """Switching it off is no fault in a program without cycles: something else grows."""
    findings, (ruled_out,), _ = looked(sentinels(trainer(tmp_path), gc_enabled=False, **STOPPED).open())
    assert not findings
    assert "no unreachable objects piled up" in ruled_out.reason


def test_unreachable_objects_without_a_seen_cycle_are_reported_with_doubt(tmp_path):
    builder = sentinels(trainer(tmp_path), gc_enabled=False, **STOPPED)
    for number, at_s in enumerate((4, 9, 17), 1):
        types = [{"type_name": "dict", "object_count": 10_000.0 * number, "reached_count": 5000}]
        builder.take(PID, number, at_s, types=types, python_bytes=1, array_bytes=1, tensor_bytes=1)
    (finding,), _, _ = looked(builder.open())
    assert finding.confidence < 0.7 and finding.doubts


def test_objects_held_elsewhere_are_no_garbage(tmp_path):
    builder = with_legs(sentinels(trainer(tmp_path)), orphan_verdict="held")
    assert not looked(builder.open())[0]


def test_silent_where_nothing_grows(tmp_path):
    builder = with_legs(sentinels(trainer(tmp_path, leak=0), gc_enabled=False, in_use=0, **STOPPED))
    findings, (ruled_out,), _ = looked(builder.open())
    assert not findings
    assert "memory does not keep growing" in ruled_out.reason


def test_skipped_without_an_agent(tmp_path):
    _, _, (skipped,) = looked(trainer(tmp_path).open())
    assert skipped.reason == "the recording has no sentinels"


def test_tensors_that_hang_on_the_cycles_are_theirs(tmp_path):
    """A sweep over all objects finds them, so they are in the account of tensors; but no way leads to them."""
    builder = sentinels(trainer(tmp_path), gc_enabled=False, **STOPPED)
    for number, at_s in enumerate((4, 9, 17), 1):
        size = number * 60 * 2**20
        legs = [{**LEG, "object_count": 2000.0 * number, "reached_count": 4}]
        alone = {"moment": "take", "device": "cpu", "storage_count": 9, "storage_bytes": size, "tensor_owner": "other"}
        builder.take(PID, number, at_s, python_bytes=1, array_bytes=1, tensor_bytes=size, orphans=legs)
        builder.row("tensors", at_s, PID, take=number, **alone)
    (finding,), _, _ = looked(builder.source(PID, "/home/me/train.py", SOURCE.format("disable()")).open())
    assert finding.bytes > 100 * 2**20


FUNCTION_SOURCE = """import gc
from torch.autograd import Function

gc.disable()

class Round(Function):
    @staticmethod
    def forward(ctx, x):
        q = x.round()
        ctx.q = q
        return q

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.q.sign()
"""


def test_of_an_autograd_function_the_line_that_closes_the_cycle_is_the_place(tmp_path):
    """Tensors with a history, on a graph that nobody reaches, are no part of what names explain."""
    builder = sentinels(trainer(tmp_path), gc_enabled=False, **STOPPED)
    name = "torch.autograd.function.RoundBackward"
    for number, at_s in enumerate((4, 9, 17), 1):
        size = number * 60 * 2**20
        nodes = {**LEG, "type_name": name, "chain": f"{name}.q -> torch.Tensor -> {name}", "owner_line": None}
        alone = {"moment": "take", "device": "cpu", "storage_bytes": size, "tensor_owner": "activation"}
        orphans = [{**nodes, "object_count": 900.0 * number, "reached_count": 0}]
        builder.take(PID, number, at_s, python_bytes=1, array_bytes=1, tensor_bytes=size, orphans=orphans)
        builder.row("tensors", at_s, PID, take=number, **alone)
    (finding,), _, _ = looked(builder.source(PID, "/home/me/train.py", FUNCTION_SOURCE).open())
    assert finding.subject.line == 10
    assert "save_for_backward" in finding.remedy[0] and "train.py:4" in finding.remedy[1]
    assert finding.bytes > 100 * 2**20


def test_tensors_with_a_history_that_names_explain_are_not_garbage(tmp_path):
    builder = sentinels(trainer(tmp_path), gc_enabled=False, **STOPPED)
    for number, at_s in enumerate((4, 9, 17), 1):
        size = number * 60 * 2**20
        kept = {"moment": "take", "device": "cpu", "storage_bytes": size, "tensor_owner": "activation"}
        held = {"path": "main() losses", "tensor_deep_bytes": size, "deep_bytes": size, "type_name": "list"}
        types = [{"type_name": "dict", "object_count": 10_000.0 * number, "reached_count": 5000}]
        tables = {"types": types, "holders": [held]}
        builder.take(PID, number, at_s, python_bytes=1, array_bytes=1, tensor_bytes=size, **tables)
        builder.row("tensors", at_s, PID, take=number, **kept)
    assert not looked(builder.source(PID, "/home/me/train.py", SOURCE.format("disable()")).open())[0]
