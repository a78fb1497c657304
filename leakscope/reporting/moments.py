"""What happened in a run, to be marked on its timeline: phases with their ends, snapshots, alerts, deaths."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..facts.case import Case
from ..facts.tables import cells, figures, only, process_name, records
from ..findings import Moment
from ..signals import signal_name
from ..storage import Rows
from ..units import format_duration

_MOST = 120  # of one kind
_EVENT_KINDS = {"alert": "alert", "pressure": "pressure", "oom-kill-counter": "death"}
_OF_THE_HOST = ": host"  # how the count of the whole machine ends: most of its kills are of other jobs
_SAID_ELSEWHERE = ("start", "end", "peak", "oom-kills")  # the peak is told as the run ends, and was earlier
_BETWEEN_STEPS = ("eval", "save")  # a later step means that such a phase ended, seen or not


def moments(case: Case) -> tuple[list[Moment], dict[str, int]]:
    """In their order, at most so many of a kind; and how many more there were of which kind."""
    return _bounded(sorted((*_phases(case), *_moments(case)), key=_order))


def _order(moment: Moment) -> tuple[float, str, str]:
    return moment.time_s, moment.kind, moment.text


def _phases(case: Case) -> Iterator[Moment]:
    """Each phase of each process. What goes on at a step of the user's own count is the same phase still."""
    marks = case.rows("marks")
    marks = only(marks, marks["phase"].notna() & marks["text"].isna()).sort_values("time_s")
    if not len(marks):
        return
    last_s: dict[Any, float] = {p.pid: round(float(p.time_s[-1]), 2) for p in case.growth.processes}
    for pid, own in marks.groupby("pid"):
        rows = list(_rows(own, "step", "phase"))
        first = [row for before, row in zip([None, *rows], rows) if before is None or not _goes_on(before, row)]
        for (at_s, step, phase), after in zip(first, [*first[1:], None]):
            where = f" at {case.step_unit} {step:,}" if step is not None else ""
            end_s = last_s.get(pid) if after is None else after[0] if after[2] != phase else None
            yield Moment(
                "phase", at_s, f"{phase} begins{where}", phase, max(at_s, end_s) if end_s is not None else None
            )


def _goes_on(before: tuple[Any, ...], row: tuple[Any, ...]) -> bool:
    return bool(before[2] == row[2] and (row[2] not in _BETWEEN_STEPS or before[1] == row[1]))


def _moments(case: Case) -> Iterator[Moment]:
    processes = case.rows("processes")
    names = {row["pid"]: process_name(row) for row in records(processes, "pid", "cmdline", "comm")}

    def who(pid: Any) -> str:
        return f"{names.get(pid, 'process')}[{pid}]" if pid is not None else "the job"

    for at_s, step, text in _rows(case.rows("marks"), "step", "text"):
        if text:
            yield Moment("mark", at_s, f"{text} at {case.step_unit} {step:,}" if step is not None else text)
    for at_s, pid, take, reason, took_s in _rows(case.rows("takes"), "pid", "take", "reason", "duration_s"):
        took = f", {format_duration(took_s)}" if took_s is not None else ""
        yield Moment("take", at_s, f"snapshot {take} of {who(pid)} ({reason}{took})")
    for at_s, pid, event, text in _rows(case.rows("events"), "pid", "event", "text"):
        if event and event not in _SAID_ELSEWHERE:
            counts_kills = event == "oom-kill-counter" and text
            kind = "event" if counts_kills and text.endswith(_OF_THE_HOST) else _EVENT_KINDS.get(event, "event")
            yield Moment(kind, at_s, text if counts_kills else f"{event}: {text or who(pid)}")
    for at_s, pid, number in _rows(processes, "pid", "exit_signal"):
        if number:
            yield Moment("death", at_s, f"{who(pid)} was ended by {signal_name(number)}")
    yield from _lives(case, who)


def _lives(case: Case, who: Callable[[Any], str]) -> Iterator[Moment]:
    """Births and ordinary ends of all processes but the first, as seen; who is there at the last moment goes on."""
    rows = records(case.rows("processes"), "pid", "ppid", "is_root", "exit_signal")
    parents = {row["pid"]: row["ppid"] for row in rows}
    first = {row["pid"] for row in rows if row["is_root"]}
    killed = {row["pid"] for row in rows if row["exit_signal"]}
    last_s = max((process.time_s[-1] for process in case.growth.processes), default=0.0)
    for process in case.growth.processes:
        if process.pid in first:
            continue
        parent = parents.get(process.pid)
        by = f", forked by {who(parent)}" if parent in parents else ""
        yield Moment("birth", round(float(process.time_s[0]), 2), f"{who(process.pid)} began{by}")
        if process.pid not in killed and process.time_s[-1] < last_s:
            yield Moment("end", round(float(process.time_s[-1]), 2), f"{who(process.pid)} was last seen")


def _rows(frame: Rows, *columns: str) -> Iterator[tuple[Any, ...]]:
    """Time and these columns of every row, None for what is null."""
    times = figures(frame, "time_s").round(2).tolist()
    return ((at_s, *others) for at_s, others in zip(times, cells(frame, *columns)))


def _bounded(moments: list[Moment]) -> tuple[list[Moment], dict[str, int]]:
    """At most so many of a kind, evenly chosen, the first and the last among them; and how many are not there."""
    shown: list[Moment] = []
    left_out = {}
    for kind in sorted({m.kind for m in moments}):
        own = [m for m in moments if m.kind == kind]
        if len(own) > _MOST:
            left_out[kind] = len(own) - _MOST
            own = [own[i] for i in np.linspace(0, len(own) - 1, _MOST).round().astype(int)]
        shown += own
    return sorted(shown, key=_order), left_out
