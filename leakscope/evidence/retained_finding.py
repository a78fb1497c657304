"""One holder of growing memory as a finding, whether one process has it or each of several that do the same."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from ..facts.code.ways_out import Library
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import severity_of
from ..facts.heap.place import Place
from ..facts.retained.figures import Retained
from ..facts.where.holders import about, defined_at
from ..findings import HELD_BY, Evidence, Finding, Series
from ..units import LISTED, format_bytes, format_count
from .mechanisms import advice
from .retained_words import doubts, evidence, title

if TYPE_CHECKING:
    from ..facts.case import Case

OBJECTS, GRAPH = "retained-objects", "retained-graph"
_MAIN_SHARE = 0.25  # of what came into use: the holder of most, and of so much, is the answer
_MOST_DRAWN = 64
_MAIN_PROCESS = 0.75  # of what the process gained that gained most: in a lesser one it is part of the answer at best


class Seen(NamedTuple):
    """A holder as it was found in one process. ``rank``: 0 for the holder of its process that gained most."""

    found: Retained
    rank: int
    process: ProcessGrowth

    @property
    def key(self) -> tuple[object, ...]:
        """A key that workers share which run one program and fill the same thing at the same line.

        By which path it is met differs: by a local of the call that runs as a snapshot is made, or by the loader.
        """
        line = self.found.line
        place = (line.file, line.line) if line is not None else self.found.place.said
        return self.found.is_graph, self.found.name, place, self.process.name, self.process.role


def finding_of(case: Case, alike: Sequence[Seen]) -> Finding:
    """One finding. ``alike``: all with one key, that of the process which gained most first."""
    found, rank, process = alike[0]
    place = found.place
    most = max(p.growth_bytes for p in case.growth.processes)
    is_main = rank == 0 and found.share >= _MAIN_SHARE and process.growth_bytes >= _MAIN_PROCESS * most
    total, held = (sum(getattr(one.found, name) for one in alike) for name in ("total_bytes", "held_bytes"))
    types = process.rows("object_types").dropna(subset=["base"])
    bases = dict(zip(types["type_name"], types["base"]))
    told = advice(found, case.sources, total, held, bases, case.once(_library_code))
    each_step = [one.found.bytes_per_step for one in alike]
    return case.finding(
        GRAPH if found.is_graph else OBJECTS,
        title(found, total, held, len(alike)),
        severity="critical" if is_main else severity_of(case.growth, total),
        grounds=found.grounds,
        bytes=total,
        bytes_per_hour=case.bytes_per_hour(total),
        bytes_per_step=sum(filter(None, each_step)) if all(each_step) else None,
        process=process,
        line=found.line or defined_at(found.named),
        device="cpu",
        library=None if found.named.is_user else _library(found.place),
        evidence=[*evidence(found, case.step_unit), *_in_others(alike), *_too_high(case, place)],
        doubts=doubts(found),
        remedy=told.sentences,
        mechanism=told.mechanism,
        series=list(_series(alike)),
        **(about(found.named, place) | {"type": _type_text(place, found.kept)}),
    )


def _library_code(case: Case) -> Library:
    return Library(case.library_sources)


def _series(alike: Sequence[Seen]) -> Iterator[Series]:
    """What it held in each process, and of one process how many members it had."""
    for found, _, process in alike[:_MOST_DRAWN]:
        time_s, name = _rounded(found.look.heap.time_s), f"{HELD_BY} {found.name}"
        held = _rounded(found.place.deep_bytes, 0)
        if len(alike) > 1:
            yield Series(f"{name} in {process.label}", time_s, held, process=process.label)
        else:
            yield Series(name, time_s, held)
            if found.place.has_length:
                yield Series("members", time_s, _rounded(found.place.length, 0), y_unit="count")


def _in_others(alike: Sequence[Seen]) -> Iterator[Evidence]:
    if len(alike) == 1:
        return
    gained = [(format_bytes(one.found.total_bytes, signed=True), one.process.label) for one in alike]
    told = ", ".join(f"{size} in {label}" for size, label in gained[:LISTED])
    more = f", and {len(gained) - LISTED} more" if len(gained) > LISTED else ""
    yield Evidence(f"the same in {len(gained)} processes: {told}{more}", {"processes": len(gained)})


def _too_high(case: Case, place: Place) -> Iterator[Evidence]:
    """It has a limit, and there is no room for what it takes when it is full."""
    fills = case.growth.fills
    if fills is None or fills.room is None:
        return
    for one in fills.found:
        if one.place.path == place.path and one.limit is not None:
            needs = f"{format_count(one.limit)} members would take about {format_bytes(one.level_bytes)}"
            where = f" ({one.line.file}:{one.line.line})" if one.line is not None else ""
            text = f"it has a limit{where} that does not help: {needs}, more than is left of {fills.room.label}"
            yield Evidence(text, {"limit": one.limit, "level_bytes": int(one.level_bytes)})


def _library(place: Place) -> str | None:
    module = place.reference.owner_module
    return module.split(".", 1)[0] if module is not None else None


def _type_text(place: Place, kept: Place) -> str:
    member = place.member_type
    text = place.type_name
    if member is not None:
        text += f" of {member}"
    if kept is not place and kept.type_name not in text:
        text += f", mostly {kept.type_name}"
    return text


def _rounded(values: Any, digits: int = 3) -> list[float]:
    return [round(float(v), digits) for v in values]
