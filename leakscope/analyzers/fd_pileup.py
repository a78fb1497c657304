"""Open files, sockets and pipes that pile up.

Looks for:     a process whose number of open descriptors keeps rising.
Why:           at the limit (often 1024) every open() fails with "too many open files"; and what each refers to, a
               buffer, a socket, a shared segment, stays in memory.
Decides by:    min_descriptors more at the end, still rising then, and by a third of what there were.
Mistaken when: a cache of open files is bounded and still being filled.
Do:            close what was opened: open it in a with statement.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..agent import libraries
from ..confidence import AGAINST, SURE, Ground
from ..evidence.keepers import DESCRIPTORS, opening_line
from ..evidence.pile import OwnPile, rising, up_to_the_end
from ..evidence.sentences import at_line
from ..facts.accounts.ledger import growth_of
from ..facts.case import Case
from ..facts.code.adding import Line, Source
from ..facts.code.starts import calls
from ..facts.growth.processes import ProcessGrowth
from ..facts.series.arithmetic import Floats
from ..facts.tables import by_look, series
from ..facts.where.allocations import NATIVE
from ..facts.where.stacks import GrowthLine, lines_of
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import PILE
from ..storage import Rows
from ..units import MOST, MUCH, format_bytes

NEEDS = ("process_samples",)
SEEN_BY = ("process_samples.fd_count",)
TELLS = (PILE,)
AFTER = ("shared-memory",)
_KIND = "fd-pileup"
_SOME = MUCH  # of those that were gained: a path that stands for the others
_SHARED = "shared-memory"
_CLOSE = "close each one after use: a with statement does so even when an error is raised"
_CLOSE_SEGMENT = "close() each segment after use, also when an error is raised; who is last calls unlink()"
# The calls that open what a kind stands for; a shared segment is the shared-memory finding's own.
_NAMES = {
    "file": "open files",
    "deleted-file": "deleted files that are still open",
    "socket": "sockets",
    "pipe": "pipes",
    _SHARED: "descriptors of shared memory",
    "device": "descriptors of devices",
}


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_descriptors: int = 16,  # a library opens a handful when it is first used
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process whose descriptors pile up, or the most that were seen."""
    piles = [_pile(process) for process in case.growth.processes]
    growing, undecided = rising(piles, min_descriptors)
    found = [_finding(case, pile) for pile in growing]
    segments = {finding.subject.pid for finding in so_far if finding.kind == _SHARED}
    own = [one for one in found if one.subject.type != _SHARED or one.subject.pid not in segments]
    yield from own
    if found and not own:
        yield RuledOut(_KIND, f"{found[0].subject.holder} pile up with the segments of shared-memory")
    most = max((pile.most for pile in piles), default=0)
    if growing:
        return
    if undecided:
        yield Skipped(_KIND, case.growth.reason)
    elif most:
        yield RuledOut(_KIND, f"open descriptors do not pile up: at most {most}", {"most_descriptors": most})


def _pile(process: ProcessGrowth) -> OwnPile:
    count = _counts(process)
    return OwnPile(process, *up_to_the_end(process.time_s[: count.size], count, process))


def _counts(process: ProcessGrowth) -> Floats:
    """Descriptors at the times of the process's samples; between two looks in a straight line, then as at the last."""
    samples, descriptors = process.rows("process_samples"), _looks(process)
    sampled_s, sampled = series(samples, "fd_count")
    if not len(descriptors):
        return np.interp(process.time_s, sampled_s, sampled) if sampled.size else sampled
    looks_s, by_kind = by_look(descriptors, "open_count", "fd_kind")
    at_s, count = np.concatenate([sampled_s, looks_s]), np.concatenate([sampled, sum(by_kind.values())])
    order = np.argsort(at_s, kind="stable")
    return np.asarray(np.interp(process.time_s, at_s[order], count[order]), dtype=np.float64)


def _looks(process: ProcessGrowth) -> Rows:
    """At its descriptors while it was at work: one that came as it ended says nothing of the time before."""
    rows = process.rows("descriptors")
    return rows[rows["time_s"] <= process.exit_s]


def _finding(case: Case, pile: OwnPile) -> Finding:
    most = pile.most  # a program that takes itself down closes what it has
    risen = round(most - float(np.median(pile.count[:3])))
    kind, path, gained = _most_gained(_looks(pile.owner), risen)
    what = _NAMES.get(kind or "", f"descriptors of {kind}" if kind else "descriptors")
    first, last = round(float(pile.count[0])), most
    opened = f"{pile.owner.label} had {first} descriptors at first and {last} at most"
    made = _opening_lines(case.sources, kind)
    kept = pile.keeper(case, DESCRIPTORS, made[0] if made else None)
    line = opening_line(made, kept)
    held = _allocated_at(case, pile.owner, line)
    held_bytes = min(round(held.bytes), _native_growth(case, pile.owner)) if held is not None else 0
    new = f"{gained} of the new ones were {what}{f' like {path}' if path else ''}"
    samples = held.sample_count if held is not None else 0
    stay = f"{format_bytes(held_bytes)} allocated there stay, based on {samples:,} samples: what belongs to them"
    remove = f"remove each one from {kept.name} after use: what is kept there stays open"
    return case.finding(
        _KIND,
        f"{what[:1].upper()}{what[1:]} pile up: {risen} more than at the start, none of them closed",
        severity="warning",
        grounds=[
            Ground("open descriptors were counted", SURE),
            Ground("some may be a library's own: what they are is not known", AGAINST) if kind is None else None,
        ],
        bytes=held_bytes,
        process=pile.owner,
        line=line,
        holder=f"{risen} {what}{kept.words}",
        variable=kept.variable,
        path=path,
        type=kind,
        evidence=[
            Evidence(opened, {"first_count": first, "last_count": last}),
            Evidence(new, {"open_count": gained}) if kind is not None else None,
            *kept.evidence,
            at_line(line, "opens them") if line in made else None,
            Evidence(stay, {"bytes": held_bytes}) if held is not None else None,
        ],
        doubts=[
            None if line is not None else "the line that opens them was not found in the recorded sources",
            *kept.doubts,
        ],
        remedy=[_CLOSE_SEGMENT if kind == _SHARED else _CLOSE, remove if kept.name and not kept.is_each else None],
        mechanism="not-unlinked" if kind == _SHARED else "not-closed",
        series=[pile.curve("descriptors")],
    )


def _allocated_at(case: Case, process: ProcessGrowth, line: Line | None) -> GrowthLine | None:
    """What the line that opens them asked malloc for and is still there: buffers go with what they belong to."""
    if line is None or not case.growth.leaking:
        return None
    lines = lines_of(case.growth, process, case.sources, NATIVE)
    return next((one for one in lines if (one.file, one.line) == line[:2] and one.share >= MUCH), None)


def _native_growth(case: Case, process: ProcessGrowth) -> int:
    """As the ledger says, of which a line's samples are an estimate."""
    return max(0, sum(growth_of(case.ledger, account, process.label) for account in ("native", "native-held")))


def _most_gained(descriptors: Rows, risen: int) -> tuple[str | None, str | None, int]:
    """Kind, and path, of most that were gained between the first look and the last, and how many of that kind.

    None where no kind is most of what there is more, or no path a good part of that.
    """
    if not len(descriptors):
        return None, None, 0
    _, counts = by_look(descriptors, "open_count", "fd_kind", "fd_path")
    by_path = {key: count[-1] - count[0] for key, count in counts.items()}
    by_kind: Counter[Any] = Counter()
    for (kind, _), gained in by_path.items():
        by_kind[kind] += gained
    kind, most = max(by_kind.items(), key=lambda one: one[1])
    if most < MOST * risen:
        return None, None, 0
    path, of_path = max(((path, n) for (of, path), n in by_path.items() if of == kind), key=lambda one: one[1])
    return str(kind), path if isinstance(path, str) and of_path >= _SOME * most else None, int(most)


def _opening_lines(sources: Sequence[Source], kind: str | None) -> list[Line]:
    opener = libraries.named(libraries.OPENER, kind)
    made = calls(sources, *opener.made_by) if opener is not None else []
    if kind == _SHARED:  # who makes a segment has a descriptor of it, before any who opens it by its name
        made.sort(key=lambda call: not any(keyword.arg == "create" for keyword in call.node.keywords))
    return [call.line for call in made if not call.line.text.startswith(("with ", "async with "))]
