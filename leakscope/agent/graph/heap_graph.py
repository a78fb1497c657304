"""The whole heap of a process as a graph: when it may be read, and the rows that are made of it. Runs in the job.

``read`` is called with the snapshot, where the job's objects hold still. What it found is worked out by the agent's
thread afterwards, without the GIL; and then the nodes that matter are looked at once more, for the names they go by.
"""

from __future__ import annotations

import ctypes
import os
import sys
from time import thread_time

from . import layout

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

    Swept = tuple[list[tuple[type, int]], list[Any], list[Any]]

LIBRARY = "libleakscope_graph.so"

LEAST_BYTES = 64 * 1024  # that a node retains, to be written down
MOST_NODES = 250  # and those on their ways to the root
MOST_TYPES_COUNTED = 20000
MOST_TYPES = 3  # of what a node dominates
LEAST_CHILDREN = 8  # to be told by type
LEAST_STRAYS = 16  # of one type
# Measured for each object, 90 to 220 ns as they lie near or far.
OBJECT_S = 150e-9
SAFETY = 1.25
MEANINGFUL = 50000  # objects
MEMORY_SHARE = 8  # one part in so many of the memory that is left
BYTES_AN_OBJECT = 100  # while it is read and worked out: 60 to 90 were measured
_GROUPS = ("", "module", "thread", "recorder", "outside", "unreached")
_EDGES = (None, "attribute", "key", "index", "local", "namespace", "contents", "member", "item")
_MODULES, _KEY, _NAMED = 1, 2, (1, 2, 3, 4)
_ATTRIBUTE, _NAMESPACE = 1, 5
_LIVES_FOR_EVER = 0xFFFFFFFF


def _structure(name: str, **fields: Any) -> Any:
    """A ctypes structure of ``fields``: type=names."""
    members = [(word, getattr(ctypes, kind)) for kind, words in fields.items() for word in words.split()]
    return type(name, (ctypes.Structure,), {"_fields_": members})


_Row = _structure(
    "Row", c_uint64="address own_bytes retained_bytes length",
    c_uint32="node path_row dominator_row type references edges_in children new_children label label_kind owner is_old "
    "is_seen",
)  # fmt: skip
_Share = _structure("Share", c_uint32="row type", c_uint64="count bytes new_count new_bytes")
_Stray = _structure(
    "Stray",
    c_uint64="count unreached_count unreached_bytes frozen_count outside_count outside_bytes extra_references "
    "loose_count loose_bytes",
    c_uint32="type first_link links unused",
)
_Link = _structure("Link", c_uint64="address", c_uint32="node type label label_kind is_alive unused")
_Pin = _structure("Pin", c_uint64="count bytes pinned_bytes", c_uint32="row unused")
_Kind = _structure("Kind", c_void_p="type", c_uint32="text", c_uint8="base is_gc")


class _Sweep(ctypes.Structure):
    """``struct sweep`` of reader.c. The objects it points to must outlive it."""

    _fields_ = [
        ("wanted", ctypes.POINTER(ctypes.c_uint64)), ("wanted_count", ctypes.c_uint64),
        ("least_length", ctypes.c_uint64), ("picked", ctypes.c_void_p), ("large", ctypes.c_void_p),
        ("types", ctypes.c_void_p), ("counts", ctypes.POINTER(ctypes.c_uint64)), ("most_types", ctypes.c_uint64),
        ("type_count", ctypes.c_uint64),
    ]  # fmt: skip


class _Graph(ctypes.Structure):
    """What of ``struct graph`` is for us."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "nodes", "edges", "reached", "total_bytes", "unreachable_count", "unreachable_bytes", "from_c_count",
            "from_c_bytes", "small_bytes", "array_bytes", "storage_bytes", "row_count", "share_count", "text_bytes",
            "type_count",
        )
    ] + [
        ("rows", ctypes.POINTER(_Row)), ("shares", ctypes.POINTER(_Share)), ("texts", ctypes.c_void_p),
        ("kinds", ctypes.POINTER(_Kind)),
    ] + [
        (name, ctypes.c_uint64)
        for name in (
            "stray_count", "pin_count", "arena_count", "arena_bytes", "pool_bytes", "pool_count", "block_bytes",
            "held_arena_count", "held_pool_count", "held_bytes",
        )
    ] + [
        ("strays", ctypes.POINTER(_Stray)), ("links", ctypes.POINTER(_Link)), ("pins", ctypes.POINTER(_Pin)),
    ]  # fmt: skip


def _find_arenas(find: Any) -> bool:
    """Whether the library knows now where the arenas of Python's small objects are."""
    begin, end = layout.variables()
    known = [bytes(size) for size in range(0, 400, 16)]
    addresses = (ctypes.c_uint64 * len(known))(*map(id, known))
    word = ctypes.c_uint64
    find.argtypes = (word, word, ctypes.POINTER(word), word)
    return bool(find(begin, end, addresses, len(known)))


class HeapGraph:
    """Of one process. **Errors** ``refusal`` says why there is none: then nothing else may be called."""

    def __init__(self) -> None:
        self.refusal = layout.refusal() or self._load()
        self.recorder: int | None = None  # the state of the agent's thread
        self.weighs_tensors = False
        self._object_s = OBJECT_S
        # At most one: a graph, the number of its snapshot, what reading it took, whether storages were weighed.
        self._read: list[tuple[Any, int, float, bool]] = []
        self._at_work: list[None] = []  # one for each thread that is
        self._past: int | None = None
        self._serials: dict[tuple[int, int], int] = {}  # (address, type): number of what was written down last time
        self._last_serial = len(_GROUPS) - 1

    def _load(self) -> str | None:
        path = os.path.join(os.path.dirname(os.path.abspath(__file__)), LIBRARY)
        if not os.path.exists(path):
            return "it was installed without a C compiler"
        try:
            held, free = ctypes.PyDLL(path), ctypes.CDLL(path)
        except OSError as error:
            return str(error)
        found = layout.find()
        structures = (layout.Layout, _Row, _Share, _Graph, _Sweep, _Stray, _Link, _Pin)
        sizes = (ctypes.c_uint64 * len(structures))(*map(ctypes.sizeof, structures))
        if not hasattr(held, "graph_sizes_fit") or not held.graph_sizes_fit(sizes):
            return "its library is of another leakscope: install it anew"
        held.graph_begin.argtypes = (ctypes.c_void_p,)
        if found is None or not held.graph_begin(ctypes.addressof(found)):
            return "objects do not lie in memory as in the Pythons that are known"
        pointer, word = ctypes.c_void_p, ctypes.c_uint64
        self._find_tensors = held.graph_tensors
        self._find_tensors.restype, self._find_tensors.argtypes = None, (word,) * 5
        self._take, self._label, self._free = held.graph_take, held.graph_label, held.graph_free
        self._analyse, self._make_past, self._free_past = free.graph_analyse, free.graph_past, free.past_free
        self._take.restype, self._take.argtypes = ctypes.POINTER(_Graph), (pointer, pointer, word, pointer)
        self._label.argtypes = (pointer, pointer, pointer)
        self._analyse.argtypes = (pointer, pointer, word, word, ctypes.c_uint32)
        self._make_past.restype, self._make_past.argtypes = pointer, (pointer,)
        self._free.restype, self._free.argtypes = None, (pointer,)
        self._free_past.restype, self._free_past.argtypes = None, (pointer,)
        self.knows_arenas = _find_arenas(free.graph_find_arenas)
        return None

    def weigh_tensors(self, base: int, implementation: int, storage: int, bytes: int, device: int) -> None:
        """From now on: the address of torch's base class, and offsets (``memory_layout`` of torch/tensors.py)."""
        if self.is_busy:
            return  # the next time: what was read without is not looked at again with it
        self._find_tensors(base, implementation, storage, bytes, device)
        self.weighs_tensors = True

    # ---- where objects hold still

    def costs_s(self, tracked: int) -> float:
        """CPU seconds. ``tracked``: objects that the collector tracks, at most."""
        return tracked * self._object_s

    def read(
        self,
        number: int,
        tracked: int,
        left_bytes: int,
        wanted: Iterable[int] = (),
        least_length: int | None = None,
    ) -> Swept | None:
        """For snapshot ``number``; nothing while the one before is still being worked out.

        ``tracked``: objects that the collector tracks, at most. ``left_bytes``: memory the process may still have.

        Returns what else is wanted of all objects that the collector tracks: ([(class, count), ...], those of the types
        at the addresses ``wanted``, the containers of ``least_length`` or more members); None: nothing was read.
        """
        if self.is_busy:
            return None
        most_bytes = left_bytes // MEMORY_SHARE
        if tracked * BYTES_AN_OBJECT > most_bytes:
            return None
        addresses = sorted(wanted)
        picked: list[Any] = []
        large: list[Any] = []
        types: list[Any] = []
        counts = (ctypes.c_uint64 * MOST_TYPES_COUNTED)()
        sweep = _Sweep(
            wanted=(ctypes.c_uint64 * len(addresses))(*addresses), wanted_count=len(addresses),
            least_length=least_length or 0, picked=id(picked), large=id(large), types=id(types), counts=counts,
            most_types=MOST_TYPES_COUNTED,
        )  # fmt: skip
        began = thread_time()
        graph = self._take(id(sys.modules), self.recorder, most_bytes, ctypes.byref(sweep))
        took_s = thread_time() - began
        if graph:
            self._read.append((graph, number, took_s, self.weighs_tensors))
            if tracked > MEANINGFUL:
                self._object_s = max(OBJECT_S, SAFETY * took_s / tracked)
            return list(zip(types, counts)), picked, large
        return None

    @property
    def is_busy(self) -> bool:
        return bool(self._read) or bool(self._at_work)

    def forget(self) -> None:
        """In a forked child: it is the parent's, which may just be at work on it, and most of it is not here."""
        self._read, self._at_work, self._past = [], [], None
        self._serials = {}

    # ---- afterwards

    def rows(self) -> list[tuple[str, dict[str, Any]]]:
        """[(table, row), ...] of what was read last. On the agent's thread, or as the process ends."""
        at_work = self._at_work  # a fork has another
        at_work.append(None)  # before it is nobody's: another thread may come by
        try:
            graph, number, took_s, weighed = self._read.pop()
        except IndexError:
            at_work.pop()
            return []
        began = thread_time()
        found: list[tuple[str, dict[str, Any]]] = []
        try:
            is_done = self._analyse(graph, self._past, LEAST_BYTES, MOST_NODES, MOST_TYPES)
            if is_done and self._label(graph, id(sys.modules), self.recorder):
                past, self._past = self._past, self._make_past(graph)
                if past is not None:
                    self._free_past(past)
                found += self._rows(graph.contents, number)
                summary = _summary(graph.contents, number, took_s, thread_time() - began)
                found.append(("heap_graphs", dict(summary, weighs_tensors=weighed)))
        finally:
            self._free(graph)
            at_work.pop()
        return found

    def _rows(self, graph: Any, number: int) -> Iterator[tuple[str, dict[str, Any]]]:
        rows, kinds = graph.rows, graph.kinds
        count = graph.row_count
        names = [""] * graph.type_count
        serials: dict[tuple[int, int], int] = {}
        numbers = []
        roots = []
        for at in range(count):
            row = rows[at]
            if row.node < len(_GROUPS):
                numbers.append(row.node)
                roots.append(_GROUPS[row.node])
                continue
            key = (row.address, kinds[row.type].type or row.type)
            serial = self._serials.get(key)
            if serial is None:
                self._last_serial = serial = self._last_serial + 1
            serials[key] = serial
            numbers.append(serial)
            roots.append(roots[row.path_row])
        self._serials = serials
        for at in range(count):
            row = rows[at]
            is_object = row.node >= len(_GROUPS)
            owner, file, line = _owner(graph, row)
            if is_object and not names[row.type]:
                names[row.type] = _type_name(graph, row.type)
            yield (
                "heap_nodes",
                {
                    "take": number,
                    "node": numbers[at],
                    "path_node": numbers[row.path_row] if at else None,
                    "dominator_node": numbers[row.dominator_row] if at else None,
                    "root_kind": roots[at] or None,
                    "type_name": names[row.type] if is_object else None,
                    "edge_kind": _EDGES[row.label_kind],
                    "edge_name": _edge_name(graph, row),
                    "owner": owner,
                    "owner_file": file,
                    "owner_line": line,
                    "is_named": bool(row.is_seen),
                    "was_there": bool(row.is_old),
                    "shallow_bytes": row.own_bytes,
                    "retained_bytes": row.retained_bytes,
                    "length": row.length - 1 if row.length else None,
                    "child_count": row.children,
                    "new_child_count": row.new_children,
                    "reference_count": row.references if is_object and row.references != _LIVES_FOR_EVER else None,
                    "edge_count": row.edges_in if is_object else None,
                },
            )
        yield from _strays(graph, number, names)
        for at in range(graph.pin_count):
            pin = graph.pins[at]
            yield (
                "heap_pins",
                {
                    "take": number,
                    "node": numbers[pin.row],
                    "object_count": pin.count,
                    "shallow_bytes": pin.bytes,
                    "pinned_bytes": pin.pinned_bytes,
                },
            )
        for at in range(graph.share_count):
            share = graph.shares[at]
            if rows[share.row].children < LEAST_CHILDREN or not share.type:
                continue
            if not names[share.type]:
                names[share.type] = _type_name(graph, share.type)
            yield (
                "heap_children",
                {
                    "take": number,
                    "node": numbers[share.row],
                    "type_name": names[share.type],
                    "object_count": share.count,
                    "retained_bytes": share.bytes,
                    "new_count": share.new_count,
                    "new_bytes": share.new_bytes,
                },
            )


def _strays(graph: Any, number: int, names: list[str]) -> Iterator[tuple[str, dict[str, Any]]]:
    """Types of which there are objects that no name leads to."""
    for at in range(graph.stray_count):
        stray = graph.strays[at]
        if max(stray.unreached_count, stray.outside_count, stray.loose_count, stray.extra_references) < LEAST_STRAYS:
            continue
        if not names[stray.type]:
            names[stray.type] = _type_name(graph, stray.type)
        yield (
            "heap_strays",
            {
                "take": number,
                "type_name": names[stray.type],
                "object_count": stray.count,
                "unreached_count": stray.unreached_count,
                "unreached_bytes": stray.unreached_bytes,
                "frozen_count": stray.frozen_count,
                "outside_count": stray.outside_count,
                "outside_bytes": stray.outside_bytes,
                "extra_reference_count": stray.extra_references,
                "loose_count": stray.loose_count if graph.arena_count else None,
                "loose_bytes": stray.loose_bytes if graph.arena_count else None,
                "chain": _cycle(graph, stray) if stray.links else None,
            },
        )


def _cycle(graph: Any, stray: Any) -> str:
    """``Node.parent -> Child -> Node``; the dict of an object's attributes is part of the object."""
    text = ""
    links = [graph.links[stray.first_link + at] for at in range(stray.links)]
    for at, link in enumerate(links):
        is_namespace = at > 0 and links[at - 1].label_kind == _NAMESPACE
        if not is_namespace:
            text += (" -> " if at else "") + _type_name(graph, link.type)
        name = _text(graph, link.label) if link.label_kind in _NAMED[:2] else ""
        if name.isidentifier() and (is_namespace or link.label_kind == _ATTRIBUTE):
            text += "." + name
    return f"{text} -> {_type_name(graph, stray.type)}"


def _summary(graph: Any, number: int, took_s: float, analysed_s: float) -> dict[str, Any]:
    return {
        "take": number,
        "node_count": graph.nodes,
        "edge_count": graph.edges,
        "retained_bytes": graph.total_bytes,
        "outside_count": graph.from_c_count,
        "outside_bytes": graph.from_c_bytes,
        "unreached_count": graph.unreachable_count,
        "unreached_bytes": graph.unreachable_bytes,
        "small_object_bytes": graph.small_bytes,
        "array_bytes": graph.array_bytes,
        "storage_bytes": graph.storage_bytes,
        **(_pools(graph) if graph.arena_count else {}),
        "take_cpu_s": took_s,
        "analysis_cpu_s": analysed_s,
    }


def _pools(graph: Any) -> dict[str, int]:
    return {
        "arena_bytes": graph.arena_bytes,
        "pool_bytes": graph.pool_count * graph.pool_bytes,
        "block_bytes": graph.block_bytes,
        "held_arena_count": graph.held_arena_count,
        "held_pool_count": graph.held_pool_count,
        "held_bytes": graph.held_bytes,
    }


def _edge_name(graph: Any, row: Any) -> str | None:
    """Names of variables and attributes; of keys those that look like names, since others may be anybody's data.

    A key is written as in a way (``['name']``): there the outbox masks what looks like a secret.
    """
    if row.label_kind not in _NAMED:
        return None
    text = _text(graph, row.label)
    if row.label_kind != _KEY:
        return text
    of_modules = graph.rows[graph.rows[row.path_row].path_row].node == _MODULES
    is_name = text.isidentifier() or (of_modules and all(part.isidentifier() for part in text.split(".")))
    return f"['{text}']" if is_name else None


def _owner(graph: Any, row: Any) -> tuple[str | None, str | None, int | None]:
    """(name, file, line) of what a function's frame, a generator or a function is; (name, None, None) of a class."""
    if not row.owner:
        return None, None, None
    parts = _text(graph, row.owner).split("\n")
    return (parts[-1], parts[0], int(parts[1])) if len(parts) == 3 else (parts[-1], None, None)


def _text(graph: Any, at: int) -> str:
    return ctypes.string_at(graph.texts + at).decode("utf-8", "replace")


def _type_name(graph: Any, number: int) -> str:
    name = _text(graph, graph.kinds[number].text)
    return name[9:] if name.startswith("builtins.") else name
