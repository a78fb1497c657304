"""Lines of the program that allocated what malloc's memory in use gained, as samples of allocations tell."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from dataclasses import dataclass, replace

from ...schema import SETTLED_S
from ...units import MOST, SOME
from ..calls import Call, called_at, calls_of, function_of
from ..code.adding import CALLS, Line, Source
from ..code.imports import package_named
from ..code.index import index_of, text_of
from ..code.points_to import Variable, points_to
from ..code.syntax import root_of
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from .allocations import NATIVE, Allocations, allocations

_MOST_ERROR = 0.25  # of what a line allocated


@dataclass(frozen=True)
class GrowthLine:
    """A line of the user's. ``share``: of all that was gained and has a line, 0 to 1.

    ``library``: the package whose code it calls; None where the line calls nothing that was imported.
    ``alive``: what was sampled there, the most first. ``through``: calls of what is made there, counted in with it.
    """

    file: str
    line: int
    function: str | None
    text: str
    bytes: float
    share: float
    sample_count: int
    library: str | None
    stack: str
    alive: tuple[Allocations, ...]
    through: tuple[GrowthLine, ...] = ()

    @property
    def as_line(self) -> Line:
        """As lines that were found in a source are told."""
        return Line(self.file, self.line, self.function, self.text, CALLS, self.share)

    @property
    def place(self) -> str:
        """``train.py:88``: without the folder."""
        return self.as_line.place

    @property
    def is_sure(self) -> bool:
        """Enough samples are alive to say how much it is."""
        return self.error_share <= _MOST_ERROR

    @property
    def error_share(self) -> float:
        """One standard error, of what is alive; 0 where nothing is."""
        live = sum(one.live_bytes for one in self.alive)
        return float(sum(one.error_bytes**2 for one in self.alive) ** 0.5 / live) if live > 0 else 0.0


def stays_at(growth: TreeGrowth, process: ProcessGrowth, sources: Sequence[Source]) -> GrowthLine | None:
    """The line that allocated most of what stays, in a function, where that has stayed for a while. By samples of the
    recorder's own: what a profile has alive is told by how much of the growth it is.

    It may be a small part of the growth: what is kept for good lies between what is freed, and keeps that from use.
    """
    first = next(iter(lines_of(growth, process, sources)), None)
    if first is None or first.function in (None, "<module>") or first.share < MOST or not first.is_sure:
        return None
    columns = ("bytes", "asked_bytes", "live_bytes", "settled_bytes")
    came, asked, live, settled = (sum(getattr(one, column) for one in first.alive) for column in columns)
    if came >= MOST * asked > 0:  # little of it was freed again
        return first
    # Of a window that is hardly longer than what it takes to settle little can have, though all of it stays.
    could = 1 - SETTLED_S / max(growth.end_s - growth.start_s, SETTLED_S)
    return first if settled >= MOST * could * live > 0 else None


def lines_of(
    growth: TreeGrowth,
    process: ProcessGrowth,
    sources: Sequence[Source],
    allocators: tuple[str, ...] = NATIVE,
    *,
    makers: Sequence[str] = (),
) -> list[GrowthLine]:
    """Lines that allocated what the process gained in the judged window, the most first; by samples alone.

    ``makers``: functions of C; then only what one of them asked for.
    """
    texts = {source.file: source.text.splitlines() for source in sources}
    alive = allocations(growth, process, allocators)
    alive = [one for one in alive if one.made_by(makers) is not None] if makers else alive
    index = index_of(sources, "import")
    places: dict[tuple[str, int], list[Allocations]] = {}
    functions: dict[tuple[str, int], str] = {}
    for one in alive:
        call = _call_in_files(one, texts)
        if call is not None:
            places.setdefault(call[:2], []).append(one)
            functions.setdefault(call[:2], function_of(call.function))
    lines = []
    for (file, line), found in places.items():
        first, text = found[0], text_of(texts.get(file), line)
        package = next((one.package for one in found if one.package), None)
        package = package or _called_package(first.stack, file, line)
        is_guessed = package is None and not first.is_called_by_address
        lines.append(
            GrowthLine(
                file=file,
                line=line,
                function=functions[file, line] or None,
                text=text,
                bytes=sum(one.bytes for one in found),
                share=0.0,
                sample_count=sum(one.sample_count for one in found),
                library=package_named(index, file, text) if is_guessed else package,
                stack=first.stack,
                alive=tuple(found),
            )
        )
    positive = sum(one.bytes for one in alive if one.bytes > 0)
    ordered = sorted(lines, key=lambda line: (-line.bytes, line.file, line.line))
    return [replace(line, share=line.bytes / max(positive, 1.0)) for line in ordered if line.bytes > 0]


def _call_in_files(one: Allocations, texts: dict[str, list[str]]) -> Call | None:
    """Code of no file (a namedtuple's ``__new__``, what exec runs) is not for a reader: who called it is."""
    if one.file is None or one.line is None:
        return None
    own = Call(one.file, one.line, one.function or "")
    if not one.file.startswith("<") or one.file in texts:
        return own
    return next((call for call in reversed(calls_of(one.stack)) if call.file in texts), own)


def by_creation(lines: Sequence[GrowthLine], sources: Sequence[Source]) -> list[GrowthLine]:
    """The same, where what calls of a local allocated is put down to the line that makes its object; the most first.

    ``traced(example)`` allocates for as long as ``traced = torch.jit.trace(model, example)`` makes another each time:
    only where that allocates what stays as well, and in the same function. Else one object is called again and again.
    """
    index = index_of(sources, "import")
    given = points_to(index).into
    by_place = {(line.file, line.line): line for line in lines}
    made: set[tuple[str, int]] = set()
    called: dict[tuple[str, int], tuple[str, int]] = {}  # and the line that makes what is called
    for scope, _, call in index.calls():
        at, root = (scope.source.file, call.lineno), root_of(call.func)
        if at not in by_place or scope.kind != "function" or not isinstance(root, ast.Name):
            continue
        for flow in given.get(Variable(scope, root.id), ()):
            maker = (at[0], getattr(flow.site, "lineno", 0))
            if isinstance(flow.term.node, ast.Call) and not flow.term.path and maker in by_place and maker != at:
                made.add(maker)
                called.setdefault(at, maker)
    calls: dict[tuple[str, int], list[GrowthLine]] = {}
    for at, maker in called.items():
        is_one = by_place[at].library is not None and by_place[at].library == by_place[maker].library
        if is_one and at not in made and by_place[maker].share >= SOME:
            calls.setdefault(maker, []).append(by_place[at])
    put_down = {(one.file, one.line) for found in calls.values() for one in found}
    told = [_with(line, calls.get(at, ())) for at, line in by_place.items() if at not in put_down]
    return sorted(told, key=lambda line: (-line.bytes, line.file, line.line))


def _with(line: GrowthLine, calls: Sequence[GrowthLine]) -> GrowthLine:
    if not calls:
        return line
    both = (line, *calls)
    return replace(
        line,
        bytes=sum(one.bytes for one in both),
        share=sum(one.share for one in both),
        sample_count=sum(one.sample_count for one in both),
        alive=tuple(alive for one in both for alive in one.alive),
        through=tuple(calls),
    )


def _called_package(stack: str, file: str, line: int) -> str | None:
    """The package that the line calls, where that is written in Python."""
    called = called_at(calls_of(stack), file, line)
    return called.library if called is not None else None
