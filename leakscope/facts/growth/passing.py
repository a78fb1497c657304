"""Growth that may end by itself: the reasons for that, each with how much of what was seen it explains.

Where one explains ``ENOUGH`` of the growth, nobody can tell. Every reason is asked the same, of a process in a window:
a new one is one more function in ``_REASONS``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from ...storage import Recording, is_null
from ...units import FEWEST, HARDLY, MOST, MUCH, SOME, MiB, format_bytes, format_count, format_duration
from ..heap.accumulation import Accumulation, accumulations
from ..heap.comparable import Heap, heaps
from ..heap.naming import MODULES
from ..heap.owners import user_holder, user_place
from ..heap.place import Place, upwards
from ..series.arithmetic import level_at, per_second
from ..series.trend import FLAT, GROWING, LEAST_BYTES, Trend, judge
from ..tables import cells, narrow, only
from .arenas import in_use_of
from .filling import Fills
from .lives import lives_of
from .processes import ProcessGrowth
from .split import INHERITED, split
from .strays import strays_of

ENOUGH = 0.75  # of the growth: so much may end by itself, and nobody can tell about the rest
_LEAST_READINGS = 3 * FEWEST  # of each third so many
_VARIES = MUCH  # of what a process holds: by as much a heap varies with what is asked of it
_LEAST_KEEPS = 32 / 4096  # of what is kept free: in each page one piece that stays in use, the smallest that malloc has
_LIBRARY = 50, SOME  # modules more, and of those that were there: a library
_LEAST_INTERVALS = FEWEST  # between snapshots: of two, what grows steadily fills one by chance
_EVER_MORE = "record longer to see whether it needs ever more"
GPU_HISTORY_ON = "gpu-history-on"  # the agent's note
MOST_HISTORY_BYTES = (
    100 * MiB
)  # of 100,000 allocations with stacks: 0.25 to 0.4 KB each were measured, deep stacks take more


class Passing(NamedTuple):
    """``bytes`` of what was gained may be all that comes; ``text`` says why, and what record longer to be sure."""

    bytes: float
    text: str


@dataclass(frozen=True, eq=False)
class Grown:
    """What was seen to grow. ``may_settle``: not what is in use alone."""

    recording: Recording
    process: ProcessGrowth
    window_s: tuple[float, float]
    filling: Fills | None = None
    may_settle: bool = True

    @property
    def bytes(self) -> int:
        return self.process.growth_bytes

    @cached_property
    def heaps(self) -> list[tuple[Heap, list[Accumulation]]]:
        """The sets of its snapshots, with what piled up in each."""
        found = heaps(self.recording, self.process.pid, *self.window_s)
        return [(heap, list(accumulations(heap, (1 - ENOUGH) / 10 * self.bytes))) for heap in found]

    def held(self, *, without_limit: bool = False) -> float:
        """What holders were seen to gain, by the snapshots that explain most."""
        limited = {one.place.path for one in self.filling.found if one.limit} if self.filling and without_limit else ()
        return max(
            (
                sum(one.growth_bytes for one in found if one.place is None or one.place.path not in limited)
                for _, found in self.heaps
            ),
            default=0.0,
        )

    def goes_on_after(self, at_s: float) -> bool:
        """Whether what came until then is the smaller part, or what came after is growth by itself."""
        p = self.process
        after = (p.time_s >= at_s) & (p.time_s <= self.window_s[1])
        before = level_at(p.time_s, p.held_bytes, at_s) - level_at(p.time_s, p.held_bytes, self.window_s[0])
        return bool(before < MOST * self.bytes or judge(p.time_s[after], p.held_bytes[after]).verdict == GROWING)


def passing(grown: Grown) -> str | None:
    """Why growth may end by itself; None where nothing says so of most of it."""
    for reason in _REASONS:
        found = reason(grown)
        if found is not None and found.bytes >= ENOUGH * grown.bytes:
            return found.text
    return None


def newborn(processes: Sequence[ProcessGrowth], growth_bytes: int, window_s: tuple[float, float]) -> str | None:
    """Most of it was gained by processes that began together in the window, and none was seen to go on growing."""
    start_s, end_s = window_s
    born = [p for p in processes if p.growth_bytes > 0 and p.time_s[0] > start_s]
    if not born or sum(p.growth_bytes for p in born) < MOST * growth_bytes:
        return None
    first_s, last_s = (float(of(p.time_s[0] for p in born)) for of in (min, max))
    if any(p.trend.verdict == GROWING for p in processes) or last_s - first_s > (1 - ENOUGH) * (end_s - start_s):
        return None  # those that go on to begin pile up
    who = f"{len(born)} processes that" if len(born) > 1 else "a process that"
    return (
        f"most of it is memory of {who} began {format_duration(end_s - first_s)} before the end, "
        "too late to see whether it goes on; record longer to be sure"
    )


def starved(worker: ProcessGrowth, trend: Trend) -> str | None:
    """What speaks against growth that was seen to end: the process hardly ran any more, since others had the cores."""
    rows = narrow(worker.rows("process_samples"), "time_s", "run_delay_s", "cpu_s").dropna()
    if trend.growth_bytes < LEAST_BYTES or len(rows) < _LEAST_READINGS:
        return None
    at_s, delay_s, cpu_s = rows.to_numpy(dtype=np.float64).T
    thirds_s = np.linspace(trend.start_s, trend.end_s, 4)
    waited, done = (np.diff(np.interp(thirds_s, at_s, values)) for values in (delay_s, cpu_s))
    share = per_second(float(waited[-1]), float(thirds_s[-1] - thirds_s[-2]))
    if share < MOST or done[-1] > (1 - ENOUGH) * done[0]:
        return None
    return (
        f"it gained {format_bytes(trend.growth_bytes)}, and towards the end it hardly ran: it waited for a core "
        f"{min(share, 1.0):.0%} of the time; record longer to be sure"
    )


def _kept_free(grown: Grown) -> Passing | None:
    """What is in use goes up and down, or hardly grew: an allocator keeps as much as was ever needed.

    No object stayed where the least that was in use did not rise, and nobody wastes it where the least that was free
    did not. Batches of ever other size raise the mark until the largest has been seen; what is freed piles up for good
    only where ever more pieces stay in use between it.
    """
    at_s, used, free = in_use_of(grown.process.rows("sentinels"), grown.window_s)
    if at_s.size < 2 * FEWEST or not grown.may_settle:
        return None
    floors = max(float(half[1].min() - half[0].min()) for half in (np.array_split(one, 2) for one in (used, free)))
    came, more = (float(np.median(one[-FEWEST:]) - np.median(one[:FEWEST])) for one in (used, free))
    gained, held, swings = grown.bytes, grown.held(), float(np.ptp(used))
    swing, stayed, size = max(swings, more), max(floors, held), format_bytes(more)
    is_small = gained <= _VARIES * float(grown.process.held_bytes[-1])
    table = (  # whether it is so, what is no part of it, and what is said
        (swing >= gained and gained - stayed >= ENOUGH * gained, stayed,
         f"what is in use goes up and down by {format_bytes(swing)} and falls back to where it was: record longer to "
         "see whether allocators need ever more for that"),
        (more >= MOST * gained and more - floors >= ENOUGH * more, held,
         f"{size} more are free inside allocators at the end, nearly all of which was in use in between: {_EVER_MORE}"),
        (is_small and more >= (1 - ENOUGH) * gained, max(came, held),
         f"what is in use hardly grew; malloc keeps {size} more free, as for batches of other sizes: record longer to "
         "see whether that ends"),
        (more >= MOST * gained and came <= _LEAST_KEEPS * more and swings <= HARDLY * more, held,
         f"{size} more are free inside allocators, and nothing more is in use that would keep it there: {_EVER_MORE}"),
    )  # fmt: skip
    return next((Passing(gained - others, text) for is_so, others, text in table if is_so), None)


def _need(grown: Grown) -> Passing | None:
    """What it needs at one moment rises, by samples of allocations: an allocator keeps as much as was ever needed.

    And as much again in holes that became too small. What is in use is judged as all that is held is: it does not grow.
    Each thread has a peak of its own in an arena of its own; threads that come after others take their arenas.
    """
    p = grown.process
    rows = p.rows("sentinels")
    at_s, used, _ = in_use_of(rows, (-np.inf, p.exit_s))
    lives = lives_of(p.rows("allocation_lives"), np.random.default_rng(0))
    if at_s.size < _LEAST_READINGS or not len(lives) or not grown.may_settle:
        return None
    arenas = rows["malloc_arena_count"].max()
    needs, threads = lives.needs(p.time_s, int(arenas) if not is_null(arenas) else 1)
    first, last = np.interp(grown.window_s, p.time_s, needs)
    stays = p.judged(at_s, used)
    if stays.verdict != FLAT or last - first < MOST * grown.bytes:
        return None
    begins = "of what is in use, " if stays.reason.startswith("the growth") else "what is in use "
    text = (
        f"{format_count(threads)} threads came to need {format_bytes(last - first)} more, each at its own moment"
        if threads > 1
        else f"it came to need {format_bytes(last - first)} more at one moment, and {begins}{stays.reason}"
    )
    # What holders gained is needed at every moment.
    return Passing(grown.bytes - grown.held(), f"{text}: {_EVER_MORE}")


def _history(grown: Grown) -> Passing | None:
    """It may be what torch's history takes, which the recording turned on; most of it has no holder in Python."""
    if not has_gpu_history(grown.recording, grown.process.pid) or grown.bytes > MOST_HISTORY_BYTES:
        return None
    most = format_bytes(MOST_HISTORY_BYTES)
    return Passing(
        grown.bytes - grown.held(), f"--gpu-history takes up to {most} of memory itself: record again without it"
    )


def has_gpu_history(recording: Recording, pid: int) -> bool:
    """Whether the recording had torch keep the history of what it allocated on GPUs."""
    return (GPU_HISTORY_ON, pid) in cells(recording.rows["agent_notes"], "note", "pid")


def _inherited(grown: Grown) -> Passing | None:
    """Pages of its parent's that a fork copies as it writes to them: no more than it was born with."""
    if not grown.process.is_fork:
        return None
    parts = split(grown.process)
    start, end = np.interp(grown.window_s, parts.time_s, parts.levels[INHERITED])
    text = f"{format_bytes(end - start)} of it are pages that {grown.process.label} copied of its parent's"
    return Passing(float(end - start), f"{text}, which ends once it has copied all; record longer to be sure")


_SURVIVED = 0.25  # of all objects that the collector knows: CPython's own


def _garbage(grown: Grown) -> Passing | None:
    """What grew is garbage in cycles, not more of it than a collector that works leaves lying.

    A full collection begins once what survived the younger ones is a quarter of what survived the last full one
    (gc_collect_main of CPython 3.8 to 3.13): until then garbage rises as if it leaked. It counts objects: a few that
    hold tensors are far from that quarter when they weigh more than all else, and then nobody should wait for it.
    """
    rows = narrow(grown.process.rows("sentinels"), "time_s", "gc_collections", "gc_enabled", "gc_threshold")
    rows = rows.dropna(subset=["gc_collections", "gc_enabled"])
    rows = only(rows, rows["time_s"].between(*grown.window_s))
    if len(rows) < 2 or not rows["gc_enabled"].all() or (rows["gc_threshold"] == 0).any():
        return None
    strays = strays_of(grown.process, *grown.window_s)
    if strays is None or rows["gc_collections"].iloc[-1] <= rows["gc_collections"].iloc[0]:
        return None
    lasted_s = grown.window_s[1] - grown.window_s[0]
    garbage, reached = (strays.gained(series, lasted_s) for series in (strays.unreached_bytes, strays.reached_bytes))
    waits, count = float(strays.unreached_bytes[-1]), sum(float(one.unreached_count[-1]) for one in strays.types)
    tracked = max(grown.process.rows("takes")["gc_object_count"].dropna(), default=0)
    by_then = max(waits, waits / max(count, 1.0) * _SURVIVED * tracked)
    if garbage <= max(reached, (1 - ENOUGH) * grown.bytes) or by_then > MOST * strays.reached_bytes[-1]:
        return None
    text = f"most of what it gained is garbage in cycles ({format_bytes(waits)}), which a full collection frees"
    return Passing(grown.bytes - reached, f"{text}; record longer to be sure")  # with what lies freed between it


def _before_first_step(grown: Grown) -> Passing | None:
    """Most of it came before the first step of a training, nobody was seen to hold it, and it did not go on since."""
    began_s = grown.process.first_step_s
    start_s, end_s = grown.window_s
    if began_s is None or not start_s < began_s < end_s or grown.goes_on_after(began_s):
        return None
    since = format_duration(end_s - began_s)
    text = f"nearly all of it came before the first training step, {since} before the end; record longer to be sure"
    return Passing(grown.bytes - grown.held(), text)


def _imports(grown: Grown) -> Passing | None:
    """Modules were imported while it grew, and nothing else is known to have gained as much: each is imported once.

    Or their C libraries took more than their objects did: then most of the growth came before the last of them was
    there, and what came after is none by itself.
    """
    held = grown.held(without_limit=True)
    for heap, _ in grown.heaps:
        modules = _modules(heap)
        # What came before the last snapshot that is not later than the window came before what is judged.
        first = max(0, int(np.searchsorted(heap.time_s, grown.window_s[0], "right")) - 1)
        if modules is None or modules.length[-1] - modules.length[first] < _library(modules):
            continue
        told = f"{format_count(float(modules.length[-1] - modules.length[first]))} modules were imported while it grew"
        theirs = float(modules.deep_bytes[-1] - modules.deep_bytes[first]) - held
        if theirs >= (1 - ENOUGH) * grown.bytes:  # beside which are pages and memory of C code
            theirs = min(theirs, grown.bytes)
            return Passing(
                grown.bytes - held, f"{told}, and have {format_bytes(theirs)} of it; record longer to be sure"
            )
        until_s = float(heap.time_s[np.argmax(modules.length >= modules.length[-1])])
        if not grown.goes_on_after(until_s):
            text = f"{told}, until {format_duration(until_s)} at the latest; record longer to be sure"
            return Passing(grown.bytes - held, text)
    return None


def _modules(heap: Heap) -> Place | None:
    return next((place for place in heap.places if place.path == MODULES and place.has_length), None)


def _library(modules: Place) -> float:
    """So many modules more are one; fewer may come late."""
    return max(_LIBRARY[0], _LIBRARY[1] * float(modules.length[0]))


def started_s(recording: Recording, process: ProcessGrowth) -> float:
    """Until when a process was seen to load what it runs: its first training step, or modules that were imported.

    What is loaded maps files, opens them and starts threads, on a slow machine for minutes. 0 where nothing shows it.
    """
    until_s = process.first_step_s or 0.0
    for heap in heaps(recording, process.pid, 0.0, float("inf")):
        modules = _modules(heap)
        if modules is None:
            continue
        least = _library(modules)
        if modules.length[-1] - modules.length[0] >= least:
            until_s = max(until_s, float(heap.time_s[np.argmax(modules.length > modules.length[-1] - least)]))
        break
    return until_s


def _believed(grown: Grown) -> tuple[Heap, list[Accumulation], float] | None:
    """The snapshots of the window that explain most of the growth, what piled up in them, and how much that is."""
    looks = ((heap, found, sum(one.growth_bytes for one in found)) for heap, found in grown.heaps)
    best = max(looks, key=lambda look: look[2], default=None)
    return best if best is not None and best[2] > 0 else None


def _at_once(grown: Grown) -> Passing | None:
    """What it gained came to its holders at once, as a table that is read or built does; it may be all that comes."""
    believed = _believed(grown)
    if believed is None or len(believed[0].takes) <= _LEAST_INTERVALS:
        return None
    heap, found, held = believed
    came = [one for one in found if _came_at_once(one)]
    gained = sum(one.growth_bytes for one in came)
    if gained < MOST * grown.bytes:
        return None
    largest = max(came, key=lambda one: one.growth_bytes).place
    assert largest is not None  # else it did not come at once
    largest = user_place(largest)
    at = int(np.argmax(np.diff(largest.deep_bytes)))
    between = f"between {format_duration(heap.time_s[at])} and {format_duration(heap.time_s[at + 1])}"
    told = f"{largest.path} has {format_bytes(largest.growth_bytes)}, which came at once {between}"
    return Passing(grown.bytes - (held - gained), f"{told}; record longer to see whether more comes")


def _came_at_once(one: Accumulation) -> bool:
    """Seen at the user's name: what is in it may be another object each time, as a buffer that was made larger is.

    Where the name has less, since others hold the same: no object of another time is known.
    """
    if one.place is None or one.is_guess:
        return False
    named = user_place(one.place)
    gained = named.growth_bytes
    return bool(gained >= MOST * one.place.growth_bytes and np.diff(named.deep_bytes).max() >= ENOUGH * gained > 0)


def _emptied(grown: Grown) -> Passing | None:
    """What holds most of it held much less in a snapshot after the judged window, while what leads to it was there."""
    believed = _believed(grown)
    if believed is None:
        return None
    heap, found, held = believed
    to_the_end = heaps(grown.recording, grown.process.pid, grown.window_s[0], float("inf"))
    whole = next((h for h in to_the_end if h.is_exact == heap.is_exact), None)
    if whole is None or not (whole.time_s > heap.time_s[-1]).any():
        return None
    at, last_s = int(np.argmax(whole.time_s > heap.time_s[-1])), float(heap.time_s[-1])
    places = {place.path: place for place in whole.places}
    named = [(one.growth_bytes, user_holder(one.place)) for one in found if one.place is not None]
    let_go = [
        (gained, place, places[place.path])
        for gained, place in named
        if place.path in places
        and [*upwards(places[place.path])][-1].count[at] > 0
        and places[place.path].deep_bytes[at] < MOST * place.deep_bytes[-1]
    ]
    gone = sum(gained for gained, *_ in let_go)
    if gone < MOST * held:
        return None
    _, place, later = max(let_go, key=lambda one: one[0])
    first, then = format_bytes(place.deep_bytes[-1]), format_bytes(later.deep_bytes[at])
    seen = f"{first} at {format_duration(last_s)} and {then} at {format_duration(whole.time_s[at])}"
    text = f"{place.path} held {seen}: it was emptied: record longer to see whether it is each time"
    return Passing(grown.bytes, text)


_REASONS = (
    _need, _kept_free, _history, _inherited, _garbage, _before_first_step, _imports, _emptied, _at_once,
)  # fmt: skip
