"""Kills by programs (earlyoom, systemd-oomd, Talos, Ray, the kubelet), and programs that tell of the kernel's.

The programs' exact words; a line counts only if it starts so and, where the log names the writer, if that fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from .events import OomEvent
from .records import Record

_EARLYOOM = tuple(
    re.compile(pattern)
    for pattern in (
        r"sending (?P<signal>SIG[A-Z]+) to process (?P<pid>\d+)(?: uid (?P<uid>\d+))? \"(?P<comm>.*?)\": "
        r"(?:badness|oom_score) .*?VmRSS (?P<rss>\d+) MiB",
        r"[Kk]illing process (?P<pid>\d+) \"(?P<comm>.*?)\" with signal (?P<signal>\w+): "
        r"badness .*?VmRSS (?P<rss>\d+) MiB",
        r"[Kk]illing process:? '(?P<comm>.*?)' with signal '?(?P<signal>\w+)'?, pid: (?P<pid>\d+), "
        r"badness: .*?VmRSS: (?P<rss>\d+) MiB",
        r"[Kk]illing process:? (?P<comm>.+?), pid: (?P<pid>\d+), badness: .*?VmRSS: (?P<rss>\d+) MiB",
    )
)
_EARLYOOM_1_0 = re.compile(r"Killing process (?P<pid>\d+) (?P<comm>\S.{0,14})$")
_EARLYOOM_SAYS = re.compile(r"mem avail: |low memory! |Out of memory! avail: |earlyoom v?\d")
_OUTCOME = re.compile(
    r"(?:process (?:\d+ )?(?P<exited>exited after [\d.]+ seconds?)|process (?P<stays>\d+) did not exit|"
    r"(?P<escalates>escalating to SIGKILL)|(?P<failed>kill failed: .*)|(?P<dry>dryrun, not actually))"
)
_OOMD = re.compile(
    r"(?:(?P<killed>Killed) (?P<cgroup>/\S*)|Marked (?P<marked>/\S*) for killing) due to (?P<why>(?:memory|swap) .*)"
)
_PRESSURE = re.compile(r"[Mm]emory pressure for (?P<cgroup>/\S*) (?:is|being) (?P<why>[\d.]+% > [\d.]+% for > \S+)")
_OOMD_TRIES = re.compile(r"oomd attempting to kill (\d+) with KILL")
_OOMD_UNIT = re.compile(r"(?P<unit>\S+\.\w+): systemd-oomd killed (?P<count>\d+) process\(es\) in this unit")
_UNIT = re.compile(
    r"(?P<unit>\S+\.\w+): (?:A process of this unit has been killed by the OOM killer|Failed with result 'oom-kill')"
)
_TALOS = re.compile(r"(?:\[talos\] )?Sending (?P<signal>SIG\w+) to cgroup \{(?P<rest>.*)")
_TALOS_CGROUP = re.compile(r'"cgroup": ?"([^"]+)"')
_KUBELET = re.compile(
    r".{0,400}?(?P<what>System OOM|[Cc]group OOM|Memory cgroup OOM) encountered, "
    r"victim process: (?P<comm>.+), pid: (?P<pid>\d+)"
)
_EVICTED = re.compile(r".{0,400}?The node was low on resource: memory\.")
_RAY_TASK = re.compile(r".{0,200}?\b(?:Task|Actor|actor|task)\b.{0,80}? killed due to the node running low on memory\.")
_RAY_PID = re.compile(r"Memory on the node .{0,300}?\bpid=(\d+)")
_RAY_WORKERS = re.compile(r".{0,300}?\b(\d+) Workers \(tasks / actors\) killed due to memory pressure \(OOM\)")
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
_SIGNALS = {"15": "SIGTERM", "9": "SIGKILL", "TERM": "SIGTERM", "KILL": "SIGKILL"}
_LINES_APART = 200  # a status and the kernel lines it tells of stand in one stretch of a journal


def add(records: Sequence[Record], objects: Sequence[tuple[int, Any]], kernel_events: list[OomEvent]) -> list[OomEvent]:
    """The kernel's events and those that programs tell of, in the order of the log, each kill once."""
    events = [*_earlyoom(records), *_oomd(records), *_single_lines(records)]
    events += _container_statuses(records) if not objects else _of_objects(objects)
    known = list(kernel_events)
    for event in _units(records):
        index = _same_kill(known, event)
        if index is None:
            events.append(event)
        else:
            known[index] = replace(known[index], unit=known[index].unit or event.unit)
    return sorted([*known, *events], key=lambda event: event.line_number)


def _told(record: Record, killer: str, **fields: Any) -> OomEvent:
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


def _by(record: Record, *tags: str) -> bool:
    """Whether the log leaves open who wrote the line, or names one of these."""
    return record.tag in (None, "kernel", *tags)


def _earlyoom(records: Sequence[Record]) -> list[OomEvent]:
    events: list[OomEvent] = []
    heard = -_LINES_APART
    for index, record in enumerate(records):
        if not _by(record, "earlyoom"):
            continue
        text = record.text
        if record.tag == "earlyoom" or _EARLYOOM_SAYS.match(text):
            heard = index
        if text[:1] in "Kks" and (match := _earlyoom_kill(text, index - heard < 10)):
            said = match.groupdict()
            signal = said.get("signal")
            event = _told(
                record,
                "earlyoom",
                pid=int(said["pid"]),
                comm=said["comm"],
                uid=int(said["uid"]) if said.get("uid") else None,
                signal=_SIGNALS.get(signal, signal) if signal else None,
                vm_rss_mib=int(said["rss"]) if said.get("rss") else None,
            )
            heard = index
            if events and events[-1].pid == event.pid and events[-1].comm == event.comm and not events[-1].outcome:
                events[-1] = _with_signal(events[-1], event.signal)
            else:
                events.append(event)
        elif events and (match := _OUTCOME.match(text)):
            if match["dry"]:
                events.pop()
            elif match["escalates"]:
                events[-1] = _with_signal(events[-1], "SIGKILL")
            elif outcome := match["exited"] or (match["stays"] and "did not exit"):
                events[-1] = replace(events[-1], outcome=outcome)
            elif match["failed"] and not events[-1].outcome:
                events[-1] = replace(events[-1], outcome=match["failed"])
    return events


def _earlyoom_kill(text: str, heard_lately: bool) -> re.Match[str] | None:
    match = next((m for pattern in _EARLYOOM if (m := pattern.match(text))), None)
    return match or (_EARLYOOM_1_0.match(text) if heard_lately else None)


def _with_signal(event: OomEvent, signal: str | None) -> OomEvent:
    if signal is None or (event.signal or "").endswith(signal):
        return event
    return replace(event, signal=f"{event.signal}, then {signal}" if event.signal else signal)


def _oomd(records: Sequence[Record]) -> list[OomEvent]:
    events: list[OomEvent] = []
    pressure: re.Match[str] | None = None
    pids: list[int] = []
    for record in records:
        text = record.text
        if _by(record, "systemd") and (match := _OOMD_UNIT.match(text)):
            count = int(match["count"])
            index = next((i for i in range(len(events) - 1, -1, -1) if _names(events[i], match["unit"])), None)
            if index is None:
                events.append(_told(record, "systemd-oomd", unit=match["unit"], processes=count))
            else:
                seen = events[index].pids
                pids_said = seen if seen and len(seen) == count else None
                pid = pids_said[0] if pids_said and count == 1 else None
                events[index] = replace(events[index], unit=match["unit"], processes=count, pid=pid, pids=pids_said)
        if not _by(record, "systemd-oomd"):
            continue
        if match := _OOMD_TRIES.match(text):
            pids = sorted({*pids, int(match[1])})
        elif match := _OOMD.match(text):
            event = _oomd_event(record, match, _PRESSURE.search(match["why"]) or pressure, pids)
            if events and events[-1].cgroup == event.cgroup and events[-1].processes is None and match["killed"]:
                event = replace(events[-1], pid=events[-1].pid or event.pid, pids=events[-1].pids or event.pids)
                events.pop()  # it was marked before
            events.append(event)
            pressure, pids = None, []
        elif match := _PRESSURE.match(text):
            pressure = match
    return events


def _oomd_event(record: Record, match: re.Match[str], pressure: re.Match[str] | None, pids: list[int]) -> OomEvent:
    why = match["why"]
    reason: str | None = why.rstrip(".")
    if why.startswith("memory pressure"):
        fits = pressure is not None and f"memory pressure for {pressure['cgroup']} " in f"{why} "
        reason = f"memory pressure {pressure['why']}" if pressure and fits else None
    elif why.endswith(">"):
        reason = None  # cut by a pager
    return _told(
        record,
        "systemd-oomd",
        cgroup=match["cgroup"] if match["killed"] else match["marked"],
        oom_cgroup=pressure["cgroup"] if pressure and reason else None,
        reason=reason,
        pid=pids[0] if len(pids) == 1 else None,
        pids=tuple(pids) or None,
    )


def _names(event: OomEvent, unit: str) -> bool:
    return unit in (event.cgroup or "").split("/")


def _single_lines(records: Sequence[Record]) -> Iterator[OomEvent]:
    """Killers and reporters that say all in a line."""
    for index, record in enumerate(records):
        text = record.text
        if "ending SIG" in text and (match := _TALOS.match(text)):
            cgroup = _TALOS_CGROUP.search(match["rest"])
            yield _told(record, "talos", signal=match["signal"], cgroup=cgroup[1] if cgroup else None)
        elif "OOM encountered" in text and (match := _KUBELET.match(text)):
            constraint = "global" if match["what"] == "System OOM" else "memcg"
            pid, comm = int(match["pid"]), match["comm"]
            yield _told(record, "kernel", constraint=constraint, constraint_basis="kubelet event", pid=pid, comm=comm)
        elif "low on resource" in text and _EVICTED.match(text):
            yield _told(record, "kubelet-eviction")
        elif "running low on memory" in text and _RAY_TASK.match(text):
            nearby = (_RAY_PID.search(other.text) for other in records[index : index + 3])
            pid_said = next((match for match in nearby if match), None)
            yield _told(record, "ray", pid=int(pid_said[1]) if pid_said else None)
        elif "memory pressure (OOM)" in text and (match := _RAY_WORKERS.match(text)) and int(match[1]):
            yield _told(record, "ray", processes=int(match[1]))
        elif "kill event" in text and (match := _SLURM.match(text)):
            yield _told(
                record, "kernel", constraint="memcg", constraint_basis="slurm message", slurm_step=match["step"]
            )


def _container_statuses(records: Sequence[Record]) -> Iterator[OomEvent]:
    """`reason: OOMKilled` in the many shapes kubectl and docker print it; the nearest container id belongs to it."""
    for index, record in enumerate(records):
        if "OOM" in record.text and _STATUS.match(record.text):
            here = [record, *reversed(records[max(index - 8, 0) : index]), *records[index + 1 : index + 4]]
            ids = (_CONTAINER.search(other.text) for other in here)
            found = next((match for match in ids if match), None)
            yield _status(record, found[1] if found else None)


def _status(record: Record, container_id: str | None) -> OomEvent:
    basis = "container status"
    return _told(record, "kernel", constraint="memcg", constraint_basis=basis, container_id=container_id)


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
    told: set[str] = set()
    for record in records:
        text = record.text
        match = _UNIT.match(text) if "OOM killer" in text or "'oom-kill'" in text else None
        if match is None or not _by(record, "systemd"):
            continue
        unit = match["unit"]
        if unit not in told or "Failed with" not in text:
            told.add(unit)
            yield _told(record, "kernel", constraint=None, constraint_basis=None, unit=unit)


def _same_kill(known: list[OomEvent], event: OomEvent) -> int | None:
    """The kernel's own event for what systemd tells: its cgroup names the unit, or it says no cgroup and is near."""
    named = [i for i, other in enumerate(known) if event.unit and _names(other, event.unit)]
    if named:
        return named[-1]
    for index in range(len(known) - 1, -1, -1):
        if known[index].cgroup is None and 0 < event.line_number - known[index].line_number < _LINES_APART:
            return index
    return None
