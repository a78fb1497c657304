"""Small Python objects that stand for much memory outside Python: the container of them is named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from leakscope import analyze
from leakscope.facts.heap.comparable import Heap, heap_of
from leakscope.facts.heap.handles import handles
from leakscope.facts.heap.place import Place, Reference
from leakscope.findings import Report

from .test_retained import MB, TAKES_S, first, growing_run, place

SOURCE = """import boostlib


class Registry:
    def __init__(self):
        self.versions = {}

    def publish(self, number):
        self.versions[number] = boostlib.train(number)


def main():
    registry = Registry()
    while True:
        registry.publish(len(registry.versions))
"""


def recorded(folder: Path, lengths: list[int], *, calls_library: bool, member: str, opaque: bool = False) -> Report:
    """24 s, 10 MB a second, in step with ``registry.versions`` where its lengths rise evenly."""
    builder = growing_run(folder, SOURCE)
    owner: dict[str, Any] = {"owner": "Registry", "variable": "versions"}
    for number, (at_s, length) in enumerate(zip(TAKES_S, lengths), 1):
        rows = [
            place("main() registry", 1000, type_name="__main__.Registry"),
            place("main() registry.versions", 900 * length, type_name="dict", length=length, **owner),
            place("main() registry.versions[*]", 800 * length, parent="main() registry.versions", edge_kind="item",
                  type_name=member, object_count=length, opaque=opaque, **owner),
        ]  # fmt: skip
        builder.take(100, number, at_s, holders=rows, rss_bytes=50 * MB + round(at_s * 10 * MB))
        if calls_library:
            stack = "/job/train.py:15 main\n/job/train.py:9 Registry.publish"
            builder.allocated(100, at_s, round(at_s * MB), stack)
    return analyze(builder.ends(24.0, exit_code=0).open())


EVENLY = [4, 12, 20, 28, 36, 44]


@pytest.mark.parametrize("member, opaque", [("boostlib._core.Tree", True), ("boostlib.basic.Booster", False)])
def test_handles_that_grow_in_step_with_memory_answer_for_it(tmp_path, member, opaque):
    found = first(recorded(tmp_path, EVENLY, calls_library=True, member=member, opaque=opaque))
    assert (found.kind, found.subject.variable, found.subject.line) == ("retained-objects", "versions", 9)
    assert f"behind {member.rsplit('.', 1)[-1]} objects, outside Python" in found.title
    assert found.bytes > 150 * MB
    assert 0.6 < found.confidence < 0.95
    assert any("for each of the" in evidence.text for evidence in found.evidence)


def test_who_has_an_address_of_c_stands_for_what_lies_there(tmp_path):
    """As models of xgboost and lightgbm do: no call of the library was seen, and Python knows a number only."""
    builder = growing_run(tmp_path, SOURCE)
    owner: dict[str, Any] = {"owner": "Registry", "variable": "versions"}
    for number, (at_s, length) in enumerate(zip(TAKES_S, EVENLY), 1):
        model = "main() registry.versions[*]"
        rows = [
            place("main() registry", 1000, type_name="__main__.Registry"),
            place("main() registry.versions", 900 * length, type_name="dict", length=length, **owner),
            place(model, 800 * length, parent="main() registry.versions", edge_kind="item",
                  type_name="boostlib.basic.Booster", object_count=length, **owner),
            place(f"{model}.handle", 100 * length, parent=model, type_name="ctypes.c_void_p", object_count=length,
                  opaque=True, **owner),
        ]  # fmt: skip
        builder.take(100, number, at_s, holders=rows, rss_bytes=50 * MB + round(at_s * 10 * MB))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.kind, found.subject.variable, found.subject.line) == ("retained-objects", "versions", 9)
    assert "behind Booster objects, outside Python" in found.title


def test_a_string_that_leads_to_a_parsed_document_is_to_be_kept_as_a_string(tmp_path):
    builder = growing_run(tmp_path, SOURCE)
    owner: dict[str, Any] = {"owner": "Registry", "variable": "versions"}
    types = [{"type_name": "boostlib.Text", "base": "str", "object_count": 44}]
    for number, (at_s, length) in enumerate(zip(TAKES_S, EVENLY), 1):
        text = "main() registry.versions[*]"
        inside = {"edge_kind": "attribute", "owner": "Text", "variable": "parent", "is_user": False}
        rows = [
            place("main() registry", 1000, type_name="__main__.Registry"),
            place("main() registry.versions", 900 * length, type_name="dict", length=length,
                  member_type="boostlib.Text", **owner),
            place(text, 800 * length, parent="main() registry.versions", edge_kind="item", type_name="boostlib.Text",
                  object_count=length, **owner),
            place(f"{text}.parent", 100 * length, parent=text, type_name="boostlib.Document", object_count=length,
                  opaque=True, **inside),
        ]  # fmt: skip
        builder.take(100, number, at_s, holders=rows, types=types, rss_bytes=50 * MB + round(at_s * 10 * MB))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert found.mechanism == "values-with-more" and "str() of each Text" in found.remedy[0]
    assert "with the Document and what that has outside Python" in found.remedy[0]
    assert found.edit is not None and "= str(boostlib.train(number))" in (found.edit.diff or "")


def test_a_chain_of_handles_answers_for_memory_that_grew_with_its_length(tmp_path):
    source = SOURCE.replace("self.versions = {}", "self.last = None").replace(
        "self.versions[number] = boostlib.train(number)", "self.last = boostlib.train(number, before=self.last)"
    )
    builder = growing_run(tmp_path, source)
    last: dict[str, Any] = {"owner": "Registry", "variable": "last"}
    before = {"owner": "Booster", "owner_module": "boostlib.basic", "owner_file": None, "variable": "before"}
    for number, (at_s, length) in enumerate(zip(TAKES_S, EVENLY), 1):
        rows = [
            place("main() registry", 1000, type_name="__main__.Registry"),
            place("main() registry.last", 900 * length, type_name="boostlib.basic.Booster", **last),
            place("main() registry.last.before", 900 * length, type_name="boostlib.basic.Booster", is_user=False,
                  object_count=length, chained=True, **before),
        ]  # fmt: skip
        builder.take(100, number, at_s, holders=rows, rss_bytes=50 * MB + round(at_s * 10 * MB))
        stack = "/job/train.py:15 main\n/job/train.py:9 Registry.publish"
        builder.allocated(100, at_s, round(at_s * MB), stack)
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.kind, found.subject.variable, found.subject.line) == ("retained-objects", "last", 9)
    assert any("each Booster keeps another as its before" in remedy for remedy in found.remedy)
    assert any(remedy.startswith("end the chain at train.py:9") for remedy in found.remedy)


def test_objects_of_a_library_under_whose_calls_nothing_grew_do_not(tmp_path):
    report = recorded(tmp_path, EVENLY, calls_library=False, member="boostlib.basic.Booster")
    assert "versions" not in [finding.subject.variable for finding in report.findings]


def test_objects_of_a_library_that_do_not_grow_in_step_do_not(tmp_path):
    report = recorded(tmp_path, [4, 5, 60, 61, 62, 400], calls_library=True, member="boostlib.basic.Booster")
    assert not [finding for finding in report.findings if finding.kind == "retained-objects"]


def test_a_jump_and_the_attributes_of_one_object_are_no_handles(tmp_path):
    """Memory grows in step with the queue; what one record in it has came with the last snapshot."""
    builder = growing_run(tmp_path, SOURCE)
    owner: dict[str, Any] = {"owner": "Registry", "variable": "versions"}
    for number, (at_s, length) in enumerate(zip(TAKES_S, EVENLY), 1):
        queue, one = "main() registry.versions", "main() registry.versions[0]"
        rows = [
            place("main() registry", 2 * MB * at_s, type_name="__main__.Registry"),
            place(queue, 2 * MB * at_s, type_name="dict", length=length, **owner),
        ]
        if number == len(TAKES_S):
            record = {"is_user": False, "owner": "Record", "owner_file": None}
            rows += [
                place(one, MB, parent=queue, edge_kind="item", type_name="boostlib.Record", **record),
                place(f"{one}.__dict__", MB, parent=one, edge_kind="namespace", type_name="dict", length=21, **record),
                place(f"{one}.image", MB, parent=f"{one}.__dict__", type_name="boostlib.Image", opaque=True, **record),
            ]
        builder.take(100, number, at_s, holders=rows, rss_bytes=50 * MB + round(at_s * 10 * MB))
    found = first(analyze(builder.ends(24.0, exit_code=0).open()))
    assert (found.subject.path, found.subject.line) == ("main() registry.versions", 9)
    assert found.bytes > 150 * MB
    assert not any("__dict__" in evidence.text for evidence in found.evidence)


def test_handles_that_do_not_grow_in_step_answer_for_half_at_most(tmp_path):
    """Images of very different sizes: they are the likeliest holder, and how much each of them has is not known."""
    found = first(recorded(tmp_path, [4, 5, 60, 61, 62, 400], calls_library=True, member="boostlib.Image", opaque=True))
    assert found.subject.variable == "versions"
    assert 80 * MB < found.bytes < 120 * MB


def test_what_could_be_weighed_of_the_members_is_not_counted_twice(tmp_path):
    """What was weighed is a part of what is missing: a container answers for no more than was gained."""
    weighed = np.array([10.0, 30.0, 50.0]) * MB
    lengths = np.array([1.0, 3.0, 5.0]) * 100
    none, path = np.zeros(3), "main() registry.versions"
    own = Reference("attribute", "versions", "Registry", "__main__", "/job/train.py", is_user=True)
    versions = Place(path, "dict", own, weighed, none + 1, lengths, has_length=True)
    item = replace(own, edge_kind="item")
    trees = Place(f"{path}[*]", "boostlib._core.Tree", item, weighed, lengths, none, opaque=True, parent=versions)
    versions.children.append(trees)
    heap = Heap(
        100, np.arange(3.0), np.array([0.0, 50.0, 100.0]) * MB, none, none, (1, 2, 3), False, (), (versions, trees)
    )
    (found,) = handles(heap, [], 100.0 * MB, None)
    assert 90 * MB <= found.growth_bytes <= 100 * MB


def test_what_the_program_let_go_of_after_the_last_snapshot_was_in_use_then(tmp_path):
    builder = growing_run(tmp_path, SOURCE)
    for number, at_s in enumerate(TAKES_S, 1):
        builder.take(100, number, at_s, rss_bytes=50 * MB + round(at_s * 10 * MB), holders=[place("main() rows", at_s)])
    after_s = int(TAKES_S[-1])
    free = [MB if at_s <= after_s else 200 * MB for at_s in range(24)]
    recording = builder.sentinels(100, from_s=-0.1, malloc_free_bytes=free).ends(24.0, exit_code=0).open()
    heap = heap_of(recording, 100, 0.0, 24.0)
    assert heap is not None and heap.free_bytes[-1] == MB


MINER = """import heapq


class Miner:
    def __init__(self):
        self.pool = []

    def offer(self, loss, image):
        heapq.heappush(self.pool, (loss, image))


def main():
    miner = Miner()
    while True:
        miner.offer(*work())
"""


def mined(folder: Path, *, lengths: list[int | None], tensors_each: float) -> Report:
    """A process that gains memory at each of 20 steps a second; graphs read in part list ``miner.pool`` if not None."""
    builder = growing_run(folder, MINER)
    builder.sentinels(100, tensor_count=[round(900 + tensors_each * 20 * s) for s in range(24)])
    owner: dict[str, Any] = {"owner": "Miner", "variable": "pool"}
    for number, (at_s, length) in enumerate(zip(TAKES_S, lengths), 1):
        rows = [place("main() miner", 1000, type_name="__main__.Miner")]
        if length is not None:
            rows += [
                place("main() miner.pool", 200 * length, length=length, **owner),
                place("main() miner.pool[*]", 190 * length, parent="main() miner.pool", edge_kind="item",
                      type_name="tuple", object_count=length, **owner),
            ]  # fmt: skip
        columns: dict[str, Any] = {"rss_bytes": 50 * MB + round(at_s * 10 * MB), "step": round(20 * at_s)}
        builder.take(100, number, at_s, truncated=True, **columns)
        builder.holds(100, number, at_s, rows, is_sampled=True)
    return analyze(builder.ends(24.0, exit_code=0).open())


LATE = [None, None, None, None, 360, 440]  # one for each step; before, it was too small to be listed


@pytest.mark.parametrize("lengths", [LATE, [40, 120, 200, 280, 360, 440]], ids=["late", "from-the-first"])
def test_members_that_were_not_read_answer_for_tensors_that_came_with_them(tmp_path, lengths):
    found = first(mined(tmp_path, lengths=lengths, tensors_each=2.0))
    assert (found.kind, found.subject.variable, found.subject.line) == ("retained-objects", "pool", 9)
    assert found.bytes > 150 * MB
    assert any(evidence.figures.get("tensors_each") == 2 for evidence in found.evidence)


@pytest.mark.parametrize(
    "lengths, tensors_each",
    [(LATE, 0.0), ([None, None, None, None, 100, 440], 2.0), ([None, None, None, None, 3, 4], 2.0)],
    ids=["no-tensors-came", "not-by-steps", "few"],
)
def test_members_that_were_not_read_answer_for_nothing_else(tmp_path, lengths, tensors_each):
    report = mined(tmp_path, lengths=lengths, tensors_each=tensors_each)
    assert "pool" not in [finding.subject.variable for finding in report.findings]
