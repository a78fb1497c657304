"""The whole heap of a process as a graph: when it may be read, and the rows that are made of it. Runs in the job.

``read`` is called with the snapshot, where the job's objects hold still. What it found is worked out by the agent's
thread afterwards, without the GIL; and then the nodes that matter are looked at once more, for the names they go by.
"""

from __future__ import annotations

import ctypes
import os
import sys
from _ctypes import dlopen
from time import thread_time

from .. import libraries
from ..interpreter import arrays, doors, files, names
from ..interpreter.turns import give_way
from ..native.machines import other_machine
from . import layout
from .references import NoneCount
from .whole import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import Any, List, Tuple

    from .whole import File

    Call = Tuple[str, int, int, str]
    Swept = Tuple[List[Tuple[type, int]], List[Any]]

LIBRARY = "libleakscope_graph.so"
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), LIBRARY)
_loaded: list[int] = []  # its handle, once it is loaded; without ctypes.CDLL, whose class would be garbage

LEAST_BYTES = 64 * 1024  # that a node retains, to be written down
MOST_NODES = 250  # and those on their ways to the root
MOST_TYPES_COUNTED = 20000
MOST_TYPES = 3  # of what a node dominates
LEAST_CHILDREN = 8  # to be told by type
LEAST_STRAYS = 16  # of one type
# For each object that the collector tracks: 90 to 220 ns as they lie near or far; then what this heap took.
OBJECT_S, LEAST_OBJECT_S = 150e-9, 50e-9
SAFETY = 1.1  # of what this heap took: a snapshot takes but a share of the longest pause, and the first one costs most
BLOCKS_S = 0.010  # for what lies behind objects' pointers; or an eighth of what reading objects takes
MEANINGFUL = 50000  # objects
LEAST_NODES = 2000  # of a graph that is sampled: 0.3 ms, and fewer are hardly more than the modules
MEMORY_SHARE = 8  # one part in so many of the memory that is left
BYTES_AN_OBJECT = 100  # while it is read and worked out: 93 were measured of a million lists of a number
BYTES_A_SAMPLED_NODE = (
    155  # where members stand for others: how many, and how unlike; before that, with 100 it did not suffice
)
PART_BYTES = 640 * 1024  # that a graph that is sampled takes beside its nodes: 500 KiB and less were measured
KEPT_BYTES = 4 * 1024 * 1024  # for 22,000 nodes: near a limit there is nothing else
KEPT_SHARE = 16  # one part in so many of the memory that is left when they are taken, at most
KEPT_WITHIN_BYTES = 512 * 1024 * 1024  # of a limit: farther off nobody needs it
MORE_ROOM = 1.1  # than the last graph needed
_GROUPS = ("", "module", "thread", "recorder", "outside", "unreached")
_EDGES = (None, "attribute", "key", "index", "local", "namespace", "contents", "member", "item", "cell", "default")
_MODULES, _KEY, _NAMED = 1, 2, (1, 2, 3, 4, 9, 10)
_ATTRIBUTE, _NAMESPACE = 1, 5
_LIVES_FOR_EVER = _NO_ROW = 0xFFFFFFFF
OBJECT, STORAGE, AUTOGRAD, DEVICE = 0, 1, 2, 6  # what a tie leads to
_BLOCK = 5  # the type of what is native memory
_MANY = 1 << 62
_FILLED_IN_C = libraries.names_of(libraries.FILLED_IN_C)
_ARROW_TYPES = ("Table", "RecordBatch", "ChunkedArray", "Array")  # as in reader/types.c
_FUNCTIONS_IN_C = ("cython_function_or_method", "method_descriptor", "builtin_function_or_method")
_THREADS_BYTES = 128 * 1024
_CONTAINERS = (1, 2, 3, 7, 9, 10)  # dict, list, tuple, set, deque, OrderedDict
_LIMITS = (
    "max", "most", "limit", "cap", "size", "bound", "keep", "len", "window", "depth", "quota", "slots",
    "entries", "items",
)  # fmt: skip
_NOT_SEEN = 0xFFFFFFFF  # operations of a graph
_WAITS = 0xFFFFFFFF  # before what waits to be called


def _structure(name: str, **fields: Any) -> Any:
    """A ctypes structure of ``fields``: type=names."""
    members = [(word, getattr(ctypes, kind)) for kind, words in fields.items() for word in words.split()]
    return type(name, (ctypes.Structure,), {"_fields_": members})


_Row = _structure(
    "Row", c_uint64="address own_bytes retained_bytes length limit storage_bytes native_bytes error_bytes device_bytes",
    c_uint32="node path_row dominator_row type references edges_in children new_children label label_kind owner is_old "
    "is_seen is_main is_wanted numbers unused",
)  # fmt: skip
_Share = _structure("Share", c_uint32="row type", c_uint64="count bytes new_count new_bytes device_bytes")
_Sharer = _structure("Sharer", c_uint32="row dominator_row type", c_uint64="count direct_count bytes device_bytes")
_Kind = _structure(
    "Kind",
    c_void_p="type",
    c_uint64="listed listed_bytes unreached",
    c_uint32="text",
    c_uint8="base is_gc is_made_in_c is_wanted may_hold is_wrapper",
)
_Bounds = _structure(
    "Bounds",
    c_uint64="bytes bytes_each objects nodes users known user_count known_count count is_collecting room is_kept",
)
_ARRAYS_OF_ROOM = 8
_Room = _structure("Room", c_uint64=" ".join(f"at{n} bytes{n}" for n in range(_ARRAYS_OF_ROOM)))

_Stray = _structure(
    "Stray",
    c_uint64="count unreached_count unreached_bytes frozen_count outside_count outside_bytes extra_references "
    "loose_count loose_bytes",
    c_uint32="type first_link links unused",
)
_Link = _structure("Link", c_uint64="address", c_uint32="node type label label_kind is_alive unused")
_Pin = _structure("Pin", c_uint64="count bytes pinned_bytes", c_uint32="row unused")
_Tie = _structure("Tie", c_uint64="from_address to_address bytes", c_uint32="type count")
_Mark = _structure("Mark", c_uint32="node row is_held unused")
_Places = _structure("Places", c_uint64="meta function edges sequence edge_bytes")
_History = _structure("History", c_uint64="tensor token node number operations saved_bytes seen_bytes")
_Saved = _structure("Saved", c_uint64="address bytes device")
_KnownNode = _structure("KnownNode", c_uint64="node sequence first count")
_KnownTensor = _structure("KnownTensor", c_uint64="tensor node")


class _Blocks(ctypes.Structure):
    """``struct known_blocks`` of reader/reader.h."""

    _fields_ = [
        ("at", ctypes.c_void_p), ("ranges", ctypes.c_void_p), ("count", ctypes.c_uint64),
        ("range_count", ctypes.c_uint64), ("least_ns", ctypes.c_uint64),
    ]  # fmt: skip


class _Further(ctypes.Structure):
    """``struct further`` of reader/reader.h."""

    _fields_ = [
        ("ties", ctypes.POINTER(_Tie)), ("marks", ctypes.POINTER(ctypes.c_uint64)), ("tie_count", ctypes.c_uint64),
        ("mark_count", ctypes.c_uint64), ("row_count", ctypes.c_uint64),
    ]  # fmt: skip


class _Largest(ctypes.Structure):
    """``struct largest`` of reader/reader.h: of large containers some rows, copied."""

    _fields_ = [
        ("least_bytes", ctypes.c_uint64), ("copied", ctypes.c_void_p), ("ends", ctypes.c_uint64 * 64),
        ("rows", ctypes.c_uint32 * 64), ("count", ctypes.c_uint32),
    ]  # fmt: skip


class _Sweep(ctypes.Structure):
    """``struct sweep`` of reader/reader.h. The objects it points to must outlive it."""

    _fields_ = [
        ("wanted", ctypes.POINTER(ctypes.c_uint64)), ("wanted_count", ctypes.c_uint64),
        ("picked", ctypes.c_void_p), ("types", ctypes.c_void_p), ("counts", ctypes.POINTER(ctypes.c_uint64)),
        ("most_types", ctypes.c_uint64), ("type_count", ctypes.c_uint64),
    ]  # fmt: skip


class _Graph(ctypes.Structure):
    """What of ``struct graph`` is for us."""

    _fields_ = [
        (name, ctypes.c_uint64)
        for name in (
            "nodes", "edges", "reached", "total_bytes", "unreachable_count", "unreachable_bytes", "from_c_count",
            "from_c_bytes", "small_bytes", "array_bytes", "storage_bytes", "row_count", "share_count", "text_bytes",
            "type_count", "listed_count", "frozen_count", "stack_count", "sharer_count", "native_bytes", "is_sampled",
            "key_references", "device_bytes", "device_count",
        )
    ] + [
        ("rows", ctypes.POINTER(_Row)), ("shares", ctypes.POINTER(_Share)), ("texts", ctypes.c_void_p),
        ("kinds", ctypes.POINTER(_Kind)), ("stacks", ctypes.POINTER(ctypes.c_uint32)),
        ("sharers", ctypes.POINTER(_Sharer)),
    ] + [
        (name, ctypes.c_uint64)
        for name in (
            "stray_count", "pin_count", "arena_count", "arena_bytes", "pool_bytes", "pool_count", "block_bytes",
            "held_arena_count", "held_pool_count", "held_bytes",
        )
    ] + [
        ("strays", ctypes.POINTER(_Stray)), ("links", ctypes.POINTER(_Link)), ("pins", ctypes.POINTER(_Pin)),
        ("marks", ctypes.POINTER(_Mark)), ("mark_count", ctypes.c_uint64), ("marked_rows", ctypes.c_uint64),
        ("saved_storages", ctypes.POINTER(_Saved)), ("saved_count", ctypes.c_uint64),
        ("most_bytes", ctypes.c_uint64),
    ]  # fmt: skip


class Found:
    """What a graph says: rows for the recording, and figures of the process as a whole.

    ``types``: [(name, objects that the collector lists, those of them that something leads to, their own bytes), ...].
    ``stacks``: of threads but the main one and ours, [(function, file, line), ...] innermost first; where what waits to
    be called was seen it comes as (None, type of the thread, (function, file, line)) before the function that will.
    ``listed_count``, ``frozen_count``: None, and ``types`` empty, where not all objects were read.
    ``marks``: for each address (the number of its row, or of what holds it, whether a module or a running function
    leads to it); (None, False) where nothing is there. A container holds its members, however deep they are.
    """

    def __init__(
        self,
        rows: list[tuple[str, dict[str, Any]]],
        listed_count: int | None,
        frozen_count: int | None,
        python_bytes: int,
        array_bytes: int,
        types: list[tuple[str, int, int, int]],
        stacks: list[list[Any]],
        marks: list[tuple[int | None, bool]],
    ) -> None:
        self.rows = rows
        self.listed_count = listed_count
        self.frozen_count = frozen_count
        self.python_bytes = python_bytes
        self.array_bytes = array_bytes
        self.types = types
        self.stacks = stacks
        self.marks = marks


class Histories:
    """What autograd keeps. ``of``: {address of a tensor: (operations, bytes they saved)}, each graph with the oldest
    tensor that leads to it; those for which there was no time are not in it. ``rest``: {number that stands for a graph:
    bytes of the part of it that was guessed}. ``saved``: [(address of a storage, bytes, device: its kind, 0 for the
    CPU, and above 8 bits its number), ...].
    """

    def __init__(
        self,
        of: dict[int, tuple[int, int]],
        rest: dict[int, int],
        saved: list[tuple[int, int, int]],
        *,
        is_cut_short: bool,
    ) -> None:
        self.of = of
        self.rest = rest
        self.saved = saved
        self.is_cut_short = is_cut_short


def load() -> str | None:
    """Loads the library, where that was not done yet; returns why it cannot be had, or None. **Cost** 0.1 ms.

    As the process starts: no other thread opens files meanwhile, and the job has no other root and no limits yet.
    """
    why_not = layout.refusal()
    if why_not is None and not _loaded:
        if _was_not_built():
            return "it was installed without a C compiler"
        try:
            _loaded.append(dlopen(_FILE, 0))
        except OSError as error:
            return other_machine(_FILE) or str(error)
    return why_not


def _was_not_built() -> bool:
    """The file is not there; or nothing is there any more, as in another root, which says nothing of it."""
    return not os.path.lexists(_FILE) and os.path.isdir(os.path.dirname(_FILE))


def _bytes_of(room: Any) -> int:
    return sum(getattr(room, f"bytes{n}") for n in range(_ARRAYS_OF_ROOM))


def _find_arenas(find: Any) -> bool:
    """Whether the library knows now where the arenas of Python's small objects are."""
    begin, end = layout.variables()
    known = [bytes(size) for size in range(0, 400, 16)]
    addresses = arrays.filled(ctypes.c_uint64, list(map(id, known)))
    word = ctypes.c_uint64
    find.argtypes = (word, word, ctypes.POINTER(word), word)
    return bool(find(begin, end, addresses, len(known)))


class HeapGraph:
    """Of one process. **Errors** ``refusal`` says why there is none: then nothing else may be called.

    ``may_come_later``: refused because the library's file cannot be opened now; another one, made later, may be had.
    ``minds_watchers``: while somebody traces, profiles or debugs, nothing is read.
    """

    def __init__(self, *, minds_watchers: bool = True) -> None:
        self._minds_watchers = minds_watchers
        self.refusal = load() or self._prepare()
        self.may_come_later = not _loaded and layout.refusal() is None and not _was_not_built()
        self.recorder: int | None = None  # the state of the agent's thread
        self.weighs_tensors = False
        self._object_s = OBJECT_S
        self._node_s = OBJECT_S
        self._bytes_each = float(BYTES_AN_OBJECT)  # for each that is tracked, with the strings and numbers on it
        self.counted = 0  # objects that the collector tracked when it was to be read last, at least
        # At most one: a graph, the number of its snapshot, what reading it took, whether storages were weighed.
        self._read: list[tuple[Any, int, float, bool]] = []
        self._at_work: list[None] = []  # one for each thread that is, or would be
        self._room = _Room()  # memory for the next graph; all 0: none
        self.kept_bytes = 0  # of memory that is kept for a part of a graph
        self._last_counts = 0, 0, 0  # objects, nodes and edges that were read last
        self._past: int | None = None
        self._serials: dict[tuple[int, Any], int] = {}  # (address, type): number of what was written down last time
        self._last_serial = len(_GROUPS) - 1
        self._is_wanted: dict[tuple[int, int], bool] = {}  # types by address
        self._knows_arrow = False
        self.user_namespaces: Sequence[int] = ()  # addresses, rising, of the dicts of the user's modules
        self.native: Callable[[], tuple[Any, int]] | None = None  # sampled blocks of malloc, as Sampler.blocks

    def _prepare(self) -> str | None:
        held, free = (kind(_FILE, handle=_loaded[0]) for kind in (ctypes.PyDLL, ctypes.CDLL))
        if hasattr(held, "graph_own"):
            held.graph_own.restype, held.graph_own.argtypes = None, (ctypes.c_char_p,)
            held.graph_own(names.AGENT.encode("utf-8", "surrogateescape"))
        found = layout.find()
        structures = (
            layout.Layout,
            _Row,
            _Share,
            _Graph,
            _Sweep,
            _Bounds,
            _Kind,
            _Largest,
            _Sharer,
            _Stray,
            _Link,
            _Pin,
            _Further,
            _Tie,
            _Mark,
            _Places,
            _History,
            _Saved,
            _Room,
        )
        sizes = arrays.filled(ctypes.c_uint64, list(map(ctypes.sizeof, structures)))
        if not hasattr(held, "graph_sizes_fit") or not held.graph_sizes_fit(sizes):
            return "its library is of another leakscope: install it anew"
        held.graph_begin.argtypes = (ctypes.c_void_p,)
        if found is None or not held.graph_begin(ctypes.addressof(found)):
            return "objects do not lie in memory as in the Pythons that are known"
        pointer, word = ctypes.c_void_p, ctypes.c_uint64
        self._find_tensors = held.graph_tensors
        self._find_tensors.restype, self._find_tensors.argtypes = None, (word,) * 5
        harmless = b"".join(name.encode() + b"\0" for name in sorted(libraries.names_of(libraries.HARMLESS)))
        held.graph_harmless.restype, held.graph_harmless.argtypes = None, (ctypes.c_char_p, word)
        held.graph_harmless(harmless, len(harmless))
        self._know_blocks = held.graph_blocks
        self._know_blocks.restype, self._know_blocks.argtypes = None, (pointer,)
        self._know_arrow = held.graph_arrow
        self._know_arrow.restype, self._know_arrow.argtypes = None, (pointer,)
        take, self._label, self._free = held.graph_take, held.graph_label, held.graph_free
        self._add = held.graph_add
        self._add.argtypes = (pointer, pointer)
        self._find_histories, self._histories = held.graph_find_histories, held.graph_histories
        self._find_histories.argtypes = (pointer, pointer, word, pointer, pointer, word)
        self._histories.argtypes = (pointer, pointer, pointer, word, pointer, word, word)
        self._referred = held.graph_referred
        self._referred.argtypes = (pointer, pointer, word, pointer)
        self._make_room, self._drop_room, self._keep_room = (
            free.graph_make_room, free.graph_drop_room, free.graph_keep_room,
        )  # fmt: skip
        self._keep_room.restype, self._keep_room.argtypes = word, (word,)
        self._make_room.argtypes = pointer, word, word, word, word
        self._drop_room.restype, self._drop_room.argtypes = None, (pointer,)
        self._analyse, self._make_past, self._free_past = free.graph_analyse, free.graph_past, free.past_free
        take.restype, take.argtypes = ctypes.POINTER(_Graph), (pointer,) * 5
        self._given: list[list[Any]] = [[None] for _ in take.argtypes]  # where C functions find it
        at_once = doors.with_first(take, *self._given)
        self._take = doors.unless_watched(at_once) if self._minds_watchers else at_once
        self._label.argtypes = (pointer,) * 4
        self._analyse.argtypes = (pointer, pointer, word, word, ctypes.c_uint32)
        self._make_past.restype, self._make_past.argtypes = pointer, (pointer,)
        self._free.restype, self._free.argtypes = None, (pointer,)
        self._free_past.restype, self._free_past.argtypes = None, (pointer,)
        self.knows_arenas = _find_arenas(free.graph_find_arenas)
        self._nones = NoneCount(held, free)
        self._running = held.graph_running
        self._running.restype, self._running.argtypes = word, (pointer, word)
        self._writer = Writer(free)
        return None

    def weigh_tensors(self, base: int, implementation: int, storage: int, bytes: int, device: int) -> None:
        """From now on: the address of torch's base class, and offsets (``memory_layout`` of torch/tensors.py)."""
        if self.is_busy:
            return  # the next time: what was read without is not looked at again with it
        self._find_tensors(base, implementation, storage, bytes, device)
        self.weighs_tensors = True

    def _find_arrow(self) -> None:
        """The functions by which Arrow says how large a table is, once it is loaded completely."""
        library = sys.modules.get("pyarrow.lib")
        if names.getattr_plain(sys.modules.get("pyarrow"), "Table") is None or library is None:
            return
        self._knows_arrow = True
        sizes = [_size_of_arrow(names.getattr_plain(library, name)) for name in _ARROW_TYPES]
        sizes.append(_made_in_c(names.getattr_plain(library, "total_allocated_bytes")))
        self._know_arrow(arrays.filled(ctypes.c_void_p, sizes))

    # ---- before

    def keep_room(self, left_bytes: int) -> None:
        """Memory for a part of a graph, which is kept for the life of the process: of ``left_bytes``, which the process
        may still have, a little, which the kernel takes back before it kills. Nothing while no limit is near. **Cost**
        1 ms, without the GIL.
        """
        at_work = self._at_work
        at_work.append(None)
        try:
            if len(at_work) == 1 and not self._read and not self.kept_bytes and left_bytes < KEPT_WITHIN_BYTES:
                wanted = min(KEPT_BYTES, left_bytes // KEPT_SHARE)
                if wanted > PART_BYTES + LEAST_NODES * BYTES_A_SAMPLED_NODE:
                    self.kept_bytes = self._keep_room(wanted)
        finally:
            at_work.pop()

    def make_room(self, left_bytes: int, most_s: float) -> None:
        """Memory for the next graph, without the GIL: up to a fifth of what reading one costs is the kernel's work for
        fresh pages, and the job need not wait for it. For as much as was read last (nothing before the first, of which
        nobody knows), and ``most_s`` are enough for.

        On the agent's thread, right before ``read``, which uses it up.
        """
        at_work = self._at_work
        at_work.append(None)
        try:
            nodes = self._last_counts[1]
            is_free = len(at_work) == 1 and not self._read and not _bytes_of(self._room)
            if is_free and nodes >= MEANINGFUL:  # of fewer it would save no millisecond
                share = MORE_ROOM * min(1.0, most_s / self._node_s / nodes)
                sizes = [int(share * count) for count in self._last_counts]
                self._make_room(ctypes.byref(self._room), left_bytes // MEMORY_SHARE, *sizes)
        finally:
            at_work.pop()

    # ---- where objects hold still

    @property
    def object_s(self) -> float:
        """CPU seconds that reading costs for each object that the collector tracks, with all that hangs on it."""
        return self._object_s

    @property
    def node_s(self) -> float:
        """The same for each node. Strings, numbers and dicts of these are nodes, too; the collector tracks none."""
        return self._node_s

    def read(
        self,
        number: int,
        most_objects: float,
        left_bytes: int,
        wanted: Iterable[int] | None = None,
        most_nodes: float = 0,
    ) -> Swept | None:
        """For snapshot ``number``; nothing while the one before is still being worked out.

        ``most_objects``: that the collector may track. Where there are more, or memory does not suffice for all, so
        many nodes are read, ``most_nodes`` or as many as there is memory for: those nearest to modules and running
        functions, of long containers some members (``is_sampled``). ``left_bytes``: memory the process may still have.
        ``counted`` says how many objects there are, at least.

        Returns what else is wanted of all objects that the collector tracks: ([(class, count), ...], those of the types
        at the addresses ``wanted``), both empty unless something is wanted; of a part only some objects of each of
        these types; None: nothing was read.
        """
        self.counted = 0
        at_work = self._at_work  # a fork has another
        at_work.append(None)  # before the look: what two threads read at once they would work out at once
        try:
            if len(at_work) > 1 or self._read:
                return None
            return self._read_alone(number, most_objects, left_bytes, wanted, most_nodes)
        finally:
            at_work.pop()

    def _read_alone(
        self, number: int, most_objects: float, left_bytes: int, wanted: Iterable[int] | None, most_nodes: float
    ) -> Swept | None:
        most_bytes = (left_bytes + _bytes_of(self._room)) // MEMORY_SHARE
        is_kept = most_bytes < self.kept_bytes
        if is_kept:
            most_bytes = self.kept_bytes
            self._drop_room(ctypes.byref(self._room))
        fit = max(0, most_bytes - PART_BYTES) // BYTES_A_SAMPLED_NODE
        nodes = int(min(max(most_nodes, LEAST_NODES), fit)) if most_nodes else 0
        users = arrays.filled(ctypes.c_uint64, self.user_namespaces)
        known = arrays.filled(ctypes.c_uint64, sorted({address for address, _ in self._serials}))
        bounds = _Bounds(
            users=ctypes.addressof(users), user_count=len(users), known=ctypes.addressof(known), known_count=len(known),
            bytes=most_bytes, bytes_each=int(self._bytes_each), objects=int(min(most_objects, _MANY)),
            nodes=nodes if nodes >= LEAST_NODES else 0, room=ctypes.addressof(self._room),
            is_kept=is_kept,
        )  # fmt: skip
        picked: list[Any] = []
        types: list[Any] = []
        counts: Any = ()
        sweep = None
        if wanted is not None:
            addresses = sorted(wanted)
            counts = arrays.of(ctypes.c_uint64, MOST_TYPES_COUNTED)()
            sweep = ctypes.byref(_Sweep(
                wanted=arrays.filled(ctypes.c_uint64, addresses), wanted_count=len(addresses),
                picked=id(picked), types=id(types), counts=counts, most_types=MOST_TYPES_COUNTED,
            ))  # fmt: skip
        began = thread_time()
        if not self._knows_arrow:
            self._find_arrow()
        kept = self._give_blocks()
        given = id(sys.modules), self.recorder, doors.main_state(), ctypes.byref(bounds), sweep
        for place, one in zip(self._given, given):
            place[0] = one
        graph = self._take()
        del kept  # until then
        self._nones.read(graph)
        took_s = thread_time() - began
        self._given[-1][0] = None  # it is large
        self._drop_room(ctypes.byref(self._room))  # what was not used of it: mostly nothing
        self.counted = bounds.count
        if graph:
            self._read.append((graph, number, took_s, self.weighs_tensors))
            nodes = graph.contents.nodes
            self._last_counts = graph.contents.listed_count, nodes, graph.contents.edges
            if self.counted > LEAST_NODES and not self.is_sampled:
                self._bytes_each = BYTES_AN_OBJECT * max(1.0, nodes / self.counted)
            if self.counted > MEANINGFUL and not self.is_sampled:
                self._object_s = max(LEAST_OBJECT_S, SAFETY * took_s / self.counted)
            if nodes > MEANINGFUL:
                self._node_s = max(LEAST_OBJECT_S, SAFETY * took_s / nodes)
            return list(zip(types, counts)), picked
        if 0 < self.counted <= bounds.objects and self.counted * self._bytes_each <= most_bytes:
            self._bytes_each *= 2  # more hangs on each than there was memory for: of the next a part
        return None

    def _give_blocks(self) -> object:
        """Sampled blocks of malloc, for the next graph; returns what has to stay as long."""
        room, count = self.native() if self.native is not None else (None, 0)
        ranges = _anonymous_ranges() if count else []
        flat = arrays.filled(ctypes.c_uint64, [end for one in ranges for end in one])
        blocks = _Blocks(
            at=ctypes.addressof(room) if room is not None else None, ranges=ctypes.addressof(flat), count=count,
            range_count=len(ranges), least_ns=int(BLOCKS_S * 1e9),
        )  # fmt: skip
        self._know_blocks(ctypes.byref(blocks))
        return room, flat

    @property
    def node_count(self) -> int:
        """In what was read last."""
        return int(self._read[-1][0].contents.nodes) if self._read else 0

    @property
    def is_sampled(self) -> bool:
        """Whether, in what was read last, there were too many objects to read them all."""
        return bool(self._read) and bool(self._read[-1][0].contents.is_sampled)

    def referred(self, addresses: Sequence[int]) -> Sequence[int]:
        """Of each of these objects, in what was read last: 1 where another one refers to it, 0 where only C code does.

        All 1 where memory does not suffice to tell.
        """
        count = len(addresses)
        found = arrays.empty(ctypes.c_uint8, count)
        known = arrays.filled(ctypes.c_uint64, addresses)
        is_told = bool(self._read) and self._referred(self._read[-1][0], known, count, found)
        return list(found[:count]) if is_told else [1] * count

    def add(
        self,
        ties: Sequence[tuple[int, int, int, int, int]],
        marks: Sequence[int] = (),
        row_count: int = 0,
        *,
        weighs_tensors: bool = False,
    ) -> bool:
        """To what was read last, before anything else may happen to the objects: what the collector does not know.

        ``ties``: (address of an object, of what it refers to, bytes of that, what that is, how many operations), where
        what it is is OBJECT, STORAGE, DEVICE (a storage on one) or AUTOGRAD: then the address is a storage's, or a
        number that no object has. One of these may be the first of a later tie. ``marks``: addresses of what to find
        again (``Found.marks``), of which the first ``row_count`` get rows of their own. ``weighs_tensors``: each
        storage has a tie that says its bytes.
        Returns False where memory does not suffice.
        """
        if not self._read:
            return False
        graph, number, took_s, weighed = self._read[-1]
        further = _Further(
            arrays.filled(_Tie, ties), arrays.filled(ctypes.c_uint64, marks), len(ties), len(marks), row_count
        )
        is_done = bool(self._add(graph, ctypes.byref(further)))
        self._read[-1] = graph, number, took_s, weighed or weighs_tensors
        return is_done

    def find_histories(
        self,
        nodes: Sequence[tuple[int, int, int, int]],
        following: Sequence[int],
        tensors: Sequence[tuple[int, int]],
    ) -> tuple[int, ...] | None:
        """Where autograd's nodes have what is asked of them (``history_places`` of reader/history.c); None: not found.

        ``nodes``: (address, sequence number, where in ``following`` the addresses of those it leads to begin, how many
        there are). ``tensors``: (address of one, of its node).
        """
        found = _Places()
        is_found = self._find_histories(
            ctypes.byref(found), arrays.filled(_KnownNode, nodes), len(nodes),
            arrays.filled(ctypes.c_uint64, following), arrays.filled(_KnownTensor, tensors), len(tensors),
        )  # fmt: skip
        return tuple(getattr(found, name) for name, _ in _Places._fields_) if is_found else None

    def histories(
        self,
        places: tuple[int, ...],
        tensors: Sequence[tuple[int, int]],
        owned: Sequence[int],
        most_s: float,
    ) -> Histories | None:
        """What autograd keeps for tensors, added to what was read last. None: nodes are not where they were found, or
        there was no memory for it. While no other thread can be inside torch.

        ``tensors``: (address, number that no object has, which stands for its graph's address). ``owned``: storages of
        models. **Cost** CPU time of ``most_s`` at most, and what it takes to add what was found.
        """
        if not self._read:
            return None
        graph, *_ = self._read[-1]
        rows = arrays.filled(_History, tensors)
        done = self._histories(
            graph, ctypes.byref(_Places(*places)), rows, len(tensors), arrays.filled(ctypes.c_uint64, owned),
            len(owned), int(1e9 * most_s),
        )  # fmt: skip
        if not done:
            return None
        found = graph.contents
        seen = [row for row in rows[: len(tensors)] if row.operations != _NOT_SEEN]
        saved = [(one.address, one.bytes, one.device) for one in found.saved_storages[: found.saved_count]]
        return Histories(
            {row.tensor: (row.operations, row.saved_bytes) for row in seen},
            {row.token: row.saved_bytes - row.seen_bytes for row in seen if row.saved_bytes > row.seen_bytes},
            saved,
            is_cut_short=done == 2,
        )

    def drop(self) -> None:
        """What was read last is not wanted."""
        try:
            graph, *_ = self._read.pop()
        except IndexError:
            return
        self._free(graph)

    @property
    def is_busy(self) -> bool:
        return bool(self._read) or bool(self._at_work)

    def forget(self) -> None:
        """In a forked child: it is the parent's, which may just be at work on it, and most of it is not here."""
        self._read, self._at_work, self._room, self._past = [], [], _Room(), None
        self.kept_bytes = 0
        self._serials = {}

    def running(self) -> dict[int, list[Call]]:
        """{thread: [(file, line, first line of the function, its name), ...]} of all threads but this one, innermost
        first. Numbers tell threads apart and are no identifiers of Python's. **Cost** 0.5 us a frame.
        """
        read = arrays.empty(ctypes.c_char, _THREADS_BYTES)
        used = self._running(read, _THREADS_BYTES)
        found = {}
        for text in ctypes.string_at(read, used).decode("utf-8", "replace").split("\0\0"):
            thread, newline, calls = text.partition("\n")
            if newline:
                found[int(thread)] = [_call(call) for call in calls.split("\0") if call]
        return found

    # ---- afterwards

    def work_out(
        self,
        look: Callable[[bytes], dict[str, Any] | None] | None = None,
        least_bytes: int = 0,
        file: File | None = None,
    ) -> Found | None:
        """What was read last says. On the agent's thread, or as the process ends. None: nothing was, or too much.

        ``look(copy)``, columns of a data form or None, is given some rows of each container that retains
        ``least_bytes``, as reader/copies.c copies them. ``file``: for all nodes and edges.
        """
        at_work = self._at_work  # a fork has another
        at_work.append(None)  # before it is nobody's: another thread may come by
        try:
            graph, number, took_s, weighed = self._read.pop()
        except IndexError:
            at_work.pop()
            return None
        began = thread_time()
        largest = _Largest(least_bytes=least_bytes)
        try:
            self._choose_types(graph.contents)
            is_all = not graph.contents.is_sampled
            nones = self._nones.columns(graph) if is_all else {}
            if file is not None and not is_all:
                file.refusal = "there were too many objects to read them all (--max-pause)"
            is_for_file = file is not None and is_all and self._writer.prepare(graph, file)
            is_done = self._analyse(graph, self._past, LEAST_BYTES, MOST_NODES, MOST_TYPES)
            wanted = None if look is None else ctypes.byref(largest)
            if not is_done or not self._label(graph, id(sys.modules), self.recorder, wanted):
                return None
            seen = [] if look is None else [(look(copy), at) for copy, at in _copies(largest)]
            contents = graph.contents
            if is_all:
                past, self._past = self._past, self._make_past(graph)
                if past is not None:
                    self._free_past(past)
            numbers = self._number(contents)
            rows = list(self._rows(contents, number, numbers))
            for columns, at in seen:
                if columns is not None:
                    rows.append(("data_forms", _data_form(contents, number, numbers, at, columns)))
            summary = _summary(contents, number, took_s, thread_time() - began)
            if file is not None and is_for_file:
                names = [_type_name(contents, at) for at in range(contents.type_count)]
                self._writer.write(graph, file, names, [(contents.rows[at].node, n) for at, n in enumerate(numbers)])
            rows.append(("heap_graphs", dict(summary, **nones, weighs_tensors=weighed)))
            return Found(
                rows, contents.listed_count if is_all else None, contents.frozen_count if is_all else None,
                contents.total_bytes - contents.array_bytes - contents.storage_bytes - contents.native_bytes,
                contents.array_bytes,
                list(_types(contents)), list(_stacks(contents)), list(_marks(contents, numbers)),
            )  # fmt: skip
        finally:
            self._free(graph)
            at_work.pop()

    def _choose_types(self, graph: Any) -> None:
        """Those of which one wants to know who holds them, however little they retain."""
        for at in range(graph.type_count):
            kind = graph.kinds[at]
            if kind.base or not kind.is_made_in_c or not kind.type:
                continue
            key = kind.type, kind.is_gc
            is_wanted = self._is_wanted.get(key)
            if is_wanted is None:
                is_wanted = self._is_wanted[key] = _is_opaque(_type_name(graph, at), kind)
            kind.is_wanted = is_wanted

    def _number(self, graph: Any) -> list[int]:
        """A number for each row: the one that the object had before."""
        rows, kinds = graph.rows, graph.kinds
        serials: dict[tuple[int, Any], int] = {}
        numbers = []
        for at in range(graph.row_count):
            row = rows[at]
            if row.node < len(_GROUPS):
                numbers.append(row.node)
                continue
            key = (row.address, kinds[row.type].type or _owner(graph, row))  # a frame is told by what it is of
            serial = self._serials.get(key)
            if serial is None:
                self._last_serial = serial = self._last_serial + 1
            serials[key] = serial
            numbers.append(serial)
        self._serials = serials
        return numbers

    def _rows(self, graph: Any, number: int, numbers: Sequence[int]) -> Iterator[tuple[str, dict[str, Any]]]:
        rows = graph.rows
        count = graph.row_count
        type_names = [""] * graph.type_count
        roots: list[str] = []
        for at in range(count):
            row = rows[at]
            root = _GROUPS[row.node] if row.node < len(_GROUPS) else roots[row.path_row]
            roots.append("frame" if row.is_main and root == "thread" else root)
        for at in range(count):
            give_way()
            row = rows[at]
            is_object = row.node >= len(_GROUPS)
            owner, file, line = _owner(graph, row)
            if is_object and not type_names[row.type]:
                type_names[row.type] = _type_name(graph, row.type)
            yield (
                "heap_nodes",
                {
                    "take": number,
                    "node": numbers[at],
                    "path_node": numbers[row.path_row] if at else None,
                    "dominator_node": numbers[row.dominator_row] if at else None,
                    "root_kind": roots[at] or None,
                    "type_name": type_names[row.type] if is_object else None,
                    "edge_kind": _EDGES[row.label_kind],
                    "edge_name": _edge_name(graph, row),
                    "owner": owner,
                    "owner_file": file,
                    "owner_line": line,
                    "is_named": bool(row.is_seen),
                    "opaque": bool(row.is_wanted),
                    "was_there": bool(row.is_old) if not graph.is_sampled else None,
                    "shallow_bytes": row.own_bytes,
                    "retained_bytes": row.retained_bytes,
                    "retained_storage_bytes": row.storage_bytes or None,
                    "retained_native_bytes": row.native_bytes or None,
                    "retained_device_bytes": row.device_bytes or None,
                    "error_bytes": row.error_bytes if graph.is_sampled else None,
                    "length": row.length - 1 if row.length else None,
                    "length_limit": row.limit - 1 if row.limit else None,
                    "limits": _limits(_text(graph, row.numbers)) if row.numbers else None,
                    "child_count": row.children,
                    "new_child_count": row.new_children if not graph.is_sampled else None,
                    "reference_count": row.references if is_object and row.references != _LIVES_FOR_EVER else None,
                    "edge_count": row.edges_in if is_object and not graph.is_sampled else None,
                },
            )
        yield from _strays(graph, number, type_names)
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
            give_way()
            share = graph.shares[at]
            is_told = share.type == AUTOGRAD or rows[share.row].children >= LEAST_CHILDREN
            if not is_told or share.type in (0, _BLOCK, DEVICE):
                continue
            if not type_names[share.type]:
                type_names[share.type] = _type_name(graph, share.type)
            yield (
                "heap_children",
                {
                    "take": number,
                    "node": numbers[share.row],
                    "type_name": type_names[share.type],
                    "object_count": share.count,
                    "retained_bytes": share.bytes,
                    "retained_device_bytes": share.device_bytes or None,
                    "new_count": share.new_count if not graph.is_sampled else None,
                    "new_bytes": share.new_bytes if not graph.is_sampled else None,
                },
            )
        for at in range(graph.sharer_count):
            sharer = graph.sharers[at]
            if sharer.type in (0, _BLOCK, DEVICE) or sharer.count < LEAST_CHILDREN:
                continue
            if not type_names[sharer.type]:
                type_names[sharer.type] = _type_name(graph, sharer.type)
            yield (
                "heap_shared",
                {
                    "take": number,
                    "node": numbers[sharer.row],
                    "dominator_node": numbers[sharer.dominator_row],
                    "type_name": type_names[sharer.type],
                    "object_count": sharer.count,
                    "direct_count": sharer.direct_count,
                    "retained_bytes": sharer.bytes,
                    "retained_device_bytes": sharer.device_bytes or None,
                },
            )


def _anonymous_ranges() -> list[tuple[int, int]]:
    """(begin, end) of memory that can be written and is no file's, by rising addresses. **Cost** 1 us each."""
    found: list[tuple[int, int]] = []
    try:
        with open("/proc/self/maps", "rb", opener=files.open_high) as stream:
            for line in stream:
                where, allowed, _, device, *_ = line.split(None, 4)
                if device != b"00:00" or not allowed.startswith(b"rw"):
                    continue
                begin, end = (int(one, 16) for one in where.split(b"-"))
                if found and found[-1][1] == begin:
                    found[-1] = found[-1][0], end
                else:
                    found.append((begin, end))
    except (OSError, ValueError):  # no /proc, or no descriptor left
        return []
    return found


def _call(text: str) -> Call:
    file, line, first, name = text.split("\n")
    return file, int(line), int(first), name


def _size_of_arrow(cls: Any) -> int:
    """The address of a class's own function for the bytes of all its buffers; 0: it has none made in C.

    The class is of a library, and keeps it.
    """
    said = names.namespace_of(cls).get("get_total_buffer_size") if names.is_a(type(cls), type) else None
    return _made_in_c(said)


def _made_in_c(function: object) -> int:
    return id(function) if names.qualname_of(type(function)) in _FUNCTIONS_IN_C else 0


def _copies(largest: Any) -> Iterator[tuple[bytes, int]]:
    """(what was copied of a container, its row)."""
    begin = 0
    for at in range(largest.count):
        end = largest.ends[at]
        yield ctypes.string_at(largest.copied + begin, end - begin), largest.rows[at]
        begin = end


def _data_form(graph: Any, number: int, numbers: Sequence[int], at: int, columns: dict[str, Any]) -> dict[str, Any]:
    row = graph.rows[at]
    own = {"take": number, "node": numbers[at], "deep_bytes": row.retained_bytes}
    return dict(columns, type_name=_type_name(graph, row.type), **own)


def _types(graph: Any) -> Iterator[tuple[str, int, int, int]]:
    """(name, objects that the collector lists, those of them that something leads to, their own bytes) of each type."""
    for at in range(graph.type_count):
        kind = graph.kinds[at]
        if kind.listed:
            yield _type_name(graph, at), kind.listed, kind.listed - kind.unreached, kind.listed_bytes


def _marks(graph: Any, numbers: Sequence[int]) -> Iterator[tuple[int | None, bool]]:
    for at in range(graph.mark_count):
        mark = graph.marks[at]
        if mark.row == _NO_ROW:
            yield None, False
        else:
            yield numbers[mark.row if at < graph.marked_rows else _container(graph, mark.row)], bool(mark.is_held)


def _container(graph: Any, at: int) -> int:
    """The row of the outermost container that has a row as a member, or that itself: what has a name of its own."""
    rows, kinds = graph.rows, graph.kinds
    while True:
        above = rows[at].path_row
        of = rows[above]
        is_container = of.node >= len(_GROUPS) and kinds[of.type].base in _CONTAINERS
        if not is_container or of.label_kind == _NAMESPACE or rows[of.path_row].node == _MODULES:
            return at
        at = above


def _stacks(graph: Any) -> Iterator[list[Any]]:
    stack: list[Any] = []
    texts = iter(graph.stacks[: graph.stack_count] if graph.stack_count else ())
    for at in texts:
        if not at:
            yield stack
            stack = []
        elif at == _WAITS:
            stack.append((None, _text(graph, next(texts)), _definition(graph, next(texts))))
        else:
            stack.append(_definition(graph, at))


def _definition(graph: Any, at: int) -> tuple[str, str, int]:
    file, line, name = _text(graph, at).split("\n")
    return name, file, int(line)


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
        "is_sampled": bool(graph.is_sampled),
        "retained_bytes": graph.total_bytes,
        **(_unnamed(graph) if not graph.is_sampled else {}),
        "array_bytes": graph.array_bytes,
        "storage_bytes": graph.storage_bytes,
        "native_bytes": graph.native_bytes,
        "device_bytes": graph.device_bytes or None,
        "reading_bytes": graph.most_bytes,
        **(_pools(graph) if graph.arena_count else {}),
        "take_cpu_s": took_s,
        "analysis_cpu_s": analysed_s,
    }


def _unnamed(graph: Any) -> dict[str, int]:
    return {
        "outside_count": graph.from_c_count,
        "outside_bytes": graph.from_c_bytes,
        "unreached_count": graph.unreachable_count,
        "unreached_bytes": graph.unreachable_bytes,
        "small_object_bytes": graph.small_bytes,
        "key_reference_count": graph.key_references,
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


def _limits(numbers: str) -> str | None:
    """Of attributes that are numbers, those that may be the most that an object is to hold, by their names."""
    found = []
    for number in numbers.split():
        name = number.lower()
        if any(word in name for word in _LIMITS):
            found.append(number)
    return " ".join(found) or None


def _owner(graph: Any, row: Any) -> tuple[str | None, str | None, int | None]:
    """(name, file, line) of what a function's frame, a generator or a function is; (name, None, None) of a class."""
    if not row.owner:
        return None, None, None
    parts = _text(graph, row.owner).split("\n")
    return (parts[-1], parts[0], int(parts[1])) if len(parts) == 3 else (parts[-1], None, None)


def _text(graph: Any, at: int) -> str:
    return ctypes.string_at(graph.texts + at).decode("utf-8", "replace")


def _is_opaque(type_name: str, kind: Any) -> bool:
    """Of a type made in C: whether its objects may hold what Python does not see. A database, a parser, a model."""
    module, _, name = type_name.rpartition(".")
    if not module:
        return bool(kind.may_hold)
    if libraries.is_harmless(type_name) or not name:
        return False
    file = names.module_file(module)
    return not kind.is_gc or type_name in _FILLED_IN_C or (file is not None and file.endswith((".so", ".pyd")))


def _type_name(graph: Any, number: int) -> str:
    name = _text(graph, graph.kinds[number].text)
    return name[9:] if name.startswith("builtins.") else name
