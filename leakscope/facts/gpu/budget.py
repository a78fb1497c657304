"""The budget of a device at the peak and at the end of a snapshot, by what memory was for and by line."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from .kept import Kept, kept
from .roles import ACTIVATIONS, GRADIENTS, ROLES, roles
from .snapshots import AWAITING, Allocation, DeviceSnapshot, Stack
from .steps import Steps, steps

ROUNDING, CACHED, FRAGMENTED = "rounding", "cached", "fragmented"
END, PEAK = "end", "peak"


@dataclass(frozen=True)
class Line:
    """What was allocated by one line for one purpose. **Units** bytes.

    ``stack``: the one of most bytes; ``counts`` of allocations.
    """

    role: str
    stack: Stack
    peak_bytes: int
    peak_count: int
    end_bytes: int
    end_count: int

    @property
    def place(self) -> str:
        """Of the stack; the threads of autograd have none."""
        is_backward = self.role in (GRADIENTS, ACTIVATIONS) and not self.stack.is_known
        return "backward pass" if is_backward else self.stack.place


@dataclass(frozen=True, eq=False)
class DeviceBudget:
    """One device of one snapshot, and what was found out about it, each thing when somebody asks."""

    device: DeviceSnapshot

    @cached_property
    def roles(self) -> list[str]:
        """Of ``device.allocations``, in their order."""
        return roles(self.device)

    @cached_property
    def steps(self) -> Steps | None:
        return steps(self.device)

    @cached_property
    def kept(self) -> Kept | None:
        """What is alive from earlier steps; None where there are no steps to be seen."""
        return kept(self.device, self.roles, self.steps) if self.steps is not None else None

    @cached_property
    def at_end(self) -> dict[str, int]:
        """Accounts, which add up to what the allocator held. **Units** bytes."""
        found = self.alive_at(len(self.device.events) - 1)
        device = self.device
        rounding = device.allocated_bytes - device.requested_bytes
        rest = {AWAITING: device.awaiting_bytes, ROUNDING: rounding}
        rest |= {CACHED: device.cached_bytes, FRAGMENTED: device.fragmented_bytes}
        return {**found, **{name: size for name, size in rest.items() if size}}

    @cached_property
    def at_peak(self) -> dict[str, int]:
        """Bytes by account when most was allocated. Rounding is among what is free there; empty without a history."""
        device = self.device
        if not len(device.events):
            return {}
        at = device.peak_position
        found = self.alive_at(at)
        parts = device.free_parts(at)
        if parts is None:
            rest = {CACHED: int(device.reserved_levels[at + 1]) - sum(found.values())}
        else:
            rest = {CACHED: parts[0], FRAGMENTED: parts[1]}
        return {**found, **{name: size for name, size in rest.items() if size > 0}}

    def alive_at(self, at: int) -> dict[str, int]:
        """What was in use after the event at this position, by role. **Units** bytes."""
        sums = dict.fromkeys(ROLES, 0)
        for one, role in zip(self.device.allocations, self.roles):
            if one.is_alive(at):
                sums[role] += one.size
        return {role: size for role, size in sums.items() if size}

    def lines_at(self, at: int) -> list[tuple[str, str, int]]:
        """(role, place, bytes) of what was in use after the event at this position, the largest first."""
        sums: dict[tuple[str, str], int] = {}
        for one, role in zip(self.device.allocations, self.roles):
            if one.is_alive(at):
                key = role, self.device.stack(one.stack).place
                sums[key] = sums.get(key, 0) + one.size
        return sorted(((role, place, size) for (role, place), size in sums.items()), key=lambda line: -line[2])

    def said_at(self, at: int, column: str) -> dict[str, int]:
        """What was in use after the event at this position by what the program said as it was allocated, largest first.

        ``column``: gpu_label, or compile_context. **Units** bytes; what was allocated without any is left out.
        """
        words = self.device.events[column]
        if not len(words) or not words.notna().any():
            return {}
        of_event = words.tolist()
        sums: dict[str, int] = {}
        for one in self.device.allocations:
            word = of_event[one.born] if one.born is not None and one.is_alive(at) else None
            if word is not None:
                sums[word] = sums.get(word, 0) + one.size
        return dict(sorted(sums.items(), key=lambda pair: -pair[1]))

    @cached_property
    def lines(self) -> list[Line]:
        """Lines by what they held at the peak or at the end, whichever is more."""
        end, peak = len(self.device.events) - 1, self.device.peak_position
        groups: dict[tuple[str, str], list[tuple[Allocation, bool, bool]]] = {}
        for one, role in zip(self.device.allocations, self.roles):
            alive = one.is_alive(peak), one.is_alive(end)
            if any(alive):
                key = role, self.device.stack(one.stack).place
                groups.setdefault(key, []).append((one, *alive))
        found = [self._line(role, group) for (role, _), group in groups.items()]
        return sorted(found, key=lambda line: -max(line.peak_bytes, line.end_bytes))

    def _line(self, role: str, group: Sequence[tuple[Allocation, bool, bool]]) -> Line:
        at_peak = [one.size for one, is_at_peak, _ in group if is_at_peak]
        at_end = [one.size for one, _, is_at_end in group if is_at_end]
        largest = max((one for one, _, _ in group), key=lambda one: one.size)
        stack = self.device.stack(largest.stack)
        return Line(role, stack, sum(at_peak), len(at_peak), sum(at_end), len(at_end))
