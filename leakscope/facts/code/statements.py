"""The statement at a line, what stands round it, and what of it is not the same each time: text in, syntax out."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from .adding import JOINERS, removed_from
from .index import Source, index_of, parse
from .syntax import DEFINED, FUNCTIONS, Defined, arguments_of, called, is_load, last_name, pairs, part_of

READ_ALL = ("__dict__", "vars(", "asdict", "pickle", "deepcopy", "globals(", "locals(", "getattr(")
SHORT = 40  # characters of what a sentence quotes


@dataclass(frozen=True, eq=False)
class Statement:
    """``around``: the statements it stands in, the outermost first."""

    source: Source
    node: ast.stmt
    around: tuple[ast.AST, ...]
    tree: ast.AST

    @property
    def block(self) -> list[ast.stmt]:
        """The statements that it stands among."""
        return next((part for part in blocks(self.around[-1] if self.around else self.tree) if self.node in part), [])

    @property
    def function(self) -> Defined | None:
        """The innermost function that it is part of."""
        return next((one for one in reversed(self.around) if isinstance(one, DEFINED)), None)

    @property
    def cls(self) -> ast.ClassDef | None:
        """The class whose method it is in."""
        return next((one for one in reversed(self.around) if isinstance(one, ast.ClassDef)), None)


class Guard(NamedTuple):
    """Why a statement may not run. ``text``: as the source has it; ``place``: where that stands.

    ``kind``: condition, that it stands in; ``uncalled``: of a function whose name stands nowhere else; ``asked``: it
    removes what its function was asked for, and found to be of no more use; ``raises``: something may raise before,
    and ``text`` is the try to remove it in. ``call``: where the statement's function is called, of which all this is
    true.
    """

    kind: str
    text: str
    place: str
    call: str = ""


class Skipped(NamedTuple):
    """``removes`` takes out what ``adding`` added, unless something ``between`` raises. ``tried``: whose body it is in.

    Both are those that add and remove, or the calls of their functions.
    """

    adding: Statement
    between: list[ast.stmt]
    removes: ast.stmt
    tried: ast.Try | None


def statement_at(sources: Sequence[Source], file: str, line: int, variable: str = "") -> Statement | None:
    """The innermost statement that begins at a line, or that the line is part of; None where there is none.

    Of several on one line the first that names ``variable``.
    """
    source = next((one for one in sources if one.file == file), None)
    tree = parse(source.text) if source is not None else None
    if source is None or tree is None:
        return None
    around: list[ast.AST] = []
    at: ast.AST = tree
    while True:
        inside = [one for one in _statements(at) if _begins(one) <= line <= (one.end_lineno or one.lineno)]
        if not inside:
            break
        around.append(at)
        at = next((one for one in inside if names(one, variable)), inside[0])
    return Statement(source, at, tuple(around[1:]), tree) if isinstance(at, ast.stmt) else None


def guard_of(sources: Sequence[Source], file: str, line: int, adding: Statement | None = None) -> Guard | None:
    """What keeps a statement from being run each time, the likeliest first; None where nothing is to be seen.

    Where that is nothing in its own function, it is asked of all calls of that. What ``adding`` stands in as well keeps
    nothing from being removed.
    """
    found = statement_at(sources, file, line)
    if found is None:
        return None
    skipped = skipped_after(sources, adding) if adding is not None else None
    if skipped is not None:
        source, last, tried = skipped.adding.source, skipped.removes, skipped.tried
        behind = f"a try that begins behind {_place(source, skipped.adding.node)}"
        into = f"the try at {_place(source, tried)}" if tried is not None else behind
        is_own = source.file == file and last.lineno <= line <= (last.end_lineno or 0)
        return Guard("raises", into, "", "" if is_own else _place(source, last))
    added = [adding, *callers_of(sources, adding)] if adding is not None else []
    own = _guard(sources, found, added)
    if own is not None or found.function is None:
        return own
    callers = callers_of(sources, found) if not _runs(found, added[:1]) else []
    guards = [_guard(sources, one, added) for one in callers]
    if not guards or _mentions_in(sources, found.function.name) != 1 + len(callers):
        return None  # it is handed on, and called by others
    first = guards[0] if None not in guards else None
    return first._replace(call=_place(callers[0].source, callers[0].node)) if first is not None else None


def _place(source: Source, node: ast.stmt | ast.ExceptHandler) -> str:
    return f"{source.file.rsplit('/', 1)[-1]}:{node.lineno}"


def callers_of(sources: Sequence[Source], found: Statement) -> list[Statement]:
    """The statements that call the function that it is in."""
    function, file = found.function, found.source.file
    if function is None:
        return []
    index = index_of(sources, function.name, file)
    own = [one for one in index.functions.get(function.name, []) if one.source.file == file]
    calls = [
        (scope.source.file, site.node.lineno)
        for one in own if getattr(one.node, "lineno", 0) == function.lineno
        for scope, site in index.callers.get(one, ())
        if isinstance(site.node, ast.Call) and one in index.callees(site.node.func, scope)
    ]  # fmt: skip
    return [one for call in calls if (one := statement_at(sources, *call)) is not None]


def _guard(sources: Sequence[Source], found: Statement, adding: Sequence[Statement]) -> Guard | None:
    function, source = found.function, found.source
    is_free = function is not None and not (found.cls and found.cls.bases) and not _runs(found, adding)
    if function is not None and is_free and is_uncalled(sources, function):
        return Guard("uncalled", function.name, _place(source, function))
    together = {(one.source.file, outer.lineno) for one in adding for outer in one.around if isinstance(outer, ast.If)}
    inner: ast.AST = found.node
    for outer in reversed(found.around):
        if isinstance(outer, FUNCTIONS):
            break
        if isinstance(outer, ast.If) and not _is_of_length(outer.test) and (source.file, outer.lineno) not in together:
            is_other = inner in outer.orelse
            test = ast.unparse(outer.test)
            if function is not None and _is_asked_for(found.node, function):
                return Guard("asked", f"{function.name}()", _place(source, function))
            return Guard("condition", f"not ({test})" if is_other else test, _place(source, outer))
        inner = outer
    return None


def _runs(found: Statement, adding: Sequence[Statement]) -> bool:
    """Its function is one in which members are added."""
    own = found.source.file, found.function.lineno if found.function is not None else None
    return any((one.source.file, one.function.lineno) == own for one in adding if one.function is not None)


def skipped_after(sources: Sequence[Source], found: Statement) -> Skipped | None:
    """For a statement that adds, the one that removes the same again, where something between them may raise.

    Of those in functions of their own (``subscribe``, ``unsubscribe``), where one function calls both for the same.
    """
    removes = _removing(found)
    direct = _skipped(found, removes) if removes is not None else None
    if direct is not None or removes is None or found.function is None:
        return direct
    names = [one.name for one in removers_of(found)]
    for caller in callers_of(sources, found):
        call = _call_in(caller.node)
        made = (ast.Name(t.id, ast.Load()) for t, _ in pairs(caller.node) if isinstance(t, ast.Name))
        both = {*map(ast.dump, (*call.args, *made))} if call is not None else set()

        def undoes(one: ast.AST, of: str = _of(call), both: set[str] = both) -> bool:
            other = _call_in(one) if isinstance(one, ast.Expr) else None
            is_one = other is not None and last_name(other.func) in names and _of(other) == of
            return other is not None and is_one and {*map(ast.dump, other.args)} <= both

        lifted = _skipped(caller, undoes) if call is not None else None
        if lifted is not None:
            return lifted
    return None


def removers_of(found: Statement) -> list[Defined]:
    """Functions of its class, or of its module, that remove from what the statement adds to."""
    removes = _removing(found)
    own = [one for one in ast.walk(found.cls or found.tree) if isinstance(one, DEFINED)]
    return [one for one in own if any(map(removes, ast.walk(one)))] if removes is not None else []


def _removing(found: Statement) -> Callable[[ast.AST], bool] | None:
    """Whether a statement removes from what this one adds to."""
    pair = stored(found.node)
    if pair is None:
        return None
    container = ast.dump(pair[0])

    def removes(one: ast.AST) -> bool:
        own = _own(one) if isinstance(one, (ast.Expr, ast.Delete)) else ()
        return any(ast.dump(value) == container for node in own for value in removed_from(node))

    return removes


def _skipped(found: Statement, removes: Callable[[ast.AST], bool]) -> Skipped | None:
    block = found.block
    rest = block[block.index(found.node) + 1 :] if found.node in block else []
    for tried in (None, *(one for one in rest if isinstance(one, ast.Try))):
        inside = rest if tried is None else tried.body
        for at, one in enumerate(inside):
            if removes(one):
                other = [*tried.handlers, *tried.finalbody] if tried is not None else []
                again = any(removes(node) for part in other for node in ast.walk(part))
                works = any(isinstance(node, (ast.Call, ast.Await)) for part in inside[:at] for node in ast.walk(part))
                return Skipped(found, inside[:at], one, tried) if works and not again else None
    return None


def _call_in(node: ast.AST) -> ast.Call | None:
    """The call that is all of a statement, or of what it assigns."""
    value = getattr(node, "value", None)
    value = value.value if isinstance(value, ast.Await) else value
    return value if isinstance(value, ast.Call) else None


def _of(call: ast.Call | None) -> str:
    """What a method is called on."""
    return ast.dump(call.func.value) if call is not None and isinstance(call.func, ast.Attribute) else ""


def blocks(node: ast.AST) -> Iterator[list[ast.stmt]]:
    """The lists of statements in it, and in what stands in it."""
    for one in ast.walk(node):
        for name in ("body", "orelse", "finalbody"):
            part = getattr(one, name, None)
            if isinstance(part, list):
                yield part


def new_each_time(node: ast.stmt) -> list[str]:
    """What a statement uses as a key or gives a call, and is no constant: ``user``, ``path`` of ``labels(user, path)``.

    Keys of what it stores come first; else the arguments of the first call.
    """
    own = list(_own(node))
    stores = [one for one in own if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Store)]
    keys = [getattr(_entry_made(one.value), "slice", one.slice) for one in stores]
    pair = stored(node)
    if not keys and pair is not None and isinstance(pair[0], ast.Subscript):  # rows[key].append(row)
        keys = [pair[0].slice]
    if keys:
        return [ast.unparse(key) for key in keys if not isinstance(key, (ast.Constant, ast.Slice))]
    outer = next((one for one in own if isinstance(one, ast.Call)), None)
    inner: ast.expr | None = outer
    while isinstance(inner, (ast.Call, ast.Attribute)):  # of labels(user).inc() the first call is the one to look at
        outer = inner if isinstance(inner, ast.Call) and (inner.args or inner.keywords) else outer
        inner = inner.func if isinstance(inner, ast.Call) else inner.value
    given = arguments_of(outer) if outer is not None else []
    # Event(text) is another one each time, and no key.
    given = [one for one in given if not isinstance(one, ast.Constant) and not called(one)[:1].isupper()]
    return [text for one in given if len(text := ast.unparse(one)) <= SHORT]


def _entry_made(node: ast.expr) -> ast.Subscript | None:
    """``rows[user]`` for ``rows.setdefault(user, [])``: what it is from then on."""
    func = node.func if isinstance(node, ast.Call) and node.args else None
    is_it = isinstance(func, ast.Attribute) and func.attr == "setdefault"
    return ast.Subscript(func.value, node.args[0], ast.Load()) if is_it else None  # type: ignore[attr-defined, union-attr]


def is_looked_up_first(found: Statement) -> bool:
    """A member is added only where its key has none: ``if key not in rows: rows[key] = read(key)``, or by a get().

    Also behind what returns the one that is there.
    """
    made = found.node
    parts = [ast.Assign([one], made.value) for one in made.targets] if isinstance(made, ast.Assign) else [made]
    pair = next(filter(None, map(stored, parts)), None)  # also of one = rows[key] = read(key)
    if pair is None:
        return False
    name = ast.dump(pair[0])
    function = found.function
    got = {
        last_name(one.targets[0])
        for one in (ast.walk(function) if function is not None else ())
        if isinstance(one, ast.Assign) and isinstance(one.value, ast.Call) and isinstance(one.value.func, ast.Attribute)
        and one.value.func.attr == "get" and ast.dump(one.value.func.value) == name
    }  # fmt: skip

    tests: list[tuple[ast.If, type[ast.cmpop], type[ast.cmpop]]] = []
    tests += [(one, ast.NotIn, ast.Is) for one in found.around if isinstance(one, ast.If)]
    every = [one for one in ast.walk(function or found.node) if isinstance(one, ast.If)]
    ends = [one for one in every if isinstance(one.body[-1], ast.Return)]  # if key in rows: return rows[key]
    tests += [(one, ast.In, ast.IsNot) for one in ends if (one.end_lineno or 0) < found.node.lineno]
    return any(isinstance(one, ast.ExceptHandler) and last_name(one.type) == "KeyError" for one in found.around) or any(
        (isinstance(part.ops[0], missing) and ast.dump(part.comparators[0]) == name)
        or (isinstance(part.ops[0], none) and last_name(part.left) in got)
        for one, missing, none in tests for part in ast.walk(one.test) if isinstance(part, ast.Compare)
    )  # fmt: skip


def stored(node: ast.AST | None) -> tuple[ast.expr, ast.expr] | None:
    """Container and member of a statement that adds: ``rows.append(row)``, ``rows[key] = row``, ``rows += [row]``."""
    call = node.value if isinstance(node, ast.Expr) else None
    call = call.value if isinstance(call, ast.Await) else call
    if isinstance(call, ast.Call) and isinstance(call.func, ast.Attribute) and not call.keywords:
        if call.func.attr in ("append", "add", "appendleft", "put", "put_nowait", "push") and len(call.args) == 1:
            return _entry_made(call.func.value) or call.func.value, call.args[0]
        if call.func.attr in ("insert", "setdefault") and len(call.args) == 2:
            return call.func.value, call.args[1]
    if isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], ast.Subscript):
        return _entry_made(node.targets[0].value) or node.targets[0].value, node.value
    if isinstance(node, ast.AugAssign) and isinstance(node.op, ast.Add):
        members = getattr(node.value, "elts", [])
        return node.target, members[0] if len(members) == 1 else node.value
    return None


def regrown(found: Statement) -> ast.expr | None:
    """``frame`` of ``frame = concat([frame, rows])``, by a variable between as well, and of ``text += row``."""
    node = found.node
    if isinstance(node, ast.AugAssign):
        return node.target
    if not isinstance(node, ast.Assign) or len(node.targets) != 1:
        return None
    made = [node.value, *_made_in(found, part_of(node.value))]
    own = ast.dump(node.targets[0]).replace("Store()", "Load()")
    return node.targets[0] if any(ast.dump(part) == own for value in made for part in ast.walk(value)) else None


def _made_in(found: Statement, name: ast.expr | None) -> Iterator[ast.expr]:
    """What a variable of its function is."""
    for one in ast.walk(found.function) if found.function is not None and isinstance(name, ast.Name) else ():
        yield from (value for target, value in pairs(one) if value is not None and last_name(target) == last_name(name))


def latest_read(sources: Sequence[Source], variable: str) -> int | None:
    """How many of its newest members the sources look at: of ``rows[-1]`` and ``rows[-5:]`` five. None: others as well.

    0: members are put into it, and nothing looks at it, so that to put none there changes nothing.

    What may read it by another way (its name in a text, all attributes of an object at once) is no reading of older
    members, but may be one of all.
    """
    is_read = any(way in source.text for source in sources for way in READ_ALL)
    trees = [parse(source.text) for source in sources if variable in source.text]
    put, most = 0, 0
    for tree in trees:
        if tree is None:
            return None
        filling: set[ast.expr] = set()
        parts: dict[ast.AST, int | None] = {}
        for node in ast.walk(tree):
            if (pair := stored(node)) is not None:
                whole, is_assigned = pair[0], isinstance(node, ast.Assign)
                if isinstance(whole, ast.Subscript) and not is_assigned:  # rows[key].append(row)
                    whole = whole.value
                filling |= {whole} if not is_assigned or last_name(whole) == variable else set()
            is_read |= isinstance(node, ast.Constant) and node.value == variable
            if isinstance(node, ast.Assign) and last_name(node.targets[0]) == variable:
                joins = isinstance(node.value, ast.BinOp) or called(node.value) in JOINERS
                own = ast.unparse(node.targets[0]) if joins else None
                filling |= {e for e in ast.walk(node.value) if isinstance(e, ast.expr) and ast.unparse(e) == own}
            if isinstance(node, ast.Subscript) and is_load(node):
                is_rows = isinstance(node.value, ast.Attribute) and node.value.attr == "iloc"
                parts[getattr(node.value, "value", node.value) if is_rows else node.value] = _from_the_end(node.slice)
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "tail":
                value = getattr(node.args[0], "value", None) if node.args else 5
                parts[node.func.value] = value if isinstance(value, int) else None
        named = [node for node in ast.walk(tree) if last_name(node) == variable]
        for node in named:
            if is_load(node) and node not in filling:
                if (count := parts.get(node)) is None:
                    return None
                most = max(most, count)
        put += sum(node in filling for node in named)
        given = [node for node in ast.walk(tree) if isinstance(node, (ast.arg, ast.alias))]
        if any(variable in (getattr(node, "arg", ""), getattr(node, "name", "")) for node in given):
            return None
    return most if put and (most or not is_read) else None


def _from_the_end(index: ast.expr) -> int | None:
    """5 of ``-5`` and of ``-5:``, with which nothing before is read."""
    first = index.lower if isinstance(index, ast.Slice) and index.step is None else index
    if isinstance(first, ast.UnaryOp) and isinstance(first.op, ast.USub) and isinstance(first.operand, ast.Constant):
        return first.operand.value if isinstance(first.operand.value, int) else None
    return None


def only_read(found: Statement, variable: str) -> ast.Subscript | None:
    """``self.kinds[key]``, where it stands once and what is there is looked at, and neither changed nor handed on."""
    function, node = found.function, found.node
    entries = [one for one in _own(node) if isinstance(one, ast.Subscript) and last_name(one.value) == variable]
    if function is None or len(entries) != 1 or not is_load(entries[0]):
        return None
    around = {inner: outer for outer in ast.walk(function) for inner in ast.iter_child_nodes(outer)}
    uses: list[ast.AST] = [entries[0]]
    if isinstance(node, ast.Assign) and node.value is entries[0]:
        names = [one.id for one in node.targets if isinstance(one, ast.Name)]
        uses = [one for one in ast.walk(function) if last_name(one) in names and is_load(one)]
    for use in uses:
        outer = around.get(use)
        is_part = isinstance(outer, ast.Attribute) and is_load(outer)
        called = around.get(outer) if is_part and outer is not None else None
        looks = is_part and not (isinstance(called, ast.Call) and called.func is outer)
        if not looks and not isinstance(outer, (ast.Compare, ast.BinOp, ast.FormattedValue)):
            return None
    return entries[0] if uses else None


def _statements(node: ast.AST) -> Iterator[ast.stmt]:
    """Those directly in it; handlers of exceptions count as such."""
    for name in ("body", "handlers", "orelse", "finalbody") if not isinstance(node, ast.expr) else ():
        yield from getattr(node, name, ())
    yield from (one for case in getattr(node, "cases", ()) for one in case.body)


def names(node: ast.AST, variable: str) -> bool:
    return bool(variable) and any(last_name(one) == variable for one in ast.walk(node))


def _begins(node: ast.stmt) -> int:
    """Its first line, decorators counted in."""
    return min((one.lineno for one in getattr(node, "decorator_list", [])), default=node.lineno)


def _own(node: ast.AST) -> Iterator[ast.AST]:
    """All in a statement, without the statements in it."""
    waiting = [node]
    while waiting:
        at = waiting.pop(0)
        yield at
        waiting += [one for one in ast.iter_child_nodes(at) if not isinstance(one, (ast.stmt, ast.ExceptHandler))]


def _is_of_length(test: ast.expr) -> bool:
    """It asks how many there are: a limit, and no reason why a member stays."""
    return any(isinstance(one, ast.Call) and last_name(one.func) in ("len", "qsize") for one in ast.walk(test))


def _is_asked_for(node: ast.stmt, function: Defined) -> bool:
    """What is removed is an entry by a key that the function is given, and that it looks up for whoever called it."""
    given = {one.arg for one in function.args.args}
    gone = [one for one in _own(node) if isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Del)]
    every = list(ast.walk(function))
    looked_up = {_entry(one) for one in every}
    answers = any(
        isinstance(one, ast.Return) and not isinstance(one.value, (ast.Constant, type(None))) for one in every
    )
    return answers and any(last_name(one.slice) in given and _dumped(one.value, one.slice) in looked_up for one in gone)


def _entry(node: ast.AST) -> tuple[str, ...] | None:
    """Of ``rows[key]`` and ``rows.get(key)``, as they are read: the container and the key."""
    if isinstance(node, ast.Subscript) and is_load(node):
        return _dumped(node.value, node.slice)
    func = node.func if isinstance(node, ast.Call) and node.args else None
    if isinstance(node, ast.Call) and isinstance(func, ast.Attribute) and func.attr == "get":
        return _dumped(func.value, node.args[0])
    return None


def _dumped(*parts: ast.AST) -> tuple[str, ...]:
    return tuple(map(ast.dump, parts))


def is_uncalled(sources: Sequence[Source], function: Defined) -> bool:
    """Its name stands nowhere else in the code: neither called, nor handed on, nor in a text that may be looked up."""
    name = function.name
    if name.startswith("__") or function.decorator_list:
        return False
    return _mentions_in(sources, name) == 1


def _mentions_in(sources: Sequence[Source], name: str) -> int | None:
    """In all sources; None where one that has it cannot be parsed."""
    trees = [parse(source.text) for source in sources if name in source.text]
    return None if None in trees else sum(_mentions(tree, name) for tree in trees if tree)


def _mentions(tree: ast.AST, name: str) -> int:
    """How often a name is defined or used. What comments and docstrings say of it does nothing."""
    told = {id(node.value) for node in ast.walk(tree) if isinstance(node, ast.Expr)}
    word = re.compile(rf"\b{re.escape(name)}\b")
    found = 0
    for node in ast.walk(tree):
        text = node.value if isinstance(node, ast.Constant) and id(node) not in told else None
        names = (last_name(node), getattr(node, "name", None))
        found += name in names or (isinstance(text, str) and word.search(text) is not None)
    return found
