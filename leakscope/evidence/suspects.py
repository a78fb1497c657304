"""What a team of workers keeps or copies, as far as snapshots and samples of allocations can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ..facts.calls import calls_of
from ..facts.case import Case
from ..facts.code.adding import Holder, Line
from ..facts.code.ending import Unended, never_ended
from ..facts.code.keeping import kept_as
from ..facts.growth.processes import ProcessGrowth
from ..facts.processes.teams import Team
from ..facts.where.stacks import GrowthLine, lines_of
from ..findings import Finding
from ..units import MOST

DATA_SHARE = 0.4  # of what a worker copied, seen in the parent as Python objects of the data set


@dataclass(frozen=True)
class Suspect:
    """A holder, and ``how`` it was found out: found, puts, asks, inherited or nothing.

    ``asks``: ``grown[0]`` asked for most of what stays, for objects that are ``unended`` where that is told; ``puts``:
    that is put into the holder, by the source.
    ``held_bytes`` of Python objects were in it in the parent, at ``path``; ``grown`` are lines of the workers' under
    which memory grew.
    """

    how: str = "nothing"
    name: str | None = None
    holder: Holder | None = None
    line: Line | None = None
    finding: Finding | None = None
    held_bytes: float = 0.0
    path: str | None = None
    grown: tuple[GrowthLine, ...] = ()
    unended: Unended | None = None


def kept_in(case: Case, team: Team, so_far: Sequence[Finding] = ()) -> Suspect:
    """Found by a snapshot of a worker's own; else the line that samples saw asking for most of what stays, and what the
    source has it put into.
    """
    pids = {worker.pid for worker in team.alive}
    inside = [f for f in so_far if f.subject.pid in pids and f.subject.variable]
    if inside:
        first = max(inside, key=lambda finding: finding.bytes)
        return Suspect("found", first.subject.holder, finding=first)
    grown = _own_lines(case, max(team.alive, key=lambda worker: worker.growth_bytes))
    if grown and grown[0].share >= MOST and grown[0].is_sure:
        most = grown[0]
        kept = kept_as(case.sources, most.as_line)
        if kept is None or not kept.is_container:
            unended = never_ended(case.sources, most.file, most.line)
            line = unended.line if unended is not None else most.as_line
            return Suspect("asks", line=line, grown=tuple(grown), unended=unended)
        holder = Holder(kept.variable, kept.owner, owner_file=kept.line.file)
        return Suspect("puts", kept.name, holder, kept.line, grown=tuple(grown))
    return Suspect(grown=tuple(grown))


def copied_in(team: Team) -> Suspect:
    """What holds most of the Python objects that they inherited.

    Nothing where the parent holds far less than they copied: an interpreter with torch in it copies some by itself.
    """
    most = team.inherited
    copied_each = sum(team.copied) / max(1, len(team.copied))
    if most is None or most.bytes < DATA_SHARE * copied_each:
        return Suspect()
    return Suspect("inherited", most.name, most.holder, most.line, held_bytes=most.bytes, path=most.path)


def _own_lines(case: Case, worker: ProcessGrowth) -> list[GrowthLine]:
    """Lines under which memory of a worker grew, without those of its parent that made it."""
    lines = lines_of(case.growth, worker, case.sources)
    return [line for line in lines if line.file in _files_since_fork(line.stack)]


def _files_since_fork(stack: str) -> set[str]:
    """Of the calls since the process began: those before are its parent's, which stand on its stack for ever."""
    calls = calls_of(stack)
    begins = [
        i for i, call in enumerate(calls) if "multiprocessing/process.py" in call.file or call.name == "_bootstrap"
    ]
    return {call.file for call in calls[begins[-1] + 1 if begins else 0 :]}
