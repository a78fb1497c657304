"""`leakscope heap` on a program whose holders and sizes are known."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from leakscope.cli import main

from ..heap_graphs import needs_heap_graph
from ..recorder.runs import record

pytestmark = [
    pytest.mark.live,
    pytest.mark.xdist_group("heap-of-a-shop"),  # recorded once
    needs_heap_graph,
]

PROGRAM = """
import time

class Link:
    def __init__(self, before):
        self.before = before
        self.load = bytes(500)

class Chain:
    last = None

class Store:
    def __init__(self):
        self.entries = {}

store = Store()

def work():
    kept = []
    for number in range(8000):
        store.entries[number] = bytes(1000)
        kept.append(bytes(200))
        Chain.last = Link(Chain.last)
        time.sleep(0.001)

work()
"""
_MIB = {"KiB": 1 / 1024, "MiB": 1.0}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("heap")
    (folder / "shop.py").write_text(PROGRAM)
    done = record(folder, "-q", "-o", "run.parquet", "--", "python3", "shop.py", finalize=True)
    assert done.returncode == 0, done.stderr
    return folder / "run.parquet"


def _retained(text: str, name: str) -> float:
    """MiB on the line of a holder."""
    found = re.search(rf"^ *([\d.]+) (KiB|MiB) .* {re.escape(name)}  \(", text, re.MULTILINE)
    assert found, text
    return float(found[1]) * _MIB[found[2]]


def test_the_program_is_shown_at_work_not_as_it_ended(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heap", str(run)]) == 0
    text = capsys.readouterr().out
    (count,) = re.findall(r"shop\.store\.entries  \(dict holding ([\d,]+)\)", text)
    count = int(count.replace(",", ""))
    assert 0 < count <= 8000
    assert 1033 / 2**20 < _retained(text, "shop.store.entries") / count < 1.2 * 1080 / 2**20
    assert 233 / 2**20 < _retained(text, "work() kept") / count < 2 * 250 / 2**20
    first = text.splitlines()[0]
    (at_s, end_s) = re.findall(r"([\d.]+) s\b", first)
    assert "while it worked" in first
    assert "--at-end" in first
    assert main(["heap", str(run), "--at", end_s]) == 0
    ended = capsys.readouterr().out
    assert float(at_s) < float(end_s)
    assert "dict holding 8,000" in ended
    assert "--at-end" not in ended
    assert "work() kept" not in ended, "the function had returned"


def test_one_snapshot_is_asked_for(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heap", str(run), "--at-end", "--at", "3"]) == 2
    assert "--at-end" in capsys.readouterr().err


def test_the_tree_shows_who_holds_how_much(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heap", str(run), "--at-end"]) == 0
    text = capsys.readouterr().out
    assert 8000 * 1033 / 2**20 < _retained(text, "shop.store.entries") < 1.2 * 8000 * 1080 / 2**20
    assert "dict holding 8,000" in text


def test_growth_alone(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heap", str(run), "--diff"]) == 0
    lines = capsys.readouterr().out.splitlines()
    grown = [line for line in lines if re.search(r"\+[\d.]+ MiB", line)]
    assert any("shop.store.entries" in line for line in grown)


def test_any_number_of_links_is_one_holder(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heap", str(run), "--at-end"]) == 0
    text = capsys.readouterr().out
    assert 8000 * 533 / 2**20 < _retained(text, "shop.Chain.last") < 8000 * 1200 / 2**20
    links = re.findall(r"\(([\d,]*) ?__main__\.Link\)", text)
    assert links[0] == "" and len(links) == 2, "the first, and all others"
    assert 7900 < int(links[1].replace(",", "")) <= 8000


def test_what_is_only_pythons_way_is_not_shown(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heap", str(run)]) == 0
    text = capsys.readouterr().out
    for ours_or_pythons in ("sys.modules", "__dict__", "_leakscope_agent"):
        assert ours_or_pythons not in text


def test_an_earlier_snapshot(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heap", str(run), "--at", "3"]) == 0
    text = capsys.readouterr().out
    assert _retained(text, "shop.store.entries") < 6
    assert "work() kept" in text  # the function still ran then


def test_the_way_to_an_object(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heap", str(run), "--path", "entries"]) == 0
    text = capsys.readouterr().out
    assert re.search(r"held by shop\.store  \(__main__\.Store\)", text)
    assert "--at-end" in text.splitlines()[0]


@pytest.mark.slow
def test_after_an_exception_the_frames_still_stand(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = PROGRAM.replace("0.001)\n", "0.0005)\n    raise KeyError(number)\n")
    (tmp_path / "shop.py").write_text(program)
    done = record(tmp_path, "-q", "-o", "run.parquet", "--", "python3", "shop.py", finalize=True)
    assert done.returncode == 1, done.stderr
    assert main(["heap", str(tmp_path / "run.parquet")]) == 0
    text = capsys.readouterr().out
    assert "--at-end" not in text.splitlines()[0]
    assert "dict holding 8,000" in text
    assert re.search(r"work\(\) \w+ +\(list holding 8,000\)", text), "what work() kept"


def test_what_is_not_there_is_said(run: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["heap", str(run), "--path", "nobody_has_this_name"]) == 2
    assert "nobody_has_this_name" in capsys.readouterr().err
    assert main(["heap", str(run), "--pid", "1"]) == 2
    assert "process 1" in capsys.readouterr().err


def test_a_recording_without_snapshots(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    done = record(tmp_path, "-q", "-o", "run.parquet", "--agent", "off", "--", "true", finalize=True)
    assert done.returncode == 0, done.stderr
    assert main(["heap", str(tmp_path / "run.parquet")]) == 2
    assert "run.parquet" in capsys.readouterr().err
