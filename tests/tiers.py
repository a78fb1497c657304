"""``python -m tests.tiers TIER``: one tier of the tests, by their marks, and a second look at what failed.

A test without a mark is a unit test: it starts no process, which conftest.py sees to. ``judging`` ones, marked there,
judge recordings that are built in code. ``live`` tests start some, ``golden`` ones judge committed recordings.

``slow`` ones take long, and ``further`` ones say of another case what others say: ``make test-all`` alone runs both.
conftest.py marks as ``further`` all but the first n cases of a test marked ``cases(n)``.

Of some hundred real jobs one may starve beside another on a busy machine. What is ``live`` or ``slow`` and failed is
therefore run once more, alone, and named if it passes there; more than 1 in 200 of them is a failure all the same. What
starts no process has no such excuse.

Of the whole of ``make test`` it is known which functions that judge were entered by committed recordings: those that
were not have to be listed (tests/entered.py).
"""

from __future__ import annotations

import re
import sys
from collections.abc import Collection

import pytest

from tests import entered
from tests.pythons import environments

TIERS = {
    "quick": ["-m", "not (judging or live or golden or slow or further or torch)"],
    "test": ["-m", "not (slow or further)"],
    "test-all": [],
}
# Live tests wait for most of their time. Three at once keep two cores busy, and more would starve each other.
# The longest ones, which only `make test-all` has, wait still more.
# Unit tests compute: a third at once would only import everything once more.
_WORKERS = {"quick": 2, "test": 3, "test-all": 4}
AT_ONCE = {tier: ["-n", str(count), "--dist", "loadgroup"] for tier, count in _WORKERS.items()}
ALONE = ["-n", "0"]
ONE_IN = 200
_GROUP = re.compile(r"@[\w-]+$")  # what xdist adds to the names of tests that belong together


class Tally:
    """A pytest plugin: the names of the tests that failed, and of those that may be tried again."""

    def __init__(self) -> None:
        self.failed: list[str] = []
        self.may_starve: set[str] = set()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        name = _GROUP.sub("", report.nodeid)
        if {"live", "slow"} & report.keywords.keys():
            self.may_starve.add(name)
        if report.failed and name not in self.failed:
            self.failed.append(name)


def run(tier: str, arguments: list[str]) -> int:
    """Run a tier; returns the exit status."""
    if tier != "quick":
        print(environments.told(), flush=True)
    first, second, judged = Tally(), Tally(), entered.Tally()
    status = int(pytest.main(["-q", *AT_ONCE[tier], *TIERS[tier], *arguments], plugins=[first, judged]))
    if status == pytest.ExitCode.TESTS_FAILED and set(first.failed) <= first.may_starve:
        print(f"== once more, alone: {len(first.failed)} tests", flush=True)
        status = int(pytest.main(["-q", *ALONE, *first.failed], plugins=[second]))
        starved = [name for name in first.failed if name not in second.failed] if second.may_starve else []
        lines, is_too_often = told(starved, first.may_starve)
        print("\n".join(lines))
        status = status or int(is_too_often)
    if status == pytest.ExitCode.OK and tier == "test" and not arguments and judged.is_whole:
        return _tell_unentered(judged.entered)
    return status


def _tell_unentered(seen: Collection[str]) -> int:
    """Print what is wrong with the list of functions that no recording enters; returns the exit status."""
    lines = entered.told(entered.names(), seen, entered.listed())
    if lines:
        print("\n".join([f"== {entered.LIST.name} is behind what was judged (tests/entered.py)", *lines]))
    return int(bool(lines))


def told(starved: list[str], may_starve: Collection[str]) -> tuple[list[str], bool]:
    """What to say of tests that failed among others and passed alone, and whether they are too many."""
    if not starved:
        return [], False
    is_too_often = len(starved) * ONE_IN > max(ONE_IN, len(may_starve))
    head = f"== failed at first, passed alone: {len(starved)} of {len(may_starve)} live tests"
    return [head + (f", more than 1 in {ONE_IN}" if is_too_often else ""), *starved], is_too_often


if __name__ == "__main__":
    if len(sys.argv) < 2 or sys.argv[1] not in TIERS:
        sys.exit(f"python -m tests.tiers {{{','.join(TIERS)}}} [arguments of pytest]")
    sys.exit(run(sys.argv[1], sys.argv[2:]))
