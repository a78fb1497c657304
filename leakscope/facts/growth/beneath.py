"""A holder that rises in memory that does not: what comes and goes beside it is more than it gains.

What is copied whole again and again, or lies among large things that come and go, hides in the ups and downs of the
process. Snapshots weigh the holder itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ...units import format_bytes
from ..heap.accumulation import accumulations
from ..heap.comparable import Heap, heap_of, heap_to_the_end
from ..heap.owners import user_holder
from ..heap.place import Place
from ..series.arithmetic import Floats, level_at, retained
from ..series.trend import DRIFT_BYTES, GROWING, Trend
from .processes import ProcessGrowth
from .views import View

if TYPE_CHECKING:
    from ...storage import Recording

_SETTLED = 0.1  # of the run: what is filled before is start-up
_GIVEN_BACK = 0.5  # of what it held, after the last snapshot: it may be gone, as it should
_STEADY, _IN_STEP = 6, 4  # snapshots, to be believed; of what gains members with each step
_HIDES = "It is hidden by what comes and goes meanwhile, which is more than it gained."


@dataclass(frozen=True, eq=False)
class Riser:
    """``place`` was larger in each snapshot of ``heap``. ``is_steady``: by as much each time, and nothing was guessed:
    it would be called growth if it stood alone.
    """

    process: ProcessGrowth
    heap: Heap
    place: Place
    is_steady: bool

    @property
    def doubt(self) -> str:
        """Why unclear, where it is not steady enough to be believed and too much to be called none."""
        return f"{self._seen}; a longer run would show"

    @property
    def view(self) -> View:
        start_s, end_s = float(self.heap.time_s[0]), float(self.heap.time_s[-1])
        gained = float(self.place.deep_bytes[-1] - self.place.deep_bytes[0])
        pace = gained / (end_s - start_s)
        reason = f"{self._seen}, by as much in each second"
        trend = Trend(GROWING, reason, start_s, end_s, round(gained), pace, pace, pace)
        return View(trend, may_settle=False, hidden_in=self.process, hides=_HIDES)

    @property
    def _seen(self) -> str:
        first, last = (format_bytes(float(self.place.deep_bytes[i])) for i in (0, -1))
        return (
            f"memory goes up and down by more than it gains, but {self.place.path} was larger in each of "
            f"{len(self.heap.takes)} snapshots, {first} in the first and {last} in the last"
        )


def beneath(
    recording: Recording,
    process: ProcessGrowth,
    run_s: tuple[float, float],
    *,
    min_snapshots: int = 4,  # of fewer that vary by chance one in six, or two, would rise all the time
    min_span: float = 0.4,  # of the run: between the first and the last of them
    min_growth_bytes: int = 4 * DRIFT_BYTES,  # twice what a trend of resident memory needs: it is not seen in that
    min_share: float = 0.5,  # of the holder's growth: resident memory rose by, too, from the first to the last
    min_late_pace: float = 0.5,  # of the usual one, kept up in the last interval: a cache that fills becomes slower
) -> Riser | None:
    """The largest holder that gained from snapshot to snapshot; None where there is none."""
    lasted_s = run_s[1] - run_s[0]
    window_s = run_s[0] + _SETTLED * lasted_s, run_s[1]

    for look in (heap_of, heap_to_the_end):  # the last, too: they are dear in a large process, and soon come seldom
        heap = look(recording, process.pid, *window_s)
        if heap is None or heap.time_s[-1] - heap.time_s[0] < min_span * lasted_s:
            continue
        if len(heap.takes) >= min_snapshots - 1:
            found = _riser(heap, process, min_snapshots, min_growth_bytes, min_share, min_late_pace)
            if found is not None or len(heap.takes) >= min_snapshots:
                return found
    return None


def _riser(
    heap: Heap,
    process: ProcessGrowth,
    min_snapshots: int,
    min_growth_bytes: int,
    min_share: float,
    min_late_pace: float,
) -> Riser | None:
    """``min_snapshots``: one less suffices for what gains members in step with the training."""
    held = np.interp(heap.time_s[[0, -1]], process.time_s, process.held_bytes)
    if heap.is_exact:  # nothing of it is an estimate, so that it needs no second witness
        min_growth_bytes, min_share = min_growth_bytes // 4, 0.0
    found = [
        (one.growth_bytes, user_holder(one.place))
        for one in accumulations(heap.roots, min_growth_bytes)
        if one.place is not None
        and one.growth_bytes >= min_growth_bytes
        and (not min_share or held[1] - held[0] >= min_share * one.growth_bytes)
        and float(user_holder(one.place).deep_bytes[-1]) <= held[1]  # more: buffers that nobody has written to
        and _rises(heap.time_s, user_holder(one.place).deep_bytes, min_late_pace)
        and (len(heap.takes) >= min_snapshots or _is_in_step(heap, user_holder(one.place)))
    ]
    if not found:
        return None
    place = max(found, key=lambda one: one[0])[1]
    if _fell_after(process, heap.time_s) >= _GIVEN_BACK * float(place.deep_bytes[-1]):
        return None
    gained = float(place.deep_bytes[-1] - place.deep_bytes[0])
    if _was_seen_to_stop(process, heap.time_s, gained):
        return None
    is_enough = heap.is_exact and gained >= 2 * DRIFT_BYTES  # as a trend of resident memory needs
    min_steady = _IN_STEP if _is_in_step(heap, place) else _STEADY
    return Riser(process, heap, place, is_enough and _is_steady(heap.time_s, place, min_steady))


def _is_in_step(
    heap: Heap,
    place: Place,
    *,
    min_steps: int = 10,  # from one snapshot to the next
    most_apart: float = 0.1,  # members a step, in one interval and in another
) -> bool:
    """Whether it gained as many members with each step in every interval: no chance, and no cache, does that."""
    steps = np.diff(heap.step)
    if not place.has_length or steps.size < 2 or not np.all(steps >= min_steps):
        return False
    each = np.diff(place.length) / steps
    return bool(each.min() > 0 and np.ptp(each) <= most_apart * each.max())


def _fell_after(process: ProcessGrowth, takes_s: Floats) -> float:
    """How much less the process held after the last snapshot than between the last two."""
    before = process.held_bytes[(process.time_s > takes_s[-2]) & (process.time_s <= takes_s[-1])]
    after = process.held_bytes[process.time_s > takes_s[-1]]
    return float(np.median(before) - np.median(after)) if before.size >= 3 and after.size >= 3 else 0.0


def _was_seen_to_stop(
    process: ProcessGrowth,
    takes_s: Floats,
    gained_bytes: float,
    *,
    min_seen: float = 0.5,  # of what the holder gained: the process did too
    max_swing: float = 0.5,  # of the same, comes and goes beside it: more, and it may hide anything
    max_pace: float = 0.35,  # of the one between the snapshots: as of any series that came to its end
) -> bool:
    """Whether the process grew with the holder while snapshots were taken, and hardly since the last of them."""
    end_s = float(process.time_s[-1])
    levels = [level_at(process.time_s, process.held_bytes, at_s) for at_s in (takes_s[0], takes_s[-1], end_s)]
    seen, since = np.diff(levels)
    expected = gained_bytes * (end_s - takes_s[-1]) / max(float(takes_s[-1] - takes_s[0]), 1e-9)
    held = process.held_bytes[process.time_s >= takes_s[0]]
    if not held.size or float((held - retained(held)).max()) > max_swing * gained_bytes:
        return False
    return bool(seen >= min_seen * gained_bytes and since < max_pace * expected and expected >= DRIFT_BYTES)


def _rises(time_s: Floats, held_bytes: Floats, min_late_pace: float) -> bool:
    rises = np.diff(held_bytes)
    return bool((rises > 0).all() and _paces(time_s, held_bytes)[-1] >= min_late_pace)


def _is_steady(
    time_s: Floats,
    place: Place,
    min_snapshots: int,
    *,
    min_s: float = 15.0,
    most: float = 2.0,  # times the usual pace, or so many times less, in any interval: beyond, it is no steady rise
) -> bool:
    if len(time_s) < min_snapshots or time_s[-1] - time_s[0] < min_s:
        return False
    paces = [_paces(time_s, place.deep_bytes)]
    if place.has_length:  # as many members, too: one that only became larger may be full of something else
        paces.append(_paces(time_s, place.length))
    return all(bool((pace >= 1 / most).all() and (pace <= most).all()) for pace in paces)


def _paces(time_s: Floats, values: Floats) -> Floats:
    """Of each interval, as a share of the whole one's; zeros where nothing was gained."""
    usual = float(values[-1] - values[0]) / max(float(time_s[-1] - time_s[0]), 1e-9)
    found: Floats = np.diff(values) / np.diff(time_s) / usual if usual > 0 else np.zeros(len(values) - 1)
    return found
