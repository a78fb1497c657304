"""Holders whose contents keep growing, in every process that carries a part of the growth: found once, told by kind.

``retained_objects`` and ``retained_graph`` ask for their kind. What differs is what the memory is made of in the end:
objects, arrays and tensors, or the autograd graphs that hang on tensors in C++.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from ..findings import Evidence, Finding, RuledOut, Series, Skipped, Subject
from ..units import format_bytes, format_count, format_duration
from ._growth import ProcessGrowth, TreeGrowth, level_at, no_growth, severity_of, tree_growth
from ._holders import (
    GRAPH_TYPE,
    Accumulation,
    Heap,
    Place,
    accumulations,
    heaps,
    heaviest_leaf,
    keeps_growing,
    user_place,
)
from ._source_lines import Holder, Line, Source, adding_lines

if TYPE_CHECKING:
    from ..storage import Recording

NEEDS = ("process_samples", "takes", "holders")
OBJECTS, GRAPH = "retained-objects", "retained-graph"
_CACHE = "_retained"
# What is held keeps its freed neighbours from being used again: seven times its own size was measured (gradients of
# 64 KiB kept between activations of 256 KiB). Below this share of the growth it is not what pins so much.
_MIN_PINNING_SHARE = 0.03
# How to let go of what a library keeps on the user's behalf.
_LETS_GO = {"matplotlib._pylab_helpers.Gcf.figs": "close each figure once it is saved or shown: plt.close(figure)"}
_RESIDENT = 1.1  # times what there is: estimates of what is held are no better than that


def findings(
    recording: Recording, kind: str, *, min_share: float, min_bytes: int, min_process_share: float
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield the findings of one kind, or why there are none.

    ``min_share`` of its process's growth and ``min_bytes``: below, a holder is not what ate the memory.
    ``min_process_share`` of the tree's growth: below, a process is not looked into.
    """
    growth = tree_growth(recording)
    if growth.leaking is not True:
        yield no_growth(kind, growth)
        return
    thresholds = (min_share, min_bytes, min_process_share)
    cached: dict[Any, list[Finding] | None] = recording.__dict__.setdefault(_CACHE, {})
    if thresholds not in cached:
        cached[thresholds] = _all(recording, growth, *thresholds)
    found = cached[thresholds]
    if found is None:
        yield Skipped(kind, "not enough inventories of the growing process: two are needed")
        return
    own = [finding for finding in found if finding.kind == kind]
    yield from own
    if not own:
        what = "autograd graph" if kind == GRAPH else "container's contents"
        yield RuledOut(kind, f"no named {what} kept growing", {"growth_bytes": growth.growth_bytes})


def _all(
    recording: Recording, growth: TreeGrowth, min_share: float, min_bytes: int, min_process_share: float
) -> list[Finding] | None:
    """Findings of both kinds; None where no growing process has two inventories."""
    sources = sources_of(recording)
    found: list[Finding] | None = None
    for process in growth.processes:
        if process.growth_bytes < max(min_bytes, min_process_share * growth.growth_bytes):
            continue
        looks = [
            _look(inventory, process, growth, min_share, min_bytes)
            for inventory in heaps(recording, process.pid, growth.start_s, growth.end_s)
        ]
        if looks:
            look = max(looks, key=lambda look: look.explained_share)  # the first of equals
            found = [*(found or []), *_of_process(look, process, growth, sources)]
    return found


@dataclass(frozen=True)
class _Look:
    """What a process gained between the first and the last inventory of a set, and the holders that explain it.

    ``in_use_bytes``: of ``gained_bytes``, what malloc did not get back.
    """

    inventory: Heap
    holders: list[Accumulation]
    gained_bytes: float
    in_use_bytes: float

    @property
    def explained_bytes(self) -> float:
        return sum(h.growth_bytes for h in self.holders)

    @property
    def explained_share(self) -> float:
        return min(self.explained_bytes / max(self.in_use_bytes, 1.0), 1.0)

    @property
    def pinned_bytes(self) -> float:
        """What malloc got back and cannot use again, since what the holders hold lies in between.

        0 where most of what is in use is nobody's: then it is not known what the rest lies between.
        """
        return self.gained_bytes - self.in_use_bytes if self.explained_share >= 0.5 else 0.0


def _look(inventory: Heap, process: ProcessGrowth, growth: TreeGrowth, min_share: float, min_bytes: int) -> _Look:
    seconds = float(inventory.time_s[-1] - inventory.time_s[0])
    gained = float(inventory.rss_bytes[-1] - inventory.rss_bytes[0])
    if process.is_hidden or not gained > 0:
        gained = process.growth_bytes * seconds / max(growth.end_s - growth.start_s, 1e-9)
    freed = 0.0 if process.is_hidden else float(inventory.free_bytes[-1] - inventory.free_bytes[0])
    free = min(max(freed, 0.0), gained)
    threshold = max(float(min_bytes), min_share * (gained - free), _MIN_PINNING_SHARE * gained)
    return _Look(inventory, list(accumulations(inventory.roots, threshold)), gained, gained - free)


def _of_process(
    look: _Look, process: ProcessGrowth, growth: TreeGrowth, sources: Sequence[Source]
) -> Iterator[Finding]:
    holders = list(look.holders)
    if look.explained_share < 0.5:
        missing = look.in_use_bytes - look.explained_bytes
        holders += _endless_graph(look.inventory, holders, missing) or _growing_length(look.inventory, holders, missing)
    merged = _by_user_place(holders)
    for rank, holder in enumerate(sorted(merged, key=lambda h: -h.growth_bytes)[:6]):
        yield _finding(holder, rank, look, process, growth, sources)


def _by_user_place(holders: Sequence[Accumulation]) -> list[Accumulation]:
    """One per name in the user's code: ``optimizer.state`` and ``optimizer.param_groups`` are both ``optimizer``,
    and the ``values`` of every ``Meter`` are one thing to mend.
    """
    groups: dict[Any, list[Accumulation]] = {}
    for holder in holders:
        assert holder.place is not None
        named = user_place(holder.place)
        key = tuple(named.row[column] for column in ("variable", "owner", "owner_module", "edge_kind"))
        groups.setdefault(key if named.is_user else id(named), []).append(holder)
    merged = []
    for group in groups.values():
        group.sort(key=lambda h: -h.growth_bytes)
        members = tuple(m for h in group for m in h.members)
        total = sum(h.growth_bytes for h in group)
        merged.append(Accumulation(group[0].place, total, members, group[0].is_guess))
    return merged


def _endless_graph(inventory: Heap, known: Sequence[Accumulation], missing_bytes: float) -> list[Accumulation]:
    """The graph that was longer than an inventory follows: how much is added to it cannot be seen any more.

    Named only when the visible holders do not explain the growth; 60 % of what is missing is put down to it, since
    there is no other place where that much could hide.
    """
    taken = {id(h.place) for h in known}
    endless = [p for p in inventory.places if _is_endless(p, inventory) and id(p) not in taken]
    if not endless:
        return []
    longest = max(endless, key=lambda p: p.most_nodes)
    return [Accumulation(longest, 0.6 * missing_bytes, (longest,), is_guess=True)]


def _is_endless(place: Place, inventory: Heap, *, min_nodes: int = 4000) -> bool:
    """``min_nodes``: five times what a 12-layer transformer needs for a step; the agent follows a little more at first.

    Later it follows less, since it may not leave traces in too many nodes of one graph.
    """
    return place.type_name == GRAPH_TYPE and inventory.truncated and place.most_nodes >= min_nodes


def _growing_length(inventory: Heap, known: Sequence[Accumulation], missing_bytes: float) -> list[Accumulation]:
    """The container that gains most members at every take and whose members cannot be weighed: C objects.

    Named only when the visible holders do not explain the growth; half of what is missing is put down to it.
    """
    taken = {id(h.place) for h in known}
    best: Place | None = None
    for place in inventory.places:
        if id(place) in taken or not place.has_length or not keeps_growing(place.length, min_persistence=0.9):
            continue
        if not user_place(place).is_user:
            continue  # the lengths of what libraries hold are estimates from a few of them
        gained = place.length[-1] - place.length[0]
        if gained >= 4 and _holds_opaque(place) and (best is None or gained > best.length[-1] - best.length[0]):
            best = place
    if best is None:
        return []
    return [Accumulation(best, max(best.growth_bytes, 0.0) + 0.5 * missing_bytes, tuple(best.children), is_guess=True)]


def _holds_opaque(place: Place, depth: int = 4) -> bool:
    return any(bool(c.row["opaque"]) or (depth > 0 and _holds_opaque(c, depth - 1)) for c in place.children)


def _finding(
    holder: Accumulation,
    rank: int,
    look: _Look,
    process: ProcessGrowth,
    growth: TreeGrowth,
    sources: Sequence[Source],
) -> Finding:
    place, inventory = holder.place, look.inventory
    assert place is not None
    named, lines = _named(place, sources)
    seconds = float(inventory.time_s[-1] - inventory.time_s[0])
    weighed = sum(m.growth_bytes for m in holder.members) or place.growth_bytes
    share = min(max(weighed / max(look.in_use_bytes, 1.0), 0.0), 1.0)
    with_pinned = 1.0 + look.pinned_bytes / max(look.in_use_bytes, 1.0)
    rate = holder.growth_bytes * with_pinned / max(seconds, 1e-9)
    untouched = _is_untouched(place, inventory, process)
    most = process.growth_bytes if untouched else max(process.growth_bytes, holder.growth_bytes)
    total = int(min(rate * max(growth.end_s - growth.start_s, seconds), most))
    steps = _steps(inventory)
    line = lines[0] if lines else None
    name = holder_name(named)
    kept = heaviest_leaf(place)
    return Finding(
        kind=GRAPH if kept.type_name == GRAPH_TYPE else OBJECTS,
        title=_title(name, total, with_pinned, _of_what(place, kept)),
        severity="critical" if rank == 0 and share >= 0.25 else severity_of(growth, total),
        confidence=_confidence(inventory, place, share, line),
        bytes=total,
        bytes_per_hour=round(rate * 3600, 1),
        bytes_per_step=round(holder.growth_bytes * with_pinned / steps, 1) if steps else None,
        subject=_subject(named, place, kept, process, line, name),
        evidence=list(_evidence(holder, place, look, weighed, seconds, steps, lines)),
        doubts=list(_doubts(holder, inventory, place, share, line, untouched)),
        remedy=_remedy(named, place, kept, total, line),
        series=[
            Series(f"bytes held by {name}", _rounded(inventory.time_s), _rounded(place.deep_bytes, 0)),
            *([Series("members", _rounded(inventory.time_s), _rounded(place.length, 0), y_unit="count")]
              if place.has_length else []),
        ],
    )  # fmt: skip


def _named(
    place: Place, sources: Sequence[Source], *, min_score: float = 0.7, sure_score: float = 0.9
) -> tuple[Place, list[Line]]:
    """The user's name for what holds a place, and the lines that add to it.

    An attribute that the user's code gave to a library's object (a hook's ``module.features``) is such a name where a
    line adds to it: ``min_score`` is that of a known adder on an object of unknown class. Not where one adds to the
    object itself: from ``sure_score``, which ``append`` has and ``register_hook`` has not.
    """
    named = user_place(place)
    lines = adding_lines(sources, _holder_of(named, place))
    inner: Place | None = place
    while inner is not None and inner is not named and not _best_adds(lines, sure_score):
        if inner.row["edge_kind"] == "attribute":
            given = adding_lines(sources, _holder_of(inner, place))
            if _best_adds(given, min_score):
                return inner, given
        inner = inner.parent
    return named, lines


def _best_adds(lines: Sequence[Line], min_score: float) -> bool:
    return bool(lines) and lines[0].kind == "adds" and lines[0].score >= min_score


def _title(name: str, total: int, with_pinned: float, of_what: str) -> str:
    held = int(total / with_pinned)
    text = f"{name} keeps growing: {format_bytes(held, signed=True)} {of_what}"
    if total - held >= 0.2 * total:
        text += f", and {format_bytes(total - held)} of freed memory between them that cannot be used again"
    return text


def holder_name(place: Place) -> str:
    """How a person says it: ``Trainer.history (list)``, ``main() rows (list)``, ``services.CACHE (dict)``."""
    row = place.row
    variable, owner, edge = row["variable"], row["owner"], row["edge_kind"]
    kind = place.type_name.rsplit(".", 1)[-1]
    if not isinstance(variable, str):
        return f"{place.path} ({kind})"
    short = owner.rsplit("<locals>.", 1)[-1] if isinstance(owner, str) else ""
    if edge == "cache":
        return f"{short}() (lru_cache)"
    if edge == "local":
        return f"{short}() {variable} ({kind})"
    if edge == "cell":
        return f"closure variable {variable} of {short}() ({kind})"
    if edge == "default":
        return f"default argument {variable} of {short}() ({kind})"
    if row["parent_path"] is None and row["root_kind"] in ("task", "generator"):
        return f"suspended {short}() ({kind})"
    return f"{short}.{variable} ({kind})" if short else f"{variable} ({kind})"


def _holder_of(place: Place, kept_in: Place) -> Holder:
    """``kept_in``: the place at or below it whose members multiply."""
    row = {k: (v if isinstance(v, str) else None) for k, v in place.row.items()}
    return Holder(
        variable=row["variable"] or place.path,
        owner=row["owner"],
        owner_module=row["owner_module"],
        owner_file=row["owner_file"],
        edge_kind=row["edge_kind"] or "attribute",
        type_name=place.type_name,
        key=_key(place, kept_in),
    )


def _key(place: Place, kept_in: Place) -> str | None:
    """``samples`` of ``progress['samples']``: the member of a record that grows, where it is one of several."""
    below: Place | None = kept_in
    while below is not None and below.parent is not place:
        below = below.parent
    if below is None:
        below = max(place.children, key=lambda c: c.growth_bytes, default=None)
        if below is None or below.growth_bytes < 0.5 * place.growth_bytes:
            return None
    label = below.path[len(place.path) :]
    return label[2:-2] if label.startswith("['") and label.endswith("']") else None


def _subject(named: Place, place: Place, kept: Place, process: ProcessGrowth, line: Line | None, name: str) -> Subject:
    row = named.row
    file = row["owner_file"] if isinstance(row["owner_file"], str) else None
    return Subject(
        pid=process.pid,
        process=process.name,
        role=process.role,
        device="cpu",
        holder=name,
        variable=row["variable"] if isinstance(row["variable"], str) else None,
        path=place.path,
        type=_type_text(place, kept),
        file=line.file if line is not None else file,
        line=line.line if line is not None else _whole(row["owner_line"]),
        function=line.function if line is not None else None,
        module=row["owner_module"] if isinstance(row["owner_module"], str) else None,
        library=None if named.is_user else _library(place),
    )


def _library(place: Place) -> str | None:
    module = place.row["owner_module"]
    return module.split(".", 1)[0] if isinstance(module, str) else None


def _type_text(place: Place, kept: Place) -> str:
    member = place.row["member_type"]
    text = place.type_name
    if isinstance(member, str):
        text += f" of {member}"
    if kept is not place and kept.type_name not in text:
        text += f", mostly {kept.type_name}"
    return text


def _of_what(place: Place, kept: Place) -> str:
    """``of float32 tensors``-like words for the title, from the types found."""
    if kept.type_name == GRAPH_TYPE:
        return "of autograd graphs"
    tensors = place.tensor_bytes[-1] - place.tensor_bytes[0]
    arrays = place.array_bytes[-1] - place.array_bytes[0]
    growth = max(place.growth_bytes, 1.0)
    if tensors >= 0.5 * growth:
        return "of tensors"
    name = kept.type_name.rsplit(".", 1)[-1]
    if arrays >= 0.5 * growth:
        return f"of arrays ({name})"
    return f"of {name} objects" if name not in ("str", "bytes") else f"of {name}"


def _confidence(inventory: Heap, place: Place, share: float, line: Line | None) -> float:
    """How sure we are that this is what ate the memory. Each term is something a person would ask for."""
    sure = 0.45 + 0.3 * min(1.0, share / 0.7)
    sure += 0.1 if len(inventory.takes) >= 4 else 0.0
    sure += 0.07 if place.has_length and keeps_growing(place.length, min_persistence=0.9) else 0.0
    sure += 0.05 if line is not None and line.kind == "adds" else 0.0
    sure -= 0.15 if inventory.truncated else 0.0
    sure -= 0.3 if _limit(place) is not None else 0.0
    return round(min(max(sure, 0.05), 0.97), 2)


def _is_untouched(place: Place, inventory: Heap, process: ProcessGrowth) -> bool:
    """It holds more than there was in memory and swap: zeros and empty tensors that nobody has written to yet."""
    there = level_at(process.time_s, process.held_bytes, float(inventory.time_s[-1]))
    return bool(place.deep_bytes[-1] > _RESIDENT * max(there, float(inventory.rss_bytes[-1])))


def _limit(place: Place) -> int | None:
    return _whole(place.row["length_limit"])


def _whole(value: Any) -> int | None:
    """An integer from a table that may have none (None, NaN or NA)."""
    try:
        return int(value)
    except (TypeError, ValueError):
        return None


def _evidence(
    holder: Accumulation,
    place: Place,
    look: _Look,
    weighed: float,
    seconds: float,
    steps: float,
    lines: Sequence[Line],
) -> Iterator[Evidence]:
    if holder.is_guess and place.type_name == GRAPH_TYPE:
        yield Evidence(
            f"its autograd graph is longer than an inventory follows: {format_count(place.most_nodes)} nodes and more",
            {"nodes": int(place.most_nodes)},
        )
    else:
        yield from _weighed(place, look, weighed, seconds, steps)
    for line in lines[:3]:
        yield Evidence(f"{line.file}:{line.line} {line.kind}: {line.text}", {"line": line.line})


def _weighed(place: Place, look: _Look, weighed: float, seconds: float, steps: float) -> Iterator[Evidence]:
    """What the inventories saw of its growth."""
    count = len(look.inventory.takes)
    figures: dict[str, Any] = {
        "start_bytes": int(place.deep_bytes[0]),
        "end_bytes": int(place.deep_bytes[-1]),
        "takes": count,
    }
    text = (
        f"{place.path} held {format_bytes(place.deep_bytes[0])} in the first and "
        f"{format_bytes(place.deep_bytes[-1])} in the last of {count} inventories over {format_duration(seconds)}"
    )
    if place.has_length:
        figures |= {"start_length": int(place.length[0]), "end_length": int(place.length[-1])}
        text += f"; its length went from {format_count(place.length[0])} to {format_count(place.length[-1])}"
    yield Evidence(text, figures)
    whole = look.in_use_bytes if look.pinned_bytes else look.gained_bytes
    yield Evidence(
        f"that is {min(weighed / max(whole, 1.0), 9.99):.0%} of the {format_bytes(whole)} the process gained "
        f"between those inventories",
        {"explained_bytes": int(weighed), "process_growth_bytes": int(look.gained_bytes)},
    )
    if look.pinned_bytes >= 0.2 * look.gained_bytes:
        yield Evidence(
            f"malloc also kept {format_bytes(look.pinned_bytes)} more that was freed: it lies in pieces between what "
            f"is held, too small for what is asked for next",
            {"pinned_bytes": int(look.pinned_bytes)},
        )
    rising = int((np.diff(place.deep_bytes) > 0).sum())
    yield Evidence(f"it grew in {rising} of {count - 1} intervals between inventories", {"rising_intervals": rising})
    if steps:
        per_step = (place.length[-1] - place.length[0]) / steps
        figures = {"bytes_per_step": round(weighed / steps, 1), "members_per_step": round(per_step, 3)}
        members = f", {per_step:.3g} members" if place.has_length else ""
        yield Evidence(f"per training step: {format_bytes(weighed / steps)}{members}", figures)


def _doubts(
    holder: Accumulation, inventory: Heap, place: Place, share: float, line: Line | None, untouched: bool
) -> Iterator[str]:
    limit = _limit(place)
    if untouched:
        yield "most of what it holds was never written to: that costs address space, and memory only once it is used"
    if limit is not None:
        yield f"it is bounded to {format_count(limit)} members: it may stop growing there"
    if holder.is_guess and place.type_name == GRAPH_TYPE:
        yield "what its graph gained was not seen: a model whose one step needs as many nodes would look the same"
    elif share < 0.5:
        yield f"what can be seen in it explains only {share:.0%} of the growth"
    if len(inventory.takes) < 4:
        yield f"only {len(inventory.takes)} inventories: a cache that is still filling would look the same"
    if inventory.truncated:
        yield "an inventory was cut short by its time budget: figures are lower bounds"
    if line is None:
        yield "no line in the recorded sources was found that adds to it"


def _remedy(named: Place, place: Place, kept: Place, total: int, line: Line | None) -> list[str]:
    variable = named.row["variable"]
    where = f" at {line.file.rsplit('/', 1)[-1]}:{line.line}" if line is not None else ""
    size = format_bytes(total)
    if place.path in _LETS_GO:
        return [f"{_LETS_GO[place.path]}; it would free about {size} by the end of a run like this one"]
    if named.row["edge_kind"] == "cache":
        return [
            f"give the cache a maxsize, or make what it is keyed by repeat: frees up to {size} of this run's growth"
        ]
    if kept.type_name == GRAPH_TYPE:
        return [
            f"keep numbers instead of tensors that carry their history: {variable}{where} with .item() or .detach() "
            f"would free about {size} by the end of a run like this one"
        ]
    tensors = place.tensor_bytes[-1] - place.tensor_bytes[0]
    advice = [f"bound or empty {variable}{where}: it would free about {size} by the end of a run like this one"]
    if tensors > 0.5 * max(place.growth_bytes, 1.0):
        advice.append("if only numbers are needed from these tensors, keep .item() or a small summary instead")
    base = any(c.row["edge_kind"] == "base" for m in place.children for c in m.children)
    if base:
        advice.append("the members are views that keep a larger array alive: keep a .copy() of the part instead")
    return advice


def _steps(inventory: Heap) -> float:
    steps = inventory.step[np.isfinite(inventory.step)]
    return float(steps[-1] - steps[0]) if len(steps) >= 2 and steps[-1] > steps[0] else 0.0


def _rounded(values: Any, digits: int = 3) -> list[float]:
    return [round(float(v), digits) for v in values]


def sources_of(recording: Recording) -> list[Source]:
    """The user's modules as they were loaded, each file once."""
    rows = recording.tables["sources"]
    seen: dict[str, Source] = {}
    for module, file, text in zip(rows["module"], rows["file"], rows["source_text"]):
        if isinstance(file, str) and isinstance(text, str) and file not in seen:
            seen[file] = Source(module if isinstance(module, str) else "", file, text)
    return list(seen.values())
