"""A part of a recording: from one moment to another, or from one training step to another."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Optional

from ..errors import BadInput
from ..units import COUNTS_NOTE
from .rows import Rows, joined

Window = tuple[float, float]  # seconds since the recording began, both included; may be infinite
_STANDS = ("loaded", COUNTS_NOTE)
Span = tuple[Optional[float], Optional[float]]  # as a user says it: None = no end on this side


def window_of(tables: Mapping[str, Rows], time_s: Span | None, step: Span | None) -> Window:
    """**Errors** BadInput unless exactly one of the two is given, and for what cannot be found."""
    if (time_s is None) == (step is None):
        raise BadInput("say either time_s=(first, last) or step=(first, last)")
    if time_s is None:
        return _moments_of(tables, _ordered(step or (None, None)))
    window = _ordered(time_s)
    rows = tables["process_samples"]["time_s"]
    if len(rows) and not rows.between(*window).any():
        raise BadInput(f"there is no sample {as_text(window)}: they are from {rows.min():.1f} s to {rows.max():.1f} s")
    return window


def limited(name: str, rows: Rows, window: Window, start_mono_ns: int) -> Rows:
    """Rows of a table that lie in the window; of processes those that lived in it, of sources those loaded by then, as
    of agents.
    """
    first_s, last_s = window
    if name == "processes":
        born_s, died_s = ((rows[when] - start_mono_ns) / 1e9 for when in ("born_mono_ns", "died_mono_ns"))
        return rows[~((born_s > last_s) | (died_s < first_s))]
    if name in ("sources", "library_sources"):
        return rows[rows["time_s"] <= last_s]
    kept = rows["time_s"].between(first_s, last_s)
    if name == "agent_notes":  # what an agent is, and what it counts, holds from then on
        kept |= rows["note"].isin(_STANDS) & (rows["time_s"] <= last_s)
    return rows[kept]


def as_text(window: Window) -> str:
    """``from 10.0 s to 20.0 s``, or as much of it as has an end."""
    first = f"from {window[0]:.1f} s" if math.isfinite(window[0]) else "from the start"
    return f"{first} to {window[1]:.1f} s" if math.isfinite(window[1]) else first


def _ordered(span: Span) -> Window:
    try:
        first, last = span
        pair = (-math.inf if first is None else float(first), math.inf if last is None else float(last))
    except (TypeError, ValueError):
        raise BadInput(f"{span!r} is no part of a run: write (first, last), as in (100, 200) or (10, None)") from None
    if not pair[0] <= pair[1]:
        raise BadInput(f"{first} to {last} is empty: the first comes after the last")
    return pair


def _moments_of(tables: Mapping[str, Rows], steps: Window) -> Window:
    """From the first reading at or past a step to the last one that is not past another."""
    rows = joined([tables[table][["time_s", "step"]].dropna() for table in ("sentinels", "takes", "marks")])
    if not len(rows):
        raise BadInput("no training step was recorded: limit it by time_s=(first, last)")
    started = rows["time_s"][rows["step"] >= steps[0]].min()
    ended = rows["time_s"][rows["step"] <= steps[1]].max()
    if not started <= ended:
        raise BadInput(
            f"there is no reading in these steps: they run from {rows['step'].min():,.0f} to {rows['step'].max():,.0f}"
        )
    return float(started), float(ended)
