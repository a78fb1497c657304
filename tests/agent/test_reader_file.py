"""The library that reads the graph of all objects is loaded while its file can be reached, or later."""

from __future__ import annotations

from pathlib import Path

import pytest

from leakscope.agent.allocations.sampler import LIBRARY as SAMPLER
from leakscope.agent.graph.heap_graph import LIBRARY

from ..heap_graphs import needs_heap_graph
from .staging import AGENT, rows, run, stage

pytestmark = [
    pytest.mark.live,
    needs_heap_graph,
]

UNTIL_IT_IS_TOLD = """
import glob, os, sys, time
from leakscope.agent.journal import read_blocks
journal, given, taken = sys.argv[1:]
def is_told(table, **columns):
    blocks = [block for name in glob.glob(journal + "/agent-*.jnl") for block in read_blocks(name)]
    return any(columns.items() <= row.items() for named, block in blocks for row in block if named == table)
def until(table, **columns):
    ends = time.monotonic() + 60
    while not is_told(table, **columns) and time.monotonic() < ends:
        time.sleep(0.05)
"""
TAKEN_AWAY = UNTIL_IT_IS_TOLD + "os.rename(given, taken); until('heap_graphs')"
BROUGHT_LATER = (
    UNTIL_IT_IS_TOLD + "until('agent_notes', note='no-heap-graph'); os.rename(given, taken); until('heap_graphs')"
)
OFTEN = {"LEAKSCOPE_STRESS": "0.2", "PYTHONPATH": str(AGENT.parents[1])}


def library(journal: Path) -> Path:
    return journal / "agent" / "graph" / LIBRARY


def test_a_job_may_put_the_file_out_of_reach_before_the_first_snapshot(tmp_path: Path) -> None:
    """As one does that changes its root."""
    journal = stage(tmp_path)
    done = run(journal, "-c", TAKEN_AWAY, str(journal), str(journal / "agent"), str(tmp_path / "elsewhere"), **OFTEN)
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(journal)
    assert found["heap_graphs"]
    assert "no-heap-graph" not in {row["note"] for row in found["agent_notes"]}


def test_a_file_that_cannot_be_loaded_now_is_tried_again(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    whole = library(journal).rename(tmp_path / "whole")
    library(journal).write_bytes(b"")
    done = run(journal, "-c", BROUGHT_LATER, str(journal), str(whole), str(library(journal)), **OFTEN)
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(journal)
    assert found["heap_graphs"]
    (said,) = [row["text"] for row in found["agent_notes"] if row["note"] == "no-heap-graph"]
    assert "too short" in said


def test_a_file_that_was_never_built_is_missed_once(tmp_path: Path) -> None:
    journal = stage(tmp_path)
    library(journal).unlink()
    done = run(journal, "-c", "import time; time.sleep(3)", **OFTEN)
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(journal)
    assert len(found["takes"]) > 1 and "heap_graphs" not in found
    (said,) = [row["text"] for row in found["agent_notes"] if row["note"] == "no-heap-graph"]
    assert said == "it was installed without a C compiler"


def test_libraries_of_another_machine_are_told_as_such(tmp_path: Path) -> None:
    """The loader says of them that there is no such file."""
    journal = stage(tmp_path)
    for file in (library(journal), journal / "agent" / "allocations" / SAMPLER):
        data = bytearray(file.read_bytes())
        data[18:20] = (243).to_bytes(2, "little")
        file.write_bytes(data)
    done = run(journal, "-c", "import time; time.sleep(3)", **OFTEN)
    assert (done.returncode, done.stderr) == (0, "")
    said = {row["note"]: row["text"] for row in rows(journal)["agent_notes"]}
    for note in ("no-heap-graph", "no-allocation-samples"):
        assert said[note].startswith("leakscope was installed for riscv64, and this Python is of "), said
