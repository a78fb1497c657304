"""Memory that a C or C++ library asks for and never gives back, named by the call under which it grows.

Looks for:     growth of what malloc has allocated that no Python object, array or tensor explains.
Why:           a bug or a cache inside a library does not show in any list of objects.
Decides by:    the ledger: min_native_share of what a process gained is native, and malloc's memory in use itself rises;
               the line and the library are those that allocated most of what stays, by samples of allocations. Or
               blocks of Python's own allocator grow, and objects in them do not: C code may ask there, too.
Mistaken when: a cache of the library is still filling and has a limit; or another thread does the work.
Do:            check whether a newer version fixes it, or a setting bounds what it keeps; or call it in a process that
               ends now and then.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from ..confidence import AGAINST, NEUTRAL, SURE, Ground, graded
from ..evidence.explained import is_explained
from ..evidence.leaked_references import is_partly_read, leaked_handles, leaked_large
from ..evidence.sentences import NOT_ENDED, curve, grew_at, looked_too_early
from ..facts.accounts.ledger import growth_of
from ..facts.accounts.tensors import ever_more_tensors, has_unweighed_tensors
from ..facts.case import Case
from ..facts.code.ending import Unended, freed_by, never_ended
from ..facts.code.imports import STANDARD_LIBRARY
from ..facts.code.index import index_of
from ..facts.growth.frozen import frozen_in
from ..facts.growth.processes import ProcessGrowth
from ..facts.growth.strays import Blocks, kept_by_c
from ..facts.growth.tree import TreeGrowth, no_growth
from ..facts.heap.place import Place, upwards
from ..facts.series.arithmetic import gained
from ..facts.series.trend import FLAT, judge
from ..facts.subject import About
from ..facts.tables import cells, only, series, without_last
from ..facts.where.allocations import NATIVE, OBJECTS, Allocations, allocations, installed
from ..facts.where.compilers import compiling
from ..facts.where.libraries import left_behind
from ..facts.where.stacks import GrowthLine, by_creation, lines_of
from ..findings import Evidence, Finding, RuledOut, Skipped, Subject
from ..kinds import GROWTH
from ..storage import Rows
from ..units import FEWEST, GOOD_PART, MOST, MUCH, SLIGHT, SOME, changed, format_bytes, format_count, over

NEEDS = ("process_samples", "sentinels")
TELLS = (GROWTH,)
AFTER = ("*", "recompilation")  # what is compiled and dropped is native memory, too
_KIND, _OPEN = "native-growth", "fd-pileup"
_PLAIN = frozenset(("__main__", "builtins", "numpy", "torch"))  # what they have is weighed
_LEAST_SEEN = GOOD_PART  # by samples, of native growth: else something is at work that they do not see


def findings(
    case: Case,
    *,
    so_far: Sequence[Finding] = (),
    min_native_share: float = MOST,  # of the process's growth: below, something else is the news
    min_native_bytes: int = SLIGHT,  # what allocators and imports leave behind in a short run
    min_line_share: float = MUCH,  # of the growth seen under lines: below, no line stands out
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process whose growth is native and nobody else's."""
    growth = case.growth
    if not growth.leaking:
        yield no_growth(_KIND, growth)
        return
    reasons: list[RuledOut | Skipped] = []
    found = False
    for process in case.carriers(min_native_bytes):
        look = _look(case, process, min_line_share)
        why_not = ""
        if not len(process.rows("sentinels")["malloc_in_use_bytes"].dropna()):
            reasons.append(Skipped(_KIND, f"malloc's figures of {process.label} are not known"))
            continue
        elif look.bytes < max(min_native_bytes, min_native_share * process.growth_bytes) or (
            not look.outside_bytes and look.blocks is None and _is_flat(growth, process, min_native_share)
        ):
            only = f"only {format_bytes(look.bytes)}" if look.bytes > 0 else "nothing"
            why_not = f"{only} of {process.label}'s growth is native (C/C++) memory"
        elif (handles := leaked_handles(process, growth)) is not None:
            why_not = f"{handles.type_name} objects without any reference explain it: see refcount-drift"
        elif (large := leaked_large(case, process)) is not None:
            why_not = f"{large.type_name} objects that nobody refers to are most of it: see refcount-drift"
        elif look.may_be_tensors and has_unweighed_tensors(process, growth.start_s, growth.end_s):
            text = f"no snapshot of {process.label} weighed its tensors: what malloc handed out may be theirs"
            reasons.append(Skipped(_KIND, text))
            continue
        elif ever_more_tensors(process, growth.start_s, growth.end_s) and look.is_of_torch and is_partly_read(process):
            text = f"ever more tensors live in {process.label}, and of its objects a part was read: they may have it"
            reasons.append(Skipped(_KIND, text))
            continue
        elif look.is_of_python and (early := looked_too_early(_KIND, growth, so_far)) is not None:
            reasons.append(replace(early, reason=f"{early.reason}, and Python itself asked malloc for it"))
            continue
        elif (one := compiling(growth, process)) is not None and not one.goes_on:
            why_not = f"{one.compiler.library} compiled while {process.label} warmed up, and no longer"
        elif is_explained(so_far, process):
            why_not = f"other findings explain the growth of {process.label}"
        elif (holder := _holder_of_theirs(so_far, process, look)) is not None:
            why_not = f"{holder} holds ever more objects of {look.package}, whose memory it is: see retained-objects"
        elif look.opaque is not None and look.opaque.type_name.split(".")[0].lstrip("_") in STANDARD_LIBRARY:
            # A database, a pickler of Python's own does not leak: it holds what it was given.
            held = f"{look.opaque.reference.variable}, a {look.opaque.type_name}"
            why_not = f"{held}, may hold it: see unexplained-growth"
        if why_not:
            reasons.append(RuledOut(_KIND, why_not, {"native_bytes": look.bytes, "growth_bytes": process.growth_bytes}))
        else:
            found = True
            through = _through(so_far, process, look) or _open_ones(case, so_far, process, look)
            yield _finding(case, process, look, through)
    if not found:
        yield from reasons[:1] or [RuledOut(_KIND, "no growing process has native memory that grew", {})]


class _Look(NamedTuple):
    """What speaks for native growth of one process. **Units** bytes gained in the judged window.

    ``outside_bytes``: not in use by malloc; free again, around what a cache keeps, or of an allocator of its own.
    ``blocks``: of Python's allocator, where these are it: C code asked for them, and they are no objects.
    """

    native_bytes: int
    outside_bytes: int
    lines: list[GrowthLine]
    cache: Cache | None
    opaque: Place | None
    package: str | None  # that asked for it, or that the line calls
    asked: Allocations | None  # by samples: most of what stays
    blocks: Blocks | None

    @property
    def line(self) -> GrowthLine | None:
        return self.lines[0] if self.lines else None

    @property
    def bytes(self) -> int:
        return self.native_bytes + self.outside_bytes

    @property
    def may_be_tensors(self) -> bool:
        """Unless samples saw another library ask for the memory."""
        return self.asked is None or self.asked.package in (None, "torch")

    @property
    def is_of_python(self) -> bool:
        """Samples saw no library ask for the memory: large objects' values are malloc's, too."""
        return self.asked is not None and self.asked.native_library is None and not self.outside_bytes

    @property
    def is_of_torch(self) -> bool:
        """Samples saw torch ask for it."""
        return self.asked is not None and self.asked.package == "torch"


def _look(case: Case, process: ProcessGrowth, min_line_share: float) -> _Look:
    accounts = ("native", "native-held", "allocator-free", "unexplained")
    native, held, free, unexplained = (growth_of(case.ledger, account, process.label) for account in accounts)
    native += held
    blocks = _blocks(case.growth, process)
    found = [one for one in allocations(case.growth, process, OBJECTS if blocks else NATIVE) if one.bytes > 0]
    # Objects are watched now and then; of what malloc handed out samples see all, unless others are at work.
    is_enough = blocks is not None or sum(one.bytes for one in found) >= _LEAST_SEEN * native
    asked = found[0] if found and is_enough else None
    if blocks is not None:
        # Blocks of modules stay, too: of many stacks each, while what leaks comes from one.
        lines = lines_of(case.growth, process, case.sources, OBJECTS)
        lines = sorted(lines, key=lambda line: asked not in line.alive)
    else:
        lines = by_creation(lines_of(case.growth, process, case.sources), case.sources)
    lines = lines[:3] if lines and lines[0].share >= min_line_share else []
    line = lines[0] if lines else None
    cache = known_cache(case, process, native, line)
    outside = free if cache is not None and cache.leaves_free else 0
    pool = round(arrow_pool_bytes(case, process))
    outside += min(pool, unexplained) if pool >= MOST * max(unexplained, 1) else 0
    if blocks is not None:  # the ledger may have less of it: it cuts where all together is more than there is
        native = max(native, round(min(blocks.gained_bytes, process.growth_bytes)))
    package = line.library if line is not None else asked.package if asked is not None else None
    opaque = _opaque_in(line, case, process) if line is not None else None
    return _Look(native, max(0, outside), lines, cache, opaque, package, asked, blocks)


def _holder_of_theirs(so_far: Sequence[Finding], process: ProcessGrowth, look: _Look) -> str | None:
    """Who keeps the library's objects while its memory grows: it frees that with them, however much each has."""
    theirs = re.compile(rf"(?<![\w.])_?{re.escape(look.package or '')}\.")
    for one in so_far:
        is_much = not one.wasted and one.subject.pid == process.pid and one.bytes >= MOST * look.bytes
        if look.package and is_much and theirs.search(one.subject.type or ""):
            return one.subject.holder
    return None


def _through(so_far: Sequence[Finding], process: ProcessGrowth, look: _Look) -> Subject | None:
    """An object of a library's in the program's hands that grows, and that the line names where memory was asked for: a
    table or an index that lives in C. How much it has was seen only in part.
    """
    text = look.line.text if look.line is not None else ""
    for one in (f.subject for f in so_far if not f.wasted and f.subject.pid == process.pid):
        packages = set(re.findall(r"(?<![\w.])(\w+)\.", one.type or ""))
        is_named = one.variable is not None and re.search(rf"\b{re.escape(one.variable)}\b", text) is not None
        if is_named and packages - STANDARD_LIBRARY - _PLAIN:
            return one
    return None


def _open_ones(case: Case, so_far: Sequence[Finding], process: ProcessGrowth, look: _Look) -> Subject | None:
    """Who keeps ever more open files that are objects of the library: it has memory for each, until that is closed."""
    for one in (f.subject for f in so_far if f.kind == _OPEN and f.subject.pid == process.pid):
        holder = (one.holder or "").partition(", in ")[2]
        theirs = (place for place in case.heap(process.pid).places if place.type_name.startswith(f"{look.package}."))
        if holder and any(above.reference.variable == one.variable for place in theirs for above in upwards(place)):
            return replace(one, holder=holder, path=None, type=None)
    return None


def _blocks(growth: TreeGrowth, process: ProcessGrowth) -> Blocks | None:
    """What C code keeps of Python's allocator, where that is most of what the process gained."""
    blocks = kept_by_c(process, growth.start_s, growth.end_s)
    if blocks is None:
        return None
    longer = over(growth.end_s - growth.start_s, float(blocks.time_s[-1] - blocks.time_s[0]))
    return blocks if blocks.gained_bytes * min(longer, 1 + MOST) >= MOST * process.growth_bytes else None


def _is_flat(growth: TreeGrowth, process: ProcessGrowth, min_share: float) -> bool:
    """Memory in use does not rise: whatever the process gained, a native leak it is not.

    A library that asks for ever larger pieces rises in a few steps, while what it fills of them grows steadily. Where
    the steps add up to what the process gained, and nothing was given back since, they are no chance.
    """
    rows = process.rows("sentinels")
    time_s, in_use = series(only(rows, rows["time_s"] <= process.exit_s), "malloc_in_use_bytes")
    if judge(time_s, in_use, started_s=process.first_step_s).verdict != FLAT:
        return False
    inside = (time_s >= growth.start_s) & (time_s <= growth.end_s)
    return gained(in_use[inside]) < min_share * process.growth_bytes


def _opaque_in(line: GrowthLine, case: Case, process: ProcessGrowth) -> Place | None:
    """An object of the user's whose inside cannot be seen, and that the line names, or a method called there does.

    A thread that is seen as a function begins did what is seen before, in the function that called it.
    """
    called = set(re.findall(r"\.(\w+)\(", line.text))
    for row in case.heap(process.pid).opaque(most=100):
        if not _may_have_asked(row, line):
            continue
        variable, owner = row.reference.variable, row.reference.owner
        texts = [line.text]
        if variable and owner and called:
            names = {f"{owner}.{name}" for name in called}
            scopes = [one for one in index_of(case.sources, owner.rsplit(".", 1)[-1]).scopes if one.qualname in names]
            texts += [ast.get_source_segment(one.source.text, one.node) or "" for one in scopes if one.node is not None]
        if variable and any(re.search(rf"\b{re.escape(variable)}\b", text) for text in texts):
            return row
    return None


def _may_have_asked(opaque: Place, line: GrowthLine) -> bool:
    """By samples, it was its library that asked for the memory, or none that is known; or it is an address of any."""
    library = opaque.type_name.split(".")[0].lstrip("_")
    askers = {one.package for one in line.alive if one.bytes >= SOME * line.bytes}
    return library == "ctypes" or None in askers or not askers or any(library in asker for asker in askers if asker)


# ---- what to say


def _finding(case: Case, process: ProcessGrowth, look: _Look, through: Subject | None) -> Finding:
    line, library, cache = look.line, look.package, look.cache
    bytes = max(0, min(process.growth_bytes, look.bytes))
    function = line.function if line is not None else None
    where = f" under {function}()" if function not in (None, "<module>") else ""
    if look.asked is not None and look.asked.native_function is not None:
        where += f", in {look.asked.native_function}()"
    by = cache.name if cache is not None else library
    inside = f"inside {by}" if by else "of C or C++ code"
    inside = f"of {by} behind {through.holder}" if through is not None else inside
    left = left_behind(case.growth, process, case.sources) if cache is None else None
    frees = freed_by(case.sources, line.file, line.line) if line is not None else None
    open_ = never_ended(case.sources, line.file, line.line) if line is not None else None
    to_free = "not-freed" if frees or open_ else None
    certain = line.share * (1.0 - line.error_share) if line is not None else 0.0  # the fewer samples, the less they say
    mend = left.thing.let_go if left else _remedy(line, library, frees, open_)
    held = About(holder=f"native memory of {library}" if library else "native memory", library=library)
    if look.opaque is not None:
        held |= About(variable=look.opaque.reference.variable, type=look.opaque.type_name)
    if cache is not None:
        held |= About(holder=cache.name, library=cache.library)
    elif through is not None:
        mend = (
            f"take out of {through.holder} what is no longer needed, or bound it: {library} frees what it has for that"
        )
        held = About(holder=through.holder, variable=through.variable, path=through.path, type=through.type)
    return case.finding(
        _KIND,
        f"Memory {inside} grows{where}: {format_bytes(bytes)} that no Python object "
        f"{'holds' if through is None else 'shows'}",
        grounds=[
            Ground("an allocator handed it out, and no object that was found explains it", NEUTRAL),
            Ground(f"{line.share:.0%} of it was seen under one line", graded(certain, NEUTRAL, SURE)) if line else None,
            Ground("of the objects a part was read: others may hold it", AGAINST) if is_partly_read(process) else None,
        ],
        bytes=bytes,
        process=process,
        line=left.line if left is not None else open_.line if open_ is not None else line,
        evidence=_evidence(case, process, look),
        doubts=_doubts(case, process, look),
        remedy=cache.remedy if cache is not None else [mend],
        mechanism=cache.mechanism if cache is not None else "library-registry" if left else to_free,
        **held,
        series=[curve("memory allocated by malloc", *series(process.rows("sentinels"), "malloc_in_use_bytes"))],
    )


def _remedy(line: GrowthLine | None, library: str | None, frees: str | None, open_: Unended | None) -> str:
    if open_ is not None:
        return NOT_ENDED.format(one=open_)
    if line is not None and frees is not None:
        return f"give what is made at {line.place} to {frees}() once it is done with: it is the program's to free"
    first = line.alive[0] if line is not None and line.alive else None
    if first is not None and first.package and not installed(first.native_library or ""):
        made = f"{first.native_function}() of {library}" if first.native_function else library
        return f"see that what {made} makes is given back to it: {library} is a library of the program's own"
    if library:
        fixes = f"check whether a newer {library} fixes this or has a setting that limits it"
        return f"{fixes}; otherwise call it in a process that ends"
    name = line.place if line is not None else "C code"
    return f"make sure that what {name} allocates is freed: Python does not free what C code allocated"


def _evidence(case: Case, process: ProcessGrowth, look: _Look) -> Iterator[Evidence]:
    blocks, asked, cache = look.blocks, look.asked, look.cache
    if blocks is not None:
        curves = (blocks.in_use_bytes, blocks.object_bytes)
        in_use, objects = (f"{format_bytes(one[0])} → {format_bytes(one[-1])}" for one in curves)
        figures = dict(zip(("block_bytes", "object_bytes"), (round(float(one[-1] - one[0])) for one in curves)))
        yield Evidence(f"blocks in use of Python's own allocator: {in_use}; of them objects: {objects}", figures)
    else:
        accounts = ("python-objects", "arrays", "tensors")
        figures = {account: growth_of(case.ledger, account, process.label) for account in accounts}
        text = f"malloc allocated {format_bytes(look.native_bytes)} more than Python objects, arrays and tensors "
        text += f"explain, which together {changed(sum(figures.values()))}"
        yield Evidence(text, {"native_bytes": look.native_bytes, **figures})
    if cache is not None and cache.leaves_free and look.outside_bytes:
        text = f"{format_bytes(look.outside_bytes)} more is free but fragmented around live allocations"
        yield Evidence(text, {"allocator_free_bytes": look.outside_bytes})
    yield from (grew_at(line) for line in look.lines if line is look.line or line.share >= SOME)
    if not look.lines and asked is not None:
        who = asked.native_stack.replace("\n", " < ")
        samples = f"based on {asked.sample_count:,} samples"
        text = f"most of what stays was allocated outside the program's functions, {samples}"
        yield Evidence(f"{text}: {who}", {"samples": asked.sample_count})
    if cache is not None:
        yield cache.evidence


def _doubts(case: Case, process: ProcessGrowth, look: _Look) -> Iterator[str]:
    frozen = frozen_in(process, case.growth)
    if frozen is not None:
        count = format_count(frozen.gained_count)
        yield f"gc.freeze() hid {count} more objects from the collector: their cycles may hold part of it"
    if look.line is not None:
        if look.line.share < MOST:
            yield "it was allocated under several lines: this line has the largest part, but less than half"
    elif look.asked is not None:
        yield "no function of the program's was on the stack: a thread of the library's allocates it"
    elif len(process.rows("allocation_stacks")):
        yield "no line was seen to allocate it: a library asked for it past malloc, or many lines did"
    else:
        unseen = "the line was not observed, since allocations were not sampled"
        yield f"{unseen} (--no-sampling, or see the blind spots)"
    if look.cache is not None and look.cache.is_bounded:
        yield "a cache stops growing once it is full"


# ---- caches inside libraries that are known to grow, recognised by what only they show in a recording


_MOST_ALIKE = 0.7  # of the snapshots have an input of a shape seen before: shapes repeat
_LOADED, _LAST_IMMORTAL = re.compile(r"Python 3\.12\.(\d+)"), 4  # CPython 113993
_OWN_KERNELS = ("bfloat16", "float16")  # oneDNN also multiplies matrices of these types; MKL those of float32


@dataclass(frozen=True)
class Cache:
    """``leaves_free``: what it drops lies between what it keeps, so malloc cannot give it back."""

    name: str
    library: str
    evidence: Evidence
    remedy: Sequence[str]
    is_bounded: bool
    leaves_free: bool = False
    mechanism: str = "native-cache"


def known_cache(case: Case, process: ProcessGrowth, native_bytes: int, line: GrowthLine | None) -> Cache | None:
    """The cache that the growth fits, if the recording speaks for one."""
    named = _interned(case, process, line) or _arrow(case, process, native_bytes)
    if named is not None or (line is not None and line.library not in (None, "torch")):
        return named
    return _kernel_cache(process)


def arrow_pool_bytes(case: Case, process: ProcessGrowth) -> float:
    """What Arrow's memory pool handed out more in the judged window; it may have an allocator of its own."""
    return case.gained(process, "native_cache_bytes") or 0.0


def _interned(case: Case, process: ProcessGrowth, line: GrowthLine | None) -> Cache | None:
    """Strings that the interpreter interned for good: most of the blocks that came into use are such."""
    strings, blocks = (case.gained(process, column) or 0.0 for column in ("interned_count", "allocated_blocks"))
    loaded = _LOADED.search(" ".join(process.rows("agent_notes")["text"].dropna()))
    if strings < MOST * blocks or blocks <= 0 or loaded is None or int(loaded.group(1)) > _LAST_IMMORTAL:
        return None
    by = f" by {line.library}" if line is not None and line.library else ""
    text = f"the interpreter interned {format_count(strings)} more strings{by}, and {loaded.group()} frees none of them"
    remedy = [
        "run it on Python 3.12.5, 3.13 or later, or 3.11: in 3.12.0 to 3.12.4 an interned string stays until the "
        "process ends, and each new key of a dict that is decoded may be one"
    ]
    figures = {"interned_count": round(strings), "allocated_blocks": round(blocks)}
    library = line.library if line is not None and line.library else "python"
    name = "the interpreter's interned strings"
    return Cache(name, library, Evidence(text, figures), remedy, False, mechanism="interned-strings")


def _arrow(case: Case, process: ProcessGrowth, native_bytes: int) -> Cache | None:
    gained = arrow_pool_bytes(case, process)
    if gained < max(1.0, MOST * native_bytes):
        return None
    text = f"Arrow's memory pool allocated {format_bytes(gained)} more"
    remedy = ["drop Arrow tables and batches that are no longer needed, or write them out in smaller pieces"]
    return Cache("Arrow's memory pool", "pyarrow", Evidence(text, {"pool_bytes": round(gained)}), remedy, False)


def _kernel_cache(process: ProcessGrowth) -> Cache | None:
    """oneDNN's, where inputs of ever new shapes meet a model that it computes: it builds kernels for each shape."""
    takes = process.rows("takes")
    tensors = without_last(process.rows("tensors"), takes)
    inputs = only(
        tensors,
        tensors["tensor_owner"].isin(("batch", "user-held"))
        & (tensors["moment"].fillna("") != "backward")
        & tensors["dtype"].map(lambda dtype: "float" in (dtype or ""))
        & (tensors["device"] == "cpu")
        & tensors["shape"].notna(),
    )
    largest = dict(cells(inputs.sort_values("storage_bytes"), "take", "shape"))  # the last of each
    distinct = len({*largest.values()})
    if len(largest) < FEWEST or distinct < _MOST_ALIKE * len(largest):
        return None
    if not _computed_by_onednn(process.rows("weights")):
        return None
    seen = {"takes": len(largest), "distinct_shapes": distinct}
    text = f"{len(largest)} snapshots saw inputs of {distinct} shapes, and oneDNN keeps kernels for each shape"
    remedy = ["set ONEDNN_PRIMITIVE_CACHE_CAPACITY (1,024 by default) to a few, or pad inputs to a few sizes"]
    return Cache("oneDNN's kernel cache", "torch", Evidence(text, seen), remedy, True, leaves_free=True)


def _computed_by_onednn(weights: Rows) -> bool:
    """A convolution, by a weight of three dimensions or more, or a type that only oneDNN multiplies on a CPU."""
    weights = only(weights, weights["device"] == "cpu")
    is_convolution = weights["shape"].map(lambda shape: (shape or "").count("x") >= 2)
    return bool((is_convolution | weights["dtype"].isin(_OWN_KERNELS)).any())
