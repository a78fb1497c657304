"""Where the growth went: one account a row, process by process, summing exactly to what the tree gained.

What the kernel counts comes first (shared memory; pages of mapped files stand beside the sum); then what malloc says it
keeps free; then what the snapshots estimate (tensors, arrays, Python objects, native memory to which objects lead:
native-held); then what malloc handed out and none of them explains (native).
``unexplained`` is the remainder, so the accounts always close. Where estimates say more than there is they are cut.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ...findings import LedgerRow
from ...units import MOST
from ..growth.processes import ProcessGrowth
from ..growth.strays import kept_by_c
from ..growth.tree import TreeGrowth
from ..growth.views import in_use_of
from ..series.arithmetic import Floats, level_at
from ..tables import only, series, without_last

if TYPE_CHECKING:
    import pandas as pd


_MAPPED = "mapped-files"
_COUNTED = "shared-memory"  # by the kernel
_HELD = "native-held"
_ESTIMATES = ("tensors", "arrays", "python-objects", _HELD, "native")
TAKE_COLUMNS = {"tensors": "tensor_bytes", "arrays": "array_bytes", "python-objects": "python_bytes"}
_OF_GRAPHS = {_HELD: "native_held_bytes"}  # as _exact has them
_SHOWN_PROCESSES = 8
_UNEXPLAINED = "unexplained"
_LAST_MOMENTS = 0.15  # of the window: what a job lets go of there, and never did before, was held all the time


def ledger(growth: TreeGrowth) -> list[LedgerRow]:
    """Accounts of the judged window. **Shape** by process, the one that gained most first; then by growth."""
    shown, others = growth.processes[:_SHOWN_PROCESSES], growth.processes[_SHOWN_PROCESSES:]
    rows = [row for process in shown for row in _of_process(growth, process)]
    if others:
        name = f"{len(others)} other processes"
        start, end = (sum(p.held_in(growth.time_s, at_s) for p in others) for at_s in (growth.start_s, growth.end_s))
        rows.append(LedgerRow(_UNEXPLAINED, name, start, end, end - start))
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
    return 1.0 - min(1.0, abs(growth_of(own, _UNEXPLAINED)) / max(grown, 1))


def _of_files(process: str, levels: tuple[float, float]) -> LedgerRow:
    start, end = map(round, levels)
    return LedgerRow(_MAPPED, process, start, end, end - start, in_total=False)


def _of_process(growth: TreeGrowth, process: ProcessGrowth) -> list[LedgerRow]:
    window = (growth.start_s, growth.end_s)
    levels: dict[str, tuple[float, float]] = {
        _COUNTED: _levels(process.time_s, process.shared_bytes, window),
    }
    private = _levels(process.time_s, process.private_bytes, window)
    lived = max(window[0], float(process.time_s[0])), min(window[1], float(process.time_s[-1]))
    levels.update(_inside(process, lived, private))
    start_bytes, end_bytes = (process.held_in(growth.time_s, at_s) for at_s in window)  # which the rows have to reach
    if not start_bytes:  # not yet born: all that it holds is growth
        levels = {account: (0.0, end) for account, (_, end) in levels.items()}
    if not end_bytes:
        levels = {account: (start, 0.0) for account, (start, _) in levels.items()}
    levels = _no_more_than(levels, (start_bytes, end_bytes))
    rows = []
    for account, (start, end) in levels.items():
        first, last = int(start), int(end)
        estimated = account in _ESTIMATES
        rows.append(LedgerRow(account, process.label, first, last, last - first, estimated))
    rows.sort(key=lambda row: (-row.growth_bytes, row.account))
    rest_start = start_bytes - sum(row.start_bytes for row in rows)
    rest_end = end_bytes - sum(row.end_bytes for row in rows)
    rows.append(LedgerRow(_UNEXPLAINED, process.label, rest_start, rest_end, rest_end - rest_start))
    return [*rows, _of_files(process.label, _levels(process.time_s, process.file_bytes, window))]


def _no_more_than(levels: dict[str, tuple[float, float]], there: tuple[int, int]) -> dict[str, tuple[float, float]]:
    """Cut where all together would be more than there is: pages that a fork shares are in use in both.

    What the kernel counts stays. First goes what malloc handed out and nobody has written to: ``native`` has that, told
    by what was asked for. Of the others each gives by what it had at both ends: growth is hardly touched.
    """
    if "native" in levels:
        start, end = levels["native"]
        too_much = min(sum(level[1] for level in levels.values()) - there[1], end - start)
        levels = {**levels, "native": (start, end - max(0.0, too_much))}
    others = [account for account in levels if account != _COUNTED]
    steady = {account: min(levels[account]) for account in others}
    cut = {account: [0.0, 0.0] for account in others}
    for i, there_bytes in enumerate(there):
        too_much = sum(level[i] for level in levels.values()) - there_bytes
        for weights in (steady, {account: levels[account][i] for account in others}):
            rest = too_much - sum(cut[account][i] for account in others)
            total = sum(weights.values())
            for account in others if rest > 0 and total > 0 else ():
                most = levels[account][i] - cut[account][i]
                cut[account][i] += min(most, rest * weights[account] / total)
    return {
        account: (start - cut[account][0], end - cut[account][1]) if account in cut else (start, end)
        for account, (start, end) in levels.items()
    }


def _levels(time_s: Floats, value_bytes: Floats, window: tuple[float, float]) -> tuple[float, float]:
    return level_at(time_s, value_bytes, window[0]), level_at(time_s, value_bytes, window[1])


def _inside(
    process: ProcessGrowth, window: tuple[float, float], private: tuple[float, float]
) -> dict[str, tuple[float, float]]:
    """Accounts only the process itself can tell: start and end of each; empty without its sentinels and snapshots."""
    sentinels = _before_letting_go(process.rows("sentinels"), window)
    in_use = _at_ends(sentinels, "malloc_in_use_bytes", window)
    free = _at_ends(sentinels, "malloc_free_bytes", window)
    takes = _of_whole_graphs(_exact(process.rows("takes"), process.rows("heap_graphs")), window)
    gained = private[1] - private[0]
    levels: dict[str, tuple[float, float]] = {}
    arenas = _between(sentinels, "pymalloc_bytes", window)
    small = _between(sentinels, "pymalloc_in_use_bytes", window)
    if in_use and free:
        # malloc counts as free also what it gave back to the kernel: never more than the room there is.
        room = max(0.0, gained - (in_use[1] - in_use[0]) - (max(0.0, arenas[1] - arenas[0]) if arenas else 0.0))
        kept = min(free[1] - free[0], room)
        start = min(free[0], max(0.0, private[0] - in_use[0] - (arenas[0] if arenas else 0.0)))
        levels["allocator-free"] = (start, max(0.0, start + kept))
    if arenas and small:
        known = levels.get("allocator-free", (0.0, 0.0))
        levels["allocator-free"] = (known[0] + arenas[0] - small[0], known[1] + arenas[1] - small[1])
    if "allocator-free" in levels:
        gained -= levels["allocator-free"][1] - levels["allocator-free"][0]
    estimates = _estimates(takes, window, gained)
    if small and "python-objects" in estimates:
        # What a snapshot did not reach, modules and their code above all, is in Python's own arenas all the same.
        start, end = estimates["python-objects"]
        begun = max(start, small[0])
        estimates["python-objects"] = (begun, begun + max(end - start, small[1] - small[0]))
    estimates = _within(estimates, private)
    levels.update(estimates)
    if in_use and estimates:
        explained_start, explained_end = (sum(level[i] for level in estimates.values()) for i in (0, 1))
        of_python = estimates.get("python-objects", (0.0, 0.0))
        objects = max(0.0, of_python[1] - of_python[0])
        # Small Python objects live in arenas outside malloc; where nobody counted those, what malloc cannot have
        # handed out is theirs.
        outside = small[1] - small[0] if small else gained - (in_use[1] - in_use[0])
        native = max(0.0, in_use[1] - in_use[0] - (explained_end - explained_start - min(max(0.0, outside), objects)))
        in_arenas = min(small[0], of_python[0]) if small else 0.0
        start = max(0.0, min(in_use[0], private[0]) - (explained_start - in_arenas))
        levels["native"] = (start, start + native)
    return _with_blocks_of_c(levels, process, window)


def _with_blocks_of_c(
    levels: dict[str, tuple[float, float]], process: ProcessGrowth, window: tuple[float, float]
) -> dict[str, tuple[float, float]]:
    """What C code keeps of Python's own allocator is native memory, too, and no growth of Python objects."""
    blocks = kept_by_c(process, *window)
    if blocks is None or not {"native", "python-objects"} <= set(levels):
        return levels
    (start, end), native = levels["python-objects"], levels["native"]
    kept = blocks.gained_bytes * (window[1] - window[0]) / float(blocks.time_s[-1] - blocks.time_s[0])
    objects = start, end - min(kept, max(0.0, end - start))
    return {**levels, "python-objects": objects, "native": (native[0], native[1] + kept)}


def _exact(takes: pd.DataFrame, graphs: pd.DataFrame) -> pd.DataFrame:
    """With what Python objects take from the graphs of the heap, where there are two: then nothing is estimated."""
    graphs = only(graphs, graphs["retained_bytes"].notna()).drop_duplicates("take", keep="last").set_index("take")
    if len(without_last(only(takes, takes["take"].isin(graphs.index)), takes)) < 2:
        return takes
    objects = graphs["retained_bytes"] - graphs["array_bytes"].fillna(0) - graphs["storage_bytes"].fillna(0)
    held = graphs["native_bytes"].fillna(0)
    return takes.assign(
        python_bytes=takes["take"].map(objects - held),
        native_held_bytes=takes["take"].map(held),
        is_sampled=takes["take"].map(graphs["is_sampled"]),
    )


def _of_whole_graphs(takes: pd.DataFrame, window: tuple[float, float]) -> pd.DataFrame:
    """Without those of which a part was read, where others that read all span most of the window.

    A part weighs what the program itself keeps well, and of libraries' objects only those near to their modules: what
    it does not reach would count as memory of C code. The snapshot of the end, when locals are gone, counts where it
    shows more than all before it.
    """
    if "is_sampled" not in takes or not takes["is_sampled"].fillna(False).any():
        return takes
    whole = only(takes, ~takes["is_sampled"].fillna(False).astype(bool) & takes["python_bytes"].notna())
    most = without_last(takes, takes)["python_bytes"].max()
    known = [without_last(whole, takes)]
    if len(whole) and whole["python_bytes"].iloc[-1] > most:
        known.append(whole.assign(reason="schedule"))
    for rows in known:
        spans = rows["time_s"].max() - max(rows["time_s"].min(), window[0])
        if len(rows) >= 2 and spans >= MOST * (window[1] - window[0]):
            return rows
    return takes


def _before_letting_go(sentinels: pd.DataFrame, window: tuple[float, float]) -> pd.DataFrame:
    """The readings without the last, where a job freed most of what it gained just before it ended.

    Resident memory shows nothing of that, so the window does not end before it.
    """
    time_s, in_use, _ = in_use_of(sentinels)
    inside = time_s >= window[0]
    time_s, gained = time_s[inside], in_use[inside] - in_use[inside][:1]
    if time_s.size < 4:
        return sentinels
    fallen = np.maximum.accumulate(gained) - gained
    let_go = fallen >= 0.5 * np.max(gained)
    first = int(np.argmax(let_go))
    if not let_go[first:].all() or time_s[first] < window[1] - _LAST_MOMENTS * (window[1] - window[0]):
        return sentinels
    before: pd.DataFrame = only(sentinels, sentinels["time_s"] < time_s[first])
    return before


def _within(estimates: dict[str, tuple[float, float]], private: tuple[float, float]) -> dict[str, tuple[float, float]]:
    """Estimates cut down to the memory there was: a snapshot at the peak of a saw-tooth says too much for its foot."""
    sums = [sum(level[i] for level in estimates.values()) for i in (0, 1)]
    start, end = (min(1.0, there / said) if said > 0 else 1.0 for said, there in zip(sums, private))
    return {account: (level[0] * start, level[1] * end) for account, level in estimates.items()}


def _at_ends(rows: pd.DataFrame, column: str, window: tuple[float, float]) -> tuple[float, float] | None:
    time_s, values = series(rows, column)
    if time_s.size < 2:
        return None
    return tuple(float(np.median(values[np.argsort(np.abs(time_s - at), kind="stable")[:3]])) for at in window)  # type: ignore[return-value]


def _between(rows: pd.DataFrame, column: str, window: tuple[float, float]) -> tuple[float, float] | None:
    """As above for what is read seldom: a straight line between two readings."""
    time_s, values = series(rows, column)
    if time_s.size < 2:
        return None
    return float(np.interp(window[0], time_s, values)), float(np.interp(window[1], time_s, values))


def _estimates(takes: pd.DataFrame, window: tuple[float, float], gained: float) -> dict[str, tuple[float, float]]:
    """What snapshots say, carried on in a straight line to the ends of the window, never beyond what was gained."""
    measured: dict[str, tuple[float, float]] = {}
    carried: dict[str, tuple[float, float]] = {}
    for account, column in (*TAKE_COLUMNS.items(), *_OF_GRAPHS.items()):
        if column not in takes:
            continue
        time_s, values = series(without_last(takes, takes), column)
        if time_s.size < 2:  # sampled snapshots do not weigh tensors: what is there at the very end is the least
            time_s, values = series(takes, column)
        if time_s.size < 2 or time_s[-1] <= time_s[0]:
            continue
        start, end = (float(np.interp(at, time_s, values)) for at in window)
        slope = float((values[-1] - values[0]) / (time_s[-1] - time_s[0]))
        before, after = max(0.0, time_s[0] - window[0]), max(0.0, window[1] - time_s[-1])
        measured[account] = start, end
        carried[account] = max(0.0, start - slope * before), max(0.0, end + slope * after)
    certain = sum(end - start for start, end in measured.values())
    hoped = sum(end - start for start, end in carried.values())
    part = float(np.clip((gained - certain) / (hoped - certain), 0.0, 1.0)) if hoped > certain else 0.0
    return {
        account: (
            start + part * (carried[account][0] - start),
            end + part * (carried[account][1] - end),
        )
        for account, (start, end) in measured.items()
    }
