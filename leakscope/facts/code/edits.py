"""The smallest edit of a source that follows an advice, by the places of its syntax: text in, text out.

Only where the sources show that the edit means what the advice says; else an ``Unsure`` says why there is none. An
edited source differs in the one statement that is named, or by what is put round or behind it, and can be parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from .editing import (
    UP_TO_YOU,
    Asked,
    Edited,
    Unsure,
    has_own_lines,
    indent_of,
    is_plain_name,
    known,
    need,
    nodes,
    of_kind,
    put_behind,
    replaced,
    segment,
    tree_of,
    with_lines,
)
from .ending import ENDING, closed, ended, freed, handle_removed, in_finally, taken_out_when_done
from .index import Source, lines_of
from .statements import (
    Statement,
    blocks,
    is_looked_up_first,
    latest_read,
    only_read,
    regrown,
    statement_at,
    stored,
)
from .syntax import (
    DEFINED,
    FUNCTIONS,
    LOOPS,
    Defined,
    arguments_of,
    called,
    defaults_of,
    is_load,
    last_name,
    pairs,
    receiver,
)

_EMPTY = re.compile(r"\[\]|\{\}|(list|dict|set)\(\)")
_QUEUES = ("Queue", "LifoQueue", "PriorityQueue", "JoinableQueue")
_END_BY_THEMSELVES = ("DataLoader", "iter", "Pool", "ThreadPoolExecutor", "open", "socket", "mmap", "connect")
_BESIDE = ("hstack", "column_stack", "dstack", "merge", "insert")
_ALL_OF_A_DICT = ("values", "items")
_MISSES = "whoever reads older ones misses them"
_MOST_WAITING = "1 << 20"  # bytes that wait for a reader


def edit(mechanism: str, asked: Asked) -> Edited | Unsure:
    """The edit for a mechanism of ``evidence.mechanisms``."""
    try:
        how = known(_HOW.get(mechanism), UP_TO_YOU)
        need(not asked.file.startswith("<"), "the code is in no file")
        found = statement_at(asked.sources, asked.file, asked.line, asked.variable)
        whole = found is not None and tree_of(found.source.text) is not None
        name = asked.file.rsplit("/", 1)[-1]
        found = known(found if whole else None, f"the recorded source of {name} has no whole statement at that line")
        edited = how(asked, found)
        need(tree_of(edited.text) is not None, "the edited source could not be parsed")
    except Unsure as unsure:
        return unsure
    read = _length_is_read(asked) if how in _TAKES_OUT else None
    return edited if read is None else edited._replace(note="; ".join(filter(None, (edited.note, read))))


def _length_is_read(asked: Asked) -> str | None:
    """Where the program asks how many there are: it may count by that what has come so far."""
    for source, node in nodes(asked.sources):
        if isinstance(node, ast.Call) and called(node) == "len" and asked.variable in map(last_name, node.args):
            place = f"{source.file.rsplit('/', 1)[-1]}:{node.lineno}"
            return f"{place} reads how many are in {asked.variable}, which will be fewer"
    return None


def _reads_all(asked: Asked) -> str | None:
    """Where the program looks at all that is in it: whatever goes, its result is another."""
    for source, outer in nodes(asked.sources):
        if called(outer) == "len" or isinstance(outer, (ast.Compare, ast.Subscript)):
            continue
        is_part = isinstance(outer, ast.Attribute) and outer.attr not in _ALL_OF_A_DICT
        for node in ast.iter_child_nodes(outer) if not is_part else ():
            if last_name(node) == asked.variable and is_load(node):
                return f"{source.file.rsplit('/', 1)[-1]}:{getattr(node, 'lineno', 0)}"
    return None


def suitable(length: float) -> int:
    """A limit for a container that had so many members: a quarter, as a round number up to 1,000."""
    most = max(1.0, min(length / 4, 1000.0))
    power = 10 ** (len(str(int(most))) - 1)
    return int(next(step for step in (5, 2, 1) if step * power <= most) * power)


# ---- what is stored


def _otherwise(form: Callable[[Asked, str, str], str | None]) -> _How:
    """What is stored, in a form that keeps less. ``form``: given its text, and that as what a method is called on."""

    def how(asked: Asked, found: Statement) -> Edited:
        pair = stored(found.node) or _assigned(found)
        if pair is None and form is _detached:
            return _detached_behind(asked, found)
        container, member = known(pair, "the line stores no single value that could be changed there")
        if form is _without_traceback:
            member = _caught(found, member)
        if form is _detached and isinstance(member, (ast.Tuple, ast.Dict)):
            return _detached_parts(asked, found, container, member)
        is_value = not isinstance(member, (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Starred, ast.Constant))
        need(is_value, "the line stores no single value that could be changed there")
        text = segment(found.source, member)
        bracket = not isinstance(member, (ast.Name, ast.Attribute, ast.Call, ast.Subscript))
        new = known(form(asked, text, f"({text})" if bracket else text), "which part of it is read is yours to know")
        method = new.removesuffix("()").rpartition(".")[2]
        need(called(member) not in (method, "item", "numpy"), f"the line stores {method}() of it already")
        if form is _detached:
            _need_no_backward(asked, last_name(container))
        return replaced(found.source, member, new)

    return how


def _detached(asked: Asked, text: str, behind: str) -> str | None:
    """A line that adds to one of several lists may be given what is no tensor as well."""
    if asked.member is None:
        return f"{behind}.detach()"
    return f'{text}.detach() if hasattr({text}, "detach") else {text}' if text.isidentifier() else None


def _need_no_backward(asked: Asked, name: str) -> None:
    goes_back = (receiver(node) for _, node in nodes(asked.sources) if called(node) == "backward")
    need(name not in goes_back, f"backward() is called on {name}: what it is computed by is needed until then")


def _detached_behind(asked: Asked, found: Statement) -> Edited:
    """``features, self.state = self.rnn(chunk, self.state)``: one of several that a statement makes."""
    node = found.node
    made = [one for one, _ in pairs(node) if last_name(one) == asked.variable and is_plain_name(one)]
    is_made = isinstance(node, ast.Assign) and len(made) == 1 and asked.kind in ("Tensor", "tuple")
    need(is_made, "the line stores no single value that could be changed there")
    _need_no_backward(asked, asked.variable)
    name = segment(found.source, made[0])
    new = f"{name}.detach()" if asked.kind == "Tensor" else f"tuple(one.detach() for one in {name})"
    return put_behind(found.source, node, [f"{name} = {new}"], "")


def _detached_parts(asked: Asked, found: Statement, container: ast.expr, member: ast.Tuple | ast.Dict) -> Edited:
    """Each variable in a tuple or dict that is stored, where that is a tensor."""
    _need_no_backward(asked, last_name(container))
    counted = {last_name(one.target) for one in ast.walk(found.tree) if isinstance(one, ast.For)}
    every = member.values if isinstance(member, ast.Dict) else member.elts
    parts = [one for one in every if isinstance(one, ast.Name) and one.id not in counted]
    need(parts, "which part of it is a tensor is not to be seen")
    source, text = found.source, found.source.text
    used = {receiver(node) for _, node in nodes(asked.sources) if called(node) in ("backward", "item")}
    for one in reversed(parts):
        new = f"{one.id}.detach()" if one.id in used else _detached(asked._replace(member=""), one.id, one.id)
        source = source._replace(text=replaced(source, one, new or "").text)
    return Edited(source.file, text, source.text, "")


def _without_traceback(asked: Asked, text: str, behind: str) -> str:
    return f"{text}.with_traceback(None)"


def _caught(found: Statement, member: ast.expr) -> ast.expr:
    """What is stored, or one argument of the record that is made of it there: the exception that is handled."""
    handlers = [getattr(one, "name", None) for one in found.around]
    made = arguments_of(member) if isinstance(member, ast.Call) and called(member)[:1].isupper() else [member]
    by_name = [one for one in made if isinstance(one, ast.Name) and one.id in handlers]
    need(len(by_name) == 1, "the line does not store the exception by the name that its handler gives it")
    return by_name[0]


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
    return (target, node.value) if isinstance(node, ast.Assign) and is_plain_name(target) and target else None


def _not_stored(asked: Asked, found: Statement) -> Edited:
    """What is put there by a key that nobody reads by."""
    call = of_kind(ast.Call, getattr(found.node, "value", None), "what reads it again is not to be seen")
    key = getattr(next(iter(call.args), None), "value", None)
    key = of_kind(str, key, "what reads it again is not to be seen")
    need(sum(one.text.count(key) for one in asked.sources) == 1, f"{key!r} is read elsewhere in the sources")
    note = f"nothing in the sources reads {key!r}; what reads it elsewhere would miss it"
    return replaced(found.source, found.node, f"pass  # {segment(found.source, found.node)}", note)


def _left_out(asked: Asked, found: Statement) -> Edited:
    """What is put in is still worked out where that may do something; without the statement where it is not."""
    source, node = found.source, found.node
    container, member = known(stored(node), "the line adds to it in a part of another statement")
    works = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    parts = [member, *([container.slice] if isinstance(container, ast.Subscript) else [])]
    if any(isinstance(one, works) for part in parts for one in ast.walk(part)):
        note = "what it stored is still worked out: leave that out, too?"
        return replaced(source, node, segment(source, member), note)
    is_alone = len(found.block) == 1 or not has_own_lines(source, node)
    return replaced(source, node, "pass") if is_alone else with_lines(source, node.lineno - 1, node.end_lineno, [])


def _let_go_of(asked: Asked, found: Statement) -> Edited:
    """Ended where its use ends; else, where that ends it, no longer put where nobody looks for it."""
    try:
        return (_done_with(asked) if asked.container != "list" else None) or ended(asked, found)
    except Unsure:
        puts = [
            (source, node) for source, node in nodes(asked.sources)
            if (pair := stored(node)) is not None and last_name(pair[0]) == asked.variable
        ]  # fmt: skip
        goes_by_itself = called(getattr(found.node, "value", None)) in _END_BY_THEMSELVES
        if len(puts) != 1 or not goes_by_itself or latest_read(asked.sources, asked.variable) != 0:
            raise
    put = statement_at(asked.sources, puts[0][0].file, getattr(puts[0][1], "lineno", 0), asked.variable)
    return _left_out(asked, known(put))


def _read_without_entry(asked: Asked, found: Statement) -> Edited:
    """A defaultdict is asked for what it has, or else given what it would make and does not keep."""
    entry = known(only_read(found, asked.variable))
    made = [
        value.args[0] for _, node in nodes(asked.sources) for target, value in pairs(node)
        if last_name(target) == asked.variable and isinstance(value, ast.Call) and len(value.args) == 1
    ]  # fmt: skip
    need(len(made) == 1 and is_plain_name(made[0]), f"what {asked.variable} makes for a new key is not to be seen")
    name, key = segment(found.source, entry.value), segment(found.source, entry.slice)
    return replaced(found.source, entry, f"{name}.get({key}, {ast.unparse(made[0])}())", "no entry is made by reading")


# ---- how much is kept


def _bounded(asked: Asked, found: Statement) -> Edited:
    kind, node = asked.kind, found.node
    if kind in ("deque", *_QUEUES):
        return _made_with_limit(asked, found)
    container, _ = known(stored(node), f"the line does not add to {asked.variable} in a statement of its own")
    name = segment(found.source, container)
    read = latest_read(asked.sources, asked.variable) if kind == "list" else None
    most = read or asked.most
    is_it = is_plain_name(container) and last_name(container) == asked.variable
    if asked.member is not None:
        is_it = not isinstance(container, ast.Call)
    need(is_it, f"the line adds to {name}, which is not {asked.variable} itself: what may go there is yours to know")
    note = f"{name} keeps the latest {most:,}; {_MISSES if not read else 'the program reads no others'}"
    place = _reads_all(asked)
    need(place is None, f"{place} reads all that {asked.variable} has: which of it may go is yours to know")
    if kind == "list" and not isinstance(node, ast.Assign):
        beside = next(_filled_beside(found, container), None)
        need(beside is None, f"{beside} is filled together with {name}: both have to keep the same items")
        return put_behind(found.source, node, [f"del {name}[:-{most}]"], note)
    done = _done_with(asked) if kind in ("dict", "OrderedDict") else None
    if done is not None:
        return done
    is_mapping = kind in ("dict", "OrderedDict", "defaultdict") and isinstance(node, ast.Assign)
    need(is_mapping, f"which members of a {kind} may go is yours to know")
    by_key = (
        isinstance(one, ast.Subscript) and is_load(one) and last_name(one.value) == asked.variable
        for _, one in nodes(asked.sources)
    )  # rows[key], which fails where the entry has gone
    is_safe = is_looked_up_first(found) or not any(by_key)
    need(is_safe, f"the program reads {name} by keys: which entries may go is yours to know")
    return put_behind(found.source, node, [f"if len({name}) > {most}:", f"    del {name}[next(iter({name}))]"], note)


def _done_with(asked: Asked) -> Edited | None:
    """The one function that ends what it is given the key of, and looks it up for the last time."""
    found = []
    for source, function in nodes(asked.sources):
        if not isinstance(function, DEFINED):
            continue
        given = [arg.arg for arg in ast.walk(function.args) if isinstance(arg, ast.arg)]
        named = re.sub(
            rf"_({'|'.join(map(re.escape, [*given, asked.variable.lower().rstrip('s')]))})$", "", function.name
        )
        if not ENDING.fullmatch(named):
            continue
        for node in ast.walk(function):
            of, key, other = None, None, ""
            if isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
                of, key = node.value, node.slice
            elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "get":
                of, key, other = node.func.value, node.args[0] if len(node.args) == 1 else None, ", None"
            if of is not None and last_name(of) == asked.variable and last_name(key) in given and is_plain_name(of):
                found.append((source, node, f"{ast.unparse(of)}.pop({last_name(key)}{other})", function.name))
    if len(found) != 1:
        return None
    source, node, new, name = found[0]
    return replaced(source, of_kind(ast.expr, node), new, f"whoever reads it by that key after {name}() misses it")


def _latest_of_whole(asked: Asked, found: Statement) -> Edited:
    """What is no container and takes in what it had keeps as much of its end as the program reads."""
    target = known(regrown(found))
    parts = list(ast.walk(found.node))
    values = [one.value for one in parts if isinstance(one, ast.keyword) and one.arg in ("dim", "axis")]
    is_first = all(getattr(one, "value", None) == 0 for one in values)
    need(is_first and not any(called(one) in _BESIDE for one in parts), "it grows by another dimension than its first")
    read = known(
        latest_read(asked.sources, asked.variable) or None, "how much of it the program reads is not to be seen"
    )
    name = segment(found.source, target)
    new = f"{name}.tail({read})" if asked.kind in ("DataFrame", "Series") else f"{name}[-{read}:]"
    need(is_plain_name(target))
    return put_behind(
        found.source, found.node, [f"{name} = {new}"], f"{name} keeps the latest {read}; the program reads no others"
    )


def _filled_beside(found: Statement, container: ast.expr) -> Iterator[str]:
    """Other lists to which statements of the same block append, of the same object: what is read together."""
    for one in found.block:
        pair = stored(one) if isinstance(one, (ast.Expr, ast.AugAssign)) else None
        other = pair[0] if pair is not None and type(pair[0]) is type(container) else None
        if other is not None and is_plain_name(other) and ast.dump(other) != ast.dump(container):
            yield ast.unparse(other)


def _made_with_limit(asked: Asked, found: Statement) -> Edited:
    """A deque or queue that is made in one place, without a limit."""
    made = [
        (source, value) for source, node in nodes(asked.sources) for target, value in pairs(node)
        if last_name(target) == asked.variable and called(value) in ("deque", *_QUEUES)
    ]  # fmt: skip
    need(made, f"the sources make no deque or queue that is {asked.variable}")
    need(len(made) == 1, f"{asked.variable} is made in {len(made)} places of the sources")
    source, call = made[0][0], of_kind(ast.Call, made[0][1])
    is_queue = called(call) != "deque"
    other = (
        len(call.args) > (0 if is_queue else 1) or call.keywords or any(isinstance(a, ast.Starred) for a in call.args)
    )
    need(not other, f"{asked.variable} is made by {ast.unparse(call)}: which limit that gives is not to be seen")
    given = [*(segment(source, one) for one in call.args), f"{'maxsize' if is_queue else 'maxlen'}={asked.most}"]
    waits = "whoever puts one more waits, also where nobody takes one out"
    note = f"at most {asked.most:,} wait: {waits}" if is_queue else f"it keeps the latest {asked.most:,}; {_MISSES}"
    return replaced(source, call, f"{segment(source, call.func)}({', '.join(given)})", note)


def _cached(asked: Asked, found: Statement) -> Edited:
    note = f"the cache keeps {asked.most:,} results: how many repeat is yours to know"
    for one in getattr(found.node, "decorator_list", []):
        sizes = (
            [*one.args[:1], *(k.value for k in one.keywords if k.arg == "maxsize")]
            if called(one) == "lru_cache"
            else []
        )
        if len(sizes) == 1 and isinstance(sizes[0], ast.Constant):
            return replaced(found.source, sizes[0], str(asked.most), note)
        if isinstance(one, ast.Attribute) and one.attr == "cache":
            module = segment(found.source, one.value)
            return replaced(found.source, one, f"{module}.lru_cache(maxsize={asked.most})", note)
    raise Unsure("the decorator that makes it a cache has no maxsize to set")


def _cached_in_object(asked: Asked, found: Statement) -> Edited:
    """A cache round a method is made by __init__ for each object, and goes with it."""
    node, own, source = found.node, found.cls, found.source
    decorators = getattr(node, "decorator_list", [])
    cache = next((one for one in decorators if last_name(one.func if isinstance(one, ast.Call) else one)
                  in ("lru_cache", "cache")), None)  # fmt: skip
    init = next((one for one in own.body if getattr(one, "name", "") == "__init__"), None) if own is not None else None
    alone = len(decorators) == 1 and own is not None and "__slots__" not in segment(source, own)
    name = getattr(node, "name", "")
    need(cache is not None and alone and not name.startswith("__"), "the method has more than the cache round it")
    init = of_kind(ast.FunctionDef, init, "its class has no __init__ that could make the cache for each object")
    cache, last = of_kind(ast.expr, cache), init.body[-1]
    need(not isinstance(last, (ast.Return, ast.Raise)), "its class has no __init__ that goes on to the end")
    first = init.args.args[0].arg
    made = f"{first}.{name} = {segment(source, cache)}({first}.{name})"
    after = with_lines(source, cache.lineno - 1, cache.end_lineno, [])
    at = last.end_lineno or last.lineno
    at -= (cache.end_lineno or cache.lineno) - cache.lineno + 1 if cache.lineno < at else 0
    indent = indent_of(lines_of(source.text)[last.lineno - 1])
    note = "each object has a cache of its own, which goes with it: results are not shared by equal objects"
    return with_lines(source._replace(text=after.text), at, at, [indent + made], note)._replace(before=source.text)


def _drained(asked: Asked, found: Statement) -> Edited:
    """Each write waits for its reader; in a function that cannot await, whoever is too slow misses what is written."""
    source, node, own = found.source, found.node, segment(found.source, found.node)
    func = getattr(getattr(node, "value", None), "func", None)
    is_write = isinstance(func, ast.Attribute) and func.attr in ("write", "writelines")
    need(is_write and isinstance(node, ast.Expr), "the line does not write in a statement of its own")
    writer = segment(source, of_kind(ast.Attribute, func).value)
    if isinstance(found.function, ast.AsyncFunctionDef):
        note = "each write now waits for its reader: where one may be slow for long, close its connection instead"
        return put_behind(source, node, [f"await {writer}.drain()"], note)
    need("\n" not in own, "the statement goes over several lines")
    indent = indent_of(lines_of(source.text)[node.lineno - 1])
    new = f"if {writer}.transport.get_write_buffer_size() < {_MOST_WAITING}:\n{indent}    {own}"
    note = "who has 1 MiB waiting misses what is written then: where that may not be, close the connection"
    return replaced(source, node, new, note)


# ---- whose it is


def _default_none(asked: Asked, found: Statement) -> Edited:
    """Of the function that the line is in; else of the one that has such a parameter, and gives it to an object."""
    name = asked.variable
    defaults = [
        (source, one, value)
        for source, one in nodes(asked.sources) if isinstance(one, DEFINED)
        for arg, value in defaults_of(one) if arg.arg == name and _EMPTY.fullmatch(segment(source, value))
    ]  # fmt: skip
    own = [one for one in defaults if found.function is not None and one[1].lineno == found.function.lineno]
    no_empty = f"the default value of {name} is no empty container that is written there"
    source, function, default = known(
        next(iter(own or defaults), None) if len(own or defaults) == 1 else None, no_empty
    )
    text = segment(source, default)
    inside = _at_the_beginning(source, function, f"if {name} is None:", f"    {name} = {text}", note="")
    note = "where calls were meant to share it, make it a variable of the module"
    after = replaced(source._replace(text=inside.text), default, "None", note)
    return after._replace(before=source.text)


def _for_each_object(asked: Asked, found: Statement) -> Edited:
    """A container that a class body makes is made in __init__ as well, where there is one that does not do so."""
    source, body = found.source, found.cls.body if found.cls is not None else []
    made = [value for one in body for target, value in pairs(one) if last_name(target) == asked.variable and value]
    inits = [one for one in body if isinstance(one, ast.FunctionDef) and one.name == "__init__"]
    is_empty = inits and made and _EMPTY.fullmatch(segment(source, made[0]))
    need(is_empty, "no __init__ of the class is known that could make one for each object")
    own = f"{inits[0].args.args[0].arg}.{asked.variable} = {segment(source, made[0])}"
    note = "where all objects were meant to share it, remove what is no longer needed instead"
    return _at_the_beginning(source, inits[0], own, note=note)


def _at_the_beginning(source: Source, function: Defined, *new: str, note: str) -> Edited:
    """Lines at the beginning of a function, behind its docstring."""
    first = function.body[0]
    has_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1
    first = function.body[1] if has_text else first
    line = lines_of(source.text)[first.lineno - 1]
    need(not line[: first.col_offset].strip(), "the function is on one line")
    return with_lines(source, first.lineno - 1, first.lineno - 1, [indent_of(line) + one for one in new], note)


def _collector_on(asked: Asked, found: Statement) -> Edited:
    is_it = isinstance(found.node, ast.Expr) and called(found.node.value) == "disable"
    need(is_it, "the line does not turn the collector off in a statement of its own")
    return replaced(found.source, found.node, "pass  # the collector stays on")


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
            found = known(_read_last(sources, piece), "the recorded source has no whole statement at that line")
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
            source = source._replace(text=put_behind(source, found.node, lines, "").text)
        except Unsure as why:
            return why
    note = "whatever reads it later by another name would miss it"
    return Edited(first.file, first.text, source.text, note)


def _read_last(sources: Sequence[Source], piece: Piece) -> Statement | None:
    """The statement round all loops of its function in which that line is."""
    found = statement_at(sources, piece.file, piece.line)
    if found is None or tree_of(found.source.text) is None:
        return None
    inner = next((at for at in range(len(found.around), 0, -1) if isinstance(found.around[at - 1], FUNCTIONS)), 0)
    for at, one in enumerate(found.around[inner:], inner):
        if isinstance(one, LOOPS):
            return Statement(found.source, one, found.around[:at], found.tree)
    return found


def _given_up(found: Statement, piece: Piece) -> str:
    node = found.node
    need(not isinstance(node, (ast.Return, ast.Raise)), "the function ends where it is read last")
    kind: type[ast.expr] = ast.Subscript if piece.key is not None else ast.Name if piece.is_local else ast.Attribute
    named = [one for one in ast.walk(node) if isinstance(one, ast.expr) and _is_named(one, piece)]
    if kind is ast.Attribute and not any(isinstance(one, kind) for one in named):  # a variable of the module
        kind = ast.Name
        need(found.function is None, f"{piece.name} is a variable of the module that a function reads last")
    reads = {segment(found.source, one): one for one in named if isinstance(one, kind)}
    need(reads, f"the line that reads it last does not call it {piece.key or piece.name}")
    need(len(reads) == 1, f"which of {' and '.join(reads)} it is, is not to be seen")
    ((text, read),) = reads.items()
    need(all(map(is_load, named)), "the line that reads it last also gives it a new value")
    if kind is not ast.Name:
        base = read.value if isinstance(read, (ast.Subscript, ast.Attribute)) else read
        need(is_plain_name(base), f"{text} may be another object each time")
        return f"del {text}" if piece.key is not None else f"{text} = None"
    need(_is_bound_before(found, piece.name), f"it is not to be seen that {text} is bound whenever the line runs")
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
_HOW: dict[str, _How] = {
    "autograd-history": _otherwise(_detached),
    "views": _otherwise(_of_view),
    "values-with-more": _otherwise(lambda asked, text, behind: f"{asked.base}({text})" if asked.base else None),
    "tracebacks": _otherwise(_without_traceback),
    "never-read": _left_out,
    "unbounded-container": _bounded,
    "keys-that-do-not-repeat": _bounded,
    "rebuilt-with-more": _latest_of_whole,
    "made-by-reading": _read_without_entry,
    "slow-consumer": _made_with_limit,
    "unbounded-cache": _cached,
    "cache-keeps-self": _cached_in_object,
    "write-buffer": _drained,
    "default-argument": _default_none,
    "collector-off": _collector_on,
    "stored-for-good": _not_stored,
    "library-registry": closed,
    "hooks": handle_removed,
    "removal-not-reached": in_finally,
    "not-closed": _let_go_of,
    "not-ended": _let_go_of,
    "not-freed": freed,
    "finished-work": taken_out_when_done,
    "class-attribute": _for_each_object,
}
_TAKES_OUT = (_bounded, _left_out, _made_with_limit, in_finally, taken_out_when_done)
