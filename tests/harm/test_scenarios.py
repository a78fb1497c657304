"""Do no harm: what a program with torch can observe of itself is the same with the agent inside.

All scenarios run in one process bare and in one with the agent, since importing torch is what takes the time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from leakscope.agent.graph.heap_graph import LIBRARY

from ..agent.staging import rows, run, stage

pytestmark = [pytest.mark.torch, pytest.mark.slow]
PROGRAM = str(Path(__file__).with_name("scenarios.py"))
COMPILED = ["compiled"]
# Read, not imported: that would bring torch into every worker, and into the heap that other tests look at.
_NAMES = re.findall(r"^@scenario\ndef (\w+)\(", Path(PROGRAM).read_text("utf-8"), re.MULTILINE)
OTHERS = [name for name in _NAMES if name not in COMPILED]
LIMIT_S = 600.0  # of one process: among many others it gets a tenth of a processor
_LOG_STAMP = re.compile(r"\b[EWI]\d{4} \d\d:\d\d:\d\d\.\d+ \d+")  # date, time and process id in torch's own log


class Outcome(NamedTuple):
    """What one program did. ``tables``: what the agent wrote; empty without it."""

    status: int
    answers: dict[str, Any]
    stderr: str
    tables: dict[str, list[dict[str, Any]]]


def outcome(done: subprocess.CompletedProcess[str], tables: dict[str, Any]) -> Outcome:
    answers = json.loads(done.stdout) if done.stdout else {}
    return Outcome(done.returncode, answers, _LOG_STAMP.sub("", done.stderr), tables)


def bare(*arguments: str) -> Outcome:
    done = subprocess.run([sys.executable, "-W", "always", *arguments], capture_output=True, text=True, timeout=LIMIT_S)
    return outcome(done, {})


def with_agent(folder: Path, *arguments: str, graph: bool = True) -> Outcome:
    """Not ``graph``: as where there is no reader of it for the platform."""
    journal = stage(folder)
    if not graph:
        (journal / "agent" / "graph" / LIBRARY).unlink()
    return outcome(run(journal, "-W", "always", *arguments), rows(journal))


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> tuple[Outcome, Outcome]:
    return bare(PROGRAM, *OTHERS), with_agent(tmp_path_factory.mktemp("agent"), PROGRAM, *OTHERS)


@pytest.fixture(scope="module")
def in_python(tmp_path_factory: pytest.TempPathFactory) -> Outcome:
    return with_agent(tmp_path_factory.mktemp("in_python"), PROGRAM, *OTHERS, graph=False)


def answers_alike(name: str, without: Outcome, with_it: Outcome) -> None:
    assert without.status == 0, without.stderr
    assert with_it.status == 0, with_it.stderr
    assert not str(without.answers[name]).startswith("failed with"), without.answers[name]
    assert with_it.answers[name] == without.answers[name]


def agent_did_look(with_it: Outcome) -> None:
    """Otherwise the answers prove nothing: no take was missed, and none failed half way."""
    takes = with_it.tables["takes"]
    assert {"pending-call", "optimizer-step"} <= {t["safe_point"] for t in takes}
    assert len(takes) >= 2 * len(with_it.answers)
    bad = ("failed", "take-interrupted", "take-skipped")
    texts = [n["text"] for n in with_it.tables["agent_notes"] if n["note"] in bad]
    # By the schedule none is made while torch is imported, which takes long on a busy machine: none that was asked for.
    assert not [text for text in texts if "while modules are imported" not in text]


@pytest.mark.parametrize("name", OTHERS)
def test_a_program_observes_the_same(name: str, both: tuple[Outcome, Outcome]) -> None:
    answers_alike(name, *both)


@pytest.mark.parametrize("name", OTHERS)
def test_it_does_so_without_the_graph(name: str, both: tuple[Outcome, Outcome], in_python: Outcome) -> None:
    answers_alike(name, both[0], in_python)
    assert "heap_graphs" not in in_python.tables


def test_nothing_more_is_said_on_stderr(both: tuple[Outcome, Outcome], in_python: Outcome) -> None:
    without, with_it = both
    assert in_python.stderr == with_it.stderr == without.stderr


def test_the_agent_did_look_each_time(both: tuple[Outcome, Outcome], in_python: Outcome) -> None:
    agent_did_look(both[1])
    agent_did_look(in_python)


def test_a_compiled_program_observes_the_same(tmp_path: Path) -> None:
    without, with_it = bare(PROGRAM, *COMPILED), with_agent(tmp_path, PROGRAM, *COMPILED)
    answers_alike("compiled", without, with_it)
    assert with_it.stderr == without.stderr
    agent_did_look(with_it)


def test_a_recorded_program_prints_what_it_always_did(tmp_path: Path) -> None:
    """The whole way, recorder and all, and every warning would be its end."""
    output = tmp_path / "run.parquet"
    record = [sys.executable, "-m", "leakscope", "record", "-q", "-o", str(output), "--"]
    command = [sys.executable, "-W", "error", PROGRAM, "loss_curve", "loader_workers"]
    without = subprocess.run(command, capture_output=True, text=True)
    with_it = subprocess.run([*record, *command], capture_output=True, text=True)
    assert (with_it.returncode, with_it.stdout, with_it.stderr) == (without.returncode, without.stdout, without.stderr)
    assert output.exists()


STEADY = f"""
import resource, sys
sys.path.insert(0, {os.path.dirname(PROGRAM)!r})
import torch
from scenarios import take, take_at_next_step
model = torch.nn.Linear(64, 64)
optimizer = torch.optim.SGD(model.parameters(), 1e-3)
for step in range(10):
    big = [torch.ones(32_000_000) for _ in range(6)]  # 768 MB, gone before the next
    if step % 2 == 0:
        take()
        take_at_next_step()
    model(torch.ones(1, 64)).sum().backward()
    optimizer.step()
    del big
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss)
"""


def test_the_peak_of_memory_is_the_programs_own(tmp_path: Path) -> None:
    program = tmp_path / "steady.py"
    program.write_text(STEADY)
    without = bare(str(program))
    with_it = with_agent(tmp_path, str(program))
    assert len(with_it.tables["takes"]) >= 8
    # Up to 100 bytes an object while who holds what is worked out, and lists of all that is torch's: about 10 MB.
    graph_kib = 100 * max(row["node_count"] for row in with_it.tables["heap_graphs"]) / 1024
    assert with_it.answers <= without.answers * 1.02 + graph_kib
