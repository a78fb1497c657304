"""What is to be seen of a run at this moment, from the rows of its tables as they come."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import cast

from ..recorder.figures import STARTING_S, STEADY_WINDOW_S, Figures
from ..recorder.limits import Limits
from ..recorder.peaks import Held, Peak, own_peak
from ..recorder.tree import Memory, Tree
from ..schema import ROLES
from ..signals import signal_name
from ..units import COUNTS_NOTE, EXIT_NOTE, STEP, STEP_UNITS
from .chart import FILLS, Course
from .cursor import Row
from .history import History
from .holders import HOLDERS, Holders, Process
from .holders import TABLES as GRAPH_TABLES

_CPU_WINDOW_S = 2.0  # the kernel counts CPU time in ticks of 10 ms
_PACE_WINDOW_S = 60.0
_FORECAST_S = 1.5 * STEADY_WINDOW_S  # how far back rows matter for a limit
_ROUND_S = 0.2  # the processes of one round are read within
_REMEMBERED_S = 10.0  # after a process died: a job's launcher and shell end a little later than its training
_GONE_S = 30.0  # processes on GPUs
_MOST_GPUS = 1024  # with the processes on them
_MOST_EVENTS = 50
_SHOWN_EVENTS = ("alert", "pressure", "oom-kill-counter", "output-lost", "source-failed")
_PARTS_OF_A_ROUND = ("process_samples", "host_samples", "cgroup_samples", "limit_samples", "gpu_samples")
_ACCOUNTS = {name: len(FILLS) - at for at, name in enumerate(FILLS)}  # where each stands in ``Scene.accounts``
TABLES = (
    *_PARTS_OF_A_ROUND, "processes", "sentinels", "marks", "takes", "events", "crash_text", "sources",
    "agent_notes", *GRAPH_TABLES, HOLDERS,
)  # fmt: skip


@dataclass
class Member(Memory):
    """One process as last seen. ``cpu_fraction`` is of one core."""

    pid: int
    role: str = "other"
    program: str = "?"
    is_root: bool = False
    died: bool = False
    first_s: float | None = None
    last_s: float = 0.0
    first_bytes: int = 0
    peak_bytes: int = 0
    thread_count: int = 0
    cpu_fraction: float | None = None
    history: History[int] = field(default_factory=History)
    _cpu_from: tuple[float, float] | None = None

    @property
    def name(self) -> str:
        """``train.py``, ``train.py (dataloader-worker)``, as findings have it: the main process needs no role."""
        return self.program if self.role == "trainer" else f"{self.program} ({ROLES.get(self.role, self.role)})"

    @property
    def growth_bytes(self) -> int:
        return self.held_bytes - self.first_bytes

    def look_at(self, now_s: float, sample: Row) -> None:
        self.rss_bytes = sample.get("rss_bytes") or 0
        self.file_bytes, self.swap_bytes = sample.get("file_bytes") or 0, sample.get("swap_bytes") or 0
        if sample.get("pss_bytes") is not None:
            self.pss_bytes, self.pss_rss_bytes = sample["pss_bytes"], self.rss_bytes
        if sample.get("pss_anon_bytes") is not None and self.pss_bytes is not None:  # a reading that was not moved on
            others = sample["pss_anon_bytes"] + (sample.get("shmem_bytes") or 0)
            self.pss_file_bytes, self.pss_file_rss_bytes = max(0, self.pss_bytes - others), self.file_bytes
        self.thread_count = sample.get("thread_count") or 0
        self.last_s = now_s
        self.peak_bytes = max(self.peak_bytes, self.held_bytes)
        self.history.add(now_s, self.held_bytes)
        if self.first_s is None:
            self.first_s = now_s
        if now_s - self.first_s < STARTING_S:
            self.first_bytes = self.held_bytes
        cpu_s = sample.get("cpu_s")
        if cpu_s is None:
            return
        if self._cpu_from is None:
            self._cpu_from = now_s, cpu_s
        elif now_s - self._cpu_from[0] >= _CPU_WINDOW_S:
            from_s, from_cpu_s = self._cpu_from
            self.cpu_fraction = max(0.0, cpu_s - from_cpu_s) / (now_s - from_s)
            self._cpu_from = now_s, cpu_s


class Pace:
    """The training steps of one process. ``per_s`` is over the last minute."""

    def __init__(self) -> None:
        self._readings: deque[tuple[float, int]] = deque()

    def add(self, now_s: float, step: int) -> None:
        self._readings.append((now_s, step))
        while self._readings[0][0] < now_s - _PACE_WINDOW_S:
            self._readings.popleft()

    @property
    def step(self) -> int:
        return self._readings[-1][1]

    @property
    def per_s(self) -> float | None:
        (first_s, first), (last_s, last) = self._readings[0], self._readings[-1]
        return (last - first) / (last_s - first_s) if last_s > first_s and last >= first else None


@dataclass(frozen=True)
class Gpu:
    """Memory of a device, or of one process on it, as last seen. ``total_bytes`` None: of a process."""

    seen_s: float
    index: int
    name: str
    pid: int | None
    used_bytes: int
    total_bytes: int | None
    is_ours: bool = False  # of a process: it is the job's


@dataclass(frozen=True)
class Event:
    """One line about something that went wrong or was to be told."""

    at_s: float
    text: str


@dataclass
class Scene:
    """The state that a frame is made of. Times are seconds since the recording began."""

    start_mono_ns: int | None = None  # None: the first row is the beginning
    now_s: float = 0.0
    ending_text: str | None = None
    step_unit: str = STEP  # what a step is, as an agent said it
    members: dict[Process, Member] = field(default_factory=dict)
    paces: dict[Process, Pace] = field(default_factory=dict)
    events: deque[Event] = field(default_factory=lambda: deque(maxlen=_MOST_EVENTS))
    figures: Figures = field(default_factory=Figures)
    limits: Limits = field(default_factory=Limits)
    accounts: History[tuple[int, ...]] = field(default_factory=History)  # all of it, then ``_ACCOUNTS``
    gpus: dict[tuple[str, int | None], Gpu] = field(default_factory=dict)
    holders: Holders = field(default_factory=Holders)
    _weighed: dict[Process, dict[str, int]] = field(default_factory=dict)  # at the newest snapshot, bytes by account
    _dead: deque[tuple[float, Process]] = field(default_factory=deque)
    _round: dict[str, list[Row]] = field(default_factory=dict)
    _round_keys: set[tuple[object, ...]] = field(default_factory=set)
    _cgroups: dict[str, None] = field(default_factory=dict)
    _leaving: set[Process] = field(default_factory=set)  # what they hold while they shut down, reports leave out
    _peak_text: str | None = None  # as the recorder told it at the end
    _held: list[Held] = field(default_factory=list)

    @property
    def peak_text(self) -> str:
        """Of the job's own memory, as the report has it: without what snapshots took for a moment."""
        return self._peak_text or self.peak.text

    @property
    def peak(self) -> Peak:
        """As ``peak_text`` has it until the end; never below what is told of this moment."""
        own, now_bytes = own_peak(self.figures.highest, self._held, self.figures.last), self.figures.last_bytes
        return own if own.size_bytes >= now_bytes else Peak(now_bytes)

    def __iter__(self) -> Iterator[Member]:
        """The living processes that have been sampled."""
        return (member for member in self.members.values() if not member.died and member.first_s is not None)

    def last_alive(self) -> list[Member]:
        """The processes of the last round of samples that had any."""
        sampled = [member for member in self.members.values() if member.first_s is not None]
        last_s = max((member.last_s for member in sampled), default=0.0)
        return [member for member in sampled if member.last_s > last_s - _ROUND_S]

    def take_in(self, rows: Iterable[tuple[str, Row]]) -> bool:
        """Rows that came together, in any order; whether there were any."""
        dated = [(time_ns, table, row) for table, row in rows if type(time_ns := row.get("time_mono_ns")) is int]
        if not dated:
            return False
        dated.sort(key=lambda each: each[0])
        if self.start_mono_ns is None:
            self.start_mono_ns = dated[0][0]
        end_s = self._seconds(dated[-1][0])
        for time_ns, table, row in sorted(dated, key=lambda each: (each[0], each[1] == "takes")):  # after its graph
            if table in TABLES:
                self._take_in(table, row, self._seconds(time_ns), end_s)
        self._close_round(end_s)
        return True

    def fastest(self) -> Pace | None:
        """The process that is farthest: of several ranks any will do."""
        return max(self.paces.values(), key=lambda pace: pace.step, default=None)

    def _seconds(self, time_ns: int) -> float:
        return (time_ns - (self.start_mono_ns or 0)) / 1e9

    def _take_in(self, table: str, row: Row, now_s: float, end_s: float) -> None:
        process = row.get("pid") or 0, row.get("start_ticks") or 0
        if table == "heap_graphs" and row.get("retained_bytes") is not None:
            self._weigh(process, row)
        if table in _PARTS_OF_A_ROUND:
            key = table, *process, row.get("cgroup"), row.get("limit_name"), row.get("gpu_uuid")
            if key in self._round_keys:  # it comes a second time: a new round of samples has begun
                self._close_round(end_s)
            self._round_keys.add(key)
            self._round.setdefault(table, []).append(row)
            self.now_s = max(self.now_s, now_s)
            if table == "process_samples" and process not in self._leaving:
                self._member(process).look_at(now_s, row)
            elif table == "gpu_samples":
                self._look_at_gpu(now_s, row)
        elif table == "processes":
            if row.get("died_mono_ns") is not None:
                self._close_round(end_s)  # in which it was still alive
            self._describe(process, row, now_s)
        elif table == "takes" and row.get("take") is not None:
            self.holders.add_take(process, row, now_s)
        elif table in GRAPH_TABLES and row.get("take") is not None:
            self.holders.add_graph(process, table, row)
            if row.get("held_s") is not None:
                self._held.append(Held(now_s, now_s + row["held_s"], row.get("reading_bytes")))
        elif table == "sources":
            self.holders.add_source(row)
        elif table == HOLDERS:
            self.holders.tell(process, row["take"], row["holders"])
        elif table == "events":
            self._note(row, now_s)
        elif table == "agent_notes":
            if row.get("note") == COUNTS_NOTE:
                self.step_unit = STEP_UNITS.get(row.get("text") or "", self.step_unit)
            elif row.get("note") == EXIT_NOTE:
                self._leaving.add(process)
        elif table == "crash_text":
            lines = (row.get("last_words") or "").strip().splitlines()
            text = lines[-1] if lines else row.get("exception_type") or "crashed"
            self.events.append(Event(now_s, f"process {process[0]}: {text}"))
        if table in ("sentinels", "takes", "marks") and row.get("step") is not None:
            self.paces.setdefault(process, Pace()).add(now_s, row["step"])

    def course(self) -> Course:
        """What is to be drawn of memory over time."""
        nearest = self.limits.nearest
        room = nearest.room_bytes if nearest is not None and nearest.is_memory else None
        goes_on = self.ending_text is None
        return Course(
            {name: [sizes[at] for sizes in self.accounts.values] for name, at in _ACCOUNTS.items()},
            self.accounts.seconds,
            room if goes_on else None,
            self.figures.steady_bytes_per_s if goes_on else None,
        )

    def _weigh(self, process: Process, row: Row) -> None:
        tensors = row.get("storage_bytes") or 0
        self._weighed[process] = {
            "tensors": tensors,
            "held by objects": max(0, (row.get("retained_bytes") or 0) - tensors),
        }

    def _divide(self, total_bytes: int) -> None:
        """As much of the job's memory as the newest snapshots account for; the rest is other."""
        alive = {process for process, member in self.members.items() if not member.died}
        left, parts = total_bytes, []
        for name in ("tensors", "held by objects"):
            known = sum(own.get(name, 0) for process, own in self._weighed.items() if process in alive)
            parts.append(min(known, left))
            left -= parts[-1]
        self.accounts.add(self.now_s, (total_bytes, *parts, left))

    def present_gpus(self) -> list[Gpu]:
        """Each device, and after it the processes on it, the largest first."""
        present = {key: gpu for key, gpu in self.gpus.items() if gpu.seen_s > self.now_s - _REMEMBERED_S}
        order = sorted(present, key=lambda key: (key[0], key[1] is not None, -present[key].used_bytes))
        return [present[key] for key in order]

    def _look_at_gpu(self, now_s: float, row: Row) -> None:
        pid, used_bytes = row.get("pid"), row.get("gpu_used_bytes")
        index = row.get("gpu_index") or 0
        device = f"gpu:{index}"
        key = row.get("gpu_uuid") or device, pid
        if used_bytes is None or (pid is None and key not in self.gpus and len(self.gpus) >= _MOST_GPUS):
            return
        if pid is None:  # who came and went on it
            self.gpus = {one: gpu for one, gpu in self.gpus.items() if not gpu.pid or gpu.seen_s > now_s - _GONE_S}
        name = device if pid is not None else f"{device} {row.get('gpu_name') or ''}".strip()
        total_bytes = row.get("gpu_total_bytes") if pid is None else None
        self.gpus[key] = Gpu(now_s, index, name, pid, used_bytes, total_bytes, bool(row.get("is_ours")))

    def _member(self, process: Process) -> Member:
        return self.members.setdefault(process, Member(process[0]))

    def _describe(self, process: Process, row: Row, now_s: float) -> None:
        member = self._member(process)
        member.role, member.is_root = row.get("role") or "other", bool(row.get("is_root"))
        member.program = program_of(row.get("cmdline") or "", row.get("comm") or "?")
        if row.get("cgroup"):
            self._cgroups[row["cgroup"]] = None
        if row.get("died_mono_ns") is None or member.died:
            return
        member.died = True
        self._dead.append((now_s, process))
        if row.get("exit_signal") is not None and not member.is_root:
            ended_by = f"{member.name} [{member.pid}] was ended by {signal_name(row['exit_signal'])}"
            self.events.append(Event(now_s, ended_by))

    def _note(self, row: Row, now_s: float) -> None:
        event, text = row.get("event"), row.get("text") or ""
        if event == "end":
            self.ending_text = text
            self.now_s = max(self.now_s, now_s)
        elif event == "peak":
            self._peak_text = text
        elif event in _SHOWN_EVENTS:
            self.events.append(Event(now_s, f"{event}: {text}"))

    def _close_round(self, end_s: float) -> None:
        """What follows from the samples of one instant; for limits only if it is not long past: that is dear."""
        found, self._round = self._round, {}
        self._round_keys.clear()
        while self._dead and self._dead[0][0] < self.now_s - _REMEMBERED_S:
            _, process = self._dead.popleft()
            self.members.pop(process, None)
            self.paces.pop(process, None)
            self.holders.forget(process)
            self._weighed.pop(process, None)
        if not found:
            return
        if "process_samples" in found:
            # Of a tree, Figures asks for now_s and the memory of each process: a scene has both.
            self.figures.look_at(cast("Tree", self))
            self._divide(self.figures.last_bytes)
        if self.now_s >= end_s - _FORECAST_S:
            self.limits.look_at(
                found.get("host_samples", []),
                found.get("cgroup_samples", []),
                found.get("limit_samples", ()),
                found.get("gpu_samples", ()),
                now_s=self.now_s,
                own_cgroups=self._cgroups,
                job=self.figures.course,
            )


def program_of(command_line: str, comm: str) -> str:
    """The script or module that an interpreter runs, else the name the kernel shows."""
    words: Sequence[str] = command_line.split()
    for before, word in zip(words, words[1:]):
        if word.endswith(".py"):
            return os.path.basename(word)
        if before == "-m":
            return word
    return comm
