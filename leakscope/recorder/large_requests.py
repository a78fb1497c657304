"""The last large pieces of memory that the job asked for, by whom: in memory of the recorder's, whoever is killed.

What an agent knows it writes every few seconds; a process that the kernel kills as one large array is filled has asked
for it within the last. So who asks for a large piece writes it down at once (agent/allocations/sampler/requests.h), in
memory that no process of the job has to come by and no disk ever sees.
"""

from __future__ import annotations

import os
import re
import struct
import sys
from collections.abc import Iterator
from contextlib import suppress

from ..agent.allocations.calls import columns_of
from ..agent.journal import stamps
from .tree import Row

TABLE = "large_requests"
_NAME = "leakscope-requests"
_REQUEST_BYTES = 2048
_BYTES = (1 + 128) * _REQUEST_BYTES
_MOST = 1 << 60  # of bytes, ticks and nanoseconds: more is no figure
_HEAD = struct.Struct(
    "<QqQQiI"
)  # order (0: being written), CLOCK_MONOTONIC, bytes, start_ticks, pid, length of the text
# Of another Python than ours: not the user's are what lies where libraries are installed, and the standard library.
_OF_LIBRARIES = r"<(?:frozen|attrs generated|__array_function__)|.*/(?:site|dist)-packages/|.*/lib(?:64)?/python3[^/]*/"


class LargeRequests:
    """``file``: where processes of the job can open it; None where the kernel has no such memory."""

    def __init__(self) -> None:
        self.file: str | None = None
        self._descriptor = -1
        if sys.platform == "linux" and hasattr(os, "memfd_create"):
            import fcntl

            with suppress(OSError):
                self._descriptor = os.memfd_create(_NAME, os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
                os.write(self._descriptor, bytes(_BYTES))  # taken here and now, and not in the job
                fcntl.fcntl(self._descriptor, fcntl.F_ADD_SEALS, fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW)
                self.file = f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def rows(self) -> Iterator[Row]:
        """In the order in which they were asked for. What a process of the job wrote over is left out."""
        if self.file is None:
            return
        data, now = os.pread(self._descriptor, _BYTES, 0), stamps()
        slots = [data[at : at + _REQUEST_BYTES] for at in range(_REQUEST_BYTES, _BYTES, _REQUEST_BYTES)]
        for slot in sorted(slots, key=lambda slot: _HEAD.unpack_from(slot)[0]):
            order, mono_ns, size_bytes, start_ticks, pid, length = _HEAD.unpack_from(slot)
            ago_ns = (now["time_mono_ns"] or 0) - mono_ns
            if not order or max(size_bytes, start_ticks, abs(ago_ns)) >= _MOST:
                continue
            text = slot[_HEAD.size : _HEAD.size + length].decode("utf-8", "replace")
            with suppress(ValueError):
                columns = columns_of(text, lambda file: re.match(_OF_LIBRARIES, file) is None)
                times = {clock: None if at is None else at - ago_ns for clock, at in now.items()}
                yield {"pid": pid, "start_ticks": start_ticks, **times, "size_bytes": size_bytes, **columns}

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor, self.file = -1, None
