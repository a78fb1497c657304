"""The end of what the job wrote to stderr, where that is a regular file: read back when the job has ended badly.

Runs in the recorder. The file is opened anew, for reading: the descriptor that the job shares, and the position in it,
stay as they are.
"""

from __future__ import annotations

import os
import stat
import sys
from contextlib import suppress

if sys.platform != "win32":
    import fcntl

STDERR = 2
TAIL_BYTES = 64 * 1024


class StderrFile:
    """A file that stderr goes to. ``for_job``: the job writes there itself."""

    for_job = None

    def __init__(self, start_offset: int) -> None:
        self._start_offset = start_offset

    @classmethod
    def before_start(cls) -> StderrFile | None:
        """Note where the job will begin to write; None if stderr is no regular file."""
        with suppress(OSError):
            status = os.fstat(STDERR)
            if stat.S_ISREG(status.st_mode):
                appends = fcntl.fcntl(STDERR, fcntl.F_GETFL) & os.O_APPEND
                return cls(status.st_size if appends else os.lseek(STDERR, 0, os.SEEK_CUR))
        return None

    def started(self) -> None:
        """Nothing to let go of."""

    def tail(self) -> str:
        """What the job wrote, its end; empty if that cannot be read."""
        with suppress(OSError), open(f"/proc/self/fd/{STDERR}", "rb", buffering=0) as stream:
            size = os.fstat(stream.fileno()).st_size
            start = self._start_offset if self._start_offset <= size else 0  # emptied meanwhile
            stream.seek(max(start, size - TAIL_BYTES))
            return (stream.read(TAIL_BYTES) or b"").decode("utf-8", "replace")
        return ""
