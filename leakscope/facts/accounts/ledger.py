"""Where the growth went: one account a row, process by process, summing exactly to what the tree gained.

Each row is the difference of one series (``growth.split``) between the ends of the judged window.
"""

from __future__ import annotations

import numpy as np

from ...findings import LedgerRow
from ...rising import WARM_UP
from ...units import FEWEST, MOST
from ..growth.arenas import in_use_of
from ..growth.processes import ProcessGrowth
from ..growth.split import ESTIMATES, FREE, INHERITED, MAPPED, SHARED, UNEXPLAINED, Parts, accounts
from ..growth.tree import TreeGrowth
from ..series.arithmetic import Floats, level_at

_SHOWN_PROCESSES = 8
_LAST_MOMENTS = WARM_UP  # of the window: what a job lets go of there, and never did before, was held all the time
_NEAR = 1 / 6  # of the window: a reading so near to its end tells of that


def ledger(growth: TreeGrowth) -> list[LedgerRow]:
    """Accounts of the judged window. **Shape** by process, the one that gained most first; then by growth."""
    shown, others = growth.processes[:_SHOWN_PROCESSES], growth.processes[_SHOWN_PROCESSES:]
    rows = [row for process in shown for row in _of_process(growth, process, accounts(process))]
    if others:
        name = f"{len(others)} other processes"
        start, end = (sum(p.held_in(growth.time_s, at_s) for p in others) for at_s in (growth.start_s, growth.end_s))
        rows.append(LedgerRow(UNEXPLAINED, name, start, end, end - start))
        mapped = [_levels(p.time_s, p.file_bytes, (growth.start_s, growth.end_s)) for p in others]
        rows.append(_of_files(name, (sum(start for start, _ in mapped), sum(end for _, end in mapped))))
    return [row for row in rows if row.start_bytes or row.end_bytes]


def growth_of(rows: list[LedgerRow], account: str, process: str | None = None) -> int:
    """What an account gained, in one process or in all."""
    return sum(r.growth_bytes for r in rows if r.account == account and process in (None, r.process))


def accounted_share(rows: list[LedgerRow], process: str) -> float:
    """How much of what a process gained stands in an account with a name, 0 to 1."""
    own = [row for row in rows if row.process == process and row.in_total]
    grown = sum(row.growth_bytes for row in own)
    return 1.0 - min(1.0, abs(growth_of(own, UNEXPLAINED)) / max(grown, 1))


def _of_files(process: str, levels: tuple[float, float]) -> LedgerRow:
    start, end = map(round, levels)
    return LedgerRow(MAPPED, process, start, end, end - start, in_total=False)


def _of_process(growth: TreeGrowth, process: ProcessGrowth, parts: Parts) -> list[LedgerRow]:
    """The difference of the split at the two ends of the window; not born or gone, it has nothing."""
    window = growth.start_s, growth.end_s
    there = tuple(process.held_in(growth.time_s, at_s) for at_s in window)  # which the rows have to reach
    ends_s = window[0], min(window[1], _let_go_s(process, window))
    moments = [_moments(process, at_s, window) for at_s in ends_s]
    levels = {
        account: tuple(float(np.median(np.interp(at_s, parts.time_s, level))) for at_s in moments)
        for account, level in parts.levels.items()
    }
    measured = [account for account in (*ESTIMATES, FREE, SHARED, INHERITED) if not np.isnan(levels[account]).any()]
    said = [sum(levels[account][i] for account in measured) for i in (0, 1)]
    most = [
        min(1.0, held / max(of_all, 1.0)) for of_all, held in zip(said, there)
    ]  # told at other moments, by a little
    whole = {account: [int(level * part) for level, part in zip(levels[account], most)] for account in measured}
    rest = [held - sum(sizes[i] for sizes in whole.values()) for i, held in enumerate(there)]
    for i in (0, 1):
        if 0 < rest[i] <= len(whole):  # what was cut off above, and nothing that is unexplained
            whole[max(whole, key=lambda account: whole[account][i])][i] += rest[i]
            rest[i] = 0
    rows = [
        LedgerRow(account, process.label, start, end, end - start, account in ESTIMATES)
        for account, (start, end) in whole.items()
    ]
    rows.sort(key=lambda row: (-row.growth_bytes, row.account))
    rows.append(LedgerRow(UNEXPLAINED, process.label, rest[0], rest[1], rest[1] - rest[0]))
    return [*rows, _of_files(process.label, _levels(process.time_s, process.file_bytes, window))]


def _moments(process: ProcessGrowth, at_s: float, window: tuple[float, float]) -> Floats:
    """The three nearest to one at which malloc was read: what comes and goes is in use in some readings only.

    The nearest samples of the process where those are far.
    """
    read_s, _, _ = in_use_of(process.rows("sentinels"))
    most_s = _NEAR * (window[1] - window[0])
    read_s = read_s[(np.abs(read_s - at_s) <= most_s) & (read_s >= process.time_s[0]) & (read_s <= process.time_s[-1])]
    known_s = read_s if read_s.size >= FEWEST else process.time_s
    nearest: Floats = known_s[np.argsort(np.abs(known_s - at_s), kind="stable")[:FEWEST]]
    return nearest


def _levels(time_s: Floats, value_bytes: Floats, window: tuple[float, float]) -> tuple[float, float]:
    return level_at(time_s, value_bytes, window[0]), level_at(time_s, value_bytes, window[1])


def _let_go_s(process: ProcessGrowth, window: tuple[float, float]) -> float:
    """From when on a job freed most of what it gained, just before it ended; infinite where it did not.

    Resident memory shows nothing of that, so the window does not end before it.
    """
    time_s, in_use, _ = in_use_of(process.rows("sentinels"))
    inside = time_s >= window[0]
    time_s, gained = time_s[inside], in_use[inside] - in_use[inside][:1]
    if time_s.size < 4:
        return float("inf")
    fallen = np.maximum.accumulate(gained) - gained
    let_go = fallen >= MOST * np.max(gained)
    first = int(np.argmax(let_go))
    if not let_go[first:].all() or time_s[first] < window[1] - _LAST_MOMENTS * (window[1] - window[0]):
        return float("inf")
    return float(time_s[first - 1]) if first else float("inf")
