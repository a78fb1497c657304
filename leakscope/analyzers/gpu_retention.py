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
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from ..confidence import AGAINST, FAIR, STRONG, SURE, WEAK, Ground
from ..evidence.gpu_device import allocated_curve, as_program_says, between_marks, subject_in
from ..evidence.sentences import at_line, curve
from ..facts import imported
from ..facts.accounts.gpu import DeviceUse, nothing_to_look_at
from ..facts.case import Case
from ..facts.code.adding import Line, Source
from ..facts.code.imports import STANDARD_LIBRARY
from ..facts.gpu.budget import DeviceBudget
from ..facts.gpu.kept import LEAST_BYTES, LEAST_SHARE, LEAST_STEPS, Kept, is_growth, no_steps
from ..facts.gpu.roles import ACTIVATIONS
from ..facts.growth.limits import gpu_processes, gpu_series
from ..facts.heap.accumulation import Accumulation, accumulations
from ..facts.heap.comparable import Heap, device_heap_of, heap_of
from ..facts.heap.handles import handles
from ..facts.heap.owners import graph_below, heaviest_leaf
from ..facts.heap.place import GRAPH_TYPE, OUTSIDE, Floats, Place
from ..facts.series.arithmetic import level_at
from ..facts.series.trend import CANNOT_TELL, GROWING, Trend, judge
from ..facts.subject import Definition, Held, Spot, Whose
from ..facts.where.holders import about, holder_name, named_in
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import ELSEWHERE
from ..storage import Recording
from ..units import (
    LARGE,
    MOST,
    MUCH,
    NEARLY_ALL,
    WORTH,
    MiB,
    changed,
    format_bytes,
    format_count,
    format_per_step,
    over,
)

NEEDS = ()
TELLS = (ELSEWHERE,)
HEADLINE = "GPU memory leaks"
_KIND = "gpu-retention"
_LEAST_RISES, _LEAST_FILLED = NEARLY_ALL, MOST  # of the steps looked at; of what was in use when the device was full
# The driver counts whole segments: less than so many bytes nobody looks at.
_OF_DRIVER = {"min_samples": 6, "min_growth_bytes": LARGE}
_BY_PROCESS = "a pool that fills and stops looks the same until it stops"
_BY_DEVICE = "torch's cache, fragmentation and a process that was started meanwhile look the same from outside"


def findings(
    case: Case,
    *,
    min_samples: int = 8,  # snapshots are rare, and what is allocated at a step's end carries little noise
    min_growth_bytes: int = WORTH,
    min_growth_fraction: float = 0.005,  # of the level: the allocator counts exactly, a host's memory never does
    min_named_share: float = MUCH,  # of the growth: a variable that holds less is not the answer
    min_kept_share: float = 0.6,  # of the steps: what a few of them left is a cache that fills
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process and device whose allocated memory grows without end."""
    of_torch = {
        "min_samples": min_samples, "min_growth_bytes": min_growth_bytes, "min_growth_fraction": min_growth_fraction,
    }  # fmt: skip
    curves = _curves(case)
    histories = {(budget.device.pid, budget.device.device): budget for budget in case.last_gpu_budgets}
    if not curves and not case.gpu_budgets:
        yield nothing_to_look_at(case.recording, _KIND)
    for one in curves:
        trend = judge(one.time_s, one.counted, started_s=one.first_step_s, **(of_torch if one.use else _OF_DRIVER))
        filled = _filled(one.use, min_growth_bytes) if one.use and trend.verdict == CANNOT_TELL else None
        if trend.verdict == GROWING or filled is not None:
            yield _finding(case, one, filled or trend, min_named_share, histories.pop((one.pid or 0, one.device), None))
        elif trend.verdict == CANNOT_TELL:
            yield Skipped(_KIND, f"{one.label}: {trend.reason}")
        else:
            yield _ruled_out(one, trend)
    for history in histories.values():
        yield _kept_by_steps(case, history, min_kept_share)


@dataclass(frozen=True, eq=False)
class _Curve:
    """Bytes that somebody counted: torch's allocator (``use``), or the driver of a process or of a whole device."""

    label: str
    what: str  # as in "memory of train.py on GPU 0"
    device: str
    time_s: Floats
    counted: Floats
    pid: int | None = None
    process: Whose | None = None
    use: DeviceUse | None = None

    @property
    def first_step_s(self) -> float | None:
        if self.use is None:
            return None
        steps = self.use.rows["time_s"][self.use.rows["step"].notna()]
        return float(steps.iloc[0]) if len(steps) else None

    def gained(self, case: Case, start_s: float, end_s: float) -> float:
        """On all devices that torch's allocator counted: the graph of the heap does not tell them apart."""
        uses = [use for use in case.device_uses if use.pid == self.pid]
        counted = [(use.time_s, use.figures("allocated_bytes")) for use in uses] or [(self.time_s, self.counted)]
        return sum(level_at(*own, end_s) - level_at(*own, start_s) for own in counted)


def _curves(case: Case) -> list[_Curve]:
    """By torch; by the driver only of processes, or of files of other tools, that torch counted nothing of."""
    of_files = bool(imported.files(case.recording))
    found = [
        _Curve(use.label, f"memory allocated on {use.device}", use.device, use.time_s, use.figures("allocated_bytes"),
               use.pid, use, use)
        for use in case.device_uses
    ]  # fmt: skip
    known = {one.pid for one in found} | {budget.device.pid for budget in case.gpu_budgets}
    for one in gpu_processes(case.recording) if not of_files else ():
        if one.pid not in known:
            process = case.growth.process(one.pid)
            where = f"{process.label if process is not None else f'process {one.pid}'} on {one.device}"
            label = f"what {where.replace(' on ', ' has on ')}"
            found.append(_Curve(label, f"memory of {where}", *one[1:], one.pid, process))
    for name, time_s, used in gpu_series(case.recording) if of_files and not known else ():
        what = f"memory in use {'by' if ' on ' in name else 'on'} {name}"
        found.append(_Curve(what, what, name, time_s, used))
    return found


@dataclass(frozen=True)
class _Holder:
    """Who holds what grew, and what is said of that. ``who``: how the title begins."""

    who: str
    line: Spot | None = None
    ground: Ground | None = None
    evidence: Sequence[Evidence | None] = ()
    doubt: str | None = None
    remedy: Sequence[str] = ()
    about: Held = field(default_factory=Held)


def _finding(case: Case, one: _Curve, trend: Trend, min_named_share: float, history: DeviceBudget | None) -> Finding:
    held = _holder(case, one, trend, min_named_share)
    grew = Evidence(f"{one.label} {trend.reason}", {"growth_bytes": trend.growth_bytes})
    ground, beside, steps = Ground("the driver counted it, contexts and caches included", WEAK), list[Evidence](), 0
    if one.use is not None:
        steps = _steps(one.use, trend)
        grew, *beside = _of_allocator(one.use, trend, steps, case.step_unit)
        ground = Ground("torch's allocator counts what is allocated", STRONG if trend.verdict == GROWING else WEAK)
        if history is not None and history.kept is not None and history.kept.bytes:
            beside += [*_of_steps(history.kept)][1:]
    is_device = one.pid is None
    return case.finding(
        _KIND,
        f"{held.who}: {format_bytes(trend.growth_bytes, signed=True)}",
        severity="warning" if is_device else "critical",
        bytes=trend.growth_bytes,
        bytes_per_hour=round(3600 * over(trend.growth_bytes, trend.end_s - trend.start_s), 1),
        bytes_per_step=round(trend.growth_bytes / steps, 1) if steps else None,
        process=one.process,
        line=held.line,
        grounds=[ground, held.ground],
        evidence=[grew, *held.evidence, *beside],
        doubts=[held.doubt, None if one.use is not None else _BY_DEVICE if is_device else _BY_PROCESS],
        remedy=held.remedy,
        series=[curve("allocated" if one.use is not None else "on the device", one.time_s, one.counted)],
        device=one.device,
        **held.about,
    )


def _holder(case: Case, one: _Curve, trend: Trend, min_named_share: float) -> _Holder:
    """The variable whose tensors gained most between the first and the last snapshot, or one that grew in step."""
    if one.pid is None:
        mend = "record the job, or take a snapshot of torch's allocator, to see which tensors stay"
        return _Holder(f"M{one.what[1:]} keeps growing", remedy=[mend])
    found = device_holders(case.recording, case.sources, one.pid, trend.start_s, trend.end_s)
    if found and found[0].place.root_kind != OUTSIDE:  # else no variable of Python's leads there
        grown = one.gained(case, *(float(at_s) for at_s in found[0].heap.time_s[[0, -1]]))
        share = found[0].growth_bytes / max(grown, 1.0)
        if share >= min_named_share:
            return _of_tensors(found[0], share, one.device, trend)
    counted = _counted(case, one, trend) if one.use is None else None
    nobody = "the variable that holds the tensors was not found" if one.use else "its holder was not found"
    return counted or _Holder(f"M{one.what[1:]} keeps growing", doubt=nobody)


def _of_tensors(most: DeviceHolder, share: float, device: str, trend: Trend) -> _Holder:
    """``share`` of what the device gained meanwhile."""
    place, name, share = most.place, most.name, min(share, 1.0)
    count = int(place.length[-1]) if place.has_length else 0
    kind = f"{format_count(count)} {place.member_type or 'members'}" if count else place.type_name
    gained = f"{name} gained {format_bytes(most.growth_bytes)} from the first to the last snapshot"
    figures = {"growth_bytes": round(most.growth_bytes), "tensor_count": count, "share": round(share, 3)}
    line = next(iter(most.lines), None)
    kept = "keep a number (.item()) or a copy on the CPU (.detach().cpu()) of each tensor"
    mend, of_gpu = f"bound or empty {name}, or {kept}", " of GPU memory"
    if most.is_graph:
        mend, of_gpu = f"keep .detach() or .item() in {name}, without the graph that made it", ""
    return _Holder(
        f"{name} keeps {'autograd graphs' if most.is_graph else 'tensors'} on {device}",
        line or Definition(most.named.reference.owner_file),
        Ground("snapshots found who holds most of it", STRONG) if share >= MOST else None,
        [
            Evidence(f"{gained}, {share:.0%} of the growth between them; it now holds {kind}", figures),
            at_line(line, "adds to it" if line is not None and line.kind == "adds" else "works on it"),
        ],
        remedy=[f"{mend}: frees about {format_bytes(share * trend.growth_bytes)}{of_gpu}"],
        about=about(most.named, place) | Held(type=kind),
    )


def _counted(case: Case, one: _Curve, trend: Trend) -> _Holder | None:
    """A container that grew in step with what the driver counted."""
    used, window_s = (one.time_s, one.counted), (trend.start_s, trend.end_s)
    held = counted_holder(case.recording, one.pid or 0, used, window_s)
    if held is None or held.place is None or held.handle is None:
        return None
    named, lines = named_in(case.sources, held.place)
    name, kind = holder_name(named), held.place.member_type or held.handle.type_name
    gained, each = int(held.place.length[-1] - held.place.length[0]), held.bytes_each or 0.0
    text = f"{name} got {format_count(gained)} members between the snapshots, {kind} objects: "
    text += f"{format_bytes(each)} came on the device for each"
    return _Holder(
        f"{name} keeps {kind} objects, and {one.what} keeps growing",
        lines[0] if lines else Definition(named.reference.owner_file),
        Ground("a container grew in step with it", WEAK),
        [Evidence(text, {"member_count": gained, "bytes_each": round(each)})],
        "what its members hold on the device was not measured",
        [f"empty {name}, or keep less in it"],
        about(named, held.place) | Held(type=kind),
    )


# ---- torch's allocator


def _of_allocator(use: DeviceUse, trend: Trend, steps: int, step_unit: str) -> Iterator[Evidence]:
    allocated = use.figures("allocated_bytes")
    first, last = (round(float(np.interp(at_s, use.time_s, allocated))) for at_s in (trend.start_s, trend.end_s))
    text = f"{use.label}: {format_bytes(first)} were allocated at {trend.start_s:.0f} s, "
    text += f"{format_bytes(last)} at {trend.end_s:.0f} s"
    text += f": {format_per_step(trend.growth_bytes / steps, step_unit)}" if steps else ""
    yield Evidence(text, {"start_bytes": first, "end_bytes": last, "step_count": steps})
    figures = {name: use.last(name) for name in ("reserved_bytes", "allocated_bytes")}
    if figures["reserved_bytes"]:  # else it was not read
        cached = format_bytes(figures["reserved_bytes"] - figures["allocated_bytes"])
        text = "more are reserved as a cache: they are not leaked, and emptying the cache would not help"
        yield Evidence(f"{cached} {text}", figures)


def _ruled_out(one: _Curve, trend: Trend) -> RuledOut:
    figures: dict[str, Any] = {"growth_bytes": trend.growth_bytes}
    text, cached = one.label, ""
    if one.use is not None:
        allocated, reserved = one.use.last("allocated_bytes"), one.use.last("reserved_bytes")
        text += ": allocated memory"
        cached = f"; of {format_bytes(reserved)} reserved, {format_bytes(reserved - allocated)} are cache, "
        cached += "which is not leaked"
        figures |= {"allocated_bytes": allocated, "reserved_bytes": reserved}
    why = f" ({trend.reason})" if trend.reason else ""
    return RuledOut(_KIND, f"{text} does not keep growing{why}{cached}", figures)


def _steps(use: DeviceUse, trend: Trend) -> int:
    rows = use.rows[(use.rows["time_s"] >= trend.start_s) & (use.rows["time_s"] <= trend.end_s)]
    steps = rows["step"].dropna()
    return int(steps.max() - steps.min()) if len(steps) > 1 else 0


def _filled(use: DeviceUse, min_growth_bytes: int, min_samples: int = 5) -> Trend | None:
    """What was allocated after each step rose from one to the next, until the device was full: too short to be judged,
    but what ended it was this growth. None where it did not.
    """
    rows = use.rows[use.rows["step"].notna()]
    allocated, time_s = use.figures("allocated_bytes")[use.rows["step"].notna()], rows["time_s"].to_numpy(dtype=float)
    if not use.ooms or rows["step"].nunique() < min_samples:
        return None
    before = time_s <= use.ooms[0].time_s
    allocated, time_s = allocated[before], time_s[before]
    grown = float(allocated[-1] - allocated[0]) if len(allocated) >= min_samples else 0.0
    full = max(use.ooms[0].reserved_bytes or 0, float(allocated.max(initial=0.0)))
    if grown < max(min_growth_bytes, _LEAST_FILLED * full) or np.mean(np.diff(allocated) > 0) < _LEAST_RISES:
        return None
    reason, per_s = "rose from step to step until the device was full", over(grown, time_s[-1] - time_s[0])
    return Trend(CANNOT_TELL, reason, float(time_s[0]), float(time_s[-1]), round(grown), per_s, per_s, per_s)


# ---- torch's memory snapshots: what steps left behind


def _kept_by_steps(case: Case, budget: DeviceBudget, min_kept_share: float) -> Finding | RuledOut | Skipped:
    """The finding of one device, or why there is none."""
    device, kept = budget.device, budget.kept
    mine = device.pid, device.device
    alike = [one for one in case.gpu_budgets if (one.device.pid, one.device.device) == mine]
    earlier = alike[: alike.index(budget)]
    if kept is None:
        return _between(earlier, budget) if earlier else Skipped(_KIND, f"{device.label}: {no_steps(device)}")
    count, size = len(kept.whole), format_bytes(kept.bytes)
    if count < LEAST_STEPS:
        return Skipped(_KIND, f"{device.label}: its history shows {count} whole steps, which is too few")
    if not is_growth(budget.device, kept, min_kept_share):
        figures = {"kept_bytes": kept.bytes, "step_count": count}
        said = size if kept.bytes else "nothing"
        return RuledOut(_KIND, f"{device.label}: {said} of {count} steps outlived the next step", figures)
    is_loop = kept.steps.is_loop
    gathers = "so would a loop that gathers on purpose: micro-batches, tokens of one answer"
    return case.finding(
        _KIND,
        f"{kept.step_count} of {count} steps left memory on {device.label}: {size}",
        severity="critical",
        grounds=[
            Ground("the history of the allocator shows what was never freed", SURE),
            Ground(f"steps are recognised by {kept.steps.by}", AGAINST if is_loop else FAIR),
        ],
        bytes=kept.bytes,
        subject=subject_in(device, kept.stack),
        bytes_per_step=round(kept.bytes_per_step, 1),
        evidence=[*_of_steps(kept), *between_marks(budget), *as_program_says(budget, len(device.events) - 1)],
        doubts=["a window or a cache that is still filling would look the same", gathers if is_loop else None],
        remedy=[f"{_mend(kept)}: frees about {size}"],
        series=allocated_curve(device),
    )


def _between(earlier: Sequence[DeviceBudget], last: DeviceBudget) -> RuledOut | Skipped:
    """What changed from the first snapshot to the last, by line: two moments do not show whether it continues."""
    first, device = earlier[0], last.device
    change = device.requested_bytes - first.device.requested_bytes
    by_line = {(line.role, line.stack.place): line.end_bytes for line in last.lines}
    for line in first.lines:
        key = line.role, line.stack.place
        by_line[key] = by_line.get(key, 0) - line.end_bytes
    most = sorted(by_line.items(), key=lambda pair: -pair[1])[:3]
    told = ", ".join(f"{place} {format_bytes(size, signed=True)} ({role})" for (role, place), size in most if size > 0)
    said = f"{device.label}: from snapshot {first.device.number} to {device.number} what is in use {changed(change)}"
    said += f": {told}" if told else ""
    if change < max(LEAST_BYTES, LEAST_SHARE * device.peak_bytes):
        return RuledOut(_KIND, said, {"change_bytes": change, **{place: size for (_, place), size in most}})
    moments = f"{len(earlier) + 1} moments do not show whether it continues"
    return Skipped(_KIND, f"{said}; the histories show no steps, and {moments}")


def _of_steps(kept: Kept) -> Iterator[Evidence]:
    first, last = kept.levels[0], kept.levels[-1]
    yield Evidence(
        f"{format_bytes(first)} were allocated as the first step ended, {format_bytes(last)} as step "
        f"{len(kept.levels)} did: {format_bytes(kept.bytes_per_step)} a step stay",
        {"start_bytes": first, "end_bytes": last, "step_count": len(kept.levels)},
    )
    share = over(kept.stack_bytes, kept.bytes)
    yield Evidence(
        f"{kept.stack.place} allocated {format_bytes(kept.stack_bytes)} of it, {share:.0%}; it is {kept.role}",
        {"bytes": kept.stack_bytes, "share": round(share, 3), "allocation_count": kept.count},
    )
    loop = kept.loop
    if loop is not None and loop.file and (loop.file, loop.line) != (kept.stack.file, kept.stack.line):
        yield Evidence(f"the call came from {loop.file}:{loop.line} {loop.function}()")
    if kept.stack_count > 1:
        yield Evidence(
            f"{format_count(kept.count)} allocations by {kept.stack_count} different stacks are kept together",
            {"allocation_count": kept.count, "stack_count": kept.stack_count},
        )
    yield Evidence(f"steps are recognised by {kept.steps.by}")


def _mend(kept: Kept) -> str:
    if kept.role == ACTIVATIONS and kept.stack_count > 1:
        where = f" at {kept.loop.file}:{kept.loop.line}" if kept.loop is not None else ""
        return f"look for what keeps the loss or an output{where} with its graph: keep .item() or .detach()"
    return f"look for what keeps the tensor of {kept.stack.place}, and keep .item() or .detach().cpu() of it"


# ---- who holds the tensors on a process's GPUs, and who of them got ever more, by the graph of the heap


_LEAST_BYTES = MiB


@dataclass(frozen=True, eq=False)
class DeviceHolder:
    """``place`` gained ``growth_bytes`` from the first to the last snapshot of ``heap``; ``named``: the user's name for
    it; ``kept``: what it is made of. **Units** bytes on devices.
    """

    heap: Heap
    place: Place
    named: Place
    kept: Place
    lines: Sequence[Line]
    growth_bytes: float

    @property
    def name(self) -> str:
        return holder_name(self.named)

    @property
    def is_graph(self) -> bool:
        """It keeps the autograd graphs of tensors, and what these saved for a backward pass."""
        return self.kept.type_name == GRAPH_TYPE


def device_holders(
    recording: Recording, sources: Sequence[Source], pid: int, start_s: float, end_s: float
) -> list[DeviceHolder] | None:
    """Those that gained in a window, the most first; None where no two snapshots know who holds what."""
    heap = device_heap_of(recording, pid, start_s, end_s)
    if heap is None:
        return None
    found = []
    for one in accumulations(heap, _LEAST_BYTES):
        if one.place is None or one.growth_bytes < _LEAST_BYTES:
            continue
        named, lines = named_in(sources, one.place)
        kept = graph_below(one.place) or heaviest_leaf(one.place)
        found.append(DeviceHolder(heap, one.place, named, kept, lines, one.growth_bytes))
    return sorted(found, key=lambda holder: -holder.growth_bytes)


def counted_holder(
    recording: Recording, pid: int, used: tuple[Floats, Floats], window_s: tuple[float, float]
) -> Accumulation | None:
    """The container that got ever more objects of a library in step with what the driver counted; None without one.

    ``used``: times, and bytes of the process on a device by then. Nobody has weighed what the members are.
    """
    heap = heap_of(recording, pid, *window_s)
    if heap is None:
        return None
    on_device = replace(heap, rss_bytes=np.interp(heap.time_s, *used), free_bytes=np.zeros(len(heap.takes)))
    found = handles(on_device, (), 0.0, _is_of_library)
    return found[0] if found and found[0].bytes_each is not None else None


def _is_of_library(type_name: str) -> bool:
    """No object of Python itself, which has its own memory alone."""
    package = type_name.split(".", 1)[0] if "." in type_name else "builtins"
    return package not in STANDARD_LIBRARY and package not in ("builtins", "numpy", "torch", "__main__")
