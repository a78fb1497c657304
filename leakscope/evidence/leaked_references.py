"""Objects that pile up and that nobody refers to: what is left when an extension forgets to drop its references.

The graph of the heap has all objects that the collector knows, and those that only C code refers to among them; of the
others (strings, numbers, bytes) a sample of the allocator's pools shows those that no object refers to. Where no
snapshot has a graph there is one sign: small objects the collector does not track grow in number while nothing that
could hold them does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from ..confidence import Ground
from ..facts.accounts.ledger import growth_of
from ..facts.code.imports import STANDARD_LIBRARY, only_package
from ..facts.code.index import index_of
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.strays import Strays, piles_up, strays_of
from ..facts.growth.tree import TreeGrowth
from ..facts.heap.handles import in_step, in_step_by_sample
from ..facts.heap.opaque import opaque_holders
from ..facts.heap.place import Place
from ..facts.series.arithmetic import level_at
from ..facts.tables import only, series, without_last
from ..facts.where.allocations import NATIVE, OBJECTS, allocations
from ..findings import Evidence, Finding
from ..units import MOST, format_bytes, format_count, format_duration
from .allocated import given_at, made_at, made_of_type

if TYPE_CHECKING:
    import pandas as pd

    from ..facts.case import Case

_BY_NUMBERS = (Ground("by numbers alone: more small objects than snapshots find", 0.5),)
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
_SMALL_OBJECT_BYTES = (16, 512)  # least and largest block of Python's own allocator; larger ones are malloc's
_LEAST_TAKES = 4  # snapshots: three intervals that are alike
_IN_GRAPH = 0.2  # of what the process gained
_FEW = 0.02  # containers gained for each small object gained: fewer hold nothing, or all of it in one place


def leaked(
    case: Case,
    process: ProcessGrowth,
    left: int,
    kind: str,
    *,
    has_holder: bool,
    min_own_share: float,
) -> Iterator[Finding]:
    """One finding, or none. ``left``: bytes of growth that nothing else explains.

    ``has_holder``: some of it was seen to be held, so that numbers alone do not say that nobody holds the rest.

    Where the user's code holds a C object that cannot be looked into, its table is the likelier holder, unless objects
    without any were counted.
    """
    opaque = opaque_holders(case.heap(process.pid))
    growth, takes = case.growth, process.rows("takes")
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
    if opaque or (strays is not None and strays.knows_pools):
        return  # what nobody refers to was counted
    if has_holder:
        return
    small = _small_objects(process.rows("sentinels"), without_last(takes, takes), growth, left)
    if small is not None:
        yield _finding(case, process, left, kind, None, _BY_NUMBERS, [small])


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


def _small_objects(sentinels: pd.DataFrame, takes: pd.DataFrame, growth: TreeGrowth, left: int) -> Evidence | None:
    """Whether the growth is one of small untracked objects, which no container that grows could hold."""
    time_s, blocks = series(sentinels, "allocated_blocks")
    tracked = only(takes, takes["gc_object_count"].notna() & ~takes["truncated"].fillna(False).astype(bool))
    if time_s.size < 2 or len(tracked) < 2:
        return None
    first_s, last_s = (float(tracked["time_s"].iloc[i]) for i in (0, -1))
    passed_s = last_s - first_s
    if passed_s <= 0:
        return None
    # Both between the same snapshots: what was imported before the first has made small objects, and its containers.
    gained = (level_at(time_s, blocks, last_s) - level_at(time_s, blocks, first_s)) / passed_s
    least, largest = _SMALL_OBJECT_BYTES
    each_bytes = left / (growth.end_s - growth.start_s) / gained if gained > 0 else 0.0
    counted = tracked["gc_object_count"].astype(float) + tracked["gc_frozen_count"].astype(float).fillna(0.0)
    containers = float(counted.iloc[-1] - counted.iloc[0]) / passed_s
    if not least <= each_bytes <= largest or containers > _FEW * gained:
        return None
    more = f"{format_count(gained * passed_s)} small objects more in {format_duration(passed_s)}"
    return Evidence(
        f"{more}, {format_bytes(each_bytes)} each; objects that could refer to them did not grow",
        {"small_objects_per_s": round(gained, 1), "containers_per_s": round(containers, 1)},
    )


def _finding(
    case: Case,
    process: ProcessGrowth,
    left: int,
    kind: str,
    type_name: str | None,
    grounds: Sequence[Ground],
    evidence: list[Evidence],
    opaque: Sequence[Place] = (),
    has_native: bool = False,
) -> Finding:
    what = type_name or "small ones: strings, numbers, bytes"
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
        is_its_own = type_name is not None and type_name.split(".", 1)[0] == made.package
        called = made.package_called(case) if is_its_own or not has_native else None
        given = None if has_native or of_type is not None else given_at(case, process)
        if given is not None:
            evidence, line, package = [*evidence, made.evidence, given.evidence], given.line, given.package
        else:
            evidence, line, package = [*evidence, made.evidence], made.line, called or made.package or made.line.library
    else:
        doubts.append("the line was not observed: allocations were not sampled, or several lines made such objects")
    is_maker = package is not None and type_name is not None and type_name.split(".", 1)[0] == package
    if is_maker and only_package(index_of(case.sources, "import")) != package:
        package = None  # its own objects: it made them, and who keeps them may have got them from the program
    who = f"{package}, or another C extension," if package else "a C extension"
    return case.finding(
        kind,
        f"Unreferenced objects pile up ({what}): {who} keeps references it should drop",
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
