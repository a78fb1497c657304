"""What a process holds, split over time into accounts that add up: at every sample, by what was read then.

What the kernel counts comes first (shared memory; mapped files stand beside the sum); then what malloc says it keeps
free; then what snapshots say (tensors, arrays, Python objects, native memory to which objects lead: native-held); then
what malloc handed out and none of them explains (native). ``unexplained`` is the remainder. Where estimates say more
than there is they are cut.

Not measured is not zero: a whole column of NaN. What a fork was born with is none of its own: its counters begin with
it, and pages of its parent's that it copied as it wrote to them are an account, ``inherited``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from ...rising import BLOCKS
from ...storage import Rows
from ...units import HARDLY, MOST
from ..remembered import remembered
from ..series.arithmetic import Floats, slope_interval
from ..tables import only, series, without_last
from .paces import paced
from .processes import ProcessGrowth
from .strays import kept_by_c

SHARED, MAPPED, FREE, HELD, NATIVE = "shared-memory", "mapped-files", "allocator-free", "native-held", "native"
PYTHON, INHERITED, UNEXPLAINED = "python-objects", "inherited", "unexplained"
TAKE_COLUMNS = {"tensors": "tensor_bytes", "arrays": "array_bytes", PYTHON: "python_bytes"}
ESTIMATES = (*TAKE_COLUMNS, HELD, NATIVE)
IN_TOTAL = (*ESTIMATES, FREE, SHARED, INHERITED, UNEXPLAINED)  # in the order in which they are stacked
_OF_SNAPSHOTS = {**TAKE_COLUMNS, HELD: "native_held_bytes"}
_MALLOC = ("malloc_in_use_bytes", "malloc_free_bytes", "pymalloc_bytes", "pymalloc_in_use_bytes")


class Parts(NamedTuple):
    """What a process held at some moments, by account. **Units** bytes; NaN where nobody measured."""

    time_s: Floats
    levels: dict[str, Floats]


@remembered
def accounts(process: ProcessGrowth) -> Parts:
    """As ``split`` has it, at each sample of the process."""
    return split(process)


def split(process: ProcessGrowth, at: ProcessGrowth | None = None) -> Parts:
    """At each sample; the accounts of ``IN_TOTAL`` add up to what it held.

    ``at``: the same process with other samples, as a closer look at a part of its life has them.
    """
    at = at if at is not None else process
    # Its first sample before all others, since what it was born with is told by that.
    time_s = np.append(process.time_s[:1], at.time_s)
    there = np.maximum(0.0, np.append(process.private_bytes[:1], at.private_bytes))
    in_use, free, arenas, small = (_read(process, column, time_s) for column in _MALLOC)
    born_with = 0.0
    if process.is_fork:
        born_with = sum(float(counted[0]) for counted in (in_use, arenas) if counted is not None)
        in_use, free, arenas, small = (
            None if counted is None else np.maximum(0.0, counted - counted[0])
            for counted in (in_use, free, arenas, small)
        )
    levels: dict[str, Floats] = {}
    if in_use is not None and free is not None:
        # malloc counts as free also what it gave back to the kernel: never more than the room there is.
        room = there - in_use - (arenas if arenas is not None else 0.0)
        levels[FREE] = np.clip(np.minimum(free, room), 0.0, there)
    if arenas is not None and small is not None:
        levels[FREE] = np.minimum(levels.get(FREE, 0.0) + np.maximum(0.0, arenas - small), there)
    busy = there - levels.get(FREE, 0.0)
    estimates, span_s = _estimates(process, time_s, busy)
    if small is not None and PYTHON in estimates:
        estimates[PYTHON] = _with_small(estimates[PYTHON], small, time_s, span_s)
    levels |= _no_more_than(estimates, busy)
    if in_use is not None and estimates:
        # Small Python objects live in arenas outside malloc; where nobody counted those, what malloc cannot have handed
        # out is theirs.
        outside = small if small is not None else np.maximum(0.0, busy - in_use)
        explained = sum(levels[account] for account in estimates) - np.minimum(outside, levels.get(PYTHON, 0.0))
        explained -= np.minimum(levels.get("arrays", 0.0), _beyond_malloc(process, time_s))
        levels[NATIVE] = np.maximum(0.0, in_use - explained)
        _put_blocks_of_c(levels, process, time_s)
    if NATIVE in levels:  # it has what was asked for, and nobody has to have written to that
        others = sum(levels[account] for account in levels if account != NATIVE)
        levels[NATIVE] = np.clip(levels[NATIVE], 0.0, np.maximum(0.0, there - others))
    levels = _no_more_than(levels, there)
    rest = there - sum(levels.values(), start=np.zeros_like(time_s))
    if born_with:  # what it has in use by its own counts, and no snapshot told, is none of its parent's
        counted = sum(level for level in (in_use, small) if level is not None)
        told = sum(level for account, level in levels.items() if account != FREE)
        levels[INHERITED] = np.clip(rest - np.maximum(0.0, counted - told), 0.0, born_with)
        rest = rest - levels[INHERITED]
    nobody_knows = np.full_like(time_s, np.nan)
    levels |= {UNEXPLAINED: rest}
    columns = {account: levels.get(account, nobody_knows)[1:] for account in IN_TOTAL}
    return Parts(at.time_s, columns | {SHARED: at.shared_bytes, MAPPED: at.file_bytes})


def _read(process: ProcessGrowth, column: str, time_s: Floats) -> Floats | None:
    """A straight line between two readings. None without two."""
    at_s, values = series(process.rows("sentinels"), column)
    at_work = at_s <= process.exit_s
    if at_work.sum() >= 2:  # what a program gives back while it shuts down says nothing about its life
        at_s, values = at_s[at_work], values[at_work]
    if at_s.size < 2:
        return None
    found: Floats = np.interp(time_s, at_s, values)
    return found


def _beyond_malloc(process: ProcessGrowth, time_s: Floats) -> Floats:
    """Of arrays: mappings, and memory of libraries that have an allocator of their own."""
    graphs = process.rows("heap_graphs")
    at_s, values = series(without_last(graphs, process.rows("takes")), "beyond_malloc_bytes")
    return np.interp(time_s, at_s, values) if at_s.size else np.zeros_like(time_s)


def _with_small(objects: Floats, small: Floats, time_s: Floats, span_s: tuple[float, float]) -> Floats:
    """What snapshots did not reach, modules and their code above all, is in Python's own arenas all the same.

    Between the first snapshot and the last, ``span_s``, the objects grew by the larger of the two. Later, small
    ones as far as they were read, and the others, of which there is the same share, as they were carried on.
    """
    (objects_then, objects_last), (small_then, small_last) = (
        np.interp(span_s, time_s[1:], level[1:]) for level in (objects, small)
    )
    grown, of_small = objects - objects_then, small - small_then
    both = max(objects_then, small_then) + np.maximum(grown, of_small)
    late = time_s > span_s[1]
    if objects_last > objects_then and late.any():
        share = np.clip((small_last - small_then) / (objects_last - objects_then), 0.0, 1.0)
        carried = objects[late] - objects_last
        changes = np.flatnonzero(np.diff(small[late]))  # the last reading goes on in a level line
        until = carried[changes[-1] + 1] if changes.size else 0.0
        come = small[late] - small_last + (1 - share) * carried + share * np.maximum(0.0, carried - until)
        both[late] = np.interp(span_s[1], time_s[1:], both[1:]) + come
    before = time_s < span_s[0]
    both[before] = max(objects_then, small_then) + np.minimum(grown, of_small)[before]
    found: Floats = np.maximum(small, both)
    return found


def _no_more_than(levels: Mapping[str, Floats], there: Floats) -> dict[str, Floats]:
    """Cut where all together would be more than there is: a snapshot at a peak says too much for the foot of it."""
    said = sum(levels.values(), start=np.zeros_like(there))
    part = np.where(said > there, np.maximum(there, 0.0) / np.maximum(said, 1.0), 1.0)
    return {account: level * part for account, level in levels.items()}


def _estimates(process: ProcessGrowth, time_s: Floats, busy: Floats) -> tuple[dict[str, Floats], tuple[float, float]]:
    """What snapshots say, on straight lines between them, and when the first was made and the last.

    Before the first and after the last of them carried on, as a holder of that is, by steps or by time; and as far as
    what is ``busy`` went that way, whatever comes and goes in each step.
    """
    life_s = float(process.time_s[0]), float(process.time_s[-1])
    takes = _of_whole_graphs(_exact(process.rows("takes"), process.rows("heap_graphs")), life_s)
    found: dict[str, Floats] = {}
    before: dict[str, Floats] = {}
    after: dict[str, Floats] = {}
    read_s: list[Floats] = []
    for account, column in _OF_SNAPSHOTS.items():
        if column not in takes:
            continue
        at_s, values = series(without_last(takes, takes), column)
        if at_s.size < 2:  # sampled snapshots do not weigh tensors: what is there at the very end is the least
            at_s, values = series(takes, column)
        if at_s.size < 2 or at_s[-1] <= at_s[0]:
            continue
        at, now = paced(process, at_s, values, time_s)
        began = max(0, int(np.argmax(np.abs(values - values[0]) > HARDLY * np.ptp(values))) - 1)
        pace = float((values[-1] - values[began]) / (at[-1] - at[began]))
        found[account] = np.interp(now, at, values)
        earlier = pace * np.maximum(0.0, at[0] - now) if not began else np.zeros_like(now)
        before[account] = -np.minimum(values[0], earlier)
        late = values[-1] - np.interp((at[0] + at[-1]) / 2, at, values)
        if abs(late) > HARDLY * np.ptp(values):  # else it came with what was loaded, and stays
            after[account] = np.maximum(-values[-1], pace * np.maximum(0.0, now - at[-1]))
        read_s.append(at_s[[0, -1]])
    if not found:
        return {}, life_s
    first_s, last_s = min(one[0] for one in read_s), max(one[1] for one in read_s)
    for carried, beyond in ((before, time_s <= first_s), (after, time_s >= last_s)):
        hoped = sum(carried.values(), start=np.zeros_like(busy))
        part = _borne_out(hoped[beyond], busy[beyond])
        for account, more in carried.items():
            found[account] = np.maximum(0.0, found[account] + part * more)
    if process.is_fork:
        found = {account: np.maximum(0.0, level - level[0]) for account, level in found.items()}
    return found, (float(first_s), float(last_s))


def _borne_out(hoped: Floats, busy: Floats) -> float:
    """As much of what was hoped as what is in use went that way: all of it, where that moves too much to deny it."""
    stretches = min(BLOCKS, hoped.size)
    if stretches < 2:
        return 0.0
    came, rose = (np.array([np.median(part) for part in np.array_split(of, stretches)]) for of in (hoped, busy))
    if np.ptp(came) < 1.0:
        return 0.0
    order = np.argsort(came, kind="stable")  # what becomes less was more
    slope, _, high, _ = slope_interval(came[order], rose[order])
    return 1.0 if high >= 1.0 else float(np.clip(slope, 0.0, 1.0))


def _put_blocks_of_c(levels: dict[str, Floats], process: ProcessGrowth, time_s: Floats) -> None:
    """What C code keeps of Python's own allocator is native memory, too, and no Python objects."""
    blocks = kept_by_c(process, float(process.time_s[0]), float(process.time_s[-1]))
    if blocks is None or PYTHON not in levels:
        return
    pace = blocks.gained_bytes / float(blocks.time_s[-1] - blocks.time_s[0])
    since = np.maximum(0.0, time_s - blocks.time_s[0])
    kept = np.minimum(pace * since, np.maximum(0.0, levels[PYTHON] - levels[PYTHON][0]))
    levels[PYTHON], levels[NATIVE] = levels[PYTHON] - kept, levels[NATIVE] + kept


def _exact(takes: Rows, graphs: Rows) -> Rows:
    """With what Python objects take from the graphs of the heap, where there are two: then nothing is estimated."""
    graphs = only(graphs, graphs["retained_bytes"].notna()).drop_duplicates("take", keep="last")
    if len(without_last(only(takes, takes["take"].isin(graphs["take"])), takes)) < 2:
        return takes
    objects = graphs["retained_bytes"] - graphs["array_bytes"].fillna(0) - graphs["storage_bytes"].fillna(0)
    held = graphs["native_bytes"].fillna(0)
    return takes.assign(
        python_bytes=takes["take"].map(dict(zip(graphs["take"], objects - held))),
        native_held_bytes=takes["take"].map(dict(zip(graphs["take"], held))),
        is_sampled=takes["take"].map(dict(zip(graphs["take"], graphs["is_sampled"]))),
    )


def _of_whole_graphs(takes: Rows, window: tuple[float, float]) -> Rows:
    """Without those of which a part was read, where others that read all span most of the window.

    A part weighs what the program itself keeps well, and of libraries' objects only those near to their modules: what
    it does not reach would count as memory of C code. The snapshot of the end, when locals are gone, counts where it
    shows more than all before it.
    """
    if "is_sampled" not in takes or not takes["is_sampled"].fillna(False).any():
        return takes
    whole = only(takes, ~takes["is_sampled"].fillna(False) & takes["python_bytes"].notna())
    most = without_last(takes, takes)["python_bytes"].max()
    known = [without_last(whole, takes)]
    if len(whole) and whole["python_bytes"].iloc[-1] > most:
        known.append(whole.assign(reason="schedule"))
    for rows in known:
        spans = rows["time_s"].max() - max(rows["time_s"].min(), window[0])
        if len(rows) >= 2 and spans >= MOST * (window[1] - window[0]):
            return rows
    return takes
