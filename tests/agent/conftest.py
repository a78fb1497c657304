from __future__ import annotations

from collections.abc import Iterator

import pytest

from .forks import Forks


@pytest.fixture(scope="module")  # not longer: a child of the tests is a process of the recorders that others try
def forks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Forks]:
    """Runs programs with torch; tests that ask for it share an ``xdist_group``."""
    made = Forks(tmp_path_factory.mktemp("forks"))
    yield made
    made.close()
