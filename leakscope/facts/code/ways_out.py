"""What a library itself offers to let go of what it keeps: read from its recorded source.

A way out is a public method whose code removes from the attribute that grows, or that calls such a method of the
object it has there: ``Session.remove()`` for what ``ScopedRegistry.registry`` keeps. Text in, names out.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from importlib import import_module

from .adding import removed_from
from .imports import STANDARD_LIBRARY
from .index import Source, parse, tail
from .points_to import added_to
from .syntax import DEFINED, Defined, last_name, pairs

_FIRST = (
    "remove", "discard", "unregister", "delete", "close", "aclose", "dispose", "shutdown", "clear", "reset", "pop",
)  # fmt: skip
_NOT_OFFERED = ("set", "update", "append", "add", "put", "get", "read")


class Library:
    """The classes and functions of some modules."""

    def __init__(self, sources: Sequence[Source]) -> None:
        self._modules = {one.module: tree for one in sources if (tree := parse(one.text)) is not None}
        self._classes: dict[str, list[ast.ClassDef]] = {}
        for tree in self._modules.values():
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self._classes.setdefault(node.name, []).append(node)

    def knows_module(self, module: str) -> bool:
        return module in self._modules

    def methods(self, type_name: str, attribute: str, inner: Sequence[str] = ()) -> list[str]:
        """Those of a class that let go of what its attribute has, the likeliest first.

        ``inner``: methods of what is there that do so; without any, the attribute is the container itself.
        """
        attribute = re.sub(r"^_[^_]\w*?(?=__)", "", attribute)  # _Cache__data, which Cache calls __data
        classes = [one for cls in self._with_bases(tail(type_name)) for one in cls.body]
        methods = [one for one in classes if isinstance(one, DEFINED)]
        aliases = [last_name(t) for one in classes for t, v in pairs(one) if last_name(v) == attribute]  # _succ = _adj
        found = {one.name: None for name in (attribute, *aliases) for one in methods if _lets_go(one, name, inner)}
        # Who waits in what it fills itself until somebody else is done, as Event.wait() does, lets go of nothing.
        filling = {one.name for one in methods for node in ast.walk(one) for to in added_to(node) if not inner
                   if isinstance(to, ast.Attribute) and to.attr == attribute}  # fmt: skip
        private = [name for name in found if name.startswith("_") and name not in filling]  # by which others do so
        found |= {one.name: None for one in methods if private and _calls_own(one, private)}
        offered = (name for name in found if not name.startswith(("_", *_NOT_OFFERED)) and name not in filling)
        return sorted(offered, key=_rank)

    def needs(self, type_name: str, method: str, attribute: str) -> str | None:
        """An attribute without which a method lets go of nothing: ``target`` of a MemoryHandler, for its ``flush``."""
        methods = (one for cls in self._with_bases(tail(type_name)) for one in cls.body if isinstance(one, DEFINED))
        own = next((one for one in methods if one.name == method), None)
        for asked in (node for node in ast.walk(own) if isinstance(node, ast.If)) if own is not None else ():
            test = asked.test
            if isinstance(test, ast.Compare) and isinstance(test.ops[0], ast.IsNot):
                test = test.left
            is_own = isinstance(test, ast.Attribute) and isinstance(test.value, ast.Name) and test.attr != attribute
            if is_own and any(_lets_go(part, attribute, ()) for part in asked.body):
                return last_name(test)
        return None

    def limit(self, type_name: str, attribute: str) -> str | None:
        """By which argument a class is told how many members its attribute may have, where it need not be told."""
        classes = [one for cls in self._with_bases(tail(type_name)) for one in cls.body]
        methods = [one for one in classes if isinstance(one, DEFINED)]
        made = next((one for one in methods if one.name == "__init__"), None)
        compared = [node for one in methods for node in ast.walk(one) if isinstance(node, ast.Compare)]
        sides = [(one.left, *one.comparators) for one in compared]
        length = f"len(self.{attribute})"
        beside = {last_name(side) for both in sides if length in map(ast.unparse, both) for side in both}
        if made is None or not beside:
            return None
        given = [
            one.arg for one in (*made.args.args[len(made.args.args) - len(made.args.defaults) :], *made.args.kwonlyargs)
        ]
        kept = {last_name(to): last_name(value) for node in ast.walk(made) for to, value in pairs(node)}
        return next((kept[name] for name in sorted(beside - {""}) if kept.get(name) in given), None)

    def public_name(self, type_name: str, attribute: str) -> str | None:
        """By which name anybody may ask an object for its attribute: where it is private, that of a property."""
        if not attribute.startswith("_"):
            return attribute
        for one in (one for cls in self._with_bases(tail(type_name)) for one in cls.body if isinstance(one, DEFINED)):
            gives = one.body[-1].value if isinstance(one.body[-1], ast.Return) else None
            is_property = any(last_name(by).endswith("property") for by in one.decorator_list)
            if is_property and last_name(gives) == attribute and not one.name.startswith("_"):
                return one.name
        return None

    def functions(self, module: str, variable: str) -> list[str]:
        """Those of a module that remove from a variable of it."""
        tree = self._modules.get(module)
        functions = tree.body if tree is not None else []
        found = [one.name for one in functions if isinstance(one, DEFINED) and _lets_go(one, variable, ())]
        return sorted((name for name in found if not name.startswith("_")), key=_rank)

    def _with_bases(self, name: str) -> Iterator[ast.ClassDef]:
        waiting, seen = [name], set()
        while waiting:
            one = waiting.pop(0)
            for cls in self._classes.get(one, ()) if one not in seen else ():
                yield cls
                waiting += [last_name(base) for base in cls.bases]
            seen.add(one)


def emptied_by(type_name: str) -> list[str]:
    """Methods by which an object that C code of the standard library made lets go of what it has: of a pickler
    ``clear_memo``. This Python is asked, since there is no source to read; empty where it does not know the class.
    """
    module, _, name = type_name.rpartition(".")
    if not module.startswith("_") or module.lstrip("_") not in STANDARD_LIBRARY:
        return []
    try:
        found = dir(getattr(import_module(module), name))
    except (ImportError, AttributeError):
        return []
    return [method for method in found if method.startswith(("clear", "reset"))]


def _lets_go(function: ast.AST, attribute: str, inner: Sequence[str]) -> bool:
    names = _names_of(function, attribute)
    for node in ast.walk(function):
        if inner:
            func = node.func if isinstance(node, ast.Call) else None
            if isinstance(func, ast.Attribute) and func.attr in inner and last_name(func.value) in names:
                return True
        else:
            if any(last_name(value) in names for value in removed_from(node)):
                return True
            # ``getattr(self, name).clear()``, in what by its own name resets or clears all that the object has
            asked = next(removed_from(node), None) if getattr(function, "name", "").startswith(_FIRST) else None
            of_any = isinstance(asked, ast.Call) and last_name(asked.func) == "getattr" and asked.args[1:]
            if of_any and not isinstance(of_any[0], ast.Constant):
                return True
            if any(isinstance(t, ast.Attribute) and t.attr == attribute and _is_empty(v) for t, v in pairs(node)):
                return True
    return False


def _calls_own(method: Defined, names: Sequence[str]) -> bool:
    own = method.args.args[0].arg if method.args.args else ""
    return any(
        isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in names
        and last_name(node.func.value) == own
        for node in ast.walk(method)
    )  # fmt: skip


def _names_of(function: ast.AST, attribute: str) -> set[str]:
    """The attribute, and locals that are given what it has, or one of its members."""
    own = {last_name(t) for node in ast.walk(function) for t, v in pairs(node) if last_name(v) == attribute}
    for loop in (one for one in ast.walk(function) if isinstance(one, (ast.For, ast.comprehension))):
        if any(last_name(part) == attribute for part in ast.walk(loop.iter)):
            own |= {last_name(part) for part in ast.walk(loop.target)}
    return {attribute, *own} - {""}


def _is_empty(value: ast.expr | None) -> bool:
    if isinstance(value, ast.Call):  # dict(), _CallList()
        is_type = (
            last_name(value.func) in ("dict", "list", "set", "deque") or last_name(value.func).lstrip("_")[:1].isupper()
        )
        return not value.args and not value.keywords and is_type
    return isinstance(value, (ast.Dict, ast.List)) and not getattr(value, "elts", getattr(value, "keys", []))


def _rank(name: str) -> tuple[int, bool, str]:
    """What lets go of one comes before what does so of all."""
    return next((at for at, first in enumerate(_FIRST) if name.startswith(first)), len(_FIRST)), "all" in name, name
