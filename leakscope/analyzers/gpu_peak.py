"""What the most memory of a GPU was made of, and what of it stays.

Looks for:     the peak in the history of torch's allocator, in a memory snapshot.
Why:           the peak decides which batch fits, and it is often made by a few temporary tensors of one function.
Decides by:    what was alive at the peak, by purpose and by line, against what was alive at the end; min_line_share of
               the peak for a line that is worth a change.
Mistaken when: the history ended before the largest step, or began after it.
Do:            as the finding says of the lines that it names; nothing, if the device has room.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..confidence import SURE, Ground
from ..evidence.gpu_device import (
    allocated_curve,
    as_program_says,
    between_marks,
    largest_lines,
    parts,
    subject_in,
    too_late,
)
from ..facts.case import Case
from ..facts.gpu.budget import DeviceBudget, Line
from ..facts.gpu.roles import ACTIVATIONS, BEFORE, OTHER
from ..findings import Evidence, Finding, RuledOut
from ..kinds import ASIDE
from ..units import LARGE, MUCH, SOME, format_bytes, format_count

NEEDS = ("gpu_snapshots",)
TELLS = (ASIDE,)
_KIND = "gpu-peak"
_LEAST_BYTES = LARGE
_ATTENTION = re.compile(r"softmax|attention|attn|einsum|sdpa", re.IGNORECASE)
_LOGITS = re.compile(r"cross_entropy|logits|nll|log_softmax|lm_head|loss", re.IGNORECASE)
_FUSED = re.compile(r"flash|efficient_attention|scaled_dot_product_(?:flash|cudnn|efficient|fused)")


def findings(
    case: Case,
    *,
    min_temporary_share: float = MUCH,  # of the peak, gone at the end: less, and the peak is what stays
    min_line_share: float = SOME,  # of the peak: what a line with less could free is not worth its change
) -> Iterator[Finding | RuledOut]:
    """Yield one finding for each device whose peak is well above what stays, or what the peak is."""
    for budget in case.last_gpu_budgets:
        device = budget.device
        temporary = [line for line in budget.lines if line.peak_bytes > line.end_bytes]
        temporary_bytes = sum(line.peak_bytes - line.end_bytes for line in temporary)
        if temporary_bytes >= max(_LEAST_BYTES, min_temporary_share * device.peak_bytes):
            yield _finding(case, budget, temporary, temporary_bytes, min_line_share)
        else:
            accounts = budget.alive_at(device.peak_position)
            yield RuledOut(
                _KIND,
                f"{device.label}: the peak of {format_bytes(device.peak_bytes)} is what stays: {parts(accounts)}",
                accounts,
            )


def _finding(
    case: Case, budget: DeviceBudget, temporary: list[Line], temporary_bytes: int, min_line_share: float
) -> Finding:
    device = budget.device
    peak, stays = device.peak_bytes, device.peak_bytes - temporary_bytes
    temporary = sorted(temporary, key=lambda line: line.end_bytes - line.peak_bytes)
    first = temporary[0]
    accounts = budget.alive_at(device.peak_position)
    freed = f"{format_bytes(temporary_bytes)} of it were freed by the end, {format_bytes(stays)} stay"
    figures = {"temporary_bytes": temporary_bytes, "stays_bytes": stays, "peak_bytes": peak}
    cached = f"{format_bytes(device.cached_bytes)} of that are still reserved as a cache: nvidia-smi counts them, and "
    cached += "they are no leak"
    is_cached = device.cached_bytes >= temporary_bytes / 2
    return case.finding(
        _KIND,
        f"The peak of {format_bytes(peak)} on {device.label} is temporary by {format_bytes(temporary_bytes)}: "
        f"{_most(first)}",
        severity="note",
        grounds=[Ground("the history of the allocator says what was alive then", SURE)],
        bytes=0,
        subject=subject_in(device, first.stack),
        evidence=[
            Evidence(f"{format_bytes(peak)} were in use at the peak: {parts(accounts)}", dict(accounts)),
            Evidence(freed, figures),
            largest_lines(budget),
            *between_marks(budget),
            *as_program_says(budget, device.peak_position),
            Evidence(cached, {"cached_bytes": device.cached_bytes}) if is_cached else None,
        ],
        doubts=too_late(budget),
        remedy=_remedy(temporary, min_line_share * peak),
        series=allocated_curve(device),
    )


def _most(line: Line) -> str:
    if line.role == BEFORE:
        return "most of that was there before the history began"
    name = line.stack.place.rsplit("/", 1)[-1]
    return f"most at {name} in {line.stack.function}()" if line.stack.function else f"most at {name}"


def _remedy(temporary: list[Line], least: float) -> Iterator[str]:
    """Of what is known to help, what these lines are a case of."""
    large = [line for line in temporary if line.role in (ACTIVATIONS, OTHER)]
    scores = [line for line in large if _names(line, _ATTENTION) and not _names(line, _FUSED)]
    size = sum(line.peak_bytes for line in scores)
    if size >= least:
        count = sum(line.peak_count for line in scores)
        yield (
            f"{format_count(count)} tensors of attention are held at once ({format_bytes(size)}): torch.nn.functional."
            "scaled_dot_product_attention computes the same without whole matrices of scores"
        )
    logits = [line for line in large if line not in scores and _names(line, _LOGITS)]
    size = sum(line.peak_bytes for line in logits)
    if size >= least:
        yield f"logits and their loss take {format_bytes(size)}: compute the loss in chunks of the sequence"


def _names(line: Line, pattern: re.Pattern[str]) -> bool:
    """The function that allocated, its file's name left out: a whole model may be in attention.py."""
    stack = line.stack
    names = [stack.function or "", *(frame.function for frame in stack.frames[-3:]), *stack.native]
    return any(pattern.search(name) for name in names)
