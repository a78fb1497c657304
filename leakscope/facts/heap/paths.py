"""The snapshots of one process laid over each other: for each path from a root, its figures at every snapshot.

A *growing* path is one whose bytes kept rising; the holder of a leak is the last path on the way down that is itself
stable while its contents multiply (the accumulation point): ``trainer.history``, not its ten thousand members.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

import numpy as np
from numpy.typing import NDArray

from ...units import MOST
from ..tables import AT_EXIT, narrow, only, records
from .graph import MODULES, graph_places
from .place import GRAPH_TYPE, MODULE_DICTS, OUTSIDE, Floats, Place
from .takes import Takes, sampled_takes, takes_of, takes_with_graph

if TYPE_CHECKING:
    import pandas as pd

    from ...storage import Recording

_LOOKED_FOR_LATER = ("library", OUTSIDE)
_AFTER_S = 5.0  # the window ends before the last samples: a program takes itself down
THREADS_ALIVE = "threading._active"


@dataclass(frozen=True, eq=False)
class Heap:
    """The snapshots of one process. ``time_s``, ``rss_bytes``, ``free_bytes``, ``step``: one value a snapshot.

    ``free_bytes`` is what malloc keeps free; zeros where nobody read it.
    """

    pid: int
    time_s: Floats
    rss_bytes: Floats
    free_bytes: Floats
    step: Floats
    takes: tuple[int, ...]
    truncated: bool
    roots: tuple[Place, ...]
    places: tuple[Place, ...]
    is_exact: bool = False  # from the graph of all objects: nothing is estimated


# By recording, and then by how and of which snapshots of which process. A dozen diagnoses ask, each for a window of its
# own, and most windows have the same snapshots.
_known: WeakKeyDictionary[Recording, dict[tuple[str, int, tuple[int, ...]], Heap]] = WeakKeyDictionary()


def heaps(recording: Recording, pid: int, start_s: float, end_s: float) -> Iterator[Heap]:
    """The snapshots of a process in a window that may be compared: those that are whole, then all, then their graphs.

    One that was cut short shows less than there was. Where the whole ones leave most of the window dark, either set
    may tell more. Shared by all who ask: do not change them.
    """
    takes = takes_of(recording, pid)
    if len(takes) < 2:
        return
    takes = takes.since_training_began(end_s)
    walked = takes.at(~takes.is_exact)
    whole = walked.at(~walked.is_truncated)
    inside = ~whole.is_last & (whole.time_s >= start_s) & (whole.time_s <= end_s + 1)
    if 2 <= np.count_nonzero(inside) < len(walked):
        yield from _of_walks(recording, pid, whole.within(start_s, end_s))
    yield from _of_walks(recording, pid, walked.within(start_s, end_s))
    yield from _of_graphs(recording, pid, takes, start_s, end_s)


def heap_of(recording: Recording, pid: int, start_s: float, end_s: float) -> Heap | None:
    """The set of snapshots to be believed first; None where no two can be compared."""
    return next(heaps(recording, pid, start_s, end_s), None)


def heap_to_the_end(recording: Recording, pid: int, start_s: float, end_s: float) -> Heap | None:
    """The graphs of a process with the one that was read as it ended; None where that was not to be had.

    The locals of main() are gone in that: what stands in it was kept to the end, and of what does not it says nothing.
    """
    takes = takes_of(recording, pid).since_training_began(end_s)
    weighed = takes.of(takes_with_graph(recording, pid))
    if not (weighed.reason == AT_EXIT).any():
        return None
    chosen = weighed.as_if_at_work().within(start_s, end_s + _AFTER_S)
    return _once(recording, pid, chosen, _of_graph) if len(chosen) >= 2 else None


def device_heap_of(recording: Recording, pid: int, start_s: float, end_s: float) -> Heap | None:
    """The same of what tensors have on GPUs: all bytes are of devices. None also where no snapshot knows of any."""
    graphs = recording.tables["heap_graphs"]
    if not graphs.loc[graphs["pid"] == pid, "device_bytes"].notna().any():
        return None
    takes = takes_of(recording, pid).since_training_began(end_s)
    return next(_of_graphs(recording, pid, takes, start_s, end_s, _of_graph_on_devices), None)


def _once(recording: Recording, pid: int, takes: Takes, lay_over: Callable[[Recording, int, Takes], Heap]) -> Heap:
    """``lay_over(recording, pid, takes)``, done once."""
    known = _known.setdefault(recording, {})
    key = (lay_over.__name__, pid, takes.numbers)
    if key not in known:
        known[key] = lay_over(recording, pid, takes)
    return known[key]


def _of_walks(recording: Recording, pid: int, takes: Takes) -> Iterator[Heap]:
    if len(takes) >= 2:
        yield _once(recording, pid, takes, _of_walk)


def _of_walk(recording: Recording, pid: int, takes: Takes) -> Heap:
    rows = recording.tables["holders"]
    rows = only(rows, (rows["pid"] == pid) & rows["path"].notna())
    places = _places(only(rows, rows["take"].isin(takes.numbers)), takes.numbers)
    _measure_graphs(places, only(rows, rows["type_name"] == GRAPH_TYPE))
    _fill_unseen(places, takes.time_s, takes.is_truncated)
    roots = [place for place in places if place.parent is None]
    return _laid_over(recording, takes, pid, places, roots, is_exact=False)


def _of_graphs(
    recording: Recording,
    pid: int,
    takes: Takes,
    start_s: float,
    end_s: float,
    lay_over: Callable[[Recording, int, Takes], Heap] | None = None,
) -> Iterator[Heap]:
    """The same of those that read the whole graph: those that weighed tensors if the last did, then the others.

    Where none of those that weighed can be compared, or all lie before the window, the last takes part though the
    process was ending: the locals of main() are gone by then, and what still grew was kept to the end. So it does
    beside those that read all objects, where others read only some.
    """
    at_end = takes.at(takes.reason == AT_EXIT)
    weighed = takes.of(takes_with_graph(recording, pid))
    working = takes.of(takes_with_graph(recording, pid, but=at_end.numbers))
    sets = [weighed.within(start_s, end_s), working.within(start_s, end_s)]
    ends_soon = bool(len(at_end)) and at_end.time_s[-1] <= end_s + _AFTER_S
    is_dark = not (sets[0].time_s >= start_s).any()  # what those say was before all that is asked about
    if (len(sets[0]) < 2 or is_dark) and ends_soon:
        sets.insert(1, weighed.as_if_at_work().within(start_s, end_s + _AFTER_S))
    # Where members of long containers stood for others, what these hold was guessed: the last one knows.
    exact = weighed.of(set(weighed.numbers) - sampled_takes(recording, pid))
    if len(exact) < len(weighed) and not set(at_end.numbers).isdisjoint(exact.numbers) and ends_soon:
        sets.append(exact.as_if_at_work().within(start_s, end_s + _AFTER_S))
    told: set[tuple[int, ...]] = set()
    for chosen in [one for one in sets if (one.time_s >= start_s).any()] or sets:
        if len(chosen) >= 2 and chosen.numbers not in told:
            told.add(chosen.numbers)
            yield _once(recording, pid, chosen, lay_over or _of_graph)


def _of_graph_on_devices(recording: Recording, pid: int, takes: Takes) -> Heap:
    return _of_graph(recording, pid, takes, on_devices=True)


def _of_graph(recording: Recording, pid: int, takes: Takes, *, on_devices: bool = False) -> Heap:
    places = graph_places(recording, pid, takes.numbers, by_holder=True, on_devices=on_devices, weighs_alike=True)
    sampled = sampled_takes(recording, pid)
    is_exact = sampled.isdisjoint(takes.numbers)
    if not is_exact:
        _fill_unlisted(places, takes, np.isin(takes.numbers, list(sampled)))
    _carry_what_is_below(places)
    roots = _without_modules(places)
    return _laid_over(recording, takes, pid, places, roots, is_exact=is_exact)


def _fill_unlisted(places: Iterable[Place], takes: Takes, is_sampled: NDArray[np.bool_], *, min_seen: int = 4) -> None:
    """What a graph that was read in part does not list is not nothing, where it was longer in each that does.

    Between two of them it is on a straight line. What is emptied in between would have fewer members at times.
    """
    at = takes.step if np.isfinite(takes.step).all() else takes.time_s
    for place in places:
        seen = np.flatnonzero(place.count > 0)
        inside = is_sampled & (place.count == 0)
        if not place.has_length or seen.size < min_seen or not inside[seen[0] : seen[-1]].any():
            continue
        if (np.diff(place.length[seen]) < 0).any() or place.length[seen[-1]] <= place.length[seen[0]]:
            continue
        gaps = np.flatnonzero(inside)
        gaps = gaps[(gaps > seen[0]) & (gaps < seen[-1])]
        for figures in (place.deep_bytes, place.array_bytes, place.tensor_bytes, place.count, place.length):
            figures[gaps] = np.interp(at[gaps], at[seen], figures[seen])


def _carry_what_is_below(places: Sequence[Place]) -> None:
    """What held little in a snapshot, though what stands below it was there, held at least the largest of that.

    Places hang on each other as in the last snapshot. In another one a second way may have led to the same objects: a
    timer holds the task that sleeps, and that all it has, unless a task waits too; or a frame was already left.
    The largest and not the sum, since some are by turns what holds the same objects.
    """
    order = [place for place in places if place.parent is None]
    for place in order:
        order += place.children
    for place in reversed(order):
        if place.parent is not None:
            place.parent.deep_bytes = np.maximum(place.parent.deep_bytes, place.deep_bytes)


def _laid_over(
    recording: Recording, takes: Takes, pid: int, places: Iterable[Place], roots: Iterable[Place], *, is_exact: bool
) -> Heap:
    return Heap(
        pid=pid,
        time_s=takes.time_s,
        rss_bytes=takes.rss_bytes,
        free_bytes=_free_bytes(recording.tables["sentinels"], pid, takes.time_s),
        step=takes.step,
        takes=takes.numbers,
        truncated=bool(takes.is_truncated.any()),  # cut short; of a graph, sampled or without all of autograd's
        roots=tuple(roots),
        places=tuple(places),
        is_exact=is_exact,
    )


def _without_modules(places: Sequence[Place]) -> Iterator[Place]:
    """The roots; each module for the dict that has all: it grows by imports, and holds nothing that piles up."""
    for place in places:
        if place.parent is None and place.path == MODULES:
            yield from (child for child in place.children if child.row["node"] is not None)
        elif place.parent is None:
            yield place


def _free_bytes(sentinels: pd.DataFrame, pid: int, at_s: Floats) -> Floats:
    sentinels = narrow(sentinels, "pid", "time_s", "malloc_free_bytes")
    own = only(sentinels, (sentinels["pid"] == pid) & sentinels["malloc_free_bytes"].notna()).sort_values("time_s")
    if not len(own):
        return np.zeros(len(at_s))
    read_s = own["time_s"].to_numpy(dtype=np.float64)
    free_bytes = own["malloc_free_bytes"].to_numpy(dtype=np.float64)
    free: Floats = np.interp(at_s, read_s, free_bytes)
    before = free_bytes[read_s <= at_s[-1]]
    if len(before):  # what is free after the last snapshot may be all that an ending program let go of
        free[-1] = min(free[-1], before[-1])
    return free


def _fill_unseen(places: list[Place], time_s: Floats, truncated: NDArray[np.bool_]) -> None:
    """What a snapshot did not come to is not nothing: it gets the figures of the last that did, or else the next.

    A snapshot that was cut short may miss any place. Libraries, and what C code holds, are looked into only
    from the moment that memory grows which users' names do not explain: it was growing before, so what was seen is
    carried back in a straight line.
    """
    for place in places:
        seen = place.count > 0
        first = int(np.argmax(seen))
        late = place.root_kind in _LOOKED_FOR_LATER
        place.first_seen = first if late else 0
        later = np.flatnonzero(seen)[1:]
        for i in np.flatnonzero(~seen):
            if not truncated[i] and not (i < first and late):
                continue
            before = np.flatnonzero(seen[:i])
            source = int(before[-1]) if len(before) else first
            back, end = 0.0, first
            if i < first and len(later):
                end = int(later[-1])
                back = (time_s[first] - time_s[i]) / (time_s[end] - time_s[first])
            elif i < first and place.root_kind == OUTSIDE:  # seen once; it was looked for because it piles up
                back = (time_s[first] - time_s[i]) / max(time_s[first], 1e-9)
            for figures in (place.deep_bytes, place.array_bytes, place.tensor_bytes, place.count, place.length):
                rise = max(0.0, figures[end] - (figures[first] if end > first else 0.0)) if back else 0.0
                figures[i] = max(0.0, figures[source] - rise * back)


def _places(rows: pd.DataFrame, takes: Sequence[int]) -> list[Place]:
    position = {take: i for i, take in enumerate(takes)}
    size = len(takes)
    places: dict[tuple[str, str], Place] = {}
    by_path: dict[str, Place] = {}
    for row in map(_as_written, records(rows)):
        key = (row["path"], row["type_name"])
        place = places.get(key)
        if place is None:
            deep, array, tensor, count, length = np.zeros((5, size))
            place = places[key] = Place(*key, row, deep, array, tensor, count, length)
        i = position[int(row["take"])]
        place.row = row  # the newest description counts
        place.deep_bytes[i] += _number(row["deep_bytes"])
        place.array_bytes[i] += _number(row["array_deep_bytes"])
        place.tensor_bytes[i] += _number(row["tensor_deep_bytes"])
        place.count[i] += _number(row["object_count"])
        place.length[i] += _number(row["length"])
        place.has_length |= _is_number(row["length"])
    for place in places.values():
        if place.row["chained"] and not place.has_length:
            place.length, place.has_length = place.count.copy(), True  # a chain is as long as it has links
        known = by_path.get(place.path)
        # Two types at one path (an attribute that was rebound): children hang below the larger one.
        if known is None or known.deep_bytes[-1] < place.deep_bytes[-1]:
            by_path[place.path] = place
    for place in places.values():
        parent = place.row["parent_path"]
        if isinstance(parent, str) and parent in by_path and by_path[parent] is not place:
            place.parent = by_path[parent]
            place.parent.children.append(place)
    return list(places.values())


def _measure_graphs(places: list[Place], rows: pd.DataFrame) -> None:
    graphs = {place.path: place for place in places if place.type_name == GRAPH_TYPE}
    for written, count in zip(rows["path"], rows["object_count"]):
        place = graphs.get(_MODULE_DICT.sub(r".\1", written))
        if place is not None:
            place.most_nodes = max(place.most_nodes, _number(count))


_MODULE_DICTS = tuple(f".{name}" for name in MODULE_DICTS)
_MODULE_DICT = re.compile(rf"\.(?:{'|'.join(MODULE_DICTS)})\['(\w+)'\]")


def _as_written(row: dict[str, Any]) -> dict[str, Any]:
    path, parent = row["path"], row["parent_path"]
    match = _MODULE_DICT.search(path)
    if match is None:
        return row
    row = {**row, "path": _MODULE_DICT.sub(r".\1", path), "parent_path": _MODULE_DICT.sub(r".\1", parent)}
    last = list(_MODULE_DICT.finditer(path))[-1]
    if last.end() == len(path):
        row |= {"variable": last[1], "edge_kind": "attribute"}
    return row


def _number(value: Any) -> float:
    try:
        number = float(value)
    except (TypeError, ValueError):
        return 0.0
    return number if number == number else 0.0


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and value == value


def keeps_growing(values: Floats, *, min_persistence: float = 0.6, min_recent_fraction: float = 0.15) -> bool:
    """Rose more than it fell, and also lately.

    ``min_persistence``: net growth over the sum of all changes; a saw-tooth is near 0, a steady rise is 1.
    ``min_recent_fraction``: of the growth that came in the second half; a cache that filled early shows 0, a steady
    rise 0.5, jumps at a few evaluations still something.
    """
    changes = np.diff(values)
    total = float(np.abs(changes).sum())
    net = float(values[-1] - values[0])
    if total <= 0 or net <= 0 or net / total < min_persistence:
        return False
    if len(values) < 4:
        return True
    middle = values[(len(values) - 1) // 2]
    return float(values[-1] - middle) >= min_recent_fraction * net


def multiplies(place: Place, *, min_ratio: float = 1.25) -> bool:
    """More objects at this path rather than larger ones: it is what accumulates, its parent is what holds it."""
    seen = np.flatnonzero(place.count > 0)
    if not len(seen):
        return False
    first, last = min(max(seen[0], place.first_seen), seen[-1]), seen[-1]
    if first == last or place.count[-1] <= 0:
        return bool(place.count[-1] > 1)
    count_ratio = place.count[-1] / place.count[first]
    size_ratio = (place.deep_bytes[-1] / place.count[-1]) / max(place.deep_bytes[first] / place.count[first], 1.0)
    if place.count[-1] - place.count[first] < 2 or count_ratio < min_ratio:
        return False
    return bool(size_ratio <= count_ratio)


@dataclass(frozen=True, eq=False)
class Accumulation:
    """A place whose contents multiply; ``members`` are the paths below it that carry the growth.

    ``is_guess``: its growth was not weighed, but put down to it for want of another. ``handle``: what its members are
    or hold that stands for memory outside Python, ``bytes_each`` of it for each member, where it grew in step.
    ``largest``: of several places below it over which its growth spreads, the one that gained most.
    """

    place: Place | None
    growth_bytes: float
    members: tuple[Place, ...]
    is_guess: bool = False
    handle: Place | None = None
    bytes_each: float | None = None
    largest: Place | None = None


def accumulations(roots: tuple[Place, ...], threshold_bytes: float) -> Iterator[Accumulation]:
    """Every accumulation point with at least ``threshold_bytes`` of lasting growth, in no order.

    Not where Python itself lists the threads that run: what piles up there are threads.
    """
    for found in _accumulations(roots, threshold_bytes):
        place = found.place
        if place is None or (place.path != THREADS_ALIVE and place.is_certain_to_grow):
            yield found


def _accumulations(roots: tuple[Place, ...], threshold_bytes: float) -> Iterator[Accumulation]:
    for root in roots:
        if _is_on_its_way(root):
            continue
        if _grows(root, threshold_bytes) and multiplies(root):
            if root.root_kind == "thread":
                continue  # ever more threads, each with its locals: that is thread-pileup's finding
            if root.root_kind in ("task", "generator", "frame", OUTSIDE):
                yield Accumulation(root, root.growth_bytes, (root,))
                continue
        yield from _below(root, threshold_bytes, is_growing=_grows(root, threshold_bytes))


def _below(root: Place, threshold_bytes: float, *, is_growing: bool) -> Iterator[Accumulation]:
    """Also in places that do not grow: what comes and goes in one may be more than what one thing in it gains.

    Without recursion: a chain of objects may be of any length.
    """
    order = [(root, is_growing)]
    parts: list[tuple[list[Place], list[Place], list[Place]]] = []  # of each: what grows in it, its members, the others
    for place, grows in order:  # which becomes longer
        growing = [c for c in place.children if _grows(c, threshold_bytes) and (grows or _by_itself(c))]
        arrived = _arrived(place, growing)
        members = [
            c for c in growing if c in arrived or (_may_be_member(c) and (multiplies(c) or _are_ever_more(c, place)))
        ]
        others = [c for c in place.children if c not in members]
        parts.append((growing, members, others))
        order += [(c, c in growing) for c in others]
    told: dict[int, float] = {}  # bytes of all that was found in a place
    for (place, grows), (growing, members, others) in zip(reversed(order), reversed(parts)):
        hidden = sum(told[id(c)] for c in others if c not in growing)
        rest = place.growth_bytes - hidden - sum(c.growth_bytes for c in growing if c not in members)
        if not grows:
            is_told, rest = bool(members), sum(c.growth_bytes for c in members)
        else:
            is_lowest = not growing and not hidden
            least = threshold_bytes if is_lowest else max(threshold_bytes, 0.5 * place.growth_bytes)
            is_told = bool(members) or rest >= least
        if is_told:
            yield Accumulation(place, rest, tuple(members))
        told[id(place)] = sum(told[id(c)] for c in others) + (rest if is_told else 0.0)


def _grows(place: Place, threshold_bytes: float) -> bool:
    return place.growth_bytes >= threshold_bytes and (keeps_growing(place.deep_bytes) or _is_filled(place))


def _is_on_its_way(root: Place) -> bool:
    """A local of a library's that was nowhere before the last of several snapshots: of a call that ran just then."""
    if len(root.deep_bytes) < 3 or root.deep_bytes[-1] <= 0 or root.deep_bytes[:-1].any():
        return False
    return root.root_kind == "frame" and not root.is_user


def _by_itself(place: Place) -> bool:
    return _in_many_steps(place.deep_bytes) or _is_filled(place)


def _is_filled(place: Place) -> bool:
    """It has ever more members, whatever they hold alone: what others hold with them counts there now, and now here."""
    return place.has_length and keeps_growing(place.length, min_persistence=0.9) and _in_many_steps(place.length)


def _in_many_steps(values: Floats, *, least: float = 2.5) -> bool:
    """It rose as in ``least`` equal steps or more: what only moved there from beside did so in one."""
    rises = np.maximum(np.diff(values), 0.0)
    return bool(rises.sum() ** 2 >= least * np.square(rises).sum() > 0)


def _arrived(place: Place, growing: Sequence[Place], *, least: int = 3) -> list[Place]:
    """Members so large that each is told alone: none of them grew, but there are ever more in the container."""
    kind = "global" if place.row["edge_kind"] == "namespace" else "item"
    new = [child for child in growing if child.row["edge_kind"] == kind and child.deep_bytes[0] == 0]
    more = float(place.length[-1] - place.length[0]) if place.has_length else 0.0
    return new if len(new) >= least and more >= len(new) and keeps_growing(place.length) else []


def _are_ever_more(members: Place, container: Place) -> bool:
    """Told together, while in an earlier snapshot most had rows of their own: the container has the count."""
    are_together = members.row.get("node") is None and members.row["edge_kind"] == "item"
    return are_together and container.has_length and keeps_growing(container.length)


def _may_be_member(place: Place) -> bool:
    """The dicts in which a torch module keeps its parts are no members of it, though each part has such dicts, too."""
    return place.row["edge_kind"] in _MEMBER_EDGES and not place.path.endswith(_MODULE_DICTS)


_MEMBER_EDGES = frozenset(("item", "key", "reference", "base", "attribute", "local"))


def user_place(place: Place) -> Place:
    """The nearest place up the path that the user's own code names; the place itself if there is none.

    What several hold hangs below what they have in common, and its path still leads by one of them: that way is gone
    where the other has no such name. Then the nearest that a library names, where the place has no name itself.
    """
    ways = list(_up(place, by_name=False)), list(_up(place, by_name=True))
    for way in ways:
        for found in way:
            if found.is_user and _is_naming(found):
                return found
    if not isinstance(place.row["variable"], str) and place.named_by is not None:
        named = (found for found in ways[1] if _is_naming(found) and isinstance(found.row["variable"], str))
        return next((found for found in named if not calls_at_the_end(found)), place)
    return place


def calls_at_the_end(place: Place) -> bool:
    """A registry of what is to be called as something ends: it leads to everything, and says of nothing whose it is."""
    is_registry = place.row["edge_kind"] in ("global", "class-attribute")
    return is_registry and place.row["owner_module"] in _CALL_AT_THE_END


_CALL_AT_THE_END = frozenset(("atexit", "multiprocessing.util", "weakref"))


def user_holder(place: Place) -> Place:
    """``user_place``, if that gained with it; the place itself where what it holds is told as somebody else's, too."""
    named = user_place(place)
    return named if named.growth_bytes >= MOST * place.growth_bytes else place


def _up(place: Place, *, by_name: bool) -> Iterator[Place]:
    """The place, and those above it: ``by_name`` along its path, else as one keeps the other."""
    known: set[int] = set()
    found: Place | None = place
    while found is not None and id(found) not in known:
        yield found
        known.add(id(found))
        found = (found.named_by if by_name else None) or found.parent


def _is_naming(place: Place) -> bool:
    return place.row["edge_kind"] in NAMING_EDGES and not place.path.endswith(_MODULE_DICTS)


NAMING_EDGES = frozenset(("local", "global", "attribute", "class-attribute", "cell", "default", "cache"))


def heaviest_leaf(place: Place) -> Place:
    """Down the path that carries most of the growth: what the memory is made of in the end."""
    while True:
        heavy = [c for c in place.children if c.growth_bytes >= 0.5 * place.growth_bytes > 0]
        if not heavy:
            return place
        place = max(heavy, key=lambda c: c.growth_bytes)


def weighs_in_members(place: Place) -> Place | None:
    """What most of each of its members is, by way of one that was looked into: an attribute's member with a key.

    None where the members differ in that, where it is spread over several, or where nothing below them has a key.
    """
    looked_at = [one for one in place.children if one.row["edge_kind"] == "item" and one.children]
    found = [below for one in looked_at if (below := _by_key_below(one)) is not None]
    keys = {below.path.rpartition("[")[2] for below in found}
    return found[0] if len(found) * 2 > len(looked_at) and len(keys) == 1 else None


def _by_key_below(member: Place) -> Place | None:
    at = int(np.argmax(member.deep_bytes))
    found, place = None, member
    while place.children:
        place = max(place.children, key=lambda child: float(child.deep_bytes[at]))
        if place.deep_bytes[at] < MOST * member.deep_bytes[at]:
            break
        if place.path.endswith("']"):
            found = place
    return found


def graph_below(place: Place) -> Place | None:
    """One of the autograd graphs that hang on it and its members, if these are most of what it gained."""
    below = [place]
    for one in below:
        below += one.children
    graphs = [one for one in below if one.type_name == GRAPH_TYPE]
    if not graphs or sum(one.growth_bytes for one in graphs) < 0.5 * place.growth_bytes:
        return None
    return max(graphs, key=lambda one: one.growth_bytes)
