"""Each rank judged by itself, as a report does it: runs where an engine has it run, and gives back what is told."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from ..facts.case import Case
from ..facts.growth.paces import counted_steps
from ..facts.growth.processes import process_growths
from ..facts.processes.ranks import of_rank
from ..facts.series.arithmetic import Floats
from ..findings import LedgerRow, Report
from ..reporting import report_of
from ..storage import Recording, open_recording
from ._clocks import Events, events_of

BESIDE = "beside-ranks"  # the account of processes of no rank: what launched them


@dataclass(frozen=True)
class Judged:
    """One rank: its report without what only one that is read alone needs, and what its clock passed."""

    rank: int
    report: Report
    events: Events
    steps: int | None
    end_bytes: int
    window_s: float  # of the growth


@dataclass(frozen=True)
class JudgedRecording:
    """The ranks in one recording, and what its processes of no rank gained."""

    path: Path
    ranks: Sequence[Judged]
    beside: LedgerRow | None = None


def judge(path: Path, ranks: Sequence[int]) -> JudgedRecording:
    """**Errors** UnreadableRecording."""
    recording = open_recording(path)
    if len(ranks) == 1:
        return JudgedRecording(path, [_judged(recording, ranks[0], is_shared=False)])
    return JudgedRecording(
        path, [_judged(of_rank(recording, rank), rank, is_shared=True) for rank in ranks], _beside(recording)
    )


def case_of(path: Path, rank: int, is_shared: bool) -> Case:
    """What is known of one rank."""
    recording = open_recording(path)
    return Case(of_rank(recording, rank) if is_shared else recording)


def _judged(recording: Recording, rank: int, is_shared: bool) -> Judged:
    case = Case(recording)
    report = report_of(case)
    if is_shared:  # what the kernel told between samples, and the end of the recording, are of all that it recorded
        lived = max((p.time_s[-1] - p.time_s[0] for p in case.growth.processes), default=0.0)
        report = replace(report, recording=replace(report.recording, peak=None, duration_s=round(float(lived), 3)))
    counted = counted_steps(case.rows("sentinels"))
    held = report.timeline.total_bytes if report.timeline is not None else ()
    return Judged(
        rank,
        replace(report, heap=(), devices=(), laps=None, tensor_budget=(), processes=()),
        events_of(recording),
        int(counted[1][-1] - counted[1][0]) if counted is not None else None,
        held[-1] if held else 0,
        case.growth.end_s - case.growth.start_s,
    )


def _beside(recording: Recording) -> LedgerRow | None:
    """What launched the ranks, and what it launched beside them."""
    processes = recording.rows["processes"]
    pids = set(processes["pid"][processes["rank"].isna()].dropna())
    own = [process for process in process_growths(recording) if process.pid in pids]
    if not own:
        return None
    start, end = (sum(_at(process.time_s, process.held_bytes, last) for process in own) for last in (False, True))
    return LedgerRow(BESIDE, "", start, end, end - start)


def _at(time_s: Floats, held: Floats, last: bool) -> int:
    """A median of a few readings: the first ones after start-up, or the last."""
    part = held[-3:] if last else held[time_s >= time_s[0] + 0.1 * (time_s[-1] - time_s[0])][:3]
    return int(np.median(part)) if part.size else 0
