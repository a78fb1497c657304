"""Cyclic garbage: named with the call that stopped the collector; silent where the collector does its work."""

from __future__ import annotations

import pytest

from .asking import asked
from .leaks import LEAK_BYTES_PER_S, PID, RUN_S, sentinels, trainer

SOURCE = "import gc\n\n# gc.disable() was here\ngc.{}\n\nclass Leg:\n    pass\n"
LEG = {"type_name": "__main__.Leg", "chain": "__main__.Leg -> list -> __main__.Leg"}
STOPPED = {"gc_collections": 3, "gc_full_collections": 1, "gc_collected_count": 90}


def with_legs(builder, call="disable()", *, source=SOURCE, each_s=500, weighs_tensors=True, others=(), **leg):
    """So many more legs each second that nothing leads to, and all that the trainer gains hangs on them."""
    for number, at_s in enumerate((4, 9, 14, 17), 1):
        held = (LEAK_BYTES_PER_S if each_s and weighs_tensors else 0) * at_s
        builder.take(PID, number, at_s, python_bytes=1, array_bytes=1, tensor_bytes=1)
        graph = {"unreached_bytes": held, "retained_bytes": held, "weighs_tensors": weighs_tensors}
        builder.row("heap_graphs", at_s, PID, take=number, node_count=10**5, **graph)
        for row in ({**LEG, **leg}, *others):
            alone = {"unreached_count": each_s * at_s, "unreached_bytes": 1000 * at_s}
            builder.row("heap_strays", at_s, PID, take=number, **row, **alone)
    return builder.source(PID, "/home/me/train.py", source.format(call))


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


@pytest.mark.parametrize("state", [{"gc_enabled": False}, {"gc_threshold": 150_000}])
def test_of_a_collector_that_does_not_work_nothing_is_said_where_no_graph_was_read(tmp_path, state):
    """More objects of a type may be in use: only the graph knows to which of them nothing leads."""
    builder = sentinels(trainer(tmp_path), **state, **STOPPED)
    for number, at_s in enumerate((4, 9, 17), 1):
        types = [{"type_name": "dict", "object_count": 10_000.0 * number}]
        builder.take(PID, number, at_s, types=types, python_bytes=1, array_bytes=1, tensor_bytes=1)
    findings, ruled_out, (skipped,) = looked(builder.open())
    assert not findings and not ruled_out
    assert "the garbage collector" in skipped.reason and "no two snapshots read all objects" in skipped.reason


def test_a_working_collector_is_ruled_out_with_what_it_freed(tmp_path):
    findings, (ruled_out,), _ = looked(sentinels(trainer(tmp_path)).open())
    assert not findings
    assert "calling gc.collect() will not help" in ruled_out.reason
    assert ruled_out.figures["gc_collections"] > 100


def test_a_stopped_collector_alone_is_no_finding(tmp_path):
    """Switching it off is no fault in a program without cycles: something else grows."""
    builder = with_legs(sentinels(trainer(tmp_path), gc_enabled=False, **STOPPED), each_s=0)
    findings, (ruled_out,), _ = looked(builder.open())
    assert not findings
    assert "no unreachable objects piled up" in ruled_out.reason


def test_silent_where_nothing_grows(tmp_path):
    builder = with_legs(sentinels(trainer(tmp_path, leak=0), gc_enabled=False, in_use=0, **STOPPED))
    findings, (ruled_out,), _ = looked(builder.open())
    assert not findings
    assert "memory does not keep growing" in ruled_out.reason


def test_skipped_without_an_agent(tmp_path):
    _, _, (skipped,) = looked(trainer(tmp_path).open())
    assert skipped.reason == "the recording has no readings from inside a process"


def test_tensors_that_hang_on_the_cycles_are_theirs(tmp_path):
    """A sweep over all objects finds them, so they are in the account of tensors; but no way leads to them."""
    builder = sentinels(trainer(tmp_path), gc_enabled=False, **STOPPED)
    for number, at_s in enumerate((4, 9, 14, 17), 1):
        alone = {"moment": "take", "device": "cpu", "storage_bytes": LEAK_BYTES_PER_S * at_s, "tensor_owner": "other"}
        builder.row("tensors", at_s, PID, take=number, **alone)
    builder = with_legs(builder, weighs_tensors=False, others=[{"type_name": "torch.Tensor"}])
    (finding,), _, _ = looked(builder.open())
    assert finding.subject.type == "Leg" and finding.bytes > 100 * 2**20


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
    name = "torch.autograd.function.RoundBackward"
    builder = sentinels(trainer(tmp_path), gc_enabled=False, **STOPPED)
    chain = f"{name}.q -> torch.Tensor -> {name}"
    (finding,), _, _ = looked(with_legs(builder, source=FUNCTION_SOURCE, type_name=name, chain=chain).open())
    assert finding.subject.line == 10
    assert "save_for_backward" in finding.remedy[0] and "train.py:4" in finding.remedy[1]
    assert finding.bytes > 100 * 2**20
