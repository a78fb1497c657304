"""What is known of GPUs: figures of torch's allocator by process and device, and each time it ran out."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

import numpy as np

from ...findings import Skipped
from ...storage import Recording, Rows
from ...units import format_bytes
from ..series.arithmetic import Floats
from ..tables import int_of, only, process_name, records, text_of

NO_GPU = "no GPU in this recording"
_OOM_S = 1.0  # the figures of a device are written right after the note that it ran out
# As agent/torch/cuda.py writes it.
_OOM_TEXT = re.compile(
    r"(?P<device>\S+): (?P<requested>\d+) bytes asked for, (?P<free>\d+) free of (?P<total>\d+)(, at (?P<frames>.*))?"
)
_FRAME = re.compile(r"(?P<file>.+?):(?P<line>\d+) (?P<function>\S+)")


@dataclass(frozen=True)
class Oom:
    """An allocation that failed. **Units** bytes; ``unused_bytes``: reserved, but not in use, when it failed.

    ``total_bytes``: of the device, or what the program allows itself of it (set_per_process_memory_fraction).
    """

    time_s: float
    pid: int
    device: str
    requested_bytes: int
    free_bytes: int
    total_bytes: int
    reserved_bytes: int | None = None
    unused_bytes: int | None = None
    file: str | None = None
    line: int | None = None
    function: str | None = None

    @property
    def is_own_limit(self) -> bool:
        """The device had room: it was the program's own limit that was reached."""
        has_room = self.free_bytes >= self.requested_bytes
        return has_room and self.free_bytes + (self.reserved_bytes or 0) > self.total_bytes

    @property
    def room(self) -> str:
        """What was left: of the device, or of what the program allows itself."""
        if self.is_own_limit:
            return f"the program limits itself to {format_bytes(self.total_bytes)} of the device"
        return f"{format_bytes(self.free_bytes)} of the device were free"

    @property
    def place(self) -> str:
        """`` at train.py:31``, or nothing."""
        return f" at {self.file}:{self.line}" if self.file else ""


@dataclass(frozen=True, eq=False)
class DeviceUse:
    """One process on one device: its allocator's figures in order of time, without those of a failed allocation."""

    pid: int
    name: str
    role: str | None
    device: str
    rows: Rows
    ooms: tuple[Oom, ...]

    @property
    def label(self) -> str:
        return f"{self.device} in {self.name}[{self.pid}]"

    @property
    def time_s(self) -> Floats:
        return self.rows["time_s"].to_numpy(dtype=np.float64)

    def figures(self, column: str) -> Floats:
        """A column as numbers, NaN where it is null."""
        return self.rows[column].to_numpy(dtype=np.float64)

    def last(self, column: str) -> int:
        """The newest figure that is known, 0 without any."""
        known = self.rows[column].dropna()
        return int(known.iloc[-1]) if len(known) else 0


def device_uses(recording: Recording) -> list[DeviceUse]:
    """Every process that allocated on a GPU, by device."""
    rows = recording.rows["allocator"]
    if not len(rows):
        return []
    rows = only(rows, rows["pid"].notna() & rows["device"].notna())
    uses = []
    for (pid, start_ticks, device), own in rows.groupby(["pid", "start_ticks", "device"], dropna=False):
        own = own.sort_values("time_s")
        notes = recording.rows["agent_notes"]
        notes = only(notes, (notes["pid"] == pid) & (notes["start_ticks"] == start_ticks))
        failures = [(oom, _nearest(own, oom.time_s)) for oom in _ooms_of(notes) if oom.device == device]
        at_failures = [at for _, at in failures if at is not None]
        known = recording.rows["processes"]
        known = only(known, (known["pid"] == pid) & (known["start_ticks"] == start_ticks))
        process = known.iloc[-1] if len(known) else None
        uses.append(
            DeviceUse(
                pid=int(own["pid"].iloc[0]),
                name=process_name(process),
                role=text_of(process, "role"),
                device=str(device),
                rows=own[~np.isin(np.arange(len(own)), at_failures)],
                ooms=tuple(_with_figures(oom, own, at) for oom, at in failures),
            )
        )
    return uses


def all_ooms(recording: Recording, uses: Iterable[DeviceUse]) -> list[Oom]:
    """Each time torch told that a device had no room, in any process; with the figures of the allocator then."""
    known = {(oom.pid, oom.time_s): oom for use in uses for oom in use.ooms}
    return [known.get((oom.pid, oom.time_s), oom) for oom in _ooms_of(recording.rows["agent_notes"])]


def nothing_to_look_at(recording: Recording, kind: str) -> Skipped:
    """Why an analyzer of the allocator's figures has none."""
    if len(recording.rows["gpu_samples"]):
        return Skipped(kind, "the GPU was seen from outside only: there are no figures of torch's allocator")
    return Skipped(kind, NO_GPU, applies=False)


def _ooms_of(notes: Rows) -> Iterator[Oom]:
    for note in records(only(notes, notes["note"] == "cuda-oom")):
        told = _OOM_TEXT.match(text_of(note, "text") or "")
        if told is None:
            continue
        frame = _FRAME.match(told["frames"] or "")
        yield Oom(
            time_s=float(note["time_s"]),
            pid=int_of(note, "pid") or 0,
            device=told["device"],
            requested_bytes=int(told["requested"]),
            free_bytes=int(told["free"]),
            total_bytes=int(told["total"]),
            file=frame["file"] if frame else None,
            line=int(frame["line"]) if frame else None,
            function=frame["function"] if frame else None,
        )


def _nearest(rows: Rows, at_s: float) -> int | None:
    """Position of the row written with a note; None if the agent could not read the allocator then."""
    distance_s = np.abs(rows["time_s"].to_numpy(dtype=np.float64) - at_s)
    nearest = int(np.argmin(distance_s))
    return nearest if distance_s[nearest] <= _OOM_S else None


def _with_figures(oom: Oom, rows: Rows, at: int | None) -> Oom:
    row = None if at is None else rows.iloc[at]
    reserved_bytes = int_of(row, "reserved_bytes")
    # What waits for another stream is not in use by a tensor, and cannot be handed out either.
    busy_bytes = int_of(row, "active_bytes") or int_of(row, "allocated_bytes")
    if reserved_bytes is None or busy_bytes is None:
        return oom
    return replace(oom, reserved_bytes=reserved_bytes, unused_bytes=reserved_bytes - busy_bytes)
