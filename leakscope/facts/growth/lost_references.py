"""The C function that loses references to None, where calls were watched for a moment (``--probe``)."""

from __future__ import annotations

import builtins
from typing import NamedTuple

from ...units import MOST
from ..code.imports import STANDARD_LIBRARY
from ..series.trend import LEAST_STEPS
from ..tables import cells, only
from .processes import ProcessGrowth


class Losing(NamedTuple):
    """``losses``: of so many ``calls`` of ``function`` at a line of ``file``."""

    function: str
    file: str
    line: int
    calls: int
    losses: int

    @property
    def library(self) -> str | None:
        return self.function.split(".", 1)[0] if "." in self.function else None


def losing(process: ProcessGrowth) -> Losing | None:
    """The one that lost most, of those of which most calls lost some; None where none did, or nobody watched.

    Within a call, or behind it where it returned a None that it had no reference for. Functions of Python itself are
    none: they let go of what they are given.
    """
    rows = process.rows("lost_references")
    rows = only(rows, rows["function"].notna() & (rows["call_count"] >= LEAST_STEPS))
    found = []
    columns = ("function", "file", "line", "call_count", "losing_count")
    for function, file, line, calls, losses in cells(rows, *columns):
        top = str(function).split(".", 1)[0]
        is_own = top in STANDARD_LIBRARY or hasattr(builtins, top)
        if not is_own and int(losses) > MOST * int(calls):  # other threads change the count, too
            found.append(Losing(str(function), str(file), int(line), int(calls), int(losses)))
    return max(found, key=lambda one: one.losses, default=None)
