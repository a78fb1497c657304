"""Unreachable reference cycles that pile up because the garbage collector is off, frozen or too rare.

Looks for:     objects of a growing type that only a cycle of their own keeps alive.
Why:           objects that refer to each other are freed by the collector alone; switched off, it frees none of them.
Decides by:    the graph of the heap: unreachable objects whose bytes rise by min_garbage_share of the growth, or
               min_unweighed more cycles with what the graph cannot weigh. Where no two snapshots have one, a collector
               that worked is ruled out, and another was not checked.
Mistaken when: a very rare full collection was due just after the recording ended.
Do:            let the collector run, or break the cycle with a weak reference.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pandas as pd

from ..confidence import Ground
from ..evidence.frozen_garbage import frozen_finding
from ..evidence.sentences import at_line
from ..facts.accounts.ledger import growth_of
from ..facts.code.adding import Line, Source, find_calls
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.strays import Strays, piles_up, strays_of
from ..facts.growth.tree import TreeGrowth, no_growth
from ..facts.subject import Definition
from ..facts.tables import int_of, only, series, without_last
from ..facts.where.cycles import breaking, class_place, cycle_line, is_graph_node
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import GROWTH
from ..units import format_bytes, format_count

if TYPE_CHECKING:
    from ..facts.case import Case

NEEDS = ("process_samples", "sentinels")
TELLS = (GROWTH,)
AFTER = ()
_AT_REST = ("off", "frozen", "idle")  # how the collector is, where it frees nothing
_KIND = "cyclic-garbage"
_PYTHON = "python-objects"
_REACHED = ("tensors", "arrays", _PYTHON)  # what the snapshots found by a way from a root: no garbage
_TENSORS = ("torch.Tensor", "torch.nn.parameter.Parameter")
# Tensors that the sweep over all objects found: no way led to the first; to the others one may, with their history.
_NOBODY = ("other", "activation")


@dataclass(frozen=True)
class _Collector:
    """The garbage collector in the judged window. ``state``: off, frozen, idle, no-full-collection or works."""

    state: str
    collections: int
    collected: int
    threshold: int | None
    frozen: int
    pending: int | None  # the most objects that waited for the next collection at once; None: not recorded

    def short(self) -> str:
        return {
            "off": "the garbage collector is off",
            "frozen": "gc.freeze() hides them from the collector",
            "idle": "the garbage collector has not run",
            "no-full-collection": "no full collection runs",
            "works": "the collector does not keep up",
        }[self.state]

    def text(self) -> str:
        return {
            "off": "the garbage collector was switched off while memory grew",
            "frozen": f"gc.freeze() hides {format_count(self.frozen)} objects from the collector",
            "idle": f"the garbage collector never ran while memory grew (threshold {self.threshold})",
            "no-full-collection": f"of {self.collections} collections none was a full one, which frees old cycles",
            "works": f"{self.collections} collections freed {format_count(self.collected)} objects",
        }[self.state]


class _Cycles(NamedTuple):
    """Objects of one type that nothing but cycles keeps. ``place``: file and line of its class, if it is the user's."""

    type_name: str
    chain: str | None
    place: tuple[str, int] | None
    object_count: float
    grown_count: float


def findings(
    case: Case,
    *,
    min_objects: int = 500,  # that gc.freeze() hides: fewer are no leak of a program that freezes
    min_share: float = 0.5,  # of the growth that has to be out of reach, where garbage has no size
    min_garbage_share: float = 0.2,  # of the growth, where garbage is measured
    min_unweighed: int = 16,  # cycles with tensors, where the graph has no sizes of those: each may hold much
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding for the process that grew most, or why it is not garbage."""
    growth = case.growth
    process = growth.main
    if not growth.leaking or process is None:
        yield no_growth(_KIND, growth)
        return
    collector = _collector(process.rows("sentinels"), growth)
    if collector is None:
        yield Skipped(_KIND, f"{process.label}, which grows, has no agent inside")
        return
    strays = strays_of(process, growth.start_s, growth.end_s)
    if strays is not None:
        yield _by_graph(case, process, collector, strays, min_objects, min_unweighed, min_share, min_garbage_share)
        return
    # Of objects that nothing leads to only the graph knows. What a collector that works frees is known without.
    if collector.state in ("works", "no-full-collection"):
        yield _ruled_out(collector)
    else:
        yield Skipped(_KIND, f"{collector.text()}, but no two snapshots read all objects: garbage cannot be counted")


def _by_graph(
    case: Case,
    process: ProcessGrowth,
    collector: _Collector,
    strays: Strays,
    min_objects: int,
    min_unweighed: int,
    min_share: float,
    min_garbage_share: float,
) -> Finding | RuledOut:
    """What the graph says is exact: nothing leads to these objects."""
    window_s = case.growth.end_s - case.growth.start_s
    garbage_bytes = max(0.0, strays.gained(strays.unreached_bytes, window_s))
    out_of_reach = max(0, process.growth_bytes - round(max(0.0, strays.gained(strays.reached_bytes, window_s))))
    cycles = _most_cycles(case, strays)
    # What waits for a collector that works comes and goes: two or three snapshots do not show that it piles up.
    enough = len(strays.time_s) > (3 if collector.state == "works" else 1)
    is_much = garbage_bytes >= min_garbage_share * process.growth_bytes and piles_up(strays.unreached_bytes)
    is_unweighed = cycles is not None and cycles.grown_count >= min_unweighed and _has_no_size(strays, cycles)
    if is_unweighed:
        out_of_reach = min(out_of_reach, _out_of_reach(case, process))
        is_much |= out_of_reach >= min_share * process.growth_bytes
    elif garbage_bytes < min_share * out_of_reach:
        out_of_reach = round(garbage_bytes)  # the rest may be anybody's
    if cycles is None or not enough or not is_much:
        return _ruled_out(collector)
    hidden = frozen_finding(case, process, out_of_reach, strays, min_objects=min_objects)
    return hidden or _finding(case, process, collector, cycles, out_of_reach)


def _has_no_size(strays: Strays, cycles: _Cycles) -> bool:
    """What hangs on the cycles is C++'s: a graph of autograd, or tensors whose storages the heap's graph has not."""
    if is_graph_node(cycles.type_name):
        return True
    tensors = (stray for stray in strays.types if stray.type_name in _TENSORS)
    return not strays.weighs_tensors and any(piles_up(stray.unreached_count) for stray in tensors)


def _most_cycles(case: Case, strays: Strays) -> _Cycles | None:
    """Of the type that piles up most among those of which ever more objects have nothing that leads to them.

    A class with a source file tells more than the dict and list that hang on it.
    """
    found = []
    for stray in strays.types:
        alone = stray.unreached_count
        if not piles_up(alone):
            continue
        if is_graph_node(stray.type_name):
            alone = alone + stray.outside_count  # the others are held by its graph, in C++
        place = class_place(case.sources, stray.type_name)
        rank = (place is not None, stray.chain is not None, float(stray.unreached_bytes[-1]))
        cycles = _Cycles(stray.type_name, stray.chain, place, float(alone[-1]), float(alone[-1] - alone[0]))
        found.append((rank, cycles))
    return max(found, key=lambda one: one[0], default=(None, None))[1]


def _collector(sentinels: pd.DataFrame, growth: TreeGrowth) -> _Collector | None:
    rows = only(sentinels, (sentinels["time_s"] >= growth.start_s - 1) & (sentinels["time_s"] <= growth.end_s + 1))
    rows = only(rows, rows["gc_collections"].notna())
    if len(rows) < 2:
        return None
    first, last = rows.iloc[0], rows.iloc[-1]

    def passed(column: str) -> int:
        return (int_of(last, column) or 0) - (int_of(first, column) or 0)

    collections = passed("gc_collections")
    threshold = rows["gc_threshold"].dropna()
    enabled = rows["gc_enabled"].dropna()
    pending = rows["gc_pending_count"].dropna()
    counts = rows["gc_frozen_count"].dropna()  # read less often where many are frozen
    frozen = int(counts.iloc[-1]) if len(counts) else 0
    state = "works"
    if (len(enabled) and enabled.mean() < 0.5) or (len(threshold) and threshold.iloc[-1] == 0):
        state = "off"
    elif frozen - (int(counts.iloc[0]) if len(counts) else 0) >= 1000:
        state = "frozen"
    elif collections == 0:
        state = "idle"
    elif passed("gc_full_collections") == 0:
        state = "no-full-collection"
    last_threshold = int(threshold.iloc[-1]) if len(threshold) else None
    most_pending = int(pending.max()) if len(pending) else None
    return _Collector(state, collections, passed("gc_collected_count"), last_threshold, frozen, most_pending)


def _out_of_reach(case: Case, process: ProcessGrowth) -> int:
    """What a process gained less what its snapshots came to.

    The ledger puts down to Python's objects whatever its own allocator handed out, which is also the garbage's.
    """
    rows = case.ledger
    in_account = {account: max(0, growth_of(rows, account, process.label)) for account in _REACHED}
    came_to = _came_to(process.rows("takes"), case.growth.end_s - case.growth.start_s)
    if came_to is not None:
        in_account[_PYTHON] = min(in_account[_PYTHON], came_to)
    reached = sum(in_account.values())
    reached -= min(reached, _tensors_of_nobody(case, process))
    return max(0, process.growth_bytes - reached)


def _came_to(takes: pd.DataFrame, window_s: float) -> int | None:
    """What Python's objects, as far as a way from a root led to them, gained in so long; None of fewer than three."""
    known = without_last(takes, takes)
    time_s, held = series(only(known, ~known["truncated"].fillna(False).astype(bool)), "python_bytes")
    if time_s.size < 3:
        return None
    return max(0, round(float(held[-1] - held[0]) / max(float(time_s[-1] - time_s[0]), 1e-9) * window_s))


def _tensors_of_nobody(case: Case, process: ProcessGrowth) -> int:
    """What the host's tensors gained that exist, but that no way leads to, last snapshot against first.

    Minus the growth of reachable tensors, which may be counted here too.
    """
    rows = process.rows("tensors")
    rows = only(rows, (rows["device"] == "cpu") & (rows["moment"] == "take") & rows["take"].notna())
    if not len(rows):
        return 0
    alone = rows["storage_bytes"].where(rows["tensor_owner"].isin(_NOBODY), 0).astype(float)
    by_take = alone.groupby(rows["take"]).sum()
    grown = float(by_take.iloc[-1] - by_take.iloc[0])
    seen = case.heap(process.pid)
    held = sum((place.tensor_bytes for place in seen.places if place.parent is None), np.zeros(len(seen.takes)))
    first, last = (0.0 if (at := seen.at(int(by_take.index[i]))) is None else float(held[at]) for i in (0, -1))
    return max(0, round(grown - max(0.0, last - first)))


def _finding(
    case: Case,
    process: ProcessGrowth,
    collector: _Collector,
    cycles: _Cycles,
    out_of_reach: int,
) -> Finding:
    sources = case.sources
    place = _switch(sources, collector.state)
    kind = cycles.type_name.replace("__main__.", "")
    chain = cycles.chain.replace("__main__.", "") if cycles.chain else None
    count = format_count(cycles.object_count)
    evidence = [
        Evidence(collector.text(), {"gc_collections": collector.collections, "gc_threshold": collector.threshold})
    ]
    text = f"{count} objects of {kind} live only in cycles: {chain or 'unnamed'}"
    evidence.append(Evidence(text, {"object_count": cycles.object_count}))
    made = cycle_line(sources, cycles.type_name, cycles.chain, cycles.place)
    if made:
        evidence.append(at_line(made, "makes the cycle"))
    if place:
        evidence.append(Evidence(f"{place.file}:{place.line}: {place.text}", {"line": place.line}))
    remedies = [_remedy(collector, place, out_of_reach), breaking(cycles.type_name, made)]
    line = place
    if made and (is_graph_node(kind) or not place):
        # Objects that know their parents are as Python is meant; a cycle through C++ is a mistake of its own.
        line = made
        remedies.reverse()
    title = f"Cycles of {kind.rpartition('.')[2]} pile up: {collector.short()}"
    doubts = []
    if collector.state == "idle" and collector.threshold and 0 < (collector.pending or 0) < collector.threshold:
        waiting, threshold = format_count(collector.pending or 0), format_count(collector.threshold)
        doubts.append(f"it runs once {threshold} new objects wait, and may free all: {waiting} did at most")
    if collector.state in ("works", "no-full-collection"):
        doubts.append("the collector runs: a later full collection may free all of it")
    return case.finding(
        _KIND,
        title,
        grounds=_grounds(collector),
        bytes=out_of_reach,
        process=process,
        line=Definition(line.file, line.line) if line else Definition(*cycles.place) if cycles.place else None,
        holder=chain or "unreachable cycles",
        type=kind,
        library="gc",
        evidence=evidence,
        doubts=doubts,
        remedy=remedies,
        mechanism=f"collector-{collector.state}" if collector.state in _AT_REST and line is place else "cycles",
    )


def _grounds(collector: _Collector) -> Iterator[Ground]:
    yield Ground("cycles were found that nothing leads to", 0.7)
    if collector.state in _AT_REST:
        yield Ground("the collector does not free them", 0.9)


def _remedy(collector: _Collector, place: Line | None, bytes: int) -> str:
    where = f" ({place.file}:{place.line})" if place else ""
    frees = f"frees about {format_bytes(bytes)}"
    return {
        "off": f"leave the collector on{where}, or call gc.collect() now and then: {frees}",
        "frozen": f"call gc.freeze() once, before the work begins{where}: {frees}",
        "idle": f"set a lower gc.set_threshold{where}, or call gc.collect() now and then: {frees}",
    }.get(collector.state, f"call gc.collect() now and then: {frees}")


def _ruled_out(collector: _Collector) -> RuledOut:
    figures = {"gc_collections": collector.collections, "gc_collected_count": collector.collected}
    if collector.collections and collector.state != "frozen":
        freed = f"collecting garbage freed {format_count(collector.collected)} objects"
        reason = f"{freed} in {collector.collections} collections, and memory still grew"
        return RuledOut(_KIND, f"{reason}: calling gc.collect() will not help", figures)
    return RuledOut(_KIND, f"{collector.text()}, but no unreachable objects piled up", figures)


_SWITCHES = {
    "off": ("gc.disable", "gc.set_threshold"),
    "frozen": ("gc.freeze",),
    "idle": ("gc.set_threshold",),
    "no-full-collection": ("gc.set_threshold",),
}


def _switch(sources: list[Source], state: str) -> Line | None:
    """The call that keeps the collector from its work; the last one in a source counts."""
    calls = find_calls(sources, *_SWITCHES.get(state, ()))
    if state == "off":  # a threshold of 0 turns it off too, another does not
        calls = [line for line in calls if "threshold" not in line.text or "threshold(0" in line.text.replace(" ", "")]
    return calls[-1] if calls else None
