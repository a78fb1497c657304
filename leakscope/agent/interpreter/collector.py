"""Keeps the garbage collector from running while we look, without switching it off. Runs in the job.

What we allocate must not decide when the job's garbage is collected, and a collection in the middle of a snapshot
would run the job's finalizers there. ``gc.disable()`` would be seen by other threads, and undoing it could undo one of
theirs. The collector begins when the number of objects allocated since its last run passes a threshold: that number,
in the memory of the interpreter, is made so small that it does not get there. A collection that the job asks for
begins as ever, and sets it to 0.
"""

from __future__ import annotations

import ctypes
import gc
import os
import struct
import sys

_GENERATION = struct.Struct("<QQii")  # PyGC_Head, threshold, count: there are three in a row
_SCANNED_BYTES = 32 * 1024
_PAGE_BYTES = 4096
_HELD_BACK = 1 << 30


def _bases() -> int:
    """Where in memory to look for it: the state of the interpreter, or of the runtime (up to Python 3.8)."""
    if sys.version_info >= (3, 9):
        main = ctypes.pythonapi["PyInterpreterState_Main"]
        main.restype = ctypes.c_void_p
        return main()
    return ctypes.addressof(ctypes.c_char.in_dll(ctypes.pythonapi, "_PyRuntime"))


def _find_count() -> ctypes.c_int | None:
    """The count of the youngest generation, where it lies; None where nothing looks as it should.

    Read by the kernel: what is no memory is an error there, and no crash.
    """
    begins = _bases()
    thresholds, counts = gc.get_threshold(), gc.get_count()
    with open("/proc/self/mem", "rb", 0) as memory:
        data = b""
        while len(data) < _SCANNED_BYTES:
            at = begins + len(data)
            try:
                part = os.pread(memory.fileno(), _PAGE_BYTES - at % _PAGE_BYTES, at)
            except OSError:
                break
            data += part
    found = []
    threshold = thresholds[0].to_bytes(4, sys.byteorder)
    at = data.find(threshold)
    while at >= 16:
        if at + 2 * _GENERATION.size + 8 <= len(data):
            generations = [_GENERATION.unpack_from(data, at - 16 + i * _GENERATION.size) for i in range(3)]
            if all(map(_is_generation, generations, thresholds, counts)):
                found.append(begins + at + 4)
        at = data.find(threshold, at + 4)
    return ctypes.c_int.from_address(found[0]) if len(found) == 1 else None


def _is_generation(generation: tuple[int, ...], threshold: int, count: int) -> bool:
    return bool(generation[0]) and generation[2] == threshold and abs(generation[3] - count) < 64


def _verified() -> tuple[ctypes.c_int | None, ctypes.c_int | None]:
    """(count, whether a collection goes on), where they lie; Nones for what is not there. **Errors** any."""
    count = _find_count()
    if count is None:
        return None, None
    before = count.value
    kept: list[set[object]] = [set() for _ in range(20)]
    grown = count.value - before
    del kept
    if not 20 <= grown < 60 or abs(count.value - gc.get_count()[0]) > 16:
        return None, None
    # After the frozen objects come what gc.get_stats() says, and then this.
    stats = _multiple_of_8(_frozen(ctypes.addressof(count) - 20) + _GENERATION.size)
    said = [figure for one in gc.get_stats() for figure in one.values()]
    if list((ctypes.c_ssize_t * 9).from_address(stats)) != said:
        return count, None
    return count, ctypes.c_int.from_address(stats + 72)


def _multiple_of_8(address: int) -> int:
    return (address + 7) // 8 * 8


def _frozen(generations: int) -> int:
    """Where the list of frozen objects is: behind the three generations; up to 3.13 a pointer to the first is between.

    Of later releases of 3.13 the generations lie at any multiple of 4, and pointers and what is counted do not.
    """
    end = generations + 3 * _GENERATION.size
    return end if sys.version_info >= (3, 14) else _multiple_of_8(end) + 8


def locate() -> tuple[ctypes.c_int | None, ctypes.c_int | None]:
    """Where the flags lie; Nones after any error. A collection that begins meanwhile spoils a look: it is repeated."""
    found: tuple[ctypes.c_int | None, ctypes.c_int | None] = None, None
    for _ in range(_LOOKS):
        try:
            found = _verified()
        except Exception:
            break
        if None not in found:
            break
    return found


_LOOKS = 3
_count, _goes_on = locate()


def count() -> ctypes.c_int | None:
    """How many objects are new since the last collection, where that is counted: above a threshold the next begins."""
    return _count


def generations() -> int | None:
    """Address of the lists of all objects the collector knows, the youngest first; None where unclear."""
    return None if _count is None or _goes_on is None else ctypes.addressof(_count) - _GENERATION.size + 4


def frozen() -> int:
    """How far behind ``generations()`` the list of objects is that ``gc.freeze()`` hides; 0 where unclear."""
    begin = generations()
    return 0 if begin is None else _frozen(begin) - begin


def going_on() -> int | None:
    """Address of the number that says whether a collection goes on; None where unclear."""
    return None if _goes_on is None else ctypes.addressof(_goes_on)


def goes_on() -> bool:
    """Whether a collection does, in any thread: its finalizers and callbacks run while the heap is taken apart."""
    return _goes_on is not None and _goes_on.value != 0


class HeldBack:
    """``with HeldBack():`` no collection begins by itself. Where that cannot be had, one may."""

    def __enter__(self) -> None:
        self._is_held = False
        if _count is not None and _count.value > -_HELD_BACK // 2:
            _before[0] = _count.value
            _count.value -= _HELD_BACK
            self._is_held = True

    def __exit__(self, *error: object) -> None:
        if self._is_held:
            let_go()


_before = [0]


def let_go() -> None:
    """Also in a fork made meanwhile.

    What was freed meanwhile is not taken off a count below zero: all that a snapshot ever made would stand in it, and
    the job's next object would begin a collection. So it is what it was.
    """
    if _count is not None and _count.value < -_HELD_BACK // 2:  # else somebody has collected meanwhile
        _count.value = _before[0]
