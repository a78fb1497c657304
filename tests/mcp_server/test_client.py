"""`leakscope mcp` as the SDK's own client meets it over stdio: what it lists, answers, refuses and survives."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

from leakscope.cli import main
from leakscope.mcp_server._reader import Reader
from leakscope.mcp_server._tools import TOOLS
from leakscope.storage import open_recording
from tests.builders import RecordingBuilder
from tests.comparing.runs import run

from .clients import LEAKSCOPE, Asked, needs_mcp, session

pytestmark = [pytest.mark.live, needs_mcp]

TUTORIAL = Path(__file__).parents[2] / "docs" / "tutorials" / "start"
MiB = 1024**2
TRAP = "import pathlib\npathlib.Path(__file__).with_suffix('.ran').touch()\n"


@pytest.fixture(scope="module")
def served(tmp_path_factory) -> Path:
    """A folder with recordings, and modules that must not be imported from it."""
    folder = tmp_path_factory.mktemp("served")
    run(folder, "leak.parquet", leak_per_step=1 * MiB).write()
    for name in ("before.parquet", "after.parquet"):
        shutil.copy(TUTORIAL / name, folder / name)
    for name in ("numpy.py", "pandas.py", "duckdb.py"):
        (folder / name).write_text(TRAP)
    return folder


@pytest.fixture(scope="module")
def asked(served) -> Iterator[Asked]:
    """One server for all: it takes longer to start than to answer."""
    with session(served) as asked:
        yield asked


def test_a_client_is_told_what_there_is_and_gets_answers(asked, served):
    listed = asked.tools()
    assert [tool.name for tool in listed] == [tool.name for tool in TOOLS]
    assert all(tool.annotations.read_only_hint and not tool.annotations.open_world_hint for tool in listed)
    assert "Order of work" in asked.client.instructions

    found = asked("list_recordings")
    assert {line.split(" · ")[0] for line in found.text.splitlines()} >= {"before.parquet", "after.parquet"}
    brief = asked("report", recording="before.parquet")
    assert "train.py:16" in brief.text and not brief.is_error
    assert "self.seen.append(words)" in asked("explain_finding", recording="before.parquet").text
    way = asked("heap_path", recording="before.parquet", name="seen").text
    assert "held by main() counts  (__main__.WordCounts)" in way
    grown = asked("heap_top", recording="before.parquet", by_growth=True).text
    assert "main() counts.seen  (list holding " in grown
    count = len(open_recording(TUTORIAL / "before.parquet").tables["process_samples"])
    counted = asked("query", recording="before.parquet", sql="SELECT count(*) AS n FROM process_samples")
    assert counted.text == f"n\n{count}\n"
    assert asked("compare", before="before.parquet", after="after.parquet").text.startswith("**Better**")
    assert not list(served.glob("*.ran")), "nothing of the folder was executed"


def test_what_is_wrong_is_an_error_of_one_line_and_the_server_goes_on(asked, served, tmp_path):
    run(tmp_path / "outside", "secret.parquet").write()
    (served / "link.parquet").symlink_to(tmp_path / "outside" / "secret.parquet")
    whole = (served / "before.parquet").read_bytes()
    (served / "cut.parquet").write_bytes(whole[:9000])
    (served / "zeros.parquet").write_bytes(whole[:5000] + bytes(40_000) + whole[45_000:])
    before = {path: path.stat().st_mtime_ns for path in served.rglob("*")}
    wrong = [
        ("report", {"recording": "../outside/secret.parquet"}, "has .. in it"),
        ("report", {"recording": "link.parquet"}, "lies outside the folder"),
        ("report", {"recording": "/etc/passwd"}, "lies outside the folder"),
        ("report", {"recording": "cut.parquet"}, "truncated"),
        ("report", {"recording": "zeros.parquet"}, "zeros.parquet"),
        ("report", {"recording": "leak.parquet", "format": "html"}, "format: 'html' is not one of"),
        ("report", {}, "'recording' is a required property"),
        ("report", {"recording": 7}, "recording: 7 is not of type 'string'"),
        ("report", {"recording": "leak.parquet", "shell": "x"}, "'shell' was unexpected"),
        ("report", {"recording": "x" * 5000}, "is too long"),
        ("explain_finding", {"recording": "leak.parquet", "number": 99}, "no number 99"),
        ("heap_path", {"recording": "before.parquet", "name": "nowhere"}, "no object that retains much"),
        ("query", {"recording": "leak.parquet", "sql": "COPY takes TO '/tmp/x.csv'"}, "one SELECT is allowed"),
        ("query", {"recording": "leak.parquet", "sql": "SELECT * FROM read_csv('/etc/passwd')"}, "Cannot access file"),
        ("query", {"recording": "leak.parquet", "sql": "SELECT 1", "limit": 10**9}, "limit: 1000000000 is greater"),
        ("_open", {"name": "leak.parquet"}, "there is no tool '_open'"),
    ]

    for tool, arguments, says in wrong:
        said = asked(tool, **arguments)
        assert said.is_error and says in said.text, said
        assert "\n" not in said.text and len(said.text) < 700
    assert not asked("report", recording="leak.parquet").is_error
    assert {path: path.stat().st_mtime_ns for path in served.rglob("*")} == before


def test_answers_and_memory_are_bounded(asked):
    huge = ", ".join(f"repeat('x', 300) AS c{n}" for n in range(20))
    said = asked("query", recording="leak.parquet", sql=f"SELECT {huge} FROM range(1000)", limit=200)
    assert 24_000 <= len(said.text) < 24_200 and said.text.endswith("bytes more are cut: ask for less")
    said = asked("query", recording="leak.parquet", sql="SELECT list(range) FROM range(900000000)")
    assert said.is_error and "memory" in said.text.lower()
    assert not asked("report", recording="leak.parquet").is_error


def test_a_reader_that_ends_or_is_late_costs_one_answer(served):
    with Reader(served) as reader:
        assert not reader.ask("list_recordings", {}).is_error
        reader.stop()
        assert not reader.ask("list_recordings", {}).is_error, "another was started"
    with Reader(served, longest_s=0.01) as reader:
        late = reader.ask("list_recordings", {})
        assert late.is_error and "took longer than 0 s and was stopped" in late.text


@pytest.mark.slow
def test_what_a_recording_says_of_its_sizes_does_not_take_all_memory(asked, served):
    """Text that is stored once and stands in each of 300,000 rows: a few KB of file, 6 GB of memory."""
    path = RecordingBuilder(served, "bomb.parquet").process(1).samples(1, [1, 2]).ends().write()
    file = pq.ParquetFile(path)
    rows = file.read(["table", "time_unix_ns", "time_mono_ns", "time_boot_ns", "pid", "start_ticks"])
    rows = rows.filter(pc.equal(rows["table"], "processes")).take(pa.array([0] * 300_000))
    text = pa.DictionaryArray.from_arrays(pa.array([0] * len(rows), pa.int32()), pa.array(["x" * 20_000]))
    rows = rows.append_column("cmdline", text)
    with pq.ParquetWriter(path, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata({b"leakscope": file.metadata.metadata[b"leakscope"]})
    assert path.stat().st_size < 1_000_000
    said = asked("report", recording="bomb.parquet")
    assert said.is_error and "\n" not in said.text, said
    assert not asked("report", recording="leak.parquet").is_error


def test_a_folder_that_is_none_is_one_line(tmp_path, capsys):
    assert main(["mcp", "--folder", str(tmp_path / "nowhere")]) == 2
    assert capsys.readouterr().err == (
        f"leakscope: {tmp_path}/nowhere is not a folder: name the one that your recordings are in\n"
    )


def test_it_ends_with_its_client(tmp_path):
    done = subprocess.run(
        [LEAKSCOPE, "mcp", "--folder", tmp_path], stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_client_that_goes_away_before_its_answer_is_no_error(tmp_path):
    """As one does that was stopped: what the server says then lands in the client's log."""
    asked = {"jsonrpc": "2.0", "id": 1, "method": "initialize"}
    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "c", "version": "1"}}
    server = subprocess.Popen(
        [LEAKSCOPE, "mcp", "--folder", tmp_path],
        stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
    )  # fmt: skip
    server.stdout.close()
    server.stdin.write(json.dumps({**asked, "params": about}) + "\n")
    server.stdin.close()
    assert server.stderr.read() == ""
    assert server.wait(timeout=300) == 0
