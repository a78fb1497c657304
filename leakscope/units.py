"""Bytes and seconds to text, and back. 1 GiB = 2**30; durations in seconds."""

from __future__ import annotations

import re
from collections.abc import Iterable

from .errors import BadInput

KiB = 1024
MiB = 1024**2
GiB = 1024**3

# As messages of programs have them.
SIZES: dict[str, int] = {"bytes": 1, "B": 1, **{f"{p}iB": 1024**n for n, p in enumerate("KMGTP", 1)}}

MOST = 0.5  # of a whole: nothing else can have more
NEARLY_ALL = 0.8  # of a whole: the rest need not be told apart
FULL = 0.9  # of a limit or a whole: the rest is no room, and no other answer
GOOD_PART = 0.3  # of a whole: with less it does not decide
MUCH = 0.2  # of a whole: worth naming beside what has most
SOME = 0.1  # of a whole: less is not worth a word
HARDLY = 0.05  # of a whole: it stands still, or what it was is as good as gone
LITTLE = MiB  # bytes: allocators and estimates move by as much
SLIGHT = 4 * MiB  # bytes: what allocators and imports leave behind in a short run
WORTH = 8 * MiB  # bytes: nobody mends a program for less
LARGE = 64 * MiB  # bytes: more than imports, drivers and warm-up leave behind
ENDS_S = 5.0  # before the last reading: a program takes itself down, and what it knew last is written
TOLD_S = 6.0  # after which what the agent saw is written down
SOON_S = 2.0  # between two looks: what is nearer in time is of one moment
LARGEST_SMALL = 512  # bytes: larger objects of Python's are malloc's
LEAST_MAPPED = 128 * KiB  # bytes: what malloc maps by itself, and gives back by itself
HUGE = 256 * MiB  # bytes: what a device or a machine of many GiB is short of
LISTED = 5  # names, lines or processes in one sentence
FEWEST = 3  # moments, members or steps: fewer show no course

_TIME_UNITS = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
# 5MB is ten to the sixth times five; 5MiB and, as for docker and systemd, 5M are 2**20.
BYTE_UNITS: dict[str, float] = {"": 1, "b": 1, **{f"{p}b": 1000**n for n, p in enumerate("kmgt", 1)}}
BYTE_UNITS |= {f"{p}{i}": 1024**n for n, p in enumerate("kmgt", 1) for i in ("", "ib")}
_QUANTITY = re.compile(r"([0-9]+(?:\.[0-9]+)?|\.[0-9]+)\s*([a-zA-Z]*)")


def _parse(text: str, units: dict[str, float], what: str, examples: str) -> float:
    match = _QUANTITY.fullmatch(text.strip())
    if match is None or match.group(2).lower() not in units:
        raise BadInput(f"{text!r} is not a {what}: write it like {examples}")
    return float(match.group(1)) * units[match.group(2).lower()]


def parse_duration(text: str) -> float:
    """Seconds from ``500ms``, ``30s``, ``5m``, ``2h`` or a bare number. **Errors** BadInput."""
    return _parse(text, _TIME_UNITS, "duration", "500ms, 30s, 5m or 2h")


def parse_bytes(text: str) -> float:
    """Bytes from ``4GB``, ``512MiB``, ``20k`` or a bare number. **Errors** BadInput."""
    return _parse(text, BYTE_UNITS, "size", "500KB, 5MB or 4GiB")


def format_bytes(value: float, signed: bool = False) -> str:
    """``157 MiB``: three significant figures, binary units; ``signed`` writes the plus."""
    sign = "-" if value < 0 else ("+" if signed and value > 0 else "")
    size = abs(float(value))
    units = ["B", "KiB", "MiB", "GiB", "TiB"]
    while size >= 1023.95 and len(units) > 1:
        size /= 1024
        del units[0]
    unit = units[0]
    digits = 0 if unit == "B" or size >= 99.95 else 1
    return f"{sign}{size:.{digits}f} {unit}"


def over(part: float, whole: float) -> float:
    """``part / whole``, where the whole may be nothing: a second that did not pass, bytes that nobody has."""
    return part / max(whole, 1e-9)


def changed(value: float) -> str:
    """``grew by 3.0 MiB`` or ``shrank by 3.0 MiB``: no amount in a sentence is less than nothing."""
    return f"{'shrank' if value < 0 else 'grew'} by {format_bytes(abs(value))}"


def format_duration(seconds: float) -> str:
    """``850 ms``, ``12.3 s``, ``4 min 05 s``, ``3 h 12 min`` or ``8.1 days``."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 99.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 3600:
        return f"{whole // 60} min {whole % 60:02d} s"
    if whole < 48 * 3600:
        return f"{whole // 3600} h {whole % 3600 // 60:02d} min"
    return f"{seconds / 86400:.1f} days"


def format_about(seconds: float) -> str:
    """``about 45 s``, ``about 12 min``, ``about 8 h`` or ``about 3 days``: a forecast, whose minutes nobody knows."""
    units = ((90, 1, "s"), (90 * 60, 60, "min"), (48 * 3600, 3600, "h"), (float("inf"), 86400, "days"))
    unit_s, unit = next((unit_s, unit) for below_s, unit_s, unit in units if seconds < below_s)
    figure = seconds / unit_s
    return f"about {figure:.0f} {unit}" if figure >= 10 else f"about {figure:.2g} {unit}"


def format_rate(bytes_per_hour: float, watched_s: float, signed: bool = False) -> str:
    """``88.4 MiB per minute``; per hour of what was watched for an hour or more."""
    clock, share = per_clock(watched_s)
    return f"{format_bytes(bytes_per_hour * share, signed)} {clock}"


def short_rate(bytes_per_s: float, watched_s: float, signed: bool = False) -> str:
    """``+12.0 MiB/min``, or ``/h``: as ``format_rate`` has it, for a line that has little room."""
    clock = "min" if watched_s < 3600 else "h"
    return f"{format_bytes(3600 * bytes_per_s * per_clock(watched_s)[1], signed)}/{clock}"


def per_clock(watched_s: float) -> tuple[str, float]:
    """``per minute`` and how many of an hour's bytes that is; ``per hour`` of what was watched for an hour or more."""
    return ("per minute", 1 / 60) if watched_s < 3600 else ("per hour", 1.0)


STEP = "step"
EXIT_NOTE = "exit"  # of the agent: the program has ended, and shuts down
WATCHED_TEXT = "a tracer, profiler or debugger is set: no snapshots while it is"  # as agent/outbox.py notes it
COUNTS_NOTE = "counts"  # of the agent, as agent/main.py writes it: what a step is, where it is none of training
STEP_UNITS = {"requests": "request", "tasks": "task"}  # by what the note says


def steps_together(step_unit: str) -> int:
    """How many steps a figure is told for: one request of a service keeps too little to be a size."""
    return 1 if step_unit == "step" else 1000


def per_step(step_unit: str) -> str:
    """``per step``, ``per 1,000 requests`` or ``per 1,000 tasks``."""
    return "per step" if step_unit == "step" else f"per {steps_together(step_unit):,} {step_unit}s"


def format_per_step(bytes_per_step: float, step_unit: str, signed: bool = False) -> str:
    """``128 KiB per step``, ``12.3 MiB per 1,000 requests``; ``signed`` writes the plus."""
    return f"{format_bytes(bytes_per_step * steps_together(step_unit), signed)} {per_step(step_unit)}"


def format_count(value: float) -> str:
    """``12,345``: thousands separated, no decimals."""
    return f"{value:,.0f}"


_NUMBER = re.compile(r" #\d+$")


def numbered(name: str, number: int) -> str:
    """``Store.rows[*] #2``: the second of that name."""
    return f"{name} #{number}" if number > 1 else name


def unnumbered(name: str) -> str:
    """Without what tells two of one name apart."""
    return _NUMBER.sub("", name)


def spans(numbers: Iterable[int]) -> list[list[int]]:
    """The first and the last of each run in sorted numbers: ``[[0, 7], [9, 9]]``."""
    found: list[list[int]] = []
    for number in numbers:
        if found and number == found[-1][1] + 1:
            found[-1][1] = number
        else:
            found.append([number, number])
    return found
