"""The few figures of a run that a person sees while it runs and at its end. Runs in the recorder."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from ..rising import BLOCKS, LEAST_BLOCKS, WARM_UP, floors_at, median, rise_of, slopes
from .peaks import Peak
from .tree import Tree, held_together

RATE_WINDOW_S = 60.0
STARTING_S = 2.0  # a program that is still being loaded does not grow
_MOST_HIGH = 64  # seconds with the most memory: a snapshot and what it works out take a few
_LEAST_RATE_S = 5.0  # below this a rate is noise
STEADY_WINDOW_S = 120.0
LEAST_STEADY_S = 20.0  # most models are loaded in less
_WARM_UP_S = 5.0  # imports, the first batches, the optimizer's state: of a short run more than a share of it


class Steady(NamedTuple):
    """Growth that went on all along: bytes a second, and for how many seconds it was watched."""

    rate: float
    watched_s: float


class Course:
    """The last two minutes of a figure, one value a second: whether it rises, and how fast."""

    def __init__(self) -> None:
        self._first_s: float | None = None
        self._floors: deque[tuple[float, int]] = deque()  # (second, lowest value seen in it)

    def add(self, now_s: float, value: int) -> bool:
        """Whether a new second began: before that, what ``steady`` says has hardly changed."""
        if self._first_s is None:
            self._first_s = now_s
        if self._floors and now_s - self._floors[-1][0] < 1.0:
            second, lowest = self._floors[-1]
            self._floors[-1] = second, min(lowest, value)
            return False
        self._floors.append((now_s, value))
        while self._floors[0][0] < now_s - STEADY_WINDOW_S and len(self._floors) > 2 * BLOCKS:
            self._floors.popleft()
        return True

    def steady(self, least_s: float = LEAST_STEADY_S) -> Steady | None:
        """How the floor rose; None unless it did so all along, for ``least_s`` or more after the start-up.

        By floors, since batches come and go, and by the rule that reports have. What rises in a step, or less and less,
        is not steady: no forecast. **Cost** 0.2 ms at most.
        """
        if self._first_s is None:
            return None
        now_s = self._floors[-1][0]
        begin_s = self._first_s + max(_WARM_UP_S, WARM_UP * (now_s - self._first_s))
        begin_s = max(begin_s, self._floors[0][0])
        watched_s = now_s - begin_s
        if watched_s < least_s:
            return None
        later = [(second, float(value)) for second, value in self._floors if second >= begin_s]
        if len(later) < LEAST_BLOCKS:
            return None
        values = [value for _, value in later]
        floors = [later[at] for at in floors_at(values)]
        at_s, lows = [at for at, _ in floors], [low for _, low in floors]
        if lows[-1] <= lows[0] or not rise_of(at_s, lows).is_steady(least=0.0):
            return None
        return Steady(median(slopes(at_s, lows)), watched_s)


class Figures:
    """Memory of the tree as it went: first, last, peak and the rate of the last minute."""

    def __init__(self) -> None:
        self.first_bytes: int | None = None
        self.last_bytes = 0
        self.peak = Peak()
        self.highest: list[tuple[int, float]] = []  # (bytes, when), the most first, one a second
        self.process_count = self.most_processes = 0
        self.steady_bytes_per_s: float | None = None  # None: it does not grow steadily, or unclear yet
        self._first_s: float | None = None
        self._recent: deque[tuple[float, int]] = deque()
        self.course = Course()

    def look_at(self, tree: Tree) -> None:
        processes = list(tree)
        memory_bytes = held_together(processes)
        if not memory_bytes:
            return  # all are ending: their memory is gone, but not because it was freed
        self.process_count = len(processes)
        self.most_processes = max(self.most_processes, self.process_count)
        if self._first_s is None:
            self._first_s = tree.now_s
        if self.first_bytes is None or tree.now_s - self._first_s < STARTING_S:
            self.first_bytes = memory_bytes
        self.last_bytes = memory_bytes
        if memory_bytes > self.peak.size_bytes:
            self.peak = Peak(memory_bytes)
        self._keep_if_high(memory_bytes, tree.now_s)
        if self.course.add(tree.now_s, memory_bytes):
            steady = self.course.steady()
            self.steady_bytes_per_s = steady.rate if steady is not None else None
        self._recent.append((tree.now_s, memory_bytes))
        while self._recent[0][0] < tree.now_s - RATE_WINDOW_S:
            self._recent.popleft()

    @property
    def last(self) -> tuple[int, float]:
        """The newest sample: bytes, when."""
        return self.last_bytes, self._recent[-1][0] if self._recent else 0.0

    def most_of_last(self, seconds: float) -> int:
        """As much as was held in the last seconds: the very last sample is of a process that is going."""
        newest_s = self._recent[-1][0] if self._recent else 0.0
        return max((size for at_s, size in self._recent if at_s >= newest_s - seconds), default=0)

    def _keep_if_high(self, memory_bytes: int, now_s: float) -> None:
        """Some more than the highest: that may have been reached while a snapshot took memory of its own."""
        if len(self.highest) == _MOST_HIGH and memory_bytes <= self.highest[-1][0]:
            return
        others = [(size, at_s) for size, at_s in self.highest if int(at_s) != int(now_s)]
        same = [one for one in self.highest if int(one[1]) == int(now_s)]
        self.highest = sorted([*others, max([*same, (memory_bytes, now_s)])], reverse=True)[:_MOST_HIGH]

    @property
    def bytes_per_s(self) -> float | None:
        """Means of the last and the first third of the window compared: a single spike does not make a rate."""
        third = len(self._recent) // 3
        if third == 0:
            return None
        samples = list(self._recent)
        (early_s, early_bytes), (late_s, late_bytes) = _mean(samples[:third]), _mean(samples[-third:])
        if late_s - early_s < _LEAST_RATE_S:
            return None
        return (late_bytes - early_bytes) / (late_s - early_s)


def _mean(samples: list[tuple[float, int]]) -> tuple[float, float]:
    return sum(s for s, _ in samples) / len(samples), sum(b for _, b in samples) / len(samples)
