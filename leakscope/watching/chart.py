"""Memory over a whole run in characters: by account, with the limit and where it leads. Pure: no clock, no terminal."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from ..units import format_bytes, format_duration

ALARM, FAINT = "alarm", "faint"
# From the bottom up, with what fills each where there is no colour: what a leak adds to lies on top.
FILLS = {"other": "░", "held by objects": "▒", "tensors": "█"}
_TOPS = " ▁▂▃▄▅▆▇█"
_LABEL_WIDTH = 10
_FUTURE_SHARE = 6  # one column in so many is of the time to come, where that is known
_SHOWN_LIMIT = 1.6  # times the most so far: a limit above that would press all else to the ground
LEAST_WIDTH, LEAST_HEIGHT = 40, 3


class Part(NamedTuple):
    """Characters of one style: an account, ``alarm``, ``faint``, or none."""

    text: str
    style: str = ""


class Course(NamedTuple):
    """What is drawn: each account from the bottom up, of one length; over how many seconds.

    ``room_bytes`` until a limit that all of it counts against; ``rate`` bytes a second, where it grows steadily.
    """

    accounts: Mapping[str, Sequence[int]]
    seconds: float
    room_bytes: int | None = None
    rate: float | None = None


def chart(course: Course, width: int, height: int, *, colour: bool) -> list[list[Part]]:
    """``height`` lines, one of times and one of names below them; none where there is no room, or less than two values.

    ``colour``: whoever shows it colours the accounts; else each is filled by other characters.
    """
    count = min(map(len, course.accounts.values()), default=0)
    if count < 2 or width < LEAST_WIDTH or height < LEAST_HEIGHT:
        return []
    cells = width - _LABEL_WIDTH
    ahead = cells // _FUTURE_SHARE if course.rate and course.rate > 0 else 0
    past = cells - ahead
    columns = [
        {name: values[min(count - 1, at * count // past)] for name, values in course.accounts.items()}
        for at in range(past)
    ]
    now_bytes = sum(values[count - 1] for values in course.accounts.values())
    most = max(sum(column.values()) for column in columns)
    coming = [now_bytes + (course.rate or 0.0) * course.seconds / past * (at + 1) for at in range(ahead)]
    limit = None if course.room_bytes is None else now_bytes + course.room_bytes
    top = max([most, *coming, 1])
    is_near = limit is not None and limit <= _SHOWN_LIMIT * top
    top = height * _round_up(max(top, limit if is_near and limit is not None else 0) / height)
    lines = []
    for row in range(height):
        low, high = top * (height - 1 - row) / height, top * (height - row) / height
        is_limit = is_near and limit is not None and low <= limit < high
        drawn = [_cell(column, low, high, colour) for column in columns]
        drawn += [Part("·", ALARM) if low <= at < high else Part(" ") for at in coming]
        if is_limit:
            drawn = [Part("╌", ALARM) if part.text == " " else part for part in drawn]
        label = "limit" if is_limit else format_bytes(high) if row % 2 == 0 else ""
        lines.append([Part(f"{label:>{_LABEL_WIDTH - 2}}  ", ALARM if is_limit else FAINT), *_joined(drawn)])
    return [*lines, list(_times(course, past)), list(_names(course, colour))]


def _round_up(size: float) -> float:
    """To a figure that reads well beside an axis: 1, 1.25, 1.5 or 1.75 times a power of two."""
    part = 2.0 ** (math.floor(math.log2(max(size, 4.0))) - 2)
    return math.ceil(size / part) * part


def _cell(column: Mapping[str, int], low: float, high: float, colour: bool) -> Part:
    """The account that fills most of it; of the topmost one only as much as there is."""
    middle, below = (low + high) / 2, 0.0
    shown = None
    for name, size in column.items():
        if size > 0 and below < high:
            shown = name if below <= max(middle, 0) or shown is None else shown
        below += size
    if shown is None or below <= low:
        return Part(" ")
    eighths = round(min(1.0, (below - low) / (high - low)) * 8)
    if colour:
        return Part(_TOPS[eighths], shown) if eighths else Part(" ")
    return Part(FILLS.get(shown, "█"), shown) if eighths >= 4 else Part(" ")


def _joined(parts: Sequence[Part]) -> Iterator[Part]:
    """Neighbours of one style as one."""
    text, style = "", ""
    for part in parts:
        if part.style != style and text:
            yield Part(text, style)
            text = ""
        text, style = text + part.text, part.style
    if text:
        yield Part(text, style)


def _times(course: Course, past: int) -> Iterator[Part]:
    begin, now = "0 s", format_duration(round(course.seconds))
    yield Part(" " * _LABEL_WIDTH + begin + now.rjust(past - len(begin)), FAINT)


def _names(course: Course, colour: bool) -> Iterator[Part]:
    yield Part(" " * _LABEL_WIDTH)
    for name, values in reversed(list(course.accounts.items())):
        if any(values):
            yield Part("█" if colour else FILLS.get(name, "█"), name)
            yield Part(f" {name} {format_bytes(values[-1])}   ")
