"""Growth that no other diagnosis explains: which process, which account, what it is not, and who is suspected.

Looks for:     a growing tree of which the other findings explain less than half.
Why:           an honest "we do not know" that narrows the search is worth more than a guess.
Decides by:    the ledger; objects whose inside cannot be seen (databases, picklers, parsers) are named as suspects
               where the growth is in memory that C code asked for. The only one there is, or the one that the line
               names under which memory was seen to grow, is reported as retained-objects. What C code of a library
               asked for, as an object of it was filled that another finding names, is of that object.
Mistaken when: the holder is Python's after all, but lies deeper than the snapshots went.
Do:            look at the suspect named; else record longer, so that more snapshots are taken.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from textwrap import shorten
from typing import NamedTuple

from ..confidence import AGAINST, FAIR, STRONG, SURE, WEAK, Ground
from ..evidence.explained import explained_bytes, growing_holder
from ..evidence.leaked_references import is_partly_read
from ..evidence.retained import OBJECTS
from ..evidence.sentences import at_line, grew_at, looked_too_early
from ..facts import imported
from ..facts.accounts.ledger import accounted_share
from ..facts.case import Case
from ..facts.code.adding import adding_lines
from ..facts.code.imports import package_of
from ..facts.code.keeping import kept_as
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import no_growth
from ..facts.heap.place import Place, upwards
from ..facts.processes.inside import THROTTLED, Foreign, blind_spot, foreign
from ..facts.subject import Held, subject_of
from ..facts.tables import cells
from ..facts.where.allocations import Allocations, allocations
from ..facts.where.holders import about, defined_at
from ..facts.where.libraries import left_behind
from ..facts.where.stacks import lines_of, stays_at
from ..findings import Evidence, Finding, LedgerRow, RuledOut, Skipped, Subject
from ..kinds import ASIDE
from ..units import FULL, GOOD_PART, MOST, NEARLY_ALL, format_bytes, format_count

NEEDS = ("process_samples",)
TELLS = (ASIDE,)
AFTER = ("*", "refcount-drift")
_KIND = "unexplained-growth"
_MOST_SHOWN = 120  # characters of a command line
_ACCOUNTS = {
    "tensors": "tensors",
    "arrays": "arrays",
    "python-objects": "Python objects",
    "native": "memory of C or C++ code",
    "native-held": "native memory that objects lead to",
    "allocator-free": "memory that malloc keeps free",
    "shared-memory": "shared memory",
    "unexplained": "memory that nothing explains",
}
_OUT_OF_SIGHT = ("native", "native-held", "unexplained")  # where what an opaque object holds shows up


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_accounted_share: float = FULL,  # below, the report says what the ledger lacks
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
    if (holder := _holder_in_library(case, process, so_far)) is not None:
        yield RuledOut(_KIND, f"the rest was asked for by C code of the library that keeps {holder}, at the same line")
        return
    finding = _finding(case, process, gained - explained)
    if finding.kind == _KIND and growing_holder(so_far) is not None:
        finding = replace(finding, severity="warning")
    yield finding
    if finding.kind == OBJECTS:
        yield RuledOut(_KIND, f"the rest of the growth is attributed to {finding.subject.holder}")


def _holder_in_library(case: Case, process: ProcessGrowth, so_far: Sequence[Finding]) -> str | None:
    """A holder that is reported already, within an object of the library whose C code asked for most of the native
    memory that stays, and under the line that fills the holder: of its members Python sees a part.
    """
    line = next(iter(lines_of(case.growth, process, case.sources)), None)
    if line is None or line.library is None or line.share < MOST or not line.is_sure:
        return None
    told = {f.subject.path: f for f in so_far if f.kind == OBJECTS and f.subject.pid == process.pid}
    for place in case.heap(process.pid).places:
        one = told.get(place.said)
        is_there = one is not None and (one.subject.file, one.subject.line) == (line.file, line.line)
        packages = (package_of(above.type_name) for above in upwards(place, by_name=True))
        if one is not None and is_there and line.library in packages:
            return one.subject.holder
    return None


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
    return f"; {1 - share:.0%} of {process.label}'s growth is not explained: {why}"


class _Told(NamedTuple):
    """What is said of who may hold it. ``title``: goes on from how much the process gained, and in which account."""

    title: str
    grounds: Sequence[Ground]
    subject: Subject
    evidence: Sequence[Evidence | None] = ()
    remedy: Sequence[str] = ()
    kind: str = _KIND
    mechanism: str | None = None


def _finding(case: Case, process: ProcessGrowth, bytes: int) -> Finding:
    rows = [row for row in case.ledger if row.process == process.label and row.account in _ACCOUNTS]
    rows.sort(key=lambda row: (-row.growth_bytes, row.account))
    account, largest = (rows[0].account, rows[0].growth_bytes) if rows else ("unexplained", bytes)
    inside = len(process.rows("takes")) >= 2
    where = f"{f', {format_bytes(largest)} of it' if largest < NEARLY_ALL * bytes else ' in'} {_ACCOUNTS[account]}"
    by_account = [*_by_account(rows, inside)]
    doubts, mend = _unseen(case, process, inside)
    nobody = [Ground("nobody was seen to hold it", AGAINST)]
    other = foreign(case.recording, process.pid, process.start_ticks)
    if other is not None:
        told, where, by_account, doubts, mend = _foreign(process, other), "", [], None, None
    elif (counted := _counted(case, process, bytes)) is not None:
        told, where, nobody = _by_profile(process, counted), "", []
    elif suspects := case.heap(process.pid).opaque() if account in _OUT_OF_SIGHT else []:
        told, mend = _suspected(case, process, suspects), None
        doubts = "it is the only candidate: its contents were not measured" if inside else doubts
    else:
        told = _nobody(case, process)
        nobody, mend = ([], None) if told.mechanism is not None else (nobody, mend)
    return case.finding(
        told.kind,
        f"{process.name} gained {format_bytes(bytes)}{where}{told.title}",
        bytes_per_hour=case.bytes_per_hour(bytes),
        grounds=[*nobody, *told.grounds],
        bytes=bytes,
        subject=told.subject,
        evidence=[*by_account, *told.evidence],
        doubts=[doubts],
        remedy=[*told.remedy, mend],
        mechanism=told.mechanism,
    )


def _by_account(rows: Sequence[LedgerRow], inside: bool) -> Iterator[Evidence]:
    figures = {row.account: row.growth_bytes for row in rows}
    grown = [f"{_ACCOUNTS[r.account]} {format_bytes(r.growth_bytes, signed=True)}" for r in rows if r.growth_bytes > 0]
    if grown:
        yield Evidence(f"by account: {', '.join(grown)}", figures)
    known = [figures[account] for account in ("python-objects", "arrays", "tensors") if account in figures]
    if inside and known:
        yield Evidence(f"Python objects, arrays and tensors together: {format_bytes(sum(known), signed=True)}", figures)


def _unseen(case: Case, process: ProcessGrowth, inside: bool) -> tuple[str | None, str | None]:
    """What was not looked at, and what would tell."""
    again = "run it again under leakscope record: that says who holds it" if imported.files(case.recording) else None
    early = looked_too_early(_KIND, case.growth)
    if early is not None:
        look = "run leakscope snapshot from another terminal while it grows: that says who holds it"
        if (THROTTLED, process.pid) in cells(case.recording.rows["agent_notes"], "note", "pid"):
            costs_s = process.rows("takes")["take_cpu_s"].dropna()
            share = (costs_s.sum() + costs_s.iloc[-1]) / case.growth.end_s  # in which one more would have fitted
            look = f"record it with --max-overhead {math.ceil(100 * share)}%: then snapshots come while it grows"
        return early.reason, again or look
    if inside:
        diff = "look at leakscope heap --diff: it lists all that gained, also what is too little for a finding"
        part = "of its objects a part was read: who holds it was not among them"
        small = "small objects held in very many places stay below what a snapshot can see"
        return part if is_partly_read(process) else small, again or diff
    few = f"fewer than two snapshots were taken inside {process.label}: its Python objects were not checked"
    longer = "record a longer run: two snapshots are needed to see who holds it"
    return imported.why_not(case.recording) or few, again or blind_spot(case.recording, process.pid) or longer


def _foreign(process: ProcessGrowth, other: Foreign) -> _Told:
    """What it runs and who started it: all that is known of a program that only tools of its own can look into."""
    line = shorten(other.cmdline or other.program, _MOST_SHOWN, placeholder="…")
    started = Evidence(f"it was started by {other.started_by}") if other.started_by is not None else None
    look = f"look into {other.program} with a heap profiler of its own: leakscope looks into Python only"
    title = ", and is no Python: nobody looked inside"
    return _Told(title, [], subject_of(process), [Evidence(f"it runs {line}"), started], [look])


def _counted(case: Case, process: ProcessGrowth, bytes: int, min_share: float = GOOD_PART) -> Allocations | None:
    """The line of a profiler's file that has most of the growth alive; below a share, none stands out."""
    found = allocations(case.growth, process) if imported.files(case.recording) else []
    return found[0] if found and found[0].file is not None and found[0].bytes >= min_share * bytes else None


def _by_profile(process: ProcessGrowth, counted: Allocations) -> _Told:
    place = f"{(counted.file or '').rsplit('/', 1)[-1]}:{counted.line}"
    name = f" in {counted.function}()" if counted.function and counted.function.isidentifier() else ""
    way = " > ".join(counted.stack.splitlines()[-4:]).strip()
    count = f"{format_count(counted.sample_count)} allocations" if counted.sample_count else "allocations"
    figures = {"bytes": round(counted.bytes), "count": counted.sample_count}
    return _Told(
        f": {format_bytes(counted.bytes)} allocated at {place}{name} are still alive",
        [Ground("a profiler counted what is alive", SURE)],
        subject_of(process, counted),
        [Evidence(f"{count} there are alive at the end of the judged time: {way}", figures)],
    )


def _suspected(case: Case, process: ProcessGrowth, suspects: Sequence[Place]) -> _Told:
    """By objects whose inside cannot be seen: the one is best whose name is in the line under which most growth was."""
    line = next(iter(lines_of(case.growth, process, case.sources)), None)
    named = [one for one in suspects if one.reference.variable is not None and line is not None]
    seen = [one for one in named if line and re.search(rf"\b{re.escape(str(one.reference.variable))}\b", line.text)]
    suspects = seen[:1] or suspects
    first, is_one = suspects[0], len(suspects) == 1
    variable = first.reference.variable
    fed = next(iter(adding_lines(case.sources, first.as_holder())), None) if variable is not None else None
    unseen = [f"{_name(one)} is a {one.type_name}: what it holds cannot be seen from Python" for one in suspects]
    library = first.type_name.split(".", 1)[0].lstrip("_")
    held = about(first, first) | Held(holder=f"{_name(first)} ({first.type_name})")
    only = Ground("only one known object can hold it without being measured", STRONG)
    return _Told(
        f", {'most likely' if is_one else 'perhaps'} held by {_name(first)}",
        # Nothing measured what a suspect holds: that memory grew under a line with its name is the best sign there is.
        [
            only if is_one else Ground(f"{len(suspects)} known objects can hold it without being measured", WEAK),
            *([Ground("memory grew under a line that names it", FAIR)] if seen else ()),
        ],
        subject_of(process, fed or defined_at(first), library=library, **held),
        [*(Evidence(text, {"path": one.path}) for text, one in zip(unseen, suspects)), fed and at_line(fed, fed.kind)],
        [f"check what is added to {_name(first)} and never removed"],
        OBJECTS if is_one else _KIND,
    )


def _nobody(case: Case, process: ProcessGrowth) -> _Told:
    """The line that allocated most of what stays is told; first of all a call that is known to leave something."""
    left = left_behind(case.growth, process, case.sources)
    if left is not None:
        seen = f"{format_bytes(left.bytes)} of what stays was asked for by it ({left.share:.0%}), based on samples"
        traced = "it traces the program, so that no snapshots and no samples were taken meanwhile"
        return _Told(
            f", most likely kept by {left.thing.library} for {left.thing.name} at {left.line.place}",
            [Ground("the program calls what is known to keep it", STRONG if left.share else FAIR)],
            subject_of(process, left.line, library=left.thing.library),
            [at_line(left.line, "calls it"), Evidence(seen if left.share else traced, {"share": round(left.share, 3)})],
            [left.thing.let_go or ""],
            mechanism="library-registry",
        )
    title = ", and its holder is unknown"
    line = None if imported.files(case.recording) else stays_at(case.growth, process, case.sources)
    if line is None:
        return _Told(title, [], subject_of(process))
    kept = kept_as(case.sources, line.as_line)
    kept = kept if kept is not None and kept.is_container else None
    share = Ground(f"{line.share:.0%} of what was seen to stay is of one line", WEAK)
    seen = f"{format_bytes(line.bytes)} of what stays was allocated at {line.place}"
    if kept is None:
        remedy = f"see what keeps what {line.place} makes"
        return _Told(f"{title}; {seen}", [share], subject_of(process, line), [grew_at(line)], [remedy])
    held = Held(holder=kept.name, variable=kept.variable)
    if kept.library is None:
        remedy = f"see whether {line.place} adds to {kept.name} without end: bound it, or remove what is not needed"
        title = f"{title}; {seen} and put into {kept.name}"
        return _Told(title, [share], subject_of(process, line, **held), [grew_at(line)], [remedy])
    return _Told(
        f", most likely kept by {kept.name} ({kept.library}): {seen} and given to {kept.method}() at {kept.line.place}",
        [share],
        subject_of(process, kept.line, library=kept.library, **held),
        [grew_at(line), at_line(kept.line, f"gives it to {kept.name}")],
        [
            f"call what undoes {kept.name}.{kept.method}() once {kept.line.place} is done with what it gives, "
            f"or give it to an object of {kept.library} that ends with the work"
        ],
        mechanism="library-registry",
    )


def _name(place: Place) -> str:
    """``Journal.pickler``: the variable with what it belongs to."""
    return ".".join(filter(None, (place.reference.owner, place.reference.variable))) or place.path
