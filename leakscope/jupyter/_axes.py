"""The charts of the page on axes of matplotlib's, for figures that people put together themselves."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..errors import BadInput
from ..findings import HeapView
from ..pages import axes as scales
from ..pages import icicle, pictures
from ..pages.plots import Plot, ends, is_near

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_DASHES = ("-", "--", ":", "-.")
_SHADES = {"grew-much": "much"}  # by the class of a box: its colour where that has another name
_LEGIBLE = 6.0  # percent of the width: a narrower box has no name


def new_axes() -> Axes:
    """Axes of a figure of their own. **Errors** BadInput: matplotlib is not installed."""
    try:
        from matplotlib import pyplot
    except ImportError:
        raise BadInput("axes need matplotlib: pip install matplotlib; .save('chart.svg') needs nothing") from None
    made: Axes = pyplot.subplots(figsize=(9, 3.5), layout="constrained")[1]
    return made


def draw_plot(plot: Plot, ax: Axes) -> None:
    """Lines or bands, with what lies across and what stands upright."""
    colours = pictures.colours()
    shades = [colours[f"c{curve.slot}"] for curve in plot.curves]
    if plot.stacked:
        values = [[value or 0 for value in curve.y] for curve in plot.curves]
        names = [curve.name for curve in plot.curves]
        ax.stackplot(list(plot.curves[0].x), values, labels=names, colors=shades)
    else:
        for curve, shade in zip(plot.curves, shades):
            known = [math.nan if value is None else value for value in curve.y]
            ax.plot(list(curve.x), known, label=curve.name, color=shade, linestyle=_DASHES[curve.dash % len(_DASHES)])
    first, last = ends(plot)
    if plot.trend is not None:
        trend = plot.trend
        reached = [trend.y(trend.start[0]), trend.y(trend.until)]
        ax.plot([trend.start[0], trend.until], reached, color=colours["bad"], linestyle="--")
    if plot.limit is not None and is_near(plot):
        ax.axhline(plot.limit[0], color=colours["bad"], linewidth=1, label=plot.limit[1])
    upright = [*plot.marks, *([plot.onset] if plot.onset is not None else [])]
    for at, text in upright:
        ax.axvline(at, color=colours["soft"], linewidth=1)
        ax.annotate(text, (at, 1), xycoords=("data", "axes fraction"), fontsize="small", va="top", rotation=90)
    ax.set_xlim(first, last)
    if plot.stacked:
        ax.set_ylim(bottom=0)
    _label_x(ax, plot.x_unit)
    _label_y(ax, plot.y_unit)
    ax.set_title(plot.title)
    if len(plot.curves) > 1:  # bands fill the axes: their names stand beside them, in their order
        beside: dict[str, Any] = {"bbox_to_anchor": (1.0, 1.0), "reverse": True} if plot.stacked else {}
        ax.legend(fontsize="small", loc="upper left", **beside)


def draw_bars(title: str, told: Sequence[pictures.Bar], ax: Axes) -> None:
    """The first at the top."""
    colours = pictures.colours()
    shades = [colours["c11" if bar.slot is None else f"c{bar.slot}"] for bar in told]
    ax.barh([bar.label for bar in told], [bar.bytes for bar in told], color=shades)
    ax.invert_yaxis()
    _in_bytes(ax.xaxis)
    ax.set_title(title)


def draw_heap(title: str, view: HeapView, ax: Axes) -> None:
    """The boxes of a process at its last snapshot, the process at the top."""
    colours = pictures.colours()
    for box in icicle.boxes(icicle.nodes(view)):
        shade = colours[_SHADES.get(box.shade, box.shade)]
        ax.barh(box.row, box.width, left=box.left, height=0.95, color=shade, edgecolor=colours["paper"])
        if box.width > _LEGIBLE:
            name = f"{box.node.name} {scales.size(box.node.bytes[-1])}"
            ax.text(box.left + 0.5, box.row, name, va="center", fontsize="small", clip_on=True)
    ax.set_xlim(0, 100)
    ax.invert_yaxis()
    ax.set_axis_off()
    ax.set_title(title)


def _label_x(ax: Axes, unit: str) -> None:
    from matplotlib.ticker import FuncFormatter

    if unit == "s":
        ax.xaxis.set_major_formatter(FuncFormatter(lambda at, _: scales.clock(round(at))))
    elif unit != "number":
        ax.set_xlabel(unit)


def _label_y(ax: Axes, unit: str) -> None:
    if unit == "bytes":
        _in_bytes(ax.yaxis)
    else:
        ax.set_ylabel(unit)


def _in_bytes(axis: Any) -> None:
    """Ticks at powers of two, which are round in KiB, MiB and GiB."""
    from matplotlib.ticker import FuncFormatter, MultipleLocator

    low, high = sorted(axis.get_view_interval())
    axis.set_major_locator(MultipleLocator(scales.byte_step(high - low)))
    axis.set_major_formatter(FuncFormatter(lambda value, _: scales.size(value)))
