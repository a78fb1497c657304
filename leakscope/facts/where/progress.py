"""How far a program had come at a moment: the last lines of its functions seen to run, by who asked for memory."""

from __future__ import annotations

from ..code.reading import Reached
from ..growth.processes import ProcessGrowth
from ..tables import cells, figures, only
from .allocations import TABLE

_MODULE = "<module>"
_LATE_S = 6.0  # what is asked for is written down some seconds later


def reached(process: ProcessGrowth, at_s: float) -> Reached:
    """Of each function the last line by way of which memory had been asked for, as sampled allocations tell."""
    rows = process.rows(TABLE)
    if len(rows):
        rows = only(rows, (figures(rows, "time_s") <= at_s + _LATE_S) & rows["stack"].notna())
    found: dict[tuple[str, str | None], int] = {}
    for stack in {stack for (stack,) in cells(rows, "stack")}:
        for call in stack.split("\n"):
            place, _, function = call.rpartition(" ")
            file, _, line = place.rpartition(":")
            if line.isdigit():
                name = None if function == _MODULE else function.rpartition(".")[2]
                found[file, name] = max(found.get((file, name), 0), int(line))
    return found
