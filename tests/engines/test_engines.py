"""The same rows whatever the engine, on real clusters of two workers; and what is said where one cannot be had."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest

from leakscope.cli import main
from leakscope.engines import EXTRAS
from leakscope.errors import BadInput
from leakscope.fleet.analyzing import addresses_in, analyze_all, write
from leakscope.fleet.report_rows import COLUMNS, row_of
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
def by_one_process(recordings: Path) -> pd.DataFrame:
    return analyze_all([str(recordings)], workers=1)


def test_a_row_says_what_the_report_says(recordings: Path, by_one_process: pd.DataFrame) -> None:
    assert list(by_one_process["verdict"]) == ["not-leaking", "leaking", "unreadable"]
    assert [*by_one_process.columns] == [column.name for column in COLUMNS]
    row = by_one_process.iloc[1]
    assert (row["rank"], row["job"], row["attempt"]) == (1, "j7", 2)
    assert row["path"] == str(recordings / "run.rank1.parquet")
    assert "Trainer.history" in row["first_title"]
    assert (row["first_file"], row["first_line"]) == ("/home/me/train.py", 12)
    report = json.loads(row["report_json"])
    assert report["recording"]["path"] == row["path"]
    assert report["findings"][0]["fingerprint"] == row["first_fingerprint"]
    assert row["growth_bytes"] == report["verdict"]["growth_bytes"]
    torn = by_one_process.iloc[2]
    assert "truncated" in torn["error"]
    assert torn[["growth_bytes", "report_json"]].isna().all()


def test_rows_keep_their_types_where_all_are_null(tmp_path: Path) -> None:
    (tmp_path / "empty.parquet").touch()
    frame = analyze_all([str(tmp_path)], workers=1)
    assert {name: str(dtype) for name, dtype in frame.dtypes.items()} == {c.name: c.type for c in COLUMNS}


@pytest.mark.slow
@pytest.mark.live
@pytest.mark.parametrize("engine", ["local", "dask", "ray", "spark"])
def test_two_workers_of_any_engine_give_the_same_rows_in_the_same_order(
    engine: str, recordings: Path, by_one_process: pd.DataFrame, tmp_path: Path
) -> None:
    if engine in EXTRAS and importlib.util.find_spec(EXTRAS[engine]) is None:  # to import Ray changes the environment
        pytest.skip(f"{EXTRAS[engine]} is not installed")
    output = tmp_path / "rows.parquet"
    command = [sys.executable, "-m", "leakscope", "fleet", "analyze", str(recordings), "--engine", engine]
    done = subprocess.run(
        [*command, "--workers", "2", "-o", str(output)], capture_output=True, text=True, timeout=600, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "3 recordings: 1 not-leaking, 1 leaking, 1 unreadable" in done.stdout
    pd.testing.assert_frame_equal(pd.read_parquet(output), by_one_process)


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
    assert f"pip install 'leakscope-recorder[{engine}]'" in said


def test_a_footer_that_says_nonsense_costs_its_own_cells_only(tmp_path: Path) -> None:
    belongs = {"job": ["j"], "rank": "seven", "attempt": 1 << 70, "commit": "\udce9", "world_size": 10**15}
    run(tmp_path, "run.parquet", belongs=belongs).write()
    row = analyze_all([str(tmp_path)], workers=1).iloc[0]
    assert row["verdict"] == "not-leaking"
    assert row[["job", "rank", "attempt"]].isna().all()
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
    assert "3 recordings: 1 not-leaking, 1 leaking, 1 unreadable" in said


def test_rows_are_written_in_the_form_that_the_name_says(tmp_path: Path, by_one_process: pd.DataFrame) -> None:
    for suffix in (".parquet", ".csv", ".jsonl"):
        write(by_one_process, tmp_path / f"rows{suffix}")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "rows.parquet"), by_one_process)
    assert list(pd.read_csv(tmp_path / "rows.csv")["verdict"]) == list(by_one_process["verdict"])
    lines = (tmp_path / "rows.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["verdict"] for line in lines] == list(by_one_process["verdict"])


def test_addresses_are_folders_files_and_patterns(recordings: Path) -> None:
    everything = [str(recordings / f"run.rank{n}.parquet") for n in range(3)]
    assert addresses_in([str(recordings)]) == everything
    assert addresses_in([str(recordings / "*.parquet"), everything[0]]) == everything
    assert addresses_in([f"file://{everything[1]}"]) == [everything[1]]


def test_addresses_of_other_file_systems_are_read_by_fsspec(recordings: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    fsspec = pytest.importorskip("fsspec")
    store = fsspec.filesystem("memory")
    monkeypatch.setattr(type(store), "store", {})  # which all of a process share
    store.pipe("/bucket/runs/run.rank1.parquet", (recordings / "run.rank1.parquet").read_bytes())
    (address,) = addresses_in(["memory://bucket/runs"])
    row = row_of(address)
    assert (row["path"], row["verdict"], row["rank"]) == (address, "leaking", 1)
    assert row_of("memory://bucket/none.parquet")["verdict"] == "unreadable"
    with pytest.raises(BadInput, match="no recording"):
        addresses_in(["memory://elsewhere"])
