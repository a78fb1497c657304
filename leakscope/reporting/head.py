"""The head of a report: the facts of the case, and the one sentence that says how it stands."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ..facts.growth.tree import TreeGrowth
from ..facts.processes.inside import not_looked_at
from ..findings import Finding, RecordingFacts, Verdict, is_our_crash
from ..units import format_bytes, format_duration

if TYPE_CHECKING:
    import pandas as pd

    from ..facts.case import Case

_LEAST_CPU_S = 0.001
_THROTTLED = "throttled"  # the note of an agent, the event of the recorder
_KILL = "oom-kill"
# What may leak while the memory of the processes is flat, and how the headline says so.
_ELSEWHERE = {"gpu-retention": "GPU memory leaks", "shared-memory": "Shared memory leaks"}
# What may run out although memory does not grow.
_PILES = ("fd-pileup", "thread-pileup", "process-pileup")
# Worse than any growth: the job is about to crash or to be killed, or trains nothing.
_NOT_ABOUT_GROWTH = ("refcount-drift", "unhealthy-training", "memory-pressure", "crash")


def facts(case: Case) -> RecordingFacts:
    """What was recorded, and what recording it cost (fractions of one core and of the job's time)."""
    how, exit_code, signal = case.recording.ended
    if how == "signal" and case.kills.of_root:
        how = "oom-killed"
    duration_s = duration(case)
    return RecordingFacts(
        path=str(case.recording.path),
        command=[str(word) for word in case.recording.meta.get("command") or ()],
        started_at=str(case.recording.meta.get("started_at") or ""),
        duration_s=round(duration_s, 3),
        ended=how,
        exit_code=exit_code,
        signal=signal,
        process_count=len(case.rows("processes")),
        agent_count=len(case.rows("sentinels")[["pid", "start_ticks"]].drop_duplicates()),
        complete=case.recording.complete,
        notes=[*map(str, case.recording.notes), *not_looked_at(case.recording)],
        overhead=_overhead(case, duration_s),
        cwd=text if isinstance(text := case.recording.meta.get("cwd"), str) else None,
    )


def duration(case: Case) -> float:
    """Seconds from the start to the last row of any table that is sampled."""
    names = ("process_samples", "host_samples", "sentinels", "recorder_samples", "events")
    last = [float(case.rows(name)["time_s"].max()) for name in names if len(case.rows(name))]
    return max([0.0, *(s for s in last if s == s)])


def verdict(case: Case, findings: Sequence[Finding]) -> Verdict:
    """True, False or None with its reason; a finding that explains the growth names the culprit.

    ``growth_bytes`` is the sum of the ledger, mapped files included, so that whoever adds up finds the same.
    """
    growth = case.growth
    gained = sum(row.growth_bytes for row in case.ledger)
    hours = (growth.end_s - growth.start_s) / 3600
    _, _, signal = case.recording.ended
    kill = next((f for f in findings if f.kind == _KILL and case.kills.sure), None)
    wasted = sum(f.bytes for f in findings if f.wasted)
    ours = [f"{f.title}." for f in findings if is_our_crash(f)][:1]  # before anything else
    others = [f for f in findings if not is_our_crash(f)]
    steps = _steps(case, growth)
    elsewhere = any(f.kind in _ELSEWHERE and not f.wasted for f in findings)
    is_over = case.kills.of_root or any(map(_is_crash, findings))  # the limit was reached, or nobody gets there
    ahead = case.forecast if not is_over else None
    limit = ahead.limit if ahead is not None else case.nearest_limit
    return Verdict(
        leaking=True if elsewhere else growth.leaking,
        killed=kill is not None,
        headline=" ".join([*ours, _headline(growth, gained, others, kill, wasted, signal)]),
        growth_bytes=gained,
        growth_bytes_per_hour=round(gained / hours, 1) if hours > 0 else None,
        growth_bytes_per_step=round(gained / steps, 1) if steps else None,
        wasted_bytes=wasted,
        limit=limit.kind if limit is not None else None,
        seconds_to_limit=round(ahead.seconds, 1) if ahead is not None else None,
    )


def _headline(
    growth: TreeGrowth,
    gained: int,
    findings: Sequence[Finding],
    kill: Finding | None,
    wasted: int,
    signal: int | None,
) -> str:
    length_s = growth.end_s - growth.start_s
    amount = f"{format_bytes(gained)} in {format_duration(length_s)}"
    rate = f"{format_bytes(gained / max(length_s, 1e-9) * 3600)} an hour"
    first = next((f for f in findings if not f.wasted and f.kind != _KILL and not _is_danger(f)), None)
    elsewhere = next((f for f in findings if f.kind in _ELSEWHERE and not f.wasted), None)
    if elsewhere is not None and not growth.leaking:
        text = f"{_ELSEWHERE[elsewhere.kind]}: {_lower(elsewhere.title)}."
    elif growth.leaking is None:
        text = f"Cannot tell whether memory leaks: {growth.reason}."
    elif growth.leaking:
        who = growth.main.name if growth.main else "the job"
        text = f"Memory leaks: {who} gained {amount} ({rate}) and was still growing."
        if first is not None:
            text = f"Memory leaks: {_lower(first.title)}; the job gained {amount} ({rate})."
        if growth.main and growth.main.is_hidden:
            text += " It fills memory that had been freed before: the job will grow when that is used up."
    else:
        text = f"No leak: memory does not keep growing ({growth.reason})."
    pile = next((f for f in findings if f.kind in _PILES and not f.wasted), None)
    if pile is not None and pile is not elsewhere and not growth.leaking:
        text += f" But {_lower(pile.title)}."
    waste = next((f for f in findings if f.wasted), None)
    if waste is not None and not growth.leaking:
        text += f" But {format_bytes(wasted)} are wasted: {_lower(waste.title)}."
    past = ("memory-pressure",) if kill is not None or any(map(_is_crash, findings)) else ()  # they say it all
    danger = next((f for f in findings if _is_danger(f) and f.severity != "note" and f.kind not in past), None)
    if danger is not None:
        text = f"{text} Also: {_lower(danger.title)}." if growth.leaking else f"{danger.title}. {text}"
    if kill is not None and first is not None and kill.subject == first.subject and growth.leaking:
        return f"{kill.title}. The job gained {amount} ({rate})."
    if kill is not None:
        return f"{kill.title}. {text}"
    if signal is not None:
        return f"{text} The job was ended by signal {signal}."
    return text


def _is_crash(finding: Finding) -> bool:
    return finding.kind == "crash" and finding.severity == "critical"


def _is_danger(finding: Finding) -> bool:
    return finding.kind in _NOT_ABOUT_GROWTH and not finding.bytes


def _lower(title: str) -> str:
    """A title inside a sentence: names keep their capitals, an ordinary first word loses its own."""
    word = title.split(" ", 1)[0]
    return title[:1].lower() + title[1:] if word.isalpha() and (word[1:].islower() or len(word) == 1) else title


def _steps(case: Case, growth: TreeGrowth) -> int:
    """Training steps passed in the judged window by the process that grew most; 0 where nobody counted."""
    sentinels = case.rows("sentinels")
    if growth.main is None or not len(sentinels):
        return 0
    own: pd.DataFrame = sentinels[(sentinels["pid"] == growth.main.pid) & sentinels["step"].notna()]
    own = own[(own["time_s"] >= growth.start_s) & (own["time_s"] <= growth.end_s)]
    return int(own["step"].max() - own["step"].min()) if len(own) > 1 else 0


def _overhead(case: Case, duration_s: float) -> dict[str, float | None]:
    own, takes = case.rows("recorder_samples"), case.rows("takes")

    def largest(frame: pd.DataFrame, column: str) -> Any:
        values = frame[column].dropna()
        return values.max() if len(values) else None

    cpu_s, rss, pause_s = largest(own, "cpu_s"), largest(own, "rss_bytes"), largest(takes, "duration_s")
    events, notes = case.rows("events"), case.rows("agent_notes")
    interval_s = largest(events[events["event"] == _THROTTLED], "value")
    asked = case.recording.meta.get("options")
    spent = takes["duration_s"].dropna()
    known = duration_s > _LEAST_CPU_S
    return {
        "recorder_cpu_fraction": round(float(cpu_s) / duration_s, 5) if cpu_s is not None and known else None,
        "take_fraction": round(float(spent.sum()) / duration_s, 5) if len(spent) and known else None,
        "recorder_rss_bytes": int(rss) if rss is not None else None,
        "longest_take_s": round(float(pause_s), 4) if pause_s is not None else None,
        "recording_bytes": _file_bytes(case),
        "max_overhead_fraction": asked.get("max_overhead_fraction") if isinstance(asked, dict) else None,
        "held_back_takes": int((notes["note"] == _THROTTLED).sum()),
        "longest_interval_s": round(float(interval_s), 2) if interval_s is not None else None,
    }


def _file_bytes(case: Case) -> int | None:
    """Size of the file; null while there is none that is whole."""
    try:
        return case.recording.path.stat().st_size if case.recording.meta.get("state") == "final" else None
    except OSError:
        return None
