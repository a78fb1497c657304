"""Charts of lines or bands, each described once: a script draws the description, paper gets SVG, a table says it.

The pages of reports and comparisons share them; what a chart is of is said by who makes its ``Plot``.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from ..findings import Series
from ..words import printable
from . import axes
from .charts import Chart, Lane, Mark, Shape

_SLOTS = (0, 3, 5, 2, 7, 9, 8, 10)  # colours that are told apart as lines
_DASHES = 4
_RAMP = (20, 27)  # the colours from early to late
_NEAR = 2.0  # times what is drawn: a limit further up is named at the edge
SMALL = 50  # parts of a picture in a column of its own
_KIB = 1024  # the script's unit at least
_FINEST = 2**17  # units of the highest: a pixel of a zoomed chart, and half as long to write as bytes
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
    estimated: bool = False


@dataclass(frozen=True)
class Trend:
    """A straight line from one (x, y) to another, which goes on to ``until``."""

    start: tuple[float, float]
    end: tuple[float, float]
    until: float

    def y(self, x: float) -> float:
        """Its height at a place, also beyond its ends."""
        (x0, y0), (x1, y1) = self.start, self.end
        return y0 + (y1 - y0) * (x - x0) / ((x1 - x0) or 1.0)


@dataclass(frozen=True)
class Plot:
    """What is drawn, whoever draws it. The curves of a ``stacked`` plot share their ``x``.

    ``x_unit``: s, number, or what is counted, such as step or request. ``names``: what is told of a place along ``x``
    besides its number; ``steps``: how many of ``step_unit`` had passed at each ``x``. ``ordered``: the curves are one
    kind of thing from early to late, and their colours say which is when. ``marks`` stand upright, ``limit`` lies
    across. ``common``: beyond it nothing was compared, or judged. ``base``: what the first curve is called where the
    last one is compared with it. ``divisions``: other ways to divide the same, each by what; the curves are divided
    ``by`` the first. ``lanes``: what happened meanwhile. ``onset``: since when something goes on. ``first_seen``: the
    place that is told before anybody points at one. ``last``: how far the axis goes, where that is beyond the curves.
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
    by: str = ""
    divisions: Sequence[tuple[str, Sequence[Curve]]] = ()
    lanes: Sequence[Lane] = ()
    onset: tuple[float, str] | None = None
    trend: Trend | None = None
    steps: Sequence[int | None] = ()
    step_unit: str = "step"
    first_seen: float | None = None
    last: float | None = None


@dataclass(frozen=True)
class Drawn:
    """A plot as a template places it: pictures, each with what it is divided by, and the figures behind them."""

    plot: Plot
    stills: Sequence[tuple[str, Chart]]
    table: tuple[list[str], list[list[str]]]

    def moments(self) -> list[Mark]:
        """What happened, in its order."""
        return sorted((mark for lane in self.plot.lanes for mark in lane.marks), key=lambda mark: mark.x)


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


def drawn(plot: Plot) -> Drawn:
    """**Errors** ValueError for a plot without a value."""
    return Drawn(plot, [(by, still(replace(plot, curves=curves))) for by, curves in _ways(plot)], table(plot))


def still(plot: Plot, buckets: int = axes.BUCKETS) -> Chart:
    """The picture that needs no script, of so many parts. **Errors** ValueError for a plot without a value."""
    if plot.stacked:
        plot = _thinned(plot, buckets)
    edges = list(_edges(plot)) if plot.stacked else []
    values = [value for curve in plot.curves for value in curve.y if value is not None]
    values += [value for edge in edges for value in edge]
    low = 0.0 if plot.stacked or not min(values) > max(values) / 2 else min(values)  # a rise of a tenth should be seen
    limit, limit_is_drawn = plot.limit, is_near(plot)
    label, step = (axes.size, axes.byte_step) if plot.y_unit == "bytes" else (axes.number, axes.decimal_step)
    y_ticks, low, high = axes.ticks(min(low, *values), max(*values, _top(plot)), step, label)
    first, last = ends(plot)
    x, y, percent = axes.scale(first, last), axes.scale(high, low), axes.scale(first, last, 100.0)
    shapes = [
        Shape(curve.name, curve.slot, _outline(curve, edges[number : number + 2], x, y, buckets), curve.dash)
        for number, curve in enumerate(plot.curves)
    ]
    x_ticks = (
        axes.time_ticks(first, last)
        if plot.x_unit == "s"
        else axes.ticks_only(first, last, "" if plot.x_unit == "number" else plot.x_unit)
    )
    trend = plot.trend
    return Chart(
        f"{plot.title}: {_sentence(plot)}" if plot.title else _sentence(plot),
        shapes,
        x_ticks,
        y_ticks,
        lambda place: percent(min(max(place, first), last)),
        plot.stacked,
        plot.lanes,
        window=(percent(max(first, plot.common[0])), percent(min(last, plot.common[1]))) if plot.common else None,
        onset=axes.Tick(percent(plot.onset[0]), plot.onset[1]) if plot.onset is not None else None,
        trend=axes.path((x(at), y(trend.y(at))) for at in (trend.start[0], trend.until)) if trend is not None else None,
        limit=y(limit[0]) / 10 if limit is not None and limit_is_drawn else None,
        limit_label=limit[1] if limit is not None else "",
        marks=[axes.Tick(percent(min(max(at, first), last)), text) for at, text in plot.marks],
    )


def data(plot: Plot) -> dict[str, Any]:
    """A plot for the script that draws it, for plots of bytes: plain values, names of the job's as they may be shown.

    Values are multiples of ``unit_bytes``, each as its difference from the one before it: shorter to write.
    """
    ways = _ways(plot)
    shared = ways[0][1][0].x
    is_shared = all(curve.x == shared for _, curves in ways for curve in curves)
    unit = _unit_bytes(plot)
    return {
        "title": printable(plot.title),
        "unit": plot.x_unit,
        "stacked": plot.stacked,
        "ordered": plot.ordered,
        "names": {_key(at): printable(name) for at, name in plot.names.items()},
        "marks": [[at, printable(text)] for at, text in plot.marks],
        "limit": [plot.limit[0], printable(plot.limit[1]), is_near(plot)] if plot.limit is not None else None,
        "common": plot.common,
        "base": plot.base,
        "lanes": [
            {
                "kind": lane.kind,
                "name": lane.name,
                "marks": [_mark_data(plot, mark) for mark in lane.marks],
            }
            for lane in plot.lanes
        ],
        "onset": [plot.onset[0], printable(plot.onset[1])] if plot.onset is not None else None,
        "trend": asdict(plot.trend) if plot.trend is not None else None,
        "steps": plot.steps,
        "step_unit": plot.step_unit,
        "first_seen": plot.first_seen,
        "last": plot.last,
        "top": _top(plot),
        "unit_bytes": unit,
        "x": shared if is_shared else None,
        "divisions": [
            {"by": by, "curves": [_curve_data(curve, is_shared, unit) for curve in curves]} for by, curves in ways
        ],
    }


def table(plot: Plot) -> tuple[list[str], list[list[str]]]:
    """The figures behind it: a row for each place along it, or where those are many, a row for each curve."""
    label = axes.size if plot.y_unit == "bytes" else axes.number
    places = list(dict.fromkeys(at for curve in plot.curves for at in curve.x))
    if not plot.divisions and len(places) <= _MOST_ROWS and all(list(curve.x) == places for curve in plot.curves):
        rows = []
        for i, at in enumerate(places):
            cells = [label(c.y[i]) if c.y[i] is not None else "" for c in plot.curves]  # type: ignore[arg-type]
            rows.append([plot.names.get(at, _place(plot, at)), *cells])
        head = {"s": "Time", "number": ""}.get(plot.x_unit, plot.x_unit.capitalize())
        return [head, *(curve.name for curve in plot.curves)], rows
    rows = []
    for _, curves in _ways(plot):
        for curve in curves:
            known = [value for value in curve.y if value is not None]
            name = f"{curve.name} ~" if curve.estimated else curve.name
            if known:
                rows.append([name, *(label(value) for value in (known[0], min(known), max(known), known[-1]))])
    return ["", "First", "Least", "Most", "Last"], rows


def _ways(plot: Plot) -> list[tuple[str, Sequence[Curve]]]:
    return [(plot.by, plot.curves), *plot.divisions]


def _highest(plot: Plot) -> float:
    if plot.stacked:
        return max(max(edge) for edge in _edges(plot))
    return max((value for curve in plot.curves for value in curve.y if value is not None), default=0.0)


def is_near(plot: Plot) -> bool:
    """Whether the limit is drawn to scale. One that is further up is named at the edge."""
    return plot.limit is not None and plot.limit[0] <= _NEAR * max(_highest(plot), 1)


def _top(plot: Plot) -> float:
    """How high the axis goes at least, where all of it is shown."""
    limit = plot.limit[0] if plot.limit is not None and is_near(plot) else 0.0
    return max(_highest(plot), limit, plot.trend.y(plot.trend.until) if plot.trend is not None else 0.0)


def _unit_bytes(plot: Plot) -> int:
    unit = _KIB
    while _highest(plot) // unit > _FINEST:
        unit *= 2
    return unit


def _curve_data(curve: Curve, is_shared: bool, unit: int) -> dict[str, Any]:
    steps: list[int | None] = []
    before = 0
    for value in curve.y:
        now = None if value is None else round(value / unit)
        steps.append(None if now is None else now - before)
        before = before if now is None else now
    return {
        "name": printable(curve.name),
        "slot": curve.slot,
        "dash": curve.dash,
        "link": curve.link,
        "x": None if is_shared else curve.x,
        "steps": steps,
    }


def _mark_data(plot: Plot, mark: Mark) -> list[Any]:
    """What came before the first value, or after the last as a kill does, stands at the edge."""
    first, last = plot.curves[0].x[0], plot.curves[0].x[-1]
    at = min(last, max(first, mark.x))
    end = None if mark.end is None else min(last, max(at, mark.end))
    name = None if mark.name is None else printable(mark.name)
    return [at, end, printable(mark.label), name, mark.slot]


def _thinned(plot: Plot, buckets: int) -> Plot:
    """As much of a stack as a picture can show; no peak of the whole is lost."""
    *_, roof = _edges(plot)
    shown = axes.extremes(roof, buckets)
    curves = [replace(c, x=[c.x[i] for i in shown], y=[c.y[i] for i in shown]) for c in plot.curves]
    return replace(plot, curves=curves)


def _key(at: float) -> str:
    """The number as JavaScript writes it."""
    return str(int(at)) if at == int(at) else repr(float(at))


def _place(plot: Plot, at: float) -> str:
    return axes.clock(round(at)) if plot.x_unit == "s" else axes.number(at)


def ends(plot: Plot) -> tuple[float, float]:
    known = [curve.x for curve in plot.curves if len(curve.x)]
    return min(x[0] for x in known), max(*(x[-1] for x in known), plot.last or -math.inf)


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
    unit = "" if plot.y_unit == "bytes" else f" {plot.y_unit}"
    said = []
    if plot.stacked:
        *_, roof = _edges(plot)
        said.append(
            f"from {label(roof[0])} to {label(roof[-1])}, at most {label(max(roof))}, as {len(plot.curves)} bands"
        )
    for curve in () if plot.stacked else plot.curves:
        known = [value for value in curve.y if value is not None]
        if known:
            said.append(f"{curve.name}: from {label(known[0])} to {label(known[-1])}{unit}")
    if plot.trend is not None and plot.limit is not None:
        said.append(plot.limit[1])
    return "; ".join([*said, *(name for _, name in plot.marks)])


def _finite(series: Series) -> list[tuple[float, float]]:
    points = [(float(x), float(y)) for x, y in zip(series.x, series.y) if x is not None and y is not None]
    return sorted((x, y) for x, y in points if math.isfinite(x) and math.isfinite(y))
