"""Threads that are started again and again and never end.

Looks for:     a process whose number of threads keeps rising.
Why:           each thread keeps its stack and whatever its functions hold; a replaced worker that was never asked to
               stop does so for ever.
Decides by:    min_threads more threads at the end, still rising then, and by a third of what there were.
Mistaken when: a pool grows to its full size only towards the end of the recording.
Do:            stop the old thread and join it before starting another, or use one pool.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ..confidence import STRONG, SURE, Ground
from ..evidence.keepers import THREADS
from ..evidence.pile import OwnPile, rising, up_to_the_end
from ..evidence.sentences import at_line, grew_at
from ..facts.calls import calls_of
from ..facts.case import Case
from ..facts.code.adding import Line, thread_start_line
from ..facts.code.index import tail
from ..facts.code.starts import calls
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.accumulation import THREADS_ALIVE
from ..facts.heap.place import Floats
from ..facts.subject import definition_of
from ..facts.tables import cells, int_of, only, series, text_of
from ..facts.where.stacks import GrowthLine, lines_of
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import GROWTH, PILE
from ..storage import Row, Rows
from ..units import FEWEST, GOOD_PART, MOST, KiB, format_bytes

NEEDS = ("process_samples",)
SEEN_BY = ("process_samples.thread_count",)
TELLS = (GROWTH, PILE)
_KIND = "thread-pileup"
_OF_LIBRARY = "Thread._bootstrap"  # its first frame, told where no later one is the job's own: idle workers of a pool
_RUN = ".run"  # what a class derived from Thread runs
_UNKNOWN = "none was seen in a function of the job's own code: what they run is not known"
_PACKAGES = re.compile(r"/(?:site-packages|dist-packages|python3\.\d+)(?=/)")  # the last of these folders counts
_MAKES = ".__init__"
_POOLS = ("ThreadPoolExecutor", "ThreadPool")
_TIMER = "threading.Timer"
_ENDED = "stop and join the old thread before a new one is started, or let one pool do the work"
_SHUT = "shut each pool down once its work is done, as a with statement does, or make one pool and use it again"
_IN_TIME = "cancel() each timer once what it waits for has happened: until it is due it keeps a thread and its function"
_STACK_BYTES = 64 * KiB  # touched stack and bookkeeping of a waiting Python thread, measured: 40 to 90 KiB


class _Maker(NamedTuple):
    """The line of the job's that makes what has threads of its own. ``one``: its class; None where that is unknown."""

    one: str | None
    line: GrowthLine
    evidence: tuple[Evidence, ...]


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
    function, library = text_of(kind, "function"), _library_of(case, kind)
    if library is not None or function == _OF_LIBRARY:
        kind = function = None
    bytes = _bytes(case, process, started)
    start = _start_line(case, function)
    maker = _made_under(case, process) if start is None and library is not None else None
    of_class = tail(function[: -len(_RUN)]) if function and function.endswith(_RUN) else None
    kept = pile.keeper(case, THREADS, start, of_class=of_class)
    runs = function or library
    named = f" of {runs}" if runs else ""
    if maker is not None and maker.one is not None:
        named = f" of {maker.one} objects ({runs})"
    usual, last = int(np.median(pile.count[:FEWEST])), int(pile.count[-1])
    alike, waits = int_of(kind, "object_count"), text_of(kind, "text")
    did = "ran" if waits is None else f"were a {waits} that waited to run"
    ran = Evidence(f"{alike} of them {did} {function} in the last snapshot", {"object_count": alike})
    fallen = int(np.maximum(-np.diff(pile.count), 0.0).sum())
    ended = f"though at least {fallen} ended" if fallen else "none was seen to end"
    meanwhile = np.interp([case.growth.start_s, case.growth.end_s], pile.time_s, pile.count)
    each = f"about {format_bytes(bytes / max(float(meanwhile[1] - meanwhile[0]), 1.0))} of growth for each thread"
    return case.finding(
        _KIND,
        f"Threads{named} pile up: {started} more than at the start, {ended}",
        grounds=[
            Ground("threads were counted; a library may mean to keep some", SURE),
            Ground("they run a function of the job's own", STRONG) if function else None,
        ],
        bytes=bytes,
        process=process,
        line=start or (maker.line if maker is not None else None) or definition_of(kind, function),
        holder=f"{started} threads{named}{kept.words}",
        variable=kept.variable,
        type="threading.Thread",
        library="threading",
        evidence=[
            Evidence(
                f"{process.label} had {usual} thread{'s' if usual != 1 else ''} at first and {last} at the end",
                {"first_count": int(pile.count[0]), "last_count": last},
            ),
            ran if function else None,
            *(maker.evidence if maker is not None else ()),
            at_line(start, "starts them"),
            *kept.evidence,
            Evidence(each, {"bytes": bytes}) if case.growth.leaking and bytes else None,
        ],
        doubts=[None if function or library else _UNKNOWN, *kept.doubts],
        remedy=[_SHUT if function is None and start is not None else _remedy(kind, maker)],
        mechanism="timers" if waits == _TIMER else "not-closed" if maker is not None else "not-ended",
        series=[pile.curve("threads")],
    )


def _remedy(kind: Row | None, maker: _Maker | None) -> str:
    if text_of(kind, "text") == _TIMER:
        return _IN_TIME
    if maker is None:
        return _ENDED
    again = f"make one {maker.one or 'client'} and use it again, or close each after use at {maker.line.place}"
    return f"{again}: it has threads of its own"


def _library_of(case: Case, kind: Row | None) -> str | None:
    """``multiprocessing.pool.worker()``, where what the threads run is no function of the job's own."""
    file = text_of(kind, "owner_file")
    if kind is None or file is None or kind["function"] == _OF_LIBRARY or any(s.file == file for s in case.sources):
        return None
    _, *below = _PACKAGES.split(file)
    return f"{below[-1][1 : -len('.py')].replace('/', '.')}.{kind['function']}()" if below else None


def _made_under(case: Case, process: ProcessGrowth) -> _Maker | None:
    """By samples: a library is called there under which most of what stays was asked for.

    Of its objects that are made there, the outermost is what the job has in hands: the others belong to it.
    """
    line = next(iter(lines_of(case.growth, process, case.sources)), None)
    if line is None or not line.library or line.share < MOST:
        return None
    calls = calls_of(line.alive[0].stack)
    at = max((i for i, call in enumerate(calls) if call[:2] == (line.file, line.line)), default=-1)
    called = (call.function for call in calls[at + 1 :])
    one = next((name[: -len(_MAKES)] for name in called if name.endswith(_MAKES)), None)
    makes = (at_line(line, f"makes {one} objects, which have these threads"),) if one is not None else ()
    return _Maker(one, line, (grew_at(line), *makes))


def _kind_of_thread(threads: Rows) -> Row | None:
    """Of the last snapshot, the kind of thread that multiplied most."""
    if not len(threads):
        return None
    last = only(threads, threads["take"] == threads["take"].max())
    first = only(threads, threads["take"] == threads["take"].min()).sums("function", "object_count")
    earlier = {} if last["take"].iloc[0] == threads["take"].min() else first
    gained = [count - earlier.get(function, 0) for function, count in cells(last, "function", "object_count")]
    return last.iloc[int(np.argmax(gained))]


def _bytes(case: Case, process: ProcessGrowth, started: int) -> int:
    """Growth the threads account for: their stacks, and what their functions were seen to hold more of."""
    if not case.growth.leaking:
        return 0
    places = case.heap(process.pid).places
    own = [p for p in places if (p.root_kind == "thread" and p.parent is None) or p.path == THREADS_ALIVE]
    by_take: Floats = sum((place.deep_bytes for place in own), np.zeros(1))
    held = float(np.diff(by_take[by_take > 0]).sum())
    likely = max(0, process.growth_bytes)
    if not places or held >= GOOD_PART * likely:  # snapshots are early and far apart: the rest of the growth is alike
        return likely
    return int(min(likely, max(0.0, held) + started * _STACK_BYTES))


def _start_line(case: Case, function: str | None) -> Line | None:
    """Where the threads are started, as far as the sources tell: there is the place to mend."""
    sources = case.sources
    if function is not None:
        return thread_start_line(sources, function)
    pools = calls(sources, *_POOLS)
    return pools[0].line if pools else None
