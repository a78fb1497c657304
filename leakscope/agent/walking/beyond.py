"""What no name of the user's leads to, and grows all the same: the containers and caches of libraries, and what only C
code holds. Looked for where memory grows that the walk from the user's names does not explain; runs in a snapshot.

``memory`` is what is remembered from one snapshot to the next: numbers and names, never an object.
"""

from __future__ import annotations

import sys
import types
from _functools import _lru_cache_wrapper
from _operator import itemgetter, not_
from itertools import compress

from ..interpreter import names, reading
from . import openers, referrers
from .heap import CONTAINERS
from .sampling import SAMPLE, spread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Any

    from ..interpreter.names import ByClass, Named
    from .remembered import Remembered
    from .walk import Walk

LARGE_LENGTH = 1000  # a container of a library this long is remembered, so that its growth is seen at the next snapshot
LIBRARY_GROWTH = 16  # members that a library's container gained since the last snapshot, or a fifth of what it had
HIDDEN_FRACTION = 0.5  # of the growth of resident memory: when the walk explains less, libraries are looked into
HIDDEN_MIN_BYTES = 8 * 1024 * 1024
IMPORTING = 1.03  # more modules than that times those at the last snapshot: the program is still starting up
MOST_LARGE = 5  # containers of a library whose name is asked for in one snapshot
_LRU_CACHE = _lru_cache_wrapper


class Beyond:
    """Of one snapshot: ``types`` and ``least_length`` say what the sweep should pick, ``keep`` gets it."""

    def __init__(self, memory: Remembered) -> None:
        self.memory = memory
        _note_imports(memory)
        self._outside = _classes_held_outside(memory)
        self.types = names.ids_of(_LRU_CACHE, *(cls for cls, _ in self._outside.items()))
        self.least_length = LARGE_LENGTH if self._looks_for_large_containers() else None
        self._large: list[Any] = []
        self._caches: list[Any] = []
        self._held_outside: list[tuple[type, Any, list[Any]]] = []

    def keep(self, picked: list[Any], large: list[Any]) -> None:
        """Of the objects that the sweep picked, those that ``feed`` begins at; ``large``: the long containers."""
        self._large = large
        self._caches = [obj for obj in picked if type(obj) is _LRU_CACHE and _length_of(obj) >= LARGE_LENGTH]
        self._held_outside = [
            (cls, place, [obj for obj in picked if type(obj) is cls]) for cls, place in self._outside.items()
        ]

    def held(self) -> frozenset[int]:
        """Ids of the objects that lists of ours refer to meanwhile: each counts one reference too many."""
        return frozenset(id(obj) for alike in (self._large, *(a for _, _, a in self._held_outside)) for obj in alike)

    def feed(self, walk: Walk, deadline: float) -> None:
        """Begin at what the walk has not met, and let go of it. ``deadline``: for asking names."""
        try:
            self._library_caches(walk)
            self._library_containers(walk)
            if self._looks_for_large_containers():
                self._large_containers(walk, deadline)
            for cls, place, alike in self._held_outside:
                _feed_held_outside(walk, cls, alike, place)
        finally:
            self._large, self._caches, self._held_outside = [], [], []

    def _library_caches(self, walk: Walk) -> None:
        """A cached method of a library keeps its objects alive."""
        for cache in self._caches:
            function = (reading.attributes_of(cache) or {}).get("__wrapped__")
            code = names.getattr_code(function)
            if code is not None and id(cache) not in walk.seen:
                name, module, _file, _line = names.names_of(function)
                walk.root("library", f"{module}.{name}", openers.CACHE, cache, None)
        walk.run()

    def _library_containers(self, walk: Walk) -> None:
        """Those with a name in a library that grew since the last snapshot: walked then, and at each snapshot after."""
        memory = self.memory
        if not memory.is_growth_hidden:
            return
        growing = memory.growing_libraries
        before: Any = memory.library_lengths
        now: dict[str, int] = {}
        for label, named, obj in _containers_of_libraries():
            now[label] = length = len(obj)
            if before is not None:
                known = before.get(label, 0)
                if length - known >= max(LIBRARY_GROWTH, known // 5):
                    growing.add(label)
            if label in growing and id(obj) not in walk.seen:
                memory.is_growth_named = True  # and stays looked at, though no longer hidden
                walk.root("library", label, openers.GLOBAL, obj, named)
                walk.run()
        memory.library_lengths = now

    def _looks_for_large_containers(self) -> bool:
        memory = self.memory
        return bool(memory.library_names) or (memory.is_growth_hidden and not memory.is_growth_named)

    def _large_containers(self, walk: Walk, deadline: float) -> None:
        """Long ones that have no name of their own: known by who refers to them, asked once they grew."""
        before: Any = self.memory.large
        unseen = [obj for obj in self._large if id(obj) not in walk.seen]
        self.memory.large = {id(obj): len(obj) for obj in unseen}
        known = self.memory.library_names
        grown = []
        for obj in unseen if before is not None else ():
            length = before.get(id(obj), 0)
            if id(obj) in known or (length and len(obj) - length >= max(LARGE_LENGTH // 4, length // 20)):
                grown.append(obj)
        grown.sort(key=lambda obj: (id(obj) not in known, -len(obj)))
        own = (id(self._large), id(unseen), id(grown))
        for obj in grown[:MOST_LARGE]:
            if id(obj) not in known:
                chain = referrers.chain_to(obj, self.memory, own, deadline)
                if chain is None or chain.named is None:
                    continue
                known[id(obj)] = (chain.label, chain.named)
            label, named = known[id(obj)]
            self.memory.is_growth_named = True
            if id(obj) not in walk.seen:
                walk.root("library", label, openers.GLOBAL, obj, named)
                walk.run()


def note_growth(memory: Remembered, rss: int | None, explained: float) -> None:
    """Does memory grow that the walks do not see? Then the next snapshot also looks into libraries.

    ``rss`` is of the moment when the walk began, whose sum is ``explained``: both of one instant, or what grew in
    between would look hidden.
    """
    if rss is None or memory.is_growth_named:
        return
    now = (rss, explained)
    memory.first = memory.first or now
    since = (memory.first, memory.last or now)
    memory.last = now
    # Since the first alone, what steps need at first (pools, a backend's code) would stay hidden growth.
    memory.is_growth_hidden = rss - since[0][0] > HIDDEN_MIN_BYTES and all(
        explained - explained_then < HIDDEN_FRACTION * (rss - rss_then) for rss_then, explained_then in since
    )


def _note_imports(memory: Remembered) -> None:
    """Imports fill the libraries' own tables (torch's registries of operators): that is no growth to look into."""
    modules = len(sys.modules)
    if modules > IMPORTING * memory.module_count:
        memory.module_count = modules
        memory.forget_growth()


def _classes_held_outside(memory: Remembered) -> ByClass:
    """{class: (file, line)} of the user's, whose objects the snapshot before found held by nothing in Python."""
    found = names.ByClass()
    for (module, name), place in list(memory.outside.items()):
        cls = names.getattr_plain(sys.modules.get(module or ""), name.rsplit(".", 1)[-1])
        if names.is_a(type(cls), type):
            found.set(cls, place)
    return found


def _feed_held_outside(walk: Walk, cls: type, alike: list[Any], place: tuple[str, int | None]) -> None:
    """What only C code holds (exit handlers, a table of an extension) begins at the objects themselves."""
    alike = [obj for obj in alike if id(obj) not in walk.seen]
    name = names.type_name(cls)
    named = (name.rsplit(".", 1)[-1], None, names.module_of(cls), place[0], place[1], True)
    sample = spread(alike, min(SAMPLE, len(alike)), walk.next_phase()) if alike else []
    weight = len(alike) / float(len(sample) or 1)
    while sample:
        walk.push(sample.pop(), None, name + " objects outside Python", openers.GLOBAL, weight, "outside", named)
    walk.run()


def _length_of(cache: Any) -> int:
    return len(reading.results_of(cache) or ())


def _containers_of_libraries() -> Iterator[tuple[str, Named, Any]]:
    """(label, named, container) of the containers that libraries keep in globals, classes and global instances.

    What a library holds on the user's behalf (open figures, handlers, registries) hangs there, out of reach of users'
    names. **Cost** 150 ms with torch loaded, so it is asked only while memory grows that the walk cannot see.
    """
    for module_name, module in list(sys.modules.items()):
        namespace = names.namespace_of_module(module)
        file = names.module_file(module_name)
        if namespace is None or type(module_name) is not str or names.is_user_module(module_name, file):
            continue
        items = list(namespace.items())  # a copy: another thread may import
        unusual = map(not_, map(_PLAIN.__contains__, map(id, map(type, map(_second, items)))))
        for name, value in list(compress(items, unusual)):
            kind = type(value)
            if type(name) is not str or (name[:2] == "__" and name not in _GROWING_DUNDERS):
                continue
            label = module_name + "." + name
            if id(kind) in CONTAINERS:
                yield label, (name, module_name, module_name, file, None, False), value
            elif names.is_a(kind, type):
                own = names.namespace_of(value)
                if names.module_of(value) == module_name and _has_container(own):
                    for found in _containers_in(own, label, name, module_name, file):
                        yield found
            else:
                attributes = reading.attributes_of(value)
                if attributes is not None and _has_container(attributes):
                    owner = names.type_name(kind).rsplit(".", 1)[-1]
                    for found in _containers_in(attributes, label, owner, module_name, file):
                        yield found


def _has_container(namespace: Mapping[Any, Any]) -> bool:
    return any(map(CONTAINERS.__contains__, map(id, map(type, list(namespace.values())))))


def _containers_in(
    namespace: Mapping[Any, Any], label: str, owner: str, module: str, file: str | None
) -> Iterator[tuple[str, Named, Any]]:
    for name, value in list(namespace.items()):
        if id(type(value)) in CONTAINERS and type(name) is str and name[:2] != "__":
            yield label + "." + name, (name, owner, module, file, None, False), value


_second = itemgetter(1)
_GROWING_DUNDERS = frozenset(("__warningregistry__",))  # the others say what a module or class is
_PLAIN = names.ids_of(
    types.FunctionType, types.BuiltinFunctionType, types.ModuleType, type(None), bool, int, float, str, bytes, tuple,
    # Each module has one; that of a frozen module is a class.
    *(kind for kind in (type(types.__spec__), type(types.__loader__)) if kind is not type),  # type: ignore[comparison-overlap]
)  # fmt: skip
