"""The bill: what the memory of a job is, at its level and at its peak, in rows that add up to what the kernel counted.

A snapshot says what Python objects hold, and malloc what it handed out; what both do not explain is *not measured*, and
never left out. Where they say more than there was, the least certain rows give first: pages that nobody wrote to are
none. Of a fork the kernel alone is asked: it looks like its parent from inside, and holds little of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from ...findings import DATA, LEVEL, PEAK, Bill, BillRow, Peak
from ...schema import ROLES
from ...storage import Recording, Rows
from ...units import FULL, MOST, SOME, SOON_S
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from ..series.arithmetic import Floats, level_at
from ..series.trend import GROWING
from ..tables import AT_EXIT, cells, figures, only, records, series
from ..where.allocations import TABLE, package_of
from ..where.progress import Had, came_with, kept_since
from .holdings import LEAST_BYTES, MODEL, MOST_PARTS, USER_HELD, holdings, scaled, with_models
from .tensors import MOST_PROCESSES

LIBRARIES, CODE, FILES, SHARED = "libraries", "code", "mapped-files", "shared-memory"
NATIVE, FREE, WORKERS, INHERITED, OURS = "native", "allocator-free", "workers", "workers-shared", "leakscope"
SINCE, UNMEASURED = "since-snapshot", "not-measured"
ARROW_POOL = "pyarrow's memory pool"
_ARROW, _OTHERS = "pyarrow", "others"  # packages with an allocator of their own
_TENSORS = "tensors"  # tensors: of which nobody was asked what they are for
_LIBRARY_FILE = re.compile(r"\.so(\.|$)|/s?bin/|/ld-|\.(pyc|py|mo|dat)$|gconv|locale")
_SOMEBODY = "a process"  # which of several is not known
_NEAR_S = SOON_S  # a sentinel that far from a moment was read in it
_STAYS = FULL  # of what was held in a snapshot: with less afterwards it was a peak


_Read = Callable[[Floats, Floats, float], float]


def _right_then(time_s: Floats, value_bytes: Floats, at_s: float) -> float:
    return float(np.interp(at_s, time_s, value_bytes))


_READ: dict[str, _Read] = {LEVEL: level_at, PEAK: _right_then}  # what goes on for a while; what came and went


@dataclass(frozen=True)
class _Inside:
    """What a process told of itself. **Units** bytes; None: nobody read it.

    ``python``: with what tensors have; ``malloc``: handed out; ``small``: of Python's objects those in its own arenas.
    """

    take: int
    time_s: float
    python: float
    tensors: float
    small: float
    arenas: float
    blocks: float
    malloc: float | None
    native: float  # of python: memory of C code to which objects lead, as sampled allocations found it
    elsewhere: float  # of python: arrays and columns that malloc did not hand out
    pools: float  # resident of mappings in which such columns lie
    is_sampled: bool
    knows_tensors: bool  # what they have was weighed, or there can be none


def bills(
    recording: Recording, growth: TreeGrowth, roles: Mapping[tuple[int, int], str], highest: Peak | None
) -> list[Bill]:
    """At the level (the last snapshot that saw the job at work, and no peak, or later, where it then rose for good;
    else the middle of what was judged) and at the peak.

    ``roles``: of processes by pid and start ticks. ``highest``: the most that the job held, which no sample may show.
    Empty without a sample of memory.
    """
    main = growth.largest
    if main is None or not growth.held_bytes.size:
        return []
    peak_s = float(growth.time_s[int(np.argmax(growth.held_bytes))])
    if highest is not None and highest.since_s is not None:
        peak_s = float(np.clip(highest.since_s, growth.time_s[0], growth.time_s[-1]))
    looked = [look.time_s for look in _looks(main)]
    level_s = next(reversed(levels_s(growth)), looked[-1] if looked else (growth.start_s + growth.end_s) / 2)
    level_s = _where_it_stays(growth, float(np.clip(level_s, growth.time_s[0], growth.time_s[-1])))
    level, most = (bill(recording, growth, roles, moment, at_s) for moment, at_s in ((LEVEL, level_s), (PEAK, peak_s)))
    most = _with_what_no_sample_shows(most, growth, highest)
    asked = came_to_peak(main, peak_s, level.time_s)
    if sum(one.bytes for one in asked) >= MOST * (most.total_bytes - level.total_bytes) > 0:
        first = asked[0]
        most = replace(_with_who_asked(most, level, main, first), asked_in=first.asked_in, **_place_of(first))
    for process in growth.processes:
        names = [process.label, (highest and highest.process) or _SOMEBODY] if process is main else [process.label]
        most = _by_who_asked(most, level, process, names)
    return [level, most]


def _with_who_asked(most: Bill, level: Bill, process: ProcessGrowth, asked: Had) -> Bill:
    """Whoever made the peak is told of what no Python object held then, and only then: arrays on their way, say."""
    then = came_to_peak(process, most.snapshot_s, level.time_s)[:1] if most.snapshot_s is not None else []
    if [(one.call.file, one.call.line) for one in then] != [(asked.call.file, asked.call.line)]:
        return most
    usual = sum(row.bytes for row in level.rows if (row.account, row.process) == (NATIVE, process.label))
    rows = []
    for row in most.rows:
        more = row.bytes - usual if (row.account, row.process) == (NATIVE, process.label) else 0
        rows.append(replace(row, bytes=row.bytes - max(0, more)))
        if more > 0:
            name = f"no object had it yet, asked for in {then[0].asked_in}"
            rows.append(BillRow(SINCE, name, more, process.label, True, **_place_of(then[0])))
    return replace(most, rows=rows)


def _by_who_asked(most: Bill, level: Bill, process: ProcessGrowth, names: Sequence[str]) -> Bill:
    """What came to a peak, divided by who had asked for it; of what is known of nobody a row stays as it is.

    After a snapshot in the midst of the peak it is what was asked for last: a large piece is filled only then.
    """
    beside_s = level.time_s if most.snapshot_s is None else most.snapshot_s
    whole = sum(row.bytes for row in most.rows if _is_undivided(row, names))
    if not whole:
        return most
    then, usual = (_right_then(process.time_s, process.held_bytes, at_s) for at_s in (beside_s, level.time_s))
    in_midst = FULL * then > usual
    came = came_to_peak(process, most.time_s, level.time_s if in_midst else beside_s)
    if not came or came[0].bytes == np.inf:
        kept = kept_since(process, beside_s, most.time_s, MOST * whole)
        came = [kept] if kept is not None else came
    known = max(whole, sum(one.bytes for one in came if one.bytes < np.inf))
    if in_midst:
        asked = cells(process.rows("large_requests"), "owner_file", "owner_line", "time_s")
        last_s = {(file, line): at_s for file, line, at_s in asked}
        came = sorted(came, key=lambda one: -last_s.get((one.call.file, one.call.line), 0.0))
        known = whole
    rows = []
    for row in most.rows:
        left = row.bytes
        for one in came if _is_undivided(row, names) else ():
            part = min(left, round(row.bytes * min(1.0, one.bytes / known)))
            name = f"{row.name}, asked for in {one.asked_in}"
            rows.append(replace(row, name=name, bytes=part, estimated=True, **_place_of(one)))
            left -= part
        rows.append(replace(row, bytes=left))
    return replace(most, rows=[row for row in rows if row.bytes])


def _is_undivided(row: BillRow, names: Sequence[str]) -> bool:
    return row.account == SINCE and row.line is None and row.process in names


def levels_s(growth: TreeGrowth) -> list[float]:
    """When snapshots saw the job at work, and at no peak."""
    main = growth.largest
    looks = _looks(main) if main is not None and growth.held_bytes.size else []
    return [look.time_s for look in looks if not _is_above_level(growth, look.time_s)]


def _where_it_stays(growth: TreeGrowth, at_s: float) -> float:
    """That moment, or a later one, if the job held much more for most of the time that came after it."""
    after = (growth.time_s > at_s) & (growth.time_s <= growth.end_s)
    if not after.any():
        return at_s
    times, held = growth.time_s[after], growth.held_bytes[after]
    usual = float(np.median(held))
    if _STAYS * usual <= _right_then(growth.time_s, growth.held_bytes, at_s):
        return at_s
    return float(times[int(np.argmin(abs(held - usual)))])


def _is_above_level(growth: TreeGrowth, at_s: float) -> bool:
    """Whether the job held much more then than afterwards: what was seen came and went."""
    after = growth.held_bytes[(growth.time_s >= at_s) & (growth.time_s <= growth.end_s)]
    return bool(after.size) and float(np.median(after)) < _STAYS * _right_then(growth.time_s, growth.held_bytes, at_s)


def _with_what_no_sample_shows(most: Bill, growth: TreeGrowth, highest: Peak | None) -> Bill:
    """The kernel remembers the most that a process held: it came and went between two samples."""
    if highest is None or not highest.between_samples:
        return most
    seen = growth.held_bytes
    then = seen.max() if highest.since_s is None else _right_then(growth.time_s, seen, most.time_s)
    more = highest.bytes - int(then)
    if more <= 0:
        return most
    who = highest.process or _SOMEBODY
    row = BillRow(SINCE, f"came and went between two samples, by {who}", more, who)
    return replace(most, total_bytes=most.total_bytes + more, rows=[*most.rows, row])


def bill(
    recording: Recording, growth: TreeGrowth, roles: Mapping[tuple[int, int], str], moment: str, at_s: float
) -> Bill:
    """What the memory of a job was at a moment."""
    alive = [p for p in growth.processes if p.is_in(growth.time_s, at_s)]
    alive.sort(key=lambda p: -_READ[moment](p.time_s, p.held_bytes, at_s))
    rows: list[BillRow] = []
    looked_s: float | None = None
    others: list[ProcessGrowth] = []
    entered = 0
    for process in alive:
        looks = _looks(process) if not process.is_fork else []
        if (looks or entered == 0) and entered < MOST_PROCESSES and not process.is_fork:
            look = _nearest(looks, process, at_s)
            rows += _of_process(recording, process, look, at_s, _READ[moment])
            looked_s = look.time_s if look is not None and looked_s is None else looked_s
            entered += 1
        else:
            others.append(process)
    rows += _of_others(others, roles, at_s, _READ[moment])
    rows = [row for row in rows if row.bytes]
    total = sum(row.bytes for row in rows)
    return Bill(moment, round(at_s, 2), total, None if looked_s is None else round(looked_s, 2), rows)


# ---- what a process told


def _nearest(looks: Sequence[_Inside], process: ProcessGrowth, at_s: float) -> _Inside | None:
    """What says most of a moment: when about as much was held; where no member stood for others; what is near."""
    there = level_at(process.time_s, process.held_bytes, at_s)

    def order(look: _Inside) -> tuple[float, bool, float]:
        other = abs(level_at(process.time_s, process.held_bytes, look.time_s) - there)
        return other // max(1.0, SOME * there), look.is_sampled, abs(look.time_s - at_s)

    return min(looks, key=order, default=None)


def _looks(process: ProcessGrowth) -> list[_Inside]:
    """Its snapshots of the heap at work, in time; some are estimated (members stood for others)."""
    takes, graphs = process.rows("takes"), process.rows("heap_graphs")
    if not len(takes) or not len(graphs):
        return []
    at_exit = {take for take, reason in cells(takes, "take", "reason") if reason == AT_EXIT}
    of_take = {take: figures for take, *figures in cells(takes, "take", "malloc_in_use_bytes", "tensor_bytes")}
    told = (
        _inside(row, *of_take.get(row["take"], (None, None))) for row in records(graphs) if row["take"] not in at_exit
    )
    return [one for one in told if one is not None]


def _inside(row: Mapping[str, Any], malloc: Any, tensors_weighed: Any) -> _Inside | None:
    if row["retained_bytes"] is None or row["take"] is None:
        return None
    python, tensors = float(row["retained_bytes"]), float(row["storage_bytes"] or 0)
    blocks = float(row["block_bytes"] or 0)
    small = row["small_object_bytes"]
    of_others = float(row["array_bytes"] or 0) + tensors + float(row["native_bytes"] or 0)
    guessed = min(blocks, max(0.0, python - of_others))
    return _Inside(
        take=int(row["take"]),
        time_s=float(row["time_s"]),
        python=python,
        tensors=tensors,
        small=float(small) if small is not None else guessed,
        arenas=float(row["arena_bytes"] or 0),
        blocks=blocks,
        malloc=None if malloc is None else float(malloc),
        native=float(row["native_bytes"] or 0),
        elsewhere=float(row["beyond_malloc_bytes"] or 0),
        pools=float(row["column_pools_bytes"] or 0),
        is_sampled=bool(row["is_sampled"]),
        knows_tensors=bool(row["weighs_tensors"]) or tensors_weighed is not None,
    )


# ---- the rows of one process


def _of_process(
    recording: Recording, process: ProcessGrowth, look: _Inside | None, at_s: float, read: _Read
) -> list[BillRow]:
    private, shared, file = (
        read(process.time_s, series, at_s)
        for series in (process.private_bytes, process.shared_bytes, process.file_bytes)
    )
    name = process.label
    certain = [*_of_files(process, file, at_s), BillRow(SHARED, "shared memory", round(shared), name)]
    if look is None:
        in_use = _sentinel(process, "malloc_in_use_bytes", at_s)
        native = min(private, in_use) if in_use is not None else 0.0
        rest = BillRow(UNMEASURED, "not looked into: no snapshot of its heap", round(private - native), name)
        return [*certain, BillRow(NATIVE, "handed out by malloc", round(native), name, estimated=True), rest]
    then = min(private, level_at(process.time_s, process.private_bytes, look.time_s) or private)
    rows = _at_snapshot(recording, process, look, then)
    if private > then:
        rows.append(_came_since(process, look.time_s, at_s, private - then, read is _READ[LEVEL]))
    return [*certain, *rows]


def _at_snapshot(recording: Recording, process: ProcessGrowth, look: _Inside, private: float) -> list[BillRow]:
    """What its private memory was: rows that add up to it."""
    name = process.label
    held = holdings(recording, process, look.take, private)
    look = replace(look, python=look.python - held.view_bytes, tensors=look.tensors - held.view_bytes)
    data, ours, tensors = sum(row.bytes for row in held.rows), held.our_bytes, held.tensors
    is_asked = bool(tensors)
    # Of the user's own tensors those in no row of a holder; without anybody asked of, all that is not told there.
    known = sum(tensors.values())
    in_rows = sum(row.tensor_bytes for row in held.rows)
    tensors[USER_HELD] = max(0.0, tensors.get(USER_HELD, 0.0) - in_rows)
    if not is_asked:
        tensors[_TENSORS] = max(0.0, look.tensors - in_rows)
    # Without what tensors have, and what C code of libraries has: of that malloc knows more than the samples.
    of_libraries = max(0.0, look.native - held.native_bytes)
    plain = max(0.0, look.python - look.tensors - of_libraries)
    libraries = max(0.0, plain - (data - in_rows) - ours) + max(0.0, look.blocks - look.small)
    in_arenas = max(look.blocks, look.small)
    of_malloc = max(0.0, plain - look.small - look.elsewhere) + max(known, look.tensors)
    native = max(0.0, (look.malloc or 0.0) - of_malloc)
    kept = max(0.0, look.arenas - in_arenas)
    levels: dict[str, float] = {LIBRARIES: libraries, OURS: ours, **tensors}
    rows = [*held.rows, *(BillRow(account, account, round(size), name, True) for account, size in levels.items())]
    rows = [with_models(row, held.models) if row.account in (MODEL, _TENSORS) else row for row in rows]
    native, rows = _cut(rows, native, private - kept)
    rest = max(0.0, private - kept - native - sum(row.bytes for row in rows))
    free = {"malloc": min(rest, _sentinel(process, "malloc_free_bytes", look.time_s) or 0.0), "Python's arenas": kept}
    rest -= free["malloc"]
    mapped = min(rest, max(0.0, of_libraries - native))  # what C code took from the kernel itself
    rest -= mapped
    for size, is_free in _of_own_allocators(process, look, mapped):
        size = min(rest, size)
        rest -= size
        if is_free:
            free[ARROW_POOL] = size
        else:
            mapped += size
    written = min(rest, _written(process, look.time_s))
    rows = [replace(row, name=_NAMES.get(row.account, row.name)) for row in rows if row.bytes]
    parts = [BillRow(FREE, of, round(size), name) for of, size in free.items() if size]
    account, of = NATIVE, "native memory of libraries"
    if not look.knows_tensors:
        account, of = UNMEASURED, "tensors, which no snapshot had weighed yet, and libraries"
    return [
        *_of_user(rows),
        BillRow(account, of, round(native + mapped), name, look.knows_tensors),
        BillRow(FREE, "freed, kept by the allocator", sum(part.bytes for part in parts), name, parts=parts),
        BillRow(LIBRARIES, "pages of libraries' files that were written to", round(written), name),
        BillRow(UNMEASURED, "not measured (stacks)", round(rest - written), name),
    ]


def _of_own_allocators(process: ProcessGrowth, look: _Inside, told: float) -> Iterator[tuple[float, bool]]:
    """Of what libraries mapped for allocators of their own, what no object leads to: (bytes, is it free).

    Who mapped it was sampled; what was mapped before samples began is known by the columns that lie in it. Arrow's pool
    says what it handed out: the rest it keeps. Of others it may be in use inside them. ``told``: of it.
    """
    rows = process.rows(TABLE)
    rows = only(rows, (rows["allocator"] == "mmap") & rows["map_rss_bytes"].notna())
    times = figures(rows, "time_s")
    rows = only(rows, times == times[int(np.argmin(abs(times - look.time_s)))]) if len(rows) else rows
    pool = _sentinel(process, "native_cache_bytes", look.time_s) or 0.0
    resident: dict[str, float] = {}
    for path, size in cells(rows, "native_library", "map_rss_bytes"):
        package = package_of(path or "") or _OTHERS
        resident[package] = resident.get(package, 0.0) + float(size)
    unseen = look.pools - sum(resident.values())
    if unseen > 0:
        package = _ARROW if pool else _OTHERS
        resident[package] = resident.get(package, 0.0) + unseen
    held = look.elsewhere + told
    for package, size in sorted(resident.items(), key=lambda one: (one[0] != _ARROW, -one[1])):
        in_use = min(size, pool if package == _ARROW else held)
        held = max(0.0, held - in_use)
        yield size - in_use, package == _ARROW


def _written(process: ProcessGrowth, at_s: float) -> float:
    """Pages of mapped files that are the process's own, since it wrote to them, and the main thread's stack."""
    maps = _maps_then(process, at_s)
    files = only(maps, maps["map_kind"].isin(("file", "deleted-file", "stack")))
    return float(figures(only(files, files["map_private_dirty_bytes"].notna()), "map_private_dirty_bytes").sum())


def _maps_then(process: ProcessGrowth, at_s: float) -> Rows:
    """What its address space was, as it was read nearest to a moment."""
    maps = process.rows("memory_maps")
    if not len(maps):
        return maps
    times = figures(maps, "time_s")  # each map has its own: to read them all takes a moment
    return only(maps, abs(times - times[int(np.argmin(abs(times - at_s)))]) < _NEAR_S)


_NAMES = {
    LIBRARIES: "objects of the interpreter and of libraries",
    OURS: "leakscope's own",
    _TENSORS: "tensors, of which it is not known what they are for",
    USER_HELD: "tensors of yours that no holder was named for",
    "other-tensors": "other tensors",
}


def _cut(rows: list[BillRow], native: float, most: float) -> tuple[float, list[BillRow]]:
    """No more than there was: what malloc handed out and nobody has written to is none."""
    too_much = native + sum(row.bytes for row in rows) - most
    if too_much <= 0:
        return native, rows
    native, too_much = native - min(native, too_much), too_much - min(native, too_much)
    able = [row for row in rows if row.bytes >= too_much > 0]
    cut = able if len(able) == 1 else rows  # only one has so much: a large array that is being filled, say
    said = sum(row.bytes for row in cut)
    return native, [scaled(row, 1 - too_much / said) if said and row in cut else row for row in rows]


def _of_user(rows: Iterable[BillRow]) -> list[BillRow]:
    """What the user's variables hold is one row, with the holders as its parts."""
    told = list(rows)
    held = [row for row in told if row.account == DATA]
    others = [row for row in told if row.account != DATA]
    if not held:
        return others
    held.sort(key=lambda row: -row.bytes)
    error = float(np.sqrt(sum(float(row.error_bytes or 0) ** 2 for row in held)))
    whole = BillRow(
        DATA, "what your variables hold", sum(row.bytes for row in held), held[0].process, True,
        round(error) or None, parts=held,
    )  # fmt: skip
    return [whole, *others]


def _of_files(process: ProcessGrowth, file: float, at_s: float) -> list[BillRow]:
    """Pages of mapped files: code of libraries, and data."""
    maps = _maps_then(process, at_s)
    maps = only(maps, (maps["map_kind"] == "file") & maps["map_pss_bytes"].notna())
    rows: list[BillRow] = []
    if len(maps):
        told = [(path, float(size)) for path, size in cells(maps, "map_path", "map_pss_bytes") if path is not None]
        whole = sum(size for _, size in told)
        data = [(path, size) for path, size in told if not _LIBRARY_FILE.search(path)]
        data = [(path, size * min(1.0, file / whole)) for path, size in data if whole and size >= LEAST_BYTES]
        rows = [
            BillRow(FILES, path.rpartition("/")[2], round(size), process.label)
            for path, size in sorted(data, key=lambda one: -one[1])[:MOST_PARTS]
        ]
    mapped = sum(row.bytes for row in rows)
    code = BillRow(CODE, "code and data of libraries' files", round(file) - mapped, process.label)
    if not rows:
        return [code]
    return [code, BillRow(FILES, "mapped files", mapped, process.label, parts=rows)]


def _sentinel(process: ProcessGrowth, column: str, at_s: float) -> float | None:
    time_s, values = series(process.rows("sentinels"), column)
    if not time_s.size or at_s < time_s[0] - _NEAR_S:
        return None
    return float(np.interp(at_s, time_s, values))


# ---- what no snapshot saw


def _came_since(process: ProcessGrowth, since_s: float, at_s: float, size: float, is_level: bool) -> BillRow:
    """What came between a snapshot and the moment; at a level by who asked for it: for what stays, if most does."""
    name, asked = "came after it" if at_s >= since_s else "was gone by then", None
    if is_level:
        asked = kept_since(process, since_s, at_s, MOST * size)
        name += f", asked for in {asked.asked_in}" if asked is not None else ""
    return BillRow(SINCE, name, round(size), process.label, True, **_place_of(asked))


def came_to_peak(process: ProcessGrowth, at_s: float, beside_s: float) -> list[Had]:
    """As ``came_with``; none at the end of what goes on growing: the most there is of it is nobody's who lets go."""
    goes_on = process.trend.verdict == GROWING and at_s + _NEAR_S >= process.trend.end_s
    return [] if goes_on else came_with(process, at_s, beside_s)


def _place_of(asked: Had | None) -> dict[str, Any]:
    return {} if asked is None else {"file": asked.call.file, "line": asked.call.line}


# ---- others


def _of_others(
    others: Sequence[ProcessGrowth], roles: Mapping[tuple[int, int], str], at_s: float, read: _Read
) -> list[BillRow]:
    """Processes that are not divided: what is theirs alone, and what of files and shared memory is counted to them."""
    groups: dict[tuple[str, str], list[ProcessGrowth]] = {}
    for process in others:
        groups.setdefault((process.name, roles.get(process.key, process.role or "")), []).append(process)
    rows = []
    for (name, role), members in groups.items():
        private, shared, files = (
            sum(read(p.time_s, getattr(p, part), at_s) for p in members)
            for part in ("private_bytes", "shared_bytes", "file_bytes")
        )
        who = f"{len(members)} × {name}" if len(members) > 1 else members[0].label
        label = f"{who} ({ROLES.get(role, role)})" if role else who
        rows.append(BillRow(WORKERS, f"{label}, their own", round(private), label, count=len(members)))
        rows.append(BillRow(INHERITED, f"{label}, shared memory", round(shared), label, count=len(members)))
        rows.append(BillRow(CODE, f"{label}, mapped files", round(files), label, count=len(members)))
    return sorted(rows, key=lambda row: -row.bytes)
