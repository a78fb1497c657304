"""Containers of like rows in one snapshot, and which of them hold the same rows: text as text, and text as tokens."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..heap.place import Place
from ..heap.snapshots import HeapSnapshots
from ..tables import cells

if TYPE_CHECKING:
    import pandas as pd

TOKEN_IDS, INTEGERS, MAPPED = "token-ids", "integers", "arrow-mapped"
# What a user calls the data set; the table or block below it has no name of its own.
_DATA_SETS = ("BatchEncoding", "DataFrame", "Dataset", "Series")
_LIBRARIES = ("datasets", "pandas", "transformers")
_LEAST_ROWS_COMPARED = 3
_LEAST_LENGTHS_COMPARED = 8
_TOKENS_PER_CHARACTER = (0.02, 1.5)  # sound or pixels beside a text are far more
_COLUMNS = ("node", "data_form", "row_count", "deep_bytes", "content_sketch")


class Row(NamedTuple):
    size: int
    address: int
    hashes: frozenset[int]


@dataclass(frozen=True, eq=False)
class Form:
    """One container. ``place``: what a person calls the data set; ``named``: the nearest that has a name of the user's.

    ``rows`` are those that were looked at, by position.
    """

    place: Place
    named: Place
    data_form: str
    row_count: int
    bytes: int
    rows: dict[int, Row]
    is_told_by_path: bool = False  # another has its name

    @property
    def is_tokens(self) -> bool:
        return self.data_form in (TOKEN_IDS, INTEGERS)

    @property
    def variable(self) -> str:
        return self.named.reference.variable or self.place.path

    @property
    def name(self) -> str:
        """``Trainer.examples (list)`` for an attribute of the user's own class, else the whole way: ``main() rows``."""
        if self.is_told_by_path:
            return self.place.path
        one, short = self.named.reference, self.place.type_name.rpartition(".")[2]
        if self.named is self.place and one.edge_kind == "attribute" and one.owner and _is_of_user(self.named):
            return f"{one.owner.rpartition('<locals>.')[2]}.{one.variable} ({short})"
        return f"{self.place.path} ({short})"

    @cached_property
    def common(self) -> frozenset[int]:
        """Hashes that most rows have: a template, the names of fields."""
        hashes, counts = np.unique([h for row in self.rows.values() for h in row.hashes], return_counts=True)
        return frozenset(int(h) for h in hashes[counts >= max(2, 0.5 * len(self.rows))])


def forms_of(seen: HeapSnapshots, rows: pd.DataFrame) -> list[Form]:
    """``rows``: of table ``data_forms``, of one snapshot. Of containers that share their rows, the largest."""
    forms: list[Form] = []
    rows = rows.sort_values("deep_bytes", ascending=False, kind="stable")
    for number, data_form, count, bytes, sketch in cells(rows, *_COLUMNS):
        place = seen.by_number.get(number)
        if place is None or data_form == MAPPED or _is_on_its_way(place):
            continue
        looked_at = {at: Row(size, address, frozenset(hashes)) for at, size, address, *hashes in json.loads(sketch)}
        form = Form(*_called(place), data_form, int(count), int(bytes), looked_at)
        if not any(_is_same_memory(form, other) for other in forms):
            forms.append(form)
    return forms


def groups(forms: Sequence[Form], min_agreement: float, min_correlation: float) -> Iterator[tuple[list[Form], float]]:
    """Groups of two forms or more with the least agreement within, the largest form first; one form a holder."""
    found: list[tuple[list[Form], list[float]]] = []
    for form in sorted(forms, key=lambda form: form.is_tokens):
        likeness = _correlation if form.is_tokens else _agreement
        least = min_correlation if form.is_tokens else min_agreement
        near = [
            (max((likeness(other, form) for other in members if not other.is_tokens), default=0.0), members, seen)
            for members, seen in found
        ]
        best = max(near, key=lambda entry: entry[0], default=None)
        if best is not None and best[0] >= least:
            best[1].append(form)
            if not form.is_tokens:
                best[2].append(best[0])
        else:
            found.append(([form], []))
    for members, seen in found:
        merged = _one_a_holder(members)
        if len(merged) > 1:
            yield merged, min(seen, default=0.0)


def _one_a_holder(members: Sequence[Form]) -> list[Form]:
    """Columns and blocks of one data set are one form of it. Two of one name are told apart by their paths."""
    merged: dict[int, Form] = {}
    for form in members:
        known = merged.get(id(form.place))
        merged[id(form.place)] = form if known is None else replace(known, bytes=known.bytes + form.bytes)
    names = [form.name for form in merged.values()]
    forms = [replace(form, is_told_by_path=names.count(form.name) > 1) for form in merged.values()]
    return sorted(forms, key=lambda form: (-form.bytes, form.name))


def _is_of_user(place: Place) -> bool:
    return place.is_user and place.reference.variable is not None


def _up(place: Place) -> Iterator[Place]:
    at: Place | None = place
    while at is not None:
        yield at
        at = at.parent


def _is_on_its_way(place: Place) -> bool:
    """Only a call into a library refers to it: one form is being made of another, and goes when the call ends."""
    way = list(_up(place))
    return not any(map(_is_of_user, way)) and way[-1].root_kind == "frame"


def _called(place: Place) -> tuple[Place, Place]:
    """(the data set that it is, or lies in; the nearest that has a name of the user's)."""
    way = list(_up(place))
    parts = [(at, *at.type_name.partition(".")[::2]) for at in way]
    sets = [at for at, library, rest in parts if library in _LIBRARIES and rest.rpartition(".")[2] in _DATA_SETS]
    return sets[-1] if sets else place, next(filter(_is_of_user, way), way[-1])


def _pairs(a: Form, b: Form) -> list[list[tuple[Row, Row]]]:
    """Rows at the same places: of containers of one length all of them; else counted from the start, or the end."""
    if a.row_count == b.row_count:
        return [[(a.rows[at], b.rows[at]) for at in a.rows if at in b.rows]]
    near = min(a.row_count, b.row_count) // 10
    from_start = [(a.rows[at], b.rows[at]) for at in a.rows if at in b.rows and at < near]
    ahead = b.row_count - a.row_count
    from_end = [(a.rows[at], b.rows[at + ahead]) for at in a.rows if at + ahead in b.rows and at >= a.row_count - near]
    return [from_start, from_end]


def _is_same_memory(a: Form, b: Form) -> bool:
    return any(sum(x.address == y.address for x, y in pairs) > 0.5 * len(pairs) for pairs in _pairs(a, b) if pairs)


def _agreement(a: Form, b: Form) -> float:
    """Share of the words of either that the other has at the same place, less what it has at other places. 0 to 1."""
    best = 0.0
    for pairs in _pairs(a, b):
        own = [(x.hashes - a.common, y.hashes - b.common) for x, y in pairs]
        own = [(x, y) for x, y in own if x and y]
        if len(own) < _LEAST_ROWS_COMPARED:
            continue
        here = float(np.mean([_containment(x, y) for x, y in own]))
        elsewhere = float(np.mean([_containment(x, y) for i, (x, _) in enumerate(own) for _, y in own[:i]]))
        best = max(best, here - elsewhere)
    return best


def _containment(x: frozenset[int], y: frozenset[int]) -> float:
    """How much of the smaller is in the larger. Of a long row only the smallest hashes are kept: compared up there."""
    limit = min(max(x), max(y))
    x, y = frozenset(h for h in x if h <= limit), frozenset(h for h in y if h <= limit)
    return len(x & y) / max(1, min(len(x), len(y)))


def _correlation(text: Form, tokens: Form) -> float:
    """Of the lengths of rows at the same places; 0 unless they could be a text and its tokens."""
    if text.row_count != tokens.row_count:
        return 0.0
    sizes = np.array([(x.size, y.size) for x, y in _pairs(text, tokens)[0] if x.size and y.size], dtype=np.float64)
    if len(sizes) < _LEAST_LENGTHS_COMPARED or not np.ptp(sizes, axis=0).all():
        return 0.0
    if tokens.data_form == INTEGERS:
        return 0.0 if np.ptp(sizes[:, 1] - sizes[:, 0]) else 1.0  # marks at both ends make each as much longer
    ratio = float(np.median(sizes[:, 1] / sizes[:, 0]))
    if not _TOKENS_PER_CHARACTER[0] <= ratio <= _TOKENS_PER_CHARACTER[1]:
        return 0.0
    return float(np.asarray(np.corrcoef(sizes.T))[0, 1])
