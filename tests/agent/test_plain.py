"""What is told where the graph of all objects cannot be read: little, and nothing that is not so."""

from __future__ import annotations

import ctypes
import struct
import zlib
from pathlib import Path
from typing import Any

import pytest

from leakscope.agent.interpreter import names

from ..harm.interpreters import Interpreter, interpreters
from .staging import AGENT, holders, rows, run, stage

pytestmark = pytest.mark.live

PROGRAM = """
import time

class Session:
    def __init__(self, number):
        self.text = str(number) * 50

class Store:
    seen = {}

    def __init__(self):
        self.sessions = []
        self.options = {"names": set()}

STORE = Store()

def serve():
    waiting = []
    ends = time.monotonic() + 6
    number = 0
    while time.monotonic() < ends:
        number += 1
        STORE.sessions.append(Session(number))
        STORE.seen[number] = None
        STORE.options["names"].add(f"user {number}")
        waiting.append((number, "waits"))
        time.sleep(0.0001)

serve()
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_containers_a_few_steps_away_have_their_lengths(interpreter: Interpreter, tmp_path: Path) -> None:
    journal = stage(tmp_path)
    (journal / "agent" / "graph" / "libleakscope_graph.so").unlink()
    (tmp_path / "job.py").write_text(PROGRAM)
    done = run(journal, str(tmp_path / "job.py"), python=interpreter.path)
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(journal)
    texts = [note["text"] for note in found["agent_notes"]]
    assert any("installed without a C compiler" in text for text in texts), texts
    assert not any("Error" in text for text in texts), texts
    takes = [take["take"] for take in found["takes"] if take["safe_point"] != "exit"]
    assert len(takes) >= 2
    last = {row["path"]: row for row in holders(found) if row["take"] == takes[-1]}
    sessions, seen, names, waiting = (
        last[path] for path in ("job.STORE.sessions", "job.Store.seen", "job.STORE.options['names']", "serve() waiting")
    )
    lengths = [one["length"] for one in (sessions, seen, names, waiting)]
    assert min(lengths) > 100
    assert max(lengths) - min(lengths) <= 1
    assert (sessions["variable"], sessions["owner"], sessions["member_type"]) == (
        "sessions",
        "Store",
        "__main__.Session",
    )
    assert 300 * lengths[0] < sessions["deep_bytes"] < 900 * lengths[0]
    assert waiting["root_kind"] == "frame"
    counted: dict[str, Any] = {row["type_name"]: row for row in found["object_types"] if row["take"] == takes[-1]}
    if lengths[0] > 1000:
        assert counted["__main__.Session"]["object_count"] == pytest.approx(lengths[0], abs=2)


DEEP = """
import sys, time
from leakscope.agent.journal import read_blocks
import glob

def waiting(one):
    yield one

def chain():
    one = iter([1])
    for _ in range(3000):
        one = waiting(one)
        next(one)
    return one

def is_told():
    blocks = [block for name in glob.glob(sys.argv[1] + "/agent-*.jnl") for block in read_blocks(name)]
    return any(table == "takes" or row["note"] == "failed" for table, rows in blocks for row in rows
               if table in ("takes", "agent_notes"))

kept = chain()
ends = time.monotonic() + 60
while not is_told() and time.monotonic() < ends:
    time.sleep(0.05)
"""


@pytest.mark.parametrize("interpreter", interpreters(), ids=str)
def test_generators_that_hold_each_other_are_followed_a_few_steps(interpreter: Interpreter, tmp_path: Path) -> None:
    journal = stage(tmp_path)
    (journal / "agent" / "graph" / "libleakscope_graph.so").unlink()
    (tmp_path / "job.py").write_text(DEEP)
    often = {"LEAKSCOPE_STRESS": "0.2", "PYTHONPATH": str(AGENT.parents[1])}
    done = run(journal, str(tmp_path / "job.py"), str(journal), python=interpreter.path, **often)
    assert (done.returncode, done.stderr) == (0, "")
    found = rows(journal)
    assert found["takes"]
    assert not [row["text"] for row in found["agent_notes"] if row["note"] == "failed"]


@pytest.mark.parametrize("error", [ctypes.ArgumentError, struct.error, zlib.error])
def test_what_a_library_raises_at_a_call_of_ours_is_not_for_the_job(error: type[Exception]) -> None:
    code: dict[str, Any] = {}
    exec(compile("def call(error): raise error('odd')", names.AGENT + "made.py", "exec"), code)
    with pytest.raises(error) as caught:
        code["call"](error)
    trace = caught.value.__traceback__
    assert trace is not None
    assert not names.is_foreign(caught.value.with_traceback(trace.tb_next))  # without the frame of this test
