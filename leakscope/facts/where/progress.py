"""How far a program had come at a moment: the last lines of its functions that were seen to run.

The agent looks at them twice a second, and whoever asks for memory is sampled besides.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ...findings import Idle
from ...units import FULL, TOLD_S
from ..calls import MODULE, Call, calls_of, function_of
from ..code.reading import Reached
from ..growth.processes import ProcessGrowth
from ..tables import cells, figures, only
from .allocations import TABLE


def reached(process: ProcessGrowth, at_s: float) -> Reached:
    """Of each function the last line that was seen to run, or by way of which memory had been asked for."""
    rows = process.rows(TABLE)
    if len(rows):
        rows = only(rows, (figures(rows, "time_s") <= at_s + TOLD_S) & rows["stack"].notna())
    found: dict[tuple[str, str | None], int] = {}
    stacks = {stack for (stack,) in cells(rows, "stack")}
    takes = process.rows("takes")
    if len(takes):
        takes = only(takes, (figures(takes, "time_s") <= at_s) & takes["seen_lines"].notna())
        stacks |= {lines for (lines,) in cells(takes, "seen_lines")}
    for stack in stacks:
        for call in calls_of(stack):
            at = call.file, call.name
            found[at] = max(found.get(at, 0), call.line)
    return found


class Asked(NamedTuple):
    """What one stack asked for between two tellings. ``gained``: more of it is alive. ``own``: the user's innermost."""

    since_s: float
    until_s: float
    calls: tuple[Call, ...]
    own: Call
    gained: float


def passed_s(process: ProcessGrowth, idle: Idle, asked: Sequence[Asked]) -> float | None:
    """When the program had gone on from the line that read it last; None: it was not seen to.

    ``asked``: what ``asked_in_turn`` says of the process.

    Who asks for memory is told every few seconds. Within those the curve shows it: what later lines asked for has come
    since the last moment at which the process held less than it did without that.
    """
    if idle.file is None or idle.line is None:
        return None
    name = idle.function and idle.function.rpartition(".")[2]
    inside = [one for one in asked if _line_in(one, idle.file, name) is not None]
    last_s = max((one.until_s for one in inside if _line_in(one, idle.file, name) == idle.line), default=0.0)
    left_s = max((one.until_s for one in inside), default=float("inf"))
    later = [one for one in asked if _is_past(_line_in(one, idle.file, name), idle.line, one, last_s, left_s)]
    if not later:
        return _seen_past_s(process, idle, name)
    until_s = min(one.until_s for one in later)
    begin_s = max(one.since_s for one in later if one.until_s == until_s)
    gained = sum(one.gained for one in later if one.until_s == until_s)
    time_s, held = process.time_s, process.held_bytes
    within = (time_s >= begin_s) & (time_s <= until_s)
    if not within.any():
        return until_s
    less = np.flatnonzero(within & (held < held[within][-1] - FULL * max(0.0, gained)))
    return float(time_s[min(less[-1] + 1, time_s.size - 1)]) if less.size else float(time_s[within][0])


def _line_in(one: Asked, file: str, name: str | None) -> int | None:
    return max((call.line for call in one.calls if (call.file, call.name) == (file, name)), default=None)


def _is_past(at: int | None, line: int, one: Asked, last_s: float, left_s: float) -> bool:
    """Whether it asked behind the line in its function, or elsewhere after the function was last seen."""
    return at > line and one.until_s >= last_s if at is not None else one.since_s >= left_s


def _seen_past_s(process: ProcessGrowth, idle: Idle, name: str | None) -> float | None:
    """By snapshots, each of which says what ran before it."""
    takes = process.rows("takes")
    takes = only(takes, takes["seen_lines"].notna()) if len(takes) else takes
    for time_s, lines in cells(takes, "time_s", "seen_lines"):
        seen = (call.line for call in calls_of(lines) if (call.file, call.name) == (idle.file, name))
        if max(seen, default=0) > (idle.line or 0):
            return float(time_s)
    return None


def last_large(process: ProcessGrowth, since_s: float) -> Asked | None:
    """The largest piece that was asked for after a moment, of those that were written down at once."""
    rows = process.rows("large_requests")
    rows = only(rows, rows["owner_file"].notna() & (figures(rows, "time_s") >= since_s)) if len(rows) else rows
    most = max(cells(rows, "size_bytes", "time_s", *_CALLS), default=None)
    if most is None:
        return None
    size, time_s, *calls = most
    return Asked(time_s, time_s, *_called(*calls), gained=float(size))


_CALLS = ("stack", "owner_file", "owner_line", "function")


def _called(stack: str, file: str, line: float, function: str | None) -> tuple[tuple[Call, ...], Call]:
    return calls_of(stack), Call(file, int(line), function_of(function or MODULE))


def asked_in_turn(process: ProcessGrowth) -> list[Asked]:
    """What asked for memory, telling by telling."""
    rows = process.rows(TABLE)
    rows = only(rows, rows["owner_file"].notna()) if len(rows) else rows
    called = {calls[0]: _called(*calls) for calls in cells(rows, *_CALLS)}
    times = np.unique(figures(rows, "time_s")) if len(rows) else np.empty(0)
    before = dict(zip(times.tolist(), [0.0, *times.tolist()]))
    known: dict[str, tuple[float, float]] = {}
    found = []
    by_time = rows.groupby("time_s") if len(rows) else ()
    for time_s, (_, told) in zip(times.tolist(), by_time):
        sums = told.groupby("stack")[["asked_bytes", "live_bytes"]].sum()
        for stack, asked, live in zip(sums.index, sums["asked_bytes"].tolist(), sums["live_bytes"].tolist()):
            asked_before, live_before = known.get(stack, (0.0, 0.0))
            if asked > asked_before:
                found.append(Asked(before[float(time_s)], float(time_s), *called[stack], live - live_before))
            known[stack] = max(asked, asked_before), live
    return found
