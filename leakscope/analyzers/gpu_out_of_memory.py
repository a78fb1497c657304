"""A GPU that had no room for an allocation: what filled it, and what was asked for.

Looks for:     failures in the history of torch's allocator, in a memory snapshot.
Why:           the line that fails is often not the one that fills the device.
Decides by:    the last failure in the snapshot; what was alive then, by purpose and by line; the largest free block.
Mistaken when: the program catches the error and goes on with a smaller batch: then it is how it finds its size.
Do:            what the largest account allows: a smaller batch or checkpointing for activations, a smaller or sharded
               optimizer for its state, fewer copies for the model.
"""

from __future__ import annotations

from collections.abc import Iterator

from ..confidence import PROVEN, Ground
from ..evidence.gpu_device import allocated_curve, as_program_says, largest_free, parts, subject_in, too_late, unused_at
from ..facts.case import Case
from ..facts.gpu.budget import DeviceBudget
from ..facts.gpu.roles import ACTIVATIONS, GRADIENTS, OPTIMIZER
from ..facts.gpu.snapshots import Oom
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import DANGER
from ..units import GOOD_PART, SOME, format_bytes

NEEDS = ("gpu_snapshots",)
TELLS = (DANGER,)
_KIND = "gpu-out-of-memory"
_LEVERS = {  # what makes an account smaller, and the most that it takes of it
    ACTIVATIONS: (
        ("half the batch, with gradients accumulated over two", 0.5),
        ("checkpointing of layers, which recomputes them", 1.0),
        ("torch.autograd.graph.save_on_cpu(), which keeps them on the host", 1.0),
    ),
    OPTIMIZER: (
        ("an optimizer that keeps its state in 8 bits, if these are 32", 0.75),
        ("shards on two ranks", 0.5),
        ("offloading it to the host", 1.0),
    ),
    GRADIENTS: (("zero_grad(set_to_none=True) before the forward pass", 1.0),),
}


def findings(
    case: Case,
    *,
    min_account_share: float = GOOD_PART,  # of what is alive: a smaller one does not decide
    min_request_share: float = SOME,  # of what torch held: one tensor of that size is worth a thought
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding for each device that ran out, or that none did."""
    for budget in case.last_gpu_budgets:
        device = budget.device
        if device.ooms:
            yield _finding(case, budget, device.ooms[-1], min_account_share, min_request_share)
        elif device.event_count:
            yield RuledOut(_KIND, f"{device.label}: no allocation failed in the history of the snapshot")
        else:
            yield Skipped(_KIND, f"{device.label}: the snapshot has no history")


def _finding(case: Case, budget: DeviceBudget, oom: Oom, min_account_share: float, min_request_share: float) -> Finding:
    device = budget.device
    alive = {name: size for name, size in budget.alive_at(oom.position).items() if size}
    total = sum(alive.values())
    asked, unused = format_bytes(oom.requested_bytes), unused_at(device, oom)
    went_on = sum(action == "alloc" for action in device.actions[oom.position :])
    name, size = max(alive.items(), key=lambda pair: pair[1], default=("", 0))
    filled = f": {name} {format_bytes(size)}" if size else ""
    lines = [line for line in budget.lines_at(oom.position) if line[2]][:3]
    told = ", ".join(f"{place} {format_bytes(bytes)} ({role})" for role, place, bytes in lines)
    evidence = [
        Evidence(
            f"{asked} could not be allocated at {oom.stack.place}: {format_bytes(oom.free_bytes)} of the device were "
            f"free, and {format_bytes(unused)} of what torch held",
            {"requested_bytes": oom.requested_bytes, "device_free_bytes": oom.free_bytes, "unused_bytes": unused},
        ),
        Evidence(f"{format_bytes(total)} were in use then: {parts(alive)}", dict(alive)),
        *([Evidence(f"most was allocated at {told}")] if told else ()),
        *as_program_says(budget, oom.position),
        largest_free(device),
    ]
    doubts = too_late(budget)
    if went_on:
        doubts.append(f"the program went on: {went_on:,} allocations came after it")
    return case.finding(
        _KIND,
        f"{device.label} had no room for {asked}{filled}",
        severity="warning" if went_on else "critical",
        grounds=[Ground("the allocator wrote down that it failed", PROVEN)],
        bytes=0,
        subject=subject_in(device, oom.stack),
        evidence=evidence,
        doubts=doubts,
        remedy=_remedy(alive, oom, int(device.reserved_levels[oom.position + 1]), min_account_share, min_request_share),
        series=allocated_curve(device),
    )


def _remedy(
    alive: dict[str, int], oom: Oom, reserved: int, min_account_share: float, min_request_share: float
) -> Iterator[str]:
    """Only what these figures speak for, with what it may give beside what was wanting."""
    total, wanting = sum(alive.values()) or 1, max(0, oom.requested_bytes - oom.free_bytes)
    wanted = f", and {format_bytes(wanting)} were wanting" if wanting else ""
    for account, levers in _LEVERS.items():
        size = alive.get(account, 0)
        if size >= min_account_share * total:
            given = [(text, round(most * size)) for text, most in levers]
            too_little = [", too little alone" if less < wanting else "" for _, less in given]
            told = [f"{text} ({format_bytes(less)}{little})" for (text, less), little in zip(given, too_little)]
            yield f"{account} take {format_bytes(size)}{wanted}. This would save at most: {'; '.join(told)}"
    if oom.requested_bytes >= min_request_share * reserved > 0:
        yield f"{oom.stack.place} asks for {format_bytes(oom.requested_bytes)} at once: compute it in parts"
