"""After every test: no child process is left, the environment is as it was. And a unit test starts no process at all.

What the marks mean is said in tests/tiers.py.
"""

from __future__ import annotations

import os
import resource
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import settings

# The same examples on every machine: a run that fails does so for whoever looks into it.
# And no deadline: what an example takes is the machine's business.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")

_PYTESTS_OWN = {"PYTEST_CURRENT_TEST"}
_MAY_START = {"live", "slow"}


_JUDGE = ("tests/analyzers/", "tests/comparing/")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """A test there that has a folder of its own builds a recording in it and judges it: 0.1 s, a thousand times."""
    for item in items:
        if item.nodeid.startswith(_JUDGE) and "tmp_path" in getattr(item, "fixturenames", ()):
            item.add_marker("judging")


@pytest.fixture(autouse=True)
def leaves_nothing_behind(request: pytest.FixtureRequest) -> Iterator[None]:
    """Fails the test that leaves a child process running or changes ``os.environ``, and the unit test that had one."""
    ended_before = _faults_of_ended_children()
    children_before = set(psutil.Process().children(recursive=True))
    environment_before = _environment()
    yield
    left = [child for child in psutil.Process().children(recursive=True) if child not in children_before]
    assert not left, f"the test left child processes: {left}"
    assert _environment() == environment_before, "the test changed os.environ"
    if not any(request.node.get_closest_marker(mark) for mark in _MAY_START):
        assert _faults_of_ended_children() == ended_before, "a unit test started a process: mark it, or its file, live"


def _faults_of_ended_children() -> int:
    """Rises with each child that was waited for. An audit hook would tell at once, and slow down all that is tested."""
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_minflt


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _PYTESTS_OWN}
