"""The memory of a job while it was at work: all its processes added up, in the rounds of the recorder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...signals import Signal
from ...storage import Recording, Rows
from ...units import MOST, MUCH, NEARLY_ALL
from ..series.arithmetic import Floats
from ..tables import cells
from .processes import ProcessGrowth, alive_in, rounds_of

_NOT_REGAINED = NEARLY_ALL  # of what there was before a kill: less, and nobody went on with the work


@dataclass(frozen=True, eq=False)
class Job:
    """The tree's ``held_bytes`` at ``time_s``, before anything ended it or it took itself down.

    ``worker`` is the process that holds most when it is last seen: its steps and its end are those of the job.
    ``is_over``: it ended, as far as the recording says.
    """

    processes: Sequence[ProcessGrowth]
    worker: ProcessGrowth
    time_s: Floats
    held_bytes: Floats
    is_over: bool = True

    @property
    def begun_s(self) -> float | None:
        """When the first line of a program of it was about to run, as far as agents said so."""
        return min((p.begun_s for p in self.processes if p.begun_s is not None), default=None)


def job_of(recording: Recording, processes: Sequence[ProcessGrowth]) -> Job:
    """**Errors** ValueError where there is no process."""
    worker = max(processes, key=lambda p: float(p.held_bytes[-1]))
    time_s, held = _sum(processes)
    is_over = not (recording.goes_on and worker.is_in(time_s, float(time_s[-1])))
    killed_s = _killed_s(recording.rows["processes"], processes, time_s, held)
    ended_s = min(worker.exit_s, killed_s, _taken_down_s(processes, time_s, held) if is_over else float("inf"))
    at_work = time_s <= ended_s
    if at_work.sum() >= 2:
        time_s, held = time_s[at_work], held[at_work]
    return Job(processes, worker, time_s, held, is_over)


def _sum(processes: Sequence[ProcessGrowth]) -> tuple[Floats, Floats]:
    time_s = rounds_of(processes)
    held = np.zeros_like(time_s)
    for p in processes:
        alive = alive_in(p, time_s)
        held[alive] += np.interp(time_s[alive], p.time_s, p.held_bytes)
    return time_s, held


def _killed_s(table: Rows, processes: Sequence[ProcessGrowth], time_s: Floats, held: Floats) -> float:
    """When SIGKILL took the process with most of the memory for good: what comes after says nothing about a leak.

    Infinite where that did not happen, or where memory came back: workers that are killed and started again.
    """
    ends = cells(table, "pid", "start_ticks", "exit_signal")
    keys = {(pid, ticks or 0) for pid, ticks, number in ends if number == Signal.SIGKILL and pid is not None}
    for process in sorted(processes, key=lambda p: float(p.time_s[-1])):
        end_s = float(process.time_s[-1])
        before = float(
            held[time_s <= end_s][-1:].max(initial=0.0)
        )  # of one that was read once, between two rounds: none
        was_most = (process.pid, process.start_ticks) in keys and process.held_bytes[-1] >= MOST * before
        if was_most and held[time_s > end_s].max(initial=0.0) < _NOT_REGAINED * before:
            return end_s
    return float("inf")


def _taken_down_s(processes: Sequence[ProcessGrowth], time_s: Floats, held: Floats) -> float:
    """When a job of several processes began to end them, late in its time, and memory went with them for good.

    Infinite where it did not: what one process gives back of its own is part of its work.
    """
    last_s = float(time_s[np.flatnonzero(held >= _NOT_REGAINED * held.max())[-1]])
    ends_s = [float(p.time_s[-1]) for p in processes if last_s <= p.time_s[-1] < time_s[-1]]
    is_late = last_s >= time_s[-1] - MUCH * (time_s[-1] - time_s[0])
    is_gone = bool(ends_s) and held[time_s > min(ends_s)].max() < MOST * held.max()
    return last_s if is_late and is_gone else float("inf")
