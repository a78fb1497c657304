"""A cache, ring or queue that memory fills up to a limit of the program's own: it levels out there.

Looks for:     containers that explain the growth and have a limit which they have not exceeded.
Why:           memory that rises as such a container fills looks like a leak until it is full, and then stands.
Decides by:    the limit of the container itself (maxlen of a deque, maxsize of an lru_cache), or one that the program
               compares its length with where members are added or taken out; by what a member takes on average.
Mistaken when: members added later are larger, or keep growing themselves.
Do:            nothing, if the memory it takes when it is full is yours to spend; else lower the limit.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..confidence import PROVEN, SURE, Ground
from ..evidence import retained
from ..evidence.sentences import at_line, looked_too_early
from ..facts.case import Case
from ..facts.growth.filling import Filling
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import no_growth
from ..facts.where.holders import about, defined_at, holder_name, named_in
from ..findings import HELD_BY, Evidence, Finding, RuledOut, Series, Skipped
from ..kinds import FILLS
from ..units import LITTLE, format_bytes, format_count, format_duration

NEEDS = retained.NEEDS
TELLS = (FILLS,)
AFTER = ("retained-objects", "retained-graph")
_KIND = "filling"
_NONE = "no container that grew was seen to have a limit"


def findings(
    case: Case, *, so_far: Sequence[Finding] = (), min_bytes: int = LITTLE
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding for each container that is filling up."""
    growth, fills = case.growth, case.growth.fills
    known = [one for one in fills.found if one.limit is not None] if fills is not None and fills.room is None else []
    main = growth.main
    if fills is None or main is None:
        unknown = looked_too_early(_KIND, growth, so_far) or RuledOut(_KIND, _NONE)
        yield no_growth(_KIND, growth) if growth.leaking is False else unknown
        return
    if not known:
        yield RuledOut(_KIND, "no container that grew has a limit that it can reach")
    for filling in known:
        if filling.growth_bytes >= min_bytes:
            yield _finding(case, filling, main)


def _finding(case: Case, filling: Filling, process: ProcessGrowth) -> Finding:
    place = filling.place
    named, lines = named_in(case.sources, place)
    name = holder_name(named)
    takes = [round(float(s), 3) for s in filling.time_s]
    series = [Series(f"{HELD_BY} {name}", takes, [float(b) for b in place.deep_bytes])]
    series.append(Series("members", takes, [float(n) for n in place.length], y_unit="count"))
    return case.finding(
        _KIND,
        _title(filling, name),
        severity="note",
        grounds=[
            Ground("the container has a limit of its own", PROVEN)
            if filling.line is None
            else Ground("the code that fills it compares its length", SURE)
        ],
        bytes=int(filling.growth_bytes),
        process=process,
        line=filling.line or next(iter(lines), None) or defined_at(named),
        device="cpu",
        evidence=list(_evidence(filling, takes)),
        doubts=list(_doubts(filling)),
        remedy=[_remedy(filling)],
        series=series,
        **about(named, place),
    )


def _title(filling: Filling, name: str) -> str:
    limit = format_count(filling.limit or 0)
    if filling.full_share >= 1:
        return f"{name} has filled up to its limit of {limit} members, with {format_bytes(filling.held_bytes)}"
    about = f"levels out at about {format_bytes(filling.level_bytes)}"
    share = f"{filling.full_share:.0%}" if not filling.is_far else f"{filling.full_share:.1%}"
    return f"{name} is filling: {share} of {limit} members; it {about}"


def _evidence(filling: Filling, takes: list[float]) -> Iterator[Evidence]:
    place = filling.place
    first, last = format_count(place.length[0]), format_count(place.length[-1])
    yield Evidence(
        f"it had {first} members in the first and {last} in the last of {len(takes)} snapshots over "
        f"{format_duration(takes[-1] - takes[0])}, and holds {format_bytes(filling.held_bytes)}",
        {"start_length": int(place.length[0]), "end_length": filling.length, "end_bytes": int(filling.held_bytes)},
    )
    if filling.line is not None:
        yield at_line(filling.line, f"keeps it to {format_count(filling.limit or 0)}")
    else:
        yield Evidence(f"it is limited to {format_count(filling.limit or 0)}", {"limit": filling.limit})
    if filling.full_in_s:
        text = f"at the pace of these snapshots it is full in {format_duration(filling.full_in_s)}"
        yield Evidence(text, {"full_in_s": round(filling.full_in_s)})
    each = filling.held_bytes / max(filling.length, 1)
    yield Evidence(
        f"a member takes {format_bytes(each)} on average: {format_count(filling.limit or 0)} of them take "
        f"{format_bytes(filling.level_bytes)}, {format_bytes(filling.needed_bytes)} more than now",
        {"level_bytes": int(filling.level_bytes), "needed_bytes": int(filling.needed_bytes)},
    )


def _doubts(filling: Filling) -> Iterator[str]:
    if filling.is_far:
        yield f"it is at {filling.full_share:.1%} of its limit: what it takes when it is full is a guess"
    if filling.line is not None and filling.full_share < 1:
        yield "the limit is read from the source: the program was not seen to keep to it yet"


def _remedy(filling: Filling) -> str:
    size = format_bytes(filling.level_bytes)
    where = f" at {filling.line.place}" if filling.line is not None else ""
    return f"nothing, if {size} is acceptable; a lower limit{where} takes proportionally less"
