"""What the readers of user-space programs share: an event in a program's words, and each said once."""

from __future__ import annotations

from typing import Any

from .events import OomEvent, merged
from .records import Record


def told(record: Record, killer: str, **fields: Any) -> OomEvent:
    """An event of a user-space killer; ``fields`` overrides."""
    said: dict[str, Any] = {"constraint": "userspace", "constraint_basis": "userspace message"}
    return OomEvent(
        record.line_number,
        record.text,
        killer,
        is_kernel=False,
        time=record.time,
        time_kind=record.time_kind,
        kernel_time_s=record.kernel_time_s,
        **{**said, **fields},
    )


def by(record: Record, *tags: str) -> bool:
    """Whether the log leaves open who wrote the line, or names one of these."""
    return record.tag in (None, "kernel", *tags)


def once(events: list[OomEvent]) -> list[OomEvent]:
    """Without what was printed again. A line that names nothing may well stand twice for two."""
    found: list[OomEvent] = []
    places: dict[tuple[object, ...], int] = {}
    for event in events:
        key = (event.is_kernel, event.killer, event.text, event.time, event.container_id)
        if key in places:
            found[places[key]] = merged(found[places[key]], event)
            continue
        if event.is_kernel:
            pass  # compared already, by more than their words
        elif event.time or event.pid is not None or event.slurm_step or event.container_id:
            places[key] = len(found)
        found.append(event)
    return found


def names_unit(event: OomEvent, unit: str) -> bool:
    return unit in (event.cgroup or "").split("/")
