"""Bare against recorded: which tests end differently, and whether that is timing or ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tests.foreign.runs import Run

EXIT = "(exit status)"
# What a difference is: a recorded run showed an outcome that no bare run showed, each time or now and then.
ALWAYS, SOMETIMES, TIMING = "always", "sometimes", "timing"


class Difference(NamedTuple):
    test: str
    bare: list[str]  # outcomes of every run, in order
    recorded: list[str]
    verdict: str
    message: str = ""


def outcome(run: Run, test: str) -> str:
    return run.status if test == EXIT else run.outcomes.get(test, "absent")


def differing(bare: Run, recorded: Run) -> list[str]:
    """The tests whose outcomes differ. A run without a report (a crash, a hang) differs in its exit status alone."""
    tests = [EXIT]
    if bare.outcomes and recorded.outcomes and bare.status[0].isdigit() and recorded.status[0].isdigit():
        tests += sorted(bare.outcomes.keys() | recorded.outcomes.keys())
    return [test for test in tests if outcome(bare, test) != outcome(recorded, test)]


def judge(bare: Sequence[Run], recorded: Sequence[Run]) -> list[Difference]:
    """Every test that a recorded run ended otherwise than the first bare one. Ours until a bare run does so too."""
    tests = dict.fromkeys(test for run in recorded for test in differing(bare[0], run))
    found = []
    for test in tests:
        usual = [outcome(run, test) for run in bare]
        ours = [run for run in recorded if outcome(run, test) not in usual]
        verdict = TIMING if not ours else ALWAYS if len(ours) == len(recorded) else SOMETIMES
        message = _message(test, ours or recorded, alone=len(tests) == 1)
        found.append(Difference(test, usual, [outcome(run, test) for run in recorded], verdict, message))
    return found


def _message(test: str, runs: Sequence[Run], *, alone: bool) -> str:
    """What failed, or the end of the output of a crash, and of a failure that no test is to blame for."""
    if test != EXIT:
        return next((run.messages[test] for run in runs if test in run.messages), "")
    crashed = next((run for run in runs if not run.status.isdigit()), None)
    return crashed.tail if crashed else runs[0].tail if alone else ""
