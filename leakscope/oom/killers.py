"""Kills by programs: earlyoom, systemd-oomd, Talos, Ray, the kubelet's eviction, Android's lmkd.

The programs' exact words; a line counts only if it starts so and, where the log names the writer, if that fits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from .events import OomEvent
from .programs import by, names_unit, told
from .records import Record

_EARLYOOM = tuple(
    re.compile(pattern)
    for pattern in (
        r"sending (?P<signal>SIG[A-Z]+) to process (?P<pid>\d+)(?: uid (?P<uid>\d+))? \"(?P<comm>.{0,80}?)\""
        r"(?:: (?:(?:badness|oom_score) .{0,300}?VmRSS (?P<rss>\d+) MiB)?|\W{0,8}$)",
        r"[Kk]illing process (?P<pid>\d+) \"(?P<comm>.{0,80}?)\" with signal (?P<signal>\w+): "
        r"badness .{0,300}?VmRSS (?P<rss>\d+) MiB",
        r"[Kk]illing process:? '(?P<comm>.{0,80}?)' with signal '?(?P<signal>\w+)'?, pid: (?P<pid>\d+), "
        r"badness: .{0,300}?VmRSS: (?P<rss>\d+) MiB",
        r"[Kk]illing process:? (?P<comm>.{1,80}?), pid: (?P<pid>\d+), badness: .{0,300}?VmRSS: (?P<rss>\d+) MiB",
    )
)
_EARLYOOM_1_0 = re.compile(r"Killing process (?P<pid>\d+) (?P<comm>\S.{0,14})$")
_EARLYOOM_SAYS = re.compile(
    r"mem avail: |low memory! |Out of memory! avail: |earlyoom v?\d|(?:sending )?SIG(?:TERM|KILL) when mem"
)
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
_TALOS = re.compile(r"(?:\[talos\] )?Sending (?P<signal>SIG\w+) to cgroup \{(?P<rest>.*)")
_TALOS_CGROUP = re.compile(r'"cgroup": ?"([^"]+)"')
_EVICTED = re.compile(r".{0,400}?The node was low on resource: memory\.")
_RAY_TASK = re.compile(r".{0,200}?\b(?:Task|Actor|actor|task)\b.{0,80}? killed due to the node running low on memory\.")
_RAY_NODE = re.compile(r".{0,200}?\bMemory on the node ")
_RAY_PID = re.compile(r"Memory on the node .{0,300}?\bpid=(\d+)")
_RAY_WORKERS = re.compile(r".{0,300}?\b(\d+) Workers \(tasks / actors\) killed due to memory pressure \(OOM\)")
_LMKD = re.compile(
    r"Kill(?:ing)? '(?P<comm>[^']{1,200})' \((?P<pid>\d+)\)(?:, uid (?P<uid>\d+))?, (?:oom_score_)?adj (?P<adj>-?\d+)"
    r"(?:,? to free (?P<rss>\d+) ?kB)?(?:.*?; reason: (?P<why>.*))?"
)
_SIGNALS = {"15": "SIGTERM", "9": "SIGKILL", "TERM": "SIGTERM", "KILL": "SIGKILL"}
_ANDROID_TAG = re.compile(r"(?:[VDIWEF]/)?(?:lowmemorykiller|lmkd)\s*(?:\(\s*\d+\))?: ")
_ANDROID = ("lowmemorykiller", "lmkd")
_WORDS: tuple[tuple[tuple[str, ...], tuple[re.Pattern[str], ...]], ...] = (
    (("earlyoom",), (*_EARLYOOM, _EARLYOOM_SAYS, _OUTCOME)),
    (("systemd-oomd", "systemd"), (_OOMD, _PRESSURE, _OOMD_TRIES, _OOMD_UNIT)),
    ((), (_TALOS, _EVICTED, _RAY_TASK, _RAY_NODE, _RAY_WORKERS)),
)
_LINES_HEARD = 10  # earlyoom to 1.0 names itself only in the lines before


def events(records: Sequence[Record]) -> list[OomEvent]:
    """The kills by programs, kind by kind."""
    return [*_earlyoom(records), *_oomd(records), *_single_lines(records)]


def knows(record: Record) -> bool:
    """Whether a line is in words that are read here, of those who may write them; also where nobody was killed."""
    return any(by(record, *tags) and any(p.match(record.text) for p in patterns) for tags, patterns in _WORDS)


def _earlyoom(records: Sequence[Record]) -> list[OomEvent]:
    events: list[OomEvent] = []
    heard = -_LINES_HEARD
    for index, record in enumerate(records):
        if not by(record, "earlyoom"):
            continue
        text = record.text
        if record.tag == "earlyoom" or _EARLYOOM_SAYS.match(text):
            heard = index
        if text[:1] in "Kks" and (match := _earlyoom_kill(text, index - heard < _LINES_HEARD)):
            said = match.groupdict()
            signal = said.get("signal")
            event = told(
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
        if by(record, "systemd") and (match := _OOMD_UNIT.match(text)):
            count = int(match["count"])
            index = next((i for i in range(len(events) - 1, -1, -1) if names_unit(events[i], match["unit"])), None)
            if index is None:
                events.append(told(record, "systemd-oomd", unit=match["unit"], processes=count))
            else:
                seen = events[index].pids
                pids_said = seen if seen and len(seen) == count else None
                pid = pids_said[0] if pids_said and count == 1 else None
                events[index] = replace(events[index], unit=match["unit"], processes=count, pid=pid, pids=pids_said)
        if not by(record, "systemd-oomd"):
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
    return told(
        record,
        "systemd-oomd",
        cgroup=match["cgroup"] if match["killed"] else match["marked"],
        oom_cgroup=pressure["cgroup"] if pressure and reason else None,
        reason=reason,
        pid=pids[0] if len(pids) == 1 else None,
        pids=tuple(pids) or None,
    )


def _single_lines(records: Sequence[Record]) -> Iterator[OomEvent]:
    """Killers that say all in a line."""
    for index, record in enumerate(records):
        text = record.text
        if "ending SIG" in text and (match := _TALOS.match(text)):
            cgroup = _TALOS_CGROUP.search(match["rest"])
            yield told(record, "talos", signal=match["signal"], cgroup=cgroup[1] if cgroup else None)
        elif "ill" in text and by(record, *_ANDROID) and (match := _LMKD.match(_without_tag(record))):
            yield told(
                record,
                "lmkd",
                comm=match["comm"],
                pid=int(match["pid"]),
                uid=int(match["uid"]) if match["uid"] else None,
                oom_score_adj=int(match["adj"]),
                signal="SIGKILL",
                vm_rss_mib=int(match["rss"]) // 1024 if match["rss"] else None,
                reason=match["why"],
            )
        elif "low on resource" in text and _EVICTED.match(text):
            yield told(record, "kubelet-eviction")
        elif "running low on memory" in text and _RAY_TASK.match(text):
            nearby = (_RAY_PID.search(other.text) for other in records[index : index + 3])
            pid_said = next((match for match in nearby if match), None)
            yield told(record, "ray", pid=int(pid_said[1]) if pid_said else None)
        elif "memory pressure (OOM)" in text and (match := _RAY_WORKERS.match(text)) and int(match[1]):
            yield told(record, "ray", processes=int(match[1]))


def _without_tag(record: Record) -> str:
    """Its text, where the tag shows that it is of Android's killer, in daemon or kernel; else nothing."""
    if record.tag in _ANDROID:
        return record.text
    match = _ANDROID_TAG.match(record.text)
    return record.text[match.end() :] if match else ""
