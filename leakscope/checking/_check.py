"""Each rule held against a recording: kept, broken, or cannot tell, with one line that says why and where."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from ..comparing import CANNOT_TELL as UNDECIDED
from ..comparing import WORSE, compare_cases, failure, workers_at_once
from ..confidence import LIKELY
from ..facts.case import Case
from ..facts.series.trend import LEAST_STEPS
from ..findings import Finding, Report
from ..ignoring import Ignores, without_ignored
from ..reporting import report_of
from ..storage import Recording
from ..units import format_bytes, format_count, format_duration
from ..words import accepted
from ._rules import Growth, Rules

KEPT, BROKEN, CANNOT_TELL = "kept", "broken", "cannot-tell"
NO_LEAK = "no leak"  # the rule that holds where none is given
_NO_SAMPLES = "the recording has no memory samples"
_LOADER_WORKER = "dataloader-worker"


@dataclass(frozen=True)
class Outcome:
    """One rule. ``file`` and ``line``: the place to edit, where a finding behind it names one."""

    rule: str
    outcome: str
    text: str
    file: str | None = None
    line: int | None = None


@dataclass(frozen=True)
class Check:
    """All rules and the ``exit_status`` they make: 0 kept, 1 broken, 4 cannot tell; ``recording`` is its path."""

    recording: str
    outcome: str
    exit_status: int
    outcomes: tuple[Outcome, ...]
    ignored: tuple[str, ...] = ()


def check(
    recording: Recording,
    rules: Rules,
    baseline: Recording | None = None,
    ignores: Ignores | None = None,
    horizon_s: float | None = None,
) -> Check:
    """Hold a recording to the rules; without any rule it must not leak. What is ``ignored`` breaks none of them.

    ``horizon_s``: how far ahead growth has to matter to be a leak; None is a day.
    """
    return check_case(Case(recording, horizon_s), rules, baseline, ignores)


def check_case(case: Case, rules: Rules, baseline: Recording | None = None, ignores: Ignores | None = None) -> Check:
    """Like ``check``, for callers that already have the case."""
    report = without_ignored(case.once(report_of), ignores or Ignores())
    outcomes = tuple(_unless_it_failed(report, _outcomes(case, report, rules, baseline)))
    found = {outcome.outcome for outcome in outcomes}
    worst = BROKEN if BROKEN in found else CANNOT_TELL if CANNOT_TELL in found else KEPT
    undecided = {"pass": 0, "fail": 1, None: 4}[rules.inconclusive]
    if rules.inconclusive == "pass" and failure(report):  # that was said of runs that are too short
        undecided = 4
    status = {KEPT: 0, BROKEN: 1, CANNOT_TELL: undecided}[worst]
    ignored = tuple(map(accepted, report.ignored))
    return Check(report.recording.path, worst, status, outcomes, ignored)


def _unless_it_failed(report: Report, outcomes: Iterable[Outcome]) -> Iterator[Outcome]:
    """A run that failed keeps no rule: nobody knows what it would have come to."""
    failed = failure(report)
    for outcome in outcomes:
        if failed and outcome.outcome != BROKEN:
            outcome = replace(outcome, outcome=CANNOT_TELL, text=f"the run {failed}; until then: {outcome.text}")
        yield outcome


def _outcomes(case: Case, report: Report, rules: Rules, baseline: Recording | None) -> Iterator[Outcome]:
    if rules.max_growth is not None:
        yield _growth(case, report, rules.max_growth)
    if rules.max_rss_bytes is not None:
        yield _peak(report, rules.max_rss_bytes)
    if rules.max_workers is not None:
        yield _workers(report, rules.max_workers)
    for kind in dict.fromkeys(rules.no_findings):
        yield _no_finding(report, kind)
    if baseline is not None:
        yield _against(case, report, baseline)
    if rules.asks_nothing:
        yield _no_leak(report)


def _growth(case: Case, report: Report, limit: Growth) -> Outcome:
    """By the report's own figures: a gate says no other rate than the report that explains it."""
    rule = f"max-growth {limit.text}"
    growth, verdict, hours = case.growth, report.verdict, _hours(case, limit)
    if verdict.growth_bytes_per_hour is not None and hours is None:
        return Outcome(rule, CANNOT_TELL, f"cannot tell the growth: too few {case.step_unit}s were counted")
    known = verdict.growth_bytes_per_hour, verdict.growth_bytes_per_hour_low, verdict.growth_bytes_per_hour_high
    middle, low, high = (None if bytes is None or hours is None else bytes * hours for bytes in known)
    unit = _unit(limit, case.step_unit)
    if middle is None or high is None or (growth.leaking is None and high > limit.bytes):
        return Outcome(rule, CANNOT_TELL, f"cannot tell the growth: {growth.reason}")
    if low is not None:
        text = f"memory grows by {format_bytes(middle)} {unit} ({format_bytes(low)} to {format_bytes(high)})"
        if low > limit.bytes:
            return _broken(rule, text, _first(report, lambda finding: not finding.wasted))
        is_kept = high <= limit.bytes
        return Outcome(rule, KEPT if is_kept else CANNOT_TELL, text if is_kept else f"{text}; record longer to be sure")
    if high <= limit.bytes:
        return Outcome(rule, KEPT, f"memory grows by at most {format_bytes(high)} {unit}")
    text = f"this run is too short: memory may have grown by {format_bytes(high)} {unit}"
    if limit.bytes > 0:
        needed_h = verdict.watched_s / 3600 * high / limit.bytes
        text += f"; about {_so_long(needed_h, hours or 0.0, limit, case.step_unit)} after start-up would show"
    return Outcome(rule, CANNOT_TELL, text)


def _hours(case: Case, limit: Growth) -> float | None:
    """How long the job takes for what the limit is given for; None where that is steps, and too few were counted."""
    if limit.unit != "step":
        return limit.per
    if case.steps < LEAST_STEPS:
        return None
    return limit.per * (case.growth.end_s - case.growth.start_s) / 3600 / case.steps


def _so_long(needed_h: float, hours: float, limit: Growth, step_unit: str) -> str:
    if limit.unit == "step":
        return f"{format_count(needed_h / hours * limit.per)} {step_unit}s"
    return format_duration(needed_h * 3600)


def _unit(limit: Growth, step_unit: str) -> str:
    """``per step``, ``in 1,000 requests``, ``per hour``: of steps, what the recording counts."""
    if limit.unit == "step":
        return f"per {step_unit}" if limit.per == 1 else f"in {format_count(limit.per)} {step_unit}s"
    return "per hour" if limit.per == 1 else f"per {limit.text.partition('/')[2].strip()}"  # as it was given


def _peak(report: Report, limit_bytes: float) -> Outcome:
    rule = f"max-rss {format_bytes(limit_bytes)}"
    if report.recording.peak is None:
        return Outcome(rule, CANNOT_TELL, _NO_SAMPLES)
    peak = report.recording.peak.bytes
    text = f"all processes together held {format_bytes(peak)} at most"
    if peak <= limit_bytes:
        return Outcome(rule, KEPT, text)
    return _broken(rule, text, _first(report, lambda finding: finding.bytes > 0))


def _workers(report: Report, limit: int) -> Outcome:
    count = workers_at_once(report, _LOADER_WORKER)
    text = f"{format_count(count)} data loader workers ran at once"
    return Outcome(f"max-workers {limit}", KEPT if count <= limit else BROKEN, text)


def _no_finding(report: Report, kind: str) -> Outcome:
    rule = f"no {kind}"
    found = _first(report, lambda finding: kind in (finding.kind, *finding.also))
    if found is not None:
        return _broken(rule, found.title, found, named=True)
    skipped = next((skip for skip in report.skipped if skip.kind == kind), None)
    if skipped is not None:
        return Outcome(rule, CANNOT_TELL, f"could not be checked: {skipped.reason}")
    return Outcome(rule, KEPT, "none was found")


def _against(case: Case, report: Report, baseline: Recording) -> Outcome:
    comparison = compare_cases(Case(baseline), case)
    rule = f"no worse than {baseline.path}"
    text = f"{comparison.verdict.replace('-', ' ')}: {comparison.reason}"
    if comparison.verdict == WORSE:
        return _broken(rule, text, _first(report, lambda finding: not finding.wasted), named=True)
    return Outcome(rule, CANNOT_TELL if comparison.verdict == UNDECIDED else KEPT, text)


def _no_leak(report: Report) -> Outcome:
    if report.verdict.leaking and report.ignored and _first(report, lambda finding: not finding.wasted) is None:
        return Outcome(NO_LEAK, KEPT, "memory grows, and all that was found is ignored")
    outcome = {True: BROKEN, False: KEPT, None: CANNOT_TELL}[report.verdict.leaking]
    text = report.verdict.headline.rstrip(".")
    if outcome == BROKEN:
        causes = [f for f in report.findings if f.severity != "note" and not f.wasted]
        surest = max((f.confidence for f in causes), default=1.0)
        if surest < LIKELY:  # a gate that fails on what is likelier to be something else is switched off soon
            unsure = f"what was found to explain it is {surest:.0%} sure at most: {text}"
            return Outcome(NO_LEAK, CANNOT_TELL, unsure)
        return _broken(NO_LEAK, text, causes[0] if causes else None, named=True)
    return Outcome(NO_LEAK, outcome, text)


def _first(report: Report, wanted: Callable[[Finding], bool]) -> Finding | None:
    return next((f for f in report.findings if f.severity != "note" and wanted(f)), None)


def _broken(rule: str, text: str, finding: Finding | None, named: bool = False) -> Outcome:
    """``named``: the text says already what the finding is about."""
    if finding is None:
        return Outcome(rule, BROKEN, text)
    if not named:
        text = f"{text}; {finding.title}"
    return Outcome(rule, BROKEN, text, finding.subject.file, finding.subject.line)
