"""Charts of lines or bands, each described once: a script draws the description, paper gets SVG, a table says it.

The pages of reports and comparisons share them; what a chart is of is said by who makes its ``Plot``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ..findings import Series
from ..words import printable
from . import axes
from .charts import Chart, Shape

_SLOTS = (0, 3, 5, 2, 7, 9, 8, 10)  # colours that are told apart as lines
_DASHES = 4
_RAMP = (20, 27)  # the colours from early to late
_NEAR = 2.0  # times what is drawn: a limit further up is named at the edge
SMALL = 50  # parts of a picture in a column of its own
_KIB = 1024  # the script's unit: finer than a pixel, and a third shorter to write
_MOST_ROWS = 40  # of a table: a longer one says first, least, most and last


@dataclass(frozen=True)
class Curve:
    """One line or band: ``y`` at each ``x``, None where nothing was read. ``link``: an id in the page with more."""

    name: str
    slot: int
    x: Sequence[float]
    y: Sequence[float | None]
    dash: int = 0
    link: str | None = None


@dataclass(frozen=True)
class Plot:
    """What is drawn, whoever draws it. The curves of a ``stacked`` plot share their ``x``.

    ``x_unit``: s, step or number. ``names``: what is told of a place along ``x`` besides its number. ``ordered``: the
    curves are one kind of thing from early to late, and their colours say which is when. ``marks`` stand upright,
    ``limit`` lies across. ``common``: beyond it nothing was compared. ``base``: what the first curve is called where
    the last one is compared with it.
    """

    title: str
    curves: Sequence[Curve]
    x_unit: str = "s"
    y_unit: str = "bytes"
    stacked: bool = False
    ordered: bool = False
    names: Mapping[float, str] = field(default_factory=dict)
    marks: Sequence[tuple[float, str]] = ()
    limit: tuple[float, str] | None = None
    common: tuple[float, float] | None = None
    base: str | None = None


def colour(number: int) -> int:
    """The number of the colour of the curve with this number."""
    return _SLOTS[number % len(_SLOTS)]


def dash(number: int) -> int:
    """The number of its dashes: colours alone do not tell lines apart for everybody."""
    return number % _DASHES


def ramp(number: int, count: int) -> int:
    """The number of the colour of one of so many curves, from early to late."""
    first, last = _RAMP
    return first + round((last - first) * number / max(1, count - 1))


def of_series(series: Sequence[Series]) -> list[Plot]:
    """One for each pair of units, of those series that are curves at all."""
    found = []
    for units in dict.fromkeys((one.x_unit, one.y_unit) for one in series):
        curves: list[Curve] = []
        for one in series:
            points = _finite(one) if (one.x_unit, one.y_unit) == units else []
            if len(points) > 1 and points[-1][0] > points[0][0]:
                number = len(curves)
                x, y = zip(*points)
                curves.append(Curve(one.name, colour(number), x, y, dash(number)))
        if curves:
            found.append(Plot("", curves, *units))
    return found


def still(plot: Plot, buckets: int = axes.BUCKETS) -> Chart:
    """The picture that needs no script, of so many parts. **Errors** ValueError for a plot without a value."""
    edges = list(_edges(plot)) if plot.stacked else []
    values = [value for curve in plot.curves for value in curve.y if value is not None]
    values += [value for edge in edges for value in edge]
    low = 0.0 if plot.stacked or not min(values) > max(values) / 2 else min(values)  # a rise of a tenth should be seen
    high, limit = max(values), plot.limit
    is_near = limit is not None and limit[0] <= _NEAR * max(high, 1)
    if limit is not None and is_near:
        high = max(high, limit[0])
    label, step = (axes.size, axes.byte_step) if plot.y_unit == "bytes" else (axes.number, axes.decimal_step)
    y_ticks, low, high = axes.ticks(min(low, *values), high, step, label)
    first, last = _ends(plot)
    x, y = axes.scale(first, last), axes.scale(high, low)
    shapes = [
        Shape(curve.name, curve.slot, _outline(curve, edges[number : number + 2], x, y, buckets), curve.dash)
        for number, curve in enumerate(plot.curves)
    ]
    x_ticks = axes.time_ticks(first, last) if plot.x_unit == "s" else axes.ticks_only(first, last)
    return Chart(
        f"{plot.title}: {_sentence(plot)}" if plot.title else _sentence(plot),
        shapes,
        x_ticks,
        y_ticks,
        window=(x(max(first, plot.common[0])) / 10, x(min(last, plot.common[1])) / 10) if plot.common else None,
        limit=y(limit[0]) / 10 if limit is not None and is_near else None,
        limit_label=limit[1] if limit is not None else "",
        marks=[axes.Tick(x(min(max(at, first), last)) / 10, text) for at, text in plot.marks],
    )


def data(plot: Plot) -> dict[str, Any]:
    """The same for the script, for plots of bytes: plain values, names of the job's as they may be shown."""
    return {
        "title": printable(plot.title),
        "unit": plot.x_unit,
        "stacked": plot.stacked,
        "ordered": plot.ordered,
        "names": {_key(at): printable(name) for at, name in plot.names.items()},
        "marks": [[at, printable(text)] for at, text in plot.marks],
        "limit": [plot.limit[0], printable(plot.limit[1])] if plot.limit is not None else None,
        "common": plot.common,
        "base": plot.base,
        "curves": [
            {
                "name": printable(c.name),
                "slot": c.slot,
                "dash": c.dash,
                "link": c.link,
                "x": c.x,
                "kib": [None if value is None else round(value / _KIB) for value in c.y],
            }
            for c in plot.curves
        ],
    }


def table(plot: Plot) -> tuple[list[str], list[list[str]]]:
    """The figures behind it: a row for each place along it, or where those are many, a row for each curve."""
    label = axes.size if plot.y_unit == "bytes" else axes.number
    places = list(dict.fromkeys(at for curve in plot.curves for at in curve.x))
    if len(places) <= _MOST_ROWS and all(list(curve.x) == places for curve in plot.curves):
        rows = []
        for i, at in enumerate(places):
            cells = [label(c.y[i]) if c.y[i] is not None else "" for c in plot.curves]  # type: ignore[arg-type]
            rows.append([plot.names.get(at, _place(plot, at)), *cells])
        return [{"s": "Time", "step": "Step"}.get(plot.x_unit, ""), *(curve.name for curve in plot.curves)], rows
    rows = []
    for curve in plot.curves:
        known = [value for value in curve.y if value is not None]
        if known:
            rows.append([curve.name, *(label(value) for value in (known[0], min(known), max(known), known[-1]))])
    return ["", "First", "Least", "Most", "Last"], rows


def _key(at: float) -> str:
    """The number as JavaScript writes it."""
    return str(int(at)) if at == int(at) else repr(float(at))


def _place(plot: Plot, at: float) -> str:
    return axes.clock(round(at)) if plot.x_unit == "s" else axes.number(at)


def _ends(plot: Plot) -> tuple[float, float]:
    drawn = [curve.x for curve in plot.curves if len(curve.x)]
    return min(x[0] for x in drawn), max(x[-1] for x in drawn)


def _edges(plot: Plot) -> Iterator[list[float]]:
    """The floor of the lowest band, and the roof of each."""
    floor = [0.0] * len(plot.curves[0].x)
    yield floor
    for curve in plot.curves:
        floor = [below + (value or 0) for below, value in zip(floor, curve.y)]
        yield floor


def _outline(curve: Curve, edges: Sequence[Sequence[float]], x: Any, y: Any, buckets: int) -> str:
    if edges:
        floor, roof = edges
        return axes.path((x(at), y(v)) for at, v in [*zip(curve.x, roof), *reversed(list(zip(curve.x, floor)))]) + "Z"
    points = [(at, value) for at, value in zip(curve.x, curve.y) if value is not None]
    shown = axes.extremes([value for _, value in points], buckets)
    return axes.path((x(points[i][0]), y(points[i][1])) for i in shown) if points else ""


def _sentence(plot: Plot) -> str:
    label = axes.size if plot.y_unit == "bytes" else axes.number
    said = []
    for curve in plot.curves:
        known = [value for value in curve.y if value is not None]
        if known:
            said.append(f"{curve.name}: from {label(known[0])} to {label(known[-1])}")
    unit = "" if plot.y_unit == "bytes" else f" {plot.y_unit}"
    text = "; ".join(f"{one}{unit}" for one in said)
    return "; ".join([text, *(name for _, name in plot.marks)])


def _finite(series: Series) -> list[tuple[float, float]]:
    points = [(float(x), float(y)) for x, y in zip(series.x, series.y) if x is not None and y is not None]
    return sorted((x, y) for x, y in points if math.isfinite(x) and math.isfinite(y))
