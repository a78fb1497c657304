"""Reading the recording's tables: cells that may be null, series, what a process is called, snapshots that count."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Union

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ..units import FULL, TOLD_S

_LOOK_S = 0.5  # the recorder looks no sooner than after 2 s
AT_EXIT = "exit"  # why a snapshot was made: the process was ending in order, and the locals of main() were gone
# The program that a spawned child, a fork server or a tracker of segments runs says nothing of whose it is.
_STARTED = re.compile(r"\s-c\s.{0,9}from (multiprocess|loky)")
Row = Union["pd.Series[Any]", Mapping[str, Any]]
Floats = NDArray[np.float64]


def text_of(row: Row | None, column: str) -> str | None:
    """A cell as text; None where it is null or empty."""
    value = None if row is None else row[column]
    return value if isinstance(value, str) and value else None


def int_of(row: Row | None, column: str) -> int | None:
    """A cell as a whole number; None where it is null (pandas' own null is neither true nor false)."""
    value = None if row is None else row[column]
    return None if value is None or pd.isna(value) else int(value)


def process_name(row: Row | None) -> str:
    """``train.py``, ``package.module`` or the command's own name, from a row of ``processes``."""
    try:
        words = shlex.split(text_of(row, "cmdline") or "")
    except ValueError:
        words = (text_of(row, "cmdline") or "").split()
    for before, word in zip(words, words[1:]):
        if before == "-m":
            return word
        if before == "-c":
            return "python -c"
        if word.endswith((".py", ".pyz")):
            return word.rsplit("/", 1)[-1]
    return text_of(row, "comm") or (words[0].rsplit("/", 1)[-1] if words else "process")


def process_names(rows: Sequence[Row]) -> dict[tuple[int, int], str]:
    """{(pid, start_ticks): what it is called}; what multiprocessing started afresh is called as who started it."""
    by_pid = {int_of(row, "pid"): row for row in rows}

    def name(row: Row, depth: int = 0) -> str:
        above = by_pid.get(int_of(row, "ppid"))
        is_started = _STARTED.search(text_of(row, "cmdline") or "") is not None
        return name(above, depth + 1) if is_started and above is not None and depth < len(rows) else process_name(row)

    return {(int_of(row, "pid") or 0, int_of(row, "start_ticks") or 0): name(row) for row in rows}


def narrow(rows: pd.DataFrame, *columns: str) -> pd.DataFrame:
    """Some of its columns; a list of names in brackets is the same, in five times as long."""
    at: list[Any] = [rows.columns.get_loc(column) for column in columns]
    return rows.take(at, axis="columns")


def only(rows: pd.DataFrame, is_so: NDArray[np.bool_] | pd.Series[bool]) -> pd.DataFrame:
    """Rows where the mask is true (null counts as false). Five times faster than ``rows[mask]``.

    A view where they follow one another, as those of one process do, or of a span of time: do not change it.
    """
    flags = is_so if isinstance(is_so, np.ndarray) else is_so.to_numpy(dtype=bool, na_value=False)
    at = np.flatnonzero(flags)
    if len(at) == len(rows):
        return rows
    first, end = (int(at[0]), int(at[-1]) + 1) if len(at) else (0, 0)
    return rows.iloc[first:end] if end - first == len(at) else rows[flags]


def series(rows: pd.DataFrame, column: str) -> tuple[Floats, Floats]:
    """Times and values of a column where it was read."""
    if not len(rows):
        return np.empty(0), np.empty(0)
    values = figures(rows, column)
    was_read = ~np.isnan(values)
    return figures(rows, "time_s")[was_read], values[was_read]


def fell_silent(told_s: float, began_s: float, ended_s: float) -> bool:
    """Whether who tells from inside a process did so no more for a part of its life that may matter."""
    return ended_s - told_s > max(TOLD_S, (1 - FULL) * (ended_s - began_s))


def figures(rows: pd.DataFrame, column: str) -> Floats:
    """One value a row, NaN where it was not read."""
    values: Floats = rows[column].to_numpy(dtype=np.float64, na_value=np.nan)
    return values


def by_process(frame: pd.DataFrame) -> list[tuple[tuple[int, int], pd.DataFrame]]:
    """(pid, start_ticks) and rows of each process, by time. Tables are sorted so: the rows are views, and no copies."""
    if not len(frame):
        return []
    frame = frame if frame["pid"].notna().all() else frame[frame["pid"].notna()]
    keys = np.column_stack([frame[name].to_numpy(dtype=np.int64, na_value=0) for name in ("pid", "start_ticks")])
    edges = [0, *(np.flatnonzero((np.diff(keys, axis=0) != 0).any(axis=1)) + 1).tolist(), len(frame)]
    starts = [(int(pid), int(ticks)) for pid, ticks in keys[edges[:-1]].tolist()]
    if len(set(starts)) < len(starts):
        order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable
        return by_process(frame.iloc[order])
    return [(key, in_time(frame.iloc[at:end])) for key, at, end in zip(starts, edges, edges[1:])]


def in_time(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows by time: themselves, where they are."""
    return rows if rows["time_s"].is_monotonic_increasing else rows.sort_values("time_s", kind="stable")


def records(rows: pd.DataFrame, *columns: str) -> list[dict[str, Any]]:
    """One dict a row, of all or some columns, None where a cell is null; ``to_dict`` takes four times as long."""
    names = columns or tuple(map(str, rows.columns))
    return [dict(zip(names, one)) for one in cells(rows, *names)] if len(rows) else []


def cells(rows: pd.DataFrame, *columns: str) -> Iterator[tuple[Any, ...]]:
    """What some of its columns have, row by row; None where a cell is null."""
    return zip(*(_cells(rows[column]) for column in columns))


def _cells(column: Any) -> list[Any]:
    known_null = {} if isinstance(column.dtype, np.dtype) else {"dtype": object, "na_value": None}
    cells: list[Any] = column.to_numpy(**known_null).tolist()
    return cells


def without_last(rows: pd.DataFrame, takes: pd.DataFrame) -> pd.DataFrame:
    """Rows of snapshots that saw the program at work: at its end the locals of main() are gone, which is no decline."""
    if not (len(rows) and len(takes)):
        return rows
    at_end = [take for take, reason in cells(takes, "take", "reason") if reason in (AT_EXIT, "exception")]
    return only(rows, ~np.isin(figures(rows, "take"), at_end)) if at_end else rows


def by_look(rows: pd.DataFrame, column: str, *keys: str | pd.Series[str]) -> tuple[Floats, pd.DataFrame]:
    """When each look from outside began, and the sum of a column in each (columns) by some keys (rows), some null.

    The rows of a look are written within moments, one by one.
    """
    time_s = figures(rows, "time_s")
    begins = np.diff(time_s, prepend=-np.inf) > _LOOK_S
    groups: list[Any] = [rows[key] if isinstance(key, str) else key for key in keys]
    sums = rows[column].astype("float64").groupby([*groups, np.cumsum(begins)], dropna=False).sum()
    return time_s[begins], sums.unstack(fill_value=0)
