"""Which snapshots leave the whole graph of the heap in a file. Runs in the job.

With ``--full-heap`` all do, and of the files the first and the last two are kept: as the program began, at work, and as
it ended. Without it one does, the first that is made because a limit is near, and any that a person asks for so.
"""

from __future__ import annotations

import os

from ..graph.whole import SUFFIX, File

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from ..outbox import Outbox

MOST_FILES = 3


class FullHeap:
    """Of one process."""

    def __init__(self, options: dict[str, Any], outbox: Outbox) -> None:
        self._is_always = bool(options["full_heap"])
        self._outbox = outbox
        self.forked()

    def forked(self) -> None:
        """In a forked child: what is there is the parent's."""
        self._kept: list[str] = []
        self._had_pressure = False
        self.is_asked = False  # who asked for the snapshot that is due asked for all of it

    def file_of(self, take: int, reason: str) -> File | None:
        """Where the whole graph of this snapshot is to be; None: nowhere."""
        is_near = reason == "pressure" and self.is_asked and not self._had_pressure
        if not (self._is_always or is_near or (reason == "user" and self.is_asked)):
            return None
        self._had_pressure = self._had_pressure or is_near
        outbox = self._outbox
        name = f"heap-{outbox.pid}-{outbox.start_ticks}-{take}{SUFFIX}"
        identity = {"pid": outbox.pid, "start_ticks": outbox.start_ticks, "take": take}
        return File(os.path.join(outbox.folder, name), identity, may_be_in_memory=reason != "pressure")

    def made(self, file: File | None) -> None:
        """Afterwards."""
        if file is None:
            return
        if file.refusal is not None:
            self._outbox.note("full-heap", f"no whole graph of snapshot {file.identity['take']}: {file.refusal}")
        if not file.is_written:
            return
        self._kept.append(file.path)
        if self._is_always and len(self._kept) > MOST_FILES:
            try:
                os.unlink(self._kept.pop(1))
            except OSError:
                pass
