"""Better, same, worse, or no way to tell: growth decides first; where neither run grows, the peak and the waste.

Nothing is called better that drift, noise or a slower run can bring about; nothing is called the same unless half the
leak would have been noticed missing.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..findings import Report
from ..kinds import CRASH
from ..reporting import report_of
from ..units import MiB, format_bytes, format_count, format_duration, format_per_step
from ._comparison import BETTER, CANNOT_TELL, GONE, NEW, NO_STEADY_GROWTH, SAME, STILL, WORSE, FindingChange
from ._curves import STEP
from ._pace import Pace, PacePair
from ._ran import another_program, ended_alike, failure, other_options
from ._snapshots import by_snapshots

if TYPE_CHECKING:
    from ..facts.case import Case


@dataclass(frozen=True)
class Decision:
    """The verdict, its reason in one sentence, and what speaks against it."""

    verdict: str
    reason: str
    doubts: Sequence[str] = ()


_MIN_CHANGE = 0.25  # of the leak: two runs of one program differ by some percent
_MAX_SLOWDOWN = 4.0  # without steps, a run up to so much slower or faster is no other leak
_MIN_PEAK_BYTES = 64 * MiB  # thread pools, import order and the heap's luck differ from run to run
_MIN_PEAK_FRACTION = 0.1
_PEAK_SPREADS = 2.0  # a peak that varies within a run varies from run to run
_MARGIN = 1.5  # noise comes on top of the least that is seen
_AS_FAR = 0.5  # of what the other did: a run that ended sooner says nothing of what came later in the other


def decide(pair: PacePair, changes: Sequence[FindingChange], before: Report, after: Report) -> Decision:
    """Weigh two runs."""
    ending = _worse_ending(before, after)
    if ending and _came_as_far(pair.before, pair.after):
        new = _names(changes, NEW) if _crashed(after) else ""
        return Decision(WORSE, f"{ending}, which did not happen before{new}")
    decision = _by_memory(pair, changes, before, after)
    if not ending:
        return decision
    doubt = (
        f"{ending} after {_lasted(pair.after, pair)}, and the run before was over after {_lasted(pair.before, pair)}"
    )
    if decision.verdict == SAME and not pair.after.grows:
        return Decision(CANNOT_TELL, doubt)
    return replace(decision, doubts=[doubt, *decision.doubts])


def of_what_ran(decision: Decision, before: Case, after: Case) -> Decision:
    """Nothing is better since another program ran, or since the run after did not come to its end."""
    first, second = before.once(report_of), after.once(report_of)
    if other := another_program(before, after):
        return Decision(CANNOT_TELL, other, decision.doubts)
    doubts = [*decision.doubts, *filter(None, [other_options(first.recording.command, second.recording.command)])]
    if failed := failure(second):
        is_alike = ended_alike(first.recording, second.recording)
        if decision.verdict == BETTER or (decision.verdict == SAME and not is_alike):
            text = f"the run after {failed}, so that nobody knows what it would have come to: {decision.reason}"
            return Decision(CANNOT_TELL, text, doubts)
        if decision.verdict == SAME:
            doubts.append(f"both runs {failed}")
    return replace(decision, doubts=doubts)


def _by_memory(pair: PacePair, changes: Sequence[FindingChange], before: Report, after: Report) -> Decision:
    one, two = pair.before, pair.after
    told = by_snapshots(before, after) if pair.end <= pair.start else None
    if told is not None:
        return Decision(*told)
    is_measured = one.is_measured and two.is_measured
    does_grow = one.grows or two.grows
    if None in (one.grows, two.grows) or not is_measured or (does_grow and not pair.is_enough):
        return _undecided(pair, changes)
    if not does_grow:
        return _without_growth(pair, changes, before, after)
    rates = _rates(pair)
    slowdown = _MAX_SLOWDOWN if pair.unit != STEP and one.grows and two.grows else 1.0
    doubts = [] if pair.unit == STEP else [_NO_STEPS]
    if one.grows and _faster(two, one, pair, slowdown):
        text = "leaks less, but still leaks" if two.grows else "no longer leaks"
        return Decision(BETTER, f"memory {text}: {rates}{_names(changes, GONE)}", doubts)
    if two.grows and _faster(one, two, pair, slowdown):
        return Decision(WORSE, f"memory {'leaks more' if one.grows else 'leaks now'}: {rates}{_names(changes, NEW)}")
    if one.grows and two.grows and _as_fast(pair, changes):
        return Decision(SAME, f"memory still leaks: {rates}{_names(changes, STILL)}", doubts)
    return Decision(CANNOT_TELL, f"{_not_enough(pair)}: {rates}{_would_tell(pair)}", doubts)


def _undecided(pair: PacePair, changes: Sequence[FindingChange]) -> Decision:
    """Nobody can tell of one run, or of so short a time: what both did in the same steps is seen all the same."""
    one, two = pair.before, pair.after
    unclear = [(which, run.reason) for which, run in (("before", one), ("after", two)) if run.grows is None]
    doubts = [f"the run {which}, by itself: {reason}" for which, reason in unclear[:1]]
    if not (one.is_measured and two.is_measured) or not (one.grows or two.grows):
        return Decision(CANNOT_TELL, "; ".join([_not_enough(pair), *doubts]))
    rates = _rates(pair)
    if pair.unit == STEP:  # a run that takes longer to begin looks as if it did not grow
        if one.grows and _faster(two, one, pair, _MAX_SLOWDOWN):
            return Decision(BETTER, f"memory no longer grows as it did: {rates}{_names(changes, GONE)}", doubts)
        if two.grows and _faster(one, two, pair, _MAX_SLOWDOWN):
            return Decision(WORSE, f"memory leaks now: {rates}{_names(changes, NEW)}", doubts)
    if any(c.change == STILL and not c.wasted for c in changes) and _as_fast(pair, changes):
        return Decision(SAME, f"memory grows as it did: {rates}{_names(changes, STILL)}", doubts)
    return Decision(CANNOT_TELL, "; ".join([f"{_not_enough(pair)}: {rates}", *doubts]))


def _without_growth(pair: PacePair, changes: Sequence[FindingChange], before: Report, after: Report) -> Decision:
    one, two = pair.before, pair.after
    level = _by_level(pair, changes, after.verdict.wasted_bytes - before.verdict.wasted_bytes)
    if level.verdict == SAME and _crashed(before) and not _crashed(after):
        return _without_crash(before, after, changes)
    if level.verdict == SAME and abs(max(one.slope, 0.0) - max(two.slope, 0.0)) > pair.resolution:
        text = f"{_rates(pair)}, neither for long enough to call it a leak"
        return Decision(CANNOT_TELL, f"{_not_enough(pair)}: {text}")
    return level


def _worse_ending(before: Report, after: Report) -> str:
    """What became of the job after, and not before."""
    if after.recording.ended == "oom-killed" and before.recording.ended != "oom-killed":
        return "the job was killed for memory"
    return "the job crashed" if _crashed(after) and not _crashed(before) else ""


def _came_as_far(one: Pace, other: Pace) -> bool:
    return one.lasted >= _AS_FAR * other.lasted


def _crashed(report: Report) -> bool:
    return any(finding.tells(CRASH) and finding.severity == "critical" for finding in report.findings)


def _without_crash(before: Report, after: Report, changes: Sequence[FindingChange]) -> Decision:
    """The run after ended in peace: it has to have lasted as long as the one that crashed."""
    lasted = after.recording.duration_s
    if lasted < before.recording.duration_s:
        when, end = format_duration(before.recording.duration_s), format_duration(lasted)
        return Decision(CANNOT_TELL, f"the run before crashed after {when}, and the one after ended after {end}")
    return Decision(BETTER, f"neither run leaks, and the job no longer crashes{_names(changes, GONE)}")


_NO_STEPS = "a run without counted steps that is slower looks like a smaller leak: leakscope.mark(step=...) counts them"


def _faster(slow: Pace, fast: Pace, pair: PacePair, slowdown: float) -> bool:
    """``fast`` grew more than ``slow``, beyond all that noise and another speed explain."""
    least, most = fast.least_slope, slow.most_slope
    return least > slowdown * most + pair.resolution and most < (1 - _MIN_CHANGE) * least


def _as_fast(pair: PacePair, changes: Sequence[FindingChange]) -> bool:
    """In what both passed through, and as a whole."""
    one, two = pair.before, pair.after
    return all(_alike(*each, pair, changes) for each in ((one.slope, two.slope), (one.usual_slope, two.usual_slope)))


def _alike(one: float, two: float, pair: PacePair, changes: Sequence[FindingChange]) -> bool:
    """Both leak, and half as much would have been seen. By time the same holder has to be behind both."""
    if max(one, two) - min(one, two) > max(_MIN_CHANGE * max(one, two), pair.resolution):
        return pair.unit != STEP and min(one, two) > 0.5 * max(one, two) and any(c.change == STILL for c in changes)
    return two - pair.resolution > 0.5 * one or one - pair.resolution > 0.5 * two or _still_first(changes)


def _still_first(changes: Sequence[FindingChange]) -> bool:
    """Every holder that grew before grows after."""
    growing = [c for c in changes if not c.wasted and c.change != NEW]
    return bool(growing) and all(c.change == STILL for c in growing)


def _by_level(pair: PacePair, changes: Sequence[FindingChange], wasted_bytes: int) -> Decision:
    """Neither run grows. ``wasted_bytes``: what is wasted more than before."""
    one, two = pair.before, pair.after
    enough = max(
        _MIN_PEAK_BYTES,
        _MIN_PEAK_FRACTION * max(one.peak_bytes, two.peak_bytes),
        _PEAK_SPREADS * max(one.peak_spread_bytes, two.peak_spread_bytes),
    )
    for more, less, verdict, word in ((one, two, BETTER, "and"), (two, one, WORSE, "but")):
        part = _needs_more(more, less, pair, enough)
        if part is not None:
            way, change = ("lower", GONE) if verdict == BETTER else ("higher", NEW)
            levels = _levels(*(p.peak_bytes if part == _COMPARED else p.most_bytes for p in (one, two)))
            return Decision(verdict, f"neither run leaks, {word} {part} is {way}: {levels}{_names(changes, change)}")
    waste = {c.change for c in changes if c.wasted and c.severity != "note"}
    for change, other, verdict, (less, more) in (
        (GONE, NEW, BETTER, (two, one)),
        (NEW, GONE, WORSE, (one, two)),
    ):
        size = -wasted_bytes if change == GONE else wasted_bytes
        if change in waste and other not in waste and size > 0:
            text = f"{format_bytes(size)} {'less' if change == GONE else 'more'} is wasted{_names(changes, change)}"
            if not _came_as_far(less, more):
                which = "after" if change == GONE else "before"
                soon = f"the run {which} was over after {_lasted(less, pair)}, maybe too soon to show it"
                return Decision(CANNOT_TELL, f"neither run leaks; {text}, but {soon}")
            return Decision(verdict, f"neither run leaks, {'and' if change == GONE else 'but'} {text}")
    if abs(one.peak_bytes - two.peak_bytes) < enough:
        levels = _levels(one.peak_bytes, two.peak_bytes)
        return Decision(SAME, f"neither run leaks, and {_COMPARED} is alike: {levels}")
    wholes = one.most_bytes, two.most_bytes
    if max(abs(one.level_bytes - two.level_bytes), abs(wholes[0] - wholes[1])) < enough:
        return Decision(SAME, f"neither run leaks, and {_WHOLE} is alike: {_levels(*wholes)}")
    levels = _levels(one.peak_bytes, two.peak_bytes)
    return Decision(CANNOT_TELL, f"neither run leaks, and {_COMPARED} is {levels}, but of the whole {_levels(*wholes)}")


_COMPARED, _WHOLE = "the peak of the compared part", "the peak of the whole run"


def _needs_more(more: Pace, less: Pace, pair: PacePair, enough_bytes: float) -> str | None:
    """Which part of the two shows it. By time nobody knows what a run that ended did last, and the other did later."""
    ended_first = more.lasted <= less.lasted
    of_part, of_whole = more.peak_bytes - less.peak_bytes, more.most_bytes - less.most_bytes
    if pair.unit == STEP or pair.is_as_long:
        compared = of_part
    else:  # whatever came last: its usual level, its peak then and its peak at all
        compared = min(of_part, of_whole, more.level_bytes - less.level_bytes)
        compared = compared if ended_first else max(compared, more.peak_bytes - less.most_bytes)
    if compared >= enough_bytes:
        return _COMPARED
    return _WHOLE if ended_first and more.later_peak_bytes - less.most_bytes >= enough_bytes else None


def _levels(before: int, after: int) -> str:
    return f"{format_bytes(before)} before, {format_bytes(after)} after"


def _names(changes: Sequence[FindingChange], change: str) -> str:
    """The first finding of that change, as the end of a sentence."""
    first = next((c for c in changes if c.change == change and c.severity != "note"), None)
    if first is None:
        return ""
    return {GONE: f"; gone: {first.what}", STILL: f"; still there: {first.what}", NEW: f"; new: {first.what}"}[change]


def _rates(pair: PacePair) -> str:
    one, two = pair.before, pair.after
    return f"{_rate(one, two, pair)} before, {_rate(two, one, pair)} after"


def _lasted(pace: Pace, pair: PacePair) -> str:
    if pair.unit == STEP:
        return f"{format_count(pace.lasted)} {pair.step_unit}s"
    return format_duration(pace.lasted)


def _not_enough(pair: PacePair) -> str:
    span = pair.end - pair.start
    if span <= 0:
        return "the runs have nothing in common to compare"
    if pair.unit == STEP:
        return f"too little to compare in the {format_count(span)} {pair.step_unit}s that both runs have"
    return f"too little to compare in the {format_duration(span)} in which both runs were busy"


def _would_tell(pair: PacePair) -> str:
    """How much is needed where a leak that was seen would have shown itself, had there been more of it in common."""
    leaks = [pace.least_slope for pace in (pair.before, pair.after) if pace.grows and pace.least_slope > 0]
    if not leaks or (needed := _MARGIN * pair.least_bytes / max(leaks)) <= pair.end - pair.start:
        return ""
    more = f"{format_count(needed)} {pair.step_unit}s" if pair.unit == STEP else format_duration(needed)
    return f"; about {more} of both would show it"


def _rate(pace: Pace, other: Pace, pair: PacePair) -> str:
    if other.grows and pace.grows is False and pace.slope >= pair.resolution:
        return NO_STEADY_GROWTH  # what it gained came in steps, or ended
    is_below = not pace.grows and pace.slope < pair.resolution  # drift: a figure would pass for a leak
    slope = pair.resolution if is_below else pace.slope
    text = f"{format_bytes(slope * 3600)} per hour"
    if pair.unit == STEP:
        text = format_per_step(slope, pair.step_unit)
    return f"less than {text}" if is_below else text
