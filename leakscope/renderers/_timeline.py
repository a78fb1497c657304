"""Memory of the process tree over the run as the description of a chart: its divisions, its outlook, what happened."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from typing import NamedTuple

from ..findings import OTHERS, Band, Moment, Outlook, Report, Timeline
from ..pages import charts
from ..pages.charts import Lane, Mark
from ..pages.plots import Curve, Plot, Trend
from ..units import format_about, format_duration
from ._places import heap_place

TIMELINE = "timeline"  # its key among the plots of a report
ACCOUNT, PROCESS = "account", "process"
_HELD = ("tensors", "arrays", "python-objects")  # accounts in which a holder's bytes are counted
_FAR = 2.0  # times the run, and times its peak: a limit further away is named, not drawn to scale
_ROOM = 0.14  # of the run, to its right: for the line that goes on
_EDGE = 0.03
_UNSEEN = 0.04  # of the run, after the last snapshot: less is not seen in the picture either
LANES = {  # in the order of their rows
    "alert": "alerts", "death": "killed", "pressure": "pressure", "birth": "began", "end": "ended",
    "event": "events", "mark": "marks", "phase": "phases", "take": "snapshots",
}  # fmt: skip


def timeline_plot(report: Report) -> Plot | None:
    """None where there are no two moments."""
    timeline = report.timeline
    if timeline is None or len(timeline.time_s) < 2:
        return None
    (by, curves), *divisions = _divisions(report, timeline)
    ahead = timeline.outlook
    full = _full(report, ahead)
    peak = max(range(len(timeline.time_s)), key=timeline.total_bytes.__getitem__)
    return Plot(
        "Memory of the process tree",
        curves,
        stacked=True,
        by=by,
        divisions=divisions,
        lanes=list(_lanes(timeline)),
        common=(ahead.start_s, ahead.end_s) if ahead is not None else None,
        onset=(ahead.began_s, "grows since here") if ahead is not None and ahead.began_s is not None else None,
        trend=_trend(timeline, ahead) if ahead is not None else None,
        limit=(ahead.limit_bytes, full) if ahead is not None and ahead.limit_bytes is not None and full else None,
        steps=timeline.step,
        step_unit=report.verdict.step_unit,
        first_seen=timeline.time_s[peak],
        last=_last_s(timeline, ahead),
    )


def _trend(timeline: Timeline, ahead: Outlook) -> Trend | None:
    if ahead.end_bytes is None:
        return None
    until = min(_last_s(timeline, ahead), ahead.full_s or ahead.end_s * _FAR)
    return Trend((ahead.start_s, ahead.start_bytes or 0), (ahead.end_s, ahead.end_bytes), max(ahead.end_s, until))


def _last_s(timeline: Timeline, ahead: Outlook | None) -> float:
    """How far it is drawn: to the limit where that is near, else a little beyond the run."""
    last_s, span = timeline.time_s[-1], timeline.time_s[-1] - timeline.time_s[0]
    if ahead is None or ahead.end_bytes is None:
        return last_s
    full_s, limit, most = ahead.full_s, ahead.limit_bytes, max(timeline.total_bytes)
    if full_s is not None and limit is not None and full_s <= last_s + (_FAR - 1) * span and limit <= _FAR * most:
        return max(last_s, full_s) + _EDGE * span
    return last_s + _ROOM * span


def _lanes(timeline: Timeline) -> Iterator[Lane]:
    """What happened, a row for each kind."""
    slots = charts.phase_slots(moment.phase for moment in timeline.moments if moment.phase)
    for kind, name in LANES.items():
        own = [_mark(moment, slots.get(moment.phase or "")) for moment in timeline.moments if moment.kind == kind]
        if own:
            yield Lane(kind, name, own)


def _mark(moment: Moment, slot: int | None) -> Mark:
    if moment.end_s is None or moment.phase is None:
        return Mark(moment.time_s, moment.text)
    label = f"{moment.text}, {format_duration(moment.end_s - moment.time_s)}"
    return Mark(moment.time_s, label, moment.end_s, moment.phase, slot)


def _divisions(report: Report, timeline: Timeline) -> list[tuple[str, list[Curve]]]:
    """The ways to divide the memory: by process first where there are several. The culprit is a band of its own."""
    culprit = _culprit(report, timeline)
    found = []
    for by, bands in ((ACCOUNT, list(timeline.accounts)), (PROCESS, list(timeline.processes))):
        colours, taken = charts.slots(bands), [0]
        if culprit is not None:
            bands, taken = (_of_accounts if by == ACCOUNT else _of_processes)(bands, culprit)
        curves = [
            Curve(b.name, c, timeline.time_s, b.value_bytes, estimated=b.estimated) for b, c in zip(bands, colours)
        ]
        if culprit is not None and any(taken):
            curves += _seen_and_after(culprit, timeline.time_s, taken)
        found.append((by, curves))
    return found[::-1] if len(timeline.processes) > 1 else found


class _Culprit(NamedTuple):
    """What the first finding names: how much of it each process held, and how many moments until that was seen last.

    ``judged``: the moment since which it is judged to grow. What grew before, as it started up, tells of no holder.
    """

    name: str
    held_in: dict[str, list[int]]
    judged: int
    seen: int
    seen_s: float


def _seen_and_after(culprit: _Culprit, time_s: Sequence[float], held: Sequence[int]) -> Iterator[Curve]:
    """Its band to the last snapshot that shows it, and from there a paler one: as it grew until then."""
    seen = culprit.seen
    before = [*held[:seen], *[None] * (len(held) - seen)]
    yield Curve(culprit.name, charts.CULPRIT, time_s, before, estimated=True)
    if seen < len(held):
        after = [*[None] * seen, *held[seen:]]
        name = f"{culprit.name}, extrapolated from {format_duration(culprit.seen_s)} on"
        yield Curve(name, charts.SEEN_BEFORE, time_s, after, estimated=True)


def _of_accounts(bands: Sequence[Band], culprit: _Culprit) -> tuple[list[Band], list[int]]:
    """The accounts without what a holder held in all processes, and how much of that was found in them.

    What it gained since it was seen last is not divided yet: it lies in whichever accounts have gained since.
    """
    held, first, last = _added(culprit.held_in.values()), culprit.judged, culprit.seen - 1
    gains = [band.value_bytes[last] - band.value_bytes[first] for band in bands]
    in_order = sorted((i for i, b in enumerate(bands) if b.name in _HELD), key=lambda i: -gains[i])
    seen = [min(then, held[last]) if at > last else then for at, then in enumerate(held)]
    left, taken = _without(bands, in_order, seen)
    since = [
        [max(0, there - band.value_bytes[last]) if at > last else 0 for at, there in enumerate(band.value_bytes)]
        for band in bands
    ]
    for i in sorted(range(len(bands)), key=lambda i: -since[i][-1]):
        missing = [min(of - got, most) for of, got, most in zip(held, taken, since[i])]
        left, more = _without(left, [i], missing)
        taken = _added([taken, more])
    return left, taken


def _of_processes(bands: Sequence[Band], culprit: _Culprit) -> tuple[list[Band], list[int]]:
    """The processes without what a holder held in each of them, and how much that was; small ones are one band."""
    left, taken = list(bands), []
    at = {band.name: i for i, band in enumerate(bands)}
    others = len(bands) - 1 if bands and bands[-1].name.endswith(OTHERS) else None
    for label, held in culprit.held_in.items():
        if (i := at.get(label, others)) is not None:
            left, there = _without(left, [i], held)
            taken.append(there)
    return left, _added(taken)


def _added(levels: Iterable[Sequence[int]]) -> list[int]:
    return [sum(at) for at in zip(*levels)]


def _without(bands: Sequence[Band], sources: Iterable[int], held: Sequence[int]) -> tuple[list[Band], list[int]]:
    """The bands without what one holder held, and how much of that was found in these of them."""
    left, taken = list(bands), [0] * len(held)
    for i in sources:
        part = [min(there, of - got) for there, of, got in zip(left[i].value_bytes, held, taken)]
        left[i] = replace(left[i], value_bytes=[there - some for there, some in zip(left[i].value_bytes, part)])
        taken = [got + some for got, some in zip(taken, part)]
    return left, taken


def _culprit(report: Report, timeline: Timeline) -> _Culprit | None:
    """The holder that the first finding names; straight between snapshots."""
    finding = report.findings[0] if report.findings else None
    if finding is None or finding.wasted or not report.verdict.leaking or finding.subject.device not in (None, "cpu"):
        return None
    start_s = timeline.time_s[0]
    label = f"{finding.subject.process}[{finding.subject.pid}]"
    of_each = {
        one.process or label: ([start_s, *one.x], [0.0, *(y or 0.0 for y in one.y)])
        for one in finding.series
        if one.process or one.is_of_holder
    }
    name = finding.subject.holder
    if not of_each:
        place = heap_place(report, finding)
        if place is None:
            return None
        view = report.heap[place[0]]
        holder = view.holders[place[1]]
        of_each = {view.process: ([start_s, *(take.time_s for take in view.takes)], [0.0, *holder.bytes])}
        name = name or holder.path
    held_in = {label: [_between(at_s, held, t) for t in timeline.time_s] for label, (at_s, held) in of_each.items()}
    for band in timeline.processes:  # nothing after its end
        if band.name in held_in:
            held_in[band.name] = [min(most) for most in zip(held_in[band.name], band.value_bytes)]
    time_s, seen_s = timeline.time_s, max(at_s[-1] for at_s, _ in of_each.values())
    is_over = seen_s < time_s[-1] - _UNSEEN * (time_s[-1] - start_s)
    seen = max(1, bisect_right(time_s, seen_s)) if is_over else len(time_s)
    since = bisect_left(time_s, timeline.outlook.start_s) if timeline.outlook is not None else 0
    return _Culprit(name or finding.title, held_in, since if since < seen - 1 else 0, seen, seen_s)


def _between(at_s: Sequence[float], values: Sequence[float], moment_s: float) -> int:
    """Straight between two snapshots, and on as between the first that shows it and the last."""
    after = bisect_right(at_s, moment_s)
    if after == 0:
        return round(values[0])
    if after == len(at_s):
        gained, took_s = (values[-1] - values[1], at_s[-1] - at_s[1]) if len(at_s) > 2 else (0.0, 0.0)
        pace = max(0.0, gained) / took_s if took_s > 0 else 0.0
        return round(values[-1] + pace * (moment_s - at_s[-1]))
    part = (moment_s - at_s[after - 1]) / ((at_s[after] - at_s[after - 1]) or 1.0)
    return round(values[after - 1] + part * (values[after] - values[after - 1]))


def _full(report: Report, ahead: Outlook | None) -> str:
    """``host (21.9 GiB for this job) full 23:41 UTC, in 3 h 54 min``; empty where no limit comes nearer."""
    if ahead is None or ahead.full_s is None or ahead.limit_bytes is None:
        return ""
    at = clock(report.recording.started_at, ahead.full_s)
    return f"{ahead.limit or 'limit'} full {at + ', ' if at else ''}in {format_about(ahead.full_s - ahead.end_s)}"


def clock(started_at: str, after_s: float) -> str:
    """The time of day, with the date if that is another day; empty where nobody knows when the recording began."""
    try:
        start = datetime.fromisoformat(started_at.replace("Z", "+00:00"))
        then = start + timedelta(seconds=after_s)
    except (ValueError, OverflowError):
        return ""
    return f"{then:%H:%M} UTC" if then.date() == start.date() else f"{then:%Y-%m-%d %H:%M} UTC"
