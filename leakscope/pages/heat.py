"""A heat map as shapes: a row for each of many curves, a shade for how high it is; thousands stay readable.

A path for each shade, in which neighbours of one shade are one box: 512 rows take a hundred kilobytes, and no script.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..units import format_bytes
from . import axes
from .charts import Chart, Shape

_SHADES = range(20, 28)  # the colours of a ramp, from low to high
_MOST_ROWS = 128  # more are put together: the highest of each group is shown
_LABELLED = 16
_GAP = 0.08  # of a row, where there are few
_SIDE = 1000
_LOWEST = 0.05  # of the cells lie below the first shade: start-up would take half of the ramp


def heat_map(title: str, names: Sequence[str], x: Sequence[float], rows: Sequence[Sequence[int | None]]) -> Chart:
    """``rows``: bytes at each ``x``, None where there is nothing. **Errors** ValueError without any value."""
    grouped, size = _grouped(rows)
    values = sorted(value for row in grouped for value in row if value is not None)
    low, high = values[int(_LOWEST * len(values))], values[-1]
    step = max(1.0, (high - low) / len(_SHADES))
    paths: list[list[str]] = [[] for _ in _SHADES]
    height = _SIDE / len(grouped)
    gap = _GAP * height if len(grouped) <= _LABELLED else 0.0
    edges = _edges(x)
    for number, row in enumerate(grouped):
        top = number * height
        for start, end, shade in _runs(row, low, step):
            left, right = edges[start], edges[end]
            paths[shade].append(f"M{left:.1f} {top:.2f}H{right:.1f}V{top + height - gap:.2f}H{left:.1f}Z")
    shapes = [
        Shape(_range(low + n * step, low + (n + 1) * step, n), slot, "".join(path))
        for n, (slot, path) in enumerate(zip(_SHADES, paths))
        if path
    ]
    lowest, highest = format_bytes(values[0]), format_bytes(high)
    sentence = f"{title}: {len(names)} rows, from {lowest} to {highest}; the table below has the figures"
    return Chart(sentence, shapes, axes.time_ticks(x[0], x[-1]), _ticks(names, size, len(grouped)), is_stacked=True)


def _grouped(rows: Sequence[Sequence[int | None]]) -> tuple[list[list[int | None]], int]:
    size = -(-len(rows) // _MOST_ROWS)
    if size == 1:
        return [list(row) for row in rows], 1
    groups = [rows[i : i + size] for i in range(0, len(rows), size)]
    return [[max((v for v in at if v is not None), default=None) for at in zip(*group)] for group in groups], size


def _edges(x: Sequence[float]) -> list[float]:
    place = axes.scale(x[0], x[-1])
    middles = [(place(one) + place(other)) / 2 for one, other in zip(x, x[1:])]
    return [0.0, *middles, float(_SIDE)]


def _runs(row: Sequence[int | None], low: float, step: float) -> list[tuple[int, int, int]]:
    """(first column, the one after the last, shade) of neighbours of one shade."""
    found: list[tuple[int, int, int]] = []
    for column, value in enumerate(row):
        if value is None:
            continue
        shade = min(len(_SHADES) - 1, max(0, int((value - low) / step)))
        if found and found[-1][1] == column and found[-1][2] == shade:
            found[-1] = (found[-1][0], column + 1, shade)
        else:
            found.append((column, column + 1, shade))
    return found


def _range(low: float, high: float, number: int) -> str:
    if number == 0:
        return f"up to {format_bytes(high)}"
    return f"above {format_bytes(low)}" if number == len(_SHADES) - 1 else f"to {format_bytes(high)}"


def _ticks(names: Sequence[str], size: int, count: int) -> list[axes.Tick]:
    every = 1 if count <= _LABELLED else -(-count // 8)
    return [axes.Tick(round(100 * (n + 0.5) / count, 2), names[n * size]) for n in range(0, count, every)]
