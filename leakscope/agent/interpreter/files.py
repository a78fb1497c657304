"""Opens files of ours under numbers that the job does not come to. Runs in the job.

The kernel gives a file the lowest number that is free, and no call of it opens one elsewhere. Another thread of the job
that closes 0 to have its next file there would find ours in its place, if only for an instant. So the file is opened,
given a high number and taken from the low one by C functions in a row: the interpreter changes threads between
bytecodes, and there are none.
"""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
from _functools import partial
from _operator import le
from itertools import compress

from ..journal import LEAST_FD, NEW_FILE, high

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

refusals: list[Callable[[], bool]] = []  # no file is opened where one of these is true
_libc = ctypes.PyDLL(None)  # whose functions keep other threads waiting


def open_high(path: str, flags: int) -> int:
    """A descriptor; an ``opener`` for ``open``. **Cost** 40 us. **Errors** OSError, ValueError."""
    if any(is_shut() for is_shut in refusals):
        raise OSError(errno.EPERM, "the job has set a filter of system calls")  # which may kill who opens a file
    os.access(path, os.F_OK)  # a file system that keeps its callers waiting does so here, where other threads run on
    opened: list[int] = []
    moved: list[int] = []
    is_moved = map(le, (0,), moved)  # not where so many are not allowed
    steps = (
        partial(opened.extend, map(_libc.open, (os.fsencode(path),), (flags | os.O_CLOEXEC,), (0o600,))),
        partial(moved.extend, map(_libc.fcntl, opened, (fcntl.F_DUPFD_CLOEXEC,), (LEAST_FD,))),
        partial(any, map(_libc.close, compress(opened, is_moved))),
    )
    any(map(partial.__call__, steps))
    if opened[0] < 0:  # once more, for the error that says why
        return high(os.open(path, flags | os.O_CLOEXEC, 0o600))
    return moved[0] if moved[0] >= 0 else opened[0]


def create(path: str) -> int:
    """Opens a new file that only its owner can read, under a high number; a file that is there already stays."""
    return open_high(path, NEW_FILE)
