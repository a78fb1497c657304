"""How often tf.function traced, and which argument made it trace again: read from its caches. Runs in the job.

A function that the user's modules or their classes have leads to its cache, in which each trace stands under what it
was traced for. Nothing is called, and nothing imported.
"""

from __future__ import annotations

import sys
import types
from gc import get_referents

from ..interpreter import names, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

_MODULE = "tensorflow.python.eager.polymorphic_function.polymorphic_function"
_CONFIGS = ("_no_variable_creation_config", "_variable_creation_config")
_MOST_CHARACTERS = 40
_MOST_DEEP = 4
_known: list[Any] = [0, []]  # how many modules there were, and which were the user's
_PLAIN = frozenset(map(id, (int, float, str, bool, type(None))))  # a class is never hashed


def row() -> dict[str, Any] | None:
    """Of all functions together, and of that which traced most often; None where there is none."""
    kind = names.getattr_plain(sys.modules.get(_MODULE), "Function")
    if kind is None:
        return None
    graphs = again = most = 0
    told: tuple[Any, ...] = (None, None, None, None)
    for one in _functions(kind):
        cache = _cache_of(one)
        graphs += len(cache)
        again += max(0, len(cache) - 1)
        if len(cache) > most:
            most = len(cache)
            told = (*_place_of(one), _reason(cache))
    if not graphs:
        return None
    columns = ("function", "owner_file", "owner_line", "recompile_reason")
    return {"unique_graph_count": graphs, "recompile_count": again, **dict(zip(columns, told))}


def _functions(kind: type) -> Iterator[Any]:
    """Of the user's modules and classes. A method's are one for each object that it was called on."""
    seen: set[int] = set()
    for name in _user_modules():
        namespace = names.namespace_of_module(sys.modules.get(name)) or {}
        for value in list(namespace.values()):
            inside = list(names.namespace_of(value).values()) if names.is_a(type(value), type) else [value]
            for one in inside:
                if type(one) is kind and id(one) not in seen:  # another module may have imported it
                    seen.add(id(one))
                    yield one
                    bound = (reading.attributes_of(one) or {}).get("_descriptor_cache")
                    of_objects = (reading.attributes_of(bound) or {}).get("data")
                    if type(of_objects) is dict:
                        yield from (own for own in list(of_objects.values()) if type(own) is kind)


def _user_modules() -> list[str]:
    """Looked for where modules have come or gone: TensorFlow has 2,800, and each is asked for its file."""
    if _known[0] != len(sys.modules):
        _known[:] = [len(sys.modules), [name for name, _, _ in names.user_namespaces()]]
    found: list[str] = _known[1]
    return found


def _cache_of(function: Any) -> list[Any]:
    """What it was traced for, the oldest first: the types of its arguments."""
    attributes = reading.attributes_of(function) or {}
    for name in _CONFIGS:
        cache = _attributes(_attributes(attributes.get(name)).get("function_cache")).get("_primary")
        if names.is_a(type(cache), dict):
            return [key[1] for key in reading.members(reading.KEYS, cache) if type(key) is tuple and len(key) == 2]
    return []


def _place_of(function: Any) -> tuple[Any, ...]:
    """(function, file, line) of what is traced."""
    inside = (reading.attributes_of(function) or {}).get("_python_function")
    for _ in range(_MOST_DEEP):
        further = (reading.attributes_of(inside) or {}).get("__wrapped__")
        inside = inside if further is None else further
    if type(inside) is types.MethodType:
        inside = inside.__func__
    if type(inside) is not types.FunctionType:
        return None, None, None
    code = inside.__code__
    return names.name_of(code), names.file_of(code), code.co_firstlineno


def _reason(cache: list[Any]) -> str | None:
    """In which arguments the last two traces differ."""
    if len(cache) < 2:
        return None
    before, after = ({name: _said(kind, 0) for name, kind in _arguments(one)} for one in cache[-2:])
    changed = [(name, before.get(name), said) for name, said in after.items() if before.get(name) != said]
    texts = [f"{name}: {was}, then {said}"[: 3 * _MOST_CHARACTERS] for name, was, said in changed[:3]]
    return "; ".join(texts) or None


def _arguments(function_type: Any) -> Iterator[tuple[str, Any]]:
    for behind in get_referents(_attributes(function_type).get("_parameters")):
        for name, parameter in reading.pairs(behind) if names.is_a(type(behind), dict) else ():
            if type(name) is str:
                yield name, _attributes(parameter).get("_annotation")


def _said(one: Any, depth: int) -> str:
    """``value 0.02`` of a number or string of Python's, ``shape (3, 64)`` of a tensor; else what it has inside."""
    kind, attributes = type(one), _attributes(one)
    if id(kind) in _PLAIN:
        return str(one)[:_MOST_CHARACTERS]
    if depth >= _MOST_DEEP:
        return ""
    if kind is tuple or kind is list:
        return f"({', '.join(_said(member, depth + 1) for member in reading.members(kind, one)[:8])})"
    if "value" in attributes:
        return f"value {_said(attributes['value'], depth + 1)}"
    for name, before in (("_shape", "shape "), ("_dims", ""), ("components_tuple", ""), ("components", "")):
        if name in attributes:
            return before + _said(attributes[name], depth + 1)
    return names.type_name(kind).rpartition(".")[2]


def _attributes(obj: Any) -> dict[Any, Any]:
    """By slots, too."""
    found = reading.Attributes(type(obj))
    slots = {}
    for name, descriptor in found.slots:
        try:
            slots[name] = descriptor.__get__(obj)
        except AttributeError:
            continue
    return {**slots, **(found.dict_of(obj) or {})}
