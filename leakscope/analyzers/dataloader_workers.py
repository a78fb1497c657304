"""Loader workers that copy or keep memory: the cost of one is paid once for each of them.

Looks for:     worker processes of a DataLoader whose private memory keeps rising while they live.
Why:           a fork shares its parent's memory only until it touches it, and every reference count is a touch; and
               what a data set remembers, each worker remembers for itself.
Decides by:    growth of the workers since they were born, min_share of the tree's growth or more. Copying moves pages
               from shared to private and adds none; what a worker keeps adds pages of its own.
Mistaken when: a cache that is bounded is still being filled.
Do:            keep rows in arrays, tensors or Arrow instead of Python objects; bound what __getitem__ remembers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..evidence.idle_workers import resting_pids
from ..evidence.suspects import Suspect, copied_in, kept_in
from ..evidence.teams import growing, has_copied, is_costly
from ..facts.case import Case
from ..facts.growth.processes import ProcessGrowth
from ..facts.processes.table import IDLE_SHARE
from ..facts.processes.teams import Team
from ..findings import Finding, RuledOut, Skipped
from ..kinds import SIBLINGS, WASTE
from ..units import MUCH, WORTH, format_bytes, format_count

NEEDS = ("process_samples", "processes")
SEEN_BY = ("processes.ppid",)
TELLS = (WASTE, SIBLINGS)
AFTER = ("retained-graph", "retained-objects")  # a worker that is no fork takes snapshots: they name its holder
_KIND = "dataloader-workers"


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_share: float = MUCH,  # of the growth of the tree: less is not what it suffers from
    min_bytes: int = WORTH,  # heaps of Python settle by a few
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per parent whose workers keep growing or have copied its data, or what they cost."""
    growth = case.growth
    teams = [team for team in case.teams if team.is_loader]
    if not teams:
        yield RuledOut(_KIND, "no loader worker was seen")
    for team in teams:
        copied, pids = copied_in(team), [worker.pid for worker in team.alive]
        enough = max(min_bytes, min_share * growth.growth_bytes)
        if growth.leaking and team.is_growing(growth) and team.gained >= enough:
            yield growing(case, _KIND, team, _suspect(case, team, copied, so_far))
        elif is_costly(team, copied, growth) and not (pids and case.once(resting_pids).issuperset(pids)):
            yield has_copied(case, _KIND, team, copied)
        elif growth.leaking is None:
            yield Skipped(_KIND, growth.reason)
        else:
            yield _ruled_out(team, growth.end_s)


def _suspect(case: Case, team: Team, copied: Suspect, so_far: Sequence[Finding]) -> Suspect:
    """What they copy, where that is most of it and can be; else what they keep."""
    if team.is_copying and copied.name is not None:
        return copied
    kept = kept_in(case, team, so_far)
    return copied if team.is_copying and kept.how != "found" else kept


def _ruled_out(team: Team, end_s: float) -> RuledOut:
    """What the workers cost, for whoever wonders about them."""
    if not team.alive:
        last, count = team.members[-1].growth, len(team.members)
        held = _private_now(last) if last is not None else 0
        figures: dict[str, object] = {"worker_count": count, "private_bytes": held}
        return RuledOut(_KIND, f"{count} loader workers started and ended, and their memory was freed", figures)
    private = [_private_now(worker) for worker in team.alive]
    count, born = len(team.alive), len(team.members)
    busy = [one.busy_share(one.born_s, end_s) for one in team.members if one.growth in team.alive]
    text = f"{count} loader workers hold {format_bytes(sum(private))} of their own and do not keep growing"
    if born > count:
        text += f"; {format_count(born)} were started in all: persistent_workers is off, or new loaders are created"
    if count > 1 and max(busy) < IDLE_SHARE:
        text += f"; none was busy for more than {max(busy):.0%} of its life: fewer would do"
    figures = {
        "worker_count": count,
        "workers_started": born,
        "private_bytes": sum(private),
        "gained_bytes": team.gained,
        "busiest_share": round(max(busy), 3),
    }
    return RuledOut(_KIND, text, figures)


def _private_now(worker: ProcessGrowth) -> int:
    """What ending the worker would free, by the last reading; its share of all where it was never read."""
    read = worker.rows("process_samples")["uss_bytes"].dropna()
    return int(read.iloc[-1]) if len(read) else int(worker.private_bytes[-1])
