"""A trace for ui.perfetto.dev and chrome://tracing: memory as counters, phases and steps as slices, kills as instants.

It is in the trace event format (JSON), packed, and opens beside a trace of torch.profiler on one clock: microseconds
since the same moment, ``baseTimeNanoseconds``. ``--with TRACE`` writes both into one file.
"""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from ..errors import BadInput, UnreadableRecording
from ..facts.case import Case
from ..facts.processes.table import Process
from ..facts.tables import int_of, records, text_of
from ..findings import Finding, Report
from ..reporting import report_of
from ..storage import Rows, is_null, joined
from ..units import GiB, format_bytes
from ._curves import Clock, Curve, curves, thinned, whole

SUFFIX = ".trace.json.gz"
Event = dict[str, Any]
# torch.profiler counts from a multiple of a quarter of a year, so that microseconds keep their fractions as a double.
# Source: libkineto, output_json.cpp.
_QUARTER_NS = 7_889_238 * 10**9
_EPOCH_US = 10**15  # since 1970 it is more: a trace without a base that counts from there
_MOST_POINTS = 20_000  # of a counter: what is between is drawn by its lowest and highest
_MOST_TRACE_BYTES = 2 * GiB
_FIRST_TID = 1 << 22  # no thread has a number from here on (PID_MAX_LIMIT)
_ONE_TRACK = {"alert": "alerts", "pressure": "alerts", "death": "deaths"}
_EVERYWHERE = ("death", "alert", "pressure")  # drawn as a line across all tracks
_EVENTS_AT_ONCE = 5_000


def chunks(case: Case, beside: Path | None = None) -> Iterator[bytes]:
    """The trace, piece by piece. **Errors** BadInput, UnreadableRecording for a trace that is none or has no clock.

    ``traceEvents`` stands first: Perfetto's trace processor (v24) drops all events behind a key that it does not know.
    """
    other = _read_trace(beside) if beside is not None else {"traceEvents": []}
    trace = _Trace(case, other)
    head = {name: value for name, value in other.items() if name != "traceEvents"}
    head |= {"displayTimeUnit": "ms", "baseTimeNanoseconds": trace.base_ns, "leakscope": _about(case)}
    yield b'{"traceEvents": [\n'
    separator = b""
    for part in _parts(_all(other["traceEvents"], trace)):
        yield separator + b",\n".join(json.dumps(event, allow_nan=False).encode() for event in part)
        separator = b",\n"
    yield b"\n], " + json.dumps(head)[1:].encode() + b"\n"


def _all(events: Sequence[Event], trace: _Trace) -> Iterator[Event]:
    yield from events
    yield from trace.events()


def _parts(events: Iterable[Event]) -> Iterator[list[Event]]:
    part: list[Event] = []
    for event in events:
        part.append(event)
        if len(part) == _EVENTS_AT_ONCE:
            yield part
            part = []
    if part:
        yield part


def _about(case: Case) -> dict[str, Any]:
    meta = case.recording.meta
    return {"recording": case.recording.path.name, "command": meta.get("command"), "host": meta.get("host")}


class _Trace:
    """The events of one recording."""

    def __init__(self, case: Case, other: dict[str, Any]) -> None:
        self._case, self._recording = case, case.recording
        self._clock = Clock(case.recording)
        start_ns = self._clock.at(0.0)
        self.base_ns = int(other.get("baseTimeNanoseconds", start_ns // _QUARTER_NS * _QUARTER_NS))
        self._processes = {(process.pid, process.start_ticks): process for process in case.processes}
        self._pids = _pids(self._processes.values(), {event.get("pid") for event in other["traceEvents"]})
        self._own_pid = whole(self._recording.meta.get("recorder_pid")) or 1
        self._tids: dict[tuple[int, str], int] = {}

    def events(self) -> Iterator[Event]:
        yield self._named(self._own_pid, "process_name", name="leakscope")
        yield self._named(self._own_pid, "process_sort_index", sort_index=-1)
        for process in self._processes.values():
            rank = f", rank {process.rank}" if process.rank is not None else ""
            yield self._named(self._pid(process), "process_name", name=f"{process.name} ({process.role}{rank})")
        for curve in curves(self._case, self._clock):
            yield from self._counter(curve)
        yield from self._phases()
        yield from self._steps()
        yield from self._snapshots()
        report = report_of(self._case)
        yield from self._moments(report)
        yield from self._findings(report)

    # ---- pieces of an event

    def _us(self, unix_ns: int) -> float:
        return round((unix_ns - self.base_ns) / 1000, 3)

    def _pid(self, process: Process | None) -> int:
        return self._own_pid if process is None else self._pids.get((process.pid, process.start_ticks), process.pid)

    def _named(self, pid: int, what: str, **args: Any) -> Event:
        return {"ph": "M", "pid": pid, "tid": 0, "name": what, "args": args}

    def _track(self, pid: int, name: str) -> Iterator[Event]:
        """A track of a process, where it is new; its number is that of no thread."""
        if (pid, name) not in self._tids:
            self._tids[pid, name] = tid = _FIRST_TID + len(self._tids)
            yield {**self._named(pid, "thread_name", name=name), "tid": tid}

    def _slice(self, pid: int, track: str, name: str, start_ns: int, end_ns: int, args: dict[str, Any]) -> Event:
        dur = round(max(0, end_ns - start_ns) / 1000, 3)
        tid = self._tids[pid, track]
        return {"ph": "X", "pid": pid, "tid": tid, "ts": self._us(start_ns), "dur": dur, "name": name, "args": args}

    def _instant(self, pid: int, track: str, scope: str, name: str, at_ns: int, args: dict[str, Any]) -> Event:
        tid = self._tids[pid, track]
        return {"ph": "i", "s": scope, "pid": pid, "tid": tid, "ts": self._us(at_ns), "name": name, "args": args}

    # ---- what is told

    def _counter(self, curve: Curve) -> Iterator[Event]:
        name = " ".join([*curve.about.values(), curve.column])
        pid = self._pid(curve.process)
        if curve.process is None:
            name = f"{curve.subject} {name}"
        for index in thinned(curve.values, _MOST_POINTS).tolist():
            value = float(curve.values[index])
            args = {"value": int(value) if value.is_integer() else value}
            yield {"ph": "C", "pid": pid, "ts": self._us(int(curve.time_ns[index])), "name": name, "args": args}

    def _of_process(self, table: str) -> Iterator[tuple[Process, Rows]]:
        frame = self._recording.rows[table]
        for key, rows in frame.dropna(["pid"]).groupby(["pid", "start_ticks"]):
            process = self._processes.get(cast("tuple[int, int]", key))
            if process is not None:
                yield process, rows.sort_values("time_mono_ns")

    def _last_ns(self, process: Process) -> int:
        """When it was last seen."""
        return int(self._clock.unix_ns(process.samples).max()) if len(process.samples) else 0

    def _phases(self) -> Iterator[Event]:
        for process, rows in self._of_process("marks"):
            marked = rows[rows["phase"].notna() & rows["text"].isna()]
            begun = marked[np.array(marked["phase"]) != np.array(["", *marked["phase"]], dtype=object)[:-1]]
            if not len(begun):
                continue
            pid = self._pid(process)
            yield from self._track(pid, "phases")
            starts = self._clock.unix_ns(begun).tolist()
            ends = [*starts[1:], max(self._last_ns(process), starts[-1])]
            for start, end, phase in zip(starts, ends, begun["phase"].tolist()):
                yield self._slice(pid, "phases", str(phase), start, end, {})

    def _steps(self) -> Iterator[Event]:
        """From each reading at which the count had gone on to the next: one step, or those that passed meanwhile."""
        readings = joined(
            [self._recording.rows[table][["pid", "start_ticks", "time_mono_ns", "step"]] for table in _WITH_STEPS]
        ).dropna()
        for key, rows in readings.groupby(["pid", "start_ticks"]):
            process = self._processes.get(cast("tuple[int, int]", key))
            own = rows.sort_values("time_mono_ns")
            own = own[own["step"] > np.append(-1, np.maximum.accumulate(own["step"].values))[:-1]]
            if process is None or len(own) < 2:
                continue
            pid = self._pid(process)
            yield from self._track(pid, "steps")
            times, steps = self._clock.unix_ns(own).tolist(), own["step"].tolist()
            for start, end, before, after in zip(times, times[1:], steps, steps[1:]):
                name = f"step {after}" if after == before + 1 else f"steps {before + 1} to {after}"
                yield self._slice(pid, "steps", name, start, end, {"count": after - before})

    def _snapshots(self) -> Iterator[Event]:
        """Each as long as it held its thread."""
        for process, rows in self._of_process("takes"):
            pid = self._pid(process)
            yield from self._track(pid, "snapshots")
            for at_ns, row in zip(self._clock.unix_ns(rows).tolist(), records(rows)):
                held_s = row["duration_s"] if not is_null(row["duration_s"]) else 0.0
                args = {c: int_of(row, c) for c in ("step", "rss_bytes", "python_bytes", "tensor_bytes")}
                args = {name: value for name, value in args.items() if value is not None}
                name = f"snapshot {int_of(row, 'take')} ({text_of(row, 'reason')})"
                where = {"safe_point": text_of(row, "safe_point")}
                end_ns = at_ns + round(held_s * 1e9)
                yield self._slice(pid, "snapshots", name, at_ns, end_ns, {**where, **args})

    def _moments(self, report: Report) -> Iterator[Event]:
        """Births and deaths, alerts, kills, labels: as the page marks them."""
        for moment in report.timeline.moments if report.timeline is not None else ():
            if moment.kind in ("phase", "take"):
                continue
            track = _ONE_TRACK.get(moment.kind, "events")
            yield from self._track(self._own_pid, track)
            scope = "g" if moment.kind in _EVERYWHERE else "t"
            at_ns = self._clock.at(moment.time_s)
            yield self._instant(self._own_pid, track, scope, moment.text, at_ns, {"kind": moment.kind})

    def _findings(self, report: Report) -> Iterator[Event]:
        """What grows where its growth began, everything else at the end; the verdict at the end, too."""
        end_s = report.recording.duration_s
        outlook = report.timeline.outlook if report.timeline is not None else None
        began_s = outlook.began_s if outlook is not None and outlook.began_s is not None else end_s
        pid = self._own_pid
        yield from self._track(pid, "findings")
        told = {"leaking": report.verdict.leaking, "growth_bytes": report.verdict.growth_bytes}
        yield self._instant(pid, "findings", "p", report.verdict.headline, self._clock.at(end_s), told)
        for finding in report.findings:
            at_s = began_s if finding.bytes_per_hour else end_s
            text = f"{finding.kind}: {finding.title}"
            yield self._instant(pid, "findings", "p", text, self._clock.at(at_s), _told(finding))


_WITH_STEPS = ("sentinels", "marks")


def _told(finding: Finding) -> dict[str, Any]:
    """What is shown of a finding that is clicked."""
    subject = finding.subject
    told = {
        "severity": finding.severity, "confidence": finding.confidence, "bytes": finding.bytes,
        "bytes_per_hour": finding.bytes_per_hour, "bytes_per_step": finding.bytes_per_step,
        "process": subject.process, "pid": subject.pid, "holder": subject.holder, "file": subject.file,
        "line": subject.line, "fingerprint": finding.fingerprint,
        **{f"evidence {n}": one.text for n, one in enumerate(finding.evidence, 1)},
        **{f"what to do {n}": text for n, text in enumerate(finding.remedy, 1)},
    }  # fmt: skip
    return {name: value for name, value in told.items() if value is not None}


def _pids(processes: Iterable[Process], others: set[Any]) -> dict[tuple[int, int], int]:
    """By which number each process goes in the trace: its own in a container, if the other trace knows it by that."""
    found: dict[tuple[int, int], int] = {}
    for process in processes:
        own = process.ns_pid
        if own is not None and own != process.pid and own in others and own not in found.values():
            found[process.pid, process.start_ticks] = own
    return found


def _read_trace(path: Path) -> dict[str, Any]:
    """A trace in the trace event format, with its clock. **Errors** BadInput, UnreadableRecording."""
    try:
        with open(path, "rb") as file:
            packed = file.read(2) == b"\x1f\x8b"
        with gzip.open(path, "rb") if packed else open(path, "rb") as stream:
            text = stream.read(_MOST_TRACE_BYTES + 1)
        if len(text) > _MOST_TRACE_BYTES:
            raise BadInput(f"{path} is too large: a trace may have {format_bytes(_MOST_TRACE_BYTES)}")
        trace = json.loads(text)
    except (OSError, EOFError, zlib.error, ValueError, RecursionError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else type(error).__name__
        raise UnreadableRecording(f"{os.fspath(path)} is no trace that can be read ({reason})") from None
    trace = {"traceEvents": trace} if isinstance(trace, list) else trace
    events = trace.get("traceEvents") if isinstance(trace, dict) else None
    if not isinstance(events, list) or not all(isinstance(event, dict) for event in events):
        raise UnreadableRecording(f"{path} is no trace: a JSON object with a list traceEvents was expected")
    if type(trace.get("baseTimeNanoseconds")) is not int:
        times = [event["ts"] for event in events if isinstance(event.get("ts"), (int, float))]
        if not times or min(times) < _EPOCH_US:
            raise UnreadableRecording(
                f"{path} does not say what its times count from (baseTimeNanoseconds, as torch.profiler writes it): "
                "it cannot be laid over a recording"
            )
        trace["baseTimeNanoseconds"] = 0
    return trace
