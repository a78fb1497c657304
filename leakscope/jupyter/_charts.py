"""The charts of the page, one by one, for a notebook: drawn by the same scripts, with the same figures behind them."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd

from ..errors import BadInput
from ..findings import HeapView, LedgerRow, Report
from ..pages import pictures
from ..pages import plots as described
from ..pages.page import cell, page
from ..pages.plots import Curve, Plot
from ..renderers import html
from ..storage import Recording
from . import _axes
from ._bill import bill_frame

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_TENSORS = "Live tensors, by owner"
_LEDGER = "Where the growth went"


class Chart:
    """A chart that shows itself: to be pointed at and zoomed where scripts run, as a picture where they do not.

    ``table`` has the figures behind it; ``save`` writes it as ``.svg``, ``.png`` or ``.html``.
    """

    def __init__(
        self,
        title: str,
        table: Callable[[], pd.DataFrame],
        svg: Callable[[], str] | None = None,
        values: Mapping[str, Any] | None = None,
        data: Mapping[str, Any] | None = None,
        sentence: str = "",
        draw: Callable[[Axes], None] | None = None,
    ) -> None:
        """``svg`` makes the picture, ``draw`` the same on axes; ``values`` and ``data`` are what the scripts take."""
        self.title, self._table, self._svg, self._sentence, self._draw = title, table, svg, sentence, draw
        self._values = {"drawn": None, "ledger": None, "bill": None, "heap": None, **(values or {})}
        self._data = data or {}

    def __repr__(self) -> str:
        return f"<Chart: {self.title}{f': {self._sentence}' if self._sentence else ''}>"

    @property
    def table(self) -> pd.DataFrame:
        """The figures behind it."""
        return self._table()

    def to_html(self, path: str | os.PathLike[str] | None = None) -> str | None:
        """A page with this chart, as text, or written to a file. **Errors** OSError."""
        text = page("chart.html", ((), {"plots": {}, **self._data}), (_scripts(self._data), {}), **self._given(""))
        if path is None:
            return text
        Path(path).write_text(text, encoding="utf-8")
        return None

    def to_svg(self) -> str:
        """The chart as a picture. **Errors** BadInput where there is nothing to draw."""
        if self._svg is None:
            raise BadInput(f"{self.title}: {self._sentence}")
        return self._svg()

    def to_axes(self, ax: Axes | None = None) -> Axes:
        """The chart on axes of matplotlib's, to be changed as any others: on new ones where none are given.

        **Errors** BadInput where there is nothing to draw, or matplotlib is not installed.
        """
        if self._draw is None:
            raise BadInput(f"{self.title}: {self._sentence}")
        ax = _axes.new_axes() if ax is None else ax
        self._draw(ax)
        return ax

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as what the name says: ``.svg``, ``.png`` or ``.html``.

        **Errors** BadInput: another ending, nothing to draw, or ``.png`` without resvg. OSError.
        """
        kind = Path(path).suffix.lower()
        if kind == ".html":
            self.to_html(path)
        elif kind == ".svg":
            Path(path).write_text(self.to_svg(), encoding="utf-8")
        elif kind == ".png":
            Path(path).write_bytes(pictures.png(self.to_svg()))
        else:
            raise BadInput(f"{os.fspath(path)}: charts are written as .svg, .png or .html")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        """HTML for notebooks, and a picture for whatever shows none: PNG where it can be made, else SVG."""
        shown: dict[str, str] = {"text/plain": repr(self)}
        if self._svg is not None:
            svg = self._svg()
            try:
                shown["image/png"] = base64.b64encode(pictures.png(svg)).decode()
            except BadInput:
                shown["image/svg+xml"] = svg
        picture = "" if self._svg is None else _embedded(shown)
        shown["text/html"] = cell("chart.html", self._data, _scripts(self._data), alone=True, **self._given(picture))
        return shown

    def _given(self, picture: str) -> dict[str, Any]:
        return {
            "title": self.title,
            "path": "a notebook",
            "picture": picture,
            "sentence": self._sentence,
            **self._values,
        }


def _scripts(data: Mapping[str, Any]) -> tuple[str, ...]:
    return ("icicle.js", "heap.js") if "heap" in data else ()


def _embedded(shown: Mapping[str, str]) -> str:
    """The picture as an address: what takes scripts and styles out of a notebook leaves it its pictures."""
    if "image/png" in shown:
        return "data:image/png;base64," + shown["image/png"]
    return "data:image/svg+xml;base64," + base64.b64encode(shown["image/svg+xml"].encode()).decode()


def of_plot(plot: Plot | None, title: str, nothing: str) -> Chart:
    """Lines or bands; ``nothing`` is said where there is no plot."""
    if plot is None:
        return Chart(title, pd.DataFrame, sentence=nothing)
    return Chart(
        plot.title,
        lambda: _frame(plot),
        lambda: pictures.of_plot(plot),
        {"drawn": described.drawn(plot)},
        {"plots": {"chart": described.data(plot)}},
        draw=partial(_axes.draw_plot, plot),
    )


def first_divided_by(plot: Plot | None, by: str) -> Plot | None:
    """``plot`` with another division first."""
    if plot is None or plot.by == by:
        return plot
    ways = [(plot.by, plot.curves), *plot.divisions]
    chosen = next((curves for name, curves in ways if name == by), plot.curves)
    return replace(plot, by=by, curves=chosen, divisions=[way for way in ways if way[0] != by])


def of_ledger(rows: Sequence[LedgerRow]) -> Chart:
    """What each account of each process gained."""

    def table() -> pd.DataFrame:
        return pd.DataFrame([asdict(row) for row in rows])

    if not any(row.growth_bytes for row in rows if row.in_total):
        return Chart(_LEDGER, table, sentence="No account grew or shrank.")
    return _of_bars(_LEDGER, table, pictures.movements(rows), {"ledger": rows})


def of_bill(report: Report, moment: str) -> Chart:
    """What all memory was at one moment."""
    bills = [bill for bill in report.bill if bill.moment == moment and bill.total_bytes]
    title = f"What the memory is, at its {moment}"
    if not bills:
        return Chart(title, pd.DataFrame, sentence="No sample of memory was recorded.")
    return _of_bars(title, lambda: bill_frame(bills), pictures.pieces(bills[0]), {"bill": html.bill_of(report)})


def _of_bars(
    title: str, table: Callable[[], pd.DataFrame], bars: Sequence[pictures.Bar], values: Mapping[str, Any]
) -> Chart:
    return Chart(
        title, table, partial(pictures.of_bars, title, bars), values, draw=partial(_axes.draw_bars, title, bars)
    )


def of_heap(view: HeapView | None, step_unit: str) -> Chart:
    """All memory of one process as nested boxes, at any two snapshots."""
    if view is None:
        return Chart("The heap, by who holds it", pd.DataFrame, sentence="No snapshot of that process is shown.")
    values, data = html.heap_values(view)
    title = f"The heap of {view.process}, by who holds it"

    def table() -> pd.DataFrame:
        moments = [take.time_s for take in view.takes]
        return pd.DataFrame([holder.bytes for holder in view.holders], [h.path for h in view.holders], moments)

    return Chart(
        title,
        table,
        lambda: pictures.of_heap(title, view),
        {"heap": values, "step_unit": step_unit},
        {"heap": [data]},
        draw=partial(_axes.draw_heap, title, view),
    )


def tensors_plot(recording: Recording, pid: int | None) -> Plot | None:
    """By whose they are, at each snapshot, in one process: the one with most of them if none is named."""
    rows = recording.tables.tensors
    rows = rows[(rows["moment"] == "take").fillna(False).to_numpy(dtype=bool)]
    if pid is not None:
        rows = rows[(rows["pid"] == pid).fillna(False).to_numpy(dtype=bool)]
    if not len(rows):
        return None
    of_process = rows.groupby(["pid", "start_ticks"])["storage_bytes"].transform("sum")
    rows = rows[(of_process == of_process.max()).to_numpy(dtype=bool)]
    layer = rows["tensor_owner"].astype(str)
    if rows["device"].nunique() > 1:
        layer = layer + " on " + rows["device"].astype(str)
    moments = rows.groupby("take")["time_s"].max()
    table = rows.groupby(["take", layer.rename("layer")])["storage_bytes"].sum().unstack(fill_value=0)
    table = table[table.mean().sort_values(ascending=False).index]
    time_s = [float(at) for at in moments.loc[table.index]]
    curves = [
        Curve(str(name), described.colour(number), time_s, [int(value) for value in table[name]])
        for number, name in enumerate(table)
    ]
    return Plot(f"{_TENSORS}, in process {rows['pid'].iloc[0]}", curves, stacked=True)


def _frame(plot: Plot) -> pd.DataFrame:
    """A column a curve, in bytes, by its place; of a plot that is divided twice the first division."""
    columns = [pd.Series(list(curve.y), list(curve.x), name=curve.name) for curve in plot.curves]
    frame = pd.concat(columns, axis=1).rename_axis("time_s" if plot.x_unit == "s" else plot.x_unit)
    frame.attrs["units"] = dict.fromkeys(frame.columns, plot.y_unit)
    return frame
