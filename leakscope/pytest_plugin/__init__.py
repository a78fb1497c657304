"""``@pytest.mark.limit_growth("5MB", warmups=2, repeats=5)``: fails a test that keeps memory each time it runs.

The test's function runs ``warmups + repeats`` times in the same process; what one run keeps more than the run before
is its growth, and the median of the repeats is held against the limit. Above it, as many runs follow, and the test
fails if those are above it, too: a cache that was filling up may be full by then. Fixtures are set up once, not for
each run: what a test adds to a fixture of its own counts as kept. pytest loads this file in every session where
leakscope is installed, so it imports nothing until a test carries the mark.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from ._limit import Limit

_MARK = "limit_growth"
_running = pytest.StashKey[bool]()


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line(
        "markers",
        f"{_MARK}(size, warmups=2, repeats=5): run the test several times in this process; fail if each run keeps more "
        'than size, such as "5MB".',
    )


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """A mark that cannot be obeyed ends the session with one line, before any test has run."""
    for item in items:
        if item.get_closest_marker(_MARK) is not None:
            _limit_of(item)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> object | None:
    """Each run goes through the whole hook again, so that plugins for async tests run theirs."""
    if pyfuncitem.get_closest_marker(_MARK) is None or pyfuncitem.stash.get(_running, False):
        return None
    from ._measure import run_within

    pyfuncitem.stash[_running] = True
    try:
        failure = run_within(
            _limit_of(pyfuncitem), lambda: pyfuncitem.ihook.pytest_pyfunc_call(pyfuncitem=pyfuncitem), pyfuncitem
        )
    finally:
        pyfuncitem.stash[_running] = False
    if failure is not None:
        pytest.fail(failure, pytrace=False)
    return True


def _limit_of(item: pytest.Item) -> Limit:
    from ..errors import BadInput
    from ._limit import parse_limit

    mark = item.get_closest_marker(_MARK)
    assert mark is not None
    try:
        return parse_limit(item, mark)
    except BadInput as error:
        raise pytest.UsageError(f"{item.nodeid}: {_MARK}: {error}") from None
