"""A cache, queue or list that filled during the run and is kept since: held, not growing.

Looks for:     holders with a name of yours that gained much between two snapshots, and have stood since; where memory
               does not keep growing, also those that were full as the run ended; where nobody can tell whether it
               does, those that gained most of what was gained.
Why:           it is no leak, and may be most of the process: a queue that nobody empties, the results of a phase that
               is over, a cache that is idle. It ends when its holder lets go.
Decides by:    min_share of what its process holds and min_bytes, gained during the run (where nobody can tell, most of
               the growth is enough); still there in the last snapshot, and hardly more than in the one before, or never
               less than in any before.
Mistaken when: it is wanted: a data set that was read in, a copy of the weights that evaluation uses.
Do:            let go of it once it is no longer needed, or nothing.

Weights of a model and the state of its optimizer are left out, and so is what was there at the first snapshot.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..confidence import Ground
from ..evidence import retained
from ..facts.code.adding import Line
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.comparable import heap_of
from ..facts.heap.standing import Standing, standing
from ..facts.series.arithmetic import level_at
from ..facts.series.trend import DRIFT_BYTES
from ..facts.where.holders import about, defined_at, holder_name, named_in
from ..findings import HELD_BY, Evidence, Finding, RuledOut, Series, Skipped
from ..kinds import HELD
from ..units import MiB, format_bytes, format_count, format_duration

if TYPE_CHECKING:
    from ..facts.case import Case

NEEDS = retained.NEEDS
TELLS = (HELD,)
AFTER = ("retained-objects", "filling")
_KIND = "held-memory"


def findings(
    case: Case,
    so_far: list[Finding],
    *,
    min_bytes: int = 32 * MiB,
    min_share: float = 0.25,  # of what the process holds at its end: it has room for three others
    min_growth_share: float = 0.5,  # where nobody can tell: of what was gained
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per holder, of the processes that hold most first; one for all workers that hold it alike."""
    looked = False
    found: dict[tuple[str, str], list[tuple[Standing, ProcessGrowth, list[float]]]] = {}
    for process in sorted(case.growth.processes, key=lambda p: -float(p.held_bytes[-1])):
        heap = heap_of(case.recording, process.pid, 0.0, float("inf"))
        if heap is None:
            continue
        looked = True
        least = max(min_bytes, min_share * float(process.held_bytes.max()))
        if case.growth.leaking is None:  # whoever lets it run for longer wants to know what to watch
            least = min(least, max(DRIFT_BYTES, min_growth_share * case.growth.growth_bytes))
        told = {f.subject.path for f in so_far if f.subject.pid == process.pid}
        for one in standing(heap, least, _after(process, float(heap.time_s[-1])), also_filling=not case.growth.leaking):
            if one.place.said not in told:
                takes_s = [round(float(s), 3) for s in heap.time_s]
                found.setdefault((process.name, one.place.said), []).append((one, process, takes_s))
    for (one, process, takes_s), *alike in found.values():
        yield _finding(case, one, process, takes_s, [other.held_bytes for other, _, _ in alike])
    if not looked:
        yield Skipped(_KIND, "no process has two snapshots that can be compared")
    elif not found:
        yield RuledOut(_KIND, "no holder of yours filled during the run and kept it")


def _after(process: ProcessGrowth, last_s: float, min_share: float = 0.15) -> float | None:
    """What it gained after its last snapshot; None where less than ``min_share`` of its life was left."""
    ended_s = min(float(process.time_s[-1]), process.exit_s)
    if ended_s - last_s < min_share * (ended_s - float(process.time_s[0])):
        return None
    # As a program ends it lets go of all: the last tenth of what was left says nothing.
    last, end = (level_at(process.time_s, process.held_bytes, at) for at in (last_s, last_s + 0.9 * (ended_s - last_s)))
    return end - last


def _finding(
    case: Case, one: Standing, process: ProcessGrowth, takes_s: list[float], of_others: Sequence[float]
) -> Finding:
    """``of_others``: bytes that it holds in other processes of the same name."""
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
        grounds=[Ground("several snapshots weighed it; whether it is still wanted was not asked", 0.9)],
        bytes=int(one.held_bytes),
        process=process,
        line=_line(lines) or defined_at(named),
        device="cpu",
        evidence=[*_evidence(one, takes_s, share), *_in_others(process, of_others)],
        doubts=[
            "whether it is still needed cannot be seen: a data set, or weights for evaluation, would look the same"
        ],
        remedy=[f"let go of it once it is no longer needed: that frees about {size}"],
        series=series,
        **about(named, place),
    )


def _in_others(process: ProcessGrowth, held_bytes: Sequence[float]) -> Iterator[Evidence]:
    """Each may have its own, or what it shares with the one that it was forked from: so there is no sum."""
    if held_bytes:
        text = (
            f"{format_count(len(held_bytes))} more processes of {process.name} have one each, "
            f"of up to {format_bytes(max(held_bytes))}"
        )
        yield Evidence(text, {"process_count": len(held_bytes), "most_bytes": round(max(held_bytes))})


def _line(lines: Sequence[Line], sure_score: float = 0.7) -> Line | None:
    """Where it came in: what surely adds to it; else, since it stands, what made it, and no call of a method of it."""
    if lines and lines[0].score >= sure_score:
        return lines[0]
    return next((line for line in lines if line.kind == "creates"), next(iter(lines), None))


def _evidence(one: Standing, takes_s: list[float], share: float) -> Iterator[Evidence]:
    place = one.place
    first, last = format_bytes(place.deep_bytes[0]), format_bytes(one.held_bytes)
    figures = {"start_bytes": int(place.deep_bytes[0]), "end_bytes": int(one.held_bytes), "takes": len(takes_s)}
    text = f"{place.said} held {first} in the first and {last} in the last of {len(takes_s)} snapshots"
    if place.has_length:
        text += f"; it has {format_count(place.length[-1])} members"
        figures["end_length"] = int(place.length[-1])
    yield Evidence(text, figures)
    yield Evidence(f"that is {share:.0%} of what its process held then", {"share": round(share, 3)})
    stood_s = takes_s[-1] - one.since_s
    if stood_s >= 1:
        yield Evidence(
            f"it stood for {format_duration(stood_s)}, up to the last snapshot", {"stood_s": round(stood_s, 1)}
        )
    elif one.stood:
        yield Evidence("after the last snapshot its process hardly grew or shrank")
    else:
        before, apart_s = format_bytes(place.deep_bytes[-2]), format_duration(takes_s[-1] - takes_s[-2])
        yield Evidence(f"it held {before} in the snapshot before the last, {apart_s} earlier")
