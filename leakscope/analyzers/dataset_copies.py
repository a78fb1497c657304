"""The same rows held in several forms at once, or copied by forks that read them.

Looks for:     containers of like rows (raw records, formatted text, a data set, token ids), alive in the same
               snapshot, under different names; one that several processes each hold for themselves; forked workers
               with copies of their parent's container of rows.
Why:           each step of preparing data makes a new form of it, and the names of the earlier ones keep theirs; and
               whoever reads an object writes its reference count, so that a fork copies the rows that it reads.
Decides by:    the text at the same places of two containers: hashes of word groups agree in min_agreement of the
               rows looked at, and agree by that much less at different places; the rows are not the same memory.
               Columns of numbers that order their rows alike: where more than one table with other numbers is still
               needed, only those with equal numbers are forms of one content.
               Token ids carry no text: equal row counts and lengths that follow those of the text; numbers of few
               kinds, or in tensors, are its characters where each row has as many. Forks: pages that became private
               without being added, and Python objects enough in the parent.
Mistaken when: a form holds something besides that is needed, or both are still read.
Do:            drop the earlier forms, or build the last one in a function that returns nothing else.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Hashable, Iterator, Sequence

from ..confidence import FAIR, NEUTRAL, PROVEN, STRONG, STRONGLY_AGAINST, Ground, graded
from ..evidence.cell_results import unread_results
from ..evidence.idle_workers import resting_pids
from ..evidence.sentences import let_go, listed, untyped, wasted
from ..evidence.suspects import copied_in
from ..evidence.teams import growing, has_copied, is_costly
from ..evidence.use import first_reader, reference_count, use_of
from ..facts.case import Case
from ..facts.code.adding import Line, adding_lines, find_calls, removing_lines
from ..facts.code.caps import caps
from ..facts.code.statements import is_looked_up_first, statement_at
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.forms import INTEGERS, NUMERIC, TOKEN_IDS, Form, forms_of, groups_of, has_same_figures
from ..facts.heap.place import downwards
from ..facts.subject import Held
from ..facts.tables import without_last
from ..facts.where.holders import about, defined_at
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import WASTE
from ..units import FULL, HARDLY, MOST, WORTH, format_bytes, format_count

NEEDS = ("takes",)
TELLS = (WASTE,)
_KIND = "dataset-copies"
_COMPARED = Ground("the rows that were compared are the same in all of them", PROVEN)
_AS_MANY = Ground("each has as many, as large, and gets no more: all that there is to look up", STRONG)
_BY_LENGTH = "their rows have the same lengths; words were not compared"
_WORDS = {
    "records": "records",
    "strings": "text",
    "arrow-table": "an Arrow table in memory",
    TOKEN_IDS: "token ids",
    INTEGERS: "numbers",
    NUMERIC: "numbers",
}


def findings(
    case: Case,
    *,
    min_agreement: float = MOST,  # other rows of the same kind of text agree in a few hundredths
    min_correlation: float = FULL,  # of lengths: by chance one pair in a thousand
    min_wasted_bytes: int = WORTH,  # less is not worth anybody's time
    min_wasted_share: float = HARDLY,  # of what the process holds: the same
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per group of containers that hold the same rows, or parent whose forks have copied its."""
    growth = case.growth
    modules = {source.module for source in case.sources}
    resting = case.once(resting_pids)  # they are to end
    containers = 0
    found = False
    seen: list[tuple[list[Form], float, list[ProcessGrowth]]] = []
    everywhere: dict[Hashable, dict[int, tuple[ProcessGrowth, Form]]] = {}  # by content, of each process the largest
    of_parents: set[Hashable] = set()  # which their forks have at the same addresses
    of_loaders = {one.pid for team in case.teams if team.is_loader for one in team.alive}
    for process in sorted(growth.processes, key=lambda process: process.is_fork):
        forms = _forms(case, process, modules)
        filled = _filled(case, process) if process.pid in of_loaders else []
        containers += len(forms)
        of_parents |= set() if process.is_fork else {form.addresses for form in forms}
        for form in (*forms, *filled) if process.pid not in resting else ():
            is_own = form.addresses not in of_parents and float(process.private_bytes[-1]) >= form.bytes
            if is_own or not process.is_fork:
                key = form.content if form.tells else (form.path, form.content)
                everywhere.setdefault(key, {}).setdefault(process.pid, (process, form))
        for group, agreement in groups_of(forms, min_agreement, min_correlation):
            inherited = next((by for of, _, by in seen if process.is_fork and _is_same_memory(group, of)), None)
            if inherited is not None:
                inherited.append(process)
            else:
                seen.append((group, agreement, [process]))
    for alike, agreement, processes in seen:
        for copies in _Copies(case, processes, alike, agreement).of_one_content():
            # Of what nothing reads any more in whatever form held-memory tells, all together.
            if not copies.is_over and copies.wasted >= max(min_wasted_bytes, min_wasted_share * copies.held):
                found = True
                yield copies.finding()
    held = sum(float(process.held_bytes[-1]) for process in growth.processes)
    for held_alike in (list(one.values()) for one in everywhere.values()):
        if _spare(held_alike) >= max(min_wasted_bytes, min_wasted_share * held):
            found = True
            yield _of_each_process(case, held_alike, held)
    for team in case.teams:
        # Of loaders dataloader-workers tells, of those that rest held-memory.
        if team.is_loader or (team.alive and resting.issuperset(one.pid for one in team.alive)):
            continue
        rows = copied_in(team)
        if is_costly(team, rows, growth):
            found = True
            # Where most of what the job gained is copies, copying is what grows, and no waste beside it.
            goes_on = growth.leaking and team.is_copying and team.all_copied >= MOST * growth.growth_bytes
            yield (growing if goes_on else has_copied)(case, _KIND, team, rows)
    if not found:
        figures = {"containers": containers}
        text = "no large container"
        if containers:
            text = f"large containers of rows ({containers}), no two with the same rows"
        yield RuledOut(_KIND, f"the last snapshot has {text}", figures)


def _forms(case: Case, process: ProcessGrowth, modules: Collection[str]) -> list[Form]:
    """Containers of the last snapshot that saw the program at work."""
    takes = process.rows("takes")
    takes, rows = without_last(takes, takes), process.rows("data_forms")
    if not len(takes) or not len(rows):
        return []
    heap = case.heap(process.pid)
    # What nobody looks at of what cells of IPython returned is told by held-memory.
    left = unread_results(case, heap)
    own = set() if left is None else {id(one) for above in left.places for one in downwards([above])}
    forms = forms_of(heap, rows, int(takes["take"].iloc[-1]), modules)
    return [one for one in forms if id(one.place) not in own]


def _filled(case: Case, process: ProcessGrowth) -> list[Form]:
    """Caches of a loader's worker that have become no longer since the snapshot before: where rows come in any order,
    each is asked for all of them in the end. Not where its length decides what is kept.
    """
    shuffled = find_calls(case.sources, "torch.utils.data.DataLoader", given="shuffle")
    places = case.heap(process.pid).places if shuffled else ()
    found = []
    for place in places:
        stands = len(place.length) > 1 and place.length[-1] == place.length[-2] and place.deep_bytes[-1] >= WORTH
        if not (stands and place.has_length and place.has_users_name):
            continue
        holder, variable = place.as_holder(), place.reference.variable or ""
        adding = [line for line in adding_lines(case.sources, holder) if line.kind == "adds"]
        asked = [statement_at(case.sources, line.file, line.line, variable) for line in adding]
        is_asked_first = any(one is not None and is_looked_up_first(one) for one in asked)
        if is_asked_first and not caps(case.sources, holder) and not removing_lines(case.sources, holder):
            found.append(Form(place, place, "", int(place.length[-1]), int(place.deep_bytes[-1]), {}, ()))
    return found


def _spare(held_alike: Sequence[tuple[ProcessGrowth, Form]]) -> int:
    sizes = [form.bytes for _, form in held_alike]
    return sum(sizes) - max(sizes)


def _of_each_process(case: Case, held_alike: Sequence[tuple[ProcessGrowth, Form]], held: float) -> Finding:
    """Processes that did not inherit it: each has loaded it, or was sent it."""
    lines = [_line(case, form) for _, form in held_alike]
    said = zip(lines, held_alike)
    line, (process, form) = max(said, key=lambda one: (one[0] is not None, one[1][1].bytes))  # by a name in the sources
    count, spare = len(held_alike), _spare(held_alike)
    severity, share = wasted(case, spare, held, whose="all", what=f"all but one are {format_bytes(spare)},")
    made = f", made at {line.place}" if line is not None else ""
    text = f"{form.name} has {format_count(form.row_count)} rows in each, {format_bytes(form.bytes)}{made}"
    return case.finding(
        _KIND,
        f"Each of {count} processes holds {form.name} for itself, {format_bytes(spare)} more than needed",
        severity=severity,
        grounds=[_COMPARED if form.columns or form.rows else _AS_MANY],
        bytes=spare,
        process=process,
        line=line or defined_at(form.named),
        device="cpu",
        evidence=[Evidence(text, {"process_count": count, "bytes": form.bytes, "row_count": form.row_count}), share],
        doubts=["only some rows of each were compared"],
        remedy=[
            f"load {form.name} once and share it, as a file of NumPy or Arrow that each process maps, or by "
            f"multiprocessing.shared_memory: saves about {format_bytes(spare)}; or start fewer processes"
        ],
        mechanism="workers-copy",
        wasted=True,
        **(about(form.named, form.place) | Held(holder=form.name, variable=form.holder.variable)),
    )


def _is_same_memory(group: Sequence[Form], other: Sequence[Form]) -> bool:
    """A fork has what its parent had at the same addresses, if under another name."""
    return {form.addresses for form in group} <= {form.addresses for form in other}


# ---- what to say


class _Copies:
    """The forms of one content, each with what is known of its use.

    ``processes``: whose they are, then its forks, which share them: what one of these still reads is used.
    """

    def __init__(self, case: Case, processes: Sequence[ProcessGrowth], group: Sequence[Form], agreement: float) -> None:
        self._case, self._processes, self._group, self._agreement = case, processes, group, agreement
        self._process = processes[0]
        self.held = float(self._process.held_bytes[-1])
        self._lines = {form.name: _line(case, form) for form in group}
        made = {line.place for line in self._lines.values() if line is not None}
        self._uses = {
            form.name: first_reader(
                use_of(case, one, form.holder, form.path, made, is_alone=self._is_alone(one, form)) for one in processes
            )
            for form in group
        }
        self._over = [form for form in group if self._uses[form.name].is_over]
        self._used = [form for form in group if self._uses[form.name].is_over is False]

    def _is_alone(self, process: ProcessGrowth, form: Form) -> bool:
        return not form.is_shared and reference_count(self._case, process, form.place) <= 1

    def of_one_content(self) -> list[_Copies]:
        """Itself; or its parts, where what is still needed is more than a table and one that was made of it.

        Equal order alone does not make one table of a dozen results: scaled by one factor after the other, ranks.
        """
        parts: list[list[Form]] = []
        for form in self._group:
            part = next((one for one in parts if has_same_figures(form, one[0])), None)
            if part is None:
                parts.append([form])
            else:
                part.append(form)
        left = [rest for part in parts if (rest := [form for form in part if form not in self._over])]
        owners = [owner for part in left for owner in {id(form.named) for form in part if form.is_one_of_many}]
        if len(left) <= 2 and len(owners) == len(set(owners)):
            return [self]
        return [_Copies(self._case, self._processes, part, self._agreement) for part in parts if len(part) > 1]

    @property
    def wasted(self) -> int:
        """What nothing reads any more; where that is not known, what one that is read has, or all but the largest."""
        others = [form for form in self._group if form not in self._over and form not in self._used]
        widest = max((len(form.columns) for form in self._used), default=0)
        kept = [form for form in others if len(form.columns) > widest] if self._used else others[:1]
        others = [] if len(self._used) > 1 else others
        return sum(form.bytes for form in (*self._over, *others)) - sum(form.bytes for form in kept if form in others)

    @property
    def is_over(self) -> bool:
        return len(self._over) == len(self._group)

    @property
    def _knows_use(self) -> bool:
        return bool(self._over) and len(self._over) + len(self._used) == len(self._group)

    @property
    def _may_be_read(self) -> bool:
        """One that is not known to be over, by a line that is still to come."""
        return any(use.is_over is None and use.line is not None for use in self._uses.values())

    def finding(self) -> Finding:
        case, group = self._case, self._group
        first = self._made_first() or group[0]
        if first in self._used and self._over:
            first = self._over[0]  # what is to go
        line = self._lines[first.name]
        total = sum(form.bytes for form in group)
        tokens = [form for form in group if form.is_tokens]
        by_content = len(group) - len(tokens) > 1
        rows = format_count(max(form.row_count for form in group))
        which = "those that nothing reads again" if self._knows_use else "all but the largest"
        severity, share = wasted(case, self.wasted, self.held, what=f"{which} are {format_bytes(self.wasted)},")
        listing = listed([untyped(form.name) for form in group])
        more = f"{format_bytes(self.wasted)} more than needed"
        return case.finding(
            _KIND,
            f"The same {rows} rows are held in {len(group)} forms, {more}: {listing}",
            severity=severity,
            grounds=[
                self._agree() if by_content else Ground(_BY_LENGTH, NEUTRAL),
                Ground("lines that have not run yet may read one of them", STRONGLY_AGAINST)
                if self._may_be_read
                else None,
            ],
            bytes=self.wasted,
            process=self._process,
            line=line or defined_at(first.named),
            device="cpu",
            evidence=[*self._evidence(), share],
            doubts=self._doubts(tokens, by_content),
            remedy=[self._remedy(total)],
            mechanism="several-forms",
            wasted=True,
            idle=[self._uses[form.name].idle(form.bytes, form.path) for form in self._over],
            **(about(first.named, first.place) | Held(holder=first.name, variable=first.holder.variable)),
        )

    def _made_first(self) -> Form | None:
        """The form that the others are made from, by the lines that make them: the likeliest to be needed no more."""
        texts = {name: line.text if line else "" for name, line in self._lines.items()}
        names = {form.name: re.compile(rf"\b{re.escape(form.holder.variable)}\b") for form in self._group}
        sources = [
            form
            for form in self._group
            if not any(names[other.name].search(texts[form.name]) for other in self._group if other != form)
        ]
        return sources[0] if len(sources) == 1 and texts[sources[0].name] else None

    def _evidence(self) -> Iterator[Evidence]:
        for form in self._group:
            what = f"{format_count(form.row_count)} rows as {_WORDS.get(form.data_form, 'data')}"
            line, use = self._lines[form.name], self._uses[form.name]
            made = f", made at {line.place}" if line is not None else ""
            used = f"; {use.text}" if use.text else ""
            figures = {"bytes": form.bytes, "row_count": form.row_count}
            yield Evidence(f"{form.name} holds {what}: {format_bytes(form.bytes)}{made}{used}", figures)

    def _agree(self) -> Ground:
        share = f"{self._agreement:.0%}"
        text = f"{share} of their words agree at the same places, beyond what any two rows share"
        if all(form.is_numeric for form in self._group):
            text = f"{share} of the columns that were compared order their rows alike"
        return Ground(text, graded(self._agreement, FAIR, PROVEN))

    def _doubts(self, tokens: Sequence[Form], by_content: bool) -> Iterator[str]:
        if self._knows_use:
            yield "only some rows of each were compared: one form may hold data that the others lack"
        else:
            yield "only some rows of each were compared: one form may hold data that the others lack, or be read later"
        for form in self._over:
            if form.is_shared:
                yield f"something else shows the memory of {form.name}, as a copy of pandas does: that goes with it"
        for form in tokens:
            yield (
                f"{form.name} holds numbers: the count and length of its rows suggest that they are tokens of the same "
                "text"
            )
        if not by_content and not self._used:
            yield "if the text is still read while training, both are needed"

    def _remedy(self, total: int) -> str:
        """Where it is not known which form is read, what is saved depends on that: it is the user's to know."""
        if self._knows_use:
            uses = [(form, self._uses[form.name]) for form in self._over]
            return let_go(
                self._process,
                [
                    (form.name, use, form.bytes, (form.place.member_type, form.bytes / form.row_count))
                    for form, use in uses
                ],
            )
        savings = "; ".join(f"{format_bytes(total - form.bytes)} if {form.name} is enough" for form in self._group[:3])
        return (
            f"keep the form that is still read and drop the others (del, or return only it from a function): {savings}"
        )


def _line(case: Case, form: Form) -> Line | None:
    """Where it is made: by adding row after row, or at once; a call on it (``.map``) makes the next form."""
    lines = adding_lines(case.sources, form.holder)
    order = ("creates", "adds", "calls") if form.is_numeric else ("adds", "creates", "calls")
    return min(lines, key=lambda line: order.index(line.kind), default=None)
