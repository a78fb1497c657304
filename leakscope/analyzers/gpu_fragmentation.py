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

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from ..confidence import FAIR, SURE, WEAK, Ground
from ..evidence.gpu_device import allocated_curve, largest_free, ran_out, subject_in, unused_at
from ..evidence.sentences import curve
from ..facts.accounts.gpu import DeviceUse, Oom, nothing_to_look_at
from ..facts.case import Case
from ..facts.gpu.budget import DeviceBudget
from ..facts.gpu.snapshots import ALLOCATED, DeviceSnapshot
from ..facts.subject import subject_of
from ..findings import Evidence, Finding, RuledOut, Series, Skipped
from ..kinds import ASIDE
from ..units import FEWEST, GOOD_PART, HUGE, SOME, format_bytes

NEEDS = ()
TELLS = (ASIDE,)
_KIND = "gpu-fragmentation"
_POOLS = "memory in the private pools of CUDA graphs looks the same and stays unusable"
_LEAST_LOOSE = HUGE
_COMMON_POOL = "0:0"
_EXPANDABLE = "set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the first use of CUDA"


def findings(
    case: Case,
    *,
    min_unused_fraction: float = SOME,  # of the reserved memory: less are the scraps that any allocator leaves
    min_retries: int = FEWEST,  # a flush or two at the largest batch is how the allocator is meant to work
    min_split_fraction: float = SOME,  # the same, at times when nothing failed
    min_loose_fraction: float = GOOD_PART,  # the same at one moment, of which nobody knows whether it lasts
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
            oom = max(in_pieces, key=lambda o: o.requested_bytes)
            times = f" ({len(in_pieces)} times)" if len(in_pieces) > 1 else ""
            yield _ran_out(
                case, use.device, (oom.requested_bytes, oom.unused_bytes or 0, oom.reserved_bytes or 0, oom.free_bytes),
                f"{oom.place}{times}", oom.room, "torch's own figures as it failed; private pools of graphs look alike",
                subject=subject_of(use, oom, device=use.device), doubts=[_POOLS], series=_curves(use),
            )  # fmt: skip
        elif _is_cut_up(use, min_retries, min_split_fraction):
            yield _flushes(case, use)
        else:
            yield _ruled_out(use)
    for snapshot in snapshots.values():
        yield _in_snapshot(case, snapshot, min_unused_fraction, min_loose_fraction)


# ---- by torch's figures while it ran


def _is_in_pieces(oom: Oom, min_unused_fraction: float) -> bool:
    least = max(oom.requested_bytes, min_unused_fraction * (oom.reserved_bytes or 0))
    return oom.unused_bytes is not None and oom.unused_bytes > least


def _is_cut_up(use: DeviceUse, min_retries: int, min_split_fraction: float) -> bool:
    split = use.figures("inactive_split_bytes") / np.maximum(use.figures("reserved_bytes"), 1.0)
    split = split[np.isfinite(split)]
    if not split.size or use.last("alloc_retry_count") < min_retries:
        return False
    early, _, late = (part if part.size else split for part in np.array_split(split, 3))
    usual = float(np.median(late))
    return usual >= min_split_fraction and usual > float(np.median(early))


def _ran_out(
    case: Case, label: str, sizes: tuple[int, int, int, int], place: str, room: str, ground: str, *,
    beside: Sequence[Evidence | None] = (), is_helped: bool = True, **more: Any,
) -> Finding:  # fmt: skip
    """``sizes``: asked for, unused, reserved and free. ``is_helped``: by segments that grow."""
    asked, unused, reserved, free = sizes
    pieces = f"pieces of {format_bytes(unused)} can then serve {format_bytes(asked)}"
    return case.finding(
        _KIND,
        f"{label} ran out for {format_bytes(asked)} with {format_bytes(unused)} unused, in pieces",
        severity="critical",
        grounds=[Ground(ground, SURE)],
        bytes=unused,
        evidence=[ran_out(asked, place, unused, reserved, free, room), *beside],
        remedy=[f"{_EXPANDABLE}: {pieces}" if is_helped else None],
        wasted=True,
        **more,
    )


def _flushes(case: Case, use: DeviceUse) -> Finding:
    split, reserved, retries = map(use.last, ("inactive_split_bytes", "reserved_bytes", "alloc_retry_count"))
    flushed = f"{retries} allocations succeeded only after a flush of the whole cache, which stops the device"
    free = f"{format_bytes(split)} of the {format_bytes(reserved)} that torch holds are free parts of segments in use"
    return case.finding(
        _KIND,
        f"{use.device} is fragmented: torch flushed its cache {retries} times to find space",
        severity="warning",
        grounds=[Ground("torch flushed its cache, but nothing failed: the device may be full", WEAK)],
        bytes=split,
        subject=subject_of(use, device=use.device),
        evidence=[
            Evidence(flushed, {"alloc_retry_count": retries}),
            Evidence(f"{free}, more than at first", {"inactive_split_bytes": split, "reserved_bytes": reserved}),
        ],
        doubts=["no allocation failed: the device may simply be full", _POOLS],
        remedy=[f"{_EXPANDABLE}: the flushes should stop"],
        series=_curves(use),
        wasted=True,
    )


def _ruled_out(use: DeviceUse) -> RuledOut:
    columns = ("allocated_bytes", "reserved_bytes", "inactive_split_bytes", "alloc_retry_count")
    figures: dict[str, Any] = {column: use.last(column) for column in columns}
    kept = f"{format_bytes(figures['reserved_bytes'])} reserved, {format_bytes(figures['allocated_bytes'])} of it "
    kept += "allocated"
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
    return [curve(name, use.time_s, use.figures(f"{name}_bytes")) for name in ("reserved", "allocated")]


# ---- by a memory snapshot of torch


def _in_snapshot(
    case: Case, budget: DeviceBudget, min_unused_fraction: float, min_loose_fraction: float
) -> Finding | RuledOut:
    """The finding of one device, or what is unused there."""
    device = budget.device
    oom = max(device.ooms, key=lambda oom: oom.requested_bytes, default=None)
    asked, unused = (format_bytes(oom.requested_bytes), unused_at(device, oom)) if oom is not None else ("", 0)
    loose, held = device.fragmented_bytes, device.reserved_bytes
    grows = device.is_expandable or any(segment.is_expandable for segment in device.segments)
    private = sum(segment.size for segment in device.segments if segment.pool != _COMMON_POOL)
    pools = f"{format_bytes(private)} belong to private pools (CUDA graphs, MemPool), which nothing else may use"
    doubts = [pools if private else None, "expandable_segments is on already" if device.is_expandable else None]
    beside = [largest_free(device), _pinned(device)]
    if oom is not None:
        reserved = int(device.reserved_levels[oom.position + 1])
        if unused > max(oom.requested_bytes, min_unused_fraction * reserved):
            room = f"{format_bytes(oom.free_bytes)} of the device were free"
            return _ran_out(
                case, device.label, (oom.requested_bytes, unused, reserved, oom.free_bytes), f" at {oom.stack.place}",
                room, "the allocator's own history as it failed", beside=beside, is_helped=not grows,
                subject=subject_in(device, oom.stack), doubts=doubts, series=allocated_curve(device),
            )  # fmt: skip
    if loose >= max(_LEAST_LOOSE, min_loose_fraction * held):
        text = f"{format_bytes(loose)} are free parts of segments in use, which no other process and no larger "
        text += f"allocation can have; {format_bytes(device.cached_bytes)} more are empty segments"
        figures = {"fragmented_bytes": loose, "reserved_bytes": held, "cached_bytes": device.cached_bytes}
        ground = "the blocks of each segment say so; nothing failed, and it may be so at this moment only"
        return case.finding(
            _KIND,
            f"{format_bytes(loose)} of {format_bytes(held)} on {device.label} are free in pieces",
            severity="note",
            grounds=[Ground(ground, FAIR)],
            bytes=loose,
            subject=subject_in(device),
            evidence=[Evidence(text, figures), *beside],
            doubts=["no allocation failed", *doubts],
            remedy=[None if grows else f"{_EXPANDABLE}: segments then grow and shrink in place"],
            wasted=True,
        )
    seen = {
        "reserved_bytes": held,
        "allocated_bytes": device.allocated_bytes,
        "inactive_split_bytes": loose,
        "cached_bytes": device.cached_bytes,
        "largest_free_bytes": device.largest_free_bytes,
    }
    sizes = map(format_bytes, (held, device.allocated_bytes, device.cached_bytes, loose))
    why = "no allocation failed; {} reserved, {} of it allocated, {} cached, {} in pieces".format(*sizes)
    if oom is not None:
        why = f"full when {asked} were asked for: {format_bytes(unused)} were unused"
    return RuledOut(_KIND, f"{device.label}: {why}", seen)


def _pinned(device: DeviceSnapshot) -> Evidence | None:
    """Which small blocks keep large segments from being given back."""
    kept = device.kept_segments
    addresses, free = {segment.address for segment, _ in kept}, sum(free for _, free in kept)
    by_place: Counter[str] = Counter()
    for block in device.blocks:
        if block.segment in addresses and block.state == ALLOCATED:
            by_place[device.stack(block.stack).place] += block.size
    if not by_place:
        return None
    place, size = by_place.most_common(1)[0]
    return Evidence(
        f"{len(kept)} segments that are mostly free ({format_bytes(free)}) cannot be given back: "
        f"{format_bytes(sum(by_place.values()))} in them are in use, most of it of {place}",
        {"segment_count": len(kept), "free_bytes": free, "pinning_bytes": size, "place": place},
    )
