"""Why a holder keeps growing, in the table of mechanisms: what proves each one, and what its owner does about it.

A row asks the recording and the sources for its proof, and answers with what to do, or with None. The first that is
proved is the advice; what is not proved is not said. The name of a mechanism is the report's ``mechanism``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Optional

from ..agent import libraries
from ..facts.code.adding import Line, Source, find_calls
from ..facts.code.imports import STANDARD_LIBRARY
from ..facts.code.index import last_name, tail
from ..facts.code.statements import (
    Guard,
    Statement,
    guard_of,
    has_default,
    is_looked_up_first,
    is_never_read,
    new_each_time,
    statement_at,
    stored,
    stores_part,
    taken_out_after,
)
from ..facts.code.ways_out import Library
from ..facts.heap.owners import user_place, weighs_in_members
from ..facts.heap.place import OUTSIDE, Place
from ..facts.heap.waiting import Call, waits_in
from ..facts.retained.figures import Retained
from ..facts.where.holders import are_results_of_cells, holder_name
from ..facts.where.libraries import CALLABLES, is_hook_table
from ..findings import BY_THE_END
from ..units import format_bytes, format_count

# How to let go of what a library keeps on the user's behalf.
_LET_GO = {
    thing.name: thing.let_go
    for kind in (libraries.REGISTRY, libraries.KEEPER)
    for thing in libraries.all_of(kind)
    if thing.let_go
}
_REGISTRIES = {thing.name: thing for thing in libraries.all_of(libraries.REGISTRY) if thing.library is not None}
_ITS_TYPE = re.compile(r" \([^()]*\)$")  # behind the name of a holder
_MOST = 0.5  # of what it gained
_HARDLY, _MUCH = 0.05, 0.2  # of what mending it would free: what it pins
_MUCH_OF_MEMBERS = 0.3  # of what one holds: the traceback of an exception, the array that a view is of
_TIMERS = re.compile(r"(\.|\b)(TimerHandle|Timer|Timer\.Entry|timer\.Entry)$")
_QUEUES = re.compile(r"(^|\.)(_?queue\.(Simple|Lifo|Priority)?Queue|queues\.(Lifo|Priority)?Queue)$")
_TRANSPORT = re.compile(r"(Transport|StreamWriter|IOStream)$")
_PLAIN = ("collections.", "builtins.", "__main__.")
_FILLED = ("list", "dict", "set", "collections.deque", "collections.defaultdict", "collections.OrderedDict")
_ARRAYS = ("numpy.ndarray", "torch.Tensor")
# What keeps the whole that it is of, and what to keep in its place.
_OF_A_WHOLE = {
    "memoryview": ("bytes() of the part", "the buffer that it is of"),
    "re.Match": ("what .group() returns", "the text in which it was found"),
}


class Advice(NamedTuple):
    """``mechanism``: None where none is proved."""

    mechanism: str | None
    sentences: list[str]


@dataclass(frozen=True)
class Held:
    """A holder with what the sources say at its lines, and what mending it gives: ``would_free``, a clause.

    ``bases``: of types that are derived from str, bytes, int or float, which of these. ``library_code``: of the
    libraries of which an object has grown.
    """

    found: Retained
    sources: Sequence[Source]
    would_free: str
    size: str
    bases: Mapping[str, str]
    library_code: Library

    @property
    def place(self) -> Place:
        return self.found.place

    @property
    def named(self) -> Place:
        return self.found.named

    @property
    def line(self) -> Line | None:
        return self.found.line

    @property
    def variable(self) -> str:
        return _ITS_TYPE.sub("", self.found.name)

    @property
    def where(self) -> str:
        return f" at {self.line.place}" if self.line is not None else ""

    @property
    def filled(self) -> str:
        return f" (filled{self.where})" if self.where else ""

    @cached_property
    def others(self) -> str:
        """Names of other holders of the same: by itself, to let go of it here frees nothing."""
        return " and ".join(also_held_by(self.found))

    @cached_property
    def statement(self) -> Statement | None:
        """The one that adds to it."""
        line = self.line
        return statement_at(self.sources, line.file, line.line) if line is not None else None

    @property
    def written(self) -> str:
        """The container, as the statement that adds to it says it; else by its variable."""
        pair = stored(self.statement) if self.statement is not None else None
        return ast.unparse(pair[0]) if pair is not None else self.variable.rpartition(" ")[2]

    @property
    def new_keys(self) -> str:
        """``user, path``: what the line gives that may be another each time; empty where it gives constants alone."""
        line = self.line
        return ", ".join(new_each_time(self.sources, line.file, line.line)[:3]) if line is not None else ""

    @property
    def member_type(self) -> str:
        return self.place.member_type or ""

    @property
    def library(self) -> str | None:
        """Whose container it is: that of its owner, or of the nearest object above it."""
        module = self.place.reference.owner_module
        above: Place | None = self.place
        while module is None and above is not None and not above.is_user:
            module = above.type_name if "." in above.type_name and not above.type_name.startswith(_PLAIN) else None
            above = above.parent
        return module.split(".", 1)[0].lstrip("_") if module is not None else None

    @property
    def has_more_members(self) -> bool:
        """Or it is not known how many it has."""
        return not self.named.has_length or _longer(self.named)


Proof = Callable[[Held], Optional[list[str]]]


def advice(
    found: Retained,
    sources: Sequence[Source],
    total: int,
    held: int,
    bases: Mapping[str, str] | None = None,
    library_code: Library | None = None,
) -> Advice:
    """``total``, ``held``: as for the title, which speaks of what is pinned where that is much."""
    size = format_bytes(total)
    would_free = f"that would save about {size} {BY_THE_END}"
    if _HARDLY * total <= total - held < _MUCH * total:
        would_free += f", including {format_bytes(total - held)} of freed memory fragmented around its objects"
    one = Held(found, sources, would_free, size, bases or {}, library_code or Library(()))
    for mechanism, proof in MECHANISMS.items():
        sentences = proof(one)
        if sentences is not None:
            return Advice(mechanism, sentences)
    return Advice(None, [f"see what keeps what {one.variable} has{one.filled}; {one.would_free}"])


def also_held_by(found: Retained) -> list[str]:
    """Names of the other holders of what multiplies there, at most two."""
    below = [child for child in found.place.children if child.growth_bytes >= 0.5 * found.place.growth_bytes > 0]
    return list(dict.fromkeys(holder_name(user_place(other)) for child in below for other in child.also_held_by))[:2]


def tasks_wait_in(found: Retained) -> list[Call]:
    return waits_in(found.place, found.look.heap.places)


def within_member(below: Place) -> str:
    """``_user_attrs['scores'] (numpy.ndarray)``: how a member has it."""
    parent = below.parent
    name = str(parent.reference.variable) if parent is not None and isinstance(parent.reference.variable, str) else ""
    return f"{name}[{below.path.rpartition('[')[2]} ({below.type_name})"


def holds_hooks(found: Retained) -> bool:
    return is_hook_table(found.named.reference.variable) or is_hook_table(found.place.reference.variable)


# What libraries keep on the program's behalf, in places that are known.


def _let_go(one: Held) -> list[str] | None:
    """It is a registry of a library that grows, or lies below an object, for which it is known what lets go."""
    above: Place | None = one.place
    while above is not None and not above.is_user:
        how = _LET_GO.get(above.type_name) or (_of_registry(above) if above is one.place or _longer(above) else None)
        if how is not None:
            return [f"{how}; {one.would_free}"]
        above = above.parent
    return None


def _of_registry(place: Place) -> str | None:
    """By its path, or by the attribute that it is of an object of the library."""
    known = _REGISTRIES.get(str(place.reference.variable)) if place.reference.edge_kind == "attribute" else None
    is_its = known is not None and known.library == (place.reference.owner_module or "").split(".", 1)[0]
    return _LET_GO.get(place.path) or (known.let_go if known is not None and is_its else None)


def _longer(place: Place) -> bool:
    return place.has_length and bool(place.length[-1] > place.length[0])


def of_call(sources: Sequence[Source], file: str, line: int) -> str | None:
    """What lets go of what a function leaves of each call, if one of those that are known is called at a line."""
    for function, how in _LET_GO.items():
        if any((call.file, call.line) == (file, line) for call in find_calls(sources, function)):
            return how
    return None


def _results_of_cells(one: Held) -> list[str] | None:
    if not are_results_of_cells(one.place):
        return None
    return [
        f"end the last line of a cell with a semicolon, or assign it to a variable: IPython keeps what it returns; "
        f"{one.would_free} (%reset -f out frees what is there, InteractiveShell.cache_size = 0 keeps none)"
    ]


def _exit_handlers(one: Held) -> list[str] | None:
    """Only C code holds it, and it was handed over to be called."""
    if one.place.root_kind != OUTSIDE:
        return None
    return [
        f"unregister what is registered{one.where} after use (as atexit.unregister does), or register one function "
        f"for all; {one.would_free}"
    ]


# Caches and what is made of a function.


def _cache_keeps_self(one: Held) -> list[str] | None:
    """A cache round a method, in which objects of its class were seen: its keys are all arguments, self among them."""
    function = _method_with_cache(one)
    if function is None:
        return None
    decorator, owner = function
    return [
        f"{decorator} on the method {owner} keeps every object it is called on, and its results, in one cache: "
        f"keep the results in the object itself (functools.cached_property, or a dict that __init__ makes), or cache a "
        f"function that is not given self; that would save up to {one.size} {BY_THE_END}"
    ]


def _method_with_cache(one: Held) -> tuple[str, str] | None:
    if one.named.reference.edge_kind != "cache" or one.statement is None:
        return None
    node = one.statement.node
    if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)) or one.statement.cls is None:
        return None
    names = [last_name(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
    if not node.args.args or "staticmethod" in names or "classmethod" in names:
        return None
    own = one.statement.cls.name
    if not any(tail(part.type_name) == own and part.count[-1] > 1 for part in _all_below(one.place)):
        return None  # one object, or nobody saw it there
    return f"@{next((name for name in names if 'cache' in name), names[0])}", f"{one.statement.cls.name}.{node.name}()"


def _unbounded_cache(one: Held) -> list[str] | None:
    if one.named.reference.edge_kind != "cache":
        return None
    how = f"give the cache{one.where} a maxsize, or call it with arguments that repeat"
    if not one.named.is_user and one.named.root_kind == "module":
        library = one.named.path.split(".", 1)[0]
        how = f"the cache is {library}'s own: give it arguments that repeat, or update {library}"
    return [f"{how}: that would save up to {one.size} {BY_THE_END}"]


# What members carry.


def _exception_raised_again(one: Held) -> list[str] | None:
    if one.line is None or not one.line.text.startswith("raise "):
        return None
    return [
        f"raise a new exception each time{one.where}, not the one that {one.variable} keeps: its traceback keeps the "
        f"locals of every function it passed through; {one.would_free}"
    ]


def _hooks(one: Held) -> list[str] | None:
    if not holds_hooks(one.found):
        return None
    handle = f"registering a hook{one.where} returns a handle: keep it"
    return [f"{handle}, and call its remove() once the hook has done its work; {one.would_free}"]


def _registered(one: Held) -> list[str] | None:
    """A table of a library has functions or methods of the program's, and a line hands them over."""
    if one.place.is_user or one.member_type not in CALLABLES or one.line is None or one.line.kind != "adds":
        return None
    found = _offered(one)
    undoes = _undoes(one, found[1]) if found is not None else None
    by = f", by {undoes}" if undoes is not None else ""
    return [f"unregister what is registered{one.where} after use{by}; {one.would_free}"]


def _waiters(one: Held) -> list[str] | None:
    if one.place.reference.variable != "_waiters":
        return None
    return [f"cancel what waits for {one.variable}{one.where} once it is no longer needed; {one.would_free}"]


def _timers(one: Held) -> list[str] | None:
    """Its members are timers, or it is where an event loop keeps them."""
    is_loop = one.place.reference.variable == "_scheduled" and one.library == "asyncio"
    if not is_loop and not _TIMERS.search(one.member_type):
        return None
    return [
        f"cancel each timer that is no longer needed: keep what is returned{one.where}, and call its cancel(). Until "
        f"its time has come, a timer keeps its function and the arguments of it; {one.would_free}"
    ]


def _autograd_history(one: Held) -> list[str] | None:
    if not one.found.is_graph:
        return None
    return [
        f"detach what {one.variable} keeps{one.where}, by .detach() or, where a number is enough, .item(): each tensor "
        f"carries the history it was computed by; {one.would_free}",
        "where nothing is trained, as in an evaluation, compute under torch.no_grad(): then there is no history",
    ]


def _chain(one: Held) -> list[str] | None:
    most = _MOST * one.place.growth_bytes
    below = [part for part in _all_below(one.place) if part.chained and part.growth_bytes > most]
    link = one.found.link or next(iter(below), None)
    if link is None:
        return None
    kind = tail(link.type_name)
    by = f"as its {link.reference.variable}" if one.found.link is not None else "before it"
    how = f"end the chain{one.where}, in which each {kind} keeps another {by}: let a new one keep none"
    return [f"{how}; {one.would_free}"]


def _unending_tasks(one: Held) -> list[str] | None:
    calls = tasks_wait_in(one.found)
    if not calls:
        return None
    return [
        f"end the tasks that {one.variable} keeps: give what they wait for in {calls[-1].said} a timeout, or cancel "
        f"those that are no longer needed; {one.would_free}"
    ]


def _context_not_reset(one: Held) -> list[str] | None:
    """Each value of a context variable keeps the one before; or its default is a container that all contexts share."""
    if not one.named.type_name.endswith("ContextVar"):
        return None
    if any(child.chained for child in one.place.children):
        return [
            f"reset {one.variable} after use, with the token that set() returns{one.where}: each value keeps the one "
            f"before; {one.would_free}"
        ]
    made = has_default(one.sources, str(one.named.reference.variable), "ContextVar")
    if made is None:
        return None
    return [
        f"give {one.variable} no default ({made}), which all contexts share: set a new one where a context begins, and "
        f"reset it there; {one.would_free}"
    ]


def _write_buffer(one: Held) -> list[str] | None:
    """Of a transport: what was written and nobody has read yet."""
    above, steps = one.place.parent, 0
    while above is not None and steps < 3 and not _TRANSPORT.search(above.type_name):
        above, steps = above.parent, steps + 1
    if "buffer" not in str(one.place.reference.variable) or above is None or steps == 3:
        return None
    return [
        f"whoever reads from it is slower than what is written{one.where}: await drain() after writing, or close the "
        f"connections of those that do not keep up; {one.would_free}"
    ]


def _tracebacks(one: Held) -> list[str] | None:
    """Much of a member that was looked into hangs on a traceback."""
    if not any(part.type_name == "traceback" for part in _much_of_members(one.found.holder.largest or one.place)):
        return None
    keeps = "the exceptions keep the locals of every function they passed through, by their tracebacks: keep"
    return [f"{keeps} str(error), or error.with_traceback(None), instead{one.where}; {one.would_free}", *_bound(one)]


def _views(one: Held) -> list[str] | None:
    """Much of a member that was looked into is the array that it is a view of; or each is a part of another tensor.

    Of a tensor's storage a snapshot knows the size, and not how much of it the tensor shows.
    """
    for part in _much_of_members(one.found.holder.largest or one.place):
        is_torch = part.type_name == "torch.Tensor"
        is_base = not is_torch or part.reference.variable in ("_base", "base")
        if part.parent is not None and part.type_name == part.parent.type_name in _ARRAYS and is_base:
            how = ".clone()" if is_torch else ".copy()"
            keeps = "the members are views that keep a larger array alive: keep a"
            return [f"{keeps} {how} of the part instead{one.where}; {one.would_free}", *_bound(one)]
    if one.member_type in _OF_A_WHOLE:
        instead, whole = _OF_A_WHOLE[one.member_type]
        kind = tail(one.member_type)
        return [f"each {kind} keeps {whole} alive: keep {instead} instead{one.where}; {one.would_free}", *_bound(one)]
    is_part = one.member_type == "torch.Tensor" and one.statement is not None and stores_part(one.statement)
    if not is_part or one.found.is_graph:
        return None
    keeps = "each member is a part of a larger tensor, and keeps all of that alive: keep a .clone() of the part instead"
    return [f"{keeps}{one.where}; {one.would_free}", *_bound(one)]


def _carries(one: Held) -> list[str] | None:
    """The members are of a class derived from str, bytes, int or float, and most of what is held is of another type."""
    kind, base = one.member_type, one.bases.get(one.member_type)
    if base is None:
        return None
    keeps = f"keep {base}() of each {tail(kind)}{one.where}: it keeps what it came from alive"
    inside = [part for part in _much_of_members(one.place) if part.reference.edge_kind == "attribute"]
    if inside:
        return [f"{keeps}, by its {inside[0].reference.variable} ({tail(inside[0].type_name)}); {one.would_free}"]
    others = [part for part in one.place.children if part.type_name not in (kind, base)]  # several members share it
    heavy = max(others, key=lambda part: float(part.deep_bytes[-1]), default=None)
    if heavy is None or float(heavy.deep_bytes[-1]) < _MUCH_OF_MEMBERS * float(one.place.deep_bytes[-1]):
        return None
    by = [part for part in others if part.reference.edge_kind == "attribute" and part.type_name == heavy.type_name]
    how = f", by its {by[0].reference.variable}" if by else ""
    return [f"{keeps}{how}, {format_count(heavy.count[-1])} {tail(heavy.type_name)} objects in all; {one.would_free}"]


def _all_below(place: Place) -> list[Place]:
    found = list(place.children)
    for one in found:  # which becomes longer
        found += one.children
    return found


def _much_of_members(place: Place) -> list[Place]:
    """What is much of one of the members, seen in those that snapshots looked into."""
    found = []
    for member in place.children:
        looked_at = list(member.children) if member.deep_bytes[-1] > 0 else []
        for part in looked_at:  # which becomes longer
            if float(part.deep_bytes[-1]) > _MUCH_OF_MEMBERS * float(member.deep_bytes[-1]):
                found.append(part)
            looked_at += part.children
    return found


# Containers.


def _stored_for_good(one: Held) -> list[str] | None:
    """A library makes a record for each piece of work, and the program puts into it what weighs."""
    below, line = weighs_in_members(one.place), one.line
    if below is None or line is None or line.kind != "adds" or one.place.is_user:
        return None
    return [
        f"what {line.place} stores is kept in {one.place.said} for good, and most of it is {within_member(below)}: "
        f"store less there, or keep it elsewhere and only as long as it is needed; {one.would_free}"
    ]


def _never_read(one: Held) -> list[str] | None:
    """A container of the program's own that its sources fill, and do not look at."""
    name, kind = str(one.named.reference.variable), one.named.type_name
    if one.named is not one.place or not one.place.is_user or kind not in _FILLED or one.line is None:
        return None
    is_derived = one.statement is not None and one.statement.cls is not None and one.statement.cls.bases
    if one.line.kind != "adds" or is_derived or not is_never_read(one.sources, name):
        return None  # what a class is derived from may know the name
    return [f"nothing in the sources reads {one.variable}: leave out what adds to it{one.where}; {one.would_free}"]


def _rebuilt(one: Held) -> list[str] | None:
    """``self.frame = concat([self.frame, rows])``: what is no container becomes larger by what it had."""
    node = one.statement.node if one.statement is not None else None
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    if target is None or not one.named.is_user or last_name(target) != one.named.reference.variable:
        return None
    own, name = ast.dump(target).replace("Store()", "Load()"), ast.unparse(target)
    value = node.value if isinstance(node, ast.Assign) else None
    if value is None or one.named.type_name in _FILLED or all(ast.dump(part) != own for part in ast.walk(value)):
        return None
    return [
        f"each pass makes {name} anew from all that it had and more{one.where}: keep only the latest of it, or write "
        f"each part to a file and keep a summary; {one.would_free}"
    ]


def _values_keep_their_keys(one: Held) -> list[str] | None:
    """A mapping that lets go of an entry with its key, and does not."""
    kinds = [at.type_name for at in (one.place, one.place.parent) if at is not None]
    leads = [part for part in _all_below(one.place) if part.reference.edge_kind == "attribute" and part.reference.owner]
    if "weakref.WeakKeyDictionary" not in kinds or not leads or not one.has_more_members:
        return None
    attribute = f"{leads[0].reference.owner}.{leads[0].reference.variable}"
    return [
        f"see whether the values of {one.variable} lead to their own keys, as by {attribute}: then no key ever goes. "
        f"Let a value keep a weakref.ref of its key, or what it needs of it{one.where}; {one.would_free}"
    ]


def _finished_work(one: Held) -> list[str] | None:
    """Futures or tasks that are kept for good, each with what it returned."""
    kind = tail(one.member_type)
    if kind not in ("Future", "Task") or not one.place.is_user or one.found.removing:
        return None
    out = "discard" if one.place.type_name == "set" else "remove"
    takes = f"add_done_callback({one.written}.{out})"
    return [
        f"each {kind} keeps what it returned: take it out of {one.variable} once it is done{one.filled}, by "
        f"{takes} or as its result is read; {one.would_free}"
    ]


def _slow_consumer(one: Held) -> list[str] | None:
    """A queue: what is put in is also taken out, but more slowly."""
    kinds = (one.named.type_name, one.place.type_name)
    if not any(map(_QUEUES.search, kinds)) or not one.found.removing or one.found.limit is not None:
        return None
    taking = one.found.removing[0]
    return [
        f"more is put into {one.variable}{one.where} than {taking.place} takes out: give the queue a maxsize, so that "
        f"who puts waits, or take out faster{_smaller(one)}; {one.would_free}"
    ]


def _smaller(one: Held) -> str:
    """What to put in instead, where its members are objects that carry much."""
    kind = one.found.kept.type_name
    member = tail(one.member_type)
    is_much = one.found.holder.handle is not None and member and tail(kind) != member
    return f", and put in only what is read of each {member}, which keeps {tail(kind)} objects" if is_much else ""


def _removal_not_reached(one: Held) -> list[str] | None:
    """A statement removes members, and does so less often than they are added: why, by what stands round it."""
    if not one.found.removing or one.found.limit is not None or not one.has_more_members:
        return None
    removing, variable = one.found.removing[0], one.variable
    guard = guard_of(one.sources, removing.file, removing.line)
    also = f"; remove them from {one.others} as well" if one.others else ""
    empties = bool(re.search(r"\.clear\(", removing.text))
    does = f"{removing.place} {'empties' if empties else 'removes members of'} {variable}"
    after = taken_out_after(one.statement) if one.statement is not None else None
    if after is not None and _begins_at(after[1], removing):
        why = f"{does} only if nothing raises before: put it into the finally of a try that begins behind{one.where}"
        why = why.replace("behind at", "behind")
    elif guard is not None:
        why = f"{does} {_only(guard, removing)} {one.where.strip() or 'somewhere'}"
    elif empties:
        why = f"see why {removing.place}, which empties {variable}, is not reached as often as it is filled{one.where}"
    else:
        why = f"see why {removing.place} removes fewer members of {variable} than are added{one.where}: it may be "
        why += "skipped after an exception"
        why += ", or not find the key" if re.search(r"(remove|discard|pop)\(\w|del .*\[", removing.text) else ""
    return [f"{why}{also}; {one.would_free}"]


def _begins_at(node: ast.stmt, line: Line) -> bool:
    return node.lineno <= line.line <= (node.end_lineno or node.lineno)


def _only(guard: Guard, removing: Line) -> str:
    at = f"{removing.file.rsplit('/', 1)[-1]}:{guard.line}"
    if guard.kind == "uncalled":
        return f"in {guard.text}(), which nothing calls: call it for each that is no longer needed. They are added"
    if guard.kind == "handler":
        return f"only after {guard.text} ({at}): remove them also where none is raised. They are added"
    if guard.kind == "condition":
        return f"only if {guard.text} ({at}): see that it comes to this as often as members are added"
    return f"unless {at} leaves before, if {guard.text}: see that it comes to this as often as members are added"


def _way_out(one: Held) -> list[str] | None:
    """By its source, the library has a public method that removes from what grows, on an object the path leads by."""
    found = _offered(one) if not one.place.is_user else None
    if found is None:
        return None
    owner, methods = found
    undoes = _undoes(one, methods)
    offered = undoes or " or ".join(f"{owner}.{name}()" for name in methods[:2])
    library = one.library or owner.partition(".")[0]
    if undoes is None and one.new_keys and one.place.type_name.endswith(("dict", "Dict")):
        return [
            f"{library} keeps an entry in {one.place.said} {_each_new(one.new_keys)}{one.where}: let these repeat (no "
            f"ids), or call {offered} for what is done with; {one.would_free}"
        ]
    kept = f"{library} keeps it in {one.place.said} until then"
    return [f"call {offered} once what is made{one.where} is done with: {kept}; {one.would_free}"]


def _undoes(one: Held, methods: Sequence[str]) -> str | None:
    """``self.progress.remove_task()`` for a line that calls ``self.progress.add_task()``, where that is offered."""
    calls = [node for node in ast.walk(one.statement.node) if isinstance(node, ast.Call)] if one.statement else []
    for func in (call.func for call in calls):
        for name in methods if isinstance(func, ast.Attribute) else ():
            does, undoes = (re.findall(r"[a-z]+|[A-Z][a-z]*", word) for word in (func.attr, name))
            if name in (f"un{func.attr}", f"dis{func.attr}") or (len(does) > 1 and does[1:] == undoes[1:]):
                return f"{ast.unparse(func.value)}.{name}()"
    return None


def _each_new(keys: str) -> str:
    return f"for each new combination of {keys}" if "," in keys else f"for each new {keys}"


def _offered(one: Held) -> tuple[str, list[str]] | None:
    """The object that has the ways out, as the path calls it, and these; of the outermost object that has some."""
    at, code, best = one.place, one.library_code, None
    inner: list[str] = []
    while at.parent is not None and not at.is_user:
        owner, attribute = at.parent, str(at.reference.variable)
        if at.reference.edge_kind == "attribute":
            methods = code.methods(owner.type_name, attribute, inner)
            if not methods and (inner or best is not None):
                break
            inner = methods or inner
            best = (owner.said.rpartition(" ")[2], methods) if methods else best
        elif at.reference.edge_kind == "global" and not inner:
            module = at.reference.owner_module or ""
            functions = code.functions(module, attribute)
            return (module, functions) if functions else None
        at = owner
    return best


def _library_keeps(one: Held) -> list[str] | None:
    """Nobody can remove from it by its name: it is private, or the program has no name for what it is in."""
    library, place = one.library, one.place
    has_name = place is one.named or (place.has_length and not str(place.reference.variable).startswith("_"))
    if place.is_user or library is None or (one.named.is_user and has_name and "<" not in place.path):
        return None
    return [*_let_library(one, library)]


def _let_library(one: Held, library: str) -> list[str]:
    """What its owner can do about a container that a library has for itself: use less of it, or what ends it."""
    place = one.place
    at = f"at {one.line.place}" if one.line is not None else "by some call"
    keys, more = one.new_keys, _longer(place)
    owner = place.reference.owner if place.reference.edge_kind == "attribute" else None
    ends = f"a method of {owner}" if owner is not None else f"a function of {library}"
    if more and place.type_name.endswith(("dict", "Dict")):
        met = f"{_each_new(keys)} {at}" if keys else f"for each new key that it meets {at}"
        told = [
            f"{library} keeps an entry in {place.said} {met}: let these repeat (no ids, no new objects), or end "
            f"what is done with by {ends} that removes it; {one.would_free}"
        ]
    elif more and _takes_nothing_out(one):
        told = [
            f"{library} keeps one more in {place.said} for what is done {at}, and no function of it takes it out: do "
            f"that once and use it again, or do without it; {one.would_free}"
        ]
    elif more:
        told = [
            f"{library} keeps one more in {place.said} for what is done {at}: do that once and use it again, or end "
            f"what is done with by {ends} that removes it; {one.would_free}"
        ]
    else:
        told = [f"{library} keeps in {place.said} what is done {at}: end what is done with by {ends}; {one.would_free}"]
    if not one.named.is_user and library not in STANDARD_LIBRARY:
        told.append(f"check whether a newer {library} removes it")
    return told


def _takes_nothing_out(one: Held) -> bool:
    """The whole module in which the container is a variable was read."""
    module = one.place.reference.owner_module or ""
    return one.place.reference.edge_kind == "global" and one.library_code.knows_module(module)


def _default_argument(one: Held) -> list[str] | None:
    if one.named.reference.edge_kind != "default":
        return None
    name = str(one.named.reference.variable)
    return [
        f"make None the default of {name}, and a new container in the function if it is None: a default value is made "
        f"once, as the function is defined, and all calls that give none share it; {one.would_free}"
    ]


def _class_attribute(one: Held) -> list[str] | None:
    """A container that a class body makes, and a method fills by its self: all objects share it."""
    if one.named.reference.edge_kind != "class-attribute" or not one.written.startswith(("self.", "cls.")):
        return None
    return [
        f"{one.variable} is made once, in the class, and all its objects share it: make one for each object in "
        f"__init__, or, if it is meant for all, remove what is no longer needed{one.filled}; {one.would_free}"
    ]


def _keys_that_do_not_repeat(one: Held) -> list[str] | None:
    """A cache of the program's own: it looks there first, adds what is missing, and removes nothing."""
    pair = stored(one.statement) if one.statement is not None else None
    if pair is None or one.statement is None or not is_looked_up_first(one.statement, pair[0]):
        return None
    keys = f" ({one.new_keys})" if one.new_keys else ""
    return [
        f"bound {one.variable}{one.filled}: it is a cache, and its keys{keys} hardly repeat. Keep the latest N, as "
        f"functools.lru_cache(maxsize=N) does, or make keys that repeat; {one.would_free}"
    ]


def _callables(one: Held) -> list[str] | None:
    """What it is given are functions or methods: each keeps the object that it is of, or what it encloses."""
    if one.member_type not in CALLABLES or not one.place.is_user:
        return None
    keeps = "the object that it is of" if one.member_type == "method" else "what it encloses"
    weak = ", or keep a weakref.WeakMethod of it" if one.member_type == "method" else ""
    return [
        f"take each {one.member_type} out of {one.variable} once it is no longer called{one.filled}{weak}: each keeps "
        f"{keeps}; {one.would_free}"
    ]


def _unbounded(one: Held) -> list[str] | None:
    """A container of the program's own, which is filled and never emptied."""
    return _bound(one, whole=True)


def _bound(one: Held, *, whole: bool = False) -> list[str]:
    """How to bound it, by its type. ``whole``: nothing else is known, so that this tells what it saves."""
    place, named, variable = one.place, one.named, one.variable
    saves = f"; {one.would_free}" if whole else ""
    beside = f", and from {one.others} as well" if one.others else ""
    is_inside = named is not place or one.found.holder.largest is not None
    if is_inside and not named.has_members:  # an optimizer, a parser
        return [f"remove from {place.said}, which {variable} has, what is no longer needed{one.filled}{beside}{saves}"]
    if not named.has_members:
        return [f"empty {variable}{one.filled}{beside}{saves}"]
    told = [f"{_how_to_bound(one, named if named.has_length else place)}{beside}{saves}"]
    member = one.member_type or one.found.kept.type_name
    if member.startswith("torch.") and one.found.tensor_growth_bytes > 0.5 * max(place.growth_bytes, 1.0):
        told.append("if only numbers are needed from these tensors, keep .item() or a small summary instead")
    return told


def _how_to_bound(one: Held, place: Place) -> str:
    kind, variable, name = tail(place.type_name), one.variable, one.written
    if kind == "deque":
        return f"bound {variable}{one.filled}, by the maxlen of its deque, or empty it once it has been used"
    if kind.endswith(("dict", "Dict", "Counter")):
        keys = one.new_keys
        each = f" (a new one for each {keys}{one.where})" if keys and "," not in keys else one.filled
        return (
            f"delete each entry of {variable}{each} once it is done with, or bound it: keep the latest, or those in use"
        )
    if kind == "list":
        keep = f", or keep the latest (del {name}[:-N])" if len(name) <= 40 else ""
        return f"empty {variable}{one.filled} once it has been used{keep}"
    return f"remove what is no longer needed from {variable}{one.filled}, or bound it"


MECHANISMS: dict[str, Proof] = {
    "library-registry": _let_go,
    "results-of-cells": _results_of_cells,
    "exit-handlers": _exit_handlers,
    "cache-keeps-self": _cache_keeps_self,
    "unbounded-cache": _unbounded_cache,
    "exception-raised-again": _exception_raised_again,
    "hooks": _hooks,
    "registered-callables": _registered,
    "timers": _timers,
    "waiters": _waiters,
    "autograd-history": _autograd_history,
    "context-not-reset": _context_not_reset,
    "chain": _chain,
    "unending-tasks": _unending_tasks,
    "write-buffer": _write_buffer,
    "stored-for-good": _stored_for_good,
    "tracebacks": _tracebacks,
    "views": _views,
    "values-with-more": _carries,
    "never-read": _never_read,
    "rebuilt-with-more": _rebuilt,
    "values-keep-their-keys": _values_keep_their_keys,
    "finished-work": _finished_work,
    "slow-consumer": _slow_consumer,
    "removal-not-reached": _removal_not_reached,
    "library-way-out": _way_out,
    "library-keeps": _library_keeps,
    "default-argument": _default_argument,
    "class-attribute": _class_attribute,
    "kept-callables": _callables,
    "keys-that-do-not-repeat": _keys_that_do_not_repeat,
    "unbounded-container": _unbounded,
}
