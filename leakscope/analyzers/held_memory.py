"""What is held and not used: results of a phase that is over; a cache, queue or list that filled and is kept since.

Looks for:     variables and attributes of yours that hold much and that no line still to run reads; then holders
               that gained much between two snapshots and have stood since, where unclear whether they are read.
               Where memory does not keep growing, also those that were full as the run ended; where unclear
               whether it does, those that gained most of what was gained.
Why:           it is no leak, and may be most of the process: a queue that nobody empties, the results of a phase that
               is over, a cache that is idle. It ends when its holder lets go.
Decides by:    min_idle_share of what its process holds and min_idle_bytes, where each line that reads it stands before
               the last one that was seen to run, or in a call that is over, and nothing else refers to it: a variable,
               a model, a block that two tables have. Else min_share and min_bytes, gained during the run (where
               unclear, most of the growth is enough); still there in the last snapshot, and hardly more than in the
               one before, or never less.
Mistaken when: it is read by a name that the source does not show, or wanted: a data set that was read in, a copy of the
               weights that evaluation uses.
Do:            release it once it is no longer needed, or nothing.

The state of an optimizer is left out as long as steps use it; and of what only stands weights of a model, and what was
there at first.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..confidence import STRONG, SURE, Ground
from ..evidence import retained
from ..evidence.idle_workers import idle_pools, resting_pids
from ..evidence.sentences import let_go, listed, looked_too_early, untyped, wasted
from ..evidence.training_state import left_by_training
from ..evidence.use import Use, reference_count, use_of
from ..facts.code.adding import Line, adding_lines
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.comparable import Heap, heap_of
from ..facts.heap.place import Place
from ..facts.heap.standing import Standing, has_key, held_by_users, shared_table, standing
from ..facts.retained.figures import is_untouched
from ..facts.series.arithmetic import level_at
from ..facts.series.trend import DRIFT_BYTES
from ..facts.subject import Held
from ..facts.where.holders import about, defined_at, holder_name, named_in
from ..findings import HELD_BY, Evidence, Finding, RuledOut, Series, Skipped
from ..kinds import HELD
from ..units import FEWEST, HARDLY, MOST, MUCH, NEARLY_ALL, SLIGHT, MiB, format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from ..facts.case import Case

NEEDS = retained.NEEDS
TELLS = (HELD,)
AFTER = ("retained-objects", "filling", "dataset-copies", "duplicate-model", "process-pileup")
_KIND = "held-memory"
_NEEDED = "whether it is still needed cannot be seen: a data set, or weights for evaluation, would look the same"
_MOST_NAMED = FEWEST


def findings(
    case: Case,
    so_far: list[Finding],
    *,
    min_bytes: int = 32 * MiB,
    min_share: float = MUCH,  # of what the process holds at its end: it has room for four others
    min_growth_share: float = MOST,  # where unclear: of what was gained
    min_idle_bytes: int = 16 * MiB,  # of all that is idle: less is not worth anybody's time
    min_idle_share: float = HARDLY,  # of what the process holds: the same
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per holder, of the processes that hold most first; one for all workers that hold it alike."""
    looked = has_idle = False
    # What a fork was born with is its parent's: there it is told, and takes memory once.
    of_parents = {place.path for p in case.growth.processes if not p.is_fork for place in case.heap(p.pid).places}
    found: dict[tuple[str, str], tuple[Standing, ProcessGrowth, list[float]]] = {}
    for process in sorted(case.growth.processes, key=lambda p: -float(p.held_bytes[-1])):
        heap = heap_of(case.recording, process.pid, 0.0, float("inf"))
        if heap is None:
            continue
        looked = True
        if process.pid in case.once(resting_pids):  # all that it holds goes with it
            continue
        least = max(min_bytes, min_share * float(process.held_bytes.max()))
        if case.growth.leaking is None:  # whoever lets it run for longer wants to know what to watch
            least = min(least, max(DRIFT_BYTES, min_growth_share * case.growth.growth_bytes))
        told = {name for f in so_far if f.subject.pid == process.pid for name in (f.subject.path, f.subject.holder)}
        idle = list(_idle(case, process, heap, so_far, of_parents if process.is_fork else ()))
        if sum(one.bytes for one in idle) >= max(min_idle_bytes, min_idle_share * float(process.held_bytes[-1])):
            has_idle = True
            yield _of_idle(case, process, idle)
        for one in standing(heap, least, _after(process, float(heap.time_s[-1])), also_filling=not case.growth.leaking):
            if not (
                {one.place.said, holder_name(one.place)} & told or _is_explained(case, process, one.place, idle, so_far)
            ):
                takes_s = [round(float(s), 3) for s in heap.time_s]
                found.setdefault((process.name, one.place.said), (one, process, takes_s))
    # Where one is made after the other, that is told, and of whom.
    is_told = any(f.kind == "process-pileup" for f in so_far)
    resting = [] if is_told else list(idle_pools(case, _KIND, min_idle_bytes, min_idle_share))
    resting += left_by_training(case, _KIND, min_idle_bytes, min_idle_share)
    yield from resting
    yield from (_finding(case, *one) for one in found.values())
    if not looked:
        yield Skipped(_KIND, "no process has two snapshots that can be compared")
    elif not (found or has_idle or resting):
        none = "no holder of yours filled during the run and kept it, or holds what nothing reads any more"
        yield looked_too_early(_KIND, case.growth, so_far) or RuledOut(_KIND, none)


class _Idle(NamedTuple):
    place: Place
    named: Place
    bytes: int
    line: Line | None
    use: Use


def _idle(
    case: Case, process: ProcessGrowth, heap: Heap, so_far: Sequence[Finding], but: Collection[str]
) -> Iterator[_Idle]:
    """The largest first; what other kinds told is left out, and what has one of the paths ``but``."""
    apart = case.heap(process.pid).own_arrays
    found: dict[str, _Idle] = {}
    for place in (place for root in heap.roots for place in held_by_users(root, _LEAST_IDLE)):
        table = shared_table(place) if not has_key(place) else None
        known = place if table is None else table
        named, lines = named_in(case.sources, known)
        is_named = known.reference.edge_kind in _READ_BY_NAME or has_key(place)
        if not is_named or place.path in but or is_untouched(place, heap, process) or _is_told(known, named, so_far):
            continue
        by_key = known.parent if known.parent is not None and has_key(known) else None
        holder = (by_key or known).as_holder()
        if by_key is not None:
            key = known.said[len(by_key.said) + 2 : -2]
            adding = [line for line in adding_lines(case.sources, by_key.as_holder(key)) if line.kind == "adds"]
            lines = adding[:1] or lines
        if table is not None:
            holder = holder._replace(is_shared=True, not_by=apart)
        references = reference_count(case, process, place)
        use = use_of(case, process, holder, known.said, is_alone=references <= 1)
        # Who waits to add to it refers to it as well; and whoever shows its memory has a name that was asked for.
        if use.is_over and (table is not None or references <= 1 + use.filling):
            made, size = lines[0] if by_key is not None and lines else _line(lines), round(float(place.deep_bytes[-1]))
            size += found[known.said].bytes if known.said in found else 0
            found[known.said] = _Idle(known, named, size, made, use)
    yield from sorted(_together(case, found.values()), key=lambda one: -one.bytes)


def _together(case: Case, found: Iterable[_Idle]) -> Iterator[_Idle]:
    """Where all that a container has under names was read last at one place, that container is what to let go of."""
    alike: dict[object, list[_Idle]] = {}
    for one in found:
        above = one.place.parent if has_key(one.place) else None
        alike.setdefault((one.use.text, above.path) if above is not None else id(one), []).append(one)
    for first, *others in alike.values():
        above, size = first.place.parent, first.bytes + sum(one.bytes for one in others)
        if others and above is not None and size >= NEARLY_ALL * float(above.deep_bytes[-1]):
            yield _Idle(above, named_in(case.sources, above)[0], size, first.line, first.use)
        else:
            yield from (first, *others)


_READ_BY_NAME = ("local", "global", "attribute", "class-attribute")  # a cache or a closure is read by calling it
_LEAST_IDLE = SLIGHT  # of one of several


def _is_told(place: Place, named: Place, so_far: Sequence[Finding]) -> bool:
    names = {holder_name(named), holder_name(place), place.said}
    told = [re.compile(rf"{re.escape(untyped(name))}(?!\w)") for name in names]
    if any(f.subject.holder in names or (f.wasted and any(one.search(f.title) for one in told)) for f in so_far):
        return True
    paths = [f.subject.path for f in so_far if f.subject.path]
    within = tuple(f"{f.subject.path}{step}" for f in so_far if f.wasted and f.subject.path for step in ".[")
    return place.said in paths or place.said.startswith(within)


def _is_explained(
    case: Case, process: ProcessGrowth, place: Place, idle: Sequence[_Idle], so_far: Sequence[Finding]
) -> bool:
    """What it holds is told in parts, or is seen to be read; where unclear whether memory grows it is told."""
    wasted = [f for f in so_far if f.wasted]
    parts = [(one.path, one.bytes) for f in wasted for one in f.idle]
    parts = parts or [(f.subject.path or "", f.bytes) for f in wasted]
    told = sum(size for path, size in parts if path.startswith(place.said))
    told += sum(one.bytes for one in idle if one.place.said.startswith(place.said))
    if _is_told(place, named_in(case.sources, place)[0], so_far) or told >= MOST * float(place.deep_bytes[-1]):
        return True
    is_known = case.growth.leaking is not None
    return is_known and use_of(case, process, place.as_holder(), place.said).is_over is False


def _of_idle(case: Case, process: ProcessGrowth, idle: Sequence[_Idle]) -> Finding:
    total = sum(one.bytes for one in idle)
    names = [one.place.said if has_key(one.place) else holder_name(one.place) for one in idle]
    # As a program ends it lets go of all: that was judged no more.
    end_s = min(case.growth.end_s, float(process.time_s[-1]))
    first, (severity, share) = idle[0], wasted(case, total, level_at(process.time_s, process.held_bytes, end_s))
    shown = names if len(names) <= _MOST_NAMED else [*names[: _MOST_NAMED - 1], f"{len(names) - _MOST_NAMED + 1} more"]
    verb = "holds" if len(idle) == 1 else "hold"
    return case.finding(
        _KIND,
        f"{listed(shown)} {verb} {format_bytes(total)} that nothing reads any more",
        severity=severity,
        grounds=[Ground("the lines that read it ran for the last time, as far as the recording shows", STRONG)],
        bytes=total,
        process=process,
        line=first.line or defined_at(first.named),
        device="cpu",
        evidence=[
            *(
                Evidence(f"{name} holds {format_bytes(one.bytes)}; {one.use.text}", {"bytes": one.bytes})
                for name, one in zip(names, idle)
            ),
            share,
        ],
        doubts=["what reads it by another name, or out of C code, is not in the sources"],
        remedy=[let_go(process, [(name, one.use, one.bytes, _members(one)) for name, one in zip(names, idle)])],
        mechanism="idle",
        wasted=True,
        idle=[one.use.idle(one.bytes, one.place.path) for one in idle],
        **(about(first.named, first.place) | Held(holder=names[0])),
    )


def _members(one: _Idle) -> tuple[str | None, float]:
    """Their type, and bytes of one."""
    count = float(one.place.length[-1]) if one.place.has_length else 0.0
    return one.place.member_type, one.bytes / count if count else 0.0


def _after(process: ProcessGrowth, last_s: float, min_share: float = 0.15) -> float | None:
    """What it gained after its last snapshot; None where less than ``min_share`` of its life was left."""
    ended_s = min(float(process.time_s[-1]), process.exit_s)
    if ended_s - last_s < min_share * (ended_s - float(process.time_s[0])):
        return None
    # As a program ends it lets go of all: the last tenth of what was left says nothing.
    last, end = (level_at(process.time_s, process.held_bytes, at) for at in (last_s, last_s + 0.9 * (ended_s - last_s)))
    return end - last


def _finding(case: Case, one: Standing, process: ProcessGrowth, takes_s: list[float]) -> Finding:
    place = one.place
    named, lines = named_in(case.sources, place)
    name, size = holder_name(named), format_bytes(one.held_bytes)
    since = f"and has hardly grown since {format_duration(one.since_s)}"
    if not one.stood:
        since = f"and was still growing in the last snapshot, at {format_duration(takes_s[-1])}"
    share = min(1.0, one.held_bytes / max(level_at(process.time_s, process.held_bytes, takes_s[-1]), 1.0))
    series = [Series(f"{HELD_BY} {name}", takes_s, [round(float(value)) for value in place.deep_bytes])]
    return case.finding(
        _KIND,
        f"{name} holds {size}, {since}",
        severity="note",
        grounds=[Ground("several snapshots weighed it; whether it is still wanted was not asked", SURE)],
        bytes=int(one.held_bytes),
        process=process,
        line=_line(lines) or defined_at(named),
        device="cpu",
        evidence=_evidence(one, takes_s, share),
        doubts=[_NEEDED],
        remedy=[f"release it once it is no longer needed: that frees about {size}"],
        series=series,
        **about(named, place),
    )


def _line(lines: Sequence[Line], sure_score: float = 0.7) -> Line | None:
    """Where it came in: what surely adds to it; else, since it stands, what made it, and no call of a method of it."""
    if lines and lines[0].score >= sure_score:
        return lines[0]
    return next((line for line in lines if line.kind == "creates"), next(iter(lines), None))


def _evidence(one: Standing, takes_s: list[float], share: float) -> Iterator[Evidence]:
    place = one.place
    first, last = format_bytes(place.deep_bytes[0]), format_bytes(one.held_bytes)
    figures = {"start_bytes": int(place.deep_bytes[0]), "end_bytes": int(one.held_bytes), "takes": len(takes_s)}
    text = f"{place.said} held {first} in the first and {last} in the last of {len(takes_s)} snapshots, at "
    text += format_duration(takes_s[-1])
    if place.has_length:
        text += f"; it has {format_count(place.length[-1])} members"
        figures["end_length"] = int(place.length[-1])
    yield Evidence(text, figures)
    yield Evidence(f"that is {share:.0%} of what its process held then", {"share": round(share, 3)})
    stood_s = takes_s[-1] - one.since_s
    if stood_s >= 1:
        yield Evidence(
            f"it stayed that large for {format_duration(stood_s)}, up to the last snapshot",
            {"stood_s": round(stood_s, 1)},
        )
    elif one.stood:
        yield Evidence("after the last snapshot its process hardly grew or shrank")
    else:
        before, apart_s = format_bytes(place.deep_bytes[-2]), format_duration(takes_s[-1] - takes_s[-2])
        yield Evidence(f"it held {before} in the snapshot before the last, {apart_s} earlier")
