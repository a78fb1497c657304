"""A Python in which the agent does not begin says so in the recording, and runs its program as ever."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from leakscope.agent import refusal
from leakscope.agent.journal import read_blocks

from ..harm.interpreters import Interpreter, interpreters
from .staging import run, stage

pytestmark = pytest.mark.live


def refused(journal: Path) -> list[dict[str, Any]]:
    return [row for file in journal.glob("refused-*.jnl") for _, rows in read_blocks(str(file)) for row in rows]


def as_another(tmp_path: Path, made_so: str, program: str = "print('done')") -> list[dict[str, Any]]:
    """What is written down by an interpreter that says of itself what ``made_so`` makes it say."""
    journal = stage(tmp_path)
    boot = journal / "boot" / "sitecustomize.py"
    boot.write_text(f"import sys\n{made_so}\n" + boot.read_text())
    done = run(journal, "-c", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert not list(journal.glob("agent-*.jnl"))
    return refused(journal)


WITHOUT_CTYPES = """
import _imp
create = _imp.create_dynamic
def create_dynamic(spec):
    if spec.name == "_ctypes":
        raise ModuleNotFoundError("No module named '_ctypes'", name="_ctypes")
    return create(spec)
_imp.create_dynamic = create_dynamic
"""


@pytest.mark.parametrize(
    ("made_so", "said"),
    [
        ("sys.implementation.name = 'pypy'", "it runs in pypy, "),
        ("sys.abiflags = 't'", "its Python is free-threaded: "),
        ("sys.getobjects = lambda *_: []", "its Python keeps a list of all objects "),
        (WITHOUT_CTYPES, "the agent could not begin: ModuleNotFoundError: "),
    ],
    ids=["another", "free-threaded", "traced", "without ctypes"],
)
def test_the_reason_is_written_down(tmp_path: Path, made_so: str, said: str) -> None:
    (row,) = as_another(tmp_path, made_so)
    assert row["note"] == refusal.NOTE
    assert row["text"].startswith(said)


COUNTS = """
import sys
count = sys.modules["_leakscope_agent"].count
seen = []
for watch in (sys.setprofile, sys.settrace):
    watch(lambda frame, event, what: seen.append(event))
    count("requests")
    watch(None)
assert not [event for event in seen if event == "call"], seen
print("done")
"""


def test_nobody_who_watches_sees_a_function_of_ours_where_requests_are_counted(tmp_path: Path) -> None:
    assert as_another(tmp_path, "sys.abiflags = 't'", COUNTS)


@pytest.mark.skipif(shutil.which("pypy3") is None, reason="no pypy3")
def test_pypy_writes_it_down(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    done = run(journal, "-c", "print('done')", python=str(shutil.which("pypy3")))
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    (row,) = refused(journal)
    assert row["text"].startswith("it runs in pypy, ")


OLD = next(map(str, Path.home().glob(".pyenv/versions/3.7.*/bin/python")), None) or shutil.which("python3.7")


@pytest.mark.skipif(OLD is None, reason="no Python 3.7")
def test_a_python_that_is_too_old_writes_it_down(tmp_path: Path) -> None:
    """Older ones cannot even read the agent: they stay without a word, and the report says what may be the reason."""
    journal = stage(tmp_path)
    done = run(journal, "-c", "print('done')", python=OLD)
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    (row,) = refused(journal)
    assert row["text"].startswith("its Python is 3.7: ")


REFUSED: list[Any] = [one for one in interpreters() if one.is_refused] or [
    pytest.param(None, marks=pytest.mark.skip(reason="LEAKSCOPE_PYTHONS names no Python that is refused"))
]
THREADS = """
import os, threading, time
pid = os.fork()
if not pid:
    os._exit(0)
os.waitpid(pid, 0)
held = []
def work(end):
    while time.monotonic() < end:
        held.append([0] * 10)
        if not len(held) % 1000:
            time.sleep(0.01)
threads = [threading.Thread(target=work, args=(time.monotonic() + 1,)) for _ in range(4)]
for one in threads:
    one.start()
for one in threads:
    one.join()
print(len(held) > 4)
"""


@pytest.mark.parametrize("lock", ["0", "1"])
@pytest.mark.parametrize("interpreter", REFUSED, ids=str)
def test_a_real_one_writes_it_down(tmp_path: Path, interpreter: Interpreter, lock: str) -> None:
    """Also a free-threaded one that runs with the lock: finalizers ran otherwise there while objects were read."""
    journal = stage(tmp_path)
    environment = {"LEAKSCOPE_STRESS": "0.05", **({"PYTHON_GIL": lock} if "t" in interpreter.flags else {})}
    done = run(journal, "-c", THREADS, python=interpreter.path, **environment)
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
    (row,) = refused(journal)
    assert row["text"].startswith(("its Python is free-threaded: ", "its Python keeps a list of all objects "))
