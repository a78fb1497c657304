"""A recording opened: tables, facts, and one clear line for whatever is not a recording."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import zlib
from pathlib import Path
from unittest import mock

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from leakscope import open_recording, schema
from leakscope.agent.journal import HEADER, decode_payload
from leakscope.cli import main
from leakscope.errors import UnreadableRecording
from leakscope.storage import empty, tables, thinned
from leakscope.storage.arrow import arrow_schema, parquet_writer
from leakscope.storage.meta import FOOTER_KEY
from tests.builders import START_MONO_NS, RecordingBuilder


def test_tables_are_tidy(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).process(101, "python").ends(9.0)
    builder.samples(101, rss=[7, 8], pss_bytes=[None, 2**60 + 1], cpu_s=[0.5, None]).samples(100, rss=[1, 2, 3])
    tables = builder.open().tables
    samples = tables.process_samples
    assert list(samples.columns[:6]) == ["time_s", "time_unix_ns", "time_mono_ns", "time_boot_ns", "pid", "start_ticks"]
    assert samples.pid.tolist() == [100, 100, 100, 101, 101]
    assert samples.time_s.tolist() == [0.0, 1.0, 2.0, 0.0, 1.0]
    assert samples.pss_bytes.tolist()[-1] == 2**60 + 1, "integers stay integers beside nulls"
    assert samples.pss_bytes.isna().tolist()[-2]
    assert samples.cpu_s.dtype == "float64"
    assert tables["process_samples"] is samples
    assert "take" not in samples
    with pytest.raises(AttributeError, match="no table 'proces_samples'; there are processes"):
        _ = tables.proces_samples


def test_a_file_has_one_path_however_its_program_was_started(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss=[1, 2, 3])
    builder.source(100, "/job/runs/../train.py", "x = 1")
    builder.source(100, "/job/other.py", "y = 2")
    builder.allocated(100, 2.0, 9, "/job/runs/../train.py:7 main\n/job/a..b/x.py:8 f")
    tables = builder.open().tables
    assert sorted(tables.sources.file) == ["/job/other.py", "/job/train.py"]
    assert tables.allocation_stacks["stack"].tolist() == ["/job/train.py:7 main\n/job/a..b/x.py:8 f"]


def test_a_long_table_is_thinned_to_the_extremes_of_each_process(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).process(101, "python")
    rss = [1000 + (second * 37) % 100 for second in range(3000)]
    rss[1234], rss[777] = 9999, 1
    whole = builder.samples(100, rss=rss).samples(101, rss=[7, 8]).ends(3001.0).open()
    part = thinned(whole, 300)
    samples = part.tables.process_samples
    own = samples[samples.pid == 100]
    assert 200 <= len(own) <= 400 and own.time_s.is_monotonic_increasing
    assert {(777.0, 1), (1234.0, 9999)} <= set(zip(own.time_s, own.rss_bytes)), "no extreme is lost"
    assert samples[samples.pid == 101].rss_bytes.tolist() == [7, 8], "nor one that lived for a moment"
    assert list(samples.columns) == list(whole.tables.process_samples.columns)
    assert samples.dtypes.equals(whole.tables.process_samples.dtypes)
    assert any(f"{len(samples)} of 3,002 rows of process_samples" in note for note in part.notes)
    assert thinned(whole, 5000) is whole
    assert thinned(whole, 5000, (10.0, 12.0)).tables.process_samples.time_s.tolist() == [10.0, 11.0, 12.0]


def test_a_table_without_rows_has_its_columns(tmp_path):
    recording = RecordingBuilder(tmp_path).process(100).ends().open()
    for name, table in schema.TABLES.items():
        frame = recording.tables[name]
        assert {c.name for c in table.columns} <= set(frame.columns)
        assert frame.empty == (name not in recording.names())
    assert recording.names() == ["processes", "events"]


def test_a_process_has_one_row_the_last(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).process(101, "python", died_s=4.0).ends(5.0, exit_code=3)
    processes = builder.open().tables.processes
    assert processes.pid.tolist() == [100, 101]
    assert processes.exit_code.tolist()[0] == 3
    assert processes.died_mono_ns.tolist()[1] == START_MONO_NS + 4 * 10**9


@pytest.mark.parametrize(
    ("end", "expected"),
    [
        ({"exit_code": 7}, ("exit", 7, None)),
        ({"signal": 9}, ("signal", None, 9)),
        (None, ("lost", None, None)),
    ],
)
def test_how_the_job_ended(tmp_path, end, expected):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss=[1])
    if end is not None:
        builder.ends(**end)
    recording = builder.open()
    assert recording.ended == expected
    assert recording.complete == (end is not None)
    assert bool(recording.notes) == (end is None)


def test_a_journal_alone_is_finalised_in_passing(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss=[1, 2])
    builder.write_journal()
    shutil.copy(empty.PATH, builder.path)
    recording = open_recording(builder.journal)
    assert len(recording.tables.process_samples) == 2
    assert os.listdir(tmp_path) == ["run.parquet"]


def test_a_journal_that_cannot_be_finalised_is_read_in_memory(tmp_path, monkeypatch):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss=[1, 2]).ends()
    builder.write_journal()

    def read_only(*arguments: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr("leakscope.storage.finalize.os.replace", read_only)
    recording = open_recording(builder.path)
    assert len(recording.tables.process_samples) == 2
    assert "Read-only file system" in recording.notes[0]
    assert os.listdir(tmp_path) == [builder.journal.name]


def test_the_journal_wins_over_a_damaged_file(tmp_path):
    builder = RecordingBuilder(tmp_path).process(100).samples(100, rss=[1, 2]).ends()
    builder.write_journal()
    builder.path.write_bytes(b"")
    assert open_recording(builder.path).complete


def test_an_empty_recording_says_why(tmp_path):
    path = shutil.copy(empty.PATH, tmp_path / "run.parquet")
    recording = open_recording(path)
    assert recording.names() == []
    assert "no rows" in recording.notes[0]
    assert recording.tables.process_samples.empty


def rewritten(path, footer):
    """The recording again, with another footer."""
    rewrite(path, pq.read_table(path), footer)


def rewrite(path, table, footer):
    pq.write_table(table.replace_schema_metadata({"leakscope": footer} if footer is not None else None), path)


def cut(path):
    path.write_bytes(path.read_bytes()[:-100])


def break_footer(path):
    data = bytearray(path.read_bytes())
    data[-200:-100] = os.urandom(100)
    path.write_bytes(data)


def footer_of(**changes):
    return json.dumps({"format_version": schema.SCHEMA_VERSION, "state": "final", **changes})


BAD = {
    "missing": (os.unlink, "there is no file"),
    "empty": (lambda p: p.write_bytes(b""), r"is empty \(0 bytes\)"),
    "truncated": (cut, "is truncated at"),
    "tiny": (lambda p: p.write_bytes(b"PAR1"), "is truncated at 4 bytes"),
    "broken footer": (break_footer, "is damaged"),
    "not parquet": (lambda p: p.write_text("hello, world"), "not a recording: .* begins with b'hell'"),
    "a directory": (lambda p: (p.unlink(), p.mkdir()), "is a directory"),
    "a device": (lambda p: (p.unlink(), p.symlink_to("/dev/zero")), "not a regular file"),
    "foreign parquet": (lambda p: pd.DataFrame({"a": [1]}).to_parquet(p), "leakscope did not write it"),
    "no footer": (lambda p: rewritten(p, None), "leakscope did not write it"),
    "footer not JSON": (lambda p: rewritten(p, "}{"), "footer cannot be read"),
    "footer not an object": (lambda p: rewritten(p, "[1]"), "footer cannot be read"),
    "older": (lambda p: rewritten(p, footer_of(format_version=1)), "has format 1, .*: record again"),
    "newer": (lambda p: rewritten(p, footer_of(format_version=99)), "has format 99, .* upgrade leakscope"),
    "version of no kind": (lambda p: rewritten(p, footer_of(format_version="x")), "no valid format version"),
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_clear_line(tmp_path, case):
    path = RecordingBuilder(tmp_path).process(100).samples(100, rss=[1, 2]).ends().write()
    spoil, expected = BAD[case]
    spoil(path)
    with pytest.raises(UnreadableRecording, match=expected) as caught:
        open_recording(path)
    assert "\n" not in str(caught.value)
    assert str(path) in str(caught.value)


def test_a_name_that_cannot_be_one():
    with pytest.raises(UnreadableRecording):
        open_recording("run\0.parquet")
    with pytest.raises(UnreadableRecording):
        open_recording("x" * 5000)


def test_a_column_of_another_type_is_damage(tmp_path):
    path = RecordingBuilder(tmp_path).process(100).ends().write()
    table = pq.read_table(path)
    index = table.schema.names.index("rss_bytes")
    rewrite(path, table.set_column(index, "rss_bytes", pa.array(["x"] * len(table))), footer_of())
    with pytest.raises(UnreadableRecording, match="rss_bytes is string, int64 expected"):
        open_recording(path)


def test_damaged_pages_are_named_when_the_table_is_read(tmp_path):
    path = RecordingBuilder(tmp_path).process(100).samples(100, rss=list(range(1000))).ends().write()
    rewrite(path, pq.read_table(path), footer_of())  # by another program: no checksum of all of it
    data = bytearray(path.read_bytes())
    data[4:2000] = bytes(1996)
    path.write_bytes(data)
    with pytest.raises(UnreadableRecording, match=r"is damaged in (column table|table )"):
        for name in schema.TABLES:
            open_recording(path).tables[name]


@pytest.mark.parametrize("order", [[4, 3, 2, 1, 0], [4, 0, 3, 1, 2]])
def test_a_file_whose_rows_another_program_put_in_another_order(tmp_path, order):
    path = RecordingBuilder(tmp_path).process(100).samples(100, rss=[1, 2, 3]).ends().write()
    rewrite(path, pq.read_table(path).take(order), footer_of())
    tables = open_recording(path).tables
    assert tables.process_samples["rss_bytes"].tolist() == [1, 2, 3]
    assert tables.row_counts() == {"processes": 1, "process_samples": 3, "events": 1}
    assert "rss_bytes" in tables.columns_of("process_samples")
    assert "rss_bytes" not in tables.columns_of("events")


def test_a_file_from_before_a_column_was_added(tmp_path):
    path = RecordingBuilder(tmp_path).process(100).samples(100, rss=[1]).ends().write()
    table = pq.read_table(path, filters=[("table", "=", "process_samples")])
    rewrite(path, table.drop_columns(["swap_bytes"]), footer_of())
    samples = open_recording(path).tables.process_samples
    assert samples.swap_bytes.isna().all()
    assert samples.swap_bytes.dtype == "Int64"


@pytest.mark.parametrize("engine", ["pandas", "pyarrow", "duckdb", "polars"])
def test_other_programs_open_the_file(tmp_path, engine):
    path = str(RecordingBuilder(tmp_path).process(100).samples(100, rss=[1, 2**60 + 1]).ends().write())
    with mock.patch.dict(os.environ):  # importing polars sets a variable of its allocator
        module = pytest.importorskip(engine)
    if engine == "pandas":
        rss = module.read_parquet(path, dtype_backend="pyarrow").query("table == 'process_samples'").rss_bytes
    elif engine == "pyarrow":
        rss = pq.read_table(path, filters=[("table", "=", "process_samples")])["rss_bytes"].to_pylist()
    elif engine == "duckdb":
        rss = [
            r[0] for r in module.sql(f"select rss_bytes from '{path}' where \"table\" = 'process_samples'").fetchall()
        ]
    else:
        rss = module.read_parquet(path).filter(module.col("table") == "process_samples")["rss_bytes"]
    assert list(rss) == [1, 2**60 + 1]


@pytest.mark.live
def test_importing_leakscope_imports_nothing_heavy():
    program = (
        "import sys, leakscope; leakscope.mark(step=1); print(leakscope.__version__);"
        "sys.exit(bool({'numpy', 'pandas', 'pyarrow', 'click', 'json', 'asyncio'} & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0


def swollen(folder: Path, count: int, tables: list[str]) -> Path:
    """A recording of a few KB whose row groups say that they have ``count`` rows of these tables, all alike."""
    path = folder / "run.parquet"
    columns = arrow_schema()
    footer = {"format_version": schema.SCHEMA_VERSION, "state": "final", "complete": True}
    names = pa.array((tables * count)[:count])
    nulls = {type: pa.nulls(count, type) for type in {field.type for field in columns}}
    rows = [names if field.name == "table" else nulls[field.type] for field in columns]
    with parquet_writer(path, columns) as writer:
        writer.write_table(pa.Table.from_arrays(rows, schema=columns), row_group_size=count)
        writer.add_key_value_metadata({FOOTER_KEY: json.dumps(footer)})
    return path


def test_a_small_file_of_many_rows_is_not_read_into_all_memory(tmp_path, monkeypatch):
    path = swollen(tmp_path, 300_000, ["process_samples"])
    assert path.stat().st_size < 400_000
    monkeypatch.setattr(tables, "_most_bytes", lambda: 20_000_000)
    with pytest.raises(UnreadableRecording, match=r"process_samples says that it has 300,000 rows, which take .* MiB"):
        _ = open_recording(path).tables.process_samples
    monkeypatch.setattr(tables, "_most_bytes", lambda: 1_000_000_000)
    assert len(open_recording(path).tables.process_samples) == 300_000


def test_the_report_on_such_a_file_is_one_line_and_status_3(tmp_path, capsys):
    path = swollen(tmp_path, 1_100_000, ["process_samples", "events"])
    assert main(["report", str(path)]) == 3
    told = capsys.readouterr()
    assert told.out == "" and told.err.count("\n") == 1
    assert "1,100,000 rows of several tables are in one group" in told.err


def test_a_block_that_swells_is_taken_for_damage(tmp_path):
    folder = tmp_path / "run.parquet.journal"
    folder.mkdir()
    (folder / "meta.json").write_text("{}")
    text = b'{"t":"events","n":9000000,"c":{"event":[' + b"[]," * 9_000_000 + b'[]]},"d":[]}'
    payload = zlib.compress(text)
    (folder / "recorder-000001.jnl").write_bytes(HEADER.pack(len(payload), zlib.crc32(payload)) + payload)
    assert len(payload) < 100_000
    with pytest.raises(ValueError, match="more values"):
        decode_payload(payload)
    found = open_recording(tmp_path / "run.parquet")
    assert found.names() == []
    assert any("torn or damaged" in note for note in found.notes)
