"""Tensors on a GPU that are never freed.

Looks for:     memory that torch allocated on a device and that keeps growing after the warm-up.
Why:           stored losses, outputs and batches stay on the device as long as something refers to them. What torch
               merely keeps for reuse (reserved, not allocated) is a cache and no leak.
Decides by:    allocated bytes at steps and snapshots, judged like any growth, or that rose from step to step until the
               device was full; the variable that holds min_named_share of it names the culprit. By a memory snapshot of
               torch: min_kept_share of the steps in its history left memory behind that is alive at the end.
Mistaken when: the loop holds ever larger batches or sequences on purpose, and had not reached the largest.
Do:            keep .item(), or .detach().cpu(), and not the tensor; drop results when they were used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from ..confidence import Ground
from ..evidence.gpu_kept import allocated_by, kept_by_steps
from ..evidence.sentences import at_line, curve
from ..facts import imported
from ..facts.accounts.gpu import DeviceUse, nothing_to_look_at
from ..facts.growth.limits import GpuProcess, gpu_processes, gpu_series
from ..facts.heap.place import OUTSIDE
from ..facts.series.arithmetic import level_at
from ..facts.series.trend import CANNOT_TELL, GROWING, Trend, judge
from ..facts.subject import Definition, Held, Spot, Whose
from ..facts.where.holders import about
from ..facts.where.on_devices import CountedHolder, DeviceHolder, counted_holder, device_holders
from ..findings import Evidence, Finding, RuledOut, Series, Skipped
from ..kinds import ELSEWHERE
from ..units import MiB, format_bytes, format_count, format_per_step

if TYPE_CHECKING:
    from ..facts.case import Case

NEEDS = ()
TELLS = (ELSEWHERE,)
HEADLINE = "GPU memory leaks"
AFTER = ()
_KIND = "gpu-retention"
_COUNTED, _RAN_FULL = 0.8, 0.6  # growth that was judged as any other; that had too little time for it
_BY_DRIVER = Ground("the driver counted it, contexts and caches included", 0.6)
_POOL = "a pool that fills and stops looks the same until it stops"
_LEAST_RISES, _LEAST_FILLED = 0.8, 0.5  # of the steps looked at; of what was in use when the device was full
_MANY_BYTES = 64 * MiB  # that the driver has to count before anybody looks: it counts whole segments


def findings(
    case: Case,
    *,
    min_samples: int = 8,  # snapshots are rare, and what is allocated at a step's end carries little noise
    min_growth_bytes: int = 10 * MiB,
    min_growth_fraction: float = 0.005,  # of the level: the allocator counts exactly, a host's memory never does
    min_named_share: float = 0.25,  # of the growth: a variable that holds less is not the answer
    min_kept_share: float = 0.6,  # of the steps: what a few of them left is a cache that fills
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process and device whose allocated memory grows without end."""
    uses = case.device_uses
    known = {use.pid for use in uses} | {budget.device.pid for budget in case.gpu_budgets}
    is_imported = bool(imported.files(case.recording))  # then all that the driver counted is told below
    of_driver = [] if is_imported else [one for one in gpu_processes(case.recording) if one.pid not in known]
    for one in of_driver:
        yield _of_process(case, one, min_named_share)
    if not uses and not case.gpu_budgets:
        yield from _by_driver(case) if is_imported else ()
        if not of_driver and not (is_imported and len(case.rows("gpu_samples"))):
            yield nothing_to_look_at(case.recording, _KIND)
        return
    histories = {(budget.device.pid, budget.device.device): budget for budget in case.last_gpu_budgets}
    for use in uses:
        steps = use.rows.loc[use.rows["step"].notna(), "time_s"]
        trend = judge(
            use.time_s,
            use.figures("allocated_bytes"),
            started_s=float(steps.iloc[0]) if len(steps) else None,
            min_samples=min_samples,
            min_growth_bytes=min_growth_bytes,
            min_growth_fraction=min_growth_fraction,
        )
        if trend.verdict == GROWING:
            history = histories.pop((use.pid, use.device), None)
            yield _of_torch(case, use, trend, min_named_share, allocated_by(history))
        elif trend.verdict == CANNOT_TELL and (filled := _filled(use, min_growth_bytes)) is not None:
            history = histories.pop((use.pid, use.device), None)
            yield _of_torch(case, use, filled, min_named_share, allocated_by(history))
        elif trend.verdict == CANNOT_TELL:
            yield Skipped(_KIND, f"{use.label}: {trend.reason}")
        else:
            yield _ruled_out(use, trend)
    for history in histories.values():
        yield kept_by_steps(case, history, min_kept_share)


@dataclass(frozen=True, eq=False)
class _Held:
    """Who holds what grew, and what is said of that. ``who``: how the title begins."""

    who: str
    line: Spot | None = None
    grounds: Sequence[Ground] = ()
    evidence: Sequence[Evidence] = ()
    doubts: Sequence[str] = ()
    remedy: Sequence[str] = ()
    about: Held = field(default_factory=Held)


def _finding(
    case: Case,
    trend: Trend,
    held: _Held,
    device: str,
    *,
    ground: Ground,
    evidence: Evidence,
    beside: Sequence[Evidence] = (),
    doubts: Sequence[str] = (),
    remedy: Sequence[str] = (),
    severity: str = "critical",
    process: Whose | None = None,
    bytes_per_step: float | None = None,
    series: Sequence[Series] = (),
) -> Finding:
    """``ground`` and ``evidence`` are those of who counted what grew."""
    return case.finding(
        _KIND,
        f"{held.who}: {format_bytes(trend.growth_bytes, signed=True)}",
        severity=severity,
        bytes=trend.growth_bytes,
        bytes_per_hour=round(trend.growth_bytes / max(trend.end_s - trend.start_s, 1e-9) * 3600, 1),
        bytes_per_step=bytes_per_step,
        process=process,
        line=held.line,
        grounds=[ground, *held.grounds],
        evidence=[evidence, *held.evidence, *beside],
        doubts=[*held.doubts, *doubts],
        remedy=[*held.remedy, *remedy],
        series=series,
        device=device,
        **held.about,
    )


def _by_driver(case: Case) -> Iterator[Finding | RuledOut | Skipped]:
    """Of files of other tools, which have what the driver counts: the caches of the processes are in it."""
    for name, time_s, used in gpu_series(case.recording):
        trend = judge(time_s, used, min_growth_bytes=_MANY_BYTES)
        what = f"memory in use by {name}" if " on " in name else f"memory in use on {name}"
        yield _no_growth(what, trend) or _finding(
            case,
            trend,
            _Held(f"{what} keeps growing"),
            name,
            severity="warning",
            ground=Ground("the driver counted it, caches of the processes included", 0.6),
            evidence=Evidence(f"it {trend.reason}", {"growth_bytes": trend.growth_bytes}),
            doubts=["torch's cache, fragmentation and a process that was started meanwhile look the same from outside"],
            remedy=["record the job, or take a snapshot of torch's allocator, to see which tensors stay"],
        )


def _no_growth(what: str, trend: Trend) -> RuledOut | Skipped | None:
    """None where it does grow."""
    if trend.verdict == CANNOT_TELL:
        return Skipped(_KIND, f"{what}: {trend.reason}")
    if trend.verdict == GROWING:
        return None
    return RuledOut(_KIND, f"{what} does not keep growing: {trend.reason}", {"growth_bytes": trend.growth_bytes})


def _of_process(case: Case, one: GpuProcess, min_named_share: float) -> Finding | RuledOut | Skipped:
    """Of a process of whose allocator there are no figures: it does not use torch's, or that could not be read."""
    trend = judge(one.time_s, one.used_bytes, min_samples=6, min_growth_bytes=_MANY_BYTES)
    process = case.growth.process(one.pid)
    name = process.label if process is not None else f"process {one.pid}"
    label = f"what {name} has on {one.device}"
    if (none := _no_growth(label, trend)) is not None:
        return none
    held = _weighed(case, one, trend, min_named_share) or _counted(case, one, trend, name)
    return _finding(
        case,
        trend,
        held,
        one.device,
        ground=_BY_DRIVER,
        process=process,
        evidence=Evidence(f"{label} {trend.reason}", {"growth_bytes": trend.growth_bytes}),
        doubts=[_POOL],
        series=[curve("on the device", one.time_s, one.used_bytes)],
    )


def _weighed(case: Case, one: GpuProcess, trend: Trend, min_named_share: float) -> _Held | None:
    """Snapshots found tensors that nobody else counted."""
    weighed = device_holders(case.recording, case.sources, one.pid, trend.start_s, trend.end_s)
    if not weighed or weighed[0].place.root_kind == OUTSIDE:
        return None
    at_first, at_last = np.interp(weighed[0].heap.time_s[[0, -1]], one.time_s, one.used_bytes)
    share = weighed[0].growth_bytes / max(1.0, float(at_last - at_first))
    strength = 0.8 if share >= 0.5 else 0.4
    return _tensors(weighed[0], share, one.device, trend, strength) if share >= min_named_share else None


def _counted(case: Case, one: GpuProcess, trend: Trend, name: str) -> _Held:
    """A container that grew in step with what the driver counted; else nobody is known to hold it."""
    memory = f"emory of {name} on {one.device} keeps growing"
    used, window_s = (one.time_s, one.used_bytes), (trend.start_s, trend.end_s)
    held: CountedHolder | None = counted_holder(case.recording, case.sources, one.pid, used, window_s)
    if held is None:
        return _Held(f"M{memory}", doubts=["its holder was not found"])
    gained = int(held.place.length[-1] - held.place.length[0])
    text = f"{held.name} got {format_count(gained)} members between the snapshots, {held.member.type_name} objects: "
    text += f"{format_bytes(held.bytes_each)} came on the device for each"
    return _Held(
        f"{held.name} keeps {held.member.type_name} objects, and m{memory}",
        held.lines[0] if held.lines else Definition(held.named.reference.owner_file),
        [Ground("a container grew in step with it", 0.6 if held.is_in_step else 0.4)],
        [Evidence(text, {"member_count": gained, "bytes_each": round(held.bytes_each)})],
        ["nobody weighed what its members have on the device"],
        [f"empty {held.name}, or keep less in it"],
        about(held.named, held.place) | Held(type=held.member.type_name),
    )


def _of_torch(
    case: Case, use: DeviceUse, trend: Trend, min_named_share: float, allocated: Sequence[Evidence]
) -> Finding:
    held = _holder(case, use, trend, min_named_share)
    nobody = ["the variable that holds the tensors was not found"]
    steps = _steps(use, trend)
    counted = _COUNTED if trend.verdict == GROWING else _RAN_FULL
    return _finding(
        case,
        trend,
        held or _Held(f"Memory allocated on {use.device} keeps growing", doubts=nobody),
        use.device,
        ground=Ground("torch's allocator counts what is allocated", counted),
        process=use,
        bytes_per_step=round(trend.growth_bytes / steps, 1) if steps else None,
        evidence=_of_allocator(use, trend, steps, case.step_unit),
        beside=[*_of_cache(use), *allocated],
        series=[curve("allocated", use.time_s, use.figures("allocated_bytes"))],
    )


def _of_allocator(use: DeviceUse, trend: Trend, steps: int, step_unit: str) -> Evidence:
    allocated = use.figures("allocated_bytes")
    first, last = (round(float(np.interp(at_s, use.time_s, allocated))) for at_s in (trend.start_s, trend.end_s))
    text = f"{use.label}: {format_bytes(first)} were allocated at {trend.start_s:.0f} s, "
    text += f"{format_bytes(last)} at {trend.end_s:.0f} s"
    if steps:
        text += f": {format_per_step(trend.growth_bytes / steps, step_unit)}"
    return Evidence(text, {"start_bytes": first, "end_bytes": last, "step_count": steps})


def _of_cache(use: DeviceUse) -> Iterator[Evidence]:
    if not use.last("reserved_bytes"):  # not read
        return
    cached = use.last("reserved_bytes") - use.last("allocated_bytes")
    yield Evidence(
        f"{format_bytes(cached)} more are reserved as a cache: they are not leaked, and "
        "emptying the cache would not help",
        {"reserved_bytes": use.last("reserved_bytes"), "allocated_bytes": use.last("allocated_bytes")},
    )


def _ruled_out(use: DeviceUse, trend: Trend) -> RuledOut:
    allocated, reserved = use.last("allocated_bytes"), use.last("reserved_bytes")
    why = f" ({trend.reason})" if trend.reason else ""
    cached = (
        f"of {format_bytes(reserved)} reserved, {format_bytes(reserved - allocated)} are cache, which is not leaked"
    )
    figures = {"allocated_bytes": allocated, "reserved_bytes": reserved, "growth_bytes": trend.growth_bytes}
    return RuledOut(_KIND, f"{use.label}: allocated memory does not keep growing{why}; {cached}", figures)


def _steps(use: DeviceUse, trend: Trend) -> int:
    rows = use.rows[(use.rows["time_s"] >= trend.start_s) & (use.rows["time_s"] <= trend.end_s)]
    steps = rows["step"].dropna()
    return int(steps.max() - steps.min()) if len(steps) > 1 else 0


def _filled(use: DeviceUse, min_growth_bytes: int, min_samples: int = 5) -> Trend | None:
    """What was allocated after each step rose from one to the next, until the device was full: too short to be judged,
    but what ended it was this growth. None where it did not.
    """
    rows = use.rows[use.rows["step"].notna()]
    allocated = use.figures("allocated_bytes")[use.rows["step"].notna().to_numpy()]
    if not use.ooms or len(allocated) < min_samples or rows["step"].nunique() < min_samples:
        return None
    before = rows["time_s"].to_numpy(dtype=float) <= use.ooms[0].time_s
    allocated, time_s = allocated[before], rows["time_s"].to_numpy(dtype=float)[before]
    grown = float(allocated[-1] - allocated[0]) if len(allocated) >= min_samples else 0.0
    full = max(use.ooms[0].reserved_bytes or 0, float(allocated.max(initial=0.0)))
    if grown < max(min_growth_bytes, _LEAST_FILLED * full) or np.mean(np.diff(allocated) > 0) < _LEAST_RISES:
        return None
    pace = grown / max(float(time_s[-1] - time_s[0]), 1e-9)
    reason = "rose from step to step until the device was full"
    return Trend(CANNOT_TELL, reason, float(time_s[0]), float(time_s[-1]), round(grown), pace, pace, pace)


def _holder(case: Case, use: DeviceUse, trend: Trend, min_named_share: float) -> _Held | None:
    """The variable whose tensors gained most between the first and the last snapshot; None if it is too little."""
    found = device_holders(case.recording, case.sources, use.pid, trend.start_s, trend.end_s)
    if not found or found[0].place.root_kind == OUTSIDE:  # no variable of Python's leads there
        return None
    most = found[0]
    on_all = [one for one in case.device_uses if one.pid == use.pid]  # the graph does not tell devices apart
    grown = sum(_grown(one, float(most.heap.time_s[0]), float(most.heap.time_s[-1])) for one in on_all)
    share = most.growth_bytes / max(grown, 1.0)
    return _tensors(most, share, use.device, trend, 0.8 if share >= 0.5 else None) if share >= min_named_share else None


def _grown(use: DeviceUse, start_s: float, end_s: float) -> float:
    allocated = use.figures("allocated_bytes")
    return level_at(use.time_s, allocated, end_s) - level_at(use.time_s, allocated, start_s)


def _tensors(most: DeviceHolder, share: float, device: str, trend: Trend, strength: float | None) -> _Held:
    """``share`` of what the device gained meanwhile; ``strength`` of that as a ground, None where it is none."""
    place, name, share = most.place, most.name, min(share, 1.0)
    count = int(place.length[-1]) if place.has_length else 0
    kind = f"{format_count(count)} {place.member_type or 'members'}" if count else place.type_name
    gained = f"{name} gained {format_bytes(most.growth_bytes)} from the first to the last snapshot"
    figures = {"growth_bytes": round(most.growth_bytes), "tensor_count": count, "share": round(share, 3)}
    line = most.lines[0] if most.lines else None
    kept = "keep a number (.item()) or a copy on the CPU (.detach().cpu()) of each tensor"
    mend, of_gpu = f"bound or empty {name}, or {kept}", " of GPU memory"
    if most.is_graph:
        mend, of_gpu = f"keep .detach() or .item() in {name}, without the graph that made it", ""
    return _Held(
        f"{name} keeps {'autograd graphs' if most.is_graph else 'tensors'} on {device}",
        line or Definition(most.named.reference.owner_file),
        [Ground("snapshots found who holds most of it", strength)] if strength is not None else [],
        [
            Evidence(f"{gained}, {share:.0%} of the growth between them; it now holds {kind}", figures),
            *([at_line(line, "adds to it" if line.kind == "adds" else "works on it")] if line is not None else ()),
        ],
        [],
        [f"{mend}: frees about {format_bytes(share * trend.growth_bytes)}{of_gpu}"],
        about(most.named, place) | Held(type=kind),
    )
