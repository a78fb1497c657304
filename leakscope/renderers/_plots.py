"""What a report has to look at besides its heap: each view as the description of a chart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..findings import DeviceMemory, HeapView, Laps, Report
from ..pages import icicle
from ..pages.charts import CULPRIT
from ..pages.plots import Curve, Plot, colour, dash, ramp
from ..units import format_bytes, format_count, format_duration
from ._places import heap_place
from ._timeline import TIMELINE, timeline_plot

_MOST_HOLDERS = 8
_NEARLY_ALL = 0.8  # of what a holder retains: then its member is the one to name
_LEAST_SHARE = 0.01  # of all objects, at one snapshot at least: a thinner band is not seen
_REST = 6  # the colour of what is not told apart


def views(report: Report) -> dict[str, Plot]:
    """By the id of their place in the page."""
    timeline = timeline_plot(report)
    found = {TIMELINE: timeline} if timeline is not None else {}
    if report.laps is not None:
        found["laps"] = _laid_over(report.laps)
        found["levels"] = _levels(report.laps)
    for number, device in enumerate(report.devices):
        found[f"device-{number}"] = _device(device)
    linked = places(report)
    for number, view in enumerate(report.heap):
        own = {at[1]: f"finding-{finding + 1}" for finding, at in reversed(linked.items()) if at[0] == number}
        plot = _holders(view, own, report.verdict.step_unit)
        if plot is not None:
            found[f"holders-{number}"] = plot
    return found


def places(report: Report) -> dict[int, tuple[int, int]]:
    """For each finding that names a holder of a shown heap: which holder of which heap."""
    found = ((number, heap_place(report, finding)) for number, finding in enumerate(report.findings))
    return {number: at for number, at in found if at is not None}


def _laid_over(laps: Laps) -> Plot:
    drawn = [lap for lap in laps.laps if lap.at]
    return Plot(
        f"Memory along each of {len(drawn)} laps of {laps.by}",
        [Curve(lap.name, ramp(n, len(drawn)), lap.at, lap.value_bytes) for n, lap in enumerate(drawn)],
        laps.unit,
        ordered=True,
    )


def _levels(laps: Laps) -> Plot:
    numbers = [float(n) for n in range(1, len(laps.laps) + 1)]
    times = [f"{lap.name} ({format_duration(lap.start_s)})" for lap in laps.laps]
    return Plot(
        f"Floor and peak of each lap of {laps.by}",
        [
            Curve("peak", colour(1), numbers, [lap.peak_bytes for lap in laps.laps], dash(1)),
            Curve("floor", colour(0), numbers, [lap.floor_bytes for lap in laps.laps]),
        ],
        "number",
        names=dict(zip(numbers, times)),
    )


def _device(device: DeviceMemory) -> Plot:
    told = (
        ("reserved by torch", device.reserved_bytes),
        ("allocated to tensors", device.allocated_bytes),
        ("used, as the driver counts", device.used_bytes),
    )
    limit = device.limit_bytes
    return Plot(
        f"Memory of {device.device}",
        [Curve(name, colour(n), device.time_s, y, dash(n)) for n, (name, y) in enumerate(told) if y],
        marks=[(moment.time_s, moment.text) for moment in device.failures],
        limit=(limit, f"{format_bytes(limit)}, the limit") if limit is not None else None,
    )


def _holders(view: HeapView, linked: dict[int, str], step_unit: str) -> Plot | None:
    """The largest holders of which none lies within another, over all snapshots; the first at the bottom."""
    nodes = icicle.nodes(view)
    at = {node.holder: node for node in nodes if node.holder is not None}
    visible = _LEAST_SHARE * max(nodes[1].bytes)
    chosen = [i for i in _apart(view, linked) if max(view.holders[i].bytes) >= visible]
    if not chosen or len({take.time_s for take in view.takes}) < 2:
        return None
    time_s = [take.time_s for take in view.takes]
    curves = [
        Curve(
            _name(view, i),
            CULPRIT if linked.get(i) == "finding-1" else colour(n),
            time_s,
            at[i].bytes,
            link=linked.get(i),
        )
        for n, i in enumerate(chosen)
    ]
    rest = [whole - sum(at[i].bytes[n] for i in chosen) for n, whole in enumerate(nodes[1].bytes)]
    curves.append(Curve("all other objects", _REST, time_s, [max(0, some) for some in rest]))
    named = [
        f"snapshot {take.take}, {format_duration(take.time_s)}"
        + (f", {step_unit} {format_count(take.step)}" if take.step is not None else "")
        for take in view.takes
    ]
    return Plot(
        f"What the largest holders of {view.process} held at each snapshot",
        curves,
        stacked=True,
        names=dict(zip(time_s, named)),
    )


def _name(view: HeapView, number: int) -> str:
    """Its path, with the type where others are called alike."""
    holder = view.holders[number]
    alike = sum(one.path == holder.path for one in view.holders) > 1
    return f"{holder.path} ({holder.type})" if alike and holder.type else holder.path


def _apart(view: HeapView, linked: dict[int, str]) -> list[int]:
    """Those that findings name first, then the largest; of two of which one holds the other only the first."""
    chosen: list[int] = []
    tops = sorted(_descended(view), key=lambda i: -max(view.holders[i].bytes))
    for number in [*linked, *tops]:
        if len(chosen) < _MOST_HOLDERS and not any(_related(view, number, other) for other in chosen):
            chosen.append(number)
    return chosen


def _descended(view: HeapView) -> Iterator[int]:
    """Each holder at the top, or the member deep in it that has nearly all of its bytes; then what is beside those."""
    members: dict[int | None, list[int]] = {}
    for number, holder in enumerate(view.holders):
        members.setdefault(holder.parent, []).append(number)
    ahead = list(members.get(None, []))
    while ahead:
        number = ahead.pop()
        inner = sorted(members.get(number, []), key=lambda i: -view.holders[i].bytes[-1])
        if inner and view.holders[inner[0]].bytes[-1] >= _NEARLY_ALL * view.holders[number].bytes[-1] > 0:
            ahead.append(inner[0])
        else:
            yield number


def _related(view: HeapView, one: int, other: int) -> bool:
    """By the last snapshot, or by name: in another, one may have been the only way to what hangs beside it there."""
    paths = view.holders[one].path, view.holders[other].path
    named_within = any(inner.startswith((f"{outer}.", f"{outer}[")) for outer, inner in (paths, paths[::-1]))
    return named_within or one in _above(view, other) or other in _above(view, one)


def _above(view: HeapView, number: int) -> Sequence[int]:
    """The holder itself, and all that hold it."""
    found = [number]
    while (parent := view.holders[found[-1]].parent) is not None:
        found.append(parent)
    return found
