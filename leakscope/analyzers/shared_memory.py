"""Segments of shared memory that are made again and again and not freed.

Looks for:     files in /dev/shm, deleted ones that are still mapped, and System V segments, whose sum keeps rising.
Why:           a segment lives until it is unlinked *and* no process maps it. One that is closed but not unlinked is in
               no process's memory: every figure of the job stays flat while the machine runs full, also after its end.
Decides by:    growth of the segments' own sum by min_bytes, going on at the end; by the name they have in common.
Mistaken when: another program of the same user makes segments of the same name at the same time, and Python's
               tracker of segments could not be asked whose they are.
Do:            unlink() each segment when its last reader is done; keep one segment and write into it again.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from ..confidence import STRONG, SURE, Ground
from ..evidence.sentences import at_line, curve
from ..facts.case import Case
from ..facts.code.adding import Line, Source
from ..facts.code.starts import calls
from ..facts.growth.filling import fills
from ..facts.growth.tree import severity_of
from ..facts.processes.segments import DEV_SHM, Segments, made_as, making_line
from ..facts.series.trend import CANNOT_TELL, GROWING, Trend, judge
from ..facts.subject import subject_of
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import ELSEWHERE, GROWTH
from ..units import MOST, WORTH, format_bytes, format_rate, over

NEEDS = ("process_samples",)
SEEN_BY = ("process_samples.shmem_bytes", "shared_segments.segment_bytes")
TELLS = (GROWTH, ELSEWHERE)
HEADLINE = "Shared memory leaks"
AFTER = ("retained-objects",)  # segments that are still mapped are held by somebody, whom it names
_KIND = "shared-memory"
# Who makes segments of a name, and by which call.
_STATES = {
    "deleted": "unlinked but still mapped",
    "sysv": "never removed",
    "sysv-removed": "removed but never detached",
}
# What was forgotten belongs to which call: a segment is removed by number, and detached by the address that shmat gave.
_LET_GO = {
    "sysv-removed": "detach each segment when it is done with: shmdt()",
    "sysv": "remove each segment when its last reader is done: shmctl(IPC_RMID), or ipcrm -m",
}
_SYSTEM_V = {"sysv": "shmget", "sysv-removed": "shmat"}


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_bytes: int = WORTH,  # queues and locks take a few pages each
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per kind and name of segments that pile up, or how much there was."""
    growth = case.growth
    time_s = growth.time_s
    most = 0
    found = undecided = False
    for segments in case.segments:
        size = segments.at("segment_bytes", time_s)
        if not size.size:
            continue
        most = max(most, round(float(size.max())))
        if np.ptp(size) < min_bytes:
            continue
        trend = judge(time_s, size, min_growth_bytes=min_bytes)
        may_end = trend.verdict == GROWING and _is_bounded(case, trend)
        undecided = undecided or may_end or trend.verdict == CANNOT_TELL
        if trend.verdict == GROWING and not may_end:
            found = True
            yield _finding(case, segments, trend, so_far)
    if found:
        return
    if undecided:
        yield Skipped(_KIND, growth.reason)
    elif most:
        reason = f"shared segments do not pile up: at most {format_bytes(most)} of one name"
        yield RuledOut(_KIND, reason, {"most_bytes": most})
    else:
        yield RuledOut(_KIND, "no segment of shared memory was seen")


def _is_bounded(case: Case, trend: Trend) -> bool:
    """Whether somebody keeps the segments in a buffer that has a limit and is not full yet."""
    window_s = (case.growth.start_s, case.growth.end_s)
    pids = map(int, case.rows("takes")["pid"].unique())
    found = (fills(case.recording, pid, trend.growth_bytes, window_s) for pid in pids)
    return any(one is not None and one.share >= MOST for one in found)


def _finding(case: Case, segments: Segments, trend: Trend, so_far: Sequence[Finding]) -> Finding:
    kind, name, rows = segments
    everyone, sources, time_s = case.processes, case.sources, case.growth.time_s
    columns = ("segment_bytes", "segment_count", "unmapped_bytes")
    size, count, unmapped = (segments.at(column, time_s) for column in columns)
    at_end = int(np.searchsorted(time_s, trend.end_s, side="right")) - 1
    forgotten = unmapped[at_end] >= MOST * max(size[at_end], 1.0)
    mapping = {int(pid) for text in rows["mapped_by"].dropna() for pid in text.split(",") if pid}
    if kind in _SYSTEM_V:
        mapping.add(int(name.rpartition(" ")[2]))  # the kernel knows who made it
    owner = next((p for p in everyone if p.pid in mapping), next((p for p in everyone if p.role == "trainer"), None))
    line = _system_v_line(sources, kind) if kind in _SYSTEM_V else making_line(sources, name)
    where = (
        f"of System V, {name.replace('made by ', 'made by process ')}"
        if kind in _SYSTEM_V
        else f"/dev/shm/{name}"
        if kind == DEV_SHM
        else name
    )
    made = round(float(count[at_end] - count[0]))
    unlinked = "closed but never unlinked: no process maps them" if forgotten else "still mapped and never unlinked"
    holds = f"{made} segments {where}"
    subject = subject_of(
        owner, line, holder=holds, path=where, type="shared memory segment", library=made_as(name).library
    )
    bytes = trend.growth_bytes
    severity = "critical" if forgotten else severity_of(case.growth, bytes)
    holder = None if forgotten else _holder(so_far, mapping, bytes)
    likely = ""
    if holder is not None:
        likely = f"; likely held by {holder.subject.holder}"
        subject = replace(holder.subject, type=subject.type, library=subject.library)
        bytes, severity = max(bytes, holder.bytes), holder.severity
    hours = over(trend.end_s - trend.start_s, 3600)
    unlink = _LET_GO.get(kind, "close() and unlink() each segment after use")
    if forgotten and kind not in _LET_GO:
        unlink = "call unlink() when the last reader is done with a segment"
    elif kind not in _LET_GO and (line is None or "SharedMemory" not in line.text):
        let_go = "let go of tensors in shared memory after use"
        if holder is not None and holder.subject.line:
            let_go = f"bound {holder.subject.holder}, or remove from it what is no longer needed"
        unlink = f"{let_go}: a segment is freed with its last tensor"
    unseen = f"{format_bytes(unmapped[at_end])} of them are in no process's memory: RSS and PSS do not show them"
    figures = {"segment_count": int(count[at_end]), "segment_bytes": int(size[at_end])}
    return case.finding(
        _KIND,
        f"Shared memory piles up: {holds}, {_STATES.get(kind, unlinked)}{likely}",
        severity=severity,
        grounds=[
            Ground("the kernel counts the segments", SURE),
            Ground("the processes that map them were seen", STRONG) if mapping else None,
            Ground("snapshots weighed who keeps them", SURE) if holder is not None else None,
        ],
        bytes=bytes,
        subject=subject,
        bytes_per_hour=round(over(trend.growth_bytes, hours), 1),
        evidence=[
            Evidence(f"{holds}: not freed, {format_bytes(size[at_end])} at the end", figures),
            Evidence(unseen, {"unmapped_bytes": int(unmapped[at_end])}) if forgotten else None,
            at_line(line, f"{'attaches' if kind == 'sysv-removed' else 'makes'} these segments"),
            *([Evidence(f"{holder.subject.holder} grew alike"), *holder.evidence[:1]] if holder is not None else ()),
        ],
        doubts=[None if mapping else "no process of the job was seen using them, but readings are seconds apart"],
        remedy=[f"{unlink}; that saves about {format_rate(over(trend.growth_bytes, hours), 3600 * hours)}"],
        mechanism="not-unlinked",
        series=[curve(f"segments {where}", time_s, size)],
    )


def _holder(so_far: Sequence[Finding], mapping: set[int], bytes: int) -> Finding | None:
    """What was found to keep objects in a process that maps the segments, and in like amount."""
    return next((f for f in so_far if f.subject.pid in mapping and f.bytes >= MOST * bytes), None)


def _system_v_line(sources: Sequence[Source], kind: str) -> Line | None:
    """The call whose counterpart is missing, where there is only one."""
    made = calls(sources, _SYSTEM_V[kind])
    return made[0].line if len(made) == 1 else None
