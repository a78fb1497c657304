"""What all plots share: axes, units, colours. matplotlib is loaded when something is drawn, not before."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from ..errors import BadInput
from ..units import format_bytes

if TYPE_CHECKING:
    from matplotlib.axes import Axes

Floats = npt.NDArray[np.float64]
TIME_LABEL = "time since the recording began (s)"
# Okabe and Ito's colours, told apart by nearly everybody; a second round of them is hatched.
_COLOURS = ("#0072B2", "#E69F00", "#009E73", "#CC79A7", "#56B4E9", "#D55E00", "#F0E442", "#999999")
_LONGEST_NAME = 48
ACCOUNT_COLOURS = {  # so that two runs side by side can be compared, and a timeline with its ledger
    "tensors": 0, "arrays": 1, "native": 2, "native-held": 6, "allocator-free": 3, "mapped-files": 4,
    "python-objects": 5, "other": 7, "unexplained": 7, "shared-memory": 6,
}  # fmt: skip


def axes(ax: Axes | None, title: str, size_inches: tuple[float, float] = (9.0, 3.6)) -> Axes:
    """``ax``, or new axes of a new figure. **Errors** BadInput where matplotlib is not installed."""
    if ax is None:
        try:
            from matplotlib import pyplot
        except ImportError:
            raise BadInput("plots need matplotlib: pip install 'leakscope-recorder[plots]'") from None
        ax = pyplot.subplots(figsize=size_inches, layout="constrained")[1]
    ax.set_title(title, loc="left", fontsize="medium")
    ax.spines[["top", "right"]].set_visible(False)
    return ax


def nothing(ax: Axes | None, title: str, sentence: str) -> Axes:
    """Axes that say why there is nothing to draw."""
    ax = axes(ax, title, (9.0, 1.2))
    ax.set_axis_off()
    ax.text(0.0, 0.5, sentence, transform=ax.transAxes, va="center")
    return ax


def bytes_on(axis: Any, label: str) -> None:
    """Ticks at round binary sizes, named with their unit."""
    from matplotlib.ticker import FuncFormatter, Locator

    class BinaryLocator(Locator):
        def __call__(self) -> Sequence[float]:
            low, high = self.axis.get_view_interval()  # type: ignore[union-attr]
            return self.tick_values(low, high)

        def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
            step = 2.0 ** math.ceil(math.log2(max(abs(vmax - vmin), 1.0) / 6))
            return [n * step for n in range(math.ceil(vmin / step), math.floor(vmax / step) + 1)]

    axis.set_major_locator(BinaryLocator())
    axis.set_major_formatter(FuncFormatter(lambda value, _: format_bytes(value).replace(".0 ", " ")))
    axis.set_label_text(label)


def style(number: int) -> dict[str, Any]:
    """Colour of the n-th area or bar, and a hatch once the colours have been used up."""
    hatch = ("", "//", "..", "xx")[number // len(_COLOURS) % 4]
    return {"facecolor": _COLOURS[number % len(_COLOURS)], "hatch": hatch, "edgecolor": "white", "linewidth": 0.3}


def line_style(number: int) -> dict[str, Any]:
    """Colour, dash and marker of the n-th line: told apart without colour, too."""
    return {
        "color": _COLOURS[number % len(_COLOURS)],
        "linestyle": ("-", "--", "-.", ":")[number % 4],
        "marker": "osv^DPX*"[number % 8],
        "markersize": 4,
    }


def short(name: str) -> str:
    """A name as it fits beside a chart: the end of a path says most. What cannot be printed is written out."""
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in name)
    shown = shown if len(shown) <= _LONGEST_NAME else "…" + shown[1 - _LONGEST_NAME :]
    shown = shown.replace("$", r"\$")  # to matplotlib, $ begins a formula,
    return f" {shown}" if shown.startswith("_") else shown  # and a first _ hides a label


def legend(ax: Axes) -> None:
    """Beside the chart, in the order of the layers: the topmost first."""
    handles, labels = ax.get_legend_handles_labels()
    if handles:
        ax.legend(
            handles[::-1], labels[::-1], loc="upper left", bbox_to_anchor=(1.0, 1.0), frameon=False, fontsize="small"
        )


def stack(
    ax: Axes,
    x: Sequence[float] | Floats,
    layers: Sequence[tuple[str, Sequence[float] | Floats]],
    numbers: Sequence[int] | None = None,
) -> None:
    """Layers on top of each other, the first at the bottom; ``numbers`` of their colours, else in their order."""
    floor = np.zeros(len(x))
    for number, (name, values) in zip(numbers or range(len(layers)), layers):
        roof = floor + np.asarray(values, dtype=np.float64)
        ax.fill_between(x, floor, roof, label=short(name), **style(number))
        floor = roof
    ax.set_ylim(bottom=0)
    bytes_on(ax.yaxis, "memory")
