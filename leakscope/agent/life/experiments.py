"""Try once what people are told to try: what do gc.collect() and malloc_trim() give back? Runs in the job, at its end.

At its end, since each of them changes the state it measures, and since a collection runs the job's finalizers: as the
interpreter ends they run anyway. For the same reason the collection comes last, after all else was written.

Without ``--probe`` only what is cheap is tried, and CUDA is left alone: to free a cached block waits for the device,
and a job whose device hangs would then never end. On an H100 emptying the device's cache took 4 ms.
"""

from __future__ import annotations

import ctypes
import gc
import os
import sys
from time import monotonic

from ..interpreter import doors, files, names
from ..native.memory import rss_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

LEAST_BYTES = 200 << 20  # of resident memory: below it nobody asks
BUDGET_S = 0.5
# Measured: a collection takes 6 to 38 ns a block of Python's allocator, 84 if all of it is garbage; a trim 35 ms a GiB.
_COLLECT_S_PER_BLOCK = 80e-9
_TRIM_S_PER_BYTE = 0.1 / (1 << 30)
_OTHER_MALLOCS = ("mallctl", "tc_version", "mi_version")  # jemalloc, tcmalloc, mimalloc in place of glibc's

_PID = os.getpid()  # the agent is loaded as a process starts: in a forked child it is another


def run(asked: bool = False, free_bytes: int | None = None, budget_s: float = BUDGET_S) -> Iterator[dict[str, Any]]:
    """Yield rows of the table ``experiments``, each as soon as it is measured, the collection last.

    ``asked``: the user wants it whatever it costs. ``free_bytes``: what malloc says it holds free. Nothing is tried in
    a forked child, after an exception that ended the program, and in a small process that was not asked.
    """
    try:
        if os.getpid() != _PID or hasattr(sys, "last_traceback") or sys.is_finalizing():
            return
        if not asked and (rss_bytes() or 0) < LEAST_BYTES:
            return
        ends = monotonic() + budget_s
        trim = _malloc_trim()
        if trim is not None and (asked or (free_bytes or 0) * _TRIM_S_PER_BYTE < budget_s):
            yield _measured("malloc_trim", lambda: trim(0))
        if asked:
            for row in _cuda_rows():
                yield row
            release = _release_of_arrow()
            if release is not None:
                yield _measured("arrow.release_unused", release)
        blocks = doors.allocated_blocks()
        cost_s = float("inf") if blocks is None else blocks * _COLLECT_S_PER_BLOCK
        if asked or (monotonic() + cost_s < ends and not _has_children() and not _would_be_noticed()):
            yield _collection(trim)
    except Exception as error:
        if names.is_foreign(error):
            raise


def _measured(experiment: str, remedy: Callable[[], object]) -> dict[str, Any]:
    before, began = rss_bytes(), monotonic()
    remedy()
    took = monotonic() - began
    after = rss_bytes()
    returned = None if before is None or after is None else before - after
    return {"experiment": experiment, "returned_bytes": returned, "experiment_s": took}


def _collection(trim: Any) -> dict[str, Any]:
    """What a collection frees may stay in malloc: it counts what a trim after it gives back, one before it was done."""
    freed = []

    def collect() -> None:
        freed.append(gc.collect())
        if trim is not None:
            trim(0)

    row = _measured("gc.collect", collect)
    row["freed_count"] = freed[0]
    return row


def _malloc_trim() -> Any:
    """glibc's; None under another libc or another malloc, which it would not reach."""
    try:
        library = ctypes.CDLL(None)
        if any(_has(library, name) for name in _OTHER_MALLOCS):
            return None
        trim = library.malloc_trim
    except (OSError, AttributeError):
        return None
    trim.argtypes = (ctypes.c_size_t,)
    return trim


def _has(library: Any, name: str) -> bool:
    try:
        library[name]
    except AttributeError:
        return False
    return True


def _would_be_noticed() -> bool:
    """The job listens to its collections, by callbacks or debug flags, or has switched them off.

    With the collector on, the interpreter collects as the next thing it does, and so the same finalizers run.
    """
    return bool(gc.callbacks or gc.get_debug() or not gc.isenabled())


def _has_children() -> bool:
    """A collection writes to every container: living forked children would then hold copies of those pages."""
    try:
        for thread in os.listdir("/proc/self/task"):
            with open(f"/proc/self/task/{thread}/children", "rb", opener=files.open_high) as stream:
                if stream.read(1):
                    return True
    except OSError:  # a kernel that does not say, or a thread that has just ended
        return True
    return False


def _cuda_rows() -> Iterator[dict[str, Any]]:
    """Torch's caches, of the device and of pinned memory, where the job itself has initialised CUDA."""
    if names.getattr_plain(sys.modules.get("torch.cuda"), "_initialized") is not True:
        return
    binding = sys.modules.get("torch._C")
    capturing = names.getattr_plain(binding, "_cuda_isCurrentStreamCapturing")
    if capturing is None or capturing():
        return
    for experiment, name in (
        ("torch.cuda.empty_cache", "_cuda_emptyCache"),
        ("empty_host_cache", "_host_emptyCache"),
    ):
        empty = names.getattr_plain(binding, name)
        if empty is None:
            continue
        before = _reserved_bytes(binding)
        row = _measured(experiment, empty)
        after = _reserved_bytes(binding)
        row["text"] = f"reserved on the devices: {before} bytes before, {after} after"
        yield row


def _release_of_arrow() -> Callable[[], object] | None:
    """Of Arrow's default pool, where the job has loaded pyarrow completely: a call of C++ that frees nothing in use."""
    if names.getattr_plain(sys.modules.get("pyarrow"), "Table") is None:
        return None
    pool_of = names.getattr_plain(sys.modules.get("pyarrow.lib"), "default_memory_pool")
    return None if pool_of is None else pool_of().release_unused


def _reserved_bytes(binding: Any) -> int:
    """What torch's allocator holds of all devices."""
    total = 0
    count_devices, read = (names.getattr_plain(binding, n) for n in ("_cuda_getDeviceCount", "_cuda_memoryStats"))
    for device in range(count_devices() if count_devices and read else 0):
        pools = (read(device) or {}).get("reserved_bytes") or {}
        current = (pools.get("all") or {}).get("current")
        total += current if type(current) is int else 0
    return total
