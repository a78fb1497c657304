"""GPU memory that is free, but in pieces too small to be of use.

Looks for:     allocations that failed although torch held more unused memory than was asked for, and a cache that has
               to be flushed again and again to find space.
Why:           tensors of many sizes cut the allocator's segments up; with one tensor left in it a segment stays.
Decides by:    reserved - active above the request and min_unused_fraction when torch ran out; else min_retries flushes
               with min_split_fraction of the reserved memory in free parts of segments, and more of it than before.
               By a memory snapshot of torch: the same at the failure it recorded, or min_loose_fraction at its end.
Mistaken when: the unused memory belongs to the private pools of CUDA graphs, which nothing else may use.
Do:            let segments grow: PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True, set before the first use of CUDA.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from ..confidence import SURE, WEAK, Ground
from ..evidence.gpu_pieces import pieces_in_snapshot
from ..evidence.sentences import curve
from ..facts.accounts.gpu import DeviceUse, Oom, nothing_to_look_at
from ..findings import Evidence, Finding, RuledOut, Series, Skipped
from ..kinds import ASIDE
from ..units import format_bytes

if TYPE_CHECKING:
    from ..facts.case import Case

NEEDS = ()
TELLS = (ASIDE,)
AFTER = ()
_KIND = "gpu-fragmentation"
_POOLS = "memory in the private pools of CUDA graphs looks the same and stays unusable"


def findings(
    case: Case,
    *,
    min_unused_fraction: float = 0.1,  # of the reserved memory: less are the scraps that any allocator leaves
    min_retries: int = 3,  # a flush or two at the largest batch is how the allocator is meant to work
    min_split_fraction: float = 0.1,  # the same, at times when nothing failed
    min_loose_fraction: float = 0.3,  # the same at one moment, of which nobody knows whether it lasts
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process and device, or what is unused there."""
    uses = case.device_uses
    if not uses and not case.gpu_budgets:
        yield nothing_to_look_at(case.recording, _KIND)
        return
    snapshots = {(budget.device.pid, budget.device.device): budget for budget in case.last_gpu_budgets}
    for use in uses:
        in_pieces = [oom for oom in use.ooms if _is_in_pieces(oom, min_unused_fraction)]
        if in_pieces:
            snapshots.pop((use.pid, use.device), None)  # the same failure, once more
            yield _ran_out(case, use, in_pieces)
        elif _is_cut_up(use, min_retries, min_split_fraction):
            yield _flushes(case, use)
        else:
            yield _ruled_out(use)
    for snapshot in snapshots.values():
        yield pieces_in_snapshot(case, snapshot, min_unused_fraction, min_loose_fraction)


def _is_in_pieces(oom: Oom, min_unused_fraction: float) -> bool:
    least = max(oom.requested_bytes, min_unused_fraction * (oom.reserved_bytes or 0))
    return oom.unused_bytes is not None and oom.unused_bytes > least


def _ran_out(case: Case, use: DeviceUse, ooms: list[Oom]) -> Finding:
    oom = max(ooms, key=lambda o: o.requested_bytes)
    unused_bytes = oom.unused_bytes or 0
    asked, unused = format_bytes(oom.requested_bytes), format_bytes(unused_bytes)
    times = f" ({len(ooms)} times)" if len(ooms) > 1 else ""
    return case.finding(
        _KIND,
        f"{use.device} ran out for {asked} with {unused} unused, in pieces",
        severity="critical",
        grounds=[Ground("torch's own figures as it failed; private pools of graphs look alike", SURE)],
        bytes=unused_bytes,
        process=use,
        line=oom,
        device=use.device,
        evidence=[
            Evidence(
                f"{asked} could not be allocated{oom.place}{times}: {unused} of the "
                f"{format_bytes(oom.reserved_bytes or 0)} "
                f"that torch held were unused, {oom.room}",
                {"requested_bytes": oom.requested_bytes, "unused_bytes": unused_bytes,
                 "reserved_bytes": oom.reserved_bytes, "device_free_bytes": oom.free_bytes},
            ),
        ],
        doubts=[_POOLS],
        remedy=[_expandable(f"pieces of {unused} can then serve {asked}")],
        series=_curves(use),
        wasted=True,
    )  # fmt: skip


def _is_cut_up(use: DeviceUse, min_retries: int, min_split_fraction: float) -> bool:
    split = use.figures("inactive_split_bytes") / np.maximum(use.figures("reserved_bytes"), 1.0)
    split = split[np.isfinite(split)]
    third = max(1, split.size // 3)
    if not split.size or use.last("alloc_retry_count") < min_retries:
        return False
    late = float(np.median(split[-third:]))
    return late >= min_split_fraction and late > float(np.median(split[:third]))


def _flushes(case: Case, use: DeviceUse) -> Finding:
    split_bytes, reserved_bytes = use.last("inactive_split_bytes"), use.last("reserved_bytes")
    retries = use.last("alloc_retry_count")
    return case.finding(
        _KIND,
        f"{use.device} is fragmented: torch flushed its cache {retries} times to find space",
        severity="warning",
        grounds=[Ground("torch flushed its cache, but nothing failed: the device may be full", WEAK)],
        bytes=split_bytes,
        process=use,
        device=use.device,
        evidence=[
            Evidence(
                f"{retries} allocations succeeded only after a flush of the whole cache, which stops the device",
                {"alloc_retry_count": retries},
            ),
            Evidence(
                f"{format_bytes(split_bytes)} of the {format_bytes(reserved_bytes)} that torch holds are free parts of "
                "segments in use, more than at first",
                {"inactive_split_bytes": split_bytes, "reserved_bytes": reserved_bytes},
            ),
        ],
        doubts=["no allocation failed: the device may simply be full", _POOLS],
        remedy=[_expandable("the flushes should stop")],
        series=_curves(use),
        wasted=True,
    )


def _expandable(expect: str) -> str:
    return f"set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the first use of CUDA: {expect}"


def _ruled_out(use: DeviceUse) -> RuledOut:
    allocated, reserved = use.last("allocated_bytes"), use.last("reserved_bytes")
    figures = {
        "allocated_bytes": allocated,
        "reserved_bytes": reserved,
        "inactive_split_bytes": use.last("inactive_split_bytes"),
        "alloc_retry_count": use.last("alloc_retry_count"),
    }
    kept = f"{format_bytes(reserved)} reserved, {format_bytes(allocated)} of it allocated"
    if not use.ooms:
        return RuledOut(_KIND, f"{use.label}: no allocation failed; {kept}, the rest is cache", figures)
    oom = max(use.ooms, key=lambda o: o.requested_bytes)
    figures |= {"requested_bytes": oom.requested_bytes, "device_free_bytes": oom.free_bytes}
    if oom.unused_bytes is None:
        return RuledOut(_KIND, f"{use.label}: ran out, but shows no fragmentation; {kept}", figures)
    figures["unused_bytes"] = oom.unused_bytes
    scraps = ", in scraps" if oom.unused_bytes > oom.requested_bytes else ""
    unused = f"{format_bytes(oom.unused_bytes)} of {format_bytes(oom.reserved_bytes or 0)} were unused{scraps}"
    asked = format_bytes(oom.requested_bytes)
    return RuledOut(_KIND, f"{use.label}: full when {asked} were asked for: {unused}", figures)


def _curves(use: DeviceUse) -> list[Series]:
    return [
        curve(name, use.time_s, use.figures(column))
        for name, column in (("reserved", "reserved_bytes"), ("allocated", "allocated_bytes"))
    ]
