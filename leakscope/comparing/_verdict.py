"""Better, same, worse, or no way to tell: growth decides first; where neither run grows, the peak and the waste.

Nothing is called better that drift, noise or a slower run can bring about; nothing is called the same unless half the
leak would have been noticed missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..findings import Report
from ..kinds import CRASH
from ..units import MiB, format_bytes, format_count, format_duration, format_per_step
from ._comparison import BETTER, CANNOT_TELL, GONE, NEW, SAME, STILL, WORSE, FindingChange
from ._curves import STEP
from ._pace import Pace, PacePair
from ._snapshots import by_snapshots


@dataclass(frozen=True)
class Decision:
    """The verdict, its reason in one sentence, and what speaks against it."""

    verdict: str
    reason: str
    doubts: Sequence[str] = ()


def decide(
    pair: PacePair,
    changes: Sequence[FindingChange],
    before: Report,
    after: Report,
    *,
    min_change: float = 0.25,  # of the leak: two runs of one program differ by some percent
    max_slowdown: float = 4.0,  # without steps, a run up to so much slower or faster is no other leak
    min_peak_bytes: int = 64 * MiB,  # thread pools, import order and the heap's luck differ from run to run
    min_peak_fraction: float = 0.1,
    peak_spreads: float = 2.0,  # a peak that varies within a run varies from run to run
) -> Decision:
    """Weigh two runs."""
    if after.recording.ended == "oom-killed" and before.recording.ended != "oom-killed":
        return Decision(WORSE, "the job was killed for memory, which did not happen before")
    if _crashed(after) and not _crashed(before):
        return Decision(WORSE, f"the job crashed, which did not happen before{_names(changes, NEW)}")
    one, two = pair.before, pair.after
    told = by_snapshots(before, after) if pair.end <= pair.start else None
    if told is not None:
        return Decision(*told)
    if one.grows is None or two.grows is None:
        which, unclear = ("before", one) if one.grows is None else ("after", two)
        return Decision(CANNOT_TELL, f"{_not_enough(pair)}; the run {which}: {unclear.reason}")
    rates = f"{_rate(one, pair)} before, {_rate(two, pair)} after"
    if not (one.grows or two.grows):
        peaks = one.peak_bytes, two.peak_bytes
        spread = peak_spreads * max(one.peak_spread_bytes, two.peak_spread_bytes)
        enough = max(min_peak_bytes, min_peak_fraction * max(peaks), spread)
        level = _by_level(peaks, enough, changes, after.verdict.wasted_bytes - before.verdict.wasted_bytes)
        if level.verdict == SAME and _crashed(before) and not _crashed(after):
            return _without_crash(before, after, changes)
        if level.verdict == SAME and abs(max(one.slope, 0.0) - max(two.slope, 0.0)) > pair.resolution:
            text = f"{rates}, neither for long enough to call it a leak"
            return Decision(CANNOT_TELL, f"{_not_enough(pair)}: {text}")
        return level
    slowdown = max_slowdown if pair.unit != STEP and one.grows and two.grows else 1.0
    doubts = [] if pair.unit == STEP else [_NO_STEPS]
    if one.grows and _faster(two, one, pair, min_change, slowdown):
        text = "leaks less, but still leaks" if two.grows else "no longer leaks"
        return Decision(BETTER, f"memory {text}: {rates}{_names(changes, GONE)}", doubts)
    if two.grows and _faster(one, two, pair, min_change, slowdown):
        return Decision(WORSE, f"memory {'leaks more' if one.grows else 'leaks now'}: {rates}{_names(changes, NEW)}")
    if one.grows and two.grows and _as_fast(pair, changes, min_change):
        return Decision(SAME, f"memory still leaks: {rates}{_names(changes, STILL)}", doubts)
    return Decision(CANNOT_TELL, f"{_not_enough(pair)}: {rates}", doubts)


def _crashed(report: Report) -> bool:
    return any(finding.tells(CRASH) and finding.severity == "critical" for finding in report.findings)


def _without_crash(before: Report, after: Report, changes: Sequence[FindingChange]) -> Decision:
    """The run after ended in peace: it has to have lasted as long as the one that crashed."""
    lasted = after.recording.duration_s
    if lasted < before.recording.duration_s:
        when, end = format_duration(before.recording.duration_s), format_duration(lasted)
        return Decision(CANNOT_TELL, f"the run before crashed after {when}, and the one after ended after {end}")
    return Decision(BETTER, f"neither run leaks, and the job no longer crashes{_names(changes, GONE)}")


_NO_STEPS = (
    "steps were not counted in both runs, so a slower run looks like a smaller leak: "
    "leakscope.mark(step=...) counts them"
)


def _faster(slow: Pace, fast: Pace, pair: PacePair, min_change: float, slowdown: float) -> bool:
    """``fast`` grew more than ``slow``, beyond all that noise and another speed explain."""
    return fast.slope > slowdown * slow.slope + pair.resolution and slow.slope < (1 - min_change) * fast.slope


def _as_fast(pair: PacePair, changes: Sequence[FindingChange], min_change: float) -> bool:
    """Both leak, and half as much would have been seen. By time the same holder has to be behind both."""
    one, two = pair.before.slope, pair.after.slope
    if max(one, two) - min(one, two) > max(min_change * max(one, two), pair.resolution):
        return pair.unit != STEP and min(one, two) > 0.5 * max(one, two) and any(c.change == STILL for c in changes)
    return two - pair.resolution > 0.5 * one or one - pair.resolution > 0.5 * two or _still_first(changes)


def _still_first(changes: Sequence[FindingChange]) -> bool:
    """Every holder that grew before grows after."""
    growing = [c for c in changes if not c.wasted and c.change != NEW]
    return bool(growing) and all(c.change == STILL for c in growing)


def _by_level(
    peaks: tuple[int, int], enough_bytes: float, changes: Sequence[FindingChange], wasted_bytes: int
) -> Decision:
    """Neither run grows. ``wasted_bytes``: what is wasted more than before."""
    saved = peaks[0] - peaks[1]
    peak = "the peak of the compared part is"
    levels = f"{format_bytes(peaks[0])} before, {format_bytes(peaks[1])} after"
    waste = {c.change for c in changes if c.wasted and c.severity != "note"}
    if saved >= enough_bytes:
        return Decision(BETTER, f"neither run leaks, and {peak} lower: {levels}{_names(changes, GONE)}")
    if -saved >= enough_bytes:
        return Decision(WORSE, f"neither run leaks, but {peak} higher: {levels}{_names(changes, NEW)}")
    less, more = format_bytes(-wasted_bytes), format_bytes(wasted_bytes)
    if GONE in waste and NEW not in waste and wasted_bytes < 0:
        return Decision(BETTER, f"neither run leaks, and {less} less is wasted{_names(changes, GONE)}")
    if NEW in waste and GONE not in waste and wasted_bytes > 0:
        return Decision(WORSE, f"neither run leaks, but {more} more is wasted{_names(changes, NEW)}")
    return Decision(SAME, f"neither run leaks, and {peak} alike: {levels}")


def _names(changes: Sequence[FindingChange], change: str) -> str:
    """The first finding of that change, as the end of a sentence."""
    first = next((c for c in changes if c.change == change and c.severity != "note"), None)
    if first is None:
        return ""
    return {GONE: f"; gone: {first.what}", STILL: f"; still there: {first.what}", NEW: f"; new: {first.what}"}[change]


def _not_enough(pair: PacePair) -> str:
    span = pair.end - pair.start
    if span <= 0:
        return "the runs have nothing in common to compare"
    if pair.unit == STEP:
        return f"too little to compare in the {format_count(span)} {pair.step_unit}s that both runs have"
    return f"too little to compare in the {format_duration(span)} that both runs lasted after their start-up"


def _rate(pace: Pace, pair: PacePair) -> str:
    is_below = not pace.grows and pace.slope < pair.resolution  # drift: a figure would pass for a leak
    slope = pair.resolution if is_below else pace.slope
    text = f"{format_bytes(slope * 3600)} per hour"
    if pair.unit == STEP:
        text = format_per_step(slope, pair.step_unit)
    return f"less than {text}" if is_below else text
