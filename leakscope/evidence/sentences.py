"""Sentences and curves that several diagnoses show."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import overload

import numpy as np

from ..facts.case import Case
from ..facts.code.adding import Line
from ..facts.growth.limits import is_short
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.tree import TreeGrowth
from ..facts.series.arithmetic import Floats, level_at
from ..facts.tables import only, series
from ..facts.where.allocations import OBJECTS
from ..facts.where.stacks import GrowthLine
from ..findings import Evidence, Finding, Series, Skipped
from ..units import LARGEST_SMALL, LEAST_MAPPED, LISTED, MOST, MUCH, format_bytes, format_duration
from .use import Use

POINTS = 2000  # of a curve, at most
NOT_ENDED = (  # ``one``: objects of a class that has a method to end them
    "call {one.method}() of each {one.owner} that is made at {one.line.place} once it is done with: nothing in the "
    "sources does, and it frees that"
)
# Of malloc's each, where large.
_ONE_PIECE = ("builtins.str", "bytearray", "bytes", "numpy.ndarray", "str", "torch.Tensor")


@overload
def at_line(line: Line | GrowthLine, does: str) -> Evidence: ...
@overload
def at_line(line: Line | GrowthLine | None, does: str) -> Evidence | None: ...
def at_line(line: Line | GrowthLine | None, does: str) -> Evidence | None:
    """``train.py:31 adds to it: history.append(loss)``; None where no line is known."""
    return None if line is None else Evidence(f"{line.file}:{line.line} {does}: {line.text}", {"line": line.line})


def looked_too_early(kind: str, growth: TreeGrowth, so_far: Sequence[Finding] = ()) -> Skipped | None:
    """For a diagnosis by snapshots that found nothing: none was taken while most of the growth came, and who held what
    came before is not known either.
    """
    main = growth.main
    if main is None or growth.leaking is False or any(f.subject.pid == main.pid and f.subject.holder for f in so_far):
        return None
    looks_s, gained = main.rows("takes")["time_s"], main.growth_bytes
    looks_s = looks_s[looks_s <= growth.end_s]
    if not len(looks_s) or gained <= 0:
        return None
    then, last = (level_at(main.time_s, main.held_bytes, at_s) for at_s in (float(looks_s.max()), growth.end_s))
    if last - then <= MOST * gained:
        return None
    part, whole = format_bytes(min(gained, last - then)), format_bytes(gained)
    came = f"all {whole}" if part == whole else f"{part} of the {whole}"
    looked = f"the last snapshot of {main.label} is at {format_duration(float(looks_s.max()))}"
    return Skipped(kind, f"{looked}: {came} that it gained came after it")


def grew_at(line: GrowthLine) -> Evidence:
    """How much of what stays was allocated at a line: of memory, or of objects."""
    live, settled = (sum(getattr(one, column) for one in line.alive) for column in ("live_bytes", "settled_bytes"))
    # In shares: of what is asked for not all may ever be touched, and only that is memory.
    what = "such small objects that stay" if line.alive[0].allocator in OBJECTS else "what stays"
    text = (
        f"{line.file}:{line.line}{_through(line)} allocated {line.share:.0%} of {what}, by "
        f"{line.sample_count:,} sample{'' if line.sample_count == 1 else 's'}; "
        f"{settled / max(live, 1.0):.0%} of it has been there for 10 s"
    )
    first = line.alive[0]
    by = [name for name in (first.native_function and f"{first.native_function}()", first.package) if name]
    text += f"; {' of '.join(by)} asked for it" if by else ""
    figures = {
        "line": line.line, "share": round(line.share, 3), "samples": line.sample_count,
        "native_stack": first.native_stack,
    }  # fmt: skip
    return Evidence(f"{text}: {line.text}" if line.text else text, figures)


def _through(line: GrowthLine) -> str:
    """The calls of what the line makes, of which it is told as well."""
    if not line.through:
        return ""
    places = ", ".join(one.place for one in line.through)
    return f", with the calls of what it makes at {places},"


def curve(name: str, time_s: Floats, values: Floats, unit: str = "bytes") -> Series:
    """A series to its end, in as many of its points as a report may have."""
    every = time_s.size // POINTS + 1
    x, y = (one[::-1][::every][::-1].tolist() for one in (time_s, values))
    return Series(name, x, y, "s", unit)


def frees(process: ProcessGrowth, size: float, parts: Sequence[tuple[str | None, float]]) -> str:
    """What releasing it gives, and to whom. ``parts``: of each container the type of its members, and bytes of one.

    Python's own arenas go back to the system, and what malloc maps piece by piece: large ones, until the program has
    let go of some. What lies in malloc's heap stays there for what the program asks for next, unless it is told to.
    """
    text = f"frees about {format_bytes(size)}"
    rows = process.rows("sentinels")
    _, mapped = series(rows, "malloc_mmap_bytes")
    is_mapped = not mapped.size or float(mapped.max()) >= MOST * size
    least = LEAST_MAPPED if is_mapped else np.inf
    kept = any(kind in _ONE_PIECE and LARGEST_SMALL < one < least for kind, one in parts)
    if not kept or not len(rows) or len(only(rows, rows["malloc_library"].notna())):
        return text
    return f"{text}, which malloc keeps for what comes next; ctypes.CDLL(None).malloc_trim(0) gives it to the system"


def wasted(
    case: Case, size: float, held: float, *, whose: str = "its process", what: str = "that is"
) -> tuple[str, Evidence]:
    """(severity, evidence); ``held``: at the end. Where memory is short all that could go is a warning, else much."""
    share = size / max(held, 1.0)
    is_much = bool(case.kills.of_root) or is_short(case.limits) or share >= MUCH
    text = f"{what} {share:.0%} of what {whose} held at the end"
    return "warning" if is_much else "note", Evidence(text, {"share": round(share, 3)})


def untyped(holder: str) -> str:
    """``Table.raw`` of ``Table.raw (ndarray)``, where there is no room for more."""
    return re.sub(r" \([\w.]+\)$", "", holder)


def let_go(
    process: ProcessGrowth, unread: Sequence[tuple[str, Use, float, tuple[str | None, float]]], is_cache: bool = False
) -> str:
    """What to do about what nothing reads any more: (name, its use, bytes, (type of its members, bytes of one))."""
    each = [
        f"{untyped(name)}{f' after {use.line.place}' if use.line is not None else ''} ({format_bytes(size)})"
        for name, use, size, _ in unread[: LISTED if len(unread) <= LISTED else LISTED - 1]
    ]
    more = [f"{len(unread) - len(each)} more"] if len(unread) > len(each) else []
    saved = frees(process, sum(size for _, _, size, _ in unread), [part for *_, part in unread])
    asked = next((use.counted for _, use, *_ in unread if use.counted is not None), None)
    number = f", and keep the length that {asked.place} asks for" if asked is not None else ""
    verb, way = ("clear", "cache_clear()") if is_cache else ("release", "del")
    return f"{verb} {listed([*each, *more])} by {way}{number}: {saved}"


def listed(names: Sequence[str]) -> str:
    return f"{', '.join(names[:-1])} and {names[-1]}" if len(names) > 1 else "".join(names)
