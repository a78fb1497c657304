"""What Kubernetes says of a pod's containers: `kubectl describe pod` and `kubectl get pod -o json`, joined with kills.

The kernel knows a container by its cgroup, Kubernetes knows its pod, its node and its limit. Who pastes both into one
text gets one answer. They are joined by the container's id, or by the pod's UID, which the path of the cgroup holds.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

from .events import OomEvent
from .records import Record

STATUS = "container status"  # the basis of events that are such a line
_FIELD = re.compile(r"([A-Z][\w /-]{1,40}): +(\S.*)")
_NAME = re.compile(r"([a-z0-9](?:[a-z0-9.-]{0,250}[a-z0-9])?):")
_QUANTITY = re.compile(r"(\d+(?:\.\d+)?)(m|[kKMGTPE]i?|)")
_ID = re.compile(r"(?:\w+://)?([0-9a-f]{12,64})")
_UNITS = {"": 1, "m": 1e-3, "k": 1e3, **{unit: 1000 ** (i + 1) for i, unit in enumerate("KMGTPE")}}
_BINARY = {f"{unit}i": 1024 ** (i + 1) for i, unit in enumerate("KMGTPE")}


@dataclass
class Container:
    """One container of a pod, and where the text says that it was OOM-killed (None: it does not).

    ``id`` is that of the process which was killed: after a restart `kubectl describe` shows another one.
    """

    pod: str
    namespace: str | None = None
    node: str | None = None
    uid: str | None = None
    name: str | None = None
    id: str | None = None
    limit_kb: int | None = None
    restart_count: int | None = None
    killed_line: int | None = None

    @property
    def full_name(self) -> str:
        return f"{self.namespace}/{self.pod}" if self.namespace else self.pod


def joined(events: Sequence[OomEvent], records: Sequence[Record], objects: Sequence[tuple[int, Any]]) -> list[OomEvent]:
    """The events with what is known of their container; a status that tells of a kernel's kill in the text goes."""
    containers = [*_of_objects(objects)] if objects else [*_described(records)]
    if not containers:
        return list(events)
    told: list[OomEvent] = []
    shown: set[int] = set()
    for event in events:
        container = _of_kernel(event, containers) if event.is_kernel else None
        if container is not None:
            shown.add(id(container))
        told.append(_with(event, container) if container is not None else event)
    result = []
    for event in told:
        if event.constraint_basis == STATUS and (container := _of_status(event, containers)) is not None:
            if id(container) in shown:
                continue
            event = _with(event, container)
        result.append(event)
    return result


def _with(event: OomEvent, container: Container) -> OomEvent:
    return replace(
        event,
        pod=container.full_name,
        node=container.node,
        container=container.name,
        container_id=container.id or (event.container_id if event.is_kernel else None),
        limit_kb=event.limit_kb or container.limit_kb,
        restart_count=container.restart_count,
    )


def _of_kernel(event: OomEvent, containers: Sequence[Container]) -> Container | None:
    """By the id in its cgroup's path; else by the pod's UID, if only one container of it was killed."""
    path = f"{event.cgroup or ''} {event.oom_cgroup or ''}"
    by_id = [one for one in containers if one.id and one.id in path]
    if by_id:
        return by_id[0]
    flat = path.replace("_", "-")
    of_pod = [one for one in containers if one.uid and f"pod{one.uid}" in flat and one.killed_line is not None]
    return of_pod[0] if len(of_pod) == 1 else None


def _of_status(event: OomEvent, containers: Sequence[Container]) -> Container | None:
    for one in containers:
        same_id = event.container_id and one.id and one.id.startswith(event.container_id)
        if one.killed_line is not None and (one.killed_line == event.line_number or same_id):
            return one
    return None


def _described(records: Sequence[Record]) -> Iterator[Container]:
    """`kubectl describe pod`: fields in the order in which it prints them."""
    pod: dict[str, str] = {}
    container: Container | None = None
    state = before = ""
    limits = False
    for record in records:
        text = record.text.strip()
        match = _FIELD.fullmatch(text)
        key, value = (match[1], match[2].strip()) if match else ("", "")
        if key == "Name" or text == "Events:":
            if container is not None:
                yield container
            pod, container, state = ({"Name": value} if key == "Name" else {}), None, ""
        elif key in ("Namespace", "Node"):
            pod[key] = value
        elif key == "Container ID" and "Name" in pod:
            if container is not None:
                yield container
            name, found = _NAME.fullmatch(before), _ID.fullmatch(value)
            container = Container(
                pod["Name"], pod.get("Namespace"), pod.get("Node", "").partition("/")[0] or None,
                name=name[1] if name else None, id=found[1] if found else None,
            )  # fmt: skip
            state = ""
        elif container is not None:
            if key in ("State", "Last State"):
                state = key
            elif key == "Reason" and value == "OOMKilled":
                container.killed_line = record.line_number
                container.id = container.id if state == "State" else None  # of the one that was started since
            elif key == "Restart Count" and value.isdigit():
                container.restart_count = int(value)
            elif limits and text.startswith("memory:"):
                container.limit_kb = _kb(text.partition(":")[2].strip())
        limits = text == "Limits:" or (limits and text.startswith(("cpu:", "ephemeral-storage:", "nvidia.com/")))
        before = text
    if container is not None:
        yield container


def _of_objects(objects: Sequence[tuple[int, Any]]) -> Iterator[Container]:
    """`kubectl get pod -o json`: one pod, or a list of them."""
    for number, value in objects:
        members = value.get("items") if isinstance(value, dict) else None
        for pod in members if isinstance(members, list) else [value]:
            if isinstance(pod, dict) and pod.get("kind") in ("Pod", None):
                yield from _of_pod(number, pod)


def _of_pod(number: int, pod: dict[str, Any]) -> Iterator[Container]:
    meta, spec, status = (_dict(pod.get(name)) for name in ("metadata", "spec", "status"))
    if not isinstance(meta.get("name"), str):
        return
    limits = {
        _text(one.get("name")): _dict(_dict(one.get("resources")).get("limits")).get("memory")
        for one in _dicts(spec.get("containers"))
    }
    for one in _dicts(status.get("containerStatuses")):
        ended = [_dict(_dict(one.get(state)).get("terminated")) for state in ("state", "lastState")]
        killed = next((end for end in ended if end.get("reason") == "OOMKilled"), None)
        found = _ID.fullmatch(str((killed or one).get("containerID") or ""))
        restarts = one.get("restartCount")
        yield Container(
            meta["name"], _text(meta.get("namespace")), _text(spec.get("nodeName")), _text(meta.get("uid")),
            _text(one.get("name")), found[1] if found else None, _kb(str(limits.get(_text(one.get("name"))) or "")),
            restarts if isinstance(restarts, int) else None, number if killed is not None else None,
        )  # fmt: skip


def _kb(quantity: str) -> int | None:
    """``16Gi`` and ``500M`` of Kubernetes."""
    match = _QUANTITY.fullmatch(quantity)
    return int(float(match[1]) * {**_UNITS, **_BINARY}[match[2]] // 1024) if match and match[2] != "ki" else None


def _dict(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> list[dict[str, Any]]:
    return [one for one in value if isinstance(one, dict)] if isinstance(value, list) else []


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None
