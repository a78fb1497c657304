"""Objects that pile up and that nobody refers to: what is left when an extension forgets to drop its references.

The graph of the heap has all objects that the collector knows, and those that only C code refers to among them; of the
others (strings, numbers, bytes) a sample of the allocator's pools shows those that no object refers to.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from ..confidence import AGAINST, FAIR, Ground
from ..facts.accounts.ledger import growth_of
from ..facts.case import Case
from ..facts.code.adding import Line
from ..facts.code.imports import STANDARD_LIBRARY, package_in
from ..facts.code.index import index_of
from ..facts.code.keeping import given_to
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.strays import outside_once, strays_of
from ..facts.growth.tree import TreeGrowth
from ..facts.heap.handles import in_step, in_step_by_sample
from ..facts.heap.place import Place
from ..facts.series.arithmetic import Floats, level_at
from ..facts.tables import series
from ..facts.where.allocations import NATIVE, OBJECTS, allocations
from ..facts.where.stacks import GrowthLine, lines_of
from ..findings import NOBODY, Evidence, Finding
from ..units import FEWEST, MOST, MUCH, SOME, format_bytes, format_count, format_duration
from .sentences import at_line, grew_at, looked_too_early

# Of the objects that no collector knows, those that may be large: the functions of Python that ask malloc for them.
_MADE_BY = {
    "PyUnicode_New": "str",
    "PyBytes_FromStringAndSize": "bytes",
    "_PyBytes_Resize": "bytes",
    "PyByteArray_FromStringAndSize": "bytearray",
    "PyByteArray_Resize": "bytearray",
}
# Of arrays a snapshot weighs all that it comes to, and this library of C asks for their memory, and hardly for other.
_MADE_IN = {"_multiarray_umath": "numpy.ndarray"}
_IN_GRAPH = MUCH  # of what the process gained


class Leaked(NamedTuple):
    """Objects of one type that nobody refers to. ``bytes``: gained in the judged window.

    ``has_native``: what they stand for is memory of malloc's, so that its samples tell who made them.
    """

    bytes: float
    type_name: str
    ground: str
    evidence: Evidence
    has_native: bool = False


def leaked(case: Case, process: ProcessGrowth, left: int, kind: str, *, min_own_share: float) -> Iterator[Finding]:
    """One finding, or none. ``left``: bytes of growth that nothing else explains.

    Where the user's code holds a C object that cannot be looked into, its table is the likelier holder, unless objects
    without any were counted.
    """
    handles = leaked_handles(process, case.growth)
    most = handles or _most_alone(process, case.growth)
    if handles is None and (most is None or most.bytes < min_own_share * left):
        most = leaked_large(case, process) or _seen_once(case, process)
    if most is not None and (most is handles or most.bytes >= min_own_share * left):
        yield _finding(case, process, left, kind, most)


def _alone(
    type_name: str, count: Floats, bytes: float, passed_s: float, is_exact: bool, each: float | None = None
) -> Leaked:
    """``each``: what came into use for each that was added, where that is native memory of theirs."""
    first, last = float(count[0]), float(count[-1])
    how = "" if is_exact else ", by a sample of the memory that small objects lie in"
    how += f"; for each that was added {format_bytes(each)} came into use" if each is not None else ""
    text = f"objects of type {type_name} that no object refers to and no cycle keeps alive: {format_count(first)} → "
    text += f"{format_count(last)} in {format_duration(passed_s)}{how}"
    ground = "objects were counted that nothing refers to" if is_exact else "in a sample nothing refers to such objects"
    figures = {"first_count": first, "last_count": last, "own_bytes": round(bytes)}
    return Leaked(bytes, type_name, ground, Evidence(text, figures), has_native=each is not None)


def _most_alone(process: ProcessGrowth, growth: TreeGrowth) -> Leaked | None:
    """The type of which C code alone came to hold most. Torch's own hold each other in C++."""
    strays = strays_of(process, growth.start_s, growth.end_s, to_the_end=True)
    if strays is None:
        return None
    found = [
        _alone(one.type_name, count, strays.gained(bytes, growth.end_s - growth.start_s), strays.passed_s, is_exact)
        for one in strays.types
        if one.type_name.split(".", 1)[0] != "torch"
        for count, bytes, is_exact in (
            (one.outside_count, one.outside_bytes, True), (one.loose_count, one.loose_bytes, False)
        )
        if strays.pile_up(count) and strays.pile_up(bytes)
    ]  # fmt: skip
    return max(found, key=lambda one: one.bytes, default=None)


def leaked_handles(process: ProcessGrowth, growth: TreeGrowth) -> Leaked | None:
    """Objects made in C that pile up without a reference, in step with memory that is not Python's: they stand for it.

    Of what they hold Python sees nothing; so it is put down to their number only where it grew with it in each interval
    between snapshots, and these are three or more.
    """
    strays = strays_of(process, growth.start_s, growth.end_s)
    if strays is None or len(strays.time_s) <= FEWEST:
        return None
    held = np.array([level_at(process.time_s, process.held_bytes, at_s) for at_s in strays.time_s])
    found = []
    for one in strays.types:
        module, dot, _ = one.type_name.partition(".")
        if not dot or module in STANDARD_LIBRARY or module == "torch":
            continue
        # Those that the collector does not know, such as arrays, are seen in a sample of pools.
        for count, is_exact in ((one.outside_count, True), (one.loose_count, False)):
            step = in_step if is_exact else in_step_by_sample
            each = step(count, held) if strays.pile_up(count) else None
            gained = 0.0 if each is None else strays.gained(count, growth.end_s - growth.start_s) * each
            if gained >= MOST * process.growth_bytes:
                bytes = min(gained, process.growth_bytes)
                found.append(_alone(one.type_name, count, bytes, strays.passed_s, is_exact, each))
    return max(found, key=lambda one: one.bytes, default=None)


def leaked_large(case: Case, process: ProcessGrowth) -> Leaked | None:
    """Objects of one type that malloc handed out, which are alive and in nobody's hands.

    None where it is less than half of what the process gained, or Python objects in the graph account for it; or may,
    since most came after the last snapshot.
    """
    growth = case.growth
    if looked_too_early("", growth) is not None:
        return None
    strays, window_s = strays_of(process, growth.start_s, growth.end_s), growth.end_s - growth.start_s
    loose = [one.loose_bytes for one in strays.types if strays.pile_up(one.loose_bytes)] if strays is not None else []
    in_graph: float = growth_of(case.ledger, "python-objects", process.label)
    in_arrays = sum(growth_of(case.ledger, account, process.label) for account in ("arrays", "tensors"))
    may_be_arrays = in_arrays < _IN_GRAPH * process.growth_bytes and not is_partly_read(process)
    in_graph -= sum(strays.gained(bytes, window_s) for bytes in loose) if strays is not None else 0
    if in_graph >= _IN_GRAPH * process.growth_bytes:
        return None
    found: dict[str, tuple[float, int, str | None]] = {}
    for one in allocations(growth, process):
        function, library = one.made_by(_MADE_BY), PurePath(one.native_library or "").name.split(".", 1)[0]
        kind = _MADE_BY[function] if function is not None else _MADE_IN.get(library) if may_be_arrays else None
        if kind is not None:
            bytes, count, first = found.get(kind, (0.0, 0, f"{function}()" if function is not None else one.package))
            found[kind] = bytes + one.bytes, count + one.sample_count, first
    type_name, (bytes, count, maker) = max(found.items(), key=lambda one: one[1][0], default=("", (0.0, 0, "")))
    if not found or bytes < MOST * process.growth_bytes:
        return None
    text = f"{maker} asked for {format_bytes(bytes)} that stays, based on {count:,} samples; the graph of all objects"
    evidence = Evidence(f"{text} has no {type_name} for it", {"bytes": round(bytes), "samples": count})
    ground = "samples saw them made and never freed, and the graph has none of them"
    return Leaked(bytes, type_name, ground, evidence, has_native=True)


def is_partly_read(process: ProcessGrowth) -> bool:
    """Of the objects most snapshots read a part: others may hold what these do not."""
    graphs = process.rows("heap_graphs")
    return bool(len(graphs) and graphs["is_sampled"].fillna(False).mean() > MOST)


def _seen_once(case: Case, process: ProcessGrowth) -> Leaked | None:
    """What leaks was soon too much to be read whole again: it was counted once, and Python's allocator counts on.

    None where it was not most of what had come into use by then, or what names reach gained as the allocator did.
    """
    once, gained = outside_once(process), case.gained(process, "pymalloc_in_use_bytes")
    if once is None or once.type_name.split(".", 1)[0] == "torch" or gained is None:
        return None
    at_s, in_use = series(process.rows("sentinels"), "pymalloc_in_use_bytes")
    then, first, last = np.interp([once.at_s, *once.later_s], at_s, in_use)
    is_reached = once.reached_bytes[1] - once.reached_bytes[0] >= _IN_GRAPH * (last - first)
    if is_reached or gained < MOST * process.growth_bytes or once.bytes < max(MOST * (then - in_use[0]), SOME * gained):
        return None
    text = f"at {format_duration(once.at_s)} there were {format_count(once.object_count)} objects of type "
    text += f"{once.type_name} that no object refers to, {format_bytes(once.bytes)} with all they hold; later there "
    text += f"were too many to count again. {format_bytes(gained)} more of small objects came into use, and names "
    text += "reach hardly more"
    figures = {"count": once.object_count, "own_bytes": round(once.bytes), "gained_bytes": round(gained)}
    return Leaked(gained, once.type_name, "objects were counted once that nothing refers to", Evidence(text, figures))


def _finding(case: Case, process: ProcessGrowth, left: int, kind: str, leaked: Leaked) -> Finding:
    type_name, has_native = leaked.type_name, leaked.has_native
    opaque: Sequence[Place] = () if has_native else case.heap(process.pid).opaque()
    table = "a table inside C code that Python cannot reach would look the same"
    if opaque:
        held = f"{opaque[0].reference.variable}, a {opaque[0].type_name}"
        table = f"{held}, cannot be looked into: a table in it would look the same"
    made = made_at(case, process, NATIVE) if has_native else None
    of_type = None
    if made is None:  # a handle is an object, too
        of_type, has_native = made_of_type(case, process, type_name), False
        made = of_type or made_at(case, process, OBJECTS)
    unsure = None
    line: GrowthLine | Line | None
    if made is not None:
        # Where a package's own objects stay, their memory tells who made them, and not who was given them.
        is_its_own = type_name.split(".", 1)[0] == made.package
        called = made.package_called(case) if is_its_own or not has_native else None
        given = None if has_native or of_type is not None else given_at(case, process)
        line = given.line if given is not None else made.line
        package = given.package if given is not None else called or made.package or made.line.library
        seen = [grew_at(one.line) for one in (made, given) if one is not None]
    else:
        line, package, seen = None, None, []
        unsure = "the line was not observed: allocations were not sampled, or several lines made such objects"
    if package == type_name.split(".", 1)[0]:
        package = None  # its own objects: it made them, and who keeps them may have got them from the program
        maker = type_name.split(".", 1)[0]
        taker = given_to(case.sources, made.line.file, made.line.line, maker) if made is not None else None
        if taker is not None:
            package, line = taker.library, taker.line
            seen.append(at_line(taker.line, f"gives them to {package}"))
    who = f"{package}, or another C extension," if package else "a C extension"
    update = f"update or replace {package or 'the extension that these objects are given to'}"
    inside = Ground("an object whose inside cannot be seen may refer to them", AGAINST)
    return case.finding(
        kind,
        f"Unreferenced objects pile up ({type_name}): {who} keeps references it should drop",
        grounds=[Ground(leaked.ground, FAIR), inside if opaque else None],
        bytes=left,
        process=process,
        line=line,
        holder=NOBODY,
        type=type_name,
        library=package,
        evidence=[
            leaked.evidence,
            *seen,
            Evidence(f"nothing else explains {format_bytes(left)} of growth", {"bytes": left}),
        ],
        doubts=[table, unsure],
        remedy=[f"{update}: clearing variables and gc.collect() free nothing here"],
    )


# ---- which line made what stays, as samples of allocations tell


_CERTAIN = 2.0  # standard errors by which one line made more than all the others: the line, not one of them
# Where an object of a type begins, in Python's own code. Its block may be an old one: see ``made_of_type``.
_MAKERS = {
    "list": ("PyList_New",),
    "dict": ("PyDict_New", "_PyDict_NewPresized", "PyDict_Copy"),
    "tuple": ("PyTuple_New", "PyTuple_Pack"),
    "set": ("PySet_New",),
}
_MOST_OF_TYPE, _LEAST_SAMPLES = 2 / 3, 5  # of one type: by a line of an extension's
_MOST_ERROR_BESIDE = 0.35  # of what stayed


@dataclass(frozen=True)
class MadeAt:
    """The line under which most of the objects that stay are made."""

    line: GrowthLine
    package: str | None

    def package_called(self, case: Case) -> str | None:
        """The one package that the line names. What it makes by another one is its own: who calls gets the reference,
        and has to drop it."""
        return package_in(index_of(case.sources, "import"), self.line.file, self.line.text)


def made_at(case: Case, process: ProcessGrowth, allocators: tuple[str, ...]) -> MadeAt | None:
    """None where they were not sampled, or several lines make them."""
    lines = lines_of(case.growth, process, case.sources, allocators)
    return _made(lines[0]) if lines and _made_most(lines) else None


def made_of_type(case: Case, process: ProcessGrowth, type_name: str | None) -> MadeAt | None:
    """The line at which an extension, none of Python's own, made most objects of a type that stay; None where none did.

    Python keeps what is freed of numbers, lists and dicts for the next ones of the type. Of what an extension makes and
    forgets most blocks were asked for where others of the kind were made and freed, so that the sum of all types names
    that line.
    """
    makers = _MAKERS.get(type_name or "", ())
    lines = lines_of(case.growth, process, case.sources, OBJECTS, makers=makers) if makers else []
    if not lines or lines[0].share < _MOST_OF_TYPE or lines[0].sample_count < _LEAST_SAMPLES:
        return None
    made = _made(lines[0])
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
    made = [_made(line) for line in lines if line.share >= SOME and line.error_share <= _MOST_ERROR_BESIDE]
    if not made or made[0].package is not None:
        return None
    return next((one for one in made if one.package is not None), None)


def _made(line: GrowthLine) -> MadeAt:
    packages = {one.package for one in line.alive if one.bytes >= SOME * line.bytes and one.package is not None}
    return MadeAt(line, packages.pop() if len(packages) == 1 else None)
