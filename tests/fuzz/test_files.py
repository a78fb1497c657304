"""Whatever file is named: a report, or one line that says what is wrong with it."""

from __future__ import annotations

import io
import json
import os
import sys
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leakscope import cli, schema
from leakscope.errors import LeakscopeError
from leakscope.options import parse_record

from . import hostile
from .looking import FUZZ, assert_nothing_invented, look, steady


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished recording of a run in which nothing happened."""
    return steady(tmp_path_factory.mktemp("finished")).write()


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("named") / "run.parquet"


@FUZZ
@given(data=st.data())
def test_a_file_cut_anywhere(path: Path, finished: Path, data: st.DataObject) -> None:
    content = finished.read_bytes()
    path.write_bytes(content[: data.draw(st.integers(0, len(content) - 1))])
    assert look(path) is None


@FUZZ
@given(data=st.data())
def test_flipped_bits(path: Path, finished: Path, data: st.DataObject) -> None:
    """Parquet has no checksums: a wrong figure may be read, but no verdict may crash on it."""
    content = bytearray(finished.read_bytes())
    for at in data.draw(st.lists(st.integers(4, len(content) - 1), min_size=1, max_size=3)):
        content[at] ^= 1 << data.draw(st.integers(0, 7))
    path.write_bytes(content)
    look(path)


@FUZZ
@given(data=st.binary(max_size=200) | st.binary(max_size=200).map(lambda b: b"PAR1" + b + b"PAR1"))
def test_no_recording_at_all(path: Path, data: bytes) -> None:
    path.write_bytes(data)
    assert look(path) is None


_ARROW = [pa.int64(), pa.float64(), pa.string(), pa.bool_(), pa.binary(), pa.list_(pa.int64()), pa.timestamp("ns")]


@FUZZ
@given(
    columns=st.dictionaries(
        st.sampled_from([c.name for c in (*schema.KEYS, *schema.TABLES["process_samples"].columns)]) | st.just("mine"),
        st.sampled_from(_ARROW),
        min_size=1,
    ),
    footer=st.none() | hostile.json_values | st.fixed_dictionaries({"format_version": st.just(2) | st.integers()}),
    tables=st.lists(st.none() | st.sampled_from(["process_samples", "events", "x", ""]), min_size=0, max_size=3),
)
def test_a_foreign_table(path: Path, columns: dict[str, pa.DataType], footer: object, tables: list[str | None]) -> None:
    arrays = {name: pa.nulls(len(tables), kind) for name, kind in columns.items()}
    if columns.get("table") == pa.string():
        arrays["table"] = pa.array(tables, pa.string())
    text = json.dumps(footer)
    pq.write_table(pa.table(arrays).replace_schema_metadata({"leakscope": text} if footer is not None else None), path)
    assert_nothing_invented(look(path))


@FUZZ
@given(version=st.integers() | st.text(max_size=4) | st.none() | st.floats() | st.booleans())
def test_the_format_version(path: Path, finished: Path, version: object) -> None:
    table = pq.read_table(finished)
    footer = json.loads(table.schema.metadata[b"leakscope"]) if table.schema.metadata else {}
    footer["format_version"] = version
    pq.write_table(table.slice(0, 0).replace_schema_metadata({"leakscope": json.dumps(footer)}), path)
    report = look(path)
    assert (report is not None) == (type(version) is int and schema.OLDEST_VERSION <= version <= schema.SCHEMA_VERSION)


@pytest.mark.further
@FUZZ
@given(name=hostile.file_names.filter(lambda name: name not in (b".", b"..")))
def test_any_name(tmp_path_factory: pytest.TempPathFactory, name: bytes) -> None:
    folder = tmp_path_factory.mktemp("name")
    report = look(steady(folder, os.fsdecode(name)).write())
    assert report is not None or not _is_text(name), "a name that is no text may be refused"
    assert_nothing_invented(report)


def _is_text(name: bytes) -> bool:
    try:
        return bool(name.decode("utf-8"))
    except UnicodeDecodeError:
        return False


@FUZZ
@given(name=hostile.file_names)
def test_a_name_of_nothing_is_one_line_on_the_terminal(tmp_path_factory: pytest.TempPathFactory, name: bytes) -> None:
    folder = tmp_path_factory.mktemp("nothing")
    said, sys.stderr = sys.stderr, io.TextIOWrapper(io.BytesIO(), encoding="utf-8", errors="backslashreplace")
    try:
        status = cli.main(["report", "--", os.path.join(os.fspath(folder), os.fsdecode(name))])
        sys.stderr.flush()
        line = sys.stderr.buffer.getvalue()
    finally:
        sys.stderr = said
    assert status in (2, 3)
    assert line.startswith(b"leakscope: ")
    assert b"Traceback" not in line


@pytest.mark.further
@FUZZ
@given(words=st.lists(hostile.arguments, max_size=4), path=hostile.file_names)
def test_any_command_line(tmp_path_factory: pytest.TempPathFactory, words: list[bytes], path: bytes) -> None:
    """In the recording of a command with such arguments, and as it is parsed."""
    command = [os.fsdecode(word) for word in words]
    shown = " ".join(command).encode("utf-8", "backslashreplace").decode()
    folder = tmp_path_factory.mktemp("command")
    builder = steady(folder, command=command, cwd=os.fsdecode(path)).process(
        300, cmdline=shown, comm=command and command[0]
    )
    report = look(builder.write())
    assert report is not None
    assert_nothing_invented(report)
    try:
        parse_record(command)
    except LeakscopeError as error:
        assert "Traceback" not in str(error)


LOGS = Path(__file__).parents[2] / "fixtures" / "oom-logs"
LINES = [line for path in sorted(LOGS.glob("*.kmsg")) for line in path.read_text().splitlines()]


@pytest.mark.further
@FUZZ
@given(lines=st.lists(st.sampled_from(LINES) | hostile.texts, max_size=20), data=st.data())
def test_a_kernel_log_of_other_peoples_trouble(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], data: st.DataObject
) -> None:
    """Kills of processes that are not in the recording are not kills of the job."""
    builder = steady(tmp_path_factory.mktemp("log"))
    for line in lines:
        cut = line[data.draw(st.integers(0, 3)) :]
        builder.row("kernel_log", data.draw(st.floats(0, 59)), log_source="kmsg", text=cut)
    assert_nothing_invented(look(builder.write()))
