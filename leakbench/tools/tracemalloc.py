"""tracemalloc, as the standard library's documentation shows it: two snapshots, compared by line."""

from __future__ import annotations

import tracemalloc
from pathlib import Path
from typing import Any

from leakbench.answer import LINE, Answer
from leakbench.inside import left_in, running

OFFERS = frozenset({LINE})
REQUIRES = ()
HOW = "two snapshots, at 0.4 and 0.75 of the run, `compare_to(…, 'lineno')`, lines of the program's own"


def command(program: Path, seconds: float, folder: Path) -> list[str]:
    return running(__name__, program, seconds, folder)


def start() -> None:
    tracemalloc.start()


def look(earlier: Any, program: Path) -> Any:
    """A snapshot; of the second look, what was gained since the first."""
    snapshot = tracemalloc.take_snapshot()
    if earlier is None:
        return snapshot
    gained = snapshot.compare_to(earlier, "lineno")
    lines = [(d.traceback[0].filename, d.traceback[0].lineno) for d in gained if d.size_diff > 0]
    return {"lines": [place for place in lines if program.parent.name in place[0]][:10]}


def answer(folder: Path, program: Path) -> Answer:
    return Answer.of(left_in(folder))
