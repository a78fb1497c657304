"""What memory snapshots of torch are told as: each fault with its line and amount, and silence on its clean twin."""

from __future__ import annotations

import pytest

from tests.importing.allocator import OPTIM, TRAIN, Device, MiB, called, moved, train
from tests.sentences import says

# gpu-retention


@pytest.mark.parametrize("generation", ["2023", "2026-07"])
def test_what_each_step_leaves_behind_is_found(told, generation):
    device = Device()
    train(device, 8, leak=True)
    report = told(device, generation=generation)
    (finding,) = (f for f in report.findings if f.kind == "gpu-retention")
    assert finding.bytes == 6 * 4 * MiB  # without the first step, and the last, after which no other came
    assert finding.bytes_per_step == pytest.approx(4 * MiB)
    assert (finding.subject.file, finding.subject.line) == ("/home/me/job/model.py", 31)
    assert any(says(evidence.text, "train.py:50") for evidence in finding.evidence)
    assert report.verdict.leaking is True
    assert says(report.verdict.headline, "GPU memory leaks", "cuda:0", "24.0 MiB")


@pytest.mark.parametrize("generation", ["2023", "2026-07"])
def test_training_that_frees_its_steps_is_no_leak(told, generation):
    device = Device()
    train(device, 8)
    report = told(device, generation=generation)
    assert not [f for f in report.findings if f.kind == "gpu-retention"]
    assert report.verdict.leaking is False
    assert says(report.verdict.headline, "No leak")


def test_a_loop_without_an_optimizer_is_seen_by_its_lines(told):
    device = Device()
    device.alloc(64 * MiB, moved())
    for _ in range(10):
        batch = device.alloc(MiB, [("/home/me/job/infer.py", 10, "main")])
        hidden = device.alloc(8 * MiB, called(31, at=11))
        device.alloc(2 * MiB, [("/home/me/job/infer.py", 12, "main")])  # outputs.append(model(x))
        device.free(hidden)
        device.free(batch)
    report = told(device, "gpu-retention")
    (finding,) = report.findings
    assert finding.subject.line == 12
    assert finding.bytes >= 7 * 2 * MiB


def test_a_window_that_is_full_is_no_leak(told):
    device = Device()
    window = []
    for _ in range(30):
        batch = device.alloc(MiB, [("/home/me/job/infer.py", 10, "main")])
        window.append(device.alloc(2 * MiB, [("/home/me/job/infer.py", 12, "main")]))
        device.free(batch)
        if len(window) > 5:
            device.free(window.pop(0))
    assert not told(device, "gpu-retention").findings


def test_layers_of_one_forward_pass_are_no_steps(told):
    device = Device()
    for _ in range(24):
        scores = device.alloc(16 * MiB, called(33))
        device.alloc(4 * MiB, called(34))
        device.free(scores)
    report = told(device, "gpu-retention")
    assert not report.findings
    assert says(report.skipped[0].reason, "no steps")


def test_parameters_of_one_optimizer_step_are_no_steps(told):
    """A plain AdamW of one's own goes through them one by one; torch puts its hooks around it."""
    device = Device()
    for _ in range(24):
        for line in (71, 73, 76):
            frames = [("/home/me/job/optimizer.py", line, "step"), (OPTIM, 533, "wrapper"), (TRAIN, 54, "main")]
            scratch = device.alloc(4 * MiB, frames)
        device.free(scratch)
    report = told(device)
    assert report.verdict.leaking is None
    assert says(report.verdict.headline, "no steps")


def test_gradients_that_accumulate_stay_quiet(told):
    device = Device()
    weights = [device.alloc(8 * MiB, moved()) for _ in range(4)]
    gradients = []
    for step in range(9):
        saved = [device.alloc(4 * MiB, called(31 + n)) for n in range(4)]
        for address in reversed(saved):
            if not step:
                gradients.append(device.alloc(8 * MiB, None))
            device.free(address)
        device.mark("START", "Optimizer.step#SGD.step")
        device.mark("END", "Optimizer.step#SGD.step")
    assert weights and not told(device, "gpu-retention").findings


# gpu-fragmentation


def test_a_failure_beside_free_pieces_is_fragmentation(told):
    device = Device()
    for _ in range(20):  # of each segment of 62 MiB, 2 MiB stay in use
        large = device.alloc(62 * MiB, called(31))
        device.free(large)
        device.alloc(50 * MiB, called(60))
        device.alloc(12 * MiB, called(61))
    for segment in device.segments:
        big = max(segment["blocks"], key=lambda block: block["size"])
        device.free(big["address"])
    device.oom(100 * MiB, 10 * MiB, called(44))
    report = told(device)
    (finding,) = (f for f in report.findings if f.kind == "gpu-fragmentation")
    assert finding.severity == "critical" and finding.bytes == 20 * 50 * MiB
    assert finding.subject.line == 44
    assert "expandable_segments:True" in finding.remedy[0]
    assert any(says(evidence.text, "largest free block", "50.0 MiB") for evidence in finding.evidence)
    assert any(says(evidence.text, "model.py:61") for evidence in finding.evidence)  # what keeps the segments


def test_expandable_segments_are_not_advised_where_they_are_on(told):
    device = Device()
    for _ in range(20):
        device.alloc(50 * MiB, called(60))
        device.alloc(12 * MiB, called(61))
    for segment in device.segments[::2]:
        device.free(segment["blocks"][0]["address"])
    device.oom(100 * MiB, 10 * MiB, called(44))
    for finding in told(device, "gpu-fragmentation", expandable=True).findings:
        assert not finding.remedy


@pytest.mark.parametrize(("segments", "is_told"), [(20, True), (1, False)])
def test_pieces_are_told_before_anything_failed_where_they_are_many(told, segments, is_told):
    """Of a small job most may be: torch takes large segments, and little else is in use."""
    device = Device()
    freed = []
    for _ in range(segments):
        device.free(device.alloc(62 * MiB, called(31)))
        freed.append(device.alloc(50 * MiB, called(60)))
        device.alloc(12 * MiB, called(61))
    for address in freed:
        device.free(address)
    findings = told(device, "gpu-fragmentation").findings
    assert [finding.severity for finding in findings] == ["note"] * is_told


def test_a_large_cache_is_no_fragmentation(told):
    device = Device()
    device.alloc(100 * MiB, moved())
    device.free(device.alloc(900 * MiB, called(31)))
    (ruled_out,) = told(device, "gpu-fragmentation").ruled_out
    assert says(ruled_out.reason, "900 MiB cached")


@pytest.mark.parametrize(("freed", "is_much"), [(10, True), (6, False)])
def test_free_pieces_are_worth_a_note_where_they_are_much_of_what_is_reserved(told, freed, is_much):
    """Of 20 segments of 62 MiB, 40 % or 24 %: so much may lie free at one moment and be used at the next."""
    device = Device()
    for _ in range(20):
        device.free(device.alloc(62 * MiB, called(31)))
        device.alloc(50 * MiB, called(60))
        device.alloc(12 * MiB, called(61))
    for segment in device.segments[:freed]:
        device.free(max(segment["blocks"], key=lambda block: block["size"])["address"])
    report = told(device, "gpu-fragmentation")
    assert [(f.severity, f.bytes) for f in report.findings] == ([("note", freed * 50 * MiB)] if is_much else [])


# duplicate-model


LAYERS = [30, *([4, 9] * 6), 31]


def test_a_model_that_was_loaded_twice(told):
    device = Device()
    for _ in range(2):
        [device.alloc(size * MiB, moved()) for size in LAYERS]
    (finding,) = told(device, "duplicate-model").findings
    assert finding.bytes == sum(LAYERS) * MiB and finding.wasted


def test_one_model_with_layers_that_are_alike_is_no_copy(told):
    device = Device()
    [device.alloc(size * MiB, moved()) for size in [4, 9, 2] * 8]
    train(device, 2, layers=8)
    assert not told(device, "duplicate-model").findings


@pytest.mark.parametrize(("others", "is_told"), [([7], True), ([7] * 7, False)], ids=["another-head", "another-model"])
def test_a_model_that_is_loaded_elsewhere_with_another_head_is_a_copy(told, others, is_told):
    """A reference model without the head that is trained; two models have a few sizes in common as well."""
    device = Device()
    [device.alloc(size * MiB, moved()) for size in LAYERS]
    [device.alloc(size * MiB, moved(40)) for size in [*LAYERS[: -len(others)], *others]]
    assert bool(told(device, "duplicate-model").findings) is is_told
