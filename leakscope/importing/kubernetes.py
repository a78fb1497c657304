"""Kubernetes: `kubectl describe pod`, `kubectl get pod -o json` and `kubectl get events -o json`."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from .. import oom
from ._facts import UNIX, Fact, NotThisFormat
from ._figures import Moment, moment, sized
from ._source import Source
from .kernel_log import victim

LACKS = "says how containers ended and what their limits are, not how memory got there"
_FIELD = re.compile(r"^( *)([A-Z][A-Za-z ]*?): *(?! )(.*)$")
_NAME = re.compile(r"^  ([a-z0-9][-a-z0-9.]*):$")
_ID = re.compile(r"([0-9a-f]{12,64})$")


def sniff(head: bytes, name: str) -> bool:
    text = head.decode("utf-8", "replace")
    is_described = re.search(r"^Name: +\S", text, re.M) and re.search(r"^(Containers|Node|Namespace):", text, re.M)
    is_object = re.search(r'"kind": *"(Event|Pod|List|EventList|PodList)"', text) and '"apiVersion"' in text
    return bool(is_described or is_object)


def read(source: Source) -> Iterator[Fact]:
    """A container that ended out of memory is a process that was killed; its limit is that of its cgroup."""
    source.tool, source.clock = "kubectl", UNIX
    told = 0
    is_json = source.head().lstrip().startswith((b"{", b"["))
    for fact in _of_objects(source, source.document()) if is_json else _of_text(source):
        told += fact.table == "kernel_log"
        yield fact
    if not told:
        source.notes.append("it names no container that was ended for lack of memory")


def _of_objects(source: Source, document: Any) -> Iterator[Fact]:
    items = document.get("items") if isinstance(document, dict) else document
    for item in items if isinstance(items, list) else [document]:
        if not isinstance(item, dict):
            continue
        if item.get("kind") == "Event" or "involvedObject" in item:
            yield from _event(source, item)
        elif isinstance(item.get("status"), dict):
            yield from _pod(source, item)


def _event(source: Source, event: dict[str, Any]) -> Iterator[Fact]:
    """Events that carry a line of the kernel (node-problem-detector, kubelet), and those that say OOM of a pod."""
    stamps = (event.get(key) for key in ("lastTimestamp", "eventTime", "firstTimestamp"))
    at = next((found for stamp in stamps if isinstance(stamp, str) and (found := moment(stamp))), None)
    message, reason = str(event.get("message", "")), str(event.get("reason", ""))
    if at is None:
        source.left_out += 1
        return
    readings = oom.read(message).events
    if readings or "oom" in reason.lower():
        yield Fact("kernel_log", at[0], {"log_source": "file", "text": message[:4000] or reason})
    for one in readings:
        yield from victim(source, one, at[0])
    about = event.get("involvedObject")
    name = about.get("name") if isinstance(about, dict) else None
    yield Fact("events", at[0], {"event": "imported", "text": f"{reason} of {name}: {message}"[:500]})


def _pod(source: Source, pod: dict[str, Any]) -> Iterator[Fact]:
    about, status, spec = (_table(pod.get(key)) for key in ("metadata", "status", "spec"))
    limits = {
        c.get("name"): _memory(_table(_table(c.get("resources")).get("limits")).get("memory"))
        for c in spec.get("containers") or ()
        if isinstance(c, dict)
    }
    path = f"/{about.get('namespace', 'default')}/{about.get('name', 'pod')}"
    for one in status.get("containerStatuses") or ():
        for state in (one.get("lastState"), one.get("state")):
            ended = state.get("terminated") if isinstance(state, dict) else None
            if not isinstance(ended, dict):
                continue
            yield from _ended(
                source, path, str(one.get("name")), limits.get(one.get("name")),
                str(ended.get("containerID") or one.get("containerID") or ""), str(ended.get("reason")),
                ended.get("exitCode"), moment(str(ended.get("startedAt"))), moment(str(ended.get("finishedAt"))),
            )  # fmt: skip


def _table(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


class _Container:
    def __init__(self, name: str) -> None:
        self.name = name
        self.fields: dict[str, str] = {}


def _of_text(source: Source) -> Iterator[Fact]:
    """By indentation: a name in ``Containers``, below it its fields, and below State and Last State theirs."""
    namespace, pod = "default", "pod"
    one: _Container | None = None
    section = state = ""
    for line in source.lines():
        if name := _NAME.match(line):
            yield from _container(source, f"/{namespace}/{pod}", one)
            one = _Container(name[1]) if section in ("Containers", "Init Containers") else None
            continue
        field = _FIELD.match(line)
        if field is None:
            continue
        depth, key, value = len(field[1]), field[2], field[3].strip()
        if depth == 0:
            yield from _container(source, f"/{namespace}/{pod}", one)
            one, section = None, key
            if key == "Name":
                pod = value
            elif key == "Namespace":
                namespace = value
        elif one is not None:
            if depth <= 4:
                state = key
                one.fields[key] = value
            else:
                one.fields[f"{state}/{key}"] = value
        if one is not None and (found := re.match(r"^ {6,}memory: +(\S+)", line)):
            one.fields[f"{state}/memory"] = found[1]
    yield from _container(source, f"/{namespace}/{pod}", one)


def _container(source: Source, path: str, one: _Container | None) -> Iterator[Fact]:
    if one is None:
        return
    fields = one.fields
    for state in ("Last State", "State"):
        if fields.get(state) == "Terminated":
            yield from _ended(
                source, path, one.name, _memory(fields.get("Limits/memory")), fields.get("Container ID", ""),
                fields.get(f"{state}/Reason", ""), fields.get(f"{state}/Exit Code"),
                moment(fields.get(f"{state}/Started", "")), moment(fields.get(f"{state}/Finished", "")),
            )  # fmt: skip


def _ended(
    source: Source, path: str, name: str, limit: int | None, container: str, reason: str, code: Any,
    started: Moment | None, finished: Moment | None,
) -> Iterator[Fact]:  # fmt: skip
    if finished is None:
        source.left_out += 1
        return
    begin_s = started[0] if started is not None else finished[0]
    match = _ID.search(container)
    cgroup = f"{path}/{name}/{match[1]}" if match else f"{path}/{name}"
    is_oom = reason == "OOMKilled"
    status = int(code) if str(code).isdigit() and len(str(code)) < 6 else None
    ended = {"exit_signal": 9} if is_oom else {"exit_code": status}
    pid = source.unnamed(f"{cgroup} {begin_s}", comm=name, cgroup=cgroup, died_s=finished[0], **ended)
    if begin_s > finished[0]:
        raise NotThisFormat("has a container that ended before it began")
    for at_s in sorted({begin_s, finished[0]}):
        yield Fact("cgroup_samples", at_s, {"cgroup": cgroup, "limit_bytes": limit})
        yield Fact("events", at_s, {"event": "imported", "pid": pid, "text": f"container {name}: {reason}"})
    if is_oom:
        said = f"Container ID: {match[1]}" if match else f"container {name}"
        yield Fact("kernel_log", finished[0], {"log_source": "file", "text": said})
        yield Fact("kernel_log", finished[0], {"log_source": "file", "text": "Reason: OOMKilled"})


def _memory(text: Any) -> int | None:
    """``2Gi``, ``512M``, ``1073741824`` of Kubernetes: M is ten to the sixth there."""
    if not isinstance(text, (str, int)):
        return None
    word = str(text).strip()
    if re.fullmatch(r"[0-9.]+[kMGT]", word):
        word = f"{word}B"
    return sized(re.sub(r"i$", "iB", word))
