"""Growth that no other diagnosis explains: which process, which account, what it is not, and who is suspected.

Looks for:     a growing tree of which the other findings explain less than half.
Why:           an honest "we do not know" that narrows the search is worth more than a guess.
Decides by:    the ledger; objects whose inside cannot be seen (databases, picklers, parsers) are named as suspects
               where the growth is in memory that C code asked for. The only one there is, or the one that the line
               names under which memory was seen to grow, is reported as retained-objects.
Mistaken when: the holder is Python's after all, but lies deeper than the snapshots went.
Do:            look at the suspect named; else record longer, so that more snapshots are taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from textwrap import shorten
from typing import TYPE_CHECKING, NamedTuple

from ..confidence import AGAINST, FAIR, STRONG, SURE, WEAK, Ground
from ..evidence.explained import explained_bytes
from ..evidence.retained import OBJECTS
from ..evidence.sentences import at_line, grew_at
from ..facts import imported
from ..facts.accounts.ledger import accounted_share
from ..facts.code.adding import CALLS, Line, adding_lines
from ..facts.code.keeping import Kept, kept_as
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import no_growth
from ..facts.heap.opaque import opaque_holders
from ..facts.heap.place import Place
from ..facts.heap.tree import Outside, outside_growth
from ..facts.processes.inside import Foreign, blind_spot, foreign
from ..facts.subject import Held, subject_of
from ..facts.tables import without_last
from ..facts.where.allocations import Allocations, allocations
from ..facts.where.holders import about, defined_at
from ..facts.where.stacks import GrowthLine, growth_lines
from ..findings import Evidence, Finding, LedgerRow, RuledOut, Skipped, Subject
from ..kinds import ASIDE, GROWTH
from ..units import MOST, MiB, format_bytes, format_count

if TYPE_CHECKING:
    from ..facts.case import Case

NEEDS = ("process_samples",)
TELLS = (ASIDE,)
AFTER = ("*", "refcount-drift")
_NEARLY_ALL = 0.8  # of the growth: then the rest need not be told apart
_KIND = "unexplained-growth"
_MOST_ERROR = 0.25  # of what a line allocated, by samples
_MOST_SHOWN = 120  # characters of a command line
_ACCOUNTS = {
    "tensors": "tensors",
    "arrays": "arrays",
    "python-objects": "Python objects",
    "native": "memory of C or C++ code",
    "native-held": "native memory that objects lead to",
    "allocator-free": "memory that malloc keeps free",
    "shared-memory": "shared memory",
    "unexplained": "memory that no account covers",
}
_OUT_OF_SIGHT = ("native", "native-held", "unexplained")  # where what an opaque object holds shows up


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_accounted_share: float = 0.9,  # below, the report says what the ledger lacks
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding when the others leave more than half of the growth unexplained."""
    growth = case.growth
    process = growth.main
    if not growth.leaking or process is None:
        yield no_growth(_KIND, growth)
        return
    gained = growth.growth_bytes if growth.growth_bytes > 0 else process.growth_bytes  # others may have given back more
    explained = min(gained, explained_bytes(so_far))
    if explained >= MOST * gained:  # named holders never cover all: allocators round up, and keep some
        share = explained / max(gained, 1)
        figures = {"explained_bytes": explained, "growth_bytes": gained}
        lacking = _lacking(case, process, min_accounted_share)
        yield RuledOut(_KIND, f"the findings explain {share:.0%} of the growth{lacking}", figures)
        return
    named = any(f.tells(GROWTH) and f.severity != "note" and f.subject.holder for f in so_far)
    other = foreign(case.recording, process.pid, process.start_ticks)
    if other is not None:
        yield _of_foreign(case, process, gained - explained, other, beside=named)
        return
    finding = _finding(case, process, gained - explained, beside=named)
    yield finding
    if finding.kind == OBJECTS:
        yield RuledOut(_KIND, f"the rest of the growth is attributed to {finding.subject.holder}")


def _lacking(case: Case, process: ProcessGrowth, min_accounted_share: float) -> str:
    """What the ledger could not put into an account, and what would tell; empty where it closes well enough."""
    share = accounted_share(case.ledger, process.label)
    if share >= min_accounted_share:
        return ""
    if not len(process.rows("sentinels")):
        why = "the process was not seen from inside (--agent off, -I, or not Python)"
    elif len(process.rows("takes")) < 2:
        why = "it has fewer than two snapshots"
    else:
        why = "objects the snapshots did not reach, or memory that libraries map themselves"
    return f"; no account covers {1 - share:.0%} of {process.label}'s growth: {why}"


def _finding(case: Case, process: ProcessGrowth, bytes: int, *, beside: bool) -> Finding:
    """``beside`` a finding that names a holder: what somebody can look at is told before what nobody knows."""
    rows = [row for row in case.ledger if row.process == process.label and row.account in _ACCOUNTS]
    rows.sort(key=lambda row: (-row.growth_bytes, row.account))
    account = rows[0].account if rows else "unexplained"
    inside = len(process.rows("takes")) >= 2
    suspects = opaque_holders(case.heap(process.pid)) if account in _OUT_OF_SIGHT else []
    seen = _named_where_it_grew(case, process, suspects)
    suspects = [seen] if seen is not None else suspects
    first = suspects[0] if suspects else None
    outside = [] if suspects else _outside(process)
    counted = _counted(case, process, bytes)
    line = _fed_by(case, first)
    stays = _stays_at(case, process) if first is None and counted is None else None
    title = f"{process.name} gained {format_bytes(bytes)}{_mostly(rows, bytes)} {_ACCOUNTS[account]}"
    if counted is not None:
        title = f"{process.name} gained {format_bytes(bytes)}: {_allocated(counted)}"
    elif first is not None:
        title += f", {'most likely' if len(suspects) == 1 else 'perhaps'} held by {_name(first)}"
    elif outside and sum(one.bytes for one in outside) >= MOST * bytes:
        title += f": {format_count(outside[0].count)} {outside[0].type_name} that C code alone holds"
    else:
        title += ", and its holder is unknown"
    if stays is not None:
        title += f"; {stays.said}"
    return case.finding(
        OBJECTS if len(suspects) == 1 else _KIND,
        title,
        severity="warning" if beside and len(suspects) != 1 else None,
        bytes_per_hour=case.bytes_per_hour(bytes),
        grounds=(
            _grounds(suspects, seen, stays) if counted is None else [Ground("a profiler counted what is alive", SURE)]
        ),
        bytes=bytes,
        subject=_subject(process, first, line, stays) if counted is None else subject_of(process, counted),
        evidence=[
            *_evidence(rows, suspects, inside, line),
            *map(_of_outside, outside[:3]),
            *([_by_stack(counted)] if counted is not None else ()),
            *([grew_at(stays.line)] if stays is not None else ()),
        ],
        doubts=_doubts(case, suspects, inside, process),
        remedy=[*([stays.remedy] if stays is not None else ()), *_remedy(case, process, first, inside)],
    )


def _of_foreign(case: Case, process: ProcessGrowth, bytes: int, other: Foreign, *, beside: bool) -> Finding:
    """What it runs and who started it: all that is known of a program that only tools of its own can look into."""
    line = shorten(other.cmdline or other.program, _MOST_SHOWN, placeholder="…")
    started = [Evidence(f"it was started by {other.started_by}")] if other.started_by is not None else []
    return case.finding(
        _KIND,
        f"{process.name} gained {format_bytes(bytes)}, and is no Python: nobody looked inside",
        severity="warning" if beside else None,
        bytes_per_hour=case.bytes_per_hour(bytes),
        grounds=_grounds([], None, None),
        bytes=bytes,
        subject=subject_of(process),
        evidence=[Evidence(f"it runs {line}"), *started],
        doubts=[],
        remedy=[f"look into {other.program} with a heap profiler of its own: leakscope looks into Python only"],
    )


def _mostly(rows: Sequence[LedgerRow], bytes: int) -> str:
    """How much of the growth is in the first account, where it is not nearly all."""
    largest = rows[0].growth_bytes if rows else bytes
    return f", {format_bytes(largest)} of it" if largest < _NEARLY_ALL * bytes else " in"


def _counted(case: Case, process: ProcessGrowth, bytes: int, min_share: float = 0.3) -> Allocations | None:
    """The line of a profiler's file that has most of the growth alive; below a share, none stands out."""
    if not imported.files(case.recording):
        return None
    found = allocations(case.growth, process)
    return found[0] if found and found[0].file is not None and found[0].bytes >= min_share * bytes else None


def _allocated(counted: Allocations) -> str:
    place = f"{(counted.file or '').rsplit('/', 1)[-1]}:{counted.line}"
    name = f" in {counted.function}()" if counted.function and counted.function.isidentifier() else ""
    return f"{format_bytes(counted.bytes)} allocated at {place}{name} are still alive"


class _Stays(NamedTuple):
    """The line that allocated most of what was seen to stay, and what that is put into, where the sources tell."""

    line: GrowthLine
    kept: Kept | None

    @property
    def place(self) -> str:
        return f"{self.line.file.rsplit('/', 1)[-1]}:{self.line.line}"

    @property
    def name(self) -> str | None:
        return ".".join(filter(None, (self.kept.owner, self.kept.variable))) if self.kept is not None else None

    @property
    def said(self) -> str:
        into = f" and put into {self.name}" if self.name is not None else ""
        return f"{format_bytes(self.line.bytes)} of what stays was allocated at {self.place}{into}"

    @property
    def remedy(self) -> str:
        if self.name is not None:
            return f"see whether {self.place} adds to {self.name} without end: bound it, or remove what is not needed"
        return f"see what keeps what {self.place} makes"


def _stays_at(case: Case, process: ProcessGrowth) -> _Stays | None:
    """By the recorder's own samples: most of what stays is of one line, of a function's, and has stayed for a while.

    It may be a small part of the growth: what is kept for good lies between what is freed, and keeps that from use.
    """
    first = next(iter(growth_lines(case.growth, process, case.sources)), None)
    if imported.files(case.recording) or first is None:
        return None  # what a profile has alive is told by how much of the growth it is
    if first.function in (None, "<module>") or first.share < MOST or first.error_share > _MOST_ERROR:
        return None
    live, settled = (sum(getattr(one, column) for one in first.alive) for column in ("live_bytes", "settled_bytes"))
    if settled < MOST * live:
        return None
    line = Line(first.file, first.line, first.function, first.text, CALLS, first.share)
    kept = kept_as(case.sources, line)
    return _Stays(first, kept if kept is not None and kept.is_container else None)


def _grounds(suspects: Sequence[Place], seen: Place | None, stays: _Stays | None) -> Iterator[Ground]:
    """Nothing measured what a suspect holds: that memory grew under a line with its name is the best sign there is."""
    yield Ground("nobody was seen to hold it", AGAINST)
    if len(suspects) == 1:
        yield Ground("only one object in sight can hold it unseen", STRONG)
    elif suspects:
        yield Ground(f"{len(suspects)} objects in sight can hold it unseen", WEAK)
    if seen is not None:
        yield Ground("memory grew under a line that names it", FAIR)
    if stays is not None:
        yield Ground(f"{stays.line.share:.0%} of what was seen to stay is of one line", WEAK)


def _by_stack(counted: Allocations) -> Evidence:
    way = " > ".join(counted.stack.splitlines()[-4:])
    count = f"{format_count(counted.sample_count)} allocations" if counted.sample_count else "allocations"
    text = f"{count} there are alive at the end of the judged time: {way.strip()}"
    return Evidence(text, {"bytes": round(counted.bytes), "count": counted.sample_count})


def _outside(process: ProcessGrowth) -> list[Outside]:
    """Objects that no name leads to: of them only C code knows who put them where."""
    takes = without_last(process.rows("takes"), process.rows("takes"))
    found = outside_growth(process.rows("heap_nodes"), process.rows("heap_children"), takes)
    return [one for one in found if one.bytes >= MiB]


def _of_outside(one: Outside) -> Evidence:
    what = f"{format_count(one.count)} more {one.type_name} that no Python object refers to"
    return Evidence(f"{what} retain {format_bytes(one.bytes)}", {"bytes": one.bytes, "count": one.count})


def _named_where_it_grew(case: Case, process: ProcessGrowth, suspects: Sequence[Place]) -> Place | None:
    """The suspect whose name is in the line under which most of the growth was seen."""
    lines = growth_lines(case.growth, process, case.sources) if suspects else []
    for suspect in suspects if lines else ():
        variable = suspect.reference.variable
        if variable is not None and re.search(rf"\b{re.escape(variable)}\b", lines[0].text):
            return suspect
    return None


def _fed_by(case: Case, suspect: Place | None) -> Line | None:
    """The line that hands something to the suspect."""
    if suspect is None or suspect.reference.variable is None:
        return None
    return next(iter(adding_lines(case.sources, suspect.as_holder())), None)


def _evidence(rows: Sequence[LedgerRow], suspects: Sequence[Place], inside: bool, line: Line | None) -> list[Evidence]:
    evidence = []
    figures = {row.account: row.growth_bytes for row in rows}
    grown = [f"{_ACCOUNTS[r.account]} {format_bytes(r.growth_bytes, signed=True)}" for r in rows if r.growth_bytes > 0]
    if grown:
        evidence.append(Evidence(f"by account: {', '.join(grown)}", figures))
    known = [row for row in rows if row.account in ("python-objects", "arrays", "tensors")]
    if inside and known:
        figure = format_bytes(sum(row.growth_bytes for row in known), signed=True)
        evidence.append(Evidence(f"Python objects, arrays and tensors together: {figure}", figures))
    for one in suspects:
        text = f"{_name(one)} is a {one.type_name}: what it holds cannot be seen from Python"
        evidence.append(Evidence(text, {"path": one.path}))
    if line is not None:
        evidence.append(at_line(line, line.kind))
    return evidence


def _remedy(case: Case, process: ProcessGrowth, first: Place | None, inside: bool) -> list[str]:
    if first is not None:
        return [f"check what is added to {_name(first)} and never removed"]
    if imported.files(case.recording):
        return ["run it again under leakscope record: that says who holds it"]
    if inside:
        return ["look at leakscope heap --diff: it lists all that gained, also what is too little for a finding"]
    blind = blind_spot(case.recording, process.pid)
    return [blind if blind is not None else "record a longer run: two snapshots are needed to see who holds it"]


def _doubts(case: Case, suspects: Sequence[Place], inside: bool, process: ProcessGrowth) -> list[str]:
    if not inside and (why := imported.why_not(case.recording)):
        return [why]
    if not inside:
        return [f"fewer than two snapshots were taken inside {process.label}: its Python objects were not checked"]
    if suspects:
        return ["it is the only candidate: its contents were not measured"]
    return ["small objects held in very many places stay below what a snapshot can see"]


def _name(place: Place) -> str:
    """``Journal.pickler``: the variable with what it belongs to."""
    return ".".join(filter(None, (place.reference.owner, place.reference.variable))) or place.path


def _subject(process: ProcessGrowth, place: Place | None, line: Line | None, stays: _Stays | None) -> Subject:
    if stays is not None:
        variable = stays.kept.variable if stays.kept is not None else None
        return subject_of(process, stays.line, holder=stays.name, variable=variable)
    if place is None:
        return subject_of(process)
    library = place.type_name.split(".", 1)[0].lstrip("_")
    told = about(place, place) | Held(holder=f"{_name(place)} ({place.type_name})")
    return subject_of(process, line or defined_at(place), library=library, **told)
