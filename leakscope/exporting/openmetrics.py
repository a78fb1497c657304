"""All samples with their times in OpenMetrics' text format, to be filled into Prometheus, Mimir or VictoriaMetrics.

Prometheus: `promtool tsdb create-blocks-from openmetrics FILE`. The verdict and the findings stand at the end of the
run, as gauges.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import groupby
from typing import Any

from ..facts.case import Case
from ..reporting import report_of
from ._curves import Clock, Curve, curves

SUFFIX = ".openmetrics.txt"
_UNITS = ("bytes",)


def chunks(case: Case) -> Iterator[bytes]:
    """One family after the other, its samples by subject and time."""
    clock = Clock(case.recording)
    every = {"host_name": str(case.recording.meta.get("host") or ""), "recording": case.recording.path.name}
    for (subject, column), family in groupby(curves(case, clock), lambda c: (c.subject, c.column)):
        name, own = _name(subject, column), list(family)
        yield _head(name, own[0].meaning)
        for curve in own:
            yield _samples(name, {**every, **_labels(curve)}, curve)
    yield from _verdict(case, clock, every)
    yield b"# EOF\n"


def _name(subject: str, column: str) -> str:
    return f"leakscope_{column if column.startswith(subject) else f'{subject}_{column}'}"


def _labels(curve: Curve) -> dict[str, str]:
    process = curve.process
    if process is None:
        return curve.about
    told = {"pid": str(process.pid), "start_ticks": str(process.start_ticks), "process": process.name}
    rank = {"rank": str(process.rank)} if process.rank is not None else {}
    return {**told, "role": process.role, **rank, **curve.about}


def _samples(name: str, labels: Mapping[str, str], curve: Curve) -> bytes:
    head = name + _in_braces(labels)
    pairs = zip(curve.values.tolist(), curve.time_ns.tolist())
    return "".join(f"{head} {_figure(value)} {_seconds(at_ns)}\n" for value, at_ns in pairs).encode()


def _verdict(case: Case, clock: Clock, every: Mapping[str, str]) -> Iterator[bytes]:
    report = report_of(case)
    verdict, at = report.verdict, _seconds(clock.at(report.recording.duration_s))
    gauges: list[tuple[str, str, list[tuple[dict[str, str], Any]]]] = [
        ("leaking", "1: memory grows without end in sight, 0: it does not; absent: unknown",
         [({}, verdict.leaking)]),
        ("killed", "1: a process was ended for memory", [({}, verdict.killed)]),
        ("growth_bytes", "what the job gained in the judged window", [({}, verdict.growth_bytes)]),
        ("growth_bytes_per_hour", "the rate of that", [({}, verdict.growth_bytes_per_hour)]),
        ("finding_bytes", "what fixing each finding frees by the end of the run",
         [(_about(finding), finding.bytes) for finding in report.findings]),
    ]  # fmt: skip
    for name, meaning, samples in gauges:
        known = [(labels, value) for labels, value in samples if value is not None]
        if known:
            yield _head(f"leakscope_{name}", meaning)
            for labels, value in known:
                yield f"leakscope_{name}{_in_braces({**every, **labels})} {_figure(float(value))} {at}\n".encode()


def _about(finding: Any) -> dict[str, str]:
    told = {"kind": finding.kind, "severity": finding.severity}
    where = f"{finding.subject.file}:{finding.subject.line}" if finding.subject.line else finding.subject.file
    more = {"fingerprint": finding.fingerprint, "holder": finding.subject.holder, "place": where}
    return {**told, **{name: str(value) for name, value in more.items() if value}}


def _head(name: str, meaning: str) -> bytes:
    unit = next((f"# UNIT {name} {unit}\n" for unit in _UNITS if name.endswith(f"_{unit}")), "")
    return f"# TYPE {name} gauge\n{unit}# HELP {name} {_escaped(meaning)}\n".encode()


def _in_braces(labels: Mapping[str, str]) -> str:
    return "{" + ",".join(f'{name}="{_escaped(value)}"' for name, value in labels.items()) + "}"


def _escaped(text: str) -> str:
    text = text.encode("utf-8", "replace").decode()
    return text.replace("\\", "\\\\").replace("\n", "\\n").replace('"', '\\"')


def _figure(value: float) -> str:
    return str(int(value)) if value.is_integer() else repr(value)


def _seconds(unix_ns: int) -> str:
    return f"{unix_ns // 10**9}.{unix_ns % 10**9 // 10**6:03d}"
