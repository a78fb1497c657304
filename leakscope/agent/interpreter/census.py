"""Every object that the collector knows, counted by type, and those of some types picked out. Runs in the job.

While a list of all objects exists, only C code runs, which the interpreter does not interrupt. Otherwise another thread
could drop an object that is in the list: it would live on until the list is gone, and be finalized on this thread. (In
four snapshots of a program with two threads that make half a million objects a second, that were 200 of them.)
"""

from __future__ import annotations

import ctypes
from _collections import defaultdict
from _functools import partial
from _operator import length_hint
from gc import get_objects
from itertools import chain, compress, repeat, tee

from . import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, List, Tuple

    Swept = Tuple[List[Tuple[type, int]], List[Any]]


_GENERATIONS = range(3)
_MANY = 1 << 40
_NONE = ()  # what stands where a list has ended
_BLOCK = 64  # more than itertools.tee keeps together (57)
_static_types: set[int] = (
    set()
)  # their addresses; never freed, but their references are counted as the interpreter ends
_accepted = defaultdict(set)  # is_wanted -> addresses of the types that it accepted


def sweep(
    wanted: Iterable[int] = (), is_wanted: Callable[[type], bool] | None = None
) -> tuple[names.ByClass, list[Any]]:
    """(counts by class, the objects of the types with the ids ``wanted`` and of those that ``is_wanted`` accepts). The
    collector must be held back.

    **Cost** 250 ms per million objects on a slow machine, in which no other thread runs (a full collection takes as
    long); again as much where types are met for the first time that ``is_wanted`` accepts.
    """
    metaclasses = _metaclasses()
    chosen = chosen_by(is_wanted, wanted)
    counts, picked = _pass(chosen.union(metaclasses))
    classes = {id(cls): cls for cls in picked if id(type(cls)) in metaclasses}
    classes.update(_unlisted({address for address, count in counts.items() if count} - classes.keys()))
    if is_wanted is not None:
        if _accept(is_wanted, _census(counts, classes)):
            counts, picked = _pass(chosen_by(is_wanted, wanted))
        chosen = chosen_by(is_wanted, wanted)
    census = _census(counts, classes)
    picked = [obj for obj in picked if id(type(obj)) in chosen]
    return census, picked


def _census(counts: dict[int, int], classes: dict[int, type]) -> names.ByClass:
    census = names.ByClass()
    for address, count in counts.items():
        if count and address in classes:
            census.set(classes[address], count)
    return census


def picked_of(read: Swept, is_wanted: Callable[[type], bool] | None) -> tuple[list[Any], int]:
    """(what was picked, by ``chosen_by``, as the graph of all objects was read (graph/heap_graph.py); how many objects
    there are that ``is_wanted`` accepts). Of these, types that nobody knew are picked the next time.
    """
    counted, picked = read
    if is_wanted is None:
        return picked, 0
    census = names.ByClass()
    for cls, count in counted:
        census.set(cls, count)
    _accept(is_wanted, census)
    accepted = _accepted[is_wanted]
    return picked, sum(count for cls, count in counted if id(cls) in accepted)


def chosen_by(is_wanted: Callable[[type], bool] | None, wanted: Iterable[int]) -> set[int]:
    """Addresses of the types to pick, as far as they are known before all types are."""
    return _accepted[is_wanted].union(wanted)


def _accept(is_wanted: Callable[[type], bool], census: names.ByClass) -> bool:
    """Whether it accepts types that were not known. One that no object has now may be back at the next look; or another
    type lies there then."""
    known = _accepted[is_wanted]
    accepted = {id(cls) for cls, _ in census.items() if is_wanted(cls)}
    fresh = accepted - known
    known &= accepted
    known |= fresh
    return bool(fresh)


def _every(generation: int) -> tuple[Iterator[Any], ...]:
    """The objects of one generation of the collector's, listed when the first is asked for; twice, to go along.

    ``tee`` keeps those that only one of both has come to, in blocks which are objects themselves: of the youngest
    generation, which must not list them, or they would keep each other alive. There a second list goes along; what was
    made in between is at its end. The padding leaves nothing of the job's in the last block.
    """
    if generation:
        return tee(chain(_listed(generation), repeat(_NONE, _BLOCK)))
    return chain(_listed(0), repeat(_NONE)), _listed(0)


def _listed(generation: int) -> Iterator[Any]:
    return chain.from_iterable(map(get_objects, (generation,)))


def _pass(addresses: Iterable[int]) -> tuple[dict[int, int], list[Any]]:
    """({address of a type: count}, the objects of those at ``addresses``)."""
    counters = defaultdict(partial(repeat, 0, _MANY))  # each time one is asked, one less is left
    counters.update((address, repeat(1, _MANY)) for address in addresses)
    picked: list[Any] = []
    for generation in _GENERATIONS:
        objects, alike = _every(generation)
        picked.extend(compress(objects, map(next, map(counters.__getitem__, map(id, map(type, alike))))))
    counts = {address: _MANY - length_hint(counter) for address, counter in counters.items()}
    counts[id(tuple)] -= _BLOCK * (len(_GENERATIONS) - 1)
    return counts, _without_itself(picked)


def _without_itself(found: list[Any]) -> list[Any]:
    """A list that is filled is among the objects: it would keep itself alive, and all others with it."""
    others = [obj for obj in found if obj is not found and obj is not _NONE]
    del found[:]
    return others


def _metaclasses() -> dict[int, type]:
    """{address: class of classes}."""
    found: dict[int, type] = {}
    queue: list[Any] = [type]
    while queue:
        meta = queue.pop()
        if id(meta) not in found:
            found[id(meta)] = meta
            queue += type.__subclasses__(meta)
    return found


def _unlisted(addresses: set[int]) -> dict[int, type]:
    """{address: type} of those that the collector does not list: made by C code for good, or frozen (gc.freeze)."""
    found: dict[int, type] = {}
    if not addresses <= _static_types:
        seen, queue = set(), [object]
        while queue:
            cls = queue.pop()
            if id(cls) in seen:
                continue
            seen.add(id(cls))
            queue += type.__subclasses__(cls)
            if not names.flags_of(cls) & names.HEAPTYPE:
                _static_types.add(id(cls))
            elif id(cls) in addresses:
                found[id(cls)] = cls
    found.update((address, ctypes.cast(address, ctypes.py_object).value) for address in addresses & _static_types)
    return found
