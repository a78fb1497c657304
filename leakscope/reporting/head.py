"""The head of a report: the facts of the case, and the one sentence that says how it stands."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from operator import attrgetter
from typing import Any

from ..evidence import enough
from ..facts.case import Case
from ..facts.growth.filling import filled
from ..facts.growth.tree import TreeGrowth
from ..facts.processes.inside import THROTTLED, not_looked_at, other_mallocs
from ..facts.processes.ranks import who_leaks
from ..facts.series.trend import RAMP
from ..facts.tables import AT_EXIT, narrow, only
from ..facts.where.holders import holder_name
from ..findings import Finding, RecordingFacts, Verdict, ended_by_lack, is_our_crash
from ..kinds import CRASH, DANGER, ELSEWHERE, FILLS, HELD, KILL, LIMIT, PILE
from ..signals import signal_name
from ..storage import Rows
from ..units import STEP, format_about, format_bytes, format_count, format_duration, format_per_step, format_rate, over
from . import gpu

_LEAST_CPU_S = 0.001
_MOVES = ("grew", "jumped", "mostly", "moves", "rises", "rose", "stays")  # how a trend's reason begins


def facts(case: Case) -> RecordingFacts:
    """What was recorded, and what recording it cost (fractions of one core and of the job's time)."""
    how, exit_code, signal = case.recording.ended
    if how == "signal" and case.kills.of_root:
        how = "oom-killed"
    duration_s, growth = duration(case), case.growth
    judged_s = (growth.start_s, growth.end_s) if growth.end_s > growth.start_s else None
    return RecordingFacts(
        path=case.recording.location,
        command=[str(word) for word in case.recording.meta.get("command") or ()],
        started_at=str(case.recording.meta.get("started_at") or ""),
        duration_s=round(duration_s, 3),
        ended=how,
        exit_code=exit_code,
        signal=signal,
        process_count=len(case.rows("processes")),
        agent_count=len(narrow(case.rows("sentinels"), "pid", "start_ticks").drop_duplicates()),
        complete=case.recording.complete,
        notes=[*map(str, case.recording.notes), *not_looked_at(case.recording, judged_s)],
        overhead=_overhead(case, duration_s),
        cwd=text if isinstance(text := case.recording.meta.get("cwd"), str) else None,
        goes_on=case.recording.goes_on and how == "lost",
    )


def duration(case: Case) -> float:
    """Seconds from the start to the last row of any table that is sampled."""
    names = ("process_samples", "host_samples", "sentinels", "recorder_samples", "events", "gpu_events")
    last = [float(case.rows(name)["time_s"].max()) for name in names if len(case.rows(name))]
    return max([0.0, *(s for s in last if s == s)])


def verdict(case: Case, findings: Sequence[Finding]) -> Verdict:
    """True, False or None with its reason; a finding that explains the growth names the culprit.

    ``growth_bytes`` is the sum of the ledger, so that whoever adds up finds the same.
    """
    growth = gpu.judged(case)
    gained = sum(row.growth_bytes for row in case.ledger if row.in_total)
    hours = (growth.end_s - growth.start_s) / 3600
    _, _, signal = case.recording.ended
    kill = next((f for f in findings if f.tells(KILL) and case.kills.sure), None)
    end = kill or next((f for f in findings if ended_by_lack(f) and not f.tells(KILL)), None)
    wasted = sum(f.bytes for f in findings if f.wasted)
    ours = [f"{f.title}." for f in findings if is_our_crash(f)][:1]  # before anything else
    others = [f for f in findings if not is_our_crash(f)]
    unit = case.step_unit
    elsewhere = any(f.tells(ELSEWHERE) and not f.wasted for f in findings)
    # Then the limit was reached, or nobody gets there.
    is_over = kill is not None or case.kills.of_root or any(map(_is_crash, findings))
    ahead = case.forecast if not is_over else None
    limit = ahead.limit if ahead is not None else case.nearest_limit
    told = Told(
        growth,
        gained,
        others,
        end,
        wasted,
        signal,
        case.steps,
        unit,
        case.rank_growth,
        _full(case, findings),
        enough.without_waste(case, findings),
    )
    grown = growth.main.growth_bytes if growth.main is not None and growth.main.is_hidden else gained
    per_hour = grown / hours if hours > 0 else None
    low, high = growth.bounds(per_hour) if per_hour is not None else (None, None)
    return Verdict(
        leaking=True if elsewhere else growth.leaking,
        killed=kill is not None,
        headline=" ".join(filter(None, [*ours, headline(told), *_unread_mallocs(case), gpu.sentence(case)])),
        growth_bytes=gained,
        growth_bytes_per_hour=_rounded(per_hour),
        growth_bytes_per_step=case.bytes_per_step(grown),
        wasted_bytes=wasted,
        limit=limit.kind if limit is not None else None,
        seconds_to_limit=round(ahead.seconds, 1) if ahead is not None else None,
        start_s=round(growth.start_s, 2) if hours > 0 else None,
        end_s=round(growth.end_s, 2) if hours > 0 else None,
        step_unit=unit,
        model=growth.judged.model or None,
        model_odds=round(growth.judged.odds, 3) if growth.judged.model else None,
        shown_bytes_per_hour=_rounded(growth.least_bytes_per_hour if growth.leaking is False else None),
        growth_bytes_per_hour_low=_rounded(low),
        growth_bytes_per_hour_high=_rounded(high),
    )


def _rounded(bytes: float | None) -> float | None:
    return None if bytes is None else round(bytes, 1)


def _full(case: Case, findings: Sequence[Finding]) -> str:
    """What grew until it was full, which no finding tells."""
    growth = case.growth
    is_told = growth.leaking is not False or growth.judged.model != RAMP or any(f.tells(HELD) for f in findings)
    full = filled(case.recording, growth.main, growth.end_s) if not is_told and growth.main else None
    if full is None:
        return ""
    limit = f", kept to {format_count(full.limit)} members" if full.limit is not None else ""
    return f": {holder_name(full.named)}{limit}"


def _unread_mallocs(case: Case) -> list[str]:
    """What grows inside such an allocator may be in use or free: no account of it, and no verdict, can say."""
    unread = [library for library, is_known in other_mallocs(case.recording).items() if not is_known]
    return [f"What {library} keeps free was not read: growth may be its." for library in unread[:1]]


@dataclass(frozen=True)
class Told:
    """What the headline is made of: the growth, and of the findings those that it speaks of.

    ``end`` is the finding of a kill that is sure, or of memory that was refused; ``signal`` ended the job. ``steps``
    passed, each a ``step_unit``.
    ``ranks``: which of several ranks grow. ``full``: what a rise that ended was. ``enough_bytes``: without waste, at
    the level and at the peak.
    """

    growth: TreeGrowth
    gained: int
    findings: Sequence[Finding]
    end: Finding | None = None
    wasted_bytes: int = 0
    signal: int | None = None
    steps: int = 0
    step_unit: str = STEP
    ranks: Mapping[int, bool | None] = field(default_factory=dict)
    full: str = ""
    enough_bytes: tuple[int, int] | None = None

    @property
    def amount(self) -> str:
        return f"{format_bytes(self.gained)} in {self.lasted}"

    @property
    def lasted(self) -> str:
        return format_duration(self.growth.end_s - self.growth.start_s)

    @property
    def rate(self) -> str:
        seconds = self.growth.end_s - self.growth.start_s
        rate = format_rate(3600 * over(self.gained, seconds), seconds)
        return self.with_steps(rate, self.gained / self.steps if self.steps else None)

    def with_steps(self, rate: str, bytes_per_step: float | None) -> str:
        """Of a service growth with its requests says more than growth with time."""
        if self.step_unit == STEP or not bytes_per_step:
            return rate
        return f"{rate}, {format_per_step(bytes_per_step, self.step_unit)}"

    @cached_property
    def first(self) -> Finding | None:
        """What tells best why memory grows."""
        aside = (f.wasted or f.tells(FILLS, HELD) or ended_by_lack(f) or _is_danger(f) for f in self.findings)
        return next((f for f, is_aside in zip(self.findings, aside) if not is_aside), None)

    @cached_property
    def elsewhere(self) -> Finding | None:
        """What leaks although the processes do not grow; None where they do, since that comes first."""
        leaks = (f for f in self.findings if f.tells(ELSEWHERE) and not f.wasted)
        return next(leaks, None) if not self.growth.leaking else None

    @cached_property
    def danger(self) -> Finding | None:
        dangers = (f for f in self.findings if _is_danger(f) and f.severity != "note")
        if self.end is not None or any(map(_is_crash, self.findings)):  # they say it all
            dangers = (f for f in dangers if not f.tells(LIMIT))
        return next(dangers, None)

    @property
    def is_all_in_the_end(self) -> bool:
        """Whether the title of the end names the very thing that grew."""
        if self.end is None or self.first is None or not self.growth.leaking:
            return False
        thing = attrgetter("pid", "holder", "path", "file", "line")
        return bool(thing(self.end.subject) == thing(self.first.subject))


def headline(told: Told) -> str:
    """How the recording stands, in as many sentences as it takes."""
    return " ".join(text for part in _PARTS if (text := part(told)))


def _ended(told: Told) -> str:
    return f"{told.end.title}." if told.end is not None else ""


def _danger(told: Told) -> str:
    return f"{told.danger.title}." if told.danger is not None and not told.growth.leaking else ""


def _whether(told: Told) -> str:
    """Whether something leaks, and what."""
    if told.growth.leaking:
        return _what_grows(told)
    if told.elsewhere is not None and told.elsewhere.means is not None:
        return f"{told.elsewhere.means.headline}: {_lower(told.elsewhere.title)}."
    if told.growth.leaking is None:
        return f"Cannot tell whether memory leaks: {_clause(told.growth.reason)}."
    if told.growth.is_harmless:
        return f"No leak that matters: {told.growth.reason}."
    filling = next((f for f in told.findings if f.tells(FILLS)), None)
    if filling is not None:
        return f"No leak: {_lower(filling.title)}."
    return f"No leak: memory does not keep growing; {_clause(told.growth.reason)}{told.full}.{_power(told.growth)}"


def _power(growth: TreeGrowth) -> str:
    """What would have shown: without it nobody knows what `no leak` is worth."""
    if growth.least_bytes_per_hour is None:
        return ""
    told = f" A leak above {format_rate(growth.least_bytes_per_hour, growth.end_s - growth.start_s)} would have shown"
    if growth.enough_s is None:
        return f"{told}."
    return f"{told}; to see any that matters within a day, record {format_about(growth.enough_s)}."


def _clause(reason: str) -> str:
    """A reason with its subject: most say only what memory does, since they are also said of one process."""
    return f"it {reason}" if reason.split(" ", 1)[0].rstrip(",") in _MOVES else reason


def _what_grows(told: Told) -> str:
    if told.is_all_in_the_end:
        return f"The job gained {told.amount} ({told.rate})."
    main = told.growth.main
    if told.first is not None and main is not None and main.is_hidden:  # what the job gained is chance
        per_hour = told.first.bytes_per_hour
        seconds = told.growth.end_s - told.growth.start_s
        if per_hour is None:
            per_hour = 3600 * over(main.growth_bytes, seconds)
        rate = told.with_steps(format_rate(per_hour, seconds), told.first.bytes_per_step)
        return f"Memory leaks: {_lower(told.first.title)}, in {told.lasted} ({rate})."
    if told.first is not None and told.gained < 0:  # the kernel took back pages of files, or others map them now
        gave_back = f"the job gave back more than that, {format_bytes(-told.gained)} in {told.lasted}"
        return f"Memory leaks: {_lower(told.first.title)}; {gave_back}."
    if told.first is not None:
        return f"Memory leaks: {_lower(told.first.title)}; the job gained {told.amount} ({told.rate})."
    who = told.growth.main.name if told.growth.main else "the job"
    return f"Memory leaks: {who} gained {told.amount} ({told.rate}) and was still growing."


def _hidden(told: Told) -> str:
    main = told.growth.main
    if not told.growth.leaking or told.is_all_in_the_end or main is None or not main.is_hidden:
        return ""
    return main.hides


def _pile(told: Told) -> str:
    piles = (f for f in told.findings if f.tells(PILE) and not f.wasted)
    pile = next(piles, None) if not told.growth.leaking else None
    return f"But {_lower(pile.title)}." if pile is not None and pile is not told.elsewhere else ""


def _waste(told: Told) -> str:
    waste = next((f for f in told.findings if f.wasted), None) if not told.growth.leaking else None
    if waste is None:
        return ""
    title, wasted = _lower(waste.title), format_bytes(told.wasted_bytes)
    # A kill names what filled the memory.
    is_said = any(title.partition(": ")[0] in f.title for f in told.findings if f is not waste)
    more = "" if waste.bytes >= told.wasted_bytes else ", among them"
    text = f"But {wasted} {'of it ' if is_said else ''}is wasted{'' if is_said else f'{more}: {title}'}."
    if told.enough_bytes is None or told.end is not None:
        return text
    level, peak = map(format_bytes, told.enough_bytes)
    return f"{text} Without that, {level} would be in use, {peak} at the peak."


def _held(told: Told) -> str:
    kept = (f for f in told.findings if f.tells(HELD) and not f.wasted)
    held = next(kept, None) if told.growth.leaking is not True and not told.wasted_bytes else None
    return f"{held.title}." if held is not None else ""


def _danger_besides(told: Told) -> str:
    if told.danger is None or not told.growth.leaking or told.is_all_in_the_end:
        return ""
    return f"Also: {_lower(told.danger.title)}."


def _ranks(told: Told) -> str:
    """Which of the ranks it is: what they do together hides the one that leaks."""
    leaking, steady = ([rank for rank, grows in told.ranks.items() if grows is answer] for answer in (True, False))
    return f"{who_leaks(leaking, steady, len(told.ranks))}." if leaking else ""


def _signal(told: Told) -> str:
    return f"The job was ended by {signal_name(told.signal)}." if told.signal is not None and told.end is None else ""


_PARTS = (_ended, _danger, _whether, _hidden, _ranks, _pile, _waste, _held, _danger_besides, _signal)


def _is_crash(finding: Finding) -> bool:
    return finding.tells(CRASH) and finding.severity == "critical"


def _is_danger(finding: Finding) -> bool:
    return finding.tells(DANGER) and not finding.bytes


def _lower(title: str) -> str:
    """A title inside a sentence: names keep their capitals, an ordinary first word loses its own."""
    word = title.split(" ", 1)[0]
    return title[:1].lower() + title[1:] if word.isalpha() and (word[1:].islower() or len(word) == 1) else title


def _overhead(case: Case, duration_s: float) -> dict[str, float | None]:
    own, takes = case.rows("recorder_samples"), case.rows("takes")

    def largest(frame: Rows, column: str) -> Any:
        values = frame[column].dropna()
        return values.max() if len(values) else None

    cpu_s, rss = largest(own, "cpu_s"), largest(own, "rss_bytes")
    pause_s = largest(only(takes, takes["reason"] != AT_EXIT), "duration_s")  # as a process ends none waits for it
    events, notes = case.rows("events"), case.rows("agent_notes")
    interval_s = largest(only(events, events["event"] == THROTTLED), "value")
    asked = case.recording.meta.get("options")
    spent = takes["duration_s"].dropna()
    known = duration_s > _LEAST_CPU_S
    return {
        "recorder_cpu_fraction": round(float(cpu_s) / duration_s, 5) if cpu_s is not None and known else None,
        "take_fraction": round(float(spent.sum()) / duration_s, 5) if len(spent) and known else None,
        "recorder_rss_bytes": int(rss) if rss is not None else None,
        "take_bytes": int(taken) if (taken := largest(case.rows("heap_graphs"), "reading_bytes")) is not None else None,
        "longest_take_s": round(float(pause_s), 4) if pause_s is not None else None,
        "recording_bytes": _file_bytes(case),
        "max_overhead_fraction": asked.get("max_overhead_fraction") if isinstance(asked, dict) else None,
        "held_back_takes": int((notes["note"] == THROTTLED).sum()),
        "longest_interval_s": round(float(interval_s), 2) if interval_s is not None else None,
    }


def _file_bytes(case: Case) -> int | None:
    """Size of the file; null while there is none that is whole."""
    try:
        return case.recording.path.stat().st_size if case.recording.meta.get("state") == "final" else None
    except OSError:
        return None
