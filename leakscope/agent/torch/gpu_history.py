"""Torch's own history of GPU memory, for ``record --gpu-history``: turned on, and kept at the moments that count.

Runs in the job, and only where the user asked: it makes each allocation a little dearer (2 us, torch's documentation
says), and 100,000 entries with short stacks took 25 to 40 MiB of host memory on an H100 (torch 2.11). Written from
torch's sources, 2.0 to 2.13. On a build without CUDA it does nothing, and says so at the end.
"""

from __future__ import annotations

import os
import sys

from ..interpreter import doors, names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from typing import Any

MOST_EVENTS = 100_000  # newest allocations and frees that torch keeps, on all devices: some hundred MB of host memory
MOST_FILES = {"out-of-memory": 2, "near-limit": 1, "exit": 1}  # a job that tries ever smaller batches runs out often
ON = "gpu-history-on"  # what is noted once it is
LEAST_FREE = 0.05  # of a device: with less left the limit is near

_PID = os.getpid()


class GpuHistory:
    """Of one process. ``path(number)`` of a file to write; ``note(kind, text)`` writes a row of ``agent_notes``."""

    def __init__(self, path: Callable[[int], str], note: Callable[[str, str], None]) -> None:
        self._path = path
        self._note = note
        self._written: list[str] = []
        self.is_on = False

    def hooks(self) -> dict[str, Callable[[Any, Any], None]]:
        """What is to be called when modules have been imported."""
        return {"torch.cuda": self._cuda_imported}

    def _cuda_imported(self, _hooks: Any, module: Any) -> None:
        """Torch itself calls back once the job has initialised CUDA; at once, if it has."""
        call_later = names.getattr_plain(module, "_lazy_call")
        if call_later is not None:
            call_later(doors.door(self._begin))

    def _begin(self) -> bool:
        try:
            self._turn_on()
        except Exception as error:  # whatever leaves here would end the job's first use of CUDA
            if names.is_foreign(error):
                raise
            self._note("gpu-history", f"not recorded: torch refuses ({_line(error)})")
        return True

    def _turn_on(self) -> None:
        if os.getpid() != _PID:
            return
        is_enabled = names.getattr_plain(sys.modules.get("torch._C"), "_cuda_isHistoryEnabled")
        if is_enabled is not None and is_enabled():
            self.is_on = True
            self._note("gpu-history", "the program records the history of GPU memory itself: with its own settings")
            return
        record = names.getattr_plain(sys.modules.get("torch.cuda.memory"), "_record_memory_history")
        if record is None:
            self._note("gpu-history", "not recorded: this torch has no history of GPU memory")
            return
        try:
            record("all", context="alloc", stacks="python", max_entries=MOST_EVENTS)
        except TypeError:  # torch 2.0
            record(True, trace_alloc_max_entries=MOST_EVENTS, trace_alloc_record_context=True)
        self.is_on = True
        self._note(ON, f"torch keeps its newest {MOST_EVENTS} allocations and frees, with their stacks")

    def look(self, rows: Iterable[dict[str, Any]]) -> None:
        """With rows of the table ``allocator``, on the training thread: is a device almost full?"""
        if not self.is_on or "near-limit" in self._written:
            return
        ask = names.getattr_plain(sys.modules.get("torch.cuda.memory"), "mem_get_info")
        for row in rows if ask is not None else ():
            free, total = ask(int(row["device"].rpartition(":")[2]))
            unused = (row["reserved_bytes"] or 0) - (row["active_bytes"] or 0)
            if free + unused < LEAST_FREE * total:
                self.write("near-limit")
                return

    def write(self, why: str) -> None:
        """Have torch write what it knows now; at most so often for each reason. **Cost** a second or more."""
        if not self.is_on or os.getpid() != _PID or self._written.count(why) >= MOST_FILES[why]:
            return
        self._written.append(why)
        number = len(self._written)
        path = self._path(number)
        try:
            dump = names.getattr_plain(sys.modules.get("torch.cuda.memory"), "_dump_snapshot")
            if dump is None:
                return
            dump(f"{path}.part")
            os.rename(f"{path}.part", path)  # so that nobody reads half of one
            self._note("gpu-snapshot", f"{number}: {why}")
        except Exception as error:
            if names.is_foreign(error):
                raise
            self._note("gpu-history", f"no snapshot ({why}): {_line(error)}")

    def end(self) -> None:
        """As the process ends."""
        if os.getpid() != _PID or "torch" not in sys.modules:
            return
        if self.is_on:
            self.write("exit")
            return
        version = sys.modules.get("torch.version")
        builds = [names.getattr_plain(version, name) for name in ("cuda", "hip")]
        why = "this process did not use CUDA" if any(builds) else "this torch is built without CUDA"
        self._note("gpu-history", f"not recorded: {why}")


def _line(error: BaseException) -> str:
    return str(error).split("\n", 1)[0][:200]
