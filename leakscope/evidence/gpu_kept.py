"""What steps left behind on a GPU, by a memory snapshot of torch."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..confidence import Ground
from ..facts.gpu.budget import DeviceBudget
from ..facts.gpu.kept import Kept
from ..facts.gpu.roles import ACTIVATIONS
from ..facts.gpu.snapshots import DeviceSnapshot
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..units import MiB, changed, format_bytes, format_count
from .gpu_device import allocated_curve, as_program_says, between_marks, subject_in

if TYPE_CHECKING:
    from ..facts.case import Case

_KIND = "gpu-retention"
_LEAST_STEPS = 3
_GATHERS = "so would a loop that gathers on purpose: micro-batches, tokens of one answer"
_LEAST_PASSES = 6  # of a loop, which may have begun to gather a moment ago
_LEAST_BYTES = MiB
_LEAST_SHARE = 0.002  # of the peak: the allocator counts exactly
_RISES = 0.5  # of what was kept: what takes the place of something else is no growth


def kept_by_steps(case: Case, budget: DeviceBudget, min_kept_share: float) -> Finding | RuledOut | Skipped:
    """The finding of one device, or why there is none."""
    device, kept = budget.device, budget.kept
    if kept is None and (earlier := _earlier(case, budget)):
        return _between(earlier, budget)
    if kept is None:
        return Skipped(_KIND, f"{device.label}: {no_steps(device)}")
    if len(kept.whole) < _LEAST_STEPS:
        return Skipped(_KIND, f"{device.label}: its history shows {len(kept.whole)} whole steps, which is too few")
    if not is_growth(budget, kept, min_kept_share):
        figures = {"kept_bytes": kept.bytes, "step_count": len(kept.whole)}
        said = f"{format_bytes(kept.bytes)} of" if kept.bytes else "nothing of"
        return RuledOut(_KIND, f"{device.label}: {said} {len(kept.whole)} steps is alive after the next", figures)
    return _finding(case, budget, kept)


def allocated_by(budget: DeviceBudget | None) -> list[Evidence]:
    """For growth that was measured: which line allocated what steps left, where a history of the allocator tells."""
    kept = budget.kept if budget is not None else None
    return list(_evidence(kept))[1:] if budget is not None and kept is not None and kept.bytes else []


def _earlier(case: Case, budget: DeviceBudget) -> list[DeviceBudget]:
    """Snapshots of the same device of the same process before this one."""
    mine = budget.device.pid, budget.device.device
    alike = [one for one in case.gpu_budgets if (one.device.pid, one.device.device) == mine]
    return alike[: alike.index(budget)]


def _between(earlier: list[DeviceBudget], last: DeviceBudget) -> RuledOut | Skipped:
    """What changed from the first snapshot to the last, by line: two moments do not show whether it continues."""
    first, device = earlier[0], last.device
    change = device.requested_bytes - first.device.requested_bytes
    by_line = {(line.role, line.stack.place): line.end_bytes for line in last.lines}
    for line in first.lines:
        key = line.role, line.stack.place
        by_line[key] = by_line.get(key, 0) - line.end_bytes
    most = sorted(by_line.items(), key=lambda pair: -pair[1])[:3]
    told = ", ".join(f"{place} {format_bytes(size, signed=True)} ({role})" for (role, place), size in most if size > 0)
    said = f"{device.label}: from snapshot {first.device.number} to {device.number} what is in use {changed(change)}"
    said += f": {told}" if told else ""
    figures = {"change_bytes": change, **{place: size for (_, place), size in most}}
    if change < max(_LEAST_BYTES, _LEAST_SHARE * device.peak_bytes):
        return RuledOut(_KIND, said, figures)
    return Skipped(
        _KIND, f"{said}; the histories show no steps, and {len(earlier) + 1} moments do not show whether it continues"
    )


def no_steps(device: DeviceSnapshot) -> str:
    """Why nobody can say whether a device's memory grows from step to step."""
    if not len(device.events) or set(device.actions) <= {"snapshot"}:
        return "the snapshot shows one moment and no history"
    return "the history of the snapshot shows no steps that come again"


def is_growth(budget: DeviceBudget, kept: Kept, min_kept_share: float) -> bool:
    """Whether most steps left memory, and the level rose with it."""
    least = max(_LEAST_BYTES, _LEAST_SHARE * budget.device.peak_bytes)
    least_steps = _LEAST_PASSES if kept.steps.is_loop else _LEAST_STEPS
    often = kept.step_count >= max(least_steps, min_kept_share * len(kept.whole))
    return kept.bytes >= least and often and kept.levels[-1] - kept.levels[0] >= _RISES * kept.bytes


def _finding(case: Case, budget: DeviceBudget, kept: Kept) -> Finding:
    device = budget.device
    amount = format_bytes(kept.bytes)
    return case.finding(
        _KIND,
        f"{kept.step_count} of {len(kept.whole)} steps left memory on {device.label}: {amount}",
        severity="critical",
        grounds=[
            Ground("the history of the allocator shows what was never freed", 0.9),
            Ground(f"steps are recognised by {kept.steps.by}", 0.4 if kept.steps.is_loop else 0.75),
        ],
        bytes=kept.bytes,
        subject=subject_in(device, kept.stack),
        bytes_per_step=round(kept.bytes_per_step, 1),
        evidence=[*_evidence(kept), *between_marks(budget), *as_program_says(budget, len(device.events) - 1)],
        doubts=[
            "a window or a cache that was not full yet would look alike",
            *([_GATHERS] if kept.steps.is_loop else ()),
        ],
        remedy=list(_remedy(kept)),
        series=allocated_curve(device),
    )


def _evidence(kept: Kept) -> Iterator[Evidence]:
    first, last = kept.levels[0], kept.levels[-1]
    yield Evidence(
        f"{format_bytes(first)} were allocated as the first step ended, {format_bytes(last)} as step "
        f"{len(kept.levels)} did: {format_bytes(kept.bytes_per_step)} a step stay",
        {"start_bytes": first, "end_bytes": last, "step_count": len(kept.levels)},
    )
    share = kept.stack_bytes / max(kept.bytes, 1)
    yield Evidence(
        f"{kept.stack.place} allocated {format_bytes(kept.stack_bytes)} of it, {share:.0%}; it is {kept.role}",
        {"bytes": kept.stack_bytes, "share": round(share, 3), "allocation_count": kept.count},
    )
    if (
        kept.loop is not None
        and kept.loop.file
        and (kept.loop.file, kept.loop.line) != (kept.stack.file, kept.stack.line)
    ):
        yield Evidence(f"the call came from {kept.loop.file}:{kept.loop.line} {kept.loop.function}()")
    if kept.stack_count > 1:
        yield Evidence(
            f"{format_count(kept.count)} allocations by {kept.stack_count} different stacks are kept together",
            {"allocation_count": kept.count, "stack_count": kept.stack_count},
        )
    yield Evidence(f"steps are recognised by {kept.steps.by}")


def _remedy(kept: Kept) -> Iterator[str]:
    frees = f"frees about {format_bytes(kept.bytes)}"
    if kept.role == ACTIVATIONS and kept.stack_count > 1:
        where = f" at {kept.loop.file}:{kept.loop.line}" if kept.loop is not None else ""
        yield f"look for what keeps the loss or an output{where} with its graph: keep .item() or .detach(): {frees}"
    else:
        keep = ".item() or .detach().cpu() of it"
        yield f"look for what keeps the tensor of {kept.stack.place}, and keep {keep}: {frees}"
