"""The geometry of charts that need no JavaScript: paths in a box of 1000 by 1000, ticks in percent of its sides.

The template stretches the box to whatever width there is and sets the labels beside it, so that they stay readable.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from ..units import format_bytes, format_count

_SIDE = 1000
BUCKETS = 150  # two points each: finer than a printed line is wide
_HOUR_S, _DAY_S = 3600, 86400
_TIME_STEPS_S = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)


@dataclass(frozen=True)
class Tick:
    """A labelled place on an axis, in percent from the left or from the top."""

    at: float
    label: str


def extremes(values: Sequence[float], buckets: int = BUCKETS) -> list[int]:
    """Indexes of the points to draw: the lowest and the highest of each bucket, so that no peak is lost."""
    size = len(values)
    if size <= 2 * buckets:
        return list(range(size))
    keep = {0, size - 1}
    for number in range(buckets):
        part = range(number * size // buckets, (number + 1) * size // buckets)
        keep |= {min(part, key=values.__getitem__), max(part, key=values.__getitem__)}
    return sorted(keep)


def scale(first: float, last: float, side: float = _SIDE) -> Callable[[float], float]:
    width = (last - first) or 1.0
    return lambda value: (value - first) / width * side


def path(points: Iterable[tuple[float, float]]) -> str:
    """Whole numbers: a thousandth of a side is finer than a pixel, or as fine."""
    return "M" + "L".join(f"{round(x)} {round(y)}" for x, y in points)


def ticks(
    low: float, high: float, step_of: Callable[[float], float], label: Callable[[float], str]
) -> tuple[list[Tick], float, float]:
    """Round values, as percent from the top, and the values at the bottom and the top of the box."""
    step = step_of(high - low)
    first, last = math.floor(low / step), math.ceil(high / step)
    last = max(last, first + 1)
    numbers = range(first, last + 1)
    labels = [label(n * step) for n in numbers]
    if label is size and len(set(labels)) < len(labels):
        labels = finer_sizes([n * step for n in numbers])
    ticks = [Tick(round(100 * (last - n) / (last - first), 2), text) for n, text in zip(numbers, labels)]
    return ticks, first * step, last * step


def byte_step(span: float) -> float:
    """A power of two that divides the span into three to five parts."""
    return float(2 ** max(0, math.ceil(math.log2(max(span, 1.0) / 5))))


def decimal_step(span: float) -> float:
    rough = max(span, 1e-9) / 4
    power: float = 10.0 ** math.floor(math.log10(rough))
    return next(factor * power for factor in (1.0, 2.0, 5.0, 10.0) if factor * power >= rough * 0.999)


def size(value: float) -> str:
    return format_bytes(value).replace(".0 ", " ")


def finer_sizes(values: Sequence[float]) -> list[str]:
    """With as many digits as tell them apart: where a step is less than what ``size`` writes."""
    unit = max(0, int(math.log2(max(values))) // 10)
    name, scaled = ("B", "KiB", "MiB", "GiB", "TiB")[unit], [value / 1024**unit for value in values]
    digits = next((n for n in range(2, 9) if len({f"{one:.{n}f}" for one in scaled}) == len(scaled)), 9)
    return [f"{one:,.{digits}f} {name}" for one in scaled]


def number(value: float) -> str:
    return format_count(value) if abs(value) >= 10 or value == int(value) else f"{value:.3g}"


def ticks_only(first: float, last: float, unit: str = "") -> list[Tick]:
    """The first names what is counted."""
    step = decimal_step((last - first) * 2 / 3)
    x = scale(first, last, 100.0)
    values = [n * step for n in range(math.ceil(first / step), math.floor(last / step) + 1)]
    names = [unit, *[""] * len(values)]
    return [Tick(round(x(value), 2), f"{name} {number(value)}".strip()) for name, value in zip(names, values)]


def time_ticks(first_s: float, last_s: float) -> list[Tick]:
    """Whole seconds, minutes, hours or days, at most seven of them."""
    span = last_s - first_s
    days = max(1, math.ceil(span / 6 / _DAY_S))
    step = next((s for s in _TIME_STEPS_S if span / s <= 6), days * _DAY_S)
    x = scale(first_s, last_s, 100.0)
    values = range(math.ceil(first_s / step) * step, math.floor(last_s) + 1, step)
    return [Tick(round(x(value), 2), clock(value)) for value in values]


def clock(seconds: int) -> str:
    if seconds and seconds % _DAY_S == 0:
        return f"{seconds // _DAY_S} d"
    if seconds >= _HOUR_S:
        day = f"{seconds // _DAY_S} d " if seconds >= _DAY_S else ""
        return f"{day}{seconds % _DAY_S // _HOUR_S}:{seconds % _HOUR_S // 60:02d} h"
    if seconds and seconds % 60 == 0:
        return f"{seconds // 60} min"
    return f"{seconds // 60}:{seconds % 60:02d}" if seconds >= 60 else f"{seconds} s"
