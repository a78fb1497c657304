"""Which call of a C function loses references to None: its count before and after each, for a moment. Runs in the job.

For ``--probe`` only, up to Python 3.11 (None lives for ever since), on the main thread, which a profile function then
watches. Whoever raises meanwhile is the job: nothing is caught here, and nothing of ours raises.
"""

from __future__ import annotations

import sys
from time import monotonic

from ..interpreter import names
from ..interpreter.pending import PendingCall

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

FIRST_S, LATER = 5.0, 4.0  # the first burst, and how many times later the next: 5, 20 and 80 s
MOST_BURSTS = 3
LONGEST_S = 0.5
MOST_CALLS = 50_000  # a burst's: 1 to 2 us more for each
MOST_ROWS = 20
_AT_MOST_S = 10.0
_OURS = 50  # calls one in the other: room for ours where the job is near its limit
NEITHER, INSIDE, CHANGED, AFTER = range(4)  # where the count goes on: behind a call that changed it, or did not
_NOT_NEEDED = sys.version_info >= (3, 12)


class LostReferences:
    """Bursts in which the main thread's calls are watched."""

    def __init__(self, is_asked: bool) -> None:
        self._left = MOST_BURSTS if is_asked and not _NOT_NEEDED else 0
        self._due = monotonic() + FIRST_S
        self._wait_s = FIRST_S
        self._pending = PendingCall(self._begin)
        self._is_on = False
        self._began = 0.0
        self._room = 0
        self._count = self._calls = 0
        self._part = NEITHER
        self._at: list[Any] = []  # of the last call: how many there were, how many lost some, how many came
        self._seen: dict[tuple[Any, ...], list[Any]] = {}

    def watches(self) -> bool:
        """Whether it is us who watches or did so until now, not somebody who came meanwhile, or a thread that waits."""
        return bool(self._seen) and monotonic() - self._began < _AT_MOST_S

    def forked(self) -> None:
        """In a forked child nobody asked; what the parent watched by is taken off where it was on."""
        self._left, self._seen = 0, {}
        if self._is_on:
            self._end()

    def tick(self, now: float) -> Iterator[dict[str, Any]]:
        """On the agent's thread: begin a burst that is due, or yield the rows of one that has ended."""
        if self._seen and not self._is_on:
            yield from self._rows()
            self._seen = {}
        elif self._left and not self._is_on and now >= self._due and self._pending.ask():
            self._left -= 1
            self._wait_s *= LATER
            self._due = now + self._wait_s

    def _begin(self) -> None:
        """On the main thread."""
        if sys.getprofile() is not None or sys.gettrace() is not None:
            return
        self._room = sys.getrecursionlimit() + _OURS
        sys.setrecursionlimit(self._room)
        self._at, self._calls, self._began, self._part = [], 0, monotonic(), NEITHER
        self._is_on = True
        sys.setprofile(self._told)

    def _told(self, frame: FrameType, event: str, called: Any) -> None:
        part, self._part = self._part, NEITHER
        if event[1] != "_":
            return  # a function of Python begins or ends: what it is given and leaves counts, too
        count, at = sys.getrefcount(None), self._at
        change = count - self._count
        if part != NEITHER:
            at[2] += change
        if event != "c_call":
            if part == INSIDE:
                self._part = CHANGED if change else AFTER
                self._count = count
                at[1] += change < 0
            return
        if part == AFTER and change < 0:
            at[1] += 1
        key = (frame.f_code, frame.f_lineno, called.__name__, id(type(called.__self__)))
        found = self._seen.get(key)
        if found is None:
            found = self._seen[key] = [0, 0, 0, _name_of(called)]
        found[0] += 1
        self._at, self._part, self._calls = found, INSIDE, self._calls + 1
        if self._calls >= MOST_CALLS or monotonic() - self._began > LONGEST_S:
            self._end()
        else:
            self._count = sys.getrefcount(None)

    def _end(self) -> None:
        if self._at:
            self._at[0] -= 1  # the last is not seen to its end
        if sys.getprofile() == self._told:
            sys.setprofile(None)
        if sys.getrecursionlimit() == self._room:
            sys.setrecursionlimit(self._room - _OURS)
        self._is_on = False

    def _rows(self) -> Iterator[dict[str, Any]]:
        """First the sum of all calls, then those of which most lost some."""
        seen = [(key, counts) for key, counts in self._seen.items() if counts[0]]
        yield _row([sum(counts[at] for _, counts in seen) for at in range(3)])
        for (code, line, *_), counts in sorted(seen, key=lambda one: -one[1][1])[:MOST_ROWS]:
            if counts[1]:
                yield dict(_row(counts), function=counts[3], file=code.co_filename, line=line)


def _row(counts: list[Any]) -> dict[str, Any]:
    return dict(zip(("call_count", "losing_count", "gained_count"), counts))


def _name_of(called: Any) -> str:
    """``json.loads`` or ``list.append``: of a function of C, of which these attributes are."""
    owner, module = called.__self__, called.__module__
    if module is None and owner is not None:
        module = names.type_name(type(owner))
    return f"{module}.{called.__name__}" if type(module) is str else str(called.__name__)
