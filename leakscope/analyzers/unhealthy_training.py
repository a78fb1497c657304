"""A training that goes wrong without a word: NaN in weights or gradients, parameters or gradients that are missing.

Looks for:     NaN or Inf in parameters and gradients, parameters that became None, steps without any gradient.
Why:           such a training runs on for hours and learns nothing; its memory may look perfectly healthy.
Decides by:    NaN in a trained parameter in the last snapshot; NaN or Inf in gradients in min_takes snapshots; a
               parameter that was there and is None now; no gradient in any snapshot while the trained weights stay
               as they are.
Mistaken when: parameters have NaN by design, as a mark for cells that are never used.
Do:            go back to a checkpoint from before the first NaN; torch.autograd.set_detect_anomaly names the operation.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from ..confidence import PROVEN, SURE, Ground
from ..facts.case import Case
from ..facts.growth.processes import ProcessGrowth
from ..facts.subject import subject_of
from ..facts.tables import cells, only
from ..facts.weights.named import named_sets
from ..findings import Evidence, Finding, RuledOut, Skipped, Subject
from ..kinds import DANGER
from ..storage import Rows
from ..units import LISTED, format_count

NEEDS = ("process_samples", "takes")
TELLS = (DANGER,)
_KIND = "unhealthy-training"
_BROKEN = {"nan": "NaN", "inf": "Inf"}  # states of a gradient


@dataclass(frozen=True)
class _Looks:
    """What snapshots saw of one process's parameters: a row per snapshot, weight set, state and named parameter."""

    process: ProcessGrowth
    rows: Rows
    steps: dict[int, int]

    @property
    def takes(self) -> list[int]:
        return sorted(self.rows["take"].unique())

    def of(self, *states: str) -> Rows:
        return self.rows[self.rows["gradient_state"].isin(states)]

    def step_of(self, take: int) -> str:
        return f"step {self.steps[take]}" if take in self.steps else f"snapshot {take}"

    def subject(self, rows: Rows) -> Subject:
        sets, names = (rows[column].dropna() for column in ("weight_set", "tensor_name"))
        return subject_of(
            self.process,
            holder=str(sets.iloc[0]) if len(sets) else None,
            path=str(names.iloc[0]) if len(names) else None,
            type="torch.nn.Parameter",
            library="torch",
        )


def findings(
    case: Case,
    *,
    min_takes: int = 2,  # mixed precision meets Inf now and then, and skips that step
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield what is wrong with the parameters of each process that trains, or how many were looked at."""
    yield from _import_orders(case)
    looked = [looks for process in case.growth.processes if (looks := _looks(case, process))]
    if not looked:
        yield Skipped(
            _KIND, "no snapshot was taken at an optimizer step", applies=bool(case.rows("takes")["step"].notna().any())
        )
    for looks in looked:
        results = (
            _nan_parameters(case, looks),
            _broken_gradients(case, looks, min_takes),
            _lost_parameters(case, looks),
            _no_gradients(case, looks, min_takes),
        )
        wrong = [result for result in results if result is not None]
        yield from wrong
        if not wrong:
            yield _ruled_out(looks)


def _looks(case: Case, process: ProcessGrowth) -> _Looks | None:
    rows = process.rows("gradients")
    if not len(rows):
        return None
    rows, _ = named_sets(case.heap(process.pid), rows)
    takes = process.rows("takes")
    known = only(takes, takes["step"].notna())
    return _Looks(process, rows, dict(cells(known, "take", "step")))


def _count(rows: Rows) -> int:
    return int(rows["parameter_count"].fillna(0).sum())


def _named(rows: Rows) -> str:
    """``layers.0.weight, layers.1.weight and 12 more`` of the rows of one snapshot."""
    names = list(dict.fromkeys(rows["tensor_name"].dropna()))
    more = _count(rows) - len(names[:LISTED])
    return ", ".join(names[:LISTED]) + (f" and {format_count(more)} more" if more > 0 else "")


def _finding(
    case: Case, looks: _Looks, rows: Rows, title: str, ground: Ground, *evidence: Evidence, **rest: Any
) -> Finding:
    rest = {"severity": "warning", **rest}
    return case.finding(_KIND, title, grounds=[ground], bytes=0, subject=looks.subject(rows), evidence=evidence, **rest)


# ---- what may be wrong


def _nan_parameters(case: Case, looks: _Looks) -> Finding | None:
    """NaN in a weight does not go away: it is enough to see it in the last look."""
    rows = looks.of("nan-parameter")
    last = only(rows, rows["take"] == looks.takes[-1])
    if not len(last):
        return None
    first = int(rows["take"].min())
    before = [take for take in looks.takes if take < first]
    since = f"first seen at {looks.step_of(first)}"
    since += f", not yet at {looks.step_of(before[-1])}" if before else ", in the first snapshot"
    figures = {"parameter_count": _count(last), "first_step": looks.steps.get(first)}
    remedy = ["run it once more with torch.autograd.set_detect_anomaly(True): that names the operation that made NaN"]
    if before:
        remedy.insert(0, f"go back to a checkpoint from {looks.step_of(before[-1])} or before: NaN in weights stays")
    return _finding(
        case,
        looks,
        last,
        f"Weights have become NaN: {_named(last)}",
        Ground("no rounding makes NaN, and no later step repairs it; some mark unused cells with it", PROVEN),
        Evidence(f"the last snapshot found NaN in {_count(last)} of the sampled parameters; {since}", figures),
        severity="critical",
        remedy=remedy,
    )


def _broken_gradients(case: Case, looks: _Looks, min_takes: int) -> Finding | None:
    rows = looks.of(*_BROKEN)
    takes = sorted(rows["take"].unique())
    if len(takes) < min_takes:
        return None
    last = only(rows, rows["take"] == takes[-1])
    what = " or ".join(word for state, word in _BROKEN.items() if state in set(rows["gradient_state"]))
    seen = f"{len(takes)} of {len(looks.takes)} snapshots"
    figures = {"takes_with": len(takes), "takes": len(looks.takes), "first_step": looks.steps.get(int(takes[0]))}
    return _finding(
        case,
        looks,
        last,
        f"Gradients are {what} when the optimizer steps: {_named(last)}",
        Ground("it was seen more than once; a scaler that skips such steps is not known of", SURE),
        Evidence(f"seen in {seen}, first at {looks.step_of(int(takes[0]))}", figures),
        severity="critical",
        doubts=["a loss scaler of another framework may skip such a step" if what == "Inf" else None],
        remedy=[f"torch.autograd.set_detect_anomaly(True) names the operation; look at {looks.step_of(int(takes[0]))}"],
    )


def _lost_parameters(case: Case, looks: _Looks) -> Finding | None:
    """Parameters that are None now and were tensors before. None from the start is how a layer goes without a bias."""
    if not (looks.rows["gradient_state"] == "none-parameter").any():
        return None
    for _, rows in looks.rows.groupby("weight_set"):
        takes = sorted(rows["take"].unique())
        first, last = (only(rows, rows["take"] == take) for take in (takes[0], takes[-1]))
        gone_first, gone_last = (only(part, part["gradient_state"] == "none-parameter") for part in (first, last))
        lost = _count(gone_last) - _count(gone_first)
        if lost <= 0 or _count(first) != _count(last):  # the same model, not another one of that name
            continue
        names = set(gone_last["tensor_name"].dropna()) - set(gone_first["tensor_name"].dropna())
        new = only(gone_last, gone_last["tensor_name"].isin(names))
        said = f": {_named(new)}" if len(new) else ""
        since = f"{looks.step_of(int(takes[0]))} to {looks.step_of(int(takes[-1]))}"
        return _finding(
            case,
            looks,
            new if len(new) else gone_last,
            f"{lost} parameters have become None{said}",
            Ground("counted in the same model; one merged into another on purpose looks the same", SURE),
            Evidence(f"{lost} more of {_count(last)} parameters are None, {since}", {"lost_count": lost}),
            doubts=["a layer whose bias is merged into another one on purpose looks the same"],
        )
    return None


def _no_gradients(case: Case, looks: _Looks, min_takes: int) -> Finding | None:
    """No trained parameter of any model ever has a gradient, and none of the weights moves.

    Gradients alone prove nothing: some programs clear them within the step. Nor does one model: a target network
    has none, and rightly so.
    """
    missing = looks.of("none")
    if len(looks.takes) < min_takes or not len(missing) or _count(looks.of("ok", *_BROKEN)):
        return None
    if _are_others_trained(looks.process) or _do_weights_move(case, looks.process) is not False:
        return None
    last = only(missing, missing["take"] == looks.takes[-1])
    first, end = looks.step_of(looks.takes[0]), looks.step_of(looks.takes[-1])
    figures = {"parameter_count": _count(last), "takes": len(looks.takes)}
    return _finding(
        case,
        looks,
        last,
        "The optimizer steps, but no parameter has a gradient and no weight changes",
        Ground("not one bit of the weights moved; what is trained by hand was not seen", SURE),
        Evidence(f"{_count(last)} trained parameters had no gradient in any snapshot, {first} to {end}", figures),
        Evidence("samples of the weights were the same to the last bit in all snapshots that took them"),
        remedy=["see that the loss comes from these parameters (no detach, no no_grad) and backward() runs on it"],
    )


def _are_others_trained(process: ProcessGrowth) -> bool:
    """The optimizer has tensors that belong to no model: an image or latent that is being optimized."""
    tensors = process.rows("tensors")
    return bool((tensors["tensor_owner"] == "master-weight").any())


def _do_weights_move(case: Case, process: ProcessGrowth) -> bool | None:
    """Whether samples of trained weights ever differ from one snapshot to another; None with fewer than two."""
    weights, _ = named_sets(case.heap(process.pid), process.rows("weights"))
    weights = only(weights, weights["requires_grad"].fillna(False) & weights["fingerprint"].notna())
    by_tensor = [own["fingerprint"] for _, own in weights.groupby(["weight_set", "tensor_name"]) if len(own) >= 2]
    return any(one.nunique() > 1 for one in by_tensor) if by_tensor else None


def _import_orders(case: Case) -> Iterator[Finding]:
    notes = case.rows("agent_notes")
    for pid, text in cells(only(notes, notes["note"] == "import-order").drop_duplicates("text"), "pid", "text"):
        extension = str(text).split(" ", 1)[0]
        yield case.finding(
            _KIND,
            str(text),
            severity="note",
            grounds=[Ground("the order was seen; whether what is replaced was used yet was not", SURE)],
            bytes=0,
            subject=Subject(pid=pid, library=extension),
            evidence=[Evidence(f"{extension} replaces parts of them, and finds them in use already")],
            remedy=[f"import {extension} first"],
        )


def _ruled_out(looks: _Looks) -> RuledOut:
    last = looks.rows[looks.rows["take"] == looks.takes[-1]]
    broken = len(looks.of("nan-parameter", *_BROKEN)["take"].unique())
    missing = _count(only(last, last["gradient_state"] == "none"))
    healthy = _count(only(last, last["gradient_state"] == "ok"))
    figures = {"takes": len(looks.takes), "takes_with_nan": broken, "with_gradient": healthy, "without": missing}
    seen = f"{len(looks.takes)} snapshots of {looks.process.label}"
    if broken:
        return RuledOut(_KIND, f"NaN or Inf in {broken} of {seen} only: it did not last", figures)
    text = f"no NaN or Inf in {seen}: {format_count(healthy)} parameters with a gradient"
    return RuledOut(_KIND, text + (f", {format_count(missing)} without" if missing else ""), figures)
