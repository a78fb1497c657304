"""Memory of the process tree over the run, divided by account or by process, with what went wrong marked on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..findings import Band, Timeline
from ._axes import TIME_LABEL, axes, legend, nothing, short, stack

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACCOUNT_COLOURS = {  # so that two runs side by side can be compared
    "tensors": 0, "arrays": 1, "other-private": 2, "allocator-free": 3, "mapped-files": 4, "python-objects": 5,
    "shared-memory": 7,
}  # fmt: skip
_MARKED = {"death": "ended by a signal", "alert": "alert", "pressure": "pressure"}
_DASHES = {"death": "-", "alert": "--", "pressure": ":"}


def timeline(timeline: Timeline | None, ax: Axes | None = None) -> Axes:
    """By account: tensors, arrays, Python objects, freed but kept, files."""
    return _stacked(timeline, timeline.accounts if timeline else (), "Memory of the process tree, by account", ax)


def processes(timeline: Timeline | None, ax: Axes | None = None) -> Axes:
    """By process; pages that processes share are counted once."""
    return _stacked(timeline, timeline.processes if timeline else (), "Memory of the process tree, by process", ax)


def _stacked(timeline: Timeline | None, bands: Sequence[Band], title: str, ax: Axes | None) -> Axes:
    if timeline is None:
        return nothing(ax, title, "fewer than two samples of memory were recorded")
    ax = axes(ax, title)
    layers = [(f"{b.name} (estimate)" if b.estimated else b.name, b.value_bytes) for b in bands]
    stack(ax, timeline.time_s, layers, [_ACCOUNT_COLOURS.get(b.name, number) for number, b in enumerate(bands)])
    first_s, last_s = timeline.time_s[0], timeline.time_s[-1]
    for kind in _MARKED:
        own = [m for m in timeline.moments if m.kind == kind]
        for number, moment in enumerate(own):
            at_s = min(max(moment.time_s, first_s), last_s)  # what came after the last sample stands at the edge
            name = short(moment.text) if len(own) == 1 else _MARKED[kind]
            ax.axvline(at_s, color="black", linestyle=_DASHES[kind], linewidth=1, label=name if not number else None)
    steps = [step for step in timeline.step if step is not None]
    ax.set_xlabel(f"{TIME_LABEL}; training steps {min(steps):,} to {max(steps):,}" if steps else TIME_LABEL)
    ax.set_xlim(first_s, last_s)
    legend(ax)
    return ax
