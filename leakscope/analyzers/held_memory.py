"""What is held and not used: results of a phase that is over, a queue that nobody empties, workers that rest.

Looks for:     variables and attributes of yours that hold much and that no line still to run reads, or of whose members
               only the newest, or some fields, are read; graphs that no backward pass uses; what tracebacks, log
               records, picklers and itertools.cycle keep; arrays and columns of which only slices are held; texts
               that equal others, padding, windows of one series; caches without hits; results of cells; workers
               whose work is done; optimizer state that no step uses.
Why:           it is no leak, and may be most of the process. It ends when its holder lets go.
Decides by:    min_idle_share of what its process holds and min_idle_bytes, where each line that reads it stands before
               the last one that was seen to run, or in a call that is over, and nothing else refers to it: a variable,
               a model, a block that two tables have.
Mistaken when: it is read by a name that the source does not show.
Do:            release it once it is no longer needed; hold it in the smaller form.

What only stands, and may be read yet, is no finding: the bill says what each variable holds. Where nobody can tell
whether memory grows, those are reported that gained min_growth_share of what was gained: watch them in a longer run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..confidence import STRONG, SURE, Ground
from ..evidence import retained
from ..evidence.held_parts import LEAST_IDLE, Part, containers, is_told, line_of, parts_of
from ..evidence.idle_workers import idle_pools, resting_pids
from ..evidence.sentences import frees, let_go, listed, looked_too_early, untyped, wasted
from ..evidence.use import Use, progress_of, reference_count, use_of
from ..facts.case import Case
from ..facts.code.adding import CREATES, Line, adding_lines
from ..facts.code.reading import goes_on_setting
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.comparable import Heap, heap_at_work, heap_of
from ..facts.heap.owners import is_optimizer
from ..facts.heap.place import Place, upwards
from ..facts.heap.standing import has_key, held_by_users, risen, shared_table
from ..facts.retained.figures import is_untouched
from ..facts.series.arithmetic import level_at
from ..facts.series.trend import DRIFT_BYTES
from ..facts.subject import Held
from ..facts.tables import cells, only, without_last
from ..facts.where.holders import about, defined_at, holder_name, named_in
from ..findings import Evidence, Finding, Idle, RuledOut, Skipped
from ..kinds import HELD
from ..storage import Rows
from ..units import FEWEST, HARDLY, MOST, MUCH, NEARLY_ALL, MiB, format_bytes, format_duration

NEEDS = retained.NEEDS
TELLS = (HELD,)
AFTER = ("retained-objects", "retained-graph", "filling", "dataset-copies", "duplicate-model", "process-pileup")
_KIND = "held-memory"
_MOST_NAMED = FEWEST


def findings(
    case: Case,
    so_far: list[Finding],
    *,
    min_idle_bytes: int = 16 * MiB,  # of all that is idle: less is not worth anybody's time
    min_idle_share: float = HARDLY,  # of what the process holds: the same
    min_growth_share: float = MOST,  # where unclear: of what was gained
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process that holds much idle, of those that hold most first; then of workers that rest."""
    looked = told = False
    left = list(_left_by_training(case, min_idle_bytes, min_idle_share))
    so_far = [*so_far, *left]
    to_watch: dict[tuple[str, str], tuple[ProcessGrowth, Heap, Place]] = {}
    # What a fork was born with is its parent's: there it is told, and takes memory once.
    of_parents = {place.path for p in case.growth.processes if not p.is_fork for place in case.heap(p.pid).places}
    for process in sorted(case.growth.processes, key=lambda p: -float(p.held_bytes[-1])):
        heap = heap_of(case.recording, process.pid, 0.0, float("inf")) or heap_at_work(case.recording, process.pid)
        if heap is None:
            continue
        looked = True
        if process.pid in case.once(resting_pids):  # all that it holds goes with it
            continue
        held = [place for root in heap.roots for place in held_by_users(root, LEAST_IDLE)]
        held = [place for place in held if not (process.is_fork and place.path in of_parents)]
        idle = list(_idle(case, process, heap, so_far, held))
        least = max(min_idle_bytes, min_idle_share * float(process.held_bytes[-1]))
        wasted = [_of_idle(case, process, idle)] if sum(one.bytes for one in idle) >= least else []
        parts = parts_of(case, process, heap, [*so_far, *wasted], held)
        wasted += [_of_part(case, process, one) for one in parts if one.bytes >= least]
        told = told or bool(wasted)
        yield from wasted
        least = max(DRIFT_BYTES, min_growth_share * case.growth.growth_bytes)
        for place in risen(heap, least) if case.growth.leaking is None else ():
            is_idle = any(one.place.said.startswith(place.said) for one in idle)
            if not (is_idle or is_told(place, so_far)):
                to_watch.setdefault((process.name, place.said), (process, heap, place))
    # Where one is made after the other, that is told, and of whom.
    is_pileup_told = any(f.kind == "process-pileup" for f in so_far)
    resting = [] if is_pileup_told else list(idle_pools(case, _KIND, min_idle_bytes, min_idle_share))
    resting += left
    yield from resting
    yield from (_gained(case, *one) for one in to_watch.values())
    if not looked:
        yield Skipped(_KIND, "no process has a snapshot of its objects before it ended")
    elif not (told or resting or to_watch):
        none = "no variable was found that holds memory nothing reads again"
        yield looked_too_early(_KIND, case.growth, so_far) or RuledOut(_KIND, none)


class _Idle(NamedTuple):
    place: Place
    named: Place
    bytes: int
    line: Line | None
    use: Use

    @property
    def is_cache(self) -> bool:
        """Of a function, which may be called again."""
        return self.place.reference.edge_kind == "cache"


def _idle(
    case: Case, process: ProcessGrowth, heap: Heap, so_far: Sequence[Finding], held: Sequence[Place]
) -> Iterator[_Idle]:
    """The largest first; what other kinds told is left out."""
    apart = case.heap(process.pid).own_arrays
    found: dict[str, _Idle] = {}
    for place in [*held, *containers(held)]:
        table = shared_table(place) if not has_key(place) else None
        known = place if table is None else table
        named, lines = named_in(case.sources, known)
        is_named = known.reference.edge_kind in _READ_BY_NAME or has_key(place)
        # Nobody calls a __getitem__ by its name.
        is_special = known.reference.edge_kind == "cache" and (known.reference.variable or "").startswith("__")
        if not is_named or is_special or is_untouched(place, heap, process) or is_told(known, so_far):
            continue
        by_key = known.parent if known.parent is not None and has_key(known) else None
        holder = (by_key or known).as_holder()
        if by_key is not None:
            key = known.said[len(by_key.said) + 2 : -2]
            adding = [line for line in adding_lines(case.sources, by_key.as_holder(key)) if line.kind == "adds"]
            lines = adding[:1] or lines
        if table is not None:
            holder = holder._replace(is_shared=True, not_by=apart)
        references = reference_count(case, process, place)
        use = use_of(case, process, holder, known.said, is_alone=references <= 1)
        # Who waits to add to it refers to it as well; and whoever shows its memory has a name that was asked for.
        if use.is_over and (table is not None or references <= 1 + use.filling):
            made, size = (
                lines[0] if by_key is not None and lines else line_of(lines),
                round(float(place.deep_bytes[-1])),
            )
            size += found[known.said].bytes if known.said in found else 0
            found = {name: one for name, one in found.items() if known not in upwards(one.place.parent)}
            found[known.said] = _Idle(known, named, size, made, use)
    yield from sorted(_together(case, found.values()), key=lambda one: -one.bytes)


def _together(case: Case, found: Iterable[_Idle]) -> Iterator[_Idle]:
    """Where all that a container has under names was read last at one place, that container is what to let go of."""
    alike: dict[object, list[_Idle]] = {}
    for one in found:
        above = one.place.parent if has_key(one.place) else None
        alike.setdefault((one.use.text, above.path) if above is not None else id(one), []).append(one)
    for first, *others in alike.values():
        above, size = first.place.parent, first.bytes + sum(one.bytes for one in others)
        if others and above is not None and size >= NEARLY_ALL * float(above.deep_bytes[-1]):
            yield _Idle(above, named_in(case.sources, above)[0], size, first.line, first.use)
        else:
            yield from (first, *others)


def _of_part(case: Case, process: ProcessGrowth, one: Part) -> Finding:
    named, lines = named_in(case.sources, one.place)
    name, line = one.name or holder_name(named), one.line or line_of(lines)
    end_s = min(case.growth.end_s, float(process.time_s[-1]))
    severity, share = wasted(case, one.bytes, level_at(process.time_s, process.held_bytes, end_s))
    where = f" at {line.place}" if line is not None else ""
    return case.finding(
        _KIND,
        f"{name} holds {format_bytes(one.bytes)} {one.what}",
        severity=severity,
        grounds=[Ground(one.ground, STRONG)],
        bytes=one.bytes,
        process=process,
        line=line or defined_at(named),
        device="cpu",
        evidence=[Evidence(one.evidence, {"bytes": one.bytes}), share],
        doubts=[one.doubt],
        remedy=[f"{one.remedy} {untyped(name)}{where}: {frees(process, one.bytes, [one.each])}"],
        mechanism=one.mechanism,
        wasted=True,
        **(about(named, one.place) | Held(holder=name)),
    )


_READ_BY_NAME = ("local", "global", "attribute", "class-attribute", "cell", "cache")


def _of_idle(case: Case, process: ProcessGrowth, idle: Sequence[_Idle]) -> Finding:
    total = sum(one.bytes for one in idle)
    names = [one.place.said if has_key(one.place) else holder_name(one.place) for one in idle]
    # As a program ends it lets go of all: that was judged no more.
    end_s = min(case.growth.end_s, float(process.time_s[-1]))
    first, (severity, share) = idle[0], wasted(case, total, level_at(process.time_s, process.held_bytes, end_s))
    shown = names if len(names) <= _MOST_NAMED else [*names[: _MOST_NAMED - 1], f"{len(names) - _MOST_NAMED + 1} more"]
    verb = "holds" if len(idle) == 1 else "hold"
    return case.finding(
        _KIND,
        f"{listed(shown)} {verb} {format_bytes(total)} that nothing reads again",
        severity=severity,
        grounds=[Ground("the lines that read it ran for the last time, as far as the recording shows", STRONG)],
        bytes=total,
        process=process,
        line=first.line or defined_at(first.named),
        device="cpu",
        evidence=[
            *(
                Evidence(f"{name} holds {format_bytes(one.bytes)}; {one.use.text}", {"bytes": one.bytes})
                for name, one in zip(names, idle)
            ),
            share,
        ],
        doubts=["code that reads it under another name, or from C, would not be seen"],
        remedy=[
            let_go(process, [(name, one.use, one.bytes, _members(one)) for name, one in group], is_cache)
            for is_cache in (False, True)
            if (group := [(name, one) for name, one in zip(names, idle) if one.is_cache is is_cache])
        ],
        mechanism="idle",
        wasted=True,
        idle=[
            Idle(one.bytes, one.place.path) if one.is_cache else one.use.idle(one.bytes, one.place.path) for one in idle
        ],
        **(about(first.named, first.place) | Held(holder=names[0])),
    )


def _gained(case: Case, process: ProcessGrowth, heap: Heap, place: Place) -> Finding:
    named, lines = named_in(case.sources, place)
    name, lasted = holder_name(named), format_duration(float(heap.time_s[-1] - heap.time_s[0]))
    first, last = (format_bytes(place.deep_bytes[at]) for at in (0, -1))
    figures = {"start_bytes": int(place.deep_bytes[0]), "end_bytes": int(place.deep_bytes[-1])}
    return case.finding(
        _KIND,
        f"{name} gained {format_bytes(place.growth_bytes)} in {lasted}, and may go on",
        severity="note",
        grounds=[Ground("several snapshots weighed it; whether it goes on is not known", SURE)],
        bytes=int(place.deep_bytes[-1]),
        process=process,
        line=line_of(lines) or defined_at(named),
        device="cpu",
        evidence=[Evidence(f"{place.said} held {first} in the first and {last} in the last snapshot", figures)],
        doubts=["it may be wanted: a data set that is read in, a cache that fills"],
        **about(named, place),
    )


def _members(one: _Idle) -> tuple[str | None, float]:
    """Their type, and bytes of one."""
    count = float(one.place.length[-1]) if one.place.has_length else 0.0
    return one.place.member_type, one.bytes / count if count else 0.0


# ---- state of optimizers, and gradients, that no step will use: of frozen parameters, or once training is over: where
# each line that reads the optimizer ran for the last time; where that is unclear, after a long while without a step


_STATE, _GRADIENT = "optimizer-state", "gradient"
_SETS_RATE = ("lr_scheduler", '["lr"] =', "['lr'] =")  # what is not trained yet may be later
_MOST_STATE = 3  # tensors that an optimizer has for each parameter: Adam two, or with amsgrad three


class _Left(NamedTuple):
    bytes: int
    gradients: bool  # are among it
    why: str
    remedy: str


def _left_by_training(case: Case, least_bytes: float, least_share: float) -> Iterator[Finding]:
    """One finding per process that has ``least_share`` of what it holds in these."""
    for process in case.growth.processes:
        takes = process.rows("takes")
        rows = without_last(process.rows("tensors"), takes)
        rows = only(rows, (rows["moment"] == "take") & (rows["device"] == "cpu") & rows["node"].isna())
        held = max(float(process.held_bytes[-1]), 1.0)
        places = [one for one in case.heap(process.pid).places if one.is_user and is_optimizer(one.type_name)]
        place = places[0] if places else None
        is_seen = len(takes) and takes["seen_lines"].notna().any()
        uses = [use_of(case, process, one.as_holder(), one.said) for one in places if is_seen]
        use = min(uses, key=lambda one: (False, None, True).index(one.is_over), default=Use(None, None))
        changes = goes_on_setting(case.sources, "requires_grad", case.once(progress_of, process))
        sets_rate = any(way in source.text for source in case.sources for way in _SETS_RATE)
        of_frozen = (
            _of_frozen(process, rows, sets_rate) if not changes else None
        )  # as a critic that its generator trains against
        found = [one for one in (of_frozen, _since_training(process, rows, use)) if one is not None]
        left = max(found, key=lambda one: one.bytes, default=None)
        if left is not None and left.bytes >= max(least_bytes, least_share * held):
            yield _of_left(case, process, left, place, wasted(case, left.bytes, held))


def _bytes(rows: Rows, owner: str) -> float:
    return float(rows["storage_bytes"][rows["tensor_owner"] == owner].sum())


def _count(rows: Rows, owner: str) -> int:
    return int(rows["storage_count"][rows["tensor_owner"] == owner].sum())


def _of_frozen(process: ProcessGrowth, rows: Rows, sets_rate: bool) -> _Left | None:
    """In one snapshot: more state and gradients than the parameters that are trained can have.

    Where each parameter has as many tensors of state, theirs is in proportion.
    """
    weights = process.rows("weights")
    weights = only(weights, (weights["tensor_owner"] == "parameter") & (weights["device"] == "cpu"))
    both = weights["take"][weights["take"].isin(rows["take"])]
    if not len(both):
        return None
    as_it_was = _unchanged(weights) if not sets_rate else set()
    weights, rows = (only(table, table["take"] == both.max()) for table in (weights, rows))
    is_frozen = ~weights["requires_grad"].fillna(True)
    by_rate = not is_frozen.any() and bool(as_it_was)
    is_trained = ~(weights["storage_key"].isin(list(as_it_was)) if by_rate else is_frozen)
    if is_trained.all() or not is_trained.any():
        return None
    # Of small parameters, biases among them, no row tells: these are taken for trained.
    small = max(0.0, _bytes(rows, "parameter") - float(weights["storage_bytes"].sum()))
    trained = float(weights["storage_bytes"][is_trained].sum()) + small
    frozen = float(weights["storage_bytes"].sum()) + small - trained
    state, each = _bytes(rows, _STATE), f"has up to {_MOST_STATE} times as much"
    if state >= NEARLY_ALL * (frozen + trained) and not _count(rows, _STATE) % max(1, _count(rows, "parameter")):
        state, each = state * frozen / (frozen + trained), f"has {format_bytes(state * trained / (frozen + trained))}"
    else:
        state = max(0.0, state - _MOST_STATE * trained)
    gradients = min(frozen, max(0.0, _bytes(rows, _GRADIENT) - trained))
    return _Left(
        round(state + gradients),
        gradients > 0,
        f"{format_bytes(frozen)} of the parameters {'never change' if by_rate else 'are frozen'}, and "
        f"{format_bytes(trained)} are trained: for these an optimizer {each}",
        ("call requires_grad_(False) on those that are not to change, and " if by_rate else "")
        + "make a new optimizer, of the parameters that are still trained ([p for p in model.parameters() if "
        "p.requires_grad])" + (", and set the .grad of the others to None" if gradients else ""),
    )


def _unchanged(weights: Rows) -> set[Any]:
    """Storages of parameters that had the same values in all snapshots, while others changed: the rate at which they
    are trained is 0. Empty where a single one has most of these bytes: a table of which the rows that were looked at
    had no turn.
    """
    values: dict[Any, list[str]] = {}
    sizes: dict[Any, float] = {}
    for key, fingerprint, size in cells(weights, "storage_key", "fingerprint", "storage_bytes"):
        values.setdefault(key, []).append(fingerprint)
        sizes[key] = float(size)
    whole = {key: each for key, each in values.items() if len(each) > 1 and None not in each}
    same = {key for key, each in whole.items() if len(set(each)) == 1}
    goes_on = any(each[-2] != each[-1] for each in whole.values())
    of_same = [sizes[key] for key in same]
    return same if goes_on and of_same and max(of_same) <= MOST * sum(of_same) else set()


def _since_training(process: ProcessGrowth, rows: Rows, use: Use) -> _Left | None:
    """No line steps any more, and has not for long; where that is unclear, for most of the time since the first one."""
    steps = process.rows("phases").dropna(subset=["step"])
    steps = only(steps, steps["step"] > 0)
    if not len(steps) or not len(rows):
        return None
    last_s = float(steps["time_s"][steps["step"] == steps["step"].max()].min())
    stood_s = min(float(process.time_s[-1]), process.exit_s) - last_s
    rows = only(rows, rows["take"] == rows["take"].max())
    least_s = (MUCH if use.is_over else MOST) * (stood_s + last_s - float(steps["time_s"].min()))
    if use.is_over is False or float(rows["time_s"].max()) < last_s or stood_s < least_s:
        return None
    return _Left(
        round(_bytes(rows, _STATE) + _bytes(rows, _GRADIENT)),
        _bytes(rows, _GRADIENT) > 0,
        f"no optimizer has made a step since {format_duration(last_s)}, for {format_duration(stood_s)}"
        + (f"; it was {use.text}" if use.is_over and use.line is not None else ""),
        "once training is over, call zero_grad() and let go of the optimizer (del, or keep it in the function that "
        "trains)",
    )


def _of_left(
    case: Case, process: ProcessGrowth, left: _Left, place: Place | None, waste: tuple[str, Evidence]
) -> Finding:
    size, named, line = format_bytes(left.bytes), None, None
    if place is not None:
        named, lines = named_in(case.sources, place)
        line = next((one for one in lines if one.kind == CREATES), None) or defined_at(named)
    name = holder_name(named) if named is not None else "the optimizer"
    return case.finding(
        _KIND,
        f"{name} {'and gradients hold' if left.gradients else 'holds'} {size} that no training step uses any more",
        severity=waste[0],
        grounds=[Ground("their bytes were measured, and what is trained is known", STRONG)],
        bytes=left.bytes,
        process=process,
        line=line,
        device="cpu",
        evidence=[Evidence(left.why), waste[1]],
        doubts=["training may resume later: it would need them then, or start with new state"],
        remedy=[f"{left.remedy}: frees about {size}"],
        mechanism="idle",
        wasted=True,
        idle=[Idle(left.bytes, place.path if place is not None else "")],
        **({**about(named, place), "holder": name} if named is not None and place is not None else {"holder": name}),
    )
