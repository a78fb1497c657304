"""What the allocators below Python say of themselves: malloc, Python's small-object allocator, Arrow. Runs in the job.

Nothing here allocates on behalf of the job or runs code of it. The GIL is kept during every reading (PyDLL): they
take microseconds, and giving the GIL away would let other threads change what the reading is compared with.
"""

from __future__ import annotations

import ctypes
import sys
from time import monotonic, perf_counter

from ..interpreter import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

PERIOD_S = 2.0  # of the readings below that walk through pools and bins
COST_FACTOR = 200  # and not before 200 times what the last one cost: 1.4 ms for 220 MB of small objects
ARENAS_PERIOD_S = 10.0  # of rows of the arenas of malloc: up to MOST_ARENAS each time
MOST_ARENAS = 16  # that have most free, each a row of its own: a machine of 64 cores may have 512
_TRIED_BYTES = 100_000  # too much for a thread's own cache, too little for a mapping of its own


class _Mallinfo2(ctypes.Structure):
    _fields_ = [
        (name, ctypes.c_size_t)
        for name in ("arena", "ordblks", "smblks", "hblks", "hblkhd", "usmblks", "fsmblks", "uordblks", "fordblks",
                     "keepcost")
    ]  # fmt: skip


def _function(name: str, result: Any, *arguments: Any) -> Any:
    """A C function of the process; None where there is none. glibc has mallinfo2 from 2.33, musl never."""
    try:
        function = getattr(ctypes.PyDLL(None), name)
    except (OSError, AttributeError):
        return None
    function.restype = result
    function.argtypes = arguments
    return function


_mallinfo2 = _function("mallinfo2", _Mallinfo2)
_malloc_info = _function("malloc_info", ctypes.c_int, ctypes.c_int, ctypes.c_void_p)
_pymalloc_info = _function("_PyObject_DebugMallocStats", ctypes.c_int, ctypes.c_void_p)
_open_memstream = _function("open_memstream", ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_fclose = _function("fclose", ctypes.c_int, ctypes.c_void_p)
_free = _function("free", None, ctypes.c_void_p)


class _Place(ctypes.Structure):
    """``Dl_info`` of dladdr(3)."""

    _fields_ = [("file", ctypes.c_char_p), ("base", ctypes.c_void_p), ("name", ctypes.c_char_p),
                ("address", ctypes.c_void_p)]  # fmt: skip


def _served_by() -> str | None:
    """The file that serves malloc in place of glibc, preloaded or linked in; None where glibc's figures hold.

    Tried, not guessed by names: glibc has to know of what malloc hands out. A tool that only counts calls changes
    nothing.
    """
    malloc, malloc_free = (
        _function("malloc", ctypes.c_void_p, ctypes.c_size_t),
        _function("free", None, ctypes.c_void_p),
    )
    if _mallinfo2 is None or malloc is None or malloc_free is None:
        return None
    for _ in range(3):  # a thread without the GIL may free as much in between
        before = _mallinfo2()
        block = malloc(_TRIED_BYTES)
        after = _mallinfo2()
        if block:
            _free(block)
        if after.uordblks + after.hblkhd - before.uordblks - before.hblkhd >= _TRIED_BYTES:
            return None
    place = _Place()
    find = _function("dladdr", ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p)
    if find is None or not find(ctypes.cast(malloc, ctypes.c_void_p), ctypes.addressof(place)) or not place.file:
        return "another malloc"
    return place.file.rpartition(b"/")[2].decode("utf-8", "replace")


class _JeMalloc:
    """jemalloc's own figures, by mallctl. Its locks are its own, and are taken for a fork by its own handlers.

    **Cost** 60 us with 16 arenas: the first call adds up the arenas, the others read the sums.
    """

    def __init__(self) -> None:
        words = ctypes.c_char_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t
        self._control = _function("mallctl", ctypes.c_int, *words)

    def read(self, name: bytes) -> int | None:
        value, size = ctypes.c_size_t(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_size_t))
        failed = self._control(name, ctypes.addressof(value), ctypes.addressof(size), None, 0)
        return None if failed else value.value

    def figures(self) -> tuple[int | None, int | None, int | None, int | None]:
        """As ``malloc_figures``; Nones where it is none, or was built without statistics."""
        if self._control is None:
            return None, None, None, None
        epoch = ctypes.c_uint64(1)
        self._control(b"epoch", None, None, ctypes.addressof(epoch), ctypes.sizeof(epoch))
        names = b"stats.allocated", b"stats.resident", b"stats.metadata", b"stats.mapped"
        in_use, resident, own, mapped = map(self.read, names)
        if in_use is None or resident is None or own is None:
            return None, None, None, None
        return in_use, max(0, resident - own - in_use), None, mapped


class _TcMalloc:
    """tcmalloc's own figures, of gperftools: by the C interface of its MallocExtension, which adds up under its lock.

    **Cost** 20 us.
    """

    def __init__(self) -> None:
        words = ctypes.c_char_p, ctypes.c_void_p
        self._property = _function("MallocExtension_GetNumericProperty", ctypes.c_int, *words)

    def read(self, name: bytes) -> int | None:
        value = ctypes.c_size_t()
        return value.value if self._property(name, ctypes.addressof(value)) else None

    def figures(self) -> tuple[int | None, int | None, int | None, int | None]:
        """As ``malloc_figures``; Nones where it is none."""
        if self._property is None:
            return None, None, None, None
        names = b"generic.current_allocated_bytes", b"generic.heap_size", b"tcmalloc.pageheap_unmapped_bytes"
        in_use, heap, returned = map(self.read, names)
        if in_use is None or heap is None:
            return None, None, None, None
        return in_use, max(0, heap - (returned or 0) - in_use), None, heap


class _MiMalloc:
    """What mimalloc holds of the kernel; it counts neither what is in use nor what it keeps free. **Cost** 5 us."""

    def __init__(self) -> None:
        self._info = _function("mi_process_info", None, *[ctypes.c_void_p] * 8)

    def figures(self) -> tuple[int | None, int | None, int | None, int | None]:
        """As ``malloc_figures``; Nones where it is none."""
        if self._info is None:
            return None, None, None, None
        committed = ctypes.c_size_t()
        self._info(None, None, None, None, None, ctypes.addressof(committed), None, None)
        return None, None, None, committed.value


SERVED_BY = _served_by()
_others = (_JeMalloc(), _TcMalloc(), _MiMalloc()) if SERVED_BY is not None else ()


def malloc_figures() -> tuple[int | None, int | None, int | None, int | None]:
    """(in use, free, in own mappings, held of the kernel) bytes of glibc's malloc, or of what serves in its place.

    Nones where that says nothing. **Cost** 10 us, of jemalloc 60.
    Held of the kernel is address space: what was trimmed is still counted as held and, by glibc, as free.
    """
    for other in _others:
        figures = other.figures()
        if figures[-1] is not None:
            return figures
    if SERVED_BY is not None:
        return None, None, None, None
    if _mallinfo2 is None:
        return None, None, None, None
    info = _mallinfo2()
    return info.uordblks + info.hblkhd, info.fordblks, info.hblkhd, info.arena + info.hblkhd


def malloc_in_use_bytes() -> int | None:
    """The first of the above, of glibc alone. **Cost** 6 us."""
    if _mallinfo2 is None or SERVED_BY is not None:
        return None
    info = _mallinfo2()
    return info.uordblks + info.hblkhd


class Allocators:
    """Figures that cost more than a sentinel may: read now and then, and repeated in between as None."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._due_at = self._arenas_due_at = 0.0
        self._arenas: list[dict[str, Any]] = []
        self.longest_s = 0.2  # of one reading: where the last took half as long there is no other

    def figures(self) -> dict[str, Any]:
        """Columns of the table ``sentinels``; nulls where a reading is not due or not possible."""
        arenas = pymalloc = in_use = None
        now = self._clock()
        if now >= self._due_at:
            began = perf_counter()
            text = _written_by(_malloc_info, 0) if SERVED_BY is None else None
            arenas = _count_of_arenas(text)
            if now >= self._arenas_due_at:
                self._arenas_due_at = now + ARENAS_PERIOD_S
                self._arenas = arenas_of(text)
            pymalloc, in_use = _bytes_of_pymalloc(_written_by(_pymalloc_info))
            cost_s = perf_counter() - began
            is_cheap = cost_s < 0.5 * self.longest_s
            self._due_at = now + max(PERIOD_S, COST_FACTOR * cost_s) if is_cheap else float("inf")
        return {
            "malloc_arena_count": arenas,
            "pymalloc_bytes": pymalloc,
            "pymalloc_in_use_bytes": in_use,
            "native_cache_bytes": _arrow_bytes(),
        }

    def rows_of_arenas(self) -> list[dict[str, Any]]:
        """Rows of the table ``malloc_arenas`` that the last call of ``figures`` read; each is given once."""
        rows, self._arenas = self._arenas, []
        return rows


def _written_by(function: Any, *arguments: Any) -> bytes | None:
    """What a C function writes to a stream, here one in memory; None where it cannot be called."""
    if None in (function, _open_memstream, _fclose, _free):
        return None
    text, size = ctypes.c_void_p(), ctypes.c_size_t()
    stream = _open_memstream(ctypes.addressof(text), ctypes.addressof(size))
    if not stream:
        return None
    try:
        function(*(arguments + (stream,)))
    finally:
        _fclose(stream)
    try:
        return ctypes.string_at(text, size.value)
    finally:
        _free(text)


def _count_of_arenas(text: bytes | None) -> int | None:
    """Of the XML that malloc_info(3) writes."""
    return None if text is None else text.count(b"<heap nr=")


def arenas_of(text: bytes | None) -> list[dict[str, Any]]:
    """Each arena in that XML, those with most free first; all beyond MOST_ARENAS together in one row, without number.

    What malloc counts as free of an arena is in its bins and at its top: only the latter goes back by itself.
    """
    rows = []
    for part in (text or b"").split(b'<heap nr="')[1:]:
        part = part.partition(b"</heap>")[0]
        number, count = int(part.partition(b'"')[0]), 0
        sums = {b"fast": 0, b"rest": 0, b"current": 0, b"": 0}
        for tag in part.split(b"<")[1:]:
            kind, *given = tag.partition(b"/")[0].split() or [b""]
            figures = {name: value.strip(b'"') for name, _, value in (one.partition(b"=") for one in given)}
            if kind in (b"size", b"unsorted"):
                sums[b""] += int(figures.get(b"total", 0))
            elif kind in (b"total", b"system") and figures.get(b"type") in sums:
                sums[figures[b"type"]] += int(figures.get(b"size", 0))
                count += int(figures.get(b"count", 0)) if figures[b"type"] == b"rest" else 0
        fast = sums[b"fast"]
        in_bins = max(0, sums[b""] - fast)  # the sizes are those of the fast bins, too
        rows.append({
            "arena": number,
            "arena_count": 1,
            "system_bytes": sums[b"current"],
            "free_bytes": fast + sums[b"rest"],
            "top_bytes": max(0, sums[b"rest"] - in_bins),
            "free_chunk_count": count,
        })  # fmt: skip
    rows.sort(key=lambda row: -row["free_bytes"])
    others = rows[MOST_ARENAS:]
    if others:
        together = {name: sum(row[name] for row in others) for name in others[0]}
        return [*rows[:MOST_ARENAS], dict(together, arena=None)]
    return rows


def _bytes_of_pymalloc(text: bytes | None) -> tuple[int | None, int | None]:
    """(arenas, in use) of what ``sys._debugmallocstats()`` would print; Nones where Python runs on malloc alone."""
    total = in_use = None
    for line in (text or b"").splitlines():
        name, _, figure = line.partition(b"=")
        if b"bytes/arena" in name:
            total = int(figure.replace(b",", b""))
        elif name.startswith(b"# bytes in allocated blocks"):
            in_use = int(figure.replace(b",", b""))
    return total, in_use


def _arrow_bytes() -> int | None:
    """Bytes of Arrow's default pool, an atomic counter; None unless pyarrow is loaded completely."""
    if names.getattr_plain(sys.modules.get("pyarrow"), "Table") is None:
        return None
    total = names.getattr_plain(sys.modules.get("pyarrow.lib"), "total_allocated_bytes")
    return None if total is None else int(total())
