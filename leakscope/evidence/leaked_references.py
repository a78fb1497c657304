"""Objects that pile up and that nobody refers to: what is left when an extension forgets to drop its references.

The graph of the heap has all objects that the collector knows, and those that only C code refers to among them; of the
others (strings, numbers, bytes) a sample of the allocator's pools shows those that no object refers to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..confidence import Ground
from ..facts.accounts.ledger import growth_of
from ..facts.code.imports import STANDARD_LIBRARY
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.strays import Strays, piles_up, strays_of
from ..facts.growth.tree import TreeGrowth
from ..facts.heap.handles import in_step, in_step_by_sample
from ..facts.heap.opaque import opaque_holders
from ..facts.heap.place import Place
from ..facts.series.arithmetic import level_at
from ..facts.where.allocations import NATIVE, OBJECTS, allocations
from ..findings import Evidence, Finding
from ..units import MOST, format_bytes, format_count, format_duration
from .allocated import given_at, made_at, made_of_type

if TYPE_CHECKING:
    from ..facts.case import Case

_OF_HANDLES = (Ground("handles were counted that nothing refers to", 0.7),)
_OF_SAMPLES = (Ground("samples saw them made and never freed, and the graph has none of them", 0.65),)
# Of the objects that no collector knows, those that may be large: the functions of Python that ask malloc for them.
_MADE_BY = {
    "PyUnicode_New": "str",
    "PyBytes_FromStringAndSize": "bytes",
    "_PyBytes_Resize": "bytes",
    "PyByteArray_FromStringAndSize": "bytearray",
    "PyByteArray_Resize": "bytearray",
}
_LEAST_TAKES = 4  # snapshots: three intervals that are alike
_IN_GRAPH = 0.2  # of what the process gained


def leaked(
    case: Case,
    process: ProcessGrowth,
    left: int,
    kind: str,
    *,
    min_own_share: float,
) -> Iterator[Finding]:
    """One finding, or none. ``left``: bytes of growth that nothing else explains.

    Where the user's code holds a C object that cannot be looked into, its table is the likelier holder, unless objects
    without any were counted.
    """
    opaque = opaque_holders(case.heap(process.pid))
    growth = case.growth
    window_s = growth.end_s - growth.start_s
    strays = strays_of(process, growth.start_s, growth.end_s, to_the_end=True)
    alone = _most_alone(strays, window_s) if strays is not None else None
    handles = leaked_handles(process, growth)
    if handles is not None:
        evidence = [handles.evidence(strays.passed_s if strays is not None else window_s)]
        yield _finding(case, process, left, kind, handles.type_name, _OF_HANDLES, evidence, has_native=True)
        return
    if strays is not None and alone is not None and alone.bytes >= min_own_share * left:
        grounds = [
            Ground("objects were counted that nothing refers to", 0.7)
            if alone.is_exact
            else Ground("in a sample were objects that nothing refers to", 0.65),
            *([Ground("an object whose inside cannot be seen may refer to them", 0.35)] if opaque else ()),
        ]
        yield _finding(case, process, left, kind, alone.type_name, grounds, [alone.evidence(strays.passed_s)], opaque)
        return
    large = leaked_large(case, process)
    if large is not None and large.bytes >= min_own_share * left:
        yield _finding(case, process, left, kind, large.type_name, _OF_SAMPLES, [large.evidence], has_native=True)
        return


class _Alone(NamedTuple):
    """Objects of one type that only C code refers to. ``bytes``: gained in the judged window; ``bytes_each``: what came
    into use for each that was added, where that is native memory of theirs.
    """

    bytes: float
    type_name: str
    counts: tuple[float, float]
    is_exact: bool  # else: from a sample of pools
    bytes_each: float | None = None

    def evidence(self, passed_s: float) -> Evidence:
        first, last = map(format_count, self.counts)
        how = "" if self.is_exact else ", by a sample of the memory that small objects lie in"
        if self.bytes_each is not None:
            of_sample = "" if self.is_exact else ", by a sample of the memory that small objects lie in"
            how = f"{of_sample}; for each that was added {format_bytes(self.bytes_each)} came into use"
        return Evidence(
            f"objects of type {self.type_name} that no object refers to and no cycle keeps alive: {first} → {last} in "
            f"{format_duration(passed_s)}{how}",
            {"first_count": self.counts[0], "last_count": self.counts[1], "own_bytes": round(self.bytes)},
        )


class _Large(NamedTuple):
    """Objects of one type that malloc handed out in the judged window, which are alive and in nobody's hands."""

    bytes: float
    type_name: str
    maker: str
    sample_count: int

    @property
    def evidence(self) -> Evidence:
        text = (
            f"{self.maker}() asked for {format_bytes(self.bytes)} that stays, by {self.sample_count:,} samples; the "
            f"graph of all objects has no {self.type_name} for it"
        )
        return Evidence(text, {"bytes": round(self.bytes), "samples": self.sample_count})


def leaked_large(case: Case, process: ProcessGrowth) -> _Large | None:
    """None where it is less than half of what the process gained, or Python objects in the graph account for it."""
    in_graph = growth_of(case.ledger, "python-objects", process.label) - _loose_bytes(process, case.growth)
    if in_graph >= _IN_GRAPH * process.growth_bytes:
        return None
    found: dict[str, _Large] = {}
    for one in allocations(case.growth, process):
        maker = one.made_by(_MADE_BY)
        if maker is not None:
            known = found.get(_MADE_BY[maker], _Large(0.0, _MADE_BY[maker], maker, 0))
            both = known.bytes + one.bytes, known.sample_count + one.sample_count
            found[known.type_name] = known._replace(bytes=both[0], sample_count=both[1])
    most = max(found.values(), key=lambda large: large.bytes, default=None)
    return most if most is not None and most.bytes >= MOST * process.growth_bytes else None


def _loose_bytes(process: ProcessGrowth, growth: TreeGrowth) -> float:
    """Of small objects that nothing refers to, what the process gained in the judged window."""
    strays = strays_of(process, growth.start_s, growth.end_s)
    if strays is None:
        return 0.0
    window_s = growth.end_s - growth.start_s
    return sum(strays.gained(one.loose_bytes, window_s) for one in strays.types if piles_up(one.loose_bytes))


def _most_alone(strays: Strays, window_s: float) -> _Alone | None:
    """The type of which C code alone came to hold most. Torch's own hold each other in C++."""
    found = []
    for stray in strays.types:
        if stray.type_name.split(".", 1)[0] == "torch":
            continue
        for count, bytes, is_exact in (
            (stray.outside_count, stray.outside_bytes, True),
            (stray.loose_count, stray.loose_bytes, False),
        ):
            if piles_up(count) and piles_up(bytes):
                counts = float(count[0]), float(count[-1])
                found.append(_Alone(strays.gained(bytes, window_s), stray.type_name, counts, is_exact))
    return max(found, key=lambda one: one.bytes, default=None)


def leaked_handles(process: ProcessGrowth, growth: TreeGrowth) -> _Alone | None:
    """Objects made in C that pile up without a reference, in step with memory that is not Python's: they stand for it.

    Of what they hold Python sees nothing; so it is put down to their number only where it grew with it in each interval
    between snapshots, and these are three or more.
    """
    strays = strays_of(process, growth.start_s, growth.end_s)
    if strays is None or len(strays.time_s) < _LEAST_TAKES:
        return None
    held = np.array([level_at(process.time_s, process.held_bytes, at_s) for at_s in strays.time_s])
    window_s = growth.end_s - growth.start_s
    found = []
    for stray in strays.types:
        module, dot, _ = stray.type_name.partition(".")
        if not dot or module in STANDARD_LIBRARY or module == "torch":
            continue
        # Those that the collector does not know, such as arrays, are seen in a sample of pools.
        for count, is_exact in ((stray.outside_count, True), (stray.loose_count, False)):
            step = in_step if is_exact else in_step_by_sample
            each = step(count, held) if piles_up(count) else None
            gained = 0.0 if each is None else strays.gained(count, window_s) * each
            if gained >= MOST * process.growth_bytes:
                counts = float(count[0]), float(count[-1])
                found.append(_Alone(min(gained, process.growth_bytes), stray.type_name, counts, is_exact, each))
    return max(found, key=lambda one: one.bytes, default=None)


def _finding(
    case: Case,
    process: ProcessGrowth,
    left: int,
    kind: str,
    type_name: str,
    grounds: Sequence[Ground],
    evidence: list[Evidence],
    opaque: Sequence[Place] = (),
    has_native: bool = False,
) -> Finding:
    doubts = ["a table inside C code that Python cannot reach would look the same"]
    if opaque:
        held = f"{opaque[0].reference.variable}, a {opaque[0].type_name}"
        doubts = [f"{held}, cannot be looked into: a table in it would look the same"]
    made = made_at(case, process, NATIVE) if has_native else None
    of_type = None
    if made is None:  # a handle is an object, too
        of_type, has_native = made_of_type(case, process, type_name), False
        made = of_type or made_at(case, process, OBJECTS)
    line, package = None, None
    if made is not None:
        # Where a package's own objects stay, their memory tells who made them, and not who was given them.
        is_its_own = type_name.split(".", 1)[0] == made.package
        called = made.package_called(case) if is_its_own or not has_native else None
        given = None if has_native or of_type is not None else given_at(case, process)
        if given is not None:
            evidence, line, package = [*evidence, made.evidence, given.evidence], given.line, given.package
        else:
            evidence, line, package = [*evidence, made.evidence], made.line, called or made.package or made.line.library
    else:
        doubts.append("the line was not observed: allocations were not sampled, or several lines made such objects")
    if package is not None and type_name.split(".", 1)[0] == package:
        package = None  # its own objects: it made them, and who keeps them may have got them from the program
    who = f"{package}, or another C extension," if package else "a C extension"
    return case.finding(
        kind,
        f"Unreferenced objects pile up ({type_name}): {who} keeps references it should drop",
        grounds=grounds,
        bytes=left,
        process=process,
        line=line,
        holder="no Python object",
        type=type_name,
        library=package,
        evidence=[*evidence, Evidence(f"nothing else explains {format_bytes(left)} of growth", {"bytes": left})],
        doubts=doubts,
        remedy=[
            f"update or replace {package or 'the extension that these objects are given to'}: clearing variables and "
            "gc.collect() free nothing here"
        ],
    )
