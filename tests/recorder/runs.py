"""Runs of ``leakscope record`` for the tests, and what they left in the journal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from leakscope.agent.journal import read_blocks

PYTHON = sys.executable
ROOT = Path(__file__).resolve().parents[2]
TIMEOUT_S = 120.0  # what takes longer hangs: on a machine with forty busy programs a start takes half a minute
# Needs LEAKSCOPE_STRESS. One signal only: a second would come in the middle of the words on the first. The thread that
# it comes to is the agent's, unless it needs the job's.
CRASHES_IN_A_TAKE = """
import signal, sys, threading
sys.setswitchinterval(1e-5)
def watch():
    while True:
        for thread, frame in sys._current_frames().items():
            while frame is not None:
                if frame.f_code.co_filename.endswith(("/agent/snapshots/plain.py", "/agent/snapshots/exact.py")):
                    return signal.pthread_kill(thread, signal.SIGSEGV)
                frame = frame.f_back
threading.Thread(target=watch, daemon=True).start()
kept = [[i] for i in range(100_000)]
while True:
    sum(range(100))
"""
# Without pyarrow the journal is kept, as it is on a node that only records: then a run is quick and can be looked into.
NO_PYARROW = (
    f"import sys; sys.path.append({str(ROOT)!r}); sys.modules['pyarrow'] = None; "
    "from leakscope.__main__ import main; main()"
)
# And without the reader of the heap graph, as where there is none for the platform.
NO_GRAPH = (
    f"import sys; sys.path.append({str(ROOT)!r}); from leakscope.recorder import staging; listing = staging._listing\n"
    "left_out = ('graph.so', 'allocations.so')\n"
    "def without(agent): return {file: of for file, of in listing(agent).items() if not file.endswith(left_out)}\n"
    "staging._listing = without; "
) + NO_PYARROW


def environment(**changes: str) -> dict[str, str]:
    """The environment of a user, with leakscope importable."""
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("LEAKSCOPE_", "RANK", "PYTHONPATH"))}
    return {**kept, "PYTHONPATH": str(ROOT), **changes}


def record_command(*words: str, finalize: bool = False, graph: bool = True) -> list[str]:
    start = ["-m", "leakscope"] if finalize else ["-I", "-c", NO_PYARROW if graph else NO_GRAPH]
    return [PYTHON, *start, "record", *words]


def record(folder: Path, *words: str, finalize: bool = False, **env: str) -> subprocess.CompletedProcess[str]:
    """Record a command in ``folder`` and wait for its end."""
    return subprocess.run(
        record_command(*words, finalize=finalize),
        cwd=folder,
        env=environment(**env),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_S,
    )


def start(folder: Path, *words: str, **options: Any) -> subprocess.Popen[str]:
    """Begin to record; the first line that the command prints says that it is ready."""
    recorder = subprocess.Popen(
        record_command(*words),
        cwd=folder,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )
    assert recorder.stdout is not None
    assert recorder.stdout.readline(), recorder.communicate()
    return recorder


def rows(journal: Path, table: str) -> list[dict[str, Any]]:
    """The recorder's rows of a table, in the order they were written."""
    found: list[dict[str, Any]] = []
    for segment in sorted(journal.glob("recorder-*.jnl")):
        for name, block in read_blocks(str(segment)):
            found += block if name == table else []
    return found


def until(condition: Callable[[], Any], timeout_s: float = TIMEOUT_S) -> Any:
    """Wait for something that will happen soon; its value."""
    deadline_s = time.monotonic() + timeout_s
    while time.monotonic() < deadline_s:
        if value := condition():
            return value
        time.sleep(0.02)
    raise AssertionError("it did not happen")


def is_running(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
