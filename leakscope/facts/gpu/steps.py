"""Where one training step ends and the next begins, as far as the history of a device shows it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...storage import Column
from ...units import FEWEST
from ..calls import Call
from .roles import OPTIMIZER, role_of
from .snapshots import DeviceSnapshot

_LOOP = "the loop in"
_LEAST = FEWEST  # boundaries: fewer show no rhythm
_CALLED = frozenset(("_call_impl", "_wrapped_call_impl", "forward", "__init__", "_apply", "from_pretrained"))


@dataclass(frozen=True)
class Steps:
    """``ends``: the positions at which steps are over, in order; ``by``: how that was told."""

    ends: Sequence[int]
    by: str

    @property
    def is_loop(self) -> bool:
        """Told by a loop of the program: that it trains, nobody knows."""
        return self.by.startswith(_LOOP)

    def of(self, position: int) -> int:
        """The number of the step that an event belongs to, from 0."""
        return int(np.searchsorted(np.asarray(self.ends), position, side="left"))


def steps(device: DeviceSnapshot) -> Steps | None:
    """By marks of torch's own profiler, else by the optimizer's allocations, else by a loop of the program.

    None: the history shows fewer than three of any of them.
    """
    for found in (_by_marks(device), _by_optimizer(device), _by_loop(device)):
        if found is not None and len(found.ends) >= _LEAST:
            return found
    return None


def _by_marks(device: DeviceSnapshot) -> Steps | None:
    if not len(device.marks) or not device.has_times:
        return None
    labels, is_end = device.marks["gpu_label"], device.marks["gpu_action"] == "mark-end"
    for begins, by in (("Optimizer.step", "annotations of optimizer steps"), ("ProfilerStep", "the profiler's steps")):
        own = device.marks[Column.of((label or "").startswith(begins) for label in labels) & is_end]
        if len(own) >= _LEAST:
            times = own["time_s"].to_numpy(dtype=np.float64)
            return Steps(sorted({int(at) for at in np.searchsorted(device.times_s, times)}), by)
    return None


def _by_optimizer(device: DeviceSnapshot) -> Steps | None:
    """Each run of allocations by the optimizer ends a step."""
    ends: list[int] = []
    last: int | None = None
    for at, (action, number) in enumerate(zip(device.actions, device.event_stacks)):
        if action != "alloc":
            continue
        stack = device.stacks.get(number)
        if stack is not None and role_of(stack) == OPTIMIZER:
            last = at
        elif last is not None and stack is not None and stack.frames:
            ends.append(last)
            last = None
    if last is not None:
        ends.append(last)
    return Steps(ends, "allocations of the optimizer")


def _by_loop(device: DeviceSnapshot) -> Steps | None:
    """The outermost function whose lines come round again and again, outside of any call of a module.

    An optimizer's own loop goes over parameters: 216 of them in a single step would be 216 steps.
    """
    numbers = [(at, n) for at, (a, n) in enumerate(zip(device.actions, device.event_stacks)) if a == "alloc" and n >= 0]
    told = {n: device.stack(n) for n in {n for _, n in numbers}}
    stacks = {n: stack.frames for n, stack in told.items() if role_of(stack) != OPTIMIZER}
    numbers = [(at, n) for at, n in numbers if n in stacks]
    depth, inside = 0, numbers
    while len(inside) >= 2 * _LEAST:
        frames: list[tuple[int, Call]] = [(at, stacks[n][depth]) for at, n in inside if len(stacks[n]) > depth]
        if not frames:
            return None
        functions = Counter((frame.file, frame.function) for _, frame in frames)
        (file, function), _ = functions.most_common(1)[0]
        if function in _CALLED:
            return None
        own = [(at, frame.line) for at, frame in frames if (frame.file, frame.function) == (file, function)]
        ends = [before for (before, line), (_, following) in zip(own, own[1:]) if following < line]
        if len(ends) >= _LEAST:
            return Steps(ends, f"{_LOOP} {function}() of {file.rsplit('/', 1)[-1]}")
        line = Counter(line for _, line in own).most_common(1)[0][0]
        inside = [
            (at, n)
            for at, n in inside
            if len(stacks[n]) > depth
            and stacks[n][depth].line == line
            and (stacks[n][depth].file, stacks[n][depth].function) == (file, function)
        ]
        depth += 1
    return None
