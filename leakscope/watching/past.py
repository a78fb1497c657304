"""The rows of a recording that has ended, as they came; of a long one, as many as can be shown."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, cast

from ..facts.heap.snapshots import heap_snapshots
from ..facts.tables import records
from .cursor import Row
from .graphs import HOLDERS, holder_rows

if TYPE_CHECKING:
    import pandas as pd

    from ..storage import Recording

_MOST_SECONDS = 3600  # with rows of 20 processes: a second or two to look at, 100 MB
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
    "gpu_samples": ("gpu_uuid", "gpu_index", "gpu_name", "gpu_total_bytes", "gpu_used_bytes"),
    "sentinels": ("step",),
}
_WHOLE = {
    "processes": ("role", "cmdline", "comm", "cgroup", "is_root", "born_mono_ns", "died_mono_ns", "exit_signal"),
    "marks": ("step",),
    "takes": ("take", "reason", "truncated", "step"),
    "events": ("event", "text"),
    "crash_text": ("exception_type", "last_words"),
    "agent_notes": ("note", "text"),
}


def rows_of(recording: Recording) -> list[tuple[str, Row]]:
    """(table, row) in the order of time."""
    kept = _kept_seconds(recording.tables["process_samples"])
    rows: list[tuple[str, Row]] = []
    for table, columns in {**_THINNED, **_WHOLE}.items():
        frame = recording.tables[table]
        if table == "process_samples":
            frame = _with_shares(frame)
        if kept is not None and table in _THINNED:
            frame = frame[frame["time_s"].floordiv(1).isin(kept)]
        frame = frame[frame["time_mono_ns"].notna()]
        frame = frame[[name for name in (*_KEYS, *columns) if name in frame.columns]]
        found = frame.astype(object).where(frame.notna(), None).to_dict("records")
        rows += ((table, row) for row in cast("list[Row]", found))
    rows += list(_births(rows))
    rows += list(_holders(recording))
    rows.sort(key=lambda each: each[1]["time_mono_ns"])
    return rows


def _holders(recording: Recording) -> Iterator[tuple[str, Row]]:
    takes = recording.tables["takes"]
    takes = takes[takes["take"].notna() & takes["time_mono_ns"].notna()]
    for pid in takes["pid"].unique():
        moments = {row["take"]: row for row in records(takes[takes["pid"] == pid], "take", *_KEYS)}
        seen = heap_snapshots(recording, int(pid))
        for row in holder_rows(seen.places, seen.takes):
            if row["take"] in moments:
                yield HOLDERS, {**row, **moments[row["take"]]}


def _births(rows: list[tuple[str, Row]]) -> Iterator[tuple[str, Row]]:
    """A process has one row in a recording, its last: it was there from its birth on."""
    for table, row in rows:
        if table == "processes" and row["died_mono_ns"] is not None and row["born_mono_ns"] is not None:
            yield table, {**row, "died_mono_ns": None, "time_mono_ns": row["born_mono_ns"]}


def _with_shares(samples: pd.DataFrame) -> pd.DataFrame:
    """Between two readings of PSS it is moved on by what RSS did, so that rows can be left out."""
    above = (samples["pss_bytes"] - samples["rss_bytes"]).groupby([samples["pid"], samples["start_ticks"]]).ffill()
    return samples.assign(pss_bytes=(samples["rss_bytes"] + above).clip(lower=0))


def _kept_seconds(samples: pd.DataFrame) -> pd.Index[float] | None:
    """Of each stretch of time the second with most memory, so that no peak is lost; None: all of them."""
    second = samples["time_s"].floordiv(1).rename("second")
    if second.nunique() <= _MOST_SECONDS:
        return None
    of_each = samples.groupby([second, "pid", "start_ticks"])["rss_bytes"].max()
    total = of_each.groupby("second").sum().astype("float64")
    stretch = total.index // (1 + second.nunique() // _MOST_SECONDS)
    largest = total.groupby(stretch).idxmax()
    seconds: pd.Index[float] = total.index[total.index.isin(largest) | (total.index > second.max() - _WHOLE_END_S)]
    return seconds
