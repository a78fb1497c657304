"""By processes of this computer: what needs no cluster, and nothing installed."""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ..errors import LeakscopeError


def run(function: Callable[[Any], Any], items: Sequence[Any], count: int, address: str | None) -> Iterator[Any]:
    """Of one item, or by one worker, in this process."""
    if count == 1:
        yield from map(function, items)
        return
    context = multiprocessing.get_context("forkserver")  # pyarrow has threads, which a fork would not survive
    whose = getattr(function, "func", function)  # a partial has no module of its own
    context.set_forkserver_preload([whose.__module__])  # what it imports is loaded once, not in each worker
    with ProcessPoolExecutor(count, mp_context=context) as pool:
        try:
            yield from pool.map(function, items)
        except BrokenProcessPool:
            pool.shutdown(wait=False, cancel_futures=True)
            raise LeakscopeError(
                f"one of {count} processes that read recordings was killed, perhaps for memory: try fewer --workers"
            ) from None
