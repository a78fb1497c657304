"""After every test: no child process is left, the environment is as it was. And a unit test starts no process at all.

What the marks mean is said in tests/tiers.py.
"""

from __future__ import annotations

import os
import sys
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
_STARTS = {"subprocess.Popen", "os.fork", "os.forkpty", "os.posix_spawn", "os.exec"}


class StartsProcess(Exception):
    """A unit test starts a process: mark it ``live``, or its whole file by ``pytestmark = pytest.mark.live``."""


class _Guard:
    """Keeps unit tests from starting processes, which is what makes them quick and the same everywhere."""

    def __init__(self) -> None:
        self.is_on = False
        sys.addaudithook(self.audit)  # for good: there is no taking it away

    def audit(self, event: str, arguments: tuple[object, ...]) -> None:
        if self.is_on and event in _STARTS:
            raise StartsProcess(f"{StartsProcess.__doc__} ({event} {arguments[:2]})")


_guard = _Guard()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    _guard.is_on = not any(item.get_closest_marker(mark) for mark in _MAY_START)
    try:
        return (yield)
    finally:
        _guard.is_on = False


@pytest.fixture(autouse=True)
def leaves_nothing_behind() -> Iterator[None]:
    """Fails the test that leaves a child process running or changes ``os.environ``."""
    children_before = set(psutil.Process().children(recursive=True))
    environment_before = _environment()
    yield
    left = [child for child in psutil.Process().children(recursive=True) if child not in children_before]
    assert not left, f"the test left child processes: {left}"
    assert _environment() == environment_before, "the test changed os.environ"


def _environment() -> dict[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _PYTESTS_OWN}
