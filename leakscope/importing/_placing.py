"""What a user says of clocks: ``--tz`` and ``--offset``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta, timezone, tzinfo

from ..errors import BadInput
from ..units import parse_duration
from ._facts import DAY, UNIX
from ._figures import moment
from ._joining import Placing, ahead_s

_FIXED = re.compile(r"([+-])(\d\d?):?(\d\d)?")
_MOST_ZONE = timedelta(hours=24)


def placing(zone: str | None, offsets: Sequence[str]) -> Placing:
    """**Errors** BadInput for a zone that is not known, and for an offset that is none."""
    added: dict[str, float] = {}
    began: dict[str, float] = {}
    for text in offsets:
        name, equals, value = text.rpartition("=")
        name = name.rsplit("/", 1)[-1] if equals else ""
        at = moment(value)
        if at is not None and at[1] != DAY:
            began[name] = at[0] if at[1] == UNIX else at[0] - ahead_s(at[0], _zone(zone))
        else:
            added[name] = _seconds(text, value)
    return Placing(_zone(zone), zone or "UTC", added, began)


def _seconds(text: str, value: str) -> float:
    try:
        return -parse_duration(value[1:]) if value[:1] == "-" else parse_duration(value.lstrip("+"))
    except BadInput:
        raise BadInput(
            f"--offset {text}: write it like -30s, 2h, log.txt=90s or kern.log=2026-11-25T10:00:00Z"
        ) from None


def _zone(name: str | None) -> tzinfo:
    if name is None or name.upper() in ("UTC", "Z"):
        return timezone.utc
    if match := _FIXED.fullmatch(name):
        ahead = timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if ahead < _MOST_ZONE:
            return timezone(-ahead if match[1] == "-" else ahead)
    if name == "local":
        return datetime.now().astimezone().tzinfo or timezone.utc
    try:
        from zoneinfo import ZoneInfo

        return ZoneInfo(name)
    except (ImportError, OSError, ValueError, KeyError):  # ZoneInfoNotFoundError is a KeyError
        raise BadInput(f"--tz {name}: no such zone is known here; write it like Europe/Berlin or +02:00") from None
