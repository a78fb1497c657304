"""This process's resident memory, from inside. Runs in the job."""

from __future__ import annotations

import os

from .. import journal
from ..interpreter import files

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

_PAGE = os.sysconf("SC_PAGE_SIZE") if hasattr(os, "sysconf") else 4096
# The file stays open under a number that the job does not come to. One opened for each reading would have the lowest
# that is free, on a thread of ours, if only for a moment: what the job opens just then would get another.
_open: list[Any] = [-1, None, 0]  # descriptor, the file it was, the process that it speaks of


def rss_bytes() -> int | None:
    """Resident set of this process, 2 us. None where there is no /proc."""
    return _bytes(1)


def anonymous_bytes() -> int:
    """Of it, what is not of files: those are mapped anew after a fork, page by page. 0 where there is no /proc."""
    return (_bytes(1) or 0) - (_bytes(2) or 0)


def _bytes(field: int) -> int | None:
    try:
        return int(os.pread(_descriptor(), 200, 0).split()[field]) * _PAGE
    except (OSError, IndexError, ValueError):
        return None


def _descriptor() -> int:
    descriptor, file, pid = _open
    is_ours = descriptor >= 0 and journal.identity(descriptor) == file
    if is_ours and pid == os.getpid():
        return descriptor
    if is_ours:
        journal.close(descriptor, file)  # of the parent of a fork
    descriptor = files.open_high("/proc/self/statm", os.O_RDONLY)
    _open[:] = descriptor, journal.identity(descriptor), os.getpid()
    return descriptor
