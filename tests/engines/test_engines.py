"""The same rows whatever the engine, on real clusters of two workers; and what is said where one cannot be had."""

from __future__ import annotations

import csv
import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from leakscope.cli import main
from leakscope.engines._extras import EXTRAS
from leakscope.errors import BadInput, LeakscopeError
from leakscope.fleet import index
from leakscope.fleet.analyzing import analyze_all, write
from leakscope.fleet.columns import TYPES
from leakscope.fleet.index import read_index
from leakscope.reporting import answer_of
from leakscope.storage import keep_answer, open_recording
from leakscope.storage.catalogue import Catalogue
from tests.comparing.runs import MiB, run

pytestmark = pytest.mark.judging


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One that leaks, one that does not, and one that was copied by half."""
    folder = tmp_path_factory.mktemp("fleet")
    run(folder, "run.rank0.parquet").write()
    run(folder, "run.rank1.parquet", leak_per_step=0.5 * MiB, belongs={"job": "j7", "rank": 1, "attempt": 2}).write()
    whole = run(folder, "run.rank2.parquet").write()
    whole.write_bytes(whole.read_bytes()[:-100])
    return folder


@pytest.fixture(scope="module")
def by_one_process(recordings: Path) -> Catalogue:
    return analyze_all([str(recordings)], workers=1)


def test_a_row_says_what_the_report_says(recordings: Path, by_one_process: Catalogue) -> None:
    assert by_one_process.column("leaking") == [False, True, None]
    assert by_one_process.table.column_names == [*TYPES, "report_json"]
    _, row, torn = by_one_process.rows()
    assert (row["rank"], row["job"], row["attempt"]) == (1, "j7", 2)
    assert row["url"] == str(recordings / "run.rank1.parquet")
    report, first = json.loads(row["report_json"]), row["findings"][0]
    assert report["recording"]["path"] == row["url"]
    assert report["findings"][0]["fingerprint"] == first["fingerprint"]
    assert (first["holder"], first["line"]) == ("Trainer.history (list)", 12)
    assert row["growth_bytes"] == report["verdict"]["growth_bytes"]
    assert (torn["state"], torn["judged"]) == ("unreadable", False)
    assert "truncated" in torn["problem"]
    assert torn["growth_bytes"] is torn["report_json"] is None


def test_it_is_the_row_that_an_index_reads_from_the_footer(tmp_path: Path) -> None:
    path = run(tmp_path, "run.parquet", leak_per_step=0.5 * MiB, belongs={"job": "j7", "rank": 1}).write()
    (analyzed,) = analyze_all([str(tmp_path)]).rows()
    recording = open_recording(path)
    assert keep_answer(recording, answer_of(recording).footer)
    index.index([str(tmp_path)], tmp_path / "fleet.parquet")
    (indexed,) = read_index(tmp_path / "fleet.parquet").rows()
    changed = {"size_bytes", "stamp", "columns_id"}  # the file was written anew
    assert {key: analyzed[key] for key in indexed if key not in changed} == {
        key: indexed[key] for key in indexed if key not in changed
    }


def test_the_other_commands_read_it_as_an_index(
    recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    output = str(tmp_path / "fleet.parquet")
    assert main(["fleet", "analyze", "-q", str(recordings), "-o", output, "--workers", "1"]) == 0
    assert main(["fleet", "report", output, "-f", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["counts"]["leaking"], told["counts"]["not_leaking"], told["counts"]["unreadable"]) == (1, 1, 1)
    assert main(["fleet", "list", output, "-f", "json", "-w", "leaking"]) == 0
    (row,) = json.loads(capsys.readouterr().out)["recordings"]
    assert "report_json" not in row
    assert index.index([str(recordings)], Path(output)).read == 0, "what was judged stays"


def test_columns_keep_their_types_where_all_are_null(tmp_path: Path, by_one_process: Catalogue) -> None:
    (tmp_path / "empty.parquet").touch()
    assert analyze_all([str(tmp_path)], workers=1).table.schema == by_one_process.table.schema


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.parametrize("engine", ["local", "dask", "ray", "spark"])
def test_two_workers_of_any_engine_give_the_same_rows_in_the_same_order(
    engine: str, recordings: Path, by_one_process: Catalogue, tmp_path: Path
) -> None:
    if engine in EXTRAS and importlib.util.find_spec(EXTRAS[engine]) is None:  # to import Ray changes the environment
        pytest.skip(f"{EXTRAS[engine]} is not installed")
    output = tmp_path / "rows.parquet"
    command = [sys.executable, "-m", "leakscope", "fleet", "analyze", str(recordings), "--engine", engine]
    done = subprocess.run(
        [*command, "--workers", "2", "-o", str(output)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "3 recordings: " in done.stdout
    assert pq.read_table(output).to_pylist() == by_one_process.rows()


@pytest.mark.parametrize("engine", sorted(EXTRAS))
def test_an_engine_that_is_not_installed_says_what_to_install(
    engine: str, recordings: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    really = importlib.import_module

    def absent(name: str, package: str | None = None) -> object:
        if name in EXTRAS.values():
            raise ImportError(f"No module named {name!r}", name=name)
        return really(name, package)

    monkeypatch.setattr(importlib, "import_module", absent)
    assert main(["fleet", "analyze", str(recordings), "--engine", engine]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "pip install " in said and EXTRAS[engine] in said.partition("pip install ")[2]


def test_a_footer_that_says_nonsense_costs_its_own_cells_only(tmp_path: Path) -> None:
    belongs = {"job": ["j"], "rank": "seven", "attempt": 1 << 70, "commit": "\udce9", "world_size": 10**15}
    run(tmp_path, "run.parquet", belongs=belongs).write()
    (row,) = analyze_all([str(tmp_path)], workers=1).rows()
    assert row["leaking"] is False
    assert row["job"] is row["rank"] is row["attempt"] is None
    assert row["commit"] == "?"


def test_wrong_use_is_told(recordings: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for words in (["--engine", "slurm"], ["--workers", "0"], ["--address", "tcp://head:8786"], ["-o", "rows.xlsx"]):
        assert main(["fleet", "analyze", str(recordings), *words]) == 2, words
        assert capsys.readouterr().err.count("\n") == 1
    assert main(["fleet", "analyze", str(tmp_path)]) == 2
    assert main(["fleet", "analyze", str(tmp_path / "*.parquet")]) == 2
    assert main(["fleet", "analyze", str(recordings / "run.rank2.parquet")]) == 3


def test_the_command_says_what_leaks_first(recordings: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["fleet", "analyze", str(recordings), "--workers", "1"]) == 0
    said = capsys.readouterr().out
    assert said.startswith("leaking ")
    assert "3 recordings: 1 leaking, 1 unreadable, 1 not leaking" in said


def test_rows_are_written_in_the_form_that_the_name_says(tmp_path: Path, by_one_process: Catalogue) -> None:
    for suffix in (".parquet", ".csv", ".jsonl"):
        write(by_one_process, tmp_path / f"rows{suffix}")
    assert pq.read_table(tmp_path / "rows.parquet").to_pylist() == by_one_process.rows()
    with open(tmp_path / "rows.csv", encoding="utf-8", newline="") as stream:
        assert [row["leaking"] for row in csv.DictReader(stream)] == ["False", "True", ""]
    lines = (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["report_json"] for line in lines] == by_one_process.column("report_json")
    with pytest.raises(LeakscopeError, match="cannot write"):
        write(by_one_process, tmp_path / "nowhere" / "rows.csv")


def test_a_recording_is_named_by_its_folder_itself_or_a_pattern_and_told_once(
    recordings: Path, by_one_process: Catalogue
) -> None:
    twice = analyze_all([f"file://{recordings}/*.parquet", str(recordings / "run.rank2.parquet")], workers=1)
    assert twice.rows() == by_one_process.rows()


def test_addresses_of_other_file_systems_are_read_by_fsspec(recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    monkeypatch.setattr(type(store), "store", {})  # which all of a process share
    store.pipe("/bucket/runs/run.rank1.parquet", (recordings / "run.rank1.parquet").read_bytes())
    (row,) = analyze_all(["memory://bucket/runs"]).rows()
    assert (row["leaking"], row["rank"]) == (True, 1)
    assert row["url"].endswith("/bucket/runs/run.rank1.parquet")
    with pytest.raises(BadInput, match="no recording"):
        analyze_all(["memory://elsewhere"])
