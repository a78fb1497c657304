"""Programs that tell of the kernel's kills: systemd of its units, container runtimes, the kubelet, Slurm."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from .events import OomEvent
from .pods import STATUS
from .programs import by, names_unit, told
from .records import Record

_UNIT = re.compile(
    r"(?P<unit>\S+\.\w+): (?:A process of this unit has been killed by the OOM killer|Failed with result 'oom-kill')"
)
_KUBELET = re.compile(
    r".{0,400}?(?P<what>System OOM|[Cc]group OOM|Memory cgroup OOM) encountered, "
    r"victim process: (?P<comm>.+), pid: (?P<pid>\d+)"
)
_SLURM = re.compile(
    r".{0,120}?error: .{0,40}?Detected \d+ oom[_-]kill event\S* in "
    r"(?:StepId=|step )(?P<step>[\w.+]+\w)"
)
_STATUS = re.compile(
    r"(?:\"?reason\"?|Reason): *['\"]?OOM ?Killed['\"]?,?$|.{0,300}?\breason:OOM ?Killed\b|"
    r"\"OOMKilled\": true,?$|\S+ +\d+/\d+ +OOMKilled +\d|"
    r".{0,80}?\bcontainer oom [0-9a-f]{12}"
)
_CONTAINER = re.compile(r"(?:[Cc]ontainer ?I[Dd]\"?:|\bcontainer oom) *\"?(?:\w+://)?([0-9a-f]{12,64})")
_LINES_APART = 200  # a status and the kernel lines it tells of stand in one stretch of a journal


def events(records: Sequence[Record], objects: Sequence[tuple[int, Any]]) -> list[OomEvent]:
    """What they tell; ``objects`` are the documents of a log that is JSON altogether."""
    return [*_single_lines(records), *(_of_objects(objects) if objects else _container_statuses(records))]


def knows(text: str) -> bool:
    """Whether a line is in words that are read here."""
    return any(pattern.match(text) for pattern in (_UNIT, _KUBELET, _SLURM, _STATUS))


def add_units(records: Sequence[Record], known: list[OomEvent]) -> list[OomEvent]:
    """The kernel's events with their units, and one for each unit whose kill the kernel's lines do not show."""
    named = list(known)
    for event in _units(records):
        index = _same_kill(named, event)
        if index is None:
            named.append(event)
        else:
            named[index] = replace(named[index], unit=named[index].unit or event.unit)
    return named


def _single_lines(records: Sequence[Record]) -> Iterator[OomEvent]:
    """Slurm and the kubelet, which say all in a line."""
    for record in records:
        text = record.text
        if "OOM encountered" in text and (match := _KUBELET.match(text)):
            constraint = "global" if match["what"] == "System OOM" else "memcg"
            pid, comm = int(match["pid"]), match["comm"]
            yield told(record, "kernel", constraint=constraint, constraint_basis="kubelet event", pid=pid, comm=comm)
        elif "kill event" in text and (match := _SLURM.match(text)):
            yield told(record, "kernel", constraint="memcg", constraint_basis="slurm message", slurm_step=match["step"])


def _container_statuses(records: Sequence[Record]) -> Iterator[OomEvent]:
    """`reason: OOMKilled` in the many shapes kubectl and docker print it; the nearest container id belongs to it."""
    for index, record in enumerate(records):
        if "OOM" in record.text and _STATUS.match(record.text):
            here = [record, *reversed(records[max(index - 8, 0) : index]), *records[index + 1 : index + 4]]
            ids = (_CONTAINER.search(other.text) for other in here)
            found = next((match for match in ids if match), None)
            yield _status(record, found[1] if found else None)


def _status(record: Record, container_id: str | None) -> OomEvent:
    return told(record, "kernel", constraint="memcg", constraint_basis=STATUS, container_id=container_id)


def _of_objects(objects: Sequence[tuple[int, Any]]) -> Iterator[OomEvent]:
    """Container statuses in whole JSON documents, with the container they are about."""
    seen: set[tuple[str, str]] = set()
    stack: list[tuple[int, Any, str | None]] = [(number, value, None) for number, value in reversed(objects)]
    while stack:
        number, node, container_id = stack.pop()
        if isinstance(node, list):
            stack.extend((number, child, container_id) for child in reversed(node))
        elif isinstance(node, dict):
            own = node.get("containerID") or node.get("Id") or container_id
            own = own if isinstance(own, str) else None
            if node.get("reason") == "OOMKilled" or node.get("OOMKilled") is True:
                key = (str(own), str(node.get("finishedAt") or node.get("FinishedAt")))
                if own is None or key not in seen:
                    seen.add(key)
                    record = Record(number, '"OOMKilled"')
                    yield _status(record, own.split("://")[-1] if own else None)
            children = (child for child in reversed(list(node.values())) if isinstance(child, (dict, list)))
            stack.extend((number, child, own) for child in children)


def _units(records: Sequence[Record]) -> Iterator[OomEvent]:
    """What systemd says of units: once for each kill, although it says it in two ways."""
    seen: set[str] = set()
    for record in records:
        text = record.text
        match = _UNIT.match(text) if "OOM killer" in text or "'oom-kill'" in text else None
        if match is None or not by(record, "systemd"):
            continue
        unit = match["unit"]
        if unit not in seen or "Failed with" not in text:
            seen.add(unit)
            yield told(record, "kernel", constraint=None, constraint_basis=None, unit=unit)


def _same_kill(known: list[OomEvent], event: OomEvent) -> int | None:
    """The kernel's own event for what systemd tells: its cgroup names the unit, or it says no cgroup and is near."""
    named = [i for i, other in enumerate(known) if event.unit and names_unit(other, event.unit)]
    if named:
        return named[-1]
    for index in range(len(known) - 1, -1, -1):
        if known[index].cgroup is None and 0 < event.line_number - known[index].line_number < _LINES_APART:
            return index
    return None
