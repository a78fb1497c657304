"""Libraries that compile functions and keep what they compiled, by the calls under which memory was asked for.

Of torch.compile the graphs are counted; of others samples of allocations tell: memory that stays was asked for while
their compilers ran.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from ..agent import libraries
from ..facts.code.adding import Line, find_calls
from ..facts.growth.processes import ProcessGrowth
from ..facts.where.allocations import allocations
from ..facts.where.stacks import GrowthLine, growth_lines
from ..findings import Evidence
from ..units import MOST

if TYPE_CHECKING:
    from ..facts.case import Case


class Compiled(NamedTuple):
    """``share``: of what stays and has a line, asked for while it compiled; ``line``: under which most of that was.

    ``made``: where the function that is compiled is made anew for each call of the user's function; None elsewhere.
    """

    library: str
    share: float
    sample_count: int
    line: GrowthLine
    made: Line | None
    let_go: str

    def evidence(self) -> Iterator[Evidence]:
        figures = {"share": round(self.share, 3), "samples": self.sample_count}
        text = f"{self.share:.0%} of what stays was asked for while {self.library} compiled"
        yield Evidence(f"{text}, by {self.sample_count:,} samples", figures)
        if self.made is not None:
            text = f"{self.made.file}:{self.made.line} makes a new function to compile each time: {self.made.text}"
            yield Evidence(text, {"line": self.made.line})

    def remedy(self) -> Iterator[str]:
        if self.made is not None:
            name = self.made.function or "a function that is called again"
            yield f"make the compiled function once, outside {name}, and call it again: {self.made.text}"
        yield self.let_go


def compiled_in(case: Case, process: ProcessGrowth) -> Compiled | None:
    """The library that compiled most of what the process came to hold; None where none did."""
    found = [one for one in allocations(case.growth, process) if one.stack and one.bytes > 0]
    seen = sum(one.bytes for one in found)
    for compiler in (one for one in libraries.all_of(libraries.COMPILER) if one.let_go is not None):
        files = [one.name for one in libraries.all_of(libraries.COMPILER) if one.library == compiler.library]
        own = [one for one in found if any(file in one.stack for file in files)]
        share = sum(one.bytes for one in own) / max(seen, 1.0)
        if share < MOST:
            continue
        places = {(one.file, one.line) for one in own}
        lines = growth_lines(case.growth, process, case.sources)
        line = next((one for one in lines if (one.file, one.line) in places), None) or next(iter(lines), None)
        if line is None:
            return None
        asks = find_calls(case.sources, *compiler.also_by)
        made = next((one for one in asks if one.file == line.file and one.function == line.function), None)
        made = made if line.function not in (None, "<module>", "main") else None
        samples = sum(one.sample_count for one in own)
        return Compiled(compiler.library or "", share, samples, line, made, compiler.let_go or "")
    return None
