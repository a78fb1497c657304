"""A line of the kernel's log, whoever kept it."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """One line the kernel itself wrote; ``time_s`` on the log's own clock."""

    time_s: float
    text: str
