"""What a fleet says of a recording is what its own report says: in lists, whoever judged it, and when."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from leakscope.cli import main
from leakscope.fleet import index
from leakscope.fleet.index import read_index
from leakscope.fleet.listing import listed
from leakscope.fleet.population import Population
from leakscope.fleet.report import report_of as fleet_report
from leakscope.reporting import analyze, answer_of
from leakscope.storage import keep_answer, open_recording
from leakscope.storage.columnar import write_recording
from leakscope.storage.footer import add_to_footer
from tests.builders import RecordingBuilder
from tests.golden import RECORDINGS

ALL = sorted(RECORDINGS.glob("*.parquet"))
SOME = [
    RECORDINGS / f"{name}.parquet"
    for name in ("small_results_between_large_buffers-clean", "retained_objects_local_list-leaky", "fd_pileup-clean")
]
# Of a look at 3 s, as recorders wrote it beside the verdict: none of it is so of the whole run.
STALE = {
    "verdict": {"leaking": None, "killed": False, "headline": "Cannot tell yet", "growth_bytes": 1, "as_of_s": 3.0},
    "figures": {"duration_s": 3.0, "ended": "lost", "exit_code": None, "peak_bytes": 7, "limit_bytes": 5 << 30},
}


def compare(folder: Path, recordings: Sequence[Path]) -> None:
    """Each recording is judged by who recorded it, by who indexes it, or anew since its verdict is provisional."""
    left = 0
    for number, path in enumerate(recordings):
        own = Path(shutil.copy(path, folder))
        recording = open_recording(own)
        is_by_its_recorder = number % 3 == 0 or (number % 3 == 2 and "verdict" in recording.meta)
        left += not is_by_its_recorder
        if is_by_its_recorder:
            assert keep_answer(recording, answer_of(recording).footer)
        elif number % 3 == 1:
            assert add_to_footer(own, STALE)
    output = folder / "fleet.index"
    # In a process of its own: the helpers of many recordings stay as long as it does.
    command = [sys.executable, "-m", "leakscope", "fleet", "index", str(folder), "-o", str(output), "--judge", "3600"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert f"{left} judged" in done.stderr
    rows = json.loads(listed(output, format_name="json"))["recordings"]
    differ = [row["url"] for row in rows if in_list(row) != in_report(Path(row["url"]))]
    assert len(rows) == len(recordings)
    assert not differ


def in_list(row: dict[str, Any]) -> tuple[Any, ...]:
    names = ("leaking", "killed", "headline", "ended", "exit_code", "signal", "duration_s", "peak_bytes")
    return (*(row[name] for name in names), [one["fingerprint"] for one in row["findings"]])


def in_report(path: Path) -> tuple[Any, ...]:
    report = analyze(open_recording(path))
    verdict, run = report.verdict, report.recording
    peak = run.peak.bytes if run.peak is not None else None
    found = [finding.fingerprint for finding in report.findings[:10]]
    ending = run.ended, run.exit_code, run.signal, run.duration_s, peak
    return (verdict.leaking, verdict.killed, verdict.headline, *ending, found)


@pytest.mark.golden
@pytest.mark.live
def test_a_list_says_the_same_as_the_report_of_each(tmp_path: Path) -> None:
    compare(tmp_path, SOME)


@pytest.mark.golden
@pytest.mark.live
@pytest.mark.slow
def test_of_all_programs_a_list_says_the_same_as_the_report_of_each(tmp_path: Path) -> None:
    compare(tmp_path, ALL)


@pytest.fixture
def ran(tmp_path: Path) -> Path:
    """A folder with a run of 20 s of which somebody looked at the first 3."""
    path = RecordingBuilder(tmp_path, "run.parquet").process(100).samples(100, rss=[50 << 20] * 20).ends().write()
    assert add_to_footer(path, STALE)
    return tmp_path


@pytest.mark.judging
def test_ending_duration_and_peak_are_the_recorders_and_the_verdict_is_marked(ran: Path, capsys: Any) -> None:
    output = ran / "fleet.index"
    assert index.index([str(ran)], output).unjudged == 1
    (row,) = read_index(output).rows()
    assert (row["ended"], row["exit_code"], row["as_of_s"]) == ("exit", 0, 3.0)
    assert row["duration_s"] >= 19
    assert (row["peak_bytes"], row["limit_bytes"]) == (None, 5 << 30)
    assert "cannot tell (provisional, as of 3.0 s)" in listed(output)
    told = fleet_report(read_index(output))
    assert told.counts["provisional"] == 1
    assert any("provisional" in caveat for caveat in told.caveats)
    assert main(["fleet", "index", str(ran), "-o", str(output)]) == 0
    assert "1 judged" in capsys.readouterr().err
    assert "provisional" not in listed(output)


@pytest.mark.judging
def test_the_time_to_judge_is_bounded_and_the_next_run_goes_on(ran: Path) -> None:
    shutil.copy(ran / "run.parquet", ran / "other.parquet")
    output = ran / "fleet.index"
    done = index.index([str(ran)], output, judge_s=1e-9)
    assert (done.judged, done.unjudged) == (0, 2)
    assert "2 without a final verdict" in index.as_text(done, output)
    assert index.index([str(ran)], output, judge_s=60.0).judged == 2
    assert index.index([str(ran)], output, judge_s=60.0).judged == 0


def test_a_kill_is_counted_though_nobody_judged(tmp_path: Path) -> None:
    """Of three runs one was killed itself, of one a worker was."""
    for name, ended, kills in (("a", ["signal", None, 9], 1), ("b", ["exit", 1, None], 2), ("c", ["exit", 0, None], 0)):
        footer = {
            "ended": ended, "kill_count": kills, "peak_bytes": 600 << 20, "start_mono_ns": 0, "last_mono_ns": 10**10,
        }  # fmt: skip
        write_recording(tmp_path / f"{name}.parquet", {"host_samples": {"time_mono_ns": [1]}}, footer)
    output = tmp_path / "fleet.index"
    index.index([str(tmp_path)], output)
    rows = {Path(row["url"]).stem: row for row in read_index(output).rows()}
    assert [(rows[n]["ended"], rows[n]["killed"], rows[n]["kill_count"]) for n in "abc"] == [
        ("oom-killed", True, 1), ("exit", True, 2), ("exit", None, 0),
    ]  # fmt: skip
    assert rows["a"]["peak_bytes"] == 600 << 20
    assert list(Population(read_index(output)).killed) == [True, True, False]
    report = fleet_report(read_index(output))
    assert report.counts["killed"] == 2 and report.jobs[0]["killed"] == 2
    assert sum(row["killed"] for row in report.kills) == 2
