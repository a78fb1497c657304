"""Threads that are started again and again and never end.

Looks for:     a process whose number of threads keeps rising.
Why:           each thread keeps its stack and whatever its functions hold; a replaced worker that was never told to
               stop does so for ever.
Decides by:    min_threads more threads at the end, still rising then, and by a third of what there were.
Mistaken when: a pool grows to its full size only towards the end of the recording.
Do:            tell the old thread to stop and join it before starting another, or use one pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from ..confidence import Ground
from ..evidence.keepers import THREADS
from ..evidence.pile import OwnPile, rising
from ..evidence.sentences import at_line, grew_at
from ..facts.code.adding import Line, thread_start_line
from ..facts.code.index import tail
from ..facts.code.starts import calls
from ..facts.growth.counts import up_to_the_end
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.paths import THREADS_ALIVE
from ..facts.heap.tree import held_by_threads
from ..facts.subject import definition_of
from ..facts.tables import int_of, only, series, text_of
from ..facts.where.stacks import GrowthLine, growth_lines
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import GROWTH, PILE
from ..units import KiB, format_bytes

if TYPE_CHECKING:
    import pandas as pd

    from ..facts.case import Case

NEEDS = ("process_samples",)
SEEN_BY = ("process_samples.thread_count",)
TELLS = (GROWTH, PILE)
AFTER = ()
_KIND = "thread-pileup"
_BOOTSTRAP = "Thread._bootstrap"  # every thread's first frame: that says nothing
_LIBRARIES = re.compile(r"/(?:(?:site|dist)-packages|python3\.\d+)/((?:\w+/)*\w+)\.py$")
_MAKES = ".__init__"
_LEAST_UNDER = 0.5  # of what stays, asked for under the line that makes what has the threads
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
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process whose threads pile up, or the largest rise that was seen."""
    piles = [pile for process in case.growth.processes if (pile := _pile(process)).count.size]
    growing, undecided = rising(piles, min_threads)
    yield from (_finding(case, pile) for pile in growing)
    if growing:
        return
    if undecided and case.growth.leaking is None:
        yield Skipped(_KIND, case.growth.reason)
    elif piles:
        risen, label, most = max((int(max(p.count) - p.count[0]), p.owner.label, p.most) for p in piles)
        figures = {"most_threads": most, "risen_by": risen}
        yield RuledOut(_KIND, f"threads do not pile up: at most {most} in {label}", figures)


def _pile(process: ProcessGrowth) -> OwnPile:
    return OwnPile(process, *up_to_the_end(*series(process.rows("process_samples"), "thread_count"), process))


def _finding(case: Case, pile: OwnPile) -> Finding:
    process, started = pile.owner, pile.risen
    kind = _kind_of_thread(process.rows("threads"))
    function, file = text_of(kind, "function"), text_of(kind, "owner_file")
    if function == _BOOTSTRAP:
        kind = function = None
    of_library = _LIBRARIES.search(file or "") if function and not _is_users(case, file) else None
    bytes = _bytes(case, process, started)
    start = _start_line(case, None if of_library else function)
    makes = _making_line(case, process) if start is None else None
    owner = _class_made(makes) if makes is not None else None
    if of_library is not None:
        function = f"{of_library[1].removesuffix('/__init__').replace('/', '.')}.{function}"
    of_class = tail(function[: -len(_RUN)]) if function and function.endswith(_RUN) else None
    kept = pile.keeper(case, THREADS, start, of_class=of_class)
    named = f" of {function}" if function else ""
    usual, last = int(np.median(pile.count[:3])), int(pile.count[-1])
    figures = {"first_count": int(pile.count[0]), "last_count": last}
    evidence = [Evidence(f"{process.label} had {usual} threads at first and {last} at the end", figures)]
    if function:
        alike = int_of(kind, "object_count")
        waits = text_of(kind, "text")
        did = "ran" if waits is None else f"were a {waits} that waited to run"
        evidence.append(Evidence(f"{alike} of them {did} {function} in the last snapshot", {"object_count": alike}))
    if start is not None:
        evidence.append(at_line(start, "starts them"))
    if makes is not None:
        evidence.append(grew_at(makes))
        if owner is not None:
            text = f"{makes.file.rsplit('/', 1)[-1]}:{makes.line} makes {owner} objects, which have these threads"
            evidence.append(Evidence(f"{text}: {makes.text}", {"line": makes.line}))
    evidence += kept.evidence
    if case.growth.leaking and bytes:
        each = format_bytes(bytes / max(started, 1))
        evidence.append(Evidence(f"about {each} of growth for each thread", {"bytes": bytes}))
    doubts = [] if function else ["none was seen in a function of the job's own code: what they run is not known"]
    return case.finding(
        _KIND,
        f"Threads{named} pile up: {started} more than at the start, none of them ended",
        grounds=[
            Ground("threads were counted; a library may mean to keep some", 0.85),
            *([Ground("they run a function of the job's own", 0.77)] if function and not of_library else ()),
            *([Ground("what stays beside them was asked for under one line", 0.7)] if makes is not None else ()),
        ],
        bytes=bytes,
        process=process,
        line=start or makes or (None if of_library else definition_of(kind, function)),
        holder=f"{started} threads{named}{kept.words}",
        variable=kept.variable,
        type="threading.Thread",
        library="threading",
        evidence=evidence,
        doubts=[*doubts, *kept.doubts],
        remedy=[_IN_TIME if text_of(kind, "text") == _TIMER else _closed(makes, owner) if makes else _ENDED],
        mechanism="timers" if text_of(kind, "text") == _TIMER else "not-ended",
        series=[pile.curve("threads")],
    )


def _is_users(case: Case, file: str | None) -> bool:
    return any(source.file == file for source in case.sources)


def _making_line(case: Case, process: ProcessGrowth) -> GrowthLine | None:
    """Where a library is called that starts them: most of what stays was asked for there."""
    line = next(iter(growth_lines(case.growth, process, case.sources)), None)
    return line if line is not None and line.library and line.share >= _LEAST_UNDER else None


def _class_made(line: GrowthLine) -> str | None:
    """Of the library's objects that are made there the innermost: it has the threads, the others have it."""
    calls = [call.rpartition(" ")[2] for call in line.alive[0].stack.split("\n")]
    return next((call[: -len(_MAKES)] for call in reversed(calls) if call.endswith(_MAKES)), None)


def _closed(line: GrowthLine, owner: str | None) -> str:
    what = f"each {owner} that {line.file.rsplit('/', 1)[-1]}:{line.line} makes" if owner else "each one"
    return f"close {what} once it is done with (close(), or a with statement), or make one and use it again"


def _kind_of_thread(threads: pd.DataFrame) -> pd.Series[Any] | None:
    """Of the last snapshot, the kind of thread that multiplied most."""
    if not len(threads):
        return None
    last = only(threads, threads["take"] == threads["take"].max())
    first = only(threads, threads["take"] == threads["take"].min()).groupby("function")["object_count"].sum()
    earlier = 0 if last["take"].iloc[0] == threads["take"].min() else last["function"].map(first).fillna(0)
    gained = (last["object_count"] - earlier).astype(float)
    most: pd.Series[Any] = last.iloc[int(np.argmax(gained.to_numpy()))]
    return most


def _bytes(case: Case, process: ProcessGrowth, started: int) -> int:
    """Growth the threads account for: their stacks, and what their functions were seen to hold more of."""
    if not case.growth.leaking:
        return 0
    holders = process.rows("holders")
    is_root = (holders["root_kind"] == "thread") & holders["parent_path"].isna()
    roots = only(holders, is_root | (holders["path"] == THREADS_ALIVE))
    by_take = roots["deep_bytes"].astype("float64").groupby(roots["take"]).sum()
    held = max(_gained(by_take), _gained(held_by_threads(process.rows("heap_children"))))
    likely = max(0, process.growth_bytes)
    if not len(holders) or held >= 0.3 * likely:  # snapshots are early and far apart: the rest of the growth is alike
        return likely
    return int(min(likely, max(0.0, held) + started * _STACK_BYTES))


def _gained(by_take: pd.Series[float]) -> float:
    return float(by_take.iloc[-1] - by_take.iloc[0]) if len(by_take) > 1 else 0.0


def _start_line(case: Case, function: str | None) -> Line | None:
    """Where the threads are started, as far as the sources tell: there is the place to mend."""
    sources = case.sources
    if function is not None:
        return thread_start_line(sources, function)
    pools = calls(sources, *_POOLS)
    return pools[0].line if pools else None
