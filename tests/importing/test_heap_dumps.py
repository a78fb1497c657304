"""Heap dumps of other tools: who holds what in them, as the program that was dumped has it."""

from __future__ import annotations

import gzip
import json
import random
import resource
import struct
from array import array
from pathlib import Path

import pytest

from leakscope import analyze, browsing
from leakscope.errors import UnreadableInput
from leakscope.importing import _refused, import_files
from leakscope.importing._dominators import dominators
from leakscope.storage import Recording

from . import small_dumps
from .files import FIXTURES, imported, raw, written

PYHEAP, MIDDEN = "heap.pyheap.gz", ("heap-1.jsonl.gz", "heap-2.jsonl.gz")
ONE = FIXTURES / MIDDEN[0]


def _node(recording: Recording, name: str, take: int = 1) -> dict[str, object]:
    nodes = recording.tables["heap_nodes"]
    (row,) = nodes[(nodes["edge_name"] == name) & (nodes["take"] == take)].to_dict("records")
    return dict(row)


def test_a_dump_of_pyheap_says_who_holds_what(tmp_path: Path) -> None:
    recording = imported(tmp_path, PYHEAP)
    seen, recent = _node(recording, "['SEEN']"), _node(recording, "recent")
    assert seen["length"] % 500 == 0 and seen["child_count"] >= seen["length"]
    # Each is a Session, whose text has 1,050 bytes or so.
    assert 1050 < seen["retained_bytes"] / seen["length"] < 1400
    assert recent["edge_kind"] == "local" and 233 * recent["length"] < recent["retained_bytes"]
    shown = browsing.show(recording)
    assert "heap.py[1]" in shown
    assert "heap.SEEN" in shown and "__main__.Session" in shown and "serve() recent" in shown


def test_two_dumps_of_midden_are_one_process_that_grew(tmp_path: Path) -> None:
    recording = imported(tmp_path, *MIDDEN)
    assert recording.tables["heap_graphs"]["pid"].nunique() == 1
    first, last = (_node(recording, "['SEEN']", take) for take in (1, 2))
    assert first["node"] == last["node"]
    assert last["length"] > first["length"]
    assert last["retained_bytes"] - first["retained_bytes"] > 1050 * (last["length"] - first["length"])
    assert "heap.SEEN" in browsing.show(recording, by_growth=True)


def test_what_midden_counts_is_what_is_said(tmp_path: Path) -> None:
    objects = [json.loads(line) for line in gzip.decompress(ONE.read_bytes()).splitlines()]
    graph = imported(tmp_path, MIDDEN[0]).tables["heap_graphs"].iloc[0]
    assert graph["node_count"] == len(objects)
    assert graph["retained_bytes"] == sum(one["size"] for one in objects)


def test_a_curve_beside_it_gives_the_verdict_that_dumps_alone_cannot(tmp_path: Path) -> None:
    alone = analyze(imported(tmp_path, *MIDDEN))
    assert not alone.findings
    assert any("leakscope heap" in skipped.reason for skipped in alone.skipped)


def test_the_name_says_of_which_process_it_is(tmp_path: Path) -> None:
    named = raw(tmp_path, "heap-pid4321.jsonl", gzip.decompress(ONE.read_bytes()))
    assert set(imported(tmp_path, named).tables["heap_nodes"]["pid"]) == {4321}


@pytest.mark.parametrize("seed", range(60))
def test_dominators_are_those_that_cannot_be_gone_round(seed: int) -> None:
    chance = random.Random(seed)
    count = chance.randint(2, 14)
    to: list[list[int]] = [[] for _ in range(count)]
    for node in range(1, count):
        to[chance.randrange(node)].append(node)
    for _ in range(chance.randint(0, 2 * count)):
        to[chance.randrange(count)].append(chance.randrange(count))
    starts = array("i", [0])
    for targets in to:
        starts.append(starts[-1] + len(targets))
    found, _ = dominators(starts, array("i", [t for targets in to for t in targets]), count)
    without = {node: _reached(to, but=node) for node in range(count)}
    for node in range(1, count):
        way = set()
        at = node
        while at:
            at = found[at]
            way.add(at)
        assert way == {one for one in range(count) if one != node and node not in without[one]}


def _reached(to: list[list[int]], but: int) -> set[int]:
    seen = {0} - {but}
    left = list(seen)
    while left:
        new = set(to[left.pop()]) - seen - {but}
        seen |= new
        left += new
    return seen


def _refusal(tmp_path: Path, path: Path, form: str | None = None) -> str:
    with pytest.raises(UnreadableInput) as error:
        import_files([path], tmp_path / "run.parquet", form=form)
    assert not (tmp_path / "run.parquet").exists()
    return str(error.value)


@pytest.mark.parametrize(("name", "content"), [("a.jsonl", small_dumps.midden()), ("a.pyheap", small_dumps.pyheap())])
def test_the_smallest_of_dumps_says_who_holds_what(tmp_path: Path, name: str, content: bytes) -> None:
    """They are what is mangled in tests/fuzz, which is worth nothing if they are none."""
    nodes = imported(tmp_path, raw(tmp_path, name, content)).tables["heap_nodes"]
    (held,) = nodes[(nodes["type_name"] == "list") & (nodes["retained_bytes"] > 800_000)].to_dict("records")
    assert "history" in held["edge_name"]


def test_a_dump_that_is_cut_off_is_refused(tmp_path: Path) -> None:
    whole = gzip.decompress((FIXTURES / PYHEAP).read_bytes())
    for share in (0.1, 0.5, 0.99):
        assert "cut off" in _refusal(tmp_path, raw(tmp_path, "cut.pyheap", whole[: int(share * len(whole))]))
    lines = gzip.decompress(ONE.read_bytes())
    assert "cut off" in _refusal(tmp_path, raw(tmp_path, "cut.jsonl", lines[: len(lines) // 2]))


def test_another_version_of_pyheap_is_refused_by_its_number(tmp_path: Path) -> None:
    path = raw(tmp_path, "new.pyheap", struct.pack("!QI", 123_000_321, 2) + bytes(100))
    assert "version 2" in _refusal(tmp_path, path)


def test_counts_that_no_file_can_hold_take_no_memory(tmp_path: Path) -> None:
    head = struct.pack("!QIH", 123_000_321, 1, 25) + b"2026-11-25T23:09:43+00:00" + struct.pack("!QI", 0, 0)
    assert "cut off" in _refusal(tmp_path, raw(tmp_path, "bomb.pyheap", head + b"\xff" * 4))
    threads_and_names = struct.pack("!II", 0, 0)
    one_object = struct.pack("!IIQQI", 0, 1, 1, 1, 1) + b"\xff" * 4
    assert "references" in _refusal(tmp_path, raw(tmp_path, "bomb2.pyheap", head + threads_and_names + one_object))


BAD_OBJECTS = (
    '{"id": 1, "type": "x", "references": ["y"], "size": 1}',
    '{"id": 1, "type": "x", "references": [], "size": -1}',
)


@pytest.mark.parametrize("line", BAD_OBJECTS)
def test_objects_of_midden_that_are_none_are_refused(tmp_path: Path, line: str) -> None:
    _refusal(tmp_path, written(tmp_path, "bad.jsonl", line))


@pytest.mark.parametrize("unit", ["[],", "{},"])
def test_a_line_of_midden_that_would_fill_the_memory_is_refused_unread(tmp_path: Path, unit: str) -> None:
    content = '{"id": 1, "type": "builtins.list", "size": 8, "references": [' + unit * 1_100_000 + "1]}\n"
    path = raw(tmp_path, "heap.jsonl", content.encode())
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(UnreadableInput, match="more in it than memory is for"):
        import_files([path], tmp_path / "run.parquet")
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000  # KiB: lists alone would take as much


def test_a_dump_without_modules_is_none_of_a_process(tmp_path: Path) -> None:
    line = '{"id": 5, "type": "builtins.dict", "references": [], "size": 64}'
    assert "sys.modules" in _refusal(tmp_path, written(tmp_path, "part.jsonl", line))


PROFILES = {
    "raw": "<module> (mini.py:11);serve (mini.py:10) 40\n",
    "speedscope": '{"$schema":"https://www.speedscope.app/file-format-schema.json","profiles":[]}',
    "chrometrace": '[{"args":{"line":11},"cat":"py-spy","name":"serve","ph":"B","pid":1,"tid":2,"ts":1}]',
    "dump": "Process 1: python mini.py\nPython v3.11.2 (/usr/bin/python3.11)\n\nThread 1 (idle)\n",
    "dump --json": '[{"pid": 1, "thread_id": 2, "os_thread_id": 1, "active": false, "frames": []}]',
}


@pytest.mark.parametrize("form", PROFILES)
def test_a_profile_of_time_is_refused_with_what_to_use_instead(tmp_path: Path, form: str) -> None:
    said = _refusal(tmp_path, written(tmp_path, "profile", PROFILES[form]))
    assert form in said and "nothing of its memory" in said and "memray" in said
    assert _refused.why(b"Thu Nov 25\n") is None
