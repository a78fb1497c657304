"""Large containers of data in a snapshot, and which of them have the same content in another form.

Of texts and records a dozen rows were hashed word by word, of arrays of numbers some columns by the order of their rows
(``agent/graph/sketch.py``). Rows that are the same memory are no copy, and neither is what is still being written.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..code.names import Holder
from ..tables import cells, int_of, only, records, text_of, without_last

if TYPE_CHECKING:
    import pandas as pd

    from ..growth.processes import ProcessGrowth

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
_LEAST_ROWS_COMPARED = 3
_LEAST_LENGTHS_COMPARED = 8
_TOKENS_PER_CHARACTER = (0.02, 1.5)  # sound or pixels beside a text are far more
_LEAST_LEVELS = 6  # of a column of numbers: classes and flags of a row are fewer
_LEAST_PAIRS = 60  # of rows that differ in both columns: of that many chance orders half
_SAME_ORDER = 0.98  # of these pairs; what a model predicts has less
_HALF = 0.5  # of the columns
_LEAST_DISTINCT = 12  # of the first rows of a column, that they be found again by what they are
_LEAST_FOUND = 8
_FOUND_AGAIN = 0.6  # of those that can be among the first of the longer one
_NONE, _DIGITS = "-", 4


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
    """One container. ``rows`` are those that were looked at, by position; an array of numbers has ``columns``."""

    path: str
    data_form: str
    row_count: int
    bytes: int
    rows: dict[int, Row]
    columns: tuple[Column, ...]
    name: str
    holder: Holder
    owner_line: int | None

    @property
    def is_tokens(self) -> bool:
        return self.data_form in (TOKEN_IDS, INTEGERS)

    @property
    def is_numeric(self) -> bool:
        return self.data_form == NUMERIC


# ---- what there is


def forms_of(process: ProcessGrowth, user_modules: Collection[str]) -> list[Form]:
    """Containers of the last snapshot that saw the program at work; of those that share their rows, the largest."""
    takes = process.rows("takes")
    takes = without_last(takes, takes)
    if not len(takes):
        return []
    last = takes["take"].iloc[-1]
    table = process.rows("data_forms")
    rows = only(table, (table["take"] == last) & (table["data_form"] != _MAPPED))
    if not len(rows):
        return []
    holders = process.rows("holders")
    by_path = {str(row["path"]): row for row in records(only(holders, holders["take"] == last))}
    before = only(table, (table["take"] < last) & (table["data_form"] == NUMERIC))
    sketches: dict[str, set[str]] = {}
    for path, sketch in cells(before, "path", "content_sketch"):
        sketches.setdefault(str(path), set()).add(str(sketch))
    forms: list[Form] = []
    for _, row in rows.sort_values("deep_bytes", ascending=False, kind="stable").iterrows():
        path, sketch = str(row["path"]), str(row["content_sketch"])
        place = by_path.get(path)
        if _is_on_its_way(path, by_path) or _is_librarys_own(place) or not _is_data(place, user_modules):
            continue
        if row["data_form"] == NUMERIC and _is_written(sketch, sketches.get(path, ())):
            continue
        form = _form(row, by_path)
        if not any(_is_same_memory(form, other) for other in forms):
            forms.append(form)
    return forms


def _is_on_its_way(path: str, by_path: dict[str, dict[str, Any]]) -> bool:
    """Only a call into a library refers to it: one form is being made of another, and goes when the call ends."""
    at: str | None = path
    root = None
    while at is not None and at in by_path:
        root = by_path[at]
        if _is_of_user(root):
            return False
        at = text_of(root, "parent_path")
    return root is not None and text_of(root, "root_kind") == "frame"


def _is_librarys_own(row: dict[str, Any] | None) -> bool:
    """A private table in an object of a library that knows no rows: two counters with one set of labels."""
    if row is None or row["is_user"] or text_of(row, "edge_kind") != "attribute":
        return False
    library = (text_of(row, "owner_module") or "").partition(".")[0]
    return (text_of(row, "variable") or "").startswith("_") and library not in (*_LIBRARIES, "")


def _is_data(row: dict[str, Any] | None, user_modules: Collection[str]) -> bool:
    """Whether the members are rows, and not objects of a library that only have a label in common."""
    module, _, _ = (text_of(row, "member_type") or "").rpartition(".")
    return not module or module in user_modules or module == "__main__" or module.partition(".")[0] in _OF_DATA


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


def _form(row: pd.Series[Any], by_path: dict[str, dict[str, Any]]) -> Form:
    path = str(row["path"])
    data_set = path
    named = by_path.get(path)
    at: str | None = path
    while at is not None and at in by_path:
        place = by_path[at]
        library, _, rest = str(place["type_name"]).partition(".")
        if library in _LIBRARIES and rest.rpartition(".")[2] in _DATA_SETS:
            data_set = at
        if not _is_of_user(named):
            named = place
        at = text_of(place, "parent_path")
    if not _is_of_user(by_path.get(data_set)) and named is not None and _is_of_user(named):
        is_alone = text_of(named, "type_name") == text_of(by_path.get(data_set), "type_name")
        data_set = str(named["path"]) if is_alone else data_set  # an array that has its memory from another
    kind = str(by_path[data_set]["type_name"] if data_set in by_path else row["type_name"])
    holder = Holder(
        variable=text_of(named, "variable") or path,
        owner=text_of(named, "owner"),
        owner_module=text_of(named, "owner_module"),
        owner_file=text_of(named, "owner_file"),
        edge_kind=text_of(named, "edge_kind") or "attribute",
        type_name=kind,
    )
    sketch, is_numeric = row["content_sketch"], row["data_form"] == NUMERIC
    rows = {} if is_numeric else {at: Row(size, address, frozenset(h)) for at, size, address, *h in json.loads(sketch)}
    return Form(
        path=data_set,
        data_form=str(row["data_form"]),
        row_count=int(row["row_count"]),
        bytes=int(row["deep_bytes"]),
        rows=rows,
        columns=_columns(sketch) if is_numeric else (),
        name=_name(named, data_set, kind),
        holder=holder,
        owner_line=int_of(named, "owner_line"),
    )


def _name(named: dict[str, Any] | None, path: str, kind: str) -> str:
    """``Trainer.examples (list)`` for an attribute of the user's own class, else the whole way: ``main() rows``."""
    short = kind.rpartition(".")[2]
    owner, variable = text_of(named, "owner"), text_of(named, "variable")
    if text_of(named, "path") == path and text_of(named, "edge_kind") == "attribute" and owner and _is_of_user(named):
        return f"{owner.rpartition('<locals>.')[2]}.{variable} ({short})"
    return f"{path} ({short})"


def _is_of_user(row: dict[str, Any] | None) -> bool:
    return row is not None and bool(row["is_user"]) and text_of(row, "variable") is not None


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
    return any(sum(x.address == y.address for x, y in pairs) > 0.5 * len(pairs) for pairs in _pairs(a, b) if pairs)


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
    return frozenset(int(h) for h in hashes[counts >= max(2, 0.5 * len(form.rows))])


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
    merged: dict[str, Form] = {}
    for form in members:
        known = merged.get(form.path)
        merged[form.path] = form if known is None else replace(known, bytes=known.bytes + form.bytes)
    names = [form.name for form in merged.values()]
    forms = [form if names.count(form.name) == 1 else replace(form, name=form.path) for form in merged.values()]
    return sorted(forms, key=lambda form: (-form.bytes, form.name))
