"""Loader workers: what each keeps for itself, what each copies of its parent's, and workers that do no harm."""

from __future__ import annotations

import pytest

from leakscope import analyze
from tests.builders import RecordingBuilder

from .leaks import PID, MiB

FILE = "/home/me/train.py"
SOURCE = """\
import functools
from torch.utils.data import DataLoader, Dataset

DECODED = {}
TOTALS = [0] * 8

def load(path):
    pixels = decode(path)
    DECODED[path] = pixels
    return pixels

class Reader:
    def __init__(self):
        self.frames = {}

    def read(self, path):
        if path not in self.frames:
            self.frames[path] = decode(path)
        return self.frames[path]

class Pictures(Dataset):
    def __init__(self, paths):
        self.rows = []
        self.reader = Reader()
        for path in paths:
            self.rows.append({"path": path})

    def __getitem__(self, i):
        local = {}
        local[i] = self.rows[i]
        return self.reader.read(local[i]["path"])

def main():
    for batch in DataLoader(Pictures(PATHS), num_workers=4):
        train(batch)
"""
WORKERS = (5001, 5002, 5003, 5004)
UNSEEN = (0, 0)  # batches, where no snapshot saw the loader
ITERATOR = [
    {
        "path": "main() it", "edge_kind": "local", "variable": "it", "owner": "main", "is_user": True,
        "type_name": "torch.utils.data.dataloader._MultiProcessingDataLoaderIter",
    }
]  # fmt: skip
COUNT = 80  # samples, 4 a second


def recording(
    folder, *, private, anon=None, workers=WORKERS, source=SOURCE, data_bytes=0, batches=(1, 400), rows="d.rows"
):
    """A flat parent of 400 MiB and its workers; ``private`` and ``anon`` are MiB by the number of the sample."""
    builder = RecordingBuilder(folder).process(PID, cmdline="python train.py").source(PID, FILE, source)
    builder.samples(PID, [400 * MiB] * COUNT, every_s=0.25, cpu_s=[0.2 * i for i in range(COUNT)])
    for pid in workers:
        builder.process(pid, role="dataloader-worker", ppid=PID, born_s=1.0)
        own = [round(private(i) * MiB) for i in range(COUNT - 4)]
        all_pages = own if anon is None else [round(anon(i) * MiB) for i in range(COUNT - 4)]
        builder.samples(
            pid,
            all_pages,
            every_s=0.25,
            from_s=1.0,
            pss_bytes=own,
            pss_anon_bytes=own,
            uss_bytes=own,
            cpu_s=[0.2 * i for i in range(COUNT - 4)],
        )
    for number, yielded in enumerate(batches, 1):
        place = {
            "owner": "Pictures",
            "variable": "rows",
            "edge_kind": "attribute",
            "type_name": "list",
            "is_user": True,
        }
        place |= {"is_user": True, "path": f"main() {rows}", "deep_bytes": data_bytes}
        builder.take(PID, number, 5.0 * number, holders=[place, *ITERATOR] if rows.startswith("it.") else [place])
        if batches == UNSEEN:
            continue
        pids = ",".join(map(str, workers))
        row = {"dataset_type": "__main__.Pictures", "worker_pids": pids, "batches_yielded": yielded}
        builder.row("loaders", 5.0 * number, PID, take=number, **row)
    return builder.ends(at_s=20.0)


def seen_to_grow(builder, source, text, **columns):
    """Memory of all workers was seen to grow under the line with this text."""
    line = [written.strip() for written in source.splitlines()].index(text) + 1
    for pid in WORKERS:
        builder.allocated(pid, 18.0, 30 * MiB, f"{FILE}:{line} Reader.read", **columns)
    return builder


def looked(builder):
    report = analyze(builder.open(), only=["dataloader-workers"])
    return report.verdict, report.findings, report.ruled_out


def test_what_workers_keep_is_added_up_and_what_would_name_it_is_said(tmp_path):
    verdict, (finding,), _ = looked(recording(tmp_path, private=lambda i: 100 + 2 * i))
    assert verdict.leaking
    assert finding.severity == "critical"
    assert finding.bytes == pytest.approx(verdict.growth_bytes, rel=0.2)
    assert finding.confidence > 0.85
    assert "Each of 4 loader workers keeps more and more memory" in finding.title
    assert (finding.subject.variable, finding.subject.line) == (None, None), "nobody looked into them"
    assert finding.subject.role == "dataloader-worker"
    assert any("num_workers=0" in doubt for doubt in finding.doubts)
    assert not finding.wasted


TILES = "/env/site-packages/tiles/_tiles.so"
READS = """\
import tiles
from torch.utils.data import DataLoader, Dataset

class Pictures(Dataset):
    def __init__(self, paths):
        self.paths = paths
        self.file = tiles.File(paths)

    def __getitem__(self, i):
        if self.file["captions"].fillvalue:
            return None
        return self.file["images"][i]

def main():
    for batch in DataLoader(Pictures(PATHS), num_workers=4):
        train(batch)
"""


def test_where_what_a_line_asks_for_is_put_is_named(tmp_path):
    builder = recording(tmp_path, private=lambda i: 100 + 2 * i)
    (finding,) = looked(seen_to_grow(builder, SOURCE, "self.frames[path] = decode(path)"))[1]
    assert (finding.subject.variable, finding.subject.file) == ("frames", FILE)
    assert SOURCE.splitlines()[finding.subject.line - 1].strip() == "self.frames[path] = decode(path)"
    assert "Reader.frames" in finding.remedy[0] and "not measured" in finding.doubts[0]


def test_the_line_is_told_that_was_seen_to_ask_for_it(tmp_path):
    builder = recording(tmp_path, private=lambda i: 100 + 2 * i, source=READS)
    builder = seen_to_grow(builder, READS, 'if self.file["captions"].fillvalue:', native_library=TILES)
    (finding,) = looked(builder)[1]
    assert finding.subject.line == 10
    assert "allocated at train.py:10" in finding.title
    assert "train.py:10" in finding.remedy[0] and "newer tiles" in finding.remedy[0]


def test_copying_is_told_from_keeping(tmp_path):
    builder = recording(tmp_path, private=lambda i: 100 + 2 * i, anon=lambda i: 400, data_bytes=250 * MiB)
    _, (finding,), _ = looked(builder)
    assert "Each of 4 loader workers copies the memory it inherited" in finding.title
    assert finding.subject.variable == "rows"
    assert "instead of Python objects" in finding.remedy[0]


def levels_off(i):
    return 20 + 150 * min(1.0, i / 25)


@pytest.mark.parametrize("batches", [(1, 400), UNSEEN], ids=["seen", "no snapshot saw the loader"])
def test_copying_that_is_done_is_waste(tmp_path, batches):
    builder = recording(tmp_path, private=levels_off, anon=lambda i: 400, data_bytes=250 * MiB, batches=batches)
    verdict, (finding,), _ = looked(builder)
    assert verdict.leaking is False
    assert finding.wasted
    assert finding.bytes == pytest.approx(4 * 170 * MiB, rel=0.05)
    assert "Pictures.rows" in finding.title


def test_the_order_that_a_loader_makes_for_its_workers_is_none_that_they_inherited(tmp_path):
    columns = {"private": levels_off, "anon": lambda i: 400, "data_bytes": 250 * MiB}
    _, findings, _ = looked(recording(tmp_path, rows="it.order", **columns))
    assert not findings


def test_what_our_inventories_copied_is_not_blamed_on_a_single_worker(tmp_path):
    def alone(i):  # since the parent has written to the pages
        return 20 if i < 20 else 170

    builder = recording(tmp_path, private=alone, anon=lambda i: 400, workers=WORKERS[:1], data_bytes=250 * MiB)
    builder.take(PID, 3, 6.0, copied_bytes=150 * MiB)
    _, findings, _ = looked(builder)
    assert not findings


def test_what_an_interpreter_copies_by_itself_is_no_finding(tmp_path):
    builder = recording(tmp_path, private=lambda i: 20 + 60 * min(1.0, i / 20), anon=lambda i: 400)
    _, findings, (ruled_out,) = looked(builder)
    assert not findings
    assert ruled_out.figures["worker_count"] == 4


def test_steady_workers_are_ruled_out_with_their_cost(tmp_path):
    _, findings, (ruled_out,) = looked(recording(tmp_path, private=lambda i: 100))
    assert not findings
    assert "400 MiB" in ruled_out.reason
    assert "fewer would do" not in ruled_out.reason, "they were busy"


def test_a_leak_of_the_parent_is_not_theirs(tmp_path):
    builder = RecordingBuilder(tmp_path).process(PID)
    builder.samples(PID, [(100 + 5 * i) * MiB for i in range(COUNT)], every_s=0.25)
    for pid in WORKERS[:2]:
        builder.process(pid, role="dataloader-worker", born_s=8.0)
        builder.samples(pid, [120 * MiB] * 48, every_s=0.25, from_s=8.0)
    verdict, findings, _ = looked(builder.ends())
    assert verdict.leaking
    assert not findings, "being born is no growth"


def test_workers_of_an_epoch_take_their_memory_with_them(tmp_path):
    builder = RecordingBuilder(tmp_path).process(PID).samples(PID, [400 * MiB] * COUNT, every_s=0.25)
    for epoch in range(5):
        builder.process(5000 + epoch, role="dataloader-worker", born_s=3.5 * epoch, died_s=3.5 * epoch + 3)
        builder.samples(5000 + epoch, [(20 + 10 * i) * MiB for i in range(12)], every_s=0.25, from_s=3.5 * epoch)
    _, findings, results = looked(builder.ends())
    assert not findings
    assert not results or results[0].figures["worker_count"] == 5


def test_of_several_generations_at_the_end_only_the_last_is_alive(tmp_path):
    builder = RecordingBuilder(tmp_path).process(PID).samples(PID, [400 * MiB] * COUNT, every_s=0.25)
    for number in range(60):  # three a generation, each for a second: several end just before the end
        epoch = number // 3
        died_s = epoch + 1.0 if epoch < 19 else None
        builder.process(5000 + number, role="dataloader-worker", born_s=epoch, died_s=died_s)
        builder.samples(5000 + number, [20 * MiB] * 4, every_s=0.25, from_s=epoch + 0.1)
    _, findings, (ruled_out,) = looked(builder.ends(at_s=20.0))
    assert not findings
    assert (ruled_out.figures["worker_count"], ruled_out.figures["workers_started"]) == (3, 60)
    assert "60 were started in all" in ruled_out.reason


def test_without_workers_there_is_nothing_to_say(tmp_path):
    builder = RecordingBuilder(tmp_path).process(PID).samples(PID, [400 * MiB] * COUNT, every_s=0.25)
    _, findings, (ruled_out,) = looked(builder.ends())
    assert not findings
    assert ruled_out.reason == "no loader worker was seen"


CLIPS = """\
import codec
from torch.utils.data import DataLoader, Dataset

class Clip:
    def __init__(self, path):
        self.stream = codec.begin(path)

    def frames(self):
        return codec.inflate(self.stream)

    def close(self):
        codec.end(self.stream)

class Clips(Dataset):
    def __getitem__(self, i):
        return Clip(self.paths[i]).frames()

def main():
    for batch in DataLoader(Clips(), num_workers=4):
        train(batch)
"""


def test_clips_that_no_worker_closes_are_told_where_they_are_opened(tmp_path):
    """The line that asks for the memory is not at fault, nor a newer library the cure."""
    builder = recording(tmp_path, private=lambda i: 100 + 2 * i, source=CLIPS)
    builder = seen_to_grow(builder, CLIPS, "return codec.inflate(self.stream)", native_library=TILES)
    (finding,) = looked(builder)[1]
    assert finding.subject.line == 16
    assert "close()" in finding.remedy[0] and "train.py:16" in finding.remedy[0]
    assert len(finding.remedy) == 1
