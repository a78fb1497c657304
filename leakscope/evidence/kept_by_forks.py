"""Growth inside forked processes that took no inventories: what the code they run keeps, read from the source.

An inventory would copy the pages a fork shares with its parent, and those may be more than it gained. Known from
outside are how much such a process gained and which lines ran meanwhile; what those add to and never empty is the
likeliest holder, and is told as no more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..facts.code.adding import Line, adding_lines
from ..facts.code.index import Index, Scope, Source, index_of
from ..facts.code.kept import Kept, function_at, kept_by
from ..facts.code.names import Holder
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import TreeGrowth, severity_of
from ..facts.where.stacks import GrowthLine, growth_lines, growth_stacks, places_of, share_at
from ..findings import Evidence, Finding, Subject
from ..units import format_bytes, format_count

if TYPE_CHECKING:
    from ..facts.case import Case

_OTHERS = ("dataloader-worker", "compile-worker")  # have a kind of finding of their own
_ALONE, _AMONG = 0.55, 0.4  # sure of the only container that is added to, and of the likeliest of several


def findings(case: Case, growth: TreeGrowth, *, min_bytes: int, min_process_share: float) -> Iterator[Finding]:
    """One finding for the forks of each command that carry a part of the growth, where the source names a holder."""
    if not growth.leaking:
        return
    for forks in _teams(case, growth, min_process_share):
        gained = sum(fork.growth_bytes for fork in forks)
        sources = case.sources
        index = index_of(sources, "def ")
        kept = kept_by(index, _seen(case, growth, forks, index))
        if gained >= min_bytes and kept:
            lines = [
                line for line in growth_lines(growth, forks[0], sources)
                if (line.line, line.file) in places_of(_since_fork(line.stack))
            ]  # fmt: skip
            # The sort is stable: where no line tells, the function that most grew under does.
            kept.sort(key=lambda k: -share_at(lines, adding_lines(sources, k.holder)))
            yield _finding(growth, forks, gained, kept, sources, lines)


def _teams(case: Case, growth: TreeGrowth, min_process_share: float) -> list[list[ProcessGrowth]]:
    """Growing processes that said they were forked and took no two inventories, those of one name together."""
    notes = case.rows("agent_notes")
    forked = set(notes.loc[notes["note"].eq("forked").fillna(False), "pid"].dropna().astype(int))
    teams: dict[str, list[ProcessGrowth]] = defaultdict(list)
    for process in growth.processes:  # the most grown first
        is_fork = process.pid in forked and process.role not in _OTHERS and process.growth_bytes > 0
        if is_fork and len(process.rows("takes")) < 2:
            teams[process.name].append(process)
    least = min_process_share * growth.growth_bytes
    return [team for team in teams.values() if sum(fork.growth_bytes for fork in team) >= least]


def _seen(case: Case, growth: TreeGrowth, forks: Sequence[ProcessGrowth], index: Index) -> dict[Scope, float]:
    """Functions of the user's that ran in the forks, each with the bytes that memory grew while it was seen."""
    seen: dict[Scope, float] = defaultdict(float)
    for fork in forks:
        stacks = growth_stacks(growth, fork)
        for stack, grown in zip(stacks["stack"], stacks["bytes"]):
            found = {function_at(index, file, line) for line, file in places_of(_since_fork(str(stack)))}
            for scope in found:
                if scope is not None:
                    seen[scope] += max(0.0, float(grown))
    return dict(seen)


def _since_fork(stack: str) -> str:
    """The calls since the process began: those before are its parent's, which stand on its stack for ever."""
    calls = stack.split("\n")
    begins = [
        i for i, call in enumerate(calls) if "multiprocessing/process.py:" in call or call.endswith(" _bootstrap")
    ]
    return "\n".join(calls[begins[-1] + 1 :] if begins else calls)


def _finding(
    growth: TreeGrowth,
    forks: Sequence[ProcessGrowth],
    gained: int,
    kept: Sequence[Kept],
    sources: Sequence[Source],
    lines: Sequence[GrowthLine],
) -> Finding:
    holder = kept[0].holder
    name, others = _name(holder), [_name(k.holder) for k in kept[1:4]]
    line = next(iter(adding_lines(sources, holder)), None)
    first = forks[0]
    who = f"{format_count(len(forks))} processes" if len(forks) > 1 else "a process"
    seconds = max(growth.end_s - growth.start_s, 1e-9)
    return Finding(
        kind="retained-objects",
        title=f"{who} that {first.name} forked gained {format_bytes(gained)}, by their code in {name}",
        severity=severity_of(growth, gained),
        confidence=_AMONG if others else _ALONE,
        bytes=gained,
        bytes_per_hour=round(gained / seconds * 3600, 1),
        subject=_subject(first, holder, name, line),
        evidence=list(_evidence(forks, name, line, lines)),
        doubts=_doubts(name, others),
        remedy=[f"bound or empty {holder.variable}{f' at {_place(line)}' if line is not None else ''}"],
    )


def _evidence(
    forks: Sequence[ProcessGrowth], name: str, line: Line | None, lines: Sequence[GrowthLine]
) -> Iterator[Evidence]:
    each = ", ".join(f"{fork.label} {format_bytes(fork.growth_bytes, signed=True)}" for fork in forks[:4])
    yield Evidence(f"in memory of their own: {each}", {fork.label: fork.growth_bytes for fork in forks})
    for grown in lines[:2]:
        text = (
            f"{grown.file}:{grown.line}: {grown.share:.0%} of the growth that was watched happened here: {grown.text}"
        )
        yield Evidence(text, {"line": grown.line, "share": round(grown.share, 3)})
    if line is not None:
        yield Evidence(f"{line.file}:{line.line} {line.kind}: {line.text}", {"line": line.line})
    yield Evidence(f"no line of the source takes out of {name} again", {})


def _doubts(name: str, others: Sequence[str]) -> list[str]:
    doubts = [
        f"no two inventories were taken in a forked process: that it is {name} which grows is read from the source"
    ]
    if others:
        doubts.append(f"the code that ran there adds to others too: {', '.join(others)}")
    return doubts


def _subject(process: ProcessGrowth, holder: Holder, name: str, line: Line | None) -> Subject:
    return Subject(
        pid=process.pid,
        process=process.name,
        role=process.role,
        holder=name,
        variable=holder.variable,
        file=line.file if line is not None else holder.owner_file,
        line=line.line if line is not None else None,
        function=line.function if line is not None else None,
        module=holder.owner_module,
    )


def _name(holder: Holder) -> str:
    if holder.edge_kind == "cache":
        return f"{holder.owner}() (lru_cache)"
    return f"{holder.owner}.{holder.variable}" if holder.owner else holder.variable


def _place(line: Line) -> str:
    return f"{line.file.rpartition('/')[2]}:{line.line}"
