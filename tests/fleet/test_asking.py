"""SQL over an index and its samples: what is asked is answered, and nothing else of the host is read or written."""

from __future__ import annotations

import json

import pandas as pd
import pytest

from leakscope import open_recording
from leakscope.cli import main
from leakscope.errors import BadInput
from leakscope.fleet import index
from leakscope.fleet.asking import Asked
from tests.builders import RecordingBuilder
from tests.fleet.fleets import written

pytest.importorskip("duckdb")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory):
    folder = tmp_path_factory.mktemp("fleet")
    _, (fault,) = written(folder / "runs", 3, ["leak-on-one-rank"])
    index.index([str(folder / "runs")], folder / "fleet.parquet")
    return folder, fault


@pytest.fixture
def asked(fleet):
    with Asked(fleet[0] / "fleet.parquet") as connection:
        yield connection


def test_recordings_findings_and_samples(asked, fleet):
    folder, fault = fleet
    leaking = asked.frame("SELECT url FROM recordings WHERE leaking")
    assert len(leaking) == len(fault.paths)
    holders = asked.frame(
        "SELECT DISTINCT f.holder FROM findings f JOIN recordings r USING (url) "
        "WHERE r.leaking AND f.severity = 'critical'"
    )
    assert len(holders) == 1
    path = folder / "runs" / fault.paths[0]
    samples = open_recording(path).tables.process_samples
    told = asked.frame(f"SELECT * FROM process_growth WHERE recording = '{path}' ORDER BY pid")
    assert list(told["peak_bytes"]) == list(samples.groupby("pid")["rss_bytes"].max())
    assert told["slope_bytes_per_hour"][0] > 0
    assert set(told["samples"]) == {4}
    assert asked.frame("SELECT count(*) AS n FROM processes")["n"][0] > 0


@pytest.mark.cases(3)
@pytest.mark.parametrize(
    "sql",
    [
        "COPY (SELECT 1) TO '{outside}'",
        "COPY (SELECT 1) TO '{inside}' (FORMAT parquet, USE_TMP_FILE false)",
        "EXPLAIN ANALYZE COPY (SELECT 1) TO '{inside}' (FORMAT parquet, USE_TMP_FILE false)",
        "SELECT * FROM read_text('{secret}')",
        "SELECT * FROM read_csv('{secret}')",
        "SELECT * FROM '{secret}'",
        "SELECT * FROM glob('/etc/*')",
        "ATTACH '{outside}'",
        "INSTALL httpfs",
        "SET enable_external_access = true",
        "SELECT 1; DROP TABLE recordings",
        "DROP TABLE recordings",
        "SELECT * FROM secret_frame",
    ],
)
def test_nothing_else_is_read_or_written(asked, fleet, tmp_path, sql):
    folder, fault = fleet
    secret_frame = pd.DataFrame({"a": [1]})
    assert len(secret_frame) == 1
    inside, secret, outside = folder / "runs" / fault.paths[0], tmp_path / "secret.csv", tmp_path / "outside"
    secret.write_text("a,b\n1,2\n")
    before = inside.read_bytes()
    with pytest.raises(BadInput):
        asked.frame(sql.format(inside=inside, secret=secret, outside=outside))
    assert inside.read_bytes() == before
    assert not outside.exists()
    assert len(asked.frame("SELECT url FROM recordings")) > 0


def test_the_command_and_its_formats(fleet, capsys):
    path = str(fleet[0] / "fleet.parquet")
    sql = "SELECT state, count(*) AS n, max(peak_bytes) AS peak_bytes FROM recordings GROUP BY state ORDER BY n DESC"
    assert main(["fleet", "query", "-i", path, sql, "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out)[0]["state"] == "final"
    main(["fleet", "query", "-i", path, sql, "-f", "csv"])
    assert capsys.readouterr().out.startswith("state,n,peak_bytes\nfinal,")
    main(["fleet", "query", "-i", path, sql])
    assert "GiB" in capsys.readouterr().out
    assert main(["fleet", "query", "-i", path, "SELECT nothing FROM recordings"]) == 2
    assert capsys.readouterr().err.count("\n") == 1


def test_only_chosen_recordings_are_read(fleet):
    folder, fault = fleet
    with Asked(folder / "fleet.parquet", [f"job={fault.where['job']}", f"rank={fault.where['rank']}"]) as asked:
        told = asked.frame("SELECT DISTINCT recording FROM process_samples")
    assert sorted("/".join(url.split("/")[-3:]) for url in told["recording"]) == sorted(fault.paths)


@pytest.mark.further
def test_recordings_with_other_columns_are_asked_together(tmp_path):
    RecordingBuilder(tmp_path, "a.parquet").process(100).samples(100, rss=[1, 2]).ends().write()
    builder = RecordingBuilder(tmp_path, "b.parquet").process(100).samples(100, rss=[3, 4])
    builder.row("process_samples", 1.0, 100, rss_bytes=9, column_of_tomorrow="x").ends().write()
    index.index([str(tmp_path)], tmp_path / "fleet.parquet")
    assert len(set(index.read_index(tmp_path / "fleet.parquet").column("columns_id"))) == 2
    with Asked(tmp_path / "fleet.parquet") as asked:
        assert asked.frame("SELECT max(rss_bytes) AS most FROM process_samples")["most"][0] == 9


def test_an_index_without_recordings_can_be_asked(tmp_path):
    (tmp_path / "torn.parquet").write_bytes(b"PAR1")
    index.index([str(tmp_path)], tmp_path / "fleet.parquet")
    with Asked(tmp_path / "fleet.parquet") as asked:
        assert asked.frame("SELECT state FROM recordings")["state"][0] == "unreadable"


def test_recordings_of_an_address_are_read_by_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    memory = fsspec.filesystem("memory")
    path = RecordingBuilder(tmp_path, "a.parquet").process(100).samples(100, rss=[1, 7]).ends().write()
    memory.put(str(path), "/asked/a.parquet")
    try:
        index.index(["memory://asked"], tmp_path / "fleet.parquet")
        with Asked(tmp_path / "fleet.parquet") as asked:
            assert asked.frame("SELECT max(rss_bytes) AS most FROM process_samples")["most"][0] == 7
    finally:
        memory.rm("/asked", recursive=True)
