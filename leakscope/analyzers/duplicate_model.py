"""The same weights held twice by one process: two precisions, two devices, a checkpoint that was never dropped.

Looks for:     two models or dicts of tensors in different memory with the same values.
Why:           a second copy of a model costs as much as the first, and the program works as well without it.
Decides by:    equal_share of the tensors equal, up to rounding where the types differ, and still equal at a later
               look with neither changed; or a dict that equals what the model started from while the model moved on.
Mistaken when: the copy is kept on purpose and never changes: a model to compare with, weights to reset to.
Do:            drop the copy that is not used, or load the checkpoint so that it becomes the model (assign=True).

A copy whose distance from the original changes has a purpose: an average, a target network, a reference model.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from ..confidence import FAIR, PROVEN, STRONG, WEAK, Ground
from ..evidence.gpu_device import subject_in
from ..evidence.sentences import at_line
from ..evidence.use import use_of
from ..facts.case import Case
from ..facts.code.adding import Holder, Line, adding_lines
from ..facts.gpu.budget import DeviceBudget
from ..facts.gpu.roles import MODEL
from ..facts.gpu.snapshots import Stack
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.owners import is_optimizer
from ..facts.heap.place import Place
from ..facts.subject import About
from ..facts.tables import cells, only
from ..facts.weights.named import named_sets
from ..facts.weights.pairs import ACCUSED, OTHER_FORM, SAME, START, UNUSED, History, Pair, Thresholds, pairs
from ..facts.weights.sets import Round, WeightSet, by_last_path, rounds_of
from ..facts.where.holders import defined_at
from ..findings import Evidence, Finding, Idle, RuledOut, Skipped
from ..kinds import WASTE
from ..storage import Rows
from ..units import FEWEST, FULL, HARDLY, NEARLY_ALL, SLIGHT, SOME, WORTH, format_bytes, format_duration, unnumbered

NEEDS = ()
TELLS = (WASTE,)
RULE = "no-duplicates"
_KIND = "duplicate-model"
_UNNAMED = "memory that no snapshot reached"


class _Told(NamedTuple):
    """What is said of one way in which weights are held twice; ``{names}`` are those of ``_words``."""

    ground: Ground
    seen: str
    doubt: str | None = None


_MOVED = (
    "as training began the {tensors} tensors in {copy} were {how} those in {original}; {original} was trained, {copy} "
    "has not changed since"
)
_CASES = {
    SAME: _Told(
        Ground("the weights are equal at two moments, which is no chance", PROVEN),
        "{equal}{rounded}; neither had changed {later} later",
    ),
    UNUSED: _Told(
        Ground("the weights are equal, and no optimizer is there to change either", STRONG),
        "{equal}, and nothing trains",
    ),
    OTHER_FORM: _Told(
        Ground("the weights are equal in another form, which may be in use", FAIR),
        _MOVED,
        "it may be used as it is, as a reference or for saving",
    ),
    START: _Told(
        Ground("the weights are those that training began with, perhaps to compare with", STRONG),
        _MOVED,
        "it may be intended: weights to go back to, or to keep the model close to",
    ),
}
_PURPOSES = {  # of those that are not accused
    "small": "{both} hold the same weights: {bytes}",
    "template": "{copy} is a template that {original} repeats",
    "master": "{both}: an optimizer works on one as the other's master weights",
    "in-step": "{both} are kept in step: both change and stay equal",
    "follows": "{copy} follows {original} (an average, a target, the best so far): {moves}",
    "changed": "{copy} is {original} with changes: {equal_count} tensors equal, {near_count} near",
    "snapshot": "{copy} is a saved state of {original} from its training, {bytes}",
    "in-use": "{both} hold the same weights, each in its own form, and lines that go on running read both",
    "reference": "{copy} stays as {original} was, which is trained: a reference, a teacher or a target",
    "undecided": "{both} hold the same weights, but training was not seen: one may be the other's reference",
}


def findings(
    case: Case,
    *,
    min_tensors: int = FEWEST,  # one or two equal tensors are a shared table, not a model
    min_bytes: int = SLIGHT,  # nobody edits a program for less
    equal_share: float = NEARLY_ALL,  # a model may have a new head, a checkpoint an optimizer's state
    near_distance: float = 0.35,  # measured: 0.18 for a model trained apart, 0.94 for another of the same shapes
    max_changed_share: float = HARDLY,  # a merged LoRA changes 8 % of the weights, statistics less than 1 %
    first_steps: int = 10,  # a look so early in training shows no snapshot of a later epoch
    warning_share: float = SOME,  # of the process's memory: below, it is worth a note
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per copy that could go, and what the other sets of like weights are."""
    sets = [(budget, second_set(budget)) for budget in case.last_gpu_budgets]
    copies = [_on_device(case, budget, second) for budget, second in sets if second is not None]
    yield from copies
    if not len(case.rows("weights")):
        yield from () if copies else [_no_model(case)]
        return
    thresholds = Thresholds(min_tensors, min_bytes, equal_share, near_distance, max_changed_share, first_steps)
    growth = case.growth
    told, set_count = False, 0
    for process in growth.processes:
        takes = process.rows("takes")
        takes = only(takes, takes["take"].notna())
        rows, places = named_sets(case.heap(process.pid), process.rows("weights"))
        rounds = by_last_path(_at_work(rounds_of(rows), takes))
        if not rounds:
            continue
        alike = list(pairs(_history(case, process, rounds, takes, places), thresholds))
        set_count += len(rounds[-1].sets)
        told = told or bool(alike)
        by_size = sorted((pair for pair in alike if pair.case in ACCUSED), key=lambda pair: -pair.bytes)
        accused = {pair.copy.path: pair for pair in reversed(by_size)}  # the largest of each, of equals the first
        for group in _groups(accused.values()):
            memory_bytes = _memory_bytes(process, rounds, group[0].copy.device)
            spare = _spare(case, process, group, places)
            if spare is None:
                yield _not_accused(process, replace(group[0], case="reference" if group[0].case == START else "in-use"))
            else:
                yield _finding(case, process, spare, places, memory_bytes, warning_share)
        yield from (_not_accused(process, pair) for pair in alike if pair.copy.path not in accused)
    if not told:
        yield RuledOut(_KIND, "no two sets of weights are alike", {"set_count": set_count})


def _no_model(case: Case) -> RuledOut | Skipped:
    """Where snapshots looked at tensors and met no weights, there is no model, and so no second one."""
    takes = case.rows("takes")
    if not len(takes):
        return Skipped(_KIND, "the recording has no snapshots")
    has_looked = takes["tensor_device_bytes"].notna()  # only a look tells what lies on a device
    if (has_looked & (takes["safe_point"] != "agent-thread")).any():
        return RuledOut(_KIND, "no model was in memory")
    return Skipped(_KIND, "no snapshot looked at tensors")


def _at_work(rounds: list[Round], takes: Rows) -> list[Round]:
    """The rounds up to the last one that saw the program at work: at its end the locals of main() are gone."""
    at_end = set(takes["take"][takes["reason"].isin(["exit", "exception"])])
    while len(rounds) > 1 and rounds[-1].take in at_end and not rounds[-2].sets.keys() <= rounds[-1].sets.keys():
        rounds = rounds[:-1]
    return rounds


def _history(
    case: Case, process: ProcessGrowth, rounds: list[Round], takes: Rows, places: Mapping[str, Place]
) -> History:
    steps = dict(cells(takes, "take", "step"))
    lines = {path: line.line for path in rounds[-1].sets if (line := _line(case, path, places.get(path))) is not None}
    names = {place.type_name for place in case.heap(process.pid).places}
    names.update(process.rows("object_types")["type_name"].dropna())
    return History(rounds, steps, lines, any(map(is_optimizer, names)))


def _groups(accused: Iterable[Pair]) -> list[list[Pair]]:
    """Copies of one original in one form, held alike by many (a thread's own, a client's own), are one matter."""
    groups: dict[tuple[str, ...], list[Pair]] = {}
    for pair in accused:
        copy = pair.copy
        alike = (unnumbered(copy.path), pair.case, pair.original.path, str(copy.dtype), str(copy.device))
        groups.setdefault(alike if copy.path else (str(len(groups)),), []).append(pair)
    return [sorted(group, key=lambda pair: -pair.bytes) for group in groups.values()]


class _Spare(NamedTuple):
    """Copies that could go. ``line``: where the other was made of it: there it could have been given up; None: where
    it is made itself. ``idle``: the largest of them, if nothing reads that any more.
    """

    group: list[Pair]
    line: Line | None = None
    idle: Idle | None = None


def _spare(case: Case, process: ProcessGrowth, group: list[Pair], places: Mapping[str, Place]) -> _Spare | None:
    """Of two models the one that could go is the one that nothing reads any more, if that is known of just one, or that
    no running function had when the other was in use.

    None where both are read on, and differ in what they are for: in precision, or in that one of them is trained; and
    where a line that may still run goes back to what training began with.
    """
    pair = group[0]
    own, other = places.get(pair.copy.path), places.get(pair.original.path)
    if pair.case == START and own is not None:
        use = use_of(case, process, own.as_holder(), own.said)
        return None if use.line is not None and not use.is_over else _Spare(group)
    if len(group) > 1 or pair.case not in (SAME, UNUSED) or other is None or own is None:
        return _Spare(group)
    copy, original = (use_of(case, process, place.as_holder(), place.said) for place in (own, other))
    # Whether functions that ran then had it beside the container that it is named by: a forward pass, say.
    runs, other_runs = (
        at.root_kind == "frame" and at.parent is None and at.named_by is not None for at in (own, other)
    )
    is_known = original.is_over and copy.is_over is False
    is_seen = original.is_over is not False and copy.is_over is None and runs and not other_runs
    if not (is_known or is_seen):
        differ = pair.copy.dtype != pair.original.dtype or pair.copy.trained_share != pair.original.trained_share
        if differ and copy.is_over is original.is_over is False:
            return None
        is_over = copy.is_over and original.is_over is False
        return _Spare(group, idle=copy.idle(pair.bytes, pair.copy.path) if is_over else None)
    size = sum(bytes for bytes, _ in pair.original.storages.values())
    line = _line(case, pair.copy.path, own)
    idle = original.idle(size, pair.original.path) if original.is_over else None
    return _Spare([replace(pair, copy=pair.original, original=pair.copy, bytes=size)], line, idle)


# ---- what is said of them


def _name(weight_set: WeightSet) -> str:
    """``model`` of ``main() model``, ``model #2`` of ``main() model #2``."""
    path = unnumbered(weight_set.path)
    return path.rsplit(" ", 1)[-1] + weight_set.path[len(path) :] or _UNNAMED


def _words(pair: Pair, process: ProcessGrowth | None = None) -> dict[str, Any]:
    copy, original, like = pair.copy.path or _UNNAMED, pair.original.path or _UNNAMED, pair.like
    return {
        "copy": copy,
        "original": original,
        "tensors": len(pair.copy),
        "equal": f"{like.equal_count} of the {len(pair.copy)} tensors in {copy} equal those in {original}",
        "rounded": f", {like.rounded_count} of them up to rounding" if like.rounded_count else "",
        "how": "equal to" if like.equal_count >= like.near_count else f"within {like.distance:.1%} of",
        "later": format_duration(pair.between_s),
        "both": f"{copy} and {original}" + (f" in {process.label}" if process is not None else ""),
        "bytes": format_bytes(pair.bytes),
        "moves": f"distance {pair.first_distance:.3f}, then {like.distance:.3f}",
        "equal_count": like.equal_count,
        "near_count": like.near_count,
    }


def _finding(
    case: Case,
    process: ProcessGrowth,
    spare: _Spare,
    places: Mapping[str, Place],
    memory_bytes: int,
    warning_share: float,
) -> Finding:
    """Of all copies that could go the largest speaks for them."""
    group, pair = spare.group, spare.group[0]
    copy, like, told, words = pair.copy, pair.like, _CASES[pair.case], _words(pair)
    bytes = sum(one.bytes for one in group)
    share = bytes / max(memory_bytes, 1)
    takes = f"so do {len(group) - 1} more like it; together they take" if len(group) > 1 else "it takes"
    place = places.get(copy.path)
    line = spare.line or _line(case, copy.path, place)
    title, remedy = _said(group)
    doubt = told.doubt
    if doubt is None and copy.is_model:
        forms = "" if copy.dtype == pair.original.dtype else ", one in each form: then only one form is needed"
        doubt = f"{'both' if len(group) == 1 else 'all'} may be in use{forms}"
    figures = {
        "equal_tensors": like.equal_count,
        "rounded_tensors": like.rounded_count,
        "tensors": len(copy),
        "original_dtype": pair.original.dtype,
        "copy_dtype": copy.dtype,
        "original_device": pair.original.device,
        "copy_device": copy.device,
        "between_s": round(pair.between_s, 1),
    }
    return case.finding(
        _KIND,
        title,
        severity="warning" if share >= warning_share and pair.case != UNUSED else "note",
        grounds=[
            told.ground,
            Ground("some of them are still equal", FAIR) if pair.case == START and like.equal_count else None,
        ],
        bytes=bytes,
        process=process,
        line=line or (defined_at(place) if place is not None else None),
        evidence=[
            Evidence(told.seen.format(**words), figures),
            Evidence(f"{takes} {format_bytes(bytes)}, {share:.0%} of the memory there", {"bytes": bytes}),
            at_line(line, "makes it"),
        ],
        doubts=[None if copy.path else "what holds the copy was not found", doubt],
        remedy=[f"{remedy} frees about {format_bytes(bytes)}"],
        mechanism="held-twice",
        wasted=True,
        idle=[spare.idle] if spare.idle is not None else [],
        **_about(copy, place),
    )


def _about(copy: WeightSet, place: Place | None) -> About:
    one = place.reference if place is not None else None
    return {
        "device": copy.device,
        "holder": copy.path or _UNNAMED,
        "variable": (one.variable if one is not None else None) or _last_identifier(copy.path),
        "path": copy.path or None,
        "type": place.type_name if place is not None else None,
        "module": one.owner_module if one is not None else None,
    }


def _said(group: Sequence[Pair]) -> tuple[str, str]:
    """The title, and what frees them."""
    pair, others = group[0], len(group)
    copy, original = _name(pair.copy), _name(pair.original)
    one, two = ((one.device, one.dtype) for one in (pair.copy, pair.original))
    forms = [f"{name} ({dtype} on {device})" for name, (device, dtype) in ((copy, one), (original, two))]
    title = "The same weights are held twice: "
    title += f"by {copy} and by {original}" if one == two else ", ".join(forms)
    remedy = f"drop {copy} once it is loaded (del, or leave the function that loads it):"
    if not pair.copy.path:
        remedy = f"find what still refers to the tensors of {original}: dropping it"
    elif pair.copy.is_model:
        remedy = f"keep one of the two: dropping {copy}"
    if others > 1:
        copies = unnumbered(copy)
        also = "" if copies == unnumbered(original) else f"{original} and "
        title = f"The same weights are held {others + 1} times: {also}{copies}"
        remedy = f"share one of them, without changing it: dropping the other {others}"
    if pair.case == START:
        hold = f"{others} copies, {unnumbered(copy)}, still hold" if others > 1 else f"{copy} still holds"
        title = f"{hold} the weights that {original} started from"
    return title, remedy


def _not_accused(process: ProcessGrowth, pair: Pair) -> RuledOut | Skipped:
    reason = _PURPOSES[pair.case].format(**_words(pair, process))
    if pair.case == "undecided":
        return Skipped(_KIND, reason)
    figures = {
        "equal_tensors": pair.like.equal_count,
        "near_tensors": pair.like.near_count,
        "tensors": len(pair.copy),
        "first_distance": round(pair.first_distance, 4),
        "last_distance": round(pair.like.distance, 4),
        "bytes": pair.bytes,
    }
    return RuledOut(_KIND, reason, figures)


# ---- where it is held


def _line(case: Case, path: str, place: Place | None) -> Line | None:
    """What gives the holder its contents: an assignment, else what adds to it."""
    variable = (place.reference.variable if place is not None else None) or _last_identifier(path)
    if not variable:
        return None
    holder = Holder(variable, edge_kind="local") if place is None else place.as_holder()._replace(variable=variable)
    lines = adding_lines(case.sources, holder)
    return next((line for line in lines if line.kind == "creates"), lines[0] if lines else None)


def _last_identifier(path: str) -> str | None:
    name = unnumbered(path).rsplit(" ", 1)[-1].rsplit(".", 1)[-1].split("[", 1)[0]
    return name or None


def _memory_bytes(process: ProcessGrowth, rounds: list[Round], device: str) -> int:
    """What the copy is a share of: the process's most memory, or on a device what torch had reserved there."""
    if device == "cpu":
        return int(process.held_bytes.max()) if process.held_bytes.size else 0
    allocator = process.rows("allocator")
    reserved = allocator["reserved_bytes"][allocator["device"] == device].dropna()
    if len(reserved):
        return int(reserved.max())
    return max(sum(s.devices[device] for s in r.sets.values()) for r in rounds)


# ---- on one GPU, by a memory snapshot of torch


def _on_device(case: Case, budget: DeviceBudget, copy: SecondSet) -> Finding:
    size, count = sum(copy.sizes), len(copy.sizes)
    how = "the same shapes in half the precision" if copy.half else "the same shapes"
    text = f"{count} tensors of {len(set(copy.sizes))} sizes, in order, were allocated at {copy.first.place} and again "
    return case.finding(
        _KIND,
        f"Two sets of weights of {how} are on {budget.device.label}: {format_bytes(size)} more",
        severity="note" if copy.half else "warning",
        grounds=[Ground("sizes alone are compared: a snapshot has no values", WEAK)],
        bytes=size,
        subject=subject_in(budget.device, copy.second),
        evidence=[Evidence(f"{text}at {copy.second.place}", {"tensor_count": count, "bytes": size})],
        doubts=["a reference model, an average of weights or master weights look alike and are meant to be there"],
        remedy=[f"if the second set is a leftover, drop it before training: frees about {format_bytes(size)}"],
        wasted=True,
    )


# Fewer different sizes are layers that are all alike: one model.
_LEAST_TENSORS, _LEAST_SIZES, _LEAST_ON_GPU, _EQUAL_SHARE = 8, FEWEST, WORTH, FULL


class SecondSet(NamedTuple):
    """Sizes of the tensors of a second set of weights. ``half``: in elements of half the size."""

    sizes: Sequence[int]
    first: Stack
    second: Stack
    half: bool


def second_set(budget: DeviceBudget) -> SecondSet | None:
    groups: dict[tuple[str | None, int | None], list[tuple[int, Stack]]] = {}
    for one, role in zip(budget.device.allocations, budget.roles):
        if role == MODEL and one.freed is None:
            stack = budget.device.stack(one.stack)
            groups.setdefault((stack.file, stack.line), []).append((one.size, stack))  # the line that loads a set
    sets = [group for group in groups.values() if _is_model([size for size, _ in group])]
    for number, group in enumerate(sets):
        sizes = [size for size, _ in group]
        middle = len(sizes) // 2
        first, second = sizes[:middle], sizes[middle:]
        if first == second and _is_model(first) and not _repeats(first):
            return SecondSet(first, group[0][1], group[middle][1], False)
        for other in sets[number + 1 :]:
            others = [size for size, _ in other]
            for factor in (1, 2):
                if _alike(sizes, others, factor) or _alike(others, sizes, factor):
                    smaller = min(sizes, others, key=sum)
                    return SecondSet(smaller, group[0][1], other[0][1], factor == 2)
    return None


def _is_model(sizes: Sequence[int]) -> bool:
    return len(sizes) >= _LEAST_TENSORS and sum(sizes) >= _LEAST_ON_GPU and len(set(sizes)) >= _LEAST_SIZES


def _repeats(sizes: Sequence[int]) -> bool:
    """Whether it is one pattern several times over: layers, and no whole model."""
    count = len(sizes)
    return any(count % p == 0 and list(sizes) == list(sizes[:p]) * (count // p) for p in range(1, count // 2 + 1))


def _alike(sizes: Sequence[int], others: Sequence[int], factor: int) -> bool:
    shared = Counter(sizes) & Counter(size * factor for size in others)
    return sum(shared.values()) >= _EQUAL_SHARE * max(len(sizes), len(others))
