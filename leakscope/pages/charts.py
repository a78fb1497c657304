"""The geometry of charts that need no JavaScript: paths in a box of 1000 by 1000, ticks in percent of its sides.

The template stretches the box to whatever width there is and sets the labels beside it, so that they stay readable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from ..findings import Band, Moment, Outlook, Series, Timeline
from ..units import format_bytes, format_count, format_duration

_SIDE = 1000
_BUCKETS = 150  # two points each: finer than a printed line is wide
_HOUR_S, _DAY_S = 3600, 86400
_TIME_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
_COLOURS = 12
CULPRIT = 12  # the number of its colour, which nothing else has
_NEAR = 2.0  # times the run, and times its peak: a limit further away is named, not drawn to scale
_ROOM = 0.14  # of the run, to its right: for the line that goes on
_ACCOUNT_SLOTS = {  # an account has the same colour in every report, in its timeline and its ledger
    "tensors": 0, "arrays": 1, "python-objects": 5, "native": 2, "native-held": 6, "allocator-free": 3,
    "shared-memory": 7, "mapped-files": 4, "other": 11, "unexplained": 11,
}  # fmt: skip
_PHASE_SLOTS = {"start-up": 4, "train": 6, "eval": 9, "save": 8}
_FREE_SLOTS = (10, 1, 7, 3, 2, 5, 0)  # of phases that the program named itself
_MOMENT_NAMES = {  # in the order of their lanes
    "alert": "alerts", "death": "killed", "pressure": "pressure", "birth": "began", "end": "ended",
    "event": "events", "mark": "marks",
    "phase": "phases", "take": "snapshots",
}  # fmt: skip


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis, in percent from the left or from the top."""

    at: float
    label: str


@dataclass(frozen=True)
class Shape:
    """A path of a chart; ``slot`` is the number of its colour."""

    name: str
    slot: int
    path: str


@dataclass(frozen=True)
class Mark:
    """Something that happened, in percent from the left; ``width`` and ``slot`` of a phase whose end is known."""

    time_s: float
    end_s: float | None
    at: float
    width: float | None
    label: str
    name: str | None
    slot: int | None


@dataclass(frozen=True)
class Lane:
    """Moments of one kind. What came before the first sample, or after the last as a kill does, stands at the edge."""

    kind: str
    name: str
    marks: Sequence[Mark]

    @property
    def spans(self) -> dict[str, int]:
        """Names of what has a beginning and an end, with the number of their colours."""
        return {m.name: m.slot for m in self.marks if m.name is not None and m.slot is not None}


@dataclass(frozen=True)
class Chart:
    """What the template draws. ``sentence`` says for those who cannot see it what there is to see."""

    sentence: str
    shapes: Sequence[Shape]
    x_ticks: Sequence[Tick]
    y_ticks: Sequence[Tick]
    lanes: Sequence[Lane] = ()
    window: tuple[float, float] | None = None
    began: float | None = None
    trend: str | None = None
    limit: float | None = None
    limit_label: str = ""


@dataclass(frozen=True)
class Frame:
    """How far a timeline is drawn: to the limit where that is near, else a little beyond the run.

    ``limit_bytes`` is None where the limit lies outside.
    """

    last_s: float
    top_bytes: float
    limit_bytes: int | None


def frame(timeline: Timeline) -> Frame:
    """The same for every picture of it."""
    last_s, top = timeline.time_s[-1], float(max(*timeline.total_bytes, 1))
    ahead = timeline.outlook
    if ahead is None or ahead.end_bytes is None:
        return Frame(last_s, top, None)
    span = last_s - timeline.time_s[0]
    full_s, limit = ahead.full_s, ahead.limit_bytes
    if full_s is not None and limit is not None and full_s <= last_s + (_NEAR - 1) * span and limit <= _NEAR * top:
        return Frame(max(last_s, full_s) + 0.03 * span, max(top, limit), limit)
    return Frame(last_s + _ROOM * span, max(top, _line_at(ahead, last_s + _ROOM * span)), None)


def _line_at(ahead: Outlook, at_s: float) -> float:
    """Bytes of the straight line at a moment, also beyond its window."""
    first, last = ahead.start_bytes or 0, ahead.end_bytes or 0
    return first + (last - first) * (at_s - ahead.start_s) / (ahead.end_s - ahead.start_s)


def stacked(timeline: Timeline, bands: Sequence[Band], colours: Sequence[int], sentence: str, full: str = "") -> Chart:
    """The layers of a timeline on top of each other, the first at the bottom; ``full`` says when the limit is."""
    shown = _extremes(timeline.total_bytes)
    time_s = [timeline.time_s[i] for i in shown]
    around = frame(timeline)
    y_ticks, _, high = _ticks(0.0, around.top_bytes, _byte_step, _size)
    x, y = _scale(time_s[0], around.last_s), _scale(high, 0.0)
    shapes = []
    floor = [0] * len(shown)
    for band, slot in zip(bands, colours):
        roof = [below + band.value_bytes[i] for below, i in zip(floor, shown)]
        edge = [*zip(time_s, roof), *reversed(list(zip(time_s, floor)))]
        shapes.append(Shape(band.name, slot, _path((x(at), y(value)) for at, value in edge) + "Z"))
        floor = roof
    ahead = timeline.outlook
    line = None
    if ahead is not None and ahead.end_bytes is not None:
        end_s = min(around.last_s, ahead.full_s or around.last_s)
        line = _path((x(at_s), y(_line_at(ahead, at_s))) for at_s in (ahead.start_s, end_s))
    return Chart(
        sentence,
        shapes,
        _time_ticks(time_s[0], around.last_s),
        y_ticks,
        lanes(timeline),
        window=(x(ahead.start_s) / 10, x(ahead.end_s) / 10) if ahead is not None else None,
        began=x(ahead.began_s) / 10 if ahead is not None and ahead.began_s is not None else None,
        trend=line,
        limit=y(around.limit_bytes) / 10 if around.limit_bytes is not None else None,
        limit_label=full,
    )


def slots(bands: Sequence[Band]) -> list[int]:
    """The number of each band's colour."""
    return [_ACCOUNT_SLOTS.get(band.name, number % _COLOURS) for number, band in enumerate(bands)]


def account_slot(account: str) -> int | None:
    """The number of an account's colour; None for one that no timeline shows."""
    return _ACCOUNT_SLOTS.get(account)


def lines(series: Sequence[Series]) -> list[Chart]:
    """Small charts, one for each pair of units, of those series that are curves at all."""
    charts = []
    for units in dict.fromkeys((one.x_unit, one.y_unit) for one in series):
        curves = [(one.name, _finite(one)) for one in series if (one.x_unit, one.y_unit) == units]
        drawn = [(name, points) for name, points in curves if len(points) > 1 and points[-1][0] > points[0][0]]
        if drawn:
            charts.append(_lines(drawn, *units))
    return charts


def lanes(timeline: Timeline) -> list[Lane]:
    """What happened, a row for each kind."""
    slots = _phase_slots(timeline)
    found = []
    for kind, name in _MOMENT_NAMES.items():
        own = [_mark(moment, timeline, slots) for moment in timeline.moments if moment.kind == kind]
        if own:
            found.append(Lane(kind, name, own))
    return found


def _phase_slots(timeline: Timeline) -> dict[str, int]:
    named = list(dict.fromkeys(m.phase for m in timeline.moments if m.phase and m.phase not in _PHASE_SLOTS))
    return {**_PHASE_SLOTS, **{name: _FREE_SLOTS[n % len(_FREE_SLOTS)] for n, name in enumerate(named)}}


def _mark(moment: Moment, timeline: Timeline, slots: Mapping[str, int]) -> Mark:
    first_s, last_s = timeline.time_s[0], timeline.time_s[-1]
    x = _scale(first_s, frame(timeline).last_s, 100.0)
    at_s = min(last_s, max(first_s, moment.time_s))
    if moment.end_s is None or moment.phase is None:
        return Mark(at_s, None, x(at_s), None, moment.text, None, None)
    end_s = min(last_s, max(at_s, moment.end_s))
    label = f"{moment.text}, {format_duration(moment.end_s - moment.time_s)}"
    return Mark(at_s, end_s, x(at_s), x(end_s) - x(at_s), label, moment.phase, slots[moment.phase])


def _lines(curves: Sequence[tuple[str, list[tuple[float, float]]]], x_unit: str, y_unit: str) -> Chart:
    values = [value for _, points in curves for _, value in points]
    in_bytes = y_unit == "bytes"
    low = min(values) if min(values) > max(values) / 2 else min(0.0, *values)  # a rise of a tenth should be seen
    label, step = (_size, _byte_step) if in_bytes else (_number, _decimal_step)
    y_ticks, low, high = _ticks(low, max(values), step, label)
    first, last = min(points[0][0] for _, points in curves), max(points[-1][0] for _, points in curves)
    x, y = _scale(first, last), _scale(high, low)
    shapes = [
        Shape(
            name, slot % _COLOURS, _path((x(points[i][0]), y(points[i][1])) for i in _extremes([v for _, v in points]))
        )
        for slot, (name, points) in enumerate(curves)
    ]
    said = [f"{name}: from {label(points[0][1])} to {label(points[-1][1])}" for name, points in curves]
    unit = "" if in_bytes else f" {y_unit}"
    x_ticks = _time_ticks(first, last) if x_unit == "s" else _ticks_only(first, last)
    return Chart("; ".join(f"{text}{unit}" for text in said), shapes, x_ticks, y_ticks)


def _finite(series: Series) -> list[tuple[float, float]]:
    points = [(float(x), float(y)) for x, y in zip(series.x, series.y) if x is not None and y is not None]
    return sorted((x, y) for x, y in points if math.isfinite(x) and math.isfinite(y))


def _extremes(values: Sequence[float]) -> list[int]:
    """Indexes of the points to draw: the lowest and the highest of each bucket, so that no peak is lost."""
    size = len(values)
    if size <= 2 * _BUCKETS:
        return list(range(size))
    keep = {0, size - 1}
    for number in range(_BUCKETS):
        part = range(number * size // _BUCKETS, (number + 1) * size // _BUCKETS)
        keep |= {min(part, key=values.__getitem__), max(part, key=values.__getitem__)}
    return sorted(keep)


def _scale(first: float, last: float, side: float = _SIDE) -> Callable[[float], float]:
    width = (last - first) or 1.0
    return lambda value: (value - first) / width * side


def _path(points: Iterator[tuple[float, float]]) -> str:
    return "M" + "L".join(f"{x:.1f} {y:.1f}".replace(".0", "") for x, y in points)


def _ticks(
    low: float, high: float, step_of: Callable[[float], float], label: Callable[[float], str]
) -> tuple[list[Tick], float, float]:
    """Round values, as percent from the top, and the values at the bottom and the top of the box."""
    step = step_of(high - low)
    first, last = math.floor(low / step), math.ceil(high / step)
    last = max(last, first + 1)
    numbers = range(first, last + 1)
    ticks = [Tick(round(100 * (last - n) / (last - first), 2), label(n * step)) for n in numbers]
    return ticks, first * step, last * step


def _byte_step(span: float) -> float:
    """A power of two that divides the span into three to five parts."""
    return float(2 ** max(0, math.ceil(math.log2(max(span, 1.0) / 5))))


def _decimal_step(span: float) -> float:
    rough = max(span, 1e-9) / 4
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * 0.999)


def _size(value: float) -> str:
    return format_bytes(value).replace(".0 ", " ")


def _number(value: float) -> str:
    return format_count(value) if abs(value) >= 10 or value == int(value) else f"{value:.3g}"


def _ticks_only(first: float, last: float) -> list[Tick]:
    step = _decimal_step((last - first) * 2 / 3)
    x = _scale(first, last, 100.0)
    values = [n * step for n in range(math.ceil(first / step), math.floor(last / step) + 1)]
    return [Tick(round(x(value), 2), _number(value)) for value in values]


def _time_ticks(first_s: float, last_s: float) -> list[Tick]:
    """Whole seconds, minutes, hours or days, at most seven of them."""
    span = last_s - first_s
    days = max(1, math.ceil(span / 6 / _DAY_S))
    step = next((s for s in _TIME_STEPS_S if span / s <= 6), days * _DAY_S)
    x = _scale(first_s, last_s, 100.0)
    values = range(math.ceil(first_s / step) * step, math.floor(last_s) + 1, step)
    return [Tick(round(x(value), 2), _clock(value)) for value in values]


def _clock(seconds: int) -> str:
    if seconds and seconds % _DAY_S == 0:
        return f"{seconds // _DAY_S} d"
    if seconds >= _HOUR_S:
        return f"{seconds // _HOUR_S}:{seconds % _HOUR_S // 60:02d} h"
    if seconds and seconds % 60 == 0:
        return f"{seconds // 60} min"
    return f"{seconds // 60}:{seconds % 60:02d}" if seconds >= 60 else f"{seconds} s"
