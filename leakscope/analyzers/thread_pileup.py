"""Threads that are started again and again and never end.

Looks for:     a process whose number of threads keeps rising.
Why:           each thread keeps its stack and whatever its functions hold; a replaced worker that was never told to
               stop does so for ever.
Decides by:    min_threads more threads at the end, still rising then, by min_fraction of what there were.
Mistaken when: a pool grows to its full size only towards the end of the recording.
Do:            tell the old thread to stop and join it before starting another, or use one pool.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..evidence.keepers import THREADS, keeper
from ..facts.code.adding import Line, thread_start_line
from ..facts.code.index import tail
from ..facts.code.starts import calls
from ..facts.growth.counts import judge_count, up_to_the_end
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import TreeGrowth, severity_of
from ..facts.series.arithmetic import Floats
from ..facts.series.trend import FLAT, GROWING
from ..facts.tables import int_of, text_of
from ..findings import Evidence, Finding, RuledOut, Series, Skipped, Subject
from ..kinds import GROWTH, PILE
from ..units import KiB, format_bytes

if TYPE_CHECKING:
    import pandas as pd

    from ..facts.case import Case

NEEDS = ("process_samples",)
TELLS = (GROWTH, PILE)
AFTER = ()
_KIND = "thread-pileup"
_OF_LIBRARY = "Thread._bootstrap"  # its first frame, told where no later one is the job's own: idle workers of a pool
_RUN = ".run"  # what a class derived from Thread runs
_POOLS = ("ThreadPoolExecutor", "ThreadPool")
_TIMER = "threading.Timer"
_ENDED = "stop and join the old thread before a new one is started, or let one pool do the work"
_IN_TIME = "cancel() each timer once what it waits for has happened: until it is due it keeps a thread and its function"
_STACK_BYTES = 64 * KiB  # touched stack and bookkeeping of a waiting Python thread, measured: 40 to 90 KiB


def findings(
    case: Case,
    *,
    min_threads: int = 10,  # a library's pool may be completed late, by a few
    min_fraction: float = 0.3,  # of the usual number: 10 more beside 200 is no pile
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process whose threads pile up, or the largest rise that was seen."""
    growth = case.growth
    most = (0, "", 0)
    undecided = ""
    found = False
    for process in growth.processes:
        time_s, count = up_to_the_end(*_counts(process.rows("process_samples")), process)
        if not time_s.size:
            continue
        if np.ptp(count) < min_threads:
            most = max(most, (int(count.max() - count[0]), process.label, int(count.max())))
            continue
        trend = judge_count(time_s, count, process, min_count=min_threads, min_fraction=min_fraction)
        if trend.verdict == GROWING:
            found = True
            yield _finding(case, growth, process, time_s, count)
        elif trend.verdict == FLAT or growth.leaking is not None:
            most = max(most, (int(count.max() - count[0]), process.label, int(count.max())))
        else:
            undecided = growth.reason
    if found:
        return
    if undecided:
        yield Skipped(_KIND, undecided)
    elif most[1]:
        figures = {"most_threads": most[2], "risen_by": most[0]}
        yield RuledOut(_KIND, f"threads do not pile up: at most {most[2]} in {most[1]}", figures)


def _counts(samples: pd.DataFrame) -> tuple[Floats, Floats]:
    rows = samples[samples["thread_count"].notna()]
    return rows["time_s"].to_numpy(dtype=np.float64), rows["thread_count"].to_numpy(dtype=np.float64)


def _finding(case: Case, growth: TreeGrowth, process: ProcessGrowth, time_s: Floats, count: Floats) -> Finding:
    started = int(count[-3:].max() - np.median(count[:3]))
    kind = _kind_of_thread(process.rows("threads"))
    function = text_of(kind, "function")
    if function == _OF_LIBRARY:
        kind = function = None
    bytes = _bytes(case, growth, process, started)
    start = _start_line(case, function)
    of_class = tail(function[: -len(_RUN)]) if function and function.endswith(_RUN) else None
    kept = keeper(case, process, THREADS, (time_s, count), case.sources, start, of_class=of_class)
    named = f" of {function}" if function else ""
    figures = {"first_count": int(count[0]), "last_count": int(count[-1])}
    evidence = [
        Evidence(
            f"{process.label} had {int(np.median(count[:3]))} threads at first and {int(count[-1])} at the end", figures
        )
    ]
    if function:
        alike = int_of(kind, "object_count")
        waits = text_of(kind, "text")
        did = "ran" if waits is None else f"were a {waits} that waited to run"
        evidence.append(Evidence(f"{alike} of them {did} {function} in the last inventory", {"object_count": alike}))
    if start is not None:
        evidence.append(Evidence(f"{start.file}:{start.line} starts them: {start.text}", {"line": start.line}))
    evidence += kept.evidence if kept is not None else []
    if growth.leaking and bytes:
        each = format_bytes(bytes / max(started, 1))
        evidence.append(Evidence(f"about {each} of growth for each thread", {"bytes": bytes}))
    doubts = [] if function else ["none was seen in a function of the job's own: what they run is not known"]
    return Finding(
        kind=_KIND,
        title=f"Threads{named} pile up: {started} more than at the start, none of them ended",
        severity=severity_of(growth, bytes),
        confidence=0.95 if function else 0.85,
        bytes=bytes,
        subject=Subject(
            pid=process.pid,
            process=process.name,
            role=process.role,
            holder=f"{started} threads{named}{kept.words if kept is not None else ''}",
            variable=kept.variable if kept is not None else None,
            type="threading.Thread",
            file=start.file if start is not None else text_of(kind, "owner_file"),
            line=start.line if start is not None else int_of(kind, "owner_line"),
            function=start.function if start is not None else function,
            library="threading",
        ),
        bytes_per_hour=round(bytes / max(growth.end_s - growth.start_s, 1e-9) * 3600, 1),
        evidence=evidence,
        doubts=doubts + (kept.doubts if kept is not None else []),
        remedy=[_IN_TIME if text_of(kind, "text") == _TIMER else _ENDED],
        series=[Series("threads", time_s.tolist()[:2000], count.tolist()[:2000], "s", "threads")],
    )


def _kind_of_thread(threads: pd.DataFrame) -> pd.Series[Any] | None:
    """Of the last inventory, the kind of thread that multiplied most."""
    if not len(threads):
        return None
    last = threads[threads["take"] == threads["take"].max()]
    first = threads[threads["take"] == threads["take"].min()].groupby("function")["object_count"].sum()
    earlier = 0 if last["take"].iloc[0] == threads["take"].min() else last["function"].map(first).fillna(0)
    gained = (last["object_count"] - earlier).astype(float)
    most: pd.Series[Any] = last.iloc[int(np.argmax(gained.to_numpy()))]
    return most


def _bytes(case: Case, growth: TreeGrowth, process: ProcessGrowth, started: int) -> int:
    """Growth the threads account for: their stacks, and what their functions were seen to hold more of."""
    if not growth.leaking:
        return 0
    holders = process.rows("holders")
    roots = holders[(holders["root_kind"] == "thread") & holders["parent_path"].isna()]
    by_take = roots["deep_bytes"].astype("float64").groupby(roots["take"]).sum()
    held = float(by_take.iloc[-1] - by_take.iloc[0]) if len(by_take) > 1 else 0.0
    likely = max(0, process.growth_bytes)
    if not len(holders) or held >= 0.3 * likely:  # takes are early and far apart: the rest of the growth is alike
        return likely
    return int(min(likely, max(0.0, held) + started * _STACK_BYTES))


def _start_line(case: Case, function: str | None) -> Line | None:
    """Where the threads are started, as far as the sources tell: there is the place to mend."""
    sources = case.sources
    if function is not None:
        return thread_start_line(sources, function)
    pools = calls(sources, *_POOLS)
    return pools[0].line if pools else None
