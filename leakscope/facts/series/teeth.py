"""The saw-tooth in a series: memory that rises and comes back, each epoch or each evaluation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...units import format_bytes
from .arithmetic import Floats, gained, retained

_LONG_RISE = 2.0  # times the longest of the other teeth
_SHORT = 0.15  # of the samples lie above the middle of a tooth; of a saw half of them do
_MANY = 8  # floors make a series of their own
_NEAR = 0.25  # of the growth below a ceiling; the roof of a steady leak rises by two thirds of it between outer thirds
_DEEP = 0.2  # of the growth: falls from a ceiling, as those of a tooth are of all that a series moves
_FLOORS_FAR_BELOW = 2.0  # times the growth: whether a floor so low rises says little about the ceiling


@dataclass(frozen=True)
class Teeth:
    """The saw-tooth of a window: indices of its floors, the usual height of a tooth."""

    floors_at: Sequence[int] = ()
    height_bytes: float = 0.0
    outgrown: bool = False  # there are ups and downs, but far more stays than ever comes back

    def text(self) -> str:
        if not self.floors_at:
            return ""
        times = "once" if len(self.floors_at) == 1 else f"{len(self.floors_at)} times"
        return f"rises and falls {times} by {format_bytes(self.height_bytes)}, and its floor does not rise"


def cut_at_last_trough(t: Floats, y: Floats) -> tuple[Floats, Floats, Teeth]:
    """The window up to the last trough: the last tooth of a saw never had its chance to fall.

    Three things are no teeth: single peaks, where most of the time is spent on the floor; a last stretch twice as long
    as any before it (the saw ended there, often with the start-up; it is judged by itself); and ups and downs of which
    far more stays than ever comes back.
    """
    falls = _falls(y, least_fall=0.3 * float(np.ptp(y)))
    if not falls:
        return t, y, Teeth()
    usual_bytes = float(np.median([fall.height_bytes for fall in falls]))
    if float(np.mean(y - retained(y) > 0.5 * usual_bytes)) < _SHORT:
        return t, y, Teeth()
    last = falls[-1].trough_at
    borders_s = [float(t[0])] + [float(t[fall.trough_at]) for fall in falls]
    lasted_s = [b - a for a, b in zip(borders_s, borders_s[1:])]
    longest_s = max(lasted_s)
    if t[-1] - t[last] >= 2 * longest_s:
        return t[last:], y[last:], Teeth()
    if gained(y) > 2 * max(fall.height_bytes for fall in falls):
        end = last + 1 if t[-1] - t[last] < 0.2 * (t[-1] - t[0]) else t.size
        return t[:end], y[:end], Teeth(outgrown=True)
    end = last + 1
    if len(falls) <= 2:
        return t[:end], y[:end], Teeth([fall.trough_at for fall in falls], usual_bytes)
    longest_s = max(lasted_s[1:])
    if lasted_s[0] >= _LONG_RISE * longest_s:  # it rose long before it had teeth: that counts, too
        t, y = t[:end], y[:end]
        return t, y, Teeth(_floors(t, y, min(longest_s, float(t[-1] - t[0]) / _MANY)), usual_bytes)
    first = falls[0].trough_at  # what came before is the rise of the first tooth
    return t[first:end], y[first:end], Teeth([fall.trough_at - first for fall in falls], usual_bytes)


@dataclass(frozen=True)
class Ceiling:
    """A level that memory comes up to again and again, and does not leave behind, while its floors rise towards it."""

    height_bytes: float
    falls: int

    def text(self) -> str:
        return f"returns to about {format_bytes(self.height_bytes)} ({self.falls} times) and never exceeds it"


def ceiling_of(y: Floats, growth_bytes: float) -> Ceiling | None:
    """The ceiling of a window whose floors rise by ``growth_bytes``, if it has one that does not rise with them.

    It is reached and left at least twice, not at the beginning only: one high peak of a start-up is no bound.
    """
    if y.size < 6 or growth_bytes <= 0:
        return None
    first, middle, last = np.array_split(y, 3)
    near = _NEAR * growth_bytes
    rose = max(float(middle.max()), float(last.max())) - float(first.max())
    if rose >= near or float(first.max() - first.min()) > _FLOORS_FAR_BELOW * growth_bytes:
        return None
    height = float(y.max())
    left = [fall for fall in _falls(y, _DEEP * growth_bytes) if fall.peak_bytes >= height - near]
    if len(left) < 2 or left[-1].trough_at < first.size or left[0].trough_at >= y.size - last.size:
        return None
    return Ceiling(height, len(left))


def _floors(t: Floats, y: Floats, every_s: float) -> list[int]:
    """The lowest of each stretch of ``every_s``."""
    stretch = np.floor((t - t[0]) / every_s)
    return [int(at[np.argmin(y[at])]) for at in (np.flatnonzero(stretch == n) for n in np.unique(stretch))]


@dataclass(frozen=True)
class _Fall:
    peak_bytes: float
    height_bytes: float
    trough_at: int


def _falls(y: Floats, least_fall: float) -> list[_Fall]:
    """Every fall from a peak by ``least_fall`` or more, with its lowest point; half of that regained ends it."""
    falls: list[_Fall] = []
    if least_fall <= 0:
        return falls
    peak = trough = float(y[0])
    trough_at = 0
    falling = False
    for i, value in enumerate(y.tolist()):
        if falling and value <= trough:
            trough, trough_at = value, i
        elif falling and value - trough >= 0.5 * least_fall:
            falls.append(_Fall(peak, peak - trough, trough_at))
            falling, peak = False, value
        elif not falling and value > peak:
            peak = value
        elif not falling and peak - value >= least_fall:
            falling, trough, trough_at = True, value, i
    if falling:
        falls.append(_Fall(peak, peak - trough, trough_at))
    return falls
