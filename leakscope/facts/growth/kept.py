"""What malloc of one process keeps free all the time: freed by the program, still held of the kernel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...storage import Rows
from ...units import LEAST_MAPPED, MOST, SOME
from ..series.arithmetic import Floats
from ..tables import figures, only, text_of
from .processes import ProcessGrowth

_LATE = MOST  # of a process's life: what is kept there is no start that is soon over
_LOW = SOME  # quantile: a buffer that is freed and taken again each second is in use in some of the readings
_LEAST_READINGS = 6
_UNSURE = SOME  # of what malloc says is free
_LEAST_S = 5.0
_PAGE_BYTES = 4096  # a free piece loses about one, half at each of its ends, that stays with its neighbours
FEW_ARENAS = 2  # that MALLOC_ARENA_MAX=2 leaves


class Arenas(NamedTuple):
    """The arenas of malloc in one reading. **Units** bytes.

    ``mostly_free``: arenas of which more is free than in use. ``beyond_two_bytes``: free in all but the two arenas that
    have most. ``whole_page_bytes``: of what is free about so much lies in pages that nothing else is in.
    """

    arena_count: int
    mostly_free: int
    free_bytes: int
    beyond_two_bytes: int
    top_bytes: int
    whole_page_bytes: int
    chunk_count: int

    @property
    def chunk_bytes(self) -> float:
        """Of an average piece."""
        return self.free_bytes / max(self.chunk_count, 1)


class Kept(NamedTuple):
    """``free_bytes``: never less in nine of ten readings of the process's later half; the others are medians there.

    **Units** bytes; seconds since the recording began. ``since_s``: from then on half of ``free_bytes`` was always
    free. ``large_share``: of what was asked for and freed, bytes in buffers of 128 KiB and more, by samples; None where
    there are none. ``library``: what serves malloc in place of libc, None where that does. ``series``: moments, what
    was free, and what was in use.
    """

    free_bytes: int
    held_bytes: int
    in_use_bytes: int
    since_s: float
    start_s: float
    end_s: float
    arenas: Arenas | None
    large_share: float | None
    library: str | None
    series: tuple[Floats, Floats, Floats]

    @property
    def share(self) -> float:
        """Of what the process holds, 0 to 1."""
        return self.free_bytes / max(self.held_bytes, 1)


def kept_by_malloc(process: ProcessGrowth) -> Kept | None:
    """None where malloc was not read, or for too short a time; or where it always said more than there is room for.

    Malloc also counts as free what was trimmed, or never written to: of that it is what is resident and nobody else's.
    """
    rows = process.rows("sentinels")
    at_s, said, in_use, room = free_and_room(process, only(rows, rows["time_s"] <= process.exit_s))
    if len(at_s) < _LEAST_READINGS:
        return None
    held = np.interp(at_s, process.time_s, process.held_bytes)
    late = at_s >= at_s[0] + _LATE * (at_s[-1] - at_s[0])
    if late.sum() < _LEAST_READINGS or at_s[-1] - at_s[late][0] < _LEAST_S:
        return None
    if float(np.median(said[late] - room[late])) > _UNSURE * float(np.median(said[late])):
        others = float((room - said).max())  # so much is not malloc's, by when all of it was resident
        if others < 0:
            return None
        room = room - others
    free = np.minimum(said, np.maximum(0.0, room))
    level = float(np.quantile(free[late], _LOW, method="lower"))
    less = np.flatnonzero(free[: int(np.argmax(late))] < MOST * level)
    return Kept(
        round(level),
        round(float(np.median(held[late]))),
        round(float(np.median(in_use[late]))),
        float(at_s[less[-1] + 1]) if less.size else float(at_s[0]),
        float(at_s[late][0]),
        float(at_s[-1]),
        _arenas(process.rows("malloc_arenas"), float(at_s[late][0]), float(at_s[-1])),
        _large_share(process.rows("allocation_lives")),
        text_of(rows.iloc[-1], "malloc_library"),
        (at_s, free, in_use),
    )


def free_and_room(process: ProcessGrowth, sentinels: Rows) -> tuple[Floats, Floats, Floats, Floats]:
    """When malloc was read, what it said is free and in use, and what is resident of the process beside that."""
    rows = only(sentinels, sentinels["malloc_free_bytes"].notna() & sentinels["malloc_in_use_bytes"].notna())
    at_s, free, in_use = (figures(rows, name) for name in ("time_s", "malloc_free_bytes", "malloc_in_use_bytes"))
    small = _carried(figures(rows, "pymalloc_bytes"))
    room = np.interp(at_s, process.time_s, process.private_bytes) - in_use - small if at_s.size else at_s
    return at_s, free, in_use, room


def _carried(values: Floats) -> Floats:
    """With the last that was read where one was not; 0 before the first."""
    last = np.maximum.accumulate(np.where(np.isnan(values), 0, np.arange(1, values.size + 1)))
    return np.append(0.0, values)[last]


def _large_share(lives: Rows) -> float | None:
    """Of what was in use for a time and is not: memory that malloc may keep."""
    freed = lives["life"][lives["end_order"].notna()]
    begun = only(lives, lives["size_bytes"].notna() & lives["life"].isin(freed))
    if not len(begun):
        return None
    weight, size = (begun[name].to_numpy(dtype=np.float64) for name in ("weight_bytes", "size_bytes"))
    return float(weight[size >= LEAST_MAPPED].sum() / weight.sum())


def _arenas(rows: Rows, start_s: float, end_s: float) -> Arenas | None:
    """Of the readings between two moments the middle one by what is free: the last may be of a program that ends."""
    rows = only(rows, rows["time_s"] <= end_s)
    if not len(rows):
        return None
    late = only(rows, rows["time_s"] >= start_s)
    if len(late):
        by_reading = late.sums("time_mono_ns", "free_bytes")
        reading = sorted(by_reading, key=by_reading.__getitem__)[len(by_reading) // 2]
    else:
        reading = rows["time_mono_ns"].max()
    rows = only(rows, rows["time_mono_ns"] == reading)
    free, system, top, chunks, counts = (
        rows[name].to_numpy(dtype=np.float64)
        for name in ("free_bytes", "system_bytes", "top_bytes", "free_chunk_count", "arena_count")
    )
    single = np.sort(free[rows["arena"].notna().to_numpy()])[::-1]
    return Arenas(
        int(counts.sum()),
        int(counts[free > MOST * system].sum()),
        round(float(free.sum())),
        round(float(free.sum() - single[:FEW_ARENAS].sum())),
        round(float(top.sum())),
        round(float(np.maximum(0.0, free - _PAGE_BYTES * chunks).sum())),
        int(chunks.sum()),
    )
