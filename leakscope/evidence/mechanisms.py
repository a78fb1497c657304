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
    """A holder with what the sources say at its lines.

    ``bases``: of types that are derived from str, bytes, int or float, which of these. ``library_code``: of the
    libraries of which an object has grown.
    """

    found: Retained
    sources: Sequence[Source]
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
    def keys_said(self) -> str:
        return f" ({self.new_keys})" if self.new_keys else ""

    @property
    def adds_what_is_missing(self) -> bool:
        """The statement looks there first, and removes nothing."""
        pair = stored(self.statement) if self.statement is not None else None
        return pair is not None and self.statement is not None and is_looked_up_first(self.statement, pair[0])

    @property
    def waits(self) -> str:
        """Where its tasks wait."""
        return tasks_wait_in(self.found)[-1].said

    @property
    def smaller(self) -> str:
        """What to put in instead, where its members are objects that carry much."""
        kind, member = tail(self.found.kept.type_name), tail(self.member_type)
        is_much = self.found.holder.handle is not None and member and kind != member
        return f", and put in only what is read of each {member}, which keeps {kind} objects" if is_much else ""

    @property
    def edge(self) -> str | None:
        return self.named.reference.edge_kind

    @property
    def member_type(self) -> str:
        return self.place.member_type or ""

    @cached_property
    def up(self) -> list[Place]:
        """The place and those above it, below the first that is the user's."""
        found: list[Place] = []
        at: Place | None = self.place
        while at is not None and not at.is_user:
            found.append(at)
            at = at.parent
        return found

    @property
    def library(self) -> str | None:
        """Whose container it is: that of its owner, or of the nearest object above it."""
        types = (at.type_name for at in self.up if "." in at.type_name and not at.type_name.startswith(_PLAIN))
        module = self.place.reference.owner_module or next(types, None)
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
    up_to = "up to" if found.named.reference.edge_kind == "cache" else "about"  # some of a cache is of use
    would_free = f"that would save {up_to} {format_bytes(total)} {BY_THE_END}"
    if _HARDLY * total <= total - held < _MUCH * total:
        would_free += f", including {format_bytes(total - held)} of freed memory fragmented around its objects"
    one = Held(found, sources, bases or {}, library_code or Library(()))
    proved = ((mechanism, told) for mechanism, proof in MECHANISMS.items() if (told := proof(one)) is not None)
    mechanism, (first, *more) = next(proved, (None, [f"see what keeps what {one.variable} has{one.filled}"]))
    return Advice(mechanism, [f"{first}; {would_free}", *more])


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
    for above in one.up:
        how = _LET_GO.get(above.type_name) or (_of_registry(above) if above is one.place or _longer(above) else None)
        if how is not None:
            return [how]
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


# Caches and what is made of a function.


def _cache_keeps_self(one: Held) -> list[str] | None:
    """A cache round a method, in which objects of its class were seen: its keys are all arguments, self among them."""
    node, cls = (one.statement.node, one.statement.cls) if one.statement is not None else (None, None)
    if one.edge != "cache" or cls is None or not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
        return None
    names = [last_name(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
    several = any(tail(part.type_name) == cls.name and part.count[-1] > 1 for part in _all_below(one.place))
    if not several or not node.args.args or "staticmethod" in names or "classmethod" in names:
        return None
    return [
        f"@{next((name for name in names if 'cache' in name), names[0])} on the method {cls.name}.{node.name}() keeps "
        f"every object it is called on, and its results, in one cache: keep the results in the object itself "
        f"(functools.cached_property, or a dict that __init__ makes), or cache a function that is not given self"
    ]


def _unbounded_cache(one: Held) -> list[str] | None:
    if one.edge != "cache":
        return None
    how = f"give the cache{one.where} a maxsize, or call it with arguments that repeat"
    if not one.named.is_user and one.named.root_kind == "module":
        library = one.named.path.split(".", 1)[0]
        how = f"the cache is {library}'s own: give it arguments that repeat, or update {library}"
    return [how]


# What members carry.


def _registered(one: Held) -> list[str] | None:
    """A table of a library has functions or methods of the program's, and a line hands them over."""
    if one.place.is_user or one.member_type not in CALLABLES or one.line is None or one.line.kind != "adds":
        return None
    found = _offered(one)
    undoes = _undoes(one, found[1]) if found is not None else None
    by = f", by {undoes}" if undoes is not None else ""
    return [f"unregister what is registered{one.where} after use{by}"]


def _chain(one: Held) -> list[str] | None:
    most = _MOST * one.place.growth_bytes
    below = [part for part in _all_below(one.place) if part.chained and part.growth_bytes > most]
    link = one.found.link or next(iter(below), None)
    if link is None:
        return None
    kind = tail(link.type_name)
    by = f"as its {link.reference.variable}" if one.found.link is not None else "before it"
    return [f"end the chain{one.where}, in which each {kind} keeps another {by}: let a new one keep none"]


def _context_not_reset(one: Held) -> list[str] | None:
    """Each value of a context variable keeps the one before; or its default is a container that all contexts share."""
    if not one.named.type_name.endswith("ContextVar"):
        return None
    if any(child.chained for child in one.place.children):
        return [
            f"reset {one.variable} after use, with the token that set() returns{one.where}: each value keeps the one "
            f"before"
        ]
    made = has_default(one.sources, str(one.named.reference.variable), "ContextVar")
    if made is None:
        return None
    return [
        f"give {one.variable} no default ({made}), which all contexts share: set a new one where a context begins, and "
        f"reset it there"
    ]


def _is_written_and_unread(one: Held) -> bool:
    """It is a buffer of a transport."""
    above = (at.type_name for at in one.up[1:4])
    return "buffer" in str(one.place.reference.variable) and any(map(_TRANSPORT.search, above))


def _tracebacks(one: Held) -> list[str] | None:
    """Much of a member that was looked into hangs on a traceback."""
    if not any(part.type_name == "traceback" for part in _much_of_members(one.found.holder.largest or one.place)):
        return None
    keeps = "the exceptions keep the locals of every function they passed through, by their tracebacks: keep"
    return [f"{keeps} str(error), or error.with_traceback(None), instead{one.where}", *_unbounded(one)]


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
            return [f"{keeps} {how} of the part instead{one.where}", *_unbounded(one)]
    if one.member_type in _OF_A_WHOLE:
        instead, whole = _OF_A_WHOLE[one.member_type]
        kind = tail(one.member_type)
        return [f"each {kind} keeps {whole} alive: keep {instead} instead{one.where}", *_unbounded(one)]
    is_part = one.member_type == "torch.Tensor" and one.statement is not None and stores_part(one.statement)
    if not is_part or one.found.is_graph:
        return None
    keeps = "each member is a part of a larger tensor, and keeps all of that alive: keep a .clone() of the part instead"
    return [f"{keeps}{one.where}", *_unbounded(one)]


def _carries(one: Held) -> list[str] | None:
    """The members are of a class derived from str, bytes, int or float, and most of what is held is of another type."""
    kind, base = one.member_type, one.bases.get(one.member_type)
    if base is None:
        return None
    keeps = f"keep {base}() of each {tail(kind)}{one.where}: it keeps what it came from alive"
    inside = [part for part in _much_of_members(one.place) if part.reference.edge_kind == "attribute"]
    if inside:
        return [f"{keeps}, by its {inside[0].reference.variable} ({tail(inside[0].type_name)})"]
    others = [part for part in one.place.children if part.type_name not in (kind, base)]  # several members share it
    heavy = max(others, key=lambda part: float(part.deep_bytes[-1]), default=None)
    if heavy is None or float(heavy.deep_bytes[-1]) < _MUCH_OF_MEMBERS * float(one.place.deep_bytes[-1]):
        return None
    by = [part for part in others if part.reference.edge_kind == "attribute" and part.type_name == heavy.type_name]
    how = f", by its {by[0].reference.variable}" if by else ""
    return [f"{keeps}{how}, {format_count(heavy.count[-1])} {tail(heavy.type_name)} objects in all"]


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
        f"store less there, or keep it elsewhere and only as long as it is needed"
    ]


def _never_read(one: Held) -> list[str] | None:
    """A container of the program's own that its sources fill, and do not look at."""
    name, kind = str(one.named.reference.variable), one.named.type_name
    if one.named is not one.place or not one.place.is_user or kind not in _FILLED or one.line is None:
        return None
    is_derived = one.statement is not None and one.statement.cls is not None and one.statement.cls.bases
    if one.line.kind != "adds" or is_derived or not is_never_read(one.sources, name):
        return None  # what a class is derived from may know the name
    return [f"nothing in the sources reads {one.variable}: leave out what adds to it{one.where}"]


def _rebuilt(one: Held) -> list[str] | None:
    """``self.frame = concat([self.frame, rows])``, ``text += line``: what is no container takes in what it had."""
    node = one.statement.node if one.statement is not None else None
    target = node.target if isinstance(node, ast.AugAssign) else None
    if isinstance(node, ast.Assign) and len(node.targets) == 1:
        own = ast.dump(node.targets[0]).replace("Store()", "Load()")
        target = node.targets[0] if any(ast.dump(part) == own for part in ast.walk(node.value)) else None
    is_it = target is not None and last_name(target) == one.named.reference.variable and one.named.is_user
    if target is None or not is_it or one.named.type_name in _FILLED:
        return None
    name = ast.unparse(target)
    return [
        f"each pass makes {name} anew from all that it had and more{one.where}: keep only the latest of it, or write "
        f"each part to a file and keep a summary"
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
        f"Let a value keep a weakref.ref of its key, or what it needs of it{one.where}"
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
        f"{takes} or as its result is read"
    ]


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
    return [f"{why}{also}"]


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
            f"ids), or call {offered} for what is done with"
        ]
    kept = f"{library} keeps it in {one.place.said} until then"
    return [f"call {offered} once what is made{one.where} is done with: {kept}"]


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
        if owner.reference.edge_kind == "namespace" and owner.parent is not None:
            owner = owner.parent
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
            f"what is done with by {ends} that removes it"
        ]
    else:
        one_more = "one more in " if more else "in "
        ending = f"end what is done with by {ends}"
        if more and _takes_nothing_out(one):
            ending = "do without it: no function of it takes that out"
        told = [f"{library} keeps {one_more}{place.said} for what is done {at}: do that once, or {ending}"]
    if not one.named.is_user and library not in STANDARD_LIBRARY:
        told.append(f"check whether a newer {library} removes it")
    return told


def _takes_nothing_out(one: Held) -> bool:
    """The whole module in which the container is a variable was read."""
    module = one.place.reference.owner_module or ""
    return one.place.reference.edge_kind == "global" and one.library_code.knows_module(module)


def _unbounded(one: Held) -> list[str] | None:
    """A container of the program's own, which is filled and never emptied: how to bound it, by its type."""
    place, named, variable = one.place, one.named, one.variable
    beside = f", and from {one.others} as well" if one.others else ""
    is_inside = named is not place or one.found.holder.largest is not None
    if is_inside and not named.has_members:  # an optimizer, a parser
        return [f"remove from {place.said}, which {variable} has, what is no longer needed{one.filled}{beside}"]
    if not named.has_members:
        return [f"empty {variable}{one.filled}{beside}"]
    told = [f"{_how_to_bound(one, named if named.has_length else place)}{beside}"]
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


def _says(proves: Callable[[Held], object], *texts: str) -> Proof:
    """Where it is proved, sentences with what is known of the holder, ``one``."""
    return lambda one: [text.format(one=one) for text in texts] if proves(one) else None


MECHANISMS: dict[str, Proof] = {
    "library-registry": _let_go,
    "results-of-cells": _says(
        lambda one: are_results_of_cells(one.place),
        "end the last line of a cell with a semicolon, or assign it to a variable: IPython keeps what it returns "
        "(%reset -f out frees what is there, InteractiveShell.cache_size = 0 keeps none)",
    ),
    "exit-handlers": _says(  # only C code holds it, and it was handed over to be called
        lambda one: one.place.root_kind == OUTSIDE,
        "unregister what is registered{one.where} after use (as atexit.unregister does), or register one function for "
        "all",
    ),
    "cache-keeps-self": _cache_keeps_self,
    "unbounded-cache": _unbounded_cache,
    "exception-raised-again": _says(
        lambda one: one.line is not None and one.line.text.startswith("raise "),
        "raise a new exception each time{one.where}, not the one that {one.variable} keeps: its traceback keeps the "
        "locals of every function it passed through",
    ),
    "hooks": _says(
        lambda one: holds_hooks(one.found),
        "registering a hook{one.where} returns a handle: keep it, and call its remove() once the hook is done with",
    ),
    "registered-callables": _registered,
    "timers": _says(  # or where an event loop keeps them
        lambda one: (
            _TIMERS.search(one.member_type)
            or (one.place.reference.variable == "_scheduled" and one.library == "asyncio")
        ),
        "cancel each timer that is no longer needed: keep what is returned{one.where}, and call its cancel(). Until "
        "its time has come, a timer keeps its function and the arguments of it",
    ),
    "waiters": _says(
        lambda one: one.place.reference.variable == "_waiters",
        "cancel what waits for {one.variable}{one.where} once it is no longer needed",
    ),
    "autograd-history": _says(
        lambda one: one.found.is_graph,
        "detach what {one.variable} keeps{one.where}, by .detach() or, where a number is enough, .item(): each tensor "
        "carries the history it was computed by",
        "where nothing is trained, as in an evaluation, compute under torch.no_grad(): then there is no history",
    ),
    "context-not-reset": _context_not_reset,
    "chain": _chain,
    "unending-tasks": _says(
        lambda one: tasks_wait_in(one.found),
        "end the tasks that {one.variable} keeps: give what they wait for in {one.waits} a timeout, or cancel those "
        "that are no longer needed",
    ),
    "write-buffer": _says(
        _is_written_and_unread,
        "whoever reads from it is slower than what is written{one.where}: await drain() after writing, or close the "
        "connections of those that do not keep up",
    ),
    "stored-for-good": _stored_for_good,
    "tracebacks": _tracebacks,
    "views": _views,
    "values-with-more": _carries,
    "finished-work": _finished_work,
    "never-read": _never_read,
    "rebuilt-with-more": _rebuilt,
    "buffer-not-emptied": _says(
        lambda one: one.named.type_name in ("_io.StringIO", "_io.BytesIO"),
        "empty {one.variable} once what it has is read: seek(0), then truncate(); or write to a file",
    ),
    "values-keep-their-keys": _values_keep_their_keys,
    "slow-consumer": _says(
        lambda one: (
            any(_QUEUES.search(at.type_name) for at in (one.named, one.place))
            and one.found.removing
            and one.found.limit is None
        ),
        "more is put into {one.variable}{one.where} than {one.found.removing[0].place} takes out: give the queue a "
        "maxsize, so that who puts waits, or take out faster{one.smaller}",
    ),
    "removal-not-reached": _removal_not_reached,
    "library-way-out": _way_out,
    "library-keeps": _library_keeps,
    "default-argument": _says(
        lambda one: one.edge == "default",
        "make None the default of {one.named.reference.variable}, and a new container in the function if it is None: a "
        "default value is made once, as the function is defined, and all calls that give none share it",
    ),
    "class-attribute": _says(  # a class body makes it, and a method fills it by its self
        lambda one: one.edge == "class-attribute" and one.written.startswith(("self.", "cls.")),
        "{one.variable} is made once, in the class, and all its objects share it: make one for each object in "
        "__init__, or, if it is meant for all, remove what is no longer needed{one.filled}",
    ),
    "kept-callables": _says(
        lambda one: one.member_type in CALLABLES and one.place.is_user,
        "take each {one.member_type} out of {one.variable} once it is no longer called{one.filled}: a method keeps its "
        "object, unless a weakref.WeakMethod of it is kept, and a function what it encloses",
    ),
    "keys-that-do-not-repeat": _says(  # a cache of the program's own
        lambda one: one.adds_what_is_missing,
        "bound {one.variable}{one.filled}: it is a cache, and its keys{one.keys_said} hardly repeat. Keep the latest "
        "N, as functools.lru_cache(maxsize=N) does, or make keys that repeat",
    ),
    "unbounded-container": _unbounded,
}
