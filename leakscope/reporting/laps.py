"""What a job does again and again, laid over each other: does each epoch, or each step, need more than the last?

Memory that comes and goes within a lap hides growth from lap to lap; side by side, the floors and the peaks show it.
"""

from __future__ import annotations

import math
from collections import Counter

import numpy as np

from ..facts.case import Case
from ..facts.growth.paces import counted_steps
from ..facts.series.arithmetic import Floats, extremes
from ..facts.tables import cells, only
from ..findings import Lap, Laps
from ..units import FEWEST, format_count

_LEAST_SAMPLES = 4  # of a lap, or its floor and its peak mean nothing
_MOST = 200  # listed, and drawn as floors and peaks
_MOST_DRAWN = 24  # laid over each other: more lines cannot be told apart
_HOPED = 16  # where steps are put together, about so many laps
_CELLS = 60  # of a lap as it is drawn: two points each, the lowest and the highest
_ROUND = (1, 2, 5)


def laps(case: Case) -> Laps | None:
    """By phases that come again; else by steps, so many together that memory was seen within; None without either."""
    time_s, held = case.growth.time_s, case.growth.held_bytes
    if time_s.size < FEWEST * _LEAST_SAMPLES:
        return None
    steps = counted_steps(case.rows("sentinels"))
    return _by_phase(case, steps, time_s, held) or _by_steps(case.step_unit, steps, time_s, held)


def _by_phase(case: Case, steps: tuple[Floats, Floats] | None, time_s: Floats, held: Floats) -> Laps | None:
    """From each beginning of the phase that comes again most often to the next."""
    marks = case.rows("marks")
    marks = only(marks, marks["phase"].notna() & marks["text"].isna() & marks["pid"].notna())
    if not len(marks):
        return None
    own = only(marks, marks["pid"] == Counter(marks["pid"]).most_common(1)[0][0]).sort_values("time_s")
    passed = list(cells(own, "phase", "time_s"))
    begun = [one for before, one in zip([(None, 0.0), *passed], passed) if before[0] != one[0]]
    counts = Counter(phase for phase, _ in begun)
    phase = max(counts, key=counts.__getitem__)  # of several the first
    starts = np.array([at_s for name, at_s in begun if name == phase], dtype=np.float64)
    if starts.size < FEWEST:
        return None
    ends = np.append(starts[1:], time_s[-1])
    names = [f"{phase} {number}" for number in range(1, starts.size + 1)]
    if steps is not None:
        first = np.interp(starts, *steps)
        names = [
            f"{name}, from {case.step_unit} {format_count(round(step))}" for name, step in zip(names, first.tolist())
        ]
    others = [str(name) for name in counts if name != phase and counts[name] >= FEWEST]
    return _laps(" and ".join([str(phase), *others]), "s", names, starts, ends, time_s, held, time_s)


def _by_steps(word: str, steps: tuple[Floats, Floats] | None, time_s: Floats, held: Floats) -> Laps | None:
    """Each step where several samples fall into it; else a round number of steps together. ``word``: what one is."""
    if steps is None:
        return None
    at_s, count = steps
    first, last = float(count[0]), float(count[-1])
    inside = (time_s >= at_s[0]) & (time_s <= at_s[-1])
    whole = last - first
    most = min(_HOPED, int(inside.sum()) // _LEAST_SAMPLES)
    if whole < FEWEST or most < FEWEST:
        return None
    size = 1 if whole <= inside.sum() / _LEAST_SAMPLES else _round_up(whole / most)
    edges = np.arange(np.ceil(first / size), np.floor(last / size) + 1) * size
    if edges.size <= FEWEST:
        return None
    moments = _when(at_s, count, edges)
    names = [f"from {word} {format_count(round(step))}" for step in edges[:-1].tolist()]
    names = names if size > 1 else [name.removeprefix("from ") for name in names]
    by = word if size == 1 else f"{format_count(size)} {word}s"
    unit = "s" if size == 1 else word
    at = time_s if size == 1 else np.interp(time_s, at_s, count)
    return _laps(by, unit, names, moments[:-1], moments[1:], time_s, held, at)


def _round_up(least: float) -> int:
    """1, 2, 5, 10, 20 and so on: the smallest that is not below ``least``."""
    power: int = 10 ** int(math.log10(max(least, 1.0)))
    return next(factor * power for factor in (*_ROUND, 10) if factor * power >= least)


def _when(at_s: Floats, count: Floats, edges: Floats) -> Floats:
    """When each of these steps began, as far as the readings of the counter tell."""
    numbers, firsts = np.unique(count, return_index=True)
    found: Floats = np.interp(edges, numbers, at_s[firsts])
    return found


def _laps(
    by: str, unit: str, names: list[str], starts: Floats, ends: Floats, time_s: Floats, held: Floats, at: Floats
) -> Laps | None:
    """``at``: what counts along a lap, at each sample; it begins at 0 in each."""
    parts = [np.flatnonzero((time_s >= start) & (time_s < end)) for start, end in zip(starts, ends)]
    kept = [number for number, part in enumerate(parts) if part.size >= _LEAST_SAMPLES]
    if len(kept) < max(FEWEST, len(parts) // 2):
        return None
    listed = [kept[i] for i in _evenly(len(kept), _MOST)]
    drawn = {listed[i] for i in _evenly(len(listed), _MOST_DRAWN)}
    found = []
    for number in listed:
        part = parts[number]
        values = held[part]
        keep = extremes(values, _CELLS) if number in drawn else np.arange(0)
        along, shown = np.round((at[part] - at[part[0]])[keep], 2).tolist(), np.round(values[keep]).astype(int).tolist()
        start_s, end_s = (round(float(moments[number]), 2) for moments in (starts, ends))
        floor, peak = round(float(values.min())), round(float(values.max()))
        found.append(Lap(names[number], start_s, end_s, floor, peak, along, shown))
    return Laps(by, unit, found, len(kept) - len(listed))


def _evenly(count: int, most: int) -> list[int]:
    """So many indexes, the first and the last among them."""
    return sorted(set(np.linspace(0, count - 1, min(count, most)).round().astype(int).tolist()))
