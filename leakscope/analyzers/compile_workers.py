"""Workers of torch.compile that stay alive, and what they really cost.

Looks for:     processes in which torch's inductor compiles: a sidecar with its workers, or forks of the trainer.
Why:           there are up to 32 of them, mostly idle. Forks of the trainer also keep every page alive that it has
               rewritten since: memory grows although no process allocates any.
Decides by:    what they gained, or what forks keep, min_share of the tree's growth or more; or what idle ones hold.
               By PSS and private memory: their resident memory counts shared pages once for each worker.
Mistaken when: a compilation is only about to begin: workers that are needed again are no waste.
Do:            set TORCHINDUCTOR_COMPILE_THREADS=1 (compile in the trainer itself), or a small number.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..confidence import SURE, Ground
from ..evidence.sentences import at_line, curve
from ..facts.case import Case
from ..facts.code.adding import Line, Source
from ..facts.code.starts import calls, mentions
from ..facts.growth.tree import TreeGrowth
from ..facts.processes.table import COMPILE_WORKER, Process, added_bytes, gains
from ..facts.tables import only, series
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import SIBLINGS, WASTE
from ..units import MUCH, SOME, SOON_S, WORTH, MiB, format_bytes, format_duration

NEEDS = ("processes", "process_samples")
SEEN_BY = ("processes.ppid",)
TELLS = (WASTE, SIBLINGS)
_KIND = "compile-workers"
_SIDECAR = "compile-sidecar"
_ROLES = (COMPILE_WORKER, _SIDECAR)
_SETTLED_S = SOON_S  # a worker's own start-up
_LAST_S = 3.0  # before the end: workers that end in it are ended by the job that ends itself
_KNOBS = ("TORCHINDUCTOR_WORKER_START", "worker_start_method", "TORCHINDUCTOR_COMPILE_THREADS", "compile_threads")
_STARTERS = ("wait_pool_ready", "warm_pool", "maybe_warm_pool", "compile")


class _Team(NamedTuple):
    """All compile workers alive as the job ended. **Units** bytes, at ``until_s``, the last moment they all lived.

    ``kept``: pages of the trainer's past that only forked workers hold any more, gained in the window.
    """

    workers: list[Process]
    ever: int
    born_s: float
    until_s: float
    parent: Process | None
    is_forked: bool
    is_idle: bool
    pss: float
    private: float
    rss: float
    added: float
    kept: float

    @property
    def named(self) -> str:
        """``3 compile workers and their sidecar process``: whoever counts them in ``ps`` finds as many."""
        count = sum(p.role != _SIDECAR for p in self.workers)
        if not count:
            return "the sidecar process of compile workers"
        workers = f"{count} compile worker{'s' if count != 1 else ''}"
        return workers if count == len(self.workers) else f"{workers} and their sidecar process"

    @property
    def cost(self) -> float:
        """What ending them all frees at least. Forks share with the trainer: its pages stay."""
        return self.private if self.is_forked else self.pss


def findings(
    case: Case,
    *,
    min_share: float = MUCH,  # of the growth of the tree: less is not what it suffers from
    min_bytes: int = WORTH,  # interpreters drift by a few
    min_idle_bytes: int = 128 * MiB,  # the sidecar alone, with torch in it, is 80: not worth a word
    min_idle_share: float = SOME,  # of what the whole tree holds
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding if compile workers grow, keep old pages, or idle at a price; else what they cost."""
    growth = case.growth
    everyone = case.processes
    ever = [p for p in everyone if p.role in _ROLES]
    if not ever:
        yield RuledOut(_KIND, "no compile worker was ever alive")
        return
    last_s = _work_until_s(case)
    alive = [p for p in ever if p.born_s <= growth.end_s and p.died_s >= last_s]
    if not alive:
        yield RuledOut(_KIND, f"{len(ever)} compile workers were alive, and ended again", {"worker_count": len(ever)})
        return
    team = _team(growth, everyone, alive, len(ever), last_s)
    gained = team.added + team.kept
    held = float(growth.held_bytes[-1]) if growth.held_bytes.size else 0.0
    figures = {"worker_count": len(alive), "pss_bytes": round(team.pss), "private_bytes": round(team.private)}
    if growth.leaking and gained >= max(min_bytes, min_share * growth.growth_bytes):
        yield _finding(case, team, round(gained))
    elif team.is_idle and team.cost >= max(min_idle_bytes, min_idle_share * held):
        yield _finding(case, team, round(team.cost), idle=True)
    else:
        state = "idle" if team.is_idle else "busy"
        cost = f"{format_bytes(team.pss)} together, {format_bytes(team.private)} of it private"
        yield RuledOut(_KIND, f"{team.named}, {state}, neither grow nor cost much: {cost}", figures)


def _work_until_s(case: Case) -> float:
    """Workers that are still there then are ended by the job that ends itself, on a slow machine seconds before it."""
    steps = case.rows("sentinels")
    steps = only(steps, steps["step"].notna()).drop_duplicates(["pid", "step"])
    last_step_s = float(steps["time_s"].max()) if len(steps) else case.growth.end_s
    return min(case.growth.end_s, last_step_s) - _LAST_S


def _team(
    growth: TreeGrowth, everyone: Sequence[Process], alive: list[Process], ever: int, work_until_s: float
) -> _Team:
    pids = {p.pid for p in alive}
    parent = next((p for p in everyone for w in alive if p.pid == w.ppid and p.pid not in pids), None)
    born_s = min(p.born_s for p in alive)
    end_s = min(growth.end_s, *(p.died_s for p in alive))
    start_s = min(end_s, max(growth.start_s, max(p.born_s for p in alive) + _SETTLED_S))
    forked = [p for p in alive if p.is_fork]
    kept = sum(gains(p, start_s, end_s)[1] for p in forked)
    if forked and parent is not None:
        kept += gains(parent, start_s, end_s)[1]  # no longer shared with the workers: they have the old pages
    rested_s = max(start_s, min(end_s, work_until_s))  # to end themselves takes them some work too
    late_s = rested_s - (rested_s - start_s) / 3

    def total(column: str) -> float:
        return sum(_last_reading(p, column, end_s - _LAST_S) for p in alive)

    return _Team(
        workers=alive,
        ever=ever,
        born_s=born_s,
        until_s=end_s,
        parent=parent,
        is_forked=bool(forked),
        is_idle=all(p.is_idle(late_s, rested_s) for p in alive),
        pss=total("pss_bytes"),
        private=total("uss_bytes"),
        rss=total("rss_bytes"),
        added=sum(added_bytes(p, start_s, end_s) for p in alive),
        kept=kept,
    )


def _last_reading(process: Process, column: str, at_s: float) -> float:
    """Not a line to the reading after: once its forks are gone, a process counts all it shared with them."""
    time_s, values = series(process.samples, column)
    return float(values[max(0, int(np.searchsorted(time_s, at_s)) - 1)]) if time_s.size else 0.0


def _finding(case: Case, team: _Team, bytes: int, *, idle: bool = False) -> Finding:
    who = team.named
    count = sum(p.role != _SIDECAR for p in team.workers)
    gained = {"gained_bytes": round(team.added), "kept_bytes": round(team.kept)}
    seen = f"they gained {format_bytes(team.added)}"
    if team.kept:  # the trainer rewrote its pages
        seen += f", and still hold {format_bytes(team.kept)} that they shared with the trainer before"
    title = f"{who} grow: {format_bytes(bytes, signed=True)} in all"
    if idle:
        waited = format_duration(team.until_s - team.born_s)
        title = f"{who} idle and hold {format_bytes(bytes)}, {waited} after their start"
    line = _line(case.sources)
    frees = f"{': frees' if idle else ', which saves'} about {format_bytes(bytes)}"
    nothing = "TORCHINDUCTOR_WORKER_START=subprocess starts workers that share nothing with the trainer"
    return case.finding(
        _KIND,
        title,
        severity="note" if idle else None,
        grounds=[Ground("their memory was measured; whether more will be compiled is not known", SURE)],
        bytes=bytes,
        process=team.parent or team.workers[0],
        line=line,
        holder=f"{count} compile workers {'forked from the trainer' if team.is_forked else 'of its sidecar process'} "
        "(AsyncCompile)",
        variable="AsyncCompile",
        type="process",
        library="torch._inductor",
        evidence=[None if idle else Evidence(seen, gained), *_evidence(team), at_line(line, "starts them")],
        doubts=[
            None if team.is_idle else "they were busy towards the end: memory may be given back when they are idle"
        ],
        remedy=[
            f"TORCHINDUCTOR_COMPILE_THREADS=1 compiles without workers{frees}",
            nothing if team.is_forked and not idle else None,
        ],
        series=[curve(p.label, p.growth.time_s, p.growth.held_bytes) for p in team.workers[:4] if p.growth is not None],
        wasted=idle,
    )


def _evidence(team: _Team) -> Iterator[Evidence]:
    state = "idle at the end" if team.is_idle else "busy at the end"
    figures = {
        "worker_count": len(team.workers),
        "ever": team.ever,
        "since_s": round(team.born_s, 1),
        "is_idle": team.is_idle,
    }
    yield Evidence(f"{team.named} alive since {format_duration(team.born_s)} after the start, {state}", figures)
    factor = team.rss / max(team.pss, 1.0)
    text = (
        f"they hold {format_bytes(team.pss)} (PSS), {format_bytes(team.private)} of it private; their summed RSS of "
        f"{format_bytes(team.rss)} counts shared pages several times ({factor:.1f}x)"
    )
    memory = {"pss_bytes": round(team.pss), "private_bytes": round(team.private), "rss_bytes": round(team.rss)}
    yield Evidence(text, memory)


def _line(sources: Sequence[Source]) -> Line | None:
    """Where the user set how they start, or else where he asked for a compilation."""
    line = mentions(sources, *_KNOBS)
    if line is not None:
        return line
    made = [call for name in _STARTERS for call in calls(sources, name) if name != "compile" or call.module == "torch"]
    return made[0].line if made else None
