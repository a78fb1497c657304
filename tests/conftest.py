"""After every test: no child process is left, the environment is as it was."""

from __future__ import annotations

import os
from collections.abc import Iterator

import psutil
import pytest
from hypothesis import settings

# The same examples on every machine: a run that fails does so for whoever looks into it.
# And no deadline: what an example takes is the machine's business.
settings.register_profile("same", derandomize=True, deadline=None)
settings.load_profile("same")

_PYTESTS_OWN = {"PYTEST_CURRENT_TEST"}


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
