"""A figure over a whole run in a few hundred values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Generic, TypeVar

V = TypeVar("V", int, "tuple[int, ...]")

_MOST_BUCKETS = 240
_BARS = "▁▂▃▄▅▆▇█"
_FLAT_FRACTION = (
    0.1  # of the largest value: a smaller rise is not drawn over the full height, it would look like a leak
)


class History(Generic[V]):
    """The largest value of each stretch of time; stretches get longer as the run does.

    Of tuples the one with the largest first figure, whole: parts of two moments would not add up to their sum.
    """

    def __init__(self) -> None:
        self._bucket_s = 1.0
        self._first_s: float | None = None
        self._largest: list[V] = []

    def add(self, now_s: float, value: V) -> None:
        if self._first_s is None:
            self._first_s = now_s
        index = max(0, int((now_s - self._first_s) / self._bucket_s))
        while index >= _MOST_BUCKETS:
            self._bucket_s *= 2
            index //= 2
            self._largest = _halved(self._largest)
        if index < len(self._largest):
            self._largest[index] = max(self._largest[index], value)
            return
        while len(self._largest) < index:  # after a time without samples: the job was stopped
            self._largest.append(self._largest[-1])
        self._largest.append(value)

    @property
    def values(self) -> list[V]:
        return self._largest

    @property
    def seconds(self) -> float:
        """How long a time the values are of."""
        return self._bucket_s * len(self._largest)


def _halved(values: list[V]) -> list[V]:
    return [max(values[i : i + 2]) for i in range(0, len(values), 2)]


def sparkline(values: Sequence[int], width: int) -> str:
    """At most ``width`` characters, the newest at the right; empty before there are two values."""
    if len(values) < 2 or width < 2:
        return ""
    columns = min(width, len(values))
    edges = [round(i * len(values) / columns) for i in range(columns + 1)]
    shown = [max(values[start:end]) for start, end in zip(edges, edges[1:])]
    high = max(shown)
    low = min(*shown, int(high * (1 - _FLAT_FRACTION)))
    return "".join(_BARS[round((value - low) / max(1, high - low) * (len(_BARS) - 1))] for value in shown)
