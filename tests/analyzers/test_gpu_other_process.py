"""Others on the job's GPU: blamed when the room was needed, and only then; in a container by subtraction."""

from __future__ import annotations

from tests.sentences import says

from .asking import asked
from .gpus import OTHER_PID, PID, GiB, flat, gpu, runs_out, trainer

SAMPLES = 20


def looked(builder):
    report = asked(builder.open(), only=["gpu-other-process"])
    return report.findings, report.ruled_out, report.skipped


def test_who_had_the_room_when_the_job_ran_out(tmp_path):
    builder = gpu(trainer(tmp_path, flat()), [35 * GiB] * SAMPLES, [40 * GiB] * SAMPLES)
    (finding,), _, _ = looked(runs_out(builder, 36.0, requested=6 * GiB, reserved=34 * GiB, allocated=34 * GiB))
    assert says(finding.title, "40.0 GiB", "GPU 3 (NVIDIA X100)")
    assert finding.severity == "critical"
    assert finding.subject.holder == f"pid {OTHER_PID}"
    (remedy,) = finding.remedy
    assert says(remedy, f"end pid {OTHER_PID}", "another GPU", "40.0 GiB")
    assert any(says(e.text, "6.0 GiB", "/home/me/train.py:31") for e in finding.evidence)


def test_it_ran_out_between_two_samples(tmp_path):
    builder = gpu(trainer(tmp_path, flat()), [35 * GiB] * SAMPLES, [30 * GiB] * SAMPLES)
    (finding,), _, _ = looked(runs_out(builder, 35.0, requested=20 * GiB, reserved=34 * GiB, allocated=34 * GiB))
    assert finding.severity == "critical"


def test_a_device_that_is_almost_full(tmp_path):
    (finding,), _, _ = looked(gpu(trainer(tmp_path, flat()), [35 * GiB] * SAMPLES, [40 * GiB] * SAMPLES))
    assert finding.severity == "warning"


def test_others_do_not_matter_while_there_is_room(tmp_path):
    findings, (ruled_out,), _ = looked(gpu(trainer(tmp_path, flat()), [20 * GiB] * SAMPLES, [40 * GiB] * SAMPLES))
    assert not findings
    assert says(ruled_out.reason, "GPU 3 (NVIDIA X100)", "60.5 GiB of 80.0 GiB")


def test_a_job_that_fills_the_device_itself(tmp_path):
    builder = gpu(trainer(tmp_path, flat()), [77 * GiB] * SAMPLES, [GiB] * SAMPLES)
    findings, (ruled_out,), _ = looked(
        runs_out(builder, 36.0, requested=6 * GiB, reserved=76 * GiB, allocated=76 * GiB)
    )
    assert not findings
    assert says(ruled_out.reason, "other processes", "1.0 GiB", "GPU 3 (NVIDIA X100)")


def test_others_that_had_left_before_it_ran_out(tmp_path):
    others = [40 * GiB] * 8 + [0] * 12
    builder = gpu(trainer(tmp_path, flat()), [20 * GiB] * 8 + [78 * GiB] * 12, others)
    findings, _, _ = looked(runs_out(builder, 36.0, requested=6 * GiB, reserved=77 * GiB, allocated=77 * GiB))
    assert not findings


def test_in_a_container_they_are_known_by_subtraction(tmp_path):
    ours, others = [13 * GiB] * SAMPLES, [62 * GiB] * SAMPLES
    (finding,), _, _ = looked(gpu(trainer(tmp_path, flat()), ours, others, visible=False))
    assert 60 * GiB < finding.bytes < 64 * GiB
    assert finding.confidence < 0.7
    assert finding.doubts and not finding.remedy


def test_in_a_container_the_jobs_own_memory_is_not_anothers(tmp_path):
    ours = [76 * GiB] * SAMPLES
    findings, _, _ = looked(gpu(trainer(tmp_path, flat(73 * GiB)), ours, [0] * SAMPLES, visible=False))
    assert not findings


def test_a_job_that_is_seen_by_nobody_inside_cannot_be_told_apart(tmp_path):
    from tests.builders import RecordingBuilder

    builder = RecordingBuilder(tmp_path).process(PID).samples(PID, [GiB] * 30)
    _, _, (skipped,) = looked(gpu(builder, [35 * GiB] * SAMPLES, [40 * GiB] * SAMPLES, visible=False))
    assert says(skipped.reason, "could not be identified")


def test_without_a_gpu_it_is_skipped(tmp_path):
    from tests.builders import RecordingBuilder

    _, _, (skipped,) = looked(RecordingBuilder(tmp_path).process(PID).samples(PID, [GiB] * 30))
    assert says(skipped.reason, "no GPU")


def test_a_limit_that_the_program_set_itself_is_nobody_elses_doing(tmp_path):
    """As torch tells it: what the program allows itself stands where the size of the device would."""
    builder = gpu(trainer(tmp_path, flat()), [35 * GiB] * SAMPLES, [40 * GiB] * SAMPLES)
    text = f"cuda:0: {GiB} bytes asked for, {5 * GiB} free of {34 * GiB}, at /home/me/train.py:31 forward"
    builder.note(PID, 36.5, "cuda-oom", text)
    figures = {"allocated_bytes": 33 * GiB, "active_bytes": 33 * GiB, "reserved_bytes": 34 * GiB - 1000}
    findings, _, _ = looked(builder.row("allocator", 36.501, PID, device="cuda:0", **figures))
    assert [finding.severity for finding in findings] == ["warning"], "the device is nearly full, but that was not why"


def test_others_are_told_by_name_where_it_could_be_read(tmp_path):
    builder = gpu(trainer(tmp_path, flat()), [35 * GiB] * SAMPLES, [40 * GiB] * SAMPLES)
    builder.row("gpu_samples", 38.5, OTHER_PID, comm="jupyter", gpu_uuid="GPU-1", is_ours=False, gpu_used_bytes=GiB)
    (finding,), _, _ = looked(builder)
    assert finding.subject.holder == f"pid {OTHER_PID} (jupyter)"
