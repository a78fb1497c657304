"""Memory of GPUs over the run: what torch allocated and reserved, what the driver counted, and where it ran out."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from ..facts.accounts.gpu import DeviceUse, Oom
from ..facts.case import Case
from ..facts.growth.limits import gpu_processes
from ..facts.series.arithmetic import Floats, extremes
from ..facts.tables import figures, int_of, only, text_of
from ..findings import DeviceMemory, Moment
from ..units import format_bytes

_MOST = 8  # processes and devices
_MOST_POINTS = 400


def devices(case: Case) -> list[DeviceMemory]:
    """Each process's allocator on each device, or what the driver counted of it; then each device as a whole."""
    found = [*_allocators(case), *_by_driver(case), *_whole_devices(case), *_snapshots(case)]
    return found[:_MOST]


def _allocators(case: Case) -> Iterator[DeviceMemory]:
    uses = sorted(case.device_uses, key=lambda use: (-use.figures("reserved_bytes").max(initial=0), use.label))
    for use in uses:
        time_s, allocated, reserved = _with_failures(use)
        if time_s.size >= 2:
            limit_bytes = max((oom.total_bytes for oom in use.ooms), default=_only_total(case))
            failures = [_failure(oom) for oom in use.ooms]
            yield _drawn(
                use.label, time_s, 2, limit_bytes, failures, reserved_bytes=reserved, allocated_bytes=allocated
            )


def _snapshots(case: Case) -> Iterator[DeviceMemory]:
    """The history that each memory snapshot of torch has."""
    for device in (budget.device for budget in case.gpu_budgets):
        if len(device.events) >= 2:
            failed = [(float(device.times_s[oom.position]), format_bytes(oom.requested_bytes)) for oom in device.ooms]
            yield _drawn(
                f"{device.label}, snapshot {device.number}",
                device.times_s,
                6,
                failures=[Moment("death", round(at_s, 6), f"no room for {size}") for at_s, size in failed],
                allocated_bytes=device.levels[1:].astype(float),
                reserved_bytes=device.reserved_levels[1:].astype(float),
            )


def _with_failures(use: DeviceUse) -> tuple[Floats, Floats, Floats]:
    """Times, and what was allocated and reserved, those of the moments of failure among them."""
    known = [
        (oom.time_s, oom.reserved_bytes - oom.unused_bytes, oom.reserved_bytes)
        for oom in use.ooms
        if oom.reserved_bytes is not None and oom.unused_bytes is not None
    ]
    seen = (use.time_s, use.figures("allocated_bytes"), use.figures("reserved_bytes"))
    rows = np.concatenate([np.column_stack(seen), np.array(known, dtype=np.float64).reshape(-1, 3)])
    time_s, allocated, reserved = rows[np.argsort(rows[:, 0], kind="stable")].T
    return time_s, allocated, reserved


def _by_driver(case: Case) -> Iterator[DeviceMemory]:
    """The job's processes without torch's allocator."""
    known = {use.pid for use in case.device_uses}
    for one in gpu_processes(case.recording):
        process = case.growth.process(one.pid)
        if one.pid not in known and process is not None and len(one.time_s) >= 2:
            name = f"{one.device} in {process.label}"
            yield _drawn(name, one.time_s, 2, _only_total(case), used_bytes=one.used_bytes)


def _whole_devices(case: Case) -> Iterator[DeviceMemory]:
    samples = case.rows("gpu_samples")
    rows = only(samples, samples["gpu_total_bytes"].notna())
    ours = set(only(samples, samples["is_ours"].fillna(False))["gpu_uuid"])
    failures = [_failure(oom) for oom in case.gpu_ooms] if rows["gpu_uuid"].nunique() == 1 else []
    for uuid, own in rows.groupby("gpu_uuid", sort=False):
        if len(own) >= 2 and (uuid in ours or not ours):
            own = own.sort_values("time_s")
            last = own.iloc[-1]
            name = f"GPU {int_of(last, 'gpu_index')} ({text_of(last, 'gpu_name') or 'unnamed'}), all processes"
            used = figures(own, "gpu_used_bytes")
            yield _drawn(name, figures(own, "time_s"), 2, int_of(last, "gpu_total_bytes"), failures, used_bytes=used)


def _only_total(case: Case) -> int | None:
    """The size of the device where there is but one: NVML's numbers are not the job's."""
    rows = case.rows("gpu_samples")
    rows = only(rows, rows["gpu_total_bytes"].notna())
    return int(rows["gpu_total_bytes"].max()) if rows["gpu_uuid"].nunique() == 1 else None


def _failure(oom: Oom) -> Moment:
    text = f"{oom.device} had no room for {format_bytes(oom.requested_bytes)}{oom.place}"
    return Moment("death", round(oom.time_s, 2), text)


def _drawn(
    name: str,
    time_s: Floats,
    digits: int,
    limit_bytes: int | None = None,
    failures: Sequence[Moment] = (),
    **curves: Floats,
) -> DeviceMemory:
    """With as many points as can be drawn, by the first of its curves; NaN is what nobody read."""
    shown = extremes(np.nan_to_num(next(iter(curves.values()))), _MOST_POINTS // 2)
    told = {kind: [None if np.isnan(one) else int(one) for one in curve[shown]] for kind, curve in curves.items()}
    times = np.round(time_s[shown], digits).tolist()
    return DeviceMemory(name, times, limit_bytes=limit_bytes, failures=list(failures), **told)
