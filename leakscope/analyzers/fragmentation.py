"""Memory that was freed but that an allocator cannot give back, because something small lives in every piece of it.

Looks for:     growth in what malloc, or Python's allocator of small objects, keeps without using it; and, whether
               memory grows or not, memory that malloc keeps free all the time: that is waste, and no leak.
Why:           a page, or a pool of 16 KiB, goes back only when nothing in it is in use any more: one survivor in each
               is enough to keep all of it. malloc gives each thread an arena, and each arena keeps its own.
Decides by:    the ledger: min_free_share of what a process gained is free inside allocators, and what is in use is not;
               of Python's allocator, which object holds what lies in its pools that are mostly free, by the graph of
               the heap; else a container whose length keeps growing meanwhile is named as what pins it. For waste:
               min_kept_bytes and min_kept_share of what the process holds, in nine of ten readings of its later half.
Mistaken when: the process is about to use the memory again; or freed memory was trimmed but still counts as free.
Do:            keep what lives long apart from what does not: copy the survivors after the rest is freed. Where many
               threads have an arena each, MALLOC_ARENA_MAX=2; before a pause, malloc_trim(0). The finding says what
               each may give.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..confidence import FAIR, STRONG, SURE, WEAK, Ground
from ..evidence.experiments import is_trim_tried, trimmed
from ..evidence.explained import growing_holder, is_explained
from ..evidence.sentences import at_line, curve
from ..facts.accounts.bill import ARROW_POOL, FREE
from ..facts.accounts.ledger import growth_of
from ..facts.case import Case
from ..facts.growth.kept import Kept, kept_by_malloc
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import no_growth
from ..facts.heap.accumulation import keeps_growing
from ..facts.heap.comparable import heap_of, heaps
from ..facts.heap.handles import in_step
from ..facts.heap.owners import user_place
from ..facts.heap.place import Place, downwards
from ..facts.tables import only, without_last
from ..facts.where.allocations import Allocations, allocations
from ..facts.where.holders import holder_name, named_in
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import GROWTH, WASTE
from ..units import (
    GOOD_PART,
    HUGE,
    LEAST_MAPPED,
    MOST,
    NEARLY_ALL,
    SOME,
    MiB,
    changed,
    format_bytes,
    format_count,
    format_duration,
)

NEEDS = ("process_samples", "sentinels")
TELLS = (GROWTH, WASTE)
AFTER = ("*", "native-growth")  # who filled and dropped what is free now, if known, is the answer
_KIND = "fragmentation"
_MUCH = HUGE  # where no limit is near
_MANY_ARENAS = 4
_OF_OTHERS = {  # what a library in the place of malloc takes from the environment
    "tcmalloc": "TCMALLOC_RELEASE_RATE=10 (0 to 10; 1 is its own)",
    "": "MALLOC_CONF=narenas:2,dirty_decay_ms:1000,muzzy_decay_ms:0",
}
_PROBE = "record it with --probe: that measures whether malloc_trim(0) gives the memory back"
_TRIMMED = "malloc also counts memory as free that it has returned to the kernel"


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_free_share: float = 0.5,  # of the process's growth: below, what is in use is the news
    min_free_bytes: int = 16 * MiB,  # allocators keep some in every program
    min_pinning_count: int = 1000,  # fewer survivors cannot pin much: a page, or a pool, each
    min_kept_bytes: int = 64 * MiB,  # free all the time, memory growing or not: the most that one arena maps at once
    min_kept_share: float = GOOD_PART,  # of what the process holds
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process whose growth is memory that allocators keep free; else one of what malloc keeps."""
    growth = case.growth
    grown: list[ProcessGrowth] = []  # by what they keep free: told here, or by who filled and dropped it
    told = 0
    for process in case.carriers() if growth.leaking else ():
        free = growth_of(case.ledger, "allocator-free", process.label)
        if free >= max(min_free_bytes, min_free_share * process.growth_bytes):
            grown.append(process)
            if not is_explained(so_far, process):
                told += 1
                yield _grew(case, process, free, min_pinning_count, growing_holder(so_far))
    for wasted in _wasted(case, grown, min_kept_bytes, min_kept_share):
        told += 1
        yield wasted
    if not growth.leaking and not told:
        yield no_growth(_KIND, growth)
    elif not told:
        most = max([0, *(growth_of(case.ledger, "allocator-free", p.label) for p in growth.processes)])
        is_part = most < min_free_share * growth.growth_bytes
        why = "what is in use grew more" if is_part else "another finding names what pins it"
        why = "too little to matter" if most < min_free_bytes else why
        text = f"allocators keep {format_bytes(most)} of the growth free: {why}"
        yield RuledOut(_KIND, text, {"allocator_free_bytes": most, "growth_bytes": growth.growth_bytes})


# ---- what malloc keeps is no growth, and yet may be most of the process


def _wasted(case: Case, told: Sequence[ProcessGrowth], min_bytes: int, min_share: float) -> Iterator[Finding]:
    """One finding for processes of one name."""
    found: dict[str, list[tuple[ProcessGrowth, Kept]]] = {}
    for process in case.growth.processes:
        kept = kept_by_malloc(process) if process not in told else None
        if kept is not None and kept.free_bytes >= max(min_bytes, min_share * kept.held_bytes):
            found.setdefault(process.name, []).append((process, kept))
    for alike in found.values():
        alike.sort(key=lambda pair: -pair[1].free_bytes)
        process, kept = alike[0]
        given = trimmed(process)
        if given is None or given >= SOME * kept.free_bytes:  # else it lies in pieces below a page
            yield _waste(case, process, kept, given, [other for _, other in alike[1:]])
    level = next(iter(case.bills), None)
    pools = [part for row in (level.rows if level else ()) if row.account == FREE for part in row.parts]
    by_label = {process.label: process for process in case.growth.processes if process not in told}
    for pool in (one for one in pools if one.name == ARROW_POOL and one.process in by_label):
        process = by_label[pool.process]
        held, share = float(process.held_bytes.max()), pool.bytes / float(process.held_bytes.max())
        if pool.bytes < max(min_bytes, min_share * held):
            continue
        yield case.finding(
            _KIND,
            f"{pool.name} keeps {format_bytes(pool.bytes)} of {format_bytes(held)} free: freed memory that it does not "
            "give back",
            severity="warning" if pool.bytes >= _MUCH and share >= MOST else "note",
            grounds=[Ground("the pool counts what it handed out", FAIR), Ground("the rest of it is resident", FAIR)],
            bytes=pool.bytes,
            process=process,
            library="pyarrow",
            evidence=[
                Evidence(
                    f"{format_bytes(pool.bytes)} of what Arrow mapped for its pool were resident, and held by no table "
                    "or array",
                    {"kept_free_bytes": pool.bytes, "held_bytes": round(held)},
                )
            ],
            doubts=["the program may need it again for its next tables"],
            remedy=[
                "call pyarrow.default_memory_pool().release_unused() once tables are dropped: it gives back pages in "
                "which nothing in use lies (--probe measures how much)",
                "start it with ARROW_DEFAULT_MEMORY_POOL=system in the environment: malloc gives back large pieces as "
                "they are freed, and the others by release_unused() (not tried)",
            ],
            wasted=True,
        )


def _waste(case: Case, process: ProcessGrowth, kept: Kept, given: int | None, others: Sequence[Kept]) -> Finding:
    """``given``: what malloc_trim() gave back when it was tried, None where it was not."""
    arenas, more = kept.arenas, sum(other.free_bytes for other in others)
    bytes, limit = kept.free_bytes + more, case.nearest_limit
    is_near = limit is not None and limit.peak_fraction >= NEARLY_ALL
    is_scarce = is_near and limit is not None and bytes >= SOME * float(limit.limit_bytes[-1])
    where = f", in {format_count(arenas.arena_count)} arenas" if arenas is not None and arenas.arena_count > 1 else ""
    how_much = f"{format_bytes(kept.free_bytes)} of {format_bytes(kept.held_bytes)} free{where}"
    same = f"{format_count(len(others))} more processes of {process.name} keep {format_bytes(more)} more in like manner"
    at_s, free, in_use = kept.series
    return case.finding(
        _KIND,
        f"{kept.library or 'malloc'} keeps {how_much}: freed memory that it does not give back",
        severity="warning" if is_scarce or (bytes >= _MUCH and kept.share >= MOST) else "note",
        grounds=[
            Ground("malloc counts what it keeps free", WEAK),
            Ground("more is resident than is in use", FAIR),
            Ground("malloc_trim() gave memory back", STRONG) if given is not None else None,
        ],
        bytes=bytes,
        process=process,
        library=kept.library or "malloc",
        evidence=[
            *_kept(case, process, kept, given),
            Evidence(same, {"process_count": len(others), "kept_free_bytes": more}) if others else None,
        ],
        doubts=[
            f"{_TRIMMED}, where a program trims" if given is None and kept.library is None else None,
            "the program may need it again for a peak that is too short to be sampled",
        ],
        remedy=_remedies(kept, given),
        series=[curve("kept free by malloc", at_s, free), curve("in use", at_s, in_use)],
        wasted=True,
    )


def _kept(case: Case, process: ProcessGrowth, kept: Kept, given: int | None) -> Iterator[Evidence]:
    """How much, in how many arenas, since when."""
    start, end, since = map(format_duration, (kept.start_s, kept.end_s, kept.since_s))
    figures = {
        "kept_free_bytes": kept.free_bytes, "held_bytes": kept.held_bytes, "malloc_in_use_bytes": kept.in_use_bytes,
        "start_s": round(kept.start_s, 2), "end_s": round(kept.end_s, 2), "since_s": round(kept.since_s, 2),
    }  # fmt: skip
    yield Evidence(
        f"from {start} to {end} malloc nearly always kept {format_bytes(kept.free_bytes)} or more free, of the "
        f"{format_bytes(kept.held_bytes)} that the process held; half of that or more since {since}; "
        f"{format_bytes(kept.in_use_bytes)} were in use",
        figures,
    )
    arenas = kept.arenas
    if arenas is not None:
        count, free = format_count(arenas.arena_count), format_count(arenas.mostly_free)
        lay = f"{count} arenas, of which {free} were mostly free" if arenas.arena_count > 1 else "one arena"
        pieces = f"{format_count(arenas.chunk_count)} free pieces of {format_bytes(arenas.chunk_bytes)} on average"
        top = f"{format_bytes(arenas.top_bytes)} of it at the end of an arena, from where it can go back by itself"
        yield Evidence(f"it lay in {lay}: {pieces}, {top}", arenas._asdict())
    if kept.library is None:
        yield from _of_threads(process)
    yield from _survivors_of_malloc(case, process)
    if given is not None:
        yield Evidence(f"malloc_trim() at the end gave back {format_bytes(given)}", {"returned_bytes": given})
    yield Evidence("no object holds this memory: it is no leak, and no change to what the program keeps frees it")


def _survivors_of_malloc(case: Case, process: ProcessGrowth) -> Iterator[Evidence]:
    """The line of the user's that asked for most of what stays between the freed; where it lies was not looked at."""
    own = {source.file for source in case.sources}
    stay: dict[tuple[str, int], list[Allocations]] = {}
    for one in allocations(case.growth, process, ("malloc",)):
        if one.file in own and one.line is not None and one.settled_bytes > 0:
            stay.setdefault((str(one.file), one.line), []).append(one)
    for (file, line), found in sorted(stay.items(), key=lambda item: -sum(one.settled_bytes for one in item[1]))[:1]:
        size, place = round(sum(one.settled_bytes for one in found)), f"{file.rsplit('/', 1)[-1]}:{line}"
        text = f"{format_bytes(size)} of what is in use stays for long, by samples, and was allocated at {place}"
        yield Evidence(f"{text}: each piece keeps the page in which it lies", {"survivor_bytes": size})


def _of_threads(process: ProcessGrowth) -> Iterator[Evidence]:
    """The function that most threads run: malloc gives a thread an arena that no other has, while there are any."""
    rows = without_last(process.rows("threads"), process.rows("takes"))
    rows = only(rows, (rows["take"] == rows["take"].max()) & rows["object_count"].notna())
    most = rows.sort_values("object_count").iloc[-1] if len(rows) else None
    if most is not None and int(most["object_count"]) >= _MANY_ARENAS:
        count = int(most["object_count"])
        text = f"{format_count(count)} threads run {most['function']}(): each thread is given an arena of its own"
        yield Evidence(text, {"thread_count": count, "function": str(most["function"])})


def _remedies(kept: Kept, given: int | None) -> Iterator[str]:
    """What the recording supports, with the bytes that it may give and how sure that is: first what lasts."""
    arenas, free = kept.arenas, kept.free_bytes
    if kept.library is not None:  # others do not say what they keep
        settings = next(how for name, how in _OF_OTHERS.items() if name in kept.library)
        yield f"set {settings} in the environment: up to {format_bytes(free)} less (not tried)"
        return
    scale = min(1.0, free / max(arenas.free_bytes, 1)) if arenas is not None else 0.0
    fewer, pages = (arenas.beyond_two_bytes * scale, arenas.whole_page_bytes * scale) if arenas is not None else (0, 0)
    has_many = arenas is not None and arenas.arena_count >= _MANY_ARENAS and fewer >= MOST * free
    # Free pieces run together: where it was seen how large those were that the program asked for, that decides.
    is_large = arenas is not None and arenas.chunk_bytes >= LEAST_MAPPED
    if arenas is not None and kept.large_share is not None:
        is_large = kept.large_share >= MOST
    freed = pages if given is None else float(given)
    how_sure = "as it ended: measured" if given is not None else "an estimate, by the sizes of the free pieces"
    table = (  # whether it may help, what to do, how many bytes less, and what else is known of that
        (has_many, "start it with MALLOC_ARENA_MAX=2 in the environment: up to {} less, which is what the other arenas "
         "keep (not tried; threads may then wait for each other in malloc)", fewer),
        (is_large, "set MALLOC_MMAP_THRESHOLD_=131072 in the environment, or make large temporaries in pieces: up to "
         "{} less, since buffers of 128 KiB and more then go back as they are freed (not tried; each costs system "
         "calls)", free),
        (freed >= MOST * free, "before a pause call ctypes.CDLL(None).malloc_trim(0): about {} "
         f"({how_sure}), until the program takes them again", freed),
        (kept.large_share is not None, "leakscope whatif replays it under each of these, and under jemalloc and "
         "mimalloc if installed", 0),
        (kept.large_share is None and given is None and not ((has_many or is_large) and pages), _PROBE, 0),
    )  # fmt: skip
    yield from (how.format(format_bytes(less)) for helps, how, less in table if helps)


# ---- growth of what allocators keep free


class _Survivors(NamedTuple):
    """What one place holds in pools and arenas that are mostly free, in the last snapshot that says so."""

    place: Place
    objects: float
    bytes: float
    pinned_bytes: float
    are_ever_more: bool  # members of the place


def _grew(case: Case, process: ProcessGrowth, free: int, min_pinning_count: int, other: str | None) -> Finding:
    """``other``: a holder that another finding names. Where nothing is known to lie between, that is to be mended."""
    in_arenas = case.gained(process, "pymalloc_bytes", "pymalloc_in_use_bytes")
    of_python = in_arenas is not None and in_arenas > MOST * free
    who, library = ("Python's allocator of small objects", "CPython") if of_python else ("malloc", "malloc")
    columns = [f"pymalloc_{part}" for part in ("bytes", "in_use_bytes")]
    columns = columns if of_python else ["malloc_system_bytes", "malloc_in_use_bytes"]
    survivors = _survivors(case, process, free) if of_python else None
    # Where it was seen what lies in such pools, it is nobody that gained members.
    is_seen = of_python and len(process.rows("heap_pins")) > 0
    pin = survivors.place if survivors else None if is_seen else _pinning(case, process, min_pinning_count)
    owner, found = named_in(case.sources, pin) if pin is not None else (None, [])
    line, name = next(iter(found), None), holder_name(owner) if owner is not None else None
    bytes = max(0, min(process.growth_bytes, free))
    in_use, small = (case.gained(process, column) or 0.0 for column in ("malloc_in_use_bytes", "pymalloc_in_use_bytes"))
    figures = {"malloc_in_use_bytes": round(in_use), "pymalloc_in_use_bytes": round(small)}
    used = f"{who} keeps {format_bytes(free)} more without using it; what is in use {changed(in_use + small)}"
    pinned_by = f", pinned perhaps by what {name} holds" if name else ""
    if survivors is not None and name:
        pinned_by = f", pinned by {format_count(survivors.objects)} survivors that {name} holds"
    is_endless = survivors.are_ever_more if survivors is not None else pin is not None
    filled = f" (filled at {line.place})" if line is not None else ""
    bound = f"bound {name}{filled}: its members lie between what is freed, and each new one keeps more of that from "
    copied = f"build {name} after the temporary objects are freed, or copy it then: its small entries pin the memory "
    copied += "freed around them"
    has_others = process.rows("sentinels")["malloc_library"].notna().any()
    is_untried = not of_python and not has_others and not is_trim_tried(process)
    curves = process.rows("sentinels")
    curves = curves.dropna(columns)
    at_s, *levels = (curves[column].to_numpy(dtype=np.float64) for column in ("time_s", *columns))
    return case.finding(
        _KIND,
        f"Freed memory is not given back: {who} keeps {format_bytes(bytes)} that nothing uses{pinned_by}",
        grounds=[  # Python's allocator counts what it keeps, malloc also what it gave back
            Ground("allocators say what they keep free", WEAK),
            Ground("what lies in the pools was seen", SURE) if survivors else None,
            Ground("Python's allocator counts its own pools", WEAK) if of_python and not survivors else None,
            Ground("a holder that may lie between was seen, though not where", WEAK) if pin and not survivors else None,
        ],
        severity="warning" if pin is None and other is not None else None,
        bytes=bytes,
        process=process,
        line=line,
        holder=name,
        variable=owner.reference.variable if owner is not None else None,
        path=pin.path if pin is not None else None,
        library=library,
        evidence=[
            Evidence(used, {"allocator_free_bytes": free, **figures}),
            _pins(pin, survivors),
            at_line(line, line.kind if line else ""),
        ],
        doubts=[
            "its members probably pin the memory: where they lie was not checked" if pin and not survivors else None,
            None if of_python else _TRIMMED,
        ],
        remedy=[
            f"{bound}being used again" if is_endless else None,
            None if pin is None else copied if of_python else f"try this: {copied}",  # it was not seen to be so
            _PROBE if is_untried else None,
            _other_way(process, bytes, other) if pin is None and not is_untried else None,
        ],
        mechanism="unbounded-between-freed" if is_endless else "pinned" if pin is not None else None,
        series=[curve(text, at_s, level) for text, level in zip(("kept by the allocator", "in use"), levels)],
    )


def _other_way(process: ProcessGrowth, free: int, other: str | None) -> str:
    """What to do where nobody knows what lies between what is freed."""
    given = trimmed(process)
    if given is not None and given >= MOST * free:
        return f"before a pause call ctypes.CDLL(None).malloc_trim(0): as it ended that gave back {format_bytes(given)}"
    first = f"fix {other} first: what it keeps may be what fragments the memory; then " if other is not None else ""
    return f"{first}see leakscope whatif: it replays the process under other allocators and their settings"


def _pins(pin: Place | None, survivors: _Survivors | None) -> Evidence | None:
    if survivors is not None:
        _, objects, size, pinned, _ = survivors
        text = f"{format_count(objects)} objects of {format_bytes(size)} that {holder_name(survivors.place)} holds lie "
        text += f"in pools and arenas that are mostly free, and pin {format_bytes(pinned)} of free memory"
        return Evidence(text, {"survivors": objects, "survivor_bytes": size, "pinned_bytes": pinned})
    if pin is None:
        return None
    first, last = float(pin.length[0]), float(pin.length[-1])
    text = f"{holder_name(pin)} went from {format_count(first)} to {format_count(last)} members: each can keep the "
    text += "memory around it from being given back"
    return Evidence(text, {"first_length": first, "last_length": last})


def _survivors(
    case: Case,
    process: ProcessGrowth,
    free: int,
    *,
    min_share: float = 0.25,  # of the free memory that was gained
    most_of_it: float = 0.7,  # of what a place came to pin: in one part of it, and that is told
) -> _Survivors | None:
    """The object whose survivors came to pin most, those in its parts among them: a list for each size is one dict."""
    growth = case.growth
    found = heaps(case.recording, process.pid, growth.start_s, growth.end_s)
    heap = next((heap for heap in found if heap.is_exact), None)
    pins = process.rows("heap_pins")
    takes = [take for take in heap.takes if (pins["take"] == take).any()] if heap is not None else []
    if heap is None or len(takes) < 2:
        return None
    columns = ["object_count", "shallow_bytes", "pinned_bytes"]
    first, last = (
        {node: [own[name].sum() for name in columns] for node, own in only(pins, pins["take"] == take).groupby("node")}
        for take in (takes[0], takes[-1])
    )
    sums: dict[int, NDArray[np.float64]] = {}
    for place in reversed(downwards(heap.roots)):
        node = place.node
        own = last.get(node, [0.0] * 3)
        own = [*own, own[-1] - first.get(node, own)[-1] if node in first else own[-1]]
        sums[id(place)] = np.array(own, dtype=np.float64) + sum(sums[id(child)] for child in place.children)

    def most(places: Sequence[Place]) -> Place | None:
        return max(places, key=lambda place: float(sums[id(place)][-1]), default=None)

    best = most(heap.roots)
    while best and (child := most(best.children)) and sums[id(child)][-1] >= most_of_it * sums[id(best)][-1]:
        best = child
    passed_s = float(heap.time_s[heap.takes.index(takes[-1])] - heap.time_s[heap.takes.index(takes[0])])
    if best is None or sums[id(best)][-1] * (growth.end_s - growth.start_s) < min_share * free * passed_s:
        return None
    more = best.has_length and keeps_growing(heap.time_s, best.length)
    objects, size, pinned, _ = map(float, sums[id(best)])
    return _Survivors(best, objects, size, pinned, more)


def _pinning(case: Case, process: ProcessGrowth, min_count: int) -> Place | None:
    """The user's container that gained most members, steadily: they are what survives between the freed.

    ``min_count``, or each brought as many free pieces with it: then it is seen what lies between them.
    """
    heap = heap_of(case.recording, process.pid, case.growth.start_s, case.growth.end_s)
    arenas = process.rows("malloc_arenas").sums("time_s", "free_chunk_count")
    at_s, pieces = (np.array([*values], dtype=np.float64) for values in (arenas, arenas.values()))
    if heap is None:
        return None
    found = []
    for place in heap.places:
        if place.has_length and user_place(place).is_user and keeps_growing(heap.time_s, place.length):
            pieces_then = np.interp(heap.time_s, at_s, pieces) if at_s.size > 1 else None
            is_in_step = pieces_then is not None and in_step(place.length, pieces_then) is not None
            if is_in_step or place.length[-1] - place.length[0] >= min_count:
                found.append(place)
    return max(found, key=lambda place: float(place.length[-1] - place.length[0]), default=None)
