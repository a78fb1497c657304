"""The clock of a recording: at each interval ask every source for rows, and hand them to the journal in time.

Runs in the recorder. It writes down what it saw and judges nothing, except that it asks the agents for a snapshot
when memory runs short, since there may be no later.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType
from typing import TYPE_CHECKING, Any

from ..agent.journal import FOR_ALL
from ..units import format_bytes
from . import console, launch, no_agent, proc, sources
from .checkpoints import Checkpoints
from .companion import Companion, Look, Sample, Word
from .figures import Figures
from .helpers import Helpers, Killed, Room
from .launch import Happening
from .limits import NEARING, PRESSURE, Alarm, Kills, Limits
from .output import Output
from .peaks import Peak, Peaks
from .tree import Row, Tree

if TYPE_CHECKING:
    from .guard import Guard

EARLY_INTERVAL_S, EARLY_S, INTERVAL_S = 0.25, 60.0, 1.0  # short runs are common, and a trend needs points
EARLY_COST_FACTOR = 3.0  # of what is allowed, in the first minute
MOST_INTERVAL_S = 15.0  # whatever it costs: what happens in between, a kill among it, is seen by nobody
COST_SMOOTHING = 0.1  # a round in ten reads PSS of large processes: its cost is that of all ten
OWN_PERIOD_S = 10.0
FLUSH_ROWS = 1000  # they take 1 KB each while they wait, and twice that while they are written: with as many processes


class Sampler:
    """Samples the tree of one job until ``finish``. ``lost_s`` is since when rows could not be written."""

    def __init__(
        self,
        output: Output,
        tree: Tree,
        *,
        interval_s: float | None,
        flush_s: float,
        fsync_s: float | None,
        max_cpu_fraction: float = 0.01,
        asks_agents: bool,
        status: console.Status,
        companions: Sequence[Companion] = (),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """``interval_s`` None adapts to the age of the recording and to what a round costs, of which
        ``max_cpu_fraction`` of a core is allowed; ``fsync_s`` None never, 0 at every flush.
        """
        self.output = output
        self.tree = tree
        self.figures = Figures()
        self.peaks = Peaks()
        self.limits = Limits()
        self.lost_total_s = 0.0
        self.looks_for_agents = False  # once, and a line for the user if there is none
        self._lost_s: float | None = None
        self._lost_reason = ""
        self._interval_s = interval_s
        self._max_cpu_fraction = max_cpu_fraction
        self._told_interval_s = 0.0
        self._flush_s, self._fsync_s = flush_s, fsync_s
        self._asks_agents = asks_agents
        self._status = status
        self._companions: list[Companion] = []
        self._guard: Guard | None = None
        self._clock = clock
        self._began_s = self._next_s = now_s = clock()
        # The first flush comes early: a command that is killed at once leaves something to read.
        self._next_flush_s = now_s + min(1.0, flush_s)
        self._next_fsync_s = now_s + (fsync_s or 0.0)
        self._next_own_s = now_s + 1.0
        self._sources = sources.load()
        self._due_s: dict[ModuleType, float] = {}
        self._waiting_rows = 0
        self.helpers = Helpers()
        self._left_out: set[str] = set()  # what there was no room for, and it was said
        self._sample_duration_s = self._round_cpu_s = 0.0
        self._checkpoints = Checkpoints(output)
        for companion in (*companions, self._checkpoints):
            self.add_companion(companion)

    @property
    def elapsed_s(self) -> float:
        return self._clock() - self._began_s

    @property
    def own_kills(self) -> Kills:
        """Of the job's processes, by the kernel, for lack of memory."""
        return self.limits.own_kills(self.tree.sigkill_count)

    def seconds_to_next(self) -> float:
        return max(0.0, self._next_s - self._clock())

    def event(self, event: str, text: str, value: float | None = None, pid: int | None = None) -> None:
        process = self.tree.living.get(pid) if pid is not None else None
        ticks = process.stat.start_ticks if process else None
        self.add("events", {"event": event, "pid": pid, "start_ticks": ticks, "text": text, "value": value})

    def take_in(self, happenings: list[Happening]) -> None:
        """Write down what woke the recorder."""
        for kind, pid, value, most_bytes in happenings:
            if kind == "ended":
                code = launch.exit_code_of(value)
                if not self.tree.is_helper(pid) and most_bytes > _own_most_bytes():
                    self.peaks.note_death(most_bytes, self._clock())
                self.tree.note_exit(pid, code if code >= 0 else None, -code if code < 0 else None)
                self.helpers.ended(pid, -code if code < 0 else None)
                for companion in self._companions:
                    if (word := companion.ended(pid, value)) is not None:
                        self._hear(companion, word)
            elif pid == self.tree.root_pid:
                verb = {"signal": "passed on", "stopped": "stopped by", "continued": "continued by"}[kind]
                self.event(kind, f"{verb} {console.named_signal(value)}", float(value), pid)

    def add_companion(self, companion: Companion) -> None:
        """Its processes are ours, and not the job's."""
        self._companions.append(companion)
        self._count({}, companion.pids)

    def begin_guarding(self, guard: Guard) -> None:
        """Its process is ours; it has to know of each kill of the kernel's that has nothing to do with us."""
        self._guard = guard
        self.tree.leave_out(guard.pid)
        self.helpers.add(guard.pid, "ends the command if leakscope is killed")

    def sample_if_due(self) -> None:
        if self._clock() >= self._next_s:
            self.sample()

    def sample(self) -> None:
        """One round: the tree, every source, and what follows from them."""
        now_s = self._clock()
        interval_s = self._interval_s or self._fair_interval_s(now_s)
        self._next_s = max(
            self._next_s + interval_s, now_s + interval_s / 2
        )  # late rounds are left out, not made up for
        self._look_round(now_s)
        if now_s >= self._next_own_s:
            self._next_own_s = now_s + OWN_PERIOD_S
            self.add("recorder_samples", self._own_row())
        if now_s >= self._next_flush_s or self._waiting_rows >= FLUSH_ROWS:
            self._next_flush_s = now_s + self._flush_s
            self.flush()
        if self.looks_for_agents and self.elapsed_s >= no_agent.LOOK_S:
            self.looks_for_agents = False
            if (note := no_agent.while_it_runs(self.tree, self.output.journal_path)) is not None:
                self._status.interrupt(note)
        self._status.show(now_s, self.elapsed_s, self.figures, self.limits.nearest)

    def _fair_interval_s(self, now_s: float) -> float:
        """As often as a trend needs points, less often where a round is dear: hundreds of processes."""
        is_early = now_s - self._began_s < EARLY_S
        fraction = self._max_cpu_fraction * (EARLY_COST_FACTOR if is_early else 1.0)
        fair_s = min(self._round_cpu_s / fraction, MOST_INTERVAL_S)
        usual_s = EARLY_INTERVAL_S if is_early else INTERVAL_S
        if fair_s > 2.0 * max(usual_s, self._told_interval_s):
            self._told_interval_s = fair_s
            cost = f"a round over {len(self.tree.living)} processes takes {self._round_cpu_s * 1e3:.0f} ms of CPU"
            self.event("throttled", f"a sample each {fair_s:.1f} s instead of {usual_s:g} s: {cost}", fair_s)
        return max(usual_s, fair_s)

    def finish(
        self, wait_status: int | None, ending_text: Callable[[int | None, float, Kills], str] = console.ending_text
    ) -> None:
        """The last rows: who died, who was killed, what recording cost, how it ended (None: the command goes on)."""
        self._stop(lambda companion: companion.stop())
        self._look_round(self._clock(), is_last=True)
        self.add("recorder_samples", self._own_row())
        figures, kills = self.figures, self.own_kills
        peak = self.peaks.highest(figures.highest, self.output.journal_path, figures.last)
        if kills.number and peak.size_bytes < figures.last_bytes:  # whoever took part of it: that was too much
            peak = Peak(figures.last_bytes)
        figures.peak = peak = peak._replace(since_s=max(0.0, peak.since_s - self._began_s))  # as rows have it
        if peak.size_bytes:
            self.event("peak", peak.text, float(peak.size_bytes))
        code = None if wait_status is None else launch.exit_code_of(wait_status)
        self.event("oom-kills", kills.why if kills.number else "none", float(kills.number))
        text = ending_text(code, self.elapsed_s, kills)
        self.event("end", text, None if code is None else float(code), self.tree.root_pid)
        self.flush()

    def flush(self) -> None:
        """Hand rows to the kernel; what could not be written is remembered and tried again at the next flush."""
        now_s = self._clock()
        self._waiting_rows = 0
        try:
            self.output.check_journal()
            if self._lost_s is not None:
                lost_s = now_s - self._lost_s
                self.event("output-lost", f"{lost_s:.0f} s were not recorded: {self._lost_reason}", lost_s)
            self.output.journal.flush()
            if self._fsync_s is not None and now_s >= self._next_fsync_s:
                self._next_fsync_s = now_s + self._fsync_s
                self.output.journal.sync()
        except OSError as error:
            if self._lost_s is None:
                self._lost_s = now_s - self._flush_s
            self._lost_reason = error.strerror or str(error)
        else:
            if self._lost_s is not None:
                self.lost_total_s += now_s - self._lost_s
                self._lost_s = None

    def lost_text(self) -> str | None:
        """One line if rows were lost."""
        lost_s = self.lost_total_s + (self._clock() - self._lost_s if self._lost_s is not None else 0.0)
        return f"{lost_s:.0f} s were not recorded: {self._lost_reason}" if lost_s else None

    def _look_round(self, now_s: float, *, is_last: bool = False) -> None:
        before_s = time.process_time()
        for row in self.tree.update(now_s, time.monotonic_ns()):
            self.add("processes", row)
        found = {source.TABLE: self._ask(source, now_s) for source in list(self._sources)}
        if self._guard is not None:
            for row in found.get("host_samples", []):
                self._guard.remember(row["oom_kill_count"])
        self.helpers.leave_out([*found.get("host_samples", []), *found.get("cgroup_samples", [])])
        for killed in self.helpers.news():
            self._tell_killed(killed)
        for table, rows in found.items():
            for row in rows:
                self.add(table, row)
        processes, host = found.get("process_samples", []), found.get("host_samples", [])
        self.figures.look_at(self.tree)
        self.peaks.look_at(self.tree)
        alarms = self.limits.look_at(
            host,
            found.get("cgroup_samples", []),
            found.get("limit_samples", ()),
            found.get("gpu_samples", ()),
            now_s=now_s,
            own_cgroups=self.tree.cgroups,
            job=self.figures.course,
        )
        for alarm in alarms:
            self._raise(alarm)
        sample = Sample(self.tree, self.figures, self.limits, processes, host)
        self._go_on(Look(self.elapsed_s, self.output.journal.written_bytes, is_last, now_s, sample))
        self._sample_duration_s = self._clock() - now_s
        cost_s = time.process_time() - before_s  # on a busy machine a round takes long and costs the same
        self._round_cpu_s += (cost_s - self._round_cpu_s) * (COST_SMOOTHING if self._round_cpu_s else 1.0)

    def _ask(self, source: ModuleType, now_s: float) -> list[Row]:
        """Its rows, no more often than it wishes; a source that fails is asked no more, the others go on."""
        if now_s < self._due_s.get(source, now_s):
            return []
        self._due_s[source] = now_s + getattr(source, "PERIOD_S", 0.0)
        try:
            return list(source.rows(self.tree))
        except Exception as error:  # some kernel's file is not as we know it
            self._sources.remove(source)
            self.event("source-failed", f"no more {source.TABLE}: {type(error).__name__}: {error}")
            return []

    def add(self, table: str, row: Row) -> None:
        """Write down a row, which is the journal's from now on: copies would be 1 MB more for 1,000 processes."""
        row["time_unix_ns"] = time.time_ns()
        row["time_mono_ns"] = time.monotonic_ns()
        row["time_boot_ns"] = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        self._waiting_rows += 1
        self.output.journal.add(table, row)

    def _raise(self, alarm: Alarm) -> None:
        if alarm.event != NEARING:
            self.event(alarm.event, alarm.text, alarm.value)
        if alarm.event == PRESSURE:
            self._stop(lambda companion: companion.give_way())
        if alarm.event in (PRESSURE, NEARING) and self._asks_agents:
            try:
                self.output.request_take(f"{FOR_ALL}: {alarm.text}" if alarm.is_near_the_end else alarm.text)
            except OSError as error:
                self._lost_reason = error.strerror or str(error)

    def _own_row(self) -> dict[str, Any]:
        statm = proc.read("/proc/self/statm")
        return {
            "cpu_s": time.process_time(),
            "rss_bytes": int(statm.split()[1]) * proc.PAGE_BYTES if statm else None,
            "sample_duration_s": self._sample_duration_s,
            "journal_bytes": self.output.journal.written_bytes,
        }

    def _go_on(self, look: Look) -> None:
        """Companions start what it is time for."""
        for companion in self._companions:
            before = dict(companion.pids)
            for said in companion.go_on(look):
                self._hear(companion, said)
            self._count(before, companion.pids)

    def _hear(self, companion: Companion, said: Word | Room) -> None:
        """Write it down and pass it on."""
        if isinstance(said, Room):
            self._leave_out(said, companion.left_out)
        elif not said.event:
            console.pass_on(said.text)
        else:
            self.event(said.event, said.text, said.value, self.tree.root_pid)
            if said.shown:
                self._status.interrupt(said.shown)

    def _stop(self, stops: Callable[[Companion], None]) -> None:
        """``stops`` ends processes of a companion, or leaves them."""
        self.helpers.before_stopping()
        for companion in self._companions:
            before = dict(companion.pids)
            stops(companion)
            self._count(before, companion.pids)

    def _count(self, before: Mapping[int, str], now: Mapping[int, str]) -> None:
        """Whatever the processes of a companion do is nothing of the job's."""
        for pid in before.keys() - now.keys():
            self.helpers.stopped(pid)
            self.tree.note_exit(pid, None, None)
        for pid in now.keys() - before.keys():
            self.tree.leave_out(pid)
            self.helpers.add(pid, now[pid])

    def _leave_out(self, full: Room, what: str) -> None:
        """The first time that is said."""
        if what not in self._left_out:
            self._left_out.add(what)
            left = f"{format_bytes(max(0, full.left_bytes))} are left of {full.name}"
            self.event("helper-left-out", f"{what}: {left}, which the job needs", float(full.left_bytes))

    def _tell_killed(self, killed: Killed) -> None:
        text = f"a process of leakscope's own that {killed.what} was killed; it is not part of the job"
        self.event("helper-killed", text, pid=killed.pid)
        self._checkpoints.is_over = True


def _own_most_bytes() -> int:
    """The most that the recorder had: of a child that did not reach it, the kernel says that of the recorder."""
    return proc.bytes_of(proc.read("/proc/self/status") or b"", b"VmHWM") or 0
