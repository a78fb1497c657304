"""What memory did between the marks of a history: annotations of torch's profiler and of the program."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from .snapshots import DeviceSnapshot

_MOST = 20


@dataclass(frozen=True)
class Passage:
    """All passages through one annotation. **Units** bytes.

    ``change``: allocated at each end less at each start, added up. ``rise``: the most that one rose above its start.
    ``has_peak``: the device's peak lies in one of them.
    """

    name: str
    count: int
    change_bytes: int
    rise_bytes: int
    has_peak: bool


def passages(device: DeviceSnapshot) -> list[Passage]:
    """By annotation, the one that changed most first; empty without annotations, or times to lay them by."""
    if not len(device.marks) or not device.has_times:
        return []
    at = np.searchsorted(device.times_s, device.marks["time_s"].to_numpy(dtype=np.float64))
    began: dict[str, list[int]] = {}
    found: dict[str, list[tuple[int, int]]] = {}
    for name, action, position in zip(device.marks["gpu_label"].fillna(""), device.marks["gpu_action"], at):
        if action == "mark-start":
            began.setdefault(name, []).append(int(position))
        elif began.get(name):
            found.setdefault(name, []).append((began[name].pop(), int(position)))
    told = [_passage(device, name, spans) for name, spans in found.items()]
    return sorted(told, key=lambda one: (-abs(one.change_bytes), -one.rise_bytes, one.name))[:_MOST]


def _passage(device: DeviceSnapshot, name: str, spans: list[tuple[int, int]]) -> Passage:
    levels = device.levels  # of which one stands before the first event
    change = sum(int(levels[end] - levels[start]) for start, end in spans)
    rise = max(int(levels[start : end + 1].max() - levels[start]) for start, end in spans)
    peak = device.peak_position + 1
    return Passage(name, len(spans), change, rise, any(start <= peak <= end for start, end in spans))
