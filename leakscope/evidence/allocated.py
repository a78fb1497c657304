"""Which line made what stays: Python's small objects, or what malloc handed out, as samples of allocations tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ..facts.growth.processes import ProcessGrowth
from ..facts.where.allocations import OBJECTS
from ..facts.where.stacks import GrowthLine, lines_of
from ..findings import Evidence
from ..units import format_count

if TYPE_CHECKING:
    from ..facts.case import Case

_CERTAIN = 2.0  # standard errors by which one line made more than all the others: the line, not one of them
_LEAST_BESIDE, _MOST_ERROR_BESIDE = 0.1, 0.35  # of what stayed: more than what a cache fills up with


@dataclass(frozen=True)
class MadeAt:
    """The line under which most of the objects that stay are made. ``share``: of them, 0 to 1."""

    line: GrowthLine
    package: str | None
    share: float

    @property
    def evidence(self) -> Evidence:
        line, first = self.line, self.line.alive[0]
        by = f", asked for by {self.package}" if self.package else ""
        what = f"allocated {self.share:.0%} of what malloc handed out and was kept"
        if first.allocator in OBJECTS:
            what = f"made {self.share:.0%} of the small objects that stayed, by samples"
        text = f"{line.file}:{line.line} {what}{by}"
        figures = {
            "line": line.line, "share": round(self.share, 3), "samples": format_count(line.sample_count),
            "native_stack": first.native_stack,
        }  # fmt: skip
        return Evidence(f"{text}: {line.text}" if line.text else text, figures)


def made_at(case: Case, process: ProcessGrowth, allocators: Sequence[str] = OBJECTS) -> MadeAt | None:
    """None where they were not sampled, or several lines make them."""
    lines = lines_of(case.growth, process, case.sources, allocators)
    return _made(lines[0]) if lines and _made_most(lines) else None


def _made_most(lines: Sequence[GrowthLine]) -> bool:
    """Whether the first made more than all the others together. Twenty samples of one line and none of another are
    sure of that, however little they know of how much it was.
    """
    first = lines[0]
    others = first.bytes * (1.0 / first.share - 1.0) if first.share > 0 else first.bytes
    error = sum((line.error_share * line.bytes) ** 2 for line in lines) ** 0.5
    return bool(first.bytes - others >= _CERTAIN * error > 0)


def given_at(case: Case, process: ProcessGrowth) -> MadeAt | None:
    """Of small objects that Python's own code makes: the line at which an extension is called that makes others which
    stay. It is the one that keeps what it was given; None where no extension made any.
    """
    lines = lines_of(case.growth, process, case.sources, OBJECTS)
    made = [_made(line) for line in lines if line.share >= _LEAST_BESIDE and line.error_share <= _MOST_ERROR_BESIDE]
    if not made or made[0].package is not None:
        return None
    return next((one for one in made if one.package is not None), None)


def _made(line: GrowthLine) -> MadeAt:
    packages = {one.package for one in line.alive if one.bytes >= 0.1 * line.bytes and one.package is not None}
    return MadeAt(line, packages.pop() if len(packages) == 1 else None, line.share)
