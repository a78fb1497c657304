"""The few figures of a run that a person sees while it runs and at its end. Runs in the recorder."""

from __future__ import annotations

from collections import deque

from .tree import Tree

RATE_WINDOW_S = 60.0
STARTING_S = 2.0  # a program that is still being loaded does not grow
_LEAST_RATE_S = 5.0  # below this a rate is noise


class Figures:
    """Memory of the tree as it went: first, last, peak and the rate of the last minute."""

    def __init__(self) -> None:
        self.first_bytes: int | None = None
        self.last_bytes = 0
        self.peak_bytes = 0
        self.process_count = 0
        self._first_s: float | None = None
        self._recent: deque[tuple[float, int]] = deque()

    def look_at(self, tree: Tree) -> None:
        processes = list(tree)
        memory_bytes = sum(process.memory_bytes for process in processes)
        if not memory_bytes:
            return  # all are ending: their memory is gone, but not because it was freed
        self.process_count = len(processes)
        if self._first_s is None:
            self._first_s = tree.now_s
        if self.first_bytes is None or tree.now_s - self._first_s < STARTING_S:
            self.first_bytes = memory_bytes
        self.last_bytes = memory_bytes
        self.peak_bytes = max(self.peak_bytes, memory_bytes)
        self._recent.append((tree.now_s, memory_bytes))
        while self._recent[0][0] < tree.now_s - RATE_WINDOW_S:
            self._recent.popleft()

    @property
    def growth_bytes(self) -> int:
        return self.last_bytes - (self.first_bytes or 0)

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
