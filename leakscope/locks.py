"""Locks on open files, which go with the process that has them, however it ends."""

from __future__ import annotations

import sys

if sys.platform != "win32":
    import fcntl


def lock(descriptor: int, *, waits: bool = False, is_shared: bool = False) -> bool:
    """Whether no other process has it. Also true where there are no locks: on some file systems, and on Windows."""
    if sys.platform == "win32":
        return True
    how = (fcntl.LOCK_SH if is_shared else fcntl.LOCK_EX) | (0 if waits else fcntl.LOCK_NB)
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    except OSError:
        pass
    return True
