"""One frame: a scene as lines of text that fit a terminal. Pure: no clock, no terminal."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from textwrap import wrap
from typing import NamedTuple

from rich.cells import cell_len, set_cell_size

from ..recorder.limits import Limit
from ..units import SOME, format_bytes, format_count, format_duration, short_rate
from .chart import Part, chart
from .scene import Member, Scene

HEAD, ALARM, FAINT, PLAIN = "head", "alarm", "faint", "plain"
_MOST_HOLDERS = 6
_LEAST_SHARE = 0.005  # of the job's memory: what holds less is no answer to any question
_MOST_EVENTS = 4
_CHART_HEIGHT = 6  # rows
_EARLY_S = 30.0
_LABEL_WIDTH, _TIME_WIDTH = 8, 12
_COLUMNS = (11, 11, 9, 7)  # widths of the figures beside a name
_LEAST_NAME_WIDTH, _MOST_NAME_WIDTH = 20, 72
_FAR_S = 24 * 3600.0  # a limit farther away than a day is no news


class Line(NamedTuple):
    """One line and how it is to stand out; ``parts`` of it by styles of their own."""

    text: str
    style: str = PLAIN
    parts: Sequence[Part] = ()


class _Section(NamedTuple):
    head: Line
    lines: list[Line]


def frame(
    scene: Scene, command: str, state: str, *, age_s: float = 0.0, width: int = 80, colour: bool = False
) -> list[Line]:
    """The lines of a look without keys, each at most ``width`` cells wide.

    ``state`` is said at the top. ``age_s`` is how long ago the newest row came: the run is that much older.
    """
    lines = head(scene, command, state, age_s=age_s, width=width, chart_height=_CHART_HEIGHT, colour=colour)
    for section in (_processes(scene, width), _holders(scene, age_s, width), _events(scene, width)):
        if section.lines:
            lines += [Line(""), section.head, *section.lines]
    return fitted(lines, width)


def head(
    scene: Scene, command: str, state: str, *, age_s: float, width: int, chart_height: int, colour: bool
) -> list[Line]:
    """What stands above the tables: the command, memory over time, the nearest limit, the step, how it looks so far."""
    first = list(_head(scene, command, state, age_s, width))
    drawn = chart(scene.course(), width, chart_height, colour=colour)
    figures = [*_memory(scene), *_limits(scene), *_steps(scene), *_so_far(scene)]
    return [*first, *(Line("".join(part.text for part in parts), PLAIN, parts) for parts in drawn), *figures]


def events(scene: Scene, width: int) -> list[Line]:
    """The newest events, with the moment of each."""
    return _events(scene, width).lines


def fitted(lines: Sequence[Line], width: int) -> list[Line]:
    """No line wider, and nothing in it that moves a terminal's cursor."""
    return [line._replace(text=_fit(line.text, width).rstrip()) for line in lines]


def _head(scene: Scene, command: str, state: str, age_s: float, width: int) -> Iterator[Line]:
    right = f"{_clock(scene.now_s + age_s)}  {state}"
    room = max(10, width - cell_len(right) - 2)
    yield Line(f"{_fit(command or 'leakscope watch', room)}  {right}", HEAD)


def _memory(scene: Scene) -> Iterator[Line]:
    figures = scene.figures
    if figures.first_bytes is None:
        yield _labelled("memory", "not yet read")
        return
    parts = [format_bytes(figures.last_bytes), scene.peak_text]
    if (rate := figures.steady_bytes_per_s) is not None and scene.ending_text is None:
        parts.append(short_rate(rate, scene.now_s, signed=True))
    yield _labelled("memory", "   ".join(parts))


def _limits(scene: Scene) -> Iterator[Line]:
    nearest = scene.limits.nearest
    if nearest is not None:
        left_s = nearest.seconds_left
        # What has ended fills nothing any more.
        near = left_s is not None and left_s < _FAR_S and scene.ending_text is None
        when = f"; full in {format_duration(left_s or 0)}{_at_its_rate(scene, nearest)}" if near else ""
        left = f"{format_bytes(max(0, nearest.room_bytes))} of {format_bytes(nearest.limit_bytes)}"
        text = f"{nearest.name}: {left} left{when}"
        yield _labelled("limit", text, ALARM if near else PLAIN)
    for limit in sorted(scene.limits):
        if limit.is_gpu and limit is not nearest:
            yield _labelled("gpu", f"{limit.name}: {_used(limit)}")


def _at_its_rate(scene: Scene, limit: Limit) -> str:
    """Where it is not the job's rate, which stands above: others fill the limit, too, or give back."""
    rate, job = limit.bytes_per_s or 0.0, scene.figures.steady_bytes_per_s
    if job is not None and abs(rate - job) <= SOME * max(rate, job):
        return ""
    return f" at {short_rate(rate, scene.now_s)}"


def _used(limit: Limit) -> str:
    return f"{limit.used_fraction:.0%} of {format_bytes(limit.limit_bytes)} used"


def _steps(scene: Scene) -> Iterator[Line]:
    pace = scene.fastest()
    if pace is not None:
        per_s = pace.per_s
        rate = "" if per_s is None else f"   {per_s:.{1 if per_s >= 1 else 2}f} {scene.step_unit}s/s"
        yield _labelled(scene.step_unit, format_count(pace.step) + rate)


def _so_far(scene: Scene) -> Iterator[Line]:
    """Whether it grows, and who gained most: the report judges, this only looks."""
    if scene.ending_text is not None or scene.figures.first_bytes is None:
        return
    rate = scene.figures.steady_bytes_per_s
    if scene.now_s < _EARLY_S:
        yield _labelled("so far", "too early to say whether it leaks", FAINT)
    elif rate is None or rate <= 0:
        yield _labelled("so far", "no steady growth")
    else:
        gained = max(scene.holders.largest(), key=lambda holder: holder.growth_bytes or 0, default=None)
        who = ""
        if gained is not None and (gained.growth_bytes or 0) > 0:
            who = f"; {gained.path} gained {format_bytes(gained.growth_bytes or 0)}"
        yield _labelled("so far", f"it grows steadily{who}", ALARM)


def _processes(scene: Scene, width: int) -> _Section:
    """One line for all processes of one role that run the same; of a job that has ended, those of its last moment."""
    groups: dict[str, list[Member]] = {}
    for member in list(scene) or scene.last_alive():
        groups.setdefault(member.name, []).append(member)
    ordered = sorted(groups.items(), key=lambda each: -sum(member.held_bytes for member in each[1]))
    return _Section(
        Line(_row(width, "PROCESSES", "memory", "growth", "threads", "cpu"), FAINT),
        [Line(_process_row(width, name, members)) for name, members in ordered],
    )


def _process_row(width: int, name: str, members: Sequence[Member]) -> str:
    which = f"×{len(members)}" if len(members) > 1 else f"[{members[0].pid}]"
    shares = [member.cpu_fraction for member in members if member.cpu_fraction is not None]
    return _row(
        width,
        _fit(name, _name_width(width) - len(which) - 1).rstrip() + f" {which}",
        format_bytes(sum(member.held_bytes for member in members)),
        format_bytes(sum(member.growth_bytes for member in members), signed=True),
        str(sum(member.thread_count for member in members)),
        f"{sum(shares):.0%}" if shares else "",
    )


def _holders(scene: Scene, age_s: float, width: int) -> _Section:
    taken_s = scene.holders.newest_s()
    ago = "" if taken_s is None else f" {_clock(scene.now_s + age_s - taken_s)} ago"
    least_bytes = _LEAST_SHARE * scene.figures.last_bytes
    holders = [holder for holder in scene.holders.largest() if holder.bytes >= least_bytes]
    are_of_many = len({holder.process for holder in holders}) > 1
    rows = []
    for holder in holders[:_MOST_HOLDERS]:
        owner = f"[{holder.process[0]}] " if are_of_many else ""
        path = end_of(holder.path, _name_width(width) - len(owner))
        length = "" if holder.length is None else format_count(holder.length)
        growth = "" if holder.growth_bytes is None else format_bytes(holder.growth_bytes, signed=True)
        rows.append(Line(_row(width, owner + path, format_bytes(holder.bytes), growth, length)))
    return _Section(Line(_row(width, f"LARGEST HOLDERS{ago}", "holds", "growth", "members"), FAINT), rows)


def _events(scene: Scene, width: int) -> _Section:
    lines = []
    for event in list(scene.events)[-_MOST_EVENTS:]:
        parts = wrap(event.text, max(20, width - _TIME_WIDTH - 2)) or [""]
        times = [_clock(event.at_s), *[""] * len(parts)]
        lines += [Line(f"{time:>{_TIME_WIDTH}}  {part}", ALARM) for time, part in zip(times, parts)]
    return _Section(Line("EVENTS", FAINT), lines)


def _clock(seconds: float) -> str:
    """In whole seconds: it counts up before the reader's eyes."""
    whole = round(max(0.0, seconds))
    return f"{whole} s" if whole < 100 else format_duration(whole)


def _labelled(label: str, text: str, style: str = PLAIN) -> Line:
    return Line(f"{label:<{_LABEL_WIDTH}} {text}", style)


def _row(width: int, name: str, *figures: str) -> str:
    """A name and right-aligned columns: two of bytes, then narrower ones."""
    return _fit(name, _name_width(width)) + "".join(f" {text:>{cells}}" for text, cells in zip(figures, _COLUMNS))


def _name_width(width: int) -> int:
    return max(_LEAST_NAME_WIDTH, min(_MOST_NAME_WIDTH, width - sum(_COLUMNS) - len(_COLUMNS)))


def end_of(path: str, width: int) -> str:
    """Of a long path the end says most; control characters would move the cursor."""
    path = _clean(path)
    return path if cell_len(path) <= width else "…" + path[-(width - 1) :]


def _fit(text: str, width: int) -> str:
    """Exactly ``width`` cells; control characters of a command line would move the cursor."""
    text = _clean(text)
    if cell_len(text) > width:
        return set_cell_size(text, max(0, width - 1)) + "…"
    return set_cell_size(text, width)


def _clean(text: str) -> str:
    return "".join(c if c.isprintable() else " " for c in text)
