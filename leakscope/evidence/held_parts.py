"""Of what a name holds, parts that could go: nothing reads them, nobody shows them, others in it repeat them.

What a list has before its newest members, fields that no line reads, graphs that no backward pass uses, what slices
keep of arrays, results that a cache never gave out, what cells returned; what objects of a library keep that they
were handed; texts that equal others, padding, windows of one series.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from ..facts.case import Case
from ..facts.code.adding import Line, adding_lines
from ..facts.code.backward import goes_back_through
from ..facts.code.fields import unread_fields
from ..facts.code.names import Holder
from ..facts.code.statements import latest_read
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.comparable import Heap
from ..facts.heap.place import GRAPH_TYPE, TRACEBACK, Place, upwards
from ..facts.heap.standing import field_of
from ..facts.tables import cells, only, without_last
from ..facts.where.holders import KNOWN_ADDER, OUT
from ..findings import Finding
from ..storage import Rows
from ..units import HARDLY, MOST, MUCH, NEARLY_ALL, SLIGHT, format_bytes, format_count
from .cell_results import unread_results
from .mechanisms import KEEP_TEXT
from .sentences import listed

_GOES_BACK_AGAIN = ("retain_graph", "create_graph", "autograd.grad")  # through one graph
_READS_FRAMES = ("tb_frame", "f_locals", "capture_locals", "post_mortem", "inspect.trace", "getinnerframes")
_STAYS = ("global", "attribute", "class-attribute", "cell")  # names that last beyond a call
LEAST_IDLE = SLIGHT  # of one of several


class Part(NamedTuple):
    """Of what a name holds, a part that nothing reads. ``what`` goes on from the bytes: ``in members before …``."""

    place: Place
    bytes: int
    what: str
    ground: str
    evidence: str
    remedy: str
    mechanism: str
    each: tuple[str | None, float]
    name: str = ""  # where the place has none to be told by
    line: Line | None = None
    doubt: str = "code that reads it under another name, or from C, would not be seen"


def parts_of(
    case: Case, process: ProcessGrowth, heap: Heap, told: Sequence[Finding], held: Sequence[Place]
) -> list[Part]:
    """The largest first."""
    asked = [place for place in held if place.reference.variable and not is_told(place, told)]
    around = [place for place in containers(asked) if place not in asked and not is_told(place, told)]
    found = [*_older(case, asked), *_unread_members(case, [*asked, *around]), *_views(asked)]
    found += [*_kept_graphs(case, asked), *_never_hit([*asked, *around])]
    economies = (*_equal_texts(case, process, heap), *_of_rows(process, heap), *_by_keepers(case, heap, told))
    found += [one for one in economies if not is_told(one.place, told)]
    found += _of_cells(case, heap)
    return sorted(found, key=lambda one: -one.bytes)


def _older(case: Case, held: Sequence[Place]) -> Iterator[Part]:
    """Members of a list before the newest, which are the only ones that the sources look at. Which of the members are
    the newest is not known: the largest are taken to be.
    """
    for place in held:
        length = float(place.length[-1])
        newest = latest_read(case.sources, place.reference.variable or "") if place.type_name == "list" else None
        if not newest or length <= newest:
            continue
        size, alike = float(place.deep_bytes[-1]), [(one.deep_bytes[-1], one.count[-1]) for one in place.children]
        each = [float(bytes / count) for bytes, count in alike for _ in range(int(count))]
        kept = sum(sorted(each)[-newest:]) if each else size * newest / length
        words = "the newest" if newest == 1 else f"the newest {newest}"
        yield Part(
            place,
            round(size - kept),
            f"in members before {words}, which nothing reads",
            "the sources look at no other member of it",
            f"of its {format_count(length)} members, {format_count(length - newest)} are older",
            f"keep only {words} of",
            "unbounded-container",
            (place.member_type, (size - kept) / max(1.0, length)),
        )


def _unread_members(case: Case, held: Sequence[Place]) -> Iterator[Part]:
    """What each member of a container has under a key or as an attribute that the sources put there and never read."""
    for place in held:
        fields: dict[str, list[Place]] = {}
        for one in (field for member in place.children for field in member.children):
            key = field_of(one)
            is_users = one.reference.edge_kind == "item" or (one.reference.edge_kind == "attribute" and one.is_user)
            if place.has_length and key is not None and is_users and one.parent in place.children:
                fields.setdefault(key, []).append(one)
        sizes = {key: _in_all(place, ones) for key, ones in fields.items()}
        large = {key: size for key, size in sizes.items() if size >= LEAST_IDLE}
        unread = unread_fields(case.sources, place.reference.variable or "", large) if large else set()
        if not unread:
            continue
        size, length = sum(large[key] for key in unread), float(place.length[-1])
        names = listed(sorted(unread, key=lambda key: -large[key]))
        yield Part(
            place,
            round(size),
            f"under {names} of its members, which nothing reads",
            "the sources read other fields of its members, and none of these",
            f"{format_count(length)} members have {names}: {format_bytes(size)}",
            f"leave {names} out of what is put into",
            "idle",
            (fields[next(iter(unread))][0].type_name, size / length / len(unread)),
        )


def _in_all(place: Place, fields: Sequence[Place]) -> float:
    """What all members have in a field that was seen in some, as objects of one class have the same; 0 if in one."""
    looked = [one.parent for one in fields if one.parent is not None]
    classes = {one.type_name for one in looked if "." in one.type_name and not one.type_name.startswith("collections.")}
    every = sum(float(one.deep_bytes[-1]) for one in place.children if one.type_name in classes)
    share = max(1.0, every / max(1.0, sum(float(one.deep_bytes[-1]) for one in looked)))
    return share * sum(float(one.deep_bytes[-1]) for one in fields) if len(fields) > 1 or share > 1.0 else 0.0


def _kept_graphs(case: Case, held: Sequence[Place]) -> Iterator[Part]:
    """The graph that hangs on a tensor, where no backward pass, which would let go of it, is of anything made of it."""
    if any(way in source.text for source in case.sources for way in _GOES_BACK_AGAIN):
        return
    for place in held:
        graph = next((one for one in place.children if one.type_name == GRAPH_TYPE), None)
        size = float(graph.deep_bytes[-1]) if graph is not None else 0.0
        variable = place.reference.variable or ""
        is_own = size >= LEAST_IDLE and place.reference.edge_kind == "attribute"
        if not is_own or goes_back_through(case.sources, variable):
            continue
        yield Part(
            place,
            int(size),
            "in its autograd graph, which no backward pass uses",
            "a backward pass lets go of what a graph keeps",
            f"no backward() of the sources is of {variable}, or of what is made of it",
            "make it under torch.no_grad(), or detach",
            "autograd-history",
            ("torch.Tensor", size),
        )


def _views(held: Sequence[Place]) -> Iterator[Part]:
    """Arrays and storages to which nothing refers but views, beside what these show."""
    for place in held:
        size, unshown = float(place.deep_bytes[-1]), float(place.unshown_bytes[-1])
        if unshown < max(LEAST_IDLE, MOST * size):
            continue
        yield Part(
            place,
            round(unshown),
            "of larger arrays that its views keep alive and do not show",
            "what views show, and of what they are, was measured",
            f"views show {format_bytes(size - unshown)} of {format_bytes(size)}, and nothing else refers to the rest",
            f"keep a {place.copying} of each part in",
            "views",
            (place.member_type, unshown / max(1.0, float(place.length[-1]))),
        )


def _never_hit(held: Sequence[Place]) -> Iterator[Part]:
    """Caches that counted hardly a hit, although all that they have was replaced since: it came too early for one."""
    for place in held:
        hits, misses, size = place.hits or 0, place.misses or 0, float(place.deep_bytes[-1])
        if misses < 2.0 * float(place.length[-1]) or hits > HARDLY * misses or not misses:
            continue
        yield Part(
            place,
            round(size),
            f"in results that no call finds again: {format_count(hits)} hits, {format_count(misses)} misses",
            "the cache counted how often it had what was asked for",
            f"its {format_count(float(place.length[-1]))} results are {format_bytes(size)}",
            "take the cache off, or give arguments that repeat to,",
            "idle",
            (place.member_type, size / max(1.0, float(place.length[-1]))),
        )


def _of_last_take(process: ProcessGrowth, table: str) -> Rows:
    """Rows of the last snapshot that saw the program at work."""
    takes, rows = process.rows("takes"), process.rows(table)
    return only(rows, rows["take"] == without_last(takes, takes)["take"].max()) if len(rows) else rows


def _equal_texts(case: Case, process: ProcessGrowth, heap: Heap) -> Iterator[Part]:
    """Texts in a container, or in a field of its members, that equal others in it and have memory of their own.

    By the texts looked at: a text that no other of these equals may still have its like among the rest.
    """
    of_places: dict[Place, list[tuple[str | None, int, int, int, int]]] = {}
    rows = _of_last_take(process, "text_fields")
    for node, *of_field in cells(rows, "node", "field", "text_count", "own_count", "alone_count", "text_bytes"):
        if node in heap.by_number:
            of_places.setdefault(heap.by_number[node], []).append((*of_field,))
    for place, looked_at in of_places.items():
        above = next((one for one in upwards(place) if one.has_users_name), place)
        members = float(place.length[-1]) / max(count for _, count, *_ in looked_at)  # for each that was looked at
        fields = [
            (name, size / count, members * size * (1.0 - alone / count))
            for name, count, own, alone, size in looked_at
            if own >= NEARLY_ALL * count and alone <= MOST * count
        ]
        if not fields:
            continue
        names = [name for name, _, _ in fields if name]
        module, _, member = (place.member_type or "").rpartition(".")
        given = adding_lines(case.sources, Holder(names[0], member, module)) if names and module else []
        under = f" under {listed(names)}" if names else ""
        size = sum(size for _, _, size in fields)
        of_each = listed([f"{name or place.said} {format_bytes(of)}" for name, _, of in fields])
        yield Part(
            above,
            round(size),
            f"of texts{under} that equal others in it",
            "texts were compared, and where they lie",
            f"each has memory of its own: {of_each}",
            f"pass {listed(names) if names else 'each'} through sys.intern() on the way into",
            "equal-texts",
            ("str", max(each for _, each, _ in fields)),
            line=line_of(given),
            doubt="some hundred texts of each field were compared",
        )


_OF_ROWS = {  # columns of data_forms: what, ground, evidence, remedy, mechanism
    "padded_share": (
        "of padding",
        "its rows end, or begin, with one number up to one length, and have others before",
        "only fill rows up to one length",
        "keep each row at its own length and pad a batch to its longest row, instead of all rows of",
        "padding",
    ),
    "repeated_share": (
        "that the rows before have as well, as windows of one series",
        "each row goes on where the one before it began, some numbers further along",
        "are in the row before as well",
        "keep the series once and cut a window when it is read (sliding_window_view of numpy.lib.stride_tricks, or "
        "unfold() of torch, are views of it) instead of all windows in",
        "windows",
    ),
}


def _of_rows(process: ProcessGrowth, heap: Heap) -> Iterator[Part]:
    """Arrays whose rows one number fills up to the length of the longest, or of which one repeats most of another."""
    rows = _of_last_take(process, "data_forms")
    for column, (what, ground, evidence, remedy, mechanism) in _OF_ROWS.items():
        for node, share, size in cells(rows.dropna(subset=[column]), "node", column, "deep_bytes"):
            place = heap.by_number.get(node)
            above = next((one for one in upwards(place) if one.has_users_name), None)
            if place is None or above is None or share < MUCH or place.member_type is not None:
                continue
            yield Part(
                above,
                round(share * size),
                what,
                ground,
                f"{share:.0%} of the numbers looked at {evidence}",
                remedy,
                mechanism,
                (None, size),
                doubt="some hundred numbers of it were looked at",
            )


class _Keeper(NamedTuple):
    """Objects of a library's that keep what they were handed. ``via``: by which attribute, where that matters."""

    what: str
    ground: str
    object: str
    remedy: str
    mechanism: str
    via: str | None = None
    doubt: str = Part._field_defaults["doubt"]


_KEEPERS = {
    TRACEBACK: _Keeper(
        "in variables of calls that failed, by the tracebacks of its exceptions",
        "only a debugger reads the variables of a call that failed",
        "traceback",
        f"{KEEP_TEXT} of the exceptions in",
        "tracebacks",
    ),
    "logging.LogRecord": _Keeper(
        "in what log records were given to write",
        "its arguments are needed until the message of a record is made",
        "log record",
        "keep the text, as self.format(record) makes it, and not the record, in",
        "log-records",
        via="args",
    ),
    "itertools.cycle": _Keeper(
        "that itertools.cycle keeps to give it out again",
        "a cycle keeps all that its first round was given",
        "cycle",
        "go through the source again in each round (`while True: yield from …`), and not by itertools.cycle, in",
        "cycle",
        doubt="where to make it again takes longer than to keep it, that is what the memory is for",
    ),
    "_pickle.Pickler": _Keeper(
        "that a pickler remembers having written",
        "a pickler keeps each object that it wrote, so as to refer to it",
        "pickler",
        "make a new pickler for each object, or call clear_memo() after each dump(), of",
        "pickle-memo",
        doubt="objects that refer to others of an earlier dump() would be written in full",
    ),
    "_pickle.Unpickler": _Keeper(
        "that an unpickler remembers having read",
        "an unpickler keeps each object that it read, so as to refer to it",
        "unpickler",
        "make a new unpickler for each load(), in place of",
        "pickle-memo",
        doubt="a stream of one pickler that never cleared its memo has to be read by one unpickler",
    ),
}


def _by_keepers(case: Case, heap: Heap, told: Sequence[Finding]) -> Iterator[Part]:
    """What objects of a library keep of what they were handed: variables of failed calls, arguments of log records."""
    reads_frames = any(way in source.text for source in case.sources for way in _READS_FRAMES)
    grown = tuple(one.subject.path for one in told if one.subject.path)

    def is_grown(place: Place) -> bool:
        return place.said.startswith(grown) or any(path.startswith(place.said) for path in grown)

    kept: dict[tuple[str, Place], list[Place]] = {}
    for place in heap.places:
        keeper = _KEEPERS.get(place.type_name)
        if keeper is None or (place.type_name == TRACEBACK and reads_frames) or is_grown(place):
            continue
        named = [one for one in upwards(place) if one.has_users_name]
        # One that is a variable of a running call may be on its way up.
        stays = (one for one in named if one.reference.edge_kind in _STAYS or place.type_name != TRACEBACK)
        of = next((one for one in named if one.has_length), next(stays, None))
        is_first = all(one.type_name != place.type_name for one in upwards(place.parent))
        if of is not None and is_first:
            kept.setdefault((place.type_name, of), []).append(place)
    for (kind, of), places in kept.items():
        keeper = _KEEPERS[kind]
        if keeper.via is not None and not any(_is_most(one) for place in places for one in place.children
                                              if one.reference.variable == keeper.via):  # fmt: skip
            continue
        size, count = sum(float(one.deep_bytes[-1]) for one in places), sum(float(one.count[-1]) for one in places)
        yield Part(
            of,
            round(size),
            keeper.what,
            keeper.ground,
            f"{format_bytes(size)} of it is kept by {format_count(count)} {keeper.object}{'s' * (count > 1)}",
            keeper.remedy,
            keeper.mechanism,
            (None, size / max(1.0, count)),
            doubt=keeper.doubt,
        )


def _is_most(place: Place) -> bool:
    """Of what keeps it."""
    return place.parent is not None and float(place.deep_bytes[-1]) > MOST * float(place.parent.deep_bytes[-1])


def _of_cells(case: Case, heap: Heap) -> Iterator[Part]:
    """Results of cells that no cell looks at again, all together."""
    left = unread_results(case, heap)
    if left is not None:
        many = "cells" if len(left.numbers) > 1 else "cell"
        yield Part(
            left.places[0],
            left.bytes,
            f"that {many} {listed([f'[{number}]' for number in left.numbers])} returned, and no cell looks at",
            "no cell reads _, _1, _2 or Out, and what was returned has no other name",
            f"IPython keeps what each cell returned: {format_bytes(left.bytes)} is in nothing else",
            "end the last line of such a cell with a semicolon; %reset -f out empties",
            "results-of-cells",
            (None, float(left.places[0].deep_bytes[-1])),
            OUT,
            left.line,
        )


def is_told(place: Place, so_far: Sequence[Finding]) -> bool:
    """By another diagnosis: it, or most of it, or as a part of what is wasted."""
    told = {path for f in so_far for path in (f.subject.path, *(one.path for one in f.idle))}
    within = tuple(f"{f.subject.path}{step}" for f in so_far if f.wasted and f.subject.path for step in ".[")
    inside = f"{place.said}.", f"{place.said}["
    parts = sum(one.bytes for f in so_far for one in f.idle if one.path.startswith(inside))
    is_it = not told.isdisjoint((place.said, place.path)) or place.said.startswith(within)
    return is_it or parts >= MOST * float(place.deep_bytes[-1]) > 0


def containers(held: Iterable[Place]) -> Iterator[Place]:
    """Those with a name that places are in, the innermost first: what one has alone is idle with it, read by whatever
    name before.
    """
    known: dict[int, Place] = {}
    for place in held:
        known |= {id(above): above for above in upwards(place.parent) if above.has_users_name and above.has_length}
    yield from sorted(known.values(), key=lambda one: -len(list(upwards(one))))


def line_of(lines: Sequence[Line]) -> Line | None:
    """Where it came in: what surely adds to it; else, since it stands, what made it, and no call of a method of it."""
    if lines and lines[0].score >= KNOWN_ADDER:
        return lines[0]
    return next((line for line in lines if line.kind == "creates"), next(iter(lines), None))
