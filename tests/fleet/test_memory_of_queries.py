"""``leakscope fleet query`` takes no more memory than it may, whatever is asked and however large the answer is."""

from __future__ import annotations

import csv
import json
import os
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from leakscope.fleet import index
from tests.builders import RecordingBuilder
from tests.security.poison import ALL

pytest.importorskip("duckdb")
MiB = 1024**2


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("fleet")
    RecordingBuilder(folder, "a.parquet").process(100).samples(100, rss=[1, 7]).ends().write()
    index.index([str(folder)], folder / "fleet.parquet")
    return folder / "fleet.parquet"


def asked(fleet: Path, sql: str, *options: str) -> tuple[int, str, int]:
    """(exit status, what it said on stderr, the most memory it had, bytes)."""
    words = [sys.executable, "-m", "leakscope", "fleet", "query", "-i", str(fleet), sql, *options]
    done = subprocess.run([sys.executable, "-S", "-c", MEASURED, *words], capture_output=True, text=True, check=False)
    return done.returncode, done.stderr, int(done.stdout) * 1024


# By a small process between: until it is another program, a child has all the memory that its parent has.
MEASURED = """
import resource, subprocess, sys
status = subprocess.run(sys.argv[1:], stdout=subprocess.DEVNULL).returncode
print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
sys.exit(status)
"""


HUGE = {
    "rows": "SELECT * FROM range(100000000000)",
    "strings": "SELECT repeat('x', 1000000) FROM range(100000)",
    "a string": "SELECT repeat('x', 4000000000)",
    "longer than any": "SELECT repeat('x', 10000000000)",
    "a list": "SELECT list(i) FROM range(1000000000) t(i)",
    "lists": "SELECT range(i) FROM range(10000000) t(i)",
    "doubled": "WITH RECURSIVE t(i, s) AS (SELECT 1, 'x' UNION ALL SELECT i + 1, s || s FROM t) SELECT * FROM t",
    "joined": "SELECT * FROM range(100000000) a(i) JOIN range(100000000) b(j) ON i % 9 = j % 9 ORDER BY i * j",
    "grouped": "SELECT i, count(*) FROM range(1000000000) a(i) GROUP BY i",
}


@pytest.mark.live
@pytest.mark.cases(2)
@pytest.mark.parametrize("sql", HUGE.values(), ids=HUGE)
def test_what_needs_too_much_ends_in_one_line(fleet: Path, sql: str) -> None:
    status, said, most = asked(fleet, sql)
    assert (status, said.count("\n")) == (2, 1), said
    assert most < 1024 * MiB


@pytest.mark.live
def test_a_lower_limit_is_kept_too(fleet: Path) -> None:
    status, said, most = asked(fleet, HUGE["grouped"], "--memory", "512MiB")
    assert status == 2 and "--memory" in said
    assert most < 512 * MiB


@pytest.mark.live
def test_a_table_that_is_too_long_says_what_to_do(fleet: Path) -> None:
    _, said, _ = asked(fleet, HUGE["rows"])
    assert "LIMIT" in said and "-o result.csv" in said


@pytest.mark.live
@pytest.mark.cases(1)
@pytest.mark.parametrize("suffix", ["parquet", "csv", "json"])
def test_a_file_may_be_longer_than_memory(fleet: Path, tmp_path: Path, suffix: str) -> None:
    output = tmp_path / f"long.{suffix}"
    count = {"parquet": 30_000_000, "csv": 10_000_000, "json": 300_000}[suffix]
    sql = f"SELECT i, i * 31 % 1000003 AS j FROM range({count}) t(i)"
    status, said, most = asked(fleet, sql, "-o", str(output), "--memory", "400MiB")
    assert status == 0, said
    assert most < 400 * MiB
    if suffix == "parquet":
        assert pq.ParquetFile(output).metadata.num_rows == count
    if suffix == "json":
        assert len(json.loads(output.read_text())) == count


@pytest.mark.live
def test_a_file_that_could_not_be_finished_is_none(fleet: Path, tmp_path: Path) -> None:
    output = tmp_path / "result.csv"
    output.write_text("before\n")
    status, _, _ = asked(fleet, HUGE["strings"] + ", range(2)", "-o", str(output), "--memory", "300MiB")
    assert status == 2
    assert output.read_text() == "before\n" and os.listdir(tmp_path) == ["result.csv"]


def test_figures_and_texts_are_the_same_in_every_format(fleet: Path, tmp_path: Path) -> None:
    from leakscope.cli import main

    sql = "SELECT sum(i) AS s, NULL::INT AS n, 1.5 AS f, [1, 2] AS l, 'a' AS t, 't' AS t FROM range(5) x(i)"
    for suffix in ("csv", "json", "parquet"):
        assert main(["fleet", "query", "-i", str(fleet), sql, "-o", str(tmp_path / f"r.{suffix}")]) == 0
    expected = {"s": 10, "n": None, "f": 1.5, "l": [1, 2], "t": "a", "t_1": "t"}
    assert json.loads((tmp_path / "r.json").read_text()) == [expected]
    assert list(csv.reader((tmp_path / "r.csv").open())) == [list(expected), ["10", "", "1.5", "[1, 2]", "a", "t"]]
    (row,) = pq.read_table(tmp_path / "r.parquet").to_pylist()
    assert {name: float(value) if name in "sf" else value for name, value in row.items()} == expected


def test_no_row_is_a_result_too(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from leakscope.cli import main

    sql = "SELECT 1 AS a, 'x' AS b WHERE false"
    assert main(["fleet", "query", "-i", str(fleet), sql, "-f", "csv"]) == 0
    assert capsys.readouterr().out == "a,b\n"
    assert main(["fleet", "query", "-i", str(fleet), sql, "-f", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == []
    assert main(["fleet", "query", "-i", str(fleet), sql]) == 0


def test_an_error_says_nothing_that_steers_a_terminal(fleet: Path, capsys: pytest.CaptureFixture[str]) -> None:
    from leakscope.cli import main

    assert main(["fleet", "query", "-i", str(fleet), f'SELECT 1 FROM "{ALL}"']) == 2
    assert capsys.readouterr().err.rstrip("\n").isprintable()
