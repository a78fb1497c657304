"""Lines of the program under which malloc's memory in use grew: where it was allocated, as samples of allocations tell.

Older recordings have looks at what ran while memory grew instead (``growth_stacks``), from which lines are inferred.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import pandas as pd

from ..code.adding import Line, Source
from ..code.imports import package_named
from ..code.index import Index, index_of
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from ..tables import only
from .allocations import NATIVE, Allocations, allocations, is_sampled

_PACKAGES = re.compile(r"(?:site|dist)-packages/([^/.]+)")
# A thread that stands here grows nothing: what grew while it was seen here, grew between two looks.
_WAITS = re.compile(r"\b(sleep|wait|join|acquire|select|poll|recv|accept|input)\w*\(")
# Nor where all it calls is one of these: output changes threads, too.
_TELLS = re.compile(
    r"(print|len|int|float|round|abs|isinstance|range|(\w+\.)*(flush|buffer_info|memmove|memset|addressof|sizeof|byref)"
    r"|(\w+\.)*_?log(ger|ging)?\.(debug|info|warning|error|exception|critical|log))$",
    re.IGNORECASE,
)
_CALLED = re.compile(r"(?<![\w.\])])([\w.\])]+)\s*\(")
# It counts or moves a name, and asks for no memory: what grew before a thread was seen here, did so on the line above.
_IDLE = re.compile(r"[\w.]+\s*([+-]=\s*\d+|=\s*[\w.]+)$|pass$|continue$")
_MIN_BELOW = 0.2  # of what was seen at a call: grew below it, so it is the function called that grows


@dataclass(frozen=True)
class GrowthLine:
    """A line of the user's. ``share``: of all growth that was seen under a line, 0 to 1.

    ``library``: the package whose code it calls; None where the line calls nothing that was imported.
    ``alive``: what was sampled there, the most first; empty where growth was only seen to happen.
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
    alive: tuple[Allocations, ...] = ()

    @property
    def error_share(self) -> float:
        """One standard error, of what is alive; 0 where nothing was sampled."""
        live = sum(one.live_bytes for one in self.alive)
        return float(sum(one.error_bytes**2 for one in self.alive) ** 0.5 / live) if live > 0 else 0.0


def growth_lines(growth: TreeGrowth, process: ProcessGrowth, sources: Sequence[Source]) -> list[GrowthLine]:
    """Lines under which memory in use grew in the judged window, the most first."""
    if is_sampled(process):
        return lines_of(growth, process, sources, NATIVE)
    texts = {source.file: source.text.splitlines() for source in sources}
    ends = growth_stacks(growth, process)
    if not len(ends):
        return []
    ends = _in_files(ends, texts)
    ends = ends.assign(owner_line=[_busy(*place, texts) for place in zip(ends["owner_file"], ends["owner_line"])])
    below = _grown_below(ends)
    index = index_of(sources, "import")
    lines = []
    for _, seen in ends.groupby(["owner_file", "owner_line"]):
        file, line = str(seen["owner_file"].iloc[0]), int(seen["owner_line"].iloc[0])
        text = _text(texts.get(file), line)
        # Memory is asked for by a call. A line without one was seen because Python changes threads there.
        if text and ("(" not in text or _WAITS.search(text) or _only_tells(text)):
            continue
        # Threads change where functions begin and loops turn: growth in a function shows at the call of it as well.
        if below.get(f"{file}:{line}", 0.0) >= _MIN_BELOW * float(seen["bytes"].sum()):
            continue
        lines.append(_line(file, line, text, seen, index))
    positive = sum(line.bytes for line in lines if line.bytes > 0)
    ordered = sorted(lines, key=lambda line: (-line.bytes, line.file, line.line))
    return [_with_share(line, positive) for line in ordered if line.bytes > 0]


def lines_of(
    growth: TreeGrowth,
    process: ProcessGrowth,
    sources: Sequence[Source],
    allocators: Sequence[str],
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
    for one in alive:
        place = _place_in_files(one, texts)
        if place is not None:
            places.setdefault(place, []).append(one)
    lines = []
    for (file, line), found in places.items():
        first, text = found[0], _text(texts.get(file), line)
        package = next((one.package for one in found if one.package), None)
        lines.append(
            GrowthLine(
                file=file,
                line=line,
                function=_without_comprehension(first.function) if first.function else None,
                text=text,
                bytes=sum(one.bytes for one in found),
                share=0.0,
                sample_count=sum(one.sample_count for one in found),
                library=package or _called_package(first.stack, file, line) or package_named(index, file, text),
                stack=first.stack,
                alive=tuple(found),
            )
        )
    positive = sum(one.bytes for one in alive if one.bytes > 0)
    ordered = sorted(lines, key=lambda line: (-line.bytes, line.file, line.line))
    return [_with_share(line, positive) for line in ordered if line.bytes > 0]


def _place_in_files(one: Allocations, texts: dict[str, list[str]]) -> tuple[str, int] | None:
    """Code of no file (a namedtuple's ``__new__``, what exec runs) is not for a reader: who called it is."""
    if one.file is None or one.line is None:
        return None
    if not one.file.startswith("<"):
        return one.file, one.line
    for call in reversed(one.stack.split("\n")):
        file, _, line = call.partition(" ")[0].rpartition(":")
        if file in texts and line.isdigit():
            return file, int(line)
    return one.file, one.line


def _in_files(ends: pd.DataFrame, texts: dict[str, list[str]]) -> pd.DataFrame:
    """Code of no file (a namedtuple's ``__new__``, what exec runs) is not for a reader: who called it is."""
    ends = ends.copy()
    for row in ends.index[ends["owner_file"].astype(str).str.startswith("<")]:
        for call in reversed(str(ends.at[row, "stack"]).split("\n")):
            place, _, function = call.partition(" ")
            file, _, line = place.rpartition(":")
            if file in texts and line.isdigit():
                for name, value in (("owner_file", file), ("owner_line", int(line)), ("function", function)):
                    ends.at[row, name] = value
                break
    return ends


def share_at(lines: Sequence[GrowthLine], places: Iterable[Line]) -> float:
    """Of the growth that was seen under ``lines``, what was seen at any of these places."""
    wanted = {(place.file, place.line) for place in places}
    return sum(line.share for line in lines if (line.file, line.line) in wanted)


def growth_stacks(growth: TreeGrowth, process: ProcessGrowth) -> pd.DataFrame:
    """One row for each stack of calls; ``bytes``: what memory in use grew in the judged window while it was seen."""
    if is_sampled(process):
        found = [one for one in allocations(growth, process) if one.stack]
        columns = ("stack", "function", "owner_file", "owner_line", "sample_count", "bytes")
        seen = [(one.stack, one.function, one.file, one.line, one.sample_count, one.bytes) for one in found]
        return pd.DataFrame(seen, columns=list(columns))
    rows = process.rows("growth_stacks")
    rows = only(rows, rows["time_s"] <= growth.end_s + 5.0)  # written at a flush, 5 s apart
    if not len(rows):
        return rows.assign(bytes=0.0)
    ends = rows.groupby("stack", sort=False).tail(1)
    earlier = only(rows, rows["time_s"] < growth.start_s).groupby("stack")["grown_bytes"].last()
    return ends.assign(bytes=ends["grown_bytes"] - ends["stack"].map(earlier).fillna(0))


def places_of(stack: str) -> frozenset[tuple[int, str]]:
    """Line and file of each call of a stack."""
    places = (call.rsplit(" ", 1)[0].rpartition(":") for call in stack.split("\n"))
    return frozenset((int(line), file) for file, _, line in places if line.isdigit())


def _grown_below(ends: pd.DataFrame) -> dict[str, float]:
    """{file:line: bytes} of calls: what grew in the user's functions that they led to."""
    below: dict[str, float] = {}
    for stack, file, line, grown in zip(ends["stack"], ends["owner_file"], ends["owner_line"], ends["bytes"]):
        calls = {call.rsplit(" ", 1)[0] for call in str(stack).split("\n")}
        for call in calls - {f"{file}:{int(line)}"} if grown > 0 else ():
            below[call] = below.get(call, 0.0) + float(grown)
    return below


def _busy(file: str, line: int, texts: dict[str, list[str]]) -> int:
    """The line of the statement that did the work: that before one which does none."""
    busy = line
    while _IDLE.match(_text(texts.get(file), busy)):
        busy -= 1
    above = _text(texts.get(file), busy)
    return busy if "(" in above and not above.endswith(":") else line


def _only_tells(text: str) -> bool:
    called = _CALLED.findall(text)
    return bool(called) and all(_TELLS.match(name) for name in called)


def _line(file: str, line: int, text: str, seen: pd.DataFrame, index: Index) -> GrowthLine:
    first = seen.sort_values("bytes", ascending=False, kind="stable").iloc[0]
    stack = str(first["stack"])
    function = first["function"]
    return GrowthLine(
        file=file,
        line=line,
        function=_without_comprehension(function) if isinstance(function, str) else None,
        text=text,
        bytes=float(seen["bytes"].sum()),
        share=0.0,
        sample_count=int(seen["sample_count"].sum()),
        library=_called_package(stack, file, line) or package_named(index, file, text),
        stack=stack,
    )


def _with_share(line: GrowthLine, positive: float) -> GrowthLine:
    return replace(line, share=line.bytes / max(positive, 1.0))


def _text(lines: list[str] | None, line: int) -> str:
    return lines[line - 1].strip() if lines and 0 < line <= len(lines) else ""


def _without_comprehension(function: str) -> str:
    """``load`` for ``load.<locals>.<dictcomp>``: up to Python 3.11 a comprehension is a function."""
    return re.sub(r"(\.<locals>)?\.<\w+>$", "", function)


def _called_package(stack: str, file: str, line: int) -> str | None:
    """The package that the line calls, where that is written in Python."""
    calls = stack.split("\n")
    own = [i for i, call in enumerate(calls) if call.startswith(f"{file}:{line} ")]
    called = calls[own[-1] + 1] if own and own[-1] + 1 < len(calls) else ""
    found = _PACKAGES.search(called)
    return found.group(1) if found else None
