"""One file of a suite, bare and recorded as often as it takes to know: a row of results, and how it is told."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

from tests.foreign import compare, runs
from tests.foreign.suites import Suite, version

SLOWER, GRACE_S = 4.0, 60.0  # a recorded run may take that much longer before it is said to hang
ENOUGH_SNAPSHOTS, ENOUGH_S, MOST_RUNS = 40, 30.0, 4


def examine(
    suite: Suite, python: Path, file: str, *, limit_s: float, again: int = 3, most_runs: int = MOST_RUNS
) -> dict[str, Any]:
    """A row of results. What differs runs ``again`` times more, each way."""
    bare = [runs.run(suite, python, file, recorded=False, limit_s=limit_s)]
    recorded_limit_s = GRACE_S + SLOWER * bare[0].seconds

    def record() -> runs.Run:
        return runs.run(suite, python, file, recorded=True, limit_s=recorded_limit_s)

    recorded: list[runs.Run] = []  # and none, where already the bare run hangs: there is nothing to compare
    while bare[0].status != runs.HUNG and not _is_enough(recorded, most_runs):
        recorded.append(record())
    if any(compare.differing(bare[0], run) for run in recorded):
        for _ in range(again):
            bare.append(runs.run(suite, python, file, recorded=False, limit_s=limit_s))
            recorded.append(record())
    return {
        "date": datetime.date.today().isoformat(),
        "python": version(python),
        "suite": suite.name,
        "file": file,
        "tests": len(bare[0].outcomes),
        "passed": sum(outcome == "passed" or outcome == "ok" for outcome in bare[0].outcomes.values()),
        "status": bare[0].status,
        "bare_s": bare[0].seconds,
        "recorded_s": recorded[0].seconds if recorded else 0.0,
        "snapshots": _snapshots(recorded),
        "differences": [difference._asdict() for difference in compare.judge(bare, recorded)],
    }


def _is_enough(recorded: list[runs.Run], most_runs: int) -> bool:
    """A file that is over within a second is recorded again, to be met at more instants."""
    if not recorded:
        return False
    long = sum(run.seconds for run in recorded) > ENOUGH_S
    return long or len(recorded) >= most_runs or _snapshots(recorded) >= ENOUGH_SNAPSHOTS


def _snapshots(recorded: list[runs.Run]) -> int:
    return sum(run.snapshots for run in recorded)


def line(row: dict[str, Any]) -> str:
    head = f"{row['python']:8} {row['suite']} {row['file']}: {row['tests']} tests, {row['snapshots']} snapshots"
    ended = f", bare exit {row['status']}" if row["status"] != "0" else ""
    times = f"{ended}, {row['bare_s']:.0f} s bare, {row['recorded_s']:.0f} s recorded"
    told = [
        f"\n  {d['verdict'].upper()}: {d['test']}: bare {' '.join(d['bare'])}; recorded {' '.join(d['recorded'])}"
        + "".join(f"\n      {text}" for text in d["message"].splitlines())
        for d in row["differences"]
    ]
    return head + times + "".join(told)
