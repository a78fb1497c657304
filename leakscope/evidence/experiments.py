"""What popular remedies gave back when the agent tried them at the end of a process: folklore, tested.

A program frees much by merely ending: what its functions held is garbage by then, or free inside malloc. So a remedy
that gave back nothing is refuted; one that gave back something has to be set against what the end itself had freed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

from ..facts.case import Case
from ..facts.growth.frozen import frozen_in
from ..facts.growth.kept import FEW_ARENAS
from ..facts.growth.processes import ProcessGrowth
from ..facts.tables import int_of, only, records, text_of
from ..findings import RuledOut
from ..storage import Row
from ..units import ENDS_S, FULL, MUCH, WORTH, format_bytes, format_count

_LAST_SENTINELS = int(ENDS_S)  # rows, one a second: what the process held while it worked
_MUCH_BYTES = WORTH
STILL_RESIDENT = FULL  # what ended with less gave memory back by itself: then nothing follows for a trim
_DEVICE_FIGURES = re.compile(r"(?<!\d)(\d+) bytes before, (\d+) after")


class _AtTheEnd(NamedTuple):
    """Memory of a process as its end came: ``freed_bytes`` of malloc's was freed by ending, not by the remedy.

    ``arenas`` is what else may help: with one or two arenas of malloc a limit to their number changes nothing.
    """

    held_bytes: int
    resident_fraction: float
    freed_bytes: int
    arenas: str


def is_trim_tried(process: ProcessGrowth) -> bool:
    """Whether malloc_trim() was called as the process ended."""
    return _row(process, "malloc_trim") is not None


def trimmed(process: ProcessGrowth) -> int | None:
    """What malloc_trim() gave back of what the process still held as it ended, bytes.

    None where it was not tried, or where ending had given much back before: then it says nothing of the work.
    """
    row = _row(process, "malloc_trim")
    given = int_of(row, "returned_bytes")
    end = _at_the_end(process, row) if row is not None else None
    if given is None or end is None or end.resident_fraction < STILL_RESIDENT:
        return None
    return max(0, given)


def ruled_out(
    case: Case,
    *,
    small_fraction: float = 0.02,  # of the process's memory: pages come and go by that much without any remedy
    large_fraction: float = MUCH,  # below it a remedy is not what anybody looks for
) -> Iterator[RuledOut]:
    """What the experiments say about the process that gained most of those that made any."""
    growth = case.growth
    process = next((one for one in growth.processes if len(one.rows("experiments"))), None)
    rows = (
        records(process.rows("experiments").drop_duplicates("experiment", keep="last")) if process is not None else ()
    )
    for row in rows:
        end = _at_the_end(process, row) if process is not None else None
        given, experiment = int_of(row, "returned_bytes"), text_of(row, "experiment")
        if process is None or end is None or given is None:
            continue
        is_small = given <= small_fraction * end.held_bytes
        little = format_bytes(max(0, given))
        amount = f"{little} of {format_bytes(end.held_bytes)}"
        count = format_count(int_of(row, "freed_count") or 0)
        is_much = given - end.freed_bytes >= max(large_fraction * end.held_bytes, _MUCH_BYTES)
        is_trim = experiment == "malloc_trim" and end.resident_fraction >= STILL_RESIDENT
        # Of what is frozen a collection could free nothing.
        is_collection = experiment == "gc.collect" and is_small and frozen_in(process, growth) is None
        table = (  # whether it shows anything, what it is no case of, and why
            (is_collection, "cyclic-garbage", f"gc.collect() at the end freed {little} ({count} objects): calling it "
             "will not help"),
            (is_trim and is_small, "fragmentation", f"malloc_trim() at the end returned {little}: trimming or fewer "
             "arenas will not help"),
            (is_trim and is_much and not is_small, "native-growth", f"malloc_trim() at the end returned {amount}: that "
             "memory was free inside malloc, not leaked; trimming gives it back until it is needed again"
             f"{end.arenas}"),
            (experiment == "arrow.release_unused" and is_small, "native-growth", "Arrow's release_unused() at the end "
             f"returned {little}: its pool keeps nothing to speak of"),
        )  # fmt: skip
        figures = {"returned_bytes": given, "held_bytes": end.held_bytes, "pid": process.pid}
        yield from (RuledOut(kind, reason, figures) for shows, kind, reason in table if shows)
        match = _DEVICE_FIGURES.search(text_of(row, "text") or "") if experiment == "torch.cuda.empty_cache" else None
        before, after = map(int, match.groups()) if match is not None else (0, 0)
        if before and before - after <= small_fraction * before:
            amount = f"{format_bytes(max(0, before - after))} of {format_bytes(before)}"
            reason = f"torch.cuda.empty_cache() at the end returned {amount}: calling it will not help"
            yield RuledOut("gpu-fragmentation", reason, {"before_bytes": before, "after_bytes": after})


def _row(process: ProcessGrowth, experiment: str) -> Row | None:
    rows = process.rows("experiments")
    rows = only(rows, rows["experiment"] == experiment)
    return rows.iloc[-1] if len(rows) else None


def _at_the_end(process: ProcessGrowth, row: Row) -> _AtTheEnd | None:
    """From the readings before the experiment, of which the last was made as the interpreter began to end."""
    sentinels = process.rows("sentinels")
    sentinels = only(sentinels, (sentinels["time_s"] <= row["time_s"]) & sentinels["rss_bytes"].notna())
    last = sentinels.iloc[-1 - _LAST_SENTINELS :]
    if len(last) < 2:
        return None
    rss_bytes = last["rss_bytes"]
    in_use = last["malloc_in_use_bytes"].dropna()
    freed = max(0, int(in_use.max()) - int(in_use.iloc[-1])) if len(in_use) else 0
    held = int(rss_bytes.max())
    arena_count = max(sentinels["malloc_arena_count"].dropna(), default=0)
    arenas = f", MALLOC_ARENA_MAX=2 may keep less (there were {arena_count} arenas)" if arena_count > FEW_ARENAS else ""
    return _AtTheEnd(held, int(rss_bytes.iloc[-1]) / max(held, 1), freed, arenas)
