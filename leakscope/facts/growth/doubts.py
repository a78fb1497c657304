"""What speaks against growth that was seen: it may end by itself. The answer is a reason, or None."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...units import MOST, MiB, format_bytes, format_count, format_duration
from ..heap.accumulation import Accumulation, accumulations
from ..heap.comparable import Heap, heaps
from ..heap.naming import MODULES
from ..heap.owners import user_holder, user_place
from ..heap.place import Place
from ..series.arithmetic import Floats, level_at
from ..series.trend import DRIFT_BYTES, GROWING, Trend, judge
from ..tables import cells, narrow, only
from .filling import Fills
from .processes import ProcessGrowth
from .strays import strays_of

if TYPE_CHECKING:
    from ...storage import Recording

_MALLOC = ["malloc_in_use_bytes", "malloc_free_bytes"]
_KEYED = ("dict", "set", "collections.OrderedDict", "collections.Counter", "collections.defaultdict")
_LEAST_CPU_S = 0.1  # between two snapshots: it is counted in hundredths
GPU_HISTORY_ON = "gpu-history-on"  # the agent's note
MOST_HISTORY_BYTES = (
    100 * MiB
)  # of 100,000 allocations with stacks: 0.25 to 0.4 KB each were measured, deep stacks take more
_LEAST_SHARE = 0.05  # of the growth: what holds less explains nothing


def newborn(
    processes: Sequence[ProcessGrowth],
    growth_bytes: int,
    window_s: tuple[float, float],
    *,
    together_share: float = 0.25,  # of the window: those that go on to begin pile up
) -> str | None:
    """Most of it was gained by processes that began together in the window, and none was seen to go on growing."""
    start_s, end_s = window_s
    born = [p for p in processes if p.growth_bytes > 0 and p.time_s[0] > start_s]
    if not born or sum(p.growth_bytes for p in born) < MOST * growth_bytes:
        return None
    if any(p.trend.verdict == GROWING for p in processes):
        return None
    first_s, last_s = (float(of(p.time_s[0] for p in born)) for of in (min, max))
    if last_s - first_s > together_share * (end_s - start_s):
        return None
    who = f"{len(born)} processes that" if len(born) > 1 else "a process that"
    return (
        f"most of it is memory of {who} began {format_duration(end_s - first_s)} before the end, "
        "too late to see whether it goes on; a longer run would show"
    )


def starved(
    worker: ProcessGrowth,
    trend: Trend,
    *,
    min_waited: float = 0.5,  # of the last third of the time
    max_work: float = 0.3,  # of the first third's: more would have shown whether it goes on
) -> str | None:
    """What speaks against growth that was seen to end: the process hardly ran any more, since others had the cores."""
    if trend.growth_bytes < 2 * DRIFT_BYTES:
        return None
    rows = narrow(worker.rows("process_samples"), "time_s", "run_delay_s", "cpu_s").dropna()
    if len(rows) < 8:
        return None
    at_s, delay_s, cpu_s = rows.to_numpy(dtype=np.float64).T
    thirds_s = np.linspace(trend.start_s, trend.end_s, 4)
    waited, done = (np.diff(np.interp(thirds_s, at_s, values)) for values in (delay_s, cpu_s))
    share = float(waited[-1] / max(thirds_s[-1] - thirds_s[-2], 1e-9))
    if share < min_waited or done[-1] > max_work * done[0]:
        return None
    return (
        f"it gained {format_bytes(trend.growth_bytes)}, and towards the end it hardly ran: it waited for a core "
        f"{min(share, 1.0):.0%} of the time; a longer run would show"
    )


def settling(
    process: ProcessGrowth,
    window_s: tuple[float, float],
    *,
    min_free_share: float = 0.3,  # of the growth: the reason why it is there at all
    max_in_use_share: float = 0.25,  # of the growth: above, something is held
    max_share: float = 0.2,  # of what the process holds: by as much a heap varies with what is asked of it
) -> str | None:
    """Only malloc's high-water mark rises: batches of ever other size do this until the largest has been seen."""
    growth_bytes = process.growth_bytes
    rows = narrow(process.rows("sentinels"), "time_s", *_MALLOC).dropna(subset=_MALLOC)
    rows = only(rows, rows["time_s"].between(*window_s))
    if len(rows) < 6 or growth_bytes > max_share * float(process.held_bytes[-1]):
        return None
    first, last = (np.median(part[_MALLOC].to_numpy(dtype=np.float64), axis=0) for part in (rows[:3], rows[-3:]))
    in_use, free = last - first
    if in_use > max_in_use_share * growth_bytes or free < min_free_share * growth_bytes:
        return None
    return (
        f"what is in use hardly grew; malloc keeps {format_bytes(free)} more free, as for batches of other sizes: "
        "a longer run would show whether that ends"
    )


def reused(
    process: ProcessGrowth,
    window_s: tuple[float, float],
    *,
    min_free_share: float = 0.5,  # of the growth: what came to be free by the end
    max_floor_share: float = 0.3,  # of that: by which the least that was free rose, or the least in use
) -> str | None:
    """What allocators keep free at the end was in use shortly before: the process grew to its largest need so far.

    Memory that nobody can use any more is free all the time, and the least that is free rises.
    """
    sentinels = process.rows("sentinels")
    sentinels = only(sentinels, sentinels["time_s"].between(*window_s))
    malloc = sentinels[_MALLOC].dropna().to_numpy(dtype=np.float64)
    small = sentinels[["pymalloc_in_use_bytes", "pymalloc_bytes"]].dropna().to_numpy(dtype=np.float64)  # rarer
    if len(malloc) < 9:
        return None
    free = [malloc[:, 1], small[:, 1] - small[:, 0]]
    in_use = [malloc[:, 0], small[:, 0]]
    gained = sum(_rise(figure, np.median, 3) for figure in free)
    floors = [sum(_rise(figure, np.min, len(figure) // 3) for figure in figures) for figures in (free, in_use)]
    if gained < min_free_share * process.growth_bytes or max(floors) > max_floor_share * gained:
        return None
    return (
        f"{format_bytes(gained)} more are free inside allocators at the end, and nearly all of that was in use in "
        "between: a longer run would show whether it needs ever more"
    )


def breathing(
    process: ProcessGrowth,
    window_s: tuple[float, float],
    *,
    max_floor_share: float = 0.2,  # of the growth: by which the least in use rose, or the least that was free
) -> str | None:
    """What is in use goes up and down by more than was gained, and falls back to where it was: no object stayed.

    As in ``reused``, but the end may be in any phase of it. Of Python's small objects blocks are counted at each look;
    how large they are, and what there is for them in all, is known more rarely.
    """
    columns = [*_MALLOC, "allocated_blocks", "pymalloc_bytes", "pymalloc_in_use_bytes"]
    rows = narrow(process.rows("sentinels"), "time_s", *columns).dropna(subset=["time_s", *columns[:3]])
    rows = only(rows, rows["time_s"].between(*window_s))
    weighed = rows.dropna()
    if len(rows) < 9 or len(weighed) < 2:
        return None
    at_s, malloc, free_of_malloc, blocks = rows[["time_s", *columns[:3]]].to_numpy(dtype=np.float64).T
    weighed_s, weighed_blocks, there, in_use = (
        weighed[column].to_numpy(dtype=np.float64) for column in ("time_s", *columns[2:])
    )
    small = blocks * np.interp(at_s, weighed_s, in_use / np.maximum(weighed_blocks, 1.0))
    used = malloc + small
    free = free_of_malloc + np.interp(at_s, weighed_s, there) - small
    rose = [_rise(figure, np.min, len(rows) // 2) for figure in (used, free)]  # in a third there may be no peak
    swing = float(np.ptp(used))
    if swing < process.growth_bytes or max(rose) > max_floor_share * process.growth_bytes:
        return None
    return (
        f"what is in use goes up and down by {format_bytes(swing)} and falls back to where it was: a longer run would "
        "show whether allocators need ever more for that"
    )


def _rise(figure: Floats, of: Callable[[Floats], float], count: int) -> float:
    """From its first values to its last."""
    return float(of(figure[-count:]) - of(figure[:count])) if count and figure.size >= 2 * count else 0.0


def uncollected(
    process: ProcessGrowth,
    window_s: tuple[float, float],
    *,
    min_share: float = 0.4,  # of the growth: garbage, and with it what lies freed between it
    max_reached_share: float = 0.3,  # of the growth: above, something is held
    max_heap_share: float = 0.5,  # of all that is reached: twice what waits for a full collection
) -> str | None:
    """What grew is garbage in cycles, not more of it than a collector that works leaves lying.

    A full collection begins once what survived the younger ones is a quarter of what survived the last full one
    (gc_collect_main of CPython 3.8 to 3.13): until then garbage rises as if it leaked.
    """
    rows = narrow(process.rows("sentinels"), "time_s", "gc_collections", "gc_enabled", "gc_threshold")
    rows = rows.dropna(subset=["gc_collections", "gc_enabled"])
    rows = only(rows, rows["time_s"].between(*window_s))
    if len(rows) < 2 or not rows["gc_enabled"].astype(bool).all() or rows["gc_threshold"].eq(0).any():
        return None
    strays = strays_of(process, *window_s)
    if strays is None or rows["gc_collections"].iloc[-1] <= rows["gc_collections"].iloc[0]:
        return None
    lasted_s = window_s[1] - window_s[0]
    garbage, reached = (strays.gained(series, lasted_s) for series in (strays.unreached_bytes, strays.reached_bytes))
    is_most = garbage >= min_share * process.growth_bytes and reached <= max_reached_share * process.growth_bytes
    if not is_most or strays.unreached_bytes[-1] > max_heap_share * strays.reached_bytes[-1]:
        return None
    waits = format_bytes(float(strays.unreached_bytes[-1]))
    return (
        f"most of what it gained is garbage in cycles ({waits}), which a full collection frees; a longer run would show"
    )


def importing(
    recording: Recording,
    process: ProcessGrowth,
    window_s: tuple[float, float],
    filling: Fills | None = None,
    *,
    min_share: float = 0.3,  # of the growth: their Python objects, beside which are pages and memory of C code
    min_more: float = 0.1,  # of the modules that were there
    min_count: int = 50,
) -> str | None:
    """Modules were imported while it grew, and nothing else is known to have gained as much: each is imported once.

    Or their C libraries took more than their objects did: then most of the growth came before the last of them was
    there, and what came after is none by itself.
    """
    for heap in heaps(recording, process.pid, *window_s):
        modules = next((place for place in heap.places if place.path == MODULES and place.has_length), None)
        if modules is None:
            continue
        more = float(modules.length[-1] - modules.length[0])
        gained = float(modules.deep_bytes[-1] - modules.deep_bytes[0])
        least = min_share * process.growth_bytes
        held = sum(one.growth_bytes for one in accumulations(heap.roots, 0.1 * least) if not _is_limited(one, filling))
        if more < max(min_count, min_more * modules.length[0]) or held >= least:
            continue
        told = f"{format_count(more)} modules were imported while it grew"
        if gained - held >= least:
            theirs = format_bytes(min(gained - held, process.growth_bytes))
            return f"{told}, and have {theirs} of it; a longer run would show"
        until_s = float(heap.time_s[np.argmax(modules.length >= modules.length[-1])])
        if _ended_by(process, window_s, until_s):
            return f"{told}, until {format_duration(until_s)} at the latest; a longer run would show"
    return None


def started_s(recording: Recording, process: ProcessGrowth, *, min_more: float = 0.1, min_count: int = 50) -> float:
    """Until when a process was seen to load what it runs: its first training step, or modules that were imported.

    What is loaded maps files, opens them and starts threads, on a slow machine for minutes. 0 where nothing shows it;
    ``min_more`` of the modules that were there and ``min_count`` are less than a library, and may come late.
    """
    until_s = process.first_step_s or 0.0
    for heap in heaps(recording, process.pid, 0.0, float("inf")):
        modules = next((place for place in heap.places if place.path == MODULES and place.has_length), None)
        if modules is None:
            continue
        least = max(min_count, min_more * modules.length[0])
        if modules.length[-1] - modules.length[0] >= least:
            until_s = max(until_s, float(heap.time_s[np.argmax(modules.length > modules.length[-1] - least)]))
        break
    return until_s


def starting(
    recording: Recording,
    process: ProcessGrowth,
    window_s: tuple[float, float],
    *,
    min_share: float = 0.3,  # of the growth: what holds as much is the answer
) -> str | None:
    """Most of it came before the first step of a training, nobody was seen to hold it, and it did not go on since."""
    began_s = process.first_step_s
    if began_s is None or not window_s[0] < began_s < window_s[1] or not _ended_by(process, window_s, began_s):
        return None
    least = min_share * process.growth_bytes
    for heap in heaps(recording, process.pid, *window_s):
        if sum(one.growth_bytes for one in accumulations(heap.roots, 0.1 * least)) >= least:
            return None
    since = format_duration(window_s[1] - began_s)
    return f"nearly all of it came before the first step, {since} before the end; a longer run would show"


def observed(recording: Recording, process: ProcessGrowth, window_s: tuple[float, float]) -> str | None:
    """It may be what torch's history takes, which the recording turned on; most of it has no holder in Python."""
    if not has_gpu_history(recording, process.pid) or process.growth_bytes > MOST_HISTORY_BYTES:
        return None
    for heap in heaps(recording, process.pid, *window_s):
        if sum(one.growth_bytes for one in accumulations(heap.roots, MiB)) >= MOST * process.growth_bytes:
            return None
    most = format_bytes(MOST_HISTORY_BYTES)
    return f"--gpu-history takes up to {most} of memory itself: record again without it"


def has_gpu_history(recording: Recording, pid: int) -> bool:
    """Whether the recording had torch keep the history of what it allocated on GPUs."""
    return (GPU_HISTORY_ON, pid) in cells(recording.tables["agent_notes"], "note", "pid")


def _is_limited(one: Accumulation, filling: Fills | None) -> bool:
    found = filling.found if filling is not None else ()
    return one.place is not None and any(each.limit and each.place.path == one.place.path for each in found)


def _ended_by(process: ProcessGrowth, window_s: tuple[float, float], until_s: float, *, min_share: float = 0.5) -> bool:
    after = (process.time_s >= until_s) & (process.time_s <= window_s[1])
    before = level_at(process.time_s, process.held_bytes, until_s) - level_at(
        process.time_s, process.held_bytes, window_s[0]
    )
    if before < min_share * process.growth_bytes:
        return False
    return judge(process.time_s[after], process.held_bytes[after]).verdict != GROWING


def unfinished(recording: Recording, process: ProcessGrowth, window_s: tuple[float, float]) -> str | None:
    """What its holders say: they were emptied since, or all of it came at once."""
    looked = _believed(recording, process, window_s)
    if looked is None:
        return None
    heap, found = looked
    return (
        _emptied(recording, process, window_s, heap, found)
        or _arriving(process, heap, found)
        or _repeating(process, heap, found)
    )


def _arriving(
    process: ProcessGrowth,
    heap: Heap,
    found: list[Accumulation],
    *,
    min_intervals: int = 3,  # between snapshots: of two, what grows steadily fills one by chance
    min_at_once: float = 0.8,  # of what a holder gained, in one of them
    min_share: float = 0.5,  # of the growth: less, and it does not explain it
    most_besides: float = 0.25,  # of the growth, of holders that gained in several intervals: they are the answer then
) -> str | None:
    """What it gained came to its holders at once, as a table that is read or built does; it may be all that comes."""
    if len(heap.takes) <= min_intervals:
        return None
    came = [one for one in found if _came_at_once(one, min_at_once)]
    gained = sum(one.growth_bytes for one in came)
    besides = sum(one.growth_bytes for one in found) - gained
    if gained < min_share * process.growth_bytes or besides >= most_besides * process.growth_bytes:
        return None
    largest = max(came, key=lambda one: one.growth_bytes).place
    assert largest is not None  # else it did not come at once
    largest = user_place(largest)
    at = int(np.argmax(np.diff(largest.deep_bytes)))
    between = f"between {format_duration(heap.time_s[at])} and {format_duration(heap.time_s[at + 1])}"
    told = f"{largest.path} has {format_bytes(largest.growth_bytes)}, which came at once {between}"
    return f"{told}; a longer run would show whether more comes"


def _repeating(
    process: ProcessGrowth,
    heap: Heap,
    found: list[Accumulation],
    *,
    min_takes: int = 4,  # of three intervals that vary by chance one in six would be in this order
    most_late: float = 0.5,  # of the pace of the first interval, in the last
    min_share: float = 0.5,  # of what all holders gained: less, and it does not explain it
) -> str | None:
    """Most is in a table whose keys begin to repeat: for the same work it gains ever less, as a vocabulary does.

    By CPU time, since on a busy machine the same work takes ever longer. Of lists nothing follows from that: what is
    copied whole, or gone through, costs more with each member.
    """
    tables = [one for one in found if one.place is not None and user_holder(one.place).type_name in _KEYED]
    largest = max(tables, key=lambda one: one.growth_bytes, default=None)
    if largest is None or largest.place is None or len(heap.takes) < min_takes:
        return None
    place = user_holder(largest.place)
    if not place.has_length or largest.growth_bytes < min_share * sum(one.growth_bytes for one in found):
        return None
    rows = process.rows("process_samples").dropna(subset=["cpu_s"])
    if len(rows) < 2:
        return None
    at_s, cpu_s = (rows[name].to_numpy(dtype=np.float64) for name in ("time_s", "cpu_s"))
    spent_s = np.diff(np.interp(heap.time_s, at_s, cpu_s))
    if not spent_s.size or spent_s.min() < _LEAST_CPU_S:
        return None
    paces = np.diff(place.length) / spent_s
    if paces[-1] <= 0 or not (np.diff(paces) < 0).all() or paces[-1] > most_late * paces[0]:
        return None
    told = f"{place.path} gains ever less for the same work: {format_count(paces[0])} members in a second of CPU time"
    return f"{told} at first, {format_count(paces[-1])} at last; a longer run would show whether its keys only repeat"


def _came_at_once(one: Accumulation, min_at_once: float) -> bool:
    """Seen at the user's name: what is in it may be another object each time, as a buffer that was made larger is.

    Where the name has less, since others hold the same: no object of another time is known.
    """
    if one.place is None or one.is_guess:
        return False
    named = user_place(one.place)
    gained = named.growth_bytes
    return bool(gained >= MOST * one.place.growth_bytes and np.diff(named.deep_bytes).max() >= min_at_once * gained > 0)


def _emptied(
    recording: Recording,
    process: ProcessGrowth,
    window_s: tuple[float, float],
    heap: Heap,
    found: list[Accumulation],
    *,
    min_share: float = 0.5,  # of what all holders gained: less, and it does not explain it
    most_left: float = 0.5,  # of what it held: it was emptied, and fills again
) -> str | None:
    """What holds most of it held much less in a snapshot after the judged window, while what leads to it was there."""
    whole = next(
        (h for h in heaps(recording, process.pid, window_s[0], float("inf")) if h.is_exact == heap.is_exact), None
    )
    if whole is None or not (whole.time_s > heap.time_s[-1]).any():
        return None
    at, last_s = int(np.argmax(whole.time_s > heap.time_s[-1])), float(heap.time_s[-1])
    places = {place.path: place for place in whole.places}
    named = [(one.growth_bytes, user_holder(one.place)) for one in found if one.place is not None]
    let_go = [
        (gained, place, places[place.path])
        for gained, place in named
        if place.path in places
        and _root_of(places[place.path]).count[at] > 0
        and places[place.path].deep_bytes[at] < most_left * place.deep_bytes[-1]
    ]
    if not let_go or sum(gained for gained, *_ in let_go) < min_share * sum(one.growth_bytes for one in found):
        return None
    _, place, later = max(let_go, key=lambda one: one[0])
    first, then = format_bytes(place.deep_bytes[-1]), format_bytes(later.deep_bytes[at])
    seen = f"{first} at {format_duration(last_s)} and {then} at {format_duration(whole.time_s[at])}"
    return f"{place.path} held {seen}: it is emptied, and a longer run would show whether it is each time"


def _root_of(place: Place) -> Place:
    while place.parent is not None:
        place = place.parent
    return place


def _believed(
    recording: Recording, process: ProcessGrowth, window_s: tuple[float, float]
) -> tuple[Heap, list[Accumulation]] | None:
    """The snapshots of the window that explain most of the growth, and what piled up in them."""
    looks = [
        (heap, list(accumulations(heap.roots, _LEAST_SHARE * process.growth_bytes)))
        for heap in heaps(recording, process.pid, *window_s)
    ]
    return max(looks, key=lambda look: sum(one.growth_bytes for one in look[1]), default=None)
