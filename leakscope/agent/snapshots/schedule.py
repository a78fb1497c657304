"""When a snapshot is due, and why. Runs in the job."""

from __future__ import annotations

import os
import sys
from time import monotonic, process_time

from ..interpreter import files
from ..interpreter.names import getattr_plain
from ..journal import FOR_ALL, REQUEST_TAKE, request_name
from ..native.memory import rss_bytes
from ..torch import cuda
from . import budget, level

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

GROWTH_FRACTION = 0.3  # of resident memory since the last snapshot, gained or given back: a snapshot is due early
GROWTH_MIN_BYTES = 64 * 1024 * 1024
GROWTH_LEAST_S = 1.0  # since the last snapshot
IMPORTS_S = 20.0  # of CPU time: a job that still imports then is looked into all the same
IMPORTS_MOST_S = 60.0  # however little of a core it gets
IMPORTS_NOTED_S = 10.0  # a snapshot that imports have put off for so long is worth a word
ELSEWHERE = 4  # looks in a row at lines that did not run up to the last snapshot: the program is in another stage
MOST_LINES = 4096  # that are known
FAILED_S = 0.25  # what a snapshot that failed is taken to have cost


_ModuleSpec: Any = type(sys.__spec__)


class Schedule:
    """Of one process. ``stress_s``: for tests of ours, a snapshot so often, whatever it costs; else None."""

    def __init__(self, folder: str, options: dict[str, Any], stress_s: float | None) -> None:
        self._folder = folder
        self._options = options
        self._stress_s = stress_s
        self._request = request_stamp(folder)
        self._module_count = 0
        self._last_take_s = 0.0
        self.level = level.Level()
        self._lines: set[str] = set()  # of the user's, that ran up to the last snapshot
        self._new_lines: set[str] = set()  # and since
        self._new_count = 0
        self.begin()

    def begin(self) -> None:
        """Now, at the start of the process: a forked child begins anew."""
        self._began = monotonic()
        self._rss_at_take: int | None = None
        self._put_off_at_s: float | None = None  # since when a take is due that imports put off
        self.budget = (
            budget.Budget(self._options["max_overhead_fraction"], self._options["take_interval_s"])
            if self._stress_s is None
            else budget.Stress(self._stress_s)
        )

    def elapsed_s(self) -> float:
        return monotonic() - self._began

    def allows(self) -> bool:
        """Whether a snapshot can be paid for now."""
        return self.budget.allows(self.elapsed_s())

    def allows_last(self) -> bool:
        """Whether the one at the end of the process can be paid for."""
        return self.budget.allows(self.elapsed_s(), budget.CREDIT_FACTOR)

    def left_at_end_s(self) -> float:
        """What may be spent on it."""
        return self.budget.left_s(self.elapsed_s(), budget.CREDIT_FACTOR)

    def reason(self, note: Callable[[str, str], None]) -> str | None:
        """Why a snapshot is due; None: none is, and ``note(kind, text)`` is told what one waits for."""
        elapsed_s = self.elapsed_s()
        modules, self._module_count = self._module_count, len(sys.modules)
        may_import = self._module_count > modules and self._may_import(elapsed_s) and self._stress_s is None
        if may_import and is_importing():
            self._say_if_put_off_for_long(elapsed_s, note)
            return None  # imports go on: all that grows now is code
        self._put_off_at_s = None
        stamp = request_stamp(self._folder)
        if stamp is not None and stamp != self._request:
            self._request = stamp
            if self.budget.allows(elapsed_s):
                return "pressure"
        if self.budget.is_due(elapsed_s, self._is_flat):
            return "schedule"
        if self._rss_at_take is not None and self.budget.allows(elapsed_s, budget.GROWTH_FACTOR):
            now = rss_bytes() or self._rss_at_take
            # In another stage less is enough: what is held there no snapshot has seen, and the program may stay in it.
            fraction = 0.0 if self._is_elsewhere() else GROWTH_FRACTION
            enough = max(GROWTH_MIN_BYTES, fraction * self._rss_at_take)
            if abs(now - self._rss_at_take) > enough and elapsed_s - self._last_take_s > GROWTH_LEAST_S:
                return "growth" if now > self._rss_at_take else "fall"
        held_back = self.budget.holds_back(elapsed_s)
        if held_back is not None:
            note("throttled", held_back)
        return None

    def _may_import(self, elapsed_s: float) -> bool:
        """Whether what is imported is still the start of the job, which takes longer on a busy machine."""
        return elapsed_s < IMPORTS_S or (process_time() < IMPORTS_S and elapsed_s < IMPORTS_MOST_S)

    def request_to(self, pid: int, start_ticks: int) -> int | None:
        """Stamp of a request that means this process alone, from ``leakscope snapshot``; None without one."""
        return request_stamp(self._folder, request_name(pid, start_ticks))

    def asks_for_all(self, reason: str, pid: int, start_ticks: int) -> bool:
        """Whether the request that a snapshot is made for wants the whole graph of the heap, in a file."""
        if reason not in ("user", "pressure"):
            return False
        name = request_name(pid, start_ticks) if reason == "user" else REQUEST_TAKE
        try:
            with open(os.path.join(self._folder, name), "rb", opener=files.open_high) as stream:
                return stream.read(len(FOR_ALL)) == FOR_ALL.encode()
        except OSError:
            return False

    def _say_if_put_off_for_long(self, elapsed_s: float, note: Callable[[str, str], None]) -> None:
        if self._put_off_at_s is None:
            self._put_off_at_s = elapsed_s if self.budget.is_due(elapsed_s) else None
        elif elapsed_s - self._put_off_at_s > IMPORTS_NOTED_S:
            self._put_off_at_s = float("inf")  # said
            imports = f"modules were being imported for more than {IMPORTS_NOTED_S:.0f} s"
            note("take-skipped", f"{imports}: leakscope waits for that in the first {IMPORTS_S:.0f} s of CPU time")

    def taken(self, cost_s: float) -> int | None:
        """A snapshot has been made. Returns resident memory."""
        self._spend(cost_s)
        self.level.begin()
        self._lines |= self._new_lines if len(self._lines) < MOST_LINES else set()
        self._new_lines, self._new_count = set(), 0
        self._rss_at_take = rss_bytes()
        return self._rss_at_take

    def failed(self) -> None:
        self._spend(FAILED_S)

    def put_off(self) -> None:
        """One was due, and something other than its price spoke against it."""
        self.budget.spend(0.0, self.elapsed_s())

    def _spend(self, cost_s: float) -> None:
        self._last_take_s = self.elapsed_s()
        self.budget.spend(cost_s, self._last_take_s)

    def look_at_level(self, is_stepping: bool) -> None:
        """``is_stepping``: the next optimizer step is near, and ends where every step ends."""
        if is_stepping:
            self.level.asked = True
        else:
            self.level.look()

    def stepped(self) -> None:
        if self.level.asked:
            self.level.look()

    def saw(self, lines: list[str]) -> None:
        """Which of the user's lines run now, the innermost of each thread."""
        if lines:
            self._new_count = 0 if self._lines.issuperset(lines) else self._new_count + 1
            self._new_lines.update(lines[: MOST_LINES - len(self._new_lines)])

    def _is_flat(self) -> bool:
        """Another snapshot would find the same: no more memory, and the program where it was, not in its next stage,
        which may hold other things, and use others. Nothing is known of what grows on a device.
        """
        return not self._is_elsewhere() and self.level.is_flat() and not cuda.is_used()

    def _is_elsewhere(self) -> bool:
        """Whether the program runs where it did not up to the last snapshot."""
        return self._new_count >= ELSEWHERE


def is_importing() -> bool:
    """Whether a module is being imported just now: a program may also put some of its own making into sys.modules.

    **Cost** 0.3 ms for 1,000 modules.
    """
    specs = (getattr_plain(module, "__spec__") for module in list(sys.modules.values()))
    return any(type(spec) is _ModuleSpec and getattr(spec, "_initializing", False) for spec in specs)


def request_stamp(folder: str, name: str = REQUEST_TAKE) -> int | None:
    """Modification time of a request for a snapshot; None without one. **Cost** 3 us.

    Nothing is raised where there is none: a debugger that comes by just then, and stops at what is raised, would here.
    """
    path = os.path.join(folder, name)
    if not os.access(path, os.F_OK):
        return None
    try:
        return os.stat(path).st_mtime_ns
    except OSError:
        return None
