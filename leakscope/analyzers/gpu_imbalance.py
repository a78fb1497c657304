"""Ranks of one job of which one needs much more GPU memory than the others.

Looks for:     the peak of each rank's device in memory snapshots of torch.
Why:           the fullest rank decides how large a batch may be, and fails first.
Decides by:    a peak min_excess above the median of the ranks; the account that is larger there.
Mistaken when: the job divides its work so on purpose: stages of a pipeline, a rank that evaluates or serves.
Do:            move what only that rank holds, or divide stages by memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from statistics import median

from ..confidence import SURE, Ground
from ..evidence.gpu_device import subject_in
from ..facts.case import Case
from ..facts.gpu.budget import DeviceBudget
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import ASIDE
from ..units import HUGE, format_bytes

NEEDS = ("gpu_snapshots",)
TELLS = (ASIDE,)
_KIND = "gpu-imbalance"
_LEAST_BYTES = HUGE


def findings(
    case: Case,
    *,
    min_excess: float = 0.15,  # of the median: buckets and the last batch differ by less
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding for the fullest rank, or the figures of all."""
    by_pid: dict[int, DeviceBudget] = {}
    for budget in case.last_gpu_budgets:
        known = by_pid.get(budget.device.pid)
        if known is None or budget.device.peak_bytes > known.device.peak_bytes:
            by_pid[budget.device.pid] = budget
    if len(by_pid) < 2:
        yield Skipped(_KIND, "there is a snapshot of one process only")
        return
    peaks = {pid: budget.device.peak_bytes for pid, budget in by_pid.items()}
    usual = median(peaks.values())
    fullest = by_pid[max(peaks, key=peaks.__getitem__)]
    excess = fullest.device.peak_bytes - usual
    figures = {budget.device.name: peaks[pid] for pid, budget in by_pid.items()}
    if excess < max(_LEAST_BYTES, min_excess * usual):
        span = f"{format_bytes(min(peaks.values()))} to {format_bytes(max(peaks.values()))}"
        yield RuledOut(_KIND, f"{len(peaks)} processes peak at {span}", figures)
        return
    yield _finding(case, fullest, list(by_pid.values()), int(excess), figures)


def _finding(
    case: Case, fullest: DeviceBudget, everyone: list[DeviceBudget], excess: int, figures: dict[str, int]
) -> Finding:
    others = [budget for budget in everyone if budget is not fullest]
    mine = fullest.at_peak or fullest.at_end
    more = {
        name: size - int(median((other.at_peak or other.at_end).get(name, 0) for other in others))
        for name, size in mine.items()
    }
    name, size = max(more.items(), key=lambda pair: pair[1], default=("", 0))
    line = next((line for line in fullest.lines if line.role == name), None)
    told = ", ".join(f"{who} {format_bytes(peak)}" for who, peak in list(figures.items())[:8])
    evidence = [Evidence(f"peaks: {told}", dict(figures))]
    if size > 0:
        where = f", most of it at {line.stack.place}" if line is not None else ""
        evidence.append(Evidence(f"{name}: {format_bytes(size)} more than the median of the others{where}", more))
    return case.finding(
        _KIND,
        f"{fullest.device.label} needs {format_bytes(excess)} more than the median of {len(everyone)} processes",
        severity="warning",
        grounds=[Ground("the allocators of all of them say so", SURE)],
        bytes=excess,
        subject=subject_in(fullest.device, line.stack if line is not None else None),
        evidence=evidence,
        doubts=["ranks with different work, as in a pipeline, differ on purpose"],
        wasted=True,
    )
