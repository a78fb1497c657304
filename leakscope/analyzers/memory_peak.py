"""A peak far above what the job usually holds: how high, when, and which lines had it.

Looks for:     memory that was there for a part of the run only, much more than before and after; or that calls fill and
               empty again and an allocator keeps, and that is most of what there is.
Why:           it decides what the job has to be given, and it is often made by copies that live for a moment.
Decides by:    a level of at most usual_share of the peak, and of min_bytes less, for most_of_time of the run and more;
               most of the rest by lines of yours: under which samples had more alive then than at the level. Of what is
               empty: usual_share of the level and min_bytes of it, most of which lines of yours had asked for.
Mistaken when: what the job did for most of the run is what it does least: a long wait between stages, say.
Do:            take less at once there, in parts or in place; nothing, if there is room.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..confidence import SURE, Ground
from ..evidence.sentences import curve
from ..facts.accounts.bill import FREE, came_to_peak
from ..facts.accounts.peak import Passing
from ..facts.case import Case
from ..facts.code.index import Source, lines_of, text_of
from ..facts.growth.processes import ProcessGrowth
from ..facts.subject import Definition
from ..facts.tables import series
from ..facts.where.progress import Had, let_go_of
from ..findings import LEVEL, Evidence, Finding, RuledOut, Skipped
from ..kinds import ASIDE
from ..units import FULL, LARGE, LISTED, MOST, SOME, format_bytes, format_duration

NEEDS = ("process_samples",)
TELLS = (ASIDE,)
_KIND = "memory-peak"


def findings(
    case: Case,
    *,
    usual_share: float = MOST,  # of the peak is there all the time: a batch of unusual length makes less
    min_bytes: int = LARGE,  # above what is usual: less is what imports and start-up come and go with
    most_of_time: float = MOST,  # of the run: what is there for longer is what the job usually holds
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield a finding for the highest peak of the job, if it came and went."""
    growth, passing = case.growth, case.passing_peak
    process = growth.largest
    if process is None or case.peak is None:
        yield Skipped(_KIND, "no sample of memory")
        return
    emptied = None if growth.leaking else _emptied(case, process, usual_share, min_bytes)
    if emptied is not None:
        yield emptied
        return
    if growth.leaking or passing is None:
        reason = "memory grows, so its peak is its end" if growth.leaking else "the peak is what stays"
        yield RuledOut(_KIND, f"{reason}: {format_bytes(case.peak.bytes)}", {"peak_bytes": case.peak.bytes})
        return
    more = passing.bytes - passing.level_bytes
    lasted_s = float(growth.time_s[-1] - growth.time_s[0])
    is_far = more >= min_bytes and passing.level_bytes <= usual_share * passing.bytes
    figures: dict[str, object] = {
        "peak_bytes": passing.bytes,
        "level_bytes": passing.level_bytes,
        "above_s": round(passing.above_s, 2),
    }
    told = (
        f"the most was {format_bytes(passing.bytes)}, {passing.bytes / max(1, passing.level_bytes):.1f} × what is usual"
    )
    if not is_far or passing.above_s >= most_of_time * lasted_s:
        yield RuledOut(_KIND, told, figures)
        return
    for at_s in (passing.time_s, *passing.as_high_s):
        makers = came_to_peak(process, at_s, passing.level_s)
        if sum(one.bytes for one in makers if one.bytes < np.inf) >= MOST * more:
            yield _finding(case, process, passing._replace(time_s=at_s), makers, figures)
            return
    yield Skipped(_KIND, f"{told}; no samples of allocations say which lines had it")


def _emptied(case: Case, process: ProcessGrowth, least_share: float, least_bytes: float) -> Finding | None:
    """Where most of the usual memory is free and kept: calls fill it, and let go of all of it."""
    level = next((bill for bill in case.bills if bill.moment == LEVEL), None)
    free = [] if level is None else [row for row in level.rows if row.account == FREE and row.process == process.label]
    size = sum(row.bytes for row in free)
    if level is None or size < max(least_bytes, least_share * level.total_bytes):
        return None
    had = let_go_of(process, level.time_s)
    if sum(one.bytes for one in had) < MOST * size:
        return None
    first, usual, kept = had[0], format_bytes(level.total_bytes), format_bytes(size)
    return _told(
        case,
        process,
        first,
        f"Of the usual {usual}, {kept} are free, and kept for what {first.asked_in} fills and lets go of",
        [
            *(_had(one, case.sources, "had asked for {}") for one in had[:LISTED] if one.bytes >= SOME * size),
            Evidence(f"the allocator kept {kept} at {format_duration(level.time_s)}", {"free_bytes": size}),
        ],
        "part by part: no more is kept than a part needs",
    )


def _finding(
    case: Case, process: ProcessGrowth, passing: Passing, makers: Sequence[Had], figures: dict[str, object]
) -> Finding:
    first = makers[0]
    times = passing.bytes / max(1, passing.level_bytes)
    beside = f"outside this peak the job held at most {format_bytes(passing.beside_bytes)}"
    if passing.beside_bytes >= FULL * passing.bytes:
        beside = "the job came as high more than once"
    return _told(
        case,
        process,
        first,
        f"The peak of {format_bytes(passing.bytes)} at {format_duration(passing.time_s)}, {times:.1f} × the usual "
        f"{format_bytes(passing.level_bytes)}, came in {first.asked_in}",
        [
            *(_had(one, case.sources) for one in makers[:LISTED] if one.bytes >= SOME * passing.bytes),
            _lasted(case, process, passing, figures),
        ],
        f"in parts or in place: {beside}",
    )


def _told(
    case: Case, process: ProcessGrowth, first: Had, title: str, evidence: Sequence[Evidence], how: str
) -> Finding:
    """At the line that had most. ``how``: goes on from what to process less of at once."""
    return case.finding(
        _KIND,
        title,
        severity="note",
        grounds=[Ground("samples of allocations say what was alive then", SURE)],
        bytes=0,
        process=process,
        line=Definition(first.call.file, first.call.line, first.call.function),
        device="cpu",
        evidence=evidence,
        remedy=[f"process less at once in {first.asked_in}, {how}"],
        series=[curve("held", case.growth.time_s, case.growth.held_bytes)],
    )


def _had(one: Had, sources: Sequence[Source], had: str = "had {} more then than usual") -> Evidence:
    file, line, _ = one.call
    text = text_of(next((lines_of(source.text) for source in sources if source.file == file), None), line)
    said = f"{file}:{line} {had.format(format_bytes(one.bytes))}"
    return Evidence(f"{said}: {text}" if text else said, {"line": line, "bytes": round(one.bytes)})


def _lasted(case: Case, process: ProcessGrowth, passing: Passing, figures: dict[str, object]) -> Evidence:
    """For how long, and in which step."""
    text = f"memory stayed near the peak for {format_duration(passing.above_s)}"
    if case.peak is not None and case.peak.between_samples:
        text = "it came and went between two samples: the kernel counted it"
    when, steps = series(process.rows("sentinels"), "step")
    if steps.size and steps[-1] > steps[0]:
        step = int(steps[max(0, int(np.searchsorted(when, passing.time_s)) - 1)])
        text += f", in {case.step_unit} {step}" if step else f", before the first {case.step_unit}"
        figures = {**figures, "step": step}
    return Evidence(text, figures)
