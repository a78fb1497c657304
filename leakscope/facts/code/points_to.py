"""What an expression of the user's sources may stand for: one graph of who is given what, built once for an index.

Its nodes are variables, attributes (by class and name), functions (for what they return) and calls (for what they
make). An expression stands for nodes, each with a path: ``rows`` and ``["a"]`` for ``rows["a"]``. Where it is given on,
by an assignment, an argument, a ``return`` or a loop, there is a flow. Statements count in whatever order they stand.

Questions are walks through the graph: ``Things`` finds what comes of some calls or imports; ``names.Names`` what else
one object is called. Neither has to know the grammar, and neither stops after so many rounds.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict, deque
from collections.abc import Iterable, Iterator
from typing import NamedTuple, Union

from .index import Index, Scope
from .syntax import COMPREHENSIONS, defaults_of, last_name, pairs

# Steps of a path, beside ".name", "['key']" (a known one), "[]" (any) and "[:]" (a part, copied).
CALLED, EACH, INTO, COPIED, PART, SPREAD, WRAPPED = "()", "each", "into", "copied", "part", "*", "wrapped"
_WRAPPERS = frozenset(("writer", "DictWriter", "Pickler", "TextIOWrapper", "BufferedWriter", "GzipFile", "ZipFile"))
_COPIES = frozenset(("enumerate", "iter", "list", "reversed", "set", "sorted", "tuple", "zip"))
_COUNTS = frozenset(("len", "range"))  # a loop over these goes through no members
# Methods that add to what they are called on, whatever its type. Other verbs are believed a little less.
ADDERS = frozenset(
    ("add", "append", "appendleft", "enqueue", "extend", "extendleft", "insert", "on", "push", "put", "put_nowait",
     "register", "setdefault", "subscribe", "update", "write", "writelines", "writerow", "writestr", "__setitem__")
)  # fmt: skip
PUSHES = frozenset(("heappush", "insort", "insort_left", "insort_right"))  # functions: the container comes first
_ADDING_VERB = re.compile(
    r"(add|append|push|put|register|insert|subscribe|enqueue|extend|store|remember|record)(_\w*[^_]|[A-Z]\w*|all)?$"
)
_DEEPEST = 10  # expressions within each other
_LONGEST = 5  # steps of a path


def adds(method: str) -> bool:
    """By its name, a method puts something into what it is called on."""
    return method in ADDERS or _ADDING_VERB.match(method) is not None


def added_to(node: ast.AST) -> Iterator[ast.expr]:
    """What a node puts members into."""
    if isinstance(node, ast.Call):
        if isinstance(node.func, ast.Attribute) and adds(node.func.attr):
            yield node.func.value
        elif last_name(node.func) in PUSHES and node.args:
            yield node.args[0]
    yield from (target.value for target, _ in pairs(node) if isinstance(target, ast.Subscript))


class Variable(NamedTuple):
    scope: Scope
    name: str


class Field(NamedTuple):
    """An attribute of the objects of a class; of any class where the sources do not tell whose it is."""

    owner: str | None
    name: str


Node = Union[Variable, Field, Scope, ast.expr]  # expressions: calls, numbers, and what is worked out of numbers


class Term(NamedTuple):
    """One thing an expression may stand for: what is found at a node, or by a path from there."""

    node: Node
    path: tuple[str, ...] = ()


class Flow(NamedTuple):
    """What ``term`` stands for is also at ``target``. ``site``: the statement or call in ``scope``."""

    term: Term
    target: Node
    site: ast.AST
    scope: Scope
    is_self: bool = False  # an object becomes the self of its own methods


class PointsTo:
    """The graph of an index. ``out`` and ``into``: flows from and to a node, attributes by their names alone."""

    def __init__(self, index: Index) -> None:
        self.index = index
        self.out: dict[Node | str, list[Flow]] = defaultdict(list)
        self.into: dict[Node | str, list[Flow]] = defaultdict(list)
        self._terms: dict[int, tuple[Term, ...]] = {}
        functions = [scope for scope in index.scopes if scope.kind == "function"]
        self._given_back = {scope: frozenset(_given_back(scope)) for scope in functions}
        self._members_returned = {scope: _members_returned(scope) for scope in functions}
        for scope in index.scopes:
            for site in scope.sites:
                for term, target in self._flows_at(site.node, scope):
                    self._add(Flow(term, target, site.node, scope))
                if isinstance(site.node, ast.Call):
                    self._flow_into_functions(site.node, scope)
            for parameter, value in defaults_of(scope.node):
                for term in self.terms(value, scope.parent or scope) if self._is_left_out(parameter.arg, scope) else ():
                    self._add(Flow(term, Variable(scope, parameter.arg), value, scope))

    def terms(self, node: ast.expr | None, scope: Scope, depth: int = _DEEPEST) -> tuple[Term, ...]:
        """What an expression may stand for."""
        if node is None or depth == 0:
            return ()
        known = self._terms.get(id(node))
        if known is None:
            known = self._terms[id(node)] = tuple(dict.fromkeys(self._found(node, scope, depth - 1)))
        return known

    def target(self, node: ast.expr, scope: Scope) -> tuple[Node, tuple[str, ...]] | None:
        """The node that is assigned to, and the steps to the member of it that is."""
        steps: tuple[str, ...] = ()
        while isinstance(node, ast.Subscript):
            node, steps = node.value, (INTO,)
        if isinstance(node, ast.Name):
            return Variable(*self.index.variable(node, scope)), steps
        return (self._attribute(node, scope), steps) if isinstance(node, ast.Attribute) else None

    def origins(self, node: Node) -> Iterator[Node]:
        """The nodes whose objects are also found at this one, itself first: where an alias comes from."""
        seen = {node: None}
        waiting = [node]
        while waiting:
            at = waiting.pop()
            yield at
            for flow in self.into.get(key_of(at), ()):
                if flow.target == at and not flow.term.path and flow.term.node not in seen:
                    seen[flow.term.node] = None
                    waiting.append(flow.term.node)

    def given(self, node: Node) -> Iterator[Flow]:
        """What flows into a node: of an attribute, also that of a class derived from its own."""
        for flow in self.into.get(key_of(node), ()):
            owners = getattr(node, "owner", None), getattr(flow.target, "owner", None)
            if flow.target == node or None in owners or self.index.related(*map(str, owners)):
                yield flow

    def _is_left_out(self, parameter: str, function: Scope) -> bool:
        """Whether a call gives none, or nobody is seen to call it."""
        calls = [site.node for _, site in self.index.callers.get(function, ()) if isinstance(site.node, ast.Call)]
        return not calls or any(parameter not in dict(self.index.arguments(call, function)) for call in calls)

    def _add(self, flow: Flow) -> None:
        self.out[key_of(flow.term.node)].append(flow)
        self.into[key_of(flow.target)].append(flow)

    def _attribute(self, node: ast.Attribute, scope: Scope) -> Variable | Field:
        for module in self.index.module_named(node.value, scope):
            if node.attr in module.bound:
                return Variable(*self.index.resolve(node.attr, module))
        return Field(self.index.class_of(node.value, scope), node.attr)

    def _found(self, node: ast.expr, scope: Scope, depth: int) -> Iterator[Term]:
        if isinstance(node, ast.Name):
            yield Term(Variable(*self.index.variable(node, scope)))
        elif isinstance(node, ast.Attribute):
            yield Term(self._attribute(node, scope))
            yield from _further(self.terms(node.value, scope, depth), f".{node.attr}")
        elif isinstance(node, ast.Subscript):
            yield from _further(self.terms(node.value, scope, depth), _step(node.slice))
        elif isinstance(node, ast.Call):
            yield Term(node)
            yield from self._made_by(node, scope, depth)
        elif isinstance(node, ast.BinOp) or type(getattr(node, "value", None)) in (int, float):
            yield Term(node)
        else:
            for part, step in _parts(node):
                yield from _further(self.terms(part, scope, depth), step)

    def _made_by(self, call: ast.Call, scope: Scope, depth: int) -> Iterator[Term]:
        """What a call returns: of the user's functions what they return, or what they were given."""
        name = last_name(call.func)
        for function in self.index.callees(call.func, scope):
            if function.kind != "function" or function.name == "__init__":
                continue
            given = dict(self.index.arguments(call, function))
            members = self._members_returned[function]
            if members and all(isinstance(given.get(index), ast.Constant) for _, index in members):
                for whole, index in members:  # ``get("a")`` is ``rows["a"]`` where that returns ``rows[name]``
                    yield from _further(self.terms(whole, function, depth), _step(given[index]))
            else:
                yield Term(function)
            for parameter, argument in given.items():
                if parameter in self._given_back[function]:
                    yield from self.terms(argument, scope, depth)
        if isinstance(call.func, ast.Name) and name in _COPIES:
            for argument in call.args:
                yield from _further(self.terms(argument, scope, depth), COPIED)
        if call.args and name in _WRAPPERS:
            yield from _further(self.terms(call.args[0], scope, depth), WRAPPED)
        if name == "super" and scope.is_method and scope.params:
            yield Term(Variable(scope, scope.params[0]))
        yield from _further(self.terms(call.func, scope, depth), CALLED)

    def _flows_at(self, node: ast.AST, scope: Scope) -> Iterator[tuple[Term, Node]]:
        for target, value in pairs(node):
            place = self.target(target, scope)
            if place is not None:
                # One of several names that a tuple is unpacked to gets a member of it.
                is_part = isinstance(node, ast.Assign) and value is node.value and target not in node.targets
                steps = (*((PART,) if is_part else ()), *place[1])
                yield from ((term, place[0]) for term in _further(self.terms(value, scope), *steps))
        if isinstance(node, (ast.For, ast.AsyncFor, ast.comprehension)):
            terms = [t for part in _iterated(node.iter) for t in _further(self.terms(part, scope), EACH)]
            for name in ast.walk(node.target):
                if isinstance(name, ast.Name):
                    yield from ((term, Variable(*self.index.variable(name, scope))) for term in terms)
        elif isinstance(node, ast.Return) and scope.kind == "function":
            returned: Node = Field(scope.within.name, scope.name) if scope.is_property and scope.within else scope
            for term in self.terms(node.value, scope):
                if not _is_parameter(term, scope):
                    yield term, returned
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and adds(node.func.attr) and node.args:
            place = self.target(node.func.value, scope)
            if place is not None:
                yield from ((term, place[0]) for term in _further(self.terms(node.args[-1], scope), INTO))

    def _flow_into_functions(self, call: ast.Call, scope: Scope) -> None:
        for function, seen in _started(call, self.index, scope):
            if function.is_method and function.params and isinstance(seen.func, ast.Attribute):
                for term in self.terms(seen.func.value, scope):
                    self._add(Flow(term, Variable(function, function.params[0]), call, scope, is_self=True))
            for name, argument in self.index.arguments(seen, function):
                target = Field(function.name, name) if function.kind == "class" else Variable(function, name)
                for term in self.terms(argument, scope):
                    self._add(Flow(term, target, call, scope))
            for argument in seen.args:
                if isinstance(argument, ast.Starred):
                    for term in _further(self.terms(argument, scope), SPREAD):
                        for name in function.params[1 if function.is_method else 0 :]:
                            self._add(Flow(term, Variable(function, name), call, scope))


THING, CONTAINER = "thing", "container"
_GIVES_ONE = frozenset((".get", ".pop", ".popleft", ".setdefault", ".popitem", ".get_nowait"))
_GIVES_ALL = frozenset((".values", ".items", ".copy"))


def points_to(index: Index) -> PointsTo:
    """Who is given what in the program of an index, worked out once."""
    return index.once(PointsTo)


class Things:
    """What comes of some things, wherever they are given on, and what contains them.

    Finds too many rather than too few: a name that is such a thing somewhere counts as one everywhere.
    """

    def __init__(self, graph: PointsTo, things: Iterable[Node]) -> None:
        self._graph = graph
        self._known: dict[Node, str] = {}
        self._owners: dict[str, set[str | None]] = defaultdict(set)
        self._waiting: deque[Node] = deque()
        self.flows: dict[Flow, None] = {}  # by which they were given on, the nearest first
        for thing in things:
            self._learn(thing, THING)
        while self._waiting:
            node = self._waiting.popleft()
            for flow in graph.out.get(key_of(node), ()):
                kind = self.kind_of(flow.term)
                if kind is not None:
                    self.flows[flow] = None
                    self._learn(flow.target, kind)

    def kind(self, node: ast.expr | None, scope: Scope) -> str | None:
        """Whether an expression is one of the things, a container of such, or neither, as far as is known."""
        kinds = {self.kind_of(term) for term in self._graph.terms(node, scope)}
        return THING if THING in kinds else CONTAINER if CONTAINER in kinds else None

    def kind_of(self, term: Term) -> str | None:
        kind, path = self._at(term.node), term.path
        while kind is not None and path:
            if kind == CONTAINER and len(path) > 1 and path[1] == CALLED and path[0] in _GIVES_ONE | _GIVES_ALL:
                kind = THING if path[0] in _GIVES_ONE else CONTAINER
                path = path[2:]
            else:
                kind = self._after(kind, path[0])
                path = path[1:]
        return kind

    def _after(self, kind: str, step: str) -> str | None:
        if step == INTO:
            return CONTAINER
        if step in (PART, SPREAD):
            return THING
        if kind == CONTAINER:
            return THING if step[0] == "[" or step == EACH else CONTAINER if step == COPIED else None
        return None

    def _at(self, node: Node) -> str | None:
        if not isinstance(node, Field):
            return self._known.get(node)
        owners = self._owners.get(node.name, ())
        same = [o for o in owners if o is None or node.owner is None or self._graph.index.related(node.owner, o)]
        kinds = {self._known.get(Field(owner, node.name)) for owner in same}
        return THING if THING in kinds else CONTAINER if CONTAINER in kinds else None

    def _learn(self, node: Node, kind: str) -> None:
        """A thing stays one: what is put into it does not make it a plain container."""
        if self._known.get(node) in (kind, THING):
            return
        self._known[node] = kind
        if isinstance(node, Field):
            self._owners[node.name].add(node.owner)
        self._waiting.append(node)


def key_of(node: Node) -> Node | str:
    """Under what its flows are found: those of an attribute by its name, whosever it is."""
    return node.name if isinstance(node, Field) else node


def _further(terms: Iterable[Term], *steps: str) -> Iterator[Term]:
    """These terms, some steps further."""
    steps = tuple(filter(None, steps))
    for term in terms:
        if len(term.path) + len(steps) <= _LONGEST:
            yield Term(term.node, term.path + steps) if steps else term


def _step(index: ast.expr) -> str:
    if isinstance(index, ast.Slice):
        return "[:]"
    return f"[{index.value!r}]" if isinstance(index, ast.Constant) else "[]"


def _parts(node: ast.expr) -> Iterator[tuple[ast.expr | None, str]]:
    """What an expression is made of, each with the step to it; an empty one where it is that itself."""
    if isinstance(node, (ast.NamedExpr, ast.Await, ast.Starred)):
        yield node.value, ""
    elif isinstance(node, ast.IfExp):
        yield from ((node.body, ""), (node.orelse, ""))
    elif isinstance(node, (ast.BoolOp, ast.List, ast.Tuple, ast.Set, ast.Dict)):
        parts = node.elts if isinstance(node, (ast.List, ast.Tuple, ast.Set)) else node.values
        yield from ((part, "" if isinstance(node, ast.BoolOp) else INTO) for part in parts)
    elif isinstance(node, COMPREHENSIONS):
        yield (node.value if isinstance(node, ast.DictComp) else node.elt), INTO


def _given_back(function: Scope) -> Iterator[str]:
    """Parameters that a function returns as they are."""
    for node in (site.node for site in function.sites):
        if isinstance(node, ast.Return) and isinstance(node.value, ast.Name) and node.value.id in function.params:
            yield node.value.id


def _members_returned(function: Scope) -> list[tuple[ast.expr, str]]:
    """(container, parameter) of each return, where all of them return a member by a parameter."""
    returned = [site.node.value for site in function.sites if isinstance(site.node, ast.Return)]
    found = [
        (node.value, node.slice.id)
        for node in returned
        if isinstance(node, ast.Subscript) and isinstance(node.slice, ast.Name) and node.slice.id in function.params
    ]
    return found if len(found) == len(returned) else []


def _is_parameter(term: Term, scope: Scope) -> bool:
    return isinstance(term.node, Variable) and term.node.scope is scope and term.node.name in scope.params


def _iterated(node: ast.expr) -> Iterator[ast.expr]:
    """What a loop goes through: also inside zip, enumerate and the like."""
    yield node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id not in _COUNTS:
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
