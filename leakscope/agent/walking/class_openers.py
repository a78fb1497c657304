"""How to open classes, functions and code, those above all that are made as the program runs. Runs in the job.

A class or function of a module is there once and for all. One that is made for each request, schema or rule (by
``type``, ``make_dataclass``, ``exec``, ``compile``) is data like any other, and heavy: a small dataclass is 20 KiB.
"""

from __future__ import annotations

import gc
import sys
import types

from ..interpreter import reading
from ..interpreter.names import (
    AGENT,
    HEAPTYPE,
    flags_of,
    getattr_plain,
    ids_of,
    is_a,
    is_user_module,
    module_file,
    named_by,
    names_of,
    namespace_of,
    qualname_of,
)
from .openers import ATOMS, CELL, CLASS_ATTRIBUTE, DEFAULT, IGNORED, REFERENCE, open_by_collector, push_attributes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    from .walk import Node, Walk

_MACHINERY = frozenset(("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__", "__slots__",
                        "__abstractmethods__", "_abc_impl", "__parameters__", "__orig_bases__"))  # fmt: skip
# What a class made at run time is weighed by. Other values may be the library's own, for all that we know.
_PARTS = ids_of(dict, list, tuple, set, frozenset, str, types.FunctionType, staticmethod, classmethod, property)
_getsizeof = sys.getsizeof
_modules = sys.modules


def open_class(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """A class's own namespace: shared by all instances, so a list in it is a holder like any other."""
    if not flags_of(obj) & HEAPTYPE:
        return
    namespace = namespace_of(obj)
    module = namespace.get("__module__")
    name = qualname_of(obj)
    if _is_made_at_run_time(obj, module, name):
        _weigh(walk, obj, namespace, node, weight)
    file = module_file(module)
    if type(module) is not str or not is_user_module(module, file):
        return
    for attribute, value in list(namespace.items()):
        kind = type(value)
        if id(kind) in IGNORED or id(kind) in ATOMS or type(attribute) is not str or attribute in _MACHINERY:
            continue
        if kind is types.FunctionType and not _holds_something(value):
            continue  # most methods
        walk.push(
            value, node, "." + attribute, CLASS_ATTRIBUTE, weight, None, (attribute, name, module, file, None, True)
        )


def _holds_something(function: Any) -> bool:
    """The members of these may be asked for by their classes' methods: their lengths are not."""
    return (
        function.__closure__ is not None
        or function.__defaults__ is not None
        or function.__kwdefaults__ is not None
        or dict.__len__(function.__dict__) > 0
    )


def _is_made_at_run_time(cls: type, module: Any, name: str) -> bool:
    """Its module does not know it by its name; or it has none (numpy takes it from those that it makes for ctypes)."""
    if module is None:
        return True
    if type(module) is not str or "<locals>" in name:
        return type(module) is str
    known = _modules.get(module)
    return known is not None and "." not in name and getattr_plain(known, name) is not cls


def _weigh(walk: Walk, cls: type, namespace: Mapping[str, Any], node: Node, weight: float) -> None:
    size = type.__sizeof__(cls)
    for referent in gc.get_referents(cls):
        if is_a(type(referent), dict):
            size += dict.__sizeof__(referent)  # its namespace, which cannot be had otherwise; that of ctypes is larger
        elif type(referent) is tuple:
            size += _getsizeof(referent)  # its bases, and all classes above it
    for value in list(namespace.values()):
        if type(value) is types.GetSetDescriptorType:
            size += _getsizeof(value)  # each class has its own two
        elif id(type(value)) in _PARTS:
            walk.push(value, node, ".~", REFERENCE, weight)
    node.own_bytes += size * weight


def open_function(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    if type(obj) is not types.FunctionType:
        return open_by_collector(walk, obj, node, weight)
    code = obj.__code__
    named = names_of(obj)
    file = named[2]
    if file.startswith(AGENT):
        return  # our hooks in the job's tables
    node.own_bytes += _getsizeof(obj) * weight
    if file.startswith("<"):  # of no file: made as the program runs
        walk.push(code, node, ".~", REFERENCE, weight)
    cells = obj.__closure__
    if cells:
        for name, cell in zip(code.co_freevars, cells):
            try:
                value = cell.cell_contents
            except ValueError:
                continue
            walk.seen.add(id(cell))
            node.own_bytes += _getsizeof(cell) * weight
            walk.push(value, node, " closure " + name, CELL, weight, None, named_by(name, named))
    defaults = obj.__defaults__  # these three may be of subclasses, which would be asked for their members
    if defaults is not None:
        values = reading.members(tuple, defaults)
        for name, value in zip(code.co_varnames[: code.co_argcount][-len(values) :], values):
            walk.push(value, node, " default " + name, DEFAULT, weight, None, named_by(name, named))
        del values
    keyword_defaults = obj.__kwdefaults__
    if keyword_defaults is not None:
        for name, value in reading.pairs(keyword_defaults):
            if type(name) is str:
                walk.push(value, node, " default " + name, DEFAULT, weight, None, named_by(name, named))
    push_attributes(walk, reading.pairs(obj.__dict__), node, weight)


def open_code(walk: Walk, obj: Any, node: Node, weight: float) -> None:
    """Its strings are shared with others as a rule, and not weighed."""
    size = _getsizeof(obj)
    for name in ("co_consts", "co_names", "co_linetable", "co_exceptiontable"):
        size += _getsizeof(getattr(obj, name, None))
    node.own_bytes += size * weight
    for constant in obj.co_consts:
        if type(constant) is types.CodeType:
            walk.push(constant, node, ".~", REFERENCE, weight)


OPENERS = [(types.FunctionType, open_function), (types.CodeType, open_code), (type, open_class)]
