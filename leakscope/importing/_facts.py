"""What a reader gives: facts, which are rows of a recording with their moments, and whose clock those are on."""

from __future__ import annotations

from typing import Any, NamedTuple

UNIX = "unix"  # seconds since 1970, UTC
LOCAL = "local"  # of a clock on the wall that does not name its zone: seconds since 1970 as if it were UTC
DAY = "day"  # seconds since a midnight that is not named; more than 86400 on the days after
BOOT = "boot"  # seconds since the machine started
ELAPSED = "elapsed"  # seconds since the tool began

CLOCKS = {
    UNIX: "absolute time",
    LOCAL: "local time without a zone",
    DAY: "time of day without a date",
    BOOT: "seconds since boot",
    ELAPSED: "seconds since the tool began",
}


class Fact(NamedTuple):
    """One row of a table at a moment of the file's own clock. ``pid``s below 0: ``Source.unnamed`` gave them."""

    table: str
    at_s: float
    row: dict[str, Any]


class NotThisFormat(Exception):
    """A reader's word that the file is damaged, foreign or too large; the text goes on after "FILE: "."""
