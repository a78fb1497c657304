"""Pools whose work is done: their processes live on with all that they loaded, and do nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..confidence import STRONG, Ground
from ..facts.code.starts import process_start_line
from ..facts.processes.table import POOL_WORKER, Process
from ..facts.series.arithmetic import level_at
from ..findings import Evidence, Finding
from ..units import MOST, format_bytes, format_count, format_duration
from .sentences import at_line, wasted

if TYPE_CHECKING:
    from ..facts.case import Case


class _Rest(NamedTuple):
    workers: list[Process]
    since_s: float
    bytes: int


def idle_pools(case: Case, kind: str, least_bytes: float, least_share: float) -> Iterator[Finding]:
    """One finding per parent whose pools rest: they worked once, and have not for most of their life.

    Of all that the job holds they have ``least_share``.
    """
    end_s = case.growth.end_s
    held = level_at(case.growth.time_s, case.growth.held_bytes, end_s)
    for team in case.teams:
        rest = _rest([one for one in team.members if one.role == POOL_WORKER and one.died_s >= end_s], end_s)
        if rest is not None and rest.bytes >= max(least_bytes, least_share * held):
            waste = wasted(case, rest.bytes, held, whose="the job")
            yield _finding(case, kind, rest, team.parent or rest.workers[0], waste)


def _rest(alive: list[Process], end_s: float) -> _Rest | None:
    since = {id(one): one.idle_since_s(end_s) for one in alive}
    idle = [one for one in alive if end_s - since[id(one)] >= MOST * (end_s - one.born_s) > 0]
    if not idle:
        return None
    since_s = max(since[id(one)] for one in idle)
    grown = [one.growth for one in idle if one.growth is not None]
    return _Rest(idle, since_s, round(sum(level_at(one.time_s, one.private_bytes, end_s) for one in grown)))


def _finding(case: Case, kind: str, rest: _Rest, parent: Process, waste: tuple[str, Evidence]) -> Finding:
    count, size = len(rest.workers), format_bytes(rest.bytes)
    who = f"{format_count(count)} pool worker{'s' if count > 1 else ''} of {parent.name}"
    line = process_start_line(case.sources, rest.workers[0].command, is_python_child=True)
    rested_s = case.growth.end_s - rest.since_s
    figures = {"worker_count": count, "bytes": rest.bytes, "idle_s": round(rested_s, 1)}
    text = f"they used no core for the last {format_duration(rested_s)}, and hold {size} of their own"
    return case.finding(
        kind,
        f"{who} hold{'s' if count == 1 else ''} {size} and {'has' if count == 1 else 'have'} done nothing since "
        f"{format_duration(rest.since_s)}",
        severity=waste[0],
        grounds=[Ground("their memory and CPU time were measured; whether more work will come is not known", STRONG)],
        bytes=rest.bytes,
        process=rest.workers[0],
        line=line,
        holder=who,
        type="process",
        evidence=[
            Evidence(text, figures),
            waste[1],
            at_line(line, "starts them"),
        ],
        doubts=["the pool may be wanted again: then starting another costs time"],
        remedy=[
            "close the pool once its work is done (`with Pool(…) as pool:`, or terminate() and join()): "
            f"frees about {size}"
        ],
        wasted=True,
    )
