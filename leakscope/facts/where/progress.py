"""How far a program had come at a moment: the last lines of its functions that were seen to run.

The agent looks at them twice a second, and whoever asks for memory is sampled besides.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np

from ...findings import Idle
from ...storage import Rows
from ...units import FULL, MOST, SOON_S, TOLD_S
from ..calls import IMPORTING, MODULE, Call, called_at, calls_of, function_of, who_asked
from ..code.reading import Reached
from ..growth.processes import ProcessGrowth
from ..remembered import remembered
from ..series.arithmetic import Floats, level_at
from ..tables import cells, figures, only
from .allocations import ARENAS, TABLE


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


def seen_in_all(process: ProcessGrowth, takes: Collection[int]) -> list[Call]:
    """Lines that were seen to run before each of some snapshots, an inner one before those that called it."""
    rows = process.rows("takes")
    rows = only(rows, np.isin(figures(rows, "take"), list(takes)) & rows["seen_lines"].notna()) if len(rows) else rows
    seen = [calls_of(lines) for (lines,) in cells(rows, "seen_lines")]
    return [call for call in seen[-1] if all(call in others for others in seen)] if len(seen) == len(takes) else []


class Asked(NamedTuple):
    """What one stack asked for between two tellings. ``gained``: more of it is alive. ``own``: the user's innermost.

    **Units** bytes; ``asked`` is freed or not.
    """

    since_s: float
    until_s: float
    calls: tuple[Call, ...]
    own: Call
    gained: float
    asked: float


def passed_s(process: ProcessGrowth, idle: Idle) -> float | None:
    """When the program had gone on from the line that read it last; None: it was not seen to.

    Who asks for memory is told every few seconds. Within those the curve shows it: what later lines asked for has come
    since the last moment at which the process held less than it did without that; or more than it ever did later, where
    that is what the line itself asked for and let go of.
    """
    if idle.file is None or idle.line is None:
        return idle.since_s
    name, asked = idle.function and idle.function.rpartition(".")[2], asked_in_turn(process)
    inside = [one for one in asked if _line_in(one, idle.file, name) is not None]
    last_s = max((one.until_s for one in inside if _line_in(one, idle.file, name) == idle.line), default=0.0)
    left_s = max((one.until_s for one in inside), default=float("inf"))
    later = [one for one in asked if _is_past(_line_in(one, idle.file, name), idle.line, one, last_s, left_s)]
    if not later:
        return _seen_past_s(process, idle, name) or (left_s if inside else None)
    until_s = min(one.until_s for one in later)
    begin_s = max(one.since_s for one in later if one.until_s == until_s)
    gained = sum(one.gained for one in later if one.until_s == until_s)
    time_s, held = process.time_s, process.held_bytes
    within = (time_s >= begin_s) & (time_s <= until_s)
    if not within.any():
        return until_s
    own = [one for one in inside if one.until_s == until_s and _line_in(one, idle.file, name) == idle.line]
    most, freed = held[time_s > until_s].max(initial=0.0), sum(one.asked - max(0.0, one.gained) for one in own)
    is_its_peak = freed >= MOST * (held[within].max() - most) > 0
    is_before = (held < held[within][-1] - FULL * max(0.0, gained)) | (is_its_peak & (held > most))
    before = np.flatnonzero(within & is_before)
    return float(time_s[min(before[-1] + 1, time_s.size - 1)]) if before.size else float(time_s[within][0])


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
    return Asked(time_s, time_s, *_called(*calls), float(size), float(size))


_CALLS = ("stack", "owner_file", "owner_line", "function")


def _called(stack: str, file: str, line: float, function: str | None) -> tuple[tuple[Call, ...], Call]:
    return calls_of(stack), Call(file, int(line), function_of(function or MODULE))


@remembered
def asked_in_turn(process: ProcessGrowth) -> list[Asked]:
    """What asked for memory, telling by telling."""
    rows = process.rows(TABLE)
    rows = only(rows, rows["owner_file"].notna() & rows["owner_line"].notna()) if len(rows) else rows
    if not len(rows):
        return []
    called = {calls[0]: _called(*calls) for calls in cells(rows.drop_duplicates("stack"), *_CALLS)}
    times = np.unique(figures(rows, "time_s")).tolist()
    before = dict(zip(times, [0.0, *times]))
    found = []
    for stack, own in rows.groupby("stack"):
        at_s, looks = np.unique(figures(own, "time_s"), return_inverse=True)
        asked, live = (np.bincount(looks, np.nan_to_num(figures(own, name))) for name in ("asked_bytes", "live_bytes"))
        more, gained = np.diff(np.maximum.accumulate(asked), prepend=0.0), np.diff(live, prepend=0.0)
        told = zip(at_s.tolist(), more.tolist(), gained.tolist())
        found += [(stack, time_s, one, kept) for time_s, one, kept in told if one > 0]
    return [
        Asked(before[time_s], time_s, *called[stack], gained, asked)
        for stack, time_s, asked, gained in sorted(found, key=lambda one: one[1])
    ]


class Had(NamedTuple):
    """What a line of the user's had at a peak. ``asked_in``: what it called, and its function; infinite ``bytes`` are
    not known.
    """

    call: Call
    asked_in: str
    bytes: float


def kept_since(process: ProcessGrowth, since_s: float, at_s: float, least_bytes: float) -> Had | None:
    """Who asked for most of what came between two moments and is alive; None: it has less than ``least_bytes``.

    What was freed after the second, as the program ended, was there then.
    """
    kept: dict[tuple[Call, str], float] = {}
    for one in asked_in_turn(process):
        if one.until_s > since_s and one.since_s < at_s:
            who = one.own, who_asked(one.calls, one.own)
            kept[who] = kept.get(who, 0.0) + (one.gained if one.until_s <= at_s else max(0.0, one.gained))
    most = max(kept, key=kept.__getitem__, default=None)
    return Had(*most, np.inf) if most is not None and kept[most] >= least_bytes else None


def came_with(process: ProcessGrowth, at_s: float, beside_s: float) -> list[Had]:
    """Who had memory at a peak that was not there at another moment, the most first.

    By what samples had alive when all together was most; imports are left out. Where nothing was told of the other
    moment, it is one line, the likeliest, and how much of it is not known.
    """
    rows = process.rows(TABLE)
    if len(rows):  # objects lie in arenas
        rows = only(rows, rows["owner_file"].notna() & rows["owner_line"].notna() & (rows["allocator"] != "objects"))
    time_s = figures(rows, "time_s") if len(rows) else np.empty(0)
    then = _of_peak(rows, time_s, at_s)
    if then is None:
        return []
    times = np.unique(figures(process.rows(TABLE), "time_s"))
    times = times[times <= process.exit_s]
    if not times.size:  # as the program ended, all was freed
        return [Had(*most, np.inf)] if (most := max(then, key=then.__getitem__, default=None)) is not None else []
    held = np.interp(times, process.time_s, process.held_bytes)
    like = times[FULL * held <= level_at(process.time_s, process.held_bytes, beside_s)]
    like = (
        like[[int(np.argmin(abs(like - beside_s)))]] if like.size else times
    )  # at no other peak, or what is always there
    each = [_by_call(only(rows, time_s == one), "live_bytes") for one in like]
    usual = {who: min(alive.get(who, 0.0) for alive in each) for who in then}
    more = (Had(*who, size - usual[who]) for who, size in then.items())
    return sorted((one for one in more if one.bytes > 0), key=lambda one: -one.bytes)


def let_go_of(process: ProcessGrowth, at_s: float) -> list[Had]:
    """Who had what a process keeps free at a moment, the most first: by arenas, and by the last peak of malloc's."""
    rows = process.rows(TABLE)
    rows = only(rows, rows["owner_file"].notna() & rows["owner_line"].notna()) if len(rows) else rows
    told_s = figures(rows, "time_s") if len(rows) else np.empty(0)
    if not (told_s <= at_s).any():
        return []
    rows = only(rows, told_s == told_s[told_s <= at_s].max())
    had = _by_call(only(rows, rows["allocator"] == ARENAS), "live_bytes")
    for who, size in _by_call(only(rows, rows["allocator"] == "malloc"), "peak_bytes").items():
        had[who] = max(had.get(who, 0.0), size)
    return sorted((Had(*who, size) for who, size in had.items()), key=lambda one: -one.bytes)


def _of_peak(rows: Rows, time_s: Floats, at_s: float) -> dict[tuple[Call, str], float] | None:
    """What was alive at the peak of the telling in which a moment lies, or of one whose peak came right after it; None:
    none was told.
    """
    times = np.unique(time_s)
    at = int(np.searchsorted(times, at_s))
    if at == times.size:
        return None
    peak_s = time_s - figures(rows, "peak_ago_s")  # nan where no peak was told
    told = only(rows, (peak_s > 0) & ((time_s == times[at]) | ((peak_s >= at_s) & (peak_s <= at_s + SOON_S))))
    if not len(told):
        return None
    sums = told.sums("time_s", "peak_bytes")
    return _by_call(only(told, told["time_s"] == max(sums, key=sums.__getitem__)), "peak_bytes")


def _by_call(rows: Rows, column: str) -> dict[tuple[Call, str], float]:
    found: dict[tuple[Call, str], float] = {}
    for size, *called in cells(rows, column, *_CALLS):
        calls, own = _called(*called)
        inner = called_at(calls, own.file, own.line)
        if inner is None or not inner.file.startswith(IMPORTING):
            who = own, who_asked(calls, own)
            found[who] = found.get(who, 0.0) + float(size or 0)
    return found
