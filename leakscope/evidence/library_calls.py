"""Calls of one package that a program makes again and again: found in its source, not seen at work.

What leaks inside a package, leaks because the program calls it. Where only one call of it is repeated, that is the line
to change or to do without; where there are several, what was seen while memory grew may tell which.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from ..facts.code.adding import CALLS, Line, line_at
from ..facts.code.foreign_calls import GIVES_BACK
from ..facts.code.imports import C_LOADERS, imported_packages, imports_any
from ..facts.code.index import Index, Loop, Source, index_of, last_name
from ..facts.code.loops import CallLoops, Way
from ..facts.code.package_calls import package_calls
from ..facts.growth.processes import ProcessGrowth
from ..facts.where.allocations import allocations
from ..facts.where.stacks import places_of
from ..findings import Evidence

if TYPE_CHECKING:
    from ..facts.case import Case

_LOADERS = C_LOADERS | {"importlib"}
_MOST = 3  # candidates worth telling: more are no help
_MIN_LOOKS = 3
_MIN_SHARE = 2 / 3  # of what was seen to grow under such calls: less does not stand out
_MIN_LOOP_SHARE = 0.5  # of what was seen to grow in loops


class Growth(NamedTuple):
    """What was seen to grow under one stack of calls. ``places``: line and file of each."""

    places: frozenset[tuple[int, str]]
    bytes: float
    look_count: int


class LibraryCalls(NamedTuple):
    """``line``: the one call of ``package``, or the one that stands out; None where that cannot be told.

    ``others``: what else it may be, three at most. ``is_seen``: chosen among several by what was seen to grow; else by
    the source alone.
    """

    package: str | None
    line: Line | None = None
    others: tuple[Line, ...] = ()
    is_seen: bool = False
    is_only_package: bool = False  # it was not known which package it is: no other one is called again and again

    @property
    def doubt(self) -> str:
        if self.is_seen:
            return "the line was seen only sometimes while memory grew: another of these calls may be the cause"
        return "the line was found in the source, not observed"

    def evidence(self) -> list[Evidence]:
        """What the source says, for a person."""
        others = ", ".join(f"{other.file}:{other.line}" for other in self.others)
        only = [Evidence(f"by its source, {self.package} is the only package that the program calls again and again")]
        only = only if self.is_only_package else []
        if self.line is None:
            text = f"by its source, the program calls {self.package} again and again at {others}: one may be the cause"
            return [*only, Evidence(text)] if others else only
        place = f"{self.line.file}:{self.line.line}"
        text = f"by its source, {place} is where the program calls {self.package} again and again: {self.line.text}"
        if self.is_seen:
            text = f"of the places that call {self.package} again and again, memory was seen to grow mostly at {place}"
            text = f"{text}: {self.line.text}"
        return [*only, Evidence(f"{text} (others: {others})" if others else text, {"line": self.line.line})]


class _Call(NamedTuple):
    line: Line
    last_line: int
    ways: tuple[Way, ...]

    def is_under(self, growth: Growth) -> bool:
        return any(self.has(place) for place in growth.places)

    def has(self, place: tuple[int, str]) -> bool:
        return self.line.line <= place[0] <= self.last_line and place[1] == self.line.file

    def comes_from(self, place: tuple[int, str]) -> bool:
        return any(place in way.path for way in self.ways)


def calls_of(
    case: Case, process: ProcessGrowth, package: str | None, *, under: tuple[int, str] | None = None
) -> LibraryCalls:
    """``library_calls`` of the program's own sources, by what was seen to grow in the judged window.

    ``package``: None where it is not known; then the only one that the program calls again and again.
    """
    growths = [
        Growth(places_of(one.stack), one.bytes, one.sample_count)
        for one in allocations(case.growth, process)
        if one.stack
    ]
    sources = case.sources
    only = only_called(sources, growths, under=under) if package is None else None
    package = package or only
    if package is None:
        return LibraryCalls(None)
    return library_calls(sources, package, growths, under=under)._replace(is_only_package=only is not None)


def library_calls(
    sources: Sequence[Source],
    package: str,
    growths: Sequence[Growth] = (),
    *,
    under: tuple[int, str] | None = None,  # line and file: where most was seen to grow
) -> LibraryCalls:
    calls = _where_it_grew(index_of(sources, package.split(".")[0]), package, growths, under)
    if under is not None and any(call.has(under) for call in calls):
        return LibraryCalls(package)  # the line that was seen is a call itself: there is no better one
    lines = [call.line for call in calls]
    if len(calls) <= 1:
        return LibraryCalls(package, lines[0] if lines else None)
    seen = {call.line: [growth for growth in growths if call.is_under(growth)] for call in calls}
    total = sum(_bytes(some) for some in seen.values())
    best = max(lines, key=lambda line: _bytes(seen[line]))
    looks = sum(growth.look_count for growth in seen[best])
    if total > 0 and looks >= _MIN_LOOKS and _bytes(seen[best]) >= _MIN_SHARE * total:
        others = tuple(line for line in lines if line != best)
        return LibraryCalls(package, best, others if len(others) <= _MOST else (), is_seen=True)
    return LibraryCalls(package, None, tuple(lines) if len(lines) <= _MOST else ())


def only_called(
    sources: Sequence[Source], growths: Sequence[Growth] = (), *, under: tuple[int, str] | None = None
) -> str | None:
    """The package that the program calls again and again where memory grew; None where there are several."""
    index = index_of(sources, "import")
    called = [package for package in _imported(index) if _where_it_grew(index, package, growths, under)]
    return called[0] if len(called) == 1 else None


def _imported(index: Index) -> list[str]:
    """Packages that are no part of Python, nor the program's own modules; none where C code is loaded by hand."""
    return [] if imports_any(index, _LOADERS) else sorted(imported_packages(index))


def _where_it_grew(index: Index, package: str, growths: Sequence[Growth], under: tuple[int, str] | None) -> list[_Call]:
    calls = list(_repeated(index, package))
    if under is None:
        return _in_the_running_loop(calls, growths)
    return [call for call in calls if call.comes_from(under) or call.has(under)]


def _bytes(growths: Sequence[Growth]) -> float:
    return sum(growth.bytes for growth in growths if growth.bytes > 0)


def _repeated(index: Index, package: str) -> Iterator[_Call]:
    """One for each line, in the order of the sources. What only gives memory back is none."""
    found: dict[tuple[str, int], _Call] = {}
    for site, node, scope in package_calls(index, package):
        ways = tuple(way for way in index.once(CallLoops).ways(site, scope) if way.depth > 0)
        if not ways or GIVES_BACK.search(last_name(node.func)):
            continue
        place = (scope.source.file, node.lineno)
        known = found.get(place)
        ways = ways if known is None else (*known.ways, *ways)
        last = max(node.end_lineno or node.lineno, known.last_line if known else 0)
        found[place] = _Call(line_at(index, scope, node, CALLS, 1.0), last, ways)
    return (found[place] for place in sorted(found))


def _in_the_running_loop(calls: list[_Call], growths: Sequence[Growth]) -> list[_Call]:
    """Those that can run in the loop in which memory grew: a loop that prepares data has long ended."""
    ways = [way for call in calls for way in call.ways]
    loops = {way.loop for way in ways if way.loop is not None}
    grown = {loop: sum(g.bytes for g in growths if g.bytes > 0 and _is_in(loop, g)) for loop in loops}
    if any(grown.values()):
        running: Loop | None = max(grown, key=lambda loop: grown[loop])
        seen_bytes = sum(g.bytes for g in growths if g.bytes > 0 and any(_is_in(loop, g) for loop in loops))
        if max(grown.values()) < _MIN_LOOP_SHARE * seen_bytes:
            return calls
    elif loops and not any(way.is_unknown for way in ways):
        # Nothing was seen: memory grows to the end, so it is the last loop, unless that only sums up or cleans up.
        last = max(ways, key=lambda way: way.path)
        running = last.loop
        depths = [way.depth for way in ways if way.loop != running]
        if running is None or max(depths, default=0) >= max(w.depth for w in ways if w.loop == running):
            return calls
    else:
        return calls
    return [call for call in calls if any(way.loop in (running, None) for way in call.ways)]


def _is_in(loop: Loop, growth: Growth) -> bool:
    return any(file == loop.file and loop.first <= line <= loop.last for line, file in growth.places)
