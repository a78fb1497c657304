"""The curves of the benchmark as one picture, budgets drawn in: ``python -m tests.bench.picture`` from results.json."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from .figures import Figure, Results, curves
from .runs import ROOT

PICTURE = ROOT / "docs" / "development" / "bench.svg"
_COLUMNS = 3


def draw(results: Results, path: Path = PICTURE) -> None:
    """One small chart a curve, both axes logarithmic; nothing where matplotlib is not installed."""
    try:
        import matplotlib
    except ImportError:
        print("no picture: matplotlib is not installed")
        return
    matplotlib.use("svg")
    from matplotlib import pyplot

    drawn = {what: points for what, points in curves(results.figures).items() if points[0].at is not None}
    if not drawn:
        return
    # Text as text keeps the file small; a fixed salt makes the same figures the same bytes.
    with pyplot.rc_context({"svg.fonttype": "none", "svg.hashsalt": "bench", "font.size": 8}):
        rows = -(-len(drawn) // _COLUMNS)
        figure, axes = pyplot.subplots(rows, _COLUMNS, figsize=(3.2 * _COLUMNS, 2.3 * rows), squeeze=False)
        for axis in axes.flat[len(drawn) :]:
            axis.remove()
        for axis, (what, points) in zip(axes.flat, drawn.items()):
            _chart(axis, what, points)
        figure.tight_layout()
        figure.savefig(path, metadata={"Date": None})
        pyplot.close(figure)


def _chart(axis: Any, what: str, points: list[Figure]) -> None:
    at = [point.at for point in points]
    axis.plot(at, [point.value for point in points], "o-", markersize=3, label="measured")
    bounded = [point for point in points if point.budget is not None]
    axis.plot([p.at for p in bounded], [p.budget for p in bounded], "--", color="tab:red", label="budget")
    axis.set(xscale="log", yscale="log", title=what.replace("`", ""), xlabel=points[0].per, ylabel=points[0].unit)
    axis.minorticks_off()  # half of the file
    axis.grid(alpha=0.3)
    axis.legend(fontsize=6)


if __name__ == "__main__":
    draw(Results.load())
