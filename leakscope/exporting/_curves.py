"""What was sampled over time, as curves: the figures that traces and metrics have in common."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from .. import schema
from ..facts.case import Case
from ..facts.processes.table import Process
from ..facts.series.arithmetic import extremes
from ..facts.tables import int_of
from ..storage import Recording, Rows

_PROCESS = ("pid", "start_ticks")
# Subject, the columns that tell one from another, and what is read of it. The first two of a process are its key.
_SAMPLED: dict[str, tuple[str, tuple[str, ...], tuple[str, ...]]] = {
    "process_samples": (
        "process",
        _PROCESS,
        ("rss_bytes", "pss_bytes", "uss_bytes", "file_bytes", "shmem_bytes", "swap_bytes", "thread_count", "fd_count"),
    ),
    "sentinels": (
        "process",
        _PROCESS,
        ("malloc_in_use_bytes", "malloc_free_bytes", "pymalloc_in_use_bytes", "tensor_count", "step"),
    ),
    "allocator": ("torch", (*_PROCESS, "device"), ("allocated_bytes", "reserved_bytes", "pinned_bytes")),
    "gpu_samples": ("gpu", (*_PROCESS, "gpu_index"), ("gpu_used_bytes", "gpu_total_bytes")),
    "limit_samples": ("limit", (*_PROCESS, "limit_name"), ("used_bytes", "limit_bytes")),
    "cgroup_samples": ("cgroup", ("cgroup",), ("current_bytes", "limit_bytes", "cgroup_anon_bytes")),
    "host_samples": ("host", (), ("mem_available_bytes", "mem_total_bytes", "swap_free_bytes")),
}


@dataclass(frozen=True, eq=False)
class Curve:
    """One column of one subject. **Units** ``time_ns`` is CLOCK_REALTIME; the column's name says that of ``values``.

    ``about`` tells it from other curves of that column: a device, a cgroup, the name of a limit.
    """

    subject: str
    column: str
    process: Process | None
    about: dict[str, str]
    time_ns: NDArray[np.int64]
    values: NDArray[np.float64]

    @property
    def meaning(self) -> str:
        return schema.columns()[self.column].meaning


class Clock:
    """From CLOCK_MONOTONIC, which never jumps, to the clock on the wall as it stood for most of the recording."""

    def __init__(self, recording: Recording) -> None:
        meta = recording.meta
        offsets = [whole(meta.get("start_unix_ns")) - meta["start_mono_ns"]]
        for table in ("process_samples", "sentinels"):
            rows = recording.rows[table][["time_unix_ns", "time_mono_ns"]].dropna()
            offsets += (rows["time_unix_ns"] - rows["time_mono_ns"]).tolist()
        self.offset_ns = sorted(offsets)[len(offsets) // 2]
        self._start_mono_ns = meta["start_mono_ns"]

    def unix_ns(self, frame: Rows) -> NDArray[np.int64]:
        times: NDArray[np.int64] = frame["time_mono_ns"].to_numpy(dtype=np.int64) + self.offset_ns
        return times

    def at(self, time_s: float) -> int:
        """Of seconds since the recording began."""
        return int(self._start_mono_ns + self.offset_ns + round(time_s * 1e9))


def whole(value: Any) -> int:
    """A number of the footer, which may hold anything; 0 for what is none."""
    return value if type(value) is int else 0


def curves(case: Case, clock: Clock) -> Iterator[Curve]:
    """Every curve that is more than nothing all along; those of one column follow each other."""
    processes = {(process.pid, process.start_ticks): process for process in case.processes}
    for table, (subject, keys, columns) in _SAMPLED.items():
        frame = case.rows(table)
        frame = frame[frame["time_mono_ns"].notna()]
        if not len(frame):
            continue
        parts: list[tuple[tuple[Any, ...], Rows]] = [((), frame)]
        if keys:
            parts = list(frame.groupby(list(keys), dropna=False))
        for column in columns:
            for values, rows in parts:
                curve = _curve(subject, column, dict(zip(keys, values)), rows, clock, processes)
                if curve is not None:
                    yield curve


def _curve(
    subject: str,
    column: str,
    key: dict[str, Any],
    rows: Rows,
    clock: Clock,
    processes: dict[tuple[int, int], Process],
) -> Curve | None:
    own = rows[rows[column].notna()].sort_values("time_mono_ns")
    values = own[column].to_numpy(dtype=np.float64)
    if not values.any():
        return None
    process = processes.get((int_of(key, "pid") or 0, int_of(key, "start_ticks") or 0)) if "pid" in key else None
    known = _PROCESS if process is not None else ()  # else it is none of the job's
    about = {name: str(key[name]) for name in key if name not in known and key[name] is not None}
    time_ns = clock.unix_ns(own)
    later = np.append(True, np.diff(time_ns) > 0)  # two readings of one instant: the first counts
    return Curve(subject, column, process, about, time_ns[later], values[later])


def thinned(values: NDArray[np.float64], most: int) -> NDArray[np.intp]:
    """Indexes of at most so many points: ends, the lowest and highest of each part, and none that repeats another."""
    indexes = extremes(values, most // 2 - 1) if values.size > most else np.arange(values.size)
    own = values[indexes]
    changes = np.append(True, own[1:] != own[:-1])
    changes[-1] = True
    shown: NDArray[np.intp] = indexes[changes]
    return shown
