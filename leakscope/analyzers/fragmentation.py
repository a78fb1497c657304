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
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ..confidence import FAIR, STRONG, SURE, WEAK, Ground
from ..evidence import kept_free
from ..evidence.experiments import returned, trimmed
from ..evidence.explained import is_explained
from ..evidence.sentences import at_line, curve
from ..facts.accounts.ledger import growth_of
from ..facts.code.adding import Line
from ..facts.growth.kept import Kept, kept_by_malloc
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import no_growth
from ..facts.heap.accumulation import keeps_growing
from ..facts.heap.comparable import heap_of, heaps
from ..facts.heap.handles import in_step
from ..facts.heap.owners import user_place
from ..facts.heap.place import Place
from ..facts.tables import only
from ..facts.where.holders import holder_name, named_in
from ..findings import Evidence, Finding, RuledOut, Series, Skipped
from ..kinds import GROWTH, WASTE
from ..units import MiB, changed, format_bytes, format_count

if TYPE_CHECKING:
    from ..facts.case import Case

NEEDS = ("process_samples", "sentinels")
TELLS = (GROWTH, WASTE)
AFTER = (
    "*",
    "native-growth",
)  # who filled and dropped what is free now, if known, is the answer
_KIND = "fragmentation"
_WORTH_A_TRIM = 0.1  # of what malloc says is free


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_free_share: float = 0.5,  # of the process's growth: below, what is in use is the news
    min_free_bytes: int = 16 * MiB,  # allocators keep some in every program
    min_pinning_count: int = 1000,  # fewer survivors cannot pin much: a page, or a pool, each
    min_kept_bytes: int = 64
    * MiB,  # kept free all the time, memory growing or not: the most that one arena maps at once
    min_kept_share: float = 0.3,  # of what the process holds
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process whose growth is memory that allocators keep free; else one of what malloc keeps."""
    growth = case.growth
    if not growth.leaking:
        wasted = [*_wasted(case, (), min_kept_bytes, min_kept_share)]
        yield from wasted
        if not wasted:
            yield no_growth(_KIND, growth)
        return
    grown: list[ProcessGrowth] = []  # by what they keep free: told here, or by who filled and dropped it
    found = False
    most = max([0, *(growth_of(case.ledger, "allocator-free", p.label) for p in growth.processes)])
    for process in case.carriers():
        free = growth_of(case.ledger, "allocator-free", process.label)
        if free < max(min_free_bytes, min_free_share * process.growth_bytes):
            continue
        grown.append(process)
        if is_explained(so_far, process):
            continue
        found = True
        yield _finding(case, process, free, min_pinning_count)
    wasted = [*_wasted(case, grown, min_kept_bytes, min_kept_share)]
    yield from wasted
    if not found and not wasted:
        little = most < max(min_free_bytes, min_free_share * growth.growth_bytes)
        why = "too little to matter" if little else "another finding names what pins it"
        text = f"allocators keep {format_bytes(most)} of the growth free: {why}"
        yield RuledOut(_KIND, text, {"allocator_free_bytes": most, "growth_bytes": growth.growth_bytes})


def _wasted(case: Case, told: Sequence[ProcessGrowth], min_bytes: int, min_share: float) -> Iterator[Finding]:
    """What malloc keeps is no growth, and yet may be most of the process. One finding for processes of one name."""
    found: dict[str, list[tuple[ProcessGrowth, Kept]]] = {}
    for process in case.growth.processes:
        kept = kept_by_malloc(process) if process not in told else None
        if kept is not None and kept.free_bytes >= max(min_bytes, min_share * kept.held_bytes):
            found.setdefault(process.name, []).append((process, kept))
    for alike in found.values():
        alike.sort(key=lambda pair: -pair[1].free_bytes)
        process, kept = alike[0]
        given = trimmed(case, process)
        if given is None or given >= _WORTH_A_TRIM * kept.free_bytes:  # else it lies in pieces below a page
            yield _waste(case, process, kept, given, [other for _, other in alike[1:]])


def _waste(case: Case, process: ProcessGrowth, kept: Kept, given: int | None, others: Sequence[Kept]) -> Finding:
    evidence = [*kept_free.told(case, process, kept, given)]
    bytes = kept.free_bytes + sum(other.free_bytes for other in others)
    if others:
        count, size = format_count(len(others)), format_bytes(bytes - kept.free_bytes)
        text = f"{count} more processes of {process.name} keep {size} more in the same way"
        evidence.append(Evidence(text, {"process_count": len(others), "kept_free_bytes": bytes - kept.free_bytes}))
    at_s, free, in_use = kept.series
    return case.finding(
        _KIND,
        kept_free.title(kept),
        severity="warning" if _is_much(case, kept, bytes) else "note",
        grounds=_wasted_grounds(given),
        bytes=bytes,
        process=process,
        library=kept.library or "malloc",
        evidence=evidence,
        doubts=kept_free.doubts(kept, given),
        remedy=kept_free.remedies(kept, given),
        series=[curve("kept free by malloc", at_s, free), curve("in use", at_s, in_use)],
        wasted=True,
    )


def _is_much(
    case: Case,
    kept: Kept,
    bytes: int,
    *,
    near: float = 0.8,  # of the limit was used
    of_limit: float = 0.1,  # so much of it would be free
    share: float = 0.5,  # of what the process holds, where no limit is near
    much: int = 256 * MiB,
) -> bool:
    limit = case.nearest_limit
    if limit is not None and limit.peak_fraction >= near and bytes >= of_limit * float(limit.limit_bytes[-1]):
        return True
    return bytes >= much and kept.share >= share


def _wasted_grounds(given: int | None) -> Iterator[Ground]:
    yield Ground("malloc counts what it keeps free", WEAK)
    yield Ground("so much is resident and not in use", FAIR)
    if given is not None:
        yield Ground("malloc_trim() gave memory back", STRONG)


def _finding(case: Case, process: ProcessGrowth, free: int, min_pinning_count: int) -> Finding:
    in_arenas = case.gained(process, "pymalloc_bytes", "pymalloc_in_use_bytes")
    of_python = in_arenas is not None and in_arenas > 0.5 * free
    who = "Python's allocator of small objects" if of_python else "malloc"
    survivors = _survivors(case, process, free) if of_python else None
    if survivors is not None:
        pin: Place | None = survivors.place
    else:  # where it was seen what lies in such pools, it is nobody that gained members
        is_seen = of_python and len(process.rows("heap_pins")) > 0
        pin = None if is_seen else _pinning(case, process, min_pinning_count)
    owner, found = named_in(case.sources, pin) if pin is not None else (None, [])
    line = found[0] if found else None
    name = holder_name(owner) if owner is not None else None
    bytes = max(0, min(process.growth_bytes, free))
    copied = (
        f"build {name} after the temporary objects are freed, or copy it then: its small entries pin the memory freed "
        "around them"
    )
    is_endless = pin is not None and pin.has_length and keeps_growing(pin.length)
    filled = f" (filled at {line.place})" if line is not None else ""
    between = "its members lie between what is freed, and each new one keeps more of that from being used again"
    bounded = f"bound {name}{filled}: {between}" if is_endless else ""
    return case.finding(
        _KIND,
        f"Freed memory is not given back: {who} keeps {format_bytes(bytes)} that nothing uses"
        + _pinned_by(survivors, name),
        grounds=_grounds(bool(survivors), bool(of_python), bool(pin)),
        bytes=bytes,
        process=process,
        line=line,
        holder=name,
        variable=owner.reference.variable if owner is not None else None,
        path=pin.path if pin is not None else None,
        library="CPython" if of_python else "malloc",
        evidence=_evidence(case, process, who, free, pin, survivors, line),
        doubts=_doubts(of_python, None if survivors else pin),
        remedy=[*filter(None, [bounded]), *_remedy(case, process, copied if pin else None, of_python=bool(of_python))],
        mechanism="unbounded-between-freed" if is_endless else "pinned" if pin is not None else None,
        series=_series(case, process, of_python),
    )


def _remedy(case: Case, process: ProcessGrowth, copied: str | None, *, of_python: bool) -> list[str]:
    """What was not seen to be so is worth a try."""
    tries = [copied if of_python else f"try this: {copied}"] if copied is not None else []
    others = process.rows("sentinels")["malloc_library"].notna().any()
    if not of_python and not others and returned(case, process.pid, "malloc_trim") is None:
        tries.append(kept_free.PROBE)
    return tries


class _Survivors(NamedTuple):
    """What one place holds in pools and arenas that are mostly free, in the last snapshot that says so."""

    place: Place
    objects: float
    bytes: float
    pinned_bytes: float
    gained_bytes: float  # of pinned_bytes, between the snapshots

    def evidence(self) -> Evidence:
        figures = {"survivors": self.objects, "survivor_bytes": self.bytes, "pinned_bytes": self.pinned_bytes}
        return Evidence(
            f"{format_count(self.objects)} objects of {format_bytes(self.bytes)} that {holder_name(self.place)} holds "
            f"lie in pools and arenas that are mostly free, and pin {format_bytes(self.pinned_bytes)} of free memory",
            figures,
        )


def _grounds(survivors: bool, of_python: bool, pin: bool) -> Iterator[Ground]:
    """Python's allocator counts what it keeps, malloc also what it gave back."""
    yield Ground("allocators say what they keep free", WEAK)
    if survivors:
        yield Ground("what lies in the pools was seen", SURE)
        return
    if of_python:
        yield Ground("Python's allocator counts its own pools", WEAK)
    if pin:
        yield Ground("a holder that may lie between was seen, though not where", WEAK)


def _pinned_by(survivors: _Survivors | None, name: str | None) -> str:
    if survivors is not None and name:
        return f", pinned by {format_count(survivors.objects)} survivors that {name} holds"
    return f", pinned perhaps by what {name} holds" if name else ""


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
    first, last = (only(pins, pins["take"] == take).groupby("node")[columns].sum() for take in (takes[0], takes[-1]))
    gained = last["pinned_bytes"].sub(first["pinned_bytes"], fill_value=0.0)
    order = list(heap.roots)
    for place in order:
        order += place.children
    sums: dict[int, NDArray[np.float64]] = {}
    for place in reversed(order):
        node = place.node
        own = [*last.loc[node], gained[node]] if node is not None and node in last.index else [0.0] * 4
        sums[id(place)] = np.array(own, dtype=np.float64) + sum(sums[id(child)] for child in place.children)
    best = max(heap.roots, key=lambda place: float(sums[id(place)][-1]), default=None)
    while best is not None:
        child = max(best.children, key=lambda place: float(sums[id(place)][-1]), default=None)
        if child is None or sums[id(child)][-1] < most_of_it * sums[id(best)][-1]:
            break
        best = child
    window_s = growth.end_s - growth.start_s
    passed_s = float(heap.time_s[heap.takes.index(takes[-1])] - heap.time_s[heap.takes.index(takes[0])])
    if best is None or sums[id(best)][-1] * window_s < min_share * free * max(passed_s, 1e-9):
        return None
    return _Survivors(best, *map(float, sums[id(best)]))


def _pinning(case: Case, process: ProcessGrowth, min_count: int) -> Place | None:
    """The user's container that gained most members, steadily: they are what survives between the freed.

    ``min_count``, or each brought as many free pieces with it: then it is seen what lies between them.
    """
    best: Place | None = None
    heap = heap_of(case.recording, process.pid, case.growth.start_s, case.growth.end_s)
    arenas = process.rows("malloc_arenas").groupby("time_s")["free_chunk_count"].sum()
    at_s, pieces = arenas.index.to_numpy(dtype=np.float64), arenas.to_numpy(dtype=np.float64)
    if heap is None:
        return None
    for place in heap.places:
        if not (place.has_length and user_place(place).is_user and keeps_growing(place.length)):
            continue
        gained = place.length[-1] - place.length[0]
        is_in_step = at_s.size > 1 and in_step(place.length, np.interp(heap.time_s, at_s, pieces)) is not None
        if (gained >= min_count or is_in_step) and (best is None or gained > best.length[-1] - best.length[0]):
            best = place
    return best


def _evidence(
    case: Case,
    process: ProcessGrowth,
    who: str,
    free: int,
    pin: Place | None,
    survivors: _Survivors | None,
    line: Line | None,
) -> list[Evidence]:
    in_use = case.gained(process, "malloc_in_use_bytes") or 0.0
    small = case.gained(process, "pymalloc_in_use_bytes") or 0.0
    figures = {
        "allocator_free_bytes": free,
        "malloc_in_use_bytes": round(in_use),
        "pymalloc_in_use_bytes": round(small),
    }
    used = f"what is in use {changed(in_use + small)}"
    evidence = [Evidence(f"{who} keeps {format_bytes(free)} more without using it; {used}", figures)]
    if survivors is not None:
        evidence.append(survivors.evidence())
    elif pin is not None:
        counts = {"first_length": float(pin.length[0]), "last_length": float(pin.length[-1])}
        text = f"{holder_name(pin)} went from {format_count(pin.length[0])} to {format_count(pin.length[-1])} members"
        evidence.append(Evidence(f"{text}: each can keep the memory around it from being given back", counts))
    if line is not None:
        evidence.append(at_line(line, line.kind))
    return evidence


def _doubts(of_python: bool, pin: Place | None) -> list[str]:
    doubts = []
    if pin is not None:
        doubts.append("its members probably pin the memory: where they lie was not checked")
    if not of_python:
        doubts.append("malloc also counts memory as free that it has returned to the kernel")
    return doubts


def _series(case: Case, process: ProcessGrowth, of_python: bool) -> list[Series]:
    columns = (
        ("pymalloc_bytes", "pymalloc_in_use_bytes") if of_python else ("malloc_system_bytes", "malloc_in_use_bytes")
    )
    rows = process.rows("sentinels")
    rows = rows[rows[list(columns)].notna().all(axis=1)].iloc[:2000]
    time_s = rows["time_s"].astype("float64").tolist()
    names = ("kept by the allocator", "in use")
    return [Series(name, time_s, rows[column].astype("float64").tolist()) for name, column in zip(names, columns)]
