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
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from ..confidence import Ground
from ..evidence.gpu_kept import allocated_by, kept_by_steps
from ..evidence.sentences import at_line, curve
from ..facts import imported
from ..facts.accounts.gpu import DeviceUse, nothing_to_look_at
from ..facts.code.adding import Line, adding_lines
from ..facts.code.names import holder_of
from ..facts.growth.limits import GpuProcess, gpu_processes, gpu_series
from ..facts.heap.paths import heap_of, user_place
from ..facts.heap.place import OUTSIDE, Place
from ..facts.series.arithmetic import level_at
from ..facts.series.trend import CANNOT_TELL, GROWING, Trend, judge
from ..facts.subject import About, Definition
from ..facts.tables import only, text_of, without_last
from ..facts.where.holders import holder_name
from ..facts.where.on_devices import DeviceHolder, counted_holder, device_holders
from ..findings import Evidence, Finding, RuledOut, Skipped
from ..kinds import ELSEWHERE
from ..units import MiB, format_bytes, format_count, format_per_step

if TYPE_CHECKING:
    import pandas as pd

    from ..facts.case import Case
    from ..facts.growth.processes import ProcessGrowth

NEEDS = ()
TELLS = (ELSEWHERE,)
HEADLINE = "GPU memory leaks"
AFTER = ()
_KIND = "gpu-retention"
_COUNTED, _RAN_FULL = 0.8, 0.6  # growth that was judged as any other; that had too little time for it
_BY_DRIVER = 0.6
_LEAST_RISES, _LEAST_FILLED = 0.8, 0.5  # of the steps looked at; of what was in use when the device was full


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
            yield _finding(case, use, trend, min_named_share, allocated_by(history))
        elif trend.verdict == CANNOT_TELL and (filled := _filled(use, min_growth_bytes)) is not None:
            yield _finding(case, use, filled, min_named_share, allocated_by(histories.pop((use.pid, use.device), None)))
        elif trend.verdict == CANNOT_TELL:
            yield Skipped(_KIND, f"{use.label}: {trend.reason}")
        else:
            yield _ruled_out(use, trend)
    for history in histories.values():
        yield kept_by_steps(case, history, min_kept_share)


@dataclass(frozen=True, eq=False)
class _Held:
    """Tensors of one variable: what they gained in the window, ``share`` of what the device gained meanwhile."""

    path: str
    growth_bytes: float
    share: float
    count: int
    type: str
    place: Place | None
    line: Line | None
    is_graph: bool = False  # most of it is what autograd graphs saved

    @property
    def name(self) -> str:
        return holder_name(user_place(self.place)) if self.place is not None else self.path

    def text(self, key: str) -> str | None:
        value = user_place(self.place).row[key] if self.place is not None else None
        return value if isinstance(value, str) else None


def _by_driver(case: Case) -> Iterator[Finding | RuledOut | Skipped]:
    """Of files of other tools, which have what the driver counts: the caches of the processes are in it."""
    for name, time_s, used in gpu_series(case.recording):
        trend = judge(time_s, used, min_growth_bytes=64 * MiB)
        what = f"memory in use by {name}" if " on " in name else f"memory in use on {name}"
        if trend.verdict == CANNOT_TELL:
            yield Skipped(_KIND, f"{what}: {trend.reason}")
        elif trend.verdict == GROWING:
            yield _seen_to_grow(case, name, what, trend)
        else:
            figures = {"growth_bytes": trend.growth_bytes}
            yield RuledOut(_KIND, f"{what} does not keep growing: {trend.reason}", figures)


def _of_process(case: Case, one: GpuProcess, min_named_share: float) -> Finding | RuledOut | Skipped:
    """Of a process of whose allocator there are no figures: it does not use torch's, or that could not be read."""
    trend = judge(one.time_s, one.used_bytes, min_samples=6, min_growth_bytes=64 * MiB)
    process = case.growth.process(one.pid)
    name = process.label if process is not None else f"process {one.pid}"
    label = f"what {name} has on {one.device}"
    if trend.verdict == CANNOT_TELL:
        return Skipped(_KIND, f"{label}: {trend.reason}")
    if trend.verdict != GROWING:
        figures = {"growth_bytes": trend.growth_bytes}
        return RuledOut(_KIND, f"{label} does not keep growing: {trend.reason}", figures)
    window_s = trend.start_s, trend.end_s
    weighed = device_holders(case.recording, case.sources, one.pid, *window_s)
    if weighed and weighed[0].place.root_kind != OUTSIDE:
        at_first, at_last = np.interp(weighed[0].heap.time_s[[0, -1]], one.time_s, one.used_bytes)
        share = weighed[0].growth_bytes / max(1.0, float(at_last - at_first))
        if share >= min_named_share:
            return _of_tensors(case, one, process, trend, _held_tensors(weighed[0], share))
    held = counted_holder(case.recording, case.sources, one.pid, (one.time_s, one.used_bytes), window_s)
    about: About = {"device": one.device}
    grounds = [Ground("the driver counted it, contexts and caches included", _BY_DRIVER)]
    evidence = [Evidence(f"{label} {trend.reason}", {"growth_bytes": trend.growth_bytes})]
    if held is not None:
        gained = int(held.place.length[-1] - held.place.length[0])
        text = (
            f"{held.name} got {format_count(gained)} members between the snapshots, {held.member.type_name} objects: "
        )
        text += f"{format_bytes(held.bytes_each)} came on the device for each"
        evidence.append(Evidence(text, {"member_count": gained, "bytes_each": round(held.bytes_each)}))
        about |= {"holder": held.name, "path": held.place.said, "type": held.member.type_name}
        about |= {"variable": text_of(held.named.row, "variable"), "module": text_of(held.named.row, "owner_module")}
        grounds.append(Ground("a container grew in step with it", 0.6 if held.is_in_step else 0.4))
    who = f"{held.name} keeps {held.member.type_name} objects, and memory" if held is not None else "Memory"
    return case.finding(
        _KIND,
        f"{who} of {name} on {one.device} keeps growing: {format_bytes(trend.growth_bytes, signed=True)}",
        severity="critical",
        bytes=trend.growth_bytes,
        bytes_per_hour=round(trend.growth_bytes / max(trend.end_s - trend.start_s, 1e-9) * 3600, 1),
        grounds=grounds,
        process=process,
        line=(held.lines[0] if held.lines else Definition(text_of(held.named.row, "owner_file"))) if held else None,
        evidence=evidence,
        doubts=[
            "nobody weighed what its members have on the device" if held is not None else "its holder was not found",
            "a pool that fills and stops looks the same until it stops",
        ],
        remedy=[f"empty {held.name}, or keep less in it"] if held is not None else [],
        series=[curve("on the device", one.time_s, one.used_bytes)],
        **about,
    )


def _of_tensors(case: Case, one: GpuProcess, process: ProcessGrowth | None, trend: Trend, held: _Held) -> Finding:
    """The driver counted what came, and snapshots found tensors that nobody else counted."""
    what = "autograd graphs" if held.is_graph else "tensors"
    return case.finding(
        _KIND,
        f"{held.name} keeps {what} on {one.device}: {format_bytes(trend.growth_bytes, signed=True)}",
        severity="critical",
        grounds=[
            Ground("the driver counted it, contexts and caches included", _BY_DRIVER),
            Ground("snapshots found who holds most of it", 0.8 if held.share >= 0.5 else 0.4),
        ],
        bytes=trend.growth_bytes,
        bytes_per_hour=round(trend.growth_bytes / max(trend.end_s - trend.start_s, 1e-9) * 3600, 1),
        process=process,
        line=held.line or Definition(held.text("owner_file")),
        evidence=[
            Evidence(f"it {trend.reason}, as the driver counts", {"growth_bytes": trend.growth_bytes}),
            *_evidence_of_holder(held),
        ],
        doubts=["a pool that fills and stops looks the same until it stops"],
        remedy=_remedy(held, trend.growth_bytes),
        series=[curve("on the device", one.time_s, one.used_bytes)],
        **_about(one.device, held),
    )


def _seen_to_grow(case: Case, name: str, what: str, trend: Trend) -> Finding:
    return case.finding(
        _KIND,
        f"{what} keeps growing: +{format_bytes(trend.growth_bytes)}",
        severity="warning",
        bytes=trend.growth_bytes,
        bytes_per_hour=round(trend.growth_bytes / max(trend.end_s - trend.start_s, 1e-9) * 3600, 1),
        grounds=[Ground("the driver counted it, caches of the processes included", 0.6)],
        device=name,
        evidence=[Evidence(f"it {trend.reason}", {"growth_bytes": trend.growth_bytes})],
        doubts=["torch's cache, fragmentation and a process that was started meanwhile look the same from outside"],
        remedy=["record the job, or take a snapshot of torch's allocator, to see which tensors stay"],
    )


def _finding(
    case: Case, use: DeviceUse, trend: Trend, min_named_share: float, allocated: Sequence[Evidence]
) -> Finding:
    held = _held(case, use, trend, min_named_share)
    grown = format_bytes(trend.growth_bytes, signed=True)
    seconds = max(trend.end_s - trend.start_s, 1e-9)
    steps = _steps(use, trend)
    what = "autograd graphs" if held and held.is_graph else "tensors"
    who = f"{held.name} keeps {what} on {use.device}" if held else f"Memory allocated on {use.device} keeps growing"
    return case.finding(
        _KIND,
        f"{who}: {grown}",
        severity="critical",
        grounds=[
            Ground("torch's allocator counts what is allocated", _COUNTED if trend.verdict == GROWING else _RAN_FULL),
            *([Ground("snapshots found who holds most of it", 0.8)] if held and held.share >= 0.5 else ()),
        ],
        bytes=trend.growth_bytes,
        process=use,
        line=(held.line or Definition(held.text("owner_file"))) if held else None,
        bytes_per_hour=round(trend.growth_bytes / seconds * 3600, 1),
        bytes_per_step=round(trend.growth_bytes / steps, 1) if steps else None,
        evidence=[*_evidence(use, trend, held, steps, case.step_unit), *allocated],
        doubts=[] if held else ["the variable that holds the tensors was not found"],
        remedy=_remedy(held, trend.growth_bytes),
        series=[curve("allocated", use.time_s, use.figures("allocated_bytes"))],
        **_about(use.device, held),
    )


def _about(device: str, held: _Held | None) -> About:
    if held is None:
        return {"device": device}
    variable, module = held.text("variable"), held.text("owner_module")
    named: About = {"holder": held.name, "variable": variable, "path": held.path, "type": held.type, "module": module}
    return named | {"device": device}


def _evidence(use: DeviceUse, trend: Trend, held: _Held | None, steps: int, step_unit: str) -> Iterator[Evidence]:
    allocated = use.figures("allocated_bytes")
    first, last = (round(float(np.interp(at_s, use.time_s, allocated))) for at_s in (trend.start_s, trend.end_s))
    text = f"{use.label}: {format_bytes(first)} were allocated at {trend.start_s:.0f} s, "
    text += f"{format_bytes(last)} at {trend.end_s:.0f} s"
    if steps:
        text += f": {format_per_step(trend.growth_bytes / steps, step_unit)}"
    yield Evidence(text, {"start_bytes": first, "end_bytes": last, "step_count": steps})
    if held is not None:
        yield from _evidence_of_holder(held)
    if not use.last("reserved_bytes"):  # not read
        return
    cached = use.last("reserved_bytes") - use.last("allocated_bytes")
    yield Evidence(
        f"{format_bytes(cached)} more are reserved as a cache: they are not leaked, and "
        "emptying the cache would not help",
        {"reserved_bytes": use.last("reserved_bytes"), "allocated_bytes": use.last("allocated_bytes")},
    )


def _evidence_of_holder(held: _Held) -> Iterator[Evidence]:
    gained = f"{held.name} gained {format_bytes(held.growth_bytes)} from the first to the last snapshot"
    figures = {"growth_bytes": round(held.growth_bytes), "tensor_count": held.count, "share": round(held.share, 3)}
    yield Evidence(f"{gained}, {held.share:.0%} of the growth between them; it now holds {held.type}", figures)
    if held.line is not None:
        yield at_line(held.line, "adds to it" if held.line.kind == "adds" else "works on it")


def _remedy(held: _Held | None, growth_bytes: int) -> list[str]:
    if held is None:
        return []
    frees = format_bytes(min(held.share, 1.0) * growth_bytes)
    if held.is_graph:
        return [f"keep .detach() or .item() in {held.name}, without the graph that made it: frees about {frees}"]
    kept = "keep a number (.item()) or a copy on the CPU (.detach().cpu()) of each tensor"
    return [f"bound or empty {held.name}, or {kept}: frees about {frees} of GPU memory"]


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


def _held(case: Case, use: DeviceUse, trend: Trend, min_named_share: float) -> _Held | None:
    """The variable whose tensors gained most between the first and the last snapshot; None if it is too little."""
    found = device_holders(case.recording, case.sources, use.pid, trend.start_s, trend.end_s)
    if found is None:
        return _held_by_rows(case, use, trend, min_named_share)
    if not found or found[0].place.root_kind == OUTSIDE:  # no variable of Python's leads there
        return None
    most = found[0]
    on_all = [one for one in case.device_uses if one.pid == use.pid]  # the graph does not tell devices apart
    grown = sum(_grown(one, float(most.heap.time_s[0]), float(most.heap.time_s[-1])) for one in on_all)
    share = most.growth_bytes / max(grown, 1.0)
    if share < min_named_share:
        return None
    return _held_tensors(most, share)


def _held_tensors(most: DeviceHolder, share: float) -> _Held:
    place = most.place
    count = int(place.length[-1]) if place.has_length else 0
    member = text_of(place.row, "member_type")
    return _Held(
        path=place.said,
        growth_bytes=most.growth_bytes,
        share=min(share, 1.0),
        count=count,
        type=f"{format_count(count)} {member or 'members'}" if count else place.type_name,
        place=place,
        line=most.lines[0] if most.lines else None,
        is_graph=most.is_graph,
    )


def _grown(use: DeviceUse, start_s: float, end_s: float) -> float:
    allocated = use.figures("allocated_bytes")
    return level_at(use.time_s, allocated, end_s) - level_at(use.time_s, allocated, start_s)


def _held_by_rows(case: Case, use: DeviceUse, trend: Trend, min_named_share: float) -> _Held | None:
    """The same of recordings without a graph that knows what is on devices."""
    rows = _named_tensors(case, use)
    inside = only(rows, (rows["time_s"] >= trend.start_s) & (rows["time_s"] <= trend.end_s))
    rows = inside if inside["take"].nunique() > 1 else rows
    if rows["take"].nunique() < 2:
        return None
    first = only(rows, rows["take"] == rows["take"].min())
    last = only(rows, rows["take"] == rows["take"].max())
    gained = _bytes_by_path(last).sub(_bytes_by_path(first), fill_value=0.0)
    path = str(gained.idxmax())
    grown = _grown(use, float(first["time_s"].iloc[0]), float(last["time_s"].iloc[0]))
    share = float(gained.max()) / max(grown, 1.0)
    if share < min_named_share:
        return None
    own = only(last, last["path"] == path).sort_values("storage_bytes")
    kind = f"{text_of(own.iloc[-1], 'dtype') or ''} tensors".strip()
    heap = heap_of(case.recording, use.pid, trend.start_s, trend.end_s)
    place = next((p for p in heap.places if p.path == path), None) if heap is not None else None
    lines = adding_lines(case.sources, holder_of(user_place(place).row)) if place is not None else []
    count = int(own["storage_count"].fillna(0).sum())
    return _Held(
        path=path,
        growth_bytes=float(gained.max()),
        share=share,
        count=count,
        type=f"{format_count(count)} {kind}" if count else kind,
        place=place,
        line=lines[0] if lines else None,
    )


def _named_tensors(case: Case, use: DeviceUse) -> pd.DataFrame:
    rows = case.rows("tensors")
    rows = only(rows, (rows["pid"] == use.pid) & (rows["device"] == use.device) & rows["path"].notna())
    rows = rows[rows["moment"].fillna("take") == "take"]
    takes = case.rows("takes")
    return without_last(rows, only(takes, takes["pid"] == use.pid))


def _bytes_by_path(rows: pd.DataFrame) -> pd.Series[float]:
    return rows["storage_bytes"].astype("float64").groupby(rows["path"]).sum()
