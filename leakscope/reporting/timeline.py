"""Memory of the whole tree over the run, to be drawn: by account, by process, with what happened marked on it.

The accounts are those of the ledger, told at every moment instead of at two; ``other`` is what it calls unexplained.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from ..facts.case import Case
from ..facts.growth.processes import ProcessGrowth, alive_in, process_growths, rounds_of
from ..facts.growth.split import ESTIMATES, FREE, INHERITED, MAPPED, SHARED, UNEXPLAINED, accounts, split
from ..facts.series.arithmetic import Floats, extremes
from ..facts.tables import series
from ..findings import OTHERS, Band, Outlook, Timeline, Verdict
from ..storage import Recording
from ..units import HARDLY, LISTED
from .moments import moments

_TOTAL_BUCKETS = 400  # two points each, the lowest and the highest: about what a wide screen can show
_BAND_BUCKETS = 40  # more points for the peaks of single bands, whatever the total does there
_LEFT = HARDLY  # of the growth: memory that never comes back below this has left its level
_REST = "other"
_ACCOUNTS = (*ESTIMATES, _REST, INHERITED, FREE, SHARED, MAPPED)  # as they are stacked, from the bottom


def timeline(case: Case) -> Timeline | None:
    """The run as it is drawn; None without two samples of memory."""
    growth = case.growth
    time_s = rounds_of(growth.processes) if growth.processes else np.empty(0)
    if time_s.size < 2:
        return None
    by_account, by_process = _levels(case, growth.processes, time_s)
    processes = _largest(by_process)
    total = sum(by_account.values(), start=np.zeros_like(time_s))
    accounts = _visible(by_account, float(total.max()))
    shown = thinned(total, [*accounts.values(), *processes.values()])
    marked, left_out = moments(case)
    return Timeline(
        time_s=np.round(time_s[shown], 2).tolist(),
        total_bytes=_whole(total[shown]),
        accounts=[Band(name, _whole(level[shown]), name in ESTIMATES) for name, level in accounts.items()],
        processes=[Band(name, _whole(level[shown])) for name, level in processes.items()],
        step=_steps(case, time_s[shown]),
        moments=marked,
        left_out=left_out,
    )


def window(case: Case, part: Recording, whole: Timeline) -> Timeline | None:
    """A part of it with more of its moments: ``part`` has the samples of that part; the bands are those of the whole.

    None where nothing was sampled in it.
    """
    found = process_growths(part)
    time_s = rounds_of(found) if found else np.empty(0)
    if time_s.size < 2:
        return None
    by_account, by_process = _levels(case, found, time_s)
    total = sum(by_account.values(), start=np.zeros_like(time_s))
    shown = thinned(total, list(by_process.values()))

    def bands(told: Sequence[Band], levels: dict[str, Floats], rest: str) -> list[Band]:
        names = {band.name for band in told}
        left = sum((level for name, level in levels.items() if name not in names), start=np.zeros_like(time_s))
        found = {band.name: levels.get(band.name, np.zeros_like(time_s)) for band in told}
        if rest in found:
            found[rest] = found[rest] + left
        return [Band(band.name, _whole(found[band.name][shown]), band.estimated) for band in told]

    return replace(
        whole,
        time_s=np.round(time_s[shown], 2).tolist(),
        total_bytes=_whole(total[shown]),
        accounts=bands(whole.accounts, by_account, _REST),
        processes=bands(whole.processes, by_process, whole.processes[-1].name),
        step=_steps(case, time_s[shown]),
    )


def _levels(
    case: Case, processes: Sequence[ProcessGrowth], time_s: Floats
) -> tuple[dict[str, Floats], dict[str, Floats]]:
    """Bytes at these moments by account, and by process."""
    by_process: dict[str, Floats] = {}
    by_account: dict[str, Floats] = {}
    nothing = np.zeros_like(time_s)
    for process in processes:
        levels = accounts_of(case, process, time_s)
        by_process[process.label] = sum(levels.values(), start=by_process.get(process.label, nothing))
        for account, level in levels.items():
            by_account[account] = by_account.get(account, nothing) + level
    return by_account, by_process


def accounts_of(case: Case, process: ProcessGrowth, time_s: Floats) -> dict[str, Floats]:
    """Bytes of each account of a process at these moments: 0 before its birth, after its death and if not measured."""
    alive = alive_in(process, time_s)
    whole = next((p for p in case.growth.processes if p.key == process.key), process)
    is_whole = process.tables is case.recording.rows  # and not a process as a closer look sees it
    parts = accounts(whole) if is_whole else split(whole, process)
    levels = {
        account: np.where(alive, np.interp(time_s, parts.time_s, np.nan_to_num(level)), 0.0)
        for account, level in parts.levels.items()
    }
    rest = levels.pop(UNEXPLAINED)
    return {account: rest if account == _REST else levels[account] for account in _ACCOUNTS}


def _visible(by_account: dict[str, Floats], high: float, *, min_share: float = 0.002) -> dict[str, Floats]:
    """Accounts as they are stacked; those that are never ``min_share`` of the peak, half a pixel, join the rest."""
    thin = [name for name in _ACCOUNTS if by_account[name].max() < min_share * high and name != _REST]
    rest = sum((by_account[name] for name in thin), start=by_account[_REST])
    return {name: rest if name == _REST else by_account[name] for name in _ACCOUNTS if name not in thin}


def _largest(bands: dict[str, Floats]) -> dict[str, Floats]:
    """The processes with the highest peaks, and the sum of all others: more pids in a legend nobody looks up."""
    order = sorted(bands, key=lambda name: (-float(bands[name].max()), name))
    shown = {name: bands[name] for name in order[:LISTED]}
    others = order[LISTED:]
    if len(others) == 1:
        shown[others[0]] = bands[others[0]]
    elif others:
        shown[f"{len(others)} {OTHERS}"] = sum((bands[name] for name in others), start=np.zeros_like(bands[order[0]]))
    return shown


def thinned(total: Floats, bands: list[Floats]) -> np.ndarray[Any, np.dtype[np.intp]]:
    """Indexes of the moments to draw: the extremes of the total and the peaks of each band."""
    if total.size <= 2 * _TOTAL_BUCKETS:
        return np.arange(total.size)
    keep = set(extremes(total, _TOTAL_BUCKETS).tolist())
    for part in np.array_split(np.arange(total.size), _BAND_BUCKETS):
        keep |= {int(part[band[part].argmax()]) for band in bands if band[part].any()}
    return np.array(sorted(keep))


def _whole(values: Floats) -> list[int]:
    whole: list[int] = np.round(values).astype(np.int64).tolist()
    return whole


def _steps(case: Case, time_s: Floats) -> list[int | None]:
    """The step the process with most steps was in at each moment; empty where nobody counted any."""
    counted = [series(process.rows("sentinels"), "step") for process in case.growth.processes]
    at_s, steps = max(counted, key=lambda one: float(one[1].max(initial=-1.0)))
    if not at_s.size:
        return []
    last = np.searchsorted(at_s, time_s, side="right") - 1
    return [int(steps[i]) if i >= 0 else None for i in last]


def outlook(case: Case, verdict: Verdict, drawn: Timeline) -> Outlook | None:
    """Where growth leads: the judged window, since when it grows, and the straight line up to the limit.

    None where nothing was judged; without a line where the job does not leak, without a limit where none is
    near.
    """
    start_s, end_s = case.growth.start_s, case.growth.end_s
    if not end_s > start_s:
        return None
    window = Outlook(round(start_s, 2), round(end_s, 2))
    time_s, total = np.asarray(drawn.time_s), np.asarray(drawn.total_bytes, dtype=np.float64)
    inside = (time_s >= window.start_s) & (time_s <= window.end_s)
    if not case.growth.leaking or inside.sum() < 2 or case.growth.growth_bytes <= 0:
        return window
    time_s, total = time_s[inside], total[inside]
    ahead = case.forecast if verdict.seconds_to_limit is not None else None
    if ahead is not None and not ahead.limit.is_of_memory:  # a GPU, /dev/shm: not of what is drawn
        ahead = None
    slope = ahead.bytes_per_s if ahead is not None else case.growth.growth_bytes / (end_s - start_s)
    offset = float(np.median(total - slope * time_s))
    end_bytes = offset + slope * end_s
    kept = np.minimum.accumulate(total[::-1])[::-1]  # what was never given back
    left = kept <= kept[0] + _LEFT * (kept[-1] - kept[0])
    return Outlook(
        window.start_s,
        window.end_s,
        began_s=float(time_s[left][-1]),
        start_bytes=round(offset + slope * start_s),
        end_bytes=round(end_bytes),
        limit=ahead.limit.kind if ahead is not None else None,
        limit_bytes=round(end_bytes + slope * ahead.seconds) if ahead is not None else None,
        full_s=round(end_s + ahead.seconds, 1) if ahead is not None else None,
    )
