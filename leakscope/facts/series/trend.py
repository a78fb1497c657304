"""Does a series of bytes grow without end in sight? Arrays in, one frozen verdict out.

The difficulty is not the slope but the innocents: a cache that fills and is full, an optimizer that allocates its
state once, a buffer emptied each epoch whose run ends with a full one, a random walk. So the slope is judged last,
after these questions, in this order:

1. start-up (warm-up, and all before the first training step) and shutdown are cut off;
2. a saw-tooth is judged by its floors: the run is cut at the last trough (the last tooth never had its chance to fall);
3. what counts as growth is what was *never given back*: the lowest value from each moment to the end;
4. one large step is taken out (a step is not a leak), what remains is judged again;
5. the rise has to be spread over the run, and has to go on at its end;
6. the Theil-Sen slope of bucket medians has to be above zero by a block bootstrap, and the growth well above the noise;
7. what comes up to one ceiling again and again is bounded by it, however much its floors rise below: an allocator gives
   back less of each tooth (a leak lifts both).

Where all of that sees no growth in the whole run, the same is asked of its last half, quarter and eighth: a load hides
what follows, and a leak may begin late. Such a rise has to be new: memory did not rise as high before and come back. It
is no end of one that fades: a level that is approached looks like a straight line to whoever comes close.

What is too little to be told from the drift of a clean process counts all the same where it is a straight line for a
minute or more. How much a process holds plays no part.

Plain Mann-Kendall calls 59 % of driftless AR(1) walks a trend and is not used.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...units import MOST, MiB, format_bytes, format_duration
from .arithmetic import Floats, bucket_medians, evenly, gained, retained, slope_interval, tail_count, without_blips
from .teeth import Teeth, ceiling_of, cut_at_last_trough

GROWING, FLAT, CANNOT_TELL = "growing", "flat", "cannot-tell"
LEAST_STEPS = 20  # of training: fewer are too coarse a clock
DRIFT_BYTES = 5 * MiB  # of a clean process in a run, as far as was seen: of several it adds up
_BUCKETS = 24  # enough to see thirds, gaps and steps; few enough that neighbours are nearly independent
_STEEPER = 2.0  # than the whole rise: seven samples with one step among them give 2.3
_LEAST_BUCKETS = 8
LEAST_S = 9.0  # of work: in less a slow start cannot be told from a leak
WARM_UP = 0.15  # of the run: imports, first batches, optimizer state
FIRST_WORK_S = 1.5  # the same, after the work is known to have begun
_NOISE = 4.0  # growth below so many widths of the noise is an accident of where the window ends
_WALK = 2.3  # and below so many widths of a driftless walk, what chance alone brings about
_LEAST_AT_WORK = 0.3  # of the run: a job that only begins to work towards its end is judged on all of it
_GOES_ON = 0.35  # of the pace before: growth that is less than that afterwards has come to an end
_STEADILY, _STEADY_S = 0.25, 60.0  # of what counts as growth at all, and seconds: enough of a straight line
_EVENLY = 0.9  # of as many equal rises
_NEARLY = 0.75  # of what counts as growth at all: beside a rise without a pause it is no noise
_MUCH = 3.0  # times what counts as growth at all, beside a step
_STAYS = 0.1  # of the window: so long memory must stay after a rise, or unclear that it was a single step
_MUCH_OF_A_TOOTH = 0.25  # by which floors rose: less, and it may be chance where in a tooth they were met
_PAUSE = 0.4  # of the window without any growth, in its middle: there were two rises only, whatever their length
_TAKEN_DOWN = 0.15  # of the samples: a program that lets go of much on a busy machine takes that long at most
_GULP = 0.3  # of all that the series moves: what a program takes for a copy of its results, before it lets go of them
_QUIET = 0.2  # of the window without any growth, at its end
_EARLY = 0.75  # of the growth in the first third of the window, and no growth in the rest: something was filled
_LATER, _LATER_S = (1 / 2, 1 / 4, 1 / 8), 60.0  # of the run, and seconds: in less, an evaluation looks alike
_TOPS = 0.05  # of the time: less, and they are peaks of a moment, as of a copy that is saved
_AS_LONG = 0.25  # of a rise: one before it that was given back
_FADES = "the growth is coming to an end: the last third added little"


@dataclass(frozen=True)
class Trend:
    """What a series did between ``start_s`` and ``end_s``, the judged window.

    **Units** bytes and seconds. ``growth_bytes`` is what was gained and not given back by ``end_s``; it is 0 or more,
    and is also filled when the verdict is flat (a cache that filled up). ``slope_low`` and ``slope_high`` bound
    ``slope_per_s`` at 95 %; all three are 0 where the growth is too small to ask for its slope.
    """

    verdict: str
    reason: str
    start_s: float = 0.0
    end_s: float = 0.0
    growth_bytes: int = 0
    slope_per_s: float = 0.0
    slope_low: float = 0.0
    slope_high: float = 0.0


def judge(
    time_s: Floats,
    value_bytes: Floats,
    *,
    started_s: float | None = None,  # when the work began, where somebody knows: all before it is start-up
    begun_s: float | None = None,  # when the interpreter had started: on a busy machine that alone takes half a minute
    min_samples: int = 16,  # two for each of the eight buckets
    min_growth_bytes: int = 2 * DRIFT_BYTES,
    min_growth_fraction: float = 0.0,  # of the level
) -> Trend:
    """The verdict on one series. **Shape** two arrays of equal length, any order, NaN allowed (left out)."""
    more = started_s, min_samples, min_growth_bytes, min_growth_fraction
    t, y = _tidy(time_s, value_bytes)
    trend = _judge(t, y, begun_s, *more)
    if trend.verdict == GROWING:
        return trend
    if begun_s is not None:  # an interpreter takes little: its start hides growth, makes none
        whole = _judge(t, y, None, *more)
        if whole.verdict == GROWING:
            return whole
    return _since(t, y, min_samples, min_growth_bytes, min_growth_fraction) or trend


def least_shown(trend: Trend, time_s: Floats, value_bytes: Floats, min_growth_bytes: int = 2 * DRIFT_BYTES) -> float:
    """The slowest steady growth that would have shown in the judged window of a flat series. **Units** bytes a second.

    Measured: of the flat series of this project's programs, with so much growth added, 97 in 100 were called growing.
    """
    use = np.isfinite(value_bytes) & (time_s >= trend.start_s) & (time_s <= trend.end_s)
    lasted_s = trend.end_s - trend.start_s
    if use.sum() < _LEAST_BUCKETS or lasted_s <= 0:
        return float("inf")
    t, y = evenly(time_s[use], without_blips(value_bytes[use]))
    t, y = bucket_medians(t, y, _BUCKETS)
    noise = slope_interval(t, y)[3] if t.size >= _LEAST_BUCKETS else float("inf")
    return 2 * max(float(min_growth_bytes), _NOISE * noise, _WALK * _walk(y)) / lasted_s


def _since(t: Floats, y: Floats, min_samples: int, min_growth_bytes: int, min_growth_fraction: float) -> Trend | None:
    """Growth that goes on since some moment: the last half of the run, quarter or eighth as a run of its own.

    What came before hides it, a load or a long time without growth. As long a stretch of a saw-tooth rises too: only a
    rise that is more than what was ever given back before is one.
    """
    if t.size < 2 * min_samples:
        return None
    lasted_s = float(t[-1] - t[0])
    for share in _LATER:
        from_s = float(t[-1]) - share * lasted_s
        late = t >= from_s
        if share * lasted_s < _LATER_S or late.sum() < 2 * min_samples:
            return None
        trend = _judge(t[late], y[late], None, None, min_samples, min_growth_bytes, min_growth_fraction)
        if trend.verdict != GROWING:
            continue
        if not _was_there_before(t, y, from_s, trend) and not _fades_since_before(t, y, trend):
            began = late & (t >= _beginning(t[late], y[late]))
            from_there = _without_warm_up(
                *evenly(t[began], without_blips(y[began])), None, min_growth_bytes, min_growth_fraction
            )
            trend = from_there if from_there.verdict == GROWING else trend
            return replace(trend, reason=f"{trend.reason}, since {format_duration(trend.start_s - t[0])}")
    return None


def _beginning(t: Floats, y: Floats, *, least_share: float = 0.05) -> float:
    """When a rise begins: from then on more than ``least_share`` of it is there."""
    rise = retained(y) - float(retained(y)[0])
    return float(t[max(0, int(np.argmax(rise > least_share * rise[-1])) - 1)])


def _was_there_before(t: Floats, y: Floats, from_s: float, trend: Trend) -> bool:
    """Whether memory rose as high before ``from_s`` and came back: twice, or once in a rise about as long as this one.

    As high: to where less than half of this rise lies above it.
    """
    y = without_blips(y)
    kept = float(np.interp(trend.end_s, t, retained(y)))
    above = y > kept - 0.5 * trend.growth_bytes
    edges = np.flatnonzero(np.diff(np.concatenate(([0], above.astype(int), [0]))))
    begins, ends = edges[::2], edges[1::2] - 1
    earlier = (t[begins] < from_s) & (ends < t.size - 1)
    lasted_s = t[ends[earlier]] - t[begins[earlier]]
    are_tops = lasted_s.size > 1 and lasted_s.sum() >= _TOPS * (from_s - t[0])
    return bool(are_tops or (lasted_s >= _AS_LONG * (trend.end_s - trend.start_s)).any())


def _fades_since_before(t: Floats, y: Floats, trend: Trend) -> bool:
    """Whether a rise is the end of one that began before it: what approaches a level looks straight if one comes close.

    Of two equal stretches the second gains as much as the first where a rise is steady, and by so much less where it
    fades as it had from the stretch of both before. What was gained has to be far nearer to the former.
    """
    lasted_s = trend.end_s - trend.start_s
    marks_s = trend.start_s + lasted_s * np.array([-1.0, 0.0, 0.5, 1.0])
    kept = retained(y)
    before, first, second = np.diff(np.interp(marks_s, t, kept))
    inside = (t >= trend.start_s) & (t <= trend.end_s)
    breathes = float(np.quantile((y - kept)[inside], 0.9))  # so much of the end may be given back yet
    fading = float(np.sqrt(min((first + second) / before, 1.0))) if before > 0 else 1.0
    return bool(fading < 1.0 and second - breathes < (3 + fading) / 4 * first)


def _judge(
    t: Floats,
    y: Floats,
    begun_s: float | None,
    started_s: float | None,
    min_samples: int,
    min_growth_bytes: int,
    min_growth_fraction: float,
) -> Trend:
    """Question 1 of the module's list, and the others."""
    if not t.size:
        return Trend(CANNOT_TELL, "no memory samples")
    duration_s = float(t[-1] - t[0])
    warm_up_s, needed_s = WARM_UP * duration_s, LEAST_S / (1 - WARM_UP)
    if begun_s is not None and begun_s - t[0] > warm_up_s and t[-1] - begun_s >= needed_s:
        warm_up_s = begun_s - float(t[0]) + WARM_UP * float(t[-1] - begun_s)
    if started_s is not None and t[-1] - started_s - FIRST_WORK_S >= max(LEAST_S, _LEAST_AT_WORK * duration_s):
        warm_up_s = max(warm_up_s, started_s - float(t[0]) + FIRST_WORK_S)
    use = t >= min(t[0] + warm_up_s, float(t[-1]))  # at least the last one, whatever rounding does
    t, y = t[use], y[use]
    window = Trend(CANNOT_TELL, "", float(t[0]), float(t[-1]), int(max(0.0, gained(y))))
    if duration_s < needed_s:
        return replace(window, reason=f"too short: {duration_s:.0f} s recorded; about {needed_s:.0f} s are needed")
    if t.size < min_samples:
        return replace(window, reason=f"too few samples: {t.size} after the warm-up, needs {min_samples}")
    peaks = evenly(t, y)[1]  # what is no level is a bound all the same
    t, y = evenly(t, without_blips(y))
    if t.size < _LEAST_BUCKETS:
        return replace(window, reason=f"samples came too unevenly: only {t.size} stretches of equal time have one")
    trend = _without_warm_up(t, y, started_s, min_growth_bytes, min_growth_fraction)
    if trend.verdict == FLAT:
        return trend
    ceiling = ceiling_of(peaks, trend.growth_bytes)
    return replace(trend, verdict=FLAT, reason=ceiling.text()) if ceiling is not None else trend


def _without_warm_up(
    t: Floats, y: Floats, started_s: float | None, min_growth_bytes: int, min_growth_fraction: float
) -> Trend:
    """Questions 2 to 6 of the module's list."""
    t, y, teeth = cut_at_last_trough(t, y)
    if t.size < _LEAST_BUCKETS:
        return Trend(FLAT, teeth.text(), float(t[0]), float(t[-1]))
    least = max(min_growth_bytes, min_growth_fraction * float(np.median(y)))
    steps: list[tuple[float, float]] = []  # seconds, bytes
    ends_with_step = False
    for _ in range(2):
        at, step = _largest_step(t, y)
        if step < max(0.5 * least, 0.4 * gained(y)):
            break
        steps.append((float(t[at]), step))
        ends_with_step |= bool(t[-1] - t[at] < _STAYS * (t[-1] - t[0]))
        y = np.concatenate([y[: at - 1], [y[at - 2]] * 2, y[at + 1 :] - step])
    trend = _judge_window(t, y, least, teeth)
    if trend.verdict == GROWING and started_s is not None and _was_start_up(t, y, started_s + FIRST_WORK_S):
        reason = f"grew while it started up, for {started_s - t[0]:.0f} s; a longer run would show what work adds"
        return replace(trend, verdict=CANNOT_TELL, reason=reason)
    if not steps or trend.verdict == GROWING or (trend.verdict == CANNOT_TELL and trend.growth_bytes >= _MUCH * least):
        return trend
    told = ", ".join(f"{format_bytes(step)} at {at_s:.0f} s" for at_s, step in steps)
    seen = f"{'two single steps' if len(steps) > 1 else 'one step'} ({told})"
    if trend.growth_bytes < _MUCH * least:
        if ends_with_step and _is_repeated(steps, float(t[-1] - t[0])):
            return replace(trend, verdict=CANNOT_TELL, reason=f"grew in {seen}; a longer run would show")
        return replace(trend, verdict=FLAT, reason=f"grew in {seen} only")
    if ends_with_step and trend.reason == _FADES:
        return replace(trend, verdict=CANNOT_TELL, reason=f"{trend.reason}, but for {seen}; a longer run would show")
    return replace(trend, verdict=FLAT, reason=f"grew in {seen}; apart from that, {trend.reason}")


def _is_repeated(steps: list[tuple[float, float]], window_s: float) -> bool:
    """Two steps of like size that do not belong together: where the second ends the run, there may be a third."""
    at_s, sizes = zip(*steps)
    return len(steps) > 1 and min(sizes) >= MOST * max(sizes) and max(at_s) - min(at_s) >= _STAYS * window_s


def _judge_window(t: Floats, y: Floats, least: float, teeth: Teeth) -> Trend:
    """Questions 5 and 6 of the module's list, on a window without warm-up, last tooth and steps."""
    count = int(np.clip(t.size // 2, _LEAST_BUCKETS, _BUCKETS))
    bucket_t, bucket_y = bucket_medians(t, y, count)
    _, kept = bucket_medians(t[: -tail_count(y)], retained(y)[: -tail_count(y)], count)
    growth = max(0.0, float(kept[-1] - kept[0]))
    by_floors = len(teeth.floors_at) >= _LEAST_BUCKETS
    slope = low = high = noise = 0.0

    to_end = max(growth, float(retained(y)[-1] - retained(y)[0]))

    def verdict(word: str, reason: str) -> Trend:
        return Trend(word, reason, float(t[0]), float(t[-1]), int(to_end), slope, low, high)

    rise = float(bucket_y[-1] - bucket_y[0])
    is_long = t[-1] - t[0] >= _STEADY_S and not teeth.floors_at
    if growth < least and is_long and rise >= _STEADILY * least and _is_steady(bucket_y):
        slope, low, high, noise = slope_interval(bucket_t, bucket_y)
        steadily = f"grew by {format_bytes(to_end)} in {t[-1] - t[0]:.0f} s, by as much in each stretch of it"
        return verdict(GROWING, steadily)
    if growth < least and to_end >= _NEARLY * least and not teeth.floors_at and _hardly_falls(bucket_y):
        told = f"rose without a pause, but by no more than {format_bytes(to_end)}"
        return verdict(CANNOT_TELL, f"{told}; a longer run would show")
    if growth < least:
        return verdict(FLAT, teeth.text() or _stood(y))
    if teeth.floors_at and not by_floors and growth < teeth.height_bytes:
        if _all_rise(y[teeth.floors_at]) and growth >= _MUCH_OF_A_TOOTH * teeth.height_bytes:
            return verdict(CANNOT_TELL, "rises and falls, and each floor was higher; a longer run would show")
        return verdict(FLAT, teeth.text())
    if by_floors:
        bucket_t, bucket_y = t[teeth.floors_at], y[teeth.floors_at]
    slope, low, high, noise = slope_interval(bucket_t, bucket_y)
    rises = np.maximum(np.diff(kept), 0.0)
    if growth >= _MUCH * least and _began_late(rises):
        return verdict(CANNOT_TELL, "grew towards its end only, and was still growing; a longer run would show")
    settled = _settled(rises, float(t[-1] - t[0]))
    if settled:
        return verdict(FLAT, settled)
    if _effective_count(rises) < 2.5 or _quiet_inside(_risen(rises)) >= _PAUSE * rises.size:
        return verdict(CANNOT_TELL, "grew in two steps only; a longer run would show")
    if low <= 0 and abs(slope) * (t[-1] - t[0]) < 2 * noise:
        return verdict(FLAT, f"moves up and down by {format_bytes(2 * noise)} without a trend")
    third = rises.size // 3
    middle, late = rises[third : 2 * third], rises[-third:]
    pace = late.sum() / max(float(middle.sum()), 1.0)
    since = float(middle.sum() + late.sum())
    if since < least and since <= (1 - _EARLY) * rises.sum():
        return verdict(FLAT, f"grew early: only {format_bytes(since)} came in the last two thirds")
    lumpy = late.max() >= 0.5 * rises.max()  # few large rises: how many fall into a third is chance
    if pace < (0.2 if lumpy else _GOES_ON):
        return verdict(FLAT, _FADES)
    walk = 0.0 if _hardly_falls(bucket_y) else _walk(kept if teeth.outgrown else bucket_y)
    if low <= 0 or growth < max(_NOISE * noise, _WALK * walk):
        moves = f"moves up and down by {format_bytes(2 * noise)}"
        rose = f"rose by {format_bytes(to_end)}, too unevenly to distinguish a leak from chance"
        return verdict(CANNOT_TELL, f"{moves if to_end < _NOISE * noise else rose}; a longer run would show")
    early, later = float(rises[:third].sum()), rises[third:]
    if early >= _MUCH * max(middle.sum(), late.sum()) and _quiet_at_end(later) > _QUIET * later.size:
        return verdict(CANNOT_TELL, "most of it came early, and the end was flat; a longer run would show")
    if pace < 0.5 and not lumpy:
        return verdict(CANNOT_TELL, "the growth slows down; a longer run would show whether it ends")
    return verdict(GROWING, f"grew by {format_bytes(to_end)} in {t[-1] - t[0]:.0f} s and was still growing at the end")


def _is_steady(y: Floats) -> bool:
    """Whether a series rises by as much from each value to the next as a straight line would: no drift does that."""
    rises = np.diff(y)
    return bool(rises.size >= _LEAST_BUCKETS and rises.min() > 0 and _effective_count(rises) >= _EVENLY * rises.size)


def _all_rise(floors: Floats) -> bool:
    return floors.size > 2 and bool((np.diff(floors) > 0).all())


def _was_start_up(t: Floats, y: Floats, until_s: float) -> bool:
    """Whether the rise all but ended with the start-up, where too little came after it to be judged by itself."""
    work = t >= until_s
    if work.all() or work.sum() < 4:  # two to see a level, two to see another
        return False
    begin, end = float(np.median(y[work][:2])), float(np.median(y[work][-2:]))
    before = (begin - y[0]) / (t[work][0] - t[0])
    after = (end - begin) / (t[-1] - t[work][0])
    return bool(after < _GOES_ON * before)


def _tidy(time_s: Floats, value_bytes: Floats) -> tuple[Floats, Floats]:
    """Sorted, finite, and without the last samples of a program that is already taking itself down."""
    t = np.asarray(time_s, dtype=np.float64)
    y = np.asarray(value_bytes, dtype=np.float64)
    use = np.isfinite(t) & np.isfinite(y)
    t, y = t[use], y[use]
    order = np.argsort(t, kind="stable")
    t, y = t[order], y[order]
    whole, most_cut = y, _TAKEN_DOWN * y.size
    for _ in range(4):
        if y.size < 16:
            break
        before = float(np.median(y[-10:-4]))
        if y[-1] > before - _fall_of(before):
            break
        t, y, most_cut = t[:-1], y[:-1], most_cut - 1
    # Further back only what falls without a pause: a program that lets go of something and goes on comes to rest. What
    # falls back to where it was before one sample is the end of a peak.
    while y.size >= 16 and most_cut >= 1 and min(y[-3:-1]) - y[-1] > _fall_of(float(y[-2])):
        t, y, most_cut = t[:-1], y[:-1], most_cut - 1
    if y.size < whole.size and most_cut >= 2 and y.size >= 16:
        end = _last_gulp(t, y, int(most_cut), float(y[-1] - whole[y.size :].min()))
        t, y = t[:end], y[:end]
    return t, y


def _last_gulp(t: Floats, y: Floats, most: int, fell_bytes: float) -> int:
    """Where the last rise begins of a program that then lets go of everything: it joined, wrote or saved what it had.

    The knee of its last samples, where all that came after it was given back. That much of all that the series moves
    came far faster in so few samples than what was before.
    """
    first = y.size - most - 1
    chord = y[first] + (y[-1] - y[first]) * (t[first:] - t[first]) / max(float(t[-1] - t[first]), 1e-9)
    knee = first + int(np.argmax(chord - y[first:]))
    rise = float(y[-1] - y[knee])
    if not max(_GULP * float(np.ptp(y)), _fall_of(float(y[knee]))) <= rise <= fell_bytes:
        return y.size
    return knee + 1


def _fall_of(level: float) -> float:
    """Less than this is how a job breathes."""
    return max(3 * MiB, 0.03 * level)


def _stood(y: Floats) -> str:
    low, high = (float(part) for part in np.percentile(y, (5, 95)))
    if format_bytes(low) == format_bytes(high):
        return f"stays at {format_bytes(high)}"
    return f"stays between {format_bytes(low)} and {format_bytes(high)}"


def _hardly_falls(y: Floats) -> bool:
    """Up nearly each time: of driftless walks of eight steps one in a hundred does so."""
    return y.size >= _LEAST_BUCKETS and float(np.mean(np.diff(y) > 0)) >= 0.9


def _walk(y: Floats) -> float:
    """How far a driftless walk with the ups and downs of ``y`` would have come: sigma of its last value.

    From differences over a quarter of the window, so that a saw-tooth, which comes back, does not count as a walk, and
    without the most extreme of them, so that single peaks do not.
    """
    lag = max(2, y.size // 4)
    moves = np.sort(y[lag:] - y[:-lag])
    cut = moves.size // 8
    return float(np.std(moves[cut : moves.size - cut]) * np.sqrt(y.size / lag))


def _largest_step(t: Floats, y: Floats) -> tuple[int, float]:
    """Middle and height of the largest lasting rise within three sample distances: a load is seen half done.

    Where samples are missing, a steady rise comes far in three of them: a step is steeper than the whole.
    """
    if y.size < 7:
        return 2, 0.0
    kept = retained(y)
    rises, lasted_s = kept[3:] - kept[:-3], t[3:] - t[:-3]
    usual_per_s = (kept[-1] - kept[0]) / (t[-1] - t[0])
    rises = np.where(rises >= _STEEPER * usual_per_s * lasted_s, rises, 0.0)
    at = int(np.argmax(rises))
    return at + 2, float(rises[at])


def _settled(rises: Floats, lasted_s: float) -> str:
    """Why the rise is over, in words; empty when it is not: compares the last quiet stretch with the ones inside it.

    ``lasted_s``: how long all of them took together.
    """
    total = float(rises.sum())
    risen = _risen(rises)
    quiet_at_end = _quiet_at_end(rises)
    if quiet_at_end > max(2 * _quiet_inside(risen), _QUIET * rises.size):
        return f"grew, then was flat for the last {format_duration(quiet_at_end / rises.size * lasted_s)}"
    passed = np.cumsum(rises) / total
    span = int(np.searchsorted(passed, 0.9)) - int(np.searchsorted(passed, 0.1))
    if span < 0.3 * rises.size:
        return "grew within a short stretch of the run only"
    return ""


def _began_late(rises: Floats) -> bool:
    """Nothing for half of the run, then a rise of several buckets that went on at the end: no single step either."""
    risen = _risen(rises)
    return bool(risen[0] >= rises.size // 2 and risen.size >= 3 and risen[-1] == rises.size - 1)


def _quiet_at_end(rises: Floats) -> int:
    """So many of the last buckets gained nothing."""
    return rises.size - 1 - int(_risen(rises)[-1])


def _risen(rises: Floats) -> NDArray[np.int_]:
    """The buckets in which something was gained; the others are quiet."""
    return np.flatnonzero(rises > 0.25 * rises.sum() / rises.size)


def _quiet_inside(risen: NDArray[np.int_]) -> int:
    return int(np.diff(risen).max()) - 1 if risen.size > 1 else 0


def _effective_count(rises: Floats) -> float:
    """How many equal rises would be as spread out: 1 for a single step, the number of buckets for a ramp."""
    return float(rises.sum() ** 2 / np.square(rises).sum())
