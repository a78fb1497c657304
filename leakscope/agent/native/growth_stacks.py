"""Where in the program malloc's memory in use grows: stacks seen while it did. Runs in the job.

Half a second apart nothing can be told: the growth of 500 ms belongs to all that ran in them. So where memory in use
rose since the last tick, the agent's thread looks again and again, a millisecond apart, and puts what malloc handed
out (or got back) between two looks down to the line that ran. A place at which a thread stands while nothing grows is
one where it waits: the other end of the interval gets the growth. What a call allocates and frees again cancels out
only where the call was watched from its beginning to its end: counted is from one quiet look to another.

Not done: to follow a main thread that mostly sleeps call by call, with a pending call that asks for itself again. It
was tried, and names the line; but when another thread set a profiler meanwhile (memray does), Python 3.11 stood still.
"""

from __future__ import annotations

from _thread import allocate_lock
from time import monotonic, thread_time

from ..interpreter import names, pending
from .allocators import malloc_in_use_bytes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable, Iterable, Mapping
    from typing import Any, Tuple

    Call = Tuple[str, int, int, str]  # file, line, first line of the function, its name
    Place = Tuple[str, str, str, int]  # stack, function, file, line

LOOKS = 60  # of one burst
LOOK_S = 0.001
CLOSE_LOOK_S = 0.00001  # after one that saw the program at work
PATIENCE_S = 0.03  # how long a burst waits for a main thread that sleeps
HAND_OVER_S = 0.0001  # for which the main thread then waits: else its work may be done before the first look
BURST_S = 0.1  # where the job keeps the GIL for long, a burst ends after so much
COST_FACTOR = 200  # the next burst is not before 200 times the CPU time of the last: 0.5 %
FLAT_COST_FACTOR = 2000  # where what rose comes back each time
STRETCH = 0.01  # of the time gone by: after an hour a burst each 36 s
AT_WORK = 0.1  # a line seen idle at fewer looks than this is no place to wait
MAX_FRAMES = 24
MAX_STACKS = 256
MAX_ROWS = 40


class GrowthStacks:
    """Bytes by stack, summed up since the start. Only the agent's thread calls it.

    ``running()``: the calls of each thread but this one, innermost first; empty where that cannot be read.
    """

    def __init__(self, running: Callable[[], Mapping[int, list[Call]]]) -> None:
        self._running = running
        self._stacks: dict[str, list[Any]] = {}  # text: [bytes, looks, looks while waiting, function, file, line]
        self._in_use: int | None = None
        self._was_rising = False
        self._began = monotonic()
        self._due_at = 0.0
        self._working = allocate_lock()  # released by the main thread as it goes on
        self._working.acquire()
        self._nobody = allocate_lock()  # never released: to wait for a time, whatever became of time.sleep
        self._nobody.acquire()
        self._goes_on = pending.PendingCall(self._main_goes_on)

    def tick(self, wake: LockType, is_flat: Callable[[], bool] = bool) -> None:
        """A burst of looks if memory in use has grown since the last tick; ends early when ``wake`` is released.

        ``is_flat()``: memory has stood still for some seconds.
        """
        before, self._in_use = self._in_use, _in_use_bytes()
        # Whether to look is decided by the tick before: one that has just seen much in use is in the midst of work
        # and would see more memory come back than was handed out.
        rising, self._was_rising = self._was_rising, before is not None and self._in_use > before
        now = monotonic()
        if not rising or now < self._due_at:
            return
        began = thread_time()
        self._burst(wake, now + BURST_S)
        cost_s = thread_time() - began
        factor = FLAT_COST_FACTOR if is_flat() else COST_FACTOR
        self._due_at = now + max(factor * cost_s, STRETCH * (now - self._began))

    def rows(self) -> list[dict[str, Any]]:
        """Rows of the table ``growth_stacks``, those that grew or shrank most."""
        ordered = sorted(self._stacks.items(), key=lambda item: -abs(item[1][0]))[:MAX_ROWS]
        return [
            {
                "function": function, "owner_file": file, "owner_line": line, "stack": text,
                "sample_count": looks, "grown_bytes": int(grown),
            }
            for text, (grown, looks, _, function, file, line) in ordered
            if grown
        ]  # fmt: skip

    def _burst(self, wake: LockType, until: float) -> None:
        places: dict[int, Place] | None = None
        in_use = 0
        was_quiet = is_quiet = False
        pending: list[tuple[list[Any], float]] = []  # [(known, bytes)] since the last quiet look
        for _ in range(LOOKS):
            if not self._wait(wake, is_quiet):
                break
            grown = _in_use_bytes() - in_use
            before, places = places, self._places()
            if before is not None:
                pending += self._shares(before, places, grown)
                is_quiet = not grown and before == places
                if is_quiet:
                    if was_quiet:
                        _credit(pending)
                    was_quiet, pending = True, []
            self._forget_some()
            if monotonic() > until:
                break
            in_use = _in_use_bytes()  # what the look itself took is nobody's growth
        if not was_quiet:  # it works without a pause: beginning and end of the burst are as good as any
            _credit(pending)

    def _places(self) -> dict[int, Place]:
        found = {thread: _place(calls) for thread, calls in self._running().items()}
        return {thread: place for thread, place in found.items() if place is not None}

    def _wait(self, wake: LockType, is_quiet: bool) -> bool:
        """Until the next look: where nothing happens, until the main thread goes on. False if the agent has to stop."""
        if is_quiet and self._goes_on.ask() and self._working.acquire(timeout=PATIENCE_S):
            woken = wake.acquire(False)
        else:
            woken = wake.acquire(timeout=LOOK_S if is_quiet else CLOSE_LOOK_S)
        if woken:
            wake.release()  # it is for the thread's own loop
        return not woken

    def _main_goes_on(self) -> None:
        if self._working.locked():
            self._working.release()
            self._nobody.acquire(timeout=HAND_OVER_S)

    def _shares(self, before: dict[int, Place], places: dict[int, Place], grown: int) -> list[tuple[list[Any], float]]:
        """[(known, bytes), ...]: ``grown`` divided among the places of all threads that are least known for waiting."""
        ends = []
        for thread, place in places.items():
            known = self._stacks.setdefault(place[0], [0.0, 0, 0] + list(place[1:]))
            known[1] += 1
            if not grown and before.get(thread) == place:
                known[2] += 1
            ends.append(known)
            other = self._stacks.get(before.get(thread, place)[0])
            if other is not None:
                ends.append(other)
        if not grown or not ends:
            return []
        least = min(map(_waiting, ends))
        if least > AT_WORK:  # done and over between two looks: by a line near by that was seen at work
            near = {tuple(known[3:5]) for known in ends}
            workers = [k for k in self._stacks.values() if tuple(k[3:5]) in near and _waiting(k) < least / 2]
            ends = workers or ends
            least = min(map(_waiting, ends))
        chosen = [known for known in ends if _waiting(known) == least]
        return [(known, grown / len(chosen)) for known in chosen]

    def _forget_some(self) -> None:
        if len(self._stacks) > MAX_STACKS:
            ordered = sorted(self._stacks.items(), key=lambda item: -abs(item[1][0]))
            self._stacks = dict(ordered[: MAX_STACKS // 2])


def _in_use_bytes() -> int:
    return malloc_in_use_bytes() or 0


def _waiting(known: list[Any]) -> float:
    """Of the looks at a place, the share at which nothing went on there."""
    return known[2] / (known[1] or 1)


def _credit(shares: Iterable[tuple[list[Any], float]]) -> None:
    for known, grown in shares:
        known[0] += grown


def _place(calls: list[Call]) -> Place | None:
    """(stack, function, file, line) of a thread: its calls from the outermost user frame on, and the innermost one.

    None if no user's code runs in it. A function that has just been entered did nothing yet: its caller counts. What
    the agent runs on the main thread is no part of it: the line interrupted is, and is known by the same stack.
    ``calls``: (file, line, first line of the function, its name), innermost first.
    """
    own = [at for at, (file, *_) in enumerate(calls) if file.startswith(names.AGENT)]
    # Without what ours called, too: a namedtuple's __new__ is code of no file.
    calls = calls[own[-1] + 1 :] if own else calls
    if calls and calls[0][1] == calls[0][2] and not calls[0][3].rpartition(".")[2].startswith("<"):
        calls = calls[1:]
    users = [at for at, (file, *_) in enumerate(calls) if names.is_user_file(file)]
    if not users:
        return None
    shown = calls[: users[-1] + 1][:MAX_FRAMES]
    stack = "\n".join(f"{file}:{line} {function}" for file, line, _, function in reversed(shown))
    file, line, _, function = calls[users[0]]
    return stack, function, file, line
