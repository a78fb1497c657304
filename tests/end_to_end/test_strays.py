"""What no name leads to, in real programs: cycles that gc.freeze() hides, a C extension that keeps references, pools
that few survivors pin."""

from __future__ import annotations

import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path
from typing import Any

import pytest

from ..heap_graphs import needs_heap_graph
from .programs import record_and_report

pytestmark = [
    pytest.mark.slow,
    needs_heap_graph,
]

FROZEN = """
import gc, time

class Child:
    def __init__(self, owner):
        self.owner = owner
        self.blob = bytes(3000)

class Node:
    def __init__(self):
        self.child = Child(self)

def main():
    for _ in range(130):
        for _ in range(300):
            Node()
        gc.freeze()
        time.sleep(0.1)

main()
"""
EXTENSION = """
#define PY_SSIZE_T_CLEAN
#include <Python.h>
static PyObject *digest(PyObject *self, PyObject *of)
{
    PyObject *made = PyBytes_FromStringAndSize(NULL, 200);
    Py_XINCREF(made); /* the reference that nobody drops */
    return made;
}
static PyObject *entry(PyObject *self, PyObject *of)
{
    PyObject *made = Py_BuildValue("{s:O,s:[OO]}", "key", of, "pair", of, of);
    Py_XINCREF(made);
    return made;
}
static PyObject *lose(PyObject *self, PyObject *of)
{
    Py_DECREF(Py_None); /* which it does not own */
    Py_RETURN_NONE;
}
static PyObject *note(PyObject *self, PyObject *of)
{
    Py_INCREF(of); /* as if it were kept */
    Py_RETURN_NONE;
}
static PyObject *fine(PyObject *self, PyObject *of)
{
    Py_RETURN_NONE;
}
static PyMethodDef methods[] = {{"digest", digest, METH_O, ""}, {"entry", entry, METH_O, ""},
                                {"lose", lose, METH_O, ""}, {"note", note, METH_O, ""},
                                {"fine", fine, METH_O, ""}, {NULL}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "drip", "", -1, methods};
PyMODINIT_FUNC PyInit_drip(void) { return PyModule_Create(&module); }
"""
CALLS = """
import time
import drip

def main():
    for batch in range(130):
        for number in range(1500):
            drip.{name}(number)
        time.sleep(0.1)

main()
"""
TALLY = """
import time
import weakref
import drip

class Session:
    def __init__(self, number):
        self.number = number
        self.user = self.closed_at = None

def main():
    kept = [Session(number) for number in range(2000)]
    queue = [(number, None, None) for number in range(60000)]
    slots = [None] * 100000
    spare = [None] * 20000
    drip.note(spare)  # lives for ever: without its references Python would abort as it ends
    for batch in range(130):
        for session in kept[::100]:
            drip.{name}(session)
            drip.{name}(session)
        del queue[-400:]  # each of these lets go of None, as does a slot that is filled
        slots[batch * 50:batch * 50 + 50] = range(50)
        one = kept[batch]
        weakref.finalize(one, print)  # classes that are set have their lookups made anew
        Session.latest = batch
        time.sleep(0.1)

main()
"""
PINNED = """
import time

def shape(count):
    return type("Token%d" % count, (), {"__slots__": tuple("field%d" % n for n in range(count))})

class Index:
    def __init__(self):
        self.anchors = []

    def parse(self, cls, count):
        tree = [cls() for _ in range(count)]
        self.anchors.extend(tree[::50])

def main():
    index = Index()
    for count in range(4, 56):
        index.parse(shape(count), 9_000_000 // (32 + 8 * count))
        time.sleep(0.4)

main()
"""
LINES = """
import time

SESSIONS = {}

def remember(lines, batch):
    for number in range(0, len(lines), 120):
        SESSIONS[lines[number]] = batch

def main():
    for batch in range(52):
        length = 8 * batch + 16
        count = 9_000_000 // (length + 60)
        remember([("%08d" % number).ljust(length, ".") for number in range(count)], batch)
        time.sleep(0.4)

main()
"""


def first(folder: Path, program: str) -> dict[str, Any]:
    path = folder / "program.py"
    path.write_text(program)
    finding: dict[str, Any] = record_and_report(path, folder)["findings"][0]
    return finding


def test_frozen_cycles(tmp_path: Path) -> None:
    finding = first(tmp_path, FROZEN)
    assert finding["kind"] == "cyclic-garbage"
    assert finding["subject"]["type"] in ("Node", "Child") and "gc.freeze()" in finding["title"]
    assert finding["bytes"] > 60_000_000


@pytest.fixture
def extension(tmp_path: Path) -> None:
    compiler = shutil.which("gcc")
    header = Path(sysconfig.get_paths()["include"], "Python.h")
    if compiler is None or not header.exists():
        pytest.skip("no compiler, or no header of Python's")
    (tmp_path / "drip.c").write_text(EXTENSION)
    built = [compiler, "-shared", "-fPIC", "-I", str(header.parent), "-o", "drip.so", "drip.c"]
    subprocess.run(built, check=True, cwd=tmp_path)


@pytest.mark.usefixtures("extension")
@pytest.mark.parametrize(("name", "type_name"), [("digest", "bytes"), ("entry", "dict")])
def test_references_that_an_extension_keeps(name: str, type_name: str, tmp_path: Path) -> None:
    finding = first(tmp_path, CALLS.format(name=name))
    assert finding["kind"] == "refcount-drift"
    assert (finding["subject"]["type"], finding["subject"]["library"]) == (type_name, "drip")


@pytest.mark.usefixtures("extension")
@pytest.mark.skipif(sys.version_info >= (3, 12), reason="None is immortal")
def test_references_to_none_that_an_extension_drops(tmp_path: Path) -> None:
    finding = first(tmp_path, TALLY.format(name="lose"))
    assert (finding["kind"], finding["subject"]["type"]) == ("refcount-drift", "NoneType")
    # 40 calls every tenth of a second, or fewer on a busy machine; the program itself lets go of 850 more for each 40.
    assert 100 < finding["evidence"][0]["figures"]["lost_per_s"] < 410


@pytest.mark.usefixtures("extension")
def test_references_to_objects_of_the_users_that_an_extension_keeps(tmp_path: Path) -> None:
    finding = first(tmp_path, TALLY.format(name="note"))
    assert (finding["kind"], finding["subject"]["type"]) == ("refcount-drift", "__main__.Session")
    assert 100 < finding["evidence"][0]["figures"]["kept_per_s"] < 410


@pytest.mark.usefixtures("extension")
def test_an_extension_that_counts_right_is_not_blamed(tmp_path: Path) -> None:
    path = tmp_path / "program.py"
    path.write_text(TALLY.format(name="fine"))
    told = record_and_report(path, tmp_path)
    assert not [finding for finding in told["findings"] if finding["kind"] == "refcount-drift"]
    (ruled_out,) = [one for one in told["ruled_out"] if "references to None" in one["reason"]]
    assert ruled_out["figures"]["last_rest"] == pytest.approx(ruled_out["figures"]["first_rest"], abs=90)


@pytest.mark.parametrize(("program", "variable"), [(PINNED, "anchors"), (LINES, "SESSIONS")])
def test_pools_that_survivors_pin(program: str, variable: str, tmp_path: Path) -> None:
    finding = first(tmp_path, program)
    assert finding["kind"] == "fragmentation"
    assert finding["subject"]["variable"] == variable
    assert "survivors" in finding["title"] and finding["confidence"] >= 0.9
