"""Native growth: claimed only where nobody holds it, and named by the line under which it was seen to grow."""

from __future__ import annotations

import pytest

from leakscope import analyze
from leakscope.analyzers.native_growth import findings as look
from leakscope.facts.case import Case
from leakscope.findings import Finding, RuledOut, Subject
from tests.builders import RecordingBuilder
from tests.sentences import says

from .asking import asked
from .leaks import PID, MiB, sentinels, trainer

FILE = "/home/me/train.py"
SOURCE = """import codec
import time

def step(frames):
    packed = codec.pack(frames)
    time.sleep(0.1)

def main():
    step([])
"""


def takes(builder, slope=0, holders=()):
    for number, at_s in enumerate((4, 9, 17), 1):
        held = {"python_bytes": 8 * MiB + slope * at_s, "array_bytes": 0, "tensor_bytes": 0}
        builder.take(PID, number, at_s, holders=list(holders), **held)
    return builder


def seen(builder, line, share=1.0, function="step", below=""):
    stack = f"{FILE}:9 main\n{FILE}:{line} {function}{below}"
    for at_s in (5, 10, 15, 20):
        builder.allocated(PID, at_s, int(share * MiB * at_s), stack, sample_count=at_s)
    return builder


def leaking(folder, **sentinel_columns):
    builder = takes(sentinels(trainer(folder), **sentinel_columns))
    return builder.source(PID, FILE, SOURCE)


def test_it_names_the_line_the_function_and_the_library(tmp_path):
    report = analyze(seen(leaking(tmp_path), 5).open())
    first = report.findings[0]
    assert first.kind == "native-growth"
    assert (first.subject.file, first.subject.line, first.subject.function) == (FILE, 5, "step")
    assert first.subject.library == "codec"
    assert first.confidence > 0.8
    assert not [f for f in report.findings if f.kind == "unexplained-growth"]


def test_a_library_that_asks_for_ever_larger_pieces_leaks_all_the_same(tmp_path):
    """What malloc handed out rises in two steps, and what is touched of that little by little."""
    pieces = [(20 if s < 6 else 90 if s < 13 else 230) * MiB for s in range(20)]
    (found,) = asked(leaking(tmp_path, malloc_in_use_bytes=pieces).open(), only=["native-growth"]).findings
    assert found.kind == "native-growth"


def test_code_of_no_file_is_told_by_who_called_it(tmp_path):
    """A namedtuple's ``__new__``, what exec runs."""
    builder = leaking(tmp_path)
    stack = f"{FILE}:9 main\n{FILE}:5 step\n<string>:1 <lambda>"
    for at_s in (5, 10, 15, 20):
        builder.allocated(PID, at_s, int(MiB * at_s), stack)
    (found,) = asked(builder.open(), only=["native-growth"]).findings
    assert (found.subject.file, found.subject.line, found.subject.function) == (FILE, 5, "step")


def test_without_a_look_it_is_native_all_the_same_but_less_sure(tmp_path):
    (finding,) = asked(leaking(tmp_path).open(), only=["native-growth"]).findings
    assert finding.subject.line is None and finding.confidence <= 0.5 and finding.doubts
    assert finding.subject.library is None and "not observed" in finding.doubts[0]


def test_it_yields_to_findings_that_explain_half_of_the_growth(tmp_path):
    recording = seen(leaking(tmp_path), 5).open()
    held = Finding("retained-objects", "t", "critical", 0.9, 120 * MiB, Subject(pid=PID))
    (ruled_out,) = look(Case(recording), so_far=[held])
    assert isinstance(ruled_out, RuledOut)


TORCH = {
    "native_library": "/venv/lib/python3.11/site-packages/torch/lib/libc10.so",
    "native_function": "c10::alloc_cpu",
}


@pytest.mark.parametrize(("is_sampled", "come", "is_native"), [(True, 1, False), (True, 0, True), (False, 1, True)])
def test_tensors_that_were_not_reached_are_no_memory_that_nobody_holds(tmp_path, is_sampled, come, is_native):
    """Where a part of the objects was read: ever more tensors live, whoever holds them."""
    builder = leaking(tmp_path, tensor_count=[500 + come * s for s in range(20)])
    for number, at_s in enumerate((4, 9, 17), 1):
        builder.row("heap_graphs", at_s, PID, take=number, is_sampled=is_sampled, weighs_tensors=True)
    for at_s in (5, 10, 15, 20):
        stack = f"{FILE}:9 main\n{FILE}:5 step"
        builder.allocated(PID, at_s, int(10 * MiB * at_s), stack, sample_count=10 * at_s, **TORCH)
    report = asked(builder.open(), only=["native-growth", "unexplained-growth"])
    assert [f.kind for f in report.findings] == ["native-growth" if is_native else "unexplained-growth"]
    (first,) = report.findings
    assert (first.subject.file, first.subject.line) == (FILE, 5)
    assert is_native or says(" ".join(first.doubts), "a part was read")


@pytest.mark.parametrize(("member", "is_theirs"), [("codec._core.Frame", True), ("mycodec.Frame", False)])
def test_a_library_is_not_accused_while_somebody_keeps_its_objects(tmp_path, member, is_theirs):
    """However much each has: that was not weighed, and explains less than half of the growth."""
    kept = Subject(pid=PID, holder="Store.frames (list)", type=f"list of {member}")
    held = Finding("retained-objects", "t", "critical", 0.9, 80 * MiB, kept)
    (answer,) = look(Case(seen(leaking(tmp_path), 5).open()), so_far=[held])
    assert isinstance(answer, RuledOut) is is_theirs
    assert not is_theirs or "Store.frames" in answer.reason


@pytest.mark.parametrize(("variable", "is_told"), [("frames", True), ("others", False)])
def test_an_object_of_the_library_s_that_the_line_hands_over_is_told_in_its_place(tmp_path, variable, is_told):
    """An index that lives in C: a small part of it was seen, and the rest of the growth is its own, too."""
    kept = Subject(
        pid=PID, holder=f"main() {variable} (Index)", variable=variable, type="_codec_c.Table", path=variable
    )
    seen_part = Finding("retained-objects", "t", "warning", 0.7, 10 * MiB, kept)
    (found,) = look(Case(seen(leaking(tmp_path), 5).open()), so_far=[seen_part])
    assert (found.subject.holder == kept.holder, found.subject.library is None) == (is_told, is_told)
    assert says(found.title, "inside codec") is not is_told
    assert says(found.remedy[0], "newer codec") is not is_told


def test_a_database_of_the_standard_library_holds_what_it_was_given(tmp_path):
    holder = {
        "path": "main() codec", "edge_kind": "local", "variable": "codec", "owner": "main", "is_user": True,
        "owner_file": FILE, "opaque": True, "type_name": "sqlite3.Connection",
    }  # fmt: skip
    builder = takes(sentinels(trainer(tmp_path)), holders=[holder]).source(PID, FILE, SOURCE)
    report = asked(seen(builder, 5).open(), only=["native-growth", "unexplained-growth"])
    assert [f.kind for f in report.findings] == ["retained-objects"]


GEO = """import ctypes

def step(frames):
    array = ctypes.c_double * 3
    return lib.track_simplify(array(*frames))

def main():
    step([])
"""
LIBRARY = {"native_library": "/home/me/libgeo.so", "native_function": "track_simplify"}
LIBRARY["native_stack"] = "libgeo.so:track_simplify"


def of_geo(folder, source, type_name="_ctypes.PyCArrayType"):
    holder = {
        "path": "step() array", "edge_kind": "local", "variable": "array", "owner": "step", "is_user": True,
        "owner_file": FILE, "opaque": True, "type_name": type_name,
    }  # fmt: skip
    builder = takes(sentinels(trainer(folder)), holders=[holder]).source(PID, FILE, source)
    for at_s in (5, 10, 15, 20):
        stack = f"{FILE}:8 main\n{FILE}:5 step"
        builder.allocated(PID, at_s, int(MiB * at_s), stack, sample_count=at_s, **LIBRARY)
    return analyze(builder.open()).findings[0]


@pytest.mark.parametrize("type_name", ["_ctypes.PyCArrayType", "sqlite3.Connection"])
def test_what_a_library_asked_for_is_not_held_by_an_object_of_another(tmp_path, type_name):
    """By its name only the line has to do with it; and an array type of ctypes is a class."""
    found = of_geo(tmp_path, GEO, type_name)
    assert (found.kind, found.subject.library, found.subject.variable) == ("native-growth", "libgeo", None)


def test_what_a_library_of_the_programs_own_makes_is_to_be_given_back_to_it(tmp_path):
    remedy = of_geo(tmp_path, GEO).remedy[0]
    assert says(remedy, "a library of the program's own", "track_simplify() of libgeo") and "newer" not in remedy


@pytest.mark.parametrize("library", ["/lib/x86_64-linux-gnu/libffi.so.8", "/usr/lib/python3.11/lib-dynload/_ctypes.so"])
def test_what_the_program_asks_of_malloc_itself_is_no_package_s(library, tmp_path):
    """By ctypes, in a file that imports one package: that has nothing to do with it."""
    builder = leaking(tmp_path).source(PID, FILE, SOURCE.replace("codec.pack(frames)", "libc.malloc(len(frames))"))
    for at_s in (5, 10, 15, 20):
        builder.allocated(PID, at_s, MiB * at_s, f"{FILE}:9 main\n{FILE}:5 step", native_library=library)
    (found,) = asked(builder.open(), only=["native-growth"]).findings
    assert found.subject.library is None and "inside" not in found.title
    assert says(found.remedy[0], "train.py:5", "freed")


SEEN_KEYS = """import sqlite3

class Seen:
    def __init__(self):
        self.database = sqlite3.connect(":memory:")

    def is_new(self, key):
        return self.database.execute("insert or ignore into seen values (?)", (key,)).rowcount

def main(seen, keys):
    sum(seen.is_new(key) for key in keys)
    sum(seen.length(key) for key in keys)
"""


@pytest.mark.parametrize(("line", "kind"), [(11, "retained-objects"), (12, "native-growth")])
def test_a_database_that_a_method_feeds_is_named_by_the_call_of_the_method(tmp_path, line, kind):
    """A look as a function begins sees what the one before it did, at the line that calls both."""
    holder = {
        "path": "main() seen.database", "root_kind": "frame", "variable": "database", "owner": "Seen", "is_user": True,
        "opaque": True, "type_name": "sqlite3.Connection", "owner_module": "__main__", "owner_file": FILE,
    }  # fmt: skip
    builder = takes(sentinels(trainer(tmp_path)), holders=[holder]).source(PID, FILE, SEEN_KEYS)
    report = asked(seen(builder, line, function="main").open(), only=["native-growth", "unexplained-growth"])
    assert [f.kind for f in report.findings] == [kind]


def test_silent_while_memory_in_use_is_flat_or_python_holds_it(tmp_path):
    for name, recording in (
        ("flat", takes(sentinels(trainer(tmp_path), in_use=0), 0)),
        ("python", None),
    ):
        (tmp_path / name).mkdir()
        builder = recording or takes(sentinels(trainer(tmp_path / name)), 10 * MiB)
        assert not asked(seen(builder, 5).open(), only=["native-growth"]).findings, name


def test_silent_where_nothing_grows(tmp_path):
    report = asked(seen(sentinels(trainer(tmp_path, leak=0), in_use=0), 5).open(), only=["native-growth"])
    assert not report.findings and report.ruled_out


def test_arrow_is_named_by_what_its_pool_says(tmp_path):
    pool = [10 * MiB * second for second in range(20)]
    (finding,) = asked(seen(leaking(tmp_path, native_cache_bytes=pool), 5).open(), only=["native-growth"]).findings
    assert finding.subject.library == "pyarrow" and "Arrow" in finding.title


def test_arrow_is_named_where_its_pool_has_an_allocator_of_its_own(tmp_path):
    pool = [10 * MiB * second for second in range(20)]
    builder = takes(sentinels(trainer(tmp_path), in_use=0, native_cache_bytes=pool))
    (finding,) = asked(builder.open(), only=["native-growth"]).findings
    assert finding.subject.library == "pyarrow"
    assert finding.bytes > 100 * MiB


@pytest.mark.parametrize(
    ("version", "share", "is_told"), [("3.12.1", 0.9, True), ("3.12.5", 0.9, False), ("3.12.1", 0.1, False)]
)
def test_strings_that_are_interned_for_good_are_told_where_this_python_frees_none(tmp_path, version, share, is_told):
    """Most of the small objects that came into use are such strings."""
    strings = [30_000 + 8000 * second for second in range(20)]
    blocks = [200_000 + round(8000 / share) * second for second in range(20)]
    builder = leaking(tmp_path, interned_count=strings, allocated_blocks=blocks)
    builder.row("agent_notes", 0.5, PID, note="loaded", text=f"Python {version}, pid {PID}")
    (finding,) = asked(seen(builder, 5).open(), only=["native-growth"]).findings
    assert (finding.mechanism == "interned-strings") is is_told
    assert ("3.12.5" in finding.remedy[0]) is is_told


def convolving(builder, shapes, weight="64x32x3x3"):
    """Inventories that see a batch each, and a model with one weight of this shape."""
    place = {"device": "cpu", "dtype": "float32", "moment": "take"}
    for number, (at_s, shape) in enumerate(zip((2, 4, 8, 14, 19), shapes), 1):
        builder.take(PID, number, at_s, python_bytes=8 * MiB, array_bytes=0, tensor_bytes=0)
        batch = {"tensor_owner": "user-held", "shape": shape, "storage_bytes": MiB, **place}
        builder.row("tensors", at_s, PID, take=number, **batch)
        part = {"tensor_owner": "parameter", "tensor_name": "body.0.weight", "device": "cpu", "dtype": "float32"}
        builder.row("weights", at_s, PID, take=number, shape=weight, **part)
    return builder


EVER_NEW = [f"2x3x{60 + n}x{90 - n}" for n in range(5)]


def kernels(folder, shapes, free=10 * MiB, in_use=200 * 1024, **columns):
    """A job that keeps what it freed: its memory grows, what malloc has handed out hardly does."""
    builder = RecordingBuilder(folder).process(PID, cmdline="/usr/bin/python3 -u /home/me/train.py")
    builder.samples(PID, [100 * MiB + free * n // 4 for n in range(80)], every_s=0.25)
    kept = [MiB + free * second for second in range(20)]
    return convolving(sentinels(builder, in_use=in_use, malloc_free_bytes=kept), shapes, **columns)


def test_kernels_for_ever_new_shapes_own_what_lies_free_around_them(tmp_path):
    report = asked(kernels(tmp_path, EVER_NEW).open(), only=["native-growth", "fragmentation"])
    (finding,) = report.findings
    assert (finding.kind, finding.subject.library) == ("native-growth", "torch")
    assert "oneDNN" in finding.title and "ONEDNN_PRIMITIVE_CACHE_CAPACITY" in finding.remedy[0]
    assert finding.bytes > 100 * MiB


@pytest.mark.parametrize(
    ("shapes", "weight"),
    [(["2x3x40x40", "2x3x56x56"] * 3, "64x32x3x3"), (EVER_NEW, "64x32")],
    ids=["few-shapes", "no-convolution"],
)
def test_few_shapes_or_a_model_without_convolutions_fill_no_kernel_cache(tmp_path, shapes, weight):
    builder = kernels(tmp_path, shapes, weight=weight)
    (finding,) = asked(builder.open(), only=["native-growth", "fragmentation"]).findings
    assert finding.kind == "fragmentation"


@pytest.mark.parametrize("tensor_bytes", [None, 0])
def test_tensors_that_nobody_weighed_are_not_taken_for_none(tmp_path, tensor_bytes):
    """Snapshots under pressure read a part of the heap, and weigh no tensor."""
    builder = sentinels(trainer(tmp_path), tensor_count=[100 + second for second in range(20)])
    for number, at_s in enumerate((4, 9, 17), 1):
        builder.take(PID, number, at_s, python_bytes=8 * MiB, array_bytes=0, tensor_bytes=tensor_bytes)
    report = asked(builder.open(), only=["native-growth"])
    claimed = [finding.kind for finding in report.findings]
    skipped = [entry.reason for entry in report.skipped if entry.kind == "native-growth"]
    if tensor_bytes is None:
        assert not claimed and says(skipped[0], "weighed", "tensors")
    else:
        assert claimed == ["native-growth"]


TRACED = """import codec

def latency(model, example):
    traced = codec.trace(model, example)
    for _ in range(3):
        traced(example)

def main():
    while True:
        latency(make(), [])
"""


@pytest.mark.parametrize(("made_share", "line"), [(0.3, 4), (0.0, 6)])
def test_what_calls_of_an_object_allocate_is_put_down_to_what_makes_it(tmp_path, made_share, line):
    """As long as another is made each time, which then allocates what stays as well."""
    builder = takes(sentinels(trainer(tmp_path))).source(PID, FILE, TRACED)
    for number, share in ((4, made_share), (6, 0.7)):
        for at_s in (5, 10, 15, 20) if share else ():
            stack = f"{FILE}:10 main\n{FILE}:{number} latency"
            builder.allocated(PID, at_s, int(share * MiB * at_s), stack, sample_count=10 * at_s)
    (found,) = asked(builder.open(), only=["native-growth"]).findings
    assert found.subject.line == line
    assert any(
        says(one.text, "train.py:4, with the calls of what it makes at train.py:6") for one in found.evidence
    ) is (line == 4)
