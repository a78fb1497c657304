"""Who holds an object that no walk from the roots came by: up its referrers, one pass over the heap a level.

``gc.get_referrers`` looks at every object the collector tracks (60 ms per million), so it is asked only of confirmed
suspects, and only ``MAX_PASSES`` times in the life of a process.
"""

import gc
import sys
import types
from time import perf_counter

from . import walk as w

MAX_PASSES = 24
MAX_LEVELS = 6


class Chain(object):
    """The way from a named place down to the object: ``label`` is a path as in the walk, ``named`` as in Node."""

    def __init__(self, parts, named, found_root):
        self.label = "".join(reversed(parts))
        self.named = named
        self.found_root = found_root


def chain_to(obj, memory, own, deadline):
    """The chain, or None where nothing in Python refers to the object. ``own``: ids of containers that are ours."""
    own = set(own)
    namespaces = _namespaces()
    parts = []
    named = None
    for _level in range(MAX_LEVELS):
        if memory.get("passes", 0) >= MAX_PASSES or perf_counter() > deadline:
            break
        memory["passes"] = memory.get("passes", 0) + 1
        referrers = gc.get_referrers(obj)
        own.add(id(referrers))
        best = None
        best_rank = 99
        candidate = None
        for candidate in referrers:
            if id(candidate) in own or (type(candidate) is types.FrameType and _is_ours(candidate)):
                continue
            rank = _rank(candidate, namespaces)
            if rank < best_rank:
                best, best_rank = candidate, rank
        del referrers, candidate
        if best is None:
            if not parts:
                return None
            break
        own.add(id(obj))
        if best_rank == 0:
            module = namespaces[id(best)]
            key = _key_of(best, obj)
            file = w.module_file(module)
            parts.append(module + "." + key)
            if named is None:
                named = (key, module, module, file, None, w.is_user_module(module, file))
            return Chain(parts, named, True)
        if type(best) is types.FrameType:
            name = _key_of(dict(w.frame_locals(best)), obj)
            code = best.f_code
            parts.append("%s() %s" % (code.co_name, name))
            if named is None:
                owner = (getattr(code, "co_qualname", code.co_name), None, code.co_filename, code.co_firstlineno)
                named = w._named(name, owner)
            return Chain(parts, named, True)
        part, name_here, obj = _step(best, obj)
        parts.append(part)
        if named is None and name_here is not None:
            named = name_here
    if obj is not None:
        parts.append("<%s>" % w.type_name(type(obj)))
    return Chain(parts, named, False)


def _namespaces():
    found = {}
    for name, module in list(sys.modules.items()):
        try:
            found[id(object.__getattribute__(module, "__dict__"))] = str(name)
        except Exception:
            continue
    return found


def _rank(candidate, namespaces):
    """How good a name this referrer gives: a module's global best, an anonymous container last."""
    kind = type(candidate)
    if kind is dict and id(candidate) in namespaces:
        return 0
    if type in w._mro_of(kind):
        return 1
    if kind is types.FrameType:
        return 2 if w.is_user_file(candidate.f_code.co_filename) else 5
    if kind in _PLAIN:
        return 4
    return 3


_PLAIN = frozenset((list, tuple, dict, set, types.CellType if hasattr(types, "CellType") else type(None)))


def _key_of(namespace, value):
    # No generator expression here or above: its closure cell would turn up as a referrer of the value.
    for key, candidate in list(namespace.items()):
        if candidate is value and type(key) is str:
            return key
    return "?"


def _step(holder, obj):
    """(path part, name or None, what to look for next): ``holder`` refers to ``obj``."""
    kind = type(holder)
    if type in w._mro_of(kind):
        attribute = _key_of(w._namespace_of(holder), obj)
        module = w._namespace_of(holder).get("__module__")
        file = w.module_file(module)
        name = type.__getattribute__(holder, "__qualname__")
        return "." + attribute, (attribute, name, module, file, None, w.is_user_module(module, file)), holder
    if kind is dict:
        key = _key_of(holder, obj)
        # An instance's own dict: the next level up finds the instance, whose type says what the name belongs to.
        return ("['%s']" % key if key != "?" else "[*]"), None, holder
    if kind in (list, tuple, set):
        return "[*]", None, holder
    try:
        attributes = object.__getattribute__(holder, "__dict__")
    except Exception:
        attributes = None
    if type(attributes) is dict:
        if attributes is obj:
            return "", None, holder
        attribute = _key_of(attributes, obj)
        module = w._namespace_of(kind).get("__module__")
        file = w.module_file(module)
        owner = w.type_name(kind).rsplit(".", 1)[-1]
        return "." + attribute, (attribute, owner, module, file, None, w.is_user_module(module, file)), holder
    return ".~", None, holder


def _is_ours(frame):
    return frame.f_code.co_filename.startswith(w._AGENT)
