"""One line of the kernel's, from whichever log it was read."""

from __future__ import annotations

from typing import NamedTuple


class Line(NamedTuple):
    """One line the kernel itself wrote; ``time_s`` on the log's own clock."""

    time_s: float
    text: str
