"""A case: one recording, and every fact that was found in it, each worked out once and when somebody asks.

Diagnoses and the report read facts here and nowhere else. A fact itself takes what it is made of as arguments, so that
data flows one way: recording, facts, diagnoses, report.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ..confidence import LIKELY, Ground, how_sure
from ..findings import Bill, Evidence, Finding, Idle, LedgerRow, Peak, Series, Subject
from ..storage import Recording, Rows, thinned
from ..units import COUNTS_NOTE, MOST, SOME, STEP, STEP_UNITS, over
from .accounts.bill import bills
from .accounts.forecast import Forecast, forecast
from .accounts.gpu import DeviceUse, Oom, all_ooms, device_uses
from .accounts.ledger import ledger
from .accounts.peak import Passing, at_most, passing_peak, peak
from .code.index import Source
from .code.recorded import sources_of
from .endings.kills import Kills, kills
from .gpu.budget import DeviceBudget
from .gpu.snapshots import device_snapshots
from .growth.limits import DEV_SHM, Limit, gpu_processes, limits, nearest
from .growth.processes import ProcessGrowth
from .growth.tree import TreeGrowth, severity_of, tree_growth
from .heap.comparable import Heap, whole_heap
from .processes.ranks import growth_of_ranks
from .processes.segments import Segments, segments_of_job, unmapped
from .processes.table import Process, processes
from .processes.teams import Team, teams
from .series.arithmetic import Floats
from .subject import About, Spot, Whose, subject_of
from .tables import cells, only

if TYPE_CHECKING:
    from typing_extensions import Unpack


_T = TypeVar("_T")


class Case:
    """What is known of one recording. **Units** bytes, and seconds since the recording began."""

    def __init__(self, recording: Recording, horizon_s: float | None = None) -> None:
        """``horizon_s``: how far ahead growth has to matter; None is a day."""
        self.horizon_s = horizon_s
        self.recording = thinned(recording)
        self._answers: dict[object, Any] = {}

    def rows(self, table: str) -> Rows:
        """All rows of a table, by process and time; those of one process: ``ProcessGrowth.rows``."""
        return self.recording.rows[table]

    def heap(self, pid: int) -> Heap:
        """All that the snapshots of a process found, by number; those that may be compared: ``heap.comparable``."""
        return whole_heap(self.recording, pid)

    @cached_property
    def step_unit(self) -> str:
        """What a step is: ``step`` of training, ``request`` of a service, ``task`` of a worker."""
        return _step_unit(self.recording)

    @cached_property
    def _judged(self) -> TreeGrowth:
        return tree_growth(self.recording, self.horizon_s)

    @cached_property
    def growth(self) -> TreeGrowth:
        """Whether the tree of processes grows, and each process over its life."""
        growth = self._judged
        # That of the job itself is its end, and says nothing of what was unclear before.
        killed = [
            k for k in (() if growth.leaking else self.kills.sure)
            if k.time_s is not None and growth.start_s <= k.time_s < growth.end_s
            and (growth.leaking is False or k.victim is None or not k.victim.is_root)
        ]  # fmt: skip
        if not killed:
            return growth
        count = f"{len(killed)} processes" if len(killed) > 1 else "a process"
        reason = f"the kernel killed {count} of the job meanwhile, and what they held went with them"
        return replace(growth, leaking=None, least_bytes_per_hour=None, reason=reason)

    @cached_property
    def rank_growth(self) -> dict[int, bool | None]:
        """Of a launcher that was recorded with its ranks: which of them grow without end."""
        return growth_of_ranks(self.recording)

    def carriers(self, min_bytes: float = 0.0) -> list[ProcessGrowth]:
        """The processes that gained so much that they are worth looking into; the one that gained most first."""
        least = max(min_bytes, SOME * self.growth.growth_bytes)
        return [process for process in self.growth.processes if process.growth_bytes >= least]

    @cached_property
    def processes(self) -> list[Process]:
        """Every process of the tree, by birth."""
        return processes(self.recording, self._judged)

    @cached_property
    def teams(self) -> list[Team]:
        """Loader workers, and other forks, by the parent they work for."""
        return teams(self.recording, self.growth, self.processes, self.sources)

    @cached_property
    def sources(self) -> list[Source]:
        """The user's modules as they were loaded."""
        return sources_of(self.recording)

    @cached_property
    def library_sources(self) -> list[Source]:
        """Modules of libraries of which an object has grown."""
        return sources_of(self.recording, "library_sources")

    @cached_property
    def ledger(self) -> list[LedgerRow]:
        """Where the growth went: accounts of the judged window."""
        return [*ledger(self.growth), *unmapped(self.segments, self.growth)]

    @cached_property
    def peak(self) -> Peak | None:
        """The most that the job held."""
        return peak(self.recording, self.growth)

    @cached_property
    def bills(self) -> list[Bill]:
        """What all memory was, at its level and at its peak."""
        return bills(self.recording, self.growth, self.roles, self.peak)

    @cached_property
    def at_most_bytes(self) -> Floats:
        """What the job held at most round each moment of ``growth.time_s``, also between samples."""
        return at_most(self.growth, self.peak)

    @cached_property
    def passing_peak(self) -> Passing | None:
        """The peak, where it came and went."""
        return passing_peak(self.growth, self.at_most_bytes, self.peak, self.bills)

    @property
    def roles(self) -> dict[tuple[int, int], str]:
        """Of processes by pid and start ticks."""
        return {one.growth.key: one.role for one in self.processes if one.growth is not None}

    @cached_property
    def segments(self) -> list[Segments]:
        """Segments of shared memory that the job made."""
        return segments_of_job(self.recording, self.processes, self.sources)

    @cached_property
    def limits(self) -> list[Limit]:
        """Every limit that was sampled."""
        return limits(self.recording)

    @cached_property
    def nearest_limit(self) -> Limit | None:
        """Of the limits on all that the job holds, the one that left least room."""
        return nearest(self.limits)

    @cached_property
    def forecast(self) -> Forecast | None:
        """The limit that will be reached first; None where nothing of the job's grows towards one."""
        return forecast(self.limits, self.growth, self.own_use)

    def own_use(self, limit: Limit, time_s: Floats) -> Floats | None:
        """Bytes of /dev/shm or a GPU that are the job's at these moments; None: not known, or another limit."""
        if limit.kind == DEV_SHM:
            own = (one.at("segment_bytes", time_s) for one in self.segments if one.kind == DEV_SHM)
            return sum(own, start=np.zeros_like(time_s))
        on_device = [one for one in gpu_processes(self.recording) if one.device == limit.name]
        if not on_device:
            return None
        return sum(
            (np.interp(time_s, one.time_s, one.used_bytes, left=0.0, right=0.0) for one in on_device),
            start=np.zeros_like(time_s),
        )

    @cached_property
    def kills(self) -> Kills:
        """Which processes the OOM killer ended, and how sure that is."""
        return kills(self.recording, self.processes)

    @cached_property
    def device_uses(self) -> list[DeviceUse]:
        """Figures of torch's allocator by process and GPU."""
        return device_uses(self.recording)

    @cached_property
    def gpu_ooms(self) -> list[Oom]:
        """Each time a GPU's memory ran out."""
        return all_ooms(self.recording, self.device_uses)

    @cached_property
    def gpu_budgets(self) -> list[DeviceBudget]:
        """Each device of each memory snapshot of torch, in the order of the recording."""
        return [DeviceBudget(device) for device in device_snapshots(self.recording)]

    @cached_property
    def last_gpu_budgets(self) -> list[DeviceBudget]:
        """Of each process and device the newest."""
        return list({(b.device.pid, b.device.device): b for b in self.gpu_budgets}.values())

    def gained(self, process: ProcessGrowth, column: str, less: str | None = None) -> float | None:
        """What a column of the sentinels gained in the judged window, less another; None: it was not read twice."""
        rows = process.rows("sentinels")
        rows = only(rows, rows[column].notna())
        if len(rows) < 2:
            return None
        values = rows[column].to_numpy(dtype=np.float64)
        if less is not None:
            values = values - rows[less].to_numpy(dtype=np.float64, na_value=0.0)
        window_s = [self.growth.start_s, self.growth.end_s]
        first, last = np.interp(window_s, rows["time_s"].to_numpy(dtype=np.float64), values)
        return float(last - first)

    def bytes_per_hour(self, bytes: float) -> float:
        """The rate of what was gained in the judged window."""
        return round(3600 * over(bytes, self.growth.end_s - self.growth.start_s), 1)

    @cached_property
    def steps(self) -> int:
        """How many passed in the judged window; 0 where nobody counted."""
        return _steps_passed(self.recording, self.growth, self.step_unit)

    def bytes_per_step(self, bytes: float) -> float | None:
        """The same by step; None where nobody counted."""
        return round(bytes / self.steps, 1) if self.steps else None

    def finding(
        self,
        kind: str,
        title: str,
        *,
        bytes: int,
        grounds: Iterable[Ground | None],
        process: Whose | None = None,
        line: Spot | None = None,
        subject: Subject | None = None,
        severity: str | None = None,
        bytes_per_hour: float | None = None,
        bytes_per_step: float | None = None,
        evidence: Iterable[Evidence | None] = (),
        doubts: Iterable[str | None] = (),
        remedy: Iterable[str | None] = (),
        series: Iterable[Series] = (),
        wasted: bool = False,
        idle: Iterable[Idle] = (),
        mechanism: str | None = None,
        **about: Unpack[About],
    ) -> Finding:
        """One diagnosis, about a ``process``, a ``line`` and what ``about`` says, or a ``subject`` that is known.

        Without a ``severity`` it tells of growth: its share of the tree's growth makes it critical or a warning, and it
        has a rate, unless one is given. What is None of grounds, evidence, doubts and remedies is not told.
        """
        rests_on = [ground for ground in grounds if ground is not None]
        confidence = how_sure(rests_on)
        if severity is None:
            severity = severity_of(self.growth, bytes)
            if bytes_per_hour is None:
                bytes_per_hour, bytes_per_step = self.bytes_per_hour(bytes), self.bytes_per_step(bytes)
        if confidence < LIKELY and severity == "critical":  # something else is likelier
            severity = "warning"
        return Finding(
            kind=kind,
            title=title,
            severity=severity,
            confidence=confidence,
            bytes=bytes,
            subject=subject if subject is not None else subject_of(process, line, **about),
            bytes_per_hour=bytes_per_hour,
            bytes_per_step=bytes_per_step,
            evidence=[one for one in evidence if one is not None],
            doubts=[doubt for doubt in doubts if doubt],
            remedy=[one for one in remedy if one],
            series=list(series),
            wasted=wasted,
            idle=list(idle),
            mechanism=mechanism,
            grounds=rests_on,
            step_unit=self.step_unit,
        )

    def once(self, find: Callable[..., _T], *arguments: Any) -> _T:
        """``find(case, *arguments)``, found once for each set of arguments (which have to be hashable)."""
        key = (find, arguments)
        if key not in self._answers:
            self._answers[key] = find(self, *arguments)
        answer: _T = self._answers[key]
        return answer


def _step_unit(recording: Recording) -> str:
    """``step``, unless an agent noted that it counts requests or tasks: of several what most processes count."""
    notes = cells(recording.rows["agent_notes"], "note", "text")
    counted = Counter(text for note, text in notes if note == COUNTS_NOTE and text in STEP_UNITS)
    return STEP_UNITS[counted.most_common(1)[0][0]] if counted else STEP


def _steps_passed(recording: Recording, growth: TreeGrowth, unit: str) -> int:
    """In the judged window; 0 where nobody counted.

    Training steps are those of the process that grew most: ranks make the same ones. Requests and tasks are added up:
    each process of a service serves its own.
    """
    sentinels = recording.rows["sentinels"]
    if growth.main is None or not len(sentinels):
        return 0
    own = only(sentinels, sentinels["step"].notna() & sentinels["pid"].notna())
    own = only(own, (own["time_s"] >= growth.start_s) & (own["time_s"] <= growth.end_s))
    if unit == STEP:
        own = only(own, own["pid"] == growth.main.pid)
    window_s = growth.end_s - growth.start_s
    return round(sum(_passed(each, window_s) for _, each in own.groupby(["pid", "start_ticks"])))


def _passed(rows: Rows, window_s: float) -> float:
    """Of one process: it was read each second, and what grew is of all the window, to whose ends its pace held on."""
    step, seen_s = (float(rows[name].max() - rows[name].min()) for name in ("step", "time_s"))
    return step * over(window_s, seen_s) if seen_s > MOST * window_s else step
