"""Large containers of data in a snapshot, and which of them have the same content in another form.

Of texts and records a dozen rows were hashed word by word, of arrays of numbers some columns by the order of their rows
(``agent/graph/sketch.py``). Rows that are the same memory are no copy, and neither is what is still being written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

import numpy as np

from ...storage import Rows
from ...units import FEWEST, MOST
from ..code.names import Holder
from ..tables import cells, only
from .comparable import Heap
from .place import Place, upwards
from .standing import has_key

TOKEN_IDS, INTEGERS, NUMERIC = "token-ids", "integers", "numeric"
_MAPPED = "arrow-mapped"
# What a user calls the data set; the table or block below it has no name of its own.
_DATA_SETS = ("BatchEncoding", "DataFrame", "Dataset", "Series")
_LIBRARIES = ("datasets", "pandas", "transformers")
# Whose objects are data: those of other libraries do something, and labels that they have in common are no rows.
_OF_DATA = (
    "collections", "datasets", "datetime", "decimal", "numpy", "pandas", "PIL", "polars", "pyarrow", "tokenizers",
    "torch", "transformers",
)  # fmt: skip
_LEAST_ROWS_COMPARED = FEWEST
_TOKENS_PER_CHARACTER = (0.02, 1.5)  # sound or pixels beside a text are far more
_LEAST_LEVELS = 6  # of a column of numbers: classes and flags of a row are fewer
_LEAST_PAIRS = 60  # of rows that differ in both columns: of that many chance orders half
_SAME_ORDER = 0.98  # of these pairs; what a model predicts has less
_HALF = MOST  # of the columns
_LEAST_DISTINCT = 12  # of the first rows of a column, that they be found again by what they are
_LEAST_FOUND = 8  # rows: by chance fewer are alike
_FOUND_AGAIN = 0.6  # of those that can be among the first of the longer one
_NONE, _DIGITS = "-", 4
_COLUMNS = ("node", "data_form", "row_count", "deep_bytes", "content_sketch")


class Row(NamedTuple):
    size: int
    address: int
    hashes: frozenset[int]


class Column(NamedTuple):
    """Of an array of numbers. ``ranks``: of rows spread over all; ``first``: hashes of the first rows."""

    address: int
    ranks: str
    first: tuple[str, ...]

    @property
    def tells(self) -> bool:
        """Whether another column that has its order has its content: not what only rises, or has a few values."""
        known = [rank for rank in self.ranks if rank != _NONE]
        return len(set(known)) >= _LEAST_LEVELS and known != sorted(known) and known != sorted(known, reverse=True)


@dataclass(frozen=True, eq=False)
class Form:
    """One container. ``place``: what a person calls the data set; ``named``: the nearest that has a name of the user's.

    ``rows`` are those that were looked at, by position; an array of numbers has ``columns``. ``is_shared``: something
    else shows the same memory, and would keep it; but none of the arrays ``not_by``, which have their own.
    """

    place: Place
    named: Place
    data_form: str
    row_count: int
    bytes: int
    rows: dict[int, Row]
    columns: tuple[Column, ...]
    is_shared: bool = False
    not_by: frozenset[tuple[str, str]] = frozenset()
    is_told_by_path: bool = False  # another has its name

    @property
    def is_tokens(self) -> bool:
        return self.data_form in (TOKEN_IDS, INTEGERS)

    @property
    def is_numeric(self) -> bool:
        return self.data_form == NUMERIC

    @property
    def is_one_of_many(self) -> bool:
        """Of a list's members, say, which are one table after the other."""
        return self.place is not self.named and not has_key(self.place)

    @property
    def path(self) -> str:
        return self.place.path

    @property
    def addresses(self) -> frozenset[int]:
        """Of the rows or columns that were looked at."""
        return frozenset([row.address for row in self.rows.values()] + [column.address for column in self.columns])

    @property
    def content(self) -> Hashable:
        """As far as it was looked at: equal in processes that each have their own."""
        rows = frozenset((at, row.size, row.hashes) for at, row in self.rows.items())
        return self.data_form, self.row_count, rows, tuple((one.ranks, one.first) for one in self.columns)

    @property
    def tells(self) -> bool:
        """Whether what has its content is a copy of it, by whatever name."""
        return any(column.tells for column in self.columns) or any(row.hashes for row in self.rows.values())

    @property
    def holder(self) -> Holder:
        """The name to look for in the sources."""
        named = self.named.as_holder()
        variable = self.named.reference.variable or self.path
        return named._replace(
            variable=variable, type_name=self.place.type_name, is_shared=self.is_shared, not_by=self.not_by
        )

    @property
    def name(self) -> str:
        """``Trainer.examples (list)`` for an attribute of the user's own class, else the whole way: ``main() rows``."""
        if self.is_told_by_path:
            return self.path
        one, short = self.named.reference, self.place.type_name.rpartition(".")[2]
        if self.named is self.place and one.edge_kind == "attribute" and one.owner and _is_of_user(self.named):
            return f"{one.owner.rpartition('<locals>.')[2]}.{one.variable} ({short})"
        return f"{self.path} ({short})"


# ---- what there is


def forms_of(seen: Heap, table: Rows, last: int, user_modules: Collection[str]) -> list[Form]:
    """Containers of the snapshot ``last``; of those that share their rows, the largest. ``table``: ``data_forms``."""
    rows = only(table, (table["take"] == last) & (table["data_form"] != _MAPPED))
    before = only(table, (table["take"] < last) & (table["data_form"] == NUMERIC))
    sketches: dict[int, set[str]] = {}
    for number, sketch in cells(before, "node", "content_sketch"):
        sketches.setdefault(number, set()).add(sketch)
    forms: list[Form] = []
    rows = rows.sort_values("deep_bytes", ascending=False)
    for number, data_form, count, bytes, sketch in cells(rows, *_COLUMNS):
        place = seen.by_number.get(number)
        if place is None or _is_on_its_way(place) or _is_librarys_own(place) or not _is_data(place, user_modules):
            continue
        is_numeric = data_form == NUMERIC
        if is_numeric and _is_written(sketch, sketches.get(number, ())):
            continue
        looked_at = {} if is_numeric else {at: Row(size, to, frozenset(h)) for at, size, to, *h in json.loads(sketch)}
        columns = _columns(sketch) if is_numeric else ()
        data_set, named = _called(place)
        is_shared = data_set not in upwards(place)
        form = Form(data_set, named, data_form, int(count), int(bytes), looked_at, columns, is_shared, seen.own_arrays)
        if not any(_is_same_memory(form, other) for other in forms):
            forms.append(form)
    return forms


def _is_of_user(place: Place) -> bool:
    return place.is_user and place.reference.variable is not None


def _is_on_its_way(place: Place) -> bool:
    """Only a call into a library refers to it: one form is being made of another, and goes when the call ends."""
    way = list(upwards(place, by_name=True))
    ends = way[-1], list(upwards(place))[-1]
    return not any(map(_is_of_user, way)) and all(end.root_kind == "frame" for end in ends)


def _is_librarys_own(place: Place) -> bool:
    """A private table in an object of a library that knows no rows: two counters with one set of labels."""
    one = place.reference
    if one.is_user or one.edge_kind != "attribute":
        return False
    return (one.variable or "").startswith("_") and (one.owner_module or "").partition(".")[0] not in (*_LIBRARIES, "")


def _is_data(place: Place, user_modules: Collection[str]) -> bool:
    """Whether the members are rows, and not objects of a library that only have a label in common."""
    module, _, _ = (place.member_type or "").rpartition(".")
    return not module or module in user_modules or module == "__main__" or module.partition(".")[0] in _OF_DATA


def _called(place: Place) -> tuple[Place, Place]:
    """(the data set that it is, or lies in; the nearest that has a name of the user's)."""
    way = list(upwards(place, by_name=True))
    parts = [(at, *at.type_name.partition(".")[::2]) for at in way]
    sets = [at for at, library, rest in parts if library in _LIBRARIES and rest.rpartition(".")[2] in _DATA_SETS]
    data_set, named = sets[-1] if sets else place, next(filter(_is_of_user, way), way[-1])
    is_its_array = not _is_of_user(data_set) and _is_of_user(named) and named.type_name == data_set.type_name
    return named if is_its_array else data_set, named  # an array may have its memory from another


def _is_written(sketch: str, before: Collection[str]) -> bool:
    """The same memory had other numbers in an earlier snapshot: a buffer, or weights that are trained."""
    own = _columns(sketch)
    return any(
        [column.address for column in other] == [column.address for column in own] and other != own
        for other in map(_columns, before)
    )


def _columns(sketch: str) -> tuple[Column, ...]:
    return tuple(
        Column(address, ranks, tuple(first[i : i + _DIGITS] for i in range(0, len(first), _DIGITS)))
        for address, ranks, first in json.loads(sketch)
    )


# ---- what is alike


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
    if a.columns and b.columns:
        known = {column.address for column in b.columns}
        return sum(column.address in known for column in a.columns) > _HALF * min(len(a.columns), len(b.columns))
    return any(sum(x.address == y.address for x, y in pairs) > MOST * len(pairs) for pairs in _pairs(a, b) if pairs)


def _likeness(a: Form, b: Form) -> float:
    """Of texts or of numbers: how much of the smaller is in the larger, beyond chance. 0 to 1."""
    if a.is_numeric or b.is_numeric:
        return _of_columns(a, b)
    return _agreement(a, b)


def _of_columns(a: Form, b: Form) -> float:
    """Share of the columns of the narrower that have the order, or the first rows, of one of the other."""
    few, many = sorted((a, b), key=lambda form: len(form.columns))
    if few.row_count == many.row_count:
        own, others = ([column for column in form.columns if column.tells] for form in (few, many))
        found = [any(_has_order(column, other) for other in others) for column in own]
    else:
        own, others = ([c for c in form.columns if len({*c.first} - {_NONE * _DIGITS}) >= _LEAST_DISTINCT]
                       for form in (few, many))  # fmt: skip
        share = min(few.row_count, many.row_count) / max(few.row_count, many.row_count)
        found = [any(_has_first(column, other, share) for other in others) for column in own]
    is_most = sum(found) > _HALF * len(few.columns) or len(found) >= _LEAST_ROWS_COMPARED
    return sum(found) / len(found) if found and is_most else 0.0


def _has_order(a: Column, b: Column) -> bool:
    """Of any two rows the same one has the larger number, or always the other: equal, scaled, cut off, rounded."""
    known = [(x, y) for x, y in zip(a.ranks, b.ranks) if _NONE not in (x, y)]
    pairs = [(x < v) is (y < w) for (x, y), (v, w) in combinations(known, 2) if x != v and y != w]
    alike = sum(pairs)
    return len(pairs) >= _LEAST_PAIRS and max(alike, len(pairs) - alike) >= _SAME_ORDER * len(pairs)


def has_same_figures(a: Form, b: Form) -> bool:
    """Whether most columns of the narrower are in the other as they are, up to their type, a few rows aside.

    A table that was scaled, ranked or squared has its order in common with what it was made of, and other numbers.
    """
    if not (a.is_numeric and b.is_numeric) or a.row_count != b.row_count:
        return True  # found by what they are
    few, many = sorted((a, b), key=lambda form: len(form.columns))
    own = [column for column in few.columns if column.tells]
    return sum(any(_is_equal(column, other) for other in many.columns) for column in own) > _HALF * len(own)


def _is_equal(a: Column, b: Column) -> bool:
    return sum(x == y for x, y in zip(a.first, b.first)) > _HALF * len(a.first)


def _has_first(a: Column, b: Column, share: float) -> bool:
    """The first rows of one are among the first of the other, in their order: some were left out."""
    common = _longest_common(a.first, b.first)
    return common >= max(_LEAST_FOUND, _FOUND_AGAIN * share * len(a.first))


def _longest_common(a: Sequence[str], b: Sequence[str]) -> int:
    """Length of the longest sequence that both have, with gaps."""
    best = [0] * (len(b) + 1)
    for x in a:
        diagonal = 0
        for j, y in enumerate(b, 1):
            diagonal, best[j] = best[j], diagonal + 1 if x == y and x[0] != _NONE else max(best[j], best[j - 1])
    return best[-1]


def _agreement(a: Form, b: Form) -> float:
    """Share of the words of either that the other has at the same place, less what it has at other places. 0 to 1.

    What most rows of a container have (a template, the names of fields) tells nothing.
    """
    common_a, common_b = _common_hashes(a), _common_hashes(b)
    best = 0.0
    for pairs in _pairs(a, b):
        own = [(x.hashes - common_a, y.hashes - common_b) for x, y in pairs]
        own = [(x, y) for x, y in own if x and y]
        if len(own) < _LEAST_ROWS_COMPARED:
            continue
        here = float(np.mean([_containment(x, y) for x, y in own]))
        elsewhere = float(np.mean([_containment(x, y) for i, (x, _) in enumerate(own) for _, y in own[:i]]))
        best = max(best, here - elsewhere)
    return best


def _common_hashes(form: Form) -> frozenset[int]:
    hashes, counts = np.unique([h for row in form.rows.values() for h in row.hashes], return_counts=True)
    return frozenset(int(h) for h in hashes[counts >= max(2, MOST * len(form.rows))])


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
    if len(sizes) < _LEAST_FOUND or not np.ptp(sizes, axis=0).all():
        return 0.0
    if tokens.data_form == INTEGERS:
        return 0.0 if np.ptp(sizes[:, 1] - sizes[:, 0]) else 1.0  # marks at both ends make each as much longer
    ratio = float(np.median(sizes[:, 1] / sizes[:, 0]))
    if not _TOKENS_PER_CHARACTER[0] <= ratio <= _TOKENS_PER_CHARACTER[1]:
        return 0.0
    return float(np.asarray(np.corrcoef(sizes.T))[0, 1])


def groups_of(
    forms: Sequence[Form], min_agreement: float, min_correlation: float
) -> Iterator[tuple[list[Form], float]]:
    """Groups of two forms or more with the least agreement within, the largest form first; one form a holder."""
    groups: list[tuple[list[Form], list[float]]] = []
    for form in sorted(forms, key=lambda form: form.is_tokens):
        likeness = _correlation if form.is_tokens else _likeness
        least = min_correlation if form.is_tokens else min_agreement
        near = [
            (max((likeness(other, form) for other in members if not other.is_tokens), default=0.0), members, seen)
            for members, seen in groups
        ]
        best = max(near, key=lambda entry: entry[0], default=None)
        if best is not None and best[0] >= least:
            best[1].append(form)
            if not form.is_tokens:
                best[2].append(best[0])
        else:
            groups.append(([form], []))
    for members, seen in groups:
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
