"""Files that the tools themselves made: the figures are theirs, and the verdict is that of the program they watched."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from leakscope import analyze
from leakscope.importing import formats

from .files import FIXTURES, imported

MIB, KIB = 1 << 20, 1 << 10


def _lines(name: str) -> list[str]:
    return (FIXTURES / name).read_text().splitlines()


def _mprof(name: str) -> list[int]:
    found = [line.split() for line in _lines(name) if line.startswith("MEM ")]
    return [round(float(words[1]) * MIB) for words in found if float(words[1])]


def _psrecord(name: str) -> list[int]:
    rows = [line.split(",") if name.endswith("csv") else line.split() for line in _lines(name)[1:]]
    mib = [float(row[3 if name.endswith("csv") else 2]) for row in rows]
    return [round(value * MIB) for value in mib if value]


def _top(name: str) -> list[int]:
    return [int(words[5]) * KIB for line in _lines(name) if (words := line.split())[11:] == ["python"]]


def _ps(name: str) -> list[int]:
    return [int(words[2]) * KIB for line in _lines(name) if (words := line.split())[7:8] == ["python"]]


def _smaps(name: str) -> list[int]:
    return [int(line.split()[1]) * KIB for line in _lines(name) if line.startswith("Rss:")]


def _atop(name: str) -> list[int]:
    found = [re.match(r"PRM .*\(python\) \w \d+ \d+ (\d+)", line) for line in _lines(name)]
    return [int(match[1]) * KIB for match in found if match]


FILES: list[tuple[str, str, Callable[[str], list[int]]]] = [
    ("mprof-{}.dat", "mprof", _mprof),
    ("psrecord-{}.txt", "psrecord", _psrecord),
    ("psrecord-{}.csv", "psrecord", _psrecord),
    ("top-{}.log", "top-log", _top),
    ("ps-{}.log", "ps-log", _ps),
    ("smaps_rollup-{}.log", "smaps", _smaps),
]


@pytest.mark.cases(2)
@pytest.mark.parametrize(("pattern", "form", "figures"), FILES, ids=[pattern for pattern, *_ in FILES])
def test_figures_of_a_real_file(tmp_path: Path, pattern: str, form: str, figures: Callable[[str], list[int]]) -> None:
    leaky, clean = (imported(tmp_path / kind, pattern.format(kind)) for kind in _folders(tmp_path))
    for recording, name in ((leaky, pattern.format("leaky")), (clean, pattern.format("clean"))):
        assert recording.tables["process_samples"]["rss_bytes"].tolist() == figures(name)
        assert recording.tables["imports"]["format"].tolist() == [form]
        assert set(recording.tables["process_samples"]["origin"]) == {name}
    assert analyze(clean).verdict.leaking is False


_SLOWER = pytest.mark.xfail(strict=True, reason="the machine was busy towards the end: it grew by a fourth of its pace")
_VERDICTS = [
    pytest.param(pattern, marks=_SLOWER if form in ("psrecord", "ps-log") else ()) for pattern, form, _ in FILES
]


@pytest.mark.cases(4)
@pytest.mark.parametrize("pattern", _VERDICTS)
def test_a_leak_in_a_real_file_is_seen(tmp_path: Path, pattern: str) -> None:
    assert analyze(imported(tmp_path, pattern.format("leaky"))).verdict.leaking is True


def _folders(tmp_path: Path) -> list[str]:
    for kind in ("leaky", "clean"):
        (tmp_path / kind).mkdir()
    return ["leaky", "clean"]


def test_what_was_not_looked_at_is_not_checked_with_the_reason(tmp_path: Path) -> None:
    report = analyze(imported(tmp_path, "mprof-leaky.dat"))
    reasons = {skip.kind: skip.reason for skip in report.skipped}
    for kind in ("oom-kill", "crash", "process-pileup", "shared-memory", "retained-objects", "mapped-files"):
        assert "resident memory alone" in reasons[kind]
    assert not {"oom-kill", "crash", "process-pileup"} & {ruled.kind for ruled in report.ruled_out}
    assert "mprof" in report.verdict.headline
    assert report.recording.command == ["python", "leaky.py", "25"]


def test_children_of_mprof_are_processes_of_their_own(tmp_path: Path) -> None:
    recording = imported(tmp_path, "mprof-workers.dat")
    children = {int(line.split()[1]) for line in _lines("mprof-workers.dat") if line.startswith("CHLD ")} - {0}
    assert children < set(recording.tables["processes"]["pid"])
    assert analyze(recording).verdict.leaking is True


def test_functions_of_mprof_are_marks(tmp_path: Path) -> None:
    marks = imported(tmp_path, "mprof-functions.dat").tables["marks"]
    assert marks["text"].tolist()[:3] == ["__main__.load() began", "__main__.load() ended", "__main__.train() began"]
    assert len(marks) == 2 * sum(line.startswith("FUNC ") for line in _lines("mprof-functions.dat"))


def test_of_runs_that_mprof_appended_the_last_counts(tmp_path: Path) -> None:
    both = tmp_path / "mprofile_1.dat"
    both.write_text((FIXTURES / "mprof-leaky.dat").read_text() + (FIXTURES / "mprof-clean.dat").read_text())
    recording = imported(tmp_path, both)
    assert recording.tables["process_samples"]["rss_bytes"].tolist() == _mprof("mprof-clean.dat")
    assert analyze(recording).verdict.leaking is False


def test_atop_tells_processes_and_the_machine(tmp_path: Path) -> None:
    recording = imported(tmp_path, "atop-leaky.txt")
    assert recording.tables["process_samples"]["rss_bytes"].tolist() == _atop("atop-leaky.txt")
    assert recording.tables["processes"]["cmdline"].tolist()[0] == "python leaky.py 45"
    memory = next(line.split() for line in _lines("atop-leaky.txt") if line.startswith("MEM "))
    assert recording.tables["host_samples"]["mem_total_bytes"].dropna().iloc[0] == int(memory[6]) * int(memory[7])


def test_sar_tells_the_machine_and_no_leak_of_a_process(tmp_path: Path) -> None:
    recording = imported(tmp_path, "sar.json")
    document = json.loads((FIXTURES / "sar.json").read_text())
    entries = document["sysstat"]["hosts"][0]["statistics"]
    known = [entry["memory"]["avail"] * KIB for entry in entries if "memory" in entry]
    host = recording.tables["host_samples"]
    assert host["mem_available_bytes"].tolist() == known
    assert abs(host["mem_total_bytes"].iloc[0] / (24105 * MIB) - 1) < 0.001
    verdict = analyze(recording).verdict
    assert verdict.leaking is None
    assert "that of the machine" in verdict.headline


def test_top_tells_the_machine_too(tmp_path: Path) -> None:
    host = imported(tmp_path, "top-leaky.log").tables["host_samples"]
    assert host["mem_total_bytes"].unique().tolist() == [round(24105.1 * MIB)]
    assert host["mem_available_bytes"].notna().all()


def test_nvidia_smi_finds_the_gpu_that_fills(tmp_path: Path) -> None:
    recording = imported(tmp_path, "nvidia-smi.csv")
    used = [int(line.split(",")[3].split()[0]) * MIB for line in _lines("nvidia-smi.csv")[1:]]
    assert sorted(recording.tables["gpu_samples"]["gpu_used_bytes"]) == sorted(used)
    report = analyze(recording)
    assert report.verdict.leaking is True
    assert [finding.kind for finding in report.findings] == ["gpu-retention"]
    assert report.findings[0].subject.device == "GPU 0"
    assert report.verdict.limit == "gpu:0"


@pytest.mark.parametrize(
    ("name", "gained"),
    [("nvidia-apps.csv", 960 * MIB), ("nvidia-dmon.log", 570 * MIB), ("nvidia-pmon.log", 960 * MIB)],
)
def test_other_tables_of_nvidia_smi(tmp_path: Path, name: str, gained: int) -> None:
    report = analyze(imported(tmp_path, name))
    assert [(finding.kind, finding.bytes) for finding in report.findings] == [("gpu-retention", gained)]


def test_nvidia_smi_without_units_and_with_what_cannot_be_read(tmp_path: Path) -> None:
    rows = [f"2026/11/25 10:00:{i:02d}.1, 0, {4000 + i}, 40960" for i in range(20)]
    path = tmp_path / "gpu.csv"
    header = "timestamp, index, memory.used [MiB], memory.total [MiB]"
    path.write_text(
        "\n".join(["some line of a script", header, *rows, "2026/11/25 10:00:21.1, 0, [N/A], 40960", header])
    )
    recording = imported(tmp_path, path)
    assert recording.tables["gpu_samples"]["gpu_used_bytes"].tolist() == [(4000 + i) * MIB for i in range(20)]
    assert "1 lines or values" in recording.tables["imports"]["text"].iloc[0]


@pytest.mark.parametrize("name", ["prometheus.json", "cadvisor.json"])
def test_a_container_that_grows_towards_its_limit(tmp_path: Path, name: str) -> None:
    report = analyze(imported(tmp_path, name))
    assert report.verdict.leaking is True
    assert report.verdict.limit == "cgroup"
    assert [row.process for row in report.processes] == ["trainer"] or "trainer" in report.verdict.headline


@pytest.mark.parametrize(("name", "first", "last"), [("nvitop.csv", 1004, 1004 + 8 * 39), ("wandb.csv", 900.5, 1134.5)])
def test_series_of_monitors(tmp_path: Path, name: str, first: float, last: float) -> None:
    samples = imported(tmp_path, name).tables["process_samples"]["rss_bytes"]
    assert [samples.iloc[0], samples.iloc[-1]] == [round(first * MIB), round(last * MIB)]


def test_a_pod_that_was_killed(tmp_path: Path) -> None:
    report = analyze(imported(tmp_path, "describe-pod.txt"))
    assert report.verdict.killed
    assert report.recording.ended == "oom-killed"
    kill = next(finding for finding in report.findings if finding.kind == "oom-kill")
    assert kill.subject.process == "trainer"
    assert any("OOMKilled" in evidence.text for evidence in kill.evidence)


def test_a_kill_among_events(tmp_path: Path) -> None:
    report = analyze(imported(tmp_path, "events.json"))
    assert report.verdict.killed
    assert next(f for f in report.findings if f.kind == "oom-kill").subject.pid == 4242


@pytest.mark.parametrize("name", ["memcg-kill.kmsg", "memcg-kill.journal.json", "child-in-its-place.log"])
def test_a_kill_in_a_kernel_log(tmp_path: Path, name: str) -> None:
    log = FIXTURES.with_name("oom-logs") / name
    expected = json.loads(log.with_name(f"{name}.expected.json").read_text())
    events = expected["events"] if isinstance(expected, dict) else expected
    report = analyze(imported(tmp_path, log))
    assert report.verdict.killed
    assert next(f for f in report.findings if f.kind == "oom-kill").subject.pid == events[0]["pid"]


def test_every_format_says_what_it_reads() -> None:
    assert {"mprof", "psrecord", "nvidia-smi", "kernel-log", "memray", "wandb-run"} <= formats().keys()
    assert all(len(text) > 20 for text in formats().values())


def test_scalene_tells_what_lines_kept(tmp_path: Path) -> None:
    recording = imported(tmp_path, "scalene.json")
    document = json.loads((FIXTURES / "scalene.json").read_text())
    lines = [line for profile in document["files"].values() for line in profile["lines"]]
    kept = {line["lineno"]: round(line["n_growth_mb"] * MIB) for line in lines if line["n_growth_mb"]}
    stacks = recording.tables["allocation_stacks"]
    assert dict(zip(stacks["owner_line"], stacks["live_bytes"])) == kept
    assert f"{document['max_footprint_mb']:,.1f} MiB" in recording.tables["imports"]["text"].iloc[0]


@pytest.mark.parametrize("has_header", [True, False])
def test_gpus_without_an_index_are_told_apart(tmp_path: Path, has_header: bool) -> None:
    """As in NVIDIA's own example for logging: each GPU of a reading some milliseconds after the one before."""
    columns = "pci.bus_id, driver_version, pstate, pcie.link.gen.max, pcie.link.gen.current, temperature.gpu"
    sizes = "utilization.gpu [%], utilization.memory [%], memory.total [MiB], memory.free [MiB], memory.used [MiB]"
    header = f"timestamp, name, {columns}, {sizes}"
    rows = [
        f"2026/11/25 10:00:{i:02d}.{177 + 9 * gpu}, NVIDIA A100, 00000000:{gpu}B:00.0, 545.23, P0, 4, 4, 44, 0 %, 0 %, "
        f"40960 MiB, {40000 - 100 * gpu * i} MiB, {960 + 100 * gpu * i} MiB"
        for i in range(30)
        for gpu in (0, 1)
    ]
    path = tmp_path / "gpu.csv"
    path.write_text("\n".join([header, *rows] if has_header else rows))
    samples = imported(tmp_path, path).tables["gpu_samples"]
    assert samples["gpu_index"].tolist() == [0, 1] * 30
    by_gpu = samples.groupby("gpu_uuid")["gpu_used_bytes"].max()
    assert by_gpu.tolist() == [960 * MIB, (960 + 2900) * MIB]
