"""Reading the recording's tables: cells that may be null, series, what a process is called, snapshots that count."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ..outside import is_python
from ..storage import Column, Row, Rows, is_null
from ..units import FULL, TOLD_S

_LOOK_S = 0.5  # the recorder looks no sooner than after 2 s
AT_EXIT = "exit"  # why a snapshot was made: the process was ending in order, and the locals of main() were gone
# The program that a spawned child, a fork server or a tracker of segments runs says nothing of whose it is.
_STARTED = re.compile(r"\s-c\s.{0,9}from (multiprocess|loky)")
# ``python /env/bin/airflow scheduler``: a command or a module, and the word after it.
_COMMAND = re.compile(r"\S*(?:python|pypy)[\d.]* (?:-m |\S*/)([^/\s]+) ([a-z][\w-]*)(?:\s|$)")
Floats = NDArray[np.float64]


def text_of(row: Row | None, column: str) -> str | None:
    """A cell as text; None where it is null or empty."""
    value = None if row is None else row[column]
    return value if isinstance(value, str) and value else None


def int_of(row: Row | None, column: str) -> int | None:
    """A cell as a whole number; None where it is null."""
    value = None if row is None else row[column]
    return None if value is None or is_null(value) else int(value)


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
    comm = (text_of(row, "comm") or "").strip()
    for whole in (words[0], words[0].rsplit("/", 1)[-1]) if words and comm and not is_python(words[0]) else ():
        if whole.startswith(comm):  # a title that the process gave itself, or a name, of which the kernel keeps a part
            return comm + whole[len(comm) :].split(" ", 1)[0]
    return comm or (words[0].rsplit("/", 1)[-1] if words else "process")


def process_names(rows: Sequence[Row]) -> dict[tuple[int, int], str]:
    """{(pid, start_ticks): what it is called}; what multiprocessing started afresh is called as who started it.

    Where processes run one command for different things, with what it is for: ``airflow scheduler``.
    """
    by_pid = {int_of(row, "pid"): at for at, row in enumerate(rows)}
    own = [process_name(row) for row in rows]
    found = [_COMMAND.match(text_of(row, "cmdline") or "") for row in rows]
    asked_for = [one[2] if one is not None and one[1] == name else "" for one, name in zip(found, own)]
    each = {name: {asked for other, asked in zip(own, asked_for) if other == name} for name in set(own)}

    def name(at: int, depth: int = 0) -> str:
        above = by_pid.get(int_of(rows[at], "ppid"))
        is_started = _STARTED.search(text_of(rows[at], "cmdline") or "") is not None
        if is_started and above is not None and depth < len(rows):
            return name(above, depth + 1)
        return f"{own[at]} {asked_for[at]}".rstrip() if len(each[own[at]]) > 1 else own[at]

    return {(int_of(row, "pid") or 0, int_of(row, "start_ticks") or 0): name(at) for at, row in enumerate(rows)}


def narrow(rows: Rows, *columns: str) -> Rows:
    """Some of its columns."""
    return rows[list(columns)]


def only(rows: Rows, is_so: NDArray[np.bool_] | Column) -> Rows:
    """Rows where the mask is true (null counts as false)."""
    return rows[is_so]


def series(rows: Rows, column: str) -> tuple[Floats, Floats]:
    """Times and values of a column where it was read."""
    if not len(rows):
        return np.empty(0), np.empty(0)
    values = figures(rows, column)
    was_read = ~np.isnan(values)
    return figures(rows, "time_s")[was_read], values[was_read]


def fell_silent(told_s: float, began_s: float, ended_s: float) -> bool:
    """Whether who tells from inside a process did so no more for a part of its life that may matter."""
    return ended_s - told_s > max(TOLD_S, (1 - FULL) * (ended_s - began_s))


def figures(rows: Rows, column: str) -> Floats:
    """One value a row, NaN where it was not read."""
    values: Floats = rows[column].to_numpy(dtype=np.float64)
    return values


def by_process(frame: Rows) -> list[tuple[tuple[int, int], Rows]]:
    """(pid, start_ticks) and rows of each process, by time. Tables are sorted so: the rows are views, and no copies."""
    if not len(frame):
        return []
    frame = frame[frame["pid"].notna()]
    keys = np.column_stack([frame[name].to_numpy(dtype=np.int64, na_value=0) for name in ("pid", "start_ticks")])
    edges = [0, *(np.flatnonzero((np.diff(keys, axis=0) != 0).any(axis=1)) + 1).tolist(), len(frame)]
    starts = [(int(pid), int(ticks)) for pid, ticks in keys[edges[:-1]].tolist()]
    if len(set(starts)) < len(starts):
        order = np.lexsort((keys[:, 1], keys[:, 0]))  # stable
        return by_process(frame.iloc[order])
    return [(key, in_time(frame.iloc[at:end])) for key, at, end in zip(starts, edges, edges[1:])]


def in_time(rows: Rows) -> Rows:
    """The rows by time: themselves, where they are."""
    return rows if (np.diff(figures(rows, "time_s")) >= 0).all() else rows.sort_values("time_s")


def records(rows: Rows, *columns: str) -> list[dict[str, Any]]:
    """One dict a row, of all or some columns, None where a cell is null."""
    names = columns or tuple(map(str, rows.columns))
    return [dict(zip(names, one)) for one in cells(rows, *names)] if len(rows) else []


def cells(rows: Rows, *columns: str) -> Iterator[tuple[Any, ...]]:
    """What some of its columns have, row by row; None where a cell is null."""
    return zip(*(rows[column].tolist() for column in columns))


def without_last(rows: Rows, takes: Rows) -> Rows:
    """Rows of snapshots that saw the program at work: at its end the locals of main() are gone, which is no decline."""
    if not (len(rows) and len(takes)):
        return rows
    at_end = [take for take, reason in cells(takes, "take", "reason") if reason in (AT_EXIT, "exception")]
    return only(rows, ~np.isin(figures(rows, "take"), at_end)) if at_end else rows


def by_look(rows: Rows, column: str, *keys: str) -> tuple[Floats, dict[Any, Floats]]:
    """When each look from outside began, and {key: the sum of a column in each} by one column or more, some null.

    The rows of a look are written within moments, one by one.
    """
    time_s = figures(rows, "time_s")
    begins = np.diff(time_s, prepend=-np.inf) > _LOOK_S
    count, looks = int(begins.sum()), rows.assign(look=np.cumsum(begins) - 1)
    by: Any = keys[0] if len(keys) == 1 else list(keys)
    return time_s[begins], {
        key: np.bincount(own["look"].values, np.nan_to_num(figures(own, column)), count).astype(np.float64)
        for key, own in looks.groupby(by, dropna=False)
    }
