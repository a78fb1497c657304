"""What looks at torch's objects leave to each other: numbers, never an object of the job. Runs in the job."""

from __future__ import annotations

import mmap
import struct

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Tuple  # it is read by Python 3.8, too

    TensorPlaces = Tuple[int, int, int, int, int, int]

_WORDS = struct.Struct("=7Q")  # whether it is known, and the six numbers


class TensorLayout:
    """Where torch keeps a tensor's memory (``tensors.py``, ``_memory_layout``), on a page shared with all forks.

    A fork never asks torch; most are there before the first optimizer step, after which their parent knows.
    """

    def __init__(self) -> None:
        try:
            self._page: mmap.mmap | None = mmap.mmap(-1, mmap.PAGESIZE)
        except OSError:
            self._page = None

    def get(self) -> TensorPlaces | None:
        """None: not found yet."""
        if self._page is None:
            return None
        is_known, *places = _WORDS.unpack_from(self._page)
        base, implementation, storage, size, device, count = places
        return (base, implementation, storage, size, device, count) if is_known else None

    def put(self, layout: TensorPlaces) -> None:
        if self._page is not None:
            _WORDS.pack_into(self._page, 0, 0, *layout)
            self._page[0:1] = b"\1"  # last: another process may read at any moment


class GraphSizes:
    """What autograd graphs were seen to be: by the shape and type of the tensor that they belong to, and of all.

    Looks at them leave traces, so that only some can be looked at; these tell of the others.
    """

    ENOUGH = 8  # looks in one snapshot, which then need no older ones beside them
    MOST = 256  # shapes; of one that is not among them tells what was seen of all

    def __init__(self) -> None:
        self._sums: dict[object, tuple[int, int, int, int]] = {}

    def note(self, shape: object, looks: int, operations: int, saved_bytes: int, is_on: int) -> None:
        """Sums over so many looks. ``is_on``: where most of the bytes are, as in a tie."""
        for key in (shape, None):
            older = self._sums.pop(key, (0, 0, 0, 0)) if key is None or looks < self.ENOUGH else (0, 0, 0, 0)
            self._sums[key] = looks + older[0], operations + older[1], saved_bytes + older[2], is_on
        if len(self._sums) > self.MOST:
            del self._sums[next(iter(self._sums))]

    def usual(self, shape: object) -> tuple[int, int, int] | None:
        """(operations, bytes saved, where these are) of one graph; None where none was ever looked at."""
        known = self._sums.get(shape) or self._sums.get(None)
        return None if known is None else (known[1] // known[0], known[2] // known[0], known[3])


class Remembered:
    """Of one process; a forked child begins anew, but for ``tensor_layout``."""

    def __init__(self, tensor_layout: TensorLayout | None = None) -> None:
        self.tensor_layout = TensorLayout() if tensor_layout is None else tensor_layout

        self.tensor_s: float | None = None  # CPU time that a look at one took
        self.graphs = GraphSizes()
        self.history_places: tuple[int, ...] | None = None  # as HeapGraph.find_histories says
        self.history_tries = 3  # to find that out

        # Rounds of fingerprints of weights.
        self.fingerprint_rounds = 0
        self.fingerprinted_at = 0.0
        self.fingerprinted_bytes = self.trained_bytes = 0
