"""The whole heap of a snapshot, from a real recording: as tables, by the command, and where its file is damaged."""

from __future__ import annotations

import shutil
from pathlib import Path

import pandas as pd
import pytest

from leakscope import open_recording
from leakscope.browsing.whole import whole_heap_of
from leakscope.cli import main
from leakscope.errors import BadInput, UnreadableRecording
from leakscope.storage import whole_heap
from leakscope.storage.finalize import finalize

from ..heap_graphs import needs_heap_graph
from ..recorder.runs import PYTHON, record

pytestmark = [
    pytest.mark.live,
    needs_heap_graph,
]

PROGRAM = """
import time

class Session:
    def __init__(self, number):
        self.name = "session %d" % number

class Cache:
    def __init__(self):
        self.entries = {number: Session(number) for number in range(5000)}

CACHE = Cache()

def main():
    time.sleep(4)

main()
"""


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A recording that is not finalised: a folder with run.parquet and its journal."""
    folder = tmp_path_factory.mktemp("whole")
    (folder / "shop.py").write_text(PROGRAM)
    done = record(folder, "-q", "--full-heap", "-o", "run.parquet", "--", PYTHON, "shop.py")
    assert done.returncode == 0, done.stderr
    return folder


@pytest.fixture
def folder(journal: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(journal, tmp_path / "run"))


def raw_files(folder: Path) -> list[Path]:
    return sorted((folder / "run.parquet.journal").glob("heap-*.graph"))


def test_a_recording_has_it_beside_it(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    takes = len(raw_files(folder))
    assert takes >= 2
    recording = open_recording(finalize(folder / "run.parquet"))
    assert not (folder / "run.parquet.journal").exists()
    assert len(recording.whole_heaps()) == takes
    heap = recording.heap.full()
    graphs = recording.tables["heap_graphs"]
    (graph,) = graphs[graphs["take"] == heap.take].to_dict("records")
    assert (len(heap.nodes), len(heap.edges)) == (graph["node_count"], graph["edge_count"])
    assert heap.nodes["own_bytes"].sum() == graph["retained_bytes"]
    sessions = heap.types.set_index("type_name").loc["__main__.Session"]
    assert sessions["object_count"] == 5000
    assert sessions["own_bytes"] == heap.nodes["own_bytes"][heap.nodes["type_name"] == "__main__.Session"].sum()
    way = heap.way_to("Session")
    assert way["type_name"].iloc[-1] == "__main__.Session"
    assert [name for name in way["name"] if not pd.isna(name)][-2:] == ["shop.CACHE", "shop.CACHE.entries"]
    # Each step refers to the next; and what it says of who refers to the last one is all.
    edges = set(heap.edges.itertuples(index=False, name=None))
    steps = way["object"].to_list()
    assert all(pair in edges for pair in zip(steps, steps[1:], strict=False))
    address = int(way["address"].iloc[-1])
    (entries,) = heap.referrers(address).to_dict("records")
    assert entries["name"] == "shop.CACHE.entries"
    with pytest.raises(BadInput):
        heap.way_to(1)
    assert main(["heap", str(folder / "run.parquet")]) == 0
    assert "every object is known at" in capsys.readouterr().out
    for wanted in ("Session", hex(address)):
        assert main(["heap", str(folder / "run.parquet"), "--full", "--path", wanted]) == 0
        text = capsys.readouterr().out
        assert f"__main__.Session at {address:#x}" in text and "held by shop.CACHE.entries  (dict)" in text


NEAR = """
import mmap, resource, time

def used():
    return int(open("/proc/self/statm").read().split()[0]) * 4096

kept = [[number] for number in range(20000)]
limit = used() + (8 << 30)
resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
time.sleep(2)  # imports are over
more = []
while used() < 0.955 * limit:  # nothing of it is ever touched
    more.append(mmap.mmap(-1, 64 << 20))
time.sleep(4)
"""


@pytest.mark.slow
def test_near_a_limit_one_is_made_unasked(tmp_path: Path) -> None:
    (tmp_path / "near.py").write_text(NEAR)
    done = record(tmp_path, "-q", "-o", "run.parquet", "--", PYTHON, "near.py", finalize=True)
    assert done.returncode == 0, done.stderr
    recording = open_recording(tmp_path / "run.parquet")
    (file,) = recording.whole_heaps()
    takes = recording.tables["takes"]
    assert list(takes["reason"][takes["take"] == file.identity.take]) == ["pressure"]
    heap = recording.heap.full()
    assert len(heap.nodes) == len(heap.nodes["object"].unique()) > 40_000


@pytest.mark.parametrize("damage", ["cut", "other", "empty"])
def test_a_damaged_file_costs_nothing_else(folder: Path, damage: str) -> None:
    first, *others = raw_files(folder)
    data = first.read_bytes()
    first.write_bytes({"cut": data[: len(data) // 2], "other": b"LSGRAPH9" + data[8:], "empty": b""}[damage])
    recording = open_recording(finalize(folder / "run.parquet"))
    assert len(recording.whole_heaps()) == len(others)
    assert len(recording.tables["heap_graphs"]) >= 2
    assert not (folder / "run.parquet.journal").exists()
    (kept,) = folder.glob("run.heap-*.graph")  # as it was, for who can make sense of it
    assert kept.stat().st_size in (0, len(data), len(data) // 2)
    assert not list(folder.glob(".run*"))


def test_one_that_was_never_finished_is_left_out(folder: Path) -> None:
    """As a SIGKILL leaves it."""
    first, *others = raw_files(folder)
    first.rename(f"{first}.part")
    recording = open_recording(finalize(folder / "run.parquet"))
    assert len(recording.whole_heaps()) == len(others)
    assert len(recording.tables["heap_graphs"]) >= 2
    assert not list(folder.glob("*.graph*")) and not (folder / "run.parquet.journal").exists()


def test_files_of_another_recording_are_not_its_own(folder: Path) -> None:
    path = finalize(folder / "run.parquet")
    recording = open_recording(path)
    one, *others = recording.whole_heaps()
    for other in others:
        other.path.unlink()
    pid, _, take = one.identity
    one.path.rename(whole_heap.file_of(path, pid, take + 1))
    assert not recording.whole_heaps()
    with pytest.raises(BadInput, match="--full-heap"):
        whole_heap_of(recording)


def test_the_journal_stays_whole_until_it_is_made(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed as the files are made: the recording is there, and so is the journal with all that is still to be done."""

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    files = len(raw_files(folder))
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(whole_heap, "_convert", killed)
        finalize(folder / "run.parquet")
    assert len(open_recording(folder / "run.parquet").tables["heap_graphs"]) >= 2
    assert len(open_recording(finalize(folder / "run.parquet")).whole_heaps()) == files


def test_a_changed_byte_is_told_to_who_reads_it(folder: Path) -> None:
    """Wherever it is: in pages, between them, in the footer. The recording itself is read as before."""
    path = finalize(folder / "run.parquet")
    (file, *_) = open_recording(path).whole_heaps()
    data = file.path.read_bytes()
    for at in [*range(10, len(data), len(data) // 20), len(data) - 300, *range(len(data) - 8, len(data))]:
        file.path.write_bytes(data[:at] + bytes([data[at] ^ 0xFF]) + data[at + 1 :])
        recording = open_recording(path)
        with pytest.raises(UnreadableRecording, match=f"{file.path.name} is damaged"):
            recording.whole_heaps()[0].frame(["object"])
        assert len(recording.tables["heap_graphs"]) >= 2
