"""The smallest edit of a source that follows an advice, by the places of its syntax: text in, text out.

Only where the sources show that the edit means what the advice says; else an ``Unsure`` says why there is none. An
edited source differs in the one statement that is named, or by one that is put behind it, and can be parsed.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple, Union

from .index import Source, last_name, lines_of, pairs
from .statements import Statement, blocks, is_looked_up_first, statement_at, stored, taken_out_after

_NAMES = (ast.Name, ast.Attribute)
_EMPTY = re.compile(r"\[\]|\{\}|(list|dict|set)\(\)")
_QUEUES = ("Queue", "LifoQueue", "PriorityQueue", "JoinableQueue")
_UP_TO_YOU = "what to change depends on what the program needs"
_MISSES = "whoever reads older ones misses them"
_MOST_WAITING = "1 << 20"  # bytes that wait for a reader


class Edited(NamedTuple):
    """``text``: the whole file ``file``, edited. ``note``: what was chosen, or what to look at; may be empty."""

    file: str
    before: str
    text: str
    note: str


class Unsure(NamedTuple):
    """Why nothing is edited, as a clause."""

    why: str


Result = Union[Edited, Unsure]


class Asked(NamedTuple):
    """``line`` of ``file`` adds to ``variable``, whose type and whose members' type are named; ``most``: a limit.

    ``container``: the type of ``variable``, without its module, where that is known. ``base``: str, bytes, int or
    float, where the members are of a class derived from that.
    """

    sources: Sequence[Source]
    file: str
    line: int
    variable: str
    type_name: str
    most: int
    base: str | None = None
    container: str = ""
    why: str = ""  # the mechanism


def edit(mechanism: str, asked: Asked) -> Result:
    """The edit for a mechanism of ``evidence.mechanisms``."""
    how, asked = _HOW.get(mechanism), asked._replace(why=mechanism)
    statement = statement_at(asked.sources, asked.file, asked.line)
    if how is None:
        return Unsure(_UP_TO_YOU)
    if asked.file.startswith("<"):
        return Unsure("the code is in no file")
    if statement is None or not _is_whole(statement.source):
        return Unsure(f"the recorded source of {asked.file.rsplit('/', 1)[-1]} has no whole statement at that line")
    return how(asked, statement)


def suitable(length: float) -> int:
    """A limit for a container that had so many members: a quarter, as a round number up to 1,000."""
    most = max(1.0, min(length / 4, 1000.0))
    power = 10 ** (len(str(int(most))) - 1)
    return int(next(step for step in (5, 2, 1) if step * power <= most) * power)


def _stored_otherwise(asked: Asked, statement: Statement) -> Result:
    """What is stored, in a form that keeps less: ``loss.detach()``, ``part.clone()``, ``bytes(view)``, ``str(x)``."""
    pair = stored(statement) or _assigned(statement)
    if pair is None or isinstance(pair[1], (ast.Tuple, ast.List, ast.Dict, ast.Set, ast.Starred, ast.Constant)):
        return Unsure("the line stores no single value that could be changed there")
    container, member = pair
    text, handlers = _segment(statement.source, member), [getattr(one, "name", None) for one in statement.around]
    behind = text if isinstance(member, (*_NAMES, ast.Call, ast.Subscript)) else f"({text})"
    method = {"autograd-history": "detach", "views": "clone" if "torch." in asked.type_name else "copy"}.get(asked.why)
    if method == "detach" and _is_differentiated(asked, container):
        return Unsure(f"backward() is called on {last_name(container)}: what it is computed by is needed until then")
    if isinstance(member, ast.Call) and last_name(member.func) in (method, "item", "numpy"):
        return Unsure(f"the line stores {method}() of it already")
    if asked.why == "tracebacks" and not (isinstance(member, ast.Name) and member.id in handlers):
        return Unsure("the line does not store the exception by the name that its handler gives it")
    if "re.Match" in asked.type_name or (asked.why == "values-with-more" and asked.base is None):
        return Unsure("which part of it is read is yours to know")
    base = "bytes" if "memoryview" in asked.type_name else asked.base if asked.why == "values-with-more" else None
    new = (
        f"{base}({text})" if base is not None else f"{behind}.{method}()" if method else f"{text}.with_traceback(None)"
    )
    return _replaced(statement.source, member, new)


def _is_differentiated(asked: Asked, container: ast.expr) -> bool:
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr == "backward"
        and last_name(node.func.value) == last_name(container) != ""
        for _, node in _nodes(asked.sources)
    )  # fmt: skip


def _assigned(statement: Statement) -> tuple[ast.expr, ast.expr] | None:
    """``total = total + loss``: what the name becomes."""
    node = statement.node
    is_one = isinstance(node, ast.Assign) and len(node.targets) == 1 and isinstance(node.targets[0], _NAMES)
    return (node.targets[0], node.value) if is_one and isinstance(node, ast.Assign) else None


def _bounded(asked: Asked, statement: Statement) -> Result:
    kind = asked.container or asked.type_name.split(" of ")[0].rpartition(".")[2]
    if kind in ("deque", *_QUEUES):
        return _made_with_limit(asked, statement)
    pair = stored(statement)
    if (
        pair is None
        or not _is_plain_name(pair[0])
        or not isinstance(statement.node, (ast.Expr, ast.Assign, ast.AugAssign))
    ):
        return Unsure(f"the line does not add to {asked.variable} in a statement of its own")
    name, most = _segment(statement.source, pair[0]), asked.most
    if last_name(pair[0]) != asked.variable:
        return Unsure(f"the line adds to {name}, which is not known to be {asked.variable} itself")
    note = f"{name} keeps the latest {most:,}; {_MISSES}"
    if kind == "list" and not isinstance(statement.node, ast.Assign):
        beside = _filled_beside(statement, pair[0])
        if beside is not None:
            return Unsure(f"{beside} is filled together with {name}: both have to keep the same items")
        return _behind(statement, [f"del {name}[:-{most}]"], note)
    if kind in ("dict", "OrderedDict", "defaultdict") and isinstance(statement.node, ast.Assign):
        if _is_read_by_key(asked) and not is_looked_up_first(statement, pair[0]):
            return Unsure(f"the program reads {name} by keys: which entries may go is yours to know")
        lines = [f"if len({name}) > {most}:", f"    del {name}[next(iter({name}))]"]
        return _behind(statement, lines, note)
    return Unsure(f"which members of a {kind} may go is yours to know")


def _filled_beside(statement: Statement, container: ast.expr) -> str | None:
    """Another list to which a statement of the same block appends, of the same object: what is read together."""
    root = statement.around[-1] if statement.around else ast.parse(statement.source.text)
    block = next((part for part in blocks(root) if any(ast.dump(one) == ast.dump(statement.node) for one in part)), [])
    for one in block:
        found = stored(Statement(statement.source, one, ()))
        other = found[0] if found is not None and isinstance(one, (ast.Expr, ast.AugAssign)) else None
        alike = isinstance(other, ast.Attribute) is isinstance(container, ast.Attribute) and _is_plain_name(other)
        if other is not None and alike and ast.dump(other) != ast.dump(container):
            return ast.unparse(other)
    return None


def _is_read_by_key(asked: Asked) -> bool:
    """``rows[key]``, which fails where the entry has gone."""
    return any(
        isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load) and last_name(node.value) == asked.variable
        for _, node in _nodes(asked.sources)
    )


def _made_with_limit(asked: Asked, statement: Statement) -> Result:
    """A deque or queue that is made in one place, without a limit."""
    made = [
        (source, value)
        for source, node in _nodes(asked.sources)
        for target, value in pairs(node)
        if last_name(target) == asked.variable and isinstance(value, ast.Call)
        and last_name(value.func) in ("deque", *_QUEUES)
    ]  # fmt: skip
    if len(made) != 1:
        return Unsure(f"{asked.variable} is made in {len(made)} places of the sources")
    source, call = made[0]
    is_queue = last_name(call.func) != "deque"
    if len(call.args) > (0 if is_queue else 1) or call.keywords or isinstance(next(iter(call.args), None), ast.Starred):
        return Unsure(f"{asked.variable} is made with a limit already, or by other arguments")
    given = f"{'maxsize' if is_queue else 'maxlen'}={asked.most}"
    inside = [_segment(source, one) for one in call.args]
    waits = "whoever puts one more waits, also where nobody takes one out"
    note = f"at most {asked.most:,} wait: {waits}" if is_queue else f"it keeps the latest {asked.most:,}; {_MISSES}"
    return _replaced(source, call, f"{_segment(source, call.func)}({', '.join([*inside, given])})", note)


def _cached(asked: Asked, statement: Statement) -> Result:
    node, source = statement.node, statement.source
    for decorator in getattr(node, "decorator_list", []):
        func = decorator.func if isinstance(decorator, ast.Call) else decorator
        note = f"the cache keeps {asked.most:,} results: how many repeat is yours to know"
        if last_name(func) == "lru_cache" and isinstance(decorator, ast.Call):
            given = [*decorator.args[:1], *(k.value for k in decorator.keywords if k.arg == "maxsize")]
            if len(given) == 1 and isinstance(given[0], ast.Constant):
                return _replaced(source, given[0], str(asked.most), note)
        if last_name(func) == "cache" and isinstance(func, ast.Attribute) and func is decorator:
            module = _segment(source, func.value)
            return _replaced(source, decorator, f"{module}.lru_cache(maxsize={asked.most})", note)
    return Unsure("the decorator that makes it a cache has no maxsize to set")


def _drained(asked: Asked, statement: Statement) -> Result:
    node = statement.node
    call = node.value if isinstance(node, ast.Expr) else None
    is_write = (
        isinstance(call, ast.Call)
        and isinstance(call.func, ast.Attribute)
        and call.func.attr in ("write", "writelines")
    )
    if not is_write or not isinstance(call, ast.Call) or not isinstance(call.func, ast.Attribute):
        return Unsure("the line does not write in a statement of its own")
    writer = _segment(statement.source, call.func.value)
    if not isinstance(statement.function, ast.AsyncFunctionDef):
        return _to_those_that_read(statement, writer)
    note = "each write now waits for its reader: where one may be slow for long, close its connection instead"
    return _behind(statement, [f"await {writer}.drain()"], note)


def _to_those_that_read(statement: Statement, writer: str) -> Result:
    """In a function that cannot await, whoever is too slow misses what is written."""
    own = _segment(statement.source, statement.node)
    if "\n" in own:
        return Unsure("the statement goes over several lines")
    indent = _indent(lines_of(statement.source.text)[statement.node.lineno - 1])
    new = f"if {writer}.transport.get_write_buffer_size() < {_MOST_WAITING}:\n{indent}    {own}"
    note = "who has 1 MiB waiting misses what is written then: where that may not be, close the connection"
    return _replaced(statement.source, statement.node, new, note)


def _default_none(asked: Asked, statement: Statement) -> Result:
    function, source = statement.function, statement.source
    if function is None:
        return Unsure("no function is known whose default value it is")
    every = function.args
    positional = [*every.posonlyargs, *every.args]
    given = [*zip(positional[len(positional) - len(every.defaults) :], every.defaults)]
    given += [(arg, value) for arg, value in zip(every.kwonlyargs, every.kw_defaults) if value is not None]
    default = next((value for arg, value in given if arg.arg == asked.variable), None)
    text = _segment(source, default) if default is not None else ""
    if default is None or not _EMPTY.fullmatch(text):
        return Unsure(f"the default value of {asked.variable} is no empty container that is written there")
    lines = _at_the_beginning(source, function, f"if {asked.variable} is None:", f"    {asked.variable} = {text}")
    if isinstance(lines, Unsure):
        return lines
    inserted = source._replace(text=_joined(source, lines))
    after = _replaced(inserted, default, "None", "where calls were meant to share it, make it a variable of the module")
    return after._replace(before=source.text) if isinstance(after, Edited) else after


def _at_the_beginning(
    source: Source, function: ast.FunctionDef | ast.AsyncFunctionDef, *new: str
) -> list[str] | Unsure:
    """The lines of the source, with others at the beginning of a function, behind its docstring."""
    first, lines = function.body[0], lines_of(source.text)
    has_text = isinstance(first, ast.Expr) and isinstance(first.value, ast.Constant) and len(function.body) > 1
    first = function.body[1] if has_text else first
    if lines[first.lineno - 1][: first.col_offset].strip():
        return Unsure("the function is on one line")
    lines[first.lineno - 1 : first.lineno - 1] = [_indent(lines[first.lineno - 1]) + one for one in new]
    return lines


def _collector_on(asked: Asked, statement: Statement) -> Result:
    node = statement.node
    call = node.value if isinstance(node, ast.Expr) else None
    if not isinstance(call, ast.Call) or last_name(call.func) != "disable":
        return Unsure("the line does not turn the collector off in a statement of its own")
    return _replaced(statement.source, node, "pass  # the collector stays on")


def _not_stored(asked: Asked, statement: Statement) -> Result:
    """What is put there by a key that nobody reads by."""
    node = statement.node
    call = node.value if isinstance(node, ast.Expr) else None
    key = call.args[0] if isinstance(call, ast.Call) and call.args else None
    if not isinstance(key, ast.Constant) or not isinstance(key.value, str):
        return Unsure("what reads it again is not to be seen")
    if sum(source.text.count(key.value) for source in asked.sources) > 1:
        return Unsure(f"{key.value!r} is read elsewhere in the sources")
    note = f"nothing in the sources reads {key.value!r}; what reads it elsewhere would miss it"
    return _replaced(statement.source, node, f"pass  # {_segment(statement.source, node)}", note)


def _left_out(asked: Asked, statement: Statement) -> Result:
    """What is put in is still worked out where that may do something; without the statement where it is not."""
    pair, source, node = stored(statement), statement.source, statement.node
    if pair is None or not isinstance(node, (ast.Expr, ast.Assign, ast.AugAssign)):
        return Unsure("the line adds to it in a part of another statement")
    works = (ast.Call, ast.Await, ast.Yield, ast.YieldFrom, ast.NamedExpr)
    parts = [pair[1], *([pair[0].slice] if isinstance(pair[0], ast.Subscript) else [])]
    if any(isinstance(one, works) for part in parts for one in ast.walk(part)):
        return _replaced(
            source, node, _segment(source, pair[1]), "what it stored is still worked out: leave that out, too?"
        )
    root = statement.around[-1] if statement.around else ast.parse(source.text)
    same = [part for part in blocks(root) if any(one.lineno == node.lineno for one in part)]
    if len(same) != 1 or len(same[0]) == 1:
        return _replaced(source, node, "pass")
    lines = lines_of(source.text)
    first, last = lines[node.lineno - 1], (node.end_lineno or node.lineno) - 1
    rest = lines[last].encode()[node.end_col_offset or 0 :].decode().strip()
    if first.encode()[: node.col_offset].decode().strip() or rest[:1] not in ("", "#"):
        return _replaced(source, node, "pass")
    del lines[node.lineno - 1 : last + 1]
    return _checked(Edited(source.file, source.text, _joined(source, lines), ""))


def _in_finally(asked: Asked, statement: Statement) -> Result:
    """What removes the same again at the end of its block does so also after an exception."""
    after, source = taken_out_after(statement), statement.source
    if after is None:
        return Unsure(_UP_TO_YOU)
    between, removes = after
    lines = lines_of(source.text)
    inside = range(between[0].lineno - 1, removes.end_lineno or removes.lineno)
    texts = [node for one in between for node in ast.walk(one) if isinstance(node, (ast.Constant, ast.JoinedStr))]
    if any(node.end_lineno != node.lineno for node in texts):
        return Unsure("a text between goes over several lines")
    indent = _indent(lines[inside[0]])
    for at in inside:
        lines[at] = f"    {lines[at]}" if lines[at].strip() else lines[at]
    lines[removes.lineno - 1 : removes.lineno - 1] = [f"{indent}finally:"]
    lines[inside[0] : inside[0]] = [f"{indent}try:"]
    return _checked(Edited(source.file, source.text, _joined(source, lines), ""))


def _taken_out_when_done(asked: Asked, statement: Statement) -> Result:
    """A future or task takes itself out of what keeps it."""
    pair = stored(statement)
    if pair is None or not (_is_plain_name(pair[0]) and _is_plain_name(pair[1])):
        return Unsure("the line stores no single name that could be taken out again")
    kind = asked.container or asked.type_name.split(" of ")[0].rpartition(".")[2]
    container, member = (_segment(statement.source, one) for one in pair)
    if kind not in ("list", "set") or last_name(pair[0]) != asked.variable:
        return Unsure(_UP_TO_YOU)
    out = "discard" if kind == "set" else "remove"
    note = f"who looks for results or exceptions in {container} later misses those that are done"
    return _behind(statement, [f"{member}.add_done_callback({container}.{out})"], note)


def _for_each_object(asked: Asked, statement: Statement) -> Result:
    """A container that a class body makes is made in __init__ as well, where there is one that does not do so."""
    source, body = statement.source, statement.cls.body if statement.cls is not None else []
    made = next((one for one in body if last_name(next(pairs(one), (None,))[0]) == asked.variable), None)
    init = next((one for one in body if getattr(one, "name", "") == "__init__"), None)
    value = next(pairs(made), (None, None))[1] if made is not None else None
    if value is None or not isinstance(init, ast.FunctionDef) or not _EMPTY.fullmatch(_segment(source, value)):
        return Unsure("no __init__ of the class is known that could make one for each object")
    own = f"{init.args.args[0].arg}.{asked.variable} = {_segment(source, value)}"
    lines = _at_the_beginning(source, init, own)
    if isinstance(lines, Unsure):
        return lines
    note = "where all objects were meant to share it, remove what is no longer needed instead"
    return _checked(Edited(source.file, source.text, _joined(source, lines), note))


def _closed(asked: Asked, statement: Statement) -> Result:
    """A figure that the same function makes and saves: closed where it is last used."""
    node, function = statement.node, statement.function
    call = node.value if isinstance(node, ast.Assign) else None
    func = call.func if isinstance(call, ast.Call) else None
    if function is None or not isinstance(node, ast.Assign) or not isinstance(func, ast.Attribute):
        return Unsure(_UP_TO_YOU)
    target = node.targets[0].elts[0] if isinstance(node.targets[0], ast.Tuple) else node.targets[0]
    if not isinstance(target, ast.Name) or last_name(func) not in ("subplots", "figure", "subplot_mosaic"):
        return Unsure(_UP_TO_YOU)
    body = next((part for part in blocks(function) if node in part), [])
    uses = [one for one in body[body.index(node) :] if _mentions(one, target.id)] if node in body else []
    if (
        len(uses) < 2
        or isinstance(uses[-1], (ast.Return, ast.Assign))
        or sum(_mentions(n, target.id) for n in body) > len(uses)
    ):
        return Unsure(f"what becomes of {target.id} is not to be seen")
    module = _segment(statement.source, func.value)
    return _behind(Statement(statement.source, uses[-1], ()), [f"{module}.close({target.id})"], "")


_HOW: dict[str, Callable[[Asked, Statement], Result]] = {
    "autograd-history": _stored_otherwise,
    "views": _stored_otherwise,
    "values-with-more": _stored_otherwise,
    "tracebacks": _stored_otherwise,
    "never-read": _left_out,
    "unbounded-container": _bounded,
    "keys-that-do-not-repeat": _bounded,
    "slow-consumer": _made_with_limit,
    "unbounded-cache": _cached,
    "cache-keeps-self": _cached,
    "write-buffer": _drained,
    "default-argument": _default_none,
    "collector-off": _collector_on,
    "stored-for-good": _not_stored,
    "library-registry": _closed,
    "removal-not-reached": _in_finally,
    "finished-work": _taken_out_when_done,
    "class-attribute": _for_each_object,
}


def _nodes(sources: Sequence[Source]) -> Iterator[tuple[Source, ast.AST]]:
    for source in sources:
        if _is_whole(source):
            yield from ((source, node) for node in ast.walk(ast.parse(source.text)))


def _mentions(node: ast.AST, name: str) -> bool:
    return any(isinstance(one, ast.Name) and one.id == name for one in ast.walk(node))


def _is_whole(source: Source) -> bool:
    try:
        ast.parse(source.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _is_plain_name(node: ast.expr | None) -> bool:
    """A name, or an attribute of one: to evaluate it again changes nothing."""
    while isinstance(node, ast.Attribute):
        node = node.value
    return isinstance(node, ast.Name)


def _segment(source: Source, node: ast.AST) -> str:
    return ast.get_source_segment(source.text, node) or ast.unparse(node)


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _joined(source: Source, lines: Sequence[str]) -> str:
    """With the line ends that the source has."""
    return ("\r\n" if "\r\n" in source.text else "\n").join(lines)


def _replaced(source: Source, node: ast.expr | ast.stmt, new: str, note: str = "") -> Result:
    """The source with another text in place of a node, which may go over several lines."""
    lines = lines_of(source.text)
    first, last = node.lineno - 1, (node.end_lineno or node.lineno) - 1
    before = lines[first].encode()[: node.col_offset].decode()
    behind = lines[last].encode()[node.end_col_offset or 0 :].decode()
    lines[first : last + 1] = f"{before}{new}{behind}".split("\n")
    return _checked(Edited(source.file, source.text, _joined(source, lines), note))


def _behind(statement: Statement, new: Sequence[str], note: str) -> Result:
    """The source with statements put behind one, as far in as it."""
    lines, node = lines_of(statement.source.text), statement.node
    first, last = lines[node.lineno - 1], (node.end_lineno or node.lineno) - 1
    indent = _indent(first)
    if (
        first.encode()[: node.col_offset].decode().strip()
        or lines[last].encode()[node.end_col_offset or 0 :].strip()[:1] == b";"
    ):
        return Unsure("the statement shares its line with another")
    lines[last + 1 : last + 1] = [indent + one for one in new]
    return _checked(Edited(statement.source.file, statement.source.text, _joined(statement.source, lines), note))


def _checked(edited: Edited) -> Result:
    try:
        ast.parse(edited.text)
    except SyntaxError:
        return Unsure("the edited source could not be parsed")
    return edited
