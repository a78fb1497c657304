"""Reference counts that a C extension gets wrong: None runs out of references, or objects are never freed.

Looks for:     a count of references to None that falls steadily; objects that pile up without a referrer.
Why:           each reference to None that is dropped once too often brings Python nearer to the fatal error
               "deallocating None"; each reference that is not dropped keeps an object for ever.
Decides by:    a fall of None's count by min_fall or more, still going on at the end, that no release of objects with
               None in them explains; objects without a holder whose own bytes are min_own_share of the growth.
Mistaken when: a large list of None, made beforehand where no snapshot saw it, is filled with values little by little.
Do:            run None's case on Python 3.12 or later, where it is harmless; update the extension or do without it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ..evidence.leaked_references import leaked
from ..evidence.sentences import curve
from ..facts.growth.processes import ProcessGrowth
from ..facts.series.arithmetic import Floats, bucket_medians, slope_interval
from ..facts.series.trend import CANNOT_TELL, FLAT, GROWING, LEAST_STEPS, judge
from ..facts.tables import int_of
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import CRASH, DANGER, GROWTH
from ..units import format_count, format_duration

if TYPE_CHECKING:
    from ..facts.case import Case

NEEDS = ("process_samples", "sentinels")
TELLS = (GROWTH, DANGER)
AFTER = ("*", "fragmentation")  # objects that nobody refers to are what no holder explains
_KIND = "refcount-drift"
_SIGABRT = 6
_NONE_RAN_OUT = "deallocating-none"  # the type of a crash
_BUCKETS = 24
_UNSEEN_S = 10.0  # the end of a program that is killed: readings since the last flush are lost
_TYPE_CACHE = 4096  # entries of Python's cache of type attributes, each of which refers to None until it is used
_SETS_CLASSES = re.compile(
    r"\bfinalize\(|\bTemporaryDirectory\(|(\bcls|__class__|type\(self\)|\b[A-Z]\w*)\.\w+\s*([-+*/|&]|//)?=(?!=)"
)
_NONES_PER_BLOCK = 20  # references to None that one freed object may have held: records have less


@dataclass(frozen=True)
class _Count:
    """References to None in one process while it worked, with the small objects beside. **Units** of slopes: a second,
    a step (None where steps are not known)."""

    process: ProcessGrowth
    time_s: Floats
    count: Floats
    blocks: Floats
    verdict: str = FLAT
    per_s: float = 0.0
    per_step: float | None = None
    blocks_per_s: float = 0.0
    aborted: bool = False
    crash: Finding | None = None  # what Python itself said when it aborted

    @property
    def moved(self) -> int:
        return int(self.count[-1] - self.count[0])


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_fall: int = 100,  # references: in a healthy training loop the count returns to the same value within some tens
    min_own_share: float = 0.2,  # of the growth: what hangs on the objects usually weighs several times as much
    min_explained_share: float = 0.5,  # above it the growth has a holder, and objects without one are a by-product
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process that loses references to None, one for objects that nobody refers to."""
    growth = case.growth
    yield from _none_findings(case, so_far, min_fall)
    process = growth.main
    if not growth.leaking or process is None:
        return
    left = growth.growth_bytes - sum(f.bytes for f in so_far if not f.wasted)
    if left > (1 - min_explained_share) * growth.growth_bytes:
        held = any(f.tells(GROWTH) and f.subject.path and f.subject.pid == process.pid for f in so_far)
        yield from leaked(case, process, left, _KIND, has_holder=held, min_own_share=min_own_share)


def _none_findings(case: Case, so_far: Sequence[Finding], min_fall: int) -> Iterator[Finding | RuledOut | Skipped]:
    sentinels = case.rows("sentinels")
    if not sentinels["refcount_none"].notna().any():
        yield RuledOut(_KIND, "None cannot run out of references here: it is immortal since Python 3.12")
        return
    steady: list[_Count] = []
    for process in case.growth.processes:
        count = _count(case, process, min_fall)
        if count is None:
            continue
        if count.verdict == CANNOT_TELL:
            yield Skipped(_KIND, f"{process.label} was too short or too uneven to judge its references to None")
        elif count.verdict == FLAT or count.per_s >= 0:
            steady.append(count)
        elif (released := _released(case, count)) is not None:
            yield released
        elif _is_replaced(count := _with_crash(count, so_far)):
            # Measured: a deque of pairs that fills up, 85 a second; it ended with most of the references left.
            rates = (
                f"{format_count(-count.per_s)} references to None a second went and {format_count(count.blocks_per_s)}"
            )
            text = f"{rates} objects were created: a container made of None may be filling"
            yield Skipped(_KIND, f"{count.process.label}: {text}; a longer run would tell whether that ends")
        elif not count.aborted and -count.moved <= _TYPE_CACHE and _sets_classes(case):
            text = "references to None fall as Python's cache of type attributes fills where classes are set anew"
            yield Skipped(_KIND, f"{count.process.label}: {text}; a longer run would tell whether that ends")
        elif _is_slowing_down(count):
            text = "references to None fall, but ever more slowly: Python's cache of type attributes may be filling"
            yield Skipped(_KIND, f"{count.process.label}: {text}; a longer run would tell")
        else:
            yield _none_finding(case, count)
    if steady:
        most = max(steady, key=lambda c: abs(c.moved))
        figures = {"first_count": int(most.count[0]), "last_count": int(most.count[-1])}
        ends = f"{format_count(most.count[0])} at first, {format_count(most.count[-1])} at the end"
        yield RuledOut(_KIND, f"the references to None do not run out: {most.process.label} had {ends}", figures)


def _count(case: Case, process: ProcessGrowth, min_fall: int) -> _Count | None:
    rows = process.rows("sentinels")
    rows = rows[rows["refcount_none"].notna() & (rows["time_s"] <= process.exit_s)]
    if len(rows) < 2:
        return None
    time_s, count, blocks, step = (
        rows[name].to_numpy(dtype=np.float64, na_value=np.nan)
        for name in ("time_s", "refcount_none", "allocated_blocks", "step")
    )
    one = _Count(process, time_s, count, np.nan_to_num(blocks))
    fallen = judge(
        time_s,
        count.max() - count,
        started_s=process.first_step_s,
        min_samples=10,
        min_growth_bytes=min_fall,
        min_growth_fraction=0.0,
    )
    aborted = _exit_signal(case, process) == _SIGABRT
    # A count that had halved when Python aborted needs no long run: three falls in a row are enough.
    emptied = aborted and count.size >= 4 and count[-1] < 0.5 * count.max() and bool((np.diff(count[-4:]) < 0).all())
    if fallen.verdict != GROWING and not emptied:
        return replace(one, verdict=fallen.verdict)
    use = time_s >= (fallen.start_s if fallen.verdict == GROWING else time_s[-4])
    return _with_slopes(one, use, step, aborted)


def _with_slopes(one: _Count, use: NDArray[np.bool_], step: Floats, aborted: bool) -> _Count:
    t, y, blocks = one.time_s[use], one.count[use], one.blocks[use]
    per_s, *_ = slope_interval(*bucket_medians(t, y, _BUCKETS))
    blocks_per_s, *_ = slope_interval(*bucket_medians(t, blocks, _BUCKETS))
    known = np.isfinite(step[use])
    per_step = None
    if known.sum() >= 3 and np.ptp(step[use][known]) >= LEAST_STEPS:
        per_step, *_ = slope_interval(*bucket_medians(step[use][known], y[known], _BUCKETS))
    died_of_it = aborted and y[-1] <= -per_s * _UNSEEN_S  # an abort with most references left has another reason
    return _Count(one.process, t, y, blocks, GROWING, per_s, per_step or None, blocks_per_s, died_of_it)


def _with_crash(one: _Count, so_far: Sequence[Finding]) -> _Count:
    for finding in so_far:
        subject = finding.subject
        if finding.tells(CRASH) and (subject.pid, subject.type) == (one.process.pid, _NONE_RAN_OUT):
            return replace(one, aborted=True, crash=finding)
    return one


def _exit_signal(case: Case, process: ProcessGrowth) -> int | None:
    known = case.rows("processes")
    rows = known[(known["pid"] == process.pid) & (known["start_ticks"] == process.start_ticks)]
    return int_of(rows.iloc[-1], "exit_signal") if len(rows) else None


def _released(case: Case, one: _Count) -> RuledOut | None:
    """Why the count falls without anybody's fault; None where nothing of the kind was seen."""
    figures = {"lost_per_s": round(-one.per_s, 1), "blocks_per_s": round(one.blocks_per_s, 1), "fallen_by": -one.moved}
    if one.blocks_per_s * _NONES_PER_BLOCK <= one.per_s:
        text = f"references to None fall in {one.process.label} because objects that hold them are released"
        return RuledOut(_KIND, f"{text} ({format_count(-one.blocks_per_s)} objects a second)", figures)
    holders = one.process.rows("holders")
    full = holders[(holders["member_type"] == "NoneType") & (holders["length"].astype("float64") >= -one.moved)]
    if len(full):
        path = full.iloc[0]["path"]
        return RuledOut(_KIND, f"references to None fall because {path}, made full of None, is filled", figures)
    return None


def _sets_classes(case: Case) -> bool:
    """The job sets attributes of classes, or uses what does so at each call (weakref.finalize, temporary folders)."""
    return any(_SETS_CLASSES.search(source.text) for source in case.sources)


def _is_slowing_down(one: _Count) -> bool:
    """In the last third less than half of the first. An extension drops as many at each call, to the end.

    Python's cache of type attributes has 4,096 entries that refer to None until they are used: as it fills, mostly ever
    more slowly, so many references go. Each class that is set has its entries made anew.
    """
    if one.aborted or one.count.size < 9:
        return False
    third = one.count.size // 3
    falls = [
        (one.count[part][0] - one.count[part][-1]) / max(float(np.ptp(one.time_s[part])), 1e-9)
        for part in (slice(0, third + 1), slice(-third - 1, None))
    ]
    return bool(falls[1] < 0.5 * falls[0])


def _is_replaced(one: _Count) -> bool:
    """About as many objects were made as references to None went, and nobody died of it."""
    return not one.aborted and 0.5 <= one.blocks_per_s / -one.per_s <= 2.0


def _none_finding(case: Case, one: _Count) -> Finding:
    last = float(one.count[-1])
    left_s = last / -one.per_s
    per_step = one.per_step if one.per_step is not None and one.per_step < 0 else None
    rate = f"{format_count(-per_step)} a step" if per_step else f"{format_count(-one.per_s)} a second"
    ends = f"in {format_duration(left_s)}"
    if per_step:
        ends = f"in about {format_count(last / -per_step)} steps ({format_duration(left_s)})"
    figures = {
        "first_count": int(one.count[0]),
        "last_count": int(last),
        "lost_per_s": round(-one.per_s, 2),
        "lost_per_step": None if per_step is None else round(-per_step, 2),
        "seconds_to_abort": 0.0 if one.aborted else round(left_s, 1),
    }
    fell = f"references to None fell from {format_count(one.count[0])} to {format_count(last)}"
    evidence = [Evidence(f"{fell} in {format_duration(one.time_s[-1] - one.time_s[0])}, {rate}", figures)]
    if one.aborted:
        text = 'SIGABRT ended it: Python aborts with "deallocating None" when none is left'
        evidence.append(Evidence(text, {"signal": _SIGABRT}))
    at = one.crash.subject if one.crash is not None else None
    if at is not None and at.file is not None:
        text = f"the last reference was dropped at {at.file}:{at.line}: what is called there is the first to suspect"
        evidence.append(Evidence(text, {"line": at.line}))
    evidence.append(
        Evidence(
            f"the number of small objects did not fall with it ({format_count(one.blocks_per_s)} a second): "
            "no data was released that could explain it",
            {"blocks_per_s": round(one.blocks_per_s, 1)},
        )
    )
    title = f"A C extension drops references to None that it does not own ({rate})"
    remedy = ["run it on Python 3.12 or later: None is immortal there, and the program survives"]
    if per_step:
        remedy.append(f"look for an extension whose calls could drop {format_count(-per_step)} references in one step")
    doubts = ["the count does not show which extension it is"]
    return case.finding(
        _KIND,
        f"{title}: Python aborted" if one.aborted else f"{title}: Python will abort {ends}",
        severity="critical",
        confidence=0.97 if one.aborted else 0.9,  # the count is exact, and what else lowers it was looked for
        bytes=0,
        process=one.process,
        line=at,
        holder="references to None",
        type="NoneType",
        evidence=evidence,
        doubts=doubts,
        remedy=remedy,
        series=[curve("references to None", one.time_s, one.count, "references")],
    )
