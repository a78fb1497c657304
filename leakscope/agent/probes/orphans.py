"""Objects of a growing type that no path from a root reached, and why they live.

Three ways to live unseen: in a cycle that nothing refers to (garbage that waits for the collector), held only by C code
or by a reference count that is too high, or held by a library or thread we did not walk. The first is decided on a small
neighbourhood by the collector's own arithmetic: if every reference to every object of a group comes from the group, it
is garbage. The others need one pass over the heap per step, so they are asked only of types that grew between two takes.
"""

import gc
import sys
import types
from itertools import compress
from time import perf_counter

from .. import walk as w

TABLE = "orphans"

MIN_UNREACHED = 1000
MIN_GROWTH_FRACTION = 0.2  # of the unreached count since the take before
MAX_TYPES = 4
SAMPLES = 3
NEIGHBOURHOOD = 3000
MAX_CLIMBS = 6  # heap passes in the life of a process: each costs 60 ms per million objects
_BORING = frozenset(
    (types.FunctionType, types.CodeType, types.BuiltinFunctionType, types.MethodType, type, types.ModuleType,
     types.GetSetDescriptorType, types.MemberDescriptorType, property, staticmethod, classmethod, type(w.Walk.run))
)  # fmt: skip


def rows(take):
    """Suspect types now, against what ``take.memory`` keeps of the take before. **Cost** 10 to 250 ms, if any grew."""
    unreached = {}
    for cls, count in take.census.items():
        missing = count - int(take.reached.get(cls, 0))
        if missing >= MIN_UNREACHED and cls not in _BORING:
            unreached[cls] = missing
    before = take.memory.get("unreached")
    take.memory["unreached"] = {w.type_name(cls): count for cls, count in unreached.items()}
    if before is None or take.walk.truncated:
        return
    grown = {}
    for cls, count in unreached.items():
        growth = count - before.get(w.type_name(cls), 0)
        if growth >= MIN_UNREACHED and growth >= MIN_GROWTH_FRACTION * count:
            grown[cls] = growth
    suspects = sorted(grown, key=grown.get, reverse=True)[:MAX_TYPES]
    if not suspects:
        return
    objects = gc.get_objects()
    kinds = list(map(type, objects))
    found = {}
    for cls in suspects:
        alike = list(compress(objects, map(cls.__eq__, kinds))) if type(cls) is not type else [
            o for o, kind in zip(objects, kinds) if kind is cls
        ]  # fmt: skip
        found[cls] = [o for o in alike if id(o) not in take.walk.seen]
        del alike
    del objects, kinds
    for cls in suspects:
        candidates = found.pop(cls)
        picked = [candidates[len(candidates) * (2 * i + 1) // (2 * SAMPLES)] for i in range(SAMPLES) if candidates]
        del candidates
        if picked:
            verdict, chain = _why(take, picked)
            file, line = _definition(cls)
            yield {
                "type_name": w.type_name(cls),
                "object_count": take.census[cls],
                "reached_count": int(take.reached.get(cls, 0)),
                "orphan_verdict": verdict,
                "sampled_count": len(picked),
                "chain": chain,
                "owner_file": file,
                "owner_line": line,
                "deep_bytes": unreached[cls] * _average_bytes(picked),
            }
        del picked


def _why(take, picked):
    results = []
    while picked:
        results.append(_neighbourhood(picked))
        last = picked.pop()
    garbage = [chain for verdict, chain in results if verdict == "garbage-cycle"]
    if len(garbage) * 2 > len(results):
        return "garbage-cycle", garbage[0]
    if take.memory.get("climbs", 0) >= MAX_CLIMBS or perf_counter() > take.deadline:
        return "unknown", w.type_name(type(last))
    return _climb(take, last)


def _neighbourhood(picked):
    """('garbage-cycle' | 'held', cycle) for the last of ``picked``, by trial deletion on what it refers to."""
    start = picked[-1]
    group = [start]
    position = {id(start): 0}
    inside = {id(start): 0}
    edges = []
    i = 0
    while i < len(group) and len(group) < NEIGHBOURHOOD:
        targets = []
        for referent in gc.get_referents(group[i]):
            if type(referent) in _BORING or not gc.is_tracked(referent) or type in w._mro_of(type(referent)):
                continue
            key = id(referent)
            inside[key] = inside.get(key, 0) + 1
            if key not in position:
                position[key] = len(group)
                group.append(referent)
            targets.append(position[key])
        edges.append(targets)
        i += 1
    referent = None
    closed = i == len(group)
    # References to group[k] that are ours: the group list, getrefcount's argument, and for the start also ``picked``,
    # and our local variable.
    live = []
    for k in range(len(group)):
        ours = 2 + (2 if k == 0 else 0)
        if sys.getrefcount(group[k]) - ours > inside[id(group[k])] or k >= i:
            live.append(k)
    alive = set(live)
    while live:
        k = live.pop()
        if k < len(edges):
            for target in edges[k]:
                if target not in alive:
                    alive.add(target)
                    live.append(target)
    if 0 in alive or not closed and not inside[id(start)]:
        return "held", ""
    back = next((w.type_name(type(group[k])) for k, targets in enumerate(edges) if 0 in targets and k), None)
    name = w.type_name(type(start))
    return "garbage-cycle", name + (" -> " + back + " -> " + name if back else "")


def _climb(take, obj):
    """Name what holds ``obj``: one pass over the heap a level."""
    own = set()
    parts = []
    for _level in range(5):
        if take.memory.get("climbs", 0) >= MAX_CLIMBS or perf_counter() > take.deadline + take.pause_s:
            break
        take.memory["climbs"] = take.memory.get("climbs", 0) + 1
        referrers = gc.get_referrers(obj)
        own.update((id(referrers), id(own)))
        holder = None
        for candidate in referrers:
            kind = type(candidate)
            if id(candidate) in own or kind is types.FrameType and _is_ours(candidate):
                continue
            if kind is list and candidate and candidate[-1] is obj and len(candidate) <= 2 and _is_scratch(candidate):
                continue
            holder = candidate
            if id(candidate) in take.walk.seen:
                break
        del referrers, candidate
        if holder is None:
            if not parts:
                return "no-python-holder", w.type_name(type(obj))
            break
        parts.append(_edge(holder, obj))
        own.add(id(obj))
        if type(holder) in (types.ModuleType, types.FrameType) or "module " in parts[-1]:
            break
        obj = holder
    del holder
    return "held", " <- ".join(parts)


def _is_ours(frame):
    return frame.f_code.co_filename.startswith(w._AGENT)


def _is_scratch(candidate):
    return sys.getrefcount(candidate) <= 4


def _edge(holder, obj):
    kind = type(holder)
    if kind is dict:
        key = next((k for k, v in list(holder.items()) if v is obj and type(k) is str), None)
        module = holder.get("__name__") if "__spec__" in holder else None
        if type(module) is str:
            return "module %s: %s" % (module, key)
        return "dict" if key is None else "dict[%r]" % key
    if kind is types.FrameType:
        name = next((n for n, v in w.frame_locals(holder) if v is obj), "?")
        return "%s() %s" % (holder.f_code.co_name, name)
    return w.type_name(kind)


def _definition(cls):
    """(file, line) of a Python class, by its __init__."""
    namespace = w._namespace_of(cls)
    method = namespace.get("__init__")
    file = w.module_file(namespace.get("__module__"))
    if type(method) is types.FunctionType:
        return method.__code__.co_filename, method.__code__.co_firstlineno
    return (file, None) if cls.__flags__ & w._HEAPTYPE else (None, None)


def _average_bytes(_picked):
    return 100
