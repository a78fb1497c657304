"""Edits by which what a program begins also ends: closed behind its last use, taken off again, removed in any case."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from typing import NamedTuple

from .adding import Line
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
    with_lines,
)
from .index import Source, lines_of, text_of
from .starts import calls
from .statements import (
    Statement,
    callers_of,
    is_uncalled,
    latest_read,
    removers_of,
    skipped_after,
    statement_at,
    stored,
)  # fmt: skip
from .syntax import DEFINED, FUNCTIONS, Defined, arguments_of, called, is_load, last_name, pairs, receiver

_FIGURES = ("subplots", "figure", "subplot_mosaic")
# What a with statement ends, and what does so without. Pools have done by then all that was handed in before.
_IN_WITH = {
    "ThreadPoolExecutor": "shutdown", "ProcessPoolExecutor": "shutdown",
    **dict.fromkeys(("Pool", "ThreadPool", "mmap", "socket", "create_connection", "ZipFile", "TarFile"), "close"),
    **dict.fromkeys(("open", "TemporaryFile", "SpooledTemporaryFile", "scandir", "urlopen"), "close"),
}  # fmt: skip
_LATER = ("imap", "imap_unordered", "map_async", "apply_async", "starmap_async")  # comes after the pool has gone
# What takes all of what it is given at once, and keeps none of it.
_TAKES = (
    "len", "list", "tuple", "set", "dict", "sorted", "sum", "min", "max", "any", "all", "str", "bytes", "int", "float",
    "print", "repr", "isinstance", "next", "join", "load", "safe_load", "dump", "read", "write", "copyfileobj",
)  # fmt: skip
_READ = ("read", "readline", "readlines", "result", "fetchone", "fetchall", "map", "getvalue", "wait", "poll", "get")
# What takes out what is due does no more than to look what that is.
_LOOKS = (
    "list", "tuple", "dict", "set", "items", "keys", "values", "pop", "popitem", "popleft", "get", "time", "monotonic",
    "perf_counter", "now", "utcnow", "len", "next", "iter", "sorted", "remove", "discard",
)  # fmt: skip
# The name of what ends its object: close(), on_disconnect().
ENDING = re.compile(
    r"_*(on_|handle_)?(a?close|stop|shut_?down|terminate|cancel|dispose|release|end|finish|quit|exit|leave|log_?out|detach|"
    r"disconnect|unsubscribe|unregister|unload|unmount|hang_?up|destroy|drop)"
)
_FREED_BY = ("malloc", "calloc", "strdup", "strndup", "realpath")  # free() of the C library
_FREES = re.compile(r"(free|delete|destroy|release|close|dispose|fini|term)")
_MAKES = re.compile(r"(new|create|alloc|init|open|make|acquire)")


def ended(asked: Asked, found: Statement) -> Edited:
    """What the line makes is ended where its use ends: in a with statement, or by a method that is there to do so."""
    node, source = found.node, found.source
    made = getattr(node, "value", None)
    definitions = (ast.ClassDef, *DEFINED)
    own_names = {one.name for _, one in nodes(asked.sources) if isinstance(one, definitions)}
    by = _IN_WITH.get(called(made)) if called(made) not in own_names and receiver(made) != "os" else None
    if by is not None and isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        rest = _used_by(asked, found, _own_name(node))
        need(rest, "nothing uses it")
        return _within(source, node, rest, f"with {segment(source, node.value)} as {_own_name(node)}:", [])
    if by is not None:
        return _ended_by_owner(asked, found, by)
    own = known(found.cls, "nothing is known that could end it where its use ends")
    ending = known(_ending(asked, found), f"no method of {own.name}, or no single one, is there to end it")
    calls = [(one, call) for one, call in nodes(asked.sources) if called(call) == own.name]
    need(len(calls) == 1, f"{own.name} objects are made in {len(calls)} places of the sources")
    maker = known(statement_at(asked.sources, calls[0][0].file, getattr(calls[0][1], "lineno", 0)))
    need(called(getattr(maker.node, "value", None)) == own.name, "what is made is kept by no variable of its function")
    name = _own_name(maker.node)
    return _at_the_end(maker, _used_by(asked, maker, name), f"{name}.{ending.name}()")


def freed(asked: Asked, found: Statement) -> Edited:
    """What a function of a C library returned is given to the one that frees it."""
    call = of_kind(ast.Call, getattr(found.node, "value", None))
    by = known(freed_by(asked.sources, asked.file, asked.line), "what frees it is not to be seen")
    target = found.node.targets[0] if isinstance(found.node, ast.Assign) else None
    if isinstance(target, ast.Attribute):
        return _ended_by_owner(asked, found, by)
    name = _own_name(found.node)
    library = ast.dump(call.func.value) if isinstance(call.func, ast.Attribute) else ""
    return _at_the_end(found, _used_by(asked, found, name, library), f"{by}({name})")


def freed_by(sources: Sequence[Source], file: str, line: int) -> str | None:
    """``lib.item_free`` for a line with ``lib.item_new()``, where the sources have that; ``libc.free`` for strdup()."""
    found = statement_at(sources, file, line)
    call = getattr(found.node, "value", None) if found is not None else None
    func = call.func if isinstance(call, ast.Call) else None
    if not isinstance(func, ast.Attribute) or not is_plain_name(func.value) or not _is_pointer(sources, func.attr):
        return None
    own = (one for _, one in nodes(sources) if isinstance(one, ast.Attribute))
    others = {one.attr for one in own if last_name(one.value) == last_name(func.value)}
    if func.attr in _FREED_BY:
        return f"{ast.unparse(func.value)}.free" if "free" in others else None
    fitting = [
        one for one in others if _FREES.search(one) and _FREES.sub("", one) == _MAKES.sub("", func.attr) != func.attr
    ]
    return f"{ast.unparse(func.value)}.{fitting[0]}" if len(fitting) == 1 else None


class Unended(NamedTuple):
    """Objects of a class that has a method to end them, which nothing calls. ``line``: where they are made."""

    owner: str
    method: str
    line: Line


def never_ended(sources: Sequence[Source], file: str, line: int) -> Unended | None:
    """What a method on a line works for, if that is to be ended and is not: a clip that is opened and decoded."""
    found = statement_at(sources, file, line)
    own = found.cls if found is not None and found.function is not None else None
    ends = _uncalled_endings(sources, own)
    made = [call.line for call in calls(sources, own.name)] if own is not None and len(ends) == 1 else []
    if own is None or len(made) != 1:
        return None
    maker, at_fault = statement_at(sources, made[0].file, made[0].line), made[0]
    callers = callers_of(sources, maker) if maker is not None and isinstance(maker.node, ast.Return) else []
    if len(callers) == 1:  # of a function that does nothing but make one
        source, at = callers[0].source, callers[0].node.lineno
        function = callers[0].function.name if callers[0].function is not None else None
        at_fault = at_fault._replace(
            file=source.file, line=at, function=function, text=text_of(lines_of(source.text), at)
        )
    return Unended(own.name, ends[0].name, at_fault)


def _is_pointer(sources: Sequence[Source], function: str) -> bool:
    """As the sources tell ctypes; of a char pointer ctypes makes bytes. cffi knows by itself."""
    types = [
        value for _, one in nodes(sources) for target, value in pairs(one)
        if isinstance(target, ast.Attribute) and target.attr == "restype" and last_name(target.value) == function
    ]  # fmt: skip
    is_one = [last_name(one) == "c_void_p" or called(one) == "POINTER" for one in types]
    return all(is_one) if is_one else any("cffi" in one.text for one in sources)


def _ended_by_owner(asked: Asked, found: Statement, by: str) -> Edited:
    """What a constructor makes for its object ends with that: in the method that is called to end the object."""
    target = found.node.targets[0] if isinstance(found.node, ast.Assign) else None
    attribute = of_kind(ast.Attribute, target, "what is made there is kept by no variable of its own")
    ends = known(_called_ending(asked, found), "no method ends the object that has it")
    need(not any(last_name(one) == attribute.attr for one in ast.walk(ends)), f"{ends.name}() does something with it")
    text = f"{by}({ast.unparse(attribute)})" if "." in by else f"{ast.unparse(attribute)}.{by}()"
    return _at_its_end(found.source, ends, text)


def _called_ending(asked: Asked, found: Statement) -> ast.FunctionDef | None:
    """The one method of its class by which objects end, as its name says, and which is called."""
    is_init = found.cls is not None and found.function is not None and found.function.name == "__init__"
    own = found.cls.body if found.cls is not None and is_init else []
    named = (one for one in own if isinstance(one, ast.FunctionDef) and ENDING.fullmatch(one.name))
    ends = [one for one in named if not is_uncalled(asked.sources, one)]
    return ends[0] if len(ends) == 1 else None


def _at_its_end(source: Source, function: ast.FunctionDef, text: str) -> Edited:
    last = function.body[-1]
    need(not isinstance(last, (ast.Return, ast.Raise)), f"{function.name}() ends by what it returns")
    return put_behind(source, last, [text], "")


def _at_the_end(found: Statement, rest: Sequence[ast.stmt], text: str) -> Edited:
    """Of its use, also after an exception; in the finally of the one statement that there is, if that has one."""
    lines = lines_of(found.source.text)
    if not rest:
        return put_behind(found.source, found.node, [text], "")
    if len(rest) == 1 and isinstance(rest[0], ast.Try) and rest[0].finalbody:
        at = rest[0].finalbody[0].lineno - 1
        return with_lines(found.source, at, at, [indent_of(lines[at]) + text])
    return _tried(found.source, rest, None, [indent_of(lines[rest[0].lineno - 1]) + text])


def taken_off(asked: Asked, found: Statement) -> Edited:
    """What removes members and is never called is called: as one is added, for what is due, or as its owner ends."""
    removers = [one for one in removers_of(found) if is_uncalled(asked.sources, one)]
    need(len(removers) == 1)
    remover, is_method = removers[0], found.cls is not None
    function = of_function(found)
    wanted = [arg.arg for arg in remover.args.args][is_method:]
    if not wanted:
        parts = list(ast.walk(remover))
        is_of_due = any(isinstance(one, (ast.If, ast.comprehension, ast.While)) for one in parts)
        is_of_due &= all(called(one) in _LOOKS for one in parts if isinstance(one, ast.Call))
        need(is_of_due and is_method, "when it is to be called is not to be seen")
        return put_behind(found.source, found.node, [f"{function.args.args[0].arg}.{remover.name}()"], "")
    callers = callers_of(asked.sources, found)
    need(len(callers) == 1, f"{function.name}() is called in {len(callers)} places")
    call = of_kind(ast.Call, getattr(callers[0].node, "value", None))
    given = dict(zip([arg.arg for arg in function.args.args][is_method:], call.args))
    given.update((one.arg, one.value) for one in call.keywords if one.arg)
    is_seen = all(name in given and is_plain_name(given[name]) for name in wanted)
    need(is_seen, f"what {remover.name}() is to be given is not to be seen")
    func = (
        ast.Attribute(call.func.value, remover.name) if isinstance(call.func, ast.Attribute) else ast.Name(remover.name)
    )
    undo = ast.Call(func, [given[name] for name in wanted], [])
    ends = known(
        _called_ending(asked, callers[0]), f"where the use of what {function.name}() is given ends is not to be seen"
    )
    return _at_its_end(callers[0].source, ends, ast.unparse(_of_self(undo, of_function(callers[0]))))


def of_function(found: Statement) -> Defined:
    if found.function is None:
        raise Unsure(UP_TO_YOU)
    return found.function


def _of_self(node: ast.Call, init: Defined) -> ast.Call:
    """With the attributes that a constructor makes of its variables, in place of these."""
    own = init.args.args[0].arg
    kept = {
        value.id: target for one in ast.walk(init) for target, value in pairs(one)
        if isinstance(target, ast.Attribute) and last_name(target.value) == own and isinstance(value, ast.Name)
    }  # fmt: skip

    def of(one: ast.expr) -> ast.expr:
        if isinstance(one, ast.Attribute):
            return ast.Attribute(of(one.value), one.attr)
        is_known = isinstance(one, ast.Name) and (one.id == own or one.id in kept)
        need(is_known, f"{ast.unparse(one)} is not kept by its object")
        return kept.get(last_name(one), one)

    return ast.Call(of(node.func), [of(one) for one in node.args], [])


def _own_name(node: ast.stmt) -> str:
    """The variable of a statement that makes something."""
    target = node.targets[0] if isinstance(node, ast.Assign) and len(node.targets) == 1 else None
    return of_kind(ast.Name, target, "what is made there is kept by no variable of its function").id


def _ending(asked: Asked, found: Statement) -> ast.FunctionDef | None:
    """The one method of its class that is there to end what the statement begins, and that nothing calls."""
    methods = [one for one in known(found.cls).body if isinstance(one, ast.FunctionDef)]
    given = (one for one in ast.walk(of_function(found)) if isinstance(one, ast.keyword) and one.arg == "target")
    run = {*(last_name(one.value) for one in given), "run"}
    begun = [found.node, *(one for one in methods if one.name in run)]
    touched = {one.attr for part in begun for one in ast.walk(part) if isinstance(one, ast.Attribute)}
    fitting = [
        one for one in _uncalled_endings(asked.sources, found.cls)
        if any(isinstance(part, ast.Attribute) and part.attr in touched for part in ast.walk(one))
    ]  # fmt: skip
    return fitting[0] if len(fitting) == 1 else None


def _uncalled_endings(sources: Sequence[Source], cls: ast.ClassDef | None) -> list[ast.FunctionDef]:
    """Methods that end their object, as their names say, and that nothing calls."""
    own = (one for one in (cls.body if cls is not None else ()) if isinstance(one, ast.FunctionDef))
    fitting = (one for one in own if ENDING.fullmatch(one.name) and len(one.args.args) == 1)
    return [one for one in fitting if is_uncalled(sources, one)]


def _used_by(asked: Asked, found: Statement, name: str, library: str = "") -> list[ast.stmt]:
    """The statements behind it up to the last that uses it, or what came of it; Unsure where it goes elsewhere.

    ``library``: whose functions may be given it.
    """
    scope = found.function or found.tree
    rest = found.block[found.block.index(found.node) + 1 :]
    names, last = {name}, 0
    for at, one in enumerate(rest, 1):
        own = [part for part in ast.walk(one) if isinstance(part, ast.Name)]
        if any(part.id in names for part in own):
            last = at
            names |= {part.id for part in own if isinstance(part.ctx, ast.Store)}
    inside = {part for one in (found.node, *rest) for part in ast.walk(one)}
    uses = [one for one in ast.walk(scope) if isinstance(one, ast.Name) and one.id == name]
    need(inside.issuperset(uses), f"{name} is used elsewhere as well")
    need(sum(isinstance(one.ctx, ast.Store) for one in uses) == 1, f"{name} gets another value later")
    outer = {inner: one for one in ast.walk(scope) for inner in ast.iter_child_nodes(one)}
    for use in uses:
        why = _goes_to(use, outer, asked, library) if is_load(use) else None
        need(why is None, f"{name} {why}")
    return rest[:last]


def _goes_to(use: ast.expr, outer: dict[ast.AST, ast.AST], asked: Asked, library: str) -> str | None:
    """Where else it goes, or what comes of it later; None: nowhere."""
    at, steps, by = use, 0, ""  # steps: how far what is read is from the thing itself
    while isinstance(above := outer[at], (ast.Attribute, ast.Subscript)) or (
        isinstance(above, ast.Call) and above.func is at
    ):
        if isinstance(above, ast.Attribute):
            by = above.attr
        steps += not isinstance(above, ast.Attribute) or isinstance(at, ast.Call)
        at = above
    over = [above]
    while isinstance(over[-1], (ast.expr, ast.comprehension, ast.keyword)):
        over.append(outer[over[-1]])
    is_later = [
        isinstance(one, ast.Lambda) or (isinstance(one, ast.GeneratorExp) and called(outer[one]) not in _TAKES)
        for one in over
    ]
    if by in _LATER or any(is_later):
        return "is asked for what comes later"
    if steps > 1 or (steps == 1 and by in _READ):
        return None
    if isinstance(above, ast.Call):
        pair, func = stored(over[-1]), above.func
        is_put = pair is not None and pair[1] is at and steps == 0
        if is_put and pair is not None and _only_ended(asked.sources, last_name(pair[0])):
            return None
        of_library = isinstance(func, ast.Attribute) and (ast.dump(func.value) == library or func.attr == "string_at")
        is_taken = called(above) in _TAKES and receiver(above) not in ("np", "numpy")  # np.load() may read later
        return None if is_taken or (library and of_library) else f"is given to {called(above)}()"
    if not isinstance(above, (ast.Return, ast.Yield, ast.Assign, ast.Tuple, ast.List, ast.Dict, ast.Starred)):
        return None
    targets = above.targets if isinstance(above, ast.Assign) and steps else [None]
    return (
        None
        if all(isinstance(one, (ast.Name, ast.Tuple)) for one in targets)
        else "is kept elsewhere: where its use ends is not to be seen"
    )


def _only_ended(sources: Sequence[Source], container: str) -> bool:
    """Nothing looks at what is in it, or only to end each."""
    if latest_read(sources, container) == 0:
        return True
    reads = [one for _, one in nodes(sources) if last_name(one) == container and is_load(one)]
    loops = [one for _, one in nodes(sources) if isinstance(one, ast.For) and last_name(one.iter) == container]
    fills = [pair for _, one in nodes(sources) if (pair := stored(one)) is not None and last_name(pair[0]) == container]
    calls = [called(getattr(part, "value", None)) for loop in loops for part in loop.body]
    return len(reads) == len(loops) + len(fills) and all(map(ENDING.fullmatch, calls))


def in_finally(asked: Asked, found: Statement) -> Edited:
    """What removes the same again at the end of its block does so also after an exception."""
    skipped = skipped_after(asked.sources, found)
    if skipped is None:
        return taken_off(asked, found)
    source, tried = skipped.adding.source, skipped.tried
    last = lines_of(source.text)[skipped.removes.lineno - 1 : skipped.removes.end_lineno]
    if tried is None:
        return _tried(source, skipped.between, skipped.removes, last)
    used, bound = (
        {one.id for part in parts for one in ast.walk(part) if isinstance(one, ast.Name) and isinstance(one.ctx, kind)}
        for parts, kind in (([skipped.removes], ast.Load), (tried.body, ast.Store))
    )
    own = has_own_lines(source, skipped.removes) and used.isdisjoint(bound)
    need(own, "what removes it again uses what is known only behind what may raise")
    if tried.finalbody:
        at, new = tried.finalbody[0].lineno - 1, last
    else:
        at, new = tried.end_lineno or 0, [f"{indent_of(lines_of(source.text)[tried.lineno - 1])}finally:", *last]
    behind = with_lines(source, at, at, new)
    moved = with_lines(source._replace(text=behind.text), skipped.removes.lineno - 1, skipped.removes.end_lineno, [])
    return moved._replace(before=source.text)


def handle_removed(asked: Asked, found: Statement) -> Edited:
    """A hook that a function makes for itself, or for each of some modules, goes as the function ends."""
    function, node, source = of_function(found), found.node, found.source
    call = of_kind(ast.Call, getattr(node, "value", None))
    own = {last_name(target) for one in ast.walk(function) for target, _ in pairs(one) if isinstance(target, ast.Name)}
    own |= {getattr(one, "name", "") for one in function.body if isinstance(one, FUNCTIONS)}
    given = [part for one in arguments_of(call) for part in ast.walk(one)]
    need(any(isinstance(one, ast.Lambda) or (isinstance(one, ast.Name) and one.id in own) for one in given))
    outer = next(one for one in function.body if one in (*found.around, node))
    rest = function.body[function.body.index(outer) + 1 :]
    name = _own_name(node) if isinstance(node, ast.Assign) else "handle" if outer is node else "handles"
    mentioned = len(re.findall(rf"\b{re.escape(name)}\b", segment(source, function)))
    if isinstance(node, ast.Assign) and mentioned == 2:
        return _removed_by_caller(asked, found, name)
    need(rest and (outer is node or isinstance(node, ast.Expr)))
    need(mentioned == isinstance(node, ast.Assign), "what becomes of the handle is not to be seen")
    indent, note = indent_of(lines_of(source.text)[outer.lineno - 1]), "where it is needed later, keep the handle"
    last = [f"{indent}for handle in handles:", f"{indent}    handle.remove()"]
    after = _tried(source, rest, None, [f"{indent}{name}.remove()"] if outer is node else last)
    if isinstance(node, ast.Assign):
        return after._replace(note=note)
    new = f"{name} = {segment(source, node)}" if outer is node else f"{name}.append({segment(source, node)})"
    kept = replaced(source._replace(text=after.text), node, new, note)
    if outer is not node:
        at = outer.lineno - 1
        kept = with_lines(source._replace(text=kept.text), at, at, [f"{indent}{name} = []"], note)
    return kept._replace(before=source.text)


def _removed_by_caller(asked: Asked, found: Statement, name: str) -> Edited:
    """A handle that a function gives back, and that the one who calls it does not use."""
    given = [one.value for one in ast.walk(of_function(found)) if isinstance(one, ast.Return)]
    callers = callers_of(asked.sources, found)
    need(len(given) == len(callers) == 1, "what becomes of the handle is not to be seen")
    caller, target = callers[0], getattr(callers[0].node, "targets", [None])[0]
    parts, got = (one.elts if isinstance(one, ast.Tuple) else [one] for one in (given[0], target))
    own = [two for one, two in zip(parts, got) if last_name(one) == name]
    need(len(own) == 1 and len(parts) == len(got) and isinstance(own[0], ast.Name))
    used = [one for one in ast.walk(caller.function or caller.tree) if last_name(one) == last_name(own[0])]
    rest = caller.block[caller.block.index(caller.node) + 1 :]
    need(len(used) == 1 and rest, "what becomes of the handle is not to be seen")
    indent = indent_of(lines_of(caller.source.text)[rest[0].lineno - 1])
    return _tried(caller.source, rest, None, [f"{indent}{last_name(own[0])}.remove()"])


def taken_out_when_done(asked: Asked, found: Statement) -> Edited:
    """A future or task takes itself out of what keeps it."""
    pair = stored(found.node)
    is_plain = pair is not None and is_plain_name(pair[0]) and is_plain_name(pair[1])
    pair = known(pair if is_plain else None, "the line stores no single name that could be taken out again")
    container, member = (segment(found.source, one) for one in pair)
    need(asked.kind in ("list", "set") and last_name(pair[0]) == asked.variable)
    out = "discard" if asked.kind == "set" else "remove"
    note = f"who looks for results or exceptions in {container} later misses those that are done"
    return put_behind(found.source, found.node, [f"{member}.add_done_callback({container}.{out})"], note)


def closed(asked: Asked, found: Statement) -> Edited:
    """A figure that the same function makes and saves: closed where it, or the library that has it, is last used."""
    node, body = found.node, found.block
    func = of_kind(ast.Attribute, getattr(getattr(node, "value", None), "func", None))
    need(found.function is not None and func.attr in _FIGURES)
    library = of_kind(ast.Name, func.value).id
    target = node.targets[0] if isinstance(node, ast.Assign) else None
    target = target.elts[0] if isinstance(target, ast.Tuple) else target
    name = of_kind(ast.Name, target).id if target is not None else ""
    names = {name or library, library}
    uses = [one for one in body if any(isinstance(part, ast.Name) and part.id in names for part in ast.walk(one))]
    is_used = len(uses) > 1 and not isinstance(uses[-1], (ast.Return, ast.Assign))
    need(is_used, "what becomes of the figure is not to be seen")
    return put_behind(found.source, uses[-1], [f"{library}.close({name})"], "")


def _tried(source: Source, body: Sequence[ast.stmt], until: ast.stmt | None, last: Sequence[str]) -> Edited:
    """Statements in a try, with the lines of others in its finally, in the place of one that comes behind them."""
    indent = indent_of(lines_of(source.text)[body[0].lineno - 1])
    after = [f"{indent}finally:", *(f"    {one}" if one.strip() else one for one in last)]
    return _within(source, body[0], body, "try:", after, until)


def _within(
    source: Source, first: ast.stmt, body: Sequence[ast.stmt], head: str, after: Sequence[str],
    until: ast.stmt | None = None,
) -> Edited:  # fmt: skip
    """Statements further in, below ``head``, which stands where ``first`` does; up to before ``until``, if given."""
    texts = [node for one in body for node in ast.walk(one) if isinstance(node, (ast.Constant, ast.JoinedStr))]
    need(all(node.end_lineno == node.lineno for node in texts), "a text between goes over several lines")
    need(has_own_lines(source, first) and has_own_lines(source, body[-1]), "a statement shares its line with another")
    begin = body[0].lineno - 1 if first is body[0] else first.end_lineno or 0
    end = (until.lineno - 1 if until is not None else body[-1].end_lineno) or 0
    lines = lines_of(source.text)
    new = [
        indent_of(lines[first.lineno - 1]) + head,
        *(f"    {one}" if one.strip() else one for one in lines[begin:end]),
    ]
    return with_lines(source, first.lineno - 1, until.end_lineno if until is not None else end, [*new, *after])
