"""The bill: what the memory of a job is, at its level and at its peak, in rows that add up to what the kernel counted.

A snapshot says what Python objects hold, and malloc what it handed out; what both do not explain is *not measured*, and
never left out. Where they say more than there was, the least certain rows give first: pages that nobody wrote to are
none. Of a fork the kernel alone is asked: it looks like its parent from inside, and holds little of its own.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from ...findings import AGENT, LEVEL, PEAK, Bill, BillRow, Peak
from ...units import MOST, MiB
from ..growth.processes import ProcessGrowth
from ..growth.tree import TreeGrowth
from ..heap.graph import graph_places
from ..heap.place import MODULE_DICTS, Place
from ..heap.tree import as_people_see_it
from ..series.arithmetic import Floats, level_at
from ..tables import AT_EXIT, cells, figures, only, reasons_of, records, series
from .tensors import OWNERS

if TYPE_CHECKING:
    from ...storage import Recording

DATA, LIBRARIES, CODE, FILES, SHARED = "data", "libraries", "code", "mapped-files", "shared-memory"
NATIVE, FREE, WORKERS, INHERITED, OURS = "native", "allocator-free", "workers", "workers-shared", "leakscope"
SINCE, UNMEASURED = "since-snapshot", "not-measured"
_USER_HELD = "user-held"
_TENSORS, MODEL = "tensors", "model"  # tensors: of which nobody was asked what they are for
_MOST_ENTERED = 4  # processes that are divided, the largest; others are one row each for a role
_PARTED_SHARE = 0.10  # of its process: what holds more is told with its parts
_LEAST_SHARE = 0.01  # of its process: less is told with others like it
_LEAST_BYTES = MiB
_MOST_PARTS, _MOST_DEPTH = 12, 6
_PASSES_ON = 0.9  # of its bytes, to one alone: a step on the way to what holds them
_LIBRARY_FILE = re.compile(r"\.so(\.|$)|/s?bin/|/ld-|\.(pyc|py|mo|dat)$|gconv|locale")
_NEAR_S = 2.0  # a sentinel that far from a moment was read in it
_STAYS = 0.9  # of what was held in a snapshot: with less afterwards it was a peak


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
    is_sampled: bool


def bills(
    recording: Recording, growth: TreeGrowth, roles: Mapping[tuple[int, int], str], highest: Peak | None
) -> list[Bill]:
    """At the level (the last snapshot that saw the job at work, and no peak; else the middle of what was judged) and
    at the peak.

    ``roles``: of processes by pid and start ticks. ``highest``: the most that the job held, which no sample may show.
    Empty without a sample of memory.
    """
    if not growth.processes or not growth.held_bytes.size:
        return []
    main = max(growth.processes, key=lambda p: float(p.held_bytes.max()))
    peak_s = float(growth.time_s[int(np.argmax(growth.held_bytes))])
    looked = [look.time_s for look in _looks(recording, main)]
    level_s = next((time_s for time_s in reversed(looked) if not _is_above_level(growth, time_s)), None)
    level_s = level_s if level_s is not None else looked[-1] if looked else (growth.start_s + growth.end_s) / 2
    level_s = float(np.clip(level_s, growth.time_s[0], growth.time_s[-1]))
    level, most = (_bill(recording, growth, roles, moment, at_s) for moment, at_s in ((LEVEL, level_s), (PEAK, peak_s)))
    return [level, _with_what_no_sample_shows(most, growth, highest)]


def _is_above_level(growth: TreeGrowth, at_s: float) -> bool:
    """Whether the job held much more then than afterwards: what was seen came and went."""
    after = growth.held_bytes[(growth.time_s >= at_s) & (growth.time_s <= growth.end_s)]
    return bool(after.size) and float(np.median(after)) < _STAYS * _right_then(growth.time_s, growth.held_bytes, at_s)


def _with_what_no_sample_shows(bill: Bill, growth: TreeGrowth, highest: Peak | None) -> Bill:
    """The kernel remembers the most that a process held, and not when: it came and went between two samples."""
    more = highest.bytes - int(growth.held_bytes.max()) if highest is not None and highest.between_samples else 0
    if highest is None or more <= 0:
        return bill
    who = highest.process or "a process"
    row = BillRow(SINCE, f"came and went between two samples, by {who}", more, who)
    return replace(bill, total_bytes=bill.total_bytes + more, rows=[*bill.rows, row])


def _bill(
    recording: Recording,
    growth: TreeGrowth,
    roles: Mapping[tuple[int, int], str],
    moment: str,
    at_s: float,
) -> Bill:
    alive = [p for p in growth.processes if p.time_s[0] - _NEAR_S <= at_s <= p.time_s[-1] + _NEAR_S]
    alive.sort(key=lambda p: -_READ[moment](p.time_s, p.held_bytes, at_s))
    rows: list[BillRow] = []
    looked_s: float | None = None
    others: list[ProcessGrowth] = []
    entered = 0
    for process in alive:
        looks = _looks(recording, process) if not process.is_fork else []
        if (looks or entered == 0) and entered < _MOST_ENTERED and not process.is_fork:
            look = min(looks, key=lambda one: abs(one.time_s - at_s), default=None)
            rows += _of_process(recording, process, look, at_s, _READ[moment])
            looked_s = look.time_s if look is not None and looked_s is None else looked_s
            entered += 1
        else:
            others.append(process)
    rows += _of_others(others, roles, at_s, _READ[moment])
    total = sum(row.bytes for row in rows)
    return Bill(moment, round(at_s, 2), total, None if looked_s is None else round(looked_s, 2), rows)


# ---- what a process told


def _looks(recording: Recording, process: ProcessGrowth) -> list[_Inside]:
    """Its snapshots of the heap at work, in time; such as are estimated (members stood for others) if most are."""
    takes, graphs = process.rows("takes"), process.rows("heap_graphs")
    if not len(takes) or not len(graphs):
        return []
    at_exit = {take for (take,), why in zip(cells(takes, "take"), reasons_of(takes)) if why == AT_EXIT}
    malloc = dict(cells(takes, "take", "malloc_in_use_bytes"))
    told = (_inside(row, malloc.get(row["take"])) for row in records(graphs) if row["take"] not in at_exit)
    found = [one for one in told if one is not None]
    whole = [one for one in found if not one.is_sampled]
    return whole if len(whole) >= MOST * len(found) else found


def _inside(row: Mapping[str, Any], malloc: Any) -> _Inside | None:
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
        is_sampled=bool(row["is_sampled"]),
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
        return _some([*certain, BillRow(NATIVE, "handed out by malloc", round(native), name, estimated=True), rest])
    then = min(private, level_at(process.time_s, process.private_bytes, look.time_s) or private)
    rows = _at_snapshot(recording, process, look, then)
    if private > then:
        rows.append(_came_since(process, look.time_s, at_s, private - then))
    return _some([*certain, *rows])


def _at_snapshot(recording: Recording, process: ProcessGrowth, look: _Inside, private: float) -> list[BillRow]:
    """What its private memory was: rows that add up to it."""
    name = process.label
    holders, models, of_users, ours = _holders(recording, process, look, private)
    data = sum(row.bytes for row in holders)
    tensors = _tensors(process, look)
    # Of the user's own tensors those in no row of a holder; without anybody asked of, all that is not told there.
    known = sum(tensors.values())
    in_rows = sum(_of_tensors(row) for row in holders)
    tensors[_USER_HELD] = max(0.0, tensors.get(_USER_HELD, 0.0) - in_rows)
    if not known:
        tensors[_TENSORS] = max(0.0, look.tensors - in_rows)
    # Without what tensors have, and what C code of libraries has: of that malloc knows more than the samples.
    of_libraries = max(0.0, look.native - of_users)
    plain = max(0.0, look.python - look.tensors - of_libraries)
    libraries = max(0.0, plain - (data - in_rows) - ours) + max(0.0, look.blocks - look.small)
    in_arenas = max(look.blocks, look.small)
    of_malloc = max(0.0, plain - look.small) + max(known, look.tensors)
    native = max(0.0, (look.malloc or 0.0) - of_malloc)
    kept = max(0.0, look.arenas - in_arenas)
    levels: dict[str, float] = {LIBRARIES: libraries, OURS: ours, **tensors}
    rows = [*holders, *(BillRow(account, account, round(size), name, True) for account, size in levels.items())]
    rows = [_with_models(row, models) if row.account in (MODEL, _TENSORS) else row for row in rows]
    native, rows = _cut(rows, native, private - kept)
    rest = max(0.0, private - kept - native - sum(row.bytes for row in rows))
    free = min(rest, _sentinel(process, "malloc_free_bytes", look.time_s) or 0.0)
    mapped = min(rest - free, max(0.0, of_libraries - native))  # what C code took from the kernel itself
    native, rest = native + mapped, rest - free - mapped
    rows = [replace(row, name=_NAMES.get(row.account, row.name)) for row in rows if row.bytes]
    return [
        *_of_user(rows),
        BillRow(NATIVE, "native memory of libraries", round(native), name, True),
        BillRow(FREE, "freed, kept by the allocator", round(free + kept), name),
        BillRow(UNMEASURED, "not measured (stacks, written pages of libraries)", round(rest), name),
    ]


_NAMES = {
    LIBRARIES: "objects of the interpreter and of libraries",
    OURS: "leakscope's own",
    _TENSORS: "tensors, of which it is not known what they are for",
    _USER_HELD: "tensors of yours that no holder was named for",
    "other-tensors": "other tensors",
}


def _cut(rows: list[BillRow], native: float, most: float) -> tuple[float, list[BillRow]]:
    """No more than there was: what malloc handed out and nobody has written to is none."""
    too_much = native + sum(row.bytes for row in rows) - most
    if too_much <= 0:
        return native, rows
    native, too_much = native - min(native, too_much), too_much - min(native, too_much)
    said = sum(row.bytes for row in rows)
    return native, [_scaled(row, 1 - too_much / said) for row in rows] if too_much > 0 and said else rows


def _scaled(row: BillRow, factor: float) -> BillRow:
    parts = [_scaled(part, factor) for part in row.parts]
    return replace(row, bytes=max(0, round(row.bytes * factor)), parts=parts)


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


def _some(rows: Iterable[BillRow]) -> list[BillRow]:
    return [row for row in rows if row.bytes]


def _of_files(process: ProcessGrowth, file: float, at_s: float) -> list[BillRow]:
    """Pages of mapped files: code of libraries, and data."""
    maps = process.rows("memory_maps")
    maps = only(maps, (maps["map_kind"] == "file") & maps["map_pss_bytes"].notna())
    rows: list[BillRow] = []
    if len(maps):
        times = figures(maps, "time_s")  # each map has its own: to read them all takes a moment
        maps = only(maps, abs(times - times[int(np.argmin(abs(times - at_s)))]) < _NEAR_S / 4)
        told = [(path, float(size)) for path, size in cells(maps, "map_path", "map_pss_bytes") if path is not None]
        whole = sum(size for _, size in told)
        data = [(path, size) for path, size in told if not _LIBRARY_FILE.search(path)]
        data = [(path, size * min(1.0, file / whole)) for path, size in data if whole and size >= _LEAST_BYTES]
        rows = [
            BillRow(FILES, path.rpartition("/")[2], round(size), process.label)
            for path, size in sorted(data, key=lambda one: -one[1])[:_MOST_PARTS]
        ]
    mapped = sum(row.bytes for row in rows)
    code = BillRow(CODE, "code and data of libraries' files", round(file) - mapped, process.label)
    if not rows:
        return [code]
    return [code, BillRow(FILES, "mapped files", mapped, process.label, parts=rows)]


def _tensors(process: ProcessGrowth, look: _Inside) -> dict[str, float]:
    """Bytes of the tensors in memory by what they are for; empty where nobody was asked."""
    rows = process.rows("tensors")
    rows = only(rows, (rows["take"] == look.take) & (rows["moment"] == "take"))
    rows = only(rows, rows["node"].isna() & (rows["device"] == "cpu"))
    found: dict[str, float] = {}
    for owner, size in cells(rows, "tensor_owner", "storage_bytes") if len(rows) else ():
        account = OWNERS.get(str(owner), "other-tensors")
        found[account] = found.get(account, 0.0) + float(size or 0)
    return found


def _sentinel(process: ProcessGrowth, column: str, at_s: float) -> float | None:
    time_s, values = series(process.rows("sentinels"), column)
    if not time_s.size or at_s < time_s[0] - _NEAR_S:
        return None
    return float(np.interp(at_s, time_s, values))


# ---- holders


def _holders(
    recording: Recording, process: ProcessGrowth, look: _Inside, private: float
) -> tuple[list[BillRow], list[BillRow], float, float]:
    """(what each variable of the user's holds, without tensors of a model; the models; how much of it C code has;
    bytes of leakscope's own).
    """
    places = as_people_see_it(graph_places(recording, process.pid, [look.take], by_holder=True))
    tensors = process.rows("tensors")
    tensors = only(tensors, (tensors["take"] == look.take) & (tensors["moment"] == "take") & tensors["node"].notna())
    of_node = (
        {int(node): float(size or 0) for node, size in cells(tensors, "node", "storage_bytes")} if len(tensors) else {}
    )
    told = _Told(process.label, private, of_node, bool(_tensors(process, look)))
    tops = [place for root in places if root.parent is None for place in _of_the_user(root)]
    rows = _alike(told.row(place, 0) for place in tops)
    large = [row for row in rows if row.bytes >= max(_LEAST_BYTES, _LEAST_SHARE * private)]
    rest = sum(row.bytes for row in rows) - sum(row.bytes for row in large)
    if rest > 0:
        large.append(BillRow(DATA, "smaller variables", round(rest), process.label, True))
    models = [one for place in tops for one in told.models(place)]
    native = sum(float(place.native_bytes[-1]) for place in tops)
    return large, models, native, _of_agent(process, look)


def _of_the_user(place: Place) -> list[Place]:
    """The topmost places of the user's in it: below a running function or a module its variables.

    What no more than a running call refers to is the user's as well: somebody made it, and waits for it.
    """
    if place.is_user and place.type_name not in ("frame", "module"):
        return [place]
    found = [one for child in place.children for one in _of_the_user(child)]
    is_in_call = place.parent is None and place.root_kind == "frame" and place.type_name != "frame"
    return found or ([place] if is_in_call else [])


def _known_as(place: Place) -> Place:
    """What a person calls it: of a block of a table that two tables have, a table."""
    inside = set(map(id, _up(place.parent)))
    for at in _up(place, "named_by"):
        if id(at) in inside:
            break
        if at.is_user and at.reference.names_it:
            return at
    return place


def _up(place: Place | None, way: str = "parent") -> Iterator[Place]:
    while place is not None:
        yield place
        place = getattr(place, way)


def _of_agent(process: ProcessGrowth, look: _Inside) -> float:
    """What our own agent holds in there."""
    nodes = process.rows("heap_nodes")
    nodes = only(nodes, (nodes["take"] == look.take) & nodes["type_name"].str.startswith(f"{AGENT}.").fillna(False))
    return float(nodes["retained_bytes"].max()) if len(nodes) else 0.0


@dataclass(frozen=True)
class _Told:
    """How places are told: with what ``of_node`` says of tensors that are the user's own, by their objects' numbers."""

    process: str
    private: float
    of_node: Mapping[int, float]
    is_asked: bool  # torch, what its tensors are for

    def row(self, place: Place, depth: int) -> BillRow:
        carrier = _carrier(place)
        size = self._bytes(place)
        parts = self._parts(carrier, size, depth) if size > _PARTED_SHARE * self.private and depth < _MOST_DEPTH else []
        known = _known_as(carrier)
        return BillRow(
            DATA, known.said, round(size), self.process, True, round(float(place.error_bytes[-1])) or None,
            known.type_name or None, round(float(carrier.length[-1])) if carrier.has_length else None,
            round(self._own_tensors(place)), parts,
        )  # fmt: skip

    def _parts(self, place: Place, size: float, depth: int) -> list[BillRow]:
        rows = _alike(self.row(child, depth + 1) for child in place.children)
        own = sum(self.of_node.get(number, 0.0) for number in place.numbers) if self.is_asked else 0.0
        members = [row for row in rows if row.name == f"{place.said}[*]"]
        if own and members:  # the tensors of members are told of their container
            rows[rows.index(members[0])] = replace(
                members[0], bytes=members[0].bytes + round(own), tensor_bytes=members[0].tensor_bytes + round(own)
            )
        rows = [row for row in rows if row.bytes >= _LEAST_SHARE * self.private][:_MOST_PARTS]
        if len(rows) == 1 and rows[0].bytes >= _PASSES_ON * size and not rows[0].name.endswith("[*]"):
            rows = list(rows[0].parts)  # how a library keeps it inside says nothing
        rest = round(size) - sum(row.bytes for row in rows)
        if not rows or rest < 0:
            return []
        return [*rows, BillRow(DATA, f"the rest of {place.said}", rest, self.process, True)] if rest else rows

    def _bytes(self, place: Place) -> float:
        """What it holds but the tensors of models and of their training, which are accounts of their own."""
        return max(0.0, float(place.deep_bytes[-1] - place.tensor_bytes[-1])) + self._own_tensors(place)

    def _own_tensors(self, place: Place) -> float:
        if not self.is_asked:
            return 0.0 if _is_model(place) else float(place.tensor_bytes[-1])
        return self._asked(place)

    def _asked(self, place: Place) -> float:
        own = sum(self.of_node.get(number, 0.0) for number in place.numbers)
        return own + sum(self._asked(child) for child in place.children)

    def models(self, place: Place) -> list[BillRow]:
        """The outermost models in it, with their tensors and gradients."""
        size = float(place.tensor_bytes[-1]) - self._own_tensors(place)
        if size < _LEAST_SHARE * self.private:
            return []
        if _is_model(place):
            return [BillRow(MODEL, place.said, round(size), self.process, True, type=place.type_name)]
        return [one for child in place.children for one in self.models(child)]


def _with_models(row: BillRow, models: Sequence[BillRow]) -> BillRow:
    """Which models these tensors are of, if that is all of them: gradients hang on a model as well."""
    said = sum(model.bytes for model in models)
    if not said or said < MOST * row.bytes:
        return row
    parts = [_scaled(model, min(1.0, row.bytes / said)) for model in models]
    rest = row.bytes - sum(part.bytes for part in parts)
    if rest > 0:
        parts.append(BillRow(row.account, "others", rest, row.process, True))
    return replace(row, parts=parts)


def _is_model(place: Place) -> bool:
    return any(child.reference.variable in MODULE_DICTS for child in place.children)


def _carrier(place: Place) -> Place:
    """From an object to the one of the user's that has nearly all of what it holds."""
    named = at = place
    while True:
        most = [c for c in at.children if c.deep_bytes[-1] >= _PASSES_ON * at.deep_bytes[-1] > 0 and c.count[-1] == 1]
        if len(most) != 1:
            return named
        at = most[0]
        if at.is_user:
            named = at


def _alike(rows: Iterable[BillRow]) -> list[BillRow]:
    """The largest first; those of one name and type together: parts of a list of models."""
    found: dict[tuple[str, str | None], BillRow] = {}
    for row in rows:
        key = row.name, row.type
        known = found.get(key)
        found[key] = (
            row
            if known is None
            else replace(
                known, bytes=known.bytes + row.bytes, tensor_bytes=known.tensor_bytes + row.tensor_bytes, parts=()
            )
        )
    return sorted(found.values(), key=lambda row: -row.bytes)


def _of_tensors(row: BillRow) -> float:
    return float(row.tensor_bytes)


# ---- what no snapshot saw


def _came_since(process: ProcessGrowth, since_s: float, at_s: float, size: float) -> BillRow:
    """What came between a snapshot and the moment, by who asked for it."""
    name = "more than in the snapshot" if at_s >= since_s else "gone before the snapshot"
    line = _asked_at(process, at_s)
    if line is not None:
        name += f", asked for in {line[0]}"
    file, number = (line[1], line[2]) if line is not None else (None, None)
    return BillRow(SINCE, name, round(size), process.label, True, file=file, line=number)


def _asked_at(process: ProcessGrowth, at_s: float) -> tuple[str, str, int] | None:
    """(function, file, line) of who asked for most round a moment, beyond what it asks for all the time.

    By sampled allocations, which are told every few seconds: between the telling before it and the one after.
    """
    rows = process.rows("allocation_stacks")
    rows = only(rows, rows["owner_file"].notna() & rows["owner_line"].notna())
    times = np.unique(figures(rows, "time_s")) if len(rows) else np.empty(0)
    if not times.size:
        return None
    asked: dict[tuple[str, str, int], Any] = {}
    at = {time_s: i for i, time_s in enumerate(times.tolist())}
    columns = ("time_s", "function", "owner_file", "owner_line", "asked_bytes")
    for time_s, function, file, line, size in cells(rows, *columns):
        key = str(function), str(file), int(line)
        asked.setdefault(key, np.zeros(times.size))[at[time_s]] += float(size or 0)
    i = min(int(np.searchsorted(times, at_s)), times.size - 1)
    beyond: dict[tuple[str, str, int], float] = {}
    for key, sums in asked.items():
        each = np.diff(np.maximum.accumulate(sums), prepend=0.0)
        others = np.delete(each, i)
        beyond[key] = float(each[i] - (np.median(others) if others.size > 1 else 0.0))
    best = max(beyond, key=lambda key: beyond[key])
    return best if beyond[best] > 0 else None


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
        private = sum(read(p.time_s, p.private_bytes, at_s) for p in members)
        shared = sum(read(p.time_s, p.shared_bytes + p.file_bytes, at_s) for p in members)
        who = f"{len(members)} × {name}" if len(members) > 1 else members[0].label
        label = f"{who} ({role})" if role else who
        rows.append(BillRow(WORKERS, f"{label}, their own", round(private), label, count=len(members)))
        rows.append(BillRow(INHERITED, f"{label}, shared memory and files", round(shared), label, count=len(members)))
    return _some(sorted(rows, key=lambda row: -row.bytes))
