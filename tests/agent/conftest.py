from __future__ import annotations

from collections.abc import Iterator

import pytest

from .forks import Forks

_made: Forks | None = None


@pytest.fixture(scope="module")  # made before it is looked which children a test leaves
def forks(tmp_path_factory: pytest.TempPathFactory) -> Forks:
    """Runs programs with torch; tests that ask for it share an ``xdist_group``."""
    global _made
    if _made is None:
        _made = Forks(tmp_path_factory.mktemp("forks"))
    return _made


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> Iterator[None]:
    """It ends with the last that asks for it: a child of the tests is a process of the recorders that others try."""
    global _made
    yield
    if _made is not None and "forks" not in getattr(nextitem, "fixturenames", ()):
        _made.close()
        _made = None
