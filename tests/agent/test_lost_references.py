"""The C function that loses references to None, found by watching calls for a moment: only where that was asked for."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from .staging import rows, run, stage

pytestmark = [
    pytest.mark.live,
    pytest.mark.skipif(sys.version_info >= (3, 12), reason="None lives for ever"),
]

LIBRARY = """
extern void Py_DecRef(void *); extern void Py_IncRef(void *); extern char _Py_NoneStruct;
void *parse(void *self, void *text) { Py_DecRef(&_Py_NoneStruct); Py_IncRef(text); return text; }
void *reset(void *self, void *text) { return &_Py_NoneStruct; }
"""

PROGRAM = """
import ctypes, json, sys, time

class Method(ctypes.Structure):
    _fields_ = [("name", ctypes.c_char_p), ("at", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_void_p)]

library = ctypes.PyDLL(sys.argv[1])
new = ctypes.pythonapi.PyCFunction_NewEx
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_void_p, ctypes.py_object]
functions = {b"parse": library.parse, b"reset": library.reset}
methods = [Method(name, ctypes.cast(one, ctypes.c_void_p).value, 8) for name, one in functions.items()]
parse, reset = (new(ctypes.addressof(method), None, "messages") for method in methods)
kept, seen, ends = [None] * 100_000, [], time.monotonic() + 9
while time.monotonic() < ends:
    reset(b"")
    parse(b"1,2")
    seen.append(json.dumps({"name": None}))
    if len(seen) > 100:
        seen.clear()
    time.sleep(0.001)
for _ in range(100_000):
    ctypes.pythonapi.Py_IncRef(ctypes.py_object(None))
print(sys.getprofile(), sys.getrecursionlimit())
"""


@pytest.fixture
def program(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "messages.c").write_text(LIBRARY)
    library = tmp_path / "messages.so"
    subprocess.run(["gcc", "-shared", "-fPIC", "-o", str(library), str(tmp_path / "messages.c")], check=True)
    (tmp_path / "program.py").write_text(PROGRAM)
    return str(tmp_path / "program.py"), str(library)


def test_every_call_of_those_that_lose_some_is_seen_to_lose_one(tmp_path: Path, program: tuple[str, ...]) -> None:
    journal = stage(tmp_path, probe=True)
    done = run(journal, *program)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == f"None {sys.getrecursionlimit()}\n"  # as it was before
    found = rows(journal)["lost_references"]
    total, *functions = found
    assert "function" not in total or total["function"] is None
    losing = {row["function"]: row for row in functions if row["losing_count"] >= 0.95 * row["call_count"]}
    assert set(losing) == {"messages.parse", "messages.reset"}
    assert [losing[f"messages.{name}"]["line"] for name in ("reset", "parse")] == [15, 16]
    assert losing["messages.parse"]["call_count"] > 20


def test_nobody_watches_who_was_not_asked(tmp_path: Path, program: tuple[str, ...]) -> None:
    journal = stage(tmp_path)
    run(journal, *program)
    assert "lost_references" not in rows(journal)
