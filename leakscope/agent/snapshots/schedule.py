"""When a snapshot is due, and why. Runs in the job."""

from __future__ import annotations

import os
from time import monotonic

from ..interpreter import files, names
from ..journal import FOR_ALL, REQUEST_TAKE, request_name
from ..native.memory import rss_bytes
from ..torch import cuda
from . import budget, level

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence
    from typing import Any

    from ..graph.heap_graph import Call

MUCH_BYTES = 64 * 1024 * 1024  # since the last snapshot, gained or given back
MUCH_SHARE = 0.3  # of resident memory that was given back; of the time, in a stage that no snapshot has seen
IMPORT = "<frozen importlib"
IMPORTS_S = 60.0  # a job that still imports then is looked into all the same: all of it may run inside an import
IMPORTS_NOTED_S = 10.0  # a snapshot that imports have put off for so long is worth a word
ELSEWHERE = 4  # looks in a row at lines that did not run up to the last snapshot: the program is in another stage
MOST_LINES = 4096  # that are known
FAILED_S = 0.25  # what a snapshot that failed is taken to have cost


class Schedule:
    """Of one process. ``stress_s``: for tests of ours, a snapshot so often, whatever it costs; else None."""

    def __init__(self, folder: str, options: dict[str, Any], stress_s: float | None) -> None:
        self._folder = folder
        self._options = options
        self._stress_s = stress_s
        self._request = request_stamp(folder)
        self.level = level.Level()
        self._lines: set[str] = set()  # of the user's, that ran up to the last snapshot
        self._new_lines: set[str] = set()  # and since
        self._new_count = 0
        self.begin()

    def begin(self) -> None:
        """Now, at the start of the process: a forked child begins anew."""
        self._began = monotonic()
        self._rss_at_take: int | None = None
        self._first_bytes: int | None = None  # at the first snapshot after imports: what comes from then on is no code
        self._seen_bytes = 0  # the most that one met
        self._wanted_bytes = 0  # as one was asked for that shows what nobody has seen
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
        """Whether the one at the end of the process can be paid for, or is worth it."""
        elapsed_s = self.elapsed_s()
        return self.budget.allows(elapsed_s, budget.CREDIT_FACTOR) or self._shows_unseen(rss_bytes(), elapsed_s)

    def has_seen_the_end(self) -> bool:
        """Whether one at the end of the process would find what the last one did, and holds the job up for nothing."""
        return self.budget.had_first and self._is_flat()

    def left_at_end_s(self) -> float:
        """What may be spent on it."""
        return self.budget.left_s(self.elapsed_s(), budget.CREDIT_FACTOR)

    def reason(self, note: Callable[[str, str], None]) -> str | None:
        """Why a snapshot is due; None: none is, and ``note(kind, text)`` is told what one waits for."""
        elapsed_s = self.elapsed_s()
        stamp = request_stamp(self._folder)
        if stamp is not None and stamp != self._request:
            self._request = stamp
            if self.budget.allows(elapsed_s):
                return "pressure"
        if self.budget.is_due(elapsed_s, self._is_flat):
            return "schedule"
        before = self._rss_at_take
        now = self.level.nearest_bytes(before) if before is not None else None
        if now is not None and before is not None:
            lost = before - now
            if lost > max(MUCH_BYTES, MUCH_SHARE * before) and self.budget.allows(elapsed_s):
                return "fall"
            if self._shows_unseen(now, elapsed_s):
                return "growth" if lost < 0 else "fall"
        held_back = self.budget.holds_back(elapsed_s)
        if held_back is not None:
            note("throttled", held_back)
        return None

    def _shows_unseen(self, now: int | None, elapsed_s: float) -> bool:
        """Whether a snapshot is worth more than its share of the time: without it nobody would know what holds most of
        all that was gained, or what a stage holds in which the program has been for long.

        There are few of these in a long run, too: each needs twice the growth of the one before, or a third more time.
        """
        if now is None or self._rss_at_take is None or not self.budget.allows_unseen(elapsed_s):
            return False
        is_most = now - self._seen_bytes > max(MUCH_BYTES, self._seen_bytes - (self._first_bytes or self._seen_bytes))
        is_long = elapsed_s - self.budget.last_s > MUCH_SHARE * elapsed_s
        is_stage = is_long and self._is_elsewhere() and abs(now - self._rss_at_take) > MUCH_BYTES
        if is_most or is_stage:
            self._wanted_bytes = now
        return is_most or is_stage

    def waits_for_imports(self, running: Iterable[Sequence[Call]], note: Callable[[str, str], None]) -> bool:
        """Whether a snapshot that is due has to wait for what is imported now: all that grows meanwhile is code.

        ``running``: the calls of each thread, the innermost first.
        """
        elapsed_s = self.elapsed_s()
        if elapsed_s > IMPORTS_S or self._stress_s is not None or not any(map(is_importing, running)):
            self._put_off_at_s = None
            return False
        self._first_bytes = None
        if self._put_off_at_s is None:
            self._put_off_at_s = elapsed_s
        elif elapsed_s - self._put_off_at_s > IMPORTS_NOTED_S:
            self._put_off_at_s = float("inf")  # said
            waited = f"for {IMPORTS_NOTED_S:.0f} s and more, since all that grows meanwhile is code"
            note("take-skipped", f"in the first {IMPORTS_S:.0f} s of a job a snapshot waits for imports, here {waited}")
        return True

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

    def taken(self, cost_s: float, held_bytes: int | None = None) -> None:
        """A snapshot has been made. ``held_bytes``: resident memory, without what it took itself."""
        self.level.begin()
        self._lines |= self._new_lines if len(self._lines) < MOST_LINES else set()
        self._new_lines, self._new_count = set(), 0
        self._rss_at_take = held_bytes or rss_bytes() or 0
        if self._first_bytes is None:
            self._first_bytes = self._rss_at_take
        self._spend(cost_s)

    def failed(self) -> None:
        self._spend(FAILED_S)

    def put_off(self) -> None:
        """One was due, and something other than its price spoke against it."""
        self._spend(0.0)

    def _spend(self, cost_s: float) -> None:
        self.budget.spend(cost_s, self.elapsed_s())
        # It may have met less than what asked for it, a peak: that is no reason to ask again.
        self._seen_bytes = max(self._seen_bytes, self._rss_at_take or 0, self._wanted_bytes)

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


def is_importing(calls: Sequence[Call]) -> bool:
    """Whether what the user's code called last is an import, of whatever that imports and runs in turn.

    What has no file may be of a library, which makes code of a text.
    """
    for file, *_ in calls:
        if file.startswith(IMPORT):
            return True
        if not file.startswith("<") and names.is_user_file(file):
            break
    return False


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
