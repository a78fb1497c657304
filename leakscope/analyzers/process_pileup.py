"""Child processes that are started again and again and never end, or end and are never waited for.

Looks for:     children of one program, or ended children never waited for (zombies), whose number keeps rising.
Why:           each child costs its own memory, and even a zombie a place in the table of processes: at the limit of
               processes nothing can be started any more.
Decides by:    min_processes more at the end, still rising then, and by a third of what there were.
Mistaken when: a pool is filled to its size only towards the end of the recording.
Do:            end and wait for the old child before another is started, or let one pool do the work.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from ..confidence import SURE, Ground
from ..evidence.keepers import PROCESSES
from ..evidence.pile import Pile, rising, up_to_the_end
from ..evidence.sentences import at_line
from ..facts.case import Case
from ..facts.code.starts import process_start_line
from ..facts.processes.table import COMPILE_WORKER, DATALOADER_WORKER, POOL_WORKER, Process, alive_counts
from ..facts.series.arithmetic import Floats, level_at
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import GROWTH, PILE
from ..units import MOST, format_bytes

NEEDS = ("processes", "process_samples")
SEEN_BY = ("processes.ppid",)
TELLS = (GROWTH, PILE)
_KIND = "process-pileup"
_OWN_KINDS = (COMPILE_WORKER, "compile-sidecar", "launcher", "trainer")
_LEAST_MOMENTS = 64  # at which children are counted
_WAIT = "wait for each child: Popen.wait(), Process.join() or subprocess.run()"
_END_FIRST = f"end the old child before a new one is started, and {_WAIT}"
_ENDS = {
    DATALOADER_WORKER: "keep one DataLoader, or drop the old one and its iterator before the next: that ends its "
    "workers",
    POOL_WORKER: "make one pool for all, or close each once its work is done (`with Pool(…) as pool:`)",
}


@dataclass(frozen=True, eq=False)
class _Children(Pile):
    """Children of one program and parent, and how many lived at each moment, until they are ended with the run."""

    parent: Process | None
    members: list[Process]


@dataclass(frozen=True, eq=False)
class _Zombies(Pile):
    """Ended children that their parent never waited for; ``name``: what they were."""

    parent: Process
    name: str


def findings(
    case: Case,
    *,
    min_processes: int = 8,  # a pool or a set of loader workers may be completed late, by a few
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per parent and program whose children pile up, and per parent that leaves zombies."""
    time_s = _finely(case.growth.time_s)
    children = list(_piles(case.processes, time_s))
    zombies = [_zombies(parent, time_s) for parent in case.processes]
    running, undecided = rising(children, min_processes)
    ended, zombies_undecided = rising(zombies, min_processes)
    yield from (_finding(case, pile) for pile in running)
    yield from (_zombie_finding(case, pile) for pile in ended)
    if running or ended:
        return
    if undecided or zombies_undecided:
        yield Skipped(_KIND, case.growth.reason)
    else:
        count, most = len(case.processes), max((pile.most for pile in children), default=0)
        seen = f"{count} processes in all, at most {most} of one kind at the same time" if most else "none were seen"
        figures = {"process_count": count, "most_at_once": most}
        yield RuledOut(_KIND, f"children do not pile up: {seen}", figures)


def _finely(time_s: Floats) -> Floats:
    """Births and deaths are known by themselves: where samples are few, they are looked at more often."""
    return np.union1d(time_s, np.linspace(time_s[0], time_s[-1], _LEAST_MOMENTS)) if time_s.size else time_s


def _piles(everyone: list[Process], time_s: Floats) -> Iterator[_Children]:
    by_pid = {process.pid: process for process in everyone}
    groups: dict[tuple[int, str, str], list[Process]] = defaultdict(list)
    run_s = float(np.ptp(time_s)) if time_s.size else 0.0
    for process in everyone:
        if process.role not in _OWN_KINDS:
            groups[_starter(process, by_pid, run_s), process.role, process.name].append(process)
    for (ppid, _, _), members in groups.items():
        parent = by_pid.get(ppid)
        owner = parent.growth if parent is not None else None
        alive = up_to_the_end(time_s, alive_counts(members, time_s), owner)
        yield _Children(owner, *alive, parent, members)


def _starter(process: Process, by_pid: dict[int, Process], run_s: float) -> int:
    """The nearest ancestor that stayed: shells and double forks, which live shorter, only pass a command on."""
    ppid = process.ppid
    for _ in range(8):
        parent = by_pid.get(ppid)
        if parent is None or min(parent.died_s, process.born_s + run_s) - parent.born_s >= MOST * run_s:
            break
        ppid = parent.ppid
    return ppid


def _zombies(parent: Process, time_s: Floats) -> _Zombies:
    rows = parent.growth.rows("unreaped") if parent.growth is not None else None
    if rows is None or not len(rows) or not time_s.size:
        return _Zombies(parent.growth, np.empty(0), np.empty(0), parent, "")
    at_s = np.concatenate([[time_s[0]], rows["time_s"].to_numpy(dtype=np.float64)])
    count = np.concatenate([[0.0], rows["zombie_count"].to_numpy(dtype=np.float64)])
    names = Counter(rows["zombie_comm"].dropna()).most_common(1)
    return _Zombies(parent.growth, time_s, np.interp(time_s, at_s, count), parent, names[0][0] if names else "")


def _finding(case: Case, pile: _Children) -> Finding:
    first, started, alive = pile.members[0], pile.risen, int(pile.count[-3:].max())  # the last look may see them go
    bytes = _bytes(case, pile)
    by = f" by {pile.parent.label}" if pile.parent is not None else ""
    figures = {"first_count": int(pile.count[0]), "last_count": alive, "started": len(pile.members)}
    each = format_bytes(bytes / max(int(pile.count[-1] - pile.count[0]), 1))  # of those that are in the bytes
    return _built(
        case,
        pile,
        f"Processes of {first.name} pile up: {started} more than at the start, still running",
        process=pile.parent or first,
        command=first.command,
        is_python=first.is_fork or first.role == "python-spawn",
        holder=f"{started} processes of {first.name}",
        bytes=bytes,
        evidence=[
            Evidence(f"{len(pile.members)} were started{by}, {alive} were alive at the end", figures),
            Evidence(f"their command: {first.command[:200]}") if first.command else None,
            Evidence(f"about {each} of memory for each, shared pages counted once", {"bytes": bytes})
            if bytes
            else None,
        ],
        remedy=[_ENDS.get(first.role, _END_FIRST)],
        mechanism="not-ended",
    )


def _zombie_finding(case: Case, pile: _Zombies) -> Finding:
    risen, last = int(pile.count[-1] - pile.count[0]), int(pile.count[-1])
    never = f"{pile.parent.label} had {last} ended children ({pile.name}) at the end that it never waited for"
    return _built(
        case,
        pile,
        f"Ended processes of {pile.name} pile up: {risen} of them were never waited for",
        process=pile.parent,
        command=pile.name,
        is_python=pile.name.startswith("python"),
        holder=f"{risen} processes of {pile.name} (zombies)",
        severity="warning",
        bytes=0,
        evidence=[Evidence(never, {"zombie_count": last})],
        remedy=[_WAIT],
        mechanism="not-waited-for",
    )


def _built(
    case: Case, pile: Pile, title: str, *, command: str, is_python: bool, bytes: int, holder: str,
    evidence: list[Evidence | None], **rest: Any,
) -> Finding:  # fmt: skip
    """With the line that starts them, and who keeps them."""
    line = process_start_line(case.sources, command, is_python)
    kept = pile.keeper(case, PROCESSES, line)
    unknown = "the line that starts them was not found in the recorded sources"
    return case.finding(
        _KIND,
        title,
        grounds=[Ground("births and deaths were counted; whether they are still needed is not known", SURE)],
        bytes=bytes,
        line=line,
        holder=f"{holder}{kept.words}",
        variable=kept.variable,
        type="process",
        bytes_per_hour=case.bytes_per_hour(bytes),
        evidence=[*evidence, at_line(line, "starts processes"), *kept.evidence],
        doubts=[None if line is not None else unknown, *kept.doubts],
        series=[pile.curve("processes")],
        **rest,
    )


def _bytes(case: Case, pile: _Children) -> int:
    """What they held more at the end of the judged window than at its start."""
    growth = case.growth
    if not growth.leaking:
        return 0
    own = [p.growth for p in pile.members if p.growth is not None]
    ends = (sum(level_at(p.time_s, p.held_bytes, at_s) for p in own) for at_s in (growth.start_s, growth.end_s))
    start, end = ends
    return max(0, round(end - start))
