"""Tensors that stay on a GPU: found by what torch handed out, named by who holds them, told from its cache."""

from __future__ import annotations

import pytest

from tests.sentences import says

from .asking import asked
from .curves import INNOCENTS, LEAKS, sampled
from .gpus import PID, GiB, MiB, flat, growing, trainer

SOURCE = """
def main():
    losses = []
    for batch in batches():
        loss = step(batch)
        losses.append(loss)
"""


def looked(builder):
    report = asked(builder.open(), only=["gpu-retention"])
    return report.findings, report.ruled_out, report.skipped


def with_inventories(builder, share=1.0):
    for number, at_s in enumerate((8, 18, 30), 1):
        held = {"path": "main() losses", "type_name": "list", "variable": "losses", "owner": "main"}
        place = {"owner_module": "__main__", "owner_file": "/home/me/train.py", "is_user": True, "edge_kind": "local"}
        builder.take(PID, number, at_s, holders=[{**held, **place, "deep_bytes": 1000 * at_s, "object_count": 1.0}])
        tensors = {"moment": "take", "device": "cuda:0", "dtype": "float32", "storage_count": at_s}
        for path, gained in (
            ("main() losses", round(share * 100 * MiB * at_s)),
            ("main() model", 5 * GiB),
            (None, GiB),
        ):
            builder.row("tensors", at_s, PID, take=number, **tensors, path=path, storage_bytes=gained)
    return builder.source(PID, "/home/me/train.py", SOURCE)


def test_growth_is_found_and_its_holder_named(tmp_path):
    (finding,), _, _ = looked(with_inventories(trainer(tmp_path, growing())))
    assert says(finding.title, "main() losses (list)", "cuda:0", "+3.")
    assert (finding.subject.device, finding.subject.variable) == ("cuda:0", "losses")
    assert (finding.subject.file, finding.subject.line) == ("/home/me/train.py", 6)
    assert finding.bytes_per_step == pytest.approx(10 * MiB, rel=0.1)
    assert finding.bytes_per_hour == pytest.approx(3600 * 100 * MiB, rel=0.1)
    assert "frees about 3." in finding.remedy[0]


def test_without_a_holder_no_remedy_is_made_up(tmp_path):
    (finding,), _, _ = looked(trainer(tmp_path, growing()))
    assert says(finding.title, "cuda:0", "+3.")
    assert any(says(doubt, "variable", "not found") for doubt in finding.doubts)
    assert finding.remedy == []


def test_a_variable_that_holds_little_of_it_is_not_blamed(tmp_path):
    (finding,), _, _ = looked(with_inventories(trainer(tmp_path, growing()), share=0.1))
    assert finding.subject.variable is None


def test_cached_is_not_leaked(tmp_path):
    reserved = [20 * GiB + s * GiB for s in range(40)]
    findings, (ruled_out,), _ = looked(trainer(tmp_path, flat(), reserved_bytes=reserved))
    assert not findings
    assert "of 59.0 GiB reserved, 49.0 GiB are cache, which is not leaked" in ruled_out.reason
    assert ruled_out.figures["allocated_bytes"] == 10 * GiB


def test_the_peak_at_which_it_ran_out_is_no_growth(tmp_path):
    builder = trainer(tmp_path, flat())
    builder.note(PID, 40.5, "cuda-oom", f"cuda:0: {GiB} bytes asked for, 0 free of {80 * GiB}")
    builder.row("allocator", 40.5, PID, device="cuda:0", allocated_bytes=79 * GiB, reserved_bytes=79 * GiB)
    findings, (ruled_out,), _ = looked(builder)
    assert not findings
    assert ruled_out.figures["allocated_bytes"] == 10 * GiB


def test_a_few_inventories_of_a_short_run_cannot_tell(tmp_path):
    findings, _, (skipped,) = looked(trainer(tmp_path, growing()[:6]))
    assert not findings
    assert skipped.reason.startswith("cuda:0 in train.py[4242]: too short")


def test_each_device_has_its_own_answer(tmp_path):
    builder = trainer(tmp_path, flat())
    builder.series("allocator", PID, device="cuda:1", allocated_bytes=growing(), reserved_bytes=50 * GiB)
    (finding,), (ruled_out,), _ = looked(builder)
    assert finding.subject.device == "cuda:1"
    assert ruled_out.reason.startswith("cuda:0 in train.py[4242]")


def test_without_a_gpu_it_is_skipped(tmp_path):
    from tests.builders import RecordingBuilder

    _, _, (skipped,) = looked(RecordingBuilder(tmp_path).process(PID).samples(PID, [GiB] * 30))
    assert says(skipped.reason, "no GPU")


def on_gpu(tmp_path, shape, seed):
    """A memory curve of another test, read once a second, as what is allocated on a device."""
    time_s, value_bytes = sampled(shape, seed, 60)
    return trainer(tmp_path, [int(v) for v in value_bytes[::4]], step=[10 * int(t) for t in time_s[::4]])


@pytest.mark.cases(2)
@pytest.mark.parametrize("shape", INNOCENTS, ids=lambda s: s.__name__)
def test_innocent_curves(tmp_path, shape):
    for seed in range(3):
        (tmp_path / str(seed)).mkdir()
        findings, _, _ = looked(on_gpu(tmp_path / str(seed), shape, seed))
        assert not findings, seed


@pytest.mark.cases(2)
@pytest.mark.parametrize("shape", LEAKS, ids=lambda s: s.__name__)
def test_leaking_curves(tmp_path, shape):
    found = 0
    for seed in range(3):
        (tmp_path / str(seed)).mkdir()
        findings, _, _ = looked(on_gpu(tmp_path / str(seed), shape, seed))
        found += len(findings)
    assert found >= 2
