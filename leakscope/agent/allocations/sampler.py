"""Which memory that was asked for is still there, and by which calls: samples, by stack. Runs in the job.

sampler.c draws them and says how. This is what the recorder's thread does: begin, look after libraries that have come
since, switch the wrapping of Python's own small objects on while these grow, and make rows of what is alive.
"""

from __future__ import annotations

import ctypes
import os
import sys
from _ctypes import dlopen
from time import monotonic

from ..graph import layout
from ..interpreter import arrays, collector, doors, names
from ..interpreter.turns import give_way
from ..native.machines import other_machine
from .calls import columns_of

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

LIBRARY = "libleakscope_allocations.so"
SAMPLE_BYTES = 512 * 1024.0  # asked for, on average, between two samples
OBJECT_SAMPLE_BYTES = 64 * 1024.0
TICK_S = 0.5
SETTLED_S = 10.0  # what has been there for so long is no buffer of the step that runs
MOST_ROWS = 40
MOST_SURVIVORS = 400
MOST_BLOCKS, BLOCK_BYTES = 1 << 14, 32
MOST_EVENTS = 1 << 13
FULL_LIVES = 8000  # all samples are followed until so many were; after each so many more, half as many
WINDOW_S = 3.0  # for which objects are watched
PAUSE_S = 27.0  # before they are again: a tenth of the time, and a tenth of what churning objects costs
GROWTHS = 3  # readings of Python's own allocator in a row, each higher than the one before
LEAST_OBJECT_GROWTH_BYTES = 256 * 1024  # over those
STRESS = 256.0
_ROOM_BYTES = 1 << 20
_FILE = os.path.join(os.path.dirname(os.path.abspath(__file__)), LIBRARY)
_MISSING = "it was installed without a C compiler"
_MACHINES = ("x86_64", "aarch64")  # as in sampler/machine.h
_KINDS = ("malloc", "mmap", "objects", "arenas")
_MALLOC, _MAPPED, _OBJECTS, _ARENAS = range(4)
_REFUSALS = {
    1: "its library is of another version: reinstall leakscope",
    2: "malloc is a sanitizer's, or not all of its kin are of one allocator",
    3: "there is no memory for it",
    4: "no library calls malloc through a word that can be replaced",
    5: "another tool answers for malloc",
}
# What is left out where it is not known to be safe, by the figure that counts it: own_stack.h, draw.h, states.h.
_LEFT_OUT = {
    "elsewhere": "on stacks of C or C++ coroutines only the function that calls malloc is reported, not its callers",
    "cramped": "on a stack with less than a kilobyte left no sample is taken",
    "unknown": "of threads that did not hold the GIL the Python functions are not known",
}
# What allocates on behalf of others. Of a wheel's own copy the name goes on: libstdc++-0123abcd.so.6.
_BETWEEN = ("libc.", "libc-", "libstdc++", "libgcc_s", "ld-linux", "libpython3")
_OURS = "libleakscope_"


class _Figures(ctypes.Structure):
    """``struct figures`` of rows.h."""

    NAMES = "rate", "drawn", "dropped", "missed", "live", "words", "elsewhere", "cramped", "unknown"
    _fields_ = [("rate", ctypes.c_double)] + [(name, ctypes.c_uint64) for name in NAMES[1:]]


class _Event(ctypes.Structure):
    """``struct event`` of lives.h."""

    _fields_ = [("bytes", ctypes.c_uint64), ("weight", ctypes.c_float), ("order", ctypes.c_uint32),
                ("life", ctypes.c_uint32), ("thread", ctypes.c_uint32)]  # fmt: skip


class Sampler:
    """Of one process. Only the agent's thread calls it, but for ``forked`` and ``end``.

    ``is_stressed``: for tests of ours, hundreds of times as many samples, and objects watched whatever they do.
    ``requests_file``: memory of the recorder's that large pieces are written down in.
    """

    def __init__(self, is_stressed: bool = False, requests_file: str = "") -> None:
        self._is_stressed = is_stressed
        self._requests_file = requests_file
        self.refusal: str | None = None
        self.is_on = False
        self.ends: list[Callable[[], object]] = []  # C functions that end it while somebody watches, once it is on
        self._handle: int | None = None
        self._next_tick = 0.0
        self._pymalloc: list[int] = []  # bytes in use, the last readings
        self._armed_until: float | None = None
        self._may_arm_at = 0.0
        self._survivors: dict[tuple[str, ...], list[Any]] = {}  # of windows that are over
        self._python = os.path.realpath(sys.executable), sys.executable
        self._told: set[str] = set()
        self._events: Any = None
        self._followed = 0

    @staticmethod
    def refusal_before() -> str | None:
        """Why it could not begin, as far as can be told before."""
        return _refusal() or (None if os.path.exists(_FILE) else _MISSING)

    def load(self, start_ticks: int) -> None:
        """As the process starts: the job has no other root then, and no limits; who cannot load it says so later.

        From here on it sees who looks malloc up; it draws nothing yet.
        """
        if self.refusal_before() is None:
            try:
                self._handle = dlopen(_FILE, 0)
            except OSError:
                return
            self._lib = ctypes.CDLL(_FILE, handle=self._handle)
            self._lib.sampler_look_ups.restype = self._lib.sampler_note_requests.restype = None
            self._lib.sampler_note_requests.argtypes = (ctypes.c_char_p, ctypes.c_uint64)
            self._lib.sampler_look_ups()
            self._lib.sampler_note_requests(self._requests_file.encode(), start_ticks)

    def begin(self) -> None:
        """Once. Afterwards ``is_on``, or ``refusal`` says why not."""
        with collector.HeldBack():  # classes are made for it, and the job's garbage is not ours to free
            self.refusal = _refusal() or self._load()
        self.is_on = self.refusal is None
        if self.is_on:
            self.ends += [self._lib.sampler_without_python, self._lib.sampler_end]
            self._lib.sampler_leave_out_this_thread()
            self._lib.sampler_tick(monotonic())

    def _load(self) -> str | None:
        if self._handle is None:
            return other_machine(_FILE) or "its library could not be loaded; was it installed without a C compiler?"
        free, held = self._lib, ctypes.PyDLL(_FILE, handle=self._handle)
        pointer, number, size = ctypes.c_void_p, ctypes.c_double, ctypes.c_uint64
        free.sampler_begin.argtypes = (pointer, size, ctypes.c_char_p, number)
        free.sampler_tick.argtypes = (number,)
        free.sampler_rows.restype = size
        free.sampler_rows.argtypes = (pointer, size, ctypes.c_int, ctypes.c_uint32, number)
        free.sampler_blocks.restype, free.sampler_blocks.argtypes = size, (pointer, size)
        free.sampler_lives.restype, free.sampler_lives.argtypes = size, (pointer, ctypes.c_uint32)
        free.sampler_in_use_bytes.restype = free.sampler_burst_bytes.restype = number
        free.sampler_figures.restype, free.sampler_figures.argtypes = None, (pointer,)
        free.sampler_taken_over_by.restype, free.sampler_taken_over_by.argtypes = None, (ctypes.c_char_p, size)
        held.sampler_arm.argtypes = (number,)
        held.sampler_disarm.restype = None
        for name in ("sampler_leave_out_this_thread", "sampler_without_python", "sampler_forget", "sampler_end"):
            getattr(free, name).restype = None
        self._held = held  # the others without the GIL: another thread may be loading a library that waits for it
        self._room = arrays.empty(ctypes.c_char, _ROOM_BYTES)  # of which few pages are ever touched
        self._figures = _Figures()
        self._events = (_Event * MOST_EVENTS)()
        found = layout.find()
        if found is None:
            return "objects do not lie in memory as in the Pythons that are known"
        own = names.AGENT.encode("utf-8", "surrogateescape")
        refused = free.sampler_begin(ctypes.addressof(found), ctypes.sizeof(found), own, self._scaled(SAMPLE_BYTES))
        return _REFUSALS.get(refused, "it could not begin") if refused else None

    def tick(self, pymalloc_in_use_bytes: int | None) -> None:
        """Every now and then. The argument: a new reading of Python's own allocator, if there is one."""
        now = monotonic()
        if not self.is_on:
            return
        self._lib.sampler_leave_out_this_thread()  # another since a fork
        if now >= self._next_tick:
            self._next_tick = now + TICK_S
            if self._lib.sampler_tick(now):
                self.refusal = f"{_REFUSALS[5]}{self._taken_over_by()}"
                self.end()
                return
        if pymalloc_in_use_bytes is not None:
            self._pymalloc = (self._pymalloc + [pymalloc_in_use_bytes])[-GROWTHS - 1 :]
        self._watch_objects(now)

    def _taken_over_by(self) -> str:
        self._lib.sampler_taken_over_by(self._room, _ROOM_BYTES)
        path = self._room.value.decode("utf-8", "replace")
        return f": {os.path.basename(path)}" if path else ""

    def _watch_objects(self, now: float) -> None:
        if self._armed_until is not None:
            if now >= self._armed_until or not doors.is_unwatched():
                self._disarm()
        elif now >= self._may_arm_at and self._objects_grow() and doors.is_unwatched() and not _is_traced():
            if self._held.sampler_arm(self._scaled(OBJECT_SAMPLE_BYTES)):
                self._armed_until = now + self._scaled(WINDOW_S)
                self._may_arm_at = self._armed_until + self._scaled(PAUSE_S)
            else:
                self._may_arm_at = float("inf")

    def _scaled(self, value: float) -> float:
        return value / STRESS if self._is_stressed else value

    def _objects_grow(self) -> bool:
        if self._is_stressed:
            return True
        seen = self._pymalloc
        rises = all(before < after for before, after in zip(seen, seen[1:]))
        return len(seen) > GROWTHS and rises and seen[-1] - seen[0] >= LEAST_OBJECT_GROWTH_BYTES

    def _disarm(self) -> None:
        """What was made in the first half of the window and is still there is no temporary."""
        self._armed_until = None
        self._lib.sampler_tick(monotonic())
        for row in self._rows_of(_OBJECTS, WINDOW_S / 2):
            if row["settled_bytes"]:
                key = row["stack"], row["function"] or "", row["native_stack"] or ""
                known = self._survivors.setdefault(key, [0, 0, 0, 0, row])
                for at, figure in enumerate(
                    (row["settled_bytes"], row["error_bytes"] ** 2, row["sample_count"], row["asked_bytes"])
                ):
                    known[at] += figure
        if len(self._survivors) > MOST_SURVIVORS:  # code that is made anew each time has ever new stacks
            most = sorted(self._survivors.items(), key=lambda item: -int(item[1][0]))
            self._survivors = dict(most[:MOST_ROWS])
        self._held.sampler_disarm()
        del self._pymalloc[:]

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the table ``allocation_stacks``: what is alive now, or was as the process held more than before."""
        if not self.is_on:
            return []
        rows = [row for kind in (_MALLOC, _ARENAS, _MAPPED) for row in self._rows_of(kind, SETTLED_S)]
        survivors = sorted(self._survivors.values(), key=lambda known: -int(known[0]))[:MOST_ROWS]
        for live, variance, count, asked, row in survivors:
            error = int(variance**0.5)
            figures = {"live_bytes": live, "settled_bytes": live, "sample_count": count, "asked_bytes": asked}
            rows.append(dict(row, error_bytes=error, **figures))
        return rows

    def lives(self) -> list[dict[str, Any]]:
        """Rows of the table ``allocation_lives``: what began and what ended since the last call.

        What did both is one row. In a long run fewer samples are followed: their rows grow as its logarithm does.
        """
        if not self.is_on:
            return []
        least = 1
        while self._followed > FULL_LIVES * least.bit_length():
            least *= 2
        rows: dict[int, dict[str, Any]] = {}
        for at in range(int(self._lib.sampler_lives(self._events, least))):
            event = self._events[at]
            if event.bytes:
                self._followed += 1
                rows[event.order] = {
                    "life": event.life, "thread_number": event.thread, "size_bytes": event.bytes,
                    "weight_bytes": int(event.weight),
                }  # fmt: skip
            else:
                row = rows.setdefault(event.life, {"life": event.life})
                row.update(end_order=event.order, end_thread_number=event.thread or None)
            if at % 256 == 255:
                give_way()
        return list(rows.values())

    def blocks(self) -> tuple[Any, int]:
        """(``struct block`` of rows.h, one behind the other; how many): memory of malloc that is alive, by address."""
        room = arrays.empty(ctypes.c_char, MOST_BLOCKS * BLOCK_BYTES)
        return room, int(self._lib.sampler_blocks(room, MOST_BLOCKS)) if self.is_on else 0

    def in_use_bytes(self) -> int | None:
        """What malloc has in use, of all that was asked for since samples began: an estimate. **Cost** 20 us."""
        return int(self._lib.sampler_in_use_bytes()) if self.is_on else None

    def burst_bytes(self) -> int | None:
        """How much more was in use at once since this was last asked than is now: an estimate. **Cost** 2 us."""
        return max(0, int(self._lib.sampler_burst_bytes())) if self.is_on else None

    def figures(self) -> dict[str, float]:
        """Bytes between two samples, samples drawn, dropped for lack of room, frees that were missed, alive now.

        Also how many stacks were not the thread's own, draws had no room on the stack, and samples no Python state.
        """
        self._lib.sampler_figures(ctypes.byref(self._figures))
        return {name: getattr(self._figures, name) for name in _Figures.NAMES}

    def left_out(self) -> list[str]:
        """What samples could not tell, since it was not safe to look: each thing once, as soon as there is some."""
        if not self.is_on:
            return []
        figures = self.figures()
        least = {"unknown": figures["drawn"] / 100}  # a thread's first ones: less than what samples are out by anyway
        new = [name for name in _LEFT_OUT if figures[name] > least.get(name, 0) and name not in self._told]
        self._told.update(new)
        return [_LEFT_OUT[name] for name in new]

    def _rows_of(self, kind: int, settled_s: float) -> list[dict[str, Any]]:
        used = self._lib.sampler_rows(self._room, _ROOM_BYTES, kind, MOST_ROWS, settled_s)
        text = ctypes.string_at(self._room, used).decode("utf-8", "replace") if used else ""
        rows = []
        for one in text.split("\2")[:-1]:
            head, _, calls = one.partition("\1")
            figures, _, native = head.partition("\n")
            _, live, settled, error, count, asked, resident, at_peak, ago_s = figures.split("\t")
            is_peak = at_peak != "-1"
            row = {
                "allocator": _KINDS[kind], "live_bytes": int(live), "settled_bytes": int(settled),
                "error_bytes": int(error), "sample_count": int(count), "asked_bytes": int(asked),
                "map_rss_bytes": int(resident) if kind == _MAPPED else None,
                "peak_bytes": int(at_peak) if is_peak else None, "peak_ago_s": float(ago_s) if is_peak else None,
            }  # fmt: skip
            row.update(columns_of(calls, names.is_user_file))
            row.update(self._of_native(native))
            rows.append(row)
            give_way()
        return rows

    def _of_native(self, text: str) -> dict[str, Any]:
        functions: list[tuple[str, str]] = []
        for one in text.split("\0"):
            path, newline, function = one.partition("\n")
            if newline and not os.path.basename(path).startswith(_OURS):
                functions.append((path, function))
        named = [(path, function) for path, function in functions if not self._is_between(path)]
        shown = [f"{os.path.basename(path)}:{function or '?'}" for path, function in functions]
        library, asked = named[0] if named else (None, None)
        return {
            "native_library": library, "native_function": asked or None, "native_stack": "\n".join(shown) or None,
        }  # fmt: skip

    def _is_between(self, path: str) -> bool:
        return path in self._python or os.path.basename(path).startswith(_BETWEEN)

    # ---- ends

    def forked(self, start_ticks: int) -> None:
        """In a forked child: what was asked for before is its parent's, and so is a window on objects."""
        self._survivors, self._pymalloc, self._followed = {}, [], 0
        if self._handle is not None:
            self._lib.sampler_note_requests(self._requests_file.encode(), start_ticks)
        if self.is_on:
            self._lib.sampler_forget()
            if self._armed_until is not None:
                self._armed_until = None
                self._held.sampler_disarm()

    def end(self) -> None:
        """Before Python ends: thread states go while their threads may still allocate."""
        if self.is_on:
            self._lib.sampler_without_python()
            if self._armed_until is not None:
                self._disarm()
            self._lib.sampler_end()
            self.is_on = False


def _refusal() -> str | None:
    machine = os.uname().machine
    if machine not in _MACHINES:
        return f"it is not known for {machine}"
    if not _is_glibc():
        return "libc is another than glibc"
    return layout.refusal()


def _is_glibc() -> bool:
    """Of musl another malloc and another loader come with it, and the library was made for neither."""
    return hasattr(ctypes.PyDLL(None), "gnu_get_libc_version")


def _is_traced() -> bool:
    """tracemalloc wraps the same functions, and what it wraps must not go from under it."""
    is_tracing = names.getattr_plain(sys.modules.get("_tracemalloc"), "is_tracing")
    return is_tracing is not None and bool(is_tracing())
