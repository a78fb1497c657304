"""Garbage, references that C leaked and pinned pools, judged by the graph of the heap where a recording has it."""

from __future__ import annotations

import pytest

from leakscope.facts.case import Case

from .asking import asked
from .leaks import LEAK_BYTES_PER_S, PID, RUN_S, MiB, sentinels, trainer

TAKES_S = (2, 6, 10, 14, 18)
OFF = {"gc_enabled": False, "gc_collections": 3, "gc_full_collections": 1, "gc_collected_count": 90}
SOURCE = """\
import gc
gc.disable()

class Leg:
    def __init__(self):
        self.knee = Knee(self)

class Knee:
    def __init__(self, leg):
        self.leg = leg

class Index:
    def keep(self, token):
        self.anchors.append(token)
"""
CYCLE = "__main__.Leg.knee -> __main__.Knee.leg -> __main__.Leg"
LEG = {"type_name": "__main__.Leg", "chain": CYCLE}


def with_graphs(
    builder, strays=(), *, unreached=0, pins=(), nodes=(), at_s=TAKES_S, knows_pools=True, graph=None, first=1, **take
):
    """Snapshots that read the graph, ``first`` and those after it; figures that are functions get the second."""
    for number, second in enumerate(at_s, first):

        def told(rows, second=second):
            return [{k: v(second) if callable(v) else v for k, v in row.items()} for row in rows]

        given = told([take])[0]
        builder.take(PID, number, second, python_bytes=1, array_bytes=1, tensor_bytes=1, rss_bytes=second, **given)
        (figures,) = told([{"unreached_bytes": unreached, **(graph or {})}])
        held = {"retained_bytes": 20 * MiB + figures["unreached_bytes"], "unreached_count": 100, **figures}
        arenas = {"arena_bytes": 50 * MiB} if knows_pools else {}
        builder.row("heap_graphs", second, PID, take=number, node_count=10**5, **held, **arenas)
        tables = ("heap_strays", strays), ("heap_pins", pins), ("heap_nodes", nodes)
        for table, rows in tables:
            for row in told(rows):
                builder.row(table, second, PID, take=number, **row)
        if not strays:
            builder.row("heap_strays", second, PID, take=number, type_name="tuple", extra_reference_count=300)
    return builder.source(PID, "/home/me/train.py", SOURCE)


def looked(builder, kind):
    report = asked(builder.open(), only=[kind])
    return report.findings, report.ruled_out


def legs(per_s, **more):
    """Legs of 1,000 bytes each with what hangs on them."""
    return [{**LEG, "object_count": 9e9, "unreached_count": lambda s: per_s * s, "unreached_bytes": lambda s: 400 * s}
            | more]  # fmt: skip


TREE = """\
import gc
gc.disable()

class Node:
    def __init__(self, parent):
        self.parent = parent
        self.children = []
        if parent is not None:
            parent.children.append(self)
"""
NODE = "__main__.Node"


@pytest.mark.parametrize(
    "chain",
    [
        f"{NODE}.parent -> {NODE}.children -> list -> {NODE}",
        f"{NODE}.children -> list -> {NODE}.parent -> {NODE}",
    ],
)
def test_the_reference_to_weaken_is_not_that_to_a_container(tmp_path, chain):
    """Children that only weak references lead to would be gone at once."""
    nodes = legs(9000, type_name=NODE, chain=chain)
    builder = with_graphs(
        sentinels(trainer(tmp_path), **OFF), nodes, unreached=lambda s: round(0.9 * LEAK_BYTES_PER_S * s)
    )
    (finding,), _ = looked(builder.source(PID, "/home/me/tree.py", TREE), "cyclic-garbage")
    assert "weakref" in finding.remedy[1] and "tree.py:6" in finding.remedy[1]


def test_garbage_is_weighed_and_its_cycle_named(tmp_path):
    builder = with_graphs(
        sentinels(trainer(tmp_path), **OFF), legs(9000), unreached=lambda s: round(0.9 * LEAK_BYTES_PER_S * s)
    )
    (finding,), _ = looked(builder, "cyclic-garbage")
    assert "Leg" in finding.title and "off" in finding.title
    assert finding.subject.holder == CYCLE.replace("__main__.", "")
    assert (finding.subject.line, finding.confidence >= 0.9) == (2, True)
    assert any("self.knee = Knee(self)" in evidence.text for evidence in finding.evidence)
    assert finding.bytes > 100 * MiB


def test_few_large_cycles_are_found_too(tmp_path):
    """What the samples never saw: two objects a second, each with 5 MiB."""
    builder = with_graphs(
        sentinels(trainer(tmp_path), **OFF), legs(2), unreached=lambda s: round(0.95 * LEAK_BYTES_PER_S * s)
    )
    (finding,), _ = looked(builder, "cyclic-garbage")
    assert finding.bytes > 100 * MiB


def test_what_garbage_does_not_weigh_is_not_put_down_to_it(tmp_path):
    builder = with_graphs(
        sentinels(trainer(tmp_path), **OFF), legs(9000), unreached=lambda s: round(0.3 * LEAK_BYTES_PER_S * s)
    )
    (finding,), _ = looked(builder, "cyclic-garbage")
    assert finding.bytes == pytest.approx(0.3 * LEAK_BYTES_PER_S * RUN_S, rel=0.2)


@pytest.mark.parametrize(
    "unreached",
    [lambda s: 40 * MiB * (s % 4 == 2), lambda s: MiB + s, lambda s: 60 * MiB],
    ids=["comes-and-goes", "little", "stays"],
)
def test_garbage_that_waits_for_its_collection_is_innocent(tmp_path, unreached):
    """A type may grow steadily among it all the same: objects in use are reached by then."""
    findings, ruled_out = looked(with_graphs(sentinels(trainer(tmp_path)), legs(50), unreached=unreached),
                                 "cyclic-garbage")  # fmt: skip
    assert not findings and ruled_out


def test_the_graph_has_the_last_word_on_what_is_unreachable(tmp_path):
    """The walk reached few of them: without the graph they would pass for garbage."""
    types = [{"type_name": "dict", "object_count": 10_000.0 * number, "reached_count": 50} for number in range(6)]
    builder = with_graphs(sentinels(trainer(tmp_path), **OFF))
    for number, at_s in enumerate(TAKES_S, 1):
        builder.row("object_types", at_s, PID, take=number, **types[number])
    assert not looked(builder, "cyclic-garbage")[0]


def test_frozen_garbage_is_counted_one_by_one(tmp_path):
    frozen = {"gc_frozen_count": [5000 * s for s in range(int(RUN_S))]}
    builder = with_graphs(
        sentinels(trainer(tmp_path), **frozen),
        [*legs(2500, frozen_count=lambda s: 2400 * s), {"type_name": "dict", "frozen_count": lambda s: 2400 * s}],
        unreached=lambda s: LEAK_BYTES_PER_S * s,
        gc_frozen_count=lambda s: 5000 * s,
        reached_count=900,
    ).source(PID, "/home/me/fork.py", "import gc\ndef fork():\n    gc.freeze()\n")
    (finding,), _ = looked(builder, "cyclic-garbage")
    assert "Leg" in finding.title and "gc.freeze()" in finding.title
    assert finding.subject.line == 3 and not finding.doubts
    assert any("43,200" in evidence.text and "Leg" in evidence.text for evidence in finding.evidence)


def test_autograd_cycles_count_though_the_heap_has_no_size_of_them(tmp_path):
    name = "torch.autograd.function.RoundBackward"
    row = {"type_name": name, "chain": f"{name}.q -> torch.Tensor -> {name}"}
    builder = with_graphs(
        sentinels(trainer(tmp_path), **OFF), [{**row, "unreached_count": lambda s: 5 * s, "unreached_bytes": 1}],
        unreached=lambda s: 600 * s,
    )  # fmt: skip
    (finding,), _ = looked(builder, "cyclic-garbage")
    assert finding.subject.type == name and finding.bytes > 100 * MiB


# ---- references that C code does not drop


def c_keeps(builder, **columns):
    builder.sentinels(PID, refcount_none=[5000] * 20, allocated_blocks=[10_000 * s for s in range(20)])
    return with_graphs(builder, [{"type_name": "bytes", **columns}])


@pytest.mark.parametrize("how", ["outside", "loose"])
def test_objects_that_only_c_code_refers_to_are_told_with_their_number(tmp_path, how):
    columns = {f"{how}_count": lambda s: 9000 * s, f"{how}_bytes": lambda s: LEAK_BYTES_PER_S // 2 * s}
    (finding,), _ = looked(c_keeps(trainer(tmp_path), **columns), "refcount-drift")
    assert finding.subject.type == "bytes" and finding.bytes > 100 * MiB
    assert any("→ 162,000" in evidence.text for evidence in finding.evidence)
    assert any("sample" in evidence.text for evidence in finding.evidence) == (how == "loose")


@pytest.mark.parametrize(("reached", "count", "is_told"), [(0, 400, True), (1, 400, False), (0, 4, False)])
def test_objects_that_were_soon_too_many_to_count_are_told_by_the_first_snapshot(tmp_path, reached, count, is_told):
    """Not where what names reach grew as well, nor where those of the first snapshot were little of what had come."""
    came = [5 * MiB + LEAK_BYTES_PER_S * s for s in range(20)]
    builder = sentinels(trainer(tmp_path), in_use=0, pymalloc_bytes=came, pymalloc_in_use_bytes=came)
    rows = [{"type_name": "list", "outside_count": count, "outside_bytes": count * LEAK_BYTES_PER_S // 200}]
    with_graphs(builder, rows, at_s=(2,))
    for number, second in enumerate((6, 10, 14), 2):
        builder.take(PID, number, second, python_bytes=1, array_bytes=1, tensor_bytes=1, rss_bytes=second)
        held = 20 * MiB + reached * LEAK_BYTES_PER_S * second
        builder.row("heap_graphs", second, PID, take=number, is_sampled=True, retained_bytes=held)
    findings, _ = looked(builder, "refcount-drift")
    assert [finding.subject.type for finding in findings] == ["list"] * is_told


def test_arrays_that_nobody_refers_to_stand_for_what_malloc_handed_out(tmp_path):
    """A sample of pools counts their headers, with some error; their data is malloc's."""
    counted = {2: 300, 6: 500, 10: 1150, 14: 1500, 18: 2050}
    rows = [
        {"type_name": "numpy.ndarray", "loose_count": lambda s: counted[s], "loose_bytes": lambda s: 96 * counted[s]}
    ]
    (finding,), _ = looked(with_graphs(sentinels(trainer(tmp_path)), rows), "refcount-drift")
    assert finding.subject.type == "numpy.ndarray" and finding.bytes > 100 * MiB
    assert finding.subject.library is None  # numpy made them; it is not said to keep them


def test_blocks_that_are_no_objects_belong_to_c_code(tmp_path):
    """A library asked Python's allocator for memory and never gave it back."""
    graph = {
        "block_bytes": lambda s: 20 * MiB + LEAK_BYTES_PER_S * s,
        "small_object_bytes": lambda s: 12 * MiB + 1000 * s,
    }
    in_use = [25 * MiB + LEAK_BYTES_PER_S * s for s in range(20)]
    arenas = {"pymalloc_bytes": in_use, "pymalloc_in_use_bytes": in_use}
    recording = with_graphs(sentinels(trainer(tmp_path), in_use=0, **arenas), graph=graph).open()
    report = asked(recording, only=["native-growth"])
    (finding,) = report.findings
    assert finding.bytes > 100 * MiB
    assert any("of them objects" in evidence.text for evidence in finding.evidence)
    grown = {row.account: row.growth_bytes for row in Case(recording).ledger}
    assert grown["native"] > 100 * MiB
    assert grown["python-objects"] < MiB


def test_blocks_of_objects_that_grow_as_well_are_theirs(tmp_path):
    graph = {
        "block_bytes": lambda s: 20 * MiB + LEAK_BYTES_PER_S * s,
        "small_object_bytes": lambda s: 12 * MiB + LEAK_BYTES_PER_S // 2 * s,
    }
    assert not looked(with_graphs(sentinels(trainer(tmp_path), in_use=0), graph=graph), "native-growth")[0]


def test_blocks_of_objects_that_nothing_refers_to_are_forgotten_references(tmp_path):
    """multidict 6.3.2: strings that are not in the graph, but in a sample of the allocator's pools."""
    graph = {"block_bytes": lambda s: 20 * MiB + LEAK_BYTES_PER_S * s, "small_object_bytes": 12 * MiB}
    rows = [{"type_name": "str", "loose_count": lambda s: 9000 * s, "loose_bytes": lambda s: LEAK_BYTES_PER_S * s}]
    builder = with_graphs(sentinels(trainer(tmp_path), in_use=0), rows, graph=graph)
    report = asked(builder.open(), only=["native-growth", "refcount-drift"])
    assert [(one.kind, one.subject.type) for one in report.findings] == [("refcount-drift", "str")]


@pytest.mark.parametrize(
    ("given", "part", "samples", "blamed"),
    [("made()", 0.3, 60, True), ("3", 0.04, 60, False), ("3", 0.15, 2, False)],
    ids=["leaks", "fills-a-cache", "by-chance"],
)
def test_an_extension_keeps_what_python_made_where_it_makes_others_that_stay(tmp_path, given, part, samples, blamed):
    """Two lines: one makes lists, by the program's own code; at the other a validator gets them, and leaks.

    Or it gets none, and has made a few objects for itself, or one or two that happened to be sampled.
    """
    source = f"import validator\n\ndef made():\n    return [0] * 9\n\ndef main():\n    validator.check({given})\n"
    builder = trainer(tmp_path)
    rows = [{"type_name": "list", "outside_count": lambda s: 9000 * s, "outside_bytes": lambda s: LEAK_BYTES_PER_S * s}]
    with_graphs(sentinels(builder), rows).source(PID, "/home/me/made.py", source)
    common = {"allocator": "objects", "owner_file": "/home/me/made.py", "sample_count": 60}
    for at_s in (5, 10, 15, 20):
        for line, function, share, library in (
            (4, "made", 1 - part, None),
            (7, "main", part, "/venv/lib/python3.11/site-packages/validator/_v.so"),
        ):
            live = int(at_s * MiB * share)
            error = round(live / (samples if library else 60) ** 0.5)
            figures = {"live_bytes": live, "settled_bytes": live, "asked_bytes": live, "error_bytes": error}
            stack = {"stack": f"/home/me/made.py:{line} {function}", "owner_line": line, "function": function}
            native = {"native_library": library, "native_stack": "python3.11:PyList_New"}
            builder.row("allocation_stacks", at_s, PID, **common, **figures, **stack, **native)
    (finding,), _ = looked(builder, "refcount-drift")
    assert finding.subject.line == (7 if blamed else 4)
    assert finding.subject.library == "validator" or not blamed
    assert any(f"made.py:4 allocated {1 - part:.0%}" in evidence.text for evidence in finding.evidence)


def asked_of_malloc(builder, file, line, native_stack, library=None):
    """All that the process gained, by one line."""
    for at_s in (5, 10, 15, 20):
        live = LEAK_BYTES_PER_S * at_s
        builder.row(
            "allocation_stacks", at_s, PID, allocator="malloc", owner_file=file, owner_line=line, function="f",
            stack=f"{file}:{line} f", sample_count=60, live_bytes=live, settled_bytes=live, asked_bytes=live,
            error_bytes=live // 12, native_library=library, native_stack=native_stack,
        )  # fmt: skip
    return builder


def test_who_calls_numpy_for_arrays_that_stay_is_named_and_not_numpy(tmp_path):
    """Bottleneck 1.3.0: it has NumPy make a copy of an array, and forgets it."""
    source = "import medians\nimport numpy as np\n\ndef f(values):\n    return medians.nanmedian(values[:, ::2])\n"
    counted = lambda s: 100 * s  # noqa: E731
    rows = [{"type_name": "numpy.ndarray", "loose_count": counted, "loose_bytes": lambda s: 96 * counted(s)}]
    builder = with_graphs(sentinels(trainer(tmp_path)), rows).source(PID, "/home/me/medians_of.py", source)
    numpy = "/venv/lib/python3.11/site-packages/numpy/core/_multiarray_umath.so"
    asked_of_malloc(builder, "/home/me/medians_of.py", 5, "_multiarray_umath.so:PyArray_NewCopy", numpy)
    (finding,), _ = looked(builder, "refcount-drift")
    assert (finding.subject.type, finding.subject.library, finding.subject.line) == ("numpy.ndarray", "medians", 5)


def stacks_of_objects(builder, *stacks):
    """Each is (line of /home/me/take.py, function of C, library, MiB a second, samples)."""
    for at_s in (5, 10, 15, 20):
        for line, maker, library, rate, samples in stacks:
            live = int(at_s * MiB * rate)
            builder.row(
                "allocation_stacks", at_s, PID, allocator="objects", owner_file="/home/me/take.py", owner_line=line,
                stack=f"/home/me/take.py:{line} f{line}", function=f"f{line}", sample_count=samples, live_bytes=live,
                settled_bytes=live, asked_bytes=live, error_bytes=round(live / samples**0.5), native_library=library,
                native_stack=f"python3.11:{maker}",
            )  # fmt: skip
    return builder


UNPACKER = "/venv/lib/python3.11/site-packages/unpacker/_u.so"
JSON = "/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so"
TAKE = "import unpacker\n\ndef f4(rng):\n    return [rng.random()] * 40\n\ndef f7(data):\n    unpacker.unpack(data)\n"


@pytest.mark.parametrize(
    ("of_lists", "library", "line"),
    [((0.1, 2), UNPACKER, 7), ((0.9, 40), UNPACKER, 4), ((0.1, 2), JSON, 4)],
    ids=["recycled", "made-there", "by-python-itself"],
)
def test_lists_that_leak_are_told_by_who_makes_lists(tmp_path, of_lists, library, line):
    """msgpack 1.2.2: line 4 makes numbers and frees them; Python gives their blocks to the lists that line 7 leaks."""
    rows = [{"type_name": "list", "outside_count": lambda s: 9000 * s, "outside_bytes": lambda s: LEAK_BYTES_PER_S * s}]
    builder = with_graphs(sentinels(trainer(tmp_path)), rows).source(PID, "/home/me/take.py", TAKE)
    stacks_of_objects(
        builder,
        (4, "PyFloat_FromDouble", None, 4.0, 60),
        (4, "PyList_New", None, *of_lists),
        (7, "PyList_New", library, 0.8, 8),
    )
    (finding,), _ = looked(builder, "refcount-drift")
    assert (finding.subject.line, finding.subject.type) == (line, "list")


@pytest.mark.parametrize(
    "columns",
    [
        {"outside_count": lambda s: 9000 * s, "outside_bytes": lambda s: LEAK_BYTES_PER_S // 50 * s},
        {"loose_count": lambda s: 9000 * (s % 4), "loose_bytes": lambda s: LEAK_BYTES_PER_S * 9 * (s % 4)},
        {"extra_reference_count": lambda s: 9000 * s},
    ],
    ids=["few", "comes-and-goes", "only-references"],
)
def test_other_strays_are_not_blamed(tmp_path, columns):
    assert not looked(c_keeps(trainer(tmp_path), **columns), "refcount-drift")[0]


# ---- pinned pools

GROWING = [4 * MiB + LEAK_BYTES_PER_S * s for s in range(int(RUN_S))]


def node(number, above, kind, name, **more):
    return {
        "node": number, "path_node": above, "dominator_node": above, "root_kind": "module", "edge_kind": kind,
        "edge_name": name, "is_named": True, "was_there": True, "shallow_bytes": 100, "child_count": 9, **more,
    }  # fmt: skip


SURVIVING = [3 * MiB + LEAK_BYTES_PER_S // 50 * second for second in range(int(RUN_S))]  # in pools mostly free
ANCHORS = [
    node(0, None, None, None, retained_bytes=9 * MiB, root_kind=None),
    node(1, 0, None, None, retained_bytes=9 * MiB),
    node(6, 1, None, None, type_name="dict", retained_bytes=9 * MiB),
    node(7, 6, "key", "['__main__']", type_name="module", retained_bytes=8 * MiB),
    node(8, 7, "namespace", None, type_name="dict", retained_bytes=8 * MiB),
    node(9, 8, "key", "['index']", type_name="__main__.Index", retained_bytes=4 * MiB),
    node(10, 9, "attribute", "anchors", type_name="list", retained_bytes=lambda s: s * MiB, length=lambda s: 900 * s),
    node(11, 8, "key", "['large']", type_name="list", retained_bytes=lambda s: s * MiB, length=lambda s: 9000 * s),
]  # fmt: skip


def pinned(folder, share):
    arenas = {"pymalloc_bytes": GROWING, "pymalloc_in_use_bytes": SURVIVING}
    pins = [
        {"node": 10, "object_count": lambda s: 800.0 * s, "shallow_bytes": lambda s: 99 * s,
         "pinned_bytes": lambda s: round(share * LEAK_BYTES_PER_S * s)},
        {"node": 11, "object_count": 300.0, "shallow_bytes": 999, "pinned_bytes": 50 * MiB},
    ]  # fmt: skip
    builder = with_graphs(sentinels(trainer(folder), in_use=0, **arenas), pins=pins, nodes=ANCHORS)
    (finding,), _ = looked(builder, "fragmentation")
    return finding


def test_who_holds_the_survivors_in_pinned_pools_is_named(tmp_path):
    """Another container has more members; but where they lie little is free that was not before."""
    finding = pinned(tmp_path, 0.9)
    assert finding.subject.variable == "anchors" and finding.subject.line == 14
    assert "14,400" in finding.title and "Index.anchors" in finding.title
    assert finding.confidence >= 0.9 and not finding.doubts
    assert any("162 MiB" in evidence.text for evidence in finding.evidence)


def test_survivors_in_many_parts_of_a_container_are_told_as_its_own(tmp_path):
    """A list for each batch: each pins a twentieth, and nobody else what all of them do."""
    arenas = {"pymalloc_bytes": GROWING, "pymalloc_in_use_bytes": SURVIVING}
    parts = [
        node(20 + n, 10, "index", f"[{n}]", type_name="list", retained_bytes=lambda s, n=n: MiB if s > n else 0)
        for n in range(18)
    ]
    pins = [
        {"node": 20 + n, "object_count": 800.0, "shallow_bytes": 900,
         "pinned_bytes": lambda s, n=n: round(0.9 * LEAK_BYTES_PER_S) if s > n else 0}
        for n in range(18)
    ]  # fmt: skip
    builder = with_graphs(sentinels(trainer(tmp_path), in_use=0, **arenas), pins=pins, nodes=[*ANCHORS, *parts])
    (finding,), _ = looked(builder, "fragmentation")
    assert finding.subject.variable == "anchors" and "14,400" in finding.title


def test_survivors_that_pin_little_are_not_named_for_it(tmp_path):
    finding = pinned(tmp_path, 0.05)
    assert finding.subject.holder is None and "survivors" not in finding.title


def test_the_end_of_the_program_shows_what_c_code_keeps(tmp_path):
    """Snapshots between were too dear for the graph: of the first there is one, and of the last."""
    builder = trainer(tmp_path).sentinels(
        PID, refcount_none=[5000] * 20, allocated_blocks=[10_000 * s for s in range(20)]
    )
    row = {
        "type_name": "list",
        "outside_count": lambda s: 9000 * s,
        "outside_bytes": lambda s: LEAK_BYTES_PER_S // 2 * s,
    }
    reason = {"reason": lambda s: "schedule" if s < 10 else "exit"}
    (finding,), _ = looked(with_graphs(builder, [row], at_s=(2, 20), **reason), "refcount-drift")
    assert finding.subject.type == "list"


def handles(count, name="parser.Document"):
    """Objects of C of 100 bytes that only C code refers to: so many, by second."""
    return [{"type_name": name, "object_count": 9e9, "outside_count": count, "outside_bytes": lambda s: 100 * count(s)}]


def test_handles_that_nothing_refers_to_stand_for_the_memory_that_came_with_each(tmp_path):
    builder = with_graphs(sentinels(trainer(tmp_path)), handles(lambda s: 30 * s))
    (finding,), _ = looked(builder, "refcount-drift")
    assert finding.subject.type == "parser.Document"
    assert finding.bytes > 0.9 * LEAK_BYTES_PER_S * 16
    assert any("for each that was added 341 KiB came into use" in evidence.text for evidence in finding.evidence)
    findings, ruled_out = looked(builder, "native-growth")
    assert not findings
    assert any("refcount-drift" in one.reason for one in ruled_out)


@pytest.mark.cases(1)
@pytest.mark.parametrize(
    "count, name",
    [
        (lambda s: 3000 if s > 3 else 10, "parser.Document"),  # made once
        (lambda s: 3 * s**3, "parser.Document"),  # out of step
        (lambda s: 30 * s, "zlib.Compress"),  # of Python's own library, whose counts are right
        (lambda s: 30 * s, "torch.Tensor"),  # held in C++
    ],
)
def test_handles_out_of_step_are_no_cause(tmp_path, count, name):
    builder = with_graphs(sentinels(trainer(tmp_path)), handles(count, name))
    assert not looked(builder, "refcount-drift")[0]
    assert looked(builder, "native-growth")[0]
