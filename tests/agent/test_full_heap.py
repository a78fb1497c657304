"""The whole graph in a file: every object and reference as the collector tells them, and when it is written."""

from __future__ import annotations

import gc
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from leakscope.agent.graph.heap_graph import HeapGraph
from leakscope.agent.graph.whole import EDGE_BYTES, NODE_BYTES
from leakscope.agent.snapshots.full_heap import MOST_FILES, FullHeap
from leakscope.storage import whole_heap

from ..harm.interpreters import Interpreter, interpreters
from ..heap_graphs import needs_heap_graph
from .staging import rows, stage

pytestmark = [
    pytest.mark.live,
    needs_heap_graph,
]

PROGRAM = """
import gc, json, sys
sys.path.insert(0, {folder!r})
from agent.graph.heap_graph import HeapGraph
from agent.graph.whole import File

class Node:
    __slots__ = ("links", "name")

nodes = [Node() for _ in range(3000)]
for at, node in enumerate(nodes):
    node.links = [nodes[at * 7 % 3000], nodes[at * 31 % 3000], at]
    node.name = "node %d" % at
nodes[5].links.append(nodes[5].links)
graph = HeapGraph()
assert graph.refusal is None, graph.refusal
file = File({path!r}, {{"pid": 1, "start_ticks": 2, "take": 3}}, may_be_in_memory=True)
gc.collect()
gc.disable()
graph.read(3, 1 << 40, 1 << 40)
found = graph.work_out(file=file)
assert file.is_written, file.refusal
lists = [node.links for node in nodes]
said = {{id(one): [id(to) for to in gc.get_referents(one)] for one in nodes + lists}}
(row,) = [row for table, row in found.rows if table == "heap_graphs"]
sizes = {{id(one): sys.getsizeof(one) for one in nodes + lists}}
print(json.dumps([list(said.items()), list(sizes.items()), row, id(nodes), id(Node)]))
"""


def read(folder: Path) -> pd.DataFrame:
    """The one file that there is, as a recording has it."""
    (made,) = whole_heap.move_out(folder, folder / "run.parquet")
    identity = whole_heap.identity_of(made)
    assert identity == (1, 2, 3)
    return whole_heap.WholeHeapFile(made, identity).frame([column.name for column in whole_heap.SCHEMA])


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_every_reference_is_as_the_collector_says(interpreter: Interpreter, tmp_path: Path) -> None:
    path = tmp_path / "heap-1-2-3.graph"
    program = PROGRAM.format(folder=str(stage(tmp_path)), path=str(path))
    done = subprocess.run([interpreter.path, "-c", program], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    said, sizes, row, at, of_type = json.loads(done.stdout)
    assert path.stat().st_size <= NODE_BYTES * row["node_count"] + EDGE_BYTES * row["edge_count"] + 1_000_000
    heap = read(tmp_path)
    address = heap["address"].to_numpy()
    number = {one: at for at, one in enumerate(address)}
    for one, leads_to in said:
        found = sorted(address[heap["refers_to"][number[one]]])
        without_type = sorted(to for to in found if to != of_type)  # which instances tell of since 3.9
        assert without_type == sorted(to for to in leads_to if to != of_type)
    assert all(heap["own_bytes"][number[one]] == bytes for one, bytes in sizes)
    assert (len(heap), heap["refers_to"].map(len).sum()) == (row["node_count"], row["edge_count"])
    assert heap["own_bytes"].sum() == heap["retained_bytes"][0] == row["retained_bytes"]
    # What each retains is itself and what it dominates.
    sums = heap["own_bytes"].to_numpy().copy()
    for one in np.argsort(-_depths(heap["dominator"].to_numpy())):
        if one:
            sums[heap["dominator"][one]] += sums[one]
    assert (sums == heap["retained_bytes"].to_numpy()).all()
    assert heap["type_name"][number[said[0][0]]] == "__main__.Node"
    assert number[at] in heap["path_object"][[number[one] for one, _ in said[:3000]]].to_numpy()
    assert (heap["node"].notna()).sum() > 6


def _depths(dominator: Any) -> Any:
    depth, above = np.zeros(len(dominator), int), dominator.copy()
    while above.any():
        depth += above > 0
        above = dominator[above]
    depth[np.arange(len(dominator)) > 0] += 1
    return depth


class Box:
    """What an outbox is asked for."""

    pid, start_ticks = 7, 8

    def __init__(self, folder: Path) -> None:
        self.folder = str(folder)
        self.notes: list[tuple[str, str]] = []

    def note(self, kind: str, text: str) -> None:
        self.notes.append((kind, text))


def made(one: FullHeap, take: int, reason: str) -> bool:
    file = one.file_of(take, reason)
    if file is not None:
        Path(file.path).touch()
        file.is_written = True
    one.made(file)
    return file is not None


def test_the_first_and_the_last_two_are_kept(tmp_path: Path) -> None:
    box: Any = Box(tmp_path)
    one = FullHeap({"full_heap": True}, box)
    assert all(made(one, take, "schedule") for take in range(1, 8))
    assert sorted(path.name for path in tmp_path.iterdir()) == [f"heap-7-8-{take}.graph" for take in (1, 6, 7)]
    assert len(list(tmp_path.iterdir())) == MOST_FILES


def test_by_itself_it_is_one_and_only_near_a_limit(tmp_path: Path) -> None:
    box: Any = Box(tmp_path)
    one = FullHeap({"full_heap": False}, box)
    assert not any(made(one, 1, reason) for reason in ("schedule", "growth", "exit", "user", "pressure"))
    one.is_asked = True
    assert made(one, 2, "pressure")
    assert not made(one, 3, "pressure")
    assert made(one, 4, "user") and made(one, 5, "user")
    one.forked()
    assert not made(one, 1, "user")


GROWING = """
import os, time
kept = [[number] for number in range({count})]
print(os.getpid(), flush=True)
end = time.monotonic() + 20
while time.monotonic() < end and not os.path.exists("done"):
    time.sleep(0.01)
"""


def asks(journal: Path, text: str) -> None:
    (journal / "asked").write_text(text)
    (journal / "asked").rename(journal / "request-take")


def wait_for(wanted: Any) -> None:
    end = time.monotonic() + 20
    while not wanted():
        assert time.monotonic() < end
        time.sleep(0.001)


def start(folder: Path, count: int, **options: Any) -> tuple[Path, subprocess.Popen[str]]:
    journal = stage(folder, **options)
    program = GROWING.format(count=count)
    env = {**os.environ, "PYTHONPATH": str(journal / "boot")}
    job = subprocess.Popen([sys.executable, "-c", program], cwd=folder, env=env, stdout=subprocess.PIPE, text=True)
    assert job.stdout is not None
    job.stdout.readline()
    return journal, job


@pytest.mark.parametrize(("text", "is_written"), [("full-heap: 96%", True), ("96%", False)])
def test_a_request_near_a_limit_leaves_a_file(tmp_path: Path, text: str, is_written: bool) -> None:
    journal, job = start(tmp_path, 20_000)
    asks(journal, text)
    wait_for(lambda: any(row["reason"] == "pressure" for row in rows(journal).get("takes", ())))
    (tmp_path / "done").touch()
    assert job.wait(20) == 0
    assert len(list(journal.glob("*.graph"))) == is_written
    assert not [row for row in rows(journal)["agent_notes"] if row["note"] == "full-heap"]


@pytest.mark.slow
def test_a_folder_in_memory_is_no_place_near_a_limit(tmp_path: Path) -> None:
    graph = HeapGraph()
    assert graph.refusal is None
    shared = Path("/dev/shm")
    if not shared.is_dir() or not os.access(shared, os.W_OK):
        pytest.skip("no /dev/shm")
    box: Any = Box(shared)
    one = FullHeap({"full_heap": False}, box)
    one.is_asked = True
    file = one.file_of(1, "pressure")
    assert file is not None
    graph.read(1, 1 << 40, 1 << 40)
    graph.work_out(file=file)
    one.made(file)
    ((kind, text),) = box.notes
    assert kind == "full-heap" and "in memory" in text
    assert not list(shared.glob("heap-7-8-*"))


def test_a_file_without_room_is_not_begun(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    graph = HeapGraph()
    box: Any = Box(tmp_path)
    one = FullHeap({"full_heap": True}, box)
    monkeypatch.setattr("leakscope.agent.graph.whole.MOST_BYTES", 1 << 20)
    file = one.file_of(1, "schedule")
    gc.collect()
    graph.read(1, 1 << 40, 1 << 40)
    found = graph.work_out(file=file)
    one.made(file)
    assert found is not None and found.rows
    assert not list(tmp_path.iterdir())
    assert "1 MiB is the most" in box.notes[0][1]


@pytest.mark.slow
def test_killed_while_it_is_written(tmp_path: Path) -> None:
    """What is not whole has another name: no recording takes it for the heap."""
    journal, job = start(tmp_path, 1_500_000, full_heap=True, max_pause_s=60.0)
    try:
        wait_for(lambda: list(journal.glob("*.part")) or list(journal.glob("*.graph")))
    finally:
        job.kill()
        job.wait(20)
    left = [path.name for path in journal.glob("heap-*")]
    assert left and all(name.endswith((".graph", ".part")) for name in left)
    made = whole_heap.move_out(journal, tmp_path / "run.parquet")
    assert all(path.suffix == ".parquet" for path in made)
    assert len(made) == len([name for name in left if name.endswith(".graph")])
    rows(journal)  # can be read
