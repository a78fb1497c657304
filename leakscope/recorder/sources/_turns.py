"""Whose turn it is where each reading is dear: one round must not take seconds because 200 processes are new."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from time import process_time

from ..tree import Process


def in_turn(waiting: Iterable[Process], last_s: Callable[[Process], float], most_s: float) -> Iterator[Process]:
    """Those that waited longest, of these the largest, until what is done with them took ``most_s``; at least one.

    Who does not get his turn waits on, and comes first the next time.
    """
    began_s = process_time()
    for process in sorted(waiting, key=lambda process: (last_s(process), -process.rss_bytes)):
        yield process
        if process_time() - began_s >= most_s:
            return
