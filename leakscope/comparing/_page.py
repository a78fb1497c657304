"""A comparison as one page, of the same make as the report's: the verdict, both curves, what went and what came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..findings import Series
from ..pages import charts
from ..pages.page import cell, page
from ..units import format_bytes
from ._comparison import BETTER, GONE, NEW, STILL, WORSE, Comparison, Overlay, Side
from ._curves import STEP
from ._words import WORDS, closing, rows

_KIB = 1024  # the chart's unit, as in the report
_TONES = {BETTER: "good", WORSE: "bad"}
_CHANGES = {GONE: "Gone", STILL: "Still there", NEW: "New"}


def html(comparison: Comparison) -> str:
    """A whole HTML document. The same comparison gives the same bytes each time."""
    data = {"overlay": _data(comparison, comparison.overlay) if comparison.overlay is not None else None}
    return page("compare.html", ("compare.js",), data, **_values(comparison))


def html_cell(comparison: Comparison) -> str:
    """The same without a script, as a box for a cell of a notebook."""
    return cell("compare.html", **_values(comparison))


def _values(comparison: Comparison) -> dict[str, Any]:
    """What the template names."""
    by_step = comparison.aligned_by == STEP
    return {
        "comparison": comparison,
        "tone": _TONES.get(comparison.verdict, "unsure"),
        "word": WORDS[comparison.verdict],
        "reason": comparison.reason[:1].upper() + comparison.reason[1:],
        "figures": list(_figures(comparison)),
        "axis": "training steps since each run's first" if by_step else "time since each run's start-up",
        "drawn": charts.lines(_series(comparison.overlay, by_step)) if comparison.overlay is not None else [],
        "rows": list(rows(comparison)),
        "changes": [
            (name, own)
            for change, name in _CHANGES.items()
            if (own := [c for c in comparison.findings if c.change == change])
        ],
        "closing": list(closing(comparison)),
    }


def _figures(comparison: Comparison) -> Iterator[tuple[str, str, str]]:
    one, two = comparison.before, comparison.after
    if comparison.aligned_by == STEP:
        name, smallest = "Growth per step", comparison.smallest_leak_bytes_per_step
        rates = one.growth_bytes_per_step, two.growth_bytes_per_step
    else:
        name, smallest = "Growth per hour", comparison.smallest_leak_bytes_per_hour
        rates = one.growth_bytes_per_hour, two.growth_bytes_per_hour
    if smallest is not None:
        before, after = (_rate(side, rate or 0.0, smallest) for side, rate in zip((one, two), rates))
        yield name, before, after
    yield "Peak", format_bytes(one.peak_bytes), format_bytes(two.peak_bytes)


def _rate(side: Side, rate: float, smallest: float) -> str:
    """Drift of a run that does not grow is no figure to be read as a leak."""
    is_drift = not side.grows and rate < smallest
    return f"below {format_bytes(smallest)}" if is_drift else format_bytes(rate, signed=True)


def _series(overlay: Overlay, by_step: bool) -> list[Series]:
    runs = {"before": overlay.before_bytes, "after": overlay.after_bytes}
    unit = "steps" if by_step else "s"
    found = []
    for name, held in runs.items():
        points = [(x, value) for x, value in zip(overlay.x, held) if value is not None]
        found.append(Series(name, [x for x, _ in points], [value for _, value in points], x_unit=unit))
    return found


def _data(comparison: Comparison, overlay: Overlay) -> dict[str, Any]:
    """What the script draws."""
    runs = (("before", overlay.before_bytes), ("after", overlay.after_bytes))
    return {
        "unit": comparison.aligned_by,
        "x": overlay.x,
        "range": [comparison.range_start, comparison.range_end],
        "runs": [
            {"name": name, "kib": [None if value is None else value // _KIB for value in held]} for name, held in runs
        ],
    }
