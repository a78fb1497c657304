"""A Python in which the agent does not begin says so in the recording, and runs its program as ever."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from leakscope.agent import refusal
from leakscope.agent.journal import read_blocks

from .staging import run, stage

pytestmark = pytest.mark.live


def refused(journal: Path) -> list[dict[str, Any]]:
    return [row for file in journal.glob("refused-*.jnl") for _, rows in read_blocks(str(file)) for row in rows]


def as_another(tmp_path: Path, made_so: str) -> list[dict[str, Any]]:
    """What is written down by an interpreter that says of itself what ``made_so`` makes it say."""
    journal = stage(tmp_path)
    boot = journal / "boot" / "sitecustomize.py"
    boot.write_text(f"import sys\n{made_so}\n" + boot.read_text())
    done = run(journal, "-c", "print('done')")
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    assert not list(journal.glob("agent-*.jnl"))
    return refused(journal)


@pytest.mark.parametrize(
    ("made_so", "said"),
    [
        ("sys.implementation.name = 'pypy'", "it runs in pypy, "),
        ("sys._is_gil_enabled = lambda: False", "its Python is free-threaded: "),
        ("sys.getobjects = lambda *_: []", "its Python keeps a list of all objects "),
        ("sys.modules['_ctypes'] = None", "the agent could not begin: ModuleNotFoundError: "),
    ],
    ids=["another", "free-threaded", "traced", "without ctypes"],
)
def test_the_reason_is_written_down(tmp_path: Path, made_so: str, said: str) -> None:
    (row,) = as_another(tmp_path, made_so)
    assert row["note"] == refusal.NOTE
    assert row["text"].startswith(said)


@pytest.mark.skipif(shutil.which("pypy3") is None, reason="no pypy3")
def test_pypy_writes_it_down(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    done = run(journal, "-c", "print('done')", python=str(shutil.which("pypy3")))
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")
    (row,) = refused(journal)
    assert row["text"].startswith("it runs in pypy, ")
