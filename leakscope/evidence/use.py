"""Whether what a name holds is still used: by the lines that read it, and how far the program had come."""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable
from typing import NamedTuple

from ..facts.case import Case
from ..facts.code.adding import Line, adding_lines
from ..facts.code.names import Holder
from ..facts.code.reading import Reached, reads_of
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.history import is_cell
from ..facts.heap.place import Place
from ..facts.tables import cells, without_last
from ..facts.where.progress import reached
from ..findings import Idle
from ..units import MOST

_KEY = re.compile(r"\['([^'\]]+)'\]$")


class Use(NamedTuple):
    """``is_over``: True where no line that may still run reads it, False where one does, None where unclear.

    ``line``: one that goes on reading it, or may do so yet; else the last that read it; None: nothing does.
    ``filling``: how many functions were last seen where they add to it. ``ends``: the last line round which it was
    read. ``came_to``: a later one at which that function was seen; None: that call is over. ``counted``: a line that
    may still run and asks for its length alone.
    """

    is_over: bool | None
    line: Line | None
    filling: int = 0
    ends: int | None = None
    came_to: int | None = None
    counted: Line | None = None

    def idle(self, bytes: int, path: str) -> Idle:
        """What nothing reads any more, with the line that read it last."""
        if self.line is None or self.counted is not None:  # where its length is asked for, to drop it is not enough
            return Idle(bytes, path)
        return Idle(bytes, path, self.line.file, self.ends, self.line.function)

    @property
    def text(self) -> str:
        """What follows the name."""
        if self.line is None:
            return "" if self.is_over is None else "nothing reads it"
        where = self.line.place + (f" in {self.line.function}()" if self.line.function else "")
        if self.is_over is None:
            return f"{where}, which has not run yet, may read it"
        if not self.is_over:
            return f"{where} reads it"
        return (
            f"read last at {where}, which {f'has since come to line {self.came_to}' if self.came_to else 'has ended'}"
        )


def use_of(
    case: Case, process: ProcessGrowth, holder: Holder, path: str, made: Collection[str] = (), *, is_alone: bool = False
) -> Use:
    """Of what a name holds. ``made``: places of lines that make something else of it, which then no longer needs it.

    ``is_alone``: nothing else refers to it, so that no library that was given it has kept it.
    """
    progress = case.once(progress_of, process)
    key = _KEY.search(path)
    reads = reads_of(case.sources, holder, progress, key.group(1) if key else None)
    counted = next((one.line for one in reads if one.is_count and one.is_over is not True), None)
    reads = [one for one in reads if not one.is_count or one.is_over]
    is_seen = any(file == source.file for source in case.sources for file, _ in progress)
    on = next((one for one in reads if one.is_over is False and (is_seen or one.line.place not in made)), None)
    if on is not None:
        return Use(False, on.line)
    if not is_seen:  # what runs: all of it may be to come
        return Use(None, None)
    if holder.edge_kind == "global" and any(is_cell(source.module, source.file) for source in case.sources):
        return Use(None, None)  # for the next cell
    may_be_kept = () if is_alone else (read.line.place for read in reads if read.is_given)
    ahead = next((read.line for read in reads if read.is_over is None), None)
    if ahead is not None:
        return Use(None, ahead)
    if not set(made).issuperset(may_be_kept):
        return Use(None, None)
    if not reads and not adding_lines(case.sources, holder):
        return Use(None, None)  # its name is not in the sources
    lines = {(*_function_of(line), line.line) for line in adding_lines(case.sources, holder) if line.kind == "adds"}
    filling = sum((*at, line) in lines for at, line in progress.items())
    if not reads:
        return Use(True, None, filling, counted=counted)
    last = reads[-1]
    came_to = progress.get(_function_of(last.line), 0)
    return Use(True, last.line, filling, last.ends, came_to if came_to > last.ends else None, counted)


def _function_of(line: Line) -> tuple[str, str | None]:
    return line.file, line.function and line.function.rpartition(".")[2]


def first_reader(uses: Iterable[Use]) -> Use:
    """Of uses by several processes that share it, the first that goes on; the first of all where none is known to."""
    known = list(uses)
    return next((use for use in known if use.is_over is False), known[0])


def reference_count(case: Case, process: ProcessGrowth, place: Place) -> float:
    """Of an object, as the last snapshot that has it counted them; infinite where none did."""
    counted = case.once(_reference_counts, process)
    return min((counted[number] for number in place.numbers if number in counted), default=math.inf)


def _reference_counts(_: Case, process: ProcessGrowth) -> dict[int, int]:
    counted = cells(process.rows("heap_nodes"), "node", "edge_count", "reference_count")
    return {node: max(known or 0, edges or 0) for node, edges, known in counted if (known, edges) != (None, None)}


def progress_of(case: Case, process: ProcessGrowth) -> Reached:
    """As the last snapshot saw the program at work; or some time after it, where it went on for long."""
    takes = process.rows("takes")
    takes = without_last(takes, takes)
    last_s = float(takes["time_s"].iloc[-1]) if len(takes) else case.growth.end_s
    end_s = min(float(process.time_s[-1]), process.exit_s)
    return reached(process, last_s + MOST * max(0.0, end_s - last_s))
