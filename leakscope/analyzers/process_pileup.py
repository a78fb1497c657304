"""Child processes that are started again and again and never end, or end and are never waited for.

Looks for:     children of one program, or ended children nobody waited for (zombies), whose number keeps rising.
Why:           each child costs its own memory, and even a zombie a place in the table of processes: at the limit of
               processes nothing can be started any more.
Decides by:    min_processes more at the end, still rising then, by min_fraction of what there were.
Mistaken when: a pool is filled to its size only towards the end of the recording.
Do:            end and wait for the old child before another is started, or let one pool do the work.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..evidence.keepers import PROCESSES, Keeper, keeper
from ..facts.code.adding import Line
from ..facts.code.starts import process_start_line
from ..facts.growth.counts import judge_count, up_to_the_end
from ..facts.growth.tree import TreeGrowth, severity_of
from ..facts.processes.table import COMPILE_WORKER, DATALOADER_WORKER, Process, alive_counts
from ..facts.series.arithmetic import Floats, level_at
from ..facts.series.trend import CANNOT_TELL, GROWING
from ..findings import Evidence, Finding, RuledOut, Series, Skipped, Subject
from ..kinds import GROWTH, PILE
from ..units import format_bytes

if TYPE_CHECKING:
    from ..facts.case import Case

NEEDS = ("processes", "process_samples")
TELLS = (GROWTH, PILE)
AFTER = ()
_KIND = "process-pileup"
_OWN_KINDS = (COMPILE_WORKER, "compile-sidecar", "launcher", "trainer")
_LEAST_MOMENTS = 64  # at which children are counted
_PASSING_LIFE = 0.5  # of the run: who lives shorter (a shell, the first of a double fork) has started nothing himself
_WAIT = "wait for each child: Popen.wait(), Process.join() or subprocess.run()"
_END_FIRST = f"end the old child before a new one is started, and {_WAIT}"
_ENDS_WORKERS = "keep one DataLoader, or let go of the old one and its iterator before the next: that ends its workers"


class _Pile(NamedTuple):
    """Children of one program and parent, and how many lived at each moment, until they are ended with the run."""

    parent: Process | None
    members: list[Process]
    time_s: Floats
    alive: Floats


def findings(
    case: Case,
    *,
    min_processes: int = 8,  # a pool or a set of loader workers may be completed late, by a few
    min_fraction: float = 0.3,  # of the usual number: 8 more beside 100 is no pile
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per parent and program whose children pile up, and per parent that leaves zombies."""
    growth = case.growth
    sources = case.sources
    everyone = case.processes
    time_s = _finely(growth.time_s)
    found, undecided = False, False
    most = 0

    def piles_up(at_s: Floats, count: Floats, parent: Process | None) -> bool | None:
        if not count.size or np.ptp(count) < min_processes:
            return False
        owner = parent.growth if parent is not None else None
        trend = judge_count(at_s, count, owner, min_count=min_processes, min_fraction=min_fraction)
        return None if trend.verdict == CANNOT_TELL else trend.verdict == GROWING

    for pile in _piles(everyone, time_s):
        most = max(most, int(pile.alive.max(initial=0)))
        answer = piles_up(pile.time_s, pile.alive, pile.parent)
        if answer:
            found = True
            first = pile.members[0]
            is_python = first.is_fork or first.role == "python-spawn"
            line = process_start_line(sources, first.command, is_python)
            kept = _keeper(case, pile.parent, pile.time_s, pile.alive, line)
            yield _finding(growth, pile, line, kept)
        undecided = undecided or answer is None
    for parent in everyone:
        count, name = _zombies(case, parent, time_s)
        answer = piles_up(time_s, count, parent)
        if answer:
            found = True
            line = process_start_line(sources, name, is_python_child=name.startswith("python"))
            yield _zombie_finding(parent, count, time_s, name, line, _keeper(case, parent, time_s, count, line))
        undecided = undecided or answer is None
    if found:
        return
    if undecided:
        yield Skipped(_KIND, growth.reason)
    else:
        figures = {"process_count": len(everyone), "most_at_once": most}
        seen = f"{len(everyone)} processes in all, at most {most} alike at once" if most else "none were seen"
        yield RuledOut(_KIND, f"children do not pile up: {seen}", figures)


def _finely(time_s: Floats) -> Floats:
    """Births and deaths are known by themselves: where samples are few, they are looked at more often."""
    return np.union1d(time_s, np.linspace(time_s[0], time_s[-1], _LEAST_MOMENTS)) if time_s.size else time_s


def _piles(everyone: list[Process], time_s: Floats) -> Iterator[_Pile]:
    by_pid = {process.pid: process for process in everyone}
    groups: dict[tuple[int, str, str], list[Process]] = defaultdict(list)
    run_s = float(np.ptp(time_s)) if time_s.size else 0.0
    for process in everyone:
        if process.role not in _OWN_KINDS:
            groups[_starter(process, by_pid, run_s), process.role, process.name].append(process)
    for (ppid, _, _), members in groups.items():
        parent = by_pid.get(ppid)
        owner = parent.growth if parent is not None else None
        yield _Pile(parent, members, *up_to_the_end(time_s, alive_counts(members, time_s), owner))


def _keeper(case: Case, parent: Process | None, time_s: Floats, count: Floats, line: Line | None) -> Keeper | None:
    if parent is None or parent.growth is None:
        return None
    return keeper(case, parent.growth, PROCESSES, (time_s, count), case.sources, line)


def _starter(process: Process, by_pid: dict[int, Process], run_s: float) -> int:
    """The nearest ancestor that stayed: shells and double forks only pass a command on."""
    ppid = process.ppid
    for _ in range(8):
        parent = by_pid.get(ppid)
        if parent is None or min(parent.died_s, process.born_s + run_s) - parent.born_s >= _PASSING_LIFE * run_s:
            break
        ppid = parent.ppid
    return ppid


def _zombies(case: Case, parent: Process, time_s: Floats) -> tuple[Floats, str]:
    """Number of its zombies at each moment, and what they were."""
    if parent.growth is None or not time_s.size:
        return np.empty(0), ""
    rows = parent.growth.rows("unreaped")
    if not len(rows):
        return np.empty(0), ""
    at_s = rows["time_s"].to_numpy(dtype=np.float64)
    count = np.concatenate([[0.0], rows["zombie_count"].to_numpy(dtype=np.float64)])
    names = Counter(rows["zombie_comm"].dropna())
    return np.interp(time_s, np.concatenate([[time_s[0]], at_s]), count), names.most_common(1)[0][0] if names else ""


def _finding(growth: TreeGrowth, pile: _Pile, line: Line | None, kept: Keeper | None) -> Finding:
    started = int(pile.alive[-3:].max() - np.median(pile.alive[:3]))
    first = pile.members[0]
    bytes = _bytes(growth, pile)
    by = f" by {pile.parent.label}" if pile.parent is not None else ""
    alive = int(pile.alive[-1])
    figures = {"first_count": int(pile.alive[0]), "last_count": alive, "started": len(pile.members)}
    evidence = [Evidence(f"{len(pile.members)} were started{by}, {alive} were alive at the end", figures)]
    if first.command:
        evidence.append(Evidence(f"their command: {first.command[:200]}"))
    if bytes:
        each = format_bytes(bytes / max(started, 1))
        evidence.append(Evidence(f"about {each} of memory for each, shared pages counted once", {"bytes": bytes}))
    title = f"Processes of {first.name} pile up: {started} more than at the start, still running"
    remedy = _ENDS_WORKERS if first.role == DATALOADER_WORKER else _END_FIRST
    return _built(
        pile.parent or first, title, first.name, bytes, started, line, kept, evidence, remedy, pile.time_s, pile.alive,
        growth,
    )  # fmt: skip


def _zombie_finding(
    parent: Process, count: Floats, time_s: Floats, name: str, line: Line | None, kept: Keeper | None
) -> Finding:
    risen = int(count[-1] - count[0])
    evidence = [
        Evidence(
            f"{parent.label} had {int(count[-1])} ended children ({name}) at the end that it never waited for",
            {"zombie_count": int(count[-1])},
        )
    ]
    title = f"Ended processes of {name} pile up: nobody waited for {risen} of them"
    return _built(parent, title, f"{name} (zombies)", 0, risen, line, kept, evidence, _WAIT, time_s, count, None)


def _built(
    parent: Process, title: str, what: str, bytes: int, count: int, line: Line | None, kept: Keeper | None,
    evidence: list[Evidence], remedy: str, time_s: Floats, counts: Floats, growth: TreeGrowth | None,
) -> Finding:  # fmt: skip
    if line is not None:
        evidence.append(Evidence(f"{line.file}:{line.line} starts processes: {line.text}", {"line": line.line}))
    evidence += kept.evidence if kept is not None else []
    doubts = [] if line is not None else ["the line that starts them was not found in the recorded sources"]
    hours = max(float(np.ptp(time_s)), 1e-9) / 3600
    return Finding(
        kind=_KIND,
        title=title,
        severity="warning" if growth is None else severity_of(growth, bytes),
        confidence=0.9,
        bytes=bytes,
        subject=Subject(
            pid=parent.pid,
            process=parent.name,
            role=parent.role,
            holder=f"{count} processes of {what}{kept.words if kept is not None else ''}",
            variable=kept.variable if kept is not None else None,
            type="process",
            file=line.file if line is not None else None,
            line=line.line if line is not None else None,
            function=line.function if line is not None else None,
        ),
        bytes_per_hour=round(bytes / hours, 1),
        evidence=evidence,
        doubts=doubts + (kept.doubts if kept is not None else []),
        remedy=[remedy],
        series=[Series("processes", time_s.tolist()[:2000], counts.tolist()[:2000], "s", "processes")],
    )


def _bytes(growth: TreeGrowth, pile: _Pile) -> int:
    """What they held more at the end of the judged window than at its start."""
    if not growth.leaking:
        return 0
    own = [p.growth for p in pile.members if p.growth is not None]
    ends = (sum(level_at(p.time_s, p.held_bytes, at_s) for p in own) for at_s in (growth.start_s, growth.end_s))
    start, end = ends
    return max(0, round(end - start))
