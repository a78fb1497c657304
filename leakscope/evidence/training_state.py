"""State of optimizers, and gradients, that no step will use: of frozen parameters, or once training is over.

It is over where each line that reads the optimizer ran for the last time; where that is unclear, after a long while
without a step.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import pandas as pd

from ..confidence import STRONG, Ground
from ..facts.case import Case
from ..facts.code.adding import CREATES
from ..facts.code.reading import goes_on_setting
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.owners import is_optimizer
from ..facts.heap.place import Place
from ..facts.tables import only, without_last
from ..facts.where.holders import about, defined_at, holder_name, named_in
from ..findings import Evidence, Finding, Idle
from ..units import MOST, MUCH, NEARLY_ALL, format_bytes, format_duration
from .sentences import wasted
from .use import Use, progress_of, use_of

_STATE, _GRADIENT = "optimizer-state", "gradient"
_MOST_STATE = 3  # tensors that an optimizer has for each parameter: Adam two, or with amsgrad three


class _Left(NamedTuple):
    bytes: int
    gradients: bool  # are among it
    why: str
    remedy: str


def left_by_training(case: Case, kind: str, least_bytes: float, least_share: float) -> Iterator[Finding]:
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
        of_frozen = _of_frozen(process, rows) if not changes else None  # as a critic that its generator trains against
        found = [one for one in (of_frozen, _since_training(process, rows, use)) if one is not None]
        left = max(found, key=lambda one: one.bytes, default=None)
        if left is not None and left.bytes >= max(least_bytes, least_share * held):
            yield _finding(case, kind, process, left, place, wasted(case, left.bytes, held))


def _bytes(rows: pd.DataFrame, owner: str) -> float:
    return float(rows.loc[rows["tensor_owner"] == owner, "storage_bytes"].sum())


def _count(rows: pd.DataFrame, owner: str) -> int:
    return int(rows.loc[rows["tensor_owner"] == owner, "storage_count"].sum())


def _of_frozen(process: ProcessGrowth, rows: pd.DataFrame) -> _Left | None:
    """In one snapshot: more state and gradients than the parameters that are trained can have.

    Where each parameter has as many tensors of state, theirs is in proportion.
    """
    weights = process.rows("weights")
    weights = only(weights, (weights["tensor_owner"] == "parameter") & (weights["device"] == "cpu"))
    both = weights.loc[weights["take"].isin(rows["take"]), "take"]
    if not len(both):
        return None
    weights, rows = (only(table, table["take"] == both.max()) for table in (weights, rows))
    is_trained = weights["requires_grad"].fillna(True).astype(bool)
    if is_trained.all() or not is_trained.any():
        return None
    # Of small parameters, biases among them, no row tells: these are taken for trained.
    small = max(0.0, _bytes(rows, "parameter") - float(weights["storage_bytes"].sum()))
    trained = float(weights.loc[is_trained, "storage_bytes"].sum()) + small
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
        f"{format_bytes(frozen)} of the parameters are frozen, and {format_bytes(trained)} trained: for these an "
        f"optimizer {each}",
        "make a new optimizer, of the parameters that are still trained ([p for p in model.parameters() if "
        "p.requires_grad])" + (", and set the .grad of the others to None" if gradients else ""),
    )


def _since_training(process: ProcessGrowth, rows: pd.DataFrame, use: Use) -> _Left | None:
    """No line steps any more, and has not for long; where that is unclear, for most of the time since the first one."""
    steps = process.rows("phases").dropna(subset=["step"])
    steps = only(steps, steps["step"] > 0)
    if not len(steps) or not len(rows):
        return None
    last_s = float(steps.loc[steps["step"] == steps["step"].max(), "time_s"].min())
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


def _finding(
    case: Case, kind: str, process: ProcessGrowth, left: _Left, place: Place | None, waste: tuple[str, Evidence]
) -> Finding:
    size, named, line = format_bytes(left.bytes), None, None
    if place is not None:
        named, lines = named_in(case.sources, place)
        line = next((one for one in lines if one.kind == CREATES), None) or defined_at(named)
    name = holder_name(named) if named is not None else "the optimizer"
    return case.finding(
        kind,
        f"{name} {'and gradients hold' if left.gradients else 'holds'} {size} that no training step uses any more",
        severity=waste[0],
        grounds=[Ground("their bytes were measured, and what is trained is known", STRONG)],
        bytes=left.bytes,
        process=process,
        line=line,
        device="cpu",
        evidence=[Evidence(left.why), waste[1]],
        doubts=["training may go on later: then it needs them, or begins with new state"],
        remedy=[f"{left.remedy}: frees about {size}"],
        mechanism="idle",
        wasted=True,
        idle=[Idle(left.bytes, place.path if place is not None else "")],
        **({**about(named, place), "holder": name} if named is not None and place is not None else {"holder": name}),
    )
