"""What a team of workers keeps or copies, as far as the parent's snapshots and the source can tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..facts.code.adding import CALLS, Holder, Line, adding_lines
from ..facts.processes.teams import Team
from ..facts.processes.worker_code import Code, own_lines, own_stacks
from ..facts.where.inherited import object_bytes
from ..facts.where.stacks import GrowthLine, share_at
from ..findings import Finding
from ..units import MOST

if TYPE_CHECKING:
    from ..facts.case import Case


_MOST_ERROR = 0.25  # of what a line allocated, by samples
DATA_SHARE = 0.4  # of what a worker copied, seen in the parent as Python objects of the data set


@dataclass(frozen=True)
class Suspect:
    """A holder, and ``how`` it was found out: found, adds, asks, read or nothing.

    ``asks``: no holder is known, and ``grown[0]`` asked for most of what stays. ``held_bytes`` of Python objects were
    in it in the parent, at ``path``; ``grown`` are lines of the workers' under which memory grew.
    """

    how: str = "nothing"
    name: str | None = None
    holder: Holder | None = None
    line: Line | None = None
    others: tuple[str, ...] = ()
    finding: Finding | None = None
    held_bytes: float = 0.0
    path: str | None = None
    grown: tuple[GrowthLine, ...] = ()


def kept_in(case: Case, team: Team, so_far: Sequence[Finding] = ()) -> Suspect:
    """Found by a snapshot of a worker's own; else what the code they run adds to, or has rows in that may grow."""
    pids = {worker.pid for worker in team.alive}
    inside = [f for f in so_far if f.subject.pid in pids and f.subject.variable]
    if inside:
        first = max(inside, key=lambda finding: finding.bytes)
        return Suspect("found", first.subject.holder, finding=first)
    grown = own_lines(case.growth, max(team.alive, key=lambda worker: worker.growth_bytes), case.sources)
    code, datasets = _code(case, team)
    kept = code.kept(*datasets, stacks=own_stacks(case.growth, team.alive))
    # The sort is stable: where no line tells, the function that most grew under does.
    kept.sort(key=lambda holder: -share_at(grown, adding_lines(case.sources, holder)))
    if kept:
        return _first(case, "adds", kept, grown=tuple(grown))
    if grown and grown[0].share >= MOST and grown[0].error_share <= _MOST_ERROR:
        most = grown[0]
        line = Line(most.file, most.line, most.function, most.text, CALLS, most.share)
        return Suspect("asks", line=line, grown=tuple(grown))
    return _rows_read(case, team)


def copied_in(case: Case, team: Team) -> Suspect:
    """The rows their data set reads; what holds most of all they inherited, where that is far more.

    Nothing where the parent holds far less than they copied: an interpreter with torch in it copies some by itself.
    """
    rows, most = _rows_read(case, team), team.inherited
    copied_each = sum(team.copied) / max(1, len(team.copied))
    if most is not None and max(rows.held_bytes, most.bytes) < DATA_SHARE * copied_each:
        return Suspect()
    if most is None or rows.held_bytes >= MOST * most.bytes:
        return rows
    return Suspect("read", most.name, most.holder, most.line, held_bytes=most.bytes, path=most.path)


def _rows_read(case: Case, team: Team) -> Suspect:
    """By what the parent's snapshots saw; without any, as they stand in the source."""
    code, datasets = _code(case, team)
    held = object_bytes(case.recording, team.trainer_pid)
    read = sorted(code.read(*datasets), key=lambda h: -held.get((h.owner or "", h.variable), 0.0))
    if not read:
        return Suspect()
    return _first(case, "read", read, held_bytes=held.get((read[0].owner or "", read[0].variable), 0.0))


def _first(
    case: Case, how: str, holders: Sequence[Holder], *, held_bytes: float = 0.0, grown: tuple[GrowthLine, ...] = ()
) -> Suspect:
    line = next(iter(adding_lines(case.sources, holders[0])), None)
    name, *others = map(_name, holders[:4])
    return Suspect(how, name, holders[0], line, tuple(others), held_bytes=held_bytes, grown=grown)


def _code(case: Case, team: Team) -> tuple[Code, list[str]]:
    """The sources, and the classes of the data sets that loader workers read."""
    code = case.once(_read_code)
    return code, code.datasets(team.dataset_type) if team.is_loader else []


def _read_code(case: Case) -> Code:
    return Code(case.sources)


def _name(holder: Holder) -> str:
    if holder.edge_kind == "cache":
        return f"{holder.owner}() (lru_cache)"
    return f"{holder.owner}.{holder.variable}" if holder.owner else holder.variable
