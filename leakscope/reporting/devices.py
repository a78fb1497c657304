"""Memory of GPUs over the run: what torch allocated and reserved, what the driver counted, and where it ran out."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd

from ..facts.accounts.gpu import DeviceUse, Oom
from ..facts.case import Case
from ..facts.growth.limits import gpu_processes
from ..facts.series.arithmetic import extremes
from ..facts.tables import int_of, narrow, only, text_of
from ..findings import DeviceMemory, Moment
from ..units import format_bytes

_MOST = 8  # processes and devices
_MOST_POINTS = 400


def devices(case: Case) -> list[DeviceMemory]:
    """Each process's allocator on each device, or what the driver counted of it; then each device as a whole."""
    found = [*_allocators(case), *_by_driver(case), *_whole_devices(case), *_snapshots(case)]
    return found[:_MOST]


def _allocators(case: Case) -> Iterator[DeviceMemory]:
    limit_bytes = _only_total(case)
    uses = sorted(case.device_uses, key=lambda use: (-use.figures("reserved_bytes").max(initial=0), use.label))
    for use in uses:
        failures = [_failure(oom) for oom in use.ooms]
        totals = [oom.total_bytes for oom in use.ooms]
        rows = _with_failures(use)
        if len(rows) < 2:
            continue
        rows = rows.iloc[_shown(rows["reserved_bytes"])]
        yield DeviceMemory(
            use.label,
            _times(rows),
            allocated_bytes=_figures(rows, "allocated_bytes"),
            reserved_bytes=_figures(rows, "reserved_bytes"),
            limit_bytes=max(totals) if totals else limit_bytes,
            failures=failures,
        )


def _snapshots(case: Case) -> Iterator[DeviceMemory]:
    """The history that each memory snapshot of torch has."""
    for budget in case.gpu_budgets:
        device = budget.device
        if len(device.events) < 2:
            continue
        shown = _shown(pd.Series(device.levels[1:].astype(float)))
        failed = [(float(device.times_s[oom.position]), format_bytes(oom.requested_bytes)) for oom in device.ooms]
        yield DeviceMemory(
            f"{device.label}, snapshot {device.number}",
            [round(float(at), 6) for at in device.times_s[shown]],
            allocated_bytes=[int(size) for size in device.levels[1:][shown]],
            reserved_bytes=[int(size) for size in device.reserved_levels[1:][shown]],
            failures=[Moment("death", round(at_s, 6), f"no room for {size}") for at_s, size in failed],
        )


def _with_failures(use: DeviceUse) -> pd.DataFrame:
    """Its figures, those of the moments of failure among them."""
    known = [oom for oom in use.ooms if oom.reserved_bytes is not None and oom.unused_bytes is not None]
    columns = ["time_s", "allocated_bytes", "reserved_bytes"]
    figures = [(oom.time_s, (oom.reserved_bytes or 0) - (oom.unused_bytes or 0), oom.reserved_bytes) for oom in known]
    failed = pd.DataFrame(figures, columns=columns)
    rows = narrow(use.rows, *columns)
    return pd.concat([rows, failed.astype(rows.dtypes.to_dict())]).sort_values("time_s") if len(failed) else rows


def _by_driver(case: Case) -> Iterator[DeviceMemory]:
    """The job's processes without torch's allocator."""
    known = {use.pid for use in case.device_uses}
    for one in gpu_processes(case.recording):
        process = case.growth.process(one.pid)
        if one.pid in known or process is None or len(one.time_s) < 2:
            continue
        shown = _shown(pd.Series(one.used_bytes))
        yield DeviceMemory(
            f"{one.device} in {process.label}",
            [round(float(at_s), 2) for at_s in one.time_s[shown]],
            used_bytes=[round(float(value)) for value in one.used_bytes[shown]],
            limit_bytes=_only_total(case),
        )


def _whole_devices(case: Case) -> Iterator[DeviceMemory]:
    samples = case.rows("gpu_samples")
    if not len(samples):
        return
    rows = only(samples, samples["gpu_total_bytes"].notna())
    ours = only(samples, samples["is_ours"].fillna(False).astype(bool))
    failures = [_failure(oom) for oom in case.gpu_ooms] if rows["gpu_uuid"].nunique() == 1 else []
    for uuid, own in rows.groupby("gpu_uuid", sort=False):
        if len(own) < 2 or (len(ours) and uuid not in set(ours["gpu_uuid"])):
            continue
        own = own.sort_values("time_s", kind="stable")
        last = own.iloc[-1]
        own = own.iloc[_shown(own["gpu_used_bytes"])]
        yield DeviceMemory(
            f"GPU {int_of(last, 'gpu_index')} ({text_of(last, 'gpu_name') or 'unnamed'}), all processes",
            _times(own),
            used_bytes=_figures(own, "gpu_used_bytes"),
            limit_bytes=int_of(last, "gpu_total_bytes"),
            failures=failures,
        )


def _only_total(case: Case) -> int | None:
    """The size of the device where there is but one: NVML's numbers are not the job's."""
    rows = case.rows("gpu_samples")
    rows = only(rows, rows["gpu_total_bytes"].notna())
    return int(rows["gpu_total_bytes"].max()) if rows["gpu_uuid"].nunique() == 1 else None


def _failure(oom: Oom) -> Moment:
    text = f"{oom.device} had no room for {format_bytes(oom.requested_bytes)}{oom.place}"
    return Moment("death", round(oom.time_s, 2), text)


def _shown(values: pd.Series[float]) -> np.ndarray[tuple[int], np.dtype[np.intp]]:
    """Positions of the points to draw."""
    return extremes(np.asarray(values.fillna(0.0), dtype=np.float64), _MOST_POINTS // 2)


def _times(rows: pd.DataFrame) -> list[float]:
    times: list[float] = rows["time_s"].astype("float64").round(2).tolist()
    return times


def _figures(rows: pd.DataFrame, column: str) -> list[int | None]:
    values = rows[column].to_numpy(dtype=np.float64, na_value=np.nan)
    return [None if np.isnan(value) else int(value) for value in values]
