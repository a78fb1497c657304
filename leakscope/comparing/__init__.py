"""Did the fix work? Recordings of one program, laid over each other: better, same, worse, or no way to tell.

Runs afterwards, like the analyzers, whose reports and trends it uses. ``_curves`` lays them over each other,
``_pace`` measures each over the range that both passed through, ``_verdict`` weighs the two, ``_holders`` says which
findings went and which came.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import inf

from ..facts.case import Case
from ..findings import Report
from ..reporting import report_of
from ..storage import Recording
from ._comparison import (
    BETTER,
    CANNOT_TELL,
    EXIT_STATUS,
    GONE,
    NEW,
    ONLY_AFTER,
    ONLY_BEFORE,
    SAME,
    WORSE,
    Comparison,
    FindingChange,
    History,
    Run,
    Side,
)
from ._curves import STEP, overlay, run_curves
from ._holders import Told, as_far, bill_changes, finding_changes, worker_changes, workers_at_once
from ._pace import Pace, PacePair, paces
from ._ran import another_program, failure
from ._render import FORMATS, render, render_cell
from ._verdict import decide, of_what_ran
from ._words import WORDS, growths

_OF_ANOTHER = {GONE: ONLY_BEFORE, NEW: ONLY_AFTER}

__all__ = [
    "BETTER",
    "CANNOT_TELL",
    "EXIT_STATUS",
    "FORMATS",
    "SAME",
    "WORDS",
    "WORSE",
    "Comparison",
    "History",
    "Pace",
    "Side",
    "compare",
    "compare_cases",
    "compare_in_order",
    "failure",
    "growths",
    "render",
    "render_cell",
    "workers_at_once",
]


def compare(before: Recording, after: Recording) -> Comparison:
    """The whole answer."""
    return compare_cases(Case(before), Case(after))


def compare_cases(before: Case, after: Case) -> Comparison:
    """Like ``compare``, for callers that already have the cases."""
    first, second = before.once(report_of), after.once(report_of)
    pair = paces(before, after)
    changes = _changes(before, after, pair)
    decision = of_what_ran(decide(pair, changes, first, second), before, after)
    return Comparison(
        verdict=decision.verdict,
        reason=decision.reason,
        aligned_by=pair.unit,
        range_start=round(pair.start, 1),
        range_end=round(pair.end, 1),
        smallest_leak_bytes_per_step=pair.per_step(pair.smallest),
        smallest_leak_bytes_per_hour=pair.per_hour(pair.smallest),
        before=_side(before, first, pair.before),
        after=_side(after, second, pair.after),
        findings=changes,
        workers=worker_changes(first, second),
        doubts=decision.doubts,
        overlay=overlay(before, after, pair.unit),
        step_unit=after.step_unit,
        bill=bill_changes(*as_far(before, after, pair)),
    )


def compare_in_order(recordings: Sequence[Recording]) -> History:
    """Three or more runs of one program, the oldest first: does the last need more than the first, and since when?"""
    cases = [Case(recording) for recording in recordings]
    against_first = [compare_cases(cases[0], case) for case in cases[1:]]
    last = against_first[-1]
    runs = [Run(last.before, None, "")]
    for before, after, comparison in zip(cases, cases[1:], against_first):
        changes = _changes(before, after, paces(before, after))
        new, gone = ([c for c in changes if c.change == change] for change in (NEW, GONE))
        runs.append(Run(comparison.after, comparison.verdict, comparison.reason, new, gone))
    since = len(runs)
    while since > 2 and runs[since - 2].verdict == last.verdict:
        since -= 1
    is_change = last.verdict in (BETTER, WORSE)
    by_step = all(comparison.aligned_by == STEP for comparison in against_first)
    return History(
        verdict=last.verdict,
        reason=runs[since - 1].reason if is_change else last.reason,
        since=since if is_change else None,
        aligned_by=last.aligned_by if by_step else "second",
        smallest_leak_bytes_per_step=last.smallest_leak_bytes_per_step,
        smallest_leak_bytes_per_hour=last.smallest_leak_bytes_per_hour,
        runs=runs,
        doubts=last.doubts,
        curves=run_curves(cases, STEP if by_step else "second"),
        step_unit=last.step_unit,
    )


def _changes(before: Case, after: Case, pair: PacePair) -> list[FindingChange]:
    one, two = pair.before, pair.after
    sides = []
    for case, own, other in ((before, one, two), (after, two, one)):
        least = own.per_hour(pair.smallest) or 0.0
        # Beside what rose as well, whatever became of that, no leak shows.
        sides.append(Told(case.once(report_of), own.came_to, least if other.slope <= pair.smallest else inf))
    changes = finding_changes(*sides)
    if another_program(before, after):  # nothing of the one is gone since, or new
        changes = [replace(one, change=_OF_ANOTHER.get(one.change, one.change)) for one in changes]
    return changes


def _side(case: Case, report: Report, pace: Pace) -> Side:
    rate = pace.rate
    return Side(
        path=report.recording.path,
        command=report.recording.command,
        duration_s=report.recording.duration_s,
        ended=report.recording.ended,
        exit_code=report.recording.exit_code,
        signal=report.recording.signal,
        headline=report.verdict.headline,
        process_count=len(case.growth.processes),
        grows=pace.grows,
        reason=pace.reason,
        growth_bytes_per_step=pace.per_step(rate.slope),
        growth_bytes_per_step_low=pace.per_step(rate.low),
        growth_bytes_per_step_high=pace.per_step(rate.high),
        growth_bytes_per_hour=pace.per_hour(rate.slope, rate.hourly),
        growth_bytes_per_hour_low=pace.per_hour(rate.low, rate.hourly),
        growth_bytes_per_hour_high=pace.per_hour(rate.high, rate.hourly),
        peak_bytes=report.recording.peak.bytes if report.recording.peak is not None else 0,
        peak_in_range_bytes=pace.peak_bytes,
        wasted_bytes=report.verdict.wasted_bytes,
    )
