"""Mappings that are made and never unmapped.

Looks for:     a process whose number of mappings keeps rising.
Why:           a process may have 65,530 of them (vm.max_map_count); at that limit malloc, threads and imports fail with
               "cannot allocate memory" though memory is free.
Decides by:    min_mappings more at the last look than at the first, and late_share of them in the last third.
Mistaken when: libraries are loaded, or a cache of mapped files is filled, all through a short recording.
Do:            close each mapping, or take many small ones from one that is large.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from ..confidence import FAIR, STRONG, Ground
from ..evidence.keepers import MAPPINGS, keeper, opening_line
from ..evidence.sentences import at_line, curve
from ..facts.case import Case
from ..facts.code.adding import find_calls
from ..facts.growth.passing import started_s
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import DAY_S
from ..facts.series.arithmetic import Floats
from ..facts.tables import by_look, only
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import PILE
from ..units import FEWEST, MOST, MUCH, format_duration

NEEDS = ("memory_maps",)
TELLS = (PILE,)
AFTER = ("fd-pileup", "mapped-files", "shared-memory", "thread-pileup")  # what they tell of has mappings, too
_KIND = "map-pileup"
_USUAL_LIMIT = 65_530  # vm.max_map_count, where nobody raised it
_NAMES = {
    "anonymous": "mappings of anonymous memory",
    "file": "mappings of files",
    "deleted-file": "mappings of deleted files",
    "shared-memory": "mappings of shared memory",
    "device": "mappings of devices",
}


class _Looks(NamedTuple):
    """How many mappings a process had at each look, and of each kind."""

    owner: ProcessGrowth
    time_s: Floats
    total: Floats
    by_kind: dict[str, Floats]

    @property
    def risen(self) -> int:
        return int(self.total[-1] - self.total[0])

    @property
    def late(self) -> int:
        """Of these, in the last third of the time."""
        late_s = self.time_s[-1] - (self.time_s[-1] - self.time_s[0]) / 3
        return int(self.total[-1] - np.interp(late_s, self.time_s, self.total))

    def since(self, begin_s: float) -> _Looks | None:
        """The looks from then on; None where there are too few to tell."""
        kept = self.time_s >= begin_s
        by_kind = {kind: counts[kept] for kind, counts in self.by_kind.items()}
        return _Looks(self.owner, self.time_s[kept], self.total[kept], by_kind) if kept.sum() >= FEWEST else None


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_mappings: int = 800,  # of libraries that are loaded late some hundred were seen
    late_share: float = MUCH,  # of a steady rise it is a third
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process whose mappings pile up, or the largest rise that was seen."""
    looks = [seen for process in case.growth.processes if (seen := _looks(process)) is not None]

    def piles_up(one: _Looks) -> bool:
        return one.risen >= min_mappings and one.late >= late_share * one.risen

    piles: list[_Looks] = []
    for one in filter(piles_up, looks):
        until_s = started_s(case.recording, one.owner)
        since = one.since(until_s)
        if since is not None and piles_up(since):
            piles.append(since)
        else:
            loaded = f"{one.owner.label} loaded what it runs until {format_duration(until_s)}"
            yield RuledOut(_KIND, f"mappings do not pile up since: {loaded}", {"risen": one.risen})
    told = {finding.subject.pid: finding for finding in so_far}
    for pile in piles:
        other = told.get(pile.owner.pid)
        if other is not None:
            reason = f"the mappings of {pile.owner.label} are those of the finding {other.kind}"
            yield RuledOut(_KIND, reason, {"risen": pile.risen})
        else:
            yield _finding(case, pile)
    if not looks:
        yield Skipped(_KIND, f"too few readings of the mappings: it takes {FEWEST} before a process ends")
    elif not any(map(piles_up, looks)):
        most = max(looks, key=lambda one: one.risen)
        reason = f"mappings do not pile up: {most.owner.label} had {most.risen} more at the end than at first"
        yield RuledOut(_KIND, reason, {"risen": most.risen, "most_mappings": int(max(x.total.max() for x in looks))})


def _looks(process: ProcessGrowth) -> _Looks | None:
    """None where there are too few to tell."""
    rows = process.rows("memory_maps")
    rows = only(rows, (rows["time_s"] <= process.exit_s) & rows["map_count"].notna())
    time_s, kinds = by_look(rows, "map_count", "map_kind")
    total = sum(kinds.values(), start=np.zeros_like(time_s))
    looks = _Looks(process, time_s, total, {str(kind): count for kind, count in kinds.items()})
    return looks if time_s.size >= FEWEST else None


def _finding(case: Case, pile: _Looks) -> Finding:
    first, last = int(pile.total[0]), int(pile.total[-1])
    kind, gained = max(((kind, int(n[-1] - n[0])) for kind, n in pile.by_kind.items()), key=lambda pair: pair[1])
    what = _NAMES.get(kind, "mappings") if gained >= MOST * pile.risen else "mappings"
    had = f"{pile.owner.label} had {first:,} mappings at first and {last:,} at the end"
    made = find_calls(case.sources, "mmap.mmap", "numpy.memmap")
    kept = keeper(case, pile.owner, MAPPINGS, (pile.time_s, pile.total), made[0] if made else None)
    line = opening_line(made, kept)
    per_s = pile.risen / max(float(pile.time_s[-1] - pile.time_s[0]), 1.0)
    left_s = max(0.0, (_USUAL_LIMIT - last) / per_s)
    limit = f"at this rate the usual limit of {_USUAL_LIMIT:,} (vm.max_map_count) is reached in "
    return case.finding(
        _KIND,
        f"{what[:1].upper()}{what[1:]} pile up: {pile.risen:,} more than at the start",
        severity="warning" if left_s < DAY_S else "note",
        grounds=[
            Ground("mappings were counted; looks are few, and a library may mean to keep some", STRONG),
            Ground("the line that makes them is known", FAIR) if line is not None else None,
        ],
        bytes=0,  # an address range; what lies in it, others tell
        process=pile.owner,
        line=line,
        holder=f"{what}{kept.words}",
        variable=kept.variable,
        type="mmap.mmap" if line is not None else None,
        evidence=[
            Evidence(had, {"first_count": first, "last_count": last}),
            Evidence(f"{gained:,} of the new ones were {_NAMES.get(kind, kind)}", {"map_count": gained}),
            *kept.evidence,
            at_line(line, "makes them"),
            Evidence(f"{limit}{format_duration(left_s)}", {"limit_count": _USUAL_LIMIT, "left_s": round(left_s)}),
        ],
        doubts=[
            None if line is not None else "the line that maps them was not found in the recorded sources",
            *kept.doubts,
        ],
        remedy=["close() each mapping after use, or take many small pieces from one large mapping"],
        mechanism="not-closed",
        series=[curve("mappings", pile.time_s, pile.total, "mappings")],
    )
