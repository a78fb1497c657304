"""Does a series of bytes grow without end in sight? Arrays in, one frozen verdict out.

The difficulty is not the slope but the innocents: a cache that fills and is full, an optimizer that allocates its
state once, a buffer emptied each epoch whose run ends with a full one, a random walk. So the end of a window is held
out, and models are asked what they foretell of it: memory stays where it is (a level, also after steps), or it goes on
rising (on a straight line through all that was before, and as in the stretch just before).

1. start-up (warm-up, and all before the first training step) and shutdown are cut off;
2. what comes and goes is no level: of each of twelve stretches its floor counts, and its roof has to rise as well (an
   allocator gives back less of each tooth, whose floors rise below one ceiling; a leak lifts both);
3. steps are taken out (a step is not a leak), what remains is judged;
4. floors have to rise from nearly each stretch to all later ones, and in several of them;
5. what the held-out last third gained, as a share of what both rising models foretold, says whether it goes on, comes
   to an end, or nobody can tell.

Where all of that sees no growth in the whole run, the same is asked of its last half, quarter and eighth: a load hides
what follows, and a leak may begin late. Such a rise has to be new: memory did not rise as high before and come back. It
is no end of one that fades: a level that is approached looks like a straight line to whoever comes close.

What is too little to be told from the drift of a clean process counts all the same where it is a straight line for a
minute or more. How much a process holds plays no part.

Plain Mann-Kendall calls 59 % of driftless AR(1) walks a trend and is not used.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ...rising import BLOCKS, LEAST_BLOCKS, PART, WARM_UP, floors_at, rise_of, share_that_rises, stretches
from ...units import FEWEST, GOOD_PART, HARDLY, LITTLE, MOST, MUCH, SOME, MiB, format_bytes, format_duration
from .arithmetic import Floats, evenly, gained, per_second, retained, slope_interval, without_blips

GROWING, FLAT, CANNOT_TELL = "growing", "flat", "cannot-tell"
LEVEL, STEPS, RAMP, SATURATION = "level", "steps", "ramp that ends", "saturation"
UPS_AND_DOWNS, GROWTH = "ups and downs over a floor", "growth"
LEAST_STEPS = 20  # of training: fewer are too coarse a clock
DRIFT_BYTES = 5 * MiB  # of a clean process in a run, as far as was seen: of several it adds up
LEAST_BYTES = 2 * DRIFT_BYTES  # of growth
LEAST_S = 9.0  # of work: in less a slow start cannot be told from a leak
FIRST_WORK_S = 1.5  # the same, after the work is known to have begun
_LIFTED = MOST  # of what floors rise by: roofs that rise by less stand
_STRAIGHT_S = 60.0  # of a straight line: no drift does that
_STEP = 0.4  # of all that was gained
_TAKEN_DOWN = WARM_UP  # of the samples: to let go of much on a busy machine takes as long as to start, at most
_LEAST_FALL = 3 * MiB
_HALVINGS = FEWEST  # of the run: its last half, quarter and eighth
_LITTLE = HARDLY  # of the time: peaks of a moment, as of a copy that is saved; of what was gained: it began


_Needs = tuple[int, int, float]  # as ``judge`` has them: samples, and growth in bytes and of the level


@dataclass(frozen=True)
class Trend:
    """What a series did between ``start_s`` and ``end_s``, the judged window.

    **Units** bytes and seconds. ``growth_bytes`` is what was gained and not given back by ``end_s``; it is 0 or more,
    and is also filled when the verdict is flat (a cache that filled up). ``slope_low`` and ``slope_high`` bound
    ``slope_per_s`` at 95 %; all three are 0 where it does not grow. ``odds``, 0 to 1: that what was held out is of the
    ``model`` that describes the window, growth or its end.
    """

    verdict: str
    reason: str
    start_s: float = 0.0
    end_s: float = 0.0
    growth_bytes: int = 0
    slope_per_s: float = 0.0
    slope_low: float = 0.0
    slope_high: float = 0.0
    model: str = ""
    odds: float = 0.0


def judge(
    time_s: Floats,
    value_bytes: Floats,
    *,
    started_s: float | None = None,  # when the work began, where somebody knows: all before it is start-up
    begun_s: float | None = None,  # when the interpreter had started: on a busy machine that alone takes half a minute
    min_samples: int = 2 * LEAST_BLOCKS,
    min_growth_bytes: int = LEAST_BYTES,
    min_growth_fraction: float = 0.0,  # of the level
    is_over: bool = True,  # else what fell last was given back by a program that goes on
) -> Trend:
    """The verdict on one series. **Shape** two arrays of equal length, any order, NaN allowed (left out)."""
    needs = min_samples, min_growth_bytes, min_growth_fraction
    t, y = _tidy(time_s, value_bytes)
    t, y = _without_the_end(t, y) if is_over else (t, y)
    trend = _judge(t, y, begun_s, started_s, needs)
    if trend.verdict == GROWING:
        return trend
    if begun_s is not None:  # an interpreter takes little: its start hides growth, makes none
        whole = _judge(t, y, None, started_s, needs)
        if whole.verdict == GROWING:
            return whole
    return _since(t, y, started_s, needs) or trend


def least_shown(trend: Trend, time_s: Floats, value_bytes: Floats) -> float:
    """The slowest steady growth that would have shown in the judged window of a flat series, or since a rise in it came
    to its end. **Units** bytes a second.

    Measured: of the flat series of this project's programs, with so much growth added, 97 in 100 were called growing.
    """
    inside = (time_s >= trend.start_s) & (time_s <= trend.end_s) & np.isfinite(value_bytes)
    if trend.model == RAMP and inside.any():
        trend = replace(trend, start_s=_stands_since(time_s[inside], value_bytes[inside]))
    _, floors = _floors_in(trend, time_s, value_bytes)
    if not floors.size:
        return float("inf")
    moves = float(np.quantile(np.abs(np.diff(floors)), MOST))
    return 2 * max(float(LEAST_BYTES), 4 * moves) / (trend.end_s - trend.start_s)


def hidden_share(trend: Trend, time_s: Floats, value_bytes: Floats) -> float:
    """How many times what a flat series usually comes down to could have come unseen in its ups and downs: 0 if quiet.

    What always comes down as far hides nothing, nor does a steady rise.
    """
    inside = (time_s >= trend.start_s) & (time_s <= trend.end_s) & np.isfinite(value_bytes)
    troughs = np.array(_falls(value_bytes[inside])[1]) if inside.any() else np.empty(0)
    levels = troughs if troughs.size >= FEWEST else _floors_in(trend, time_s, value_bytes)[1]
    changes = np.diff(levels)
    hides = 8 * float(np.median(np.abs(changes - np.median(changes)))) if changes.size else 0.0
    return hides / max(float(np.median(levels)), 1.0) if hides > 2 * LEAST_BYTES else 0.0


def most_risen(trend: Trend, time_s: Floats, value_bytes: Floats) -> float:
    """The fastest steady growth that the judged window leaves room for, whatever it is called: the upper end of the
    slope of its floors, and what allocators move by. **Units** bytes a second.
    """
    at, floors = _floors_in(trend, time_s, value_bytes)
    if not floors.size:
        return float("inf")
    return max(0.0, slope_interval(at, floors)[2]) + LITTLE / (trend.end_s - trend.start_s)


def _floors_in(trend: Trend, time_s: Floats, value_bytes: Floats) -> tuple[Floats, Floats]:
    """When each of its stretches was lowest, and what it was then; nothing where the window has too few."""
    use = np.isfinite(value_bytes) & (time_s >= trend.start_s) & (time_s <= trend.end_s)
    t, y = evenly(time_s[use], without_blips(value_bytes[use])) if use.sum() >= LEAST_BLOCKS else (np.empty(0),) * 2
    if t.size < LEAST_BLOCKS or trend.end_s <= trend.start_s:
        return np.empty(0), np.empty(0)
    at = floors_at(y.tolist())
    return t[at], y[at]


def _since(t: Floats, y: Floats, started_s: float | None, needs: _Needs) -> Trend | None:
    """Growth that goes on since some moment: the last half of the run, quarter or eighth as a run of its own.

    What came before hides it, a load or a long time without growth. As long a stretch of a saw-tooth rises too: only a
    rise that is more than what was ever given back before is one.
    """
    if t.size < 2 * needs[0]:
        return None
    lasted_s = float(t[-1] - t[0])
    for share in (MOST ** (halving + 1) for halving in range(_HALVINGS)):
        from_s = float(t[-1]) - share * lasted_s
        late = t >= from_s
        if share * lasted_s < _STRAIGHT_S or late.sum() < 2 * needs[0]:
            return None
        trend = _judge(t[late], y[late], None, started_s, needs)
        if trend.verdict != GROWING:
            continue
        if not _was_there_before(t, y, from_s, trend) and not _fades_since_before(t, y, trend):
            since = f"since {format_duration(trend.start_s - t[0])}"
            return replace(trend, reason=f"{trend.reason}, {since}", model=f"{GROWTH} {since}")
    return None


def _was_there_before(t: Floats, y: Floats, from_s: float, trend: Trend) -> bool:
    """Whether memory rose as high before ``from_s`` and came back: twice, or once in a rise about as long as this one.

    As high: to where less than half of this rise lies above it.
    """
    y = without_blips(y)
    kept = float(np.interp(trend.end_s, t, retained(y)))
    above = y > kept - MOST * trend.growth_bytes
    edges = np.flatnonzero(np.diff(np.concatenate(([0], above.astype(int), [0]))))
    begins, ends = edges[::2], edges[1::2] - 1
    earlier = (t[begins] < from_s) & (ends < t.size - 1)
    lasted_s = t[ends[earlier]] - t[begins[earlier]]
    are_tops = lasted_s.size > 1 and lasted_s.sum() >= _LITTLE * (from_s - t[0])
    return bool(are_tops or (lasted_s >= PART * (trend.end_s - trend.start_s)).any())


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


def _judge(t: Floats, y: Floats, begun_s: float | None, started_s: float | None, needs: _Needs) -> Trend:
    """Question 1 of the module's list, and the others."""
    min_samples, min_growth_bytes, min_growth_fraction = needs
    if not t.size:
        return Trend(CANNOT_TELL, "no memory samples")
    duration_s = float(t[-1] - t[0])
    warm_up_s, needed_s = WARM_UP * duration_s, LEAST_S / (1 - WARM_UP)
    if begun_s is not None and begun_s - t[0] > warm_up_s and t[-1] - begun_s >= needed_s:
        warm_up_s = begun_s - float(t[0]) + WARM_UP * float(t[-1] - begun_s)
    if started_s is not None and t[-1] - started_s - FIRST_WORK_S >= LEAST_S:
        warm_up_s = max(warm_up_s, started_s - float(t[0]) + FIRST_WORK_S)
    use = t >= min(t[0] + warm_up_s, float(t[-1]))  # at least the last one, whatever rounding does
    t, y = t[use], y[use]
    window = Trend(CANNOT_TELL, "", float(t[0]), float(t[-1]), int(max(0.0, gained(y))))
    if duration_s < needed_s:
        return replace(window, reason=f"too short: {duration_s:.0f} s recorded; about {needed_s:.0f} s are needed")
    if t.size < min_samples:
        needed = format_duration(duration_s * min_samples / t.size)
        return replace(window, reason=f"too few samples: {t.size} after the warm-up; about {needed} are needed")
    peaks = evenly(t, y)[1]  # what is no level is a bound all the same
    t, y = evenly(t, without_blips(y))
    if t.size < LEAST_BLOCKS:
        return replace(window, reason=f"samples came too unevenly: only {t.size} stretches of equal time have one")
    return _judge_window(t, y, peaks, max(min_growth_bytes, min_growth_fraction * float(np.median(y))), started_s)


def _judge_window(t: Floats, y: Floats, peaks: Floats, least: float, started_s: float | None) -> Trend:
    """Questions 2 to 5 of the module's list, on a window without warm-up."""
    at_floors = floors_at(y.tolist())
    at_roofs = floors_at((-peaks).tolist())
    roofs = peaks[at_roofs]
    at, floors = t[at_floors], y[at_floors]
    rises = np.diff(retained(floors))
    growth, to_end = float(rises[:-1].sum()), float(rises.sum())
    usual_per_s = to_end / float(at[-1] - at[0])
    start, end = _ends(t, y, usual_per_s)
    whole = rise_of(at.tolist(), floors.tolist(), least)
    window = Trend(FLAT, "", float(t[0]), float(t[end]), int(growth), model=LEVEL, odds=1 - whole.odds)

    def growing(reason: str, values: Floats, odds: float, steps_s: Sequence[float] = ()) -> Trend:
        slope, low, high, _ = slope_interval(at, values)
        known = slice(at_floors[-1] + 1)  # what comes after the last floor may be given back
        levels_s, levels = t[known], retained(y[known])
        start_s, end_s = _of_growth((float(t[start]), window.end_s), levels_s, levels, steps_s, (low, high))
        gain = float(np.diff(np.interp([start_s, end_s], levels_s, levels))[0])
        gain += slope * max(0.0, end_s - float(at[-1]))
        told = f"grew by {format_bytes(gain)} in {end_s - start_s:.0f} s{reason}"
        if steps_s and gain < MOST * least:
            return cannot_tell(f"{told}, but for steps; record longer to be sure", STEPS)
        return Trend(GROWING, told, start_s, end_s, int(max(0.0, gain)), slope, low, high, GROWTH, odds)

    def stood(model: str, **up_to: float) -> Trend:
        rose = _rose(t, y, least)
        return replace(window, reason=rose or _stood(y, least, **up_to), model=RAMP if rose else model)

    def cannot_tell(reason: str, model: str) -> Trend:
        return replace(window, verdict=CANNOT_TELL, reason=reason, growth_bytes=int(to_end), model=model)

    if growth < least:
        is_straight = whole.is_even and to_end >= PART * least
        if whole.share == 1.0 and t[-1] - t[0] >= _STRAIGHT_S and is_straight:
            return growing(", by as much in each stretch of it", floors, whole.odds)
        if whole.share == 1.0 and not whole.ends and (is_straight or growth >= (1 - PART) * least):
            told = f"rose without a pause, but by no more than {format_bytes(to_end)}"
            return cannot_tell(f"{told}; record longer to be sure", GROWTH)
        return stood(LEVEL)
    taken, steps = _steps(t, y, np.array(at_floors), least)
    others = floors - taken
    rest = rise_of(at.tolist(), others.tolist(), least)
    told = " and ".join(f"by {format_bytes(step)} at {at_s:.0f} s" for at_s, step in steps)
    seen = f"jumped {'once' if len(steps) == 1 else 'twice'}, {told}"  # no "step": who trains has others
    window = replace(window, odds=1 - rest.odds)
    if steps and np.diff(retained(others))[:-1].sum() < least:
        if _is_repeated(steps, at, least):
            return cannot_tell(f"{seen}; record longer to be sure", STEPS)
        flat, is_one = stood(STEPS), len(steps) == 1  # two may be one rise that was met half done
        if flat.model == RAMP and not is_one:
            return flat
        return replace(flat, reason=seen, model=STEPS)
    # What rises between the floor and the roof of one stretch, over a hole in the samples most, does not come and go.
    teeth = roofs - floors - usual_per_s * (t[at_roofs] - at)
    if _narrows(teeth, (t[at_roofs], roofs - taken), (at, others), np.diff(taken) > 0):
        return stood(UPS_AND_DOWNS, up_to=float(roofs.max()))
    rises_late = rest.keeps_rising and rest.late >= PART * least
    goes_on = rest.goes_on and not _ends_with_the_start(t, y, started_s) and not _stands(t, y)
    if rises_late and rest.is_spread:
        if rest.pauses:
            return cannot_tell("jumped only twice; record longer to be sure", STEPS)
        if goes_on:
            return growing(" and was still growing at the end", others, rest.odds, [at_s for at_s, _ in steps])
    if started_s is not None and started_s > t[0]:
        lasted = f"{min(started_s, t[-1]) - t[0]:.0f} s"
        return cannot_tell(f"grew before the first training step, for {lasted}; record longer to be sure", RAMP)
    if rises_late and (not rest.ends or rest.parts < BLOCKS):  # of few stretches the last third is two or three
        return cannot_tell("the growth slows down; record longer to see whether it ends", SATURATION)
    is_late = rest.risen[0] >= rises.size // 2 and len(rest.risen) >= FEWEST and rest.quiet == 0
    if is_late and floors[: rest.risen[0]].max() <= floors[-1] - MOST * to_end:
        return cannot_tell("grew towards its end only, and was still growing; record longer to be sure", GROWTH)
    heights, troughs = _falls(y)
    all_rise = len(troughs) >= FEWEST and bool((np.diff(troughs) > 0).all())
    if all_rise and troughs[-1] - troughs[0] >= max(least, PART * float(np.median(heights))):
        return cannot_tell("rises and falls, and each floor was higher; record longer to be sure", UPS_AND_DOWNS)
    flat = stood(UPS_AND_DOWNS if heights else LEVEL)
    if rest.quiet <= 1 and rest.keeps_rising:
        flat = replace(flat, reason="the growth is coming to an end: the last third added little", model=SATURATION)
        if steps and _is_late(steps, at):
            return cannot_tell(f"{flat.reason}; it {seen}; record longer to be sure", SATURATION)
    is_told = flat.model == RAMP or not steps
    return flat if is_told else replace(flat, reason=f"{seen}; apart from that, {flat.reason}")


def _ends_with_the_start(t: Floats, y: Floats, started_s: float | None) -> bool:
    """Whether what rose before the work began has risen more slowly since, or there was no time to see it."""
    if started_s is None or started_s <= t[0]:
        return False
    marks_s = np.array([t[0], min(started_s, t[-1]), t[-1]])
    before, since = np.diff(np.interp(marks_s, t, retained(y))) / np.maximum(np.diff(marks_s), 1e-9)
    return bool(since < MOST * before)


def _stands(t: Floats, y: Floats) -> bool:
    """Whether it stood still for the last fifth, and gained less than in any time as long before.

    Where growth comes in bursts, the last pause is the longest of all by chance only.
    """
    kept, tail_s = retained(y), MUCH * float(t[-1] - t[0])
    ends_s = t[t >= t[0] + tail_s]
    gains = np.interp(ends_s, t, kept) - np.interp(ends_s - tail_s, t, kept)
    before = gains[ends_s <= t[-1] - tail_s]
    return bool(before.size and gains[-1] < min(before.min(), HARDLY * float(np.median(before))))


def _of_growth(
    window_s: tuple[float, float], t: Floats, kept: Floats, steps_s: Sequence[float], slopes: tuple[float, float]
) -> tuple[float, float]:
    """From when until when it grew by itself: the longest stretch without a step, from where the growth begins.

    Where that rose at another pace than what came after the last step, the latter if the last third is in it: start-up
    ends in a step as memory for the work is reserved, and how fast it was says nothing of what still grows.
    Growth begins where it begins to rise, or where the curve bends: before, a load rose much faster, or hardly anything
    did. It is no bend where the curve is as far from a straight line afterwards too. The last third is what tells of
    growth, and after a load as much is left as can be judged.
    """
    borders_s = [window_s[0], *sorted(steps_s), window_s[1]]
    *_, last = parts = list(zip(borders_s, borders_s[1:]))
    longest = max(parts, key=lambda part: part[1] - part[0])
    paces = [per_second(float(np.diff(np.interp(part, t, kept))[0]), part[1] - part[0]) for part in (longest, last)]
    is_other = min(paces) < MOST * max(paces) and last[1] - last[0] >= (window_s[1] - window_s[0]) / FEWEST
    start_s, end_s = last if is_other else longest
    third_s = (end_s - start_s) / FEWEST
    inside = (t >= start_s) & (t <= end_s)
    t, kept = t[inside], kept[inside]
    began = int(np.argmax(kept - kept[0] > _LITTLE * (kept[-1] - kept[0])))
    if began > 2 * t.size / BLOCKS:
        t, kept, start_s = t[began - 1 :], kept[began - 1 :], float(t[began - 1])
    while t.size > FEWEST:
        bend, off = _bend(t, kept)
        pace = per_second(float(kept[bend] - kept[0]), float(t[bend] - t[0]))
        is_load = pace > slopes[1] / MOST
        is_as_after = pace >= MOST * slopes[0] and not is_load
        left_s = max(third_s, LEAST_S) if is_load else third_s
        if is_as_after or t[bend] > end_s - left_s or off <= 2 * _bend(t[bend:], kept[bend:])[1]:
            break
        t, kept, start_s = t[bend:], kept[bend:], float(t[bend])
    return start_s, end_s


def _bend(t: Floats, y: Floats) -> tuple[int, float]:
    """Where a curve is furthest from the straight line between its ends, and how far."""
    off = np.abs(y - np.interp(t, t[[0, -1]], y[[0, -1]]))
    return int(np.argmax(off)), float(off.max())


def _ends(t: Floats, y: Floats, slope_per_s: float) -> tuple[int, int]:
    """The first sample near the floor of the first stretch, and the last near that of the last."""
    above = y - slope_per_s * t
    parts = stretches(y.size)
    first, last = (np.arange(y.size)[part][above[part] <= np.median(above[part])] for part in (parts[0], parts[-1]))
    return int(first[0]), int(last[-1])


def _narrows(
    teeth: Floats, roofs: tuple[Floats, Floats], floors: tuple[Floats, Floats], has_step: NDArray[np.bool_]
) -> bool:
    """Whether what comes and goes becomes less, and roofs hardly rise as floors do: they have a ceiling.

    Of two stretches the higher roof: a tooth may end in every second one. ``roofs``, ``floors``: when, and how high.
    """
    higher = (np.arange(teeth.size - 1) + (roofs[1][1:] > roofs[1][:-1]))[~has_step]
    teeth = np.maximum(teeth[1:], teeth[:-1])[~has_step]
    if teeth.size < LEAST_BLOCKS // 2 or share_that_rises((-teeth).tolist()) < 1 - PART:
        return False
    lifted, rose = (_pace(at_s, levels) for at_s, levels in ((roofs[0][higher], roofs[1][higher]), floors))
    return rose > 0 and lifted < _LIFTED * rose


def _pace(at_s: Floats, levels: Floats) -> float:
    """From the usual level of the first half to that of the second."""
    passed, rose = (np.diff([np.median(half) for half in np.array_split(of, 2)])[0] for of in (at_s, levels))
    return per_second(float(rose), float(passed))


def _steps(t: Floats, y: Floats, floors_at: NDArray[np.int_], least: float) -> tuple[Floats, list[tuple[float, float]]]:
    """The largest lasting rises from one floor to the next, two at most: what they are of each floor, and when and how
    large each is.

    Of a load that is met half done, the stretch beside it has a part.
    """
    kept = retained(y)
    rises = np.diff(retained(y[floors_at]))
    apart_s = np.diff([t[part].mean() for part in stretches(t.size)])  # a hole in the samples is no step
    usual = float(np.median(rises / apart_s)) * apart_s
    others, steps = rises, []
    for _ in range(2):
        at = int(np.argmax(others - usual))
        beyond = np.maximum(others[:-1] - usual[:-1], 0.0).sum()  # more of a leak hides no step
        if others[at] - usual[at] < max(MOST * least, _STEP * beyond, FEWEST * usual[at]):
            break
        beside = slice(max(0, at - 1), at + 2)
        beyond_usual = (others - usual)[beside]
        is_part = beyond_usual >= SOME * (others[at] - usual[at])
        step = float(beyond_usual[is_part].sum())
        inside = slice(floors_at[at], floors_at[at + 1] + 1)
        few = max(1, (inside.stop - inside.start) // 4)
        sudden = kept[inside][few:] - kept[inside][:-few]
        if at >= rises.size - rises.size // FEWEST and sudden.max() < _STEP * step:
            break  # it goes on
        steps.append((float(t[inside][few:][np.argmax(sudden)]), step))
        others = others.copy()
        others[beside] = np.where(is_part, usual[beside], others[beside])
    return np.concatenate([[0.0], np.cumsum(rises - others)]), steps


def _is_repeated(steps: list[tuple[float, float]], at: Floats, least: float) -> bool:
    """Two steps of like size that do not belong together: where the second ends the run, there may be a third."""
    at_s, sizes = zip(*steps)
    are_alike = len(steps) > 1 and min(sizes) >= max(least, MOST * max(sizes))
    return are_alike and _is_late(steps, at) and max(at_s) - min(at_s) >= float(at[-1] - at[0]) / at.size


def _is_late(steps: list[tuple[float, float]], at: Floats) -> bool:
    return bool(max(at_s for at_s, _ in steps) >= at[-2])


def _tidy(time_s: Floats, value_bytes: Floats) -> tuple[Floats, Floats]:
    """Sorted and finite."""
    t = np.asarray(time_s, dtype=np.float64)
    y = np.asarray(value_bytes, dtype=np.float64)
    use = np.isfinite(t) & np.isfinite(y)
    t, y = t[use], y[use]
    order = np.argsort(t, kind="stable")
    return t[order], y[order]


def _without_the_end(t: Floats, y: Floats) -> tuple[Floats, Floats]:
    """Without the last samples of a program that was taking itself down.

    A program that lets go of something and goes on comes to rest for more than four samples; and one that breathes has
    let go of as much before.
    """
    end, least = y.size, max(2 * LEAST_BLOCKS, round((1 - _TAKEN_DOWN) * y.size))
    fell = float((y[:least][:-4] - y[:least][4:]).max(initial=0.0))
    breathes = max(_LEAST_FALL, fell, _LITTLE * float(np.ptp(y)) if y.size else 0.0)
    while end > least and y[end - 5] - y[end - 1] > breathes:
        end -= 1
    return t[:end], y[:end]


def _rose(t: Floats, y: Floats, least: float) -> str | None:
    """What rose, kept it, and came to an end; None: it did not."""
    kept = retained(y)
    grew = float(kept[-1] - kept[0])
    until_s = _stands_since(t, y)
    if grew < max(least, MOST * float(np.ptp(y))) or t[-1] - until_s < MUCH * (t[-1] - t[0]):
        return None
    return f"grew from {format_bytes(kept[0])} to {format_bytes(kept[-1])} until {format_duration(until_s)}, then stood"


def _stands_since(t: Floats, y: Floats) -> float:
    """From when on hardly anything of what it kept in the end was still to come."""
    kept = retained(y)
    return float(t[np.argmax(kept >= kept[-1] - _LITTLE * (kept[-1] - kept[0]))])


def _stood(y: Floats, least: float, up_to: float | None = None) -> str:
    falls, _ = _falls(y)
    usual = float(np.median(falls)) if falls else 0.0
    if usual >= least:
        times = "once" if len(falls) == 1 else f"{len(falls)} times"
        bound = "its floor does not rise" if up_to is None else f"never exceeds {format_bytes(up_to)}"
        return f"rises and falls {times} by {format_bytes(usual)}, and {bound}"
    if up_to is not None:
        is_up = y >= up_to - MUCH * float(np.ptp(y))
        if np.count_nonzero(is_up[1:] & ~is_up[:-1]) > 1:
            return f"rises to about {format_bytes(up_to)} again and again, and never exceeds it"
    low, high = (float(part) for part in np.percentile(y, (5, 95)))
    within = f"between {format_bytes(low)} and {format_bytes(high)}"
    within = f"at {format_bytes(high)}" if format_bytes(low) == format_bytes(high) else within
    is_left = y.max() > (1 + _LITTLE) * high or y.min() < (1 - _LITTLE) * low
    return f"mostly stays {within}" if is_left else f"stays {within}"


def _falls(y: Floats) -> tuple[list[float], list[float]]:
    """Of each fall from a peak by a good part of all that the series moves, or more: its height, and where it ended.

    Half of that regained ends it.
    """
    least_fall = GOOD_PART * float(np.ptp(y))
    falls: list[tuple[float, float]] = []
    peak = trough = float(y[0])
    for value in [*y.tolist(), float("inf")]:
        if least_fall and peak - trough >= least_fall and value - trough >= MOST * least_fall:
            falls.append((peak - trough, trough))
            peak = trough = value
        elif value > peak:
            peak = trough = value
        trough = min(trough, value)
    return [height for height, _ in falls], [trough for _, trough in falls]
