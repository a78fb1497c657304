"""Compilers of libraries: how much of what stays was asked for while one ran, and whether it still does."""

from __future__ import annotations

import math
from typing import NamedTuple

from ...agent import libraries
from ...units import MOST
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from ..series.arithmetic import level_at
from .allocations import Allocations, allocations, course


class Compiling(NamedTuple):
    """``share``: of what stays and has a stack, asked for while it compiled: ``own``.

    ``goes_on``: that rises up to the end, by more than the samples' own error. What came as the program began was
    compiled but once.
    """

    compiler: libraries.Thing
    share: float
    own: list[Allocations]
    goes_on: bool


def compiling(growth: TreeGrowth, process: ProcessGrowth) -> Compiling | None:
    """The compiler under which most of what the process came to hold was asked for; None where none was."""
    found = [one for one in allocations(growth, process) if one.stack and one.bytes > 0]
    seen = sum(one.bytes for one in found)
    for compiler in (one for one in libraries.all_of(libraries.COMPILER) if one.let_go is not None):
        files = [one.name for one in libraries.all_of(libraries.COMPILER) if one.library == compiler.library]
        own = [one for one in found if any(file in one.stack for file in files)]
        share = sum(one.bytes for one in own) / max(seen, 1.0)
        if share >= MOST:
            time_s, *sums = course(growth, process, files)
            late_s = growth.end_s - (growth.end_s - growth.start_s) / 3
            came, variance = (float(sum[-1]) - level_at(time_s, sum, late_s) if time_s.size else 0.0 for sum in sums)
            goes_on = came > math.sqrt(max(variance, 0.0))
            return Compiling(compiler, share, own, goes_on)
    return None
