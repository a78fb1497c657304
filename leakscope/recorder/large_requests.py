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
_REQUESTS, _REQUEST_BYTES = 128, 2048
_HEAD = struct.Struct(
    "<QqQQiI"
)  # order (0: being written), CLOCK_MONOTONIC, bytes, start_ticks, pid, length of the text
# Of another Python than ours: not the user's are what lies where libraries are installed, and the standard library.
_OF_LIBRARIES = re.compile(
    r"<(?:frozen|attrs generated|__array_function__)|.*/(?:site|dist)-packages/|.*/lib(?:64)?/python3[^/]*/"
)


class LargeRequests:
    """``file``: where processes of the job can open it; None where the kernel has no such memory."""

    def __init__(self) -> None:
        self.file: str | None = None
        self._descriptor = -1
        if sys.platform == "linux" and hasattr(os, "memfd_create"):
            with suppress(OSError):
                self._descriptor = os.memfd_create(_NAME)
                os.write(
                    self._descriptor, bytes((1 + _REQUESTS) * _REQUEST_BYTES)
                )  # taken here and now, not in the job
                self.file = f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def rows(self) -> Iterator[Row]:
        """In the order in which they were asked for."""
        if self.file is None:
            return
        data = os.pread(self._descriptor, (1 + _REQUESTS) * _REQUEST_BYTES, 0)
        slots = (data[at : at + _REQUEST_BYTES] for at in range(_REQUEST_BYTES, len(data), _REQUEST_BYTES))
        now = stamps()
        for slot in sorted(slots, key=lambda slot: _HEAD.unpack_from(slot)[0]):
            order, mono_ns, size_bytes, start_ticks, pid, length = _HEAD.unpack_from(slot)
            if order:
                text = slot[_HEAD.size : _HEAD.size + length].decode("utf-8", "replace")
                ago_ns = (now["time_mono_ns"] or 0) - mono_ns
                times = {clock: None if at is None else at - ago_ns for clock, at in now.items()}
                columns = columns_of(text, lambda file: _OF_LIBRARIES.match(file) is None)
                yield {"pid": pid, "start_ticks": start_ticks, **times, "size_bytes": size_bytes, **columns}

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor, self.file = -1, None
