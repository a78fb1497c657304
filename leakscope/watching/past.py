"""The rows of a recording that has ended, as they came; of a long one, as many as can be shown."""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, cast

import pandas as pd

from ..facts.heap.snapshots import heap_snapshots
from ..facts.tables import records
from .cursor import Row
from .holders import HOLDERS, holders_of

if TYPE_CHECKING:
    from ..storage import Recording
    from ..storage.recording import Tables

_MOST_SECONDS, _MOST_ROWS = 3600, 10_000  # a row takes 1 KB
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


def rows_of(recording: Recording) -> list[tuple[str, Row]]:
    """(table, row) in the order of time. Of a long recording the large tables are never in memory whole."""
    kept = _kept_seconds(recording.tables)
    rows: list[tuple[str, Row]] = []
    for table, columns in _THINNED.items():
        parts = recording.tables.parts(table, columns)
        for part in _with_shares(parts) if table == "process_samples" else parts:
            if kept is not None:
                part = part[part["time_s"].floordiv(1).isin(kept)]
            rows += ((table, row) for row in _as_rows(part, columns))
    for table, columns in _WHOLE.items():
        rows += ((table, row) for row in _as_rows(recording.tables[table], columns))
    rows += list(_births(rows))
    rows += list(_holders(recording))
    rows.sort(key=lambda each: each[1]["time_mono_ns"])
    return rows


def _holders(recording: Recording) -> Iterator[tuple[str, Row]]:
    takes = recording.tables["takes"]
    takes = takes[takes["take"].notna() & takes["time_mono_ns"].notna()]
    for pid in takes["pid"].unique():
        seen = heap_snapshots(recording, int(pid))
        rows = records(takes[takes["pid"] == pid], "take", "truncated", *_KEYS)
        is_cut_short = {row["take"]: bool(row["truncated"]) for row in rows}
        for row in rows:
            at = seen.at(row["take"])
            if at is not None:
                process, is_whole = (row["pid"], row["start_ticks"]), not is_cut_short[seen.takes[0]]
                told = partial(holders_of, process, seen.places, at, 0, is_whole=is_whole)
                yield HOLDERS, {**row, "holders": told}


def _as_rows(frame: pd.DataFrame, columns: tuple[str, ...]) -> list[Row]:
    frame = frame[frame["time_mono_ns"].notna()]
    frame = frame[[name for name in (*_KEYS, *columns) if name in frame.columns]]
    return cast("list[Row]", frame.astype(object).where(frame.notna(), None).to_dict("records"))


def _births(rows: list[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """A process has one row in a recording, its last: it was there from its birth on."""
    for table, row in rows:
        if table == "processes" and row["died_mono_ns"] is not None and row["born_mono_ns"] is not None:
            yield table, {**row, "died_mono_ns": None, "time_mono_ns": row["born_mono_ns"]}


def _with_shares(parts: Iterator[pd.DataFrame]) -> Iterator[pd.DataFrame]:
    """Between two readings of PSS it is moved on by what RSS did, so that rows can be left out."""
    before: dict[tuple[int, int], float] = {}  # of each process at the end of the part before
    for samples in parts:
        above = (samples["pss_bytes"] - samples["rss_bytes"]).astype("float64")
        process = [samples["pid"], samples["start_ticks"]]
        above = above.groupby(process).ffill()
        known = [before.get(key, math.nan) for key in zip(*(column.tolist() for column in process))]
        above = above.fillna(pd.Series(known, index=above.index, dtype="float64"))
        last = above.groupby(process).last().dropna()
        before |= {cast("tuple[int, int]", key): value for key, value in last.items()}
        yield samples.assign(pss_bytes=(samples["rss_bytes"] + above).clip(lower=0).astype("Int64"))


def _kept_seconds(tables: Tables) -> pd.Index[float] | None:
    """Of each stretch of time the second with most memory, so that no peak is lost; None: all of them."""
    totals = []
    for samples in tables.parts("process_samples", ("rss_bytes",)):
        second = samples["time_s"].floordiv(1).rename("second")
        of_each = samples.groupby([second, "pid", "start_ticks"])["rss_bytes"].max()
        totals.append(of_each.groupby("second").sum().astype("float64"))
        del samples, of_each
    if not totals:
        return None
    total = pd.concat(totals).groupby(level=0).sum()  # a second may lie in two parts
    rows = sum(tables.groups("process_samples").values())
    most = min(_MOST_SECONDS, max(_WHOLE_END_S, round(_MOST_ROWS / max(1.0, rows / total.size))))
    if total.size <= most:
        return None
    stretch = total.index // (1 + total.size // most)
    largest = total.groupby(stretch).idxmax()
    seconds: pd.Index[float] = total.index[total.index.isin(largest) | (total.index > total.index.max() - _WHOLE_END_S)]
    return seconds
