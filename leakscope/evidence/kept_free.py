"""What malloc keeps free, in sentences: how much, in how many arenas, since when; and what each remedy may give."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..facts.growth.kept import Arenas, Kept
from ..facts.growth.processes import ProcessGrowth
from ..facts.tables import only, without_last
from ..findings import Evidence
from ..units import KiB, format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from ..facts.case import Case

_MANY_ARENAS = 4
_HALF = 0.5  # of what is kept: a remedy that may give less is not worth a line
_LARGE_PIECE_BYTES = 128 * KiB  # from here on malloc would map a buffer of its own, if it had not learned otherwise
PROBE = "record it with --probe: that measures whether malloc_trim(0) gives the memory back"
_NO_LEAK = "no object holds this memory: it is no leak, and no change to what the program keeps frees it"


def told(case: Case, process: ProcessGrowth, kept: Kept, trimmed: int | None) -> Iterator[Evidence]:
    """``trimmed``: what malloc_trim() gave back when it was tried, None where it was not."""
    figures = {
        "kept_free_bytes": kept.free_bytes, "held_bytes": kept.held_bytes, "malloc_in_use_bytes": kept.in_use_bytes,
        "start_s": round(kept.start_s, 2), "end_s": round(kept.end_s, 2), "since_s": round(kept.since_s, 2),
    }  # fmt: skip
    yield Evidence(
        f"of the {format_bytes(kept.held_bytes)} that it held between {format_duration(kept.start_s)} and "
        f"{format_duration(kept.end_s)} hardly ever less than {format_bytes(kept.free_bytes)} were free inside malloc, "
        f"at least half of that since {format_duration(kept.since_s)}; {format_bytes(kept.in_use_bytes)} were in use",
        figures,
    )
    if kept.arenas is not None:
        yield _of_arenas(kept.arenas)
    if kept.library is None:
        yield from _of_threads(case, process)
    if trimmed is not None:
        text = f"malloc_trim() at the end gave back {format_bytes(trimmed)}"
        yield Evidence(text, {"returned_bytes": trimmed})
    yield Evidence(_NO_LEAK)


def _of_arenas(arenas: Arenas) -> Evidence:
    where = f"it lay in {format_count(arenas.arena_count)} arenas" if arenas.arena_count > 1 else "it lay in one arena"
    if arenas.arena_count > 1:
        where += f", of which {format_count(arenas.mostly_free)} were mostly free"
    text = (
        f"{where}: {format_count(arenas.chunk_count)} free pieces of {format_bytes(arenas.chunk_bytes)} on average, "
        f"{format_bytes(arenas.top_bytes)} of it at the end of an arena, from where it can go back by itself"
    )
    return Evidence(text, arenas._asdict())


def _of_threads(case: Case, process: ProcessGrowth) -> Iterator[Evidence]:
    """The function that most threads run: malloc gives a thread an arena that no other has, while there are any."""
    rows = without_last(process.rows("threads"), process.rows("takes"))
    rows = only(rows, rows["take"] == rows["take"].max())
    if not len(rows) or not rows["object_count"].notna().any():
        return
    most = rows.sort_values("object_count", kind="stable").iloc[-1]
    count = int(most["object_count"])
    if count >= _MANY_ARENAS:
        text = f"{format_count(count)} threads run {most['function']}(): each thread is given an arena of its own"
        yield Evidence(text, {"thread_count": count, "function": str(most["function"])})


def remedies(kept: Kept, trimmed: int | None) -> Iterator[str]:
    """What the recording supports, with the bytes that it may give and how sure that is: first what lasts."""
    arenas, free = kept.arenas, kept.free_bytes
    if kept.library is not None:  # jemalloc: no other says what it keeps
        yield (
            f"set MALLOC_CONF=narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0 in the environment: up to "
            f"{format_bytes(free)} less (not tried)"
        )
        return
    scale = min(1.0, free / max(arenas.free_bytes, 1)) if arenas is not None else 1.0
    tells_how = False
    if arenas is not None:
        fewer = arenas.beyond_two_bytes * scale
        if arenas.arena_count >= _MANY_ARENAS and fewer >= _HALF * free:
            tells_how = True
            yield (
                f"start it with MALLOC_ARENA_MAX=2 in the environment: up to {format_bytes(fewer)} less, which is what "
                "the other arenas keep (not tried; threads may then wait for each other in malloc)"
            )
        # Free pieces run together: where it was seen how large those were that the program asked for, that decides.
        is_large = arenas.chunk_bytes >= _LARGE_PIECE_BYTES if kept.large_share is None else kept.large_share >= _HALF
        if is_large:
            tells_how = True
            yield (
                "set MALLOC_MMAP_THRESHOLD_=131072 in the environment, or make large temporaries in pieces: up to "
                f"{format_bytes(free)} less, since buffers of 128 KiB and more then go back as they are freed "
                "(not tried; each costs system calls)"
            )
    pages = arenas.whole_page_bytes * scale if arenas is not None else 0.0
    given = pages if trimmed is None else float(trimmed)
    if given >= _HALF * free:
        how_sure = "as it ended: measured" if trimmed is not None else "an estimate, by the sizes of the free pieces"
        yield (
            f"before a pause call ctypes.CDLL(None).malloc_trim(0): about {format_bytes(given)} ({how_sure}), until "
            "the program takes them again"
        )
    if kept.large_share is not None:
        yield "leakscope whatif replays it under each of these, and under jemalloc and mimalloc if installed"
    elif trimmed is None and not (tells_how and pages):
        yield PROBE


def title(kept: Kept) -> str:
    """How much of what is held, and where."""
    arenas = kept.arenas
    where = f", in {format_count(arenas.arena_count)} arenas" if arenas is not None and arenas.arena_count > 1 else ""
    how_much = f"{format_bytes(kept.free_bytes)} of {format_bytes(kept.held_bytes)}"
    return f"{kept.library or 'malloc'} keeps {how_much} free{where}: freed memory that it does not give back"


def doubts(kept: Kept, trimmed: int | None) -> Iterator[str]:
    """What would make it no waste."""
    if trimmed is None and kept.library is None:
        yield "malloc also counts memory as free that it has returned to the kernel, where a program trims"
    yield "the program may need it again for a peak that is shorter than the readings are apart"
