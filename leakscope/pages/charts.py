"""The timeline and its lanes as shapes for a page that needs no JavaScript. ``plots`` has the charts of lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ..findings import Band, Moment, Outlook, Timeline
from ..units import format_duration
from . import axes

_COLOURS = 12
CULPRIT = 12  # the number of its colour, which nothing else has
_NEAR = 2.0  # times the run, and times its peak: a limit further away is named, not drawn to scale
_ROOM = 0.14  # of the run, to its right: for the line that goes on
_ACCOUNT_SLOTS = {  # an account has the same colour in every report, in its timeline and its ledger
    "tensors": 0, "arrays": 1, "python-objects": 5, "native": 2, "native-held": 6, "allocator-free": 3,
    "shared-memory": 7, "mapped-files": 4, "other": 11, "unexplained": 11,
}  # fmt: skip
_PHASE_SLOTS = {"start-up": 4, "train": 6, "eval": 9, "save": 8}
_FREE_SLOTS = (10, 1, 7, 3, 2, 5, 0)  # of phases that the program named itself
_MOMENT_NAMES = {  # in the order of their lanes
    "alert": "alerts", "death": "killed", "pressure": "pressure", "birth": "began", "end": "ended",
    "event": "events", "mark": "marks",
    "phase": "phases", "take": "snapshots",
}  # fmt: skip


@dataclass(frozen=True)
class Shape:
    """A path of a chart; ``slot`` is the number of its colour, ``dash`` of its dashes, 0 for a line without."""

    name: str
    slot: int
    path: str
    dash: int = 0


@dataclass(frozen=True)
class Mark:
    """Something that happened, in percent from the left; ``width`` and ``slot`` of a phase whose end is known."""

    time_s: float
    end_s: float | None
    at: float
    width: float | None
    label: str
    name: str | None
    slot: int | None


@dataclass(frozen=True)
class Lane:
    """Moments of one kind. What came before the first sample, or after the last as a kill does, stands at the edge."""

    kind: str
    name: str
    marks: Sequence[Mark]

    @property
    def spans(self) -> dict[str, int]:
        """Names of what has a beginning and an end, with the number of their colours."""
        return {m.name: m.slot for m in self.marks if m.name is not None and m.slot is not None}


@dataclass(frozen=True)
class Chart:
    """What the template draws. ``sentence`` says for those who cannot see it what there is to see."""

    sentence: str
    shapes: Sequence[Shape]
    x_ticks: Sequence[axes.Tick]
    y_ticks: Sequence[axes.Tick]
    lanes: Sequence[Lane] = ()
    window: tuple[float, float] | None = None
    began: float | None = None
    trend: str | None = None
    limit: float | None = None
    limit_label: str = ""
    marks: Sequence[axes.Tick] = ()


@dataclass(frozen=True)
class Frame:
    """How far a timeline is drawn: to the limit where that is near, else a little beyond the run.

    ``limit_bytes`` is None where the limit lies outside.
    """

    last_s: float
    top_bytes: float
    limit_bytes: int | None


def frame(timeline: Timeline) -> Frame:
    """The same for every picture of it."""
    last_s, top = timeline.time_s[-1], float(max(*timeline.total_bytes, 1))
    ahead = timeline.outlook
    if ahead is None or ahead.end_bytes is None:
        return Frame(last_s, top, None)
    span = last_s - timeline.time_s[0]
    full_s, limit = ahead.full_s, ahead.limit_bytes
    if full_s is not None and limit is not None and full_s <= last_s + (_NEAR - 1) * span and limit <= _NEAR * top:
        return Frame(max(last_s, full_s) + 0.03 * span, max(top, limit), limit)
    return Frame(last_s + _ROOM * span, max(top, _line_at(ahead, last_s + _ROOM * span)), None)


def _line_at(ahead: Outlook, at_s: float) -> float:
    """Bytes of the straight line at a moment, also beyond its window."""
    first, last = ahead.start_bytes or 0, ahead.end_bytes or 0
    return first + (last - first) * (at_s - ahead.start_s) / (ahead.end_s - ahead.start_s)


def stacked(timeline: Timeline, bands: Sequence[Band], colours: Sequence[int], sentence: str, full: str = "") -> Chart:
    """The layers of a timeline on top of each other, the first at the bottom; ``full`` says when the limit is."""
    shown = axes.extremes(timeline.total_bytes)
    time_s = [timeline.time_s[i] for i in shown]
    around = frame(timeline)
    y_ticks, _, high = axes.ticks(0.0, around.top_bytes, axes.byte_step, axes.size)
    x, y = axes.scale(time_s[0], around.last_s), axes.scale(high, 0.0)
    shapes = []
    floor = [0] * len(shown)
    for band, slot in zip(bands, colours):
        roof = [below + band.value_bytes[i] for below, i in zip(floor, shown)]
        edge = [*zip(time_s, roof), *reversed(list(zip(time_s, floor)))]
        shapes.append(Shape(band.name, slot, axes.path((x(at), y(value)) for at, value in edge) + "Z"))
        floor = roof
    ahead = timeline.outlook
    line = None
    if ahead is not None and ahead.end_bytes is not None:
        end_s = min(around.last_s, ahead.full_s or around.last_s)
        line = axes.path((x(at_s), y(_line_at(ahead, at_s))) for at_s in (ahead.start_s, end_s))
    return Chart(
        sentence,
        shapes,
        axes.time_ticks(time_s[0], around.last_s),
        y_ticks,
        lanes(timeline),
        window=(x(ahead.start_s) / 10, x(ahead.end_s) / 10) if ahead is not None else None,
        began=x(ahead.began_s) / 10 if ahead is not None and ahead.began_s is not None else None,
        trend=line,
        limit=y(around.limit_bytes) / 10 if around.limit_bytes is not None else None,
        limit_label=full,
    )


def slots(bands: Sequence[Band]) -> list[int]:
    """The number of each band's colour."""
    return [_ACCOUNT_SLOTS.get(band.name, number % _COLOURS) for number, band in enumerate(bands)]


def account_slot(account: str) -> int | None:
    """The number of an account's colour; None for one that no timeline shows."""
    return _ACCOUNT_SLOTS.get(account)


def lanes(timeline: Timeline) -> list[Lane]:
    """What happened, a row for each kind."""
    slots = _phase_slots(timeline)
    found = []
    for kind, name in _MOMENT_NAMES.items():
        own = [_mark(moment, timeline, slots) for moment in timeline.moments if moment.kind == kind]
        if own:
            found.append(Lane(kind, name, own))
    return found


def _phase_slots(timeline: Timeline) -> dict[str, int]:
    named = list(dict.fromkeys(m.phase for m in timeline.moments if m.phase and m.phase not in _PHASE_SLOTS))
    return {**_PHASE_SLOTS, **{name: _FREE_SLOTS[n % len(_FREE_SLOTS)] for n, name in enumerate(named)}}


def _mark(moment: Moment, timeline: Timeline, slots: Mapping[str, int]) -> Mark:
    first_s, last_s = timeline.time_s[0], timeline.time_s[-1]
    x = axes.scale(first_s, frame(timeline).last_s, 100.0)
    at_s = min(last_s, max(first_s, moment.time_s))
    if moment.end_s is None or moment.phase is None:
        return Mark(at_s, None, x(at_s), None, moment.text, None, None)
    end_s = min(last_s, max(at_s, moment.end_s))
    label = f"{moment.text}, {format_duration(moment.end_s - moment.time_s)}"
    return Mark(at_s, end_s, x(at_s), x(end_s) - x(at_s), label, moment.phase, slots[moment.phase])
