"""A comparison as one page, of the same make as the report's: the verdict, the curves, what went and what came."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from ..pages import plots
from ..pages.page import cell, page
from ..units import format_bytes, per_step, steps_together
from ._comparison import BETTER, GONE, NEW, ONLY_AFTER, ONLY_BEFORE, STILL, WORSE, Comparison, History, Overlay
from ._curves import STEP
from ._words import WORDS, clock_of, closing, growth, history_closing, history_headline, history_table, names, rows

_TONES = {BETTER: "good", WORSE: "bad"}
_CHANGES = {GONE: "Gone", ONLY_BEFORE: "Found only before", STILL: "Still there", NEW: "New"}
_CHANGES |= {ONLY_AFTER: "Found only after"}


def html(comparison: Comparison) -> str:
    """A whole HTML document. The same comparison gives the same bytes each time."""
    plot = _drawn(comparison)
    return page(
        "compare.html",
        ((), _data(plot)),
        ((), {}),
        **_values(comparison, plot),
    )


def html_cell(comparison: Comparison) -> str:
    """A comparison as a box for a cell of a notebook."""
    plot = _drawn(comparison)
    return cell("compare.html", _data(plot), (), **_values(comparison, plot))


def _data(plot: plots.Plot | None) -> dict[str, Any]:
    return {"plots": {"runs": plots.data(plot)} if plot is not None else {}}


def _drawn(comparison: Comparison) -> plots.Plot | None:
    return _plot(comparison, comparison.overlay) if comparison.overlay is not None else None


def _values(comparison: Comparison, plot: plots.Plot | None) -> dict[str, Any]:
    """What the template names."""
    return {
        "comparison": comparison,
        "tone": _TONES.get(comparison.verdict, "unsure"),
        "word": WORDS[comparison.verdict],
        "reason": comparison.reason[:1].upper() + comparison.reason[1:],
        "figures": list(_figures(comparison)),
        "axis": _axis(comparison),
        "drawn": plots.drawn(plot) if plot is not None else None,
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
    by_step = comparison.aligned_by == STEP
    name = per_step(comparison.step_unit) if by_step else clock_of(comparison)[0]
    if comparison.smallest_leak_bytes_per_hour is not None:
        before, after = (growth(comparison, side, by_step, bounds=False) for side in (one, two))
        yield f"Growth {name}", before, after
    yield "Peak of the whole run", format_bytes(one.peak_bytes), format_bytes(two.peak_bytes)


def history_html(history: History) -> str:
    """The page that compares three or more runs."""
    drawn = dict(_history_plots(history))
    heads, rows = history_table(history)
    return page(
        "history.html",
        ((), {"plots": {key: plots.data(plot) for key, plot in drawn.items()}}),
        ((), {}),
        history=history,
        tone=_TONES.get(history.verdict, "unsure"),
        headline=history_headline(history),
        axis=_axis(history),
        names=names(history),
        heads=heads,
        rows=rows,
        drawn={key: plots.drawn(plot) for key, plot in drawn.items()},
        closing=list(history_closing(history)),
    )


def _history_plots(history: History) -> Iterator[tuple[str, plots.Plot]]:
    called = names(history)
    count = len(called)
    if history.curves:
        curves = [
            plots.Curve(name, plots.ramp(n, count), one.x, one.value_bytes)
            for n, (name, one) in enumerate(zip(called, history.curves))
        ]
        title = f"Memory of {count} runs laid over each other"
        yield "runs", plots.Plot(title, curves, _unit(history), ordered=True)
    sides = [run.side for run in history.runs]
    numbers = [float(n) for n in range(1, count + 1)]
    named = dict(zip(numbers, called))
    peak = [side.peak_bytes for side in sides]
    yield (
        "peaks",
        plots.Plot("Peak of each run", [plots.Curve("peak", plots.colour(0), numbers, peak)], "number", names=named),
    )
    unit = STEP if history.aligned_by == STEP else "hour"
    rates = [getattr(side, f"growth_bytes_per_{unit}") for side in sides]
    if all(rate is not None for rate in rates):
        each, together = clock_of(history)
        if unit == STEP:
            each, together = per_step(history.step_unit), steps_together(history.step_unit)
        title = f"Growth {each} of each run"
        shown = [max(0.0, rate) * together for rate in rates]
        curve = plots.Curve(f"growth {each}", plots.colour(1), numbers, shown)
        yield "rates", plots.Plot(title, [curve], "number", names=named)


def _plot(comparison: Comparison, overlay: Overlay) -> plots.Plot:
    """Both runs over each other."""
    runs = (("before", overlay.before_bytes), ("after", overlay.after_bytes))
    return plots.Plot(
        "Memory of both runs",
        [plots.Curve(name, plots.colour(n), overlay.x, held, plots.dash(n)) for n, (name, held) in enumerate(runs)],
        _unit(comparison),
        common=(comparison.range_start, comparison.range_end),
        base="before",
    )


def _unit(told: Comparison | History) -> str:
    return told.step_unit if told.aligned_by == STEP else "s"


def _axis(told: Comparison | History) -> str:
    if told.aligned_by != STEP:
        return "time since each run began, or its first step"
    return f"{'training steps' if told.step_unit == STEP else f'{told.step_unit}s'} since each run's first"
