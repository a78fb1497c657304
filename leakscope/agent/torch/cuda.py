"""Figures of torch's CUDA allocator, and what it says when it runs out. Runs in the job, on the training thread.

Written from torch's sources, 2.0 to 2.13; run with 2.11 on an H100, where ``rows`` took 23 us.

Everything waits until the job itself has initialised CUDA: a context takes hundreds of megabytes of the device and
makes later forks unsafe, so none is ever made by us. A forked child calls nothing: its CUDA belongs to its parent.
While a stream is captured into a CUDA graph nothing is called either: it could spoil the capture.
"""

from __future__ import annotations

import os
import sys
from itertools import islice
from time import monotonic

from ..interpreter import names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from types import FrameType
    from typing import Any, Tuple

    Running = Callable[[], Mapping[int, Sequence[Tuple[str, int, int, str]]]]

PERIOD_S = 1.0
MOST_REPORTS = 20  # a job that tries ever smaller batches runs out often: the allocator counts the rest
MOST_FRAMES = 5

# The backend whose figures are counters of torch's own: reading them is no call of the driver.
NATIVE = "native"

_PID = os.getpid()  # the agent is loaded as a process starts: in a forked child it is another
_AUTOGRAD = os.sep + os.path.join("torch", "autograd") + os.sep
_next_s = 0.0
_attach_tried = False


def rows_if_due(step: int | None) -> list[dict[str, Any]]:
    """``rows`` at most once a second: after each optimizer step, for a curve. Snapshots are too rare for one."""
    return rows(step) if _is_due() else []


def rows_from_aside(step: int | None) -> list[dict[str, Any]]:
    """Figures of the allocator, read on a thread of ours: for a job without an optimizer, a service or an evaluation.

    It waits for the allocator as ``torch.cuda.memory_allocated`` of the job's would, and makes no CUDA call: such a
    thread has the first device for its own, and would make a context there. So nothing is read of a backend that asks
    the driver, and nobody asks whether a graph is being captured, which counters do not disturb.
    """
    try:
        binding = _binding()
        backend = names.getattr_plain(binding, "_cuda_getAllocatorBackend")
        return _rows(binding, step) if backend is not None and _is_due() and backend() == NATIVE else []
    except Exception as error:
        if names.is_foreign(error):
            raise
        return []


def rows(step: int | None) -> list[dict[str, Any]]:
    """Rows of the table ``allocator``, one a device this process has used; none where it does not use CUDA.

    Pinned host memory belongs to the process: the first row has it. With torch's own allocator this is reading of
    counters under a lock, no CUDA call; the cudaMallocAsync backend asks the driver.
    """
    try:
        binding = _binding()
        return [] if binding is None or _is_capturing(binding) else _rows(binding, step)
    except Exception as error:
        if names.is_foreign(error):
            raise
        return []


def _is_due() -> bool:
    global _next_s
    now_s = monotonic()
    if now_s < _next_s:
        return False
    _next_s = now_s + PERIOD_S
    return True


def _rows(binding: Any, step: int | None) -> list[dict[str, Any]]:
    count_devices = names.getattr_plain(binding, "_cuda_getDeviceCount")
    if count_devices is None:
        return []
    found = [row for row in [device_row(device, step) for device in range(count_devices())] if row is not None]
    if found:
        found[0]["pinned_bytes"] = _pinned_bytes(binding)
    return found


def device_row(device: int, step: int | None) -> dict[str, Any] | None:
    """The row of one device; None if this process never allocated there. In the observer's callback call this."""
    try:
        read = names.getattr_plain(_binding(), "_cuda_memoryStats")
        stats = {} if read is None else read(device)
        if not _figure(stats, "reserved_bytes", "peak"):
            return None
        return {
            "device": f"cuda:{device}",
            "allocated_bytes": _figure(stats, "allocated_bytes"),
            "reserved_bytes": _figure(stats, "reserved_bytes"),
            "active_bytes": _figure(stats, "active_bytes"),
            "inactive_split_bytes": _figure(stats, "inactive_split_bytes"),
            "peak_allocated_bytes": _figure(stats, "allocated_bytes", "peak"),
            "alloc_retry_count": _whole(stats.get("num_alloc_retries")),
            "device_oom_count": _whole(stats.get("num_ooms")),
            "step": step,
        }
    except Exception as error:
        if names.is_foreign(error):
            raise
        return None


def attach_oom_observer(callback: Callable[[int, int, int, int, str], None], running: Running) -> str | None:
    """Have ``callback(device, requested_bytes, total_bytes, free_bytes, frames)`` called when an allocation fails.

    To be called at every safe point: it acts once, after CUDA was initialised (earlier would initialise it).
    ``frames`` is text, the user's innermost first. The callback runs on the thread that allocates, before the job's
    exception, without the allocator's lock. ``running()``: the calls of each other thread, innermost first, each (file,
    line, first line of the function, its name). Returns a line for ``agent_notes`` where torch refuses, else None.
    """
    global _attach_tried
    try:
        binding = None if _attach_tried else _binding()
        if binding is None or _is_capturing(binding):
            return None
        _attach_tried = True  # there is no way to detach: a second one would report everything twice
        attach = names.getattr_plain(binding, "_cuda_attach_out_of_memory_observer")
        if attach is None:
            return "CUDA out-of-memory errors are not observed: this torch has no observers"
        attach(_observer(callback, running))
    except Exception as error:  # the cudaMallocAsync backend and pluggable allocators refuse
        if names.is_foreign(error):
            raise
        reason = str(error).split("\n", 1)[0][:200]
        return f"CUDA out-of-memory errors are not observed: {reason}"
    return None


def oom_text(device: int, requested_bytes: int, total_bytes: int, free_bytes: int, frames: str) -> str:
    """The text of an ``agent_notes`` row "cuda-oom"; the report reads the figures back from it."""
    text = f"cuda:{device}: {requested_bytes} bytes asked for, {free_bytes} free of {total_bytes}"
    return f"{text}, at {frames}" if frames else text


def _observer(
    callback: Callable[[int, int, int, int, str], None], running: Running
) -> Callable[[int, int, int, int], None]:
    reports = iter(range(MOST_REPORTS))

    def observe(device: int, requested_bytes: int, total_bytes: int, free_bytes: int) -> None:
        try:
            if os.getpid() == _PID and next(reports, None) is not None:
                callback(device, requested_bytes, total_bytes, free_bytes, _user_frames(running))
        except Exception:
            pass  # whatever leaves here would take the place of the job's own out-of-memory error

    return observe


def _user_frames(running: Running) -> str:
    """``file:line function < caller``. Backward runs on threads without Python frames: then those of who waits.

    No frame of another thread is touched: if that returned meanwhile, its variables would be finalized on this one.
    """
    lines = _lines(_own_calls(sys._getframe(1)))
    if lines:
        return " < ".join(lines)
    for calls in running().values():
        if calls and _AUTOGRAD in calls[0][0]:
            lines = _lines((file, line, name.rpartition(".")[2]) for file, line, _, name in calls)
            if lines:
                return " < ".join(lines) + " (in backward)"
    return ""


def _own_calls(frame: FrameType | None) -> Iterable[tuple[str, int, str]]:
    while frame is not None:
        yield names.file_of(frame.f_code), frame.f_lineno, names.name_of(frame.f_code)
        frame = frame.f_back


def _lines(calls: Iterable[tuple[str, int, str]]) -> list[str]:
    users = (f"{file}:{line} {name}" for file, line, name in calls if names.is_user_file(file))
    return list(islice(users, MOST_FRAMES))


def is_used() -> bool:
    """Whether this process has CUDA in use."""
    return _binding() is not None


def _binding() -> Any:
    """torch._C of a process that has CUDA in use; None before, and in a forked child."""
    if names.getattr_plain(sys.modules.get("torch.cuda"), "_initialized") is not True or os.getpid() != _PID:
        return None
    return sys.modules.get("torch._C")


def _is_capturing(binding: Any) -> bool:
    ask = names.getattr_plain(binding, "_cuda_isCurrentStreamCapturing")
    try:
        return ask is not None and bool(ask())
    except Exception as error:
        if names.is_foreign(error):
            raise
        return True  # another stream may be, or the device is broken: hands off


def _pinned_bytes(binding: Any) -> int | None:
    """Pinned host memory, in use and cached, sizes rounded up to powers of two; None before torch 2.6."""
    read = names.getattr_plain(binding, "_cuda_hostMemoryStats")
    return None if read is None else _figure(read(), "allocated_bytes")


def _figure(stats: Any, name: str, metric: str = "current") -> int | None:
    """A figure of all pools; the host allocator has no pools."""
    values = stats.get(name) or {}
    return _whole(values.get("all", values).get(metric))


def _whole(value: Any) -> int | None:
    return value if type(value) is int else None
