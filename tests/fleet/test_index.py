"""One row a recording, also of what cannot be read; and a second index reads what is new."""

from __future__ import annotations

import gzip
import json
import os
import shutil
import subprocess
import sys

import pytest

from leakscope.cli import main
from leakscope.errors import BadInput, UnreadableRecording
from leakscope.fleet import demo, index
from leakscope.fleet import rows as rows_module
from leakscope.fleet.index import read_index
from leakscope.storage.columnar import write_recording
from tests.builders import RecordingBuilder
from tests.fleet import synthetic
from tests.fleet.fleets import planted, written
from tests.fleet.synthetic.__main__ import made


def rows(path):
    return {row["url"].rpartition("/")[2]: row for row in read_index(path).rows()}


@pytest.fixture
def runs(tmp_path):
    """A folder with a recording of today, which nobody judged, and one with all a footer may say."""
    folder = tmp_path / "runs"
    (folder / "deep").mkdir(parents=True)
    RecordingBuilder(folder, "old.parquet").process(100).samples(100, rss=[1, 2, 3]).ends().write()
    footer = {
        "command": ["python", "train.py"], "host": "node-7", "started_at": "2026-11-25T08:00:00Z",
        "labels": {"team": "llm"}, "start_mono_ns": 0, "last_mono_ns": 5_000_000_000,
        "belongs": {"job": "llm", "rank": 3, "attempt": 2, "commit": "abc", "node": "gpu-3"},
        "verdict": {
            "leaking": True, "killed": False, "headline": "it grows", "growth_bytes": 5, "growth_bytes_per_hour": 7.5,
            "findings": [{"kind": "retained-objects", "severity": "critical", "fingerprint": "f" * 32, "bytes": 4}],
        },
        "figures": {"peak_bytes": 9, "gpu_driver": "550"},
    }  # fmt: skip
    write_recording(
        folder / "deep" / "new.parquet", {"host_samples": {"time_mono_ns": [1], "mem_total_bytes": [2]}}, footer
    )
    return folder


def test_a_row_has_what_the_footer_says(runs, tmp_path):
    done = index.index([str(runs)], tmp_path / "fleet.parquet")
    assert (done.total, done.read, done.new) == (2, 2, 2)
    found = rows(tmp_path / "fleet.parquet")
    new, old = found["new.parquet"], found["old.parquet"]
    assert new["url"] == str(runs / "deep" / "new.parquet")
    assert (new["state"], new["judged"], new["leaking"], new["rank"], new["attempt"]) == ("final", True, True, 3, 2)
    assert (new["node"], new["host"], new["peak_bytes"], new["gpu_driver"]) == ("gpu-3", "node-7", 9, "550")
    assert new["findings"][0]["fingerprint"] == "f" * 32
    assert new["started_at"].isoformat() == "2026-11-25T08:00:00+00:00"
    assert (old["judged"], old["leaking"], old["node"]) == (False, None, "testhost")
    assert old["duration_s"] == pytest.approx(2.0, abs=1)


def test_what_did_not_change_is_not_read_again(runs, tmp_path, monkeypatch):
    output = tmp_path / "fleet.parquet"
    index.index([str(runs)], output)
    read = []
    real = rows_module.footer
    monkeypatch.setattr(
        rows_module, "footer", lambda tail, size, where: read.append(str(where)) or real(tail, size, where)
    )
    assert index.index([str(runs)], output).read == 0
    assert read == []
    shutil.copy(runs / "old.parquet", runs / "third.parquet")
    os.utime(runs / "old.parquet", ns=(1, 1))
    done = index.index([str(runs)], output)
    assert sorted(path.rpartition("/")[2] for path in read) == ["old.parquet", "third.parquet"]
    assert (done.total, done.read, done.new) == (3, 2, 1)
    found = rows(output)
    assert (found["old.parquet"]["first_index"], found["old.parquet"]["read_index"]) == (1, 3)
    assert found["third.parquet"]["first_index"] == 3
    (runs / "third.parquet").unlink()
    assert index.index([str(runs)], output).gone == 1
    assert len(rows(output)) == 2


def test_rows_from_elsewhere_stay(runs, tmp_path):
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(runs / "old.parquet", other / "fourth.parquet")
    output = tmp_path / "fleet.parquet"
    index.index([str(runs)], output)
    assert index.index([str(other / "*.parquet")], output).total == 3
    assert index.index([f"file://{runs}"], output).gone == 0


def test_unreadable_and_unfinished_ones_are_rows(runs, tmp_path):
    whole = (runs / "old.parquet").read_bytes()
    (runs / "torn.parquet").write_bytes(whole[:-100])
    (runs / "nothing.parquet").touch()
    (runs / "text.parquet").write_text("no parquet at all, whatever its name says")
    (runs / "dangling.parquet").symlink_to("nowhere")
    builder = RecordingBuilder(runs, "cut.parquet", host="lost-1").process(100)
    builder.write_journal()
    (runs / "hidden").mkdir()
    (runs / "hidden" / ".run.parquet.tmp-1").write_bytes(whole)
    done = index.index([str(runs)], tmp_path / "fleet.parquet")
    assert done.states == {"final": 2, "unfinished": 1, "unreadable": 3}
    found = rows(tmp_path / "fleet.parquet")
    assert "truncated" in found["torn.parquet"]["problem"]
    assert "empty" in found["nothing.parquet"]["problem"]
    assert found["cut.parquet"]["host"] == "lost-1"
    assert "finalize" in found["cut.parquet"]["problem"]
    shutil.rmtree(builder.journal)
    shutil.copy(runs / "old.parquet", runs / "cut.parquet")
    index.index([str(runs)], tmp_path / "fleet.parquet")
    assert rows(tmp_path / "fleet.parquet")["cut.parquet"]["state"] == "final"


def test_others_parquet_is_left_out_of_lists(runs, tmp_path, capsys):
    import pandas as pd

    pd.DataFrame({"a": [1]}).to_parquet(runs / "data.parquet")
    output = tmp_path / "fleet.parquet"
    assert main(["fleet", "index", str(runs), "-o", str(output)]) == 0
    assert "2 recordings, 3 read (3 new), 1 judged, 1 other parquet files left out" in capsys.readouterr().err
    assert main(["fleet", "list", str(output)]) == 0
    assert "data.parquet" not in capsys.readouterr().out


def test_values_of_the_wrong_kind_are_null(tmp_path):
    footer = {
        "command": "python", "labels": ["x"], "started_at": "yesterday", "host": 7, "ended": "well",
        "belongs": {"job": 4711, "rank": "three", "attempt": True, "world_size": float("inf")},
        "verdict": {"leaking": "yes", "growth_bytes": 1e300, "findings": [7, {"bytes": "many"}]},
        "figures": ["none"],
    }  # fmt: skip
    write_recording(tmp_path / "odd.parquet", {"host_samples": {"time_mono_ns": [1]}}, footer)
    index.index([str(tmp_path / "odd.parquet")], tmp_path / "fleet.parquet")
    row = rows(tmp_path / "fleet.parquet")["odd.parquet"]
    assert (row["job"], row["host"]) == ("4711", "7"), "jobs of Slurm are numbers"
    nulls = (
        "rank",
        "attempt",
        "world_size",
        "leaking",
        "growth_bytes",
        "started_at",
        "command",
        "labels",
        "peak_bytes",
    )
    assert [row[name] for name in nulls] == [None] * len(nulls)
    assert [one["bytes"] for one in row["findings"]] == [None]


def test_wrong_use_is_one_line(tmp_path, capsys):
    assert main(["fleet", "index", str(tmp_path / "nowhere")]) == 2
    assert "there is nothing at" in capsys.readouterr().err
    assert main(["fleet", "list", str(tmp_path / "nowhere.parquet")]) == 3
    assert "make one with `leakscope fleet index FOLDER`" in capsys.readouterr().err
    with pytest.raises(BadInput, match="nosuch"):
        index.index(["nosuch://bucket/runs"], tmp_path / "x.parquet")
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 no index")
    with pytest.raises(UnreadableRecording):
        read_index(tmp_path / "bad.parquet")


@pytest.mark.further
def test_an_address_of_fsspec(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    written(tmp_path / "runs", 3, ["leak-on-one-rank"])
    memory = fsspec.filesystem("memory")
    memory.put(str(tmp_path / "runs"), "/indexed/runs", recursive=True)
    try:
        here = index.index([str(tmp_path / "runs")], tmp_path / "here.parquet")
        there = index.index(["memory://indexed/runs"], tmp_path / "there.parquet")
        assert there.states == here.states
        columns = ("job", "rank", "leaking", "peak_bytes", "state")
        assert [read_index(tmp_path / "there.parquet").column(c) for c in columns] == [
            read_index(tmp_path / "here.parquet").column(c) for c in columns
        ]
        assert index.index(["memory://indexed/runs/*/*/*.parquet"], tmp_path / "there.parquet").new == 0
    finally:
        memory.rm("/indexed", recursive=True)


def test_list_filters_and_sorts(tmp_path, capsys):
    _, (fault,) = written(tmp_path / "runs", 3, ["leak-on-one-rank"])
    output = str(tmp_path / "fleet.parquet")
    main(["fleet", "index", "-q", str(tmp_path / "runs"), "-o", output])
    assert main(["fleet", "list", output, "-w", "leaking", "-f", "json"]) == 0
    told = json.loads(capsys.readouterr().out)["recordings"]
    assert sorted("/".join(row["url"].split("/")[-3:]) for row in told) == sorted(fault.paths)
    main(
        [
            "fleet",
            "list",
            output,
            "-w",
            f"job={fault.where['job']}",
            "-w",
            "peak_bytes>1GiB",
            "-s",
            "peak_bytes",
            "-f",
            "csv",
        ]
    )
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) > len(fault.paths)
    main(["fleet", "list", output, "-w", "node~gpu-*", "-n", "2"])
    out = capsys.readouterr().out
    assert "2 of " in out
    assert main(["fleet", "list", output, "-w", "nonsense"]) == 2
    assert "is not a rule" in capsys.readouterr().err
    assert main(["fleet", "list", output, "-s", "nonsense"]) == 2
    assert "no column 'nonsense'" in capsys.readouterr().err


def test_what_a_run_gained_that_does_not_leak_is_no_rate_and_stands_below(tmp_path, capsys):
    output = str(tmp_path / "fleet.parquet")
    for name, leaking, rate in (("loads", False, 9e9), ("leaks", True, 5e9)):
        verdict = {"leaking": leaking, "growth_bytes": 5, "growth_bytes_per_hour": rate, "findings": []}
        footer = {"host": name, "start_mono_ns": 0, "last_mono_ns": 10**9, "verdict": verdict}
        rows = {"host_samples": {"time_mono_ns": [1], "mem_total_bytes": [2]}}
        write_recording(tmp_path / f"{name}.parquet", rows, footer)
    main(["fleet", "index", "-q", str(tmp_path), "-o", output])
    main(["fleet", "list", output])
    first, second = capsys.readouterr().out.splitlines()[2:4]
    assert ("leaks.parquet" in first, "79.5 MiB" in first) == (True, True)
    assert ("loads.parquet" in second, "GiB" in second) == (True, False)


def test_the_same_seed_gives_the_same_fleet_to_the_byte(tmp_path):
    def fleet(seed, name):
        made, _ = planted(seed, ["large-rank"], nodes=4, hours=1.0)
        synthetic.write(made.runs[:12], [], tmp_path / name, processes=2, seed=seed)
        files = sorted(path for path in (tmp_path / name).rglob("*") if path.is_file())
        return {str(path.relative_to(tmp_path / name)): path.read_bytes() for path in files}

    first = fleet(3, "one")
    assert len(first) == 13
    assert first == fleet(3, "two")
    assert first != fleet(4, "three")


@pytest.mark.slow
def test_a_demo_is_a_fleet_with_faults_that_it_names(tmp_path, capsys):
    folder = tmp_path / "demo"
    words = [sys.executable, "-m", "leakscope", "fleet", "demo", str(folder)]
    done = subprocess.run(words, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "739 recordings, 7 faults, which " in done.stderr
    truth = json.loads((folder / "truth.json").read_text(encoding="utf-8"))
    assert len(truth["faults"]) == 7
    done = index.index([str(folder)], tmp_path / "fleet.parquet")
    assert done.states["final"] > 600
    assert main(["fleet", "demo", str(folder)]) == 2
    assert "is there already" in capsys.readouterr().err


def test_the_demo_is_the_one_that_the_generator_makes():
    assert json.loads(gzip.decompress(made())) == json.loads(gzip.decompress(demo.FLEET.read_bytes()))
