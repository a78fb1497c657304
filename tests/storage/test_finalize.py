"""A journal becomes one file: all rows are in it, it says what was lost, and nothing is ever destroyed on the way."""

from __future__ import annotations

import fcntl
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pyarrow.parquet as pq
import pytest

from leakscope import analyze, open_recording, schema
from leakscope.agent.journal import Journal
from leakscope.errors import BadInput, LeakscopeError, UnreadableRecording
from leakscope.storage import empty, merge
from leakscope.storage import finalize as storage
from leakscope.storage.arrow import ROW_GROUP_ROWS, arrow_schema
from leakscope.storage.finalize import finalize
from leakscope.words import run_facts
from tests.builders import RecordingBuilder


def build(folder: Path) -> RecordingBuilder:
    return RecordingBuilder(folder).process(100).samples(100, rss=[10, 20, 30]).ends()


def own_start_ticks() -> str:
    return Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]


def test_only_the_file_is_left(tmp_path):
    path = build(tmp_path).write()
    assert os.listdir(tmp_path) == [path.name]


def test_whatever_else_lies_in_the_journal_goes_with_it(tmp_path):
    builder = build(tmp_path)
    builder.write_journal()
    (builder.journal / "a folder").mkdir()
    (builder.journal / "a folder" / "file").touch()
    assert os.listdir(finalize(builder.path).parent) == [builder.path.name]


def test_the_journal_is_kept_on_request_and_the_file_is_read(tmp_path):
    builder = build(tmp_path)
    finalize(builder.write_journal(), keep_journal=True)
    assert builder.journal.is_dir()
    assert open_recording(builder.path).complete
    assert builder.journal.is_dir(), "opening must not remove a journal that was kept on purpose"


def test_finalising_again_changes_nothing(tmp_path):
    path = build(tmp_path).write()
    before = path.read_bytes()
    assert finalize(path) == path
    assert path.read_bytes() == before


def test_the_journal_folder_is_a_name_for_the_recording(tmp_path):
    builder = build(tmp_path)
    builder.write_journal()
    assert finalize(builder.journal) == builder.path


def test_nothing_to_finalise(tmp_path):
    with pytest.raises(UnreadableRecording, match=r"no recording at .*run\.parquet"):
        finalize(tmp_path / "run.parquet")


def test_a_live_recorder_is_left_alone_but_a_checkpoint_is_allowed(tmp_path):
    builder = build(tmp_path)
    builder.write_journal()
    with open(builder.journal / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        with pytest.raises(BadInput, match="still being recorded"):
            finalize(builder.path)
        assert not builder.path.exists()
        finalize(builder.path, checkpoint=True)
        assert builder.journal.is_dir()
        assert len(pd.read_parquet(builder.path)) == 6
        live = open_recording(builder.path)
    assert not live.complete
    assert "still being recorded" in live.notes[0]
    assert live.tables.process_samples.rss_bytes.tolist() == [10, 20, 30]


def test_the_end_of_a_run_that_goes_on_was_not_lost(tmp_path):
    builder = RecordingBuilder(tmp_path).process(7).samples(7, [10, 20, 30])
    builder.write_journal()
    with open(builder.journal / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        live = analyze(open_recording(builder.path)).recording
    assert live.goes_on and "still runs" in run_facts(live) and "not recorded" not in run_facts(live)
    over = analyze(open_recording(builder.path)).recording
    assert not over.goes_on and "its end was not recorded" in run_facts(over)


def test_a_checkpoint_whose_journal_is_gone_says_that_it_is_not_all(tmp_path):
    builder = build(tmp_path)
    finalize(builder.write_journal(), checkpoint=True)
    builder.journal.rename(tmp_path / "elsewhere")
    recording = open_recording(builder.path)
    assert not recording.complete
    assert "checkpoint" in recording.notes[0]


def test_a_job_that_outlived_its_recorder_still_writes_its_journal(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss=[10, 20])
    builder.write_journal()
    agent = Journal(str(builder.journal), f"agent-{os.getpid()}-{own_start_ticks()}")
    agent.add("marks", {"time_mono_ns": 1, "step": 7})
    agent.flush()
    with pytest.raises(BadInput, match=f"process {os.getpid()} of the job still writes"):
        finalize(builder.path)
    recording = open_recording(builder.path)
    assert recording.tables.marks.step.tolist() == [7]
    assert builder.journal.is_dir()
    agent.close()


def test_a_full_disk_keeps_the_journal_and_says_so(tmp_path, monkeypatch):
    builder = build(tmp_path)
    builder.write_journal()

    def full(*arguments: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(storage.os, "fsync", full)
    with pytest.raises(LeakscopeError, match=r"No space left on device; the journal .* is untouched"):
        finalize(builder.path)
    monkeypatch.undo()
    assert os.listdir(tmp_path) == [builder.journal.name]
    assert open_recording(builder.path).complete


class FullDisk:
    """A stream that behaves as a file on a full disk."""

    closed = False

    def __init__(self, stream):
        self._stream = stream

    def write(self, data):
        raise OSError(28, "No space left on device")

    def __getattr__(self, name):
        return getattr(self._stream, name)


def test_a_disk_that_fills_up_while_rows_are_written(tmp_path, monkeypatch):
    builder = build(tmp_path)
    builder.write_journal()
    whole = merge.merge
    monkeypatch.setattr(
        merge, "merge", lambda journal, stream, state, **how: whole(journal, FullDisk(stream), state, **how)
    )
    with pytest.raises(LeakscopeError, match="No space left on device"):
        finalize(builder.path)
    assert os.listdir(tmp_path) == [builder.journal.name]


def test_a_torn_tail_costs_its_own_rows_only(tmp_path):
    builder = build(tmp_path)
    builder.write_journal()
    whole = (builder.journal / "recorder-000001.jnl").read_bytes()
    (builder.journal / "agent-7-7-000001.jnl").write_bytes(whole + b"\x10\x00\x00\x00torn")
    (builder.journal / "agent-8-8-000001.jnl").write_bytes(os.urandom(100))
    (builder.journal / "agent-9-9-000001.jnl").write_bytes(b"")
    recording = open_recording(builder.path)
    assert len(recording.tables.process_samples) == 6
    assert not recording.complete
    assert recording.meta["unreadable_bytes"] == 108
    assert "the last 8 bytes of agent-7-7-000001.jnl" in recording.notes[0]


def test_a_newer_writer_loses_nothing(tmp_path):
    recording = (
        RecordingBuilder(tmp_path)
        .process(100)
        .samples(100, rss=[1, 2], zswap_bytes=[5, None])
        .row("gadgets", 1.0, 100, colour="blue", parts=[1, 2])
        .ends()
        .open()
    )
    samples = recording.tables.process_samples
    assert samples.zswap_bytes.tolist()[0] == "5"
    assert "colour" not in samples
    assert recording.tables.gadgets.colour.tolist() == ["blue"]
    assert recording.tables.gadgets.parts.tolist() == ["[1, 2]"]
    assert "gadgets" in recording.names()


def test_odd_values_cost_themselves_only(tmp_path):
    recording = (
        RecordingBuilder(tmp_path).process(100, comm="caf\ud800").samples(100, rss=[1, 2**70, "x"]).ends().open()
    )
    assert recording.tables.process_samples.rss_bytes.isna().tolist() == [False, True, True]
    assert recording.tables.processes.comm.tolist() == ["caf?"]
    assert any("did not fit" in note for note in recording.notes)


@pytest.mark.parametrize("content", [None, "", "{", "[]", "null"])
def test_a_recording_without_sound_meta_is_still_read(tmp_path, content):
    builder = build(tmp_path)
    builder.write_journal()
    (builder.journal / "meta.json").unlink()
    if content is not None:
        (builder.journal / "meta.json").write_text(content)
    recording = open_recording(builder.path)
    assert recording.tables.process_samples.time_s.tolist() == [0.0, 1.0, 2.0]
    assert "meta.json is missing or damaged" in recording.notes[0]


@pytest.mark.parametrize(
    ("version", "said"), [(schema.SCHEMA_VERSION + 1, "upgrade leakscope"), (schema.OLDEST_VERSION - 1, "record again")]
)
def test_another_format_is_refused_and_kept(tmp_path, version, said):
    builder = RecordingBuilder(tmp_path, format_version=version).process(100)
    builder.write_journal()
    for attempt in (finalize, open_recording):
        with pytest.raises(UnreadableRecording, match=said):
            attempt(builder.path)
    assert builder.journal.is_dir()


def test_leftovers_of_a_killed_finalise_are_cleared(tmp_path):
    builder = build(tmp_path)
    builder.write_journal()
    (tmp_path / ".run.parquet.tmp-99999").write_bytes(b"half")
    finalize(builder.path)
    assert os.listdir(tmp_path) == ["run.parquet"]


def test_many_rows_have_row_groups_of_their_own_and_few_share_one(tmp_path):
    builder = RecordingBuilder(tmp_path)
    builder.process(100).samples(100, rss=list(range(ROW_GROUP_ROWS + 10))).sentinels(100, step=[1, 2]).ends()
    metadata = pq.ParquetFile(builder.write()).metadata
    held = [metadata.row_group(i) for i in range(metadata.num_row_groups)]
    tables = [(g.column(0).statistics.min, g.column(0).statistics.max, g.num_rows) for g in held]
    assert ("process_samples", "process_samples", ROW_GROUP_ROWS) in tables
    assert len(tables) == 2 and tables[-1][:2] == ("events", "sentinels"), tables
    rec = open_recording(builder.path)
    assert rec.tables.process_samples["rss_bytes"].tolist() == list(range(ROW_GROUP_ROWS + 10))
    assert rec.tables.sentinels["step"].tolist() == [1, 2]
    assert rec.tables.row_counts()["process_samples"] == ROW_GROUP_ROWS + 10


def test_few_rows_of_many_tables_are_written_by_room(tmp_path, monkeypatch):
    monkeypatch.setattr(merge, "ROW_GROUP_ROWS", 16)
    monkeypatch.setattr(merge, "SHARED_ROWS", 12)
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss=[*range(10)])
    builder.sentinels(100, step=[*range(11)]).ends()
    metadata = pq.ParquetFile(builder.write()).metadata
    assert max(metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)) <= 16
    tables = open_recording(builder.path).tables
    assert (len(tables.process_samples), len(tables.sentinels)) == (10, 11)


@pytest.mark.parametrize(("long_bytes", "compression"), [(1, "ZSTD"), (1024 * 1024, "SNAPPY")])
def test_the_encodings_every_engine_reads(tmp_path, monkeypatch, long_bytes, compression):
    monkeypatch.setattr(merge, "SHORT_BYTES", long_bytes)
    group = pq.ParquetFile(build(tmp_path).write()).metadata.row_group(0)
    columns = {group.column(i).path_in_schema: group.column(i) for i in range(group.num_columns)}
    assert columns["time_mono_ns"].compression == compression
    assert "DELTA_BINARY_PACKED" in columns["time_mono_ns"].encodings
    assert "RLE_DICTIONARY" in columns["table"].encodings


def test_columns_say_what_they_mean(tmp_path):
    columns = pq.ParquetFile(build(tmp_path).write()).schema_arrow
    assert columns.field("rss_bytes").metadata[b"unit"] == b"bytes"
    assert b"resident set" in columns.field("rss_bytes").metadata[b"meaning"]
    assert [f.name for f in columns if not f.nullable] == ["table"]


def test_the_footer_alone_tells_the_run(tmp_path):
    footer = json.loads(pq.read_metadata(build(tmp_path).write()).metadata[b"leakscope"])
    assert footer["format_version"] == schema.SCHEMA_VERSION
    assert footer["command"] == ["python", "train.py"]
    assert footer["ended"] == ["exit", 0, None]
    assert footer["row_counts"] == {"events": 1, "process_samples": 3, "processes": 2}


def test_the_shipped_empty_file_is_of_this_schema():
    """If this fails: ``python -m leakscope.storage.empty``."""
    assert pq.read_schema(empty.PATH).equals(arrow_schema())
    assert pd.read_parquet(empty.PATH).empty


@pytest.mark.slow
@pytest.mark.live
def test_two_at_once_both_succeed(tmp_path):
    builder = build(tmp_path)
    builder.write_journal()
    program = "import sys; from leakscope.cli import main; sys.exit(main(['finalize', '-q', sys.argv[1]]))"
    both = [subprocess.Popen([sys.executable, "-c", program, str(builder.path)]) for _ in range(2)]
    assert [child.wait() for child in both] == [0, 0]
    assert os.listdir(tmp_path) == ["run.parquet"]
    assert open_recording(builder.path).complete


@pytest.mark.live
def test_a_late_checkpoint_does_not_replace_the_final_file(tmp_path):
    """A checkpoint that waited for its turn while the recorder ended finds no journal and does nothing."""
    builder = build(tmp_path)
    builder.write_journal()
    turn = os.open(builder.journal, os.O_RDONLY)
    fcntl.flock(turn, fcntl.LOCK_EX)
    program = "import sys; from leakscope.cli import main; sys.exit(main(['finalize', '--checkpoint', sys.argv[1]]))"
    late = subprocess.Popen([sys.executable, "-c", program, str(builder.path)])
    shutil.copytree(builder.journal, tmp_path / "other.parquet.journal")
    finalize(tmp_path / "other.parquet").rename(builder.path)
    final = builder.path.read_bytes()
    shutil.rmtree(builder.journal)
    os.close(turn)
    assert late.wait() == 0
    assert builder.path.read_bytes() == final
