"""Memory snapshots of torch in a report, beside its findings: the budget, lines, and whether steps leave memory."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from ..evidence.gpu_device import parts
from ..facts.case import Case
from ..facts.gpu.budget import DeviceBudget
from ..facts.gpu.kept import LEAST_STEPS, no_steps
from ..facts.growth.tree import TreeGrowth
from ..findings import BudgetRow, GpuLine
from ..units import MOST, format_bytes

_MOST_DEVICES = 16
_MOST_LINES = 40  # of a device


def judged(case: Case) -> TreeGrowth:
    """Whether memory grows; of a recording that has memory snapshots alone, what their histories say."""
    growth = case.growth
    if growth.processes or not case.last_gpu_budgets:
        return growth
    leaking, reason = _judgement(case.last_gpu_budgets)
    return replace(growth, leaking=leaking, reason=reason)


def _judgement(budgets: list[DeviceBudget]) -> tuple[bool | None, str]:
    """A finding, if there is one, has said so already."""
    flat = [b.kept for b in budgets if b.kept is not None and len(b.kept.whole) >= LEAST_STEPS]
    if len(flat) == len(budgets):
        count = min(len(kept.whole) for kept in flat)
        return False, f"{count} steps in the history of the allocator leave nothing behind that grows"
    without = next(b for b in budgets if b.kept is None or len(b.kept.whole) < LEAST_STEPS)
    if without.kept is not None:
        return None, f"the history of the snapshot has {len(without.kept.whole)} whole steps, and three are needed"
    return None, no_steps(without.device)


def sentence(case: Case) -> str:
    """Of a recording that has memory snapshots alone, what the fullest device holds."""
    if case.growth.processes or not case.last_gpu_budgets:
        return ""
    fullest = max(case.last_gpu_budgets, key=lambda budget: budget.device.peak_bytes)
    device = fullest.device
    accounts = fullest.alive_at(device.peak_position)
    peak = format_bytes(device.peak_bytes)
    held = format_bytes(int(device.reserved_levels[device.peak_position + 1]))
    first = fullest.lines[0] if fullest.lines else None
    is_most = first is not None and first.stack.is_known and first.peak_bytes >= MOST * device.peak_bytes
    where = f"; most of it was allocated at {first.place}" if first is not None and is_most else ""
    return f"At its peak {device.label} has {peak} in use of {held} that torch held: {parts(accounts)}{where}."


def budget(case: Case) -> list[BudgetRow]:
    """Each device at its peak and at the snapshot."""
    return [row for budget in case.last_gpu_budgets[:_MOST_DEVICES] for row in _rows(budget)]


def _rows(budget: DeviceBudget) -> Iterator[BudgetRow]:
    device = budget.device
    for moment, accounts in (("snapshot-peak", budget.at_peak), ("snapshot", budget.at_end)):
        for account, size in accounts.items():
            yield BudgetRow(device.name, device.device, moment, account, size)


def lines(case: Case) -> list[GpuLine]:
    """The lines of each device that held most, at the peak or at the snapshot."""
    return [
        GpuLine(
            process=budget.device.name,
            device=budget.device.device,
            account=line.role,
            place=line.place,
            file=line.stack.file,
            line=line.stack.line,
            function=line.stack.function,
            count=line.peak_count if line.peak_bytes >= line.end_bytes else line.end_count,
            peak_bytes=line.peak_bytes,
            end_bytes=line.end_bytes,
        )
        for budget in case.last_gpu_budgets[:_MOST_DEVICES]
        for line in budget.lines[:_MOST_LINES]
    ]
