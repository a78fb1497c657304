"""Segments of shared memory on the list of Python's resource tracker: made by the job, and not unlinked.

Runs in the tracker, a process of multiprocessing's own that belongs to one job. /dev/shm does not tell whose a segment
is: two jobs of one user make segments of the same names.
"""

from __future__ import annotations

import os

from ..interpreter import doors, reading

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator
    from types import FrameType
    from typing import Any

MAIN = "resource_tracker.py"
COMMAND = "multiprocessing.resource_tracker"  # is in the command line of one
MOST_SEGMENTS = 20000


def rows(main_thread: int) -> Iterator[dict[str, Any]]:
    """One row if this process is a tracker. **Cost** 2 us a segment.

    To be asked of no other: this holds frames of the main thread, and finalizes their variables where they end
    meanwhile. Those of a tracker run as long as it does.
    """
    names = _names(doors.current_frames().get(main_thread))
    if names is None:
        return
    own = [name for name in list(names)[:MOST_SEGMENTS] if name.startswith("/psm_")]
    yield {"segment_name": "psm_*", "segment_count": len(own), "segment_bytes": sum(map(_bytes, own))}


def _names(frame: FrameType | None) -> set[Any] | None:
    while frame is not None:
        if frame.f_code.co_name == "main" and os.path.basename(frame.f_code.co_filename) == MAIN:
            cache = dict(reading.frame_locals(frame)).get("cache")
            names = cache.get("shared_memory") if type(cache) is dict else None
            return names if type(names) is set else None
        frame = frame.f_back
    return None


def _bytes(name: str) -> int:
    try:
        return os.stat("/dev/shm" + name).st_blocks * 512
    except OSError:
        return 0  # unlinked meanwhile
