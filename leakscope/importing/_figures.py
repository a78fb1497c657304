"""Numbers and moments as tools print them. What is no number, or none that memory can have, is None."""

from __future__ import annotations

import math
import re
from datetime import datetime, timezone
from typing import Any

from ..units import BYTE_UNITS, KiB, MiB
from . import _locales
from ._facts import DAY, LOCAL, UNIX

_MOST_BYTES = 1 << 60  # no machine has as much: what is above is damage
_YEARS_S = (300_000_000.0, 8_000_000_000.0)  # 1979 to 2223: seconds outside are no moment
_AMOUNT = re.compile(r"([0-9]+(?:[.,][0-9]+)?)\s*([A-Za-z]*)")
_ISO = re.compile(
    r"(\d{4})[-/](\d\d?)[-/](\d\d?)(?:[T ]+(\d\d?):(\d\d)(?::(\d\d)(?:[.,](\d{1,9})\d*)?)?)?\s*(Z|UTC|[+-]\d\d:?\d\d)?"
)
_DATE = re.compile(  # as date prints it, in the C locale and in English ones
    r"(?:[A-Z][a-z]{2},? +)?(?:([A-Z][a-z]{2}) +(\d{1,2})|(\d{1,2}) +([A-Z][a-z]{2})) +(?:(\d{4}) +)?"
    r"(\d\d?):(\d\d):(\d\d)(?: ([AP]M))?(?: +([A-Z]{3,5}|[+-]\d{2,4}))?(?: +(\d{4}))?"
)
_CLOCK = re.compile(r"(\d\d?):(\d\d)(?::(\d\d(?:\.\d+)?))?(?: ?([AP]M))?")
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
Moment = tuple[float, str]  # seconds, and on which of the clocks


def number(value: Any) -> float | None:
    """A finite number."""
    if isinstance(value, bool):
        return None
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return None
    return found if math.isfinite(found) else None


def whole(value: Any) -> int | None:
    """A whole number of 0 or more that a column can hold."""
    found = number(value)
    return int(found) if found is not None and 0 <= found < 2**62 else None


def amount(value: Any, unit_bytes: float = 1) -> int | None:
    """Bytes of a number of units."""
    found = number(value)
    bytes = None if found is None else found * unit_bytes
    return round(bytes) if bytes is not None and 0 <= bytes <= _MOST_BYTES else None


def sized(text: str, unit_bytes: float = 1) -> int | None:
    """Bytes of ``123``, ``1.2g``, ``7234 MiB``: the unit stands behind it, else it is ``unit_bytes``."""
    match = _AMOUNT.fullmatch(text.strip())
    if match is None:
        return None
    unit = match[2].lower()
    if unit and unit not in BYTE_UNITS:
        return None
    return amount(match[1].replace(",", "."), BYTE_UNITS[unit] if unit else unit_bytes)


KIB, MIB = float(KiB), float(MiB)


def unix(value: Any) -> float | None:
    """Seconds since 1970, from seconds, milliseconds, microseconds or nanoseconds."""
    found = number(value)
    if found is None:
        return None
    for scale in (1.0, 1e3, 1e6, 1e9):
        if _YEARS_S[0] <= found / scale <= _YEARS_S[1]:
            return found / scale
    return None


def moment(text: str) -> Moment | None:
    """A moment as it is printed: ISO, as ``date`` does in many languages, seconds since 1970, a time of day."""
    text = text.strip()
    if match := _ISO.match(text):
        return _iso(match)
    if re.fullmatch(r"\d{9,19}(?:\.\d+)?", text):
        at_s = unix(text)
        return (at_s, UNIX) if at_s is not None else None
    if (match := _DATE.match(text)) and (at := _dated(match)) is not None:
        return at
    if (foreign := _locales.fields(text)) is not None:
        return _moment(foreign[0], 0.0, foreign[1])
    if match := _CLOCK.match(text):
        hour = _hour(int(match[1]), match[4])
        at_s = hour * 3600 + int(match[2]) * 60 + float(match[3] or 0)
        return (at_s, DAY) if hour < 24 and int(match[2]) < 60 else None
    return None


def _iso(match: re.Match[str]) -> Moment | None:
    fields = [int(match[i]) if match[i] else 0 for i in range(1, 7)]
    fraction = float(f"0.{match[7]}") if match[7] else 0.0
    return _moment(fields, fraction, match[8])


def _dated(match: re.Match[str]) -> Moment | None:
    month, day = match[1] or match[4], match[2] or match[3]
    year = match[5] or match[11]
    if month not in _MONTHS or year is None:
        return None
    hour = _hour(int(match[6]), match[9])
    return _moment([int(year), _MONTHS.index(month) + 1, int(day), hour, int(match[7]), int(match[8])], 0.0, match[10])


def _hour(hour: int, half: str | None) -> int:
    return hour if half is None else hour % 12 + (12 if half == "PM" else 0)


def _moment(fields: list[int], fraction: float, zone: str | None) -> Moment | None:
    try:
        at_s = datetime(*fields, tzinfo=timezone.utc).timestamp() + fraction  # type: ignore[arg-type, misc]
    except (ValueError, OverflowError):
        return None
    if not _YEARS_S[0] <= at_s <= _YEARS_S[1]:
        return None
    behind_s = _zone_s(zone)
    return (at_s, LOCAL) if behind_s is None else (at_s - behind_s, UNIX)


def _zone_s(zone: str | None) -> float | None:
    """How far a zone is ahead of UTC; None for a name, since CST has three meanings."""
    if zone in ("Z", "UTC", "GMT"):
        return 0.0
    if zone is None or zone[0] not in "+-":
        return None
    digits = zone[1:].replace(":", "").ljust(4, "0")
    return (-1 if zone[0] == "-" else 1) * (int(digits[:2]) * 3600 + int(digits[2:4]) * 60)
