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

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ..confidence import Ground
from ..evidence.sentences import at_line
from ..evidence.suspects import copied_in
from ..evidence.teams import growing, has_copied, is_costly
from ..facts.code.adding import Line, adding_lines
from ..facts.growth.processes import ProcessGrowth
from ..facts.tables import only, without_last
from ..facts.where.forms import INTEGERS, TOKEN_IDS, Form, forms_of, groups
from ..facts.where.holders import about, defined_at
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import WASTE
from ..units import MOST, MiB, format_bytes, format_count

if TYPE_CHECKING:
    from ..facts.case import Case

NEEDS = ("takes",)
TELLS = (WASTE,)
AFTER = ()
_KIND = "dataset-copies"
_WORDS = {
    "records": "records",
    "strings": "text",
    "arrow-table": "an Arrow table in memory",
    TOKEN_IDS: "token ids",
    INTEGERS: "numbers",
}


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
        for group, agreement in groups(forms, min_agreement, min_correlation):
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


def _forms(case: Case, process: ProcessGrowth) -> list[Form]:
    """Containers of the last snapshot that saw the program at work."""
    takes = process.rows("takes")
    takes, rows = without_last(takes, takes), process.rows("data_forms")
    rows = only(rows, rows["take"] == takes["take"].iloc[-1]) if len(takes) else rows.iloc[:0]
    return forms_of(case.heap(process.pid), rows) if len(rows) else []


def _finding(
    case: Case, process: ProcessGrowth, group: list[Form], agreement: float, wasted: int, held: float
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
        line=line or defined_at(first.named),
        device="cpu",
        evidence=_evidence(case, group, agreement, by_text, wasted, held),
        doubts=_doubts(tokens, by_text),
        remedy=[_remedy(group, total)],
        wasted=True,
        **(about(first.named, first.place) | {"holder": first.name, "variable": first.variable}),
    )


def _listed(group: Sequence[Form]) -> str:
    names = [form.name for form in group]
    return f"{', '.join(names[:-1])} and {names[-1]}"


def _line(case: Case, form: Form) -> Line | None:
    """Where it is made: by adding row after row, or at once; a call on it (``.map``) makes the next form."""
    lines = adding_lines(case.sources, form.named.as_holder()._replace(type_name=form.place.type_name))
    is_array = form.place.type_name.endswith("ndarray")  # what is written into it makes it no larger
    order = ("creates", "adds", "calls") if is_array else ("adds", "creates", "calls")
    return min(lines, key=lambda line: order.index(line.kind), default=None)


def _made_first(case: Case, group: Sequence[Form]) -> Form | None:
    """The form that the others are made from, by the lines that make them: it is the likeliest to be needed no more."""
    texts = {form.name: line.text if (line := _line(case, form)) else "" for form in group}
    names = {form.name: re.compile(rf"\b{re.escape(form.variable)}\b") for form in group}
    sources = [
        form
        for form in group
        if not any(names[other.name].search(texts[form.name]) for other in group if other != form)
    ]
    return sources[0] if len(sources) == 1 and texts[sources[0].name] else None


def _evidence(
    case: Case, group: Sequence[Form], agreement: float, by_text: bool, wasted: int, held: float
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
            yield at_line(line, f"{line.kind} {form.variable}")


def _doubts(tokens: Sequence[Form], by_text: bool) -> Iterator[str]:
    yield "a dozen rows of each were compared: one form may hold data that the others lack, or be read later"
    for form in tokens:
        yield (
            f"{form.name} holds numbers: the count and length of its rows suggest that they are tokens of the same text"
        )
    if not by_text:
        yield "if the text is still read while training, both are needed"


def _remedy(group: Sequence[Form], total: int) -> str:
    """What is saved depends on which form is the one that is read: that is the user's to know."""
    savings = "; ".join(f"{format_bytes(total - form.bytes)} if {form.name} is enough" for form in group)
    return f"keep the form that is still read and drop the others (del, or return only it from a function): {savings}"
