"""Cycles that gc.freeze() hides: named with the call; silent where it is called once, or what it freezes is in use."""

from __future__ import annotations

from leakscope import analyze

from .leaks import LEAK_BYTES_PER_S, PID, RUN_S, sentinels, trainer

SOURCE = "import gc, os\n\ndef in_worker():\n    gc.freeze()\n    return os.fork()\n"
EVER_MORE = [5000 * s for s in range(int(RUN_S))]


def run(folder, frozen, *, legs_each_s=0, **columns):
    """A trainer that leaks, with so many objects frozen at each second, and so many legs that nothing leads to."""
    builder = sentinels(trainer(folder), gc_frozen_count=frozen, **columns)
    for number, at_s in enumerate((2, 6, 10, 14, 18), 1):
        held = (LEAK_BYTES_PER_S if legs_each_s else 0) * at_s
        builder.take(PID, number, at_s, gc_frozen_count=frozen[at_s], python_bytes=1, array_bytes=1, tensor_bytes=1)
        graph = {"unreached_bytes": held, "retained_bytes": held + 2**20, "weighs_tensors": True}
        builder.row("heap_graphs", at_s, PID, take=number, node_count=10**5, **graph)
        legs = {"unreached_count": legs_each_s * at_s, "frozen_count": legs_each_s * at_s, "unreached_bytes": held}
        builder.row("heap_strays", at_s, PID, take=number, type_name="__main__.Leg", **legs)
    return analyze(builder.source(PID, "/home/me/train.py", SOURCE).open())


def test_to_freeze_again_and_again_is_named_with_the_call_and_the_class(tmp_path):
    report = run(tmp_path, EVER_MORE, legs_each_s=4000)
    found = report.findings[0]
    assert found.kind == "cyclic-garbage"
    assert "Leg" in found.title and "gc.freeze() at train.py:4" in found.title
    assert (found.subject.type, found.subject.line, found.subject.function) == ("Leg", 4, "in_worker")
    assert found.bytes > 100 * 2**20
    assert "gc.unfreeze()" in found.remedy[0]
    assert [f.kind for f in report.findings] == ["cyclic-garbage"]  # and not native code


def test_garbage_that_python_itself_allocated_is_garbage_all_the_same(tmp_path):
    """Small objects: the ledger knows from the allocator that they are Python's, and puts all in one account."""
    grows = [(50 + 10 * s) * 2**20 for s in range(int(RUN_S))]
    flat = {"malloc_in_use_bytes": 5 * 2**20, "pymalloc_bytes": grows, "pymalloc_in_use_bytes": grows}
    report = run(tmp_path, EVER_MORE, legs_each_s=4000, **flat)
    assert [f.kind for f in report.findings] == ["cyclic-garbage"]
    assert report.findings[0].bytes > 100 * 2**20


def test_readings_may_be_missing_and_classes_unknown(tmp_path):
    sparse = [count if s % 4 == 2 else None for s, count in enumerate(EVER_MORE)]
    found = run(tmp_path, sparse, legs_each_s=4000).findings[0]
    assert (found.kind, found.subject.line) == ("cyclic-garbage", 4)


def test_to_freeze_once_before_the_work_is_innocent(tmp_path):
    report = run(tmp_path, [0] * 3 + [200_000] * (int(RUN_S) - 3))
    assert [f.kind for f in report.findings] == ["native-growth"]
    assert not any("freeze" in doubt for doubt in report.findings[0].doubts)


def test_to_freeze_and_unfreeze_is_innocent(tmp_path):
    report = run(tmp_path, [15_000 * (s % 2) for s in range(int(RUN_S))])
    assert [f.kind for f in report.findings] == ["native-growth"]


def test_what_a_variable_leads_to_is_no_garbage_though_frozen(tmp_path):
    report = run(tmp_path, EVER_MORE)
    assert "cyclic-garbage" not in [f.kind for f in report.findings]
    assert any("freeze" in doubt for doubt in report.findings[0].doubts)
    assert not any("will not help" in r.reason for r in report.ruled_out if r.kind == "cyclic-garbage")
