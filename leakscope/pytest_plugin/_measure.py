"""Runs a test again and again and reads after each run what its process holds. Runs in the process of the tests.

What malloc and Python's own allocator have handed out is exact to some kilobytes, and freed memory that an allocator
keeps does not blur it. Libraries that map their own memory show only in the resident set, which wavers: there every
run has to grow to count.
"""

from __future__ import annotations

import gc
import logging
import statistics
from collections.abc import Callable
from typing import NamedTuple

import pytest

from ..agent.native.allocators import Allocators, malloc_in_use_bytes
from ..units import format_bytes
from ._limit import Limit


class _Reading(NamedTuple):
    """``in_use_bytes``: handed out by malloc and Python's allocator, None without glibc; ``resident_bytes``: not files,
    None without /proc.
    """

    in_use_bytes: int | None
    resident_bytes: int | None


def run_within(limit: Limit, run: Callable[[], object], item: pytest.Function) -> str | None:
    """Run the test and return why it fails, or None. Whatever the test itself raises goes on its way.

    What grows is run as often again, to see who holds it: only if it grows then as well does it fail.
    """
    readings: list[_Reading] = []
    for _ in range(limit.warmups + limit.repeats):
        _run(run, readings)
    growth = _growth(readings[limit.warmups - 1 :])
    if growth is None:
        pytest.skip("limit_growth cannot read this process's memory: it needs Linux")
    if growth.bytes <= limit.bytes:
        return None
    from ._holders import find_holders

    further: list[_Reading] = []

    def run_further() -> None:
        if not further:
            further.append(_read())
        _run(run, further)

    holders = find_holders(run_further, limit.repeats, growth.bytes, item)
    runs = ", ".join(format_bytes(value, signed=True) for value in growth.each)
    said = [f"{limit.repeats} runs after {limit.warmups} warm-ups, {growth.what}: {runs}"]
    later = _growth(further) if len(further) > limit.repeats else None  # None: one of them failed
    if later is not None:
        if later.bytes <= limit.bytes:
            return None  # a cache that was filling up, and is full
        each = ", ".join(format_bytes(value, signed=True) for value in later.each)
        said.append(f"{limit.repeats} runs after those, {later.what}: {each}")
    return "\n".join([f"each run keeps {format_bytes(growth.bytes)}, the limit is {limit.text}", *said, *holders])


def _run(run: Callable[[], object], readings: list[_Reading]) -> None:
    run()
    _forget_logs()
    readings.append(_read())


class _Growth(NamedTuple):
    bytes: float
    each: list[int]
    what: str


def _growth(readings: list[_Reading]) -> _Growth | None:
    """The larger of both views; None where neither can be had."""
    in_use = _differences([reading.in_use_bytes for reading in readings])
    resident = _differences([reading.resident_bytes for reading in readings])
    found = []
    if in_use:
        found.append(_Growth(statistics.median(in_use), in_use, "memory in use"))
    if resident:
        found.append(_Growth(float(min(resident)), resident, "resident memory"))
    return max(found, key=lambda growth: growth.bytes, default=None)


def _differences(values: list[int | None]) -> list[int]:
    known = [value for value in values if value is not None]
    return [after - before for before, after in zip(known, known[1:])] if len(known) == len(values) else []


def _read() -> _Reading:
    gc.collect()  # garbage in cycles is not kept, only not yet gone
    malloc = malloc_in_use_bytes()
    small = Allocators().figures()["pymalloc_in_use_bytes"]  # None where Python runs on malloc alone
    return _Reading(None if malloc is None else malloc + (small or 0), _resident_bytes())


def _resident_bytes() -> int | None:
    try:
        with open("/proc/self/status", encoding="ascii", errors="replace") as stream:
            fields = dict(line.split(":", 1) for line in stream if line.startswith(("RssAnon:", "RssShmem:")))
    except OSError:
        return None
    return sum(int(text.split()[0]) * 1024 for text in fields.values()) if fields else None


def _forget_logs() -> None:
    """pytest keeps every log record of a test, with the objects in its arguments: that is not the test's doing."""
    for handler in logging.getLogger().handlers:
        if type(handler).__module__ == "_pytest.logging" and hasattr(handler, "clear"):
            handler.clear()
