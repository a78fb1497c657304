"""The line a user would edit: found in the recorded sources by the name of what holds the memory.

An inventory names a holder (``Trainer.history``); where it was filled is not in the heap. So the sources are searched
for statements that add to that name, also where the object goes by another one: an alias, a parameter, an attribute.
Pure functions: text in, lines out, best first.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from ._source_index import Index, Pair, Scope, Site, Source, index_of, is_of, last_name, pairs, tail

__all__ = ["Holder", "Line", "Source", "adding_lines", "find_calls", "thread_start_line"]

ADDS, CALLS, CREATES = "adds", "calls", "creates"


class Holder(NamedTuple):
    """A name that holds memory, in the words of the table ``holders``."""

    variable: str
    owner: str | None = None
    owner_module: str | None = None
    owner_file: str | None = None
    edge_kind: str = "attribute"
    type_name: str = ""


class Line(NamedTuple):
    """One source line. ``kind``: adds, calls or creates; ``score``: 0 to 1, comparable within one answer only.

    ``function``: qualified name of the function or class body it stands in; None in a module's own.
    """

    file: str
    line: int
    function: str | None
    text: str
    kind: str
    score: float


class _Event(NamedTuple):
    node: ast.AST
    kind: str
    weight: float


Events = Callable[[Scope, Site], Iterator[_Event]]


# Methods that add to what they are called on, whatever its type. Other verbs are believed a little less.
_ADDERS = frozenset(
    ("add", "append", "appendleft", "enqueue", "extend", "extendleft", "insert", "push", "put", "put_nowait",
     "register", "setdefault", "subscribe", "update", "write", "writelines", "writerow", "writestr", "__setitem__")
)  # fmt: skip
_ADDING_VERB = re.compile(
    r"(add|append|push|put|register|insert|subscribe|enqueue|extend|store|remember|record|on)(_\w*[^_]|[A-Z]\w*|all)$"
)
# Calls that look as if they only read, take away or end something.
_READING = re.compile(
    r"(get|keys|items|values|len|copy|pop|popleft|popitem|remove|discard|clear|close|join|read|seek|tell|truncate|flush"
    r"|commit|rollback|is|has|count|index|sort|reverse|wait|zero_grad|state_dict|parameters|named_parameters|eval|to"
    r"|item|items|detach|cpu|numpy|tolist|mean|sum|max|min|fetch\w*|find|search|stop|start|cancel|done|result|empty|full"
    r"|qsize|release|acquire|startswith|endswith|split|strip|encode|decode|format|view|reshape|size|cursor|save|backward"
    r"|debug|info|warning|error|exception|random|randint|choice|uniform|gauss|shuffle)(_\w*)?$|__\w+__$"
)
_INSIDE = frozenset(("setdefault", "get", "values", "items", "cursor", "__getitem__", "__getattr__"))
_FIRST_ARGUMENT = frozenset(("heappush", "insort", "insort_left", "insort_right", "setattr", "setitem"))
_JOINERS = frozenset(
    ("append", "cat", "chain", "column_stack", "concat", "concatenate", "dstack", "hstack", "insert", "merge", "stack",
     "union", "vstack")
)  # fmt: skip
_LINKS = frozenset(("next", "prev", "previous", "parent", "child", "left", "right", "link", "rest", "tail"))
_WRAPPERS = frozenset(("writer", "DictWriter", "Pickler", "TextIOWrapper", "BufferedWriter", "GzipFile", "ZipFile"))
_FEEDERS = re.compile(r"(\w+_)?(add|append|push|put|insert|register|store|write|feed)(_\w+)?$", re.IGNORECASE)
# A store by index replaces a member of these; it makes only a mapping longer.
_FIXED = re.compile(r"(builtins\.)?(list|bytearray)$|collections\.deque$|(numpy|torch|array)\.")
_STARTERS = re.compile(r"(\w*Thread|\w*Process|Timer|submit|start_new_thread|run_in_executor|to_thread|apply_async)$")
_SQL = re.compile(r"\s*(\w+)", re.ASCII)
_SQL_ADDS = frozenset(("insert", "replace", "merge", "upsert", "copy"))
_ROUNDS = 4  # how many names the object may go through; each costs a little of what we are sure of
_PASSED_ON = 0.97
_MEMBER = 0.75  # adding to a member: the holder may be a dict of lists
_SAME = 0.85  # the object itself by another name, and not one that only may be it
_WHOLE = 0.76  # calls count only on the object itself


def adding_lines(sources: Sequence[Source], holder: Holder) -> list[Line]:
    """Lines that add to a holder, best first; where none does, calls on it, then what creates it."""
    variable = _plain_variable(holder)
    if not variable:
        return []
    holder = holder._replace(variable=variable)
    index = index_of(sources, variable, holder.owner_file)
    if holder.edge_kind == "cache":
        cached = _cache_lines(index, holder)
        if cached:
            return cached
    if holder.edge_kind in ("task", "generator"):
        return _ranked(index, _calls_of_function(index, holder))
    search = _Search(index, holder)
    search.follow()
    return _ranked(index, search.events) or _ranked(index, _calls_into(holder.owner_module))


def thread_start_line(sources: Sequence[Source], name: str) -> Line | None:
    """Where threads or processes that run a function, or are of a class, are started. None: nowhere to be seen."""
    name = name[: -len(".run")] if name.endswith(".run") else name
    target = tail(name)
    index = index_of(sources, target)
    made = [(scope, site) for scope in index.scopes for site in scope.sites if _makes_thread(site.node, target, index)]
    starts = _Search(index, None)
    for scope, _site in made:
        for other in scope.sites:
            for assigned, value in pairs(other.node):
                if value is not None and any(n is s.node for n in ast.walk(value) for c, s in made if c is scope):
                    starts.seed(assigned, scope)
    starts.follow()
    made_nodes = {id(site.node) for _, site in made}

    def events(scope: Scope, site: Site) -> Iterator[_Event]:
        node = site.node
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "start":
            direct = id(node.func.value) in made_nodes
            weight = 1.0 if direct else starts.strength(node.func.value, scope)
            if weight > 0:
                yield _Event(node, CALLS, weight)
        if id(node) in made_nodes:
            yield _Event(node, CREATES, 0.3)

    return next(iter(_ranked(index, events)), None)


def find_calls(sources: Sequence[Source], *names: str) -> list[Line]:
    """Calls of functions by their dotted names (``gc.disable``), however imported, in the order of the sources."""
    found = []
    for name in names:
        module, _, function = name.rpartition(".")
        found += _ranked(index_of(sources, function), _calls_by_name(module, function))
    order = {source.file: i for i, source in enumerate(sources)}
    return sorted(set(found), key=lambda line: (order.get(line.file, 0), line.line))


def _calls_by_name(module: str, function: str) -> Events:
    def events(scope: Scope, site: Site) -> Iterator[_Event]:
        func = site.node.func if isinstance(site.node, ast.Call) else None
        if isinstance(func, ast.Attribute) and isinstance(func.value, ast.Name):
            name = func.value.id
            found = func.attr == function and scope.binding(name).imports.get(name) == (module, "")
        else:
            found = isinstance(func, ast.Name) and scope.binding(func.id).imports.get(func.id) == (module, function)
        if found:
            yield _Event(site.node, CALLS, 1.0)

    return events


def _calls_of_function(index: Index, holder: Holder) -> Events:
    """Where a generator or coroutine is made that then stays suspended."""
    functions = index.functions_named(holder.owner, holder.owner_module, holder.owner_file)

    def events(scope: Scope, site: Site) -> Iterator[_Event]:
        if isinstance(site.node, ast.Call) and any(f in functions for f in index.callees(site.node.func, scope)):
            yield _Event(site.node, CALLS, 1.0)

    return events


def _calls_into(module: str | None) -> Events:
    """Calls of a library that holds the memory itself; those with changing arguments first."""
    package = (module or "").split(".", 1)[0]

    def events(scope: Scope, site: Site) -> Iterator[_Event]:
        node = site.node
        if not package or not isinstance(node, ast.Call):
            return
        root: ast.expr = node.func
        while isinstance(root, ast.Attribute):
            root = root.value
        if isinstance(root, ast.Name):
            imported = scope.binding(root.id).imports.get(root.id, ("", ""))[0]
            if imported.split(".", 1)[0] == package:
                changing = any(not isinstance(a, ast.Constant) for a in (*node.args, *(k.value for k in node.keywords)))
                yield _Event(node, CALLS, 0.5 if changing else 0.3)

    return events


class _Search:
    """The names under which one object is known, and what is done to it under each.

    A strength of 1 is the object itself; less is one of its members, or a name that only may be it.
    """

    def __init__(self, index: Index, holder: Holder | None) -> None:
        self.index = index
        self.holder = holder
        self.type_name = holder.type_name if holder is not None else ""
        self.names: dict[tuple[Scope, str], float] = {}
        self.attributes: dict[str, dict[str | None, float]] = {}  # attribute, then class it belongs to
        self.returns: dict[Scope, float] = {}
        self.adders: set[tuple[Scope, str]] = set()  # names of bound methods: append = rows.append
        self.grew = True
        if holder is not None:
            self._seed_holder(holder)
        self.seeds = set(self.names)

    def seed(self, target: ast.expr, scope: Scope) -> None:
        """The object is also what is assigned here."""
        if isinstance(target, ast.Name):
            self._learn_name(self.index.resolve(target.id, scope), 1.0)
        elif isinstance(target, ast.Attribute):
            self._learn_attribute(target.attr, self.index.class_of(target.value, scope), 1.0)
        elif isinstance(target, ast.Subscript):
            self.seed(target.value, scope)

    def follow(self) -> None:
        """Learn the object's other names: aliases, parameters, attributes, functions that return it."""
        for _ in range(_ROUNDS):
            if not self.grew:
                break
            self.grew = False
            for scope in self.index.scopes:
                for site in scope.sites:
                    self._follow(site.node, scope)

    def strength(self, node: ast.expr | None, scope: Scope, *, inside: bool = True) -> float:
        """How surely an expression is the object, or with ``inside`` something in it; 0 where it is neither."""
        if isinstance(node, ast.Name):
            return self.names.get(self.index.resolve(node.id, scope), 0.0)
        if isinstance(node, ast.Attribute):
            own = self._attribute(node, scope)
            return own or (_MEMBER * self.strength(node.value, scope) if inside else 0.0)
        if isinstance(node, ast.BoolOp):
            return max(self.strength(v, scope, inside=inside) for v in node.values)
        if isinstance(node, ast.IfExp):
            return max(self.strength(v, scope, inside=inside) for v in (node.body, node.orelse))
        if isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
            return self.strength(node.value, scope, inside=inside)
        if isinstance(node, ast.Subscript):
            if inside and not isinstance(node.slice, ast.Slice):  # a slice is a copy
                return _MEMBER * self.strength(node.value, scope)
        elif isinstance(node, ast.Call):
            returned = max((self.returns.get(f, 0.0) for f in self.index.callees(node.func, scope)), default=0.0)
            if returned:
                return returned
            if node.args and last_name(node.func) in _WRAPPERS:
                return _PASSED_ON * self.strength(node.args[0], scope)
            if inside and isinstance(node.func, ast.Attribute) and node.func.attr in _INSIDE:
                return (1.0 if node.func.attr == "cursor" else _MEMBER) * self.strength(node.func.value, scope)
        return 0.0

    def events(self, scope: Scope, site: Site) -> Iterator[_Event]:
        """What a site does to the object."""
        node = site.node
        if isinstance(node, ast.Call):
            yield from self._call(node, scope)
        elif isinstance(node, ast.AugAssign):
            weight = 0.95 if isinstance(node.op, (ast.Add, ast.BitOr)) else 0.7
            yield _Event(node, ADDS, weight * self.strength(node.target, scope, inside=False))
            if isinstance(node.target, ast.Subscript):
                yield _Event(node, ADDS, self._store(node.target, scope))
        elif isinstance(node, ast.Subscript) and self.type_name.endswith("defaultdict"):
            yield _Event(node, ADDS, 0.6 * self.strength(node.value, scope))  # looking up makes the entry
        for target, value in pairs(node):
            if isinstance(target, ast.Subscript):
                yield _Event(target, ADDS, self._store(target, scope) * (0.6 if _is_empty(value) else 1.0))
            elif isinstance(target, ast.Attribute) and target.attr in _LINKS:  # tail.next = node
                yield _Event(target, ADDS, 0.6 * self.strength(target.value, scope))
            if self._is_seed(target, scope):
                weight = self._regrown(value, scope)
                yield _Event(node if not isinstance(node, ast.withitem) else target, *_created(value, weight))
        if isinstance(node, (ast.For, ast.AsyncFor)) and self._is_seed(node.target, scope):
            yield _Event(node, CREATES, 0.25)

    def _seed_holder(self, holder: Holder) -> None:
        variable, owner = holder.variable, holder.owner
        edge = holder.edge_kind
        scopes = self.index.functions_named(owner, holder.owner_module, holder.owner_file)
        if edge in ("attribute", "class-attribute"):
            self._learn_attribute(variable, tail(owner) or None, 1.0)
            for scope in self.index.classes.get(tail(owner), []):
                self._learn_name((scope, variable), 1.0)
            return
        if edge in ("local", "cell", "default", "cache"):
            for scope in scopes:
                self._learn_name(self.index.resolve(variable, scope), 1.0)
        if not self.names and edge != "local":
            for scope in self._modules(holder):
                self._learn_name((scope, variable), 1.0)
        if not self.names:  # an edge we do not know, or an owner the sources do not have
            for scope in self.index.scopes:
                if variable in scope.bound and variable not in scope.elsewhere:
                    self._learn_name((scope, variable), 0.6)
            self._learn_attribute(variable, None, 0.6)

    def _modules(self, holder: Holder) -> list[Scope]:
        modules = [s for s in self.index.scopes if s.kind == "module" and holder.variable in s.bound]
        own = [s for s in modules if is_of(s, holder.owner_module, holder.owner_file)]
        named = [s for s in modules if tail(s.source.module) in (tail(holder.owner), tail(holder.owner_module))]
        return own or named or modules

    def _learn_name(self, key: tuple[Scope, str], strength: float) -> None:
        if strength >= 0.3 and strength > self.names.get(key, 0.0):
            self.names[key] = strength
            self.grew = True

    def _learn_attribute(self, attribute: str, owner: str | None, strength: float) -> None:
        owners = self.attributes.setdefault(attribute, {})
        if strength >= 0.3 and strength > owners.get(owner, 0.0):
            owners[owner] = strength
            self.grew = True

    def _attribute(self, node: ast.Attribute, scope: Scope) -> float:
        for module in self.index.module_named(node.value, scope):
            if (module, node.attr) in self.names:
                return self.names[module, node.attr]
        owners = self.attributes.get(node.attr)
        if not owners:
            return 0.0
        known = self.index.class_of(node.value, scope)
        return max(s * self._same_class(known, owner) for owner, s in owners.items())

    def _same_class(self, known: str | None, owner: str | None) -> float:
        """How likely an attribute of the wanted name is the wanted one, by what is known of the object it is on."""
        if known is None or owner is None:
            return 0.8
        if known == owner:
            return 1.0
        return 0.97 if self.index.related(known, owner) else 0.2

    def _is_seed(self, target: ast.expr, scope: Scope) -> bool:
        if isinstance(target, ast.Name):
            return self.index.resolve(target.id, scope) in self.seeds
        if isinstance(target, ast.Attribute) and self.holder is not None and target.attr == self.holder.variable:
            return self._attribute(target, scope) >= 0.5
        return False

    def _follow(self, node: ast.AST, scope: Scope) -> None:
        for target, value in pairs(node):
            self._follow_pair((target, value), scope)
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            found = max((self.strength(n, scope) for n in _iterated(node.iter)), default=0.0)
            for name in ast.walk(node.target):
                if found and isinstance(name, ast.Name):
                    self._learn_name(self.index.resolve(name.id, scope), 0.6 * found)
        elif isinstance(node, ast.Return):
            found = _PASSED_ON * self.strength(node.value, scope)
            if found < 0.3 or scope.kind != "function":
                return
            if {"property", "cached_property"} & set(scope.decorators) and scope.within is not None:
                self._learn_attribute(scope.name, scope.within.name, found)
            elif found > self.returns.get(scope, 0.0):
                self.returns[scope] = found
                self.grew = True
        elif isinstance(node, ast.Call):
            self._follow_call(node, scope)

    def _follow_pair(self, pair: Pair, scope: Scope) -> None:
        target, value = pair
        if isinstance(target, ast.Name):
            key = self.index.resolve(target.id, scope)
            self._learn_name(key, _PASSED_ON * self.strength(value, scope))
            if isinstance(value, ast.Attribute) and _adds(value.attr) and self.strength(value.value, scope):
                self.adders.add(key)
        elif isinstance(target, ast.Attribute):
            found = _PASSED_ON * self.strength(value, scope, inside=False)
            if found and not self._attribute(target, scope):
                self._learn_attribute(target.attr, self.index.class_of(target.value, scope), found)
        self._follow_back(value, self.strength(target, scope, inside=False), scope)

    def _follow_back(self, given: ast.expr | None, strength: float, scope: Scope) -> None:
        """What is put under a name of the object is the object too: ``rows = self.rows``."""
        if strength < _SAME or not isinstance(given, (ast.Name, ast.Attribute)):
            return
        if isinstance(given, ast.Name):
            self._learn_name(self.index.resolve(given.id, scope), _PASSED_ON * strength)
        elif not self.strength(given, scope):
            self._learn_attribute(given.attr, self.index.class_of(given.value, scope), _PASSED_ON * strength)

    def _follow_call(self, call: ast.Call, scope: Scope) -> None:
        for function, seen in _started(call, self.index, scope):
            if (
                function.is_method and function.params and isinstance(seen.func, ast.Attribute)
            ):  # it is the self of its own methods
                found = _PASSED_ON * self.strength(seen.func.value, scope)
                self._learn_name((function, function.params[0]), found)
            for name, argument in self.index.arguments(seen, function):
                self._follow_back(argument, self.names.get((function, name), 0.0), scope)
                found = _PASSED_ON * self.strength(argument, scope)
                if not found:
                    continue
                if function.kind == "class":
                    self._learn_attribute(name, function.name, found)
                else:
                    self._learn_name((function, name), found)

    def _call(self, call: ast.Call, scope: Scope) -> Iterator[_Event]:
        func = call.func
        if isinstance(func, ast.Name) and self.index.resolve(func.id, scope) in self.adders:
            yield _Event(call, ADDS, 0.97)
        if isinstance(func, ast.Attribute):
            yield from self._method(call, func, scope)
        else:
            yield _Event(call, CALLS, 0.5 * self.strength(func, scope, inside=False))
        if last_name(func) in _FIRST_ARGUMENT and call.args:
            yield _Event(call, ADDS, self.strength(call.args[0], scope))
        for argument in (*call.args, *(k.value for k in call.keywords)):
            if isinstance(argument, ast.Attribute) and _adds(argument.attr):  # the method itself is handed on
                yield _Event(call, ADDS, 0.75 * self.strength(argument.value, scope))
        for keyword in call.keywords:
            if keyword.arg == "file":  # print(..., file=buffer)
                yield _Event(call, ADDS, 0.7 * self.strength(keyword.value, scope))
        if last_name(func) in ("dump", "writer") and len(call.args) > 1:
            yield _Event(call, ADDS, 0.7 * self.strength(call.args[1], scope))
        elif len(call.args) > 1 and _FEEDERS.match(last_name(func)):  # lib.table_put(handle, x)
            yield _Event(call, ADDS, 0.7 * self.strength(call.args[0], scope, inside=False))

    def _method(self, call: ast.Call, func: ast.Attribute, scope: Scope) -> Iterator[_Event]:
        strength = self.strength(func.value, scope)
        if not strength:
            return
        if func.attr.startswith("execute"):
            verb = _sql_verb(call)
            if verb is None or verb in _SQL_ADDS:
                yield _Event(call, ADDS if verb else CALLS, (0.9 if verb else 0.6) * max(strength, 0.8))
        elif _adds(func.attr):
            yield _Event(call, ADDS, (1.0 if func.attr in _ADDERS else 0.85) * strength)
        elif strength >= _WHOLE and not _READING.match(func.attr):
            yield _Event(call, CALLS, 0.6 * strength)

    def _store(self, target: ast.Subscript, scope: Scope) -> float:
        """Weight of ``x[key] = value``."""
        replaces = isinstance(target.slice, (ast.Slice, ast.Constant, ast.UnaryOp)) or _FIXED.match(self.type_name)
        return (0.6 if replaces else 1.0) * self.strength(target.value, scope)

    def _regrown(self, value: ast.expr | None, scope: Scope) -> float:
        """Weight of ``x = value`` as an addition to x: the new value is the old one and something more."""

        def old(node: ast.AST) -> bool:
            inner = node.value if isinstance(node, (ast.Starred, ast.Await)) else node
            return isinstance(inner, ast.expr) and self.strength(inner, scope, inside=False) >= 0.5

        if isinstance(value, ast.BinOp):
            operands = (value.left, value.right)
            if any(old(o) or self._regrown(o, scope) for o in operands):
                return 0.95 if isinstance(value.op, (ast.Add, ast.BitOr)) else 0.7
        elif isinstance(value, (ast.List, ast.Tuple, ast.Set)):
            return 0.95 if any(old(e) for e in value.elts) else 0.0
        elif isinstance(value, ast.Dict):
            return 0.95 if any(k is None and old(v) for k, v in zip(value.keys, value.values)) else 0.0
        elif isinstance(value, ast.IfExp):
            return max(self._regrown(value.body, scope), self._regrown(value.orelse, scope))
        elif isinstance(value, ast.Call):
            arguments = [*value.args, *(k.value for k in value.keywords)]
            given = [e for a in arguments for e in (a.elts if isinstance(a, (ast.List, ast.Tuple)) else [a])]
            joins = last_name(value.func) in _JOINERS
            if isinstance(value.func, ast.Attribute) and joins and old(value.func.value):
                return 0.95
            if any(old(e) for e in given) and (joins or len(given) > 1):
                return 0.95 if joins else 0.7
        return 0.0


def _created(value: ast.expr | None, regrown: float) -> tuple[str, float]:
    if regrown:
        return ADDS, regrown
    empty = value is None or (isinstance(value, ast.Constant) and value.value is None)
    return CREATES, 0.2 if empty else 0.3


def _is_empty(value: ast.expr | None) -> bool:
    """``[]``, ``{}``, ``set()``: a member to be filled later."""
    if isinstance(value, ast.Call):
        return isinstance(value.func, ast.Name) and not value.args and not value.keywords
    return not (value.keys if isinstance(value, ast.Dict) else getattr(value, "elts", [value]))


def _adds(method: str) -> bool:
    return method in _ADDERS or _ADDING_VERB.match(method) is not None


def _iterated(node: ast.expr) -> Iterator[ast.expr]:
    """What a loop goes through: also inside zip, enumerate and the like."""
    yield node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        for argument in node.args:
            yield from _iterated(argument)


def _started(call: ast.Call, index: Index, scope: Scope) -> Iterator[tuple[Scope, ast.Call]]:
    """The functions a call runs, each with the call as it sees it: ``Thread(target=f, args=(x,))`` runs ``f(x)``."""
    for function in index.callees(call.func, scope):
        yield function, call
    target = next((k.value for k in call.keywords if k.arg in ("target", "func", "function")), None)
    given = next((k.value for k in call.keywords if k.arg == "args"), None)
    if target is None:
        target, rest = (call.args[0], call.args[1:]) if call.args else (None, [])
    else:
        rest = []
    if isinstance(given, (ast.Tuple, ast.List)):
        rest = [*rest, *given.elts]
    if isinstance(target, (ast.Name, ast.Attribute)) and (rest or call.keywords):
        seen = ast.Call(func=target, args=rest, keywords=call.keywords)
        for function in index.callees(target, scope):
            yield function, seen


def _makes_thread(node: ast.AST, target: str, index: Index) -> bool:
    """A thread or process that runs ``target``, or that is of this class or one derived from it, is made here."""
    if not isinstance(node, ast.Call):
        return False
    made = last_name(node.func)
    if made == target or (made in index.classes and target in index.classes and index.related(made, target)):
        return target in index.classes
    named = [k.value for k in node.keywords if k.arg in ("target", "function", "func")]
    if named or _STARTERS.match(made):
        return any(last_name(a) == target for a in (*named, *node.args))
    return False


def _sql_verb(call: ast.Call) -> str | None:
    """``insert`` of ``db.execute("insert into …")``; None where the statement is not written there."""
    text = call.args[0] if call.args else None
    if isinstance(text, ast.JoinedStr) and text.values:
        text = text.values[0]
    if isinstance(text, ast.Constant) and isinstance(text.value, str):
        found = _SQL.match(text.value)
        return found.group(1).lower() if found else None
    return None


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
        _line(index, function, node, ADDS, 1.0)
        for function in functions
        for node in getattr(function.node, "decorator_list", [])
        if _remembers(node)
    ]
    names = {function.name for function in functions}

    def wrappings(scope: Scope, site: Site) -> Iterator[_Event]:
        call = site.node
        if isinstance(call, ast.Call) and _remembers(call.func) and names & {last_name(a) for a in call.args}:
            yield _Event(call, ADDS, 1.0)

    return decorators or _ranked(index, wrappings)


def _remembers(node: ast.expr) -> bool:
    return any(re.search("cache|memo", last_name(n), re.IGNORECASE) for n in ast.walk(node))


def _ranked(index: Index, events: Events) -> list[Line]:
    """One line a place, the likeliest first; equals in the order of the source."""
    best: dict[tuple[str, int], Line] = {}
    for scope in index.scopes:
        for site in scope.sites:
            for event in events(scope, site):
                if event.weight <= 0:
                    continue
                score = event.weight * _often(index, scope, site, event)
                line = _line(index, scope, event.node, event.kind, round(score, 4))
                known = best.get((line.file, line.line))
                if known is None or known.score < line.score:
                    best[line.file, line.line] = line
    found = sorted(best.values(), key=lambda line: (-line.score, line.file, line.line))
    return [line for line in found if line.score >= 0.1]


def _often(index: Index, scope: Scope, site: Site, event: _Event) -> float:
    """What is done once cannot make memory grow: a factor for how often a site may run."""
    if event.kind == CREATES:
        return 1.0
    if scope.kind != "function":
        return 1.0 if site.in_loop else 0.5
    if scope.name == "__init__" and _on_self(event.node, scope):  # each new object fills its own
        return 0.65 if site.in_loop else 0.5
    if site.in_loop:
        return 1.0
    return 0.97 if scope in index.repeated else 0.7


def _on_self(node: ast.AST, scope: Scope) -> bool:
    """The statement works on an attribute of the object that is being made."""
    while not isinstance(node, ast.Name):
        if isinstance(node, ast.Call):
            node = node.func
        elif isinstance(node, ast.AugAssign):
            node = node.target
        elif isinstance(node, (ast.Attribute, ast.Subscript)):
            node = node.value
        else:
            return False
    return scope.params[:1] == (node.id,)


def _line(index: Index, scope: Scope, node: ast.AST, kind: str, score: float) -> Line:
    number = getattr(node, "lineno", 1)
    lines = index.lines.get(scope.source.file, [])
    text = lines[number - 1].strip() if number <= len(lines) else ""
    function = None if scope.kind == "module" else scope.qualname
    return Line(scope.source.file, number, function, text, kind, score)
