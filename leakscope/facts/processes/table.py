"""The processes of a recording: who was born, who died, what each was for, how busy it was, what it really cost.

Resident memory cannot be added up: each process counts the pages it shares with others in full. What can be added up
is the proportional set size (PSS); what ending a process frees is its private memory.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...findings import ProcessRow
from ...signals import Signal
from ...storage import Recording, Row, Rows
from ...units import FEWEST, HARDLY, over
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from ..series.arithmetic import Floats, level_at
from ..tables import by_process, cells, int_of, only, process_names, records, series, text_of

IDLE_SHARE = HARDLY  # of a core: a worker that waits in a poll loop uses less
_TICK_S = 0.02  # CPU time is counted in ticks, and a look of ours takes one or two
_SHOWN = 12
_TOLD = (
    "pid", "start_ticks", "time_s", "time_mono_ns", "ppid", "ns_pid", "cmdline", "comm", "role", "cgroup", "is_root",
    "rank", "born_mono_ns", "died_mono_ns", "exit_code", "exit_signal",
)  # fmt: skip
DATALOADER_WORKER, COMPILE_WORKER, POOL_WORKER = "dataloader-worker", "compile-worker", "pool-worker"
SPAWNED = "python-spawn"
# By what the agent in a forked child says of who forked it.
_FORKED_BY = {"datasets": "datasets-worker", "a DataLoader": DATALOADER_WORKER, "a pool": POOL_WORKER}
_FORKS = ("python-fork", *_FORKED_BY.values())


@dataclass(frozen=True, eq=False)
class Process:
    """One process over its life. ``died_s`` is infinite while it lives; ``growth`` None: it left no memory sample.

    ``samples`` are its rows of ``process_samples``, by time. ``exit_code`` and ``exit_signal`` None: nobody saw how it
    ended.
    """

    pid: int
    start_ticks: int
    ns_pid: int | None  # how it knows itself, in a container
    ppid: int
    name: str
    role: str
    command: str
    comm: str | None
    cgroup: str | None
    is_root: bool
    rank: int | None
    born_s: float
    died_s: float
    exit_code: int | None
    exit_signal: int | None
    samples: Rows
    growth: ProcessGrowth | None

    @property
    def label(self) -> str:
        return f"{self.name}[{self.pid}]"

    @property
    def was_sigkilled(self) -> bool:
        return self.exit_signal == Signal.SIGKILL

    @property
    def ended_unseen(self) -> bool:
        return self.died_s != float("inf") and self.exit_code is None and self.exit_signal is None

    @cached_property
    def last(self) -> Row | None:
        """Its last sample with memory: one that is exiting shows as empty."""
        known = only(self.samples, self.samples["rss_bytes"].fillna(0) > 0)
        return known.iloc[-1] if len(known) else None

    @property
    def anon_bytes(self) -> int | None:
        """At last, as the two below."""
        return int_of(self.last, "anon_bytes")

    @property
    def held_bytes(self) -> int | None:
        """What it did not share with files: private and shared memory; all of it where the parts are not known."""
        shared = int_of(self.last, "shmem_bytes") or 0
        return int_of(self.last, "rss_bytes") if self.anon_bytes is None else self.anon_bytes + shared

    @property
    def virtual_bytes(self) -> int | None:
        return int_of(self.last, "virtual_bytes")

    @property
    def is_fork(self) -> bool:
        """A copy of its parent's memory: it shares pages until somebody writes to them."""
        if self.role == COMPILE_WORKER:
            return not any(
                word in self.command for word in ("_inductor", "multiprocessing.")
            )  # a sidecar's, or spawned
        return self.role in _FORKS

    def value_at(self, column: str, at_s: float) -> float:
        """A column of the samples at a moment of its life, or at the end of it that is nearer."""
        return float(self.values_at(column, np.clip([at_s], self.born_s, self.died_s))[0])

    def values_at(self, column: str, at_s: Floats) -> Floats:
        """A column at moments of its life, between two readings in a straight line; 0 before and after."""
        time_s, values = series(self.samples, column)
        if not time_s.size:
            return np.zeros_like(at_s)
        return np.where((self.born_s <= at_s) & (at_s <= self.died_s), np.interp(at_s, time_s, values), 0.0)

    def held_at(self, at_s: float) -> float:
        """Its own and its part of shared memory at a moment of its life; 0 before and after."""
        grown = self.growth
        if grown is None or not grown.time_s.size or not self.born_s <= at_s <= self.died_s:
            return 0.0
        return float(np.interp(at_s, grown.time_s, grown.held_bytes))

    def private_at(self, at_s: float, changed_s: Floats) -> float:
        """What no other shares, no more than it held; what came after the last reading is its own."""
        read_s, _ = series(self.samples, "uss_bytes")
        since_s = min(at_s, float(read_s[-1])) if read_s.size else at_s
        held = self.held_at(at_s)
        return min(held, self.share_at("uss_bytes", since_s, changed_s) + max(0.0, held - self.held_at(since_s)))

    def share_at(self, column: str, at_s: float, changed_s: Floats) -> float:
        """Like ``values_at``, in a straight line only while the same processes lived (``changed_s``: when one came or
        went): what is shared is another's part from then on.
        """
        time_s, values = series(self.samples, column)
        after = int(np.searchsorted(time_s, at_s))
        if 0 < after < time_s.size and self.born_s <= at_s <= self.died_s:
            between = changed_s[(changed_s > time_s[after - 1]) & (changed_s <= time_s[after])]
            if between.size:
                return float(values[after - 1] if between[-1] >= at_s else values[after])
        return float(self.values_at(column, np.array([at_s]))[0])

    def busy_share(self, start_s: float, end_s: float) -> float:
        """Share of a core it used between two moments."""
        used = self.value_at("cpu_s", end_s) - self.value_at("cpu_s", start_s)
        return over(max(0.0, used), end_s - start_s)

    def is_idle(self, start_s: float, end_s: float) -> bool:
        return self.busy_share(start_s, end_s) < IDLE_SHARE

    def idle_since_s(self, end_s: float) -> float:
        """Since when it has been idle, up to a moment: that moment itself where it works."""
        time_s, cpu_s = series(self.samples, "cpu_s")
        time_s, cpu_s = time_s[time_s <= end_s], self._without_looks(time_s, cpu_s)[time_s <= end_s]
        if not time_s.size:
            return end_s
        # Over so long that a share of a core is more than a few ticks: samples may come every two.
        next_at = np.searchsorted(time_s, time_s + FEWEST * _TICK_S / IDLE_SHARE)
        later = np.minimum(np.maximum(next_at, np.arange(time_s.size) + 1), time_s.size - 1)
        is_busy = cpu_s[later] - cpu_s >= IDLE_SHARE * (time_s[later] - time_s) + _TICK_S
        busy = np.flatnonzero(is_busy & (later > np.arange(time_s.size)))
        return float(time_s[later[busy[-1]]]) if busy.size else self.born_s

    def _without_looks(self, time_s: Floats, cpu_s: Floats) -> Floats:
        """CPU time without that of our snapshots, each of which takes what it cost of what comes next."""
        used = np.diff(cpu_s, prepend=cpu_s[:1])
        for taken_s, cost_s in cells(self.growth.rows("takes"), "time_s", "take_cpu_s") if self.growth else ():
            first = int(np.searchsorted(time_s, taken_s))
            for at in range(first, used.size if cost_s is not None else 0):
                ours = min(used[at], cost_s)
                used[at], cost_s = used[at] - ours, cost_s - ours
        return np.cumsum(used)


def alive_counts(some: Iterable[Process], time_s: Floats) -> Floats:
    """How many of them lived at each of these moments."""
    members = list(some)
    born, died = np.sort([p.born_s for p in members]), np.sort([p.died_s for p in members])
    alive = np.searchsorted(born, time_s, side="right") - np.searchsorted(died, time_s, side="right")
    return alive.astype(np.float64)


def gains(process: Process, start_s: float, end_s: float) -> tuple[float, float]:
    """(own, copied): bytes a process gained between two moments by pages it added, and by pages it no longer shares.

    Each side of a fork counts its own copy since then. Anonymous memory counts shared pages in full from the start, so
    copying one raises the share and not the pages.
    """
    if process.growth is None:
        return 0.0, 0.0
    start, end = (level_at(process.growth.time_s, process.growth.held_bytes, at_s) for at_s in (start_s, end_s))
    own = min(added_bytes(process, start_s, end_s), max(0.0, end - start))
    return own, max(0.0, end - start - own)


def added_bytes(process: Process, start_s: float, end_s: float) -> float:
    """Pages a process added itself between two moments."""
    pages = process.samples["anon_bytes"] + process.samples["shmem_bytes"].fillna(0)
    time_s, added = series(process.samples.assign(pages=pages), "pages")
    return max(0.0, level_at(time_s, added, end_s) - level_at(time_s, added, start_s))


def process_rows(everyone: Sequence[Process], tree: TreeGrowth) -> list[ProcessRow]:
    """One row for each role and program, those with most memory first.

    Figures are of the moment at which the whole tree held most, so that rows add up to what there was; a role that was
    not alive then shows what it had at its own most.
    """
    groups: dict[tuple[str, str], list[Process]] = defaultdict(list)
    for process in everyone:
        groups[process.role, process.name].append(process)
    # Shares of pages are read more seldom than the rest: processes may come and go after the last time.
    known = [float(tree.time_s[-1])] if tree.time_s.size else []
    known += [float(p.samples["time_s"].max()) for p in everyone if len(p.samples)]
    known += [p.born_s for p in everyone]  # also of those that nobody sampled: a snapshot of a rank is all of it
    end_s = max(known + [p.died_s for p in everyone if p.died_s < float("inf")], default=0.0)
    peak_s = _most_s(tree.time_s, tree.held_bytes)
    changed_s = np.sort([at_s for p in everyone for at_s in (p.born_s, p.died_s)])
    rows = [_row(name, role, members, peak_s, end_s, changed_s) for (role, name), members in groups.items()]
    rows.sort(key=lambda row: (-row.held_bytes, -row.count, row.process))
    return rows[:_SHOWN]


def _most_s(time_s: Floats, values: Floats) -> float:
    return float(time_s[int(np.argmax(values))]) if time_s.size else 0.0


def _own_peak_s(members: Sequence[Process]) -> float:
    """The moment at which they together had most resident memory."""
    read = [series(process.samples, "rss_bytes")[0] for process in members]
    time_s = np.unique(np.concatenate(read)) if read else np.empty(0)
    return _most_s(time_s, np.sum([process.values_at("rss_bytes", time_s) for process in members], axis=0))


def _row(name: str, role: str, members: list[Process], peak_s: float, end_s: float, changed_s: Floats) -> ProcessRow:
    at_s = peak_s if any(p.born_s <= peak_s <= p.died_s for p in members) else _own_peak_s(members)
    first_s, last_s = min(p.born_s for p in members), min(end_s, max(p.died_s for p in members))

    def total(column: str) -> int:
        return round(sum(p.share_at(column, at_s, changed_s) for p in members))

    lives = [min(p.died_s, end_s) - p.born_s for p in members]
    busy_s = sum(p.value_at("cpu_s", min(p.died_s, end_s)) for p in members)
    return ProcessRow(
        process=name,
        role=role,
        count=len(members),
        most_at_once=int(alive_counts(members, np.array([p.born_s for p in members])).max()),
        lifetime_s=round(float(np.median(lives)), 1),
        busy_share=round(over(busy_s, sum(lives)), 4),
        pss_bytes=total("pss_bytes"),
        private_bytes=round(sum(p.private_at(at_s, changed_s) for p in members)),
        rss_bytes=total("rss_bytes"),
        thread_count=total("thread_count"),
        fd_count=total("fd_count"),
        first_s=round(first_s, 1),
        last_s=round(last_s, 1),
        held_bytes=round(sum(p.held_at(at_s) for p in members)),
    )


def processes(recording: Recording, growth: TreeGrowth) -> list[Process]:
    """Every process of the tree, by birth."""
    told = _roles_told(recording)
    grown = {(p.pid, p.start_ticks): p for p in growth.processes}
    found = []
    samples = dict(by_process(recording.rows["process_samples"]))
    none = recording.rows["process_samples"].iloc[:0]
    rows = records(recording.rows["processes"], *_TOLD)
    names = process_names(rows)
    for row in rows:
        key = int_of(row, "pid") or 0, int_of(row, "start_ticks") or 0
        born_s = _seconds(row, "born_mono_ns", 0.0)
        found.append(
            Process(
                pid=key[0],
                start_ticks=key[1],
                ns_pid=int_of(row, "ns_pid"),
                ppid=int_of(row, "ppid") or 0,
                name=names[key],
                role=told.get(int_of(row, "ns_pid") or key[0]) or told.get(key[0]) or text_of(row, "role") or "other",
                command=text_of(row, "cmdline") or text_of(row, "comm") or "",
                comm=text_of(row, "comm"),
                cgroup=text_of(row, "cgroup"),
                is_root=bool(row["is_root"]),
                rank=int_of(row, "rank"),
                born_s=born_s,
                died_s=_seconds(row, "died_mono_ns", float("inf")),
                exit_code=int_of(row, "exit_code"),
                exit_signal=int_of(row, "exit_signal"),
                samples=samples.get(key, none),
                growth=grown.get(key),
            )
        )
    return sorted(found, key=lambda process: (process.born_s, process.pid))


def _roles_told(recording: Recording) -> dict[int, str]:
    """Roles of forks that only their parent knows, by pid as the job sees it."""
    told: dict[int, str] = {}
    notes = recording.rows["agent_notes"]
    for pid, note, text in cells(notes, "pid", "note", "text"):
        by = str(text).partition(":")[0].removeprefix("forked by ")
        if note == "forked" and by in _FORKED_BY:
            told[int(pid)] = _FORKED_BY[by]
    tables = (
        ("loaders", "worker_pids", DATALOADER_WORKER),
        ("compile_counters", "compile_worker_pids", COMPILE_WORKER),
    )
    for table, column, role in tables:
        for (text,) in dict.fromkeys(cells(recording.rows[table], column)):
            told.update({int(pid): role for pid in str(text).split(",") if pid.isascii() and pid.isdigit()})
    return told


def _seconds(row: Row, column: str, unknown: float) -> float:
    """A monotonic clock of a row as seconds since the recording began; the row's own time says when that was."""
    at_ns = int_of(row, column)
    return unknown if at_ns is None else float(row["time_s"]) + (at_ns - int(row["time_mono_ns"])) / 1e9
