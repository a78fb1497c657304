"""Pages shared between a process and its forks: what a snapshot would copy of them, and when that is bearable.

Looking at an object from Python writes to its page (its reference count), of which the other processes then keep a copy
of their own. Reading the heap's graph writes to none. Runs in the job.
"""

from __future__ import annotations

from ..interpreter import files
from ..native.memory import anonymous_bytes

# A fork that has gained less than this by itself is no suspect, and most live too short for a look.
LEAST_GAINED_BYTES = 8 << 20
MOST_COPIED_SHARE = 0.25  # of what it has gained, were all that is shared copied; measured: a third of it is
# To read the graph may take as much as if so many times what it gained were left to it: an eighth of that, for as long
# as it reads. So all forks together never need half of what they hold, however many there are and whatever is free.
LEFT_OF_GAINED = 4
# A page each for its object, its attributes, what C++ has of it, and its storage. Measured: 1 KiB each of 6,000.
COPIED_BY_TENSOR_BYTES = 16 << 10
ASK_AGAIN = 1.5  # times what it had gained at the last answer: the answer costs 20 ms a GiB


class Fork:
    """In a forked child: has it memory of its own that is worth a snapshot, and what would the snapshot copy?

    A server of ``multiprocessing.Manager`` or a worker of a pool lives for long and leaks like any other process. A
    fork that only reads what its parent has gains nothing: pages it copies by that were in its resident memory before.
    """

    def __init__(self, *, copies: bool) -> None:
        """``copies``: a snapshot writes to the pages that are shared."""
        self._copies = copies
        self._at_fork_bytes = anonymous_bytes()
        self._ask_bytes: float = LEAST_GAINED_BYTES
        self._has_refused = False
        self.refusal: str | None = None  # to be said: why it got none though it has gained memory

    def is_worth_a_snapshot(self) -> bool:
        """Asked at each tick. **Cost** 3 us, until it has gained much."""
        gained = self._gained_bytes()
        if gained < self._ask_bytes:
            return False
        self._ask_bytes = ASK_AGAIN * gained
        if not self._copies:
            return True
        shared = shared_dirty_bytes()
        self._ask_bytes = max(self._ask_bytes, (shared or 0) / MOST_COPIED_SHARE)
        is_allowed = self.allows_copies(shared)
        if not is_allowed and not self._has_refused:
            self._has_refused = True
            self.refusal = would_copy(shared)
        return is_allowed

    def left_bytes(self) -> int:
        """What counts as left to a snapshot that copies nothing."""
        return max(0, LEFT_OF_GAINED * self._gained_bytes())

    def allows_copies(self, shared_bytes: int | None) -> bool:
        """None: unclear what is shared."""
        if shared_bytes is None or shared_bytes > MOST_COPIED_SHARE * self._gained_bytes():
            return False
        available = available_bytes()  # there may be many like it: a hundred of them together take no more than that
        return available is not None and shared_bytes <= available // 100

    def _gained_bytes(self) -> int:
        return anonymous_bytes() - self._at_fork_bytes


def would_copy(shared_bytes: int | None) -> str:
    """Why a fork has none: a sentence."""
    return f"a fork shares {(shared_bytes or 0) >> 20} MiB with others and a snapshot would copy them"


def parent_allows(shared_bytes: int | None) -> bool:
    """Whether a process with live forked children may copy all that they share."""
    return not shared_bytes or shared_bytes <= _allowed_bytes()


def tensors_allowed(shared_bytes: int | None) -> float:
    """How many tensors a process with live forked children may ask: what they hold is read, and copied by nobody."""
    allowed_bytes = _allowed_bytes() if shared_bytes else float("inf")
    return float("inf") if (shared_bytes or 0) <= allowed_bytes else allowed_bytes / COPIED_BY_TENSOR_BYTES


def _allowed_bytes() -> float:
    """What a process may copy of what its live forked children share."""
    available = available_bytes()
    return float("inf") if available is None else max(64 << 20, available // 50)


def shared_dirty_bytes() -> int | None:
    """Pages shared with other processes that a write would copy; 120 ms for 6 GB, so only before a snapshot."""
    return _kib_line("/proc/self/smaps_rollup", b"Shared_Dirty:")


def available_bytes() -> int | None:
    return _kib_line("/proc/meminfo", b"MemAvailable:")


def _kib_line(path: str, label: bytes) -> int | None:
    try:
        with open(path, "rb", opener=files.open_high) as stream:
            for line in stream:
                if line.startswith(label):
                    return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return None
