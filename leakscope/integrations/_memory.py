"""This process's memory as figures for a log, and cleanups with their account. Runs in the training process.

Knows no framework: torch is used only if the program has imported it, CUDA only if the program has initialised it.
"""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
from contextlib import suppress
from importlib import import_module
from time import perf_counter
from typing import Any, NamedTuple

from ..units import MiB, format_bytes, format_duration
from ._tensors import TensorCount

log = logging.getLogger("leakscope")
PREFIX = "memory/"
_MAX_READINGS = 256  # then every other one is dropped: a log of memory must not be a leak
_BLOCK_BYTES = 64  # a low guess at a block of Python's allocator (16 to 512 bytes), whose arenas rarely go back


class MemoryFigures:
    """What to log at a step, beginning with the end of the first one: until then model and optimizer are set up."""

    def __init__(self) -> None:
        self._readings: list[tuple[int, int]] = []  # (step, rss_bytes)
        self._tensors = TensorCount()

    def begin(self, step: int) -> None:
        """The end of a step: growth counts from the first call, the others do nothing."""
        if not self._readings:
            self._read(step)

    def at(self, step: int) -> dict[str, float]:
        """Figures by name, those that are to be had.

        ``growth_bytes_per_step`` is over the second half of the steps so far, so that a warm-up drops out of it.
        """
        figures: dict[str, float] = {}
        rss = self._read(step)
        if rss is not None:
            figures["rss_bytes"] = rss
            figures["growth_bytes"] = rss - self._readings[0][1]
            slope = self._growth_bytes_per_step()
            if slope is not None:
                figures["growth_bytes_per_step"] = slope
        figures.update(self._tensors.figures())
        figures.update(cuda_figures())
        return {PREFIX + name: value for name, value in figures.items()}

    def _read(self, step: int) -> int | None:
        rss = rss_bytes()
        if rss is not None:
            self._readings.append((step, rss))
            if len(self._readings) > _MAX_READINGS:
                del self._readings[1:-1:2]
        return rss

    def _growth_bytes_per_step(self) -> float | None:
        last_step, last_rss = self._readings[-1]
        half_way = (self._readings[0][0] + last_step) / 2
        step, rss = next(reading for reading in self._readings if reading[0] >= half_way)
        return (last_rss - rss) / (last_step - step) if last_step > step else None


class Cleanup(NamedTuple):
    """One cleanup. ``garbage_bytes`` went back to this process's allocators, whether or not the system got them."""

    step: int
    freed_bytes: int  # resident memory before less after
    garbage_bytes: int
    cuda_freed_bytes: int  # reserved before less after
    object_count: int  # unreachable objects that the collector found
    duration_s: float

    @property
    def gain_bytes(self) -> int:
        """The more favourable of both readings: freed memory that stays with the allocator still saves new one."""
        return max(self.freed_bytes, self.garbage_bytes, 0) + max(self.cuda_freed_bytes, 0)

    def __str__(self) -> str:
        text = f"freed {format_bytes(max(self.freed_bytes, 0))} and {self.object_count:,} objects"
        if self.cuda_freed_bytes > 0:
            text += f", {format_bytes(self.cuda_freed_bytes)} on the GPU"
        return f"{text} in {format_duration(self.duration_s)}"


class MemoryCleanup:
    """Collects garbage and hands memory back every ``every_n_steps`` steps, and says what that was good for.

    Each cleanup is logged (level INFO, logger "leakscope") and marked in a recording. The first finds what start-up
    left behind; the account begins after it. One warning says so if ``verdict_after`` more have not helped: if the
    garbage they found is less than ``useless_fraction`` of the growth meanwhile, or if nothing grew and nothing was
    freed (both less than ``min_growth_bytes``).
    """

    def __init__(
        self,
        every_n_steps: int = 100,
        *,
        verdict_after: int = 5,  # one that found little proves nothing: garbage may come with an epoch's end
        useless_fraction: float = 0.01,  # at this rate it puts the end off by a hundredth
        min_growth_bytes: int = 16 * MiB,  # below that resident memory moves by itself
    ) -> None:
        if every_n_steps < 1:
            raise ValueError(f"every_n_steps is {every_n_steps}: expected 1 or more")
        self._every_n_steps = every_n_steps
        self._verdict_after = verdict_after
        self._useless_fraction = useless_fraction
        self._min_growth_bytes = min_growth_bytes
        self._steps = 0
        self._held_after_first_bytes: int | None = None
        self._count = 0
        self._gain_bytes = 0
        self._garbage_bytes = 0
        self._duration_s = 0.0
        self._has_judged = False

    def step(self) -> Cleanup | None:
        """Call it after each training step. The cleanup, on the steps that have one."""
        self._steps += 1
        return self.clean() if self._steps % self._every_n_steps == 0 else None

    def clean(self) -> Cleanup:
        """Clean up now, whatever the step."""
        done = _clean(self._steps)
        log.info("cleanup %s", done)
        # By its module, not by an import from the room above: the package is loaded, this module is in it.
        import_module("leakscope").mark(label=f"cleanup {done}")
        held_bytes = _held_bytes()
        if self._held_after_first_bytes is None:
            self._held_after_first_bytes = held_bytes
        elif held_bytes is not None:
            self._count += 1
            self._gain_bytes += done.gain_bytes
            self._garbage_bytes += max(done.garbage_bytes, 0)
            self._duration_s += done.duration_s
            self._judge(held_bytes - self._held_after_first_bytes)
        return done

    @property
    def summary(self) -> str:
        """``12 cleanups after the first freed 0.3 MiB in total and cost 4.1 s``."""
        freed, cost = format_bytes(self._gain_bytes), format_duration(self._duration_s)
        return f"{self._count} cleanup{'s' * (self._count != 1)} after the first freed {freed} in total and cost {cost}"

    def _judge(self, growth_bytes: int) -> None:
        if self._has_judged or self._count < self._verdict_after:
            return
        useful_bytes = self._useless_fraction * growth_bytes
        if max(growth_bytes, self._gain_bytes) < self._min_growth_bytes:
            verdict = "this does not help (memory did not grow meanwhile)"
        elif growth_bytes < self._min_growth_bytes or self._garbage_bytes >= useful_bytes:
            return
        elif self._gain_bytes < useful_bytes:
            verdict = f"this does not help (memory grew by {format_bytes(growth_bytes)} meanwhile)"
        else:  # a step's passing memory, free as it was: handed back, and needed again by the next step
            verdict = f"the program took it again, and memory grew by {format_bytes(growth_bytes)} all the same"
        self._has_judged = True
        log.warning("%s: %s", self.summary, verdict)


def _clean(step: int) -> Cleanup:
    began = perf_counter()
    reserved_before, rss_before, in_use_before = _cuda_reserved_bytes(), rss_bytes(), _in_use_bytes()
    object_count = gc.collect()
    in_use_after = _in_use_bytes()
    if reserved_before:
        sys.modules["torch"].cuda.empty_cache()
    _trim()
    return Cleanup(
        step=step,
        freed_bytes=(rss_before or 0) - (rss_bytes() or 0),
        garbage_bytes=in_use_before - in_use_after,
        cuda_freed_bytes=reserved_before - _cuda_reserved_bytes(),
        object_count=object_count,
        duration_s=perf_counter() - began,
    )


def cleanup_figures(cleanups: list[Cleanup]) -> dict[str, float]:
    """What the cleanups since the last log did, added up, as figures for it."""
    return {
        PREFIX + "cleanup_gain_bytes": sum(c.gain_bytes for c in cleanups),
        PREFIX + "cleanup_object_count": sum(c.object_count for c in cleanups),
        PREFIX + "cleanup_s": sum(c.duration_s for c in cleanups),
    }


def rss_bytes() -> int | None:
    """Resident memory of this process; None where there is no /proc. **Cost** 10 us."""
    try:
        with open("/proc/self/statm", "rb", 0) as stream:
            return int(stream.read(200).split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:
        return None


def cuda_figures() -> dict[str, float]:
    """Memory of the current GPU as torch counts it; empty unless the program has initialised CUDA (we never do)."""
    cuda: Any = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None or not cuda.is_initialized():
        return {}
    return {"cuda_allocated_bytes": cuda.memory_allocated(), "cuda_reserved_bytes": cuda.memory_reserved()}


def _cuda_reserved_bytes() -> int:
    return int(cuda_figures().get("cuda_reserved_bytes", 0))


def _held_bytes() -> int | None:
    """What a cleanup could give back: resident memory and what torch holds on the GPU."""
    rss = rss_bytes()
    return None if rss is None else rss + _cuda_reserved_bytes()


class _Mallinfo2(ctypes.Structure):
    """mallinfo2(3): ten sizes, of which [4] is hblkhd (in maps of their own) and [7] uordblks (in use in the heap)."""

    _fields_ = [("sizes", ctypes.c_size_t * 10)]


def _libc_function(name: str, result: Any) -> Any:
    """A function of the C library; None where it has no such (macOS, musl, old glibc)."""
    with suppress(OSError, AttributeError, TypeError):
        function = getattr(ctypes.CDLL(None), name)
        function.restype = result
        return function
    return None


_mallinfo2 = _libc_function("mallinfo2", _Mallinfo2)
_malloc_trim = _libc_function("malloc_trim", ctypes.c_int)


def _in_use_bytes() -> int:
    """What malloc, torch on the GPU and, roughly, Python's allocator have handed out."""
    in_use = sys.getallocatedblocks() * _BLOCK_BYTES + int(cuda_figures().get("cuda_allocated_bytes", 0))
    if _mallinfo2 is not None:
        sizes = _mallinfo2().sizes
        in_use += int(sizes[4] + sizes[7])
    return in_use


def _trim() -> None:
    if _malloc_trim is not None:
        _malloc_trim(ctypes.c_size_t(0))
