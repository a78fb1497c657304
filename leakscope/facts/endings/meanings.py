"""Fatal texts and what they mean, the special before the general. ``known`` finds the first that a text contains.

``{process}`` in a title is the process, ``{what}`` what the text itself names.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...signals import FATAL_SIGNALS, Signal

_NO_LACK = "this is not a lack of memory"


class Meaning(NamedTuple):
    """One kind of fatal text. ``ends_by``: the signal that ends a process which says so on stderr."""

    name: str
    pattern: re.Pattern[str]
    title: str
    why: str
    severity: str = "critical"
    ends_by: int | None = None
    remedy: tuple[str, ...] = ()


def _m(name: str, pattern: str, title: str, why: str, **more: object) -> Meaning:
    return Meaning(name, re.compile(pattern, re.MULTILINE), title, why, **more)  # type: ignore[arg-type]


MEANINGS = (
    _m("deallocating-none", r"Fatal Python error: (?:none_dealloc|(?:(?!Fatal).)*deallocating None)|deallocating None",
       "{process} was aborted because None ran out of references: a C extension drops references that it does not own",
       "calls of the extension drop references to None that are not its own; once there are no more, Python aborts; "
       + _NO_LACK, ends_by=Signal.SIGABRT,
       remedy=("run it on Python 3.12 or later, where None cannot run out; or update the extension",)),
    _m("bad-references", r"Fatal Python error: (?P<what>(?:(?!Fatal).)*?(?:deallocating|negative ref ?count).*)",
       "{process} was aborted by Python: a C extension counts references wrongly ({what})",
       "C code dropped a reference to an object once too often; " + _NO_LACK, ends_by=Signal.SIGABRT),
    _m("gpu-memory", r"(?:CUDA|HIP|XPU) out of memory\.|CUDA error: out of memory|CUDA_ERROR_OUT_OF_MEMORY"
       r"|cudaErrorMemoryAllocation"
       r"|CU(?:BLAS|DNN|SPARSE|SOLVER)_STATUS_ALLOC_FAILED|RESOURCE_EXHAUSTED: (?:Out of memory|Failed to allocate)"
       r"|OOM when allocating tensor(?!(?:(?!OOM).)*device:CPU)|cupy\.cuda\.memory\.OutOfMemoryError",
       "GPU memory ran out in {process}", "the GPU had no memory left for an allocation"),
    _m("gpu-fault", r"CUDA error: (?P<what>[^\n]+)", "A GPU kernel failed in {process}: {what}",
       "the kernel that failed may have been started some lines earlier: CUDA reports it late; " + _NO_LACK,
       remedy=("run it once with CUDA_LAUNCH_BLOCKING=1: the traceback then names the call that fails",)),
    _m("shared-memory", r"Unexpected bus error encountered in worker|insufficient shared memory \(shm\)"
       r"|unable to (?:write to|resize|allocate shared memory\(shm\) for) file <?/torch_[^\n]*"
       r"|No space left on device(?:(?!No space)[^\n])*/dev/shm|/dev/shm(?:(?!/dev/shm)[^\n])*No space left on device",
       "Shared memory ran out in {process}",
       "loader workers hand their batches over in /dev/shm, which has a size of its own", ends_by=Signal.SIGBUS),
    _m("worker-died", r"DataLoader worker \(pid(?:\(s\))? (?P<pids>[\d, ]+)\) (?:exited unexpectedly"
       r"|is killed by signal: (?P<signal>[A-Za-z ]+)\b)",
       "A DataLoader worker of {process} died", "the worker ended without reporting an error"),
    _m("worker-died", r"A process in the process pool was terminated abruptly"
       r"|One of the subprocesses has abruptly died during map operation",
       "A worker process of {process} died", "the worker ended without reporting an error"),
    _m("no-memory", r"^(?:[\w.]+\.)?_?(?:Array|Arrow)?MemoryError\b|std::bad_alloc|Cannot allocate memory|\[Errno 12\]"
       r"|DefaultCPUAllocator: (?:can't allocate|not enough) memory",
       "{process} was refused memory", "an allocation failed; the process was not killed", ends_by=Signal.SIGABRT),
    _m("damaged-heap", r"(?P<what>double free or corruption|corrupted (?:size vs\. prev_size|double-linked list)"
       r"|(?:free|malloc|realloc|munmap_chunk|malloc_consolidate)\(\): "
       r"(?:invalid|corrupted|unaligned|mismatching|unsorted|memory corruption|largebin)[^\n]*)",
       "Native code damaged the heap of {process}: {what}",
       "malloc found its own records overwritten; the code that did it may have run long before; " + _NO_LACK,
       ends_by=Signal.SIGABRT),
    _m("c++-exception", r"terminate called after throwing an instance of '(?P<what>[^']+)'"
       r"|terminate called without an active exception",
       "{process} was aborted by an uncaught C++ exception: {what}", "native code aborted",
       ends_by=Signal.SIGABRT),
    _m("deep-recursion", r"Fatal Python error: (?:(?!Fatal).)*?(?:[Ss]tack overflow|_Py_CheckRecursiveCall)",
       "{process} was aborted by a recursion that does not end",
       "functions call each other ever deeper; the limit is on calls; " + _NO_LACK, ends_by=Signal.SIGABRT),
    _m("native-fault", r"Fatal Python error: (?P<what>Segmentation fault|Bus error|Aborted|Illegal instruction"
       r"|Floating[ -]point exception)", "{process} crashed in native code: {what}",
       "native code used memory wrongly, or gave up; " + _NO_LACK),
    _m("python-fault", r"Fatal Python error: (?!Segm|Bus|Abort|Illeg|Float)(?P<what>[^\n]+)",
       "Python itself aborted in {process}: {what}",
       "the interpreter found its own state broken", ends_by=Signal.SIGABRT),
    _m("recursion", r"^RecursionError\b", "{process} ended by RecursionError",
       "functions call each other without end; the limit is on calls; " + _NO_LACK, severity="note"),
)  # fmt: skip

_BY_SIGNAL = re.compile("")
_LOADER = re.compile(r"torch[/\\]utils[/\\]data[/\\]dataloader\.py")


def known(text: str, ends_by: int | None = None) -> Meaning | None:
    """The meaning of a text; with a signal, of what is said before a process ends by it."""
    for meaning in MEANINGS:
        if ends_by in (None, meaning.ends_by) and meaning.pattern.search(text):
            return meaning
    return None


def of_broken_pipe(exception_type: str | None, trace: str) -> Meaning | None:
    """A worker that is gone shows as the end of its pipe where torch or the pool was not told in time."""
    if exception_type not in ("EOFError", "ConnectionResetError", "BrokenPipeError"):
        return None
    return next((m for m in MEANINGS if m.name == "worker-died"), None) if _LOADER.search(trace) else None


def of_signal(number: int) -> Meaning:
    """What is left to say when only the signal is known."""
    name = FATAL_SIGNALS[Signal(number)]
    why = "native code aborted, or found its data corrupted" if number == Signal.SIGABRT else "native code failed"
    return Meaning("native-fault", _BY_SIGNAL, f"{{process}} crashed in native code: {name}", f"{why}; {_NO_LACK}")


def of_full_shared_memory() -> Meaning:
    """Of a bus error while /dev/shm is full: pages of shared memory are made as they are written, or not."""
    why = "shared memory that is made larger than /dev/shm has room for is given, and a write to it ends the process"
    return Meaning("shared-memory", _BY_SIGNAL, "{process} died of a bus error", why)
