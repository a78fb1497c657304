"""Memory of a GPU that is free in pieces, by a memory snapshot of torch."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING

from ..confidence import FAIR, SURE, Ground
from ..facts.gpu.budget import DeviceBudget
from ..facts.gpu.snapshots import ALLOCATED, DeviceSnapshot, Oom
from ..findings import Evidence, Finding, RuledOut
from ..units import GiB, format_bytes
from .gpu_device import allocated_curve, subject_in

if TYPE_CHECKING:
    from ..facts.case import Case

_KIND = "gpu-fragmentation"
_LEAST_LOOSE = GiB // 4
_COMMON_POOL = "0:0"


def pieces_in_snapshot(
    case: Case, budget: DeviceBudget, min_unused_fraction: float, min_loose_fraction: float
) -> Finding | RuledOut:
    """The finding of one device, or what is unused there."""
    device = budget.device
    oom = max(device.ooms, key=lambda oom: oom.requested_bytes, default=None)
    if oom is not None:
        unused = unused_at(device, oom)
        if unused > max(oom.requested_bytes, min_unused_fraction * int(device.reserved_levels[oom.position + 1])):
            return _ran_out(case, device, oom, unused)
    loose = device.fragmented_bytes
    if loose >= max(_LEAST_LOOSE, min_loose_fraction * device.reserved_bytes):
        return _loose(case, device)
    return _ruled_out(device, oom)


def unused_at(device: DeviceSnapshot, oom: Oom) -> int:
    """What the allocator held and no tensor used when it failed. **Units** bytes."""
    at = oom.position + 1
    return max(0, int(device.reserved_levels[at] - device.levels[at]))


def _ran_out(case: Case, device: DeviceSnapshot, oom: Oom, unused: int) -> Finding:
    asked = format_bytes(oom.requested_bytes)
    reserved = int(device.reserved_levels[oom.position + 1])
    return case.finding(
        _KIND,
        f"{device.label} ran out for {asked} with {format_bytes(unused)} unused, in pieces",
        severity="critical",
        grounds=[Ground("the allocator's own history as it failed", SURE)],
        bytes=unused,
        subject=subject_in(device, oom.stack),
        evidence=[
            Evidence(
                f"{asked} could not be allocated at {oom.stack.place}: {format_bytes(unused)} of the "
                f"{format_bytes(reserved)} that torch held were unused, {format_bytes(oom.free_bytes)} of the device "
                "were free",
                {"requested_bytes": oom.requested_bytes, "unused_bytes": unused, "reserved_bytes": reserved,
                 "device_free_bytes": oom.free_bytes},
            ),
            _largest(device),
            *_pinned(device),
        ],
        doubts=list(_doubts(device)),
        remedy=list(_remedy(device, f"pieces of {format_bytes(unused)} can then serve {asked}")),
        series=allocated_curve(device),
        wasted=True,
    )  # fmt: skip


def _loose(case: Case, device: DeviceSnapshot) -> Finding:
    loose, reserved = device.fragmented_bytes, device.reserved_bytes
    return case.finding(
        _KIND,
        f"{format_bytes(loose)} of {format_bytes(reserved)} on {device.label} are free in pieces",
        severity="note",
        grounds=[
            Ground("the blocks of each segment say so; nothing failed, and it may be so at this moment only", FAIR)
        ],
        bytes=loose,
        subject=subject_in(device),
        evidence=[
            Evidence(
                f"{format_bytes(loose)} are free parts of segments in use, which no other process and no larger "
                f"allocation can have; {format_bytes(device.cached_bytes)} more are empty segments",
                {"fragmented_bytes": loose, "reserved_bytes": reserved, "cached_bytes": device.cached_bytes},
            ),
            _largest(device),
            *_pinned(device),
        ],
        doubts=["no allocation failed", *_doubts(device)],
        remedy=list(_remedy(device, "segments then grow and shrink in place")),
        wasted=True,
    )


def _largest(device: DeviceSnapshot) -> Evidence:
    size = device.largest_free_bytes
    return Evidence(f"the largest free block at the snapshot has {format_bytes(size)}", {"largest_free_bytes": size})


def _pinned(device: DeviceSnapshot) -> Iterator[Evidence]:
    """Which small blocks keep large segments from being given back."""
    kept = device.kept_segments
    if not kept:
        return
    addresses = {segment.address for segment, _ in kept}
    by_place: Counter[str] = Counter()
    for block in device.blocks:
        if block.segment in addresses and block.state == ALLOCATED:
            by_place[device.stack(block.stack).place] += block.size
    free = sum(free for _, free in kept)
    if not by_place:
        return
    place, size = by_place.most_common(1)[0]
    yield Evidence(
        f"{len(kept)} segments that are mostly free ({format_bytes(free)}) cannot be given back: "
        f"{format_bytes(sum(by_place.values()))} in them are in use, most of it of {place}",
        {"segment_count": len(kept), "free_bytes": free, "pinning_bytes": size, "place": place},
    )


def _remedy(device: DeviceSnapshot, expect: str) -> Iterator[str]:
    """Only settings that are not on already, and that these segments could have."""
    grows = device.is_expandable or any(segment.is_expandable for segment in device.segments)
    if not grows:
        yield f"set PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True before the first use of CUDA: {expect}"


def _doubts(device: DeviceSnapshot) -> Iterator[str]:
    private = sum(s.size for s in device.segments if s.pool != _COMMON_POOL)
    if private:
        yield f"{format_bytes(private)} belong to private pools (CUDA graphs, MemPool), which nothing else may use"
    if device.is_expandable:
        yield "expandable_segments is on already"


def _ruled_out(device: DeviceSnapshot, oom: Oom | None) -> RuledOut:
    figures = {
        "reserved_bytes": device.reserved_bytes,
        "allocated_bytes": device.allocated_bytes,
        "inactive_split_bytes": device.fragmented_bytes,
        "cached_bytes": device.cached_bytes,
        "largest_free_bytes": device.largest_free_bytes,
    }
    kept = (
        f"{format_bytes(device.reserved_bytes)} reserved, {format_bytes(device.allocated_bytes)} of it allocated, "
        f"{format_bytes(device.cached_bytes)} cached, {format_bytes(device.fragmented_bytes)} in pieces"
    )
    if oom is None:
        return RuledOut(_KIND, f"{device.label}: no allocation failed; {kept}", figures)
    asked = format_bytes(oom.requested_bytes)
    unused = format_bytes(unused_at(device, oom))
    return RuledOut(_KIND, f"{device.label}: full when {asked} were asked for: {unused} were unused", figures)
