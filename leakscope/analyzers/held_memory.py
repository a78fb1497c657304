"""What is held and not used: results of a phase that is over, a queue that nobody empties, workers that rest.

Looks for:     variables and attributes of yours that hold much and that no line still to run reads, or of whose members
               only the newest, or some fields, are read; graphs that no backward pass uses; what tracebacks keep of
               calls that failed; arrays of which only slices are held; caches without hits; results of cells; workers
               whose work is done; optimizer state that no step uses.
Why:           it is no leak, and may be most of the process. It ends when its holder lets go.
Decides by:    min_idle_share of what its process holds and min_idle_bytes, where each line that reads it stands before
               the last one that was seen to run, or in a call that is over, and nothing else refers to it: a variable,
               a model, a block that two tables have.
Mistaken when: it is read by a name that the source does not show.
Do:            release it once it is no longer needed.

What only stands, and may be read yet, is no finding: the bill says what each variable holds. Where nobody can tell
whether memory grows, those are reported that gained min_growth_share of what was gained: watch them in a longer run.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from ..confidence import STRONG, SURE, Ground
from ..evidence import retained
from ..evidence.cell_results import unread_results
from ..evidence.idle_workers import idle_pools, resting_pids
from ..evidence.mechanisms import KEEP_TEXT
from ..evidence.sentences import frees, let_go, listed, looked_too_early, untyped, wasted
from ..evidence.use import Use, progress_of, reference_count, use_of
from ..facts.case import Case
from ..facts.code.adding import CREATES, Line, adding_lines
from ..facts.code.backward import goes_back_through
from ..facts.code.fields import unread_fields
from ..facts.code.names import Holder
from ..facts.code.reading import goes_on_setting
from ..facts.code.statements import latest_read
from ..facts.growth.processes import ProcessGrowth
from ..facts.heap.comparable import Heap, heap_at_work, heap_of
from ..facts.heap.owners import is_optimizer
from ..facts.heap.place import GRAPH_TYPE, TRACEBACK, Place, upwards
from ..facts.heap.standing import field_of, has_key, held_by_users, risen, shared_table
from ..facts.retained.figures import is_untouched
from ..facts.series.arithmetic import level_at
from ..facts.series.trend import DRIFT_BYTES
from ..facts.subject import Held
from ..facts.tables import cells, only, without_last
from ..facts.where.holders import KNOWN_ADDER, OUT, about, defined_at, holder_name, named_in
from ..findings import Evidence, Finding, Idle, RuledOut, Skipped
from ..kinds import HELD
from ..storage import Rows
from ..units import FEWEST, HARDLY, MOST, MUCH, NEARLY_ALL, SLIGHT, MiB, format_bytes, format_count, format_duration

NEEDS = retained.NEEDS
TELLS = (HELD,)
AFTER = ("retained-objects", "retained-graph", "filling", "dataset-copies", "duplicate-model", "process-pileup")
_KIND = "held-memory"
_MOST_NAMED = FEWEST


def findings(
    case: Case,
    so_far: list[Finding],
    *,
    min_idle_bytes: int = 16 * MiB,  # of all that is idle: less is not worth anybody's time
    min_idle_share: float = HARDLY,  # of what the process holds: the same
    min_growth_share: float = MOST,  # where unclear: of what was gained
) -> Iterator[Finding | RuledOut | Skipped]:
    """Yield one finding per process that holds much idle, of those that hold most first; then of workers that rest."""
    looked = told = False
    left = list(left_by_training(case, _KIND, min_idle_bytes, min_idle_share))
    so_far = [*so_far, *left]
    to_watch: dict[tuple[str, str], tuple[ProcessGrowth, Heap, Place]] = {}
    # What a fork was born with is its parent's: there it is told, and takes memory once.
    of_parents = {place.path for p in case.growth.processes if not p.is_fork for place in case.heap(p.pid).places}
    for process in sorted(case.growth.processes, key=lambda p: -float(p.held_bytes[-1])):
        heap = heap_of(case.recording, process.pid, 0.0, float("inf")) or heap_at_work(case.recording, process.pid)
        if heap is None:
            continue
        looked = True
        if process.pid in case.once(resting_pids):  # all that it holds goes with it
            continue
        held = [place for root in heap.roots for place in held_by_users(root, _LEAST_IDLE)]
        held = [place for place in held if not (process.is_fork and place.path in of_parents)]
        idle = list(_idle(case, process, heap, so_far, held))
        least = max(min_idle_bytes, min_idle_share * float(process.held_bytes[-1]))
        wasted = [_of_idle(case, process, idle)] if sum(one.bytes for one in idle) >= least else []
        parts = _parts(case, heap, [*so_far, *wasted], held)
        wasted += [_of_part(case, process, one) for one in parts if one.bytes >= least]
        told = told or bool(wasted)
        yield from wasted
        least = max(DRIFT_BYTES, min_growth_share * case.growth.growth_bytes)
        for place in risen(heap, least) if case.growth.leaking is None else ():
            is_idle = any(one.place.said.startswith(place.said) for one in idle)
            if not (is_idle or _is_told(place, so_far)):
                to_watch.setdefault((process.name, place.said), (process, heap, place))
    # Where one is made after the other, that is told, and of whom.
    is_pileup_told = any(f.kind == "process-pileup" for f in so_far)
    resting = [] if is_pileup_told else list(idle_pools(case, _KIND, min_idle_bytes, min_idle_share))
    resting += left
    yield from resting
    yield from (_gained(case, *one) for one in to_watch.values())
    if not looked:
        yield Skipped(_KIND, "no process has a snapshot of its objects before it ended")
    elif not (told or resting or to_watch):
        none = "no variable was found that holds memory nothing reads again"
        yield looked_too_early(_KIND, case.growth, so_far) or RuledOut(_KIND, none)


class _Idle(NamedTuple):
    place: Place
    named: Place
    bytes: int
    line: Line | None
    use: Use

    @property
    def is_cache(self) -> bool:
        """Of a function, which may be called again."""
        return self.place.reference.edge_kind == "cache"


def _idle(
    case: Case, process: ProcessGrowth, heap: Heap, so_far: Sequence[Finding], held: Sequence[Place]
) -> Iterator[_Idle]:
    """The largest first; what other kinds told is left out."""
    apart = case.heap(process.pid).own_arrays
    found: dict[str, _Idle] = {}
    for place in [*held, *_containers(held)]:
        table = shared_table(place) if not has_key(place) else None
        known = place if table is None else table
        named, lines = named_in(case.sources, known)
        is_named = known.reference.edge_kind in _READ_BY_NAME or has_key(place)
        # Nobody calls a __getitem__ by its name.
        is_special = known.reference.edge_kind == "cache" and (known.reference.variable or "").startswith("__")
        if not is_named or is_special or is_untouched(place, heap, process) or _is_told(known, so_far):
            continue
        by_key = known.parent if known.parent is not None and has_key(known) else None
        holder = (by_key or known).as_holder()
        if by_key is not None:
            key = known.said[len(by_key.said) + 2 : -2]
            adding = [line for line in adding_lines(case.sources, by_key.as_holder(key)) if line.kind == "adds"]
            lines = adding[:1] or lines
        if table is not None:
            holder = holder._replace(is_shared=True, not_by=apart)
        references = reference_count(case, process, place)
        use = use_of(case, process, holder, known.said, is_alone=references <= 1)
        # Who waits to add to it refers to it as well; and whoever shows its memory has a name that was asked for.
        if use.is_over and (table is not None or references <= 1 + use.filling):
            made, size = lines[0] if by_key is not None and lines else _line(lines), round(float(place.deep_bytes[-1]))
            size += found[known.said].bytes if known.said in found else 0
            found = {name: one for name, one in found.items() if known not in upwards(one.place.parent)}
            found[known.said] = _Idle(known, named, size, made, use)
    yield from sorted(_together(case, found.values()), key=lambda one: -one.bytes)


def _containers(held: Iterable[Place]) -> Iterator[Place]:
    """Those with a name that places are in, the innermost first: what one has alone is idle with it, read by whatever
    name before.
    """
    known: dict[int, Place] = {}
    for place in held:
        known |= {id(above): above for above in upwards(place.parent) if above.has_users_name and above.has_length}
    yield from sorted(known.values(), key=lambda one: -len(list(upwards(one))))


def _together(case: Case, found: Iterable[_Idle]) -> Iterator[_Idle]:
    """Where all that a container has under names was read last at one place, that container is what to let go of."""
    alike: dict[object, list[_Idle]] = {}
    for one in found:
        above = one.place.parent if has_key(one.place) else None
        alike.setdefault((one.use.text, above.path) if above is not None else id(one), []).append(one)
    for first, *others in alike.values():
        above, size = first.place.parent, first.bytes + sum(one.bytes for one in others)
        if others and above is not None and size >= NEARLY_ALL * float(above.deep_bytes[-1]):
            yield _Idle(above, named_in(case.sources, above)[0], size, first.line, first.use)
        else:
            yield from (first, *others)


class _Part(NamedTuple):
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


def _parts(case: Case, heap: Heap, told: Sequence[Finding], held: Sequence[Place]) -> list[_Part]:
    """The largest first."""
    asked = [place for place in held if place.reference.variable and not _is_told(place, told)]
    around = [place for place in _containers(asked) if place not in asked and not _is_told(place, told)]
    found = [*_older(case, asked), *_unread_members(case, [*asked, *around]), *_views(asked)]
    found += [*_kept_graphs(case, asked), *_never_hit([*asked, *around])]
    economies = (*_equal_texts(case, process, heap), *_of_rows(process, heap), *_by_keepers(case, heap))
    found += [one for one in economies if not _is_told(one.place, told)]
    found += _of_cells(case, heap)
    return sorted(found, key=lambda one: -one.bytes)


def _older(case: Case, held: Sequence[Place]) -> Iterator[_Part]:
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
        yield _Part(
            place,
            round(size - kept),
            f"in members before {words}, which nothing reads",
            "the sources look at no other member of it",
            f"of its {format_count(length)} members, {format_count(length - newest)} are older",
            f"keep only {words} of",
            "unbounded-container",
            (place.member_type, (size - kept) / max(1.0, length)),
        )


def _unread_members(case: Case, held: Sequence[Place]) -> Iterator[_Part]:
    """What each member of a container has under a key or as an attribute that the sources put there and never read."""
    for place in held:
        fields: dict[str, list[Place]] = {}
        for one in (field for member in place.children for field in member.children):
            key = field_of(one)
            is_users = one.reference.edge_kind == "item" or (one.reference.edge_kind == "attribute" and one.is_user)
            if place.has_length and key is not None and is_users and one.parent in place.children:
                fields.setdefault(key, []).append(one)
        sizes = {key: _in_all(place, ones) for key, ones in fields.items()}
        large = {key: size for key, size in sizes.items() if size >= _LEAST_IDLE}
        unread = unread_fields(case.sources, place.reference.variable or "", large) if large else set()
        if not unread:
            continue
        size, length = sum(large[key] for key in unread), float(place.length[-1])
        names = listed(sorted(unread, key=lambda key: -large[key]))
        yield _Part(
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


def _kept_graphs(case: Case, held: Sequence[Place]) -> Iterator[_Part]:
    """The graph that hangs on a tensor, where no backward pass, which would let go of it, is of anything made of it."""
    if any(way in source.text for source in case.sources for way in _GOES_BACK_AGAIN):
        return
    for place in held:
        graph = next((one for one in place.children if one.type_name == GRAPH_TYPE), None)
        size = float(graph.deep_bytes[-1]) if graph is not None else 0.0
        variable = place.reference.variable or ""
        is_own = size >= _LEAST_IDLE and place.reference.edge_kind == "attribute"
        if not is_own or goes_back_through(case.sources, variable):
            continue
        yield _Part(
            place,
            int(size),
            "in its autograd graph, which no backward pass uses",
            "a backward pass lets go of what a graph keeps",
            f"no backward() of the sources is of {variable}, or of what is made of it",
            "make it under torch.no_grad(), or detach",
            "autograd-history",
            ("torch.Tensor", size),
        )


def _views(held: Sequence[Place]) -> Iterator[_Part]:
    """Arrays and storages to which nothing refers but views, beside what these show."""
    for place in held:
        size, unshown = float(place.deep_bytes[-1]), float(place.unshown_bytes[-1])
        if unshown < max(_LEAST_IDLE, MOST * size):
            continue
        yield _Part(
            place,
            round(unshown),
            "of larger arrays that its views keep alive and do not show",
            "what views show, and of what they are, was measured",
            f"views show {format_bytes(size - unshown)} of {format_bytes(size)}, and nothing else refers to the rest",
            f"keep a {place.copying} of each part in",
            "views",
            (place.member_type, unshown / max(1.0, float(place.length[-1]))),
        )


def _never_hit(held: Sequence[Place]) -> Iterator[_Part]:
    """Caches that counted hardly a hit, although all that they have was replaced since: it came too early for one."""
    for place in held:
        hits, misses, size = place.hits or 0, place.misses or 0, float(place.deep_bytes[-1])
        if misses < 2.0 * float(place.length[-1]) or hits > HARDLY * misses or not misses:
            continue
        yield _Part(
            place,
            round(size),
            f"in results that no call finds again: {format_count(hits)} hits, {format_count(misses)} misses",
            "the cache counted how often it had what was asked for",
            f"its {format_count(float(place.length[-1]))} results are {format_bytes(size)}",
            "take the cache off, or give arguments that repeat to,",
            "idle",
            (place.member_type, size / max(1.0, float(place.length[-1]))),
        )


_LEAST_TEXTS = 100  # looked at: one in a hundred that is alone is seen


def _equal_texts(case: Case, process: ProcessGrowth, heap: Heap) -> Iterator[_Part]:
    """Texts in a container, or in a field of its members, that equal others in it and have memory of their own.

    By the texts looked at: a text that no other of these equals may still have its like among the rest.
    """
    of_places: dict[Place, list[tuple[str | None, float, float]]] = {}
    takes = process.rows("takes")
    rows = process.rows("text_fields")
    rows = only(rows, rows["take"] == without_last(takes, takes)["take"].max()) if len(rows) else rows
    for node, *of_field in cells(rows, "node", "field", "text_count", "own_count", "alone_count", "text_bytes"):
        field, count, own, alone, size = of_field
        place = heap.by_number.get(node)
        if place is None or count < _LEAST_TEXTS or own < NEARLY_ALL * count or alone > MOST * count:
            continue
        each, members = size / count, float(place.length[-1])
        of_places.setdefault(place, []).append((field, each, members * each * (1.0 - alone / count)))
    for place, fields in of_places.items():
        above = next((one for one in upwards(place) if one.has_users_name), place)
        names = [name for name, _, _ in fields if name]
        module, _, member = (place.member_type or "").rpartition(".")
        given = adding_lines(case.sources, Holder(names[0], member, module)) if names and module else []
        under = f" under {listed(names)}" if names else ""
        size = sum(size for _, _, size in fields)
        of_each = listed([f"{name or place.said} {format_bytes(of)}" for name, _, of in fields])
        yield _Part(
            above,
            round(size),
            f"of texts{under} that equal others in it",
            "texts were compared, and where they lie",
            f"each has memory of its own: {of_each}",
            f"pass {listed(names) if names else 'each'} through sys.intern() on the way into",
            "equal-texts",
            ("str", max(each for _, each, _ in fields)),
            line=_line(given),
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


def _of_rows(process: ProcessGrowth, heap: Heap) -> Iterator[_Part]:
    """Arrays whose rows one number fills up to the length of the longest, or of which one repeats most of another."""
    takes = process.rows("takes")
    rows = process.rows("data_forms")
    rows = only(rows, rows["take"] == without_last(takes, takes)["take"].max()) if len(rows) else rows
    for column, (what, ground, evidence, remedy, mechanism) in _OF_ROWS.items():
        for node, share, size in cells(rows.dropna(subset=[column]), "node", column, "deep_bytes"):
            place = heap.by_number.get(node)
            above = next((one for one in upwards(place) if one.has_users_name), None)
            if place is None or above is None or share < MUCH or place.member_type is not None:
                continue
            yield _Part(
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
    doubt: str = _Part._field_defaults["doubt"]


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
        "go through the source anew in each round (`while True: yield from …`), and not by itertools.cycle, in",
        "cycle",
        doubt="where to make it anew takes longer than to keep it, that is what the memory is for",
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


def _by_keepers(case: Case, heap: Heap) -> Iterator[_Part]:
    """What objects of a library keep of what they were handed: variables of failed calls, arguments of log records."""
    reads_frames = any(way in source.text for source in case.sources for way in _READS_FRAMES)
    kept: dict[tuple[str, Place], list[Place]] = {}
    for place in heap.places:
        keeper = _KEEPERS.get(place.type_name)
        if keeper is None or (place.type_name == TRACEBACK and reads_frames):
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
        yield _Part(
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


def _of_cells(case: Case, heap: Heap) -> Iterator[_Part]:
    """Results of cells that no cell looks at again, all together."""
    left = unread_results(case, heap)
    if left is not None:
        many = "cells" if len(left.numbers) > 1 else "cell"
        yield _Part(
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


def _of_part(case: Case, process: ProcessGrowth, one: _Part) -> Finding:
    named, lines = named_in(case.sources, one.place)
    name, line = one.name or holder_name(named), one.line or _line(lines)
    end_s = min(case.growth.end_s, float(process.time_s[-1]))
    severity, share = wasted(case, one.bytes, level_at(process.time_s, process.held_bytes, end_s))
    where = f" at {line.place}" if line is not None else ""
    return case.finding(
        _KIND,
        f"{name} holds {format_bytes(one.bytes)} {one.what}",
        severity=severity,
        grounds=[Ground(one.ground, STRONG)],
        bytes=one.bytes,
        process=process,
        line=line or defined_at(named),
        device="cpu",
        evidence=[Evidence(one.evidence, {"bytes": one.bytes}), share],
        doubts=[one.doubt],
        remedy=[f"{one.remedy} {untyped(name)}{where}: {frees(process, one.bytes, [one.each])}"],
        mechanism=one.mechanism,
        wasted=True,
        **(about(named, one.place) | Held(holder=name)),
    )


_GOES_BACK_AGAIN = ("retain_graph", "create_graph", "autograd.grad")  # through one graph
_READS_FRAMES = ("tb_frame", "f_locals", "capture_locals", "post_mortem", "inspect.trace", "getinnerframes")
_STAYS = ("global", "attribute", "class-attribute", "cell")  # names that last beyond a call
_READ_BY_NAME = ("local", "global", "attribute", "class-attribute", "cell", "cache")
_LEAST_IDLE = SLIGHT  # of one of several


def _is_told(place: Place, so_far: Sequence[Finding]) -> bool:
    """By another diagnosis: it, or most of it, or as a part of what is wasted."""
    told = {path for f in so_far for path in (f.subject.path, *(one.path for one in f.idle))}
    within = tuple(f"{f.subject.path}{step}" for f in so_far if f.wasted and f.subject.path for step in ".[")
    inside = f"{place.said}.", f"{place.said}["
    parts = sum(one.bytes for f in so_far for one in f.idle if one.path.startswith(inside))
    is_it = not told.isdisjoint((place.said, place.path)) or place.said.startswith(within)
    return is_it or parts >= MOST * float(place.deep_bytes[-1]) > 0


def _of_idle(case: Case, process: ProcessGrowth, idle: Sequence[_Idle]) -> Finding:
    total = sum(one.bytes for one in idle)
    names = [one.place.said if has_key(one.place) else holder_name(one.place) for one in idle]
    # As a program ends it lets go of all: that was judged no more.
    end_s = min(case.growth.end_s, float(process.time_s[-1]))
    first, (severity, share) = idle[0], wasted(case, total, level_at(process.time_s, process.held_bytes, end_s))
    shown = names if len(names) <= _MOST_NAMED else [*names[: _MOST_NAMED - 1], f"{len(names) - _MOST_NAMED + 1} more"]
    verb = "holds" if len(idle) == 1 else "hold"
    return case.finding(
        _KIND,
        f"{listed(shown)} {verb} {format_bytes(total)} that nothing reads again",
        severity=severity,
        grounds=[Ground("the lines that read it ran for the last time, as far as the recording shows", STRONG)],
        bytes=total,
        process=process,
        line=first.line or defined_at(first.named),
        device="cpu",
        evidence=[
            *(
                Evidence(f"{name} holds {format_bytes(one.bytes)}; {one.use.text}", {"bytes": one.bytes})
                for name, one in zip(names, idle)
            ),
            share,
        ],
        doubts=["code that reads it under another name, or from C, would not be seen"],
        remedy=[
            let_go(process, [(name, one.use, one.bytes, _members(one)) for name, one in group], is_cache)
            for is_cache in (False, True)
            if (group := [(name, one) for name, one in zip(names, idle) if one.is_cache is is_cache])
        ],
        mechanism="idle",
        wasted=True,
        idle=[
            Idle(one.bytes, one.place.path) if one.is_cache else one.use.idle(one.bytes, one.place.path) for one in idle
        ],
        **(about(first.named, first.place) | Held(holder=names[0])),
    )


def _gained(case: Case, process: ProcessGrowth, heap: Heap, place: Place) -> Finding:
    named, lines = named_in(case.sources, place)
    name, lasted = holder_name(named), format_duration(float(heap.time_s[-1] - heap.time_s[0]))
    first, last = (format_bytes(place.deep_bytes[at]) for at in (0, -1))
    figures = {"start_bytes": int(place.deep_bytes[0]), "end_bytes": int(place.deep_bytes[-1])}
    return case.finding(
        _KIND,
        f"{name} gained {format_bytes(place.growth_bytes)} in {lasted}, and may go on",
        severity="note",
        grounds=[Ground("several snapshots weighed it; whether it goes on is not known", SURE)],
        bytes=int(place.deep_bytes[-1]),
        process=process,
        line=_line(lines) or defined_at(named),
        device="cpu",
        evidence=[Evidence(f"{place.said} held {first} in the first and {last} in the last snapshot", figures)],
        doubts=["it may be wanted: a data set that is read in, a cache that fills"],
        **about(named, place),
    )


def _members(one: _Idle) -> tuple[str | None, float]:
    """Their type, and bytes of one."""
    count = float(one.place.length[-1]) if one.place.has_length else 0.0
    return one.place.member_type, one.bytes / count if count else 0.0


def _line(lines: Sequence[Line]) -> Line | None:
    """Where it came in: what surely adds to it; else, since it stands, what made it, and no call of a method of it."""
    if lines and lines[0].score >= KNOWN_ADDER:
        return lines[0]
    return next((line for line in lines if line.kind == "creates"), next(iter(lines), None))


# ---- state of optimizers, and gradients, that no step will use: of frozen parameters, or once training is over: where
# each line that reads the optimizer ran for the last time; where that is unclear, after a long while without a step


_STATE, _GRADIENT = "optimizer-state", "gradient"
_SETS_RATE = ("lr_scheduler", '["lr"] =', "['lr'] =")  # what is not trained yet may be later
_MOST_STATE = 3  # tensors that an optimizer has for each parameter: Adam two, or with amsgrad three


class _Left(NamedTuple):
    bytes: int
    gradients: bool  # are among it
    why: str
    remedy: str


def left_by_training(case: Case, kind: str, least_bytes: float, least_share: float) -> Iterator[Finding]:
    """One finding per process that has ``least_share`` of what it holds in these."""
    for process in case.growth.processes:
        takes = process.rows("takes")
        rows = without_last(process.rows("tensors"), takes)
        rows = only(rows, (rows["moment"] == "take") & (rows["device"] == "cpu") & rows["node"].isna())
        held = max(float(process.held_bytes[-1]), 1.0)
        places = [one for one in case.heap(process.pid).places if one.is_user and is_optimizer(one.type_name)]
        place = places[0] if places else None
        is_seen = len(takes) and takes["seen_lines"].notna().any()
        uses = [use_of(case, process, one.as_holder(), one.said) for one in places if is_seen]
        use = min(uses, key=lambda one: (False, None, True).index(one.is_over), default=Use(None, None))
        changes = goes_on_setting(case.sources, "requires_grad", case.once(progress_of, process))
        sets_rate = any(way in source.text for source in case.sources for way in _SETS_RATE)
        of_frozen = (
            _of_frozen(process, rows, sets_rate) if not changes else None
        )  # as a critic that its generator trains against
        found = [one for one in (of_frozen, _since_training(process, rows, use)) if one is not None]
        left = max(found, key=lambda one: one.bytes, default=None)
        if left is not None and left.bytes >= max(least_bytes, least_share * held):
            yield _finding(case, kind, process, left, place, wasted(case, left.bytes, held))


def _bytes(rows: Rows, owner: str) -> float:
    return float(rows["storage_bytes"][rows["tensor_owner"] == owner].sum())


def _count(rows: Rows, owner: str) -> int:
    return int(rows["storage_count"][rows["tensor_owner"] == owner].sum())


def _of_frozen(process: ProcessGrowth, rows: Rows, sets_rate: bool) -> _Left | None:
    """In one snapshot: more state and gradients than the parameters that are trained can have.

    Where each parameter has as many tensors of state, theirs is in proportion.
    """
    weights = process.rows("weights")
    weights = only(weights, (weights["tensor_owner"] == "parameter") & (weights["device"] == "cpu"))
    both = weights["take"][weights["take"].isin(rows["take"])]
    if not len(both):
        return None
    as_it_was = _unchanged(weights) if not sets_rate else set()
    weights, rows = (only(table, table["take"] == both.max()) for table in (weights, rows))
    is_frozen = ~weights["requires_grad"].fillna(True)
    by_rate = not is_frozen.any() and bool(as_it_was)
    is_trained = ~(weights["storage_key"].isin(list(as_it_was)) if by_rate else is_frozen)
    if is_trained.all() or not is_trained.any():
        return None
    # Of small parameters, biases among them, no row tells: these are taken for trained.
    small = max(0.0, _bytes(rows, "parameter") - float(weights["storage_bytes"].sum()))
    trained = float(weights["storage_bytes"][is_trained].sum()) + small
    frozen = float(weights["storage_bytes"].sum()) + small - trained
    state, each = _bytes(rows, _STATE), f"has up to {_MOST_STATE} times as much"
    if state >= NEARLY_ALL * (frozen + trained) and not _count(rows, _STATE) % max(1, _count(rows, "parameter")):
        state, each = state * frozen / (frozen + trained), f"has {format_bytes(state * trained / (frozen + trained))}"
    else:
        state = max(0.0, state - _MOST_STATE * trained)
    gradients = min(frozen, max(0.0, _bytes(rows, _GRADIENT) - trained))
    return _Left(
        round(state + gradients),
        gradients > 0,
        f"{format_bytes(frozen)} of the parameters {'never change' if by_rate else 'are frozen'}, and "
        f"{format_bytes(trained)} are trained: for these an optimizer {each}",
        ("call requires_grad_(False) on those that are not to change, and " if by_rate else "")
        + "make a new optimizer, of the parameters that are still trained ([p for p in model.parameters() if "
        "p.requires_grad])" + (", and set the .grad of the others to None" if gradients else ""),
    )


def _unchanged(weights: Rows) -> set[Any]:
    """Storages of parameters that had the same values in all snapshots, while others changed: the rate at which they
    are trained is 0. Empty where a single one has most of these bytes: a table of which the rows that were looked at
    had no turn.
    """
    values: dict[Any, list[str]] = {}
    sizes: dict[Any, float] = {}
    for key, fingerprint, size in cells(weights, "storage_key", "fingerprint", "storage_bytes"):
        values.setdefault(key, []).append(fingerprint)
        sizes[key] = float(size)
    whole = {key: each for key, each in values.items() if len(each) > 1 and None not in each}
    same = {key for key, each in whole.items() if len(set(each)) == 1}
    goes_on = any(each[-2] != each[-1] for each in whole.values())
    of_same = [sizes[key] for key in same]
    return same if goes_on and of_same and max(of_same) <= MOST * sum(of_same) else set()


def _since_training(process: ProcessGrowth, rows: Rows, use: Use) -> _Left | None:
    """No line steps any more, and has not for long; where that is unclear, for most of the time since the first one."""
    steps = process.rows("phases").dropna(subset=["step"])
    steps = only(steps, steps["step"] > 0)
    if not len(steps) or not len(rows):
        return None
    last_s = float(steps["time_s"][steps["step"] == steps["step"].max()].min())
    stood_s = min(float(process.time_s[-1]), process.exit_s) - last_s
    rows = only(rows, rows["take"] == rows["take"].max())
    least_s = (MUCH if use.is_over else MOST) * (stood_s + last_s - float(steps["time_s"].min()))
    if use.is_over is False or float(rows["time_s"].max()) < last_s or stood_s < least_s:
        return None
    return _Left(
        round(_bytes(rows, _STATE) + _bytes(rows, _GRADIENT)),
        _bytes(rows, _GRADIENT) > 0,
        f"no optimizer has made a step since {format_duration(last_s)}, for {format_duration(stood_s)}"
        + (f"; it was {use.text}" if use.is_over and use.line is not None else ""),
        "once training is over, call zero_grad() and let go of the optimizer (del, or keep it in the function that "
        "trains)",
    )


def _finding(
    case: Case, kind: str, process: ProcessGrowth, left: _Left, place: Place | None, waste: tuple[str, Evidence]
) -> Finding:
    size, named, line = format_bytes(left.bytes), None, None
    if place is not None:
        named, lines = named_in(case.sources, place)
        line = next((one for one in lines if one.kind == CREATES), None) or defined_at(named)
    name = holder_name(named) if named is not None else "the optimizer"
    return case.finding(
        kind,
        f"{name} {'and gradients hold' if left.gradients else 'holds'} {size} that no training step uses any more",
        severity=waste[0],
        grounds=[Ground("their bytes were measured, and what is trained is known", STRONG)],
        bytes=left.bytes,
        process=process,
        line=line,
        device="cpu",
        evidence=[Evidence(left.why), waste[1]],
        doubts=["training may resume later: it would need them then, or start with new state"],
        remedy=[f"{left.remedy}: frees about {size}"],
        mechanism="idle",
        wasted=True,
        idle=[Idle(left.bytes, place.path if place is not None else "")],
        **({**about(named, place), "holder": name} if named is not None and place is not None else {"holder": name}),
    )
