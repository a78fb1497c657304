"""What looks at torch's objects leave to each other: numbers, never an object of the job. Runs in the job."""

from __future__ import annotations

import mmap
import struct

_WORDS = struct.Struct("=6Q")  # whether it is known, and the five numbers


class TensorLayout:
    """Where torch keeps a tensor's memory (``tensors.py``, ``_memory_layout``), on a page shared with all forks.

    A fork never asks torch; most are there before the first optimizer step, after which their parent knows.
    """

    def __init__(self) -> None:
        try:
            self._page: mmap.mmap | None = mmap.mmap(-1, mmap.PAGESIZE)
        except OSError:
            self._page = None

    def get(self) -> tuple[int, int, int, int, int] | None:
        """None: not found yet."""
        if self._page is None:
            return None
        is_known, base, implementation, storage, size, device = _WORDS.unpack_from(self._page)
        return (base, implementation, storage, size, device) if is_known else None

    def put(self, layout: tuple[int, int, int, int, int]) -> None:
        if self._page is not None:
            _WORDS.pack_into(self._page, 0, 0, *layout)
            self._page[0:1] = b"\1"  # last: another process may read at any moment


class Remembered:
    """Of one process; a forked child begins anew, but for ``tensor_layout``."""

    def __init__(self, tensor_layout: TensorLayout | None = None) -> None:
        self.tensor_layout = TensorLayout() if tensor_layout is None else tensor_layout

        self.tensor_s: float | None = None  # CPU time that a look at one took

        # Rounds of fingerprints of weights.
        self.fingerprint_rounds = 0
        self.fingerprinted_at = 0.0
        self.fingerprinted_bytes = 0
