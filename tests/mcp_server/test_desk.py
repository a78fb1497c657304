"""What the tools answer, and what they refuse: asked as the reader asks, without the protocol."""

from __future__ import annotations

import csv
import io
import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from leakscope.cli import main
from leakscope.errors import BadInput, LeakscopeError, UnreadableRecording
from leakscope.mcp_server import _query
from leakscope.mcp_server._answers import Desk
from leakscope.mcp_server._tools import TOOLS
from tests.builders import RecordingBuilder
from tests.comparing.runs import run

MiB = 1024**2
OUTSIDE = "lies outside the folder of this server"


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    """Recordings of a leak and of its fix, and one outside the folder that is served."""
    root = tmp_path_factory.mktemp("made")
    run(root, "before.parquet", leak_per_step=1 * MiB).write()
    run(root / "runs", "after.parquet").write()
    run(root / "outside", "secret.parquet").write()
    return root


@pytest.fixture
def root(made, tmp_path, monkeypatch) -> Path:
    folder = tmp_path / "served"
    shutil.copytree(made, folder)
    shutil.move(folder / "outside", tmp_path / "outside")
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def desk(root) -> Desk:
    return Desk(root)


def ask(desk: Desk, tool: str, **arguments) -> str:
    return desk.answer(tool, arguments)


def refused(desk: Desk, tool: str, **arguments) -> str:
    with pytest.raises(LeakscopeError) as caught:
        ask(desk, tool, **arguments)
    assert "\n" not in str(caught.value)
    return str(caught.value)


def test_an_edit_is_told_with_its_advice_or_why_there_is_none(desk: Desk) -> None:
    told = ask(desk, "fix", recording="before.parquet")
    assert "+++ b/" in told and "do: " in told.splitlines()[1]
    assert "nothing to fix" in refused(desk, "fix", recording="runs/after.parquet")
    assert "there is no number 9" in refused(desk, "fix", recording="before.parquet", number=9)


def state(folder: Path) -> dict[str, object]:
    """All that is in a folder, and when it was changed."""
    return {
        path.relative_to(folder).as_posix(): (path.lstat().st_mtime_ns, path.read_bytes() if path.is_file() else None)
        for path in sorted(folder.rglob("*"))
    }


def test_every_tool_has_a_method_with_its_arguments(desk):
    for tool in TOOLS:
        arguments = getattr(desk, tool.name).__annotations__.keys() - {"return"}
        assert arguments == tool.properties.keys(), tool.name
    with pytest.raises(BadInput, match="there is no tool '_open'"):
        ask(desk, "_open", name="before.parquet")


def test_recordings_are_listed_with_what_they_say_of_themselves(desk, root):
    os.utime(root / "before.parquet", (1, 1))
    (root / "notes.parquet").write_bytes(b"no recording")
    lines = ask(desk, "list_recordings").splitlines()
    assert [line.split(" · ")[0] for line in lines[:2]] == ["runs/after.parquet", "before.parquet"], "newest first"
    assert "exit status 0" in lines[0]
    assert lines[2:] == ["1 files that end in .parquet are no recordings, or lead outside"]
    assert ask(desk, "list_recordings", under="runs").count("\n") == 0
    assert ask(desk, "list_recordings", under="empty").startswith("no recordings in empty")


def test_a_kept_verdict_is_listed(root):
    verdict = {"leaking": True, "headline": "Memory leaks: x keeps growing."}
    RecordingBuilder(root, "told.parquet", verdict=verdict).process(1).samples(1, [1, 2]).ends().write()
    assert "LEAKING: Memory leaks: x keeps growing." in ask(Desk(root), "list_recordings")
    RecordingBuilder(root, "early.parquet", verdict={**verdict, "as_of_s": 200.0}).process(1).samples(1, [1]).write()
    assert "LEAKING (provisional: the run went on): Memory" in ask(Desk(root), "list_recordings")


def test_a_report_is_brief_unless_asked_otherwise(desk):
    brief = ask(desk, "report", recording="before.parquet")
    assert brief.startswith("**LEAKING**") and len(brief.encode()) < 2000
    assert "train.py:12" in brief and "> 12         self.history.append(x)" in brief
    assert "leakscope compare before.parquet after.parquet" in brief
    assert ask(desk, "report", recording="before.parquet", format="markdown").startswith("## LEAKING")
    report = json.loads(ask(desk, "report", recording="before.parquet", format="json"))
    assert report["schema"] == "leakscope.report/1" and "timeline" in report["left_out"]


def test_a_finding_is_explained_with_all_it_rests_on(desk):
    told = ask(desk, "explain_finding", recording="before.parquet", number=1)
    for part in ("Finding 1 of", "edit: ", "Evidence", "What its confidence rests on", "by itself)", "What to do",
                 "When findings of this kind are mistaken", ">    12      ", "fingerprint "):  # fmt: skip
        assert part in told
    assert "there is no number 9" in refused(desk, "explain_finding", recording="before.parquet", number=9)


def test_a_fix_is_told(desk):
    told = ask(desk, "compare", before="before.parquet", after="runs/after.parquet")
    assert told.startswith("**Better**") and "gone" in told
    assert ask(desk, "compare", before="runs/after.parquet", after="before.parquet").startswith("**Worse**")


def test_what_a_project_ignores_is_ignored(desk, root, tmp_path):
    ignored = '[tool.leakscope]\nignore = [{holder = "Trainer.history", reason = "bounded"}]\n'
    (root / "pyproject.toml").write_text(ignored)
    assert "ignored by pyproject" in ask(desk, "report", recording="before.parquet")
    (root / "pyproject.toml").rename(tmp_path / "outside.toml")
    (root / "pyproject.toml").symlink_to(tmp_path / "outside.toml")
    assert "ignored by pyproject" not in ask(Desk(root), "report", recording="before.parquet")


@pytest.mark.parametrize(
    "name",
    ["/etc/passwd", "//etc/passwd", "link.parquet", "folder/secret.parquet", "loop.parquet/x", "a/link.parquet"],
)
def test_what_lies_outside_is_refused_whether_it_is_there_or_not(desk, root, tmp_path, name):
    (root / "link.parquet").symlink_to(tmp_path / "outside" / "secret.parquet")
    (root / "folder").symlink_to(tmp_path / "outside")
    (root / "a").mkdir()
    (root / "a" / "link.parquet").symlink_to(tmp_path / "outside" / "nothing.parquet")
    (root / "loop.parquet").symlink_to("/loop.parquet")
    told = {tool: refused(desk, tool, recording=name, **more) for tool, more in (
        ("report", {}), ("explain_finding", {}), ("heap_top", {}), ("heap_path", {"name": "x"}),
        ("query", {"sql": "SELECT 1"}),
    )}  # fmt: skip
    assert set(told.values()) == {f"{name} {OUTSIDE}"}
    assert OUTSIDE in refused(desk, "compare", before="before.parquet", after=name)
    assert name not in ask(desk, "list_recordings")


@pytest.mark.parametrize("name", ["", "../outside/secret.parquet", "runs/../../x", "run\0.parquet", "~/x.parquet", "."])
def test_names_that_are_none_are_refused(desk, name):
    refused(desk, "report", recording=name)
    if name not in (".", ""):
        refused(desk, "list_recordings", under=name) if "~" not in name else ask(desk, "list_recordings", under=name)


def test_links_to_what_is_inside_and_absolute_names_of_it_are_fine(desk, root):
    (root / "link.parquet").symlink_to(root / "before.parquet")
    brief = ask(desk, "report", recording=str(root / "before.parquet"))
    assert brief == ask(desk, "report", recording="before.parquet")
    assert ask(desk, "report", recording="link.parquet").startswith("**LEAKING**")


@pytest.mark.parametrize(
    "beside", ["before.parquet.journal", "before.heap-1-2.parquet", "before.parquet.journal/x.jnl"]
)
def test_what_is_read_with_a_recording_is_no_way_out(desk, root, tmp_path, beside):
    (root / beside).parent.mkdir(exist_ok=True)
    (root / beside).symlink_to(tmp_path / "outside")
    assert OUTSIDE in refused(desk, "report", recording="before.parquet")
    assert OUTSIDE in refused(desk, "report", recording="before.parquet.journal")


def test_a_fifo_keeps_nobody_waiting(desk, root):
    os.mkfifo(root / "pipe.parquet")
    assert "is not a regular file" in refused(desk, "report", recording="pipe.parquet")
    assert "before.parquet" in ask(desk, "list_recordings")


@pytest.mark.parametrize("damage", ["empty", "cut", "zeros", "foreign", "noise"])
def test_damaged_recordings_are_one_line(desk, root, damage):
    path = root / "before.parquet"
    whole = path.read_bytes()
    left = {
        "empty": b"", "cut": whole[:3000], "zeros": whole[:200] + bytes(len(whole) - 400) + whole[-200:],
        "foreign": b"PAR1" + b"x" * 100 + b"PAR1", "noise": os.urandom(5000),
    }  # fmt: skip
    path.write_bytes(left[damage])
    with pytest.raises(UnreadableRecording, match=r"^[^\n]*before\.parquet[^\n]*$"):
        ask(desk, "report", recording="before.parquet")
    assert "before.parquet ·" not in ask(desk, "list_recordings")


def test_nothing_is_written_also_where_a_dead_recorder_left_a_journal(root):
    builder = RecordingBuilder(root, "dead.parquet").process(100).samples(100, rss=[1, 2])
    builder.write_journal()
    before, desk = state(root), Desk(root)
    assert ask(desk, "report", recording="dead.parquet").startswith("**CANNOT TELL**")
    for tool, arguments in (
        ("list_recordings", {}),
        ("report", {"recording": "before.parquet"}),
        ("explain_finding", {"recording": "before.parquet"}),
        ("query", {"recording": "dead.parquet", "sql": "SELECT * FROM process_samples"}),
        ("compare", {"before": "before.parquet", "after": "runs/after.parquet"}),
    ):
        ask(desk, tool, **arguments)
    assert state(root) == before


def rows(text: str) -> list[dict[str, str]]:
    return list(csv.DictReader(io.StringIO(text)))


def test_tables_are_there_for_sql(desk):
    tables = rows(ask(desk, "query", recording="before.parquet", sql="SELECT * FROM recording_tables;"))
    assert {"process_samples", "takes", "heap_nodes"} <= {row["table_name"] for row in tables}
    sql = "SELECT column_name, unit FROM recording_columns WHERE table_name = 'process_samples'"
    assert {"column_name": "rss_bytes", "unit": "bytes"} in rows(
        ask(desk, "query", recording="before.parquet", sql=sql)
    )
    sql = "SELECT max(rss_bytes) - min(rss_bytes) AS gained, count(*) AS n FROM process_samples"
    (row,) = rows(ask(desk, "query", recording="before.parquet", sql=sql))
    assert int(row["gained"]) > 200 * MiB and int(row["n"]) == 120
    assert rows(ask(desk, "query", recording="before.parquet", sql="SELECT NULL AS a, 'x,\"\n' AS b")) == [
        {"a": "", "b": 'x,"\\n'}
    ]


def test_rows_and_cells_are_bounded_and_it_is_said(desk):
    sql = "SELECT range, repeat('x', 1000) AS long FROM range(1000)"
    told = ask(desk, "query", recording="before.parquet", sql=sql, limit=3)
    assert told.endswith("… more rows: only 3 are shown\n")
    assert [len(row["long"]) for row in rows(told)[:3]] == [300] * 3


@pytest.mark.parametrize(
    "sql",
    [
        "COPY process_samples TO '/tmp/leakscope-test-copy.csv'",
        "COPY (SELECT 1) TO 'out.csv'",
        "EXPORT DATABASE '/tmp/leakscope-test-export'",
        "ATTACH '/tmp/leakscope-test.db'",
        "INSTALL httpfs",
        "LOAD httpfs",
        "CREATE TABLE x AS SELECT 1",
        "INSERT INTO process_samples VALUES (1)",
        "SET memory_limit = '64GB'",
        "SET enable_external_access = true",
        "PRAGMA database_list",
        "CALL pragma_version()",
        "SELECT 1; COPY (SELECT 1) TO 'out.csv'",
        "SELECT 1; SELECT 2",
        "EXPLAIN ANALYZE SELECT 1",
        "-- nothing",
        "",
    ],
)
def test_only_one_select_is_allowed(desk, root, sql):
    before = state(root)
    assert refused(desk, "query", recording="before.parquet", sql=sql).startswith("one SELECT is allowed")
    assert state(root) == before
    assert not list(Path("/tmp").glob("leakscope-test*"))


@pytest.mark.parametrize(
    "sql",
    [
        "SELECT * FROM read_csv('/etc/passwd')",
        "SELECT * FROM read_text('/etc/passwd')",
        "SELECT * FROM read_blob('/proc/self/environ')",
        "SELECT * FROM '/etc/passwd'",
        "SELECT * FROM 'before.parquet'",
        "SELECT * FROM read_parquet('before.parquet')",
        "SELECT * FROM glob('/etc/*')",
        "SELECT * FROM sniff_csv('/etc/passwd')",
        "SELECT * FROM read_json('https://example.invalid/x.json')",
        "SELECT * FROM query('COPY (SELECT 1) TO ''out.csv''')",
        "SELECT getenv('HOME')",
        "SELECT * FROM recording",
        "SELECT * FROM frames",
        "SELECT nonsense FROM process_samples",
        "SELECT",
        "\x00",
    ],
)
def test_no_select_reaches_a_file_or_a_variable(desk, root, sql):
    before = state(root)
    told = refused(desk, "query", recording="before.parquet", sql=sql)
    assert "root:" not in told and len(told) < 1500
    assert state(root) == before


def test_without_the_sdk_it_says_what_to_install(root, monkeypatch, capsys):
    monkeypatch.setitem(sys.modules, "mcp_types", None)
    assert main(["mcp"]) == 2
    assert "pip install mcp duckdb" in capsys.readouterr().err
    monkeypatch.setitem(sys.modules, "duckdb", None)
    assert "pip install duckdb" in refused(Desk(root), "query", recording="before.parquet", sql="")


def test_who_names_no_table_is_told_which_there_are(desk):
    told = refused(desk, "query", recording="before.parquet", sql="SELECT * FROM memory")
    assert "recording_columns" in told and "process_samples" in told


def test_a_query_without_end_is_stopped(desk, monkeypatch):
    monkeypatch.setattr(_query, "_LONGEST_S", 0.3)
    sql = "SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range % 7 = 3"
    assert "took longer than 0 s" in refused(desk, "query", recording="before.parquet", sql=sql)


def test_a_query_that_needs_too_much_memory_is_told_so(desk):
    sql = "SELECT list(range) FROM range(200000000)"
    assert "memory" in refused(desk, "query", recording="before.parquet", sql=sql).lower()
