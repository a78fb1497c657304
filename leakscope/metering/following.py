"""Follows one recording, a part at a time, and has the figures of the moment. Single-threaded: nothing here waits."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from ..storage.meta import read_meta
from ..watching.cursor import Row
from ..watching.feeds import Feed, JournalFeed, RecordingFeed, is_recording, journal_of
from ..watching.holders import Holders
from ..watching.scene import Scene
from .exact import ExactHolders
from .readings import Reading, Readings
from .totals import Floors, Totals

LEAST_LOOK_S = 1.0


class Following:
    """A recording, and what it says now. ``is_live``: a recorder wrote to it when this began."""

    def __init__(self, output: Path, *, is_live: bool | None = None) -> None:
        """``is_live`` None: look; True also for one that has just ended. **Errors** UnreadableRecording."""
        journal = journal_of(output)
        self._feed: Feed
        meta: dict[str, Any]
        self.is_live = is_recording(journal) if is_live is None else is_live
        if self.is_live:
            self._feed = JournalFeed(output, keeps_files=False)
            meta = read_meta(journal)
        else:
            from ..storage import open_recording  # what has ended has been made a file

            recording = open_recording(output)
            self._feed, meta = RecordingFeed(recording), dict(recording.meta)
        self.scene = Scene(self._feed.start_mono_ns, holders=Holders(works_out=False))
        self.totals = Totals()
        self.floors = Floors()
        self._readings = Readings(meta, output.name)
        self._looked_s = float("-inf")
        self._exact = ExactHolders(self.scene)

    @property
    def is_over(self) -> bool:
        return self._feed.is_over

    @property
    def about(self) -> Mapping[str, str]:
        """What is recorded, in a few words."""
        return self._readings.about

    @property
    def is_behind(self) -> bool:
        """What was recorded so far has not been read to its end."""
        return self._feed.is_behind

    @property
    def descriptor(self) -> int | None:
        """Where the holders will come from; it is ready to be read when there is something."""
        return self._exact.descriptor

    def seconds_to_look(self, period_s: float) -> float:
        return 0.0 if self.is_behind else max(0.0, self._looked_s + period_s - time.monotonic())

    def look(self) -> None:
        """Take in what is new: at most half a second's worth."""
        self._looked_s = time.monotonic()
        rows = list(self._feed.poll())
        for table, row in rows:
            if type(row.get("time_mono_ns")) is int:
                self.totals.take_in(table, row)
        before_s = self.scene.now_s
        for part in _parts(rows):
            self.scene.take_in(part)
            if self.scene.now_s > before_s and self.scene.figures.first_bytes is not None:
                before_s = self.scene.now_s
                self.floors.add(before_s, self.scene.figures.last_bytes)
        if not self.is_behind:
            self._exact.begin_if_due()

    def look_at_all(self) -> None:
        """Also of a long recording, however long that takes."""
        self.look()
        while self.is_behind:
            self.look()

    def listen(self) -> None:
        """Take in holders that were worked out."""
        self._exact.take_in()

    def work_out_holders(self) -> None:
        """Now, and wait for it."""
        self._exact.wait()

    def readings(self) -> Sequence[Reading]:
        return self._readings.of(self.scene, self.totals, self.floors)

    def close(self) -> None:
        self._exact.close()
        self._feed.close()


def _parts(rows: list[tuple[str, Row]]) -> Iterator[list[tuple[str, Row]]]:
    """Rows by the second they are of, so that floors are seen of each; those without a time come first."""
    by_second: dict[int, list[tuple[str, Row]]] = {}
    for table, row in rows:
        time_ns = row.get("time_mono_ns")
        by_second.setdefault(time_ns // 10**9 if type(time_ns) is int else -1, []).append((table, row))
    return (by_second[second] for second in sorted(by_second))
