"""TensorBoard: scalars of event files that speak of memory, by tensorboard's own reader (extra `tensorboard`)."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

from ..units import GiB, KiB, MiB
from ._facts import UNIX, Fact, NotThisFormat
from ._figures import amount, number
from ._source import Source

LACKS = "has the scalars that the program logged, not what else was in memory"
EXTRA = "tensorboard"
_EVENTS = re.compile(r"tfevents")
_UNIT = re.compile(r"(?:^|[^a-z])(bytes|kib|kb|mib|mb|gib|gb)(?:$|[^a-z])", re.IGNORECASE)
_UNITS = {"bytes": 1, "kib": KiB, "kb": KiB, "mib": MiB, "mb": MiB, "gib": GiB, "gb": GiB}
_RSS = re.compile(r"(?:^|[^a-z])(rss|uss|resident)(?:$|[^a-z])", re.IGNORECASE)
_MEMORY = re.compile(r"mem(?:ory)?(?:$|[^a-z])|vram|allocated|reserved", re.IGNORECASE)
_DEVICE = re.compile(r"gpu|cuda|vram|device|allocated|reserved", re.IGNORECASE)
_INDEX = re.compile(r"(?:gpu|cuda|device)[^0-9a-z]?(\d{1,2})", re.IGNORECASE)
_LIGHTNING = {
    "allocated_bytes.all.current": "allocated_bytes", "reserved_bytes.all.current": "reserved_bytes",
    "active_bytes.all.current": "active_bytes", "inactive_split_bytes.all.current": "inactive_split_bytes",
    "allocated_bytes.all.peak": "peak_allocated_bytes", "num_alloc_retries": "alloc_retry_count",
    "num_ooms": "device_oom_count",
}  # fmt: skip


def sniff(head: bytes, name: str) -> bool:
    return _EVENTS.search(name) is not None and b"brain.Event" in head[:256]


def read(source: Source) -> Iterator[Fact]:
    """A scalar is memory if its name says so, and in which unit; Lightning's DeviceStatsMonitor by its names."""
    from tensorboard.backend.event_processing import event_file_loader  # type: ignore[import-untyped, unused-ignore]

    source.clock, source.tool = UNIX, "TensorBoard"
    pid = source.unnamed("main", comm="python")
    without_unit: dict[str, None] = {}
    tags: dict[str, None] = {}
    for event in event_file_loader.EventFileLoader(os.fspath(source.path)).Load():
        for value in event.summary.value:
            found = _number(value)
            if found is None:
                continue
            tags.setdefault(value.tag)
            fact = _fact(value.tag, found, pid, event.step, without_unit)
            if fact is not None:
                yield Fact(fact[0], event.wall_time, fact[1])
    if without_unit:
        source.notes.append(f"the unit of {', '.join(list(without_unit)[:5])} is not known: left out")
    if not tags:
        raise NotThisFormat("has no scalars")


def _fact(
    tag: str, value: float, pid: int, step: int, without_unit: dict[str, None]
) -> tuple[str, dict[str, Any]] | None:
    lightning = next((column for name, column in _LIGHTNING.items() if tag.endswith(name)), None)
    if lightning is not None:
        return "allocator", {"pid": pid, "device": f"cuda:{_index(tag)}", "step": step, lightning: int(value)}
    if not (_RSS.search(tag) or _MEMORY.search(tag)) or "percent" in tag:
        return None
    unit = _UNIT.search(tag)
    if unit is None:
        without_unit.setdefault(tag)
        return None
    bytes = amount(value, _UNITS[unit[1].lower()])
    if bytes is None:
        return None
    if _RSS.search(tag):
        return "process_samples", {"pid": pid, "rss_bytes": bytes}
    if _DEVICE.search(tag) and not re.search(r"free|total|avail", tag, re.IGNORECASE):
        column = "reserved_bytes" if "reserved" in tag.lower() else "allocated_bytes"
        return "allocator", {"pid": pid, "device": f"cuda:{_index(tag)}", "step": step, column: bytes}
    return None


def _index(tag: str) -> int:
    match = _INDEX.search(tag)
    return int(match[1]) if match else 0


def _number(value: Any) -> float | None:
    """Of the old kind of summary, and of the new one, a tensor of one element."""
    if value.HasField("simple_value"):
        return number(value.simple_value)
    if value.HasField("tensor"):
        from tensorboard.util import tensor_util  # type: ignore[import-untyped, unused-ignore]

        try:
            array = tensor_util.make_ndarray(value.tensor)
        except (TypeError, ValueError):
            return None
        return number(array.item()) if array.size == 1 and array.dtype.kind in "fiu" else None
    return None
