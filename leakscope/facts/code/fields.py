"""Which fields of a container's members the sources never read: kept with each result, and looked at by nobody."""

from __future__ import annotations

import ast
from collections.abc import Callable, Collection, Iterator, Sequence

from .index import OPTIONS, Source, parse
from .points_to import ADDERS
from .statements import READ_ALL
from .syntax import DEFINED, called, is_load, last_name

_IN_ORDER = ("enumerate", "iter", "list", "reversed", "sorted", "tuple")  # what these give has the members as well
_ONE_OF = ("max", "min", "next")
_Parents = dict[ast.AST, ast.AST]


def unread_fields(sources: Sequence[Source], variable: str, fields: Collection[str]) -> set[str]:
    """Of ``fields``, keys or attributes of the members of ``variable``, those that nothing reads. Empty where a member
    is handed on as a whole: whoever gets it may read all of them.
    """
    if any(way in source.text for source in sources for way in READ_ALL):
        return set()
    unread = set(fields)
    for source in sources:
        if not any(name in source.text for name in (variable, *fields)):
            continue
        tree = parse(source.text)
        if tree is None:
            return set()
        parents: _Parents = {child: node for node in ast.walk(tree) for child in ast.iter_child_nodes(node)}
        methods = {node.name for node in ast.walk(tree) if isinstance(node, DEFINED)}
        for node in ast.walk(tree):
            on = node.value if isinstance(node, ast.Attribute) else None
            is_whole = (last_name(node) == variable and is_load(node)) or getattr(node, "arg", None) == variable
            is_whole = is_whole and not _is_made(on, parents, OPTIONS.__contains__)
            if is_whole and not all(_asks_for_a_field(one, parents, methods) for one in _members(node, parents)):
                return set()
            # What is read of an object that its function makes was in no container before.
            if not _is_made(on, parents, lambda name: name[:1].isupper()):
                unread.discard(_read_field(node, parents))
    return unread


def _is_made(node: ast.AST | None, parents: _Parents, by: Callable[[str], bool]) -> bool:
    """A variable that its function binds, each time to what is called with such a name."""
    function = _function_of(node, parents) if isinstance(node, ast.Name) else None
    if function is None or not isinstance(node, ast.Name):
        return False
    bound = [one for one in ast.walk(function) if isinstance(one, ast.Name) and one.id == node.id and not is_load(one)]
    given = [one.arg for one in ast.walk(function) if isinstance(one, ast.arg)]
    makers = [called(getattr(parents.get(one), "value", None)) for one in bound]
    return node.id not in given and bool(makers) and all(map(by, makers))


def _function_of(node: ast.AST | None, parents: _Parents) -> ast.AST | None:
    while node is not None and not isinstance(node, DEFINED):
        node = parents.get(node)
    return node


def _read_field(node: ast.AST, parents: _Parents) -> str:
    """A text is read unless something is put there under it."""
    if isinstance(node, ast.Attribute):
        return node.attr if is_load(node) else ""
    if not isinstance(node, ast.Constant) or not isinstance(node.value, str):
        return ""
    above = parents.get(node)
    is_put = isinstance(above, ast.Dict) and node in above.keys
    is_put = is_put or (isinstance(above, ast.Subscript) and above.slice is node and not is_load(above))
    return "" if is_put else node.value


def _members(node: ast.AST, parents: _Parents) -> Iterator[ast.AST]:
    """Where members of what is read there are at hand; itself where that cannot be followed."""
    above = parents.get(node)
    if isinstance(above, ast.Attribute) and above.attr in ADDERS:
        return
    if isinstance(above, ast.Call) and called(above) == "len":
        return
    if isinstance(above, ast.Subscript) and above.value is node:
        if is_load(above):
            yield from _members(above, parents) if isinstance(above.slice, ast.Slice) else _known_as(above, parents)
        return
    if isinstance(above, ast.Call) and node in above.args and called(above) in (*_IN_ORDER, *_ONE_OF):
        for key in above.keywords:
            yield from _loads(key.value, {one.arg for one in ast.walk(key.value) if isinstance(one, ast.arg)})
        yield from _members(above, parents) if called(above) in _IN_ORDER else _known_as(above, parents)
        return
    target = getattr(above, "target", None) if getattr(above, "iter", None) is node else None
    if isinstance(target, ast.Tuple) and target.elts:  # of enumerate(), where the last name has it
        target = target.elts[-1]
    if not isinstance(target, ast.Name) or above is None:
        yield node
        return
    yield from _loads(parents.get(above, above) if isinstance(above, ast.comprehension) else above, {target.id})


def _known_as(member: ast.expr, parents: _Parents) -> Iterator[ast.AST]:
    """It, or wherever the variable that it is put into is looked up."""
    above = parents.get(member)
    name = above.targets[0] if isinstance(above, ast.Assign) and len(above.targets) == 1 else None
    function = _function_of(above, parents)
    if isinstance(name, ast.Name) and function is not None:
        yield from _loads(function, {name.id})
    else:
        yield member


def _loads(within: ast.AST, names: Collection[str]) -> Iterator[ast.AST]:
    return (one for one in ast.walk(within) if isinstance(one, ast.Name) and one.id in names and is_load(one))


def _asks_for_a_field(node: ast.AST, parents: _Parents, methods: Collection[str]) -> bool:
    above = parents.get(node)
    if isinstance(above, ast.Subscript) and above.value is node:
        return isinstance(above.slice, ast.Constant)
    if isinstance(above, ast.Compare) and all(isinstance(one, (ast.Is, ast.IsNot)) for one in above.ops):
        return True
    if not isinstance(above, ast.Attribute):
        return False
    by = parents.get(above)
    if not isinstance(by, ast.Call) or by.func is not above:
        return True
    return above.attr in methods or (above.attr == "get" and isinstance(by.args[0], ast.Constant))
