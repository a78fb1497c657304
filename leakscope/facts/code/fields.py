"""Which fields of a container's members the sources never read: kept with each result, and looked at by nobody."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Sequence

from .index import Source, parse
from .points_to import ADDERS
from .statements import READ_ALL
from .syntax import DEFINED, called, is_load, last_name

_IN_ORDER = ("enumerate", "reversed")  # of each member, the last name that is bound has it
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
            is_whole = (last_name(node) == variable and is_load(node)) or getattr(node, "arg", None) == variable
            if is_whole and not all(_asks_for_a_field(one, parents, methods) for one in _members(node, parents)):
                return set()
            unread.discard(_read_field(node, parents))
    return unread


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
            yield above
        return
    while isinstance(above, ast.Call) and called(above) in _IN_ORDER:
        node, above = above, parents.get(above)
    target = getattr(above, "target", None) if getattr(above, "iter", None) is node else None
    if isinstance(target, ast.Tuple) and target.elts:
        target = target.elts[-1]
    if not isinstance(target, ast.Name) or above is None:
        yield node
        return
    within = parents.get(above, above) if isinstance(above, ast.comprehension) else above
    for one in ast.walk(within):
        if isinstance(one, ast.Name) and one.id == target.id and is_load(one):
            yield one


def _asks_for_a_field(node: ast.AST, parents: _Parents, methods: Collection[str]) -> bool:
    above = parents.get(node)
    if isinstance(above, ast.Subscript) and above.value is node:
        return isinstance(above.slice, ast.Constant)
    if not isinstance(above, ast.Attribute):
        return False
    by = parents.get(above)
    if not isinstance(by, ast.Call) or by.func is not above:
        return True
    return above.attr in methods or (above.attr == "get" and isinstance(by.args[0], ast.Constant))
