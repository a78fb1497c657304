"""The smallest edit of a source that follows an advice, by the places of its syntax: text in, text out.

Only where the sources show that the edit means what the advice says; else an ``Unsure`` says why there is none. An
edited source differs in the one statement that is named, or by what is put round or behind it, and can be parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, TypeVar, Union

from .index import FUNCTIONS, Source, arguments_of, defaults_of, last_name, lines_of, pairs
from .statements import (
    Statement,
    blocks,
    is_looked_up_first,
    latest_read,
    only_read,
    skipped_after,
    statement_at,
    stored,
)

_EMPTY = re.compile(r"\[\]|\{\}|(list|dict|set)\(\)")
_QUEUES = ("Queue", "LifoQueue", "PriorityQueue", "JoinableQueue")
_FIGURES = ("subplots", "figure", "subplot_mosaic")
_UP_TO_YOU = "what to change depends on what the program needs"
_ALL_OF_A_DICT = ("values", "items")
_MISSES = "whoever reads older ones misses them"
_MOST_WAITING = "1 << 20"  # bytes that wait for a reader
_Node = TypeVar("_Node")


class Edited(NamedTuple):
    """``text``: the whole file ``file``, edited. ``note``: what was chosen, or what to look at; may be empty."""

    file: str
    before: str
    text: str
    note: str


class Unsure(Exception):
    """``why`` nothing is edited, as a clause."""

    @property
    def why(self) -> str:
        return str(self)


class Asked(NamedTuple):
    """``line`` of ``file`` adds to ``variable``, whose type and whose members' type are named; ``most``: a limit.

    ``container``: the type of ``variable``, without its module, where that is known; ``member``: that of a member,
    where these grew, and the line adds to one. ``base``: str, bytes, int or float, where the members are of a class
    derived from that.
    """

    sources: Sequence[Source]
    file: str
    line: int
    variable: str
    type_name: str
    most: int
    base: str | None = None
    container: str = ""
    member: str | None = None

    @property
    def kind(self) -> str:
        if self.member is not None:
            return self.member.rpartition(".")[2]
        return self.container or self.type_name.split(" of ")[0].rpartition(".")[2]


def edit(mechanism: str, asked: Asked) -> Edited | Unsure:
    """The edit for a mechanism of ``evidence.mechanisms``."""
    try:
        how = _known(_HOW.get(mechanism), _UP_TO_YOU)
        _need(not asked.file.startswith("<"), "the code is in no file")
        found = statement_at(asked.sources, asked.file, asked.line, asked.variable)
        whole = found is not None and _tree(found.source.text) is not None
        name = asked.file.rsplit("/", 1)[-1]
        edited = how(
            asked,
            _known(found if whole else None, f"the recorded source of {name} has no whole statement at that line"),
        )
        _need(_tree(edited.text) is not None, "the edited source could not be parsed")
    except Unsure as unsure:
        return unsure
    read = _length_is_read(asked) if how in _TAKES_OUT else None
    return edited if read is None else edited._replace(note="; ".join(filter(None, (edited.note, read))))


def _length_is_read(asked: Asked) -> str | None:
    """Where the program asks how many there are: it may count by that what has come so far."""
    for source, node in _nodes(asked.sources):
        if not isinstance(node, ast.Call) or last_name(node.func) != "len":
            continue
        if any(last_name(one) == asked.variable for one in node.args):
            place = f"{source.file.rsplit('/', 1)[-1]}:{node.lineno}"
            return f"{place} reads how many are in {asked.variable}, which will be fewer"
    return None


def _reads_all(asked: Asked) -> str | None:
    """Where the program looks at all that is in it: whatever goes, its result is another."""
    for source, outer in _nodes(asked.sources):
        is_counted = isinstance(outer, ast.Call) and last_name(outer.func) == "len"
        if is_counted or isinstance(outer, (ast.Compare, ast.Subscript)):
            continue
        is_part = isinstance(outer, ast.Attribute) and outer.attr not in _ALL_OF_A_DICT
        for node in ast.iter_child_nodes(outer) if not is_part else ():
            if last_name(node) == asked.variable and isinstance(getattr(node, "ctx", None), ast.Load):
                return f"{source.file.rsplit('/', 1)[-1]}:{getattr(node, 'lineno', 0)}"
    return None


def suitable(length: float) -> int:
    """A limit for a container that had so many members: a quarter, as a round number up to 1,000."""
    most = max(1.0, min(length / 4, 1000.0))
    power = 10 ** (len(str(int(most))) - 1)
    return int(next(step for step in (5, 2, 1) if step * power <= most) * power)


def _need(is_so: object, why: str = _UP_TO_YOU) -> None:
    if not is_so:
        raise Unsure(why)


def _known(found: _Node | None, why: str = _UP_TO_YOU) -> _Node:
    if found is None:
        raise Unsure(why)
    return found


def _of(kind: type[_Node], node: object, why: str = _UP_TO_YOU) -> _Node:
    return _known(node if isinstance(node, kind) else None, why)


# ---- what is stored


def _otherwise(form: Callable[[Asked, str, str], str | None]) -> _How:
    """What is stored, in a form that keeps less. ``form``: given its text, and that as what a method is called on."""

    def how(asked: Asked, found: Statement) -> Edited:
        pair = stored(found.node) or _assigned(found)
        container, member = _known(pair, "the line stores no single value that could be changed there")
        is_value = not isinstance(member, (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Starred, ast.Constant))
        _need(is_value, "the line stores no single value that could be changed there")
        text = _segment(found.source, member)
        bracket = not isinstance(member, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        new = _known(form(asked, text, f"({text})" if bracket else text), "which part of it is read is yours to know")
        method = new.removesuffix("()").rpartition(".")[2]
        of_call = last_name(member.func) if isinstance(member, ast.Call) else ""
        _need(of_call not in (method, "item", "numpy"), f"the line stores {method}() of it already")
        if ".detach()" in new:
            name = last_name(container)
            goes_back = (_receiver(node) for _, node in _nodes(asked.sources) if _called(node) == "backward")
            _need(name not in goes_back, f"backward() is called on {name}: what it is computed by is needed until then")
        if "traceback" in method:
            handlers = [getattr(one, "name", None) for one in found.around]
            by_name = isinstance(member, ast.Name) and member.id in handlers
            _need(by_name, "the line does not store the exception by the name that its handler gives it")
        return _replaced(found.source, member, new)

    return how


def _detached(asked: Asked, text: str, behind: str) -> str | None:
    """A line that adds to one of several lists may be given what is no tensor as well."""
    if asked.member is None:
        return f"{behind}.detach()"
    return f'{text}.detach() if hasattr({text}, "detach") else {text}' if text.isidentifier() else None


def _of_view(asked: Asked, text: str, behind: str) -> str | None:
    if "re.Match" in asked.type_name or "lxml." in asked.type_name:
        return None
    if "memoryview" in asked.type_name:
        return f"bytes({text})"
    return f"{behind}.{'clone' if 'torch.' in asked.type_name else 'copy'}()"


def _assigned(found: Statement) -> tuple[ast.expr, ast.expr] | None:
    """``total = total + loss``: what the name becomes."""
    node = found.node
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    return (target, node.value) if isinstance(node, ast.Assign) and _is_plain_name(target) and target else None


def _not_stored(asked: Asked, found: Statement) -> Edited:
    """What is put there by a key that nobody reads by."""
    call = _of(ast.Call, getattr(found.node, "value", None), "what reads it again is not to be seen")
    key = getattr(next(iter(call.args), None), "value", None)
    key = _of(str, key, "what reads it again is not to be seen")
    _need(sum(one.text.count(key) for one in asked.sources) == 1, f"{key!r} is read elsewhere in the sources")
    note = f"nothing in the sources reads {key!r}; what reads it elsewhere would miss it"
    return _replaced(found.source, found.node, f"pass  # {_segment(found.source, found.node)}", note)


def _left_out(asked: Asked, found: Statement) -> Edited:
    """What is put in is still worked out where that may do something; without the statement where it is not."""
    source, node = found.source, found.node
    container, member = _known(stored(node), "the line adds to it in a part of another statement")
    works = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    parts = [member, *([container.slice] if isinstance(container, ast.Subscript) else [])]
    if any(isinstance(one, works) for part in parts for one in ast.walk(part)):
        note = "what it stored is still worked out: leave that out, too?"
        return _replaced(source, node, _segment(source, member), note)
    is_alone = len(found.block) == 1 or not _has_own_lines(source, node)
    return _replaced(source, node, "pass") if is_alone else _with(source, node.lineno - 1, node.end_lineno, [])


def _read_without_entry(asked: Asked, found: Statement) -> Edited:
    """A defaultdict is asked for what it has, or else given what it would make and does not keep."""
    entry = _known(only_read(found, asked.variable))
    made = [
        value.args[0] for _, node in _nodes(asked.sources) for target, value in pairs(node)
        if last_name(target) == asked.variable and isinstance(value, ast.Call) and len(value.args) == 1
    ]  # fmt: skip
    _need(len(made) == 1 and _is_plain_name(made[0]), f"what {asked.variable} makes for a new key is not to be seen")
    name, key = _segment(found.source, entry.value), _segment(found.source, entry.slice)
    return _replaced(found.source, entry, f"{name}.get({key}, {ast.unparse(made[0])}())", "no entry is made by reading")


# ---- how much is kept


def _bounded(asked: Asked, found: Statement) -> Edited:
    kind, node = asked.kind, found.node
    if kind in ("deque", *_QUEUES):
        return _made_with_limit(asked, found)
    container, _ = _known(stored(node), f"the line does not add to {asked.variable} in a statement of its own")
    name = _segment(found.source, container)
    read = latest_read(asked.sources, asked.variable) if kind == "list" else None
    most = read or asked.most
    is_it = _is_plain_name(container) and last_name(container) == asked.variable
    if asked.member is not None:
        is_it = not isinstance(container, ast.Call)
    _need(is_it, f"the line adds to {name}, which is not {asked.variable} itself: what may go there is yours to know")
    note = f"{name} keeps the latest {most:,}; {_MISSES if not read else 'the program reads no others'}"
    place = _reads_all(asked)
    _need(place is None, f"{place} reads all that {asked.variable} has: which of it may go is yours to know")
    if kind == "list" and not isinstance(node, ast.Assign):
        beside = next(_filled_beside(found, container), None)
        _need(beside is None, f"{beside} is filled together with {name}: both have to keep the same items")
        return _behind(found.source, node, [f"del {name}[:-{most}]"], note)
    is_mapping = kind in ("dict", "OrderedDict", "defaultdict") and isinstance(node, ast.Assign)
    _need(is_mapping, f"which members of a {kind} may go is yours to know")
    by_key = (
        isinstance(one, ast.Subscript) and isinstance(one.ctx, ast.Load) and last_name(one.value) == asked.variable
        for _, one in _nodes(asked.sources)
    )  # rows[key], which fails where the entry has gone
    is_safe = is_looked_up_first(found) or not any(by_key)
    _need(is_safe, f"the program reads {name} by keys: which entries may go is yours to know")
    return _behind(found.source, node, [f"if len({name}) > {most}:", f"    del {name}[next(iter({name}))]"], note)


def _filled_beside(found: Statement, container: ast.expr) -> Iterator[str]:
    """Other lists to which statements of the same block append, of the same object: what is read together."""
    for one in found.block:
        pair = stored(one) if isinstance(one, (ast.Expr, ast.AugAssign)) else None
        other = pair[0] if pair is not None and type(pair[0]) is type(container) else None
        if other is not None and _is_plain_name(other) and ast.dump(other) != ast.dump(container):
            yield ast.unparse(other)


def _made_with_limit(asked: Asked, found: Statement) -> Edited:
    """A deque or queue that is made in one place, without a limit."""
    made = [
        (source, value) for source, node in _nodes(asked.sources) for target, value in pairs(node)
        if last_name(target) == asked.variable and _called(value) in ("deque", *_QUEUES)
    ]  # fmt: skip
    _need(made, f"the sources make no deque or queue that is {asked.variable}")
    _need(len(made) == 1, f"{asked.variable} is made in {len(made)} places of the sources")
    source, call = made[0][0], _of(ast.Call, made[0][1])
    is_queue = _called(call) != "deque"
    other = (
        len(call.args) > (0 if is_queue else 1) or call.keywords or any(isinstance(a, ast.Starred) for a in call.args)
    )
    _need(not other, f"{asked.variable} is made by {ast.unparse(call)}: which limit that gives is not to be seen")
    given = [*(_segment(source, one) for one in call.args), f"{'maxsize' if is_queue else 'maxlen'}={asked.most}"]
    waits = "whoever puts one more waits, also where nobody takes one out"
    note = f"at most {asked.most:,} wait: {waits}" if is_queue else f"it keeps the latest {asked.most:,}; {_MISSES}"
    return _replaced(source, call, f"{_segment(source, call.func)}({', '.join(given)})", note)


def _cached(asked: Asked, found: Statement) -> Edited:
    note = f"the cache keeps {asked.most:,} results: how many repeat is yours to know"
    for one in getattr(found.node, "decorator_list", []):
        sizes = (
            [*one.args[:1], *(k.value for k in one.keywords if k.arg == "maxsize")]
            if _called(one) == "lru_cache"
            else []
        )
        if len(sizes) == 1 and isinstance(sizes[0], ast.Constant):
            return _replaced(found.source, sizes[0], str(asked.most), note)
        if isinstance(one, ast.Attribute) and one.attr == "cache":
            module = _segment(found.source, one.value)
            return _replaced(found.source, one, f"{module}.lru_cache(maxsize={asked.most})", note)
    raise Unsure("the decorator that makes it a cache has no maxsize to set")


def _cached_in_object(asked: Asked, found: Statement) -> Edited:
    """A cache round a method is made by __init__ for each object, and goes with it."""
    node, own, source = found.node, found.cls, found.source
    decorators = getattr(node, "decorator_list", [])
    cache = next((one for one in decorators if last_name(one.func if isinstance(one, ast.Call) else one)
                  in ("lru_cache", "cache")), None)  # fmt: skip
    init = next((one for one in own.body if getattr(one, "name", "") == "__init__"), None) if own is not None else None
    alone = len(decorators) == 1 and own is not None and "__slots__" not in _segment(source, own)
    name = getattr(node, "name", "")
    _need(cache is not None and alone and not name.startswith("__"), "the method has more than the cache round it")
    init = _of(ast.FunctionDef, init, "its class has no __init__ that could make the cache for each object")
    cache, last = _of(ast.expr, cache), init.body[-1]
    _need(not isinstance(last, (ast.Return, ast.Raise)), "its class has no __init__ that goes on to the end")
    first = init.args.args[0].arg
    made = f"{first}.{name} = {_segment(source, cache)}({first}.{name})"
    after = _with(source, cache.lineno - 1, cache.end_lineno, [])
    at = last.end_lineno or last.lineno
    at -= (cache.end_lineno or cache.lineno) - cache.lineno + 1 if cache.lineno < at else 0
    indent = _indent(lines_of(source.text)[last.lineno - 1])
    note = "each object has a cache of its own, which goes with it: results are not shared by equal objects"
    return _with(source._replace(text=after.text), at, at, [indent + made], note)._replace(before=source.text)


def _drained(asked: Asked, found: Statement) -> Edited:
    """Each write waits for its reader; in a function that cannot await, whoever is too slow misses what is written."""
    source, node, own = found.source, found.node, _segment(found.source, found.node)
    func = getattr(getattr(node, "value", None), "func", None)
    is_write = isinstance(func, ast.Attribute) and func.attr in ("write", "writelines")
    _need(is_write and isinstance(node, ast.Expr), "the line does not write in a statement of its own")
    writer = _segment(source, _of(ast.Attribute, func).value)
    if isinstance(found.function, ast.AsyncFunctionDef):
        note = "each write now waits for its reader: where one may be slow for long, close its connection instead"
        return _behind(source, node, [f"await {writer}.drain()"], note)
    _need("\n" not in own, "the statement goes over several lines")
    indent = _indent(lines_of(source.text)[node.lineno - 1])
    new = f"if {writer}.transport.get_write_buffer_size() < {_MOST_WAITING}:\n{indent}    {own}"
    note = "who has 1 MiB waiting misses what is written then: where that may not be, close the connection"
    return _replaced(source, node, new, note)


# ---- whose it is


def _default_none(asked: Asked, found: Statement) -> Edited:
    """Of the function that the line is in; else of the one that has such a parameter, and gives it to an object."""
    name = asked.variable
    defaults = [
        (source, one, value)
        for source, one in _nodes(asked.sources) if isinstance(one, (ast.FunctionDef, ast.AsyncFunctionDef))
        for arg, value in defaults_of(one) if arg.arg == name and _EMPTY.fullmatch(_segment(source, value))
    ]  # fmt: skip
    own = [one for one in defaults if found.function is not None and one[1].lineno == found.function.lineno]
    no_empty = f"the default value of {name} is no empty container that is written there"
    source, function, default = _known(
        next(iter(own or defaults), None) if len(own or defaults) == 1 else None, no_empty
    )
    text = _segment(source, default)
    inside = _at_the_beginning(source, function, f"if {name} is None:", f"    {name} = {text}", note="")
    note = "where calls were meant to share it, make it a variable of the module"
    after = _replaced(source._replace(text=inside.text), default, "None", note)
    return after._replace(before=source.text)


def _for_each_object(asked: Asked, found: Statement) -> Edited:
    """A container that a class body makes is made in __init__ as well, where there is one that does not do so."""
    source, body = found.source, found.cls.body if found.cls is not None else []
    made = [value for one in body for target, value in pairs(one) if last_name(target) == asked.variable and value]
    inits = [one for one in body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    is_empty = inits and made and _EMPTY.fullmatch(_segment(source, made[0]))
    _need(is_empty, "no __init__ of the class is known that could make one for each object")
    own = f"{inits[0].args.args[0].arg}.{asked.variable} = {_segment(source, made[0])}"
    note = "where all objects were meant to share it, remove what is no longer needed instead"
    return _at_the_beginning(source, inits[0], own, note=note)


def _at_the_beginning(source: Source, function: _Function, *new: str, note: str) -> Edited:
    """Lines at the beginning of a function, behind its docstring."""
    first = function.body[0]
    has_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1
    first = function.body[1] if has_text else first
    line = lines_of(source.text)[first.lineno - 1]
    _need(not line[: first.col_offset].strip(), "the function is on one line")
    return _with(source, first.lineno - 1, first.lineno - 1, [_indent(line) + one for one in new], note)


# ---- when it is let go


def _in_finally(asked: Asked, found: Statement) -> Edited:
    """What removes the same again at the end of its block does so also after an exception."""
    skipped = _known(skipped_after(asked.sources, found))
    source, tried = skipped.adding.source, skipped.tried
    last = lines_of(source.text)[skipped.removes.lineno - 1 : skipped.removes.end_lineno]
    if tried is None:
        return _tried(source, skipped.between, skipped.removes, last)
    used, bound = (
        {one.id for part in parts for one in ast.walk(part) if isinstance(one, ast.Name) and isinstance(one.ctx, kind)}
        for parts, kind in (([skipped.removes], ast.Load), (tried.body, ast.Store))
    )
    own = _has_own_lines(source, skipped.removes) and used.isdisjoint(bound)
    _need(own, "what removes it again uses what is known only behind what may raise")
    if tried.finalbody:
        at, new = tried.finalbody[0].lineno - 1, last
    else:
        at, new = tried.end_lineno or 0, [f"{_indent(lines_of(source.text)[tried.lineno - 1])}finally:", *last]
    behind = _with(source, at, at, new)
    moved = _with(source._replace(text=behind.text), skipped.removes.lineno - 1, skipped.removes.end_lineno, [])
    return moved._replace(before=source.text)


def _handle_removed(asked: Asked, found: Statement) -> Edited:
    """A hook that a function makes for itself goes as the function ends."""
    function, node, block = found.function, found.node, found.block
    if function is None:
        raise Unsure(_UP_TO_YOU)
    call = _of(ast.Call, node.value if isinstance(node, ast.Expr) else None)
    given = arguments_of(call)
    own = {getattr(one, "name", "") for one in function.body if isinstance(one, FUNCTIONS)}
    is_own = any(isinstance(one, ast.Lambda) or (isinstance(one, ast.Name) and one.id in own) for one in given)
    rest = block[block.index(node) + 1 :]
    _need(is_own and rest and block is function.body and "handle" not in _segment(found.source, function))
    indent = _indent(lines_of(found.source.text)[rest[0].lineno - 1])
    after = _tried(found.source, rest, None, [f"{indent}handle.remove()"])
    source = found.source._replace(text=after.text)
    kept = _replaced(source, node, f"handle = {_segment(source, node)}", "where it is needed later, keep the handle")
    return kept._replace(before=found.source.text)


def _tried(source: Source, body: Sequence[ast.stmt], until: ast.stmt | None, last: Sequence[str]) -> Edited:
    """Statements in a try, with the lines of others in its finally, in the place of one that comes behind them."""
    texts = [node for one in body for node in ast.walk(one) if isinstance(node, (ast.Constant, ast.JoinedStr))]
    _need(all(node.end_lineno == node.lineno for node in texts), "a text between goes over several lines")
    first, end = body[0].lineno - 1, (until.lineno - 1 if until is not None else body[-1].end_lineno) or 0
    lines = lines_of(source.text)[first:end]
    indent = _indent(lines[0])
    inside, after = ([f"    {one}" if one.strip() else one for one in part] for part in (lines, last))
    new = [f"{indent}try:", *inside, f"{indent}finally:", *after]
    return _with(source, first, until.end_lineno if until is not None else end, new)


def _taken_out_when_done(asked: Asked, found: Statement) -> Edited:
    """A future or task takes itself out of what keeps it."""
    pair = stored(found.node)
    is_plain = pair is not None and _is_plain_name(pair[0]) and _is_plain_name(pair[1])
    pair = _known(pair if is_plain else None, "the line stores no single name that could be taken out again")
    container, member = (_segment(found.source, one) for one in pair)
    _need(asked.kind in ("list", "set") and last_name(pair[0]) == asked.variable)
    out = "discard" if asked.kind == "set" else "remove"
    note = f"who looks for results or exceptions in {container} later misses those that are done"
    return _behind(found.source, found.node, [f"{member}.add_done_callback({container}.{out})"], note)


def _closed(asked: Asked, found: Statement) -> Edited:
    """A figure that the same function makes and saves: closed where it, or the library that has it, is last used."""
    node, body = found.node, found.block
    func = _of(ast.Attribute, getattr(getattr(node, "value", None), "func", None))
    _need(found.function is not None and func.attr in _FIGURES)
    library = _of(ast.Name, func.value).id
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    target = target.elts[0] if isinstance(target, ast.Tuple) else target
    name = _of(ast.Name, target).id if target is not None else ""
    names = {name or library, library}
    uses = [one for one in body if any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(one))]
    is_used = len(uses) > 1 and not isinstance(uses[-1], (ast.Return, ast.Assign))
    _need(is_used, "what becomes of the figure is not to be seen")
    return _behind(found.source, uses[-1], [f"{library}.close({name})"], "")


def _collector_on(asked: Asked, found: Statement) -> Edited:
    is_it = isinstance(found.node, ast.Expr) and _called(found.node.value) == "disable"
    _need(is_it, "the line does not turn the collector off in a statement of its own")
    return _replaced(found.source, found.node, "pass  # the collector stays on")


# ---- what nothing reads any more


class Piece(NamedTuple):
    """``name`` of a variable or attribute, or of the dict that has it by ``key``; read last round that line."""

    file: str
    line: int
    name: str
    key: str | None = None
    is_local: bool = False


def let_go(sources: Sequence[Source], pieces: Sequence[Piece]) -> Edited | Unsure:
    """Each is given up behind the statement that reads it last: all that are in the file of the first that can be."""
    behind: dict[int, tuple[Statement, list[str]]] = {}
    unsure: list[Unsure] = []
    for piece in pieces:
        try:
            found = _known(_read_last(sources, piece), "the recorded source has no whole statement at that line")
            new = _given_up(found, piece)
        except Unsure as why:
            unsure.append(why)
            continue
        if not behind or next(iter(behind.values()))[0].source == found.source:
            lines = behind.setdefault(found.node.lineno, (found, []))[1]
            lines += [new] if new not in lines else []
    if not behind:
        return unsure[0] if unsure else Unsure("no line is known that reads it last")
    first = next(iter(behind.values()))[0].source
    source = first
    for at in sorted(behind, reverse=True):  # from below, so that the lines above stay where they are
        found, lines = behind[at]
        try:
            source = source._replace(text=_behind(source, found.node, lines, "").text)
        except Unsure as why:
            return why
    note = "whatever reads it later by another name would miss it"
    return Edited(first.file, first.text, source.text, note)


def _read_last(sources: Sequence[Source], piece: Piece) -> Statement | None:
    """The statement round all loops of its function in which that line is."""
    found = statement_at(sources, piece.file, piece.line)
    if found is None or _tree(found.source.text) is None:
        return None
    inner = next((at for at in range(len(found.around), 0, -1) if isinstance(found.around[at - 1], FUNCTIONS)), 0)
    for at, one in enumerate(found.around[inner:], inner):
        if isinstance(one, (ast.For, ast.AsyncFor, ast.While)):
            return Statement(found.source, one, found.around[:at], found.tree)
    return found


def _given_up(found: Statement, piece: Piece) -> str:
    node = found.node
    _need(not isinstance(node, (ast.Return, ast.Raise)), "the function ends where it is read last")
    kind: type[ast.expr] = ast.Subscript if piece.key is not None else ast.Name if piece.is_local else ast.Attribute
    named = [one for one in ast.walk(node) if isinstance(one, ast.expr) and _is_named(one, piece)]
    if kind is ast.Attribute and not any(isinstance(one, kind) for one in named):  # a variable of the module
        kind = ast.Name
        _need(found.function is None, f"{piece.name} is a variable of the module that a function reads last")
    reads = {_segment(found.source, one): one for one in named if isinstance(one, kind)}
    _need(reads, f"the line that reads it last does not call it {piece.key or piece.name}")
    _need(len(reads) == 1, f"which of {' and '.join(reads)} it is, is not to be seen")
    ((text, read),) = reads.items()
    is_only_read = all(isinstance(getattr(one, "ctx", None), ast.Load) for one in named)
    _need(is_only_read, "the line that reads it last also gives it a new value")
    if kind is not ast.Name:
        base = read.value if isinstance(read, (ast.Subscript, ast.Attribute)) else read
        _need(_is_plain_name(base), f"{text} may be another object each time")
        return f"del {text}" if piece.key is not None else f"{text} = None"
    _need(_is_bound_before(found, piece.name), f"it is not to be seen that {text} is bound whenever the line runs")
    return f"del {text}"


def _is_named(node: ast.expr, piece: Piece) -> bool:
    if piece.key is not None:
        is_key = isinstance(node, ast.Subscript) and getattr(node.slice, "value", None) == piece.key
        return is_key and isinstance(node, ast.Subscript) and last_name(node.value) == piece.name
    return isinstance(node, (ast.Name, ast.Attribute)) and last_name(node) == piece.name


def _is_bound_before(found: Statement, name: str) -> bool:
    """By a parameter, or by a statement that runs before in any case."""
    given = [arg.arg for arg in ast.walk(found.function.args) if isinstance(arg, ast.arg)] if found.function else []
    inside = [*found.around, found.node]
    inside = inside[max((at + 1 for at, one in enumerate(inside) if one is found.function), default=0) :]
    parts = [part for one in (found.function or found.tree, *inside) for part in blocks(one)]
    before = (one for part in parts for at in inside if at in part for one in part[: part.index(at)])
    return name in given or any(last_name(target) == name for one in before for target, _ in pairs(one))


_How = Callable[[Asked, Statement], Edited]
_Function = Union[ast.FunctionDef, ast.AsyncFunctionDef]
_HOW: dict[str, _How] = {
    "autograd-history": _otherwise(_detached),
    "views": _otherwise(_of_view),
    "values-with-more": _otherwise(lambda asked, text, behind: f"{asked.base}({text})" if asked.base else None),
    "tracebacks": _otherwise(lambda asked, text, behind: f"{text}.with_traceback(None)"),
    "never-read": _left_out,
    "unbounded-container": _bounded,
    "keys-that-do-not-repeat": _bounded,
    "made-by-reading": _read_without_entry,
    "slow-consumer": _made_with_limit,
    "unbounded-cache": _cached,
    "cache-keeps-self": _cached_in_object,
    "write-buffer": _drained,
    "default-argument": _default_none,
    "collector-off": _collector_on,
    "stored-for-good": _not_stored,
    "library-registry": _closed,
    "hooks": _handle_removed,
    "removal-not-reached": _in_finally,
    "finished-work": _taken_out_when_done,
    "class-attribute": _for_each_object,
}
_TAKES_OUT = (_bounded, _left_out, _made_with_limit, _in_finally, _taken_out_when_done)


# ---- texts and their syntax


def _tree(text: str) -> ast.Module | None:
    """Of a whole source: what is cut off is edited by nobody."""
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return None


def _nodes(sources: Sequence[Source]) -> Iterator[tuple[Source, ast.AST]]:
    for source in sources:
        tree = _tree(source.text)
        yield from ((source, node) for node in (ast.walk(tree) if tree is not None else ()))


def _called(node: ast.AST | None) -> str:
    return last_name(node.func) if isinstance(node, ast.Call) else ""


def _receiver(node: ast.AST) -> str:
    func = node.func if isinstance(node, ast.Call) else None
    return last_name(func.value) if isinstance(func, ast.Attribute) else ""


def _is_plain_name(node: ast.expr | None) -> bool:
    """A name, or an attribute of one: to evaluate it again changes nothing."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _segment(source: Source, node: ast.AST) -> str:
    return ast.get_source_segment(source.text, node) or ast.unparse(node)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _around(source: Source, node: ast.expr | ast.stmt) -> tuple[str, str]:
    """What stands before and behind it, on its first line and its last."""
    lines = lines_of(source.text)
    before = lines[node.lineno - 1].encode()[: node.col_offset].decode()
    return before, lines[(node.end_lineno or node.lineno) - 1].encode()[node.end_col_offset or 0 :].decode()


def _has_own_lines(source: Source, node: ast.stmt) -> bool:
    before, behind = _around(source, node)
    return not before.strip() and behind.strip()[:1] in ("", "#")


def _with(source: Source, first: int, end: int | None, new: Sequence[str], note: str = "") -> Edited:
    """The source with other lines from ``first`` to before ``end``, and with the line ends that it has."""
    lines = lines_of(source.text)
    lines[first:end] = new
    return Edited(source.file, source.text, ("\r\n" if "\r\n" in source.text else "\n").join(lines), note)


def _replaced(source: Source, node: ast.expr | ast.stmt, new: str, note: str = "") -> Edited:
    """The source with another text in place of a node, which may go over several lines."""
    before, behind = _around(source, node)
    return _with(source, node.lineno - 1, node.end_lineno, f"{before}{new}{behind}".split("\n"), note)


def _behind(source: Source, node: ast.stmt, new: Sequence[str], note: str) -> Edited:
    """The source with statements put behind one, as far in as it."""
    _need(_has_own_lines(source, node), "the statement shares its line with another")
    end, indent = node.end_lineno or node.lineno, _indent(lines_of(source.text)[node.lineno - 1])
    return _with(source, end, end, [indent + one for one in new], note)
