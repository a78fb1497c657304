"""Memory of the process tree over the run, divided by account or by process, with what went wrong marked on it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ..findings import Band, Timeline
from ._axes import ACCOUNT_COLOURS, TIME_LABEL, axes, legend, nothing, short, stack

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_MARKED = {"death": "ended by a signal", "alert": "alert", "pressure": "pressure"}
_DASHES = {"death": "-", "alert": "--", "pressure": ":"}
_PHASE_SHADES = {"start-up": "0.75", "train": "0.9", "eval": "0.15", "save": "0.5"}  # greys: no account has them
_NAMED_SHADES = ("0.3", "0.6", "0.82")


def timeline(timeline: Timeline | None, ax: Axes | None = None) -> Axes:
    """By account: tensors, arrays, Python objects, native memory, freed but kept, files."""
    return _stacked(timeline, timeline.accounts if timeline else (), "Memory of the process tree, by account", ax)


def processes(timeline: Timeline | None, ax: Axes | None = None) -> Axes:
    """By process; pages that processes share are counted once."""
    return _stacked(timeline, timeline.processes if timeline else (), "Memory of the process tree, by process", ax)


def _stacked(timeline: Timeline | None, bands: Sequence[Band], title: str, ax: Axes | None) -> Axes:
    if timeline is None:
        return nothing(ax, title, "fewer than two samples of memory were recorded")
    ax = axes(ax, title)
    layers = [(f"{b.name} (estimate)" if b.estimated else b.name, b.value_bytes) for b in bands]
    stack(ax, timeline.time_s, layers, [ACCOUNT_COLOURS.get(b.name, number) for number, b in enumerate(bands)])
    first_s, last_s = timeline.time_s[0], timeline.time_s[-1]
    for kind in _MARKED:
        own = [m for m in timeline.moments if m.kind == kind]
        for number, moment in enumerate(own):
            at_s = min(max(moment.time_s, first_s), last_s)  # what came after the last sample stands at the edge
            name = short(moment.text) if len(own) == 1 else _MARKED[kind]
            ax.axvline(at_s, color="black", linestyle=_DASHES[kind], linewidth=1, label=name if not number else None)
    _phases(timeline, ax)
    steps = [step for step in timeline.step if step is not None]
    ax.set_xlabel(f"{TIME_LABEL}; training steps {min(steps):,} to {max(steps):,}" if steps else TIME_LABEL)
    ax.set_xlim(first_s, last_s)
    legend(ax)
    return ax


def _phases(timeline: Timeline, ax: Axes) -> None:
    """Along the upper edge, as long as each lasted."""
    spans: dict[str, list[tuple[float, float]]] = {}
    for moment in timeline.moments:
        if moment.phase is not None and moment.end_s is not None:
            spans.setdefault(moment.phase, []).append((moment.time_s, moment.end_s - moment.time_s))
    named = [phase for phase in spans if phase not in _PHASE_SHADES]
    shades = {**_PHASE_SHADES, **{phase: _NAMED_SHADES[n % len(_NAMED_SHADES)] for n, phase in enumerate(named)}}
    for phase, own in spans.items():
        place = ax.get_xaxis_transform()
        ax.broken_barh(own, (0.97, 0.03), transform=place, color=shades[phase], label=f"phase: {short(phase)}")
