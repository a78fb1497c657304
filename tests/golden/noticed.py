"""Which hand-set numbers unit tests notice: those that no recording needs guard a case, or go with their condition.

Each test runs with all numbers that it looks at made infinite, then 0, and where it fails with each half of them, as a
recording is judged in ``sweep``. Tests that run for long are left out. ``noticed.json`` has what was found; a run that
was stopped goes on from it. Half an hour for tests/analyzers on two cores.
"""

from __future__ import annotations

import json
import math
import os
import random
import resource
import time
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from _pytest.runner import runtestprotocol

from . import FOLDER
from .sweep import Outcome, Sweep, results
from .thresholds import thresholds

RESULTS = FOLDER / "noticed.json"
LONGEST_S = 1.5  # of a test that is tried
LONGEST_CPU_S = 3  # with other numbers: one of them may keep a loop going


class OfTests(Sweep):
    """Runs tests with numbers changed. They import what ``Sweep`` has loaded, so it comes before them."""

    def __init__(self) -> None:
        super().__init__()
        self.items: dict[str, pytest.Item] = {}

    def _judged(self, name: str, keys: Collection[str], factor: float) -> tuple[Outcome, frozenset[str]]:
        resource.setrlimit(resource.RLIMIT_CPU, (LONGEST_CPU_S, LONGEST_CPU_S))
        quiet = os.open(os.devnull, os.O_WRONLY)
        os.dup2(quiet, 1)
        os.dup2(quiet, 2)
        self.numbers.change(keys, factor)
        self.numbers.read.clear()
        reports = runtestprotocol(self.items[name], log=False, nextitem=None)
        return (all(one.outcome != "failed" for one in reports),), frozenset(self.numbers.read)

    def told(self, outcome: Outcome) -> str:
        return "passes" if outcome[0] else "fails"

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """The whole run, of whatever pytest has collected, in an order that meets much soon."""
        self.items = {item.nodeid: item for item in session.items}
        present = {one.key: one.text for one in thresholds()}
        found = json.loads(RESULTS.read_text(encoding="utf-8")) if RESULTS.exists() else {}
        matters = {key: row[1] for key, row in found.items() if present.get(key) == row[0]}
        names = random.Random(1).sample(list(self.items), len(self.items))
        for done, name in enumerate(names, 1):
            began = time.monotonic()
            as_is, read = self.outcome(name, (), 1)
            if as_is == (True,) and time.monotonic() - began < LONGEST_S:
                for factor in (math.inf, 0.0):
                    left = sorted((read & present.keys()) - matters.keys() - self.at_loading)
                    matters.update(self.search(name, factor, left, as_is, math.inf))
            if done % 50 == 0 or done == len(names):
                print(f"{done} of {len(names)} tests: {len(matters)} of {len(present)} numbers are noticed", flush=True)
                rows = {key: [present[key], how] for key, how in matters.items()}
                RESULTS.write_text(json.dumps(rows, indent=0) + "\n", encoding="utf-8")
        needed = {key for key, row in results().items() if row["matters"]}
        idle = [f"{key} = {text}" for key, text in present.items() if key not in matters and key not in needed]
        print("\n  ".join(["nothing notices:", *idle]))
        return True


def notice(paths: Sequence[str]) -> Any:
    """Of the tests of these paths."""
    chosen = paths or ["tests/analyzers", "tests/code", "tests/comparing"]
    return pytest.main(["-q", "-p", "no:cacheprovider", "-p", "no:xdist", *chosen], plugins=[OfTests()])
