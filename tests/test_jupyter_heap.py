"""``rec.heap``: who holds how much, as tables; on rows made here, and on a program whose holders are known."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import leakscope
from leakscope.api import Recording
from leakscope.errors import BadInput
from leakscope.facts.case import Case
from leakscope.reporting.heap_view import heap_views
from tests.builders import RecordingBuilder

from .heap_graphs import needs_heap_graph
from .recorder.runs import record

KiB = 1024
COLUMNS = [
    "node", "name", "type", "retained_bytes", "growth_bytes", "own_bytes", "length", "child_count", "object_count",
    "file", "line",
]  # fmt: skip


def _node(number: int, above: int | None, kind: str | None, name: str | None, of: str, **more: Any) -> dict[str, Any]:
    return {
        "node": number, "path_node": above, "dominator_node": above, "root_kind": "module", "type_name": of,
        "edge_kind": kind, "edge_name": name, "is_named": True, "shallow_bytes": 100, "child_count": 1, **more,
    }  # fmt: skip


def _heap(builder: RecordingBuilder, pid: int, take: int, at_s: float, sessions: int, reason: str = "schedule") -> None:
    """A module ``shop`` with a Store, in whose ``__dict__`` there is a dict of sessions, a KiB each."""
    builder.take(pid, take, at_s, reason=reason)
    held = sessions * KiB
    for node in (
        _node(0, None, None, None, ""),
        _node(1, 0, None, None, "", retained_bytes=held + 500),
        _node(6, 1, None, None, "dict", retained_bytes=held + 500),
        _node(7, 6, "key", "shop", "module", retained_bytes=held + 400),
        _node(8, 7, "namespace", None, "dict", retained_bytes=held + 300),
        _node(9, 8, "key", "STORE", "shop.Store", retained_bytes=held + 200),
        _node(10, 9, "namespace", None, "dict", retained_bytes=held + 150),
        _node(11, 10, "key", "entries", "dict", retained_bytes=held + 100, length=sessions, child_count=sessions),
    ):
        builder.row("heap_nodes", at_s, pid, take=take, **node)
    builder.row(
        "heap_children", at_s, pid, take=take, node=11, type_name="shop.Session", object_count=sessions,
        retained_bytes=held,
    )  # fmt: skip
    builder.row(
        "heap_graphs", at_s, pid, take=take, node_count=sessions + 8, retained_bytes=held + 500, outside_bytes=0,
        unreached_bytes=0, weighs_tensors=False,
    )  # fmt: skip


@pytest.fixture
def shop(tmp_path: Path) -> Recording:
    builder = RecordingBuilder(tmp_path).process(7).process(8)
    source = "class Store:\n    def put(self, key, one):\n        self.entries[key] = one\n"
    builder.source(7, "/home/user/project/shop.py", source, module="shop")
    for take, sessions in enumerate((100, 500, 900), start=1):
        _heap(builder, 7, take, 10.0 * take, sessions)
    _heap(builder, 8, 1, 10.0, 50)
    builder.ends(at_s=40.0, exit_code=0).open()
    return leakscope.open_recording(builder.path)


def test_what_a_hook_of_the_agent_leads_to_is_nobodys(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(7)
    ours = "/home/user/.cache/leakscope/leakscope-run-0123456789abcdef/agent/life/last_words.py"
    for take in (1, 2):
        _heap(builder, 7, take, 10.0 * take, 100)
        for node in (
            _node(20, 8, "key", "excepthook", "function", retained_bytes=9 * KiB * KiB, owner_file=ours),
            _node(21, 20, None, None, "dict", retained_bytes=9 * KiB * KiB),
            _node(22, 21, "key", "_reserve", "mmap.mmap", retained_bytes=8 * KiB * KiB),
        ):
            builder.row("heap_nodes", 10.0 * take, 7, take=take, **node)
    builder.ends(at_s=40.0, exit_code=0).open()
    top = leakscope.open_recording(builder.path).heap.top()
    assert not top["name"].str.contains("_reserve").any()
    assert top["name"].str.contains("entries").any()


def test_the_largest_holder_and_the_line_that_adds_to_it(shop: Recording) -> None:
    top = shop.heap.top()
    assert list(top.columns) == COLUMNS
    (first, *_) = top.to_dict("records")
    assert first["node"] == 11
    assert first["name"] == "shop.STORE.entries"
    assert first["type"] == "dict"
    assert first["retained_bytes"] == 900 * KiB + 100
    assert first["growth_bytes"] == 800 * KiB
    assert (first["own_bytes"], first["length"], first["child_count"], first["object_count"]) == (100, 900, 900, 1)
    assert (first["file"], first["line"]) == ("/home/user/project/shop.py", 3)
    assert len(top) == 1, "what only leads to it is not listed beside it"


def test_at_a_moment_and_of_another_process(shop: Recording) -> None:
    assert shop.heap.top(1, at_s=12)["retained_bytes"][0] == 100 * KiB + 100
    assert shop.heap.top(1, pid=8)["retained_bytes"][0] == 50 * KiB + 100


def test_children_are_nodes_and_types(shop: Recording) -> None:
    (store,) = shop.heap.children(7).to_dict("records")
    assert (store["node"], store["name"]) == (9, "shop.STORE")
    (sessions,) = shop.heap.children(11).to_dict("records")
    assert pd.isna(sessions["node"])
    assert (sessions["type"], sessions["object_count"], sessions["retained_bytes"]) == ("shop.Session", 900, 900 * KiB)


def test_the_path_leads_from_a_module_down(shop: Recording) -> None:
    assert list(shop.heap.path(11)["name"]) == ["shop", "shop.STORE", "shop.STORE.entries"]
    assert list(shop.heap.path(10)["node"]) == [7, 9], "a __dict__ is its owner's"


def test_growth_between_moments(shop: Recording) -> None:
    assert shop.heap.diff()["growth_bytes"][0] == 800 * KiB
    assert shop.heap.diff(since_s=20)["growth_bytes"][0] == 400 * KiB
    assert shop.heap.diff(at_s=21)["growth_bytes"][0] == 400 * KiB
    assert not len(shop.heap.diff(since_s=30)), "nothing grew since the last snapshot"


def test_unless_asked_the_process_is_shown_at_work(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(7).samples(7, [10**8 + second * KiB for second in range(40)])
    for take, (sessions, reason) in enumerate(((100, "schedule"), (500, "growth"), (20, "exit")), start=1):
        _heap(builder, 7, take, 10.0 * take, sessions, reason)
    builder.ends(at_s=40.0, exit_code=0).open()
    heap = leakscope.open_recording(builder.path).heap
    assert heap.top()["retained_bytes"][0] == 500 * KiB + 100
    assert heap.diff()["growth_bytes"][0] == 400 * KiB
    assert heap.top(at_s=math.inf)["retained_bytes"][0] == 20 * KiB + 100
    assert heap.top(at_s=29)["retained_bytes"][0] == 20 * KiB + 100
    (view,) = heap_views(Case(builder.open()))
    assert [take.reason for take in view.takes] == ["schedule", "growth"]


def test_the_end_by_an_exception_is_work(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(7).samples(7, [10**8 + second * KiB for second in range(40)])
    for take, (sessions, reason) in enumerate(((100, "schedule"), (500, "growth"), (900, "exception")), start=1):
        _heap(builder, 7, take, 10.0 * take, sessions, reason)
    builder.ends(at_s=40.0, exit_code=1).open()
    assert leakscope.open_recording(builder.path).heap.top()["retained_bytes"][0] == 900 * KiB + 100
    (view,) = heap_views(Case(builder.open()))
    assert [take.reason for take in view.takes] == ["schedule", "growth", "exception"]


def test_who_was_seen_only_as_it_ended_is_shown_so(tmp_path: Path) -> None:
    builder = RecordingBuilder(tmp_path).process(7)
    _heap(builder, 7, 1, 3.0, 100, "exit")
    builder.ends(at_s=4.0, exit_code=0).open()
    assert leakscope.open_recording(builder.path).heap.top()["retained_bytes"][0] == 100 * KiB + 100


def test_what_cannot_be_is_said_in_a_line(shop: Recording, tmp_path: Path) -> None:
    for ask, says in (
        (lambda: shop.heap.path(4711), "node 4711"),
        (lambda: shop.heap.top(0), "n=0"),
        (lambda: shop.heap.top(pid=1), "process 1: .* 7, 8"),
        (lambda: shop.heap.diff(since_s=30, at_s=10), "the first comes after the last"),
    ):
        with pytest.raises(BadInput, match=says):
            ask()
    builder = RecordingBuilder(tmp_path, "old.parquet").process(7).ends(at_s=1.0, exit_code=0)
    builder.open()
    with pytest.raises(BadInput, match="no snapshot in it has the whole heap") as caught:
        leakscope.open_recording(builder.path).heap.top()
    assert "\n" not in str(caught.value)


PROGRAM = """
import time

class Store:
    def __init__(self):
        self.entries = {}

    def put(self, key):
        self.entries[key] = bytes(1000)

STORE = Store()

def work():
    began = time.monotonic()
    number = 0
    while time.monotonic() - began < 8:
        STORE.put(number)
        number += 1
        time.sleep(0.001)

work()
"""


@pytest.mark.slow
@pytest.mark.live
@needs_heap_graph
def test_a_real_program(tmp_path: Path) -> None:
    (tmp_path / "shop.py").write_text(PROGRAM)
    done = record(tmp_path, "-q", "-o", "run.parquet", "--", "python3", "shop.py", finalize=True)
    assert done.returncode == 0, done.stderr
    heap = leakscope.open_recording(tmp_path / "run.parquet").heap
    (at_work, *_) = heap.diff().to_dict("records")
    (first, *_) = heap.diff(at_s=math.inf).to_dict("records")
    assert at_work["node"] == first["node"]
    assert 0 < at_work["length"] < first["length"], "work() still ran"
    assert first["name"] == "shop.STORE.entries"
    assert first["retained_bytes"] >= first["length"] * 1033
    assert Path(first["file"]).name == "shop.py"
    assert "self.entries[key] = " in PROGRAM.splitlines()[first["line"] - 1]
    assert list(heap.path(first["node"], at_s=math.inf)["name"]) == ["shop", "shop.STORE", "shop.STORE.entries"]
    (members, *_) = heap.children(first["node"], at_s=math.inf).to_dict("records")
    assert members["type"] == "bytes"
    assert members["object_count"] == pytest.approx(first["length"], abs=8)
    node = pd.Series(first)["node"]
    rows = leakscope.open_recording(tmp_path / "run.parquet").tables.heap_nodes
    assert rows[rows["node"] == node]["retained_bytes"].max() == first["retained_bytes"]
