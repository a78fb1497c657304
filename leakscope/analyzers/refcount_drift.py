"""Reference counts that a C extension gets wrong: None runs out of references, or objects are never freed.

Looks for:     references that no Python object has: of None ever fewer, of other objects ever more; objects that pile
               up without a referrer.
Why:           each reference to None that is dropped once too often brings Python nearer to the fatal error
               "deallocating None"; each reference that is not dropped keeps an object for ever.
Decides by:    the count of references less those that snapshots met in objects, keys of dicts, functions and Python's
               own cache: for None a steady fall of min_fall or more, for another type a steady rise of min_kept with
               nothing made that could have them; objects without a holder whose own bytes are min_own_share of the
               growth.
Mistaken when: C code keeps references in a table of its own that grows or is emptied, and does not show them to the
               collector.
Do:            run None's case on Python 3.12 or later, where it is harmless; update the extension or do without it.
"""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, NamedTuple

import numpy as np

from ..confidence import FAIR, PROVEN, STRONG, Ground
from ..evidence.leaked_references import leaked
from ..evidence.sentences import curve
from ..facts.calls import Call
from ..facts.case import Case
from ..facts.code.imports import STANDARD_LIBRARY
from ..facts.endings.meanings import known
from ..facts.endings.texts import frames, innermost_user, said
from ..facts.growth.passing import has_gpu_history
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.references import Rest, rest_of_none, rests_of_types
from ..facts.series.arithmetic import Floats
from ..facts.series.trend import CANNOT_TELL, FLAT, GROWING, LEAST_STEPS, judge
from ..facts.tables import cells, int_of, only, series
from ..findings import NOBODY, Evidence, Finding, RuledOut, Skipped
from ..kinds import DANGER, GROWTH
from ..signals import Signal
from ..units import FEWEST, MOST, MUCH, format_count, format_duration

NEEDS = ("process_samples", "sentinels")
TELLS = (GROWTH, DANGER)
# Objects that nobody refers to are what no holder explains, nor a compiler: its tables in C++ hold what graphs need.
AFTER = ("*", "fragmentation", "recompilation")
_KIND = "refcount-drift"
_NONE_RAN_OUT = "deallocating-none"  # the meaning of last words
_UNSEEN_S = 10.0  # the end of a program that is killed: readings since the last flush are lost
_OF_TORCH = "torch."  # whose objects are held in C++ as well
_OF_INSTANCES = "type"  # each thing that C code made is of one, whether the collector is told of it or not
_OF_STACKS = "code"  # torch's history of GPU memory has those of each allocation's stack


@dataclass(frozen=True)
class _Count:
    """References to None in one process while it worked. **Units** of slopes: a second, a step (None: not known)."""

    process: ProcessGrowth
    time_s: Floats
    count: Floats
    verdict: str = FLAT
    per_s: float = 0.0
    per_step: float | None = None
    aborted: bool = False
    at: Call | None = None  # where the job was when Python said so itself
    rest: Rest | None = None  # references that only C code can have; then the slopes are of these

    @property
    def moved(self) -> int:
        return int(self.count[-1] - self.count[0])


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_fall: int = 100,  # references: in a healthy program what C code has returns to the same value within some tens
    min_kept: int = 1000,  # references: as many may be in tables that C code fills once
    min_own_share: float = MUCH,  # of the growth: what hangs on the objects usually weighs several times as much
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process that loses references to None or keeps some, one for objects nobody refers to."""
    growth = case.growth
    yield from _none_findings(case, min_fall)
    for one in growth.processes:
        yield from _kept(case, one, min_kept)
    process = growth.main
    if not growth.leaking or process is None or any(f.kind == "recompilation" for f in so_far):
        return
    left = growth.growth_bytes - sum(f.bytes for f in so_far if not f.wasted)
    if left > (1 - MOST) * growth.growth_bytes:  # else it has a holder, and objects without one are a by-product
        yield from leaked(case, process, left, _KIND, min_own_share=min_own_share)


def _none_findings(case: Case, min_fall: int) -> Iterator[Finding | RuledOut | Skipped]:
    sentinels = case.rows("sentinels")
    if not sentinels["refcount_none"].notna().any():
        yield RuledOut(_KIND, "None cannot run out of references here: it is immortal since Python 3.12")
        return
    steady: list[_Count] = []
    for process in case.growth.processes:
        count = _count(process, min_fall)
        if count is None:
            continue
        if count.verdict == CANNOT_TELL:
            yield Skipped(_KIND, f"{process.label} was too short or too uneven to judge its references to None")
        elif count.verdict != GROWING or count.per_s >= 0:
            steady.append(count)
        elif count.rest is not None or count.aborted:
            yield _none_finding(case, count)
        else:
            fall = f"references to None fall by {format_count(-count.per_s)} a second"
            text = "no three snapshots of the whole heap say how many of these were references of objects"
            yield Skipped(_KIND, f"{process.label}: {fall}, and {text}")
    if steady:
        most = max(steady, key=lambda c: abs(c.moved))
        figures = {"first_count": int(most.count[0]), "last_count": int(most.count[-1])}
        ends = f"{format_count(most.count[0])} at first, {format_count(most.count[-1])} at the end"
        if most.rest is not None:
            first, last = float(most.rest.rest[0]), float(most.rest.rest[-1])
            figures |= {"first_rest": int(first), "last_rest": int(last)}
            ends += f"; {format_count(first)} and {format_count(last)} of these are of C code alone"
        yield RuledOut(_KIND, f"references to None are not running out: {most.process.label} had {ends}", figures)


def _count(process: ProcessGrowth, min_fall: int) -> _Count | None:
    """Judged by what of the count no object accounts for, where snapshots tell: data that is released is no fall."""
    rows = process.rows("sentinels")
    time_s, count = series(only(rows, rows["time_s"] <= process.exit_s), "refcount_none")
    if time_s.size < 2:
        return None
    limits: dict[str, Any] = {"min_samples": 10, "min_growth_bytes": min_fall, "min_growth_fraction": 0.0}
    fallen = judge(time_s, count.max() - count, started_s=process.first_step_s, **limits)
    one = _Count(process, time_s, count, fallen.verdict, -fallen.slope_per_s)
    signal = _exit_signal(process) == Signal.SIGABRT
    last = slice(-FEWEST - 1, None)
    # A count that had halved when Python aborted needs no long run: three falls in a row are enough.
    emptied = signal and count.size > FEWEST and count[-1] < MOST * count.max() and (np.diff(count[last]) < 0).all()
    if emptied and fallen.verdict != GROWING:
        one = replace(one, verdict=GROWING, per_s=float(count[last][-1] - count[last][0]) / np.ptp(time_s[last]))
    # An abort with most references left has another reason.
    if signal and one.verdict == GROWING and count[-1] <= -one.per_s * _UNSEEN_S:
        one = replace(one, aborted=True)
    rest = rest_of_none(process)
    if rest is not None and not one.aborted:
        at_work = rest_of_none(process, at_work=True)
        both = [each for each in (rest, at_work) if each is not None]
        is_lost = all(-each.gained >= min_fall and each.moves_steadily(-1) for each in both)
        verdict, per_step = (GROWING, rest.per_step) if is_lost else (FLAT, None)
        verdict = CANNOT_TELL if is_lost and at_work is None else verdict
        one = replace(one, verdict=verdict, per_s=rest.per_s, per_step=per_step, rest=rest)
    return _with_last_words(one) if signal else one


def _with_last_words(one: _Count) -> _Count:
    """Python says why it aborts; then the thread that did is where the last reference went."""
    told = cells(one.process.rows("crash_text"), "crash_source", "last_words")
    words = {source: text for source, text in told if text is not None}
    meaning = known(said(words.get("stderr", "")), Signal.SIGABRT)
    if meaning is None or meaning.name != _NONE_RAN_OUT:
        return one
    return replace(one, aborted=True, at=innermost_user(frames(words.get("faulthandler", ""))))


def _exit_signal(process: ProcessGrowth) -> int | None:
    rows = process.rows("processes")
    return int_of(rows.iloc[-1], "exit_signal") if len(rows) else None


def _none_finding(case: Case, one: _Count) -> Finding:
    last, unit = float(one.count[-1]), case.step_unit
    left_s, per_step = last / -one.per_s, one.per_step if one.per_step is not None and one.per_step < 0 else None
    rate, drops = f"{format_count(-one.per_s)} a second", "references to None"
    ends = f"in {format_duration(left_s)}"
    if per_step:
        rate = f"{format_count(-per_step)} a {unit}"
        drops = f"{format_count(-per_step)} reference{'s' if per_step < -1 else ''} in one {unit}"
        ends = f"in about {format_count(last / -per_step)} {unit}s ({format_duration(left_s)})"
    if one.moved >= 0:  # new data has more than are lost
        ends = "once the data that holds None is freed"
    figures = {
        "first_count": int(one.count[0]),
        "last_count": int(last),
        "lost_per_s": round(-one.per_s, 2),
        "lost_per_step": None if per_step is None else round(-per_step, 2),
        "seconds_to_abort": 0.0 if one.aborted else round(left_s, 1) if one.moved < 0 else None,
    }
    text = f"references to None {'fell' if one.moved < 0 else 'rose'} from {format_count(one.count[0])} to "
    text += f"{format_count(last)} in {format_duration(one.time_s[-1] - one.time_s[0])}, {rate} are lost"
    abort = 'SIGABRT ended it: Python aborts with "deallocating None" when none is left'
    seen = _losing(one.process)  # by a probe that watched calls
    at = Call(seen.file, seen.line, "") if seen is not None else one.at
    where = f"called at {PurePath(at.file).name}:{at.line}" if at is not None else "in use"
    mend = f"fix or update the extension {where} that can drop {drops}"
    if seen is not None:
        mend = f"fix or update {seen.library or 'the extension'}, {where}, which drops {drops}"
    probe = "record it with --probe, which watches calls of C functions for a moment, to see which it is"
    is_short = one.rest is not None and one.rest.rest[-1] < 0  # objects have more than there are
    others = "code and compiled patterns that are freed, and a table in C code, let go of None as well"
    more = Ground("objects have more references than are counted", FAIR)
    who = f"{seen.function}()" if seen is not None else "A C extension"
    title = f"{who} drops references to None that it does not own ({rate}): Python "
    return case.finding(
        _KIND,
        f"{title}aborted" if one.aborted else f"{title}will abort {ends}",
        severity="critical",
        grounds=[
            Ground("Python aborted of it", PROVEN) if one.aborted else Ground("the count fell all the time", STRONG),
            more if is_short and not one.aborted else None,
        ],
        bytes=0,
        process=one.process,
        line=at,
        holder="references to None",
        type="NoneType",
        library=seen.library if seen is not None else None,
        evidence=[
            Evidence(text, figures),
            _missing(one.rest) if one.rest is not None else None,
            Evidence(abort, {"signal": Signal.SIGABRT}) if one.aborted else None,
            _dropped_at(one.at),
            _watched(seen) if seen is not None else None,
        ],
        doubts=["the count does not show which extension it is", None if one.aborted or is_short else others]
        if seen is None
        else [],
        remedy=[
            mend,
            "until then run it on Python 3.12 or later: None is immortal there, and the program survives",
            probe if seen is None and not one.aborted else None,
        ],
        series=[curve("references to None", one.time_s, one.count, "references")],
    )


def _dropped_at(at: Call | None) -> Evidence | None:
    if at is None:
        return None
    text = f"the last reference was dropped at {at.file}:{at.line}: what is called there is the first to suspect"
    return Evidence(text, {"line": at.line})


def _watched(seen: _Losing) -> Evidence:
    text = f"calls were watched for a moment: {seen.losses:,} of {seen.calls:,} of {seen.function}() lost one or more"
    return Evidence(text, {"calls": seen.calls, "losses": seen.losses})


def _missing(rest: Rest) -> Evidence:
    first, last = float(rest.rest[0]), float(rest.rest[-1])
    have = f"objects, functions and Python itself have {format_count(rest.known[-1])} at the last snapshot"
    left = f"C code has {format_count(last)} left of {format_count(first)}"
    if last < 0:
        before = f"{format_count(first)} more" if first >= 0 else f"{format_count(-first)} fewer"
        left = f"{format_count(-last)} more than are counted; at first {before} were counted than they had"
    figures = {"known": int(rest.known[-1]), "first_rest": int(first), "last_rest": int(last)}
    return Evidence(f"{have}{'; ' if last >= 0 else ', '}{left}: data that was released does not explain it", figures)


def _kept(case: Case, process: ProcessGrowth, min_kept: int) -> Iterator[Finding]:
    """Objects that C code refers to ever more often, while hardly anything is made that could do so."""
    told = [
        rest
        for rest in rests_of_types(process)
        if rest.gained >= min_kept
        and rest.moves_steadily(1)
        and rest.blocks_gained < MOST * rest.gained  # what is made has references that the collector is not told of
        and rest.type_name != _OF_INSTANCES
        and not rest.type_name.startswith(_OF_TORCH)
        and not (rest.type_name == _OF_STACKS and has_gpu_history(case.recording, process.pid))
    ]
    if not told or case.growth.leaking:  # what grows may have them, in memory of C's
        return
    rest = max(told, key=lambda one: one.gained)
    per_step = rest.per_step
    rate = f"{format_count(per_step)} a {case.step_unit}" if per_step else f"{format_count(rest.per_s)} a second"
    first, last = (format_count(float(rest.rest[at])) for at in (0, -1))
    figures = {
        "first_count": int(rest.rest[0]),
        "last_count": int(rest.rest[-1]),
        "kept_per_s": round(rest.per_s, 2),
        "kept_per_step": None if per_step is None else round(per_step, 2),
        "blocks_gained": int(rest.blocks_gained),
    }
    text = f"references to {rest.type_name} objects that no Python object has: {first} → {last}"
    yield case.finding(
        _KIND,
        f"A C extension does not drop its references to {rest.type_name} objects: {rate} more, which takes no memory",
        severity="note",
        grounds=[Ground("references were counted beyond those that objects have", FAIR)],
        bytes=0,
        process=process,
        holder=NOBODY,
        type=rest.type_name,
        evidence=[
            Evidence(f"{text} in {format_duration(rest.passed_s)}", figures),
            Evidence(
                "hardly any object was made meanwhile that could have them: it is a count in objects that were there "
                "before, and these will never be freed",
                {},
            ),
        ],
        doubts=["a table inside C code that Python cannot reach would look the same"],
        series=[curve(f"references to {rest.type_name}", rest.time_s, rest.rest, "references")],
    )


# ---- where calls were watched for a moment (``--probe``)


class _Losing(NamedTuple):
    """``losses``: of so many ``calls`` of ``function`` at a line of ``file``."""

    function: str
    file: str
    line: int
    calls: int
    losses: int

    @property
    def library(self) -> str | None:
        return self.function.split(".", 1)[0] if "." in self.function else None


def _losing(process: ProcessGrowth) -> _Losing | None:
    """The one that lost most, of those of which most calls lost some; None where none did, or nobody watched.

    Within a call, or behind it where it returned a None that it had no reference for. Functions of Python itself are
    none: they let go of what they are given.
    """
    rows = process.rows("lost_references")
    rows = only(rows, rows["function"].notna() & (rows["call_count"] >= LEAST_STEPS))
    found = []
    columns = ("function", "file", "line", "call_count", "losing_count")
    for function, file, line, calls, losses in cells(rows, *columns):
        top = str(function).split(".", 1)[0]
        is_own = top in STANDARD_LIBRARY or hasattr(builtins, top)
        if not is_own and int(losses) > MOST * int(calls):  # other threads change the count, too
            found.append(_Losing(str(function), str(file), int(line), int(calls), int(losses)))
    return max(found, key=lambda one: one.losses, default=None)
