"""How near memory came to its limits, when the next one will be reached, and whose memory it is."""

from __future__ import annotations

import pytest

from leakscope import analyze
from tests.sentences import says

from .leaks import LEAK_BYTES_PER_S, PID, RUN_S, sentinels, trainer

MiB, GiB = 1024**2, 1024**3
LOOKS = int(RUN_S * 4)


def levels(start_mib: float, mib_per_s: float = 0.0) -> list[int]:
    """As the samples of ``trainer``, four a second."""
    return [round((start_mib + mib_per_s * i * 0.25) * MiB) for i in range(LOOKS)]


def in_cgroup(tmp_path, start_mib, limit_mib, *, leak=0, **columns):
    builder = trainer(tmp_path, leak=leak)
    used = levels(start_mib, leak / MiB)
    files = {"cgroup_file_bytes": 0, "cgroup_shmem_bytes": 0, **columns}
    return builder.cgroup(used, limit_mib * MiB, every_s=0.25, **files)


def looked(builder, **options):
    report = analyze(builder.ends(RUN_S).open(), **options)
    pressure = [f for f in report.findings if f.kind == "memory-pressure"]
    ruled_out = [r for r in report.ruled_out if r.kind == "memory-pressure"]
    return report.verdict, pressure, ruled_out


def test_a_leak_in_a_cgroup_has_a_forecast_in_seconds_and_steps(tmp_path):
    builder = in_cgroup(tmp_path, 100, 1100, leak=LEAK_BYTES_PER_S)
    builder = sentinels(builder, step=[5 * s for s in range(int(RUN_S))])
    verdict, findings, (ruled_out,) = looked(builder)
    assert (verdict.limit, verdict.leaking) == ("cgroup", True)
    assert verdict.seconds_to_limit == pytest.approx(80, rel=0.1)  # 300 MiB at the end, 10 more each second
    assert not findings
    assert says(ruled_out.reason, "27%", "cgroup /job (1.1 GiB)", "at this rate")
    figures = ruled_out.figures
    assert figures["seconds_low"] <= figures["seconds_to_limit"] <= figures["seconds_high"]
    assert figures["step_at_limit"] == pytest.approx(5 * 100, rel=0.1)


def test_the_forecast_is_for_the_limit_that_comes_first(tmp_path):
    builder = in_cgroup(tmp_path, 100, 1100, leak=LEAK_BYTES_PER_S)
    builder.host([32 * GiB - used for used in levels(100, 10)], 64 * GiB, every_s=0.25)
    address_space = {"limit_name": "rlimit-as", "used_bytes": levels(500, 10), "limit_bytes": 1000 * MiB}
    builder.series("limit_samples", PID, 0.25, **address_space)
    verdict, *_ = looked(builder)
    assert verdict.limit == "rlimit"
    assert verdict.seconds_to_limit == pytest.approx(30, rel=0.1)


@pytest.mark.parametrize("used_mib", [100, 600])
def test_a_job_that_uses_much_of_a_machine_and_does_not_grow_is_no_finding(tmp_path, used_mib):
    builder = trainer(tmp_path, leak=0).host([(1000 - used_mib) * MiB] * LOOKS, 1000 * MiB, every_s=0.25)
    verdict, findings, (ruled_out,) = looked(builder)
    assert (verdict.limit, verdict.seconds_to_limit) == ("host", None)
    assert not findings
    assert ruled_out.figures["used_fraction"] == used_mib / 1000


def test_no_forecast_from_a_start_up(tmp_path):
    loading = [min(level, 600 * MiB) for level in levels(100, 100)]
    builder = trainer(tmp_path, leak=0)
    builder.cgroup(loading, 1000 * MiB, every_s=0.25, cgroup_file_bytes=0, cgroup_shmem_bytes=0)
    verdict, *_ = looked(builder)
    assert verdict.seconds_to_limit is None


@pytest.mark.cases(2)
@pytest.mark.parametrize(
    ("start_mib", "leak", "severity"),
    [(870, 0, "note"), (960, 0, "warning"), (690, LEAK_BYTES_PER_S, "warning"), (790, LEAK_BYTES_PER_S, "critical")],
)
def test_severity_is_by_level_and_by_growth(tmp_path, start_mib, leak, severity):
    builder = trainer(tmp_path, leak=leak)
    builder = RESIZED[leak](builder, start_mib)
    verdict, (finding,), _ = looked(builder, only=["memory-pressure"])
    assert finding.severity == severity
    assert finding.bytes == 0
    assert (verdict.seconds_to_limit is None) == (leak == 0)
    text = " ".join(e.text for e in finding.evidence)
    assert ("at this rate" in text) == (leak > 0)


def _cgroup(builder, start_mib, mib_per_s):
    used = levels(start_mib, mib_per_s)
    return builder.cgroup(used, 1000 * MiB, every_s=0.25, cgroup_file_bytes=0, cgroup_shmem_bytes=0)


RESIZED = {0: lambda b, s: _cgroup(b, s, 0), LEAK_BYTES_PER_S: lambda b, s: _cgroup(b, s, 10)}


def test_the_cause_stands_above_the_pressure_it_makes(tmp_path):
    builder = sentinels(in_cgroup(tmp_path, 790, 1000, leak=LEAK_BYTES_PER_S))
    for number, at_s in enumerate((4, 8, 12, 16), 1):
        held = round(LEAK_BYTES_PER_S * at_s)
        builder.take(PID, number, at_s, rss_bytes=300 * MiB + held)
        builder.heap(PID, number, at_s, held, 100 * at_s, is_sampled=False, weighs_tensors=True)
    report = analyze(builder.ends(RUN_S).open())
    assert [f.kind for f in report.findings][:2] == ["retained-objects", "memory-pressure"]


def test_what_stands_in_the_headline(tmp_path):
    builder = in_cgroup(tmp_path, 970, 1000)
    title = "97% of cgroup /job (1000 MiB) was used, most of it outside this job"
    assert looked(builder)[0].headline.startswith(f"{title}. No leak: ")


def test_a_job_that_was_killed_has_no_forecast(tmp_path):
    builder = trainer(tmp_path, leak=LEAK_BYTES_PER_S)
    kills = {"oom_kill_count": [0] * (LOOKS - 1) + [1], "cgroup_file_bytes": 0, "cgroup_shmem_bytes": 0}
    builder.cgroup(levels(100, 10), 310 * MiB, every_s=0.25, **kills).ends(RUN_S, signal=9)
    report = analyze(builder.open())
    assert (report.verdict.killed, report.verdict.limit, report.verdict.seconds_to_limit) == (True, "cgroup", None)
    (pressure,) = [f for f in report.findings if f.kind == "memory-pressure"]
    assert pressure.severity == "note"
    assert report.findings[0].kind == "oom-kill"
    assert "was used" not in report.verdict.headline


def test_of_a_process_that_its_limit_ended_it_is_a_note(tmp_path):
    builder = trainer(tmp_path)
    used = {"limit_name": "rlimit-as", "used_bytes": levels(700, 10), "limit_bytes": 905 * MiB}
    builder.series("limit_samples", PID, 0.25, **used)
    assert [f.severity for f in looked(builder)[1]] == ["critical"]
    refused = {"crash_source": "exception", "exception_type": "MemoryError", "last_words": "MemoryError"}
    builder.row("crash_text", RUN_S, PID, **refused)
    builder.ends(RUN_S, exit_code=1)
    report = analyze(builder.open())
    assert [(f.kind, f.severity) for f in report.findings if f.kind in ("crash", "memory-pressure")] == [
        ("crash", "critical"),
        ("memory-pressure", "note"),
    ]


def test_how_long_and_what_it_cost(tmp_path):
    used = [500 * MiB] * 40 + [900 * MiB] * 24 + [970 * MiB] * 8 + [500 * MiB] * 8
    builder = trainer(tmp_path, leak=0, swap_bytes=30 * MiB)
    pressure = {"psi_some_avg10": 42.0, "psi_full_avg10": 7.0}
    builder.cgroup(used, 1000 * MiB, every_s=0.25, cgroup_file_bytes=0, cgroup_shmem_bytes=0, **pressure)
    _, (finding,), _ = looked(builder)
    figures = {key: value for e in finding.evidence for key, value in e.figures.items()}
    assert (figures["seconds_above_high"], figures["seconds_above_full"]) == (8.0, 2.0)
    assert (figures["psi_some_avg10"], figures["psi_full_avg10"]) == (42.0, 7.0)
    assert figures["swap_bytes"] == 30 * MiB


def test_page_cache_is_no_pressure(tmp_path):
    _, findings, _ = looked(in_cgroup(tmp_path, 980, 1000, cgroup_file_bytes=900 * MiB))
    assert not findings


def test_memory_of_others_is_named_as_such(tmp_path):
    builder = trainer(tmp_path, leak=0).host([40 * MiB] * LOOKS, 1000 * MiB, every_s=0.25)
    _, (finding,), _ = looked(builder)
    assert says(finding.title, "96% of the machine (1000 MiB)", "outside this job")
    assert finding.severity == "warning"
    figures = {key: value for e in finding.evidence for key, value in e.figures.items()}
    assert (figures["job_bytes"], figures["others_bytes"]) == (100 * MiB, 860 * MiB)
    assert "--system" in finding.remedy[0]


def in_dev_shm(builder, used, limit_mib, *, own=None):
    """``own``: what of it lies in segments that the job maps; None: it made none."""
    builder.series("limit_samples", None, 0.25, limit_name="dev-shm", used_bytes=used, limit_bytes=limit_mib * MiB)
    kind = {"segment_kind": "dev-shm", "segment_name": "torch_*", "segment_count": 9, "mapped_by": str(PID)}
    if own is not None:
        builder.series("shared_segments", None, 0.25, segment_bytes=own, unmapped_bytes=0, **kind)
    return builder


def test_a_full_dev_shm_says_what_it_leads_to(tmp_path):
    used = [62 * MiB] * LOOKS
    _, (finding,), _ = looked(in_dev_shm(trainer(tmp_path, leak=0), used, 64, own=used))
    assert "bus error" in finding.evidence[0].text
    assert "--shm-size" in finding.remedy[0]


def test_a_dev_shm_that_others_filled_is_not_told_as_the_jobs(tmp_path):
    _, (finding,), _ = looked(in_dev_shm(trainer(tmp_path, leak=0), [62 * MiB] * LOOKS, 64))
    assert "not known to be this job's" in finding.title and "ls -l /dev/shm" in finding.remedy[0]
    figures = {key: value for e in finding.evidence for key, value in e.figures.items()}
    assert (figures["job_bytes"], figures["others_bytes"]) == (0, 62 * MiB)


@pytest.mark.parametrize(
    ("own", "limit"), [(None, None), (levels(40), None), (levels(90, 20), "dev-shm")], ids=["others", "flat", "its own"]
)
def test_a_dev_shm_that_others_fill_is_no_forecast_of_this_job(tmp_path, own, limit):
    verdict, *_ = looked(in_dev_shm(trainer(tmp_path, leak=0), levels(100, 20), 1000, own=own))
    assert verdict.limit == limit
    assert (verdict.seconds_to_limit is None) == (limit is None)


@pytest.mark.parametrize(("ours", "limit"), [(levels(90, 20), "gpu:3"), (levels(90), None)])
def test_a_gpu_that_others_fill_is_no_forecast_of_this_job(tmp_path, ours, limit):
    device = {"gpu_uuid": "GPU-1", "gpu_index": 3, "gpu_total_bytes": 1000 * MiB, "gpu_used_bytes": levels(100, 20)}
    builder = trainer(tmp_path, leak=0).series("gpu_samples", None, 0.25, **device)
    own = {"gpu_uuid": "GPU-1", "gpu_index": 3, "is_ours": True, "gpu_used_bytes": ours}
    verdict, *_ = looked(builder.series("gpu_samples", PID, 0.25, **own))
    assert verdict.limit == limit


def test_a_full_gpu_is_no_pressure_but_one_that_fills_up_is_forecast(tmp_path):
    def gpu(used):
        device = {"gpu_uuid": "GPU-1", "gpu_index": 3, "gpu_total_bytes": 1000 * MiB, "gpu_used_bytes": used}
        return trainer(tmp_path, leak=0).series("gpu_samples", None, 0.25, **device)

    verdict, findings, _ = looked(gpu(levels(980)))
    assert not findings
    assert verdict.limit is None
    verdict, findings, _ = looked(gpu(levels(100, 20)))
    assert verdict.limit == "gpu:3"
    assert verdict.seconds_to_limit == pytest.approx(25, rel=0.1)


def test_without_any_limit_it_is_skipped(tmp_path):
    report = analyze(trainer(tmp_path, leak=0).ends(RUN_S).open(), only=["memory-pressure"])
    assert [s.kind for s in report.skipped] == ["memory-pressure"]
    assert (report.verdict.limit, report.verdict.seconds_to_limit) == (None, None)
