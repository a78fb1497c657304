"""Why a holder keeps growing, in the table of mechanisms: what proves each one, and what its owner does about it.

A row asks the recording and the sources for its proof, and says what to do. The first that is proved is the advice;
what is not proved is not said. The name of a mechanism is the report's ``mechanism``.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice, takewhile
from typing import Any, NamedTuple

from ..agent import libraries
from ..facts.calls import Call
from ..facts.code.adding import GIVES, Line, Source
from ..facts.code.imports import STANDARD_LIBRARY
from ..facts.code.index import tail
from ..facts.code.points_to import adds
from ..facts.code.statements import (
    SHORT,
    Statement,
    guard_of,
    is_looked_up_first,
    latest_read,
    new_each_time,
    only_read,
    regrown,
    statement_at,
    stored,
)
from ..facts.code.syntax import DEFINED, arguments_of, last_name
from ..facts.code.ways_out import Library, emptied_by
from ..facts.heap.owners import user_place, weighs_in_members, whole
from ..facts.heap.place import OUTSIDE, TRACEBACK, Place, downwards, upwards
from ..facts.heap.waiting import waits_in
from ..facts.retained.figures import Retained
from ..facts.where.holders import are_results_of_cells, holder_name, key_in
from ..facts.where.libraries import CALLABLES, is_hook_table, registers_hook
from ..findings import BY_THE_END
from ..units import FEWEST, GOOD_PART, HARDLY, MOST, MUCH, format_bytes, format_count

_KNOWN = [thing for kind in (libraries.REGISTRY, libraries.KEEPER) for thing in libraries.all_of(kind)]
_LET_GO = {thing.name: thing.let_go for thing in _KNOWN if thing.let_go}  # of what a library keeps for the user
_REGISTRIES = {thing.name: thing for thing in libraries.all_of(libraries.REGISTRY) if thing.library is not None}
_MUCH_OF_MEMBERS = GOOD_PART  # of what one holds: the traceback of an exception
_PLAIN = ("collections.", "builtins.", "__main__.")
_FILLED = (
    "list",
    "bytearray",
    "dict",
    "set",
    "collections.deque",
    "collections.defaultdict",
    "collections.OrderedDict",
)
# What keeps the whole that it is of, and what to keep in its place.
_OF_A_WHOLE = {
    "memoryview": ("bytes() of the part", "the buffer that it is of"),
    "re.Match": ("what .group() returns", "the text in which it was found"),
    "lxml.etree._Element": (
        "what is read of it, as its text, or copy.deepcopy() of a part",
        "the document that it is of, with its whole tree,",
    ),
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
    def inner(self) -> Place:
        """Of an object of a library's, of which several parts grow, the part that grew most."""
        largest = self.found.holder.largest
        is_part = largest is not None and largest.reference.edge_kind == "attribute" and not largest.is_user
        return whole(largest if largest is not None and is_part and not self.place.has_length else self.place)

    @property
    def line(self) -> Line | None:
        return self.found.line

    @property
    def variable(self) -> str:
        return re.sub(r" \([^()]*\)$", "", self.found.name)  # without its type

    @property
    def where(self) -> str:
        return f" at {self.line.place}" if self.line is not None else ""

    @property
    def filled(self) -> str:
        return f" (filled{self.where})" if self.where else ""

    @property
    def member_type(self) -> str:
        return self.place.member_type or ""

    @property
    def member(self) -> str:
        return tail(self.member_type)

    @property
    def is_added_to(self) -> bool:
        return self.line is not None and self.line.kind == "adds"

    @property
    def has_more_members(self) -> bool:
        """Or its members have, or it is not known how many there are."""
        return not self.named.has_length or _longer(self.named) or self.named.longer_member is not None

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
    def node(self) -> ast.stmt | None:
        return self.statement.node if self.statement is not None else None

    @property
    def calls(self) -> list[ast.Call]:
        """All in the statement that adds to it."""
        return [one for one in ast.walk(self.node) if isinstance(one, ast.Call)] if self.node is not None else []

    @property
    def written(self) -> str:
        """The container, as the statement that adds to it says it; else by its variable."""
        pair = stored(self.node)
        return ast.unparse(pair[0]) if pair is not None else self.variable.rpartition(" ")[2]

    @property
    def new_keys(self) -> str:
        """``user, path``: what the line gives that may be another each time; empty where it gives constants alone."""
        return ", ".join(new_each_time(self.node)[:3]) if self.node is not None else ""

    @property
    def asked(self) -> str:
        """``combination of user, path at app.py:7``: what a library is asked for there. Empty where it is to add."""
        keys = "" if any(adds(last_name(call.func)) for call in self.calls) else self.new_keys
        return f"{'combination of ' if ',' in keys else ''}{keys}{self.where}" if keys else ""

    @property
    def library(self) -> str | None:
        """Whose container it is: that of its owner, or of the nearest object above it."""
        for at in _above(self.inner):
            kind = at.type_name if "." in at.type_name and not at.type_name.startswith(_PLAIN) else None
            module = at.reference.owner_module or kind
            if module is not None:
                return module.split(".", 1)[0].lstrip("_")
        return None


class Mechanism(NamedTuple):
    """``said``: what its owner does, filled with ``one`` and with what was ``found``, or its parts if that is a dict.

    ``proof``: false where it is not proved. ``more``: what else may be done about such a holder. ``saves``: how much
    of what it gained.
    """

    proof: Callable[[Held], Any]
    said: str = "{found}"
    more: Callable[[Held], Sequence[str]] = lambda one: ()
    saves: str = "about"


def advice(
    found: Retained,
    sources: Sequence[Source],
    total: int,
    held: int,
    bases: Mapping[str, str] | None = None,
    library_code: Library | None = None,
) -> Advice:
    """``total``, ``held``: as for the title, which speaks of what is pinned where that is much."""
    size, pinned = format_bytes(total), total - held
    frees = f"that would save {{}} {size} {BY_THE_END}"
    if HARDLY * total <= pinned < MUCH * total:
        frees += f", including {format_bytes(pinned)} of freed memory fragmented around its objects"
    one = Held(found, sources, bases or {}, library_code or Library(()))
    for name, row in MECHANISMS.items():
        proved = row.proof(one)
        if proved:
            said = row.said.format(one=one, found=proved, **(proved if isinstance(proved, dict) else {}))
            return Advice(name, [f"{said}; {frees.format(row.saves)}", *row.more(one)])
    return Advice(None, [f"see what keeps what {one.variable} has{one.filled}; {frees.format('about')}"])


def also_held_by(found: Retained) -> list[str]:
    """Names of the other holders of what multiplies there, at most two."""
    children = found.place.children
    below = [child for child in children if child.growth_bytes >= MOST * found.place.growth_bytes > 0] or children
    return list(dict.fromkeys(holder_name(user_place(other)) for child in below for other in child.also_held_by))[:2]


def tasks_wait_in(found: Retained) -> list[Call]:
    return waits_in(found.place, found.look.heap.places)


def within_member(below: Place) -> str:
    """``_user_attrs['scores'] (numpy.ndarray)``: how a member has it."""
    name = (below.parent.reference.variable if below.parent is not None else None) or ""
    return f"{name}[{below.path.rpartition('[')[2]} ({below.type_name})"


def holds_hooks(found: Retained) -> bool:
    tables = found.named.reference.variable, found.place.reference.variable
    return any(map(is_hook_table, tables)) or (found.line is not None and registers_hook(found.line))


# ---- proofs


def _longer(place: Place) -> bool:
    return place.has_length and bool(place.length[-1] > place.length[0])


def _above(place: Place | None) -> list[Place]:
    """It and what it lies below, to the object that has a name in the program, without that."""
    return list(takewhile(lambda one: not one.is_user, upwards(place)))


def _much_of_members(place: Place) -> list[Place]:
    """What is much of one of the members, seen in those that snapshots looked into."""
    return [
        part
        for member in place.children
        if member.deep_bytes[-1] > 0
        for part in downwards(member.children)
        if float(part.deep_bytes[-1]) > _MUCH_OF_MEMBERS * float(member.deep_bytes[-1])
    ]


def _registry(one: Held) -> str | None:
    """It is a registry of a library that grows, or lies below an object, for which it is known what lets go."""
    for at in _above(one.place) or [one.place]:
        reference = at.reference
        known = _REGISTRIES.get(str(reference.variable)) if reference.edge_kind in ("attribute", "global") else None
        is_its = known is not None and known.is_in(reference.owner_module or "")
        how = _LET_GO.get(at.path) or (known.let_go if known is not None and is_its else None)
        how = _LET_GO.get(at.type_name) or (how if at is one.place or _longer(at) else None)
        if how is not None:
            return how
    return _LET_GO.get(one.named.type_name)  # an iterator of the program's own


def _method_with_cache(one: Held) -> dict[str, str] | None:
    """A cache round a method, in which objects of its class were seen: its keys are all arguments, self among them."""
    node = one.node if one.named.reference.edge_kind == "cache" else None
    own = one.statement.cls if one.statement is not None else None
    if own is None or not isinstance(node, DEFINED) or not node.args.args:
        return None
    names = [last_name(d.func if isinstance(d, ast.Call) else d) for d in node.decorator_list]
    has_more = any(tail(part.type_name) == own.name and part.count[-1] > 1 for part in downwards(one.place.children))
    made = one.found.made_at  # by a constructor of the class: that of what is kept with each of its objects
    has_more = has_more or (made is not None and made.function == f"{own.name}.__init__")
    if "staticmethod" in names or "classmethod" in names or not has_more:
        return None  # one object, or nobody saw it there
    cache = next((name for name in names if "cache" in name), names[0])
    kept = f"self.{node.name} = {cache}(...)(self.{node.name})"
    return {"decorator": f"@{cache}", "method": f"{own.name}.{node.name}()", "kept": kept}


def _unbounded_cache(one: Held) -> str | None:
    if one.named.reference.edge_kind != "cache":
        return None
    if not one.named.is_user and one.named.root_kind == "module":
        library = one.named.path.split(".", 1)[0]
        return f"the cache is {library}'s own: give it arguments that repeat, or update {library}"
    hits, misses = one.named.hits, one.named.misses
    counted = f" ({format_count(hits)} hits, {format_count(misses)} misses)" if hits is not None and misses else ""
    return f"give the cache{one.where} a maxsize, or call it with arguments that repeat{counted}"


def _registered(one: Held) -> dict[str, str] | None:
    """A table of a library has functions or methods of the program's, and a line hands them over."""
    if one.library is None or one.member_type not in CALLABLES or not one.is_added_to:
        return None
    found = _offered(one)
    undoes = _undoes(one, found[1]) or f"{found[0]}.{found[1][0]}()" if found is not None else None
    return {"by": f", by {undoes}" if undoes is not None else ""}


def _chain(one: Held) -> dict[str, str] | None:
    most = MOST * one.place.growth_bytes
    link = next((part for part in downwards([one.place]) if part.chained and part.growth_bytes > most), None)
    if link is None:
        return None
    by = f"as its {link.reference.variable}" if link.reference.edge_kind == "attribute" else "before it"
    return {"kind": tail(link.type_name), "by": by}


def _history(one: Held) -> dict[str, str] | None:
    """Where one of several lists has tensors, the line that adds to all of them may be given what is none."""
    if not one.found.is_graph:
        return None
    key = key_in(one.named, one.place)
    what = f"what {one.variable} keeps{f' as {key!r}' if key is not None else ''}{one.where}"
    return {"what": what, "number": "float(), which takes plain numbers as well" if key is not None else ".item()"}


def _is_write_buffer(one: Held) -> bool:
    """Of a transport: what was written and nobody has read yet."""
    near = [above.type_name for above in islice(upwards(one.place.parent), FEWEST)]
    is_near = any(name.endswith(("Transport", "StreamWriter", "IOStream")) for name in near)
    return is_near and "buffer" in str(one.place.reference.variable)


def _views(one: Held) -> str | None:
    """Most of what came in is memory of arrays or tensors of which the members show a part."""
    if one.member_type in _OF_A_WHOLE:
        instead, whole = _OF_A_WHOLE[one.member_type]
        return f"each {one.member} keeps {whole} alive: keep {instead}"
    gained = one.place.growth_bytes
    unshown = min(gained, float(one.place.unshown_bytes[-1] - one.place.unshown_bytes[0]))
    if unshown < GOOD_PART * gained or gained <= 0:
        return None
    kept, shown = format_bytes(gained), format_bytes(gained - unshown)
    return f"the members are views that show {shown} of the {kept} they keep alive: keep a {one.place.copying} of each"


def _carries(one: Held) -> dict[str, str] | None:
    """Members are, or have, values of a class derived from str, bytes, int or float, and what is held is of another."""
    kind, base = one.member_type, one.bases.get(one.member_type)
    handle = one.found.holder.handle  # whose memory is outside Python: a parsed document
    if base is None and handle is not None:  # it hangs on one, if not on a member itself
        held = (part for member in one.place.children for part in (member, *member.children))
        kind = next((part.type_name for part in held if part.type_name in one.bases and part.children), kind)
        base = one.bases.get(kind)
    inside = [part for part in _much_of_members(one.place) if part.reference.edge_kind == "attribute"]
    others = [part for part in one.place.children if part.type_name not in (kind, base)]  # several members share it
    heavy = max(others, key=lambda part: float(part.deep_bytes[-1]), default=None)
    if base is None:
        return None
    if handle is not None and handle.type_name not in (kind, base):
        return {
            "base": base,
            "kind": tail(kind),
            "by": f", with the {tail(handle.type_name)} and what that has outside Python",
        }
    if inside:
        return {
            "base": base,
            "kind": tail(kind),
            "by": f", by its {inside[0].reference.variable} ({tail(inside[0].type_name)})",
        }
    if heavy is None or float(heavy.deep_bytes[-1]) < _MUCH_OF_MEMBERS * float(one.place.deep_bytes[-1]):
        return None
    same = (part for part in others if part.reference.edge_kind == "attribute" and part.type_name == heavy.type_name)
    by = "".join(f", by its {part.reference.variable}" for part in [*same][:1])
    return {
        "base": base,
        "kind": tail(kind),
        "by": f"{by}, {format_count(heavy.count[-1])} {tail(heavy.type_name)} objects in all",
    }


def _stored_for_good(one: Held) -> str | None:
    """A library makes a record for each piece of work, and the program puts into it what weighs; no queue keeps it."""
    is_taken_out = one.found.removing or any(_QUEUE.fullmatch(at.type_name) for at in (*_above(one.inner), one.named))
    is_kept = one.is_added_to and not one.place.is_user and not is_taken_out
    below = weighs_in_members(one.place) if is_kept else None
    return within_member(below) if below is not None else None


def _is_never_read(one: Held) -> bool:
    """A container of the program's own that its sources fill, and do not look at."""
    cls = one.statement.cls if one.statement is not None else None
    is_own = one.named is one.place and one.place.is_user and one.named.type_name in _FILLED and one.is_added_to
    is_derived = cls is not None and bool(cls.bases)  # what a class is derived from may know the name
    return is_own and not is_derived and latest_read(one.sources, str(one.named.reference.variable)) == 0


def _rebuilt(one: Held) -> str | None:
    """``self.frame = concat([self.frame, rows])``, ``text += line``: what is no container takes in what it had."""
    target = regrown(one.statement) if one.statement is not None else None
    is_it = one.named.is_user and one.named.type_name not in _FILLED
    is_it = is_it and last_name(target) == one.named.reference.variable
    return ast.unparse(target) if is_it and target is not None else None


_WORK = ("Future", "Task")
KEEP_TEXT = "keep str(error), or error.with_traceback(None), instead"


def _tracebacks(one: Held) -> dict[str, str] | None:
    """Much of a member that was looked into hangs on one."""
    inside = _much_of_members(one.found.holder.largest or one.place)
    if not any(part.type_name == TRACEBACK for part in inside):
        return None
    if one.member in _WORK:  # the line hands in the work, and what it raises comes later
        instead = f"take each out of {one.variable} once it is done{one.filled}, also where it failed; or, to keep the "
        instead += "exception, drop what hangs on it by traceback.clear_frames(error.__traceback__)"
        whose = f"each {one.member} that failed keeps its exception, and with it"
        return {"whose": whose, "they": "this", "their": "its traceback", "instead": instead}
    instead = f"{KEEP_TEXT}{one.where}"
    return {"whose": "the exceptions keep", "they": "they", "their": "their tracebacks", "instead": instead}


def _finished_work(one: Held) -> str | None:
    """Futures or tasks that are kept for good, each with what it returned: what takes it out again."""
    if one.member not in _WORK or not one.place.is_user or one.found.removing:
        return None
    key = getattr(one.node, "targets", [None])[0]
    if isinstance(key, ast.Subscript) and stored(one.node) is not None:
        return f"lambda _: {one.written}.pop({ast.unparse(key.slice)}, None)"
    return f"{one.written}.{'discard' if one.place.type_name == 'set' else 'remove'}"


_QUEUE = re.compile(r"(.*\.)?(_?queue\.(Simple|Lifo|Priority)?Queue|queues\.(Lifo|Priority)?Queue)")


def _slow_consumer(one: Held) -> str | None:
    """A queue: what is put in is also taken out, but more slowly; of a library's own that is what it is there for."""
    if not one.inner.is_user and any(_QUEUE.fullmatch(at.type_name) for at in _above(one.inner)):
        wait = "let the program wait before it hands in more (by a semaphore that is released as one is done)"
        return f"more is handed in{one.where} than {one.variable} gets done, and waits in {one.inner.said}: {wait}"
    is_queue = any(_QUEUE.fullmatch(at.type_name) for at in (one.named, one.place))
    if not is_queue or not one.found.removing or one.found.limit is not None:
        return None
    kind = tail(one.found.kept.type_name)
    is_much = one.found.holder.handle is not None and one.member and kind != one.member
    smaller = f", and put in only what is read of each {one.member}, which keeps {kind} objects" if is_much else ""
    waits = "give the queue a maxsize, so that put() waits, or take items out faster"
    return f"more is put into {one.variable}{one.where} than {one.found.removing[0].place} takes out: {waits}{smaller}"


_ONLY = {
    "raises": "only if nothing raises before: put it into the finally of {text}",
    "uncalled": "in {text}(), which nothing calls: call it {when}. They are added{where}",
    "asked": "only if {text} is asked for the same one again ({at}): what is not asked for again stays. Remove what is "
    "due also where members are added{where}",
    "condition": "only if {text} ({at}): see that it comes to this as often as members are added{where}",
}


def _removal_not_reached(one: Held) -> str | None:
    """A statement removes members, and does so less often than they are added: why, by what stands round it."""
    if not one.found.removing or one.found.limit is not None or not one.has_more_members:
        return None
    removing = one.found.removing[0]
    guard = guard_of(one.sources, removing.file, removing.line, one.statement)
    does, when = f"removes members of {one.variable}", "for what is no longer needed"
    if ".clear(" in removing.text:
        does, when = f"empties {one.variable}", "once they have been used"
    calls, why = "", f"less often than they are added{one.where}: see what skips it, as an exception may"
    if guard is not None:
        calls = f", and {guard.call} calls it" if guard.call else ""
        where = one.where or " somewhere"
        why = _ONLY[guard.kind].format(text=guard.text, at=guard.place, where=where, when=when)
    also = f"; remove them from {one.others} as well" if one.others else ""
    return f"{removing.place} {does}{calls} {why}{also}"


def _way_out(one: Held) -> str | None:
    """By its source, the library has a public method that removes from what grows, on an object the path leads by."""
    found = _offered(one) if not one.inner.is_user else None
    if found is None:
        return _limit(one)
    owner, methods = found
    undoes = _undoes(one, methods)
    offered = undoes or " or ".join(f"{owner}.{name}()" for name in methods[:2])
    library, said = one.library or tail(one.named.type_name), one.inner.said
    if undoes is None and one.asked and one.inner.type_name.endswith(("dict", "Dict")):
        repeat = f"let these repeat (no ids), or call {offered} for what is done with"
        return f"{library} keeps an entry in {said} for each new {one.asked}: {repeat}"
    above = one.inner.parent
    needed = one.library_code.needs(above.type_name, methods[0], str(one.inner.reference.variable)) if above else None
    first = f"give {owner} a {needed}, without which it empties nothing, and " if needed is not None else ""
    return f"{first}call {offered} once what is made{one.where} is done with: {library} keeps it in {said} until then"


def _limit(one: Held) -> str | None:
    """The library's class can be told how many to keep, and keeps all where it is not."""
    owner, attribute = one.inner.parent, str(one.inner.reference.variable)
    option = one.library_code.limit(owner.type_name, attribute) if owner is not None else None
    if owner is None or option is None:
        return None
    made = f"make {tail(owner.type_name)} with {option}=N"
    return f"{made}: {one.library or 'it'} keeps all in {attribute} unless it is given a number"


def _undoes(one: Held, methods: Sequence[str]) -> str | None:
    """``self.progress.remove_task()`` for a line that calls ``self.progress.add_task()``, where that is offered."""
    for func in (call.func for call in one.calls if isinstance(call.func, ast.Attribute)):
        for name in methods:
            does, undoes = (re.findall(r"[a-z]+|[A-Z][a-z]*", word) for word in (func.attr, name))
            if name in (f"un{func.attr}", f"dis{func.attr}") or (len(does) > 1 and does[1:] == undoes[1:]):
                return f"{ast.unparse(func.value)}.{name}()"
    return None


def _offered(one: Held) -> tuple[str, list[str]] | None:
    """The object that has the ways out, as the path calls it, and these; of the outermost object that has some."""
    at, code, best = one.inner, one.library_code, None
    inner: list[str] = []
    while at.parent is not None and not at.is_user:
        owner, attribute = at.parent, str(at.reference.variable)
        if owner.reference.edge_kind == "namespace" and owner.parent is not None:
            owner = owner.parent
        if at.reference.edge_kind in ("attribute", "class-attribute"):
            of_class = at.reference.owner if at.reference.edge_kind == "class-attribute" else None
            methods = code.methods(of_class or owner.type_name, attribute, inner)
            if not methods and (inner or best is not None):
                break
            inner = methods or inner
            public = of_class or _as_called(code, owner)
            best = (public, methods) if methods and public is not None else best
        elif at.reference.edge_kind == "global" and not inner:
            module = at.reference.owner_module or ""
            functions = code.functions(module, attribute)
            return (module, functions) if functions else None
        at = owner
    return best


def _as_called(code: Library, owner: Place) -> str | None:
    """How the program may say it: ``session.cookie_jar``, for what a library's session has as ``_cookie_jar``.

    None where the library keeps it to itself.
    """
    said, at = owner.said.rpartition(" ")[2], owner
    while at.parent is not None and not at.is_user and at.reference.edge_kind == "attribute":
        own = str(at.reference.variable)
        public = code.public_name(at.parent.type_name, own)
        if public is None:
            return None
        said = re.sub(rf"\.{re.escape(own)}\b(?!.*\.{re.escape(own)}\b)", f".{public}", said)
        at = at.parent
    is_private = not at.is_user and at.reference.edge_kind == "global" and str(at.reference.variable).startswith("_")
    return None if is_private else said


def _library_keeps(one: Held) -> str | None:
    """Nobody can remove from it by its name: it is private, or the program has no name for what it is in.

    What its owner can do then: use less of it, or what ends it.
    """
    library, place, reference = one.library, one.inner, one.inner.reference
    has_name = place is one.named or (place.has_length and not str(reference.variable).startswith("_"))
    if place.is_user or library is None or (one.named.is_user and has_name and "<" not in place.path):
        return None
    owner = reference.owner if reference.edge_kind == "attribute" else None
    ends = f"a method of {owner}" if owner is not None else f"a function of {library}"
    at = one.where.strip() or "by some call"
    if one.line is not None and one.line.kind == GIVES:
        other = f", or use something else in place of {owner}" if owner is not None else ""
        less = f"return less, such as where it is stored{other}"
        return f"{library} keeps what {one.line.function}() returns in {place.said}: {less}"
    if not (_longer(place) or _longer(one.place)):
        return f"{library} keeps in {place.said} what is done {at}: end what is done with by {ends}"
    if place.type_name.endswith(("dict", "Dict")) and one.asked:
        repeat = f"let these repeat (no ids, no new objects), or end what is done with by {ends} that removes it"
        return f"{library} keeps an entry in {place.said} for each new {one.asked}: {repeat}"
    # The whole module in which the container is a variable was read, and nothing in it takes anything out.
    is_for_good = reference.edge_kind == "global" and one.library_code.knows_module(reference.owner_module or "")
    no_end = ", and no function of it takes it out: do that once and use it again, or do without it"
    once = f": do that once and use it again, or end what is done with by {ends} that removes it"
    return f"{library} keeps one more in {place.said} for what is done {at}{no_end if is_for_good else once}"


def _newer_library(one: Held) -> Sequence[str]:
    is_others = not one.named.is_user and one.library not in STANDARD_LIBRARY
    return [f"check whether a newer {one.library} removes it"] if is_others else []


def _read_entry(one: Held) -> dict[str, str] | None:
    """A mapping that makes an entry for each key that it is asked for, and a line that only reads."""
    reading = one.statement if one.named.type_name.endswith("defaultdict") else None
    entry = only_read(reading, str(one.named.reference.variable)) if reading is not None else None
    if entry is None:
        return None
    return {"entry": ast.unparse(entry), "instead": f"{ast.unparse(entry.value)}.get({ast.unparse(entry.slice)})"}


def _callables(one: Held) -> dict[str, str] | None:
    """What it is given are functions or methods: each keeps the object that it is of, or what it encloses."""
    is_method = one.member_type == "method" or _gives_own_method(one)
    if not (one.member_type in CALLABLES or is_method) or not one.place.is_user:
        return None
    weak = ", or keep a weakref.WeakMethod of it" if is_method else ""
    keeps = "the object that it is of" if is_method else "what it encloses"
    return {"kind": "method" if is_method else one.member_type, "keeps": keeps, "weak": weak}


def _gives_own_method(one: Held) -> bool:
    """What it has are objects, and the line gives it a method of one: ``events.on("done", self.finish)``."""
    own = one.statement.cls if one.statement is not None else None
    if own is None or own.name != one.member:
        return False
    methods = {part.name for part in own.body if isinstance(part, DEFINED)}
    given = (part for call in one.calls for part in arguments_of(call))
    return any(
        isinstance(part, ast.Attribute) and part.attr in methods and last_name(part.value) == "self" for part in given
    )


def _bound(one: Held) -> list[str]:
    """How to bound it, by its type."""
    place, named, variable = one.place, one.named, one.variable
    beside = f", and do the same with {one.others}, which refers to them as well" if one.others else ""
    if not named.has_members and named.type_name not in _FILLED:  # an optimizer, a parser
        is_inside = named is not place or one.found.holder.largest is not None
        inner = one.written if "<" in place.said and one.is_added_to else place.said
        unneeded = f"remove what is no longer needed from {inner}, part of {variable}"
        return [f"{unneeded if is_inside else f'empty {variable}'}{one.filled}{beside}"]
    bounded = one.named.longer_member or (named if named.has_length else place)
    told = [f"{_how_to_bound(one, tail(bounded.type_name))}{beside}"]
    member = one.member_type or one.found.kept.type_name
    if member.startswith("torch.") and one.found.tensor_growth_bytes > MOST * max(place.growth_bytes, 1.0):
        told.append("if only numbers are needed from these tensors, keep .item() or a small summary instead")
    return told


def _how_to_bound(one: Held, kind: str) -> str:
    name, keys, variable, filled = one.written, one.new_keys, one.variable, one.filled
    if one.named.longer_member is not None and one.line is not None:
        if str(one.named.reference.variable) in name:
            variable = name
        else:  # donors = self.bank.setdefault(key, [])
            variable, filled = f"{name}, a {kind} in {variable}", f" that {one.line.place} fills,"
    if emptied := emptied_by(one.named.type_name):
        return (
            f"call {emptied[0]}() of {variable}{filled} now and then, or make a new {kind}: it keeps what it was given"
        )
    if kind == "deque":
        return f"bound {variable}{filled}, by the maxlen of its deque, or empty it once it has been used"
    if kind.endswith(("dict", "Dict", "Counter")):
        each = f" (a new one for each {keys}{one.where})" if keys and "," not in keys else filled
        return (
            f"delete each entry of {variable}{each} once it is done with, or bound it: keep the latest, or those in use"
        )
    if kind == "list" and name and (read := latest_read(one.sources, name.rpartition(".")[2])):
        keep = f" (del {name}[:-{read}])" if len(name) <= SHORT else ""
        return f"keep only the latest {read} of {variable}{filled}{keep}: the program reads no others"
    if kind in ("list", "bytearray"):
        keep = f", or keep the latest (del {name}[:-N])" if len(name) <= SHORT else ""
        return f"empty {variable}{filled} once it has been used{keep}"
    return f"remove what is no longer needed from {variable}{filled}, or bound it"


# What libraries keep on the program's behalf; caches and what is made of a function; what members carry; containers.
MECHANISMS: dict[str, Mechanism] = {
    "collected-at-once": Mechanism(  # it has no name but the call that fills it
        lambda one: one.named.reference.edge_kind == "local" and "(" in str(one.named.reference.variable),
        "{one.variable} gathers all before the first is used{one.where}: take them one at a time (`for … in …:`), and "
        "keep of each what is needed",
    ),
    "library-registry": Mechanism(_registry),
    "results-of-cells": Mechanism(
        lambda one: are_results_of_cells(one.place),
        "end the last line of a cell with a semicolon, or assign it to a variable: IPython keeps what it returns "
        "(%reset -f out frees what is there, InteractiveShell.cache_size = 0 keeps none)",
    ),
    "exit-handlers": Mechanism(  # only C code holds it, and it was handed over to be called
        lambda one: one.place.root_kind == OUTSIDE,
        "unregister what is registered{one.where} after use (as atexit.unregister does), or register one function for "
        "all",
    ),
    "cache-keeps-self": Mechanism(
        _method_with_cache,
        "{decorator} on the method {method} keeps every object it is called on, and its results, in one cache: make "
        "one for each object, in __init__ ({kept}), or cache a function that is not given self",
        saves="up to",
    ),
    "unbounded-cache": Mechanism(_unbounded_cache, saves="up to"),
    "exception-raised-again": Mechanism(
        lambda one: one.line is not None and one.line.text.startswith("raise "),
        "raise a new exception each time{one.where}, not the one that {one.variable} keeps: its traceback keeps the "
        "locals of every function it passed through",
    ),
    "hooks": Mechanism(
        lambda one: holds_hooks(one.found),
        "registering a hook{one.where} returns a handle: keep it, and call its remove() once the hook has done its "
        "work",
    ),
    "registered-callables": Mechanism(_registered, "unregister what is registered{one.where} after use{by}"),
    "timers": Mechanism(  # its members are timers, or it is where an event loop keeps them
        lambda one: (
            re.search(r"\b(TimerHandle|Timer|[Tt]imer\.Entry)$", one.member_type)
            or (one.place.reference.variable == "_scheduled" and one.library == "asyncio")
        ),
        "end each timer that is no longer needed: keep what is made{one.where}, and call its cancel(), or stop(). As "
        "long as it waits, a timer keeps its function, and the arguments of it",
    ),
    "loop-not-run": Mechanism(
        lambda one: one.inner.reference.variable == "_ready" and one.library == "asyncio",
        "run the event loop, by awaiting what is made{one.where} or by loop.run_until_complete(): until then it keeps "
        "each call that is due, and its result; for work that nobody awaits, use the executor itself, without the loop",
    ),
    "autograd-history": Mechanism(
        _history,
        "detach {what}, by .detach() or, where a number is enough, {number}: each tensor keeps alive the graph "
        "that computed it",
        lambda one: ["in evaluation, compute under torch.no_grad(): then no graph is built"],
    ),
    "context-not-reset": Mechanism(
        lambda one: one.named.type_name.endswith("ContextVar") and any(child.chained for child in one.place.children),
        "reset {one.variable} after use, with the token that set() returns{one.where}: each value keeps the one before",
    ),
    "chain": Mechanism(
        _chain, "end the chain{one.where}, in which each {kind} keeps another {by}: let a new one keep none"
    ),
    "unending-tasks": Mechanism(
        lambda one: "".join(call.said for call in tasks_wait_in(one.found)[-1:]),
        "end the tasks that {one.variable} keeps: give what they wait for in {found} a timeout, or cancel "
        "those that are no longer needed",
    ),
    "write-buffer": Mechanism(
        _is_write_buffer,
        "whoever reads from it is slower than what is written{one.where}: await drain() after writing, or close the "
        "connections of those that do not keep up",
    ),
    "stored-for-good": Mechanism(
        _stored_for_good,
        "what {one.line.place} stores is kept in {one.place.said} for good, and most of it is {found}: store less "
        "there, or keep it elsewhere and only as long as it is needed",
    ),
    "tracebacks": Mechanism(  # much of a member that was looked into hangs on one
        _tracebacks,
        "{whose} the locals of every function {they} passed through, by {their}: {instead}",
        lambda one: _bound(one) if one.member not in _WORK else [],
    ),
    "views": Mechanism(_views, "{found} instead{one.where}", _bound),
    "values-with-more": Mechanism(
        _carries, "keep {base}() of each {kind}{one.where}: it keeps what it came from alive{by}"
    ),
    "finished-work": Mechanism(
        _finished_work,
        "each {one.member} keeps what it returned: take it out of {one.variable} once it is done{one.filled}, by "
        "add_done_callback({found}) or as its result is read",
    ),
    "never-read": Mechanism(
        _is_never_read, "nothing in the sources reads {one.variable}: remove the line that adds to it{one.where}"
    ),
    "rebuilt-with-more": Mechanism(
        _rebuilt,
        "{found} gets longer with each pass{one.where}: keep only the latest of it, or write "
        "each part to a file and keep a summary",
    ),
    "buffer-not-emptied": Mechanism(
        lambda one: one.named.type_name in ("_io.StringIO", "_io.BytesIO"),
        "empty {one.variable} once what it has is read: seek(0), then truncate(); or write to a file",
    ),
    "slow-consumer": Mechanism(_slow_consumer),
    "removal-not-reached": Mechanism(_removal_not_reached),
    "library-way-out": Mechanism(_way_out),
    "library-keeps": Mechanism(_library_keeps, more=_newer_library),
    "default-argument": Mechanism(
        lambda one: one.named.reference.edge_kind == "default",
        "let {one.named.reference.variable} default to None, and make the container inside the function: a default "
        "value is made once, when the function is defined, and shared by all calls",
    ),
    "class-attribute": Mechanism(  # made by a class body, filled by a method by its self: all objects share it
        lambda one: one.named.reference.edge_kind == "class-attribute" and one.written.startswith(("self.", "cls.")),
        "{one.variable} is made once, in the class, and all its objects share it: make one for each object in "
        "__init__, or, if it is meant for all, remove what is no longer needed{one.filled}",
    ),
    "kept-callables": Mechanism(
        _callables,
        "take each {kind} out of {one.variable} once it is no longer called{one.filled}{weak}: each keeps {keeps}",
    ),
    "made-by-reading": Mechanism(
        _read_entry,
        "use {instead} instead of {entry}{one.where}, or test first whether the key is there: looking up a missing key "
        "in a defaultdict adds it",
    ),
    "keys-that-do-not-repeat": Mechanism(  # a cache of the program's own: it looks there first, and removes nothing
        lambda one: (
            one.statement is not None
            and is_looked_up_first(one.statement)
            and {"keys": f" ({one.new_keys})" if one.new_keys else ""}
        ),
        "bound {one.variable}{one.filled}: it is a cache, and its keys{keys} hardly repeat. Keep the latest N, as "
        "functools.lru_cache(maxsize=N) does, or make keys that repeat",
    ),
    # A container of the program's own, which is filled and never emptied.
    "unbounded-container": Mechanism(lambda one: _bound(one)[0], more=lambda one: _bound(one)[1:]),
}
