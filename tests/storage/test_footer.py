"""The verdict goes into the footer of its recording, and nothing else of the file changes."""

from __future__ import annotations

import fcntl
import json
import os
from pathlib import Path
from typing import Any

import pandas as pd
import pyarrow.parquet as pq
import pytest

from leakscope import open_recording
from leakscope.answering import told
from leakscope.reporting import analyze, answer_of
from leakscope.storage import keep_answer
from leakscope.storage.account import VERDICT_FILE
from leakscope.uploading import judge_file
from tests.builders import RecordingBuilder

MiB = 1 << 20


def leaking(folder: Path) -> RecordingBuilder:
    rising = [100 * MiB + i * MiB for i in range(120)]
    return RecordingBuilder(folder).process(100, role="trainer").samples(100, rss=rising, every_s=1.0)


def footer(path: Path) -> dict[str, Any]:
    told: dict[str, Any] = json.loads(pq.read_metadata(path).metadata[b"leakscope"])
    return told


def test_verdict_and_figures_are_those_of_the_report(tmp_path: Path) -> None:
    path = leaking(tmp_path).ends(at_s=120.0).write()
    before, rows = footer(path), pd.read_parquet(path)
    path.chmod(0o640)
    assert judge_file(path)
    after, report = footer(path), analyze(open_recording(path))
    assert {name: after[name] for name in before} == before
    pd.testing.assert_frame_equal(pd.read_parquet(path), rows)
    assert path.stat().st_mode & 0o777 == 0o640
    assert [p.name for p in tmp_path.iterdir()] == ["run.parquet"]
    verdict = after["verdict"]
    assert verdict["leaking"] is True and "as_of_s" not in verdict
    assert (verdict["headline"], verdict["growth_bytes"]) == (report.verdict.headline, report.verdict.growth_bytes)
    first = verdict["findings"][0]
    assert first["fingerprint"] == report.findings[0].fingerprint != ""
    assert (first["kind"], first["bytes"]) == (report.findings[0].kind, report.findings[0].bytes)
    figures = after["figures"]
    assert (figures["ended"], figures["exit_code"], figures["process_count"]) == ("exit", 0, 1)
    assert figures["peak_bytes"] == figures["end_bytes"] == 219 * MiB
    assert 118 <= figures["duration_s"] <= 120


def test_what_was_found_while_it_was_recorded_survives_a_kill(tmp_path: Path) -> None:
    builder = leaking(tmp_path)  # it never ends
    builder.write_journal()
    (builder.journal / VERDICT_FILE).write_text(
        json.dumps({"verdict": {"leaking": True, "as_of_s": 64.0}, "format_version": 99})
    )
    meta = open_recording(builder.path).meta
    assert meta["verdict"] == {"leaking": True, "as_of_s": 64.0}
    assert meta["format_version"] == 2
    assert judge_file(builder.path)  # of the whole, which takes its place
    assert "as_of_s" not in footer(builder.path)["verdict"]


def test_a_look_while_it_is_recorded_is_kept_for_later(tmp_path: Path) -> None:
    builder = leaking(tmp_path)
    builder.write_journal()
    with open(builder.journal / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # as the recorder does
        live = open_recording(builder.path)
        assert keep_answer(live, told(live).footer)
        assert open_recording(builder.path).meta["state"] == "live"
    assert open_recording(builder.path).meta["verdict"]["as_of_s"] == 119.0  # its recorder was killed
    ended = open_recording(builder.path)
    answer = told(ended)
    assert answer.lines[0].startswith("LEAKING") and keep_answer(ended, answer.footer)
    assert "as_of_s" not in footer(builder.path)["verdict"]


@pytest.mark.parametrize("text", ["", "{", "[1]", '{"verdict": 3}', "\x00"])
def test_a_damaged_verdict_costs_nothing(tmp_path: Path, text: str) -> None:
    builder = leaking(tmp_path)
    builder.write_journal()
    (builder.journal / VERDICT_FILE).write_text(text)
    recording = open_recording(builder.path)
    assert "verdict" not in recording.meta
    assert len(recording.tables.process_samples) == 120


def test_a_file_that_is_not_ours_to_write_stays(tmp_path: Path) -> None:
    path = leaking(tmp_path).ends(at_s=120.0).write()
    recording = open_recording(path)
    told = answer_of(recording).footer
    before = path.read_bytes()
    path.chmod(0o440)
    assert not keep_answer(recording, told)
    path.chmod(0o640)
    assert not keep_answer(recording, told, most_bytes=100)
    assert path.read_bytes() == before
    link = tmp_path / "link.parquet"
    os.symlink(path, link)
    assert keep_answer(open_recording(link), told)  # what the link leads to
    assert link.is_symlink() and "verdict" in footer(path)
