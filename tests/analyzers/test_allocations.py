"""What a report makes of sampled allocations: the line, the library and the function that asked for what stays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from leakscope import analyze
from leakscope.facts.case import Case
from leakscope.facts.where.allocations import Allocations, allocations, function_name
from tests.builders import RecordingBuilder

from .leaks import PID, MiB, sentinels
from .leaks import trainer as leaking
from .test_native_growth import FILE, SOURCE, takes

CODEC = "/venv/lib/python3.11/site-packages/codec/_native.cpython-311-x86_64-linux-gnu.so"


def row(live_bytes: float, line: int | None = 5, **columns: Any) -> dict[str, Any]:
    """Of a stack whose innermost call of the user's is at this line of FILE."""
    place: dict[str, Any] = {"stack": "", "function": None, "owner_file": None, "owner_line": None}
    if line is not None:
        place = {
            "stack": f"{FILE}:9 main\n{FILE}:{line} step",
            "function": "step",
            "owner_file": FILE,
            "owner_line": line,
        }
    return {
        "allocator": "malloc", "live_bytes": int(live_bytes), "settled_bytes": int(live_bytes / 2), "sample_count": 40,
        "error_bytes": int(live_bytes / 6), "asked_bytes": int(3 * live_bytes),
        "native_library": CODEC, "native_function": "pack_frames",
        "native_stack": "_native.cpython-311-x86_64-linux-gnu.so:pack_frames", **place, **columns,
    }  # fmt: skip


def recorded(folder: Path, *slopes: dict[str, Any]) -> RecordingBuilder:
    """A process with native growth; each of ``slopes`` is a row whose live bytes are those of one second."""
    builder = takes(sentinels(leaking(folder))).source(PID, FILE, SOURCE)
    for at_s in (5, 10, 15, 20):
        for one in slopes:
            grown = {name: int(one[name] * at_s) for name in one if name.endswith("_bytes")}
            builder.row("allocation_stacks", at_s, PID, **{**one, **grown})
    return builder


def test_the_line_the_library_and_the_function_that_asked_are_named(tmp_path: Path) -> None:
    report = analyze(recorded(tmp_path, row(8 * MiB), row(MiB, 6, native_library=None, native_function=None)).open())
    (found,) = [one for one in report.findings if one.kind == "native-growth"]
    assert (found.subject.file, found.subject.line, found.subject.library) == (FILE, 5, "codec")
    assert "pack_frames" in found.title
    assert found.confidence >= 0.8


def test_what_a_thread_of_a_library_asks_for_is_told_by_the_library_alone(tmp_path: Path) -> None:
    report = analyze(recorded(tmp_path, row(8 * MiB, None)).open())
    (found,) = [one for one in report.findings if one.kind == "native-growth"]
    assert (found.subject.line, found.subject.library) == (None, "codec")
    assert "pack_frames" in found.title


LOWERED = f"{FILE}:9 main\n{FILE}:5 step\n/site-packages/jax/_src/interpreters/mlir.py:627 make_ir_context"


def test_what_stays_of_what_a_compiler_asked_for_is_no_leak_of_its_library(tmp_path: Path) -> None:
    report = analyze(recorded(tmp_path, row(8 * MiB, stack=LOWERED), row(MiB, 6)).open())
    found = report.findings[0]
    assert (found.kind, found.subject.file, found.subject.line) == ("recompilation", FILE, 5)
    assert (found.subject.library, found.mechanism) == ("jax", "compile-cache")
    assert any("jax.clear_caches()" in advice for advice in found.remedy)
    assert not [one for one in report.findings if one.kind in ("native-growth", "refcount-drift")]


FACTORY = """import jax


def make_step(target):
    return jax.jit(lambda x: (x - target) ** 2)


def main():
    for target in range(10**6):
        step = make_step(target)
        step(target)
"""
DECORATED = """import jax


def fit(target):
    @jax.jit
    def step(x):
        return (x - target) ** 2
    return step(target)


def main():
    for target in range(10**6):
        fit(target)
"""


@pytest.mark.parametrize(("source", "line", "function", "made"), [(FACTORY, 11, "main", 5), (DECORATED, 8, "fit", 5)])
def test_who_makes_what_is_compiled_anew_each_time_is_told(
    tmp_path: Path, source: str, line: int, function: str, made: int
) -> None:
    """What differs then is the function: other sizes are no advice."""
    stack = f"{FILE}:{line} {function}\n/site-packages/jax/_src/interpreters/mlir.py:627 make_ir_context"
    builder = takes(sentinels(leaking(tmp_path))).source(PID, FILE, source)
    for at_s in (5, 10, 15, 20):
        builder.row("allocation_stacks", at_s, PID, **row(at_s * 8 * MiB, line, stack=stack, function=function))
    found = analyze(builder.open()).findings[0]
    assert (found.kind, found.subject.line) == ("recompilation", made)
    assert len(found.remedy) == 1
    assert found.remedy[0].startswith("make the compiled function once")


def test_what_came_late_is_told_by_its_own_error(tmp_path: Path) -> None:
    """A sample stands for 8 MiB. How many of what was there before are missed is no doubt of those that came since."""
    builder = takes(sentinels(leaking(tmp_path))).source(PID, FILE, SOURCE)
    for at_s in (5, 8, 11, 14, 17, 20):
        size = 500 + 8 * at_s
        grown = {f"{name}_bytes": size * MiB for name in ("live", "settled", "asked")}
        error = {"error_bytes": round((8 * size) ** 0.5 * MiB)}
        builder.row("allocation_stacks", at_s, PID, **{**row(MiB, stack=LOWERED), **grown, **error})
    assert analyze(builder.open()).findings[0].kind == "recompilation"


def test_what_a_compiler_asked_for_as_the_program_began_accuses_nobody(tmp_path: Path) -> None:
    """The job grows up to the end, by something without a line: what was compiled once has no part in that."""
    builder = takes(sentinels(leaking(tmp_path))).source(PID, FILE, SOURCE)
    for at_s, of_compiler in ((5, 0), (8, 40), (11, 90), (14, 90), (17, 90), (20, 90)):
        grown = {f"{name}_bytes": of_compiler * MiB for name in ("live", "settled", "asked")}
        builder.row("allocation_stacks", at_s, PID, **{**row(MiB, stack=LOWERED), **grown})
        builder.row("allocation_stacks", at_s, PID, **row(at_s * MiB, 6, stack=""))
    report = analyze(builder.open())
    assert not [one.kind for one in report.findings if one.kind in ("recompilation", "native-growth")]


def test_a_little_that_a_compiler_asked_for_is_no_recompilation(tmp_path: Path) -> None:
    report = analyze(recorded(tmp_path, row(MiB, stack=LOWERED), row(8 * MiB, 6)).open())
    assert [one.kind for one in report.findings][:1] == ["native-growth"]


def test_levels_that_are_written_twice_as_it_ends_are_of_what_was_freed(tmp_path: Path) -> None:
    builder = recorded(tmp_path, row(8 * MiB))
    builder.row("agent_notes", 20.2, PID, note="exit", text="the interpreter shuts down")
    for at_s in (21.5, 21.501):
        builder.row("allocation_stacks", at_s, PID, **row(MiB))
    case = Case(builder.open())
    assert case.growth.main is not None
    assert allocations(case.growth, case.growth.main)[0].live_bytes == 160 * MiB


def gained(folder: Path, *slopes: dict[str, Any]) -> list[Allocations]:
    case = Case(recorded(folder, *slopes).open())
    assert case.growth.main is not None
    return allocations(case.growth, case.growth.main)


def test_what_was_there_before_the_window_is_no_growth(tmp_path: Path) -> None:
    builder = recorded(tmp_path, row(2 * MiB))
    for at_s in (5, 10, 15, 20):
        builder.row("allocation_stacks", at_s, PID, **row(900 * MiB, 6))
    case = Case(builder.open())
    assert case.growth.main is not None
    first, second = allocations(case.growth, case.growth.main)
    assert first.line == 5 and first.bytes > 0
    assert (second.line, second.bytes) == (6, 0.0)


def test_what_is_freed_as_the_program_ends_was_there(tmp_path: Path) -> None:
    builder = recorded(tmp_path, row(4 * MiB))
    builder.row("agent_notes", 20.05, PID, note="exit", text="the interpreter shuts down")
    builder.row("allocation_stacks", 20.1, PID, **row(1, 7))
    case = Case(builder.open())
    assert case.growth.main is not None
    (first, *_) = allocations(case.growth, case.growth.main)
    assert first.line == 5 and first.bytes > 0


def test_objects_are_told_apart_from_what_malloc_hands_out(tmp_path: Path) -> None:
    found = gained(tmp_path, row(MiB), row(50 * MiB, 6, allocator="objects"))
    assert [one.line for one in found] == [5]


def test_functions_are_told_by_the_names_people_call_them() -> None:
    names = {
        "_ZN3c109alloc_cpuEm": "c10::alloc_cpu",
        "_ZNK2at6Tensor5cloneEv": "at::Tensor::clone",
        "_ZN5alloc5alloc15exchange_malloc17h0123456789abcdefE": "alloc::alloc::exchange_malloc",
        "_ZNSt6vectorIN8LightGBM17HistogramBinEntryESaIS1_EE17_M_default_appendEm": "std::vector",
        "pack_frames": "pack_frames",
        "_Znwm": "_Znwm",
    }
    assert {symbol: function_name(symbol) for symbol in names} == names


def test_a_package_is_what_is_imported(tmp_path: Path) -> None:
    packages = {
        CODEC: "codec",
        "/venv/lib/python3.11/site-packages/numpy.libs/libopenblas64.so": "numpy",
        "/venv/lib/python3.8/site-packages/.libspyonmttok/libOpenNMTTokenizer-59835abd.so": "pyonmttok",
        "/venv/lib/python3.11/site-packages/ujson.cpython-311-x86_64-linux-gnu.so": "ujson",
        "/venv/lib/python3.11/site-packages/google/_upb/_message.abi3.so": "google._upb",
        "/usr/lib/python3.11/lib-dynload/_sqlite3.cpython-311-x86_64-linux-gnu.so": "_sqlite3",
        "/usr/lib/x86_64-linux-gnu/libsqlite3.so.0": None,
    }
    found = gained(tmp_path, *(row(MiB, native_library=path, native_stack=path) for path in packages))
    assert {one.native_library: one.package for one in found} == packages


MADE = {"native_library": None, "native_function": None, "native_stack": "python3.11:?\npython3.11:PyUnicode_New"}


def test_strings_that_stay_and_are_nobodys_were_forgotten_by_an_extension(tmp_path: Path) -> None:
    """Python's own function asked malloc for them, and no object in the graph accounts for it."""
    report = analyze(recorded(tmp_path, row(8 * MiB, **MADE)).open())
    first = report.findings[0]
    assert (first.kind, first.subject.type, first.subject.line) == ("refcount-drift", "str", 5)
    assert any("PyUnicode_New()" in evidence.text for evidence in first.evidence)


CAMERA = """import numpy as np
import framering

def read():
    return np.random.integers(0, 255, (160, 120))

def step(frames):
    return framering.push(read())

def main():
    while True:
        step([])
"""
ARRAYS = "/venv/site-packages/numpy/_core/_multiarray_umath.cpython-311-x86_64-linux-gnu.so"


@pytest.mark.parametrize(("in_arrays", "kind"), [(0, "refcount-drift"), (9 * MiB, None)])
def test_arrays_that_stay_and_are_nobodys_were_forgotten_by_whom_they_are_given_to(
    tmp_path: Path, in_arrays: int, kind: str | None
) -> None:
    """numpy asked for their memory, and all arrays that a snapshot came to are as many as before."""
    builder = sentinels(leaking(tmp_path)).source(PID, FILE, CAMERA)
    for number, at_s in enumerate((4, 9, 17), 1):
        builder.take(PID, number, at_s, python_bytes=8 * MiB, array_bytes=in_arrays * at_s, tensor_bytes=0)
    stack = f"{FILE}:12 main\n{FILE}:8 step\n{FILE}:5 read"
    where = {"stack": stack, "owner_line": 5, "function": "read", "native_library": ARRAYS, "native_function": None}
    for at_s in (5, 10, 15, 20):
        builder.row("allocation_stacks", at_s, PID, **row(8 * MiB * at_s, **where, native_stack=f"{ARRAYS}:?"))
    found = [f for f in analyze(builder.open()).findings if f.kind == "refcount-drift"]
    assert [f.kind for f in found] == ([kind] if kind else [])
    if found:
        assert (found[0].subject.library, found[0].subject.line) == ("framering", 8)
        assert "framering" in found[0].remedy[0] and "numpy.ndarray" in found[0].title


def test_strings_that_the_graph_has_are_somebodys(tmp_path: Path) -> None:
    builder = takes(sentinels(leaking(tmp_path)), slope=9 * MiB).source(PID, FILE, SOURCE)
    for at_s in (5, 10, 15, 20):
        builder.row("allocation_stacks", at_s, PID, **row(8 * MiB * at_s, **MADE))
    assert "refcount-drift" not in {finding.kind for finding in analyze(builder.open()).findings}


def test_addresses_that_a_library_reserved_are_no_memory_that_stays(tmp_path: Path) -> None:
    """More than the process has at all: nobody wrote to it."""
    builder = recorded(tmp_path, row(8 * MiB))
    reserved = row(0, 6, allocator="mmap", native_library="/venv/lib/python3.11/site-packages/arrow/libarrow.so")
    size = dict.fromkeys(("live_bytes", "settled_bytes", "asked_bytes"), 1 << 40) | {"error_bytes": 0}
    builder.row("allocation_stacks", 20, PID, **(reserved | size))
    case = Case(builder.open())
    assert [one.line for one in allocations(case.growth, case.growth.processes[0])] == [5]
