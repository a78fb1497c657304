"""How far a program had come: the lines of its functions that were seen to run, by its sampled allocations."""

from __future__ import annotations

from ..code.reading import Reached
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from .allocations import NATIVE, OBJECTS, allocations

_MODULE = "<module>"


def reached(growth: TreeGrowth, process: ProcessGrowth) -> Reached:
    """Of each function the last line at which memory was asked for within the judged window, by way of it."""
    found: dict[tuple[str, str | None], int] = {}
    for one in allocations(growth, process, (*NATIVE, *OBJECTS)):
        if one.asked_bytes <= 0:
            continue
        for call in one.stack.split("\n"):
            place, _, function = call.rpartition(" ")
            file, _, line = place.rpartition(":")
            if line.isdigit():
                name = None if function == _MODULE else function.rpartition(".")[2]
                found[file, name] = max(found.get((file, name), 0), int(line))
    return found
