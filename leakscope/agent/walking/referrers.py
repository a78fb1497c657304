"""Who holds an object that no walk from the roots came by: up its referrers, one pass over the heap a level.

``gc.get_referrers`` looks at every object the collector tracks (60 ms per million, twice that for 50 objects at once),
so it is asked only of confirmed suspects, and only ``MAX_PASSES`` times in the life of a process.
"""

from __future__ import annotations

import gc
import sys
import types
from time import thread_time

from ..interpreter import names, reading
from .heap import CONTAINERS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping
    from types import FrameType
    from typing import Any

    from ..interpreter.names import Named

MAX_PASSES = 24
MAX_LEVELS = 8
FRONTIER = 50  # objects whose referrers are asked for at once
_PASSIVE = names.ids_of(types.FunctionType, types.MethodType, types.BuiltinFunctionType, types.CodeType)


class Chain:
    """The way from a root down to the object. ``label`` is a path as in the walk.

    ``named`` (as in walk.Node) is the name nearest to the object; ``holder_id``, ``holder_label`` and ``holder_named``
    are of the container nearest to the root: what a later walk can begin with.
    """

    def __init__(self) -> None:
        self.label = ""
        self.named: Named | None = None
        self.holder_id: int | None = None
        self.holder_label: str | None = None
        self.holder_named: Named | None = None


def chain_to(obj: Any, memory: dict[str, Any], own: Iterable[int], deadline: float) -> Chain | None:
    """The shortest chain from a module, a class or a running function; None where nothing refers to the object.

    A chain without ``named`` found no root within its budget. ``own``: ids of containers that are ours.
    """
    namespaces = _namespaces()
    objects = {id(obj): obj}
    child_of: dict[int, int] = {}
    frontier = [obj]
    skip = set(own)
    skip.update((id(objects), id(child_of)))
    for level in range(MAX_LEVELS):
        began = thread_time()
        if memory.get("passes", 0) >= MAX_PASSES or began + memory.get("pass_s", 0.0) > deadline:
            break
        memory["passes"] = memory.get("passes", 0) + 1
        skip.add(id(frontier))
        referrers = gc.get_referrers(*frontier)
        memory["pass_s"] = thread_time() - began
        skip.add(id(referrers))
        wanted = {id(o) for o in frontier}
        following: list[Any] = []
        skip.add(id(following))
        root = None
        for holder in referrers:
            key = id(holder)
            kind = type(holder)
            if key in skip or key in objects or id(kind) in _PASSIVE or (kind is types.FrameType and _is_ours(holder)):
                continue
            child = _first_of(gc.get_referents(holder), wanted)
            if child is None:
                continue
            child_of[key] = child
            objects[key] = holder
            if _is_root(holder, kind, namespaces):
                root = key
                if key in namespaces or names.is_a(kind, type):
                    break
                continue
            following.append(holder)
        holder = None
        del referrers
        if root is not None:
            return _describe(root, objects, child_of, id(obj), namespaces)
        if not following:
            return None if level == 0 else Chain()
        following.sort(key=_is_plain)
        frontier = following[:FRONTIER]
    return Chain()


def _first_of(referents: Iterable[Any], wanted: Collection[int]) -> int | None:
    for referent in referents:
        if id(referent) in wanted:
            return id(referent)
    return None


def _is_plain(holder: Any) -> bool:
    """Containers last: an instance leads up to a name, a list may lead anywhere."""
    return id(type(holder)) in CONTAINERS or type(holder) is tuple


def _is_root(holder: Any, kind: type, namespaces: Mapping[int, str]) -> bool:
    if kind is dict:
        return id(holder) in namespaces
    return names.is_a(kind, type) or kind is types.FrameType


def _namespaces() -> dict[int, str]:
    found = {}
    for name, module in list(sys.modules.items()):
        namespace = names.namespace_of_module(module)
        if namespace is not None and type(name) is str:
            found[id(namespace)] = name
    return found


def _describe(
    root: int, objects: dict[int, Any], child_of: dict[int, int], last: int, namespaces: Mapping[int, str]
) -> Chain:
    chain = Chain()
    holder = objects[root]
    key = child_of[root]
    chain.label, chain.named = _root_name(holder, objects[key], namespaces)
    while True:
        obj = objects[key]
        is_container = id(type(obj)) in CONTAINERS and not (type(obj) is dict and _is_attributes_of(obj, holder))
        if is_container and chain.holder_id is None and key != last:
            chain.holder_id, chain.holder_label, chain.holder_named = key, chain.label, chain.named
        if key == last:
            break
        part, named = _edge(obj, objects[child_of[key]], holder)
        chain.label += part
        chain.named = named or chain.named
        holder, key = obj, child_of[key]
    del obj, holder
    return chain


def _root_name(holder: Any, value: Any, namespaces: Mapping[int, str]) -> tuple[str, Named]:
    """(label, named) of what a module, a class or a running function holds."""
    if id(holder) in namespaces:
        name = namespaces[id(holder)]
        key = _key_of(holder, value)
        file = names.module_file(name)
        return f"{name}.{key}", (key, name, name, file, None, names.is_user_module(name, file))
    if type(holder) is types.FrameType:
        code = holder.f_code
        key = _key_of(dict(reading.frame_locals(holder)), value)
        name = names.qualified_name_of(code)
        return "%s() %s" % (name, key), names.named_by(key, (name, None, names.file_of(code), code.co_firstlineno))
    key = _key_of(names.namespace_of(holder), value)
    module = names.module_of(holder)
    file = names.module_file(module)
    name = names.qualname_of(holder)
    label = "%s.%s.%s" % (module, name, key)
    return label, (key, name, module, file, None, names.is_user_module(module, file))


def _edge(holder: Any, value: Any, above: Any) -> tuple[str, Named | None]:
    """(path part, name or None): how ``holder``, itself held by ``above``, holds ``value``."""
    kind = type(holder)
    if kind is dict:
        key = _key_of(holder, value)
        if _is_attributes_of(holder, above):
            return "." + key, _attribute(key, type(above))
        return ("['%s']" % key if key != "?" else "[*]"), None
    if id(kind) in CONTAINERS or kind is tuple:
        return "[*]", None
    attributes = reading.attributes_of(holder)
    if attributes is not None and attributes is not value:
        key = _key_of(attributes, value)
        if key != "?":
            return "." + key, _attribute(key, kind)
    return ("" if attributes is value else ".~"), None


def _attribute(name: str, cls: type) -> Named:
    module = names.module_of(cls)
    file = names.module_file(module)
    return name, names.type_name(cls).rsplit(".", 1)[-1], module, file, None, names.is_user_module(module, file)


def _is_attributes_of(namespace: object, holder: Any) -> bool:
    return reading.attributes_of(holder) is namespace


def _key_of(namespace: Mapping[Any, Any], value: Any) -> str:
    # No generator expression here or above: its closure cell would turn up as a referrer of the value.
    for key, candidate in list(namespace.items()):
        if candidate is value and type(key) is str:
            return key
    return "?"


def _is_ours(frame: FrameType) -> bool:
    return names.file_of(frame.f_code).startswith(names.AGENT)
