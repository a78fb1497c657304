"""Tensors that stay on a GPU: found by what torch handed out, named by who holds them, told from its cache."""

from __future__ import annotations

import pytest

from tests.builders import RecordingBuilder
from tests.sentences import says

from .asking import asked
from .curves import INNOCENTS, LEAKS, sampled
from .gpus import PID, GiB, MiB, flat, gpu, growing, runs_out, trainer

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
        on_device = {"device_bytes": round(share * 100 * MiB * at_s), "length": 10 * at_s, "deep_bytes": 1000 * at_s}
        model = {**held, **place, "path": "main() model", "variable": "model", "device_bytes": 5 * GiB}
        builder.take(PID, number, at_s, holders=[{**held, **place, **on_device}, model])
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


LEAK = {"allocated_bytes": [10 * GiB + 9 * GiB * s for s in range(7)], "step": [10 * s for s in range(7)]}


def test_what_rose_with_each_step_until_the_device_was_full_needs_no_longer_run(tmp_path):
    builder = runs_out(trainer(tmp_path, LEAK["allocated_bytes"]), 7.5, GiB, 70 * GiB, 69 * GiB)
    (finding,), _, _ = looked(builder)
    assert says(finding.title, "cuda:0", "+54.0 GiB")
    assert finding.confidence < 0.7


@pytest.mark.parametrize("shape", ("falls between", "stands", "did not run out"))
def test_a_short_run_that_did_not_fill_the_device_step_by_step_cannot_tell(tmp_path, shape):
    allocated = list(LEAK["allocated_bytes"])
    if shape == "falls between":
        allocated[1::2] = [10 * GiB] * 3
    elif shape == "stands":
        allocated = [60 * GiB] * 6 + [64 * GiB]
    builder = trainer(tmp_path, allocated)
    if shape != "did not run out":
        runs_out(builder, 7.5, GiB, 70 * GiB, 69 * GiB)
    findings, _, (skipped,) = looked(builder)
    assert not findings
    assert says(skipped.reason, "too short")


def by_driver_alone(tmp_path, used):
    """A program without torch's allocator; the driver is read every 2 s."""
    builder = RecordingBuilder(tmp_path).process(PID, cmdline="python bank.py").samples(PID, [GiB] * 160, every_s=0.25)
    return gpu(builder, used, [0] * len(used))


BANK = """
def main():
    kept = []
    while True:
        kept.append(cupy.ones(1000))
"""


def with_members(builder):
    """``kept`` has one member more for each 20 MiB."""
    name = {"owner": "main", "owner_module": "__main__", "owner_file": "/home/me/bank.py", "is_user": True}
    for number, at_s in enumerate((8, 16, 24, 32), 1):
        own = {"path": "main() kept", "type_name": "list", "variable": "kept", "edge_kind": "local", **name}
        member = {"path": "main() kept[*]", "parent_path": "main() kept", "type_name": "cupy.ndarray", **name}
        builder.take(PID, number, at_s, holders=[
            {**own, "deep_bytes": 100 * at_s, "object_count": 1.0, "length": 5 * at_s},
            {**member, "edge_kind": "item", "deep_bytes": 90 * at_s, "object_count": 5.0 * at_s},
        ])  # fmt: skip
    return builder.source(PID, "/home/me/bank.py", BANK)


def test_memory_that_no_allocator_of_torch_has_is_judged_by_the_driver(tmp_path):
    used = [GiB + 200 * MiB * i for i in range(20)]
    (finding,), _, _ = looked(with_members(by_driver_alone(tmp_path, used)))
    assert says(finding.title, "main() kept (list)", "cupy.ndarray", "bank.py[4242]", "GPU 3")
    assert (finding.subject.variable, finding.subject.line) == ("kept", 5)
    assert any(says(evidence.text, "20.0 MiB", "for each") for evidence in finding.evidence)
    assert any("was not measured" in doubt for doubt in finding.doubts)


def test_by_the_driver_alone_no_holder_is_made_up(tmp_path):
    (finding,), _, _ = looked(by_driver_alone(tmp_path, [GiB + 200 * MiB * i for i in range(20)]))
    assert finding.subject.variable is None
    assert not finding.remedy


def test_what_the_allocator_counts_is_surer_than_what_the_driver_does(tmp_path):
    """In the driver's figures caches grow as well."""
    for name in "ab":
        tmp_path.joinpath(name).mkdir()
    (counted,), _, _ = looked(trainer(tmp_path / "a", growing()))
    (by_driver,), _, _ = looked(by_driver_alone(tmp_path / "b", [GiB + 200 * MiB * i for i in range(20)]))
    assert 0.5 < by_driver.confidence < 0.7 < counted.confidence < 0.9


def test_what_takes_its_memory_at_once_is_no_leak_by_the_driver(tmp_path):
    findings, (ruled_out,), _ = looked(with_members(by_driver_alone(tmp_path, [60 * GiB] * 20)))
    assert not findings
    assert says(ruled_out.reason, "bank.py[4242]", "does not keep growing")
