"""Memory that came near to a limit that ends jobs: the machine's, a cgroup's, an rlimit, /dev/shm.

Looks for:     use of a limit above 85 % or 95 %, how long, and when it will be full.
Why:           at the limit the kernel kills a process, or an allocation fails; at 95 % the next large batch does it.
Decides by:    use, without page cache which the kernel takes back first, over high_fraction or full_fraction of it.
Mistaken when: the machine has fast swap and the job may use it, or others free their memory in time.
Do:            find what grows, or what else runs there; a limit that is lower than need be can be raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..confidence import LIKELY, PROVEN, Ground
from ..evidence import enough
from ..evidence.sentences import curve
from ..facts.accounts.forecast import Forecast, forecast_of
from ..facts.case import Case
from ..facts.growth.limits import CGROUP, DEV_SHM, HIGH, HOST, RLIMIT, Limit
from ..facts.tables import only
from ..findings import SEVERITIES, Evidence, Finding, RuledOut, Skipped, Subject
from ..kinds import CRASH, DANGER, LIMIT
from ..storage import Rows
from ..units import MOST, format_bytes, format_duration

NEEDS = ("process_samples",)
TELLS = (DANGER, LIMIT)
AFTER = ("*", "crash", "fragmentation")  # it is never worse than what leads to it
_KIND = "memory-pressure"
_THEN = {
    HOST: "when it is full the kernel kills a process",
    CGROUP: "when it is full the kernel kills a process of it",
    RLIMIT: "when it is full allocations fail: MemoryError in Python, a crash in much else",
    DEV_SHM: "when it is full, a process that writes to shared memory dies of a bus error",
}


def findings(
    case: Case,
    *,
    high_fraction: float = HIGH,  # a batch of unusual length, or one more worker, may take the rest
    full_fraction: float = 0.95,  # the kernel reclaims all the time by now: the job is slow before it is killed
    others_fraction: float = MOST,  # of what is in use: with more in other hands the job is not the one to fix
    so_far: Sequence[Finding] = (),
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield a finding for the limit of memory that was nearest, for one rlimit and for /dev/shm, if they came near."""
    known = case.limits
    if not known:
        yield Skipped(_KIND, "no limit was recorded: neither the machine's nor a cgroup's")
        return
    killed = case.kills.of_root
    ended = {f.subject.pid for f in so_far if f.tells(CRASH) and f.severity == "critical"}
    groups = [[x for x in known if x.is_of_memory], *([x for x in known if x.kind == k] for k in (RLIMIT, DEV_SHM))]
    fullest = [max(group, key=lambda limit: limit.peak_fraction) for group in groups if group]
    near = [limit for limit in fullest if limit.peak_fraction >= high_fraction]
    for limit in near:
        is_told = killed or limit.pid in ended or _has_killed(case, limit)
        own = None if is_told else forecast_of(limit, case.growth, case.own_use)
        pressure = _Pressure(case, limit, own, (high_fraction, full_fraction), others_fraction)
        yield pressure.finding(so_far, is_told=is_told)
    if not near:
        yield _ruled_out(case, fullest, case.forecast if not killed else None)


def _has_killed(case: Case, limit: Limit) -> bool:
    """A process of the job was killed at it, which the kill's own finding tells."""
    if limit.kind == CGROUP:
        return case.kills.is_of_cgroup(limit.name.removeprefix("cgroup "))
    return limit.kind == HOST and case.kills.is_of_machine


def _ruled_out(case: Case, fullest: Sequence[Limit], ahead: Forecast | None) -> RuledOut | Skipped:
    limit = case.nearest_limit or max(fullest, key=lambda limit: limit.peak_fraction, default=None)
    if limit is None:
        return Skipped(_KIND, "no limit on memory was recorded: neither the machine's nor a cgroup's")
    text = f"at most {limit.peak_fraction:.0%} of the nearest limit, {limit.label}, was used"
    figures: dict[str, object] = {
        "used_fraction": round(limit.peak_fraction, 4),
        "used_bytes": int(limit.used_bytes[limit.peak_at]),
        "limit_bytes": int(limit.limit_bytes[limit.peak_at]),
    }
    if ahead is not None:
        return RuledOut(_KIND, f"{text}; {ahead.text}", {**figures, **ahead.figures})
    return RuledOut(_KIND, text, figures)


class _Pressure:
    """One limit that came near, and what is known about it."""

    def __init__(
        self, case: Case, limit: Limit, ahead: Forecast | None, levels: tuple[float, float], others_fraction: float
    ) -> None:
        self._case, self._limit, self._ahead, self._levels = case, limit, ahead, levels
        self._at_s = float(limit.time_s[limit.peak_at])
        self._used, self._total = (float(one[limit.peak_at]) for one in (limit.used_bytes, limit.limit_bytes))
        own, growth = case.own_use(limit, np.array([self._at_s])), case.growth
        self._job_bytes = float(np.interp(self._at_s, growth.time_s, growth.held_bytes))
        if own is not None and not limit.is_of_memory:
            self._job_bytes = float(own[0])
        # A limit of a process is its own: no others use it.
        self._others_bytes = max(0.0, self._used - self._job_bytes) if limit.kind != RLIMIT else 0.0
        self._by_others = self._others_bytes > others_fraction * self._used

    def finding(self, so_far: Sequence[Finding], *, is_told: bool) -> Finding:
        """``is_told``: what it came to is told by the kill, or by the crash of the process whose limit it is."""
        limit = self._limit
        whose = ", most of it outside this job" if self._by_others else ""
        if self._by_others and limit.kind == DEV_SHM:  # a file that it wrote and does not map may be its own
            whose = ", most of it not known to be this job's"
        return self._case.finding(
            _KIND,
            f"{limit.peak_fraction:.0%} of {limit.label} was used{whose}",
            severity="note" if is_told else self._severity(so_far),
            grounds=[Ground("these are the kernel's own figures; that it matters is a judgement", PROVEN)],
            bytes=0,
            subject=Subject(pid=limit.pid, device="cpu"),
            evidence=self._evidence(),
            doubts=self._doubts(),
            remedy=() if is_told and limit.is_of_memory else self._remedy(so_far),
            series=[curve(f"used of {limit.label}", limit.time_s, limit.used_bytes)],
        )

    def _severity(self, so_far: Sequence[Finding]) -> str:
        """By level and growth, never above the finding that names the cause."""
        level = 0 if self._limit.peak_fraction >= self._levels[1] else 1
        level += self._ahead is None  # it is near, but goes no further
        causes = [f for f in so_far if not f.wasted and f.confidence >= LIKELY]
        if causes:
            level = max(level, min(SEVERITIES.index(f.severity) for f in causes))
        return SEVERITIES[min(level, 2)]

    def _evidence(self) -> Iterator[Evidence]:
        limit = self._limit
        high_s, full_s = (_seconds_above(limit, level) for level in self._levels)
        figures = {
            "used_bytes": int(self._used),
            "limit_bytes": int(self._total),
            "used_fraction": round(self._used / self._total, 4),
            "at_s": round(self._at_s, 1),
            "seconds_above_high": round(high_s, 1),
            "seconds_above_full": round(full_s, 1),
        }
        text = f"{format_bytes(self._used)} of {format_bytes(self._total)} in use at {format_duration(self._at_s)}"
        text += f", above {self._levels[0]:.0%} for {format_duration(high_s)}"
        if full_s:
            text += f", above {self._levels[1]:.0%} for {format_duration(full_s)}"
        yield Evidence(f"{text}; {_THEN[limit.kind]}", figures)
        if self._ahead is not None:
            yield Evidence(self._ahead.text, self._ahead.figures)
        job, others = format_bytes(self._job_bytes), format_bytes(self._others_bytes)
        text = f"{job} of it are segments that the job made"
        if limit.is_of_memory:
            text = (
                f"the job's processes held {job} of it, the rest (other programs, the kernel, files in memory) {others}"
            )
        if limit.kind != RLIMIT:
            yield Evidence(text, {"job_bytes": int(self._job_bytes), "others_bytes": int(self._others_bytes)})
        yield from self._waiting()

    def _waiting(self) -> Iterator[Evidence]:
        """What pressure cost: time, and memory in swap."""
        if not self._limit.is_of_memory:
            return
        table = self._case.rows("host_samples")
        if self._limit.kind == CGROUP:
            cgroups = self._case.rows("cgroup_samples")
            table = only(cgroups, cgroups["cgroup"] == self._limit.name.removeprefix("cgroup "))
        some, full = _most(table, "psi_some_avg10"), _most(table, "psi_full_avg10")
        if some:
            figures = {"psi_some_avg10": some, "psi_full_avg10": full}
            text = f"tasks waited for memory up to {some:.0f}% of the time"
            yield Evidence(f"{text}, all of them {full:.0f}%" if full is not None else text, figures)
        samples = self._case.rows("process_samples")
        each = (own["swap_bytes"].max() for _, own in samples.groupby(["pid", "start_ticks"], dropna=False))
        swapped = np.nansum([*each])
        if swapped:
            yield Evidence(f"up to {format_bytes(swapped)} of the job was in swap", {"swap_bytes": int(swapped)})

    def _doubts(self) -> Iterator[str]:
        if self._limit.kind != HOST:
            return
        free = _most(self._case.rows("host_samples"), "swap_free_bytes")
        if free:
            yield f"the machine has swap ({format_bytes(free)} were free): it gets slow before anything is killed"

    def _remedy(self, so_far: Sequence[Finding]) -> Iterator[str]:
        limit, others = self._limit, format_bytes(self._others_bytes)
        if self._by_others and limit.kind == HOST:
            yield f"look at what else runs on the machine, which holds {others}: leakscope record --system -d 1m"
        if limit.kind == DEV_SHM:
            if self._by_others:
                yield f"find out whose the other {others} are: the job is not known to have made them (ls -l /dev/shm)"
            yield "make /dev/shm larger (docker run --shm-size), or have fewer loader workers or prefetched batches"
        host = next((x for x in self._case.limits if x.kind == HOST), None)
        if limit.kind == CGROUP and self._ahead is None and host is not None and host.least_room_bytes >= self._total:
            room = format_bytes(host.least_room_bytes)
            yield f"the limit of {limit.name} can be raised: the machine always had {room} available"
        if limit.is_of_memory and not self._by_others:  # it is the job that fills it: what would leave room
            told = enough.remedy(self._case, so_far, float(self._total) - self._others_bytes)
            yield from [told] if told is not None else []


def _seconds_above(limit: Limit, fraction: float) -> float:
    """Time in use above a level, each sample standing for the time until the next."""
    above = limit.used_fraction >= fraction
    return float(np.diff(limit.time_s)[above[:-1]].sum())


def _most(rows: Rows, column: str) -> Any:
    """The largest value; None where there is none."""
    values = rows[column].dropna()
    return float(values.max()) if len(values) else None
