"""Does the tree of processes grow without end: the question every growth finding starts from.

One judge goes through the views of its memory: the first that shows growth is believed, and without one the plain view.
Then it asks what speaks against that: nobody can tell where growth may end by itself, or where a holder rises in memory
that stands. A new view is one more in ``views``, a new doubt one more of a view.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ...findings import RuledOut, Skipped
from ...units import MOST
from ..series.arithmetic import Floats
from ..series.trend import CANNOT_TELL, FLAT, GROWING, Trend
from .doubts import rising
from .job import Job, job_of
from .processes import ProcessGrowth, process_growths
from .views import View, views

if TYPE_CHECKING:
    from ...storage import Recording

_LEAKING = {GROWING: True, FLAT: False, CANNOT_TELL: None}
_NO_SAMPLES = Trend(CANNOT_TELL, "no memory samples in this recording")


@dataclass(frozen=True, eq=False)
class TreeGrowth:
    """The tree as a whole. ``leaking`` is True, False, or None with the ``reason`` why nobody can tell.

    ``processes`` are ordered by what they gained between ``start_s`` and ``end_s``, the most first.
    """

    leaking: bool | None
    reason: str
    trend: Trend
    start_s: float
    end_s: float
    growth_bytes: int
    time_s: Floats
    held_bytes: Floats
    processes: tuple[ProcessGrowth, ...] = field(default=())

    @property
    def main(self) -> ProcessGrowth | None:
        """The process that gained most."""
        return self.processes[0] if self.processes else None

    @property
    def growth_bytes_per_hour(self) -> float:
        return self.growth_bytes / max(self.end_s - self.start_s, 1e-9) * 3600

    def process(self, pid: int) -> ProcessGrowth | None:
        """The process with this pid that gained most."""
        return next((p for p in self.processes if p.pid == pid), None)


def tree_growth(recording: Recording) -> TreeGrowth:
    """Trends of every process and of their sum, and the verdict on them."""
    processes = process_growths(recording)
    if not processes:
        nothing = np.empty(0)
        return TreeGrowth(None, _NO_SAMPLES.reason, _NO_SAMPLES, 0.0, 0.0, 0, nothing, nothing)
    job = job_of(recording, processes)
    looks = views(job)
    plain = next(looks)
    view = plain if plain.trend.verdict == GROWING else next((v for v in looks if v.trend.verdict == GROWING), plain)
    window_s = (view.trend.start_s, view.trend.end_s)
    measured = _measured(job, view)
    growth = sum(p.growth_bytes for p in measured)
    leaking, reason = _LEAKING[view.trend.verdict], view.trend.reason
    if (doubt := _doubt(recording, job, view, measured[0], growth)) is not None:
        leaking, reason = None, doubt
    return TreeGrowth(leaking, reason, plain.trend, *window_s, growth, job.time_s, job.held_bytes, tuple(measured))


def _measured(job: Job, view: View) -> list[ProcessGrowth]:
    """The processes with what each gained in the window of the view, the most first."""
    window_s = (view.trend.start_s, view.trend.end_s)
    hidden_bytes = view.trend.growth_bytes
    measured = [
        replace(p, growth_bytes=hidden_bytes, is_hidden=True) if p is view.in_use_of else p.within(*window_s)
        for p in job.processes
    ]
    return sorted(measured, key=lambda p: (-p.growth_bytes, p.pid))


def _doubt(recording: Recording, job: Job, view: View, main: ProcessGrowth, growth_bytes: int) -> str | None:
    """What speaks against the verdict of a view. Growth of many processes does not end with that of the main one."""
    if view.trend.verdict == FLAT:
        return rising(recording, job.worker, (float(job.time_s[0]), float(job.time_s[-1])))
    if view.trend.verdict != GROWING or main.growth_bytes < MOST * growth_bytes:
        return None
    window_s = (view.trend.start_s, view.trend.end_s)
    return next((doubt for may_end in view.may_end if (doubt := may_end(recording, main, window_s)) is not None), None)


def no_growth(kind: str, growth: TreeGrowth) -> RuledOut | Skipped:
    """What a growth analyzer answers when the tree does not grow, or nobody can tell."""
    if growth.leaking is None:
        return Skipped(kind, growth.reason)
    figures = {"growth_bytes": growth.growth_bytes, "window_s": round(growth.end_s - growth.start_s, 1)}
    return RuledOut(kind, f"memory does not keep growing: {growth.reason}", figures)


def severity_of(growth: TreeGrowth, bytes: int, *, critical_share: float = 0.5) -> str:
    """``critical`` for what explains half of a growing tree or more, ``warning`` for less."""
    return "critical" if growth.leaking and bytes >= critical_share * growth.growth_bytes else "warning"
