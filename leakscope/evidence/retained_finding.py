"""One holder of growing memory as a finding."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import severity_of
from ..facts.heap.paths import Accumulation
from ..facts.heap.place import Place
from ..facts.retained.figures import retained
from ..facts.retained.look import Look
from ..facts.subject import definition_of
from ..facts.tables import text_of
from ..findings import Evidence, Finding, Series
from ..units import format_bytes, format_count
from .retained_words import doubts, evidence, remedy, title

if TYPE_CHECKING:
    from ..facts.case import Case

OBJECTS, GRAPH = "retained-objects", "retained-graph"
_MAIN_SHARE = 0.25  # of what came into use: the holder of most, and of so much, is the answer
_MAIN_PROCESS = 0.75  # of what the process gained that gained most: in a lesser one it is part of the answer at best


def finding_of(case: Case, holder: Accumulation, rank: int, look: Look, process: ProcessGrowth) -> Finding:
    """``rank``: 0 for the holder of its process that gained most."""
    found = retained(holder, look, process, case.growth, case.sources)
    time_s, place = _rounded(look.heap.time_s), found.place
    series = [Series(f"bytes held by {found.name}", time_s, _rounded(place.deep_bytes, 0))]
    if place.has_length:
        series.append(Series("members", time_s, _rounded(place.length, 0), y_unit="count"))
    most = max(p.growth_bytes for p in case.growth.processes)
    is_main = rank == 0 and found.share >= _MAIN_SHARE and process.growth_bytes >= _MAIN_PROCESS * most
    row = found.named.row
    return case.finding(
        GRAPH if found.is_graph else OBJECTS,
        title(found),
        severity="critical" if is_main else severity_of(case.growth, found.total_bytes),
        grounds=found.grounds,
        bytes=found.total_bytes,
        bytes_per_hour=case.bytes_per_hour(found.total_bytes),
        bytes_per_step=found.bytes_per_step,
        process=process,
        line=found.line or definition_of(row),
        device="cpu",
        holder=found.name,
        variable=text_of(row, "variable"),
        path=found.place.said,
        type=_type_text(found.place, found.kept),
        module=text_of(row, "owner_module"),
        library=None if found.named.is_user else _library(found.place),
        evidence=[*evidence(found, case.step_unit), *_too_high(case, place)],
        doubts=doubts(found),
        remedy=remedy(found),
        series=series,
    )


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
    module = text_of(place.row, "owner_module")
    return module.split(".", 1)[0] if module is not None else None


def _type_text(place: Place, kept: Place) -> str:
    member = text_of(place.row, "member_type")
    text = place.type_name
    if member is not None:
        text += f" of {member}"
    if kept is not place and kept.type_name not in text:
        text += f", mostly {kept.type_name}"
    return text


def _rounded(values: Any, digits: int = 3) -> list[float]:
    return [round(float(v), digits) for v in values]
