"""The rows of a recording that has ended, as they came; of a long one, as many as can be shown."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from .cursor import Row
from .holders import HOLDERS, holders_of

if TYPE_CHECKING:
    from ..storage import Recording
    from ..storage.recording import Columns, Tables


_MOST_SECONDS, _MOST_ROWS = 3600, 10_000
_AT_ONCE = 500  # rows that are made of columns: one takes 1 KB
_WHOLE_END_S = 300  # what is said of growth and of limits is said of the last minutes
_KEYS = ("time_mono_ns", "pid", "start_ticks")
# The columns that a scene looks at; thinned are the tables with rows at all times.
_THINNED = {
    "process_samples": (
        "rss_bytes",
        "pss_bytes",
        "pss_anon_bytes",
        "shmem_bytes",
        "file_bytes",
        "swap_bytes",
        "thread_count",
        "cpu_s",
    ),
    "host_samples": ("mem_total_bytes", "mem_available_bytes", "oom_kill_count"),
    "cgroup_samples": (
        *("cgroup", "current_bytes", "limit_bytes", "cgroup_file_bytes", "cgroup_shmem_bytes", "oom_kill_count"),
    ),
    "limit_samples": ("limit_name", "used_bytes", "limit_bytes"),
    "gpu_samples": ("gpu_uuid", "gpu_index", "gpu_name", "gpu_total_bytes", "gpu_used_bytes", "is_ours"),
    "sentinels": ("step",),
}
_WHOLE = {
    "processes": ("role", "cmdline", "comm", "cgroup", "is_root", "born_mono_ns", "died_mono_ns", "exit_signal"),
    "marks": ("step",),
    "takes": ("take", "reason", "truncated", "step"),
    "heap_graphs": ("retained_bytes", "storage_bytes"),  # without "take": its holders are here already
    "events": ("event", "text"),
    "crash_text": ("exception_type", "last_words"),
    "agent_notes": ("note", "text"),
}


_time_of = operator.itemgetter("time_mono_ns")


def rows_of(recording: Recording) -> Iterator[tuple[str, Row]]:
    """(table, row) in the order of time, each made when its turn comes. Of a long recording the large tables are never
    in memory whole.
    """
    kept = _kept_seconds(recording.tables)
    rows: list[tuple[str, Iterable[Row]]] = []
    for table, names in {**_THINNED, **_WHOLE}.items():
        parts: Iterable[Columns] = recording.tables.parts(table, names)
        if table == "process_samples":
            parts = _with_shares(parts)
        if table in _THINNED and kept is not None:
            parts = (_taken(part, np.isin(_seconds(part), kept)) for part in parts)
        rows.append((table, _in_time(list(parts))))
        if table == "processes":
            processes = list({(row["pid"], row["start_ticks"]): row for row in rows.pop()[1]}.values())
            rows += ((table, sorted(each, key=_time_of)) for each in (processes, _births(processes)))
        elif table == "takes":
            takes = list(rows.pop()[1])
            rows += [(table, takes), (HOLDERS, _holders(recording, takes))]
    return heapq.merge(*(zip(repeat(table), found) for table, found in rows), key=lambda told: _time_of(told[1]))


def _in_time(parts: list[Columns]) -> Iterator[Row]:
    """Rows of those that have a time, some at once."""
    names = list(parts[0]) if parts else []
    each = {name: list(zip(*(part[name] for part in parts))) for name in names}
    whole: Columns = {name: (np.concatenate(values), np.concatenate(there)) for name, (values, there) in each.items()}
    if parts:
        times_ns, is_told = whole["time_mono_ns"]
        order = np.argsort(times_ns, kind="stable")
        order = order[is_told[order]]
        for at in range(0, order.size, _AT_ONCE):
            chosen = _taken(whole, order[at : at + _AT_ONCE]).values()
            lists = ([one if there else None for one, there in zip(*map(np.ndarray.tolist, each))] for each in chosen)
            yield from (dict(zip(names, row)) for row in zip(*lists))


def _births(processes: list[Row]) -> list[Row]:
    """A process has one row in a recording, its last: it was there from its birth on."""
    both = [row for row in processes if row["died_mono_ns"] is not None and row["born_mono_ns"] is not None]
    return [{**row, "died_mono_ns": None, "time_mono_ns": row["born_mono_ns"]} for row in both]


def _holders(recording: Recording, takes: list[Row]) -> Iterator[Row]:
    takes = [row for row in takes if row["take"] is not None]
    is_cut_short = {(row["pid"], row["take"]): bool(row["truncated"]) for row in takes}
    for row in takes:
        from ..facts.heap.snapshots import heap_snapshots  # pandas, and 60 MB

        seen = heap_snapshots(recording, row["pid"])
        at = seen.at(row["take"])
        if at is not None:
            process, is_whole = (row["pid"], row["start_ticks"]), not is_cut_short[row["pid"], seen.takes[0]]
            told = partial(holders_of, process, seen.places, at, 0, is_whole=is_whole)
            yield {**row, "holders": told}


def _with_shares(parts: Iterable[Columns]) -> Iterator[Columns]:
    """Between two readings of PSS it is moved on by what RSS did, so that rows can be left out."""
    before: dict[tuple[int, int], float] = {}  # of each process at the end of the part before
    for part in parts:
        rss, pss = (np.where(is_there, values, np.nan) for values, is_there in (part["rss_bytes"], part["pss_bytes"]))
        above = pss - rss
        first = np.flatnonzero(_is_new(part))
        counts = np.diff(np.append(first, above.size))
        began, now = np.repeat(first, counts), np.arange(above.size)
        above = above[np.maximum.accumulate(np.where(np.isnan(above), began, now))]
        keys = list(zip(*(part[name][0][first].tolist() for name in _KEYS[1:])))
        known = np.repeat(np.array([before.get(key, np.nan) for key in keys]), counts)
        above = np.where(np.isnan(above), known, above)
        before |= {key: last for key, last in zip(keys, above[first + counts - 1].tolist()) if last == last}
        moved = np.maximum(rss + above, 0)
        yield {**part, "pss_bytes": (np.nan_to_num(moved).astype(np.int64), ~np.isnan(moved))}


def _kept_seconds(tables: Tables) -> NDArray[np.int64] | None:
    """Of each stretch of time the second with most memory, so that no peak is lost; None: all of them."""
    found = []
    for part in tables.parts("process_samples", ("rss_bytes",)):
        second, (rss, is_there) = _seconds(part), part["rss_bytes"]
        first = np.flatnonzero(_is_new(part) | np.append(True, np.diff(second) != 0)[: second.size])
        if first.size:
            found.append(_totals(second[first], np.maximum.reduceat(np.where(is_there, rss, 0), first)))
    if not found:
        return None
    seconds, total = _totals(*map(np.concatenate, zip(*found)))  # a second may lie in two parts
    rows = sum(tables.groups("process_samples").values())
    most = min(_MOST_SECONDS, max(_WHOLE_END_S, round(_MOST_ROWS / max(1.0, rows / seconds.size))))
    if seconds.size <= most:
        return None
    stretch = seconds // (1 + seconds.size // most)
    by_size = np.lexsort((-total, stretch))
    largest = by_size[np.append(True, np.diff(stretch[by_size]) != 0)]
    return np.union1d(seconds[largest], seconds[seconds > seconds[-1] - _WHOLE_END_S])


def _totals(second: NDArray[Any], values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[np.float64]]:
    seconds, which = np.unique(second, return_inverse=True)
    return seconds, np.bincount(which, values).astype(np.float64)


def _is_new(part: Columns) -> NDArray[np.bool_]:
    """Where rows are of another process than the one before."""
    same = [np.diff(part[name][0]) == 0 for name in _KEYS[1:]]
    return np.append(True, ~np.all(same, axis=0))[: part["pid"][0].size]


def _taken(part: Columns, chosen: NDArray[Any]) -> Columns:
    return {name: (values[chosen], is_there[chosen]) for name, (values, is_there) in part.items()}


def _seconds(part: Columns) -> NDArray[np.int64]:
    seconds: NDArray[np.int64] = part["time_mono_ns"][0] // 10**9
    return seconds
