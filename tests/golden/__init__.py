"""Golden recordings: every program of fixtures/ recorded once, small, committed, each with what its report must say.

They part recording from judging: whatever changes in how recordings are judged is tested on them in a minute, without
a process being started. ``python -m tests.golden`` (``make golden``) makes them anew.
"""

from __future__ import annotations

import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from leakbench import BENCH_PROGRAMS
from leakbench.score import score
from leakscope import analyze
from leakscope.findings import Report
from leakscope.renderers.json import as_dict
from leakscope.storage import open_recording
from tests.end_to_end import truth
from tests.end_to_end.programs import FIXTURES, Place, Program, programs

FOLDER = Path(__file__).parent
RECORDINGS = FOLDER / "recordings"
EXPECTED = FOLDER / "expected"
MOST_BYTES = 16_750_000  # all recordings together: every clone carries them, and every renewal once more

CIRCUMSTANCES = FIXTURES / "circumstances"  # what is seen only under a limit, with options, or after minutes

DEMO = Place("retained-objects", "predictions", "self.predictions.append(logits)")
DEMOS = (
    Program(FIXTURES / "train_leaky.py", (DEMO,), True, requires=("torch",)),
    Program(FIXTURES / "train_clean.py", (), requires=("torch",)),
)


@lru_cache
def golden_programs() -> tuple[Program, ...]:
    """All of fixtures/, its circumstances and its leakbench, and the trainings of the demo."""
    return (*programs(), *DEMOS, *programs(CIRCUMSTANCES), *programs(BENCH_PROGRAMS))


def recording_of(program: Program) -> Path:
    return RECORDINGS / f"{program.name}.parquet"


def expected_of(program: Program) -> Path:
    return EXPECTED / f"{program.name}.json"


@lru_cache
def known_misses() -> dict[str, str]:
    """Programs whose golden recording is misjudged today, by name, with the reason."""
    found: dict[str, str] = json.loads((FOLDER / "misses.json").read_text(encoding="utf-8"))
    return found


def judge(recording: Path) -> dict[str, Any]:
    """The whole report as the JSON contract has it, made in this process."""
    return as_json(analyze(open_recording(recording)))


def as_json(report: Report) -> dict[str, Any]:
    """The same of a report that there is already."""
    values: dict[str, Any] = json.loads(json.dumps(as_dict(report)))
    return values


def told_wrong(program: Program, report: dict[str, Any]) -> str:
    """What the report gets wrong of what is true of its program; empty if nothing."""
    if BENCH_PROGRAMS not in program.path.parents:
        return truth.told_wrong(program, report)
    scored = score(program, report)  # of the bench only the first finding is asked
    return "" if scored.right else f"{report['verdict']['headline']} It says {scored.said}, not {scored.expected}"
