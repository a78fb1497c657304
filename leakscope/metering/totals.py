"""What metrics ask of the rows beyond what ``watching.scene`` keeps: sums, counts and floors, all of bounded size."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

from ..watching.cursor import Row

_MOST_FLOORS = 240
_WARM_UP = 0.15  # of the run: imports, first batches, optimizer state
_LEAST_FLOORS = 16
Process = tuple[int, int]  # (pid, start_ticks)


class Gain(NamedTuple):
    """What was gained and kept in a window of the run."""

    bytes: int
    per_hour: float


class Floors:
    """The lowest value of each stretch of time; stretches get longer as the run does."""

    def __init__(self) -> None:
        self._stretch_s = 1.0
        self._first_s: float | None = None
        self._lowest: dict[int, int] = {}  # a stretch without a sample has none

    def add(self, now_s: float, value: int) -> None:
        if self._first_s is None:
            self._first_s = now_s
        while (at := max(0, int((now_s - self._first_s) / self._stretch_s))) >= _MOST_FLOORS:
            self._stretch_s *= 2
            halved: dict[int, int] = {}
            for index, lowest in self._lowest.items():
                halved[index // 2] = min(lowest, halved.get(index // 2, lowest))
            self._lowest = halved
        self._lowest[at] = min(value, self._lowest.get(at, value))

    def gain(self) -> Gain | None:
        """As ``facts.series.arithmetic.gained``: from the end of the warm-up to where the tail begins, of which nobody
        knows yet whether it will be given back. None: too short to tell.
        """
        last = max(self._lowest, default=0)
        judged = [(at, value) for at, value in sorted(self._lowest.items()) if at >= _WARM_UP * last]
        if len(judged) < _LEAST_FLOORS:
            return None
        kept, lowest = [], judged[-1][1]
        for _, value in reversed(judged):
            lowest = min(lowest, value)
            kept.append(lowest)
        kept.reverse()
        until = len(judged) - max(2, round(0.1 * len(judged))) - 1
        hours = (judged[until][0] - judged[0][0]) * self._stretch_s / 3600.0
        return Gain(kept[until] - kept[0], (kept[until] - kept[0]) / hours)


@dataclass
class Totals:
    """Sums and counts of one recording so far."""

    snapshot_count: int = 0
    snapshot_pauses_s: float = 0.0
    snapshot_longest_s: float = 0.0
    alert_count: int = 0
    kill_count: int = 0
    lost_s: float = 0.0
    recorder: Row = field(default_factory=dict)  # its newest row of recorder_samples
    _private: dict[Process, int] = field(default_factory=dict)
    _swap: dict[Process, int] = field(default_factory=dict)

    def take_in(self, table: str, row: Row) -> None:
        process = row.get("pid") or 0, row.get("start_ticks") or 0
        if table == "process_samples":
            # Between the readings of USS: the anonymous pages, as long as nothing better is known.
            if row.get("uss_bytes") is not None or process not in self._private:
                self._private[process] = row.get("uss_bytes") or row.get("anon_bytes") or 0
            self._swap[process] = row.get("swap_bytes") or 0
        elif table == "processes" and row.get("died_mono_ns") is not None:
            self._private.pop(process, None)
            self._swap.pop(process, None)
        elif table == "takes" and row.get("duration_s") is not None:
            self.snapshot_count += 1
            self.snapshot_pauses_s += row["duration_s"]
            self.snapshot_longest_s = max(self.snapshot_longest_s, row["duration_s"])
        elif table == "recorder_samples":
            self.recorder = row
        elif table == "events":
            self._count(row)

    def private_bytes(self) -> int:
        return sum(self._private.values())

    def swap_bytes(self) -> int:
        return sum(self._swap.values())

    def _count(self, row: Row) -> None:
        event, value = row.get("event"), row.get("value") or 0.0
        if event == "alert":
            self.alert_count += 1
        elif event == "oom-kill-counter":
            self.kill_count += int(value)
        elif event == "output-lost":
            self.lost_s += value
