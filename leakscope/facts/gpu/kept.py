"""Memory that steps leave behind: allocated in earlier steps, and alive when all is over."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...units import FEWEST, MOST, MiB
from ..calls import Call
from .roles import ACTIVATIONS, BEFORE, GRADIENTS, MODEL, OPTIMIZER
from .snapshots import Allocation, DeviceSnapshot, Stack
from .steps import Steps

LEAST_STEPS, LEAST_BYTES, LEAST_SHARE = FEWEST, MiB, 0.002  # the last of the peak: the allocator counts exactly
_LEAST_PASSES = 6  # of a loop, which may have begun to gather a moment ago
# What belongs to training is there from one step to the next; a new copy of it each step would not be.
_MEANT_TO_STAY = frozenset((MODEL, OPTIMIZER, BEFORE))


@dataclass(frozen=True, eq=False)
class Kept:
    """``by_step``: bytes that each step left behind and that are alive at the end; the last one is still under way.

    ``stack``: the stack that left most; ``loop``: the line of the loop from which that was called. ``levels``: what was
    allocated as each step ended. ``stack_count``: different stacks that left something. **Units** bytes.
    """

    by_step: Sequence[int]
    levels: Sequence[int]
    count: int
    stack: Stack
    stack_bytes: int
    stack_count: int
    role: str
    loop: Call | None
    steps: Steps

    @property
    def whole(self) -> Sequence[int]:
        """Of the steps after the first, which warms up, that were followed by a whole one."""
        return self.by_step[1:-2]

    @property
    def bytes(self) -> int:
        return sum(self.whole)

    @property
    def step_count(self) -> int:
        """Steps that left something."""
        return sum(size > 0 for size in self.whole)

    @property
    def bytes_per_step(self) -> float:
        return self.bytes / max(len(self.whole), 1)


def kept(device: DeviceSnapshot, roles: Sequence[str], steps: Steps) -> Kept:
    """What is alive at the end, by the step it was allocated in."""
    count = len(steps.ends) + 1
    by_step = np.zeros(count, dtype=np.int64)
    groups: dict[int, list[tuple[Allocation, str]]] = {}
    for one, role in zip(device.allocations, roles):
        if one.born is None or one.freed is not None or role in _MEANT_TO_STAY:
            continue
        step = steps.of(one.born)
        if 0 < step < count - 2:
            groups.setdefault(one.stack, []).append((one, role))
    often = {stack: own for stack, own in groups.items() if _is_often(own, steps)}
    for own in often.values():
        for one, _ in own:
            by_step[steps.of(one.born or 0)] += one.size
    sums = {number: sum(one.size for one, _ in own) for number, own in often.items()}
    most = max(sums, key=sums.__getitem__, default=-1)
    stack = device.stack(most)
    role = often[most][0][1] if most in often else ACTIVATIONS
    levels = [int(device.levels[min(end + 1, len(device.levels) - 1)]) for end in steps.ends]
    members = sum(map(len, often.values()))
    loop = _loop_line(stack)
    return Kept(by_step.tolist(), levels, members, stack, sums.get(most, 0), len(often), role, loop, steps)


def is_growth(device: DeviceSnapshot, kept: Kept, min_kept_share: float) -> bool:
    """Whether most steps left memory, and the level rose with it: what takes the place of something else is none."""
    least_steps = _LEAST_PASSES if kept.steps.is_loop else LEAST_STEPS
    often = kept.step_count >= max(least_steps, min_kept_share * len(kept.whole))
    is_much = kept.bytes >= max(LEAST_BYTES, LEAST_SHARE * device.peak_bytes)
    return is_much and often and kept.levels[-1] - kept.levels[0] >= MOST * kept.bytes


def no_steps(device: DeviceSnapshot) -> str:
    """Why nobody can say whether a device's memory grows from step to step."""
    if not len(device.events) or set(device.actions) <= {"snapshot"}:
        return "the snapshot shows one moment and no history"
    return "the history of the snapshot shows no steps that come again"


def _is_often(own: Sequence[tuple[Allocation, str]], steps: Steps, least: int = 2) -> bool:
    """A stack that left something in one step alone has filled a cache, or is the gradients that stay."""
    found = {steps.of(one.born or 0) for one, _ in own}
    return len(found) >= least and not all(role == GRADIENTS for _, role in own)


def _loop_line(stack: Stack) -> Call | None:
    """The user's line that calls into the model: the innermost before the first call of a module."""
    last = None
    for frame in stack.frames:
        if frame.function in ("_call_impl", "_wrapped_call_impl"):
            break
        if frame.is_user and "/torch/" not in frame.file:
            last = frame
    return last
