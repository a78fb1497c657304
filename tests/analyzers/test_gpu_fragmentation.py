"""Memory in pieces: proven by a failure with more unused than asked for, told from a full device and from a cache."""

from __future__ import annotations

from leakscope.agent.torch.cuda import oom_text
from leakscope.facts.accounts.gpu import all_ooms
from tests.sentences import says

from .asking import asked
from .gpus import PID, TOTAL, GiB, MiB, flat, runs_out, trainer


def looked(builder):
    report = asked(builder.open(), only=["gpu-fragmentation"])
    return report.findings, report.ruled_out, report.skipped


def test_a_failure_with_more_unused_than_asked_for(tmp_path):
    builder = runs_out(trainer(tmp_path, flat()), 40.5, requested=2 * GiB, reserved=79 * GiB, allocated=70 * GiB)
    (finding,), _, _ = looked(builder)
    assert says(finding.title, "cuda:0", "2.0 GiB", "9.0 GiB unused")
    assert finding.bytes == 9 * GiB
    assert finding.severity == "critical"
    assert (finding.subject.file, finding.subject.line, finding.subject.function) == (
        "/home/me/train.py",
        31,
        "forward",
    )
    assert "expandable_segments:True" in finding.remedy[0]


def test_a_device_that_is_really_full(tmp_path):
    builder = runs_out(trainer(tmp_path, flat()), 40.5, requested=2 * GiB, reserved=79 * GiB, allocated=78 * GiB)
    findings, (ruled_out,), _ = looked(builder)
    assert not findings
    assert says(ruled_out.reason, "full", "2.0 GiB", "1.0 GiB of 79.0 GiB") and "scraps" not in ruled_out.reason


def test_scraps_that_add_up_to_a_small_request_are_no_fragmentation(tmp_path):
    builder = runs_out(trainer(tmp_path, flat()), 40.5, requested=9 * MiB, reserved=79 * GiB, allocated=78 * GiB)
    findings, (ruled_out,), _ = looked(builder)
    assert not findings
    assert says(ruled_out.reason, "full", "9.0 MiB", "1.0 GiB of 79.0 GiB", "scraps")


def test_a_failure_without_figures_proves_nothing(tmp_path):
    builder = trainer(tmp_path, flat()).note(PID, 60.0, "cuda-oom", oom_text(0, GiB, TOTAL, 0, ""))
    findings, (ruled_out,), _ = looked(builder)
    assert not findings
    assert "shows no fragmentation" in ruled_out.reason


def test_flushes_of_a_cache_that_is_ever_more_cut_up(tmp_path):
    cut = {"inactive_split_bytes": [100 * MiB * s for s in range(40)], "alloc_retry_count": [s // 4 for s in range(40)]}
    (finding,), _, _ = looked(trainer(tmp_path, flat(), **cut))
    assert says(finding.title, "cuda:0", "fragmented", "9 times")
    assert finding.severity == "warning"


def test_flushes_alone_are_how_it_is_meant_to_work(tmp_path):
    findings, (ruled_out,), _ = looked(trainer(tmp_path, flat(), alloc_retry_count=[s // 4 for s in range(40)]))
    assert not findings
    assert ruled_out.figures["alloc_retry_count"] == 9


def test_a_large_cache_is_ruled_out_with_its_figures(tmp_path):
    findings, (ruled_out,), _ = looked(trainer(tmp_path, flat(), reserved_bytes=[30 * GiB] * 40))
    assert not findings
    assert says(ruled_out.reason, "30.0 GiB reserved", "10.0 GiB", "cache")


def test_what_the_agent_writes_is_what_is_read(tmp_path):
    frames = "/a b/train: x.py:31 forward < /home/me/main.py:9 <module> (in backward)"
    builder = trainer(tmp_path, flat()).note(PID, 3.0, "cuda-oom", oom_text(1, 2 * GiB, TOTAL, GiB, frames))
    (oom,) = all_ooms(builder.open(), ())
    assert (oom.device, oom.requested_bytes, oom.free_bytes, oom.total_bytes) == ("cuda:1", 2 * GiB, GiB, TOTAL)
    assert (oom.file, oom.line, oom.function) == ("/a b/train: x.py", 31, "forward")


def test_without_a_gpu_it_is_skipped(tmp_path):
    from tests.builders import RecordingBuilder

    _, _, (skipped,) = looked(RecordingBuilder(tmp_path).process(PID).samples(PID, [GiB] * 30))
    assert says(skipped.reason, "no GPU")
