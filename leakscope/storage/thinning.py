"""A long table in as many rows as fit: of each process, the highest and the lowest of so many readings in a row.

Read one row group after the other, so that memory is bounded by what is kept, however long the recording is: which
rows these are is told by a few columns, and others are read when somebody asks.
"""

from __future__ import annotations

import numpy as np
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .cells import rows_of
from .rows import Rows

THINNED = ("process_samples", "sentinels")  # those that grow with each second of each process
MOST_ROWS = 200_000  # of a table that is judged: 60 MB, three hours of 20 processes
_BY = "rss_bytes"
_KEYS = ("pid", "start_ticks", "time_mono_ns", _BY)


def thinned_places(
    file: pq.ParquetFile, table: str, groups: list[int], most_rows: int, span_ns: tuple[float, float]
) -> tuple[list[tuple[int, NDArray[np.intp]]], int]:
    """Where the rows of a table between two moments are, about ``most_rows`` at most, and how many there are.

    ``groups``: the row groups it is in. **Errors** OSError, ArrowException: it cannot be read.
    """
    shares = {group: _share(file, group, span_ns) for group in groups}
    groups = [group for group in groups if shares[group]]
    there = sum(round(shares[group] * file.metadata.row_group(group).num_rows) for group in groups)
    together = max(1, -(-2 * there // most_rows)) if there > most_rows else 1
    found, count = [], 0
    for group in groups:
        kept, own = _kept(rows_of(file.read_row_group(group, columns=[*_KEYS, "table"])), table, together, span_ns)
        found.append((group, kept))
        count += own
    return found, count


def thinned_note(name: str, kept: int, count: int) -> str:
    """What was left out, for a person."""
    return (
        f"drawn and judged from {kept:,} of {count:,} rows of {name}: of each process the highest and the lowest of "
        "some readings in a row"
    )


def _kept(rows: Rows, table: str, together: int, span_ns: tuple[float, float]) -> tuple[NDArray[np.intp], int]:
    """Indexes of the rows to keep, and how many belong to it."""
    pid, ticks, at_ns, size = (rows[name].to_numpy() for name in _KEYS)
    own = np.flatnonzero(rows["table"].values == table)
    own = own[(at_ns[own] >= span_ns[0]) & (at_ns[own] <= span_ns[1])]
    if together <= 2 or not own.size:
        return own, own.size
    own = own[np.lexsort((at_ns[own], ticks[own], pid[own]))]
    is_new = np.append(True, (np.diff(pid[own]) != 0) | (np.diff(ticks[own]) != 0))
    first = np.maximum.accumulate(np.where(is_new, np.arange(own.size), 0))
    part = (np.arange(own.size) - first) // together  # of its process, in its order
    runs = np.cumsum(is_new | np.append(True, np.diff(part) != 0))
    by_size = np.lexsort((np.nan_to_num(size[own].astype(np.float64)), runs))
    edges = np.flatnonzero(np.append(True, np.diff(runs[by_size]) != 0))
    ends = np.append(edges[1:], own.size) - 1
    return np.unique(own[by_size[np.append(edges, ends)]]), own.size


def _share(file: pq.ParquetFile, group: int, span_ns: tuple[float, float]) -> float:
    """How much of a row group lies between two moments, as far as it tells: 0 is none of it."""
    column = file.schema_arrow.names.index("time_mono_ns")
    statistics = file.metadata.row_group(group).column(column).statistics
    if statistics is None or not statistics.has_min_max:
        return 1.0
    first, last = statistics.min, statistics.max
    if first > span_ns[1] or last < span_ns[0]:
        return 0.0
    share = (min(last, span_ns[1]) - max(first, span_ns[0])) / (last - first or 1)
    return max(1e-9, float(share))
