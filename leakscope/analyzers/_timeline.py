"""Memory of the whole tree over the run, to be drawn: by account, by process, with what happened marked on it.

The accounts are those of the ledger, told at every moment instead of at two. What only an inventory can tell (tensors,
arrays, Python objects) is a straight line between two of them, and never more than the memory there was.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..findings import Band, Moment, Timeline
from ..units import format_duration, signal_name
from ._growth import ProcessGrowth, int_of, process_name, rows_of, tree_growth, without_last
from ._trend import Floats

if TYPE_CHECKING:
    from ..storage import Recording

_SHOWN_PROCESSES = 11  # with the rest as one more band; more layers cannot be told apart
_TOTAL_BUCKETS = 400  # two points each, the lowest and the highest: about what a wide screen can show
_BAND_BUCKETS = 40  # more points for the peaks of single bands, whatever the total does there
_MOST_MOMENTS = 120  # of one kind
_TAKE_COLUMNS = {"tensors": "tensor_bytes", "arrays": "array_bytes", "python-objects": "python_bytes"}
_FREE, _REST, _SHARED, _FILES = "allocator-free", "other-private", "shared-memory", "mapped-files"
_ACCOUNTS = (*_TAKE_COLUMNS, _REST, _FREE, _SHARED, _FILES)  # as they are stacked, from the bottom
_EVENT_KINDS = {"alert": "alert", "pressure": "pressure", "oom-kill-counter": "death"}
_SAID_ELSEWHERE = ("start", "end")


def timeline(recording: Recording) -> Timeline | None:
    """The run as it is drawn; None without two samples of memory."""
    growth = tree_growth(recording)
    time_s = _moments_of_samples(growth.processes)
    if time_s.size < 2:
        return None
    by_process: dict[str, Floats] = {}
    by_account: dict[str, Floats] = {}
    nothing = np.zeros_like(time_s)
    for process in growth.processes:
        levels = _accounts(recording, process, time_s)
        by_process[process.label] = sum(levels.values(), start=by_process.get(process.label, nothing))
        for account, level in levels.items():
            by_account[account] = by_account.get(account, nothing) + level
    processes = _largest(by_process)
    total = sum(by_account.values(), start=nothing)
    accounts = _visible(by_account, float(total.max()))
    shown = thinned(total, [*accounts.values(), *processes.values()])
    moments, left_out = _bounded(sorted(_moments(recording), key=lambda m: (m.time_s, m.kind, m.text)))
    return Timeline(
        time_s=np.round(time_s[shown], 2).tolist(),
        total_bytes=_whole(total[shown]),
        accounts=[Band(name, _whole(level[shown]), name in _TAKE_COLUMNS) for name, level in accounts.items()],
        processes=[Band(name, _whole(level[shown])) for name, level in processes.items()],
        step=_steps(recording, growth.processes, time_s[shown]),
        moments=moments,
        left_out=left_out,
    )


def _moments_of_samples(processes: tuple[ProcessGrowth, ...]) -> Floats:
    """When the process seen longest was sampled and, before and after it, the others: all are read in one round."""
    if not processes:
        return np.empty(0)
    longest = max(processes, key=lambda p: (p.time_s[-1] - p.time_s[0], p.time_s.size))
    first_s, last_s = longest.time_s[0] - 1, longest.time_s[-1] + 1
    beyond = [p.time_s[(p.time_s < first_s) | (p.time_s > last_s)] for p in processes]
    return np.unique(np.concatenate([longest.time_s, *beyond]))


def _accounts(recording: Recording, process: ProcessGrowth, time_s: Floats) -> dict[str, Floats]:
    """Bytes of each account of a process at these moments: 0 before its birth and after its death."""
    gap = float(np.median(np.diff(process.time_s))) / 2 if process.time_s.size > 1 else 0.5
    alive = (time_s >= process.time_s[0] - gap) & (time_s <= process.time_s[-1] + gap)

    def at_moments(at_s: Floats, values: Floats, before: float | None = None) -> Floats:
        return (
            np.where(alive, np.interp(time_s, at_s, values, left=before), 0.0) if at_s.size else np.zeros_like(time_s)
        )

    private = at_moments(process.time_s, process.private_bytes)
    sentinels = _narrow(recording, process, "sentinels", "malloc_in_use_bytes", "malloc_free_bytes")
    in_use = at_moments(*_series(sentinels, "malloc_in_use_bytes"))
    # malloc counts as free also what it gave back to the kernel: never more than the room there is.
    room = np.maximum(0.0, private - in_use)
    free = np.minimum(at_moments(*_series(sentinels, "malloc_free_bytes"), before=0.0), room)
    takes = _narrow(recording, process, "takes", "take", "reason", *_TAKE_COLUMNS.values())
    takes = without_last(takes, takes)
    estimates = {}
    for account, column in _TAKE_COLUMNS.items():
        at_s, values = _series(takes, column)
        if at_s.size:  # the process began with none of it
            at_s, values = np.insert(at_s, 0, min(process.time_s[0], at_s[0])), np.insert(values, 0, 0.0)
        estimates[account] = at_moments(at_s, values)
    said = sum(estimates.values(), start=np.zeros_like(time_s))
    there = private - free
    part = np.where(said > there, there / np.maximum(said, 1.0), 1.0)
    levels = {account: level * part for account, level in estimates.items()}
    levels[_REST] = np.maximum(0.0, there - said)
    levels[_FREE] = free
    levels[_SHARED] = at_moments(process.time_s, process.shared_bytes)
    levels[_FILES] = at_moments(process.time_s, process.file_bytes)
    return levels


def _narrow(recording: Recording, process: ProcessGrowth, table: str, *columns: str) -> pd.DataFrame:
    """Some columns of a process's rows: a table of a day has forty, and copying them all is what takes time."""
    return rows_of(recording.tables[table][["pid", "start_ticks", "time_s", *columns]], process)


def _series(rows: pd.DataFrame, column: str) -> tuple[Floats, Floats]:
    rows = rows[rows[column].notna()]
    return rows["time_s"].to_numpy(dtype=np.float64), rows[column].to_numpy(dtype=np.float64)


def _visible(by_account: dict[str, Floats], high: float, *, min_share: float = 0.002) -> dict[str, Floats]:
    """Accounts as they are stacked; those that are never ``min_share`` of the peak, half a pixel, join the rest."""
    thin = [name for name in _ACCOUNTS if by_account[name].max() < min_share * high and name != _REST]
    rest = sum((by_account[name] for name in thin), start=by_account[_REST])
    return {name: rest if name == _REST else by_account[name] for name in _ACCOUNTS if name not in thin}


def _largest(bands: dict[str, Floats]) -> dict[str, Floats]:
    """The processes with the highest peaks, and the sum of all others."""
    order = sorted(bands, key=lambda name: (-float(bands[name].max()), name))
    shown = {name: bands[name] for name in order[:_SHOWN_PROCESSES]}
    others = order[_SHOWN_PROCESSES:]
    if len(others) == 1:
        shown[others[0]] = bands[others[0]]
    elif others:
        shown[f"{len(others)} other processes"] = sum(
            (bands[name] for name in others), start=np.zeros_like(bands[order[0]])
        )
    return shown


def thinned(total: Floats, bands: list[Floats]) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Indexes of the moments to draw: first and last, the extremes of the total and the peaks of each band."""
    size = total.size
    if size <= 2 * _TOTAL_BUCKETS:
        return np.arange(size)
    keep = {0, size - 1}
    for part in np.array_split(np.arange(size), _TOTAL_BUCKETS):
        keep |= {int(part[total[part].argmin()]), int(part[total[part].argmax()])}
    for part in np.array_split(np.arange(size), _BAND_BUCKETS):
        keep |= {int(part[band[part].argmax()]) for band in bands if band[part].any()}
    return np.array(sorted(keep))


def _whole(values: Floats) -> list[int]:
    whole: list[int] = np.round(values).astype(np.int64).tolist()
    return whole


def _steps(recording: Recording, processes: tuple[ProcessGrowth, ...], time_s: Floats) -> list[int | None]:
    """The step the process with most steps was in at each moment; empty where nobody counted any."""
    counted = [_series(_narrow(recording, process, "sentinels", "step"), "step") for process in processes]
    at_s, steps = max(counted, key=lambda series: float(series[1].max(initial=-1.0)))
    if not at_s.size:
        return []
    last = np.searchsorted(at_s, time_s, side="right") - 1
    return [int(steps[i]) if i >= 0 else None for i in last]


def _moments(recording: Recording) -> Iterator[Moment]:
    tables = recording.tables
    processes = tables["processes"]
    names = {int_of(row, "pid"): process_name(row) for _, row in processes.iterrows()}

    def who(pid: Any) -> str:
        return f"{names.get(pid, 'process')}[{pid}]" if pid is not None else "the job"

    for at_s, step, phase, text in _rows(tables["marks"], "step", "phase", "text"):
        where = f" at step {step:,}" if step is not None else ""
        if text:
            yield Moment("mark", at_s, f"{text}{where}")
        if phase:
            yield Moment("phase", at_s, f"{phase} begins{where}")
    for at_s, pid, take, reason, took_s in _rows(tables["takes"], "pid", "take", "reason", "duration_s"):
        took = f", {format_duration(took_s)}" if took_s is not None else ""
        yield Moment("take", at_s, f"inventory {take} of {who(pid)} ({reason}{took})")
    for at_s, pid, event, text in _rows(tables["events"], "pid", "event", "text"):
        if event and event not in _SAID_ELSEWHERE:
            yield Moment(_EVENT_KINDS.get(event, "event"), at_s, f"{event}: {text or who(pid)}")
    for at_s, pid, number in _rows(processes, "pid", "exit_signal"):
        if number:
            yield Moment("death", at_s, f"{who(pid)} was ended by {signal_name(number)}")


def _rows(frame: pd.DataFrame, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Time and these columns of every row, None for what is null."""
    cells = frame[list(columns)].astype(object)
    times = frame["time_s"].astype("float64").round(2)
    return zip(times.tolist(), *(cells[c].where(cells[c].notna(), None).tolist() for c in columns))


def _bounded(moments: list[Moment]) -> tuple[list[Moment], dict[str, int]]:
    """At most so many of a kind, evenly chosen, the first and the last among them; and how many are not there."""
    shown: list[Moment] = []
    left_out = {}
    for kind in sorted({m.kind for m in moments}):
        own = [m for m in moments if m.kind == kind]
        if len(own) > _MOST_MOMENTS:
            left_out[kind] = len(own) - _MOST_MOMENTS
            own = [own[i] for i in np.linspace(0, len(own) - 1, _MOST_MOMENTS).round().astype(int)]
        shown += own
    return sorted(shown, key=lambda m: (m.time_s, m.kind, m.text)), left_out
