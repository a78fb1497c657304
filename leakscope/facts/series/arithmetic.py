"""Arithmetic of series: what is never given back, medians of stretches, a slope and how sure it is.

Plain numpy: importing scipy would cost 1.3 s and 95 MB.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ...units import NEARLY_ALL, SOME

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_FINE_POINTS = 600  # a day at 1 Hz is reduced to this many medians first; no question asked here needs a finer grain
_MOST_TIME = NEARLY_ALL  # passes in gaps no longer than stretches are; the rest are holes
_COARSE_POINTS = 16  # fewer tell nothing
_RESAMPLES = 200
_BESIDE = 2  # samples before one, and after it, are those around it: two that differ are told by the other three
_FAR, _FAR_OF_ALL = 5.0, SOME  # times the usual distance from those around; and of all that the series moves
_FEW = 0.15  # of the samples


def level_at(time_s: Floats, value_bytes: Floats, at_s: float) -> float:
    """The usual value around a moment: median of the three samples nearest to it; 0 outside the life of the series."""
    if not time_s.size:
        return 0.0
    usual_gap = float(np.median(np.diff(time_s))) if time_s.size > 1 else 0.0
    if not time_s[0] <= at_s <= time_s[-1] and np.abs(time_s - at_s).min() > 1.5 * usual_gap:
        return 0.0
    nearest = np.argsort(np.abs(time_s - at_s), kind="stable")[:3]
    return float(np.median(value_bytes[nearest]))


def per_second(amount: float, seconds: float) -> float:
    """A rate; 0 where no time passed."""
    return amount / seconds if seconds > 0 else 0.0


def retained(y: Floats) -> Floats:
    """What is never given back: at each moment the lowest value from there to the end. It only rises."""
    return np.minimum.accumulate(y[::-1])[::-1]


def tail_count(y: Floats) -> int:
    """Samples at the end of which nobody knows whether they will be given back: they only bound what came before."""
    return max(2, round(0.1 * y.size))


def gained(y: Floats) -> float:
    """What came in and was never given back, from the first sample to where the tail begins."""
    kept = retained(y)
    return float(kept[-tail_count(y) - 1] - kept[0]) if y.size > 2 else 0.0


def without_blips(y: Floats) -> Floats:
    """What a copy takes, or gives back, for a moment is no level: single samples far from those around them.

    Only where they are few: ups and downs of every step have floors, and these count. A long series is left as it is:
    the medians of ``evenly`` are of more samples.
    """
    width = 2 * _BESIDE + 1
    if not width <= y.size <= width * _FINE_POINTS:
        return y
    padded = np.pad(y, _BESIDE, mode="edge")
    around: Floats = np.median(np.lib.stride_tricks.sliding_window_view(padded, width), axis=1)
    off = np.abs(y - around)
    is_blip = off > max(_FAR * float(np.median(off)), _FAR_OF_ALL * float(np.ptp(y)))
    return np.where(is_blip, around, y) if np.mean(is_blip) <= _FEW else y


def evenly(t: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Medians of stretches of equal time: sampling slows down after the first minute, and gaps are no evidence.

    Each is as long as the gaps are in which most of the time passed. A starved recorder may have many samples of one
    half of a run and few of the other, which counts as much.
    """
    gaps_s = np.sort(np.diff(t))
    passed = np.cumsum(gaps_s)
    usual_s = float(gaps_s[np.searchsorted(passed, _MOST_TIME * passed[-1])])
    lasted_s = float(t[-1] - t[0])
    width_s = max(lasted_s / _FINE_POINTS, float(np.percentile(gaps_s, 90)), min(usual_s, lasted_s / _COARSE_POINTS))
    _, starts = np.unique(np.floor((t - t[0]) / width_s), return_index=True)
    return _medians(t, y, starts)


def bucket_medians(t: Floats, y: Floats, count: int) -> tuple[Floats, Floats]:
    """Medians of ``count`` stretches of equal sample count; the series itself where it is shorter."""
    if t.size <= count:
        return t, y
    return _medians(t, y, np.linspace(0, t.size, count + 1).astype(int)[:-1])


def _medians(t: Floats, y: Floats, starts: NDArray[np.int_]) -> tuple[Floats, Floats]:
    """Medians of the stretches that begin at ``starts``, without a loop: a tree has thousands of series."""
    sizes = np.diff(np.append(starts, t.size))
    ordered = y[np.lexsort((y, np.repeat(np.arange(starts.size), sizes)))]
    lower, upper = starts + (sizes - 1) // 2, starts + sizes // 2
    return (t[lower] + t[upper]) / 2, (ordered[lower] + ordered[upper]) / 2


def theil_sen(t: Floats, y: Floats) -> tuple[float, float]:
    """Median of the slopes between all pairs, and the intercept. **Cost** quadratic: give it buckets, not samples."""
    slope = float(_pair_slopes(t, y[None, :])[0])
    return slope, float(np.median(y) - slope * np.median(t))


def slope_interval(t: Floats, y: Floats) -> tuple[float, float, float, float]:
    """Theil-Sen slope, low and high end of its 95 % interval, and the noise (a robust sigma of the residuals).

    The interval is a moving-block bootstrap of the residuals. Blocks keep the autocorrelation that memory has; without
    them the interval is far too narrow. Seeded: the same series always gives the same interval.
    """
    slope, intercept = theil_sen(t, y)
    fitted = intercept + slope * t
    residual = y - fitted
    noise = 1.4826 * float(np.median(np.abs(residual - np.median(residual))))
    size = y.size
    block = max(2, round(size / 4))
    starts = np.random.default_rng(0).integers(0, size - block + 1, (_RESAMPLES, -(-size // block)))
    picked = (starts[:, :, None] + np.arange(block)).reshape(_RESAMPLES, -1)[:, :size]
    slopes = _pair_slopes(t, fitted + residual[picked])
    low, high = np.percentile(slopes, [2.5, 97.5])
    return slope, float(low), float(high), noise


def _pair_slopes(t: Floats, rows: Floats) -> Floats:
    first, second = np.triu_indices(t.size, 1)
    run = t[second] - t[first]
    use = run > 0
    slopes: Floats = np.median((rows[:, second[use]] - rows[:, first[use]]) / run[use], axis=1)
    return slopes


def extremes(values: Floats, parts: int) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Positions to draw: the first, the last, and the lowest and the highest of each of so many parts."""
    everything = np.arange(values.size)
    if values.size <= 2 * parts:
        return everything
    keep = {0, values.size - 1}
    for part in np.array_split(everything, parts):
        keep |= {int(part[values[part].argmin()]), int(part[values[part].argmax()])}
    return np.array(sorted(keep))
