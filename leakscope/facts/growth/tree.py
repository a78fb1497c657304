"""Does the tree of processes grow without end: the question every growth finding starts from.

Judges are asked in order; the first who sees growth is believed. Where that is mostly the growth of one process, brakes
are asked whether it may have an end: then nobody can tell. A new judge or brake is one entry in its list. Nor can
anybody tell where no judge sees growth, but one holder rises all the time.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from ...findings import RuledOut, Skipped
from ..series.arithmetic import Floats
from ..series.trend import CANNOT_TELL, FLAT, Trend
from .bounded import bounded
from .by_process import by_process
from .by_step import by_step
from .by_time import by_time
from .hidden import hidden
from .processes import ProcessGrowth, process_growths
from .question import Opinion, Question, question_of
from .rising import rising
from .slack import settling

if TYPE_CHECKING:
    from ...storage import Recording

Judge = Callable[[Question], "Opinion | None"]
Brake = Callable[["Recording", ProcessGrowth, "tuple[float, float]"], "str | None"]

JUDGES: tuple[Judge, ...] = (by_time, by_process, by_step, hidden)
BRAKES: tuple[Brake, ...] = (bounded, settling)

_MOSTLY = 0.5  # of the tree's growth: less, and that of one process may end while the tree goes on
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
    question = question_of(recording, processes)
    trend = question.trend
    opinion = next((opinion for judge in JUDGES if (opinion := judge(question)) is not None), None)
    window_s = (trend.start_s, trend.end_s) if opinion is None else (opinion.start_s, opinion.end_s)
    measured = _measured(question, opinion, window_s)
    growth = sum(p.growth_bytes for p in measured)
    leaking: bool | None
    if opinion is None:
        hint = rising(recording, question) if trend.verdict == FLAT else None
        leaking = False if trend.verdict == FLAT and hint is None else None
        reason = hint or trend.reason
    else:
        doubt = _doubt(recording, opinion, measured[0], growth)
        leaking, reason = (True, opinion.reason) if doubt is None else (None, doubt)
    return TreeGrowth(leaking, reason, trend, *window_s, growth, question.time_s, question.held_bytes, tuple(measured))


def _measured(question: Question, opinion: Opinion | None, window_s: tuple[float, float]) -> list[ProcessGrowth]:
    """The processes with what each gained in the window, the most first."""
    measured = {id(p): p.within(*window_s) for p in question.processes}
    if opinion is not None and opinion.hidden_bytes is not None:
        worker = id(question.worker)
        measured[worker] = replace(measured[worker], growth_bytes=opinion.hidden_bytes, is_hidden=True)
    return sorted(measured.values(), key=lambda p: (-p.growth_bytes, p.pid))


def _doubt(recording: Recording, opinion: Opinion, main: ProcessGrowth, growth_bytes: int) -> str | None:
    """Why growth that was seen may end by itself. What is hidden has filled no memory yet: no brake speaks of it."""
    if opinion.hidden_bytes is not None or main.growth_bytes < _MOSTLY * growth_bytes:
        return None
    window_s = (opinion.start_s, opinion.end_s)
    return next((doubt for brake in BRAKES if (doubt := brake(recording, main, window_s)) is not None), None)


def no_growth(kind: str, growth: TreeGrowth) -> RuledOut | Skipped:
    """What a growth analyzer answers when the tree does not grow, or nobody can tell."""
    if growth.leaking is None:
        return Skipped(kind, growth.reason)
    figures = {"growth_bytes": growth.growth_bytes, "window_s": round(growth.end_s - growth.start_s, 1)}
    return RuledOut(kind, f"memory does not keep growing: {growth.reason}", figures)


def severity_of(growth: TreeGrowth, bytes: int, *, critical_share: float = 0.5) -> str:
    """``critical`` for what explains half of a growing tree or more, ``warning`` for less."""
    return "critical" if growth.leaking and bytes >= critical_share * growth.growth_bytes else "warning"
