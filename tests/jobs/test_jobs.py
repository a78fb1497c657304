"""The ranks of a job told as one: who leaks, who does not, on whom unclear, and what is not of one job."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from leakscope.cli import main
from leakscope.jobs import JobReport, recordings_in, render, report_job
from leakscope.jobs._recordings import of_one_job
from tests.builders import START_UNIX_NS, RecordingBuilder
from tests.comparing.runs import MiB, run

pytestmark = pytest.mark.judging
REAL = Path(__file__).with_name("recordings")
S = 1_000_000_000


def job(folder: Path, leaks: list[float], **each: Any) -> Path:
    """Ranks that leak so many bytes a step, one a file, all on one machine."""
    for rank, leak in enumerate(leaks):
        run(folder, f"run.rank{rank}.parquet", leak_per_step=leak, boot_id="b", **each).write()
    return folder


def told(folder: Path) -> JobReport:
    return report_job([folder], workers=1)


@pytest.mark.golden
def test_a_real_torchrun_of_four_ranks_names_the_one_that_leaks():
    found = told(REAL)
    verdict = found.verdict
    assert (verdict.leaking, verdict.leaking_ranks, verdict.steady_ranks) == (True, [2], [0, 1, 3])
    assert verdict.headline.startswith("Rank 2 leaks, the other 3 do not: Trainer.history (list)")
    first = found.clusters[0]
    assert (first.ranks, first.finding.subject.line) == ([2], 27)
    assert first.excerpt is not None
    assert [row.offset_s for row in found.ranks] != [0] * 4  # four recorders do not begin at once
    assert {node.aligned_by for node in found.nodes} == {"alone"}


def test_two_hosts_are_one_timeline_and_one_verdict(tmp_path: Path):
    """Of four ranks on two hosts whose clocks count from other moments, rank 3 leaks; a wall clock is 90 s behind."""
    job(tmp_path, [0, 0])
    late = {"duration_s": 25.0, "first_step": 51, "boot_id": "c", "host": "other"}
    for rank, leak in ((2, 0.0), (3, 0.5 * MiB)):
        run(
            tmp_path, f"run.rank{rank}.parquet", leak_per_step=leak, **late,
            start_unix_ns=START_UNIX_NS - 85 * S,
            belongs={"job": "j", "rank": rank, "world_size": 4},
        ).write()  # fmt: skip
    found = told(tmp_path)
    assert found.verdict.headline.startswith("Rank 3 leaks, the other 3 do not: Trainer.history (list)")
    assert [row.offset_s for row in found.ranks] == pytest.approx([0, 0, 5, 5], abs=0.2)
    other = found.nodes[1]
    assert (other.node, other.ranks, other.aligned_by) == ("other", [2, 3], "steps")
    assert other.wall_off_s == pytest.approx(-90, abs=0.2)
    assert found.ranks[2].value_bytes[0] is None  # it was not yet recorded
    assert found.ranks[0].value_bytes[0] is not None
    (cluster,) = found.clusters
    assert (cluster.ranks, cluster.nodes, cluster.finding.subject.line) == ([3], ["other"], 12)
    assert (
        sum(account.growth_bytes for account in other.ledger)
        == found.ranks[2].growth_bytes + found.ranks[3].growth_bytes
    )


def test_all_leak_alike(tmp_path: Path):
    found = told(job(tmp_path, [0.5 * MiB] * 2))
    assert found.verdict.headline.startswith("All 2 ranks leak: Trainer.history (list)")
    assert "on all of them, alike" in found.verdict.headline
    assert [cluster.ranks for cluster in found.clusters] == [[0, 1]]
    assert found.clusters[0].bytes > 1.5 * found.clusters[0].median_bytes


@pytest.mark.further
def test_on_some_nobody_can_tell_and_the_reason_is_said(tmp_path: Path):
    job(tmp_path, [0, 0, 0])
    run(tmp_path, "run.rank1.parquet", duration_s=3.0, boot_id="b").write()
    torn = tmp_path / "run.rank2.parquet"
    torn.write_bytes(torn.read_bytes()[:-50])
    found = told(tmp_path)
    verdict = found.verdict
    assert (verdict.leaking, verdict.steady_ranks, verdict.unclear_ranks) == (None, [0], [1, 2])
    assert "annot tell on rank 1: " in verdict.headline
    assert "truncated" in verdict.headline
    assert found.rest[str(torn)]


def test_a_rank_that_failed_is_named(tmp_path: Path):
    job(tmp_path, [0])
    run(tmp_path, "run.rank1.parquet", boot_id="b").ends(29.9, exit_code=3).write()
    headline = told(tmp_path).verdict.headline
    assert headline.startswith("No leak: none of the 2 ranks keeps growing.")
    assert "Rank 1: exit status 3." in headline


def test_ranks_without_a_recording_are_missed(tmp_path: Path):
    job(tmp_path, [0, 0], belongs={"job": "j", "world_size": 4})
    found = told(tmp_path)
    assert (found.verdict.leaking, found.verdict.missing_ranks, found.clusters) == (False, [2, 3], [])
    said = "No leak: none of the 2 ranks keeps growing. There is no recording of ranks 2 and 3 of 4."
    assert found.verdict.headline == said


@pytest.mark.further
def test_a_rank_that_holds_more_than_its_siblings_is_odd_without_a_leak(tmp_path: Path):
    job(tmp_path, [0] * 3)
    run(tmp_path, "run.rank3.parquet", level=900 * MiB, boot_id="b").write()
    found = told(tmp_path)
    assert found.verdict.leaking is False
    assert [row.rank for row in found.ranks if row.odd] == [3]
    assert found.ranks[3].odd == "700 MiB more than the rank in the middle"


def test_one_recording_of_a_launcher_has_all_its_ranks(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    builder = RecordingBuilder(tmp_path, "node.parquet").process(1, role="launcher", cmdline="torchrun train.py")
    builder.samples(1, [30 * MiB] * 120, every_s=0.25)
    for rank in range(3):
        pid, leak = 10 + rank, 4 * MiB if rank == 1 else 0
        builder.process(pid, rank=rank, local_rank=rank)
        held = [200 * MiB + n * leak // 4 for n in range(120)]
        builder.samples(pid, held, every_s=0.25)
        builder.sentinels(pid, step=[n * 10 for n in range(30)], malloc_in_use_bytes=held[::4])
        if rank == 2:  # its loader
            builder.process(20, role="dataloader-worker", ppid=pid, rank=rank)
            builder.samples(20, [50 * MiB] * 120, every_s=0.25)
    path = builder.ends(at_s=30).write()
    assert main(["report", "--ranks", str(path), "-f", "json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == "leakscope.job/1"
    assert found["verdict"]["headline"].startswith("Rank 1 leaks, the other 2 do not")
    assert [row["rank"] for row in found["ranks"]] == [0, 1, 2]
    peaks = [row["peak_bytes"] / MiB for row in found["ranks"]]
    assert peaks == pytest.approx([200, 319, 250], abs=2)
    (node,) = found["nodes"]
    beside = next(one for one in node["ledger"] if one["account"] == "beside-ranks")
    assert beside["end_bytes"] == 30 * MiB


@pytest.mark.further
def test_of_several_attempts_the_last_is_told(tmp_path: Path):
    job(tmp_path, [0, 0])
    later = {"boot_id": "b", "start_unix_ns": START_UNIX_NS + 100 * S, "belongs": {"rank": 1, "attempt": 1}}
    run(tmp_path, "again.parquet", leak_per_step=0.5 * MiB, **later).write()
    found = told(tmp_path)
    assert found.verdict.leaking_ranks == [1]
    assert found.ranks[1].path.endswith("again.parquet")
    assert "earlier attempt of rank 1" in found.rest[str(tmp_path / "run.rank1.parquet")]


def test_what_is_not_of_one_job_is_told_in_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    job(tmp_path / "one", [0])
    other = run(tmp_path / "two", "run.rank1.parquet", command=["python", "evaluate.py"]).write()
    nameless = run(tmp_path / "three", "run.parquet").write()
    twice = tmp_path / "four"
    job(twice, [0])
    shutil.copy(twice / "run.rank0.parquet", twice / "copy.rank0.parquet")
    (tmp_path / "five").mkdir()
    cases = [
        ([tmp_path / "one", other], "not of one job", "report each by itself"),
        ([tmp_path / "one", nameless], "does not say which rank", "record each rank with -o"),
        ([nameless, nameless], "does not say which rank", "leakscope compare BEFORE AFTER"),
        ([tmp_path / "three"], "does not say which rank", "leakscope fleet index FOLDER"),
        ([twice], "both of rank 0 at the same time", "of one job only"),
        ([tmp_path / "five"], "has no recording in it", "name a folder"),
    ]
    for runs, what, do in cases:
        assert main(["report", *map(str, runs)]) == 2
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert what in said
        assert do in said


def test_recordings_of_two_jobs_with_names_are_not_mixed(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    for rank, name in enumerate(("j1", "j2")):
        run(tmp_path, f"run.rank{rank}.parquet", belongs={"job": name, "rank": rank}).write()
    assert main(["report", str(tmp_path)]) == 2
    assert "job j1 and job j2" in capsys.readouterr().err


def test_numbers_in_a_command_do_not_make_another_job(tmp_path: Path):
    for rank in range(2):
        command = ["python", "train.py", f"--local-rank={rank}"]
        run(tmp_path, f"run.rank{rank}.parquet", command=command, boot_id="b").write()
    assert [one.ranks for one in of_one_job(recordings_in([tmp_path])).candidates] == [[0], [1]]


@pytest.mark.further
def test_a_finding_that_the_project_accepts_is_counted_not_shown(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    job(tmp_path / "job", [0.5 * MiB, 0])
    (tmp_path / "pyproject.toml").write_text(
        '[tool.leakscope]\nignore = [{holder = "Trainer.history*", reason = "known"}]\n', encoding="utf-8"
    )
    monkeypatch.chdir(tmp_path)
    assert main(["report", "job", "--exit-code"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("LEAKING")  # the verdict stays what was measured
    assert "1 finding is ignored by pyproject.toml" in said
    assert main(["report", "job", "--exit-code", "--all-findings"]) == 1


@pytest.mark.further
def test_two_jobs_are_compared_rank_by_rank(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    before = job(tmp_path / "before", [0, 0, 0])
    after = job(tmp_path / "after", [0, 0.5 * MiB])
    output = tmp_path / "jobs.json"
    assert main(["compare", str(before), str(after), "-o", str(output)]) == 1
    found = json.loads(output.read_text(encoding="utf-8"))
    assert (found["schema"], found["verdict"], found["only_before"]) == ("leakscope.compare-jobs/1", "worse", [2])
    assert [one["comparison"]["verdict"] for one in found["ranks"]] == ["same", "worse"]
    assert found["reason"].startswith("rank 1 is worse (memory leaks now")
    assert "rank 0 is the same" in found["reason"]


def test_jobs_without_a_rank_in_common_cannot_be_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    job(tmp_path / "before", [0])
    run(tmp_path / "after", "run.rank5.parquet").write()
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after")]) == 2
    assert "no rank in common (rank 0; rank 5)" in capsys.readouterr().err


@pytest.mark.slow
@pytest.mark.live
def test_many_ranks_are_read_by_several_processes_and_told_alike(tmp_path: Path):
    job(tmp_path, [0, 0, 0, 0.5 * MiB, 0])
    command = [sys.executable, "-m", "leakscope", "report", str(tmp_path), "-f", "json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == render(told(tmp_path), "json")
