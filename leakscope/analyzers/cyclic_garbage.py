"""Unreachable reference cycles that pile up because the garbage collector is off, frozen or too rare.

Looks for:     objects of a growing type that only a cycle of their own keeps alive.
Why:           objects that refer to each other are freed by the collector alone; switched off, it frees none of them.
Decides by:    the graph of the heap: unreachable objects whose bytes rise by min_garbage_share of the growth, or
               min_unweighed more cycles with what the graph cannot weigh. Where no two snapshots have one, a collector
               that made full collections is ruled out, and another was not checked.
Mistaken when: a very rare full collection was due just after the recording ended.
Do:            let the collector run, or break the cycle with a weak reference.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ..confidence import FAIR, PROVEN, SURE, Ground
from ..evidence.sentences import at_line
from ..facts.case import Case
from ..facts.code.adding import CREATES, Holder, Line, Source, adding_lines, find_calls
from ..facts.code.index import index_of
from ..facts.growth.frozen import frozen_in
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.strays import Stray, Strays, strays_of
from ..facts.growth.tree import TreeGrowth, no_growth
from ..facts.series.arithmetic import Floats
from ..facts.subject import Definition
from ..facts.tables import int_of, only
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import GROWTH
from ..storage import Rows
from ..units import FEWEST, MOST, MUCH, format_bytes, format_count

NEEDS = ("process_samples", "sentinels")
TELLS = (GROWTH,)
_KIND = "cyclic-garbage"
_TENSORS = ("torch.Tensor", "torch.nn.parameter.Parameter")
_MANY_FROZEN = 1000  # objects more: to freeze at a start hides as many, but only once


class _State(NamedTuple):
    """How the collector is, and what is said of that. ``{names}`` are the collector's; ``{where}``: of the switch."""

    short: str
    text: str
    remedy: str = "call gc.collect() now and then"
    switches: tuple[str, ...] = ()  # the calls that bring it into this state
    is_at_rest: bool = True  # it frees nothing


_STATES = {
    "off": _State(
        "the garbage collector is off",
        "the garbage collector was switched off while memory grew",
        "leave the collector on{where}, or call gc.collect() now and then",
        ("gc.disable", "gc.set_threshold"),
    ),
    "frozen": _State(
        "gc.freeze() hides them from the collector",
        "gc.freeze() hides {frozen_count} objects from the collector",
        "call gc.freeze() once, before the work begins{where}",
        ("gc.freeze",),
    ),
    "idle": _State(
        "the garbage collector has not run",
        "the garbage collector never ran while memory grew (threshold {threshold})",
        "set a lower gc.set_threshold{where}, or call gc.collect() now and then",
        ("gc.set_threshold",),
    ),
    "no-full-collection": _State(
        "no full collection runs",
        "of {collections} collections none was a full one, which frees old cycles",
        switches=("gc.set_threshold",),
        is_at_rest=False,
    ),
    "works": _State(
        "the collector does not keep up", "{collections} collections freed {collected_count} objects", is_at_rest=False
    ),
}


@dataclass(frozen=True)
class _Collector:
    """The garbage collector in the judged window."""

    state: str
    collections: int
    collected: int
    threshold: int | None
    frozen: int

    @property
    def told(self) -> _State:
        return _STATES[self.state]

    @property
    def text(self) -> str:
        counts = {"frozen_count": format_count(self.frozen), "collected_count": format_count(self.collected)}
        return self.told.text.format(collections=self.collections, threshold=self.threshold, **counts)


@dataclass(frozen=True)
class _Cycles:
    """Objects of one type that nothing but cycles keeps. ``place``: file and line of its class, if it is the user's."""

    stray: Stray
    place: tuple[str, int] | None
    count: Floats

    @property
    def type(self) -> str:
        return self.stray.type_name.replace("__main__.", "")

    @property
    def gained(self) -> float:
        return float(self.count[-1] - self.count[0])


def findings(
    case: Case,
    *,
    min_objects: int = 500,  # that gc.freeze() hides: fewer are no leak of a program that freezes
    min_share: float = MOST,  # of the growth that has to be out of reach, where garbage has no size
    min_garbage_share: float = MUCH,  # of the growth, where garbage is measured
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
    if strays is None:
        # Of objects that nothing leads to only the graph knows. What a collector that works frees is known without.
        unseen = f"{collector.text}, but no two snapshots read all objects: garbage cannot be counted"
        yield _ruled_out(collector) if collector.state == "works" else Skipped(_KIND, unseen)
        return
    window_s = growth.end_s - growth.start_s
    garbage_bytes = max(0.0, strays.gained(strays.unreached_bytes, window_s))
    out_of_reach = max(0, process.growth_bytes - round(max(0.0, strays.gained(strays.reached_bytes, window_s))))
    cycles = _most_cycles(case, strays)
    is_much = garbage_bytes >= min_garbage_share * process.growth_bytes and strays.pile_up(strays.unreached_bytes)
    if cycles is not None and cycles.gained >= min_unweighed and _has_no_size(strays, cycles):
        out_of_reach = max(0, out_of_reach - _reached_tensors(case, process, strays))
        is_much |= out_of_reach >= min_share * process.growth_bytes
    elif garbage_bytes < min_share * out_of_reach:
        out_of_reach = round(garbage_bytes)  # the rest may be anybody's
    is_seen = len(strays.time_s) > (FEWEST if collector.state == "works" else 1)
    if cycles is None or not is_seen or not is_much:
        yield _ruled_out(collector)
    elif out_of_reach >= min_share * process.growth_bytes and (frozen := _frozen(case, process, strays, min_objects)):
        yield _finding(case, process, collector, frozen[0], out_of_reach, frozen[1])
    else:
        yield _finding(case, process, collector, cycles, out_of_reach)


def _most_cycles(case: Case, strays: Strays) -> _Cycles | None:
    """Of the type that piles up most among those of which ever more objects have nothing that leads to them.

    A class with a source file tells more than the dict and list that hang on it.
    """
    found = []
    for stray in strays.types:
        if strays.pile_up(stray.unreached_count):
            # The other nodes of a graph of autograd are held by it, in C++.
            others = stray.outside_count if is_graph_node(stray.type_name) else 0.0
            found.append(_Cycles(stray, class_place(case.sources, stray.type_name), stray.unreached_count + others))
    ranked = ((c.place is not None, c.stray.chain is not None, float(c.stray.unreached_bytes[-1])) for c in found)
    return max(zip(ranked, found), key=lambda pair: pair[0], default=(None, None))[1]


def _frozen(case: Case, process: ProcessGrowth, strays: Strays, min_objects: int) -> tuple[_Cycles, Evidence] | None:
    """Of what was frozen again and again, the type of which most became garbage; None if most of it is no garbage."""
    frozen = frozen_in(process, case.growth)
    unreached = round(strays.gained(strays.frozen_count, case.growth.end_s - case.growth.start_s))
    if frozen is None or unreached < max(min_objects, MOST * frozen.gained_count):
        return None
    found = [_Cycles(one, class_place(case.sources, one.type_name), one.frozen_count) for one in strays.types]
    grown = [one for one in found if one.gained > 0]
    counts = map(format_count, (frozen.last_count, frozen.gained_count, unreached))
    text = "gc.freeze() was called again and again: {} objects are frozen, {} more than at first; {} of those are "
    figures = {"frozen_count": frozen.last_count, "unreached_count": unreached}
    often = Evidence(f"{text.format(*counts)}unreachable", figures)
    return (max(grown, key=lambda one: (one.place is not None, one.gained)), often) if grown else None


def _has_no_size(strays: Strays, cycles: _Cycles) -> bool:
    """What hangs on the cycles is C++'s: a graph of autograd, or tensors whose storages the heap's graph has not."""
    tensors = (stray for stray in strays.types if stray.type_name in _TENSORS)
    has_tensors = not strays.weighs_tensors and any(strays.pile_up(stray.unreached_count) for stray in tensors)
    return has_tensors or is_graph_node(cycles.stray.type_name)


def _reached_tensors(case: Case, process: ProcessGrowth, strays: Strays) -> int:
    """What the tensors gained that names lead to, where the graph does not weigh them: those are no garbage."""
    places = [place for place in case.heap(process.pid).places if place.parent is None and not strays.weighs_tensors]
    held: Floats = sum((place.tensor_bytes for place in places), np.zeros(2))
    return max(0, round(float(held[-1] - held[0])))


def _collector(sentinels: Rows, growth: TreeGrowth) -> _Collector | None:
    rows = only(sentinels, (sentinels["time_s"] >= growth.start_s - 1) & (sentinels["time_s"] <= growth.end_s + 1))
    rows = only(rows, rows["gc_collections"].notna())
    if len(rows) < 2:
        return None

    def passed(column: str) -> int:
        return (int_of(rows.iloc[-1], column) or 0) - (int_of(rows.iloc[0], column) or 0)

    thresholds, enabled, frozen = (
        rows[column].dropna() for column in ("gc_threshold", "gc_enabled", "gc_frozen_count")
    )
    threshold = int(thresholds.iloc[-1]) if len(thresholds) else None
    state = "works"
    if (len(enabled) and enabled.mean() < MOST) or threshold == 0:
        state = "off"
    elif len(frozen) and frozen.iloc[-1] - frozen.iloc[0] >= _MANY_FROZEN:
        state = "frozen"
    elif passed("gc_collections") == 0:
        state = "idle"
    elif passed("gc_full_collections") == 0:
        state = "no-full-collection"
    last_frozen = int(max(frozen.iloc[-1:], default=0))
    return _Collector(state, passed("gc_collections"), passed("gc_collected_count"), threshold, last_frozen)


def _finding(
    case: Case,
    process: ProcessGrowth,
    collector: _Collector,
    cycles: _Cycles,
    bytes: int,
    frozen: Evidence | None = None,  # that they were, one call after the other
) -> Finding:
    stray, kind, told = cycles.stray, cycles.type, collector.told
    switch = _switch(case.sources, "frozen" if frozen else collector.state)
    chain = stray.chain.replace("__main__.", "") if stray.chain else None
    count, frees = format_count(cycles.count[-1]), f"frees about {format_bytes(bytes)}"
    made = cycle_line(case.sources, stray.type_name, stray.chain, cycles.place)
    where = f" ({switch.file}:{switch.line})" if switch else ""
    seen = {"gc_collections": collector.collections, "gc_threshold": collector.threshold}
    alone = f"{count} objects of {kind} are kept only by cycles: {chain or 'unnamed'}"
    title = f"Cycles of {kind.rpartition('.')[2]} pile up: {told.short}"
    doubts = [] if told.is_at_rest else ["the collector runs: a later full collection may free all of it"]
    remedies = [f"{told.remedy.format(where=where)}: {frees}", breaking(stray.type_name, made)]
    line: Line | None = switch
    if frozen:
        at = f" at {switch.place}" if switch is not None else ""
        title, doubts = f"{title.partition(':')[0]}: gc.freeze(){at} hides them from the collector", []
        alone = f"{count} frozen {kind} objects are unreachable: nothing refers to their cycles"
        unfreeze = "gc.unfreeze() and gc.collect() once the fork is made"
        remedies[0] = f"call gc.freeze() once, before the work begins, or {unfreeze}{at}: {frees}"
    elif made and (is_graph_node(kind) or not switch):
        # Objects that know their parents are as Python is meant; a cycle through C++ is a mistake of its own.
        line = made
        remedies.reverse()
    at_rest = f"collector-{collector.state}"
    return case.finding(
        _KIND,
        title,
        grounds=[
            Ground("cycles were found that nothing leads to", PROVEN if frozen else FAIR),
            Ground("the collector does not free them", SURE) if told.is_at_rest and not frozen else None,
        ],
        bytes=bytes,
        process=process,
        line=line or (Definition(*cycles.place) if cycles.place else None),
        holder="objects frozen by gc.freeze()" if frozen else chain or "unreachable cycles",
        type=kind,
        library="gc",
        evidence=[
            frozen or Evidence(collector.text, seen),
            Evidence(alone, {"object_count": float(cycles.count[-1])}),
            at_line(made, "makes the cycle"),
            at_line(switch, "does so"),
        ],
        doubts=doubts,
        remedy=remedies,
        mechanism=None if frozen else at_rest if told.is_at_rest and line is switch else "cycles",
    )


def _ruled_out(collector: _Collector) -> RuledOut:
    figures = {"gc_collections": collector.collections, "gc_collected_count": collector.collected}
    if collector.collections and collector.state != "frozen":
        freed = f"collecting garbage freed {format_count(collector.collected)} objects"
        reason = f"{freed} in {collector.collections} collections, and memory still grew"
        return RuledOut(_KIND, f"{reason}: calling gc.collect() will not help", figures)
    return RuledOut(_KIND, f"{collector.text}, but no unreachable objects piled up", figures)


def _switch(sources: Sequence[Source], state: str) -> Line | None:
    """The call that keeps the collector from its work; the last one in a source counts."""
    calls = find_calls(sources, *_STATES[state].switches)
    if state == "off":  # a threshold of 0 turns it off too, another does not
        calls = [line for line in calls if "threshold" not in line.text or "threshold(0" in line.text.replace(" ", "")]
    return calls[-1] if calls else None


# ---- the line that closes a cycle, and how to open it there


_NODE_PREFIX = "torch.autograd.function."  # of the class that torch makes for each function written in Python
_NODE_SUFFIX = "Backward"


def cycle_line(
    sources: Sequence[Source], type_name: str, chain: str | None, place: tuple[str, int] | None
) -> Line | None:
    """Where the attribute is set by which objects of a type refer to what refers back to them.

    Only in code of their own class, which is at ``place``: elsewhere an attribute of this name may be another's.
    """
    if chain is None or not chain.startswith(type_name + "."):
        return None
    attribute, is_direct = _to_weaken(type_name, chain.split(" -> "))
    owner = _class_of(type_name)
    holder = Holder(attribute, owner=owner, owner_file=place[0] if place else None, edge_kind="attribute")
    lines = adding_lines(sources, holder)
    inside = [line for line in lines if line.kind != "calls" and (line.function or "").startswith(owner + ".")]
    if is_direct:  # where it is set, not where something is added to what it refers to
        inside.sort(key=lambda line: line.kind != CREATES)
    return next(iter(inside), None)


def _to_weaken(type_name: str, chain: Sequence[str]) -> tuple[str, bool]:
    """The attribute that can be a weak reference, and whether it refers to an object and to no container.

    A container of weak references would let go of its members: ``parent`` can be one, and ``children`` cannot.
    """
    own = [
        (link.removeprefix(type_name + "."), "." in following)
        for link, following in zip(chain, (*chain[1:], *chain[:1]))
        if link.startswith(type_name + ".")
    ]
    return next((one for one in own if one[1]), own[0])


def class_place(sources: Sequence[Source], type_name: str) -> tuple[str, int] | None:
    """(file, line) where a class of the user's is defined."""
    module, _, name = type_name.rpartition(".")
    if is_graph_node(type_name):
        module, name = "", _class_of(type_name)
    for scope in index_of(sources, "class").scopes:
        if scope.kind == "class" and scope.name == name and module in ("", scope.source.module):
            return scope.source.file, int(getattr(scope.node, "lineno", 1))
    return None


def breaking(type_name: str, line: Line | None) -> str:
    """What to change so that no cycle comes to be."""
    where = f" at {line.place}" if line is not None else ""
    if is_graph_node(type_name):
        return f"keep what a function returns or is given by ctx.save_for_backward{where}: it makes no cycle"
    return f"make one reference of the cycle a weakref.ref{where}: then nothing has to be collected at all"


def is_graph_node(type_name: str) -> bool:
    """The objects are contexts of an autograd function that the user wrote."""
    return type_name.startswith(_NODE_PREFIX) and type_name.endswith(_NODE_SUFFIX)


def _class_of(type_name: str) -> str:
    """The class as its source calls it."""
    name = type_name.rpartition(".")[2]
    return name[: -len(_NODE_SUFFIX)] if is_graph_node(type_name) else name
