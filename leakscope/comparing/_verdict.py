"""Better, same, worse, or no way to tell: growth decides first; where neither run grows, the peak and the waste.

Nothing is called better that drift, noise or a slower run can bring about; nothing is called the same unless half the
leak would have been noticed missing. What is a difference is one figure, ``PacePair.smallest``, which is also shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ..facts.case import Case
from ..findings import Report
from ..kinds import CRASH
from ..reporting import report_of
from ..units import MOST, MiB, format_bytes, format_count, format_duration, format_per_step, format_rate
from ._comparison import BETTER, CANNOT_TELL, GONE, NEW, ONLY_AFTER, SAME, STILL, WORSE, FindingChange
from ._curves import STEP
from ._pace import MAX_SLOWDOWN, MIN_CHANGE, Pace, PacePair
from ._ran import another_program, ended_alike, failure, other_options, same_recording
from ._snapshots import by_snapshots
from ._words import rate


@dataclass(frozen=True)
class Decision:
    """The verdict, its reason in one sentence, and what speaks against it."""

    verdict: str
    reason: str
    doubts: Sequence[str] = ()


_MIN_PEAK_BYTES = 64 * MiB  # thread pools, import order and the heap's luck differ from run to run
_MIN_PEAK_FRACTION = 0.1
_PEAK_SPREADS = 2.0  # a peak that varies within a run varies from run to run
_MARGIN = 1.5  # noise comes on top of the least that is seen
_AS_FAR = MOST  # of what the other did: a run that ended sooner says nothing of what came later in the other


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
    if same_recording(before, after):
        return Decision(SAME, f"both are one recording, which says: {second.verdict.headline.rstrip('.')}")
    if other := another_program(before, after):
        return Decision(CANNOT_TELL, other, decision.doubts)
    doubts = [*decision.doubts, *filter(None, [other_options(first.recording.command, second.recording.command)])]
    if failed := failure(second):
        is_alike = ended_alike(first.recording, second.recording)
        if decision.verdict == BETTER or (decision.verdict in (SAME, CANNOT_TELL) and not is_alike):
            text = f"the run after {failed}, so that nobody knows what it would have come to: {decision.reason}"
            return Decision(CANNOT_TELL, text, doubts)
        if decision.verdict == SAME:
            doubts.append(f"both runs {failed.replace('was ', 'were ', 1)}")
    return replace(decision, doubts=doubts)


def _by_memory(pair: PacePair, changes: Sequence[FindingChange], before: Report, after: Report) -> Decision:
    one, two = pair.before, pair.after
    by_torch = by_snapshots(before, after) if pair.end <= pair.start else None
    if by_torch is not None:
        return Decision(*by_torch)
    work = _other_work(pair, _AS_FAR)
    if one.grows is False and two.grows is False and pair.is_measured:
        level = _without_growth(pair, changes, before, after)
        return replace(level, doubts=[*level.doubts, *filter(None, [work])])
    unclear = [(which, run.reason) for which, run in (("before", one), ("after", two)) if run.grows is None]
    doubts = [f"the run {which}, by itself: {reason}" for which, reason in unclear[:1]]
    if not unclear and pair.unit != STEP:
        doubts = [_NO_STEPS]
    told = _by_growth(pair, changes, before, doubts)
    if told is None:
        return _cannot_tell(pair, doubts)
    return replace(told, doubts=[*told.doubts, *filter(None, [work])])


def _by_growth(
    pair: PacePair, changes: Sequence[FindingChange], before: Report, doubts: Sequence[str]
) -> Decision | None:
    """What differs beyond ``PacePair.smallest``; by step also of runs of which nobody can tell whether they leak: what
    both did in the same steps is seen all the same. By time, one that takes longer to begin looks as if it did not
    grow.
    """
    one, two = pair.before, pair.after
    rates = _rates(pair)
    if pair.is_judged or (pair.is_measured and pair.unit == STEP):
        if one.grows is not False and _faster(two, one, pair):
            if two.grows is False and (below := _below(pair, changes, before)):
                return Decision(CANNOT_TELL, below, doubts)
            return Decision(BETTER, f"memory {_WAYS[one.grows, two.grows][0]}: {rates}{_names(changes, GONE)}", doubts)
        if two.grows is not False and _faster(one, two, pair):
            return Decision(WORSE, f"memory {_WAYS[two.grows, one.grows][1]}: {rates}{_names(changes, NEW)}", doubts)
    grows = one.grows, two.grows
    if pair.is_measured and True in grows and False not in grows and _as_fast(pair, changes):
        if pair.is_judged:
            return Decision(SAME, f"memory still leaks: {rates}{_names(changes, STILL)}", doubts)
        if any(c.change == STILL and not c.wasted for c in changes):
            return Decision(SAME, f"memory grows as it did: {rates}{_names(changes, STILL)}", doubts)
    return None


# By whether the one that grew more leaks, and the other: what to say where it is better since, and where it is worse.
_WAYS = {
    (True, True): ("leaks less, but still leaks", "leaks more"),
    (True, False): ("no longer leaks", "leaks now"),
    (True, None): ("no longer grows as it did", "leaks now"),
    (None, True): ("grows less", "grows more"),
    (None, False): ("no longer grows as it did", "grows, which it did not before"),
    (None, None): ("grows less", "grows more"),
}


def _below(pair: PacePair, changes: Sequence[FindingChange], before: Report) -> str:
    """Why a run that does not grow does not show that a leak is gone: what was named before would be less than what
    shows, and nobody looked for it. Empty where it does show it.
    """
    rates = [f.bytes_per_hour for f in before.findings if not f.wasted and f.bytes_per_hour]
    leak = sum(rates) / 3600 * (pair.before.seconds_per_step or 1.0)
    if not 0 < leak < pair.smallest or any(c.change == GONE and not c.wasted and c.severity != "note" for c in changes):
        return ""
    named = f"what was seen to leak before, {_said(leak, pair)}, might not show in the run after"
    return f"{named}: {_rates(pair)}{_would_tell(pair, leak)}"


def _cannot_tell(pair: PacePair, doubts: Sequence[str]) -> Decision:
    """What was too little, or not alike, first."""
    one, two = pair.before, pair.after
    work = _other_work(pair, 1 - MIN_CHANGE)
    if not pair.is_measured:
        nothing = pair.end <= pair.start
        little = "the runs have nothing in common to compare" if nothing else _too_little(pair)
        return Decision(CANNOT_TELL, "; ".join(filter(None, [work, little, *doubts])))
    rates = _rates(pair)
    differ = abs(max(one.slope, 0.0) - max(two.slope, 0.0))
    if pair.unit != STEP and differ > _by_chance(pair) and one.grows and two.grows:
        why = "one may only be slower than the other, and no steps were counted"
    elif differ > pair.smallest and pair.is_judged:
        usual = (_said(pace.usual_slope, pair) for pace in (one, two))
        why = "in what both have they differ, and as a whole they do not ({} before, {} after)".format(*usual)
    else:
        why = _too_little(pair) if differ <= pair.smallest else "one run has no verdict of its own to compare"
    leaks = [pace.least_slope for pace in (one, two) if pace.grows and pace.least_slope > 0]
    more = _would_tell(pair, max(leaks)) if leaks and pair.is_judged else ""
    if not pair.is_judged:
        return Decision(CANNOT_TELL, "; ".join([*filter(None, [work]), f"{why}: {rates}", *doubts]))
    return Decision(CANNOT_TELL, f"{work}{'; ' if work else ''}{why}: {rates}{more}", doubts)


def _other_work(pair: PacePair, least: float) -> str:
    """That one run did less than that share of the other's, by its steps, or by what it computed in the same time."""
    one, two = pair.before, pair.after
    counts = one.counted, two.counted
    if min(counts) > 0:
        if min(counts) >= least * max(counts):
            return ""
        did = f"{format_count(one.counted)} {pair.step_unit}s, the run after {format_count(two.counted)}"
        return f"the run before did {did}"
    each = one.cpu_s, two.cpu_s
    if pair.unit == STEP or min(each) >= least * max(each) or not min(each):
        return ""
    return "the run before computed for {} meanwhile, the run after for {}".format(*map(format_duration, each))


def _without_growth(pair: PacePair, changes: Sequence[FindingChange], before: Report, after: Report) -> Decision:
    one, two = pair.before, pair.after
    level = _by_level(pair, changes, after.verdict.wasted_bytes - before.verdict.wasted_bytes)
    if level.verdict == SAME and _crashed(before) and not _crashed(after):
        return _without_crash(before, after, changes)
    if level.verdict == SAME and abs(max(one.slope, 0.0) - max(two.slope, 0.0)) > pair.smallest:
        rates = "{} before, {} after".format(*(_said(pace.slope, pair) for pace in (one, two)))
        return Decision(CANNOT_TELL, f"{_too_little(pair)}: {rates}, neither for long enough to call it a leak")
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


def _faster(slow: Pace, fast: Pace, pair: PacePair) -> bool:
    """``fast`` grew more than ``slow``, beyond all that noise and another speed explain. Of who has no verdict of its
    own a longer start may be all that was seen.
    """
    by_start = 0.0 if pair.is_judged else (MAX_SLOWDOWN - 1) * slow.most_slope
    return fast.least_slope - slow.most_slope > pair.smallest + by_start


def _by_chance(pair: PacePair) -> float:
    """How much two runs of one program differ that do the same in the same time."""
    return max(pair.resolution, MIN_CHANGE * max(pair.before.slope, pair.after.slope))


def _as_fast(pair: PacePair, changes: Sequence[FindingChange]) -> bool:
    """In what both passed through, and as a whole."""
    one, two = pair.before, pair.after
    return all(_alike(*each, pair, changes) for each in ((one.slope, two.slope), (one.usual_slope, two.usual_slope)))


def _alike(one: float, two: float, pair: PacePair, changes: Sequence[FindingChange]) -> bool:
    """Both leak, and half as much would have been seen; or the same holder is behind both. By time it has to be."""
    less, more = sorted((one, two))
    if more - less > pair.smallest:
        return False
    if more - less > max(MIN_CHANGE * more, pair.resolution):
        return less > MOST * more and any(c.change == STILL for c in changes)
    return more - pair.resolution > MOST * less or (less > MOST * more and _still_first(changes))


def _still_first(changes: Sequence[FindingChange]) -> bool:
    """Every holder that grew before grows after."""
    growing = [c for c in changes if not c.wasted and c.change != NEW and c.severity != "note"]
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
    """The first finding of that change, as the end of a sentence; of what came also what may have been there before."""
    words = {GONE: "gone", STILL: "still there", NEW: "new", ONLY_AFTER: "found only after"}
    for wanted in (change, ONLY_AFTER) if change == NEW else (change,):
        first = next((c for c in changes if c.change == wanted and c.severity != "note"), None)
        if first is not None:
            return f"; {words[wanted]}: {first.what}"
    return ""


def _rates(pair: PacePair) -> str:
    told = (
        rate(pace.grows, (pace.rate.slope, pace.rate.low, pace.rate.high), pair.smallest, partial(_said, pair=pair))
        for pace in (pair.before, pair.after)
    )
    return "{} before, {} after".format(*told)


def _said(slope: float, pair: PacePair) -> str:
    if pair.unit == STEP:
        return format_per_step(slope, pair.step_unit)
    return format_rate(3600 * slope, pair.watched_s)


def _lasted(pace: Pace, pair: PacePair) -> str:
    if pair.unit == STEP:
        return f"{format_count(pace.lasted)} {pair.step_unit}s"
    return format_duration(pace.lasted)


def _too_little(pair: PacePair) -> str:
    span = pair.end - pair.start
    if pair.unit == STEP:
        return f"too little to compare in the {format_count(span)} {pair.step_unit}s that both runs have"
    return f"too little to compare in the {format_duration(span)} in which both runs were busy"


def _would_tell(pair: PacePair, leak: float) -> str:
    """How much is needed for a leak to show itself."""
    needed = _MARGIN * pair.least_bytes / leak
    if needed <= pair.end - pair.start:
        return ""
    more = f"{format_count(needed)} {pair.step_unit}s" if pair.unit == STEP else format_duration(needed)
    return f"; about {more} of both would show it"
