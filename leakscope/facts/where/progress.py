"""How far a program had come at a moment: the last lines of its functions that were seen to run.

The agent looks at them twice a second, and whoever asks for memory is sampled besides.
"""

from __future__ import annotations

from ..code.reading import Reached
from ..growth.processes import ProcessGrowth
from ..tables import cells, figures, only
from .allocations import TABLE

_MODULE = "<module>"
_LATE_S = 6.0  # what is asked for is written down some seconds later


def reached(process: ProcessGrowth, at_s: float) -> Reached:
    """Of each function the last line that was seen to run, or by way of which memory had been asked for."""
    rows = process.rows(TABLE)
    if len(rows):
        rows = only(rows, (figures(rows, "time_s") <= at_s + _LATE_S) & rows["stack"].notna())
    found: dict[tuple[str, str | None], int] = {}
    stacks = {stack for (stack,) in cells(rows, "stack")}
    takes = process.rows("takes")
    if len(takes):
        takes = only(takes, (figures(takes, "time_s") <= at_s) & takes["seen_lines"].notna())
        stacks |= {lines for (lines,) in cells(takes, "seen_lines")}
    for stack in stacks:
        for call in stack.split("\n"):
            place, _, function = call.rpartition(" ")
            file, _, line = place.rpartition(":")
            if line.isdigit():
                name = None if function == _MODULE else function.rpartition(".")[2]
                found[file, name] = max(found.get((file, name), 0), int(line))
    return found
