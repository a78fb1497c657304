"""Where the sources read what a name holds: again and again, once to make something else of it, or nowhere any more."""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple, Optional

from ...units import MOST
from .adding import Line, line_at
from .index import Index, Scope, Site, Source, index_of, tail
from .names import Holder, Names
from .points_to import THING, Field, Node, Things, Variable, added_to, points_to
from .syntax import FUNCTIONS, LOOPS, arguments_of, called, is_load, last_name, pairs, root_of

_READS = "reads"
_OF_NUMBERS = (
    "copy", "json", "math", "numpy", "pandas", "pickle", "polars", "pyarrow", "scipy", "statistics", "torch",
)  # fmt: skip
# Of their functions those that may show the memory of what they are given.
_SHARES = frozenset((
    "as_tensor", "asarray", "ascontiguousarray", "asanyarray", "frombuffer", "from_dlpack", "from_numpy", "py_buffer",
    "broadcast_to", "reshape", "ravel", "squeeze", "transpose", "view",
))  # fmt: skip
_SURELY = MOST  # the object itself, not one of its members
_LOOKS = frozenset((
    "abs", "all", "any", "bool", "dict", "enumerate", "filter", "float", "format", "hash", "id", "int", "isinstance",
    "iter", "len", "list", "map", "max", "min", "next", "print", "range", "repr", "round", "set", "sorted", "str",
    "sum", "tuple", "type", "zip",
))  # fmt: skip
_ENDS = frozenset(("clear", "close", "join", "shutdown", "terminate"))  # methods after which there is nothing to read
_OF_ALL = frozenset(("asdict", "deepcopy", "dump", "dumps", "save", "vars"))  # attributes of what they are given


# {(file, name of a function, None for a module): the last line of it that was seen to run}
Reached = Mapping[tuple[str, Optional[str]], int]


class Read(NamedTuple):
    """``is_over``: True where it cannot run again, False where it goes on, None where unclear.

    ``is_given``: the object is handed to a library, which may keep it. ``ends``: the last line of its function at which
    it may be read again, round the loops there. ``is_count``: only how many members it has is asked.
    """

    line: Line
    is_over: bool | None
    is_given: bool
    ends: int
    is_count: bool = False


def reads_of(sources: Sequence[Source], holder: Holder, reached: Reached, key: str | None = None) -> list[Read]:
    """One for each line that reads the object, in the order of the sources; none where its name is not known.

    ``reached``: how far each function that is seen to run had come. ``key``: what is read is the object's member.
    """
    index = index_of(sources, holder.variable, holder.owner_file)
    names, progress = Names(index, holder._replace(key=key)), _Progress(index, reached)
    others = {one for _, site in index.sites() for one in _asked_for_members(site.node)} if key is not None else set()
    counted = {one for _, site in index.sites() for one in _counted(site.node)}
    found: dict[tuple[str, int, bool], tuple[Line, int, bool, int]] = {}
    for scope, site in index.sites():
        for node, is_given in _used(site, index, scope):
            is_it = id(node) not in others and names.strength(node, scope, inside=key is not None) >= _SURELY
            if not is_it and not _may_be_any(node, site, index, scope, holder):
                continue
            for one in _read_by(_At(scope, site, node), names, progress, index):
                line = line_at(index, one.scope, one.node, _READS, 1.0)
                key_of = line.file, line.line, id(node) in counted
                _, state, was_given, ends = found.get(key_of, (line, _OVER, False, line.line))
                state, was_given = max(state, progress.state(one.site, one.scope, one.node)), was_given or is_given
                ends = max(ends, *(loop.last for loop in one.site.loops), 0)
                found[key_of] = line, state, was_given, ends
    told = {_OVER: True, _UNKNOWN: None, _ON: False}
    return [
        Read(line, told[state], given, ends, is_count)
        for (*_, is_count), (line, state, given, ends) in sorted(found.items())
    ]


def goes_on_with(sources: Sequence[Source], made: Line, reached: Reached) -> bool:
    """Whether a line that runs on, or is sure to come, works with what is made on a line, by whatever name."""
    index = index_of(sources, "", made.file)
    progress, (file, number, *_) = _Progress(index, reached), made
    calls = [call for scope, _, call in index.calls() if (scope.source.file, call.lineno) == (file, number)]
    return any(
        (is_given or _is_asked(node, site.node)) and progress.state(site, scope, node) == _ON
        for scope, site, node, is_given in _uses_of(calls, index)
    )


def _uses_of(calls: Sequence[ast.expr], index: Index) -> Iterator[tuple[Scope, Site, ast.expr, bool]]:
    """Where what calls make is looked up, by whatever name; and whether it is handed to a library there."""
    things = Things(points_to(index), calls)
    for scope, site in index.sites():
        for node, is_given in _used(site, index, scope):
            if things.kind(node, scope) is not None:
                yield scope, site, node, is_given


def goes_on_setting(sources: Sequence[Source], attribute: str, reached: Reached) -> bool:
    """Whether a line that runs on, or is sure to come, sets it: ``p.requires_grad = True``, ``p.requires_grad_()``."""
    index = index_of(sources, attribute)
    progress = _Progress(index, reached)
    return any(
        progress.state(site, scope, site.node) == _ON
        for scope, site in index.sites()
        if called(site.node) == f"{attribute}_"
        or any(isinstance(target, ast.Attribute) and target.attr == attribute for target, _ in pairs(site.node))
    )


class _At(NamedTuple):
    scope: Scope
    site: Site
    node: ast.expr


def _read_by(at: _At, names: Names, progress: _Progress, index: Index) -> Sequence[_At]:
    """Of what is read as a parameter in a function that goes on, the calls that give it the object, if they are over:
    those that go on give it another.
    """
    if not isinstance(at.node, ast.Name) or at.node.id not in at.scope.params:
        return (at,)
    giving = [
        _At(caller, site, site.node)
        for caller, site in index.callers.get(at.scope, ())
        if isinstance(site.node, ast.Call)
        for name, given in index.arguments(site.node, at.scope)
        if name == at.node.id and names.strength(given, caller) > 0
    ]
    are_over = bool(giving) and all(progress.state(one.site, one.scope, one.node) == _OVER for one in giving)
    return giving if are_over and progress.state(at.site, at.scope, at.node) != _OVER else (at,)


def _evaluated(node: ast.AST) -> ast.AST:
    """Of a loop what it goes through."""
    return node.iter if isinstance(node, (ast.For, ast.AsyncFor)) else node


def _is_asked(node: ast.expr, by: ast.AST) -> bool:
    """One of its methods is called, or all its members are gone through."""
    return isinstance(by, (*LOOPS, ast.comprehension)) or (
        isinstance(by, ast.Call) and isinstance(by.func, ast.Attribute) and by.func.value is node
    )


def _asked_for_members(node: ast.AST) -> set[int]:
    """What is looked up there only to ask it for a member of a name, or to give it one."""
    members = (one for one in ast.walk(node) if isinstance(one, ast.Subscript) and isinstance(one.slice, ast.Constant))
    return {id(one.value) for one in members}


def _counted(node: ast.AST) -> Iterator[int]:
    """What is asked there for its length alone."""
    for one in ast.walk(node):
        if isinstance(one, ast.Call) and isinstance(one.func, ast.Name) and one.func.id == "len" and len(one.args) == 1:
            yield id(one.args[0])


_OVER, _UNKNOWN, _ON = range(3)


class _Progress:
    """Which lines of a program may still run: straight on from where it was last seen, and round its loops."""

    def __init__(self, index: Index, reached: Reached) -> None:
        self._index, self._reached = index, reached
        self._known: dict[Scope, int] = {}

    def state(self, site: Site, scope: Scope, node: ast.AST) -> int:
        """Of what is looked up at ``node``."""
        while scope.kind == "class" and scope.parent is not None:
            scope = scope.parent
        called, line = self._called(scope), self._reached.get(_key(scope))
        if called == _OVER or not self._is_once(scope):
            return called
        if line is None:  # a loop that is not known to be over goes on
            is_ahead = scope in self._index.callers and self._is_sure(site, scope, 0)
            return called if site.loops or is_ahead else min(called, _UNKNOWN)
        first = getattr(site.node, "lineno", 0)
        last = getattr(site.node, "end_lineno", first)
        is_round = any(loop.last >= line for loop in site.loops)
        if not is_round and (last < line or self._is_evaluated(node, scope, line)):
            return _OVER
        is_ahead = first > line and self._is_sure(site, scope, line)
        return called if site.loops or first <= line <= last or is_ahead else min(called, _UNKNOWN)

    @staticmethod
    def _is_sure(site: Site, scope: Scope, line: int) -> bool:
        """Whether a function that has come to a line comes to a site behind it: nothing there decides otherwise."""
        at = getattr(site.node, "lineno", 0)
        leaving = (one.node for one in scope.sites if isinstance(one.node, (ast.Return, ast.Raise)))
        return not site.is_guarded and not any(line <= one.lineno < at for one in leaving)

    def _is_evaluated(self, node: ast.AST, scope: Scope, line: int) -> bool:
        """Whether, in the statement that runs, a call that needs its result has begun: ``read(path).fit()`` fits."""
        calls = (one.node for one in scope.sites if isinstance(one.node, ast.Call) and one.node is not node)
        return any(
            call.lineno <= line <= (call.end_lineno or line)
            and any(map(self._has_begun, self._index.callees(call.func, scope)))
            and any(one is node for one in ast.walk(call))
            for call in calls
        )

    def _has_begun(self, function: Scope) -> bool:
        """As far as it is called in one place only."""
        return _key(function) in self._reached and len(self._index.callers.get(function, ())) == 1

    def _is_once(self, scope: Scope) -> bool:
        callers = self._index.callers.get(scope, ())
        return not any(self._index.is_repeated(site, caller) for caller, site in callers)

    def _called(self, scope: Scope) -> int:
        """Of a function as a whole. What nobody is seen to call may be called by a library."""
        if scope.kind == "module":  # one that was imported is done
            return _OVER if scope.source.module != "__main__" else _ON
        if scope not in self._known:
            self._known[scope] = _OVER  # while it is asked about, for those that recur
            callers = self._index.callers.get(scope) or self._handed_on(scope)
            states = [self.state(site, caller, site.node) for caller, site in callers]
            if scope.is_generator:
                states += (state for caller, site in callers for state in self._of_result(site.node, caller))
            is_running = scope.is_beginning and _key(scope) in self._reached
            self._known[scope] = max(states, default=_ON)
            if is_running and self._known[scope] == _UNKNOWN:
                self._known[scope] = _ON
        return self._known[scope]

    def _of_result(self, call: ast.AST, scope: Scope) -> Iterator[int]:
        """Of what asks for the members of what a call makes: a loop, or whoever has it by a name."""
        around = [one for one in scope.sites if any(part is call for part in ast.walk(_evaluated(one.node)))]
        yield from (self.state(one, scope, one.node) for one in around if isinstance(one.node, LOOPS))
        made = [one.node for one in around if isinstance(one.node, ast.Call)]
        yield from (self.state(site, other, node) for other, site, node, _ in _uses_of(made, self._index))

    def _handed_on(self, function: Scope) -> list[tuple[Scope, Site]]:
        """Calls of it by another name: ``for stage in (load, clean): stage()``; none where a library may have it."""
        own: Node = Variable(function.parent or function, function.name)
        if function.is_method and function.within is not None:
            own = Field(function.within.name, function.name)
        named = Things(points_to(self._index), [own])
        found = []
        for scope, site, call in self._index.calls() if named.flows and not function.decorators else ():
            callees = self._index.callees(call.func, scope)
            followed = {id(given) for callee in callees for _, given in self._index.arguments(call, callee)}
            if any(id(given) not in followed and named.kind(given, scope) for given in arguments_of(call)):
                return []
            if named.kind(call.func, scope) == THING:
                found.append((scope, site))
        return found


def _key(scope: Scope) -> tuple[str, str | None]:
    return scope.source.file, None if scope.kind == "module" else scope.name


def _used(site: Site, index: Index, scope: Scope) -> Iterator[tuple[ast.expr, bool]]:
    """(expression that is looked up there, whether it is handed to a library), not those of functions defined in it."""
    node = site.node
    given: set[int] = set()
    # What a statement only puts something into, or ends: that is no reading of it.
    filled = next(added_to(node), None) if site.is_statement else None
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in _ENDS:
        filled = node.func.value
    if isinstance(node, ast.Call) and not index.callees(node.func, scope) and not _only_looks(node.func, scope):
        given = {id(one) for one in arguments_of(node)}
    waiting: list[ast.AST] = [node]
    while waiting:
        one = waiting.pop()
        if one is not filled and isinstance(one, (ast.Name, ast.Attribute, ast.Subscript)) and is_load(one):
            yield one, id(one) in given
        if one is node or not isinstance(one, (*FUNCTIONS, ast.ClassDef, ast.stmt)):
            waiting += ast.iter_child_nodes(one)


def _may_be_any(node: ast.expr, site: Site, index: Index, scope: Scope, holder: Holder) -> bool:
    """Whether an object is asked there for an attribute by a name that is worked out, or for all of them."""
    call = site.node
    if holder.edge_kind != "attribute" or not isinstance(call, ast.Call) or call.args[:1] != [node]:
        return False
    name, kind = last_name(call.func), index.class_of(node, scope)
    is_its = kind is not None and index.related(kind, tail(holder.owner))
    if name == "getattr" and len(call.args) > 1 and not isinstance(call.args[1], ast.Constant):
        return is_its or kind is None
    return is_its and name in _OF_ALL


def _only_looks(func: ast.expr, scope: Scope) -> bool:
    """Whether what is called keeps nothing of what it is given: a builtin, or a function of a library of numbers that
    makes something new.
    """
    name = last_name(func)
    if isinstance(func, ast.Name) and name in _LOOKS:
        return True
    package = scope.module.imports.get(last_name(root_of(func)), ("", ""))[0]
    return package.partition(".")[0] in _OF_NUMBERS and name not in _SHARES and not name[:1].isupper()
