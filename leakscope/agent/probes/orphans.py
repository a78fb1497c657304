"""Objects of a growing type that no path from a root reached, and why they live.

Three ways to live unseen: in a cycle that nothing refers to (garbage that waits for the collector), held only by C
code or by a reference count that is too high, or held by a library or thread we did not walk. The first is decided on a
small neighbourhood by the collector's own arithmetic: if every reference to every object of a group comes from the
group, it is garbage. The others need a pass over the heap a step: they are asked only of types that grew twice.
"""

from __future__ import annotations

import gc
import sys
import types
from time import thread_time

from ..interpreter import names, reading
from ..torch import autograd
from ..walking import heap, referrers

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Collection, Iterator
    from typing import Any

    from . import Snapshot

TABLE = "orphans"
NEEDS_WALK = True
AFTER = ("data_forms",)  # which holds containers: here references are counted

MIN_UNREACHED = 300
MIN_RARE = 16
MIN_HIDDEN = 24  # of a class of the user's, while memory grows that no way leads to: each may hold much
MIN_GROWTH_FRACTION = 0.2  # of the unreached count since the snapshot before
MAX_TYPES = 3
SAMPLES = 3
SAMPLES_OF_GRAPH_NODES = 40  # in a row, from each place: see _why
NEIGHBOURHOOD = 1000
CLIMB_S = 0.1  # what a snapshot may spend on naming the holders of its orphans
GARBAGE, HELD, HELD_IN_C, OUTSIDE = "garbage-cycle", "held", "held-in-c", "no-python-holder"
_BORING = names.ids_of(
    types.FunctionType, types.CodeType, types.BuiltinFunctionType, types.MethodType, type, types.ModuleType,
    types.GetSetDescriptorType, types.MemberDescriptorType, property, staticmethod, classmethod,
)  # fmt: skip


def rows(snapshot: Snapshot) -> Iterator[dict[str, Any]]:
    """Suspect types now, against what ``memory`` keeps of the snapshot before. **Cost** 10 to 250 ms, if any grew."""
    if not snapshot.is_swept:
        snapshot.memory.unreached = []  # what comes next would be compared with long ago
        return
    unreached = names.ByClass()
    for cls, count in snapshot.census.items():
        missing = count - int(snapshot.reached.get(cls, 0))
        if missing >= MIN_HIDDEN and id(cls) not in _BORING and missing >= _least(snapshot, cls):
            unreached.set(cls, missing)
    history = snapshot.memory.unreached
    history.append({names.type_name(cls): (count, snapshot.census.get(cls)) for cls, count in unreached.items()})
    if len(history) < 3:
        return
    older, before = history.pop(0), history[0]
    if snapshot.walk.truncated:
        return
    grown: list[Any] = []
    for cls, count in unreached.items():
        name = names.type_name(cls)
        missing_before, count_before = before.get(name, (0, 0))
        missing_older = older.get(name, (0, 0))[0]
        growth = count - missing_older
        # Twice in a row, since an import grows once. Of a type that is held everywhere (dict, list) the sampled part is
        # an estimate: its error is no growth.
        least = _least(snapshot, cls)
        if (
            min(count - missing_before, missing_before - missing_older) >= least / 4
            and growth >= max(least, MIN_GROWTH_FRACTION * count)
            and count - missing_before >= 0.5 * (snapshot.census.get(cls) - count_before)
        ):
            grown.append((names.is_written_in_c(cls), -growth, len(grown), cls))
    # A class tells more than dict or tuple: instances lead to a name, and their dicts come with them.
    suspects = [suspect[-1] for suspect in sorted(grown)[:MAX_TYPES]]
    if not suspects or not snapshot.pauses.allows_sweep():
        return
    suspects += _rare_nodes(snapshot, suspects)
    # Where there was no time for all at the last snapshot, now is the turn of those that were left out.
    climbed = snapshot.memory.climbed
    suspects.sort(key=lambda cls: names.type_name(cls) in climbed)
    picked = _pick(snapshot.walk.seen, suspects)
    climbs_end = min(thread_time() + CLIMB_S, snapshot.deadline)  # none where the walk needed all of the pause
    for which, cls in enumerate(suspects):
        if picked[which]:
            sampled_count = len(picked[which])
            size = names.safe_size(picked[which][0])
            verdict, chain = _why(snapshot, picked, which, cls, climbs_end)
            file, line = names.definition(autograd.written_half(cls))
            if verdict == OUTSIDE and file is not None and names.is_user_file(file):
                snapshot.memory.outside[names.module_of(cls), names.type_name(cls)] = (file, line)
            yield {
                "type_name": names.type_name(cls),
                "object_count": snapshot.census.get(cls),
                "reached_count": int(snapshot.reached.get(cls, 0)),
                "orphan_verdict": verdict,
                "sampled_count": sampled_count,
                "chain": chain,
                "owner_file": file,
                "owner_line": line,
                "deep_bytes": (snapshot.census.get(cls) - int(snapshot.reached.get(cls, 0))) * size,
            }
        picked[which] = []


def _least(snapshot: Snapshot, cls: type) -> int:
    if not snapshot.memory.is_growth_hidden:
        return MIN_UNREACHED
    file, _ = names.definition(cls)
    return MIN_HIDDEN if file is not None and names.is_user_file(file) else MIN_UNREACHED


def _rare_nodes(snapshot: Snapshot, suspects: list[type]) -> list[type]:
    """Functions that somebody wrote and that come once a step, where those that come often pile up with them.

    A graph is kept as a whole: one node in a cycle with its own output keeps all the others, which only C++ holds.
    """
    if not any(map(autograd.is_node, suspects)):
        return []
    rare = [
        cls for cls, count in snapshot.census.items()
        if count - int(snapshot.reached.get(cls, 0)) >= MIN_RARE and id(cls) not in names.ids_of(*suspects)
        and autograd.is_node(cls) and autograd.written_half(cls) is not cls
    ]  # fmt: skip
    return rare[:MAX_TYPES]


def _pick(seen: Collection[int], suspects: list[type]) -> list[list[Any]]:
    """A few objects of each suspect type that the walk did not see, of medium age: one list a type."""
    _census, objects, _large = heap.sweep(names.ids_of(*suspects))
    picked = []
    for cls in suspects:
        alike = [o for o in objects if type(o) is cls and id(o) not in seen]
        middles = [len(alike) * (2 * i + 1) // (2 * SAMPLES) for i in range(SAMPLES)]
        run = SAMPLES_OF_GRAPH_NODES if autograd.is_node(cls) else 1
        picked.append([o for middle in middles if len(alike) > SAMPLES for o in alike[middle : middle + run]])
    return picked


def _why(snapshot: Snapshot, picked: list[list[Any]], which: int, cls: type, climbs_end: float) -> tuple[str, str]:
    """Most of the sample decides. Of the nodes of a graph only the newest can be judged: the others are held by it, in
    C++, where nobody can see by how many. So where one in a row is garbage, those that only C++ holds are, too.
    """
    mine: dict[int, int] = {}
    for objects in picked:
        for obj in objects:
            mine[id(obj)] = mine.get(id(obj), 0) + 1
    obj = None
    results = [_neighbourhood(picked[which], i, mine) for i in range(len(picked[which]))]
    garbage = [chain for verdict, chain in results if verdict == GARBAGE]
    held_in_c = sum(verdict == HELD_IN_C for verdict, _ in results)
    if garbage and (len(garbage) + held_in_c) * 2 > len(results):
        return GARBAGE, garbage[0]
    if snapshot.memory.is_growth_named or not snapshot.memory.is_growth_hidden:
        return "unknown", names.type_name(cls)  # no need to know: a pass over the heap costs 60 ms per million objects
    return _climb(snapshot, picked, which, cls, climbs_end)


def _neighbourhood(objects: list[Any], which: int, mine: dict[int, int]) -> tuple[str, str]:
    """(GARBAGE | HELD | HELD_IN_C, cycle) for one object, by trial deletion on what it refers to.

    ``mine``: references to objects that are ours alone, by id.
    """
    group = [objects[which]]
    position = {id(group[0]): 0}
    inside = {id(group[0]): 0}
    edges = []
    i = 0
    while i < len(group) and len(group) < NEIGHBOURHOOD:
        targets = []
        for referent in gc.get_referents(group[i]):
            kind = type(referent)
            if id(kind) in _BORING or not gc.is_tracked(referent) or names.is_a(kind, type):
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
    live = []
    is_held_in_c = True  # only by the graph: what holds any of them is one reference of a graph node's C++ part
    for k in range(len(group)):
        # Two references are ours: the group list and getrefcount's argument.
        outside = sys.getrefcount(group[k]) - 2 - mine.get(id(group[k]), 0) - inside[id(group[k])]
        if outside > 0:
            live.append(k)
            is_held_in_c = is_held_in_c and outside == 1 and autograd.is_node(type(group[k]))
    alive = set(live)
    while live:
        k = live.pop()
        if k < len(edges):
            for target in edges[k]:
                if target not in alive:
                    alive.add(target)
                    live.append(target)
    # An object beyond the neighbourhood's edge may refer back into it: then its references are not all inside, and
    # what it refers to counts as held. The verdict "garbage" stays safe.
    if 0 in alive:
        return HELD_IN_C if is_held_in_c else HELD, ""
    name = names.type_name(type(group[0]))
    back = [k for k, targets in enumerate(edges) if k and 0 in targets]
    if not back:
        return HELD, ""  # nothing refers to it at all: not a cycle
    attribute, k = _attribute_to(group, back)
    return GARBAGE, f"{name}{attribute} -> {names.type_name(type(group[k]))} -> {name}"


def _attribute_to(group: list[Any], positions: list[int]) -> tuple[str, int]:
    """('.attribute' of the first object that is one of these, its position), or ('', the first of them)."""
    attributes = reading.attributes_of(group[0])
    for name, value in () if attributes is None else reading.pairs(attributes):
        for k in positions:
            if value is group[k] and type(name) is str:
                return "." + name, k
    return "", positions[0]


def _climb(snapshot: Snapshot, picked: list[list[Any]], which: int, cls: type, climbs_end: float) -> tuple[str, str]:
    """Name what holds an object of the type; the next snapshot walks down from the container nearest to the root."""
    snapshot.memory.climbed.add(names.type_name(cls))
    own = {id(objects) for objects in picked}
    own.add(id(picked))
    chain = referrers.chain_to(picked[which][-1], snapshot.memory, own, climbs_end)
    if chain is None:
        return OUTSIDE, names.type_name(cls)
    if chain.named is None:
        return "unknown", names.type_name(cls)
    if chain.holder_id is not None and chain.holder_id not in snapshot.walk.seen:
        snapshot.memory.library_names[chain.holder_id] = (chain.holder_label or "", chain.holder_named)
    return "held", chain.label
