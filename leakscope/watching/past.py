"""The rows of a recording that has ended, as they came; of a long one, as many as can be shown."""

from __future__ import annotations

import heapq
import operator
from collections.abc import Iterable, Iterator
from functools import partial
from itertools import repeat

import numpy as np
from numpy.typing import NDArray

from ..facts.code.recorded import sources_of
from ..facts.heap.comparable import whole_heap
from ..facts.tables import figures, only, records
from ..storage import Column, Recording, Rows, thinned
from .cursor import Row
from .holders import HOLDERS, holders_of

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
    """(table, row) in the order of time, each made when its turn comes."""
    tables = thinned(recording).rows
    kept = _kept_seconds(tables["process_samples"])
    rows: list[tuple[str, Iterable[Row]]] = []
    for table, names in {**_THINNED, **_WHOLE}.items():
        frame = tables[table][[name for name in tables[table] if name in (*_KEYS, *names)]]
        if table == "process_samples":
            frame = _with_shares(frame)
        if table in _THINNED and kept is not None:
            frame = only(frame, np.isin(_seconds(frame), kept))
        rows.append((table, _in_time(frame)))
        if table == "processes":
            rows.append((table, sorted(_births(records(frame)), key=_time_of)))
        elif table == "takes":
            rows.append((HOLDERS, _holders(recording, records(only(frame, frame["take"].notna())))))
    return heapq.merge(*(zip(repeat(table), found) for table, found in rows), key=lambda told: _time_of(told[1]))


def _in_time(frame: Rows) -> Iterator[Row]:
    """Rows of those that have a time, some at once."""
    frame = only(frame, frame["time_mono_ns"].notna()).sort_values("time_mono_ns")
    for at in range(0, len(frame), _AT_ONCE):
        yield from records(frame.iloc[at : at + _AT_ONCE])


def _births(processes: list[Row]) -> list[Row]:
    """A process has one row in a recording, its last: it was there from its birth on."""
    both = [row for row in processes if row["died_mono_ns"] is not None and row["born_mono_ns"] is not None]
    return [{**row, "died_mono_ns": None, "time_mono_ns": row["born_mono_ns"]} for row in both]


def _holders(recording: Recording, takes: list[Row]) -> Iterator[Row]:
    is_cut_short = {(row["pid"], row["take"]): bool(row["truncated"]) for row in takes}
    for row in takes:
        seen = whole_heap(recording, row["pid"])
        at = seen.takes.index(row["take"]) if row["take"] in seen.takes else None
        if at is not None:
            process, is_whole = (row["pid"], row["start_ticks"]), not is_cut_short[row["pid"], seen.takes[0]]
            sources = partial(sources_of, recording)
            told = partial(holders_of, process, seen.places, at, 0, is_whole=is_whole, sources=sources)
            yield {**row, "holders": told}


def _with_shares(samples: Rows) -> Rows:
    """Between two readings of PSS it is moved on by what RSS did, so that rows can be left out."""
    rss, above = figures(samples, "rss_bytes"), figures(samples, "pss_bytes") - figures(samples, "rss_bytes")
    places = np.arange(len(samples))
    keys = [samples[key].to_numpy(na_value=-1) for key in _KEYS[1:]]  # rows of a process follow one another
    begins = np.logical_or.reduce([np.diff(key, prepend=-2) != 0 for key in keys])
    read = np.maximum.accumulate(np.where(np.isnan(above), -1, places))
    is_read = read >= np.maximum.accumulate(np.where(begins, places, 0))
    pss = np.where(is_read, np.maximum(0.0, rss + above[read]), np.nan)
    return samples.assign(pss_bytes=Column(np.nan_to_num(pss).astype(np.int64), np.isnan(pss)))


def _kept_seconds(samples: Rows) -> NDArray[np.int64] | None:
    """Of each stretch of time the second with most memory, so that no peak is lost; None: all of them."""
    keys = [_seconds(samples), *(samples[key].to_numpy(na_value=0) for key in _KEYS[1:])]
    looks, of_look = np.unique(np.column_stack(keys), axis=0, return_inverse=True)
    each = np.zeros(len(looks))
    np.maximum.at(each, of_look.ravel(), samples["rss_bytes"].to_numpy(na_value=0))
    seconds, of_second = np.unique(looks[:, 0], return_inverse=True)
    total = np.bincount(of_second, each)
    most = min(_MOST_SECONDS, max(_WHOLE_END_S, round(_MOST_ROWS * len(total) / max(1, len(samples)))))
    if len(total) <= most:
        return None
    together = 1 + len(total) // most
    largest = [at + int(total[at : at + together].argmax()) for at in range(0, len(total), together)]
    kept: NDArray[np.int64] = np.union1d(seconds[largest], seconds[seconds > seconds[-1] - _WHOLE_END_S])
    return kept


def _seconds(frame: Rows) -> NDArray[np.int64]:
    return frame["time_mono_ns"].to_numpy(na_value=0) // 10**9
