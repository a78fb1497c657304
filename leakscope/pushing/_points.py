"""Rows of a recording as they come, made into points: what is to be drawn, every few seconds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from ..watching.scene import Scene
from ..words import printable
from ._tracker import PREFIX, Point

EVERY_S = 5.0
_ENDING_S = 1.0
_ALARMS = ("alert", "pressure", "oom-kill-counter")
Row = dict[str, Any]


class Points:
    """Takes in rows; gives a point for every ``EVERY_S`` seconds of the run, and what came up meanwhile."""

    def __init__(self, start_mono_ns: int | None, start_unix_s: float) -> None:
        self._scene = Scene(start_mono_ns)
        self._start_unix_s = start_unix_s
        self._next_s, self._last_s = 0.0, -1.0
        self._peak_bytes = 0
        self._alarms: list[str] = []

    def of(self, rows: Iterable[tuple[str, Row]]) -> Iterator[Point]:
        """The points that these rows complete; the last one when the run ends."""
        ended, together = False, []
        for table, row in rows:
            ended |= table == "events" and row.get("event") == "end"
            if table == "events" and row.get("event") in _ALARMS:
                self._alarms.append(printable(str(row.get("text") or row["event"])))
            together.append((table, row))
            time_ns = row.get("time_mono_ns")
            if table == "process_samples" and type(time_ns) is int and self._seconds(time_ns) >= self._next_s:
                yield from self._take_in(together)
                together = []
        if together:
            yield from self._take_in(together, is_last=ended)

    def alerts(self) -> list[str]:
        """What came up since the last call."""
        alarms, self._alarms = self._alarms, []
        return alarms

    def _seconds(self, time_ns: int) -> float:
        return (time_ns - (self._scene.start_mono_ns or time_ns)) / 1e9

    def _take_in(self, rows: list[tuple[str, Row]], is_last: bool = False) -> Iterator[Point]:
        scene = self._scene
        scene.take_in(rows)
        self._peak_bytes = max(self._peak_bytes, scene.peak.size_bytes)
        is_due = scene.now_s >= self._next_s or (is_last and scene.now_s > self._last_s)
        if is_due and scene.figures.last_bytes:
            self._last_s = scene.now_s
            self._next_s = (scene.now_s // EVERY_S + 1) * EVERY_S
            figures = {PREFIX + name: float(value) for name, value in self._figures(is_last) if value is not None}
            yield Point(scene.now_s, self._start_unix_s + scene.now_s, figures)

    def _figures(self, is_last: bool) -> Iterator[tuple[str, float | None]]:
        scene = self._scene
        yield "time_s", round(scene.now_s, 3)
        yield "memory_bytes", scene.figures.most_of_last(_ENDING_S) if is_last else scene.figures.last_bytes
        yield "peak_bytes", self._peak_bytes
        yield "process_count", scene.figures.process_count
        rate = scene.figures.bytes_per_s
        yield "growth_bytes_per_hour", None if rate is None else round(rate * 3600)
        by_role: dict[str, int] = {}
        for member in () if is_last else scene.last_alive():
            by_role[member.role] = by_role.get(member.role, 0) + member.memory_bytes
        for role, size in sorted(by_role.items()):
            yield f"memory_bytes_of_{role.replace('-', '_')}", size
        pace = scene.fastest()
        yield "step", None if pace is None else pace.step
        nearest = scene.limits.nearest
        if nearest is not None:
            yield "limit_used_fraction", round(nearest.used_fraction, 4)
            yield "seconds_to_limit", nearest.seconds_left
        for gpu in scene.present_gpus():
            if gpu.pid is None:
                yield f"{gpu.name.split()[0].replace(':', '_')}_used_bytes", gpu.used_bytes
