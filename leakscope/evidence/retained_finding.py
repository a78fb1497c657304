"""One holder of growing memory as a finding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..facts.code.adding import Source
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import TreeGrowth, severity_of
from ..facts.heap.paths import Accumulation, Place
from ..facts.retained.figures import Retained, retained
from ..facts.retained.look import Look
from ..facts.tables import int_of, text_of
from ..findings import Finding, Series, Subject
from .retained_words import doubts, evidence, remedy, title

OBJECTS, GRAPH = "retained-objects", "retained-graph"
_MAIN_SHARE = 0.25  # of what came into use: the holder of most, and of so much, is the answer


def finding_of(
    holder: Accumulation, rank: int, look: Look, process: ProcessGrowth, growth: TreeGrowth, sources: Sequence[Source]
) -> Finding:
    """``rank``: 0 for the holder of its process that gained most."""
    found = retained(holder, look, process, growth, sources)
    time_s, place = _rounded(look.inventory.time_s), found.place
    series = [Series(f"bytes held by {found.name}", time_s, _rounded(place.deep_bytes, 0))]
    if place.has_length:
        series.append(Series("members", time_s, _rounded(place.length, 0), y_unit="count"))
    is_main = rank == 0 and found.share >= _MAIN_SHARE
    return Finding(
        kind=GRAPH if found.is_graph else OBJECTS,
        title=title(found),
        severity="critical" if is_main else severity_of(growth, found.total_bytes),
        confidence=found.confidence,
        bytes=found.total_bytes,
        bytes_per_hour=round(found.rate * 3600, 1),
        bytes_per_step=found.bytes_per_step,
        subject=_subject(found, process),
        evidence=list(evidence(found)),
        doubts=list(doubts(found)),
        remedy=remedy(found),
        series=series,
    )


def _subject(found: Retained, process: ProcessGrowth) -> Subject:
    row, line = found.named.row, found.line
    return Subject(
        pid=process.pid,
        process=process.name,
        role=process.role,
        device="cpu",
        holder=found.name,
        variable=text_of(row, "variable"),
        path=found.place.path,
        type=_type_text(found.place, found.kept),
        file=line.file if line is not None else text_of(row, "owner_file"),
        line=line.line if line is not None else int_of(row, "owner_line"),
        function=line.function if line is not None else None,
        module=text_of(row, "owner_module"),
        library=None if found.named.is_user else _library(found.place),
    )


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
