"""The line a user would edit: found in the recorded sources by the name of what holds the memory.

A snapshot names a holder (``Trainer.history``); where it was filled is not in the heap. So the sources are searched
for statements that add to that name, also where the object goes by another one: an alias, a parameter, an attribute.
Pure functions: text in, lines out, best first.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Callable, Iterator, Sequence
from functools import lru_cache
from typing import Any, NamedTuple

from ...units import MOST, NEARLY_ALL, SOME
from .index import Index, Scope, Site, Source, index_of, tail, text_of
from .names import Holder, Names
from .points_to import ADDERS, PUSHES, THING, Things, added_to, adds, points_to
from .syntax import COMPREHENSIONS, arguments_of, last_name, pairs, part_of

__all__ = ["Holder", "Line", "Source", "adding_lines", "find_calls", "find_method_calls", "thread_start_line"]

ADDS, CALLS, CREATES, REMOVES = "adds", "calls", "creates", "removes"
GIVES = "gives it"  # what a library keeps: a function of the program returned it to the library


class Line(NamedTuple):
    """One source line. ``kind``: adds, calls, creates, removes or gives it.

    ``score``: 0 to 1, comparable within one answer only.
    ``function``: qualified name of the function or class body it stands in; None in a module's own.
    ``is_once``: it stands in no loop, in a module's own code or in a function that runs once, as ``main()``.
    """

    file: str
    line: int
    function: str | None
    text: str
    kind: str
    score: float
    is_once: bool = False

    @property
    def place(self) -> str:
        """``train.py:88``: without the folder."""
        return f"{self.file.rsplit('/', 1)[-1]}:{self.line}"


class _Event(NamedTuple):
    node: ast.AST
    kind: str
    weight: float


Events = Callable[[Scope, Site], Iterator[_Event]]


# Calls that look as if they only read, take away or end something.
_READING = re.compile(
    r"(get|getbuffer|getvalue|keys|items|values|len|copy|pop|popleft|popitem|remove|discard|clear|close|join|read|seek"
    r"|tell|truncate|flush|commit|rollback|is|has|count|index|sort|reverse|wait|zero_grad|state_dict|parameters"
    r"|named_parameters|eval|to|item|items|detach|cpu|numpy|tolist|mean|sum|max|min|find|search|stop|start|cancel|done"
    r"|result|empty|full|qsize|release|acquire|startswith|endswith|split|strip|encode|decode|format|view|reshape|size"
    r"|cursor|save|backward|debug|info|warning|error|exception|random|randint|choice|uniform|gauss|shuffle)(_\w*)?$"
    r"|fetch\w*$|__\w+__$"
)
_FIRST_ARGUMENT = PUSHES | {"setattr", "setitem"}
JOINERS = frozenset(
    ("append", "cat", "chain", "column_stack", "concat", "concatenate", "dstack", "hstack", "insert", "merge", "stack",
     "union", "vstack")
)  # fmt: skip
# What they return is what they were given, or less of it: ``rows = sorted(rows, key=age)``.
_REARRANGING = frozenset(
    ("clip", "deque", "filter", "islice", "list", "map", "nlargest", "nsmallest", "reversed", "sample", "sorted",
     "take", "trim", "truncate", "tuple", "where")
)  # fmt: skip
_LINKS = frozenset(("next", "prev", "previous", "parent", "child", "left", "right", "link", "rest", "tail"))
# ``add``, ``table_put``, ``put_row``: one of its words says that it adds. ``_add`` and ``add_`` are no such names.
_FEEDER = re.compile(r"(^|[^_]_)(add|append|push|put|insert|register|store|write|feed)(_[^_]|$)")
# A store by index replaces a member of these; it makes only a mapping longer.
_FIXED = re.compile(r"(builtins\.)?(list|bytearray)$|collections\.deque$|(numpy|torch|array)\.")
_STARTERS = re.compile(r"(\w*Thread|\w*Process|Timer|submit|start_new_thread|run_in_executor|to_thread|apply_async)$")
_SQL = re.compile(r"\s*(\w+)", re.ASCII)
_SQL_ADDS = frozenset(("insert", "replace", "merge", "upsert", "copy"))
# Whoever waits for one of these is a member of it until then.
_WAITED_FOR = re.compile(r"(asyncio\.locks|threading)\.(Event|Condition|Semaphore|BoundedSemaphore|Lock|Barrier)$")
_WAITING = frozenset(("wait", "wait_for", "acquire"))
_REMOVERS = frozenset(("clear", "discard", "get_nowait", "pop", "popitem", "popleft", "remove"))
_PULLS = frozenset(("heappop", "heappushpop", "heapreplace"))  # functions: the container comes first
_WHOLE = 0.76  # calls count only on the object itself


def adding_lines(sources: Sequence[Source], holder: Holder) -> list[Line]:
    """Lines that add to a holder, best first; where none does, calls on it, then what creates it."""
    variable = _plain_variable(holder)
    if not variable:
        return []
    holder = holder._replace(variable=variable)
    index = index_of(sources, variable, holder.owner_file)
    if holder.edge_kind == "cache" or holder.type_name.endswith("_lru_cache_wrapper"):
        cached = _cache_lines(index, holder)
        if cached:
            return cached
    uses = _Uses(Names(index, holder), holder)
    package = (holder.owner_module or "").split(".", 1)[0].lstrip("_")  # _ctypes is the compiled half of ctypes
    found = _ranked(index, uses.events)
    calls = _ranked(index, _calls_into(package)) if not found else []
    return found or [line for line in calls if not line.is_once] or calls


def removing_lines(sources: Sequence[Source], holder: Holder) -> list[Line]:
    """Lines that remove members of a holder, or all of them; also what its members have, where that is what grew."""
    variable = _plain_variable(holder)
    if not variable:
        return []
    index = index_of(sources, variable, holder.owner_file)
    names, least = Names(index, holder._replace(variable=variable)), MOST if holder.grew_inside else _WHOLE

    def events(scope: Scope, site: Site) -> Iterator[_Event]:
        for value in removed_from(site.node):
            strength = names.strength(value, scope)
            if _is_get(site.node) and holder.type_name.endswith("ContextVar"):
                continue  # a queue's takes one out
            yield _Event(site.node, REMOVES, strength if strength >= least else 0.0)

    return _ranked(index, events)


def removed_from(node: ast.AST) -> Iterator[ast.expr]:
    """What a node removes members from."""
    if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Del):
        yield node.value
    elif isinstance(node, ast.Call) and node.args and last_name(node.func) in _PULLS:
        yield node.args[0]
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
        yield from [node.func.value] if node.func.attr in _REMOVERS or _is_get(node) else []


@lru_cache(maxsize=256)
def _emptied(scope: Scope) -> frozenset[int]:
    """Which expressions of a scope members are removed from: to look such a one up adds none that stays."""
    return frozenset(id(value) for site in scope.sites for value in removed_from(site.node))


def _is_get(node: ast.AST) -> bool:
    """A queue's; that of a mapping is given a key, and leaves the member."""
    return isinstance(node, ast.Call) and last_name(node.func) == "get" and not node.args


def lines_by_key(sources: Sequence[Source], key: str, *, stores: bool = False) -> list[Line]:
    """Lines that add to what somebody keeps by a key, on whatever object: ``request.app["history"].append(entry)``.

    ``stores``: that put something under the key, as ``trial.set_user_attr("scores", predicted)`` does.
    """

    def is_key(node: ast.expr | None) -> bool:
        return isinstance(node, ast.Constant) and node.value == key

    def is_kept(node: ast.expr | None) -> bool:
        return isinstance(node, ast.Subscript) and is_key(node.slice)

    def is_it(node: ast.expr, scope: Scope) -> bool:
        own = node.id if isinstance(node, ast.Name) else None
        given = [v for site in scope.sites for t, v in pairs(site.node) if isinstance(t, ast.Name) and t.id == own]
        return is_kept(node) or any(map(is_kept, given))

    def adding(scope: Scope, site: Site) -> Iterator[_Event]:
        if any(is_it(value, scope) for value in added_to(site.node)):
            is_sure = not isinstance(site.node, ast.Call) or last_name(site.node.func) in ADDERS
            yield _Event(site.node, ADDS, 1.0 if is_sure else 0.85)

    def storing(scope: Scope, site: Site) -> Iterator[_Event]:
        node = site.node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and not _READING.match(node.func.attr):
            is_put = len(node.args) > 1 and is_key(node.args[0]) and not isinstance(node.args[1], ast.Constant)
            yield _Event(node, ADDS, 0.8 if is_put else 0.0)

    return _ranked(index_of(sources, key), storing if stores else adding)


def thread_start_line(sources: Sequence[Source], name: str) -> Line | None:
    """Where threads or processes that run a function, or are of a class, are started. None: nowhere to be seen."""
    name = name[: -len(".run")] if name.endswith(".run") else name
    target = tail(name)
    index = index_of(sources, target)
    made = {call: None for *_, call in index.calls() if _makes_thread(call, target, index)}
    threads = Things(points_to(index), made)

    def events(scope: Scope, site: Site) -> Iterator[_Event]:
        node = site.node
        func = node.func if isinstance(node, ast.Call) else None
        if isinstance(func, ast.Attribute) and func.attr == "start" and threads.kind(func.value, scope) == THING:
            yield _Event(node, CALLS, 1.0)
        if node in made:
            yield _Event(node, CREATES, 0.3)

    return next(iter(_ranked(index, events)), None)


def find_calls(
    sources: Sequence[Source], *names: str, given: str | None = None, without: str | None = None
) -> list[Line]:
    """Calls of functions by their dotted names (``gc.disable``), however imported, in the order of the sources.

    ``.names``: of methods, on whatever object. ``given``, ``without``: an argument that a call gives, or lacks.
    """

    def is_one(call: ast.Call, scope: Scope) -> bool:
        is_named = ".".join(imported(call.func, scope)) in names
        is_named = is_named or (isinstance(call.func, ast.Attribute) and f".{call.func.attr}" in names)
        said = {one.arg for one in call.keywords if not (isinstance(one.value, ast.Constant) and not one.value.value)}
        # What ``**options`` give is not known.
        return is_named and (given is None or given in said) and (without is None or not said & {without, None})

    found = {line for name in names for line in _ranked(index_of(sources, tail(name)), _calling(CALLS, is_one))}
    order = {source.file: i for i, source in enumerate(sources)}
    return sorted(found, key=lambda line: (order.get(line.file, 0), line.line))


def find_method_calls(sources: Sequence[Source], *methods: str) -> list[Line]:
    """Calls of methods by their names, on whatever object, the likeliest to run often first."""
    is_one = _calling(ADDS, lambda call, _: isinstance(call.func, ast.Attribute) and call.func.attr in methods)
    return _ranked(index_of(sources, methods[0]), is_one)


def find_calls_given(sources: Sequence[Source], *, methods_of: str = "", function: str = "") -> list[Line]:
    """Calls that are handed a method of a class, without calling it, or a function: where a callback is registered."""
    index = index_of(sources, methods_of or function)
    methods = {f.name for named in index.functions.values() for f in named if f.within and f.within.name == methods_of}

    def is_given(call: ast.Call, _scope: Scope) -> bool:
        return any(
            one.attr in methods if isinstance(one, ast.Attribute) else isinstance(one, ast.Name) and one.id == function
            for one in arguments_of(call)
        )

    return _ranked(index, _calling(ADDS, is_given))


def _calling(kind: str, is_one: Callable[[ast.Call, Scope], bool]) -> Events:
    """Calls of which something is true."""

    def events(scope: Scope, site: Site) -> Iterator[_Event]:
        if isinstance(site.node, ast.Call) and is_one(site.node, scope):
            yield _Event(site.node, kind, 1.0)

    return events


def imported(func: ast.expr, scope: Scope) -> tuple[str, ...]:
    """``torch, jit, trace`` of ``jit.trace`` after ``from torch import jit``; empty for what was not imported."""
    parts: list[str] = []
    while isinstance(func, ast.Attribute):
        parts.insert(0, func.attr)
        func = func.value
    imported = scope.binding(func.id).imports.get(func.id) if isinstance(func, ast.Name) else None
    return tuple(filter(None, (*imported, *parts))) if imported is not None else ()


def _calls_into(package: str) -> Events:
    """Calls of a library that holds the memory itself; those with changing arguments first."""

    def events(scope: Scope, site: Site) -> Iterator[_Event]:
        node = site.node
        names = imported(node.func, scope) if package and isinstance(node, ast.Call) else ()
        # By way of another library, too: np.ctypeslib fills what ctypes keeps.
        is_its = bool(names) and names[0].split(".", 1)[0] == package
        if isinstance(node, ast.Call) and (is_its or any(name.startswith(package) for name in names[1:])):
            changing = any(not isinstance(argument, ast.Constant) for argument in arguments_of(node))
            yield _Event(node, CALLS, 0.7 if _FEEDER.search(names[-1].lower()) else 0.5 if changing else 0.3)

    return events


class _Uses:
    """What the sources do to an object under any of its names."""

    def __init__(self, names: Names, holder: Holder) -> None:
        self.names = names
        self.type_name = holder.type_name
        self._grew_inside = holder.grew_inside
        self._makes_entries = holder.type_name.endswith("defaultdict") and not holder.grew_inside

    def events(self, scope: Scope, site: Site) -> Iterator[_Event]:
        """What a site does to the object."""
        node = site.node
        if isinstance(node, ast.Call):
            yield from self._call(node, scope)
        elif isinstance(node, ast.AugAssign):
            weight = 0.95 if isinstance(node.op, (ast.Add, ast.BitOr)) else 0.7
            yield _Event(node, ADDS, weight * self.names.strength(node.target, scope, inside=False))
            if isinstance(node.target, ast.Subscript):
                yield _Event(node, ADDS, self._store(node.target, scope))
        elif isinstance(node, ast.Raise):  # its traceback grows by the way up, and keeps the locals of all frames there
            yield _Event(node, ADDS, 0.95 * self.names.strength(node.exc, scope, inside=False))
        elif isinstance(node, ast.Subscript) and self._makes_entries and id(node) not in _emptied(scope):
            yield _Event(node, ADDS, self._looked_up(node, scope))
        for target, value in pairs(node):
            if isinstance(target, ast.Subscript) and not _is_sieve(target, value):
                yield _Event(target, ADDS, self._store(target, scope) * (0.6 if _is_empty(value) else 1.0))
            elif isinstance(target, ast.Attribute) and target.attr in _LINKS:  # tail.next = node
                yield _Event(target, ADDS, 0.6 * self.names.strength(target.value, scope))
            if self.names.is_seed(target, scope):
                weight = self._regrown(value, scope)
                yield _Event(node if not isinstance(node, ast.withitem) else target, *_created(value, weight))
        if isinstance(node, (ast.For, ast.AsyncFor)) and self.names.is_seed(node.target, scope):
            yield _Event(node, CREATES, 0.25)

    def _call(self, call: ast.Call, scope: Scope) -> Iterator[_Event]:
        func = call.func
        if isinstance(func, ast.Name) and self.names.is_adder(func, scope):
            yield _Event(call, ADDS, 0.97)
        if isinstance(func, ast.Attribute):
            yield from self._method(call, func, scope)
        else:
            yield _Event(call, CALLS, 0.5 * self.names.strength(func, scope, inside=False))
        if last_name(func) in _FIRST_ARGUMENT and call.args:
            yield _Event(call, ADDS, self.names.strength(call.args[0], scope))
        for argument in arguments_of(call):
            if isinstance(argument, ast.Attribute) and adds(argument.attr):  # the method itself is handed on
                yield _Event(call, ADDS, 0.75 * self.names.strength(argument.value, scope))
        yield from self._given_to(call, scope)
        for keyword in call.keywords:
            if keyword.arg == "file":  # print(..., file=buffer)
                yield _Event(call, ADDS, 0.7 * self.names.strength(keyword.value, scope))
        if last_name(func) in ("dump", "writer") and len(call.args) > 1:
            yield _Event(call, ADDS, 0.7 * self.names.strength(call.args[1], scope))
        elif len(call.args) > 1 and _FEEDER.search(last_name(func).lower()):  # lib.table_put(handle, x)
            yield _Event(call, ADDS, 0.7 * self.names.strength(call.args[0], scope, inside=False))

    def _given_to(self, call: ast.Call, scope: Scope) -> Iterator[_Event]:
        """``listen(engine, "connect", log)``, ``Gauge("loss", registry=REGISTRY)``: a library's, which is handed it."""
        given = arguments_of(call)
        strength = max((self.names.strength(one, scope, inside=False) for one in given), default=0.0)
        if self.names.is_own(call, scope) or strength < _WHOLE or hasattr(builtins, last_name(call.func)):
            return
        if any(self.names.is_function(one, scope) for one in given):
            yield _Event(call, ADDS, 0.8 * strength)  # whoever is handed a function calls it later
        elif last_name(call.func)[:1].isupper():
            yield _Event(call, CALLS, 0.5 * strength)  # what is made knows it, and may be known to it

    def _method(self, call: ast.Call, func: ast.Attribute, scope: Scope) -> Iterator[_Event]:
        strength = self.names.strength(func.value, scope)
        if not strength:
            return
        if func.attr.startswith("execute"):
            verb = _sql_verb(call)
            if verb is None or verb in _SQL_ADDS:
                yield _Event(call, ADDS if verb else CALLS, (0.9 if verb else 0.6) * max(strength, NEARLY_ALL))
        elif func.attr == "set" and self.type_name.endswith("ContextVar"):
            keeps_token = any(value is call for other in scope.sites for _, value in pairs(other.node))
            yield _Event(call, ADDS, (0.8 if keeps_token else 0.97) * strength)  # with the token it is set back
        elif func.attr in _WAITING and _WAITED_FOR.match(self.type_name):
            yield _Event(call, ADDS, 0.95 * strength)
        elif adds(func.attr):
            weight = 1.0 if func.attr in ADDERS else 0.85
            if self._grew_inside and strength >= _WHOLE:  # of setdefault() and its like there came none
                weight *= 0.6
            yield _Event(call, ADDS, weight * strength)
        elif strength >= _WHOLE and not _READING.match(func.attr):
            if any(self.names.is_function(argument, scope) for argument in arguments_of(call)):
                yield _Event(call, ADDS, 0.8 * strength)  # whoever is handed a function calls it later
            else:
                yield _Event(call, CALLS, 0.6 * strength)
        elif isinstance(func.value, ast.Attribute) and not _READING.match(func.attr):  # session.cookies.set_cookie(…)
            yield _Event(call, CALLS, 0.4 * strength)

    def _looked_up(self, node: ast.Subscript, scope: Scope) -> float:
        """Weight of ``x[key]`` where looking up makes the entry; what is read of a member makes none."""
        if isinstance(node.slice, ast.Slice) or isinstance(node.ctx, ast.Del):
            return 0.0
        strength = self.names.strength(node.value, scope)
        return 0.6 * strength if strength >= _WHOLE else 0.0

    def _store(self, target: ast.Subscript, scope: Scope) -> float:
        """Weight of ``x[key] = value``."""
        known = self.names.member_strength(target, scope)
        if known in (0.0, 1.0):
            return 0.95 * known * self.names.strength(target.value, scope)
        replaces = isinstance(target.slice, (ast.Slice, ast.Constant, ast.UnaryOp)) or _FIXED.match(self.type_name)
        return (0.6 if replaces else 1.0) * self.names.strength(target.value, scope)

    def _regrown(self, value: ast.expr | None, scope: Scope) -> float:
        """Weight of ``x = value`` as an addition to x: the new value is the old one and something more."""

        def old(node: ast.AST) -> bool:
            inner = node.value if isinstance(node, (ast.Starred, ast.Await)) else node
            return isinstance(inner, ast.expr) and self.names.strength(inner, scope, inside=False) >= MOST

        part, at = part_of(value), scope.types.get(last_name(part_of(value)))
        if isinstance(part, ast.Name) and at is not None and not isinstance(part_of(at), ast.Name):
            return self._regrown(at, scope)  # stream = cat([x, new]), and x = stream[n:]
        if isinstance(value, ast.BinOp):
            terms = list(_terms(value))
            if any(old(t) or (isinstance(t, ast.Call) and self._regrown(t, scope)) for t in terms):
                return 0.95 if isinstance(value.op, (ast.Add, ast.BitOr)) else 0.7
        elif isinstance(value, (ast.List, ast.Tuple, ast.Set)):
            return 0.95 if any(old(e) for e in value.elts) else 0.0
        elif isinstance(value, ast.Dict):
            return 0.95 if any(k is None and old(v) for k, v in zip(value.keys, value.values)) else 0.0
        elif isinstance(value, ast.IfExp):
            return max(self._regrown(value.body, scope), self._regrown(value.orelse, scope))
        elif isinstance(value, ast.Call):
            given = [e for a in arguments_of(value) for e in (a.elts if isinstance(a, (ast.List, ast.Tuple)) else [a])]
            joins = last_name(value.func) in JOINERS
            if isinstance(value.func, ast.Attribute) and joins and old(value.func.value):
                return 0.95
            if last_name(value.func) in _REARRANGING:
                return 0.0
            if any(old(e) for e in given) and (joins or len(given) > 1):
                return 0.95 if joins else 0.7
        return 0.0


def _terms(node: ast.expr) -> Iterator[ast.expr]:
    """The operands of a sum of any length."""
    waiting = [node]
    while waiting:
        term = waiting.pop()
        if isinstance(term, ast.BinOp):
            waiting += [term.left, term.right]
        else:
            yield term


def _created(value: ast.expr | None, regrown: float) -> tuple[str, float]:
    if regrown:
        return ADDS, regrown
    empty = value is None or (isinstance(value, ast.Constant) and value.value is None)
    return CREATES, 0.2 if empty else 0.3


def _is_sieve(target: ast.expr, value: ast.expr | None) -> bool:
    """``rows[k] = [row for row in rows[k] if ...]``: there are no more than before."""
    inner = value.args[0] if isinstance(value, ast.Call) and len(value.args) == 1 else value
    if not isinstance(inner, COMPREHENSIONS):
        return False
    return any(ast.unparse(generator.iter) == ast.unparse(target) for generator in inner.generators)


def _is_empty(value: ast.expr | None) -> bool:
    """``[]``, ``{}``, ``set()``: a member to be filled later."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and not value.args and not value.keywords
    return not (value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [value]))


def _makes_thread(node: ast.Call, target: str, index: Index) -> bool:
    """A thread or process that runs ``target``, or that is of this class or one derived from it, is made here."""
    made = last_name(node.func)
    if made == target or (made in index.classes and target in index.classes and index.related(made, target)):
        return target in index.classes
    named = [k.value for k in node.keywords if k.arg in ("target", "function", "func")]
    if named or _STARTERS.match(made):
        return any(last_name(a) == target for a in (*named, *node.args))
    return False


def _sql_verb(call: ast.Call) -> str | None:
    """``insert`` of ``db.execute("insert into …")``; None where the statement is not written there."""
    parts = [one for text in call.args[:1] for one in (text, *getattr(text, "values", ())[:1])]  # of an f-string, too
    begins = next((one.value for one in parts if isinstance(one, ast.Constant)), None)
    found = _SQL.match(begins) if isinstance(begins, str) else None
    return found.group(1).lower() if found else None


def _plain_variable(holder: Holder) -> str:
    """The name as it stands in the source: the last one of a path, and a private one without its class."""
    names = re.findall(r"[^\W\d]\w*", holder.variable)
    variable = names[-1] if names else ""
    mangled = f"_{tail(holder.owner).lstrip('_')}__"
    return variable[len(mangled) - 2 :] if variable.startswith(mangled) else variable


def _cache_lines(index: Index, holder: Holder) -> list[Line]:
    """The decorator that makes a function remember, or the assignment that wraps it."""
    functions = index.functions_named(holder.owner or holder.variable, holder.owner_module, holder.owner_file)
    decorators = [
        line_at(index, function, node, ADDS, 1.0)
        for function in functions
        for node in getattr(function.node, "decorator_list", [])
        if _remembers(node)
    ]
    names = {function.name for function in functions}

    def wrappings(scope: Scope, site: Site) -> Iterator[_Event]:
        call = site.node
        made = [value for target, value in pairs(call) if last_name(target) == holder.variable]
        wraps = isinstance(call, ast.Call) and bool(names & {last_name(a) for a in call.args})
        if any(isinstance(one, ast.Call) and _remembers(one.func) for one in [*made, *([call] if wraps else [])]):
            yield _Event(call, ADDS, 1.0)

    return decorators or _ranked(index, wrappings)


def _remembers(node: ast.expr) -> bool:
    return any(re.search("cache|memo", last_name(n), re.IGNORECASE) for n in ast.walk(node))


def _ranked(index: Index, *kinds: Events) -> list[Line]:
    """One line a place, the likeliest first; equals in the order of the source."""
    best: dict[tuple[str, int], Line] = {}
    for scope, site in index.sites():
        for event in (event for events in kinds for event in events(scope, site) if event.weight > 0):
            score = event.weight * _often(index, scope, site, event)
            line = line_at(index, scope, event.node, event.kind, round(score, 4))
            line = line._replace(is_once=scope.kind != "class" and not index.is_repeated(site, scope))
            known = best.get((line.file, line.line))
            if known is None or known.score < line.score:
                best[line.file, line.line] = line
    # A line that makes it empty is the answer only where no line is seen to add.
    found = sorted(best.values(), key=lambda line: (line.kind == "creates", -line.score, line.file, line.line))
    return [line for line in found if line.score >= SOME]


_MAKING = frozenset(("__init__", "__post_init__", "__enter__", "__aenter__"))


def _often(index: Index, scope: Scope, site: Site, event: _Event) -> float:
    if event.kind == CREATES:
        return 1.0
    if scope.name in _MAKING and _on_self(event.node, scope):  # each new object fills its own
        return 0.65 if site.loops else 0.5
    return index.often(site, scope)


def _on_self(node: ast.AST, scope: Scope) -> bool:
    """The statement works on an attribute of the object that is being made."""
    at: Any = node
    while isinstance(at, (ast.Call, ast.AugAssign, ast.Attribute, ast.Subscript)):
        at = getattr(at, "func", None) or getattr(at, "target", None) or getattr(at, "value", None)
    return isinstance(at, ast.Name) and scope.params[:1] == (at.id,)


def line_at(index: Index, scope: Scope, node: ast.AST, kind: str, score: float) -> Line:
    """The line of the sources that a node begins on."""
    number = getattr(node, "lineno", 1)
    text = text_of(index.lines.get(scope.source.file), number)
    function = None if scope.kind == "module" else scope.qualname
    return Line(scope.source.file, number, function, text, kind, score)
