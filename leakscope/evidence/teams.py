"""What a report says of workers that keep memory or copy what they inherited."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from ..confidence import FAIR, NEUTRAL, STRONG, SURE, Ground, graded
from ..facts.case import Case
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import TreeGrowth
from ..facts.processes.forked_copies import Copies
from ..facts.processes.table import DATALOADER_WORKER, POOL_WORKER
from ..facts.processes.teams import Team
from ..facts.series.arithmetic import level_at
from ..facts.tables import series
from ..findings import Evidence, Finding, Series, Subject
from ..units import GOOD_PART, LARGE, SOME, MiB, changed, format_bytes
from .sentences import NOT_ENDED, at_line, curve, grew_at
from .suspects import DATA_SHARE, Suspect

_CALLED = {DATALOADER_WORKER: "loader worker", POOL_WORKER: "pool worker"}
_LEAST_EACH = 32 * MiB  # measured: 12 to 22 with torch and without any rows
_FEW = 4  # curves of workers that can be told apart in one chart
_BESIDE = 1.2  # times what a parent no longer shares, which is estimated: more is growth of its own


def is_costly(team: Team, suspect: Suspect, growth: TreeGrowth) -> bool:
    """Far more than an interpreter copies by itself, and enough of it can be Python objects of their parent's."""
    copies = team.copies
    if not copies.workers or copies.bytes < max(LARGE, SOME * _held_bytes(growth, copies)):
        return False
    each = copies.bytes / len(copies.workers)
    return each >= _LEAST_EACH and suspect.held_bytes >= DATA_SHARE * each


def growing(case: Case, kind: str, team: Team, suspect: Suspect) -> Finding:
    """Workers whose memory rises: by what they keep, or by what they go on to copy."""
    growth, gained, count = case.growth, team.gained, len(team.alive)
    share = min(1.0, gained / max(growth.growth_bytes, 1))
    most = max(zip(team.by_worker, team.alive), key=lambda pair: pair[0])[1]
    is_copying = _is_copying(team, suspect)
    told = suspect.finding.mechanism if suspect.finding is not None else _MECHANISMS.get(suspect.how)
    verb = "copies the memory it inherited" if is_copying else "keeps more and more memory"
    size = gained if suspect.finding is None else min(gained, _in_all(suspect.finding, count))
    title = f"{_each(team, most, count)} {verb}: {format_bytes(size, signed=True)} in all"
    if suspect.name is not None:
        likely = "in" if suspect.how == "found" else "likely in"
        title += f", {'most likely' if is_copying else likely} {suspect.name}"
    elif suspect.unended is not None:
        title += f", most of it asked for by {suspect.unended.owner} objects that nothing ends"
    elif suspect.how == "asks" and suspect.line is not None:
        title += f", most of it allocated at {suspect.line.place}"
    return case.finding(
        kind,
        title,
        grounds=[
            Ground(f"{share:.0%} of the growth is theirs", graded(share, NEUTRAL, SURE)),
            Ground("all of them grow alike", FAIR) if team.are_alike else None,
            Ground("snapshots of their own saw the holder", FAIR) if suspect.finding is not None else None,
        ],
        severity=suspect.finding.severity if suspect.finding is not None else None,
        bytes=size,
        bytes_per_hour=case.bytes_per_hour(size),
        bytes_per_step=case.bytes_per_step(size),
        subject=_subject(team, suspect, most, count),
        evidence=_evidence(growth, team, suspect, share),
        doubts=_doubts(team, suspect),
        remedy=_remedy(suspect, sum(team.by_worker) / max(1, count), count, is_copying=is_copying),
        mechanism="workers-copy" if is_copying else told,
        series=_curves(team.alive),
    )


def _in_all(found: Finding, count: int) -> int:
    """What each of ``count`` workers gained in the holder, as snapshots of some of them saw it: what they gained
    besides, as by their imports, is not the holder's.
    """
    seen = {series.process for series in found.series if series.process is not None}
    return found.bytes * count // max(1, len(seen))


def _is_copying(team: Team, suspect: Suspect) -> bool:
    return team.is_copying and suspect.how != "found"


def has_copied(case: Case, kind: str, team: Team, suspect: Suspect) -> Finding:
    """Copying that is done, or nearly: it does not go on for ever, but the memory is gone, which is waste."""
    copies, held = team.copies, _held_bytes(case.growth, team.copies)
    copied, count = int(copies.bytes), len(copies.workers)
    each, data = copies.bytes / count, int(suspect.held_bytes)
    name = suspect.name or "the data set"
    most = max(zip(copies.bytes_each, copies.workers), key=lambda pair: pair[0])[1]
    figures = {"worker_count": count, "copied_bytes": copied, "data_bytes": data}
    shared = f"{format_bytes(copied)} that the workers shared with their parent at their start are now copies"
    return case.finding(
        kind,
        f"{_each(team, most, count)} has copied {format_bytes(each)} of what it inherited, most likely {name}",
        severity="warning",
        grounds=[Ground("pages that they shared at their start are their own now", STRONG)],
        bytes=copied,
        subject=_subject(team, suspect, most, count),
        evidence=[
            Evidence(f"{shared}: {min(1.0, copied / max(held, 1.0)):.0%} of what all processes hold", figures),
            Evidence(f"the parent held {format_bytes(data)} of Python objects in {name}", {"data_bytes": data}),
            suspect.line and at_line(suspect.line, suspect.line.kind),
        ],
        doubts=["part of it is the interpreter's own, which any worker copies"],
        remedy=_remedy(suspect, each, count, is_copying=True),
        mechanism="workers-copy",
        series=_curves(copies.workers),
        wasted=True,
    )


def _held_bytes(growth: TreeGrowth, copies: Copies) -> float:
    """By all processes at the moment of the copies."""
    return level_at(growth.time_s, growth.held_bytes, copies.at_s) or float(growth.held_bytes[-1])


def _role(team: Team, worker: ProcessGrowth) -> str:
    return next(member.role for member in team.members if member.pid == worker.pid)


def _each(team: Team, worker: ProcessGrowth, count: int) -> str:
    called = _CALLED.get(_role(team, worker), "fork")
    return f"Each of {count} {called}s" if count > 1 else f"The {called}"


def _subject(team: Team, suspect: Suspect, most: ProcessGrowth, count: int) -> Subject:
    known = suspect.finding.subject if suspect.finding is not None else Subject()
    if suspect.holder is not None:
        holder, line = suspect.holder, suspect.line
        known = Subject(
            variable=holder.variable,
            path=suspect.path,
            type=holder.type_name or None,
            file=line.file if line else holder.owner_file,
            line=line.line if line else None,
            function=line.function if line else None,
            module=holder.owner_module,
        )
    elif suspect.how == "asks" and suspect.line is not None:
        line = suspect.line
        known = Subject(file=line.file, line=line.line, function=line.function)
    who = _each(team, most, count)
    who = who[0].lower() + who[1:]
    return replace(
        known,
        pid=most.pid if known.pid is None else known.pid,
        process=most.name if known.process is None else known.process,
        role=_role(team, most),
        device="cpu",
        holder=f"{suspect.name} in {who}" if suspect.name else who,
        type=known.type or team.dataset_type,
        library="torch.utils.data" if team.is_loader else known.library,
    )


def _evidence(growth: TreeGrowth, team: Team, suspect: Suspect, share: float) -> Iterator[Evidence]:
    each = [format_bytes(gained) for gained in team.by_worker[:8]]
    figures = {"worker_count": len(team.alive), "gained_bytes": team.gained, "explained_share": round(share, 3)}
    text = f"since they started the workers gained {', '.join(each)}"
    if team.parent_copied >= MiB:
        text += f"; what their parent no longer shares with them adds {format_bytes(team.parent_copied)}"
    yield Evidence(f"{text}: {share:.0%} of all growth", figures)
    own, copied = int(sum(team.own)), int(team.all_copied)
    parts = [(own, "new pages"), (copied, "copies of pages that workers and parent had shared")]
    text = ", ".join(f"{format_bytes(size)} of that are {what}" for size, what in parts if size)
    yield Evidence(text or "none of it is new", {"own_bytes": own, "copied_bytes": copied})
    parent = growth.process(team.parent.pid) if team.parent is not None else None
    is_copying = _is_copying(team, suspect)
    if parent is not None and not is_copying and parent.growth_bytes > _BESIDE * team.parent_copied:
        gained = parent.growth_bytes
        yield Evidence(f"their parent, {parent.label}, {changed(gained)}", {"parent_growth_bytes": gained})
    in_use = _handed_out(growth, team)
    if not is_copying and in_use > GOOD_PART * team.gained:
        text = f"malloc allocated {format_bytes(in_use)} more in the workers"
        yield Evidence(f"{text}: what they keep is arrays, buffers or C memory", {"malloc_growth_bytes": in_use})
    if team.dataset_type is not None:
        yield Evidence(f"they read {team.dataset_type}", {"dataset_type": team.dataset_type})
    yield from map(grew_at, suspect.grown[:2])
    if suspect.how != "asks" and suspect.line is not None:
        yield at_line(suspect.line, suspect.line.kind)


def _handed_out(growth: TreeGrowth, team: Team) -> int:
    """What malloc handed out more of in the workers, by their sentinels."""
    total = 0.0
    for worker in team.alive:
        time_s, in_use = series(worker.rows("sentinels"), "malloc_in_use_bytes")
        if time_s.size:
            start_s = max(growth.start_s, float(time_s[0]))
            total += level_at(time_s, in_use, min(growth.end_s, time_s[-1])) - level_at(time_s, in_use, start_s)
    return int(total)


def _doubts(team: Team, suspect: Suspect) -> Iterator[str]:
    alone = "num_workers=0 in a short run"
    is_copying = _is_copying(team, suspect)
    if is_copying:
        yield "copying ends when each worker has its own copy of all it reads; it starts again with new workers"
    if suspect.how == "puts":
        yield (
            f"by the source it is put into {suspect.name}, whose contents were not measured: no snapshot was taken in "
            f"the workers{f', and {alone} would measure them' if team.is_loader else ''}"
        )
    elif suspect.how == "asks":
        yield "samples show who asked for the memory, not who keeps it: no snapshot was taken in the workers"
    elif suspect.how == "nothing":
        yield (f"no snapshot was taken inside them: {alone} names the holder")


_MECHANISMS = {"puts": "workers-keep", "asks": "workers-call"}


def _remedy(suspect: Suspect, bytes_each: float, count: int, *, is_copying: bool) -> Iterator[str]:
    each, where = format_bytes(bytes_each), f" at {suspect.line.place}" if suspect.line is not None else ""
    if suspect.finding is not None:  # of what comes with each sample, fewer workers get more each
        first, *more = suspect.finding.remedy
        yield f"each worker has its own {suspect.name}: {first}"
        yield from more
        return
    if is_copying:
        yield (
            f"keep {suspect.name or 'the data set'}{where} as one array, tensor or Arrow table instead of Python "
            f"objects, whose reference counts are written when they are read: saves up to {each} per worker"
        )
    elif suspect.how == "puts":
        yield f"bound or empty {suspect.name}{where}: each worker has its own, about {each} of this run's growth"
        return
    fewer = f"start fewer workers: each one costs about {each} of this run's growth"
    fewer = f"or {fewer}" if suspect.how == "asks" or is_copying else fewer
    if suspect.unended is not None:
        yield NOT_ENDED.format(one=suspect.unended)
        return
    if suspect.how == "asks":
        library = suspect.grown[0].library
        once = f"call what is called{where} less often, or once for each worker"
        yield f"{once}, or check whether a newer {library} fixes this" if library else once
    if count > 1:
        yield fewer


def _curves(workers: Sequence[ProcessGrowth]) -> list[Series]:
    return [curve(worker.label, worker.time_s, worker.private_bytes) for worker in workers[:_FEW]]
