"""The limits of a recorded job: how near it came to each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from ...storage import Recording, Rows
from ...units import format_bytes
from .. import imported
from ..remembered import remembered
from ..series.arithmetic import Floats
from ..tables import figures, int_of, only, process_name, records

HOST, CGROUP, RLIMIT, DEV_SHM = "host", "cgroup", "rlimit", "dev-shm"
_OF_MEMORY = (HOST, CGROUP)
HIGH = 0.85  # of a limit: it is near
MACHINE = "the machine"
_RLIMITS = {"rlimit-as": "RLIMIT_AS", "rlimit-data": "RLIMIT_DATA"}


@dataclass(frozen=True, eq=False)
class Limit:
    """One limit and its use over time. ``kind`` is host, cgroup, rlimit, dev-shm or gpu:N. **Units** seconds, bytes.

    ``resource``, ``pid``, ``start_ticks``: of an rlimit, which one (``rlimit-as``) and whose.
    """

    kind: str
    name: str
    time_s: Floats
    used_bytes: Floats
    limit_bytes: Floats
    resource: str | None = None
    pid: int | None = None
    start_ticks: int | None = None

    @property
    def is_of_memory(self) -> bool:
        """All that the job holds counts against it."""
        return self.kind in _OF_MEMORY

    @property
    def used_fraction(self) -> Floats:
        return self.used_bytes / self.limit_bytes

    @property
    def peak_at(self) -> int:
        """Index of the sample with the largest fraction in use."""
        return int(np.argmax(self.used_fraction))

    @property
    def peak_fraction(self) -> float:
        return float(self.used_fraction[self.peak_at])

    @property
    def least_room_bytes(self) -> float:
        return float((self.limit_bytes - self.used_bytes).min())

    @property
    def fullest(self) -> tuple[int, int]:
        """Bytes in use when they were most, and the limit then: who dies of it gives its part back before it ends."""
        at = self.used_bytes.size - 1 - int(np.argmax(self.used_bytes[::-1]))
        return int(self.used_bytes[at]), int(self.limit_bytes[at])

    @property
    def label(self) -> str:
        """With its size: ``cgroup /job (4.0 GiB)``."""
        return f"{self.name} ({format_bytes(float(self.limit_bytes[-1]))})"


@remembered
def limits(recording: Recording) -> list[Limit]:
    """Every limit that was sampled."""
    found = (*_host(recording), *_cgroups(recording), *_rlimits_and_shm(recording), *_gpus(recording))
    return [limit for limit in found if limit.time_s.size]


def nearest(limits: Sequence[Limit]) -> Limit | None:
    """Of the limits on all that the job holds, the one that left least room."""
    of_memory = [limit for limit in limits if limit.is_of_memory]
    return min(of_memory, key=lambda limit: limit.least_room_bytes, default=None)


def is_short(known: Sequence[Limit]) -> bool:
    """Whether one on all that the job holds came near: a batch of unusual length may take the rest."""
    return any(limit.is_of_memory and limit.peak_fraction >= HIGH for limit in known)


def _host(recording: Recording) -> Iterator[Limit]:
    rows = recording.rows["host_samples"]
    rows = only(rows, (rows["mem_total_bytes"] > 0) & rows["mem_available_bytes"].notna())
    total = figures(rows, "mem_total_bytes")
    yield Limit(HOST, MACHINE, figures(rows, "time_s"), total - figures(rows, "mem_available_bytes"), total)


def _cgroups(recording: Recording) -> Iterator[Limit]:
    """Page cache does not count: the kernel takes it back before it kills."""
    rows = recording.rows["cgroup_samples"]
    if not len(rows):
        return
    rows = only(rows, (rows["limit_bytes"] > 0) & rows["current_bytes"].notna())
    for path, own in rows.groupby("cgroup"):
        cache = np.nan_to_num(figures(own, "cgroup_file_bytes")) - np.nan_to_num(figures(own, "cgroup_shmem_bytes"))
        used = np.maximum(0.0, figures(own, "current_bytes") - np.maximum(0.0, cache))
        yield Limit(CGROUP, f"cgroup {path}", figures(own, "time_s"), used, figures(own, "limit_bytes"))


def _rlimits_and_shm(recording: Recording) -> Iterator[Limit]:
    rows = recording.rows["limit_samples"]
    if not len(rows):
        return
    rows = only(rows, (rows["limit_bytes"] > 0) & rows["used_bytes"].notna())
    known = recording.rows["processes"]
    for (name, _, _), own in rows.groupby(["limit_name", "pid", "start_ticks"], dropna=False):
        series = figures(own, "time_s"), figures(own, "used_bytes"), figures(own, "limit_bytes")
        if name == DEV_SHM:
            yield Limit(DEV_SHM, "/dev/shm", *series)
            continue
        pid, start_ticks = int_of(own.iloc[0], "pid"), int_of(own.iloc[0], "start_ticks")
        process = only(known, (known["pid"] == pid) & (known["start_ticks"] == start_ticks))
        who = process_name(process.iloc[-1] if len(process) else None)
        yield Limit(
            RLIMIT, f"{_RLIMITS.get(str(name), str(name))} of {who}[{pid}]", *series, str(name), pid, start_ticks
        )


def _gpus(recording: Recording) -> Iterator[Limit]:
    """Those the job uses; where pids are not known, the only one there is, or all that a file was made for."""
    rows = recording.rows["gpu_samples"]
    if not len(rows):
        return
    ours = set(rows["gpu_uuid"][rows["is_ours"].fillna(False)].dropna())
    devices = only(rows, (rows["gpu_total_bytes"] > 0) & rows["gpu_used_bytes"].notna())
    for uuid, own in devices.groupby("gpu_uuid"):
        if uuid in ours or (not ours and (devices["gpu_uuid"].nunique() == 1 or imported.files(recording))):
            index = int_of(own.iloc[0], "gpu_index")
            series = figures(own, "time_s"), figures(own, "gpu_used_bytes"), figures(own, "gpu_total_bytes")
            yield Limit(f"gpu:{index}", f"GPU {index}", *series)


def gpu_series(recording: Recording) -> list[tuple[str, Floats, Floats]]:
    """Name, times and bytes in use of each GPU; of files that have none, those of each process on one."""
    rows = recording.rows["gpu_samples"]
    rows = only(rows, rows["gpu_used_bytes"].notna())
    devices = only(rows, rows["pid"].isna())
    if len(devices):
        return [(_gpu_name(own), *_used(own)) for _, own in devices.groupby("gpu_uuid")]
    names = {row["pid"]: process_name(row) for row in records(recording.rows["processes"], "pid", "cmdline", "comm")}
    found = []
    for _, own in rows.groupby(["gpu_uuid", "pid"]):
        pid = int_of(own.iloc[0], "pid")
        found.append((f"{names.get(pid, 'process')}[{pid}] on {_gpu_name(own)}", *_used(own)))
    return found


class GpuProcess(NamedTuple):
    """What the driver counted of one process on one device. **Units** bytes, its context and caches included."""

    pid: int
    device: str
    time_s: Floats
    used_bytes: Floats


def gpu_processes(recording: Recording) -> list[GpuProcess]:
    """The job's own processes on each GPU."""
    rows = recording.rows["gpu_samples"]
    if not len(rows):
        return []
    rows = only(rows, rows["is_ours"].fillna(False) & rows["pid"].notna() & rows["gpu_used_bytes"].notna())
    alike = rows.sort_values("time_s").groupby(["pid", "gpu_uuid"])
    return [GpuProcess(int(own["pid"].iloc[0]), _gpu_name(own), *_used(own)) for _, own in alike]


def _gpu_name(rows: Rows) -> str:
    index = int_of(rows.iloc[0], "gpu_index")
    return f"GPU {index}" if index is not None else f"GPU {rows.iloc[0]['gpu_uuid']}"


def _used(rows: Rows) -> tuple[Floats, Floats]:
    return figures(rows, "time_s"), figures(rows, "gpu_used_bytes")
