"""Evaluation (or saving, or a phase the user named) that leaves memory behind each time it runs.

Looks for:     phases after which more memory is in use than before them, again and again.
Why:           outputs, losses with their graphs or metric states gathered in evaluation and never freed.
Decides by:    bytes gained between entering and leaving a phase, added up by the agent over all its passages, against
               what the process gained in the same time and allocators do not keep free; the holder is the one the
               other analyzers found, or else the line that allocated what stays.
Mistaken when: memory that is taken in evaluation is given back only later, in a phase that is not over yet.
Do:            empty what the holder gathers after each evaluation, or keep numbers of it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..confidence import NEUTRAL, SURE, Ground, graded
from ..evidence.sentences import grew_at
from ..facts.case import Case
from ..facts.growth.arenas import in_use_of
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import severity_of
from ..facts.series.arithmetic import level_at
from ..facts.tables import only
from ..facts.where.stacks import stays_at
from ..findings import Evidence, Finding, RuledOut, Series, Skipped
from ..kinds import GROWTH, WHEN
from ..storage import Rows
from ..units import ENDS_S, FEWEST, LITTLE, MOST, SOME, format_bytes

NEEDS = ("process_samples", "phases")
TELLS = (GROWTH, WHEN)
AFTER = ("*",)  # the holder of what evaluation gathers is theirs to name
KIND = "eval-accumulation"
_NEVER_BLAMED = ("train", "start-up")
_LATE_S = ENDS_S  # rows come every flush: the last one may be a little late
_FIGURES = ["entry_count", "gained_bytes", "phase_s", "peak_gain_bytes"]


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_entries: int = FEWEST,  # twice could be a first time and its warm-up
    min_bytes: int = LITTLE,  # an evaluation; less is noise of the allocator
    min_share: float = MOST,  # of the process's growth: else evaluation is not where memory goes
    max_entries_per_step: float = 0.34,  # a model switched at every other step is no evaluation
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process and phase that keeps memory."""
    growth = case.growth
    seen = False
    for process in growth.processes:
        for passages in _phases(process, growth.start_s, growth.end_s, max_entries_per_step):
            seen = True
            share = passages.gained_bytes / passages.of_bytes if passages.of_bytes > 0 else 0.0
            kept = passages.entries >= min_entries and passages.gained_bytes >= min_bytes * passages.entries
            if growth.leaking and kept and share >= min_share:
                severity = severity_of(growth, passages.gained_bytes)
                yield _finding(case, process, passages, share, severity, so_far)
            else:
                yield RuledOut(KIND, _innocent(process, passages, share), passages.figures)
    if not seen:
        yield Skipped(KIND, "no evaluation or saving was recognised in the judged part of the run")


class _Passages(NamedTuple):
    """What one phase did to one process inside a window, all its passages together."""

    phase: str
    entries: int
    gained_bytes: int
    peak_bytes: int
    seconds: float
    series: Series
    of_bytes: float  # what the process gained in the same time, and is not free

    @property
    def each_bytes(self) -> float:
        return self.gained_bytes / max(self.entries, 1)

    @property
    def figures(self) -> dict[str, object]:
        figures = {"phase": self.phase, "entries": self.entries, "gained_bytes": self.gained_bytes}
        return figures | {"peak_gain_bytes": self.peak_bytes, "phase_s": round(self.seconds, 2)}

    @property
    def words(self) -> str:
        return {"eval": "evaluation", "save": "saving"}.get(self.phase, f"phase {self.phase!r}")


def _passages(process: ProcessGrowth, phase: str, rows: Rows, *, begins: bool) -> _Passages:
    """``begins``: before the first of the rows there was nothing."""
    values = rows[_FIGURES].to_numpy(dtype=np.float64)
    first = np.zeros(len(_FIGURES)) if begins else values[0]
    entries, gained, seconds, _ = values[-1] - first
    at_s, left = rows["time_s"].tolist(), values[:, 1].tolist()
    if begins:
        at_s, left = [at_s[0], *at_s], [0.0, *left]
    series = Series(f"bytes left behind by {phase}", [round(float(s), 3) for s in at_s], left)
    of_bytes = _gained(process, at_s[0], at_s[-1])
    return _Passages(phase, int(entries), int(gained), int(values[-1, 3]), float(seconds), series, of_bytes)


def _gained(process: ProcessGrowth, start_s: float, end_s: float) -> float:
    """Without what allocators keep free: that is in no phase's account, which has what malloc handed out."""
    at_s, _, free = in_use_of(process.rows("sentinels"))
    gained = level_at(process.time_s, process.held_bytes, end_s) - level_at(process.time_s, process.held_bytes, start_s)
    freed = np.interp((start_s, end_s), at_s, free) if at_s.size else np.zeros(2)
    return gained - max(0.0, float(freed[1] - freed[0]))


def _phases(process: ProcessGrowth, start_s: float, end_s: float, max_entries_per_step: float) -> Iterator[_Passages]:
    rows = process.rows("phases")
    rows = rows.dropna(subset=_FIGURES)
    # As a program ends it lets go of all, whatever phase that is in.
    rows = only(rows, rows["time_s"] < process.exit_s)
    for phase in sorted(set(rows["phase"].dropna()) - set(_NEVER_BLAMED)):
        own = only(rows, rows["phase"] == phase)
        before = only(own, own["time_s"] < start_s).iloc[-1:]
        window = only(own, own["time_s"] >= (before["time_s"].iloc[0] if len(before) else start_s))
        window = only(window, window["time_s"] <= end_s + _LATE_S)
        if len(window) < 2 and not len(before):  # it began inside the window: before its first row there was nothing
            window = own.iloc[:1]
        if not len(window):
            continue
        # A fork goes on from what its parent had counted.
        passages = _passages(process, phase, window, begins=not len(before) and not process.is_fork)
        steps = window["step"].dropna().to_numpy(dtype=np.float64)
        passed = float(steps[-1] - steps[0]) if len(steps) > 1 else 0.0
        if passages.entries and (not passed or passages.entries <= max_entries_per_step * passed):
            yield passages


def _finding(
    case: Case, process: ProcessGrowth, passages: _Passages, share: float, severity: str, so_far: Sequence[Finding]
) -> Finding:
    holders = [f for f in so_far if f.subject.pid == process.pid and f.subject.holder and not f.wasted]
    holder = max(holders, key=lambda f: f.bytes * f.confidence, default=None)
    each = format_bytes(passages.each_bytes, signed=True)
    ran = f"{passages.words} ran {passages.entries} times, {passages.seconds:.1f} s in all, and gained "
    ran += f"{format_bytes(passages.gained_bytes)}; the process gained {format_bytes(passages.of_bytes)} meanwhile, "
    ran += "without what allocators keep free"
    held = Evidence(f"what is left behind is held by {holder.subject.holder}") if holder is not None else None
    line = stays_at(case.growth, process, case.sources) if holder is None else None
    made_at = line.place if line is not None else ""
    return case.finding(
        KIND,
        f"{passages.words.capitalize()} leaves memory behind: {each} in each {passages.words}, {_comes_back(share)}",
        # Whoever names the variable is the answer; this says when it happens.
        severity="warning" if holder is not None else severity,
        grounds=[Ground(f"{min(share, 1.0):.0%} of what stays came there", graded(share, NEUTRAL, SURE))],
        bytes=min(passages.gained_bytes, process.growth_bytes),
        process=process,
        subject=holder.subject if holder is not None else None,
        line=line,
        evidence=[
            Evidence(ran, {**passages.figures, "process_growth_bytes": process.growth_bytes}),
            held,
            grew_at(line) if line is not None else None,
        ],
        doubts=[None if holder is not None else "no variable was found that holds the memory left behind"],
        remedy=holder.remedy if holder is not None else [f"see what keeps what {made_at} makes"] if line else [],
        series=[passages.series],
    )


def _comes_back(share: float) -> str:
    """``share``: what the phase gained over what the process gained; above 1 other phases gave some of it back."""
    returned = 1.0 - 1.0 / share if share > 1.0 else 0.0
    return "none of it comes back" if returned < SOME else f"{returned:.0%} of it comes back later"


def _innocent(process: ProcessGrowth, passages: _Passages, share: float) -> str:
    peak = format_bytes(passages.peak_bytes)
    if passages.gained_bytes <= SOME * passages.peak_bytes * max(passages.entries, 1):
        times = "" if passages.entries == 1 else f", {passages.entries} times"
        return f"{passages.words} raised memory by up to {peak} and gave it back{times}"
    kept = format_bytes(passages.each_bytes, signed=True)
    part = f"{max(share, 0):.0%} of what {process.name} gained and has not freed"
    part = _comes_back(share) if share > 1.0 else part  # other phases gave some of it back
    times = "once" if passages.entries == 1 else f"in each of {passages.entries} runs"
    return f"{passages.words}: {kept} {times}, {part}"
