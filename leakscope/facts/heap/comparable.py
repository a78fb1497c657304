"""The snapshots of one process, laid over each other: what each place held at each of them. All, or those of a window
that may be compared.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from ...agent.libraries import is_harmless
from ...storage import Recording, Rows
from ...units import ENDS_S, FEWEST, LITTLE, MOST
from ..code.index import tail
from ..remembered import remembered
from ..tables import AT_EXIT, narrow, only
from .graph import graph_places
from .naming import MODULES
from .place import Floats, Place, downwards
from .takes import Takes, sampled_takes, takes_of, takes_with_graph

_OF_MALLOC = ("malloc_free_bytes", "malloc_in_use_bytes", "rss_bytes")
_ARRAYS = ("numpy.ndarray", "torch.Tensor")
_AFTER_S = ENDS_S  # the window ends before the last samples: a program takes itself down


@dataclass(frozen=True, eq=False)
class Heap:
    """The snapshots of one process. ``time_s``, ``rss_bytes``, ``free_bytes``, ``step``: one value a snapshot.

    ``free_bytes`` is what malloc keeps free; zeros where nobody read it. ``tensor_count``: live tensors by the count of
    their type, where that was read.
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
    tensor_count: Floats | None = None

    @cached_property
    def by_number(self) -> dict[int, Place]:
        """{number of an object: the place that it is, or is a part of}."""
        return {number: place for place in self.places for number in place.numbers}

    @cached_property
    def own_arrays(self) -> frozenset[tuple[str, str]]:
        """(function, class or module, name) of arrays that have memory: who shows another's has next to none."""
        arrays = (one for one in self.places if one.type_name in _ARRAYS and one.deep_bytes.max() >= LITTLE)
        return frozenset((tail(one.reference.owner), one.reference.variable or "") for one in arrays)

    def opaque(self, most: int = 3) -> list[Place]:
        """Objects of the user's whose inside Python cannot see, the shortest way first: databases, picklers, parsers,
        caches of C extensions.
        """
        found = {place.path: place for place in self.places if place.opaque and place.is_user}
        told = [place for place in found.values() if not is_harmless(place.type_name)]
        return sorted(told, key=lambda place: (len(place.path), place.path))[:most]


@remembered
def whole_heap(recording: Recording, pid: int) -> Heap:
    """All that was read of a process, for who asks about one object or one moment. Empty where no heap was read."""
    takes = takes_of(recording, pid)
    takes = takes.at(takes.has_graph)
    return _heap(recording, pid, takes, graph_places(recording, pid, takes.numbers) if len(takes) else [])


def heaps(recording: Recording, pid: int, start_s: float, end_s: float, *, on_devices: bool = False) -> Iterator[Heap]:
    """The snapshots of a process in a window that may be compared: those that weighed tensors if the last did, then the
    others. Shared by all who ask: do not change them.

    Where none of those that weighed can be compared, or all lie before the window, the last takes part though the
    process was ending: the locals of main() are gone by then, and what still grew was kept to the end. So it does
    beside those that read all objects, where others read only some.
    """
    takes = takes_of(recording, pid)
    if len(takes) < 2:
        return
    takes = takes.since_training_began(end_s)
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
            yield _laid_over(recording, pid, chosen, on_devices)


def heap_of(recording: Recording, pid: int, start_s: float, end_s: float) -> Heap | None:
    """The set of snapshots to be believed first; None where no two can be compared."""
    return next(heaps(recording, pid, start_s, end_s), None)


def heap_at_work(recording: Recording, pid: int) -> Heap | None:
    """All snapshots but that of the end, for who asks what was held last; None where there is none."""
    takes = takes_of(recording, pid)
    at_end = takes.at(takes.reason == AT_EXIT)
    working = takes.of(takes_with_graph(recording, pid, but=at_end.numbers))
    return _laid_over(recording, pid, working) if len(working) else None


def heap_to_the_end(recording: Recording, pid: int, start_s: float, end_s: float) -> Heap | None:
    """The graphs of a process with the one that was read as it ended; None where that was not to be had.

    The locals of main() are gone in that: what stands in it was kept to the end, and of what does not it says nothing.
    """
    takes = takes_of(recording, pid).since_training_began(end_s)
    weighed = takes.of(takes_with_graph(recording, pid))
    if not (weighed.reason == AT_EXIT).any():
        return None
    chosen = weighed.as_if_at_work().within(start_s, end_s + _AFTER_S)
    return _laid_over(recording, pid, chosen) if len(chosen) >= 2 else None


def device_heap_of(recording: Recording, pid: int, start_s: float, end_s: float) -> Heap | None:
    """Like ``heap_of``, but bytes are GPU bytes held by tensors. None also where no snapshot knows of any."""
    graphs = recording.rows["heap_graphs"]
    if not graphs["device_bytes"][graphs["pid"] == pid].notna().any():
        return None
    return next(heaps(recording, pid, start_s, end_s, on_devices=True), None)


@remembered
def _laid_over(recording: Recording, pid: int, takes: Takes, on_devices: bool = False) -> Heap:
    places = graph_places(recording, pid, takes.numbers, on_devices=on_devices, weighs_alike=True)
    sampled = sampled_takes(recording, pid)
    if not sampled.isdisjoint(takes.numbers):
        _fill_unlisted(places, takes, np.isin(takes.numbers, list(sampled)))
        _fill_before_listed(places, takes, np.isin(takes.numbers, list(sampled)))
        _keep_what_was_met(places, takes, np.isin(takes.numbers, list(sampled)))
    _carry_what_is_below(places)
    return _heap(recording, pid, takes, places)


def _heap(recording: Recording, pid: int, takes: Takes, places: Sequence[Place]) -> Heap:
    return Heap(
        pid=pid,
        time_s=takes.time_s,
        rss_bytes=takes.rss_bytes,
        free_bytes=_free_bytes(recording.rows["sentinels"], pid, takes.time_s),
        step=takes.step,
        takes=takes.numbers,
        truncated=bool(takes.is_truncated.any()),  # sampled or without all of autograd's
        roots=tuple(_without_modules(places)),
        places=tuple(places),
        is_exact=sampled_takes(recording, pid).isdisjoint(takes.numbers),
        tensor_count=tensor_count_at(recording.rows["sentinels"], pid, takes.time_s),
    )


def _fill_unlisted(places: Iterable[Place], takes: Takes, is_sampled: NDArray[np.bool_]) -> None:
    """What a graph that was read in part does not list is not nothing, where it was longer in each that does.

    Between two of them it is on a straight line. What is emptied in between would have fewer members at times. After
    the last of them it has as much, unless the process has given back half of that since.
    """
    at = takes.step if np.isfinite(takes.step).all() else takes.time_s
    for place in places:
        seen = np.flatnonzero(place.count > 0)
        gaps = np.flatnonzero(is_sampled & (place.count == 0))
        if not place.has_length or seen.size <= FEWEST or not (gaps > seen[0]).any():
            continue
        last = seen[-1]
        if (np.diff(place.length[seen]) < 0).any() or place.length[last] <= place.length[seen[0]]:
            continue
        given_back = takes.rss_bytes[last] - takes.rss_bytes > (1 - MOST) * place.deep_bytes[last]
        gaps = gaps[(gaps > seen[0]) & ~((gaps > last) & (given_back | takes.is_last)[gaps])]
        for one in (place, *(child for child in place.children if child.node is None)):  # its members, told together
            for figures in (one.deep_bytes, one.array_bytes, one.tensor_bytes, one.count, one.length):
                figures[gaps] = np.interp(at[gaps], at[seen], figures[seen])


def _fill_before_listed(places: Iterable[Place], takes: Takes, is_sampled: NDArray[np.bool_]) -> None:
    """One that has a member or more for each step, as many in all that list it, two or more, had so from the first.

    Graphs that were read in part leave out what is small: a list that a loop adds to at each step was that once.
    """
    at = takes.step
    if not (np.isfinite(at).all() and (at > 0).all()):
        return
    for place in places:
        seen = np.flatnonzero(place.count > 0)
        if not place.has_length or seen.size < 2 or not seen[0] or not is_sampled[: seen[0]].all():
            continue
        each = place.length[seen[-1]] / at[seen[-1]]
        if each < 1 or (np.abs(place.length[seen] - each * at[seen]) > each).any():  # a snapshot may be within a step
            continue
        for figures in (place.deep_bytes, place.array_bytes, place.tensor_bytes, place.length):
            figures[: seen[0]] = figures[seen[0]] * at[: seen[0]] / at[seen[0]]
        place.count[: seen[0]] = place.count[seen[0]]


def _keep_what_was_met(places: Iterable[Place], takes: Takes, is_sampled: NDArray[np.bool_]) -> None:
    """What has more members than before, and less in them by a part that met few, has what it had, and in each new one
    as much as in those before, as far as the process gained that.

    Lengths are read as they are, and what is in members is not. Not where the process has given half of it back since.
    """
    gained = np.diff(takes.rss_bytes)
    for place in places:
        for at in np.flatnonzero(is_sampled[1:]) + 1 if place.has_length and place.count[-1] > 0 else ():
            before, longer = float(place.deep_bytes[at - 1]), place.length[at] / max(1.0, place.length[at - 1])
            if longer <= 1.0 or place.deep_bytes[at] >= before or -gained[at - 1] > (1 - MOST) * before:
                continue
            now = before + min(before * (longer - 1.0), max(0.0, float(gained[at - 1])))
            for figures in (place.deep_bytes, place.array_bytes, place.tensor_bytes):
                figures[at] = max(figures[at], figures[at - 1] * now / before)


def _carry_what_is_below(places: Sequence[Place]) -> None:
    """What held little in a snapshot, though what stands below it was there, held at least the largest of that.

    Places hang on each other as in the last snapshot. In another one a second way may have led to the same objects: a
    timer holds the task that sleeps, and that all it has, unless a task waits too; or a frame was already left.
    The largest and not the sum, since some are by turns what holds the same objects.
    """
    for place in reversed(downwards(place for place in places if place.parent is None)):
        if place.parent is not None:
            place.parent.deep_bytes = np.maximum(place.parent.deep_bytes, place.deep_bytes)


def _without_modules(places: Sequence[Place]) -> Iterator[Place]:
    """The roots; each module for the dict that has all: it grows by imports, and holds nothing that piles up."""
    for place in places:
        if place.parent is None and place.path == MODULES:
            yield from (child for child in place.children if child.node is not None)
        elif place.parent is None:
            yield place


def tensor_count_at(sentinels: Rows, pid: int, at_s: Floats) -> Floats | None:
    """Live tensors of a process, on straight lines between two counts, of which there is one a second."""
    sentinels = narrow(sentinels, "pid", "time_s", "tensor_count")
    own = only(sentinels, (sentinels["pid"] == pid) & sentinels["tensor_count"].notna()).sort_values("time_s")
    if not len(own):
        return None
    time_s, count = (own[column].to_numpy(dtype=np.float64) for column in ("time_s", "tensor_count"))
    at: Floats = np.interp(at_s, time_s, count)
    return at


def _free_bytes(sentinels: Rows, pid: int, at_s: Floats) -> Floats:
    """No more than there is room for beside what is in use: malloc also counts as free what it has returned."""
    sentinels = narrow(sentinels, "pid", "time_s", *_OF_MALLOC)
    own = only(sentinels, (sentinels["pid"] == pid) & sentinels["malloc_free_bytes"].notna()).sort_values("time_s")
    if not len(own) or not len(at_s):
        return np.zeros(len(at_s))
    read_s = own["time_s"].to_numpy(dtype=np.float64)
    said, in_use, rss = (own[name].to_numpy(dtype=np.float64) for name in _OF_MALLOC)
    free_bytes = np.fmin(said, np.maximum(0.0, rss - in_use))
    free: Floats = np.interp(at_s, read_s, free_bytes)
    before = free_bytes[read_s <= at_s[-1]]
    if len(before):  # what is free after the last snapshot may be all that an ending program let go of
        free[-1] = min(free[-1], before[-1])
    return free
