"""Keeps the low descriptors for the job while something is imported that opens a file for good. Runs in the job."""

from __future__ import annotations

import os

from ..journal import LEAST_FD


def take_low_ones() -> list[int]:
    """Occupy every low number, so that whatever is opened next gets a high one; ``give_back`` ends it.

    **Cost** 0.1 ms.
    """
    taken = []
    try:
        taken.append(os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC))
        while taken[-1] < LEAST_FD - 1:
            taken.append(os.dup(taken[0]))
    except OSError:  # so many are not allowed: then some must be left to be opened
        give_back(taken)
        return []
    return taken


def give_back(taken: list[int]) -> None:
    for descriptor in taken:
        os.close(descriptor)
