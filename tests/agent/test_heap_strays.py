"""What no name leads to, and what keeps memory from reuse: each made on purpose, and found by the graph of the heap."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ..harm.interpreters import Interpreter, interpreters
from ..heap_graphs import needs_heap_graph
from .staging import stage

pytestmark = [
    pytest.mark.live,
    needs_heap_graph,
]
every_python = pytest.mark.parametrize("interpreter", interpreters(), ids=str)

BEGIN = """
import ctypes, gc, json, sys
sys.path.insert(0, {folder!r})
from agent.graph.heap_graph import HeapGraph
from agent.native.allocators import Allocators

graph = HeapGraph()
assert graph.refusal is None, graph.refusal
keep = ctypes.pythonapi.Py_IncRef
keep.argtypes, keep.restype = [ctypes.py_object], None
found = []

def look():
    graph.read(len(found) + 1, 1 << 40, 1 << 40)
    tables = {{}}
    for table, row in graph.work_out().rows:
        tables.setdefault(table, []).append(row)
    found.append(tables)
"""


def run(folder: Path, interpreter: Interpreter, program: str, **environment: str) -> list[dict[str, Any]]:
    """The rows of each look, by table."""
    path = folder / "program.py"
    path.write_text(BEGIN.format(folder=str(stage(folder))) + program + "\nprint(json.dumps(found))\n")
    done = subprocess.run(
        [interpreter.path, str(path)], capture_output=True, text=True, timeout=120, env=environment or None
    )
    assert done.returncode == 0, done.stderr
    found: list[dict[str, Any]] = json.loads(done.stdout)
    return found


def strays(tables: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {row["type_name"]: row for row in tables["heap_strays"]}


CYCLES = """
class Child:
    __slots__ = ("owner", "blob")

class Node:
    def __init__(self):
        self.number = len(found)
        self.child = Child()
        self.child.owner = self
        self.child.blob = bytes(3000)

class Own:
    def __init__(self):
        self.items = [self]

kept = [Node() for _ in range(300)]
gc.disable()
for _ in range(1000):
    Node()
for _ in range(400):
    Own()
look()
gc.freeze()
for _ in range(50):
    Node()
look()
gc.unfreeze()
gc.collect()
look()
"""


@every_python
def test_garbage_is_counted_by_type_with_a_cycle_and_what_is_frozen_of_it(
    interpreter: Interpreter, tmp_path: Path
) -> None:
    garbage, frozen, clean = run(tmp_path, interpreter, CYCLES)
    node, child, own = (strays(garbage)[f"__main__.{name}"] for name in ("Node", "Child", "Own"))
    assert (node["unreached_count"], node["object_count"], node["frozen_count"]) == (1000, 1300, 0)
    assert node["chain"] == "__main__.Node.child -> __main__.Child.owner -> __main__.Node"
    assert child["chain"] == "__main__.Child.owner -> __main__.Node.child -> __main__.Child"
    assert (own["unreached_count"], own["chain"]) == (400, "__main__.Own.items -> list -> __main__.Own")
    assert strays(garbage)["bytes"]["unreached_bytes"] >= 3_000_000
    assert (strays(frozen)["__main__.Node"]["unreached_count"], strays(frozen)["__main__.Node"]["frozen_count"]) == (
        1050, 1000,
    )  # fmt: skip
    assert "__main__.Node" not in strays(clean)
    assert clean["heap_graphs"][0]["unreached_count"] < 300


HELD_BY_C = """
class Record:
    pass

def leak(count, make):
    for number in range(count):
        keep(make(number))

look()
leak(700, lambda number: [[number], number])
leak(300, lambda number: Record())
leak(40000, lambda number: "text number %d, long enough" % number)
leak(30000, lambda number: bytes(200))
look()
"""


@every_python
def test_references_that_c_code_does_not_drop_are_counted_by_type(interpreter: Interpreter, tmp_path: Path) -> None:
    before, after = run(tmp_path, interpreter, HELD_BY_C)

    def gained(type_name: str, column: str) -> float:
        return sum(
            sign * strays(tables).get(type_name, {column: 0})[column] for sign, tables in ((1, after), (-1, before))
        )

    assert gained("list", "outside_count") == pytest.approx(700, abs=20)
    assert gained("list", "extra_reference_count") == pytest.approx(700, abs=20)
    assert gained("__main__.Record", "outside_count") == gained("__main__.Record", "extra_reference_count") == 300
    # From a sample of the pools.
    assert gained("str", "loose_count") == pytest.approx(40_000, rel=0.3)
    assert gained("bytes", "loose_count") == pytest.approx(30_000, rel=0.3)
    assert 200 * 30_000 * 0.7 <= gained("bytes", "loose_bytes") <= 260 * 30_000 * 1.3


NONES = """
import collections, functools, itertools, types

class Plain:
    def __init__(self):
        self.first = self.second = None

class Slotted:
    __slots__ = ("first", "second")
    def __init__(self):
        self.first = self.second = None

def waiting():
    mine = None
    yield mine

def started():
    one = waiting()
    next(one)
    return one

makers = [
    lambda: [None, None], lambda: (None, object()), lambda: {"key": None}, lambda: {None: 1}, lambda: {None},
    Plain, Slotted, lambda: collections.deque([None]), lambda: collections.OrderedDict(key=None),
    lambda: collections.defaultdict(None, key=None), lambda: (lambda one=None: None), lambda: property(None, None),
    lambda: functools.partial(print, None), lambda: slice(None, None), lambda: itertools.repeat(None),
    lambda: types.ModuleType("made"), waiting, started, lambda: Plain().__init__,
]
drop = ctypes.pythonapi.Py_DecRef
drop.argtypes, drop.restype = [ctypes.py_object], None
look()
look()
for make in makers:
    kept = [make() for _ in range(3000)]
    look()
kept = None
for number in range(3000):
    type("Made%d" % number, (), {"one": number}).one  # each takes places in Python's cache of attributes
look()
for _ in range(1500):
    drop(None)
look()
for _ in range(1500):
    keep(None)
"""


@every_python
def test_references_to_none_are_accounted_for(interpreter: Interpreter, tmp_path: Path) -> None:
    rows = [tables["heap_graphs"][0] for tables in run(tmp_path, interpreter, NONES)]
    if interpreter.version >= (3, 12):
        assert not any("none_known_count" in row for row in rows)
        return
    rests = [row["none_reference_count"] - row["none_known_count"] for row in rows]
    changes = [after - before for before, after in zip(rests[1:], rests[2:], strict=False)]
    assert max(map(abs, changes[:-1])) < 100, changes  # Python has some more for itself at first
    assert changes[-1] == pytest.approx(-1500, abs=5)


PINS = """
class Index:
    def __init__(self):
        self.anchors = []
        self.words = {}

index = Index()
look()
for size in range(10, 25):
    many = [bytes(16 * size) for _ in range(20000)]
    index.anchors += many[::100]
    texts = ["word %s" % (str(number) * 8).zfill(16 * size) for number in range(10000)]
    for text in texts[::200]:
        index.words[text] = size
del many, texts, text
gc.collect()
figures = Allocators().figures()
look()
found[-1]["figures"] = figures
"""


@every_python
def test_free_memory_that_survivors_pin_goes_to_their_holder(interpreter: Interpreter, tmp_path: Path) -> None:
    _, after = run(tmp_path, interpreter, PINS)
    graph, figures = after["heap_graphs"][0], after["figures"]
    # Python's own count of the same.
    assert graph["arena_bytes"] == figures["pymalloc_bytes"]
    assert graph["block_bytes"] == pytest.approx(figures["pymalloc_in_use_bytes"], rel=0.02)
    assert graph["held_bytes"] <= graph["block_bytes"] <= graph["pool_bytes"] <= graph["arena_bytes"]
    names = {row["node"]: row["edge_name"] for row in after["heap_nodes"]}
    pins = {names[row["node"]]: row for row in after["heap_pins"]}
    anchors, words = (
        next(row for name, row in pins.items() if name and attribute in name) for attribute in ("anchors", "words")
    )
    free_bytes = graph["arena_bytes"] - graph["block_bytes"]
    assert 2_500 <= anchors["object_count"] <= 3_000
    assert 600 <= words["object_count"] <= 765
    assert sum(row["pinned_bytes"] for row in after["heap_pins"]) <= free_bytes
    assert anchors["pinned_bytes"] > 0.4 * free_bytes
    assert words["pinned_bytes"] > 0.1 * free_bytes


@every_python
@pytest.mark.parametrize("allocator", ["malloc", "debug", "pymalloc_debug"])
def test_other_allocators_are_left_alone(interpreter: Interpreter, allocator: str, tmp_path: Path) -> None:
    _, after = run(tmp_path, interpreter, HELD_BY_C, PYTHONMALLOC=allocator)
    assert strays(after)["list"]["outside_count"] >= 700
    assert ("arena_bytes" in after["heap_graphs"][0]) == (allocator != "malloc")


KEYS = """
table = {"key number %d of the table" % number: None for number in range(20000)}
look()
found[-1]["bytes"] = sys.getsizeof(table) + sum(map(sys.getsizeof, table))
"""


@every_python
def test_strings_that_are_keys_belong_to_their_dict(interpreter: Interpreter, tmp_path: Path) -> None:
    (found,) = run(tmp_path, interpreter, KEYS)
    (table,) = (row for row in found["heap_nodes"] if row["edge_name"] == "['table']")
    assert table["retained_bytes"] == pytest.approx(found["bytes"], rel=0.001)


NAMES = """
import collections

class Plain:
    def __init__(self):
        self.one = self.two = self.three = 1

class Dict(dict):
    pass

names = [sys.intern("leakscope_name_%d" % number) for number in range(40)]

def own_keys(number):
    one = Plain()
    setattr(one, names[number % 40], 1)
    one.__dict__[names[number * 7 % 40]] = 1
    return one

def with_gaps(number):
    one = dict.fromkeys(names)
    for name in names[:15]:
        del one[name]
    return one

makers = [
    lambda number: {"one": number, "two": number}, lambda number: dict.fromkeys(names), lambda number: Plain(),
    lambda number: Plain().__dict__, lambda number: dict(Plain().__dict__), own_keys, with_gaps,
    lambda number: dict.fromkeys(names + [number]), lambda number: Dict.fromkeys(names),
    lambda number: collections.OrderedDict.fromkeys(names), lambda number: collections.defaultdict(int, {"one": 1}),
    lambda number: collections.OrderedDict.fromkeys("%d and %d" % (number, other) for other in range(3)),
    lambda number: {"%d and %d" % (number, other): None for other in range(3)},
    lambda number: (lambda **given: given)(one=1, two=2),
    lambda number: Plain if number else type("Made", (), {"one": 1}),
]
own_keys(0), gc.collect(), look(), look()
for make in makers:
    kept = [make(number) for number in range(1000)]
    look()
kept = [dict.fromkeys(names) for number in range(1000)]
texts = ["text %d" % number for number in range(500)]
look()
for text in texts:
    keep(text)
keep(names[0])
"""


@every_python
def test_keys_of_dicts_are_no_references_that_c_code_keeps(interpreter: Interpreter, tmp_path: Path) -> None:
    looks = run(tmp_path, interpreter, NAMES + "look()")
    extra = [strays(tables)["str"]["extra_reference_count"] for tables in looks]
    changes = [after - before for before, after in zip(extra[1:], extra[2:], strict=False)]
    assert max(map(abs, changes[:-1])) <= 50, changes  # names of attributes that Python looked up
    is_immortal = interpreter.version[:2] == (3, 12)  # names are
    assert changes[-1] == pytest.approx(500 + (not is_immortal), abs=3)
    counted = [tables["heap_graphs"][0]["key_reference_count"] for tables in looks]
    assert (max(counted) >= 40_000) != is_immortal


MANY_ARENAS = """
def fill(count):
    return [bytes(400) for _ in range(count)]

look()
kept = fill(200000)
for one in kept:
    keep(one)
del one, kept  # more arenas than the list had room for, and no object of the graph in them
look()
for _ in range(3):
    some = fill(300000)
    look()
    del some
    look()
"""


@every_python
def test_the_list_of_arenas_is_followed_as_it_grows(interpreter: Interpreter, tmp_path: Path) -> None:
    looks = run(tmp_path, interpreter, MANY_ARENAS)
    arenas = [tables["heap_graphs"][0]["arena_bytes"] for tables in looks]
    assert arenas[1] >= arenas[0] + 80_000_000
    assert arenas[2] >= arenas[1] + 110_000_000
    assert arenas[3] <= arenas[1] + 5_000_000
    bytes_lost = strays(looks[1])["bytes"]["loose_count"]
    assert bytes_lost == pytest.approx(200_000, rel=0.2)
