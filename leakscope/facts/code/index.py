"""What names, classes and functions mean in the user's sources: scopes, bindings, callees and classes of expressions.

Built from text alone, by the grammar of the interpreter that runs the report: a source that it cannot parse counts up
to the statement it stumbles over. Good enough to follow a name, not a type checker: what it does not know is None.
"""

from __future__ import annotations

import ast
import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

from .syntax import COMPREHENSIONS, FUNCTIONS, LOOPS, Function, defaults_of, last_name, pairs

_T = TypeVar("_T")

_MAX_CHARS = 1_500_000  # a syntax tree takes about 100 times its text
_LINE_END = re.compile(r"\r\n|\r|\n")  # what Python calls a line: str.splitlines() also breaks at form feeds
_COMPREHENSION = re.compile(r"(\.<locals>)?\.<(genexpr|listcomp|setcomp|dictcomp)>.*", re.DOTALL)
_OF_CONTAINERS = frozenset(name for kind in (list, dict, set, str, bytes) for name in dir(kind))
_PROPERTIES = frozenset(("property", "cached_property"))
_BEGINNINGS = frozenset(("main", "command"))
_SITES = (
    ast.Call, ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr, ast.Subscript, ast.Attribute, ast.For,
    ast.AsyncFor, ast.comprehension, ast.withitem, ast.Return, ast.Yield, ast.YieldFrom, ast.Raise, ast.Compare,
)  # fmt: skip
OPTIONS = dict.fromkeys(("parse_args", "parse_known_args"), "Namespace")  # no objects of the user's classes
_GUARDS = (ast.If, ast.ExceptHandler, getattr(ast, "match_case", ast.If))


class Source(NamedTuple):
    """One module of the user as it was loaded."""

    module: str
    file: str
    text: str


class Loop(NamedTuple):
    file: str
    first: int
    last: int


class Site(NamedTuple):
    """A node that may do something to an object, and the loops of its own function around it, the outermost first.

    ``is_statement``: a call whose result nobody asks for. ``is_guarded``: a condition, or an exception, decides whether
    it runs.
    """

    node: ast.AST
    loops: tuple[Loop, ...]
    is_statement: bool = False
    is_guarded: bool = False


@dataclass(eq=False)
class Scope:
    """A module, class or function: what it binds, what it defines, and its sites."""

    kind: str  # module, class, function
    name: str
    qualname: str
    source: Source
    parent: Scope | None = None
    node: ast.AST | None = None
    params: tuple[str, ...] = ()
    bound: set[str] = field(default_factory=set)
    elsewhere: dict[str, str] = field(default_factory=dict)  # name to "global" or "nonlocal"
    defs: dict[str, Scope] = field(default_factory=dict)
    imports: dict[str, tuple[str, str]] = field(default_factory=dict)  # name to module and name in it ("": the module)
    imported: list[tuple[str, str]] = field(default_factory=list)  # name and full path: google, google.protobuf.any_pb2
    types: dict[str, ast.expr] = field(default_factory=dict)  # name to what it was first made by, or its annotation
    sites: list[Site] = field(default_factory=list)

    @property
    def module(self) -> Scope:
        return self if self.parent is None else self.parent.module

    @property
    def is_method(self) -> bool:
        return self.kind == "function" and self.parent is not None and self.parent.kind == "class" and not self.static

    @property
    def static(self) -> bool:
        return "staticmethod" in self.decorators

    @property
    def is_property(self) -> bool:
        return not _PROPERTIES.isdisjoint(self.decorators) and self.within is not None

    @property
    def is_beginning(self) -> bool:
        """A program's beginning: ``main()``, or what ``@app.command()`` is on. Where nobody calls it, it runs once."""
        return not _BEGINNINGS.isdisjoint((self.name, *self.decorators))

    @cached_property
    def decorators(self) -> list[str]:
        nodes = getattr(self.node, "decorator_list", [])
        return [last_name(n.func if isinstance(n, ast.Call) else n) for n in nodes]

    @cached_property
    def is_generator(self) -> bool:
        """Its lines run as its members are asked for, after the call."""
        return any(isinstance(site.node, (ast.Yield, ast.YieldFrom)) for site in self.sites)

    @property
    def within(self) -> Scope | None:
        """The nearest class around it."""
        scope: Scope | None = self
        while scope is not None and scope.kind != "class":
            scope = scope.parent
        return scope

    def binding(self, name: str) -> Scope:
        """The scope whose variable this name is here; the module where nothing binds it."""
        if self.elsewhere.get(name) == "global" or self.parent is None:
            return self.module
        if name in self.bound and name not in self.elsewhere:
            return self
        outer = self.parent
        while outer.kind == "class" and outer.parent is not None:  # a method does not see the names of its class
            outer = outer.parent
        return outer.binding(name)


def tail(qualname: str | None) -> str:
    """``step`` of ``Trainer.step``."""
    return (qualname or "").rsplit(".", 1)[-1]


def lines_of(text: str) -> list[str]:
    return _LINE_END.split(text)


def text_of(lines: Sequence[str] | None, line: int) -> str:
    """What stands on a line of a file; nothing where that is not known."""
    return lines[line - 1].strip() if lines and 0 < line <= len(lines) else ""


class Index:
    """All scopes of the sources, by name. Lookups return empty or None for what the sources do not show."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self.scopes: list[Scope] = []
        self.modules: dict[str, list[Scope]] = defaultdict(list)
        self.functions: dict[str, list[Scope]] = defaultdict(list)
        self.classes: dict[str, list[Scope]] = defaultdict(list)
        self.lines: dict[str, list[str]] = {}
        self._within: dict[int, str] = {}  # what a comprehension calls its members, by the node of the name
        self._attribute_types: dict[str, dict[str, tuple[ast.expr, Scope]]] = defaultdict(dict)
        for source in sources:
            tree = parse(source.text)
            if tree is not None:
                self.lines[source.file] = lines_of(source.text)
                self._add(tree, source)
        for scope in self.scopes:
            by_kind = {"module": self.modules, "function": self.functions, "class": self.classes}[scope.kind]
            by_kind[tail(scope.source.module) if scope.kind == "module" else scope.name].append(scope)
            self._note_types(scope)
        self._related = {name: self._ancestors(name) for name in self.classes}
        # Those that derive from no library's.
        self.own_classes = {name for name, above in self._related.items() if above <= self.classes.keys()}
        self._made: dict[object, Any] = {}  # what was asked for once
        self._callees: dict[int, list[Scope]] = {}  # by the node of what is called
        self.callers: dict[Scope, list[tuple[Scope, Site]]] = defaultdict(list)
        self._given: dict[tuple[Scope, str], str | None] | None = None  # class by function and parameter
        self._repeated = self._find_repeated()
        self._given = {}

    def once(self, made_of: Callable[[Index], _T]) -> _T:
        """What follows from an index, made when it is first asked for."""
        if made_of not in self._made:
            self._made[made_of] = made_of(self)
        answer: _T = self._made[made_of]
        return answer

    def sites(self) -> Iterator[tuple[Scope, Site]]:
        return ((scope, site) for scope in self.scopes for site in scope.sites)

    def calls(self) -> Iterator[tuple[Scope, Site, ast.Call]]:
        return ((scope, site, site.node) for scope, site in self.sites() if isinstance(site.node, ast.Call))

    def is_repeated(self, site: Site, scope: Scope) -> bool:
        """It runs again and again: in a loop, or in a function that does."""
        return bool(site.loops) or scope in self._repeated

    def often(self, site: Site, scope: Scope) -> float:
        """How often a site may run, as a factor: what is done once cannot make memory grow."""
        if site.loops:
            return 1.0
        return 0.5 if scope.kind != "function" else 0.97 if scope in self._repeated else 0.7

    def resolve(self, name: str, scope: Scope) -> tuple[Scope, str]:
        """The scope and name a variable really is: an imported name is its module's."""
        binding = scope.binding(name)
        module, original = binding.imports.get(name, ("", ""))
        if original:
            for other in self.modules.get(tail(module), []):
                if original in other.bound:
                    return other, original
        return binding, name

    def variable(self, node: ast.Name, scope: Scope) -> tuple[Scope, str]:
        """As ``resolve``; what a comprehension calls its members is a variable of its own."""
        own = self._within.get(id(node))
        return (scope, own) if own is not None else self.resolve(node.id, scope)

    def module_named(self, node: ast.expr, scope: Scope) -> list[Scope]:
        """The modules ``node`` may stand for: ``sessions`` after ``import sessions`` or ``from . import sessions``."""
        if isinstance(node, ast.Attribute):
            found = self.modules.get(node.attr, [])
            return found if found and self.module_named(node.value, scope) else []
        if not isinstance(node, ast.Name):
            return []
        module, original = scope.binding(node.id).imports.get(node.id, ("", ""))
        return self.modules.get(original or tail(module), [])

    def class_of(self, node: ast.expr | None, scope: Scope, depth: int = 4) -> str | None:
        """Name of the class of an expression, or of the class it is; None where the sources do not tell."""
        if node is None or depth == 0:
            return None
        if isinstance(node, ast.Name):
            binding, name = self.resolve(node.id, scope)
            if binding.is_method and binding.params[:1] == (name,) and binding.within is not None:
                return binding.within.name
            defined = binding.defs.get(name)
            if defined is not None and defined.kind == "class":
                return name
            if name in binding.types:
                return self.class_of(binding.types[name], binding, depth - 1)
            return self._class_given(binding, name, depth) if name in binding.params else None
        if isinstance(node, ast.Attribute):
            owner = self.class_of(node.value, scope, depth - 1)
            if any(node.attr in module.defs for module in self.module_named(node.value, scope)):
                return node.attr if node.attr in self.classes else None
            return self._class_of_attribute(owner, node.attr, depth)
        if isinstance(node, ast.Call):
            if isinstance(node.func, ast.Name) and node.func.id == "super" and scope.within is not None:
                return scope.within.name
            if isinstance(node.func, ast.Name) and node.func.id == "type" and len(node.args) == 1:
                return self.class_of(node.args[0], scope, depth - 1)
            name = last_name(node.func)
            return name if name in self.classes else OPTIONS.get(name) if not node.keywords else None
        if isinstance(node, ast.Constant) and isinstance(node.value, str):  # an annotation in quotes
            return node.value if node.value in self.classes else None
        return None

    def related(self, one: str, other: str) -> bool:
        """The same class, or one derived from the other."""
        return one == other or other in self._related.get(one, ()) or one in self._related.get(other, ())

    def callees(self, func: ast.expr, scope: Scope) -> list[Scope]:
        """Functions that a call may run; of a class its ``__init__``, or the class itself where it has none."""
        known = self._callees.get(id(func))
        if known is None:
            known = self._callees[id(func)] = self._callees_of(func, scope)
        return known

    def _callees_of(self, func: ast.expr, scope: Scope) -> list[Scope]:
        if isinstance(func, ast.Name):
            binding, name = self.resolve(func.id, scope)
            found = binding.defs.get(name)
            return [self._constructor(found)] if found is not None else []
        if not isinstance(func, ast.Attribute):
            return []
        for module in self.module_named(func.value, scope):
            if func.attr in module.defs:
                return [self._constructor(module.defs[func.attr])]
        owner = self.class_of(func.value, scope)
        named = [f for f in self.functions.get(func.attr, []) if f.within is not None]
        if owner is not None:
            return [f for f in named if f.within is not None and self.related(owner, f.within.name)]
        return named if len(named) == 1 and func.attr not in _OF_CONTAINERS else []

    def own_functions(self, func: ast.expr, scope: Scope) -> list[Scope]:
        """``callees`` that are functions; none where only the name of a method tells so."""
        if isinstance(func, ast.Attribute) and self.class_of(func.value, scope) is None:
            return []
        return [function for function in self.callees(func, scope) if function.kind == "function"]

    def arguments(self, call: ast.Call, function: Scope) -> Iterator[tuple[str, ast.expr]]:
        """Parameter names of the callee with the expressions they get."""
        names = function.params[1:] if function.is_method else function.params
        if function.kind == "class":  # a dataclass: its annotated fields
            body = function.node.body if isinstance(function.node, ast.ClassDef) else []
            names = tuple(n.target.id for n in body if isinstance(n, ast.AnnAssign) and isinstance(n.target, ast.Name))
        for name, argument in zip(names, call.args):
            if isinstance(argument, ast.Starred):
                break
            yield name, argument
        yield from ((k.arg, k.value) for k in call.keywords if k.arg in names and k.arg is not None)

    def functions_named(self, qualname: str | None, module: str | None, file: str | None) -> list[Scope]:
        """Functions a recorded name may mean, the best kind of match only: before Python 3.11 it has no class."""
        wanted = _COMPREHENSION.sub("", qualname or "")
        if wanted in ("<module>", ""):
            return [s for s in self.scopes if wanted and s.kind == "module" and is_of(s, module, file)]
        named = self.functions.get(tail(wanted), [])
        exact = [s for s in named if s.qualname == wanted]
        own = [s for s in named if is_of(s, module, file)]
        return [s for s in exact if s in own] or exact or own or named

    def _constructor(self, scope: Scope) -> Scope:
        return scope.defs.get("__init__", scope) if scope.kind == "class" else scope

    def _class_of_attribute(self, owner: str | None, attribute: str, depth: int) -> str | None:
        makers = self._attribute_types.get(attribute, {})
        if owner is None and len(makers) == 1:
            owner = next(iter(makers))
        for name, (made_by, scope) in makers.items():
            if owner is not None and self.related(owner, name):
                return self.class_of(made_by, scope, depth - 1)
        return None

    def _class_given(self, function: Scope, parameter: str, depth: int) -> str | None:
        """The class of what all calls give for a parameter, where they agree."""
        if self._given is None:  # who calls it is not known yet
            return None
        key = (function, parameter)
        if key not in self._given:
            self._given[key] = None  # for functions that call themselves
            given = (self._class_at(site.node, scope, *key, depth) for scope, site in self.callers.get(function, ()))
            first = next(given, None)
            self._given[key] = first if first is not None and all(other == first for other in given) else None
        return self._given[key]

    def _class_at(self, call: ast.AST, scope: Scope, function: Scope, parameter: str, depth: int) -> str | None:
        given = dict(self.arguments(call, function)) if isinstance(call, ast.Call) else {}
        return self.class_of(given.get(parameter), scope, depth - 1)

    def _ancestors(self, name: str) -> frozenset[str]:
        seen: set[str] = set()
        waiting = [name]
        while waiting:
            for scope in self.classes.get(waiting.pop(), []):
                bases = {last_name(b) for b in getattr(scope.node, "bases", [])} - seen
                seen |= bases
                waiting += bases
        return frozenset(seen)

    def _note_types(self, scope: Scope) -> None:
        arguments = getattr(scope.node, "args", None)
        if isinstance(arguments, ast.arguments):
            for a in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs):
                if a.annotation is not None:
                    scope.types[a.arg] = a.annotation
        for site in scope.sites:
            annotation = site.node.annotation if isinstance(site.node, ast.AnnAssign) else None
            for target, value in pairs(site.node):
                made_by = annotation if annotation is not None else value
                if not isinstance(made_by, (ast.Call, ast.Name, ast.Constant)):
                    continue
                if isinstance(target, ast.Name):
                    scope.types.setdefault(target.id, made_by)
                elif isinstance(target, ast.Attribute) and last_name(target.value) == "self" and scope.within:
                    self._attribute_types[target.attr].setdefault(scope.within.name, (made_by, scope))

    def _find_repeated(self) -> set[Scope]:
        """Functions that run again and again: called in a loop, by such a function, or by nobody we see (callbacks)."""
        calls: dict[Scope, list[tuple[Scope, bool]]] = defaultdict(list)
        for scope, site, call in self.calls():
            for callee in self.callees(call.func, scope) or self.functions.get(last_name(call.func), []):
                if callee is not scope:  # itself, or what it overrides: super().step()
                    calls[callee].append((scope, bool(site.loops)))
                self.callers[callee].append((scope, site))
        functions = [scope for scope in self.scopes if scope.kind == "function"]
        called_back = {scope for scope in functions if not calls[scope] and not scope.is_beginning}
        repeated = called_back | {scope for scope in functions if any(in_loop for _, in_loop in calls[scope])}
        waiting = set(repeated)
        called_by: dict[Scope, list[Scope]] = defaultdict(list)
        for callee, callers in calls.items():
            for caller, _ in callers:
                called_by[caller].append(callee)
        while waiting:
            waiting = {callee for caller in waiting for callee in called_by[caller]} - repeated
            repeated |= waiting
        return repeated

    def _add(self, tree: ast.Module, source: Source) -> None:
        module = Scope("module", "<module>", "<module>", source, node=tree)
        statements: set[int] = set()
        self.scopes.append(module)
        waiting: list[tuple[ast.AST, Scope, tuple[Loop, ...], bool]]
        waiting = [(node, module, (), False) for node in reversed(tree.body)]
        while waiting:  # no recursion: generated sources nest deeply
            node, scope, loops, guarded = waiting.pop()
            if isinstance(node, (*FUNCTIONS, ast.ClassDef)):
                inner = self._define(node, scope)
                body = node.body if isinstance(node.body, list) else [node.body]
                waiting += [(n, inner, (), False) for n in reversed(body)]
                waiting += [(n, scope, loops, guarded) for n in _outside(node)]
                continue
            _note_names(node, scope)
            if isinstance(node, COMPREHENSIONS):
                self._within.update(_members_of(node))
            if isinstance(node, _SITES) and not _tells_nothing(node):
                scope.sites.append(Site(node, loops, id(node) in statements, guarded))
            if isinstance(node, ast.Expr):
                statements.add(id(node.value))
            within = loops
            if isinstance(node, (*LOOPS, *COMPREHENSIONS)):
                within = (*loops, Loop(source.file, node.lineno, node.end_lineno or node.lineno))
            for name, n in _children(node):
                is_guarded = guarded or (isinstance(node, _GUARDS) and name != "test")
                waiting.append((n, scope, loops if name in ("iter", "orelse") else within, is_guarded))

    def _define(self, node: Function | ast.ClassDef, scope: Scope) -> Scope:
        name = "<lambda>" if isinstance(node, ast.Lambda) else node.name
        prefix = {"module": "", "class": f"{scope.qualname}.", "function": f"{scope.qualname}.<locals>."}[scope.kind]
        inner = Scope(
            "class" if isinstance(node, ast.ClassDef) else "function",
            name,
            prefix + name,
            scope.source,
            parent=scope,
            node=node,
        )
        if not isinstance(node, ast.ClassDef):
            a = node.args
            inner.params = tuple(p.arg for p in (*a.posonlyargs, *a.args, *a.kwonlyargs))
            inner.bound.update(inner.params, (p.arg for p in (a.vararg, a.kwarg) if p))
        scope.bound.add(name)
        scope.defs[name] = inner
        self.scopes.append(inner)
        return inner


def _tells_nothing(node: ast.AST) -> bool:
    """An attribute is told of by what it stands in; and whether something is None is asked without a look at it."""
    if isinstance(node, ast.Compare):
        return all(isinstance(op, (ast.Is, ast.IsNot)) for op in node.ops)
    return isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Store)


def is_of(scope: Scope, module: str | None, file: str | None) -> bool:
    return scope.source.file == file or (file is None and scope.source.module == module)


def _outside(node: Function | ast.ClassDef) -> list[ast.expr]:
    """What a definition evaluates where it stands: decorators, bases, default values."""
    outside: list[ast.expr] = list(getattr(node, "decorator_list", []))
    if isinstance(node, ast.ClassDef):
        return [*outside, *node.bases, *(k.value for k in node.keywords)]
    return [*outside, *(value for _, value in defaults_of(node))]


def _children(node: ast.AST) -> Iterator[tuple[str, ast.AST]]:
    for name, value in ast.iter_fields(node):
        for child in value if isinstance(value, list) else (value,):
            if isinstance(child, ast.AST) and not isinstance(child, (ast.expr_context, ast.operator)):
                yield name, child


def _members_of(node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp) -> Iterator[tuple[int, str]]:
    """The names in it that it binds itself: what it first goes through is looked up outside."""
    bound = {n.id for part in node.generators for n in ast.walk(part.target) if isinstance(n, ast.Name)}
    outside = {id(n) for n in ast.walk(node.generators[0].iter)}
    for name in ast.walk(node):
        if isinstance(name, ast.Name) and name.id in bound and id(name) not in outside:
            yield id(name), f"{name.id} at {node.lineno}:{node.col_offset}"


def _note_names(node: ast.AST, scope: Scope) -> None:
    if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
        scope.bound.add(node.id)
    elif isinstance(node, ast.ExceptHandler) and node.name:
        scope.bound.add(node.name)
    elif isinstance(node, (ast.Global, ast.Nonlocal)):
        kind = "global" if isinstance(node, ast.Global) else "nonlocal"
        scope.elsewhere.update(dict.fromkeys(node.names, kind))
        if kind == "global":
            scope.module.bound.update(node.names)
    elif isinstance(node, ast.Import):
        for alias in node.names:
            name = alias.asname or alias.name.split(".", 1)[0]
            scope.bound.add(name)
            scope.imports[name] = (alias.name if alias.asname else name, "")
            scope.imported.append((name, alias.name))
    elif isinstance(node, ast.ImportFrom):
        for alias in node.names:
            scope.bound.add(alias.asname or alias.name)
            scope.imports[alias.asname or alias.name] = ("." * node.level + (node.module or ""), alias.name)
            if node.level == 0 and node.module:
                scope.imported.append((alias.asname or alias.name, f"{node.module}.{alias.name}"))


def parse(text: str, tries: int = 8) -> ast.Module | None:
    """The syntax tree, as far as it can be read: recorded sources may be cut off, or newer than this Python."""
    text = text.encode("utf-8", "replace").decode().lstrip("\ufeff")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of a user's "\d" the user was told by his own interpreter
        for _ in range(tries):
            parsed = _parse_once(text)
            if not isinstance(parsed, int):
                return parsed
            text = _without(text, parsed)
    return None


def _parse_once(text: str) -> ast.Module | int | None:
    """The tree, the line of a syntax error, or None where there is no hope (a null byte, too deep a nesting)."""
    try:
        return ast.parse(text)
    except SyntaxError as error:
        return error.lineno or 1
    except (ValueError, RecursionError, MemoryError, OverflowError):
        return None


def _without(text: str, line: int) -> str:
    """The text with the module's statement around a line left empty, so that all other lines keep their numbers."""
    lines = lines_of(text)
    first = min(line, len(lines)) - 1
    while first > 0 and not _begins_statement(lines[first]):
        first -= 1
    last = first + 1
    while last < len(lines) and not _begins_statement(lines[last]):
        last += 1
    lines[first:last] = [""] * (last - first)
    return "\n".join(lines)


def _begins_statement(line: str) -> bool:
    return bool(line[:1].strip()) and line[0] not in ")]}#"


@lru_cache(maxsize=1)
def _index(sources: tuple[Source, ...]) -> Index:
    return Index(sources)


def index_of(sources: Sequence[Source], word: str, file: str | None = None) -> Index:
    """The index of as many sources as the budget allows: where a name lives first, then those that mention it."""
    chosen = list(sources)
    if sum(len(s.text) for s in chosen) > _MAX_CHARS:
        chosen.sort(key=lambda s: (s.file != file, word not in s.text, len(s.text)))
        left = _MAX_CHARS
        kept = []
        for source in chosen:
            left -= len(source.text)
            if left >= 0:
                kept.append(source)
        chosen = kept
    return _index(tuple(chosen))
