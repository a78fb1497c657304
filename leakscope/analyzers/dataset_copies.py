"""The same rows held in several forms at once, or copied by forks that read them.

Looks for:     containers of like rows (raw records, formatted text, a data set, token ids), alive in the same
               snapshot, under different names; forked workers with copies of their parent's container of rows.
Why:           each step of preparing data makes a new form of it, and the names of the earlier ones keep theirs; and
               whoever reads an object writes its reference count, so that a fork copies the rows that it reads.
Decides by:    the text at the same places of two containers: hashes of word groups agree in min_agreement of the
               rows looked at, and agree by that much less at different places; the rows are not the same memory.
               Token ids carry no text: equal row counts and lengths that follow those of the text; numbers of few
               kinds, or in tensors, are its characters where each row has as many. Forks: pages that became private
               without being added, and Python objects enough in the parent.
Mistaken when: a form holds something besides that is needed, or both are still read.
Do:            drop the earlier forms, or build the last one in a function that returns nothing else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..confidence import Ground
from ..evidence.sentences import at_line
from ..evidence.suspects import copied_in
from ..evidence.teams import growing, has_copied, is_costly
from ..facts.code.adding import Holder, Line, adding_lines
from ..facts.growth.processes import ProcessGrowth
from ..facts.subject import Definition
from ..facts.tables import int_of, only, records, text_of, without_last
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import WASTE
from ..units import MOST, MiB, format_bytes, format_count

if TYPE_CHECKING:
    import pandas as pd

    from ..facts.case import Case

NEEDS = ("takes",)
TELLS = (WASTE,)
AFTER = ()
_KIND = "dataset-copies"
_TOKEN_IDS, _INTEGERS, _MAPPED = "token-ids", "integers", "arrow-mapped"
_WORDS = {
    "records": "records",
    "strings": "text",
    "arrow-table": "an Arrow table in memory",
    _TOKEN_IDS: "token ids",
    _INTEGERS: "numbers",
}
# What a user calls the data set; the table or block below it has no name of its own.
_DATA_SETS = ("BatchEncoding", "DataFrame", "Dataset", "Series")
_LIBRARIES = ("datasets", "pandas", "transformers")
_LEAST_ROWS_COMPARED = 3
_LEAST_LENGTHS_COMPARED = 8
_TOKENS_PER_CHARACTER = (0.02, 1.5)  # sound or pixels beside a text are far more


class _Row(NamedTuple):
    size: int
    address: int
    hashes: frozenset[int]


@dataclass(frozen=True, eq=False)
class _Form:
    """One container. ``rows`` are those that were looked at, by position."""

    path: str
    data_form: str
    row_count: int
    bytes: int
    rows: dict[int, _Row]
    name: str
    holder: Holder
    owner_line: int | None

    @property
    def is_tokens(self) -> bool:
        return self.data_form in (_TOKEN_IDS, _INTEGERS)


def findings(
    case: Case,
    *,
    min_agreement: float = 0.5,  # other rows of the same kind of text agree in a few hundredths
    min_correlation: float = 0.9,  # of lengths: by chance one pair in a thousand
    min_wasted_bytes: int = 8 * MiB,  # less is not worth anybody's time
    min_wasted_share: float = 0.03,  # of what the process holds: the same
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per group of containers that hold the same rows, or parent whose forks have copied its."""
    growth = case.growth
    containers = 0
    found = False
    for process in growth.processes:
        forms = _forms(case, process)
        containers += len(forms)
        held = float(process.held_bytes[-1])
        for group, agreement in _groups(forms, min_agreement, min_correlation):
            wasted = sum(form.bytes for form in group) - max(form.bytes for form in group)
            if wasted >= max(min_wasted_bytes, min_wasted_share * held):
                found = True
                yield _finding(case, process, group, agreement, wasted, held)
    for team in case.teams:
        if team.is_loader:  # dataloader-workers tells of them
            continue
        rows = copied_in(case, team)
        if is_costly(team, rows, growth):
            found = True
            # Where most of what the job gained is copies, copying is what grows, and no waste beside it.
            goes_on = growth.leaking and team.is_copying and team.all_copied >= MOST * growth.growth_bytes
            yield (growing if goes_on else has_copied)(case, _KIND, team, rows)
    if not found:
        figures = {"containers": containers}
        text = f"large containers of rows ({containers}), each with other rows" if containers else "no large container"
        yield RuledOut(_KIND, f"the last snapshot has {text}", figures)


# ---- what there is


def _forms(case: Case, process: ProcessGrowth) -> list[_Form]:
    """Containers of the last snapshot that saw the program at work; of those that share their rows, the largest."""
    takes = process.rows("takes")
    takes = without_last(takes, takes)
    if not len(takes):
        return []
    last = takes["take"].iloc[-1]
    rows = process.rows("data_forms")
    rows = only(rows, (rows["take"] == last) & (rows["data_form"] != _MAPPED))
    if not len(rows):
        return []
    holders = process.rows("holders")
    by_path = {str(row["path"]): row for row in records(only(holders, holders["take"] == last))}
    forms: list[_Form] = []
    for _, row in rows.sort_values("deep_bytes", ascending=False, kind="stable").iterrows():
        if _is_on_its_way(str(row["path"]), by_path) or _is_librarys_own(by_path.get(str(row["path"]))):
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


def _form(row: pd.Series[Any], by_path: dict[str, dict[str, Any]]) -> _Form:
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
    kind = str(by_path[data_set]["type_name"] if data_set in by_path else row["type_name"])
    holder = Holder(
        variable=text_of(named, "variable") or path,
        owner=text_of(named, "owner"),
        owner_module=text_of(named, "owner_module"),
        owner_file=text_of(named, "owner_file"),
        edge_kind=text_of(named, "edge_kind") or "attribute",
        type_name=kind,
    )
    return _Form(
        path=data_set,
        data_form=str(row["data_form"]),
        row_count=int(row["row_count"]),
        bytes=int(row["deep_bytes"]),
        rows={at: _Row(size, address, frozenset(h)) for at, size, address, *h in json.loads(row["content_sketch"])},
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


def _pairs(a: _Form, b: _Form) -> list[list[tuple[_Row, _Row]]]:
    """Rows at the same places: of containers of one length all of them; else counted from the start, or the end."""
    if a.row_count == b.row_count:
        return [[(a.rows[at], b.rows[at]) for at in a.rows if at in b.rows]]
    near = min(a.row_count, b.row_count) // 10
    from_start = [(a.rows[at], b.rows[at]) for at in a.rows if at in b.rows and at < near]
    ahead = b.row_count - a.row_count
    from_end = [(a.rows[at], b.rows[at + ahead]) for at in a.rows if at + ahead in b.rows and at >= a.row_count - near]
    return [from_start, from_end]


def _is_same_memory(a: _Form, b: _Form) -> bool:
    return any(sum(x.address == y.address for x, y in pairs) > 0.5 * len(pairs) for pairs in _pairs(a, b) if pairs)


def _agreement(a: _Form, b: _Form) -> float:
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


def _common_hashes(form: _Form) -> frozenset[int]:
    hashes, counts = np.unique([h for row in form.rows.values() for h in row.hashes], return_counts=True)
    return frozenset(int(h) for h in hashes[counts >= max(2, 0.5 * len(form.rows))])


def _containment(x: frozenset[int], y: frozenset[int]) -> float:
    """How much of the smaller is in the larger. Of a long row only the smallest hashes are kept: compared up there."""
    limit = min(max(x), max(y))
    x, y = frozenset(h for h in x if h <= limit), frozenset(h for h in y if h <= limit)
    return len(x & y) / max(1, min(len(x), len(y)))


def _correlation(text: _Form, tokens: _Form) -> float:
    """Of the lengths of rows at the same places; 0 unless they could be a text and its tokens."""
    if text.row_count != tokens.row_count:
        return 0.0
    sizes = np.array([(x.size, y.size) for x, y in _pairs(text, tokens)[0] if x.size and y.size], dtype=np.float64)
    if len(sizes) < _LEAST_LENGTHS_COMPARED or not np.ptp(sizes, axis=0).all():
        return 0.0
    if tokens.data_form == _INTEGERS:
        return 0.0 if np.ptp(sizes[:, 1] - sizes[:, 0]) else 1.0  # marks at both ends make each as much longer
    ratio = float(np.median(sizes[:, 1] / sizes[:, 0]))
    if not _TOKENS_PER_CHARACTER[0] <= ratio <= _TOKENS_PER_CHARACTER[1]:
        return 0.0
    return float(np.asarray(np.corrcoef(sizes.T))[0, 1])


def _groups(
    forms: Sequence[_Form], min_agreement: float, min_correlation: float
) -> Iterator[tuple[list[_Form], float]]:
    """Groups of two forms or more with the least agreement within, the largest form first; one form a holder."""
    groups: list[tuple[list[_Form], list[float]]] = []
    for form in sorted(forms, key=lambda form: form.is_tokens):
        likeness = _correlation if form.is_tokens else _agreement
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


def _one_a_holder(members: Sequence[_Form]) -> list[_Form]:
    """Columns and blocks of one data set are one form of it. Two of one name are told apart by their paths."""
    merged: dict[str, _Form] = {}
    for form in members:
        known = merged.get(form.path)
        merged[form.path] = form if known is None else replace(known, bytes=known.bytes + form.bytes)
    names = [form.name for form in merged.values()]
    forms = [form if names.count(form.name) == 1 else replace(form, name=form.path) for form in merged.values()]
    return sorted(forms, key=lambda form: (-form.bytes, form.name))


# ---- what to say


def _finding(
    case: Case, process: ProcessGrowth, group: list[_Form], agreement: float, wasted: int, held: float
) -> Finding:
    total = sum(form.bytes for form in group)
    first = _made_first(case, group) or group[0]
    line = _line(case, first)
    tokens = [form for form in group if form.is_tokens]
    by_text = len(group) - len(tokens) > 1
    rows = format_count(max(form.row_count for form in group))
    return case.finding(
        _KIND,
        f"The same {rows} rows are held in {len(group)} forms, {format_bytes(total)} in all: {_listed(group)}",
        severity="warning" if wasted >= 0.1 * held else "note",
        grounds=[
            Ground(f"{agreement:.0%} of the rows that were compared agree", 0.75 + 0.2 * agreement)
            if by_text
            else Ground("their rows are as long; words were not compared", 0.55)
        ],
        bytes=wasted,
        process=process,
        line=line or Definition(first.holder.owner_file, first.owner_line),
        device="cpu",
        holder=first.name,
        variable=first.holder.variable,
        path=first.path,
        type=first.holder.type_name,
        module=first.holder.owner_module,
        evidence=_evidence(case, group, agreement, by_text, wasted, held),
        doubts=_doubts(tokens, by_text),
        remedy=[_remedy(group, total)],
        mechanism="several-forms",
        wasted=True,
    )


def _listed(group: Sequence[_Form]) -> str:
    names = [form.name for form in group]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _line(case: Case, form: _Form) -> Line | None:
    """Where it is made: by adding row after row, or at once; a call on it (``.map``) makes the next form."""
    lines = adding_lines(case.sources, form.holder)
    is_array = form.holder.type_name.endswith("ndarray")  # what is written into it makes it no larger
    order = ("creates", "adds", "calls") if is_array else ("adds", "creates", "calls")
    return min(lines, key=lambda line: order.index(line.kind), default=None)


def _made_first(case: Case, group: Sequence[_Form]) -> _Form | None:
    """The form that the others are made from, by the lines that make them: it is the likeliest to be needed no more."""
    texts = {form.name: line.text if (line := _line(case, form)) else "" for form in group}
    names = {form.name: re.compile(rf"\b{re.escape(form.holder.variable)}\b") for form in group}
    sources = [
        form
        for form in group
        if not any(names[other.name].search(texts[form.name]) for other in group if other != form)
    ]
    return sources[0] if len(sources) == 1 and texts[sources[0].name] else None


def _evidence(
    case: Case, group: Sequence[_Form], agreement: float, by_text: bool, wasted: int, held: float
) -> Iterator[Evidence]:
    for form in group:
        text = f"{form.name} holds {format_count(form.row_count)} rows as {_WORDS.get(form.data_form, 'data')}"
        figures = {"bytes": form.bytes, "row_count": form.row_count}
        yield Evidence(f"{text}: {format_bytes(form.bytes)}", figures)
    if by_text:
        text = f"{agreement:.0%} of their words agree at the same places, beyond what any two rows share"
        yield Evidence(text, {"agreement": round(agreement, 3)})
    share = wasted / max(held, 1.0)
    text = f"all but the largest are {format_bytes(wasted)}, {share:.0%} of what the process held at the end"
    yield Evidence(text, {"wasted_bytes": wasted, "process_bytes": int(held)})
    for form in group:
        line = _line(case, form)
        if line is not None:
            yield at_line(line, f"{line.kind} {form.holder.variable}")


def _doubts(tokens: Sequence[_Form], by_text: bool) -> Iterator[str]:
    yield "a dozen rows of each were compared: one form may hold data that the others lack, or be read later"
    for form in tokens:
        yield (
            f"{form.name} holds numbers: the count and length of its rows suggest that they are tokens of the same text"
        )
    if not by_text:
        yield "if the text is still read while training, both are needed"


def _remedy(group: Sequence[_Form], total: int) -> str:
    """What is saved depends on which form is the one that is read: that is the user's to know."""
    savings = "; ".join(f"{format_bytes(total - form.bytes)} if {form.name} is enough" for form in group)
    return f"keep the form that is still read and drop the others (del, or return only it from a function): {savings}"
