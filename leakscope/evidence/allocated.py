"""Which line made what stays: Python's small objects, or what malloc handed out, as samples of allocations tell."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from ..facts.code.imports import STANDARD_LIBRARY, package_in
from ..facts.code.index import index_of
from ..facts.growth.processes import ProcessGrowth
from ..facts.where.allocations import OBJECTS
from ..facts.where.stacks import GrowthLine, lines_of
from ..findings import Evidence
from ..units import format_count

if TYPE_CHECKING:
    from ..facts.case import Case

_CERTAIN = 2.0  # standard errors by which one line made more than all the others: the line, not one of them
# Where an object of a type begins, in Python's own code. Its block may be an old one: see ``made_of_type``.
_MAKERS = {
    "list": ("PyList_New",),
    "dict": ("PyDict_New", "_PyDict_NewPresized", "PyDict_Copy"),
    "tuple": ("PyTuple_New", "PyTuple_Pack"),
    "set": ("PySet_New",),
}
_MOST_OF_TYPE, _LEAST_SAMPLES = 2 / 3, 5  # of one type: by a line of an extension's
_LEAST_BESIDE, _MOST_ERROR_BESIDE = 0.1, 0.35  # of what stayed: more than what a cache fills up with


@dataclass(frozen=True)
class MadeAt:
    """The line under which most of the objects that stay are made. ``share``: of them, 0 to 1."""

    line: GrowthLine
    package: str | None
    share: float
    what: str = "small"

    def package_called(self, case: Case) -> str | None:
        """The one package that the line names. What it makes by another one is its own: who calls gets the reference,
        and has to drop it."""
        return package_in(index_of(case.sources, "import"), self.line.file, self.line.text)

    @property
    def evidence(self) -> Evidence:
        line, first = self.line, self.line.alive[0]
        by = f", asked for by {self.package}" if self.package else ""
        what = f"allocated {self.share:.0%} of what malloc handed out and was kept"
        if first.allocator in OBJECTS:
            what = f"made {self.share:.0%} of the {self.what} objects that stayed, by samples"
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


def made_of_type(case: Case, process: ProcessGrowth, type_name: str) -> MadeAt | None:
    """The line at which an extension, none of Python's own, made most objects of a type that stay; None where none did.

    Python keeps what is freed of numbers, lists and dicts for the next ones of the type. Of what an extension makes and
    forgets most blocks were asked for where others of the kind were made and freed, so that the sum of all types names
    that line.
    """
    makers = _MAKERS.get(type_name, ())
    lines = lines_of(case.growth, process, case.sources, OBJECTS, makers=makers) if makers else []
    if not lines or lines[0].share < _MOST_OF_TYPE or lines[0].sample_count < _LEAST_SAMPLES:
        return None
    made = replace(_made(lines[0]), what=type_name)
    return made if made.package is not None and made.package not in STANDARD_LIBRARY else None


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
