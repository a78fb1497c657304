"""Which processes of the tree grow, and does the tree as a whole: the question every growth finding starts from.

A process is judged on what it holds itself: private memory, shared memory and swap. Mapped files are left out: the
kernel takes their pages back when it needs them. Pages that several processes share are counted once, by the
proportional set size where the recorder read it; between two readings the share is interpolated.
"""

from __future__ import annotations

import shlex
import signal
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ..findings import RuledOut, Skipped
from ._growth_bounded import filling_up
from ._growth_by_step import judge_by_step
from ._growth_hidden import hidden_growth
from ._growth_slack import settling
from ._sharing import Copied, copied_by_takes, family_changes_s, shares
from ._trend import CANNOT_TELL, FLAT, GROWING, Floats, Trend, judge

if TYPE_CHECKING:
    from ..storage import Recording

_CACHE = "_tree_growth"
_SLOWED_DOWN = 0.6  # steps of the last third of the time, over those of the first
_SLOWED_A_LITTLE = 0.9  # enough where time alone cannot tell
_NOT_REGAINED = 0.75  # of what there was before a kill: less, and nobody went on with the work
_NO_SAMPLES = Trend(CANNOT_TELL, "no memory samples in this recording")


@dataclass(frozen=True, eq=False)
class ProcessGrowth:
    """One process over its life. **Units** seconds and bytes; ``held_bytes`` is what the trend judges."""

    pid: int
    start_ticks: int
    name: str
    role: str | None
    time_s: Floats
    private_bytes: Floats
    shared_bytes: Floats
    file_bytes: Floats
    trend: Trend
    growth_bytes: int = 0
    exit_s: float = float("inf")
    first_step_s: float | None = None
    is_hidden: bool = False  # ``growth_bytes`` is what came into use of memory that had been freed before

    @property
    def held_bytes(self) -> Floats:
        return self.private_bytes + self.shared_bytes

    @property
    def label(self) -> str:
        return f"{self.name}[{self.pid}]"


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


def tree_growth(recording: Recording, **thresholds: Any) -> TreeGrowth:
    """Trends of every process and of their sum; computed once per recording. ``thresholds`` go to ``_trend.judge``."""
    known: TreeGrowth | None = recording.__dict__.get(_CACHE)
    if known is None or thresholds:
        known = _tree_growth(recording, thresholds)
        recording.__dict__[_CACHE] = known
    return known


def level_at(time_s: Floats, value_bytes: Floats, at_s: float) -> float:
    """The usual value around a moment: median of the three samples nearest to it; 0 outside the life of the series."""
    if not time_s.size:
        return 0.0
    usual_gap = float(np.median(np.diff(time_s))) if time_s.size > 1 else 1.0
    if at_s < time_s[0] - 1.5 * usual_gap or at_s > time_s[-1] + 1.5 * usual_gap:
        return 0.0
    nearest = np.argsort(np.abs(time_s - at_s), kind="stable")[:3]
    return float(np.median(value_bytes[nearest]))


def _tree_growth(recording: Recording, thresholds: dict[str, Any]) -> TreeGrowth:
    steps = _first_steps_s(recording)
    families = family_changes_s(recording.tables["processes"])
    copied = copied_by_takes(recording.tables["takes"], recording.tables["processes"])
    processes = [
        _process(recording, key, rows, steps.get(key), families, copied.get(key[0], ()), thresholds)
        for key, rows in _by_process(recording)
    ]
    processes = [p for p in processes if p.time_s.size]
    if not processes:
        nothing = np.empty(0)
        return TreeGrowth(None, _NO_SAMPLES.reason, _NO_SAMPLES, 0.0, 0.0, 0, nothing, nothing)
    time_s, held = _sum(processes)
    worker = _largest_at_end(processes)
    at_work = time_s <= min(worker.exit_s, _killed_s(recording, processes, time_s, held))
    if at_work.sum() >= 2:
        time_s, held = time_s[at_work], held[at_work]
    trend = judge(time_s, held, started_s=worker.first_step_s, **thresholds)
    start_s, end_s = trend.start_s, trend.end_s
    lasting = [p for p in processes if p.trend.verdict == GROWING and _lasts(p, time_s)]
    leaking = {GROWING: True, FLAT: False, CANNOT_TELL: None}[trend.verdict]
    reason = trend.reason
    if not leaking and lasting:  # its growth hides behind other processes that shrink or come and go
        grower = max(lasting, key=lambda p: p.trend.growth_bytes)
        leaking, reason = True, f"{grower.label} {grower.trend.reason}"
        start_s, end_s = grower.trend.start_s, grower.trend.end_s
    sentinels = recording.tables["sentinels"]
    if not leaking:
        pace = _SLOWED_DOWN if leaking is False else _SLOWED_A_LITTLE
        by_step = judge_by_step(rows_of(sentinels, worker), time_s, held, pace, thresholds)
        if by_step is not None:
            leaking, reason = True, f"{by_step.reason}, counted in steps: the job slowed down"
            start_s, end_s = by_step.start_s, by_step.end_s
    hidden = None
    if not leaking:
        hidden = hidden_growth(rows_of(sentinels, worker), worker.time_s, worker.held_bytes, thresholds)
    if hidden is not None:
        leaking, reason = True, f"what is in use {hidden.reason}, in memory that had been freed before"
        start_s, end_s = hidden.start_s, hidden.end_s
    measured = [_within(p, start_s, end_s) for p in processes]
    if hidden is not None:
        at = processes.index(worker)
        measured[at] = replace(measured[at], growth_bytes=hidden.growth_bytes, is_hidden=True)
    measured.sort(key=lambda p: (-p.growth_bytes, p.pid))
    growth = sum(p.growth_bytes for p in measured)
    if leaking and hidden is None and (main := measured[0]).growth_bytes >= 0.5 * growth:
        window_s = (start_s, end_s)
        may_end = filling_up(recording, main.pid, window_s, main.growth_bytes) or settling(
            rows_of(sentinels, main), window_s, main.growth_bytes, float(main.held_bytes[-1])
        )
        leaking, reason = (True, reason) if may_end is None else (None, may_end)
    return TreeGrowth(leaking, reason, trend, start_s, end_s, growth, time_s, held, tuple(measured))


def _killed_s(recording: Recording, processes: list[ProcessGrowth], time_s: Floats, held: Floats) -> float:
    """When SIGKILL took the process with most of the memory for good: what comes after says nothing about a leak.

    Infinite where that did not happen, or where memory came back: workers that are killed and started again.
    """
    table = recording.tables["processes"]
    killed = table[table["exit_signal"].eq(signal.SIGKILL).fillna(False) & table["pid"].notna()]
    keys = set(zip(killed["pid"].astype(int), killed["start_ticks"].fillna(0).astype(int)))
    for process in sorted(processes, key=lambda p: float(p.time_s[-1])):
        end_s, before = float(process.time_s[-1]), float(held[time_s <= process.time_s[-1]][-1])
        was_most = (process.pid, process.start_ticks) in keys and process.held_bytes[-1] >= 0.5 * before
        if was_most and held[time_s > end_s].max(initial=0.0) < _NOT_REGAINED * before:
            return end_s
    return float("inf")


def _first_steps_s(recording: Recording) -> dict[tuple[int, int], float]:
    """When each process that trains made its first step, by its agent."""
    rows = recording.tables["sentinels"]
    rows = rows[rows["step"].notna() & rows["pid"].notna()]
    rows = rows.sort_values("time_s", ascending=False)  # the earliest comes last and stays
    keys = zip(rows["pid"].astype(int), rows["start_ticks"].fillna(0).astype(int))
    return dict(zip(keys, rows["time_s"].astype(float)))


def _largest_at_end(processes: list[ProcessGrowth]) -> ProcessGrowth:
    return max(processes, key=lambda p: float(p.held_bytes[-1]))


def _by_process(recording: Recording) -> list[tuple[tuple[int, int], pd.DataFrame]]:
    samples = recording.tables["process_samples"]
    samples = samples[samples["pid"].notna()]
    groups = samples.groupby(["pid", "start_ticks"], dropna=False)
    return [((int(rows["pid"].iloc[0]), int(rows["start_ticks"].fillna(0).iloc[0])), rows) for _, rows in groups]


def _process(
    recording: Recording,
    key: tuple[int, int],
    rows: pd.DataFrame,
    first_step_s: float | None,
    families: Mapping[str, Floats],
    copied: Sequence[Copied],
    thresholds: dict[str, Any],
) -> ProcessGrowth:
    known = recording.tables["processes"]
    known = known[(known["pid"] == key[0]) & (known["start_ticks"] == key[1])]
    row = known.iloc[-1] if len(known) else None
    time_s, private, shared, file = shares(rows, families.get(text_of(row, "cmdline") or ""), copied)
    exit_s = _exit_s(recording.tables["agent_notes"], key)
    at_work = time_s <= exit_s
    if at_work.sum() >= 2:  # what a program gives back while it shuts down says nothing about its life
        time_s, private, shared, file = (values[at_work] for values in (time_s, private, shared, file))
    return ProcessGrowth(
        *key,
        process_name(row),
        text_of(row, "role"),
        time_s,
        private,
        shared,
        file,
        judge(time_s, private + shared, started_s=first_step_s, **thresholds),
        exit_s=exit_s,
        first_step_s=first_step_s,
    )


def _exit_s(notes: pd.DataFrame, key: tuple[int, int]) -> float:
    """When the interpreter began to shut down, by its agent; infinite where it did not say."""
    exits = notes[notes["note"].eq("exit").fillna(False)]
    own = exits[exits["pid"].eq(key[0]).fillna(False) & (exits["start_ticks"].fillna(0) == key[1])]
    return float(own["time_s"].iloc[-1]) if len(own) else float("inf")


def process_name(row: pd.Series[Any] | None) -> str:
    """``train.py``, ``package.module`` or the command's own name, from a row of ``processes``."""
    try:
        words = shlex.split(text_of(row, "cmdline") or "")
    except ValueError:
        words = (text_of(row, "cmdline") or "").split()
    for before, word in zip(words, words[1:]):
        if before == "-m":
            return word
        if before == "-c":
            return "python -c"
        if word.endswith((".py", ".pyz")):
            return word.rsplit("/", 1)[-1]
    return text_of(row, "comm") or (words[0].rsplit("/", 1)[-1] if words else "process")


def text_of(row: pd.Series[Any] | None, column: str) -> str | None:
    """A cell as text; None where it is null or empty."""
    value = None if row is None else row[column]
    return value if isinstance(value, str) and value else None


def int_of(row: pd.Series[Any] | None, column: str) -> int | None:
    """A cell as a whole number; None where it is null (pandas' own null is neither true nor false)."""
    value = None if row is None else row[column]
    return None if value is None or pd.isna(value) else int(value)


def _sum(processes: list[ProcessGrowth]) -> tuple[Floats, Floats]:
    """The tree's series, at the sample times of the process seen longest and, before and after it, of the others."""
    longest = max(processes, key=lambda p: (p.time_s[-1] - p.time_s[0], p.time_s.size))
    first_s, last_s = longest.time_s[0] - 1, longest.time_s[-1] + 1
    beyond = [p.time_s[(p.time_s < first_s) | (p.time_s > last_s)] for p in processes]
    time_s = np.unique(np.concatenate([longest.time_s, *beyond]))
    held = np.zeros_like(time_s)
    for p in processes:
        gap = float(np.median(np.diff(p.time_s))) / 2 if p.time_s.size > 1 else 0.5
        alive = (time_s >= p.time_s[0] - gap) & (time_s <= p.time_s[-1] + gap)
        held[alive] += np.interp(time_s[alive], p.time_s, p.held_bytes)
    return time_s, held


def _lasts(process: ProcessGrowth, tree_time_s: Floats) -> bool:
    """Alive at the end and for most of the run: growth of a short-lived worker ends with the worker."""
    duration_s = tree_time_s[-1] - tree_time_s[0]
    lived_s = process.time_s[-1] - process.time_s[0]
    return bool(process.time_s[-1] >= tree_time_s[-1] - 0.1 * duration_s and lived_s >= 0.6 * duration_s)


def _within(process: ProcessGrowth, start_s: float, end_s: float) -> ProcessGrowth:
    held = process.held_bytes
    start, end = level_at(process.time_s, held, start_s), level_at(process.time_s, held, end_s)
    return replace(process, growth_bytes=round(end) - round(start))


def no_growth(kind: str, growth: TreeGrowth) -> RuledOut | Skipped:
    """What a growth analyzer answers when the tree does not grow, or nobody can tell."""
    if growth.leaking is None:
        return Skipped(kind, growth.reason)
    figures = {"growth_bytes": growth.growth_bytes, "window_s": round(growth.end_s - growth.start_s, 1)}
    return RuledOut(kind, f"memory does not keep growing: {growth.reason}", figures)


def severity_of(growth: TreeGrowth, bytes: int, *, critical_share: float = 0.5) -> str:
    """``critical`` for what explains half of a growing tree or more, ``warning`` for less."""
    return "critical" if growth.leaking and bytes >= critical_share * growth.growth_bytes else "warning"


def without_last(rows: pd.DataFrame, takes: pd.DataFrame) -> pd.DataFrame:
    """Rows of takes that saw the program at work: at its end the locals of main() are gone, which is no decline."""
    at_end = takes.loc[takes["reason"].isin(["exit", "exception"]), "take"]
    return rows[~rows["take"].isin(at_end)]


def rows_of(frame: pd.DataFrame, process: ProcessGrowth) -> pd.DataFrame:
    """The rows of one process in any table that has pid and start_ticks, by time."""
    own = frame[(frame["pid"] == process.pid) & (frame["start_ticks"].fillna(0) == process.start_ticks)]
    return own.sort_values("time_s", kind="stable")
