"""What filled the memory of a process that was killed: what the other analyzers found, else what it held last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..facts.case import Case
from ..facts.code.adding import adding_lines
from ..facts.heap.comparable import Heap
from ..facts.heap.place import Place
from ..facts.processes.table import Process
from ..facts.subject import subject_of
from ..facts.where.holders import about, defined_at, holder_name
from ..findings import Evidence, Finding, Subject, in_order
from ..kinds import ASIDE, GROWTH, SIBLINGS, WASTE
from ..units import GOOD_PART, MOST, SLIGHT, SOME, SOON_S, GiB, format_bytes, format_duration, format_rate, over

_SAME_S = SOON_S  # who ended later than so long before it was there with it
_WORTH_A_WORD_S = 7 * 86400.0  # a GiB that lasts longer is no growth of this run
_LEAST_REST = 0.01  # of what it held: the interpreter alone, say


@dataclass(frozen=True)
class Culprit:
    """``clause`` goes on from "the kernel killed train.py"; ``finding`` is where the report says more, if it does.

    ``filled_bytes``: what its holder had by the end; ``share``: that of what its process held, or all that are alike.
    """

    clause: str
    subject: Subject
    bytes: int
    share: float
    filled_bytes: int
    finding: Finding | None = None
    bytes_per_s: float | None = None  # as it grew; None: it did not, or unclear

    @property
    def remedy(self) -> Sequence[str]:
        """What its finding advises, or else to hold less of what has a name."""
        if self.finding is not None:
            return self.finding.remedy
        if not self.subject.holder:
            return ()
        place = f" ({self.subject.file}:{self.subject.line})" if self.subject.line else ""
        return (f"hold less in {self.subject.holder}{place}: it was {self.share:.0%} of what the process held",)


def culprit(case: Case, hog: Process, so_far: Sequence[Finding]) -> Culprit | None:
    """None: nothing that has a name explains what it held."""
    held = hog.held_bytes
    if not held:
        return None
    for meaning in (GROWTH, WASTE):  # what names a holder of host memory
        own = [f for f in so_far if f.tells(meaning) and _is_about(f, hog) and f.bytes >= SOME * held]
        if own:
            return _of_finding(case, in_order(own)[0], hog, held)
    of_job = [f for f in so_far if f.tells(GROWTH, SIBLINGS) and f.bytes >= MOST * case.growth.growth_bytes > 0]
    for finding in in_order(of_job)[:1]:  # others of the job filled it, of which the kernel chose this one
        filler = next((m for m in case.processes if m.pid == finding.subject.pid and m.held_bytes), None)
        if filler is not None:
            return _of_finding(case, finding, filler, filler.held_bytes or 0)
    found = _by_snapshots(case, hog, held)
    if found is not None:
        return found
    with_it = [m for m in case.processes if m is not hog and m.born_s < hog.died_s <= m.died_s + _SAME_S]
    others = [one for one in (_by_snapshots(case, m) for m in with_it) if one is not None]
    if others:
        return max(others, key=lambda one: one.filled_bytes)
    unheld = [f for f in so_far if f.tells(ASIDE) and _is_about(f, hog) and f.subject.line and f.bytes >= SOME * held]
    return _of_finding(case, unheld[0], hog, held) if unheld else None


def _is_about(finding: Finding, hog: Process) -> bool:
    """Of workers that are all alike a finding names one."""
    subject = finding.subject
    alike = (subject.role, subject.process) == (hog.role, hog.name) and finding.tells(SIBLINGS)
    return subject.pid == hog.pid or alike


def _of_finding(case: Case, finding: Finding, hog: Process, held: int) -> Culprit:
    who = "the process"
    if finding.tells(SIBLINGS):  # its bytes are those of all of them
        alike = [
            m for m in case.processes if (m.role, m.name) == (hog.role, hog.name) and m.died_s >= hog.died_s - _SAME_S
        ]
        held = max(held, sum(m.held_bytes or 0 for m in alike))
        who = "the process" if len(alike) == 1 else "all of them"
    growth = case.growth
    seconds = growth.end_s - growth.start_s
    per_s = finding.bytes_per_hour / 3600 if finding.bytes_per_hour and not finding.wasted else None
    weighed = [
        s.y[-1] + _came_since(case, hog, s.x[-1], per_s or 0.0) for s in finding.series[:1] if s.y and s.is_of_holder
    ]  # with its beginning
    filled = round(max([finding.bytes, *weighed]))
    share = min(1.0, filled / held)
    if finding.subject.holder and per_s is not None:
        rate = format_rate(3600 * per_s, seconds)
        clause = f"{_name(finding.subject.holder)} grew {rate} over the last {format_duration(seconds)}"
    else:
        title = finding.title.partition(": ")[0] if finding.wasted else finding.title  # it lists what is wasted itself
        clause = f"{title[:1].lower()}{title[1:]}"
    clause += f": {share:.0%} of what {who} held"
    return Culprit(clause, finding.subject, finding.bytes, share, filled, finding, per_s)


def _came_since(case: Case, hog: Process, looked_s: float, per_s: float) -> float:
    """What a holder has got since it was last weighed: as it grew, and no more than its process did."""
    process = case.growth.process(hog.pid)
    if process is None or not process.time_s.size:
        return 0.0
    gained = float(process.held_bytes[-1] - np.interp(looked_s, process.time_s, process.held_bytes))
    return max(0.0, min(gained, per_s * (min(hog.died_s, float(process.time_s[-1])) - looked_s)))


def _name(holder: str) -> str:
    """Without the type, which the finding itself tells."""
    return holder.rpartition(" (")[0] or holder


def would_have_been_enough(hog: Process, blamed: Culprit | None, limit_bytes: int | None = None) -> Evidence | None:
    """How much memory the process would have needed without what filled it, or all that were under the limit; and how
    long more of it would have lasted.

    None: nothing is known to have filled it, and it did not grow; or it was there at once, as waste is, of which
    ``enough`` tells.
    """
    if blamed is not None and blamed.finding is not None and blamed.finding.wasted:
        return None
    per_s = blamed.bytes_per_s if blamed is not None else None
    parts, figures = [], dict[str, object]()
    if blamed is not None and blamed.subject.holder:
        whole = limit_bytes or hog.held_bytes or 0
        rest = round(max(_LEAST_REST * whole, whole - blamed.filled_bytes))
        parts.append(
            f"without what {_name(blamed.subject.holder)} held, about {format_bytes(rest)} would have been enough"
        )
        figures["enough_bytes"] = rest
    if per_s is not None and per_s * _WORTH_A_WORD_S >= GiB:
        per_gib = GiB / per_s
        parts.append(f"at this pace no limit is enough: a GiB more would have lasted {format_duration(per_gib)}")
        figures["seconds_per_gib"] = round(per_gib, 1)
    return Evidence("; ".join(parts), figures) if parts else None


def _by_snapshots(case: Case, hog: Process, held: int | None = None) -> Culprit | None:
    """What filled up: the run may have been too short to call it a leak, or what is left beside libraries too little.
    Else, of ``held`` bytes, what was most of it.
    """
    seen = case.heap(hog.pid)
    named = [one for one in seen.places if one.has_users_name]
    filled = _filled_up(seen, named)
    place, first, seconds = filled if filled is not None else (None, 0, 0.0)
    if place is None and held and seen.time_s.size:
        then = min(held, seen.rss_bytes[-1] or held)  # more may have come since
        place = _innermost([one for one in named if one.deep_bytes[-1] >= MOST * then])
    if place is None:
        return None
    size = int(place.deep_bytes[-1])
    share = min(1.0, size / max(hog.held_bytes or 0, 1))
    line = next(iter(adding_lines(case.sources, place.as_holder())), None)
    subject = subject_of(hog, line or defined_at(place), device="cpu", **about(place, place))
    name = _name(holder_name(place))
    if filled is None:
        clause = f"{name} held most: {format_bytes(size)}, {share:.0%} of it, at the last snapshot"
        return Culprit(clause, subject, size, share, size)
    clause = f"{name} grew from {format_bytes(first)} to {format_bytes(size)} in {format_duration(seconds)}"
    clause += f": at least {share:.0%} of what {hog.label} held"
    return Culprit(clause, subject, size, share, size, bytes_per_s=over(size - first, seconds))


def _filled_up(seen: Heap, named: Sequence[Place]) -> tuple[Place, int, float] | None:
    """The innermost that gained a good part of what the process did since some snapshot of it, with its bytes then, and
    how long ago that was: imports and the first step may have come before.
    """
    since: dict[Place, int] = {}
    for one in named:
        gained, came = (size[-1] - size[:-1] for size in (one.deep_bytes, seen.rss_bytes))
        own = np.flatnonzero((gained >= SLIGHT) & (gained >= GOOD_PART * came))
        if own.size:
            since[one] = int(own[np.argmax(gained[own])])
    gains = {one: float(one.deep_bytes[-1] - one.deep_bytes[at]) for one, at in since.items()}
    place = _innermost([one for one, gained in gains.items() if gained >= MOST * max(gains.values())])
    if place is None:
        return None
    at = since[place]
    return place, int(place.deep_bytes[at]), float(seen.time_s[-1] - seen.time_s[at])


def _innermost(places: Sequence[Place]) -> Place | None:
    return min(places, key=lambda one: (float(one.deep_bytes[-1]), -len(one.path)), default=None)


def hog_of(victim: Process | None, others: Sequence[Process], at_s: float | None) -> Process | None:
    """Who held most when it happened: the victim, unless another process of the job held more than twice as much."""
    when = at_s if at_s is not None else (victim.died_s if victim is not None else float("inf"))
    alive = [m for m in others if m.born_s <= when and m.died_s >= when - 1.0]
    most = max(alive, key=lambda m: m.held_bytes or 0, default=None)
    if victim is not None and (most is None or (most.held_bytes or 0) <= 2 * (victim.held_bytes or 0)):
        return victim
    return most
