"""``record --native``: for some seconds memray watches every allocation of this process. Runs in the job, if asked for.

It opens once, when snapshots have shown that malloc hands out ever more and no object, array or tensor explains it. It
is the only thing here that imports another's package, slows the job down (allocations cost several times as much while
it is open) and sets a profile function; all three are what the user asked for. The file is read after the job's end,
by the recorder and in another process: resolving symbols takes time and memory.
"""

from __future__ import annotations

import os
import sys
from time import monotonic

from .. import journal, plain_json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

WINDOW_S = 10.0
RISES = 3  # snapshots in a row between which memory in use rose: two may be a warm-up
LEAST_GROWTH_BYTES = 8 << 20  # over these snapshots: less is no case for a microscope
MOST_EXPLAINED = 0.5  # of that growth, by Python objects, arrays and tensors


class NativeWindow:
    """``folder``: where the file goes; ``note(kind, text)`` says what became of it."""

    def __init__(self, folder: str, note: Callable[[str, str], None]) -> None:
        # Whichever thread imports this first is the main one to it, and the interpreter waits for that thread at its
        # end. memray imports it, perhaps on the agent's thread, which ends later: the job would stand still for ever.
        import threading  # noqa: F401

        self._folder = folder
        self._note = note
        self._seen: list[tuple[int, float]] = []  # [(in use, explained), ...] of the last snapshots
        self._tracker: Any = None
        self._closes_at = 0.0
        self._is_done = False

    def look(self, in_use: int | None, explained: float, name: str) -> None:
        """After each snapshot, on its thread: ``explained`` are bytes of objects, arrays and tensors on the host."""
        if self._is_done or in_use is None:
            return
        self._seen = self._seen[-RISES:] + [(in_use, explained)]
        grown = in_use - self._seen[0][0]
        rises = all(before < after for (before, _), (after, _) in zip(self._seen, self._seen[1:]))
        if len(self._seen) <= RISES or not rises or grown < LEAST_GROWTH_BYTES:
            return
        if explained - self._seen[0][1] <= MOST_EXPLAINED * grown:
            self._is_done = True
            self._open(os.path.join(self._folder, f"native-{name}"))

    def tick(self) -> None:
        """From the agent's thread: close it when its time is over."""
        if self._tracker is not None and monotonic() >= self._closes_at:
            self.close()

    def close(self) -> None:
        tracker, self._tracker = self._tracker, None
        if tracker is not None:
            tracker.__exit__(None, None, None)
            self._note("native-window", f"closed after {monotonic() - self._closes_at + WINDOW_S:.1f} s")

    def forget(self) -> None:
        """In a forked child: memray does not follow it there."""
        self._tracker = None
        self._is_done = True

    def _open(self, path: str) -> None:
        if sys.getprofile() is not None:
            self._note("native-window", "not opened: the program has a profile function of its own")
            return
        try:
            import memray
        except ImportError:
            self._note("native-window", "not opened: memray is not installed where the job runs (pip install memray)")
            return
        with os.fdopen(journal.create(path + ".json"), "wb") as stream:
            stream.write(plain_json.dumps({"executable": sys.executable, "window_s": WINDOW_S}).encode())
        tracker = memray.Tracker(
            destination=memray.FileDestination(path + ".memray", overwrite=False, compress_on_exit=False),
            native_traces=True,
            file_format=memray.FileFormat.AGGREGATED_ALLOCATIONS,  # bounded by the number of places, not of calls
        )
        tracker.__enter__()
        self._tracker = tracker
        self._closes_at = monotonic() + WINDOW_S
        self._note("native-window", f"memray watches the allocations of this process for {WINDOW_S:.0f} s")
