"""Clocks of several machines brought in line: by the steps and marks that ranks pass together.

A step of data-parallel training ends at about the same moment on every rank, since each waits for the gradients of
all. The clock of a boot counts from another moment on each host, and wall clocks may be wrong by seconds. So the offset
of a machine is the median of how far apart both saw the same steps. Ranks on one machine share its clock as it is.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..facts.series.arithmetic import Floats
from ..facts.tables import cells
from ..storage import Recording, Rows
from ._job import ALONE, BOOT, EVENTS, WALL

_MOST_EVENTS = 256  # of steps, and of marks: more change a median by nothing
_FEWEST = 3  # events that two machines have to share
_SPREAD_S = 2.0  # events that lie further apart, or move, are not passed together
_READING_S = 0.05  # a mark is written down within that
_NS = 1e9

Events = Mapping[Hashable, tuple[float, float]]
"""What a rank passed: when, and within how much that is known. **Units** seconds since its recording began."""


@dataclass(frozen=True)
class Clock:
    """A machine's recording clock against the job's axis: add ``offset_s``. See ``NodeRow`` for the other figures."""

    offset_s: float
    aligned_by: str
    shared_count: int = 0
    spread_s: float | None = None
    wall_off_s: float | None = None


@dataclass(frozen=True)
class Started:
    """When a recording began by the clocks of its machine, and what its ranks passed."""

    machine: str
    start_mono_ns: int
    start_unix_ns: int
    events: Events


def events_of(recording: Recording) -> Events:
    """Steps, by readings of the counter a second or so apart, and marks of the program's own."""
    return {**_steps(recording.rows["sentinels"]), **_marks(recording.rows["marks"])}


def _steps(rows: Rows) -> dict[Hashable, tuple[float, float]]:
    """Round numbers, so that two ranks keep the same ones. A step lies between the readings round it."""
    rows = rows[rows["step"].notna()]
    if not len(rows):
        return {}
    parts = [own for _, own in rows.groupby("pid")]
    own = max(parts, key=lambda own: own["step"].max() - own["step"].min()).sort_values("time_s")
    at_s = own["time_s"].to_numpy(dtype=np.float64)
    count: Floats = np.maximum.accumulate(own["step"].to_numpy(dtype=np.float64))
    first, last = int(count[0]), int(count[-1])
    every = 1
    while (last - first) / every > _MOST_EVENTS:
        every *= 2
    numbers = np.arange(first // every + 1, last // every + 1) * every
    after = np.searchsorted(count, numbers, side="left")
    low, high = count[after - 1], count[after]
    within = at_s[after] - at_s[after - 1]
    when = at_s[after - 1] + (numbers - low - 0.5) / (high - low) * within
    return {("step", int(n)): (float(t), float(w) / 2) for n, t, w in zip(numbers, when, within)}


def _marks(rows: Rows) -> dict[Hashable, tuple[float, float]]:
    found: dict[Hashable, tuple[float, float]] = {}
    passed: dict[Hashable, int] = {}
    for phase, text, step, at_s in cells(rows.sort_values("time_s"), "phase", "text", "step", "time_s"):
        if len(found) >= _MOST_EVENTS:
            break
        what = (phase, text)
        passed[what] = passed.get(what, 0) + 1
        found[("mark", *what, passed[what] if step is None else f"step {int(step)}")] = (float(at_s), _READING_S)
    return found


def clocks(started: Sequence[Started]) -> list[Clock]:
    """One for each recording, in their order; the axis is that of the first recording until all are shifted.

    Its own start is the zero of the axis: who draws it shifts all so that the earliest is.
    """
    first = started[0]
    by_machine: dict[str, list[Started]] = {}
    for one in started:
        by_machine.setdefault(one.machine, []).append(one)
    reference = max(by_machine[first.machine], key=lambda one: len(one.events))
    found = {}
    for machine, own in by_machine.items():
        if machine == first.machine:
            found[machine] = (Clock(0.0, BOOT if len(by_machine) > 1 else ALONE), first)
        else:
            best = max(own, key=lambda one: len(one.events.keys() & reference.events.keys()))
            found[machine] = (_against(best, reference, first), best)
    return [_shifted(*found[one.machine], one) for one in started]


def _shifted(clock: Clock, of: Started, one: Started) -> Clock:
    """The clock of another recording on the same machine."""
    later_s = (one.start_mono_ns - of.start_mono_ns) / _NS
    return Clock(clock.offset_s + later_s, clock.aligned_by, clock.shared_count, clock.spread_s, clock.wall_off_s)


def _against(one: Started, reference: Started, first: Started) -> Clock:
    """By what both passed, where that fits; else by wall clocks."""
    to_first_s = (reference.start_mono_ns - first.start_mono_ns) / _NS
    by_wall_s = (one.start_unix_ns - reference.start_unix_ns) / _NS
    shared = [key for key in one.events if key in reference.events]
    if len(shared) >= _FEWEST:
        pairs = np.array([(*reference.events[key], *one.events[key]) for key in shared])
        apart, within = pairs[:, 0] - pairs[:, 2], pairs[:, 1] + pairs[:, 3]
        offset_s = _median(apart, 1 / (within + _READING_S))
        spread_s = 1.4826 * float(np.median(np.abs(apart - offset_s)))
        if spread_s <= max(_SPREAD_S, float(np.median(within))) and not _moves(pairs[:, 0], apart, within):
            wall_off_s = by_wall_s - offset_s
            return Clock(offset_s + to_first_s, EVENTS, len(shared), round(spread_s, 3), round(wall_off_s, 3))
    return Clock(by_wall_s + to_first_s, WALL)


def _moves(at_s: Floats, apart: Floats, within: Floats) -> bool:
    """Whether one of the two was faster: then they did not pass these together."""
    order = np.argsort(at_s)
    third = max(1, len(order) // 3)
    early, late = apart[order[:third]], apart[order[-third:]]
    return bool(abs(np.median(late) - np.median(early)) > max(_SPREAD_S, float(np.median(within))))


def _median(values: Floats, weights: Floats) -> float:
    order = np.argsort(values)
    reached = np.cumsum(weights[order])
    return float(values[order][np.searchsorted(reached, reached[-1] / 2)])
