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
from ..interpreter import arrays, doors, files, names, reading
from ..native.machines import other_machine
from . import layout
from .references import NoneCount
from .rows import (
    GROUPS,
    about_row,
    copies_of,
    is_opaque,
    marks_of,
    owner_of,
    rows_of,
    stacks_of,
    summary_of,
    type_name,
    types_of,
)
from .structures import (
    ARRAYS_OF_ROOM,
    SHARED,
    Blocks,
    Bounds,
    Further,
    Graph,
    History,
    KnownNode,
    KnownTensor,
    Largest,
    Places,
    Room,
    Sweep,
    Tie,
)
from .whole import Writer

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
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
_MANY = 1 << 62
_THREADS_BYTES = 128 * 1024
_NOT_SEEN = 0xFFFFFFFF  # operations of a graph


class Found:
    """What a graph says: rows for the recording, and figures of the process as a whole.

    ``types``: [(name, objects that the collector lists, those of them that something leads to, their own bytes), ...].
    ``stacks``: of threads but the main one and ours, [(function, file, line), ...] innermost first; where what waits to
    be called was seen it comes as (None, type of the thread, (function, file, line)) before the function that will.
    ``listed_count``, ``frozen_count``: None, and ``types`` empty, where not all objects were read.
    ``marks``: for each address (the number of its row, or of what holds it, whether a module or a running function
    leads to it); (None, False) where nothing is there. A container holds its members, however deep they are.
    ``runs``: the main thread ran code of Python.
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
        runs: bool,
    ) -> None:
        self.rows = rows
        self.listed_count = listed_count
        self.frozen_count = frozen_count
        self.python_bytes = python_bytes
        self.array_bytes = array_bytes
        self.types = types
        self.stacks = stacks
        self.marks = marks
        self.runs = runs


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
    return sum(getattr(room, f"bytes{n}") for n in range(ARRAYS_OF_ROOM))


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
        self._room = Room()  # memory for the next graph; all 0: none
        self.kept_bytes = 0  # of memory that is kept for a part of a graph
        self._last_counts = 0, 0, 0  # objects, nodes and edges that were read last
        self._past: int | None = None
        self._serials: dict[tuple[int, Any], int] = {}  # (address, type): number of what was written down last time
        self._known: Any = ()  # addresses of these, which a graph refers to until it is worked out
        self._last_serial = len(GROUPS) - 1
        self._is_wanted: dict[tuple[int, int], bool] = {}  # types by address
        self.user_namespaces: Sequence[int] = ()  # addresses, rising, of the dicts of the user's modules
        self.native: Callable[[], tuple[Any, int]] | None = None  # sampled blocks of malloc, as Sampler.blocks

    def _prepare(self) -> str | None:
        held, free = (kind(_FILE, handle=_loaded[0]) for kind in (ctypes.PyDLL, ctypes.CDLL))
        if hasattr(held, "graph_own"):
            held.graph_own.restype, held.graph_own.argtypes = None, (ctypes.c_char_p,)
            held.graph_own(names.AGENT.encode("utf-8", "surrogateescape"))
        found = layout.find()
        sizes = arrays.filled(ctypes.c_uint64, list(map(ctypes.sizeof, (layout.Layout, *SHARED))))
        if not hasattr(held, "graph_sizes_fit") or not held.graph_sizes_fit(sizes):
            return "its library is of another version: reinstall leakscope"
        held.graph_begin.argtypes = (ctypes.c_void_p,)
        if found is None or not held.graph_begin(ctypes.addressof(found)):
            return "objects do not lie in memory as in the Pythons that are known"
        pointer, word = ctypes.c_void_p, ctypes.c_uint64
        self._find_tensors = held.graph_tensors
        self._find_tensors.restype, self._find_tensors.argtypes = None, (word,) * 6
        harmless = b"".join(name.encode() + b"\0" for name in sorted(libraries.names_of(libraries.HARMLESS)))
        held.graph_harmless.restype, held.graph_harmless.argtypes = None, (ctypes.c_char_p, word)
        held.graph_harmless(harmless, len(harmless))
        self._know_blocks = held.graph_blocks
        self._know_blocks.restype, self._know_blocks.argtypes = None, (pointer,)
        self._know_jax = held.graph_jax
        self._know_jax.restype, self._know_jax.argtypes = None, (ctypes.c_int,)
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
        take.restype, take.argtypes = ctypes.POINTER(Graph), (pointer,) * 5
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

    def weigh_tensors(self, base: int, implementation: int, storage: int, bytes: int, device: int, count: int) -> None:
        """From now on: the address of torch's base class, and offsets (``memory_layout`` of torch/tensors.py)."""
        if self.is_busy:
            return  # the next time: what was read without is not looked at again with it
        self._find_tensors(base, implementation, storage, bytes, device, count)
        self.weighs_tensors = True

    def _find_jax(self) -> None:
        """Where its arrays lie: in the host's memory as long as it has found no other device."""
        backends = names.getattr_plain(sys.modules.get("jax._src.xla_bridge"), "_backends")
        if type(backends) is dict:
            found = [*reading.members(reading.KEYS, backends)]
            self._know_jax(int(bool(found) and all(type(one) is str and one == "cpu" for one in found)))

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
        """CPU seconds for each node. Strings, numbers and dicts of these are nodes, too; the collector tracks none."""
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
        known = self._known = arrays.filled(ctypes.c_uint64, sorted({address for address, _ in self._serials}))
        bounds = Bounds(
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
            sweep = ctypes.byref(Sweep(
                wanted=arrays.filled(ctypes.c_uint64, addresses), wanted_count=len(addresses),
                picked=id(picked), types=id(types), counts=counts, most_types=MOST_TYPES_COUNTED,
            ))  # fmt: skip
        began = thread_time()
        self._find_jax()
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
        was_tried = 0 < self.counted <= bounds.objects and self.counted * self._bytes_each <= most_bytes
        if was_tried and (not graph or graph.contents.is_sampled):
            self._bytes_each = 2 * most_bytes / self.counted  # more hangs on each than there was memory for
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
        return None

    def _give_blocks(self) -> object:
        """Sampled blocks of malloc, for the next graph; returns what has to stay as long."""
        room, count = self.native() if self.native is not None else (None, 0)
        ranges = anonymous_ranges(apart=True)
        flat = arrays.filled(ctypes.c_uint64, [end for one in ranges for end in one])
        blocks = Blocks(
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
        further = Further(
            arrays.filled(Tie, ties), arrays.filled(ctypes.c_uint64, marks), len(ties), len(marks), row_count
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
        found = Places()
        is_found = self._find_histories(
            ctypes.byref(found), arrays.filled(KnownNode, nodes), len(nodes),
            arrays.filled(ctypes.c_uint64, following), arrays.filled(KnownTensor, tensors), len(tensors),
        )  # fmt: skip
        return tuple(getattr(found, name) for name, _ in Places._fields_) if is_found else None

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
        rows = arrays.filled(History, tensors)
        done = self._histories(
            graph, ctypes.byref(Places(*places)), rows, len(tensors), arrays.filled(ctypes.c_uint64, owned),
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
        self._read, self._at_work, self._room, self._past = [], [], Room(), None
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
        look: Callable[[bytes], list[tuple[str, dict[str, Any]]]] | None = None,
        least_bytes: int = 0,
        file: File | None = None,
    ) -> Found | None:
        """What the last read found. On the agent's thread, or as the process ends. None: nothing was, or too much.

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
        largest = Largest(least_bytes=least_bytes)
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
            seen = [] if look is None else [(look(copy), at) for copy, at in copies_of(largest)]
            contents = graph.contents
            if is_all:
                past, self._past = self._past, self._make_past(graph)
                if past is not None:
                    self._free_past(past)
            numbers = self._number(contents)
            rows = list(rows_of(contents, number, numbers))
            rows += [
                (table, about_row(contents, number, numbers, at, columns, table == "data_forms"))
                for found, at in seen
                for table, columns in found
            ]
            summary = summary_of(contents, number, took_s, thread_time() - began)
            if file is not None and is_for_file:
                names = [type_name(contents, at) for at in range(contents.type_count)]
                self._writer.write(graph, file, names, [(contents.rows[at].node, n) for at, n in enumerate(numbers)])
            rows.append(("heap_graphs", dict(summary, **nones, weighs_tensors=weighed)))
            return Found(
                rows, contents.listed_count if is_all else None, contents.frozen_count if is_all else None,
                contents.total_bytes - contents.array_bytes - contents.storage_bytes - contents.native_bytes,
                contents.array_bytes,
                list(types_of(contents)), list(stacks_of(contents)), list(marks_of(contents, numbers)),
                contents.main_begin < contents.main_end,
            )  # fmt: skip
        finally:
            self._free(graph)
            at_work.pop()

    def _choose_types(self, graph: Any) -> None:
        """Those of which one wants to know who holds them, however little they retain."""
        for at in range(graph.type_count):
            kind = graph.kinds[at]
            if not kind.type or (kind.base and kind.is_made_in_c):
                continue
            key = kind.type, kind.is_gc
            is_wanted = self._is_wanted.get(key)
            if is_wanted is None:
                is_wanted = self._is_wanted[key] = is_opaque(type_name(graph, at), kind)
            kind.is_wanted = is_wanted

    def _number(self, graph: Any) -> list[int]:
        """A number for each row: the one that the object had before."""
        rows, kinds = graph.rows, graph.kinds
        serials: dict[tuple[int, Any], int] = {}
        numbers = []
        for at in range(graph.row_count):
            row = rows[at]
            if row.node < len(GROUPS):
                numbers.append(row.node)
                continue
            key = (row.address, kinds[row.type].type or owner_of(graph, row))  # a frame is told by what it is of
            serial = self._serials.get(key)
            if serial is None:
                self._last_serial = serial = self._last_serial + 1
            serials[key] = serial
            numbers.append(serial)
        self._serials = serials
        return numbers


def anonymous_ranges(*, apart: bool = False) -> list[tuple[int, int]]:
    """(begin, end) of memory that can be written and is no file's, by rising addresses. **Cost** 1 us each.

    ``apart``: neighbours as they were mapped, not as one.
    """
    found: list[tuple[int, int]] = []
    try:
        with open("/proc/self/maps", "rb", opener=files.open_high) as stream:
            for line in stream:
                where, allowed, _, device, *_ = line.split(None, 4)
                if device != b"00:00" or not allowed.startswith(b"rw"):
                    continue
                begin, end = (int(one, 16) for one in where.split(b"-"))
                if found and found[-1][1] == begin and not apart:
                    found[-1] = found[-1][0], end
                else:
                    found.append((begin, end))
    except (OSError, ValueError):  # no /proc, or no descriptor left
        return []
    return found


def _call(text: str) -> Call:
    file, line, first, name = text.split("\n")
    return file, int(line), int(first), name
