"""Workers whose work is done: the processes of a pool or a loader live on with all that they loaded, and do nothing."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import NamedTuple

from ..confidence import STRONG, Ground
from ..facts.case import Case
from ..facts.code.adding import Line
from ..facts.code.reading import goes_on_with
from ..facts.code.starts import calls, process_start_line
from ..facts.processes.table import DATALOADER_WORKER, POOL_WORKER, SPAWNED, Process
from ..facts.series.arithmetic import level_at
from ..facts.tables import cells, only
from ..facts.where.allocations import TABLE
from ..findings import Evidence, Finding, Idle
from ..units import MOST, format_bytes, format_count, format_duration
from .sentences import at_line, wasted
from .use import progress_of

_POOLS = ("/multiprocessing/pool.py:", "/multiprocess/pool.py:", "/concurrent/futures/process.py:")  # on their stacks


_MADE_BY = {False: ("Pool", "ProcessPoolExecutor"), True: ("DataLoader",)}


class Rest(NamedTuple):
    """Workers of one parent that worked once, and have not for most of their life. **Units** seconds, bytes.

    ``line``: makes what they work for, and no line goes on with that; None: not known.
    """

    parent: Process
    line: Line | None
    workers: list[Process]
    is_loader: bool
    since_s: float
    bytes: int


def resting(case: Case) -> list[Rest]:
    """Those that are alive at the end of what was judged."""
    end_s = case.growth.end_s
    known = {process.pid: process for process in case.processes}
    teams: dict[tuple[bool, int], list[Process]] = defaultdict(list)
    pools = {one.ppid for one in case.processes if one.role == SPAWNED and _is_of_pool(one)}
    for one in case.processes:
        is_worker = one.role in (POOL_WORKER, DATALOADER_WORKER) or (one.role == SPAWNED and one.ppid in pools)
        if one.died_s >= end_s and one.growth is not None and is_worker:
            teams[one.role == DATALOADER_WORKER, one.ppid].append(one)
    found = []
    for (is_loader, ppid), alive in teams.items():
        since = {id(one): _read_s(case, one, end_s) if is_loader else one.idle_since_s(end_s) for one in alive}
        idle = [one for one in alive if end_s - since[id(one)] >= MOST * (end_s - one.born_s) > 0]
        made = [call.line for call in calls(case.sources, *_MADE_BY[is_loader])]
        parent = known.get(ppid, idle[0]) if idle else None
        reached = case.once(progress_of, parent.growth) if parent is not None and parent.growth is not None else {}
        done = [line for line in made if not reached or not goes_on_with(case.sources, line, reached)]
        if parent is not None and bool(made) is bool(done):
            grown = [one.growth for one in idle if one.growth is not None]
            size = round(sum(level_at(one.time_s, one.private_bytes, end_s) for one in grown))
            since_s = max(since[id(one)] for one in idle)
            found.append(Rest(parent, done[0] if done else None, idle, is_loader, since_s, size))
    return found


def resting_pids(case: Case) -> set[int]:
    return {worker.pid for rest in case.once(resting) for worker in rest.workers}


def _is_of_pool(one: Process) -> bool:
    stacks = cells(one.growth.rows(TABLE), "stack") if one.growth is not None else ()
    return any(pool in stack for (stack,) in stacks if stack is not None for pool in _POOLS)


def _read_s(case: Case, worker: Process, end_s: float) -> float:
    """When a snapshot first saw its loader with as many batches yielded as at last, and none on its way. The end where
    the worker is busy since.
    """
    rows = case.rows("loaders")
    rows = only(rows, rows["worker_pids"].map(lambda pids: str(worker.pid) in str(pids).split(",")))
    seen = list(cells(rows, "time_s", "batches_yielded", "batches_in_flight"))
    read_s = min((time_s for time_s, *figures in seen if figures == [seen[-1][1], 0]), default=end_s)
    return float(read_s) if seen and seen[-1][2] == 0 and worker.is_idle(read_s, end_s) else end_s


def idle_pools(case: Case, kind: str, least_bytes: float, least_share: float) -> Iterator[Finding]:
    """One finding per parent whose workers rest. Of all that the job holds they have ``least_share``."""
    held = level_at(case.growth.time_s, case.growth.held_bytes, case.growth.end_s)
    for rest in case.once(resting):
        if rest.bytes >= max(least_bytes, least_share * held):
            yield _finding(case, kind, rest, wasted(case, rest.bytes, held, whose="the job"))


def _finding(case: Case, kind: str, rest: Rest, waste: tuple[str, Evidence]) -> Finding:
    count, size = len(rest.workers), format_bytes(rest.bytes)
    called = "loader" if rest.is_loader else "pool"
    who = f"{format_count(count)} {called} worker{'s' if count > 1 else ''} of {rest.parent.name}"
    line = rest.line or process_start_line(case.sources, rest.workers[0].command, is_python_child=True)
    rested_s = case.growth.end_s - rest.since_s
    figures = {"worker_count": count, "bytes": rest.bytes, "idle_s": round(rested_s, 1)}
    text = f"they used no CPU for the last {format_duration(rested_s)}, and hold {size} of their own"
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
        evidence=[Evidence(text, figures), waste[1], at_line(line, "starts them")],
        doubts=[f"the {called} may be wanted again: then starting another costs time"],
        remedy=[f"{_LET_GO[rest.is_loader]}: frees about {size}"],
        wasted=True,
        idle=[Idle(rest.bytes, "", since_s=rest.since_s)],
    )


_LET_GO = {
    False: "close the pool once its work is done (`with Pool(…) as pool:`, or terminate() and join())",
    True: "let go of the loader once it is read (del), or make it without persistent_workers",
}
